/* cli/role_line.h - what the processes of a cluster have in common on the command line: the key,
 * the time-outs, and being a child of `rubato run`.
 *
 *     struct rbt_role_line role; // rbt_option_parse() with rbt_role_line_table(&role)
 *     rbt_status st = rbt_role_line_begin(&role);
 *     ...
 *     rbt_role_line_end(&role);
 *
 * Threads: rbt_role_line_begin() must be called before there are others. */
#ifndef RUBATO_CLI_ROLE_LINE_H
#define RUBATO_CLI_ROLE_LINE_H

#include <stdbool.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"
#include "base/option.h"
#include "net/security.h"

struct rbt_role_line {
    const char *key;  /* file, or NULL */
    bool is_insecure; /* TCP without a key is meant */
    double start_timeout;
    double timeout;
    bool is_quiet;
    bool is_child;   /* --die-with-stdin */
    bool is_program; /* this process will become another program; the caller sets it */
    /* What rbt_role_line_begin() makes of it. */
    char key_text[RBT_KEY_TEXT]; /* "" if there is none */
    rbt_security *security;      /* NULL: plain */
    bool has_warned;             /* that there is no key */
};

struct rbt_option_table rbt_role_line_table(struct rbt_role_line *role);

/* Ties a child to its parent and reads the key. Fails with RBT_E_INVALID, RBT_E_IO or what
 * launch/child.h says. */
RBT_MUST_USE rbt_status rbt_role_line_begin(struct rbt_role_line *role);
void rbt_role_line_end(struct rbt_role_line *role);

/* Reads the key of a file, or of the one that RUBATO_KEY names if `path` is NULL; "" if there is
 * neither. */
RBT_MUST_USE rbt_status rbt_role_line_key(const char *path, char text[static RBT_KEY_TEXT]);

/* Where the coordinator is: `given`, or what RUBATO_COORDINATOR says. Fails with RBT_E_INVALID. */
RBT_MUST_USE rbt_status rbt_role_line_coordinator(const char *given, const char **address);

/* Whether the address may be used: over TCP there must be a key, unless that is not wanted. After
 * rbt_role_line_begin(). Fails with RBT_E_INVALID. */
RBT_MUST_USE rbt_status rbt_role_line_allow(struct rbt_role_line *role, const char *address);

rbt_time rbt_role_line_time(double seconds);

/* How long a process may be without a connection: a process that is not there does not come back,
 * so less than for one that is silent. */
rbt_time rbt_role_line_cut(const struct rbt_role_line *role);

#endif
