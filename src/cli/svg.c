/* cli/svg.c - charts as SVG files.
 *
 *     +--------------------------------------------+
 *     | title                                      |  TOP
 *     | y label                                    |
 *     |    +---------------------------+  -- run a |
 *     |  1 |                           |  -- run b |
 *     |  0 |                           |           |
 *     |    +---------------------------+           |
 *     |    0        x label           10           |  BOTTOM
 *     +--------------------------------------------+
 *       LEFT                            legend_width
 *
 * Curves differ in colour and dashes. Everything is plain shapes and
 * text, without scripts or style sheets, so that every viewer shows the same. */
#include "cli/svg.h"

#include <string.h>

#include "base/text.h"

enum {
    WIDTH = 860,
    HEIGHT = 480,
    LEFT = 76,
    TOP = 72,
    BOTTOM = 60,
    RIGHT = 24,
    LEGEND_LINE = 22,
    LEGEND_MAX = 240, /* widest legend */
    LETTER = 8,       /* generous width of a letter in the legend */
    POINTS_SHOWN = 40 /* curves with more points get no dots */
};

const char *rbt_svg_colour(size_t i)
{
    /* Distinct for colour-blind readers, too: after Okabe and Ito, darkened for white paper. */
    static const char *const colours[RBT_CHART_COLOURS] = {
        "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f3c8d", "#555555"};
    return colours[i % RBT_CHART_COLOURS];
}

/* A text in XML; what may not be in it becomes '?'. */
static void write_escaped(FILE *out, const char *text)
{
    size_t length = 0;
    for (size_t left = strlen(text); left > 0; left -= length) {
        const size_t shown = rbt_text_shown(text, left);
        length = shown > 0 ? shown : 1;
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fwrite(shown > 0 ? text : "?", 1, length, out);
        }
        text += length;
    }
}

/* Where the drawing area is. */
struct frame {
    double left;
    double top;
    double width;
    double height;
};

static double place_x(const struct frame *frame, const struct rbt_chart *chart, double x)
{
    return frame->left + rbt_chart_position(&chart->x, x) * frame->width;
}

static double place_y(const struct frame *frame, const struct rbt_chart *chart, double y)
{
    return frame->top + (1 - rbt_chart_position(&chart->y, y)) * frame->height;
}

static void write_axes(const struct rbt_chart *chart, const struct frame *frame, FILE *out)
{
    const double bottom = frame->top + frame->height;
    const double right = frame->left + frame->width;
    char text[32];
    fputs("<g stroke=\"#e4e7eb\" stroke-width=\"1\">\n", out);
    for (size_t i = 0; i < chart->x.tick_count; i++) {
        const double x = place_x(frame, chart, rbt_chart_mark(&chart->x, i));
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x, frame->top, x,
                bottom);
    }
    for (size_t i = 0; i < chart->y.tick_count; i++) {
        const double y = place_y(frame, chart, rbt_chart_mark(&chart->y, i));
        fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", frame->left, y,
                right, y);
    }
    fputs("</g>\n<g font-size=\"13\" fill=\"#52606d\">\n", out);
    for (size_t i = 0; i < chart->x.tick_count; i++) {
        const double x = place_x(frame, chart, rbt_chart_mark(&chart->x, i));
        rbt_chart_tick(&chart->x, i, text, sizeof text);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x,
                bottom + 20, text);
    }
    for (size_t i = 0; i < chart->y.tick_count; i++) {
        const double y = place_y(frame, chart, rbt_chart_mark(&chart->y, i));
        rbt_chart_tick(&chart->y, i, text, sizeof text);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", frame->left - 8,
                y + 4.5, text);
    }
    fputs("</g>\n", out);
    fprintf(out,
            "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#7b8794\" "
            "stroke-width=\"1.2\"/>\n",
            frame->left, frame->top, bottom, right);
}

static void write_labels(const struct rbt_chart *chart, const struct frame *frame, FILE *out)
{
    fputs("<text x=\"20\" y=\"32\" font-size=\"18\" font-weight=\"600\" fill=\"#1f2933\">", out);
    write_escaped(out, chart->title);
    fprintf(out, "</text>\n<text x=\"20\" y=\"%d\" font-size=\"13\" fill=\"#3e4c59\">", TOP - 16);
    write_escaped(out, chart->y.label);
    fprintf(out,
            "</text>\n<text x=\"%.1f\" y=\"%.1f\" font-size=\"13\" fill=\"#3e4c59\" "
            "text-anchor=\"middle\">",
            frame->left + frame->width / 2, frame->top + frame->height + 44);
    write_escaped(out, chart->x.label);
    fputs("</text>\n", out);
}

static const char *dashes(const struct rbt_chart_curve *curve)
{
    static const char *const patterns[] = {"", " stroke-dasharray=\"7 4\"",
                                           " stroke-dasharray=\"2 3\"",
                                           " stroke-dasharray=\"9 3 2 3\""};
    return patterns[(curve->dash + curve->colour / RBT_CHART_COLOURS) % 4];
}

static void write_curve(const struct rbt_chart *chart, const struct frame *frame, size_t index,
                        FILE *out)
{
    const struct rbt_chart_curve *curve = &chart->curves[index];
    fprintf(out,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-linejoin=\"round\" "
            "stroke-linecap=\"round\"%s points=\"",
            rbt_svg_colour(curve->colour), dashes(curve));
    for (size_t i = 0; i < curve->count; i++) {
        fprintf(out, "%s%.2f,%.2f", i > 0 ? " " : "", place_x(frame, chart, curve->x[i]),
                place_y(frame, chart, curve->y[i]));
    }
    fputs("\"/>\n", out);
    for (size_t i = 0; !curve->is_plain && curve->count <= POINTS_SHOWN && i < curve->count; i++) {
        fprintf(out, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"2.6\" stroke=\"none\" fill=\"%s\"/>\n",
                place_x(frame, chart, curve->x[i]), place_y(frame, chart, curve->y[i]),
                rbt_svg_colour(curve->colour));
    }
}

static void write_legend(const struct rbt_chart *chart, double left, FILE *out)
{
    for (size_t i = 0; i < chart->curve_count; i++) {
        const struct rbt_chart_curve *curve = &chart->curves[i];
        const double y = TOP + 8 + (double)i * LEGEND_LINE;
        fprintf(out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"3\"%s/>\n<text x=\"%.1f\" y=\"%.1f\" font-size=\"13\" "
                "fill=\"#1f2933\">",
                left, y, left + 22, y, rbt_svg_colour(curve->colour), dashes(curve), left + 30,
                y + 4.5);
        write_escaped(out, curve->name);
        fputs("</text>\n", out);
    }
}

/* Room for the longest name. */
static double legend_width(const struct rbt_chart *chart)
{
    size_t longest = 0;
    for (size_t i = 0; i < chart->curve_count; i++) {
        const size_t length = strlen(chart->curves[i].name);
        longest = length > longest ? length : longest;
    }
    const double width = 30 + (double)longest * LETTER;
    return width < LEGEND_MAX ? width : LEGEND_MAX;
}

void rbt_svg_write(const struct rbt_chart *chart, FILE *out)
{
    const double legend = legend_width(chart);
    const double legend_height = TOP + BOTTOM + (double)chart->curve_count * LEGEND_LINE;
    const double height = legend_height > HEIGHT ? legend_height : HEIGHT;
    const struct frame frame = {.left = LEFT,
                                .top = TOP,
                                .width = WIDTH - LEFT - RIGHT - legend - 24,
                                .height = height - TOP - BOTTOM};
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
            "viewBox=\"0 0 %d %.0f\" stroke=\"none\" font-family=\"Inter, 'Helvetica Neue', "
            "'DejaVu Sans', Arial, "
            "sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            WIDTH, height, WIDTH, height);
    write_labels(chart, &frame, out);
    write_axes(chart, &frame, out);
    for (size_t i = 0; i < chart->curve_count; i++) {
        write_curve(chart, &frame, i, out);
    }
    write_legend(chart, frame.left + frame.width + 24, out);
    fputs("</svg>\n", out);
}
