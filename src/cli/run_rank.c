/* cli/run_rank.c - `rubato run` as one of several ranks that srun or mpirun has started.
 *
 * Each rank takes a role and plays it in its own process, in the words of `rubato coordinator`,
 * `server` and `worker`; the launcher streams the output and ends the others when one fails. On one
 * host they meet in a directory that each of them makes if it is not there. The coordinator, which
 * ends last, removes it with all that is in it; if the job has failed, everybody does. A launcher
 * that has lost a rank sends the others SIGTERM, more than once, and soon after SIGKILL: there is
 * no time for more than to remove the directory, and who has a socket in it does that.
 *
 * Threads: one that waits for the signal. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"
#include "cli/command.h"
#include "cli/role_line.h"
#include "cli/run_line.h"
#include "cli/sockets.h"
#include "launch/argv.h"
#include "launch/rank.h"

static const char *look_up(const char *name)
{
    return getenv(name);
}

/* The directory is ours alone, whoever made it. */
static rbt_status make_directory(const char *path)
{
    if (mkdir(path, S_IRWXU) != 0 && errno != EEXIST) {
        return rbt_fail(RBT_E_IO, "could not make the directory \"%s\"", path);
    }
    struct stat stat;
    if (lstat(path, &stat) != 0) {
        return rbt_fail(RBT_E_IO, "cannot use the directory \"%s\"", path);
    }
    if (!S_ISDIR(stat.st_mode) || stat.st_uid != getuid() || (stat.st_mode & 07777) != S_IRWXU) {
        const rbt_status st =
            rbt_fail(RBT_E_CLOSED,
                     "cannot use \"%s\": it is not a directory of this user with mode 700", path);
        return rbt_fail_hint(st, "Remove it, or set TMPDIR to a folder of your own.");
    }
    return RBT_OK;
}

/* How many workers the job has; what the user says must fit the processes that there are. */
static rbt_status count_workers(const struct rbt_run_line *line, const struct rbt_rank_plan *plan,
                                int64_t *workers)
{
    const int64_t processes = (line->workers + line->threads - 1) / line->threads;
    if (line->workers > 0 && processes != plan->processes) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID,
                     "%lld workers with %lld per process need %lld processes, but only %lld remain "
                     "besides the coordinator and the servers",
                     (long long)line->workers, (long long)line->threads, (long long)processes,
                     (long long)plan->processes);
        return rbt_fail_hint(st, "Omit \"--workers\", or start %lld processes.",
                             (long long)(1 + plan->servers + processes));
    }
    *workers = line->workers > 0 ? line->workers : plan->processes * line->threads;
    return RBT_OK;
}

static void describe_worker(const struct rbt_run_line *line, const struct rbt_rank_plan *plan,
                            int64_t workers, struct rbt_argv *words)
{
    const int64_t left = workers - plan->index * line->threads;
    rbt_argv_add(words, "--index=%lld", (long long)plan->index);
    rbt_argv_add(words, "--workers=%lld", (long long)workers);
    rbt_argv_add(words, "--threads=%lld", (long long)(left < line->threads ? left : line->threads));
    if (line->compress != NULL) {
        rbt_argv_add(words, "--compress=%s", line->compress);
    }
}

/* The words behind the name of the role. */
static void describe(const struct rbt_run_line *line, const struct rbt_rank *rank,
                     const struct rbt_rank_plan *plan, int64_t workers, struct rbt_argv *words)
{
    rbt_argv_add(words, "--start-timeout=%g", line->start_timeout);
    rbt_argv_add(words, "--timeout=%g", line->timeout);
    if (!line->is_verbose) {
        rbt_argv_add(words, "--quiet");
    }
    if (line->key != NULL) {
        rbt_argv_add(words, "--key=%s", line->key);
    }
    rbt_argv_add(words, "--%s", plan->role == RBT_RANK_COORDINATOR ? "listen" : "coordinator");
    rbt_argv_add_word(words, plan->coordinator);
    switch (plan->role) {
    case RBT_RANK_COORDINATOR:
        rbt_argv_add(words, "--once");
        rbt_argv_add(words, "--servers=%lld", (long long)plan->servers);
        break;
    case RBT_RANK_SERVER:
        rbt_argv_add(words, "--index=%lld", (long long)plan->index);
        rbt_argv_add(words, "--threads=%lld", (long long)line->server_threads);
        if (!rank->is_one_host) {
            char own[RBT_RANK_TEXT] = "";
            (void)gethostname(own, sizeof own - 1); /* srun says it; if not, this is as good */
            rbt_argv_add(words, "--listen=%s:0", rank->own_host[0] != '\0' ? rank->own_host : own);
        }
        break;
    case RBT_RANK_WORKER:
        describe_worker(line, plan, workers, words);
        break;
    }
}

/* Waits for the signal that ends the job. */
static void *watch_signals(void *argument)
{
    const struct rbt_rank_plan *plan = argument;
    sigset_t signals;
    int number = 0;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    while (sigwait(&signals, &number) != 0) { /* ends with a signal; the set is a right one */
    }
    rbt_sockets_clear(plan->directory);
    _exit(128 + number);
}

static rbt_status start_watching(const struct rbt_rank_plan *plan)
{
    sigset_t signals;
    pthread_t thread;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* for all threads to come */
    const int error = rbt_thread_create(&thread, watch_signals, (void *)plan);
    if (error != 0) {
        errno = error;
        return rbt_fail(RBT_E_IO, "could not start a thread");
    }
    (void)pthread_detach(thread); /* it ends with the process */
    return RBT_OK;
}

static rbt_status prepare_directory(const struct rbt_rank_plan *plan)
{
    if (plan->directory[0] == '\0') {
        return RBT_OK;
    }
    const rbt_status st = make_directory(plan->directory);
    return st == RBT_OK && plan->role != RBT_RANK_WORKER ? start_watching(plan) : st;
}

/* Plays the role. */
static rbt_status play(const struct rbt_rank_plan *plan, const struct rbt_halves *halves,
                       struct rbt_argv *words, int *code)
{
    static int (*const commands[])(int, char *const *) = {
        [RBT_RANK_COORDINATOR] = rbt_cmd_coordinator,
        [RBT_RANK_SERVER] = rbt_cmd_server,
        [RBT_RANK_WORKER] = rbt_cmd_worker,
    };
    if (plan->role == RBT_RANK_WORKER) {
        rbt_argv_add(words, "--");
        rbt_argv_add_all(words, halves->behind);
    }
    if (words->has_failed) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the command line of this rank");
    }
    const rbt_status st = prepare_directory(plan);
    if (st != RBT_OK) {
        return st;
    }
    *code = commands[plan->role]((int)words->count, words->items);
    const bool is_over = plan->role == RBT_RANK_COORDINATOR || *code != RBT_EXIT_OK;
    if (plan->directory[0] != '\0' && is_over) {
        rbt_sockets_clear(plan->directory);
    } else if (plan->directory[0] != '\0') {
        (void)rmdir(plan->directory); /* if the coordinator was faster */
    }
    return RBT_OK;
}

rbt_status rbt_run_rank(const struct rbt_run_line *line, const struct rbt_halves *halves,
                        const struct rbt_argv *plugins, bool *is_ranked, int *code)
{
    struct rbt_rank rank;
    rbt_status st = line->hosts != NULL ? RBT_OK : rbt_rank_find(look_up, &rank);
    if (line->hosts != NULL || st != RBT_OK || rank.size <= 1) {
        *is_ranked = false;
        return st;
    }
    *is_ranked = true;
    const char *key = line->key != NULL ? line->key : getenv("RUBATO_KEY");
    const char *folder = getenv("TMPDIR");
    struct rbt_rank_plan plan;
    st = rbt_rank_decide(&rank,
                         &(struct rbt_rank_wishes){
                             .servers = line->servers,
                             .coordinator = line->coordinator,
                             .has_key = key != NULL && key[0] != '\0',
                             .folder = folder != NULL && folder[0] != '\0' ? folder : "/tmp",
                             .user = getuid(),
                             .parent = getppid(),
                         },
                         &plan);
    int64_t workers = 0;
    st = st != RBT_OK ? st : count_workers(line, &plan, &workers);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_argv words = {0};
    describe(line, &rank, &plan, workers, &words);
    for (size_t i = 0; plan.role == RBT_RANK_SERVER && i < plugins->count; i++) {
        rbt_argv_add(&words, "--plugin=%s", plugins->items[i]);
    }
    st = play(&plan, halves, &words, code);
    rbt_argv_deinit(&words);
    return st;
}
