/* store/snapshots_test.c - copies of states: which reads they stand for, when they go. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "core/batch.h"
#include "store/snapshots.h"

enum { SLOTS = 4, WIDTH = 2, MESSAGES = 400 };

/* Rows whose state after message m is (m + 1, slot), zero at first. */
struct rows {
    struct rbt_snapshots snapshots;
    float states[SLOTS][WIDTH];
    uint64_t count;
};

static void start(struct rows *r, uint64_t max)
{
    *r = (struct rows){.count = 0};
    rbt_snapshots_init(&r->snapshots, WIDTH, max);
    assert_ok(rbt_snapshots_fit(&r->snapshots, SLOTS));
}

static void stop(struct rows *r)
{
    rbt_snapshots_deinit(&r->snapshots);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* After which message the row's state, as found for this read, was there; 0: at first. */
static uint64_t found(const struct rows *r, uint32_t slot, uint64_t base)
{
    const float *state = rbt_snapshots_find(&r->snapshots, slot, base, r->states[slot]);
    assert_true(state[1] == (state[0] == 0 ? 0.0F : (float)slot));
    return (uint64_t)state[0];
}

/* The next message changes the row; somebody holds reads up to `highest`, and it was computed from
 * that one. */
static void change(struct rows *r, uint32_t slot, uint64_t highest)
{
    const struct rbt_snapshot_cause cause = {r->count, highest, highest};
    const uint64_t expected = found(r, slot, highest);
    const float *before = rbt_snapshots_keep(&r->snapshots, slot, r->states[slot], &cause);
    assert_true(before[0] == (float)expected);
    r->count++;
    r->states[slot][0] = (float)r->count;
    r->states[slot][1] = (float)slot;
}

static void a_read_finds_the_state_as_it_was(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 0);
    change(&r, 0, 0); /* message 0 */
    change(&r, 1, 1);
    change(&r, 0, 2);
    change(&r, 0, 3);
    const uint64_t expected[] = {0, 1, 1, 3, 4};
    for (uint64_t base = 0; base <= 4; base++) {
        assert_int_equal(found(&r, 0, base), expected[base]);
        assert_int_equal(found(&r, 1, base), base < 2 ? 0 : 2);
        assert_int_equal(found(&r, 2, base), 0);
    }
    assert_int_equal(r.snapshots.count, 4);
    assert_int_equal(r.snapshots.count_max, 4);
    stop(&r);
}

static void what_nobody_holds_is_not_copied(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 0);
    change(&r, 0, 0);
    assert_int_equal(r.snapshots.count, 1);
    change(&r, 0, 0); /* the state since message 0 was read by nobody */
    change(&r, 0, 0);
    assert_int_equal(r.snapshots.count, 1);
    assert_int_equal(found(&r, 0, 0), 0);
    assert_int_equal(found(&r, 0, 3), 3);
    change(&r, 0, 3);
    assert_int_equal(r.snapshots.count, 2);
    assert_int_equal(found(&r, 0, 3), 3);
    stop(&r);
}

static void a_row_that_one_message_changes_twice_has_one_copy(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 0);
    const float first[WIDTH] = {5, 0};
    const float then[WIDTH] = {6, 0};
    const struct rbt_snapshot_cause cause = {0};
    const float *kept = rbt_snapshots_keep(&r.snapshots, 0, first, &cause);
    assert_ptr_equal(rbt_snapshots_keep(&r.snapshots, 0, then, &cause), kept);
    assert_int_equal(r.snapshots.count, 1);
    assert_true(rbt_snapshots_find(&r.snapshots, 0, 0, then)[0] == 5);
    stop(&r);
}

static void copies_go_when_the_lowest_read_has_passed_them(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 0);
    for (uint64_t i = 0; i < 100; i++) {
        change(&r, i % 2, i);
    }
    assert_int_equal(r.snapshots.count, 100);
    for (uint64_t lowest = 0; lowest <= 100; lowest++) {
        rbt_snapshots_release(&r.snapshots, lowest);
        assert_int_equal(r.snapshots.count, 100 - lowest);
        for (uint64_t base = lowest; base <= 100; base++) { /* the others are all there */
            assert_int_equal(found(&r, 0, base), base == 0 ? 0 : base - (base + 1) % 2);
        }
    }
    assert_true(rbt_snapshots_bytes(&r.snapshots) > 100 * sizeof(float));
    rbt_snapshots_release(&r.snapshots, RBT_STAMP_NONE); /* nobody is left: nor is the ring */
    assert_true(rbt_snapshots_bytes(&r.snapshots) < 100);
    stop(&r);
}

/* The oldest go; who asks for one of them gets the oldest that is left. */
static void there_are_never_more_than_the_limit(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 3);
    for (uint64_t i = 0; i < 200; i++) {
        change(&r, 0, i);
        assert_int_equal(r.snapshots.count, i < 3 ? i + 1 : 3);
    }
    assert_int_equal(r.snapshots.count_max, 3);
    assert_int_equal(found(&r, 0, 200), 200);
    assert_int_equal(found(&r, 0, 199), 199);
    assert_int_equal(found(&r, 0, 197), 197);
    assert_int_equal(found(&r, 0, 196), 197);
    assert_int_equal(found(&r, 0, 0), 197);
    for (uint64_t i = 0; i < 3; i++) {
        change(&r, 1, 200 + i);
    }
    assert_int_equal(found(&r, 0, 0), 200); /* no copy is left: the present one */
    assert_int_equal(found(&r, 1, 0), 0);
    stop(&r);
}

/* Under random work every read that is held finds what a list of all states says. */
/* Somebody holds the first read and every later one, and never lets go. */
static void a_few_rows_have_no_more_copies_than_they_can_use(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 0);
    assert_int_equal(r.snapshots.max, 4096);
    for (uint64_t message = 0; message < 20000; message++) {
        const struct rbt_snapshot_cause cause = {r.count, r.count, r.count};
        (void)rbt_snapshots_keep(&r.snapshots, 0, r.states[0], &cause);
        r.count++;
        r.states[0][0] = (float)r.count;
    }
    assert_int_equal(r.snapshots.count_max, 4096);
    assert_true(rbt_snapshots_bytes(&r.snapshots) < 4096 * 2 * (16 + WIDTH * sizeof(float)) + 4096);
    assert_int_equal(found(&r, 0, 1), 20000 - 4096); /* the oldest that is left */
    assert_int_equal(found(&r, 0, 19000), 19000);
    assert_ok(rbt_snapshots_fit(&r.snapshots, 1000));
    assert_int_equal(r.snapshots.max, 256000);
    assert_ok(rbt_snapshots_fit(&r.snapshots, 10000));
    assert_int_equal(r.snapshots.max, 1 << 20);
    assert_ok(rbt_snapshots_fit(&r.snapshots, 100000));
    assert_int_equal(r.snapshots.max, 1600000);
    stop(&r);
}

static void reads_find_what_a_list_of_all_states_says(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        static float history[MESSAGES + 1][SLOTS];
        struct rbt_rng rng;
        struct rows r;
        rbt_rng_init(&rng, seed, 0, 0);
        start(&r, 0);
        r.snapshots.first = UINT32_MAX - rbt_rng_below(&rng, MESSAGES); /* also beyond 32 bits */
        memset(history, 0, sizeof history);
        uint64_t lowest = 0;
        uint64_t highest = 0;
        while (r.count < MESSAGES) {
            change(&r, (uint32_t)rbt_rng_below(&rng, SLOTS), highest);
            for (uint32_t slot = 0; slot < SLOTS; slot++) {
                history[r.count][slot] = r.states[slot][0];
            }
            /* Somebody may read now; somebody may let go. All from lowest to highest are held. */
            if (rbt_rng_below(&rng, 3) == 0 && highest + 1 == r.count) {
                highest = r.count;
            } else if (rbt_rng_below(&rng, 3) == 0) {
                lowest = highest = r.count;
                rbt_snapshots_release(&r.snapshots, lowest);
            } else if (lowest < highest && rbt_rng_below(&rng, 4) == 0) {
                lowest++;
                rbt_snapshots_release(&r.snapshots, lowest);
            }
            for (uint64_t base = lowest; base <= highest; base++) {
                for (uint32_t slot = 0; slot < SLOTS; slot++) {
                    assert_true((float)found(&r, slot, base) == history[base][slot]);
                }
            }
        }
        stop(&r);
    }
}

/* A row's only state that somebody holds is copied, and where to is known at once. */
static void the_copy_is_returned(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 0);
    const float first[WIDTH] = {5, 6};
    const struct rbt_snapshot_cause cause = {0};
    const float *kept = rbt_snapshots_keep(&r.snapshots, 2, first, &cause);
    assert_true(kept != first);
    assert_memory_equal(kept, first, sizeof first);
    assert_true(kept == rbt_snapshots_find(&r.snapshots, 2, 0, first));
    const struct rbt_snapshot_cause next = {.count = 1, .base = 1, .highest = 0};
    assert_true(rbt_snapshots_keep(&r.snapshots, 2, first, &next) == first); /* nobody holds it */
    const struct rbt_snapshot_cause late = {.count = 2, .base = 0, .highest = 0};
    assert_true(rbt_snapshots_keep(&r.snapshots, 2, first, &late) == kept);
    assert_int_equal(r.snapshots.count, 1);
    stop(&r);
}

/* Rows of one value are copied by other code, and have a state each. */
static void narrow_rows_are_copied_as_well(void **state)
{
    (void)state;
    struct rbt_snapshots snapshots;
    rbt_snapshots_init(&snapshots, 1, 0);
    assert_ok(rbt_snapshots_fit(&snapshots, SLOTS));
    for (uint64_t i = 0; i < MESSAGES; i++) { /* the ring grows meanwhile */
        const float now = (float)i;
        const struct rbt_snapshot_cause cause = {i, i, i};
        assert_true(*rbt_snapshots_keep(&snapshots, i % SLOTS, &now, &cause) == now);
    }
    for (uint64_t i = 0; i + SLOTS < MESSAGES; i++) { /* message i found it at i */
        const float none = -1;
        assert_true(*rbt_snapshots_find(&snapshots, i % SLOTS, i, &none) == (float)i);
    }
    rbt_snapshots_deinit(&snapshots);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void without_memory_the_oldest_copy_makes_room(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 0);
    rbt_alloc_fail_nth(1);
    change(&r, 0, 0); /* not even one */
    rbt_alloc_fail_nth(0);
    assert_int_equal(r.snapshots.count, 0);
    assert_int_equal(found(&r, 0, 0), 1);
    for (uint64_t i = 1; i <= 64; i++) {
        change(&r, 0, i);
    }
    assert_int_equal(r.snapshots.count, 64);
    rbt_alloc_fail_nth(1);
    change(&r, 0, 65);
    rbt_alloc_fail_nth(0);
    assert_int_equal(r.snapshots.count, 64);
    assert_int_equal(found(&r, 0, 1), 2);
    assert_int_equal(found(&r, 0, 65), 65);
    change(&r, 0, 66);
    assert_int_equal(r.snapshots.count, 65);
    assert_int_equal(found(&r, 0, 2), 2);
    stop(&r);
}

static void room_for_rows_survives_a_failed_allocation(void **state)
{
    (void)state;
    struct rows r;
    start(&r, 0);
    change(&r, 3, 0);
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_snapshots_fit(&r.snapshots, 1000), RBT_E_NOMEM, "1000 rows");
    rbt_alloc_fail_nth(0);
    assert_int_equal(found(&r, 3, 0), 0);
    assert_int_equal(found(&r, 3, 1), 1);
    assert_ok(rbt_snapshots_fit(&r.snapshots, 1000));
    const float none[WIDTH] = {0};
    assert_true(rbt_snapshots_find(&r.snapshots, 999, 0, none) == none);
    assert_int_equal(found(&r, 3, 0), 0);
    stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_finds_the_state_as_it_was),
        cmocka_unit_test(what_nobody_holds_is_not_copied),
        cmocka_unit_test(a_row_that_one_message_changes_twice_has_one_copy),
        cmocka_unit_test(copies_go_when_the_lowest_read_has_passed_them),
        cmocka_unit_test(there_are_never_more_than_the_limit),
        cmocka_unit_test(a_few_rows_have_no_more_copies_than_they_can_use),
        cmocka_unit_test(reads_find_what_a_list_of_all_states_says),
        cmocka_unit_test(the_copy_is_returned),
        cmocka_unit_test(narrow_rows_are_copied_as_well),
        cmocka_unit_test(without_memory_the_oldest_copy_makes_room),
        cmocka_unit_test(room_for_rows_survives_a_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
