/* net/security.h - the key of a cluster, and TLS 1.3 with it.
 *
 * A key is 32 random bytes, in a file as 64 hexadecimal digits that only its owner may read. Both
 * sides of a connection prove that they have it (TLS 1.3 with an external pre-shared key, derived
 * from the cluster's, and an ephemeral exchange on top, so that a key that leaks later opens
 * nothing that was recorded before). Nothing that a peer sends is looked at before that.
 *
 * Threads: a security may be shared by all threads once it is open. */
#ifndef RUBATO_NET_SECURITY_H
#define RUBATO_NET_SECURITY_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum { RBT_KEY_BYTES = 32, RBT_KEY_TEXT = 65 };

typedef struct rbt_security rbt_security;

/* A new random key as text. */
RBT_MUST_USE rbt_status rbt_key_generate(char text[static RBT_KEY_TEXT]);

/* Writes it to a file that must not exist yet, mode 0600; or reads one, and refuses a file that
 * others may read, or that does not hold a key, with a sentence each. */
RBT_MUST_USE rbt_status rbt_key_write(const char *path, const char *text);
RBT_MUST_USE rbt_status rbt_key_read(const char *path, char text[static RBT_KEY_TEXT]);

/* A job may have a key of its own, beside the cluster's: who wants to join must have it. That of
 * its readers is derived from it, and nothing leads back. A permit is what a process shows to the
 * coordinator: derived from the job's key, or, `is_reader`, from that of its readers. */
enum { RBT_PERMIT_BYTES = 16 };
RBT_MUST_USE rbt_status rbt_key_of_readers(const char *job, char readers[static RBT_KEY_TEXT]);
RBT_MUST_USE rbt_status rbt_key_permit(const char *text, bool is_reader,
                                       unsigned char permit[static RBT_PERMIT_BYTES]);

/* Makes the two TLS contexts. `text` is 64 hexadecimal digits. */
RBT_MUST_USE rbt_status rbt_security_open(const char *text, rbt_security **security);
void rbt_security_close(rbt_security *security);

/* A TLS connection that is not over anything yet, for net/tls.c: an SSL of OpenSSL. */
RBT_MUST_USE rbt_status rbt_security_attach(const rbt_security *security, bool is_server,
                                            void **tls);

#endif
