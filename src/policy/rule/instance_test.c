/* policy/rule/instance_test.c - instances: parameters are read, refused or used up, and needs are
 * checked. The rule of these tests does what the test says. */
#include "base/limits.h"
#include "base/test.h"

#include <stdbool.h>
#include <stdio.h>

#include "policy/rule/rule.h"

static struct {
    struct rbt_rule_needs needs;
    bool is_failing;
    rbt_status status; /* what create returns without a word */
    double lr;
    double other;
    struct rbt_rule_table table;
    uint32_t alive;
} played;

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    assert_int_equal(setup->struct_size, sizeof *setup);
    played.lr = setup->number(setup, "lr", 0.25);
    played.other = setup->number(setup, "other", -3);
    played.table =
        (struct rbt_rule_table){.width = setup->width, .worker_count = setup->worker_count};
    assert_string_equal(setup->table, "weights");
    if (played.is_failing) {
        return (setup->fail)("lr is %g, and %s", played.lr,
                             "that will not do"); /* cmocka has a macro */
    }
    if (played.status != RBT_OK) {
        return played.status;
    }
    *needs = played.needs;
    *self = &played;
    played.alive++;
    return RBT_OK;
}

static void destroy(void *self)
{
    assert_ptr_equal(self, &played);
    played.alive--;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)self;
    (void)message;
    (void)row;
    return RBT_OK;
}

static uint64_t map(void *self, const struct rbt_rule_message *message)
{
    (void)self;
    return (uint64_t)message->clock;
}

static const struct rbt_rule rule = {.abi = RBT_RULE_ABI,
                                     .struct_size = sizeof rule,
                                     .name = "played",
                                     .create = create,
                                     .destroy = destroy,
                                     .apply = apply};

static const struct rbt_rule_table table = {.name = "weights", .width = 4, .worker_count = 3};

static int setup_test(void **state)
{
    (void)state;
    memset(&played, 0, sizeof played);
    return 0;
}

static void parameters_come_from_the_text(void **state)
{
    (void)state;
    struct rbt_rule_instance instance;
    assert_ok(rbt_rule_create(&rule, "played:lr=1e-3,other", &table, &instance));
    assert_true(played.lr == 1e-3);
    assert_true(played.other == 1); /* without a value it is on */
    assert_int_equal(played.table.width, 4);
    assert_int_equal(played.table.worker_count, 3);
    assert_int_equal(played.alive, 1);
    rbt_rule_destroy(&instance);
    rbt_rule_destroy(&instance); /* accepts an empty one */
    assert_int_equal(played.alive, 0);
    assert_null(instance.rule);
}

static void parameters_that_are_not_given_have_their_fallback(void **state)
{
    (void)state;
    struct rbt_rule_instance instance;
    static const char *const texts[] = {"played", "played:", "./dir:x/played.so", "/a/b.so:"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_ok(rbt_rule_create(&rule, texts[i], &table, &instance));
        assert_true(played.lr == 0.25);
        assert_true(played.other == -3);
        rbt_rule_destroy(&instance);
    }
}

static void texts_that_cannot_be_read_are_refused(void **state)
{
    (void)state;
    struct rbt_rule_instance instance;
    static const struct {
        const char *text;
        const char *complaint;
    } cases[] = {
        {"played:lr=fast", "\"fast\" is not a number, as the rule's parameter lr must be"},
        {"played:lr=", "\"lr=\" is not a parameter of a rule, NAME=NUMBER"},
        {"played:=3", "\"=3\" is not a parameter of a rule"},
        {"played:lr=1,,other=2", "\"\" is not a parameter of a rule"},
        {"played:lr=1,lr=2", "the rule's parameter lr is given twice"},
        {"played:speed=1", "rule \"played\" has no parameter \"speed\""},
        {"played:lr=1 ", "\"1 \" is not a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(rbt_rule_create(&rule, cases[i].text, &table, &instance), RBT_E_INVALID,
                     cases[i].complaint);
        assert_int_equal(played.alive, 0);
    }
}

static void parameters_are_limited_in_number_and_size(void **state)
{
    (void)state;
    struct rbt_rule_instance instance;
    char text[RBT_TEXT_MAX] = "played:";
    for (size_t i = 0; i <= 32; i++) {
        (void)snprintf(text + 7 + 4 * i, 5, "a%02zu,", i);
    }
    assert_fails(rbt_rule_create(&rule, text, &table, &instance), RBT_E_INVALID,
                 "at most 32 parameters");
    memset(text, 'x', 200);
    memcpy(text, "played:", 7);
    text[200] = '\0';
    assert_fails(rbt_rule_create(&rule, text, &table, &instance), RBT_E_INVALID,
                 "is not a parameter");
    assert_null(instance.rule); /* its owner destroys it: nothing was created */
}

static void a_rule_that_fails_says_why(void **state)
{
    (void)state;
    struct rbt_rule_instance instance;
    played.is_failing = true;
    assert_fails(rbt_rule_create(&rule, "played:lr=7", &table, &instance), RBT_E_INVALID,
                 "rule \"played\": lr is 7, and that will not do");
    assert_null(instance.rule);
    rbt_rule_destroy(&instance);
}

static void a_rule_that_fails_without_a_word_gets_its_status_said(void **state)
{
    (void)state;
    struct rbt_rule_instance instance;
    played.is_failing = true; /* leaves words that are not to be repeated */
    assert_fails(rbt_rule_create(&rule, "played", &table, &instance), RBT_E_INVALID, "will not do");
    played.is_failing = false;
    played.status = RBT_E_NOMEM;
    assert_fails(rbt_rule_create(&rule, "played", &table, &instance), RBT_E_NOMEM,
                 "rule \"played\": out of memory");
    played.status = RBT_E_CLOSED; /* is not for drivers to see to */
    assert_fails(rbt_rule_create(&rule, "played", &table, &instance), RBT_E_INVALID,
                 "rule \"played\": the peer or the handle is closed");
    played.status = (rbt_status)77;
    assert_fails(rbt_rule_create(&rule, "played", &table, &instance), RBT_E_INVALID,
                 "rule \"played\": an unrecognised status");
    assert_null(instance.rule);
}

static void needs_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct rbt_rule_instance instance;
    played.needs = (struct rbt_rule_needs){.state_width = 4, .snapshot_width = 5};
    assert_fails(rbt_rule_create(&rule, "played", &table, &instance), RBT_E_INVALID,
                 "wants snapshots of 5 values but keeps only 4");
    played.needs = (struct rbt_rule_needs){.parts = RBT_PARTS_SHOWN};
    assert_fails(rbt_rule_create(&rule, "played", &table, &instance), RBT_E_INVALID,
                 "has versions but no fold()");
    played.needs = (struct rbt_rule_needs){.input = (rbt_rule_input)7};
    assert_fails(rbt_rule_create(&rule, "played", &table, &instance), RBT_E_INVALID,
                 "takes neither moves nor gradients: input is 7");
    played.needs = (struct rbt_rule_needs){.parts = (rbt_rule_parts)9};
    assert_fails(rbt_rule_create(&rule, "played", &table, &instance), RBT_E_INVALID,
                 "parts of an unknown kind, 9");
    played.needs = (struct rbt_rule_needs){.parts = RBT_PARTS_HIDDEN};
    struct rbt_rule mapping = rule;
    mapping.map = map;
    assert_fails(rbt_rule_create(&mapping, "played", &table, &instance), RBT_E_INVALID,
                 "no use for map()");
    assert_fails(rbt_rule_create(&rule, "played:aggregate=1", &table, &instance), RBT_E_INVALID,
                 "has versions of its own: it cannot aggregate");
    assert_int_equal(played.alive, 0);
}

static void every_rule_can_aggregate(void **state)
{
    (void)state;
    struct rbt_rule_instance instance;
    assert_ok(rbt_rule_create(&rule, "played:aggregate=1", &table, &instance));
    assert_int_equal(instance.needs.parts, RBT_PARTS_HIDDEN);
    rbt_rule_destroy(&instance);
    assert_ok(rbt_rule_create(&rule, "played:aggregate=0", &table, &instance));
    assert_int_equal(instance.needs.parts, RBT_PARTS_NONE);
    rbt_rule_destroy(&instance);
}

/* --- State ------------------------------------------------------------------------------------ */

static rbt_status save(const void *self, struct rbt_rule_sink *sink)
{
    assert_ptr_equal(self, &played);
    sink->put(sink, "ab", 2);
    sink->put(sink, "c", 1);
    return played.status;
}

static rbt_status load(void *self, const struct rbt_rule_source *source)
{
    assert_ptr_equal(self, &played);
    assert_int_equal(source->count, 3);
    assert_memory_equal(source->bytes, "abc", 3);
    played.other = source->version;
    return played.is_failing ? (source->fail)("no, not %s", "this") : played.status;
}

/* Saves with one rule and loads with another. */
static rbt_status carry(const struct rbt_rule *from, const struct rbt_rule *to)
{
    const struct rbt_rule_instance saved = {.rule = from, .self = &played};
    struct rbt_rule_instance loaded = {.rule = to, .self = &played};
    struct rbt_sink sink = {0};
    rbt_rule_save(&saved, &sink);
    struct rbt_source source = {
        .at = sink.bytes, .end = sink.bytes + sink.count, .status = sink.status};
    if (sink.status == RBT_OK) {
        rbt_rule_load(&loaded, &source);
        assert_int_equal(rbt_source_left(&source), 0);
    }
    rbt_sink_deinit(&sink);
    return source.status;
}

static void what_a_rule_has_learnt_is_its_own(void **state)
{
    (void)state;
    const struct rbt_rule plain = {.name = "plain", .apply = apply};
    const struct rbt_rule old = {
        .name = "own", .apply = apply, .save = save, .load = load, .state_version = 4};
    struct rbt_rule new = old;
    new.state_version = 5;
    assert_ok(carry(&plain, &plain));
    assert_ok(carry(&old, &new));
    assert_true(played.other == 4);
    assert_fails(carry(&new, &old), RBT_E_DATA, "a newer version of a rule");
    assert_fails(carry(&old, &plain), RBT_E_DATA, "of another rule");
    assert_fails(carry(&plain, &old), RBT_E_DATA, "of another rule");
    played.is_failing = true;
    assert_fails(carry(&old, &old), RBT_E_DATA, "the state of rule \"own\": no, not this");
    played.is_failing = false;
    played.status = RBT_E_NOMEM;
    assert_fails(carry(&old, &old), RBT_E_NOMEM, "the state of rule \"own\": out of memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(parameters_come_from_the_text, setup_test),
        cmocka_unit_test_setup(parameters_that_are_not_given_have_their_fallback, setup_test),
        cmocka_unit_test_setup(texts_that_cannot_be_read_are_refused, setup_test),
        cmocka_unit_test_setup(parameters_are_limited_in_number_and_size, setup_test),
        cmocka_unit_test_setup(a_rule_that_fails_says_why, setup_test),
        cmocka_unit_test_setup(a_rule_that_fails_without_a_word_gets_its_status_said, setup_test),
        cmocka_unit_test_setup(needs_that_cannot_be_are_refused, setup_test),
        cmocka_unit_test_setup(every_rule_can_aggregate, setup_test),
        cmocka_unit_test_setup(what_a_rule_has_learnt_is_its_own, setup_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
