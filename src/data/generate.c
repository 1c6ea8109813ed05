/* data/generate.c - examples and clicks from logistic models, ratings from a product of factors,
 * points around centres, and streams of keys.
 *
 * Everything is rounded to the decimals that are written before it is used, so that the files hold
 * exactly the numbers that the labels and ratings were made from.
 *
 * Threads: none. Memory: the truth, and 4 to 8 bytes per user and item.
 * Cost: 200,000 examples with 60 features take about 2 s. */
#include "data/generate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/pick.h"
#include "data/writer.h"

/* Whose random numbers these are. */
enum {
    STREAM_EXAMPLES = 1,
    STREAM_WEIGHTS,
    STREAM_RATINGS,
    STREAM_ITEMS,
    STREAM_LOADS,
    STREAM_USER_FACTORS,
    STREAM_ITEM_FACTORS,
    STREAM_CLICKS,
    STREAM_CLICK_WEIGHTS,
    STREAM_CLICK_CHOICE,
    STREAM_CLICK_SAMPLE,
    STREAM_CENTRES,
    STREAM_POINTS,
    STREAM_KEYS,
};

enum {
    VALUE_DECIMALS = 4,
    TRUTH_DECIMALS = 6,
    COUNT_MAX = 1 << 30, /* of features, users and items: what one would wait for */
    RANK_MAX = 4096,
    COLUMN_COUNT_MAX = 4096,
    SAMPLE_COUNT = 4096, /* examples by which the bias is set */
};

static const double value_unit = 1e-4;
static const double truth_unit = 1e-6;
static const double margin_deviation = 3;   /* of w.x: labels are clear, but not certain */
static const double click_rate = 0.2;       /* as in public data sets, which drop many misses */
static const double click_deviation = 2;    /* of the sum of weights */
static const double click_share = 0.2;      /* of features that have a weight */
static const double rating_mean = 3;        /* of the product of two factors */
static const double factor_deviation = 0.5; /* of an element of a factor, relative to its mean */
static const double item_power = 0.8;       /* of the popularity of items */
static const double centre_max = 10;        /* of a coordinate */

static rbt_status out_of_memory(const char *path)
{
    return rbt_fail(RBT_E_NOMEM, "could not write \"%s\": out of memory", path);
}

static rbt_status out_of_range(const char *path, const char *what)
{
    return rbt_fail(RBT_E_INVALID, "cannot generate \"%s\": %s", path, what);
}

/* Opens the file for the truth about `path`. */
static rbt_status open_truth(const char *path, struct rbt_writer *writer)
{
    const size_t size = strlen(path) + sizeof ".truth";
    char *name = rbt_calloc(size, 1);
    if (name == NULL) {
        return out_of_memory(path);
    }
    (void)snprintf(name, size, "%s.truth", path); /* it fits */
    const rbt_status st = rbt_writer_open(name, writer);
    rbt_free(name);
    return st;
}

static int64_t in_units(double number, double unit)
{
    return (int64_t)llround(number / unit);
}

/* --- Sparse examples ------------------------------------------------------------------------- */

static rbt_status check_sparse(const struct rbt_generate_sparse *options)
{
    if (options->examples == 0 || options->examples > UINT32_MAX) {
        return out_of_range(options->path, "there must be 1 to 2^32 - 1 examples");
    }
    if (options->features == 0 || options->features > COUNT_MAX) {
        return out_of_range(options->path, "there must be 1 to 2^30 features");
    }
    if (options->nonzeros == 0 || options->nonzeros > options->features) {
        return out_of_range(options->path,
                            "an example must have a nonzero, and no more than there are features");
    }
    if (!(options->power >= 0 && options->power <= 10)) {
        return out_of_range(options->path, "the power must be from 0 to 10");
    }
    if (!(options->noise >= 0 && options->noise <= 0.5)) {
        return out_of_range(options->path, "the noise must be from 0 to 0.5");
    }
    return RBT_OK;
}

/* weights[k - 1] is that of feature k. The variance of w.x is nonzeros * var(w) / 3, because values
 * are uniform in -1 .. 1. */
static rbt_status write_weights(const struct rbt_generate_sparse *options, float *weights)
{
    struct rbt_writer truth;
    const rbt_status st = open_truth(options->path, &truth);
    if (st != RBT_OK) {
        return st;
    }
    const double deviation = margin_deviation * sqrt(3 / (double)options->nonzeros);
    for (uint64_t k = 1; k <= options->features && rbt_writer_is_well(&truth); k++) {
        const double draw = rbt_rng_normal_at(options->seed, STREAM_WEIGHTS, k);
        const int64_t weight = in_units(deviation * draw, truth_unit);
        weights[k - 1] = (float)((double)weight * truth_unit);
        rbt_writer_whole(&truth, k);
        rbt_writer_text(&truth, " ");
        rbt_writer_fixed(&truth, weight, TRUTH_DECIMALS);
        rbt_writer_text(&truth, "\n");
    }
    return rbt_writer_close(&truth);
}

/* A value from -1 to 1, but not 0, in units. */
static int64_t draw_value(struct rbt_rng *rng)
{
    const uint64_t limit = 10000; /* 1 / value_unit */
    const uint64_t draw = rbt_rng_below(rng, 2 * limit);
    return draw < limit ? (int64_t)draw - (int64_t)limit : (int64_t)(draw - limit) + 1;
}

/* +1 with the probability of the logistic model, then turned around with that of the noise. */
static bool draw_label(struct rbt_rng *rng, double margin, double noise)
{
    const bool is_positive = rbt_rng_uniform(rng) < 1 / (1 + exp(-margin));
    return is_positive != (rbt_rng_uniform(rng) < noise);
}

static rbt_status write_examples(const struct rbt_generate_sparse *options, const float *weights,
                                 struct rbt_pick *pick, int64_t *values)
{
    struct rbt_writer data;
    const rbt_status st = rbt_writer_open(options->path, &data);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, STREAM_EXAMPLES, 0);
    for (uint64_t i = 0; i < options->examples && rbt_writer_is_well(&data); i++) {
        const uint64_t *keys = rbt_pick_draw(pick, &rng, options->nonzeros);
        double margin = 0;
        for (uint64_t k = 0; k < options->nonzeros; k++) {
            values[k] = draw_value(&rng);
            margin += (double)values[k] * value_unit * (double)weights[keys[k]];
        }
        rbt_writer_text(&data, draw_label(&rng, margin, options->noise) ? "+1" : "-1");
        for (uint64_t k = 0; k < options->nonzeros; k++) {
            rbt_writer_text(&data, " ");
            rbt_writer_whole(&data, keys[k] + 1);
            rbt_writer_text(&data, ":");
            rbt_writer_fixed(&data, values[k], VALUE_DECIMALS);
        }
        rbt_writer_text(&data, "\n");
    }
    return rbt_writer_close(&data);
}

rbt_status rbt_generate_sparse(const struct rbt_generate_sparse *options)
{
    rbt_status st = check_sparse(options);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_pick pick = {0};
    float *weights = rbt_calloc(options->features, sizeof *weights);
    int64_t *values = rbt_calloc(options->nonzeros, sizeof *values);
    if (weights == NULL || values == NULL ||
        !rbt_pick_init(&pick, options->features, options->power, options->nonzeros)) {
        st = out_of_memory(options->path);
    }
    st = st != RBT_OK ? st : write_weights(options, weights);
    st = st != RBT_OK ? st : write_examples(options, weights, &pick, values);
    rbt_pick_deinit(&pick);
    rbt_free(values);
    rbt_free(weights);
    return st;
}

/* --- Clicks ---------------------------------------------------------------------------------- */

static rbt_status check_clicks(const struct rbt_generate_clicks *options)
{
    if (options->examples == 0 || options->examples > (uint64_t)1 << 31) {
        return out_of_range(options->path, "there must be 1 to 2^31 examples");
    }
    if (options->columns == 0 || options->columns > COLUMN_COUNT_MAX) {
        return out_of_range(options->path, "there must be 1 to 4096 columns");
    }
    if (options->vocabulary < 2 || options->vocabulary > COUNT_MAX / options->columns) {
        return out_of_range(options->path,
                            "the vocabulary must be from 2 to 2^30 divided by the columns");
    }
    if (!(options->power >= 0 && options->power <= 10)) {
        return out_of_range(options->path, "the power must be from 0 to 10");
    }
    if (!(options->noise >= 0 && options->noise <= 0.5)) {
        return out_of_range(options->path, "the noise must be from 0 to 0.5");
    }
    return RBT_OK;
}

/* What the clicks are made from. */
struct click_model {
    struct rbt_pick *picks; /* of a value, per column */
    uint64_t *firsts;       /* index of each column's first feature; behind them: how many */
    float *weights;
    double bias;
    uint64_t *features; /* of the example at hand */
};

static void free_click_model(const struct rbt_generate_clicks *options, struct click_model *model)
{
    for (uint64_t c = 0; c < options->columns && model->picks != NULL; c++) {
        rbt_pick_deinit(&model->picks[c]);
    }
    rbt_free(model->picks);
    rbt_free(model->firsts);
    rbt_free(model->weights);
    rbt_free(model->features);
}

/* Values of a column: few of the first ones, such as a device or an hour, more and more of the
 * others. */
static uint64_t column_size(const struct rbt_generate_clicks *options, uint64_t column)
{
    const double last = (double)options->columns - 1;
    const double place = last > 0 ? (double)column / last : 1;
    return (uint64_t)llround(2 * pow((double)options->vocabulary / 2, place));
}

/* Draws an example; the sum of its weights. */
static double draw_click(const struct rbt_generate_clicks *options, struct click_model *model,
                         struct rbt_rng *rng)
{
    double sum = 0;
    for (uint64_t c = 0; c < options->columns; c++) {
        model->features[c] = model->firsts[c] + rbt_pick_draw(&model->picks[c], rng, 1)[0];
        sum += (double)model->weights[model->features[c]];
    }
    return sum;
}

/* The bias with which clicks are as frequent as they should be in a sample, by halving an interval
 * that it is in. */
static double find_bias(const struct rbt_generate_clicks *options, struct click_model *model,
                        double *sums)
{
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, STREAM_CLICK_SAMPLE, 0);
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        sums[i] = draw_click(options, model, &rng);
    }
    double low = -100;
    double high = 100;
    for (int step = 0; step < 40; step++) { /* 200 / 2^40 is less than what is written */
        const double middle = (low + high) / 2;
        double rate = 0;
        for (int i = 0; i < SAMPLE_COUNT; i++) {
            rate += 1 / (1 + exp(-(middle + sums[i])));
        }
        *(rate < click_rate * SAMPLE_COUNT ? &low : &high) = middle;
    }
    return (double)in_units((low + high) / 2, truth_unit) * truth_unit;
}

static void draw_click_weights(const struct rbt_generate_clicks *options, struct click_model *model)
{
    const double deviation = click_deviation / sqrt(click_share * (double)options->columns);
    for (uint64_t k = 0; k < model->firsts[options->columns]; k++) {
        struct rbt_rng rng;
        rbt_rng_init(&rng, options->seed, STREAM_CLICK_CHOICE, k);
        if (rbt_rng_uniform(&rng) < click_share) {
            const double draw = rbt_rng_normal_at(options->seed, STREAM_CLICK_WEIGHTS, k);
            model->weights[k] =
                (float)((double)in_units(deviation * draw, truth_unit) * truth_unit);
        }
    }
}

static rbt_status make_click_model(const struct rbt_generate_clicks *options,
                                   struct click_model *model)
{
    model->picks = rbt_calloc(options->columns, sizeof *model->picks);
    model->firsts = rbt_calloc(options->columns + 1, sizeof *model->firsts);
    model->features = rbt_calloc(options->columns, sizeof *model->features);
    double *sums = rbt_calloc(SAMPLE_COUNT, sizeof *sums);
    bool has_memory = model->picks != NULL && model->firsts != NULL && model->features != NULL;
    for (uint64_t c = 0; c < options->columns && has_memory; c++) {
        const uint64_t size = column_size(options, c);
        model->firsts[c + 1] = model->firsts[c] + size;
        has_memory = rbt_pick_init(&model->picks[c], size, options->power, 1);
    }
    if (has_memory) {
        model->weights = rbt_calloc(model->firsts[options->columns], sizeof *model->weights);
    }
    const rbt_status st =
        model->weights == NULL || sums == NULL ? out_of_memory(options->path) : RBT_OK;
    if (st == RBT_OK) {
        draw_click_weights(options, model);
        model->bias = find_bias(options, model, sums);
    }
    rbt_free(sums);
    return st;
}

static rbt_status write_click_model(const struct rbt_generate_clicks *options,
                                    const struct click_model *model)
{
    struct rbt_writer truth;
    const rbt_status st = open_truth(options->path, &truth);
    if (st != RBT_OK) {
        return st;
    }
    rbt_writer_text(&truth, "bias ");
    rbt_writer_fixed(&truth, in_units(model->bias, truth_unit), TRUTH_DECIMALS);
    rbt_writer_text(&truth, "\n");
    for (uint64_t k = 0; k < model->firsts[options->columns] && rbt_writer_is_well(&truth); k++) {
        if (model->weights[k] != 0) {
            rbt_writer_whole(&truth, k + 1);
            rbt_writer_text(&truth, " ");
            rbt_writer_fixed(&truth, in_units((double)model->weights[k], truth_unit),
                             TRUTH_DECIMALS);
            rbt_writer_text(&truth, "\n");
        }
    }
    return rbt_writer_close(&truth);
}

static rbt_status write_clicks(const struct rbt_generate_clicks *options, struct click_model *model)
{
    struct rbt_writer data;
    const rbt_status st = rbt_writer_open(options->path, &data);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, STREAM_CLICKS, 0);
    for (uint64_t i = 0; i < options->examples && rbt_writer_is_well(&data); i++) {
        const double margin = model->bias + draw_click(options, model, &rng);
        rbt_writer_text(&data, draw_label(&rng, margin, options->noise) ? "+1" : "-1");
        for (uint64_t c = 0; c < options->columns; c++) {
            rbt_writer_text(&data, " ");
            rbt_writer_whole(&data, model->features[c] + 1);
            rbt_writer_text(&data, ":1");
        }
        rbt_writer_text(&data, "\n");
    }
    return rbt_writer_close(&data);
}

rbt_status rbt_generate_clicks(const struct rbt_generate_clicks *options)
{
    rbt_status st = check_clicks(options);
    if (st != RBT_OK) {
        return st;
    }
    struct click_model model = {0};
    st = make_click_model(options, &model);
    st = st != RBT_OK ? st : write_click_model(options, &model);
    st = st != RBT_OK ? st : write_clicks(options, &model);
    free_click_model(options, &model);
    return st;
}

/* --- Ratings --------------------------------------------------------------------------------- */

static rbt_status check_ratings(const struct rbt_generate_ratings *options)
{
    if (options->users == 0 || options->users > COUNT_MAX) {
        return out_of_range(options->path, "there must be 1 to 2^30 users");
    }
    if (options->items == 0 || options->items > COUNT_MAX) {
        return out_of_range(options->path, "there must be 1 to 2^30 items");
    }
    if (options->ratings == 0 || options->ratings > options->users * options->items) {
        return out_of_range(options->path,
                            "there must be a rating, and no more than one per user and item");
    }
    if (options->rank == 0 || options->rank > RANK_MAX) {
        return out_of_range(options->path, "the rank must be from 1 to 4096");
    }
    if (!(options->noise >= 0 && options->noise <= 1000)) {
        return out_of_range(options->path, "the noise must be from 0 to 1000");
    }
    return RBT_OK;
}

/* Fills a factor: its mean is such that the product of two has the mean rating. */
static void draw_factor(const struct rbt_generate_ratings *options, uint64_t stream, uint64_t index,
                        float *factor)
{
    const double mean = sqrt(rating_mean / (double)options->rank);
    for (uint64_t k = 0; k < options->rank; k++) {
        const double draw = rbt_rng_normal_at(options->seed, stream, index * options->rank + k);
        const int64_t element = in_units(mean * (1 + factor_deviation * draw), truth_unit);
        factor[k] = (float)((double)element * truth_unit);
    }
}

static void write_factor(struct rbt_writer *truth, const char *kind, uint64_t index,
                         const struct rbt_generate_ratings *options, const float *factor)
{
    rbt_writer_text(truth, kind);
    rbt_writer_whole(truth, index + 1);
    for (uint64_t k = 0; k < options->rank; k++) {
        rbt_writer_text(truth, " ");
        rbt_writer_fixed(truth, in_units((double)factor[k], truth_unit), TRUTH_DECIMALS);
    }
    rbt_writer_text(truth, "\n");
}

/* What the ratings are made from. */
struct model {
    uint32_t *loads;    /* ratings of each user */
    uint32_t *popular;  /* items, the most popular first */
    float *factors;     /* of the items, one after the other */
    float *user_factor; /* of the user at hand */
    struct rbt_pick pick;
};

static void free_model(struct model *model)
{
    rbt_free(model->loads);
    rbt_free(model->popular);
    rbt_free(model->factors);
    rbt_free(model->user_factor);
    rbt_pick_deinit(&model->pick);
}

static double draw_weight(const struct rbt_generate_ratings *options, uint64_t user)
{
    return exp(rbt_rng_normal_at(options->seed, STREAM_LOADS, user)); /* a few have most */
}

/* Spreads the ratings over the users; nobody gets more than there are items. */
static uint32_t spread(const struct rbt_generate_ratings *options, uint32_t *loads)
{
    double total = 0;
    for (uint64_t u = 0; u < options->users; u++) {
        total += draw_weight(options, u);
    }
    double sum = 0;
    uint64_t given = 0;
    for (uint64_t u = 0; u < options->users; u++) {
        sum += draw_weight(options, u);
        const uint64_t due = (uint64_t)((double)options->ratings * (sum / total));
        const uint64_t load = due > given ? due - given : 0;
        loads[u] = (uint32_t)(load < options->items ? load : options->items);
        given += loads[u];
    }
    uint32_t load_max = 0;
    for (uint64_t u = 0; u < options->users; u++) { /* what is left, by rounding or by the limit */
        const uint64_t left = options->ratings - given;
        const uint64_t room = options->items - loads[u];
        const uint64_t more = left < room ? left : room;
        loads[u] += (uint32_t)more;
        given += more;
        load_max = loads[u] > load_max ? loads[u] : load_max;
    }
    RBT_ASSERT(given == options->ratings);
    return load_max;
}

static rbt_status make_model(const struct rbt_generate_ratings *options, struct model *model)
{
    model->loads = rbt_calloc(options->users, sizeof *model->loads);
    model->popular = rbt_calloc(options->items, sizeof *model->popular);
    model->factors = rbt_calloc(options->items, options->rank * sizeof *model->factors);
    model->user_factor = rbt_calloc(options->rank, sizeof *model->user_factor);
    if (model->loads == NULL || model->popular == NULL || model->factors == NULL ||
        model->user_factor == NULL) {
        return out_of_memory(options->path);
    }
    const uint32_t load_max = spread(options, model->loads);
    if (!rbt_pick_init(&model->pick, options->items, item_power, load_max)) {
        return out_of_memory(options->path);
    }
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, STREAM_ITEMS, 0);
    rbt_rng_permutation(&rng, model->popular, options->items);
    for (uint64_t i = 0; i < options->items; i++) {
        draw_factor(options, STREAM_ITEM_FACTORS, i, model->factors + i * options->rank);
    }
    return RBT_OK;
}

static rbt_status write_factors(const struct rbt_generate_ratings *options, struct model *model)
{
    struct rbt_writer truth;
    const rbt_status st = open_truth(options->path, &truth);
    if (st != RBT_OK) {
        return st;
    }
    for (uint64_t u = 0; u < options->users && rbt_writer_is_well(&truth); u++) {
        draw_factor(options, STREAM_USER_FACTORS, u, model->user_factor);
        write_factor(&truth, "user ", u, options, model->user_factor);
    }
    for (uint64_t i = 0; i < options->items && rbt_writer_is_well(&truth); i++) {
        write_factor(&truth, "item ", i, options, model->factors + i * options->rank);
    }
    return rbt_writer_close(&truth);
}

static double product(const float *a, const float *b, uint64_t count)
{
    double sum = 0;
    for (uint64_t k = 0; k < count; k++) {
        sum += (double)a[k] * (double)b[k];
    }
    return sum;
}

/* Writes the ratings of one user. */
static void write_user(const struct rbt_generate_ratings *options, struct model *model,
                       uint64_t user, struct rbt_writer *data)
{
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, STREAM_RATINGS, user);
    draw_factor(options, STREAM_USER_FACTORS, user, model->user_factor);
    const uint64_t *picked = rbt_pick_draw(&model->pick, &rng, model->loads[user]);
    for (uint32_t i = 0; i < model->loads[user]; i++) {
        const uint64_t item = model->popular[picked[i]];
        const double rating =
            product(model->user_factor, model->factors + item * options->rank, options->rank) +
            options->noise * rbt_rng_normal(&rng);
        rbt_writer_whole(data, user + 1);
        rbt_writer_text(data, ",");
        rbt_writer_whole(data, item + 1);
        rbt_writer_text(data, ",");
        rbt_writer_fixed(data, in_units(rating, value_unit), VALUE_DECIMALS);
        rbt_writer_text(data, "\n");
    }
}

static rbt_status write_ratings(const struct rbt_generate_ratings *options, struct model *model)
{
    struct rbt_writer data;
    const rbt_status st = rbt_writer_open(options->path, &data);
    if (st != RBT_OK) {
        return st;
    }
    rbt_writer_text(&data, "user,item,rating\n");
    for (uint64_t u = 0; u < options->users && rbt_writer_is_well(&data); u++) {
        write_user(options, model, u, &data);
    }
    return rbt_writer_close(&data);
}

rbt_status rbt_generate_ratings(const struct rbt_generate_ratings *options)
{
    rbt_status st = check_ratings(options);
    if (st != RBT_OK) {
        return st;
    }
    struct model model = {0};
    st = make_model(options, &model);
    st = st != RBT_OK ? st : write_ratings(options, &model);
    st = st != RBT_OK ? st : write_factors(options, &model);
    free_model(&model);
    return st;
}

/* --- Blobs ----------------------------------------------------------------------------------- */

static rbt_status check_blobs(const struct rbt_generate_blobs *options)
{
    if (options->points == 0 || options->points > UINT32_MAX) {
        return out_of_range(options->path, "there must be 1 to 2^32 - 1 points");
    }
    if (options->dims == 0 || options->dims > COLUMN_COUNT_MAX * UINT64_C(16)) {
        return out_of_range(options->path, "there must be 1 to 65536 dimensions");
    }
    if (options->clusters == 0 || options->clusters > COUNT_MAX / options->dims) {
        return out_of_range(options->path,
                            "there must be 1 to 2^30 divided by the dimensions clusters");
    }
    if (!(options->spread >= 0 && options->spread <= 1000)) {
        return out_of_range(options->path, "the spread must be from 0 to 1000");
    }
    return RBT_OK;
}

static rbt_status write_centres(const struct rbt_generate_blobs *options, float *centres)
{
    struct rbt_writer truth;
    const rbt_status st = open_truth(options->path, &truth);
    if (st != RBT_OK) {
        return st;
    }
    for (uint64_t c = 0; c < options->clusters && rbt_writer_is_well(&truth); c++) {
        rbt_writer_text(&truth, "centre ");
        rbt_writer_whole(&truth, c);
        for (uint64_t j = 0; j < options->dims; j++) {
            const double draw =
                rbt_rng_uniform_at(options->seed, STREAM_CENTRES, c * options->dims + j);
            const int64_t x = in_units(centre_max * (2 * draw - 1), value_unit);
            centres[c * options->dims + j] = (float)((double)x * value_unit);
            rbt_writer_text(&truth, " ");
            rbt_writer_fixed(&truth, x, VALUE_DECIMALS);
        }
        rbt_writer_text(&truth, "\n");
    }
    return rbt_writer_close(&truth);
}

static rbt_status write_points(const struct rbt_generate_blobs *options, const float *centres)
{
    struct rbt_writer data;
    const rbt_status st = rbt_writer_open(options->path, &data);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, STREAM_POINTS, 0);
    for (uint64_t j = 1; j <= options->dims; j++) {
        rbt_writer_text(&data, j == 1 ? "x" : ",x");
        rbt_writer_whole(&data, j);
    }
    rbt_writer_text(&data, "\n");
    for (uint64_t i = 0; i < options->points && rbt_writer_is_well(&data); i++) {
        const float *centre = centres + rbt_rng_below(&rng, options->clusters) * options->dims;
        for (uint64_t j = 0; j < options->dims; j++) {
            const double x = (double)centre[j] + options->spread * rbt_rng_normal(&rng);
            rbt_writer_text(&data, j == 0 ? "" : ",");
            rbt_writer_fixed(&data, in_units(x, value_unit), VALUE_DECIMALS);
        }
        rbt_writer_text(&data, "\n");
    }
    return rbt_writer_close(&data);
}

rbt_status rbt_generate_blobs(const struct rbt_generate_blobs *options)
{
    rbt_status st = check_blobs(options);
    if (st != RBT_OK) {
        return st;
    }
    float *centres = rbt_calloc(options->clusters * options->dims, sizeof *centres);
    st = centres == NULL ? out_of_memory(options->path) : write_centres(options, centres);
    st = st != RBT_OK ? st : write_points(options, centres);
    rbt_free(centres);
    return st;
}

/* --- Streams --------------------------------------------------------------------------------- */

static rbt_status check_stream(const struct rbt_generate_stream *options)
{
    if (options->inserts == 0 || options->inserts >= UINT32_MAX) {
        return out_of_range(options->path, "there must be 1 to 2^32 - 2 inserts");
    }
    if (options->keys == 0 || options->keys > COUNT_MAX) {
        return out_of_range(options->path, "there must be 1 to 2^30 keys");
    }
    if (!(options->power >= 0 && options->power <= 10)) {
        return out_of_range(options->path, "the power must be from 0 to 10");
    }
    return RBT_OK;
}

static rbt_status write_inserts(const struct rbt_generate_stream *options, struct rbt_pick *pick,
                                uint64_t *counts)
{
    struct rbt_writer data;
    const rbt_status st = rbt_writer_open(options->path, &data);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_rng rng;
    rbt_rng_init(&rng, options->seed, STREAM_KEYS, 0);
    for (uint64_t i = 0; i < options->inserts && rbt_writer_is_well(&data); i++) {
        const uint64_t key = rbt_pick_draw(pick, &rng, 1)[0];
        counts[key]++;
        rbt_writer_whole(&data, key + 1);
        rbt_writer_text(&data, "\n");
    }
    return rbt_writer_close(&data);
}

static rbt_status write_counts(const struct rbt_generate_stream *options, const uint64_t *counts)
{
    struct rbt_writer truth;
    const rbt_status st = open_truth(options->path, &truth);
    if (st != RBT_OK) {
        return st;
    }
    for (uint64_t k = 0; k < options->keys && rbt_writer_is_well(&truth); k++) {
        if (counts[k] > 0) {
            rbt_writer_whole(&truth, k + 1);
            rbt_writer_text(&truth, " ");
            rbt_writer_whole(&truth, counts[k]);
            rbt_writer_text(&truth, "\n");
        }
    }
    return rbt_writer_close(&truth);
}

rbt_status rbt_generate_stream(const struct rbt_generate_stream *options)
{
    rbt_status st = check_stream(options);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_pick pick = {0};
    uint64_t *counts = rbt_calloc(options->keys, sizeof *counts);
    if (counts == NULL || !rbt_pick_init(&pick, options->keys, options->power, 1)) {
        st = out_of_memory(options->path);
    }
    st = st != RBT_OK ? st : write_inserts(options, &pick, counts);
    st = st != RBT_OK ? st : write_counts(options, counts);
    rbt_pick_deinit(&pick);
    rbt_free(counts);
    return st;
}
