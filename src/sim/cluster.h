/* sim/cluster.h - the inside of a simulated cluster, shared by the files that make it up.
 *
 * driver.c runs the events; node.c moves messages and knows which nodes are up; server.c is what
 * servers do with a message, worker.c what workers do, coordinator.c who watches them all. */
#ifndef RUBATO_SIM_CLUSTER_H
#define RUBATO_SIM_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/simulate.h>

#include "base/error.h"
#include "base/map.h"
#include "base/rng.h"
#include "client/driver.h"
#include "comm/manager.h"
#include "core/members.h"
#include "core/session.h"
#include "math/merge.h"
#include "sim/agenda.h"
#include "sim/fiber.h"
#include "sim/inspect.h"
#include "sim/message.h"
#include "sim/network.h"
#include "sim/trace.h"
#include "store/shard.h"

enum { RBT_NODE_COORDINATOR = 0, RBT_NODE_SERVERS = 1 }; /* then the worker processes */

enum { RBT_LINK_WINDOW = 1024 }; /* messages on a link that may be unanswered */

/* What can happen. */
enum rbt_sim_cluster_event {
    RBT_EVENT_ARRIVE,  /* the first byte of an envelope is at its node */
    RBT_EVENT_DELIVER, /* the last one is */
    RBT_EVENT_WAKE,    /* worker `index` has computed */
    RBT_EVENT_TIMER,   /* a link may have to send again */
    RBT_EVENT_FAULT,   /* fault `index` begins */
    RBT_EVENT_HEAL,    /* and ends */
    RBT_EVENT_BEAT,    /* node `index` says that it is there */
    RBT_EVENT_WATCH,   /* the coordinator looks who is silent */
    RBT_EVENT_EXPIRE,  /* parts may have waited long enough at an aggregator, node `index` */
};

struct rbt_node {
    char name[32];
    uint32_t rack;
    bool is_down; /* nothing gets in or out */
    bool is_gone; /* for good */
    rbt_time paused_until;
    rbt_time traffic_since; /* for the trace: when the slice of time began, and what was sent and */
    uint64_t traffic[2];    /* received in it */
};

/* From a worker, or the coordinator, to a server. */
struct rbt_link {
    rbt_session *session; /* made on first use */
    uint32_t node;        /* of the sender */
    uint32_t server;
    rbt_time timer_at; /* of the timer event under way, or RBT_TIME_NEVER */
    uint64_t sent;     /* highest number of the stream */
    uint64_t leave;    /* number of its last message, which says that the worker is gone; 0: none */
    int64_t floor;     /* what the server last said */
    uint64_t version;
    uint64_t arrived;
    uint64_t settled;
    rbt_time detour_until; /* until then nothing goes through an aggregator */
};

/* Rows that a worker asks for again and again: the newest answer, and the next request. */
struct rbt_stash {
    uint64_t subscription;
    uint32_t table;
    uint32_t shard;
    uint64_t request_stamp; /* of base rows on their way: they will be no older; RBT_STAMP_NONE */
    uint32_t idle;          /* clocks since the answer came or was used */
    struct rbt_message *answer;   /* counted; or NULL */
    struct rbt_message *request;  /* on its way, kept by the session; or NULL */
    struct rbt_driver_call *call; /* waits for it; or NULL */
};

enum rbt_worker_state {
    RBT_WORKER_RUNNING,
    RBT_WORKER_COMPUTING, /* until wake_at */
    RBT_WORKER_WAITING,   /* for answers, or for room in a window */
    RBT_WORKER_ENDED,
};

struct rbt_sim_worker {
    struct rbt_sim_cluster *cluster;
    uint32_t index;
    uint32_t node;
    rbt_fiber *fiber;
    enum rbt_worker_state state;
    bool is_closed;   /* its process is gone, or it was given up: every call fails */
    bool was_crashed; /* its failure is not the job's */
    rbt_status status;
    struct rbt_error_record *error; /* of a failed worker */
    double factor;                  /* how slow it is */
    double slowdown;                /* and how much more in this clock */
    struct rbt_rng rng;             /* for slowdowns */
    rbt_time wake_at;
    rbt_time ended_at;
    rbt_time cpu_mark; /* processor time when it was resumed; for measured runs */
    struct rbt_link *links;
    uint64_t next_id;
    uint32_t unanswered;    /* calls of the step under way */
    bool wants_room;        /* waits for a place in a window */
    rbt_time step_at;       /* when the step under way began */
    rbt_time answered_last; /* when the last parked request of the step could be answered */
    struct rbt_map stash_index;
    struct rbt_stash **stashes;
    uint32_t stash_count;
    uint32_t stash_max;
    bool has_bases;   /* updates may be computed from rows in a stash */
    uint64_t *newest; /* per server and table: highest stamp that it has seen */
};

struct rbt_parked {
    struct rbt_message *request; /* counted; NULL: the slot is free */
    uint32_t next;               /* free slot, or slot of the same worker */
};

struct rbt_sim_server {
    uint32_t index;
    uint32_t node;
    rbt_shard *shard;
    struct rbt_shard_effect *effects; /* parked_max + 1 */
    uint32_t *ready;                  /* slots to be answered; parked_max + 1 */
    size_t ready_count;
    int64_t floor;
    uint64_t version;
    struct rbt_parked *parked; /* parked_max; a slot's number is the shard's name for the request */
    uint32_t parked_max;
    uint32_t free_slot;
    uint32_t free_count;
    uint32_t *parked_of;        /* per worker: its first slot, or UINT32_MAX */
    struct rbt_message **early; /* per worker: messages that came before their predecessor */
    struct rbt_batch *blank;    /* per table: no rows, for parts of a sum */
    uint32_t gone_count;        /* workers that have left or were expelled */
    uint64_t *told;             /* per table that is synchronised: the version last told */
    struct rbt_comm comm;       /* what it may send early */
    struct rbt_comm far;        /* the same to other racks, if that has a budget */
};

typedef struct rbt_sim_cluster {
    rbt_driver driver; /* first: a driver is a cluster */
    rbt_simulation *simulation;
    uint32_t worker_count;
    uint32_t server_count;
    uint32_t threads;
    uint32_t node_count;
    uint32_t rack_count; /* 1: there are none */
    uint64_t bandwidth;  /* a node's budget for early messages, bytes per second */
    rbt_time now;
    rbt_time began; /* the run under way */
    struct rbt_agenda queue;
    rbt_network *network;
    struct rbt_node *nodes;
    struct rbt_sim_server *servers;
    struct rbt_sim_worker *workers;
    struct rbt_aggregation *aggregation; /* see aggregator.h; NULL: there is none */
    struct rbt_sim_worker *running;      /* whose fiber it is, or NULL */
    struct rbt_message_table *tables;
    uint32_t table_max;
    bool has_filters;                    /* some table has */
    struct rbt_session_effect *released; /* scratch: the outbox of a session */
    struct rbt_envelope *spare;          /* to be used again */
    struct rbt_message_pool pool;        /* the same for short messages */

    rbt_members *members;
    struct rbt_member_effect *member_effects;
    struct rbt_link *coordinator_links;
    uint64_t expel_id;
    rbt_time heard_last;  /* when the coordinator last heard of anybody */
    uint32_t table_count; /* one past the last table */
    uint64_t *versions;   /* see sim/stable.h: (table_max, server_count) */
    uint64_t *stable;     /* (table_max, node_count) */

    rbt_status (*function)(void *argument, uint32_t index);
    void *argument;
    uint32_t ended_count;
    rbt_time stuck_after;          /* when nobody has gone on for so long, nobody will */
    rbt_time last_step;            /* when a worker last went on */
    struct rbt_inspect_event seen; /* the last event, if somebody looks */
    rbt_status status;             /* why the whole run failed */
    struct rbt_error_record error;
} rbt_sim_cluster;

/* What is left of a worker and a node when the job is closed. */
struct rbt_simulation {
    struct rbt_simulation_options options; /* defaults filled in; faults are copies */
    struct rbt_fault *faults;
    rbt_trace *trace;         /* or NULL */
    rbt_sim_cluster *cluster; /* of the job that is open, or NULL */
    struct rbt_simulation_stats totals;
    struct rbt_simulation_worker *workers;
    uint32_t worker_count;
    struct rbt_simulation_node *nodes;
    uint32_t node_count;
    struct rbt_simulation_rack *racks;
    uint32_t rack_count; /* 0 if there is only one */
};

static inline rbt_time rbt_sim_time(double seconds)
{
    return (rbt_time)(seconds * 1e9 + 0.5);
}

/* --- node.c ---------------------------------------------------------------------------------- */

/* Remembers the calling thread's error as that of the whole run, unless there is one already. */
void rbt_sim_cluster_fail(rbt_sim_cluster *cluster, rbt_status status);

/* Adds an event; a failure becomes the run's. */
void rbt_sim_cluster_schedule(rbt_sim_cluster *cluster, rbt_time at,
                              enum rbt_sim_cluster_event kind, uint32_t index, void *what);

/* Hands the message to the network, which holds it as long as it needs it. */
void rbt_sim_cluster_send(rbt_sim_cluster *cluster, struct rbt_message *message);

/* The same, but only one leg of its way: from the first node to the second. */
void rbt_sim_cluster_send_on(rbt_sim_cluster *cluster, struct rbt_message *message, uint32_t from,
                             uint32_t to);

void rbt_sim_cluster_arrive(rbt_sim_cluster *cluster, void *envelope);

/* Writes down the traffic of the last slice of time; at the end of a run. */
void rbt_sim_cluster_end_traffic(rbt_sim_cluster *cluster);

/* Takes the message out of the envelope and frees that; NULL if the node is down. */
struct rbt_message *rbt_sim_cluster_open(rbt_sim_cluster *cluster, void *envelope);
uint32_t rbt_sim_cluster_addressee(const void *envelope);
void rbt_sim_cluster_discard(rbt_sim_cluster *cluster, void *envelope);
void rbt_sim_cluster_free_spare(rbt_sim_cluster *cluster);
void rbt_sim_cluster_describe(const rbt_sim_cluster *cluster, const void *envelope,
                              struct rbt_inspect_event *event);

/* The link's session, made if there is none yet; NULL, and the run fails, without memory. */
rbt_session *rbt_link_session(rbt_sim_cluster *cluster, struct rbt_link *link);

/* After anything that may have changed the link's deadline. */
void rbt_link_arm(rbt_sim_cluster *cluster, struct rbt_link *link);

/* Sends again what is due. */
void rbt_link_expire(rbt_sim_cluster *cluster, struct rbt_link *link);

/* Releases what the session is done with. */
void rbt_link_release(const struct rbt_session_outbox *out);
void rbt_link_abandon(const rbt_sim_cluster *cluster, struct rbt_link *link);

/* Every node is up and all links are as they were at first. */
void rbt_sim_cluster_heal(rbt_sim_cluster *cluster);
void rbt_fault_begin(rbt_sim_cluster *cluster, uint32_t index);
void rbt_fault_end(rbt_sim_cluster *cluster, uint32_t index);

/* The number of the node with this name, or UINT32_MAX. */
uint32_t rbt_node_find(const rbt_sim_cluster *cluster, const char *name);

/* --- server.c -------------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_server_init(rbt_sim_cluster *cluster, uint32_t index,
                                        uint32_t table_max);
void rbt_server_deinit(rbt_sim_cluster *cluster, struct rbt_sim_server *server);

/* Steps the shard outside of virtual time: tables and resets. */
rbt_status rbt_server_step_now(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                               const struct rbt_shard_event *event);

/* A message has come. */
void rbt_server_receive(rbt_sim_cluster *cluster, struct rbt_sim_server *server,
                        struct rbt_message *message);

/* Frees what belongs to a run. */
void rbt_server_clear(rbt_sim_cluster *cluster, struct rbt_sim_server *server);

/* --- simulation.c ---------------------------------------------------------------------------- */

/* Makes room for the figures of a cluster, and brings them up to date. */
RBT_MUST_USE rbt_status rbt_simulation_attach(rbt_sim_cluster *cluster);
void rbt_simulation_note(rbt_sim_cluster *cluster);

/* --- coordinator.c --------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_coordinator_start(rbt_sim_cluster *cluster);
void rbt_coordinator_stop(rbt_sim_cluster *cluster);
void rbt_coordinator_receive(rbt_sim_cluster *cluster, struct rbt_message *message);
void rbt_coordinator_watch(rbt_sim_cluster *cluster);
void rbt_coordinator_beat(rbt_sim_cluster *cluster, uint32_t node);

#endif
