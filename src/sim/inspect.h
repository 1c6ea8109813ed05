/* sim/inspect.h - the inside of a running simulation, for tests that look at it after every event
 * (the observer's on_event), or at every message. */
#ifndef RUBATO_SIM_INSPECT_H
#define RUBATO_SIM_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/simulate.h>

#include "base/clock.h"
#include "store/shard.h"

/* What has just happened. Of several messages that were heard in one event it is the last. */
struct rbt_inspect_event {
    rbt_time at;         /* virtual, since the run began */
    const char *what;    /* "deliver", "network", "wake", "timer", "fault", "heal" */
    const char *message; /* "push", "pull", "rows", ... of a delivery; else "" */
    const char *from;    /* nodes; "" if there is none */
    const char *to;
    uint32_t worker; /* UINT32_MAX: none */
    uint64_t number; /* of the message: its sequence, or the id of the request */
};
void rbt_inspect_event(const rbt_simulation *simulation, struct rbt_inspect_event *event);

/* The shard of a server; NULL before a worker has greeted it. It may be stepped with a PULL or SCAN
 * that needs nothing (RBT_CLOCK_ANY), which changes nothing. */
rbt_shard *rbt_inspect_shard(rbt_simulation *simulation, uint32_t server);

/* The smallest clock that a request waits for at the server; RBT_CLOCK_GONE if none waits. */
int64_t rbt_inspect_parked_need(const rbt_simulation *simulation, uint32_t server);

/* What the worker has heard of a server: its floor, and how much of the worker's stream it has. */
int64_t rbt_inspect_heard_floor(const rbt_simulation *simulation, uint32_t worker, uint32_t server);
uint64_t rbt_inspect_heard_arrived(const rbt_simulation *simulation, uint32_t worker,
                                   uint32_t server);

/* --- Messages -------------------------------------------------------------------------------- */

/* Which way a message goes, by what its receiver is. */
enum rbt_inspect_route {
    RBT_INSPECT_TO_SERVER,      /* from a worker, or its process */
    RBT_INSPECT_TO_WORKER,      /* from a server */
    RBT_INSPECT_TO_COORDINATOR, /* from a process */
    RBT_INSPECT_TO_MEMBER,      /* from the coordinator, to a process */
    RBT_INSPECT_ROUTES,
};

/* A message that is about to be heard. Everything is the simulation's. */
struct rbt_inspect_frame {
    enum rbt_inspect_route route;
    const char *message;  /* "push", "pull", "rows", ... */
    const void *receiver; /* whichever machine it is */
    uint32_t port;        /* the receiver's, of the connection that it comes over */
    const char *bytes;    /* with its header */
    size_t size;
};

struct rbt_inspect_frames {
    void *context;
    void (*on_frame)(void *context, const struct rbt_inspect_frame *frame);
};

/* From now on every message is shown. To be called before a job is opened. */
void rbt_inspect_frames(rbt_simulation *simulation, const struct rbt_inspect_frames *frames);

#endif
