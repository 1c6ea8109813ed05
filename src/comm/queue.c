/* comm/queue.c - rows that have changed, and which of them go first.
 *
 * SCORE sorts items into buckets by the exponent and the first three bits of the mantissa of their
 * score: as a float that is not negative is larger when its bits are, that is the number's first 11
 * bits. A bucket is a doubly linked list through the items' own array, the newest last. Which
 * buckets have items is in a bitmap with another one over its words, so that the highest is found
 * with two instructions. OLDEST is the same with one bucket.
 *
 * WALK is a tree of bitmaps: a bit of a level says whether a word of the level below has any.
 *
 * RANDOM keeps the marked items side by side, and the last one moves to where one was taken.
 *
 * In all of them what is zero is not marked and belongs to no list, so that new memory needs no
 * preparation: links and places count from 1. */
#include "comm/queue.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/rng.h"

enum {
    SCORE_SHIFT = 20, /* sign, 8 bits of exponent and 3 of mantissa stay */
    SCORE_BUCKETS = 2048,
    WORD_BITS = 64,
    LEVELS_MAX = 6, /* 64^6 > 2^32 */
};

/* An item in a list: of the bucket `bucket` - 1, between the items `previous` - 1 and `next` - 1;
 * 0: none. */
struct link {
    uint32_t next;
    uint32_t previous;
    uint32_t bucket;
};

/* The first and the last item of a list, counted from 1; 0: it is empty. */
struct list {
    uint32_t first;
    uint32_t last;
};

struct rbt_change_queue {
    rbt_queue_order order;
    uint32_t capacity;
    uint32_t count;
    /* OLDEST and SCORE */
    struct link *links;                       /* (capacity) */
    struct list *lists;                       /* (1 or SCORE_BUCKETS) */
    uint64_t used[SCORE_BUCKETS / WORD_BITS]; /* buckets with items */
    uint64_t used_words;                      /* words of `used` that are not zero */
    /* WALK */
    uint64_t *bits[LEVELS_MAX]; /* the first is of the items; the last has one word */
    size_t words[LEVELS_MAX];   /* of each */
    uint32_t level_count;
    uint32_t cursor; /* the walk goes on here */
    /* RANDOM */
    uint32_t *items;  /* (capacity), the first `count` are in use */
    uint32_t *places; /* (capacity), from 1: where it is in `items` */
    struct rbt_rng rng;
};

static size_t words_of(size_t bits)
{
    return (bits + WORD_BITS - 1) / WORD_BITS;
}

/* --- Lists ------------------------------------------------------------------------------------ */

static uint32_t bucket_of(const rbt_change_queue *queue, float score)
{
    uint32_t bits = 0;
    if (queue->order == RBT_ORDER_OLDEST || score <= 0) {
        return 0;
    }
    const float number = isnan(score) ? INFINITY : score;
    memcpy(&bits, &number, sizeof bits);
    RBT_ASSERT(bits >> SCORE_SHIFT < SCORE_BUCKETS);
    return bits >> SCORE_SHIFT;
}

static void list_add(rbt_change_queue *queue, uint32_t item, uint32_t bucket)
{
    struct list *list = &queue->lists[bucket];
    RBT_DEBUG_ASSERT(queue->links[item].bucket == 0);
    queue->links[item] = (struct link){.previous = list->last, .bucket = bucket + 1};
    if (list->last == 0) {
        RBT_ASSERT(list->first == 0);
        list->first = item + 1;
        queue->used[bucket / WORD_BITS] |= (uint64_t)1 << bucket % WORD_BITS;
        queue->used_words |= (uint64_t)1 << bucket / WORD_BITS;
    } else {
        RBT_DEBUG_ASSERT(queue->links[list->last - 1].next == 0);
        queue->links[list->last - 1].next = item + 1;
    }
    list->last = item + 1;
}

static void list_remove(rbt_change_queue *queue, uint32_t item)
{
    const struct link link = queue->links[item];
    RBT_ASSERT(link.bucket > 0);
    const uint32_t bucket = link.bucket - 1;
    struct list *list = &queue->lists[bucket];
    *(link.previous == 0 ? &list->first : &queue->links[link.previous - 1].next) = link.next;
    *(link.next == 0 ? &list->last : &queue->links[link.next - 1].previous) = link.previous;
    queue->links[item] = (struct link){0};
    if (list->first == 0) {
        RBT_ASSERT(list->last == 0);
        queue->used[bucket / WORD_BITS] &= ~((uint64_t)1 << bucket % WORD_BITS);
        if (queue->used[bucket / WORD_BITS] == 0) {
            queue->used_words &= ~((uint64_t)1 << bucket / WORD_BITS);
        }
    }
}

static uint32_t list_first(const rbt_change_queue *queue)
{
    RBT_ASSERT(queue->used_words != 0);
    const uint32_t word = WORD_BITS - 1 - (uint32_t)__builtin_clzll(queue->used_words);
    RBT_ASSERT(queue->used[word] != 0);
    const uint32_t bit = WORD_BITS - 1 - (uint32_t)__builtin_clzll(queue->used[word]);
    const uint32_t item = queue->lists[word * WORD_BITS + bit].first - 1;
    const uint32_t next = queue->links[item].next;
    if (next != 0) {
        __builtin_prefetch(&queue->links[next - 1], 1);
    }
    return item;
}

/* --- Bitmaps ---------------------------------------------------------------------------------- */

static bool bits_has(const rbt_change_queue *queue, uint32_t item)
{
    return queue->bits[0][item / WORD_BITS] >> item % WORD_BITS & 1;
}

static void bits_add(rbt_change_queue *queue, uint32_t item)
{
    RBT_DEBUG_ASSERT(!bits_has(queue, item));
    for (uint32_t level = 0; level < queue->level_count; level++) {
        uint64_t *word = &queue->bits[level][item / WORD_BITS];
        const bool was_empty = *word == 0;
        *word |= (uint64_t)1 << item % WORD_BITS;
        if (!was_empty) {
            return;
        }
        item /= WORD_BITS;
    }
}

static void bits_remove(rbt_change_queue *queue, uint32_t item)
{
    RBT_DEBUG_ASSERT(bits_has(queue, item));
    for (uint32_t level = 0; level < queue->level_count; level++) {
        uint64_t *word = &queue->bits[level][item / WORD_BITS];
        *word &= ~((uint64_t)1 << item % WORD_BITS);
        if (*word != 0) {
            return;
        }
        item /= WORD_BITS;
    }
}

/* The first one from `from` on; RBT_QUEUE_NONE if there is none. Up until a word has one at or
 * after the place, then down along the first ones. */
static uint32_t bits_next(const rbt_change_queue *queue, uint32_t from)
{
    uint64_t at = from;
    uint32_t level = 0;
    for (;; level++) { /* to the last level at most */
        if (level == queue->level_count) {
            return RBT_QUEUE_NONE;
        }
        const uint64_t word = at / WORD_BITS;
        const uint64_t rest =
            word < queue->words[level] ? queue->bits[level][word] >> at % WORD_BITS : 0;
        if (rest != 0) {
            at += (uint32_t)__builtin_ctzll(rest);
            break;
        }
        at = word + 1; /* the next word, which is a bit of the next level */
    }
    while (level > 0) {
        level--;
        RBT_ASSERT(queue->bits[level][at] != 0);
        at = at * WORD_BITS + (uint32_t)__builtin_ctzll(queue->bits[level][at]);
    }
    RBT_ASSERT(at < queue->capacity);
    return (uint32_t)at;
}

static uint32_t bits_first(rbt_change_queue *queue)
{
    uint32_t item = bits_next(queue, queue->cursor);
    if (item == RBT_QUEUE_NONE) {
        item = bits_next(queue, 0);
    }
    RBT_ASSERT(item != RBT_QUEUE_NONE);
    queue->cursor = item + 1; /* behind the last one: there may be more then */
    return item;
}

/* Bitmaps for so many items. A level that is new is made from the one below. If memory runs out,
 * what has grown already does no harm: the number of levels and words is as it was. */
static bool bits_grow(rbt_change_queue *queue, uint32_t capacity)
{
    size_t words[LEVELS_MAX] = {words_of(capacity)};
    uint32_t count = 1;
    for (; words[count - 1] > 1; count++) { /* until there is one word */
        words[count] = words_of(words[count - 1]);
    }
    RBT_ASSERT(count <= LEVELS_MAX);
    for (uint32_t level = 0; level < count; level++) {
        uint64_t *bits = rbt_realloc(queue->bits[level], words[level], sizeof *bits);
        if (bits == NULL) {
            return false;
        }
        queue->bits[level] = bits;
        if (level >= queue->level_count && level > 0) {
            memset(bits, 0, words[level] * sizeof *bits);
            for (size_t i = 0; i < words[level - 1]; i++) {
                const uint64_t has_any = queue->bits[level - 1][i] != 0;
                bits[i / WORD_BITS] |= has_any << i % WORD_BITS;
            }
        }
    }
    memcpy(queue->words, words, sizeof words);
    queue->level_count = count;
    return true;
}

/* --- Side by side ----------------------------------------------------------------------------- */

static void place_add(rbt_change_queue *queue, uint32_t item)
{
    RBT_DEBUG_ASSERT(queue->places[item] == 0);
    RBT_ASSERT(queue->count < queue->capacity);
    queue->items[queue->count] = item;
    queue->places[item] = queue->count + 1;
}

static void place_remove(rbt_change_queue *queue, uint32_t item)
{
    const uint32_t place = queue->places[item] - 1;
    const uint32_t last = queue->items[queue->count - 1];
    RBT_ASSERT(place < queue->count);
    queue->items[place] = last;
    queue->places[last] = place + 1;
    queue->places[item] = 0;
}

/* --- All orders ------------------------------------------------------------------------------- */

rbt_status rbt_queue_create(rbt_queue_order order, uint32_t capacity, uint64_t seed,
                            rbt_change_queue **queue)
{
    rbt_change_queue *made = rbt_calloc(1, sizeof *made);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a queue of changed rows");
    }
    made->order = order;
    rbt_rng_init(&made->rng, seed, 0, 0);
    if (order == RBT_ORDER_OLDEST || order == RBT_ORDER_SCORE) {
        made->lists = rbt_calloc(order == RBT_ORDER_SCORE ? SCORE_BUCKETS : 1, sizeof *made->lists);
        if (made->lists == NULL) {
            rbt_queue_destroy(made);
            return rbt_fail(RBT_E_NOMEM, "no memory for a queue of changed rows");
        }
    }
    const rbt_status st = rbt_queue_grow(made, capacity);
    if (st != RBT_OK) {
        rbt_queue_destroy(made);
        return st;
    }
    *queue = made;
    return RBT_OK;
}

void rbt_queue_destroy(rbt_change_queue *queue)
{
    if (queue == NULL) {
        return;
    }
    for (uint32_t level = 0; level < LEVELS_MAX; level++) {
        rbt_free(queue->bits[level]);
    }
    rbt_free(queue->links);
    rbt_free(queue->lists);
    rbt_free(queue->items);
    rbt_free(queue->places);
    rbt_free(queue);
}

/* Grows one array, if there is memory; what was there stays in any case. */
static bool grow_array(void **array, uint32_t capacity, size_t size)
{
    RBT_ASSERT(size > 0);
    void *grown = rbt_realloc(*array, capacity, size);
    *array = grown == NULL ? *array : grown;
    return grown != NULL;
}

rbt_status rbt_queue_grow(rbt_change_queue *queue, uint32_t capacity)
{
    RBT_ASSERT(capacity < RBT_QUEUE_NONE);
    bool has_grown = true;
    if (capacity <= queue->capacity) {
        return RBT_OK;
    }
    switch (queue->order) {
    case RBT_ORDER_OLDEST:
    case RBT_ORDER_SCORE:
        has_grown = grow_array((void **)&queue->links, capacity, sizeof *queue->links);
        break;
    case RBT_ORDER_WALK:
        has_grown = bits_grow(queue, capacity);
        break;
    case RBT_ORDER_RANDOM:
        has_grown = grow_array((void **)&queue->items, capacity, sizeof *queue->items) &&
                    grow_array((void **)&queue->places, capacity, sizeof *queue->places);
        break;
    }
    if (!has_grown) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a queue of %u changed rows", capacity);
    }
    queue->capacity = capacity;
    return RBT_OK;
}

bool rbt_queue_is_marked(const rbt_change_queue *queue, uint32_t item)
{
    RBT_ASSERT(item < queue->capacity);
    switch (queue->order) {
    case RBT_ORDER_OLDEST:
    case RBT_ORDER_SCORE:
        return queue->links[item].bucket != 0;
    case RBT_ORDER_WALK:
        return bits_has(queue, item);
    case RBT_ORDER_RANDOM:
        return queue->places[item] != 0;
    }
    RBT_UNREACHABLE();
}

void rbt_queue_mark(rbt_change_queue *queue, uint32_t item, float score)
{
    RBT_ASSERT(item < queue->capacity);
    const bool was_marked = rbt_queue_is_marked(queue, item);
    switch (queue->order) {
    case RBT_ORDER_OLDEST:
    case RBT_ORDER_SCORE: {
        const uint32_t bucket = bucket_of(queue, score);
        if (was_marked && queue->links[item].bucket == bucket + 1) {
            return;
        }
        if (was_marked) {
            list_remove(queue, item);
        }
        list_add(queue, item, bucket);
        break;
    }
    case RBT_ORDER_WALK:
        if (!was_marked) {
            bits_add(queue, item);
        }
        break;
    case RBT_ORDER_RANDOM:
        if (!was_marked) {
            place_add(queue, item);
        }
        break;
    }
    queue->count += !was_marked;
    RBT_ASSERT(queue->count <= queue->capacity);
}

/* The item is marked. */
static void drop(rbt_change_queue *queue, uint32_t item)
{
    RBT_ASSERT(queue->count > 0);
    switch (queue->order) {
    case RBT_ORDER_OLDEST:
    case RBT_ORDER_SCORE:
        list_remove(queue, item);
        break;
    case RBT_ORDER_WALK:
        bits_remove(queue, item);
        break;
    case RBT_ORDER_RANDOM:
        place_remove(queue, item);
        break;
    }
    queue->count--;
}

void rbt_queue_unmark(rbt_change_queue *queue, uint32_t item)
{
    RBT_ASSERT(item < queue->capacity);
    if (rbt_queue_is_marked(queue, item)) {
        drop(queue, item);
    }
}

uint32_t rbt_queue_count(const rbt_change_queue *queue)
{
    return queue->count;
}

uint32_t rbt_queue_take(rbt_change_queue *queue)
{
    uint32_t item = RBT_QUEUE_NONE;
    if (queue->count == 0) {
        return item;
    }
    switch (queue->order) {
    case RBT_ORDER_OLDEST:
    case RBT_ORDER_SCORE:
        item = list_first(queue);
        break;
    case RBT_ORDER_WALK:
        item = bits_first(queue);
        break;
    case RBT_ORDER_RANDOM:
        item = queue->items[rbt_rng_below(&queue->rng, queue->count)];
        break;
    }
    RBT_ASSERT(item < queue->capacity);
    drop(queue, item);
    return item;
}

size_t rbt_queue_bytes(const rbt_change_queue *queue)
{
    size_t bytes = sizeof *queue;
    switch (queue->order) {
    case RBT_ORDER_OLDEST:
    case RBT_ORDER_SCORE:
        bytes += queue->capacity * sizeof *queue->links;
        bytes += (queue->order == RBT_ORDER_SCORE ? SCORE_BUCKETS : 1) * sizeof *queue->lists;
        break;
    case RBT_ORDER_WALK:
        for (uint32_t level = 0; level < queue->level_count; level++) {
            bytes += queue->words[level] * sizeof(uint64_t);
        }
        break;
    case RBT_ORDER_RANDOM:
        bytes += queue->capacity * (sizeof *queue->items + sizeof *queue->places);
        break;
    }
    return bytes;
}

/* --- State ------------------------------------------------------------------------------------ */

/* Items bucket by bucket, the oldest first. */
static void save_lists(const rbt_change_queue *queue, struct rbt_sink *sink)
{
    const uint32_t bucket_end = queue->order == RBT_ORDER_SCORE ? SCORE_BUCKETS : 1;
    for (uint32_t bucket = 0; bucket < bucket_end; bucket++) {
        uint32_t at = queue->lists[bucket].first;
        for (; at != 0; at = queue->links[at - 1].next) { /* ends: a list */
            RBT_ASSERT(queue->links[at - 1].bucket == bucket + 1);
            rbt_sink_put_u32(sink, at - 1);
            rbt_sink_put_u32(sink, bucket);
        }
    }
}

void rbt_queue_save(const rbt_change_queue *queue, struct rbt_sink *sink)
{
    rbt_sink_put_u32(sink, (uint32_t)queue->order);
    rbt_sink_put_u64(sink, queue->count);
    switch (queue->order) {
    case RBT_ORDER_OLDEST:
    case RBT_ORDER_SCORE:
        save_lists(queue, sink);
        break;
    case RBT_ORDER_WALK: {
        uint32_t at = queue->count == 0 ? 0 : bits_next(queue, 0);
        for (uint32_t i = 0; i < queue->count; i++) {
            rbt_sink_put_u32(sink, at);
            at = i + 1 < queue->count ? bits_next(queue, at + 1) : at;
        }
        rbt_sink_put_u32(sink, queue->cursor);
        break;
    }
    case RBT_ORDER_RANDOM:
        rbt_sink_put(sink, queue->items, queue->count * sizeof *queue->items);
        rbt_sink_put(sink, queue->rng.state, sizeof queue->rng.state);
        break;
    }
}

static void load_item(rbt_change_queue *queue, struct rbt_source *source, uint32_t item_end)
{
    const bool has_bucket = queue->order == RBT_ORDER_OLDEST || queue->order == RBT_ORDER_SCORE;
    const uint32_t item = rbt_source_get_u32(source);
    const uint32_t bucket = has_bucket ? rbt_source_get_u32(source) : 0;
    const uint32_t bucket_end = queue->order == RBT_ORDER_SCORE ? SCORE_BUCKETS : 1;
    if (item >= item_end || bucket >= bucket_end || rbt_queue_is_marked(queue, item)) {
        rbt_source_refuse(source, "a row is in a queue twice, or is not there");
        return;
    }
    if (has_bucket) {
        list_add(queue, item, bucket);
    } else if (queue->order == RBT_ORDER_WALK) {
        bits_add(queue, item);
    } else {
        place_add(queue, item);
    }
    queue->count++;
}

void rbt_queue_load(rbt_change_queue *queue, struct rbt_source *source, uint32_t item_end)
{
    RBT_ASSERT(queue->count == 0);
    RBT_ASSERT(item_end <= queue->capacity);
    if (rbt_source_get_u32(source) != (uint32_t)queue->order) {
        rbt_source_refuse(source, "rows go in another order");
    }
    const uint64_t count = rbt_source_get_count(source, sizeof(uint32_t));
    for (uint64_t i = 0; i < count && rbt_source_is_good(source); i++) {
        load_item(queue, source, item_end);
    }
    if (queue->order == RBT_ORDER_WALK) {
        queue->cursor = rbt_source_get_u32(source);
    } else if (queue->order == RBT_ORDER_RANDOM) {
        static const struct rbt_rng stuck;
        rbt_source_get(source, queue->rng.state, sizeof queue->rng.state);
        if (memcmp(&queue->rng, &stuck, sizeof stuck) == 0) {
            rbt_source_refuse(source, "chance has run out"); /* it would never draw again */
        }
    }
}
