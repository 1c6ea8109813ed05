/* net/block.c - a message in memory, counted. */
#include "net/block.h"

#include "base/alloc.h"
#include "base/assert.h"

struct rbt_block *rbt_block_create(size_t capacity)
{
    size_t size = 0;
    if (__builtin_add_overflow(sizeof(struct rbt_block), capacity, &size)) {
        return NULL;
    }
    struct rbt_block *block = rbt_calloc(1, size);
    if (block != NULL) {
        block->references = 1;
        block->capacity = capacity;
    }
    return block;
}

void rbt_block_unref(struct rbt_block *block)
{
    if (block == NULL) {
        return;
    }
    RBT_ASSERT(block->references > 0);
    block->references--;
    if (block->references == 0) {
        rbt_free(block);
    }
}
