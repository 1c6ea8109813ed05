/* rubato/priority.h - priorities: which of the rows that have changed are sent first when there is
 * not bandwidth enough for all.
 *
 * Rubato has "oldest", "walk", "random", "magnitude" and "relative", and "sweep", which does not
 * look at what has changed. One of your own is a shared object with one symbol, which needs to be
 * linked with nothing (examples/priority.c):
 *
 *     static float score(const struct rbt_priority_row *row)
 *     {
 *         float largest = 0;
 *         for (uint32_t i = 0; i < row->width; i++) {
 *             largest = fmaxf(largest, fabsf(row->change[i]));
 *         }
 *         return largest;
 *     }
 *
 *     RBT_PRIORITY_EXPORT const struct rbt_priority rbt_priority = {
 *         .abi = RBT_PRIORITY_ABI, .struct_size = sizeof rbt_priority, .name = "largest",
 *         .summary = "The row with the largest change of an element.", .score = score};
 *
 *     cc -O2 -shared -fPIC -o largest.so largest.c $(pkg-config --cflags rubato)
 *
 * A priority says what goes first, never what may be left out: at the end of a clock everything is
 * sent. Rows whose scores are within an eighth of an octave count as equal, and of these the oldest
 * goes first. score() is called whenever a row changes, from several threads at a time; what it
 * returns must follow from the row alone, so that a job does the same when it is simulated. */
#ifndef RUBATO_PRIORITY_H
#define RUBATO_PRIORITY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RBT_PRIORITY_ABI = 1 }; /* changes whenever this header does in a way that users notice */

/* A row that has changed. */
struct rbt_priority_row {
    uint64_t key;
    uint32_t width;
    const float *change; /* (width): what has changed in it since it was last sent */
    const float *value;  /* (width): what it is as far as the sender knows; NULL: not known */
};

struct rbt_priority {
    uint32_t abi; /* RBT_PRIORITY_ABI */
    uint32_t struct_size;
    const char *name;
    const char *summary; /* one sentence; may be NULL */
    /* How much it matters that the row is sent: 0 or more; what is not a number counts as
     * infinite. */
    float (*score)(const struct rbt_priority_row *row);
};

#define RBT_PRIORITY_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
}
#endif

#endif
