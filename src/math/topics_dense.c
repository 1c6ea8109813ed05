/* math/topics_dense.c - draws a topic by looking at all K, 16 at a time. Compiled once per kind of
 * processor with RBT_KERNELS set to its name.
 *
 * The weights of the topics stand in blocks of 16, one below the other. Lane l of the running sum
 * after block b is the weight of the topics l, 16 + l, .. 16 b + l. So one pass over the blocks
 * gives the weight of every lane; a random part of the sum of all lanes first finds the lane, then
 * in this lane the block. If K is no multiple of 16, the last block ends with the last topic, and
 * what the block before it has already counted has the weight zero. */
#include "math/topics.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define PASTE(a, b)     a##b
#define EXPAND(a, b)    PASTE(a, b)
#define DENSE_OF_SUFFIX EXPAND(rbt_topics_dense_, RBT_KERNELS)
#define ALWAYS_INLINE   static inline __attribute__((always_inline))

/* What the processor has in a register; wider vectors are compiled badly. */
#if defined(__AVX512F__)
enum { PIECE = 16 };
#elif defined(__AVX2__)
enum { PIECE = 8 };
#else
enum { PIECE = 4 };
#endif
enum { LANES = 16, PIECES = LANES / PIECE, PREFETCH_AHEAD = 3, LINE_FLOATS = 16 };

typedef float piece __attribute__((vector_size(4 * PIECE)));
typedef float loose_piece __attribute__((vector_size(4 * PIECE), aligned(4), may_alias));
typedef float quad __attribute__((vector_size(16)));
typedef float loose_quad __attribute__((vector_size(16), aligned(4), may_alias));

/* How many of the 16 numbers are at most `limit`. */
ALWAYS_INLINE size_t count_upto(const float *values, float limit)
{
#if defined(__AVX512F__)
    const __m512 all = _mm512_loadu_ps(values);
    const __mmask16 mask = _mm512_cmp_ps_mask(all, _mm512_set1_ps(limit), _CMP_LE_OQ);
    return (size_t)__builtin_popcount(mask);
#elif defined(__AVX2__)
    const __m256 wanted = _mm256_set1_ps(limit);
    const int low = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(values), wanted, _CMP_LE_OQ));
    const int high =
        _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(values + 8), wanted, _CMP_LE_OQ));
    return (size_t)__builtin_popcount((unsigned)low) + (size_t)__builtin_popcount((unsigned)high);
#else
    size_t count = 0;
    for (size_t i = 0; i < LANES; i++) {
        count += values[i] <= limit ? 1 : 0;
    }
    return count;
#endif
}

/* ends[l] becomes the sum of lanes 0 .. l. */
ALWAYS_INLINE void run_lanes(const float *sums, float *ends)
{
    const quad zero = {0};
    float before = 0;
    for (size_t i = 0; i < LANES; i += 4) {
        quad part = *(const loose_quad *)(sums + i);
        part += __builtin_shufflevector(part, zero, 4, 0, 1, 2);
        part += __builtin_shufflevector(part, zero, 4, 4, 0, 1);
        part += before;
        before = part[3];
        *(loose_quad *)(ends + i) = part;
    }
}

/* The first block whose sum in this lane is above the rest; the last one if rounding hides it. */
ALWAYS_INLINE size_t find_block(const float *sums, size_t lane, size_t block_count, float rest)
{
    size_t first = 0;
    size_t count = block_count;
    while (count > 8) { /* halves, then all */
        const size_t half = count / 2;
        const int is_below = sums[(first + half - 1) * LANES + lane] <= rest;
        first += is_below ? half : 0;
        count -= is_below ? half : count - half;
    }
    size_t below = 0;
    for (size_t b = 0; b + 1 < count; b++) {
        below += sums[(first + b) * LANES + lane] <= rest ? 1 : 0;
    }
    return first + below;
}

/* Draws from the weights times (row + beta); K is at least LANES. */
ALWAYS_INLINE size_t draw(struct rbt_topics *t, const float *row)
{
    const size_t topic_count = t->topic_count;
    const size_t whole = topic_count / LANES;
    const size_t left = topic_count % LANES;
    float *scratch = t->scratch;
    piece sums[PIECES] = {0};
    for (size_t b = 0; b < whole; b++) {
        for (size_t p = 0; p < PIECES; p++) {
            const size_t at = b * LANES + p * PIECE;
            const piece counts = *(const loose_piece *)(row + at) + t->beta;
            sums[p] += *(const loose_piece *)(t->weights + at) * counts;
            *(loose_piece *)(scratch + at) = sums[p];
        }
    }
    if (left > 0) {
        static const float is_new[2 * LANES] = {[LANES] = 1, 1, 1, 1, 1, 1, 1, 1,
                                                1,           1, 1, 1, 1, 1, 1, 1};
        for (size_t p = 0; p < PIECES; p++) {
            const size_t at = topic_count - LANES + p * PIECE;
            const piece counts = *(const loose_piece *)(row + at) + t->beta;
            const piece weights = *(const loose_piece *)(t->weights + at) * counts;
            sums[p] += weights * *(const loose_piece *)(is_new + left + p * PIECE);
            *(loose_piece *)(scratch + whole * LANES + p * PIECE) = sums[p];
        }
    }
    float ends[LANES];
    run_lanes(scratch + (whole - 1 + (left > 0 ? 1 : 0)) * LANES, ends);
    const float wanted = rbt_topics_uniform(&t->random) * ends[LANES - 1];
    size_t lane = count_upto(ends, wanted);
    lane = lane < LANES ? lane : LANES - 1;
    const float rest = lane == 0 ? wanted : wanted - ends[lane - 1];
    const size_t block = find_block(scratch, lane, whole + (left > 0 ? 1 : 0), rest);
    return block < whole ? block * LANES + lane : topic_count - LANES + lane;
}

/* The same for a few topics. */
ALWAYS_INLINE size_t draw_few(struct rbt_topics *t, const float *row)
{
    float sum = 0;
    for (size_t k = 0; k < t->topic_count; k++) {
        sum += t->weights[k] * (row[k] + t->beta);
        t->scratch[k] = sum;
    }
    const float wanted = rbt_topics_uniform(&t->random) * sum;
    size_t k = 0;
    while (k + 1 < t->topic_count && t->scratch[k] <= wanted) {
        k++;
    }
    return k;
}

void DENSE_OF_SUFFIX(struct rbt_topics *t, size_t first, size_t end)
{
    const size_t topic_count = t->topic_count;
    const uint64_t last = t->offsets[end];
    for (size_t d = first; d < end; d++) {
        rbt_topics_enter(t, d);
        for (uint64_t i = t->offsets[d]; i < t->offsets[d + 1]; i++) {
            const size_t word = t->words[i];
            const size_t old = t->topics[i];
            float *row = t->word_topics + word * topic_count;
            if (i + PREFETCH_AHEAD < last) {
                const float *next = t->word_topics + t->words[i + PREFETCH_AHEAD] * topic_count;
                for (size_t k = 0; k < topic_count; k += LINE_FLOATS) {
                    __builtin_prefetch(next + k, 1);
                }
            }
            rbt_topics_count(t, row, old, -1);
            const size_t drawn = topic_count >= LANES ? draw(t, row) : draw_few(t, row);
            rbt_topics_count(t, row, drawn, 1);
            if (drawn != old) {
                t->topics[i] = (uint16_t)drawn;
                rbt_topics_move(t, word, old, drawn);
            }
        }
        rbt_topics_leave(t, d);
    }
}
