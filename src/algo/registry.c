/* algo/registry.c - all algorithms, in the order in which they are listed. */
#include "algo/registry.h"

#include "algo/fm/fm.h"
#include "algo/kmeans/kmeans.h"
#include "algo/lda/lda.h"
#include "algo/linear/linear.h"
#include "algo/mf/mf.h"
#include "algo/sketch/sketch.h"

const struct rbt_algo *const *rbt_algo_all(void)
{
    static const struct rbt_algo *const all[] = {&rbt_linear, &rbt_svm,    &rbt_lasso,
                                                 &rbt_mf,     &rbt_lda,    &rbt_fm,
                                                 &rbt_kmeans, &rbt_sketch, NULL};
    return all;
}

const struct rbt_algo *rbt_algo_of_kind(uint32_t kind)
{
    const struct rbt_algo *const *algo = rbt_algo_all();
    while (*algo != NULL && (*algo)->model_kind != kind) {
        algo++;
    }
    return *algo;
}
