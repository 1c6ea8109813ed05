/* sim/trace.h - a timeline in Chrome's trace format, which chrome://tracing and Perfetto show.
 *
 * Each node is a process of the timeline and each of its lanes a thread; a span is something that
 * lasts (computing, waiting), a message is an arrow between two nodes. Times are virtual. Writing
 * is buffered; the first failure is kept and reported by rbt_trace_close(). The file appears under
 * its name only when it is complete. Equal calls, equal bytes.
 *
 * Names consist of printable ASCII characters without quotes and backslashes. Times are not
 * negative. Calls need not be in order of time. Threads: none. */
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

/* On success stores a trace that the caller closes. A device or a pipe is written to directly.
 * Fails with RBT_E_IO and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_trace_open(const char *path, rbt_trace **trace);

/* Names a node or a lane; once for each that is used. */
void rbt_trace_name_node(rbt_trace *trace, uint32_t node, const char *name);
void rbt_trace_name_lane(rbt_trace *trace, struct rbt_trace_lane lane, const char *name);

/* Something that went on from `start` to `end`. Spans of a lane lie inside each other or apart;
 * viewers drop those that overlap. Of two that start at once, the longer is written first. */
void rbt_trace_span(rbt_trace *trace, struct rbt_trace_lane lane, const char *name, rbt_time start,
                    rbt_time end);

/* A moment. */
void rbt_trace_mark(rbt_trace *trace, struct rbt_trace_lane lane, const char *name, rbt_time at);

/* What a node sends and receives per second, from `at` on. */
void rbt_trace_traffic(rbt_trace *trace, uint32_t node, rbt_time at, const uint64_t bytes_per_s[2]);

struct rbt_trace_message {
    const char *name; /* "push", "pull", "rows", ... */
    struct rbt_trace_lane from;
    struct rbt_trace_lane to;
    rbt_time sent;
    rbt_time delivered;
    uint64_t bytes;
};

/* The two ends are on lanes of their own, "<lane> messages", so that they never overlap spans. */
void rbt_trace_message(rbt_trace *trace, const struct rbt_trace_message *message);

/* Ends the file, gives it its name and frees the trace, whatever happens; accepts NULL. Fails with
 * RBT_E_IO if anything could not be written; no file is left then, and an old one stays. */
rbt_status rbt_trace_close(rbt_trace *trace);

#endif
