/* policy/filter/chain_test.c - texts and what they ask for, filters together, and nothing that is
 * lost. */
#include "policy/filter/filter_rig.h"

#include <stdio.h>

static rbt_status check_text(const char *text, struct rbt_chain_traits *traits)
{
    const struct rbt_chain_options options = rig_options(text, RBT_FILTER_PUSH);
    return rbt_chain_check(&options, traits);
}

static struct rbt_chain_traits traits_of(const char *text, rbt_filter_direction direction)
{
    const struct rbt_chain_options options = rig_options(text, direction);
    struct rbt_chain_traits traits = {0};
    assert_ok(rbt_chain_check(&options, &traits));
    return traits;
}

static bool is_empty(const char *text, rbt_filter_direction direction)
{
    const struct rbt_chain_options options = rig_options(text, direction);
    rbt_chain *chain = NULL;
    assert_ok(rbt_chain_create(&options, &chain));
    const bool is_none = chain == NULL;
    rbt_chain_destroy(chain);
    return is_none;
}

static void nothing_to_do_is_no_chain(void **state)
{
    (void)state;
    assert_true(is_empty(NULL, RBT_FILTER_PUSH));
    assert_true(is_empty("", RBT_FILTER_PUSH));
    assert_true(is_empty("none", RBT_FILTER_PUSH));
    assert_true(is_empty("keys,zeros:0", RBT_FILTER_PUSH));
    assert_true(is_empty("keys", RBT_FILTER_PULL));
    assert_true(is_empty("push.lz4", RBT_FILTER_PULL));
    assert_true(is_empty("kkt:1,skip:0.5,tiny:1,sample:3,zeros", RBT_FILTER_PULL));
    assert_true(is_empty("zeros:0,changed", RBT_FILTER_PUSH));
    assert_false(is_empty("zeros", RBT_FILTER_PUSH));
    assert_false(is_empty("lz4", RBT_FILTER_PULL));
}

static void traits_are_those_of_the_direction(void **state)
{
    (void)state;
    const char *text = "keys,push.fixed:8,zeros,pull.changed,tiny:1e-6,pull.zstd:3";
    const struct rbt_chain_traits push = traits_of(text, RBT_FILTER_PUSH);
    const struct rbt_chain_traits pull = traits_of(text, RBT_FILTER_PULL);
    assert_true(push.names_keys && push.skips_zeros && push.has_select && push.has_round);
    assert_true(push.keeps_rest && !push.has_pack);
    assert_true(pull.names_keys && !pull.skips_zeros && pull.has_select && !pull.has_round);
    assert_true(pull.has_pack && !pull.keeps_rest);
    assert_false(traits_of("push.keys", RBT_FILTER_PULL).names_keys);
    assert_false(traits_of("significant:1", RBT_FILTER_PULL).keeps_rest);
    assert_false(rbt_chain_traits(NULL).names_keys);
}

static void zeros_stay_behind_whatever_is_named(void **state)
{
    (void)state;
    static const char *const texts[] = {"keys", "changed", "lz4", "push.f16", "zeros:1", "tiny:1"};
    static const char *const others[] = {"zeros:0", "keys,zeros:0", "none", ""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_true(traits_of(texts[i], RBT_FILTER_PUSH).skips_zeros);
        assert_false(traits_of(texts[i], RBT_FILTER_PULL).skips_zeros);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(traits_of(others[i], RBT_FILTER_PUSH).skips_zeros);
    }
}

static void texts_that_make_no_sense_are_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *sentence;
        const char *hint;
    } cases[] = {
        {"fixd:8", "there is no filter \"fixd\"", "Did you mean \"fixed\"?"},
        {"huffman", "there is no filter \"huffman\"", "The filters are none, keys, zeros, tiny"},
        {"lz4,,zstd", "\"\" has no name of a filter", ""},
        {"lz4,", "ends with a comma", ""},
        {"push.", "\"push.\" has no name of a filter", ""},
        {"pull.kkt:1", "\"pull.kkt:1\": the filter \"kkt\" is for updates (push) only", ""},
        {"pull.skip:0.5", "for updates (push) only", ""},
        {"pull.zeros", "for updates (push) only", ""},
        {"push.changed", "the filter \"changed\" is for reads (pull) only", ""},
        {"fixed", "filter \"fixed\": the number of bits must be given, behind a \":\"", ""},
        {"fixed:1", "filter \"fixed\": the number of bits must be at least 2, not 1", ""},
        {"fixed:25", "the number of bits must be at most 24, not 25", ""},
        {"fixed:7.5", "the number of bits must be a whole number, not 7.5", ""},
        {"fixed:8:9", "it takes at most 1 number, not 2", ""},
        {"fixed:x", "\"fixed:x\": \"x\" is not a number", ""},
        {"fixed:", "\"fixed:\": \"\" is not a number", ""},
        {"tiny:nan", "\"nan\" is not a number", ""},
        {"kkt:1:2:3:4:5", "a filter takes at most 4 numbers", ""},
        {"kkt:1:2", "the margin must be at most the penalty, 1, not 2", ""},
        {"kkt:0", "the penalty must be above 0, not 0", ""},
        {"skip:0", "the probability must be above 0, not 0", ""},
        {"skip:1.5", "the probability must be at most 1, not 1.5", ""},
        {"skip:1e-11", "the probability must be at least 2^-32, not 1e-11", ""},
        {"sample:0", "the size must be at least 1, not 0", ""},
        {"significant:1:2", "the power must be at most 1, not 2", ""},
        {"zstd:20", "the level must be at most 19, not 20", ""},
        {"lz4:3", "\"lz4:3\": the filter \"lz4\" takes no numbers", ""},
        {"keys:3", "the filter \"keys\" takes no numbers", ""},
        {"none,lz4", "\"none\" stands alone, and not in \"none,lz4\"", ""},
        {"push.none", "\"none\" stands alone", ""},
        {"f16,fixed:8", "the filters \"f16\" and \"fixed\" both round", ""},
        {"lz4,lz4,lz4,lz4,lz4", "too many filters of the kind of \"lz4\": at most 4", ""},
        {"./missing.so:3", "cannot find the filter \"./missing.so\"", "starts in the folder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(check_text(cases[i].text, NULL), RBT_E_INVALID, cases[i].sentence);
        assert_non_null(strstr(rbt_last_hint(), cases[i].hint));
    }
    assert_ok(check_text("push.fixed:8,pull.f16,lz4", NULL)); /* one for each direction */
}

static void mistakes_of_the_other_direction_are_found(void **state)
{
    (void)state;
    const struct rbt_chain_options options = rig_options("pull.fixed:99", RBT_FILTER_PUSH);
    assert_fails(rbt_chain_check(&options, NULL), RBT_E_INVALID, "at most 24, not 99");
}

static void tables_that_are_not_real_can_only_be_packed(void **state)
{
    (void)state;
    struct rbt_chain_options options = rig_options("pull.f16", RBT_FILTER_PUSH);
    options.type = RBT_I32;
    assert_fails(rbt_chain_check(&options, NULL), RBT_E_INVALID, "the filter \"f16\" is for");
    options.type = RBT_F32;
    options.layout = RBT_SPARSE;
    assert_fails(rbt_chain_check(&options, NULL), RBT_E_INVALID, "the filter \"f16\" is for");
    options.layout = RBT_DENSE;
    options.merge = RBT_MERGE_MAX;
    assert_fails(rbt_chain_check(&options, NULL), RBT_E_INVALID, "the filter \"f16\" is for");
    options.merge = RBT_MERGE_ADD;
    options.type = RBT_F64;
    assert_fails(rbt_chain_check(&options, NULL), RBT_E_INVALID,
                 "the filter \"f16\" is for dense tables of f32 that add, and table \"weights\" is "
                 "not one");
    options.text = "tiny:1";
    assert_fails(rbt_chain_check(&options, NULL), RBT_E_INVALID, "the filter \"tiny\" is for");
    options.text = "keys,zeros,lz4,zstd";
    assert_ok(rbt_chain_check(&options, NULL));
}

static void without_memory_nothing_is_kept(void **state)
{
    (void)state;
    const struct rbt_chain_options options =
        rig_options("zeros,tiny:1,kkt:1,skip:0.5,sample:3,fixed:8,lz4,zstd", RBT_FILTER_PUSH);
    const size_t live = rbt_alloc_live();
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        rbt_chain *chain = NULL;
        assert_true(nth < 20);
        rbt_alloc_fail_nth(nth);
        st = rbt_chain_create(&options, &chain);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || (st == RBT_E_NOMEM && chain == NULL));
        rbt_chain_destroy(chain);
        assert_int_equal(rbt_alloc_live(), live);
    }
}

/* tiny holds 1 back, which it keeps; kkt drops 3, which it does not keep; 100 goes. */
static void what_stays_is_the_rest_of_filters_that_keep_it(void **state)
{
    (void)state;
    static const char *const texts[] = {"tiny:2,kkt:20:0:2", "kkt:20:0:2,tiny:2"};
    static const float rests[] = {1, 0}; /* kkt drops the small one as well, if it sees it first */
    for (size_t i = 0; i < 2; i++) {
        struct rig *rig = rig_open(texts[i], RBT_FILTER_PUSH, 3);
        rig->rows.known = rig->known;
        rig->rows.turn = 1;
        rig->values[0] = 1;
        rig->values[1] = 3;
        rig->values[2] = 100;
        rig_apply(rig);
        assert_false(rig->keep[0] || rig->keep[1]);
        assert_true(rig->keep[2]);
        assert_true(rig->values[0] == rests[i]);
        assert_true(rig->values[1] == 0);
        assert_true(rig->values[2] == 100);
        rig_close(rig);
    }
}

/* With integers, all sums are exact: what went and what stays is what there was. */
static void nothing_is_lost_of_what_waits(void **state)
{
    (void)state;
    static const char *const texts[] = {"tiny:50", "significant:50", "significant:500:1",
                                        "tiny:20,significant:30,zeros,lz4"};
    enum { COUNT = 500, TURNS = 60 };
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        struct rig *rig = rig_open(texts[t], RBT_FILTER_PUSH, COUNT);
        struct rbt_rng rng;
        double made[COUNT] = {0};
        double sent[COUNT] = {0};
        size_t sends = 0;
        rbt_rng_init(&rng, 17, t, 0);
        for (int turn = 0; turn < TURNS; turn++) {
            for (size_t i = 0; i < COUNT; i++) {
                const float update = (float)((int)rbt_rng_below(&rng, 41) - 20);
                made[i] += (double)update;
                rig->values[i] += update; /* to the rest */
            }
            rig_apply(rig);
            (void)rig_deliver(rig);
            for (size_t i = 0; i < COUNT; i++) {
                sends += rig->keep[i];
                sent[i] += rig->keep[i] ? (double)rig->values[i] : 0;
                rig->values[i] = rig->keep[i] ? 0 : rig->values[i];
                assert_true(sent[i] + (double)rig->values[i] == made[i]);
            }
        }
        assert_true(sends > 0 && sends < (size_t)COUNT * TURNS);
        rig_close(rig);
    }
}

/* Chains drawn at random: what is applied arrives bit by bit, and all filters have their say. */
static void random_chains_deliver_what_they_applied(void **state)
{
    (void)state;
    static const char *const all[] = {
        "zeros",  "tiny:0.1", "significant:0.2", "skip:0.7",        "sample:99", "kkt:0.5", "lz4",
        "zstd:2", "keys",     "push.lz4",        "significant:1:1", "tiny:0"};
    static const char *const rounds[] = {"", "f16,", "bf16,", "fixed:8,", "fixed:3,", "fixed:24,"};
    struct rbt_rng rng;
    rbt_rng_init(&rng, 23, 0, 0);
    for (int run = 0; run < 400; run++) {
        char text[256] = "";
        const size_t pieces = 1 + (size_t)rbt_rng_below(&rng, 4);
        for (size_t i = 0; i < pieces; i++) {
            const size_t used = strlen(text);
            (void)snprintf(text + used, sizeof text - used, "%s,", all[rbt_rng_below(&rng, 12)]);
            if (i == 0) {
                const size_t more = strlen(text);
                (void)snprintf(text + more, sizeof text - more, "%s",
                               rounds[rbt_rng_below(&rng, 6)]);
            }
        }
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "lz4");
        struct rig *rig = rig_open(text, RBT_FILTER_PUSH, (size_t)rbt_rng_below(&rng, 3000));
        rig->rows.known = run % 3 == 0 ? NULL : rig->known;
        rig->rows.seed = rbt_rng_next(&rng);
        rig->rows.turn = rbt_rng_below(&rng, 20);
        for (size_t i = 0; i < rig->count; i++) {
            const bool is_odd = run % 5 == 0 && rbt_rng_below(&rng, 50) == 0;
            rig->values[i] =
                is_odd ? rig_float((uint32_t)rbt_rng_next(&rng)) : (float)rbt_rng_normal(&rng);
            rig->known[i] = rbt_rng_below(&rng, 2) == 0 ? 0 : 1;
        }
        rig_apply(rig);
        (void)rig_deliver(rig);
        rig_close(rig);
    }
}

/* The same seed, the same bytes. */
static void equal_seeds_give_equal_results(void **state)
{
    (void)state;
    struct rig *a = rig_open("skip:0.5,fixed:8", RBT_FILTER_PUSH, 1000);
    struct rig *b = rig_open("skip:0.5,fixed:8", RBT_FILTER_PUSH, 1000);
    for (size_t i = 0; i < 1000; i++) {
        a->values[i] = b->values[i] = sinf((float)i);
    }
    rig_apply(a);
    rig_apply(b);
    assert_memory_equal(a->values, b->values, sizeof a->values);
    assert_memory_equal(a->keep, b->keep, sizeof a->keep);
    for (size_t i = 0; i < 1000; i++) {
        b->values[i] = sinf((float)i);
    }
    rig_apply(b);
    assert_memory_not_equal(a->keep, b->keep, sizeof a->keep);
    rig_close(a);
    rig_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_do_is_no_chain),
        cmocka_unit_test(traits_are_those_of_the_direction),
        cmocka_unit_test(zeros_stay_behind_whatever_is_named),
        cmocka_unit_test(texts_that_make_no_sense_are_refused_with_a_sentence),
        cmocka_unit_test(mistakes_of_the_other_direction_are_found),
        cmocka_unit_test(tables_that_are_not_real_can_only_be_packed),
        cmocka_unit_test(without_memory_nothing_is_kept),
        cmocka_unit_test(what_stays_is_the_rest_of_filters_that_keep_it),
        cmocka_unit_test(nothing_is_lost_of_what_waits),
        cmocka_unit_test(random_chains_deliver_what_they_applied),
        cmocka_unit_test(equal_seeds_give_equal_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
