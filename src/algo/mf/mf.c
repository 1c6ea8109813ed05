/* algo/mf/mf.c - matrix factorisation of ratings by stochastic gradient descent.
 *
 * Minimises, over factors p_u and q_i of the given rank and biases bu_u and bi_i, the mean over all
 * ratings r of user u and item i of
 *
 *     e^2 + l2 (||p_u||^2 + ||q_i||^2 + bu_u^2 + bi_i^2),   e = r - mean - bu_u - bi_i - p_u'q_i
 *
 * where mean is that of all ratings. With --no-bias mean and biases are zero. With --non-negative
 * they are, too, and factors below zero become zero after every step and every pull.
 *
 * A user's ratings are all with one worker, so users move freely; items are shared, and their moves
 * are averaged by how many ratings of the item each worker has (replica.h), or with adaptive steps
 * weighed by how far they went (mf_adaptation.h). Factors start at random values that depend on the
 * key and the seed alone, so every layout of the job starts alike.
 *
 * Steps are by row, larger for rows with few ratings (mf_adaptation.h), or with --lr the same for
 * all. Without biases they are the same, too: there the first passes are spent on finding the mean,
 * and steps that adapt to its errors are too small later.
 *
 * With a rule that takes moves, only items follow it: nobody else moves a worker's users. With one
 * that takes gradients, all rows do, but a worker's users are always up to date. A row's gradient
 * is then the sum over its ratings in the chunk, at the values that the chunk began with, of half
 * of the terms above.
 *
 * Defaults were chosen on MovieLens 100K (u1, rank 16; test RMSE 0.928 after 20 epochs), the rated
 * part of MovieLens 1M and generated ratings. */
#include "algo/mf/mf.h"

#include <math.h>
#include <string.h>

#include "algo/frame/inputs.h"
#include "algo/frame/replica.h"
#include "algo/frame/training.h"
#include "algo/mf/mf_adaptation.h"
#include "algo/mf/mf_export.h"
#include "algo/mf/mf_job.h"
#include "algo/mf/mf_model.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "data/sort.h"

enum {
    EPOCHS_DEFAULT = 20,
    CLOCKS_MAX = 8, /* per epoch; see settle_clocks() */
    CLOCK_RATINGS = 320,
};

static const double init_deviation = 0.1;
static const double init_adaptive = 0.05; /* at ratings of deviation 1 */
static const double lr_default = 0.08;

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct rbt_mf_job *mf = context;
    struct rbt_table_options factors = {
        .struct_size = sizeof factors,
        .type = RBT_F32,
        .width = (uint32_t)mf->config.rank,
        .init = RBT_INIT_NORMAL,
        .init_deviation = mf->is_adaptive ? init_adaptive * sqrt(mf->scale) : init_deviation,
        .seed = mf->seed};
    if (mf->config.is_nonnegative) { /* products as large as ratings from the start */
        factors.init = RBT_INIT_UNIFORM;
        factors.init_low = 0.0;
        factors.init_high = 2.0 * sqrt(mf->level / (double)mf->config.rank);
    }
    struct rbt_table_options biases = {.struct_size = sizeof biases, .type = RBT_F32};
    struct rbt_table_options usage = {
        .struct_size = sizeof usage, .type = RBT_F64, .width = RBT_USAGE_WIDTH};
    const struct rbt_table_options sizes = {.struct_size = sizeof sizes, .type = RBT_I64};
    const struct rbt_ratings *ratings = &mf->ratings;
    rbt_training_place(mf->options, ratings->users, ratings->count, &factors);
    rbt_training_place(mf->options, ratings->users, ratings->count, &biases);
    if (mf->rules.has_gradients) {
        rbt_rules_apply_alone(&mf->rules, &factors);
        rbt_rules_apply_alone(&mf->rules, &biases);
    } else {
        factors.filter = rbt_rules_filter(&mf->rules);
        biases.filter = rbt_rules_filter(&mf->rules);
    }
    rbt_status st = rbt_table_open(job, "users", &factors, &mf->users);
    if (st == RBT_OK) {
        st = rbt_table_open(job, "user_bias", &biases, &mf->user_biases);
    }
    factors.consistency = NULL; /* items are everybody's */
    biases.consistency = NULL;
    rbt_training_place(mf->options, ratings->items, ratings->count, &factors);
    rbt_training_place(mf->options, ratings->items, ratings->count, &biases);
    rbt_training_place(mf->options, ratings->items, ratings->count, &usage);
    rbt_rules_apply(&mf->rules, &factors);
    rbt_rules_apply(&mf->rules, &biases);
    factors.seed = rbt_hash_key(mf->seed + 1); /* user 7 and item 7 must not start alike */
    if (st == RBT_OK) {
        st = rbt_table_open(job, "items", &factors, &mf->items);
    }
    if (st == RBT_OK) {
        st = rbt_table_open(job, "item_bias", &biases, &mf->item_biases);
    }
    if (st == RBT_OK) {
        st = rbt_table_open(job, "usage", &usage, &mf->usage);
    }
    if (st == RBT_OK) {
        st = rbt_table_open(job, "sizes", &sizes, &mf->sizes);
    }
    return st;
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its ratings");
}

static rbt_status begin(void *context, rbt_worker *worker)
{
    struct rbt_mf_job *mf = context;
    struct rbt_mf_worker *w = &mf->workers[rbt_worker_index(worker)];
    rbt_status st = rbt_rating_share_take(&mf->ratings, mf->seed, rbt_worker_index(worker),
                                          mf->worker_count, &w->share);
    if (st != RBT_OK) {
        return st;
    }
    w->user_counts = rbt_calloc(w->share.user_count, sizeof *w->user_counts);
    w->item_counts = rbt_calloc(w->share.item_count, sizeof *w->item_counts);
    w->item_totals = rbt_calloc(w->share.item_count, sizeof *w->item_totals);
    double *usage = rbt_calloc(w->share.item_count * RBT_USAGE_WIDTH, sizeof *usage);
    if (w->user_counts == NULL || w->item_counts == NULL || w->item_totals == NULL ||
        usage == NULL) {
        rbt_free(usage);
        return no_memory();
    }
    for (size_t k = 0; k < w->share.count; k++) {
        w->user_counts[w->share.users[k]]++;
        w->item_counts[w->share.items[k]]++;
    }
    for (size_t i = 0; i < w->share.item_count; i++) {
        usage[i * RBT_USAGE_WIDTH + RBT_USAGE_COUNT] = (double)w->item_counts[i];
    }
    const struct rbt_replica_rows rows = {mf->usage, w->share.item_keys, w->share.item_count};
    st = rbt_replica_add_usage(worker, &rows, usage);
    rbt_free(usage);
    const int64_t users = (int64_t)w->share.user_count;
    return st != RBT_OK ? st : rbt_add(worker, mf->sizes, 0, &users);
}

/* Finds out how many ratings items have in all shares. Items move by the worker's share of them,
 * unless steps are adaptive: then every clock has shares of its own (mf_step.c). */
static rbt_status tune_items(const struct rbt_mf_job *mf, rbt_worker *worker,
                             struct rbt_mf_worker *w)
{
    const struct rbt_replica_rows rows = {mf->usage, w->share.item_keys, w->share.item_count};
    double *all = rbt_calloc(rows.count * RBT_USAGE_WIDTH, sizeof *all);
    float *shares = rbt_calloc(rows.count, sizeof *shares);
    rbt_status st =
        all == NULL || shares == NULL ? no_memory() : rbt_replica_get_usage(worker, &rows, all);
    for (size_t i = 0; i < rows.count && st == RBT_OK; i++) {
        w->item_totals[i] = (float)all[i * RBT_USAGE_WIDTH + RBT_USAGE_COUNT];
        shares[i] = (float)w->item_counts[i] / w->item_totals[i];
    }
    if (st == RBT_OK && mf->config.combine == RBT_COMBINE_MEAN && !mf->is_adaptive) {
        st = rbt_replica_tune(&w->items, shares, NULL);
        if (st == RBT_OK) {
            st = rbt_replica_tune(&w->item_biases, shares, NULL);
        }
    }
    rbt_free(shares);
    rbt_free(all);
    return st;
}

static rbt_status count_parameters(const struct rbt_mf_job *mf, rbt_worker *worker, uint64_t *count)
{
    struct rbt_rows rows = {0};
    const rbt_status st =
        rbt_pull_range(worker, mf->usage, RBT_RANGE_ALL, RBT_STALENESS_OBSERVER, &rows);
    if (st != RBT_OK) {
        return st;
    }
    const uint64_t items = rows.count;
    int64_t users = 0; /* of all shares: no two share a user */
    rbt_rows_free(&rows);
    const rbt_status got = rbt_get_within(worker, mf->sizes, 0, 0, &users);
    *count =
        (items + (uint64_t)users) * (uint64_t)(mf->config.rank + (mf->config.has_bias ? 1 : 0));
    return got;
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_mf_job *mf = context;
    struct rbt_mf_worker *w = &mf->workers[rbt_worker_index(worker)];
    const struct rbt_rating_share *share = &w->share;
    const struct {
        struct rbt_replica_rows rows;
        struct rbt_replica *replica;
    } all[] = {{{mf->users, share->user_keys, share->user_count}, &w->users},
               {{mf->items, share->item_keys, share->item_count}, &w->items},
               {{mf->user_biases, share->user_keys, share->user_count}, &w->user_biases},
               {{mf->item_biases, share->item_keys, share->item_count}, &w->item_biases}};
    rbt_status st = RBT_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && st == RBT_OK; i++) {
        st = rbt_replica_open(worker, &all[i].rows, all[i].replica);
        if (st == RBT_OK && mf->rules.has_gradients) {
            st = rbt_set_manage(all[i].replica->set);
        }
    }
    if (st == RBT_OK) {
        st = tune_items(mf, worker, w);
    }
    if (st == RBT_OK && mf->is_adaptive) {
        const struct rbt_mf_adaptation_options options = {.user_ratings = w->user_counts,
                                                          .user_count = share->user_count,
                                                          .item_ratings = w->item_counts,
                                                          .item_totals = w->item_totals,
                                                          .item_count = share->item_count,
                                                          .lr = mf->rate.lr,
                                                          .scale = mf->scale};
        st = rbt_mf_adaptation_open(&options, &w->adaptation);
    }
    if (st == RBT_OK && rbt_worker_index(worker) == 0) {
        st = count_parameters(mf, worker, parameters);
    }
    return st;
}

static void end(void *context, rbt_worker *worker)
{
    struct rbt_mf_job *mf = context;
    struct rbt_mf_worker *w = &mf->workers[rbt_worker_index(worker)];
    rbt_replica_close(&w->item_biases);
    rbt_replica_close(&w->user_biases);
    rbt_replica_close(&w->items);
    rbt_replica_close(&w->users);
}

/* Biases are read after factors, and meanwhile rows may have come: keeps those of the factors. When
 * rows travel early, a bias may also be missing that the factors have: it is still zero. */
static rbt_status match_biases(const struct rbt_model_array *factors,
                               struct rbt_model_array *biases)
{
    struct rbt_model_array matched;
    if (!rbt_model_array_make(&matched, biases->name, factors->count, 1)) {
        return rbt_fail(RBT_E_NOMEM, "no memory for %zu biases", factors->count);
    }
    memcpy(matched.keys, factors->keys, factors->count * sizeof *matched.keys);
    rbt_model_array_rows(biases, factors->keys, factors->count, matched.values);
    rbt_model_array_free(biases);
    *biases = matched;
    return RBT_OK;
}

static rbt_status collect(void *context, rbt_worker *worker, int64_t staleness,
                          struct rbt_model *model)
{
    const struct rbt_mf_job *mf = context;
    rbt_table *const tables[] = {mf->users, mf->items, mf->user_biases, mf->item_biases};
    const size_t count = mf->config.has_bias ? 4 : 2;
    model->kind = RBT_MODEL_MF;
    rbt_model_set(model, "rank", (double)mf->config.rank);
    rbt_model_set(model, "l2", mf->config.l2);
    rbt_model_set(model, "mean", mf->mean);
    rbt_status st = RBT_OK;
    for (size_t i = 0; i < count && st == RBT_OK; i++) {
        st = rbt_replica_collect(worker, tables[i], staleness, &model->arrays[i]);
        model->array_count += st == RBT_OK ? 1 : 0;
        if (st == RBT_OK && mf->config.is_nonnegative) {
            rbt_mf_keep_nonnegative(model->arrays[i].values,
                                    model->arrays[i].count * (size_t)mf->config.rank);
        }
        if (st == RBT_OK && i >= 2) {
            st = match_biases(&model->arrays[i - 2], &model->arrays[i]);
        }
    }
    return st;
}

/* A worker's part of the ratings, in file order. */
static rbt_status measure(void *argument, uint32_t index)
{
    struct rbt_mf_job *mf = argument;
    const size_t first = mf->ratings.count * index / mf->worker_count;
    const size_t last = mf->ratings.count * (index + 1) / mf->worker_count;
    mf->workers[index].sums = rbt_mf_model_sums(mf->scorer, &mf->ratings, first, last);
    return RBT_OK;
}

static rbt_status objective(void *context, const struct rbt_model *model, double *objective)
{
    struct rbt_mf_job *mf = context;
    rbt_mf_model *scorer = NULL;
    rbt_status st = rbt_mf_model_open(model, &scorer);
    if (st != RBT_OK) {
        return st;
    }
    mf->scorer = scorer;
    st = rbt_thread_run(mf->worker_count, measure, mf);
    double sum = 0.0;
    for (uint32_t p = 0; p < mf->worker_count; p++) {
        sum += mf->workers[p].sums.errors + mf->config.l2 * mf->workers[p].sums.sizes;
    }
    if (st == RBT_OK) {
        *objective = sum / (double)mf->ratings.count;
    }
    mf->scorer = NULL;
    rbt_mf_model_close(scorer);
    return st;
}

static rbt_status evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics)
{
    const struct rbt_mf_job *mf = context;
    return rbt_mf_model_measure(model, &mf->eval, metrics);
}

static const struct rbt_training_task task = {.open = open_tables,
                                              .begin = begin,
                                              .ready = ready,
                                              .work = rbt_mf_step_work,
                                              .push = rbt_mf_step_push,
                                              .penalty = rbt_mf_step_penalty,
                                              .end = end,
                                              .collect = collect,
                                              .objective = objective,
                                              .evaluate = evaluate};

static rbt_status read_data(struct rbt_mf_job *mf, const struct rbt_train_options *options)
{
    struct rbt_data_options data = rbt_inputs_training(options);
    data.format = data.format == RBT_FORMAT_AUTO ? RBT_FORMAT_RATINGS : data.format;
    rbt_status st = rbt_ratings_read(&data, &mf->ratings);
    if (st == RBT_OK && mf->ratings.count == 0) {
        st = rbt_fail(RBT_E_DATA, "the training data has no ratings");
    }
    if (st == RBT_OK && options->eval.count > 0) {
        data.paths = options->eval.values;
        data.path_count = options->eval.count;
        st = rbt_ratings_read(&data, &mf->eval);
    }
    if (st == RBT_OK) {
        double sum = 0.0;
        double positive = 0.0;
        for (size_t k = 0; k < mf->ratings.count; k++) {
            sum += (double)mf->ratings.values[k];
            positive += fmax((double)mf->ratings.values[k], 0.0);
        }
        mf->level = positive / (double)mf->ratings.count;
        mf->mean = mf->config.has_bias ? sum / (double)mf->ratings.count : 0.0;
        double squares = 0.0;
        for (size_t k = 0; k < mf->ratings.count; k++) {
            const double rest = (double)mf->ratings.values[k] - mf->mean;
            squares += rest * rest;
        }
        mf->scale = squares > 0.0 ? sqrt(squares / (double)mf->ratings.count) : 1.0;
    }
    if (st == RBT_OK && mf->config.is_nonnegative && mf->level == 0.0) {
        st = rbt_fail(RBT_E_DATA,
                      "option \"--non-negative\" needs ratings above 0, but the data has none");
    }
    return st;
}

static void free_data(struct rbt_mf_job *mf)
{
    for (uint32_t p = 0; mf->workers != NULL && p < mf->worker_count; p++) {
        rbt_mf_adaptation_close(&mf->workers[p].adaptation);
        rbt_free(mf->workers[p].item_totals);
        rbt_free(mf->workers[p].item_counts);
        rbt_free(mf->workers[p].user_counts);
        rbt_rating_share_free(&mf->workers[p].share);
    }
    rbt_free(mf->workers);
    rbt_ratings_free(&mf->eval);
    rbt_ratings_free(&mf->ratings);
}

/* Step sizes, when nobody gives one, for rules whose own does not fit (docs/choosing-rules.md). */
static const struct rbt_rules_rate gradient_rates[] = {{"adam", 0.01}, {"sgd", 0.03}, {NULL, 0}};

/* What the options say about the rule, before data is read. */
static rbt_status settle_rule(struct rbt_mf_job *mf)
{
    struct rbt_rules *rules = &mf->rules;
    rbt_status st = rbt_rules_read(mf->options, rules);
    if (st == RBT_OK) {
        st = rbt_rules_combine(rules, &mf->config.combine);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (rules->has_gradients && mf->config.is_nonnegative) {
        st = rbt_fail(RBT_E_INVALID,
                      "rule \"%s\" excludes \"--non-negative\", which servers cannot enforce",
                      rules->text);
        return rbt_fail_hint(st, "Use a rule that takes moves, such as \"add\".");
    }
    if (!rules->has_gradients && mf->options->bandwidth > 0) {
        return rbt_rules_refuse_bandwidth("a rule that takes gradients, such as adarev");
    }
    if (!rules->has_gradients) {
        const bool is_default = isnan(mf->config.lr) && mf->config.has_bias && rules->is_plain &&
                                mf->config.combine == RBT_COMBINE_MEAN;
        const bool is_auto = mf->config.schedule == RBT_MF_SCHEDULE_AUTO;
        mf->is_adaptive =
            mf->config.schedule == RBT_MF_SCHEDULE_ADAPTIVE || (is_auto && is_default);
        mf->rate = (struct rbt_training_rate){
            is_auto ? RBT_SCHEDULE_DECAY : (enum rbt_schedule)mf->config.schedule,
            isnan(mf->config.lr) ? lr_default : mf->config.lr, mf->config.decay};
        return RBT_OK;
    }
    if (mf->config.schedule != RBT_MF_SCHEDULE_AUTO) {
        return rbt_rules_refuse_schedule(rules);
    }
    st = rbt_rules_give_lr(rules, mf->config.lr, gradient_rates);
    if (st == RBT_OK && rbt_rules_is(rules, "prox")) {
        st = rbt_rules_give(rules, "scale", 1);
    }
    if (st == RBT_OK) {
        st = rbt_rules_check(rules, 1); /* biases */
    }
    return st != RBT_OK ? st : rbt_rules_check(rules, (uint32_t)mf->config.rank);
}

/* Clocks per epoch. Factors of users and items grow out of small random values by each other. Where
 * items have few ratings that takes passes, and workers that hear of each other's items once per
 * pass need more of them. So there are two more clocks for each worker beyond the first, but where
 * exchanging rows would cost more than it gains no more than `wanted`: with CLOCK_RATINGS ratings
 * of an item once per pass is enough. */
static rbt_status settle_clocks(struct rbt_mf_job *mf, struct rbt_training *training)
{
    training->clocks_per_epoch = rbt_training_clocks(mf->options, &mf->rules);
    if (!mf->is_adaptive || mf->options->clocks_per_epoch > 0 || mf->worker_count == 1) {
        return RBT_OK;
    }
    uint32_t *positions = rbt_calloc(mf->ratings.count, sizeof *positions);
    struct rbt_sorted items = {0};
    const rbt_status st =
        positions == NULL
            ? no_memory()
            : rbt_sort_positions(mf->ratings.items, mf->ratings.count, positions, &items);
    if (st == RBT_OK) {
        const size_t wanted = CLOCK_RATINGS * items.count / mf->ratings.count;
        const size_t most = 2 * (size_t)mf->worker_count - 1;
        const size_t limit = most < CLOCKS_MAX ? most : CLOCKS_MAX;
        training->clocks_per_epoch = (int64_t)(wanted < 1 ? 1 : wanted < limit ? wanted : limit);
    }
    rbt_free(items.keys);
    rbt_free(positions);
    return st;
}

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_mf_config *config = settings;
    struct rbt_training training = rbt_training_of(options, observer, &task, EPOCHS_DEFAULT);
    struct rbt_mf_job mf = {.options = options,
                            .config = *config,
                            .seed = (uint64_t)options->seed,
                            .worker_count = training.workers};
    training.context = &mf;
    training.rules = &mf.rules;
    mf.config.has_bias = config->has_bias && !config->is_nonnegative;
    rbt_status st = settle_rule(&mf);
    if (st != RBT_OK) {
        return st;
    }
    mf.workers = rbt_calloc(mf.worker_count, sizeof *mf.workers);
    st = mf.workers == NULL ? no_memory() : read_data(&mf, options);
    if (st == RBT_OK) {
        st = settle_clocks(&mf, &training);
    }
    if (st == RBT_OK) {
        training.examples = mf.ratings.count;
        training.trivial = mf.scale * mf.scale;
        training.trivial_name = mf.config.has_bias ? "the mean rating" : "a model of all zeros";
        st = rbt_training_run(&training, summary);
    }
    free_data(&mf);
    return st;
}

/* In the order of enum rbt_schedule and enum rbt_mf_schedule. */
static const char *const schedules[] = {"constant", "sqrt", "decay", "adaptive", "auto", NULL};

#define ENTRY(kind, ...) RBT_OPTION_ENTRY(struct rbt_mf_config, kind, __VA_ARGS__)
static const struct rbt_option mf_options[] = {RBT_MF_OPTIONS(ENTRY)};

const struct rbt_algo rbt_mf = {
    .name = "mf",
    .summary = "Matrix factorisation of ratings, for recommendations.",
    .examples = "  rubato train mf --data ratings.csv --rank 32 --model m.rbt\n"
                "  rubato train mf --data u1.base --eval u1.test --format ratings\n",
    .model_kind = RBT_MODEL_MF,
    .options = mf_options,
    .option_count = sizeof mf_options / sizeof mf_options[0],
    .config_size = sizeof(struct rbt_mf_config),
    .costs = rbt_mf_costs,
    .cost_count = RBT_MF_COST_COUNT,
    .epochs_default = EPOCHS_DEFAULT,
    .train = train,
    .predict = rbt_mf_model_predict,
    .evaluate = rbt_mf_model_evaluate,
    .exports = rbt_mf_exports,
};
