/* data/writer.c - a buffer of a megabyte, numbers formatted by hand, a rename at the end.
 *
 * Threads: none. Memory: one buffer. */
#include "data/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/io.h"

enum {
    BUFFER_SIZE = 1 << 20,
    DIGITS_MAX = 20, /* of 2^64 - 1 */
    DECIMALS_MAX = 18,
};

/* Frees what the writer owns; the file stays as it is. */
static void release(struct rbt_writer *writer)
{
    rbt_free(writer->path);
    rbt_free(writer->temporary);
    rbt_free(writer->buffer);
    *writer = (struct rbt_writer){.fd = -1};
}

static char *add_ending(const char *path, const char *ending)
{
    const size_t size = strlen(path) + strlen(ending) + 1;
    char *name = rbt_calloc(size, 1);
    if (name != NULL) {
        (void)snprintf(name, size, "%s%s", path, ending); /* it fits */
    }
    return name;
}

rbt_status rbt_writer_open(const char *path, struct rbt_writer *writer)
{
    struct stat status;
    const bool is_special = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
    struct rbt_writer made = {.fd = -1, .path = rbt_strdup(path)};
    made.temporary = is_special ? NULL : add_ending(path, ".tmp");
    made.buffer = rbt_calloc(BUFFER_SIZE, 1);
    if (made.path == NULL || made.buffer == NULL || (made.temporary == NULL && !is_special)) {
        release(&made);
        return rbt_fail(RBT_E_NOMEM, "could not write \"%s\": out of memory", path);
    }
    const char *name = is_special ? path : made.temporary;
    made.fd = rbt_io_open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (made.fd < 0) {
        const int error = errno;
        release(&made);
        errno = error;
        return rbt_fail(RBT_E_IO, "could not write \"%s\"", path);
    }
    *writer = made;
    return RBT_OK;
}

static void flush(struct rbt_writer *writer)
{
    size_t done = 0;
    while (done < writer->size && writer->error == 0) {
        const ssize_t wrote = rbt_io_write(writer->fd, writer->buffer + done, writer->size - done);
        if (wrote < 0 && errno != EINTR) {
            writer->error = errno;
        }
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    writer->size = 0;
}

static void put(struct rbt_writer *writer, const char *bytes, size_t size)
{
    RBT_ASSERT(size <= BUFFER_SIZE);
    if (BUFFER_SIZE - writer->size < size) {
        flush(writer);
    }
    memcpy(writer->buffer + writer->size, bytes, size);
    writer->size += size;
}

void rbt_writer_text(struct rbt_writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

void rbt_writer_whole(struct rbt_writer *writer, uint64_t number)
{
    char digits[DIGITS_MAX];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(writer, digits + first, sizeof digits - first);
}

void rbt_writer_fixed(struct rbt_writer *writer, int64_t number, unsigned decimals)
{
    RBT_ASSERT(decimals <= DECIMALS_MAX);
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    char digits[DIGITS_MAX + 2];
    size_t first = sizeof digits;
    for (unsigned i = 0; i < decimals; i++) {
        digits[--first] = (char)('0' + rest % 10);
        rest /= 10;
    }
    if (decimals > 0) {
        digits[--first] = '.';
    }
    do {
        digits[--first] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        digits[--first] = '-';
    }
    put(writer, digits + first, sizeof digits - first);
}

bool rbt_writer_is_well(const struct rbt_writer *writer)
{
    return writer->error == 0;
}

rbt_status rbt_writer_close(struct rbt_writer *writer)
{
    flush(writer);
    if (rbt_io_close(writer->fd) != 0 && writer->error == 0) {
        writer->error = errno;
    }
    if (writer->error == 0 && writer->temporary != NULL &&
        rbt_io_rename(writer->temporary, writer->path) != 0) {
        writer->error = errno;
    }
    rbt_status st = RBT_OK;
    if (writer->error != 0) {
        errno = writer->error;
        st = rbt_fail(RBT_E_IO, "could not write \"%s\"", writer->path);
        if (writer->temporary != NULL) {
            (void)unlink(writer->temporary); /* a leftover is overwritten the next time */
        }
    }
    release(writer);
    return st;
}

void rbt_writer_abandon(struct rbt_writer *writer)
{
    (void)close(writer->fd); /* the file is not wanted */
    if (writer->temporary != NULL) {
        (void)unlink(writer->temporary);
    }
    release(writer);
}
