/* cli/apply.c - what `predict` and `eval` share: a model file, data, and who can bring them
 * together. */
#include "cli/apply.h"

#include <stddef.h>
#include <stdio.h>

#include "algo/registry.h"
#include "base/error.h"

#define ENTRY(kind, field, ...) RBT_OPTION_ENTRY(struct rbt_apply, kind, options.field, __VA_ARGS__)

static const struct rbt_option apply_options[] = {
    {.name = "data",
     .type = RBT_OPTION_LIST,
     .help = "Examples: files, directories, globs, \"-\" for standard input; may be compressed "
             "(.zst, .gz, .xz).",
     .offset = offsetof(struct rbt_apply, options.data)},
    RBT_INPUT_OPTIONS(ENTRY)};

static struct rbt_option_table own_table(struct rbt_apply *apply)
{
    return (struct rbt_option_table){apply_options, sizeof apply_options / sizeof apply_options[0],
                                     apply};
}

rbt_status rbt_apply_parse(struct rbt_apply *apply, const char *name,
                           const struct rbt_option_table *extra, int argc, char *const *argv)
{
    const struct rbt_option_table tables[] = {own_table(apply), *extra};
    const struct rbt_option_command command = {
        .name = name, .tables = tables, .table_count = 2, .positional_max = 1};
    rbt_status st = rbt_option_parse(&command, argc, argv, &apply->arguments);
    if (st != RBT_OK || apply->arguments.wants_help) {
        return st;
    }
    if (apply->arguments.count == 0) {
        st = rbt_fail(RBT_E_INVALID, "the model file is missing");
        return rbt_fail_hint(st, "Name the model first: %s MODEL --data FILE.", name);
    }
    if (apply->options.data.count == 0) {
        st = rbt_fail(RBT_E_INVALID, "option \"--data\" is missing");
        return rbt_fail_hint(st, "Name the examples: %s MODEL --data FILE.", name);
    }
    apply->path = apply->arguments.values[0];
    apply->options.note = apply->note;
    return RBT_OK;
}

void rbt_apply_note(const struct rbt_apply *apply)
{
    if (apply->note[0] != '\0') {
        fprintf(stderr, "rubato: note: %s\n", apply->note);
    }
}

void rbt_apply_help(struct rbt_apply *apply)
{
    const struct rbt_option_table table = own_table(apply);
    rbt_option_help(stdout, &table);
}

rbt_status rbt_apply_open(struct rbt_apply *apply)
{
    const rbt_status st = rbt_model_read(apply->path, &apply->model);
    if (st != RBT_OK) {
        return st == RBT_E_INVALID ? RBT_E_DATA : st; /* the file is wrong, not the command line */
    }
    apply->algo = rbt_algo_of_kind(apply->model.kind);
    if (apply->algo != NULL) {
        return RBT_OK;
    }
    const uint32_t kind = apply->model.kind;
    rbt_model_free(&apply->model);
    return rbt_fail(RBT_E_DATA, "cannot read \"%s\": no algorithm has models of kind %u",
                    apply->path, kind);
}
