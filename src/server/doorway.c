/* server/doorway.c - how connections come to a shard's thread: who is let in to say HELLO, and who
 * has to go for it. Threads: the shard's, with the core's mutex. */
#include <poll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "server/shard_state.h"

enum {
    STRANGERS_MAX = 256, /* connections that have not said who they are, beside those of workers */
    PER_HOST_MAX = 192,  /* the same, from one host */
    ACCEPT_MAX = 16,     /* connections before those that were accepted have their turn */
};

#define DEAF_TIME INT64_C(10000000000) /* before the log is told again that nobody is accepted */

static void turn_away(struct rbt_shard_peer *peer)
{
    rbt_shard_peer_note(peer, "too many have not said who they are, and it was the first of them");
    rbt_strangers_remove(&peer->thread->strangers, &peer->stranger);
    rbt_shard_peer_end(peer);
}

/* Makes room for somebody who comes from there. */
static void make_room(rbt_shard_thread *thread, const char *who)
{
    const uint64_t workers = rbt_admitted_workers(&thread->admitted); /* all may come at once */
    const struct rbt_strangers_limits limits = {.all = STRANGERS_MAX + workers,
                                                .per_host = PER_HOST_MAX + workers};
    struct rbt_stranger *oldest = rbt_strangers_displaced(&thread->strangers, who, &limits);
    if (oldest != NULL) {
        turn_away((struct rbt_shard_peer *)oldest);
    }
}

static void add_peer(rbt_shard_thread *thread, int socket)
{
    const struct rbt_channel_options options = {
        .security = thread->security, .is_server = true, .body_max = RBT_WIRE_SHORT_MAX};
    struct rbt_shard_peer *peer = rbt_calloc(1, sizeof *peer);
    if (peer == NULL) {
        (void)close(socket);
        return;
    }
    *peer = (struct rbt_shard_peer){.thread = thread, .since = rbt_clock_now()};
    rbt_address_describe(socket, peer->name);
    peer->guest = (struct rbt_guest){
        .worker = RBT_FRAME_NOBODY, .send = rbt_shard_peer_send, .context = peer};
    const struct rbt_watcher watcher = {.on_events = rbt_shard_peer_work, .context = peer};
    rbt_status st = rbt_channel_open(socket, &options, &peer->channel);
    if (st == RBT_OK) {
        st = rbt_loop_watch(thread->loop, socket, POLLIN, &watcher, &peer->watch);
    }
    if (st != RBT_OK) {
        rbt_channel_close(peer->channel);
        rbt_free(peer);
        return;
    }
    make_room(thread, peer->name);
    rbt_strangers_add(&thread->strangers, &peer->stranger, peer->name);
    peer->next = thread->peers;
    thread->peers = peer;
}

/* There are no descriptors. If strangers have them, some have to go, and will have gone before the
 * next turn; else who waits would wake us for nothing, again and again, until somebody leaves. */
static void go_deaf(rbt_shard_thread *thread)
{
    const rbt_time now = rbt_clock_now();
    if (thread->strangers.oldest == NULL) {
        thread->is_deaf = true;
        rbt_watch_change(thread->listening, 0);
    }
    for (int i = 0; i < ACCEPT_MAX && thread->strangers.oldest != NULL; i++) {
        turn_away((struct rbt_shard_peer *)thread->strangers.oldest);
    }
    if (thread->deaf_logged == 0 || now - thread->deaf_logged > DEAF_TIME) {
        thread->deaf_logged = now;
        rbt_log(thread->log, RBT_LOG_WARN, "server",
                "%s; raise the limit of open files (ulimit -n)", rbt_last_error());
    }
}

/* Takes connections that wait; the core's mutex is held. */
void rbt_doorway_accept(rbt_shard_thread *thread)
{
    for (int i = 0; i < ACCEPT_MAX; i++) {
        int socket = -1;
        const rbt_status st = rbt_address_accept(thread->listener, &socket);
        if (st == RBT_E_BUSY) {
            return;
        }
        if (st != RBT_OK) {
            go_deaf(thread);
            return;
        }
        add_peer(thread, socket);
    }
}
