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
 * ones; k is such that it costs at most half of what the gradients cost. */
#include "algo/linear.h"

#include <math.h>
#include <string.h>

#include "algo/linear_model.h"
#include "algo/replica.h"
#include "algo/training.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "math/choose.h"

enum { EPOCHS_DEFAULT = 10, SWEEP_MAX = 4096 };
enum { L2_TOTAL = 25 }; /* --l2 times the number of examples, unless it is given */
enum { METHOD_PROXIMAL, METHOD_TRUNCATE };
enum { SCALE_FEATURES, SCALE_NONE };

/* Measured by `rubato bench cost` on one of two cores of an Intel Xeon, with one worker in this
 * process. A weight is pulled, regularised and pushed once per clock; in this process that includes
 * what a server does with it. Further regularisation steps are part of the cost of nonzeros. */
enum { COST_NONZERO, COST_EXAMPLE, COST_WEIGHT, COST_COUNT };
static const struct rbt_algo_cost costs[COST_COUNT] = {
    [COST_NONZERO] = {"nonzero", 1.5},
    [COST_EXAMPLE] = {"example", 48.0},
    [COST_WEIGHT] = {"weight", 16.0},
};

struct linear_worker {
    struct rbt_share share; /* values are scaled */
    float *scales;          /* r: (key_count) */
    float *shares;          /* n_pj / n_j: (key_count) */
    float *step_max;        /* (count) */
    float *coefficients;    /* (batch) */
    double step_unit;       /* 1 / (L R) */
    size_t sweep;           /* examples between two regularisation steps */
    struct rbt_replica weights;
    struct rbt_replica bias;
    double loss; /* of the final model on this share */
};

struct linear {
    const struct rbt_train_options *options;
    struct rbt_linear_config config; /* l2 is a number */
    struct rbt_training_rate rate;
    uint64_t seed;
    struct rbt_examples examples;
    struct rbt_examples eval;
    struct rbt_share eval_share;
    uint32_t worker_count;
    struct linear_worker *workers;
    rbt_table *weights;
    rbt_table *bias;
    rbt_table *usage;
    const struct rbt_model *model; /* being measured */
};

static const uint64_t bias_key = 0;

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct linear *linear = context;
    const struct rbt_table_options floats = {.struct_size = sizeof floats, .type = RBT_F32};
    struct rbt_table_options weights = floats;
    struct rbt_table_options usage = {
        .struct_size = sizeof usage, .type = RBT_F64, .width = RBT_USAGE_WIDTH};
    const struct rbt_examples *examples = &linear->examples;
    rbt_training_place(linear->options, examples->keys, examples->offsets[examples->count],
                       &weights);
    usage.placement = weights.placement;
    usage.keys_max = weights.keys_max;
    rbt_status st = rbt_table_open(job, "weights", &weights, &linear->weights);
    if (st == RBT_OK) {
        st = rbt_table_open(job, "bias", &floats, &linear->bias);
    }
    if (st == RBT_OK) {
        st = rbt_table_open(job, "usage", &usage, &linear->usage);
    }
    return st;
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its examples");
}

/* How often the share uses each of its features: (key_count, RBT_USAGE_WIDTH); NULL: no memory. */
static double *count_usage(const struct rbt_share *share)
{
    double *usage = rbt_calloc(share->key_count * RBT_USAGE_WIDTH, sizeof *usage);
    if (usage == NULL) {
        return NULL;
    }
    const uint64_t end = share->offsets[share->count];
    for (uint64_t k = 0; k < end; k++) {
        double *row = usage + (size_t)share->indices[k] * RBT_USAGE_WIDTH;
        row[RBT_USAGE_COUNT] += 1.0;
        row[RBT_USAGE_SQUARES] += (double)share->values[k] * (double)share->values[k];
    }
    return usage;
}

/* Takes a worker's share of the examples, not scaled yet. */
static rbt_status take_share(struct linear *linear, uint32_t index)
{
    struct linear_worker *w = &linear->workers[index];
    const rbt_status st =
        rbt_share_take(&linear->examples, linear->seed, index, linear->worker_count, &w->share);
    if (st != RBT_OK) {
        return st;
    }
    w->scales = rbt_calloc(w->share.key_count, sizeof *w->scales);
    w->shares = rbt_calloc(w->share.key_count, sizeof *w->shares);
    w->step_max = rbt_calloc(w->share.count, sizeof *w->step_max);
    w->coefficients = rbt_calloc((size_t)linear->config.batch, sizeof *w->coefficients);
    if (w->scales == NULL || w->shares == NULL || w->step_max == NULL || w->coefficients == NULL) {
        return no_memory();
    }
    for (size_t j = 0; j < w->share.key_count; j++) {
        w->scales[j] = 1.0F;
    }
    return RBT_OK;
}

static rbt_status begin(void *context, rbt_worker *worker)
{
    struct linear *linear = context;
    const struct linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    rbt_status st = take_share(linear, rbt_worker_index(worker));
    if (st != RBT_OK) {
        return st;
    }
    double *usage = count_usage(&w->share);
    if (usage == NULL) {
        st = no_memory();
    } else {
        const struct rbt_replica_rows rows = {linear->usage, w->share.keys, w->share.key_count};
        st = rbt_replica_add_usage(worker, &rows, usage);
    }
    rbt_free(usage);
    return st;
}

/* Scales the share's values and sets the step sizes that follow from them (see above). */
static void scale_share(const struct linear *linear, struct linear_worker *w)
{
    struct rbt_share *share = &w->share;
    const double curvature = rbt_loss_curvature((enum rbt_loss)linear->config.loss);
    const double bias = linear->config.has_bias ? 1.0 : 0.0;
    double sum = 0.0;
    for (size_t i = 0; i < share->count; i++) {
        double squares = bias;
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            share->values[k] *= w->scales[share->indices[k]];
            squares += (double)share->values[k] * (double)share->values[k];
        }
        sum += squares;
        w->step_max[i] = squares > 0 ? (float)(1.0 / (curvature * squares)) : INFINITY;
    }
    w->step_unit = sum > 0 ? (double)share->count / (curvature * sum) : 1.0;
}

/* What follows from everybody's usage: shares n_pj / n_j and scales r_j. */
static rbt_status use_usage(struct linear *linear, struct linear_worker *w, const double *all)
{
    const double n = (double)linear->examples.count;
    double *mine = count_usage(&w->share);
    if (mine == NULL) {
        return no_memory();
    }
    const bool is_scaled = linear->config.scale == SCALE_FEATURES;
    for (size_t j = 0; j < w->share.key_count; j++) {
        const double *row = all + j * RBT_USAGE_WIDTH;
        const double mean_square = row[RBT_USAGE_SQUARES] / n;
        w->shares[j] = (float)(mine[j * RBT_USAGE_WIDTH + RBT_USAGE_COUNT] / row[RBT_USAGE_COUNT]);
        w->scales[j] = is_scaled && mean_square > 0 ? (float)pow(mean_square, -0.25) : 1.0F;
    }
    rbt_free(mine);
    w->step_unit = 1.0;
    if (is_scaled) {
        scale_share(linear, w);
    }
    const size_t nonzeros = (size_t)w->share.offsets[w->share.count];
    const size_t batch = (size_t)linear->config.batch;
    const double row_mean = (double)(nonzeros + 1) / (double)(w->share.count + 1);
    const double sweep = fmin((double)w->share.key_count / (2.0 * row_mean), SWEEP_MAX);
    w->sweep = ((size_t)sweep / batch + 1) * batch;
    const bool is_mean = linear->config.combine == RBT_COMBINE_MEAN;
    const float bias_share = is_mean ? (float)((double)w->share.count / n) : 1.0F;
    rbt_status st = rbt_replica_tune(&w->bias, &bias_share, NULL);
    if (st == RBT_OK) {
        st = rbt_replica_tune(&w->weights, is_mean ? w->shares : NULL, w->scales);
    }
    return st;
}

static rbt_status count_parameters(const struct linear *linear, rbt_worker *worker, uint64_t *count)
{
    struct rbt_rows rows = {0};
    const rbt_status st = rbt_pull_range(worker, linear->usage, RBT_RANGE_ALL, 0, &rows);
    if (st == RBT_OK) {
        *count = rows.count + (linear->config.has_bias ? 1 : 0);
        rbt_rows_free(&rows);
    }
    return st;
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct linear *linear = context;
    struct linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const struct rbt_replica_rows usage = {linear->usage, w->share.keys, w->share.key_count};
    const struct rbt_replica_rows weights = {linear->weights, w->share.keys, w->share.key_count};
    const struct rbt_replica_rows bias = {linear->bias, &bias_key, 1};
    double *all = rbt_calloc(w->share.key_count * RBT_USAGE_WIDTH, sizeof *all);
    if (all == NULL) {
        return no_memory();
    }
    rbt_status st = rbt_replica_open(worker, &weights, &w->weights);
    if (st == RBT_OK) {
        st = rbt_replica_open(worker, &bias, &w->bias);
    }
    if (st == RBT_OK) {
        st = rbt_replica_get_usage(worker, &usage, all);
    }
    if (st == RBT_OK) {
        st = use_usage(linear, w, all);
    }
    rbt_free(all);
    if (st == RBT_OK && rbt_worker_index(worker) == 0) {
        st = count_parameters(linear, worker, parameters);
    }
    return st;
}

static void end(void *context, rbt_worker *worker)
{
    struct linear *linear = context;
    struct linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    rbt_replica_close(&w->bias);
    rbt_replica_close(&w->weights);
}

/* One regularisation step that stands for `steps` steps of size eta. */
static void regularise(const struct linear *linear, struct linear_worker *w, double eta,
                       size_t steps)
{
    const struct rbt_linear_config *config = &linear->config;
    if (config->l1 == 0.0 && config->l2 == 0.0) {
        return;
    }
    const double amount = eta * (double)steps;
    const struct rbt_shrink shrink = {
        .scales = w->scales,
        .l1 = (float)(amount * config->l1),
        .l2 = (float)(amount * config->l2),
        .theta = config->l1_method == METHOD_TRUNCATE ? (float)config->theta : INFINITY};
    rbt_choose_kernels()->shrink(&shrink, w->weights.values, w->weights.count);
}

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct linear *linear = context;
    const struct rbt_linear_config *config = &linear->config;
    struct linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const struct rbt_share *share = &w->share;
    rbt_status st = rbt_replica_pull(&w->weights);
    if (st == RBT_OK) {
        st = rbt_replica_pull(&w->bias);
    }
    if (st != RBT_OK) {
        return st;
    }
    const size_t first = share->count * (size_t)chunk->index / (size_t)chunk->count;
    const size_t last = share->count * (size_t)(chunk->index + 1) / (size_t)chunk->count;
    const size_t batch = (size_t)config->batch;
    struct rbt_sgd_run run = {.loss = (enum rbt_loss)config->loss,
                              .offsets = share->offsets,
                              .labels = share->labels,
                              .indices = share->indices,
                              .values = share->values,
                              .step_max = config->scale == SCALE_FEATURES ? w->step_max : NULL,
                              .weights = w->weights.values,
                              .bias = w->bias.values[0],
                              .bias_rate = config->has_bias ? 1.0F : 0.0F,
                              .batch = batch,
                              .coefficients = w->coefficients};
    for (run.begin = first; run.begin < last; run.begin = run.end) {
        const double passes = (double)chunk->epoch + (double)run.begin / (double)share->count;
        const double eta = rbt_training_rate_at(&linear->rate, passes) * w->step_unit;
        run.end = last - run.begin < w->sweep ? last : run.begin + w->sweep;
        run.eta = (float)eta;
        figures->loss += rbt_choose_kernels()->sgd(&run);
        regularise(linear, w, eta, (run.end - run.begin + batch - 1) / batch);
    }
    w->bias.values[0] = run.bias;
    figures->count += last - first;
    const uint64_t nonzeros = share->offsets[last] - share->offsets[first];
    rbt_spend(worker, 1e-9 * (costs[COST_NONZERO].ns * (double)nonzeros +
                              costs[COST_EXAMPLE].ns * (double)(last - first) +
                              costs[COST_WEIGHT].ns * (double)w->weights.count));
    return RBT_OK;
}

static rbt_status push(void *context, rbt_worker *worker)
{
    struct linear *linear = context;
    struct linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const rbt_status st = rbt_replica_push(&w->weights);
    return st == RBT_OK && linear->config.has_bias ? rbt_replica_push(&w->bias) : st;
}

/* Since the shares n_pj / n_j of a feature sum to 1, so do the workers' parts of its penalty. */
static double penalty(void *context, rbt_worker *worker)
{
    const struct linear *linear = context;
    const struct linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    double squares = 0.0;
    double sizes = 0.0;
    for (size_t j = 0; j < w->weights.count; j++) {
        const double weight = (double)w->weights.values[j] * (double)w->scales[j];
        squares += (double)w->shares[j] * weight * weight;
        sizes += (double)w->shares[j] * fabs(weight);
    }
    return linear->config.l2 / 2 * squares + linear->config.l1 * sizes;
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
    const struct linear *linear = context;
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
    return st;
}

/* Sum of losses of the model on a worker's share; the share is scaled, so the weights are, too. A
 * worker that was lost at once has not taken its share; its examples count all the same. */
static rbt_status measure(void *argument, uint32_t index)
{
    struct linear *linear = argument;
    struct linear_worker *w = &linear->workers[index];
    const struct rbt_share *share = &w->share;
    rbt_status st = share->offsets == NULL ? take_share(linear, index) : RBT_OK;
    if (st != RBT_OK) {
        return st;
    }
    float *weights = rbt_calloc(share->key_count, sizeof *weights);
    float *margins = rbt_calloc(share->count, sizeof *margins);
    if (weights == NULL || margins == NULL) {
        st = no_memory();
    } else {
        rbt_linear_model_weights(linear->model, share->keys, share->key_count, weights);
        for (size_t j = 0; j < share->key_count; j++) {
            weights[j] /= w->scales[j];
        }
        rbt_linear_model_margins(share, weights, rbt_linear_model_bias(linear->model), margins);
        w->loss = 0.0;
        for (size_t i = 0; i < share->count; i++) {
            w->loss += rbt_loss_at((enum rbt_loss)linear->config.loss, (double)margins[i],
                                   (double)share->labels[i])
                           .value;
        }
    }
    rbt_free(margins);
    rbt_free(weights);
    return st;
}

static rbt_status objective(void *context, const struct rbt_model *model, double *objective)
{
    struct linear *linear = context;
    const struct rbt_model_array *weights = rbt_model_array_find(model, "weights");
    linear->model = model;
    const rbt_status st = rbt_thread_run(linear->worker_count, measure, linear);
    if (st != RBT_OK) {
        return st;
    }
    double loss = 0.0;
    for (uint32_t p = 0; p < linear->worker_count; p++) {
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
    return rbt_linear_model_measure_share(model, &((struct linear *)context)->eval_share, metrics);
}

static const struct rbt_training_task task = {.open = open_tables,
                                              .begin = begin,
                                              .ready = ready,
                                              .work = work,
                                              .push = push,
                                              .penalty = penalty,
                                              .end = end,
                                              .collect = collect,
                                              .objective = objective,
                                              .evaluate = evaluate};

static rbt_status read_data(struct linear *linear, const struct rbt_train_options *options)
{
    struct rbt_data_options data = {.paths = options->data.values,
                                    .path_count = options->data.count,
                                    .format = (enum rbt_format)options->format,
                                    .is_zero_based = options->is_zero_based,
                                    .label_column = options->label_column,
                                    .has_binary_label = linear->config.loss != RBT_LOSS_SQUARED};
    rbt_status st = rbt_examples_read(&data, &linear->examples);
    if (st == RBT_OK && linear->examples.count == 0) {
        st = rbt_fail(RBT_E_DATA, "the training data has no examples");
    }
    if (st == RBT_OK && options->eval.count > 0) {
        data.paths = options->eval.values;
        data.path_count = options->eval.count;
        data.label_positive = linear->examples.label_positive;
        st = rbt_examples_read(&data, &linear->eval);
        if (st == RBT_OK) {
            st = rbt_share_take(&linear->eval, linear->seed, 0, 1, &linear->eval_share);
        }
    }
    return st;
}

static void free_data(struct linear *linear)
{
    for (uint32_t p = 0; linear->workers != NULL && p < linear->worker_count; p++) {
        struct linear_worker *w = &linear->workers[p];
        rbt_free(w->coefficients);
        rbt_free(w->step_max);
        rbt_free(w->shares);
        rbt_free(w->scales);
        rbt_share_free(&w->share);
    }
    rbt_free(linear->workers);
    rbt_share_free(&linear->eval_share);
    rbt_examples_free(&linear->eval);
    rbt_examples_free(&linear->examples);
}

static const char *const solvers[] = {"sgd", "dbpg", "emso-gd", "emso-cd", "cd", NULL};

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_linear_config *config = settings;
    if (config->solver != 0) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "solver \"%s\" is not available yet", solvers[config->solver]);
        return rbt_fail_hint(st, "The only solver so far is \"sgd\".");
    }
    struct linear linear = {
        .options = options,
        .config = *config,
        .rate = {(enum rbt_schedule)config->schedule, config->lr, config->decay},
        .seed = (uint64_t)options->seed,
        .worker_count = rbt_training_workers(options)};
    struct rbt_training training = {.options = options,
                                    .observer = observer,
                                    .task = &task,
                                    .context = &linear,
                                    .workers = linear.worker_count,
                                    .epochs =
                                        options->epochs > 0 ? options->epochs : EPOCHS_DEFAULT,
                                    .started = rbt_clock_seconds(),
                                    .has_eval = options->eval.count > 0};
    linear.workers = rbt_calloc(linear.worker_count, sizeof *linear.workers);
    rbt_status st = linear.workers == NULL ? no_memory() : read_data(&linear, options);
    if (st == RBT_OK) {
        training.examples = linear.examples.count;
        if (isnan(config->l2)) {
            linear.config.l2 = L2_TOTAL / (double)linear.examples.count;
        }
        st = rbt_training_run(&training, summary);
    }
    free_data(&linear);
    return st;
}

static const char *const losses[] = {"logistic", "hinge", "squared", NULL};
static const char *const methods[] = {"proximal", "truncate", NULL};
static const char *const scales[] = {"features", "none", NULL};

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
     .value = "2",
     .offset = AT(lr),
     .help = "Step size at the start: with --scale features in units that fit the data, 1 being a "
             "full step; with --scale none as it is."},
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
     .value = "features",
     .offset = AT(scale),
     .help = "features gives rare and small features larger steps and limits each step, so that "
             "raw counts need no tuning; none is textbook gradient descent."},
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
     .value = "mean",
     .offset = AT(combine),
     .help = "What becomes of the moves of several workers: their mean, weighted by how often each "
             "uses the feature, or their sum, which goes further but needs short clocks: with "
             "four workers or more try it with --clocks-per-epoch 64."},
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
    .costs = costs,
    .cost_count = COST_COUNT,
    .epochs_default = EPOCHS_DEFAULT,
    .train = train,
    .predict = rbt_linear_model_predict,
    .evaluate = rbt_linear_model_evaluate,
};
