/* base/io.c - system calls on files, one of which a test can make fail. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_uint calls_left; /* until one fails; 0: none will. Relaxed: only itself matters */

unsigned rbt_io_fail_nth(unsigned nth)
{
    return atomic_exchange_explicit(&calls_left, nth, memory_order_relaxed);
}

/* Whether this call is the one that fails; errno says why. */
static bool fails(void)
{
    unsigned left = atomic_load_explicit(&calls_left, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak_explicit(&calls_left, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            errno = EIO;
            return left == 1;
        }
    }
    return false;
}

int rbt_io_open(const char *path, int flags, mode_t mode)
{
    return fails() ? -1 : open(path, flags, mode);
}

int rbt_io_create(char *pattern, int flags)
{
    return fails() ? -1 : mkostemp(pattern, flags);
}

ssize_t rbt_io_read(int fd, void *bytes, size_t size)
{
    return fails() ? -1 : read(fd, bytes, size);
}

ssize_t rbt_io_write(int fd, const void *bytes, size_t size)
{
    return fails() ? -1 : write(fd, bytes, size);
}

ssize_t rbt_io_pread(int fd, void *bytes, size_t size, off_t offset)
{
    return fails() ? -1 : pread(fd, bytes, size, offset);
}

ssize_t rbt_io_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return fails() ? -1 : pwrite(fd, bytes, size, offset);
}

int rbt_io_stat(int fd, struct stat *about)
{
    return fails() ? -1 : fstat(fd, about);
}

int rbt_io_fsync(int fd)
{
    return fails() ? -1 : fsync(fd);
}

int rbt_io_truncate(int fd, off_t size)
{
    return fails() ? -1 : ftruncate(fd, size);
}

int rbt_io_rename(const char *from, const char *to)
{
    return fails() ? -1 : rename(from, to);
}

int rbt_io_close(int fd)
{
    const bool has_failed = fails();
    const int result = close(fd);
    errno = has_failed ? EIO : errno;
    return has_failed ? -1 : result;
}

int rbt_io_flush(FILE *stream)
{
    return fails() ? EOF : fflush(stream);
}

int rbt_io_finish(FILE *stream)
{
    const bool has_failed = fails();
    const int result = fclose(stream);
    errno = has_failed ? EIO : errno;
    return has_failed ? EOF : result;
}
