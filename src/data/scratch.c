/* data/scratch.c - files without a name.
 *
 * O_TMPFILE makes them where the file system can; elsewhere the name is removed at once. Buffers
 * are always written whole: the system's cache then holds the file in blocks of their size, which
 * is what a mapping of it can be dropped by (paged.c). */
#include "data/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/io.h"

enum { NAME_MAX_SIZE = 4096 };

const char *rbt_scratch_directory(void)
{
    const char *named = getenv("TMPDIR");
    return named != NULL && named[0] != '\0' ? named : "/var/tmp";
}

static int open_nameless(const char *directory)
{
    int fd = rbt_io_open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
        return fd;
    }
    char name[NAME_MAX_SIZE];
    const int length = snprintf(name, sizeof name, "%s/rubato-XXXXXX", directory);
    if (length < 0 || (size_t)length >= sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = rbt_io_create(name, O_CLOEXEC);
    if (fd >= 0) {
        (void)unlink(name); /* if it cannot be, there is a file too many, and all works */
    }
    return fd;
}

rbt_status rbt_scratch_open(const char *directory, size_t buffer_size, struct rbt_scratch *scratch)
{
    RBT_ASSERT(buffer_size > 0);
    *scratch = RBT_SCRATCH_NONE;
    const int fd = open_nameless(directory);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return rbt_fail(RBT_E_NOTFOUND, "cannot keep data in \"%s\": there is no such directory",
                        directory);
    }
    if (fd < 0) {
        return rbt_fail(RBT_E_IO, "cannot keep data in \"%s\"", directory);
    }
    uint8_t *buffer = rbt_alloc(buffer_size);
    if (buffer == NULL) {
        (void)close(fd); /* nothing was written */
        return rbt_fail(RBT_E_NOMEM, "no memory to keep data in \"%s\"", directory);
    }
    *scratch =
        (struct rbt_scratch){.fd = fd, .buffer = buffer, .room = buffer_size, .path = directory};
    return RBT_OK;
}

void rbt_scratch_close(struct rbt_scratch *scratch)
{
    rbt_free(scratch->buffer);
    if (scratch->fd >= 0) {
        (void)close(scratch->fd); /* and with it the file is gone */
    }
    *scratch = RBT_SCRATCH_NONE;
}

rbt_status rbt_scratch_write(struct rbt_scratch *scratch, uint64_t offset, const void *bytes,
                             size_t size)
{
    RBT_ASSERT(offset <= scratch->size);
    const uint8_t *from = bytes;
    for (size_t done = 0; done < size;) {
        const ssize_t wrote =
            rbt_io_pwrite(scratch->fd, from + done, size - done, (off_t)(offset + done));
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return rbt_fail(RBT_E_IO, "could not keep data in \"%s\"", scratch->path);
        }
        done += (size_t)wrote;
    }
    if (offset + size > scratch->size) { /* else it is not touched: others may be reading */
        scratch->size = offset + size;
    }
    return RBT_OK;
}

rbt_status rbt_scratch_add(struct rbt_scratch *scratch, const void *bytes, size_t size)
{
    RBT_ASSERT(scratch->buffer != NULL);
    const uint8_t *from = bytes;
    while (size > 0) {
        const size_t left = scratch->room - scratch->used;
        const size_t part = size < left ? size : left;
        memcpy(scratch->buffer + scratch->used, from, part);
        scratch->used += part;
        from += part;
        size -= part;
        if (scratch->used == scratch->room) {
            const rbt_status st =
                rbt_scratch_write(scratch, scratch->size, scratch->buffer, scratch->used);
            if (st != RBT_OK) {
                return st;
            }
            scratch->used = 0;
        }
    }
    return RBT_OK;
}

rbt_status rbt_scratch_flush(struct rbt_scratch *scratch)
{
    const rbt_status st = rbt_scratch_write(scratch, scratch->size, scratch->buffer, scratch->used);
    rbt_free(scratch->buffer);
    scratch->buffer = NULL;
    scratch->used = 0;
    scratch->room = 0;
    return st;
}

rbt_status rbt_scratch_read(const struct rbt_scratch *scratch, uint64_t offset, void *bytes,
                            size_t size)
{
    RBT_ASSERT(offset + size <= scratch->size);
    uint8_t *to = bytes;
    for (size_t done = 0; done < size;) {
        const ssize_t got =
            rbt_io_pread(scratch->fd, to + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return rbt_fail(RBT_E_IO, "could not read data kept in \"%s\"", scratch->path);
        }
        done += (size_t)got;
    }
    return RBT_OK;
}

void rbt_scratch_expect(const struct rbt_scratch *scratch, uint64_t offset, uint64_t size)
{
    (void)posix_fadvise(scratch->fd, (off_t)offset, (off_t)size, POSIX_FADV_WILLNEED);
}
