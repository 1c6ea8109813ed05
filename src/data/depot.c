/* data/depot.c - examples on disk, and the shares of workers made of them.
 *
 *   files --parse--> pool, in the order of the files: lengths | labels | features | values
 *         --draw---> places: where each example is in the random order
 *   per worker:
 *   pool  --throw--> buckets: neighbouring pieces of its part of the order, as they come
 *         --sort---> a bucket at a time: offsets | labels | features | values, in order
 *
 * So all files are read and written from front to end, whatever the order is. Features are numbered
 * as they are met; when all are known, the numbers are translated to positions in increasing order
 * of the keys, first of all keys (ranks), then of those in the share. */
#include "data/depot.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/map.h"
#include "data/scales.h"
#include "data/sort.h"

enum {
    LOOKUPS = 1024,        /* features that are looked up together */
    KEYS_MIN = 1024,       /* room for keys at first */
    BUCKETS_MAX = 192,     /* open files */
    BUFFER_MIN = 4 * 1024, /* of a file that is added to */
    BUFFER_MAX = 256 * 1024,
    SHARE_BUFFER = 64 * 1024, /* of a share: also the blocks in which it is mapped */
    PART_MIN = 128 * 1024,    /* of text that is parsed at once */
    PART_MAX = 16 * 1024 * 1024,
    ROWS_MAX = 65536, /* of the pool, read at once */
};

#define DROPPED UINT32_MAX /* the rank of a feature that is left out */

struct rbt_depot {
    const char *directory;
    size_t memory;
    size_t count;
    uint64_t nonzeros;
    struct rbt_labels label;
    uint64_t *keys; /* sorted */
    size_t key_count;
    float *scales; /* (scale_count), of the first keys; values of others stay */
    size_t scale_count;
    uint32_t *ranks; /* of features as they were met, or DROPPED */
    struct rbt_depot_change change;
    uint32_t *change_ranks;      /* (change.count), increasing */
    size_t shifted;              /* features of these that all examples have */
    struct rbt_scratch lengths;  /* uint32_t */
    struct rbt_scratch labels;   /* as in the files */
    struct rbt_scratch features; /* uint32_t, as they were met */
    struct rbt_scratch values;
    struct rbt_scratch places; /* uint32_t */
    pthread_mutex_t dealing;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory to keep the examples on disk");
}

static size_t clamp(size_t value, size_t low, size_t high)
{
    return value < low ? low : value > high ? high : value;
}

void rbt_depot_close(rbt_depot *depot)
{
    if (depot == NULL) {
        return;
    }
    rbt_scratch_close(&depot->places);
    rbt_scratch_close(&depot->values);
    rbt_scratch_close(&depot->features);
    rbt_scratch_close(&depot->labels);
    rbt_scratch_close(&depot->lengths);
    rbt_free(depot->change_ranks);
    rbt_free(depot->ranks);
    rbt_free(depot->scales);
    rbt_free(depot->keys);
    (void)pthread_mutex_destroy(&depot->dealing);
    rbt_free(depot);
}

struct rbt_depot_facts rbt_depot_facts(const rbt_depot *depot)
{
    return (struct rbt_depot_facts){.count = depot->count,
                                    .keys = depot->keys,
                                    .key_count = depot->key_count,
                                    .labels = depot->label};
}

/* --- Parsing into the pool -------------------------------------------------------------------- */

struct filling {
    rbt_depot *depot;
    struct rbt_map map; /* from keys to the numbers of features */
    uint64_t *keys;     /* of features as they were met */
    uint32_t *uses;     /* how many examples have each; no more than is asked for */
    size_t capacity;    /* of both */
    uint64_t count_min;
};

/* Room for so many more features. */
static rbt_status reserve(struct filling *filling, size_t more)
{
    const size_t least = (size_t)filling->map.count + more;
    if (least >= DROPPED) {
        return rbt_fail(RBT_E_INVALID, "there are more than %u different features", DROPPED - 1);
    }
    if (least > filling->capacity) {
        const size_t capacity = least > filling->capacity * 2 ? least : filling->capacity * 2;
        uint64_t *keys = rbt_realloc(filling->keys, capacity, sizeof *keys);
        filling->keys = keys == NULL ? filling->keys : keys;
        uint32_t *uses = rbt_realloc(filling->uses, capacity, sizeof *uses);
        filling->uses = uses == NULL ? filling->uses : uses;
        if (keys == NULL || uses == NULL) {
            return no_memory();
        }
        filling->capacity = capacity;
    }
    return rbt_map_reserve(&filling->map, more);
}

/* Numbers a few features; new ones get the next numbers. */
static rbt_status number(struct filling *filling, const uint64_t *keys, size_t count,
                         uint32_t *slots)
{
    rbt_map_find_batch(&filling->map, keys, count, slots);
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        missing += slots[i] == RBT_MAP_NONE;
    }
    if (missing > 0) {
        const rbt_status st = reserve(filling, missing);
        if (st != RBT_OK) {
            return st;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (slots[i] == RBT_MAP_NONE) {
            slots[i] = rbt_map_find(&filling->map, keys[i]); /* it may have come just now */
        }
        if (slots[i] == RBT_MAP_NONE) {
            slots[i] = (uint32_t)filling->map.count;
            filling->keys[slots[i]] = keys[i];
            rbt_map_insert(&filling->map, keys[i], slots[i]);
        }
        filling->uses[slots[i]] += filling->uses[slots[i]] < filling->count_min;
    }
    return RBT_OK;
}

static rbt_status take_part(void *context, const struct rbt_examples *part)
{
    struct filling *filling = context;
    rbt_depot *depot = filling->depot;
    const uint64_t nonzeros = part->offsets[part->count];
    rbt_status st = RBT_OK;
    for (uint64_t k = 0; st == RBT_OK && k < nonzeros; k += LOOKUPS) {
        uint32_t slots[LOOKUPS];
        const size_t count = nonzeros - k < LOOKUPS ? (size_t)(nonzeros - k) : LOOKUPS;
        st = number(filling, part->keys + k, count, slots);
        st = st != RBT_OK ? st : rbt_scratch_add(&depot->features, slots, count * sizeof *slots);
    }
    for (size_t i = 0; st == RBT_OK && i < part->count; i++) {
        const uint32_t length = (uint32_t)(part->offsets[i + 1] - part->offsets[i]);
        st = rbt_scratch_add(&depot->lengths, &length, sizeof length);
    }
    if (st == RBT_OK) {
        st = rbt_scratch_add(&depot->labels, part->labels, part->count * sizeof *part->labels);
    }
    if (st == RBT_OK) {
        st = rbt_scratch_add(&depot->values, part->values, nonzeros * sizeof *part->values);
    }
    depot->count += part->count;
    depot->nonzeros += nonzeros;
    return st;
}

/* Sorts the keys of features that are kept, and says where each feature is among them. */
static rbt_status rank(rbt_depot *depot, struct filling *filling)
{
    const size_t met = (size_t)filling->map.count;
    rbt_map_deinit(&filling->map);
    uint32_t *kept = rbt_calloc(met, sizeof *kept);
    depot->ranks = rbt_calloc(met, sizeof *depot->ranks);
    if (kept == NULL || depot->ranks == NULL) {
        rbt_free(kept);
        return no_memory();
    }
    size_t count = 0;
    for (size_t i = 0; i < met; i++) {
        depot->ranks[i] = filling->uses[i] < filling->count_min ? DROPPED : (uint32_t)count;
        filling->keys[count] = filling->keys[i];
        count += depot->ranks[i] != DROPPED;
    }
    struct rbt_sorted sorted = {0};
    const rbt_status st = rbt_sort_positions(filling->keys, count, kept, &sorted);
    if (st == RBT_OK) {
        for (size_t i = 0; i < met; i++) {
            depot->ranks[i] = depot->ranks[i] == DROPPED ? DROPPED : kept[depot->ranks[i]];
        }
        depot->keys = sorted.keys;
        depot->key_count = sorted.count;
    }
    rbt_free(kept);
    return st;
}

/* Takes the scales of a table's columns: they are known when all of it has been read. */
static rbt_status take_scales(rbt_depot *depot, const struct rbt_column_plan *plan)
{
    size_t count = 0;
    while (count < depot->key_count && depot->keys[count] <= plan->count) {
        count++;
    }
    depot->scales = rbt_calloc(count, sizeof *depot->scales);
    if (depot->scales == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < count; i++) {
        depot->scales[i] = depot->keys[i] == 0 ? 1 : plan->scales[depot->keys[i] - 1];
    }
    depot->scale_count = count;
    return RBT_OK;
}

/* Draws the order, and stores where each example is in it. */
static rbt_status draw(rbt_depot *depot, uint64_t seed)
{
    uint32_t *order = NULL;
    rbt_status st = rbt_share_order(seed, depot->count, &order);
    if (st != RBT_OK) {
        return st;
    }
    uint32_t *places = rbt_calloc(depot->count, sizeof *places);
    if (places == NULL) {
        st = no_memory();
    } else {
        for (size_t k = 0; k < depot->count; k++) {
            places[order[k]] = (uint32_t)k;
        }
        st = rbt_scratch_add(&depot->places, places, depot->count * sizeof *places);
    }
    rbt_free(places);
    rbt_free(order);
    return st != RBT_OK ? st : rbt_scratch_flush(&depot->places);
}

static rbt_status open_pool(rbt_depot *depot)
{
    const size_t size = clamp(depot->memory / 64, BUFFER_MIN, BUFFER_MAX);
    rbt_status st = rbt_scratch_open(depot->directory, size, &depot->lengths);
    st = st != RBT_OK ? st : rbt_scratch_open(depot->directory, size, &depot->labels);
    st = st != RBT_OK ? st : rbt_scratch_open(depot->directory, size, &depot->features);
    st = st != RBT_OK ? st : rbt_scratch_open(depot->directory, size, &depot->values);
    return st != RBT_OK ? st : rbt_scratch_open(depot->directory, BUFFER_MIN, &depot->places);
}

static rbt_status flush_pool(rbt_depot *depot)
{
    rbt_status st = rbt_scratch_flush(&depot->lengths);
    st = st != RBT_OK ? st : rbt_scratch_flush(&depot->labels);
    st = st != RBT_OK ? st : rbt_scratch_flush(&depot->features);
    return st != RBT_OK ? st : rbt_scratch_flush(&depot->values);
}

static rbt_status fill(rbt_depot *depot, const struct rbt_depot_options *options)
{
    struct filling filling = {.depot = depot,
                              .count_min =
                                  options->count_min < DROPPED ? options->count_min : DROPPED - 1};
    const struct rbt_receiver receiver = {.part_size =
                                              clamp(options->memory / 16, PART_MIN, PART_MAX),
                                          .context = &filling,
                                          .take = take_part};
    rbt_status st = open_pool(depot);
    st = st != RBT_OK ? st : rbt_map_init(&filling.map, KEYS_MIN);
    st = st != RBT_OK ? st : rbt_examples_pass(options->data, &receiver, &depot->label);
    st = st != RBT_OK ? st : flush_pool(depot);
    st = st != RBT_OK ? st : rank(depot, &filling);
    if (st == RBT_OK && depot->label.is_unscaled) {
        st = take_scales(depot, options->data->plan);
    }
    rbt_map_deinit(&filling.map);
    rbt_free(filling.uses);
    rbt_free(filling.keys);
    return st != RBT_OK ? st : draw(depot, options->seed);
}

rbt_status rbt_depot_open(const struct rbt_depot_options *options, rbt_depot **depot)
{
    rbt_depot *made = rbt_calloc(1, sizeof *made);
    if (made == NULL) {
        return no_memory();
    }
    made->directory = options->directory;
    made->memory = options->memory;
    made->lengths = made->labels = made->features = made->values = made->places = RBT_SCRATCH_NONE;
    (void)pthread_mutex_init(&made->dealing, NULL); /* cannot fail on Linux */
    const rbt_status st = fill(made, options);
    if (st != RBT_OK) {
        rbt_depot_close(made);
        return st;
    }
    *depot = made;
    return RBT_OK;
}

/* --- Dealing ---------------------------------------------------------------------------------- */

void rbt_stored_init(struct rbt_stored *stored)
{
    *stored = (struct rbt_stored){0};
    stored->offsets = stored->labels = stored->steps = stored->indices = stored->values =
        RBT_SCRATCH_NONE;
}

void rbt_stored_free(struct rbt_stored *stored)
{
    rbt_scratch_close(&stored->values);
    rbt_scratch_close(&stored->indices);
    rbt_scratch_close(&stored->steps);
    rbt_scratch_close(&stored->labels);
    rbt_scratch_close(&stored->offsets);
    rbt_free(stored->keys);
    rbt_stored_init(stored);
}

/* An example in a bucket, before its features and its values. */
struct record {
    uint32_t place; /* in the share */
    uint32_t length;
    float label;
};

struct dealing {
    const rbt_depot *depot;
    struct rbt_stored *stored;
    uint64_t first; /* of the order: the share is first .. first + stored->count - 1 */
    size_t width;   /* places in a bucket */
    size_t bucket_count;
    struct rbt_scratch *buckets;
    uint32_t *locals;  /* of each rank: 1 if it is in the share; later, its position there */
    size_t row_max;    /* examples of the pool to read at once */
    uint32_t *lengths; /* (row_max), of those */
    uint32_t *places;
    float *labels;
    uint32_t *features; /* (room) */
    float *values;
    size_t room;
    uint32_t *row_features; /* (row_room), of the example that is thrown */
    float *row_values;
    size_t row_room;
};

/* Makes an array larger; what was in it is lost. */
static bool widen(void **block, size_t size)
{
    rbt_free(*block);
    *block = rbt_alloc(size);
    return *block != NULL;
}

/* Adds a feature to the example that is thrown. */
static void put(struct dealing *dealing, struct record *record, uint32_t feature, double value)
{
    dealing->row_features[record->length] = feature;
    dealing->row_values[record->length++] = (float)value;
    dealing->locals[feature] = 1;
}

/* What an example becomes: without the features that are left out, and changed. */
static void make_row(struct dealing *dealing, const uint32_t *features, const float *values,
                     uint32_t length, struct record *record)
{
    const rbt_depot *depot = dealing->depot;
    const struct rbt_depot_change *change = &depot->change;
    size_t at = 0; /* of the features that change */
    for (uint32_t k = 0; k <= length; k++) {
        const uint32_t rank = k < length ? depot->ranks[features[k]] : DROPPED;
        if (k < length && rank == DROPPED) {
            continue;
        }
        for (; at < change->count && depot->change_ranks[at] < rank; at++) {
            if (change->means[at] != 0.0) { /* it was 0 */
                put(dealing, record, depot->change_ranks[at],
                    -change->means[at] * change->scales[at]);
            }
        }
        if (k == length) {
            break;
        }
        const float x = rank < depot->scale_count ? rbt_scales_times(values[k], depot->scales[rank])
                                                  : values[k];
        if (at < change->count && depot->change_ranks[at] == rank) {
            put(dealing, record, rank, ((double)x - change->means[at]) * change->scales[at]);
            at++;
        } else {
            put(dealing, record, rank, (double)x);
        }
    }
}

/* Puts an example into its bucket. */
static rbt_status throw(struct dealing * dealing, struct record record, const uint32_t *features,
                        const float *values)
{
    const size_t room = record.length + dealing->depot->shifted;
    if (dealing->row_features == NULL || room > dealing->row_room) {
        dealing->row_room = 2 * room + 1;
        if (!widen((void **)&dealing->row_features,
                   dealing->row_room * sizeof *dealing->row_features) ||
            !widen((void **)&dealing->row_values,
                   dealing->row_room * sizeof *dealing->row_values)) {
            return no_memory();
        }
    }
    const uint32_t length = record.length;
    record.length = 0;
    make_row(dealing, features, values, length, &record);
    const size_t kept = record.length;
    dealing->stored->nonzeros += kept;
    struct rbt_scratch *bucket = &dealing->buckets[record.place / dealing->width];
    rbt_status st = rbt_scratch_add(bucket, &record, sizeof record);
    st =
        st != RBT_OK ? st : rbt_scratch_add(bucket, dealing->row_features, kept * sizeof(uint32_t));
    return st != RBT_OK ? st : rbt_scratch_add(bucket, dealing->row_values, kept * sizeof(float));
}

/* Reads `count` examples of the pool from example `first`, feature `offset` on. */
static rbt_status read_rows(struct dealing *dealing, size_t first, size_t count, uint64_t offset,
                            uint64_t *nonzeros)
{
    const rbt_depot *depot = dealing->depot;
    const size_t size = count * sizeof(uint32_t);
    const uint64_t at = first * sizeof(uint32_t);
    rbt_status st = rbt_scratch_read(&depot->lengths, at, dealing->lengths, size);
    st = st != RBT_OK ? st : rbt_scratch_read(&depot->places, at, dealing->places, size);
    st = st != RBT_OK ? st : rbt_scratch_read(&depot->labels, at, dealing->labels, size);
    if (st != RBT_OK) {
        return st;
    }
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += dealing->lengths[i];
    }
    if (dealing->features == NULL || sum > dealing->room) { /* also of examples without any */
        dealing->room = sum + sum / 4 + 1;
        if (!widen((void **)&dealing->features, dealing->room * sizeof *dealing->features) ||
            !widen((void **)&dealing->values, dealing->room * sizeof *dealing->values)) {
            return no_memory();
        }
    }
    *nonzeros = sum;
    st = rbt_scratch_read(&depot->features, offset * sizeof(uint32_t), dealing->features,
                          sum * sizeof(uint32_t));
    return st != RBT_OK ? st
                        : rbt_scratch_read(&depot->values, offset * sizeof(float), dealing->values,
                                           sum * sizeof(float));
}

/* What a label in the files stands for. */
static float label_of(const rbt_depot *depot, float label)
{
    const float positive = depot->label.positive;
    return positive == 0 ? label : label == positive ? 1.0F : -1.0F;
}

/* Throws all examples of the share into buckets. */
static rbt_status throw_all(struct dealing *dealing)
{
    const rbt_depot *depot = dealing->depot;
    uint64_t offset = 0;
    for (size_t first = 0; first < depot->count; first += dealing->row_max) {
        const size_t left = depot->count - first;
        const size_t count = left < dealing->row_max ? left : dealing->row_max;
        uint64_t nonzeros = 0;
        rbt_status st = read_rows(dealing, first, count, offset, &nonzeros);
        offset += nonzeros;
        size_t at = 0;
        for (size_t i = 0; st == RBT_OK && i < count; at += dealing->lengths[i], i++) {
            const uint64_t place = dealing->places[i];
            if (place < dealing->first || place >= dealing->first + dealing->stored->count) {
                continue;
            }
            const struct record record = {.place = (uint32_t)(place - dealing->first),
                                          .length = dealing->lengths[i],
                                          .label = label_of(depot, dealing->labels[i])};
            st = throw(dealing, record, dealing->features + at, dealing->values + at);
        }
        if (st != RBT_OK) {
            return st;
        }
    }
    RBT_ASSERT(offset == depot->nonzeros);
    return RBT_OK;
}

/* Lists the keys of the share; locals become positions in the list. */
static rbt_status list_keys(struct dealing *dealing)
{
    struct rbt_stored *stored = dealing->stored;
    size_t count = 0;
    for (size_t j = 0; j < dealing->depot->key_count; j++) {
        count += dealing->locals[j];
    }
    stored->keys = rbt_calloc(count, sizeof *stored->keys);
    if (stored->keys == NULL) {
        return no_memory();
    }
    for (size_t j = 0; j < dealing->depot->key_count; j++) {
        if (dealing->locals[j] != 0) {
            stored->keys[stored->key_count] = dealing->depot->keys[j];
            dealing->locals[j] = (uint32_t)stored->key_count++;
        }
    }
    return RBT_OK;
}

/* Adds a record of a bucket to the share. */
static rbt_status settle(struct dealing *dealing, uint8_t *bytes, uint64_t *offset)
{
    struct rbt_stored *stored = dealing->stored;
    struct record record;
    memcpy(&record, bytes, sizeof record);
    uint32_t *features = (uint32_t *)(void *)(bytes + sizeof record); /* all have four bytes */
    const size_t size = record.length * sizeof *features;
    for (uint32_t k = 0; k < record.length; k++) {
        features[k] = dealing->locals[features[k]];
    }
    *offset += record.length;
    rbt_status st = rbt_scratch_add(&stored->labels, &record.label, sizeof record.label);
    st = st != RBT_OK ? st : rbt_scratch_add(&stored->indices, features, size);
    st = st != RBT_OK ? st : rbt_scratch_add(&stored->values, bytes + sizeof record + size, size);
    return st != RBT_OK ? st : rbt_scratch_add(&stored->offsets, offset, sizeof *offset);
}

/* Adds a bucket to the share, in the order of the places. */
static rbt_status empty_bucket(struct dealing *dealing, size_t index, uint64_t *offset)
{
    struct rbt_scratch *bucket = &dealing->buckets[index];
    rbt_status st = rbt_scratch_flush(bucket);
    if (st != RBT_OK) {
        return st;
    }
    const size_t first = index * dealing->width;
    const size_t left = dealing->stored->count - first;
    const size_t count = left < dealing->width ? left : dealing->width;
    const size_t size = (size_t)bucket->size;
    uint8_t *bytes = rbt_alloc(size);
    uint64_t *starts = rbt_calloc(count, sizeof *starts);
    st = bytes == NULL || starts == NULL ? no_memory() : rbt_scratch_read(bucket, 0, bytes, size);
    rbt_scratch_close(bucket);
    for (size_t at = 0; st == RBT_OK && at < size;) {
        struct record record;
        memcpy(&record, bytes + at, sizeof record);
        RBT_ASSERT(record.place >= first && record.place - first < count);
        starts[record.place - first] = at;
        at += sizeof record + record.length * (sizeof(uint32_t) + sizeof(float));
    }
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        st = settle(dealing, bytes + starts[i], offset);
    }
    rbt_free(starts);
    rbt_free(bytes);
    return st;
}

static rbt_status empty_buckets(struct dealing *dealing)
{
    const char *directory = dealing->depot->directory;
    struct rbt_stored *stored = dealing->stored;
    const size_t size = SHARE_BUFFER;
    uint64_t offset = 0;
    rbt_status st = rbt_scratch_open(directory, size, &stored->offsets);
    st = st != RBT_OK ? st : rbt_scratch_open(directory, size, &stored->labels);
    st = st != RBT_OK ? st : rbt_scratch_open(directory, size, &stored->indices);
    st = st != RBT_OK ? st : rbt_scratch_open(directory, size, &stored->values);
    st = st != RBT_OK ? st : rbt_scratch_open(directory, BUFFER_MIN, &stored->steps);
    st = st != RBT_OK ? st : rbt_scratch_add(&stored->offsets, &offset, sizeof offset);
    for (size_t i = 0; st == RBT_OK && i < dealing->bucket_count; i++) {
        st = empty_bucket(dealing, i, &offset);
    }
    RBT_ASSERT(st != RBT_OK || offset == stored->nonzeros);
    st = st != RBT_OK ? st : rbt_scratch_flush(&stored->offsets);
    st = st != RBT_OK ? st : rbt_scratch_flush(&stored->labels);
    st = st != RBT_OK ? st : rbt_scratch_flush(&stored->indices);
    st = st != RBT_OK ? st : rbt_scratch_flush(&stored->values);
    return st != RBT_OK ? st : rbt_scratch_flush(&stored->steps);
}

/* Makes room for examples of the pool. */
static rbt_status prepare_rows(struct dealing *dealing)
{
    const rbt_depot *depot = dealing->depot;
    const size_t row = (size_t)(16 + 8 * (depot->nonzeros / (depot->count + 1) + 1));
    dealing->row_max = clamp(depot->memory / 8 / row, 1, ROWS_MAX);
    dealing->lengths = rbt_alloc(dealing->row_max * sizeof *dealing->lengths);
    dealing->places = rbt_alloc(dealing->row_max * sizeof *dealing->places);
    dealing->labels = rbt_alloc(dealing->row_max * sizeof *dealing->labels);
    return dealing->lengths == NULL || dealing->places == NULL || dealing->labels == NULL
               ? no_memory()
               : RBT_OK;
}

/* Decides on buckets and makes room. */
static rbt_status prepare(struct dealing *dealing, uint32_t workers)
{
    const rbt_depot *depot = dealing->depot;
    const size_t quarter = depot->memory / 4 + 1;
    const uint64_t nonzeros = depot->nonzeros + depot->shifted * depot->count; /* at most */
    const size_t share = (size_t)((nonzeros * 8 + depot->count * 16) / workers);
    const size_t wanted = clamp(share / quarter + 1, 1, BUCKETS_MAX);
    dealing->width = dealing->stored->count / wanted + 1;
    dealing->bucket_count = (dealing->stored->count + dealing->width - 1) / dealing->width;
    dealing->locals = rbt_calloc(depot->key_count, sizeof *dealing->locals);
    dealing->buckets = rbt_calloc(dealing->bucket_count, sizeof *dealing->buckets);
    if (dealing->locals == NULL || dealing->buckets == NULL || prepare_rows(dealing) != RBT_OK) {
        rbt_free(dealing->buckets);
        dealing->buckets = NULL;
        return no_memory();
    }
    for (size_t i = 0; i < dealing->bucket_count; i++) {
        dealing->buckets[i] = RBT_SCRATCH_NONE;
    }
    const size_t size = clamp(quarter / (dealing->bucket_count + 1), BUFFER_MIN, BUFFER_MAX);
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < dealing->bucket_count; i++) {
        st = rbt_scratch_open(depot->directory, size, &dealing->buckets[i]);
    }
    return st;
}

/* The pool's side of a deal, which is needed until the buckets are full. */
static void end_throwing(struct dealing *dealing)
{
    rbt_free(dealing->row_values);
    rbt_free(dealing->row_features);
    rbt_free(dealing->values);
    rbt_free(dealing->features);
    rbt_free(dealing->labels);
    rbt_free(dealing->places);
    rbt_free(dealing->lengths);
    dealing->values = dealing->labels = dealing->row_values = NULL;
    dealing->features = dealing->places = dealing->lengths = dealing->row_features = NULL;
}

rbt_status rbt_depot_deal(rbt_depot *depot, uint32_t index, uint32_t count,
                          struct rbt_stored *stored)
{
    RBT_ASSERT(index < count);
    const uint64_t first = depot->count * (uint64_t)index / count;
    rbt_stored_init(stored);
    stored->count = (size_t)(depot->count * (index + UINT64_C(1)) / count - first);
    struct dealing dealing = {.depot = depot, .stored = stored, .first = first};
    (void)pthread_mutex_lock(&depot->dealing); /* one at a time: memory for one is allowed */
    rbt_status st = prepare(&dealing, count);
    st = st != RBT_OK ? st : throw_all(&dealing);
    end_throwing(&dealing);
    st = st != RBT_OK ? st : list_keys(&dealing);
    st = st != RBT_OK ? st : empty_buckets(&dealing);
    for (size_t i = 0; dealing.buckets != NULL && i < dealing.bucket_count; i++) {
        rbt_scratch_close(&dealing.buckets[i]);
    }
    rbt_free(dealing.buckets);
    rbt_free(dealing.locals);
    (void)pthread_mutex_unlock(&depot->dealing);
    if (st != RBT_OK) {
        rbt_stored_free(stored);
    }
    return st;
}

/* --- Walking ---------------------------------------------------------------------------------- */

/* Gives some examples of the pool, which were read, to the receiver. */
static rbt_status give(const struct dealing *dealing, size_t count, uint64_t nonzeros,
                       const struct rbt_receiver *receiver)
{
    const rbt_depot *depot = dealing->depot;
    struct rbt_examples part = {.count = count,
                                .offsets = rbt_calloc(count + 1, sizeof *part.offsets),
                                .labels = dealing->labels,
                                .keys = rbt_calloc((size_t)nonzeros, sizeof *part.keys),
                                .values = dealing->values};
    rbt_status st = part.offsets == NULL || part.keys == NULL ? no_memory() : RBT_OK;
    uint64_t kept = 0;
    uint64_t at = 0;
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        for (const uint64_t end = at + dealing->lengths[i]; at < end; at++) {
            const uint32_t rank = depot->ranks[dealing->features[at]];
            if (rank == DROPPED) {
                continue;
            }
            part.keys[kept] = depot->keys[rank];
            part.values[kept++] = rank < depot->scale_count
                                      ? rbt_scales_times(dealing->values[at], depot->scales[rank])
                                      : dealing->values[at];
        }
        part.labels[i] = label_of(depot, dealing->labels[i]);
        part.offsets[i + 1] = kept;
    }
    st = st != RBT_OK ? st : receiver->take(receiver->context, &part);
    rbt_free(part.keys);
    rbt_free(part.offsets);
    return st;
}

rbt_status rbt_depot_walk(rbt_depot *depot, const struct rbt_receiver *receiver)
{
    struct dealing walk = {.depot = depot};
    uint64_t offset = 0;
    rbt_status st = prepare_rows(&walk);
    for (size_t first = 0; st == RBT_OK && first < depot->count; first += walk.row_max) {
        const size_t left = depot->count - first;
        const size_t count = left < walk.row_max ? left : walk.row_max;
        uint64_t nonzeros = 0;
        st = read_rows(&walk, first, count, offset, &nonzeros);
        st = st != RBT_OK ? st : give(&walk, count, nonzeros, receiver);
        offset += nonzeros;
    }
    end_throwing(&walk);
    return st;
}

rbt_status rbt_depot_change(rbt_depot *depot, const struct rbt_depot_change *change)
{
    uint32_t *ranks = rbt_calloc(change->count, sizeof *ranks);
    if (ranks == NULL) {
        return no_memory();
    }
    size_t rank = 0;
    depot->shifted = 0;
    for (size_t j = 0; j < change->count; j++) { /* the depot has them all, in this order */
        while (depot->keys[rank] != change->keys[j]) {
            rank++;
        }
        ranks[j] = (uint32_t)rank;
        depot->shifted += change->means[j] != 0.0;
    }
    rbt_free(depot->change_ranks);
    depot->change_ranks = ranks;
    depot->change = *change;
    return RBT_OK;
}
