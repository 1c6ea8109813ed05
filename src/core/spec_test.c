/* core/spec_test.c - one test per promise of spec.c. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/spec.h"

static const struct rbt_spec plain = {.width = 2, .name = "main/t"};

/* Another value than zero in whatever field this is. */
static void change(struct rbt_spec *spec, const struct rbt_spec_field *field)
{
    char *at = (char *)spec + field->at;
    const double real = 1;
    if (field->sort == RBT_SPEC_REAL) {
        memcpy(at, &real, sizeof real);
    } else if (field->size > 0) {
        *at = 1; /* the low byte, and a text, too */
    }
}

static void tables_differ_in_what_is_their_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < RBT_SPEC_FIELDS; i++) {
        const struct rbt_spec_field *field = &rbt_spec_fields[i];
        struct rbt_spec other = plain;
        change(&other, field);
        assert_int_equal(rbt_spec_is_same(&plain, &other), !field->is_own);
    }
    struct rbt_spec other = plain;
    other.a = -0.0;
    assert_true(rbt_spec_is_same(&plain, &other));
}

/* Every member is listed once, none overlaps another, and what is a table's own is saved. */
static void every_field_is_listed(void **state)
{
    (void)state;
    static char seen[sizeof(struct rbt_spec)];
    size_t left = 0;
    for (size_t i = 0; i < RBT_SPEC_FIELDS; i++) {
        const struct rbt_spec_field *field = &rbt_spec_fields[i];
        for (size_t k = 0; k < field->size; k++) {
            assert_int_equal(seen[field->at + k]++, 0);
        }
        assert_int_equal(field->saved > 0, field->is_own);
    }
    for (size_t i = 0; i < offsetof(struct rbt_spec, code); i++) {
        left += seen[i] == 0;
    }
    assert_true(left < 16); /* what aligns the others */
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    struct rbt_spec ruled = {.width = 1, .name = "t", .rule = "add"};
    struct rbt_spec sparse = {.width = 1, .name = "t", .layout = RBT_SPARSE};
    struct rbt_spec whole = {.width = 1, .name = "t", .type = RBT_I32};
    assert_ok(rbt_spec_check(&plain, RBT_E_INVALID));
    assert_ok(rbt_spec_check(&ruled, RBT_E_INVALID));
    assert_ok(rbt_spec_check(&sparse, RBT_E_INVALID));
    whole.merge = RBT_MERGE_OR;
    assert_ok(rbt_spec_check(&whole, RBT_E_INVALID));
    struct rbt_spec wrong = plain;
    wrong.merge = RBT_MERGE_OR;
    assert_fails(rbt_spec_check(&wrong, RBT_E_INVALID), RBT_E_INVALID,
                 "table \"main/t\": merge \"or\" needs an integer type");
    assert_fails(rbt_spec_check(&wrong, RBT_E_PROTOCOL), RBT_E_PROTOCOL, "merge \"or\"");
    wrong.merge = (rbt_merge)7;
    assert_fails(rbt_spec_check(&wrong, RBT_E_INVALID), RBT_E_INVALID,
                 "table \"main/t\": merge must be from 0 to 3, not 7");
#define WRONG(text, base, ...)                                                                     \
    do {                                                                                           \
        struct rbt_spec spec = base;                                                               \
        spec.__VA_ARGS__;                                                                          \
        assert_fails(rbt_spec_check(&spec, RBT_E_INVALID), RBT_E_INVALID, text);                   \
    } while (0)
    WRONG("width must be from 1 to 2^30", plain, width = 0);
    WRONG("width must be from 1 to 2^30", plain, width = RBT_ROW_WIDTH_MAX + 1);
    WRONG("state_width must be at most 2^30", plain, state_width = RBT_ROW_WIDTH_MAX + 1);
    WRONG("parameters of init must be finite", plain, b = (double)INFINITY);
    WRONG("staleness is negative", plain, staleness = -2);
    WRONG("rows_expected must be below 2^32 - 1", plain, rows_expected = UINT32_MAX);
    WRONG("is_synchronised needs a rule", plain, is_synchronised = true);
    WRONG("init must be zero for sparse rows", sparse, init = RBT_INIT_NORMAL);
    WRONG("state_width must be 0 for sparse rows", sparse, state_width = 1);
    WRONG("merge must be \"add\" or \"or\" for sparse rows", sparse, merge = RBT_MERGE_MIN);
    WRONG("a rule needs dense rows of f32", ruled, type = RBT_F64);
    WRONG("a priority needs dense rows of f32", whole, priority[0] = 'x');
    assert_int_equal(sparse.width, 1);
    sparse.width = UINT32_MAX; /* they have as many elements as they have */
    assert_ok(rbt_spec_check(&sparse, RBT_E_INVALID));
}

static void what_is_saved_is_loaded(void **state)
{
    (void)state;
    struct rbt_spec spec = {0};
    struct rbt_spec loaded;
    for (size_t i = 0; i < RBT_SPEC_FIELDS; i++) {
        change(&spec, &rbt_spec_fields[i]);
    }
    struct rbt_sink sink = {0};
    rbt_sink_begin(&sink, RBT_RECORD_SHARD, 0);
    rbt_sink_open(&sink, 1, 1);
    rbt_spec_save(&spec, &sink);
    rbt_sink_close(&sink);
    assert_ok(rbt_sink_end(&sink));
    struct rbt_source source = {.bytes = sink.bytes, .count = sink.count};
    struct rbt_source_record record;
    uint64_t hash = 1;
    rbt_source_begin(&source, RBT_RECORD_SHARD, &hash);
    assert_true(rbt_source_next(&source, 2, &record));
    rbt_spec_load(&loaded, &source);
    rbt_source_finish(&source);
    assert_true(rbt_source_is_good(&source));
    assert_true(rbt_spec_is_same(&spec, &loaded));
    assert_int_equal(loaded.staleness, 0); /* is not what the table is */
    rbt_source_deinit(&source);
    rbt_sink_deinit(&sink);
}

static void a_copy_needs_memory(void **state)
{
    (void)state;
    rbt_alloc_fail_nth(1);
    assert_null(rbt_spec_copy(&plain));
    rbt_alloc_fail_nth(0);
    assert_non_null(strstr(rbt_last_error(), "main/t"));
    struct rbt_spec *copy = rbt_spec_copy(&plain);
    assert_true(rbt_spec_is_same(copy, &plain));
    rbt_free(copy);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_differ_in_what_is_their_own),
        cmocka_unit_test(every_field_is_listed),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(what_is_saved_is_loaded),
        cmocka_unit_test(a_copy_needs_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
