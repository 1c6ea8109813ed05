/* base/block.c - a message in memory, counted.
 *
 * Long blocks are used again and again: fresh memory of that size comes from the kernel, page by
 * page, and costs more than filling it. Each thread keeps a few that it has done with. */
#include "base/block.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum {
    SPARE_MAX = 16,          /* blocks that a thread keeps */
    SPARE_LEAST = 32 << 10,  /* shorter ones are not worth it */
    SPARE_BYTES = 256 << 20, /* in all */
};

struct spares {
    struct rbt_block *blocks[SPARE_MAX];
    uint32_t count;
    size_t bytes;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* only for its destructor */
static bool has_key;
static _Thread_local struct spares *own;

static void free_spares(void *argument)
{
    struct spares *spares = argument;
    for (uint32_t i = 0; i < spares->count; i++) {
        rbt_free(spares->blocks[i]);
    }
    rbt_free(spares);
    own = NULL;
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, free_spares) == 0;
}

void rbt_block_trim(void)
{
    if (own != NULL) {
        (void)pthread_setspecific(key, NULL); /* clearing needs no memory */
        free_spares(own);
    }
}

/* The smallest spare block that is large enough and not far too large; NULL if there is none. */
static struct rbt_block *take_spare(size_t capacity)
{
    struct spares *spares = own;
    uint32_t best = SPARE_MAX;
    for (uint32_t i = 0; spares != NULL && i < spares->count; i++) {
        const size_t has = spares->blocks[i]->capacity;
        if (has >= capacity && has / 2 <= capacity &&
            (best == SPARE_MAX || has < spares->blocks[best]->capacity)) {
            best = i;
        }
    }
    if (best == SPARE_MAX) {
        return NULL;
    }
    struct rbt_block *block = spares->blocks[best];
    spares->blocks[best] = spares->blocks[--spares->count];
    spares->bytes -= block->capacity;
    return block;
}

/* Keeps a block for later. Returns false if it should be freed instead. */
static bool keep_spare(struct rbt_block *block)
{
    if (own == NULL && pthread_once(&once, make_key) == 0 && has_key) {
        own = rbt_calloc(1, sizeof *own);
        if (own != NULL && pthread_setspecific(key, own) != 0) {
            rbt_free(own);
            own = NULL;
        }
    }
    if (own == NULL || own->count == SPARE_MAX || own->bytes + block->capacity > SPARE_BYTES) {
        return false;
    }
    own->blocks[own->count++] = block;
    own->bytes += block->capacity;
    return true;
}

struct rbt_block *rbt_block_create(size_t capacity)
{
    size_t size = 0;
    if (__builtin_add_overflow(sizeof(struct rbt_block), capacity, &size)) {
        return NULL;
    }
    struct rbt_block *block = capacity >= SPARE_LEAST ? take_spare(capacity) : NULL;
    if (block == NULL) {
        block = rbt_alloc(size);
        if (block == NULL) {
            return NULL;
        }
        block->capacity = capacity;
    }
    atomic_init(&block->references, 1);
    block->bytes = 0;
    block->tail = NULL;
    block->tail_at = 0;
    block->class = 0;
    block->sent = 0;
    return block;
}

/* Copies the tail from the byte number `from` of the block on. */
static void own_from(struct rbt_block *block, size_t from)
{
    if (block->tail != NULL) {
        RBT_ASSERT(block->tail_at <= block->bytes && block->bytes <= block->capacity);
        const size_t first = from > block->tail_at ? from : block->tail_at;
        memcpy(block->data + first, block->tail + (first - block->tail_at), block->bytes - first);
        block->tail = NULL;
    }
}

void rbt_block_own(struct rbt_block *block)
{
    own_from(block, 0);
}

void rbt_block_own_rest(struct rbt_block *block)
{
    own_from(block, block->sent);
}

void rbt_block_unref(struct rbt_block *block)
{
    if (block == NULL) {
        return;
    }
    /* acq_rel: the last one sees what the others have done with it */
    const uint32_t before = atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel);
    RBT_ASSERT(before > 0);
    if (before == 1 && (block->capacity < SPARE_LEAST || !keep_spare(block))) {
        rbt_free(block);
    }
}
