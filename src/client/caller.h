/* client/caller.h - one thread's way to the shards: a link to each, and rows that were asked for
 * ahead of their time.
 *
 * Updates are sent and not waited for. What the kernel does not take at once is left to the
 * process's sender (client/sender.h), so that the worker can go on; but when too much is
 * unacknowledged it waits: a slow server slows its senders. Requests go out to all shards at once,
 * and the caller then waits for the last answer, reading and writing whatever it can meanwhile.
 * There is no other thread in between: waking one would cost more than most answers take.
 *
 * Rows of eager tables are asked for ahead: when an answer has been used, the next request for the
 * same rows leaves at once and asks for more than there is. The shard answers when everybody has
 * finished another clock, and usually the rows are there before they are wanted.
 *
 * Threads: a caller belongs to one thread. */
#ifndef RUBATO_CLIENT_CALLER_H
#define RUBATO_CLIENT_CALLER_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "client/driver.h"
#include "client/link.h"
#include "net/member.h"
#include "net/spin.h"
#include "proto/ahead.h"
#include "proto/answer.h"

/* What all callers of a process share. */
struct rbt_caller_shared {
    rbt_member *member;
    uint32_t shard_count;
    struct rbt_caller_table *tables; /* written before the table is used */
    atomic_int_least64_t *floors;    /* per shard, the highest heard of; relaxed */
    atomic_uint_least64_t *versions; /* the same */
    enum rbt_compression compression;
    struct rbt_sender *sender; /* who writes what the kernel would not take at once; or NULL */
};

struct rbt_caller {
    struct rbt_caller_shared *shared;
    uint32_t worker;       /* or RBT_FRAME_NOBODY */
    pthread_mutex_t mutex; /* rank SHARD; held by whoever drives the connections: the caller's own
                              thread in every function below, else the process's sender */
    bool is_ready;         /* the mutex was made */
    struct rbt_link *links;
    struct pollfd *polls; /* shard_count + 1 */
    struct rbt_aheads aheads;
    struct rbt_packing packing;
    uint32_t unanswered;              /* calls of the step under way */
    bool had_to_wait;                 /* one of them, for other workers */
    struct rbt_channel_stats counted; /* what replies have told of so far */
    struct rbt_spin spin;
    rbt_time looked_at; /* when what had come was last read without waiting */
    rbt_status status;  /* why nothing works any more */
    struct rbt_error_record *error;
};

RBT_MUST_USE rbt_status rbt_caller_init(struct rbt_caller *caller, struct rbt_caller_shared *shared,
                                        const struct rbt_link_options *links);
void rbt_caller_deinit(struct rbt_caller *caller);

/* A new run. */
void rbt_caller_reset(struct rbt_caller *caller);

/* See struct rbt_driver_ops; PUSH, LEAVE, PULL and SCAN. */
void rbt_caller_step(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);

void rbt_caller_expect(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);
void rbt_caller_forget(struct rbt_caller *caller, uint64_t asked);
bool rbt_caller_has_answer(struct rbt_caller *caller, uint64_t asked);

/* Early reads. Nothing of the calls is used after either has returned. */
void rbt_caller_ask_early(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);
bool rbt_caller_take_early(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count);

/* All shards have the stream up to this number, as far as it is known after a look at what has come
 * of late. */
uint64_t rbt_caller_heard(struct rbt_caller *caller);

/* Sends a message that is answered with DONE, and waits for that. The block holds everything but
 * the header. Fails with what the answer says. */
RBT_MUST_USE rbt_status rbt_caller_ask(struct rbt_caller *caller, uint32_t shard,
                                       struct rbt_block *block, struct rbt_frame header,
                                       struct rbt_wire_done *done);

/* Takes what has come, without waiting. */
void rbt_caller_look(struct rbt_caller *caller);

/* Waits until the shards have everything, the last message of the run included. */
RBT_MUST_USE rbt_status rbt_caller_drain(struct rbt_caller *caller);

#endif
