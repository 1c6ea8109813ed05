/* proto/numbering.h - which process is which: numbers for those that asked for one, and for
 * those that take any.
 *
 * A job has `workers` workers in processes of equal size, but for the last, which may have fewer.
 * How large the processes are follows from those that have come. Servers are the same with a size
 * of one.
 *
 * Pure functions. Threads: any. */
#ifndef RUBATO_PROTO_NUMBERING_H
#define RUBATO_PROTO_NUMBERING_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/text.h"

struct rbt_numbering_entry {
    int32_t asked;    /* its number, or -1: any */
    uint32_t threads; /* workers here; at least 1 */
    uint32_t index;   /* set by rbt_numbering_place() */
};

struct rbt_numbering_shape {
    uint32_t process_size;
    uint32_t process_count;
    bool is_complete; /* everybody is there */
};

/* Gives every entry its number; those that take any get what is free, in order. It may change with
 * every entry that is added, until all are there. Fails with RBT_E_INVALID and a sentence, and
 * leaves the numbers as they are, if they cannot belong together. `what`: "worker", "server". */
RBT_MUST_USE rbt_status rbt_numbering_place(struct rbt_numbering_entry *entries, uint32_t count,
                                            uint32_t workers, const char *what,
                                            struct rbt_numbering_shape *shape);

/* Adds "worker/0, worker/2" to the text: those that are not there; the first few of them. */
void rbt_numbering_missing(const struct rbt_numbering_entry *entries, uint32_t count,
                           const struct rbt_numbering_shape *shape, const char *what,
                           struct rbt_text_buffer *text);

#endif
