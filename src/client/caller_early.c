/* client/caller_early.c - early reads: rows that shards send before anybody waits for them.
 *
 * A request is kept like those that are asked for ahead: it is asked again when the connection was
 * cut, its answer waits here as it came, and the stamp that it may have is not let go of. */
#include "base/alloc.h"
#include "client/caller.h"
#include "client/caller_state.h"
#include "client/compose.h"

#define EARLY_SETS (UINT64_C(1) << 62) /* sets count from 1 */

/* Where the early answers of a set are kept: apart from those that are asked for ahead. */
static uint64_t early_number(uint64_t subscription)
{
    return EARLY_SETS | subscription;
}

void rbt_caller_ask_early(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    rbt_caller_lock(caller);
    for (size_t i = 0; caller->status == RBT_OK && i < count; i++) {
        const struct rbt_driver_call *call = &calls[i];
        struct rbt_link *link = &caller->links[call->shard];
        struct rbt_ahead *ahead = rbt_aheads_get(
            &caller->aheads, early_number(call->event.subscription), call->shard, true);
        if (ahead == NULL || ahead->request != NULL ||
            link->request_count >= RBT_CALLER_AHEAD_MAX ||
            !rbt_compose_is_cheap(caller, link, &call->event)) {
            continue; /* then nothing comes early */
        }
        rbt_ahead_drop(ahead);
        rbt_caller_request_early(caller, ahead, call, call->event.need);
    }
    for (size_t i = 0; i < count; i++) { /* those of one shard together */
        rbt_link_flush(&caller->links[calls[i].shard]);
    }
    rbt_caller_unlock(caller);
}

/* Gives an early call what has come for it, or nothing. */
static void finish_early(struct rbt_caller *caller, struct rbt_driver_call *call)
{
    struct rbt_ahead *ahead =
        rbt_aheads_find(&caller->aheads, early_number(call->event.subscription), call->shard, true);
    struct rbt_answer kept;
    call->reply = (struct rbt_driver_reply){0};
    call->event.early->count = 0;
    if (caller->status != RBT_OK || ahead == NULL || ahead->answer_bytes == 0) {
        return;
    }
    const struct rbt_body body = {.bytes = ahead->answer, .count = ahead->answer_bytes};
    rbt_status st = rbt_answer_parse(&body, &kept);
    st = st != RBT_OK ? st : rbt_caller_complete(caller, call, &kept);
    rbt_ahead_drop(ahead); /* the worker holds its stamp from here on */
    if (st != RBT_OK) {
        rbt_caller_fail(caller, st);
    }
}

bool rbt_caller_take_early(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    bool is_there = true;
    rbt_caller_lock(caller);
    rbt_caller_glance(caller);
    for (size_t i = 0; caller->status == RBT_OK && i < count; i++) {
        const struct rbt_ahead *ahead = rbt_aheads_find(
            &caller->aheads, early_number(calls[i].event.subscription), calls[i].shard, true);
        is_there = is_there && (ahead == NULL || ahead->request == NULL);
    }
    for (size_t i = 0; is_there && i < count; i++) {
        finish_early(caller, &calls[i]);
    }
    for (size_t i = 0; is_there && caller->status != RBT_OK && i < count; i++) {
        calls[i].event.early->count = 0;
        calls[i].reply.status = rbt_caller_refuse(caller);
    }
    if (is_there && count > 0) {
        rbt_caller_count_bytes(caller, &calls[0].reply);
    }
    rbt_caller_unlock(caller);
    return is_there;
}

uint64_t rbt_caller_heard(struct rbt_caller *caller)
{
    uint64_t least = UINT64_MAX;
    rbt_caller_lock(caller);
    rbt_caller_glance(caller);
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        const uint64_t arrived = caller->links[i].news.arrived;
        least = arrived < least ? arrived : least;
    }
    rbt_caller_unlock(caller);
    return least;
}

void rbt_caller_forget_early(struct rbt_caller *caller, uint64_t subscription)
{
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        struct rbt_ahead *ahead =
            rbt_aheads_find(&caller->aheads, early_number(subscription), i, true);
        if (ahead != NULL) { /* what is on its way is dropped some clocks after it has come */
            rbt_ahead_drop(ahead);
            rbt_free(ahead->answer);
            ahead->answer = NULL;
            ahead->answer_max = 0;
        }
    }
}
