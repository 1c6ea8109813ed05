/* cli/chart_runs.c - curves of a chart from logs of runs.
 *
 * Logs count bytes from the beginning; a bandwidth is a difference by a time. In a cluster the
 * figures are those of one process until the end, when all come together: the step from one to the
 * other is no bandwidth, and is left out. */
#include "cli/chart_runs.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

/* A column of bytes, and what it is called. Requests are small, rows are large. */
struct class
{
    const char *column;
    const char *name;
};

static const struct class classes[] = {
    {"sent_clock", "updates sent"},      {"sent_early", "updates sent early"},
    {"sent_read", "requests sent"},      {"sent_other", "other sent"},
    {"received_read", "rows received"},  {"received_early", "rows received early"},
    {"received_other", "other received"}};

void rbt_chart_free_curves(struct rbt_chart *chart)
{
    for (size_t i = 0; i < chart->curve_count; i++) {
        rbt_free(chart->curves[i].x);
        rbt_free(chart->curves[i].y);
    }
    chart->curve_count = 0;
}

/* A new curve with room for so many points. */
static rbt_status open_curve(struct rbt_chart *chart, const struct rbt_chart_run *run,
                             const char *name, size_t room)
{
    if (chart->curve_count == RBT_CHART_CURVES_MAX) {
        return rbt_fail(RBT_E_INVALID, "more than %d curves", RBT_CHART_CURVES_MAX);
    }
    struct rbt_chart_curve *curve = &chart->curves[chart->curve_count];
    *curve = (struct rbt_chart_curve){.colour = chart->curve_count,
                                      .is_plain = true,
                                      .x = rbt_calloc(room, sizeof *curve->x),
                                      .y = rbt_calloc(room, sizeof *curve->y)};
    snprintf(curve->name, sizeof curve->name, "%.48s%s%s", run->name != NULL ? run->name : "",
             run->name != NULL && name[0] != '\0' ? ": " : "", name);
    chart->curve_count++;
    return curve->x != NULL && curve->y != NULL
               ? RBT_OK
               : rbt_fail(RBT_E_NOMEM, "could not allocate %zu points", room);
}

static struct rbt_chart_curve *last_curve(struct rbt_chart *chart)
{
    RBT_ASSERT(chart->curve_count > 0);
    return &chart->curves[chart->curve_count - 1];
}

static void add_point(struct rbt_chart_curve *curve, double x, double y)
{
    curve->x[curve->count] = x;
    curve->y[curve->count++] = y;
}

/* The last curve goes if nothing is on it. */
static void close_curve(struct rbt_chart *chart)
{
    struct rbt_chart_curve *curve = last_curve(chart);
    double largest = 0;
    for (size_t i = 0; i < curve->count; i++) {
        largest = fmax(largest, curve->y[i]);
    }
    if (!(largest > 0)) {
        rbt_free(curve->x);
        rbt_free(curve->y);
        chart->curve_count--;
    }
}

/* How far a counter has come. */
struct stand {
    double x;
    double t;
    double bytes;
    double workers; /* whose bytes they are; NaN: not known */
};

/* Two evaluations may come in a moment. The rate between them is that of one message or two, and
 * thousands of times as high as all others: such a step belongs to the next. */
static double shortest_step(double run)
{
    return run / 1000;
}

/* Adds the rate from one stand to the next, as a step, if that is not too short. */
static void add_step(struct rbt_chart_curve *curve, struct stand *from, const struct stand *to,
                     double shortest)
{
    const double rate = (to->bytes - from->bytes) / (to->t - from->t);
    if (!isfinite(to->x) || !isfinite(to->t) || !isfinite(to->bytes)) {
        return;
    }
    if (!(to->t > from->t) || to->t - from->t < shortest) {
        return;
    }
    if (rate >= 0 && isfinite(rate) && (to->workers == from->workers || isnan(to->workers))) {
        add_point(curve, from->x, rate);
        add_point(curve, to->x, rate);
    }
    *from = *to;
}

static rbt_status add_class(struct rbt_chart *chart, const struct rbt_chart_run *at,
                            const struct class *class)
{
    const struct rbt_run *run = at->run;
    const int column = rbt_runs_column(run, class->column);
    const int workers = rbt_runs_column(run, "workers");
    if (column < 0) {
        return RBT_OK;
    }
    const rbt_status st = open_curve(chart, at, class->name, 2 * run->row_count);
    if (st != RBT_OK) {
        return st;
    }
    struct stand from = {.workers = workers < 0 ? NAN : rbt_runs_value(run, 0, workers)};
    const double shortest =
        run->row_count == 0 ? 0
                            : shortest_step(rbt_runs_value(run, run->row_count - 1, RBT_RUNS_T));
    for (size_t i = 0; i < run->row_count; i++) {
        const struct stand to = {.x = rbt_runs_value(run, i, at->x_column),
                                 .t = rbt_runs_value(run, i, RBT_RUNS_T),
                                 .bytes = rbt_runs_value(run, i, column),
                                 .workers = workers < 0 ? NAN : rbt_runs_value(run, i, workers)};
        add_step(last_curve(chart), &from, &to, shortest);
    }
    close_curve(chart);
    return RBT_OK;
}

rbt_status rbt_chart_add_bandwidth(struct rbt_chart *chart, const struct rbt_chart_run *run)
{
    const size_t before = chart->curve_count;
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < sizeof classes / sizeof classes[0]; i++) {
        st = add_class(chart, run, &classes[i]);
    }
    if (st == RBT_OK && chart->curve_count == before) {
        st = rbt_fail(RBT_E_DATA, "log \"%s\" has no figures about messages", run->run->path);
    }
    return st;
}

/* One direction of a node. */
static rbt_status add_node(struct rbt_chart *chart, const struct rbt_chart_run *at,
                           const char *node, bool is_sent)
{
    const struct rbt_run *run = at->run;
    char name[RBT_RUNS_NAME_MAX + 16];
    snprintf(name, sizeof name, "%s %s", node, is_sent ? "sent" : "received");
    const rbt_status st = open_curve(chart, at, name, 2 * run->sample_count);
    if (st != RBT_OK) {
        return st;
    }
    struct stand from = {.workers = NAN};
    const double shortest =
        run->sample_count == 0 ? 0 : shortest_step(run->samples[run->sample_count - 1].t);
    for (size_t i = 0; i < run->sample_count; i++) {
        const struct rbt_runs_sample *sample = &run->samples[i];
        if (strcmp(sample->node, node) == 0) {
            const struct stand to = {.x = sample->t,
                                     .t = sample->t,
                                     .bytes = is_sent ? sample->sent : sample->received,
                                     .workers = NAN};
            add_step(last_curve(chart), &from, &to, shortest);
        }
    }
    close_curve(chart);
    return RBT_OK;
}

rbt_status rbt_chart_add_nodes(struct rbt_chart *chart, const struct rbt_chart_run *run)
{
    const struct rbt_runs_sample *samples = run->run->samples;
    const size_t before = chart->curve_count;
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < run->run->sample_count; i++) {
        bool is_new = true;
        for (size_t k = 0; k < i && is_new; k++) {
            is_new = strcmp(samples[k].node, samples[i].node) != 0;
        }
        if (!is_new) {
            break; /* each line of the log that tells of nodes tells of all */
        }
        st = add_node(chart, run, samples[i].node, true);
        st = st != RBT_OK ? st : add_node(chart, run, samples[i].node, false);
    }
    if (st == RBT_OK && chart->curve_count == before) {
        st = rbt_fail(RBT_E_DATA, "log \"%s\" has no figures about nodes", run->run->path);
        return rbt_fail_hint(
            st, "Only \"rubato simulate\" logs nodes; use --show bandwidth for other runs.");
    }
    return st == RBT_E_INVALID ? rbt_fail_hint(st, "Use --show bandwidth, which adds up all nodes.")
                               : st;
}

static double sum_of(const struct rbt_runs_counts *counts)
{
    double sum = 0;
    for (size_t i = 0; i < counts->count; i++) {
        sum += counts->counts[i];
    }
    return sum;
}

rbt_status rbt_chart_add_lags(struct rbt_chart *chart, const struct rbt_chart_run *run)
{
    const struct rbt_runs_counts *lags = &run->run->lags;
    const double sum = sum_of(lags);
    if (!(sum > 0)) {
        return rbt_fail(RBT_E_DATA, "log \"%s\" has no figures about reads", run->run->path);
    }
    const rbt_status st = open_curve(chart, run, run->name == NULL ? "reads" : "", 4 * lags->count);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_chart_curve *curve = last_curve(chart);
    for (size_t i = 0; i < lags->count; i++) { /* down to 0 between them, and at the end */
        const double share = lags->counts[i] / sum;
        add_point(curve, lags->values[i] - 0.4, 0);
        add_point(curve, lags->values[i] - 0.4, share);
        add_point(curve, lags->values[i] + 0.4, share);
        add_point(curve, lags->values[i] + 0.4, 0);
    }
    return RBT_OK;
}

static rbt_status add_times(struct rbt_chart *chart, const struct rbt_chart_run *run,
                            const struct rbt_runs_counts *times, const char *name)
{
    const double sum = sum_of(times);
    if (!(sum > 0)) {
        return RBT_OK;
    }
    const rbt_status st = open_curve(chart, run, name, 2 * times->count + 1);
    if (st != RBT_OK) {
        return st;
    }
    double below = 0;
    add_point(last_curve(chart), 0, 0);
    for (size_t i = 0; i < times->count; i++) {
        add_point(last_curve(chart), times->values[i], below / sum);
        below += times->counts[i];
        add_point(last_curve(chart), times->values[i], below / sum);
    }
    return RBT_OK;
}

rbt_status rbt_chart_add_rows(struct rbt_chart *chart, const struct rbt_chart_run *run)
{
    const size_t before = chart->curve_count;
    rbt_status st = add_times(chart, run, &run->run->sends, "sent");
    st = st != RBT_OK ? st : add_times(chart, run, &run->run->receipts, "received");
    if (st == RBT_OK && chart->curve_count == before) {
        st =
            rbt_fail(RBT_E_DATA, "log \"%s\" has no figures about rows sent early", run->run->path);
        return rbt_fail_hint(st, "Only finished runs with --bandwidth log them.");
    }
    return st;
}

const char *rbt_chart_scale_bytes(struct rbt_chart *chart)
{
    static const char *const names[] = {"B/s", "kB/s", "MB/s", "GB/s"};
    double largest = 0;
    for (size_t i = 0; i < chart->curve_count; i++) {
        for (size_t k = 0; k < chart->curves[i].count; k++) {
            largest = fmax(largest, chart->curves[i].y[k]);
        }
    }
    size_t unit = 0;
    double scale = 1;
    while (unit < 3 && largest / scale >= 1000) {
        unit++;
        scale *= 1000;
    }
    for (size_t i = 0; i < chart->curve_count; i++) {
        for (size_t k = 0; k < chart->curves[i].count; k++) {
            chart->curves[i].y[k] /= scale;
        }
    }
    return names[unit];
}
