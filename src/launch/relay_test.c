/* launch/relay_test.c - tests of launch/relay.c. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "launch/relay.h"

/* A screen that is a string. */
struct fixture {
    char *text;
    size_t size;
    struct rbt_relay_screen screen;
    struct rbt_relay_record record;
};

static void open_fixture(struct fixture *f, bool is_live)
{
    *f = (struct fixture){0};
    f->screen =
        (struct rbt_relay_screen){.err = open_memstream(&f->text, &f->size), .is_live = is_live};
    assert_non_null(f->screen.err);
}

static void close_fixture(struct fixture *f)
{
    fclose(f->screen.err);
    free(f->text); /* tidy: allow heap, because open_memstream() made it */
}

static void take(struct rbt_relay *relay, const char *text)
{
    rbt_relay_take(relay, text, strlen(text));
}

static void lines_are_whole_and_named(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, false);
    struct rbt_relay relay = {.name = "server/1", .screen = &f.screen, .record = &f.record};
    take(&relay, "he");
    assert_int_equal(f.size, 0);
    take(&relay, "llo\r\n\nsecond\nrest");
    assert_string_equal(f.text, "[server/1] hello\n[server/1] \n[server/1] second\n");
    rbt_relay_finish(&relay);
    assert_non_null(strstr(f.text, "[server/1] rest\n"));
    assert_int_equal(f.record.line_count, 3);
    rbt_relay_deinit(&relay);
    close_fixture(&f);
}

static void complaints_are_kept_back(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, false);
    struct rbt_relay relay = {.screen = &f.screen, .record = &f.record}; /* plain */
    const char *text = "loaded\nrubato: error: no room\nrubato: hint: Make some.\nrubato: ok\n"
                       "rubato: error: second\nrubato: process 4711\n";
    for (const char *c = text; *c != '\0'; c++) {
        rbt_relay_take(&relay, c, 1); /* however it is cut */
    }
    assert_string_equal(f.text, "loaded\nrubato: ok\n");
    assert_string_equal(f.record.error, "no room");
    assert_string_equal(f.record.hint, "Make some.");
    assert_int_equal(f.record.pid, 4711);
    rbt_relay_deinit(&relay);
    close_fixture(&f);
}

static void a_progress_line_goes_through_at_once(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, true);
    struct rbt_relay_record other = {0};
    struct rbt_relay plain = {.screen = &f.screen, .record = &f.record};
    struct rbt_relay named = {.name = "worker/1", .screen = &f.screen, .record = &other};
    take(&plain, "\r\033[Kepoch 1");
    assert_string_equal(f.text, "\r\033[Kepoch 1");
    take(&named, "hm\n");
    assert_string_equal(f.text, "\r\033[Kepoch 1\r\033[K[worker/1] hm\n");
    take(&plain, "\r\033[Kepoch 2");
    take(&plain, "\nrubato: error: interrupted\n");
    assert_string_equal(f.text, "\r\033[Kepoch 1\r\033[K[worker/1] hm\n\r\033[Kepoch 2\n");
    assert_string_equal(f.record.error, "interrupted");
    rbt_relay_deinit(&plain);
    rbt_relay_deinit(&named);
    close_fixture(&f);
}

static void an_open_line_is_ended_where_nothing_redraws(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, false);
    struct rbt_relay plain = {.screen = &f.screen, .record = &f.record};
    struct rbt_relay named = {.name = "worker/1", .screen = &f.screen, .record = &f.record};
    take(&plain, "half");
    take(&named, "hm\n");
    assert_string_equal(f.text, "half\n[worker/1] hm\n");
    rbt_relay_deinit(&plain);
    rbt_relay_deinit(&named);
    close_fixture(&f);
}

static void the_address_is_found(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, false);
    struct rbt_relay relay = {.name = "coordinator", .screen = &f.screen, .record = &f.record};
    take(&relay, "listening on 127.0.0.1:4");
    assert_string_equal(f.record.address, "");
    take(&relay, "711\nlistening on 127.0.0.1:2\n");
    assert_string_equal(f.record.address, "127.0.0.1:4711");
    rbt_relay_deinit(&relay);
    close_fixture(&f);
}

static void the_last_lines_are_remembered(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, false);
    struct rbt_relay relay = {.name = "worker/2", .screen = &f.screen, .record = &f.record};
    struct rbt_text_buffer text = {0};
    rbt_relay_describe(&f.record, &text);
    assert_string_equal(rbt_text_data(&text), "");
    take(&relay, "1\n");
    rbt_relay_describe(&f.record, &text);
    assert_string_equal(rbt_text_data(&text), "; its last line was: 1");
    take(&relay, "2\n3\n4\n5\n");
    rbt_text_clear(&text);
    rbt_relay_describe(&f.record, &text);
    assert_string_equal(rbt_text_data(&text), "; its last lines were: 3 | 4 | 5");
    rbt_text_deinit(&text);
    rbt_relay_deinit(&relay);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_whole_and_named),
        cmocka_unit_test(complaints_are_kept_back),
        cmocka_unit_test(a_progress_line_goes_through_at_once),
        cmocka_unit_test(an_open_line_is_ended_where_nothing_redraws),
        cmocka_unit_test(the_address_is_found),
        cmocka_unit_test(the_last_lines_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
