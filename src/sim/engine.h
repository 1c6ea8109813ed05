/* sim/engine.h - a simulated cluster on the machines that processes run: callers, services, members
 * and the coordinator (src/proto), over simulated connections.
 *
 * engine.c takes one event after the other and is the driver of a job; party.c tells machines what
 * happens and does what they want done; worker_process.c is a worker process, serving.c a server,
 * and the coordinator; strand.c is a worker's fiber, and its time; engine_bound.c is how a process
 * changes the staleness.
 *
 * Threads: none. */
#ifndef RUBATO_SIM_ENGINE_H
#define RUBATO_SIM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/simulate.h>

#include "base/error.h"
#include "base/rng.h"
#include "client/driver.h"
#include "proto/bounds.h"
#include "sim/agenda.h"
#include "sim/fiber.h"
#include "sim/inspect.h"
#include "sim/party.h"
#include "sim/trace.h"

enum { RBT_NODE_COORDINATOR = 0, RBT_NODE_SERVERS = 1 }; /* then the worker processes */

/* How patient processes are, in nanoseconds: what "rubato run" takes unless it is told otherwise.
 */
#define RBT_SIM_START_TIME  INT64_C(30000000000) /* for everybody to come */
#define RBT_SIM_SILENCE_MAX INT64_C(10000000000) /* without a sign of life */
#define RBT_SIM_CUT_MAX     INT64_C(3000000000)  /* without a connection */

static inline rbt_time rbt_sim_time(double seconds)
{
    return (rbt_time)(seconds * 1e9 + 0.5);
}

/* What is left of a cluster when the job is closed. */
struct rbt_simulation {
    struct rbt_simulation_options options; /* defaults filled in; faults are copies */
    struct rbt_fault *faults;
    rbt_trace *trace;                 /* or NULL */
    struct rbt_inspect_frames frames; /* who looks at messages; or nobody */
    rbt_engine *engine;               /* of the job that is open, or NULL */
    rbt_status status; /* why a job that had ended well was lost at its goodbye, and the sentence */
    struct rbt_error_record error;
    struct rbt_simulation_stats totals;
    struct rbt_simulation_worker *workers;
    uint32_t worker_count;
    struct rbt_simulation_node *nodes;
    uint32_t node_count;
    struct rbt_simulation_rack *racks;
    uint32_t rack_count; /* 0 if there is only one */
};

/* What can happen. */
enum rbt_engine_event {
    RBT_ENGINE_NETWORK, /* something of the connections */
    RBT_ENGINE_WAKE,    /* strand `index` has computed */
    RBT_ENGINE_TIMER,   /* the deadline of a party may have come */
    RBT_ENGINE_FAULT,   /* fault `index` begins */
    RBT_ENGINE_HEAL,    /* and ends */
    RBT_ENGINE_CUT,     /* connections of node `index` are reset, and will be again */
};

struct rbt_engine_node {
    char name[32];
    bool is_gone; /* its process has crashed */
    rbt_time paused_until;
};

struct rbt_server_node {
    struct rbt_member_party member;
    struct rbt_service_party service;
};

struct rbt_process_node {
    struct rbt_member_party member;
    struct rbt_process process;
    struct rbt_carrier_party control;
    uint64_t *stable;             /* by table */
    struct rbt_bounds bounds;     /* how stale reads may be, as all were told */
    bool is_telling;              /* one of its workers tells another staleness, and waits */
    struct rbt_outcome *outcomes; /* its own, and the first failure of all */
    uint32_t worker_first;
    uint32_t worker_count;
    uint32_t ended_count;
    bool is_agreeing;
};

enum rbt_strand_state {
    RBT_STRAND_RUNNING,
    RBT_STRAND_COMPUTING, /* until wake_at */
    RBT_STRAND_WAITING,   /* until is_done(awaited) */
    RBT_STRAND_ENDED,
};

/* A worker: the fiber that runs its function. */
struct rbt_strand {
    rbt_engine *engine;
    uint32_t index;
    struct rbt_process_node *process;
    struct rbt_carrier_party carrier;
    rbt_fiber *fiber;
    enum rbt_strand_state state;
    bool (*is_done)(const void *awaited); /* what it waits for; of whom: */
    const void *awaited;                  /* NULL: it does not wait */
    bool is_ready;                        /* in the engine's list of those to be resumed */
    struct rbt_strand *next_ready;
    rbt_status status;
    struct rbt_error_record *error; /* of a failed worker */
    double factor;                  /* how slow it is */
    double slowdown;                /* and how much more in this clock */
    struct rbt_rng rng;             /* for slowdowns */
    rbt_time wake_at;
    rbt_time ended_at;
    rbt_time waited_from; /* for the answers of the step at hand; RBT_TIME_NEVER: it did not */
    rbt_time cpu_mark;    /* processor time when it was resumed; for measured runs */
};

struct rbt_engine {
    rbt_driver driver; /* first: a driver is an engine */
    rbt_simulation *simulation;
    struct rbt_driver_options options;
    uint32_t threads;
    uint32_t node_count;
    uint32_t process_count;
    rbt_time now;
    rbt_time began;   /* the run under way */
    rbt_time started; /* the first one; or RBT_TIME_NEVER */
    struct rbt_agenda agenda;
    rbt_connections *connections;
    struct rbt_engine_node *nodes;
    struct rbt_coordinator_party coordinator;
    struct rbt_server_node *servers;
    struct rbt_process_node *processes;
    struct rbt_strand *strands;
    struct rbt_strand *running; /* whose fiber it is, or NULL */
    struct rbt_strand *ready;   /* to be resumed, the first of them; and the last */
    struct rbt_strand *ready_last;
    struct rbt_rng rng; /* for cuts */
    rbt_status (*function)(void *argument, uint32_t index);
    void *argument;
    bool is_running; /* a run is under way */
    bool has_failed; /* a run has */
    bool is_locked;  /* a fiber has the job's lock */
    uint32_t planned_count;
    uint32_t agreed_count;
    rbt_time stuck_after;
    rbt_time last_step;
    struct rbt_inspect_event seen; /* the last event, if somebody looks */
    rbt_status status;             /* why everything has failed */
    struct rbt_error_record error;
};

/* --- engine.c -------------------------------------------------------------------------------- */

/* Remembers the calling thread's error as that of the whole cluster, unless there is one already.
 */
void rbt_engine_fail(rbt_engine *engine, rbt_status status);
void rbt_engine_schedule(rbt_engine *engine, rbt_time at, enum rbt_engine_event kind,
                         uint32_t index, void *what);

/* Takes events, outside of fibers, until is_done(argument), or everything has failed. */
void rbt_engine_run_until(rbt_engine *engine, bool (*is_done)(const void *argument),
                          const void *argument);

/* The job's part of a server's shard, or NULL. */
const rbt_job_shard *rbt_engine_job_shard(const rbt_engine *engine, uint32_t server);

/* --- serving.c ------------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_coordinator_party_open(rbt_engine *engine);
void rbt_coordinator_party_close(struct rbt_coordinator_party *coordinator);
void rbt_coordinator_party_step(struct rbt_coordinator_party *coordinator,
                                const struct rbt_roster_ports_event *event);

RBT_MUST_USE rbt_status rbt_server_node_open(rbt_engine *engine, uint32_t index);
void rbt_server_node_close(struct rbt_server_node *server);
void rbt_service_party_step(struct rbt_service_party *service,
                            const struct rbt_service_event *event);

/* What the server's member has to tell it. */
void rbt_server_node_hear(struct rbt_server_node *server, const struct rbt_membership_news *news);
void rbt_server_node_wake(struct rbt_server_node *server);

/* --- worker_process.c
 * ------------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_process_node_open(rbt_engine *engine, uint32_t index);

/* With the plan: its carriers. */
RBT_MUST_USE rbt_status rbt_process_node_connect(struct rbt_process_node *process);
void rbt_process_node_close(struct rbt_process_node *process);
void rbt_process_node_hear(struct rbt_process_node *process,
                           const struct rbt_membership_news *news);
void rbt_process_node_wake(struct rbt_process_node *process);

/* One of its workers has ended; when all have, the processes tell each other how it went. */
void rbt_process_node_note_end(struct rbt_process_node *process);

/* The program ends: the process says goodbye, unless it has, or is gone. */
void rbt_process_node_leave(struct rbt_process_node *process, rbt_status status, const char *why);

/* The common part of servers and worker processes. */
void rbt_member_party_step(struct rbt_member_party *member,
                           const struct rbt_membership_event *event);

/* --- strand.c -------------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_carrier_party_init(struct rbt_carrier_party *carrier,
                                               struct rbt_process_node *process, uint32_t worker,
                                               const struct rbt_stream_options *streams);
void rbt_carrier_party_deinit(struct rbt_carrier_party *carrier);

/* Waits until is_done(awaited): stops the running fiber, or takes events if there is none. Who
 * waits has to be told when that may be so: rbt_strand_tell(). If everything has failed it may not
 * be so afterwards. */
void rbt_strand_await(rbt_engine *engine, bool (*is_done)(const void *awaited),
                      const void *awaited);
void rbt_strand_tell(rbt_engine *engine, const void *awaited);

/* The caller has been told something. */
void rbt_carrier_party_note(struct rbt_carrier_party *carrier);

/* Nothing works any more; the reason is the thread's record. */
void rbt_carrier_party_fail(struct rbt_carrier_party *carrier, rbt_status status);

RBT_MUST_USE rbt_status rbt_strand_start(struct rbt_strand *strand);
void rbt_strand_clear(struct rbt_strand *strand);
void rbt_strand_resume(struct rbt_strand *strand);
void rbt_strand_resume_ready(rbt_engine *engine);
void rbt_strand_wake(struct rbt_strand *strand);
void rbt_strand_spend(struct rbt_strand *strand, double seconds);

/* In measured runs: lets as much virtual time pass as the fiber has used since it was resumed. */
void rbt_strand_charge(struct rbt_strand *strand);

/* A step is over, which others may have held up. */
void rbt_strand_note_step(struct rbt_strand *strand, bool had_to_wait);

/* A new clock begins. */
void rbt_strand_draw(struct rbt_strand *strand);

/* --- engine_bound.c -------------------------------------------------------------------------- */

/* The driver's: see client/driver.h. */
rbt_status rbt_engine_tell_staleness(rbt_driver *driver, uint32_t table, int64_t staleness,
                                     bool is_awaited);
int64_t rbt_engine_bound(rbt_driver *driver, uint32_t place, const struct rbt_driver_bound *wanted);

/* The process was told a new staleness; its member has something else to say than before. */
void rbt_process_node_take_bound(struct rbt_process_node *process,
                                 const struct rbt_membership_news *news);
void rbt_process_node_note_told(struct rbt_process_node *process);

/* --- engine_faults.c ------------------------------------------------------------------------- */

RBT_MUST_USE rbt_status rbt_engine_check_faults(const rbt_engine *engine);
void rbt_engine_fault_begin(rbt_engine *engine, uint32_t index);
void rbt_engine_fault_end(rbt_engine *engine, uint32_t index);

/* At random times connections of a node are reset: when the next time is. And: now. */
void rbt_engine_plan_cut(rbt_engine *engine, uint32_t node);
void rbt_engine_cut(rbt_engine *engine, uint32_t node);

/* Makes room for the figures of a cluster, and brings them up to date. */

RBT_MUST_USE rbt_status rbt_engine_attach(rbt_engine *engine);
void rbt_engine_note(rbt_engine *engine);

#endif
