/* data/paged.c - a stored share mapped into memory, and the thread that fetches its pieces.
 *
 * The examples are cut into pieces of equally many. When the owner goes on to another piece, the
 * reader first drops the pieces that are neither this nor the next one, then fetches the next one:
 * so at most three are in memory. The owner waits for it if it has not finished with the piece
 * before.
 *
 * What is touched may bring its neighbours: the system's cache holds files in blocks of up to
 * BLOCK_MAX bytes, and maps a block as a whole. So what is dropped behind the owner begins a block
 * earlier, and what is dropped ahead of him ends a block later; then nothing stays for longer than
 * the next piece does. (scratch.c writes small blocks, but what comes from the disk may be in large
 * ones.)
 *
 * Dropping only unmaps: the system may still have the data in its own cache. */
#include "data/paged.h"

#include <pthread.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"

enum {
    PAGE = 4096,
    BLOCK_MAX = 2 * 1024 * 1024,
    ARRAYS = 5,
};

/* A file in memory. */
struct map {
    uint8_t *bytes; /* NULL: an empty file */
    size_t size;
};

enum { OFFSETS, LABELS, STEPS, INDICES, VALUES };

/* Pieces first .. end-1. */
struct pieces {
    size_t first;
    size_t end;
};

/* What the reader is asked for. */
struct order {
    size_t kept;          /* pieces at the front that stay */
    struct pieces there;  /* where there may be something in memory, behind those kept */
    struct pieces wanted; /* now */
    struct pieces next;   /* to be fetched */
};

struct rbt_paged {
    struct map maps[ARRAYS];
    size_t count;  /* examples */
    uint64_t size; /* of all files */
    size_t rows;   /* in a piece */
    size_t low;    /* examples that are worked on: a piece, or several */
    size_t high;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t changed;
    struct order order;
    bool is_asked; /* the reader has something to do */
    bool is_ending;
};

static rbt_status map_file(const struct rbt_scratch *file, struct map *map)
{
    if (file->size == 0) {
        return RBT_OK;
    }
    void *bytes = mmap(NULL, (size_t)file->size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (bytes == MAP_FAILED) {
        return rbt_fail(RBT_E_IO, "cannot use data kept in \"%s\"", file->path);
    }
    /* The system's cache may have the file in blocks of megabytes, and would map them whole. */
    (void)madvise(bytes, (size_t)file->size, MADV_NOHUGEPAGE);
    *map = (struct map){.bytes = bytes, .size = (size_t)file->size};
    return RBT_OK;
}

/* The steps are all 0 at first. They are written, not only made room for: a disk that is full must
 * say so here, and not when memory is touched. */
static rbt_status make_steps(struct rbt_stored *stored)
{
    static const uint8_t zeros[64 * 1024];
    const uint64_t size = stored->count * sizeof(float);
    rbt_status st = RBT_OK;
    while (st == RBT_OK && stored->steps.size < size) {
        const uint64_t left = size - stored->steps.size;
        st = rbt_scratch_write(&stored->steps, stored->steps.size, zeros,
                               left < sizeof zeros ? (size_t)left : sizeof zeros);
    }
    return st;
}

static rbt_status map_all(rbt_paged *paged, const struct rbt_stored *stored)
{
    rbt_status st = map_file(&stored->offsets, &paged->maps[OFFSETS]);
    st = st != RBT_OK ? st : map_file(&stored->labels, &paged->maps[LABELS]);
    st = st != RBT_OK ? st : map_file(&stored->steps, &paged->maps[STEPS]);
    st = st != RBT_OK ? st : map_file(&stored->indices, &paged->maps[INDICES]);
    return st != RBT_OK ? st : map_file(&stored->values, &paged->maps[VALUES]);
}

/* Where a piece is in an array; offsets are read, which may touch a page. */
static struct pieces bytes_of(const rbt_paged *paged, int array, struct pieces pieces)
{
    const uint64_t *offsets = (const uint64_t *)(const void *)paged->maps[OFFSETS].bytes;
    size_t first = pieces.first * paged->rows;
    size_t end = pieces.end * paged->rows;
    first = first < paged->count ? first : paged->count;
    end = end < paged->count ? end : paged->count;
    switch (array) {
    case OFFSETS:
        return (struct pieces){first * sizeof(uint64_t), (end + 1) * sizeof(uint64_t)};
    case INDICES:
    case VALUES:
        return (struct pieces){(size_t)offsets[first] * 4, (size_t)offsets[end] * 4};
    default:
        return (struct pieces){first * 4, end * 4};
    }
}

static size_t round_down(size_t value, size_t unit)
{
    return value / unit * unit;
}

static size_t round_up(size_t value, size_t unit)
{
    return round_down(value + unit - 1, unit);
}

/* A hint, so failures do not matter. */
static void unmap(const struct map *map, size_t first, size_t end)
{
    end = end < map->size ? end : map->size;
    if (first < end) {
        (void)madvise(map->bytes + first, end - first, MADV_DONTNEED);
    }
}

/* Drops pieces behind the owner, but none of the first `kept`. Offsets come last: they tell where
 * the others are. */
static void drop_behind(const rbt_paged *paged, struct pieces pieces, size_t kept)
{
    for (int a = ARRAYS - 1; pieces.first < pieces.end && a >= 0; a--) {
        const struct pieces bytes = bytes_of(paged, a, pieces);
        const size_t first = round_down(bytes.first, BLOCK_MAX);
        const size_t spared = round_up(bytes_of(paged, a, (struct pieces){kept, kept}).first, PAGE);
        unmap(&paged->maps[a], first > spared || kept == 0 ? first : spared,
              round_down(bytes.end, PAGE));
    }
}

/* Drops pieces that he will come to later. */
static void drop_ahead(const rbt_paged *paged, struct pieces pieces)
{
    for (int a = ARRAYS - 1; pieces.first < pieces.end && a >= 0; a--) {
        const struct pieces bytes = bytes_of(paged, a, pieces);
        unmap(&paged->maps[a], round_up(bytes.first, PAGE), round_up(bytes.end, BLOCK_MAX));
    }
}

static void fetch(const rbt_paged *paged, struct pieces pieces)
{
    for (int a = 0; pieces.first < pieces.end && a < ARRAYS; a++) {
        const struct map *map = &paged->maps[a];
        const struct pieces bytes = bytes_of(paged, a, pieces);
        const size_t first = round_down(bytes.first, PAGE);
        if (first < bytes.end) {
            /* The first asks the disk for all of it at once, the second waits for it. */
            (void)madvise(map->bytes + first, bytes.end - first, MADV_WILLNEED);
#ifdef MADV_POPULATE_READ
            (void)madvise(map->bytes + first, bytes.end - first, MADV_POPULATE_READ);
#endif
        }
    }
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* What the reader does when the owner has gone on. */
static void turn(const rbt_paged *paged, const struct order *order)
{
    const struct pieces there = order->there;
    const struct pieces wanted = order->wanted;
    const struct pieces next = order->next;
    drop_behind(paged, (struct pieces){there.first, least(there.end, wanted.first)}, order->kept);
    drop_ahead(paged, (struct pieces){most(there.first, most(wanted.end, next.end)), there.end});
    fetch(paged, next);
}

static void *run_reader(void *argument)
{
    rbt_paged *paged = argument;
    (void)pthread_mutex_lock(&paged->mutex);
    while (!paged->is_ending) {
        if (!paged->is_asked) {
            (void)pthread_cond_wait(&paged->changed, &paged->mutex);
            continue;
        }
        const struct order order = paged->order;
        (void)pthread_mutex_unlock(&paged->mutex);
        turn(paged, &order);
        (void)pthread_mutex_lock(&paged->mutex);
        paged->order.there = (struct pieces){least(order.wanted.first, order.next.first),
                                             most(order.wanted.end, order.next.end)};
        paged->is_asked = false;
        (void)pthread_cond_broadcast(&paged->changed);
    }
    (void)pthread_mutex_unlock(&paged->mutex);
    return NULL;
}

rbt_status rbt_paged_open(struct rbt_stored *stored, size_t piece_size, rbt_paged **paged)
{
    RBT_ASSERT(piece_size > 0);
    rbt_paged *made = rbt_calloc(1, sizeof *made);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to use the examples on disk");
    }
    made->count = stored->count;
    made->size = stored->nonzeros * 8 + stored->count * 16 + 8;
    const uint64_t row = made->size / (stored->count + 1) + 1;
    made->rows = (size_t)(piece_size / row + 1);
    (void)pthread_mutex_init(&made->mutex, NULL); /* cannot fail on Linux */
    (void)pthread_cond_init(&made->changed, NULL);
    rbt_status st = make_steps(stored);
    st = st != RBT_OK ? st : map_all(made, stored);
    if (st == RBT_OK && rbt_thread_create(&made->thread, run_reader, made) != 0) {
        st = rbt_fail(RBT_E_IO, "could not start a thread that fetches examples");
    }
    if (st != RBT_OK) {
        made->is_ending = true; /* there is no thread */
        rbt_paged_close(made);
        return st;
    }
    *paged = made;
    return RBT_OK;
}

void rbt_paged_close(rbt_paged *paged)
{
    if (paged == NULL) {
        return;
    }
    if (!paged->is_ending) {
        (void)pthread_mutex_lock(&paged->mutex);
        paged->is_ending = true;
        (void)pthread_cond_broadcast(&paged->changed);
        (void)pthread_mutex_unlock(&paged->mutex);
        (void)pthread_join(paged->thread, NULL);
    }
    (void)pthread_cond_destroy(&paged->changed);
    (void)pthread_mutex_destroy(&paged->mutex);
    for (int a = 0; a < ARRAYS; a++) {
        if (paged->maps[a].bytes != NULL) {
            (void)munmap(paged->maps[a].bytes, paged->maps[a].size);
        }
    }
    rbt_free(paged);
}

struct rbt_share rbt_paged_share(const rbt_paged *paged)
{
    void *const offsets = paged->maps[OFFSETS].bytes;
    void *const labels = paged->maps[LABELS].bytes;
    void *const indices = paged->maps[INDICES].bytes;
    void *const values = paged->maps[VALUES].bytes;
    return (struct rbt_share){.count = paged->count,
                              .offsets = offsets,
                              .labels = labels,
                              .indices = indices,
                              .values = values};
}

float *rbt_paged_steps(const rbt_paged *paged)
{
    void *const steps = paged->maps[STEPS].bytes;
    return steps;
}

/* The owner goes on to other pieces. */
static void go_on(rbt_paged *paged, struct pieces pieces)
{
    const size_t total = (paged->count + paged->rows - 1) / paged->rows;
    (void)pthread_mutex_lock(&paged->mutex);
    while (paged->is_asked) { /* it ends: the reader has only one thing to do */
        (void)pthread_cond_wait(&paged->changed, &paged->mutex);
    }
    const size_t after = pieces.end < total ? pieces.end : 0;
    const size_t kept = paged->order.kept;
    paged->order.wanted = (struct pieces){most(pieces.first, kept), most(pieces.end, kept)};
    /* When what is kept is over, the first piece behind it will be wanted. */
    paged->order.next.first = most(after, kept);
    paged->order.next.end = least(paged->order.next.first + 1, total);
    if (after < pieces.first || kept >= total) { /* a new pass; it comes when it is there */
        paged->order.next = (struct pieces){paged->order.wanted.end, paged->order.wanted.end};
    }
    paged->order.there.first = least(paged->order.there.first, paged->order.wanted.first);
    paged->order.there.end = most(paged->order.there.end, paged->order.wanted.end);
    paged->is_asked = true;
    (void)pthread_cond_broadcast(&paged->changed);
    (void)pthread_mutex_unlock(&paged->mutex);
}

void rbt_paged_visit(rbt_paged *paged, size_t first, size_t end)
{
    if (paged == NULL || first >= end || (first >= paged->low && end <= paged->high)) {
        return;
    }
    RBT_ASSERT(end <= paged->count);
    const struct pieces pieces = {first / paged->rows, (end + paged->rows - 1) / paged->rows};
    go_on(paged, pieces);
    paged->low = pieces.first * paged->rows;
    paged->high = pieces.end * paged->rows;
}

void rbt_paged_keep(rbt_paged *paged, uint64_t bytes)
{
    const uint64_t piece = paged->size / (paged->count / paged->rows + 1) + 1;
    (void)pthread_mutex_lock(&paged->mutex);
    while (paged->is_asked) {
        (void)pthread_cond_wait(&paged->changed, &paged->mutex);
    }
    const uint64_t all = (paged->count + paged->rows - 1) / paged->rows;
    const uint64_t kept = bytes >= paged->size ? all : bytes / piece;
    paged->order.kept = (size_t)(kept < all ? kept : all);
    paged->order.there.first = most(paged->order.there.first, paged->order.kept);
    paged->order.there.end = most(paged->order.there.end, paged->order.kept);
    paged->low = paged->high = 0;
    (void)pthread_mutex_unlock(&paged->mutex);
}
