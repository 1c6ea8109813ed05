/* base/alloc.c - the heap behind one door.
 *
 * Every block has a header of 64 bytes that remembers its size, so that it can be counted when it
 * is freed and so that data is aligned to a cache line. Large blocks come from mmap with huge
 * pages.
 *
 * Threads: any; the counters are relaxed atomics, because nobody orders anything by them. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"

enum {
    HEADER_SIZE = 64,
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

/* Maps `size` bytes, the data starting on a huge page when there is room for one. */
static void *map_block(size_t size)
{
    const size_t mapped_size = size + HUGE_PAGE + HEADER_SIZE;
    char *mapping =
        mmap(NULL, mapped_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return NULL;
    }
    const uintptr_t first = (uintptr_t)mapping + HEADER_SIZE;
    char *block = mapping + HEADER_SIZE + (HUGE_PAGE - first % HUGE_PAGE) % HUGE_PAGE;
    (void)madvise(mapping, mapped_size, MADV_HUGEPAGE); /* a wish; without it we are only slower */
    *header_of(block) =
        (struct header){.size = size, .mapped_size = mapped_size, .mapping = mapping};
    return block;
}

static void *take_block(size_t size)
{
    const size_t rounded = (size + HEADER_SIZE + 63) / 64 * 64;
    char *memory = aligned_alloc(64, rounded);
    if (memory == NULL) {
        return NULL;
    }
    memset(memory, 0, rounded);
    char *block = memory + HEADER_SIZE;
    *header_of(block) = (struct header){.size = size};
    return block;
}

void *rbt_calloc(size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 2 || is_refused()) {
        return NULL;
    }
    void *block = bytes >= HUGE_PAGE ? map_block(bytes) : take_block(bytes);
    if (block == NULL) {
        return NULL;
    }
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return block;
}

void *rbt_realloc(void *block, size_t count, size_t size)
{
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
