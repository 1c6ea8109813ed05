/* sim/connection_path_test.c - how bytes get across: times, turns, tails, and faults of the path.
 */
#include "sim/connections_rig.h"

/* --- Without faults -------------------------------------------------------------------------- */

static void a_message_takes_latency_transmission_and_cost(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){.message_cost = 30});
    rbt_connection *connection = connect_one(rig, 0, 1);
    rig->now = 10000;
    send(rig, connection, RBT_SIDE_CALLER, 0, 1000);
    assert_int_equal(rbt_connection_queued(connection, RBT_SIDE_CALLER), 1000);
    run(rig);
    assert_int_equal(nth(rig, FRAME, 0)->at, 10000 + LATENCY + wire(1000) + 30);
    assert_int_equal(nth(rig, FRAME, 0)->sent, 10000);
    assert_int_equal(nth(rig, FRAME, 0)->side, RBT_SIDE_LISTENER);
    assert_int_equal(nth(rig, TURN, 0)->at, nth(rig, FRAME, 0)->at);
    assert_int_equal(rbt_connection_queued(connection, RBT_SIDE_CALLER), 0);
    assert_int_equal(rbt_connections_sent(rig->all, 0), 1000);
    assert_int_equal(rbt_connections_received(rig->all, 1), 1000);

    rig->count = 0;
    send(rig, connection, RBT_SIDE_LISTENER, 1, 200); /* and back */
    const rbt_time now = rig->now;
    run(rig);
    assert_int_equal(nth(rig, FRAME, 0)->at, now + LATENCY + wire(200) + 30);
    assert_int_equal(nth(rig, FRAME, 0)->side, RBT_SIDE_CALLER);
    unmake(rig);
}

static void messages_of_one_moment_are_one_piece(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){.message_cost = 7});
    rbt_connection *connection = connect_one(rig, 0, 1);
    const uint64_t before = rig->event_count;
    const rbt_time now = rig->now;
    for (uint32_t i = 0; i < 10; i++) {
        send(rig, connection, RBT_SIDE_CALLER, i, 100);
    }
    run(rig);
    expect_numbers(rig, 10);
    assert_int_equal(rig->event_count - before, 3); /* leaves, arrives, is heard */
    assert_int_equal(count_of(rig, TURN), 1);
    assert_int_equal(rig->heard[10].what, TURN);
    assert_int_equal(nth(rig, FRAME, 9)->at, now + LATENCY + wire(1000) + 70);
    unmake(rig);
}

static void short_messages_to_many_leave_with_one_event(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){0});
    rbt_connection *connections[NODES];
    for (uint32_t i = 1; i < NODES; i++) {
        connections[i] = connect_one(rig, 0, i);
    }
    const uint64_t before = rig->event_count;
    const rbt_time now = rig->now;
    for (uint32_t i = 1; i < NODES; i++) {
        send(rig, connections[i], RBT_SIDE_CALLER, i, 1000);
    }
    run(rig);
    assert_int_equal(rig->event_count - before, 1 + 2 * (NODES - 1));
    for (uint32_t i = 1; i < NODES; i++) { /* one after the other all the same */
        assert_int_equal(nth(rig, FRAME, i - 1)->at, now + LATENCY + (rbt_time)i * wire(1000));
    }
    unmake(rig);
}

static void senders_wait_for_the_link_of_one_receiver(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){0});
    rbt_connection *connections[NODES];
    for (uint32_t i = 1; i < NODES; i++) {
        connections[i] = connect_one(rig, i, 0);
    }
    const rbt_time now = rig->now;
    for (uint32_t i = 1; i < NODES; i++) {
        send(rig, connections[i], RBT_SIDE_CALLER, i, 1000);
    }
    run(rig);
    for (uint32_t i = 1; i < NODES; i++) {
        assert_int_equal(nth(rig, FRAME, i - 1)->at, now + LATENCY + (rbt_time)i * wire(1000));
    }
    unmake(rig);
}

/* 16 MB at 1 Gbit/s: 140 ms. */
static void a_long_message_does_not_stop_a_short_one(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){.bandwidth = 125e6});
    rbt_connection *busy = connect_one(rig, 0, 1);
    rbt_connection *other = connect_one(rig, 0, 2);
    send(rig, busy, RBT_SIDE_CALLER, 0, 16000000);
    const rbt_time begin = rig->now;
    run_until(rig, begin + 10 * MILLISECOND);
    send(rig, other, RBT_SIDE_CALLER, 1, 100);
    send(rig, busy, RBT_SIDE_CALLER, 2, 100); /* behind the long one */
    run(rig);
    assert_int_equal(nth(rig, FRAME, 0)->number, 1);
    assert_true(nth(rig, FRAME, 0)->at - begin < 10 * MILLISECOND + 600000);
    assert_int_equal(nth(rig, FRAME, 1)->number, 0);
    const rbt_time takes = nth(rig, FRAME, 1)->at - begin;
    assert_in_range(takes, wire(16000000) * 8, wire(16000000) * 8 + MILLISECOND);
    assert_int_equal(nth(rig, FRAME, 2)->number, 2);
    unmake(rig);
}

static void long_messages_share_a_link(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){.bandwidth = 125e6});
    rbt_connection *first = connect_one(rig, 0, 1);
    rbt_connection *second = connect_one(rig, 0, 2);
    send(rig, first, RBT_SIDE_CALLER, 0, 2000000);
    send(rig, second, RBT_SIDE_CALLER, 1, 2000000);
    run(rig);
    assert_int_equal(count_of(rig, FRAME), 2);
    assert_true(nth(rig, FRAME, 1)->at - nth(rig, FRAME, 0)->at < MILLISECOND);
    unmake(rig);
}

static void links_of_racks_are_crossed(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){.rack_count = 2});
    rbt_connections_set_rack(rig->all, 1, 1);
    rbt_connections_set_rack_bandwidth(rig->all, 1, 1e8);
    rbt_connection *connection = connect_one(rig, 0, 1);
    const rbt_time now = rig->now;
    send(rig, connection, RBT_SIDE_CALLER, 0, 1000);
    run(rig);
    assert_int_equal(nth(rig, FRAME, 0)->at, now + LATENCY + 10 * wire(1000));
    assert_int_equal(rbt_connections_rack_bytes(rig->all, 0).up, 1000);
    assert_int_equal(rbt_connections_rack_bytes(rig->all, 0).down, 0);
    assert_int_equal(rbt_connections_rack_bytes(rig->all, 1).up, 0);
    assert_int_equal(rbt_connections_rack_bytes(rig->all, 1).down, 1000);
    unmake(rig);
}

static void a_slow_node_has_slow_links(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){0});
    rbt_connection *connection = connect_one(rig, 0, 1);
    const rbt_time now = rig->now;
    rbt_connections_slow(rig->all, 0, 5.0);
    send(rig, connection, RBT_SIDE_CALLER, 0, 1000);
    run(rig);
    assert_int_equal(nth(rig, FRAME, 0)->at, now + LATENCY + 5 * wire(1000));
    unmake(rig);
}

static void nothing_is_allocated_once_all_is_warm(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){0});
    rbt_connection *connection = connect_one(rig, 0, 1);
    struct rbt_block *block = block_of(0, 100);
    uint64_t before = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        before = i == 1000 ? rbt_alloc_calls() : before;
        rbt_block_ref(block);
        rbt_connection_send(connection, RBT_SIDE_CALLER, block, rig->now);
        rbt_connection *brief = open_one(rig, 2, 3);
        rig->count = 0;
        run(rig);
        rbt_connection_cut(brief, RBT_SIDE_CALLER, rig->now);
        run(rig);
    }
    assert_int_equal(rbt_alloc_calls(), before);
    rbt_block_unref(block);
    unmake(rig);
}

/* --- Tails ----------------------------------------------------------------------------------- */

enum { TAIL_BYTES = 200000 };
static char outside[TAIL_BYTES];

static char tail_seen[2]; /* the first and the last byte of the tail, as the receiver saw them */

static void look_at_tail(void *context, rbt_connection *connection, enum rbt_side side,
                         struct rbt_block *block, rbt_time sent)
{
    (void)connection;
    (void)side;
    (void)sent;
    (void)context;
    if (block->class == 9) {
        assert_null(block->tail);
        tail_seen[0] = block->data[8];
        tail_seen[1] = block->data[block->bytes - 1];
    }
}

/* Sends a block with a tail behind `before` other bytes, which are of another connection if it is
 * the only holder; the tail is 'a' now, 'b' from 400 us on and 'c' from 1200 us on. 64 KiB take 548
 * us. */
static void send_tail(size_t before, bool is_shared, const char *seen)
{
    struct rig *rig = rbt_calloc(1, sizeof *rig);
    const struct rbt_connections_options options = {.node_count = 2,
                                                    .bandwidth = 125e6,
                                                    .latency = LATENCY,
                                                    .agenda = &rig->agenda,
                                                    .kind = KIND,
                                                    .events = {.context = rig,
                                                               .on_accept = on_accept,
                                                               .on_up = on_up,
                                                               .on_frame = look_at_tail,
                                                               .on_turn = on_turn}};
    assert_ok(rbt_connections_create(&options, &rig->all));
    rbt_connection *connection = connect_one(rig, 0, 1);
    rbt_connection *other = is_shared ? connection : connect_one(rig, 0, 1);
    struct rbt_block *block = rbt_block_create(8 + TAIL_BYTES);
    memset(block->data, 0, 8 + TAIL_BYTES);
    block->class = 9;
    block->bytes = 8 + TAIL_BYTES;
    block->tail = outside;
    block->tail_at = 8;
    memset(outside, 'a', sizeof outside);
    if (before > 0) {
        send(rig, other, RBT_SIDE_CALLER, 0, before);
    }
    if (is_shared) {
        rbt_block_ref(block);
    }
    const rbt_time now = rig->now;
    rbt_connection_send(connection, RBT_SIDE_CALLER, block, now);
    run_until(rig, now + 400000);
    memset(outside, 'b', sizeof outside);
    run_until(rig, now + 1200000);
    memset(outside, 'c', sizeof outside);
    run(rig);
    assert_memory_equal(tail_seen, seen, 2);
    if (is_shared) {
        assert_ptr_equal(block->tail, outside); /* the sender's block is as it was */
        rbt_block_unref(block);
    }
    unmake(rig);
}

static void a_tail_is_taken_when_it_leaves(void **state)
{
    (void)state;
    send_tail(0, true, "ac"); /* the first piece leaves at once, the fourth one after 1.6 ms */
    send_tail(0, false, "ac");
    send_tail(65536, true, "bc"); /* the first piece leaves after 0.5 ms */
    send_tail(65536, false, "bc");
    send_tail(3 * 65536, true, "cc");
}

/* --- Faults of the path ---------------------------------------------------------------------- */

/* The messages that one side has heard are 0, 1, 2 and so on. */
static void many_messages(struct rbt_connections_options options, rbt_time *end)
{
    struct rig *rig = make(options);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 5, 0, 0);
    rbt_connection *connection = open_one(rig, 0, 1);
    run(rig);
    rig->count = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        const size_t size = 4 + rbt_rng_below(&rng, i % 10 == 0 ? 100000 : 2000);
        bytes += size;
        send(rig, connection, RBT_SIDE_CALLER, i, size);
        run_until(rig, rig->now + (rbt_time)rbt_rng_below(&rng, 100000));
    }
    run(rig);
    expect_numbers(rig, 1000);
    assert_int_equal(rbt_connections_sent(rig->all, 0), bytes);
    assert_int_equal(rbt_connections_received(rig->all, 1), bytes);
    struct rbt_connections_stats stats;
    rbt_connections_stats(rig->all, &stats);
    assert_int_equal(stats.bytes, bytes);
    assert_int_equal(stats.messages, 1000);
    assert_int_equal(stats.lost > 0, options.loss > 0.0);
    assert_int_equal(stats.duplicated > 0, options.duplication > 0.0);
    *end = rig->now;
    unmake(rig);
}

static void faults_delay_and_neither_lose_nor_reorder(void **state)
{
    (void)state;
    rbt_time smooth = 0;
    rbt_time rough = 0;
    many_messages((struct rbt_connections_options){0}, &smooth);
    many_messages((struct rbt_connections_options){.seed = 3,
                                                   .loss = 0.05,
                                                   .jitter = 300000,
                                                   .duplication = 0.05,
                                                   .spike_chance = 0.01,
                                                   .spike = 5 * MILLISECOND},
                  &rough);
    assert_true(smooth < SECOND / 10);
    assert_true(rough > smooth + 200 * MILLISECOND);
}

/* Messages of one packet, far from each other: those that are lost wait for a time-out. The chance
 * that fewer than 20 or more than 90 of 1000 are lost is below 1e-5. */
static void a_lost_packet_waits_for_a_time_out(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){.loss = 0.05});
    rbt_connection *connection = open_one(rig, 0, 1);
    run(rig);
    rig->count = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        send(rig, connection, RBT_SIDE_CALLER, i, 1000);
        run_until(rig, rig->now + 100 * (rbt_time)SECOND);
    }
    expect_numbers(rig, 1000);
    uint32_t once = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        const struct heard *heard = nth(rig, FRAME, i);
        const rbt_time late = (heard->at - heard->sent) / (100 * MILLISECOND);
        assert_true(late == 0 || late == 2 || late == 6 || late == 14); /* doubled at each repeat */
        once += late == 2;
    }
    assert_in_range(once, 20, 90);
    unmake(rig);
}

/* Round trip 20 ms, so that it can be told from a time-out. Of 40 packets one is lost mostly; after
 * the last four of a message nothing follows. */
static void a_lost_packet_with_others_behind_it_waits_for_a_round_trip(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    struct rig *rig =
        make((struct rbt_connections_options){.loss = 0.02, .latency = 10 * MILLISECOND});
    rbt_connection *connection = open_one(rig, 0, 1);
    run(rig);
    rig->count = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        send(rig, connection, RBT_SIDE_CALLER, i, 20000);
        run_until(rig, rig->now + 100 * (rbt_time)SECOND);
    }
    expect_numbers(rig, COUNT);
    uint32_t fast = 0;
    uint32_t slow = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct heard *heard = nth(rig, FRAME, i);
        const rbt_time takes = heard->at - heard->sent;
        fast += takes >= 30 * MILLISECOND && takes < 200 * MILLISECOND;
        slow += takes >= 200 * MILLISECOND;
    }
    assert_in_range(fast, 20, 80); /* of 200 messages of 14 packets each, 11 of them fast */
    assert_in_range(slow, 1, 40);
    unmake(rig);
}

/* The rate is then about 1448 bytes * 1.2 / (RTT * sqrt(loss)): 0.9 MB/s. */
static void loss_makes_a_long_path_slow(void **state)
{
    (void)state;
    struct rig *rig =
        make((struct rbt_connections_options){.loss = 0.01, .latency = 10 * MILLISECOND});
    rbt_connection *connection = open_one(rig, 0, 1);
    run(rig);
    rig->count = 0;
    const rbt_time now = rig->now;
    send(rig, connection, RBT_SIDE_CALLER, 0, 16000000);
    run(rig);
    assert_in_range(nth(rig, FRAME, 0)->at - now, 6 * (rbt_time)SECOND, 60 * (rbt_time)SECOND);
    unmake(rig);
}

static void doubled_packets_cost_time_and_are_seen_by_nobody(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){.duplication = 1.0});
    rbt_connection *connection = connect_one(rig, 0, 1);
    const rbt_time now = rig->now;
    send(rig, connection, RBT_SIDE_CALLER, 0, 5000);
    run(rig);
    expect_numbers(rig, 1);
    assert_int_equal(nth(rig, FRAME, 0)->at, now + LATENCY + wire(10000));
    struct rbt_connections_stats stats;
    rbt_connections_stats(rig->all, &stats);
    assert_int_equal(stats.duplicated, 4);
    assert_int_equal(stats.bytes, 5000);
    unmake(rig);
}

static void jitter_reorders_only_between_connections(void **state)
{
    (void)state;
    struct rig *rig = make((struct rbt_connections_options){.jitter = 100000});
    rbt_connection *connections[2] = {connect_one(rig, 0, 1), connect_one(rig, 0, 2)};
    for (uint32_t i = 0; i < 200; i++) {
        send(rig, connections[i % 2], RBT_SIDE_CALLER, i, 100);
        run_until(rig, rig->now + 2000);
    }
    run(rig);
    uint32_t next[2] = {0, 1};
    uint32_t overtaken = 0;
    for (uint32_t i = 0; i < 200; i++) {
        const struct heard *heard = nth(rig, FRAME, i);
        const uint32_t number = heard->number;
        assert_true(heard->at - heard->sent <= LATENCY + 100000 + 200 * wire(100));
        assert_int_equal(number, next[number % 2]);
        next[number % 2] += 2;
        overtaken += number != i;
    }
    assert_true(overtaken > 20);
    unmake(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_takes_latency_transmission_and_cost),
        cmocka_unit_test(messages_of_one_moment_are_one_piece),
        cmocka_unit_test(short_messages_to_many_leave_with_one_event),
        cmocka_unit_test(senders_wait_for_the_link_of_one_receiver),
        cmocka_unit_test(a_long_message_does_not_stop_a_short_one),
        cmocka_unit_test(long_messages_share_a_link),
        cmocka_unit_test(links_of_racks_are_crossed),
        cmocka_unit_test(a_slow_node_has_slow_links),
        cmocka_unit_test(nothing_is_allocated_once_all_is_warm),
        cmocka_unit_test(a_tail_is_taken_when_it_leaves),
        cmocka_unit_test(faults_delay_and_neither_lose_nor_reorder),
        cmocka_unit_test(a_lost_packet_waits_for_a_time_out),
        cmocka_unit_test(a_lost_packet_with_others_behind_it_waits_for_a_round_trip),
        cmocka_unit_test(loss_makes_a_long_path_slow),
        cmocka_unit_test(doubled_packets_cost_time_and_are_seen_by_nobody),
        cmocka_unit_test(jitter_reorders_only_between_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
