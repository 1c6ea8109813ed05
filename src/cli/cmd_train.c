/* cli/cmd_train.c - `rubato train ALGO`: trains a model. */
#include <stddef.h>
#include <stdio.h>

#include "algo/registry.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/train.h"
#include "cli/train_line.h"

/* Only for `rubato train` without an algorithm. */
static const struct rbt_option list_options[] = {
    {.name = "list",
     .type = RBT_OPTION_FLAG,
     .help = "List the algorithms.",
     .offset = offsetof(struct rbt_train_request, wants_list)},
};

static void print_algos(FILE *out)
{
    for (const struct rbt_algo *const *algo = rbt_algo_all(); *algo != NULL; algo++) {
        fprintf(out, "  %-10s %s\n", (*algo)->name, (*algo)->summary);
    }
}

static void print_general_help(const struct rbt_option_table *tables, size_t count)
{
    puts("Usage: rubato train ALGO --data FILE... [options]\n\n"
         "Trains a model. The algorithms are:\n");
    print_algos(stdout);
    puts("\nEvery algorithm has the options below; \"rubato train ALGO --help\" adds its own.");
    rbt_train_line_print(stdout, "List of algorithms", NULL, tables, count);
    puts("\nEvery option may also come from the environment (RUBATO_EPOCHS=20); the command\n"
         "line wins. Numbers accept units: 64k, 10M, 4Ki.\n\n"
         "Examples:\n"
         "  rubato train linear --data train.svm --eval test.svm --model ads.model\n"
         "  rubato train mf --data ratings.csv --workers 4 --log run.jsonl --summary json");
}

/* `rubato train` with no algorithm in front: whether it was answered with help or the list. */
static rbt_status answer_without_algo(int argc, char *const *argv, bool *is_answered)
{
    struct rbt_train_request request = {0};
    const struct rbt_option_table tables[] = {rbt_train_line_common(&request),
                                              {list_options, 1, &request}};
    const struct rbt_option_command command = {
        .name = "rubato train", .tables = tables, .table_count = 2, .positional_max = 1};
    struct rbt_option_arguments arguments;
    const rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st != RBT_OK) {
        return st;
    }
    *is_answered = arguments.wants_help || request.wants_list;
    if (arguments.wants_help) {
        print_general_help(tables, 2);
    } else if (request.wants_list) {
        print_algos(stdout);
    }
    return RBT_OK;
}

static rbt_status run(int argc, char *const *argv)
{
    struct rbt_train_line line;
    rbt_status st = rbt_train_line_parse(argc, argv, &line);
    if (st != RBT_OK) {
        return st;
    }
    if (line.wants_help) {
        rbt_train_line_help(&line);
    } else {
        st = rbt_train_check(&line.request);
        st = st != RBT_OK ? st : rbt_train_run(&line.request);
    }
    rbt_train_line_free(&line);
    return st;
}

int rbt_cmd_train(int argc, char *const *argv)
{
    bool is_answered = false;
    rbt_status st = RBT_OK;
    if (argc == 0 || argv[0][0] == '-') {
        st = answer_without_algo(argc, argv, &is_answered);
    }
    if (st == RBT_OK && !is_answered) {
        st = run(argc, argv);
    }
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
