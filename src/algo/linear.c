/* algo/linear.c - linear models by stochastic gradient descent.
 *
 * Minimises over weights w and bias b (which is not regularised), for n examples (x_i, y_i)
 *
 *     (1/n) sum_i loss(w'x_i + b, y_i) + l2/2 ||w||^2 + l1 ||w||_1
 *
 * Every worker has a share of the examples and a replica of the weights of its features. In a clock
 * it pulls, runs over its next chunk of examples, and sends how far it has moved (replica.h).
 *
 * Step sizes that need no tuning (--scale features). With m_j the mean of x_j^2 over all examples,
 * feature j is divided by m_j^(1/4), that is, its step is multiplied by 1 / sqrt(m_j): what AdaGrad
 * would arrive at when gradients are alike, but known after one look at the data, the same for all
 * workers, and free in the inner loop, where it is a change of variables: u_j = w_j / r_j and
 * x'_j = r_j x_j with r_j = m_j^(-1/4). The step is then measured in units of the loss's curvature:
 *
 *     eta_t = lr_t / (L R),   L: bound of loss'', R: mean of ||x'_i||^2 + 1
 *     eta_i = min(eta_t, 1 / (L (||x'_i||^2 + 1)))     so no example is ever overshot
 *
 * so lr = 1 is a full step for the average example; --schedule decay starts there and falls as 1/t.
 * Measured with defaults, 10 epochs, 2 workers, test logloss against liblinear at its best C: movie
 * reviews (raw counts) 0.290 to 0.295 against 0.291, a9a (0/1 features) 0.328 against 0.324. A
 * first try of AdaGrad (one step size, reviews only) and of m_j^(3/8) did no better in 10. With
 * --scale none the step is lr_t itself.
 *
 * Regularisation is a proximal step on the whole replica every k examples, standing for k small
 * ones; k is such that it costs at most half of what the gradients cost. If an epoch has several
 * clocks, only features of the clock's examples take part, and at its end those are made up for the
 * clocks since they were last used, in one step: then a clock changes, and sends, nothing else. The
 * others' weights are too large until then, by less than a pass's penalty. Gradients for rules have
 * their part of l2 in every clock: a rule whose steps do not adapt would overshoot if a rare
 * feature got that of a whole pass at once (a9a, rule sgd: it diverges). */
#include "algo/linear.h"

#include <math.h>
#include <string.h>

#include "algo/linear_job.h"
#include "algo/linear_model.h"
#include "algo/linear_stream.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "math/choose.h"

enum { EPOCHS_DEFAULT = 10, LR_DEFAULT = 2 };
enum { MEASURED_AT_ONCE = 4096 }; /* examples */
enum { L2_TOTAL = 25 };           /* --l2 times the number of examples, unless it is given */

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct rbt_linear_job *linear = context;
    struct rbt_table_options weights = {.struct_size = sizeof weights, .type = RBT_F32};
    struct rbt_table_options bias = weights;
    struct rbt_table_options usage = {
        .struct_size = sizeof usage, .type = RBT_F64, .width = RBT_USAGE_WIDTH};
    const struct rbt_examples *examples = &linear->examples;
    size_t key_count = 0;
    const uint64_t *keys = examples->keys;
    if (rbt_linear_is_streamed(linear)) {
        keys = rbt_linear_stream_keys(linear, &key_count);
    } else {
        key_count = (size_t)examples->offsets[examples->count];
    }
    rbt_training_place(linear->options, keys, key_count, &weights);
    usage.placement = weights.placement;
    usage.keys_max = weights.keys_max;
    rbt_rules_apply(&linear->rules, &weights);
    rbt_rules_apply(&linear->bias_rules, &bias);
    rbt_status st = rbt_table_open(job, "weights", &weights, &linear->weights);
    if (st == RBT_OK) {
        st = rbt_table_open(job, "bias", &bias, &linear->bias);
    }
    if (st == RBT_OK) {
        st = rbt_table_open(job, "usage", &usage, &linear->usage);
    }
    if (st == RBT_OK && linear->config.is_rebalanced) {
        st = rbt_rebalance_open(&linear->rebalance, job, linear->worker_count);
    }
    return st;
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its examples");
}

/* Leaves out rows that are zero, and thereby those that were only read. */
static void drop_zeros(struct rbt_model_array *array)
{
    size_t kept = 0;
    for (size_t i = 0; i < array->count; i++) {
        if (array->values[i] != 0.0F) {
            array->keys[kept] = array->keys[i];
            array->values[kept++] = array->values[i];
        }
    }
    array->count = kept;
}

static rbt_status collect(void *context, rbt_worker *worker, int64_t staleness,
                          struct rbt_model *model)
{
    const struct rbt_linear_job *linear = context;
    model->kind = RBT_MODEL_LINEAR;
    rbt_model_set(model, "loss", linear->config.loss);
    rbt_model_set(model, "l1", linear->config.l1);
    rbt_model_set(model, "l2", linear->config.l2);
    rbt_model_set(model, "label_positive", (double)linear->examples.label_positive);
    rbt_status st = rbt_replica_collect(worker, linear->weights, staleness, &model->arrays[0]);
    if (st != RBT_OK) {
        return st;
    }
    model->array_count = 1;
    drop_zeros(&model->arrays[0]);
    if (linear->config.has_bias) {
        st = rbt_replica_collect(worker, linear->bias, staleness, &model->arrays[1]);
        model->array_count = st == RBT_OK ? 2 : 1;
    }
    return st != RBT_OK ? st : rbt_column_options_store(&linear->data, model);
}

/* Adds up the losses of a few examples. */
static double measure_piece(const struct rbt_linear_job *linear, const struct rbt_share *piece,
                            const float *weights, float *margins)
{
    const enum rbt_loss kind = (enum rbt_loss)linear->config.loss;
    double loss = 0.0;
    rbt_linear_model_margins(piece, weights, rbt_linear_model_bias(linear->model), margins);
    for (size_t i = 0; i < piece->count; i++) {
        loss += rbt_loss_at(kind, (double)margins[i], (double)piece->labels[i]).value;
    }
    return loss;
}

/* Sum of losses of the model on a share, a piece at a time; if its features are scaled, the weights
 * must be, too. `w` is whose the share is, if it is a worker's whole one. */
static rbt_status measure_share(const struct rbt_linear_job *linear, const struct rbt_share *share,
                                const struct rbt_linear_worker *w, double *loss)
{
    rbt_status st = RBT_OK;
    float *weights = rbt_calloc(share->key_count, sizeof *weights);
    float *margins = rbt_calloc(MEASURED_AT_ONCE, sizeof *margins);
    if (weights == NULL || margins == NULL) {
        st = no_memory();
    } else {
        rbt_linear_model_weights(linear->model, share->keys, share->key_count, weights);
        for (size_t j = 0; w != NULL && j < share->key_count; j++) {
            weights[j] /= w->scales[j];
        }
        *loss = 0.0;
        for (size_t first = 0; first < share->count; first += MEASURED_AT_ONCE) {
            struct rbt_share piece = *share;
            const size_t left = share->count - first;
            piece.count = left < MEASURED_AT_ONCE ? left : MEASURED_AT_ONCE;
            piece.offsets += first;
            piece.labels += first;
            if (w != NULL) {
                rbt_linear_visit(w, first, first + piece.count);
            }
            *loss += measure_piece(linear, &piece, weights, margins);
        }
    }
    rbt_free(margins);
    rbt_free(weights);
    return st;
}

/* Measures a part of the examples. A worker that was lost at once has not taken its share; its
 * examples count all the same. While workers are at work, their shares are theirs, and what is
 * handed on is nobody's: then it is a part of the whole. */
static rbt_status measure(void *argument, uint32_t index)
{
    struct rbt_linear_job *linear = argument;
    struct rbt_linear_worker *w = &linear->workers[index];
    if (linear->whole.usage != NULL) {
        const uint64_t n = linear->examples.count;
        const uint64_t first = n * index / linear->measured_parts;
        struct rbt_share part = linear->whole.share;
        part.offsets += first;
        part.labels += first;
        part.count = n * (index + UINT64_C(1)) / linear->measured_parts - first;
        return measure_share(linear, &part, NULL, &w->loss);
    }
    const rbt_status st = w->share.offsets == NULL ? rbt_linear_part_take(linear, index) : RBT_OK;
    return st != RBT_OK ? st : measure_share(linear, &w->share, w, &w->loss);
}

static rbt_status objective(void *context, const struct rbt_model *model, double *objective)
{
    struct rbt_linear_job *linear = context;
    const struct rbt_model_array *weights = rbt_model_array_find(model, "weights");
    linear->model = model;
    const uint32_t cores = rbt_thread_cores();
    const bool has_whole = linear->whole.usage != NULL;
    linear->measured_parts =
        has_whole && cores < linear->worker_count ? cores : linear->worker_count;
    const rbt_status st = rbt_thread_run(linear->measured_parts, measure, linear);
    if (st != RBT_OK) {
        return st;
    }
    double loss = 0.0;
    for (uint32_t p = 0; p < linear->measured_parts; p++) {
        loss += linear->workers[p].loss;
    }
    const struct rbt_kernels *kernels = rbt_choose_kernels();
    *objective = loss / (double)linear->examples.count +
                 linear->config.l2 / 2 * kernels->norm2_squared(weights->values, weights->count) +
                 linear->config.l1 * kernels->norm1(weights->values, weights->count);
    return RBT_OK;
}

static rbt_status evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics)
{
    return rbt_linear_model_measure_share(model, &((struct rbt_linear_job *)context)->eval_share,
                                          metrics);
}

static const struct rbt_training_task task = {.open = open_tables,
                                              .begin = rbt_linear_begin,
                                              .ready = rbt_linear_ready,
                                              .work = rbt_linear_work,
                                              .push = rbt_linear_push,
                                              .penalty = rbt_linear_penalty,
                                              .end = rbt_linear_end,
                                              .collect = collect,
                                              .objective = objective,
                                              .evaluate = evaluate};

static rbt_status read_data(struct rbt_linear_job *linear, const struct rbt_train_options *options)
{
    struct rbt_data_options *data = &linear->data;
    *data = (struct rbt_data_options){.paths = options->data.values,
                                      .path_count = options->data.count,
                                      .format = (enum rbt_format)options->format,
                                      .is_zero_based = options->is_zero_based,
                                      .label_column = options->label_column,
                                      .has_binary_label = linear->config.loss != RBT_LOSS_SQUARED};
    rbt_column_options_apply(&linear->config.columns, &linear->plan, data);
    const bool is_streamed = rbt_linear_is_streamed(linear);
    rbt_status st = is_streamed ? rbt_linear_stream_read(linear, data)
                                : rbt_examples_read(data, &linear->examples);
    if (st == RBT_OK && !is_streamed) {
        st = rbt_examples_drop_rare(&linear->examples, (uint64_t)linear->config.count_min);
    }
    if (st == RBT_OK && linear->examples.count == 0) {
        st = rbt_fail(RBT_E_DATA, "the training data has no examples");
    }
    if (st == RBT_OK && options->eval.count > 0) {
        data->paths = options->eval.values;
        data->path_count = options->eval.count;
        data->label_positive = linear->examples.label_positive;
        st = rbt_examples_read(data, &linear->eval);
        if (st == RBT_OK) {
            st = rbt_share_take(&linear->eval, linear->seed, 0, 1, &linear->eval_share);
        }
    }
    return st;
}

static void free_data(struct rbt_linear_job *linear)
{
    for (uint32_t p = 0; linear->workers != NULL && p < linear->worker_count; p++) {
        rbt_linear_part_free(&linear->workers[p]);
    }
    rbt_free(linear->workers);
    rbt_linear_stream_free(linear);
    rbt_linear_whole_free(&linear->whole);
    rbt_share_free(&linear->eval_share);
    rbt_examples_free(&linear->eval);
    rbt_examples_free(&linear->examples);
}

static const char *const solvers[] = {"sgd", "dbpg", "emso-gd", "emso-cd", "cd", NULL};

/* Step sizes for rules that take gradients, when nobody gives one; see docs/choosing-rules.md. */
static const struct rbt_rules_rate gradient_rates[] = {
    {"adagrad", 0.1}, {"adarev", 0.1}, {"adadelay", 0.1}, {"ftrl", 0.1},
    {"adam", 0.005},  {"prox", 0.1},   {"sgd", 10},       {NULL, 0}};

/* For plain gradient descent long steps at first are worth much, if they become shorter. */
static const double sgd_lr = 30;
static const double sgd_alpha = 0.05;

/* Whether the rule takes --l1 and --l2 over. */
static bool has_own_penalty(const struct rbt_rules *rules)
{
    return rbt_rules_is(rules, "ftrl") || rbt_rules_is(rules, "prox");
}

/* Rules that adapt to the size of gradients get sums over a chunk, so that their own constants,
 * made for gradients of examples, hardly matter. The others get means over all that the workers do
 * in a clock, so that the step does not depend on their number. */
static bool wants_sums(const struct rbt_rules *rules)
{
    const bool is_prox_unscaled =
        rbt_rules_is(rules, "prox") && strstr(rules->text, "scale=1") == NULL;
    return !rules->is_own && !rbt_rules_is(rules, "sgd") && !is_prox_unscaled;
}

/* The parameters of the rule that nobody has given. */
static rbt_status give_parameters(struct rbt_rules *rules, double lr)
{
    rbt_status st = RBT_OK;
    if (strcmp(rules->text, "sgd") == 0 && isnan(lr)) {
        st = rbt_rules_give(rules, "lr", sgd_lr);
        return st != RBT_OK ? st : rbt_rules_give(rules, "alpha", sgd_alpha);
    }
    st = rbt_rules_give_lr(rules, lr, gradient_rates);
    if (st == RBT_OK && rbt_rules_is(rules, "prox")) {
        st = rbt_rules_give(rules, "scale", 1);
    }
    return st;
}

/* Whether "kkt" needs no number because the penalty is known; without data. */
static rbt_status check_kkt(const struct rbt_linear_job *linear)
{
    const struct rbt_rules *rules = &linear->rules;
    const bool has_penalty =
        has_own_penalty(rules) && (linear->config.l1 > 0 || rbt_rules_number(rules, "l1", 0) > 0);
    if (!rbt_rules_has_bare(rules->filter, "kkt") || has_penalty) {
        return RBT_OK;
    }
    const rbt_status st = rbt_fail(
        RBT_E_INVALID, "the filter \"kkt\" is for gradients of a problem with an L1 penalty");
    return rbt_fail_hint(st, "Give --l1 and --rule prox or --rule ftrl, or the penalty itself: "
                             "kkt:0.01.");
}

/* Tells "kkt" the penalty, in the units of what all workers push in a clock. Of "prox", which takes
 * its part of it with every update, that is exactly where a weight of zero stays zero. */
static rbt_status settle_kkt(struct rbt_linear_job *linear)
{
    struct rbt_rules *rules = &linear->rules;
    if (!rbt_rules_has_bare(rules->filter, "kkt")) {
        return RBT_OK;
    }
    const double n = (double)linear->examples.count;
    const double all =
        linear->config.l1 * linear->gradient_factor * n / (double)linear->clocks_per_epoch;
    const double lambda = rbt_rules_is(rules, "prox")
                              ? rbt_rules_number(rules, "l1", 0) * (double)linear->worker_count
                              : all;
    char filter[RBT_TRAIN_FILTER_MAX];
    const rbt_status st = rbt_rules_complete(rules->filter, "kkt", lambda, filter);
    memcpy(rules->filter, filter, sizeof filter);
    return st;
}

/* What the options say about the rule, before data is read. */
static rbt_status settle_rule(struct rbt_linear_job *linear)
{
    struct rbt_linear_config *config = &linear->config;
    struct rbt_rules *rules = &linear->rules;
    if (linear->options->bandwidth > 0) {
        return rbt_rules_refuse_bandwidth("\"train mf\"");
    }
    rbt_status st = rbt_rules_read(linear->options, rules);
    if (st == RBT_OK) {
        st = rbt_rules_combine(rules, &config->combine);
    }
    st = st != RBT_OK ? st : check_kkt(linear);
    if (st != RBT_OK) {
        return st;
    }
    if (config->scale == RBT_SCALE_AUTO) {
        const bool is_scaled = !rules->has_gradients || rbt_rules_is(rules, "sgd");
        config->scale = is_scaled ? RBT_SCALE_FEATURES : RBT_SCALE_NONE;
    }
    if (!rules->has_gradients) {
        config->lr = isnan(config->lr) ? LR_DEFAULT : config->lr;
        linear->rate = (struct rbt_training_rate){(enum rbt_schedule)config->schedule, config->lr,
                                                  config->decay};
        linear->bias_rules = *rules;
        linear->bias_rules.filter[0] = '\0'; /* one number, and not regularised */
        return RBT_OK;
    }
    if (config->l1 > 0 && !has_own_penalty(rules)) {
        st = rbt_fail(RBT_E_INVALID, "rule \"%s\" cannot do \"--l1\"", rules->text);
        return rbt_fail_hint(st, "Rules \"ftrl\" and \"prox\" can, and so can rules that take "
                                 "moves, such as \"add\".");
    }
    st = give_parameters(rules, config->lr);
    linear->bias_rules = *rules;
    rbt_rules_drop(&linear->bias_rules, "l1");
    rbt_rules_drop(&linear->bias_rules, "l2");
    linear->bias_rules.filter[0] = '\0';
    return st != RBT_OK ? st : rbt_rules_check(rules, 1);
}

/* What follows from the number of examples: how gradients are counted, and who regularises. */
static rbt_status settle_penalty(struct rbt_linear_job *linear, int64_t epochs)
{
    struct rbt_linear_config *config = &linear->config;
    struct rbt_rules *rules = &linear->rules;
    const double n = (double)linear->examples.count;
    config->l2 = isnan(config->l2) ? L2_TOTAL / n : config->l2;
    linear->l2 = config->l2;
    linear->gradient_factor = wants_sums(rules) ? 1.0 : (double)linear->clocks_per_epoch / n;
    if (!rules->has_gradients || !has_own_penalty(rules)) {
        return RBT_OK;
    }
    rbt_status st = RBT_OK;
    if (rbt_rules_is(rules, "ftrl")) {
        /* Its penalty stands against the sum of all gradients that it will have seen. */
        const double seen = n * (double)epochs;
        linear->l2 = 0.0;
        st = rbt_rules_give(rules, "l1", config->l1 * seen);
        return st != RBT_OK ? st : rbt_rules_give(rules, "l2", config->l2 * seen);
    }
    /* It shrinks with every update, of which a clock has one of each worker; l2 stays with the
     * worker, in the gradient. */
    const double updates = (double)linear->clocks_per_epoch * (double)linear->worker_count;
    const double one = linear->gradient_factor * n / updates;
    linear->is_named = config->l1 > 0;
    return rbt_rules_give(rules, "l1", config->l1 * one);
}

/* Reads, trains and measures. */
static rbt_status train_with(struct rbt_linear_job *linear, struct rbt_training *training,
                             struct rbt_train_summary *summary)
{
    rbt_status st = read_data(linear, linear->options);
    if (st == RBT_OK && (linear->config.is_rebalanced || linear->options->is_exact)) {
        st = rbt_linear_whole_take(linear);
    }
    if (st == RBT_OK) {
        training->examples = linear->examples.count;
        st = settle_penalty(linear, training->epochs);
    }
    st = st != RBT_OK ? st : settle_kkt(linear);
    return st != RBT_OK ? st : rbt_training_run(training, summary);
}

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_linear_config *config = settings;
    if (config->solver != 0) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "solver \"%s\" is not available yet", solvers[config->solver]);
        return rbt_fail_hint(st, "The only solver so far is \"sgd\".");
    }
    struct rbt_linear_job linear = {.options = options,
                                    .config = *config,
                                    .seed = (uint64_t)options->seed,
                                    .worker_count = rbt_training_workers(options)};
    struct rbt_training training = {.options = options,
                                    .observer = observer,
                                    .task = &task,
                                    .context = &linear,
                                    .workers = linear.worker_count,
                                    .epochs =
                                        options->epochs > 0 ? options->epochs : EPOCHS_DEFAULT,
                                    .rules = &linear.rules,
                                    .started = rbt_clock_seconds(),
                                    .has_eval = options->eval.count > 0};
    rbt_status st = settle_rule(&linear);
    st = st != RBT_OK ? st : rbt_linear_stream_check(&linear);
    if (st != RBT_OK) {
        return st;
    }
    training.clocks_per_epoch = rbt_training_clocks(options, &linear.rules);
    linear.clocks_per_epoch = training.clocks_per_epoch;
    linear.workers = rbt_calloc(linear.worker_count, sizeof *linear.workers);
    st = linear.workers == NULL ? no_memory() : train_with(&linear, &training, summary);
    free_data(&linear);
    return st;
}

static const char *const losses[] = {"logistic", "hinge", "squared", NULL};
static const char *const methods[] = {
    [RBT_L1_PROXIMAL] = "proximal", [RBT_L1_TRUNCATE] = "truncate", NULL};
static const char *const scales[] = {
    [RBT_SCALE_FEATURES] = "features", [RBT_SCALE_NONE] = "none", [RBT_SCALE_AUTO] = "auto", NULL};

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
     .help = "What is minimised. logistic and hinge need two labels."},
    {.name = "l2",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .offset = AT(l2),
     .help = "Weight of ||w||^2 / 2 in the objective per example. If it is not given, 25 / number "
             "of examples: the same prior belief about the weights whatever the size of the data."},
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
     .choices = rbt_training_schedules,
     .value = "decay",
     .offset = AT(schedule),
     .help = "Step size after t passes: lr, lr / sqrt(1 + decay t), or lr / (1 + decay t)."},
    {.name = "decay",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "4",
     .offset = AT(decay),
     .help = "How fast the step size falls, per pass."},
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
     .choices = solvers,
     .value = "sgd",
     .offset = AT(solver),
     .help = "How it is minimised; only sgd for now."},
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
             "uses the feature, or their sum, which goes further but needs short clocks: with "
             "four workers or more try it with --clocks-per-epoch 64. auto is the mean, and the "
             "sum for rules that weigh moves. Not for rules that take gradients."},
    {.name = "rebalance",
     .type = RBT_OPTION_FLAG,
     .offset = AT(is_rebalanced),
     .help = "Workers that take over 20% longer than the fastest give 5% of their examples away at "
             "each clock."},
    RBT_COLUMN_OPTIONS(AT),
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
             "on disk and read again in every pass; results are the same."},
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

const struct rbt_algo rbt_linear = {
    .name = "linear",
    .summary = "Logistic regression, support vector machines and linear regression.",
    .examples = "  rubato train linear --data train.svm --eval test.svm --model m.rbt\n"
                "  rubato train linear --data train.svm --loss hinge --l1 1e-5 --l2 0\n",
    .model_kind = RBT_MODEL_LINEAR,
    .options = linear_options,
    .option_count = sizeof linear_options / sizeof linear_options[0],
    .config_size = sizeof(struct rbt_linear_config),
    .costs = rbt_linear_costs,
    .cost_count = RBT_LINEAR_COSTS,
    .epochs_default = EPOCHS_DEFAULT,
    .train = train,
    .predict = rbt_linear_model_predict,
    .evaluate = rbt_linear_model_evaluate,
};
