/* proto/numbering.c - which process is which. Clusters have few processes and numbers are given
 * seldom: the obvious loops do. */
#include "proto/numbering.h"

#include "base/assert.h"
#include "base/error.h"

enum { NAMES_MAX = 8 }; /* more missing ones are only counted */

/* How many workers process `index` has. */
static uint32_t size_of(const struct rbt_numbering_shape *shape, uint32_t workers, uint32_t index)
{
    const uint32_t first = index * shape->process_size;
    const uint32_t rest = workers - first;
    return rest < shape->process_size ? rest : shape->process_size;
}

static bool is_taken(const struct rbt_numbering_entry *entries, uint32_t count, uint32_t index)
{
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].index == index) {
            return true;
        }
    }
    return false;
}

static bool is_asked(const struct rbt_numbering_entry *entries, uint32_t count, uint32_t index)
{
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].asked == (int32_t)index) {
            return true;
        }
    }
    return false;
}

static rbt_status check_asked(const struct rbt_numbering_entry *entries, uint32_t i,
                              uint32_t workers, const char *what,
                              const struct rbt_numbering_shape *shape)
{
    const struct rbt_numbering_entry *entry = &entries[i];
    if (entry->asked < 0) {
        return RBT_OK;
    }
    const uint32_t asked = (uint32_t)entry->asked;
    if (asked >= shape->process_count) {
        return rbt_fail(RBT_E_INVALID, "%s/%u does not exist: numbers go from 0, and there are %u",
                        what, asked, shape->process_count);
    }
    if (is_asked(entries, i, asked)) {
        return rbt_fail(RBT_E_INVALID, "%s/%u has already joined", what, asked);
    }
    if (entry->threads != size_of(shape, workers, asked)) {
        return rbt_fail(RBT_E_INVALID,
                        "%s/%u of %u has %u workers instead of %u: all processes but the last need "
                        "equal numbers",
                        what, asked, shape->process_count, entry->threads,
                        size_of(shape, workers, asked));
    }
    return RBT_OK;
}

/* Whether all of them together may be a part of one job. */
static rbt_status check(const struct rbt_numbering_entry *entries, uint32_t count, uint32_t workers,
                        const char *what, const struct rbt_numbering_shape *shape)
{
    const uint32_t last = size_of(shape, workers, shape->process_count - 1);
    uint64_t sum = 0;
    uint32_t smaller = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t threads = entries[i].threads;
        sum += threads;
        smaller += threads < shape->process_size;
        if ((threads < shape->process_size && threads != last) || smaller > 1) {
            return rbt_fail(RBT_E_INVALID,
                            "%u workers in processes of %u and of %u do not add up: all processes "
                            "but the last need equal numbers",
                            workers, shape->process_size, threads);
        }
        const rbt_status st = check_asked(entries, i, workers, what, shape);
        if (st != RBT_OK) {
            return st;
        }
    }
    if (sum > workers) {
        return rbt_fail(
            RBT_E_INVALID, "%u of the %u workers have already joined; %u more are too many",
            (uint32_t)(sum - entries[count - 1].threads), workers, entries[count - 1].threads);
    }
    return RBT_OK;
}

rbt_status rbt_numbering_place(struct rbt_numbering_entry *entries, uint32_t count,
                               uint32_t workers, const char *what,
                               struct rbt_numbering_shape *shape)
{
    RBT_ASSERT(count > 0);
    RBT_ASSERT(workers > 0);
    struct rbt_numbering_shape s = {.process_size = 0};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        RBT_ASSERT(entries[i].threads > 0);
        RBT_ASSERT(entries[i].threads <= workers);
        sum += entries[i].threads;
        if (entries[i].threads > s.process_size) {
            s.process_size = entries[i].threads;
        }
    }
    s.process_count = (workers + s.process_size - 1) / s.process_size;
    s.is_complete = sum == workers;
    const rbt_status st = check(entries, count, workers, what, &s);
    if (st != RBT_OK) {
        return st;
    }
    for (uint32_t i = 0; i < count; i++) {
        entries[i].index = entries[i].asked < 0 ? UINT32_MAX : (uint32_t)entries[i].asked;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = entries[i].threads < s.process_size ? s.process_count - 1 : 0;
        while (entries[i].index == UINT32_MAX && is_taken(entries, count, index)) {
            index++;
        }
        entries[i].index = entries[i].index == UINT32_MAX ? index : entries[i].index;
    }
    *shape = s;
    return RBT_OK;
}

void rbt_numbering_missing(const struct rbt_numbering_entry *entries, uint32_t count,
                           const struct rbt_numbering_shape *shape, const char *what,
                           struct rbt_text_buffer *text)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < shape->process_count; i++) {
        if (is_taken(entries, count, i)) {
            continue;
        }
        missing++;
        if (missing <= NAMES_MAX) {
            rbt_text_add(text, "%s%s/%u", missing == 1 ? "" : ", ", what, i);
        }
    }
    if (missing > NAMES_MAX) {
        rbt_text_add(text, " and %u more", missing - NAMES_MAX);
    }
}
