/* cli/cmd_eval.c - `rubato eval MODEL --data F`: metrics of a model on labelled data. */
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/apply.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/names.h"
#include "cli/summary.h"

static const struct rbt_option eval_options[] = {
    {.name = "summary",
     .type = RBT_OPTION_CHOICE,
     .value = "text",
     .choices = rbt_names_summary,
     .help = "Format of the metrics.",
     .offset = offsetof(struct rbt_apply, summary)},
};

static void print_help(struct rbt_apply *apply, const struct rbt_option_table *own)
{
    puts("Usage: rubato eval MODEL --data FILE... [options]\n\n"
         "Evaluates a model on labelled data.\n");
    rbt_apply_help(apply);
    rbt_option_help(stdout, own);
    puts("\nExamples:\n"
         "  rubato eval ads.model --data test.svm\n"
         "  rubato eval movies.model --data held-out.csv --summary json");
}

static rbt_status print(const struct rbt_apply *apply, const struct rbt_metrics *metrics)
{
    if (apply->summary == RBT_SUMMARY_TEXT) {
        for (size_t i = 0; i < metrics->count; i++) {
            printf("%-10s %.6g\n", metrics->names[i], metrics->values[i]);
        }
        return RBT_OK; /* main() looks whether standard output took it */
    }
    struct rbt_json json = {0};
    rbt_json_begin(&json, NULL, '{');
    rbt_json_text(&json, "algo", apply->algo->name);
    rbt_json_text(&json, "model", apply->path);
    rbt_summary_metrics(&json, "eval", metrics);
    rbt_json_end(&json, '}');
    const rbt_status st = rbt_json_print(&json, stdout);
    rbt_json_deinit(&json);
    return st == RBT_OK ? st : rbt_fail_in(st, "could not report the metrics");
}

int rbt_cmd_eval(int argc, char *const *argv)
{
    struct rbt_apply apply = {0};
    const struct rbt_option_table own = {eval_options, 1, &apply};
    rbt_status st = rbt_apply_parse(&apply, "rubato eval", &own, argc, argv);
    if (st == RBT_OK && apply.arguments.wants_help) {
        print_help(&apply, &own);
        return RBT_EXIT_OK;
    }
    st = st != RBT_OK ? st : rbt_apply_open(&apply);
    if (st == RBT_OK) {
        struct rbt_metrics metrics = {0};
        st = apply.algo->evaluate(&apply.model, &apply.options, &metrics);
        rbt_apply_note(&apply);
        st = st != RBT_OK ? st : print(&apply, &metrics);
        rbt_model_free(&apply.model);
    }
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
