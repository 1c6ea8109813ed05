/* sim/network_test.c - how long messages take, who waits for whom, and what gets lost.
 *
 * Bandwidth is a byte per nanosecond, so that times can be read off: a message of 1000 bytes takes
 * a link 1000 nanoseconds. Everything is done by hand here: send, wait, receive. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "sim/network.h"

enum { NODES = 8, BYTES = 1000, LATENCY = 500 };

static rbt_network *make(struct rbt_network_options options)
{
    rbt_network *network = NULL;
    options.node_count = NODES;
    options.bandwidth = options.bandwidth > 0.0 ? options.bandwidth : 1e9;
    options.latency = LATENCY;
    assert_ok(rbt_network_create(&options, &network));
    return network;
}

static struct rbt_message_path path(uint32_t from, uint32_t to)
{
    return (struct rbt_message_path){.from = from, .to = to, .bytes = BYTES};
}

/* Sends a message that must be on its way once. */
static struct rbt_passage send_one(rbt_network *network, uint32_t from, uint32_t to, rbt_time now)
{
    struct rbt_passage passages[2];
    const struct rbt_message_path way = path(from, to);
    assert_int_equal(rbt_network_send(network, &way, now, passages), 1);
    return passages[0];
}

static rbt_time receive_one(rbt_network *network, uint32_t from, uint32_t to,
                            struct rbt_passage passage)
{
    rbt_time delivered = -1;
    const struct rbt_message_path way = path(from, to);
    assert_true(rbt_network_receive(network, &way, &passage, &delivered));
    return delivered;
}

static void an_undisturbed_message_takes_latency_and_transmission(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){.message_cost = 30});
    const struct rbt_passage passage = send_one(network, 0, 1, 10000);
    assert_int_equal(passage.arrives, 10000 + LATENCY);
    assert_int_equal(passage.sent, 10000 + BYTES);
    assert_int_equal(receive_one(network, 0, 1, passage), 10000 + LATENCY + BYTES + 30);
    assert_int_equal(rbt_network_sent(network, 0), BYTES);
    assert_int_equal(rbt_network_received(network, 1), BYTES);
    assert_int_equal(rbt_network_received(network, 0), 0);
    rbt_network_destroy(network);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void senders_queue_at_the_link_of_one_receiver(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){0});
    struct rbt_passage passages[NODES];
    for (uint32_t from = 1; from < NODES; from++) {
        passages[from] = send_one(network, from, 0, 0);
        assert_int_equal(passages[from].arrives, LATENCY); /* their own links are free */
    }
    for (uint32_t from = 1; from < NODES; from++) {
        const rbt_time delivered = receive_one(network, from, 0, passages[from]);
        assert_int_equal(delivered, LATENCY + (rbt_time)from * BYTES);
    }
    rbt_network_destroy(network);
}

static void receivers_wait_for_the_link_of_one_sender(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){0});
    for (uint32_t to = 1; to < NODES; to++) {
        const struct rbt_passage passage = send_one(network, 0, to, 0);
        assert_int_equal(passage.sent, (rbt_time)to * BYTES);
        assert_int_equal(passage.arrives, (rbt_time)(to - 1) * BYTES + LATENCY);
        assert_int_equal(receive_one(network, 0, to, passage), LATENCY + (rbt_time)to * BYTES);
    }
    const struct rbt_passage late = send_one(network, 0, 1, 1000000); /* free since long ago */
    assert_int_equal(late.sent, 1000000 + BYTES);
    rbt_network_destroy(network);
}

static void both_directions_of_a_node_are_independent(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){0});
    const struct rbt_passage out = send_one(network, 0, 1, 0);
    const struct rbt_passage in = send_one(network, 1, 0, 0);
    assert_int_equal(receive_one(network, 0, 1, out), LATENCY + BYTES);
    assert_int_equal(receive_one(network, 1, 0, in), LATENCY + BYTES);
    rbt_network_destroy(network);
}

static void the_processor_handles_messages_one_at_a_time(void **state)
{
    (void)state;
    enum { COST = 4000 }; /* more than the link needs */
    rbt_network *network = make((struct rbt_network_options){.message_cost = COST});
    struct rbt_passage passages[NODES];
    for (uint32_t from = 1; from < NODES; from++) {
        passages[from] = send_one(network, from, 0, 0);
    }
    for (uint32_t from = 1; from < NODES; from++) {
        const rbt_time delivered = receive_one(network, from, 0, passages[from]);
        assert_int_equal(delivered, LATENCY + BYTES + (rbt_time)from * COST);
    }
    const struct rbt_passage other = send_one(network, 0, 1, 0); /* another node's is idle */
    assert_int_equal(receive_one(network, 0, 1, other), LATENCY + BYTES + COST);
    rbt_network_destroy(network);
}

static void the_slower_link_decides(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){.message_cost = 7});
    rbt_network_slow(network, 3, 4.0);
    const rbt_time slow = LATENCY + 4 * BYTES + 7;
    assert_int_equal(receive_one(network, 3, 0, send_one(network, 3, 0, 0)), slow);
    assert_int_equal(receive_one(network, 1, 3, send_one(network, 1, 3, 0)), slow);
    rbt_network_slow(network, 2, 4.0);
    assert_int_equal(receive_one(network, 2, 3, send_one(network, 2, 3, 100000)), 100000 + slow);
    rbt_network_slow(network, 3, 1.0);
    rbt_network_slow(network, 2, 1.0);
    assert_int_equal(receive_one(network, 2, 3, send_one(network, 2, 3, 200000)),
                     200000 + LATENCY + BYTES + 7);
    rbt_network_destroy(network);
}

static void a_slow_sender_does_not_clog_its_receiver(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){.message_cost = 10});
    rbt_network_slow(network, 1, 100.0);
    const struct rbt_passage slow = send_one(network, 1, 0, 0);
    const struct rbt_passage fast = send_one(network, 2, 0, 0);
    assert_int_equal(receive_one(network, 1, 0, slow), LATENCY + 100 * BYTES + 10);
    assert_int_equal(receive_one(network, 2, 0, fast), LATENCY + 2 * BYTES + 10);
    rbt_network_destroy(network);
}

static void absurdly_slow_links_take_forever(void **state)
{
    (void)state;
    const double bandwidths[] = {1e-300, 1e-10, 2.5e-7}; /* infinite, too long, too long twice */
    for (size_t i = 0; i < 3; i++) {
        rbt_network *network = make((struct rbt_network_options){.bandwidth = bandwidths[i]});
        (void)send_one(network, 0, 1, 5);
        (void)send_one(network, 0, 1, 5);
        const struct rbt_passage passage = send_one(network, 0, 1, 5);
        assert_true(passage.sent == RBT_TIME_NEVER);
        assert_true(receive_one(network, 0, 1, passage) == RBT_TIME_NEVER);
        rbt_network_destroy(network);
    }
}

static void messages_pass_only_between_nodes_of_a_side(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){0});
    struct rbt_passage passages[2];
    const struct rbt_message_path way = path(0, 1);
    const struct rbt_passage before = send_one(network, 0, 1, 0);
    const struct rbt_passage behind = send_one(network, 1, 0, 0);
    rbt_network_set_side(network, 0, 1);

    rbt_time delivered = 77; /* what was under way is lost */
    assert_false(rbt_network_receive(network, &way, &before, &delivered));
    assert_int_equal(delivered, 77);
    assert_int_equal(rbt_network_send(network, &way, BYTES, passages), 0);
    assert_int_equal(rbt_network_sent(network, 0), 2 * BYTES); /* but was sent */
    assert_int_equal(rbt_network_received(network, 1), 0);
    receive_one(network, 2, 3, send_one(network, 2, 3, 0)); /* the others still hear each other */
    rbt_network_set_side(network, 1, 1);
    receive_one(network, 1, 0, behind);
    assert_int_equal(send_one(network, 0, 1, BYTES).sent, 3 * BYTES); /* and took its time */

    struct rbt_network_stats stats;
    rbt_network_stats(network, &stats);
    assert_int_equal(stats.messages, 5);
    assert_int_equal(stats.bytes, 5 * BYTES);
    assert_int_equal(stats.lost, 2);
    assert_int_equal(stats.duplicated, 0);
    rbt_network_destroy(network);
}

/* --- Chance ------------------------------------------------------------------------------------
 */

enum { MESSAGES = 20000 };

/* Sends many messages, far apart, and counts how many have 0, 1 and 2 copies. */
static void count_copies(struct rbt_network_options options, size_t counts[3])
{
    rbt_network *network = make(options);
    const struct rbt_message_path way = path(0, 1);
    memset(counts, 0, 3 * sizeof counts[0]);
    for (rbt_time i = 0; i < MESSAGES; i++) {
        struct rbt_passage passages[2];
        counts[rbt_network_send(network, &way, i * 10 * BYTES, passages)]++;
    }
    struct rbt_network_stats stats;
    rbt_network_stats(network, &stats);
    assert_int_equal(stats.messages, MESSAGES);
    assert_int_equal(stats.lost, counts[0]);
    assert_int_equal(stats.duplicated, counts[2]);
    assert_int_equal(stats.bytes, (MESSAGES + counts[2]) * BYTES);
    rbt_network_destroy(network);
}

/* The seed is fixed. Of other seeds one in ten thousand would be outside: four standard deviations,
 * sqrt(20000 * 0.1 * 0.9) = 42 for 2000 expected. */
static void losses_and_copies_are_as_frequent_as_asked_for(void **state)
{
    (void)state;
    size_t counts[3];
    count_copies((struct rbt_network_options){.seed = 1, .loss = 0.1}, counts);
    assert_in_range(counts[0], 2000 - 168, 2000 + 168);
    assert_int_equal(counts[2], 0);
    count_copies((struct rbt_network_options){.seed = 1, .duplication = 0.1}, counts);
    assert_in_range(counts[2], 2000 - 168, 2000 + 168);
    assert_int_equal(counts[0], 0);
    count_copies((struct rbt_network_options){.seed = 1, .loss = 1.0}, counts);
    assert_int_equal(counts[0], MESSAGES);
    count_copies((struct rbt_network_options){.seed = 1, .duplication = 1.0}, counts);
    assert_int_equal(counts[2], MESSAGES);
}

static void a_lost_message_has_occupied_the_link(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){.seed = 1, .loss = 0.5});
    const struct rbt_message_path way = path(0, 1);
    struct rbt_passage passages[2];
    size_t arrived = 0;
    for (rbt_time i = 0; i < 100; i++) {
        if (rbt_network_send(network, &way, 0, passages) == 1) {
            assert_int_equal(passages[0].sent, (i + 1) * BYTES);
            arrived++;
        }
    }
    assert_in_range(arrived, 1, 99);
    rbt_network_destroy(network);
}

static void a_second_copy_follows_the_first(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){.duplication = 1.0});
    const struct rbt_message_path way = path(0, 1);
    struct rbt_passage passages[2];
    assert_int_equal(rbt_network_send(network, &way, 0, passages), 2);
    assert_int_equal(passages[0].sent, BYTES);
    assert_int_equal(passages[1].sent, 2 * BYTES);
    assert_int_equal(receive_one(network, 0, 1, passages[0]), LATENCY + BYTES);
    assert_int_equal(receive_one(network, 0, 1, passages[1]), LATENCY + 2 * BYTES);
    assert_int_equal(rbt_network_sent(network, 0), 2 * BYTES);
    assert_int_equal(rbt_network_received(network, 1), 2 * BYTES);
    rbt_network_destroy(network);
}

/* Jitter of 0 .. 9 nanoseconds: each value about 2000 times of 20000, as above. */
static void jitter_is_evenly_spread(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){.seed = 2, .jitter = 9});
    size_t counts[10] = {0};
    for (rbt_time i = 0; i < MESSAGES; i++) {
        const rbt_time now = i * 10 * BYTES;
        const rbt_time jitter = send_one(network, 0, 1, now).arrives - now - LATENCY;
        assert_in_range(jitter, 0, 9);
        counts[jitter]++;
    }
    for (size_t i = 0; i < 10; i++) {
        assert_in_range(counts[i], 2000 - 168, 2000 + 168);
    }
    rbt_network_destroy(network);
}

static void jitter_can_change_the_order(void **state)
{
    (void)state;
    rbt_network *network = make((struct rbt_network_options){.seed = 3, .jitter = 10 * BYTES});
    rbt_time last = 0;
    size_t overtaken = 0;
    for (int i = 0; i < 100; i++) {
        const rbt_time arrives = send_one(network, 0, 1, 0).arrives;
        overtaken += arrives < last;
        last = arrives;
    }
    assert_in_range(overtaken, 20, 60);
    rbt_network_destroy(network);
}

static void copies_have_jitter_of_their_own(void **state)
{
    (void)state;
    rbt_network *network =
        make((struct rbt_network_options){.seed = 4, .duplication = 1.0, .jitter = 1000000});
    const struct rbt_message_path way = path(0, 1);
    size_t overtaken = 0;
    for (int i = 0; i < 100; i++) {
        struct rbt_passage passages[2];
        assert_int_equal(rbt_network_send(network, &way, 0, passages), 2);
        overtaken += passages[1].arrives < passages[0].arrives;
    }
    assert_in_range(overtaken, 20, 80);
    rbt_network_destroy(network);
}

static void spikes_come_by_chance(void **state)
{
    (void)state;
    enum { SPIKE = 123456 };
    rbt_network *network =
        make((struct rbt_network_options){.seed = 5, .spike_chance = 0.1, .spike = SPIKE});
    size_t spikes = 0;
    for (rbt_time i = 0; i < MESSAGES; i++) {
        const rbt_time now = i * 10 * BYTES;
        const rbt_time extra = send_one(network, 0, 1, now).arrives - now - LATENCY;
        assert_true(extra == 0 || extra == SPIKE);
        spikes += extra == SPIKE;
    }
    assert_in_range(spikes, 2000 - 168, 2000 + 168);
    rbt_network_destroy(network);
}

/* Everything at once; returns a number that depends on every passage. */
static uint64_t fingerprint(uint64_t seed)
{
    rbt_network *network = make((struct rbt_network_options){.seed = seed,
                                                             .jitter = 300,
                                                             .loss = 0.1,
                                                             .duplication = 0.1,
                                                             .spike_chance = 0.05,
                                                             .spike = 5000,
                                                             .message_cost = 20});
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 2000; i++) {
        struct rbt_passage passages[2];
        const struct rbt_message_path way = path(i % 3, 3 + i % 5);
        const size_t count = rbt_network_send(network, &way, (rbt_time)i * 100, passages);
        sum = sum * 31 + count;
        for (size_t j = 0; j < count; j++) {
            rbt_time delivered = 0;
            assert_true(rbt_network_receive(network, &way, &passages[j], &delivered));
            assert_true(delivered >= passages[j].last);
            sum = sum * 31 + (uint64_t)passages[j].arrives;
            sum = sum * 31 + (uint64_t)delivered;
        }
    }
    rbt_network_destroy(network);
    return sum;
}

static void equal_seeds_give_equal_passages(void **state)
{
    (void)state;
    assert_int_equal(fingerprint(1), fingerprint(1));
    assert_int_not_equal(fingerprint(1), fingerprint(2));
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    const struct rbt_network_options options = {.node_count = 3, .bandwidth = 1e6};
    for (unsigned nth = 1;; nth++) { /* ends when nothing is left to fail */
        rbt_network *network = NULL;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_network_create(&options, &network);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_network_destroy(network);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(network);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    rbt_network_destroy(NULL);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* --- Racks ----------------------------------------------------------------------------------- */

/* Even nodes are in rack 0, odd ones in rack 1; the racks' links have a quarter of a node's
 * bandwidth. */
static rbt_network *make_racks(void)
{
    rbt_network *network = make((struct rbt_network_options){.rack_count = 2});
    for (uint32_t i = 0; i < NODES; i++) {
        rbt_network_set_rack(network, i, i % 2);
    }
    rbt_network_set_rack_bandwidth(network, 0, 0.25e9);
    rbt_network_set_rack_bandwidth(network, 1, 0.25e9);
    return network;
}

/* Crosses one link of a rack; returns when the first byte is through. */
static rbt_time pass_one(rbt_network *network, uint32_t from, uint32_t to,
                         struct rbt_passage *passage)
{
    const struct rbt_message_path way = path(from, to);
    assert_true(rbt_network_pass(network, &way, passage));
    return passage->arrives;
}

static void only_what_leaves_a_rack_crosses_its_links(void **state)
{
    (void)state;
    rbt_network *network = make_racks();
    const struct rbt_message_path near = path(0, 2);
    struct rbt_passage within = send_one(network, 0, 2, 0);
    assert_int_equal(within.racks, 0);
    assert_false(rbt_network_pass(network, &near, &within));
    assert_int_equal(receive_one(network, 0, 2, within), LATENCY + BYTES);
    struct rbt_passage between = send_one(network, 4, 1, 0);
    assert_int_equal(pass_one(network, 4, 1, &between), LATENCY);
    assert_int_equal(pass_one(network, 4, 1, &between), LATENCY);
    const struct rbt_message_path far = path(4, 1);
    assert_false(rbt_network_pass(network, &far, &between));
    assert_int_equal(receive_one(network, 4, 1, between), LATENCY + 4 * BYTES);
    assert_int_equal(rbt_network_rack_bytes(network, 0).up, BYTES);
    assert_int_equal(rbt_network_rack_bytes(network, 0).down, 0);
    assert_int_equal(rbt_network_rack_bytes(network, 1).up, 0);
    assert_int_equal(rbt_network_rack_bytes(network, 1).down, BYTES);
    rbt_network_destroy(network);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void messages_queue_for_the_link_of_their_rack(void **state)
{
    (void)state;
    rbt_network *network = make_racks();
    struct rbt_passage passages[3];
    for (uint32_t i = 0; i < 3; i++) { /* senders and receivers all differ */
        passages[i] = send_one(network, 2 * i, 2 * i + 1, 0);
        assert_int_equal(passages[i].arrives, LATENCY);
    }
    for (uint32_t i = 0; i < 3; i++) {
        const rbt_time turn = LATENCY + (rbt_time)i * 4 * BYTES;
        assert_int_equal(pass_one(network, 2 * i, 2 * i + 1, &passages[i]), turn);
    }
    for (uint32_t i = 0; i < 3; i++) {
        const rbt_time turn = LATENCY + (rbt_time)i * 4 * BYTES;
        assert_int_equal(pass_one(network, 2 * i, 2 * i + 1, &passages[i]), turn);
        assert_int_equal(receive_one(network, 2 * i, 2 * i + 1, passages[i]), turn + 4 * BYTES);
    }
    struct rbt_passage back = send_one(network, 1, 0, 0); /* the other way is free */
    assert_int_equal(pass_one(network, 1, 0, &back), LATENCY);
    rbt_network_destroy(network);
}

static void the_slower_rack_decides(void **state)
{
    (void)state;
    rbt_network *network = make_racks();
    rbt_network_set_rack_bandwidth(network, 1, 0.1e9);
    struct rbt_passage first = send_one(network, 0, 1, 0);
    struct rbt_passage second = send_one(network, 2, 3, 0);
    (void)pass_one(network, 0, 1, &first);
    (void)pass_one(network, 2, 3, &second);
    assert_int_equal(pass_one(network, 0, 1, &first), LATENCY);
    assert_int_equal(receive_one(network, 0, 1, first), LATENCY + 10 * BYTES);
    assert_int_equal(second.arrives, LATENCY + 4 * BYTES);
    assert_int_equal(pass_one(network, 2, 3, &second), LATENCY + 10 * BYTES);
    assert_int_equal(receive_one(network, 2, 3, second), LATENCY + 20 * BYTES);
    rbt_network_destroy(network);
}

static void heartbeats_pass_the_queues_of_racks(void **state)
{
    (void)state;
    rbt_network *network = make_racks();
    struct rbt_passage slow = send_one(network, 0, 1, 0);
    (void)pass_one(network, 0, 1, &slow);
    struct rbt_passage passages[2];
    struct rbt_message_path way = path(2, 3);
    way.is_urgent = true;
    assert_int_equal(rbt_network_send(network, &way, 0, passages), 1);
    assert_true(rbt_network_pass(network, &way, &passages[0]));
    assert_true(rbt_network_pass(network, &way, &passages[0]));
    assert_false(rbt_network_pass(network, &way, &passages[0]));
    assert_int_equal(passages[0].arrives, LATENCY);
    assert_int_equal(pass_one(network, 0, 1, &slow), LATENCY); /* and take no room there */
    assert_int_equal(rbt_network_rack_bytes(network, 1).down, 2 * BYTES);
    rbt_network_destroy(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_undisturbed_message_takes_latency_and_transmission),
        cmocka_unit_test(senders_queue_at_the_link_of_one_receiver),
        cmocka_unit_test(receivers_wait_for_the_link_of_one_sender),
        cmocka_unit_test(both_directions_of_a_node_are_independent),
        cmocka_unit_test(the_processor_handles_messages_one_at_a_time),
        cmocka_unit_test(the_slower_link_decides),
        cmocka_unit_test(a_slow_sender_does_not_clog_its_receiver),
        cmocka_unit_test(absurdly_slow_links_take_forever),
        cmocka_unit_test(messages_pass_only_between_nodes_of_a_side),
        cmocka_unit_test(losses_and_copies_are_as_frequent_as_asked_for),
        cmocka_unit_test(a_lost_message_has_occupied_the_link),
        cmocka_unit_test(a_second_copy_follows_the_first),
        cmocka_unit_test(jitter_is_evenly_spread),
        cmocka_unit_test(jitter_can_change_the_order),
        cmocka_unit_test(copies_have_jitter_of_their_own),
        cmocka_unit_test(spikes_come_by_chance),
        cmocka_unit_test(equal_seeds_give_equal_passages),
        cmocka_unit_test(create_survives_every_failed_allocation),
        cmocka_unit_test(only_what_leaves_a_rack_crosses_its_links),
        cmocka_unit_test(messages_queue_for_the_link_of_their_rack),
        cmocka_unit_test(the_slower_rack_decides),
        cmocka_unit_test(heartbeats_pass_the_queues_of_racks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
