/* math/topics.c - what all ways to draw topics share, and the choice of the fastest dense one. */
#include "math/topics.h"

#include <string.h>

#include "base/assert.h"
#include "math/choose.h"

void rbt_topics_refresh(struct rbt_topics *topics)
{
    for (size_t k = 0; k < topics->topic_count; k++) {
        RBT_ASSERT(topics->document[k] == 0);
        topics->inverses[k] = 1.0F / (topics->sums[k] + topics->beta_sum);
        topics->weights[k] = topics->alpha * topics->inverses[k];
    }
}

void rbt_topics_enter(struct rbt_topics *topics, size_t document)
{
    const uint64_t end = topics->offsets[document + 1];
    for (uint64_t i = topics->offsets[document]; i < end; i++) {
        topics->document[topics->topics[i]]++;
    }
    for (uint64_t i = topics->offsets[document]; i < end; i++) {
        const size_t k = topics->topics[i];
        topics->weights[k] = ((float)topics->document[k] + topics->alpha) * topics->inverses[k];
    }
}

void rbt_topics_leave(struct rbt_topics *topics, size_t document)
{
    const uint64_t end = topics->offsets[document + 1];
    double sum = 0.0;
    for (uint64_t i = topics->offsets[document]; i < end; i++) {
        const size_t k = topics->topics[i];
        sum += topics->logs[--topics->document[k]]; /* Gamma(n + a) = (n - 1 + a) ... a Gamma(a) */
        topics->weights[k] = topics->alpha * topics->inverses[k];
    }
    topics->log_documents += sum;
}

void rbt_topics_dense(struct rbt_topics *topics, size_t first, size_t end)
{
#if defined(__x86_64__)
    const char *name = rbt_choose_kernels()->name;
    if (strcmp(name, "avx512") == 0) {
        rbt_topics_dense_avx512(topics, first, end);
        return;
    }
    if (strcmp(name, "avx2") == 0) {
        rbt_topics_dense_avx2(topics, first, end);
        return;
    }
#endif
    rbt_topics_dense_baseline(topics, first, end);
}
