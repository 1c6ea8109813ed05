/* cli/cmd_worker.c - `rubato worker`: a process with some of the workers of a job.
 *
 * "train" runs in this process. Any other program takes its place and finds in the environment what
 * rubato/cluster.h reads there. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rubato/cluster.h>

#include "base/error.h"
#include "base/option.h"
#include "base/thread.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/halves.h"
#include "cli/role_line.h"
#include "cli/train.h"
#include "cli/train_line.h"
#include "launch/child.h"
#include "net/address.h"
#include "net/member.h"
#include "policy/plugin.h"
#include "server/server.h"

struct config {
    const char *coordinator;
    int64_t workers;
    int64_t threads;
    int64_t index;
    const char *name_space;
    bool is_reader;
    const char *job_key;
    const char *compress;
    const char *serve;
    struct rbt_option_list plugins;
};

static const char example[] = "rubato worker --coordinator unix:PATH --workers 4 -- train linear "
                              "--data FILE";

static const struct rbt_option options[] = {
    {.name = "coordinator",
     .type = RBT_OPTION_TEXT,
     .unit = "ADDR",
     .help = "Where the coordinator listens; also from RUBATO_COORDINATOR.",
     .offset = offsetof(struct config, coordinator)},
    {.name = "workers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1024,
     .value = "1",
     .help = "Workers of the whole job.",
     .offset = offsetof(struct config, workers)},
    {.name = "threads",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1024,
     .value = "1",
     .help = "Workers in this process.",
     .offset = offsetof(struct config, threads)},
    {.name = "index",
     .type = RBT_OPTION_INT,
     .min = -1,
     .max = 1023,
     .value = "-1",
     .help = "Number of this process in the job, from 0; -1 takes the next free number.",
     .offset = offsetof(struct config, index)},
    {.name = "namespace",
     .type = RBT_OPTION_TEXT,
     .unit = "NAME",
     .value = "main",
     .help = "Namespace of the job. Jobs in different namespaces do not see each other's tables.",
     .offset = offsetof(struct config, name_space)},
    {.name = "reader",
     .type = RBT_OPTION_FLAG,
     .help = "Join as a reader of the namespace's job, without training.",
     .offset = offsetof(struct config, is_reader)},
    {.name = "job-key",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "Key of this job: only processes with it can join the job, and only processes with "
             "the readers' key (\"rubato keygen --readers-of\") can read its tables. Also from "
             "RUBATO_JOB_KEY.",
     .offset = offsetof(struct config, job_key)},
    {.name = "compress",
     .type = RBT_OPTION_TEXT,
     .unit = "HOW",
     .help = "Compression of messages, where it pays: none, zeros, lz4 or zstd; by default zeros "
             "over TCP.",
     .offset = offsetof(struct config, compress)},
    {.name = "serve",
     .type = RBT_OPTION_TEXT,
     .unit = "ADDR",
     .help = "Run a server in this process, too, and listen on this address; workers of this "
             "process reach it by function call.",
     .offset = offsetof(struct config, serve)},
    {.name = "plugin",
     .type = RBT_OPTION_LIST,
     .unit = "PATH...",
     .help = "With --serve: shared objects, or directories of them, that jobs may use as rules, "
             "filters and priorities in addition to those of this job.",
     .offset = offsetof(struct config, plugins)},
};

static void print_help(const struct rbt_option_table *tables)
{
    puts("Usage: rubato worker --coordinator ADDR --workers N [options] -- train ...\n"
         "       rubato worker --coordinator ADDR --workers N [options] -- PROGRAM ...\n\n"
         "Runs some of the workers of a job on a cluster. A PROGRAM finds in its\n"
         "environment how to join, see rubato/cluster.h. \"rubato run\" starts its worker\n"
         "processes by itself.\n\n"
         "Options:\n");
    rbt_option_help(stdout, &tables[0]);
    rbt_option_help(stdout, &tables[1]);
    puts("\nEvery option may also come from the environment (RUBATO_WORKER_THREADS=4); the\n"
         "command line wins.\n\n"
         "Examples:\n"
         "  rubato worker --coordinator unix:/tmp/rubato.sock --workers 2 \\\n"
         "      -- train linear --data train.svm\n"
         "  rubato worker --coordinator 10.0.0.1:7000 --workers 8 --threads 4 \\\n"
         "      --key cluster.key -- ./program --its-own options");
}

static rbt_status set(const char *name, const char *format, ...) RBT_PRINTF(2, 3);
static rbt_status set(const char *name, const char *format, ...)
{
    char value[4096];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(value, sizeof value, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof value || setenv(name, value, 1) != 0) {
        return rbt_fail(RBT_E_NOMEM, "could not set \"%s\" for the program", name);
    }
    return RBT_OK;
}

/* Tells the program through the environment what rubato/cluster.h reads there. */
static rbt_status set_environment(const struct rbt_cluster_options *join)
{
    rbt_status st = set("RUBATO_COORDINATOR", "%s", join->coordinator);
    st = st != RBT_OK || join->key_file == NULL ? st : set("RUBATO_KEY", "%s", join->key_file);
    st = st != RBT_OK ? st : set("RUBATO_WORKERS", "%u", join->workers);
    st = st != RBT_OK ? st : set("RUBATO_THREADS", "%u", join->threads);
    st = st != RBT_OK ? st : set("RUBATO_START_TIMEOUT", "%g", join->start_timeout);
    st = st != RBT_OK ? st : set("RUBATO_TIMEOUT", "%g", join->timeout);
    st = st != RBT_OK ? st : set("RUBATO_NAMESPACE", "%s", join->name_space);
    st = st != RBT_OK ? st : set("RUBATO_READER", "%d", join->is_reader);
    if (st == RBT_OK && join->compression != NULL) {
        st = set("RUBATO_COMPRESSION", "%s", join->compression);
    }
    if (st == RBT_OK && join->index > 0) {
        st = set("RUBATO_INDEX", "%d", join->index - 1);
    }
    return st;
}

/* Becomes the program; returns only if that is not possible. */
static rbt_status become(const struct rbt_cluster_options *join, char *const *argv)
{
    const rbt_status st = set_environment(join);
    if (st != RBT_OK) {
        return st;
    }
    fflush(NULL);
    (void)signal(SIGXFSZ, SIG_DFL); /* ignored by us, see main(); theirs to decide */
    execvp(argv[0], argv);
    return rbt_fail(RBT_E_IO, "could not run \"%s\"", argv[0]);
}

/* What the job of this process names may be loaded, whatever a server here is told. */
static void admit(void *context, const char *path)
{
    rbt_status *st = context;
    *st = *st != RBT_OK ? *st : rbt_plugin_admit(path);
}

static rbt_status train(const struct rbt_cluster_options *join, const struct rbt_halves *halves)
{
    struct rbt_train_line line;
    rbt_status st = rbt_train_line_parse(halves->behind_count - 1, halves->behind + 1, &line);
    if (st != RBT_OK) {
        return st;
    }
    if (line.wants_help) {
        rbt_train_line_help(&line);
    } else {
        line.request.join = join;
        line.request.options.workers = join->workers; /* the cluster's number holds */
        rbt_train_line_plugins(&line, admit, &st);
        st = st != RBT_OK ? st : rbt_train_check(&line.request);
        st = st != RBT_OK ? st : rbt_train_run(&line.request);
    }
    rbt_train_line_free(&line);
    return st;
}

/* A server in this process, on a thread of its own. */
struct companion {
    struct rbt_server_options options;
    pthread_t thread;
    rbt_status status;
    struct rbt_error_record error;
};

static void *serve(void *argument)
{
    struct companion *companion = argument;
    companion->status = rbt_server_run(&companion->options);
    rbt_error_save(&companion->error);
    return NULL;
}

static rbt_status start_companion(const struct config *config, const struct rbt_role_line *role,
                                  const struct rbt_cluster_options *join,
                                  struct companion *companion)
{
    companion->options = (struct rbt_server_options){
        .coordinator = join->coordinator,
        .security = role->security,
        .index = config->index < 0 ? RBT_INDEX_ANY : (int32_t)config->index,
        .threads = 1,
        .listen = config->serve,
        .start_timeout = rbt_role_line_time(role->start_timeout),
        .silence_max = rbt_role_line_time(role->timeout),
        .cut_max = rbt_role_line_cut(role),
        .log = stderr,
        .plugins = config->plugins.values,
        .plugin_count = config->plugins.count};
    rbt_status st = rbt_address_check(config->serve);
    if (st == RBT_OK && rbt_thread_create(&companion->thread, serve, companion) != 0) {
        st = rbt_fail(RBT_E_NOMEM, "could not start a server's thread");
    }
    return st;
}

/* Waits for the server, which others may still need. The worker's failure is the one to tell. */
static rbt_status end_companion(struct companion *companion, rbt_status st)
{
    struct rbt_error_record record;
    rbt_error_save(&record);
    (void)pthread_join(companion->thread, NULL); /* cannot fail: it was started, and once */
    rbt_error_restore(st != RBT_OK ? &record : &companion->error);
    return st != RBT_OK ? st : companion->status;
}

static rbt_status train_and_serve(const struct config *config, const struct rbt_role_line *role,
                                  const struct rbt_cluster_options *join,
                                  const struct rbt_halves *halves)
{
    struct companion companion = {0};
    const rbt_status st = start_companion(config, role, join, &companion);
    return st != RBT_OK ? st : end_companion(&companion, train(join, halves));
}

static rbt_status work(const struct config *config, struct rbt_role_line *role,
                       const struct rbt_halves *halves)
{
    struct rbt_cluster_options join = {
        .struct_size = sizeof join,
        .workers = (uint32_t)config->workers,
        .threads = (uint32_t)config->threads,
        .index = (int32_t)config->index + 1,
        .name_space = config->name_space,
        .is_reader = config->is_reader,
        .compression = config->compress,
        .start_timeout = role->start_timeout,
        .timeout = role->timeout,
    };
    const bool is_train = strcmp(halves->behind[0], "train") == 0;
    role->is_program = !is_train;
    char key_path[64];
    rbt_status st = rbt_role_line_coordinator(config->coordinator, &join.coordinator);
    st = st != RBT_OK ? st : rbt_role_line_begin(role);
    st = st != RBT_OK ? st : rbt_role_line_allow(role, join.coordinator);
    if (st == RBT_OK && config->serve != NULL) {
        st = rbt_role_line_allow(role, config->serve);
    }
    if (st == RBT_OK && role->is_insecure) {
        st = set("RUBATO_INSECURE", "1");
    }
    if (st == RBT_OK && config->job_key != NULL) {
        st = set("RUBATO_JOB_KEY", "%s", config->job_key);
    }
    if (st == RBT_OK && role->key_text[0] != '\0') {
        st = rbt_child_hide(role->key_text, key_path, sizeof key_path);
        join.key_file = key_path;
    }
    if (st == RBT_OK && config->serve != NULL) {
        st = train_and_serve(config, role, &join, halves);
    } else if (st == RBT_OK) {
        st = is_train ? train(&join, halves) : become(&join, halves->behind);
    }
    rbt_role_line_end(role);
    return st;
}

static rbt_status check(const struct config *config, const struct rbt_halves *halves)
{
    if (!halves->is_cut || halves->behind_count == 0) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "the command to run is missing after \"--\"");
        return rbt_fail_hint(st, "For example: %s.", example);
    }
    if (config->serve != NULL && strcmp(halves->behind[0], "train") != 0) {
        return rbt_fail(RBT_E_INVALID, "option \"--serve\" works with \"train\" only");
    }
    if (config->threads > config->workers) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--threads\" is %lld, but the job has only %lld workers",
                        (long long)config->threads, (long long)config->workers);
    }
    return RBT_OK;
}

int rbt_cmd_worker(int argc, char *const *argv)
{
    struct config config;
    struct rbt_role_line role = {0};
    const struct rbt_option_table tables[] = {
        {options, sizeof options / sizeof options[0], &config}, rbt_role_line_table(&role)};
    const struct rbt_option_command command = {
        .name = "rubato worker", .tables = tables, .table_count = 2, .section = "WORKER"};
    const struct rbt_halves halves = rbt_halves_cut(argc, argv);
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, halves.front, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        print_help(tables);
        return RBT_EXIT_OK;
    }
    st = st != RBT_OK ? st : check(&config, &halves);
    st = st != RBT_OK ? st : work(&config, &role, &halves);
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
