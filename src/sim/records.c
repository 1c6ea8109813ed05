/* sim/records.c - equal records from a free list.
 *
 * A record that is not in use holds the address of the next one in its first bytes. Allocations of
 * base/alloc.h have a header of 64 bytes each, which is more than many records: so records are
 * allocated by the chunk.
 *
 * Threads: none. Cost: O(1) per record. */
#include "sim/records.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum {
    CHUNK_BYTES = 32 << 10,
    CHUNK_COUNT_MIN = 8,
};

struct rbt_record_chunk {
    struct rbt_record_chunk *next;
    size_t count;
    _Alignas(64) char records[];
};

static size_t chunk_count(const struct rbt_records *records)
{
    const size_t count = CHUNK_BYTES / records->size;
    return count > CHUNK_COUNT_MIN ? count : CHUNK_COUNT_MIN;
}

/* Adds a chunk whose records are free; the first record will be taken first. */
static int grow(struct rbt_records *records)
{
    const size_t count = chunk_count(records);
    struct rbt_record_chunk *chunk = rbt_calloc(1, sizeof *chunk + count * records->size);
    if (chunk == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu records of %zu bytes", count,
                        records->size);
    }
    chunk->next = records->chunks;
    chunk->count = count;
    records->chunks = chunk;
    for (size_t i = count; i-- > 0;) {
        rbt_records_give(records, chunk->records + i * records->size);
    }
    return RBT_OK;
}

void *rbt_records_take(struct rbt_records *records)
{
    RBT_ASSERT(records->size >= sizeof(void *));
    RBT_ASSERT(records->size % sizeof(void *) == 0);
    if (records->free == NULL && grow(records) != RBT_OK) {
        return NULL;
    }
    void *record = records->free;
    memcpy(&records->free, record, sizeof records->free);
    memset(record, 0, records->size);
    return record;
}

void rbt_records_give(struct rbt_records *records, void *record)
{
    RBT_ASSERT(record != NULL);
    RBT_ASSERT((uintptr_t)record % sizeof(void *) == 0);
    memcpy(record, &records->free, sizeof records->free);
    records->free = record;
}

void rbt_records_visit(struct rbt_records *records, void (*visit)(void *record))
{
    for (struct rbt_record_chunk *chunk = records->chunks; chunk != NULL; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->count; i++) {
            visit(chunk->records + i * records->size);
        }
    }
}

void rbt_records_deinit(struct rbt_records *records)
{
    while (records->chunks != NULL) {
        struct rbt_record_chunk *next = records->chunks->next;
        rbt_free(records->chunks);
        records->chunks = next;
    }
    records->free = NULL;
}
