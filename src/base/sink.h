/* base/sink.h - where the state of a machine is written to: a stream of records, without I/O.
 *
 *     u32 "RBTS"   u32 format   u32 machine   u32 0   u64 hash of the spec
 *     u32 kind     u32 version  u64 bytes     body                            any number of times
 *     u32 0        u32 1        u64 8         u64 checksum                    the end
 *
 * Numbers are little-endian, as in messages. The checksum is XXH3 of the head, then of each record
 * with what came before as its seed. A kind with RBT_RECORD_OPTIONAL may be skipped by readers that
 * do not know it.
 *
 *     struct rbt_sink sink = {0};                 // everything stays in sink.bytes
 *     rbt_sink_begin(&sink, machine, spec);
 *     rbt_sink_open(&sink, KIND, 1);
 *     rbt_sink_put_u64(&sink, number);
 *     rbt_sink_close(&sink);
 *     st = rbt_sink_end(&sink);                   // or why one of the calls before has failed
 *     rbt_sink_deinit(&sink);
 *
 * With `write`, records are handed to it one by one, and the sink holds one record at a time.
 * Without begin and open, what is put is bytes in a row: for parts of a body that are made
 * elsewhere. Threads: none. Memory: of the largest record, or of everything. */
#ifndef RUBATO_BASE_SINK_H
#define RUBATO_BASE_SINK_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum {
    RBT_RECORD_MAGIC = 0x53544252, /* "RBTS" */
    RBT_RECORD_FORMAT = 1,
    RBT_RECORD_END = 0,       /* the kind of the last record */
    RBT_RECORD_STREAM = 24,   /* bytes of the stream's head, */
    RBT_RECORD_HEAD = 16,     /* and of a record's */
    RBT_RECORD_CHECKSUM = 24, /* and of the last record */
};

#define RBT_RECORD_OPTIONAL UINT32_C(0x80000000)

/* Machines that can be written down. */
enum rbt_record_machine {
    RBT_RECORD_SHARD = 1,
};

/* Zero is an empty sink in memory. */
struct rbt_sink {
    char *bytes;
    size_t count;
    size_t capacity;
    /* Takes the bytes of one record, or of the head; what it returns ends the stream. NULL: they
     * stay in `bytes`. */
    rbt_status (*write)(void *context, const void *bytes, size_t count);
    void *context;
    size_t record;     /* where the open record begins */
    uint64_t hash;     /* of all records before it */
    rbt_status status; /* of the first call that has failed; those after it do nothing */
};

void rbt_sink_deinit(struct rbt_sink *sink);

void rbt_sink_begin(struct rbt_sink *sink, uint32_t machine, uint64_t spec);
void rbt_sink_open(struct rbt_sink *sink, uint32_t kind, uint32_t version);
void rbt_sink_close(struct rbt_sink *sink);

/* The checksum. Returns RBT_OK if all that was put is there: RBT_E_NOMEM, or what write() said. */
RBT_MUST_USE rbt_status rbt_sink_end(struct rbt_sink *sink);

void rbt_sink_put(struct rbt_sink *sink, const void *bytes, size_t count);
void rbt_sink_put_u8(struct rbt_sink *sink, uint8_t value);
void rbt_sink_put_u32(struct rbt_sink *sink, uint32_t value);
void rbt_sink_put_u64(struct rbt_sink *sink, uint64_t value);
void rbt_sink_put_i64(struct rbt_sink *sink, int64_t value);
void rbt_sink_put_f64(struct rbt_sink *sink, double value);
void rbt_sink_put_text(struct rbt_sink *sink, const char *text); /* NULL counts as "" */

#endif
