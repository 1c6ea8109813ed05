/* cli/train_line.c - the command line of one training run: what follows "train". */
#include "cli/train_line.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "algo/registry.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "cli/names.h"
#include "policy/help.h"
#include "policy/priority/priority.h"

enum { ALGO_COUNT_MAX = 64, GROUPS_MAX = 16 };

#define OWN(kind, field, ...)   RBT_OPTION_ENTRY(struct rbt_train_request, kind, field, __VA_ARGS__)
#define ENTRY(kind, field, ...) OWN(kind, options.field, __VA_ARGS__)
static const struct rbt_option train_options[] = {
    RBT_TRAIN_DATA_OPTIONS(ENTRY) RBT_INPUT_OPTIONS(ENTRY) RBT_TRAIN_OPTIONS(ENTRY)
        RBT_TRAIN_REQUEST_OPTIONS(OWN) RBT_TRAIN_EXPERIMENT_OPTIONS(ENTRY)};

struct rbt_option_table rbt_train_line_common(struct rbt_train_request *request)
{
    return (struct rbt_option_table){train_options, sizeof train_options / sizeof train_options[0],
                                     request};
}

void rbt_train_line_print(FILE *out, const char *own, const struct rbt_algo *algo,
                          const struct rbt_option_table *tables, size_t count)
{
    const char *groups[GROUPS_MAX + 1] = {own, RBT_GROUP_MODEL, RBT_GROUP_DATA, RBT_GROUP_TRAINING};
    const char *const last[] = {RBT_GROUP_CLUSTER, RBT_GROUP_OUTPUT, RBT_GROUP_EXPERIMENTS};
    const size_t last_count = sizeof last / sizeof last[0];
    size_t at = 4;
    for (size_t i = 0; algo != NULL && algo->groups != NULL && algo->groups[i] != NULL; i++) {
        RBT_ASSERT(at + last_count < GROUPS_MAX);
        groups[at++] = algo->groups[i];
    }
    memcpy(groups + at, last, sizeof last);
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
    rbt_train_line_print(stdout, own, algo, line->tables, RBT_TRAIN_LINE_TABLES);
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
    options->names_consistency =
        options->consistency != rbt_train_options_consistency; /* the very text */
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
    _Static_assert((int)RBT_PLUGIN_PATH_MAX >= (int)RBT_TEXT_MAX, "a path fits");
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
