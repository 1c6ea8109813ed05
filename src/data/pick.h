/* data/pick.h - draws different numbers of which the small ones are more popular.
 *
 * Threads: none. */
#ifndef RUBATO_DATA_PICK_H
#define RUBATO_DATA_PICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct rbt_pick {
    uint64_t range;
    double power;
    bool is_harmonic; /* the power is 1 */
    double span;      /* of the integral of x^-power, up to a factor */
    uint64_t *chosen;
    uint64_t *scratch;
    uint64_t *slots; /* of a hash table: (round << 32 | number), so that it never needs clearing */
    size_t slot_count;
    uint64_t round;
};

/* Prepares draws from 0 .. range-1 (range <= 2^32), number k with a probability of about
 * (k + 1)^-power, of up to count_max <= range numbers at once. False when there is no memory; the
 * object may then be deinitialised, but not used. */
bool rbt_pick_init(struct rbt_pick *pick, uint64_t range, double power, size_t count_max);
void rbt_pick_deinit(struct rbt_pick *pick);

/* Draws `count` different numbers, in increasing order; valid until the next draw. At most 2^32 - 1
 * times. */
const uint64_t *rbt_pick_draw(struct rbt_pick *pick, struct rbt_rng *rng, size_t count);

#endif
