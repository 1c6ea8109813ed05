/* algo/linear/linear_auto.c - what nobody has said: --solver auto, which, if the options leave it
 * the choice, is newton where features are few and lbfgs where examples in memory have many of
 * them, as long as that takes little time, else sgd; --l2, which is looked for (penalty.h) on a
 * sample of the examples that depends on the seed and on what they are, not on their order; and how
 * examples are changed for solvers (standard.h). Every process that has workers does so, as it
 * reads all the data, and finds the same, wherever examples are kept. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/frame/penalty.h"
#include "algo/linear/linear_job.h"
#include "algo/linear/linear_solvers.h"
#include "algo/linear/linear_stream.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "math/loss.h"

enum { FEATURES_MAX = 1024 }; /* of newton */

/* Examples are dense if they have this part of all features: there many workers' steps of sgd get
 * into each other's way. lbfgs needs about so many looks at the data, and each takes this time for
 * a nonzero of a class, if one worker does it all. */
static const double dense_part = 1.0 / 16;
static const double looks = 150.0;
static const double seconds_per_product = 1.5e-9;
static const double seconds_max = 30.0;
static const double weights_max = 1e6;

/* Consistencies that do not ask for anything: the default, and what newton does anyway. */
static bool is_plain(const char *consistency)
{
    return consistency == NULL || strcmp(consistency, "essp:2") == 0 ||
           strcmp(consistency, "bsp") == 0;
}

bool rbt_linear_auto_is_open(const struct rbt_train_options *options,
                             const struct rbt_linear_config *config)
{
    const bool asks_for_steps = options->epochs > 0 || options->clocks_per_epoch > 0 ||
                                options->rule != NULL || options->filter != NULL ||
                                options->bandwidth > 0 || options->is_synchronised ||
                                options->patience > 0 || !isnan(options->target) ||
                                options->until > 0 || !is_plain(options->consistency);
    const bool has_steps = !isnan(config->lr) || !isnan(config->decay) || config->batch != 1 ||
                           config->schedule != RBT_LINEAR_SCHEDULE_AUTO ||
                           config->scale != RBT_SCALE_AUTO || config->combine != RBT_COMBINE_AUTO;
    const bool is_spread = config->is_rebalanced || config->assign != RBT_ASSIGN_STATIC;
    return !asks_for_steps && !has_steps && !is_spread && config->loss != RBT_LOSS_HINGE &&
           config->l1 == 0.0;
}

/* How many different features there are, or more than `most` if they are many; also if there is no
 * memory to count them. */
static size_t count_features(const struct rbt_examples *examples, size_t most)
{
    size_t slot_count = 64;
    while (slot_count < 2 * most) {
        slot_count *= 2;
    }
    uint64_t *slots = rbt_calloc(slot_count, sizeof *slots); /* keys + 1; 0: empty */
    size_t count = slots != NULL ? 0 : most + 1;
    for (uint64_t k = 0; count <= most && k < examples->offsets[examples->count]; k++) {
        const uint64_t key = examples->keys[k];
        size_t at = (size_t)(rbt_hash_key(key) % slot_count);
        while (slots[at] != 0 && slots[at] != key + 1) {
            at = (at + 1) % slot_count;
        }
        count += slots[at] == 0;
        slots[at] = key + 1;
    }
    rbt_free(slots);
    return count;
}

const struct rbt_linear_solver *rbt_linear_auto_solver(const struct rbt_linear_job *linear)
{
    const bool is_streamed = rbt_linear_is_streamed(linear);
    const double dense_max = linear->nonzeros / (double)linear->examples.count / dense_part;
    const double classes = (double)linear->width;
    size_t features = 0;
    if (is_streamed) {
        (void)rbt_linear_stream_keys(linear, &features);
    } else {
        const double most = fmin(fmax(dense_max, FEATURES_MAX), weights_max);
        features = count_features(&linear->examples, (size_t)most);
    }
    if (features > 0 && features <= FEATURES_MAX && rbt_linear_newton_fits(linear, features)) {
        return &rbt_linear_newton;
    }
    const bool is_dense = (double)features <= dense_max;
    const bool is_quick = looks * linear->nonzeros * classes * seconds_per_product <= seconds_max;
    return !is_streamed && features > 0 && is_dense && is_quick &&
                   (double)features * classes <= weights_max
               ? &rbt_linear_lbfgs
               : &rbt_linear_sgd;
}

void rbt_linear_auto_say(struct rbt_linear_job *linear, const char *words)
{
    const size_t used = strlen(linear->chosen);
    snprintf(linear->chosen + used, sizeof linear->chosen - used, "%s%s", used > 0 ? "; " : "",
             words);
}

/* The penalty that the sample tells; that of too few examples if there is no room for it. */
static rbt_status find_penalty(const struct rbt_linear_job *linear, struct rbt_penalty *found)
{
    const struct rbt_penalty_options options = {.loss = (enum rbt_loss)linear->config.loss,
                                                .classes = linear->width,
                                                .has_bias = linear->config.has_bias};
    *found = (struct rbt_penalty){.total = 1.0};
    if (linear->sample.examples.count == 0) {
        return RBT_OK;
    }
    struct rbt_share share;
    rbt_status st = rbt_sample_share(&linear->sample, &share);
    if (st != RBT_OK) {
        return st;
    }
    if (!rbt_linear_is_streamed(linear) ||
        rbt_penalty_bytes(&share, &options) < rbt_linear_stream_spare(linear)) {
        st = rbt_penalty_find(&share, &options, found);
    }
    rbt_share_free(&share);
    return st;
}

/* Whether a penalty is to be looked for. Beside another one it is the solver's to say. */
static bool wants_penalty(const struct rbt_linear_config *config)
{
    return isnan(config->l2) && config->l1 == 0.0;
}

void rbt_linear_auto_count(struct rbt_linear_job *linear, const struct rbt_examples *part)
{
    for (size_t i = 0; i < part->count; i++) {
        const double length = (double)(part->offsets[i + 1] - part->offsets[i]);
        linear->nonzeros += length;
        linear->squares += length * length;
    }
}

/* Finds out how examples are changed, and takes a sample of them, which is not changed yet. */
static rbt_status look(struct rbt_linear_job *linear)
{
    const struct rbt_examples *examples = &linear->examples;
    const bool wants_sample = wants_penalty(&linear->config);
    const struct rbt_standard_options options = {.has_shift = linear->config.has_bias,
                                                 .has_label = false,
                                                 .has_scale = examples->column_count > 0};
    linear->sample.seed = linear->seed;
    if (rbt_linear_is_streamed(linear)) {
        return rbt_linear_stream_look(linear, &options, wants_sample);
    }
    rbt_linear_auto_count(linear, examples);
    rbt_status st = rbt_standard_find(examples, &options, &linear->standard);
    if (st == RBT_OK && wants_sample) {
        const uint64_t nonzeros = examples->offsets[examples->count];
        st = rbt_sample_choose(&linear->sample, examples,
                               rbt_penalty_examples(examples->count, nonzeros, linear->width));
    }
    return st != RBT_OK ? st : rbt_standard_apply(&linear->standard, &linear->examples);
}

rbt_status rbt_linear_auto_look(struct rbt_linear_job *linear)
{
    const rbt_status st = look(linear);
    return st != RBT_OK || linear->sample.examples.count == 0
               ? st
               : rbt_standard_apply(&linear->standard, &linear->sample.examples);
}

rbt_status rbt_linear_auto_penalty(struct rbt_linear_job *linear)
{
    struct rbt_linear_config *config = &linear->config;
    struct rbt_penalty found = {0};
    char words[RBT_TRAIN_WORDS_MAX];
    if (!wants_penalty(config)) {
        return RBT_OK;
    }
    const rbt_status st = find_penalty(linear, &found);
    rbt_sample_free(&linear->sample);
    if (st != RBT_OK) {
        return st;
    }
    config->l2 = found.total / (double)linear->examples.count;
    if (found.held_out > 0) {
        snprintf(words, sizeof words, "l2 %.3g, found on %zu held-out examples", config->l2,
                 found.held_out);
    } else {
        snprintf(words, sizeof words, "l2 %.3g, as 1 / number of examples", config->l2);
    }
    rbt_linear_auto_say(linear, words);
    return RBT_OK;
}
