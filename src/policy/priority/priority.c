/* policy/priority/priority.c - the kind of policy that priorities are: which of the rows that have
 * changed matter most.
 *
 * Sums run in eight lanes which are added in a fixed order, so that a row costs an eighth of the
 * operations and every processor gets the same bits: the order of messages follows from the scores.
 * A float's precision is far more than queues look at. */
#include "policy/priority/priority.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

enum { LANES = 8 };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lane_bits __attribute__((vector_size(LANES * sizeof(int32_t))));

ALWAYS_INLINE float sum_lanes(const lanes *sums)
{
    const lanes s = *sums;
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The elements i to i + 7 of a row; of its end, with zeros behind. */
ALWAYS_INLINE void load(lanes *to, const float *row, uint32_t i, uint32_t width)
{
    if (i + LANES <= width) {
        memcpy(to, row + i, sizeof *to);
        return;
    }
    *to = (lanes){0};
    memcpy(to, row + i, (width - i) * sizeof *row);
}

ALWAYS_INLINE void add_absolute(lanes *sums, const lanes *terms)
{
    *sums += (lanes)((lane_bits)*terms & INT32_MAX);
}

/* sum |d_i| */
ALWAYS_INLINE float magnitude_of(const struct rbt_priority_row *row)
{
    const uint32_t width = row->width;
    lanes sums = {0};
    RBT_ASSERT(row->change != NULL);
    for (uint32_t i = 0; i < width; i += LANES) {
        lanes d;
        load(&d, row->change, i, width);
        add_absolute(&sums, &d);
    }
    return sum_lanes(&sums);
}

/* sum |d_i / a_i|, with |d_i| where a_i is zero. */
ALWAYS_INLINE float relative_of(const struct rbt_priority_row *row)
{
    const uint32_t width = row->width;
    const lanes ones = {1, 1, 1, 1, 1, 1, 1, 1};
    lanes sums = {0};
    RBT_ASSERT(row->change != NULL);
    if (row->value == NULL) {
        return magnitude_of(row);
    }
    for (uint32_t i = 0; i < width; i += LANES) {
        lanes d;
        lanes a;
        load(&d, row->change, i, width);
        load(&a, row->value, i, width);
        const lane_bits is_zero = a == 0;
        a = (lanes)(((lane_bits)a & ~is_zero) | ((lane_bits)ones & is_zero));
        d /= a;
        add_absolute(&sums, &d);
    }
    return sum_lanes(&sums);
}

static float score_magnitude(const struct rbt_priority_row *row)
{
    return magnitude_of(row);
}

static float score_relative(const struct rbt_priority_row *row)
{
    return relative_of(row);
}

#if defined(__x86_64__)
/* The eight lanes at once; the bits are the same. */
__attribute__((target("avx2"))) static float magnitude_avx2(const struct rbt_priority_row *row)
{
    return magnitude_of(row);
}

__attribute__((target("avx2"))) static float relative_avx2(const struct rbt_priority_row *row)
{
    return relative_of(row);
}
#endif

/* The same score, as this processor does it best. */
static rbt_priority_score best_of(rbt_priority_score score)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        return score == score_magnitude  ? magnitude_avx2
               : score == score_relative ? relative_avx2
                                         : score;
    }
#endif
    return score;
}

RBT_POLICY_BEGINS(struct rbt_priority);

/* A priority that comes with Rubato; without a score its order looks at no row. */
struct own {
    struct rbt_priority head;
    rbt_queue_order order;
    bool is_sweep;
};

static const struct own owns[] = {
    {{.name = "relative",
      .summary = "The largest changes relative to the values; for a zero value the change itself.",
      .score = score_relative},
     .order = RBT_ORDER_SCORE},
    {{.name = "magnitude", .summary = "The largest changes.", .score = score_magnitude},
     .order = RBT_ORDER_SCORE},
    {{.name = "random", .summary = "Changed rows at random, with equal probability."},
     .order = RBT_ORDER_RANDOM},
    {{.name = "oldest", .summary = "Round-robin: in the order of their first change."},
     .order = RBT_ORDER_OLDEST},
    {{.name = "walk", .summary = "Round-robin: in the order of their keys."},
     .order = RBT_ORDER_WALK},
    {{.name = "sweep",
      .summary = "All rows in turn, changed or not, as in Yahoo!LDA; for comparisons."},
     .order = RBT_ORDER_WALK,
     .is_sweep = true}};

static const struct rbt_policy policies[] = {
    {.code = &owns[0],
     .formula = "sum_i |d_i / a_i|, d the change since the row was last sent, a its values"},
    {.code = &owns[1], .formula = "sum_i |d_i|"},
    {.code = &owns[2]},
    {.code = &owns[3]},
    {.code = &owns[4]},
    {.code = &owns[5]}};

static const struct rbt_policy *const all[] = {
    &policies[0], &policies[1], &policies[2], &policies[3], &policies[4], &policies[5], NULL};

static const char before[] =
    "Usage: rubato train mf --rule adarev --bandwidth RATE --priority NAME ...\n\n"
    "With --bandwidth rows are sent before a clock ends, within the budget: updates\n"
    "of workers to the servers, and changed rows from the servers to the workers.\n"
    "The priority decides which rows are sent first. It leaves nothing out: at the\n"
    "end of a clock everything is sent.\n\n"
    "Which one?\n"
    "  in general                        relative, which is the default\n"
    "  values that start near zero       magnitude\n"
    "  to see what priorities gain       random\n"
    "  the processor is the bottleneck   random or oldest: no row is looked at\n";

static const char after[] =
    "\n"
    "Yours: --priority ./mine.so names a shared object that is written in C against\n"
    "rubato/priority.h and linked with nothing; see docs/communication.md and\n"
    "examples/priority.c.\n\n"
    "Examples:\n"
    "  rubato train mf --data r.csv --rule adarev --clocks-per-epoch 2 \\\n"
    "      --bandwidth 25MB\n"
    "  rubato run --workers 8 -- train mf --data r.csv --rule adarev \\\n"
    "      --clocks-per-epoch 1 --bandwidth 200Mbit --priority magnitude\n";

static const char *missing(const void *found)
{
    return ((const struct rbt_priority *)found)->score == NULL ? "score function" : NULL;
}

const struct rbt_policy_kind rbt_policy_priorities = {
    .plugin = {.what = "priority",
               .symbol = "rbt_priority",
               .definition = "RBT_PRIORITY_EXPORT const struct rbt_priority rbt_priority",
               .header = "rubato/priority.h",
               .abi = RBT_PRIORITY_ABI,
               .struct_size = sizeof(struct rbt_priority),
               .missing = missing},
    .plural = "priorities",
    .text = "the name of a priority",
    .text_max = RBT_PLUGIN_PATH_MAX,
    .all = all,
    .before = before,
    .after = after};

rbt_status rbt_priority_find(const char *text, struct rbt_priority_policy *policy)
{
    const void *code = NULL;
    const rbt_status st = rbt_policy_find(&rbt_policy_priorities, text, &code);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_policy_piece piece = rbt_policy_piece(&rbt_policy_priorities, text);
    if (piece.is_path) {
        const struct rbt_priority *priority = code;
        *policy = (struct rbt_priority_policy){
            .name = priority->name, .order = RBT_ORDER_SCORE, .score = priority->score};
        return RBT_OK;
    }
    const struct own *own = code;
    RBT_ASSERT((own->order == RBT_ORDER_SCORE) == (own->head.score != NULL));
    *policy = (struct rbt_priority_policy){.name = own->head.name,
                                           .order = own->order,
                                           .score = best_of(own->head.score),
                                           .is_sweep = own->is_sweep};
    return RBT_OK;
}
