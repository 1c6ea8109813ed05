/* data/dictionary_test.c - numbers of texts: in order, none twice, and gone when they are rare. */
#include "base/test.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/dictionary.h"

static struct rbt_dictionary_cell cell(size_t column, const char *text)
{
    return (struct rbt_dictionary_cell){.column = column, .text = text, .size = strlen(text)};
}

static void texts_are_numbered_by_column_and_in_order(void **state)
{
    (void)state;
    struct rbt_dictionary dictionary = {0};
    const struct rbt_dictionary_cell cells[] = {cell(0, "a"), cell(1, "a"), cell(0, "b"),
                                                cell(1, "2=a"), cell(12, "a")};
    for (int round = 0; round < 2; round++) { /* nothing is new the second time */
        for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
            assert_ok(rbt_dictionary_add(&dictionary, &cells[i]));
        }
    }
    for (uint32_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        assert_int_equal(rbt_dictionary_find(&dictionary, &cells[i]), i);
    }
    const struct rbt_dictionary_cell other = cell(2, "a");
    assert_int_equal(rbt_dictionary_find(&dictionary, &other), RBT_WORD_NONE);
    rbt_dictionary_free(&dictionary);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void many_texts_never_meet(void **state)
{
    (void)state;
    struct rbt_dictionary dictionary = {0};
    char text[16];
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 50000; i++) {
            (void)snprintf(text, sizeof text, "%x", i / 2);
            const struct rbt_dictionary_cell one = cell(i % 2, text);
            if (round == 0) {
                assert_ok(rbt_dictionary_add(&dictionary, &one));
            }
            assert_int_equal(rbt_dictionary_find(&dictionary, &one), i);
        }
    }
    rbt_dictionary_free(&dictionary);
}

static void rare_texts_are_dropped(void **state)
{
    (void)state;
    struct rbt_dictionary dictionary = {0};
    const struct rbt_dictionary_cell cells[] = {cell(0, "a"), cell(0, "b"), cell(0, "c")};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(rbt_dictionary_add(&dictionary, &cells[i]));
    }
    const uint64_t keys[] = {1, 10, 12, 99}; /* of which two are of words, from 10 on */
    assert_ok(rbt_dictionary_keep(&dictionary, keys, 4, 10));
    assert_int_equal(rbt_dictionary_find(&dictionary, &cells[0]), 0);
    assert_int_equal(rbt_dictionary_find(&dictionary, &cells[1]), RBT_WORD_NONE);
    assert_int_equal(rbt_dictionary_find(&dictionary, &cells[2]), 2);
    rbt_dictionary_free(&dictionary);
}

static void texts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct rbt_dictionary dictionary = {0};
    char text[RBT_DICTIONARY_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    struct rbt_dictionary_cell one = {.column = 3, .text = text, .size = RBT_DICTIONARY_TEXT_MAX};
    assert_ok(rbt_dictionary_add(&dictionary, &one));
    one.size++;
    assert_int_equal(rbt_dictionary_add(&dictionary, &one), RBT_E_DATA);
    assert_int_equal(rbt_dictionary_find(&dictionary, &one), RBT_WORD_NONE);
    text[3] = '\0';
    one.size = 9;
    assert_int_equal(rbt_dictionary_add(&dictionary, &one), RBT_E_DATA);
    rbt_dictionary_free(&dictionary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_numbered_by_column_and_in_order),
        cmocka_unit_test(many_texts_never_meet),
        cmocka_unit_test(rare_texts_are_dropped),
        cmocka_unit_test(texts_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
