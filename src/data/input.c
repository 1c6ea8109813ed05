/* data/input.c - opens, reads and decompresses a file.
 *
 * The file is read in blocks of a megabyte, or less if it is read in small parts. The first bytes
 * tell how it is compressed; a decoder then turns blocks into output, which grows by doubling: its
 * size is bounded by memory alone, or by the part that is wanted. The four decoders differ in one
 * function, step(), which consumes some input and makes some output.
 *
 * Threads: none. Memory: the decoders of the three libraries allocate on their own. */
#include "data/input.h"

#include <errno.h>
#include <fcntl.h>
#include <lzma.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/io.h"
#include "data/lines.h"

enum {
    BLOCK_SIZE = 1 << 20,
    BLOCK_SIZE_MIN = 1 << 14,
    FIRST_SIZE_MAX = 1 << 25, /* of a part that grows until it has its lines */
    ROOM_MIN = 1 << 17,       /* a zstd block: no decoder stops for want of room */
    ROOM_MAX = 1 << 30,       /* what fits the counters of zlib */
    EXPECTED_MAX = 1 << 30,   /* a size that a file claims is believed up to here */
    GZIP_WINDOW = 15 + 16,    /* the largest window, with gzip's header */
};

enum kind {
    PLAIN,
    ZSTD,
    GZIP,
    XZ,
};

/* What a step came to. */
enum verdict {
    MORE,     /* it goes on */
    COMPLETE, /* a frame or member has ended; another may follow */
    DAMAGED,
    NO_MEMORY,
};

struct rbt_input_reader {
    char *path;
    int fd;
    bool must_wait; /* what is to be read may not be there yet */
    uint8_t *block;
    size_t block_size;
    size_t position; /* in the block */
    size_t limit;    /* of what was read into it */
    bool is_ended;   /* nothing follows the block */

    char *bytes; /* the output */
    size_t size;
    size_t capacity;
    size_t part_size;     /* wanted at a time; 0: the whole file */
    size_t lines_missing; /* that the next part must have, if there are so many */
    size_t given;         /* bytes at its front that the caller has had */
    char border;          /* the byte behind them, where a zero is now */

    enum kind kind;
    enum verdict verdict; /* of the last step */
    bool is_done;         /* all output is made */
    ZSTD_DStream *zstd;
    z_stream gzip;
    bool has_gzip; /* `gzip` is initialised */
    lzma_stream xz;
};

static rbt_status out_of_memory(const char *path)
{
    return rbt_fail(RBT_E_NOMEM, "cannot read \"%s\": out of memory", path);
}

/* Waits until there is something to be read, or no more will come. A signal that the process does
 * not die of ends that: whoever writes may never do so. */
static rbt_status wait_for_bytes(const rbt_input_reader *reader)
{
    struct pollfd fd = {.fd = reader->fd, .events = POLLIN};
    if (poll(&fd, 1, -1) >= 0 || errno != EINTR) {
        return RBT_OK; /* reading says what is wrong, if anything is */
    }
    return rbt_fail(RBT_E_INTERRUPTED, "interrupted while waiting for \"%s\"", reader->path);
}

/* Reads at most `size` bytes; notes if there are no more. */
static rbt_status read_some(rbt_input_reader *reader, void *to, size_t size, size_t *got)
{
    RBT_ASSERT(size > 0);
    ssize_t result = 0;
    do {
        const rbt_status st = reader->must_wait ? wait_for_bytes(reader) : RBT_OK;
        if (st != RBT_OK) {
            return st;
        }
        result = rbt_io_read(reader->fd, to, size);
    } while (result < 0 && (errno == EINTR || (errno == EAGAIN && reader->must_wait)));
    if (result < 0) {
        return rbt_fail(RBT_E_IO, "cannot read \"%s\"", reader->path);
    }
    reader->is_ended = result == 0;
    *got = (size_t)result;
    return RBT_OK;
}

/* Reads as much as fits into the block, which is used up. */
static rbt_status fill(rbt_input_reader *reader)
{
    RBT_ASSERT(reader->position == reader->limit);
    reader->position = 0;
    reader->limit = 0;
    while (reader->limit < reader->block_size && !reader->is_ended) {
        size_t got = 0;
        const rbt_status st = read_some(reader, reader->block + reader->limit,
                                        reader->block_size - reader->limit, &got);
        if (st != RBT_OK) {
            return st;
        }
        reader->limit += got;
    }
    return RBT_OK;
}

/* Makes the output so large that `room` bytes and the zero fit behind what it holds. */
static rbt_status reserve(rbt_input_reader *reader, size_t room)
{
    if (reader->capacity - reader->size > room) {
        return RBT_OK;
    }
    const size_t least = reader->size + room + 1;
    const size_t twice = reader->capacity * 2;
    const size_t capacity = least > twice ? least : twice;
    char *bytes = rbt_realloc(reader->bytes, capacity, 1);
    if (bytes == NULL) {
        return out_of_memory(reader->path);
    }
    reader->bytes = bytes;
    reader->capacity = capacity;
    return RBT_OK;
}

static enum kind recognize(const uint8_t *bytes, size_t size)
{
    static const struct {
        enum kind kind;
        size_t size;
        uint8_t bytes[6];
    } magics[] = {
        {ZSTD, 4, {0x28, 0xb5, 0x2f, 0xfd}},
        {GZIP, 3, {0x1f, 0x8b, 0x08}},
        {XZ, 6, {0xfd, '7', 'z', 'X', 'Z', 0x00}},
    };
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (size >= magics[i].size && memcmp(bytes, magics[i].bytes, magics[i].size) == 0) {
            return magics[i].kind;
        }
    }
    return PLAIN;
}

static enum verdict step_plain(rbt_input_reader *reader, size_t in, size_t room)
{
    const size_t size = in < room ? in : room;
    memcpy(reader->bytes + reader->size, reader->block + reader->position, size);
    reader->position += size;
    reader->size += size;
    return COMPLETE;
}

static enum verdict step_zstd(rbt_input_reader *reader, size_t in, size_t room)
{
    ZSTD_inBuffer input = {.src = reader->block + reader->position, .size = in};
    ZSTD_outBuffer output = {.dst = reader->bytes + reader->size, .size = room};
    const size_t left = ZSTD_decompressStream(reader->zstd, &output, &input);
    reader->position += input.pos;
    reader->size += output.pos;
    if (ZSTD_isError(left)) {
        return ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation ? NO_MEMORY : DAMAGED;
    }
    return left == 0 ? COMPLETE : MORE;
}

static enum verdict step_gzip(rbt_input_reader *reader, size_t in, size_t room)
{
    z_stream *gzip = &reader->gzip;
    gzip->next_in = reader->block + reader->position;
    gzip->avail_in = (uInt)in;
    gzip->next_out = (Bytef *)(reader->bytes + reader->size);
    gzip->avail_out = (uInt)room;
    const int result = inflate(gzip, Z_NO_FLUSH);
    reader->position += in - gzip->avail_in;
    reader->size += room - gzip->avail_out;
    if (result == Z_STREAM_END) {
        return inflateReset(gzip) == Z_OK ? COMPLETE : DAMAGED;
    }
    if (result == Z_MEM_ERROR) {
        return NO_MEMORY;
    }
    return result == Z_OK || result == Z_BUF_ERROR ? MORE : DAMAGED;
}

static enum verdict step_xz(rbt_input_reader *reader, size_t in, size_t room)
{
    lzma_stream *xz = &reader->xz;
    xz->next_in = reader->block + reader->position;
    xz->avail_in = in;
    xz->next_out = (uint8_t *)(reader->bytes + reader->size);
    xz->avail_out = room;
    const lzma_ret result = lzma_code(xz, reader->is_ended ? LZMA_FINISH : LZMA_RUN);
    reader->position += in - xz->avail_in;
    reader->size += room - xz->avail_out;
    if (result == LZMA_STREAM_END) {
        return COMPLETE;
    }
    if (result == LZMA_MEM_ERROR) {
        return NO_MEMORY;
    }
    return result == LZMA_OK || result == LZMA_BUF_ERROR ? MORE : DAMAGED;
}

static enum verdict step(rbt_input_reader *reader, size_t in, size_t room)
{
    switch (reader->kind) {
    case PLAIN:
        return step_plain(reader, in, room);
    case ZSTD:
        return step_zstd(reader, in, room);
    case GZIP:
        return step_gzip(reader, in, room);
    case XZ:
        return step_xz(reader, in, room);
    }
    RBT_UNREACHABLE();
}

/* Makes the decoder, and room for the output as far as its size can be guessed. */
static rbt_status prepare(rbt_input_reader *reader)
{
    bool is_ready = true;
    unsigned long long expected = 0;
    struct stat status;
    reader->kind = recognize(reader->block, reader->limit);
    if (reader->limit >= 10 && memcmp(reader->block, "BZh", 3) == 0 &&
        memcmp(reader->block + 4, "1AY&SY", 6) == 0) {
        return rbt_fail(RBT_E_DATA,
                        "cannot read \"%s\": bzip2 is not supported; use zstd, gzip or xz",
                        reader->path);
    }
    switch (reader->kind) {
    case PLAIN:
        if (reader->part_size > 0) {
            return RBT_OK;
        }
        if (fstat(reader->fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
            expected = (unsigned long long)status.st_size;
        }
        return reserve(reader, (size_t)expected);
    case ZSTD:
        reader->zstd = ZSTD_createDStream();
        is_ready = reader->zstd != NULL;
        expected = ZSTD_getFrameContentSize(reader->block, reader->limit);
        break;
    case GZIP:
        is_ready = inflateInit2(&reader->gzip, GZIP_WINDOW) == Z_OK;
        reader->has_gzip = is_ready;
        break;
    case XZ:
        is_ready = lzma_stream_decoder(&reader->xz, UINT64_MAX, LZMA_CONCATENATED) == LZMA_OK;
        break;
    }
    if (!is_ready) {
        return out_of_memory(reader->path);
    }
    const bool is_believed = reader->part_size == 0 && expected <= EXPECTED_MAX;
    return is_believed ? reserve(reader, (size_t)expected) : RBT_OK;
}

/* Reads some of what is not compressed, `wanted` bytes at most, to where it belongs. */
static rbt_status read_plain(rbt_input_reader *reader, size_t wanted)
{
    const size_t block = wanted < BLOCK_SIZE ? wanted : BLOCK_SIZE;
    rbt_status st = reserve(reader, block);
    if (st == RBT_OK) {
        const size_t room = reader->capacity - reader->size - 1;
        size_t got = 0;
        st = read_some(reader, reader->bytes + reader->size, room < wanted ? room : wanted, &got);
        reader->size += st == RBT_OK ? got : 0;
    }
    return st;
}

/* Decodes until there are `wanted` bytes, or the file ends. Every round consumes input or makes
 * output, or is the last. */
static rbt_status decode(rbt_input_reader *reader, size_t wanted)
{
    while (!reader->is_done && reader->size < wanted) {
        const bool is_used_up = reader->position == reader->limit && !reader->is_ended;
        if (is_used_up) {
            const rbt_status st =
                reader->kind == PLAIN ? read_plain(reader, wanted - reader->size) : fill(reader);
            if (st != RBT_OK) {
                return st;
            }
        }
        if (is_used_up && reader->kind == PLAIN) {
            continue; /* it is where it belongs */
        }
        const size_t in = reader->limit - reader->position;
        if (in == 0 && reader->verdict == COMPLETE) {
            reader->is_done = true;
            break;
        }
        const rbt_status st = reserve(reader, reader->kind == PLAIN ? in : ROOM_MIN);
        if (st != RBT_OK) {
            return st;
        }
        const size_t room = reader->capacity - reader->size - 1;
        const size_t size = reader->size;
        reader->verdict = step(reader, in, room < ROOM_MAX ? room : ROOM_MAX);
        if (reader->verdict == NO_MEMORY) {
            return out_of_memory(reader->path);
        }
        if (reader->verdict == DAMAGED) {
            return rbt_fail(RBT_E_DATA, "cannot read \"%s\": the compressed data is damaged",
                            reader->path);
        }
        if (in == 0 && reader->verdict == MORE && reader->size == size) {
            return rbt_fail(RBT_E_DATA, "cannot read \"%s\": the compressed data ends early",
                            reader->path);
        }
    }
    return RBT_OK;
}

/* Looks at what is open: a device need not end, and what comes through a pipe may be long on its
 * way. A directory is found out by reading it. */
static rbt_status look_at(rbt_input_reader *reader)
{
    struct stat about;
    if (rbt_io_stat(reader->fd, &about) != 0) {
        return rbt_fail(RBT_E_IO, "cannot read \"%s\"", reader->path);
    }
    const mode_t mode = about.st_mode;
    if (reader->fd != STDIN_FILENO && (S_ISCHR(mode) || S_ISBLK(mode))) {
        return rbt_fail(RBT_E_DATA, "cannot read \"%s\": it is a device, not a file or a pipe",
                        reader->path);
    }
    reader->must_wait = !S_ISREG(mode) && !S_ISDIR(mode);
    return RBT_OK;
}

static rbt_status open_file(rbt_input_reader *reader)
{
    if (strcmp(reader->path, "-") == 0) {
        reader->fd = STDIN_FILENO;
        return look_at(reader);
    }
    /* Not to wait for a writer here, where no signal would end it. */
    reader->fd = rbt_io_open(reader->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (reader->fd >= 0) {
        return look_at(reader);
    }
    if (errno == ENOENT || errno == ENOTDIR) {
        char text[128];
        return rbt_fail(RBT_E_NOTFOUND, "cannot open \"%s\": %s", reader->path,
                        strerror_r(errno, text, sizeof text));
    }
    return rbt_fail(RBT_E_IO, "cannot open \"%s\"", reader->path);
}

/* Opens the file and looks at its first block. */
static rbt_status start(rbt_input_reader *reader)
{
    rbt_status st = open_file(reader);
    if (st != RBT_OK) {
        return st;
    }
    reader->block = rbt_calloc(reader->block_size, 1);
    if (reader->block == NULL) {
        return out_of_memory(reader->path);
    }
    st = fill(reader);
    if (st == RBT_OK && reader->limit == 0) {
        st = rbt_fail(RBT_E_DATA, "cannot read \"%s\": the file is empty", reader->path);
    }
    return st != RBT_OK ? st : prepare(reader);
}

rbt_status rbt_input_open(const char *path, size_t part_size, rbt_input_reader **reader)
{
    rbt_input_reader *made = rbt_calloc(1, sizeof *made);
    if (made == NULL) {
        return out_of_memory(path);
    }
    const lzma_stream empty = LZMA_STREAM_INIT;
    made->fd = -1;
    made->xz = empty;
    made->part_size = part_size;
    made->lines_missing = RBT_INPUT_LINES_MIN;
    made->block_size = part_size == 0 || part_size / 4 > BLOCK_SIZE ? BLOCK_SIZE
                       : part_size / 4 > BLOCK_SIZE_MIN             ? part_size / 4
                                                                    : BLOCK_SIZE_MIN;
    made->path = rbt_strdup(path);
    const rbt_status st = made->path == NULL ? out_of_memory(path) : start(made);
    if (st != RBT_OK) {
        rbt_input_close(made);
        return st;
    }
    *reader = made;
    return RBT_OK;
}

void rbt_input_close(rbt_input_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    if (reader->zstd != NULL) {
        (void)ZSTD_freeDStream(reader->zstd); /* always succeeds for a valid pointer */
    }
    if (reader->has_gzip) {
        (void)inflateEnd(&reader->gzip); /* fails only for a broken stream, which is freed */
    }
    lzma_end(&reader->xz);
    rbt_free(reader->block);
    rbt_free(reader->bytes);
    if (reader->fd >= 0 && reader->fd != STDIN_FILENO) {
        (void)close(reader->fd); /* nothing was written to it */
    }
    rbt_free(reader->path);
    rbt_free(reader);
}

/* Moves what the caller has not had yet to the front. */
static void drop_given(rbt_input_reader *reader)
{
    if (reader->given > 0) {
        reader->bytes[reader->given] = reader->border;
        reader->size -= reader->given;
        memmove(reader->bytes, reader->bytes + reader->given, reader->size);
        reader->given = 0;
    }
}

static bool has_lines(const char *bytes, size_t size, size_t wanted)
{
    size_t found = 0;
    for (size_t i = 0; i < size && found < wanted; i++) {
        found += bytes[i] == '\n';
    }
    return found == wanted;
}

rbt_status rbt_input_next(rbt_input_reader *reader, struct rbt_input_part *part)
{
    RBT_ASSERT(reader->part_size > 0);
    drop_given(reader);
    size_t size = 0;
    for (size_t wanted = reader->part_size; size == 0; wanted *= 2) { /* until lines have ended */
        const rbt_status st = decode(reader, wanted);
        if (st != RBT_OK) {
            return st;
        }
        const char *end = memrchr(reader->bytes, '\n', reader->size);
        size = reader->is_done || end == NULL ? reader->size : (size_t)(end + 1 - reader->bytes);
        if (!reader->is_done && end == NULL && reader->size <= RBT_LINE_SIZE_MAX) {
            size = 0;
        }
        if (!reader->is_done && reader->size < FIRST_SIZE_MAX &&
            !has_lines(reader->bytes, size, reader->lines_missing)) {
            size = 0;
        }
        if (reader->is_done) {
            break;
        }
    }
    if (size == 0 && reader->bytes == NULL) { /* compressed, and nothing in it */
        *part = (struct rbt_input_part){.bytes = ""};
        return RBT_OK;
    }
    reader->lines_missing = 0;
    reader->given = size;
    reader->border = size < reader->size ? reader->bytes[size] : '\0';
    reader->bytes[size] = '\0';
    *part = (struct rbt_input_part){.bytes = reader->bytes, .size = size};
    return RBT_OK;
}

rbt_status rbt_input_read(const char *path, struct rbt_input *input)
{
    rbt_input_reader *reader = NULL;
    rbt_status st = rbt_input_open(path, 0, &reader);
    if (st != RBT_OK) {
        return st;
    }
    st = decode(reader, SIZE_MAX);
    if (st == RBT_OK && reader->size == 0) {
        st = rbt_fail(RBT_E_DATA, "cannot read \"%s\": the file is empty", reader->path);
    }
    if (st == RBT_OK) {
        reader->bytes[reader->size] = '\0';
        *input = (struct rbt_input){.bytes = reader->bytes, .size = reader->size};
        reader->bytes = NULL;
    }
    rbt_input_close(reader);
    return st;
}

void rbt_input_free(struct rbt_input *input)
{
    rbt_free(input->bytes);
    *input = (struct rbt_input){0};
}
