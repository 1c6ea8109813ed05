/* store/index.c - a hash table of cache lines.
 *
 * A line holds up to 12 keys: a byte of the hash (the tag) and the slot of each. A key is in the
 * line that its hash says or, if that was full, in the next one that was not, so nearly every
 * look-up touches one line, and then the key itself, to be sure. At most 7 of the 12 places are
 * taken on average, so that one line in twenty is full. A hash says the line by a product, not by a
 * mask, so that the number of lines can be anything and the table can grow by a quarter: 64 / 7 =
 * 9.2 bytes per key before it grows, 11.4 after. It grows where it is and is then filled anew from
 * the keys, so that there are never two.
 *
 * Placement takes the first bits of the same hash, so the keys of one shard are all alike in
 * these; lines are chosen by the last 32, tags by those before.
 *
 * Tried and dropped (bench/store, 10^7 rows of one f32): key and slot side by side in a table that
 * is at most half full, one access fewer: lists of new keys are found a fifth faster, but a row
 * takes 67 bytes instead of 22, 92 while the table grows, and filling it takes thrice as long. Keys
 * in front of the values, in the same cache line: lists of new keys are a tenth faster, but those
 * that are declared, which are the ones that matter, a fifth slower.
 *
 * Invariants:
 *   (1) the used places of a line come before the free ones, whose tags are 0;
 *   (2) a key is in a line after its own only if all lines between are full.
 *
 * Threads: none; owned by the rows. Memory: in reserve only. */
#include "store/index.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

enum {
    LINES_MORE = 2,   /* beyond a quarter more, for tables that begin small */
    PLACES = 12,      /* in a line */
    PLACES_TAKEN = 7, /* on average, at most */
    WINDOW = 32,      /* look-ups under way at once; a power of two */
    KEYS_AHEAD = 16,  /* of them, those whose line is there and whose key is being fetched */
};

struct rbt_index_line {
    uint8_t tags[PLACES]; /* 0: free */
    uint32_t used;
    uint32_t slots[PLACES];
};
_Static_assert(sizeof(struct rbt_index_line) == 64, "a line is a cache line");

/* Where a key's search begins. */
struct home {
    uint32_t line;
    uint8_t tag;
};

static struct home home_of(const struct rbt_index *index, uint64_t key)
{
    RBT_DEBUG_ASSERT(index->line_count > 0 && index->line_count <= UINT32_MAX);
    const uint64_t hash = rbt_hash_key(key);
    const uint8_t tag = (uint8_t)(hash >> 32);
    RBT_DEBUG_ASSERT(index->lines != NULL);
    return (struct home){.line = (uint32_t)(((hash & UINT32_MAX) * index->line_count) >> 32),
                         .tag = tag == 0 ? 1 : tag};
}

static uint32_t next_line(const struct rbt_index *index, uint32_t line)
{
    RBT_DEBUG_ASSERT(line < index->line_count);
    RBT_DEBUG_ASSERT(index->line_count <= UINT32_MAX);
    return line + 1 == index->line_count ? 0 : line + 1;
}

/* The places of a line with this tag, one bit each. */
static uint32_t places_with(const struct rbt_index_line *line, uint8_t tag)
{
    RBT_DEBUG_ASSERT(tag != 0);
    RBT_DEBUG_ASSERT(line->used <= PLACES);
#ifdef __SSE2__
    const __m128i tags = _mm_load_si128((const __m128i *)line);
    const __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag));
    return (uint32_t)_mm_movemask_epi8(equal) & ((1U << PLACES) - 1);
#else
    uint32_t places = 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        places |= (uint32_t)(line->tags[i] == tag) << i;
    }
    return places;
#endif
}

void rbt_index_deinit(struct rbt_index *index)
{
    RBT_ASSERT((index->lines == NULL) == (index->line_count == 0));
    RBT_ASSERT(index->count <= index->line_count * PLACES);
    rbt_free(index->lines);
    *index = (struct rbt_index){0};
}

static void put(struct rbt_index *index, struct home home, uint32_t slot)
{
    RBT_ASSERT(slot != RBT_SLOT_NONE);
    struct rbt_index_line *line = &index->lines[home.line];
    while (line->used == PLACES) { /* ends: many places are free */
        home.line = next_line(index, home.line);
        line = &index->lines[home.line];
    }
    line->tags[line->used] = home.tag;
    line->slots[line->used++] = slot;
    RBT_DEBUG_ASSERT(line->used <= PLACES);
}

/* Puts all keys in. */
static void fill(struct rbt_index *index, const uint64_t *keys)
{
    struct home homes[WINDOW];
    RBT_ASSERT(index->count == 0 || keys != NULL);
    RBT_ASSERT(index->count <= index->line_count * PLACES_TAKEN);
    for (uint64_t i = 0; i < index->count + WINDOW; i++) {
        if (i >= WINDOW) {
            put(index, homes[i % WINDOW], (uint32_t)(i - WINDOW));
        }
        if (i < index->count) {
            homes[i % WINDOW] = home_of(index, keys[i]);
            __builtin_prefetch(&index->lines[homes[i % WINDOW].line], 1);
        }
    }
}

rbt_status rbt_index_reserve(struct rbt_index *index, const uint64_t *keys, uint64_t count)
{
    RBT_ASSERT(count < RBT_SLOT_NONE && index->count + count <= RBT_SLOT_NONE);
    const uint64_t needed = (index->count + count + PLACES_TAKEN - 1) / PLACES_TAKEN;
    if (needed <= index->line_count) {
        return RBT_OK;
    }
    const uint64_t grown = index->line_count + index->line_count / 4 + LINES_MORE;
    const uint64_t line_count = needed > grown ? needed : grown;
    struct rbt_index_line *lines = rbt_realloc(index->lines, line_count, sizeof *lines);
    if (lines == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate an index of %llu keys",
                        (unsigned long long)(index->count + count));
    }
    memset(lines, 0, index->line_count * sizeof *lines); /* the rest is zero already */
    index->lines = lines;
    index->line_count = line_count;
    fill(index, keys);
    RBT_ASSERT(index->count + count <= index->line_count * PLACES_TAKEN);
    return RBT_OK;
}

uint32_t rbt_index_add(struct rbt_index *index, uint64_t key)
{
    RBT_ASSERT(index->count < index->line_count * PLACES_TAKEN); /* room was reserved */
    const uint32_t slot = (uint32_t)index->count++;
    put(index, home_of(index, key), slot);
    RBT_DEBUG_ASSERT(index->count == (uint64_t)slot + 1);
    return slot;
}

static uint32_t search(const struct rbt_index *index, const uint64_t *keys, uint64_t key,
                       struct home home)
{
    RBT_DEBUG_ASSERT(home.line < index->line_count);
    RBT_DEBUG_ASSERT(index->count < index->line_count * PLACES); /* a line is not full */
    for (;;) { /* ends at the key or at a line that is not full */
        const struct rbt_index_line *line = &index->lines[home.line];
        for (uint32_t places = places_with(line, home.tag); places != 0; places &= places - 1) {
            const uint32_t slot = line->slots[__builtin_ctz(places)];
            RBT_DEBUG_ASSERT(slot < index->count);
            if (keys[slot] == key) {
                return slot;
            }
        }
        if (line->used < PLACES) {
            return RBT_SLOT_NONE;
        }
        home.line = next_line(index, home.line);
    }
}

uint32_t rbt_index_find(const struct rbt_index *index, const uint64_t *keys, uint64_t key)
{
    RBT_DEBUG_ASSERT(index->count == 0 || keys != NULL);
    RBT_DEBUG_ASSERT(index->count == 0 || index->lines != NULL);
    return index->count == 0 ? RBT_SLOT_NONE : search(index, keys, key, home_of(index, key));
}

/* Look-ups under way: where they are in their stages, at their number modulo WINDOW. */
struct window {
    const struct rbt_index *index;
    const uint64_t *keys;
    const uint64_t *wanted;
    uint32_t *slots;
    struct home homes[WINDOW];
};

static void fetch_line(struct window *w, size_t i)
{
    const struct home home = home_of(w->index, w->wanted[i]);
    RBT_DEBUG_ASSERT(home.tag != 0);
    RBT_DEBUG_ASSERT(home.line < w->index->line_count);
    __builtin_prefetch(&w->index->lines[home.line]);
    w->homes[i % WINDOW] = home;
}

/* Takes the first slot in the line with the key's tag, very likely its own, and fetches the key
 * there. With no such slot and room in the line there is no such key, which a tag of 0 says. */
static void guess(struct window *w, size_t i)
{
    struct home *home = &w->homes[i % WINDOW];
    const struct rbt_index_line *line = &w->index->lines[home->line];
    const uint32_t places = places_with(line, home->tag);
    RBT_DEBUG_ASSERT(line->used <= PLACES);
    RBT_DEBUG_ASSERT(places >> line->used == 0); /* (1) */
    const uint32_t slot = places == 0 ? 0 : line->slots[__builtin_ctz(places)];
    __builtin_prefetch(&w->keys[slot]);
    home->tag = places == 0 && line->used < PLACES ? 0 : home->tag;
    w->slots[i] = slot;
}

static void compare(struct window *w, size_t i)
{
    const struct home home = w->homes[i % WINDOW];
    RBT_DEBUG_ASSERT(w->slots[i] < w->index->count);
    if (home.tag == 0) {
        w->slots[i] = RBT_SLOT_NONE;
    } else if (w->keys[w->slots[i]] != w->wanted[i]) {
        w->slots[i] = search(w->index, w->keys, w->wanted[i], home);
    }
}

void rbt_index_find_batch(const struct rbt_index *index, const uint64_t *keys,
                          const uint64_t *wanted, size_t count, uint32_t *slots)
{
    RBT_ASSERT(count == 0 || (wanted != NULL && slots != NULL));
    RBT_ASSERT(index->count == 0 || keys != NULL);
    if (index->count == 0) {
        memset(slots, 0xff, count * sizeof *slots); /* RBT_SLOT_NONE */
        return;
    }
    struct window w = {.index = index, .keys = keys, .wanted = wanted, .slots = slots};
    const size_t lines = count < WINDOW ? count : WINDOW;
    const size_t guesses = count < KEYS_AHEAD ? count : KEYS_AHEAD;
    for (size_t i = 0; i < lines; i++) {
        fetch_line(&w, i);
    }
    for (size_t i = 0; i < guesses; i++) {
        guess(&w, i);
    }
    size_t i = 0;
    for (; i + WINDOW < count; i++) { /* here all stages have something to do */
        guess(&w, i + KEYS_AHEAD);
        compare(&w, i);
        fetch_line(&w, i + WINDOW);
    }
    for (; i < count; i++) {
        if (i + KEYS_AHEAD < count) {
            guess(&w, i + KEYS_AHEAD);
        }
        compare(&w, i);
    }
}

size_t rbt_index_bytes(const struct rbt_index *index)
{
    RBT_ASSERT(index->count <= index->line_count * PLACES);
    RBT_ASSERT(index->line_count <= UINT32_MAX);
    return index->line_count * sizeof *index->lines;
}
