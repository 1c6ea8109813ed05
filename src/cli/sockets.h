/* cli/sockets.h - a private directory for the Unix sockets of a run. Threads: none. */
#ifndef RUBATO_CLI_SOCKETS_H
#define RUBATO_CLI_SOCKETS_H

#include <rubato/export.h>
#include <rubato/status.h>

/* All zeros: there is none. */
struct rbt_sockets {
    char path[96]; /* an address of a Unix socket has 107 characters at most */
};

/* Makes a directory under $TMPDIR, or /tmp, that nobody else may enter. Fails with RBT_E_IO, and
 * with RBT_E_INVALID when its name would be too long. */
RBT_MUST_USE rbt_status rbt_sockets_make(struct rbt_sockets *sockets);

/* Removes it with the sockets that are left in it. */
void rbt_sockets_remove(struct rbt_sockets *sockets);

/* The same for the directory at `path`; one that is not there is as good. */
void rbt_sockets_clear(const char *path);

#endif
