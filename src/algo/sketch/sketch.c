/* algo/sketch/sketch.c - a CountMin sketch: about how often each key of a stream occurs.
 *
 * The sketch is a matrix of `depth` rows and `width` cells. An insert of a key x with a count adds
 * the count to one cell of each row, which a hash function of the row chooses; an estimate is the
 * smallest of the key's cells (sketch_model.h). It is never below the truth, and with probability
 * 1 - exp(-depth) at most e N / width above it, where N is the sum of all counts.
 *
 * On the servers cells are the elements of a table, cut into rows of 256, and rows are in ranges of
 * keys on the servers. A worker adds its keys to a copy of its own, and sends at the end of a clock
 * what has been added. Sums are whole numbers: any number of workers gives the same bits.
 *
 * Conservative update (raising only the smallest cells) would make estimates better, but it must
 * read before it writes, and the results of several workers could not be added up. */
#include "algo/sketch/sketch.h"

#include <string.h>

#include "algo/frame/training.h"
#include "algo/sketch/sketch_model.h"
#include "base/alloc.h"
#include "base/error.h"

/* A cell that an insert adds to: between what was measured for skewed and for even streams on one
 * core of an Intel Xeon (bench/RESULTS.md). One that is sent at the end of a clock is taken to cost
 * half of an element of mf.c, which is also pulled. */
enum { COST_CELL, COST_ELEMENT, COST_COUNT };
static const struct rbt_algo_cost costs[COST_COUNT] = {
    [COST_CELL] = {"cell", 5.0},
    [COST_ELEMENT] = {"element", 2.4},
};

static const char default_filter[] = "keys,zeros,zstd"; /* most cells are zero or small */

struct sketch {
    const struct rbt_train_options *options;
    struct rbt_sketch_shape shape;
    struct rbt_rules rules;
    struct rbt_sketch_stream stream;
    struct rbt_sketch_stream eval;
    uint32_t worker_count;
    rbt_set **sets; /* one per worker */
    rbt_table *cells;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the cells of a sketch");
}

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct sketch *sketch = context;
    const size_t rows = rbt_sketch_model_rows(&sketch->shape);
    const rbt_placement wanted = (rbt_placement)sketch->options->placement;
    struct rbt_table_options cells = {.struct_size = sizeof cells,
                                      .type = RBT_I64,
                                      .width = RBT_SKETCH_ROW,
                                      .overlay = RBT_OVERLAY_NONE,
                                      .placement =
                                          wanted == RBT_PLACE_HASH ? RBT_PLACE_RANGE : wanted,
                                      .keys_max = rows > 1 ? rows - 1 : 1,
                                      .filter = rbt_rules_filter(&sketch->rules)};
    return rbt_table_open(job, "cells", &cells, &sketch->cells);
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct sketch *sketch = context;
    const size_t rows = rbt_sketch_model_rows(&sketch->shape);
    uint64_t *keys = rbt_calloc(rows, sizeof *keys);
    if (keys == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < rows; i++) {
        keys[i] = i;
    }
    const rbt_status st = rbt_set_create(worker, sketch->cells, keys, rows, RBT_SET_DELTAS,
                                         &sketch->sets[rbt_worker_index(worker)]);
    rbt_free(keys);
    if (st == RBT_OK) { /* so that the system finds the memory now, and not while keys come */
        memset(rbt_set_deltas(sketch->sets[rbt_worker_index(worker)]), 0,
               rows * RBT_SKETCH_ROW * sizeof(int64_t));
    }
    *parameters = (uint64_t)sketch->shape.depth * sketch->shape.width;
    return st;
}

static void end(void *context, rbt_worker *worker)
{
    struct sketch *sketch = context;
    rbt_set_destroy(sketch->sets[rbt_worker_index(worker)]);
    sketch->sets[rbt_worker_index(worker)] = NULL;
}

/* A chunk is a piece of the stream, and a worker's part a piece of that: the servers learn of the
 * stream in its order. */
static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct sketch *sketch = context;
    const uint32_t index = rbt_worker_index(worker);
    const size_t n = sketch->stream.count;
    const size_t from = n * (size_t)chunk->index / (size_t)chunk->count;
    const size_t size = n * (size_t)(chunk->index + 1) / (size_t)chunk->count - from;
    const size_t first = from + size * index / sketch->worker_count;
    const size_t last = from + size * (index + 1) / sketch->worker_count;
    rbt_sketch_model_insert(&sketch->shape, &sketch->stream, first, last,
                            rbt_set_deltas(sketch->sets[index]));
    figures->count += last - first;
    const double cells = (double)sketch->shape.depth * (double)(last - first);
    const double elements = (double)sketch->shape.depth * (double)sketch->shape.width;
    rbt_worker_spend(worker,
                     1e-9 * (costs[COST_CELL].ns * cells + costs[COST_ELEMENT].ns * elements));
    return RBT_OK;
}

static rbt_status push(void *context, rbt_worker *worker)
{
    struct sketch *sketch = context;
    return rbt_set_push(sketch->sets[rbt_worker_index(worker)]);
}

static rbt_status collect(void *context, rbt_worker *worker, int64_t staleness,
                          struct rbt_model *model)
{
    const struct sketch *sketch = context;
    struct rbt_rows rows = {0};
    const size_t row_count = rbt_sketch_model_rows(&sketch->shape);
    int64_t *cells = rbt_calloc(row_count * RBT_SKETCH_ROW, sizeof *cells);
    rbt_status st = cells == NULL
                        ? no_memory()
                        : rbt_pull_range(worker, sketch->cells, RBT_RANGE_ALL, staleness, &rows);
    for (size_t i = 0; st == RBT_OK && i < rows.count; i++) {
        memcpy(cells + rows.keys[i] * RBT_SKETCH_ROW,
               (const int64_t *)rows.values + i * RBT_SKETCH_ROW, RBT_SKETCH_ROW * sizeof *cells);
    }
    rbt_rows_free(&rows);
    st = st != RBT_OK ? st : rbt_sketch_model_write(&sketch->shape, cells, model);
    rbt_free(cells);
    return st;
}

/* What estimates may be wrong by. */
static rbt_status objective(void *context, const struct rbt_model *model, double *objective)
{
    const struct sketch *sketch = context;
    *objective = rbt_sketch_model_bound(&sketch->shape, rbt_model_setting(model, "total", 0));
    return RBT_OK;
}

static rbt_status evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics)
{
    const struct sketch *sketch = context;
    return rbt_sketch_model_measure(model, &sketch->eval, metrics);
}

static const struct rbt_training_task task = {.open = open_tables,
                                              .ready = ready,
                                              .work = work,
                                              .push = push,
                                              .end = end,
                                              .collect = collect,
                                              .objective = objective,
                                              .evaluate = evaluate};

/* What the options say, before data is read. */
static rbt_status check(struct sketch *sketch)
{
    const struct rbt_train_options *options = sketch->options;
    const rbt_status st = rbt_rules_read_sums(options, "sketch, which adds up counts",
                                              default_filter, &sketch->rules);
    if (st == RBT_OK && options->epochs > 1) {
        return rbt_fail(
            RBT_E_INVALID,
            "option \"--epochs %lld\" would count the stream %lld times; a sketch counts it once",
            (long long)options->epochs, (long long)options->epochs);
    }
    if (st == RBT_OK && options->format != RBT_FORMAT_AUTO) {
        return rbt_fail(
            RBT_E_INVALID,
            "option \"--format\" does not apply to a stream, which has one key per line");
    }
    return st;
}

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_sketch_config *config = settings;
    struct rbt_training training = rbt_training_of(options, observer, &task, 1);
    struct sketch sketch = {.options = options,
                            .shape = rbt_sketch_model_shape((uint32_t)config->depth,
                                                            (uint32_t)config->width,
                                                            (uint64_t)options->seed),
                            .worker_count = training.workers};
    training.context = &sketch;
    training.rules = &sketch.rules;
    rbt_status st = check(&sketch);
    if (st != RBT_OK) {
        return st;
    }
    training.clocks_per_epoch = rbt_training_clocks(options, &sketch.rules);
    sketch.sets = rbt_calloc(sketch.worker_count, sizeof(rbt_set *));
    st = sketch.sets == NULL ? no_memory() : rbt_sketch_stream_read(&options->data, &sketch.stream);
    if (st == RBT_OK && options->eval.count > 0) {
        st = rbt_sketch_stream_read(&options->eval, &sketch.eval);
    }
    if (st == RBT_OK) {
        training.examples = sketch.stream.count;
        st = rbt_training_run(&training, summary);
    }
    rbt_sketch_stream_free(&sketch.eval);
    rbt_sketch_stream_free(&sketch.stream);
    rbt_free(sketch.sets);
    return st;
}

#define ENTRY(kind, ...) RBT_OPTION_ENTRY(struct rbt_sketch_config, kind, __VA_ARGS__)
static const struct rbt_option sketch_options[] = {RBT_SKETCH_OPTIONS(ENTRY)};

const struct rbt_algo rbt_sketch = {
    .name = "sketch",
    .summary = "CountMin sketch: estimated counts of the keys of a stream.",
    .examples = "  rubato train sketch --data views.txt.zst --model m.rbt\n"
                "  rubato train sketch --data keys.txt --eval counts.txt --width 64Ki\n",
    .model_kind = RBT_MODEL_SKETCH,
    .options = sketch_options,
    .option_count = sizeof sketch_options / sizeof sketch_options[0],
    .config_size = sizeof(struct rbt_sketch_config),
    .costs = costs,
    .cost_count = COST_COUNT,
    .epochs_default = 1,
    .train = train,
    .predict = rbt_sketch_model_predict,
    .evaluate = rbt_sketch_model_evaluate,
    .exports = rbt_sketch_model_exports,
};
