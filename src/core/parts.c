/* core/parts.c - who works on which part of the data.
 *
 *                take                finish
 *     WAITING ----------> GIVEN ------------> FINISHED
 *        ^                  |                    ^
 *        |  lose, expire    |                    |  finish by a slow worker
 *        +------------------+--------------------+
 *
 * Parts that came back stand in a queue, in the order in which they did. A part that a slow worker
 * finishes after all is skipped when its turn comes; so every part is in the queue at most once,
 * and the queue never has more than all parts. */
#include "core/parts.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

#define NOBODY  UINT32_MAX
#define NOTHING RBT_PARTS_NOTHING

enum state { WAITING, GIVEN, FINISHED };

struct part {
    uint8_t state;
    bool is_queued;  /* it came back, and is in the queue */
    uint32_t worker; /* who has it, if it is GIVEN */
    uint64_t since;  /* and when it was given */
};

/* What a worker was given last and has not finished: of that pass. */
struct holding {
    uint32_t part; /* or NOTHING */
    uint64_t pass;
};

struct rbt_parts {
    struct rbt_parts_options options;
    struct part *parts;
    struct holding *holdings;
    uint32_t *queue;      /* (part_count), a ring */
    uint32_t queue_first; /* in the ring */
    uint32_t queue_count;
    uint32_t next; /* parts from here on have never been given in this pass */
    uint32_t finished;
    uint64_t pass;
    struct rbt_parts_stats stats;
};

rbt_status rbt_parts_create(const struct rbt_parts_options *options, rbt_parts **parts)
{
    RBT_ASSERT(options->part_count > 0 && options->part_count < NOTHING);
    RBT_ASSERT(options->worker_count > 0);
    rbt_parts *made = rbt_calloc(1, sizeof *made);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a list of parts");
    }
    made->options = *options;
    made->parts = rbt_calloc(options->part_count, sizeof *made->parts);
    made->queue = rbt_calloc(options->part_count, sizeof *made->queue);
    made->holdings = rbt_calloc(options->worker_count, sizeof *made->holdings);
    if (made->parts == NULL || made->queue == NULL || made->holdings == NULL) {
        rbt_parts_destroy(made);
        return rbt_fail(RBT_E_NOMEM, "no memory for a list of parts");
    }
    for (uint32_t p = 0; p < options->worker_count; p++) {
        made->holdings[p].part = NOTHING;
    }
    *parts = made;
    return RBT_OK;
}

void rbt_parts_destroy(rbt_parts *parts)
{
    if (parts != NULL) {
        rbt_free(parts->holdings);
        rbt_free(parts->queue);
        rbt_free(parts->parts);
        rbt_free(parts);
    }
}

/* Puts a part that came back into the queue. */
static void give_back(rbt_parts *parts, uint32_t index)
{
    RBT_ASSERT(index < parts->next);
    struct part *part = &parts->parts[index];
    RBT_ASSERT(part->state == GIVEN);
    part->state = WAITING;
    part->worker = NOBODY;
    parts->stats.returned++;
    if (!part->is_queued) {
        RBT_ASSERT(parts->queue_count < parts->options.part_count);
        const uint64_t at = (uint64_t)parts->queue_first + parts->queue_count++;
        parts->queue[at % parts->options.part_count] = index;
        part->is_queued = true;
    }
}

/* The next part that waits, or NOTHING; new ones only below `limit`. */
static uint32_t next_waiting(rbt_parts *parts, uint32_t limit)
{
    while (parts->queue_count > 0) {
        const uint32_t index = parts->queue[parts->queue_first];
        parts->queue_first = (parts->queue_first + 1) % parts->options.part_count;
        parts->queue_count--;
        RBT_ASSERT(parts->parts[index].is_queued);
        parts->parts[index].is_queued = false;
        if (parts->parts[index].state == WAITING) {
            return index;
        }
        RBT_ASSERT(parts->parts[index].state == FINISHED);
    }
    RBT_ASSERT(parts->next <= parts->options.part_count);
    return parts->next < limit ? parts->next++ : NOTHING;
}

enum rbt_parts_answer rbt_parts_take(rbt_parts *parts, uint32_t worker,
                                     const struct rbt_parts_turn *turn, uint32_t *part)
{
    RBT_ASSERT(worker < parts->options.worker_count);
    RBT_ASSERT(turn->limit <= parts->options.part_count);
    RBT_ASSERT(parts->holdings[worker].part == NOTHING);
    if (parts->finished == parts->options.part_count) {
        return RBT_PARTS_DONE;
    }
    const uint32_t index = next_waiting(parts, turn->limit);
    if (index == NOTHING) {
        return RBT_PARTS_WAIT;
    }
    RBT_ASSERT(parts->parts[index].state == WAITING);
    parts->parts[index].state = GIVEN;
    parts->parts[index].worker = worker;
    parts->parts[index].since = turn->now;
    parts->holdings[worker] = (struct holding){.part = index, .pass = parts->pass};
    parts->stats.given++;
    *part = index;
    return RBT_PARTS_GIVEN;
}

bool rbt_parts_finish(rbt_parts *parts, uint32_t worker, uint32_t part)
{
    RBT_ASSERT(worker < parts->options.worker_count);
    RBT_ASSERT(parts->holdings[worker].part == part);
    const bool is_old = parts->holdings[worker].pass != parts->pass;
    parts->holdings[worker].part = NOTHING;
    if (is_old || parts->parts[part].state == FINISHED) {
        parts->stats.repeated++;
        return false;
    }
    parts->parts[part].state = FINISHED;
    parts->parts[part].worker = NOBODY;
    parts->finished++;
    RBT_ASSERT(parts->finished <= parts->options.part_count);
    return true;
}

bool rbt_parts_lose(rbt_parts *parts, uint32_t worker)
{
    RBT_ASSERT(worker < parts->options.worker_count);
    const struct holding holding = parts->holdings[worker];
    parts->holdings[worker].part = NOTHING;
    if (holding.part == NOTHING || holding.pass != parts->pass) {
        return false;
    }
    const struct part *part = &parts->parts[holding.part];
    if (part->state != GIVEN || part->worker != worker) {
        return false; /* it has come back already, and may be with another one */
    }
    give_back(parts, holding.part);
    return true;
}

uint32_t rbt_parts_expire(rbt_parts *parts, uint64_t now, uint64_t timeout)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < parts->next; i++) {
        const struct part *part = &parts->parts[i];
        if (part->state != GIVEN) {
            continue;
        }
        RBT_ASSERT(now >= part->since);
        RBT_ASSERT(part->worker < parts->options.worker_count);
        if (now - part->since > timeout) {
            give_back(parts, i);
            count++;
        }
    }
    RBT_ASSERT(count <= parts->next);
    return count;
}

void rbt_parts_begin_pass(rbt_parts *parts)
{
    RBT_ASSERT(parts->finished == parts->options.part_count);
    RBT_ASSERT(parts->next == parts->options.part_count);
    for (uint32_t i = 0; i < parts->options.part_count; i++) {
        parts->parts[i] = (struct part){.state = WAITING, .worker = NOBODY};
    }
    parts->queue_count = 0;
    parts->next = 0;
    parts->finished = 0;
    parts->pass++;
}

uint32_t rbt_parts_finished(const rbt_parts *parts)
{
    RBT_ASSERT(parts->finished <= parts->next); /* only what was given is */
    return parts->finished;
}

struct rbt_parts_stats rbt_parts_stats(const rbt_parts *parts)
{
    RBT_ASSERT(parts->stats.returned <= parts->stats.given);
    return parts->stats;
}

uint32_t rbt_parts_held(const rbt_parts *parts, uint32_t worker)
{
    RBT_ASSERT(worker < parts->options.worker_count);
    RBT_ASSERT(parts->holdings != NULL);
    return parts->holdings[worker].part;
}

void rbt_parts_save(const rbt_parts *parts, struct rbt_sink *sink)
{
    RBT_ASSERT(parts->queue_count <= parts->options.part_count);
    RBT_ASSERT(parts->finished <= parts->options.part_count);
    for (uint32_t i = 0; i < parts->options.part_count; i++) {
        rbt_sink_put_u8(sink, parts->parts[i].state);
        rbt_sink_put_u32(sink, parts->parts[i].worker);
        rbt_sink_put_u64(sink, parts->parts[i].since);
    }
    for (uint32_t i = 0; i < parts->options.worker_count; i++) {
        rbt_sink_put_u32(sink, parts->holdings[i].part);
        rbt_sink_put_u64(sink, parts->holdings[i].pass);
    }
    rbt_sink_put_u64(sink, parts->queue_count);
    for (uint32_t i = 0; i < parts->queue_count; i++) {
        const uint64_t at = (uint64_t)parts->queue_first + i;
        rbt_sink_put_u32(sink, parts->queue[at % parts->options.part_count]);
    }
    rbt_sink_put_u32(sink, parts->next);
    rbt_sink_put_u64(sink, parts->pass);
    rbt_sink_put_u64(sink, parts->stats.given);
    rbt_sink_put_u64(sink, parts->stats.returned);
    rbt_sink_put_u64(sink, parts->stats.repeated);
}

/* The parts themselves; those that are finished are counted. */
static void load_parts(rbt_parts *parts, struct rbt_source *source, uint64_t now)
{
    RBT_ASSERT(parts->finished == 0);
    RBT_ASSERT(parts->options.part_count > 0);
    for (uint32_t i = 0; i < parts->options.part_count && rbt_source_is_good(source); i++) {
        struct part *part = &parts->parts[i];
        part->state = rbt_source_get_u8(source);
        part->worker = rbt_source_get_u32(source);
        part->since = rbt_source_get_number(source);
        if (part->state > FINISHED || part->since > now ||
            (part->state == GIVEN && part->worker >= parts->options.worker_count)) {
            rbt_source_refuse(source, "a part of the data is with nobody");
            return;
        }
        parts->finished += part->state == FINISHED;
    }
}

/* The parts that came back. */
static void load_queue(rbt_parts *parts, struct rbt_source *source)
{
    RBT_ASSERT(parts->queue_count == 0);
    RBT_ASSERT(parts->queue_first == 0);
    const uint64_t count = rbt_source_get_count(source, sizeof(uint32_t));
    for (uint64_t i = 0; i < count && rbt_source_is_good(source); i++) {
        const uint32_t part = rbt_source_get_u32(source);
        if (part >= parts->options.part_count || parts->parts[part].is_queued ||
            parts->parts[part].state == GIVEN) {
            rbt_source_refuse(source, "a part of the data came back that is not away");
            return;
        }
        parts->parts[part].is_queued = true;
        parts->queue[parts->queue_count++] = part;
    }
}

void rbt_parts_load(rbt_parts *parts, struct rbt_source *source, uint64_t now)
{
    RBT_ASSERT(parts->next == 0);
    RBT_ASSERT(parts->pass == 0);
    load_parts(parts, source, now);
    for (uint32_t i = 0; i < parts->options.worker_count && rbt_source_is_good(source); i++) {
        parts->holdings[i].part = rbt_source_get_u32(source);
        parts->holdings[i].pass = rbt_source_get_number(source);
        if (parts->holdings[i].part != NOTHING &&
            parts->holdings[i].part >= parts->options.part_count) {
            rbt_source_refuse(source, "a worker has a part of the data that is not there");
        }
    }
    load_queue(parts, source);
    parts->next = rbt_source_get_u32(source);
    parts->pass = rbt_source_get_number(source);
    parts->stats.given = rbt_source_get_number(source);
    parts->stats.returned = rbt_source_get_number(source);
    parts->stats.repeated = rbt_source_get_number(source);
    if (parts->stats.returned > parts->stats.given) {
        rbt_source_refuse(source, "more parts of the data came back than were given");
        parts->stats.returned = 0;
    }
    if (parts->next > parts->options.part_count) {
        rbt_source_refuse(source, "there are more parts of the data than there are");
        parts->next = 0;
    }
    for (uint32_t i = 0; i < parts->options.part_count && rbt_source_is_good(source); i++) {
        if (i >= parts->next && (parts->parts[i].state != WAITING || parts->parts[i].is_queued)) {
            rbt_source_refuse(source, "a part of the data was given before its turn");
        }
    }
}
