/* cli/train_line.h - the command line of one training run: what follows "train".
 *
 *     struct rbt_train_line line;
 *     rbt_status st = rbt_train_line_parse(argc, argv, &line);
 *     ... line.request ...
 *     rbt_train_line_free(&line);
 *
 * `train`, `run` and `simulate` share it. Threads: none. */
#ifndef RUBATO_CLI_TRAIN_LINE_H
#define RUBATO_CLI_TRAIN_LINE_H

#include <stdbool.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/limits.h"
#include "base/option.h"
#include "cli/train.h"
#include "policy/filter/filter.h"
#include "policy/plugin.h"
#include "policy/rule/rule.h"

enum { RBT_TRAIN_LINE_TABLES = 2 };

/* Points into itself: it must stay where it was parsed. */
struct rbt_train_line {
    struct rbt_train_request request;
    void *config;               /* owned; the algorithm's options */
    struct rbt_option *options; /* owned; what there is, with the defaults of the algorithm */
    struct rbt_option_table tables[RBT_TRAIN_LINE_TABLES]; /* the algorithm's, everybody's */
    bool wants_help;                                       /* nothing else was looked at */
    const struct rbt_policy_kind *explain; /* what the help is about: --rule help; NULL: `algo` */
    char rule[RBT_TEXT_MAX];               /* with an absolute path */
    char filter[RBT_TEXT_MAX];             /* the same */
    char priority[RBT_PLUGIN_PATH_MAX];    /* the same */
};

/* Reads the algorithm and its options. On success the caller frees the line. The request prints to
 * standard output and standard error. Fails with RBT_E_INVALID, a message that quotes what was
 * typed, and a hint; and with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_train_line_parse(int argc, char *const *argv,
                                             struct rbt_train_line *line);
void rbt_train_line_free(struct rbt_train_line *line);

/* Hands over the paths of the shared objects that the line names: its rule's, its filters', its
 * priority's. */
void rbt_train_line_plugins(const struct rbt_train_line *line,
                            void (*visit)(void *context, const char *path), void *context);

/* The options that every algorithm has, writing into the request. */
struct rbt_option_table rbt_train_line_common(struct rbt_train_request *request);

/* Prints options of training by group; `own` is the heading of those without a group, and `algo`,
 * which may be NULL, has groups of its own. */
void rbt_train_line_print(FILE *out, const char *own, const struct rbt_algo *algo,
                          const struct rbt_option_table *tables, size_t count);

/* Prints the help of the line's algorithm. */
void rbt_train_line_help(const struct rbt_train_line *line);

#endif
