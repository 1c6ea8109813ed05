/* data/scratch.h - a file without a name, for what does not fit into memory.
 *
 *     struct rbt_scratch scratch = RBT_SCRATCH_NONE;
 *     st = rbt_scratch_open("/var/tmp", 1 << 16, &scratch);
 *     st = rbt_scratch_add(&scratch, values, sizeof values);
 *     st = rbt_scratch_flush(&scratch);
 *     st = rbt_scratch_read(&scratch, 0, copy, sizeof copy);
 *     rbt_scratch_close(&scratch);
 *
 * Since it has no name, the system removes it when the process ends, however it ends.
 *
 * Threads: adding is for one at a time; what was flushed may be read by any. */
#ifndef RUBATO_DATA_SCRATCH_H
#define RUBATO_DATA_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

struct rbt_scratch {
    int fd;           /* -1: closed */
    uint64_t size;    /* of the file, without what is in the buffer */
    uint8_t *buffer;  /* of what is added */
    size_t used;      /* of the buffer */
    size_t room;      /* in the buffer */
    const char *path; /* the directory, borrowed, for messages */
};

/* A scratch that can be closed. */
#define RBT_SCRATCH_NONE ((struct rbt_scratch){.fd = -1})

/* The directory to use when nobody names one: $TMPDIR or /var/tmp, which unlike /tmp is seldom kept
 * in memory. */
const char *rbt_scratch_directory(void);

/* `directory` must outlive the scratch. Fails with RBT_E_IO, RBT_E_NOTFOUND or RBT_E_NOMEM; the
 * scratch is then closed. */
RBT_MUST_USE rbt_status rbt_scratch_open(const char *directory, size_t buffer_size,
                                         struct rbt_scratch *scratch);

/* Accepts a closed one and leaves one. */
void rbt_scratch_close(struct rbt_scratch *scratch);

/* Puts bytes at the end. Fails with RBT_E_IO, for instance when the disk is full. */
RBT_MUST_USE rbt_status rbt_scratch_add(struct rbt_scratch *scratch, const void *bytes,
                                        size_t size);

/* Writes what is in the buffer, and frees the buffer: nothing more is added. */
RBT_MUST_USE rbt_status rbt_scratch_flush(struct rbt_scratch *scratch);

/* Reads bytes that must be there, or writes over them or just behind the end. Fail with RBT_E_IO.
 */
RBT_MUST_USE rbt_status rbt_scratch_read(const struct rbt_scratch *scratch, uint64_t offset,
                                         void *bytes, size_t size);
RBT_MUST_USE rbt_status rbt_scratch_write(struct rbt_scratch *scratch, uint64_t offset,
                                          const void *bytes, size_t size);

/* Tells the system that these bytes will be read soon. */
void rbt_scratch_expect(const struct rbt_scratch *scratch, uint64_t offset, uint64_t size);

#endif
