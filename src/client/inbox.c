/* client/inbox.c - blocks that other threads of this process have for one thread. */
#include "client/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { CAPACITY_MIN = 16 };

rbt_status rbt_inbox_init(struct rbt_inbox *inbox)
{
    *inbox = (struct rbt_inbox){.event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                                .owner = pthread_self()};
    if (inbox->event < 0) {
        return rbt_fail(RBT_E_IO, "could not make an inbox");
    }
    const int error = pthread_mutex_init(&inbox->mutex, NULL);
    RBT_ASSERT(error == 0);
    return RBT_OK;
}

void rbt_inbox_deinit(struct rbt_inbox *inbox)
{
    inbox->is_full = false; /* or what is there could not be taken */
    struct rbt_block *block = NULL;
    while (rbt_inbox_take(inbox, &block) == RBT_OK) {
        rbt_block_unref(block);
    }
    rbt_free(inbox->ring);
    (void)close(inbox->event);
    (void)pthread_mutex_destroy(&inbox->mutex); /* nobody delivers any more */
}

/* Adds a block as the newest; false without memory. */
static bool add(struct rbt_inbox *inbox, struct rbt_block *block)
{
    if (inbox->count == inbox->capacity) {
        const uint32_t capacity = inbox->capacity == 0 ? CAPACITY_MIN : inbox->capacity * 2;
        struct rbt_block **ring = rbt_calloc(capacity, sizeof(struct rbt_block *));
        if (ring == NULL) {
            return false;
        }
        for (uint32_t i = 0; i < inbox->count; i++) {
            ring[i] = inbox->ring[(inbox->first + i) & (inbox->capacity - 1)];
        }
        rbt_free(inbox->ring);
        inbox->ring = ring;
        inbox->capacity = capacity;
        inbox->first = 0;
    }
    inbox->ring[(inbox->first + inbox->count++) & (inbox->capacity - 1)] = block;
    return true;
}

void rbt_inbox_deliver(void *context, struct rbt_block *block)
{
    struct rbt_inbox *inbox = context;
    pthread_mutex_lock(&inbox->mutex);
    const bool is_added = add(inbox, block);
    inbox->is_full = inbox->is_full || !is_added;
    const bool is_own = pthread_equal(pthread_self(), inbox->owner);
    pthread_mutex_unlock(&inbox->mutex);
    if (!is_added) {
        rbt_block_unref(block);
    }
    if (!is_own) {
        const uint64_t one = 1;
        const ssize_t written = write(inbox->event, &one, sizeof one);
        (void)written; /* it can only be full, and then it is readable */
    }
}

rbt_status rbt_inbox_take(struct rbt_inbox *inbox, struct rbt_block **block)
{
    pthread_mutex_lock(&inbox->mutex);
    const bool is_full = inbox->is_full;
    const bool has_one = !is_full && inbox->count > 0;
    if (has_one) {
        *block = inbox->ring[inbox->first];
        inbox->first = (inbox->first + 1) & (inbox->capacity - 1);
        inbox->count--;
    } else {
        uint64_t count = 0;
        const ssize_t got = read(inbox->event, &count, sizeof count);
        (void)got; /* there may be nothing; what comes now makes it readable again */
    }
    pthread_mutex_unlock(&inbox->mutex);
    if (is_full) {
        return rbt_fail(RBT_E_NOMEM, "no memory for an answer");
    }
    return has_one ? RBT_OK : RBT_E_BUSY;
}

bool rbt_inbox_is_empty(struct rbt_inbox *inbox)
{
    pthread_mutex_lock(&inbox->mutex);
    /* Each run has threads of its own, and another of them may have got the last owner's name. Who
     * is about to sleep says who it is. */
    inbox->owner = pthread_self();
    const bool is_empty = inbox->count == 0 && !inbox->is_full;
    pthread_mutex_unlock(&inbox->mutex);
    return is_empty;
}
