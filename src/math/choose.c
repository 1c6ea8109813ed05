/* math/choose.c - picks the kernels for this processor. */
#include "math/choose.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const struct rbt_kernels *rbt_choose_available(size_t index)
{
    const struct rbt_kernels *sets[3] = {&rbt_kernels_baseline, NULL, NULL};
    size_t count = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        sets[count++] = &rbt_kernels_avx2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) {
            sets[count++] = &rbt_kernels_avx512;
        }
    }
#endif
    return index < count ? sets[index] : NULL;
}

static const struct rbt_kernels *choose(void)
{
    const char *wanted = getenv("RUBATO_KERNELS");
    const struct rbt_kernels *best = NULL;
    for (size_t i = 0; i < 3; i++) {
        const struct rbt_kernels *set = rbt_choose_available(i);
        if (set == NULL) {
            break;
        }
        best = set;
        if (wanted != NULL && strcmp(wanted, set->name) == 0) {
            break;
        }
    }
    return best;
}

const struct rbt_kernels *rbt_choose_kernels(void)
{
    /* Chosen once. Relaxed: threads that come at the same time choose the same. */
    static _Atomic(const struct rbt_kernels *) chosen;
    const struct rbt_kernels *kernels = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (kernels == NULL) {
        kernels = choose();
        atomic_store_explicit(&chosen, kernels, memory_order_relaxed);
    }
    return kernels;
}
