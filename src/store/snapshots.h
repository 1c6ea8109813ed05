/* store/snapshots.h - parts of rows' states as they were at reads that updates may still come from.
 *
 * A copy is made when a row is about to change and somebody holds a read of it as it is: rows that
 * nobody changes cost nothing. A copy stands for all reads from the row's last change to this one;
 * it goes when the lowest stamp that anybody holds has passed it, or when there are too many. */
#ifndef RUBATO_STORE_SNAPSHOTS_H
#define RUBATO_STORE_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/source.h"

struct rbt_snapshot;

struct rbt_snapshot_row {
    uint64_t changed; /* messages applied when the row had last changed */
    uint64_t newest;  /* number of its newest copy, maybe one that is gone; 0: there was none */
};

/* Copies are a ring, oldest first; numbers count from 1. */
struct rbt_snapshots {
    uint32_t width;
    uint64_t max;                  /* copies at most */
    bool follows_rows;             /* that is what rows ask for */
    struct rbt_snapshot_row *rows; /* by slot */
    uint64_t slot_capacity;
    struct rbt_snapshot *ring; /* (capacity), and behind it their states */
    uint32_t capacity;         /* a power of two, or 0 */
    uint64_t first;            /* number of the oldest copy */
    uint32_t count;
    uint32_t count_max; /* so far */
};

/* With a `max` of 0 it follows how many rows there are: 256 copies for each, of large tables 2^20
 * or 16 for each, whichever is more; and 4096 at least. */
void rbt_snapshots_init(struct rbt_snapshots *snapshots, uint32_t width, uint64_t max);
void rbt_snapshots_deinit(struct rbt_snapshots *snapshots);

/* Room for rows 0 .. slots-1. */
RBT_MUST_USE rbt_status rbt_snapshots_fit(struct rbt_snapshots *snapshots, uint64_t slots);

/* A message that changes rows. */
struct rbt_snapshot_cause {
    uint64_t count;   /* its number */
    uint64_t base;    /* the read that it was computed from */
    uint64_t highest; /* stamp that anybody holds */
};

/* The row is about to be changed; what others hold is copied, and without memory the oldest copy
 * makes room. Returns the row's state at the message's read, or as near to it as is left: a copy,
 * or `state`, which is the present one. */
const float *rbt_snapshots_keep(struct rbt_snapshots *snapshots, uint32_t slot, const float *state,
                                const struct rbt_snapshot_cause *cause);

/* The same of any read, for a row that does not change. */
const float *rbt_snapshots_find(const struct rbt_snapshots *snapshots, uint32_t slot, uint64_t base,
                                const float *state);

/* Nobody holds a stamp below `lowest`. */
void rbt_snapshots_release(struct rbt_snapshots *snapshots, uint64_t lowest);

size_t rbt_snapshots_bytes(const struct rbt_snapshots *snapshots);

/* All copies as a part of a saved shard, of a table of `rows` rows to which `count` messages have
 * been applied. Loading into an empty one of the same width. What makes no sense is refused. */
void rbt_snapshots_save(const struct rbt_snapshots *snapshots, uint64_t rows,
                        struct rbt_sink *sink);
void rbt_snapshots_load(struct rbt_snapshots *snapshots, uint64_t rows, uint64_t count,
                        struct rbt_source *source);

#endif
