/* oracle/remote_test.c - the same job in one process and in several. */
#include "oracle/remote_rig.h"

static int setup_cut(void **state)
{
    return set_up(state, 6000);
}

/* Filters leave less to carry. */
static int setup_cut_filtered(void **state)
{
    return set_up(state, 2000);
}

/* Longer rows need longer connections. */
static int setup_wide(void **state)
{
    return set_up(state, 500000);
}

/* --- What workers do ------------------------------------------------------------------------- */

static rbt_status add_sparse(rbt_worker *worker, rbt_table *sparse, uint32_t clock)
{
    uint32_t index[2] = {clock, 500 + rbt_worker_index(worker)};
    int64_t values[2] = {1, 2};
    const struct rbt_elements elements = {.index = index, .values = values, .count = 2};
    return rbt_add_elements(worker, sparse, clock % 5, &elements);
}

/* Values that depend on every bit of what was read, and on the order of sums. */
static rbt_status step_dense(rbt_worker *worker, rbt_set *set, int64_t clock)
{
    rbt_ticket pulled = 0;
    rbt_status st = rbt_set_pull_async(set, NULL, &pulled);
    st = st != RBT_OK ? st : rbt_ticket_wait(worker, pulled);
    if (st != RBT_OK) {
        return st;
    }
    const float *values = rbt_set_values(set);
    float *deltas = rbt_set_deltas(set);
    for (int i = 0; i < KEYS * WIDTH; i++) {
        deltas[i] = values[i] * 0.37F / (float)(1 + (i + clock) % 7) +
                    0.001F * (float)rbt_worker_index(worker);
    }
    return rbt_set_push(set);
}

static rbt_status train(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    struct results *results = p->scenario->results;
    const uint32_t me = rbt_worker_index(worker);
    uint64_t keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i * i * 977 + (me % 2) * 13;
    }
    rbt_set *set = NULL;
    const int64_t one = 1;
    rbt_status st = rbt_set_create(worker, p->dense, keys, KEYS, RBT_SET_DELTAS, &set);
    for (int64_t clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        st = step_dense(worker, set, clock);
        st = st != RBT_OK ? st : add_sparse(worker, p->sparse, (uint32_t)clock);
        for (uint64_t k = 0; st == RBT_OK && k < 20; k++) {
            st = rbt_add(worker, p->counts, k * 1000, &one);
        }
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    st = st != RBT_OK ? st : rbt_set_pull(set);
    if (st == RBT_OK) {
        memcpy(results->last[me], rbt_set_values(set), sizeof results->last[me]);
    }
    rbt_set_destroy(set);
    return st;
}

/* Reads what an earlier run has left. */
static rbt_status look(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    struct results *results = p->scenario->results;
    const uint32_t me = rbt_worker_index(worker);
    struct rbt_rows rows = {0};
    rbt_status st = rbt_pull_range(worker, p->counts, RBT_RANGE_ALL, 0, &rows);
    int64_t sum = 0;
    for (size_t i = 0; st == RBT_OK && i < rows.count; i++) {
        sum += ((const int64_t *)rows.values)[i];
    }
    rbt_rows_free(&rows);
    int64_t elements = 0;
    for (uint64_t key = 0; st == RBT_OK && key < 5; key++) {
        uint32_t index[100];
        int64_t values[100];
        struct rbt_elements row = {.index = index, .values = values, .capacity = 100};
        st = rbt_get_sparse(worker, p->sparse, key, &row);
        for (size_t i = 0; st == RBT_OK && i < row.count; i++) {
            elements += values[i] * (int64_t)(1 + index[i]);
        }
    }
    if (me < WORKERS) {
        results->sums[me] = sum;
        results->elements[me] = elements;
    }
    return st;
}

static rbt_status train_and_look(struct process *p)
{
    rbt_status st = rbt_job_run(p->job, train, p);
    return st != RBT_OK ? st : rbt_job_run(p->job, look, p);
}

/* The same here, without a cluster. */
static void run_embedded(struct scenario *scenario, struct results *results)
{
    struct process *p = test_calloc(1, sizeof *p);
    struct scenario own = *scenario;
    own.results = results;
    p->scenario = &own;
    assert_ok(run_job(p, NULL));
    test_free(p);
}

static void compare(struct fixture *f, const char *consistency)
{
    struct results *embedded = test_calloc(1, sizeof *embedded);
    f->scenario.consistency = consistency;
    f->scenario.body = train_and_look;
    run_embedded(&f->scenario, embedded);
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(f->results.sums[i], WORKERS * CLOCKS * 20);
        assert_int_equal(f->results.elements[i], embedded->elements[i]);
        if (strcmp(consistency, "bsp") == 0) { /* to the last bit */
            assert_memory_equal(f->results.last[i], embedded->last[i], sizeof embedded->last[i]);
        }
    }
    test_free(embedded);
}

/* --- Rows that travel early ------------------------------------------------------------------ */

enum { ROUNDS = 20, MANAGED_KEYS = 100 };

static rbt_status open_managed(rbt_worker *worker, struct process *p, rbt_set **set)
{
    uint64_t keys[MANAGED_KEYS];
    for (uint64_t i = 0; i < MANAGED_KEYS; i++) {
        keys[i] = i * 5;
    }
    const rbt_status st =
        rbt_set_create(worker, p->touched, keys, MANAGED_KEYS, RBT_SET_DELTAS, set);
    return st != RBT_OK ? st : rbt_set_manage(*set);
}

static rbt_status train_managed(rbt_worker *worker, void *argument)
{
    rbt_set *set = NULL;
    rbt_status st = open_managed(worker, argument, &set);
    for (uint32_t clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        st = rbt_set_pull(set);
        for (uint32_t round = 0; st == RBT_OK && round < ROUNDS; round++) {
            const size_t row =
                (clock * ROUNDS + round * 7 + rbt_worker_index(worker)) % MANAGED_KEYS;
            const float *values = rbt_set_values(set);
            float *deltas = rbt_set_deltas(set);
            deltas[2 * row] += values[2 * row];
            deltas[2 * row + 1] += 1;
            rbt_set_touch(set, row);
            st = rbt_worker_exchange(worker);
        }
        st = st != RBT_OK ? st : rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set); /* with a question still on its way, maybe */
    return st;
}

/* Adds up what an earlier run has left. */
static rbt_status look_managed(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    float *sum = p->scenario->results->last[rbt_worker_index(worker)];
    rbt_set *set = NULL;
    rbt_status st = open_managed(worker, p, &set);
    st = st != RBT_OK ? st : rbt_set_pull(set);
    for (size_t i = 0; st == RBT_OK && i < MANAGED_KEYS; i++) {
        sum[0] += ((const float *)rbt_set_values(set))[2 * i + 1];
    }
    rbt_set_destroy(set);
    return st;
}

/* Twice the first: what was on its way when a run ended is not taken for the next one's. */
static rbt_status train_managed_and_look(struct process *p)
{
    struct rbt_job_stats stats = {.struct_size = sizeof stats};
    rbt_status st = rbt_job_run(p->job, train_managed, p);
    st = st != RBT_OK ? st : rbt_job_run(p->job, train_managed, p);
    st = st != RBT_OK ? st : rbt_job_run(p->job, look_managed, p);
    rbt_job_stats(p->job, &stats);
    p->scenario->results->sums[p->index] += (int64_t)stats.early_sent;
    return st;
}

/* The rule sees to it that updates name the right reads; and every one counts once. */
static void test_cut_managed(void **state)
{
    struct fixture *f = *state;
    f->scenario.consistency = "essp:1";
    f->scenario.bandwidth = 100000000;
    f->scenario.body = train_managed_and_look;
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_float_equal(f->results.last[i][0], 2 * WORKERS * CLOCKS * ROUNDS, 0);
    }
    assert_true(f->results.sums[0] > 0 && f->results.sums[1] > 0);
    assert_true(f->servers[0].cutter.cuts > 20);
}

/* --- Tests ----------------------------------------------------------------------------------- */

static void test_bsp(void **state)
{
    compare(*state, "bsp");
}

static void test_ssp(void **state)
{
    compare(*state, "ssp:2");
}

static void test_essp(void **state)
{
    compare(*state, "essp:1");
}

static void test_asp(void **state)
{
    compare(*state, "asp");
}

/* The same with lines that are cut all the time: nothing is lost, and nothing counts twice. */
static void test_cut_bsp(void **state)
{
    struct fixture *f = *state;
    compare(f, "bsp");
    assert_true(f->servers[0].cutter.cuts > 20);
}

/* With filters: what rounds and what leaves out what the reader has. A line that is cut takes
 * answers with it, and with them what the shard thinks that the worker has. */
static void compare_filtered(struct fixture *f, const char *consistency)
{
    f->scenario.filter = "keys,changed,f16,lz4";
    f->scenario.pack = "zeros,zstd";
    compare(f, consistency);
}

static void test_filtered_bsp(void **state)
{
    compare_filtered(*state, "bsp");
}

static void test_filtered_essp(void **state)
{
    compare_filtered(*state, "essp:1");
}

static void test_cut_filtered_bsp(void **state)
{
    struct fixture *f = *state;
    compare_filtered(f, "bsp");
    assert_true(f->servers[0].cutter.cuts > 20);
}

static void test_cut_filtered_essp(void **state)
{
    struct fixture *f = *state;
    compare_filtered(f, "essp:1");
    assert_true(f->servers[1].cutter.cuts > 20);
}

static void test_cut_essp(void **state)
{
    struct fixture *f = *state;
    compare(f, "essp:1");
    assert_true(f->servers[1].cutter.cuts > 20);
}

/* Whether all elements are of one time: multiples of what is added in a clock, and not too old. */
static rbt_status check_wide(const float *values, int64_t clock, int64_t staleness)
{
    const int64_t added = WORKERS * (WORKERS + 1) / 2; /* by all, in a clock */
    const int64_t least = clock > staleness ? (clock - staleness) * added : 0;
    for (int i = 0; i < WIDE; i++) {
        if (values[i] != values[0] * (float)(1 + i % 3) || (int64_t)values[0] < least ||
            (int64_t)values[0] > (clock + staleness + 1) * added ||
            (staleness == 0 && (int64_t)values[0] != clock * added)) {
            return rbt_fail(RBT_E_DATA, "element %d is %g, and the first %g, in clock %lld", i,
                            (double)values[i], (double)values[0], (long long)clock);
        }
    }
    return RBT_OK;
}

/* Long rows. */
static rbt_status train_wide(rbt_worker *worker, void *argument)
{
    const struct process *p = argument;
    const uint64_t key = 7;
    const int64_t staleness = rbt_table_staleness(p->wide);
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, p->wide, &key, 1, RBT_SET_DELTAS, &set);
    for (int64_t clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        rbt_ticket pulled = 0;
        st = rbt_set_pull_async(set, NULL, &pulled);
        st = st != RBT_OK ? st : rbt_ticket_wait(worker, pulled);
        st = st != RBT_OK ? st : check_wide(rbt_set_values(set), clock, staleness);
        for (int i = 0; st == RBT_OK && i < WIDE; i++) {
            ((float *)rbt_set_deltas(set))[i] =
                (float)((1 + i % 3) * (1 + (int)rbt_worker_index(worker)));
        }
        st = st != RBT_OK ? st : rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static void run_wide(struct fixture *f, const char *consistency)
{
    f->scenario.consistency = consistency;
    f->scenario.body = run_once;
    f->scenario.work = train_wide;
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    assert_true(f->servers[0].cutter.cuts + f->servers[1].cutter.cuts > 10);
}

static void test_cut_wide_bsp(void **state)
{
    run_wide(*state, "bsp");
}

static void test_cut_wide_ssp(void **state)
{
    run_wide(*state, "ssp:2");
}

static void test_cut_wide_essp(void **state)
{
    run_wide(*state, "essp:1");
}

/* Worker 0 runs ahead while worker 3, in the other process, stands still. */
static rbt_status run_ahead(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    const uint32_t me = rbt_worker_index(worker);
    rbt_status st = RBT_OK;
    if (me == 3) {
        (void)sem_wait(&p->scenario->gates[0]);
    }
    for (int i = 0; st == RBT_OK && i < 3; i++) {
        int64_t count = 0;
        st = rbt_get(worker, p->counts, (uint64_t)i, &count);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    if (me == 0) {
        for (int i = 0; i < 200; i++) { /* asks the shards now and then */
            p->scenario->results->floors[0] += rbt_worker_shard_clock(worker);
        }
        (void)sem_post(&p->scenario->gates[0]);
    }
    return st;
}

static rbt_status twice(struct process *p)
{
    rbt_status st = rbt_job_run(p->job, train, p);
    for (int i = 0; st == RBT_OK && i < 5; i++) {
        struct rbt_job_stats stats = {.struct_size = sizeof stats};
        rbt_job_stats(p->job, &stats); /* hears that everybody has left */
        st = rbt_job_run(p->job, run_ahead, p);
    }
    return st;
}

static void test_clocks_of_a_new_run(void **state)
{
    struct fixture *f = *state;
    f->scenario.consistency = "essp:5";
    f->scenario.body = twice;
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    assert_int_equal(f->results.floors[0], 0);
}

/* A job's part in a row that several jobs count up. */
static rbt_status count_up(rbt_worker *worker, void *argument)
{
    const struct process *p = argument;
    rbt_status st = rbt_add(worker, p->counts, 0, &(int64_t){1});
    st = st != RBT_OK ? st : rbt_clock(worker);
    return st != RBT_OK ? st
                        : rbt_get(worker, p->counts, 0,
                                  &p->scenario->results->sums[rbt_worker_index(worker)]);
}

static rbt_status count_once(struct process *p)
{
    return rbt_job_run(p->job, count_up, p);
}

/* Shards once took the messages of a second job for those of the first, and dropped them. */
static void test_jobs_one_after_the_other(void **state)
{
    struct fixture *f = *state;
    f->scenario.consistency = "bsp";
    f->scenario.body = count_once;
    f->scenario.more_jobs = 2;
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(f->results.sums[i], 3 * WORKERS);
    }
}

static rbt_status watch_staleness(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    if (rbt_worker_index(worker) == 0) {
        return rbt_job_set_staleness(p->job, 7);
    }
    while (rbt_job_staleness(p->job) != 7) { /* ends: it was said */
        (void)sched_yield();
    }
    return rbt_table_staleness(p->counts) == 7 ? RBT_OK : RBT_E_INVALID;
}

static void test_staleness_is_told(void **state)
{
    struct fixture *f = *state;
    f->scenario.consistency = "ssp:1";
    f->scenario.body = run_once;
    f->scenario.work = watch_staleness;
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
}

static rbt_status fail_somewhere(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    rbt_status st = RBT_OK;
    for (int64_t clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        int64_t count = 0;
        if (rbt_worker_index(worker) == 2 && clock == 5) {
            return rbt_fail(RBT_E_NOTFOUND, "worker 2 does not like clock 5");
        }
        st = rbt_get(worker, p->counts, 1, &count);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    return st;
}

static void test_failure_is_everybodys(void **state)
{
    struct fixture *f = *state;
    f->scenario.consistency = "bsp";
    f->scenario.body = run_once;
    f->scenario.work = fail_somewhere;
    run_all(f, PROCESSES);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        assert_int_equal(f->processes[i].status, RBT_E_NOTFOUND);
        assert_non_null(strstr(f->processes[i].text, "does not like clock 5"));
    }
}

/* A reader sees what was trained while the job still stands; it cannot update. */
static rbt_status read_only(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    const int64_t one = 1;
    if (rbt_add(worker, p->counts, 0, &one) != RBT_E_INVALID) {
        return rbt_fail(RBT_E_PROTOCOL, "a reader could update");
    }
    int64_t count = 0;
    rbt_status st = rbt_get(worker, p->counts, 1000, &count);
    if (st == RBT_OK && count != WORKERS * CLOCKS) {
        st = rbt_fail(RBT_E_PROTOCOL, "a reader saw %lld", (long long)count);
    }
    const uint64_t key = 1000;
    rbt_set *set = NULL;
    rbt_ticket ticket = 0;
    st = st != RBT_OK ? st : rbt_set_create(worker, p->counts, &key, 1, RBT_SET_DELTAS, &set);
    st = st != RBT_OK ? st : rbt_set_pull_async(set, NULL, &ticket);
    st = st != RBT_OK ? st : rbt_ticket_wait(worker, ticket);
    if (st == RBT_OK && *(const int64_t *)rbt_set_values(set) != count) {
        st = rbt_fail(RBT_E_PROTOCOL, "a reader saw something else without waiting");
    }
    rbt_set_destroy(set);
    return st != RBT_OK ? st : look(worker, argument);
}

static rbt_status train_for_reader(struct process *p)
{
    if (p->is_reader) {
        const rbt_status st = rbt_job_run(p->job, read_only, p);
        return st != RBT_OK ? st : rbt_job_run(p->job, read_only, p);
    }
    const rbt_status st = rbt_job_run(p->job, train, p);
    (void)sem_post(&p->scenario->gates[0]);
    (void)sem_wait(&p->scenario->gates[1]); /* until it was read */
    return st;
}

static void test_reader(void **state)
{
    struct fixture *f = *state;
    f->scenario.consistency = "ssp:1";
    f->scenario.body = train_for_reader;
    run_all(f, PROCESSES + 1);
    expect_well(f, PROCESSES + 1);
    assert_int_equal(f->results.sums[0], WORKERS * CLOCKS * 20);
}

/* Whatever else there is, before anybody is asked. */
static void test_too_many_workers(void **state)
{
    const struct rbt_cluster_options options = {.struct_size = sizeof options,
                                                .coordinator = "unix:/nowhere", /* needs no key */
                                                .workers = 1025,
                                                .threads = 1};
    rbt_cluster *cluster = NULL;
    (void)state;
    assert_int_equal(rbt_cluster_join(&options, &cluster), RBT_E_INVALID);
    assert_non_null(strstr(rbt_last_error(), "1 of 1025 workers"));
    assert_null(cluster);
}

int main(void)
{
    rbt_nearby_hide(true); /* here it is the sockets that are looked at */
    const struct CMUnitTest list[] = {
        cmocka_unit_test_setup_teardown(test_bsp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ssp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_essp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_asp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_bsp, setup_cut, teardown),
        cmocka_unit_test_setup_teardown(test_cut_essp, setup_cut, teardown),
        cmocka_unit_test_setup_teardown(test_filtered_bsp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filtered_essp, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_filtered_bsp, setup_cut_filtered, teardown),
        cmocka_unit_test_setup_teardown(test_cut_filtered_essp, setup_cut_filtered, teardown),
        cmocka_unit_test_setup_teardown(test_cut_managed, setup_cut, teardown),
        cmocka_unit_test_setup_teardown(test_cut_wide_bsp, setup_wide, teardown),
        cmocka_unit_test_setup_teardown(test_cut_wide_ssp, setup_wide, teardown),
        cmocka_unit_test_setup_teardown(test_cut_wide_essp, setup_wide, teardown),
        cmocka_unit_test_setup_teardown(test_clocks_of_a_new_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_jobs_one_after_the_other, setup, teardown),
        cmocka_unit_test_setup_teardown(test_staleness_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failure_is_everybodys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reader, setup, teardown),
        cmocka_unit_test(test_too_many_workers),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
