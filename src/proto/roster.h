/* proto/roster.h - who is there, who is missing, who is lost, and who has to be told what.
 *
 * What happens to processes goes in (somebody joined, was heard, was cut off, left; time passed),
 * what has to be done comes out. Which connection is whose, and what is said on it byte by byte, is
 * for roster_ports.h.
 *
 * Processes are peers, numbered by the place that they have in the roster; a place is used again
 * when its peer is gone. A peer whose line was cut keeps its place for a while, and is known by its
 * token when it comes back; then all that it may have missed is said again.
 *
 * Threads: none; owned by the coordinator. */
#ifndef RUBATO_PROTO_ROSTER_H
#define RUBATO_PROTO_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "wire/control.h"

typedef struct rbt_roster rbt_roster;

enum {
    RBT_ROSTER_PEERS_MAX = 2048,
    RBT_ROSTER_JOBS_MAX = 256,
    RBT_ROSTER_NODE_MAX = 32, /* bytes of "worker/12", with its terminating zero */
};

#define RBT_ROSTER_NOBODY UINT32_MAX

struct rbt_roster_options {
    uint64_t cluster; /* its number; not 0 */
    uint32_t server_count;
    bool is_once;
    rbt_time start_timeout;
    rbt_time silence_max;
    rbt_time cut_max;
    /* Draws random bytes: what jobs are known by must not be guessed. */
    rbt_status (*draw)(void *bytes, size_t size);
};

enum rbt_roster_effect_kind {
    RBT_ROSTER_PLAN,     /* send the peer its plan: rbt_roster_plan() */
    RBT_ROSTER_GATHERED, /* send the peer all parts of the round: rbt_roster_parts() */
    RBT_ROSTER_BOUND,    /* send the peer `job`, `number`, `table` and `staleness` */
    RBT_ROSTER_TAKEN,    /* send the peer `job` and `number`: all have taken its BOUND */
    RBT_ROSTER_STABLE,   /* send the peer `job`, `table` and `number`, a version */
    RBT_ROSTER_JOB,  /* send the peer, a server, who may say HELLO for the job: rbt_roster_job() */
    RBT_ROSTER_DROP, /* send the peer, a server, that the job is over */
    RBT_ROSTER_FAILED,  /* send the peer `status` and `text` */
    RBT_ROSTER_GOODBYE, /* answer the peer's goodbye; it is gone from the roster */
    RBT_ROSTER_LOST,    /* the peer is gone from the roster, `text` says why; close its line */
    RBT_ROSTER_STARTED, /* a job has begun; for the log */
    RBT_ROSTER_ENDED,   /* a job has ended, `status` and `text`; for the log */
    RBT_ROSTER_END,     /* the coordinator's work is done, `status` and `text` */
};

struct rbt_roster_effect {
    enum rbt_roster_effect_kind kind;
    uint32_t peer;
    rbt_status status;
    uint64_t job;
    uint64_t number; /* of the round, the bound or the version */
    int64_t staleness;
    uint32_t table;
    const char *text; /* the roster's; valid until the next event */
};

/* Grows as needed. */
struct rbt_roster_outbox {
    struct rbt_roster_effect *effects;
    size_t count; /* the caller sets it to 0 */
    size_t capacity;
    bool has_failed; /* memory ran out: something was not said */
};
void rbt_roster_outbox_deinit(struct rbt_roster_outbox *out);

RBT_MUST_USE rbt_status rbt_roster_create(const struct rbt_roster_options *options, rbt_time now,
                                          rbt_roster **roster);
void rbt_roster_destroy(rbt_roster *roster);

/* A process says who it is, for the first time or again. Gives its place; fails with a sentence if
 * it is not wanted. */
RBT_MUST_USE rbt_status rbt_roster_join(rbt_roster *roster, struct rbt_control_join *join,
                                        rbt_time now, struct rbt_roster_outbox *out,
                                        uint32_t *peer);

/* It gave a sign of life. */
void rbt_roster_hear(rbt_roster *roster, uint32_t peer, rbt_time now);

/* Its connection is gone; it may come back. */
void rbt_roster_cut(rbt_roster *roster, uint32_t peer, rbt_time now);

/* It brings its part of a round; or tells a new staleness. Both may be repeated. A staleness gets
 * the job's next number, and all processes of the job and all servers are told; when all have taken
 * it, the one that told it hears so. Fail with RBT_E_PROTOCOL if it may not say so. */
RBT_MUST_USE rbt_status rbt_roster_gather(rbt_roster *roster, uint32_t peer, uint64_t round,
                                          const struct rbt_control_part *part,
                                          struct rbt_roster_outbox *out);
RBT_MUST_USE rbt_status rbt_roster_bound(rbt_roster *roster, uint32_t peer, uint64_t number,
                                         const struct rbt_control_bound *bound,
                                         struct rbt_roster_outbox *out);

/* It, a process or a server, has taken the job's changes of the staleness up to this number. */
RBT_MUST_USE rbt_status rbt_roster_taken(rbt_roster *roster, uint32_t peer, uint64_t job,
                                         uint64_t number, struct rbt_roster_outbox *out);

/* It, a server, has the versions of a job's table below this one. When all servers have more than
 * before, the job's processes are told. Fails like those. */
RBT_MUST_USE rbt_status rbt_roster_version(rbt_roster *roster, uint32_t peer, uint64_t job,
                                           const struct rbt_control_version *version,
                                           struct rbt_roster_outbox *out);

/* It says goodbye. */
void rbt_roster_leave(rbt_roster *roster, uint32_t peer, const struct rbt_control_ending *ending,
                      rbt_time now, struct rbt_roster_outbox *out);

/* The coordinator itself is told to stop. */
void rbt_roster_stop(rbt_roster *roster, const char *why, rbt_time now,
                     struct rbt_roster_outbox *out);

/* Notices what is late. To be called at the deadline: after a longer pause it takes itself for the
 * one who slept, and gives everybody new time. */
void rbt_roster_expire(rbt_roster *roster, rbt_time now, struct rbt_roster_outbox *out);

/* When that may be so, or RBT_TIME_NEVER. A sign of life makes it later, everything else may make
 * it earlier. */
rbt_time rbt_roster_deadline(const rbt_roster *roster);

/* What effects refer to. The plan's addresses are the roster's. */
void rbt_roster_plan(const rbt_roster *roster, uint32_t peer, struct rbt_control_plan *plan);

/* What servers are told of a running job. */
void rbt_roster_job(const rbt_roster *roster, uint64_t number, struct rbt_control_job *job);

/* The parts of the last complete round of a job, in order of process; room for
 * RBT_CONTROL_PARTS_MAX. */
uint32_t rbt_roster_parts(const rbt_roster *roster, uint64_t job, struct rbt_control_part *parts);

/* A peer for people: "worker/1", its host and process. Also right after it is gone. */
const char *rbt_roster_node(const rbt_roster *roster, uint32_t peer,
                            char node[static RBT_ROSTER_NODE_MAX]);
const char *rbt_roster_host(const rbt_roster *roster, uint32_t peer, uint32_t *pid);

#endif
