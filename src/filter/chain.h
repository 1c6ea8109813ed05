/* filter/chain.h - the filters of one table and direction, one after the other.
 *
 * The sender applies the chain to a copy of the rows (select, then round) and then writes what is
 * left as bytes; the receiver, which has the same chain, reads them. Writing is exact: all that is
 * lossy has happened before.
 *
 *     st = rbt_chain_apply(chain, &rows, &code);             // values and keep change
 *     n = rbt_chain_put(chain, &elements, to, scratch);      // exact
 *     st = rbt_chain_get(chain, from, bytes, &elements);     // believes nothing
 *
 * Bytes: a byte that says which of the steps were taken, then what they left:
 * which elements are there (a bit for each, left out if all are), the elements (4 bytes each, or
 * codes of so many bits, after their scale), and around it, as often as a PACK filter paid, its
 * result. Nothing here knows of keys. */
#ifndef RUBATO_FILTER_CHAIN_H
#define RUBATO_FILTER_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/status.h>

enum { RBT_FILTER_TEXT_MAX = 1024, RBT_CHAIN_MAX = 8 };

typedef struct rbt_chain rbt_chain;

struct rbt_chain_options {
    const char *text; /* the table's: both directions */
    rbt_filter_direction direction;
    const char *table;
    uint32_t width;
    uint32_t element_size; /* 4 or 8; SELECT and ROUND need 4 and `is_real` */
    bool is_real;          /* dense RBT_F32 that adds */
    uint32_t worker_count;
};

/* Fails with RBT_E_INVALID and a sentence. An empty chain (no filter for the direction) is none:
 * *chain = NULL. */
RBT_MUST_USE rbt_status rbt_chain_create(const struct rbt_chain_options *options,
                                         rbt_chain **chain);
void rbt_chain_destroy(rbt_chain *chain); /* accepts NULL */

/* What the text says about things that are not elements. */
struct rbt_chain_traits {
    bool names_keys;   /* "keys": lists of keys travel once and are named afterwards */
    bool skips_zeros;  /* "zeros": elements that are zero are not sent (push) */
    bool has_select;   /* for this direction */
    bool has_round;
    bool has_pack;
    bool keeps_rest;   /* some SELECT filter does */
};
RBT_MUST_USE rbt_status rbt_chain_check(const struct rbt_chain_options *options,
                                        struct rbt_chain_traits *traits);

/* Applies SELECT and ROUND. `code` is set if there is a ROUND; else its bits are 32. */
RBT_MUST_USE rbt_status rbt_chain_apply(const rbt_chain *chain, const struct rbt_filter_rows *rows,
                                        struct rbt_filter_code *code);

/* Elements on their way. */
struct rbt_chain_elements {
    size_t count;
    uint32_t element_size;
    const void *values;  /* of get: where to write them; those that are not there stay as they are */
    const bool *keep;    /* NULL: all are sent. Of get: written, room for `count`, or NULL */
    struct rbt_filter_code code;
};

/* Writes elements as bytes; `bound` is the most that it can take, for `to` and for `scratch` (two
 * times that). Returns how many it took. */
size_t rbt_chain_bound(const rbt_chain *chain, size_t count, uint32_t element_size);
size_t rbt_chain_put(const rbt_chain *chain, const struct rbt_chain_elements *elements, char *to,
                     char *scratch);

/* Reads them; `elements->count` is how many there must be. `scratch` as above. RBT_E_PROTOCOL if
 * the bytes are not what rbt_chain_put() makes. */
RBT_MUST_USE rbt_status rbt_chain_get(const rbt_chain *chain, const char *from, size_t bytes,
                                      struct rbt_chain_elements *elements, char *scratch);

#endif
