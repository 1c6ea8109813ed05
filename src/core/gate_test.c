/* core/gate_test.c - one test per promise of gate.c, and random runs judged by a second opinion.
 * The fixture holds a gate for two workers, with room for three reads, and an outbox. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "core/gate.h"

enum { WORKERS = 2, PARKED = 3 };

struct fixture {
    rbt_gate *gate;
    struct rbt_gate_effect effects[PARKED + 1];
    struct rbt_gate_outbox out;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    const struct rbt_gate_options options = {.worker_count = WORKERS, .parked_max = PARKED};
    fixture = (struct fixture){0};
    assert_ok(rbt_gate_create(&options, &fixture.gate));
    fixture.out.effects = fixture.effects;
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_gate_destroy(f->gate);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static void step(struct fixture *f, const struct rbt_gate_event *event)
{
    f->out.count = 0;
    rbt_gate_step(f->gate, event, &f->out);
}

static void read_at(struct fixture *f, uint64_t request, int64_t need)
{
    step(f, &(struct rbt_gate_event){.kind = RBT_GATE_READ, .request = request, .need = need});
}

static void clock_to(struct fixture *f, uint32_t worker, int64_t clock)
{
    step(f, &(struct rbt_gate_event){.kind = RBT_GATE_CLOCK, .worker = worker, .clock = clock});
}

static void assert_answered(const struct fixture *f, size_t i, uint64_t request)
{
    assert_true(i < f->out.count);
    assert_int_equal(f->effects[i].request, request);
    assert_int_equal(f->effects[i].status, RBT_OK);
}

static void a_read_that_needs_nothing_is_answered_at_once(void **state)
{
    struct fixture *f = *state;
    read_at(f, 7, 0);
    assert_answered(f, 0, 7);
    read_at(f, 8, RBT_CLOCK_ANY);
    assert_answered(f, 0, 8);
    assert_int_equal(rbt_gate_parked(f->gate), 0);
}

static void a_read_waits_for_the_slowest_worker(void **state)
{
    struct fixture *f = *state;
    read_at(f, 7, 1);
    assert_int_equal(f->out.count, 0);
    clock_to(f, 0, 5); /* the fast worker alone releases nothing */
    assert_int_equal(f->out.count, 0);
    clock_to(f, 1, 1);
    assert_int_equal(f->out.count, 1);
    assert_answered(f, 0, 7);
    assert_int_equal(rbt_gate_floor(f->gate), 1);
}

static void repeated_and_old_clocks_are_ignored(void **state)
{
    struct fixture *f = *state;
    clock_to(f, 0, 4);
    clock_to(f, 1, 2);
    read_at(f, 7, 3);
    clock_to(f, 0, 3);
    clock_to(f, 1, 2);
    clock_to(f, 1, 1);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(rbt_gate_clock(f->gate, 0), 4);
    assert_int_equal(rbt_gate_clock(f->gate, 1), 2);
    assert_int_equal(rbt_gate_floor(f->gate), 2);
    assert_int_equal(rbt_gate_parked(f->gate), 1);
}

static void nobody_waits_for_a_worker_that_has_left(void **state)
{
    struct fixture *f = *state;
    clock_to(f, 0, 3);
    read_at(f, 7, 3);
    clock_to(f, 1, RBT_CLOCK_GONE);
    assert_answered(f, 0, 7);
    assert_int_equal(rbt_gate_floor(f->gate), 3);
    clock_to(f, 1, 4); /* late, from the grave */
    assert_true(rbt_gate_clock(f->gate, 1) == RBT_CLOCK_GONE);
}

static void when_all_have_left_everything_is_open(void **state)
{
    struct fixture *f = *state;
    read_at(f, 7, 1000);
    read_at(f, 8, RBT_CLOCK_GONE);
    clock_to(f, 0, RBT_CLOCK_GONE);
    assert_int_equal(f->out.count, 0);
    clock_to(f, 1, RBT_CLOCK_GONE);
    assert_answered(f, 0, 7);
    assert_answered(f, 1, 8);
    assert_true(rbt_gate_floor(f->gate) == RBT_CLOCK_GONE);
}

static void parked_reads_are_answered_in_order_of_arrival(void **state)
{
    struct fixture *f = *state;
    read_at(f, 30, 2);
    read_at(f, 20, 3);
    read_at(f, 10, 1);
    clock_to(f, 0, 9);
    clock_to(f, 1, 2);
    assert_int_equal(f->out.count, 2);
    assert_answered(f, 0, 30);
    assert_answered(f, 1, 10);
    clock_to(f, 1, 3);
    assert_int_equal(f->out.count, 1);
    assert_answered(f, 0, 20);
}

static void a_full_gate_refuses_and_forgets(void **state)
{
    struct fixture *f = *state;
    for (uint64_t request = 1; request <= PARKED; request++) {
        read_at(f, request, 1);
    }
    read_at(f, 99, 1);
    assert_int_equal(f->out.count, 1);
    assert_int_equal(f->effects[0].request, 99);
    assert_int_equal(f->effects[0].status, RBT_E_BUSY);
    read_at(f, 100, 0); /* what need not wait needs no room */
    assert_answered(f, 0, 100);
    clock_to(f, 0, 1);
    clock_to(f, 1, 1);
    assert_int_equal(f->out.count, PARKED);
    assert_answered(f, PARKED - 1, PARKED);
}

static void reset_starts_all_clocks_again(void **state)
{
    struct fixture *f = *state;
    clock_to(f, 0, 3);
    clock_to(f, 1, RBT_CLOCK_GONE);
    step(f, &(struct rbt_gate_event){.kind = RBT_GATE_RESET});
    assert_int_equal(rbt_gate_floor(f->gate), 0);
    assert_int_equal(rbt_gate_clock(f->gate, 1), 0);
    read_at(f, 7, 1);
    assert_int_equal(f->out.count, 0);
}

/* --- Random runs ------------------------------------------------------------------------------
 *
 * The checker knows what was promised, not how the gate works:
 *   safety      an answered read is never staler than asked for;
 *   promptness  a read that may be answered is not left waiting;
 *   limits      a read is refused only when the gate is full;
 *   liveness    when every worker has caught up, nothing waits. */

enum { MANY = 5, ROOM = 4 };

struct open_read {
    uint64_t request;
    int64_t need;
};

struct checker {
    rbt_gate *gate;
    struct rbt_rng rng;
    int64_t clocks[MANY];
    struct open_read open[ROOM + 1]; /* in order of arrival */
    size_t open_count;
    uint64_t requests;
};

static int64_t slowest(const struct checker *c)
{
    int64_t min = RBT_CLOCK_GONE;
    for (size_t i = 0; i < MANY; i++) {
        min = c->clocks[i] < min ? c->clocks[i] : min;
    }
    return min;
}

/* Takes the request out of the open ones; all that were before it and remain must be waiting. */
static struct open_read take_open(struct checker *c, uint64_t request)
{
    size_t at = 0;
    while (at < c->open_count && c->open[at].request != request) {
        assert_true(c->open[at].need > slowest(c));
        at++;
    }
    assert_true(at < c->open_count);
    const struct open_read read = c->open[at];
    c->open_count--;
    memmove(c->open + at, c->open + at + 1, (c->open_count - at) * sizeof c->open[0]);
    return read;
}

static void check(struct checker *c, const struct rbt_gate_event *event)
{
    struct rbt_gate_effect effects[ROOM + 1];
    struct rbt_gate_outbox out = {.effects = effects};
    const int64_t expected =
        event->kind == RBT_GATE_CLOCK ? rbt_gate_floor_if(c->gate, event->worker, event->clock) : 0;
    rbt_gate_step(c->gate, event, &out);
    assert_true(out.count <= ROOM + 1);
    assert_true(event->kind != RBT_GATE_CLOCK || rbt_gate_floor(c->gate) == expected);
    assert_true(rbt_gate_floor(c->gate) == slowest(c));
    for (size_t i = 0; i < out.count; i++) {
        const size_t open_before = c->open_count;
        const struct open_read read = take_open(c, effects[i].request);
        if (effects[i].status == RBT_OK) {
            assert_true(read.need <= slowest(c)); /* safety */
        } else {
            assert_int_equal(effects[i].status, RBT_E_BUSY);
            assert_int_equal(open_before, ROOM + 1); /* limits */
        }
    }
    for (size_t i = 0; i < c->open_count; i++) {
        assert_true(c->open[i].need > slowest(c)); /* promptness */
    }
    assert_int_equal(c->open_count, rbt_gate_parked(c->gate));
}

static void random_step(struct checker *c)
{
    struct rbt_gate_event event = {.kind = RBT_GATE_CLOCK};
    if (rbt_rng_below(&c->rng, 2) == 0) {
        event.kind = RBT_GATE_READ;
        event.request = ++c->requests;
        event.need = (slowest(c) == RBT_CLOCK_GONE ? 0 : slowest(c)) - 2 +
                     (int64_t)rbt_rng_below(&c->rng, 6);
        c->open[c->open_count++] = (struct open_read){event.request, event.need};
    } else {
        event.worker = (uint32_t)rbt_rng_below(&c->rng, MANY);
        int64_t *clock = &c->clocks[event.worker];
        event.clock =
            *clock == RBT_CLOCK_GONE ? 3 : *clock - 1 + (int64_t)rbt_rng_below(&c->rng, 4);
        event.clock = event.clock < 0 ? 0 : event.clock;
        event.clock = rbt_rng_below(&c->rng, 60) == 0 ? RBT_CLOCK_GONE : event.clock;
        *clock = event.clock > *clock ? event.clock : *clock;
    }
    check(c, &event);
}

static void random_runs_keep_every_promise(void **state)
{
    (void)state;
    const struct rbt_gate_options options = {.worker_count = MANY, .parked_max = ROOM};
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct checker c = {0};
        rbt_rng_init(&c.rng, seed, 0, 0);
        assert_ok(rbt_gate_create(&options, &c.gate));
        for (int i = 0; i < 100; i++) {
            random_step(&c);
        }
        for (uint32_t worker = 0; worker < MANY; worker++) { /* everybody catches up */
            c.clocks[worker] = RBT_CLOCK_GONE;
            check(&c, &(struct rbt_gate_event){
                          .kind = RBT_GATE_CLOCK, .worker = worker, .clock = RBT_CLOCK_GONE});
        }
        assert_int_equal(c.open_count, 0); /* liveness */
        rbt_gate_destroy(c.gate);
    }
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    const struct rbt_gate_options options = {.worker_count = 2, .parked_max = 2};
    for (unsigned nth = 1;; nth++) {
        rbt_gate *gate = NULL;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_gate_create(&options, &gate);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_gate_destroy(gate);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(gate);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    rbt_gate_destroy(NULL);
    assert_int_equal(rbt_alloc_live(), 0);
}

#define WITH_GATE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_GATE(a_read_that_needs_nothing_is_answered_at_once),
        WITH_GATE(a_read_waits_for_the_slowest_worker),
        WITH_GATE(repeated_and_old_clocks_are_ignored),
        WITH_GATE(nobody_waits_for_a_worker_that_has_left),
        WITH_GATE(when_all_have_left_everything_is_open),
        WITH_GATE(parked_reads_are_answered_in_order_of_arrival),
        WITH_GATE(a_full_gate_refuses_and_forgets),
        WITH_GATE(reset_starts_all_clocks_again),
        cmocka_unit_test(random_runs_keep_every_promise),
        cmocka_unit_test(create_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
