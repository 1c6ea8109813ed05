/* cli/train_line.c - the command line of one training run: what follows "train". */
#include "cli/train_line.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "cli/filter_line.h"
#include "cli/names.h"
#include "cli/priority_line.h"
#include "cli/rule_line.h"
#include "comm/priority.h"

enum { ALGO_COUNT_MAX = 64 };

#define AT(field) offsetof(struct rbt_train_request, field)

static const char *const pulls[] = {
    [RBT_PULL_CORRECTED] = "corrected", [RBT_PULL_PRINTED] = "printed", NULL};

static const char consistency_default[] = "essp:2";

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
    RBT_NAMES_INPUT_OPTIONS(AT),
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
     .help =
         "Clocks in a pass: how often workers exchange updates. The algorithm has a default: "
         "mostly 1; 2 in linear, 4 in lda and fm, up to 8 in mf with several workers, 32 with a "
         "rule that takes gradients.",
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
    {.name = "placement",
     .type = RBT_OPTION_CHOICE,
     .value = "hash",
     .choices = rbt_names_placement,
     .help = "Which shard holds a parameter: by the hash of its key, by equal ranges of keys, by "
             "small ranges that are hashed, or in turn. Changes traffic, not results.",
     .offset = AT(options.placement)},
    {.name = "consistency",
     .type = RBT_OPTION_TEXT,
     .value = consistency_default,
     .unit = "C",
     .help =
         "How stale reads may be: bsp (not at all), ssp:S or essp:S (at most S clocks), asp (no "
         "bound), auto or auto:S (found out while training, starting at S).",
     .offset = AT(options.consistency)},
    {.name = "rule",
     .type = RBT_OPTION_TEXT,
     .unit = "R[:k=v,...]",
     .help = "How the server applies updates: add, dynsgd, adarev, ..., or ./yours.so; \"--rule "
             "help\" explains them.",
     .offset = AT(options.rule)},
    {.name = "pull",
     .type = RBT_OPTION_CHOICE,
     .value = "corrected",
     .choices = pulls,
     .help = "With rules that weigh moves: whether a worker fetches a fresh copy as soon as its "
             "staleness asks for it, or one clock later, as the paper prints it.",
     .offset = AT(options.pull)},
    {.name = "synchronise",
     .type = RBT_OPTION_FLAG,
     .help = "With dynsgd and several servers: read the newest version that all of them have, "
             "instead of what each has.",
     .offset = AT(options.is_synchronised)},
    {.name = "tiny",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .help = "With a rule: updates smaller than this wait until they have grown. By default 0; "
             "1e-6 for dynsgd.",
     .offset = AT(options.tiny)},
    {.name = "bandwidth",
     .type = RBT_OPTION_RATE,
     .help = "Managed communication: rows travel before a clock ends, the most important first, as "
             "far as this allows: bytes per second of a node, as many each way. 200Mbit, 25MB; a "
             "plain number is bytes. By default rows travel when a clock ends. For lda, and "
             "linear and mf with a rule that takes gradients; others refuse it.",
     .offset = AT(options.bandwidth)},
    {.name = "priority",
     .type = RBT_OPTION_TEXT,
     .unit = "NAME",
     .help = "With --bandwidth, which rows go first: oldest, walk, random, magnitude, relative (by "
             "default), sweep, or ./yours.so; \"--priority help\" explains them.",
     .offset = AT(options.priority)},
    {.name = "filter",
     .type = RBT_OPTION_TEXT,
     .unit = "F[:x],...",
     .help = "What makes messages smaller: keys, significant:0.001, fixed:8, lz4, ..., or "
             "./yours.so; \"--filter help\" explains them.",
     .offset = AT(options.filter)},
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
    {.name = "exact",
     .type = RBT_OPTION_FLAG,
     .help = "After every clock of worker 0, tell the exact objective of what the servers have at "
             "that moment, and stop at --target by it. Otherwise it is the loss on the workers' "
             "copies, once per epoch. Takes time, but none of a simulation.",
     .offset = AT(options.is_exact)},
    {.name = "until",
     .type = RBT_OPTION_TIME,
     .min = 0,
     .max = 1e6,
     .help = "Stop when so much time has passed: 500ms, 90s, 10m.",
     .offset = AT(options.until)},
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

struct rbt_option_table rbt_train_line_common(struct rbt_train_request *request)
{
    return (struct rbt_option_table){train_options, sizeof train_options / sizeof train_options[0],
                                     request};
}

void rbt_train_line_help(const struct rbt_train_line *line)
{
    const struct rbt_algo *algo = line->request.algo;
    if (line->explain != NULL) {
        line->explain(stdout);
        return;
    }
    printf("Usage: rubato train %s --data FILE... [options]\n\n%s\n\nOptions of %s:\n\n",
           algo->name, algo->summary, algo->name);
    rbt_option_help(stdout, &line->tables[0]);
    puts("\nOptions of every algorithm:\n");
    rbt_option_help(stdout, &line->tables[1]);
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

/* Other processes may be elsewhere: paths become absolute. */
static rbt_status resolve(struct rbt_train_line *line)
{
    struct rbt_train_options *options = &line->request.options;
    rbt_status st = RBT_OK;
    if (options->rule != NULL) {
        st = rbt_rule_resolve(options->rule, line->rule);
        options->rule = line->rule;
    }
    if (st == RBT_OK && options->filter != NULL) {
        st = rbt_filter_resolve(options->filter, line->filter);
        options->filter = line->filter;
    }
    if (st == RBT_OK && options->priority != NULL && options->bandwidth == 0) {
        st = rbt_fail(RBT_E_INVALID, "\"--priority\" needs \"--bandwidth\": without it no row goes "
                                     "before another");
        return rbt_fail_hint(st, "See \"rubato train mf --priority help\".");
    }
    if (st == RBT_OK) {
        st = rbt_priority_resolve(options->priority == NULL ? "relative" : options->priority,
                                  line->priority);
        options->priority = line->priority;
    }
    return st;
}

static bool is_help(const char *text)
{
    return text != NULL && strcmp(text, "help") == 0;
}

/* The algorithm's options with the defaults that it has instead of others. */
static rbt_status take_options(const struct rbt_algo *algo, struct rbt_train_line *line)
{
    line->config = rbt_calloc(1, algo->config_size);
    line->options = rbt_calloc(algo->option_count, sizeof *line->options);
    if (line->config == NULL || line->options == NULL) {
        rbt_train_line_free(line);
        return rbt_fail(RBT_E_NOMEM, "could not allocate the configuration");
    }
    const struct rbt_algo_default *own = algo->defaults;
    for (size_t i = 0; i < algo->option_count; i++) {
        line->options[i] = algo->options[i];
    }
    for (; own != NULL && own->name != NULL; own++) {
        size_t i = 0;
        while (i < algo->option_count && strcmp(algo->options[i].name, own->name) != 0) {
            i++;
        }
        RBT_ASSERT(i < algo->option_count); /* there is such an option */
        line->options[i].value = own->value;
    }
    line->tables[0] = (struct rbt_option_table){line->options, algo->option_count, line->config};
    return RBT_OK;
}

rbt_status rbt_train_line_parse(int argc, char *const *argv, struct rbt_train_line *line)
{
    *line = (struct rbt_train_line){0};
    if (argc == 0 || argv[0][0] == '-') {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "the algorithm must come first");
        return rbt_fail_hint(st, "Say \"rubato train ALGO --data FILE\"; \"rubato train --list\" "
                                 "shows the algorithms.");
    }
    const struct rbt_algo *algo = find_algo(argv[0]);
    if (algo == NULL) {
        return RBT_E_INVALID;
    }
    rbt_status st = take_options(algo, line);
    if (st != RBT_OK) {
        return st;
    }
    line->tables[1] = rbt_train_line_common(&line->request);
    char name[64];
    snprintf(name, sizeof name, "rubato train %s", algo->name);
    const struct rbt_option_command command = {
        .name = name, .tables = line->tables, .table_count = RBT_TRAIN_LINE_TABLES};
    struct rbt_option_arguments arguments;
    st = rbt_option_parse(&command, argc - 1, argv + 1, &arguments);
    if (st != RBT_OK) {
        rbt_train_line_free(line);
        return st;
    }
    struct rbt_train_options *options = &line->request.options;
    options->names_consistency = options->consistency != consistency_default; /* the very text */
    if (!arguments.wants_help) {
        line->explain = is_help(options->rule)       ? rbt_rule_line_help
                        : is_help(options->filter)   ? rbt_filter_line_help
                        : is_help(options->priority) ? rbt_priority_line_help
                                                     : NULL;
    }
    line->wants_help = arguments.wants_help || line->explain != NULL;
    st = line->wants_help ? RBT_OK : resolve(line);
    if (st != RBT_OK) {
        rbt_train_line_free(line);
        return st;
    }
    line->request.algo = algo;
    line->request.config = line->config;
    line->request.out = stdout;
    line->request.err = stderr;
    line->request.start = (struct rbt_runlog_start){.command = "train",
                                                    .algo = algo->name,
                                                    .argc = argc,
                                                    .argv = argv,
                                                    .tables = line->tables,
                                                    .table_count = RBT_TRAIN_LINE_TABLES};
    return RBT_OK;
}

void rbt_train_line_plugins(const struct rbt_train_line *line,
                            void (*visit)(void *context, const char *path), void *context)
{
    char path[RBT_PLUGIN_PATH_MAX];
    _Static_assert((int)RBT_PLUGIN_PATH_MAX >= (int)RBT_RULE_TEXT_MAX, "a path fits");
    _Static_assert((int)RBT_PLUGIN_PATH_MAX >= (int)RBT_FILTER_TEXT_MAX, "a path fits");
    const size_t size = rbt_rule_name_size(line->rule);
    if (memchr(line->rule, '/', size) != NULL) {
        memcpy(path, line->rule, size);
        path[size] = '\0';
        visit(context, path);
    }
    const char *filters = line->filter;
    while (rbt_filter_next_path(&filters, path)) {
        visit(context, path);
    }
    if (strchr(line->priority, '/') != NULL) {
        visit(context, line->priority);
    }
}

void rbt_train_line_free(struct rbt_train_line *line)
{
    rbt_free(line->options);
    rbt_free(line->config);
    line->options = NULL;
    line->config = NULL;
}
