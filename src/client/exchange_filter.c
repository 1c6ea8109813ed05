/* client/exchange_filter.c - filters at work on rows that travel before the clock ends.
 *
 * Threads: a worker's own, under the table's mutex with overlay PROCESS. Memory: the scratch arrays
 * of the worker's filters. */
#include <string.h>

#include "client/exchange.h"
#include "client/filtering.h"
#include "client/flush.h"
#include "client/set.h"

rbt_status rbt_managed_filter(struct rbt_managed *m, size_t count, struct rbt_filter_code *code)
{
    const rbt_set *set = m->set;
    struct rbt_filtering *filtering = set->local->filtering;
    const size_t width = filtering->width;
    const float *copy = (const float *)(set->base != NULL ? set->base : set->values);
    rbt_status st = rbt_filtering_fit(filtering, count * width);
    if (st != RBT_OK) {
        return st;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t at = (size_t)m->chosen[i] * width;
        m->keys[i] = m->tagged[i].key;
        memcpy(filtering->values + i * width, (const float *)set->deltas + at,
               width * sizeof *filtering->values);
        for (size_t k = 0; set->rest != NULL && k < width; k++) {
            filtering->values[i * width + k] += ((const float *)set->rest)[at + k];
        }
        memcpy(filtering->known + i * width, copy + at, width * sizeof *filtering->known);
        m->tagged[i].row = (uint32_t)i;
    }
    const struct rbt_filtering_rows rows = {.keys = m->keys,
                                            .count = count,
                                            .values = filtering->values,
                                            .known = filtering->known,
                                            .turn = set->turn,
                                            .is_release = m->is_release};
    st = rbt_filtering_apply(filtering, &rows, code);
    for (size_t i = 0; st == RBT_OK && i < count * width; i++) {
        filtering->known[i] = filtering->keep[i] ? 0.0F : filtering->values[i];
        filtering->values[i] = filtering->keep[i] ? filtering->values[i] : 0.0F;
    }
    return st;
}

void rbt_managed_settle(const struct rbt_managed *m, uint32_t row, size_t i)
{
    const rbt_set *set = m->set;
    const rbt_table *table = set->local->table;
    const struct rbt_filtering *filtering = set->local->filtering;
    if (set->base != NULL && table->options.overlay != RBT_OVERLAY_NONE) {
        rbt_merge_apply(table->kind, set->base + (size_t)row * table->row_size,
                        filtering->values + i * filtering->width, filtering->width);
    }
    rbt_merge_clear(table->kind, set->deltas + (size_t)row * table->row_size, table->spec.width);
    if (set->rest != NULL) {
        memcpy(set->rest + (size_t)row * table->row_size, filtering->known + i * filtering->width,
               table->row_size);
    }
}
