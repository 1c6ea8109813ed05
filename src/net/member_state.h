/* net/member_state.h - a member's machine, its thread and its connection; shared by member.c (what
 * callers do) and member_line.c (the thread). */
#ifndef RUBATO_NET_MEMBER_STATE_H
#define RUBATO_NET_MEMBER_STATE_H

#include <pthread.h>

#include "base/error.h"
#include "net/channel.h"
#include "net/member.h"

struct rbt_member {
    struct rbt_member_options options; /* texts are copies */
    char *coordinator;
    char *space;
    char **shards;
    uint32_t shard_count;
    uint64_t token;
    char host[RBT_NAME_MAX];
    pthread_t thread;
    bool has_thread;
    int wake;  /* eventfd: there is something to do */
    int alarm; /* eventfd: the job has failed */

    /* The thread's own. */
    rbt_channel *channel; /* or NULL */
    int socket;           /* that is being connected, or -1 */
    size_t attempts;      /* to connect */
    struct rbt_outbox doing;
    rbt_status refusal; /* of an attempt that failed at once, and `why`; or RBT_OK */
    char why[RBT_ERROR_MAX];

    pthread_mutex_t telling; /* rank CLUSTER; held by who waits until a staleness is taken */
    pthread_mutex_t mutex;   /* rank MEMBER; guards all below */
    pthread_cond_t changed;
    struct rbt_membership machine; /* its plan is not written any more once it is there */
    struct rbt_membership_out out;
    rbt_time sleeps_until; /* the thread, unless it is woken */
    bool has_alarmed;
};

/* Makes an eventfd readable. */
void rbt_member_signal(int descriptor);

/* What a caller, or the thread, does: lock, step, unlock. The second one is called with the mutex
 * held, right after a step, and lets those who wait look again; it says whether the thread has to
 * be woken for what is to be done. */
void rbt_member_step(rbt_member *member, const struct rbt_membership_event *event);
bool rbt_member_settle(rbt_member *member);

/* The member's thread; `argument` is the member. */
void *rbt_member_run(void *argument);

#endif
