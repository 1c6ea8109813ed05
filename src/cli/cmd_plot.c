/* cli/cmd_plot.c - `rubato plot RUN.jsonl...`: curves of runs, in the terminal or as a picture. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/option.h"
#include "base/text.h"
#include "cli/chart.h"
#include "cli/chart_runs.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/gnuplot.h"
#include "cli/output.h"
#include "cli/runs.h"
#include "cli/svg.h"
#include "cli/terminal.h"

enum { Y_MAX = 8, RUNS_MAX = 16, HEIGHT = 18 };

enum show { SHOW_VALUES, SHOW_BANDWIDTH, SHOW_NODES, SHOW_LAG, SHOW_ROWS };

struct config {
    int32_t show; /* enum show */
    int32_t x;    /* index in x_names */
    const char *y;
    const char *out;
    const char *title;
};

static const char *const x_names[] = {"time", "epoch", "clock", "examples", NULL};
static const char *const x_labels[] = {"seconds", "epoch", "clock", "examples"};
static const int x_columns[] = {RBT_RUNS_T, RBT_RUNS_EPOCH, RBT_RUNS_CLOCK, RBT_RUNS_EXAMPLES};

static const char *const show_names[] = {"values", "bandwidth", "nodes", "lag", "rows", NULL};

static const struct rbt_option plot_options[] = {
    {.name = "show",
     .type = RBT_OPTION_CHOICE,
     .value = "values",
     .choices = show_names,
     .help =
         "What to draw. values: the quantities of --y. bandwidth: bytes per second by kind of "
         "message. nodes: bytes per second by node, for simulations. lag: staleness of reads in "
         "clocks. rows: how often rows were sent before a clock ended, for runs with --bandwidth.",
     .offset = offsetof(struct config, show)},
    {.name = "x",
     .type = RBT_OPTION_CHOICE,
     .value = "time",
     .choices = x_names,
     .help = "Quantity on the x axis of values and bandwidth.",
     .offset = offsetof(struct config, x)},
    {.name = "y",
     .type = RBT_OPTION_TEXT,
     .value = "objective",
     .unit = "NAME[,NAME]",
     .help = "Quantities on the y axis: objective, a metric such as logloss or rmse, lag_mean, "
             "lag_max, bytes, sent_early, received_read, ....",
     .offset = offsetof(struct config, y)},
    {.name = "out",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "File for the picture, .svg or .png (needs gnuplot); without it the picture goes to "
             "the terminal.",
     .offset = offsetof(struct config, out)},
    {.name = "title",
     .type = RBT_OPTION_TEXT,
     .help = "Title of the picture; by default the quantities that it shows.",
     .offset = offsetof(struct config, title)},
};

/* The names of --y, cut at the commas. */
struct y_list {
    char names[Y_MAX][RBT_RUNS_NAME_MAX];
    size_t count;
};

static rbt_status split_y(const char *text, struct y_list *list)
{
    list->count = 0;
    for (const char *start = text;; start += strcspn(start, ",") + 1) { /* ends at the zero */
        const size_t length = strcspn(start, ",");
        if (length == 0 || length >= RBT_RUNS_NAME_MAX || list->count == Y_MAX) {
            return rbt_fail(RBT_E_INVALID,
                            "option \"--y\" needs one to %d names with commas between, got \"%s\"",
                            Y_MAX, text);
        }
        memcpy(list->names[list->count], start, length);
        list->names[list->count++][length] = '\0';
        if (start[length] == '\0') {
            return RBT_OK;
        }
    }
}

/* Says which values the run does have. */
static rbt_status refuse_column(const struct rbt_run *run, const char *name)
{
    const rbt_status st = rbt_fail(RBT_E_DATA, "\"%s\" has no values of \"%s\"", run->path, name);
    struct rbt_text_buffer names = {0};
    for (size_t i = 0; i < run->column_count; i++) {
        rbt_text_add(&names, "%s%s", i > 0 ? ", " : "", run->names[i]);
    }
    (void)rbt_fail_hint(st, "It has %s.", rbt_text_data(&names));
    rbt_text_deinit(&names);
    return st;
}

/* "a/b/run.jsonl" is called "run". */
static void name_run(char *name, const char *path)
{
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    const char *dot = strrchr(base, '.');
    const int length = dot != NULL && dot != base ? (int)(dot - base) : (int)strlen(base);
    snprintf(name, RBT_CHART_NAME_MAX, "%.*s", length < 48 ? length : 48, base);
}

/* Adds the curve of one column; points that are not numbers are left out. */
static rbt_status add_curve(struct rbt_chart *chart, const struct rbt_run *run, int x_column,
                            const struct y_list *list, size_t index)
{
    const char *y = list->names[index];
    const int y_column = rbt_runs_column(run, y);
    struct rbt_chart_curve *curve = &chart->curves[chart->curve_count];
    char name[RBT_CHART_NAME_MAX];
    name_run(name, run->path);
    snprintf(curve->name, sizeof curve->name, "%.48s%s%s", name, list->count > 1 ? ": " : "",
             list->count > 1 ? y : "");
    curve->colour = chart->curve_count / list->count;
    curve->dash = index;
    curve->x = rbt_calloc(run->row_count, sizeof *curve->x);
    curve->y = rbt_calloc(run->row_count, sizeof *curve->y);
    chart->curve_count++;
    if (curve->x == NULL || curve->y == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu points", run->row_count);
    }
    for (size_t i = 0; y_column >= 0 && i < run->row_count; i++) {
        const double x_value = rbt_runs_value(run, i, x_column);
        const double y_value = rbt_runs_value(run, i, y_column);
        if (isfinite(x_value) && isfinite(y_value)) {
            curve->x[curve->count] = x_value;
            curve->y[curve->count++] = y_value;
        }
    }
    return curve->count > 0 ? RBT_OK : refuse_column(run, y);
}

static rbt_status add_values(struct rbt_chart *chart, const struct rbt_run *run,
                             const struct config *config, const struct y_list *list)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < list->count; i++) {
        if (chart->curve_count == RBT_CHART_CURVES_MAX) {
            st = rbt_fail(RBT_E_INVALID, "more than %d curves", RBT_CHART_CURVES_MAX);
        } else {
            st = add_curve(chart, run, x_columns[config->x], list, i);
        }
    }
    return st;
}

/* What is asked of a chart, besides its options. */
struct request {
    const struct config *config;
    const struct y_list *list;
    bool is_alone; /* there is no other run */
};

static rbt_status add_run(struct rbt_chart *chart, const char *path, const struct request *request)
{
    const struct config *config = request->config;
    struct rbt_run run;
    rbt_status st = rbt_runs_read(path, &run);
    if (st != RBT_OK) {
        return st;
    }
    char name[RBT_CHART_NAME_MAX];
    name_run(name, path);
    const struct rbt_chart_run part = {
        .run = &run, .x_column = x_columns[config->x], .name = request->is_alone ? NULL : name};
    if (run.row_count == 0) {
        st = rbt_fail(RBT_E_DATA, "\"%s\" has no evaluations to draw", path);
    } else {
        switch ((enum show)config->show) {
        case SHOW_VALUES:
            st = add_values(chart, &run, config, request->list);
            break;
        case SHOW_BANDWIDTH:
            st = rbt_chart_add_bandwidth(chart, &part);
            break;
        case SHOW_NODES:
            st = rbt_chart_add_nodes(chart, &part);
            break;
        case SHOW_LAG:
            st = rbt_chart_add_lags(chart, &part);
            break;
        case SHOW_ROWS:
            st = rbt_chart_add_rows(chart, &part);
            break;
        }
    }
    rbt_runs_free(&run);
    return st;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static rbt_status write_picture(const struct rbt_chart *chart, const char *path)
{
    struct rbt_output output;
    rbt_status st = rbt_output_open(path, &output);
    if (st != RBT_OK) {
        return st;
    }
    if (ends_with(path, ".svg")) {
        rbt_svg_write(chart, output.file);
    } else {
        st = rbt_gnuplot_write(chart, output.file);
    }
    if (st == RBT_OK) {
        return rbt_output_close(&output);
    }
    rbt_output_drop(&output);
    (void)rbt_fail_in(st, "could not write \"%s\"", path);
    return st == RBT_E_NOTFOUND
               ? rbt_fail_hint(st, "Install gnuplot, or choose a name that ends with .svg.")
               : st;
}

static rbt_status draw(struct rbt_chart *chart, const struct config *config)
{
    rbt_chart_fit(chart, 7, 6);
    if (config->out != NULL) {
        return write_picture(chart, config->out);
    }
    const char *no_colour = getenv("NO_COLOR");
    const struct rbt_chart_look look = {.width = rbt_terminal_width(stdout),
                                        .height = HEIGHT,
                                        .has_utf8 = rbt_terminal_has_utf8(),
                                        .has_colour = rbt_terminal_is_live(stdout) &&
                                                      (no_colour == NULL || no_colour[0] == '\0')};
    rbt_chart_draw(chart, &look, stdout);
    return RBT_OK;
}

/* What the chart and its axes are called; `names` are the values that are drawn. */
static void label(struct rbt_chart *chart, const struct config *config, const char *names)
{
    const bool is_rate = config->show == SHOW_BANDWIDTH || config->show == SHOW_NODES;
    const char *const titles[] = {
        [SHOW_VALUES] = NULL,
        [SHOW_BANDWIDTH] = "bandwidth of the workers",
        [SHOW_NODES] = "bandwidth by node",
        [SHOW_LAG] = "how old reads were",
        [SHOW_ROWS] = "rows sent before the clock ended",
    };
    chart->x.label = x_labels[config->show == SHOW_NODES ? 0 : config->x];
    chart->y.label = is_rate ? rbt_chart_scale_bytes(chart) : names;
    if (config->show == SHOW_LAG) {
        chart->x.label = "clocks";
        chart->y.label = "share of the reads";
        chart->x.is_whole = true;
    } else if (config->show == SHOW_ROWS) {
        chart->x.label = "times";
        chart->y.label = "share of the rows, at most so often";
        chart->x.is_log = true;
    }
    if (titles[config->show] != NULL) {
        chart->title = titles[config->show];
    }
    chart->title = config->title != NULL ? config->title : chart->title;
}

static rbt_status plot(const struct config *config, const struct rbt_option_arguments *arguments)
{
    struct y_list list;
    rbt_status st = split_y(config->y, &list);
    if (st != RBT_OK) {
        return st;
    }
    char names[Y_MAX * (RBT_RUNS_NAME_MAX + 2)] = "";
    size_t used = 0;
    for (size_t i = 0; i < list.count; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 list.names[i]);
    }
    char title[sizeof names + 32];
    snprintf(title, sizeof title, "%s by %s", names, x_names[config->x]);
    struct rbt_chart *chart = rbt_calloc(1, sizeof *chart);
    if (chart == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a chart");
    }
    const struct request request = {config, &list, arguments->count == 1};
    for (size_t i = 0; st == RBT_OK && i < arguments->count; i++) {
        st = add_run(chart, arguments->values[i], &request);
    }
    if (st == RBT_OK) {
        chart->title = title;
        label(chart, config, names);
        st = draw(chart, config);
    }
    rbt_chart_free_curves(chart);
    rbt_free(chart);
    return st;
}

static rbt_status check(const struct config *config, const struct rbt_option_arguments *arguments)
{
    if (arguments->count == 0) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "the name of a log is missing");
        return rbt_fail_hint(st, "Name logs that \"rubato train --log FILE\" wrote.");
    }
    if (config->out != NULL && !ends_with(config->out, ".svg") && !ends_with(config->out, ".png")) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--out\" needs a name that ends with .svg or .png, got \"%s\"",
                        config->out);
    }
    return RBT_OK;
}

int rbt_cmd_plot(int argc, char *const *argv)
{
    struct config config = {0};
    const struct rbt_option_table table = {plot_options,
                                           sizeof plot_options / sizeof plot_options[0], &config};
    const struct rbt_option_command command = {
        .name = "rubato plot", .tables = &table, .table_count = 1, .positional_max = RUNS_MAX};
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        puts("Usage: rubato plot RUN.jsonl... [options]\n\n"
             "Draws the curves of runs from their logs (\"rubato train --log RUN.jsonl\").\n");
        rbt_option_help(stdout, &table);
        puts("\nExamples:\n"
             "  rubato plot run.jsonl\n"
             "  rubato plot bsp.jsonl ssp.jsonl --x epoch --y logloss --out compare.svg\n"
             "  rubato plot run.jsonl --show bandwidth");
        return RBT_EXIT_OK;
    }
    st = st != RBT_OK ? st : check(&config, &arguments);
    st = st != RBT_OK ? st : plot(&config, &arguments);
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
