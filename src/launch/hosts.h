/* launch/hosts.h - the hosts of a job, who runs where, and how to start it there.
 *
 * A hosts file has a host per line; what follows "#" is a comment:
 *
 *     # two big ones and a small one
 *     node1 slots=8
 *     node2 slots=8 address=10.0.0.2
 *     node3
 *
 * `slots` is how many worker processes run there before the next host is used (1 if not given);
 * `address` is what the others call it (its name if not given). Threads: none. */
#ifndef RUBATO_LAUNCH_HOSTS_H
#define RUBATO_LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "launch/argv.h"

enum { RBT_HOST_NAME = 256, RBT_HOST_SLOTS_MAX = 1024, RBT_HOSTS_MAX = 1024 };

struct rbt_host {
    char name[RBT_HOST_NAME];
    char address[RBT_HOST_NAME]; /* "" if not given */
    int64_t slots;
    bool is_here; /* this very host: no ssh */
};

/* All zeros is empty. */
struct rbt_hosts {
    struct rbt_host *items; /* owned */
    size_t count;
};

/* Reads a file, or a text that claims to be one. `own_name` is this host's. Fails with
 * RBT_E_INVALID, and the message has file and line; with RBT_E_IO and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_hosts_read(const char *path, const char *own_name,
                                       struct rbt_hosts *hosts);
RBT_MUST_USE rbt_status rbt_hosts_parse(const char *text, const char *path, const char *own_name,
                                        struct rbt_hosts *hosts);
void rbt_hosts_deinit(struct rbt_hosts *hosts);

/* The host of a server (the coordinator is on the first host, like server 0) and of a worker
 * process: servers one by one, worker processes slot by slot, and around again. */
const struct rbt_host *rbt_hosts_of_server(const struct rbt_hosts *hosts, uint64_t index);
const struct rbt_host *rbt_hosts_of_worker(const struct rbt_hosts *hosts, uint64_t index);

/* How many worker processes fill all slots. */
int64_t rbt_hosts_slots(const struct rbt_hosts *hosts);

/* Whether some host is not this one. */
bool rbt_hosts_has_far(const struct rbt_hosts *hosts);

/* Where a process on this host listens: "node1:0", "[fe80::1]:0", with any free port. */
void rbt_host_listen(const struct rbt_host *host, char *address, size_t size);

/* What starts the command line `argv` on the host: `ssh` (a command and its options), the host, and
 * one word for the shell there. */
void rbt_host_command(const struct rbt_host *host, const char *ssh, char *const *argv,
                      struct rbt_argv *words);

#endif
