/* data/rating_share.c - deals users, and with them their ratings, out to the workers.
 *
 * Users with the most ratings go first, each to the worker that has the fewest so far; among users
 * with equally many the seed decides. A share then differs from the average by less than the number
 * of ratings of one of the last users, which are the small ones.
 *
 * All workers compute the same assignment, so they agree without talking.
 *
 * Threads: any, at the same time, on the same ratings. Memory: 8 bytes per rating and 28 per user
 * of the whole while the share is made. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/examples.h"
#include "data/sort.h"

/* Whose random numbers these are: "user" and "rati". */
enum {
    STREAM_USERS = 0x75736572,
    STREAM_RATINGS = 0x72617469,
};

/* The least loaded worker is the root of a binary heap. */
struct worker {
    uint64_t load;
    uint32_t index;
};

/* What is needed while the share is made. */
struct plan {
    uint32_t *users;  /* of each rating, as a number from 0 */
    uint32_t *loads;  /* ratings of each user */
    uint32_t *owners; /* worker of each user */
    uint64_t *order;  /* users: those with most ratings first */
    uint64_t *scratch;
    uint32_t *random; /* a random order */
    struct worker *workers;
    size_t user_count;
};

void rbt_rating_share_free(struct rbt_rating_share *share)
{
    rbt_free(share->users);
    rbt_free(share->items);
    rbt_free(share->values);
    rbt_free(share->user_keys);
    rbt_free(share->item_keys);
    *share = (struct rbt_rating_share){0};
}

static void free_plan(struct plan *plan)
{
    rbt_free(plan->users);
    rbt_free(plan->loads);
    rbt_free(plan->owners);
    rbt_free(plan->order);
    rbt_free(plan->scratch);
    rbt_free(plan->random);
    rbt_free(plan->workers);
}

static rbt_status out_of_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "could not make a share of the ratings: out of memory");
}

static bool is_before(const struct worker *a, const struct worker *b)
{
    return a->load != b->load ? a->load < b->load : a->index < b->index;
}

/* Gives the root `load` more and restores the heap. */
static void add_load(struct worker *workers, uint32_t count, uint32_t load)
{
    workers[0].load += load;
    for (uint64_t i = 0, child = 1; child < count; child = 2 * i + 1) {
        child += child + 1 < count && is_before(&workers[child + 1], &workers[child]);
        if (!is_before(&workers[child], &workers[i])) {
            break;
        }
        const struct worker moved = workers[i];
        workers[i] = workers[child];
        workers[child] = moved;
        i = child;
    }
}

/* Decides which worker has which user. */
static void assign(struct plan *plan, uint64_t seed, uint32_t worker_count)
{
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, STREAM_USERS, 0);
    rbt_rng_permutation(&rng, plan->random, plan->user_count);
    for (size_t i = 0; i < plan->user_count; i++) {
        const uint64_t fewness = UINT32_MAX - plan->loads[plan->random[i]];
        plan->order[i] = fewness << 32 | i;
    }
    rbt_sort_keys(plan->order, plan->scratch, plan->user_count);
    for (uint32_t i = 0; i < worker_count; i++) {
        plan->workers[i] = (struct worker){.index = i};
    }
    for (size_t i = 0; i < plan->user_count; i++) {
        const uint32_t user = plan->random[(uint32_t)plan->order[i]];
        plan->owners[user] = plan->workers[0].index;
        add_load(plan->workers, worker_count, plan->loads[user]);
    }
}

static rbt_status make_plan(const struct rbt_ratings *ratings, uint32_t worker_count,
                            struct plan *plan)
{
    plan->users = rbt_calloc(ratings->count, sizeof *plan->users);
    if (plan->users == NULL) {
        return out_of_memory();
    }
    struct rbt_sorted sorted = {0};
    const rbt_status st = rbt_sort_positions(ratings->users, ratings->count, plan->users, &sorted);
    if (st != RBT_OK) {
        return st;
    }
    rbt_free(sorted.keys);
    plan->user_count = sorted.count;
    plan->loads = rbt_calloc(sorted.count, sizeof *plan->loads);
    plan->owners = rbt_calloc(sorted.count, sizeof *plan->owners);
    plan->order = rbt_calloc(sorted.count, sizeof *plan->order);
    plan->scratch = rbt_calloc(sorted.count, sizeof *plan->scratch);
    plan->random = rbt_calloc(sorted.count, sizeof *plan->random);
    plan->workers = rbt_calloc(worker_count, sizeof *plan->workers);
    if (plan->loads == NULL || plan->owners == NULL || plan->order == NULL ||
        plan->scratch == NULL || plan->random == NULL || plan->workers == NULL) {
        return out_of_memory();
    }
    for (size_t i = 0; i < ratings->count; i++) {
        plan->loads[plan->users[i]]++;
    }
    return RBT_OK;
}

/* Numbers of the worker's ratings in random order, in `list`; returns how many. */
static size_t list_ratings(const struct plan *plan, size_t total, uint32_t index, uint32_t *list)
{
    size_t count = 0;
    for (size_t i = 0; i < total; i++) {
        if (plan->owners[plan->users[i]] == index) {
            list[count++] = (uint32_t)i;
        }
    }
    return count;
}

static void shuffle(uint32_t *list, size_t count, struct rbt_rng *rng)
{
    for (size_t i = count; i > 1; i--) {
        const size_t j = (size_t)rbt_rng_below(rng, i);
        const uint32_t moved = list[i - 1];
        list[i - 1] = list[j];
        list[j] = moved;
    }
}

/* Replaces the `keys` of the share's ratings by positions. */
static rbt_status number(const uint64_t *keys, const uint32_t *list, size_t count,
                         uint32_t *positions, struct rbt_sorted *sorted)
{
    uint64_t *chosen = rbt_calloc(count, sizeof *chosen);
    if (chosen == NULL) {
        return out_of_memory();
    }
    for (size_t i = 0; i < count; i++) {
        chosen[i] = keys[list[i]];
    }
    const rbt_status st = rbt_sort_positions(chosen, count, positions, sorted);
    rbt_free(chosen);
    return st;
}

static rbt_status build(const struct rbt_ratings *ratings, const uint32_t *list,
                        struct rbt_rating_share *share)
{
    share->users = rbt_calloc(share->count, sizeof *share->users);
    share->items = rbt_calloc(share->count, sizeof *share->items);
    share->values = rbt_calloc(share->count, sizeof *share->values);
    if (share->users == NULL || share->items == NULL || share->values == NULL) {
        return out_of_memory();
    }
    for (size_t i = 0; i < share->count; i++) {
        share->values[i] = ratings->values[list[i]];
    }
    struct rbt_sorted sorted = {0};
    rbt_status st = number(ratings->users, list, share->count, share->users, &sorted);
    if (st != RBT_OK) {
        return st;
    }
    share->user_keys = sorted.keys;
    share->user_count = sorted.count;
    st = number(ratings->items, list, share->count, share->items, &sorted);
    if (st != RBT_OK) {
        return st;
    }
    share->item_keys = sorted.keys;
    share->item_count = sorted.count;
    return RBT_OK;
}

rbt_status rbt_rating_share_take(const struct rbt_ratings *ratings, uint64_t seed, uint32_t index,
                                 uint32_t count, struct rbt_rating_share *share)
{
    RBT_ASSERT(index < count);
    if (ratings->count > UINT32_MAX) {
        return rbt_fail(RBT_E_INVALID, "there are more than %u ratings", UINT32_MAX);
    }
    struct plan plan = {0};
    struct rbt_rating_share result = {0};
    uint32_t *list = NULL;
    rbt_status st = make_plan(ratings, count, &plan);
    if (st != RBT_OK) {
        goto done;
    }
    list = rbt_calloc(ratings->count, sizeof *list);
    if (list == NULL) {
        st = out_of_memory();
        goto done;
    }
    assign(&plan, seed, count);
    result.count = list_ratings(&plan, ratings->count, index, list);
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, STREAM_RATINGS, index);
    shuffle(list, result.count, &rng);
    st = build(ratings, list, &result);
done:
    free_plan(&plan);
    rbt_free(list);
    if (st != RBT_OK) {
        rbt_rating_share_free(&result);
        return st;
    }
    *share = result;
    return RBT_OK;
}
