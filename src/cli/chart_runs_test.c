/* cli/chart_runs_test.c - what is drawn of a log adds up to what the log says. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/chart_runs.h"

static char path[] = "/tmp/chart_runs_test.XXXXXX";

static void read_text(const char *text, struct rbt_run *run)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_ok(rbt_runs_read(path, run));
}

static struct rbt_chart *make(void)
{
    struct rbt_chart *chart = rbt_calloc(1, sizeof *chart);
    assert_non_null(chart);
    return chart;
}

static void done(struct rbt_chart *chart, struct rbt_run *run)
{
    rbt_chart_free_curves(chart);
    rbt_free(chart);
    rbt_runs_free(run);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* The area below a curve. */
static double area(const struct rbt_chart_curve *curve)
{
    double sum = 0;
    for (size_t i = 1; i < curve->count; i++) {
        sum += (curve->x[i] - curve->x[i - 1]) * (curve->y[i] + curve->y[i - 1]) / 2;
    }
    return sum;
}

static const char steps[] =
    "{\"event\":\"eval\",\"t\":1,\"workers\":2,\"sent\":{\"clock\":1000,\"early\":0},"
    "\"received\":{\"read\":4000}}\n"
    "{\"event\":\"eval\",\"t\":1,\"workers\":2,\"sent\":{\"clock\":1500,\"early\":0},"
    "\"received\":{\"read\":4000}}\n"
    "{\"event\":\"eval\",\"t\":5,\"workers\":2,\"sent\":{\"clock\":9000,\"early\":0},"
    "\"received\":{\"read\":7000}}\n";

static void bandwidth_adds_up_to_the_bytes(void **state)
{
    struct rbt_run run;
    struct rbt_chart *chart = make();
    (void)state;
    read_text(steps, &run);
    const struct rbt_chart_run part = {.run = &run, .x_column = RBT_RUNS_T};
    assert_ok(rbt_chart_add_bandwidth(chart, &part));
    assert_int_equal(chart->curve_count, 2); /* nothing was sent early */
    assert_string_equal(chart->curves[0].name, "updates sent");
    assert_true(fabs(area(&chart->curves[0]) - 9000) < 1e-6);
    assert_true(fabs(area(&chart->curves[1]) - 7000) < 1e-6);
    assert_true(chart->curves[1].y[0] == 4000);
    assert_string_equal(rbt_chart_scale_bytes(chart), "kB/s");
    assert_true(chart->curves[1].y[0] == 4);
    done(chart, &run);
}

/* What was sent between two evaluations that come in a moment belongs to the next step. */
static void a_moment_is_no_step(void **state)
{
    struct rbt_run run;
    struct rbt_chart *chart = make();
    (void)state;
    read_text("{\"event\":\"eval\",\"t\":1,\"workers\":2,\"sent\":{\"clock\":1000},"
              "\"received\":{\"read\":1000}}\n"
              "{\"event\":\"eval\",\"t\":1.0001,\"workers\":2,\"sent\":{\"clock\":3000},"
              "\"received\":{\"read\":1000}}\n"
              "{\"event\":\"eval\",\"t\":5,\"workers\":2,\"sent\":{\"clock\":5000},"
              "\"received\":{\"read\":5000}}\n",
              &run);
    const struct rbt_chart_run part = {.run = &run, .x_column = RBT_RUNS_T};
    assert_ok(rbt_chart_add_bandwidth(chart, &part));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(chart->curves[i].count, 4);
        assert_true(fabs(area(&chart->curves[i]) - 5000) < 1e-6);
        assert_true(chart->curves[i].y[3] == 1000);
    }
    done(chart, &run);
}

/* The figures of all processes come at the end; before, they are those of one. */
static void other_peoples_bytes_are_no_bandwidth(void **state)
{
    struct rbt_run run;
    struct rbt_chart *chart = make();
    char text[1024];
    (void)state;
    snprintf(text, sizeof text, "%s%s", steps,
             "{\"event\":\"eval\",\"t\":6,\"workers\":4,\"sent\":{\"clock\":20000,\"early\":9},"
             "\"received\":{\"read\":15000}}\n");
    read_text(text, &run);
    const struct rbt_chart_run part = {.run = &run, .x_column = RBT_RUNS_T, .name = "a"};
    assert_ok(rbt_chart_add_bandwidth(chart, &part));
    assert_int_equal(chart->curve_count, 2);
    assert_string_equal(chart->curves[1].name, "a: rows received");
    assert_true(fabs(area(&chart->curves[0]) - 9000) < 1e-6);
    done(chart, &run);
}

static void nodes_have_curves_of_their_own(void **state)
{
    struct rbt_run run;
    struct rbt_chart *chart = make();
    (void)state;
    read_text("{\"event\":\"traffic\",\"t\":1,\"node\":\"a\",\"bytes_sent\":10,"
              "\"bytes_received\":0}\n"
              "{\"event\":\"traffic\",\"t\":1,\"node\":\"b\",\"bytes_sent\":2,"
              "\"bytes_received\":3}\n"
              "{\"event\":\"traffic\",\"t\":3,\"node\":\"a\",\"bytes_sent\":50,"
              "\"bytes_received\":0}\n"
              "{\"event\":\"traffic\",\"t\":3,\"node\":\"b\",\"bytes_sent\":2,"
              "\"bytes_received\":9}\n",
              &run);
    const struct rbt_chart_run part = {.run = &run, .x_column = RBT_RUNS_T};
    assert_ok(rbt_chart_add_nodes(chart, &part));
    assert_int_equal(chart->curve_count, 3); /* a receives nothing */
    assert_string_equal(chart->curves[0].name, "a sent");
    assert_string_equal(chart->curves[2].name, "b received");
    assert_true(chart->curves[0].y[2] == 20);
    assert_true(area(&chart->curves[2]) == 9);
    done(chart, &run);
}

static void lags_and_rows_are_shares(void **state)
{
    struct rbt_run run;
    struct rbt_chart *chart = make();
    (void)state;
    read_text("{\"event\":\"eval\",\"lag_counts\":[1,0,1]}\n"
              "{\"event\":\"end\",\"status\":\"ok\",\"summary\":{\"lag_counts\":[6,0,2,\"x\",0],"
              "\"row_sends\":[[0,3],[4,1],[2,9],[\"y\"],7]}}\n",
              &run);
    const struct rbt_chart_run part = {.run = &run, .x_column = RBT_RUNS_T};
    assert_ok(rbt_chart_add_lags(chart, &part));
    assert_int_equal(chart->curves[0].count, 8); /* two bars */
    assert_true(chart->curves[0].y[1] == 0.75);
    assert_true(chart->curves[0].y[5] == 0.25);
    assert_ok(rbt_chart_add_rows(chart, &part));
    assert_int_equal(chart->curve_count, 2);
    const struct rbt_chart_curve *rows = &chart->curves[1];
    assert_int_equal(rows->count, 5); /* what is out of order is left out */
    assert_true(rows->y[2] == 0.75 && rows->x[2] == 0);
    assert_true(rows->y[4] == 1 && rows->x[4] == 4);
    done(chart, &run);
}

static void what_a_log_lacks_is_said(void **state)
{
    struct rbt_run run;
    struct rbt_chart *chart = make();
    (void)state;
    read_text("{\"event\":\"eval\",\"t\":1}\n", &run);
    const struct rbt_chart_run part = {.run = &run, .x_column = RBT_RUNS_T};
    assert_fails(rbt_chart_add_bandwidth(chart, &part), RBT_E_DATA, "no figures about messages");
    assert_fails(rbt_chart_add_nodes(chart, &part), RBT_E_DATA, "no figures about nodes");
    assert_fails(rbt_chart_add_lags(chart, &part), RBT_E_DATA, "no figures about reads");
    assert_fails(rbt_chart_add_rows(chart, &part), RBT_E_DATA, "no figures about rows sent early");
    done(chart, &run);
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
        cmocka_unit_test(bandwidth_adds_up_to_the_bytes),
        cmocka_unit_test(a_moment_is_no_step),
        cmocka_unit_test(other_peoples_bytes_are_no_bandwidth),
        cmocka_unit_test(nodes_have_curves_of_their_own),
        cmocka_unit_test(lags_and_rows_are_shares),
        cmocka_unit_test(what_a_log_lacks_is_said),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
