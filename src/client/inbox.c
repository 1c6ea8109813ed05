/* client/inbox.c - blocks that other threads of this process have for one thread. */
#include "client/inbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

struct rbt_inbox_entry {
    struct rbt_inbox_entry *next;
    struct rbt_block *block;
};

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
    (void)close(inbox->event);
    (void)pthread_mutex_destroy(&inbox->mutex); /* nobody delivers any more */
}

void rbt_inbox_deliver(void *context, struct rbt_block *block)
{
    struct rbt_inbox *inbox = context;
    struct rbt_inbox_entry *entry = rbt_calloc(1, sizeof *entry);
    pthread_mutex_lock(&inbox->mutex);
    if (entry == NULL) {
        inbox->is_full = true;
    } else {
        *entry = (struct rbt_inbox_entry){.block = block};
        if (inbox->last == NULL) {
            inbox->first = entry;
        } else {
            inbox->last->next = entry;
        }
        inbox->last = entry;
    }
    const bool is_own = pthread_equal(pthread_self(), inbox->owner);
    pthread_mutex_unlock(&inbox->mutex);
    if (entry == NULL) {
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
    struct rbt_inbox_entry *entry = is_full ? NULL : inbox->first;
    if (entry != NULL) {
        inbox->first = entry->next;
        inbox->last = inbox->first == NULL ? NULL : inbox->last;
    } else {
        uint64_t count = 0;
        const ssize_t got = read(inbox->event, &count, sizeof count);
        (void)got; /* there may be nothing; what comes now makes it readable again */
    }
    pthread_mutex_unlock(&inbox->mutex);
    if (is_full) {
        return rbt_fail(RBT_E_NOMEM, "no memory for an answer");
    }
    if (entry == NULL) {
        return RBT_E_BUSY;
    }
    *block = entry->block;
    rbt_free(entry);
    return RBT_OK;
}

bool rbt_inbox_is_empty(struct rbt_inbox *inbox)
{
    pthread_mutex_lock(&inbox->mutex);
    /* Each run has threads of its own, and another of them may have got the last owner's name. Who
     * is about to sleep says who it is. */
    inbox->owner = pthread_self();
    const bool is_empty = inbox->first == NULL && !inbox->is_full;
    pthread_mutex_unlock(&inbox->mutex);
    return is_empty;
}
