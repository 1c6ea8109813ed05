/* rubato/filter.h - filters: what makes messages smaller.
 *
 * A table names its filters, one chain for each direction: updates on their way to the servers
 * (push), and rows on their way to the workers (pull). A chain is a list, and order matters:
 *
 *     --filter keys,significant:0.001,fixed:8,lz4          both directions
 *     --filter push.kkt:0.01,push.fixed:8,pull.f16,lz4     each its own
 *
 * Three kinds, which a chain applies in this order, each kind in the order of the list:
 *
 *   SELECT  decides which elements go now. What does not go is an update of zero (push), or leaves
 *           the receiver with what it has (pull). A filter that keeps what it held back says so.
 *   ROUND   changes elements to values that take fewer bits. At most one of a chain. It rounds at
 *           the sender, before anything is sent, so that what then travels is exact, and the sender
 *           knows what the receiver has.
 *   PACK    bytes to fewer bytes, exactly: compressors.
 *
 * Filters see rows only. They never touch keys, clocks, markers or the identity of a message
 * (F14), so that nobody waits because of a filter. SELECT and ROUND are for dense tables of RBT_F32
 * that add.
 *
 * The filters that come with Rubato are written on this interface, and so can yours be: a shared
 * object with the one symbol `rbt_filter` (docs/filters.md, examples/filter.c):
 *
 *     rubato train linear --filter ./mine.so:0.5,lz4 ...
 */
#ifndef RUBATO_FILTER_H
#define RUBATO_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RBT_FILTER_ABI = 1, RBT_FILTER_ARGUMENTS_MAX = 4 };

typedef enum rbt_filter_kind { RBT_FILTER_SELECT, RBT_FILTER_ROUND, RBT_FILTER_PACK } rbt_filter_kind;

typedef enum rbt_filter_direction { RBT_FILTER_PUSH, RBT_FILTER_PULL } rbt_filter_direction;

struct rbt_filter_setup {
    size_t struct_size;
    rbt_filter_direction direction;
    const char *table; /* its name */
    uint32_t width;
    uint32_t worker_count;
    /* What stands behind the name, NAME:A:B, as numbers. */
    uint32_t argument_count;
    double arguments[RBT_FILTER_ARGUMENTS_MAX];
    /* Fails with a sentence: return setup->fail("q is between 0 and 1, not %g", q). */
    rbt_status (*fail)(const char *format, ...);
};

/* Rows to be sent, and what is known about them. */
struct rbt_filter_rows {
    size_t row_count;
    uint32_t width;
    const uint64_t *keys;
    float *values; /* (row_count, width): updates, or the rows themselves; may be changed */
    bool *keep;    /* (row_count, width): all true at first; false: the element does not go now */
    /* What the receiver has, as far as the sender knows; for a push, the worker's own copy of the
     * rows. NULL: nothing is known. */
    const float *known;
    uint32_t worker;
    uint64_t turn; /* how many times the sender has sent these rows before */
    uint64_t seed; /* another one for every call; the same embedded, over processes, simulated */
};

/* A ROUND filter's code for elements; the same at both ends. */
struct rbt_filter_code {
    float scale;   /* chosen by round(), told to the receiver */
    uint32_t bits; /* of each code: 1 to 32 */
};

struct rbt_filter {
    uint32_t abi;
    size_t struct_size;
    const char *name;
    const char *summary; /* one sentence */
    rbt_filter_kind kind;
    /* SELECT: what was held back in a push stays with the sender, added to the next update. */
    bool keeps_rest;

    rbt_status (*create)(const struct rbt_filter_setup *setup, void **self);
    void (*destroy)(void *self); /* may be NULL */

    /* SELECT. */
    rbt_status (*select)(void *self, const struct rbt_filter_rows *rows);

    /* ROUND: changes all elements that are kept to ones that have a code; says with which scale and
     * how many bits. Then: codes of such elements, and elements of codes; exact inverses. */
    rbt_status (*round)(void *self, const struct rbt_filter_rows *rows,
                        struct rbt_filter_code *code);
    void (*encode)(const struct rbt_filter_code *code, const float *values, size_t count,
                   uint32_t *codes);
    void (*decode)(const struct rbt_filter_code *code, const uint32_t *codes, size_t count,
                   float *values);

    /* PACK: returns how many bytes it took, 0 if it does not pay (it then is left out). Unpacking
     * must give exactly `count` bytes; anything else, and whatever is damaged, is RBT_E_PROTOCOL. */
    size_t (*pack)(void *self, const void *from, size_t bytes, void *to, size_t capacity);
    rbt_status (*unpack)(void *self, const void *from, size_t bytes, void *to, size_t count);
};

#if defined(__GNUC__)
#define RBT_FILTER_EXPORT __attribute__((visibility("default")))
#else
#define RBT_FILTER_EXPORT
#endif

#ifdef __cplusplus
}
#endif

#endif
