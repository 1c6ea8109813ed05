/* sim/message.h - what travels between simulated nodes: copies of events, and their answers.
 *
 * A message owns everything it points to, in one block. It is counted: the sender keeps it until it
 * is acknowledged, and every copy on the network holds it, too. Its size on the network is that of
 * a plain encoding: a header, 8 bytes per key, values as they are; of tables with filters, that
 * of theirs (sim/weigh.h). */
#ifndef RUBATO_SIM_MESSAGE_H
#define RUBATO_SIM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "client/driver.h"
#include "core/shard_event.h"
#include "math/merge.h"

enum rbt_message_kind {
    RBT_MESSAGE_PUSH,    /* worker to server: updates, marker, or LEAVE; of the stream */
    RBT_MESSAGE_PULL,    /* worker to server: PULL or SCAN; a request */
    RBT_MESSAGE_ROWS,    /* server to worker: the answer */
    RBT_MESSAGE_ACK,     /* server to worker: the stream has arrived so far */
    RBT_MESSAGE_PARKED,  /* server to worker: the request is here; the answer takes time */
    RBT_MESSAGE_REFUSED, /* server to worker: it was given up */
    RBT_MESSAGE_BEAT,    /* anybody to the coordinator: I am here */
    RBT_MESSAGE_EXPEL,   /* coordinator to server: the worker is gone; a request */
    RBT_MESSAGE_DONE,    /* server to coordinator: the answer */
    RBT_MESSAGE_VERSION, /* server to coordinator: how far a table is; may be lost */
    RBT_MESSAGE_STABLE,  /* coordinator to a process: how far it is everywhere; the same */
    RBT_MESSAGE_MERGED,  /* aggregator to server: pushes of several workers with their sum */
    RBT_MESSAGE_TAKEN,   /* server to aggregator: all of them are in */
    RBT_MESSAGE_SPLIT,   /* server to aggregator: it has some of them; send them one by one */
};

/* For traces; in the order of enum rbt_message_kind. */
extern const char *const rbt_message_names[];

/* What messages need to know of a table. */
struct rbt_message_table {
    size_t element_size;
    size_t row_size; /* of a dense row */
    struct rbt_merge_kind kind;
    bool is_sparse;
    bool has_rule;
    bool is_synchronised;
    struct rbt_weigher *weigher; /* NULL: it has no filters */
};

struct rbt_stash;
struct rbt_message_pool;

struct rbt_message {
    enum rbt_message_kind kind;
    uint32_t references;
    uint32_t from; /* nodes */
    uint32_t to;
    uint32_t worker;
    uint32_t shard;
    size_t bytes;                 /* on the network */
    uint64_t id;                  /* of a request, and of its answer */
    struct rbt_shard_event event; /* PUSH and PULL; ROWS: what was asked, with the answer in it */

    /* From a server: what it has, as of when it sent this. */
    int64_t floor;
    uint64_t version;
    uint64_t arrived; /* of the worker's stream */
    uint64_t settled; /* of it, shown */

    uint32_t table; /* VERSION and STABLE: of which `version` this is */

    /* ROWS. */
    bool was_parked;
    bool is_withheld;  /* there are no rows: they must be asked for when they are wanted */
    uint64_t stamp;    /* of tables with a rule */
    rbt_time answered; /* when the server could */
    struct rbt_batch batch;
    struct rbt_shard_early early; /* of an early read; also of its request */
    uint64_t copy;                /* of tables with filters: which the reader has; and of PULL */
    struct rbt_shard_sent sent;   /* the same: what of the rows goes */
    struct rbt_shard_scan scan;
    bool has_elements; /* of a sparse row, in blocks of their own; false: there was no memory */
    uint32_t *elements;
    char *values;
    size_t element_count;
    size_t element_size;

    /* PULL, at its worker: who waits for the answer. */
    struct rbt_driver_call *call;
    struct rbt_stash *stash;
    bool is_ahead; /* nobody waits for it yet */

    /* MERGED: counted; the event has the sum. Of a part the receiver looks only at whose it is. */
    struct rbt_message **parts;
    uint32_t part_count;

    uint32_t on_way;           /* copies of it, and of answers to it, on the network or kept by a
                                  server or an aggregator: there is no need to send it again */
    struct rbt_message *about; /* counted: what this answers; or NULL */

    struct rbt_message *next; /* in a server's list of those that came too early, or in a pool */
    struct rbt_message_pool *pool; /* where it goes back to, or NULL */
};

/* Messages without contents, to be used again. Starts as all zero. */
struct rbt_message_pool {
    struct rbt_message *first;
};

/* A message without contents. NULL if there is no memory. */
struct rbt_message *rbt_message_create(struct rbt_message_pool *pool, enum rbt_message_kind kind);
void rbt_message_free_pool(struct rbt_message_pool *pool); /* all messages are back in it */

/* A PUSH or PULL message with a copy of the event. NULL if there is no memory. */
struct rbt_message *rbt_message_copy(const struct rbt_shard_event *event,
                                     const struct rbt_message_table *tables);

/* A MERGED message with a copy of the event, which holds the sum, and of the list of parts, all of
 * them to the same server. NULL if there is no memory. */
struct rbt_message *rbt_message_merge(const struct rbt_shard_event *event,
                                      struct rbt_message *const *parts, uint32_t part_count,
                                      const struct rbt_message_table *tables);

/* An answer to a PULL message with room for the rows; its event can be stepped. After that,
 * rbt_message_weigh() says what it weighs. NULL if there is no memory. */
struct rbt_message *rbt_message_answer(const struct rbt_message *request,
                                       const struct rbt_message_table *tables);
void rbt_message_weigh(struct rbt_message *answer, const struct rbt_message_table *tables);

/* Whether the answer is to a request for the same rows as `event`. */
bool rbt_message_fits(const struct rbt_message *answer, const struct rbt_shard_event *event);

/* Writes the answer to where the event wants it. */
void rbt_message_unpack(const struct rbt_message *answer, const struct rbt_shard_event *event,
                        const struct rbt_message_table *tables);

void rbt_message_ref(struct rbt_message *message);
void rbt_message_unref(struct rbt_message *message); /* accepts NULL */

#endif
