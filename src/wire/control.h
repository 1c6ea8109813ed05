/* wire/control.h - what a process and the coordinator say to each other.
 *
 * Every message is a frame (wire/frame.h) with a body of fixed fields, then texts or bytes, all
 * padded to 8. Writers write whole frames, header included, and only measure them if they are given
 * no place; readers check everything and give views into the body. docs/wire.md shows the bytes.
 *
 * BEAT and DROP have no body: their header says it all (DROP: id is the job's number).
 *
 * Pure functions: no I/O, no memory of their own. Threads: any. */
#ifndef RUBATO_WIRE_CONTROL_H
#define RUBATO_WIRE_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "wire/frame.h"
#include "wire/message.h"

enum rbt_role {
    RBT_ROLE_SERVER,
    RBT_ROLE_WORKER, /* a process with one or more workers */
    RBT_ROLE_READER, /* the same, of a group that only reads */
};

enum { RBT_INDEX_ANY = -1 };

enum {
    RBT_CONTROL_ROLES = 3,           /* of enum rbt_role */
    RBT_CONTROL_PARTS_MAX = 1 << 12, /* processes with workers */
};

#define RBT_CONTROL_ALL UINT32_MAX /* in place of a table: all that follow the job */

/* Addresses of shards. */
struct rbt_control_shards {
    uint32_t count;
    const char *const *texts;    /* writing: borrowed */
    struct rbt_wire_cursor list; /* reading: for rbt_control_next_shard() */
};

/* JOIN: the first message of a process, and of every further connection of the same process. */
struct rbt_control_join {
    uint64_t token; /* by which a process is known again; drawn by itself, not 0 */
    bool is_return; /* it has joined before, and its line was cut */
    uint32_t role;  /* enum rbt_role, once it was checked */
    int32_t index;  /* from 0, or RBT_INDEX_ANY */
    uint32_t pid;
    uint32_t worker_count; /* of the job; 0 for a server */
    uint32_t thread_count; /* of them, in this process; 0 for a server */
    struct rbt_control_shards shards;
    /* What the process shows to be let into the job of this name: the first process of a job sets
     * it for the others, and what readers must show. All zero: whoever is of the cluster may. */
    struct rbt_wire_secret permit;
    struct rbt_wire_secret read_permit; /* zero for a reader, whose own is `permit` */
    char space[RBT_NAME_MAX];           /* namespace; "" for a server */
    char host[RBT_NAME_MAX];
};

/* PLAN: see struct rbt_member_plan. */
struct rbt_control_plan {
    uint64_t cluster;
    uint64_t job; /* 0 for a server */
    uint32_t index;
    uint32_t process_count;
    uint32_t worker_count;
    uint32_t worker_first;
    uint32_t thread_count;
    uint32_t process_size;
    uint64_t map_version;
    struct rbt_wire_secret secret; /* for HELLO; zero for a server */
    struct rbt_control_shards shards;
};

/* JOB: a server is told of a job before its processes are: who may say HELLO for it. The frame's
 * id is the job's number. */
struct rbt_control_job {
    uint32_t worker_count;
    struct rbt_wire_secret secret; /* of its worker processes */
    struct rbt_wire_secret read_secret;
};

/* One process's bytes of a GATHERED. */
struct rbt_control_part {
    const char *bytes;
    size_t size;
};

/* FAILED: the job, or what the receiver asked for, is over; RBT_OK tells a server that the cluster
 * has ended well. GOODBYE: the sender leaves; the coordinator repeats it as its answer. */
struct rbt_control_ending {
    rbt_status status;
    char text[RBT_WIRE_TEXT_MAX];
};

/* BOUND: from a process, how stale reads of a table are to be from now on, under a number of the
 * process's own; from the coordinator, how stale they are, under the job's number of the change.
 * BOUND_TAKEN, with the same numbers: from a process or a server, that it reads, or shows, by the
 * bound; from the coordinator, that all of them do. */
struct rbt_control_bound {
    uint64_t job;
    uint32_t table;    /* below RBT_JOB_TABLES_MAX, or RBT_CONTROL_ALL */
    int64_t staleness; /* -1: no bound */
};

/* VERSION: all shards of the sender, a server, have the versions of the table below this one.
 * STABLE: the shards of all servers have them. The frame's id is the job's number. */
struct rbt_control_version {
    uint32_t table; /* below RBT_JOB_TABLES_MAX */
    uint64_t version;
};

/* Writers return the bytes of the frame, a multiple of 8. `to` is aligned to 8, or NULL. Control
 * characters in texts become spaces, so that a sentence is one line wherever it is printed. */
size_t rbt_control_put_join(char *to, const struct rbt_control_join *join);
size_t rbt_control_put_plan(char *to, const struct rbt_control_plan *plan);
size_t rbt_control_put_gather(char *to, uint64_t round, const struct rbt_control_part *part);
size_t rbt_control_put_gathered(char *to, uint64_t round, const struct rbt_control_part *parts,
                                uint32_t count);
size_t rbt_control_put_bound(char *to, uint64_t number, const struct rbt_control_bound *bound);
size_t rbt_control_put_taken(char *to, uint64_t number, uint64_t job); /* BOUND_TAKEN */
size_t rbt_control_put_ending(char *to, enum rbt_frame_kind kind, rbt_status status,
                              const char *text);
size_t rbt_control_put_version(char *to, enum rbt_frame_kind kind, uint64_t job,
                               const struct rbt_control_version *version);
size_t rbt_control_put_job(char *to, uint64_t number, const struct rbt_control_job *job);
size_t rbt_control_put_plain(char *to, enum rbt_frame_kind kind, uint64_t id); /* BEAT, DROP */

/* Readers fail with RBT_E_PROTOCOL and a sentence if the body is not exactly what they read. */
RBT_MUST_USE rbt_status rbt_control_get_join(struct rbt_wire_cursor body,
                                             struct rbt_control_join *join);
RBT_MUST_USE rbt_status rbt_control_get_plan(struct rbt_wire_cursor body,
                                             struct rbt_control_plan *plan);
RBT_MUST_USE rbt_status rbt_control_get_gather(struct rbt_wire_cursor body,
                                               struct rbt_control_part *part);
RBT_MUST_USE rbt_status rbt_control_get_bound(struct rbt_wire_cursor body,
                                              struct rbt_control_bound *bound);
RBT_MUST_USE rbt_status rbt_control_get_taken(struct rbt_wire_cursor body, uint64_t *job);
RBT_MUST_USE rbt_status rbt_control_get_ending(struct rbt_wire_cursor body,
                                               struct rbt_control_ending *ending);
RBT_MUST_USE rbt_status rbt_control_get_version(struct rbt_wire_cursor body,
                                                struct rbt_control_version *version);
RBT_MUST_USE rbt_status rbt_control_get_job(struct rbt_wire_cursor body,
                                            struct rbt_control_job *job);
RBT_MUST_USE rbt_status rbt_control_get_plain(struct rbt_wire_cursor body);

/* GATHERED: how many parts there are, all of them checked; then each, as often as that. */
RBT_MUST_USE rbt_status rbt_control_get_gathered(struct rbt_wire_cursor body,
                                                 struct rbt_wire_cursor *parts, uint32_t *count);
void rbt_control_next_part(struct rbt_wire_cursor *parts, struct rbt_control_part *part);

/* The next of the addresses that a reader has found, `count` times. */
void rbt_control_next_shard(struct rbt_control_shards *shards, char address[static RBT_NAME_MAX]);

#endif
