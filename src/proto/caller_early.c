/* proto/caller_early.c - early reads: rows that shards send before anybody waits for them.
 *
 * A request is kept like those that are asked for ahead: it is asked again when the connection was
 * cut, its answer waits here as it came, and the stamp that it may have is not let go of. */
#include "base/alloc.h"
#include "proto/caller.h"
#include "proto/caller_state.h"
#include "proto/compose.h"

#define EARLY_SETS (UINT64_C(1) << 62) /* sets count from 1 */

/* Where the early answers of a set are kept: apart from those that are asked for ahead. */
static uint64_t early_number(uint64_t subscription)
{
    return EARLY_SETS | subscription;
}

void rbt_caller_ask_early(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; caller->status == RBT_OK && i < count; i++) {
        const struct rbt_driver_call *call = &calls[i];
        const struct rbt_stream *stream = &caller->streams[call->shard];
        struct rbt_prefetch *prefetch = rbt_prefetches_get(
            &caller->prefetches, early_number(call->event.subscription), call->shard, true);
        if (prefetch == NULL || prefetch->request != NULL ||
            stream->request_count >= RBT_CALLER_PREFETCH_MAX ||
            !rbt_compose_is_cheap(caller, stream, &call->event)) {
            continue; /* then nothing comes early */
        }
        rbt_prefetch_drop(prefetch);
        rbt_caller_request_early(caller, prefetch, call, call->event.need);
    }
}

/* Gives an early call what has come for it, or nothing. */
static void finish_early(struct rbt_caller *caller, struct rbt_driver_call *call)
{
    struct rbt_prefetch *prefetch = rbt_prefetches_find(
        &caller->prefetches, early_number(call->event.subscription), call->shard, true);
    struct rbt_answer kept;
    call->reply = (struct rbt_driver_reply){0};
    call->event.early->count = 0;
    if (caller->status != RBT_OK || prefetch == NULL || prefetch->answer_bytes == 0) {
        return;
    }
    const struct rbt_body body = {.bytes = prefetch->answer, .count = prefetch->answer_bytes};
    rbt_status st = rbt_answer_parse(&body, &kept);
    st = st != RBT_OK ? st : rbt_caller_complete(caller, call, &kept);
    rbt_prefetch_drop(prefetch); /* the worker holds its stamp from here on */
    if (st != RBT_OK) {
        rbt_caller_fail(caller, st);
    }
}

bool rbt_caller_has_early(const struct rbt_caller *caller, const struct rbt_driver_call *calls,
                          size_t count)
{
    bool is_there = true;
    for (size_t i = 0; caller->status == RBT_OK && i < count; i++) {
        const struct rbt_prefetch *prefetch = rbt_prefetches_find(
            &caller->prefetches, early_number(calls[i].event.subscription), calls[i].shard, true);
        is_there = is_there && (prefetch == NULL || prefetch->request == NULL);
    }
    return is_there;
}

void rbt_caller_take_early(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        finish_early(caller, &calls[i]);
    }
    for (size_t i = 0; caller->status != RBT_OK && i < count; i++) {
        calls[i].event.early->count = 0;
        calls[i].reply.status = rbt_caller_refuse(caller);
    }
    if (count > 0) {
        rbt_caller_count_traffic(caller, &calls[0].reply);
    }
}

void rbt_caller_forget_early(struct rbt_caller *caller, uint64_t subscription)
{
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        struct rbt_prefetch *prefetch =
            rbt_prefetches_find(&caller->prefetches, early_number(subscription), i, true);
        if (prefetch != NULL) { /* what is on its way is dropped some clocks after it has come */
            rbt_prefetch_drop(prefetch);
            rbt_free(prefetch->answer);
            prefetch->answer = NULL;
            prefetch->answer_max = 0;
        }
    }
}
