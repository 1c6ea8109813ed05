/* proto/admitted.c - the jobs that the coordinator has told a shard of. They are few: a list. */
#include "proto/admitted.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

void rbt_admitted_deinit(struct rbt_admitted *admitted)
{
    for (uint32_t i = 0; i < admitted->count; i++) {
        rbt_bounds_deinit(&admitted->jobs[i].bounds);
    }
    rbt_free(admitted->jobs);
}

/* The job's place, or their number. */
static uint32_t find(const struct rbt_admitted *admitted, uint64_t number)
{
    uint32_t at = 0;
    while (at < admitted->count && admitted->jobs[at].number != number) {
        at++;
    }
    return at;
}

void rbt_admitted_add(struct rbt_admitted *admitted, uint64_t number,
                      const struct rbt_control_job *job)
{
    RBT_ASSERT(number > 0);
    if (admitted->count == admitted->max) {
        const uint32_t max = admitted->max == 0 ? 4 : 2 * admitted->max;
        struct rbt_admitted_job *grown = rbt_realloc(admitted->jobs, max, sizeof *grown);
        admitted->jobs = grown != NULL ? grown : admitted->jobs;
        admitted->max = grown != NULL ? max : admitted->max;
    }
    if (find(admitted, number) == admitted->count && admitted->count < admitted->max) {
        admitted->jobs[admitted->count++] =
            (struct rbt_admitted_job){.number = number, .job = *job};
        admitted->workers += job->worker_count;
    }
}

void rbt_admitted_remove(struct rbt_admitted *admitted, uint64_t number)
{
    const uint32_t at = find(admitted, number);
    if (at < admitted->count) {
        admitted->workers -= admitted->jobs[at].job.worker_count;
        rbt_bounds_deinit(&admitted->jobs[at].bounds);
        admitted->jobs[at] = admitted->jobs[--admitted->count];
    }
}

void rbt_admitted_bound(struct rbt_admitted *admitted, uint64_t number,
                        const struct rbt_bound *bound)
{
    const uint32_t at = find(admitted, number);
    if (at < admitted->count && rbt_bounds_note(&admitted->jobs[at].bounds, bound) != RBT_OK) {
        rbt_admitted_remove(admitted, number);
    }
}

const struct rbt_bounds *rbt_admitted_bounds(const struct rbt_admitted *admitted, uint64_t number)
{
    const uint32_t at = find(admitted, number);
    return at < admitted->count ? &admitted->jobs[at].bounds : NULL;
}

rbt_status rbt_admitted_check(const struct rbt_admitted *admitted,
                              const struct rbt_wire_hello *hello)
{
    struct rbt_admitted_job found = {0};
    const uint32_t at = find(admitted, hello->job);
    if (at < admitted->count) {
        found = admitted->jobs[at];
    }
    if (found.number == 0) { /* the others may have heard of it before us */
        return rbt_fail(RBT_E_NOTFOUND, "the shard does not know job %llu yet",
                        (unsigned long long)hello->job);
    }
    const struct rbt_wire_secret *secret =
        hello->is_reader ? &found.job.read_secret : &found.job.secret;
    if (!rbt_wire_is_secret(&hello->secret, secret)) {
        return rbt_fail(RBT_E_PROTOCOL, "%s does not have the secret of job %llu%s", hello->node,
                        (unsigned long long)hello->job, hello->is_reader ? " for readers" : "");
    }
    if (!hello->is_reader && hello->worker_count != found.job.worker_count) {
        return rbt_fail(RBT_E_PROTOCOL, "%s has %u workers for the job, other processes have %u",
                        hello->node, hello->worker_count, found.job.worker_count);
    }
    return RBT_OK;
}
