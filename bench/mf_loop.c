/* bench/mf_loop.c - matrix factorisation without any server: SGD on two plain arrays.
 *
 *     mf_loop RATINGS.csv [THREADS [PASSES]]
 *
 * Rank 32, L2, no biases. A user's ratings are all in one thread's share, so users' factors are
 * private; items' factors are shared and raced on (Hogwild).
 *
 * Threads: see above. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "bench/yardstick.h"
#include "data/examples.h"

enum { RANK = 32 };

struct part {
    struct rbt_rating_share share; /* items are numbered over all threads, see deal_out() */
    float *users;                  /* (user_count, RANK) */
};

struct model {
    const struct rbt_ratings *ratings;
    struct part parts[RBT_YARDSTICK_THREADS_MAX];
    uint32_t threads;
    float *items; /* (item_max, RANK) */
    size_t item_max;
};

static void pass(void *context, uint32_t thread, uint32_t number)
{
    struct model *model = context;
    const struct part *part = &model->parts[thread];
    const float step = 0.02F / (1.0F + 0.1F * (float)number);
    const float l2 = 0.02F;
    for (size_t k = 0; k < part->share.count; k++) {
        float *restrict u = part->users + (size_t)part->share.users[k] * RANK;
        float *restrict v = model->items + (size_t)part->share.items[k] * RANK;
        float product = 0;
        for (size_t j = 0; j < RANK; j++) {
            product += u[j] * v[j];
        }
        const float error = part->share.values[k] - product;
        for (size_t j = 0; j < RANK; j++) {
            const float old = u[j];
            u[j] += step * (error * v[j] - l2 * old);
            v[j] += step * (error * old - l2 * v[j]);
        }
    }
}

/* Root of the mean squared error on the training data. */
static double judge(void *context)
{
    const struct model *model = context;
    double sum = 0;
    for (uint32_t t = 0; t < model->threads; t++) {
        const struct part *part = &model->parts[t];
        for (size_t k = 0; k < part->share.count; k++) {
            const float *u = part->users + (size_t)part->share.users[k] * RANK;
            const float *v = model->items + (size_t)part->share.items[k] * RANK;
            double product = 0;
            for (size_t j = 0; j < RANK; j++) {
                product += (double)u[j] * (double)v[j];
            }
            const double error = (double)part->share.values[k] - product;
            sum += error * error;
        }
    }
    return sqrt(sum / (double)model->ratings->count);
}

static float *random_factors(uint64_t stream, size_t rows)
{
    float *factors = rbt_calloc(rows * RANK, sizeof *factors);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, stream, 0);
    for (size_t i = 0; factors != NULL && i < rows * RANK; i++) {
        factors[i] = 0.6F * (float)rbt_rng_uniform(&rng);
    }
    return factors;
}

static rbt_status deal_out(struct model *model)
{
    rbt_status st = RBT_OK;
    for (uint32_t t = 0; st == RBT_OK && t < model->threads; t++) {
        struct rbt_rating_share *share = &model->parts[t].share;
        st = rbt_rating_share_take(model->ratings, 1, t, model->threads, share);
        if (st != RBT_OK) {
            break;
        }
        for (size_t k = 0; k < share->count; k++) {
            share->items[k] = (uint32_t)share->item_keys[share->items[k]];
        }
        if (share->item_count > 0 && share->item_keys[share->item_count - 1] >= model->item_max) {
            model->item_max = share->item_keys[share->item_count - 1] + 1;
        }
        model->parts[t].users = random_factors(t + 1, share->user_count);
        st = model->parts[t].users != NULL ? RBT_OK : rbt_fail(RBT_E_NOMEM, "no room for users");
    }
    if (st == RBT_OK) {
        model->items = random_factors(0, model->item_max);
        st = model->items != NULL ? RBT_OK : rbt_fail(RBT_E_NOMEM, "no room for items");
    }
    return st;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: mf_loop RATINGS.csv [THREADS [PASSES]]\n", stderr);
        return 2;
    }
    const char *const path = argv[1];
    const struct rbt_data_options options = {
        .paths = &path, .path_count = 1, .format = RBT_FORMAT_RATINGS};
    struct rbt_ratings ratings = {0};
    static struct model model; /* large */
    model.threads = rbt_yardstick_argument(argc, argv, 2, 2);
    model.ratings = &ratings;
    rbt_status st = rbt_ratings_read(&options, &ratings);
    st = st != RBT_OK ? st : deal_out(&model);
    const struct rbt_yardstick yardstick = {.name = "mf_loop",
                                            .unit = "ratings",
                                            .flags = FLAGS,
                                            .threads = model.threads,
                                            .passes = rbt_yardstick_argument(argc, argv, 3, 10),
                                            .count = ratings.count,
                                            .run = pass,
                                            .judge = judge,
                                            .metric = "rmse",
                                            .context = &model};
    st = st != RBT_OK ? st : rbt_yardstick_run(&yardstick);
    if (st != RBT_OK) {
        fprintf(stderr, "mf_loop: %s\n", rbt_last_error());
    }
    for (uint32_t t = 0; t < model.threads; t++) {
        rbt_rating_share_free(&model.parts[t].share);
        rbt_free(model.parts[t].users);
    }
    rbt_free(model.items);
    rbt_ratings_free(&ratings);
    return st == RBT_OK ? 0 : 1;
}
