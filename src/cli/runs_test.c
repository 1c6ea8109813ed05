/* cli/runs_test.c - logs that are whole, cut off or no logs at all. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "cli/runs.h"

static char path[] = "/tmp/runs_test.XXXXXX";

/* Reads a log with this text. */
static rbt_status read_text(const char *text, struct rbt_run *run)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return rbt_runs_read(path, run);
}

static void a_log_is_read(void **state)
{
    (void)state;
    struct rbt_run run;
    assert_ok(read_text("{\"event\":\"start\",\"version\":\"1\",\"argv\":[\"rubato\",\"train\"]}\n"
                        "{\"event\":\"node\",\"t\":1}\n\n"
                        "{\"event\":\"eval\",\"t\":1,\"epoch\":1,\"objective\":0.5,"
                        "\"eval\":{\"auc\":0.7}}\n"
                        "{\"event\":\"eval\",\"t\":2,\"epoch\":2,\"objective\":null}\n"
                        "{\"event\":\"end\",\"status\":\"ok\"}\n",
                        &run));
    assert_string_equal(rbt_text_data(&run.command), "rubato train");
    assert_string_equal(run.status, "ok");
    assert_int_equal(run.row_count, 2);
    assert_true(rbt_runs_value(&run, 0, rbt_runs_column(&run, "auc")) == 0.7);
    assert_true(isnan(rbt_runs_value(&run, 1, rbt_runs_column(&run, "auc"))));
    assert_true(isnan(rbt_runs_value(&run, 1, RBT_RUNS_OBJECTIVE)));
    assert_int_equal(rbt_runs_column(&run, "rmse"), -1);
    rbt_runs_free(&run);
}

static void a_cut_last_line_is_left_out(void **state)
{
    (void)state;
    struct rbt_run run;
    assert_ok(read_text("{\"event\":\"eval\",\"t\":1}\n{\"event\":\"eval\",\"t\":", &run));
    assert_int_equal(run.row_count, 1);
    assert_true(run.is_cut);
    rbt_runs_free(&run);
}

static void what_is_no_log_is_refused_with_its_line(void **state)
{
    (void)state;
    struct rbt_run run;
    assert_fails(read_text("{\"event\":\"start\"}\n\nhello\n{\"event\":\"end\"}\n", &run),
                 RBT_E_DATA, "line 3: this is not a JSON object");
    assert_fails(read_text("[1,2]\n", &run), RBT_E_DATA, "line 1: this is not a JSON object");
    assert_fails(read_text("{\"a\":1}\n", &run), RBT_E_DATA, "line 1: this is not an event");
    assert_fails(read_text("\x01\x02", &run), RBT_E_DATA, "line 1: this is not a JSON object");
    assert_fails(read_text("", &run), RBT_E_DATA, "it is empty");
    assert_fails(rbt_runs_read("/nowhere/x.jsonl", &run), RBT_E_NOTFOUND, "no such file");
    assert_int_equal(rbt_alloc_live(), 0);
}

static void every_failed_system_call_is_told(void **state)
{
    (void)state;
    struct rbt_run run;
    assert_ok(read_text("{\"event\":\"eval\",\"t\":1}\n", &run));
    rbt_runs_free(&run);
    for (unsigned nth = 1;; nth++) {
        (void)rbt_io_fail_nth(nth);
        const rbt_status st = rbt_runs_read(path, &run);
        if (rbt_io_fail_nth(0) > 0) {
            assert_true(nth > 3); /* open, stat, read */
            assert_ok(st);
            rbt_runs_free(&run);
            break;
        }
        assert_fails(st, RBT_E_IO, "cannot read \"/tmp/runs_test.");
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

static void many_metrics_and_rows_are_survived(void **state)
{
    (void)state;
    struct rbt_text_buffer text = {0};
    for (int i = 0; i < 200; i++) {
        rbt_text_add(&text, "{\"event\":\"eval\",\"t\":%d,\"eval\":{\"m%d\":1,\"t\":5}}\n", i, i);
    }
    struct rbt_run run;
    assert_ok(read_text(rbt_text_data(&text), &run));
    assert_int_equal(run.row_count, 200);
    assert_int_equal(run.column_count, RBT_RUNS_COLUMNS_MAX);
    assert_true(rbt_runs_value(&run, 199, RBT_RUNS_T) == 199);
    rbt_runs_free(&run);
    rbt_text_deinit(&text);
    assert_int_equal(rbt_alloc_live(), 0);
}

static int make_path(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_is_read),
        cmocka_unit_test(a_cut_last_line_is_left_out),
        cmocka_unit_test(what_is_no_log_is_refused_with_its_line),
        cmocka_unit_test(every_failed_system_call_is_told),
        cmocka_unit_test(many_metrics_and_rows_are_survived),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
