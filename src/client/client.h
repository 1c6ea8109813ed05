/* client/client.h - what the parts of the client library share: jobs, tables, workers. */
#ifndef RUBATO_CLIENT_CLIENT_H
#define RUBATO_CLIENT_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/rubato.h>

#include "base/limits.h"
#include "client/buffer.h"
#include "client/driver.h"
#include "client/rowcache.h"
#include "client/stamps.h"
#include "client/stats.h"
#include "comm/manager.h"
#include "core/placement.h"
#include "core/spec.h"
#include "core/task.h"
#include "core/tuner.h"
#include "policy/priority/priority.h"

/* "essp:2", taken apart. */
struct rbt_consistency {
    int64_t staleness; /* RBT_STALENESS_ANY: no bound */
    bool is_eager;
    bool is_tuned; /* "auto": staleness is where it starts */
};
RBT_MUST_USE rbt_status rbt_consistency_parse(const char *text, struct rbt_consistency *out);

struct rbt_table {
    rbt_job *job;
    struct rbt_spec spec;             /* what shards are told */
    struct rbt_table_options options; /* the rest counts here; strings and experiments are NULL */
    struct rbt_table_experiments experiments;
    struct rbt_merge_kind kind;
    struct rbt_initial initial;
    size_t element_size;
    size_t row_size; /* of a dense row */
    struct rbt_placement_map *placement;
    rbt_rule_input input;                /* what its rule takes */
    bool has_filter;                     /* else it has none, or it says "none": */
    bool is_unfiltered;                  /* not even keys are left out */
    bool has_copies;                     /* filters select what is read: sets keep copies */
    struct rbt_priority_policy priority; /* of rows that travel early, if it is managed */
    bool is_managed;
    bool is_eager;
    /* By place (client/driver.h). Relaxed: a read that starts while the bound changes may obey
     * either. */
    atomic_int_least64_t *staleness;

    pthread_mutex_t mutex; /* rank PROCESS; guards the caches and, with overlay PROCESS, the buffers
                              of all workers for this table */
    struct rbt_rowcache *processes; /* one per process, for tables that have such caches; a real
                                       process has its own only, a simulation all of them */
};

void rbt_table_free(rbt_table *table);

/* Empties the table's process cache. */
RBT_MUST_USE rbt_status rbt_table_reset(rbt_table *table);

/* What one worker has of one table. */
struct rbt_worker_table {
    rbt_table *table;
    struct rbt_rowcache *process; /* the table's cache that the worker's process shares */
    struct rbt_buffer buffer;     /* own updates that the shards have not made visible */
    struct rbt_rowcache rows;     /* rows read or updated one at a time */
    uint64_t *seen; /* per shard: the newest version of rows that the cache forgot; NULL: of none */
    struct rbt_keylist *list;  /* scratch: keys of a single row or of a list used once */
    struct rbt_stamps *stamps; /* of tables with a rule: what copies were read at; else NULL */
    uint64_t *bases;           /* the same, scratch, by shard: what an update names */
    uint64_t *row_stamps;      /* the same: what the row under way holds */
    uint64_t push_count;       /* pushes of sets and lists, which rows and other sets must notice */
    uint64_t add_count;        /* updates of single rows, which sets must notice */
    struct rbt_filtering *filtering; /* NULL: updates go as they are */
    bool is_recording;
    uint64_t *recorded;
    size_t recorded_count;
    size_t recorded_max;
};

/* What an open ticket is to do. */
struct rbt_ticket_work {
    rbt_set *set;
    bool is_pull;
    bool is_fixed; /* how fresh was said when it was issued, and counts from then: */
    int64_t staleness;
    int64_t clock; /* the worker's, when it was issued */
};

struct rbt_worker {
    rbt_job *job;
    uint32_t index;
    uint32_t process_first; /* the workers of its process */
    uint32_t process_size;
    uint32_t shard_first;       /* the worker turns to this shard first, then to those after it */
    atomic_int_least64_t clock; /* written by the worker; relaxed */
    atomic_bool has_left;
    bool must_repeat;                /* rbt_clock() failed after some shards had the message */
    bool has_waited;                 /* during the fetch under way */
    struct rbt_worker_table *resend; /* its unsent updates have reached some shards only, or NULL */
    bool must_resend_all;            /* those of all tables have */
    bool is_early;                   /* what is sent now goes before the clock ends */
    uint64_t sequence;               /* of the next message to the shards; from 1 */
    struct rbt_worker_table **locals; /* by table id; made on first use */
    uint32_t table_count;             /* one past the highest table id used */
    struct rbt_batch *batches;        /* for messages; batch_max of them */
    size_t batch_max;
    struct rbt_task_list tasks;
    struct rbt_ticket_work *work; /* what each open ticket is to do, RBT_TASK_OPEN_MAX */
    /* The pull under way: a call, a batch and sequences applied for each shard that takes part. */
    struct rbt_driver_call *calls; /* shard_count */
    struct rbt_batch *pulls;       /* shard_count */
    uint64_t *stamps;              /* shard_count: what each call says of a table with a rule */
    size_t call_count;
    uint64_t *applied;
    size_t applied_max;
    uint64_t set_count;                  /* sets made so far, to tell them apart */
    struct rbt_managed *managed;         /* sets whose rows travel early */
    struct rbt_set *held;                /* sets of which filters may hold something back */
    struct rbt_comm out;                 /* the worker's part of the node's budget, to the shards */
    struct rbt_comm in;                  /* and back */
    uint64_t noted_sent, noted_received; /* bytes that `out` and `in` know of */
    uint64_t headers_sent;               /* bytes of pushes besides their rows, about */
    uint64_t noted_headers;              /* of these, `out` knows */
    struct rbt_managed *turn;            /* whose rows are read next; NULL: the first one's */
    rbt_time ask_at;                     /* before this it is not worth it */
    rbt_time exchange_at;                /* before this it is the turn of the worker's own work */
    rbt_time looked_at;                  /* when rbt_worker_exchange_is_due() last read the clock */
    uint32_t looks;                      /* since then it is asked so often until it does again */
    uint32_t looks_left;                 /* of these */
    struct rbt_worker_stats *stats;
};

struct rbt_job {
    uint32_t worker_count;
    uint32_t process_count;
    uint32_t shard_count;
    char name_space[RBT_NAME_MAX];
    bool is_in_cluster; /* of processes: other namespaces are jobs of others */
    uint64_t bandwidth; /* bytes per second, node and direction; 0: nothing travels early */
    char priority[RBT_TEXT_MAX];
    struct rbt_consistency consistency; /* its staleness is guarded by the mutex while it runs */
    atomic_int_least64_t *staleness;    /* the same by place, for whoever asks; relaxed */
    rbt_driver *driver;
    struct rbt_tuner tuner;       /* of a job that is tuned; worker 0's */
    rbt_worker_function function; /* of the run under way */
    void *argument;
    struct rbt_worker *workers;     /* of the run under way; worker_count */
    struct rbt_worker_stats *stats; /* worker_count; over all runs */
    bool is_shared;                 /* those of other processes are there, too */

    pthread_mutex_t mutex; /* rank JOB; guards tables and changes of their staleness */
    rbt_table **tables;    /* RBT_JOB_TABLES_MAX */
    uint32_t table_count;
};

static inline int64_t rbt_client_clock(const rbt_worker *worker)
{
    return atomic_load_explicit(&worker->clock, memory_order_relaxed);
}

/* The worker's side of the table, made on first use. */
RBT_MUST_USE rbt_status rbt_worker_table_of(rbt_worker *worker, rbt_table *table,
                                            struct rbt_worker_table **local);

void rbt_worker_free_table(struct rbt_worker_table *local);

/* Forgets what is pending: the worker has failed. */
void rbt_worker_abandon(rbt_worker *worker);

/* Tells the shards that nobody need wait for this worker. */
void rbt_worker_retire(rbt_worker *worker);

/* The smallest clock that a read with this staleness needs from everybody. */
int64_t rbt_worker_need(const rbt_worker *worker, int64_t staleness);

/* Steps shards for the worker and counts what it cost. Returns the first failure. */
rbt_status rbt_worker_step(rbt_worker *worker, struct rbt_driver_call *calls, size_t count);

/* How fresh rows are: all updates of clocks < clock are in, and all that the shard had shown when
 * it had this version. */
struct rbt_age {
    int64_t clock;
    uint64_t version; /* of the last shard asked: of use for rows of one shard */
};

/* Notes a read that saw everything of clocks < `clock`. */
void rbt_worker_note_read(rbt_worker *worker, int64_t clock);

/* The same for reads and updates of a table: staleness checked, worker still there. */
RBT_MUST_USE rbt_status rbt_worker_may_update(const rbt_worker *worker);
RBT_MUST_USE rbt_status rbt_worker_check_staleness(int64_t staleness);

/* Sends the table's updates to the shards now, without ending the clock. If that fails half-way, it
 * is done again before the next message, which then fails if it cannot be done. */
void rbt_worker_send(rbt_worker *worker, struct rbt_worker_table *local);
RBT_MUST_USE rbt_status rbt_worker_resend(rbt_worker *worker);

/* The same with those of all tables, in one message to each shard. */
void rbt_worker_send_early(rbt_worker *worker);

/* Counts what a driver says that went over the network. */
void rbt_worker_count_reply(rbt_worker *worker, const struct rbt_driver_reply *reply);

/* Turns rows updated one at a time into an update in the buffer. */
RBT_MUST_USE rbt_status rbt_worker_flush_rows(rbt_worker *worker, struct rbt_worker_table *local);

/* Locks and unlocks what the worker's table shares with other workers, if anything. */
void rbt_worker_lock(const struct rbt_worker_table *local);
void rbt_worker_unlock(const struct rbt_worker_table *local);

/* Adds to the target's rows that `shard` owns the updates that the table's overlay asks for and
 * that a copy with these `applied` sequences lacks. applied[0] is the worker's own, or with overlay
 * PROCESS there is one per worker. */
RBT_MUST_USE rbt_status rbt_worker_overlay(rbt_worker *worker, struct rbt_worker_table *local,
                                           uint32_t shard, const uint64_t *applied,
                                           const struct rbt_buffer_target *target);

/* What a reader wants, and how fresh it must be. */
struct rbt_want {
    struct rbt_buffer_target target;
    int64_t need;
    uint64_t subscription; /* see struct rbt_shard_event */
    uint64_t asked;        /* the same */
    /* Tables with a rule, by shard: the stamp of the copy that the rows replace (RBT_STAMP_NONE:
     * of none), and afterwards of the rows. NULL: nobody keeps them. */
    uint64_t *stamps;
    uint64_t *copies; /* by shard: of a set, or NULL; see struct rbt_shard_event */
};

/* How it is fetched. */
struct rbt_fetch {
    const struct rbt_want *want;
    bool is_process; /* the shards say what they have applied of all workers of the process */
    bool is_ahead;   /* asked for only: what the rows will replace is in use until they are taken */
};

/* Pulls rows from all their shards, without an overlay; leaves the calls, with what each shard has
 * applied, in the worker. `age` is how fresh the oldest rows are. */
RBT_MUST_USE rbt_status rbt_worker_pull(rbt_worker *worker, struct rbt_worker_table *local,
                                        const struct rbt_fetch *fetch, struct rbt_age *age);

/* Says that this will be fetched soon. */
void rbt_worker_ask(rbt_worker *worker, struct rbt_worker_table *local,
                    const struct rbt_want *want);

/* The calls of such a read, in the worker, to be changed and made by the caller; how many. */
size_t rbt_worker_list_calls(rbt_worker *worker, struct rbt_worker_table *local,
                             const struct rbt_want *want);

/* After a pull with the sequences of the process's workers, and with the table's mutex held:
 * whether the rows contain all that any of them has dropped from its buffer. */
bool rbt_worker_has_all(const rbt_worker *worker, const struct rbt_worker_table *local);

/* Pulls rows and lays the overlay on top. */
RBT_MUST_USE rbt_status rbt_worker_fetch(rbt_worker *worker, struct rbt_worker_table *local,
                                         const struct rbt_want *want, struct rbt_age *age);

/* Which stamps an update names, by shard, that was computed from a copy with these, or with none
 * (NULL). The table has a rule. */
void rbt_worker_list_bases(const struct rbt_worker_table *local, const uint64_t *held,
                           uint64_t *bases);

/* Does what tickets can do without waiting. */
void rbt_ticket_poll(rbt_worker *worker);

#endif
