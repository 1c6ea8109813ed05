/* policy/rule/prox_test.c - Proximal steps against a search for the minimum that knows no formula.
 */
#include "policy/rule/rule_game.h"

struct objective {
    double x;
    double u;
    double lr;
    double l1;
    double l2;
};

static double objective_at(const struct objective *o, double y)
{
    return o->l1 * fabs(y) + o->l2 / 2 * y * y + o->u / (2 * o->lr) * (o->x - y) * (o->x - y);
}

/* The minimum of a convex function by thirds; ends when it no longer sees a difference. */
static double search(const struct objective *o)
{
    double low = -fabs(o->x);
    double high = fabs(o->x);
    for (uint32_t i = 0; i < 200; i++) {
        const double a = low + (high - low) / 3;
        const double b = high - (high - low) / 3;
        if (objective_at(o, a) < objective_at(o, b)) {
            high = b;
        } else {
            low = a;
        }
    }
    return (low + high) / 2;
}

static double by_search(const struct touch *touches, size_t count, float first, double *scale)
{
    double w = (double)first;
    for (size_t i = 0; i < count; i++) {
        const struct objective o = {
            .x = w - 0.25 * (double)touches[i].g, .u = 1, .lr = 0.25, .l1 = 0.5, .l2 = 0.75};
        w = search(&o);
        *scale = fmax(*scale, fmax(fabs(w), fabs(o.x)));
    }
    return w;
}

static double by_search_scaled(const struct touch *touches, size_t count, float first,
                               double *scale)
{
    double w = (double)first;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        const double g = (double)touches[i].g;
        squares += g * g;
        const double u = 2 + sqrt(squares);
        const struct objective o = {.x = w - 0.5 / u * g, .u = u, .lr = 0.5, .l1 = 0.5, .l2 = 0.75};
        w = search(&o);
        *scale = fmax(*scale, fmax(fabs(w), fabs(o.x)));
    }
    return w;
}

/* A search by comparison sees a minimum no better than to the root of a double's precision: 1e-8
 * relative to the scale, a tenth of an ulp of a float. The rest is for up to 40 steps in float. */
static void prox_is_the_minimum(void **state)
{
    (void)state;
    const struct rig_game game = {.text = "prox:lr=0.25,l1=0.5,l2=0.75",
                                  .games = 200,
                                  .steps = 60,
                                  .ulps = 16,
                                  .reference = by_search};
    rig_play(&game);
}

static void prox_is_the_minimum_with_adagrads_scale(void **state)
{
    (void)state;
    const struct rig_game game = {.text = "prox:lr=0.5,l1=0.5,l2=0.75,scale=1,beta=2",
                                  .games = 200,
                                  .steps = 60,
                                  .ulps = 16,
                                  .reference = by_search_scaled};
    rig_play(&game);
}

/* l1 alone and no gradient in sight: the soft threshold, with exact zeros that have no sign. */
static void prox_of_l1_is_the_soft_threshold(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "prox:lr=0.5,l1=1", 1);
    const float w[WIDTH] = {2, -2, 0.5F, -0.5F, 0.25F, 0, 0};
    const float expected[WIDTH] = {1.5F, -1.5F, 0, 0, 0, 0, -0.5F};
    float deltas[KEYS][WIDTH] = {{0, 0, 0, 0, 0, 0, 2}};
    memcpy(rig->values[0], w, sizeof w);
    rig_push(rig, 0, deltas);
    assert_memory_equal(rig->values[0], expected, sizeof expected);
    rig_close(rig);
    test_free(rig);
}

static rbt_status apply_pair(const char *text, float *values, const float *deltas)
{
    const struct rbt_rule *rule = NULL;
    const struct rbt_rule_table table = {.name = "t", .width = 6, .worker_count = 1};
    struct rbt_rule_instance instance;
    const struct rbt_rule_message message = {0};
    const struct rbt_rule_row row = {.key = 5, .width = 6, .values = values, .delta = deltas};
    assert_ok(rbt_rule_find(text, &rule));
    assert_ok(rbt_rule_create(rule, text, &table, &instance));
    const rbt_status st = rule->apply(instance.self, &message, &row);
    rbt_rule_destroy(&instance);
    return st;
}

static void prox_takes_the_scale_from_workers(void **state)
{
    (void)state;
    float values[6] = {1, 1, 1, 7, 7, 7};
    const float deltas[6] = {4, 4, 0, 2, 8, 0}; /* the third is not in this update */
    const float expected[6] = {1 - 2 - -0.5F, 1 - 0.5F - 0.125F, 1, 4, 4, 7};
    assert_ok(apply_pair("prox:lr=1,l1=1,pairs=1", values, deltas));
    assert_memory_equal(values, expected, sizeof expected);
}

static void prox_refuses_scales_that_are_not_positive(void **state)
{
    (void)state;
    float values[6] = {0};
    const float negative[6] = {1, 1, 1, 1, -2, 1};
    const float missing[6] = {1, 1, 1, 1, 1, 0};
    assert_fails(apply_pair("prox:pairs=1", values, negative), RBT_E_INVALID,
                 "a worker sent the scale -2 for value 1 of row 5; it must be positive");
    assert_fails(apply_pair("prox:pairs=1", values, missing), RBT_E_INVALID,
                 "the scale 0 for value 2");
}

static void prox_refuses_what_cannot_work(void **state)
{
    (void)state;
    assert_fails(rbt_rule_check("prox:pairs=1", 7, NULL), RBT_E_INVALID, "an even width, not 7");
    assert_fails(rbt_rule_check("prox:pairs,scale", 8, NULL), RBT_E_INVALID, "only one of");
    assert_fails(rbt_rule_check("prox:lr=0", 8, NULL), RBT_E_INVALID, "lr must be above 0");
    assert_fails(rbt_rule_check("prox:l1=-1", 8, NULL), RBT_E_INVALID, "l1 must be at least 0");
    assert_fails(rbt_rule_check("prox:scale=0.5", 8, NULL), RBT_E_INVALID, "a whole number");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prox_is_the_minimum),
        cmocka_unit_test(prox_is_the_minimum_with_adagrads_scale),
        cmocka_unit_test(prox_of_l1_is_the_soft_threshold),
        cmocka_unit_test(prox_takes_the_scale_from_workers),
        cmocka_unit_test(prox_refuses_scales_that_are_not_positive),
        cmocka_unit_test(prox_refuses_what_cannot_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
