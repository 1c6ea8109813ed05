/* sim/trace.c - a timeline in Chrome's trace format.
 *
 * One event per line. Processes and threads are numbered from 1: viewers take number 0 for the idle
 * process. A message is a flow, that is, an arrow, between two spans of a nanosecond, because an
 * arrow must have something to hold on to. Those are on a thread of their own beside the lane's:
 * Perfetto drops a span which starts together with a shorter one that was written before it, and
 * messages do arrive just when something starts. Among themselves spans of a nanosecond either
 * coincide or do not touch.
 *
 * Times are written in microseconds, as the format wants, from whole numbers: no rounding, and the
 * same bytes everywhere.
 *
 * Threads: none. Memory: a buffer, whatever the length of the trace. */
#include "sim/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/io.h"
#include "base/text.h"

enum { BUFFER_BYTES = 256 * 1024 };

struct rbt_trace {
    FILE *file;
    char *path;
    char *temporary; /* what the file is called until it is complete; NULL if written directly */
    char *buffer;    /* of `file` */
    int error;       /* errno of the first failure, or 0 */
    bool has_events;
    uint64_t messages; /* so far; numbers the arrows */
};

/* Frees everything; what has been written stays where it is. */
static void release(rbt_trace *trace)
{
    RBT_ASSERT(trace->file == NULL);
    rbt_free(trace->buffer);
    rbt_free(trace->temporary);
    rbt_free(trace->path);
    rbt_free(trace);
}

static char *temporary_name(const char *path)
{
    struct rbt_text_buffer text = {0};
    rbt_text_add(&text, "%s.tmp", path);
    return text.data; /* NULL if there was no memory */
}

/* Keeps the first error. */
static void note_error(rbt_trace *trace)
{
    RBT_ASSERT(trace->path != NULL);
    if (trace->error == 0) {
        trace->error = errno != 0 ? errno : EIO;
    }
}

static void put(rbt_trace *trace, const char *format, ...) RBT_PRINTF(2, 3);

static void put(rbt_trace *trace, const char *format, ...)
{
    RBT_ASSERT(trace->file != NULL);
    if (trace->error != 0) {
        return;
    }
    va_list args;
    va_start(args, format);
    errno = 0;
    if (vfprintf(trace->file, format, args) < 0) {
        note_error(trace);
    }
    va_end(args);
}

/* Opens the file under its temporary name, or what is no regular file directly. */
static rbt_status open_file(rbt_trace *trace, bool is_special)
{
    RBT_ASSERT(trace->file == NULL);
    RBT_ASSERT(is_special == (trace->temporary == NULL));
    trace->file = fopen(is_special ? trace->path : trace->temporary, "we");
    if (trace->file == NULL) {
        return rbt_fail(RBT_E_IO, "could not write \"%s\"", trace->path);
    }
    const int failed = setvbuf(trace->file, trace->buffer, _IOFBF, BUFFER_BYTES);
    RBT_ASSERT(failed == 0);
    return RBT_OK;
}

rbt_status rbt_trace_open(const char *path, rbt_trace **trace)
{
    RBT_ASSERT(path != NULL);
    struct stat info;
    const bool is_special = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
    rbt_trace *t = rbt_calloc(1, sizeof *t);
    if (t == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a trace");
    }
    t->path = rbt_strdup(path);
    t->temporary = is_special ? NULL : temporary_name(path);
    t->buffer = rbt_calloc(BUFFER_BYTES, 1);
    rbt_status st = RBT_OK;
    if (t->path == NULL || t->buffer == NULL || (t->temporary == NULL && !is_special)) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate a trace");
    } else {
        st = open_file(t, is_special);
    }
    if (st != RBT_OK) {
        release(t);
        return st;
    }
    put(t, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    *trace = t;
    return RBT_OK;
}

/* --- Events -------------------------------------------------------------------------------------
 */

/* A time in microseconds with three decimals. */
struct decimal {
    int64_t whole;
    int thousandths;
};

static struct decimal microseconds(rbt_time time)
{
    RBT_ASSERT(time >= 0);
    return (struct decimal){.whole = time / 1000, .thousandths = (int)(time % 1000)};
}

/* Whether the name can stand between quotes as it is. */
static bool is_plain(const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name < ' ' || *name > '~' || *name == '"' || *name == '\\') {
            return false;
        }
    }
    return true;
}

/* Whatever stands on a thread of the timeline. */
struct place {
    uint32_t node;
    uint64_t thread;
};

/* The thread of a lane's spans, and the one of its messages. */
static struct place spans_of(struct rbt_trace_lane lane)
{
    return (struct place){.node = lane.node, .thread = (uint64_t)lane.lane * 2 + 1};
}

static struct place messages_of(struct rbt_trace_lane lane)
{
    return (struct place){.node = lane.node, .thread = (uint64_t)lane.lane * 2 + 2};
}

/* Writes what all events have. The caller adds the rest and closes the brace. */
static void begin(rbt_trace *trace, const char *phase, const char *name, struct place place)
{
    RBT_ASSERT(is_plain(name));
    put(trace, "%s\n{\"ph\":\"%s\",\"name\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64,
        trace->has_events ? "," : "", phase, name, (uint64_t)place.node + 1, place.thread);
    trace->has_events = true;
}

static void put_time(rbt_trace *trace, const char *key, rbt_time time)
{
    const struct decimal decimal = microseconds(time);
    put(trace, ",\"%s\":%" PRId64 ".%03d", key, decimal.whole, decimal.thousandths);
}

void rbt_trace_name_node(rbt_trace *trace, uint32_t node, const char *name)
{
    RBT_ASSERT(is_plain(name));
    const struct place place = {.node = node, .thread = 1};
    begin(trace, "M", "process_name", place);
    put(trace, ",\"args\":{\"name\":\"%s\"}}", name);
    begin(trace, "M", "process_sort_index", place);
    put(trace, ",\"args\":{\"sort_index\":%" PRIu32 "}}", node);
}

/* Names a thread; viewers show them in the order of their numbers. */
static void name_thread(rbt_trace *trace, struct place place, const char *name, const char *ending)
{
    RBT_ASSERT(is_plain(name));
    begin(trace, "M", "thread_name", place);
    put(trace, ",\"args\":{\"name\":\"%s%s\"}}", name, ending);
    begin(trace, "M", "thread_sort_index", place);
    put(trace, ",\"args\":{\"sort_index\":%" PRIu64 "}}", place.thread);
}

void rbt_trace_name_lane(rbt_trace *trace, struct rbt_trace_lane lane, const char *name)
{
    name_thread(trace, spans_of(lane), name, "");
    name_thread(trace, messages_of(lane), name, " messages");
}

void rbt_trace_span(rbt_trace *trace, struct rbt_trace_lane lane, const char *name, rbt_time start,
                    rbt_time end)
{
    RBT_ASSERT(start >= 0);
    RBT_ASSERT(start <= end);
    begin(trace, "X", name, spans_of(lane));
    put_time(trace, "ts", start);
    put_time(trace, "dur", end - start);
    put(trace, "}");
}

void rbt_trace_mark(rbt_trace *trace, struct rbt_trace_lane lane, const char *name, rbt_time at)
{
    RBT_ASSERT(at >= 0);
    begin(trace, "i", name, spans_of(lane));
    put_time(trace, "ts", at);
    put(trace, ",\"s\":\"t\"}"); /* as high as its thread */
}

void rbt_trace_traffic(rbt_trace *trace, uint32_t node, rbt_time at, const uint64_t bytes_per_s[2])
{
    RBT_ASSERT(at >= 0);
    begin(trace, "C", "bytes per second", spans_of((struct rbt_trace_lane){.node = node}));
    put_time(trace, "ts", at);
    put(trace, ",\"args\":{\"sent\":%" PRIu64 ",\"received\":%" PRIu64 "}}", bytes_per_s[0],
        bytes_per_s[1]);
}

/* One end of a message: something to hold on to, and the arrow's start ("s") or finish ("f"). */
static void put_end(rbt_trace *trace, const struct rbt_trace_message *message, bool is_start)
{
    const struct place place = messages_of(is_start ? message->from : message->to);
    const rbt_time at = is_start ? message->sent : message->delivered;
    RBT_ASSERT(trace->messages > 0);
    begin(trace, "X", message->name, place);
    put_time(trace, "ts", at);
    put(trace, ",\"dur\":0.001,\"args\":{\"bytes\":%" PRIu64 ",\"ns\":%" PRId64 "}}",
        message->bytes, message->delivered - message->sent);
    begin(trace, is_start ? "s" : "f", message->name, place);
    put_time(trace, "ts", at);
    put(trace, ",\"cat\":\"message\",\"id\":%" PRIu64 "%s}", trace->messages,
        is_start ? "" : ",\"bp\":\"e\""); /* to the span around it, not to the next one */
}

void rbt_trace_message(rbt_trace *trace, const struct rbt_trace_message *message)
{
    RBT_ASSERT(message->sent >= 0);
    RBT_ASSERT(message->sent <= message->delivered);
    trace->messages++;
    put_end(trace, message, true);
    put_end(trace, message, false);
}

rbt_status rbt_trace_close(rbt_trace *trace)
{
    if (trace == NULL) {
        return RBT_OK;
    }
    put(trace, "\n]}\n");
    errno = 0;
    if (rbt_io_finish(trace->file) != 0) {
        note_error(trace);
    }
    trace->file = NULL;
    if (trace->error == 0 && trace->temporary != NULL &&
        rbt_io_rename(trace->temporary, trace->path) != 0) {
        note_error(trace);
    }
    rbt_status st = RBT_OK;
    if (trace->error != 0) {
        if (trace->temporary != NULL) {
            (void)unlink(trace->temporary); /* a leftover is overwritten the next time */
        }
        errno = trace->error;
        st = rbt_fail(RBT_E_IO, "could not write \"%s\"", trace->path);
    }
    release(trace);
    return st;
}
