/* algo/frame/penalty.c - see penalty.h.
 *
 * Penalties go down by a factor of ten, from one as strong as the data itself, until the held-out
 * loss has risen, or does not change any more; then those half-way beside the best one are tried,
 * and the minimum of the parabola through three is taken. Of penalties that do about equally well
 * the strongest is. Hinge is rounded off at its corner for training, which cannot tell.
 *
 * Weights must be trained to the end: what is stopped early is as good as a stronger penalty, and
 * then a weaker one than the right one is found. Where features are few, descent knows second
 * derivatives, new ones every few looks: it is there after five looks, where 30 are too few
 * without.
 *
 * An example that is held out counts at most as much as one whose chance was 1e-15, which is where
 * scikit-learn's log_loss stops, too. Without that, a few examples far from all others decide: of
 * kdd99, four of 120,000 make an eighth of the loss, and penalties were found that are ten times as
 * strong as the one that is best for all of them.
 *
 * Sums are always made in PIECES pieces, whatever the number of processors, so that rounding is the
 * same everywhere. */
#include "algo/frame/penalty.h"

#include <math.h>
#include <string.h>

#include "algo/frame/curvature.h"
#include "algo/frame/descent.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "math/cholesky.h"

enum {
    PIECES = 4,
    FOLDS_MAX = 5,
    EXAMPLES_LEAST = 1000, /* however many nonzeros they have */
    FEW = 5000,            /* examples that are all held out in turn, in FOLDS_MAX parts */
    SOME = 15000,          /* the same in three */
    TRIED_MAX = 32,        /* penalties */
    LOOKS_MAX = 30, /* at the objective, per penalty; with second derivatives twice as many */
    MEMORY = 4,     /* of descent */
    FRESH = 5,      /* looks for which second derivatives are used */
};

static const double tolerance = 5e-5; /* of descent; a fifth of it with second derivatives */
static const double alike = 2e-4;     /* losses that differ by less are taken to be equal */
static const double risen = 2e-3;     /* a loss that is past its minimum */
static const double weakest = 1e-8;   /* penalty, as a part of the strongest */
static const double perfect = 1e-6;   /* loss, as a part of that with the strongest */
static const double corner = 0.3;     /* of hinge */
static const double loss_max = 34.5;  /* that a held-out example counts: - log(1e-15) */

/* Second derivatives may take so many multiplications for each of a gradient's. */
static const double dear = 32.0;

/* What is measured. */
enum aim {
    AIM_LOSS,     /* of the examples that are held out */
    AIM_GRADIENT, /* of the others, and their loss */
    AIM_SECOND,   /* second derivatives, too */
};

/* Examples first .. end-1 are held out. */
struct fold {
    size_t first;
    size_t end;
    struct rbt_descent descent;
    double *diagonal; /* (numbers): 1 / second derivative, about */
    double *kept;     /* (numbers): the weights of the best penalty so far */
};

struct search {
    const struct rbt_share *share;
    const struct rbt_penalty_options *options;
    size_t count;    /* examples */
    size_t size;     /* rows: features, and the bias */
    size_t numbers;  /* times classes */
    double *squares; /* mean of x_j^2 times curvature: (size) */
    double *gradient;
    double *gradients[PIECES]; /* (numbers) */
    double losses[PIECES];
    struct fold folds[FOLDS_MAX];
    size_t fold_count;
    const struct fold *fold; /* that is being worked on */
    const double *point;
    enum aim aim;
    bool has_second;         /* second derivatives are used */
    uint32_t *places;        /* 0, 1, ...: (size) */
    double *seconds[PIECES]; /* sums: (size, size) */
    double *factors;         /* of their matrix: (size, size) */
    double totals[TRIED_MAX];
    double found[TRIED_MAX]; /* held-out losses */
    size_t tried;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory to look for a penalty");
}

/* Loss of one example, whose margins become slopes. */
static double derive_all(const struct search *search, double label, double *margins)
{
    const enum rbt_loss loss = search->options->loss;
    if (loss == RBT_LOSS_SOFTMAX) {
        return rbt_loss_softmax(margins, search->options->classes, (size_t)label, margins);
    }
    const double rest = 1.0 - label * margins[0];
    if (loss == RBT_LOSS_HINGE && search->aim != AIM_LOSS && rest > 0.0) {
        const double slope = fmin(rest / corner, 1.0);
        margins[0] = -label * slope;
        return rest < corner ? rest * rest / (2 * corner) : rest - corner / 2;
    }
    const struct rbt_loss_point at = rbt_loss_at(loss, margins[0], label);
    margins[0] = at.slope;
    return at.value;
}

/* The same, bounded if it is held out. Quantities have no such bound. */
static double derive(const struct search *search, double label, double *margins)
{
    const enum rbt_loss loss = search->options->loss;
    const double value = derive_all(search, label, margins);
    const bool is_bounded =
        search->aim == AIM_LOSS && (loss == RBT_LOSS_LOGISTIC || loss == RBT_LOSS_SOFTMAX);
    return is_bounded ? fmin(value, loss_max) : value;
}

/* The same as add_examples(), of which the loops over classes cost most, for one margin. */
static double add_simple(const struct search *search, size_t first, size_t end, double *gradient)
{
    const struct rbt_share *share = search->share;
    const bool has_bias = search->options->has_bias;
    const double *point = search->point;
    double sum = 0.0;
    double slopes = 0.0;
    for (size_t i = first; i < end; i++) {
        double margin = has_bias ? point[search->size - 1] : 0.0;
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            margin += (double)share->values[k] * point[share->indices[k]];
        }
        sum += derive(search, (double)share->labels[i], &margin);
        if (search->aim == AIM_LOSS || margin == 0.0) {
            continue;
        }
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            gradient[share->indices[k]] += (double)share->values[k] * margin;
        }
        slopes += margin;
    }
    if (has_bias && search->aim != AIM_LOSS) {
        gradient[search->size - 1] += slopes;
    }
    return sum;
}

/* Losses, and gradients unless they are held out, of examples first .. end-1. */
static double add_examples(const struct search *search, size_t first, size_t end, double *margins,
                           double *gradient)
{
    const struct rbt_share *share = search->share;
    const size_t classes = search->options->classes;
    const size_t last = (search->size - 1) * classes;
    double sum = 0.0;
    if (classes == 1) {
        return add_simple(search, first, end, gradient);
    }
    for (size_t i = first; i < end; i++) {
        for (size_t c = 0; c < classes; c++) {
            margins[c] = search->options->has_bias ? search->point[last + c] : 0.0;
        }
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            const double x = (double)share->values[k];
            const double *row = search->point + (size_t)share->indices[k] * classes;
            for (size_t c = 0; c < classes; c++) {
                margins[c] += x * row[c];
            }
        }
        sum += derive(search, (double)share->labels[i], margins);
        if (search->aim == AIM_LOSS) {
            continue;
        }
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            const double x = (double)share->values[k];
            double *row = gradient + (size_t)share->indices[k] * classes;
            for (size_t c = 0; c < classes; c++) {
                row[c] += x * margins[c];
            }
        }
        for (size_t c = 0; search->options->has_bias && c < classes; c++) {
            gradient[last + c] += margins[c];
        }
    }
    return sum;
}

/* Adds losses, gradients and second derivatives of examples first .. end-1. */
static rbt_status add_second(const struct search *search, size_t first, size_t end, uint32_t piece,
                             double *loss)
{
    const struct rbt_share *share = search->share;
    const struct rbt_share some = {.count = end - first,
                                   .offsets = share->offsets + first,
                                   .labels = share->labels + first,
                                   .indices = share->indices,
                                   .values = share->values,
                                   .key_count = share->key_count};
    const struct rbt_curvature run = {.loss = search->options->loss,
                                      .classes = 1,
                                      .size = search->size,
                                      .has_bias = search->options->has_bias,
                                      .share = &some,
                                      .places = search->places,
                                      .point = search->point,
                                      .gradient = search->gradients[piece],
                                      .second = search->seconds[piece]};
    double sum = 0.0;
    const rbt_status st = rbt_curvature_add(&run, &sum);
    *loss += sum;
    return st;
}

/* One piece of what is being measured: of the examples that are held out, or of the others. */
static rbt_status add_piece(void *argument, uint32_t index)
{
    struct search *search = argument;
    const struct fold *fold = search->fold;
    const size_t held = fold->end - fold->first;
    const size_t train = search->count - held;
    const size_t first = train * index / PIECES;
    const size_t end = train * (index + 1) / PIECES;
    const size_t middle = first > fold->first ? first : end < fold->first ? end : fold->first;
    double *gradient = search->gradients[index];
    double *margins = rbt_calloc(search->options->classes, sizeof *margins);
    rbt_status st = margins == NULL ? no_memory() : RBT_OK;
    double loss = 0.0;
    if (st == RBT_OK && search->aim != AIM_LOSS) {
        memset(gradient, 0, search->numbers * sizeof *gradient);
    }
    if (st == RBT_OK && search->aim == AIM_LOSS) {
        loss = add_examples(search, fold->first + held * index / PIECES,
                            fold->first + held * (index + 1) / PIECES, margins, NULL);
    } else if (st == RBT_OK && search->aim == AIM_GRADIENT) {
        loss = add_examples(search, first, middle, margins, gradient);
        loss += add_examples(search, middle + held, end + held, margins, gradient);
    } else if (st == RBT_OK) {
        memset(search->seconds[index], 0, search->size * search->size * sizeof(double));
        st = add_second(search, first, middle, index, &loss);
        st = st != RBT_OK ? st : add_second(search, middle + held, end + held, index, &loss);
    }
    search->losses[index] = loss;
    rbt_free(margins);
    return st;
}

/* Sum of the losses at `point`, and what else is aimed at. */
static rbt_status measure(struct search *search, const struct fold *fold, const double *point,
                          enum aim aim, double *sum)
{
    search->fold = fold;
    search->point = point;
    search->aim = aim;
    const rbt_status st = rbt_thread_run(PIECES, add_piece, search);
    if (st != RBT_OK) {
        return st;
    }
    *sum = 0.0;
    for (size_t p = 0; p < PIECES; p++) {
        *sum += search->losses[p];
    }
    for (size_t k = 0; aim != AIM_LOSS && k < search->numbers; k++) {
        double slope = 0.0;
        for (size_t p = 0; p < PIECES; p++) {
            slope += search->gradients[p][k];
        }
        search->gradient[k] = slope;
    }
    return RBT_OK;
}

static bool is_free(const struct search *search, size_t k)
{
    return search->options->has_bias && k / search->options->classes == search->size - 1;
}

/* Makes the second derivatives that were measured those that `solve` goes by. */
static void take_second(struct search *search, double total, double n)
{
    const size_t size = search->size;
    for (size_t a = 0; a < size; a++) {
        for (size_t b = 0; b <= a; b++) {
            double sum = 0.0;
            for (size_t p = 0; p < PIECES; p++) {
                sum += search->seconds[p][a * size + b];
            }
            search->factors[a * size + b] = sum / n;
        }
        search->factors[a * size + a] += is_free(search, a) ? 0.0 : total / n;
    }
    (void)rbt_cholesky_factor(search->factors, size); /* rows left out do not move */
}

static void solve(void *context, double *x)
{
    const struct search *search = context;
    rbt_cholesky_solve(search->factors, search->size, x);
}

/* What descent is told without second derivatives. */
static void take_diagonal(const struct search *search, struct fold *fold, double total, double n)
{
    for (size_t k = 0; k < search->numbers; k++) {
        const double penalty = is_free(search, k) ? 0.0 : total / n;
        fold->diagonal[k] =
            1.0 / fmax(search->squares[k / search->options->classes] + penalty, 1e-300);
    }
}

/* Trains on what the fold does not hold out, from where it is. */
static rbt_status train(struct search *search, struct fold *fold, double total)
{
    struct rbt_descent *descent = &fold->descent;
    const double n = (double)(search->count - (fold->end - fold->first));
    const size_t looks = search->has_second ? 2 * LOOKS_MAX : LOOKS_MAX;
    rbt_status st = RBT_OK;
    take_diagonal(search, fold, total, n);
    rbt_descent_restart(descent);
    for (size_t look = 0; st == RBT_OK && look < looks && descent->state == RBT_DESCENT_ON;
         look++) {
        const bool is_fresh = search->has_second && look % FRESH == 0;
        double value = 0.0;
        if (is_fresh) {
            rbt_descent_restart(descent); /* from the best point */
        }
        st = measure(search, fold, descent->at, is_fresh ? AIM_SECOND : AIM_GRADIENT, &value);
        if (st == RBT_OK && is_fresh) {
            take_second(search, total, n);
        }
        double squares = 0.0;
        for (size_t k = 0; k < search->numbers; k++) {
            const double penalised = is_free(search, k) ? 0.0 : descent->at[k];
            search->gradient[k] = (search->gradient[k] + total * penalised) / n;
            squares += penalised * penalised;
        }
        rbt_descent_tell(descent, (value + total / 2 * squares) / n, search->gradient, NULL);
    }
    return st;
}

/* The place of the smallest loss so far. */
static size_t best_of(const struct search *search)
{
    size_t best = 0;
    for (size_t i = 1; i < search->tried; i++) {
        best = search->found[i] < search->found[best] ? i : best;
    }
    return best;
}

/* Tries a penalty. */
static rbt_status try_one(struct search *search, double total)
{
    rbt_status st = RBT_OK;
    double sum = 0.0;
    double count = 0.0;
    for (size_t f = 0; st == RBT_OK && f < search->fold_count; f++) {
        struct fold *fold = &search->folds[f];
        double loss = 0.0;
        st = train(search, fold, total);
        st = st != RBT_OK ? st : measure(search, fold, fold->descent.best, AIM_LOSS, &loss);
        sum += loss;
        count += (double)(fold->end - fold->first);
    }
    search->totals[search->tried] = total;
    search->found[search->tried++] = sum / count;
    const bool is_best = best_of(search) == search->tried - 1;
    for (size_t f = 0; is_best && f < search->fold_count; f++) {
        const struct fold *fold = &search->folds[f];
        memcpy(fold->kept, fold->descent.best, search->numbers * sizeof *fold->kept);
    }
    return st;
}

/* The same, from the weights of the best penalty: from those of a much weaker one it is far. */
static rbt_status try_near(struct search *search, double total)
{
    for (size_t f = 0; f < search->fold_count; f++) {
        const struct fold *fold = &search->folds[f];
        memcpy(fold->descent.best, fold->kept, search->numbers * sizeof *fold->kept);
    }
    return try_one(search, total);
}

/* From strong to weak, until it is past the minimum or makes no difference. */
static rbt_status go_down(struct search *search, double strongest)
{
    rbt_status st = RBT_OK;
    size_t past = 0;
    for (double total = strongest; st == RBT_OK && search->tried + 4 < TRIED_MAX; total /= 10) {
        st = try_one(search, total);
        const size_t now = search->tried - 1;
        const double least = search->found[best_of(search)];
        const double before = now > 0 ? search->found[now - 1] : INFINITY;
        const bool is_flat = fabs(search->found[now] - before) < 1e-5 * least;
        past = search->found[now] > least * (1 + risen) ? past + 1 : 0;
        const bool is_perfect = least < perfect * search->found[0];
        if (past >= 2 || is_perfect || search->found[now] > 1.05 * least ||
            total <= weakest * strongest || (is_flat && total < 1e-4 * strongest)) {
            break;
        }
    }
    return st;
}

/* The loss nearest above or below a penalty in those that were tried; the place, or `tried`. */
static size_t neighbour(const struct search *search, double total, bool is_stronger)
{
    size_t nearest = search->tried;
    for (size_t i = 0; i < search->tried; i++) {
        const double other = search->totals[i];
        const bool is_there = is_stronger ? other > total : other < total;
        if (is_there && (nearest == search->tried ||
                         fabs(log(other / total)) < fabs(log(search->totals[nearest] / total)))) {
            nearest = i;
        }
    }
    return nearest;
}

/* The best penalty of all, between those that were tried. */
static double conclude(const struct search *search)
{
    const size_t best = best_of(search);
    const double total = search->totals[best];
    size_t strongest = best;
    for (size_t i = 0; i < search->tried; i++) {
        const bool is_as_good = search->found[i] <= search->found[best] * (1 + alike);
        strongest = is_as_good && search->totals[i] > search->totals[strongest] ? i : strongest;
    }
    const size_t above = neighbour(search, total, true);
    const size_t below = neighbour(search, total, false);
    if (strongest != best || above == search->tried || below == search->tried) {
        return search->totals[strongest];
    }
    const double a = log(search->totals[above] / total);
    const double b = log(search->totals[below] / total);
    const double fa = search->found[above] - search->found[best];
    const double fb = search->found[below] - search->found[best];
    const double divisor = fa * b - fb * a; /* of the parabola through (a, fa), (0, 0), (b, fb) */
    const double x = divisor != 0.0 ? (fa * b * b - fb * a * a) / (2 * divisor) : 0.0;
    return total * exp(fmin(fmax(x, b), a));
}

/* Whether second derivatives of so many examples are worth what they cost. */
static bool is_small(const struct rbt_share *share, const struct rbt_penalty_options *options,
                     size_t count)
{
    const size_t size = share->key_count + 1;
    const double nonzeros = (double)share->offsets[count];
    double squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double length = (double)(share->offsets[i + 1] - share->offsets[i]);
        squares += length * length;
    }
    return options->classes == 1 && options->loss != RBT_LOSS_HINGE &&
           size <= RBT_CURVATURE_ROWS_MAX &&
           rbt_curvature_cost((double)count, nonzeros, squares, size, 1) <= dear * nonzeros;
}

/* In how many parts examples are held out: few are all, in turn. */
static size_t folds_of(const struct rbt_share *share, const struct rbt_penalty_options *options,
                       size_t count)
{
    const double products = (double)share->offsets[count] * (double)options->classes;
    const double most = RBT_PENALTY_PRODUCTS_MAX;
    if (is_small(share, options, count)) {
        return count <= FEW ? FOLDS_MAX : 3; /* that is cheap */
    }
    if (count < share->count) {
        return 1; /* they are a sample */
    }
    return count <= FEW && products <= most / 4    ? FOLDS_MAX
           : count <= SOME && products <= most / 2 ? 3
                                                   : 1;
}

/* Who is held out when. */
static void divide(struct search *search)
{
    const size_t n = search->count;
    const size_t parts = folds_of(search->share, search->options, n);
    search->fold_count = parts;
    for (size_t f = 0; f < parts; f++) {
        search->folds[f].first = parts == 1 ? n - n / 3 : n * f / parts;
        search->folds[f].end = parts == 1 ? n : n * (f + 1) / parts;
    }
}

/* Nonzeros that are looked at. Several classes at once cost less than one after the other. */
static uint64_t nonzeros_max(size_t classes)
{
    return RBT_PENALTY_PRODUCTS_MAX / (1 + classes / 4);
}

size_t rbt_penalty_examples(size_t count, uint64_t nonzeros, size_t classes)
{
    const double row = (double)nonzeros / fmax((double)count, 1.0);
    const double fit = (double)nonzeros_max(classes) / fmax(row, 1e-9);
    return (size_t)fmin(fmax(fit, EXAMPLES_LEAST), RBT_PENALTY_EXAMPLES_MAX);
}

/* Examples that are few enough. */
static size_t count_of(const struct rbt_share *share, const struct rbt_penalty_options *options)
{
    const size_t most = RBT_PENALTY_EXAMPLES_MAX;
    const uint64_t nonzeros = nonzeros_max(options->classes);
    size_t count = share->count < most ? share->count : most;
    while (count > EXAMPLES_LEAST && share->offsets[count] > nonzeros) {
        count -= count / 16;
    }
    return count;
}

/* Mean squares of features, as second derivatives. Returns the largest sum. */
static double add_squares(struct search *search)
{
    const struct rbt_share *share = search->share;
    const double curvature = rbt_loss_curvature(search->options->loss);
    const double n = (double)search->count;
    double most = 0.0;
    for (uint64_t k = 0; k < share->offsets[search->count]; k++) {
        const double x = (double)share->values[k];
        search->squares[share->indices[k]] += curvature * x * x / n;
    }
    for (size_t j = 0; j < share->key_count; j++) {
        most = fmax(most, search->squares[j] * n);
    }
    if (search->options->has_bias) {
        search->squares[search->size - 1] = curvature;
    }
    return most;
}

/* Room for second derivatives. */
static rbt_status make_matrices(struct search *search)
{
    const size_t numbers = search->size * search->size;
    bool has_all = true;
    for (size_t p = 0; p < PIECES; p++) {
        search->seconds[p] = rbt_calloc(numbers, sizeof(double));
        has_all = has_all && search->seconds[p] != NULL;
    }
    search->factors = rbt_calloc(numbers, sizeof(double));
    search->places = rbt_calloc(search->size, sizeof *search->places);
    if (!has_all || search->factors == NULL || search->places == NULL) {
        return no_memory();
    }
    for (size_t j = 0; j < search->size; j++) {
        search->places[j] = (uint32_t)j;
    }
    return RBT_OK;
}

static rbt_status make_room(struct search *search)
{
    rbt_status st = RBT_OK;
    bool has_all = true;
    search->squares = rbt_calloc(search->size, sizeof *search->squares);
    search->gradient = rbt_calloc(search->numbers, sizeof *search->gradient);
    for (size_t p = 0; p < PIECES; p++) {
        search->gradients[p] = rbt_calloc(search->numbers, sizeof(double));
        has_all = has_all && search->gradients[p] != NULL;
    }
    const double row = (double)search->share->offsets[search->count] / (double)search->count;
    for (size_t f = 0; st == RBT_OK && f < search->fold_count; f++) {
        struct fold *fold = &search->folds[f];
        fold->diagonal = rbt_calloc(search->numbers, sizeof *fold->diagonal);
        fold->kept = rbt_calloc(search->numbers, sizeof *fold->kept);
        has_all = has_all && fold->diagonal != NULL && fold->kept != NULL;
        st = rbt_descent_init(&fold->descent, search->numbers, MEMORY);
        fold->descent.tolerance = search->has_second ? tolerance / 5 : tolerance;
        fold->descent.diagonal = fold->diagonal;
        fold->descent.first = 1.0 / (2.0 + row); /* no two features have more in common */
        fold->descent.solve = search->has_second ? solve : NULL;
        fold->descent.context = search;
    }
    st = st == RBT_OK && search->has_second ? make_matrices(search) : st;
    has_all = has_all && search->squares != NULL && search->gradient != NULL;
    return st != RBT_OK || has_all ? st : no_memory();
}

static void free_room(struct search *search)
{
    for (size_t f = 0; f < search->fold_count; f++) {
        rbt_descent_free(&search->folds[f].descent);
        rbt_free(search->folds[f].kept);
        rbt_free(search->folds[f].diagonal);
    }
    for (size_t p = 0; p < PIECES; p++) {
        rbt_free(search->gradients[p]);
        rbt_free(search->seconds[p]);
    }
    rbt_free(search->places);
    rbt_free(search->factors);
    rbt_free(search->gradient);
    rbt_free(search->squares);
}

rbt_status rbt_penalty_find(const struct rbt_share *share,
                            const struct rbt_penalty_options *options, struct rbt_penalty *found)
{
    *found = (struct rbt_penalty){.total = 1.0};
    struct search search = {.share = share, .options = options, .count = count_of(share, options)};
    if (search.count < RBT_PENALTY_EXAMPLES_MIN || share->key_count == 0) {
        return RBT_OK;
    }
    search.size = share->key_count + (options->has_bias ? 1 : 0);
    search.numbers = search.size * options->classes;
    search.has_second = is_small(share, options, search.count);
    divide(&search);
    rbt_status st = make_room(&search);
    if (st == RBT_OK) {
        const double most = add_squares(&search);
        st = most > 0.0 ? go_down(&search, most) : RBT_OK;
    }
    if (st == RBT_OK && search.tried > 0) {
        const double best = search.totals[best_of(&search)];
        st = try_near(&search, best * sqrt(10.0));
        st = st != RBT_OK ? st : try_near(&search, best / sqrt(10.0));
        found->total = conclude(&search);
        found->loss = search.found[best_of(&search)];
        found->examples = search.count;
        for (size_t f = 0; f < search.fold_count; f++) {
            found->held_out += search.folds[f].end - search.folds[f].first;
        }
    }
    free_room(&search);
    return st;
}

double rbt_penalty_bytes(const struct rbt_share *share, const struct rbt_penalty_options *options)
{
    const double numbers = (double)(share->key_count + 1) * (double)options->classes;
    const double folds = (double)folds_of(share, options, count_of(share, options));
    const double matrices = is_small(share, options, count_of(share, options)) ? PIECES + 1.0 : 0.0;
    return sizeof(double) * numbers *
           (folds * (2.0 * MEMORY + 6.0) + PIECES + 2.0 + matrices * numbers);
}
