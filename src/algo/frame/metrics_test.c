/* algo/frame/metrics_test.c - figures that can be checked by hand, and AUC against counting pairs.
 */
#include "base/test.h"

#include <math.h>

#include "algo/frame/metrics.h"
#include "base/rng.h"

static void figures_match_those_by_hand(void **state)
{
    (void)state;
    const float margins[] = {0.0F, 2.0F, -1.0F, -3.0F};
    const float labels[] = {1.0F, 1.0F, 1.0F, -1.0F};
    const double logloss = (log(2) + log1p(exp(-2)) + log1p(exp(1)) + log1p(exp(-3))) / 4;
    assert_true(fabs(rbt_metrics_logloss(margins, labels, 4) - logloss) < 1e-12);
    assert_true(rbt_metrics_hinge(margins, labels, 4) == (1.0 + 0.0 + 2.0 + 0.0) / 4);
    assert_true(rbt_metrics_accuracy(margins, labels, 4) == 0.75);
    assert_true(fabs(rbt_metrics_rmse(margins, labels, 4) - sqrt((1 + 1 + 4 + 4) / 4.0)) < 1e-12);
}

/* The share of pairs that are in the right order, ties one half. */
static double auc_by_pairs(const float *margins, const float *labels, size_t n)
{
    double wins = 0.0;
    double pairs = 0.0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            if (labels[i] > 0 && labels[j] < 0) {
                pairs += 1.0;
                wins += margins[i] > margins[j] ? 1.0 : margins[i] == margins[j] ? 0.5 : 0.0;
            }
        }
    }
    return wins / pairs;
}

static void auc_counts_pairs(void **state)
{
    (void)state;
    float margins[200];
    float labels[200];
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 2, 3);
    for (size_t i = 0; i < 200; i++) {
        margins[i] = (float)rbt_rng_below(&rng, 20); /* many ties */
        labels[i] = rbt_rng_below(&rng, 20) < (uint64_t)margins[i] ? 1.0F : -1.0F;
    }
    double auc = 0.0;
    assert_ok(rbt_metrics_auc(margins, labels, 200, &auc));
    assert_true(fabs(auc - auc_by_pairs(margins, labels, 200)) < 1e-12);
    const float same[] = {1.0F, 1.0F};
    assert_ok(rbt_metrics_auc(margins, same, 2, &auc));
    assert_true(auc == 0.5);
}

static void figures_of_classes_match_those_by_hand(void **state)
{
    (void)state;
    const float margins[] = {0, 0, 0, 1, 0, 0, 0, 0, 1000};
    const float labels[] = {1, 0, 1};
    const double second = log(exp(1.0) + 2.0) - 1.0;
    assert_true(fabs(rbt_metrics_class_logloss(margins, labels, 3, 3) -
                     (log(3.0) + second + 1000.0) / 3.0) < 1e-12);
    assert_true(rbt_metrics_class_accuracy(margins, labels, 3, 3) == 1.0 / 3.0); /* a tie is lost */
    const float first[] = {0, 0, 2};
    assert_true(rbt_metrics_class_accuracy(margins, first, 3, 3) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_match_those_by_hand),
        cmocka_unit_test(figures_of_classes_match_those_by_hand),
        cmocka_unit_test(auc_counts_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
