/* cli/apply.h - what `predict` and `eval` share: a model file, data, and who can bring them
 * together. */
#ifndef RUBATO_CLI_APPLY_H
#define RUBATO_CLI_APPLY_H

#include <rubato/export.h>
#include <rubato/status.h>

#include "algo/frame/algo.h"
#include "base/option.h"

/* What the command was told, and the model it names. */
struct rbt_apply {
    struct rbt_predict_options options;
    const char *out;             /* of predict: path, or NULL */
    int32_t summary;             /* of eval: enum rbt_summary_format */
    const char *path;            /* of the model */
    char note[RBT_NOTE_SIZE];    /* what there is to say about the data */
    struct rbt_model model;      /* filled in by rbt_apply_open() */
    const struct rbt_algo *algo; /* that made it */
    struct rbt_option_arguments arguments;
};

/* Parses the command line: the options above plus `extra`, and one plain argument, the model. With
 * --help nothing else is checked. `name` is "rubato predict". */
RBT_MUST_USE rbt_status rbt_apply_parse(struct rbt_apply *apply, const char *name,
                                        const struct rbt_option_table *extra, int argc,
                                        char *const *argv);

/* Prints the help of the shared options. */
void rbt_apply_help(struct rbt_apply *apply);

/* Says on standard error what there is to say about the data. */
void rbt_apply_note(const struct rbt_apply *apply);

/* Reads the model and finds its algorithm. The caller frees apply->model. */
RBT_MUST_USE rbt_status rbt_apply_open(struct rbt_apply *apply);

#endif
