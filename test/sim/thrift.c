/* sim/thrift.c - what a run costs.
 *
 * A line is a connection that a machine makes again and again: that of a worker, or of a process,
 * to a shard, or of a process to the coordinator.
 *
 *   steady   a line on which the other side has answered ends for no reason but a fault: there are
 *            no more such ends than connections that faults have reset. It is tried once, and
 *            once more for each of these, for each refusal, and for each run that begins while it
 *            is greeting; where packets are lost, also for each attempt that had no answer.
 *   prompt   the n-th attempt after a useful connection comes 10 ms * 2^(n - 2) after the one
 * before has failed, or half a second, whichever is less, and the first one at once; and there is
 * none when the line should have been given up. thrifty  a shard acknowledges no more messages than
 * have come; it is asked whether it is still there at most once in a quarter of the silence that is
 * suffered; and without faults a call that reads a table of staleness 0 asks a shard at most once,
 * of eager tables once more, ahead of the next call. */
#include "sim/thrift.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "sim/frames.h"
#include "wire/message.h"

enum { LINES_MAX = 1 << 10 }; /* a power of two, far more than there are */

#define MS          INT64_C(1000000)
#define BACKOFF_MIN (10 * MS)
#define BACKOFF_MAX (500 * MS)
#define CUT_MAX     (3000 * MS)
#define SILENCE_MAX (10000 * MS)

struct line {
    const void *machine; /* NULL: not used */
    uint32_t port;
    uint32_t run;     /* of the last event */
    bool is_answered; /* the connection that is there */
    bool is_useful;   /* the same: after the answer something came */
    bool was_wanted;  /* when the last one ended */
    bool has_ended;
    uint32_t useless; /* connections in a row, of no use */
    rbt_time answered_at;
    rbt_time ended_at;
    rbt_time since; /* without a useful connection, and wanting one */
};

struct sim_thrift {
    struct line lines[LINES_MAX];
    uint64_t line_count;
    uint64_t tried;
    uint64_t ended;                                   /* after an answer */
    uint64_t refused;                                 /* "try again" */
    uint64_t vain;                                    /* ended before an answer */
    uint64_t heard[SIM_WORKERS_MAX][SIM_SERVERS_MAX]; /* messages of the stream, by the server */
    uint64_t acknowledged[SIM_WORKERS_MAX][SIM_SERVERS_MAX];
    uint64_t probes[SIM_WORKERS_MAX][SIM_SERVERS_MAX];
    uint64_t probe_last[SIM_WORKERS_MAX][SIM_SERVERS_MAX];            /* its id */
    uint64_t pulls[SIM_WORKERS_MAX][SIM_SERVERS_MAX][SIM_TABLES_MAX]; /* without faults */
    rbt_time now;                                                     /* of the last message */
};

static const struct sim_verdict nobody = {.worker = UINT32_MAX,
                                          .other = UINT32_MAX,
                                          .server = UINT32_MAX,
                                          .table = UINT32_MAX,
                                          .key = UINT64_MAX};

/* --- Lines ----------------------------------------------------------------------------------- */

static struct line *find_line(struct sim_thrift *thrift, const void *machine, uint32_t port)
{
    uint64_t at = rbt_hash_key((uint64_t)(uintptr_t)machine + port) % LINES_MAX;
    while (thrift->lines[at].machine != NULL &&
           (thrift->lines[at].machine != machine || thrift->lines[at].port != port)) {
        at = (at + 1) % LINES_MAX;
    }
    struct line *line = &thrift->lines[at];
    if (line->machine == NULL) {
        RBT_ASSERT(thrift->line_count < LINES_MAX / 2);
        thrift->line_count++;
        *line = (struct line){.machine = machine, .port = port};
    }
    return line;
}

/* For how long the node may have stood still. */
static rbt_time pauses_of(const struct sim_world *world, const char *node)
{
    double seconds = 0;
    for (size_t i = 0; i < world->plan->cluster.fault_count; i++) {
        const struct rbt_fault *fault = &world->plan->faults[i];
        if (fault->kind == RBT_FAULT_PAUSE && strcmp(fault->node, node) == 0) {
            seconds += fault->lasts;
        }
    }
    return (rbt_time)(seconds * 1e9);
}

/* A stream tries to connect, and has wanted to since its last connection ended. */
static void judge_attempt(struct sim_world *world, const struct line *line,
                          const struct rbt_inspect_line *event)
{
    const uint32_t doubled = line->useless < 7 ? line->useless : 7;
    const rbt_time backoff = doubled == 0 ? 0 : BACKOFF_MIN << (doubled - 1);
    const rbt_time promised = backoff < BACKOFF_MAX ? backoff : BACKOFF_MAX;
    const rbt_time still = pauses_of(world, event->node);
    if (event->at - line->ended_at > promised + still) {
        sim_blame(world, SIM_PROMPTNESS, &nobody,
                  "%s connects to server/%u %.6f s after the last connection, the %u. of no use, "
                  "and not after %.6f s",
                  event->node, event->port, (double)(event->at - line->ended_at) * 1e-9,
                  line->useless, (double)promised * 1e-9);
    }
    if (event->at - line->since > CUT_MAX + BACKOFF_MAX + still) {
        sim_blame(world, SIM_PROMPTNESS, &nobody,
                  "%s has had no connection to server/%u for %.3f s and has not given it up",
                  event->node, event->port, (double)(event->at - line->since) * 1e-9);
    }
}

static void end_line(struct sim_thrift *thrift, struct line *line,
                     const struct rbt_inspect_line *event)
{
    const bool is_useful =
        line->is_answered && (line->is_useful || event->at - line->answered_at >= BACKOFF_MAX);
    thrift->ended += line->is_answered;
    thrift->vain += !line->is_answered;
    line->useless = is_useful ? 0 : line->useless + 1;
    line->since = is_useful ? event->at : line->since;
    line->ended_at = event->at;
    line->was_wanted = event->is_wanted;
    line->has_ended = true;
    line->is_answered = false;
}

static void on_line(void *context, const struct rbt_inspect_line *event)
{
    struct sim_world *world = context;
    struct sim_thrift *thrift = world->thrift;
    struct line *line = find_line(thrift, event->machine, event->port);
    const bool is_same_run = line->run == world->run;
    line->run = world->run;
    switch (event->kind) {
    case RBT_INSPECT_TRIED:
        thrift->tried++;
        if (line->has_ended && line->was_wanted && is_same_run) {
            judge_attempt(world, line, event);
        } else {
            line->since = event->at;
        }
        break;
    case RBT_INSPECT_MADE:
        line->is_answered = false;
        line->is_useful = false;
        break;
    case RBT_INSPECT_LOST:
    case RBT_INSPECT_CUT:
        end_line(thrift, line, event);
        break;
    }
}

/* --- Messages -------------------------------------------------------------------------------- */

/* Whether nothing goes wrong in the schedule. */
static bool is_calm(const struct sim_scenario *plan)
{
    return plan->cluster.cuts <= 0 && plan->cluster.fault_count == 0;
}

/* Whether rows of the table are asked for ahead of their time. */
static bool is_eager(const struct sim_table_plan *plan)
{
    return strncmp(plan->consistency, "essp", 4) == 0;
}

static void note_pull(struct sim_world *world, const struct rbt_inspect_frame *frame,
                      const struct rbt_frame *head, uint32_t server)
{
    const char *body = frame->bytes + RBT_FRAME_HEADER;
    struct rbt_wire_cursor cursor = {body, body + head->length};
    struct rbt_wire_pull pull;
    struct rbt_wire_view view;
    if (!is_calm(world->plan) || world->run > 1 || rbt_wire_get_pull(&cursor, &pull) != RBT_OK ||
        rbt_wire_rows_get(&cursor.at, cursor.end, &view) != RBT_OK ||
        view.table >= world->plan->table_count) {
        return;
    }
    world->thrift->pulls[head->worker][server][view.table]++;
}

static void hear_at_server(struct sim_world *world, const struct rbt_inspect_frame *frame,
                           const struct rbt_frame *head, uint32_t server)
{
    struct sim_thrift *thrift = world->thrift;
    if (head->worker >= SIM_WORKERS_MAX) {
        return;
    }
    if (head->kind == RBT_FRAME_PUSH || head->kind == RBT_FRAME_LEAVE) {
        thrift->heard[head->worker][server]++;
    } else if (head->kind == RBT_FRAME_PULL) {
        note_pull(world, frame, head, server);
    } else if (head->kind == RBT_FRAME_STATS &&
               head->id > thrift->probe_last[head->worker][server]) {
        thrift->probe_last[head->worker][server] = head->id;
        thrift->probes[head->worker][server]++;
    }
}

static void hear_at_caller(struct sim_thrift *thrift, const struct rbt_inspect_frame *frame,
                           const struct rbt_frame *head)
{
    struct line *line = find_line(thrift, frame->receiver, frame->port);
    if (head->kind == RBT_FRAME_REFUSED) {
        thrift->refused++;
        return;
    }
    line->is_useful = line->is_answered;
    line->answered_at = line->is_answered ? line->answered_at : frame->at;
    line->is_answered = true;
    if (head->kind == RBT_FRAME_ACK && head->worker < SIM_WORKERS_MAX) {
        thrift->acknowledged[head->worker][frame->port]++;
    }
}

static void on_frame(void *context, const struct rbt_inspect_frame *frame)
{
    struct sim_world *world = context;
    struct rbt_frame head;
    const rbt_status st = rbt_frame_get(frame->bytes, RBT_FRAME_BODY_MAX, &head);
    RBT_ASSERT(st == RBT_OK);
    sim_frames_note(frame);
    world->thrift->now = frame->at;
    switch (frame->route) {
    case RBT_INSPECT_TO_SERVER:
        hear_at_server(world, frame, &head, frame->node - 1); /* the coordinator is node 0 */
        break;
    case RBT_INSPECT_TO_WORKER:
    case RBT_INSPECT_TO_MEMBER:
        hear_at_caller(world->thrift, frame, &head);
        break;
    case RBT_INSPECT_TO_COORDINATOR:
    case RBT_INSPECT_ROUTES:
        break;
    }
}

/* --- The end of a run ------------------------------------------------------------------------ */

static void judge_lines(struct sim_world *world)
{
    const struct sim_thrift *thrift = world->thrift;
    const uint64_t resets = rbt_inspect_resets(world->simulation);
    uint64_t most =
        thrift->line_count + resets + thrift->refused + (world->run - 1) * thrift->line_count;
    if (world->plan->cluster.loss > 0) { /* the first packet may be lost again and again */
        most += thrift->vain;
    }
    if (thrift->ended > resets) {
        sim_blame(world, SIM_STEADY, &nobody,
                  "%llu connections that had been answered have ended, and only %llu were reset",
                  (unsigned long long)thrift->ended, (unsigned long long)resets);
    }
    if (thrift->tried > most) {
        sim_blame(world, SIM_STEADY, &nobody,
                  "%llu attempts to connect for %llu lines, %llu resets and %llu refusals",
                  (unsigned long long)thrift->tried, (unsigned long long)thrift->line_count,
                  (unsigned long long)resets, (unsigned long long)thrift->refused);
    }
}

/* A call that reads asks each shard at most once, and once more ahead of the next one. */
static void judge_pulls(struct sim_world *world, uint32_t worker, uint32_t server)
{
    for (uint32_t t = 0; t < world->plan->table_count; t++) {
        const struct sim_table_plan *plan = &world->plan->tables[t];
        const uint64_t calls = world->workers[worker].calls[t];
        const uint64_t pulls = world->thrift->pulls[worker][server][t];
        if (plan->staleness == 0 && !plan->changes && !plan->mixes &&
            pulls > calls * (is_eager(plan) ? 2 : 1)) {
            struct sim_verdict about = nobody;
            about.worker = worker;
            about.server = server;
            about.table = t;
            sim_blame(world, SIM_THRIFT, &about,
                      "worker %u has read %s %llu times, and asked server/%u %llu times for rows",
                      worker, plan->name, (unsigned long long)calls, server,
                      (unsigned long long)pulls);
        }
    }
}

static void judge_talk(struct sim_world *world)
{
    const struct sim_thrift *thrift = world->thrift;
    const double quarters = (double)thrift->now / (0.25 * (double)SILENCE_MAX);
    for (uint32_t w = 0; w < world->plan->workers; w++) {
        for (uint32_t s = 0; s < world->plan->servers; s++) {
            struct sim_verdict about = nobody;
            about.worker = w;
            about.server = s;
            judge_pulls(world, w, s);
            if (thrift->acknowledged[w][s] > thrift->heard[w][s]) {
                sim_blame(world, SIM_THRIFT, &about,
                          "server/%u has acknowledged %llu messages of worker %u, which has sent "
                          "%llu",
                          s, (unsigned long long)thrift->acknowledged[w][s], w,
                          (unsigned long long)thrift->heard[w][s]);
            }
            if ((double)thrift->probes[w][s] > (double)world->run + quarters) {
                sim_blame(world, SIM_THRIFT, &about,
                          "worker %u has asked %llu times whether server/%u is there, in %.3f s", w,
                          (unsigned long long)thrift->probes[w][s], s, (double)thrift->now * 1e-9);
            }
        }
    }
}

void sim_thrift_check(struct sim_world *world)
{
    if (world->plan->doomed[0] == '\0') {
        judge_lines(world);
        judge_talk(world);
    }
}

void sim_thrift_begin(struct sim_world *world, rbt_simulation *simulation)
{
    world->thrift = calloc(1, sizeof *world->thrift);
    RBT_ASSERT(world->thrift != NULL);
    rbt_inspect_frames(simulation, &(struct rbt_inspect_frames){
                                       .context = world, .on_frame = on_frame, .on_line = on_line});
}

void sim_thrift_end(struct sim_world *world)
{
    free(world->thrift);
    world->thrift = NULL;
}
