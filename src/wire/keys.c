/* wire/keys.c - the keys of rows as bytes: nothing, a run, differences, or as they are.
 *
 * Differences: the first key, then, in blocks of 128, how much larger each key is than its
 * predecessor plus one. All of a block have the same number of bits, which stands in front:
 *
 *      8            the first key
 *      blocks       a byte each: bits per difference, 0 .. 56 or 64; zeros up to a multiple of 8
 *      the blocks   whole words of 64 bits, filled from the lowest bit
 *
 * With at most 56 bits a difference lies within the 8 bytes that begin with its first byte, so one
 * load, one shift and one mask give it, whatever the width; a block cannot overflow twice, so its
 * last key tells whether it did. */
#include "wire/keys.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "wire/bytes.h"
#include "wire/frame.h"

enum {
    BLOCK = 128,        /* differences */
    WIDTH_MAX = 56,     /* bits that one load always gives */
    WIDTH_FULL = 64,    /* stands for all above */
    CHECKED_KEYS = 512, /* copied and looked at while they are in the nearest cache */
};

static inline uint64_t key_at(const struct rbt_wire_rows *rows, size_t i)
{
    RBT_DEBUG_ASSERT(i < rows->count);
    return rows->keys[rows->positions == NULL ? i : rows->positions[i]];
}

static size_t block_count(size_t count)
{
    RBT_ASSERT(count > 1);
    RBT_ASSERT(count <= RBT_WIRE_COUNT_MAX);
    return (count - 1 + BLOCK - 1) / BLOCK;
}

/* Differences in block b. */
static size_t block_size(size_t count, size_t b)
{
    RBT_DEBUG_ASSERT(count > b * BLOCK + 1);
    const size_t left = count - 1 - b * BLOCK;
    return left < BLOCK ? left : BLOCK;
}

static size_t packed_bytes(size_t size, unsigned width)
{
    RBT_DEBUG_ASSERT(size <= BLOCK);
    RBT_DEBUG_ASSERT(width <= WIDTH_FULL);
    return (size * width + 63) / 64 * sizeof(uint64_t);
}

/* Writes the differences of block b and returns what bits they have in common. */
static uint64_t subtract(const struct rbt_wire_rows *rows, size_t b, uint64_t *differences)
{
    const size_t size = block_size(rows->count, b);
    uint64_t bits = 0;
    uint64_t before = key_at(rows, b * BLOCK);
    for (size_t i = 0; i < size; i++) {
        const uint64_t key = key_at(rows, b * BLOCK + 1 + i);
        RBT_DEBUG_ASSERT(key > before);
        differences[i] = key - before - 1;
        bits |= differences[i];
        before = key;
    }
    return bits;
}

static unsigned width_of(uint64_t bits)
{
    const unsigned width = bits == 0 ? 0 : 64 - (unsigned)__builtin_clzll(bits);
    RBT_DEBUG_ASSERT(width <= WIDTH_FULL);
    RBT_DEBUG_ASSERT(width == WIDTH_FULL || bits >> width == 0);
    return width <= WIDTH_MAX ? width : WIDTH_FULL;
}

/* Writes the widths of all blocks. Returns the bytes of all together, or SIZE_MAX if the keys are
 * shorter as they are. */
static size_t measure(const struct rbt_wire_rows *rows, char *widths)
{
    const size_t blocks = block_count(rows->count);
    const size_t raw = rows->count * sizeof(uint64_t);
    uint64_t differences[BLOCK];
    size_t bytes = sizeof(uint64_t) + rbt_frame_padded(blocks);
    for (size_t b = 0; b < blocks && bytes < raw; b++) {
        const unsigned width = width_of(subtract(rows, b, differences));
        widths[b] = (char)width;
        bytes += packed_bytes(block_size(rows->count, b), width);
    }
    RBT_ASSERT(bytes % sizeof(uint64_t) == 0);
    if (bytes >= raw) {
        return SIZE_MAX;
    }
    RBT_ASSERT(sizeof(uint64_t) + rbt_frame_padded(blocks) <= raw); /* the widths have had room */
    memset(widths + blocks, 0, rbt_frame_padded(blocks) - blocks);
    return bytes;
}

/* Fills words from the lowest bit; `width` is 1 .. 56. Returns where the next block begins. */
static char *pack(char *to, const uint64_t *differences, size_t size, unsigned width)
{
    RBT_DEBUG_ASSERT(width > 0);
    RBT_DEBUG_ASSERT(width <= WIDTH_MAX);
    uint64_t word = 0;
    unsigned filled = 0;
    for (size_t i = 0; i < size; i++) {
        word |= differences[i] << filled;
        filled += width;
        if (filled >= 64) {
            rbt_bytes_put_u64(&to, word);
            filled -= 64;
            word = differences[i] >> (width - filled); /* filled < width, so less than 64 */
        }
    }
    if (filled > 0) {
        rbt_bytes_put_u64(&to, word);
    }
    return to;
}

static void put_differences(char *to, const struct rbt_wire_rows *rows, size_t bytes)
{
    RBT_ASSERT(bytes < rows->count * sizeof(uint64_t));
    const size_t blocks = block_count(rows->count);
    const char *widths = to + sizeof(uint64_t);
    char *at = to + sizeof(uint64_t) + rbt_frame_padded(blocks);
    uint64_t differences[BLOCK];
    for (size_t b = 0; b < blocks; b++) {
        const size_t size = block_size(rows->count, b);
        const unsigned width = (unsigned char)widths[b];
        if (width == 0) {
            continue;
        }
        (void)subtract(rows, b, differences); /* the width is known */
        if (width == WIDTH_FULL) {
            rbt_bytes_put(&at, differences, size * sizeof *differences);
        } else {
            at = pack(at, differences, size, width);
        }
    }
    RBT_ASSERT(at == to + bytes);
}

size_t rbt_keys_put(char *to, const struct rbt_wire_rows *rows, enum rbt_key_form *form)
{
    RBT_ASSERT(rows->count <= RBT_WIRE_COUNT_MAX);
    if (rows->keys == NULL) {
        *form = RBT_KEYS_NAMED;
        return 0;
    }
    *form = RBT_KEYS_RAW;
    if (rows->count == 0) {
        return 0;
    }
    const uint64_t first = key_at(rows, 0);
    const uint64_t last = key_at(rows, rows->count - 1);
    RBT_ASSERT(last - first >= rows->count - 1); /* they increase */
    memcpy(to, &first, sizeof first);
    if (last - first == rows->count - 1) {
        *form = RBT_KEYS_RUN;
        return sizeof first;
    }
    const size_t bytes = measure(rows, to + sizeof first);
    if (bytes != SIZE_MAX) {
        RBT_ASSERT(bytes < rows->count * sizeof first);
        *form = RBT_KEYS_DELTA;
        put_differences(to, rows, bytes);
        return bytes;
    }
    if (rows->positions == NULL) {
        memcpy(to, rows->keys, rows->count * sizeof first);
    } else {
        uint64_t *keys = (uint64_t *)(void *)to;
        for (size_t i = 0; i < rows->count; i++) {
            keys[i] = rows->keys[rows->positions[i]];
        }
    }
    return rows->count * sizeof first;
}

/* Bytes that differences should take, or SIZE_MAX if their widths are not there or not right. */
static size_t bytes_declared(const struct rbt_wire_view *view)
{
    RBT_ASSERT(view->key_form == RBT_KEYS_DELTA);
    if (view->count < 2) {
        return SIZE_MAX;
    }
    const size_t blocks = block_count(view->count);
    size_t bytes = sizeof(uint64_t) + rbt_frame_padded(blocks);
    if (view->key_bytes < bytes) {
        return SIZE_MAX;
    }
    const char *widths = view->keys + sizeof(uint64_t);
    for (size_t b = 0; b < blocks; b++) {
        const unsigned width = (unsigned char)widths[b];
        if (width > WIDTH_MAX && width != WIDTH_FULL) {
            return SIZE_MAX;
        }
        bytes += packed_bytes(block_size(view->count, b), width);
    }
    for (size_t b = blocks; b < rbt_frame_padded(blocks); b++) {
        if (widths[b] != 0) {
            return SIZE_MAX;
        }
    }
    RBT_ASSERT(bytes <= SIZE_MAX / 2); /* 2^28 keys of 8 bytes and a little */
    return bytes;
}

rbt_status rbt_keys_check(const struct rbt_wire_view *view)
{
    RBT_ASSERT(view->keys != NULL);
    RBT_ASSERT(view->count <= RBT_WIRE_COUNT_MAX);
    size_t bytes = 0;
    switch (view->key_form) {
    case RBT_KEYS_NAMED:
        break;
    case RBT_KEYS_RUN:
        bytes = view->count > 0 ? sizeof(uint64_t) : SIZE_MAX;
        break;
    case RBT_KEYS_DELTA:
        bytes = bytes_declared(view);
        break;
    case RBT_KEYS_RAW:
        bytes = view->count * sizeof(uint64_t);
        break;
    }
    if (bytes != view->key_bytes) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent %u keys in a wrong number of bytes",
                        view->count);
    }
    return RBT_OK;
}

static rbt_status disorder(void)
{
    return rbt_fail(RBT_E_PROTOCOL, "the peer sent keys that do not increase");
}

/* Adds the differences of a block up; 7 bytes behind it can be read. */
static uint64_t unpack(const char *packed, size_t size, unsigned width, uint64_t key,
                       uint64_t *restrict keys)
{
    RBT_DEBUG_ASSERT(width <= WIDTH_MAX);
    RBT_DEBUG_ASSERT(size <= BLOCK);
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    size_t bit = 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t word;
        memcpy(&word, packed + bit / 8, sizeof word);
        key += (word >> bit % 8 & mask) + 1 + (RBT_MUTANT(LAST_KEY) && i + 1 == size);
        keys[i] = key;
        bit += width;
    }
    return key;
}

static rbt_status get_differences(const struct rbt_wire_view *view, uint64_t *keys)
{
    RBT_ASSERT(view->key_form == RBT_KEYS_DELTA);
    const size_t blocks = block_count(view->count);
    const char *widths = view->keys + sizeof(uint64_t);
    const char *at = widths + rbt_frame_padded(blocks);
    const char *end = view->keys + view->key_bytes;
    char edge[BLOCK * sizeof(uint64_t) + sizeof(uint64_t)];
    memcpy(keys, view->keys, sizeof *keys);
    uint64_t key = *keys;
    for (size_t b = 0; b < blocks; b++) {
        const size_t size = block_size(view->count, b);
        const unsigned width = (unsigned char)widths[b];
        const size_t bytes = packed_bytes(size, width);
        const uint64_t before = key;
        RBT_ASSERT(bytes <= (size_t)(end - at)); /* the view has been checked */
        if (width == WIDTH_FULL) {
            for (size_t i = 0; i < size; i++) {
                const char *from = at + i * sizeof(uint64_t);
                const uint64_t next = key + rbt_bytes_get_u64(&from) + 1;
                if (next <= key) {
                    return disorder();
                }
                keys[1 + b * BLOCK + i] = key = next;
            }
        } else if ((size_t)(end - at) >= bytes + sizeof(uint64_t)) {
            key = unpack(at, size, width, key, keys + 1 + b * BLOCK);
        } else {
            memcpy(edge, at, bytes);
            memset(edge + bytes, 0, sizeof(uint64_t));
            key = unpack(edge, size, width, key, keys + 1 + b * BLOCK);
        }
        if (key <= before) {
            return disorder();
        }
        at += bytes;
    }
    RBT_ASSERT(at == end);
    RBT_ASSERT(keys[view->count - 1] == key);
    return RBT_OK;
}

static rbt_status get_raw(const struct rbt_wire_view *view, uint64_t *keys)
{
    RBT_ASSERT(view->key_form == RBT_KEYS_RAW);
    RBT_ASSERT(view->key_bytes == view->count * sizeof *keys);
    for (size_t start = 0; start < view->count; start += CHECKED_KEYS) {
        const size_t left = view->count - start;
        const size_t size = left < CHECKED_KEYS ? left : CHECKED_KEYS;
        memcpy(keys + start, view->keys + start * sizeof *keys, size * sizeof *keys);
        unsigned is_wrong = 0;
        for (size_t i = start > 0 ? start : 1; i < start + size; i++) {
            is_wrong |= keys[i] <= keys[i - 1];
        }
        if (is_wrong != 0) {
            return disorder();
        }
    }
    return RBT_OK;
}

rbt_status rbt_keys_get(const struct rbt_wire_view *view, uint64_t *keys)
{
    RBT_ASSERT(view->count <= RBT_WIRE_COUNT_MAX);
    switch (view->key_form) {
    case RBT_KEYS_NAMED:
        break;
    case RBT_KEYS_RUN: {
        uint64_t first;
        RBT_ASSERT(view->count > 0);
        RBT_ASSERT(view->key_bytes == sizeof first);
        memcpy(&first, view->keys, sizeof first);
        if (first > UINT64_MAX - (view->count - 1)) {
            return disorder();
        }
        for (size_t i = 0; i < view->count; i++) {
            keys[i] = first + i;
        }
        return RBT_OK;
    }
    case RBT_KEYS_DELTA:
        return get_differences(view, keys);
    case RBT_KEYS_RAW:
        return get_raw(view, keys);
    }
    return rbt_fail(RBT_E_PROTOCOL, "the peer sent only the name of keys that have to be there");
}
