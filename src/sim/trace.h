/* sim/trace.h - a timeline in Chrome's trace format, which chrome://tracing and Perfetto show.
 *
 * Each node is a process of the timeline and each of its lanes a thread; a span is something that
 * lasts (computing, waiting), a message is an arrow between two nodes. Times are virtual. Writing
 * is buffered; the first failure is kept and reported by rbt_trace_close(). The file appears under
 * its name only when it is complete. Equal calls, equal bytes. */
#ifndef RUBATO_SIM_TRACE_H
#define RUBATO_SIM_TRACE_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"

typedef struct rbt_trace rbt_trace;

/* Where on the timeline. */
struct rbt_trace_lane {
    uint32_t node;
    uint32_t lane;
};

/* Fails with RBT_E_IO and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_trace_open(const char *path, rbt_trace **trace);

/* Names a node or a lane; once for each that is used. */
void rbt_trace_name_node(rbt_trace *trace, uint32_t node, const char *name);
void rbt_trace_name_lane(rbt_trace *trace, struct rbt_trace_lane lane, const char *name);

/* Something that went on from `start` to `end`. Names are constant strings of plain characters. */
void rbt_trace_span(rbt_trace *trace, struct rbt_trace_lane lane, const char *name, rbt_time start,
                    rbt_time end);

/* A moment. */
void rbt_trace_mark(rbt_trace *trace, struct rbt_trace_lane lane, const char *name, rbt_time at);

struct rbt_trace_message {
    const char *name; /* "push", "pull", "rows", ... */
    struct rbt_trace_lane from;
    struct rbt_trace_lane to;
    rbt_time sent;
    rbt_time delivered;
    uint64_t bytes;
};
void rbt_trace_message(rbt_trace *trace, const struct rbt_trace_message *message);

/* Ends the file and gives it its name. Fails with RBT_E_IO if anything could not be written; no
 * file is left then. */
rbt_status rbt_trace_close(rbt_trace *trace);

#endif
