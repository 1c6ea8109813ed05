/* algo/kmeans.c - k-means: centres that are the means of the points nearest to them.
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
#include "algo/kmeans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/kmeans_init.h"
#include "algo/kmeans_model.h"
#include "algo/training.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

enum { EPOCHS_DEFAULT = 30, BLOCK = 1024 }; /* block: points that a worker looks at together */
enum { STREAM = 0x6b6d6e73 };               /* "kmns": whose random numbers these are */

static const double split_step = 0.1; /* standard deviations: about half of the points are nearer */
static const uint32_t no_centre = UINT32_MAX;
static const char default_filter[] = "keys,zeros"; /* rows of centres that stay are zero */

/* Measured by hand on one core of an Intel Xeon (bench/RESULTS.md): a multiplication of a search,
 * a coordinate of a look at the point's own centre, an element of the rows pulled and pushed. */
enum { COST_PRODUCT, COST_COORDINATE, COST_ELEMENT, COST_COUNT };
static const struct rbt_algo_cost costs[COST_COUNT] = {
    [COST_PRODUCT] = {"product", 0.036},
    [COST_COORDINATE] = {"coordinate", 0.15},
    [COST_ELEMENT] = {"element", 5.0},
};

struct kmeans_worker {
    rbt_set *set;
    struct rbt_kmeans_centres centres; /* of the last clock */
    float *before;                     /* (k, dims): of the clock before it */
    bool has_before;
    double drift; /* m: sum of the largest moves of a centre so far */
    uint32_t rows[BLOCK];
    uint32_t nearest[BLOCK];
    float first[BLOCK];
    float second[BLOCK];
    float distances[BLOCK];
    float *scratch;
};

struct kmeans {
    const struct rbt_train_options *options;
    struct rbt_kmeans_config config;
    struct rbt_rules rules;
    size_t k;
    size_t width; /* of a row: dims, then the sum of squares, then the number of points */
    struct rbt_kmeans_space space;
    struct rbt_kmeans_points points;
    struct rbt_kmeans_centres initial;
    uint32_t *nearest; /* of each point; of Lloyd only */
    float *lower;      /* d + m at the time of the search */
    uint32_t worker_count;
    struct kmeans_worker *workers;
    struct rbt_examples eval;
    rbt_table *sums;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the centres of a worker");
}

/* --- Centres from rows ----------------------------------------------------------------------- */

/* The sum of squared distances in a cluster. */
struct weight {
    double squares;
    size_t centre;
};

static int compare_weights(const void *a, const void *b)
{
    const struct weight *x = a;
    const struct weight *y = b;
    if (x->squares != y->squares) {
        return x->squares > y->squares ? -1 : 1;
    }
    return x->centre < y->centre ? -1 : 1;
}

static double count_of(const struct kmeans *kmeans, const double *rows, size_t c)
{
    return rows[c * kmeans->width + kmeans->space.dims + 1];
}

static double squares_of(const struct kmeans *kmeans, const double *rows, size_t c)
{
    const double *row = rows + c * kmeans->width;
    const double n = count_of(kmeans, rows, c);
    double sum = 0.0;
    for (size_t j = 0; n > 0 && j < kmeans->space.dims; j++) {
        sum += row[j] * row[j];
    }
    return n > 0 ? fmax(row[kmeans->space.dims] - sum / n, 0.0) : 0.0;
}

/* Puts the clusters without points beside others. */
static rbt_status fill_empty(const struct kmeans *kmeans, const double *rows, float *values)
{
    const size_t dims = kmeans->space.dims;
    struct weight *weights = rbt_calloc(kmeans->k, sizeof *weights);
    if (weights == NULL) {
        return no_memory();
    }
    for (size_t c = 0; c < kmeans->k; c++) {
        weights[c] = (struct weight){squares_of(kmeans, rows, c), c};
    }
    qsort(weights, kmeans->k, sizeof *weights, compare_weights);
    size_t next = 0;
    for (size_t c = 0; c < kmeans->k; c++) {
        if (count_of(kmeans, rows, c) > 0) {
            continue;
        }
        const struct weight *donor = &weights[next++];
        const double n = fmax(count_of(kmeans, rows, donor->centre), 1.0);
        const double deviation = sqrt(donor->squares / (n * (double)dims));
        const uint64_t key = ((uint64_t)STREAM + c) ^ rbt_hash_key((uint64_t)n);
        for (size_t j = 0; j < dims; j++) {
            const double step = rbt_rng_normal_at((uint64_t)kmeans->options->seed, key, j);
            values[c * dims + j] =
                (float)((double)values[donor->centre * dims + j] + split_step * deviation * step);
        }
    }
    rbt_free(weights);
    return RBT_OK;
}

/* values (k, dims) become the centres of the rows. */
static rbt_status settle(const struct kmeans *kmeans, const double *rows, float *values)
{
    const size_t dims = kmeans->space.dims;
    double total = 0.0;
    size_t empty_count = 0;
    for (size_t c = 0; c < kmeans->k; c++) {
        const double n = count_of(kmeans, rows, c);
        total += n;
        empty_count += n > 0 ? 0 : 1;
        for (size_t j = 0; j < dims; j++) {
            values[c * dims + j] = n > 0 ? (float)(rows[c * kmeans->width + j] / n)
                                         : kmeans->initial.values[c * dims + j];
        }
    }
    /* Before all points are assigned, a cluster is only empty because others are late. */
    return empty_count > 0 && total >= (double)kmeans->points.count
               ? fill_empty(kmeans, rows, values)
               : RBT_OK;
}

/* --- The job --------------------------------------------------------------------------------- */

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct kmeans *kmeans = context;
    struct rbt_table_options sums = {.struct_size = sizeof sums,
                                     .type = RBT_F64,
                                     .width = (uint32_t)kmeans->width,
                                     .placement = (rbt_placement)kmeans->options->placement,
                                     .keys_max = kmeans->k > 1 ? kmeans->k - 1 : 1,
                                     .filter = rbt_rules_filter(&kmeans->rules)};
    return rbt_table_open(job, "sums", &sums, &kmeans->sums);
}

/* Nothing is told to the others: they have the same data. */
static rbt_status begin(void *context, rbt_worker *worker)
{
    (void)context;
    (void)worker;
    return RBT_OK;
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct kmeans *kmeans = context;
    struct kmeans_worker *w = &kmeans->workers[rbt_worker_index(worker)];
    rbt_status st = rbt_kmeans_centres_make(&kmeans->space, kmeans->k, &w->centres);
    if (st != RBT_OK) {
        return st;
    }
    uint64_t *keys = rbt_calloc(kmeans->k, sizeof *keys);
    w->before = rbt_calloc(kmeans->k * kmeans->space.dims, sizeof *w->before);
    w->scratch = rbt_calloc(w->centres.panel_count * RBT_NEAREST_PANEL, sizeof *w->scratch);
    st = keys == NULL || w->before == NULL || w->scratch == NULL ? no_memory() : RBT_OK;
    for (size_t c = 0; st == RBT_OK && c < kmeans->k; c++) {
        keys[c] = c;
    }
    if (st == RBT_OK) {
        st = rbt_set_create(worker, kmeans->sums, keys, kmeans->k, RBT_SET_DELTAS, &w->set);
    }
    rbt_free(keys);
    *parameters = (uint64_t)kmeans->k * kmeans->space.dims;
    return st;
}

static void end(void *context, rbt_worker *worker)
{
    struct kmeans *kmeans = context;
    struct kmeans_worker *w = &kmeans->workers[rbt_worker_index(worker)];
    rbt_set_destroy(w->set);
    w->set = NULL;
    rbt_free(w->scratch);
    rbt_free(w->before);
    rbt_kmeans_centres_free(&w->centres);
    w->scratch = NULL;
    w->before = NULL;
}

/* The largest distance between a centre and where it was. */
static double largest_move(const struct kmeans *kmeans, const float *now, const float *before)
{
    const size_t dims = kmeans->space.dims;
    double most = 0.0;
    for (size_t c = 0; c < kmeans->k; c++) {
        double sum = 0.0;
        for (size_t j = c * dims; j < (c + 1) * dims; j++) {
            const double d = (double)now[j] - (double)before[j];
            sum += d * d;
        }
        most = fmax(most, sum);
    }
    return sqrt(most);
}

/* Gets the centres of this clock. */
static rbt_status pull(const struct kmeans *kmeans, struct kmeans_worker *w)
{
    rbt_status st = rbt_set_pull(w->set);
    if (st != RBT_OK) {
        return st;
    }
    const size_t bytes = kmeans->k * kmeans->space.dims * sizeof *w->before;
    memcpy(w->before, w->centres.values, bytes);
    st = settle(kmeans, rbt_set_values(w->set), w->centres.values);
    if (st == RBT_OK && w->has_before) {
        w->drift += largest_move(kmeans, w->centres.values, w->before);
    }
    w->has_before = true;
    rbt_kmeans_centres_pack(&w->centres);
    return st;
}

/* Adds a point to the update of a row, or takes it off. */
static void assign(const struct kmeans *kmeans, double *deltas, size_t i, uint32_t centre,
                   double sign)
{
    double *row = deltas + centre * kmeans->width;
    rbt_kmeans_points_add(&kmeans->points, i, sign, row);
    row[kmeans->space.dims] += sign * kmeans->points.squares[i];
    row[kmeans->space.dims + 1] += sign;
}

/* How near another centre can be, from the second smallest score: less what floats may be wrong by
 * in a product of so many terms. */
static float lower_bound(const struct kmeans *kmeans, const struct kmeans_worker *w, size_t i,
                         float second)
{
    const struct rbt_kmeans_points *points = &kmeans->points;
    const double terms = points->matrix != NULL
                             ? (double)kmeans->space.dims
                             : (double)(points->offsets[i + 1] - points->offsets[i]);
    const double error = (terms + 16) * 0x1p-23 * (points->squares[i] + w->centres.square_max);
    const double square = points->squares[i] + 2.0 * (double)second - error;
    return (float)((sqrt(fmax(square, 0.0)) + w->drift) * (1 - 0x1p-20));
}

static void search(const struct kmeans *kmeans, struct kmeans_worker *w, size_t count)
{
    const struct rbt_kmeans_search search = {.rows = w->rows,
                                             .count = count,
                                             .scratch = w->scratch,
                                             .found = {w->nearest, w->first, w->second}};
    rbt_kmeans_centres_search(&w->centres, &kmeans->points, &search);
}

/* Lists those of points begin .. end-1 that may have changed; `distances` are to their centres. */
static size_t list_doubtful(const struct kmeans *kmeans, struct kmeans_worker *w, size_t begin,
                            size_t end)
{
    size_t count = 0;
    for (size_t i = begin; i < end; i++) {
        const double bound = (double)kmeans->lower[i] - w->drift;
        const double distance = (double)w->distances[i - begin];
        w->rows[count] = (uint32_t)i;
        count += bound > 0 && distance < bound * bound ? 0 : 1;
    }
    return count;
}

/* Lloyd's step for points begin .. end-1, at most BLOCK; returns how many were searched. */
static size_t step_lloyd(struct kmeans *kmeans, struct kmeans_worker *w, size_t begin, size_t end)
{
    double *deltas = rbt_set_deltas(w->set);
    const struct rbt_kmeans_look look = {begin, end, kmeans->nearest, w->distances};
    const bool is_first = kmeans->nearest[begin] == no_centre; /* a chunk is assigned as a whole */
    size_t count = end - begin;
    if (is_first) {
        for (size_t i = begin; i < end; i++) {
            w->rows[i - begin] = (uint32_t)i;
        }
    } else {
        rbt_kmeans_centres_distance(&w->centres, &kmeans->points, &look);
        count = list_doubtful(kmeans, w, begin, end);
    }
    search(kmeans, w, count);
    bool has_changed = is_first;
    for (size_t r = 0; r < count; r++) {
        const size_t i = w->rows[r];
        kmeans->lower[i] = lower_bound(kmeans, w, i, w->second[r]);
        if (kmeans->nearest[i] == w->nearest[r]) {
            continue;
        }
        if (!is_first) {
            assign(kmeans, deltas, i, kmeans->nearest[i], -1.0);
        }
        assign(kmeans, deltas, i, w->nearest[r], 1.0);
        kmeans->nearest[i] = w->nearest[r];
        has_changed = true;
    }
    if (has_changed) {
        rbt_kmeans_centres_distance(&w->centres, &kmeans->points, &look);
    }
    return count;
}

/* The same with minibatches: nothing is remembered. */
static size_t step_batch(struct kmeans *kmeans, struct kmeans_worker *w, size_t begin, size_t end)
{
    double *deltas = rbt_set_deltas(w->set);
    for (size_t i = begin; i < end; i++) {
        w->rows[i - begin] = (uint32_t)i;
    }
    search(kmeans, w, end - begin);
    for (size_t i = begin; i < end; i++) {
        kmeans->nearest[i] = w->nearest[i - begin];
        assign(kmeans, deltas, i, kmeans->nearest[i], 1.0);
    }
    const struct rbt_kmeans_look look = {begin, end, kmeans->nearest, w->distances};
    rbt_kmeans_centres_distance(&w->centres, &kmeans->points, &look);
    return end - begin;
}

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct kmeans *kmeans = context;
    const uint32_t index = rbt_worker_index(worker);
    struct kmeans_worker *w = &kmeans->workers[index];
    const rbt_status st = pull(kmeans, w);
    if (st != RBT_OK) {
        return st;
    }
    const size_t n = kmeans->points.count;
    const size_t from = n * (size_t)chunk->index / (size_t)chunk->count;
    const size_t size = n * (size_t)(chunk->index + 1) / (size_t)chunk->count - from;
    const size_t first = from + size * index / kmeans->worker_count;
    const size_t last = from + size * (index + 1) / kmeans->worker_count;
    size_t searched = 0;
    for (size_t begin = first; begin < last; begin += BLOCK) {
        const size_t end = last - begin < BLOCK ? last : begin + BLOCK;
        searched += kmeans->config.batch > 0 ? step_batch(kmeans, w, begin, end)
                                             : step_lloyd(kmeans, w, begin, end);
        for (size_t i = 0; i < end - begin; i++) {
            figures->loss += (double)w->distances[i];
        }
    }
    figures->count += last - first;
    const double share =
        kmeans->points.matrix != NULL
            ? 1.0
            : (double)kmeans->points.offsets[n] / ((double)n * (double)kmeans->space.dims);
    const double dims = share * (double)kmeans->space.dims;
    rbt_spend(worker, 1e-9 * (costs[COST_PRODUCT].ns * (double)(searched * kmeans->k) * dims +
                              costs[COST_COORDINATE].ns * (double)(last - first) * dims +
                              costs[COST_ELEMENT].ns * (double)(kmeans->k * kmeans->width)));
    return RBT_OK;
}

static rbt_status push(void *context, rbt_worker *worker)
{
    struct kmeans *kmeans = context;
    return rbt_set_push(kmeans->workers[rbt_worker_index(worker)].set);
}

static double penalty(void *context, rbt_worker *worker)
{
    (void)context;
    (void)worker;
    return 0.0;
}

/* --- The model ------------------------------------------------------------------------------- */

/* Adds an array; NULL if there is no memory. */
static struct rbt_model_array *add_array(struct rbt_model *model, const char *name, size_t count,
                                         size_t width)
{
    struct rbt_model_array *array = &model->arrays[model->array_count];
    *array = (struct rbt_model_array){.width = (uint32_t)width, .count = count};
    array->keys = rbt_calloc(count, sizeof *array->keys);
    array->values = rbt_calloc(count * width, sizeof *array->values);
    memcpy(array->name, name, strlen(name) + 1);
    model->array_count++; /* also if it is half made: the model is freed as a whole */
    for (size_t i = 0; array->keys != NULL && i < count; i++) {
        array->keys[i] = i;
    }
    return array->keys == NULL || array->values == NULL ? NULL : array;
}

/* Writes the centres of the rows into the model. */
static rbt_status describe(const struct kmeans *kmeans, const double *rows, struct rbt_model *model)
{
    const size_t dims = kmeans->space.dims;
    struct rbt_model_array *centres = add_array(model, "centres", kmeans->k, dims);
    struct rbt_model_array *features = add_array(model, "features", dims, 1);
    struct rbt_model_array *sizes = add_array(model, "sizes", kmeans->k, 1);
    if (centres == NULL || features == NULL || sizes == NULL) {
        return no_memory();
    }
    const rbt_status st = settle(kmeans, rows, centres->values);
    for (size_t i = 0; i < kmeans->k * dims; i++) {
        centres->values[i] += kmeans->space.shift[i % dims];
    }
    for (size_t c = 0; c < kmeans->k; c++) {
        sizes->values[c] = (float)count_of(kmeans, rows, c);
    }
    memcpy(features->keys, kmeans->space.keys, dims * sizeof *features->keys);
    memcpy(features->values, kmeans->space.shift, dims * sizeof *features->values);
    return st;
}

static rbt_status collect(void *context, rbt_worker *worker, int64_t staleness,
                          struct rbt_model *model)
{
    const struct kmeans *kmeans = context;
    struct rbt_rows rows = {0};
    double *all = rbt_calloc(kmeans->k * kmeans->width, sizeof *all);
    rbt_status st = all == NULL
                        ? no_memory()
                        : rbt_pull_range(worker, kmeans->sums, RBT_RANGE_ALL, staleness, &rows);
    for (size_t i = 0; st == RBT_OK && i < rows.count; i++) { /* rows may be missing */
        memcpy(all + rows.keys[i] * kmeans->width, (const double *)rows.values + i * kmeans->width,
               kmeans->width * sizeof *all);
    }
    model->kind = RBT_MODEL_KMEANS;
    rbt_model_set(model, "k", (double)kmeans->k);
    rbt_model_set(model, "dense", kmeans->space.is_dense ? 1 : 0);
    rbt_model_set(model, "labelled", kmeans->config.is_labelled ? 1 : 0);
    st = st != RBT_OK ? st : describe(kmeans, all, model);
    rbt_rows_free(&rows);
    rbt_free(all);
    return st;
}

static rbt_status objective(void *context, const struct rbt_model *model, double *objective)
{
    const struct kmeans *kmeans = context;
    struct rbt_kmeans_centres centres = {0};
    double inertia = 0.0;
    rbt_status st = rbt_kmeans_model_centres(model, &kmeans->space, &centres);
    st = st != RBT_OK ? st : rbt_kmeans_model_assign(&centres, &kmeans->points, NULL, &inertia);
    rbt_kmeans_centres_free(&centres);
    if (st == RBT_OK) {
        *objective = inertia / (double)kmeans->points.count;
    }
    return st;
}

static rbt_status evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics)
{
    const struct kmeans *kmeans = context;
    return rbt_kmeans_model_measure(model, &kmeans->eval, metrics);
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

/* --- Before the job -------------------------------------------------------------------------- */

static rbt_status read_file(const struct kmeans *kmeans, const struct rbt_option_list *list,
                            struct rbt_examples *examples)
{
    const struct rbt_predict_options options = {.data = *list,
                                                .format = kmeans->options->format,
                                                .is_zero_based = kmeans->options->is_zero_based,
                                                .label_column = kmeans->options->label_column};
    return rbt_kmeans_model_read(&options, kmeans->config.is_labelled, examples);
}

/* The points in random order. */
static rbt_status take_points(struct kmeans *kmeans, const struct rbt_examples *examples,
                              double addends)
{
    if (examples->count >= no_centre) {
        return rbt_fail(RBT_E_INVALID, "there are more than %u points", no_centre - 1);
    }
    if (kmeans->k > examples->count) {
        return rbt_fail(RBT_E_INVALID, "--k %zu is more than the %zu points", kmeans->k,
                        examples->count);
    }
    uint32_t *order = rbt_calloc(examples->count, sizeof *order);
    if (order == NULL) {
        return no_memory();
    }
    struct rbt_rng rng;
    rbt_rng_init(&rng, (uint64_t)kmeans->options->seed, STREAM, 0);
    rbt_rng_permutation(&rng, order, examples->count);
    const struct rbt_kmeans_choice choice = {.order = order, .count = examples->count};
    rbt_status st = rbt_kmeans_points_survey(examples, addends, &kmeans->space);
    if (st == RBT_OK) {
        st = rbt_kmeans_points_take(&kmeans->space, examples, &choice, &kmeans->points);
    }
    kmeans->width = kmeans->space.dims + 2;
    rbt_free(order);
    return st;
}

static rbt_status prepare(struct kmeans *kmeans, int64_t epochs)
{
    struct rbt_examples examples = {0};
    rbt_status st = read_file(kmeans, &kmeans->options->data, &examples);
    if (st != RBT_OK) {
        return st;
    }
    /* With minibatches a point is added in every epoch, else it is there at most once. */
    const double times = kmeans->config.batch > 0 ? (double)epochs : 1.0;
    st = take_points(kmeans, &examples, times * (double)examples.count);
    rbt_examples_free(&examples);
    if (st == RBT_OK && kmeans->options->eval.count > 0) {
        st = read_file(kmeans, &kmeans->options->eval, &kmeans->eval);
    }
    st = st != RBT_OK ? st : rbt_kmeans_centres_make(&kmeans->space, kmeans->k, &kmeans->initial);
    if (st != RBT_OK) {
        return st;
    }
    kmeans->nearest = rbt_calloc(kmeans->points.count, sizeof *kmeans->nearest);
    kmeans->lower = rbt_calloc(kmeans->points.count, sizeof *kmeans->lower);
    if (kmeans->nearest == NULL || kmeans->lower == NULL) {
        return no_memory();
    }
    memset(kmeans->nearest, 0xff, kmeans->points.count * sizeof *kmeans->nearest); /* no_centre */
    if (kmeans->config.init == RBT_KMEANS_RANDOM) {
        rbt_kmeans_init_random(&kmeans->points, &kmeans->initial);
        return RBT_OK;
    }
    return rbt_kmeans_init_plus(&kmeans->points, (uint64_t)kmeans->options->seed, &kmeans->initial);
}

static void free_all(struct kmeans *kmeans)
{
    rbt_free(kmeans->workers);
    rbt_free(kmeans->lower);
    rbt_free(kmeans->nearest);
    rbt_kmeans_centres_free(&kmeans->initial);
    rbt_kmeans_points_free(&kmeans->points);
    rbt_kmeans_points_leave(&kmeans->space);
    rbt_examples_free(&kmeans->eval);
}

/* What the options say, before data is read. */
static rbt_status check(struct kmeans *kmeans)
{
    const rbt_status st = rbt_rules_read(kmeans->options, &kmeans->rules);
    if (kmeans->options->filter == NULL) {
        memcpy(kmeans->rules.filter, default_filter, sizeof default_filter);
    }
    if (st == RBT_OK && !kmeans->rules.is_plain) {
        return rbt_fail(RBT_E_INVALID, "k-means adds up points; it has no use for --rule %s",
                        kmeans->options->rule);
    }
    if (st == RBT_OK && kmeans->options->bandwidth > 0) {
        return rbt_rules_refuse_bandwidth("mf with a rule that takes gradients");
    }
    if (st == RBT_OK && kmeans->config.batch > 0 && kmeans->options->clocks_per_epoch > 0) {
        return rbt_fail(RBT_E_INVALID,
                        "--batch says how many clocks an epoch has; leave out --clocks-per-epoch");
    }
    return st;
}

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_kmeans_config *config = settings;
    struct kmeans kmeans = {.options = options,
                            .config = *config,
                            .k = (size_t)config->k,
                            .worker_count = rbt_training_workers(options)};
    struct rbt_training training = {.options = options,
                                    .observer = observer,
                                    .task = &task,
                                    .context = &kmeans,
                                    .workers = kmeans.worker_count,
                                    .epochs =
                                        options->epochs > 0 ? options->epochs : EPOCHS_DEFAULT,
                                    .rules = &kmeans.rules,
                                    .started = rbt_clock_seconds(),
                                    .has_eval = options->eval.count > 0};
    rbt_status st = check(&kmeans);
    if (st != RBT_OK) {
        return st;
    }
    kmeans.workers = rbt_calloc(kmeans.worker_count, sizeof *kmeans.workers);
    st = kmeans.workers == NULL ? no_memory() : prepare(&kmeans, training.epochs);
    if (st == RBT_OK) {
        const int64_t n = (int64_t)kmeans.points.count;
        training.examples = kmeans.points.count;
        training.clocks_per_epoch = config->batch > 0 ? (n + config->batch - 1) / config->batch
                                                      : rbt_training_clocks(options, &kmeans.rules);
        st = rbt_training_run(&training, summary);
    }
    free_all(&kmeans);
    return st;
}

static const char *const init_names[] = {
    [RBT_KMEANS_PLUS] = "kmeans++", [RBT_KMEANS_RANDOM] = "random", NULL};

#define AT(field) offsetof(struct rbt_kmeans_config, field)
static const struct rbt_option kmeans_options[] = {
    {.name = "k",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e6,
     .value = "8",
     .offset = AT(k),
     .help = "Clusters."},
    {.name = "init",
     .type = RBT_OPTION_CHOICE,
     .choices = init_names,
     .value = "kmeans++",
     .offset = AT(init),
     .help = "Where centres begin: at points far from each other, or at any points."},
    {.name = "batch",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 1e9,
     .value = "0",
     .offset = AT(batch),
     .help = "Points of a clock, all workers together: minibatches. 0 is Lloyd's algorithm, which "
             "looks at all points before centres move."},
    {.name = "labelled",
     .type = RBT_OPTION_FLAG,
     .value = "false",
     .offset = AT(is_labelled),
     .help = "Csv files have a label in --label-column, which is left out; else every column is a "
             "coordinate."},
};
#undef AT

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
};
