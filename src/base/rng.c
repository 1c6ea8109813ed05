/* base/rng.c - xoshiro256** seeded by splitmix64, and keyed draws by the same mixer. */
#include "base/rng.h"

#include <math.h>

#include "base/assert.h"
#include "base/hash.h"

static const uint64_t golden = 0x9e3779b97f4a7c15U; /* 2^64 / golden ratio, splitmix64's step */
static const double pi = 3.14159265358979323846;

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static double to_unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

static uint64_t bits_at(uint64_t seed, uint64_t key, uint64_t index)
{
    uint64_t z = rbt_hash_key(seed + golden);
    z = rbt_hash_key(z ^ (key + golden));
    return rbt_hash_key(z ^ (index + golden));
}

void rbt_rng_init(struct rbt_rng *rng, uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t z = bits_at(seed, a, b);
    for (int i = 0; i < 4; i++) {
        z += golden;
        rng->state[i] = rbt_hash_key(z);
    }
    RBT_ASSERT((rng->state[0] | rng->state[1] | rng->state[2] | rng->state[3]) != 0);
}

uint64_t rbt_rng_next(struct rbt_rng *rng)
{
    uint64_t *s = rng->state;
    const uint64_t result = rotate(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t rbt_rng_below(struct rbt_rng *rng, uint64_t bound)
{
    RBT_ASSERT(bound > 0);
    const uint64_t rest = (UINT64_MAX - bound + 1) % bound; /* 2^64 mod bound */
    uint64_t draw = rbt_rng_next(rng);
    while (draw < rest) { /* ends: each draw passes with probability of a half or more */
        draw = rbt_rng_next(rng);
    }
    return draw % bound;
}

double rbt_rng_uniform(struct rbt_rng *rng)
{
    return to_unit(rbt_rng_next(rng));
}

/* Box-Muller; 1 - u lies in (0, 1], so the logarithm is finite. */
static double to_normal(double u, double v)
{
    return sqrt(-2.0 * log(1.0 - u)) * cos(2.0 * pi * v);
}

double rbt_rng_normal(struct rbt_rng *rng)
{
    const double u = rbt_rng_uniform(rng);
    return to_normal(u, rbt_rng_uniform(rng));
}

void rbt_rng_permutation(struct rbt_rng *rng, uint32_t *order, size_t count)
{
    RBT_ASSERT(count <= UINT32_MAX);
    for (size_t i = 0; i < count; i++) {
        const size_t j = (size_t)rbt_rng_below(rng, i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
}

double rbt_rng_uniform_at(uint64_t seed, uint64_t key, uint64_t index)
{
    return to_unit(bits_at(seed, key, index));
}

double rbt_rng_normal_at(uint64_t seed, uint64_t key, uint64_t index)
{
    return to_normal(to_unit(bits_at(seed, key, 2 * index)),
                     to_unit(bits_at(seed, key, 2 * index + 1)));
}
