/* server/doorway.c - how connections come to a shard's thread. Threads: the shard's, with the
 * core's mutex. */
#include <poll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "server/shard_state.h"

/* Connections before those that were accepted have their turn. tidy: allow limit, because those of
 * the coordinator are others. */
enum { ACCEPT_MAX = 16 };

#define DEAF_TIME INT64_C(10000000000) /* before the log is told again that nobody is accepted */

static void add_peer(rbt_shard_thread *thread, int socket)
{
    const struct rbt_channel_options options = {
        .security = thread->security, .is_server = true, .body_max = RBT_WIRE_SHORT_MAX};
    struct rbt_shard_peer *peer = rbt_calloc(1, sizeof *peer);
    if (peer == NULL) {
        (void)close(socket);
        return;
    }
    char name[RBT_ADDRESS_MAX];
    rbt_address_describe(socket, name);
    *peer = (struct rbt_shard_peer){.thread = thread};
    const struct rbt_watcher watcher = {.on_events = rbt_shard_peer_work, .context = peer};
    rbt_status st = rbt_channel_open(socket, &options, &peer->channel);
    st = st != RBT_OK ? st : rbt_loop_watch(thread->loop, socket, POLLIN, &watcher, &peer->watch);
    st = st != RBT_OK ? st : rbt_shard_peer_add(peer, name);
    if (st != RBT_OK) {
        if (peer->watch != NULL) {
            rbt_watch_close(peer->watch);
        }
        rbt_channel_close(peer->channel);
        rbt_free(peer);
    }
}

/* There are no descriptors. If strangers have them, some have to go, and will have gone before the
 * next turn; else who waits would wake us for nothing, again and again, until somebody leaves. */
static void go_deaf(rbt_shard_thread *thread)
{
    const rbt_time now = rbt_clock_now();
    if (rbt_service_strangers(thread->service) == 0) {
        thread->is_deaf = true;
        rbt_watch_change(thread->listening, 0);
    } else {
        rbt_shard_thread_step(
            thread, &(struct rbt_service_event){.kind = RBT_SERVICE_SHED, .shed = ACCEPT_MAX});
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
