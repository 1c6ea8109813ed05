/* launch/relay.h - what a child process prints, on its way to our terminal.
 *
 * Lines of most children are printed whole, with the child's name in front. One child is plain: its
 * bytes go through as they come, so that its progress line can redraw itself. Of every child some
 * lines are kept back and remembered: complaints ("rubato: error: ..."), because the launcher says
 * in the end what went wrong, once; and the lines by which a child says where it listens, and one
 * on another host who it is.
 *
 * Threads: none. */
#ifndef RUBATO_LAUNCH_RELAY_H
#define RUBATO_LAUNCH_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"

enum { RBT_RELAY_LAST = 3, RBT_RELAY_LINE = 1024 };

/* What is remembered of a child. */
struct rbt_relay_record {
    char error[RBT_RELAY_LINE];   /* its first complaint, without "rubato: error: "; or "" */
    char hint[RBT_RELAY_LINE];    /* what to do about it, or "" */
    char address[RBT_RELAY_LINE]; /* where it says that it listens, or "" */
    int64_t pid;                  /* on its own host, if it has said so; else 0 */
    char last[RBT_RELAY_LAST][RBT_RELAY_LINE]; /* its last lines, a ring */
    uint32_t line_count;
};

/* Where all children print. */
struct rbt_relay_screen {
    FILE *err;
    bool is_live; /* a terminal: an open line may be wiped, it is drawn again */
    bool is_open; /* the last thing printed was not a whole line */
};

/* One stream of one child; what is not given is zero. */
struct rbt_relay {
    const char *name; /* in front of every line; NULL: plain */
    struct rbt_relay_screen *screen;
    struct rbt_relay_record *record;
    struct rbt_text_buffer line; /* the line that is not complete yet */
    size_t shown;                /* how much of it has been printed already */
};

/* Takes bytes as they come; at the end, the line that was never finished. */
void rbt_relay_take(struct rbt_relay *relay, const char *bytes, size_t size);
void rbt_relay_finish(struct rbt_relay *relay);

/* Frees the memory. */
void rbt_relay_deinit(struct rbt_relay *relay);

/* Prints what was kept back as a line like any other: the job has ended well in spite of it. */
void rbt_relay_release(struct rbt_relay_screen *screen, const char *name,
                       const struct rbt_relay_record *record);

/* Adds "; its last lines were: ..." or what else is to be said. */
void rbt_relay_describe(const struct rbt_relay_record *record, struct rbt_text_buffer *text);

#endif
