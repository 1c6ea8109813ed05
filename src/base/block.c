/* base/block.c - a message in memory, counted.
 *
 * Blocks are used again and again: the heap costs more than filling a short one, and long ones come
 * from the kernel, page by page. Each thread keeps those that it has done with: of long ones a few,
 * of short ones as many as it once had, in lists by capacity. Capacities of short ones are rounded
 * up to one of four steps per doubling, so that a message of a few bytes more finds a block, too.
 *
 * Cost: O(1) for short blocks, O(SPARE_MAX) for long ones. */
#include "base/block.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum {
    SPARE_MAX = 16,          /* long blocks that a thread keeps */
    SPARE_BYTES = 256 << 20, /* of these, in all */
    SHORT_MAX = 32 << 10,    /* bytes of a short block */
    SHORT_BYTES = 4 << 20,   /* of short blocks that a thread keeps, in all */
    SHORT_UNIT = 64,         /* their capacities are multiples of it */
    SHORT_CLASSES = 32,
    SHORT_REACH = 4, /* classes above its own that a block may come from: twice the capacity */
};

struct spares {
    struct rbt_block *blocks[SPARE_MAX];
    uint32_t count;
    size_t bytes;
    struct rbt_block *shorts[SHORT_CLASSES]; /* the first of each list */
    size_t short_bytes;
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
    for (uint32_t i = 0; i < SHORT_CLASSES; i++) {
        while (spares->shorts[i] != NULL) {
            struct rbt_block *next = spares->shorts[i]->next;
            rbt_free(spares->shorts[i]);
            spares->shorts[i] = next;
        }
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

/* The class of a short block that has room for so many bytes; `capacity` becomes that of all blocks
 * of the class. Up to four units each has its own, then there are four per doubling. */
static uint32_t class_of(size_t *capacity)
{
    RBT_ASSERT(*capacity <= SHORT_MAX);
    const uint32_t last = *capacity == 0 ? 0 : (uint32_t)((*capacity - 1) / SHORT_UNIT);
    const uint32_t top = last < 4 ? 2 : 31 - (uint32_t)__builtin_clz(last);
    const uint32_t shift = top - 2;
    const uint32_t steps = last >> shift; /* 0 .. 3 of the first units, else 4 .. 7 */
    *capacity = (size_t)(steps + 1) * SHORT_UNIT << shift;
    return 4 * shift + steps;
}

static struct rbt_block *take_short(uint32_t class)
{
    struct spares *spares = own;
    for (uint32_t i = class; spares != NULL && i < SHORT_CLASSES && i <= class + SHORT_REACH; i++) {
        struct rbt_block *block = spares->shorts[i];
        if (block != NULL) {
            spares->shorts[i] = block->next;
            spares->short_bytes -= block->capacity;
            return block;
        }
    }
    return NULL;
}

/* The smallest spare block that is large enough and not far too large; NULL if there is none. */
static struct rbt_block *take_long(size_t capacity)
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

/* The calling thread's spares; NULL without memory. */
static struct spares *own_spares(void)
{
    if (own == NULL && pthread_once(&once, make_key) == 0 && has_key) {
        own = rbt_calloc(1, sizeof *own);
        if (own != NULL && pthread_setspecific(key, own) != 0) {
            rbt_free(own);
            own = NULL;
        }
    }
    return own;
}

/* Keeps a block for later. Returns false if it should be freed instead. */
static bool keep_spare(struct rbt_block *block)
{
    struct spares *spares = own_spares();
    size_t capacity = block->capacity;
    if (spares == NULL) {
        return false;
    }
    if (capacity > SHORT_MAX) {
        if (spares->count == SPARE_MAX || spares->bytes + capacity > SPARE_BYTES) {
            return false;
        }
        spares->blocks[spares->count++] = block;
        spares->bytes += capacity;
        return true;
    }
    if (spares->short_bytes + capacity > SHORT_BYTES) {
        return false;
    }
    const uint32_t class = class_of(&capacity);
    RBT_ASSERT(capacity == block->capacity);
    block->next = spares->shorts[class];
    spares->shorts[class] = block;
    spares->short_bytes += capacity;
    return true;
}

struct rbt_block *rbt_block_create(size_t capacity)
{
    size_t size = 0;
    struct rbt_block *block =
        capacity > SHORT_MAX ? take_long(capacity) : take_short(class_of(&capacity));
    if (__builtin_add_overflow(sizeof(struct rbt_block), capacity, &size)) {
        return NULL;
    }
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
    if (before == 1 && !keep_spare(block)) {
        rbt_free(block);
    }
}
