/* cli/cmd_export.c - `rubato export MODEL --format NAME`: a model as other programs read it. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "algo/registry.h"
#include "base/error.h"
#include "cli/apply.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/output.h"

struct order {
    struct rbt_apply apply;
    const char *format; /* NULL: the first that there is */
};

static const struct rbt_option export_options[] = {
    {.name = "format",
     .type = RBT_OPTION_TEXT,
     .unit = "NAME",
     .help = "Format, one of those listed below for the kind of model; by default the first.",
     .offset = offsetof(struct order, format)},
    {.name = "out",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "File to write instead of standard output.",
     .offset = offsetof(struct order, apply.out)},
};

static void print_help(const struct rbt_option_table *own)
{
    puts("Usage: rubato export MODEL [--format NAME] [--out FILE]\n\n"
         "Writes a model as text that other programs read.\n");
    rbt_option_help(stdout, own);
    puts("\nFormats:");
    for (const struct rbt_algo *const *algo = rbt_algo_all(); *algo != NULL; algo++) {
        const struct rbt_algo_export *format = (*algo)->exports;
        for (; format != NULL && format->name != NULL; format++) {
            printf("  %-8s %-12s %s\n", (*algo)->name, format->name, format->summary);
        }
    }
    puts("\nExamples:\n"
         "  rubato export ads.model --format liblinear --out ads.liblinear\n"
         "  rubato export movies.model | head");
}

/* The names of the formats, for a message. */
static void list_formats(const struct rbt_algo *algo, char *text, size_t size)
{
    size_t used = 0;
    for (const struct rbt_algo_export *one = algo->exports; one->name != NULL; one++) {
        const char *link = one == algo->exports ? "" : one[1].name == NULL ? " and " : ", ";
        const int count = snprintf(text + used, size - used, "%s\"%s\"", link, one->name);
        if (count < 0 || (size_t)count >= size - used) {
            return;
        }
        used += (size_t)count;
    }
}

static rbt_status find_format(const struct order *order, const struct rbt_algo_export **found)
{
    const struct rbt_algo *algo = order->apply.algo;
    if (algo->exports == NULL) {
        return rbt_fail(RBT_E_INVALID, "models of \"%s\" have no other format", algo->name);
    }
    for (*found = algo->exports; (*found)->name != NULL; (*found)++) {
        if (order->format == NULL || strcmp((*found)->name, order->format) == 0) {
            return RBT_OK;
        }
    }
    char names[256] = "";
    list_formats(algo, names, sizeof names);
    const rbt_status st = rbt_fail(RBT_E_INVALID, "models of \"%s\" have no format \"%s\"",
                                   algo->name, order->format);
    return rbt_fail_hint(st, "There is %s.", names);
}

/* Writes into a file that appears only when it is complete. */
static rbt_status export_model(const struct order *order)
{
    const struct rbt_apply *apply = &order->apply;
    const struct rbt_option_list model = {.values = {apply->path}, .count = 1};
    const struct rbt_algo_export *format = NULL;
    struct rbt_output output;
    rbt_status st = find_format(order, &format);
    st = st != RBT_OK ? st : rbt_output_spare(apply->out, "--out", &model);
    st = st != RBT_OK ? st : rbt_output_open(apply->out, &output);
    if (st != RBT_OK) {
        return st;
    }
    st = format->write(&apply->model, output.file);
    if (st != RBT_OK) {
        rbt_output_drop(&output);
        return st;
    }
    return rbt_output_close(&output);
}

int rbt_cmd_export(int argc, char *const *argv)
{
    struct order order = {0};
    struct rbt_option_arguments *arguments = &order.apply.arguments;
    const struct rbt_option_table own = {export_options,
                                         sizeof export_options / sizeof export_options[0], &order};
    const struct rbt_option_command command = {
        .name = "rubato export", .tables = &own, .table_count = 1, .positional_max = 1};
    rbt_status st = rbt_option_parse(&command, argc, argv, arguments);
    if (st == RBT_OK && arguments->wants_help) {
        print_help(&own);
        return RBT_EXIT_OK;
    }
    if (st == RBT_OK && arguments->count == 0) {
        st = rbt_fail(RBT_E_INVALID, "the model file is missing");
        st = rbt_fail_hint(st, "Name the model first: rubato export MODEL --format NAME.");
    }
    if (st == RBT_OK) {
        order.apply.path = arguments->values[0];
        st = rbt_apply_open(&order.apply);
    }
    if (st == RBT_OK) {
        st = export_model(&order);
        rbt_model_free(&order.apply.model);
    }
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
