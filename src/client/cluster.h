/* client/cluster.h - the inside of a cluster handle, for the driver. */
#ifndef RUBATO_CLIENT_CLUSTER_H
#define RUBATO_CLIENT_CLUSTER_H

#include <pthread.h>
#include <stdatomic.h>

#include <rubato/cluster.h>

#include "net/member.h"
#include "net/security.h"
#include "proto/bounds.h"
#include "wire/control.h"

struct rbt_cluster {
    rbt_member *member;
    rbt_security *security; /* NULL: plain */
    bool is_reader;
    char name_space[256];
    rbt_time silence_max;
    rbt_time cut_max;
    int32_t compression; /* enum rbt_compression; below 0: what suits the address */
    bool is_busy;        /* a job is open */
    uint64_t runs;       /* of the jobs that were open before: shards take each number once */

    /* By table: all shards have the versions below. Relaxed: shards check what they are asked. */
    atomic_uint_least64_t stable[RBT_JOB_TABLES_MAX];

    pthread_mutex_t bounds_mutex; /* rank LEAF; guards how stale reads may be, as all were told */
    struct rbt_bounds bounds;

    pthread_mutex_t mutex; /* rank CLUSTER; guards whom to tell of a new staleness */
    void *context;
    void (*on_staleness)(void *context, uint32_t place, uint32_t table, int64_t staleness);
};

/* How stale reads of the table may be: as all were told, or `staleness`. */
int64_t rbt_cluster_bound(rbt_cluster *cluster, uint32_t table, bool follows_job,
                          int64_t staleness);

#endif
