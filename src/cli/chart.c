/* cli/chart.c - ranges and ticks of charts, and charts made of characters.
 *
 * The terminal drawing has a canvas of dots. With UTF-8 a character is a braille pattern of 2 by 4
 * dots; without, or when several curves must be told apart without colours, it is one dot, shown as
 * the mark of the curve. Curves are drawn in order, the later ones on top. */
#include "cli/chart.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

/* Extends the range by the curve's values. */
static void extend(struct rbt_chart_axis *axis, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        axis->low = fmin(axis->low, values[i]);
        axis->high = fmax(axis->high, values[i]);
    }
}

/* Chooses a step of 1, 2 or 5 times a power of ten that gives about `ticks` marks. */
static void choose_ticks(struct rbt_chart_axis *axis, size_t ticks, bool is_rounded)
{
    if (!(axis->high > axis->low)) { /* one value: give it room */
        const double room = axis->low == 0 ? 1 : fabs(axis->low) * 0.1;
        axis->low -= room;
        axis->high += room;
    }
    const double raw = (axis->high - axis->low) / (double)ticks;
    const double power = pow(10, floor(log10(raw)));
    const double ratio = raw / power;
    axis->step = (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10) * power;
    axis->step = axis->is_whole && axis->step < 1 ? 1 : axis->step;
    if (is_rounded) {
        axis->low = floor(axis->low / axis->step + 1e-9) * axis->step;
        axis->high = ceil(axis->high / axis->step - 1e-9) * axis->step;
    }
    axis->first = ceil(axis->low / axis->step - 1e-9) * axis->step;
    const double count = floor((axis->high - axis->first) / axis->step + 1e-9) + 1;
    axis->tick_count = count < RBT_CHART_TICKS_MAX ? (size_t)count : RBT_CHART_TICKS_MAX;
}

/* A range from 0 on, and as many marks as it has room for. */
static void choose_log_ticks(struct rbt_chart_axis *axis)
{
    axis->low = 0;
    axis->high = axis->high > 1 ? axis->high : 1;
    axis->tick_count = 0;
    while (axis->tick_count < RBT_CHART_TICKS_MAX &&
           rbt_chart_mark(axis, axis->tick_count) <= axis->high) {
        axis->tick_count++;
    }
}

void rbt_chart_fit(struct rbt_chart *chart, size_t x_ticks, size_t y_ticks)
{
    RBT_ASSERT(x_ticks > 0 && x_ticks < RBT_CHART_TICKS_MAX - 2);
    RBT_ASSERT(y_ticks > 0 && y_ticks < RBT_CHART_TICKS_MAX - 2);
    chart->x.low = chart->y.low = INFINITY;
    chart->x.high = chart->y.high = -INFINITY;
    for (size_t i = 0; i < chart->curve_count; i++) {
        extend(&chart->x, chart->curves[i].x, chart->curves[i].count);
        extend(&chart->y, chart->curves[i].y, chart->curves[i].count);
    }
    RBT_ASSERT(isfinite(chart->x.low) && isfinite(chart->y.low)); /* there is a point */
    if (chart->x.low > 0 && chart->x.low < 0.5 * chart->x.high) {
        chart->x.low = 0; /* time and epochs begin at 0 */
    }
    if (chart->x.is_log) {
        choose_log_ticks(&chart->x);
    } else {
        choose_ticks(&chart->x, x_ticks, false); /* curves use the whole width */
    }
    choose_ticks(&chart->y, y_ticks, true);
}

double rbt_chart_mark(const struct rbt_chart_axis *axis, size_t i)
{
    if (!axis->is_log) {
        return axis->first + (double)i * axis->step;
    }
    return i == 0 ? 0 : (i % 2 == 1 ? 1 : 3) * pow(10, (double)((i - 1) / 2));
}

void rbt_chart_tick(const struct rbt_chart_axis *axis, size_t i, char *text, size_t size)
{
    double value = rbt_chart_mark(axis, i);
    if (axis->is_log) {
        snprintf(text, size, "%.6g", value);
        return;
    }
    if (fabs(value) < axis->step * 1e-6) {
        value = 0; /* no "-0" and no 1e-17 */
    }
    const double digits = -floor(log10(axis->step) + 1e-9);
    const double largest = fmax(fabs(axis->low), fabs(axis->high));
    if (largest >= 1e6 || digits > 6) {
        snprintf(text, size, "%.6g", value);
    } else {
        snprintf(text, size, "%.*f", digits > 0 ? (int)digits : 0, value);
    }
}

double rbt_chart_position(const struct rbt_chart_axis *axis, double value)
{
    return axis->is_log ? log1p(value) / log1p(axis->high)
                        : (value - axis->low) / (axis->high - axis->low);
}

enum { LABEL_WIDTH = 10, DOTS_X = 2, DOTS_Y = 4, CANVAS_MAX = 256 };

static const char marks[RBT_CHART_COLOURS + 1] = "*+ox#@%&";

struct canvas {
    int columns; /* characters */
    int rows;
    int dots_x; /* per character */
    int dots_y;
    uint8_t *dots;  /* columns * rows; braille bits, or 1 */
    uint8_t *owner; /* which curve was there last */
};

static void set_dot(struct canvas *canvas, int x, int y, size_t curve)
{
    /* Dots of a braille character: 1 4 / 2 5 / 3 6 / 7 8, bit n - 1. */
    static const uint8_t bits[DOTS_Y][DOTS_X] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int column = x / canvas->dots_x;
    const int row = y / canvas->dots_y;
    RBT_ASSERT(column >= 0 && column < canvas->columns && row >= 0 && row < canvas->rows);
    const size_t place = (size_t)(row * canvas->columns + column);
    canvas->dots[place] |= bits[y % canvas->dots_y][x % canvas->dots_x];
    canvas->owner[place] = (uint8_t)curve; /* fewer than 256 */
}

/* Joins two dots; as many steps as the longer side has dots. */
static void draw_line(struct canvas *canvas, const int from[2], const int to[2], size_t curve)
{
    const int dx = to[0] - from[0];
    const int dy = to[1] - from[1];
    const int longer = abs(dx) > abs(dy) ? abs(dx) : abs(dy);
    for (int i = 0; i <= longer; i++) {
        const double part = longer > 0 ? (double)i / longer : 0;
        set_dot(canvas, from[0] + (int)lround(dx * part), from[1] + (int)lround(dy * part), curve);
    }
}

static void draw_curve(struct canvas *canvas, const struct rbt_chart *chart, size_t index)
{
    const struct rbt_chart_curve *curve = &chart->curves[index];
    const int x_max = canvas->columns * canvas->dots_x - 1;
    const int y_max = canvas->rows * canvas->dots_y - 1;
    int last[2] = {0, 0};
    for (size_t i = 0; i < curve->count; i++) {
        const int here[2] = {(int)lround(rbt_chart_position(&chart->x, curve->x[i]) * x_max),
                             y_max -
                                 (int)lround(rbt_chart_position(&chart->y, curve->y[i]) * y_max)};
        draw_line(canvas, i > 0 ? last : here, here, index);
        last[0] = here[0];
        last[1] = here[1];
    }
}

static void set_colour(const struct rbt_chart_look *look, size_t curve, FILE *out)
{
    static const int codes[RBT_CHART_COLOURS] = {34, 31, 32, 33, 35, 36, 91, 94};
    if (look->has_colour) {
        fprintf(out, "\033[%dm", codes[curve % RBT_CHART_COLOURS]);
    }
}

static void end_colour(const struct rbt_chart_look *look, FILE *out)
{
    if (look->has_colour) {
        fputs("\033[0m", out);
    }
}

static void print_cell(const struct canvas *canvas, size_t place, const struct rbt_chart_look *look,
                       FILE *out)
{
    const uint8_t dots = canvas->dots[place];
    if (dots == 0) {
        fputc(' ', out);
        return;
    }
    set_colour(look, canvas->owner[place], out);
    if (canvas->dots_x == DOTS_X) { /* U+2800 + dots */
        fprintf(out, "\xE2%c%c", 0xA0 + (dots >> 6), 0x80 + (dots & 0x3F));
    } else {
        fputc(marks[canvas->owner[place] % RBT_CHART_COLOURS], out);
    }
    end_colour(look, out);
}

/* The label of the tick that falls on this row of characters, or "". */
static void row_label(const struct rbt_chart_axis *axis, int row, int rows, char text[32])
{
    text[0] = '\0';
    for (size_t i = 0; i < axis->tick_count; i++) {
        const double place = rbt_chart_position(axis, rbt_chart_mark(axis, i));
        if (rows - 1 - (int)lround(place * (rows - 1)) == row) {
            rbt_chart_tick(axis, i, text, 32);
        }
    }
}

/* The line below the drawing: numbers under their places, as many as fit. */
static void print_x_labels(const struct rbt_chart *chart, int columns, FILE *out)
{
    char line[LABEL_WIDTH + CANVAS_MAX + 64];
    memset(line, ' ', sizeof line);
    int free_from = 0;
    int end = 0;
    for (size_t i = 0; i < chart->x.tick_count; i++) {
        char text[32];
        rbt_chart_tick(&chart->x, i, text, sizeof text);
        const double place = rbt_chart_position(&chart->x, rbt_chart_mark(&chart->x, i));
        const int length = (int)strlen(text);
        const int start = LABEL_WIDTH + 2 + (int)lround(place * (columns - 1)) - length / 2;
        if (start >= free_from && start + length < LABEL_WIDTH + 2 + columns + 4) {
            memcpy(line + start, text, (size_t)length);
            end = start + length;
            free_from = end + 1;
        }
    }
    fprintf(out, "%.*s  %s\n", end, line, chart->x.label);
}

static void print_canvas(const struct canvas *canvas, const struct rbt_chart *chart,
                         const struct rbt_chart_look *look, FILE *out)
{
    rbt_text_print(out, chart->title);
    fputc('\n', out);
    for (int row = 0; row < canvas->rows; row++) {
        char label[32];
        row_label(&chart->y, row, canvas->rows, label);
        const char *bar =
            label[0] != '\0' ? (look->has_utf8 ? "┤" : "+") : (look->has_utf8 ? "│" : "|");
        fprintf(out, "%*s %s", LABEL_WIDTH, label, bar);
        int columns = canvas->columns;
        while (columns > 0 && canvas->dots[row * canvas->columns + columns - 1] == 0) {
            columns--; /* no blanks at the end of lines */
        }
        for (int column = 0; column < columns; column++) {
            print_cell(canvas, (size_t)(row * canvas->columns + column), look, out);
        }
        fputc('\n', out);
    }
    fprintf(out, "%*s %s", LABEL_WIDTH, "", look->has_utf8 ? "└" : "+");
    for (int column = 0; column < canvas->columns; column++) {
        fputs(look->has_utf8 ? "─" : "-", out);
    }
    fputc('\n', out);
    print_x_labels(chart, canvas->columns, out);
}

static void print_legend(const struct canvas *canvas, const struct rbt_chart *chart,
                         const struct rbt_chart_look *look, FILE *out)
{
    for (size_t i = 0; i < chart->curve_count; i++) {
        const struct rbt_chart_curve *curve = &chart->curves[i];
        fprintf(out, "%*s ", LABEL_WIDTH, "");
        set_colour(look, i, out);
        if (canvas->dots_x == DOTS_X) {
            fputs("━━", out);
        } else {
            fputc(marks[i % RBT_CHART_COLOURS], out);
        }
        end_colour(look, out);
        fputc(' ', out);
        rbt_text_print(out, curve->name);
        fprintf(out, "  %.6g\n", curve->y[curve->count - 1]);
    }
}

void rbt_chart_draw(const struct rbt_chart *chart, const struct rbt_chart_look *look, FILE *out)
{
    const bool has_braille = look->has_utf8 && (look->has_colour || chart->curve_count == 1);
    struct canvas canvas = {.columns = look->width - LABEL_WIDTH - 8 - (int)strlen(chart->x.label),
                            .rows = look->height,
                            .dots_x = has_braille ? DOTS_X : 1,
                            .dots_y = has_braille ? DOTS_Y : 1};
    RBT_ASSERT(canvas.columns > 0 && canvas.columns <= CANVAS_MAX);
    RBT_ASSERT(canvas.rows > 0 && canvas.rows <= CANVAS_MAX);
    canvas.dots = rbt_calloc((size_t)(canvas.columns * canvas.rows), 2);
    if (canvas.dots == NULL) {
        return; /* a drawing of a few kilobytes; the numbers in the log are what counts */
    }
    canvas.owner = canvas.dots + canvas.columns * canvas.rows;
    for (size_t i = 0; i < chart->curve_count; i++) {
        draw_curve(&canvas, chart, i);
    }
    print_canvas(&canvas, chart, look, out);
    print_legend(&canvas, chart, look, out);
    rbt_free(canvas.dots);
}
