/* client/flush.h - changed rows become updates: with a rule, one for each read that they name. */
#ifndef RUBATO_CLIENT_FLUSH_H
#define RUBATO_CLIENT_FLUSH_H

#include <stddef.h>
#include <stdint.h>

#include "client/client.h"

/* A changed row and the stamp that its update names. */
struct rbt_tagged {
    uint64_t key;
    uint64_t stamp; /* of a table without a rule: 0 */
    uint32_t shard;
    uint32_t row;
    uint32_t rank;  /* of the stamp among those of the shard; filled in */
    uint32_t place; /* of the key among those of the list; the same */
};

struct rbt_tagged_rows {
    struct rbt_tagged *list; /* in any order; is sorted */
    size_t count;
    const char *values;                 /* of row r at r * row_size */
    uint64_t *keys;                     /* (count): scratch */
    const struct rbt_filter_code *code; /* of values that have been filtered; NULL: they have not */
};

/* Makes updates of dense rows. On failure there are none. */
RBT_MUST_USE rbt_status rbt_worker_append_tagged(rbt_worker *worker, struct rbt_worker_table *local,
                                                 const struct rbt_tagged_rows *rows);

#endif
