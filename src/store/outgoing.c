/* store/outgoing.c - filters at work on rows that go out.
 *
 * Names of copies are numbers that are given once, so a name that fits is that of the very rows
 * that were sent with it.
 *
 * Invariants:
 *   (1) a copy's values are what its reader has, if it has received the answer with that name;
 *   (2) `bytes` is the sum of all copies, and at most bytes_max.
 *
 * Threads: none; the shard owns it. Memory: a copy of the rows for each reader, up to a limit, and
 * 9 bytes per element of the largest read. */
#include "store/outgoing.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mutant.h"
#include "policy/filter/chain.h"

static const size_t bytes_max_default = (size_t)1 << 30;

/* What a reader was last sent. */
struct copy {
    uint32_t worker;
    uint64_t asked;
    uint64_t name;
    uint64_t turn; /* how many times it has been sent */
    uint64_t used; /* when it last was */
    size_t count;  /* elements */
    float *values;
};

struct rbt_outgoing {
    rbt_chain *chain;
    bool has_select;
    uint32_t width;
    uint64_t seed;
    size_t bytes_max;
    size_t bytes;
    uint64_t last_name;
    uint64_t calls;  /* for copies: what was used when */
    uint64_t *turns; /* per worker, and for who is none: reads that kept no copy */
    uint32_t worker_count;
    struct copy *copies;
    size_t copy_count;
    size_t copy_max;
    float *values; /* scratch: the rows side by side; (room) */
    bool *keep;    /* the same; (room) */
    uint64_t *keys;
    size_t room;
    size_t keys_room;
};

rbt_status rbt_outgoing_create(const struct rbt_outgoing_options *options, rbt_outgoing **outgoing)
{
    const struct rbt_shard_table *schema = options->schema;
    RBT_ASSERT(schema->filter != NULL);
    RBT_ASSERT(schema->width > 0);
    const struct rbt_chain_options chain = {.text = schema->filter,
                                            .direction = RBT_FILTER_PULL,
                                            .table = schema->name,
                                            .width = schema->width,
                                            .type = schema->type,
                                            .layout = schema->layout,
                                            .merge = schema->merge,
                                            .worker_count = options->worker_count};
    rbt_chain *made = NULL;
    *outgoing = NULL;
    const rbt_status st = rbt_chain_create(&chain, &made);
    const struct rbt_chain_traits traits = rbt_chain_traits(made);
    if (st != RBT_OK || !(traits.has_select || traits.has_round)) {
        rbt_chain_destroy(made);
        return st;
    }
    rbt_outgoing *o = rbt_calloc(1, sizeof *o);
    if (o == NULL) {
        rbt_chain_destroy(made);
        return rbt_fail(RBT_E_NOMEM, "could not allocate the filters of a table");
    }
    o->chain = made;
    o->has_select = traits.has_select;
    o->width = schema->width;
    o->seed = rbt_hash_key(schema->seed + 1);
    o->bytes_max = options->bytes_max == 0 ? bytes_max_default : options->bytes_max;
    o->worker_count = options->worker_count;
    o->turns = rbt_calloc((size_t)options->worker_count + 1, sizeof *o->turns);
    if (o->turns == NULL) {
        rbt_outgoing_destroy(o);
        return rbt_fail(RBT_E_NOMEM, "could not allocate the filters of a table");
    }
    *outgoing = o;
    return RBT_OK;
}

/* Forgets copy number `at`; the last one takes its place. */
static void forget(rbt_outgoing *outgoing, size_t at)
{
    RBT_ASSERT(at < outgoing->copy_count);
    struct copy *copy = &outgoing->copies[at];
    RBT_ASSERT(outgoing->bytes >= copy->count * sizeof *copy->values); /* (2) */
    outgoing->bytes -= copy->count * sizeof *copy->values;
    rbt_free(copy->values);
    *copy = outgoing->copies[--outgoing->copy_count];
}

void rbt_outgoing_reset(rbt_outgoing *outgoing)
{
    while (outgoing->copy_count > 0) { /* ends: one less each time */
        forget(outgoing, outgoing->copy_count - 1);
    }
    RBT_ASSERT(outgoing->bytes == 0); /* (2) */
    /* Names go on: readers of the last run may have some. */
    memset(outgoing->turns, 0, (outgoing->worker_count + (size_t)1) * sizeof *outgoing->turns);
    RBT_ASSERT(outgoing->copy_count <= outgoing->copy_max);
}

void rbt_outgoing_destroy(rbt_outgoing *outgoing)
{
    if (outgoing == NULL) {
        return;
    }
    RBT_ASSERT(outgoing->copy_count <= outgoing->copy_max);
    while (outgoing->copy_count > 0) { /* ends: one less each time */
        forget(outgoing, outgoing->copy_count - 1);
    }
    rbt_free(outgoing->turns);
    rbt_free(outgoing->copies);
    rbt_free(outgoing->keys);
    rbt_free(outgoing->keep);
    rbt_free(outgoing->values);
    rbt_chain_destroy(outgoing->chain);
    rbt_free(outgoing);
}

void rbt_outgoing_leave(rbt_outgoing *outgoing, uint32_t worker)
{
    RBT_ASSERT(outgoing->copy_count <= outgoing->copy_max);
    for (size_t i = outgoing->copy_count; i-- > 0;) {
        if (outgoing->copies[i].worker == worker) {
            forget(outgoing, i);
            i -= RBT_MUTANT(HALF_LEFT) && i > 0;
        }
    }
    RBT_ASSERT(outgoing->bytes <= outgoing->bytes_max); /* (2) */
}

size_t rbt_outgoing_copies(const rbt_outgoing *outgoing)
{
    RBT_ASSERT(outgoing != NULL);
    RBT_ASSERT(outgoing->copy_count <= outgoing->copy_max);
    return outgoing->copy_count;
}

size_t rbt_outgoing_bytes(const rbt_outgoing *outgoing)
{
    RBT_ASSERT(outgoing->bytes <= outgoing->bytes_max); /* (2) */
    return outgoing->bytes + outgoing->copy_max * sizeof *outgoing->copies +
           outgoing->room * (sizeof *outgoing->values + sizeof *outgoing->keep) +
           outgoing->keys_room * sizeof *outgoing->keys;
}

/* --- Copies ---------------------------------------------------------------------------------- */

static struct copy *find(const rbt_outgoing *outgoing, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->asked != 0);
    RBT_ASSERT(outgoing->copy_count <= outgoing->copy_max);
    for (size_t i = 0; i < outgoing->copy_count; i++) {
        struct copy *copy = &outgoing->copies[i];
        if (copy->worker == event->worker && copy->asked == event->asked) {
            return copy;
        }
    }
    return NULL;
}

/* Makes room for so many bytes, if that is possible, by forgetting what was not used for longest.
 */
static bool make_room(rbt_outgoing *outgoing, size_t bytes)
{
    RBT_ASSERT(outgoing->bytes <= outgoing->bytes_max); /* (2) */
    while (outgoing->copy_count > 0 && bytes <= outgoing->bytes_max &&
           outgoing->bytes_max - bytes < outgoing->bytes) { /* ends: one less each time */
        size_t oldest = 0;
        for (size_t i = 1; i < outgoing->copy_count; i++) {
            oldest = outgoing->copies[i].used < outgoing->copies[oldest].used ? i : oldest;
        }
        forget(outgoing, oldest);
    }
    RBT_ASSERT(bytes > outgoing->bytes_max || outgoing->bytes <= outgoing->bytes_max - bytes);
    return bytes <= outgoing->bytes_max;
}

/* A copy for the reader; NULL if there is no room: then everything goes every time. */
static struct copy *make(rbt_outgoing *outgoing, uint32_t worker, uint64_t asked, size_t count)
{
    const size_t bytes = count * sizeof(float);
    RBT_ASSERT(count > 0);
    if (!make_room(outgoing, bytes)) {
        return NULL;
    }
    if (outgoing->copy_count == outgoing->copy_max) {
        const size_t max = outgoing->copy_max == 0 ? 8 : outgoing->copy_max * 2;
        struct copy *copies = rbt_realloc(outgoing->copies, max, sizeof *copies);
        if (copies == NULL) {
            return NULL;
        }
        outgoing->copies = copies;
        outgoing->copy_max = max;
    }
    float *values = rbt_calloc(count, sizeof *values);
    if (values == NULL) {
        return NULL;
    }
    struct copy *copy = &outgoing->copies[outgoing->copy_count++];
    *copy = (struct copy){.worker = worker, .asked = asked, .count = count, .values = values};
    outgoing->bytes += bytes;
    RBT_ASSERT(outgoing->bytes <= outgoing->bytes_max); /* (2) */
    return copy;
}

/* --- Filtering ------------------------------------------------------------------------------- */

/* Room in the scratch arrays. */
static rbt_status fit(rbt_outgoing *outgoing, size_t rows)
{
    const size_t count = rows * outgoing->width;
    RBT_ASSERT(rows > 0);
    if (count > outgoing->room) {
        float *values = rbt_realloc(outgoing->values, count, sizeof *values);
        outgoing->values = values == NULL ? outgoing->values : values;
        bool *keep = rbt_realloc(outgoing->keep, count, sizeof *keep);
        outgoing->keep = keep == NULL ? outgoing->keep : keep;
        if (values == NULL || keep == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory to filter %zu rows", rows);
        }
        outgoing->room = count;
    }
    if (rows > outgoing->keys_room) {
        uint64_t *keys = rbt_realloc(outgoing->keys, rows, sizeof *keys);
        if (keys == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory to filter %zu rows", rows);
        }
        outgoing->keys = keys;
        outgoing->keys_room = rows;
    }
    RBT_ASSERT(outgoing->values != NULL);
    return RBT_OK;
}

static void gather(rbt_outgoing *outgoing, const struct rbt_batch *batch)
{
    const uint32_t width = outgoing->width;
    const float *from = batch->values;
    RBT_ASSERT(from != NULL);
    RBT_ASSERT(batch->count * width <= outgoing->room);
    for (size_t i = 0; i < batch->count; i++) {
        const size_t at = rbt_batch_position(batch, i);
        outgoing->keys[i] = batch->keys[at];
        memcpy(outgoing->values + i * width, from + at * width, width * sizeof *from);
    }
}

static void scatter(const rbt_outgoing *outgoing, const float *values,
                    const struct rbt_batch *batch)
{
    const uint32_t width = outgoing->width;
    float *to = batch->values;
    RBT_ASSERT(to != NULL);
    RBT_ASSERT(values != NULL);
    for (size_t i = 0; i < batch->count; i++) {
        memcpy(to + rbt_batch_position(batch, i) * width, values + i * width, width * sizeof *to);
    }
}

/* Brings the copy up to date with what goes. What is rounded to what the reader has need not go
 * after all. */
static void update(rbt_outgoing *outgoing, struct copy *copy, bool is_known)
{
    RBT_ASSERT(copy->count <= outgoing->room);
    RBT_ASSERT(copy->values != NULL);
    for (size_t i = 0; i < copy->count; i++) {
        if (is_known && outgoing->keep[i]) {
            outgoing->keep[i] = memcmp(&copy->values[i], &outgoing->values[i], sizeof(float)) != 0;
        }
        if (outgoing->keep[i]) {
            copy->values[i] = outgoing->values[i]; /* (1) */
        }
    }
}

/* Another one for every message, and the same on every driver: `turn` counts the reader's. */
static uint64_t seed_of(const rbt_outgoing *outgoing, const struct rbt_shard_event *event,
                        uint64_t turn)
{
    RBT_ASSERT(event->batch_count == 1);
    RBT_ASSERT(event->batches[0].count > 0);
    uint64_t seed = rbt_hash_key(outgoing->seed ^ event->table);
    seed = rbt_hash_key(seed ^ event->worker);
    seed = rbt_hash_key(seed ^ event->asked);
    seed = rbt_hash_key(seed ^ outgoing->keys[0]);
    return rbt_hash_key(seed ^ turn);
}

static void tell(const rbt_outgoing *outgoing, const struct rbt_shard_event *event,
                 const struct rbt_filter_code *code)
{
    const size_t count = event->batches[0].count * outgoing->width;
    RBT_ASSERT(count <= outgoing->room);
    RBT_ASSERT(code->bits <= 32);
    if (event->sent != NULL) {
        event->sent->code = *code;
        if (event->sent->keep != NULL) {
            memcpy(event->sent->keep, outgoing->keep, count * sizeof *outgoing->keep);
        }
    }
}

/* Rounds rows of which nobody keeps a copy. */
static rbt_status round_rows(rbt_outgoing *outgoing, const struct rbt_shard_event *event,
                             struct rbt_filter_rows *rows)
{
    struct rbt_filter_code code;
    RBT_ASSERT(rows->known == NULL);
    const uint32_t last = outgoing->worker_count;
    RBT_ASSERT(rows->row_count > 0);
    rows->turn = outgoing->turns[event->worker < last ? event->worker : last]++;
    rows->seed = seed_of(outgoing, event, rows->turn);
    const rbt_status st = rbt_chain_round(outgoing->chain, rows, &code);
    if (st == RBT_OK) {
        scatter(outgoing, outgoing->values, &event->batches[0]);
        tell(outgoing, event, &code);
    }
    RBT_ASSERT(st != RBT_OK || rows->row_count == event->batches[0].count);
    return st;
}

rbt_status rbt_outgoing_filter(rbt_outgoing *outgoing, const struct rbt_shard_event *event)
{
    RBT_ASSERT(event->kind == RBT_SHARD_PULL);
    RBT_ASSERT(event->batch_count == 1);
    const struct rbt_batch *batch = &event->batches[0];
    const size_t count = batch->count * outgoing->width;
    if (batch->count == 0) {
        return RBT_OK;
    }
    rbt_status st = fit(outgoing, batch->count);
    if (st != RBT_OK) {
        return st;
    }
    gather(outgoing, batch);
    struct rbt_filter_rows rows = {.row_count = batch->count,
                                   .width = outgoing->width,
                                   .keys = outgoing->keys,
                                   .values = outgoing->values,
                                   .keep = outgoing->keep,
                                   .worker = event->worker};
    const bool has_copy =
        outgoing->has_select && event->copy != NULL && event->asked != 0 && event->early == NULL;
    struct copy *copy = has_copy ? find(outgoing, event) : NULL;
    if (copy != NULL && copy->count != count) { /* other rows under the same number */
        forget(outgoing, (size_t)(copy - outgoing->copies));
        copy = NULL;
    }
    copy = has_copy && copy == NULL ? make(outgoing, event->worker, event->asked, count) : copy;
    if (copy == NULL) {
        if (has_copy) {
            *event->copy = 0;
        }
        return round_rows(outgoing, event, &rows);
    }
    const bool is_known =
        copy->name != 0 && (copy->name == *event->copy || RBT_MUTANT(KEPT_FILTER));
    struct rbt_filter_code code;
    rows.known = is_known ? copy->values : NULL;
    rows.turn = copy->turn++;
    rows.seed = seed_of(outgoing, event, rows.turn);
    /* To who has nothing all goes, whatever filters would say. */
    st = is_known ? rbt_chain_apply(outgoing->chain, &rows, &code)
                  : rbt_chain_round(outgoing->chain, &rows, &code);
    if (st != RBT_OK) {
        return st;
    }
    update(outgoing, copy, is_known);
    scatter(outgoing, copy->values, batch);
    tell(outgoing, event, &code);
    copy->used = ++outgoing->calls;
    copy->name = ++outgoing->last_name;
    *event->copy = copy->name;
    return RBT_OK;
}

/* --- State ----------------------------------------------------------------------------------- */

void rbt_outgoing_save(const rbt_outgoing *outgoing, struct rbt_sink *sink)
{
    RBT_ASSERT(outgoing->copy_count <= outgoing->copy_max);
    rbt_sink_put_u64(sink, outgoing->last_name);
    rbt_sink_put_u64(sink, outgoing->calls);
    rbt_sink_put(sink, outgoing->turns,
                 (outgoing->worker_count + (size_t)1) * sizeof *outgoing->turns);
    rbt_sink_put_u64(sink, outgoing->copy_count);
    for (size_t i = 0; i < outgoing->copy_count; i++) {
        const struct copy *copy = &outgoing->copies[i];
        RBT_ASSERT(copy->name <= outgoing->last_name);
        rbt_sink_put_u32(sink, copy->worker);
        rbt_sink_put_u64(sink, copy->asked);
        rbt_sink_put_u64(sink, copy->name);
        rbt_sink_put_u64(sink, copy->turn);
        rbt_sink_put_u64(sink, copy->used);
        rbt_sink_put_u64(sink, copy->count);
        rbt_sink_put(sink, copy->values, copy->count * sizeof *copy->values);
    }
}

static void load_copy(rbt_outgoing *outgoing, struct rbt_source *source)
{
    struct copy head = {.worker = rbt_source_get_u32(source)};
    RBT_ASSERT(outgoing->copy_count <= outgoing->copy_max);
    head.asked = rbt_source_get_u64(source);
    head.name = rbt_source_get_u64(source);
    head.turn = rbt_source_get_number(source);
    head.used = rbt_source_get_u64(source);
    head.count = (size_t)rbt_source_get_count(source, sizeof *head.values);
    const size_t bytes = head.count * sizeof *head.values;
    if (head.count == 0 || head.name > outgoing->last_name || head.used > outgoing->calls ||
        bytes > outgoing->bytes_max - outgoing->bytes) { /* (2) */
        rbt_source_refuse(source, "rows were sent that could not be");
        return;
    }
    struct copy *copy = make(outgoing, head.worker, head.asked, head.count);
    if (copy == NULL) {
        source->status = rbt_fail(RBT_E_NOMEM, "no memory for rows that were sent");
        return;
    }
    copy->name = head.name;
    copy->turn = head.turn;
    copy->used = head.used;
    rbt_source_get(source, copy->values, bytes);
    RBT_ASSERT(outgoing->bytes <= outgoing->bytes_max); /* (2) */
}

void rbt_outgoing_load(rbt_outgoing *outgoing, struct rbt_source *source)
{
    enum { COPY_SIZE = sizeof(uint32_t) + 5 * sizeof(uint64_t) };
    RBT_ASSERT(outgoing->copy_count == 0);
    RBT_ASSERT(outgoing->bytes == 0);
    outgoing->last_name = rbt_source_get_number(source);
    outgoing->calls = rbt_source_get_number(source);
    for (uint32_t i = 0; i <= outgoing->worker_count; i++) {
        outgoing->turns[i] = rbt_source_get_number(source);
    }
    const uint64_t count = rbt_source_get_count(source, COPY_SIZE);
    for (uint64_t i = 0; i < count && rbt_source_is_good(source); i++) {
        load_copy(outgoing, source);
    }
}
