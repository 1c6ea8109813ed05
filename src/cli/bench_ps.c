/* cli/bench_ps.c - dense rows, sparse lists and single rows, timed on all workers at once.
 *
 * Each part opens a job of its own. Its workers go through the same samples in step: a barrier,
 * then each worker repeats one piece of work for a slice of time, then another barrier, and worker
 * 0 notes the mean of the rates. A worker that has failed keeps going through the barriers without
 * working, so that nobody waits for it.
 *
 * Threads: the workers share a `bench`, which they write at different places or between barriers.
 * A worker thread that cannot be started would leave the others at the first barrier; a machine
 * without room for two threads has nothing to measure. */
#include "cli/bench_ps.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rubato/rubato.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"

enum {
    SETS = 8, /* declared lists per worker, used in turn, so that caches do not hold them */
    SMALL_ROWS = 1024,   /* rows that are read and updated one at a time */
    SMALL_WIDTH = 16,    /* their elements: a cache line */
    SMALL_CALLS = 1000,  /* between two looks at the time */
    PULL_SAMPLES = 2000, /* one-key pulls that are timed one by one */
    CLOCKS = 10000,      /* clocks that are timed together */
    FILL_LENGTH = 512,   /* keys of the lists that fill a table */
    RANDOM_STEP = 32768, /* random accesses between two looks at the time */
    SETTLE_KEYS = 8,     /* keys that are pulled to reach all servers, most likely */
};

const struct rbt_bench_figure_info rbt_bench_figures[RBT_BENCH_FIGURE_COUNT] = {
#define X(id, name, limit, text) {name, RBT_BENCH_##limit, text},
    RBT_BENCH_FIGURES(X)
#undef X
};

/* What the workers of one part share. */
struct bench {
    const struct rbt_bench_ps_options *options;
    struct rbt_limit_keys *keys;
    struct rbt_bench_run *run;
    struct rbt_bench_dense *dense; /* the size being measured */
    rbt_job *job;
    rbt_table *table;
    pthread_barrier_t barrier;
    double rates[RBT_BENCH_WORKERS_MAX]; /* by worker, between two barriers */
    struct rbt_bench_cluster cluster;    /* with servers in processes */
    double resident;                     /* bytes in RAM before the table was filled */
};

/* What one of them has. */
struct thread {
    struct bench *bench;
    rbt_worker *worker;
    uint32_t index;
    rbt_status status; /* the first failure; nothing is done after it */
    struct rbt_limit_copy copy;
    rbt_set *own;
    rbt_set *shared;
    rbt_set *sets[SETS];
    uint64_t turn;   /* which list or set is next */
    float *values;   /* of a list */
    uint64_t random; /* where the random accesses are */
    uint64_t sum;    /* of what was read, so that reading is not left out */
};

/* Does one piece of work and says how much it was. */
typedef rbt_status (*piece)(struct thread *thread, double *amount);

/* --- Samples --------------------------------------------------------------------------------- */

static int compare_reals(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct rbt_bench_series sorted(const struct rbt_bench_series *series)
{
    struct rbt_bench_series copy = *series;
    qsort(copy.values, RBT_BENCH_REPETITIONS, sizeof copy.values[0], compare_reals);
    return copy;
}

double rbt_bench_median(const struct rbt_bench_series *series)
{
    return sorted(series).values[RBT_BENCH_REPETITIONS / 2];
}

double rbt_bench_smallest(const struct rbt_bench_series *series)
{
    return sorted(series).values[0];
}

double rbt_bench_largest(const struct rbt_bench_series *series)
{
    return sorted(series).values[RBT_BENCH_REPETITIONS - 1];
}

double rbt_bench_ratio(const struct rbt_bench_series *series, const struct rbt_bench_series *limit)
{
    struct rbt_bench_series ratios;
    for (size_t i = 0; i < RBT_BENCH_REPETITIONS; i++) {
        ratios.values[i] = limit->values[i] > 0 ? series->values[i] / limit->values[i] : 0;
    }
    return rbt_bench_median(&ratios);
}

static void meet(struct bench *bench)
{
    (void)pthread_barrier_wait(&bench->barrier); /* cannot fail on a barrier that is initialised */
}

/* Makes the mean of all workers' values the series' value of this repetition. */
static void note(struct thread *thread, struct rbt_bench_series *series, int repetition,
                 double value)
{
    struct bench *bench = thread->bench;
    bench->rates[thread->index] = value;
    meet(bench);
    if (thread->index == 0) {
        double sum = 0;
        for (uint32_t i = 0; i < bench->options->workers; i++) {
            sum += bench->rates[i];
        }
        series->values[repetition] = sum / bench->options->workers;
    }
    meet(bench);
}

/* Waits until the servers have everything that the worker has sent: they answer in order. */
static void settle(struct thread *thread)
{
    struct bench *bench = thread->bench;
    if (!bench->options->in_processes || thread->status != RBT_OK) {
        return;
    }
    const size_t width = rbt_table_width(bench->table);
    float *row = rbt_calloc(width, sizeof *row);
    for (uint64_t key = 0; row != NULL && thread->status == RBT_OK && key < SETTLE_KEYS; key++) {
        uint64_t one = key;
        const struct rbt_rows rows = {.keys = &one, .values = row, .count = 1};
        thread->status = rbt_pull(thread->worker, bench->table, &rows);
    }
    rbt_free(row);
}

/* Repeats `work` for a slice of time; returns amount per second. */
static double rate_of(struct thread *thread, piece work)
{
    const double slice = thread->bench->options->seconds / RBT_BENCH_REPETITIONS;
    double amount = 0;
    meet(thread->bench);
    const double start = rbt_clock_seconds();
    double now = start;
    while (thread->status == RBT_OK && now < start + slice) {
        double more = 0;
        thread->status = work(thread, &more);
        amount += more;
        now = rbt_clock_seconds();
    }
    settle(thread); /* what is only on its way has not been done */
    now = thread->bench->options->in_processes ? rbt_clock_seconds() : now;
    return now > start ? amount / (now - start) : 0;
}

/* A rate in millions or billions. */
static void sample(struct thread *thread, piece work, double unit, struct rbt_bench_series *series,
                   int repetition)
{
    note(thread, series, repetition, rate_of(thread, work) / unit);
}

/* Nanoseconds per call. */
static void sample_time(struct thread *thread, piece work, struct rbt_bench_series *series,
                        int repetition)
{
    const double rate = rate_of(thread, work);
    note(thread, series, repetition, rate > 0 ? 1e9 / rate : 0);
}

/* --- Dense rows ------------------------------------------------------------------------------ */

static rbt_status copy_piece(struct thread *thread, double *amount)
{
    rbt_limit_copy_run(&thread->copy);
    *amount = (double)thread->copy.bytes;
    return RBT_OK;
}

static rbt_status pull_rows(struct thread *thread, rbt_set *set, double *amount)
{
    *amount = (double)(rbt_set_count(set) * thread->bench->dense->row_bytes);
    return rbt_set_pull(set);
}

/* Making the update is the caller's work and not measured: one element per row is changed. */
static rbt_status push_rows(struct thread *thread, rbt_set *set, double *amount)
{
    const size_t width = thread->bench->dense->row_bytes / sizeof(float);
    float *deltas = rbt_set_deltas(set);
    for (size_t i = 0; i < rbt_set_count(set); i++) {
        deltas[i * width] = 1.0F;
    }
    *amount = (double)(rbt_set_count(set) * thread->bench->dense->row_bytes);
    const rbt_status st = rbt_set_push(set);
    return st != RBT_OK ? st : rbt_clock(thread->worker);
}

static rbt_status pull_own(struct thread *thread, double *amount)
{
    return pull_rows(thread, thread->own, amount);
}

static rbt_status push_own(struct thread *thread, double *amount)
{
    return push_rows(thread, thread->own, amount);
}

static rbt_status pull_shared(struct thread *thread, double *amount)
{
    return pull_rows(thread, thread->shared, amount);
}

static rbt_status push_shared(struct thread *thread, double *amount)
{
    return push_rows(thread, thread->shared, amount);
}

/* Declares keys first .. first+rows-1 and pushes twice, so that rows and buffers exist. */
static rbt_status declare_rows(struct thread *thread, uint64_t first, rbt_set **set)
{
    const size_t rows = thread->bench->dense->rows;
    uint64_t *keys = rbt_calloc(rows, sizeof *keys);
    if (keys == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu keys", rows);
    }
    for (size_t i = 0; i < rows; i++) {
        keys[i] = first + i;
    }
    rbt_status st =
        rbt_set_create(thread->worker, thread->bench->table, keys, rows, RBT_SET_DELTAS, set);
    rbt_free(keys);
    for (int i = 0; st == RBT_OK && i < 2; i++) {
        double amount = 0;
        st = push_rows(thread, *set, &amount);
        st = st != RBT_OK ? st : pull_rows(thread, *set, &amount);
    }
    return st;
}

static void measure_dense(struct thread *thread, bool is_headline)
{
    struct rbt_bench_run *run = thread->bench->run;
    struct rbt_bench_dense *dense = thread->bench->dense;
    for (int i = 0; i < RBT_BENCH_REPETITIONS; i++) {
        sample(thread, copy_piece, 1e9, &dense->copy, i);
        sample(thread, pull_own, 1e9, &dense->pull, i);
        sample(thread, push_own, 1e9, &dense->push, i);
        if (is_headline) {
            sample(thread, pull_shared, 1e9, &run->figures[RBT_BENCH_SHARED_PULL], i);
            sample(thread, push_shared, 1e9, &run->figures[RBT_BENCH_SHARED_PUSH], i);
        }
    }
}

static rbt_status dense_worker(rbt_worker *worker, void *argument)
{
    struct bench *bench = argument;
    struct thread thread = {.bench = bench, .worker = worker, .index = rbt_worker_index(worker)};
    const struct rbt_bench_dense *dense = bench->dense;
    const bool is_headline = dense == &bench->run->dense[RBT_BENCH_HEADLINE];
    thread.status =
        rbt_limit_copy_init(&thread.copy, dense->rows * dense->row_bytes, dense->row_bytes);
    if (thread.status == RBT_OK) {
        thread.status = declare_rows(&thread, (thread.index + 1) * dense->rows, &thread.own);
    }
    if (thread.status == RBT_OK && is_headline) {
        thread.status = declare_rows(&thread, 0, &thread.shared);
    }
    measure_dense(&thread, is_headline);
    rbt_set_destroy(thread.shared);
    rbt_set_destroy(thread.own);
    rbt_limit_copy_deinit(&thread.copy);
    return thread.status;
}

/* --- Sparse lists ---------------------------------------------------------------------------- */

static struct rbt_rows next_list(struct thread *thread)
{
    const struct rbt_limit_keys *keys = thread->bench->keys;
    const size_t list = thread->turn++ % keys->list_count;
    return (struct rbt_rows){.keys = keys->lists + list * keys->list_length,
                             .values = thread->values,
                             .count = keys->list_length};
}

static rbt_status random_piece(struct thread *thread, double *amount)
{
    rbt_limit_random(thread->bench->keys, &thread->random, RANDOM_STEP);
    *amount = RANDOM_STEP;
    return RBT_OK;
}

static rbt_status probe_piece(struct thread *thread, double *amount)
{
    const struct rbt_limit_keys *keys = thread->bench->keys;
    thread->sum += rbt_limit_probe(keys, (uint32_t)(thread->turn++ % keys->list_count));
    *amount = keys->list_length;
    return RBT_OK;
}

static rbt_status pull_list(struct thread *thread, double *amount)
{
    const struct rbt_rows rows = next_list(thread);
    *amount = (double)rows.count;
    return rbt_pull(thread->worker, thread->bench->table, &rows);
}

static rbt_status push_list(struct thread *thread, double *amount)
{
    const struct rbt_rows rows = next_list(thread);
    *amount = (double)rows.count;
    const rbt_status st = rbt_push(thread->worker, thread->bench->table, &rows);
    return st != RBT_OK ? st : rbt_clock(thread->worker);
}

static rbt_status pull_set(struct thread *thread, double *amount)
{
    rbt_set *set = thread->sets[thread->turn++ % SETS];
    *amount = (double)rbt_set_count(set);
    return rbt_set_pull(set);
}

static rbt_status push_set(struct thread *thread, double *amount)
{
    rbt_set *set = thread->sets[thread->turn++ % SETS];
    float *deltas = rbt_set_deltas(set);
    for (size_t i = 0; i < rbt_set_count(set); i++) {
        deltas[i] = 1.0F;
    }
    *amount = (double)rbt_set_count(set);
    const rbt_status st = rbt_set_push(set);
    return st != RBT_OK ? st : rbt_clock(thread->worker);
}

/* Creates the worker's part of all rows. Short lists in a random order: where a row lies has
 * nothing to do with its key, so that sorted keys do not mean sorted memory. */
static rbt_status fill_table(struct thread *thread)
{
    const struct rbt_limit_keys *keys = thread->bench->keys;
    const uint64_t workers = thread->bench->options->workers;
    uint64_t list[FILL_LENGTH];
    float values[FILL_LENGTH];
    rbt_status st = RBT_OK;
    for (uint64_t begin = thread->index * (uint64_t)FILL_LENGTH;
         st == RBT_OK && begin < keys->count; begin += workers * FILL_LENGTH) {
        const uint64_t left = keys->count - begin;
        const size_t count = left < FILL_LENGTH ? left : FILL_LENGTH;
        for (size_t i = 0; i < count; i++) {
            list[i] = rbt_limit_key(keys, keys->order[begin + i]);
            values[i] = 1.0F;
        }
        const struct rbt_rows rows = {
            .keys = list, .values = values, .count = rbt_keys_sort(list, count)};
        st = rbt_push(thread->worker, thread->bench->table, &rows);
        st = st != RBT_OK ? st : rbt_clock(thread->worker);
    }
    return st;
}

static rbt_status declare_lists(struct thread *thread)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < SETS; i++) {
        const struct rbt_rows rows = next_list(thread);
        st = rbt_set_create(thread->worker, thread->bench->table, rows.keys, rows.count,
                            RBT_SET_DELTAS, &thread->sets[i]);
    }
    for (size_t i = 0; st == RBT_OK && i < 2 * (size_t)SETS; i++) { /* looks everything up */
        double amount = 0;
        st = pull_set(thread, &amount);
        st = st != RBT_OK ? st : push_set(thread, &amount);
    }
    return st;
}

/* What one piece of work costs on the wire, per key; worker 0's alone. */
static void weigh(struct thread *thread, piece work, double *bytes)
{
    struct rbt_job_stats before = {.struct_size = sizeof before};
    struct rbt_job_stats after = {.struct_size = sizeof after};
    double amount = 0;
    meet(thread->bench);
    if (thread->index == 0 && thread->status == RBT_OK && thread->bench->options->in_processes) {
        settle(thread);
        rbt_job_stats(thread->bench->job, &before);
        thread->status = work(thread, &amount);
        settle(thread);
        rbt_job_stats(thread->bench->job, &after);
        *bytes = (double)(after.bytes_sent + after.bytes_received - before.bytes_sent -
                          before.bytes_received) /
                 amount;
    }
    meet(thread->bench);
}

static void measure_sparse(struct thread *thread)
{
    struct rbt_bench_series *figures = thread->bench->run->figures;
    for (int i = 0; i < RBT_BENCH_REPETITIONS; i++) {
        sample(thread, random_piece, 1e6, &figures[RBT_BENCH_RANDOM], i);
        sample(thread, probe_piece, 1e6, &figures[RBT_BENCH_PROBE], i);
        sample(thread, pull_list, 1e6, &figures[RBT_BENCH_SPARSE_PULL], i);
        sample(thread, push_list, 1e6, &figures[RBT_BENCH_SPARSE_PUSH], i);
        weigh(thread, pull_set, &thread->bench->run->set_pull_bytes);
        weigh(thread, push_set, &thread->bench->run->set_push_bytes);
        sample(thread, pull_set, 1e6, &figures[RBT_BENCH_SET_PULL], i);
        sample(thread, push_set, 1e6, &figures[RBT_BENCH_SET_PUSH], i);
    }
}

/* Bytes in RAM of whoever holds the tables: this process, or the servers. */
static double resident_bytes(const struct bench *bench)
{
    return bench->options->in_processes ? rbt_bench_cluster_memory(&bench->cluster)
                                        : rbt_bench_memory(getpid());
}

/* What the table has taken, now that it is full; the same for every repetition. */
static void note_memory(const struct bench *bench)
{
    const double bytes = resident_bytes(bench) - bench->resident;
    for (int i = 0; i < RBT_BENCH_REPETITIONS; i++) {
        bench->run->figures[RBT_BENCH_BYTES_PER_KEY].values[i] = bytes / (double)bench->keys->count;
    }
}

static rbt_status sparse_worker(rbt_worker *worker, void *argument)
{
    struct bench *bench = argument;
    struct thread thread = {.bench = bench, .worker = worker, .index = rbt_worker_index(worker)};
    thread.random = (uint64_t)thread.index << 40;
    thread.turn = (uint64_t)thread.index * bench->keys->list_count / bench->options->workers;
    thread.values = rbt_calloc(bench->keys->list_length, sizeof *thread.values);
    thread.status =
        thread.values != NULL ? fill_table(&thread) : rbt_fail(RBT_E_NOMEM, "out of memory");
    meet(bench); /* the table is complete */
    if (thread.index == 0) {
        note_memory(bench);
    }
    meet(bench);
    if (thread.status == RBT_OK) {
        thread.status = declare_lists(&thread);
    }
    measure_sparse(&thread);
    for (size_t i = 0; i < SETS; i++) {
        rbt_set_destroy(thread.sets[i]);
    }
    rbt_free(thread.values);
    return thread.status;
}

/* --- Single rows ----------------------------------------------------------------------------- */

static rbt_status get_rows(struct thread *thread, double *amount)
{
    rbt_status st = RBT_OK;
    float row[SMALL_WIDTH];
    for (int i = 0; st == RBT_OK && i < SMALL_CALLS; i++) {
        st = rbt_get(thread->worker, thread->bench->table, thread->turn++ % SMALL_ROWS, row);
    }
    *amount = SMALL_CALLS;
    return st;
}

static rbt_status add_rows(struct thread *thread, double *amount)
{
    rbt_status st = RBT_OK;
    const float row[SMALL_WIDTH] = {1.0F};
    for (int i = 0; st == RBT_OK && i < SMALL_CALLS; i++) {
        st = rbt_add(thread->worker, thread->bench->table, thread->turn++ % SMALL_ROWS, row);
    }
    *amount = SMALL_CALLS;
    return st;
}

/* Times a fixed number of clocks: workers must not drift apart, or reads would have to wait. */
static void sample_clocks(struct thread *thread, int repetition)
{
    meet(thread->bench);
    const double start = rbt_clock_seconds();
    for (int i = 0; thread->status == RBT_OK && i < CLOCKS; i++) {
        thread->status = rbt_clock(thread->worker);
    }
    const double seconds = rbt_clock_seconds() - start;
    note(thread, &thread->bench->run->figures[RBT_BENCH_CLOCK], repetition, seconds * 1e6 / CLOCKS);
}

/* Times one-key pulls one by one; each includes one look at the time. */
static void sample_pulls(struct thread *thread, int repetition)
{
    struct rbt_bench_series *figures = thread->bench->run->figures;
    double times[PULL_SAMPLES];
    float values[SMALL_WIDTH];
    meet(thread->bench);
    rbt_time before = rbt_clock_now();
    for (int i = 0; i < PULL_SAMPLES; i++) {
        uint64_t key = thread->turn++ % SMALL_ROWS;
        const struct rbt_rows rows = {.keys = &key, .values = values, .count = 1};
        if (thread->status == RBT_OK) {
            thread->status = rbt_pull(thread->worker, thread->bench->table, &rows);
        }
        const rbt_time after = rbt_clock_now();
        times[i] = (double)(after - before) / 1e3;
        before = after;
    }
    qsort(times, PULL_SAMPLES, sizeof times[0], compare_reals);
    note(thread, &figures[RBT_BENCH_PULL_P50], repetition, times[PULL_SAMPLES / 2]);
    note(thread, &figures[RBT_BENCH_PULL_P99], repetition, times[PULL_SAMPLES / 100 * 99]);
}

static rbt_status small_worker(rbt_worker *worker, void *argument)
{
    struct bench *bench = argument;
    struct thread thread = {.bench = bench, .worker = worker, .index = rbt_worker_index(worker)};
    struct rbt_bench_series *figures = bench->run->figures;
    double amount = 0;
    for (int i = 0; thread.status == RBT_OK && i < 2 * SMALL_ROWS / SMALL_CALLS + 1; i++) {
        thread.status = add_rows(&thread, &amount); /* every row exists and is cached */
    }
    if (thread.status == RBT_OK) {
        thread.status = rbt_clock(worker);
    }
    for (int i = 0; i < RBT_BENCH_REPETITIONS; i++) {
        sample_time(&thread, get_rows, &figures[RBT_BENCH_GET], i);
        sample_time(&thread, add_rows, &figures[RBT_BENCH_INC], i);
        if (thread.status == RBT_OK) {
            thread.status = rbt_clock(worker); /* sends what was added */
        }
        sample_clocks(&thread, i);
        sample_pulls(&thread, i);
    }
    return thread.status;
}

/* --- Parts ----------------------------------------------------------------------------------- */

/* Opens a job with one table, runs the part and closes it. */
static rbt_status run_part(struct bench *bench, const struct rbt_table_options *table,
                           rbt_worker_function function)
{
    rbt_status st =
        bench->options->in_processes
            ? rbt_bench_cluster_start(bench->options->transport, bench->options->servers,
                                      bench->options->workers, &bench->cluster)
            : RBT_OK;
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = bench->options->workers,
                                            .shards = bench->options->servers,
                                            .consistency = "asp",
                                            .cluster = bench->cluster.cluster};
    bench->job = NULL;
    bench->resident = resident_bytes(bench);
    st = rbt_job_open(&options, &bench->job);
    st = st != RBT_OK ? st : rbt_table_open(bench->job, "bench", table, &bench->table);
    st = st != RBT_OK ? st : rbt_job_run(bench->job, function, bench);
    rbt_job_close(bench->job);
    if (bench->options->in_processes) {
        rbt_bench_cluster_stop(&bench->cluster);
    }
    return st;
}

static rbt_status run_dense(struct bench *bench)
{
    static const size_t sizes[RBT_BENCH_SIZES] = {1024, 16384, 262144, 1048576, 16777216};
    const size_t headline = bench->options->width * sizeof(float);
    const size_t total = bench->options->rows * headline;
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < RBT_BENCH_SIZES; i++) {
        const size_t size = i == RBT_BENCH_HEADLINE ? headline : sizes[i];
        bench->dense = &bench->run->dense[i];
        bench->dense->row_bytes = size;
        bench->dense->rows = total < size ? 1 : total / size;
        const struct rbt_table_options table = {
            .struct_size = sizeof table,
            .type = RBT_F32,
            .width = (uint32_t)(size / sizeof(float)),
            .rows_expected = bench->dense->rows * ((uint64_t)bench->options->workers + 1)};
        st = run_part(bench, &table, dense_worker);
    }
    const struct rbt_bench_dense *dense = &bench->run->dense[RBT_BENCH_HEADLINE];
    bench->run->figures[RBT_BENCH_COPY] = dense->copy;
    bench->run->figures[RBT_BENCH_DENSE_PULL] = dense->pull;
    bench->run->figures[RBT_BENCH_DENSE_PUSH] = dense->push;
    return st;
}

rbt_status rbt_bench_ps(const struct rbt_bench_ps_options *options, struct rbt_limit_keys *keys,
                        struct rbt_bench_run *run)
{
    RBT_ASSERT(options->workers > 0 && options->workers <= RBT_BENCH_WORKERS_MAX);
    RBT_ASSERT(options->width > 0);
    RBT_ASSERT(options->rows > 0);
    struct bench bench = {.options = options, .keys = keys, .run = run};
    *run = (struct rbt_bench_run){.workers = options->workers, .servers = options->servers};
    if (pthread_barrier_init(&bench.barrier, NULL, options->workers) != 0) {
        return rbt_fail(RBT_E_IO, "could not create a barrier");
    }
    const struct rbt_table_options wide = {
        .struct_size = sizeof wide, .type = RBT_F32, .width = 1, .rows_expected = keys->count};
    /* Without a bound in practice, but unlike "asp" served from the cache while nothing changes. */
    const struct rbt_table_options small = {.struct_size = sizeof small,
                                            .type = RBT_F32,
                                            .width = SMALL_WIDTH,
                                            .consistency = "ssp:1000000"};
    rbt_status st = run_part(&bench, &small, small_worker);
    st = st != RBT_OK ? st : run_dense(&bench);
    st = st != RBT_OK ? st : run_part(&bench, &wide, sparse_worker);
    (void)pthread_barrier_destroy(&bench.barrier); /* nobody waits at it */
    return st;
}
