/* launch/argv_test.c - tests of launch/argv.c. */
#include "base/test.h"

#include "base/alloc.h"
#include "launch/argv.h"

static void words_end_with_null(void **state)
{
    (void)state;
    struct rbt_argv words = {0};
    for (int i = 0; i < 100; i++) {
        rbt_argv_add(&words, "--n=%d", i);
        assert_null(words.items[words.count]);
    }
    assert_false(words.has_failed);
    assert_int_equal(words.count, 100);
    assert_string_equal(words.items[99], "--n=99");
    rbt_argv_deinit(&words);
}

static void a_text_is_split_at_spaces(void **state)
{
    (void)state;
    struct rbt_argv words = {0};
    rbt_argv_add_split(&words, "  ssh -p  22 ");
    assert_int_equal(words.count, 3);
    assert_string_equal(words.items[0], "ssh");
    assert_string_equal(words.items[2], "22");
    rbt_argv_deinit(&words);
}

static void quotes_survive_a_shell(void **state)
{
    (void)state;
    struct rbt_text_buffer text = {0};
    rbt_argv_quote(&text, "it's $HOME; `a`");
    assert_string_equal(rbt_text_data(&text), "'it'\\''s $HOME; `a`'");
    rbt_text_deinit(&text);
}

static void a_lack_of_memory_is_remembered(void **state)
{
    (void)state;
    const size_t live = rbt_alloc_live();
    for (unsigned nth = 1; nth <= 2; nth++) {
        struct rbt_argv words = {0};
        rbt_alloc_fail_nth(nth);
        rbt_argv_add(&words, "one");
        rbt_alloc_fail_nth(0);
        rbt_argv_add(&words, "two");
        assert_true(words.has_failed);
        rbt_argv_deinit(&words);
    }
    assert_int_equal(rbt_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_end_with_null),
        cmocka_unit_test(a_text_is_split_at_spaces),
        cmocka_unit_test(quotes_survive_a_shell),
        cmocka_unit_test(a_lack_of_memory_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
