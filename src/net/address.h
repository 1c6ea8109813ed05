/* net/address.h - where a process listens: "unix:PATH", or "HOST:PORT" for TCP ("[::1]:7000" for
 * IPv6), and sockets for both.
 *
 * A Unix socket's file is readable and writable by its owner alone. TCP sockets send at once
 * (TCP_NODELAY) and notice a silent network (TCP_USER_TIMEOUT). All sockets are non-blocking and
 * closed on exec.
 *
 * Threads: any; no state. */
#ifndef RUBATO_NET_ADDRESS_H
#define RUBATO_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "proto/port.h"

/* Whether it is "unix:..."; whether nobody outside this host can reach it (Unix, or a loopback
 * address). */
bool rbt_address_is_unix(const char *address);
bool rbt_address_is_local(const char *address);

/* Whether the text is an address at all: RBT_E_INVALID and a sentence, if not. */
RBT_MUST_USE rbt_status rbt_address_check(const char *address);

/* Listens. Port 0 takes any free port; `actual` is where it came to be, printed. "0.0.0.0:P" and
 * "[::]:P" listen on all interfaces, only because they were asked to. A socket file that nobody
 * listens on any more is replaced. Fails with RBT_E_IO and one sentence for each mistake: the port
 * is in use, the address is not one of this host's, the host has no address, the directory of the
 * socket file does not exist or may not be written. */
RBT_MUST_USE rbt_status rbt_address_listen(const char *address, char actual[static RBT_ADDRESS_MAX],
                                           int *socket);

/* Accepts one connection, or RBT_E_BUSY if none waits. */
RBT_MUST_USE rbt_status rbt_address_accept(int listener, int *socket);

/* Where an accepted connection comes from, for people: "10.0.0.7:4711", "this host (pid 12)". */
void rbt_address_describe(int socket, char who[static RBT_ADDRESS_MAX]);

/* Begins to connect; when the socket becomes writable, rbt_address_finish() says how it went:
 * RBT_OK, or RBT_E_IO with a sentence ("could not reach 10.0.0.7:7000: connection refused"); the
 * socket stays the caller's. Names are looked up now, which may take time. */
RBT_MUST_USE rbt_status rbt_address_begin(const char *address, int *socket);
RBT_MUST_USE rbt_status rbt_address_finish(const char *address, int socket);

/* A name may stand for several places: begins with the `first` of them (modulo their number), and
 * goes on to the next while one fails at once. Who tries again and again counts upwards. */
RBT_MUST_USE rbt_status rbt_address_begin_at(const char *address, size_t first, int *socket);

/* Both, waiting until `deadline` at most, and trying again while nobody listens there yet:
 * RBT_E_TIMEOUT, and the sentence says for how long it was tried and what came last. Gives up early
 * when `cancel` (a descriptor, or -1) becomes readable: RBT_E_INTERRUPTED. */
RBT_MUST_USE rbt_status rbt_address_connect(const char *address, rbt_time deadline, int cancel,
                                            int *socket);

#endif
