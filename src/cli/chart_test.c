/* cli/chart_test.c - ranges, ticks and drawings of charts. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/chart.h"
#include "cli/progress.h"
#include "cli/svg.h"

static double xs[] = {1, 2, 3, 4, 5};
static double ys[] = {0.69, 0.5, 0.42, 0.38, 0.36};

/* A chart of one or two curves. */
static struct rbt_chart *make(size_t curve_count)
{
    struct rbt_chart *chart = calloc(1, sizeof *chart);
    assert_non_null(chart);
    chart->title = "a < b";
    chart->x.label = "epoch";
    chart->y.label = "objective";
    for (size_t i = 0; i < curve_count; i++) {
        struct rbt_chart_curve *curve = &chart->curves[chart->curve_count++];
        snprintf(curve->name, sizeof curve->name, "run %zu", i);
        curve->x = xs;
        curve->y = ys;
        curve->count = 5;
    }
    rbt_chart_fit(chart, 7, 6);
    return chart;
}

static void ticks_are_round_and_cover_the_values(void **state)
{
    (void)state;
    struct rbt_chart *chart = make(1);
    char text[32];
    assert_true(chart->y.low <= 0.36 && chart->y.high >= 0.69);
    assert_true(chart->x.low == 0 && chart->x.high == 5);
    rbt_chart_tick(&chart->x, 0, text, sizeof text);
    assert_string_equal(text, "0");
    rbt_chart_tick(&chart->y, 0, text, sizeof text);
    assert_string_equal(text, "0.3");
    free(chart);
}

static void one_value_gets_room(void **state)
{
    (void)state;
    struct rbt_chart *chart = make(1);
    chart->curves[0].count = 1;
    rbt_chart_fit(chart, 7, 6);
    assert_true(chart->x.low < 1 && chart->x.high > 1);
    assert_true(chart->y.low < 0.69 && chart->y.high > 0.69);
    assert_true(chart->x.tick_count >= 2);
    free(chart);
}

/* Draws into `text` and returns the longest line in characters. */
static size_t draw(const struct rbt_chart *chart, bool has_utf8, char *text, size_t size)
{
    const struct rbt_chart_look look = {.width = 80, .height = 12, .has_utf8 = has_utf8};
    FILE *out = fmemopen(text, size, "w");
    rbt_chart_draw(chart, &look, out);
    fclose(out);
    size_t longest = 0;
    size_t length = 0;
    for (const char *c = text; *c != '\0'; c++) {
        length = *c == '\n' ? 0 : length + (((unsigned char)*c & 0xC0) != 0x80 ? 1 : 0);
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void drawings_fit_the_terminal(void **state)
{
    (void)state;
    static char text[65536];
    struct rbt_chart *chart = make(2);
    assert_true(draw(chart, false, text, sizeof text) <= 80);
    assert_non_null(strchr(text, '+')); /* the mark of the second curve */
    assert_non_null(strstr(text, "run 1"));
    for (const char *c = text; *c != '\0'; c++) {
        assert_true((unsigned char)*c < 0x80);
    }
    chart->curve_count = 1;
    assert_true(draw(chart, true, text, sizeof text) <= 80);
    assert_non_null(strstr(text, "\xE2\xA0")); /* braille */
    free(chart);
}

static void svg_escapes_texts(void **state)
{
    (void)state;
    static char text[65536];
    struct rbt_chart *chart = make(12);
    FILE *out = fmemopen(text, sizeof text, "w");
    rbt_svg_write(chart, out);
    fclose(out);
    assert_non_null(strstr(text, "a &lt; b"));
    assert_non_null(strstr(text, "run 11"));
    assert_non_null(strstr(text, "</svg>"));
    free(chart);
}

static void sparklines_scale_and_thin_out(void **state)
{
    (void)state;
    static const double values[] = {7, 6, 5, 4, 3, 2, 1, 0};
    char text[64];
    rbt_progress_sparkline(values, 8, 16, false, text);
    assert_string_equal(text, "76543210");
    rbt_progress_sparkline(values, 8, 2, false, text);
    assert_string_equal(text, "70");
    rbt_progress_sparkline(values, 1, 8, true, text);
    assert_string_equal(text, "\xE2\x96\x81");
    rbt_progress_sparkline(values, 0, 8, true, text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round_and_cover_the_values),
        cmocka_unit_test(one_value_gets_room),
        cmocka_unit_test(drawings_fit_the_terminal),
        cmocka_unit_test(svg_escapes_texts),
        cmocka_unit_test(sparklines_scale_and_thin_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
