/* proto/strangers.h - connections that have not said who they are: how many there may be, who has
 * to go when there are too many, and how often the log is told.
 *
 * Whoever can connect can be a stranger, so there is room for a number of them only, and for fewer
 * from one host. When there is no room it is not the newcomer that is turned away, who may belong
 * here, but the stranger that has been silent for the longest time, of the host that has too many.
 *
 * Threads: those of its owner. Memory: none; a stranger is part of what its owner knows of a
 * connection. */
#ifndef RUBATO_PROTO_STRANGERS_H
#define RUBATO_PROTO_STRANGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "proto/port.h"

struct rbt_stranger {
    struct rbt_stranger *older;
    struct rbt_stranger *newer;
    bool is_listed;
    char host[RBT_ADDRESS_MAX];
};

/* All zeros is empty. */
struct rbt_strangers {
    struct rbt_stranger *oldest;
    struct rbt_stranger *newest;
    uint32_t count;
    rbt_time log_second;
    uint32_t log_count; /* in this second */
};

struct rbt_strangers_limits {
    uint64_t all;
    uint64_t per_host;
};

/* `who` is an address, or what a carrier says instead: "this host (pid 12)". Removing one that is
 * not listed does nothing. */
void rbt_strangers_add(struct rbt_strangers *strangers, struct rbt_stranger *stranger,
                       const char *who);
void rbt_strangers_remove(struct rbt_strangers *strangers, struct rbt_stranger *stranger);

/* Who has to go before another one comes from `who`, or NULL if there is room. */
struct rbt_stranger *rbt_strangers_displaced(const struct rbt_strangers *strangers, const char *who,
                                             const struct rbt_strangers_limits *limits);

/* Whether one more line about strangers may be written: at most ten in a second. */
bool rbt_strangers_may_log(struct rbt_strangers *strangers, rbt_time now);

#endif
