/* cli/bench_limit.h - what this machine can do at best: bare loops that a benchmark is judged by.
 *
 * Each function does a bounded piece of work and is timed by its caller. Threads: a workload may be
 * used by several at once; they race only where a comment says so. */
#ifndef RUBATO_CLI_BENCH_LIMIT_H
#define RUBATO_CLI_BENCH_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* Two buffers of the same size, copied block by block. */
struct rbt_limit_copy {
    char *from;
    char *to;
    size_t bytes;
    size_t block; /* bytes of one memcpy */
};

RBT_MUST_USE rbt_status rbt_limit_copy_init(struct rbt_limit_copy *copy, size_t bytes,
                                            size_t block);
void rbt_limit_copy_deinit(struct rbt_limit_copy *copy);

/* Copies everything once. */
void rbt_limit_copy_run(struct rbt_limit_copy *copy);

/* `count` different random keys in a hash table of 16-byte slots, at most half full, and lists of
 * some of them in increasing order. Key number j lies in the j-th of `count` equal pieces of the
 * 64-bit numbers, so that any increasing selection is sorted without sorting. */
struct rbt_limit_keys {
    uint64_t count;  /* list_length * group */
    uint64_t group;  /* a list has one key out of each group of this many */
    uint64_t *lists; /* list_count * list_length */
    uint32_t list_count;
    uint32_t list_length;
    uint32_t *order; /* a random order of all numbers, in which tables are filled */
    struct rbt_limit_slot *slots;
    uint64_t mask;
};

/* Rounds `count` down to whole groups. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_limit_keys_init(struct rbt_limit_keys *keys, uint64_t count,
                                            uint32_t list_count);
void rbt_limit_keys_deinit(struct rbt_limit_keys *keys);

uint64_t rbt_limit_key(const struct rbt_limit_keys *keys, uint64_t number);

/* Looks up one list, many probes under way at once. Returns a sum, so that nothing is left out. */
uint64_t rbt_limit_probe(const struct rbt_limit_keys *keys, uint32_t list);

/* Adds 1 to the four-byte counters of `count` random slots of the table, many under way at once.
 * `turn` says which come next. Threads may lose each other's additions, which nobody reads. */
void rbt_limit_random(struct rbt_limit_keys *keys, uint64_t *turn, size_t count);

#endif
