/* proto/membership.h - a process as a member of a cluster: what it says to the coordinator, what it
 * makes of the answers, and when it gives up.
 *
 * The machine keeps one connection, port 0. It joins, gives signs of life, connects again when the
 * connection is cut, and then says again all that was not answered; numbers make that harmless. The
 * coordinator is lost when there was no connection for `cut_max`, or no sign of life for
 * `silence_max`.
 *
 *     rbt_membership_init(&m, &options, now);
 *     rbt_membership_step(&m, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME}, now,
 * &out);
 *     ... do out.port, tell out.news, and, if out.must_wake, let those who wait look again ...
 *     rbt_membership_out_clear(&out);
 *     ... step every event of the port, and TIME when rbt_membership_deadline() has come ...
 *
 * A carrier steps all messages that have come before it steps TIME: TIME alone looks for silence.
 *
 * Threads: those of its owner, one at a time. Memory: texts of the options are borrowed for as long
 * as the machine is there; one block per message. */
#ifndef RUBATO_PROTO_MEMBERSHIP_H
#define RUBATO_PROTO_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "proto/outbox.h"
#include "proto/port.h"
#include "proto/shard_versions.h"
#include "wire/control.h"

struct rbt_membership_options {
    const char *coordinator; /* its address, for sentences */
    enum rbt_role role;
    int32_t index; /* which server or worker process of its job it is; RBT_INDEX_ANY: next free */
    rbt_time start_timeout;    /* for everybody to come */
    rbt_time silence_max;      /* after so long without a sign of life the other side is gone */
    rbt_time cut_max;          /* after so long without a connection, too */
    const char *const *shards; /* a server: where its shards listen */
    uint32_t shard_count;
    const char *space;             /* a worker process: the job's namespace, */
    uint32_t worker_count;         /* how many workers the job has in all, */
    uint32_t thread_count;         /* and how many of them are here */
    struct rbt_wire_secret permit; /* see struct rbt_control_join */
    struct rbt_wire_secret read_permit;
    uint64_t token;   /* drawn at random, not 0: the process is known by it */
    const char *host; /* for people, as `pid` */
    uint32_t pid;
};

/* What the coordinator has decided; the same for all but `index` and `worker_first`. */
struct rbt_member_plan {
    uint64_t cluster;
    uint64_t job;
    uint32_t index;         /* of this server or process in its job */
    uint32_t process_count; /* worker processes of the job */
    uint32_t worker_count;
    uint32_t worker_first;         /* of this process */
    uint32_t thread_count;         /* workers of this process */
    uint32_t process_size;         /* workers of every process but the last, which may have fewer */
    uint64_t map_version;          /* of the list of shards */
    struct rbt_wire_secret secret; /* for HELLO */
    uint32_t shard_count;
    const char *const *shards; /* addresses; the member's */
};

/* A server: its shard, counted from its first one, has the versions of the job's table below this
 * one. */
struct rbt_member_version {
    uint64_t job;
    uint32_t table;
    uint32_t shard;
    uint64_t version;
};

enum rbt_membership_event_kind {
    RBT_MEMBERSHIP_PORT,    /* something has happened to the connection */
    RBT_MEMBERSHIP_GATHER,  /* all processes of the job bring a part; one round at a time */
    RBT_MEMBERSHIP_BOUND,   /* the job's processes and servers are to take this staleness */
    RBT_MEMBERSHIP_VERSION, /* a shard of this server has more versions */
    RBT_MEMBERSHIP_ALIVE,   /* whether the process gives signs of life; at first it does */
    RBT_MEMBERSHIP_GIVE_UP, /* the process cannot go on */
    RBT_MEMBERSHIP_LEAVE,   /* it leaves, well or not */
    RBT_MEMBERSHIP_TIME,    /* all messages that had come were stepped */
};

/* One arm of the union for each kind; TIME has none. */
struct rbt_membership_event {
    enum rbt_membership_event_kind kind;
    union {
        const struct rbt_port_event *port;
        struct rbt_control_part
            part; /* GATHER: borrowed until rbt_membership_is_gathering() ends */
        struct {
            uint32_t table; /* or RBT_CONTROL_ALL */
            int64_t staleness;
            bool is_awaited; /* until rbt_membership_is_telling() ends; one at a time */
        } bound;
        struct rbt_member_version version;
        bool is_alive;
        struct {
            rbt_status status;
            const char *why;
        } ending; /* GIVE_UP: not RBT_OK; LEAVE */
    };
};

/* What the process has to be told. */
enum rbt_membership_news_kind {
    RBT_MEMBERSHIP_NO_NEWS,
    RBT_MEMBERSHIP_DROP,      /* a server: the job is over */
    RBT_MEMBERSHIP_JOB,       /* a server: the job begins; may be repeated */
    RBT_MEMBERSHIP_NEW_BOUND, /* the staleness from now on; may be repeated */
    RBT_MEMBERSHIP_STABLE,    /* all shards have the versions of the table below this one */
};

struct rbt_membership_news {
    enum rbt_membership_news_kind kind;
    uint64_t number;                   /* DROP, JOB: the job's; NEW_BOUND: of the change */
    struct rbt_control_job job;        /* JOB */
    struct rbt_control_bound bound;    /* NEW_BOUND */
    struct rbt_control_version stable; /* STABLE */
};

/* What is to be done after a step. All zeros is nothing. News come first: messages may say that the
 * process has acted on them. */
struct rbt_membership_out {
    struct rbt_outbox port;
    bool must_wake; /* the plan, the end of a gathering, of the job or of the membership is there */
    struct rbt_membership_news news; /* at most one per step */
};

static inline void rbt_membership_out_clear(struct rbt_membership_out *out)
{
    rbt_outbox_clear(&out->port);
    out->must_wake = false;
    out->news.kind = RBT_MEMBERSHIP_NO_NEWS;
}

enum rbt_membership_line {
    RBT_MEMBERSHIP_DOWN,
    RBT_MEMBERSHIP_CONNECTING,
    RBT_MEMBERSHIP_JOINED, /* we have said who we are */
    RBT_MEMBERSHIP_LIVE,   /* and were answered on this connection */
};

/* What is said once, and said again on a new connection. */
enum rbt_membership_say {
    RBT_MEMBERSHIP_NOTHING,
    RBT_MEMBERSHIP_TO_SAY,
    RBT_MEMBERSHIP_SAID,
    RBT_MEMBERSHIP_ANSWERED, /* goodbye only: the membership is over */
};

/* A staleness that the others have to take. */
struct rbt_membership_bound {
    enum rbt_membership_say say;
    uint64_t number; /* 0: it was not said yet */
    uint32_t table;
    int64_t staleness;
};

enum rbt_membership_end {
    RBT_MEMBERSHIP_AT_WORK,
    RBT_MEMBERSHIP_OVER, /* a server: the cluster has ended well */
    RBT_MEMBERSHIP_FAILED,
};

/* The fields are the machine's own. */
struct rbt_membership {
    struct rbt_membership_options options;
    enum rbt_membership_line line;
    enum rbt_membership_end end;
    bool is_known;   /* the coordinator has answered us once */
    bool has_broken; /* a connection was made, and ended before it had answered */
    bool is_alive;
    rbt_time began;
    rbt_time attempted_at; /* the connection that is being made */
    rbt_time retry_at;     /* while there is none */
    rbt_time backoff;      /* until the attempt after the next one */
    rbt_time connected_at; /* the last connection before we were known */
    rbt_time heard;
    rbt_time cut_at; /* since when there is no live connection */
    rbt_time looked; /* at the time of the last TIME */
    rbt_time beat_at;
    rbt_time versions_at; /* before this no VERSION is sent again */
    rbt_time leave_deadline;
    char trouble[RBT_WIRE_TEXT_MAX]; /* how the last connection ended, or why there was none */
    struct rbt_member_plan plan;     /* not written any more once it has shards */
    char **plan_shards;
    rbt_status failure;
    char failure_text[RBT_WIRE_TEXT_MAX];
    enum rbt_membership_say gather;
    uint64_t round; /* of the last gather */
    struct rbt_control_part part;
    struct rbt_block *gathered;          /* not taken yet, or NULL */
    struct rbt_membership_bound awaited; /* the staleness that somebody waits for, */
    struct rbt_membership_bound advised; /* and the one that nobody does */
    uint64_t bound_number;               /* of the last BOUND that was said */
    struct rbt_shard_versions versions;
    enum rbt_membership_say goodbye;
    rbt_status leave_status;
    char leave_text[RBT_WIRE_TEXT_MAX];
};

/* Borrows the texts of the options. The first TIME makes the machine connect. */
void rbt_membership_init(struct rbt_membership *m, const struct rbt_membership_options *options,
                         rbt_time now);
void rbt_membership_deinit(struct rbt_membership *m);

void rbt_membership_step(struct rbt_membership *m, const struct rbt_membership_event *event,
                         rbt_time now, struct rbt_membership_out *out);

/* When TIME has to be stepped next, or RBT_TIME_NEVER. */
rbt_time rbt_membership_deadline(const struct rbt_membership *m);

bool rbt_membership_has_plan(const struct rbt_membership *m);

/* Whether the round is not complete yet, and nothing has ended it. */
bool rbt_membership_is_gathering(const struct rbt_membership *m);

/* Whether somebody has not taken the staleness that is awaited yet, and nothing has ended that. */
bool rbt_membership_is_telling(const struct rbt_membership *m);

/* The body of the GATHERED of the last round, which is the caller's then, or NULL if the round did
 * not become complete. It was checked. */
struct rbt_block *rbt_membership_take_gathered(struct rbt_membership *m);

/* Whether the job, or for a server the cluster, is over, well or not. */
bool rbt_membership_has_ended(const struct rbt_membership *m);

/* Whether goodbye was answered, or there is nobody, or no time, to answer it. */
bool rbt_membership_has_left(const struct rbt_membership *m);

#endif
