/* sim/records.h - equal records from a free list.
 *
 *     struct rbt_records records = {.size = sizeof(struct thing)};
 *     struct thing *thing = rbt_records_take(&records);   zeroed, or NULL without memory
 *     rbt_records_give(&records, thing);
 *
 * Memory: comes in chunks, and is given back in deinit. Threads: none. */
#ifndef RUBATO_SIM_RECORDS_H
#define RUBATO_SIM_RECORDS_H

#include <stddef.h>

struct rbt_record_chunk;

struct rbt_records {
    size_t size;                     /* bytes of a record, a multiple of 8; set by the owner */
    void *free;                      /* the first record that is not in use */
    struct rbt_record_chunk *chunks; /* the newest first */
};

/* Returns a zeroed record, or NULL with the reason in the thread's record of errors. */
void *rbt_records_take(struct rbt_records *records);

void rbt_records_give(struct rbt_records *records, void *record);

/* Calls `visit` for all records, also for those that are not in use: of these the first pointer
 * belongs to the list, and the rest is as rbt_records_give() found it. */
void rbt_records_visit(struct rbt_records *records, void (*visit)(void *record));

void rbt_records_deinit(struct rbt_records *records);

#endif
