/* cli/cmd_predict.c - `rubato predict MODEL --data F`: scores examples, one value per line. */
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "cli/apply.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/output.h"

static const struct rbt_option predict_options[] = {
    {.name = "out",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "File for the values instead of standard output.",
     .offset = offsetof(struct rbt_apply, out)},
    {.name = "probabilities",
     .type = RBT_OPTION_FLAG,
     .help = "With a model of several classes: print the probability of every class, in the order "
             "of the labels, instead of the likeliest class.",
     .offset = offsetof(struct rbt_apply, options.has_probabilities)},
};

static void print_help(struct rbt_apply *apply, const struct rbt_option_table *own)
{
    puts("Usage: rubato predict MODEL --data FILE... [options]\n\n"
         "Scores examples with a model, one value per line in the order of the data.\n");
    rbt_apply_help(apply);
    rbt_option_help(stdout, own);
    puts("\nExamples:\n"
         "  rubato predict ads.model --data test.svm --out scores.txt\n"
         "  zcat today.svm.gz | rubato predict ads.model --data - --format libsvm | head");
}

/* Refuses --probabilities where a model has none, so that nobody takes margins for them. */
static rbt_status check_probabilities(const struct rbt_apply *apply)
{
    const struct rbt_algo *algo = apply->algo;
    if (algo->why_uncertain == NULL) {
        return rbt_fail(RBT_E_INVALID, "\"%s\" has no probabilities: it is a model of \"%s\"",
                        apply->path, algo->name);
    }
    const char *what = algo->why_uncertain(&apply->model);
    return what == NULL ? RBT_OK
                        : rbt_fail(RBT_E_INVALID, "\"%s\" has no probabilities: it is %s",
                                   apply->path, what);
}

/* Predicts into a file that appears only when it is complete. */
static rbt_status predict(struct rbt_apply *apply)
{
    struct rbt_output output;
    const struct rbt_option_list model = {.values = {apply->arguments.values[0]}, .count = 1};
    rbt_status st = apply->options.has_probabilities ? check_probabilities(apply) : RBT_OK;
    st = st != RBT_OK ? st : rbt_output_spare(apply->out, "--out", &apply->options.data);
    st = st != RBT_OK ? st : rbt_output_spare(apply->out, "--out", &model);
    st = st != RBT_OK ? st : rbt_output_open(apply->out, &output);
    if (st != RBT_OK) {
        return st;
    }
    apply->options.out = output.file;
    st = apply->algo->predict(&apply->model, &apply->options);
    if (st == RBT_OK && (fflush(output.file) != 0 || ferror(output.file))) {
        st = rbt_fail(RBT_E_IO, "could not write predictions");
    }
    if (st != RBT_OK) {
        rbt_output_drop(&output);
        return st;
    }
    return rbt_output_close(&output);
}

int rbt_cmd_predict(int argc, char *const *argv)
{
    struct rbt_apply apply = {0};
    const struct rbt_option_table own = {predict_options, 2, &apply};
    rbt_status st = rbt_apply_parse(&apply, "rubato predict", &own, argc, argv);
    if (st == RBT_OK && apply.arguments.wants_help) {
        print_help(&apply, &own);
        return RBT_EXIT_OK;
    }
    st = st != RBT_OK ? st : rbt_apply_open(&apply);
    if (st == RBT_OK) {
        st = predict(&apply);
        rbt_apply_note(&apply);
        rbt_model_free(&apply.model);
    }
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
