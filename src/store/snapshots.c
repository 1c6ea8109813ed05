/* store/snapshots.c - copies in a ring.
 *
 * Copies are made and freed in the same order, since each is good for reads up to the message that
 * made it necessary. A row's copies are a chain from the newest to older ones; links to copies that
 * are gone are recognised by their number, so freeing one touches nothing else. What is known of
 * copies lies apart from the states, which so keep to their own cache lines, and are touched only
 * when they are wanted.
 *
 * Invariants:
 *   (1) `to` does not decrease along the ring;
 *   (2) count <= max, count <= capacity.
 *
 * Threads: none; owned by the shard. */
#include "store/snapshots.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "core/batch.h"

enum {
    CAPACITY_MIN = 64,
    MAX_MIN = 4096,      /* copies that small tables may have, */
    PER_ROW = 256,       /* others for each row, */
    PER_ROW_LARGE = 16,  /* and large ones, */
    MAX_LARGE = 1 << 20, /* which may have these in any case */
};

/* It stands for the reads after the copy before it, up to `to`. */
struct rbt_snapshot {
    uint64_t to;
    uint64_t older; /* number of the row's copy before this one, maybe one that is gone */
};
_Static_assert(CAPACITY_MIN * sizeof(struct rbt_snapshot) % 64 == 0, "states begin on a line");

static const uint64_t MOST = UINT32_MAX / 2;

void rbt_snapshots_init(struct rbt_snapshots *snapshots, uint32_t width, uint64_t max)
{
    RBT_ASSERT(width > 0);
    *snapshots = (struct rbt_snapshots){.width = width,
                                        .max = max == 0     ? MAX_MIN
                                               : max > MOST ? MOST
                                                            : max,
                                        .follows_rows = max == 0,
                                        .first = 1};
    RBT_ASSERT(snapshots->max > 0);
}

/* How many copies a table of so many rows may have unless its rule says otherwise: what many
 * workers that are within bounds need, and not what one that does nothing would make of it. */
static uint64_t max_of(uint64_t rows)
{
    const uint64_t few = rows * PER_ROW < MAX_LARGE ? rows * PER_ROW : MAX_LARGE;
    const uint64_t many = rows * PER_ROW_LARGE < MOST ? rows * PER_ROW_LARGE : MOST;
    const uint64_t max = few > many ? few : many;
    RBT_ASSERT(rows < RBT_SLOT_NONE);
    RBT_ASSERT(max <= MOST);
    return max < MAX_MIN ? MAX_MIN : max;
}

void rbt_snapshots_deinit(struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count <= snapshots->capacity);
    RBT_ASSERT((snapshots->ring == NULL) == (snapshots->capacity == 0));
    rbt_free(snapshots->rows);
    rbt_free(snapshots->ring);
    *snapshots = (struct rbt_snapshots){0};
}

rbt_status rbt_snapshots_fit(struct rbt_snapshots *snapshots, uint64_t slots)
{
    RBT_ASSERT(slots < RBT_SLOT_NONE);
    const uint64_t before = snapshots->slot_capacity;
    if (snapshots->follows_rows) {
        snapshots->max = max_of(slots); /* rows only become more */
    }
    if (slots <= before) {
        return RBT_OK;
    }
    const uint64_t capacity = slots + slots / 4;
    struct rbt_snapshot_row *rows = rbt_realloc(snapshots->rows, capacity, sizeof *rows);
    if (rows == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the versions of %llu rows",
                        (unsigned long long)slots);
    }
    memset(rows + before, 0, (capacity - before) * sizeof *rows);
    snapshots->rows = rows;
    snapshots->slot_capacity = capacity;
    RBT_ASSERT(snapshots->slot_capacity >= slots);
    return RBT_OK;
}

static struct rbt_snapshot *copy_at(const struct rbt_snapshots *snapshots, uint64_t number)
{
    RBT_DEBUG_ASSERT(number - snapshots->first < snapshots->count);
    RBT_DEBUG_ASSERT(snapshots->ring != NULL);
    return &snapshots->ring[number & (snapshots->capacity - 1)];
}

static float *state_at(const struct rbt_snapshots *snapshots, uint64_t number)
{
    RBT_DEBUG_ASSERT(number - snapshots->first < snapshots->count);
    RBT_DEBUG_ASSERT(snapshots->width > 0);
    float *states = (float *)(snapshots->ring + snapshots->capacity);
    return states + (number & (snapshots->capacity - 1)) * snapshots->width;
}

static size_t bytes_of(const struct rbt_snapshots *snapshots, uint32_t capacity)
{
    RBT_DEBUG_ASSERT((capacity & (capacity - 1)) == 0);
    RBT_DEBUG_ASSERT(snapshots->width > 0 || capacity == 0);
    return capacity * (sizeof *snapshots->ring + snapshots->width * sizeof(float));
}

/* Twice as much room, up to the limit. */
static bool grow(struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count == snapshots->capacity);
    RBT_ASSERT((snapshots->capacity & (snapshots->capacity - 1)) == 0);
    struct rbt_snapshots grown = *snapshots;
    grown.capacity = snapshots->capacity == 0 ? CAPACITY_MIN : snapshots->capacity * 2;
    grown.ring = rbt_alloc(bytes_of(snapshots, grown.capacity));
    if (grown.ring == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < snapshots->count; i++) {
        const uint64_t number = snapshots->first + i;
        *copy_at(&grown, number) = *copy_at(snapshots, number);
        memcpy(state_at(&grown, number), state_at(snapshots, number),
               snapshots->width * sizeof(float));
    }
    rbt_free(snapshots->ring);
    *snapshots = grown;
    RBT_ASSERT(snapshots->count < snapshots->capacity);
    return true;
}

/* Room for one more, if need be at the price of the oldest; false: there is none at all. */
static bool make_room(struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count <= snapshots->max);
    const bool is_full = snapshots->count == snapshots->max ||
                         (snapshots->count == snapshots->capacity && !grow(snapshots));
    if (is_full && snapshots->count > 0) {
        snapshots->first++;
        snapshots->count--;
    }
    RBT_ASSERT(snapshots->count < snapshots->max); /* (2) */
    return snapshots->count < snapshots->capacity;
}

/* Copies the row; returns where to. There is room. */
static const float *copy_row(struct rbt_snapshots *snapshots, struct rbt_snapshot_row *row,
                             const float *state, uint64_t count)
{
    const uint64_t number = snapshots->first + snapshots->count++;
    RBT_DEBUG_ASSERT(snapshots->count <= snapshots->capacity); /* (2) */
    RBT_DEBUG_ASSERT(snapshots->count == 1 ||
                     copy_at(snapshots, number - 1)->to <= count); /* (1) */
    *copy_at(snapshots, number) = (struct rbt_snapshot){.to = count, .older = row->newest};
    row->newest = number;
    snapshots->count_max =
        snapshots->count > snapshots->count_max ? snapshots->count : snapshots->count_max;
    float *to = state_at(snapshots, number);
    if (snapshots->width == 1) { /* no call for the most frequent case */
        *to = *state;
        return to;
    }
    return memcpy(to, state, snapshots->width * sizeof *state);
}

/* The oldest copy of the chain from `number` that stands for the read; 0: none does. */
static uint64_t walk(const struct rbt_snapshots *snapshots, uint64_t number, uint64_t base)
{
    uint64_t found = 0;
    while (number >= snapshots->first && copy_at(snapshots, number)->to >= base) {
        found = number;
        number = copy_at(snapshots, number)->older; /* ends: older and older */
    }
    RBT_DEBUG_ASSERT(found == 0 || found >= snapshots->first);
    RBT_DEBUG_ASSERT(found < snapshots->first + snapshots->count);
    return found;
}

const float *rbt_snapshots_keep(struct rbt_snapshots *snapshots, uint32_t slot, const float *state,
                                const struct rbt_snapshot_cause *cause)
{
    RBT_ASSERT(slot < snapshots->slot_capacity);
    struct rbt_snapshot_row *row = &snapshots->rows[slot];
    const uint64_t changed = row->changed;
    const uint64_t newest = row->newest;
    const uint64_t count = cause->count;
    RBT_ASSERT(changed <= count + 1); /* the same message may change a row twice */
    RBT_ASSERT(cause->base <= count && cause->highest <= count);
    row->changed = count + 1;
    const float *now = state;
    if (changed <= count && cause->highest >= changed) {
        const bool has_room =
            snapshots->count < snapshots->capacity && snapshots->count < snapshots->max;
        now = has_room || make_room(snapshots) ? copy_row(snapshots, row, state, count) : state;
    }
    const uint64_t found = cause->base >= changed ? 0 : walk(snapshots, newest, cause->base);
    return found == 0 ? now : state_at(snapshots, found);
}

const float *rbt_snapshots_find(const struct rbt_snapshots *snapshots, uint32_t slot, uint64_t base,
                                const float *state)
{
    RBT_ASSERT(slot < snapshots->slot_capacity);
    RBT_ASSERT(snapshots->count <= snapshots->capacity); /* (2) */
    const struct rbt_snapshot_row *row = &snapshots->rows[slot];
    const uint64_t found = base >= row->changed ? 0 : walk(snapshots, row->newest, base);
    return found == 0 ? state : state_at(snapshots, found);
}

/* How many of the oldest copies are good for reads below `lowest` only. */
static uint32_t count_below(const struct rbt_snapshots *snapshots, uint64_t lowest)
{
    uint32_t low = 0;
    uint32_t high = snapshots->count;
    while (low < high) { /* (1) */
        const uint32_t middle = low + (high - low) / 2;
        if (copy_at(snapshots, snapshots->first + middle)->to < lowest) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    RBT_ASSERT(low <= snapshots->count);
    RBT_ASSERT(low == 0 || copy_at(snapshots, snapshots->first + low - 1)->to < lowest);
    return low;
}

void rbt_snapshots_release(struct rbt_snapshots *snapshots, uint64_t lowest)
{
    const uint32_t released = count_below(snapshots, lowest);
    RBT_ASSERT(released <= snapshots->count);
    snapshots->first += released;
    snapshots->count -= released;
    if (snapshots->count == 0 && snapshots->capacity > CAPACITY_MIN && lowest == RBT_STAMP_NONE) {
        rbt_free(snapshots->ring);
        snapshots->ring = NULL;
        snapshots->capacity = 0;
    }
    RBT_ASSERT(snapshots->count <= snapshots->max); /* (2) */
}

size_t rbt_snapshots_bytes(const struct rbt_snapshots *snapshots)
{
    RBT_ASSERT(snapshots->count <= snapshots->capacity);
    RBT_ASSERT(snapshots->count <= snapshots->count_max);
    return snapshots->slot_capacity * sizeof *snapshots->rows +
           bytes_of(snapshots, snapshots->capacity);
}

/* --- State ------------------------------------------------------------------------------------ */

void rbt_snapshots_save(const struct rbt_snapshots *snapshots, uint64_t rows, struct rbt_sink *sink)
{
    const uint64_t known = rows < snapshots->slot_capacity ? rows : snapshots->slot_capacity;
    RBT_ASSERT(snapshots->count <= snapshots->capacity); /* (2) */
    RBT_ASSERT(snapshots->first > 0);
    rbt_sink_put_u64(sink, snapshots->max);
    rbt_sink_put_u64(sink, snapshots->slot_capacity);
    rbt_sink_put_u64(sink, snapshots->first);
    rbt_sink_put_u32(sink, snapshots->count_max);
    for (uint64_t i = 0; i < known; i++) {
        rbt_sink_put_u64(sink, snapshots->rows[i].changed);
        rbt_sink_put_u64(sink, snapshots->rows[i].newest);
    }
    rbt_sink_put_u64(sink, snapshots->count);
    for (uint64_t number = snapshots->first; number < snapshots->first + snapshots->count;
         number++) {
        rbt_sink_put_u64(sink, copy_at(snapshots, number)->to);
        rbt_sink_put_u64(sink, copy_at(snapshots, number)->older);
        rbt_sink_put(sink, state_at(snapshots, number), snapshots->width * sizeof(float));
    }
}

/* What is known of rows. */
static void load_rows(struct rbt_snapshots *snapshots, uint64_t rows, uint64_t count,
                      struct rbt_source *source)
{
    const uint64_t known = rows < snapshots->slot_capacity ? rows : snapshots->slot_capacity;
    RBT_ASSERT(snapshots->rows == NULL);
    RBT_ASSERT(snapshots->count == 0);
    if (snapshots->slot_capacity == 0) {
        return;
    }
    snapshots->rows = rbt_calloc(snapshots->slot_capacity, sizeof *snapshots->rows);
    if (snapshots->rows == NULL) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for the versions of rows");
        snapshots->slot_capacity = 0;
        return;
    }
    for (uint64_t i = 0; i < known && rbt_source_is_good(source); i++) {
        snapshots->rows[i].changed = rbt_source_get_u64(source);
        snapshots->rows[i].newest = rbt_source_get_u64(source);
        if (snapshots->rows[i].changed > count) {
            rbt_source_refuse(source, "a row has changed in the future");
        }
    }
    RBT_ASSERT(snapshots->slot_capacity >= known);
}

/* The copies; their number is known to fit. */
static void load_copies(struct rbt_snapshots *snapshots, uint32_t copies, uint64_t count,
                        struct rbt_source *source)
{
    RBT_ASSERT(snapshots->ring == NULL);
    RBT_ASSERT(copies > 0 && copies <= snapshots->max);
    uint32_t capacity = CAPACITY_MIN;
    while (capacity < copies) { /* ends: MOST is half of the largest */
        capacity *= 2;
    }
    snapshots->ring = rbt_alloc(bytes_of(snapshots, capacity));
    if (snapshots->ring == NULL) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for %u copies of rows", copies);
        return;
    }
    snapshots->capacity = capacity;
    uint64_t before = 0;
    for (uint32_t i = 0; i < copies && rbt_source_is_good(source); i++) {
        const uint64_t number = snapshots->first + snapshots->count++;
        struct rbt_snapshot *copy = copy_at(snapshots, number);
        copy->to = rbt_source_get_u64(source);
        copy->older = rbt_source_get_u64(source);
        rbt_source_get(source, state_at(snapshots, number), snapshots->width * sizeof(float));
        if (copy->to < before || copy->to > count || copy->older >= number) { /* (1) */
            rbt_source_refuse(source, "copies of rows are in no order");
        }
        before = copy->to;
    }
}

void rbt_snapshots_load(struct rbt_snapshots *snapshots, uint64_t rows, uint64_t count,
                        struct rbt_source *source)
{
    RBT_ASSERT(snapshots->count == 0 && snapshots->slot_capacity == 0);
    RBT_ASSERT(rows < RBT_SLOT_NONE);
    const size_t each = 2 * sizeof(uint64_t) + snapshots->width * sizeof(float);
    const uint64_t max = rbt_source_get_u64(source);
    const uint64_t slot_capacity = rbt_source_get_u64(source);
    const uint64_t first = rbt_source_get_number(source);
    const uint32_t count_max = rbt_source_get_u32(source);
    const bool is_limit =
        snapshots->follows_rows ? max >= MAX_MIN && max <= max_of(rows) : max == snapshots->max;
    if (!is_limit || slot_capacity > rows + rows / 4 || first == 0) {
        rbt_source_refuse(source, "more copies of rows are kept than may be");
        return;
    }
    snapshots->max = max;
    snapshots->slot_capacity = slot_capacity;
    snapshots->first = first;
    load_rows(snapshots, rows, count, source);
    const uint64_t copies = rbt_source_get_count(source, each);
    if (copies > max || copies > count_max) {
        rbt_source_refuse(source, "more copies of rows are kept than may be");
    } else if (copies > 0) {
        load_copies(snapshots, (uint32_t)copies, count, source);
    }
    snapshots->count_max = count_max;
    for (uint64_t i = 0; i < snapshots->slot_capacity && rbt_source_is_good(source); i++) {
        if (snapshots->rows[i].newest >= first + copies) {
            rbt_source_refuse(source, "a row has a copy that is not there");
        }
    }
}
