/* algo/linear_options.c - the options of linear models, and the names that people train them by.
 *
 * "svm" and "lasso" are "linear" with other defaults. */
#include <stddef.h>
#include <stdio.h>

#include "algo/column_options.h"
#include "algo/column_words.h"
#include "algo/linear_job.h"
#include "algo/linear_model.h"
#include "algo/linear_stream.h"

static const char *const losses[] = {"logistic", "hinge", "squared", "softmax", NULL};
static const char *const solver_names[] = {"sgd",   "dbpg",   "emso-gd", "emso-cd", "cd",
                                           "lbfgs", "newton", "auto",    NULL};
static const char *const methods[] = {
    [RBT_L1_PROXIMAL] = "proximal", [RBT_L1_TRUNCATE] = "truncate", NULL};
static const char *const blocks_by[] = {"hash", "range", NULL};
static const char *const scales[] = {
    [RBT_SCALE_FEATURES] = "features", [RBT_SCALE_NONE] = "none", [RBT_SCALE_AUTO] = "auto", NULL};

/* Those that all algorithms have, and two more. */
static const char *const schedules[] = {
    [RBT_SCHEDULE_CONSTANT] = "constant", [RBT_SCHEDULE_SQRT] = "sqrt",
    [RBT_SCHEDULE_DECAY] = "decay",       [RBT_LINEAR_COOL] = "cool",
    [RBT_LINEAR_SCHEDULE_AUTO] = "auto",  NULL};

static const char *const assigns[] = {
    [RBT_ASSIGN_STATIC] = "static", [RBT_ASSIGN_DYNAMIC] = "dynamic", NULL};
static const char *const storages[] = {[RBT_STORAGE_AUTO] = "auto",
                                       [RBT_STORAGE_MEMORY] = "memory",
                                       [RBT_STORAGE_DISK] = "disk",
                                       [RBT_STORAGE_BOTH] = "memory-and-disk",
                                       NULL};

#define AT(field) offsetof(struct rbt_linear_config, field)
static const struct rbt_option linear_options[] = {
    {.name = "loss",
     .type = RBT_OPTION_CHOICE,
     .choices = losses,
     .value = "logistic",
     .offset = AT(loss),
     .help = "What is minimised. logistic and hinge need two labels; softmax takes any number of "
             "classes, whose labels may be any numbers or texts; squared is for quantities."},
    {.name = "l2",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .offset = AT(l2),
     .help = "Weight of ||w||^2 / 2 in the objective per example. If it is not given, it is looked "
             "for on examples that are held out, and told in the summary."},
    {.name = "l1",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .offset = AT(l1),
     .help = "Weight of ||w||_1, which makes weights exactly zero."},
    {.name = "l1-method",
     .type = RBT_OPTION_CHOICE,
     .choices = methods,
     .value = "proximal",
     .offset = AT(l1_method),
     .help = "proximal moves all weights towards zero, truncate only those up to --theta."},
    {.name = "theta",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e30,
     .value = "1",
     .offset = AT(theta),
     .help = "Truncation leaves weights alone that are larger than this."},
    {.name = "lr",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .offset = AT(lr),
     .help = "Step size at the start: with --scale features in units that fit the data, 1 being a "
             "full step; with --scale none as it is. By default 2; with a rule that takes "
             "gradients it is the rule's lr, and has the rule's default."},
    {.name = "schedule",
     .type = RBT_OPTION_CHOICE,
     .choices = schedules,
     .value = "auto",
     .offset = AT(schedule),
     .help = "Step size after t passes: lr, lr / sqrt(1 + decay t), or lr / (1 + decay t); cool is "
             "the last one times 1 - t / epochs, so that steps end at nothing and so does their "
             "noise. auto is cool, but decay with a "
             "rule, --target or --patience."},
    {.name = "decay",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .offset = AT(decay),
     .help = "How fast the step size falls, per pass. By default 4; of cool 2 / "
             "number of workers."},
    {.name = "scale",
     .type = RBT_OPTION_CHOICE,
     .choices = scales,
     .value = "auto",
     .offset = AT(scale),
     .help = "features gives rare and small features larger steps and limits each step, so that "
             "raw counts need no tuning; none is textbook gradient descent; auto is none for rules "
             "that adapt to the gradients, and else features."},
    {.name = "batch",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e6,
     .value = "1",
     .unit = "examples",
     .offset = AT(batch),
     .help = "Examples whose mean makes one step."},
    {.name = "solver",
     .type = RBT_OPTION_CHOICE,
     .choices = solver_names,
     .value = "auto",
     .offset = AT(solver),
     .help = "How it is minimised. sgd: stochastic gradient descent. dbpg: delayed block proximal "
             "gradient, exact and with exact zeros; for --l1. emso-gd, emso-cd: large minibatches, "
             "each minimised by the workers and averaged. cd: coordinate descent, for --loss "
             "squared. lbfgs: the classical one, for --l2. newton: exact, for up to some hundred "
             "features. auto: newton if features are few, lbfgs if there are more but examples "
             "have many of them, unless other options ask for sgd, such as --epochs, --rule, --lr, "
             "--l1 or a --consistency of your own."},
    {.name = "blocks",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .offset = AT(blocks),
     .help = "dbpg: blocks that the features are dealt into, one per clock. 0 is 64, or 32 "
             "times --delay if that is more."},
    {.name = "blocks-by",
     .type = RBT_OPTION_CHOICE,
     .choices = blocks_by,
     .value = "hash",
     .offset = AT(blocks_by),
     .help = "dbpg: which features make a block: hash mixes them, so that those of a block have "
             "little to do with each other; range takes neighbours."},
    {.name = "delay",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 60,
     .value = "0",
     .unit = "clocks",
     .offset = AT(delay),
     .help = "dbpg: how many blocks a worker may go on to before the step of one is known. This is "
             "what --consistency is to other solvers."},
    {.name = "kkt",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e6,
     .value = "8",
     .unit = "passes",
     .offset = AT(kkt),
     .help = "dbpg: weights that are zero and whose gradient is below --l1 are left alone, but in "
             "every pass with a multiple of this number; 1 leaves none alone."},
    {.name = "kkt-margin",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1,
     .value = "0.1",
     .offset = AT(kkt_margin),
     .help = "dbpg: by how much it must be below, as a part of --l1."},
    {.name = "minibatch",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e12,
     .value = "100k",
     .unit = "examples",
     .offset = AT(minibatch),
     .help = "emso: what all workers together work on in a clock, unless --clocks-per-epoch is "
             "given."},
    {.name = "gamma",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "0.01",
     .offset = AT(gamma),
     .help = "emso: how close to the common weights a worker stays, in the objective per "
             "example."},
    {.name = "inner",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .offset = AT(inner),
     .help = "emso: steps of a minibatch, or with emso-cd passes over its features. 0 is 5 steps "
             "or 2 passes."},
    {.name = "bias",
     .type = RBT_OPTION_FLAG,
     .value = "true",
     .offset = AT(has_bias),
     .help = "Learn a constant that is added to every margin and is not regularised."},
    {.name = "combine",
     .type = RBT_OPTION_CHOICE,
     .choices = rbt_training_combines,
     .value = "auto",
     .offset = AT(combine),
     .help = "What becomes of the moves of several workers: their mean, weighted by how often each "
             "uses the feature, or their sum, which goes further but needs short clocks. auto is "
             "the sum for rare features and nearer to the mean the more examples of a clock have "
             "the feature, as far as that is safe; and the sum for rules that weigh moves. Not for "
             "rules that take gradients."},
    {.name = "rebalance",
     .type = RBT_OPTION_FLAG,
     .offset = AT(is_rebalanced),
     .help = "Workers that take over 20% longer than the fastest give 5% of their examples away at "
             "each clock."},
    {.name = "assign",
     .type = RBT_OPTION_CHOICE,
     .choices = assigns,
     .value = "static",
     .offset = AT(assign),
     .help = "Who works on which examples: static gives every worker its share before training; "
             "dynamic cuts a pass into parts and gives one to whoever is idle, so that fast "
             "workers do more, and again to another one if a worker is slow. Every worker "
             "then holds a copy of all weights."},
    {.name = "parts",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .offset = AT(parts),
     .help = "Parts of a pass, with --assign dynamic. 0 is 8 per worker and clock."},
    RBT_COLUMN_OPTIONS(AT),
    {.name = "dictionary",
     .type = RBT_OPTION_FLAG,
     .offset = AT(has_dictionary),
     .help = "Number the texts of columns in the order in which they are met, and keep the list "
             "with the model, instead of hashing them: no two are the same feature, features have "
             "small numbers, and texts that training has not seen are counted."},
    {.name = "min-count",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e9,
     .value = "0",
     .unit = "examples",
     .offset = AT(count_min),
     .help = "Leave out features that fewer examples of the training data have."},
    {.name = "memory-limit",
     .type = RBT_OPTION_INT,
     .min = 1 << 24,
     .max = 9e18,
     .unit = "bytes",
     .offset = AT(memory_limit),
     .help = "Memory that the whole process may use: 500M, 4Gi. Examples that do not fit are kept "
             "on disk and read again in every pass; results are those of --storage memory."},
    {.name = "storage",
     .type = RBT_OPTION_CHOICE,
     .choices = storages,
     .value = "auto",
     .offset = AT(storage),
     .help = "Where examples are: memory, disk, or memory-and-disk, which is memory as far as it "
             "goes. auto is memory, and with --memory-limit memory-and-disk."},
    {.name = "cache",
     .type = RBT_OPTION_TEXT,
     .unit = "DIR",
     .offset = AT(cache),
     .help = "Directory for examples on disk; about as large as the text, and gone at the end. By "
             "default $TMPDIR or /var/tmp."},
};
#undef AT

static const struct rbt_algo_export exports[] = {
    {.name = "liblinear",
     .summary = "liblinear's model, for its liblinear-predict",
     .write = rbt_linear_model_export},
    {.name = "csv",
     .summary = "a line per feature: its name or number, its weights",
     .write = rbt_linear_model_export_csv},
    {.name = "dictionary",
     .summary = "what features stand for: feature column=text",
     .write = rbt_column_words_export},
    {0}};

static void describe(const struct rbt_model *model, FILE *out)
{
    const enum rbt_loss loss = rbt_linear_model_loss(model);
    const struct rbt_model_array *classes = rbt_model_array_find(model, "classes");
    fprintf(out, "  loss %d is    %s", (int)loss, losses[loss]);
    if (classes != NULL) {
        fprintf(out, " of %zu classes", classes->count);
    }
    fputs(".\n", out);
    rbt_column_options_describe(model, out);
    if (rbt_model_texts_find(model, "dictionary") != NULL) {
        fputs("  its texts    are shown by \"rubato export --format dictionary\".\n", out);
    }
}

/* What "linear" has under every name. */
#define COMMON                                                                                     \
    .model_kind = RBT_MODEL_LINEAR, .options = linear_options,                                     \
    .option_count = sizeof linear_options / sizeof linear_options[0],                              \
    .config_size = sizeof(struct rbt_linear_config), .costs = rbt_linear_costs,                    \
    .cost_count = RBT_LINEAR_COSTS, .epochs_default = RBT_LINEAR_EPOCHS,                           \
    .epochs_of = rbt_linear_epochs, .train = rbt_linear_train,                                     \
    .predict = rbt_linear_model_predict, .evaluate = rbt_linear_model_evaluate

const struct rbt_algo rbt_linear = {
    .name = "linear",
    .summary = "Logistic regression, of two classes or more; linear regression.",
    .examples = "  rubato train linear --data train.svm --eval test.svm --model m.rbt\n"
                "  rubato train linear --data digits.svm --loss softmax --model m.rbt\n",
    COMMON,
    .exports = exports,
    .describe = describe,
};

/* The same under the names that people look for. Their models are those of "linear". */
static const struct rbt_algo_default svm_defaults[] = {{"loss", "hinge"}, {0}};
static const struct rbt_algo_default lasso_defaults[] = {
    {"loss", "squared"}, {"l1", "0.01"}, {"l2", "0"}, {"solver", "cd"}, {0}};

const struct rbt_algo rbt_svm = {
    .name = "svm",
    .summary = "Support vector machines: \"linear\" with the hinge loss.",
    .examples = "  rubato train svm --data train.svm --eval test.svm --model m.rbt\n"
                "  rubato train svm --data train.svm --l1 1e-5 --l2 0\n",
    .defaults = svm_defaults,
    COMMON,
};

const struct rbt_algo rbt_lasso = {
    .name = "lasso",
    .summary = "Sparse linear regression: \"linear\" with an L1 penalty.",
    .examples = "  rubato train lasso --data train.csv --l1 0.1 --model m.rbt\n"
                "  rubato train lasso --data train.csv --l1 0.1 --l2 0.1   # an elastic net\n",
    .defaults = lasso_defaults,
    COMMON,
};
#undef COMMON
