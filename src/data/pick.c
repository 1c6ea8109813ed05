/* data/pick.c - popular numbers without a table of their probabilities.
 *
 * A number is drawn by inverting the integral of x^-power over 1 .. range + 1, and drawn again if
 * it was drawn before. When that has happened too often (many numbers of a small range, or a steep
 * power), the next free number from a uniformly drawn place on is taken: draws end, and the tail is
 * a little too popular.
 *
 * Threads: none. Memory: 48 bytes and more per number drawn at once. */
#include "data/pick.h"

#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"
#include "data/sort.h"

enum {
    TRIES_MAX = 32,  /* per number, then a free place is searched for */
    INSERT_MAX = 96, /* up to here sorting by insertion is faster */
};

bool rbt_pick_init(struct rbt_pick *pick, uint64_t range, double power, size_t count_max)
{
    RBT_ASSERT(range > 0 && range <= (uint64_t)1 << 32);
    RBT_ASSERT(count_max <= range);
    size_t slot_count = 16;
    while (slot_count < count_max * 4) { /* at most a quarter full */
        slot_count *= 2;
    }
    const double limit = (double)range + 1;
    const bool is_harmonic = fabs(power - 1) < 1e-9;
    *pick = (struct rbt_pick){.range = range,
                              .power = power,
                              .is_harmonic = is_harmonic,
                              .span = is_harmonic ? log(limit) : pow(limit, 1 - power) - 1,
                              .chosen = rbt_calloc(count_max, sizeof *pick->chosen),
                              .scratch = rbt_calloc(count_max, sizeof *pick->scratch),
                              .slots = rbt_calloc(slot_count, sizeof *pick->slots),
                              .slot_count = slot_count};
    return pick->chosen != NULL && pick->scratch != NULL && pick->slots != NULL;
}

void rbt_pick_deinit(struct rbt_pick *pick)
{
    rbt_free(pick->chosen);
    rbt_free(pick->scratch);
    rbt_free(pick->slots);
    *pick = (struct rbt_pick){0};
}

/* Whether the number is new in this round; it then no longer is. */
static bool enter(struct rbt_pick *pick, uint64_t number)
{
    const uint64_t entry = pick->round << 32 | number;
    const size_t mask = pick->slot_count - 1;
    size_t i = (size_t)rbt_hash_key(number) & mask;
    while (pick->slots[i] >> 32 == pick->round) { /* ends: three quarters are of other rounds */
        if (pick->slots[i] == entry) {
            return false;
        }
        i = (i + 1) & mask;
    }
    pick->slots[i] = entry;
    return true;
}

/* A number with density proportional to x^-power on x = 1 .. range + 1, minus 1. */
static uint64_t draw_one(const struct rbt_pick *pick, struct rbt_rng *rng)
{
    if (pick->power == 0) {
        return rbt_rng_below(rng, pick->range);
    }
    const double u = rbt_rng_uniform(rng);
    const double x =
        pick->is_harmonic ? exp(u * pick->span) : pow(1 + u * pick->span, 1 / (1 - pick->power));
    const uint64_t number = x >= 1 ? (uint64_t)x - 1 : 0; /* rounding may leave the interval */
    return number < pick->range ? number : pick->range - 1;
}

static uint64_t draw_new(struct rbt_pick *pick, struct rbt_rng *rng)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        const uint64_t number = draw_one(pick, rng);
        if (enter(pick, number)) {
            return number;
        }
    }
    uint64_t number = rbt_rng_below(rng, pick->range);
    while (!enter(pick, number)) { /* ends: fewer than `range` are taken */
        number = number + 1 < pick->range ? number + 1 : 0;
    }
    return number;
}

static void sort(struct rbt_pick *pick, size_t count)
{
    if (count > INSERT_MAX) {
        rbt_sort_keys(pick->chosen, pick->scratch, count);
        return;
    }
    uint64_t *chosen = pick->chosen;
    for (size_t i = 1; i < count; i++) {
        const uint64_t number = chosen[i];
        size_t k = i;
        for (; k > 0 && chosen[k - 1] > number; k--) {
            chosen[k] = chosen[k - 1];
        }
        chosen[k] = number;
    }
}

const uint64_t *rbt_pick_draw(struct rbt_pick *pick, struct rbt_rng *rng, size_t count)
{
    pick->round++;
    RBT_ASSERT(pick->round <= UINT32_MAX);
    const bool has_choice = count < pick->range;
    for (size_t i = 0; i < count; i++) {
        pick->chosen[i] = has_choice ? draw_new(pick, rng) : i;
    }
    sort(pick, count);
    return pick->chosen;
}
