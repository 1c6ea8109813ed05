/* data/input.h - the content of a file, decompressed, in one block of memory or part by part. */
#ifndef RUBATO_DATA_INPUT_H
#define RUBATO_DATA_INPUT_H

#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

struct rbt_input {
    char *bytes; /* size bytes and a zero behind them */
    size_t size; /* at least 1 */
};

/* Reads the whole file; "-" is standard input. Content that begins like zstd, gzip or xz is
 * decompressed, whatever the file's name is. The caller frees the result.
 * Fails with RBT_E_NOTFOUND or RBT_E_IO (cannot be opened or read), RBT_E_DATA (empty, or the
 * compressed data ends early or is damaged) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_input_read(const char *path, struct rbt_input *input);

void rbt_input_free(struct rbt_input *input);

/* The same in parts of whole lines, for files that are larger than memory:
 *
 *     st = rbt_input_open(path, 1 << 20, &reader);
 *     while (st == RBT_OK && (st = rbt_input_next(reader, &part)) == RBT_OK && part.size > 0) {
 *         ... part.bytes ...
 *     }
 *     rbt_input_close(reader); */
typedef struct rbt_input_reader rbt_input_reader;

struct rbt_input_part {
    const char *bytes; /* size bytes and a zero behind them, until the next call */
    size_t size;       /* 0: the file has ended */
};

/* So many lines are in the first part, if they are not huge: what is guessed from the first lines
 * of a file is the same then, however small parts are. */
enum { RBT_INPUT_LINES_MIN = 2048 };

/* Parts have about `part_size` bytes, more where a line is longer. Fail like rbt_input_read(). */
RBT_MUST_USE rbt_status rbt_input_open(const char *path, size_t part_size,
                                       rbt_input_reader **reader);
RBT_MUST_USE rbt_status rbt_input_next(rbt_input_reader *reader, struct rbt_input_part *part);

/* Accepts NULL. */
void rbt_input_close(rbt_input_reader *reader);

#endif
