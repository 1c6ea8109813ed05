/* base/thread.c - a team of threads that does one thing and ends. */
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

/* Members begin when all of them exist, or not at all: they may wait for each other. */
struct team {
    pthread_mutex_t mutex; /* held while members are being started; guards is_complete */
    bool is_complete;
};

struct member {
    struct team *team;
    pthread_t thread;
    rbt_status (*function)(void *argument, uint32_t index);
    void *argument;
    uint32_t index;
    rbt_status status;
    struct rbt_error_record error;
};

uint32_t rbt_thread_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 1;
    }
    const int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count;
}

static void *run_member(void *argument)
{
    struct member *member = argument;
    (void)pthread_mutex_lock(&member->team->mutex); /* cannot fail: it is ours and not held by us */
    const bool is_complete = member->team->is_complete;
    (void)pthread_mutex_unlock(&member->team->mutex);
    if (!is_complete) {
        return NULL;
    }
    member->status = member->function(member->argument, member->index);
    if (member->status != RBT_OK) {
        rbt_error_save(&member->error);
    }
    return NULL;
}

int rbt_thread_create(pthread_t *thread, void *(*function)(void *argument), void *argument)
{
    pthread_attr_t attributes;
    size_t size = 0;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    error = pthread_attr_getstacksize(&attributes, &size);
    if (error == 0 && size < RBT_THREAD_STACK) {
        error = pthread_attr_setstacksize(&attributes, RBT_THREAD_STACK);
    }
    error = error != 0 ? error : pthread_create(thread, &attributes, function, argument);
    (void)pthread_attr_destroy(&attributes); /* always succeeds */
    return error;
}

/* Starts the members; returns how many run. */
static uint32_t start_members(struct member *members, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const int error = rbt_thread_create(&members[i].thread, run_member, &members[i]);
        if (error != 0) {
            errno = error;
            return i;
        }
    }
    return count;
}

rbt_status rbt_thread_run(uint32_t count, rbt_status (*function)(void *argument, uint32_t index),
                          void *argument)
{
    struct team team = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct member *members = rbt_calloc(count, sizeof *members);
    if (members == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %u threads", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        members[i].team = &team;
        members[i].function = function;
        members[i].argument = argument;
        members[i].index = i;
    }
    (void)pthread_mutex_lock(&team.mutex);
    const uint32_t started = start_members(members, count);
    team.is_complete = started == count;
    (void)pthread_mutex_unlock(&team.mutex);
    rbt_status st = RBT_OK;
    if (started < count) {
        st = rbt_fail(RBT_E_IO, "could not start thread %u of %u", started + 1, count);
    }
    for (uint32_t i = 0; i < started; i++) {
        const int error = pthread_join(members[i].thread, NULL);
        RBT_ASSERT(error == 0);
        if (members[i].status != RBT_OK && st == RBT_OK) {
            st = members[i].status;
            rbt_error_restore(&members[i].error);
        }
    }
    rbt_free(members);
    return st;
}
