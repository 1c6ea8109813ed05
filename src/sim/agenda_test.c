/* sim/agenda_test.c - events come out by time, and those of one moment as they went in. */
#include "base/test.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "sim/agenda.h"

static void add(struct rbt_agenda *queue, rbt_time at, uint32_t index)
{
    assert_ok(rbt_agenda_add(queue, &(struct rbt_agenda_event){.at = at, .index = index}));
}

static void take(struct rbt_agenda *queue, rbt_time at, uint32_t index)
{
    struct rbt_agenda_event event;
    assert_true(rbt_agenda_take(queue, &event));
    assert_int_equal(event.at, at);
    assert_int_equal(event.index, index);
}

static void the_earliest_event_comes_out_first(void **state)
{
    (void)state;
    struct rbt_agenda queue = {0};
    add(&queue, 30, 3);
    add(&queue, 10, 1);
    add(&queue, 20, 2);
    take(&queue, 10, 1);
    add(&queue, 15, 9);
    take(&queue, 15, 9);
    take(&queue, 20, 2);
    take(&queue, 30, 3);
    rbt_agenda_deinit(&queue);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void an_empty_queue_gives_nothing(void **state)
{
    (void)state;
    struct rbt_agenda queue = {0};
    struct rbt_agenda_event event = {.index = 77};
    assert_false(rbt_agenda_take(&queue, &event));
    add(&queue, 1, 1);
    take(&queue, 1, 1);
    assert_false(rbt_agenda_take(&queue, &event));
    assert_int_equal(event.index, 77); /* and writes nothing */
    rbt_agenda_deinit(&queue);
    rbt_agenda_deinit(&queue); /* an empty queue once more */
}

static void events_of_one_moment_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct rbt_agenda queue = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        add(&queue, i % 2 == 0 ? 7 : 5, i);
    }
    for (uint32_t i = 1; i < 1000; i += 2) {
        take(&queue, 5, i);
    }
    for (uint32_t i = 0; i < 1000; i += 2) {
        take(&queue, 7, i);
        add(&queue, 7, 1000 + i / 2); /* behind those that wait already */
    }
    for (uint32_t i = 0; i < 500; i++) {
        take(&queue, 7, 1000 + i);
    }
    assert_int_equal(queue.count, 0);
    rbt_agenda_deinit(&queue);
}

static void an_event_keeps_what_it_carries(void **state)
{
    (void)state;
    struct rbt_agenda queue = {0};
    int thing = 0;
    struct rbt_agenda_event event = {
        .at = RBT_TIME_NEVER, .order = 99, .kind = 3, .index = UINT32_MAX, .what = &thing};
    add(&queue, 1, 0);
    assert_ok(rbt_agenda_add(&queue, &event));
    take(&queue, 1, 0);
    assert_true(rbt_agenda_take(&queue, &event));
    assert_true(event.at == RBT_TIME_NEVER);
    assert_int_equal(event.order, 1); /* the queue's own, not what was passed in */
    assert_int_equal(event.kind, 3);
    assert_int_equal(event.index, UINT32_MAX);
    assert_ptr_equal(event.what, &thing);
    rbt_agenda_deinit(&queue);
}

enum { MANY = 4000 };

static int compare(const void *a, const void *b)
{
    const struct rbt_agenda_event *x = a;
    const struct rbt_agenda_event *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return x->index < y->index ? -1 : x->index > y->index;
}

/* What is in the queue, as a plain array, judges it: a random mix of adding and taking. */
static void random_runs_agree_with_sorting(void **state)
{
    (void)state;
    static struct rbt_agenda_event model[MANY];
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct rbt_rng rng;
        struct rbt_agenda queue = {0};
        rbt_rng_init(&rng, seed, 0, 0);
        size_t count = 0;
        uint32_t added = 0;
        rbt_time now = 0;
        for (int round = 0; round < 40; round++) {
            for (uint64_t i = rbt_rng_below(&rng, 100); i > 0; i--) {
                const rbt_time at = now + (rbt_time)rbt_rng_below(&rng, 50);
                model[count++] = (struct rbt_agenda_event){.at = at, .index = added};
                add(&queue, at, added++);
            }
            qsort(model, count, sizeof model[0], compare);
            size_t taken = rbt_rng_below(&rng, 100);
            taken = taken < count ? taken : count;
            for (size_t i = 0; i < taken; i++) {
                take(&queue, model[i].at, model[i].index);
                now = model[i].at;
            }
            count -= taken;
            memmove(model, model + taken, count * sizeof model[0]);
            assert_int_equal(queue.count, count);
        }
        rbt_agenda_deinit(&queue);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_million_events_come_out_in_order(void **state)
{
    (void)state;
    struct rbt_agenda queue = {0};
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    const uint64_t calls = rbt_alloc_calls();
    for (uint32_t i = 0; i < 1000000; i++) {
        add(&queue, (rbt_time)rbt_rng_below(&rng, 100000), i);
    }
    assert_in_range(rbt_alloc_calls() - calls, 1, 20); /* by doubling */
    struct rbt_agenda_event last = {.at = -1};
    for (uint32_t i = 0; i < 1000000; i++) {
        struct rbt_agenda_event event;
        assert_true(rbt_agenda_take(&queue, &event));
        assert_true(event.at > last.at || (event.at == last.at && event.index > last.index));
        last = event;
    }
    rbt_agenda_deinit(&queue);
}

static void a_failed_add_changes_nothing(void **state)
{
    (void)state;
    struct rbt_agenda queue = {0};
    uint32_t added = 0;
    for (uint32_t i = 0; i < 1000; i++) { /* fails at the first event and at each doubling */
        const struct rbt_agenda_event event = {.at = 1000 - i, .index = i};
        rbt_alloc_fail_nth(1);
        const rbt_status st = rbt_agenda_add(&queue, &event);
        rbt_alloc_fail_nth(0);
        if (st != RBT_OK) {
            assert_int_equal(st, RBT_E_NOMEM);
            assert_int_equal(queue.count, added);
            add(&queue, event.at, event.index);
        }
        added++;
    }
    for (uint32_t i = 1000; i > 0; i--) {
        take(&queue, 1000 - (i - 1), i - 1);
    }
    rbt_agenda_deinit(&queue);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_event_comes_out_first),
        cmocka_unit_test(an_empty_queue_gives_nothing),
        cmocka_unit_test(events_of_one_moment_come_out_as_they_went_in),
        cmocka_unit_test(an_event_keeps_what_it_carries),
        cmocka_unit_test(random_runs_agree_with_sorting),
        cmocka_unit_test(a_million_events_come_out_in_order),
        cmocka_unit_test(a_failed_add_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
