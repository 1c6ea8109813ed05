/* cli/progress.c - shows how training goes.
 *
 * Events come about once per epoch. A terminal shows the newest one on a line that redraws itself;
 * elsewhere a line is printed when PLAIN_SECONDS have passed since the last, so that the log of a
 * batch system stays short. Nothing here can fail: who cannot see progress still gets a model. */
#include "cli/progress.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/terminal.h"

enum { PLAIN_SECONDS = 3, SPARK_WIDTH_MAX = 48 };

void rbt_progress_init(struct rbt_progress *progress, const struct rbt_progress_options *options)
{
    *progress = (struct rbt_progress){
        .err = options->err,
        .mode = options->mode,
        .is_live = options->mode != RBT_PROGRESS_NEVER && rbt_terminal_is_live(options->err),
        .has_utf8 = rbt_terminal_has_utf8(),
        .is_virtual = options->is_virtual,
        .width = rbt_terminal_width(options->err),
        .epochs = options->epochs,
        .began = rbt_clock_seconds(),
        .shown_at = -INFINITY,
        .stride = 1,
    };
}

void rbt_progress_loaded(struct rbt_progress *progress, double seconds, uint64_t examples,
                         uint64_t parameters)
{
    progress->began = rbt_clock_seconds();
    if (progress->mode == RBT_PROGRESS_NEVER) {
        return;
    }
    char count[RBT_TEXT_SHORT];
    char size[RBT_TEXT_SHORT];
    char time[RBT_TEXT_SHORT];
    rbt_text_from_count((double)examples, count);
    rbt_text_from_count((double)parameters, size);
    rbt_text_from_seconds(seconds, time);
    fprintf(progress->err, "loaded %s examples in %s; %s parameters\n", count, time, size);
    fflush(progress->err);
}

/* Keeps the objective for the curve; when the room is used up, every second point goes. */
static void remember(struct rbt_progress *progress, double objective)
{
    if (progress->events++ % progress->stride != 0) {
        return;
    }
    if (progress->point_count == RBT_PROGRESS_POINTS) {
        for (size_t i = 0; i < RBT_PROGRESS_POINTS / 2; i++) {
            progress->points[i] = progress->points[2 * i];
        }
        progress->point_count = RBT_PROGRESS_POINTS / 2;
        progress->stride *= 2;
    }
    progress->points[progress->point_count++] = objective;
}

/* Seconds that the user has been waiting: those of the event, unless they are virtual. */
static double waited(const struct rbt_progress *progress, const struct rbt_train_event *event)
{
    return progress->is_virtual ? rbt_clock_seconds() - progress->began : event->t;
}

/* What stands behind a time. */
static const char *time_name(const struct rbt_progress *progress)
{
    return progress->is_virtual ? " of virtual time" : "";
}

/* "epoch 3/10  objective 0.4321  1.20M examples/s  lag 0.8  12.0 s left" */
static void describe(const struct rbt_progress *progress, const struct rbt_train_event *event,
                     struct rbt_text_buffer *text)
{
    char part[RBT_TEXT_SHORT];
    rbt_text_add(text, "epoch %.4g", event->epoch);
    if (progress->epochs > 0) {
        rbt_text_add(text, "/%.4g", progress->epochs);
    }
    rbt_text_add(text, "  objective %.6g", event->objective);
    if (event->eval.count > 0) {
        rbt_text_add(text, "  eval %s %.5g", event->eval.names[0], event->eval.values[0]);
    }
    if (event->t > 0) {
        rbt_text_from_count((double)event->examples / event->t, part);
        rbt_text_add(text, "  %s examples/s", part);
    }
    rbt_text_add(text, "  lag %.2g", event->lag_mean);
    rbt_text_from_seconds(event->t, part);
    rbt_text_add(text, "  %s%s", part, time_name(progress));
    if (progress->epochs > event->epoch && event->epoch > 0) {
        const double left = progress->epochs - event->epoch;
        rbt_text_from_seconds(waited(progress, event) / event->epoch * left, part);
        rbt_text_add(text, ", %s left", part);
    }
}

void rbt_progress_event(struct rbt_progress *progress, const struct rbt_train_event *event)
{
    if (progress->mode == RBT_PROGRESS_NEVER) {
        return;
    }
    remember(progress, event->objective);
    const bool is_due = progress->is_live || progress->mode == RBT_PROGRESS_ALWAYS ||
                        waited(progress, event) - progress->shown_at >= PLAIN_SECONDS;
    if (!is_due) {
        return;
    }
    progress->shown_at = waited(progress, event);
    struct rbt_text_buffer text = {0};
    describe(progress, event, &text);
    const bool has_note =
        event->note != NULL &&
        (!progress->is_live || progress->shown_at - progress->noted_at >= PLAIN_SECONDS);
    if (has_note) { /* it stays; the line that redraws itself comes below it */
        fprintf(progress->err, "%s  %.*s\n", progress->is_live ? "\r\033[K" : "",
                progress->width > 3 ? progress->width - 3 : 160, event->note);
        progress->noted_at = progress->shown_at;
    }
    if (progress->is_live) {
        fprintf(progress->err, "\r\033[K%.*s", progress->width - 1, rbt_text_data(&text));
        progress->is_open = true;
    } else {
        fprintf(progress->err, "%s\n", rbt_text_data(&text));
    }
    fflush(progress->err);
    rbt_text_deinit(&text);
}

static void end_line(struct rbt_progress *progress)
{
    if (progress->is_open) {
        fputc('\n', progress->err);
        progress->is_open = false;
    }
}

void rbt_progress_node(struct rbt_progress *progress, double t, const char *node, const char *state)
{
    if (progress->mode == RBT_PROGRESS_NEVER) {
        return;
    }
    char time[RBT_TEXT_SHORT];
    rbt_text_from_seconds(t, time);
    end_line(progress);
    fprintf(progress->err, "%s is %s after %s%s\n", node, state, time, time_name(progress));
    fflush(progress->err);
}

void rbt_progress_sparkline(const double *values, size_t count, size_t width, bool has_utf8,
                            char *text)
{
    double low = INFINITY;
    double high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i])) {
            low = fmin(low, values[i]);
            high = fmax(high, values[i]);
        }
    }
    const size_t columns = count < width ? count : width;
    size_t used = 0;
    for (size_t c = 0; c < columns; c++) {
        const double value = values[columns == count ? c : c * (count - 1) / (columns - 1)];
        if (!isfinite(value)) {
            text[used++] = '?';
            continue;
        }
        const int level = high > low ? (int)lround((value - low) / (high - low) * 7) : 0;
        RBT_ASSERT(level >= 0 && level <= 7);
        if (has_utf8) { /* U+2581 to U+2588 */
            text[used++] = (char)0xE2;
            text[used++] = (char)0x96;
            text[used++] = (char)(0x81 + level);
        } else {
            text[used++] = (char)('0' + level);
        }
    }
    text[used] = '\0';
}

void rbt_progress_finish(struct rbt_progress *progress, bool is_complete)
{
    end_line(progress);
    const bool has_watcher = progress->is_live || progress->mode == RBT_PROGRESS_ALWAYS;
    if (is_complete && has_watcher && progress->point_count > 1) {
        char spark[3 * SPARK_WIDTH_MAX + 1];
        rbt_progress_sparkline(progress->points, progress->point_count, SPARK_WIDTH_MAX,
                               progress->has_utf8, spark);
        fprintf(progress->err, "objective %.4g %s %.4g\n", progress->points[0], spark,
                progress->points[progress->point_count - 1]);
    }
    fflush(progress->err);
}
