/* algo/linear/linear_lbfgs.c - limited memory BFGS: exact minima of smooth objectives.
 *
 * An epoch is one look at the objective, in two clocks. In the first all workers pull the point in
 * question and push gradient and loss of their examples there. In the second worker 0, the root,
 * reads the sums, decides whether the step was good or which size to try next (lbfgs.h), and pushes
 * the next point; the others wait. Everything is exact: all tables are BSP and of doubles, whatever
 * --consistency says, so that --delay and staleness do not apply. The model is the last point that
 * was accepted.
 *
 * Directions are found in coordinates in which all features are about as steep and have little to
 * do with the bias,
 *
 *     u_j = w_j / r_j,   r_j = 1 / sqrt(L v_j + l2)           u_b = (b + sum_j mean_j w_j) / r_b
 *
 * with mean_j and v_j mean and variance of x_j, and L the bound of loss''. So the first step has
 * about the right size, and raw columns are no harder than standardised ones.
 *
 * The training is over when what the next step can gain, -g'd / 2, is nothing against the
 * objective, and the last steps have gained as good as nothing; or when no step is good. If neither
 * comes within the epochs, the summary says so.
 *
 * Li's thesis has it as the baseline of chapter 7. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/frame/lbfgs.h"
#include "algo/frame/room.h"
#include "algo/linear/linear_job.h"
#include "algo/linear/linear_solvers.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/loss.h"

enum { EPOCHS_DEFAULT = 500, MEMORY = 20, MEMORY_LARGE = 10, LARGE = 1000000 };
enum { RECENT = 5 }; /* accepted points that are looked back upon */
enum { CLOCKS = 2 }; /* of an epoch: look, decide */

/* Elements of the only row of the sums; the gradient of the bias has one for each class. */
enum { LOSS, BIAS_GRADIENT };

/* Measured like those of linear_step.c; a nonzero is read twice. */
static const double ns_per_nonzero = 3.0;
static const double ns_per_example = 40.0;
static const double ns_per_weight = 16.0;
static const double ns_per_pair = 2.0; /* of a number in memory, once per direction */

/* Of the objective: what one step, and what the last few, may gain when it is over. Flat valleys
 * gain more than one step knows of; hence so little. */
static const double gain_tolerance = 1e-8;
static const double recent_tolerance = 1e-6;

static const uint64_t only_key = 0;

struct tables {
    rbt_table *point;
    rbt_table *gradient;
    rbt_table *bias; /* of the point */
    rbt_table *sums;
    rbt_table *columns;                /* sums of features */
    struct rbt_train_options *options; /* whose target ends the training */
    /* Of the root, where it is. */
    bool has_root;
    bool is_done; /* nothing moves any more */
    double gain;  /* that the last direction promises, as a part of the objective */
};

/* What only the root has; vectors are of all weights, row by row, then the bias. */
struct root {
    struct rbt_room room;
    size_t n;
    size_t count; /* weights: rows times classes */
    size_t rows;  /* features */
    size_t classes;
    rbt_set *point;
    rbt_set *gradient;
    rbt_set *weights;
    double *at;   /* the point in question */
    double *best; /* the last one accepted */
    double *slope;
    double *direction;
    double *new_slope;
    double *move;
    double *units; /* r */
    double *means; /* of features; 0 without a bias */
    rbt_set *columns;
    double *scratch; /* two vectors */
    double *sums;    /* the row of sums: (BIAS_GRADIENT + classes) */
    float *bias;     /* what the model's bias moves by: (classes) */
    double value;    /* of the objective at the best */
    double first;    /* of the objective at 0 */
    double recent[RECENT];
    size_t accepted;
    bool has_best;
    bool is_fresh; /* the direction is that of a new start */
    struct rbt_lbfgs lbfgs;
    struct rbt_lbfgs_line line;
};

struct part {
    struct rbt_room room;
    rbt_set *point;
    rbt_set *gradient;
    float *weights; /* of the point: (key_count, classes) */
    double *bias;   /* (classes) */
    double *slopes; /* margins of an example, then its slopes: (classes) */
    double *sums;   /* (BIAS_GRADIENT + classes) */
    struct root *root;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for all weights");
}

static rbt_status check(struct rbt_linear_job *linear, struct rbt_train_options *options)
{
    struct tables *tables = rbt_calloc(1, sizeof *tables);
    linear->own = tables;
    if (tables == NULL) {
        return no_memory();
    }
    tables->options = options;
    return rbt_linear_check_smooth(linear, options);
}

static rbt_status settle(struct rbt_linear_job *linear, struct rbt_training *training)
{
    struct rbt_linear_config *config = &linear->config;
    const double n = (double)linear->examples.count;
    config->l2 = isnan(config->l2) ? RBT_LINEAR_L2_TOTAL / n : config->l2;
    linear->clocks_per_epoch = training->clocks_per_epoch = CLOCKS;
    return RBT_OK;
}

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct rbt_linear_job *linear = context;
    struct tables *tables = linear->own;
    struct rbt_table_options vector = {
        .struct_size = sizeof vector, .type = RBT_F64, .consistency = "bsp"};
    struct rbt_table_options sums = vector;
    struct rbt_table_options columns = vector;
    const struct rbt_examples *examples = &linear->examples;
    rbt_training_place(linear->options, examples->keys, examples->offsets[examples->count],
                       &vector);
    columns.placement = vector.placement;
    columns.keys_max = vector.keys_max;
    vector.width = (uint32_t)linear->width;
    rbt_status st = rbt_linear_open(context, job);
    st = st != RBT_OK ? st : rbt_table_open(job, "point", &vector, &tables->point);
    st = st != RBT_OK ? st : rbt_table_open(job, "gradient", &vector, &tables->gradient);
    st = st != RBT_OK ? st : rbt_table_open(job, "columns", &columns, &tables->columns);
    sums.width = (uint32_t)linear->width;
    st = st != RBT_OK ? st : rbt_table_open(job, "point_bias", &sums, &tables->bias);
    sums.width = (uint32_t)(BIAS_GRADIENT + linear->width);
    return st != RBT_OK ? st : rbt_table_open(job, "sums", &sums, &tables->sums);
}

/* --- Getting ready -----------------------------------------------------------------------------
 */

static rbt_status make_room(struct root *root)
{
    root->at = rbt_room_take(&root->room, root->n, sizeof *root->at);
    root->best = rbt_room_take(&root->room, root->n, sizeof *root->best);
    root->slope = rbt_room_take(&root->room, root->n, sizeof *root->slope);
    root->direction = rbt_room_take(&root->room, root->n, sizeof *root->direction);
    root->new_slope = rbt_room_take(&root->room, root->n, sizeof *root->new_slope);
    root->move = rbt_room_take(&root->room, root->n, sizeof *root->move);
    root->units = rbt_room_take(&root->room, root->n, sizeof *root->units);
    root->means = rbt_room_take(&root->room, root->n, sizeof *root->means);
    root->scratch = rbt_room_take(&root->room, 2 * root->n, sizeof *root->scratch);
    root->sums = rbt_room_take(&root->room, BIAS_GRADIENT + root->classes, sizeof *root->sums);
    root->bias = rbt_room_take(&root->room, root->classes, sizeof *root->bias);
    const size_t memory = root->n < LARGE ? MEMORY : MEMORY_LARGE;
    return root->room.is_short ? no_memory() : rbt_lbfgs_init(&root->lbfgs, root->n, memory);
}

/* Mean squares of all features, from everybody's usage; set_units() makes r of them. */
static void set_squares(const struct rbt_linear_job *linear, struct root *root,
                        const struct rbt_rows *usage)
{
    const double n = (double)linear->examples.count;
    for (size_t j = 0; j < root->rows; j++) {
        const double *row = (const double *)usage->values + j * RBT_USAGE_WIDTH;
        root->units[j * root->classes] = row[RBT_USAGE_SQUARES] / n;
    }
}

/* Adds up the worker's columns, for the root. */
static rbt_status add_columns(const struct rbt_linear_job *linear, rbt_worker *worker,
                              const struct rbt_columns *columns)
{
    const struct tables *tables = linear->own;
    const struct rbt_share *share = &linear->workers[rbt_worker_index(worker)].share;
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, tables->columns, share->keys, share->key_count,
                                   RBT_SET_DELTAS, &set);
    if (st == RBT_OK) {
        double *sums = rbt_set_deltas(set);
        for (size_t c = 0; c < columns->count; c++) {
            for (uint64_t k = columns->starts[c]; k < columns->starts[c + 1]; k++) {
                sums[columns->features[c]] += (double)columns->values[k];
            }
        }
        st = rbt_set_push(set);
    }
    rbt_set_destroy(set);
    return st;
}

static rbt_status open_root(const struct rbt_linear_job *linear, rbt_worker *worker,
                            struct root *root)
{
    const struct tables *tables = linear->own;
    struct rbt_rows all = {0};
    /* Everybody has ended the clock in which usage was added. */
    rbt_status st = rbt_pull_range(worker, linear->usage, RBT_RANGE_ALL, 0, &all);
    if (st != RBT_OK) {
        return st;
    }
    root->rows = all.count;
    root->classes = linear->width;
    root->count = root->rows * root->classes;
    root->n = root->count + (linear->config.has_bias ? root->classes : 0);
    st = rbt_set_create(worker, tables->point, all.keys, all.count, RBT_SET_DELTAS, &root->point);
    st = st != RBT_OK ? st
                      : rbt_set_create(worker, tables->gradient, all.keys, all.count,
                                       RBT_SET_DELTAS, &root->gradient);
    st = st != RBT_OK ? st
                      : rbt_set_create(worker, linear->weights, all.keys, all.count, RBT_SET_DELTAS,
                                       &root->weights);
    st = st != RBT_OK ? st : make_room(root);
    if (st == RBT_OK) {
        set_squares(linear, root, &all);
        st = rbt_set_create(worker, tables->columns, all.keys, all.count, RBT_SET_DELTAS,
                            &root->columns);
    }
    rbt_rows_free(&all);
    return st;
}

static rbt_status make_part(const struct rbt_linear_job *linear, const struct rbt_share *share,
                            struct part *part)
{
    part->weights =
        rbt_room_take(&part->room, share->key_count * linear->width, sizeof *part->weights);
    part->bias = rbt_room_take(&part->room, linear->width, sizeof *part->bias);
    part->slopes = rbt_room_take(&part->room, linear->width, sizeof *part->slopes);
    part->sums = rbt_room_take(&part->room, BIAS_GRADIENT + linear->width, sizeof *part->sums);
    return part->room.is_short ? no_memory() : RBT_OK;
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_linear_job *linear = context;
    const struct tables *tables = linear->own;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const struct rbt_share *share = &w->share;
    struct rbt_columns columns = {0};
    struct part *part = rbt_calloc(1, sizeof *part);
    w->own = part;
    rbt_status st = part == NULL ? no_memory() : RBT_OK;
    st = st != RBT_OK ? st : rbt_columns_take(share, 0, share->count, &columns);
    st = st != RBT_OK ? st : rbt_linear_shares(linear, worker, &columns, parameters);
    st = st != RBT_OK ? st : add_columns(linear, worker, &columns);
    rbt_columns_free(&columns);
    st = st != RBT_OK ? st : make_part(linear, share, part);
    st = st != RBT_OK ? st
                      : rbt_set_create(worker, tables->point, share->keys, share->key_count,
                                       RBT_SET_DELTAS, &part->point);
    st = st != RBT_OK ? st
                      : rbt_set_create(worker, tables->gradient, share->keys, share->key_count,
                                       RBT_SET_DELTAS, &part->gradient);
    if (st == RBT_OK && rbt_worker_index(worker) == 0) {
        part->root = rbt_calloc(1, sizeof *part->root);
        st = part->root == NULL ? no_memory() : open_root(linear, worker, part->root);
        ((struct tables *)linear->own)->has_root = true;
    }
    return st;
}

static void free_root(struct root *root)
{
    rbt_lbfgs_deinit(&root->lbfgs);
    rbt_set_destroy(root->columns);
    rbt_room_free(&root->room);
    rbt_set_destroy(root->weights);
    rbt_set_destroy(root->gradient);
    rbt_set_destroy(root->point);
    rbt_free(root);
}

static void end(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    struct part *part = w->own;
    if (part != NULL) {
        if (part->root != NULL) {
            free_root(part->root);
        }
        rbt_set_destroy(part->gradient);
        rbt_set_destroy(part->point);
        rbt_room_free(&part->room);
    }
    rbt_free(part);
    w->own = NULL;
}

/* --- The first clock: gradient and loss at the point -------------------------------------------
 */

/* The loss of an example, whose margins become the slopes. */
static double derive(const struct rbt_linear_job *linear, double label, double *margins)
{
    if (linear->config.loss == RBT_LOSS_SOFTMAX) {
        return rbt_loss_softmax(margins, linear->width, (size_t)label, margins);
    }
    const struct rbt_loss_point at =
        rbt_loss_at((enum rbt_loss)linear->config.loss, margins[0], label);
    margins[0] = at.slope;
    return at.value;
}

/* Adds an example's loss and gradient. */
static void add_example(const struct rbt_linear_job *linear, const struct rbt_share *share,
                        const struct part *part, size_t i)
{
    const size_t classes = linear->width;
    const double *point = rbt_set_values(part->point);
    double *gradient = rbt_set_deltas(part->gradient);
    double *slopes = part->slopes;
    memcpy(slopes, part->bias, classes * sizeof *slopes);
    for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
        const double x = (double)share->values[k];
        const double *row = point + share->indices[k] * classes;
        for (size_t c = 0; c < classes; c++) {
            slopes[c] += x * row[c];
        }
    }
    part->sums[LOSS] += derive(linear, (double)share->labels[i], slopes);
    for (size_t c = 0; c < classes; c++) {
        part->sums[BIAS_GRADIENT + c] += slopes[c];
    }
    for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
        const double x = (double)share->values[k];
        double *row = gradient + share->indices[k] * classes;
        for (size_t c = 0; c < classes; c++) {
            row[c] += x * slopes[c];
        }
    }
}

static rbt_status look(const struct rbt_linear_job *linear, rbt_worker *worker,
                       struct rbt_training_figures *figures)
{
    const struct tables *tables = linear->own;
    const struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const struct rbt_share *share = &w->share;
    struct part *part = w->own;
    const size_t classes = linear->width;
    rbt_status st = rbt_set_pull(part->point);
    st = st != RBT_OK ? st : rbt_get(worker, tables->bias, only_key, part->bias);
    if (st != RBT_OK) {
        return st;
    }
    const double *point = rbt_set_values(part->point);
    for (size_t k = 0; k < share->key_count * classes; k++) {
        part->weights[k] = (float)point[k];
    }
    memset(part->sums, 0, (BIAS_GRADIENT + classes) * sizeof *part->sums);
    for (size_t i = 0; i < share->count; i++) {
        add_example(linear, share, part, i);
    }
    figures->loss += part->sums[LOSS];
    figures->count += share->count;
    rbt_worker_spend(worker, 1e-9 * (double)classes *
                                 (ns_per_nonzero * (double)share->offsets[share->count] +
                                  ns_per_example * (double)share->count +
                                  ns_per_weight * (double)share->key_count));
    st = rbt_set_push(part->gradient);
    return st != RBT_OK ? st : rbt_add(worker, tables->sums, only_key, part->sums);
}

/* --- The second clock: the root decides --------------------------------------------------------
 */

/* Reads the sums at the point, with the penalty, and takes them out of the tables, so that the next
 * ones start from nothing: x - x is 0. */
static rbt_status read_sums(const struct rbt_linear_job *linear, rbt_worker *worker,
                            struct root *root, double *value)
{
    const struct tables *tables = linear->own;
    const double n = (double)linear->examples.count;
    const double l2 = linear->config.l2;
    double *sums = root->sums;
    rbt_status st = rbt_set_pull(root->gradient);
    st = st != RBT_OK ? st : rbt_get(worker, tables->sums, only_key, sums);
    if (st != RBT_OK) {
        return st;
    }
    const double *gradient = rbt_set_values(root->gradient);
    double *deltas = rbt_set_deltas(root->gradient);
    for (size_t j = 0; j < root->count; j++) {
        root->new_slope[j] = gradient[j] / n + l2 * root->at[j];
        deltas[j] = -gradient[j];
    }
    for (size_t j = root->count; j < root->n; j++) {
        root->new_slope[j] = sums[BIAS_GRADIENT + j - root->count] / n;
    }
    *value = sums[LOSS] / n + l2 / 2 * rbt_lbfgs_dot(root->at, root->at, root->count);
    for (size_t k = 0; k < BIAS_GRADIENT + root->classes; k++) {
        sums[k] = -sums[k];
    }
    st = rbt_set_push(root->gradient);
    return st != RBT_OK ? st : rbt_add(worker, tables->sums, only_key, sums);
}

/* When everybody's columns have been added up: the coordinates. */
static rbt_status set_units(const struct rbt_linear_job *linear, struct root *root)
{
    const double curvature = rbt_loss_curvature((enum rbt_loss)linear->config.loss);
    const double n = (double)linear->examples.count;
    const size_t classes = root->classes;
    const bool has_bias = root->n > root->count;
    const rbt_status st = rbt_set_pull(root->columns);
    if (st != RBT_OK) {
        return st;
    }
    const double *sums = rbt_set_values(root->columns);
    for (size_t j = 0; j < root->rows; j++) {
        const double mean = has_bias ? sums[j] / n : 0.0;
        const double square = root->units[j * classes];
        const double variance = square - mean * mean;
        /* What rounding leaves of a column that is constant is no variance. */
        const double steep = curvature * fmax(variance, 1e-9 * square) + linear->config.l2;
        for (size_t c = 0; c < classes; c++) {
            root->means[j * classes + c] = mean;
            root->units[j * classes + c] = steep > 0.0 ? 1.0 / sqrt(steep) : 1.0;
        }
    }
    for (size_t j = root->count; j < root->n; j++) {
        root->units[j] = 1.0 / sqrt(curvature);
    }
    return RBT_OK;
}

/* Adds `sign` times what keeps the mean margins where they are to the bias of a move. */
static void shift_bias(const struct root *root, double sign, double *move)
{
    double *bias = move + root->count;
    for (size_t j = 0; root->n > root->count && j < root->count; j += root->classes) {
        for (size_t c = 0; c < root->classes; c++) {
            bias[c] += sign * root->means[j] * move[j + c];
        }
    }
}

/* A gradient in the coordinates of directions. */
static void convert(const struct root *root, const double *slope, double *gradient)
{
    const bool has_bias = root->n > root->count;
    for (size_t j = 0; j < root->n; j++) {
        const double bias = has_bias ? slope[root->count + j % root->classes] : 0.0;
        gradient[j] = root->units[j] * (slope[j] - root->means[j] * bias);
    }
}

/* Where to go from the best point; with a new start, against the gradient. */
static void turn(struct root *root, bool is_fresh)
{
    double *gradient = root->scratch;
    if (is_fresh) {
        rbt_lbfgs_forget(&root->lbfgs);
    }
    convert(root, root->slope, gradient);
    rbt_lbfgs_direction(&root->lbfgs, gradient, root->direction);
    for (size_t j = 0; j < root->n; j++) {
        root->direction[j] *= root->units[j];
    }
    shift_bias(root, -1.0, root->direction);
    const double lean = rbt_lbfgs_dot(root->direction, root->slope, root->n);
    if (lean >= 0.0 && root->lbfgs.count > 0) {
        turn(root, true);
        return;
    }
    root->is_fresh = root->lbfgs.count == 0;
    root->line = rbt_lbfgs_line_begin(root->value, lean, 1.0);
}

/* Notes the step to the point in question, and the change of the gradient on it. */
static void note_step(struct root *root)
{
    double *step = root->scratch;
    double *change = root->scratch + root->n;
    for (size_t j = 0; j < root->n; j++) {
        step[j] = root->at[j] - root->best[j];
        root->slope[j] = root->new_slope[j] - root->slope[j];
    }
    shift_bias(root, 1.0, step);
    for (size_t j = 0; j < root->n; j++) {
        step[j] /= root->units[j];
    }
    convert(root, root->slope, change);
    rbt_lbfgs_note(&root->lbfgs, step, change);
}

/* Makes the point in question the best one, in the model as well, and finds where to go from it. */
static rbt_status accept(const struct rbt_linear_job *linear, rbt_worker *worker, struct root *root,
                         double value)
{
    const size_t bytes = root->n * sizeof *root->at;
    float *deltas = rbt_set_deltas(root->weights);
    for (size_t j = 0; j < root->count; j++) {
        deltas[j] = (float)root->at[j] - (float)root->best[j];
    }
    rbt_status st = rbt_set_push(root->weights);
    for (size_t j = root->count; j < root->n; j++) {
        root->bias[j - root->count] = (float)root->at[j] - (float)root->best[j];
    }
    if (st == RBT_OK && root->n > root->count) {
        st = rbt_add(worker, linear->bias, only_key, root->bias);
    }
    if (root->has_best) {
        note_step(root);
    } else {
        root->first = value;
    }
    memcpy(root->best, root->at, bytes);
    memcpy(root->slope, root->new_slope, bytes);
    root->value = value;
    root->has_best = true;
    turn(root, false);
    return st;
}

/* After a point was accepted: whether the training is over. */
static bool is_converged(struct tables *tables, struct root *root)
{
    double *oldest = &root->recent[root->accepted % RECENT];
    const double size = fmax(fabs(root->value), 1e-12 * fabs(root->first));
    tables->gain = size > 0.0 ? -root->line.slope / 2 / size : 0.0;
    const bool has_slowed =
        root->accepted >= RECENT && *oldest - root->value <= recent_tolerance * size;
    *oldest = root->value;
    root->accepted++;
    return tables->gain <= 1e-6 * gain_tolerance || (tables->gain <= gain_tolerance && has_slowed);
}

/* The next pass is the last. */
static void stop(struct tables *tables)
{
    tables->is_done = true;
    tables->options->target = (double)INFINITY;
}

/* Goes to best + size * direction. */
static rbt_status go(const struct rbt_linear_job *linear, rbt_worker *worker, struct root *root)
{
    const struct tables *tables = linear->own;
    double *deltas = rbt_set_deltas(root->point);
    for (size_t j = 0; j < root->n; j++) {
        root->move[j] = root->best[j] + root->line.size * root->direction[j] - root->at[j];
        root->at[j] += root->move[j]; /* as the table will compute it */
    }
    memcpy(deltas, root->move, root->count * sizeof *deltas);
    const rbt_status st = rbt_set_push(root->point);
    return st != RBT_OK || root->n == root->count
               ? st
               : rbt_add(worker, tables->bias, only_key, root->move + root->count);
}

static rbt_status decide(const struct rbt_linear_job *linear, rbt_worker *worker, struct root *root)
{
    struct tables *tables = linear->own;
    double value = 0.0;
    rbt_status st = root->has_best ? RBT_OK : set_units(linear, root);
    st = st != RBT_OK ? st : read_sums(linear, worker, root, &value);
    if (st != RBT_OK) {
        return st;
    }
    const double lean = rbt_lbfgs_dot(root->direction, root->new_slope, root->n);
    const enum rbt_lbfgs_verdict verdict =
        root->has_best ? rbt_lbfgs_line_judge(&root->line, value, lean) : RBT_LINE_GOOD;
    if (verdict == RBT_LINE_GOOD) {
        st = accept(linear, worker, root, value);
        if (is_converged(tables, root)) {
            stop(tables);
        }
    } else if (verdict == RBT_LINE_NOWHERE && !root->is_fresh) {
        turn(root, true);
    } else if (verdict == RBT_LINE_NOWHERE) {
        stop(tables); /* doubles cannot tell which point is better */
    }
    rbt_worker_spend(worker,
                     1e-9 * (double)root->n *
                         (2 * ns_per_weight + 4 * (double)root->lbfgs.memory * ns_per_pair));
    return st != RBT_OK || tables->is_done ? st : go(linear, worker, root);
}

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    const struct rbt_linear_job *linear = context;
    const struct part *part = linear->workers[rbt_worker_index(worker)].own;
    if (chunk->index == 0) {
        return look(linear, worker, figures);
    }
    const struct tables *tables = linear->own;
    return part->root != NULL && !tables->is_done ? decide(linear, worker, part->root) : RBT_OK;
}

static rbt_status push(void *context, rbt_worker *worker)
{
    (void)context; /* done where it was computed */
    (void)worker;
    return RBT_OK;
}

static double penalty(void *context, rbt_worker *worker)
{
    const struct rbt_linear_job *linear = context;
    const struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    return rbt_linear_penalty_of(linear, w, ((const struct part *)w->own)->weights);
}

/* A tenth of the tolerance of 0.01% is near enough to be silent, also where no step was good. */
static void summarise(const struct rbt_linear_job *linear, struct rbt_train_summary *summary)
{
    const struct tables *tables = linear->own;
    const double near = 1e-5;
    if (!tables->has_root || (tables->is_done && tables->gain <= near)) {
        return;
    }
    snprintf(summary->unconverged, sizeof summary->unconverged,
             tables->is_done ? "no further step of lbfgs makes the objective smaller, although the "
                               "gradient promises about %.2g%%"
                             : "lbfgs has not reached the minimum: its next step alone gains about "
                               "%.2g%%; give it more --epochs",
             100.0 * tables->gain);
}

const struct rbt_linear_solver rbt_linear_lbfgs = {.name = "lbfgs",
                                                   .epochs_default = EPOCHS_DEFAULT,
                                                   .check = check,
                                                   .settle = settle,
                                                   .summarise = summarise,
                                                   .task = {.open = open_tables,
                                                            .ready = ready,
                                                            .work = work,
                                                            .push = push,
                                                            .penalty = penalty,
                                                            .end = end}};
