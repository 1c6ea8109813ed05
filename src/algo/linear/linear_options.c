/* algo/linear/linear_options.c - the options of linear models, and the names that people train them
 * by.
 *
 * "svm" and "lasso" are "linear" with other defaults. */
#include <stddef.h>
#include <stdio.h>

#include "algo/frame/column_options.h"
#include "algo/frame/column_words.h"
#include "algo/linear/linear_job.h"
#include "algo/linear/linear_model.h"
#include "algo/linear/linear_stream.h"

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
     .group = RBT_GROUP_MODEL,
     .type = RBT_OPTION_CHOICE,
     .choices = losses,
     .value = "logistic",
     .offset = AT(loss),
     .help = "Loss to minimise. logistic and hinge need two labels; softmax takes any number of "
             "classes, whose labels may be numbers or texts; squared predicts a number."},
    {.name = "l2",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .offset = AT(l2),
     .help = "Weight of ||w||^2 / 2 in the objective per example. By default training chooses it "
             "on held-out examples and the summary reports it."},
    {.name = "l1",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .offset = AT(l1),
     .help = "Weight of ||w||_1 in the objective; makes weights exactly zero."},
    {.name = "bias",
     .type = RBT_OPTION_FLAG,
     .value = "true",
     .offset = AT(has_bias),
     .help = "Learn a constant term, which is not regularised."},
    {.name = "solver",
     .type = RBT_OPTION_CHOICE,
     .choices = solver_names,
     .value = "auto",
     .offset = AT(solver),
     .help = "Method of minimisation. sgd: stochastic gradient descent. dbpg: delayed block "
             "proximal gradient, for --l1; finds the exact minimum and exact zeros. emso-gd, "
             "emso-cd: workers minimise large minibatches and average the results. cd: "
             "coordinate descent, for --loss squared. lbfgs: limited memory BFGS, for --l2. "
             "newton: Newton's method, exact, for up to some hundred features. cd, lbfgs and "
             "newton need no options of their own. auto: newton for few features, lbfgs for more "
             "features in dense examples, otherwise sgd; always sgd if another option needs it, "
             "such as --epochs, --rule, --lr, --l1 or a --consistency other than bsp."},
    {.name = "lr",
     .group = RBT_GROUP_SGD,
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .offset = AT(lr),
     .help = "Initial step size. With --scale features it is relative: 1 is a full step; with "
             "--scale none it is absolute. By default 2; dbpg, emso and cd take 1. With a rule "
             "that takes gradients it sets the rule's lr and has the rule's default."},
    {.name = "schedule",
     .type = RBT_OPTION_CHOICE,
     .choices = schedules,
     .value = "auto",
     .offset = AT(schedule),
     .help = "Step size after t passes. constant: lr. sqrt: lr / sqrt(1 + decay t). decay: lr / "
             "(1 + decay t). cool: that of decay times 1 - t / epochs, which ends at zero. auto: "
             "cool, or decay with a rule, --target or --patience."},
    {.name = "decay",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .offset = AT(decay),
     .help = "Decay of the step size per pass. By default 4; with cool 2 / number of workers."},
    {.name = "scale",
     .type = RBT_OPTION_CHOICE,
     .choices = scales,
     .value = "auto",
     .offset = AT(scale),
     .help = "Scaling of steps by feature. features: larger steps for rare and small features "
             "and a limit on every step, so that raw counts need no tuning. none: textbook "
             "gradient descent. auto: none for rules that adapt to gradients, otherwise features."},
    {.name = "batch",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e6,
     .value = "1",
     .unit = "examples",
     .offset = AT(batch),
     .help = "Examples whose mean gradient makes one step."},
    {.name = "combine",
     .type = RBT_OPTION_CHOICE,
     .choices = rbt_training_combines,
     .value = "auto",
     .offset = AT(combine),
     .help = "How the updates of several workers become one. mean: their mean, weighted by how "
             "often each worker uses the feature. sum: their sum, which moves further and needs "
             "short clocks. auto: the sum for rare features, closer to the mean the more "
             "examples of a clock have the feature; the sum for rules that weigh moves. Not for "
             "rules that take gradients."},
    {.name = "blocks",
     .group = RBT_GROUP_DBPG,
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .offset = AT(blocks),
     .help = "Number of blocks of features; every clock updates one. 0 is 64, or 32 times "
             "--delay if that is more."},
    {.name = "delay",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 60,
     .value = "0",
     .unit = "clocks",
     .offset = AT(delay),
     .help = "Blocks that a worker may start before it knows the step of an earlier one. dbpg "
             "uses it in place of --consistency."},
    {.name = "kkt",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e6,
     .value = "8",
     .unit = "passes",
     .offset = AT(kkt),
     .help = "Skip weights that are zero and whose gradient is below --l1, except in every Nth "
             "pass; 1 skips none."},
    {.name = "minibatch",
     .group = RBT_GROUP_EMSO,
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e12,
     .value = "100k",
     .unit = "examples",
     .offset = AT(minibatch),
     .help = "Examples of a clock, all workers together, unless --clocks-per-epoch is given."},
    {.name = "gamma",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "0.01",
     .offset = AT(gamma),
     .help = "Penalty on the distance between a worker's weights and the common weights, in the "
             "objective per example."},
    {.name = "inner",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .offset = AT(inner),
     .help = "Steps per minibatch, or with emso-cd passes over its features. 0 is 5 steps or 2 "
             "passes."},
    {.name = "assign",
     .group = RBT_GROUP_CLUSTER,
     .type = RBT_OPTION_CHOICE,
     .choices = assigns,
     .value = "static",
     .offset = AT(assign),
     .help = "Assignment of examples to workers. static: every worker has its share before "
             "training starts. dynamic: a pass is cut into parts and every idle worker takes the "
             "next one, so that fast workers do more; parts of slow workers are assigned again. "
             "With dynamic every worker holds all weights."},
    {.name = "parts",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .offset = AT(parts),
     .help = "Parts of a pass with --assign dynamic. 0 is 8 per worker and clock."},
    {.name = "rebalance",
     .type = RBT_OPTION_FLAG,
     .offset = AT(is_rebalanced),
     .help = "At each clock, workers that are over 20% slower than the fastest give away 5% of "
             "their examples."},
    RBT_COLUMN_OPTIONS(AT),
    {.name = "dictionary",
     .type = RBT_OPTION_FLAG,
     .offset = AT(has_dictionary),
     .help = "Number the texts of columns in order of appearance and store the list in the "
             "model, instead of hashing them: no two texts share a feature, features have small "
             "numbers, and predict counts unknown texts."},
    {.name = "min-count",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e9,
     .value = "0",
     .unit = "examples",
     .offset = AT(count_min),
     .help = "Leave out features that occur in fewer training examples."},
    {.name = "memory-limit",
     .type = RBT_OPTION_INT,
     .min = 1 << 24,
     .max = 9e18,
     .unit = "bytes",
     .offset = AT(memory_limit),
     .help = "Memory limit of the process, such as 500M or 4Gi. Examples that do not fit are "
             "kept on disk and read again in every pass; results equal those of --storage memory."},
    {.name = "storage",
     .type = RBT_OPTION_CHOICE,
     .choices = storages,
     .value = "auto",
     .offset = AT(storage),
     .help = "Where examples are kept. memory-and-disk moves to disk what memory cannot hold. "
             "auto: memory, or memory-and-disk with --memory-limit."},
    {.name = "cache",
     .type = RBT_OPTION_TEXT,
     .unit = "DIR",
     .offset = AT(cache),
     .help = "Directory for examples on disk; needs about the size of the text and is emptied at "
             "the end. By default $TMPDIR or /var/tmp."},
    {.name = "l1-method",
     .group = RBT_GROUP_EXPERIMENTS,
     .type = RBT_OPTION_CHOICE,
     .choices = methods,
     .value = "proximal",
     .offset = AT(l1_method),
     .help = "How sgd applies --l1: proximal shrinks all weights, truncate only those of at most "
             "--theta."},
    {.name = "theta",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e30,
     .value = "1",
     .offset = AT(theta),
     .help = "Largest weight that --l1-method truncate shrinks."},
    {.name = "blocks-by",
     .type = RBT_OPTION_CHOICE,
     .choices = blocks_by,
     .value = "hash",
     .offset = AT(blocks_by),
     .help = "How dbpg assigns features to blocks. hash mixes them, so that the features of a "
             "block are nearly independent; range takes neighbours."},
    {.name = "kkt-margin",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1,
     .value = "0.1",
     .offset = AT(kkt_margin),
     .help = "How far below --l1 the gradient of a weight must be before dbpg skips it, as a "
             "fraction of --l1."},
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
    .summary = "Logistic regression with two or more classes; linear regression.",
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
