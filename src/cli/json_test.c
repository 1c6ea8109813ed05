/* cli/json_test.c - one test per promise of json.h. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>

#include "cli/json.h"

static void a_document_is_one_line(void **state)
{
    (void)state;
    char text[256] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    struct rbt_json json = {0};
    rbt_json_begin(&json, NULL, '{');
    rbt_json_int(&json, "a", -1);
    rbt_json_begin(&json, "list", '[');
    rbt_json_real(&json, NULL, 0.5);
    rbt_json_flag(&json, NULL, true);
    rbt_json_end(&json, ']');
    rbt_json_begin(&json, "empty", '{');
    rbt_json_end(&json, '}');
    rbt_json_count(&json, "n", UINT64_MAX);
    rbt_json_end(&json, '}');
    assert_ok(rbt_json_print(&json, out));
    rbt_json_begin(&json, NULL, '{');
    rbt_json_end(&json, '}');
    assert_ok(rbt_json_print(&json, out));
    rbt_json_deinit(&json);
    fclose(out);
    assert_string_equal(
        text, "{\"a\":-1,\"list\":[0.5,true],\"empty\":{},\"n\":18446744073709551615}\n{}\n");
}

static void strings_are_escaped(void **state)
{
    (void)state;
    struct rbt_json json = {0};
    rbt_json_begin(&json, NULL, '[');
    rbt_json_text(&json, NULL, "q\" b\\ n\n t\t c\x01 \xC3\xA4 \xFF");
    rbt_json_text(&json, NULL, NULL);
    rbt_json_end(&json, ']');
    assert_string_equal(rbt_text_data(&json.text),
                        "[\"q\\\" b\\\\ n\\n t\\t c\\u0001 \xC3\xA4 \\ufffd\",null]");
    rbt_json_deinit(&json);
}

static void what_json_has_no_number_for_is_null(void **state)
{
    (void)state;
    struct rbt_json json = {0};
    rbt_json_begin(&json, NULL, '[');
    rbt_json_real(&json, NULL, NAN);
    rbt_json_real(&json, NULL, -INFINITY);
    rbt_json_real(&json, NULL, 10);
    rbt_json_real(&json, NULL, 1e20);
    rbt_json_end(&json, ']');
    assert_string_equal(rbt_text_data(&json.text), "[null,null,10,1e+20]");
    rbt_json_deinit(&json);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    FILE *out = fopen("/dev/full", "w");
    if (out == NULL) {
        skip();
    }
    struct rbt_json json = {0};
    rbt_json_begin(&json, NULL, '{');
    rbt_json_end(&json, '}');
    assert_fails(rbt_json_print(&json, out), RBT_E_IO, "No space left on device");
    rbt_json_deinit(&json);
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_one_line),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(what_json_has_no_number_for_is_null),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
