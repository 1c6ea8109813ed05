/* launch/child.c - what ties a child process to the launcher that started it.
 *
 * On another host a second process watches: it has the standard input and nothing else. A thread
 * would not do, because the child may become any program. On the launcher's host the kernel does
 * the same, but only for the child itself; one that becomes a program, which may start others, has
 * a watcher there, too. */
#include "launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { LINE_BYTES = 16384, LINES_MAX = 4096 };

static const char own_prefix[] = "RUBATO_RUN_";
static const char key_prefix[] = "RUBATO_KEY=";
static const char prefix[] = "RUBATO_";

static bool starts_with(const char *text, const char *mark)
{
    return strncmp(text, mark, strlen(mark)) == 0;
}

static bool is_sent(const char *setting)
{
    return starts_with(setting, prefix) && !starts_with(setting, own_prefix) &&
           !starts_with(setting, key_prefix) && strchr(setting, '\n') == NULL &&
           strlen(setting) < LINE_BYTES - 8;
}

void rbt_child_write(const struct rbt_child_message *message, struct rbt_text_buffer *text)
{
    if (message->parent != 0) {
        rbt_text_add(text, "parent %lld\n", (long long)message->parent);
    }
    if (message->key != NULL) {
        rbt_text_add(text, "key %s\n", message->key);
    }
    if (message->directory != NULL && strchr(message->directory, '\n') == NULL) {
        rbt_text_add(text, "directory %s\n", message->directory);
    }
    for (char *const *s = message->settings; s != NULL && *s != NULL; s++) {
        if (is_sent(*s)) {
            rbt_text_add(text, "set %s\n", *s);
        }
    }
    if (message->terminal != NULL) {
        rbt_text_add(text, "set %s\n", message->terminal);
    }
    rbt_text_add(text, "go\n");
}

/* Reads one line without its end, byte by byte: what follows is the watcher's. False at the end. */
static bool read_line(int fd, char line[LINE_BYTES])
{
    for (size_t used = 0; used + 1 < LINE_BYTES;) {
        const ssize_t size = read(fd, line + used, 1);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size <= 0) {
            return false;
        }
        if (line[used] == '\n') {
            line[used] = '\0';
            return true;
        }
        used++;
    }
    return false;
}

/* Does what the line says. */
static rbt_status obey(struct rbt_child *child, char *line)
{
    char *value = strchr(line, ' ');
    char *equals = strchr(line, '=');
    if (value != NULL) {
        *value++ = '\0';
    }
    if (value != NULL && strcmp(line, "parent") == 0 && rbt_text_to_int(value, &child->parent)) {
        return RBT_OK;
    }
    if (value != NULL && strcmp(line, "key") == 0 && strlen(value) < sizeof child->key) {
        snprintf(child->key, sizeof child->key, "%s", value);
        return RBT_OK;
    }
    if (value != NULL && strcmp(line, "directory") == 0) {
        if (chdir(value) != 0) {
            return rbt_fail(RBT_E_IO, "cannot run in \"%s\", where \"rubato run\" was started",
                            value);
        }
        return RBT_OK;
    }
    if (value != NULL && strcmp(line, "set") == 0 && equals != NULL && equals > value) {
        *equals = '\0';
        return setenv(value, equals + 1, 1) == 0
                   ? RBT_OK
                   : rbt_fail(RBT_E_NOMEM, "could not set \"%s\"", value);
    }
    return rbt_fail(RBT_E_PROTOCOL, "\"--die-with-stdin\" is for children of \"rubato run\"");
}

rbt_status rbt_child_read(int fd, struct rbt_child *child)
{
    *child = (struct rbt_child){0};
    char line[LINE_BYTES];
    for (size_t i = 0; i < LINES_MAX; i++) {
        if (!read_line(fd, line)) {
            return rbt_fail(RBT_E_CLOSED, "\"rubato run\" ended before it sent a key or a command");
        }
        if (strcmp(line, "go") == 0) {
            explicit_bzero(line, sizeof line);
            return RBT_OK;
        }
        const rbt_status st = obey(child, line);
        if (st != RBT_OK) {
            return st;
        }
    }
    return rbt_fail(RBT_E_PROTOCOL, "\"--die-with-stdin\" is for children of \"rubato run\"");
}

/* The kernel ends us when the launcher ends. */
static rbt_status attach_here(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { /* it ended before the line above */
        return rbt_fail(RBT_E_CLOSED, "\"rubato run\" has ended");
    }
    return RBT_OK;
}

/* The end of everybody in the group, which is the child's own, and of the watcher itself. */
static void end_group(int number)
{
    (void)number;
    (void)kill(0, SIGKILL);
}

/* Until standard input or the child ends. */
static _Noreturn void watch(pid_t child)
{
    /* Signals to the group are for the others, but for the one that says that the child is gone:
     * what it has started must go as well. Open files would keep an ssh waiting. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, end_group);
    (void)close_range(STDOUT_FILENO, ~0U, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGHUP);
    (void)prctl(PR_SET_NAME, "rubato-watcher");
    char line[LINE_BYTES];
    while (getppid() == child && read_line(STDIN_FILENO, line)) {
        if (strcmp(line, "interrupt") == 0) {
            (void)kill(0, SIGINT);
        } else if (strcmp(line, "terminate") == 0) {
            (void)kill(0, SIGTERM);
        }
    }
    end_group(0);
    _exit(1);
}

/* Gives standard input to a process that watches it. */
static rbt_status start_watcher(void)
{
    const pid_t self = getpid();
    if (getpgrp() != self && setpgid(0, 0) != 0) {
        return rbt_fail(RBT_E_IO, "could not make a process group");
    }
    const pid_t watcher = fork();
    if (watcher < 0) {
        return rbt_fail(RBT_E_IO, "could not start a process that watches the launcher");
    }
    if (watcher == 0) {
        watch(self);
    }
    return RBT_OK;
}

rbt_status rbt_child_attach(const struct rbt_child *child, bool is_program)
{
    (void)signal(SIGINT, SIG_DFL); /* a shell in the background has it ignored */
    rbt_status st = child->parent != 0 ? attach_here((pid_t)child->parent) : RBT_OK;
    if (st == RBT_OK && (child->parent == 0 || is_program)) {
        st = start_watcher();
    }
    if (st == RBT_OK && child->parent == 0) {
        /* See launch/relay.c. */
        fprintf(stderr, "rubato: process %lld\n", (long long)getpid());
    }
    const int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (empty >= 0) { /* nobody else may read what the watcher waits for */
        (void)dup2(empty, STDIN_FILENO);
        (void)close(empty);
    }
    return st;
}

rbt_status rbt_child_hide(const char *text, char *path, size_t size)
{
    const int fd = memfd_create("rubato", 0); /* stays open in programs that we become */
    if (fd < 0) {
        return rbt_fail(RBT_E_IO, "could not keep the key in memory");
    }
    const size_t length = strlen(text);
    if (fchmod(fd, S_IRUSR | S_IWUSR) != 0 || write(fd, text, length) != (ssize_t)length ||
        write(fd, "\n", 1) != 1) {
        const rbt_status st = rbt_fail(RBT_E_IO, "could not keep the key in memory");
        (void)close(fd);
        return st;
    }
    snprintf(path, size, "/proc/self/fd/%d", fd);
    return RBT_OK;
}
