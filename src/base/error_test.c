/* base/error_test.c - one test per promise of error.c. */
#include "base/test.h"

#include <errno.h>
#include <pthread.h>

#include "base/error.h"

static void fail_returns_its_status_and_keeps_the_message(void **state)
{
    (void)state;
    assert_fails(rbt_fail(RBT_E_BUSY, "%d tickets are open", 64), RBT_E_BUSY, "64 tickets");
    assert_string_equal(rbt_last_error(), "64 tickets are open");
}

static void context_is_put_in_front_from_the_inside_out(void **state)
{
    (void)state;
    (void)rbt_fail(RBT_E_NOMEM, "no space");
    (void)rbt_fail_in(RBT_E_NOMEM, "could not open %s", "a");
    assert_int_equal(rbt_fail_in(RBT_E_NOMEM, "could not start"), RBT_E_NOMEM);
    assert_string_equal(rbt_last_error(), "could not start: could not open a: no space");
}

static void failures_of_the_system_say_why(void **state)
{
    (void)state;
    errno = ENOENT;
    (void)rbt_fail(RBT_E_IO, "could not open it");
    assert_string_equal(rbt_last_error(), "could not open it: No such file or directory");
    errno = ENOENT;
    (void)rbt_fail(RBT_E_INVALID, "no");
    assert_string_equal(rbt_last_error(), "no");
    errno = 0;
    (void)rbt_fail(RBT_E_IO, "closed");
    assert_string_equal(rbt_last_error(), "closed");
}

static void a_hint_belongs_to_one_failure(void **state)
{
    (void)state;
    (void)rbt_fail(RBT_E_INVALID, "no such option");
    assert_int_equal(rbt_fail_hint(RBT_E_INVALID, "Try --%s.", "help"), RBT_E_INVALID);
    assert_string_equal(rbt_last_hint(), "Try --help.");
    (void)rbt_fail_in(RBT_E_INVALID, "line 3"); /* still the same failure */
    assert_string_equal(rbt_last_hint(), "Try --help.");
    (void)rbt_fail(RBT_E_INVALID, "another");
    assert_string_equal(rbt_last_hint(), "");
}

/* Messages of every length around the limit, with context and errno on top. */
static void long_messages_are_cut_off(void **state)
{
    (void)state;
    char text[3 * RBT_ERROR_MAX];
    memset(text, 'x', sizeof text);
    for (size_t length = RBT_ERROR_MAX - 40; length < RBT_ERROR_MAX + 40; length++) {
        text[length] = '\0';
        errno = EACCES;
        (void)rbt_fail(RBT_E_IO, "%s", text);
        assert_true(strlen(rbt_last_error()) < RBT_ERROR_MAX);
        assert_memory_equal(rbt_last_error(), text, RBT_ERROR_MAX - 41);
        (void)rbt_fail_in(RBT_E_IO, "%s", text);
        assert_true(strlen(rbt_last_error()) < RBT_ERROR_MAX);
        (void)rbt_fail_in(RBT_E_IO, "short");
        assert_true(strlen(rbt_last_error()) < RBT_ERROR_MAX);
        assert_memory_equal(rbt_last_error(), "short: xxxx", 11);
        (void)rbt_fail_hint(RBT_E_IO, "%s", text);
        assert_true(strlen(rbt_last_hint()) < RBT_ERROR_MAX);
        text[length] = 'x';
    }
}

static void *fail_elsewhere(void *record)
{
    (void)rbt_fail(RBT_E_BUSY, "elsewhere");
    (void)rbt_fail_hint(RBT_E_BUSY, "Look there.");
    rbt_error_save(record);
    return NULL;
}

static void records_belong_to_a_thread_and_can_be_carried_over(void **state)
{
    (void)state;
    struct rbt_error_record record;
    pthread_t thread;
    (void)rbt_fail(RBT_E_BUSY, "here");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &record), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(rbt_last_error(), "here");
    rbt_error_restore(&record);
    assert_string_equal(rbt_last_error(), "elsewhere");
    assert_string_equal(rbt_last_hint(), "Look there.");
}

static void every_status_has_a_text(void **state)
{
    (void)state;
#define X(name, value, text) assert_string_equal(rbt_status_text(RBT_##name), text);
    RBT_STATUS_LIST(X)
#undef X
    const int unknown = 9999;
    assert_string_equal(rbt_status_text((rbt_status)unknown), "an unrecognised status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_returns_its_status_and_keeps_the_message),
        cmocka_unit_test(context_is_put_in_front_from_the_inside_out),
        cmocka_unit_test(failures_of_the_system_say_why),
        cmocka_unit_test(a_hint_belongs_to_one_failure),
        cmocka_unit_test(long_messages_are_cut_off),
        cmocka_unit_test(records_belong_to_a_thread_and_can_be_carried_over),
        cmocka_unit_test(every_status_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
