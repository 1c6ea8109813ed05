/* net/member_state.h - what a member remembers; shared by member.c (what callers do) and
 * member_line.c (its thread, which keeps the line to the coordinator). */
#ifndef RUBATO_NET_MEMBER_STATE_H
#define RUBATO_NET_MEMBER_STATE_H

#include <pthread.h>

#include "base/block.h"
#include "net/channel.h"
#include "net/member.h"
#include "wire/control.h"

/* A table whose versions the coordinator is told of. */
struct rbt_member_table {
    uint64_t job;
    uint32_t table;
    uint64_t told;
    uint64_t *versions; /* by shard of this server */
};

struct rbt_member {
    struct rbt_member_options options; /* texts are copies */
    char *coordinator;
    char *space;
    char **shards;
    uint32_t shard_count;
    uint64_t token;
    char host[RBT_WIRE_NAME_MAX];
    pthread_t thread;
    bool has_thread;
    int wake;  /* eventfd: there is something to say */
    int alarm; /* eventfd: the job has failed */

    /* The thread's own. */
    rbt_channel *channel; /* or NULL */
    bool is_known;        /* the coordinator has answered us once */
    bool is_live;         /* it has answered on this connection */
    rbt_time began;
    rbt_time connected_at;
    rbt_time heard;
    rbt_time cut_at; /* since when there is no live connection */
    rbt_time looked;
    rbt_time beat_at;
    rbt_time backoff;
    rbt_time versions_at;            /* before this no VERSION is sent again */
    uint64_t bound_heard;            /* number of the last BOUND that came */
    char trouble[RBT_WIRE_TEXT_MAX]; /* how the last line ended before we were known, or "" */

    pthread_mutex_t mutex; /* rank MEMBER; guards all below */
    pthread_cond_t changed;
    bool has_plan;
    struct rbt_member_plan plan; /* not written any more once has_plan */
    char **plan_shards;
    bool is_over; /* a server: the cluster has ended well */
    rbt_status failure;
    char failure_text[RBT_WIRE_TEXT_MAX];
    uint64_t round; /* of the last gather */
    struct rbt_control_part part;
    bool is_gathering;
    bool must_gather; /* the part has to be said, again */
    struct rbt_block *gathered;
    uint64_t bound_number;
    int64_t bound;
    bool must_bound;
    struct rbt_member_table *tables;
    uint32_t table_count;
    uint32_t table_max;
    bool must_version; /* some of them have more than was told */
    bool must_leave;
    bool must_goodbye; /* has to be said, again */
    bool has_left;     /* it was answered, or nobody is there to answer */
    rbt_time leave_deadline;
    rbt_status leave_status;
    char leave_text[RBT_WIRE_TEXT_MAX];
};

/* Makes an eventfd readable. */
void rbt_member_signal(int descriptor);

/* What the coordinator is to be told of a server's tables: the next one, or NULL; all of it again;
 * no more of a job. The mutex is held. */
const struct rbt_member_table *rbt_member_next_table(rbt_member *member,
                                                     struct rbt_control_version *version);
void rbt_member_forget_told(rbt_member *member);
void rbt_member_drop_tables(rbt_member *member, uint64_t job);
void rbt_member_free_tables(rbt_member *member);

/* The member's thread; `argument` is the member. */
void *rbt_member_run(void *argument);

#endif
