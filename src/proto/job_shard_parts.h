/* proto/job_shard_parts.h - a shard and what lies beside it: names and shapes of its tables, lists
 * of keys, requests that wait. The inside of proto/job_shard.h, shared by job_shard.c (streams),
 * job_shard_tables.c (tables) and reads.c (requests for rows). Threads: the shard's. */
#ifndef RUBATO_PROTO_JOB_SHARD_PARTS_H
#define RUBATO_PROTO_JOB_SHARD_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/manager.h"
#include "core/shard_event.h"
#include "policy/filter/chain.h"
#include "policy/priority/priority.h"
#include "proto/bounds.h"
#include "proto/job_shard.h"
#include "proto/lists.h"
#include "store/shard.h"
#include "wire/message.h"

/* What a job shard has of a table. */
struct rbt_job_shard_entry {
    bool is_open;
    uint64_t reported;                   /* version, if it is synchronised */
    struct rbt_priority_policy priority; /* if it has one */
    struct rbt_spec spec;                /* as the first process told it */
    rbt_chain *push; /* that updates were filtered with; NULL: with none that makes bytes of them */
    rbt_chain *pull; /* the same of rows that are read */
};

enum { RBT_JOB_SHARD_VIEWS_MAX = 32 };

/* A request for rows. */
struct rbt_job_request {
    struct rbt_session *session; /* NULL: the slot is free */
    uint64_t id;
    bool is_scan;
    bool was_parked;
    uint32_t table;
    struct rbt_list *list; /* PULL; a reference once it is kept */
    struct rbt_wire_pull pull;
    struct rbt_wire_scan scan;
    uint32_t next;     /* free slot, or the next one of its session; or `none` */
    uint32_t previous; /* the same, of its session */
};

struct rbt_job_shard {
    struct rbt_job_shard_options options;
    rbt_time now; /* of the message at hand, for the budget */
    char name[RBT_NAME_MAX + 32];
    rbt_shard *shard;
    struct rbt_shard_effect *effects; /* slot_room + 1 */
    uint32_t *ready;                  /* the same; slots to be answered */
    int64_t floor;
    uint64_t version;
    uint64_t run;        /* how often clocks were set back */
    uint64_t duplicates; /* batches that had come before */
    rbt_status failure;  /* of the job here, and why */
    struct rbt_error_record why;
    struct rbt_job_shard_entry **tables; /* table_max; NULL: nobody has opened it yet */
    uint32_t table_count;
    bool has_synchronised;    /* some of them are */
    struct rbt_bounds bounds; /* how stale they may be, as the coordinator has said */
    struct rbt_lists lists;
    /* Requests that wait: those in slots are known to the shard, the others wait for a slot. */
    struct rbt_job_request *slots;
    uint32_t slot_max;  /* that there may be */
    uint32_t slot_room; /* that there is memory for */
    uint32_t free_slot;
    uint32_t parked_count; /* slots that the shard knows */
    struct rbt_job_request *queue;
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
    struct rbt_block *views[RBT_JOB_SHARD_VIEWS_MAX];
    uint32_t view_count;
};

/* Steps the shard. Returns how many slots in job->ready may be answered now. */
size_t rbt_job_shard_step(rbt_job_shard *job, const struct rbt_shard_event *event,
                          struct rbt_shard_outbox *out);

/* The flags of a message that says how far the session's stream has arrived. */
uint16_t rbt_job_shard_flags(const rbt_job_shard *job, const struct rbt_session *session);

/* The list of keys of a view: the session's of that name, or the scratch list `at`. */
RBT_MUST_USE rbt_status rbt_job_shard_keys(rbt_job_shard *job, const struct rbt_session *session,
                                           const struct rbt_wire_view *view, size_t at,
                                           struct rbt_list **list);

/* The open table with this number. */
RBT_MUST_USE rbt_status rbt_job_shard_table(const rbt_job_shard *job, uint32_t table,
                                            const struct rbt_job_shard_entry **found);

/* At least `bytes` of scratch for values. */
RBT_MUST_USE rbt_status rbt_job_shard_values(rbt_job_shard *job, size_t bytes);

/* The answer to TABLE, RESET and STATS. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_job_shard_send_done(const rbt_job_shard *job,
                                                struct rbt_session *session, uint64_t id,
                                                const struct rbt_wire_done *done);

/* --- job_shard_tables.c
 * --------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_job_shard_receive_table(rbt_job_shard *job, struct rbt_session *session,
                                                    const struct rbt_frame *frame,
                                                    struct rbt_wire_cursor *body);

/* --- filters.c ------------------------------------------------------------------------------- */

/* Makes the filters of a table that is about to be opened, and forgets them. RBT_E_INVALID: this
 * process does not have them. */
RBT_MUST_USE rbt_status rbt_job_shard_open_filters(const rbt_job_shard *job,
                                                   struct rbt_job_shard_entry *table);
void rbt_job_shard_close_filters(struct rbt_job_shard_entry *table);

/* Reads updates that were filtered; what was left out is zero. `values` has room for all of them.
 * Fails with RBT_E_PROTOCOL. */
RBT_MUST_USE rbt_status rbt_job_shard_unfilter(rbt_job_shard *job,
                                               const struct rbt_job_shard_entry *table,
                                               const struct rbt_wire_view *view, void *values);

/* Room for which of so many elements go; NULL if filters do not select among them. */
bool *rbt_job_shard_keep(rbt_job_shard *job, const struct rbt_job_shard_entry *table, size_t count);

/* Makes bytes of rows that are sent, if the table has filters that do, and they become fewer. */
bool rbt_job_shard_filter(rbt_job_shard *job, const struct rbt_job_shard_entry *table,
                          const struct rbt_shard_sent *sent, struct rbt_wire_rows *rows);

/* Which copy the filtered rows are a change of; 0: of none, they are whole. */
uint64_t rbt_job_shard_base(const rbt_job_shard *job, const struct rbt_shard_sent *sent,
                            size_t count);

/* --- reads.c --------------------------------------------------------------------------------- */

/* Rows are about to change: answers that still point to them get copies. */
void rbt_reads_own_views(rbt_job_shard *job);

RBT_MUST_USE rbt_status rbt_reads_init(rbt_job_shard *job);
void rbt_reads_deinit(rbt_job_shard *job);
RBT_MUST_USE rbt_status rbt_reads_pull(rbt_job_shard *job, struct rbt_session *session,
                                       const struct rbt_frame *frame, struct rbt_wire_cursor *body);
RBT_MUST_USE rbt_status rbt_reads_scan(rbt_job_shard *job, struct rbt_session *session,
                                       const struct rbt_frame *frame, struct rbt_wire_cursor *body);

/* Answers `count` slots of job->ready, and what has waited for a slot. */
RBT_MUST_USE rbt_status rbt_reads_answer_ready(rbt_job_shard *job, size_t count);

/* Forgets what a session has asked for, or everybody. */
void rbt_reads_forget(rbt_job_shard *job, const struct rbt_session *session);

#endif
