/* store/versions.h - updates gathered by version, for rules that say later what they mean for a
 * row.
 *
 * A version has a part for each row that was updated in it, found by the row's slot. While few of
 * the table's rows have one, each takes its slot and some room for more; from one in sixteen on
 * parts are paged, and take only a bit for each row besides (Jiang et al. 2017, section 5.3, switch
 * at a half, between slots and all rows; pages are smaller than both). */
#ifndef RUBATO_STORE_VERSIONS_H
#define RUBATO_STORE_VERSIONS_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/source.h"

struct rbt_version {
    uint64_t id;
    uint64_t messages; /* that were mapped to it */
    int64_t clock;     /* the highest of them, */
    int64_t first;     /* and the lowest */
    uint64_t count;    /* rows that have a part */
    uint64_t capacity; /* places or pages */
    uint32_t *slots;   /* of places, RBT_SLOT_NONE: free; NULL if paged */
    float *parts;      /* (capacity, width); NULL if paged */
    size_t bytes;      /* that all of this takes */
    uint64_t **pages;  /* NULL: not paged; a page without parts is NULL */
};

struct rbt_versions {
    uint32_t width;
    uint32_t words;           /* of a page's bits: a power of two */
    uint32_t page_shift;      /* a page has 2^page_shift slots */
    struct rbt_version *live; /* by id */
    size_t count;
    size_t capacity;
    size_t count_max; /* so far */
};

void rbt_versions_init(struct rbt_versions *versions, uint32_t width);
void rbt_versions_deinit(struct rbt_versions *versions);

/* The version, made if it is not there. Valid until the next is made or the first dropped. Fails
 * with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_versions_at(struct rbt_versions *versions, uint64_t id,
                                        struct rbt_version **version);

/* The part of the row in this slot, made of zeros if there is none; `rows` is how many rows the
 * table has. Valid until the next is made. NULL: no memory. */
float *rbt_versions_part(const struct rbt_versions *versions, struct rbt_version *version,
                         uint32_t slot, uint64_t rows);

/* The same, or NULL if there is none. */
const float *rbt_versions_peek(const struct rbt_versions *versions,
                               const struct rbt_version *version, uint32_t slot);

/* The next part at place *place or behind it, with its slot, and the place after it; NULL: no more.
 * Places count from 0. */
const float *rbt_versions_next(const struct rbt_versions *versions,
                               const struct rbt_version *version, uint64_t *place, uint32_t *slot);

/* Forgets the first version. */
void rbt_versions_drop(struct rbt_versions *versions);

size_t rbt_versions_bytes(const struct rbt_versions *versions);

/* Version number `at` of those that are live, as a part of a saved shard, with its layout, so that
 * parts come in the same order again. Loading adds one behind all others, of a table of `rows`
 * rows. What makes no sense is refused. */
void rbt_versions_save(const struct rbt_versions *versions, size_t at, struct rbt_sink *sink);
void rbt_versions_load(struct rbt_versions *versions, struct rbt_source *source, uint64_t rows);

#endif
