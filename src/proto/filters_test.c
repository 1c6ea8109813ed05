/* proto/filters_test.c - a table with filters at a job shard: updates that were filtered, reads
 * that are changes of what their reader has, and peers that break the rules. */
#include "proto/job_shard_rig.h"

#include <string.h>

#include "policy/filter/chain.h"

enum { ELEMENTS = KEYS };

static const char *const TEXT = "keys,push.zeros,pull.changed,pull.f16,lz4";

struct chains {
    rbt_chain *push;
    rbt_chain *pull;
};

static struct chains open_chains(const char *text)
{
    struct chains chains = {0};
    struct rbt_chain_options options = {.text = text,
                                        .direction = RBT_FILTER_PUSH,
                                        .table = "t0",
                                        .width = 1,
                                        .type = RBT_F32,
                                        .worker_count = 2};
    assert_ok(rbt_chain_create(&options, &chains.push));
    options.direction = RBT_FILTER_PULL;
    assert_ok(rbt_chain_create(&options, &chains.pull));
    return chains;
}

static void close_chains(struct chains chains)
{
    rbt_chain_destroy(chains.push);
    rbt_chain_destroy(chains.pull);
}

/* Opens table 0, of floats, with these filters, and begins a run. */
static struct rbt_wire_done open_table(struct fixture *f, const char *text)
{
    struct rbt_spec told = {.type = RBT_F32,
                            .width = 1,
                            .staleness = RBT_STALENESS_ANY,
                            .partial = RBT_PARTIAL_SHOW,
                            .name = "t0"};
    (void)snprintf(told.filter, sizeof told.filter, "%s", text); /* it fits */
    make_table(f, &told);
    assert_ok(deliver(f, 2));
    const struct rbt_wire_done done = hear_done(&f->ears[2]);
    if (done.status == RBT_OK) {
        make_empty(f, RBT_FRAME_RESET, RBT_FRAME_NOBODY, 1);
        assert_ok(deliver(f, 2));
        (void)hear_done(&f->ears[2]);
    }
    return done;
}

/* Pushes values that were filtered; byte number `damaged` of them is changed. */
static rbt_status push(struct fixture *f, rbt_chain *chain, float *values, size_t damaged)
{
    static uint64_t id;
    char bytes[2048];
    char scratch[4096];
    const struct rbt_chain_elements elements = {.count = ELEMENTS, .values = values};
    assert_true(rbt_chain_bound(chain, ELEMENTS) <= sizeof bytes);
    struct rbt_wire_rows rows = {
        .count = KEYS, .keys = some_keys(1, 3), .values = values, .element_size = 4, .width = 1};
    rows.packed_bytes = rbt_chain_put(chain, &elements, bytes, scratch);
    rows.packed = bytes;
    if (damaged < rows.packed_bytes) {
        bytes[damaged] = (char)(bytes[damaged] ^ 0x55);
    }
    const struct rbt_wire_news news = rbt_job_shard_news(f->job_shard, 0);
    id = news.arrived + 1;
    make_push(f, 0, id,
              (struct rbt_wire_push){
                  .clock = (int64_t)news.arrived, .marker = (int64_t)id, .batch_count = 1},
              &rows);
    return deliver(f, 0);
}

/* Reads all rows, of which worker 0 has the copy `has`, into what it has; returns the answer. */
static struct rbt_wire_answer read_rows(struct fixture *f, rbt_chain *chain, uint64_t has,
                                        float *values)
{
    const struct rbt_wire_rows rows = {.count = KEYS, .keys = some_keys(1, 3)};
    struct rbt_wire_view view;
    char scratch[4096];
    const struct rbt_wire_pull pull = {
        .need = RBT_CLOCK_ANY, .subscription = 7, .has_copy = true, .copy = has};
    make_pull(f, 0, 5, pull, &rows);
    assert_ok(deliver(f, 0));
    const struct rbt_wire_answer answer = hear_rows(&f->ears[0], 5, &view);
    assert_true(answer.has_copy);
    if (view.value_form == RBT_VALUES_FILTERED) {
        const struct rbt_chain_elements elements = {.count = ELEMENTS, .values = values};
        assert_ok(rbt_chain_get(chain, view.values, view.value_bytes, &elements, scratch));
    } else {
        assert_int_equal(answer.copy_base, 0);
        assert_ok(rbt_wire_view_values(&view, values));
    }
    return answer;
}

static void test_way_there_and_back(void **state)
{
    struct fixture *f = *state;
    const struct chains chains = open_chains(TEXT);
    float update[ELEMENTS] = {0};
    float has[ELEMENTS];
    assert_int_equal(open_table(f, TEXT).status, RBT_OK);
    for (size_t i = 0; i < ELEMENTS; i++) {
        update[i] = i % 3 == 0 ? 0.5F : 0.0F;
    }
    assert_ok(push(f, chains.push, update, SIZE_MAX));
    memset(has, 0x55, sizeof has); /* of no use, and not looked at */
    const struct rbt_wire_answer first = read_rows(f, chains.pull, 0, has);
    assert_int_equal(first.copy_base, 0);
    assert_int_not_equal(first.copy, 0);
    assert_memory_equal(has, update, sizeof has);
    float one[ELEMENTS] = {[4] = 2.0F};
    assert_ok(push(f, chains.push, one, SIZE_MAX));
    const struct rbt_wire_answer second = read_rows(f, chains.pull, first.copy, has);
    assert_int_equal(second.copy_base, first.copy);
    assert_int_not_equal(second.copy, first.copy);
    update[4] = 2.0F;
    assert_memory_equal(has, update, sizeof has);
    /* The answer was lost, and the worker asks again: what it has is not what it was sent. */
    memset(has, 0x55, sizeof has);
    const struct rbt_wire_answer third = read_rows(f, chains.pull, first.copy, has);
    assert_int_equal(third.copy_base, 0);
    assert_memory_equal(has, update, sizeof has);
    close_chains(chains);
}

/* Whatever byte is wrong, the shard goes on or the peer is refused. */
static void test_damage(void **state)
{
    struct fixture *f = *state;
    const struct chains chains = open_chains(TEXT);
    float update[ELEMENTS] = {[3] = 1.0F, [9] = -2.0F};
    assert_int_equal(open_table(f, TEXT).status, RBT_OK);
    unsigned refused = 0;
    for (size_t i = 0; i < 4 * ELEMENTS; i++) {
        const rbt_status st = push(f, chains.push, update, i);
        assert_true(st == RBT_OK || st == RBT_E_PROTOCOL);
        refused += st != RBT_OK;
    }
    assert_true(refused > 0);
    close_chains(chains);
}

static void test_strangers(void **state)
{
    struct fixture *f = *state;
    const struct chains chains = open_chains(TEXT);
    float update[ELEMENTS] = {[3] = 1.0F};
    const struct rbt_wire_done done = open_table(f, "changed,quux");
    assert_int_equal(done.status, RBT_E_INVALID);
    assert_non_null(strstr(done.text, "quux"));
    assert_int_equal(open_table(f, "").status, RBT_OK);
    assert_fails(push(f, chains.push, update, SIZE_MAX), RBT_E_PROTOCOL, "filtered");
    const struct rbt_wire_rows rows = {.count = KEYS, .keys = some_keys(1, 3)};
    const struct rbt_wire_pull pull = {.need = RBT_CLOCK_ANY, .subscription = 7, .has_copy = true};
    make_pull(f, 0, 5, pull, &rows);
    assert_fails(deliver(f, 0), RBT_E_PROTOCOL, "malformed PULL");
    struct rbt_spec other = {.type = RBT_F32,
                             .width = 1,
                             .staleness = RBT_STALENESS_ANY,
                             .partial = RBT_PARTIAL_SHOW,
                             .name = "t0"};
    (void)snprintf(other.filter, sizeof other.filter, "lz4"); /* it fits */
    make_table(f, &other);
    assert_ok(deliver(f, 2));
    assert_int_equal(hear_done(&f->ears[2]).status, RBT_E_INVALID);
    close_chains(chains);
}

/* A reader has no filters: it gets rows as they are. */
static void test_reader(void **state)
{
    struct fixture *f = *state;
    const struct chains chains = open_chains(TEXT);
    float update[ELEMENTS] = {[3] = 1.0F};
    assert_int_equal(open_table(f, TEXT).status, RBT_OK);
    assert_ok(push(f, chains.push, update, SIZE_MAX));
    const struct rbt_wire_rows rows = {.count = KEYS, .keys = some_keys(1, 3)};
    struct rbt_wire_view view;
    make_pull(f, RBT_FRAME_NOBODY, 5, (struct rbt_wire_pull){.need = RBT_CLOCK_ANY}, &rows);
    assert_ok(deliver(f, 3));
    const struct rbt_wire_answer answer = hear_rows(&f->ears[3], 5, &view);
    assert_false(answer.has_copy);
    assert_memory_equal(rbt_wire_view_raw(&view), update, sizeof update);
    close_chains(chains);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_way_there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strangers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reader, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
