/* proto/admitted.h - the jobs that the coordinator has told a shard of, and who may say HELLO for
 * them.
 *
 * A connection belongs to a job if it shows the secret that the coordinator has given to the job's
 * processes; the one of readers is another one, with which rows can be read and nothing else.
 * Whoever belongs to the cluster, but not to the job, gets neither.
 *
 * Threads: its owner's. */
#ifndef RUBATO_PROTO_ADMITTED_H
#define RUBATO_PROTO_ADMITTED_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "proto/bounds.h"
#include "wire/control.h"
#include "wire/message.h"

struct rbt_admitted_job {
    uint64_t number;
    struct rbt_control_job job;
    struct rbt_bounds bounds; /* that were told before anybody came */
};

/* All zeros is empty. */
struct rbt_admitted {
    struct rbt_admitted_job *jobs;
    uint32_t count;
    uint32_t max;
    uint64_t workers; /* of all of them */
};

void rbt_admitted_deinit(struct rbt_admitted *admitted);

/* A job begins; it may be told again. Without memory nobody gets into it. */
void rbt_admitted_add(struct rbt_admitted *admitted, uint64_t number,
                      const struct rbt_control_job *job);
void rbt_admitted_remove(struct rbt_admitted *admitted, uint64_t number);

/* How stale the job's reads may be. Without memory nobody gets into it. And: what was told of that,
 * or NULL if there is no such job. */
void rbt_admitted_bound(struct rbt_admitted *admitted, uint64_t number,
                        const struct rbt_bound *bound);
const struct rbt_bounds *rbt_admitted_bounds(const struct rbt_admitted *admitted, uint64_t number);

/* RBT_E_NOTFOUND: there is no such job yet; RBT_E_PROTOCOL: it is not the sender's. */
RBT_MUST_USE rbt_status rbt_admitted_check(const struct rbt_admitted *admitted,
                                           const struct rbt_wire_hello *hello);

#endif
