/* oracle/oracle.c - runs workers with random pauses and judges every read they make.
 *
 * Judging needs to know how far the others are. Before a worker calls rbt_clock() it announces the
 * clock that is about to end (`begun`), and after it has returned, that it has ended (`ended`).
 * Neither can be exact, but each is a bound on the right side:
 *  (1) sampled after a read: nobody's clock at the time of the read was more than `begun`, so what
 *      was visible must be below it;
 *  (2) sampled before a read: everybody's clock was at least `ended`.
 * Announcements are sequentially consistent, which is stronger than anything the library needs.
 *
 * Threads: workers share `struct oracle`; each has its own `struct view`. Broken rules are counted
 * under a mutex, and the first is described. */
#include "oracle/oracle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "oracle/rig.h"

enum { NEVER = INT32_MAX };

struct oracle {
    const struct oracle_config *config;
    rbt_table *table;
    uint32_t width;
    uint64_t keys[ORACLE_WORKERS_MAX];
    _Atomic int64_t begun[ORACLE_WORKERS_MAX];
    _Atomic int64_t ended[ORACLE_WORKERS_MAX];
    struct rig_gate runaway_is_done;
    pthread_mutex_t mutex; /* guards the report */
    struct oracle_report *report;
};

/* One worker's side of the run. */
struct view {
    struct oracle *oracle;
    rbt_worker *worker;
    uint32_t me;
    struct rbt_rng rng;
    int64_t written; /* own elements written so far; they are written in order */
    int64_t *rows;   /* (workers, width): what the last read returned */
    char *seen;      /* (workers, width): visible in some read before */
    double *buffer;  /* (workers, width) of the table's type, for lists and rows */
    uint32_t *index; /* (width), for sparse rows */
    rbt_set *set;    /* for the set paths */
    rbt_ticket push; /* the last one, for SET_ASYNC */
};

/* What one read is judged by. */
struct judgement {
    int64_t clock;   /* of the reader */
    int64_t floor;   /* everything stamped < floor is there */
    int64_t ceiling; /* nothing foreign stamped >= ceiling is */
    int64_t differs; /* from the reference sequence, in updates */
    int64_t missing; /* the oldest foreign stamp that is not there */
};

static int64_t clocks_of(const struct oracle_config *config, uint32_t worker)
{
    return config->has_uneven_ends ? config->clocks - (int64_t)(worker * 7 % 5) : config->clocks;
}

static void blame(struct view *view, const struct judgement *judgement, const char *rule,
                  uint32_t row, int64_t element)
{
    struct oracle *oracle = view->oracle;
    const struct oracle_config *config = oracle->config;
    pthread_mutex_lock(&oracle->mutex);
    if (oracle->report->violations++ == 0) {
        (void)snprintf(
            oracle->report->first, sizeof oracle->report->first,
            "%s: worker %u at clock %lld, update of worker %u, clock %lld, half %lld, "
            "value %lld (seed=%llu workers=%u shards=%u s=%lld eager=%d path=%d type=%d "
            "cache=%d overlay=%d partial=%d mixes=%d uneven=%d runaway=%d)",
            rule, view->me, (long long)judgement->clock, row, (long long)element / 2,
            (long long)element % 2, (long long)view->rows[(int64_t)row * oracle->width + element],
            (unsigned long long)config->seed, config->workers, config->shards,
            (long long)config->staleness, config->is_eager, (int)config->path, (int)config->type,
            (int)config->cache, (int)config->overlay, (int)config->partial, config->mixes_staleness,
            config->has_uneven_ends, config->has_runaway); /* may be cut */
    }
    pthread_mutex_unlock(&oracle->mutex);
}

/* The reader's own row: all that was written, and nothing else (A9). The names of rules are
 * explained in docs/testing.md. */
static void judge_own(struct view *view, const struct judgement *judgement)
{
    const bool is_overlaid = view->oracle->config->overlay == RBT_OVERLAY_OWN;
    const int64_t *values = &view->rows[(size_t)view->me * view->oracle->width];
    for (int64_t i = 0; i < view->oracle->width; i++) {
        if (i < view->written && is_overlaid && values[i] != 1) {
            blame(view, judgement, "A9 own update is missing or doubled", view->me, i);
        }
        if (i < 2 * judgement->floor && i < view->written && values[i] != 1) {
            blame(view, judgement, "A8 own old update is missing", view->me, i);
        }
        if (values[i] != 0 && (i >= view->written || values[i] != 1)) {
            blame(view, judgement, "own update is doubled or from nowhere", view->me, i);
        }
    }
}

/* One foreign row: rules A8, A10, A22, and that nothing comes from a clock that is not over. */
static void judge_foreign(struct view *view, struct judgement *judgement, uint32_t row)
{
    const struct oracle *oracle = view->oracle;
    const int64_t *values = &view->rows[(size_t)row * oracle->width];
    const int64_t begun = atomic_load(&oracle->begun[row]);
    const int64_t clocks = clocks_of(oracle->config, row);
    const bool is_hidden = oracle->config->partial == RBT_PARTIAL_HIDE;
    for (int64_t c = 0; c < oracle->config->clocks; c++) {
        const int64_t first = values[2 * c];
        const int64_t second = values[2 * c + 1];
        const bool is_visible = first == 1 && second == 1;
        if ((first != 0 && first != 1) || (second != 0 && second != 1)) {
            blame(view, judgement, "update is doubled", row, first > 1 ? 2 * c : 2 * c + 1);
        }
        if (c < judgement->floor && c < clocks && !is_visible) {
            blame(view, judgement, "A8 old update is missing", row, first ? 2 * c + 1 : 2 * c);
        }
        if (is_hidden && c >= judgement->ceiling && (first || second)) {
            blame(view, judgement, "A10 update is too new", row, first ? 2 * c : 2 * c + 1);
        }
        if (is_hidden && first != second) {
            blame(view, judgement, "A22 half a clock is visible", row, first ? 2 * c : 2 * c + 1);
        }
        if ((is_hidden && is_visible && c >= begun) || ((first || second) && c > begun)) {
            blame(view, judgement, "update of a clock that is not over", row, 2 * c);
        }
        if (is_visible != (c < judgement->clock || (c == judgement->clock && row <= view->me))) {
            judgement->differs += c < clocks;
        }
        if (!is_visible && c < clocks && c < judgement->missing) {
            judgement->missing = c;
        }
    }
}

/* A read that names a smaller bound than the one before owes nothing above its own (A10), so mixed
 * runs are not judged by this. */
static void judge_monotone(struct view *view, const struct judgement *judgement)
{
    const size_t count = (size_t)view->oracle->config->workers * view->oracle->width;
    for (size_t i = 0; i < count; i++) {
        if (view->seen[i] && view->rows[i] == 0 && !view->oracle->config->mixes_staleness) {
            blame(view, judgement, "what was seen is gone", (uint32_t)(i / view->oracle->width),
                  (int64_t)(i % view->oracle->width));
        }
        view->seen[i] = view->rows[i] != 0;
    }
}

/* The whole read. `s` is the staleness that the read asked for. */
static void judge(struct view *view, struct judgement *judgement, int64_t s)
{
    struct oracle *oracle = view->oracle;
    const struct oracle_config *config = oracle->config;
    for (uint32_t row = 0; row < config->workers; row++) {
        if (row == view->me) {
            judge_own(view, judgement);
            continue;
        }
        judge_foreign(view, judgement, row);
        if (s != RBT_STALENESS_ANY && atomic_load(&oracle->begun[row]) < judgement->clock - s) {
            blame(view, judgement, "A6 the slowest worker is too far behind", row, 0);
        }
    }
    judge_monotone(view, judgement);
    const int64_t bound = 2 * s * (int64_t)(config->workers - 1);
    if (s >= 1 && !config->mixes_staleness && config->partial == RBT_PARTIAL_HIDE &&
        judgement->differs > bound) {
        blame(view, judgement, "A12 too far from the reference sequence", view->me, 0);
    }
    const int64_t lag = judgement->missing == NEVER ? 0 : judgement->clock - judgement->missing;
    pthread_mutex_lock(&oracle->mutex);
    oracle->report->reads++;
    oracle->report->lag[lag < 0 ? 0 : lag < ORACLE_LAGS ? lag : ORACLE_LAGS - 1]++;
    pthread_mutex_unlock(&oracle->mutex);
}

/* --- Ways to write and to read --------------------------------------------------------------- */

static void decode(struct view *view, const void *values, size_t row, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        view->rows[row * view->oracle->width + i] = view->oracle->config->type == RBT_I64
                                                        ? ((const int64_t *)values)[i]
                                                        : (int64_t)((const double *)values)[i];
    }
}

/* Adds 1 at a place of an array of the table's type. */
static void bump(const struct view *view, void *values, int64_t place)
{
    if (view->oracle->config->type == RBT_I64) {
        ((int64_t *)values)[place]++;
    } else {
        ((double *)values)[place]++;
    }
}

static rbt_status write_row(struct view *view, int64_t element, bool is_list)
{
    struct oracle *oracle = view->oracle;
    memset(view->buffer, 0, oracle->width * sizeof *view->buffer);
    bump(view, view->buffer, element);
    if (!is_list) {
        return rbt_add(view->worker, oracle->table, oracle->keys[view->me], view->buffer);
    }
    const struct rbt_rows rows = {&oracle->keys[view->me], view->buffer, 1};
    return rbt_push(view->worker, oracle->table, &rows);
}

static rbt_status write_set(struct view *view, int64_t element)
{
    const bool is_in_place = view->oracle->config->path == ORACLE_SET_IN_PLACE;
    void *values = is_in_place ? rbt_set_values(view->set) : rbt_set_deltas(view->set);
    bump(view, values, (int64_t)view->me * view->oracle->width + element);
    if (view->oracle->config->path == ORACLE_SET_ASYNC) {
        TRY(rbt_set_push_async(view->set, NULL, &view->push));
        return rbt_ticket_wait(view->worker,
                               view->push); /* the set is touched again before any pull */
    }
    return rbt_set_push(view->set);
}

/* Writes the worker's next element. */
static rbt_status write_next(struct view *view)
{
    struct oracle *oracle = view->oracle;
    const int64_t element = view->written;
    const int64_t one = 1;
    const double real_one = 1;
    switch (oracle->config->path) {
    case ORACLE_GET:
    case ORACLE_SPARSE:
        TRY(rbt_add_at(view->worker, oracle->table, oracle->keys[view->me], (uint32_t)element,
                       oracle->config->type == RBT_I64 ? (const void *)&one : &real_one));
        break;
    case ORACLE_ROW:
        TRY(write_row(view, element, false));
        break;
    case ORACLE_LIST:
        TRY(write_row(view, element, true));
        break;
    case ORACLE_SET_DELTAS:
    case ORACLE_SET_IN_PLACE:
    case ORACLE_SET_ASYNC:
        TRY(write_set(view, element));
        break;
    }
    view->written++;
    return RBT_OK;
}

static rbt_status read_gets(struct view *view, bool is_per_call, int64_t s)
{
    struct oracle *oracle = view->oracle;
    for (uint32_t row = 0; row < oracle->config->workers; row++) {
        const uint64_t key = oracle->keys[row];
        if (is_per_call) {
            TRY(rbt_get_within(view->worker, oracle->table, key, s, view->buffer));
        } else {
            TRY(rbt_get(view->worker, oracle->table, key, view->buffer));
        }
        decode(view, view->buffer, row, oracle->width);
    }
    return RBT_OK;
}

static rbt_status read_sparse(struct view *view, bool is_per_call, int64_t s)
{
    struct oracle *oracle = view->oracle;
    memset(view->rows, 0, oracle->config->workers * oracle->width * sizeof *view->rows);
    for (uint32_t row = 0; row < oracle->config->workers; row++) {
        struct rbt_elements elements = {view->index, view->buffer, 0, oracle->width};
        const uint64_t key = oracle->keys[row];
        if (is_per_call) {
            TRY(rbt_get_sparse_within(view->worker, oracle->table, key, s, &elements));
        } else {
            TRY(rbt_get_sparse(view->worker, oracle->table, key, &elements));
        }
        for (size_t i = 0; i < elements.count; i++) {
            CHECK(i == 0 || elements.index[i - 1] < elements.index[i]);
            CHECK(elements.index[i] < oracle->width);
            int64_t *place = &view->rows[row * oracle->width + elements.index[i]];
            *place = oracle->config->type == RBT_I64 ? ((const int64_t *)elements.values)[i]
                                                     : (int64_t)((double *)elements.values)[i];
            CHECK(*place != 0);
        }
    }
    return RBT_OK;
}

static rbt_status read_set(struct view *view, bool is_per_call, int64_t s)
{
    const struct oracle_config *config = view->oracle->config;
    if (config->path == ORACLE_SET_ASYNC) {
        const struct rbt_after after = {&view->push, view->push == 0 ? 0 : 1};
        rbt_ticket ticket = 0;
        TRY(rbt_set_pull_async(view->set, &after, &ticket));
        TRY(rbt_ticket_wait(view->worker, ticket));
        CHECK(rbt_ticket_is_finished(view->worker, ticket));
    } else if (is_per_call) {
        TRY(rbt_set_pull_within(view->set, s));
    } else {
        TRY(rbt_set_pull(view->set));
    }
    decode(view, rbt_set_values(view->set), 0, (size_t)config->workers * view->oracle->width);
    return RBT_OK;
}

static rbt_status read_rows(struct view *view, bool is_per_call, int64_t s)
{
    struct oracle *oracle = view->oracle;
    const struct rbt_rows list = {oracle->keys, view->buffer, oracle->config->workers};
    switch (oracle->config->path) {
    case ORACLE_GET:
    case ORACLE_ROW:
        return read_gets(view, is_per_call, s);
    case ORACLE_SPARSE:
        return read_sparse(view, is_per_call, s);
    case ORACLE_SET_DELTAS:
    case ORACLE_SET_IN_PLACE:
    case ORACLE_SET_ASYNC:
        return read_set(view, is_per_call, s);
    case ORACLE_LIST:
        if (is_per_call) {
            TRY(rbt_pull_within(view->worker, oracle->table, s, &list));
        } else {
            TRY(rbt_pull(view->worker, oracle->table, &list));
        }
        decode(view, view->buffer, 0, (size_t)oracle->config->workers * oracle->width);
        return RBT_OK;
    }
    return RBT_E_INVALID;
}

/* --- The run --------------------------------------------------------------------------------- */

/* Whether this path has a call that names a staleness. */
static bool can_name_staleness(enum oracle_path path)
{
    return path != ORACLE_SET_ASYNC;
}

/* Reads all rows and judges them. An eager read owes, besides, all that everybody had finished
 * before it began (2): "a read takes the newest there is". A read that names a smaller staleness
 * than the table's may still see what the table's bound allows. */
static rbt_status look(struct view *view)
{
    struct oracle *oracle = view->oracle;
    const struct oracle_config *config = oracle->config;
    int64_t s = config->staleness;
    const bool is_per_call = config->mixes_staleness && can_name_staleness(config->path) &&
                             rbt_rng_below(&view->rng, 2) == 0;
    if (is_per_call) {
        const int64_t choices[] = {0, config->staleness, RBT_STALENESS_ANY};
        s = choices[rbt_rng_below(&view->rng, 3)];
    }
    struct judgement judgement = {.clock = rbt_worker_clock(view->worker), .missing = NEVER};
    judgement.floor = s == RBT_STALENESS_ANY ? 0 : judgement.clock - s;
    const bool is_unbounded = s == RBT_STALENESS_ANY || config->staleness == RBT_STALENESS_ANY;
    judgement.ceiling = is_unbounded ? NEVER : judgement.clock + config->staleness;
    int64_t ended = NEVER;
    for (uint32_t row = 0; row < config->workers; row++) {
        const int64_t other = atomic_load(&oracle->ended[row]);
        ended = other < ended ? other : ended;
    }
    /* Over sockets the newest may still be on its way; only the bound is promised there. */
    const bool is_near = getenv("RIG_CLUSTER") == NULL;
    if (config->is_eager && is_near && !is_per_call && ended > judgement.floor && ended != NEVER) {
        judgement.floor = ended < judgement.ceiling ? ended : judgement.ceiling;
    }
    TRY(read_rows(view, is_per_call, s));
    judge(view, &judgement, s);
    return RBT_OK;
}

/* A random pause; one worker of the run, chosen by the seed, is slow. */
static void linger(struct view *view)
{
    const struct oracle_config *config = view->oracle->config;
    const bool is_slow = config->seed % config->workers == view->me;
    const uint64_t turns = rbt_rng_below(&view->rng, is_slow ? 4000 : 400);
    for (volatile uint64_t i = 0; i < turns; i++) {
    }
    if (rbt_rng_below(&view->rng, 3) == 0) {
        rig_yield(is_slow ? 3 : 1);
    }
}

static rbt_status maybe_look(struct view *view)
{
    const struct oracle_config *config = view->oracle->config;
    linger(view);
    if (config->has_runaway && view->me == 0) {
        return RBT_OK;
    }
    const bool is_due = config->reads_every_time || rbt_rng_below(&view->rng, 2) == 0;
    return is_due ? look(view) : RBT_OK;
}

static rbt_status run_clocks(struct view *view)
{
    struct oracle *oracle = view->oracle;
    const int64_t clocks = clocks_of(oracle->config, view->me);
    for (int64_t c = 0; c < clocks; c++) {
        CHECK(rbt_worker_clock(view->worker) == c);
        TRY(maybe_look(view));
        TRY(write_next(view));
        TRY(maybe_look(view));
        TRY(write_next(view));
        TRY(maybe_look(view));
        atomic_store(&oracle->begun[view->me], c + 1);
        TRY(rbt_clock(view->worker));
        atomic_store(&oracle->ended[view->me], c + 1);
    }
    atomic_store(&oracle->begun[view->me], NEVER); /* it will leave, and nobody waits for it */
    return RBT_OK;
}

static rbt_status run_view(struct view *view)
{
    struct oracle *oracle = view->oracle;
    const struct oracle_config *config = oracle->config;
    const rbt_set_flags flags =
        config->path == ORACLE_SET_IN_PLACE ? RBT_SET_IN_PLACE : RBT_SET_DELTAS;
    const bool has_set = config->path >= ORACLE_SET_DELTAS && config->path <= ORACLE_SET_ASYNC;
    if (config->has_runaway && view->me != 0) {
        AWAIT(&oracle->runaway_is_done, 1);
    }
    if (has_set) {
        TRY(rbt_set_create(view->worker, oracle->table, oracle->keys, config->workers, flags,
                           &view->set));
    }
    const rbt_status st = run_clocks(view);
    rbt_set_destroy(view->set);
    if (config->has_runaway && view->me == 0) {
        rig_post(&oracle->runaway_is_done);
    }
    return st;
}

static rbt_status run_worker(rbt_worker *worker, void *argument)
{
    struct oracle *oracle = argument;
    const size_t count = (size_t)oracle->config->workers * oracle->width;
    struct view view = {.oracle = oracle,
                        .worker = worker,
                        .me = rbt_worker_index(worker),
                        .rows = calloc(count, sizeof *view.rows),
                        .seen = calloc(count, 1),
                        .buffer = calloc(count, sizeof *view.buffer),
                        .index = calloc(oracle->width, sizeof *view.index)};
    rbt_rng_init(&view.rng, oracle->config->seed, view.me, 0);
    const bool has_memory = view.rows && view.seen && view.buffer && view.index;
    const rbt_status st = has_memory ? run_view(&view) : RBT_E_NOMEM;
    free(view.rows);
    free(view.seen);
    free(view.buffer);
    free(view.index);
    return st;
}

/* The second run: every update of the first is there, once, for everybody and from the start. */
static rbt_status run_audit(rbt_worker *worker, void *argument)
{
    struct oracle *oracle = argument;
    const struct oracle_config *config = oracle->config;
    const size_t count = (size_t)config->workers * oracle->width;
    struct view view = {.oracle = oracle,
                        .worker = worker,
                        .me = rbt_worker_index(worker),
                        .rows = calloc(count, sizeof *view.rows),
                        .buffer = calloc(count, sizeof *view.buffer),
                        .index = calloc(oracle->width, sizeof *view.index)};
    rbt_status st = RBT_E_NOMEM;
    if (view.rows && view.buffer && view.index) {
        st = config->path == ORACLE_SPARSE ? read_sparse(&view, false, 0)
                                           : read_gets(&view, false, 0);
    }
    const struct judgement judgement = {.clock = 0};
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        const uint32_t row = (uint32_t)(i / oracle->width);
        const int64_t element = (int64_t)(i % oracle->width);
        if (view.rows[i] != (element < 2 * clocks_of(config, row))) {
            blame(&view, &judgement, "the second run does not find each update once", row, element);
        }
    }
    free(view.rows);
    free(view.buffer);
    free(view.index);
    return st;
}

void oracle_run(const struct oracle_config *config, struct oracle_report *report)
{
    struct oracle oracle = {.config = config,
                            .width = (uint32_t)(2 * config->clocks),
                            .mutex = PTHREAD_MUTEX_INITIALIZER,
                            .report = report};
    char consistency[32] = "asp";
    assert_in_range(config->workers, 1, ORACLE_WORKERS_MAX);
    if (config->staleness == 0 && !config->is_eager && config->seed % 2 == 0 &&
        config->partial == RBT_PARTIAL_HIDE) {
        (void)snprintf(consistency, sizeof consistency, "bsp"); /* the same as ssp:0 */
    } else if (config->staleness != RBT_STALENESS_ANY) {
        (void)snprintf(consistency, sizeof consistency, "%s:%lld",
                       config->is_eager ? "essp" : "ssp", (long long)config->staleness);
    }
    for (uint32_t row = 0; row < config->workers; row++) {
        oracle.keys[row] = row * (UINT64_MAX / (ORACLE_WORKERS_MAX - 1)); /* 0 .. UINT64_MAX */
    }
    rbt_job *job = rig_job(config->workers, config->shards, NULL);
    oracle.table = rig_table(
        job, "oracle",
        (struct rbt_table_options){.type = config->type,
                                   .layout = config->path == ORACLE_SPARSE ? RBT_SPARSE : RBT_DENSE,
                                   .width = oracle.width,
                                   .overlay = config->overlay,
                                   .cache = config->cache,
                                   .partial = config->partial,
                                   .consistency = consistency});
    rig_run(job, run_worker, &oracle);
    rig_run(job, run_audit, &oracle);
    rbt_job_close(job);
}
