/* store/index.c - a hash table of cache lines.
 *
 * A line holds up to 12 keys: a byte of the hash (the tag) and the slot of each. A key is in the
 * line that its hash says or, if that was full, in the next one that was not, so nearly every
 * look-up touches one line, and then the key itself, to be sure. At most three quarters of the
 * places are taken; a hash says the line by a product, not by a mask, so that the number of lines
 * can be anything and the table can grow by a half: 64 / 12 / 0.75 = 7.1 bytes per key before it
 * grows, 10.7 after. It grows where it is and is then filled anew from the keys, so that there are
 * never two.
 *
 * Placement takes the first bits of the same hash, so the keys of one shard are all alike in
 * these; lines are chosen by the last 32, tags by those before.
 *
 * Tried and dropped: key and slot side by side in a table of 16-byte entries that is half full (32
 * to 64 bytes per key on top of the keys; one access fewer, but to a table five times as large).
 *
 * Invariants:
 *   (1) the used places of a line come before the free ones, whose tags are 0;
 *   (2) a key is in a line after its own only if all lines between are full.
 *
 * Threads: none; owned by the rows. Memory: in reserve only. */
#include "store/index.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"

enum {
    LINES_MORE = 2,   /* beyond a half more, for tables that begin small */
    PLACES = 12,      /* in a line */
    PLACES_TAKEN = 9, /* on average, at most */
    AHEAD = 16,       /* lines, and then keys, fetched ahead; a power of two */
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
    return (struct home){.line = (uint32_t)(((hash & UINT32_MAX) * index->line_count) >> 32),
                         .tag = tag == 0 ? 1 : tag};
}

static uint32_t next_line(const struct rbt_index *index, uint32_t line)
{
    RBT_DEBUG_ASSERT(line < index->line_count);
    return line + 1 == index->line_count ? 0 : line + 1;
}

/* One bit (the highest of 8) for each of the 8 tags that equals the one that `wanted` repeats. */
static uint64_t equal_tags(uint64_t tags, uint64_t wanted)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7fU;
    const uint64_t difference = tags ^ wanted;
    return ~(((difference & low) + low) | difference | low);
}

/* The places of a line with this tag, one bit each at 8 times its number plus 7: places 0 to 7 in
 * the first word, 8 to 11 in the second. */
struct candidates {
    uint64_t first;
    uint64_t second;
};

static struct candidates candidates_of(const struct rbt_index_line *line, uint8_t tag)
{
    RBT_DEBUG_ASSERT(tag != 0);
    const uint64_t wanted = tag * 0x0101010101010101U;
    uint64_t first = 0;
    uint32_t second = 0;
    memcpy(&first, line->tags, sizeof first);
    memcpy(&second, line->tags + sizeof first, sizeof second);
    return (struct candidates){equal_tags(first, wanted), equal_tags(second, wanted) & UINT32_MAX};
}

void rbt_index_deinit(struct rbt_index *index)
{
    rbt_free(index->lines);
    *index = (struct rbt_index){0};
}

static void put(struct rbt_index *index, struct home home, uint32_t slot)
{
    RBT_ASSERT(slot != RBT_SLOT_NONE);
    struct rbt_index_line *line = &index->lines[home.line];
    while (line->used == PLACES) { /* ends: a quarter of all places are free */
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
    struct home homes[AHEAD];
    RBT_ASSERT(index->count == 0 || keys != NULL);
    RBT_ASSERT(index->count <= index->line_count * PLACES_TAKEN);
    for (uint64_t i = 0; i < index->count + AHEAD; i++) {
        if (i >= AHEAD) {
            put(index, homes[i % AHEAD], (uint32_t)(i - AHEAD));
        }
        if (i < index->count) {
            homes[i % AHEAD] = home_of(index, keys[i]);
            __builtin_prefetch(&index->lines[homes[i % AHEAD].line], 1);
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
    const uint64_t grown = index->line_count + index->line_count / 2 + LINES_MORE;
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
    return slot;
}

static uint32_t search(const struct rbt_index *index, const uint64_t *keys, uint64_t key,
                       struct home home)
{
    RBT_DEBUG_ASSERT(home.line < index->line_count);
    for (;;) { /* ends at the key or at a line that is not full */
        const struct rbt_index_line *line = &index->lines[home.line];
        const struct candidates found = candidates_of(line, home.tag);
        for (uint64_t bits = found.first; bits != 0; bits &= bits - 1) {
            const uint32_t slot = line->slots[__builtin_ctzll(bits) / 8];
            if (keys[slot] == key) {
                return slot;
            }
        }
        for (uint64_t bits = found.second; bits != 0; bits &= bits - 1) {
            const uint32_t slot = line->slots[8 + __builtin_ctzll(bits) / 8];
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
    return index->count == 0 ? RBT_SLOT_NONE : search(index, keys, key, home_of(index, key));
}

/* The first slot in the key's line with its tag, very likely its own, or RBT_SLOT_NONE. */
static uint32_t guess(const struct rbt_index *index, struct home home)
{
    RBT_DEBUG_ASSERT(home.line < index->line_count);
    const struct rbt_index_line *line = &index->lines[home.line];
    const struct candidates found = candidates_of(line, home.tag);
    if (found.first != 0) {
        return line->slots[__builtin_ctzll(found.first) / 8];
    }
    return found.second == 0 ? RBT_SLOT_NONE : line->slots[8 + __builtin_ctzll(found.second) / 8];
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
    /* Three stages, AHEAD keys apart: fetch the line, guess and fetch the key, compare. */
    struct home homes[2 * AHEAD];
    for (size_t i = 0; i < count + 2 * (size_t)AHEAD; i++) {
        if (i >= 2 * (size_t)AHEAD) {
            const size_t at = i - 2 * (size_t)AHEAD;
            if (slots[at] == RBT_SLOT_NONE || keys[slots[at]] != wanted[at]) {
                slots[at] = search(index, keys, wanted[at], homes[at % (2 * (size_t)AHEAD)]);
            }
        }
        if (i >= AHEAD && i - AHEAD < count) {
            const size_t at = i - AHEAD;
            slots[at] = guess(index, homes[at % (2 * (size_t)AHEAD)]);
            __builtin_prefetch(&keys[slots[at] == RBT_SLOT_NONE ? 0 : slots[at]]);
        }
        if (i < count) {
            homes[i % (2 * (size_t)AHEAD)] = home_of(index, wanted[i]);
            __builtin_prefetch(&index->lines[homes[i % (2 * (size_t)AHEAD)].line]);
        }
    }
}
