/* policy/filter/builtin.h - the filters that come with Rubato, and what they share. Threads: none.
 */
#ifndef RUBATO_POLICY_FILTER_BUILTIN_H
#define RUBATO_POLICY_FILTER_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/status.h>

extern const struct rbt_filter rbt_filter_tiny;
extern const struct rbt_filter rbt_filter_significant;
extern const struct rbt_filter rbt_filter_changed;
extern const struct rbt_filter rbt_filter_skip;
extern const struct rbt_filter rbt_filter_sample;
extern const struct rbt_filter rbt_filter_kkt;
extern const struct rbt_filter rbt_filter_f16;
extern const struct rbt_filter rbt_filter_bf16;
extern const struct rbt_filter rbt_filter_fixed;
extern const struct rbt_filter rbt_filter_lz4;
extern const struct rbt_filter rbt_filter_zstd;

/* An argument and the numbers that it may be. */
struct rbt_filter_range {
    const char *name;
    double fallback; /* when it is not given */
    double min;
    double max;
    bool is_required;
    bool is_open;  /* `min` itself is not allowed */
    bool is_whole; /* nothing between whole numbers is allowed */
};

/* Reads all arguments, until one is refused with a sentence; more than `count` are refused as well.
 * `values` is (count). */
RBT_MUST_USE rbt_status rbt_filter_numbers(const struct rbt_filter_setup *setup,
                                           const struct rbt_filter_range *ranges, size_t count,
                                           double *values);

/* Zeroed memory for an instance. */
RBT_MUST_USE rbt_status rbt_filter_new(const struct rbt_filter_setup *setup, size_t size,
                                       void **self);
void rbt_filter_free(void *self);

/* How many elements there are. */
static inline size_t rbt_filter_count(const struct rbt_filter_rows *rows)
{
    return rows->row_count * rows->width;
}

/* `keep` as bytes of 0 and 1, which compilers make vector code of, and of truth values they do not.
 */
static inline uint8_t *rbt_filter_keep(const struct rbt_filter_rows *rows)
{
    return (uint8_t *)rows->keep;
}

/* Random bits that are a function of their place (SplitMix64), so that blocks of them can be made
 * in any order: number i of a seed has two numbers of 32 bits. */
static inline uint64_t rbt_filter_random(uint64_t seed, uint64_t i)
{
    uint64_t x = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* How many elements filters look at between two blocks of random numbers; even. */
enum { RBT_FILTER_BLOCK = 256 };

/* One number of 32 bits for each element from `first`, a multiple of RBT_FILTER_BLOCK, on. */
static inline void rbt_filter_randoms(uint64_t seed, size_t first,
                                      uint32_t to[restrict RBT_FILTER_BLOCK])
{
    for (size_t i = 0; i < RBT_FILTER_BLOCK / 2; i++) {
        const uint64_t both = rbt_filter_random(seed, first / 2 + i);
        to[2 * i] = (uint32_t)both;
        to[2 * i + 1] = (uint32_t)(both >> 32);
    }
}

/* One of two numbers, or of two floats, without a branch. `is_first` is 0 or 1. */
static inline uint32_t rbt_filter_pick(uint32_t is_first, uint32_t first, uint32_t second)
{
    return second ^ ((first ^ second) & (0U - is_first));
}

static inline float rbt_filter_pick_float(uint32_t is_first, float first, float second)
{
    uint32_t a;
    uint32_t b;
    float picked;
    memcpy(&a, &first, sizeof a);
    memcpy(&b, &second, sizeof b);
    a = rbt_filter_pick(is_first, a, b);
    memcpy(&picked, &a, sizeof picked);
    return picked;
}

/* In front of a loop over arrays that do not overlap. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* sanitizers stand in its way, as they may */
#define RBT_FILTER_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define RBT_FILTER_APART _Pragma("GCC ivdep")
#endif

#endif
