/* sim/fiber_test.c - fibers stop and go on where they were; stacks and errors do not mix. */
#include "base/test.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "sim/fiber.h"

enum { STACK = 256 * 1024 };

static rbt_fiber *make(rbt_fiber_function function, void *argument)
{
    rbt_fiber *fiber = NULL;
    assert_ok(rbt_fiber_create(function, argument, STACK, &fiber));
    return fiber;
}

/* A diary of who was where, so that orders can be compared at once. */
static char diary[256];

static void note(const char *text)
{
    const size_t length = strlen(diary);
    snprintf(diary + length, sizeof diary - length, "%s ", text);
}

static void walk(void *argument)
{
    const char *name = argument;
    char text[16];
    for (int i = 1; i <= 3; i++) {
        snprintf(text, sizeof text, "%s%d", name, i);
        note(text);
        if (i < 3) {
            rbt_fiber_yield();
        }
    }
}

static void a_fiber_goes_on_where_it_stopped(void **state)
{
    (void)state;
    diary[0] = '\0';
    char a_name[] = "a";
    char b_name[] = "b";
    rbt_fiber *a = make(walk, a_name);
    rbt_fiber *b = make(walk, b_name);
    rbt_fiber_resume(a);
    note("-");
    rbt_fiber_resume(b);
    rbt_fiber_resume(b);
    note("-");
    rbt_fiber_resume(a);
    assert_false(rbt_fiber_has_ended(b));
    rbt_fiber_resume(b);
    assert_true(rbt_fiber_has_ended(b));
    assert_false(rbt_fiber_has_ended(a));
    rbt_fiber_resume(a);
    assert_true(rbt_fiber_has_ended(a));
    assert_string_equal(diary, "a1 - b1 b2 - a2 b3 a3 ");
    rbt_fiber_destroy(a);
    rbt_fiber_destroy(b);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void note_running(void *argument)
{
    rbt_fiber **seen = argument;
    seen[0] = rbt_fiber_running();
    rbt_fiber_yield();
    seen[1] = rbt_fiber_running();
}

static void a_fiber_knows_that_it_runs(void **state)
{
    (void)state;
    rbt_fiber *seen[2] = {NULL, NULL};
    rbt_fiber *fiber = make(note_running, seen);
    assert_null(rbt_fiber_running());
    rbt_fiber_resume(fiber);
    assert_null(rbt_fiber_running());
    rbt_fiber_resume(fiber);
    assert_null(rbt_fiber_running());
    assert_ptr_equal(seen[0], fiber);
    assert_ptr_equal(seen[1], fiber);
    rbt_fiber_destroy(fiber);
}

enum { FIBERS = 500, ROUNDS = 20 };

struct runner {
    uint64_t number;
    uint64_t sum;
};

static void sum_up(void *argument)
{
    struct runner *runner = argument;
    volatile uint64_t local[32]; /* on the fiber's stack, and nobody else's */
    for (size_t i = 0; i < 32; i++) {
        local[i] = runner->number * 1000 + i;
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        rbt_fiber_yield();
        for (size_t i = 0; i < 32; i++) {
            runner->sum += local[i] + round;
        }
    }
}

static void many_fibers_keep_their_stacks_apart(void **state)
{
    (void)state;
    static rbt_fiber *fibers[FIBERS];
    static struct runner runners[FIBERS];
    for (size_t i = 0; i < FIBERS; i++) {
        runners[i] = (struct runner){.number = i};
        fibers[i] = make(sum_up, &runners[i]);
    }
    for (size_t round = 0; round <= ROUNDS; round++) {
        for (size_t i = 0; i < FIBERS; i++) {
            const size_t place = round % 2 == 0 ? i : FIBERS - 1 - i;
            assert_false(rbt_fiber_has_ended(fibers[place]));
            rbt_fiber_resume(fibers[place]);
        }
    }
    for (size_t i = 0; i < FIBERS; i++) {
        assert_true(rbt_fiber_has_ended(fibers[i]));
        const uint64_t per_round = 32 * (i * 1000) + 32 * 31 / 2;
        assert_int_equal(runners[i].sum, ROUNDS * per_round + 32 * ROUNDS * (ROUNDS - 1) / 2);
        rbt_fiber_destroy(fibers[i]);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Uses a kilobyte of stack per level, stops at the deepest, and checks it on the way back. */
__attribute__((noinline)) static unsigned descend(unsigned levels)
{
    volatile unsigned char local[1024];
    for (size_t i = 0; i < sizeof local; i++) {
        local[i] = (unsigned char)(levels + i);
    }
    unsigned below = 0;
    if (levels > 1) {
        below = descend(levels - 1);
    } else {
        rbt_fiber_yield();
    }
    for (size_t i = 0; i < sizeof local; i++) {
        below += local[i] != (unsigned char)(levels + i) ? 1000000U : 0;
    }
    return below + 1;
}

static void go_deep(void *argument)
{
    unsigned *levels = argument;
    *levels = descend(*levels);
}

static void a_fiber_can_use_its_whole_stack(void **state)
{
    (void)state;
    unsigned levels = 150; /* of a stack of 256 KiB; the sanitizers' frames are larger */
    unsigned others = 100;
    rbt_fiber *fiber = make(go_deep, &levels);
    rbt_fiber *other = make(go_deep, &others);
    rbt_fiber_resume(fiber);
    rbt_fiber_resume(other);
    rbt_fiber_resume(fiber);
    rbt_fiber_resume(other);
    assert_true(rbt_fiber_has_ended(fiber));
    assert_int_equal(levels, 150);
    assert_int_equal(others, 100);
    rbt_fiber_destroy(other);
    rbt_fiber_destroy(fiber);
}

static void go_deep_once(void *argument)
{
    unsigned *levels = argument;
    const unsigned below = descend(150); /* others add in the meantime */
    *levels += below;
}

/* Together they are deeper than ThreadSanitizer allows one thread to be: it must have been told. */
static void many_fibers_can_stop_deep_down(void **state)
{
    (void)state;
    static rbt_fiber *fibers[FIBERS];
    unsigned levels = 0;
    for (size_t i = 0; i < FIBERS; i++) {
        fibers[i] = make(go_deep_once, &levels);
        rbt_fiber_resume(fibers[i]);
    }
    assert_int_equal(levels, 0);
    for (size_t i = 0; i < FIBERS; i++) {
        rbt_fiber_resume(fibers[i]);
        assert_true(rbt_fiber_has_ended(fibers[i]));
        rbt_fiber_destroy(fibers[i]);
    }
    assert_int_equal(levels, FIBERS * 150);
}

/* In a process of its own, which must not get to the end. The second stack is below the first, so
 * that without a guard page the first would run into it unnoticed. */
static void a_stack_that_overflows_stops_the_program(void **state)
{
    (void)state;
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr); /* a sanitizer's report is not wanted */
        unsigned levels = STACK / 1024 + 32;
        rbt_fiber *fiber = make(go_deep, &levels);
        (void)make(go_deep, &levels);
        rbt_fiber_resume(fiber);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct complaint {
    const char *text; /* or NULL: there is none */
    const char *hint;
    int wrong;
};

static void check_complaint(struct complaint *complaint)
{
    const char *text = complaint->text != NULL ? complaint->text : "";
    const char *hint = complaint->hint != NULL ? complaint->hint : "";
    complaint->wrong += strcmp(rbt_last_error(), text) != 0 || strcmp(rbt_last_hint(), hint) != 0;
}

static void complain(void *argument)
{
    struct complaint *complaint = argument;
    complaint->wrong += rbt_last_error()[0] != '\0'; /* the caller's is not ours */
    rbt_fiber_yield();
    if (complaint->text != NULL) {
        (void)rbt_fail(RBT_E_BUSY, "%s", complaint->text);
    }
    if (complaint->hint != NULL) {
        (void)rbt_fail_hint(RBT_E_BUSY, "%s", complaint->hint);
    }
    for (int i = 0; i < 3; i++) {
        check_complaint(complaint);
        rbt_fiber_yield();
    }
    check_complaint(complaint);
}

static void errors_of_fibers_do_not_mix(void **state)
{
    (void)state;
    (void)rbt_fail(RBT_E_INVALID, "outside");
    (void)rbt_fail_hint(RBT_E_INVALID, "Go in.");
    struct complaint complaints[4] = {{.text = "first"},
                                      {.text = NULL},
                                      {.text = "third, longer", .hint = "Try."},
                                      {.hint = "H"}};
    rbt_fiber *fibers[4];
    for (size_t i = 0; i < 4; i++) {
        fibers[i] = make(complain, &complaints[i]);
    }
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < 4; i++) {
            rbt_fiber_resume(fibers[i]);
            assert_string_equal(rbt_last_error(), "outside");
            assert_string_equal(rbt_last_hint(), "Go in.");
        }
    }
    for (size_t i = 0; i < 4; i++) {
        assert_true(rbt_fiber_has_ended(fibers[i]));
        assert_int_equal(complaints[i].wrong, 0);
        rbt_fiber_destroy(fibers[i]);
    }
}

static void yield_often(void *argument)
{
    uint64_t *count = argument;
    while (*count > 0) {
        (*count)--;
        rbt_fiber_yield();
    }
}

static void a_fiber_yields_a_hundred_thousand_times(void **state)
{
    (void)state;
    uint64_t left = 100000;
    uint64_t resumes = 0;
    rbt_fiber *fiber = make(yield_often, &left);
    while (!rbt_fiber_has_ended(fiber)) {
        rbt_fiber_resume(fiber);
        resumes++;
    }
    assert_int_equal(resumes, 100001);
    rbt_fiber_destroy(fiber);
}

static void a_fiber_that_never_ran_can_be_destroyed(void **state)
{
    (void)state;
    rbt_fiber_destroy(make(walk, NULL));
    rbt_fiber_destroy(NULL);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_stack_that_cannot_be_had_is_an_error(void **state)
{
    (void)state;
    rbt_fiber *fiber = NULL;
    assert_fails(rbt_fiber_create(walk, NULL, SIZE_MAX, &fiber), RBT_E_NOMEM, "could not map");
    assert_fails(rbt_fiber_create(walk, NULL, SIZE_MAX / 4, &fiber), RBT_E_NOMEM, "could not map");
    assert_null(fiber);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (unsigned nth = 1;; nth++) { /* ends when nothing is left to fail */
        rbt_fiber *fiber = NULL;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_fiber_create(walk, NULL, 1, &fiber);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_fiber_destroy(fiber);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(fiber);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fiber_goes_on_where_it_stopped),
        cmocka_unit_test(a_fiber_knows_that_it_runs),
        cmocka_unit_test(many_fibers_keep_their_stacks_apart),
        cmocka_unit_test(a_fiber_can_use_its_whole_stack),
        cmocka_unit_test(many_fibers_can_stop_deep_down),
        cmocka_unit_test(a_stack_that_overflows_stops_the_program),
        cmocka_unit_test(errors_of_fibers_do_not_mix),
        cmocka_unit_test(a_fiber_yields_a_hundred_thousand_times),
        cmocka_unit_test(a_fiber_that_never_ran_can_be_destroyed),
        cmocka_unit_test(a_stack_that_cannot_be_had_is_an_error),
        cmocka_unit_test(create_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
