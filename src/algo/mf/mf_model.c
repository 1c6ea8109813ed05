/* algo/mf/mf_model.c - what a factorisation says about ratings. */
#include "algo/mf/mf_model.h"

#include <math.h>
#include <string.h>

#include "algo/frame/inputs.h"
#include "algo/frame/lookup.h"
#include "algo/frame/metrics.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/choose.h"

/* Users or items. */
struct side {
    const struct rbt_model_array *factors;
    const struct rbt_model_array *biases; /* or NULL */
    rbt_lookup *lookup;
};

struct rbt_mf_model {
    double mean;
    size_t rank;
    struct side users;
    struct side items;
};

static rbt_status open_side(const struct rbt_model *model, const char *factors, const char *biases,
                            struct side *side)
{
    side->factors = rbt_model_array_find(model, factors);
    side->biases = rbt_model_array_find(model, biases);
    if (side->factors == NULL) {
        return rbt_fail(RBT_E_DATA, "the model has no %s", factors);
    }
    if (side->biases != NULL &&
        (side->biases->width != 1 || side->biases->count != side->factors->count ||
         memcmp(side->biases->keys, side->factors->keys,
                side->factors->count * sizeof *side->factors->keys) != 0)) {
        return rbt_fail(RBT_E_DATA, "the model's %s do not fit its biases", factors);
    }
    return rbt_lookup_create(side->factors->keys, side->factors->count, &side->lookup);
}

rbt_status rbt_mf_model_open(const struct rbt_model *model, rbt_mf_model **scorer)
{
    rbt_mf_model *made = rbt_calloc(1, sizeof *made);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a model's keys");
    }
    rbt_status st = open_side(model, "users", "user_bias", &made->users);
    if (st == RBT_OK) {
        st = open_side(model, "items", "item_bias", &made->items);
    }
    if (st == RBT_OK && made->users.factors->width != made->items.factors->width) {
        st = rbt_fail(RBT_E_DATA, "the model's users and items differ in rank");
    }
    if (st != RBT_OK) {
        rbt_mf_model_close(made);
        return st;
    }
    made->mean = rbt_model_setting(model, "mean", 0.0);
    made->rank = made->users.factors->width;
    *scorer = made;
    return RBT_OK;
}

void rbt_mf_model_close(rbt_mf_model *scorer)
{
    if (scorer != NULL) {
        rbt_lookup_destroy(scorer->items.lookup);
        rbt_lookup_destroy(scorer->users.lookup);
        rbt_free(scorer);
    }
}

/* Factors and bias of a key; NULL and 0 if it is not known. */
struct entry {
    const float *factors;
    double bias;
};

static struct entry find(const struct side *side, uint64_t key, size_t rank)
{
    const uint32_t row = rbt_lookup_find(side->lookup, key);
    if (row == RBT_LOOKUP_MISSING) {
        return (struct entry){0};
    }
    return (struct entry){.factors = side->factors->values + (size_t)row * rank,
                          .bias = side->biases == NULL ? 0.0 : (double)side->biases->values[row]};
}

static double predicted(const rbt_mf_model *scorer, struct entry user, struct entry item)
{
    const bool is_known = user.factors != NULL && item.factors != NULL;
    const double product =
        is_known ? rbt_choose_kernels()->dot(user.factors, item.factors, scorer->rank) : 0.0;
    return scorer->mean + user.bias + item.bias + product;
}

float rbt_mf_model_score(const rbt_mf_model *scorer, uint64_t user, uint64_t item)
{
    return (float)predicted(scorer, find(&scorer->users, user, scorer->rank),
                            find(&scorer->items, item, scorer->rank));
}

static double entry_size(struct entry entry, size_t rank)
{
    const double factors =
        entry.factors == NULL ? 0.0 : rbt_choose_kernels()->norm2_squared(entry.factors, rank);
    return factors + entry.bias * entry.bias;
}

struct rbt_mf_sums rbt_mf_model_sums(const rbt_mf_model *scorer, const struct rbt_ratings *ratings,
                                     size_t first, size_t end)
{
    struct rbt_mf_sums sums = {0};
    for (size_t k = first; k < end; k++) {
        const struct entry user = find(&scorer->users, ratings->users[k], scorer->rank);
        const struct entry item = find(&scorer->items, ratings->items[k], scorer->rank);
        const double e = (double)ratings->values[k] - predicted(scorer, user, item);
        sums.errors += e * e;
        sums.sizes += entry_size(user, scorer->rank) + entry_size(item, scorer->rank);
    }
    return sums;
}

rbt_status rbt_mf_model_measure(const struct rbt_model *model, const struct rbt_ratings *ratings,
                                struct rbt_metrics *metrics)
{
    rbt_mf_model *scorer = NULL;
    const rbt_status st = rbt_mf_model_open(model, &scorer);
    if (st == RBT_OK && ratings->count > 0) {
        const struct rbt_mf_sums sums = rbt_mf_model_sums(scorer, ratings, 0, ratings->count);
        rbt_metrics_add(metrics, "rmse", sqrt(sums.errors / (double)ratings->count));
    }
    rbt_mf_model_close(scorer);
    return st;
}

static rbt_status read_ratings(const struct rbt_predict_options *options, bool has_ratings,
                               struct rbt_ratings *ratings)
{
    struct rbt_data_options data = rbt_inputs_prediction(options);
    data.format = data.format == RBT_FORMAT_AUTO ? RBT_FORMAT_RATINGS : data.format;
    data.ignores_label = !has_ratings;
    return rbt_ratings_read(&data, ratings);
}

rbt_status rbt_mf_model_predict(const struct rbt_model *model,
                                const struct rbt_predict_options *options)
{
    struct rbt_ratings ratings;
    rbt_mf_model *scorer = NULL;
    rbt_status st = read_ratings(options, false, &ratings);
    if (st != RBT_OK) {
        return st;
    }
    st = rbt_mf_model_open(model, &scorer);
    for (size_t k = 0; st == RBT_OK && k < ratings.count; k++) {
        const float score = rbt_mf_model_score(scorer, ratings.users[k], ratings.items[k]);
        fprintf(options->out, "%.9g\n", (double)score);
    }
    rbt_mf_model_close(scorer);
    rbt_ratings_free(&ratings);
    return st;
}

rbt_status rbt_mf_model_evaluate(const struct rbt_model *model,
                                 const struct rbt_predict_options *options,
                                 struct rbt_metrics *metrics)
{
    struct rbt_ratings ratings;
    rbt_status st = read_ratings(options, true, &ratings);
    if (st != RBT_OK) {
        return st;
    }
    *metrics = (struct rbt_metrics){0};
    st = rbt_mf_model_measure(model, &ratings, metrics);
    rbt_ratings_free(&ratings);
    return st;
}
