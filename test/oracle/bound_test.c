/* oracle/bound_test.c - bounds that change while four processes run: what a worker has added it
 * reads, whoever has changed the bound, and a read that begins after a change has returned, in
 * whatever process, obeys it.
 *
 * Worker p adds 1 to row p in each of its clocks, so that a row says how many clocks of its worker
 * are visible. Every change is written down with when it began and returned. A bound may be in
 * force until another change, that began after it had returned, has returned, too; a read may lack
 * no more than the largest of these allows. */
#define RIG_PROCESSES 4
#include "oracle/remote_rig.h"

#include "base/rng.h"

enum { KEY = 7, ROUNDS = 3, BOUND_MAX = 3, MANY_CLOCKS = 150, CHANGES_MAX = 2000 };

struct change {
    int64_t staleness;
    uint64_t began; /* on the test's own clock, which goes on at every beginning and end */
    uint64_t ended; /* 0: not yet */
};

/* What all processes of a test share: they are threads here. */
static struct {
    pthread_mutex_t mutex; /* guards all below */
    uint64_t time;
    struct change changes[CHANGES_MAX];
    uint32_t count;
} history = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The bound is this one, and was for ever. */
static void begin_history(int64_t staleness)
{
    history.time = 2;
    history.count = 1;
    history.changes[0] = (struct change){.staleness = staleness, .began = 1, .ended = 2};
}

static uint32_t begin_change(int64_t staleness)
{
    pthread_mutex_lock(&history.mutex);
    const uint32_t at = history.count++ % CHANGES_MAX;
    history.changes[at] = (struct change){.staleness = staleness, .began = ++history.time};
    pthread_mutex_unlock(&history.mutex);
    return at;
}

static void end_change(uint32_t at)
{
    pthread_mutex_lock(&history.mutex);
    history.changes[at].ended = ++history.time;
    pthread_mutex_unlock(&history.mutex);
}

/* When the last change began that has returned: what had returned before is not in force now. */
static uint64_t last_beginning(void)
{
    uint64_t last = 0;
    pthread_mutex_lock(&history.mutex);
    for (uint32_t i = 0; i < history.count; i++) {
        const struct change *change = &history.changes[i];
        last = change->ended > 0 && change->began > last ? change->began : last;
    }
    pthread_mutex_unlock(&history.mutex);
    return last;
}

/* The largest bound that was in force at any time since then. */
static int64_t largest_bound(uint64_t since)
{
    int64_t largest = 0;
    pthread_mutex_lock(&history.mutex);
    for (uint32_t i = 0; i < history.count; i++) {
        const struct change *change = &history.changes[i];
        const bool is_over = change->ended > 0 && change->ended < since;
        largest = !is_over && change->staleness > largest ? change->staleness : largest;
    }
    pthread_mutex_unlock(&history.mutex);
    return largest;
}

/* Reads the rows of all workers; counts those that lack more than they may. */
static rbt_status count_late(rbt_worker *worker, rbt_table *table, int64_t *late)
{
    rbt_status st = RBT_OK;
    for (uint64_t key = 0; st == RBT_OK && key < WORKERS; key++) {
        const uint64_t since = last_beginning(); /* before the read begins */
        int64_t clocks = 0;
        st = rbt_get(worker, table, key, &clocks);
        *late += clocks < rbt_worker_clock(worker) - largest_bound(since);
    }
    return st;
}

static rbt_status end_clock(rbt_worker *worker, rbt_table *table)
{
    const rbt_status st = rbt_add(worker, table, rbt_worker_index(worker), &(int64_t){1});
    return st != RBT_OK ? st : rbt_clock(worker);
}

/* Changes the bound of the table, or of the job. */
static rbt_status change_bound(struct process *p, int64_t staleness, bool is_job)
{
    const uint32_t at = begin_change(staleness);
    const rbt_status st = is_job ? rbt_job_set_staleness(p->job, staleness)
                                 : rbt_table_set_staleness(p->counts, staleness);
    end_change(at);
    return st;
}

/* All workers change the bound now and then. */
static rbt_status change_at_random(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    const uint32_t me = rbt_worker_index(worker);
    struct rbt_rng rng;
    int64_t late = 0;
    rbt_status st = RBT_OK;
    rbt_rng_init(&rng, 18, me, 0);
    while (st == RBT_OK && rbt_worker_clock(worker) < MANY_CLOCKS) {
        if (rbt_rng_below(&rng, 4) == 0) {
            const int64_t staleness = (int64_t)rbt_rng_below(&rng, BOUND_MAX + 1);
            st = change_bound(p, staleness, rbt_rng_below(&rng, 2) == 0);
        }
        st = st != RBT_OK ? st : count_late(worker, p->counts, &late);
        st = st != RBT_OK ? st : end_clock(worker, p->counts);
    }
    p->scenario->results->sums[me] = late;
    return st;
}

/* Worker 2 runs ahead as far as it may, and has read before; then worker 0 sets the bound to 0, and
 * when that has returned worker 2 reads again. The others go on only now. */
static rbt_status read_after_a_change(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    struct scenario *scenario = p->scenario;
    const uint32_t me = rbt_worker_index(worker);
    rbt_status st = RBT_OK;
    if (me == 2) {
        int64_t unused = 0;
        for (int i = 0; st == RBT_OK && i < BOUND_MAX; i++) {
            st = end_clock(worker, p->counts);
        }
        st = st != RBT_OK ? st : count_late(worker, p->counts, &unused);
        (void)sem_post(&scenario->gates[0]);
        (void)sem_wait(&scenario->gates[1]);
        return st != RBT_OK ? st : count_late(worker, p->counts, &scenario->results->sums[me]);
    }
    if (me == 0) {
        (void)sem_wait(&scenario->gates[0]);
        st = change_bound(p, 0, false);
        for (int i = 0; i < WORKERS - 1; i++) {
            (void)sem_post(&scenario->gates[1]);
        }
    } else {
        (void)sem_wait(&scenario->gates[1]);
    }
    for (int i = 0; st == RBT_OK && i < BOUND_MAX; i++) {
        st = end_clock(worker, p->counts);
    }
    return st;
}

/* Worker 0 sets the bound; then worker 2, of the other process, adds and reads. The others only
 * wait, so that the shards show nothing of what it adds. */
static rbt_status add_under_another_bound(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    struct scenario *scenario = p->scenario;
    const uint32_t me = rbt_worker_index(worker);
    rbt_status st = RBT_OK;
    if (me == 0) {
        st = rbt_table_set_staleness(p->counts, 0);
        (void)sem_post(&scenario->gates[0]);
    }
    if (me != 2) {
        (void)sem_wait(&scenario->gates[1]);
        return st;
    }
    (void)sem_wait(&scenario->gates[0]);
    int64_t lost = 0;
    for (int64_t i = 0; st == RBT_OK && i < ROUNDS; i++) {
        int64_t value = 0;
        st = rbt_add(worker, p->counts, KEY, &(int64_t){2});
        st = st != RBT_OK ? st : rbt_clock(worker);
        st = st != RBT_OK ? st : rbt_get_within(worker, p->counts, KEY, ROUNDS, &value);
        lost += 2 * (i + 1) - value;
    }
    scenario->results->sums[me] = lost;
    for (int i = 0; i < WORKERS - 1; i++) {
        (void)sem_post(&scenario->gates[1]);
    }
    return st;
}

/* Copies that a cache keeps would hide what is missing from those that are fetched. */
static rbt_status run_without_a_cache(struct process *p)
{
    const struct rbt_table_options options = {
        .struct_size = sizeof options, .type = RBT_I64, .cache = RBT_CACHE_NONE};
    const rbt_status st = rbt_table_open(p->job, "plain", &options, &p->counts);
    return st != RBT_OK ? st : run_once(p);
}

static void own_updates_are_read_whatever_bound_others_set(void **state)
{
    struct fixture *f = *state;
    f->scenario.consistency = "ssp:3";
    f->scenario.body = run_without_a_cache;
    f->scenario.work = add_under_another_bound;
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    assert_int_equal(f->results.sums[2], 0);
}

static void expect_none_late(struct fixture *f, const char *consistency, rbt_worker_function work)
{
    f->scenario.consistency = consistency;
    f->scenario.body = run_once;
    f->scenario.work = work;
    begin_history(BOUND_MAX);
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(f->results.sums[i], 0);
    }
}

static void a_read_obeys_what_another_process_has_set(void **state)
{
    expect_none_late(*state, "ssp:3", read_after_a_change);
}

static void reads_obey_bounds_that_change_at_random(void **state)
{
    expect_none_late(*state, "ssp:3", change_at_random);
}

static void eager_reads_obey_bounds_that_change_at_random(void **state)
{
    expect_none_late(*state, "essp:3", change_at_random);
}

/* Process 0 changes the job's bound and that of table "late", before the others open it. */
static rbt_status open_late(struct process *p)
{
    const struct rbt_table_options options = {
        .struct_size = sizeof options, .type = RBT_I64, .consistency = "ssp:3"};
    rbt_table *late = NULL;
    rbt_status st = RBT_OK;
    if (p->index > 0) {
        (void)sem_wait(&p->scenario->gates[0]);
    }
    st = rbt_table_open(p->job, "late", &options, &late);
    if (p->index == 0) {
        st = st != RBT_OK ? st : rbt_job_set_staleness(p->job, 2);
        st = st != RBT_OK ? st : rbt_table_set_staleness(late, 1);
        for (int i = 0; i < PROCESSES - 1; i++) {
            (void)sem_post(&p->scenario->gates[0]);
        }
    }
    if (st == RBT_OK) {
        p->scenario->results->sums[p->index] = 100 * rbt_table_staleness(late) +
                                               10 * rbt_table_staleness(p->counts) +
                                               rbt_job_staleness(p->job);
    }
    return st != RBT_OK ? st : run_once(p); /* all meet at its end */
}

static rbt_status do_nothing(rbt_worker *worker, void *argument)
{
    (void)worker;
    (void)argument;
    return RBT_OK;
}

static void a_table_that_is_opened_late_has_the_bound_that_was_set(void **state)
{
    struct fixture *f = *state;
    f->scenario.consistency = "ssp:3";
    f->scenario.body = open_late;
    f->scenario.work = do_nothing;
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    for (int i = 0; i < PROCESSES; i++) {
        assert_int_equal(f->results.sums[i], 122);
    }
}

/* Each clock of each worker has a row of its own; what was added there is not zero, whatever the
 * rule makes of it. Reads are of versions that all shards have: whoever says which these are is a
 * millisecond late, in which workers end many clocks. */
static rbt_status read_versions(rbt_worker *worker, void *argument)
{
    struct process *p = argument;
    const uint64_t me = rbt_worker_index(worker);
    rbt_status st = RBT_OK;
    int64_t late = 0;
    while (st == RBT_OK && rbt_worker_clock(worker) < MANY_CLOCKS) {
        const int64_t clock = rbt_worker_clock(worker);
        const float one = 1;
        for (uint64_t q = 0; st == RBT_OK && clock > 1 && q < WORKERS; q++) {
            float value = 0;
            st = rbt_get(worker, p->versions, q * MANY_CLOCKS + (uint64_t)clock - 2, &value);
            late += value == 0;
        }
        st = st != RBT_OK ? st
                          : rbt_add(worker, p->versions, me * MANY_CLOCKS + (uint64_t)clock, &one);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    p->scenario->results->sums[me] = late;
    return st;
}

static rbt_status open_versions(struct process *p)
{
    const struct rbt_table_experiments experiments = {.struct_size = sizeof experiments,
                                                      .is_synchronised = true};
    const struct rbt_table_options options = {
        .struct_size = sizeof options, .rule = "dynsgd", .experiments = &experiments};
    const rbt_status st = rbt_table_open(p->job, "versions", &options, &p->versions);
    return st != RBT_OK ? st : run_once(p);
}

static void expect_versions(struct fixture *f, const char *consistency)
{
    f->scenario.consistency = consistency;
    f->scenario.body = open_versions;
    f->scenario.work = read_versions;
    run_all(f, PROCESSES);
    expect_well(f, PROCESSES);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(f->results.sums[i], 0);
    }
}

static void synchronised_reads_obey_the_bound(void **state)
{
    expect_versions(*state, "ssp:1");
}

static void synchronised_eager_reads_obey_the_bound(void **state)
{
    expect_versions(*state, "essp:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(own_updates_are_read_whatever_bound_others_set, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_read_obeys_what_another_process_has_set, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_obey_bounds_that_change_at_random, setup, teardown),
        cmocka_unit_test_setup_teardown(eager_reads_obey_bounds_that_change_at_random, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(synchronised_reads_obey_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(synchronised_eager_reads_obey_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_that_is_opened_late_has_the_bound_that_was_set,
                                        setup, teardown),
    };
    return cmocka_run_group_tests_name("oracle/bound", tests, NULL, NULL);
}
