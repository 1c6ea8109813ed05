/* cli/cmd_train.c - `rubato train ALGO`: trains a model. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/names.h"
#include "cli/train.h"

enum { ALGO_COUNT_MAX = 64 };

#define AT(field) offsetof(struct rbt_train_request, field)

static const struct rbt_option train_options[] = {
    {.name = "data",
     .type = RBT_OPTION_LIST,
     .help =
         "Training data: files, directories, globs, \"-\" for standard input; may be compressed "
         "(.zst, .gz, .xz).",
     .offset = AT(options.data)},
    {.name = "eval",
     .type = RBT_OPTION_LIST,
     .help = "Data to measure on after every epoch.",
     .offset = AT(options.eval)},
    {.name = "format",
     .type = RBT_OPTION_CHOICE,
     .value = "auto",
     .choices = rbt_names_format,
     .help = "Format of the data; auto looks at the name and the first lines.",
     .offset = AT(options.format)},
    {.name = "zero-based",
     .type = RBT_OPTION_FLAG,
     .help = "Features of libsvm files start at 0 instead of 1.",
     .offset = AT(options.is_zero_based)},
    {.name = "label-column",
     .type = RBT_OPTION_INT,
     .min = -1,
     .max = 1000000,
     .value = "-1",
     .help = "Column of csv files that holds the label, from 0; -1 is the last.",
     .offset = AT(options.label_column)},
    {.name = "epochs",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1000000,
     .help = "Passes over the data; the algorithm has a default.",
     .offset = AT(options.epochs)},
    {.name = "clocks-per-epoch",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1000000,
     .value = "1",
     .help = "Clocks in a pass: how often workers exchange updates.",
     .offset = AT(options.clocks_per_epoch)},
    {.name = "workers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1024,
     .help = "Worker threads; by default one per core.",
     .offset = AT(options.workers)},
    {.name = "servers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 256,
     .value = "1",
     .help = "Shards that hold the parameters.",
     .offset = AT(options.servers)},
    {.name = "consistency",
     .type = RBT_OPTION_TEXT,
     .value = "essp:2",
     .unit = "C",
     .help =
         "How stale reads may be: bsp (not at all), ssp:S or essp:S (at most S clocks), asp (no "
         "bound).",
     .offset = AT(options.consistency)},
    {.name = "rule",
     .type = RBT_OPTION_TEXT,
     .unit = "R[:k=v,...]",
     .help = "How the server applies updates; the algorithm has a default.",
     .offset = AT(options.rule)},
    {.name = "seed",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 9.3e18,
     .value = "1",
     .help = "Everything random comes from it.",
     .offset = AT(options.seed)},
    {.name = "target",
     .type = RBT_OPTION_REAL,
     .value = "nan",
     .help = "Stop when the objective of a pass reaches X.",
     .offset = AT(options.target)},
    {.name = "patience",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1000000,
     .help = "Stop when the objective has not improved for N evaluations.",
     .offset = AT(options.patience)},
    {.name = "model",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "Write the model there.",
     .offset = AT(options.model)},
    {.name = "log",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "Write a log there, one JSON object per line; see \"rubato plot\".",
     .offset = AT(log)},
    {.name = "summary",
     .type = RBT_OPTION_CHOICE,
     .value = "text",
     .choices = rbt_names_summary,
     .help = "How the results are printed.",
     .offset = AT(summary)},
    {.name = "progress",
     .type = RBT_OPTION_CHOICE,
     .value = "auto",
     .unit = "WHEN",
     .choices = rbt_names_progress,
     .help = "Whether to show progress on standard error.",
     .offset = AT(progress)},
};

/* Only for `rubato train` without an algorithm. */
static const struct rbt_option list_options[] = {
    {.name = "list",
     .type = RBT_OPTION_FLAG,
     .help = "List the algorithms.",
     .offset = AT(wants_list)},
};

static const size_t train_option_count = sizeof train_options / sizeof train_options[0];

static void print_algos(FILE *out)
{
    for (const struct rbt_algo *const *algo = rbt_algo_all(); *algo != NULL; algo++) {
        fprintf(out, "  %-10s %s\n", (*algo)->name, (*algo)->summary);
    }
}

static void print_general_help(struct rbt_train_request *request)
{
    const struct rbt_option_table common = {train_options, train_option_count, request};
    const struct rbt_option_table list = {list_options, 1, request};
    puts("Usage: rubato train ALGO --data FILE... [options]\n\n"
         "Trains a model. The algorithms are:\n");
    print_algos(stdout);
    puts("\nOptions of every algorithm; \"rubato train ALGO --help\" shows its own, too:\n");
    rbt_option_help(stdout, &common);
    rbt_option_help(stdout, &list);
    puts("\nEvery option may also come from the environment (RUBATO_EPOCHS=20); the command\n"
         "line wins. Numbers accept units: 64k, 10M, 4Ki.\n\n"
         "Examples:\n"
         "  rubato train linear --data train.svm --eval test.svm --model ads.model\n"
         "  rubato train mf --data ratings.csv --workers 4 --log run.jsonl --summary json");
}

static void print_help(const struct rbt_algo *algo, const struct rbt_option_table *tables)
{
    printf("Usage: rubato train %s --data FILE... [options]\n\n%s\n\nOptions of %s:\n\n",
           algo->name, algo->summary, algo->name);
    rbt_option_help(stdout, &tables[0]);
    puts("\nOptions of every algorithm:\n");
    rbt_option_help(stdout, &tables[1]);
    printf("\nExamples:\n%s%s", algo->examples,
           algo->examples[strlen(algo->examples) - 1] == '\n' ? "" : "\n");
}

/* The algorithm with this name, or NULL and a complaint recorded. */
static const struct rbt_algo *find_algo(const char *name)
{
    const struct rbt_algo *const *all = rbt_algo_all();
    const char *names[ALGO_COUNT_MAX];
    size_t count = 0;
    for (; all[count] != NULL && count < ALGO_COUNT_MAX; count++) {
        if (strcmp(all[count]->name, name) == 0) {
            return all[count];
        }
        names[count] = all[count]->name;
    }
    const char *guess = rbt_option_guess(name, names, count);
    const rbt_status st = rbt_fail(RBT_E_INVALID, "unrecognized algorithm \"%s\"", name);
    if (guess != NULL) {
        (void)rbt_fail_hint(st, "Did you mean \"%s\"? See \"rubato train --list\".", guess);
    } else {
        (void)rbt_fail_hint(st, "See \"rubato train --list\".");
    }
    return NULL;
}

/* `rubato train` with no algorithm in front: help, the list, or a complaint. */
static int run_without_algo(int argc, char *const *argv)
{
    struct rbt_train_request request = {0};
    const struct rbt_option_table tables[] = {{train_options, train_option_count, &request},
                                              {list_options, 1, &request}};
    const struct rbt_option_command command = {
        .name = "rubato train", .tables = tables, .table_count = 2, .positional_max = 1};
    struct rbt_option_arguments arguments;
    const rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st != RBT_OK) {
        return rbt_complain_last(stderr, st);
    }
    if (arguments.wants_help) {
        print_general_help(&request);
        return RBT_EXIT_OK;
    }
    if (request.wants_list) {
        print_algos(stdout);
        return RBT_EXIT_OK;
    }
    return rbt_complain(stderr, RBT_EXIT_USAGE,
                        "Say \"rubato train ALGO --data FILE\"; \"rubato train --list\" shows the "
                        "algorithms.",
                        "the algorithm must come first");
}

static int run_algo(const struct rbt_algo *algo, void *config, int argc, char *const *argv)
{
    struct rbt_train_request request = {.algo = algo, .config = config};
    const struct rbt_option_table tables[] = {
        {algo->options, algo->option_count, config},
        {train_options, train_option_count, &request},
    };
    char name[64];
    snprintf(name, sizeof name, "rubato train %s", algo->name);
    const struct rbt_option_command command = {.name = name, .tables = tables, .table_count = 2};
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, argc - 1, argv + 1, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        print_help(algo, tables);
        return RBT_EXIT_OK;
    }
    request.out = stdout;
    request.err = stderr;
    request.start = (struct rbt_runlog_start){
        .algo = algo->name, .argc = argc, .argv = argv, .tables = tables, .table_count = 2};
    st = st != RBT_OK ? st : rbt_train_check(&request);
    st = st != RBT_OK ? st : rbt_train_run(&request);
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}

int rbt_cmd_train(int argc, char *const *argv)
{
    if (argc == 0 || argv[0][0] == '-') {
        return run_without_algo(argc, argv);
    }
    const struct rbt_algo *algo = find_algo(argv[0]);
    if (algo == NULL) {
        return rbt_complain_last(stderr, RBT_E_INVALID);
    }
    void *config = rbt_calloc(1, algo->config_size);
    if (config == NULL) {
        return rbt_complain_last(stderr,
                                 rbt_fail(RBT_E_NOMEM, "could not allocate the configuration"));
    }
    const int code = run_algo(algo, config, argc, argv);
    rbt_free(config);
    return code;
}
