/* cli/chart.h - what a chart shows, however it is drawn: curves, the range they fill, ticks. */
#ifndef RUBATO_CLI_CHART_H
#define RUBATO_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    RBT_CHART_CURVES_MAX = 64,
    RBT_CHART_TICKS_MAX = 16,
    RBT_CHART_NAME_MAX = 96,
    RBT_CHART_COLOURS = 8, /* beyond that they are repeated */
};

/* Points in the order in which they are joined; all finite. */
struct rbt_chart_curve {
    char name[RBT_CHART_NAME_MAX];
    size_t colour; /* which one; curves of the same run have the same */
    size_t dash;   /* which pattern of dashes, in pictures; 0 is none */
    bool is_plain; /* its points are no measurements: they are not marked */
    double *x;
    double *y;
    size_t count;
};

/* Marks at first, first + step, ..., all within [low, high], the range of the axis; or, if
 * distances are those of log(1 + x), at 0, 1, 3, 10, 30, ... */
struct rbt_chart_axis {
    const char *label;
    double low;
    double high;
    double first;
    double step;
    size_t tick_count;
    bool is_whole; /* there are marks only at whole numbers */
    bool is_log;   /* set by whoever makes the chart; then nothing is below 0 */
};

struct rbt_chart {
    const char *title;
    struct rbt_chart_axis x;
    struct rbt_chart_axis y;
    struct rbt_chart_curve curves[RBT_CHART_CURVES_MAX];
    size_t curve_count;
};

/* Chooses the ranges and ticks so that all points are inside; at least one curve has a point. */
void rbt_chart_fit(struct rbt_chart *chart, size_t x_ticks, size_t y_ticks);

/* The value at tick i of the axis, and as a text with as many digits as the step needs. */
double rbt_chart_mark(const struct rbt_chart_axis *axis, size_t i);
void rbt_chart_tick(const struct rbt_chart_axis *axis, size_t i, char *text, size_t size);

/* Where a value lies on its axis: 0 at low, 1 at high. */
double rbt_chart_position(const struct rbt_chart_axis *axis, double value);

/* How the chart is drawn in a terminal. */
struct rbt_chart_look {
    int width;     /* columns in all */
    int height;    /* rows of the drawing area */
    bool has_utf8; /* braille and lines instead of ASCII */
    bool has_colour;
};

/* Draws with characters. Without colours several curves are told apart by their marks. */
void rbt_chart_draw(const struct rbt_chart *chart, const struct rbt_chart_look *look, FILE *out);

#endif
