/* client/set.h - the inside of a working set, for tickets. */
#ifndef RUBATO_CLIENT_SET_H
#define RUBATO_CLIENT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/set.h>

#include "client/client.h"
#include "client/keylist.h"

struct rbt_set {
    rbt_worker *worker;
    struct rbt_worker_table *local;
    struct rbt_keylist *keys;
    uint64_t subscription; /* of its pulls, if the table is eager */
    bool is_in_place;
    bool is_asked;   /* for rows that have not been taken yet */
    size_t elements; /* in each array */
    size_t bytes;
    char *values;
    char *base;         /* values as of the last pull plus what was pushed since, or NULL */
    char *deltas;       /* NULL in place */
    size_t deltas_max;  /* room in deltas, bytes */
    int64_t clock;      /* all updates of clocks < clock were in the last pull */
    uint64_t add_seen;  /* and its add_count */
    uint64_t push_seen; /* the push_count of the worker's table that base accounts for */
    uint64_t *stamps;   /* tables with a rule: by shard, of the last pull; else NULL */
    uint64_t *copies;   /* by shard: names of what filters left it with; NULL: there are none */
    uint64_t turn;      /* how often it has been filtered */
    char *rest;       /* what filters have kept back of it, which pulls leave; NULL: they do not */
    bool is_released; /* the next push of a managed one leaves nothing behind */
    struct rbt_set *next_held; /* of the worker's sets that have a rest */
    uint32_t *changed;         /* scratch for rbt_set_push_few(), or NULL: it does not apply */
    uint64_t *changed_keys;
    struct rbt_managed *managed; /* NULL: its rows go when a clock ends */
};

/* Lists the calls of a pull of the set that nobody waits for, in the worker; returns how many. */
size_t rbt_set_list_calls(rbt_set *set);

/* Of a table without a rule: makes an update of those rows that have deltas, if they are few; says
 * so in `is_done`. */
RBT_MUST_USE rbt_status rbt_set_push_few(rbt_set *set, bool *is_done);
enum { RBT_SET_FEW = 4 }; /* one row in so many */

/* Makes an update of rows, which were computed from copies with these stamps (NULL: from none). */
RBT_MUST_USE rbt_status rbt_set_push_rows(rbt_worker *worker, struct rbt_worker_table *local,
                                          const struct rbt_rows *rows, const uint64_t *stamps);

/* The set is about to go: what filters hold back of it becomes an update, if updates may still be
 * made. */
void rbt_set_let_go(rbt_set *set);

/* Whether a pull would be served by what the set has. */
bool rbt_set_is_fresh(const rbt_set *set, int64_t staleness);

/* Says that the set will be pulled soon; and whether it can then be without waiting for shards that
 * are far away. */
void rbt_set_ask(rbt_set *set, int64_t staleness);
bool rbt_set_has_answer(const rbt_set *set);

#endif
