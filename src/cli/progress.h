/* cli/progress.h - shows how training goes: one line that redraws itself on a terminal, plain lines
 * every few seconds elsewhere, and the curve of the objective at the end. */
#ifndef RUBATO_CLI_PROGRESS_H
#define RUBATO_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "algo/frame/algo.h"

/* The values of --progress, in the order of its choices. */
enum rbt_progress_mode {
    RBT_PROGRESS_AUTO,   /* redraw on a terminal, plain lines elsewhere */
    RBT_PROGRESS_ALWAYS, /* as on a terminal, and every event where it is none */
    RBT_PROGRESS_NEVER,  /* nothing */
};

enum { RBT_PROGRESS_POINTS = 512 }; /* objectives that are remembered; older ones are thinned out */

struct rbt_progress {
    FILE *err;
    enum rbt_progress_mode mode;
    bool is_live;    /* redraws its line */
    bool has_utf8;   /* may use block characters */
    bool is_virtual; /* events tell virtual time */
    bool is_open;    /* the cursor stands in an unfinished line */
    int width;       /* of the terminal */
    double epochs;   /* in all, 0 when not known */
    double began;    /* real seconds, when the data was loaded */
    double shown_at; /* seconds since then, of the last plain line */
    double noted_at; /* the same, of the last note */
    double points[RBT_PROGRESS_POINTS];
    size_t point_count;
    size_t stride; /* every how manyth event is remembered */
    size_t events;
};

/* What is to be shown where. */
struct rbt_progress_options {
    FILE *err;
    enum rbt_progress_mode mode;
    double epochs;   /* in all, 0 when not known */
    bool is_virtual; /* events tell virtual time */
};
void rbt_progress_init(struct rbt_progress *progress, const struct rbt_progress_options *options);

void rbt_progress_loaded(struct rbt_progress *progress, double seconds, uint64_t examples,
                         uint64_t parameters);
void rbt_progress_event(struct rbt_progress *progress, const struct rbt_train_event *event);

/* A node was noticed to be "up", "suspect" or "down". */
void rbt_progress_node(struct rbt_progress *progress, double t, const char *node,
                       const char *state);

/* Ends the line if one is open, and shows the curve if `is_complete` and there is someone to look.
 */
void rbt_progress_finish(struct rbt_progress *progress, bool is_complete);

/* The values as a line of at most `width` characters, the smallest at the bottom: block characters,
 * or digits 0 to 7 without UTF-8. `text` gets at most 3 * width + 1 bytes. */
void rbt_progress_sparkline(const double *values, size_t count, size_t width, bool has_utf8,
                            char *text);

#endif
