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
 * Filters see rows only. They never touch keys, clocks, markers or the identity of a message, so
 * that nobody waits because of a filter. SELECT and ROUND are for dense tables of RBT_F32 that add.
 *
 * The filters that come with Rubato are written on this interface, and so can yours be: a shared
 * object with the one symbol `rbt_filter` (docs/filters.md, examples/filter.c):
 *
 *     static rbt_status drop(void *self, const struct rbt_filter_rows *rows)
 *     {
 *         for (size_t i = 0; i < rows->row_count * rows->width; i++) {
 *             rows->keep[i] &= rows->values[i] > 0;
 *         }
 *         return RBT_OK;
 *     }
 *
 *     RBT_FILTER_EXPORT const struct rbt_filter rbt_filter = {
 *         .abi = RBT_FILTER_ABI, .struct_size = sizeof rbt_filter, .name = "positive",
 *         .summary = "Only positive updates.", .kind = RBT_FILTER_SELECT,
 *         .use = RBT_FILTER_FOR_PUSH, .select = drop};
 *
 *     cc -shared -fPIC -o positive.so positive.c $(pkg-config --cflags rubato)
 *     rubato train linear --filter ./positive.so,lz4 ...
 *
 * An instance belongs to one table, direction and sender or receiver, and is called by one thread
 * at a time. What a filter does must follow from its arguments and from earlier calls alone, so
 * that it does the same embedded, over processes and simulated: randomness comes from `seed`. */
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

/* The first changes whenever this header does in a way that filters notice. */
enum { RBT_FILTER_ABI = 1, RBT_FILTER_ARGUMENTS_MAX = 4 };

typedef enum rbt_filter_kind {
    RBT_FILTER_SELECT,
    RBT_FILTER_ROUND,
    RBT_FILTER_PACK,
} rbt_filter_kind;

typedef enum rbt_filter_direction { RBT_FILTER_PUSH, RBT_FILTER_PULL } rbt_filter_direction;

/* What a filter is of use for. One that is named without a direction is left out of the other. */
typedef enum rbt_filter_use {
    RBT_FILTER_FOR_BOTH,
    RBT_FILTER_FOR_PUSH,
    RBT_FILTER_FOR_PULL,
} rbt_filter_use;

struct rbt_filter_setup {
    size_t struct_size;
    rbt_filter_direction direction;
    const char *table; /* its name */
    uint32_t width;
    uint32_t worker_count;
    /* What stands behind the name, NAME:A:B, as numbers; all are finite. */
    uint32_t argument_count;
    double arguments[RBT_FILTER_ARGUMENTS_MAX];
    /* Fails with a sentence: return setup->fail("q is between 0 and 1, not %g", q). May be kept and
     * used in the other functions as well. */
    rbt_status (*fail)(const char *format, ...);
};

/* Rows to be sent, and what is known about them. The first element of row i is number i * width. */
struct rbt_filter_rows {
    size_t row_count;
    uint32_t width;
    const uint64_t *keys; /* (row_count) */
    /* (row_count, width): updates, or the rows themselves. May be changed where `keep` is true:
     * this is what is sent. */
    float *values;
    /* (row_count, width): all true for the first filter; false: the element does not go now. A
     * filter leaves false what is false. */
    bool *keep;
    /* (row_count, width): what the receiver has, as far as the sender knows; for a push, the
     * worker's own copy of the rows. NULL: nothing is known. */
    const float *known;
    uint32_t worker;
    uint64_t turn; /* how many times the sender has sent these rows before */
    uint64_t seed; /* another one for every call and filter; the same on every driver */
};

/* A ROUND filter's code for elements; the same at both ends. */
struct rbt_filter_code {
    float scale;   /* chosen by round(), told to the receiver */
    uint32_t bits; /* of each code: 1 to 31; 32: elements travel as they are, without a code */
};

/* Functions of other kinds are not looked at. */
struct rbt_filter {
    uint32_t abi; /* RBT_FILTER_ABI */
    uint32_t struct_size;
    const char *name;
    const char *summary; /* one sentence */
    rbt_filter_kind kind;
    rbt_filter_use use;
    /* SELECT: what was held back in a push stays with the sender, added to the next update. If not,
     * it is gone. */
    bool keeps_rest;

    /* Reads the arguments, and stores what all other functions get as `self`, which is NULL at
     * first. Also called to check a text, and then destroyed at once; if it fails, destroy() is not
     * called. May be NULL: the filter takes no arguments. */
    rbt_status (*create)(const struct rbt_filter_setup *setup, void **self);
    void (*destroy)(void *self); /* may be NULL */

    /* SELECT: clears `keep` of what does not go now. */
    rbt_status (*select)(void *self, const struct rbt_filter_rows *rows);

    /* ROUND: changes all elements that are kept, and no others, to ones that have a code; says with
     * which scale and how many bits. Then: codes of such elements, and elements of codes; exact
     * inverses. A damaged message may have any code of so many bits, and any scale. */
    rbt_status (*round)(void *self, const struct rbt_filter_rows *rows,
                        struct rbt_filter_code *code);
    void (*encode)(const struct rbt_filter_code *code, const float *values, size_t count,
                   uint32_t *codes);
    void (*decode)(const struct rbt_filter_code *code, const uint32_t *codes, size_t count,
                   float *values);

    /* PACK: returns how many bytes it took, 0 if it does not pay (it then is left out). Unpacking
     * must give exactly `count` bytes; anything else, and whatever is damaged, is RBT_E_PROTOCOL.
     */
    size_t (*pack)(void *self, const void *from, size_t bytes, void *to, size_t capacity);
    rbt_status (*unpack)(void *self, const void *from, size_t bytes, void *to, size_t count);
};

#define RBT_FILTER_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
}
#endif

#endif
