/* algo/fm/fm_part.c - a worker's part of the examples: its share, which features have an embedding,
 * and copies of the rows that it needs. */
#include <math.h>
#include <string.h>

#include "algo/fm/fm_job.h"
#include "algo/fm/fm_model.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

static const uint64_t bias_key = 0;

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its examples");
}

/* How often the share uses each of its features: (key_count, RBT_USAGE_WIDTH); NULL: no memory. */
static double *count_usage(const struct rbt_share *share)
{
    double *usage = rbt_calloc(share->key_count * RBT_USAGE_WIDTH, sizeof *usage);
    const uint64_t end = usage == NULL ? 0 : share->offsets[share->count];
    for (uint64_t k = 0; k < end; k++) {
        double *row = usage + (size_t)share->indices[k] * RBT_USAGE_WIDTH;
        row[RBT_USAGE_COUNT] += share->values[k] != 0.0F ? 1.0 : 0.0;
        row[RBT_USAGE_SQUARES] += (double)share->values[k] * (double)share->values[k];
    }
    return usage;
}

rbt_status rbt_fm_part_draw(struct rbt_fm_job *fm, const uint32_t *places, size_t count)
{
    const size_t n = fm->examples.count;
    const size_t rest = n - count;
    bool *is_held_out = rbt_calloc(n, sizeof *is_held_out);
    uint32_t *others = rbt_calloc(rest, sizeof *others);
    uint32_t *drawn = NULL;
    fm->order = rbt_calloc(n, sizeof *fm->order);
    rbt_status st = is_held_out == NULL || others == NULL || fm->order == NULL
                        ? no_memory()
                        : rbt_share_order(fm->seed, rest, &drawn);
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        is_held_out[places[i]] = true;
        fm->order[rest + i] = places[i];
    }
    for (size_t i = 0, at = 0; st == RBT_OK && i < n; i++) {
        if (!is_held_out[i]) {
            others[at++] = (uint32_t)i;
        }
    }
    for (size_t i = 0; st == RBT_OK && i < rest; i++) {
        fm->order[i] = others[drawn[i]];
    }
    fm->held_out = count;
    rbt_free(drawn);
    rbt_free(others);
    rbt_free(is_held_out);
    return st;
}

/* The first of `total` that belongs to part `index` of `count`. */
static size_t cut(size_t total, int64_t index, int64_t count)
{
    return (size_t)((uint64_t)total * (uint64_t)index / (uint64_t)count);
}

struct rbt_fm_chunk rbt_fm_part_chunk(const struct rbt_fm_worker *w, int64_t index, int64_t count)
{
    const size_t rest = w->share.count - w->held_out;
    const size_t held_out = cut(w->held_out, index, count);
    const size_t held_out_end = cut(w->held_out, index + 1, count);
    return (struct rbt_fm_chunk){.begin = cut(rest, index, count) + held_out,
                                 .end = cut(rest, index + 1, count) + held_out_end,
                                 .held_out = held_out_end - held_out};
}

/* Every worker has its part of the examples that are held out, and of the others; and so has every
 * chunk of its share. */
rbt_status rbt_fm_part_take(struct rbt_fm_job *fm, uint32_t index)
{
    struct rbt_fm_worker *w = &fm->workers[index];
    const uint32_t movers = fm->movers;
    if (index >= movers) {
        return rbt_share_of(&fm->examples, fm->order, 0, &w->share);
    }
    const size_t all = fm->examples.count - fm->held_out;
    const uint32_t *others = fm->order + cut(all, index, movers);
    const uint32_t *held_out = fm->order + all + cut(fm->held_out, index, movers);
    const size_t rest = cut(all, index + INT64_C(1), movers) - cut(all, index, movers);
    w->held_out = cut(fm->held_out, index + INT64_C(1), movers) - cut(fm->held_out, index, movers);
    w->share.count = rest + w->held_out;
    uint32_t *places = rbt_calloc(w->share.count, sizeof *places);
    if (places == NULL) {
        return no_memory();
    }
    for (int64_t c = 0; c < fm->clocks_per_epoch; c++) {
        const struct rbt_fm_chunk chunk = rbt_fm_part_chunk(w, c, fm->clocks_per_epoch);
        for (size_t i = chunk.begin; i < chunk.end; i++) {
            places[i] = i < chunk.end - chunk.held_out ? *others++ : *held_out++;
        }
    }
    const size_t count = w->share.count;
    w->share = (struct rbt_share){0};
    const rbt_status st = rbt_share_of(&fm->examples, places, count, &w->share);
    rbt_free(places);
    return st;
}

void rbt_fm_part_free(struct rbt_fm_worker *w)
{
    rbt_fm_combine_free(&w->combine);
    rbt_room_free(&w->room);
    rbt_share_free(&w->share);
    *w = (struct rbt_fm_worker){0};
}

/* Adds an array to a table. */
static rbt_status add_array(rbt_worker *worker, rbt_table *table,
                            const struct rbt_model_array *array)
{
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, table, array->keys, array->count, RBT_SET_DELTAS, &set);
    if (st == RBT_OK) {
        memcpy(rbt_set_deltas(set), array->values, array->count * sizeof *array->values);
        st = rbt_set_push(set);
    }
    rbt_set_destroy(set);
    return st;
}

/* Worker 0 puts the linear model into the tables. */
static rbt_status add_linear(const struct rbt_fm_job *fm, rbt_worker *worker)
{
    const struct rbt_model *model = &fm->linear.model;
    if (rbt_worker_index(worker) > 0 || fm->start_passes <= 0) {
        return RBT_OK;
    }
    const rbt_status st = add_array(worker, fm->weights, &model->arrays[RBT_FM_WEIGHTS]);
    return st != RBT_OK || !fm->config.has_bias
               ? st
               : add_array(worker, fm->bias, &model->arrays[RBT_FM_BIAS]);
}

rbt_status rbt_fm_begin(void *context, rbt_worker *worker)
{
    struct rbt_fm_job *fm = context;
    struct rbt_fm_worker *w = &fm->workers[rbt_worker_index(worker)];
    rbt_status st = rbt_fm_part_take(fm, rbt_worker_index(worker));
    if (st != RBT_OK) {
        return st;
    }
    double *usage = count_usage(&w->share);
    if (usage == NULL) {
        return no_memory();
    }
    const struct rbt_replica_rows rows = {fm->usage, w->share.keys, w->share.key_count};
    st = rbt_replica_add_usage(worker, &rows, usage);
    rbt_free(usage);
    return st != RBT_OK ? st : add_linear(fm, worker);
}

/* Room for what belongs to the share. */
static rbt_status make_room(const struct rbt_fm_job *fm, struct rbt_fm_worker *w)
{
    const struct rbt_share *share = &w->share;
    for (size_t i = 0; i < share->count; i++) {
        const size_t entries = (size_t)(share->offsets[i + 1] - share->offsets[i]);
        w->entries_max = entries > w->entries_max ? entries : w->entries_max;
    }
    w->rows = rbt_room_take(&w->room, share->key_count, sizeof *w->rows);
    w->embedded = rbt_room_take(&w->room, share->key_count, sizeof *w->embedded);
    w->shares = rbt_room_take(&w->room, share->key_count, sizeof *w->shares);
    w->occurrences = rbt_room_take(&w->room, share->key_count, sizeof *w->occurrences);
    w->row_room = rbt_room_take(&w->room, w->entries_max, sizeof *w->row_room);
    w->value_room = rbt_room_take(&w->room, w->entries_max, sizeof *w->value_room);
    w->sum_room = rbt_room_take(&w->room, (size_t)fm->config.rank, sizeof *w->sum_room);
    return w->room.is_short ? no_memory() : RBT_OK;
}

/* Memory-adaptive embeddings: who occurs often enough gets one. */
static rbt_status choose_embedded(const struct rbt_fm_job *fm, struct rbt_fm_worker *w,
                                  const double *all)
{
    double *mine = count_usage(&w->share);
    if (mine == NULL) {
        return no_memory();
    }
    for (size_t j = 0; j < w->share.key_count; j++) {
        const double n = all[j * RBT_USAGE_WIDTH + RBT_USAGE_COUNT];
        const bool has_one = n >= (double)fm->config.min_count;
        w->occurrences[j] = n;
        w->shares[j] = n > 0 ? (float)(mine[j * RBT_USAGE_WIDTH + RBT_USAGE_COUNT] / n) : 0.0F;
        w->rows[j] = has_one ? (uint32_t)w->embedded_count : RBT_FM_NONE;
        w->embedded[w->embedded_count] = w->share.keys[j];
        w->embedded_count += has_one ? 1 : 0;
    }
    rbt_free(mine);
    return RBT_OK;
}

/* What a worker that trains its own copy remembers. */
static rbt_status make_steps(const struct rbt_fm_job *fm, struct rbt_fm_worker *w)
{
    const struct rbt_fm_config *config = &fm->config;
    const size_t rank = (size_t)config->rank;
    w->paid = rbt_room_take(&w->room, w->share.key_count, sizeof *w->paid);
    w->l2_v = rbt_room_take(&w->room, w->embedded_count, sizeof *w->l2_v);
    w->shrinks = rbt_room_take(&w->room, w->embedded_count, sizeof *w->shrinks);
    w->steps = (struct rbt_fm_steps){
        .lr = (float)config->lr,
        .lr_v = (float)config->lr_v,
        .beta = 1.0F,
        .shares = w->shares,
        .l2_v = w->l2_v,
        .z = rbt_room_take(&w->room, w->share.key_count, sizeof *w->steps.z),
        .root = rbt_room_take(&w->room, w->share.key_count, sizeof *w->steps.root),
        .squares = rbt_room_take(&w->room, w->embedded_count * rank, sizeof *w->steps.squares),
        .has_bias = config->has_bias};
    if (w->room.is_short) {
        return no_memory();
    }
    const double n = (double)fm->examples.count;
    for (size_t j = 0; j < w->share.key_count; j++) {
        if (w->rows[j] != RBT_FM_NONE) {
            w->shrinks[w->rows[j]] =
                (float)(rbt_fm_shrinks(fm, w->occurrences[j]) * n / w->occurrences[j]);
        }
    }
    return RBT_OK;
}

/* Weights begin with those of the linear model, so steps are as long, and penalties have been paid,
 * as after `start_passes` passes there. */
static rbt_status start_steps(const struct rbt_fm_job *fm, struct rbt_fm_worker *w)
{
    const struct rbt_share *share = &w->share;
    const double passes = fm->start_passes;
    float *margins = rbt_calloc(share->count, sizeof *margins);
    double *squares = rbt_calloc(share->key_count, sizeof *squares);
    rbt_status st = margins == NULL || squares == NULL ? no_memory() : RBT_OK;
    st = st != RBT_OK ? st : rbt_fm_model_margins(&fm->linear.model, share, margins);
    double bias = 0.0;
    for (size_t i = 0; st == RBT_OK && i < share->count; i++) {
        const double slope =
            rbt_loss_at(fm->loss, (double)margins[i], (double)share->labels[i]).slope;
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            const double term = slope * (double)share->values[k];
            squares[share->indices[k]] += term * term;
        }
        bias += slope * slope;
    }
    for (size_t j = 0; st == RBT_OK && j < share->key_count; j++) {
        w->steps.root[j] = (float)sqrt(passes * squares[j]);
        w->paid[j].l1 = w->shares[j] * (float)(passes * fm->config.l1);
        w->paid[j].l2 = w->shares[j] * (float)(passes * fm->config.l2);
        w->combine.grown += passes * squares[j];
    }
    w->combine.seen = passes * w->combine.all;
    w->steps.bias_root = (float)sqrt(passes * bias);
    rbt_free(squares);
    rbt_free(margins);
    return st;
}

/* Moves are averaged by how many of a feature's examples each worker has. */
static rbt_status tune(const struct rbt_fm_job *fm, struct rbt_fm_worker *w)
{
    const float bias_share = (float)((double)w->share.count / (double)fm->examples.count);
    float *shares = rbt_calloc(w->embedded_count, sizeof *shares);
    if (shares == NULL) {
        return no_memory();
    }
    for (size_t j = 0; j < w->share.key_count; j++) {
        if (w->rows[j] != RBT_FM_NONE) {
            shares[w->rows[j]] = w->shares[j];
        }
    }
    rbt_status st = rbt_replica_tune(&w->embeddings, shares, NULL);
    rbt_free(shares);
    if (st == RBT_OK) {
        st = rbt_replica_tune(&w->weights, w->shares, NULL);
    }
    return st != RBT_OK ? st : rbt_replica_tune(&w->bias, &bias_share, NULL);
}

static rbt_status open_replicas(const struct rbt_fm_job *fm, rbt_worker *worker,
                                struct rbt_fm_worker *w)
{
    const struct rbt_replica_rows weights = {fm->weights, w->share.keys, w->share.key_count};
    const struct rbt_replica_rows embeddings = {fm->embeddings, w->embedded, w->embedded_count};
    const struct rbt_replica_rows bias = {fm->bias, &bias_key, 1};
    const struct rbt_replica_rows tuning = {fm->tuning, &bias_key, 1};
    rbt_status st = rbt_replica_open(worker, &weights, &w->weights);
    if (st == RBT_OK) {
        st = rbt_replica_open(worker, &embeddings, &w->embeddings);
    }
    if (st == RBT_OK) {
        st = rbt_replica_open(worker, &bias, &w->bias);
    }
    if (st == RBT_OK && rbt_fm_is_tuned(fm)) {
        st = rbt_replica_open(worker, &tuning, &w->tuning);
    }
    if (st != RBT_OK || fm->rules.has_gradients) {
        return st;
    }
    st = make_steps(fm, w);
    st = st != RBT_OK ? st : rbt_fm_combine_open(fm, w);
    if (st == RBT_OK && fm->start_passes > 0) {
        st = start_steps(fm, w);
        /* What worker 0 has added is there, now that all have ended the clock. */
        st = st != RBT_OK ? st : rbt_set_pull_within(w->weights.set, 0);
        st = st != RBT_OK ? st : rbt_set_pull_within(w->bias.set, 0);
    }
    return st == RBT_OK && fm->config.combine == RBT_COMBINE_MEAN ? tune(fm, w) : st;
}

/* Worker 0 keeps the usage of all features, for the penalty. */
static rbt_status count_parameters(struct rbt_fm_job *fm, rbt_worker *worker, uint64_t *count)
{
    const rbt_status st =
        rbt_pull_range(worker, fm->usage, RBT_RANGE_ALL, RBT_STALENESS_OBSERVER, &fm->counts);
    if (st != RBT_OK) {
        return st;
    }
    const double *usage = fm->counts.values;
    *count = fm->counts.count + (fm->config.has_bias ? 1 : 0);
    for (size_t i = 0; i < fm->counts.count; i++) {
        const double n = usage[i * RBT_USAGE_WIDTH + RBT_USAGE_COUNT];
        *count += n >= (double)fm->config.min_count ? (uint64_t)fm->config.rank : 0;
    }
    return RBT_OK;
}

rbt_status rbt_fm_ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_fm_job *fm = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_fm_worker *w = &fm->workers[index];
    const struct rbt_replica_rows usage = {fm->usage, w->share.keys, w->share.key_count};
    rbt_status st = make_room(fm, w);
    double *all = rbt_calloc(w->share.key_count * RBT_USAGE_WIDTH, sizeof *all);
    if (st == RBT_OK) {
        st = all == NULL ? no_memory() : rbt_replica_get_usage(worker, &usage, all);
    }
    if (st == RBT_OK) {
        st = choose_embedded(fm, w, all);
    }
    rbt_free(all);
    if (st == RBT_OK) {
        st = open_replicas(fm, worker, w);
    }
    return st == RBT_OK && index == 0 ? count_parameters(fm, worker, parameters) : st;
}

void rbt_fm_end(void *context, rbt_worker *worker)
{
    struct rbt_fm_job *fm = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_fm_worker *w = &fm->workers[index];
    if (index == 0) {
        fm->is_over = true;
    }
    rbt_replica_close(&w->tuning);
    rbt_replica_close(&w->bias);
    rbt_replica_close(&w->embeddings);
    rbt_replica_close(&w->weights);
}
