/* base/io.h - system calls on files, one of which a test can make fail.
 *
 * What writes or reads files calls these instead of the system's own, which they are, with errno
 * and all. Tests go through every call of an operation and let it fail once:
 *
 *     for (unsigned nth = 1;; nth++) {
 *         rbt_io_fail_nth(nth);
 *         st = ...;
 *         if (rbt_io_fail_nth(0) > 0) {
 *             break; // there are not so many calls
 *         }
 *         ... it failed with a sentence, and nothing half-written is left ...
 *     }
 *
 * Threads: any. */
#ifndef RUBATO_BASE_IO_H
#define RUBATO_BASE_IO_H

#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

int rbt_io_open(const char *path, int flags, mode_t mode);
int rbt_io_create(char *pattern, int flags); /* mkostemp() */
ssize_t rbt_io_read(int fd, void *bytes, size_t size);
ssize_t rbt_io_write(int fd, const void *bytes, size_t size);
ssize_t rbt_io_pread(int fd, void *bytes, size_t size, off_t offset);
ssize_t rbt_io_pwrite(int fd, const void *bytes, size_t size, off_t offset);
int rbt_io_stat(int fd, struct stat *about); /* fstat() */
int rbt_io_fsync(int fd);
int rbt_io_truncate(int fd, off_t size);
int rbt_io_rename(const char *from, const char *to);
int rbt_io_close(int fd);

/* fflush() and fclose() of a stream that was written to. */
int rbt_io_flush(FILE *stream);
int rbt_io_finish(FILE *stream);

/* For tests: lets the n-th of these calls from now on fail with EIO (1 is the next one), once; 0
 * turns it off. What is to be closed is closed all the same. Returns how many calls were missing to
 * the failure that was asked for before; 0: it has happened, or there was none. */
unsigned rbt_io_fail_nth(unsigned nth);

#endif
