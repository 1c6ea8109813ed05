/* store/versions.c - parts behind a small table of slots, or in pages of slots.
 *
 * Sparse: places are probed one after the other, at most 7/8 of them are taken. Paged: a page has a
 * bit for each of its slots, how many bits are set before each word (in place of the first, which
 * would be 0: in all), and the parts of those that are set, side by side:
 *
 *     bits (words)   ranks (words)   parts (a multiple of `words`)
 *
 * so that with rows of one value a part takes little more than the value. A page of wide rows has
 * fewer slots, since a new part moves those behind it.
 *
 * Threads: none; owned by the shard. */
#include "store/versions.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "core/batch.h"

enum {
    PLACES_MIN = 16,
    ROWS_PER_PART = 16,  /* a version with a part for one row in so many is paged, */
    ROWS_PAGED_MIN = 64, /* unless the table is small */
    WORDS_MAX = 16,      /* of a page */
    BITS = 64,           /* of a word */
};

void rbt_versions_init(struct rbt_versions *versions, uint32_t width)
{
    RBT_ASSERT(width > 0);
    uint32_t words = WORDS_MAX;
    while (words > 1 && words * width > WORDS_MAX) {
        words /= 2;
    }
    RBT_ASSERT(words > 0);
    *versions = (struct rbt_versions){
        .width = width, .words = words, .page_shift = (uint32_t)__builtin_ctz(words * BITS)};
}

static void free_version(struct rbt_version *version)
{
    RBT_ASSERT(version->pages == NULL || version->slots == NULL);
    RBT_ASSERT(version->pages == NULL || version->parts == NULL);
    for (uint64_t i = 0; version->pages != NULL && i < version->capacity; i++) {
        rbt_free(version->pages[i]);
    }
    rbt_free(version->pages);
    rbt_free(version->slots);
    rbt_free(version->parts);
}

void rbt_versions_deinit(struct rbt_versions *versions)
{
    RBT_ASSERT(versions->count <= versions->capacity);
    RBT_ASSERT(versions->count <= versions->count_max);
    for (size_t i = 0; i < versions->count; i++) {
        free_version(&versions->live[i]);
    }
    rbt_free(versions->live);
    *versions = (struct rbt_versions){0};
}

rbt_status rbt_versions_at(struct rbt_versions *versions, uint64_t id, struct rbt_version **version)
{
    RBT_ASSERT(versions->count <= versions->capacity);
    size_t at = versions->count;
    while (at > 0 && versions->live[at - 1].id > id) {
        at--;
    }
    if (at > 0 && versions->live[at - 1].id == id) {
        *version = &versions->live[at - 1];
        return RBT_OK;
    }
    if (versions->count == versions->capacity) {
        const size_t capacity = versions->capacity == 0 ? 8 : versions->capacity * 2;
        struct rbt_version *live = rbt_realloc(versions->live, capacity, sizeof *live);
        if (live == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate %zu versions", capacity);
        }
        versions->live = live;
        versions->capacity = capacity;
    }
    memmove(versions->live + at + 1, versions->live + at,
            (versions->count - at) * sizeof *versions->live);
    versions->live[at] = (struct rbt_version){.id = id};
    versions->count++;
    versions->count_max =
        versions->count > versions->count_max ? versions->count : versions->count_max;
    *version = &versions->live[at];
    RBT_ASSERT(at == 0 || versions->live[at - 1].id < id);
    return RBT_OK;
}

static uint64_t hash_slot(uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot != RBT_SLOT_NONE);
    return (slot * UINT64_C(0x9E3779B97F4A7C15)) >> 32;
}

/* The place of the slot, or the free one where it would be. */
static uint64_t place_of(const struct rbt_version *version, uint32_t slot)
{
    RBT_DEBUG_ASSERT(version->count < version->capacity);
    RBT_DEBUG_ASSERT(version->pages == NULL);
    uint64_t place = (hash_slot(slot) * version->capacity) >> 32;
    while (version->slots[place] != slot && version->slots[place] != RBT_SLOT_NONE) {
        place = place + 1 == version->capacity ? 0 : place + 1;
    }
    return place;
}

/* --- Pages ----------------------------------------------------------------------------------- */

static uint64_t page_rows(const struct rbt_versions *versions)
{
    RBT_DEBUG_ASSERT(versions->words > 0);
    RBT_DEBUG_ASSERT(UINT64_C(1) << versions->page_shift == (uint64_t)versions->words * BITS);
    return UINT64_C(1) << versions->page_shift;
}

/* How many parts a page has room for if it has `count`. */
static uint64_t room_of(const struct rbt_versions *versions, uint64_t count)
{
    const uint64_t words = versions->words;
    RBT_DEBUG_ASSERT(count <= page_rows(versions));
    RBT_DEBUG_ASSERT((words & (words - 1)) == 0);
    return (count + words - 1) & ~(words - 1);
}

static uint64_t page_bytes(const struct rbt_versions *versions, uint64_t room)
{
    RBT_DEBUG_ASSERT(room <= page_rows(versions));
    RBT_DEBUG_ASSERT(room % versions->words == 0);
    return 2 * versions->words * sizeof(uint64_t) + room * versions->width * sizeof(float);
}

/* Without an instruction of its own: not every processor that we run on has one. */
static uint64_t count_bits(uint64_t word)
{
    word -= word >> 1 & UINT64_C(0x5555555555555555);
    word = (word & UINT64_C(0x3333333333333333)) + (word >> 2 & UINT64_C(0x3333333333333333));
    word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return word * UINT64_C(0x0101010101010101) >> 56;
}

/* How many parts are before that of a slot, which is counted within the page. */
static uint64_t rank_of(const struct rbt_versions *versions, const uint64_t *page, uint64_t at)
{
    RBT_DEBUG_ASSERT(at < page_rows(versions));
    const uint64_t word = at / BITS;
    RBT_DEBUG_ASSERT(word < versions->words);
    const uint64_t before = word == 0 ? 0 : page[versions->words + word];
    return before + count_bits(page[word] & ((UINT64_C(1) << at % BITS) - 1));
}

/* Part number `rank` of a page. */
static float *part_of(const struct rbt_versions *versions, uint64_t *page, uint64_t rank)
{
    RBT_DEBUG_ASSERT(rank < page[versions->words]);
    RBT_DEBUG_ASSERT(page[versions->words] <= page_rows(versions));
    return (float *)(page + (size_t)2 * versions->words) + rank * versions->width;
}

/* Grows page number `index` from `count` parts to one more. */
static bool grow_page(const struct rbt_versions *versions, struct rbt_version *version,
                      uint64_t index, uint64_t count)
{
    RBT_ASSERT(index < version->capacity);
    RBT_ASSERT(count == room_of(versions, count));
    const size_t before = count == 0 ? 0 : page_bytes(versions, count);
    const size_t bytes = page_bytes(versions, room_of(versions, count + 1));
    uint64_t *page = rbt_realloc(version->pages[index], 1, bytes);
    if (page == NULL) {
        return false;
    }
    RBT_ASSERT(bytes > before);
    version->pages[index] = page;
    version->bytes += bytes - before;
    return true;
}

/* A part of zeros for a slot that has none; NULL: no memory. */
static float *add_paged(const struct rbt_versions *versions, struct rbt_version *version,
                        uint32_t slot)
{
    const uint64_t words = versions->words;
    const uint64_t index = slot >> versions->page_shift;
    const uint64_t at = slot & (page_rows(versions) - 1);
    RBT_ASSERT(index < version->capacity);
    const uint64_t count = version->pages[index] == NULL ? 0 : version->pages[index][words];
    if (count == room_of(versions, count) && !grow_page(versions, version, index, count)) {
        return NULL;
    }
    uint64_t *page = version->pages[index];
    RBT_ASSERT((page[at / BITS] >> at % BITS & 1) == 0);
    const uint64_t rank = rank_of(versions, page, at);
    RBT_ASSERT(rank <= count);
    page[at / BITS] |= UINT64_C(1) << at % BITS;
    page[words]++;
    for (uint64_t i = at / BITS + 1; i < words; i++) {
        page[words + i]++;
    }
    float *part = part_of(versions, page, rank);
    const size_t size = versions->width * sizeof *part;
    memmove(part + versions->width, part, (count - rank) * size);
    memset(part, 0, size);
    return part;
}

/* Makes sure that there are pages for `rows` rows. */
static bool grow_pages(const struct rbt_versions *versions, struct rbt_version *version,
                       uint64_t rows)
{
    RBT_ASSERT(version->slots == NULL);
    const uint64_t capacity = (rows + page_rows(versions) - 1) >> versions->page_shift;
    RBT_ASSERT(version->pages == NULL || capacity >= version->capacity);
    uint64_t **pages = rbt_realloc(version->pages, capacity, sizeof(uint64_t *));
    if (pages == NULL) {
        return false;
    }
    version->bytes += (capacity - version->capacity) * sizeof *pages;
    version->pages = pages;
    version->capacity = capacity;
    return true;
}

/* --- Parts ----------------------------------------------------------------------------------- */

static float *find(const struct rbt_versions *versions, const struct rbt_version *version,
                   uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot != RBT_SLOT_NONE);
    RBT_DEBUG_ASSERT(versions->width > 0);
    if (version->count == 0) {
        return NULL;
    }
    if (version->pages == NULL) {
        const uint64_t place = place_of(version, slot);
        return version->slots[place] == slot ? version->parts + place * versions->width : NULL;
    }
    if (slot >> versions->page_shift >= version->capacity) {
        return NULL;
    }
    uint64_t *page = version->pages[slot >> versions->page_shift];
    const uint64_t at = slot & (page_rows(versions) - 1);
    if (page == NULL || (page[at / BITS] >> at % BITS & 1) == 0) {
        return NULL;
    }
    return part_of(versions, page, rank_of(versions, page, at));
}

/* A part of zeros for a slot that has none, in a version that has room; NULL: no memory. */
static float *add_part(const struct rbt_versions *versions, struct rbt_version *version,
                       uint32_t slot)
{
    float *part = NULL;
    if (version->pages != NULL) {
        part = add_paged(versions, version, slot);
    } else {
        const uint64_t place = place_of(version, slot);
        RBT_ASSERT(version->slots[place] == RBT_SLOT_NONE);
        version->slots[place] = slot;
        part = version->parts + place * versions->width;
    }
    RBT_ASSERT(version->bytes > 0);
    version->count += part != NULL;
    return part;
}

/* Takes all parts of `version` over into `grown`, and is it from then on. */
static bool move_parts(const struct rbt_versions *versions, struct rbt_version *version,
                       struct rbt_version *grown)
{
    RBT_ASSERT(grown->count == 0);
    uint64_t place = 0;
    uint32_t slot = 0;
    const float *part = NULL;
    while ((part = rbt_versions_next(versions, version, &place, &slot)) != NULL) {
        float *to = add_part(versions, grown, slot);
        if (to == NULL) {
            free_version(grown);
            return false;
        }
        memcpy(to, part, versions->width * sizeof *part);
    }
    RBT_ASSERT(grown->count == version->count);
    free_version(version);
    *version = *grown;
    return true;
}

/* An empty version instead of this one, without places or pages. */
static struct rbt_version empty_like(const struct rbt_version *version)
{
    RBT_ASSERT(version->pages == NULL);
    RBT_ASSERT(version->count <= version->capacity);
    return (struct rbt_version){.id = version->id,
                                .messages = version->messages,
                                .clock = version->clock,
                                .first = version->first};
}

/* Gives a sparse version `capacity` places. */
static bool resize(const struct rbt_versions *versions, struct rbt_version *version,
                   uint64_t capacity)
{
    RBT_ASSERT(capacity > version->count);
    struct rbt_version grown = empty_like(version);
    grown.capacity = capacity;
    grown.bytes = capacity * (sizeof *grown.slots + versions->width * sizeof *grown.parts);
    grown.slots = rbt_alloc(capacity * sizeof *grown.slots);
    grown.parts = rbt_calloc(capacity * versions->width, sizeof *grown.parts);
    if (grown.parts == NULL || grown.slots == NULL) {
        free_version(&grown);
        return false;
    }
    memset(grown.slots, 0xff, capacity * sizeof *grown.slots); /* RBT_SLOT_NONE */
    return move_parts(versions, version, &grown);
}

/* Room for one more part, of the row in this slot. */
static bool make_room(const struct rbt_versions *versions, struct rbt_version *version,
                      uint32_t slot, uint64_t rows)
{
    RBT_ASSERT(slot < rows);
    RBT_ASSERT(version->pages != NULL || version->count <= version->capacity);
    if (version->pages != NULL) {
        return slot >> versions->page_shift < version->capacity ||
               grow_pages(versions, version, rows);
    }
    if (ROWS_PER_PART * (version->count + 1) > rows && rows > ROWS_PAGED_MIN) {
        struct rbt_version paged = empty_like(version);
        return grow_pages(versions, &paged, rows) && move_parts(versions, version, &paged);
    }
    if (version->count + 1 <= version->capacity - version->capacity / 8 && version->capacity > 0) {
        return true;
    }
    const uint64_t capacity = version->capacity + version->capacity / 2;
    return resize(versions, version, capacity < PLACES_MIN ? PLACES_MIN : capacity);
}

float *rbt_versions_part(const struct rbt_versions *versions, struct rbt_version *version,
                         uint32_t slot, uint64_t rows)
{
    RBT_ASSERT(slot < rows);
    RBT_DEBUG_ASSERT(rows <= RBT_SLOT_NONE);
    float *there = find(versions, version, slot);
    if (there != NULL) {
        return there;
    }
    return make_room(versions, version, slot, rows) ? add_part(versions, version, slot) : NULL;
}

const float *rbt_versions_peek(const struct rbt_versions *versions,
                               const struct rbt_version *version, uint32_t slot)
{
    RBT_DEBUG_ASSERT(slot != RBT_SLOT_NONE);
    RBT_DEBUG_ASSERT(version->pages == NULL || version->slots == NULL);
    return find(versions, version, slot);
}

/* The first slot with a part at `at` or behind it, or one behind all pages. */
static uint64_t next_paged(const struct rbt_versions *versions, const struct rbt_version *version,
                           uint64_t at)
{
    const uint64_t end = version->capacity << versions->page_shift;
    RBT_DEBUG_ASSERT(version->pages != NULL);
    RBT_DEBUG_ASSERT(end <= (uint64_t)UINT32_MAX + page_rows(versions));
    while (at < end) {
        const uint64_t *page = version->pages[at >> versions->page_shift];
        const uint64_t word = at / BITS & (versions->words - 1);
        const uint64_t rest = page == NULL ? 0 : page[word] >> at % BITS;
        if (rest != 0) {
            return at + (uint64_t)__builtin_ctzll(rest);
        }
        const uint64_t step = page == NULL ? page_rows(versions) : BITS;
        at = (at | (step - 1)) + 1;
    }
    return end;
}

const float *rbt_versions_next(const struct rbt_versions *versions,
                               const struct rbt_version *version, uint64_t *place, uint32_t *slot)
{
    RBT_DEBUG_ASSERT(versions->width > 0);
    RBT_DEBUG_ASSERT(version->pages != NULL || *place <= version->capacity);
    uint64_t at = *place;
    if (version->pages != NULL) {
        at = next_paged(versions, version, at);
        if (at >= version->capacity << versions->page_shift) {
            return NULL;
        }
        *place = at + 1;
        *slot = (uint32_t)at;
        return find(versions, version, *slot);
    }
    while (at < version->capacity && version->slots[at] == RBT_SLOT_NONE) {
        at++;
    }
    if (at >= version->capacity) {
        return NULL;
    }
    *slot = version->slots[at];
    *place = at + 1;
    return version->parts + at * versions->width;
}

void rbt_versions_drop(struct rbt_versions *versions)
{
    RBT_ASSERT(versions->count > 0);
    RBT_ASSERT(versions->count == 1 || versions->live[0].id < versions->live[1].id);
    free_version(&versions->live[0]);
    versions->count--;
    memmove(versions->live, versions->live + 1, versions->count * sizeof *versions->live);
}

size_t rbt_versions_bytes(const struct rbt_versions *versions)
{
    RBT_ASSERT(versions->count <= versions->capacity);
    size_t bytes = versions->capacity * sizeof *versions->live;
    for (size_t i = 0; i < versions->count; i++) {
        RBT_DEBUG_ASSERT(versions->live[i].count <= versions->live[i].bytes);
        bytes += versions->live[i].bytes;
    }
    return bytes;
}

/* --- State ------------------------------------------------------------------------------------ */

void rbt_versions_save(const struct rbt_versions *versions, size_t at, struct rbt_sink *sink)
{
    RBT_ASSERT(at < versions->count);
    const struct rbt_version *version = &versions->live[at];
    RBT_ASSERT(version->pages == NULL || version->slots == NULL);
    rbt_sink_put_u64(sink, version->id);
    rbt_sink_put_u64(sink, version->messages);
    rbt_sink_put_i64(sink, version->clock);
    rbt_sink_put_u8(sink, version->pages != NULL ? 1 : 0);
    rbt_sink_put_u64(sink, version->capacity);
    rbt_sink_put_u64(sink, version->count);
    uint64_t place = 0;
    uint32_t slot = 0;
    const float *part = NULL;
    while ((part = rbt_versions_next(versions, version, &place, &slot)) != NULL) {
        rbt_sink_put_u64(sink, place - 1); /* of a page, the slot */
        rbt_sink_put_u32(sink, slot);
        rbt_sink_put(sink, part, versions->width * sizeof *part);
    }
}

/* Places or pages as the saved version had them; false: no memory. */
static bool load_room(const struct rbt_versions *versions, struct rbt_version *version,
                      uint64_t capacity, bool is_paged)
{
    RBT_ASSERT(version->capacity == 0);
    RBT_ASSERT(version->slots == NULL);
    if (is_paged) {
        return grow_pages(versions, version, capacity << versions->page_shift);
    }
    return capacity == 0 || resize(versions, version, capacity);
}

/* One part, at its place. */
static void load_part(const struct rbt_versions *versions, struct rbt_version *version,
                      struct rbt_source *source, uint64_t rows)
{
    const uint64_t place = rbt_source_get_u64(source);
    const uint32_t slot = rbt_source_get_u32(source);
    RBT_ASSERT(versions->width > 0);
    RBT_ASSERT(rows < RBT_SLOT_NONE);
    bool is_free = slot < rows;
    if (version->pages != NULL) {
        is_free = is_free && place == slot && slot >> versions->page_shift < version->capacity &&
                  find(versions, version, slot) == NULL;
    } else {
        is_free = is_free && place < version->capacity && version->slots[place] == RBT_SLOT_NONE;
    }
    if (!is_free) {
        rbt_source_refuse(source, "a row is in a version twice, or is not there");
        return;
    }
    float *part = NULL;
    if (version->pages != NULL) {
        part = add_paged(versions, version, slot);
    } else {
        version->slots[place] = slot;
        part = version->parts + place * versions->width;
    }
    if (part == NULL) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for a version");
        return;
    }
    version->count++;
    rbt_source_get(source, part, versions->width * sizeof *part);
}

/* Whether every part is where it is looked for. */
static bool is_found(const struct rbt_version *version)
{
    RBT_ASSERT(version->pages == NULL);
    RBT_ASSERT(version->count == 0 || version->count < version->capacity);
    for (uint64_t i = 0; i < version->capacity; i++) {
        if (version->slots[i] != RBT_SLOT_NONE && place_of(version, version->slots[i]) != i) {
            return false;
        }
    }
    return true;
}

void rbt_versions_load(struct rbt_versions *versions, struct rbt_source *source, uint64_t rows)
{
    const size_t each = sizeof(uint64_t) + sizeof(uint32_t) + versions->width * sizeof(float);
    const uint64_t id = rbt_source_get_u64(source);
    const uint64_t messages = rbt_source_get_number(source);
    const int64_t clock = (int64_t)rbt_source_get_number(source);
    const bool is_paged = rbt_source_get_bool(source);
    const uint64_t capacity = rbt_source_get_u64(source);
    const uint64_t count = rbt_source_get_count(source, each);
    /* Of places there are no more than make_room() makes of so many parts; of pages, than rows. */
    const bool has_sense = is_paged ? capacity > 0 && capacity <= (rows >> versions->page_shift) + 1
                                    : capacity <= 2 * count + PLACES_MIN &&
                                          (count < capacity || capacity == 0) &&
                                          (count > 0) == (capacity > 0);
    if (!has_sense || messages == 0 ||
        (versions->count > 0 && versions->live[versions->count - 1].id >= id)) {
        rbt_source_refuse(source, "a version is out of order");
    }
    if (!rbt_source_is_good(source)) {
        return;
    }
    struct rbt_version *version = NULL;
    source->status = rbt_versions_at(versions, id, &version);
    if (!rbt_source_is_good(source)) {
        return;
    }
    version->messages = messages;
    version->clock = clock;
    if (!load_room(versions, version, capacity, is_paged)) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for a version");
    }
    for (uint64_t i = 0; i < count && rbt_source_is_good(source); i++) {
        load_part(versions, version, source, rows);
    }
    if (rbt_source_is_good(source) && !is_paged && !is_found(version)) {
        rbt_source_refuse(source, "the parts of a version are in no order");
    }
}
