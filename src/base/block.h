/* base/block.h - a message in memory, counted: it may wait in a queue to be sent, and at the same
 * time be kept to be sent again.
 *
 * Threads: a block and all who hold it belong to one thread; but whoever hands its reference to
 * another thread (net/nearby.h) may give back others that it still has. */
#ifndef RUBATO_BASE_BLOCK_H
#define RUBATO_BASE_BLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rbt_block {
    atomic_uint_least32_t references;
    size_t capacity;
    size_t bytes;
    union {
        /* The bytes from tail_at on are elsewhere, in memory that is not the block's; NULL: they
         * are not. Whoever is about to change that memory calls rbt_block_own() before. */
        const char *tail;
        struct rbt_block *next; /* of a block that nobody holds, in a list of such */
    };
    size_t tail_at;
    uint32_t class; /* whatever its sender counts it as; at first 0 */
    size_t sent;    /* how much of it the channel that has it in front has written */
    _Alignas(64) char data[];
};

/* With one reference, `bytes` 0 and anything in it; NULL without memory. It may be one that the
 * calling thread has given back: who sends and receives the same again and again allocates nothing.
 */
struct rbt_block *rbt_block_create(size_t capacity);

static inline void rbt_block_ref(struct rbt_block *block)
{
    (void)atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
}

/* Accepts NULL. */
void rbt_block_unref(struct rbt_block *block);

/* Copies the tail, if there is one, into the block: all of it, or what has not been sent, for
 * blocks that will not be sent again. */
void rbt_block_own(struct rbt_block *block);
void rbt_block_own_rest(struct rbt_block *block);

/* Frees the blocks that the calling thread keeps to use again; ending the thread does the same. */
void rbt_block_trim(void);

#endif
