/* net/tls.h - one connection's TLS, between a channel and its socket.
 *
 * Like a channel it never waits: RBT_E_BUSY means that the socket must become readable, or writable
 * if rbt_tls_unsent() is not zero. What is written is gathered into full records, and records into
 * few system calls.
 *
 * Threads: belongs to the channel's thread. */
#ifndef RUBATO_NET_TLS_H
#define RUBATO_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "net/security.h"

typedef struct rbt_tls rbt_tls;

/* The socket stays the caller's. */
RBT_MUST_USE rbt_status rbt_tls_open(const rbt_security *security, int socket, bool is_server,
                                     rbt_tls **tls);
void rbt_tls_close(rbt_tls *tls);

/* RBT_OK once both sides have shown that they have the key. RBT_E_PROTOCOL: the peer has not.
 * RBT_E_CLOSED: it left before. */
RBT_MUST_USE rbt_status rbt_tls_handshake(rbt_tls *tls);

/* Reads at most one record; `got` is above zero on success. */
RBT_MUST_USE rbt_status rbt_tls_read(rbt_tls *tls, char *to, size_t size, size_t *got);

/* Whether there is more to read without a system call; perhaps less than a whole record. */
bool rbt_tls_has_pending(const rbt_tls *tls);

/* Takes as many bytes as it can and says how many, also when it fails; with an empty list it only
 * sends what it has, also before the handshake is done. RBT_OK: all is taken and with the kernel.
 */
RBT_MUST_USE rbt_status rbt_tls_write(rbt_tls *tls, const struct iovec *pieces, size_t count,
                                      size_t *taken);

/* Bytes, encrypted, that wait for the socket. */
size_t rbt_tls_unsent(const rbt_tls *tls);

/* System calls so far. */
uint64_t rbt_tls_reads(const rbt_tls *tls);
uint64_t rbt_tls_writes(const rbt_tls *tls);

#endif
