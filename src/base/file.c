/* base/file.c - files that are read from beginning to end. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "base/text.h"

enum { BLOCK_SIZE = 16384 };

/* A cause of its own, which has nothing before it: rbt_fail() would put a colon there. */
static rbt_status fail_with(int error)
{
    char text[128];
    const char *cause = strerror_r(error, text, sizeof text);
    errno = 0;
    return error == ENOENT ? rbt_fail(RBT_E_NOTFOUND, "there is no such file")
                           : rbt_fail(RBT_E_IO, "%s", cause);
}

static rbt_status refuse(mode_t mode)
{
    errno = 0; /* the system has nothing against it */
    return rbt_fail(RBT_E_IO, "it is %s, not a regular file",
                    S_ISDIR(mode)    ? "a directory"
                    : S_ISFIFO(mode) ? "a pipe"
                                     : "a device or a socket");
}

/* Opened without waiting for a writer; reading waits, for a writer that is there may be slow. */
static rbt_status check(int fd, enum rbt_file_kind kind)
{
    struct stat about;
    if (rbt_io_stat(fd, &about) != 0) {
        return fail_with(errno);
    }
    const bool is_pipe = S_ISFIFO(about.st_mode) && kind == RBT_FILE_OR_PIPE;
    if (!S_ISREG(about.st_mode) && !is_pipe) {
        return refuse(about.st_mode);
    }
    return fcntl(fd, F_SETFL, 0) == 0 ? RBT_OK : fail_with(errno);
}

rbt_status rbt_file_open(const char *path, enum rbt_file_kind kind, int *fd)
{
    const int opened = rbt_io_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (opened < 0) {
        return fail_with(errno);
    }
    const rbt_status st = check(opened, kind);
    if (st != RBT_OK) {
        (void)close(opened); /* nothing was written to it */
        return st;
    }
    *fd = opened;
    return RBT_OK;
}

ssize_t rbt_file_fill(int fd, void *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t got = rbt_io_read(fd, (char *)bytes + done, size - done);
        if (got == 0) {
            break;
        }
        if (got < 0 && errno != EINTR) {
            return -1;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

rbt_status rbt_file_read_open(int fd, size_t max, struct rbt_text_buffer *text)
{
    char block[BLOCK_SIZE];
    ssize_t got = 1;
    while (got > 0 && text->length <= max) {
        got = rbt_file_fill(fd, block, sizeof block);
        if (got < 0) {
            return fail_with(errno);
        }
        rbt_text_add_bytes(text, block, (size_t)got);
    }
    return text->has_failed ? rbt_fail(RBT_E_NOMEM, "its content does not fit into memory")
                            : RBT_OK;
}

rbt_status rbt_file_read(const char *path, enum rbt_file_kind kind, size_t max,
                         struct rbt_text_buffer *text)
{
    int fd = -1;
    rbt_status st = rbt_file_open(path, kind, &fd);
    if (st == RBT_OK) {
        st = rbt_file_read_open(fd, max, text);
        (void)close(fd); /* it was only read */
    }
    return st;
}
