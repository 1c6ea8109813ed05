/* algo/mf/mf_export.c - a factorisation as LIBMF's text, which its mf-predict reads.
 *
 * LIBMF predicts p_u'q_i alone, for users 0 .. m-1 and items 0 .. n-1. So mean and biases become
 * two factors more, and the result is the same:
 *
 *     p' = (p, mean + bu, 1)     q' = (q, 1, bi)
 *
 * Rows that the model does not have are marked F, which LIBMF answers with the mean. */
#include "algo/mf/mf_export.h"

#include <stdbool.h>

#include "base/error.h"

static const uint64_t rows_max = INT32_MAX; /* LIBMF counts in int */

struct side {
    char letter;
    const struct rbt_model_array *factors;
    const struct rbt_model_array *biases; /* or NULL */
    double mean;
    bool is_bias_first;
};

static uint64_t rows_of(const struct side *side)
{
    const size_t count = side->factors->count;
    return count == 0 ? 0 : side->factors->keys[count - 1] + 1;
}

static void write_row(const struct side *side, uint64_t key, size_t row, FILE *out)
{
    const struct rbt_model_array *factors = side->factors;
    const double bias = side->biases == NULL ? 0.0 : (double)side->biases->values[row];
    fprintf(out, "%c%llu T ", side->letter, (unsigned long long)key);
    for (size_t i = 0; i < factors->width; i++) {
        fprintf(out, "%.9g ", (double)factors->values[row * factors->width + i]);
    }
    const double with_mean = side->mean + bias;
    fprintf(out, "%.9g %.9g \n", side->is_bias_first ? with_mean : 1.0,
            side->is_bias_first ? 1.0 : with_mean);
}

static void write_missing(const struct side *side, uint64_t key, FILE *out)
{
    fprintf(out, "%c%llu F ", side->letter, (unsigned long long)key);
    for (size_t i = 0; i < side->factors->width + 2U; i++) {
        fputs("0 ", out);
    }
    fputc('\n', out);
}

static void write_side(const struct side *side, FILE *out)
{
    const uint64_t count = rows_of(side);
    size_t row = 0;
    for (uint64_t key = 0; key < count; key++) {
        if (side->factors->keys[row] == key) {
            write_row(side, key, row++, out);
        } else {
            write_missing(side, key, out);
        }
    }
}

static bool does_fit(const struct side *side)
{
    const struct rbt_model_array *factors = side->factors;
    return factors != NULL && (side->biases == NULL || side->biases->count == factors->count);
}

static rbt_status write(const struct rbt_model *model, FILE *out)
{
    const double mean = rbt_model_setting(model, "mean", 0.0);
    const struct side users = {'p', rbt_model_array_find(model, "users"),
                               rbt_model_array_find(model, "user_bias"), mean, true};
    const struct side items = {'q', rbt_model_array_find(model, "items"),
                               rbt_model_array_find(model, "item_bias"), 0.0, false};
    if (!does_fit(&users) || !does_fit(&items) || users.factors->width != items.factors->width) {
        return rbt_fail(RBT_E_DATA, "the model's users, items and biases do not fit together");
    }
    const uint64_t m = rows_of(&users);
    const uint64_t n = rows_of(&items);
    if (m > rows_max || n > rows_max || (m == 0 && users.factors->count > 0) ||
        (n == 0 && items.factors->count > 0)) {
        return rbt_fail(RBT_E_INVALID,
                        "LIBMF numbers users and items from 0 to at most 2147483646, and this "
                        "model has larger numbers");
    }
    fprintf(out, "f 0\nm %llu\nn %llu\nk %llu\nb %.9g\n", (unsigned long long)m,
            (unsigned long long)n, (unsigned long long)users.factors->width + 2, mean);
    write_side(&users, out);
    write_side(&items, out);
    return RBT_OK;
}

const struct rbt_algo_export rbt_mf_exports[] = {
    {.name = "libmf", .summary = "LIBMF's model, for its mf-predict", .write = write},
    {.name = NULL},
};
