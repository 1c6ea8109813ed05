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

/* What a server keeps for others at the moment. */
struct rbt_inspect_kept {
    int64_t need;        /* the smallest clock that a request waits for; RBT_CLOCK_GONE: none */
    uint32_t requests;   /* that wait */
    uint32_t slots;      /* that are not free: those, and those that nobody wants any more */
    uint64_t keys;       /* counted as written out in requests that wait; */
    uint64_t keys_found; /* and that are */
    uint32_t lists;      /* of keys, with a name */
    uint32_t lists_idle; /* of those, that no connection and no request refers to */
};
void rbt_inspect_kept(const rbt_simulation *simulation, uint32_t server,
                      struct rbt_inspect_kept *kept);

/* Copies of rows at the server, and lists of rows to be sent early, for readers one by one. */
size_t rbt_inspect_copies(const rbt_simulation *simulation, uint32_t server);

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
    uint32_t node;        /* the receiver's */
    uint32_t port;        /* the receiver's, of the connection that it comes over */
    rbt_time at;
    const char *bytes; /* with its header */
    size_t size;
};

/* What happens to a connection, as the side sees it that has asked for it. */
enum rbt_inspect_line_kind {
    RBT_INSPECT_TRIED, /* it is asked for */
    RBT_INSPECT_MADE,
    RBT_INSPECT_LOST, /* it has ended, or could not be made */
    RBT_INSPECT_CUT,  /* this side ends it */
};

struct rbt_inspect_line {
    enum rbt_inspect_line_kind kind;
    enum rbt_inspect_route route; /* of what this side hears: TO_WORKER or TO_MEMBER */
    const void *machine;          /* the receiver of what comes over it */
    uint32_t port;                /* the machine's */
    const char *node;
    rbt_time at;
    bool is_wanted; /* TO_WORKER: something is kept for it, or asked */
};

struct rbt_inspect_frames {
    void *context;
    void (*on_frame)(void *context, const struct rbt_inspect_frame *frame);
    void (*on_line)(void *context, const struct rbt_inspect_line *line); /* or NULL */
};

/* Connections that faults have reset so far. */
uint64_t rbt_inspect_resets(const rbt_simulation *simulation);

/* From now on every message is shown. To be called before a job is opened. */
void rbt_inspect_frames(rbt_simulation *simulation, const struct rbt_inspect_frames *frames);

#endif
