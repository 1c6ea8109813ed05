/* client/sender.c - the thread that writes what the kernel would not take at once.
 *
 * It never waits for a carrier's mutex: whoever holds it is driving the connections, and will wake
 * us again if something is left when it stops. */
#include "client/sender.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"
#include "client/sockets.h"

struct rbt_sender {
    struct rbt_sockets *carriers;
    uint32_t carrier_count;
    int event;            /* readable when somebody wakes us */
    struct pollfd *polls; /* the event, then one for each carrier and shard */
    pthread_t thread;
    bool is_running;
    atomic_bool must_stop;
};

void rbt_sender_wake(rbt_sender *sender)
{
    const uint64_t one = 1;
    const ssize_t written = write(sender->event, &one, sizeof one);
    (void)written; /* it can only be full, and then it is readable */
}

/* With the mutex held: writes what waits to be written; and what to poll for, room for shard_count.
 * Returns how many sockets have something left. */
static size_t send_rest(struct rbt_sockets *carrier, struct pollfd *polls)
{
    const struct rbt_caller *caller = &carrier->carrier.caller;
    size_t count = 0;
    for (uint32_t i = 0; caller->status == RBT_OK && i < caller->shared->shard_count; i++) {
        struct rbt_line *line = &carrier->lines[i];
        if (caller->streams[i].state != RBT_STREAM_UP) {
            continue;
        }
        (void)rbt_line_flush(line); /* what may have come is the worker's business */
        if (rbt_line_queued(line) > 0) {
            (void)rbt_line_prepare(line, &polls[count]); /* the same */
            polls[count].events &= POLLOUT;
            count += polls[count].events != 0; /* else it is broken, and would always be ready */
        }
    }
    return count;
}

static void *run(void *argument)
{
    rbt_sender *sender = argument;
    for (;;) { /* until it must stop */
        size_t count = 1;
        uint64_t ignored = 0;
        const ssize_t got = read(sender->event, &ignored, sizeof ignored);
        (void)got; /* there may be nothing */
        /* After the read, which may have taken the wake-up that tells of it, or it would sleep for
         * ever. acquire: pairs with the release in rbt_sender_stop() */
        if (atomic_load_explicit(&sender->must_stop, memory_order_acquire)) {
            break;
        }
        for (uint32_t i = 0; i < sender->carrier_count; i++) {
            if (pthread_mutex_trylock(&sender->carriers[i].mutex) == 0) {
                count += send_rest(&sender->carriers[i], sender->polls + count);
                (void)pthread_mutex_unlock(&sender->carriers[i].mutex); /* it is ours */
            }
        }
        sender->polls[0] = (struct pollfd){.fd = sender->event, .events = POLLIN};
        (void)poll(sender->polls, count, -1); /* whatever happens, we look again */
    }
    return NULL;
}

rbt_status rbt_sender_start(struct rbt_sockets *carriers, uint32_t carrier_count,
                            uint32_t shard_count, rbt_sender **sender)
{
    rbt_sender *s = rbt_calloc(1, sizeof *s);
    if (s == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for connections");
    }
    s->carriers = carriers;
    s->carrier_count = carrier_count;
    s->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s->polls = rbt_calloc((size_t)carrier_count * shard_count + 1, sizeof *s->polls);
    rbt_status st = s->event < 0 ? rbt_fail(RBT_E_IO, "could not start a sender") : RBT_OK;
    if (st == RBT_OK && s->polls == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory for connections");
    }
    if (st == RBT_OK) {
        s->is_running = rbt_thread_create(&s->thread, run, s) == 0;
        st = s->is_running ? RBT_OK : rbt_fail(RBT_E_NOMEM, "could not start a sender");
    }
    if (st != RBT_OK) {
        rbt_sender_stop(s);
        return st;
    }
    *sender = s;
    return RBT_OK;
}

void rbt_sender_stop(rbt_sender *sender)
{
    if (sender == NULL) {
        return;
    }
    if (sender->is_running) {
        /* release: pairs with the acquire in run() */
        atomic_store_explicit(&sender->must_stop, true, memory_order_release);
        rbt_sender_wake(sender);
        const int error = pthread_join(sender->thread, NULL);
        RBT_ASSERT(error == 0);
    }
    if (sender->event >= 0) {
        (void)close(sender->event);
    }
    rbt_free(sender->polls);
    rbt_free(sender);
}
