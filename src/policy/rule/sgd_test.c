/* policy/rule/sgd_test.c - SGD: schedules at chosen times, and the averaged iterate against the
 * mean of all iterates. */
#include "policy/rule/rule_game.h"

/* The step that a message makes: a gradient of -1 moves a weight of 0 there. */
static float step_at(const char *text, uint64_t count, int64_t clock)
{
    const struct rbt_rule *rule = NULL;
    const struct rbt_rule_table table = {.name = "t", .width = 1, .worker_count = 1};
    struct rbt_rule_instance instance;
    const struct rbt_rule_message message = {.count = count, .clock = clock};
    const float g = -1;
    float w = 0;
    float s[4] = {0};
    const struct rbt_rule_row row = {.width = 1, .values = &w, .state = s, .delta = &g};
    assert_ok(rbt_rule_find(text, &rule));
    assert_ok(rbt_rule_create(rule, text, &table, &instance));
    rule->begin(instance.self, &message);
    assert_ok(rule->apply(instance.self, &message, &row));
    rbt_rule_destroy(&instance);
    return w;
}

/* Messages and clocks differ, so that it shows which of the two a schedule goes by. */
static void sgd_follows_its_schedules(void **state)
{
    (void)state;
    static const uint64_t times[4] = {0, 1, 10, 1000};
    static const struct {
        const char *text;
        bool is_by_clock;
        double steps[4];
    } cases[] = {
        {"sgd:lr=0.5", true, {0.5, 0.5, 0.5, 0.5}},
        {"sgd:lr=0.5,decay=0.99", true, {0.5, 0.495, 0.4521910375044022, 2.158562370532893e-05}},
        {"sgd:lr=0.5,a=100",
         false,
         {0.5, 0.4975185951049946, 0.4767312946227962, 0.15075567228888181}},
        {"sgd:lr=0.5,sqrt=1",
         false,
         {0.5, 0.35355339059327373, 0.15075567228888181, 0.01580348853102535}},
        {"sgd:lr=0.5,alpha=0.2",
         true,
         {0.5, 0.45643546458763845, 0.2886751345948129, 0.035267280792929914}},
        {"sgd:lr=0.5,drop=10,every=5", true, {0.5, 0.5, 0.005, 0}},
        {"sgd:lr=0.5,every=300", true, {0.5, 0.5, 0.5, 0.0005}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            const float step = cases[i].is_by_clock ? step_at(cases[i].text, 77, (int64_t)times[k])
                                                    : step_at(cases[i].text, times[k], 77);
            assert_near((double)step, cases[i].steps[k], cases[i].steps[k] + 1e-30, 1);
        }
    }
}

static double constant(const struct touch *touches, size_t count, float first, double *scale)
{
    (void)scale;
    for (size_t i = 0; i < count; i++) {
        first -= 0.125F * touches[i].g;
    }
    return (double)first;
}

static void sgd_subtracts_gradients(void **state)
{
    (void)state;
    const struct rig_game game = {
        .text = "sgd:lr=0.125", .games = 500, .steps = 60, .reference = constant};
    rig_play(&game);
}

/* The values that workers compute with are the iterates, not their average. */
static void sgd_with_average_works_with_the_iterates(void **state)
{
    (void)state;
    const struct rig_game game = {
        .text = "sgd:lr=0.125,average=1", .games = 500, .steps = 60, .reference = constant};
    rig_play(&game);
}

/* (1/T) sum over all T messages of what the value was after it, also for rows that most messages do
 * not touch. About 40 roundings. */
static void sgd_result_is_the_mean_of_all_iterates(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    for (uint32_t game = 0; game < 1000; game++) {
        double sums[KEYS] = {0};
        double scales[KEYS] = {0};
        uint64_t count = 0;
        rig_open(rig, "sgd:lr=0.125,average=1", game);
        for (uint32_t step = 0; step < 80; step++) {
            rig_step(rig);
            for (uint32_t k = 0; k < KEYS && rig->count > count; k++) {
                sums[k] += (double)rig->values[k][3];
                scales[k] = fmax(scales[k], fabs((double)rig->values[k][3]));
            }
            count = rig->count;
            for (uint32_t k = 0; k < KEYS; k++) {
                float result[WIDTH];
                rig_get(rig, k, RBT_READ_RESULT, result);
                const double mean = count == 0 ? (double)rig->first[k][3] : sums[k] / (double)count;
                assert_near((double)result[3], mean, fmax(scales[k], 1), 24);
            }
        }
        rig_close(rig);
    }
    test_free(rig);
}

static void sgd_takes_one_schedule(void **state)
{
    (void)state;
    struct rbt_rule_needs needs;
    assert_fails(rbt_rule_check("sgd:decay=0.9,sqrt=1", 1, NULL), RBT_E_INVALID, "only one of");
    assert_fails(rbt_rule_check("sgd:lr=0", 1, NULL), RBT_E_INVALID, "lr must be above 0");
    assert_fails(rbt_rule_check("sgd:decay=1.1", 1, NULL), RBT_E_INVALID, "decay must be at most");
    assert_fails(rbt_rule_check("sgd:drop=1", 1, NULL), RBT_E_INVALID, "drop must be above 1");
    assert_fails(rbt_rule_check("sgd:every=2.5", 1, NULL), RBT_E_INVALID, "every must be a whole");
    assert_ok(rbt_rule_check("sgd", 8, &needs));
    assert_int_equal(needs.input, RBT_RULE_GRADIENTS);
    assert_int_equal(needs.state_width, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_follows_its_schedules),
        cmocka_unit_test(sgd_subtracts_gradients),
        cmocka_unit_test(sgd_with_average_works_with_the_iterates),
        cmocka_unit_test(sgd_result_is_the_mean_of_all_iterates),
        cmocka_unit_test(sgd_takes_one_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
