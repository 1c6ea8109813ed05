/* cli/cmd_run.c - `rubato run`: the same job in several processes, here or on other hosts.
 *
 * In front of "--" stands the cluster, behind it what to run there: "train", in the words of
 * `rubato train`, or any program that joins with rubato/cluster.h. Everything that can be checked
 * is checked before anything is started. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/option.h"
#include "base/thread.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/halves.h"
#include "cli/role_line.h"
#include "cli/run_line.h"
#include "cli/run_plan.h"
#include "cli/sockets.h"
#include "cli/terminal.h"
#include "cli/train.h"
#include "cli/train_line.h"
#include "launch/argv.h"
#include "launch/hosts.h"
#include "launch/launch.h"
#include "net/address.h"
#include "net/descriptors.h"

enum {
    PATH_BYTES = 4096,
    NAME_BYTES = 256,
    SOME_DESCRIPTORS = 32, /* that any process has open */
    SHARD_DESCRIPTORS = 8, /* that a shard's thread has */
};

static const char example[] = "rubato run --workers 4 -- train linear --data FILE";

static void print_help(const struct rbt_option_table *table)
{
    puts("Usage: rubato run [cluster options] -- train ALGO --data FILE... [options]\n"
         "       rubato run [cluster options] -- PROGRAM [arguments]\n\n"
         "Runs a job in several processes: a coordinator, servers that hold the tables,\n"
         "and worker processes, on this host or on the hosts of a file. When the job ends,\n"
         "is interrupted or loses a process, all processes end. Under srun or mpirun\n"
         "every rank takes a role. See \"rubato train --help\" for what follows \"--\"; a\n"
         "PROGRAM joins with rubato/cluster.h.\n\n"
         "Cluster options:\n");
    rbt_option_help(stdout, table);
    puts("\nEvery cluster option may also come from the environment (RUBATO_RUN_SERVERS=2);\n"
         "the command line wins.\n\n"
         "Examples:\n"
         "  rubato run --servers 2 --workers 4 -- train linear --data train.svm\n"
         "  rubato run --hosts hosts.txt --servers 4 --workers 16 \\\n"
         "      -- train mf --data ratings.csv --summary json\n"
         "  srun -n 14 rubato run --servers 4 -- train linear --data train.svm");
}

/* What one run needs to know beside the command line. */
struct scene {
    struct rbt_hosts hosts;
    char own_name[NAME_BYTES];
    char program[PATH_BYTES];
    char folder[PATH_BYTES];
    char key[RBT_KEY_TEXT];
    struct rbt_sockets sockets;
    struct rbt_argv plugins; /* absolute paths */
};

static rbt_status check_halves(const struct rbt_halves *halves)
{
    static const char *const others[] = {"predict", "eval", "export",   "gen",
                                         "plot",    "info", "simulate", "bench"};
    if (!halves->is_cut || halves->behind_count == 0) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "the command to run is missing after \"--\"");
        return rbt_fail_hint(st, "For example: %s.", example);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(halves->behind[0], others[i]) == 0) {
            const rbt_status st =
                rbt_fail(RBT_E_INVALID,
                         "only \"train\" and programs of your own run on a cluster, "
                         "got \"%s\"",
                         others[i]);
            return rbt_fail_hint(st, "Without a cluster: rubato %s.", others[i]);
        }
    }
    return RBT_OK;
}

/* What can be read once: each process would get parts of it that are nobody's whole lines. */
static bool is_pipe(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode));
}

/* Standard input and a pipe are one, the processes are many. */
static rbt_status check_shared(const struct rbt_train_options *options)
{
    const struct rbt_option_list *const lists[] = {&options->data, &options->eval};
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; i < lists[l]->count; i++) {
            const char *path = lists[l]->values[i];
            const bool is_stdin = strcmp(path, "-") == 0;
            if (is_stdin || is_pipe(path)) {
                const rbt_status st = rbt_fail(
                    RBT_E_INVALID, "several processes cannot share %s, \"%s %s\"",
                    is_stdin ? "standard input" : "a pipe", l == 0 ? "--data" : "--eval", path);
                return rbt_fail_hint(st, "Write the data to a file that all processes can read.");
            }
        }
    }
    return RBT_OK;
}

static void add_plugin(void *context, const char *path)
{
    rbt_argv_add_word(context, path);
}

/* The plug-ins that the command line names, as other processes can find them. */
static rbt_status take_plugins(const struct rbt_run_line *line, struct scene *scene)
{
    for (size_t i = 0; i < line->plugins.count; i++) {
        char path[PATH_BYTES];
        if (realpath(line->plugins.values[i], path) == NULL) {
            return rbt_fail(RBT_E_INVALID, "cannot find the plug-in \"%s\": %s",
                            line->plugins.values[i], strerror(errno));
        }
        rbt_argv_add_word(&scene->plugins, path);
    }
    return scene->plugins.has_failed
               ? rbt_fail(RBT_E_NOMEM, "could not allocate the names of plug-ins")
               : RBT_OK;
}

/* Checks the words of "train" as `rubato train` would, and takes over what stands there about the
 * cluster. */
static rbt_status check_train(struct rbt_run_line *line, const struct rbt_halves *halves,
                              const struct rbt_option_table *table, struct scene *scene,
                              bool *wants_help)
{
    struct rbt_train_line train;
    rbt_status st = rbt_train_line_parse(halves->behind_count - 1, halves->behind + 1, &train);
    if (st != RBT_OK) {
        return rbt_halves_hint(st, halves, table);
    }
    struct rbt_train_options *options = &train.request.options;
    const struct rbt_halves_shared shared[] = {{"--workers", line->workers > 0},
                                               {"--servers", line->servers > 0}};
    *wants_help = train.wants_help;
    if (train.wants_help) {
        rbt_train_line_help(&train);
    } else {
        line->workers = line->workers > 0 ? line->workers : options->workers;
        line->servers = line->servers > 0 ? line->servers : options->servers;
        options->workers = line->workers;
        options->servers = line->servers;
        if (scene->hosts.count > 0 && !rbt_hosts_of_worker(&scene->hosts, 0)->is_here) {
            options->model = NULL; /* they are written on another host */
            train.request.log = NULL;
        }
        st = rbt_halves_check(halves, "run", shared, sizeof shared / sizeof shared[0]);
        st = st != RBT_OK ? st : check_shared(options);
        st = st != RBT_OK ? st : rbt_train_check(&train.request);
        rbt_train_line_plugins(&train, add_plugin, &scene->plugins);
    }
    rbt_train_line_free(&train);
    return st;
}

/* Fills in what the machine knows. */
static rbt_status look_around(const struct rbt_run_line *line, struct scene *scene)
{
    if (gethostname(scene->own_name, sizeof scene->own_name - 1) != 0) {
        snprintf(scene->own_name, sizeof scene->own_name, "localhost");
    }
    if (getcwd(scene->folder, sizeof scene->folder) == NULL) {
        scene->folder[0] = '\0';
    }
    const ssize_t length = readlink("/proc/self/exe", scene->program, sizeof scene->program - 1);
    if (length <= 0) {
        return rbt_fail(RBT_E_IO, "cannot find the path of this program");
    }
    scene->program[length] = '\0';
    return line->hosts == NULL ? RBT_OK
                               : rbt_hosts_read(line->hosts, scene->own_name, &scene->hosts);
}

/* The key that was given, or a fresh one: over TCP other hosts, or other users of this one, could
 * connect. */
static rbt_status take_key(const struct rbt_run_line *line, struct scene *scene)
{
    const rbt_status st = rbt_role_line_key(line->key, scene->key);
    const bool is_tcp = scene->sockets.path[0] == '\0';
    return st == RBT_OK && scene->key[0] == '\0' && is_tcp ? rbt_key_generate(scene->key) : st;
}

/* Unix sockets or TCP; for the former, makes their directory. */
static rbt_status choose_transport(const struct rbt_run_line *line, struct scene *scene)
{
    const bool has_far = rbt_hosts_has_far(&scene->hosts);
    if (line->coordinator != NULL) {
        const rbt_status st = rbt_address_check(line->coordinator);
        if (st != RBT_OK) {
            return st;
        }
    }
    const bool wants_tcp = line->listen != NULL ||
                           (line->coordinator != NULL && !rbt_address_is_unix(line->coordinator));
    if (line->transport == RBT_RUN_UNIX && (has_far || wants_tcp)) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--transport unix\" works on this host only, but \"%s\" needs TCP",
                        has_far                ? "--hosts"
                        : line->listen != NULL ? "--listen"
                                               : "--coordinator");
    }
    if (line->transport == RBT_RUN_TCP || has_far || wants_tcp) {
        return RBT_OK;
    }
    return rbt_sockets_make(&scene->sockets);
}

static rbt_status launch(const struct rbt_run_line *line, const struct rbt_halves *halves,
                         struct scene *scene)
{
    const bool is_live = rbt_terminal_is_live(stderr);
    const bool is_train = strcmp(halves->behind[0], "train") == 0;
    const struct rbt_run_plan_options options = {
        .program = scene->program,
        .far_program = line->remote_path != NULL ? line->remote_path : scene->program,
        .workers = line->workers,
        .threads = line->threads,
        .servers = line->servers,
        .server_threads = line->server_threads,
        .directory = scene->sockets.path[0] != '\0' ? scene->sockets.path : NULL,
        .listen = line->listen,
        .coordinator = line->coordinator,
        .hosts = scene->hosts.count > 0 ? &scene->hosts : NULL,
        .own_name = scene->own_name,
        .ssh = line->ssh,
        .key = scene->key[0] != '\0' ? scene->key : NULL,
        .start_timeout = line->start_timeout,
        .timeout = line->timeout,
        .compress = line->compress,
        .plugins = (const char *const *)scene->plugins.items,
        .plugin_count = scene->plugins.count,
        .is_quiet = !line->is_verbose,
        .is_colocated = line->is_colocated && is_train,
        .is_beside = line->is_colocated && !is_train, /* a program has no server inside */
        .job = halves->behind,
        .folder = scene->folder[0] != '\0' ? scene->folder : NULL,
        .environment = environ,
        .parent = getpid(),
        /* A program may want to see the terminal; "train" prints its results at the end. */
        .is_ordered = is_train && isatty(STDOUT_FILENO) == 1,
        .columns = is_live ? rbt_terminal_width(stderr) : 0,
    };
    struct rbt_run_plan plan = {0};
    rbt_status st = rbt_run_plan_build(&options, &plan);
    if (st == RBT_OK) {
        st = rbt_launch_run(&(struct rbt_launch_options){.processes = plan.processes,
                                                         .count = plan.count,
                                                         .err = stderr,
                                                         .is_live = is_live,
                                                         .start_seconds = line->start_timeout});
    }
    rbt_run_plan_deinit(&plan);
    return st;
}

/* How many workers and servers there are, if nobody says. */
static void complete(struct rbt_run_line *line, const struct scene *scene)
{
    if (line->workers == 0) {
        line->workers = scene->hosts.count > 0 ? rbt_hosts_slots(&scene->hosts) * line->threads
                                               : (int64_t)rbt_thread_cores();
    }
    line->servers = line->servers > 0 ? line->servers : 1;
    line->threads = line->threads < line->workers ? line->threads : line->workers;
}

/* How many files the process needs that needs most of them; those of other hosts see for
 * themselves. */
static int64_t count_descriptors(const struct rbt_run_line *line, const struct scene *scene)
{
    const int64_t processes = (line->workers + line->threads - 1) / line->threads;
    const int64_t children = 1 + processes + (line->is_colocated ? 0 : line->servers);
    const int64_t launcher = 3 * children + SOME_DESCRIPTORS;
    /* Every worker is connected to every shard, and so is every process. */
    const int64_t server =
        line->server_threads * (line->workers + processes + SHARD_DESCRIPTORS) + SOME_DESCRIPTORS;
    const int64_t worker = (line->threads + 1) * line->servers * line->server_threads +
                           (line->is_colocated ? server : SOME_DESCRIPTORS);
    const int64_t most = server > worker ? server : worker;
    return launcher > most || scene->hosts.count > 0 ? launcher : most;
}

static rbt_status check_descriptors(const struct rbt_run_line *line, const struct scene *scene)
{
    const uint64_t limit = rbt_descriptors_raise();
    const int64_t needed = count_descriptors(line, scene);
    if ((uint64_t)needed <= limit) {
        return RBT_OK;
    }
    errno = 0; /* the sentence says it all */
    const rbt_status st =
        rbt_fail(RBT_E_IO,
                 "%lld workers and %lld server%s need about %lld open files in one process, but "
                 "the limit is %llu",
                 (long long)line->workers, (long long)line->servers, line->servers == 1 ? "" : "s",
                 (long long)needed, (unsigned long long)limit);
    return rbt_fail_hint(st,
                         "Raise the limit (ulimit -Hn, or \"nofile\" in limits.conf), or put more "
                         "workers into a process with --threads.");
}

/* Checks everything, then starts. */
static rbt_status run_here(struct rbt_run_line *line, const struct rbt_halves *halves,
                           struct scene *scene)
{
    complete(line, scene);
    rbt_status st = check_descriptors(line, scene);
    st = st != RBT_OK ? st : choose_transport(line, scene);
    st = st != RBT_OK ? st : take_key(line, scene);
    st = st != RBT_OK ? st : launch(line, halves, scene);
    rbt_sockets_remove(&scene->sockets);
    explicit_bzero(scene->key, sizeof scene->key);
    return st;
}

static rbt_status run(int argc, char *const *argv, int *code)
{
    struct rbt_run_line line = {0};
    const struct rbt_option_table table = rbt_run_line_table(&line);
    const struct rbt_option_command command = {
        .name = "rubato run", .tables = &table, .table_count = 1, .section = "RUN"};
    const struct rbt_halves halves = rbt_halves_cut(argc, argv);
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, halves.front, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        print_help(&table);
        return RBT_OK;
    }
    struct scene scene = {0};
    bool is_ranked = false;
    bool wants_help = false;
    st = st != RBT_OK ? st : check_halves(&halves);
    st = st != RBT_OK ? st : look_around(&line, &scene);
    if (st == RBT_OK && strcmp(halves.behind[0], "train") == 0) {
        st = check_train(&line, &halves, &table, &scene, &wants_help);
    }
    st = st != RBT_OK ? st : take_plugins(&line, &scene);
    if (st == RBT_OK && !wants_help) {
        st = rbt_run_rank(&line, &halves, &scene.plugins, &is_ranked, code);
        st = st != RBT_OK || is_ranked ? st : run_here(&line, &halves, &scene);
    }
    rbt_hosts_deinit(&scene.hosts);
    rbt_argv_deinit(&scene.plugins);
    return st;
}

int rbt_cmd_run(int argc, char *const *argv)
{
    int code = RBT_EXIT_OK;
    const rbt_status st = run(argc, argv, &code);
    return st == RBT_OK ? code : rbt_complain_last(stderr, st);
}
