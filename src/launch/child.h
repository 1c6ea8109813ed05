/* launch/child.h - what ties a child process to the launcher that started it.
 *
 * The launcher writes lines to the child's standard input, so that no secret stands on a command
 * line, where all users of the host can read it:
 *
 *     parent 4711              runs on the same host as the launcher, whose process this is
 *     key 3f2a...              the cluster's
 *     directory PATH           where to run
 *     set NAME=VALUE           into the environment
 *     go                       the last of them
 *
 * A child on the launcher's host then dies with the launcher by the kernel's help. One on another
 * host goes on reading: "interrupt" and "terminate" stand for signals, and the end of standard
 * input, which is the end of the connection, is the end of the child and all it has started.
 *
 * Threads: rbt_child_attach() must be called before there are others. */
#ifndef RUBATO_LAUNCH_CHILD_H
#define RUBATO_LAUNCH_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/text.h"

enum { RBT_CHILD_KEY = 65 };

/* The launcher's side: what the child is to read. */
struct rbt_child_message {
    int64_t parent;        /* 0: another host */
    const char *key;       /* NULL: none */
    const char *directory; /* NULL: where it is */
    char *const *settings; /* NAME=VALUE, ends with NULL; or NULL */
    const char *terminal;  /* another NAME=VALUE, or NULL */
};

/* Only "NAME=VALUE" with RUBATO_ in front and no newline in it is sent of the settings, and nothing
 * that is `rubato run`'s own. */
void rbt_child_write(const struct rbt_child_message *message, struct rbt_text_buffer *text);

/* The child's side. */
struct rbt_child {
    int64_t parent;
    char key[RBT_CHILD_KEY]; /* "" if there is none */
};

/* Reads lines from `fd` until "go", changes directory and environment as they say. Fails with
 * RBT_E_PROTOCOL when they are not what a launcher would send. */
RBT_MUST_USE rbt_status rbt_child_read(int fd, struct rbt_child *child);

/* From now on this process ends when the launcher does, and what it has started as well.
 * `is_program`: it will become another program. Fails with RBT_E_CLOSED when the launcher
 * has ended already, with RBT_E_IO when no process can be started to watch. */
RBT_MUST_USE rbt_status rbt_child_attach(const struct rbt_child *child, bool is_program);

/* A path under which this process, and programs that it becomes, can read the text: memory that
 * only this user may read. Fails with RBT_E_IO. */
RBT_MUST_USE rbt_status rbt_child_hide(const char *text, char *path, size_t size);

#endif
