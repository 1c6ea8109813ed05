/* algo/lda/lda_counts.c - a worker's copy of its words' counts, and how they travel.
 *
 * With sparse rows, what has changed is a list of changes, one more or one less of a topic of a
 * word, as numbers that are sorted by word and topic before they are sent:
 *
 *     word << 17 | topic << 1 | (1 if it is one less) */
#include "algo/lda/lda_counts.h"

#include <string.h>

#include "algo/frame/replica.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sort_u64.h"

enum { CHANGES_MAX = 1 << 20 }; /* so many are gathered, or those of one view if these are more */
enum { SPARSE_TOPICS = 4000 };  /* from about so many on sparse rows are faster: bench/RESULTS.md */

enum rbt_lda_rows_kind rbt_lda_counts_choose(enum rbt_lda_rows_kind kind, size_t topic_count)
{
    if (kind != RBT_LDA_ROWS_AUTO) {
        return kind;
    }
    return topic_count < SPARSE_TOPICS ? RBT_LDA_ROWS_DENSE : RBT_LDA_ROWS_SPARSE;
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of the counts");
}

rbt_status rbt_lda_counts_open(const struct rbt_lda_job *lda, rbt_worker *worker,
                               struct rbt_lda_worker *w)
{
    struct rbt_lda_counts *counts = &w->counts;
    if (lda->rows == RBT_LDA_ROWS_DENSE) {
        return rbt_set_create(worker, lda->words, w->share.keys, w->share.key_count,
                              lda->is_managed ? RBT_SET_DELTAS : RBT_SET_IN_PLACE, &counts->set);
    }
    const size_t topic_count = (size_t)lda->config.topics;
    RBT_ASSERT(w->view_max > 0);
    counts->changes_max = 2 * w->view_max > CHANGES_MAX ? 2 * w->view_max : CHANGES_MAX;
    counts->copy = rbt_calloc(w->share.key_count * topic_count, sizeof *counts->copy);
    counts->before = rbt_alloc(w->view_max * sizeof *counts->before);
    counts->changes = rbt_alloc(counts->changes_max * sizeof *counts->changes);
    counts->elements.index = rbt_calloc(topic_count, sizeof *counts->elements.index);
    counts->elements.values = rbt_calloc(topic_count, sizeof(float));
    counts->elements.capacity = topic_count;
    return counts->copy == NULL || counts->before == NULL || counts->changes == NULL ||
                   counts->elements.index == NULL || counts->elements.values == NULL
               ? no_memory()
               : RBT_OK;
}

void rbt_lda_counts_close(struct rbt_lda_worker *w)
{
    struct rbt_lda_counts *counts = &w->counts;
    rbt_set_destroy(counts->set);
    rbt_free(counts->copy);
    rbt_free(counts->before);
    rbt_free(counts->changes);
    rbt_free(counts->elements.index);
    rbt_free(counts->elements.values);
    *counts = (struct rbt_lda_counts){0};
}

float *rbt_lda_counts_values(struct rbt_lda_worker *w)
{
    return w->counts.set != NULL ? rbt_set_values(w->counts.set) : w->counts.copy;
}

float *rbt_lda_counts_first(const struct rbt_lda_job *lda, struct rbt_lda_worker *w)
{
    return lda->is_managed ? rbt_set_deltas(w->counts.set) : rbt_lda_counts_values(w);
}

rbt_status rbt_lda_counts_pull(const struct rbt_lda_job *lda, rbt_worker *worker,
                               struct rbt_lda_worker *w, int64_t staleness)
{
    struct rbt_lda_counts *counts = &w->counts;
    if (counts->set != NULL) {
        counts->element_count = w->share.key_count * (size_t)lda->config.topics;
        return rbt_set_pull_within(counts->set, staleness);
    }
    const size_t topic_count = (size_t)lda->config.topics;
    const float *values = counts->elements.values;
    counts->element_count = 0;
    for (size_t i = 0; i < w->share.key_count; i++) {
        const rbt_status st = rbt_get_sparse_within(worker, lda->words, w->share.keys[i], staleness,
                                                    &counts->elements);
        if (st != RBT_OK) {
            return st;
        }
        float *row = counts->copy + i * topic_count;
        memset(row, 0, topic_count * sizeof *row);
        for (size_t j = 0; j < counts->elements.count; j++) {
            row[counts->elements.index[j]] = values[j];
        }
        counts->element_count += counts->elements.count;
    }
    return RBT_OK;
}

/* Sends the changes that have been gathered, word by word. */
static rbt_status flush(const struct rbt_lda_job *lda, rbt_worker *worker, struct rbt_lda_worker *w)
{
    struct rbt_lda_counts *counts = &w->counts;
    struct rbt_elements *elements = &counts->elements;
    float *values = elements->values;
    rbt_sort_u64(counts->changes, counts->change_count);
    rbt_status st = RBT_OK;
    for (size_t i = 0; i < counts->change_count && st == RBT_OK;) {
        const uint64_t word = counts->changes[i] >> 17;
        elements->count = 0;
        while (i < counts->change_count && counts->changes[i] >> 17 == word) {
            const uint64_t topic = counts->changes[i] >> 1;
            float sum = 0;
            for (; i < counts->change_count && counts->changes[i] >> 1 == topic; i++) {
                sum += (counts->changes[i] & 1) == 0 ? 1.0F : -1.0F;
            }
            if (sum != 0) {
                elements->index[elements->count] = (uint32_t)(topic & 0xffff);
                values[elements->count++] = sum;
            }
        }
        if (elements->count > 0) {
            st = rbt_add_elements(worker, lda->words, w->share.keys[word], elements);
        }
    }
    counts->change_count = 0;
    return st;
}

rbt_status rbt_lda_counts_push(const struct rbt_lda_job *lda, rbt_worker *worker,
                               struct rbt_lda_worker *w)
{
    return w->counts.set != NULL ? rbt_set_push(w->counts.set) : flush(lda, worker, w);
}

static uint64_t change_of(uint32_t word, uint16_t topic, bool is_less)
{
    return (uint64_t)word << 17 | (uint64_t)topic << 1 | (is_less ? 1U : 0U);
}

void rbt_lda_counts_before(struct rbt_lda_worker *w, size_t first, size_t count)
{
    if (w->counts.set == NULL) {
        RBT_ASSERT(count <= w->view_max);
        memcpy(w->counts.before, w->topics + first, count * sizeof *w->topics);
    }
}

rbt_status rbt_lda_counts_after(const struct rbt_lda_job *lda, rbt_worker *worker,
                                struct rbt_lda_worker *w, size_t first, size_t count)
{
    struct rbt_lda_counts *counts = &w->counts;
    if (counts->set != NULL) {
        return RBT_OK;
    }
    const uint32_t *words = w->sampler.topics.words + first;
    const uint16_t *topics = w->topics + first;
    rbt_status st =
        counts->change_count + 2 * count > counts->changes_max ? flush(lda, worker, w) : RBT_OK;
    for (size_t i = 0; i < count && st == RBT_OK; i++) {
        if (topics[i] != counts->before[i]) {
            counts->changes[counts->change_count++] = change_of(words[i], counts->before[i], true);
            counts->changes[counts->change_count++] = change_of(words[i], topics[i], false);
        }
    }
    return st;
}

rbt_status rbt_lda_counts_add(const struct rbt_lda_job *lda, rbt_worker *worker,
                              struct rbt_lda_worker *w, size_t first, size_t count)
{
    struct rbt_lda_counts *counts = &w->counts;
    if (counts->set != NULL) {
        return RBT_OK;
    }
    rbt_status st =
        counts->change_count + count > counts->changes_max ? flush(lda, worker, w) : RBT_OK;
    for (size_t i = first; i < first + count && st == RBT_OK; i++) {
        counts->changes[counts->change_count++] =
            change_of(w->sampler.topics.words[i], w->topics[i], false);
    }
    return st;
}

/* --- The end --------------------------------------------------------------------------------- */

/* Row by row; those without counts are left out. */
static rbt_status collect_rows(const struct rbt_lda_job *lda, rbt_worker *worker, int64_t staleness,
                               struct rbt_elements *elements, struct rbt_model_array *array)
{
    const float *values = elements->values;
    for (uint64_t key = 1; key <= lda->documents.word_count; key++) {
        const rbt_status st = rbt_get_sparse_within(worker, lda->words, key, staleness, elements);
        if (st != RBT_OK) {
            return st;
        }
        float *row = array->values + array->count * array->width;
        for (size_t j = 0; j < elements->count; j++) {
            row[elements->index[j]] = values[j];
        }
        if (elements->count > 0) {
            array->keys[array->count++] = key;
        }
    }
    return RBT_OK;
}

rbt_status rbt_lda_counts_collect(const struct rbt_lda_job *lda, rbt_worker *worker,
                                  int64_t staleness, struct rbt_model_array *array)
{
    if (lda->rows == RBT_LDA_ROWS_DENSE) {
        return rbt_replica_collect(worker, lda->words, staleness, array);
    }
    struct rbt_model_array made = {.name = "words", .width = (uint32_t)lda->config.topics};
    struct rbt_elements elements = {.capacity = made.width};
    elements.index = rbt_calloc(made.width, sizeof *elements.index);
    elements.values = rbt_calloc(made.width, sizeof(float));
    made.keys = rbt_calloc(lda->documents.word_count, sizeof *made.keys);
    made.values = rbt_calloc(lda->documents.word_count * made.width, sizeof *made.values);
    rbt_status st = elements.index == NULL || elements.values == NULL || made.keys == NULL ||
                            made.values == NULL
                        ? no_memory()
                        : RBT_OK;
    st = st != RBT_OK ? st : collect_rows(lda, worker, staleness, &elements, &made);
    rbt_free(elements.index);
    rbt_free(elements.values);
    if (st != RBT_OK) {
        rbt_free(made.keys);
        rbt_free(made.values);
        return st;
    }
    *array = made;
    return RBT_OK;
}
