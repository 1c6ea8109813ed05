/* proto/desk.h - a shard and what lies beside it: names and shapes of its tables, lists of keys,
 * requests that wait. The inside of proto/host.h, shared by host.c (streams), host_tables.c
 * (tables) and reads.c (requests for rows). Threads: the shard's. */
#ifndef RUBATO_PROTO_DESK_H
#define RUBATO_PROTO_DESK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/manager.h"
#include "core/shard_event.h"
#include "policy/filter/chain.h"
#include "policy/priority/priority.h"
#include "proto/bounds.h"
#include "proto/host.h"
#include "proto/lists.h"
#include "store/shard.h"
#include "wire/message.h"

struct rbt_desk_table {
    bool is_open;
    bool is_sparse;
    bool has_rule;
    bool is_synchronised;
    uint64_t reported; /* version, if it is */
    uint32_t element_size;
    uint32_t width;
    struct rbt_priority_policy priority; /* if it has one */
    struct rbt_wire_table as_told;       /* by whoever opened it */
    rbt_chain *push; /* that updates were filtered with; NULL: with none that makes bytes of them */
    rbt_chain *pull; /* the same of rows that are read */
};

enum { RBT_DESK_VIEWS_MAX = 32 };

/* A request for rows. */
struct rbt_desk_request {
    struct rbt_guest *guest; /* NULL: the slot is free */
    uint64_t id;
    bool is_scan;
    bool was_parked;
    uint32_t table;
    struct rbt_list *list; /* PULL; a reference once it is kept */
    struct rbt_wire_pull pull;
    struct rbt_wire_scan scan;
    uint32_t next;     /* free slot, or the next one of its guest; or `none` */
    uint32_t previous; /* the same, of its guest */
};

struct rbt_host {
    struct rbt_host_options options;
    rbt_time now; /* of the message at hand, for the budget */
    char name[RBT_WIRE_NAME_MAX + 32];
    rbt_shard *shard;
    struct rbt_shard_effect *effects; /* slot_room + 1 */
    uint32_t *ready;                  /* the same; slots to be answered */
    int64_t floor;
    uint64_t version;
    uint64_t run;        /* how often clocks were set back */
    uint64_t duplicates; /* batches that had come before */
    rbt_status failure;  /* of the job here, and why */
    struct rbt_error_record why;
    struct rbt_desk_table **tables; /* table_max; NULL: nobody has opened it yet */
    uint32_t table_count;
    bool has_synchronised;    /* some of them are */
    struct rbt_bounds bounds; /* how stale they may be, as the coordinator has said */
    struct rbt_lists lists;
    /* Requests that wait: those in slots are known to the shard, the others wait for a slot. */
    struct rbt_desk_request *slots;
    uint32_t slot_max;  /* that there may be */
    uint32_t slot_room; /* that there is memory for */
    uint32_t free_slot;
    uint32_t parked_count; /* slots that the shard knows */
    struct rbt_desk_request *queue;
    size_t queue_count;
    size_t queue_max;
    uint64_t waiting_keys; /* copies that those hold */
    /* Scratch, for the message at hand. */
    struct rbt_list **keys; /* one for each batch whose keys were written out */
    size_t key_max;
    struct rbt_batch *batches;
    size_t batch_max;
    char *values; /* unpacked */
    size_t values_max;
    uint64_t *applied; /* worker_count */
    uint64_t stamp;    /* of the read at hand */
    uint64_t limit;    /* the same: versions below this one, if it wants some only */
    uint64_t
        copy_known; /* the same: the name of what its reader has, of what it will have, and of */
    uint64_t copy;  /* what the answer is a change of */
    uint64_t copy_base;
    char *filtered; /* bytes of rows and what making them takes */
    size_t filtered_max;
    bool *keep; /* elements that go */
    size_t keep_max;
    /* What may be sent early, of tables that have a priority; rate 0 if there is none. */
    struct rbt_comm comm;
    /* Answers whose rows are sent from where they lie; copied before they change. */
    struct rbt_block *views[RBT_DESK_VIEWS_MAX];
    uint32_t view_count;
};

/* Steps the shard. Returns how many slots in host->ready may be answered now. */
size_t rbt_desk_step(rbt_host *host, const struct rbt_shard_event *event,
                     struct rbt_shard_outbox *out);

/* The flags of a message that says how far the guest's stream has arrived. */
uint16_t rbt_desk_flags(const rbt_host *host, const struct rbt_guest *guest);

/* The list of keys of a view: the guest's of that name, or the scratch list `at`. */
RBT_MUST_USE rbt_status rbt_desk_keys(rbt_host *host, const struct rbt_guest *guest,
                                      const struct rbt_wire_view *view, size_t at,
                                      struct rbt_list **list);

/* The open table with this number. */
RBT_MUST_USE rbt_status rbt_desk_table(const rbt_host *host, uint32_t table,
                                       const struct rbt_desk_table **found);

/* At least `bytes` of scratch for values. */
RBT_MUST_USE rbt_status rbt_desk_values(rbt_host *host, size_t bytes);

/* The answer to TABLE, RESET and STATS. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_desk_send_done(const rbt_host *host, struct rbt_guest *guest,
                                           uint64_t id, const struct rbt_wire_done *done);

/* --- host_tables.c --------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_desk_receive_table(rbt_host *host, struct rbt_guest *guest,
                                               const struct rbt_frame *frame,
                                               struct rbt_wire_cursor *body);

/* --- filters.c ------------------------------------------------------------------------------- */

/* Makes the filters of a table that is about to be opened, and forgets them. RBT_E_INVALID: this
 * process does not have them. */
RBT_MUST_USE rbt_status rbt_desk_open_filters(const rbt_host *host, struct rbt_desk_table *table);
void rbt_desk_close_filters(struct rbt_desk_table *table);

/* Reads updates that were filtered; what was left out is zero. `values` has room for all of them.
 * Fails with RBT_E_PROTOCOL. */
RBT_MUST_USE rbt_status rbt_desk_unfilter(rbt_host *host, const struct rbt_desk_table *table,
                                          const struct rbt_wire_view *view, void *values);

/* Room for which of so many elements go; NULL if filters do not select among them. */
bool *rbt_desk_keep(rbt_host *host, const struct rbt_desk_table *table, size_t count);

/* Makes bytes of rows that are sent, if the table has filters that do, and they become fewer. */
bool rbt_desk_filter(rbt_host *host, const struct rbt_desk_table *table,
                     const struct rbt_shard_sent *sent, struct rbt_wire_rows *rows);

/* Which copy the filtered rows are a change of; 0: of none, they are whole. */
uint64_t rbt_desk_base(const rbt_host *host, const struct rbt_shard_sent *sent, size_t count);

/* --- reads.c --------------------------------------------------------------------------------- */

/* Rows are about to change: answers that still point to them get copies. */
void rbt_reads_own_views(rbt_host *host);

RBT_MUST_USE rbt_status rbt_reads_init(rbt_host *host);
void rbt_reads_deinit(rbt_host *host);
RBT_MUST_USE rbt_status rbt_reads_pull(rbt_host *host, struct rbt_guest *guest,
                                       const struct rbt_frame *frame, struct rbt_wire_cursor *body);
RBT_MUST_USE rbt_status rbt_reads_scan(rbt_host *host, struct rbt_guest *guest,
                                       const struct rbt_frame *frame, struct rbt_wire_cursor *body);

/* Answers `count` slots of host->ready, and what has waited for a slot. */
RBT_MUST_USE rbt_status rbt_reads_answer_ready(rbt_host *host, size_t count);

/* Forgets what a guest has asked for, or everybody. */
void rbt_reads_forget(rbt_host *host, const struct rbt_guest *guest);

#endif
