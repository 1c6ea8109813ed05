/* algo/mf/mf_step.c - what a worker of a factorisation does in a clock: gets its rows, follows its
 * ratings or gathers their gradient, and sends what has changed. Threads: a worker's own. */
#include "algo/mf/mf_job.h"
#include "math/choose.h"

enum {
    RUNS_PER_EPOCH = 16,   /* how often the step size changes */
    EXCHANGE_RATINGS = 32, /* after so many, rows may travel early */
    UNBOUNDED = 3,         /* clocks, where reads have no bound */
};

/* Measured by `rubato bench cost` on one of two cores of an Intel Xeon, with one worker in this
 * process. An element of a user's or item's row is pulled and pushed once per clock; in this
 * process that includes what a server does with it. Rows that do not fit into the core's cache,
 * here more than about 1 MB of them, cost up to twice as much; a worker of a cluster has few. */
const struct rbt_algo_cost rbt_mf_costs[RBT_MF_COST_COUNT] = {
    [RBT_MF_COST_RATING] = {"rating", 10.0},
    [RBT_MF_COST_RATING_RANK] = {"rating_rank", 0.56},
    [RBT_MF_COST_ELEMENT] = {"element", 4.7},
};

/* The replicas that the configuration uses; the biases come last. */
static size_t replicas_of(const struct rbt_mf_job *mf, struct rbt_mf_worker *w,
                          struct rbt_replica *all[4])
{
    all[0] = &w->users;
    all[1] = &w->items;
    all[2] = &w->user_biases;
    all[3] = &w->item_biases;
    return mf->config.has_bias ? 4 : 2;
}

/* Runs over the ratings, step by step; the replicas move. Returns the sum of e^2. */
static double follow(const struct rbt_mf_job *mf, struct rbt_mf_worker *w, struct rbt_mf_run *run,
                     int64_t epoch)
{
    const size_t last = run->end;
    const size_t stride = w->share.count / RUNS_PER_EPOCH + 1;
    double sum = 0.0;
    for (; run->begin < last; run->begin = run->end) {
        const double passes = (double)epoch + (double)run->begin / (double)w->share.count;
        run->end = last - run->begin < stride ? last : run->begin + stride;
        if (mf->is_adaptive) {
            rbt_mf_adaptation_step(&w->adaptation, passes, run);
        } else {
            run->eta = (float)rbt_training_rate_at(&mf->rate, passes);
        }
        const double errors = rbt_choose_kernels()->mf(run);
        if (mf->is_adaptive) {
            rbt_mf_adaptation_note(&w->adaptation, run, errors);
        }
        sum += errors;
    }
    return sum;
}

/* Gathers the gradient at the values that were pulled. Returns the sum of e^2. */
static double gather(const struct rbt_mf_job *mf, struct rbt_mf_worker *w,
                     const struct rbt_mf_run *run)
{
    const bool has_bias = mf->config.has_bias;
    const struct rbt_mf_gradient_run gradient = {
        .at = run,
        .user_factors = rbt_replica_gradient(&w->users),
        .item_factors = rbt_replica_gradient(&w->items),
        .user_biases = has_bias ? rbt_replica_gradient(&w->user_biases) : NULL,
        .item_biases = has_bias ? rbt_replica_gradient(&w->item_biases) : NULL};
    return rbt_choose_kernels()->mf_gradient(&gradient);
}

/* Says which rows the ratings have given a gradient. If these are many, that is about all rows. */
static void touch(const struct rbt_mf_job *mf, struct rbt_mf_worker *w, size_t begin, size_t end)
{
    struct rbt_replica *all[4];
    const size_t set_count = replicas_of(mf, w, all);
    for (size_t i = 0; i < set_count; i++) {
        const uint32_t *rows = i % 2 == 0 ? w->share.users : w->share.items;
        if (end - begin < 4 * all[i]->count) {
            rbt_set_touch_rows(all[i]->set, rows + begin, end - begin);
            continue;
        }
        for (size_t row = 0; row < all[i]->count; row++) {
            rbt_set_touch(all[i]->set, row);
        }
    }
}

/* The time that ratings take, and elements that are pulled and pushed. */
static void spend(rbt_worker *worker, size_t rating_count, size_t rank, size_t element_count)
{
    const double ratings = (double)rating_count;
    rbt_worker_spend(worker,
                     1e-9 * (rbt_mf_costs[RBT_MF_COST_RATING].ns * ratings +
                             rbt_mf_costs[RBT_MF_COST_RATING_RANK].ns * ratings * (double)rank +
                             rbt_mf_costs[RBT_MF_COST_ELEMENT].ns * (double)element_count));
}

/* The same as gather(), with rows that come and go on the way. */
static rbt_status gather_managed(const struct rbt_mf_job *mf, rbt_worker *worker,
                                 struct rbt_mf_worker *w, const struct rbt_mf_run *run, double *sum)
{
    rbt_status st = RBT_OK;
    struct rbt_mf_run piece = *run;
    size_t touched = run->begin; /* the ratings before it */
    for (; st == RBT_OK && piece.begin < run->end; piece.begin = piece.end) {
        const size_t left = run->end - piece.begin;
        piece.end = piece.begin + (left < EXCHANGE_RATINGS ? left : EXCHANGE_RATINGS);
        *sum += gather(mf, w, &piece);
        spend(worker, piece.end - piece.begin, piece.rank, 0);
        if (rbt_worker_exchange_is_due(worker)) {
            touch(mf, w, touched, piece.end);
            touched = piece.end;
            st = rbt_worker_exchange(worker);
        }
    }
    touch(mf, w, touched, run->end);
    return st;
}

void rbt_mf_keep_nonnegative(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] < 0.0F ? 0.0F : values[i];
    }
}

rbt_status rbt_mf_step_work(void *context, rbt_worker *worker,
                            const struct rbt_training_chunk *chunk,
                            struct rbt_training_figures *figures)
{
    struct rbt_mf_job *mf = context;
    struct rbt_mf_worker *w = &mf->workers[rbt_worker_index(worker)];
    struct rbt_replica *all[4];
    const size_t replica_count = replicas_of(mf, w, all);
    for (size_t i = 0; i < replica_count; i++) {
        const rbt_status st = rbt_replica_pull(all[i]);
        if (st != RBT_OK) {
            return st;
        }
        if (mf->config.is_nonnegative) { /* the sum of moves may be below zero */
            rbt_mf_keep_nonnegative(all[i]->values, all[i]->count * all[i]->width);
        }
    }
    const size_t count = w->share.count;
    const size_t first = count * (size_t)chunk->index / (size_t)chunk->count;
    const size_t last = count * (size_t)(chunk->index + 1) / (size_t)chunk->count;
    w->clock_passes = 1.0 / (double)chunk->count;
    struct rbt_mf_run run = {.users = w->share.users,
                             .items = w->share.items,
                             .values = w->share.values,
                             .begin = first,
                             .end = last,
                             .user_factors = w->users.values,
                             .item_factors = w->items.values,
                             .rank = (size_t)mf->config.rank,
                             .user_biases = mf->config.has_bias ? w->user_biases.values : NULL,
                             .item_biases = mf->config.has_bias ? w->item_biases.values : NULL,
                             .mean = (float)mf->mean,
                             .l2 = (float)mf->config.l2,
                             .is_nonnegative = mf->config.is_nonnegative};
    rbt_status st = RBT_OK;
    const bool is_managed = mf->rules.has_gradients && mf->options->bandwidth > 0;
    if (is_managed) {
        st = gather_managed(mf, worker, w, &run, &figures->loss);
    } else {
        figures->loss +=
            mf->rules.has_gradients ? gather(mf, w, &run) : follow(mf, w, &run, chunk->epoch);
    }
    figures->count += last - first;
    size_t elements = 0;
    for (size_t i = 0; i < replica_count; i++) {
        elements += all[i]->count * all[i]->width;
    }
    spend(worker, is_managed ? 0 : last - first, run.rank, elements);
    return st;
}

/* Weighs the moves of items by how far adaptive steps have taken them. */
static void weigh(const struct rbt_mf_job *mf, rbt_worker *worker, struct rbt_mf_worker *w)
{
    const int64_t staleness = rbt_job_staleness(rbt_worker_job(worker));
    const struct rbt_mf_clock clock = {
        .passes = w->clock_passes,
        .staleness = staleness == RBT_STALENESS_ANY ? UNBOUNDED : (double)staleness,
        .l2 = mf->config.l2};
    rbt_mf_adaptation_shares(&w->adaptation, &clock, w->items.rates, w->item_biases.rates);
}

/* Where an item was below zero, everybody who has ratings of it has lifted it to zero. Each sends
 * its share of that, whatever a move counts, so that all together lift it once. */
static void share_lifts(const struct rbt_mf_worker *w)
{
    const struct rbt_replica *items = &w->items;
    for (size_t i = 0; i < items->count; i++) {
        const float share = (float)w->item_counts[i] / w->item_totals[i] / items->rates[i];
        float *before = items->before + i * items->width;
        for (size_t k = 0; k < items->width; k++) {
            before[k] *= before[k] < 0.0F ? share : 1.0F;
        }
    }
}

rbt_status rbt_mf_step_push(void *context, rbt_worker *worker)
{
    struct rbt_mf_job *mf = context;
    struct rbt_mf_worker *w = &mf->workers[rbt_worker_index(worker)];
    struct rbt_replica *all[4];
    const size_t count = replicas_of(mf, w, all);
    if (mf->is_adaptive && mf->config.combine == RBT_COMBINE_MEAN) {
        weigh(mf, worker, w);
    }
    if (mf->config.is_nonnegative) { /* then there are no biases */
        share_lifts(w);
    }
    rbt_status st = RBT_OK;
    for (size_t i = 0; i < count && st == RBT_OK; i++) {
        st = mf->rules.has_gradients ? rbt_replica_push_gradient(all[i]) : rbt_replica_push(all[i]);
    }
    return st;
}

/* Sum over rows of counts[i] * ||row i||^2. */
static double weighted_size(const struct rbt_replica *replica, const uint32_t *counts)
{
    double sum = 0.0;
    for (size_t i = 0; i < replica->count; i++) {
        const float *row = replica->values + i * replica->width;
        sum += (double)counts[i] * rbt_choose_kernels()->norm2_squared(row, replica->width);
    }
    return sum;
}

/* A rating's penalty is that of its user and its item, so rows count as often as they are rated. */
double rbt_mf_step_penalty(void *context, rbt_worker *worker)
{
    const struct rbt_mf_job *mf = context;
    const struct rbt_mf_worker *w = &mf->workers[rbt_worker_index(worker)];
    double sum =
        weighted_size(&w->users, w->user_counts) + weighted_size(&w->items, w->item_counts);
    if (mf->config.has_bias) {
        sum += weighted_size(&w->user_biases, w->user_counts);
        sum += weighted_size(&w->item_biases, w->item_counts);
    }
    return mf->config.l2 * sum / (double)mf->ratings.count;
}
