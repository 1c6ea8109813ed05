/* data/writer.h - writes a text file fast, and only shows it when it is complete.
 *
 * The text goes to a file beside it, `PATH.tmp`, which gets its name when all is written. Failures
 * are remembered: writing goes on into nothing, and rbt_writer_close() reports the first.
 *
 *     struct rbt_writer writer;
 *     st = rbt_writer_open("out.csv", &writer);
 *     if (st == RBT_OK) {
 *         rbt_writer_whole(&writer, 17);
 *         rbt_writer_text(&writer, ",");
 *         rbt_writer_fixed(&writer, -12345, 4);     // -1.2345
 *         rbt_writer_text(&writer, "\n");
 *         st = rbt_writer_close(&writer);
 *     }
 *
 * Threads: none. */
#ifndef RUBATO_DATA_WRITER_H
#define RUBATO_DATA_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

struct rbt_writer {
    char *path;
    char *temporary; /* NULL when `path` is written at once: a device or a pipe */
    char *buffer;
    size_t size; /* of what is in the buffer */
    int fd;
    int error; /* errno of the first failure, or 0 */
};

/* Fails with RBT_E_IO or RBT_E_NOMEM. On success the writer must be closed or abandoned. */
RBT_MUST_USE rbt_status rbt_writer_open(const char *path, struct rbt_writer *writer);

void rbt_writer_text(struct rbt_writer *writer, const char *text);
void rbt_writer_whole(struct rbt_writer *writer, uint64_t number);

/* Writes number / 10^decimals with all its decimals; at most 18. */
void rbt_writer_fixed(struct rbt_writer *writer, int64_t number, unsigned decimals);

/* Whether there is still a point in writing. */
bool rbt_writer_is_well(const struct rbt_writer *writer);

/* Writes what is left and gives the file its name. Fails with RBT_E_IO:
 * `could not write "F": No space left on device`; the file is then removed. */
RBT_MUST_USE rbt_status rbt_writer_close(struct rbt_writer *writer);

/* Removes the file. */
void rbt_writer_abandon(struct rbt_writer *writer);

#endif
