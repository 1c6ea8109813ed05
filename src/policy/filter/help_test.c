/* policy/filter/help_test.c - help tells of every argument that a filter takes, and of no other,
 * with the value that it has when it is not given. */
#include "policy/filter/filter_rig.h"

#include <stdio.h>

#include "policy/filter/filter.h"

/* A text with the first `count` arguments, which have values that all filters take. */
static rbt_status try_with(const struct rbt_filter_entry *entry, size_t count)
{
    char text[64];
    int used = snprintf(text, sizeof text, "%s", entry->name);
    for (size_t i = 0; i < count; i++) {
        const struct rbt_filter_parameter *parameter = &entry->parameters[i];
        const char *value = parameter->value != NULL            ? parameter->value
                            : strcmp(parameter->name, "N") == 0 ? "8"
                                                                : "0.5";
        used += snprintf(text + used, sizeof text - (size_t)used, ":%s", value);
    }
    const struct rbt_chain_options options = rig_options(text, RBT_FILTER_PUSH);
    return rbt_chain_check(&options, NULL);
}

static void help_knows_the_arguments_of_every_filter(void **state)
{
    (void)state;
    for (const struct rbt_filter_entry *entry = rbt_filter_all; entry->name != NULL; entry++) {
        struct rbt_filter_entry one_more = *entry;
        struct rbt_filter_parameter parameters[8] = {{NULL, NULL, NULL}};
        size_t count = 0;
        size_t required = 0;
        while (entry->parameters[count].name != NULL) {
            parameters[count] = entry->parameters[count];
            required += parameters[count].value == NULL;
            count++;
        }
        for (size_t given = 0; given <= count; given++) {
            assert_int_equal(try_with(entry, given), given < required ? RBT_E_INVALID : RBT_OK);
        }
        parameters[count] = (struct rbt_filter_parameter){"one more", "1", ""};
        one_more.parameters = parameters;
        assert_int_equal(try_with(&one_more, count + 1), RBT_E_INVALID);
        assert_non_null(strstr(rbt_last_error(), "number"));
    }
}

static void help_has_sentences(void **state)
{
    (void)state;
    for (const struct rbt_filter_entry *entry = rbt_filter_all; entry->name != NULL; entry++) {
        assert_int_equal(entry->does[strlen(entry->does) - 1], '.');
        assert_int_equal(entry->choose[strlen(entry->choose) - 1], '.');
        assert_true(strlen(entry->does) <= 80);
        assert_true(strlen(entry->choose) <= 160); /* two lines */
        assert_true(strlen(entry->formula) <= 72);
        for (const struct rbt_filter_parameter *at = entry->parameters; at->name != NULL; at++) {
            assert_true(strlen(at->help) > 0);
            assert_true(strlen(at->help) <= 64);
            assert_int_not_equal(at->help[strlen(at->help) - 1], '.');
        }
    }
}

static void kinds_and_directions_have_names(void **state)
{
    (void)state;
    for (const struct rbt_filter_entry *entry = rbt_filter_all; entry->name != NULL; entry++) {
        const char *kind = rbt_filter_kind_name(entry);
        const rbt_filter_use use = rbt_filter_use_of(entry);
        assert_int_equal(strlen(kind) == 0, entry->trait != RBT_TRAIT_NONE);
        if (strcmp(entry->name, "zeros") == 0 || strcmp(entry->name, "kkt") == 0) {
            assert_int_equal(use, RBT_FILTER_FOR_PUSH);
        }
        if (strcmp(entry->name, "changed") == 0) {
            assert_int_equal(use, RBT_FILTER_FOR_PULL);
        }
        if (strcmp(entry->name, "lz4") == 0) {
            assert_string_equal(kind, "pack");
            assert_int_equal(use, RBT_FILTER_FOR_BOTH);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_knows_the_arguments_of_every_filter),
        cmocka_unit_test(help_has_sentences),
        cmocka_unit_test(kinds_and_directions_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
