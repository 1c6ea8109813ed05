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

#define ENTRY(kind, ...)         RBT_OPTION_ENTRY(struct rbt_linear_config, kind, __VA_ARGS__)
#define COLUMN(kind, field, ...) ENTRY(kind, columns.field, __VA_ARGS__)
static const char *const groups[] = {RBT_GROUP_SGD, RBT_GROUP_DBPG, RBT_GROUP_EMSO, NULL};

static const struct rbt_option linear_options[] = {
    RBT_LINEAR_OPTIONS(ENTRY) RBT_COLUMN_OPTIONS(COLUMN, COLUMN) RBT_LINEAR_MORE_OPTIONS(ENTRY)};

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
    .model_kind = RBT_MODEL_LINEAR, .groups = groups, .options = linear_options,                   \
    .option_count = sizeof linear_options / sizeof linear_options[0],                              \
    .config_size = sizeof(struct rbt_linear_config), .costs = rbt_linear_costs,                    \
    .cost_count = RBT_LINEAR_COSTS, .epochs_default = RBT_LINEAR_EPOCHS,                           \
    .epochs_of = rbt_linear_epochs, .train = rbt_linear_train,                                     \
    .predict = rbt_linear_model_predict, .evaluate = rbt_linear_model_evaluate,                    \
    .why_uncertain = rbt_linear_model_why_uncertain

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
