/* algo/linear/linear_cd.c - the Lasso by parallel coordinate descent.
 *
 * Minimises (1/n) sum_i (x_i'w + b - y_i)^2 / 2 + l1 ||w||_1 + l2/2 ||w||^2. Every worker has the
 * columns of its own features, of all examples, and alone changes their weights. What workers share
 * of the weights is what they make of them, the fit v = Xw + b: it is as long as there are
 * examples, which with the Lasso is short, and a worker needs no column of another. The weights are
 * in a table as well, for whoever wants the model.
 *
 * In a clock a worker pulls v and goes over its features in random order:
 *
 *     g_j = sum_i x_ij (v_i - y_i + s d_i) / n,  h_j = s sum_i x_ij^2 / n
 *     w_j <- soft(w_j - g_j / h_j, l1 / h_j) / (1 + l2 / h_j)
 *
 * where d is what it has itself added to the fit in this clock, and s makes up for what the others
 * add at the same time: for m workers that do not hear of each other for k clocks, s = m (1 + k)
 * keeps the sum of all steps from going too far, since (sum of m numbers)^2 <= m (sum of their
 * squares). With one worker s = 1, and this is coordinate descent as in the books. --lr divides s:
 * features of different workers that have little in common allow for more than 1. */
#include <math.h>
#include <string.h>

#include "algo/frame/columns.h"
#include "algo/frame/room.h"
#include "algo/linear/linear_gap.h"
#include "algo/linear/linear_job.h"
#include "algo/linear/linear_solvers.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "math/loss.h"

enum { EPOCHS_DEFAULT = 2000 };

/* Measured like those of linear_step.c; a nonzero is read twice, and an example's row is pulled and
 * pushed. */
static const double ns_per_nonzero = 4.0;
static const double ns_per_row = 16.0;

static const uint64_t bias_key = 0;

struct part {
    struct rbt_room room;
    struct rbt_share share; /* all examples, with the worker's features only */
    struct rbt_columns columns;
    double *squares; /* sum of x^2 of each column: (columns.count) */
    double *weights; /* (columns.count) */
    double bias;
    double *residuals; /* v - y + s d: (share.count) */
    uint32_t *order;   /* of columns: (columns.count) */
    rbt_set *fit;
    rbt_set *rows; /* of the table of weights */
    double spread; /* s */
    struct rbt_linear_gap_part gap;
};

struct cd {
    rbt_table *fit;
    struct rbt_linear_gap gap;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's features");
}

static rbt_status check(struct rbt_linear_job *linear, struct rbt_train_options *options)
{
    struct rbt_linear_config *config = &linear->config;
    rbt_status st = rbt_linear_refuse(linear, false);
    if (st == RBT_OK && config->loss != RBT_LOSS_SQUARED) {
        st = rbt_linear_refuse_loss(linear, "It is for --loss squared; for logistic there is "
                                            "--solver dbpg.");
    }
    if (st != RBT_OK) {
        return st;
    }
    config->lr = isnan(config->lr) ? 1.0 : config->lr;
    if (config->lr <= 0.0) {
        return rbt_fail(RBT_E_INVALID, "solver \"cd\" needs a step size \"--lr\" above 0");
    }
    if (options->consistency != NULL && strcmp(options->consistency, "essp:2") == 0) {
        options->consistency =
            "bsp"; /* the default of all algorithms would need thrice the passes */
    }
    struct cd *cd = rbt_calloc(1, sizeof *cd);
    linear->own = cd;
    if (cd == NULL) {
        return no_memory();
    }
    rbt_linear_gap_init(&cd->gap, options);
    st = rbt_rules_read(options, &linear->rules);
    linear->bias_rules = linear->rules;
    return st;
}

static rbt_status settle(struct rbt_linear_job *linear, struct rbt_training *training)
{
    struct rbt_linear_config *config = &linear->config;
    const double n = (double)linear->examples.count;
    if (isnan(config->l2)) {
        config->l2 = config->l1 > 0 ? 0.0 : RBT_LINEAR_L2_TOTAL / n;
    }
    training->clocks_per_epoch = rbt_training_clocks(linear->options, &linear->rules);
    linear->clocks_per_epoch = training->clocks_per_epoch;
    rbt_linear_gap_settle(&((struct cd *)linear->own)->gap, training);
    return RBT_OK;
}

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct rbt_linear_job *linear = context;
    struct cd *cd = linear->own;
    const struct rbt_table_options fit = {.struct_size = sizeof fit, .type = RBT_F64};
    rbt_status st = rbt_linear_open(context, job);
    st = st != RBT_OK ? st : rbt_table_open(job, "fit", &fit, &cd->fit);
    return st != RBT_OK ? st : rbt_linear_gap_open(linear, &cd->gap, job);
}

/* --- A worker's features -----------------------------------------------------------------------
 */

/* All examples with those features alone that are the worker's. `own` is empty at first, and the
 * caller's to free. */
static rbt_status copy_own(const struct rbt_linear_job *linear, uint32_t index,
                           struct rbt_examples *own)
{
    const struct rbt_examples *all = &linear->examples;
    uint64_t count = 0;
    for (uint64_t k = 0; k < all->offsets[all->count]; k++) {
        count += rbt_hash_key(all->keys[k] ^ linear->seed) % linear->worker_count == index;
    }
    own->offsets = rbt_calloc(all->count + 1, sizeof *own->offsets);
    own->labels = rbt_calloc(all->count, sizeof *own->labels);
    own->keys = rbt_calloc(count, sizeof *own->keys);
    own->values = rbt_calloc(count, sizeof *own->values);
    if (own->offsets == NULL || own->labels == NULL || own->keys == NULL || own->values == NULL) {
        return no_memory();
    }
    own->count = all->count;
    uint64_t next = 0;
    for (size_t i = 0; i < all->count; i++) {
        for (uint64_t k = all->offsets[i]; k < all->offsets[i + 1]; k++) {
            if (rbt_hash_key(all->keys[k] ^ linear->seed) % linear->worker_count == index) {
                own->keys[next] = all->keys[k];
                own->values[next++] = all->values[k];
            }
        }
        own->labels[i] = all->labels[i];
        own->offsets[i + 1] = next;
    }
    return RBT_OK;
}

static rbt_status take_part(const struct rbt_linear_job *linear, uint32_t index, struct part *part)
{
    struct rbt_examples own = {0};
    rbt_status st = copy_own(linear, index, &own);
    /* The order of the examples follows from the seed alone: it is the same for all workers. */
    st = st != RBT_OK ? st : rbt_share_take(&own, linear->seed, 0, 1, &part->share);
    rbt_examples_free(&own);
    st = st != RBT_OK ? st : rbt_columns_take(&part->share, 0, part->share.count, &part->columns);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_columns *columns = &part->columns;
    part->squares = rbt_room_take(&part->room, columns->count, sizeof *part->squares);
    part->weights = rbt_room_take(&part->room, columns->count, sizeof *part->weights);
    part->order = rbt_room_take(&part->room, columns->count, sizeof *part->order);
    part->residuals = rbt_room_take(&part->room, part->share.count, sizeof *part->residuals);
    if (part->room.is_short) {
        return no_memory();
    }
    for (size_t c = 0; c < columns->count; c++) {
        for (uint64_t k = columns->starts[c]; k < columns->starts[c + 1]; k++) {
            part->squares[c] += (double)columns->values[k] * (double)columns->values[k];
        }
    }
    return RBT_OK;
}

static rbt_status begin(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    const uint32_t index = rbt_worker_index(worker);
    struct part *part = rbt_calloc(1, sizeof *part);
    linear->workers[index].own = part;
    rbt_status st = part == NULL ? no_memory() : take_part(linear, index, part);
    if (st != RBT_OK) {
        return st;
    }
    const size_t count = part->share.key_count;
    double *usage = rbt_calloc(count * RBT_USAGE_WIDTH, sizeof *usage);
    for (size_t c = 0; usage != NULL && c < count; c++) {
        usage[c * RBT_USAGE_WIDTH + RBT_USAGE_COUNT] =
            (double)(part->columns.starts[c + 1] - part->columns.starts[c]);
        usage[c * RBT_USAGE_WIDTH + RBT_USAGE_SQUARES] = part->squares[c];
    }
    const struct rbt_replica_rows rows = {linear->usage, part->share.keys, count};
    st = usage == NULL ? no_memory() : rbt_replica_add_usage(worker, &rows, usage);
    rbt_free(usage);
    return st;
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_linear_job *linear = context;
    struct cd *cd = linear->own;
    const uint32_t index = rbt_worker_index(worker);
    struct part *part = linear->workers[index].own;
    uint64_t *keys = rbt_calloc(part->share.count, sizeof *keys);
    if (keys == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < part->share.count; i++) {
        keys[i] = i;
    }
    rbt_status st =
        rbt_set_create(worker, cd->fit, keys, part->share.count, RBT_SET_DELTAS, &part->fit);
    rbt_free(keys);
    if (st == RBT_OK) {
        st = rbt_set_create(worker, linear->weights, part->share.keys, part->share.key_count,
                            RBT_SET_DELTAS, &part->rows);
    }
    st = st != RBT_OK ? st : rbt_linear_gap_ready(&cd->gap, &part->gap, worker, &part->share);
    part->gap.first = part->share.count * index / linear->worker_count; /* everybody has all */
    part->gap.end = part->share.count * (index + (size_t)1) / linear->worker_count;
    const int64_t staleness = rbt_table_staleness(cd->fit);
    const double late = staleness == RBT_STALENESS_ANY ? 3.0 : (double)staleness;
    part->spread = (double)linear->worker_count * (linear->worker_count > 1 ? 1.0 + late : 1.0);
    part->spread = fmax(part->spread / linear->config.lr, 1.0);
    return st != RBT_OK ? st : rbt_linear_count(linear, worker, parameters);
}

static void end(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    struct part *part = w->own;
    if (part != NULL) {
        rbt_linear_gap_end(&part->gap);
        rbt_set_destroy(part->rows);
        rbt_set_destroy(part->fit);
        rbt_room_free(&part->room);
        rbt_columns_free(&part->columns);
        rbt_share_free(&part->share);
    }
    rbt_free(part);
    w->own = NULL;
}

/* --- A clock -----------------------------------------------------------------------------------
 */

/* A step of one coordinate; returns how far. */
static void step(const struct rbt_linear_job *linear, struct part *part, uint32_t c, float *deltas)
{
    const struct rbt_columns *columns = &part->columns;
    const double n = (double)part->share.count;
    const double h = part->spread * part->squares[c] / n;
    double g = 0.0;
    for (uint64_t k = columns->starts[c]; k < columns->starts[c + 1]; k++) {
        g += (double)columns->values[k] * part->residuals[columns->rows[k]];
    }
    if (h <= 0.0) {
        return;
    }
    const double x = part->weights[c] - g / n / h;
    const double size = fabs(x) - linear->config.l1 / h;
    const double to = size <= 0.0 ? 0.0 : copysign(size, x) / (1.0 + linear->config.l2 / h);
    /* What the table will have: the fit must be that of these weights. */
    const float move = (float)to - (float)part->weights[c];
    if (move == 0.0F) {
        return;
    }
    double *fit = rbt_set_deltas(part->fit);
    deltas[c] = move;
    part->weights[c] = (double)((float)part->weights[c] + move);
    for (uint64_t k = columns->starts[c]; k < columns->starts[c + 1]; k++) {
        const double more = (double)move * (double)columns->values[k];
        fit[columns->rows[k]] += more;
        part->residuals[columns->rows[k]] += part->spread * more;
    }
}

/* Worker 0: the bias, a column of ones. */
static rbt_status step_bias(const struct rbt_linear_job *linear, rbt_worker *worker,
                            struct part *part)
{
    double *fit = rbt_set_deltas(part->fit);
    double sum = 0.0;
    for (size_t i = 0; i < part->share.count; i++) {
        sum += part->residuals[i];
    }
    const float move = (float)(-sum / (double)part->share.count / part->spread);
    for (size_t i = 0; i < part->share.count; i++) {
        fit[i] += (double)move;
        part->residuals[i] += part->spread * (double)move;
    }
    return rbt_add(worker, linear->bias, bias_key, &move);
}

static double penalty_of(const struct rbt_linear_job *linear, const struct part *part)
{
    double sum = 0.0;
    for (size_t c = 0; c < part->columns.count; c++) {
        const double w = part->weights[c];
        sum += linear->config.l1 * fabs(w) + linear->config.l2 / 2 * w * w;
    }
    return sum;
}

/* In the last clock of a pass, before its steps: each worker measures its part of the examples,
 * and, now and then, how far the minimum is. */
static rbt_status measure(const struct rbt_linear_job *linear, rbt_worker *worker,
                          struct rbt_training_figures *figures, bool is_due)
{
    struct part *part = linear->workers[rbt_worker_index(worker)].own;
    double loss = 0.0;
    for (size_t i = part->gap.first; i < part->gap.end; i++) {
        loss += part->residuals[i] * part->residuals[i] / 2;
    }
    figures->loss += loss;
    figures->count += part->gap.end - part->gap.first;
    if (!is_due) {
        return RBT_OK;
    }
    memcpy(part->gap.slopes, part->residuals, part->share.count * sizeof *part->residuals);
    return rbt_linear_gap_begin(linear, &part->gap, worker, loss, penalty_of(linear, part));
}

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct rbt_linear_job *linear = context;
    const uint32_t index = rbt_worker_index(worker);
    struct part *part = linear->workers[index].own;
    rbt_status st = rbt_linear_gap_step(linear, &part->gap, worker);
    const bool is_due = rbt_linear_gap_is_due(linear, &part->gap, chunk);
    if (st == RBT_OK) { /* for a check all workers must see one and the same fit */
        st = is_due ? rbt_set_pull_within(part->fit, 0) : rbt_set_pull(part->fit);
    }
    if (st != RBT_OK) {
        return st;
    }
    const double *fit = rbt_set_values(part->fit);
    const size_t n = part->share.count;
    for (size_t i = 0; i < n; i++) {
        part->residuals[i] = fit[i] - (double)part->share.labels[i];
    }
    if (chunk->index + 1 == chunk->count) {
        st = measure(linear, worker, figures, is_due);
    }
    if (chunk->index == 0) {
        struct rbt_rng rng;
        rbt_rng_init(&rng, linear->seed, index + UINT64_C(1), (uint64_t)chunk->epoch);
        rbt_rng_permutation(&rng, part->order, part->columns.count);
    }
    if (st == RBT_OK && chunk->index == 0 && index == 0 && linear->config.has_bias) {
        st = step_bias(linear, worker, part);
    }
    const size_t begin_at = part->columns.count * (size_t)chunk->index / (size_t)chunk->count;
    const size_t end_at = part->columns.count * (size_t)(chunk->index + 1) / (size_t)chunk->count;
    float *deltas = rbt_set_deltas(part->rows);
    uint64_t nonzeros = 0;
    for (size_t at = begin_at; st == RBT_OK && at < end_at; at++) {
        const uint32_t c = part->order[at];
        step(linear, part, c, deltas);
        nonzeros += part->columns.starts[c + 1] - part->columns.starts[c];
    }
    rbt_worker_spend(worker, 1e-9 * (ns_per_nonzero * (double)nonzeros +
                                     ns_per_row * (double)(n + end_at - begin_at)));
    return st;
}

static rbt_status push(void *context, rbt_worker *worker)
{
    const struct rbt_linear_job *linear = context;
    const struct part *part = linear->workers[rbt_worker_index(worker)].own;
    const rbt_status st = rbt_set_push(part->rows);
    return st != RBT_OK ? st : rbt_set_push(part->fit);
}

static double penalty(void *context, rbt_worker *worker)
{
    const struct rbt_linear_job *linear = context;
    return penalty_of(linear, linear->workers[rbt_worker_index(worker)].own);
}

static void summarise(const struct rbt_linear_job *linear, struct rbt_train_summary *summary)
{
    rbt_linear_gap_note(linear, &((const struct cd *)linear->own)->gap, summary);
}

const struct rbt_linear_solver rbt_linear_cd = {.name = "cd",
                                                .epochs_default = EPOCHS_DEFAULT,
                                                .is_watched = true,
                                                .check = check,
                                                .settle = settle,
                                                .summarise = summarise,
                                                .task = {.open = open_tables,
                                                         .begin = begin,
                                                         .ready = ready,
                                                         .work = work,
                                                         .push = push,
                                                         .penalty = penalty,
                                                         .end = end}};
