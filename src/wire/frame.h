/* wire/frame.h - the header in front of every message, and its limits.
 *
 * 32 bytes, little-endian; the body follows and is padded to a multiple of 8, so that whatever a
 * message holds is aligned where it lies. docs/wire.md shows the bytes.
 *
 * Pure functions: no I/O, no memory of their own. Threads: any. */
#ifndef RUBATO_WIRE_FRAME_H
#define RUBATO_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum {
    RBT_WIRE_VERSION = 6,
    RBT_FRAME_HEADER = 32,
    RBT_FRAME_ALIGN = 8,
};

#define RBT_FRAME_BODY_MAX  (UINT32_C(1) << 30) /* bytes */
#define RBT_FRAME_SMALL_MAX (UINT32_C(1) << 17) /* of a body before a peer has said who it is */
#define RBT_FRAME_NOBODY    UINT32_MAX          /* `worker` of who is none */

enum rbt_frame_kind {
    /* Between a worker and a shard; wire/message.h. */
    RBT_FRAME_HELLO = 1, /* who is there; the first message of a connection */
    RBT_FRAME_WELCOME,   /* its answer */
    RBT_FRAME_REFUSED,   /* a sentence; the last message of a connection */
    RBT_FRAME_PUSH,      /* id: sequence */
    RBT_FRAME_LEAVE,     /* id: sequence */
    RBT_FRAME_LIST,      /* keys that later messages name by their hash */
    RBT_FRAME_PULL,      /* id: of the request; like all below */
    RBT_FRAME_SCAN,
    RBT_FRAME_ROWS,  /* the answer to both */
    RBT_FRAME_ACK,   /* how far the stream has arrived; id 0 */
    RBT_FRAME_TABLE, /* a table is new to its sender */
    RBT_FRAME_RESET, /* a new run begins */
    RBT_FRAME_STATS, /* what has the shard done? */
    RBT_FRAME_DONE,  /* the answer to TABLE, RESET and STATS */
    /* Between a process and the coordinator; wire/control.h. */
    RBT_FRAME_JOIN = 32,
    RBT_FRAME_PLAN,
    RBT_FRAME_BEAT,
    RBT_FRAME_GATHER,
    RBT_FRAME_GATHERED,
    RBT_FRAME_BOUND,
    RBT_FRAME_DROP,
    RBT_FRAME_FAILED,
    RBT_FRAME_GOODBYE,
    RBT_FRAME_VERSION,     /* id: job */
    RBT_FRAME_STABLE,      /* the same */
    RBT_FRAME_JOB,         /* the same */
    RBT_FRAME_BOUND_TAKEN, /* id: number of the BOUND */
};

/* Flags. */
enum {
    RBT_FRAME_HAS_LEFT = 1,  /* ACK, ROWS: the worker's LEAVE has arrived, too */
    RBT_FRAME_TRY_AGAIN = 2, /* REFUSED: a new connection may do better */
    RBT_FRAME_FAILURE = 4,   /* REFUSED: the job has failed at the shard; id: its status, negated */
};

/* A header, taken apart. */
struct rbt_frame {
    uint16_t kind;
    uint16_t flags;
    uint32_t length; /* of the body, a multiple of 8 */
    uint32_t worker; /* who it is from or for, or RBT_FRAME_NOBODY */
    uint64_t id;
};

/* Where the end of a long body may be put instead of after its beginning. */
struct rbt_frame_place {
    size_t prefix; /* bytes of the body that come before it */
    void *to;
    size_t bytes; /* all the rest of the body */
};

/* Writes RBT_FRAME_HEADER bytes. */
void rbt_frame_put(char *to, const struct rbt_frame *frame);

/* Reads them. Fails with RBT_E_PROTOCOL and a sentence: not ours, another version (both are
 * named), a length that is not a multiple of 8 or above `length_max`. */
RBT_MUST_USE rbt_status rbt_frame_get(const char *from, uint32_t length_max,
                                      struct rbt_frame *frame);

static inline size_t rbt_frame_padded(size_t bytes)
{
    return (bytes + RBT_FRAME_ALIGN - 1) / RBT_FRAME_ALIGN * RBT_FRAME_ALIGN;
}

#endif
