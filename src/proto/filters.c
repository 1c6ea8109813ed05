/* proto/filters.c - filters of tables at a shard: updates are read as workers have written them,
 * and rows that are read are written as workers will read them. What is selected and rounded is the
 * shard's business (store/outgoing.h); here it becomes bytes.
 *
 * Memory: about three times the largest message that was filtered. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "policy/filter/chain.h"
#include "proto/job_shard_parts.h"

rbt_status rbt_job_shard_open_filters(const rbt_job_shard *job, struct rbt_job_shard_entry *table)
{
    const struct rbt_spec *told = &table->spec;
    if (told->filter[0] == '\0' || table->is_open) { /* then they are there */
        return RBT_OK;
    }
    rbt_job_shard_close_filters(table);
    struct rbt_chain_options options = {.text = told->filter,
                                        .direction = RBT_FILTER_PUSH,
                                        .table = told->name,
                                        .width = told->width,
                                        .type = told->type,
                                        .layout = told->layout,
                                        .merge = told->merge,
                                        .worker_count = job->options.worker_count};
    rbt_status st = rbt_chain_create(&options, &table->push);
    options.direction = RBT_FILTER_PULL;
    st = st != RBT_OK ? st : rbt_chain_create(&options, &table->pull);
    return st != RBT_OK ? rbt_fail_in(st, "%s", job->options.name) : RBT_OK;
}

void rbt_job_shard_close_filters(struct rbt_job_shard_entry *table)
{
    rbt_chain_destroy(table->push);
    rbt_chain_destroy(table->pull);
    table->push = NULL;
    table->pull = NULL;
}

/* At least `bytes` of scratch. */
static rbt_status fit(rbt_job_shard *job, size_t bytes)
{
    if (bytes <= job->filtered_max) {
        return RBT_OK;
    }
    rbt_free(job->filtered);
    job->filtered = rbt_alloc(bytes);
    job->filtered_max = job->filtered == NULL ? 0 : bytes;
    return job->filtered != NULL ? RBT_OK
                                 : rbt_fail(RBT_E_NOMEM, "no memory to filter %zu bytes", bytes);
}

rbt_status rbt_job_shard_unfilter(rbt_job_shard *job, const struct rbt_job_shard_entry *table,
                                  const struct rbt_wire_view *view, void *values)
{
    if (table->push == NULL) {
        return rbt_fail(
            RBT_E_PROTOCOL,
            "malformed PUSH: updates of table \"%s\" are filtered, but the table has no filters",
            table->spec.name);
    }
    const size_t count = (size_t)view->element_count;
    const rbt_status st = fit(job, 2 * rbt_chain_bound(table->push, count));
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_chain_elements elements = {.count = count, .values = values};
    memset(values, 0,
           RBT_MUTANT(OLD_VALUES) ? 0 : count * view->element_size); /* what is not there */
    return rbt_chain_get(table->push, view->values, view->value_bytes, &elements, job->filtered);
}

bool *rbt_job_shard_keep(rbt_job_shard *job, const struct rbt_job_shard_entry *table, size_t count)
{
    if (!rbt_chain_traits(table->pull).has_select) {
        return NULL;
    }
    if (count > job->keep_max) {
        rbt_free(job->keep);
        job->keep = rbt_calloc(count, sizeof *job->keep);
        job->keep_max = job->keep == NULL ? 0 : count;
    }
    return job->keep; /* without memory all of it goes */
}

bool rbt_job_shard_filter(rbt_job_shard *job, const struct rbt_job_shard_entry *table,
                          const struct rbt_shard_sent *sent, struct rbt_wire_rows *rows)
{
    const size_t count = rbt_wire_rows_elements(rows);
    RBT_ASSERT(rows->positions == NULL); /* as the shard has written them */
    if (table->pull == NULL || count == 0) {
        return false;
    }
    const size_t bound = rbt_chain_bound(table->pull, count);
    if (fit(job, 3 * bound) != RBT_OK) {
        return false;
    }
    const struct rbt_chain_elements elements = {.count = count,
                                                .values = (void *)(uintptr_t)rows->values,
                                                .keep = sent->keep,
                                                .code = sent->code};
    rows->packed_bytes =
        rbt_chain_put(table->pull, &elements, job->filtered, job->filtered + bound);
    const bool is_less = rbt_wire_can_filter(count * rows->element_size, rows->packed_bytes);
    rows->packed = is_less ? job->filtered : NULL;
    return is_less;
}

uint64_t rbt_job_shard_base(const rbt_job_shard *job, const struct rbt_shard_sent *sent,
                            size_t count)
{
    const bool is_whole = sent->keep == NULL || memchr(sent->keep, false, count) == NULL;
    RBT_ASSERT(sent->keep == NULL || sent->keep == job->keep);
    return is_whole ? 0 : job->copy_known;
}
