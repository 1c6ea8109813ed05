/* proto/roster_state.h - what a roster remembers; shared by roster.c (who is there),
 * roster_job.c (what becomes of the jobs) and roster_bound.c (how stale their reads may be). */
#ifndef RUBATO_PROTO_ROSTER_STATE_H
#define RUBATO_PROTO_ROSTER_STATE_H

#include "core/members.h"
#include "proto/bounds.h"
#include "proto/numbering.h"
#include "proto/roster.h"

enum { RBT_ROSTER_DROPS_KEPT = 64 };

struct rbt_roster_part {
    char *bytes;
    size_t size;
    bool is_there;
};

/* How far a process or a server has taken the changes of a job's staleness. */
struct rbt_roster_taking {
    uint64_t taken;
    uint64_t repeated; /* up to here it was told again, after a cut: less than that is nothing */
};

struct rbt_roster_peer {
    bool is_there;
    bool is_connected;
    bool is_planned; /* has been told its plan */
    rbt_time cut_at; /* since when it is not connected */
    uint64_t token;
    uint64_t sequence; /* in order of joining */
    enum rbt_role role;
    int32_t asked;
    uint32_t index;
    uint32_t pid;
    uint32_t thread_count;
    char host[RBT_NAME_MAX];
    char space[RBT_NAME_MAX];
    struct rbt_wire_secret permit; /* of a reader */
    uint32_t job;      /* its place in `jobs`, or RBT_ROSTER_NOBODY: a server, a waiting reader */
    rbt_time deadline; /* of a reader that waits for its job */
    char **shards;     /* of a server */
    uint32_t shard_count;
    struct rbt_roster_part part; /* of the round that is gathered */
    uint64_t bound_number;       /* its own, of its last BOUND; */
    uint64_t bound_due;          /* the job's number of it, or 0: it was answered */
    struct rbt_roster_taking taking;
    bool is_told; /* that it is over: */
    rbt_status told_status;
    char *told;
    char *lost; /* why it was given up, for the log */
};

enum rbt_roster_job_state {
    RBT_ROSTER_JOB_NONE,
    RBT_ROSTER_JOB_FORMING,
    RBT_ROSTER_JOB_RUNNING,
    RBT_ROSTER_JOB_OVER, /* some of its peers are still there */
};

/* A table whose versions the servers tell. */
struct rbt_roster_versions {
    uint32_t table;
    uint64_t stable;    /* the lowest of them */
    uint64_t *versions; /* by server */
};

struct rbt_roster_job {
    enum rbt_roster_job_state state;
    uint64_t number;
    char space[RBT_NAME_MAX];
    uint32_t worker_count;
    struct rbt_wire_secret permit; /* that its processes must show to join, and its readers */
    struct rbt_wire_secret read_permit;
    struct rbt_wire_secret secret; /* that they must show to servers, and its readers */
    struct rbt_wire_secret read_secret;
    struct rbt_numbering_shape shape;
    rbt_time deadline; /* for everybody to come */
    uint32_t left_count;
    uint64_t round;                /* the last complete one */
    struct rbt_roster_part *parts; /* its parts, by process: somebody may have missed them */
    struct rbt_bounds bounds;
    struct rbt_roster_taking *servers;  /* by server; NULL until there are bounds */
    struct rbt_roster_versions *tables; /* that are synchronised */
    uint32_t table_count;
    rbt_status status;
    char text[RBT_WIRE_TEXT_MAX];
};

enum rbt_roster_stage {
    RBT_ROSTER_AT_WORK,
    RBT_ROSTER_AFTER_JOB, /* once: the first job is over, its processes have to leave */
    RBT_ROSTER_CLOSING,   /* everybody has been told and has to leave */
    RBT_ROSTER_CLOSED,
};

struct rbt_roster {
    struct rbt_roster_options options;
    struct rbt_roster_peer *peers; /* RBT_ROSTER_PEERS_MAX */
    struct rbt_roster_job *jobs;   /* RBT_ROSTER_JOBS_MAX */
    rbt_members *members;          /* who is silent; by place */
    struct rbt_member_effect *member_effects;
    struct rbt_numbering_entry *entries; /* scratch for numbering, and whose they are */
    uint32_t *entry_peers;
    const char **shards; /* all servers', once they are there */
    uint32_t shard_count;
    bool has_servers; /* all of them */
    rbt_time server_deadline;
    rbt_time looked; /* at the time of the last rbt_roster_expire() */
    uint64_t sequence;
    uint64_t job_count;
    uint64_t drops[RBT_ROSTER_DROPS_KEPT]; /* numbers of the last jobs that ended */
    uint32_t drop_count;
    enum rbt_roster_stage stage;
    rbt_time stage_deadline;
    rbt_status status; /* how it ended */
    char text[RBT_WIRE_TEXT_MAX];
};

/* What all files use. */
void rbt_roster_emit(struct rbt_roster_outbox *out, struct rbt_roster_effect effect);

/* The entries of the job's worker processes, or, without a job, of the servers. */
uint32_t rbt_roster_entries(rbt_roster *roster, const struct rbt_roster_job *job);

/* Gives the peers the numbers of their entries, which have been placed. */
void rbt_roster_assign(rbt_roster *roster, uint32_t count);

/* Takes the peer off; what it was can be asked until the place is used again. */
void rbt_roster_remove(rbt_roster *roster, uint32_t peer);

/* Tells the peer, once, that it is over. */
void rbt_roster_tell(rbt_roster *roster, uint32_t peer, rbt_status status, const char *text,
                     struct rbt_roster_outbox *out);

/* "worker/1 on HOST (pid 1234)"; "10s", "300ms". */
void rbt_roster_describe(const rbt_roster *roster, uint32_t peer, struct rbt_text_buffer *text);
void rbt_roster_add_time(struct rbt_text_buffer *text, rbt_time time);

/* The job that forms or runs in the namespace, or NULL; a new one; one by number. */
struct rbt_roster_job *rbt_roster_find_job(const rbt_roster *roster, const char *space);
RBT_MUST_USE rbt_status rbt_roster_add_job(rbt_roster *roster, const struct rbt_control_join *join,
                                           rbt_time now, struct rbt_roster_job **job);

void rbt_roster_free_job(struct rbt_roster_job *job);

/* Starts the jobs that are complete, and plans readers that waited for them. */
void rbt_roster_start_jobs(rbt_roster *roster, struct rbt_roster_outbox *out);
void rbt_roster_attach_readers(rbt_roster *roster, struct rbt_roster_outbox *out);

/* Ends the job, well or not: its peers and the servers are told. */
void rbt_roster_end_job(rbt_roster *roster, struct rbt_roster_job *job, rbt_status status,
                        const char *text, struct rbt_roster_outbox *out);

/* Tells a server of all jobs that run. */
void rbt_roster_repeat_jobs(const rbt_roster *roster, uint32_t peer, struct rbt_roster_outbox *out);

/* Says again to a process which versions all servers have. */
void rbt_roster_repeat_stable(const rbt_roster *roster, uint32_t peer,
                              struct rbt_roster_outbox *out);

/* The peer is one of the job's worker processes; the running job of that number, or NULL; the
 * peer's job, if it is one of its worker processes: NULL, and no failure, if it has been told that
 * the job is over. */
bool rbt_roster_is_worker_of(const rbt_roster *roster, uint32_t peer,
                             const struct rbt_roster_job *job);
struct rbt_roster_job *rbt_roster_running_job(const rbt_roster *roster, uint64_t number);
RBT_MUST_USE rbt_status rbt_roster_job_of(rbt_roster *roster, uint32_t peer,
                                          struct rbt_roster_job **job);

/* Says again to a process, or a server, how stale reads may be; answers the processes whose changes
 * all have taken. */
void rbt_roster_repeat_bounds(rbt_roster *roster, uint32_t peer, struct rbt_roster_outbox *out);
void rbt_roster_settle_bounds(rbt_roster *roster, const struct rbt_roster_job *job,
                              struct rbt_roster_outbox *out);

/* Says the missing part of "worker/0, worker/2" of a job that forms. */
void rbt_roster_job_missing(rbt_roster *roster, struct rbt_roster_job *job,
                            struct rbt_text_buffer *text);

/* How many peers the job has: worker processes only, or also readers. */
uint32_t rbt_roster_job_peers(const rbt_roster *roster, const struct rbt_roster_job *job,
                              bool with_readers);

/* A worker process has said goodbye, and is gone from the roster. */
void rbt_roster_job_left(rbt_roster *roster, struct rbt_roster_job *job, const char *who,
                         struct rbt_roster_outbox *out);

#endif
