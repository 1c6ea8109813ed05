/* algo/linear/linear.c - linear models by stochastic gradient descent.
 *
 * Minimises over weights w and bias b (which is not regularised), for n examples (x_i, y_i)
 *
 *     (1/n) sum_i loss(w'x_i + b, y_i) + l2/2 ||w||^2 + l1 ||w||_1
 *
 * or, with softmax, over one such w and b for each class. Labels are linear_class.c's, and the
 * formula is in loss.h; a feature's row has a weight for each class.
 *
 * Every worker has a share of the examples and a replica of the weights of its features. In a clock
 * it pulls, runs over its next chunk of examples, and sends how far it has moved (replica.h).
 *
 * Step sizes that need no tuning (--scale features). With m_j the mean of x_j^2 over all examples,
 * feature j is divided by m_j^(1/4), that is, its step is multiplied by 1 / sqrt(m_j): what AdaGrad
 * would arrive at when gradients are alike, but known after one look at the data, the same for all
 * workers, and free in the inner loop, where it is a change of variables: u_j = w_j / r_j and
 * x'_j = r_j x_j with r_j = m_j^(-1/4). The step is then measured in units of the loss's curvature:
 *
 *     eta_t = lr_t / (L R),   L: bound of loss'', R: mean of ||x'_i||^2 + 1
 *     eta_i = min(eta_t, 1 / (L (||x'_i||^2 + 1)))     so no example is ever overshot
 *
 * so lr = 1 is a full step for the average example; --schedule decay starts there and falls as 1/t.
 * A first try of AdaGrad (one step size, reviews only) and of m_j^(3/8) did no better. With --scale
 * none the step is lr_t itself.
 *
 * Steps that fall as 1/t leave their noise in the last iterate: a9a is 1.1% above liblinear after
 * 10 passes, by whichever loss. --schedule cool has the factor 1 - t/epochs, which does what an
 * average of the iterates would, without keeping one; then steps may be longer for longer, and more
 * so the more workers' moves are averaged (decay 2 / workers). What is left is the age of what is
 * read, for which a clock is half a pass: 10 passes are within 0.2% (bench/RESULTS.md).
 *
 * Regularisation is a proximal step on the whole replica every k examples, standing for k small
 * ones; k is such that it costs at most half of what the gradients cost. If an epoch has several
 * clocks, only features of the clock's examples take part, and at its end those are made up for the
 * clocks since they were last used, in one step: then a clock changes, and sends, nothing else. The
 * others' weights are too large until then, by less than a pass's penalty. Gradients for rules have
 * their part of l2 in every clock: a rule whose steps do not adapt would overshoot if a rare
 * feature got that of a whole pass at once (a9a, rule sgd: it diverges). */
#include "algo/linear/linear.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/frame/column_words.h"
#include "algo/frame/inputs.h"
#include "algo/linear/linear_gap.h"
#include "algo/linear/linear_job.h"
#include "algo/linear/linear_model.h"
#include "algo/linear/linear_solvers.h"
#include "algo/linear/linear_stream.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "math/choose.h"

/* What --solver auto goes by. */
struct auto_choice {
    bool is_open;                           /* options leave a choice */
    const struct rbt_linear_config *config; /* as it was given */
    struct rbt_train_options *options;
    struct rbt_training_task *task; /* that is trained with */
};

enum { UNWATCHED_EPOCHS = 50 };   /* of solvers that else say when they are done */
enum { MEASURED_AT_ONCE = 4096 }; /* examples */

rbt_status rbt_linear_open(void *context, rbt_job *job)
{
    struct rbt_linear_job *linear = context;
    const size_t width = linear->row_width != 0 ? linear->row_width : linear->width;
    struct rbt_table_options weights = {.struct_size = sizeof weights,
                                        .type = RBT_F32,
                                        .width = (uint32_t)width,
                                        .consistency = linear->consistency};
    struct rbt_table_options bias = weights;
    struct rbt_table_options usage = {
        .struct_size = sizeof usage, .type = RBT_F64, .width = RBT_USAGE_WIDTH};
    const struct rbt_examples *examples = &linear->examples;
    size_t key_count = 0;
    const uint64_t *keys = examples->keys;
    if (rbt_linear_is_streamed(linear)) {
        keys = rbt_linear_stream_keys(linear, &key_count);
    } else {
        key_count = (size_t)examples->offsets[examples->count];
    }
    rbt_training_place(linear->options, keys, key_count, &weights);
    usage.placement = weights.placement;
    usage.keys_max = weights.keys_max;
    rbt_rules_apply(&linear->rules, &weights);
    rbt_rules_apply(&linear->bias_rules, &bias);
    rbt_status st = rbt_table_open(job, "weights", &weights, &linear->weights);
    if (st == RBT_OK) {
        st = rbt_table_open(job, "bias", &bias, &linear->bias);
    }
    if (st == RBT_OK) {
        st = rbt_table_open(job, "usage", &usage, &linear->usage);
    }
    if (st == RBT_OK && linear->config.is_rebalanced) {
        st = rbt_rebalance_open(&linear->rebalance, job, linear->worker_count);
    }
    return st;
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its examples");
}

/* Of rows that have more than weights, leaves these. */
static void take_first(struct rbt_model_array *array, size_t width)
{
    for (size_t i = 0; array->width != width && i < array->count; i++) {
        memmove(array->values + i * width, array->values + i * array->width,
                width * sizeof *array->values);
    }
    array->width = (uint32_t)width;
}

/* Leaves out rows that are zero, and thereby those that were only read. */
static void drop_zeros(struct rbt_model_array *array)
{
    const size_t width = array->width;
    size_t kept = 0;
    for (size_t i = 0; i < array->count; i++) {
        const float *row = array->values + i * width;
        size_t zeros = 0;
        while (zeros < width && row[zeros] == 0.0F) {
            zeros++;
        }
        if (zeros < width) {
            array->keys[kept] = array->keys[i];
            memmove(array->values + width * kept++, row, width * sizeof *row);
        }
    }
    array->count = kept;
}

/* The labels of softmax. */
static rbt_status add_classes(const struct rbt_linear_job *linear, struct rbt_model *model)
{
    struct rbt_model_array *array = &model->arrays[model->array_count];
    if (!rbt_model_array_make(array, "classes", linear->width, 1)) {
        return no_memory();
    }
    memcpy(array->values, linear->classes, linear->width * sizeof *array->values);
    model->array_count++;
    return RBT_OK;
}

rbt_status rbt_linear_collect(void *context, rbt_worker *worker, int64_t staleness,
                              struct rbt_model *model)
{
    const struct rbt_linear_job *linear = context;
    model->kind = RBT_MODEL_LINEAR;
    rbt_model_set(model, "loss", linear->config.loss);
    rbt_model_set(model, "l1", linear->config.l1);
    rbt_model_set(model, "l2", linear->config.l2);
    rbt_model_set(model, "label_positive", (double)linear->examples.label_positive);
    rbt_model_set(model, "label_negative", (double)linear->examples.label_negative);
    rbt_column_options_keep_count(linear->examples.column_count, model);
    rbt_column_options_keep_label(&linear->data, linear->examples.column_count, model);
    rbt_status st = rbt_replica_collect(worker, linear->weights, staleness, &model->arrays[0]);
    if (st != RBT_OK) {
        return st;
    }
    model->array_count = 1;
    take_first(&model->arrays[0], linear->width);
    if (linear->config.has_bias) {
        st = rbt_replica_collect(worker, linear->bias, staleness, &model->arrays[1]);
        model->array_count = st == RBT_OK ? 2 : 1;
        take_first(&model->arrays[1], linear->width);
    }
    st = st != RBT_OK ? st
                      : rbt_standard_fold(&linear->standard, &model->arrays[0],
                                          linear->config.has_bias ? &model->arrays[1] : NULL);
    drop_zeros(&model->arrays[0]);
    st = st == RBT_OK && linear->classes != NULL ? add_classes(linear, model) : st;
    st = st != RBT_OK ? st : rbt_column_options_store(&linear->data, model);
    return st != RBT_OK ? st : rbt_column_words_store(&linear->plan, model);
}

/* Sum of losses of the model on a share, a piece at a time; if its features are scaled, the weights
 * must be, too. `w` is whose the share is, if it is a worker's whole one. */
static rbt_status measure_share(const struct rbt_linear_job *linear, const struct rbt_share *share,
                                const struct rbt_linear_worker *w, double *loss)
{
    rbt_status st = RBT_OK;
    const size_t width = linear->width;
    float *weights = rbt_calloc(share->key_count * width, sizeof *weights);
    float *margins = rbt_calloc(MEASURED_AT_ONCE * width, sizeof *margins);
    if (weights == NULL || margins == NULL) {
        st = no_memory();
    } else {
        rbt_model_array_rows(rbt_model_array_find(linear->model, "weights"), share->keys,
                             share->key_count, weights);
        for (size_t k = 0; w != NULL && k < share->key_count * width; k++) {
            weights[k] /= w->scales[k / width];
        }
        *loss = 0.0;
        for (size_t first = 0; first < share->count; first += MEASURED_AT_ONCE) {
            struct rbt_share piece = *share;
            const size_t left = share->count - first;
            piece.count = left < MEASURED_AT_ONCE ? left : MEASURED_AT_ONCE;
            piece.offsets += first;
            piece.labels += first;
            if (w != NULL) {
                rbt_linear_visit(w, first, first + piece.count);
            }
            rbt_linear_model_margins(linear->model, &piece, weights, margins);
            *loss +=
                rbt_scores_losses(&(struct rbt_scores){.loss = (enum rbt_loss)linear->config.loss,
                                                       .width = width,
                                                       .margins = margins,
                                                       .labels = piece.labels,
                                                       .count = piece.count});
        }
    }
    rbt_free(margins);
    rbt_free(weights);
    return st;
}

/* Measures a part of the examples. A worker that was lost at once has not taken its share; its
 * examples count all the same. While workers are at work, their shares are theirs, and what is
 * handed on is nobody's: then it is a part of the whole. */
static rbt_status measure(void *argument, uint32_t index)
{
    struct rbt_linear_job *linear = argument;
    struct rbt_linear_worker *w = &linear->workers[index];
    if (linear->whole.usage != NULL) {
        const uint64_t n = linear->examples.count;
        const uint64_t first = n * index / linear->measured_parts;
        struct rbt_share part = linear->whole.share;
        part.offsets += first;
        part.labels += first;
        part.count = n * (index + UINT64_C(1)) / linear->measured_parts - first;
        return measure_share(linear, &part, NULL, &w->loss);
    }
    const rbt_status st = w->share.offsets == NULL ? rbt_linear_part_take(linear, index) : RBT_OK;
    return st != RBT_OK ? st : measure_share(linear, &w->share, w, &w->loss);
}

/* Weights and bias of the model in the units of the examples in memory. The caller frees it, also
 * after a failure. */
static rbt_status unfold(const struct rbt_linear_job *linear, const struct rbt_model *model,
                         struct rbt_model *other)
{
    const bool has_bias = linear->config.has_bias;
    const size_t count = has_bias ? 2 : 1; /* as collect has put them */
    bool has_room = true;
    *other = (struct rbt_model){.kind = model->kind, .array_count = count};
    for (size_t i = 0; i < count; i++) {
        has_room = rbt_model_array_copy(&model->arrays[i], &other->arrays[i]) && has_room;
    }
    memcpy(other->settings, model->settings, sizeof other->settings);
    other->setting_count = model->setting_count;
    if (linear->classes != NULL) { /* the margins' width is theirs */
        has_room = rbt_model_array_copy(rbt_model_array_find(model, "classes"),
                                        &other->arrays[other->array_count++]) &&
                   has_room;
    }
    if (!has_room) {
        return no_memory();
    }
    return rbt_standard_unfold(&linear->standard, &other->arrays[0],
                               has_bias ? &other->arrays[1] : NULL);
}

/* What is minimised, of a model in the units of the examples. */
static rbt_status measure_all(struct rbt_linear_job *linear, const struct rbt_model *model,
                              double *objective)
{
    const struct rbt_model_array *weights = rbt_model_array_find(model, "weights");
    linear->model = model;
    const uint32_t cores = rbt_thread_cores();
    const bool has_whole = linear->whole.usage != NULL;
    linear->measured_parts =
        has_whole && cores < linear->worker_count ? cores : linear->worker_count;
    const rbt_status st = rbt_thread_run(linear->measured_parts, measure, linear);
    if (st != RBT_OK) {
        return st;
    }
    double loss = 0.0;
    for (uint32_t p = 0; p < linear->measured_parts; p++) {
        loss += linear->workers[p].loss;
    }
    const struct rbt_kernels *kernels = rbt_choose_kernels();
    const size_t count = weights->count * weights->width;
    *objective = loss / (double)linear->examples.count +
                 linear->config.l2 / 2 * kernels->norm2_squared(weights->values, count) +
                 linear->config.l1 * kernels->norm1(weights->values, count);
    return RBT_OK;
}

static rbt_status objective(void *context, const struct rbt_model *model, double *objective)
{
    struct rbt_linear_job *linear = context;
    struct rbt_model other;
    rbt_status st = unfold(linear, model, &other);
    st = st != RBT_OK ? st : measure_all(linear, &other, objective);
    rbt_model_free(&other);
    linear->model = NULL;
    return st;
}

static rbt_status evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics)
{
    return rbt_linear_model_measure_share(model, &((struct rbt_linear_job *)context)->eval_share,
                                          metrics);
}

/* What the solver has, and for the rest what sgd does. */
static struct rbt_training_task task_of(const struct rbt_linear_solver *solver)
{
    const struct rbt_training_task *own = &solver->task;
    return (struct rbt_training_task){
        .open = own->open != NULL ? own->open : rbt_linear_open,
        .begin = own->begin != NULL ? own->begin : rbt_linear_begin,
        .ready = own->ready != NULL ? own->ready : rbt_linear_ready,
        .work = own->work != NULL ? own->work : rbt_linear_work,
        .push = own->push != NULL ? own->push : rbt_linear_push,
        .penalty = own->penalty != NULL ? own->penalty : rbt_linear_penalty,
        .end = own->end != NULL ? own->end : rbt_linear_end,
        .collect = own->collect != NULL ? own->collect : rbt_linear_collect,
        .objective = objective,
        .evaluate = evaluate,
        .note = rbt_linear_class_note};
}

/* All training data is read: no text is new any more, and rare ones are gone. */
static rbt_status close_dictionary(struct rbt_linear_job *linear)
{
    const struct rbt_examples *examples = &linear->examples;
    linear->dictionary.is_closed = true;
    linear->plan.is_loaded = true; /* the same as if it came from a model */
    if (!linear->config.has_dictionary || linear->config.count_min <= 1) {
        return RBT_OK;
    }
    size_t count = 0;
    const uint64_t *keys = examples->keys;
    if (rbt_linear_is_streamed(linear)) {
        keys = rbt_linear_stream_keys(linear, &count);
    } else {
        count = (size_t)examples->offsets[examples->count];
    }
    return rbt_dictionary_keep(&linear->dictionary, keys, count, linear->plan.count + 1);
}

static rbt_status read_data(struct rbt_linear_job *linear, const struct rbt_train_options *options)
{
    const enum rbt_loss loss = (enum rbt_loss)linear->config.loss;
    struct rbt_data_options *data = &linear->data;
    *data = rbt_inputs_training(options);
    data->has_binary_label = loss == RBT_LOSS_LOGISTIC || loss == RBT_LOSS_HINGE;
    data->has_classes = loss == RBT_LOSS_SOFTMAX;
    rbt_column_options_apply(&linear->config.columns, &linear->plan, data);
    linear->plan.dictionary = linear->config.has_dictionary ? &linear->dictionary : NULL;
    const bool is_streamed = rbt_linear_is_streamed(linear);
    rbt_status st = is_streamed ? rbt_linear_stream_read(linear, data)
                                : rbt_examples_read(data, &linear->examples);
    if (st == RBT_OK && !is_streamed) {
        st = rbt_examples_drop_rare(&linear->examples, (uint64_t)linear->config.count_min);
    }
    st = st != RBT_OK ? st : close_dictionary(linear);
    if (st == RBT_OK && linear->examples.count == 0) {
        st = rbt_fail(RBT_E_DATA, "the training data has no examples");
    }
    if (st == RBT_OK && loss == RBT_LOSS_SOFTMAX) {
        st = rbt_linear_class_take(linear);
    }
    st = st != RBT_OK ? st : rbt_linear_auto_look(linear);
    if (st == RBT_OK && options->eval.count > 0) {
        rbt_inputs_name_eval(options, &linear->examples, data);
        st = rbt_examples_read(data, &linear->eval);
        if (st == RBT_OK && loss == RBT_LOSS_SOFTMAX) {
            st = rbt_scores_place(linear->classes, linear->width, &linear->eval);
        }
        if (st == RBT_OK) {
            st = rbt_share_take(&linear->eval, linear->seed, 0, 1, &linear->eval_share);
        }
    }
    return st;
}

static void free_data(struct rbt_linear_job *linear)
{
    for (uint32_t p = 0; linear->workers != NULL && p < linear->worker_count; p++) {
        rbt_linear_part_free(&linear->workers[p]);
    }
    rbt_fields_free(&linear->plan);
    rbt_free(linear->workers);
    rbt_free(linear->classes);
    if (linear->solver->free != NULL) {
        linear->solver->free(linear);
    }
    rbt_free(linear->own);
    rbt_linear_stream_free(linear);
    rbt_dictionary_free(&linear->dictionary);
    rbt_linear_assign_free(linear);
    rbt_linear_whole_free(&linear->whole);
    rbt_share_free(&linear->eval_share);
    rbt_examples_free(&linear->eval);
    rbt_examples_free(&linear->examples);
    rbt_standard_free(&linear->standard);
    rbt_sample_free(&linear->sample);
}

/* In the order of the choices of --solver; auto, the last one, is sgd until there is data. */
static const struct rbt_linear_solver *const solvers[] = {
    &rbt_linear_sgd, &rbt_linear_dbpg,  &rbt_linear_emso_gd, &rbt_linear_emso_cd,
    &rbt_linear_cd,  &rbt_linear_lbfgs, &rbt_linear_newton,  &rbt_linear_sgd};
enum { SOLVER_AUTO = sizeof solvers / sizeof solvers[0] - 1 };

/* With --solver auto, when the data is there: takes another one than sgd, if that is better. */
static rbt_status choose_solver(struct rbt_linear_job *linear, struct rbt_training *training,
                                const struct auto_choice *choice)
{
    const struct rbt_linear_solver *solver =
        choice->is_open ? rbt_linear_auto_solver(linear) : linear->solver;
    snprintf(linear->chosen, sizeof linear->chosen, "solver %s", solver->name);
    if (solver == linear->solver) {
        return RBT_OK;
    }
    linear->solver = solver;
    const int32_t storage = linear->config.storage;
    linear->config = *choice->config; /* sgd has filled in its own */
    linear->config.storage = storage;
    linear->rules = linear->bias_rules = (struct rbt_rules){0};
    *choice->task = task_of(linear->solver);
    training->epochs = linear->solver->epochs_default;
    return linear->solver->check(linear, choice->options);
}

/* The objective of a model of all zeros, on labels as solvers see them. */
static double trivial_objective(const struct rbt_linear_job *linear)
{
    double sum = 0.0;
    switch ((enum rbt_loss)linear->config.loss) {
    case RBT_LOSS_LOGISTIC:
        return log(2.0);
    case RBT_LOSS_HINGE:
        return 1.0;
    case RBT_LOSS_SOFTMAX:
        return log((double)linear->width);
    case RBT_LOSS_SQUARED:
        break;
    }
    for (size_t i = 0; linear->examples.labels != NULL && i < linear->examples.count; i++) {
        sum += (double)linear->examples.labels[i] * (double)linear->examples.labels[i] / 2;
    }
    return sum / (double)linear->examples.count; /* 0 if they are on disk: not known */
}

/* Reads, trains and measures. */
static rbt_status train_with(struct rbt_linear_job *linear, struct rbt_training *training,
                             const struct auto_choice *choice, struct rbt_train_summary *summary)
{
    rbt_status st = read_data(linear, linear->options);
    if (st == RBT_OK && choice->config->solver == SOLVER_AUTO) {
        st = choose_solver(linear, training, choice);
    }
    st = st != RBT_OK ? st : rbt_linear_auto_penalty(linear);
    const bool is_dynamic = linear->config.assign == RBT_ASSIGN_DYNAMIC;
    if (st == RBT_OK && (linear->config.is_rebalanced || is_dynamic || linear->options->is_exact)) {
        st = rbt_linear_whole_take(linear);
    }
    if (st == RBT_OK) {
        training->examples = linear->examples.count;
        training->is_apart = rbt_linear_is_streamed(linear); /* each has one place on disk */
        training->trivial = trivial_objective(linear);
        training->trivial_name = "a model of all zeros";
        st = linear->solver->settle(linear, training);
    }
    if (st == RBT_OK && is_dynamic) {
        st = rbt_linear_assign_settle(linear, training->epochs);
    }
    st = st != RBT_OK ? st : rbt_training_run(training, summary);
    if (st == RBT_OK && linear->solver->summarise != NULL) {
        linear->solver->summarise(linear, summary);
    }
    if (st == RBT_OK && is_dynamic) {
        rbt_linear_assign_summarise(linear, summary);
    }
    if (st == RBT_OK) {
        memcpy(summary->chosen, linear->chosen, sizeof summary->chosen);
    }
    return st;
}

int64_t rbt_linear_epochs(const void *config)
{
    const struct rbt_linear_config *linear = config;
    const struct rbt_linear_solver *solver = solvers[linear->solver];
    return solver->is_watched && linear->delay > 0 ? UNWATCHED_EPOCHS : solver->epochs_default;
}

rbt_status rbt_linear_train(const struct rbt_train_options *options, const void *settings,
                            const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    const struct rbt_linear_config *config = settings;
    const struct rbt_linear_solver *solver = solvers[config->solver];
    struct rbt_training_task task = task_of(solver);
    struct rbt_train_options own = *options; /* some solvers know better */
    struct rbt_training training =
        rbt_training_of(&own, observer, &task, rbt_linear_epochs(config));
    struct rbt_linear_job linear = {.solver = solver,
                                    .options = &own,
                                    .config = *config,
                                    .seed = (uint64_t)options->seed,
                                    .width = 1,
                                    .worker_count = training.workers};
    training.context = &linear;
    training.rules = &linear.rules;
    linear.workers = rbt_calloc(linear.worker_count, sizeof *linear.workers);
    rbt_status st = linear.workers == NULL ? no_memory() : RBT_OK;
    if (st == RBT_OK && config->has_dictionary && config->columns.hash_bits > 0) {
        st = rbt_fail(RBT_E_INVALID, "options \"--dictionary\" and \"--hash\" exclude each other");
    }
    if (st == RBT_OK && config->loss == RBT_LOSS_SOFTMAX && solver != &rbt_linear_sgd &&
        solver != &rbt_linear_newton && solver != &rbt_linear_lbfgs) {
        st = rbt_linear_refuse_loss(&linear, "Softmax needs --solver sgd, newton or lbfgs.");
    }
    st = st != RBT_OK ? st : rbt_linear_refuse_foreign(&linear);
    st = st != RBT_OK ? st : solver->check(&linear, &own);
    st = st != RBT_OK ? st : rbt_linear_stream_check(&linear);
    st = st != RBT_OK ? st : rbt_linear_assign_check(&linear);
    if (config->assign == RBT_ASSIGN_DYNAMIC) {
        rbt_linear_assign_take(&task);
    }
    struct rbt_linear_watch watch;
    const struct rbt_observer watching = rbt_linear_watch_begin(&watch, observer, &own);
    const bool is_noted = solver == &rbt_linear_dbpg || solver == &rbt_linear_cd ||
                          solver == &rbt_linear_emso_gd || solver == &rbt_linear_emso_cd;
    watch.linear = &linear;
    watch.is_ending = rbt_linear_is_watched(&linear);
    training.observer = is_noted ? &watching : observer;
    const struct auto_choice choice = {.is_open = rbt_linear_auto_is_open(options, config),
                                       .config = config,
                                       .options = &own,
                                       .task = &task};
    st = st != RBT_OK ? st : train_with(&linear, &training, &choice, summary);
    if (st == RBT_OK && is_noted && !rbt_linear_gap_is_known(&linear) && isnan(options->target) &&
        options->patience == 0 && !summary->is_interrupted) {
        rbt_linear_watch_note(&watch, summary);
    }
    free_data(&linear);
    return st;
}
