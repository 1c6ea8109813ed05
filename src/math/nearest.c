/* math/nearest.c - the loops of nearest.h. Compiled once per kind of processor, like kernels.c.
 *
 * A tile is as many points times 16 centres as the registers hold: every coordinate of a point is
 * multiplied with a row of the panel. Blocks of points pass over the panels, so that a panel is
 * read from the nearest cache. At the end of a block missing points are replaced by the last one:
 * there is one code for all, and so one order of additions.
 *
 * Each lane of a vector keeps the smallest and the second smallest score that it has met, and which
 * centre it was; lanes are compared when the block ends. */
#include <math.h>
#include <string.h>

#include "math/kernels.h"
#include "math/nearest_set.h"

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

enum {
    PARTS = RBT_NEAREST_PANEL / LANES, /* vectors in the row of a panel */
    TILE = 12 / PARTS,                 /* points: 12 sums fit into the registers of all sets */
    BLOCK = 96,                        /* points, a multiple of TILE; their state fits L1 */
};

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t mask __attribute__((vector_size(4 * LANES)));

/* What a point has met so far, lane by lane. */
struct state {
    vec first[PARTS];
    vec second[PARTS];
    mask index[PARTS];
};

INLINE vec choose(mask is_first, vec a, vec b)
{
    return (vec)((is_first & (mask)a) | (~is_first & (mask)b));
}

/* Scores of TILE points and one panel. */
INLINE void score(const float *const *x, size_t dims, const vec *panel, const vec *halves,
                  vec scores[TILE][PARTS])
{
    vec sums[TILE][PARTS];
    UNROLL
    for (int t = 0; t < TILE; t++) {
        UNROLL
        for (int p = 0; p < PARTS; p++) {
            sums[t][p] = halves[p];
        }
    }
    for (size_t j = 0; j < dims; j++) {
        vec row[PARTS];
        UNROLL
        for (int p = 0; p < PARTS; p++) {
            row[p] = panel[j * PARTS + (size_t)p];
        }
        UNROLL
        for (int t = 0; t < TILE; t++) {
            const vec value = x[t][j] - (vec){0}; /* the same in all lanes */
            UNROLL
            for (int p = 0; p < PARTS; p++) {
                sums[t][p] -= value * row[p];
            }
        }
    }
    memcpy(scores, sums, sizeof sums);
}

INLINE void keep(struct state *state, const vec *scores, mask now)
{
    UNROLL
    for (int p = 0; p < PARTS; p++) {
        const vec first = state->first[p];
        const mask is_less = scores[p] < first;
        const vec loser = choose(is_less, first, scores[p]);
        state->second[p] = choose(loser < state->second[p], loser, state->second[p]);
        state->first[p] = choose(is_less, scores[p], first);
        state->index[p] = (is_less & now) | (~is_less & state->index[p]);
    }
}

/* Compares the lanes: lane l of part p has met centres 16 panel + LANES p + l. */
static void finish(const struct state *state, const struct rbt_nearest_found *found, size_t at)
{
    float first = INFINITY;
    float second = INFINITY;
    uint32_t nearest = UINT32_MAX;
    for (uint32_t lane = 0; lane < RBT_NEAREST_PANEL; lane++) {
        const float mine = state->first[lane / LANES][lane % LANES];
        const uint32_t panel = (uint32_t)state->index[lane / LANES][lane % LANES];
        const uint32_t centre = panel * RBT_NEAREST_PANEL + lane;
        if (mine < first || (mine == first && centre < nearest)) {
            second = first;
            first = mine;
            nearest = centre;
        } else if (mine < second) {
            second = mine;
        }
        const float rest = state->second[lane / LANES][lane % LANES];
        second = rest < second ? rest : second;
    }
    found->nearest[at] = isinf(first) ? 0 : nearest; /* scores may all be no numbers */
    found->first[at] = first;
    found->second[at] = second;
}

static void search_block(const struct rbt_nearest_run *run, size_t begin, size_t count)
{
    struct state states[BLOCK];
    const float *x[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        const size_t at = begin + (i < count ? i : count - 1);
        x[i] = run->points + run->rows[at] * run->dims;
        for (int p = 0; p < PARTS; p++) {
            states[i].first[p] = INFINITY - (vec){0};
            states[i].second[p] = INFINITY - (vec){0};
            states[i].index[p] = (mask){0};
        }
    }
    for (size_t panel = 0; panel < run->panel_count; panel++) {
        const vec *values =
            (const vec *)(const void *)(run->panels + panel * run->dims * RBT_NEAREST_PANEL);
        const vec *halves = (const vec *)(const void *)(run->halves + panel * RBT_NEAREST_PANEL);
        const mask now = (int32_t)panel - (mask){0};
        for (size_t i = 0; i < count; i += TILE) {
            vec scores[TILE][PARTS];
            score(x + i, run->dims, values, halves, scores);
            for (int t = 0; t < TILE; t++) {
                keep(&states[i + (size_t)t], scores[t], now);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        finish(&states[i], &run->found, begin + i);
    }
}

void RBT_NEAREST(nearest)(const struct rbt_nearest_run *run)
{
    for (size_t i = 0; i < run->count; i += BLOCK) {
        search_block(run, i, run->count - i < BLOCK ? run->count - i : BLOCK);
    }
}

void RBT_NEAREST(sparse)(const struct rbt_nearest_sparse_run *run)
{
    const size_t stride = run->stride;
    float *restrict scores = run->scores;
    for (size_t i = 0; i < run->count; i++) {
        const size_t row = run->rows[i];
        memcpy(scores, run->halves, stride * sizeof *scores);
        for (uint64_t k = run->offsets[row]; k < run->offsets[row + 1]; k++) {
            const float *restrict column = run->columns + run->indices[k] * stride;
            const float value = run->values[k];
            for (size_t c = 0; c < stride; c++) {
                scores[c] -= value * column[c];
            }
        }
        float first = INFINITY;
        float second = INFINITY;
        size_t nearest = 0;
        for (size_t c = 0; c < stride; c++) {
            const float loser = scores[c] < first ? first : scores[c];
            nearest = scores[c] < first ? c : nearest;
            first = scores[c] < first ? scores[c] : first;
            second = loser < second ? loser : second;
        }
        run->found.nearest[i] = (uint32_t)nearest;
        run->found.first[i] = first;
        run->found.second[i] = second;
    }
}

void RBT_NEAREST(distance)(const struct rbt_distance_run *run)
{
    const size_t dims = run->dims;
    for (size_t i = run->begin; i < run->end; i++) {
        const float *restrict x = run->points + i * dims;
        const float *restrict c = run->centres + run->nearest[i] * dims;
        float sum = 0.0F;
        for (size_t j = 0; j < dims; j++) {
            const float d = x[j] - c[j];
            sum += d * d;
        }
        run->out[i - run->begin] = sum;
    }
}
