/* policy/filter/filter_rig.h - for tests: chains, rows for them, and the way to the receiver and
 * back. Threads: the test's. */
#ifndef RUBATO_POLICY_FILTER_FILTER_RIG_H
#define RUBATO_POLICY_FILTER_FILTER_RIG_H

#include "base/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "policy/filter/chain.h"

enum { RIG_MAX = 5000, RIG_WORKERS = 4 }; /* elements: no multiple of any group */

static const uint64_t rig_keys[RIG_MAX];

/* A chain, and one call's rows. */
struct rig {
    rbt_chain *chain;
    size_t count;
    float values[RIG_MAX];
    bool keep[RIG_MAX];
    float known[RIG_MAX];
    struct rbt_filter_rows rows;
    struct rbt_filter_code code;
};

static inline struct rbt_chain_options rig_options(const char *text, rbt_filter_direction direction)
{
    return (struct rbt_chain_options){.text = text,
                                      .direction = direction,
                                      .table = "weights",
                                      .width = 1,
                                      .type = RBT_F32,
                                      .worker_count = RIG_WORKERS};
}

static inline struct rig *rig_open(const char *text, rbt_filter_direction direction, size_t count)
{
    const struct rbt_chain_options options = rig_options(text, direction);
    struct rig *rig = rbt_calloc(1, sizeof *rig);
    assert_non_null(rig);
    assert_true(count <= RIG_MAX);
    assert_ok(rbt_chain_create(&options, &rig->chain));
    rig->count = count;
    rig->rows = (struct rbt_filter_rows){.row_count = count,
                                         .width = 1,
                                         .keys = rig_keys,
                                         .values = rig->values,
                                         .keep = rig->keep,
                                         .seed = 1};
    return rig;
}

static inline void rig_close(struct rig *rig)
{
    rbt_chain_destroy(rig->chain);
    rbt_free(rig);
}

/* Another turn: other random numbers. */
static inline void rig_apply(struct rig *rig)
{
    assert_ok(rbt_chain_apply(rig->chain, &rig->rows, &rig->code));
    rig->rows.seed++;
    rig->rows.turn++;
}

static inline float rig_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t rig_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Writes elements and reads them by a second chain of the same text: `got` is what a receiver that
 * had `got` has then, and `there` says what came. Every block ends where it ends, for sanitizers.
 * Returns the bytes on the way. */
static inline size_t rig_send(rbt_chain *chain, rbt_chain *receiver,
                              const struct rbt_chain_elements *elements, void *got, bool *there)
{
    const size_t bound = rbt_chain_bound(chain, elements->count);
    char *to = rbt_alloc(bound);
    char *scratch = rbt_alloc(2 * bound);
    const size_t bytes = rbt_chain_put(chain, elements, to, scratch);
    assert_true(bytes >= 1 && bytes <= bound);
    char *exact = rbt_alloc(bytes);
    memcpy(exact, to, bytes);
    const struct rbt_chain_elements back = {.count = elements->count, .values = got, .keep = there};
    assert_ok(rbt_chain_get(receiver, exact, bytes, &back, scratch));
    for (size_t cut = 0; cut < bytes && cut < 40; cut++) { /* shorter ones are refused */
        assert_int_equal(rbt_chain_get(receiver, exact, cut, &back, scratch), RBT_E_PROTOCOL);
    }
    assert_ok(rbt_chain_get(receiver, exact, bytes, &back, scratch));
    rbt_free(to);
    rbt_free(scratch);
    rbt_free(exact);
    return bytes;
}

/* The rows that were applied; sees that exactly what is kept has come, bit by bit. */
static inline size_t rig_deliver(struct rig *rig)
{
    static float got[RIG_MAX];
    static bool there[RIG_MAX];
    const struct rbt_chain_elements elements = {
        .count = rig->count, .values = rig->values, .keep = rig->keep, .code = rig->code};
    const bool skips_zeros = rbt_chain_traits(rig->chain).skips_zeros;
    memset(got, 0, sizeof got);
    const size_t bytes = rig_send(rig->chain, rig->chain, &elements, got, there);
    for (size_t i = 0; i < rig->count; i++) {
        const bool goes = rig->keep[i] && !(skips_zeros && rig_bits(rig->values[i]) == 0);
        assert_int_equal(there[i], goes);
        assert_int_equal(rig_bits(got[i]), goes ? rig_bits(rig->values[i]) : 0);
    }
    return bytes;
}

#endif
