/* net/nearby.c - shards in this very process: a short list under a mutex. */
#include "net/nearby.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "net/address.h"

enum { NEARBY_MAX = 256 };

struct entry {
    char address[RBT_ADDRESS_MAX];
    struct rbt_nearby nearby;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* rank LEAF; guards all below */
static struct entry entries[NEARBY_MAX];
static uint32_t entry_count;
static bool hidden;

void rbt_nearby_hide(bool is_hidden)
{
    pthread_mutex_lock(&mutex);
    hidden = is_hidden;
    pthread_mutex_unlock(&mutex);
}

rbt_status rbt_nearby_add(const char *address, const struct rbt_nearby *nearby)
{
    rbt_status st = RBT_OK;
    pthread_mutex_lock(&mutex);
    if (entry_count == NEARBY_MAX) {
        st = rbt_fail(RBT_E_BUSY, "a process has at most %d shards", NEARBY_MAX);
    } else {
        struct entry *entry = &entries[entry_count++];
        snprintf(entry->address, sizeof entry->address, "%s", address);
        entry->nearby = *nearby;
    }
    pthread_mutex_unlock(&mutex);
    return st;
}

/* The place of an address in the list, or entry_count; the mutex is held. */
static uint32_t find(const char *address)
{
    uint32_t at = 0;
    while (at < entry_count && strcmp(entries[at].address, address) != 0) {
        at++;
    }
    return at;
}

void rbt_nearby_remove(const char *address)
{
    pthread_mutex_lock(&mutex);
    const uint32_t at = find(address);
    if (at < entry_count) {
        entries[at] = entries[--entry_count];
    }
    pthread_mutex_unlock(&mutex);
}

rbt_status rbt_nearby_open(const char *address, const struct rbt_nearby_inbox *inbox,
                           struct rbt_nearby_connection *connection)
{
    pthread_mutex_lock(&mutex); /* held while it opens: the shard cannot go away meanwhile */
    const uint32_t at = find(address);
    rbt_status st = RBT_E_NOTFOUND;
    if (at < entry_count && !hidden) {
        const struct rbt_nearby *nearby = &entries[at].nearby;
        connection->ops = nearby->ops;
        st = nearby->ops->open(nearby->shard, inbox, &connection->connection);
    }
    pthread_mutex_unlock(&mutex);
    return st;
}
