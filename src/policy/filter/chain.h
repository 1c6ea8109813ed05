/* policy/filter/chain.h - the filters of one table and direction, one after the other.
 *
 * The sender applies the chain to a copy of the rows (select, then round) and then writes what is
 * left as bytes; the receiver, which has a chain of the same text, reads them. Writing is exact:
 * all that is lossy has happened before.
 *
 *     st = rbt_chain_apply(chain, &rows, &code);                      // values and keep change
 *     bytes = rbt_chain_put(chain, &elements, to, scratch);           // exact
 *     st = rbt_chain_get(chain, from, bytes, &elements, scratch);     // believes nothing
 *
 * What is left when a push was applied, element by element:
 *
 *     keep     values is what goes, and what the shard will add.
 *     no keep  values is what stays with the sender, to be added to the next update: the rest. It
 *              is zero if the filter that held the element back does not keep it.
 *
 * After a pull: what goes is what the receiver has from now on; what does not go leaves it with
 * what it had.
 *
 * Bytes: one that says which of the steps were taken, then what they left: which elements are there
 * (a bit for each, or gaps if there are few, or nothing if all are), and the elements (as they are,
 * or codes of so many bits after their scale). Around it, as often as a PACK filter paid, its
 * result. elements.c has them bit by bit. Nothing here knows of keys.
 *
 * Threads: a chain is used by one thread at a time. */
#ifndef RUBATO_POLICY_FILTER_CHAIN_H
#define RUBATO_POLICY_FILTER_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/status.h>
#include <rubato/table.h>

#include "base/limits.h"

enum {
    RBT_CHAIN_MAX = 8,      /* filters of a chain */
    RBT_CHAIN_PACK_MAX = 4, /* PACK filters among them */
};

typedef struct rbt_chain rbt_chain;

struct rbt_chain_options {
    const char *text; /* the table's: both directions; NULL, "" and "none": no filters */
    rbt_filter_direction direction;
    const char *table; /* its name */
    uint32_t width;
    rbt_type type; /* SELECT and ROUND need dense RBT_F32 that adds */
    rbt_layout layout;
    rbt_merge merge;
    uint32_t worker_count;
};

/* Fails with RBT_E_INVALID and a sentence, or RBT_E_NOMEM. An empty chain (nothing to do for the
 * elements in this direction) is none: *chain = NULL. */
RBT_MUST_USE rbt_status rbt_chain_create(const struct rbt_chain_options *options,
                                         rbt_chain **chain);
void rbt_chain_destroy(rbt_chain *chain); /* accepts NULL */

/* What the text says, for one direction. */
struct rbt_chain_traits {
    bool names_keys;  /* "keys": lists of keys travel once and are named afterwards */
    bool skips_zeros; /* elements that are zero are not sent: a push without "zeros:0" */
    bool has_select;
    bool has_round;
    bool has_pack;
    bool keeps_rest; /* some SELECT filter of a push does: there is a rest to take care of */
};

/* Checks the text, the parts for the other direction included. `traits` may be NULL. Fails as
 * rbt_chain_create() does. */
RBT_MUST_USE rbt_status rbt_chain_check(const struct rbt_chain_options *options,
                                        struct rbt_chain_traits *traits);
struct rbt_chain_traits rbt_chain_traits(const rbt_chain *chain); /* of NULL: nothing */

/* Applies SELECT and ROUND; see above. `rows->keep` is set to true first. `code` is for
 * rbt_chain_put(). */
RBT_MUST_USE rbt_status rbt_chain_apply(rbt_chain *chain, const struct rbt_filter_rows *rows,
                                        struct rbt_filter_code *code);

/* The same without those SELECT filters that keep their rest, so that nothing waits any longer. */
RBT_MUST_USE rbt_status rbt_chain_release(rbt_chain *chain, const struct rbt_filter_rows *rows,
                                          struct rbt_filter_code *code);

/* The same with ROUND alone: for rows that are sent once, of which nothing can wait. */
RBT_MUST_USE rbt_status rbt_chain_round(rbt_chain *chain, const struct rbt_filter_rows *rows,
                                        struct rbt_filter_code *code);

/* Elements on their way. */
struct rbt_chain_elements {
    size_t count;
    /* (count), aligned to elements. Of put: only read. Of get: written; those that are not there
     * stay as they are, which for a push should be zero. */
    void *values;
    /* (count). Of put: only read; NULL: all go. Of get: written; may be NULL. */
    bool *keep;
    /* Of put: what rbt_chain_apply() said; all zeros: elements go as they are. Of get: not used. */
    struct rbt_filter_code code;
};

/* The most bytes that rbt_chain_put() takes; `scratch` has room for two times that. */
size_t rbt_chain_bound(const rbt_chain *chain, size_t count);

/* Writes elements as bytes and returns how many. Without "zeros:0", elements of a push whose bits
 * are all zero are not there. `to` and `scratch` need not be aligned. */
size_t rbt_chain_put(rbt_chain *chain, const struct rbt_chain_elements *elements, char *to,
                     char *scratch);

/* Reads them; `elements->count` is how many there must be. Takes no memory, however large the bytes
 * say that they are. RBT_E_PROTOCOL if the bytes are not what rbt_chain_put() makes; values and
 * keep may then have been written. */
RBT_MUST_USE rbt_status rbt_chain_get(rbt_chain *chain, const char *from, size_t bytes,
                                      const struct rbt_chain_elements *elements, char *scratch);

#endif
