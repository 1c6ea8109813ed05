/* proto/strangers.c - connections that have not said who they are. */
#include "proto/strangers.h"

#include <string.h>

#include "base/assert.h"

enum { LOG_MAX = 10 };

#define SECOND INT64_C(1000000000)

/* The host of "10.0.0.1:5000", "[::1]:5000" and "this host (pid 17)": what stands before the last
 * colon or the bracket. */
static size_t host_size(const char *who)
{
    const char *end = strrchr(who, ':');
    end = end != NULL ? end : strchr(who, '(');
    const size_t size = end != NULL ? (size_t)(end - who) : strlen(who);
    return size < RBT_ADDRESS_MAX ? size : RBT_ADDRESS_MAX - 1;
}

static bool is_from(const struct rbt_stranger *stranger, const char *who)
{
    const size_t size = host_size(who);
    return strlen(stranger->host) == size && memcmp(stranger->host, who, size) == 0;
}

void rbt_strangers_add(struct rbt_strangers *strangers, struct rbt_stranger *stranger,
                       const char *who)
{
    const size_t size = host_size(who);
    *stranger = (struct rbt_stranger){.older = strangers->newest, .is_listed = true};
    memcpy(stranger->host, who, size);
    if (strangers->newest != NULL) {
        strangers->newest->newer = stranger;
    } else {
        strangers->oldest = stranger;
    }
    strangers->newest = stranger;
    strangers->count++;
}

void rbt_strangers_remove(struct rbt_strangers *strangers, struct rbt_stranger *stranger)
{
    if (!stranger->is_listed) {
        return;
    }
    RBT_ASSERT(strangers->count > 0);
    if (stranger->older != NULL) {
        stranger->older->newer = stranger->newer;
    } else {
        strangers->oldest = stranger->newer;
    }
    if (stranger->newer != NULL) {
        stranger->newer->older = stranger->older;
    } else {
        strangers->newest = stranger->older;
    }
    strangers->count--;
    stranger->is_listed = false;
}

struct rbt_stranger *rbt_strangers_displaced(const struct rbt_strangers *strangers, const char *who,
                                             const struct rbt_strangers_limits *limits)
{
    struct rbt_stranger *first = NULL; /* the oldest of this host */
    uint64_t count = 0;
    for (struct rbt_stranger *s = strangers->oldest; s != NULL; s = s->newer) {
        if (is_from(s, who)) {
            first = first == NULL ? s : first;
            count++;
        }
    }
    if (count >= limits->per_host && first != NULL) {
        return first;
    }
    return strangers->count >= limits->all ? strangers->oldest : NULL;
}

bool rbt_strangers_may_log(struct rbt_strangers *strangers, rbt_time now)
{
    if (now / SECOND != strangers->log_second) {
        strangers->log_second = now / SECOND;
        strangers->log_count = 0;
    }
    return ++strangers->log_count <= LOG_MAX;
}
