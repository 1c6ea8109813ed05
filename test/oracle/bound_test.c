/* oracle/bound_test.c - bounds that change while processes run: what a worker has added it reads,
 * whoever has changed the bound, and whether or not it has heard of that. */
#include "oracle/remote_rig.h"

enum { KEY = 7, ROUNDS = 3 };

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(own_updates_are_read_whatever_bound_others_set, setup,
                                        teardown),
    };
    return cmocka_run_group_tests_name("oracle/bound", tests, NULL, NULL);
}
