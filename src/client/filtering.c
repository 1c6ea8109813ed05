/* client/filtering.c - filters at work on updates that go out.
 *
 * Randomness is a function of the table, the worker and how many updates of that table it has made:
 * the same on every driver.
 *
 * Threads: a worker's own, under the table's mutex with overlay PROCESS.
 * Memory: 9 bytes per element of the largest update that was filtered. */
#include "client/filtering.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "client/set.h"

struct rbt_chain_options rbt_table_chain(const rbt_table *table, rbt_filter_direction direction)
{
    const struct rbt_spec *spec = &table->spec;
    return (struct rbt_chain_options){.text = spec->filter,
                                      .direction = direction,
                                      .table = spec->name,
                                      .width = spec->width,
                                      .type = spec->type,
                                      .layout = spec->layout,
                                      .merge = spec->merge,
                                      .worker_count = table->job->worker_count};
}

rbt_status rbt_filtering_create(const rbt_table *table, uint32_t worker,
                                struct rbt_filtering **filtering)
{
    const struct rbt_chain_options options = rbt_table_chain(table, RBT_FILTER_PUSH);
    rbt_chain *chain = NULL;
    *filtering = NULL;
    const rbt_status st = rbt_chain_create(&options, &chain);
    const struct rbt_chain_traits traits = rbt_chain_traits(chain);
    if (st != RBT_OK || !(traits.has_select || traits.has_round)) {
        rbt_chain_destroy(chain);
        return st;
    }
    struct rbt_filtering *f = rbt_calloc(1, sizeof *f);
    if (f == NULL) {
        rbt_chain_destroy(chain);
        return rbt_fail(RBT_E_NOMEM, "could not allocate the filters of table \"%s\"",
                        table->spec.name);
    }
    const uint64_t seed = rbt_hash_key(table->spec.seed) ^ table->spec.number;
    *f = (struct rbt_filtering){.chain = chain,
                                .keeps_rest = traits.keeps_rest,
                                .has_round = traits.has_round,
                                .width = table->spec.width,
                                .worker = worker,
                                .seed = rbt_hash_key(rbt_hash_key(seed) ^ worker)};
    *filtering = f;
    return RBT_OK;
}

void rbt_filtering_destroy(struct rbt_filtering *filtering)
{
    if (filtering == NULL) {
        return;
    }
    rbt_free(filtering->keep);
    rbt_free(filtering->known);
    rbt_free(filtering->values);
    rbt_chain_destroy(filtering->chain);
    rbt_free(filtering);
}

rbt_status rbt_filtering_fit(struct rbt_filtering *filtering, size_t count)
{
    if (count <= filtering->room) {
        return RBT_OK;
    }
    float *values = rbt_realloc(filtering->values, count, sizeof *values);
    filtering->values = values == NULL ? filtering->values : values;
    float *known = rbt_realloc(filtering->known, count, sizeof *known);
    filtering->known = known == NULL ? filtering->known : known;
    bool *keep = rbt_realloc(filtering->keep, count, sizeof *keep);
    filtering->keep = keep == NULL ? filtering->keep : keep;
    if (values == NULL || known == NULL || keep == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to filter %zu elements", count);
    }
    filtering->room = count;
    return RBT_OK;
}

/* What the chain is told of rows; there must be room. */
static struct rbt_filter_rows tell(struct rbt_filtering *filtering,
                                   const struct rbt_filtering_rows *rows)
{
    RBT_ASSERT(rows->count * filtering->width <= filtering->room);
    return (struct rbt_filter_rows){.row_count = rows->count,
                                    .width = filtering->width,
                                    .keys = rows->keys,
                                    .values = rows->values,
                                    .keep = filtering->keep,
                                    .known = rows->known,
                                    .worker = filtering->worker,
                                    .turn = rows->turn,
                                    .seed = rbt_hash_key(filtering->seed ^ filtering->calls++)};
}

rbt_status rbt_filtering_apply(struct rbt_filtering *filtering,
                               const struct rbt_filtering_rows *rows, struct rbt_filter_code *code)
{
    const rbt_status st = rbt_filtering_fit(filtering, rows->count * filtering->width);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_filter_rows told = tell(filtering, rows);
    return rows->is_release ? rbt_chain_release(filtering->chain, &told, code)
                            : rbt_chain_apply(filtering->chain, &told, code);
}

rbt_status rbt_filtering_round(struct rbt_filtering *filtering, struct rbt_update *update)
{
    if (filtering == NULL || !filtering->has_round) {
        return RBT_OK;
    }
    const struct rbt_filtering_rows rows = {.keys = update->keys->keys,
                                            .count = update->keys->count,
                                            .values = (float *)update->values};
    const rbt_status st = rbt_filtering_fit(filtering, rows.count * filtering->width);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_filter_rows told = tell(filtering, &rows);
    return rbt_chain_round(filtering->chain, &told, &update->code);
}

/* --- Sets ------------------------------------------------------------------------------------ */

/* Deltas are gone: what goes is part of what is shown, and what does not is the rest. */
static void settle_deltas(const rbt_set *set, const bool *keep, float *values)
{
    const bool is_shown = set->local->table->options.overlay != RBT_OVERLAY_NONE;
    float *rest = (float *)set->rest;
    float *base = is_shown ? (float *)set->base : NULL;
    memset(set->deltas, 0, set->bytes);
    for (size_t i = 0; rest != NULL && i < set->elements; i++) {
        rest[i] = keep[i] ? 0.0F : values[i];
    }
    for (size_t i = 0; i < set->elements; i++) {
        values[i] = keep[i] ? values[i] : 0.0F;
    }
    for (size_t i = 0; base != NULL && i < set->elements; i++) {
        base[i] += values[i];
    }
}

/* Changes in place: the difference between values and base is what has not gone. It is noted as
 * well, since pulls replace the values. */
static void settle_in_place(const rbt_set *set, const bool *keep, float *values)
{
    const bool is_shown = set->local->table->options.overlay != RBT_OVERLAY_NONE;
    float *now = (float *)set->values;
    float *base = (float *)set->base;
    for (size_t i = 0; i < set->elements; i++) {
        const float rest = keep[i] ? 0.0F : values[i];
        values[i] = keep[i] ? values[i] : 0.0F;
        if (set->rest != NULL) {
            ((float *)set->rest)[i] = rest;
        }
        if (!keep[i] && rest == now[i] - base[i]) {
            continue; /* as it is, to the last bit */
        }
        base[i] += is_shown ? values[i] : 0.0F;
        now[i] = base[i] + rest;
    }
}

rbt_status rbt_filtering_take(rbt_set *set, struct rbt_update *update, bool is_new)
{
    const rbt_table *table = set->local->table;
    struct rbt_filtering *filtering = set->local->filtering;
    rbt_status st = rbt_filtering_fit(filtering, set->elements);
    if (st != RBT_OK) {
        return st;
    }
    float *values = is_new ? (float *)update->values : filtering->values;
    if (set->bytes > 0) { /* a set of no rows has no arrays */
        memcpy(values, set->is_in_place ? set->values : set->deltas, set->bytes);
    }
    if (set->is_in_place) {
        rbt_merge_subtract(table->kind.type, (char *)values, set->base, set->elements);
    } else if (set->rest != NULL) {
        rbt_merge_apply(table->kind, (char *)values, set->rest, set->elements);
    }
    const struct rbt_filtering_rows rows = {
        .keys = set->keys->keys,
        .count = set->keys->count,
        .values = values,
        .known = (const float *)(set->base != NULL ? set->base : set->values),
        .turn = set->turn,
        .is_release = rbt_filtering_is_release(filtering, set->turn)};
    struct rbt_filter_code code;
    st = rbt_filtering_apply(filtering, &rows, &code);
    if (st != RBT_OK) {
        return st;
    }
    set->turn++;
    if (set->is_in_place) {
        settle_in_place(set, filtering->keep, values);
    } else {
        settle_deltas(set, filtering->keep, values);
    }
    if (is_new) {
        update->code = code;
    } else {
        RBT_ASSERT(!filtering->has_round);
        rbt_merge_apply(table->kind, update->values, (const char *)values, set->elements);
    }
    return RBT_OK;
}

bool rbt_filtering_has_rest(const rbt_set *set, size_t first, size_t count)
{
    const size_t width = set->local->table->spec.width;
    const float *rest = (const float *)set->rest + first * width;
    size_t i = 0;
    while (i < count * width && rest[i] == 0) {
        i++;
    }
    return i < count * width;
}
