/* algo/fm/fm_watch.c - when a factorisation machine has learnt enough, and how much of its pairs to
 * believe.
 *
 * Embeddings go on fitting the examples that they have seen long after they have stopped to say
 * anything about others. So a small part of the examples is held out: chosen by what is in them
 * (sample.h), hence the same in every process, with any number of workers and in any order of the
 * file. After every pass worker 0 looks at the model. The margin of a held-out example is
 * b + m + p, where m is what the weights say and p what the pairs say, and the loss is that of
 *
 *     b + m + c p,      c = 0, 1/8, ..., 1
 *
 * at its best; a model with c below 1 has its embeddings multiplied with the root of c, and with 0
 * it is a linear one. The best model is kept. Penalties are looked for at the same time
 * (fm_tune.c), by the same examples, so that a loss which rises for some passes may fall again when
 * they have grown and steps have become shorter (a9a: 0.3229 after two passes, 0.3240 after eight,
 * 0.3206 after sixteen). So, unless there is a --patience, training goes on. In the last passes the
 * examples are trained on as well. Before them the model must not be worse than the best one was,
 * by more than chance; if it is, training ends there, and the best one is the result.
 *
 * If training has begun with a linear model (fm_linear.h), that is compared with, too: a model with
 * pairs must be better by more than chance, else the linear one is the result. A mean that a few
 * examples decide, far from all others, is no more than chance: of kdd99, pairs gave some of these
 * margins of hundreds on the wrong side: a loss of 0.005 with two workers, of 0.02 with eight and
 * of 0.07 to 0.13 with 32, where the linear model has 0.012. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/fm/fm_job.h"
#include "algo/fm/fm_model.h"
#include "base/alloc.h"
#include "base/error.h"

enum {
    HELD_MIN = 100,   /* examples; fewer tell nothing */
    HELD_MAX = 10000, /* more are not looked at */
    STRENGTHS = 8,    /* of pairs, above 0 */
};

/* Two models differ if their losses of the examples do by so many standard errors. */
static const double errors = 2;

/* The best of many looks is better than the linear model by chance more often than one is. */
static const double best_errors = 3;

/* After so many passes there is the last look. One more is made without the examples that are held
 * out, since under bounded staleness a look may be at what others have done since. */
static int64_t last_look(const struct rbt_fm_job *fm)
{
    return rbt_fm_tune_passes(fm->epochs) - 1;
}

/* What a model says about the held-out examples: all of it, and without pairs. */
struct margins {
    float *whole;
    float *linear;
};

static rbt_status no_memory(const struct rbt_fm_job *fm)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the losses of %zu examples", fm->watch.held.count);
}

bool rbt_fm_watch_is_wanted(const struct rbt_fm_job *fm)
{
    const struct rbt_train_options *options = &fm->options;
    const bool has_end = options->epochs > 0 || !isnan(options->target) || options->until > 0;
    return fm->config.stops_early && !options->is_exact && last_look(fm) > 0 &&
           (options->patience > 0 || !has_end);
}

rbt_status rbt_fm_watch_take(struct rbt_fm_job *fm, const uint32_t *places, size_t count)
{
    struct rbt_fm_watch *watch = &fm->watch;
    if (!rbt_fm_watch_is_wanted(fm) || count < HELD_MIN) {
        return RBT_OK;
    }
    const size_t looked_at = count < HELD_MAX ? count : HELD_MAX;
    watch->patience = fm->options.patience > 0 ? fm->options.patience : fm->epochs;
    watch->loss = INFINITY;
    watch->strength = 1.0;
    fm->options.patience = 0; /* it is not about the objective */
    const rbt_status st = rbt_share_of(&fm->examples, places, looked_at, &watch->held);
    watch->losses = rbt_calloc(looked_at, sizeof *watch->losses);
    watch->whole_losses = rbt_calloc(looked_at, sizeof *watch->whole_losses);
    watch->best_losses = rbt_calloc(looked_at, sizeof *watch->best_losses);
    const bool has_room =
        watch->losses != NULL && watch->whole_losses != NULL && watch->best_losses != NULL;
    return st != RBT_OK || has_room ? st : no_memory(fm);
}

void rbt_fm_watch_free(struct rbt_fm_watch *watch)
{
    rbt_model_free(&watch->best);
    rbt_share_free(&watch->held);
    rbt_free(watch->linear_losses);
    rbt_free(watch->best_losses);
    rbt_free(watch->whole_losses);
    rbt_free(watch->losses);
    *watch = (struct rbt_fm_watch){0};
}

/* The losses of the held-out examples with so much of the pairs. Returns their sum. */
static double fill_losses(const struct rbt_fm_job *fm, const struct margins *margins,
                          double strength, float *losses)
{
    const struct rbt_share *held = &fm->watch.held;
    double sum = 0.0;
    for (size_t i = 0; i < held->count; i++) {
        const double linear = (double)margins->linear[i];
        const double margin = linear + strength * ((double)margins->whole[i] - linear);
        const double loss = rbt_loss_at(fm->loss, margin, (double)held->labels[i]).value;
        losses[i] = (float)loss;
        sum += loss;
    }
    return sum;
}

/* Whether losses are lower than others by so many standard errors. */
static bool is_better_by(const float *losses, const float *others, size_t count, double by)
{
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double gain = (double)others[i] - (double)losses[i];
        sum += gain;
        squares += gain * gain;
    }
    return sum > by * sqrt(squares);
}

bool rbt_fm_watch_is_better(const float *losses, const float *others, size_t count)
{
    return is_better_by(losses, others, count, errors);
}

/* Finds how much of the pairs is best, and leaves the losses with it. Returns their sum. */
static double find_strength(struct rbt_fm_job *fm, const struct margins *margins)
{
    struct rbt_fm_watch *watch = &fm->watch;
    const size_t bytes = watch->held.count * sizeof *watch->losses;
    double least = fill_losses(fm, margins, 1.0, watch->losses);
    const double whole = least;
    watch->strength = 1.0;
    memcpy(watch->whole_losses, watch->losses, bytes);
    for (int k = STRENGTHS - 1; k >= 0; k--) {
        const double strength = (double)k / STRENGTHS;
        const double sum = fill_losses(fm, margins, strength, watch->losses);
        if (sum < least) {
            least = sum;
            watch->strength = strength;
        }
    }
    (void)fill_losses(fm, margins, watch->strength, watch->losses);
    if (!rbt_fm_watch_is_better(watch->losses, watch->whole_losses, watch->held.count)) {
        memcpy(watch->losses, watch->whole_losses, bytes);
        watch->strength = 1.0;
        least = whole;
    }
    return least;
}

/* The sum of the losses of a model in units of the examples. */
static rbt_status measure(struct rbt_fm_job *fm, struct rbt_model *inner, double *loss)
{
    const struct rbt_share *held = &fm->watch.held;
    struct rbt_model_array *embeddings = &inner->arrays[RBT_FM_EMBEDDINGS];
    const size_t count = embeddings->count;
    const struct margins margins = {rbt_calloc(held->count, sizeof *margins.whole),
                                    rbt_calloc(held->count, sizeof *margins.linear)};
    rbt_status st = margins.whole == NULL || margins.linear == NULL ? no_memory(fm) : RBT_OK;
    st = st != RBT_OK ? st : rbt_fm_model_margins(inner, held, margins.whole);
    embeddings->count = 0;
    st = st != RBT_OK ? st : rbt_fm_model_margins(inner, held, margins.linear);
    embeddings->count = count;
    if (st == RBT_OK) {
        *loss = find_strength(fm, &margins);
    }
    rbt_free(margins.linear);
    rbt_free(margins.whole);
    return st;
}

/* The model's arrays become those of `inner`, with so much of the pairs, for the data as it is. */
static rbt_status weaken(const struct rbt_fm_job *fm, struct rbt_model *inner, double strength,
                         struct rbt_model *model)
{
    struct rbt_model_array *embeddings = &inner->arrays[RBT_FM_EMBEDDINGS];
    const float root = (float)sqrt(strength);
    for (size_t e = 0; e < embeddings->count * embeddings->width; e++) {
        embeddings->values[e] *= root;
    }
    embeddings->count = strength > 0 ? embeddings->count : 0;
    const rbt_status st = rbt_fm_scale_model(&fm->scales, inner, true);
    for (size_t a = 0; st == RBT_OK && a < inner->array_count; a++) {
        const struct rbt_model_array array = model->arrays[a];
        model->arrays[a] = inner->arrays[a];
        inner->arrays[a] = array;
    }
    return st;
}

/* Keeps the model, with so much of its pairs. */
static rbt_status keep(struct rbt_fm_job *fm, struct rbt_model *inner, double passes,
                       struct rbt_model *model)
{
    struct rbt_fm_watch *watch = &fm->watch;
    const double strength = watch->strength;
    const rbt_status st = strength < 1.0 ? weaken(fm, inner, strength, model) : RBT_OK;
    if (st == RBT_OK) {
        rbt_model_free(&watch->best);
        watch->best = *model;
        *model = (struct rbt_model){0};
        watch->best_strength = strength;
        watch->best_passes = passes;
    }
    return st;
}

rbt_status rbt_fm_watch_take_linear(struct rbt_fm_job *fm)
{
    struct rbt_fm_watch *watch = &fm->watch;
    const size_t count = watch->held.count;
    float *margins = rbt_calloc(count, sizeof *margins);
    watch->linear_losses = rbt_calloc(count, sizeof *watch->linear_losses);
    rbt_status st = margins == NULL || watch->linear_losses == NULL ? no_memory(fm) : RBT_OK;
    st = st != RBT_OK ? st : rbt_fm_model_margins(&fm->linear.model, &watch->held, margins);
    if (st == RBT_OK) {
        const struct margins both = {margins, margins};
        watch->linear_loss = fill_losses(fm, &both, 0.0, watch->linear_losses);
    }
    rbt_free(margins);
    return st;
}

/* Which model is the result: the last one or the best, if it is better than the linear model by
 * more than chance; else that. */
static void choose(struct rbt_fm_watch *watch)
{
    const size_t count = watch->held.count;
    const float *linear = watch->linear_losses;
    if (linear == NULL ||
        (!watch->is_over && rbt_fm_watch_is_better(watch->losses, linear, count))) {
        return;
    }
    watch->is_over = true;
    watch->is_linear = !is_better_by(watch->best_losses, linear, count, best_errors);
}

/* Changes a setting that a model has. */
static void set(struct rbt_model *model, const char *name, double value)
{
    for (size_t i = 0; i < model->setting_count; i++) {
        if (strcmp(model->settings[i].name, name) == 0) {
            model->settings[i].value = value;
        }
    }
}

rbt_status rbt_fm_watch(void *context, rbt_worker *worker, double passes, struct rbt_model *model,
                        bool *is_over)
{
    struct rbt_fm_job *fm = context;
    struct rbt_fm_watch *watch = &fm->watch;
    const double end = (double)last_look(fm);
    struct rbt_model inner = {0};
    if (passes > end) {
        return RBT_OK;
    }
    rbt_status st = rbt_fm_scale_copy(&fm->scales, model, &inner);
    if (st != RBT_OK) {
        return st;
    }
    double loss = 0.0;
    st = measure(fm, &inner, &loss);
    rbt_fm_spend(fm, worker, &watch->held);
    watch->since++;
    if (st == RBT_OK && loss < watch->loss) {
        st = keep(fm, &inner, passes, model);
        memcpy(watch->best_losses, watch->losses, watch->held.count * sizeof *watch->losses);
        watch->loss = loss;
        watch->since = 0;
    }
    rbt_model_free(&inner);
    const bool is_worse =
        !isfinite(loss) ||
        rbt_fm_watch_is_better(watch->best_losses, watch->losses, watch->held.count);
    watch->is_over =
        watch->is_over || (is_worse && (passes >= end || watch->since >= watch->patience));
    if (st == RBT_OK && (watch->is_over || passes >= end)) {
        choose(watch);
    }
    *is_over = watch->is_over;
    return st;
}

/* The linear model of all examples is the result. */
static rbt_status settle_linear(const struct rbt_fm_job *fm, struct rbt_model *model)
{
    struct rbt_model inner = {0};
    rbt_status st = rbt_fm_linear_refit(fm, &inner);
    st = st != RBT_OK ? st : weaken(fm, &inner, 0.0, model);
    rbt_model_free(&inner);
    set(model, "l1", 0.0);
    set(model, "l2", fm->linear.total);
    return st;
}

/* The last passes have trained on the examples that were held out. If these have become worse, or
 * worse than they are with a linear model that has not seen them, something has gone wrong since
 * the last look. */
static rbt_status check_end(struct rbt_fm_job *fm, const struct rbt_model *model)
{
    struct rbt_fm_watch *watch = &fm->watch;
    const double strength = watch->strength;
    struct rbt_model inner = {0};
    double loss = 0.0;
    rbt_status st = rbt_fm_scale_copy(&fm->scales, model, &inner);
    st = st != RBT_OK ? st : measure(fm, &inner, &loss);
    rbt_model_free(&inner);
    watch->strength = strength;
    const bool is_bad =
        !(loss <= watch->linear_loss) ||
        rbt_fm_watch_is_better(watch->best_losses, watch->losses, watch->held.count);
    if (st == RBT_OK && is_bad && watch->best.array_count > 0) {
        watch->is_over = true;
        choose(watch);
    }
    return st;
}

rbt_status rbt_fm_watch_settle(void *context, struct rbt_model *model)
{
    struct rbt_fm_job *fm = context;
    struct rbt_fm_watch *watch = &fm->watch;
    const bool is_taken = model->array_count == 0; /* the last one was the best, too */
    rbt_status st = RBT_OK;
    if (!is_taken && !watch->is_over && watch->linear_losses != NULL && isfinite(watch->loss)) {
        st = check_end(fm, model);
    }
    if (st == RBT_OK && watch->is_linear) {
        if (is_taken) {
            *model = watch->best;
            watch->best = (struct rbt_model){0};
        }
        return settle_linear(fm, model);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (is_taken || (watch->is_over && watch->best.array_count > 0)) {
        rbt_model_free(model);
        *model = watch->best;
        watch->best = (struct rbt_model){0};
        return RBT_OK;
    }
    if (watch->strength >= 1.0) {
        return RBT_OK;
    }
    struct rbt_model inner = {0};
    st = rbt_fm_scale_copy(&fm->scales, model, &inner);
    st = st != RBT_OK ? st : weaken(fm, &inner, watch->strength, model);
    rbt_model_free(&inner);
    return st;
}

void rbt_fm_watch_say(const struct rbt_fm_job *fm, double passes, char *text, size_t size)
{
    const struct rbt_fm_watch *watch = &fm->watch;
    if (watch->held.count == 0) {
        return;
    }
    const double strength = watch->is_over ? watch->best_strength : watch->strength;
    char pairs[48] = "";
    if (strength <= 0) {
        (void)snprintf(pairs, sizeof pairs, ", without pairs");
    } else if (strength < 1) {
        (void)snprintf(pairs, sizeof pairs, ", with %.3g of its pairs", strength);
    }
    const bool has_words = rbt_fm_is_tuned(fm) || fm->is_l2_found;
    const char *join = has_words ? "; " : "";
    if (watch->is_linear) {
        join = fm->is_l2_found ? "; " : "";
        (void)snprintf(text, size,
                       "%sstopped after pass %.4g of %lld, pairs bring nothing on %zu held-out "
                       "examples: a linear model",
                       join, passes, (long long)fm->epochs, watch->held.count);
    } else if (watch->is_over) {
        (void)snprintf(
            text, size, "%sstopped after pass %.4g of %lld, pass %.4g was best on %zu examples%s",
            join, passes, (long long)fm->epochs, watch->best_passes, watch->held.count, pairs);
    } else if (pairs[0] != '\0') {
        (void)snprintf(text, size, "%sthe last model%s", join, pairs);
    }
}
