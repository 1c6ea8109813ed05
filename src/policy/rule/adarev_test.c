/* policy/rule/adarev_test.c - AdaRevision: from the history of a coordinate, bit by bit; by hand;
 * and against AdaGrad. With trust: from the history of a row, by hand, and what lr does not matter
 * for.
 */
#include "policy/rule/rule_game.h"

static float sum_of(const struct touch *touches, size_t count)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += touches[i].g;
    }
    return sum;
}

/* As the papers write it: with z', the largest z so far, and both rates from it. */
static double from_history(const struct touch *touches, size_t count, float first, double *scale)
{
    (void)scale;
    float z = 0;
    float largest = 0;
    for (size_t i = 0; i < count; i++) {
        const float g = touches[i].g;
        const float b = sum_of(touches, i) - sum_of(touches, touches[i].seen);
        const float eta_old = 0.25F / (1e-12F + sqrtf(largest));
        z += g * g + 2 * g * b;
        largest = fmaxf(largest, z);
        const float eta = 0.25F / (1e-12F + sqrtf(largest));
        first += -eta * g + (eta_old - eta) * b;
    }
    return (double)first;
}

static void adarev_follows_from_the_history(void **state)
{
    (void)state;
    const struct rig_game game = {
        .text = "adarev:lr=0.25", .games = 3000, .steps = 60, .reference = from_history};
    rig_play(&game);
}

/* Everybody reads before every push: nothing is late. */
static void compare_without_delay(const char *const rules[2])
{
    struct rig *rigs[2];
    for (uint32_t game = 0; game < 500; game++) {
        for (uint32_t r = 0; r < 2; r++) {
            rigs[r] = test_calloc(1, sizeof *rigs[r]);
            rig_open(rigs[r], rules[r], game);
            for (uint32_t t = 0; t < LOG_MAX; t++) {
                float deltas[KEYS][WIDTH];
                for (uint32_t i = 0; i < KEYS * WIDTH; i++) {
                    deltas[i / WIDTH][i % WIDTH] = rig_gradient(rigs[r]);
                }
                rig_read(rigs[r], t % WORKERS);
                rig_push(rigs[r], t % WORKERS, deltas);
            }
        }
        assert_memory_equal(rigs[0]->values, rigs[1]->values, sizeof rigs[0]->values);
        for (uint32_t r = 0; r < 2; r++) {
            rig_close(rigs[r]);
            test_free(rigs[r]);
        }
    }
}

static void adarev_without_delay_is_adagrad_bit_by_bit(void **state)
{
    (void)state;
    compare_without_delay((const char *const[]){"adarev:lr=0.3", "adagrad:lr=0.3"});
    compare_without_delay((const char *const[]){"adarev:trust=1", "adagrad:trust=1"});
}

/* Two workers read at the start. With lr = 1, in the order of arrival:
 *
 *     A: g = 3    b = 0    z = 9           z' = 9    eta 1/3               w = -1
 *     B: g = 2    b = 3    z = 9+4+12 = 25 z' = 25   eta 1/5, was 1/3      w = -1 - 2/5 + 2/15 3
 *                                                                            = -1
 *     A: g = -4   b = 2+3  z = 25+16-40=1  z' = 25   eta 1/5               w = -1 + 4/5 = -1/5
 *        (from its first read: gbar was 0, and is 5)
 *     B reads. gbar = 1
 *     B: g = 1    b = 0    z = 2           z' = 25   eta 1/5               w = -2/5
 *     A: g = 6    b = 2    z = 2+36+24=62  z' = 62   eta 1/sqrt(62)        w = -2/5 - 6/sqrt(62)
 *        (gbar was 0, and is 2)                                              + (1/5 - 1/sqrt(62)) 2
 */
static void adarev_agrees_with_five_steps_by_hand(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adarev:lr=1", 1);
    rig->values[0][0] = 0;
    const uint32_t workers[] = {0, 1, 0, 1, 0};
    const float gradients[] = {3, 2, -4, 1, 6};
    const double root = sqrt(62.0);
    const double expected[] = {-1, -1, -0.2, -0.4, -0.4 - 6 / root + 2 * (0.2 - 1 / root)};
    for (uint32_t t = 0; t < 5; t++) {
        float deltas[KEYS][WIDTH] = {{0}};
        deltas[0][0] = gradients[t];
        if (t == 3) {
            rig_read(rig, 1);
        }
        rig_push(rig, workers[t], deltas);
        assert_near((double)rig->values[0][0], expected[t], 1, 2);
    }
    rig_close(rig);
    test_free(rig);
}

/* --- With trust ------------------------------------------------------------------------------- */

/* A row's history, for a reference that keeps nothing but lists and sums them anew. */
struct past {
    size_t count;
    double g[LOG_MAX][WIDTH]; /* as limited */
    uint64_t t[LOG_MAX];      /* messages, with this one */
    double z[WIDTH];
    double largest[WIDTH];
    double w[WIDTH];
    double d;
    uint64_t changed; /* messages at the last change of d, with that one */
    double seen;      /* the largest sum of z so far */
    double scale;
};

/* The sum of what a read knew of that had seen so many messages. */
static double past_sum(const struct past *past, uint32_t i, uint64_t messages)
{
    double sum = 0;
    for (size_t j = 0; j < past->count && past->t[j] <= messages; j++) {
        sum += past->g[j][i];
    }
    return sum;
}

static double square(double x)
{
    return x * x;
}

/* g, made no longer than all before it together. */
static void past_limit(const struct past *past, const float *delta, double *g)
{
    double size = 0;
    for (uint32_t i = 0; i < WIDTH; i++) {
        size += square((double)delta[i]);
    }
    for (uint32_t i = 0; i < WIDTH; i++) {
        g[i] = (double)delta[i] * (past->count > 0 ? fmin(1, sqrt(past->seen / size)) : 1);
    }
}

static void past_change_step(struct past *past, double lr, double trust, uint64_t t)
{
    double size = 0;
    for (uint32_t i = 0; i < WIDTH; i++) {
        size += square(past->w[i]) / WIDTH;
    }
    const double bound = trust * sqrt(size);
    past->d = past->count > 0 ? fmin(past->d, fmax(bound, past->d / 2)) : bound > 0 ? bound : lr;
    past->changed = t;
}

static void past_apply(struct past *past, const struct rig_entry *entry, uint32_t key, double trust)
{
    const uint64_t t = entry->message.count + 1;
    const uint64_t read = entry->message.count - entry->message.delay;
    double *g = past->g[past->count];
    double old[WIDTH];
    double late[WIDTH];
    double sum = 0;
    double total = 0;
    if (past->count == 0 || read >= past->changed) {
        past_change_step(past, 0.1, trust, t);
    }
    past_limit(past, entry->deltas[key], g);
    for (uint32_t i = 0; i < WIDTH; i++) {
        late[i] = past_sum(past, i, t) - past_sum(past, i, read);
        old[i] = past->scale / (1e-12 + sqrt(past->largest[i]));
        past->z[i] += g[i] * (g[i] + 2 * late[i]);
        past->largest[i] = fmax(past->largest[i], past->z[i]);
        total += past->z[i];
        sum += square(past_sum(past, i, t) + g[i]);
    }
    past->seen = fmax(past->seen, total);
    past->scale = past->d * pow(fmax(1, sum / past->seen), 2.5);
    for (uint32_t i = 0; i < WIDTH; i++) {
        const double eta = past->scale / (1e-12 + sqrt(past->largest[i]));
        past->w[i] += late[i] * (old[i] - eta) - eta * g[i];
    }
    past->t[past->count++] = t;
}

static void past_compare(const struct rig *rig, uint32_t key, struct past *past)
{
    double scale = 1;
    *past = (struct past){0};
    for (uint32_t i = 0; i < WIDTH; i++) {
        past->w[i] = (double)rig->first[key][i];
    }
    for (uint64_t t = 0; t < rig->count; t++) {
        if (rig->log[t].is_touched[key]) {
            past_apply(past, &rig->log[t], key, 1.5);
        }
        for (uint32_t i = 0; i < WIDTH; i++) {
            scale = fmax(scale, fabs(past->w[i]));
        }
    }
    for (uint32_t i = 0; i < WIDTH; i++) {
        assert_near((double)rig->values[key][i], past->w[i], scale, 1000);
    }
}

static void trust_follows_from_the_history_of_a_row(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    struct past *past = test_calloc(1, sizeof *past);
    for (uint32_t game = 0; game < 2000; game++) {
        rig_open(rig, "adarev:trust=1.5", game);
        memset(rig->values[0], 0, sizeof rig->values[0]); /* one row that begins at zero */
        memset(rig->first[0], 0, sizeof rig->first[0]);
        for (uint32_t step = 0; step < 60; step++) {
            rig_step(rig);
        }
        for (uint32_t k = 0; k < KEYS; k++) {
            past_compare(rig, k, past);
        }
        rig_close(rig);
    }
    test_free(past);
    test_free(rig);
}

/* A row of zeros, of which only one coordinate is ever touched. With lr = 1 and trust = 1, worker 0
 * reads before each of its three updates:
 *
 *     g = 3     d = 1                                      z' = 9    q = 1           w = -1
 *     g = 3     d = 1/2, more than 1/sqrt(11), the size    z' = 18   q = 36/18 = 2   scale 2^2.5/2
 *     g = -30   counts as -sqrt(18)                        z' = 36   q < 1           scale 1/2
 *
 * Worker 1 has read before all that, so that d does not change, whatever the size:
 *
 *     g = 3     b = 6 - sqrt(18)   z' = 36 + 9 + 6 b       q < 1     eta was 1/12
 */
static void trust_agrees_with_four_steps_by_hand(void **state)
{
    (void)state;
    struct rig *rig = test_calloc(1, sizeof *rig);
    rig_open(rig, "adarev:lr=1,trust=1", 1);
    memset(rig->values, 0, sizeof rig->values);
    const float gradients[] = {3, 3, -30, 3};
    const double root = sqrt(18.0);
    const double b = 6 - root;
    const double eta = 0.5 / sqrt(45 + 6 * b);
    double w[] = {-1, -1 - sqrt(8.0) * 3 / root, 0, 0};
    w[2] = w[1] + root / 12;
    w[3] = w[2] - 3 * eta + (1.0 / 12 - eta) * b;
    for (uint32_t t = 0; t < 4; t++) {
        float deltas[KEYS][WIDTH] = {{0}};
        deltas[0][0] = gradients[t];
        if (t < 3) {
            rig_read(rig, 0);
        }
        rig_push(rig, t < 3 ? 0 : 1, deltas);
        assert_near((double)rig->values[0][0], w[t], 1, 8);
    }
    rig_close(rig);
    test_free(rig);
}

/* Values after the same games, of rows that do not begin at zero. */
static void play_with(const char *text, struct rig *rig, uint32_t game)
{
    rig_open(rig, text, game);
    for (uint32_t step = 0; step < 60; step++) {
        rig_step(rig);
    }
    rig_close(rig);
}

static void trust_needs_lr_for_rows_of_zeros_alone(void **state)
{
    (void)state;
    struct rig *rigs[2] = {test_calloc(1, sizeof *rigs[0]), test_calloc(1, sizeof *rigs[1])};
    for (uint32_t game = 0; game < 500; game++) {
        play_with("adarev:trust=1,lr=0.01", rigs[0], game);
        play_with("adarev:trust=1,lr=100", rigs[1], game);
        assert_memory_equal(rigs[0]->values, rigs[1]->values, sizeof rigs[0]->values);
    }
    test_free(rigs[1]);
    test_free(rigs[0]);
}

/* Two halves of a gradient, from the same read, do what the whole does: they do not agree with one
 * another, and the second one does not find the step anew. */
static void trust_takes_gradients_of_one_read_for_one(void **state)
{
    (void)state;
    struct rig *rigs[2] = {test_calloc(1, sizeof *rigs[0]), test_calloc(1, sizeof *rigs[1])};
    for (uint32_t game = 0; game < 200; game++) {
        rig_open(rigs[0], "adarev:trust=1", game);
        rig_open(rigs[1], "adarev:trust=1", game);
        for (uint32_t t = 0; t < 10; t++) {
            float whole[KEYS][WIDTH];
            float half[KEYS][WIDTH];
            for (uint32_t i = 0; i < KEYS * WIDTH; i++) {
                const float sign = rbt_rng_below(&rigs[0]->rng, 2) == 0 ? -1 : 1;
                half[i / WIDTH][i % WIDTH] = sign / (float)(t + 1); /* never limited */
                whole[i / WIDTH][i % WIDTH] = 2 * half[i / WIDTH][i % WIDTH];
            }
            rig_read(rigs[0], 0);
            rig_read(rigs[1], 0);
            rig_read(rigs[1], 1);
            rig_push(rigs[0], 0, whole);
            rig_push(rigs[1], 0, half);
            rig_push(rigs[1], 1, half);
            for (uint32_t i = 0; i < KEYS * WIDTH; i++) {
                const double w = (double)rigs[0]->values[i / WIDTH][i % WIDTH];
                assert_near((double)rigs[1]->values[i / WIDTH][i % WIDTH], w, 10, 200);
            }
        }
        rig_close(rigs[1]);
        rig_close(rigs[0]);
    }
    test_free(rigs[1]);
    test_free(rigs[0]);
}

static void adarev_has_copies_of_the_sums_alone(void **state)
{
    (void)state;
    struct rbt_rule_needs needs;
    assert_ok(rbt_rule_check("adarev:max=100", 8, &needs));
    assert_int_equal(needs.input, RBT_RULE_GRADIENTS);
    assert_int_equal(needs.state_width, 24);
    assert_int_equal(needs.snapshot_width, 8);
    assert_int_equal(needs.snapshot_max, 100);
    assert_ok(rbt_rule_check("adarev:trust", 7, &needs));
    assert_int_equal(needs.state_width, 3 * 7 + 5);
    assert_ok(rbt_rule_check("adarev:trust", 8, &needs));
    assert_int_equal(needs.state_width, 3 * 8 + 8); /* rows begin where vectors do */
    assert_int_equal(needs.snapshot_width, 8);
    assert_fails(rbt_rule_check("adarev:max=1.5", 8, NULL), RBT_E_INVALID,
                 "max must be a whole number, not 1.5");
    assert_fails(rbt_rule_check("adarev:max=-1", 8, NULL), RBT_E_INVALID, "max must be at least 0");
    assert_fails(rbt_rule_check("adarev:lr=0", 8, NULL), RBT_E_INVALID, "lr must be above 0");
    assert_fails(rbt_rule_check("adarev:trust=-1", 8, NULL), RBT_E_INVALID,
                 "trust must be at least 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adarev_follows_from_the_history),
        cmocka_unit_test(adarev_without_delay_is_adagrad_bit_by_bit),
        cmocka_unit_test(adarev_agrees_with_five_steps_by_hand),
        cmocka_unit_test(trust_follows_from_the_history_of_a_row),
        cmocka_unit_test(trust_agrees_with_four_steps_by_hand),
        cmocka_unit_test(trust_needs_lr_for_rows_of_zeros_alone),
        cmocka_unit_test(trust_takes_gradients_of_one_read_for_one),
        cmocka_unit_test(adarev_has_copies_of_the_sums_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
