/* base/source.h - reads what base/sink.h has written, and believes nothing of it.
 *
 *     struct rbt_source source = {.bytes = bytes, .count = count};
 *     rbt_source_begin(&source, machine, &spec);
 *     while (rbt_source_next(&source, KINDS_END, &record)) {
 *         number = rbt_source_get_u64(&source);     // 0 if there is none
 *         rbt_source_finish(&source);               // nothing may be left of the record
 *     }
 *     st = source.status;                           // RBT_OK: the end has come, and all is whole
 *     rbt_source_deinit(&source);
 *
 * The first thing that is wrong is kept in `status`, with its sentence; what is read after it is
 * zero. No memory is taken for what a number says: a count is held against the bytes that are
 * there. Threads: none. Memory: with `read`, of the largest record that has really come. */
#ifndef RUBATO_BASE_SOURCE_H
#define RUBATO_BASE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/sink.h"

struct rbt_source {
    const char *bytes; /* all of it, borrowed; moves on */
    size_t count;      /* that are left */
    /* Or: writes up to `room` bytes and says how many, 0 at the end. What it returns ends it. */
    rbt_status (*read)(void *context, void *to, size_t room, size_t *count);
    void *context;
    char *buffer; /* with `read`: the record */
    size_t capacity;
    const char *at; /* in the open record */
    const char *end;
    uint64_t hash;
    rbt_status status;
};

struct rbt_source_record {
    uint32_t kind;
    uint32_t version;
    uint64_t bytes;
};

void rbt_source_deinit(struct rbt_source *source);

/* Reads the head: it must be of this machine. *spec is the hash that it says. */
void rbt_source_begin(struct rbt_source *source, uint32_t machine, uint64_t *spec);

/* The next record of a kind from 1 to kind_end - 1; others are skipped if they are optional, or
 * refused. False: this was the end, or something is wrong. */
bool rbt_source_next(struct rbt_source *source, uint32_t kind_end,
                     struct rbt_source_record *record);

/* All of the open record must have been read. */
void rbt_source_finish(struct rbt_source *source);

/* What is read makes no sense: RBT_E_DATA and "the saved state cannot be read: " with the reason,
 * unless something was wrong before. */
void rbt_source_refuse(struct rbt_source *source, const char *reason);
bool rbt_source_is_good(const struct rbt_source *source);

/* Bytes that are left of the open record. */
size_t rbt_source_left(const struct rbt_source *source);

/* The next bytes of the record, which stay until the next record; NULL if there are fewer. */
const char *rbt_source_take(struct rbt_source *source, size_t count);
void rbt_source_get(struct rbt_source *source, void *to, size_t count);
uint8_t rbt_source_get_u8(struct rbt_source *source);
bool rbt_source_get_bool(struct rbt_source *source);
uint32_t rbt_source_get_u32(struct rbt_source *source);
uint64_t rbt_source_get_u64(struct rbt_source *source);
int64_t rbt_source_get_i64(struct rbt_source *source);
double rbt_source_get_f64(struct rbt_source *source);

/* A number of things that follow, of at least `each` bytes: no more than there are bytes for. */
uint64_t rbt_source_get_count(struct rbt_source *source, size_t each);

/* A count, a clock or a sequence: far enough from the largest that it can go on counting. */
uint64_t rbt_source_get_number(struct rbt_source *source);

/* A text, of which `to` has room for `room` bytes with its end; without zeros in it. */
void rbt_source_get_text(struct rbt_source *source, char *to, size_t room);

#endif
