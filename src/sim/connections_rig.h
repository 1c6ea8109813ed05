/* sim/connections_rig.h - for tests: nodes with connections, and what their sides have heard.
 *
 * Unless a test says otherwise, bandwidth is a byte per nanosecond, so that times can be read off.
 * The rig takes events from the agenda and writes down what is heard. A message carries its number
 * and a pattern that follows from it. */
#ifndef RUBATO_SIM_CONNECTIONS_RIG_H
#define RUBATO_SIM_CONNECTIONS_RIG_H

#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "sim/connections.h"

enum {
    NODES = 8,
    KIND = 7,
    LATENCY = 500,
    HEARD_MAX = 4096,
    SECOND = 1000000000,
    MILLISECOND = 1000000,
    PATTERN = 64, /* bytes of a message that are written and compared */
};

enum what { ACCEPT, UP, FRAME, TURN, DOWN };

struct heard {
    enum what what;
    rbt_time at;
    rbt_connection *connection;
    enum rbt_side side;
    uint32_t number; /* of the message */
    size_t bytes;
    rbt_time sent;
    const char *why;
};

struct rig {
    struct rbt_agenda agenda;
    rbt_connections *all;
    rbt_time now;
    bool is_deaf; /* refuses connections */
    void (*hook)(struct rig *rig, const struct heard *heard);
    uint32_t hook_count;
    uint64_t event_count;
    uint32_t count;
    struct heard heard[HEARD_MAX];
};

static inline void note(struct rig *rig, struct heard heard)
{
    heard.at = rig->now;
    assert_true(rig->count < HEARD_MAX);
    rig->heard[rig->count++] = heard;
    if (rig->hook != NULL) {
        rig->hook(rig, &heard);
    }
}

static inline bool on_accept(void *context, rbt_connection *connection, uint32_t node,
                             struct rbt_connection_end *end)
{
    struct rig *rig = context;
    assert_int_equal(rbt_connection_node(connection, RBT_SIDE_LISTENER), node);
    *end = (struct rbt_connection_end){.owner = rig, .port = 1000 + node};
    note(rig, (struct heard){.what = ACCEPT, .connection = connection, .side = RBT_SIDE_LISTENER});
    return !rig->is_deaf;
}

static inline void on_up(void *context, rbt_connection *connection)
{
    note(context, (struct heard){.what = UP, .connection = connection});
}

static inline char pattern(uint32_t number, size_t at)
{
    return (char)((number * 31 + (uint32_t)at) & 0xff);
}

static inline void on_frame(void *context, rbt_connection *connection, enum rbt_side side,
                            struct rbt_block *block, rbt_time sent)
{
    struct heard heard = {
        .what = FRAME, .connection = connection, .side = side, .bytes = block->bytes, .sent = sent};
    assert_null(block->tail);
    memcpy(&heard.number, block->data, sizeof heard.number);
    for (size_t i = sizeof heard.number; i < PATTERN && i < block->bytes; i++) {
        assert_int_equal(block->data[i], pattern(heard.number, i));
    }
    note(context, heard);
}

static inline void on_turn(void *context, rbt_connection *connection, enum rbt_side side)
{
    note(context, (struct heard){.what = TURN, .connection = connection, .side = side});
}

static inline void on_down(void *context, rbt_connection *connection, enum rbt_side side,
                           rbt_status status, const char *why)
{
    assert_int_equal(status, RBT_E_CLOSED);
    note(context, (struct heard){.what = DOWN, .connection = connection, .side = side, .why = why});
}

static inline struct rig *make(struct rbt_connections_options options)
{
    struct rig *rig = rbt_calloc(1, sizeof *rig);
    assert_non_null(rig);
    options.node_count = options.node_count > 0 ? options.node_count : NODES;
    options.bandwidth = options.bandwidth > 0.0 ? options.bandwidth : 1e9;
    options.latency = options.latency > 0 ? options.latency : LATENCY;
    options.agenda = &rig->agenda;
    options.kind = KIND;
    options.events = (struct rbt_connections_events){.context = rig,
                                                     .on_accept = on_accept,
                                                     .on_up = on_up,
                                                     .on_frame = on_frame,
                                                     .on_turn = on_turn,
                                                     .on_down = on_down};
    assert_ok(rbt_connections_create(&options, &rig->all));
    return rig;
}

static inline void unmake(struct rig *rig)
{
    rbt_connections_destroy(rig->all);
    rbt_agenda_deinit(&rig->agenda);
    rbt_free(rig);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Handles what happens until then. */
static inline void run_until(struct rig *rig, rbt_time until)
{
    while (rig->agenda.count > 0 && rig->agenda.heap[0].at <= until) {
        struct rbt_agenda_event event;
        assert_true(rbt_agenda_take(&rig->agenda, &event));
        assert_true(event.at >= rig->now);
        rig->now = event.at;
        rig->event_count++;
        rbt_connections_handle(rig->all, &event);
    }
    if (until < RBT_TIME_NEVER) {
        rig->now = until;
    }
}

static inline void run(struct rig *rig)
{
    run_until(rig, RBT_TIME_NEVER);
    assert_ok(rbt_connections_status(rig->all));
}

static inline struct rbt_block *block_of(uint32_t number, size_t bytes)
{
    struct rbt_block *block = rbt_block_create(bytes);
    assert_non_null(block);
    assert_true(bytes >= sizeof number);
    block->bytes = bytes;
    memcpy(block->data, &number, sizeof number);
    for (size_t i = sizeof number; i < PATTERN && i < bytes; i++) {
        block->data[i] = pattern(number, i);
    }
    return block;
}

static inline void send(struct rig *rig, rbt_connection *connection, enum rbt_side side,
                        uint32_t number, size_t bytes)
{
    rbt_connection_send(connection, side, block_of(number, bytes), rig->now);
}

static inline rbt_connection *open_one(struct rig *rig, uint32_t from, uint32_t to)
{
    rbt_connection *connection = NULL;
    const struct rbt_connection_end end = {.owner = rig, .port = from};
    assert_ok(rbt_connections_open(rig->all, from, to, end, rig->now, &connection));
    return connection;
}

/* A connection that is up, and nothing heard so far. */
static inline rbt_connection *connect_one(struct rig *rig, uint32_t from, uint32_t to)
{
    rbt_connection *connection = open_one(rig, from, to);
    run(rig);
    assert_int_equal(rig->heard[rig->count - 1].what, UP);
    rig->count = 0;
    return connection;
}

static inline rbt_time wire(size_t bytes)
{
    return (rbt_time)(bytes + (bytes * 66 + 724) / 1448);
}

/* The n-th event of a kind that was heard; there is one. */
static inline const struct heard *nth(const struct rig *rig, enum what what, uint32_t n)
{
    for (uint32_t i = 0; i < rig->count; i++) {
        if (rig->heard[i].what == what && n-- == 0) {
            return &rig->heard[i];
        }
    }
    fail_msg("there is no such event of kind %d", (int)what);
    return NULL;
}

static inline uint32_t count_of(const struct rig *rig, enum what what)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->count; i++) {
        count += rig->heard[i].what == what;
    }
    return count;
}

static inline void expect_numbers(const struct rig *rig, uint32_t count)
{
    assert_int_equal(count_of(rig, FRAME), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(nth(rig, FRAME, i)->number, i);
    }
}

#endif
