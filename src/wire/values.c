/* wire/values.c - the values of rows as bytes: as they are, without their zeros, or compressed.
 *
 * Without zeros: a bit for every element, in words of 64 filled from the lowest bit, then the
 * elements whose bit is set. This is a 12th of floats of which one in twenty is not zero, and it is
 * written at 4 GB/s and read at 29 by one core, counted in values.
 *
 * Nothing is tried before a sample says that it saves a fifth, and nothing is kept that is not
 * shorter than the values as they are. */
#include "wire/values.h"

#include <string.h>

#include <lz4.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"
#include "wire/frame.h"

enum {
    WORD = 64,               /* elements that have their bits in one word */
    CHUNK = 16 * WORD,       /* elements that are gathered at a time */
    ZERO_SAMPLE = 1024,      /* elements looked at */
    PACK_SAMPLE = 16 * 1024, /* bytes compressed as a sample */
    PACK_MIN = 256,          /* bytes; fewer are not worth a try */
    ZSTD_LEVEL = 1,
};

static const double PAYS = 0.8; /* of the bytes must be left at most */

/* --- Writing --------------------------------------------------------------------------------- */

/* Where taking elements one after the other has come to. */
struct source {
    const struct rbt_wire_rows *rows;
    size_t row;
    size_t taken; /* of that row; of all rows if they lie side by side */
};

static const char *contiguous(const struct rbt_wire_rows *rows)
{
    RBT_ASSERT(rows->positions == NULL);
    RBT_ASSERT(rows->values != NULL);
    const size_t first = rows->offsets == NULL || rows->count == 0 ? 0 : rows->offsets[0];
    return (const char *)rows->values + first * rows->element_size;
}

/* The first element of row i and how many it has. */
static size_t find_row(const struct rbt_wire_rows *rows, size_t i, size_t *size)
{
    RBT_DEBUG_ASSERT(i < rows->count);
    const size_t p = rows->positions == NULL ? i : rows->positions[i];
    if (rows->offsets == NULL) {
        *size = rows->width;
        return p * rows->width;
    }
    RBT_DEBUG_ASSERT(rows->offsets[p] <= rows->offsets[p + 1]);
    *size = rows->offsets[p + 1] - rows->offsets[p];
    return rows->offsets[p];
}

/* Rows of one element, which are what most tables have. */
static void take_singles(struct source *source, size_t count, char *to)
{
    const struct rbt_wire_rows *rows = source->rows;
    const uint32_t *positions = rows->positions + source->row;
    RBT_DEBUG_ASSERT(source->row + count <= rows->count);
    RBT_DEBUG_ASSERT(source->taken == 0);
    if (rows->element_size == sizeof(uint32_t)) {
        const uint32_t *values = rows->values;
        uint32_t *taken = (uint32_t *)(void *)to;
        for (size_t i = 0; i < count; i++) {
            taken[i] = values[positions[i]];
        }
    } else {
        const uint64_t *values = rows->values;
        uint64_t *taken = (uint64_t *)(void *)to;
        for (size_t i = 0; i < count; i++) {
            taken[i] = values[positions[i]];
        }
    }
    source->row += count;
}

/* Copies the next `count` elements. */
static void take(struct source *source, size_t count, char *to)
{
    const struct rbt_wire_rows *rows = source->rows;
    const size_t element = rows->element_size;
    if (count == 0) {
        return;
    }
    if (rows->positions == NULL) {
        memcpy(to, contiguous(rows) + source->taken * element, count * element);
        source->taken += count;
        return;
    }
    if (rows->offsets == NULL && rows->width == 1) {
        take_singles(source, count, to);
        return;
    }
    while (count > 0) {
        size_t size;
        const size_t first = find_row(rows, source->row, &size) + source->taken;
        RBT_DEBUG_ASSERT(source->taken <= size);
        const size_t left = size - source->taken;
        const size_t now = left < count ? left : count;
        memcpy(to, (const char *)rows->values + first * element, now * element);
        to += now * element;
        count -= now;
        source->taken += now;
        if (source->taken == size) {
            source->row++;
            source->taken = 0;
        }
    }
    RBT_DEBUG_ASSERT(source->row <= rows->count);
}

/* The share of the bytes that is left without zeros, as a sample has it. */
static double estimate_sparse(const struct rbt_wire_rows *rows, size_t element_count)
{
    static const char ZEROS[sizeof(uint64_t)] = {0};
    const size_t draws = element_count < ZERO_SAMPLE ? element_count : ZERO_SAMPLE;
    RBT_ASSERT(draws > 0);
    size_t looked_at = 0;
    size_t kept = 0;
    for (size_t i = 0; i < draws; i++) {
        size_t size;
        const size_t first = find_row(rows, i * rows->count / draws, &size);
        if (size > 0) {
            const size_t element =
                first + i * 7919 % size; /* a prime: all places have their turn */
            const char *at = (const char *)rows->values + element * rows->element_size;
            looked_at++;
            kept += memcmp(at, ZEROS, rows->element_size) != 0;
        }
    }
    RBT_ASSERT(kept <= looked_at);
    const double share = looked_at == 0 ? 1.0 : (double)kept / (double)looked_at;
    return share + 1.0 / (8.0 * rows->element_size);
}

bool rbt_wire_rows_has_zeros(const struct rbt_wire_rows *rows)
{
    RBT_ASSERT(rows->values != NULL);
    RBT_ASSERT(rows->offsets == NULL);
    const size_t element_count = rows->count * rows->width;
    return element_count > 0 && estimate_sparse(rows, element_count) < PAYS;
}

bool rbt_wire_can_filter(uint64_t plain_bytes, uint64_t bytes)
{
    RBT_ASSERT(plain_bytes <= RBT_FRAME_BODY_MAX);
    return bytes > 0 && bytes < plain_bytes &&
           (plain_bytes <= RBT_WIRE_FILTERED_FREE || plain_bytes / RBT_WIRE_EXPANSION_MAX < bytes);
}

void rbt_wire_rows_gather(const struct rbt_wire_rows *rows, size_t element_count, void *to)
{
    RBT_ASSERT(rows->values != NULL);
    RBT_ASSERT(to != NULL || element_count == 0);
    struct source source = {.rows = rows};
    take(&source, element_count, to);
}

/* Appends the elements of one word that are not zero; room for all of them. Returns their bits. */
static uint64_t skip_zeros_4(const char *from, size_t count, char **to)
{
    RBT_DEBUG_ASSERT(count <= WORD);
    uint32_t *out = (uint32_t *)(void *)*to;
    uint64_t bits = 0;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        memcpy(&value, from + i * sizeof value, sizeof value);
        out[kept] = value;
        bits |= (uint64_t)(value != 0) << i;
        kept += value != 0;
    }
    RBT_DEBUG_ASSERT(kept == (size_t)__builtin_popcountll(bits));
    *to += kept * sizeof *out;
    return bits;
}

static uint64_t skip_zeros_8(const char *from, size_t count, char **to)
{
    RBT_DEBUG_ASSERT(count <= WORD);
    uint64_t *out = (uint64_t *)(void *)*to;
    uint64_t bits = 0;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        memcpy(&value, from + i * sizeof value, sizeof value);
        out[kept] = value;
        bits |= (uint64_t)(value != 0) << i;
        kept += value != 0;
    }
    RBT_DEBUG_ASSERT(kept == (size_t)__builtin_popcountll(bits));
    *to += kept * sizeof *out;
    return bits;
}

/* Returns the bytes that they take without zeros, or 0 if that is not less. */
static size_t put_sparse(char *to, const struct rbt_wire_rows *rows, size_t element_count)
{
    const size_t element = rows->element_size;
    const char *limit = to + element_count * element;
    const size_t words = (element_count + WORD - 1) / WORD;
    RBT_ASSERT(words * sizeof(uint64_t) <= element_count * element);
    struct source source = {.rows = rows};
    _Alignas(8) char chunk[CHUNK * sizeof(uint64_t)];
    char *bits_at = to;
    char *at = to + words * sizeof(uint64_t);
    for (size_t start = 0; start < element_count; start += CHUNK) {
        const size_t left = element_count - start;
        const size_t count = left < CHUNK ? left : CHUNK;
        const char *from = chunk;
        if (rows->positions == NULL) {
            from = contiguous(rows) + start * element;
        } else {
            take(&source, count, chunk);
        }
        for (size_t i = 0; i < count; i += WORD) {
            const size_t now = count - i < WORD ? count - i : WORD;
            if ((size_t)(limit - at) < now * element) {
                return 0;
            }
            rbt_bytes_put_u64(&bits_at, element == 4 ? skip_zeros_4(from + i * element, now, &at)
                                                     : skip_zeros_8(from + i * element, now, &at));
        }
    }
    RBT_ASSERT(bits_at == to + words * sizeof(uint64_t));
    RBT_ASSERT(at <= limit);
    return at < limit ? (size_t)(at - to) : 0;
}

/* Compresses into fewer bytes; returns how many, or 0 if they do not become fewer. */
static size_t pack(char *to, const char *from, size_t bytes, enum rbt_value_form form)
{
    RBT_ASSERT(bytes > 1);
    RBT_ASSERT(bytes <= RBT_FRAME_BODY_MAX);
    if (form == RBT_VALUES_LZ4) {
        const int packed = LZ4_compress_default(from, to, (int)bytes, (int)bytes - 1);
        return packed > 0 ? (size_t)packed : 0;
    }
    RBT_ASSERT(form == RBT_VALUES_ZSTD);
    const size_t packed = ZSTD_compress(to, bytes - 1, from, bytes, ZSTD_LEVEL);
    return ZSTD_isError(packed) ? 0 : packed;
}

/* The share of the bytes that compression leaves of a piece in their middle. */
static double estimate_packed(char *scratch, const char *values, size_t bytes,
                              enum rbt_value_form form)
{
    RBT_ASSERT(bytes >= PACK_MIN);
    const size_t size = bytes < PACK_SAMPLE ? bytes : PACK_SAMPLE;
    const size_t packed = pack(scratch, values + (bytes - size) / 2, size, form);
    RBT_ASSERT(packed < size);
    return packed == 0 ? 1.0 : (double)packed / (double)size;
}

/* Compresses values that lie at `to` in their place. What zstd makes smaller than a reader believes
 * goes to LZ4, which cannot. Returns the bytes left, or 0 with the values untouched. */
static size_t pack_in_place(char *to, size_t bytes, char *scratch, enum rbt_value_form *form)
{
    RBT_ASSERT(scratch != to);
    size_t packed = pack(scratch, to, bytes, *form);
    if (packed > 0 && bytes / RBT_WIRE_EXPANSION_MAX >= packed) {
        *form = RBT_VALUES_LZ4;
        packed = pack(scratch, to, bytes, *form);
    }
    if (packed == 0 || bytes / RBT_WIRE_EXPANSION_MAX >= packed) {
        return 0;
    }
    RBT_ASSERT(packed < bytes);
    memcpy(to, scratch, packed);
    return packed;
}

size_t rbt_values_put(char *to, const struct rbt_wire_rows *rows, size_t element_count,
                      char *scratch, enum rbt_value_form *form)
{
    RBT_ASSERT(rows->element_size == 4 || rows->element_size == 8);
    const size_t bytes = element_count * rows->element_size;
    if (rows->packed != NULL) {
        RBT_ASSERT(rbt_wire_can_filter(bytes, rows->packed_bytes));
        memcpy(to, rows->packed, rows->packed_bytes);
        *form = RBT_VALUES_FILTERED;
        return rows->packed_bytes;
    }
    struct source source = {.rows = rows};
    double sparse = 1.0;
    bool is_there = false;
    if (rows->compression >= RBT_COMPRESSION_ZEROS && element_count >= WORD) {
        sparse = estimate_sparse(rows, element_count);
    }
    if (rows->compression >= RBT_COMPRESSION_LZ4 && bytes >= PACK_MIN) {
        RBT_ASSERT(scratch != NULL);
        *form = rows->compression == RBT_COMPRESSION_LZ4 ? RBT_VALUES_LZ4 : RBT_VALUES_ZSTD;
        take(&source, element_count, to);
        is_there = true;
        const double packed = estimate_packed(scratch, to, bytes, *form);
        if (packed < PAYS && packed < sparse) {
            const size_t left = pack_in_place(to, bytes, scratch, form);
            if (left > 0) {
                RBT_ASSERT(left < bytes);
                return left;
            }
        }
    }
    if (sparse < PAYS) {
        const size_t left = put_sparse(to, rows, element_count);
        if (left > 0) {
            RBT_ASSERT(left < bytes);
            *form = RBT_VALUES_SPARSE;
            return left;
        }
        is_there = false;
    }
    *form = RBT_VALUES_RAW;
    if (!is_there) {
        source = (struct source){.rows = rows};
        take(&source, element_count, to);
    }
    return bytes;
}

/* --- Reading --------------------------------------------------------------------------------- */

static rbt_status wrong(const char *what)
{
    RBT_ASSERT(what != NULL);
    return rbt_fail(RBT_E_PROTOCOL, "the peer sent values %s", what);
}

static uint64_t word_at(const char *values, size_t i)
{
    uint64_t word;
    memcpy(&word, values + i * sizeof word, sizeof word);
    return word;
}

/* As many elements as bits are set, and no bit without an element. */
static bool sparse_holds(const struct rbt_wire_view *view)
{
    RBT_ASSERT(view->value_form == RBT_VALUES_SPARSE);
    const size_t words = (view->element_count + WORD - 1) / WORD;
    if (words == 0 || view->value_bytes < words * sizeof(uint64_t)) {
        return false;
    }
    size_t kept = 0;
    for (size_t i = 0; i < words; i++) {
        kept += (size_t)__builtin_popcountll(word_at(view->values, i));
    }
    const size_t used = view->element_count % WORD;
    if (used != 0 && word_at(view->values, words - 1) >> used != 0) {
        return false;
    }
    RBT_ASSERT(kept <= view->element_count);
    return view->value_bytes == words * sizeof(uint64_t) + kept * view->element_size;
}

static bool packed_holds(const struct rbt_wire_view *view)
{
    RBT_ASSERT(view->value_form == RBT_VALUES_LZ4 || view->value_form == RBT_VALUES_ZSTD);
    const size_t bytes = view->element_count * view->element_size;
    if (view->value_bytes == 0 || view->value_bytes >= bytes ||
        bytes / RBT_WIRE_EXPANSION_MAX >= view->value_bytes) {
        return false;
    }
    RBT_ASSERT(bytes <= RBT_FRAME_BODY_MAX);
    return view->value_form != RBT_VALUES_ZSTD ||
           ZSTD_getFrameContentSize(view->values, view->value_bytes) == bytes;
}

rbt_status rbt_values_check(const struct rbt_wire_view *view)
{
    RBT_ASSERT(view->values != NULL);
    RBT_ASSERT(view->element_count * view->element_size <= RBT_FRAME_BODY_MAX);
    bool is_well = false;
    switch (view->value_form) {
    case RBT_VALUES_NONE:
        is_well = view->value_bytes == 0;
        break;
    case RBT_VALUES_RAW:
        is_well = view->value_bytes == view->element_count * view->element_size;
        break;
    case RBT_VALUES_SPARSE:
        is_well = sparse_holds(view);
        break;
    case RBT_VALUES_LZ4:
    case RBT_VALUES_ZSTD:
        is_well = packed_holds(view);
        break;
    case RBT_VALUES_FILTERED:
        is_well = rbt_wire_can_filter(view->element_count * view->element_size, view->value_bytes);
        break;
    }
    return is_well ? RBT_OK : wrong("in a wrong number of bytes");
}

static void get_sparse(const struct rbt_wire_view *view, char *values)
{
    const size_t element = view->element_size;
    const size_t words = (view->element_count + WORD - 1) / WORD;
    const char *from = view->values + words * sizeof(uint64_t);
    RBT_ASSERT(view->value_form == RBT_VALUES_SPARSE);
    memset(values, 0, view->element_count * element);
    for (size_t i = 0; i < words; i++) {
        char *to = values + i * WORD * element;
        for (uint64_t bits = word_at(view->values, i); bits != 0; bits &= bits - 1) {
            const size_t k = (size_t)__builtin_ctzll(bits);
            if (element == sizeof(uint32_t)) {
                memcpy(to + k * sizeof(uint32_t), from, sizeof(uint32_t));
            } else {
                memcpy(to + k * sizeof(uint64_t), from, sizeof(uint64_t));
            }
            from += element;
        }
    }
    RBT_ASSERT(from == view->values + view->value_bytes); /* the view has been checked */
}

rbt_status rbt_values_get(const struct rbt_wire_view *view, void *values)
{
    const size_t bytes = view->element_count * view->element_size;
    RBT_ASSERT(bytes <= RBT_FRAME_BODY_MAX);
    switch (view->value_form) {
    case RBT_VALUES_NONE:
        break;
    case RBT_VALUES_RAW:
        RBT_ASSERT(view->value_bytes == bytes);
        if (bytes > 0) {
            memcpy(values, view->values, bytes);
        }
        break;
    case RBT_VALUES_SPARSE:
        get_sparse(view, values);
        break;
    case RBT_VALUES_LZ4:
        if (LZ4_decompress_safe(view->values, values, (int)view->value_bytes, (int)bytes) !=
            (int)bytes) {
            return wrong("that LZ4 cannot unpack");
        }
        break;
    case RBT_VALUES_ZSTD: {
        const size_t size = ZSTD_decompress(values, bytes, view->values, view->value_bytes);
        if (ZSTD_isError(size) && ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation) {
            return rbt_fail(RBT_E_NOMEM, "no memory to unpack values with zstd");
        }
        if (size != bytes) {
            return wrong("that zstd cannot unpack");
        }
        break;
    }
    case RBT_VALUES_FILTERED:
        return wrong("that were filtered, of a table that has no filters here");
    }
    return RBT_OK;
}
