/* policy/filter/filter_test.c - filters by their text, and users' filters from shared objects:
 * those that fit work in chains, and the others are refused with a sentence. Arguments: the folder
 * with the cases (test/filters), and the example. */
#include "base/limits.h"
#include "policy/plugin_rig.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "policy/filter/filter.h"
#include "policy/filter/filter_rig.h"

static void pieces_are_read_one_after_the_other(void **state)
{
    (void)state;
    const char *text = "push.fixed:8,pull.f16,kkt:0.5:1e-3:7,lz4";
    struct rbt_filter_item item;
    assert_ok(rbt_filter_parse(&text, &item));
    assert_string_equal(item.name, "fixed");
    assert_string_equal(text, "pull.f16,kkt:0.5:1e-3:7,lz4");
    assert_true(item.is_for_push && !item.is_for_pull && item.argument_count == 1);
    assert_true(item.arguments[0] == 8);
    assert_ok(rbt_filter_parse(&text, &item));
    assert_true(!item.is_for_push && item.is_for_pull && item.argument_count == 0);
    assert_ok(rbt_filter_parse(&text, &item));
    assert_true(item.is_for_push && !item.is_for_pull && item.argument_count == 3);
    assert_true(item.arguments[1] == 1e-3 && item.arguments[2] == 7);
    assert_ok(rbt_filter_parse(&text, &item));
    assert_true(item.is_for_push && item.is_for_pull);
    assert_string_equal(text, "");
}

static void all_names_are_found_and_whole(void **state)
{
    (void)state;
    for (const struct rbt_policy *const *at = rbt_policy_filters.all; *at != NULL; at++) {
        const struct rbt_filter *filter = (*at)->code;
        struct rbt_filter_item item;
        const char *text = filter->name;
        assert_ok(rbt_filter_parse(&text, &item));
        assert_int_equal(item.trait, rbt_filter_trait(*at));
        assert_int_equal(item.filter == NULL, item.trait != RBT_TRAIT_NONE);
        assert_int_equal(filter->summary[strlen(filter->summary) - 1], '.');
        if (item.filter != NULL) {
            assert_ptr_equal(item.filter, filter);
            assert_int_equal(filter->abi, RBT_FILTER_ABI);
            assert_int_equal(filter->struct_size, sizeof *filter);
        }
    }
}

/* A text with the first `count` arguments, which have values that all filters take. */
static rbt_status try_with(const struct rbt_policy *policy, size_t count)
{
    char text[64];
    int used = snprintf(text, sizeof text, "%s", rbt_policy_name(policy));
    for (size_t i = 0; i < count; i++) {
        const struct rbt_policy_parameter *parameter = &policy->parameters[i];
        const bool is_count = strcmp(parameter->name, "N") == 0;
        const double value = !parameter->is_required ? parameter->fallback : is_count ? 8 : 0.5;
        used += snprintf(text + used, sizeof text - (size_t)used, ":%g", value);
    }
    const struct rbt_chain_options options = rig_options(text, RBT_FILTER_PUSH);
    return rbt_chain_check(&options, NULL);
}

static void help_knows_the_arguments_of_every_filter(void **state)
{
    (void)state;
    for (const struct rbt_policy *const *at = rbt_policy_filters.all; *at != NULL; at++) {
        const struct rbt_policy_parameter *own = (*at)->parameters;
        struct rbt_policy one_more = **at;
        struct rbt_policy_parameter parameters[8] = {{.name = NULL}};
        size_t count = 0;
        size_t required = 0;
        for (; own != NULL && own[count].name != NULL; count++) {
            parameters[count] = own[count];
            required += own[count].is_required;
        }
        for (size_t given = 0; given <= count; given++) {
            assert_int_equal(try_with(*at, given), given < required ? RBT_E_INVALID : RBT_OK);
        }
        parameters[count] = (struct rbt_policy_parameter){.name = "one more", .fallback = 1};
        one_more.parameters = parameters;
        assert_int_equal(try_with(&one_more, count + 1), RBT_E_INVALID);
        assert_non_null(strstr(rbt_last_error(), "number"));
    }
}

static void traits_and_directions_are_known(void **state)
{
    (void)state;
    for (const struct rbt_policy *const *at = rbt_policy_filters.all; *at != NULL; at++) {
        const struct rbt_filter *filter = (*at)->code;
        const char *name = rbt_policy_name(*at);
        const bool is_trait =
            strcmp(name, "none") == 0 || strcmp(name, "keys") == 0 || strcmp(name, "zeros") == 0;
        assert_int_equal(is_trait, rbt_filter_trait(*at) != RBT_TRAIT_NONE);
        if (strcmp(name, "zeros") == 0 || strcmp(name, "kkt") == 0) {
            assert_int_equal(filter->use, RBT_FILTER_FOR_PUSH);
        }
        if (strcmp(name, "changed") == 0) {
            assert_int_equal(filter->use, RBT_FILTER_FOR_PULL);
        }
        if (strcmp(name, "lz4") == 0) {
            assert_int_equal(filter->kind, RBT_FILTER_PACK);
            assert_int_equal(filter->use, RBT_FILTER_FOR_BOTH);
        }
    }
}

static rbt_status find(const char *text)
{
    const struct rbt_chain_options options = rig_options(text, RBT_FILTER_PUSH);
    return rbt_chain_check(&options, NULL);
}

static void what_does_not_fit_is_refused_with_one_sentence(void **state)
{
    (void)state;
    static const struct rig_case cases[] = {
        {"missing.so", "cannot find the filter \"", "It must be at this path on every host"},
        {"case_abi.so", "is built for version 99 of the interface, but this program has version 1",
         "Rebuild it with this version's rubato/filter.h."},
        {"case_size.so", "has a struct_size of 16, but needs at least",
         "Set .struct_size = sizeof rbt_filter"},
        {"case_name.so", "case_name.so\" has no name", ""},
        {"case_kind.so", "has no kind that this version knows", ""},
        {"case_no_select.so", "has no select function", ""},
        {"case_no_round.so", "has no round function", ""},
        {"case_no_encode.so", "has no encode function", ""},
        {"case_no_decode.so", "has no decode function", ""},
        {"case_no_pack.so", "has no pack function", ""},
        {"case_no_unpack.so", "has no unpack function", ""},
        {"case_symbol.so", "is not a filter: it has no symbol \"rbt_filter\"", "It should define"},
        {"case_select.so:3", "takes no numbers", ""},
        {"case_silent.so:3", "case_silent.so\": the operating system reported an error", ""},
    };
    rig_refuses(find, cases, sizeof cases / sizeof cases[0]);
}

/* All three kinds at once: positive ones, as signs, and then all bytes are equal. */
static void users_filters_work_in_chains(void **state)
{
    (void)state;
    char text[RBT_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s/case_select.so,push.%s/case_round.so,%s/case_pack.so",
                   rig_folder, rig_folder, rig_folder);
    struct rig *rig = rig_open(text, RBT_FILTER_PUSH, 2000);
    for (size_t i = 0; i < 2000; i++) {
        rig->values[i] = i % 2 == 0 ? -3 : 4;
    }
    rig_apply(rig);
    assert_true(!rig->keep[0] && rig->keep[1]);
    assert_true(rig->values[0] == 0 && rig->values[1] == 0.5F);
    assert_int_equal(rig->code.bits, 1);
    assert_int_equal(rig_deliver(rig), 1 + 5 + 250 + 125);
    for (size_t i = 0; i < 2000; i++) {
        rig->values[i] = rig_float(0x01010101);
    }
    rig_apply(rig);
    rig->code.bits = 32;
    for (size_t i = 0; i < 2000; i++) {
        rig->values[i] = rig_float(0x01010101);
    }
    assert_int_equal(rig_deliver(rig), 1 + 4 + 1);
    rig_close(rig);
}

static void codes_that_are_too_wide_are_refused(void **state)
{
    (void)state;
    struct rig *rig = rig_open(rig_path("case_wide.so"), RBT_FILTER_PULL, 1);
    assert_fails(rbt_chain_apply(rig->chain, &rig->rows, &rig->code), RBT_E_INVALID,
                 "filter \"mine\": a code has 1 to 32 bits, not 33");
    rig_close(rig);
}

static void the_example_lets_whole_rows_wait(void **state)
{
    (void)state;
    char text[RBT_TEXT_MAX];
    (void)snprintf(text, sizeof text, "%s:0.5,lz4", rig_example);
    struct rig *rig = rig_open(text, RBT_FILTER_PUSH, 6);
    static const float updates[6] = {0.1F, -0.6F, 0, 0.4F, -0.4F, 0.1F};
    rig->rows.row_count = 2;
    rig->rows.width = 3;
    memcpy(rig->values, updates, sizeof updates);
    rig_apply(rig);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(rig->keep[i], i < 3);
        assert_true(rig->values[i] == updates[i]);
    }
    rig_close(rig);
    (void)snprintf(text, sizeof text, "%s:-1", rig_example);
    assert_fails(find(text), RBT_E_INVALID, "one positive number is needed");
}

static void paths_become_absolute(void **state)
{
    (void)state;
    char to[RBT_TEXT_MAX];
    char here[PATH_MAX];
    char file[] = "filter-XXXXXX";
    char text[RBT_TEXT_MAX];
    char expected[2 * PATH_MAX + 64];
    assert_ok(rbt_policy_resolve(&rbt_policy_filters, "keys,push.fixed:8,lz4", to));
    assert_string_equal(to, "keys,push.fixed:8,lz4");
    assert_ok(rbt_policy_resolve(&rbt_policy_filters, "", to));
    assert_string_equal(to, "");
    const int fd = mkstemp(file);
    assert_true(fd >= 0);
    close(fd);
    assert_non_null(realpath(".", here));
    (void)snprintf(text, sizeof text, "keys,push../%s:1:2,./%s,lz4", file, file);
    (void)snprintf(expected, sizeof expected, "keys,push.%s/%s:1:2,%s/%s,lz4", here, file, here,
                   file);
    const rbt_status st = rbt_policy_resolve(&rbt_policy_filters, text, to);
    unlink(file);
    assert_ok(st);
    assert_string_equal(to, expected);
    assert_fails(rbt_policy_resolve(&rbt_policy_filters, text, to), RBT_E_INVALID,
                 "cannot find the filter \"./filter-");
}

static void texts_that_are_too_long_are_refused(void **state)
{
    (void)state;
    char text[RBT_TEXT_MAX + 1];
    char to[RBT_TEXT_MAX];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_fails(rbt_policy_resolve(&rbt_policy_filters, text, to), RBT_E_INVALID,
                 "at most 1023 bytes, not 1024");
    assert_fails(find(text), RBT_E_INVALID, "at most 1023 bytes, not 1024");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_read_one_after_the_other),
        cmocka_unit_test(all_names_are_found_and_whole),
        cmocka_unit_test(help_knows_the_arguments_of_every_filter),
        cmocka_unit_test(traits_and_directions_are_known),
        cmocka_unit_test(what_does_not_fit_is_refused_with_one_sentence),
        cmocka_unit_test(users_filters_work_in_chains),
        cmocka_unit_test(codes_that_are_too_wide_are_refused),
        cmocka_unit_test(the_example_lets_whole_rows_wait),
        cmocka_unit_test(paths_become_absolute),
        cmocka_unit_test(texts_that_are_too_long_are_refused),
    };
    const int wrong = rig_arguments(argc, argv);
    return wrong != 0 ? wrong : cmocka_run_group_tests(tests, NULL, NULL);
}
