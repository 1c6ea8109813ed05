/* algo/fm/fm.c - factorisation machines: DiFacto.
 *
 * The model has a weight w_i per feature, a vector V_i of length `rank` for some, and a bias b:
 *
 *     g(x) = b + w'x + 1/2 ||Vx||^2 - 1/2 sum_i x_i^2 ||V_i||^2        (math/fm.h)
 *
 * Minimised is, for n examples, when b of them share a step (b = n / 100 if workers train copies of
 * their own),
 *
 *     (1/n) sum loss(g(x), y) + (l1 ||w||_1 + l2/2 ||w||^2) / n + l2_v/2 sum_i rho_i/b ||V_i||^2
 *
 * after Li's thesis, chapter 10. What keeps it small and general:
 *
 *   - memory-adaptive embeddings: only a feature that occurs in --min-count examples has a V_i;
 *   - V_i = 0 whenever w_i = 0: l1 decides about both. Workers leave V_i out of account then, it is
 *     neither read nor changed, and models do not have it;
 *   - frequency-adaptive regularisation: V_i is shrunk when a minibatch has the feature, which it
 *     does with the chance rho_i = 1 - (1 - n_i/n)^b, so that l2_v works as if it were l2_v rho_i.
 *
 * Steps are FTRL-proximal for w and b and AdaGrad for V. With --rule ftrl a clock is a minibatch,
 * and the servers' rules take them: DiFacto as it is printed. By default, or with a rule that takes
 * moves, every worker takes the same steps itself, example by example, on a copy of its own, and
 * sends how far it has moved (replica.h): several times faster, since a clock can be long.
 *
 * Numbers far from 1 are scaled, columns of tables are centred (fm_scale.c), and penalties are
 * found on the way (fm_tune.c). Where features are few, training begins with the linear model
 * (fm_linear.h), and ends with it if pairs bring nothing (fm_watch.c).
 *
 * Defaults were chosen on MovieLens 100K, a9a, adult, bank-marketing and generated clicks and
 * ratings, at ranks 8 and 16; see bench/RESULTS.md. */
#include "algo/fm/fm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/fm/fm_job.h"
#include "algo/fm/fm_model.h"
#include "algo/frame/inputs.h"
#include "algo/frame/sample.h"
#include "base/alloc.h"
#include "base/error.h"

enum { EPOCHS_DEFAULT = 20 };
enum { FEATURES_FEW = 1024 };
enum { MOVE_CLOCKS = 4 };                                   /* in an epoch */
enum { BATCH_MIN = 100, BATCH_MAX = 10000, BATCHES = 100 }; /* if --batch is not given */

static const double init_width = 0.01;
static const double lr_default = 0.3; /* of workers that train copies of their own */
static const double lr_v_default = 0.2;
static const double l1_default = 1;
static const double l2_default = 3;      /* where the search begins */
static const double l2_v_default = 0.04; /* the same */
static const double crowd_min = 40;      /* the sum of an example's values that changes defaults */
static const double crowd_slow = 0.3;    /* steps fall with its square, far above it more slowly */
static const double start_passes = 2;    /* that a linear model is worth */
static const double dense_part = 1.0 / 16; /* of all features, in an example */
static const double mover_seconds = 5;
static const double l2_v_useless = 10;
static const double l2_v_crowded = 100; /* the search begins with at most this */

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct rbt_fm_job *fm = context;
    struct rbt_table_options weights = {.struct_size = sizeof weights, .type = RBT_F32};
    struct rbt_table_options embeddings = {.struct_size = sizeof embeddings,
                                           .type = RBT_F32,
                                           .width = (uint32_t)fm->config.rank,
                                           .init = RBT_INIT_UNIFORM,
                                           .init_low = -init_width,
                                           .init_high = init_width,
                                           .seed = fm->seed};
    struct rbt_table_options bias = weights;
    struct rbt_table_options tuning = weights;
    struct rbt_table_options usage = {
        .struct_size = sizeof usage, .type = RBT_F64, .width = RBT_USAGE_WIDTH};
    const struct rbt_examples *examples = &fm->examples;
    rbt_training_place(&fm->options, examples->keys, examples->offsets[examples->count], &weights);
    embeddings.placement = usage.placement = weights.placement;
    embeddings.keys_max = usage.keys_max = weights.keys_max;
    tuning.width = RBT_FM_TUNE_WIDTH;
    rbt_rules_apply(&fm->rules, &weights);
    rbt_rules_apply(&fm->embedding_rules, &embeddings);
    rbt_rules_apply(&fm->bias_rules, &bias);
    rbt_status st = rbt_table_open(job, "weights", &weights, &fm->weights);
    if (st == RBT_OK) {
        st = rbt_table_open(job, "embeddings", &embeddings, &fm->embeddings);
    }
    if (st == RBT_OK) {
        st = rbt_table_open(job, "bias", &bias, &fm->bias);
    }
    if (st == RBT_OK) {
        st = rbt_table_open(job, "tuning", &tuning, &fm->tuning);
    }
    return st != RBT_OK ? st : rbt_table_open(job, "usage", &usage, &fm->usage);
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its examples");
}

/* Leaves out embeddings that do not count, and weights that are zero. An embedding without a weight
 * that counts all the same gets one of zero, so that every feature of the model has one. Embeddings
 * that nobody has moved are not in the table, and left out, too. */
static rbt_status tidy_up(bool is_shrunk, struct rbt_model_array *weights,
                          struct rbt_model_array *embeddings)
{
    const size_t width = embeddings->width;
    const size_t room = weights->count + embeddings->count;
    uint64_t *keys = rbt_calloc(room, sizeof *keys);
    float *values = rbt_calloc(room, sizeof *values);
    if (keys == NULL || values == NULL) {
        rbt_free(values);
        rbt_free(keys);
        return rbt_fail(RBT_E_NOMEM, "no memory for a model of %zu features", room);
    }
    size_t kept = 0;
    size_t kept_embeddings = 0;
    for (size_t i = 0, at = 0; i < weights->count || at < embeddings->count;) {
        const uint64_t w_key = i < weights->count ? weights->keys[i] : UINT64_MAX;
        const uint64_t v_key = at < embeddings->count ? embeddings->keys[at] : UINT64_MAX;
        const bool is_weight = i < weights->count && w_key <= v_key;
        const bool is_embedding = at < embeddings->count && v_key <= w_key;
        const float weight = is_weight ? weights->values[i] : 0.0F;
        const bool counts = is_embedding && (weight != 0.0F || !is_shrunk);
        if (counts) {
            embeddings->keys[kept_embeddings] = v_key;
            memmove(embeddings->values + kept_embeddings++ * width, embeddings->values + at * width,
                    width * sizeof *embeddings->values);
        }
        if (counts || weight != 0.0F) {
            keys[kept] = is_weight ? w_key : v_key;
            values[kept++] = weight;
        }
        i += is_weight ? 1 : 0;
        at += is_embedding ? 1 : 0;
    }
    rbt_free(weights->keys);
    rbt_free(weights->values);
    weights->keys = keys;
    weights->values = values;
    weights->count = kept;
    embeddings->count = kept_embeddings;
    return RBT_OK;
}

/* A bias that nobody has moved is not in the table, but labels may have been shifted. */
static rbt_status have_row(struct rbt_model_array *bias)
{
    if (bias->count > 0) {
        return RBT_OK;
    }
    rbt_model_array_free(bias);
    return rbt_model_array_make(bias, "bias", 1, 1) ? RBT_OK : no_memory();
}

/* The penalties that were found. */
static rbt_status keep_tuning(const struct rbt_fm_job *fm, rbt_worker *worker, int64_t staleness,
                              struct rbt_model *model)
{
    static const float zeros[RBT_FM_TUNE_WIDTH] = {0};
    struct rbt_rows rows = {0};
    const rbt_status st = rbt_fm_is_tuned(fm)
                              ? rbt_pull_range(worker, fm->tuning, RBT_RANGE_ALL, staleness, &rows)
                              : RBT_OK;
    const float *row = rows.count > 0 ? rows.values : zeros;
    rbt_model_set(model, "l2", rbt_fm_tune_l2(fm, row));
    rbt_model_set(model, "l2_v", rbt_fm_tune_l2_v(fm, row));
    rbt_rows_free(&rows);
    return st;
}

static rbt_status collect(void *context, rbt_worker *worker, int64_t staleness,
                          struct rbt_model *model)
{
    const struct rbt_fm_job *fm = context;
    rbt_table *const tables[] = {fm->weights, fm->embeddings, fm->bias};
    const size_t count = fm->config.has_bias ? 3 : 2;
    model->kind = RBT_MODEL_FM;
    rbt_model_set(model, "loss", fm->loss);
    rbt_model_set(model, "rank", (double)fm->config.rank);
    rbt_model_set(model, "min_count", (double)fm->config.min_count);
    rbt_model_set(model, "l1", fm->config.l1);
    rbt_model_set(model, "label_positive", (double)fm->examples.label_positive);
    rbt_column_options_keep_count(fm->examples.column_count, model);
    rbt_status st = keep_tuning(fm, worker, staleness, model);
    for (size_t i = 0; i < count && st == RBT_OK; i++) {
        st = rbt_replica_collect(worker, tables[i], staleness, &model->arrays[i]);
        model->array_count += st == RBT_OK ? 1 : 0;
    }
    if (st == RBT_OK) {
        st = tidy_up(fm->config.is_shrunk, &model->arrays[RBT_FM_WEIGHTS],
                     &model->arrays[RBT_FM_EMBEDDINGS]);
    }
    if (st == RBT_OK && fm->config.has_bias) {
        st = have_row(&model->arrays[RBT_FM_BIAS]);
    }
    if (st == RBT_OK) {
        st = rbt_fm_scale_model(&fm->scales, model, true);
    }
    return st != RBT_OK ? st : rbt_column_options_store(&fm->data, model);
}

static const struct rbt_training_task task = {.open = open_tables,
                                              .begin = rbt_fm_begin,
                                              .ready = rbt_fm_ready,
                                              .work = rbt_fm_work,
                                              .push = rbt_fm_push,
                                              .penalty = rbt_fm_penalty,
                                              .end = rbt_fm_end,
                                              .collect = collect,
                                              .objective = rbt_fm_objective,
                                              .evaluate = rbt_fm_evaluate,
                                              .watch = rbt_fm_watch,
                                              .settle = rbt_fm_watch_settle};

/* The sum of the values of an example, as a multiple of one that defaults were made for, or 1. */
static double crowd_of(const struct rbt_examples *examples)
{
    double sum = 0.0;
    for (uint64_t k = 0; k < examples->offsets[examples->count]; k++) {
        sum += fabs((double)examples->values[k]);
    }
    return fmax(1.0, sum / (double)examples->count / crowd_min);
}

/* Whether there are so few features, or examples have so many of them, that a linear model's exact
 * minimum is what `train linear` finds, too. (Of sparse data that is worse than what is found when
 * steps end early: 20 newsgroups, odd against even, logloss 0.35 and 0.32.) */
static rbt_status find_dense(struct rbt_fm_job *fm)
{
    const struct rbt_examples *examples = &fm->examples;
    const double row = (double)examples->offsets[examples->count] / (double)examples->count;
    const double most = fmax(FEATURES_FEW, row / dense_part);
    struct rbt_map features;
    rbt_status st = rbt_map_init(&features, 64);
    fm->is_dense = true;
    for (uint64_t k = 0; st == RBT_OK && fm->is_dense && k < examples->offsets[examples->count];
         k++) {
        if (rbt_map_find(&features, examples->keys[k]) == RBT_MAP_NONE) {
            st = rbt_map_reserve(&features, 1);
            if (st == RBT_OK) {
                rbt_map_insert(&features, examples->keys[k], 0);
            }
            fm->is_dense = (double)features.count <= most;
        }
    }
    rbt_map_deinit(&features);
    return st;
}

/* How many workers train. Where every worker moves most features, or many at once, from values that
 * do not have the moves of others yet, what comes of it is not what one worker finds (housing,
 * rmse: 64,800 of one, 66,500 of two, 66,600 of 32; imdb, logloss: 0.284 of one, 0.288 of
 * eight). So there are only as many as it takes to be done in some seconds each, the others wait.
 */
static uint32_t count_movers(const struct rbt_fm_job *fm)
{
    const struct rbt_examples *examples = &fm->examples;
    const double nonzeros = (double)examples->offsets[examples->count];
    const double rank = (double)fm->config.rank;
    const double seconds =
        1e-9 * (double)fm->epochs * nonzeros *
        (rbt_fm_costs[RBT_FM_NONZERO].ns + rbt_fm_costs[RBT_FM_NONZERO_RANK].ns * rank);
    const double enough = fmax(1.0, ceil(seconds / mover_seconds));
    const bool is_limited = fm->is_fitted && (fm->is_dense || crowd_of(examples) > 1);
    return is_limited && enough < (double)fm->worker_count ? (uint32_t)enough : fm->worker_count;
}

/* What has to be known of the examples as they are in the file. */
static rbt_status look_ahead(struct rbt_fm_job *fm)
{
    if (!fm->rules.is_plain || !rbt_fm_watch_is_wanted(fm)) {
        return RBT_OK;
    }
    const rbt_status st = find_dense(fm);
    return st == RBT_OK && fm->is_dense && fm->is_l2_tuned ? rbt_fm_linear_sample(fm) : st;
}

/* Where training is watched it begins with a linear model, if that is a good one, and unless a rule
 * would change what is added to tables. */
static rbt_status begin_linear(struct rbt_fm_job *fm)
{
    if (fm->watch.held.count == 0 || !fm->rules.is_plain) {
        return RBT_OK;
    }
    fm->movers = count_movers(fm);
    if (!fm->is_dense) {
        return RBT_OK;
    }
    const rbt_status st = rbt_fm_linear_take(fm);
    fm->is_l2_found = fm->is_l2_tuned;
    fm->is_l2_tuned = false;
    fm->config.l2 = fm->is_l2_found ? fm->linear.total / (fm->scales.common * fm->scales.common)
                                    : fm->config.l2;
    fm->start_passes = start_passes;
    return st != RBT_OK ? st : rbt_fm_watch_take_linear(fm);
}

/* Chooses the examples that are held out, before rounding of units can change what they are; then
 * puts all into units. */
static rbt_status hold_out(struct rbt_fm_job *fm)
{
    const size_t count = rbt_fm_tune_held_out(fm->examples.count);
    const bool is_wanted = rbt_fm_is_tuned(fm) || rbt_fm_watch_is_wanted(fm);
    uint32_t *places = NULL;
    size_t chosen = 0;
    rbt_status st =
        is_wanted ? rbt_sample_places(&fm->examples, fm->seed, count, &places, &chosen) : RBT_OK;
    st = st != RBT_OK ? st : rbt_fm_part_draw(fm, places, chosen);
    st = st != RBT_OK ? st : look_ahead(fm);
    st = st != RBT_OK ? st : rbt_fm_scale_take(fm);
    st = st != RBT_OK ? st : rbt_fm_watch_take(fm, places, chosen);
    rbt_free(places);
    return st != RBT_OK ? st : begin_linear(fm);
}

static rbt_status read_data(struct rbt_fm_job *fm)
{
    const struct rbt_train_options *options = &fm->options;
    struct rbt_data_options *data = &fm->data;
    *data = rbt_inputs_training(options);
    data->has_binary_label = fm->loss != RBT_LOSS_SQUARED;
    data->is_binary_only = true;
    rbt_column_options_apply(&fm->config.columns, &fm->plan, data);
    rbt_status st = rbt_examples_read(data, &fm->examples);
    if (st == RBT_OK && fm->examples.count == 0) {
        st = rbt_fail(RBT_E_DATA, "the training data has no examples");
    }
    st = st != RBT_OK ? st : hold_out(fm);
    if (st == RBT_OK && options->eval.count > 0) {
        rbt_inputs_name_eval(options, &fm->examples, data);
        st = rbt_examples_read(data, &fm->eval);
        if (st == RBT_OK) {
            st = rbt_share_take(&fm->eval, fm->seed, 0, 1, &fm->eval_share);
        }
    }
    if (st == RBT_OK && options->is_exact) {
        st = rbt_share_take(&fm->examples, fm->seed, 0, 1, &fm->whole);
    }
    return st;
}

static void free_data(struct rbt_fm_job *fm)
{
    for (uint32_t p = 0; fm->workers != NULL && p < fm->worker_count; p++) {
        rbt_fm_part_free(&fm->workers[p]);
    }
    rbt_fields_free(&fm->plan);
    rbt_free(fm->workers);
    rbt_rows_free(&fm->counts);
    rbt_free(fm->order);
    rbt_fm_watch_free(&fm->watch);
    rbt_fm_linear_free(&fm->linear);
    rbt_share_free(&fm->whole);
    rbt_share_free(&fm->eval_share);
    rbt_examples_free(&fm->eval);
    rbt_examples_free(&fm->examples);
    rbt_fm_scale_free(&fm->scales);
}

/* Step sizes, when nobody gives one, for rules whose own does not fit. */
static const struct rbt_rules_rate gradient_rates[] = {{"adam", 0.005}, {"sgd", 0.0003}, {NULL, 0}};

/* The step size of AdaGrad for embeddings. Gradients of all workers, each from the same stale
 * values, come at once, and those of embeddings grow with the embeddings: with many workers long
 * steps run away (generated clicks, 16 workers, essp:2: logloss 0.58 with 0.1, 0.40 with 0.02). */
static double embedding_rate(const struct rbt_fm_job *fm)
{
    const double lr_v = fmin(0.1, 0.2 / (double)fm->worker_count);
    const double l2_v = fm->config.l2_v;
    /* The rule's penalty is that of the embedding before the step, which must not turn it around.
     */
    return isnan(fm->config.lr_v) ? fmin(lr_v, l2_v > 0 ? 1 / l2_v : lr_v) : fm->config.lr_v;
}

/* The embeddings have AdaGrad where the weights have FTRL, which would make them zero; and else the
 * same rule as the weights. */
static rbt_status settle_embeddings(struct rbt_fm_job *fm)
{
    struct rbt_rules *own = &fm->embedding_rules;
    rbt_status st = RBT_OK;
    *own = fm->rules;
    if (!rbt_rules_is(own, "ftrl")) {
        if (!isnan(fm->config.lr_v)) {
            rbt_rules_drop(own, "lr");
            st = rbt_rules_give(own, "lr", fm->config.lr_v);
        }
        return st != RBT_OK ? st : rbt_rules_check(own, (uint32_t)fm->config.rank);
    }
    if (fm->config.lr_v * fm->config.l2_v >= 2) { /* false if one is not given */
        st = rbt_fail(RBT_E_INVALID,
                      "with rule \"ftrl\", \"--lr-v\" times \"--l2-v\" must be below 2");
        return rbt_fail_hint(st, "Lower one of them, or omit --rule: with a larger product "
                                 "embeddings grow at every step.");
    }
    struct rbt_train_options options = fm->options;
    options.rule = "adagrad";
    st = rbt_rules_read(&options, own);
    own->options = &fm->options;
    st = st != RBT_OK ? st : rbt_rules_give(own, "lr", embedding_rate(fm));
    st = st != RBT_OK ? st : rbt_rules_give(own, "beta", 1);
    st = st != RBT_OK ? st : rbt_rules_give(own, "mu", fm->config.l2_v);
    return st != RBT_OK ? st : rbt_rules_check(own, (uint32_t)fm->config.rank);
}

/* Gradients are sums over minibatches. Only FTRL knows penalties. */
static rbt_status settle_gradients(struct rbt_fm_job *fm)
{
    struct rbt_fm_config *config = &fm->config;
    struct rbt_rules *rules = &fm->rules;
    const bool is_ftrl = rbt_rules_is(rules, "ftrl");
    if (!is_ftrl && (config->l1 > 0 || config->l2 > 0 || config->l2_v > 0)) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "rule \"%s\" does not support \"%s\"", rules->text,
                     config->l1 > 0   ? "--l1"
                     : config->l2 > 0 ? "--l2"
                                      : "--l2-v");
        return rbt_fail_hint(st, "Use rule \"ftrl\" or \"add\".");
    }
    rbt_status st = rbt_rules_give_lr(rules, config->lr, gradient_rates);
    config->l1 = isnan(config->l1) ? (is_ftrl ? l1_default : 0) : config->l1;
    config->l2 = isnan(config->l2) ? 0 : config->l2;
    config->l2_v = isnan(config->l2_v) ? (is_ftrl ? l2_v_default : 0) : config->l2_v;
    if (st == RBT_OK && is_ftrl) {
        /* Its penalty stands against the sum of all gradients that it will have seen. */
        st = rbt_rules_give(rules, "l1", config->l1 * (double)fm->epochs);
        st = st != RBT_OK ? st : rbt_rules_give(rules, "l2", config->l2 * (double)fm->epochs);
    }
    fm->bias_rules = *rules;
    rbt_rules_drop(&fm->bias_rules, "l1");
    rbt_rules_drop(&fm->bias_rules, "l2");
    st = st != RBT_OK ? st : rbt_rules_check(rules, 1);
    return st != RBT_OK ? st : settle_embeddings(fm);
}

/* What the options say about the rule, before data is read. */
static rbt_status settle_rule(struct rbt_fm_job *fm)
{
    struct rbt_fm_config *config = &fm->config;
    struct rbt_rules *rules = &fm->rules;
    if (fm->options.bandwidth > 0) {
        return rbt_rules_refuse_bandwidth("lda, linear or mf");
    }
    rbt_status st = rbt_rules_read(&fm->options, rules);
    fm->is_fitted = config->combine == RBT_COMBINE_AUTO && rules->is_plain;
    if (st == RBT_OK) {
        st = rbt_rules_combine(rules, &config->combine);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (rules->has_gradients) {
        st = settle_gradients(fm);
    } else {
        fm->is_tuned = isnan(config->l2_v);
        fm->is_l2_tuned = isnan(config->l2);
        config->l2 = fm->is_l2_tuned ? l2_default : config->l2;
        fm->embedding_rules = *rules;
        fm->bias_rules = *rules;
    }
    fm->bias_rules.filter[0] = '\0'; /* one number */
    return st;
}

/* Defaults that depend on the data. Weights of an example move together, so where it has many
 * features each must move less, and can say less than l1 asks of it (20 newsgroups, odd against
 * even: logloss 0.333 with l1 1, 0.322 with 0.08). Pairs are as many as the square, and noise until
 * l2_v has been found, which spoils the weights meanwhile (0.50 after seven passes). So the search
 * for it begins almost without them there. */
static void settle_defaults(struct rbt_fm_job *fm)
{
    struct rbt_fm_config *config = &fm->config;
    if (fm->rules.has_gradients) {
        return;
    }
    const double crowd = crowd_of(&fm->examples);
    const double part = fmin(1, fmax(1 / crowd, crowd_slow) / crowd);
    config->lr = isnan(config->lr) ? part * lr_default : config->lr;
    config->lr_v = isnan(config->lr_v) ? part * lr_v_default : config->lr_v;
    config->l1 = isnan(config->l1) ? part * l1_default : config->l1;
    if (fm->is_tuned) {
        config->l2_v = fmin(l2_v_crowded, l2_v_default / (part * part * part));
    }
}

/* How many clocks an epoch has: as many as minibatches, of all workers together. */
static int64_t count_clocks(const struct rbt_fm_job *fm)
{
    if (fm->options.clocks_per_epoch > 0) {
        return fm->options.clocks_per_epoch;
    }
    const int64_t n = (int64_t)fm->examples.count;
    int64_t batch = fm->config.batch;
    if (batch == 0 && !fm->rules.has_gradients) {
        return MOVE_CLOCKS;
    }
    if (batch == 0) {
        batch = n / BATCHES;
        batch = batch < BATCH_MIN ? BATCH_MIN : batch > BATCH_MAX ? BATCH_MAX : batch;
    }
    return n <= batch ? 1 : (n + batch - 1) / batch;
}

/* The penalties that were found. */
static void say_penalties(const struct rbt_fm_job *fm, char *text, size_t size)
{
    const double l2_v = fm->found_l2_v;
    const bool has_l2 = fm->is_l2_tuned || fm->is_l2_found;
    const char *pairs = l2_v >= l2_v_useless ? ", which leaves nothing of pairs" : "";
    if (fm->watch.is_linear && has_l2) {
        (void)snprintf(text, size, "l2 %.3g, on held-out examples", fm->found_l2);
    } else if (fm->watch.is_linear) {
        return; /* the other one was of no use */
    } else if (has_l2 && fm->is_tuned) {
        (void)snprintf(text, size, "l2 %.3g and l2_v %.3g, on held-out examples%s", fm->found_l2,
                       l2_v, pairs);
    } else if (fm->is_tuned) {
        (void)snprintf(text, size, "l2_v %.3g, on held-out examples%s", l2_v, pairs);
    } else if (has_l2) {
        (void)snprintf(text, size, "l2 %.3g, on held-out examples", fm->found_l2);
    }
}

/* That not all workers train, if so. */
static void say_movers(const struct rbt_fm_job *fm, char *text, size_t size)
{
    const size_t used = strlen(text);
    if (fm->movers < fm->worker_count) {
        (void)snprintf(text + used, size - used, "%s%u of %u workers trained", used > 0 ? "; " : "",
                       fm->movers, fm->worker_count);
    }
}

/* What was found out, for the summary; nothing in processes without worker 0. */
static void say_choices(const struct rbt_fm_job *fm, struct rbt_train_summary *summary)
{
    if (fm->is_over) {
        char *const text = summary->chosen;
        say_penalties(fm, text, sizeof summary->chosen);
        const size_t used = strlen(text);
        rbt_fm_watch_say(fm, summary->epochs, text + used, sizeof summary->chosen - used);
        say_movers(fm, text, sizeof summary->chosen);
    }
}

static const enum rbt_loss losses[] = {RBT_LOSS_LOGISTIC, RBT_LOSS_SQUARED};
static const char *const loss_names[] = {"logistic", "squared", NULL};

static rbt_status train(const struct rbt_train_options *options, const void *settings,
                        const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_fm_config *config = settings;
    struct rbt_training training = rbt_training_of(options, observer, &task, EPOCHS_DEFAULT);
    struct rbt_fm_job fm = {.options = *options,
                            .config = *config,
                            .loss = losses[config->loss],
                            .seed = (uint64_t)options->seed,
                            .epochs = training.epochs,
                            .worker_count = training.workers,
                            .movers = training.workers};
    training.options = &fm.options;
    training.context = &fm;
    training.rules = &fm.rules;
    fm.config.min_count = config->min_count == 0 ? 2 * config->rank : config->min_count;
    rbt_status st = settle_rule(&fm);
    if (st != RBT_OK) {
        return st;
    }
    fm.workers = rbt_calloc(fm.worker_count, sizeof *fm.workers);
    st = fm.workers == NULL ? no_memory() : read_data(&fm);
    if (st == RBT_OK) {
        settle_defaults(&fm);
        fm.clocks_per_epoch = count_clocks(&fm);
        training.clocks_per_epoch = fm.clocks_per_epoch;
        training.examples = fm.examples.count;
        training.is_watched = fm.watch.held.count > 0;
        st = rbt_training_run(&training, summary);
    }
    if (st == RBT_OK) {
        say_choices(&fm, summary);
    }
    free_data(&fm);
    return st;
}

#define ENTRY(kind, ...)         RBT_OPTION_ENTRY(struct rbt_fm_config, kind, __VA_ARGS__)
#define COLUMN(kind, field, ...) ENTRY(kind, columns.field, __VA_ARGS__)
static const struct rbt_option fm_options[] = {RBT_FM_OPTIONS(ENTRY)
                                                   RBT_COLUMN_OPTIONS(COLUMN, COLUMN)};

static const struct rbt_algo_export exports[] = {
    {"libfm", "libFM's text", rbt_fm_model_write_libfm}, {0}};

const struct rbt_algo rbt_fm = {
    .name = "fm",
    .summary = "Factorisation machines: linear models with pairs of features.",
    .examples = "  rubato train fm --data train.svm --eval test.svm --model m.rbt\n"
                "  rubato train fm --data train.svm --rank 64 --min-count 100 --l1 10\n",
    .model_kind = RBT_MODEL_FM,
    .options = fm_options,
    .option_count = sizeof fm_options / sizeof fm_options[0],
    .config_size = sizeof(struct rbt_fm_config),
    .costs = rbt_fm_costs,
    .cost_count = RBT_FM_COSTS,
    .epochs_default = EPOCHS_DEFAULT,
    .train = train,
    .predict = rbt_fm_model_predict,
    .evaluate = rbt_fm_model_evaluate,
    .why_uncertain = rbt_fm_model_why_uncertain,
    .exports = exports,
    .describe = rbt_fm_model_describe,
};
