/* base/alloc.c - the heap behind one door.
 *
 * Every block has a header of 64 bytes that remembers its size, so that it can be counted when it
 * is freed and so that data is aligned to a cache line. Large blocks come from mmap with huge
 * pages, and grow by moving their pages instead of copying what is in them.
 *
 * Threads: any; the counters are relaxed atomics, because nobody orders anything by them. */
#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"

enum {
    HEADER_SIZE = 64,
    SMALL_PAGE = 4096,
    HUGE_PAGE = 2 * 1024 * 1024, /* blocks of this size and more are mapped on their own */
};

struct header {
    size_t size;        /* of the data */
    size_t mapped_size; /* of the mapping, or 0 if the block is from the C library */
    void *mapping;
};

_Static_assert(sizeof(struct header) <= HEADER_SIZE, "the header fits a cache line");

static atomic_uint fail_countdown;
static atomic_size_t live_blocks;
static atomic_size_t live_bytes;
static atomic_uint_fast64_t calls;

static struct header *header_of(void *block)
{
    return (struct header *)((char *)block - HEADER_SIZE);
}

/* True if a test wants this allocation to fail. */
static bool is_refused(void)
{
    unsigned left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak_explicit(&fail_countdown, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return left == 1;
        }
    }
    return false;
}

/* Rounds up, so that the end of a block, too, can be a huge page once it is used. */
static size_t whole_pages(size_t size)
{
    return (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* Maps `size` bytes, the data starting on a huge page. */
static void *map_block(size_t size)
{
    const size_t mapped_size = whole_pages(size) + HUGE_PAGE;
    char *mapping =
        mmap(NULL, mapped_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return NULL;
    }
    char *block =
        mapping + HUGE_PAGE - (uintptr_t)mapping % HUGE_PAGE; /* a page or more before it */
    /* Only a page for the header: a mapping that begins on a huge page would spend one on it. */
    const size_t front = (size_t)(block - mapping) - SMALL_PAGE;
    if (front > 0) {
        (void)munmap(mapping, front); /* nothing is there yet */
    }
    const size_t rest = mapped_size - front;
    mapping += front;
    (void)madvise(mapping, rest, MADV_HUGEPAGE); /* a wish; without it we are only slower */
    *header_of(block) = (struct header){.size = size, .mapped_size = rest, .mapping = mapping};
    return block;
}

static void *take_block(size_t size, bool is_zeroed)
{
    const size_t rounded = (size + HEADER_SIZE + 63) / 64 * 64;
    char *memory = aligned_alloc(64, rounded);
    if (memory == NULL) {
        return NULL;
    }
    if (is_zeroed) {
        memset(memory, 0, rounded);
    }
    char *block = memory + HEADER_SIZE;
    *header_of(block) = (struct header){.size = size};
    return block;
}

static void *allocate(size_t bytes, bool is_zeroed)
{
    if (bytes > SIZE_MAX / 2 || is_refused()) {
        return NULL;
    }
    void *block = bytes >= HUGE_PAGE ? map_block(bytes) : take_block(bytes, is_zeroed);
    if (block == NULL) {
        return NULL;
    }
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return block;
}

void *rbt_calloc(size_t count, size_t size)
{
    size_t bytes = 0;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : allocate(bytes, true);
}

void *rbt_alloc(size_t bytes)
{
    return allocate(bytes, false);
}

/* Moves a mapped block to where there is room for `size` bytes, without copying: the pages stay and
 * get new addresses. The two places differ by a multiple of a huge page, so huge pages stay whole.
 * Returns NULL and leaves the block alone if there is no room. */
static void *move_block(void *block, size_t size)
{
    const struct header old = *header_of(block);
    const size_t offset = (size_t)((char *)block - (char *)old.mapping);
    const size_t mapped_size = offset + whole_pages(size);
    const size_t reserved_size = mapped_size + HUGE_PAGE;
    char *reserved =
        mmap(NULL, reserved_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) {
        return NULL;
    }
    const size_t before = ((uintptr_t)old.mapping - (uintptr_t)reserved) % HUGE_PAGE;
    char *mapping = mremap(old.mapping, old.mapped_size, mapped_size, MREMAP_MAYMOVE | MREMAP_FIXED,
                           reserved + before);
    if (mapping == MAP_FAILED) {
        (void)munmap(reserved, reserved_size); /* only address space */
        return NULL;
    }
    if (before > 0) {
        (void)munmap(reserved, before); /* likewise */
    }
    (void)munmap(mapping + mapped_size, HUGE_PAGE - before); /* likewise; never empty */
    char *moved = mapping + offset;
    header_of(moved)->mapping = mapping;
    header_of(moved)->mapped_size = mapped_size;
    return moved;
}

/* Grows a block that has a mapping of its own, where it is or somewhere else. */
static void *grow_block(void *block, size_t size)
{
    const struct header *header = header_of(block);
    const size_t room = header->mapped_size - (size_t)((char *)block - (char *)header->mapping);
    const size_t old_size = header->size;
    RBT_ASSERT(size >= old_size);
    void *grown = size <= room ? block : move_block(block, size);
    if (grown != NULL) {
        header_of(grown)->size = size;
        atomic_fetch_add_explicit(&live_bytes, size - old_size, memory_order_relaxed);
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    }
    return grown;
}

void *rbt_realloc(void *block, size_t count, size_t size)
{
    size_t bytes = 0;
    const bool is_mapped = block != NULL && header_of(block)->mapped_size > 0;
    if (is_mapped && !__builtin_mul_overflow(count, size, &bytes) && bytes <= SIZE_MAX / 2 &&
        bytes >= header_of(block)->size) {
        return is_refused() ? NULL : grow_block(block, bytes);
    }
    void *grown = rbt_calloc(count, size);
    if (grown == NULL || block == NULL) {
        return grown;
    }
    const size_t old_size = header_of(block)->size;
    const size_t new_size = header_of(grown)->size;
    memcpy(grown, block, old_size < new_size ? old_size : new_size);
    rbt_free(block);
    return grown;
}

void rbt_free(void *block)
{
    if (block == NULL) {
        return;
    }
    struct header *header = header_of(block);
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_bytes, header->size, memory_order_relaxed);
    if (header->mapped_size > 0) {
        const int failed = munmap(header->mapping, header->mapped_size);
        RBT_ASSERT(failed == 0);
    } else {
        free(header);
    }
}

char *rbt_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = rbt_calloc(size, 1);
    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

void rbt_alloc_fail_nth(unsigned nth)
{
    atomic_store_explicit(&fail_countdown, nth, memory_order_relaxed);
}

size_t rbt_alloc_live(void)
{
    return atomic_load_explicit(&live_blocks, memory_order_relaxed);
}

size_t rbt_alloc_live_bytes(void)
{
    return atomic_load_explicit(&live_bytes, memory_order_relaxed);
}

uint64_t rbt_alloc_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

void rbt_alloc_trim(void)
{
    (void)malloc_trim(0); /* whether there was anything does not matter */
}
