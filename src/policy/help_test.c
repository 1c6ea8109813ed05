/* policy/help_test.c - what a page of help looks like, and that all that it says is whole. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "policy/filter/filter.h"
#include "policy/help.h"
#include "policy/priority/priority.h"
#include "policy/rule/rule.h"

static const struct rbt_policy_kind *const kinds[] = {&rbt_policy_rules, &rbt_policy_filters,
                                                      &rbt_policy_priorities};

/* --- A page ---------------------------------------------------------------------------------- */

static const struct rbt_policy_head plain_head = {.name = "plain", .summary = "Does little."};
static const struct rbt_policy_head rich_head = {
    .name = "rich",
    .summary = "Does so much that a line of a terminal cannot hold the sentence that says it."};
static const struct rbt_policy_parameter parameters[] = {
    {"lr", "the step size", .fallback = 0.1},
    {"T", "must be given", .is_required = true},
    {"factor", "with a name and a value that leave little room for what there is to say about it",
     .usual = "1/workers"},
    {.name = NULL}};
static const struct rbt_policy_parameter common[] = {{"all", "of each", .fallback = 1e-12},
                                                     {.name = NULL}};
static const struct rbt_policy plain = {.code = &plain_head};
static const struct rbt_policy rich = {
    .code = &rich_head, .choose = "Seldom.", .formula = "w += u", .parameters = parameters};
static const struct rbt_policy *const all[] = {&plain, &rich, NULL};

static void print_title(FILE *out, const struct rbt_policy *policy)
{
    fprintf(out, ", is %s", policy == &plain ? "first" : "last");
}

static const struct rbt_policy_kind kind = {.plugin = {.what = "thing"},
                                            .all = all,
                                            .before = "Before.\n",
                                            .after = "\nAfter.\n",
                                            .print_title = print_title,
                                            .common = common};

static void a_page_has_its_policies_between_its_words(void **state)
{
    (void)state;
    static const char expected[] =
        "Before.\n"
        "\n"
        "plain, is first\n"
        "    Does little.\n"
        "\n"
        "rich, is last\n"
        "    Does so much that a line of a terminal cannot hold the sentence that says\n"
        "    it.\n"
        "    Seldom.\n"
        "    w += u\n"
        "    lr=0.1        the step size\n"
        "    T             must be given\n"
        "    factor=1/workers  with a name and a value that leave little room for what\n"
        "                      there is to say about it\n"
        "\n"
        "Every thing\n"
        "    all=1e-12     of each\n"
        "\n"
        "After.\n";
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    rbt_policy_help(out, &kind);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text); /* tidy: allow heap, because open_memstream() made it */
}

/* --- What the pages say ---------------------------------------------------------------------- */

static void parameters_are_whole(const struct rbt_policy_parameter *at, size_t size_max)
{
    for (; at != NULL && at->name != NULL; at++) {
        assert_true(strlen(at->help) > 0);
        assert_true(strlen(at->help) <= size_max);
        assert_int_not_equal(at->help[strlen(at->help) - 1], '.');
    }
}

static void policies_are_told_of_in_sentences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        parameters_are_whole(kinds[i]->common, 80); /* on two lines */
        for (const struct rbt_policy *const *at = kinds[i]->all; *at != NULL; at++) {
            const struct rbt_policy_head *head = (*at)->code;
            const char *choose = (*at)->choose;
            assert_int_equal(head->summary[strlen(head->summary) - 1], '.');
            assert_true(strlen(head->summary) <= 90);
            assert_true((*at)->formula == NULL || strlen((*at)->formula) <= 76); /* one line */
            parameters_are_whole((*at)->parameters, 64);
            assert_true(choose == NULL || strlen(choose) <= 160); /* two lines */
            assert_true(choose == NULL || choose[strlen(choose) - 1] == '.');
            assert_true(choose != NULL || kinds[i] == &rbt_policy_priorities);
            assert_true((*at)->formula != NULL || kinds[i] != &rbt_policy_rules);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_has_its_policies_between_its_words),
        cmocka_unit_test(policies_are_told_of_in_sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
