/* algo/linear/linear_newton.c - Newton's method, for few features: the exact minimum in a few
 * passes.
 *
 * An epoch is one look at the objective, in two clocks. In the first all workers read the point in
 * question and add loss, gradient and second derivatives of their examples there. In the second
 * worker 0, the root, reads the sums, takes the point or not (descent.h), solves for the next one,
 * and says where that is; the others wait. Everything is exact: all tables are BSP and of doubles,
 * whatever --consistency says. The model is the last point that was taken.
 *
 * Second derivatives of the squared loss are those of the first look. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/frame/curvature.h"
#include "algo/frame/descent.h"
#include "algo/frame/room.h"
#include "algo/linear/linear_job.h"
#include "algo/linear/linear_solvers.h"
#include "algo/linear/linear_stream.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sort_u64.h"
#include "math/cholesky.h"

enum { EPOCHS_DEFAULT = 200 };
enum { CLOCKS = 2 }; /* of an epoch: look, decide */

/* Elements of the only row of the sums, before the gradient; and of the point, before it. */
enum { LOSS, COUNT, GRADIENT };
enum { IS_OVER, WANTS_SECOND, POINT };
_Static_assert((int)GRADIENT == (int)POINT, "one row serves for both");

/* Of computing, for simulations. */
static const double ns_per_nonzero = 4.0;
static const double ns_per_product = 0.6;
static const double ns_per_solved = 0.3; /* of numbers^3 / 6 */

/* Looks that a solver needs, about; products that auto is willing to spend on all of them; and how
 * many numbers the point may have at most. */
enum { LOOKS = 10, NUMBERS_MAX = 4000 };

/* Examples that are added up at once: a multiple of what curvature.c holds. */
enum { AT_ONCE = 4096 };
static const double products_max = 2e10;

/* What a step must promise to gain, as a part of the objective. */
static const double tolerance = 1e-9;

static const uint64_t only_key = 0;

struct newton {
    rbt_table *point;
    rbt_table *sums;
    rbt_table *second;
    size_t size;        /* rows: features, and the bias */
    size_t numbers;     /* rows times classes */
    size_t second_rows; /* of second derivatives: pairs of classes times size */
    uint64_t *keys;     /* of all features, increasing */
    size_t features;
    struct rbt_train_options *options;
    bool is_converged; /* by worker 0 */
    double gain;       /* the same: what the last step promised, as a part of the objective */
};

/* What only worker 0 has. */
struct root {
    struct rbt_room room;
    struct newton *newton;
    size_t classes;
    size_t free_row; /* this row is not penalised; newton->size: there is none */
    double l2;
    struct rbt_descent descent;
    double *slope;   /* (numbers): gradient of the objective at the point */
    double *second;  /* (pairs of classes, size, size): sums at the point */
    double *factors; /* (numbers, numbers), class by class: of the point that was taken */
    double *column;  /* (numbers), class by class */
    float *held;     /* (numbers): what the tables of the model have */
    double examples;
    double penalty;    /* at the point that was looked at */
    bool wants_second; /* and has it now */
};

struct part {
    struct rbt_room room;
    uint32_t *places; /* (key_count) */
    double *point;    /* (POINT + numbers) */
    double *sums;     /* (GRADIENT + numbers) */
    double *second;   /* (pairs of classes, size, size) */
    uint64_t *rows;   /* keys of the rows of second: (pairs * size) */
    double loss;      /* of the last look */
    struct root *root;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for second derivatives");
}

static rbt_status check(struct rbt_linear_job *linear, struct rbt_train_options *options)
{
    struct newton *newton = rbt_calloc(1, sizeof *newton);
    linear->own = newton;
    if (newton == NULL) {
        return no_memory();
    }
    newton->options = options;
    return rbt_linear_check_smooth(linear, options);
}

/* The list of all features. */
static rbt_status list_keys(const struct rbt_linear_job *linear, uint64_t **list, size_t *count)
{
    const struct rbt_examples *examples = &linear->examples;
    const bool is_streamed = rbt_linear_is_streamed(linear);
    size_t all = is_streamed ? 0 : (size_t)examples->offsets[examples->count];
    const uint64_t *from = is_streamed ? rbt_linear_stream_keys(linear, &all) : examples->keys;
    uint64_t *keys = rbt_calloc(all, sizeof *keys);
    if (keys == NULL) {
        return no_memory();
    }
    if (all > 0) {
        memcpy(keys, from, all * sizeof *keys);
    }
    rbt_sort_u64(keys, all);
    size_t kept = 0;
    for (size_t i = 0; i < all; i++) {
        if (i == 0 || keys[i] != keys[i - 1]) {
            keys[kept++] = keys[i];
        }
    }
    *list = keys;
    *count = kept;
    return RBT_OK;
}

static rbt_status settle(struct rbt_linear_job *linear, struct rbt_training *training)
{
    struct newton *newton = linear->own;
    linear->clocks_per_epoch = training->clocks_per_epoch = CLOCKS;
    rbt_status st = list_keys(linear, &newton->keys, &newton->features);
    if (st != RBT_OK) {
        return st;
    }
    newton->size = newton->features + (linear->config.has_bias ? 1 : 0);
    newton->numbers = newton->size * linear->width;
    newton->second_rows = newton->size * rbt_curvature_pairs(linear->width);
    if (newton->size == 0 || newton->numbers > NUMBERS_MAX) {
        st = rbt_fail(RBT_E_INVALID,
                      "solver \"newton\" supports at most %d weights, but this data has %zu",
                      NUMBERS_MAX, newton->numbers);
        return rbt_fail_hint(st, "Omit --solver, or use lbfgs.");
    }
    return RBT_OK;
}

static rbt_status open_tables(void *context, rbt_job *job)
{
    struct rbt_linear_job *linear = context;
    struct newton *newton = linear->own;
    struct rbt_table_options options = {.struct_size = sizeof options,
                                        .type = RBT_F64,
                                        .width = (uint32_t)(POINT + newton->numbers),
                                        .consistency = "bsp"};
    rbt_status st = rbt_linear_open(context, job);
    st = st != RBT_OK ? st : rbt_table_open(job, "point", &options, &newton->point);
    options.width = (uint32_t)(GRADIENT + newton->numbers);
    st = st != RBT_OK ? st : rbt_table_open(job, "sums", &options, &newton->sums);
    options.width = (uint32_t)newton->size;
    return st != RBT_OK ? st : rbt_table_open(job, "second", &options, &newton->second);
}

/* --- Getting ready -----------------------------------------------------------------------------
 */

static rbt_status open_root(const struct rbt_linear_job *linear, struct root *root)
{
    struct newton *newton = linear->own;
    root->newton = newton;
    root->classes = linear->width;
    root->free_row = newton->features;
    root->l2 = linear->config.l2;
    root->wants_second = true;
    root->examples = (double)linear->examples.count;
    root->slope = rbt_room_take(&root->room, newton->numbers, sizeof *root->slope);
    root->second =
        rbt_room_take(&root->room, newton->second_rows * newton->size, sizeof *root->second);
    root->factors =
        rbt_room_take(&root->room, newton->numbers * newton->numbers, sizeof *root->factors);
    root->column = rbt_room_take(&root->room, newton->numbers, sizeof *root->column);
    root->held = rbt_room_take(&root->room, newton->numbers, sizeof *root->held);
    const rbt_status st = rbt_descent_init(&root->descent, newton->numbers, 0);
    root->descent.tolerance = tolerance;
    return st == RBT_OK && root->room.is_short ? no_memory() : st;
}

static rbt_status open_part(const struct rbt_linear_job *linear, const struct rbt_share *share,
                            struct part *part)
{
    const struct newton *newton = linear->own;
    const size_t rows = newton->second_rows;
    part->places = rbt_room_take(&part->room, share->key_count, sizeof *part->places);
    part->point = rbt_room_take(&part->room, POINT + newton->numbers, sizeof *part->point);
    part->sums = rbt_room_take(&part->room, GRADIENT + newton->numbers, sizeof *part->sums);
    part->second = rbt_room_take(&part->room, rows * newton->size, sizeof *part->second);
    part->rows = rbt_room_take(&part->room, rows, sizeof *part->rows);
    if (part->room.is_short) {
        return no_memory();
    }
    for (size_t r = 0; r < rows; r++) {
        part->rows[r] = r;
    }
    size_t at = 0;
    for (size_t j = 0; j < share->key_count; j++) { /* all have them, and in this order */
        while (newton->keys[at] != share->keys[j]) {
            at++;
        }
        part->places[j] = (uint32_t)at;
    }
    return RBT_OK;
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_linear_job *linear = context;
    const struct newton *newton = linear->own;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    struct part *part = rbt_calloc(1, sizeof *part);
    w->own = part;
    rbt_status st = part == NULL ? no_memory() : open_part(linear, &w->share, part);
    if (st == RBT_OK && rbt_worker_index(worker) == 0) {
        *parameters = newton->numbers;
        part->root = rbt_calloc(1, sizeof *part->root);
        st = part->root == NULL ? no_memory() : open_root(linear, part->root);
    }
    return st != RBT_OK ? st : rbt_linear_stream_keep(linear, w);
}

static void free_root(struct root *root)
{
    rbt_descent_free(&root->descent);
    rbt_room_free(&root->room);
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
        rbt_room_free(&part->room);
    }
    rbt_free(part);
    w->own = NULL;
}

/* --- The first clock: sums at the point --------------------------------------------------------
 */

static rbt_status push_second(const struct newton *newton, rbt_worker *worker, struct part *part,
                              double *values)
{
    const struct rbt_rows rows = {
        .keys = part->rows, .values = values, .count = newton->second_rows};
    return rbt_push(worker, newton->second, &rows);
}

/* The sums of the worker's examples at the point, some of them at a time: they may be on disk. */
static rbt_status add_share(const struct rbt_linear_job *linear, const struct rbt_linear_worker *w,
                            struct part *part, bool wants_second)
{
    const struct newton *newton = linear->own;
    struct rbt_share some = w->share;
    const struct rbt_curvature run = {.loss = (enum rbt_loss)linear->config.loss,
                                      .classes = linear->width,
                                      .size = newton->size,
                                      .has_bias = linear->config.has_bias,
                                      .share = &some,
                                      .places = part->places,
                                      .point = part->point + POINT,
                                      .gradient = part->sums + GRADIENT,
                                      .second = wants_second ? part->second : NULL};
    rbt_status st = RBT_OK;
    memset(part->sums, 0, (GRADIENT + newton->numbers) * sizeof *part->sums);
    memset(part->second, 0, newton->second_rows * newton->size * sizeof *part->second);
    part->loss = 0.0;
    for (size_t first = 0; st == RBT_OK && first < w->share.count; first += some.count) {
        const size_t left = w->share.count - first;
        double loss = 0.0;
        some.count = left < AT_ONCE ? left : AT_ONCE;
        some.offsets = w->share.offsets + first;
        some.labels = w->share.labels + first;
        rbt_linear_visit(w, first, first + some.count);
        st = rbt_curvature_add(&run, &loss);
        part->loss += loss;
    }
    return st;
}

static rbt_status look(const struct rbt_linear_job *linear, rbt_worker *worker,
                       struct rbt_training_figures *figures)
{
    const struct newton *newton = linear->own;
    const struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const struct rbt_share *share = &w->share;
    struct part *part = w->own;
    rbt_status st = rbt_get(worker, newton->point, only_key, part->point);
    if (st != RBT_OK) {
        return st;
    }
    /* Nobody has said anything before the first look, when second derivatives are wanted. */
    const bool is_over = part->point[IS_OVER] != 0.0;
    const bool wants_second = part->point[WANTS_SECOND] >= 0.0;
    figures->count += share->count;
    if (is_over) {
        figures->loss += part->loss;
        return RBT_OK;
    }
    st = add_share(linear, w, part, wants_second);
    part->sums[LOSS] = part->loss;
    part->sums[COUNT] = (double)share->count;
    figures->loss += part->loss;
    const double n = (double)share->count;
    const double nonzeros = (double)share->offsets[share->count];
    const double products = rbt_curvature_cost(n, nonzeros, n > 0 ? nonzeros * nonzeros / n : 0,
                                               newton->size, linear->width);
    rbt_worker_spend(worker, 1e-9 * (ns_per_nonzero * nonzeros * (double)linear->width +
                                     (wants_second ? ns_per_product * products : 0.0)));
    st = st != RBT_OK ? st : rbt_add(worker, newton->sums, only_key, part->sums);
    return st != RBT_OK || !wants_second ? st : push_second(newton, worker, part, part->second);
}

/* --- The second clock: the root decides --------------------------------------------------------
 */

/* Reads the sums at the point, and takes them out of the tables, so that the next ones start from
 * nothing: x - x is 0. */
static rbt_status read_sums(struct root *root, rbt_worker *worker, struct part *part, double *value)
{
    const struct newton *newton = root->newton;
    const size_t matrices = newton->second_rows * newton->size;
    struct rbt_rows all = {
        .keys = part->rows, .values = root->second, .count = newton->second_rows};
    rbt_status st = rbt_get(worker, newton->sums, only_key, part->sums);
    if (st == RBT_OK && root->wants_second) {
        st = rbt_pull(worker, newton->second, &all);
    }
    if (st != RBT_OK) {
        return st;
    }
    const double n = part->sums[COUNT]; /* all, unless a worker was lost */
    const double *at = root->descent.at;
    double squares = 0.0;
    for (size_t k = 0; k < newton->numbers; k++) {
        const bool is_free = k / root->classes == root->free_row;
        root->slope[k] = part->sums[GRADIENT + k] / n + (is_free ? 0.0 : root->l2 * at[k]);
        squares += is_free ? 0.0 : at[k] * at[k];
    }
    root->examples = n;
    root->penalty = root->l2 / 2 * squares;
    *value = part->sums[LOSS] / n + root->penalty;
    for (size_t k = 0; k < GRADIENT + newton->numbers; k++) {
        part->sums[k] = -part->sums[k];
    }
    st = rbt_add(worker, newton->sums, only_key, part->sums);
    if (st == RBT_OK && root->wants_second) {
        for (size_t k = 0; k < matrices; k++) {
            part->second[k] = -root->second[k];
        }
        st = push_second(newton, worker, part, part->second);
    }
    return st;
}

/* Copies the second derivatives by the weights of classes c >= d to their place. */
static void place_pair(struct root *root, size_t c, size_t d)
{
    const size_t size = root->newton->size;
    const size_t numbers = root->newton->numbers;
    const double *matrix = root->second + (c * (c + 1) / 2 + d) * size * size;
    double *corner = root->factors + c * size * numbers + d * size;
    for (size_t a = 0; a < size; a++) {
        for (size_t b = 0; b <= a; b++) {
            corner[a * numbers + b] = matrix[a * size + b] / root->examples;
            corner[b * numbers + a] = c > d ? corner[a * numbers + b] : corner[b * numbers + a];
        }
    }
    for (size_t a = 0; c == d && a < size; a++) {
        corner[a * numbers + a] += a == root->free_row ? 0.0 : root->l2;
    }
}

/* The point is taken: so are its second derivatives. */
static void take_second(void *context)
{
    struct root *root = context;
    if (!root->wants_second) {
        return;
    }
    for (size_t c = 0; c < root->classes; c++) {
        for (size_t d = 0; d <= c; d++) {
            place_pair(root, c, d);
        }
    }
    (void)rbt_cholesky_factor(root->factors, root->newton->numbers); /* rows left out do not move */
}

static void solve(void *context, double *x)
{
    const struct root *root = context;
    const size_t size = root->newton->size;
    for (size_t c = 0; c < root->classes; c++) {
        for (size_t a = 0; a < size; a++) {
            root->column[c * size + a] = x[a * root->classes + c];
        }
    }
    rbt_cholesky_solve(root->factors, root->newton->numbers, root->column);
    for (size_t c = 0; c < root->classes; c++) {
        for (size_t a = 0; a < size; a++) {
            x[a * root->classes + c] = root->column[c * size + a];
        }
    }
}

/* Makes the model what the best point is. */
static rbt_status publish(const struct rbt_linear_job *linear, rbt_worker *worker,
                          struct root *root, float *row)
{
    const struct newton *newton = root->newton;
    const size_t classes = root->classes;
    rbt_status st = RBT_OK;
    for (size_t a = 0; st == RBT_OK && a < newton->size; a++) {
        bool has_moved = false;
        for (size_t c = 0; c < classes; c++) {
            float *held = &root->held[a * classes + c];
            row[c] = (float)root->descent.best[a * classes + c] - *held;
            *held += row[c]; /* as the table will compute it */
            has_moved = has_moved || row[c] != 0.0F;
        }
        if (has_moved) {
            st = a == root->free_row ? rbt_add(worker, linear->bias, only_key, row)
                                     : rbt_add(worker, linear->weights, newton->keys[a], row);
        }
    }
    return st;
}

/* Says where the next look is. */
static rbt_status go(const struct rbt_linear_job *linear, rbt_worker *worker, struct part *part)
{
    struct root *root = part->root;
    struct newton *newton = root->newton;
    const bool is_over = root->descent.state != RBT_DESCENT_ON;
    root->wants_second = linear->config.loss != RBT_LOSS_SQUARED;
    double *move = part->sums; /* as long as the point, and free now */
    for (size_t k = 0; k < newton->numbers; k++) {
        move[POINT + k] = root->descent.at[k] - part->point[POINT + k];
        root->descent.at[k] = part->point[POINT + k] + move[POINT + k]; /* as the table has it */
    }
    move[IS_OVER] = (is_over ? 1.0 : 0.0) - part->point[IS_OVER];
    move[WANTS_SECOND] = (root->wants_second ? 1.0 : -1.0) - part->point[WANTS_SECOND];
    if (is_over) {
        newton->is_converged = root->descent.state == RBT_DESCENT_DONE ||
                               root->descent.gain <= 1e-6 * fabs(root->descent.value);
        newton->options->target = (double)INFINITY; /* the next pass is the last */
    }
    newton->gain = root->descent.gain / fmax(fabs(root->descent.value), 1e-300);
    return rbt_add(worker, newton->point, only_key, move);
}

static rbt_status decide(const struct rbt_linear_job *linear, rbt_worker *worker, struct part *part)
{
    struct root *root = part->root;
    const struct newton *newton = linear->own;
    double value = 0.0;
    if (root->descent.state != RBT_DESCENT_ON) {
        return RBT_OK;
    }
    root->descent.solve = solve;
    root->descent.context = root;
    rbt_status st = read_sums(root, worker, part, &value);
    if (st != RBT_OK) {
        return st;
    }
    rbt_descent_tell(&root->descent, value, root->slope, take_second);
    const double size = (double)newton->numbers;
    rbt_worker_spend(worker, 1e-9 * ns_per_solved * size * size * size / 6);
    if (root->descent.is_new) {
        float *row = rbt_calloc(root->classes, sizeof *row);
        st = row == NULL ? no_memory() : publish(linear, worker, root, row);
        rbt_free(row);
    }
    return st != RBT_OK ? st : go(linear, worker, part);
}

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    const struct rbt_linear_job *linear = context;
    struct part *part = linear->workers[rbt_worker_index(worker)].own;
    if (chunk->index == 0) {
        return look(linear, worker, figures);
    }
    return part->root != NULL ? decide(linear, worker, part) : RBT_OK;
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
    const struct part *part = linear->workers[rbt_worker_index(worker)].own;
    return part->root != NULL ? part->root->penalty : 0.0;
}

static void summarise(const struct rbt_linear_job *linear, struct rbt_train_summary *summary)
{
    const struct newton *newton = linear->own;
    if (!newton->is_converged) {
        snprintf(summary->unconverged, sizeof summary->unconverged,
                 "another step would still gain %.2g%% of the objective; give more --epochs",
                 100 * newton->gain);
    }
}

static void free_own(struct rbt_linear_job *linear)
{
    struct newton *newton = linear->own;
    if (newton != NULL) {
        rbt_free(newton->keys);
    }
}

bool rbt_linear_newton_fits(const struct rbt_linear_job *linear, size_t features)
{
    enum { MATRICES = 5, WORKER_MATRICES = 3 }; /* at the root and in tables; of a worker */
    const size_t size = features + 1;
    const double products = rbt_curvature_cost((double)linear->examples.count, linear->nonzeros,
                                               linear->squares, size, linear->width);
    const double numbers = (double)size * (double)linear->width;
    const double solving = numbers * numbers * numbers / 6;
    const double matrices = MATRICES + WORKER_MATRICES * (double)linear->worker_count;
    const bool has_room =
        !rbt_linear_is_streamed(linear) ||
        matrices * numbers * numbers * sizeof(double) <= rbt_linear_stream_spare(linear) / 2;
    return has_room && numbers <= NUMBERS_MAX && LOOKS * (products + solving) <= products_max;
}

const struct rbt_linear_solver rbt_linear_newton = {.name = "newton",
                                                    .epochs_default = EPOCHS_DEFAULT,
                                                    .check = check,
                                                    .settle = settle,
                                                    .summarise = summarise,
                                                    .free = free_own,
                                                    .task = {.open = open_tables,
                                                             .ready = ready,
                                                             .work = work,
                                                             .push = push,
                                                             .penalty = penalty,
                                                             .end = end}};
