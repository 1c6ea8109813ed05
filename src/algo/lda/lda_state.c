/* algo/lda/lda_state.c - the topics of a worker's tokens on disk.
 *
 * Both files are locked as long as they are open, so that two trainings that are given the same
 * directory do not write over each other. Blocks are checked when they are read, since by then the
 * file may be days old; a topic that does not exist would be written through. */
#include "algo/lda/lda_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/io.h"

enum { PATH_MAX_SIZE = 4096, MAGIC_SIZE = 8, FORMAT = 1 };
enum { BLOCK_SIZE = RBT_LDA_STATE_BLOCK * 2 + RBT_LDA_STATE_CHECK_SIZE }; /* bytes, a whole one */
static const char magic[MAGIC_SIZE] = {'R', 'B', 'T', 'T', 'O', 'P', 'I', 'C'};

/* One way through the tokens. */
struct way {
    int fd;      /* -1: closed */
    uint64_t at; /* token */
    uint8_t *block;
};

struct rbt_lda_state {
    char directory[PATH_MAX_SIZE];
    char path[PATH_MAX_SIZE];
    char path_new[PATH_MAX_SIZE];
    struct rbt_lda_state_facts facts;
    struct way old;
    struct way new;
};

/* --- Bytes ----------------------------------------------------------------------------------- */

/* Everything in the order of the file; the checksum is of what stands before it. */
struct head {
    char magic[MAGIC_SIZE];
    uint32_t format;
    uint32_t topic_count;
    uint32_t worker;
    uint32_t worker_count;
    uint64_t seed;
    uint64_t tokens;
    uint64_t data;
    uint64_t passes;
    uint64_t checksum;
};
_Static_assert(sizeof(struct head) == RBT_LDA_STATE_HEAD_SIZE, "the head has no gaps");

static void encode(const struct rbt_lda_state_facts *facts, uint8_t bytes[RBT_LDA_STATE_HEAD_SIZE])
{
    struct head head = {.format = FORMAT,
                        .topic_count = facts->topic_count,
                        .worker = facts->worker,
                        .worker_count = facts->worker_count,
                        .seed = facts->seed,
                        .tokens = facts->tokens,
                        .data = facts->data,
                        .passes = facts->passes};
    memcpy(head.magic, magic, sizeof magic);
    head.checksum = rbt_hash_bytes(&head, offsetof(struct head, checksum), 0);
    memcpy(bytes, &head, sizeof head);
}

rbt_status rbt_lda_state_decode(const uint8_t bytes[RBT_LDA_STATE_HEAD_SIZE],
                                struct rbt_lda_state_facts *facts)
{
    struct head head;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0) {
        return rbt_fail(RBT_E_DATA, "it does not hold topics of tokens");
    }
    if (head.format > FORMAT) {
        return rbt_fail(RBT_E_DATA, "it was written by a newer Rubato (format %u)", head.format);
    }
    if (head.checksum != rbt_hash_bytes(&head, offsetof(struct head, checksum), 0) ||
        head.format == 0 || head.topic_count == 0 || head.topic_count > UINT16_MAX + 1U ||
        head.worker >= head.worker_count) {
        return rbt_fail(RBT_E_DATA, "it is damaged (its head)");
    }
    *facts = (struct rbt_lda_state_facts){.topic_count = head.topic_count,
                                          .worker = head.worker,
                                          .worker_count = head.worker_count,
                                          .seed = head.seed,
                                          .tokens = head.tokens,
                                          .data = head.data,
                                          .passes = head.passes};
    return RBT_OK;
}

/* Depends on where the block stands, so that no other can take its place. */
static uint64_t checksum(const struct rbt_lda_state_facts *facts, uint64_t index,
                         const uint8_t *block, size_t count)
{
    const uint64_t place = rbt_hash_key(facts->passes ^ facts->data) ^ index;
    return rbt_hash_bytes(block, count * sizeof(uint16_t), place);
}

bool rbt_lda_state_check(const struct rbt_lda_state_facts *facts, uint64_t index,
                         const uint8_t *block, size_t count)
{
    uint64_t written = 0;
    memcpy(&written, block + count * sizeof(uint16_t), sizeof written);
    bool is_well = written == checksum(facts, index, block, count);
    for (size_t i = 0; i < count && is_well; i++) {
        uint16_t topic = 0;
        memcpy(&topic, block + i * sizeof topic, sizeof topic);
        is_well = topic < facts->topic_count;
    }
    return is_well;
}

/* How many tokens the block with token `at` has. */
static size_t block_count(const struct rbt_lda_state_facts *facts, uint64_t at)
{
    const uint64_t left = facts->tokens - at / RBT_LDA_STATE_BLOCK * RBT_LDA_STATE_BLOCK;
    return left < RBT_LDA_STATE_BLOCK ? (size_t)left : RBT_LDA_STATE_BLOCK;
}

/* Where it begins in the file. */
static off_t block_offset(uint64_t at)
{
    return (off_t)(RBT_LDA_STATE_HEAD_SIZE + at / RBT_LDA_STATE_BLOCK * BLOCK_SIZE);
}

/* --- Files ----------------------------------------------------------------------------------- */

/* Fewer bytes than asked for only at the end of the file; -1: errno says why. */
static ssize_t read_at(int fd, uint8_t *bytes, size_t size, off_t offset)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t got = rbt_io_pread(fd, bytes + done, size - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -1 : (ssize_t)done;
        }
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static rbt_status write_at(const rbt_lda_state *state, const uint8_t *bytes, size_t size,
                           off_t offset)
{
    for (size_t done = 0; done < size;) {
        const ssize_t wrote =
            rbt_io_pwrite(state->new.fd, bytes + done, size - done, offset + (off_t)done);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            return rbt_fail(RBT_E_IO, "cannot write topics to \"%s\"", state->path_new);
        }
        done += (size_t)wrote;
    }
    return RBT_OK;
}

/* Not every file system can lock; where it cannot, nobody is kept out. */
static rbt_status lock(const rbt_lda_state *state, int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        return RBT_OK;
    }
    return rbt_fail(RBT_E_BUSY, "the state in \"%s\" is used by another training that is running",
                    state->directory);
}

static void close_way(struct way *way)
{
    if (way->fd >= 0) {
        (void)close(way->fd); /* read, or given up, or on disk since fsync() */
    }
    way->fd = -1;
}

/* --- Opening --------------------------------------------------------------------------------- */

static rbt_status other_training(rbt_status st)
{
    return rbt_fail_hint(
        st, "Continue with the options that it was made with, or use another --state.");
}

static rbt_status compare(const rbt_lda_state *state, const struct rbt_lda_state_facts *found)
{
    const struct rbt_lda_state_facts *facts = &state->facts;
    const char *where = state->directory;
    if (found->topic_count != facts->topic_count) {
        return other_training(rbt_fail(
            RBT_E_INVALID, "the state in \"%s\" belongs to a training with %u topics, not %u",
            where, found->topic_count, facts->topic_count));
    }
    if (found->worker_count != facts->worker_count || found->worker != facts->worker) {
        return other_training(rbt_fail(
            RBT_E_INVALID, "the state in \"%s\" belongs to a training with %u workers, not %u",
            where, found->worker_count, facts->worker_count));
    }
    if (found->seed != facts->seed) {
        return other_training(rbt_fail(
            RBT_E_INVALID, "the state in \"%s\" belongs to a training with --seed %llu, not %llu",
            where, (unsigned long long)found->seed, (unsigned long long)facts->seed));
    }
    if (found->tokens != facts->tokens || found->data != facts->data) {
        return other_training(
            rbt_fail(RBT_E_DATA, "the state in \"%s\" belongs to other training data", where));
    }
    return RBT_OK;
}

static rbt_status damaged(const rbt_lda_state *state, const char *what)
{
    const rbt_status st =
        rbt_fail(RBT_E_DATA, "cannot read \"%s\": it is damaged (%s)", state->path, what);
    return rbt_fail_hint(st, "Remove \"%s\" to start anew.", state->directory);
}

/* Opens what an earlier training has left, if it has. */
static rbt_status find(rbt_lda_state *state)
{
    struct rbt_lda_state_facts found = {0};
    struct stat about = {0};
    rbt_status st = rbt_file_open(state->path, RBT_FILE_REGULAR, &state->old.fd);
    if (st != RBT_OK) {
        return st == RBT_E_NOTFOUND ? RBT_OK
                                    : rbt_fail_in(st, "cannot read topics of \"%s\"", state->path);
    }
    st = lock(state, state->old.fd);
    if (st != RBT_OK) {
        return st;
    }
    const ssize_t size = read_at(state->old.fd, state->old.block, RBT_LDA_STATE_HEAD_SIZE, 0);
    if (size < 0 || fstat(state->old.fd, &about) != 0) {
        return rbt_fail(RBT_E_IO, "cannot read topics of \"%s\"", state->path);
    }
    if (size < RBT_LDA_STATE_HEAD_SIZE) {
        return damaged(state, "it ends early");
    }
    st = rbt_lda_state_decode(state->old.block, &found);
    if (st != RBT_OK) {
        return rbt_fail_in(st, "cannot read \"%s\"", state->path);
    }
    st = compare(state, &found);
    if (st != RBT_OK) {
        return st;
    }
    const uint64_t blocks = (found.tokens + RBT_LDA_STATE_BLOCK - 1) / RBT_LDA_STATE_BLOCK;
    const uint64_t wanted = RBT_LDA_STATE_HEAD_SIZE + found.tokens * sizeof(uint16_t) +
                            blocks * RBT_LDA_STATE_CHECK_SIZE;
    if ((uint64_t)about.st_size != wanted) {
        return damaged(state, "its length");
    }
    state->facts.passes = found.passes;
    return RBT_OK;
}

static rbt_status name_files(rbt_lda_state *state, const char *directory)
{
    const int length = snprintf(state->path_new, sizeof state->path_new, "%s/topics.%u.new",
                                directory, state->facts.worker);
    if (length < 0 || (size_t)length >= sizeof state->path_new) {
        return rbt_fail(RBT_E_INVALID, "the path of --state is too long");
    }
    memcpy(state->path, state->path_new, (size_t)length - strlen(".new"));
    memcpy(state->directory, directory, strlen(directory));
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        return rbt_fail(RBT_E_IO, "cannot make the directory \"%s\"", directory);
    }
    return RBT_OK;
}

rbt_status rbt_lda_state_open(const char *directory, const struct rbt_lda_state_facts *facts,
                              rbt_lda_state **state)
{
    rbt_lda_state *made = rbt_calloc(1, sizeof *made);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for topics on disk");
    }
    made->facts = *facts;
    made->facts.passes = 0;
    made->old = (struct way){.fd = -1, .block = rbt_calloc(BLOCK_SIZE, 1)};
    made->new = (struct way){.fd = -1, .block = rbt_calloc(BLOCK_SIZE, 1)};
    rbt_status st = made->old.block != NULL && made->new.block != NULL
                        ? RBT_OK
                        : rbt_fail(RBT_E_NOMEM, "no memory for topics on disk");
    st = st != RBT_OK ? st : name_files(made, directory);
    st = st != RBT_OK ? st : find(made);
    if (st != RBT_OK) {
        rbt_lda_state_close(made);
        return st;
    }
    *state = made;
    return RBT_OK;
}

void rbt_lda_state_close(rbt_lda_state *state)
{
    if (state == NULL) {
        return;
    }
    if (state->new.fd >= 0) {
        (void)unlink(state->path_new); /* half a pass is of no use; it would be written over */
    }
    close_way(&state->new);
    close_way(&state->old);
    rbt_free(state->new.block);
    rbt_free(state->old.block);
    rbt_free(state);
}

bool rbt_lda_state_is_found(const rbt_lda_state *state)
{
    return state->old.fd >= 0;
}

uint64_t rbt_lda_state_passes(const rbt_lda_state *state)
{
    return state->facts.passes;
}

/* --- A pass ---------------------------------------------------------------------------------- */

rbt_status rbt_lda_state_start(rbt_lda_state *state)
{
    RBT_ASSERT(state->new.fd < 0);
    state->old.at = 0;
    state->new.at = 0;
    state->new.fd = rbt_io_open(state->path_new, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (state->new.fd < 0) {
        return rbt_fail(RBT_E_IO, "cannot create \"%s\"", state->path_new);
    }
    const rbt_status st = lock(state, state->new.fd);
    if (st != RBT_OK) {
        close_way(&state->new); /* it is another's, and stays */
        return st;
    }
    return ftruncate(state->new.fd, 0) == 0
               ? RBT_OK
               : rbt_fail(RBT_E_IO, "cannot write topics to \"%s\"", state->path_new);
}

/* Fetches the block that begins with the next token. */
static rbt_status fetch(rbt_lda_state *state)
{
    struct way *old = &state->old;
    const size_t count = block_count(&state->facts, old->at);
    const size_t size = count * sizeof(uint16_t) + RBT_LDA_STATE_CHECK_SIZE;
    const ssize_t got = read_at(old->fd, old->block, size, block_offset(old->at));
    if (got < 0) {
        return rbt_fail(RBT_E_IO, "cannot read topics of \"%s\"", state->path);
    }
    const uint64_t index = old->at / RBT_LDA_STATE_BLOCK;
    return (size_t)got == size && rbt_lda_state_check(&state->facts, index, old->block, count)
               ? RBT_OK
               : damaged(state, "a block of topics");
}

rbt_status rbt_lda_state_read(rbt_lda_state *state, uint16_t *topics, size_t count)
{
    struct way *old = &state->old;
    RBT_ASSERT(old->fd >= 0);
    RBT_ASSERT(count <= state->facts.tokens - old->at);
    while (count > 0) {
        const size_t inside = (size_t)(old->at % RBT_LDA_STATE_BLOCK);
        const rbt_status st = inside == 0 ? fetch(state) : RBT_OK;
        if (st != RBT_OK) {
            return st;
        }
        const size_t left = RBT_LDA_STATE_BLOCK - inside;
        const size_t part = count < left ? count : left;
        memcpy(topics, old->block + inside * sizeof *topics, part * sizeof *topics);
        old->at += part;
        topics += part;
        count -= part;
    }
    return RBT_OK;
}

/* Stores a block that is complete: the one before the next token. The head that it will have says
 * one pass more than now, unless it is the first. */
static rbt_status store(rbt_lda_state *state)
{
    struct way *new = &state->new;
    struct rbt_lda_state_facts facts = state->facts;
    facts.passes += state->old.fd >= 0 ? 1 : 0;
    const uint64_t at = new->at - 1;
    const size_t count = block_count(&facts, at);
    const uint64_t check = checksum(&facts, at / RBT_LDA_STATE_BLOCK, new->block, count);
    memcpy(new->block + count * sizeof(uint16_t), &check, sizeof check);
    return write_at(state, new->block, count * sizeof(uint16_t) + sizeof check, block_offset(at));
}

rbt_status rbt_lda_state_write(rbt_lda_state *state, const uint16_t *topics, size_t count)
{
    struct way *new = &state->new;
    RBT_ASSERT(new->fd >= 0);
    RBT_ASSERT(count <= state->facts.tokens - new->at);
    while (count > 0) {
        const size_t inside = (size_t)(new->at % RBT_LDA_STATE_BLOCK);
        const size_t left = RBT_LDA_STATE_BLOCK - inside;
        const size_t part = count < left ? count : left;
        memcpy(new->block + inside * sizeof *topics, topics, part * sizeof *topics);
        new->at += part;
        topics += part;
        count -= part;
        if (part == left || new->at == state->facts.tokens) {
            const rbt_status st = store(state);
            if (st != RBT_OK) {
                return st;
            }
        }
    }
    return RBT_OK;
}

rbt_status rbt_lda_state_commit(rbt_lda_state *state)
{
    uint8_t head[RBT_LDA_STATE_HEAD_SIZE];
    RBT_ASSERT(state->new.at == state->facts.tokens);
    struct rbt_lda_state_facts facts = state->facts;
    facts.passes += state->old.fd >= 0 ? 1 : 0;
    encode(&facts, head);
    rbt_status st = write_at(state, head, sizeof head, 0);
    if (st == RBT_OK &&
        (rbt_io_fsync(state->new.fd) != 0 || rbt_io_rename(state->path_new, state->path) != 0)) {
        st = rbt_fail(RBT_E_IO, "cannot write topics to \"%s\"", state->path);
    }
    if (st != RBT_OK) {
        return st;
    }
    close_way(&state->old);
    state->old.fd = state->new.fd;
    state->new.fd = -1;
    state->facts = facts;
    return RBT_OK;
}
