/* algo/frame/rebalance_test.c - examples that are handed on: none twice, and the slow have fewer.
 */
#include "base/test.h"

#include "algo/frame/rebalance.h"

enum { WORKERS = 4, EXAMPLES = 1000, CLOCKS = 120 };

struct run {
    struct rbt_rebalance rebalance;
    double slowness[WORKERS];
    uint32_t owners[WORKERS][EXAMPLES]; /* how often each worker has each example, at the end */
};

static uint64_t count_hand(const struct rbt_hand *hand)
{
    uint64_t count = 0;
    for (size_t i = 0; i < hand->piece_count; i++) {
        count += hand->pieces[i].end - hand->pieces[i].first;
    }
    return count;
}

static rbt_status work(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    const uint32_t me = rbt_worker_index(worker);
    const uint64_t size = EXAMPLES / WORKERS;
    const struct rbt_piece own = {me * size, (me + 1) * size};
    struct rbt_hand hand;
    bool has_changed = false;
    assert_ok(rbt_rebalance_begin(&run->rebalance, worker, own, &hand));
    for (int clock = 0; clock < CLOCKS; clock++) {
        const double seconds = run->slowness[me] * (double)count_hand(&hand);
        assert_ok(rbt_rebalance_step(&run->rebalance, worker, &hand, &has_changed));
        assert_ok(rbt_rebalance_note(&run->rebalance, worker, &hand, seconds));
        assert_ok(rbt_clock(worker));
    }
    for (size_t i = 0; i < hand.piece_count; i++) {
        for (uint64_t at = hand.pieces[i].first; at < hand.pieces[i].end; at++) {
            run->owners[me][at]++;
        }
    }
    rbt_rebalance_end(&hand);
    return RBT_OK;
}

static void run_job(struct run *run)
{
    rbt_job *job = NULL;
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = WORKERS, .consistency = "bsp"};
    assert_ok(rbt_job_open(&options, &job));
    assert_ok(rbt_rebalance_open(&run->rebalance, job, WORKERS));
    assert_ok(rbt_job_run(job, work, run));
    rbt_job_close(job);
}

/* How many examples a worker has; and that nobody has one that somebody else has. */
static uint32_t count_owned(const struct run *run, uint32_t worker)
{
    uint32_t count = 0;
    for (size_t at = 0; at < EXAMPLES; at++) {
        uint32_t owners = 0;
        for (uint32_t p = 0; p < WORKERS; p++) {
            owners += run->owners[p][at];
        }
        assert_true(owners <= 1);
        count += run->owners[worker][at];
    }
    return count;
}

static void nothing_moves_between_equals(void **state)
{
    (void)state;
    static struct run run;
    run = (struct run){.slowness = {1.0, 1.1, 1.15, 1.0}};
    run_job(&run);
    for (uint32_t p = 0; p < WORKERS; p++) {
        assert_int_equal(count_owned(&run, p), EXAMPLES / WORKERS);
    }
}

static void a_straggler_gives_until_it_is_none(void **state)
{
    (void)state;
    static struct run run;
    run = (struct run){.slowness = {1.0, 1.0, 4.0, 1.0}};
    run_job(&run);
    const uint32_t slow = count_owned(&run, 2);
    assert_true(slow < 130 && slow > 30);
    uint32_t sum = slow;
    for (uint32_t p = 0; p < WORKERS; p++) {
        const uint32_t count = count_owned(&run, p);
        assert_true(p == 2 || count >= EXAMPLES / WORKERS - 60);
        sum += p == 2 ? 0 : count;
    }
    assert_true(sum <= EXAMPLES && sum >= EXAMPLES - 60); /* the rest was on its way */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_moves_between_equals),
        cmocka_unit_test(a_straggler_gives_until_it_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
