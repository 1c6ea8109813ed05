/* data/input.h - the content of a file, decompressed, in one block of memory. */
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

#endif
