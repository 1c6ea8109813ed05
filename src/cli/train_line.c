/* cli/train_line.c - the command line of one training run: what follows "train". */
#include "cli/train_line.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "cli/names.h"
#include "policy/help.h"
#include "policy/priority/priority.h"

enum { ALGO_COUNT_MAX = 64 };

#define AT(field) offsetof(struct rbt_train_request, field)

static const char *const pulls[] = {
    [RBT_PULL_CORRECTED] = "corrected", [RBT_PULL_PRINTED] = "printed", NULL};

static const char consistency_default[] = "essp:2";

static const struct rbt_option train_options[] = {
    {.name = "data",
     .group = RBT_GROUP_DATA,
     .type = RBT_OPTION_LIST,
     .offset = AT(options.data),
     .help = "Training data: files, directories, globs, or \"-\" for standard input; may be "
             "compressed (.zst, .gz, .xz)."},
    {.name = "eval",
     .type = RBT_OPTION_LIST,
     .offset = AT(options.eval),
     .help = "Data to evaluate the model on after every epoch."},
    RBT_NAMES_INPUT_OPTIONS(AT),
    {.name = "epochs",
     .group = RBT_GROUP_TRAINING,
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1000000,
     .offset = AT(options.epochs),
     .help = "Passes over the data. The default depends on the algorithm."},
    {.name = "seed",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 9.3e18,
     .value = "1",
     .offset = AT(options.seed),
     .help = "Seed of all random numbers."},
    {.name = "target",
     .type = RBT_OPTION_REAL,
     .value = "nan",
     .offset = AT(options.target),
     .help = "Stop when the objective of a pass reaches X."},
    {.name = "patience",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1000000,
     .offset = AT(options.patience),
     .help = "Stop when the objective has not improved for N evaluations."},
    {.name = "until",
     .type = RBT_OPTION_TIME,
     .min = 0,
     .max = 1e6,
     .offset = AT(options.until),
     .help = "Stop after this time: 500ms, 90s, 10m."},
    {.name = "workers",
     .group = RBT_GROUP_CLUSTER,
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1024,
     .offset = AT(options.workers),
     .help = "Worker threads; by default one per core."},
    {.name = "servers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 256,
     .value = "1",
     .offset = AT(options.servers),
     .help = "Shards that hold the parameters."},
    {.name = "placement",
     .type = RBT_OPTION_CHOICE,
     .choices = rbt_names_placement,
     .value = "hash",
     .offset = AT(options.placement),
     .help = "How parameters are assigned to shards: by the hash of the key, by equal ranges of "
             "keys, by the hash of small ranges, or in turn. Affects traffic, not results."},
    {.name = "consistency",
     .type = RBT_OPTION_TEXT,
     .unit = "C",
     .value = consistency_default,
     .offset = AT(options.consistency),
     .help = "Bound on the staleness of reads: bsp (none is stale), ssp:S or essp:S (at most S "
             "clocks), asp (no bound), auto or auto:S (chosen and adjusted while training, "
             "starting at S)."},
    {.name = "clocks-per-epoch",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1000000,
     .offset = AT(options.clocks_per_epoch),
     .help = "Clocks per pass; workers exchange updates at every clock. The default depends on "
             "the algorithm: usually 1; 2 in linear, 4 in lda and fm, up to 8 in mf with several "
             "workers, 32 with a rule that takes gradients."},
    {.name = "rule",
     .type = RBT_OPTION_TEXT,
     .unit = "R[:k=v,...]",
     .offset = AT(options.rule),
     .help = "How servers apply updates: add, dynsgd, adarev, ..., or ./yours.so; \"--rule "
             "help\" explains the rules."},
    {.name = "filter",
     .type = RBT_OPTION_TEXT,
     .unit = "F[:x],...",
     .offset = AT(options.filter),
     .help = "Filters that make messages smaller: keys, significant:0.001, fixed:8, lz4, ..., or "
             "./yours.so; \"--filter help\" explains them."},
    {.name = "bandwidth",
     .type = RBT_OPTION_RATE,
     .offset = AT(options.bandwidth),
     .help = "Managed communication: send rows before a clock ends, the most important first, at "
             "this rate per node and direction: 200Mbit, 25MB; a plain number is bytes per "
             "second. Without it rows are sent when a clock ends. For lda, and for linear and mf "
             "with a rule that takes gradients."},
    {.name = "priority",
     .type = RBT_OPTION_TEXT,
     .unit = "NAME",
     .offset = AT(options.priority),
     .help = "With --bandwidth, which rows are sent first: relative (the default), magnitude, "
             "random, oldest, walk, sweep, or ./yours.so; \"--priority help\" explains them."},
    {.name = "model",
     .group = RBT_GROUP_OUTPUT,
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .offset = AT(options.model),
     .help = "File to write the model to."},
    {.name = "log",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .offset = AT(log),
     .help = "File to write a log to, one JSON object per line; \"rubato plot\" draws it."},
    {.name = "summary",
     .type = RBT_OPTION_CHOICE,
     .choices = rbt_names_train_summary,
     .value = "text",
     .offset = AT(summary),
     .help = "How results are printed: text has the result, the time and where the model is; full "
             "has all figures; json has all figures for programs."},
    {.name = "progress",
     .type = RBT_OPTION_CHOICE,
     .choices = rbt_names_progress,
     .value = "auto",
     .unit = "WHEN",
     .offset = AT(progress),
     .help = "Whether to show progress on standard error."},
    {.name = "exact",
     .group = RBT_GROUP_EXPERIMENTS,
     .type = RBT_OPTION_FLAG,
     .offset = AT(options.is_exact),
     .help = "Report the exact objective of the servers' parameters after every clock of worker "
             "0, and compare it with --target. Otherwise the objective is the loss on the "
             "workers' copies, once per epoch. Slow, but costs no simulated time."},
    {.name = "pull",
     .type = RBT_OPTION_CHOICE,
     .choices = pulls,
     .value = "corrected",
     .offset = AT(options.pull),
     .help = "With rules that weigh moves, when a worker fetches a fresh copy: corrected, as "
             "soon as its staleness requires it; printed, one clock later, as the paper prints "
             "it."},
    {.name = "synchronise",
     .type = RBT_OPTION_FLAG,
     .offset = AT(options.is_synchronised),
     .help = "With dynsgd and several servers: read the newest version that all servers have."},
    {.name = "tiny",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1e6,
     .value = "nan",
     .offset = AT(options.tiny),
     .help = "With a rule: hold back updates below X until they have grown. By default 0; 1e-6 "
             "for dynsgd."},
};

struct rbt_option_table rbt_train_line_common(struct rbt_train_request *request)
{
    return (struct rbt_option_table){train_options, sizeof train_options / sizeof train_options[0],
                                     request};
}

void rbt_train_line_print(FILE *out, const char *own, const struct rbt_option_table *tables,
                          size_t count)
{
    const char *const groups[] = {own,
                                  RBT_GROUP_MODEL,
                                  RBT_GROUP_DATA,
                                  RBT_GROUP_TRAINING,
                                  RBT_GROUP_SGD,
                                  RBT_GROUP_DBPG,
                                  RBT_GROUP_EMSO,
                                  RBT_GROUP_CLUSTER,
                                  RBT_GROUP_OUTPUT,
                                  RBT_GROUP_EXPERIMENTS,
                                  NULL};
    rbt_option_help_by_group(out, tables, count, groups);
}

void rbt_train_line_help(const struct rbt_train_line *line)
{
    const struct rbt_algo *algo = line->request.algo;
    if (line->explain != NULL) {
        rbt_policy_help(stdout, line->explain);
        return;
    }
    char own[64];
    snprintf(own, sizeof own, "Options of %s", algo->name);
    printf("Usage: rubato train %s --data FILE... [options]\n\n%s\n", algo->name, algo->summary);
    rbt_train_line_print(stdout, own, line->tables, RBT_TRAIN_LINE_TABLES);
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
    const rbt_status st = rbt_fail(RBT_E_INVALID, "unrecognised algorithm \"%s\"", name);
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
        st = rbt_policy_resolve(&rbt_policy_rules, options->rule, line->rule);
        options->rule = line->rule;
        options->rule_lr = rbt_rule_default(line->rule, "lr");
    }
    if (st == RBT_OK && options->filter != NULL) {
        st = rbt_policy_resolve(&rbt_policy_filters, options->filter, line->filter);
        options->filter = line->filter;
    }
    if (st == RBT_OK && options->priority != NULL && options->bandwidth == 0) {
        st = rbt_fail(
            RBT_E_INVALID,
            "option \"--priority\" needs \"--bandwidth\", which sends rows before a clock ends");
        return rbt_fail_hint(st, "See \"rubato train mf --priority help\".");
    }
    if (st == RBT_OK) {
        st = rbt_policy_resolve(&rbt_policy_priorities,
                                options->priority == NULL ? "relative" : options->priority,
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
        const rbt_status st = rbt_fail(RBT_E_INVALID, "the name of the algorithm is missing");
        return rbt_fail_hint(
            st,
            "Use \"rubato train ALGO --data FILE\"; \"rubato train --list\" lists the algorithms.");
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
        line->explain = is_help(options->rule)       ? &rbt_policy_rules
                        : is_help(options->filter)   ? &rbt_policy_filters
                        : is_help(options->priority) ? &rbt_policy_priorities
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
    const struct {
        const struct rbt_policy_kind *kind;
        const char *text;
    } all[] = {{&rbt_policy_rules, line->rule},
               {&rbt_policy_filters, line->filter},
               {&rbt_policy_priorities, line->priority}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *at = all[i].text;
        while (rbt_policy_next_path(all[i].kind, &at, path)) {
            visit(context, path);
        }
    }
}

void rbt_train_line_free(struct rbt_train_line *line)
{
    rbt_free(line->options);
    rbt_free(line->config);
    line->options = NULL;
    line->config = NULL;
}
