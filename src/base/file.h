/* base/file.h - files that are read from beginning to end: keys, lists of hosts, logs, models.
 *
 * What would keep the process is refused with a sentence before a byte of it is read: a pipe to
 * which nobody writes never begins, and a device need not end. Sentences are causes, such as "it is
 * a pipe, not a regular file"; callers put in front what could not be done (rbt_fail_in()).
 *
 * Threads: any. */
#ifndef RUBATO_BASE_FILE_H
#define RUBATO_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include <rubato/export.h>
#include <rubato/status.h>

struct rbt_text_buffer;

enum rbt_file_kind {
    RBT_FILE_REGULAR,
    RBT_FILE_OR_PIPE, /* a pipe to which nobody writes is an empty file */
};

/* Opens a file that is there to be read. RBT_E_NOTFOUND, or RBT_E_IO for all other causes. */
RBT_MUST_USE rbt_status rbt_file_open(const char *path, enum rbt_file_kind kind, int *fd);

/* Reads until there are `size` bytes or the file ends; -1 and errno if it fails. */
ssize_t rbt_file_fill(int fd, void *bytes, size_t size);

/* Adds the whole file to the text; stops when there are more than `max` bytes in it, which callers
 * look at. RBT_E_NOMEM, or as rbt_file_open(). */
RBT_MUST_USE rbt_status rbt_file_read(const char *path, enum rbt_file_kind kind, size_t max,
                                      struct rbt_text_buffer *text);

/* Does this with a file that is open. */
RBT_MUST_USE rbt_status rbt_file_read_open(int fd, size_t max, struct rbt_text_buffer *text);

#endif
