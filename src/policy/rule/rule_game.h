/* policy/rule/rule_game.h - for tests: random games of workers that read and push, and the history
 * of each coordinate for references that start from it. Threads: the test's. */
#ifndef RUBATO_POLICY_RULE_RULE_GAME_H
#define RUBATO_POLICY_RULE_RULE_GAME_H

#include "policy/rule/rule_rig.h"

#include <float.h>
#include <math.h>

/* What the rule needs to know of one coordinate's history. */
struct touch {
    float g;
    uint64_t t; /* messages, with this one */
    uint64_t delay;
    int64_t clock;
    size_t seen; /* earlier touches that the read knew of */
};

/* A gradient: often zero, sometimes large, sometimes the sum of two that were merged. */
static inline float rig_gradient(struct rig *rig)
{
    const uint64_t kind = rbt_rng_below(&rig->rng, 8);
    const float g = (float)rbt_rng_normal(&rig->rng);
    const float more = (float)rbt_rng_normal(&rig->rng);
    return kind < 2 ? 0 : kind == 2 ? 100 * g : kind == 3 ? g + more : g;
}

/* One random thing: a worker reads, or pushes what touches some rows. */
static inline void rig_step(struct rig *rig)
{
    const uint32_t worker = (uint32_t)rbt_rng_below(&rig->rng, WORKERS);
    float deltas[KEYS][WIDTH] = {{0}};
    if (rbt_rng_below(&rig->rng, 2) == 0) {
        rig_read(rig, worker);
        return;
    }
    for (uint32_t k = 0; k < KEYS; k++) {
        const bool is_touched = rbt_rng_below(&rig->rng, 3) != 0;
        for (uint32_t i = 0; is_touched && i < WIDTH; i++) {
            deltas[k][i] = rig_gradient(rig);
        }
    }
    rig_push(rig, worker, deltas);
}

/* The history of one coordinate. `touches` has room for LOG_MAX. */
static inline size_t rig_touches(const struct rig *rig, uint32_t key, uint32_t i,
                                 struct touch *touches)
{
    size_t count = 0;
    for (uint64_t t = 0; t < rig->count; t++) {
        const struct rig_entry *entry = &rig->log[t];
        if (entry->is_touched[key]) {
            touches[count] = (struct touch){.g = entry->deltas[key][i],
                                            .t = t + 1,
                                            .delay = entry->message.delay,
                                            .clock = entry->message.clock};
            for (size_t j = 0; j < count; j++) {
                touches[count].seen += touches[j].t <= t - entry->message.delay ? 1 : 0;
            }
            count++;
        }
    }
    return count;
}

/* Within so many units in the last place of a float as large as `scale`. */
static inline void assert_near(double actual, double expected, double scale, double ulps)
{
    if (!(fabs(actual - expected) <= ulps * FLT_EPSILON * scale)) {
        fail_msg("%.9g is not %.9g: %.2f ulps of %.3g, more than %g", actual, expected,
                 fabs(actual - expected) / (FLT_EPSILON * scale), scale, ulps);
    }
}

/* Plays `games` games of `steps` steps with the rule, and compares every coordinate of what a
 * reader gets with what the reference makes of its history. `scale` is how large the values were on
 * the way; 0 ulps asks for the same bits. */
struct rig_game {
    const char *text;
    uint32_t games;
    uint32_t steps;
    double ulps;
    double (*reference)(const struct touch *touches, size_t count, float first, double *scale);
};

static inline void rig_compare(struct rig *rig, const struct rig_game *game, uint32_t key)
{
    struct touch touches[LOG_MAX];
    float values[WIDTH];
    rig_get(rig, key, RBT_READ_WORK, values);
    for (uint32_t i = 0; i < WIDTH; i++) {
        const size_t count = rig_touches(rig, key, i, touches);
        double scale = fabs((double)rig->first[key][i]);
        const double expected = game->reference(touches, count, rig->first[key][i], &scale);
        assert_near((double)values[i], expected, scale, game->ulps);
    }
}

static inline void rig_play(const struct rig_game *game)
{
    struct rig *rig = test_calloc(1, sizeof *rig);
    for (uint32_t g = 0; g < game->games; g++) {
        rig_open(rig, game->text, g);
        for (uint32_t step = 0; step < game->steps; step++) {
            rig_step(rig);
        }
        for (uint32_t k = 0; k < KEYS; k++) {
            rig_compare(rig, game, k);
        }
        rig_close(rig);
    }
    test_free(rig);
}

#endif
