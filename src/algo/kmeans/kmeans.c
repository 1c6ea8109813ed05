/* algo/kmeans/kmeans.c - k-means: centres that are the means of the points nearest to them.
 *
 * Minimises, over k centres, the mean over all points of min_c |x - c|^2. The servers hold a row
 * per centre: the sum of the points assigned to it, the sum of |x|^2, and their number. A clock:
 *
 *     pull the rows; centre = sum / number
 *     find the nearest centre of each point of the chunk
 *     Lloyd:     a point that has changed from a to b is taken off row a and added to row b
 *     minibatch: every point is added to its row; a centre is the mean of all that it ever got,
 *                which is Sculley's step of size 1/number
 *
 * So rows always hold the last assignment of every point, whatever the staleness, and the longer
 * training takes, the less there is to send. Sums are exact (kmeans_points.h), chunks are pieces of
 * one random order of all points that the workers share: with bsp the result has the same bits on
 * any number of workers.
 *
 * Most points need no search. With the distance d to the second nearest centre when a point was
 * last searched, and the sum m of the largest moves of any centre since, another centre is at least
 * d - m away; a point nearer than that to its own stays (Hamerly's bound, without its bookkeeping).
 *
 * A cluster without points, once all points are assigned, is put beside the centre of a cluster
 * with a large sum of squares, a little away in a random direction, so that it gets about half of
 * its points: the first empty one beside the largest, the second beside the second, ... This
 * follows from the rows alone, so everybody does the same. */
#include "algo/kmeans/kmeans.h"

#include <math.h>
#include <string.h>

#include "algo/frame/inputs.h"
#include "algo/frame/training.h"
#include "algo/kmeans/kmeans_init.h"
#include "algo/kmeans/kmeans_job.h"
#include "algo/kmeans/kmeans_model.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"

enum { EPOCHS_DEFAULT = 300 }; /* at most, if it does not converge before */
static const double tolerance_default = 1e-5;
static const double tolerance_batch = 1e-4; /* minibatches gain ever less, but never nothing */

static const char default_filter[] = "keys,zeros"; /* rows of centres that stay are zero */

/* Measured on one core of an Intel Xeon (bench/RESULTS.md): a multiplication of a search, and a
 * coordinate of a look at the point's own centre. An element of the rows pulled and pushed is taken
 * to cost what it does in mf.c. */
enum { COST_PRODUCT, COST_COORDINATE, COST_ELEMENT, COST_COUNT };
static const struct rbt_algo_cost costs[COST_COUNT] = {
    [COST_PRODUCT] = {"product", 0.036},
    [COST_COORDINATE] = {"coordinate", 0.35},
    [COST_ELEMENT] = {"element", 4.7},
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the centres of a worker");
}

/* --- The job --------------------------------------------------------------------------------- */

static rbt_status open_tables(void *context, rbt_job *tables)
{
    struct rbt_kmeans_job *job = context;
    struct rbt_table_options sums = {.struct_size = sizeof sums,
                                     .type = RBT_F64,
                                     .width = (uint32_t)job->width,
                                     .placement = (rbt_placement)job->options->placement,
                                     .keys_max = job->k > 1 ? job->k - 1 : 1,
                                     .filter = rbt_rules_filter(&job->rules)};
    return rbt_table_open(tables, "sums", &sums, &job->sums);
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_kmeans_job *job = context;
    struct rbt_kmeans_worker *w = &job->workers[rbt_worker_index(worker)];
    rbt_status st = rbt_kmeans_centres_make(&job->space, job->k, &w->centres);
    if (st != RBT_OK) {
        return st;
    }
    uint64_t *keys = rbt_calloc(job->k, sizeof *keys);
    w->before = rbt_calloc(job->k * job->space.dims, sizeof *w->before);
    w->scratch = rbt_calloc(w->centres.panel_count * RBT_NEAREST_PANEL, sizeof *w->scratch);
    st = keys == NULL || w->before == NULL || w->scratch == NULL ? no_memory() : RBT_OK;
    for (size_t c = 0; st == RBT_OK && c < job->k; c++) {
        keys[c] = c;
    }
    if (st == RBT_OK) {
        st = rbt_set_create(worker, job->sums, keys, job->k, RBT_SET_DELTAS, &w->set);
    }
    rbt_free(keys);
    *parameters = (uint64_t)job->k * job->space.dims;
    return st;
}

static void end(void *context, rbt_worker *worker)
{
    struct rbt_kmeans_job *job = context;
    struct rbt_kmeans_worker *w = &job->workers[rbt_worker_index(worker)];
    rbt_set_destroy(w->set);
    w->set = NULL;
    rbt_free(w->scratch);
    rbt_free(w->before);
    rbt_kmeans_centres_free(&w->centres);
    w->scratch = NULL;
    w->before = NULL;
}

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct rbt_kmeans_job *job = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_kmeans_worker *w = &job->workers[index];
    const rbt_status st = rbt_kmeans_step_pull(job, w);
    if (st != RBT_OK) {
        return st;
    }
    const size_t n = job->points.count;
    const size_t from = n * (size_t)chunk->index / (size_t)chunk->count;
    const size_t size = n * (size_t)(chunk->index + 1) / (size_t)chunk->count - from;
    const size_t first = from + size * index / job->worker_count;
    const size_t last = from + size * (index + 1) / job->worker_count;
    const size_t searched = rbt_kmeans_step_assign(job, w, first, last, &figures->loss);
    figures->count += last - first;
    const double share = job->points.matrix != NULL ? 1.0
                                                    : (double)job->points.offsets[n] /
                                                          ((double)n * (double)job->space.dims);
    const double dims = share * (double)job->space.dims;
    rbt_worker_spend(worker, 1e-9 * (costs[COST_PRODUCT].ns * (double)(searched * job->k) * dims +
                                     costs[COST_COORDINATE].ns * (double)(last - first) * dims +
                                     costs[COST_ELEMENT].ns * (double)(job->k * job->width)));
    return RBT_OK;
}

static rbt_status push(void *context, rbt_worker *worker)
{
    struct rbt_kmeans_job *job = context;
    return rbt_set_push(job->workers[rbt_worker_index(worker)].set);
}

/* --- The model ------------------------------------------------------------------------------- */

/* Writes the centres of the rows into the model. */
static rbt_status describe(const struct rbt_kmeans_job *job, const double *rows,
                           struct rbt_model *model)
{
    const size_t dims = job->space.dims;
    struct rbt_model_array *centres = &model->arrays[0];
    struct rbt_model_array *features = &model->arrays[1];
    struct rbt_model_array *sizes = &model->arrays[2];
    model->array_count = 3; /* also if they are half made: the model is freed as a whole */
    if (!rbt_model_array_make(centres, "centres", job->k, dims) ||
        !rbt_model_array_make(features, "features", dims, 1) ||
        !rbt_model_array_make(sizes, "sizes", job->k, 1)) {
        return no_memory();
    }
    const rbt_status st = rbt_kmeans_step_settle(job, rows, centres->values);
    for (size_t i = 0; i < job->k * dims; i++) {
        centres->values[i] += job->space.shift[i % dims];
    }
    for (size_t c = 0; c < job->k; c++) {
        sizes->values[c] = (float)rbt_kmeans_step_count(job, rows, c);
    }
    memcpy(features->keys, job->space.keys, dims * sizeof *features->keys);
    memcpy(features->values, job->space.shift, dims * sizeof *features->values);
    return st;
}

static rbt_status collect(void *context, rbt_worker *worker, int64_t staleness,
                          struct rbt_model *model)
{
    const struct rbt_kmeans_job *job = context;
    struct rbt_rows rows = {0};
    double *all = rbt_calloc(job->k * job->width, sizeof *all);
    rbt_status st = all == NULL
                        ? no_memory()
                        : rbt_pull_range(worker, job->sums, RBT_RANGE_ALL, staleness, &rows);
    for (size_t i = 0; st == RBT_OK && i < rows.count; i++) { /* rows may be missing */
        memcpy(all + rows.keys[i] * job->width, (const double *)rows.values + i * job->width,
               job->width * sizeof *all);
    }
    model->kind = RBT_MODEL_KMEANS;
    rbt_model_set(model, "k", (double)job->k);
    rbt_model_set(model, "dense", job->space.is_dense ? 1 : 0);
    rbt_model_set(model, "labelled", job->config.is_labelled ? 1 : 0);
    rbt_column_options_keep_count(job->column_count, model);
    st = st != RBT_OK ? st : describe(job, all, model);
    st = st != RBT_OK ? st : rbt_column_options_store(&job->data, model);
    rbt_rows_free(&rows);
    rbt_free(all);
    return st;
}

static rbt_status objective(void *context, const struct rbt_model *model, double *objective)
{
    const struct rbt_kmeans_job *job = context;
    struct rbt_kmeans_centres centres = {0};
    double inertia = 0.0;
    rbt_status st = rbt_kmeans_model_centres(model, &job->space, &centres);
    st = st != RBT_OK ? st : rbt_kmeans_model_assign(&centres, &job->points, NULL, &inertia);
    rbt_kmeans_centres_free(&centres);
    if (st == RBT_OK) {
        *objective = inertia / (double)job->points.count;
    }
    return st;
}

static rbt_status evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics)
{
    const struct rbt_kmeans_job *job = context;
    return rbt_kmeans_model_measure(model, &job->eval, metrics);
}

static const struct rbt_training_task task = {.open = open_tables,
                                              .ready = ready,
                                              .work = work,
                                              .push = push,
                                              .end = end,
                                              .collect = collect,
                                              .objective = objective,
                                              .evaluate = evaluate};

/* --- Before the job -------------------------------------------------------------------------- */

/* The points in random order. */
static rbt_status take_points(struct rbt_kmeans_job *job, const struct rbt_examples *examples,
                              double addends)
{
    if (examples->count >= RBT_KMEANS_NO_CENTRE) {
        return rbt_fail(RBT_E_INVALID, "the data has more than %u points",
                        RBT_KMEANS_NO_CENTRE - 1);
    }
    if (job->k > examples->count) {
        return rbt_fail(RBT_E_INVALID, "option \"--k\" is %zu, but the data has only %zu points",
                        job->k, examples->count);
    }
    uint32_t *order = rbt_calloc(examples->count, sizeof *order);
    if (order == NULL) {
        return no_memory();
    }
    struct rbt_rng rng;
    rbt_rng_init(&rng, (uint64_t)job->options->seed, RBT_KMEANS_STREAM, 0);
    rbt_rng_permutation(&rng, order, examples->count);
    const struct rbt_kmeans_choice choice = {.order = order, .count = examples->count};
    rbt_status st = rbt_kmeans_points_survey(examples, addends, &job->space);
    if (st == RBT_OK) {
        st = rbt_kmeans_points_take(&job->space, examples, &choice, &job->points);
    }
    job->width = job->space.dims + 2;
    rbt_free(order);
    return st;
}

/* Numbers keep their size, unless there are categories that they must go with. */
static void describe_files(struct rbt_kmeans_job *job)
{
    job->data = rbt_inputs_training(job->options);
    job->data.is_unlabelled = !job->config.is_labelled;
    job->data.ignores_label = true;
    rbt_column_options_apply(&job->config.columns, &job->plan, &job->data);
    job->plan.is_raw = job->config.columns.categorical == NULL;
}

static rbt_status prepare(struct rbt_kmeans_job *job, int64_t epochs)
{
    struct rbt_examples examples = {0};
    describe_files(job);
    rbt_status st = rbt_examples_read(&job->data, &examples);
    if (st != RBT_OK) {
        return st;
    }
    /* With minibatches a point is added in every epoch, else it is there at most once. */
    const double times = job->config.batch > 0 ? (double)epochs : 1.0;
    job->column_count = examples.column_count;
    st = take_points(job, &examples, times * (double)examples.count);
    rbt_inputs_name_eval(job->options, &examples, &job->data);
    rbt_examples_free(&examples);
    if (st == RBT_OK && job->options->eval.count > 0) {
        st = rbt_examples_read(&job->data, &job->eval);
    }
    st = st != RBT_OK ? st : rbt_kmeans_centres_make(&job->space, job->k, &job->initial);
    if (st != RBT_OK) {
        return st;
    }
    job->nearest = rbt_calloc(job->points.count, sizeof *job->nearest);
    job->lower = rbt_calloc(job->points.count, sizeof *job->lower);
    if (job->nearest == NULL || job->lower == NULL) {
        return no_memory();
    }
    memset(job->nearest, 0xff, job->points.count * sizeof *job->nearest); /* RBT_KMEANS_NO_CENTRE */
    if (job->config.init == RBT_KMEANS_RANDOM) {
        rbt_kmeans_init_random(&job->points, &job->initial);
        return RBT_OK;
    }
    return rbt_kmeans_init_plus(&job->points, (uint64_t)job->options->seed, &job->initial);
}

static void free_all(struct rbt_kmeans_job *job)
{
    rbt_fields_free(&job->plan);
    rbt_free(job->workers);
    rbt_free(job->lower);
    rbt_free(job->nearest);
    rbt_kmeans_centres_free(&job->initial);
    rbt_kmeans_points_free(&job->points);
    rbt_kmeans_points_leave(&job->space);
    rbt_examples_free(&job->eval);
}

/* The objective of one centre, the mean of all points; 0 if there is no memory to tell. */
static double spread(const struct rbt_kmeans_job *job)
{
    const double n = (double)job->points.count;
    double *sums = rbt_calloc(job->space.dims, sizeof *sums);
    double squares = 0.0;
    for (size_t i = 0; sums != NULL && i < job->points.count; i++) {
        rbt_kmeans_points_add(&job->points, i, 1.0, sums);
        squares += job->points.squares[i];
    }
    double mean = 0.0; /* |mean|^2 */
    for (size_t j = 0; sums != NULL && j < job->space.dims; j++) {
        mean += sums[j] / n * (sums[j] / n);
    }
    rbt_free(sums);
    return fmax(squares / n - mean, 0.0);
}

/* --epochs alone says how many passes there are. */
static double tolerance_of(const struct rbt_kmeans_job *job)
{
    if (!isnan(job->config.tolerance)) {
        return job->config.tolerance;
    }
    const double fallback = job->config.batch > 0 ? tolerance_batch : tolerance_default;
    return job->options->epochs > 0 ? 0.0 : fallback;
}

/* What the options say, before data is read. */
static rbt_status check(struct rbt_kmeans_job *job)
{
    const rbt_status st = rbt_rules_read_sums(job->options, "kmeans, which adds up points",
                                              default_filter, &job->rules);
    if (st == RBT_OK && job->config.batch > 0 && job->options->clocks_per_epoch > 0) {
        return rbt_fail(RBT_E_INVALID,
                        "options \"--batch\" and \"--clocks-per-epoch\" exclude each other");
    }
    return st;
}

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_kmeans_config *config = settings;
    struct rbt_training training = rbt_training_of(options, observer, &task, EPOCHS_DEFAULT);
    struct rbt_kmeans_job job = {.options = options,
                                 .config = *config,
                                 .k = (size_t)config->k,
                                 .worker_count = training.workers};
    training.context = &job;
    training.rules = &job.rules;
    rbt_status st = check(&job);
    if (st != RBT_OK) {
        return st;
    }
    job.workers = rbt_calloc(job.worker_count, sizeof *job.workers);
    st = job.workers == NULL ? no_memory() : prepare(&job, training.epochs);
    if (st == RBT_OK) {
        const int64_t n = (int64_t)job.points.count;
        training.examples = job.points.count;
        training.clocks_per_epoch = config->batch > 0 ? (n + config->batch - 1) / config->batch
                                                      : rbt_training_clocks(options, &job.rules);
        training.tolerance = tolerance_of(&job);
        training.trivial = spread(&job);
        training.trivial_name = "one centre for all points";
        training.remedy = "Try --consistency bsp.";
        st = rbt_training_run(&training, summary);
    }
    free_all(&job);
    return st;
}

static const char *const init_names[] = {
    [RBT_KMEANS_PLUS] = "kmeans++", [RBT_KMEANS_RANDOM] = "random", NULL};

#define ENTRY(kind, ...)         RBT_OPTION_ENTRY(struct rbt_kmeans_config, kind, __VA_ARGS__)
#define COLUMN(kind, field, ...) ENTRY(kind, columns.field, __VA_ARGS__)
#define UNLABELLED(...)
static const struct rbt_option kmeans_options[] = {RBT_KMEANS_OPTIONS(ENTRY)
                                                       RBT_COLUMN_OPTIONS(COLUMN, UNLABELLED)};

const struct rbt_algo rbt_kmeans = {
    .name = "kmeans",
    .summary = "K-means: clusters of points around their means.",
    .examples = "  rubato train kmeans --data points.csv --k 10 --model m.rbt\n"
                "  rubato train kmeans --data train.svm --k 100 --batch 10k --epochs 5\n",
    .model_kind = RBT_MODEL_KMEANS,
    .options = kmeans_options,
    .option_count = sizeof kmeans_options / sizeof kmeans_options[0],
    .config_size = sizeof(struct rbt_kmeans_config),
    .costs = costs,
    .cost_count = COST_COUNT,
    .epochs_default = EPOCHS_DEFAULT,
    .train = train,
    .predict = rbt_kmeans_model_predict,
    .evaluate = rbt_kmeans_model_evaluate,
    .exports = rbt_kmeans_model_exports,
    .describe = rbt_column_options_describe,
};
