/* algo/mf/mf_adaptation.c - how far a row moves for a rating: the adaptive steps of mf. See the
 * header. */
#include "algo/mf/mf_adaptation.h"

#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "math/choose.h"

/* Chosen on MovieLens 100K and 1M and three kinds of generated ratings, with 1 to 16 workers. */
static const double gathered_first = 0.1; /* what a row has gathered before it begins, by s^3 */
static const double bias_first = 0.1;
static const double bias_ratings = 10.0;

/* Steps are made anew after a sixteenth of a pass, and later when an eighth has been added. */
static const double due_least = 1.0 / 16.0;
static const double due_growth = 1.0 / 8.0;

rbt_status rbt_mf_adaptation_open(const struct rbt_mf_adaptation_options *options,
                                  struct rbt_mf_adaptation *adaptation)
{
    RBT_ASSERT(options->scale > 0.0);
    RBT_ASSERT(options->lr >= 0.0);
    *adaptation = (struct rbt_mf_adaptation){
        .users = {.ratings = options->user_ratings, .count = options->user_count},
        .items = {.ratings = options->item_ratings,
                  .totals = options->item_totals,
                  .count = options->item_count},
        .lr = options->lr,
        .scale = options->scale,
        .passes = -1.0};
    adaptation->users.steps = rbt_calloc(options->user_count, sizeof *adaptation->users.steps);
    adaptation->items.steps = rbt_calloc(options->item_count, sizeof *adaptation->items.steps);
    if (adaptation->users.steps == NULL || adaptation->items.steps == NULL) {
        rbt_mf_adaptation_close(adaptation);
        return rbt_fail(RBT_E_NOMEM, "no memory for the steps of a worker's rows");
    }
    return RBT_OK;
}

void rbt_mf_adaptation_close(struct rbt_mf_adaptation *adaptation)
{
    rbt_free(adaptation->users.steps);
    rbt_free(adaptation->items.steps);
    *adaptation = (struct rbt_mf_adaptation){0};
}

/* The mean over the ratings of the mean squared factor of their row. */
static double size_of(const struct rbt_mf_side *side, const float *factors, size_t rank)
{
    const struct rbt_kernels *kernels = rbt_choose_kernels();
    double sum = 0.0;
    double ratings = 0.0;
    for (size_t i = 0; i < side->count; i++) {
        sum += (double)side->ratings[i] * kernels->norm2_squared(factors + i * rank, rank);
        ratings += (double)side->ratings[i];
    }
    return ratings > 0.0 ? sum / (ratings * (double)rank) : 0.0;
}

/* Steps for the time `at`, in passes. What is added below the fractions keeps a step times l2 below
 * 1, however large l2 is for such ratings. */
static void make(const struct rbt_mf_adaptation *adaptation, struct rbt_mf_side *side, double at,
                 float l2)
{
    const double gathered = side->gathered + (at - adaptation->passes) * side->gathering;
    const double s = adaptation->scale;
    const float first = (float)(gathered_first * s * s * s);
    const float lr = (float)(adaptation->lr * sqrt(s));
    const float growth = (float)(at / bias_ratings);
    for (size_t i = 0; i < side->count; i++) {
        const float n = side->totals == NULL ? (float)side->ratings[i] : side->totals[i];
        const float root = sqrtf(1.0F + n * growth);
        side->steps[i].factors = lr / (sqrtf(first + n * (float)gathered) + lr * l2);
        side->steps[i].bias = (float)bias_first / (root * sqrtf(root) + (float)bias_first * l2);
    }
}

void rbt_mf_adaptation_step(struct rbt_mf_adaptation *adaptation, double passes,
                            struct rbt_mf_run *run)
{
    struct rbt_mf_side *users = &adaptation->users;
    struct rbt_mf_side *items = &adaptation->items;
    run->user_steps = users->steps;
    run->item_steps = items->steps;
    if (adaptation->passes >= 0.0 && passes < adaptation->due) {
        return;
    }
    const bool is_first = adaptation->passes < 0.0;
    const double square = is_first || adaptation->ratings == 0.0
                              ? adaptation->scale * adaptation->scale
                              : adaptation->errors / adaptation->ratings;
    const double user_size = size_of(users, run->user_factors, run->rank);
    const double item_size = size_of(items, run->item_factors, run->rank);
    if (is_first) { /* who comes late begins as if it had been here */
        users->size = user_size;
        items->size = item_size;
    }
    const double since = passes - fmax(adaptation->passes, 0.0);
    users->gathered += since * square * items->size;
    items->gathered += since * square * users->size;
    users->size = user_size;
    items->size = item_size;
    users->gathering = square * item_size;
    items->gathering = square * user_size;
    adaptation->passes = passes;
    adaptation->due = passes + fmax(due_least, due_growth * passes);
    const double middle = (passes + adaptation->due) / 2.0; /* of the time they are for */
    make(adaptation, users, middle, run->l2);
    make(adaptation, items, middle, run->l2);
    adaptation->errors = 0.0;
    adaptation->ratings = 0.0;
}

void rbt_mf_adaptation_note(struct rbt_mf_adaptation *adaptation, const struct rbt_mf_run *run,
                            double errors)
{
    RBT_ASSERT(run->begin <= run->end);
    adaptation->errors += errors;
    adaptation->ratings += (double)(run->end - run->begin);
}

void rbt_mf_adaptation_shares(const struct rbt_mf_adaptation *adaptation,
                              const struct rbt_mf_clock *clock, float *factors, float *biases)
{
    RBT_ASSERT(clock->passes > 0.0);
    RBT_ASSERT(clock->staleness >= 0.0);
    const struct rbt_mf_side *items = &adaptation->items;
    const float bend = (float)(clock->passes * (adaptation->users.size + clock->l2));
    const float bias_bend = (float)(clock->passes * (1.0 + clock->l2));
    const float window = (float)(1.0 + clock->staleness / 2.0);
    for (size_t i = 0; i < items->count; i++) {
        const float own = (float)items->ratings[i];
        const float all = own + window * (items->totals[i] - own);
        const float way = items->steps[i].factors * bend;
        const float bias_way = items->steps[i].bias * bias_bend;
        factors[i] = (1.0F + own * way) / (1.0F + all * way);
        biases[i] = (1.0F + own * bias_way) / (1.0F + all * bias_way);
    }
}
