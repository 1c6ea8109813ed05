/* cli/rubato.c - main: finds the subcommand. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <rubato/version.h>

#include "base/option.h"
#include "base/thread.h"
#include "cli/command.h"
#include "cli/complain.h"

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char *const *argv);
};

static const struct command commands[] = {
    {"train", "train a model", rbt_cmd_train},
    {"run", "train in several processes, on this host or others", rbt_cmd_run},
    {"simulate", "train on a simulated cluster, in virtual time", rbt_cmd_simulate},
    {"predict", "score examples with a model", rbt_cmd_predict},
    {"eval", "evaluate a model on labelled data", rbt_cmd_eval},
    {"export", "write a model in another program's format", rbt_cmd_export},
    {"gen", "generate data sets with a known truth", rbt_cmd_gen},
    {"plot", "draw curves from logs of runs", rbt_cmd_plot},
    {"bench", "run benchmarks of the system", rbt_cmd_bench},
    {"keygen", "make a key for a cluster", rbt_cmd_keygen},
    {"info", "describe a model or log file", rbt_cmd_info},
    {"coordinator", "run the coordinator process of a cluster", rbt_cmd_coordinator},
    {"server", "run a server process of a cluster", rbt_cmd_server},
    {"worker", "run a worker process of a cluster", rbt_cmd_worker},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static int print_help(void)
{
    puts("Usage: rubato COMMAND [options]\n\nRubato trains models on parameters that many workers "
         "share.\n\nCommands:");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        printf("  %-11s %s\n", commands[i].name, commands[i].summary);
    }
    puts("\n\"rubato COMMAND --help\" shows the options of a command, \"rubato --version\" the\n"
         "version.\n\n"
         "Examples:\n"
         "  rubato gen sparse --out train.svm\n"
         "  rubato train linear --data train.svm --model first.model");
    return RBT_EXIT_OK;
}

static int refuse(const char *name)
{
    const char *names[COMMAND_COUNT + 3] = {"--help", "--version", "help"};
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i + 3] = commands[i].name;
    }
    const char *guess = rbt_option_guess(name, names, COMMAND_COUNT + 3);
    char hint[128] = "See \"rubato --help\".";
    if (guess != NULL) {
        snprintf(hint, sizeof hint, "Did you mean \"%s\"? See \"rubato --help\".", guess);
    }
    return rbt_complain(stderr, RBT_EXIT_USAGE, hint, "unrecognised %s \"%s\"",
                        name[0] == '-' ? "option" : "command", name);
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        return rbt_complain(stderr, RBT_EXIT_USAGE, "See \"rubato --help\".",
                            "the name of a command is missing");
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
        (strcmp(name, "help") == 0 && argc == 2)) {
        return print_help();
    }
    if (strcmp(name, "--version") == 0) {
        puts("rubato " RBT_VERSION);
        return RBT_EXIT_OK;
    }
    char help[] = "--help";
    char *const help_argv[] = {argc > 3 ? argv[3] : help, help};
    const bool is_help = strcmp(name, "help") == 0;
    name = is_help ? argv[2] : name;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return is_help ? commands[i].run(argc > 3 ? 2 : 1, help_argv)
                           : commands[i].run(argc - 2, argv + 2);
        }
    }
    return refuse(name);
}

struct call {
    int argc;
    char **argv;
    int code;
};

static void *run_call(void *argument)
{
    struct call *call = argument;
    call->code = dispatch(call->argc, call->argv);
    return NULL;
}

/* Where the main thread may have little stack ("ulimit -s 64"), another one does its work. */
static int dispatch_with_stack(int argc, char **argv)
{
    struct call call = {.argc = argc, .argv = argv};
    struct rlimit limit;
    pthread_t thread;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= RBT_THREAD_STACK) {
        return dispatch(argc, argv);
    }
    const int error = rbt_thread_create(&thread, run_call, &call);
    if (error != 0) {
        return rbt_complain(stderr, RBT_EXIT_FAILED, "Allow a larger stack (\"ulimit -s\").",
                            "could not allocate a stack: %s", strerror(error));
    }
    (void)pthread_join(thread, NULL); /* cannot fail: it is ours and nobody else joins it */
    return call.code;
}

int main(int argc, char **argv)
{
    /* A file that must not grow any more (RLIMIT_FSIZE) then fails like a full disk: whoever writes
     * says so and removes what is not whole. */
    (void)signal(SIGXFSZ, SIG_IGN);
    const int code = dispatch_with_stack(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return code != RBT_EXIT_OK
                   ? code
                   : rbt_complain(stderr, RBT_EXIT_FAILED, NULL,
                                  "could not write to standard output: %s", strerror(errno));
    }
    return code;
}
