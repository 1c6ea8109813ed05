/* base/rng.h - seeded random numbers, and numbers that are a function of their place.
 *
 * A stream (xoshiro256**) is made from a seed and up to two numbers that say whose it is, so that
 * results never depend on scheduling. Keyed draws need no stream at all: the same (seed, key,
 * index) always gives the same number, on every machine and in every order. */
#ifndef RUBATO_BASE_RNG_H
#define RUBATO_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rbt_rng {
    uint64_t state[4];
};

void rbt_rng_init(struct rbt_rng *rng, uint64_t seed, uint64_t a, uint64_t b);

uint64_t rbt_rng_next(struct rbt_rng *rng);

/* Uniform in 0 .. bound-1, without bias; bound > 0. */
uint64_t rbt_rng_below(struct rbt_rng *rng, uint64_t bound);

/* Uniform in [0, 1), with 53 random bits. */
double rbt_rng_uniform(struct rbt_rng *rng);

/* Standard normal. */
double rbt_rng_normal(struct rbt_rng *rng);

/* A random order of 0 .. count-1. */
void rbt_rng_permutation(struct rbt_rng *rng, uint32_t *order, size_t count);

/* Uniform in [0, 1) and standard normal, as functions of (seed, key, index). */
double rbt_rng_uniform_at(uint64_t seed, uint64_t key, uint64_t index);
double rbt_rng_normal_at(uint64_t seed, uint64_t key, uint64_t index);

#endif
