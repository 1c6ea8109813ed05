/* algo/frame/train_options.h - the options of every `train`, and what they write into.
 *
 * An option is said here and used where it belongs: the struct and the command line's table are
 * made of these lists (base/option.h). What was not given and has no default is 0, NULL or empty;
 * "nan" stands for a default that depends on the algorithm.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_FRAME_TRAIN_OPTIONS_H
#define RUBATO_ALGO_FRAME_TRAIN_OPTIONS_H

#include <rubato/rubato.h>

#include "base/limits.h"
#include "base/option.h"

/* When a worker that trains a copy of its own fetches a fresh one, with a rule that takes moves. */
enum rbt_pull {
    RBT_PULL_CORRECTED, /* as soon as its staleness asks for it */
    RBT_PULL_PRINTED,   /* one clock later, as Jiang et al. 2017, algorithm 1, print it */
};

/* Names of choices, in the order of their enumerations; end with NULL. */
extern const char *const rbt_train_options_formats[];    /* enum rbt_format */
extern const char *const rbt_train_options_placements[]; /* rbt_placement */
extern const char *const rbt_train_options_pulls[];      /* enum rbt_pull */

/* The default of --consistency: this very text, if the user has named none. */
extern const char rbt_train_options_consistency[];

/* Headings of options in `rubato train ALGO --help`, in this order (rbt_train_line_help); those of
 * an algorithm (algo.h) come behind "Training". */
#define RBT_GROUP_MODEL       "Model and solver"
#define RBT_GROUP_DATA        "Data"
#define RBT_GROUP_TRAINING    "Training"
#define RBT_GROUP_CLUSTER     "Consistency and cluster"
#define RBT_GROUP_OUTPUT      "Output"
#define RBT_GROUP_EXPERIMENTS "Experiments (to reproduce comparisons in papers)"

/* How data is to be read, in training and later. */
#define RBT_INPUT_OPTIONS(OPTION)                                                                  \
    OPTION(CHOICE, format, "format", .choices = rbt_train_options_formats, .value = "auto",        \
           .help = "Format of the data; auto decides by the name and the first lines.")            \
    OPTION(FLAG, is_zero_based, "zero-based",                                                      \
           .help = "Features of libsvm files start at 0 instead of 1.")                            \
    OPTION(TEXT, label_name, "label-column", .value = "-1", .unit = "COLUMN",                      \
           .help = "Column of csv files that holds the label: a number from 0 (-1 is the last) "   \
                   "or a name from the header.")

/* What is read; how training goes; what experiments ask for. */
#define RBT_TRAIN_DATA_OPTIONS(OPTION)                                                             \
    OPTION(LIST, data, "data", .group = RBT_GROUP_DATA,                                            \
           .help = "Training data: files, directories, globs, or \"-\" for standard input; may "   \
                   "be compressed (.zst, .gz, .xz).")                                              \
    OPTION(LIST, eval, "eval", .help = "Data to evaluate the model on after every epoch.")

#define RBT_TRAIN_OPTIONS(OPTION)                                                                  \
    OPTION(INT, epochs, "epochs", .group = RBT_GROUP_TRAINING, .min = 1, .max = 1000000,           \
           .help = "Passes over the data. The default depends on the algorithm.")                  \
    OPTION(INT, seed, "seed", .min = 0, .max = 9.3e18, .value = "1",                               \
           .help = "Seed of all random numbers.")                                                  \
    OPTION(REAL, target, "target", .value = "nan",                                                 \
           .help = "Stop when the objective of a pass reaches X.")                                 \
    OPTION(INT, patience, "patience", .min = 1, .max = 1000000,                                    \
           .help = "Stop when the objective has not improved for N evaluations.")                  \
    OPTION(TIME, until, "until", .min = 0, .max = 1e6,                                             \
           .help = "Stop after this time: 500ms, 90s, 10m.")                                       \
    OPTION(INT, workers, "workers", .group = RBT_GROUP_CLUSTER, .min = 1,                          \
           .max = RBT_JOB_WORKERS_MAX, .help = "Worker threads; by default one per core.")         \
    OPTION(INT, servers, "servers", .min = 1, .max = RBT_JOB_SHARDS_MAX, .value = "1",             \
           .help = "Shards that hold the parameters.")                                             \
    OPTION(                                                                                        \
        CHOICE, placement, "placement", .choices = rbt_train_options_placements, .value = "hash",  \
        .help = "How parameters are assigned to shards: by the hash of the key, by equal ranges "  \
                "of keys, by the hash of small ranges, or in turn. Affects traffic, not results.") \
    OPTION(TEXT, consistency, "consistency", .value = rbt_train_options_consistency, .unit = "C",  \
           .help = "Bound on the staleness of reads: bsp (none is stale), ssp:S or essp:S (at "    \
                   "most S clocks), asp (no bound), auto or auto:S (chosen and adjusted while "    \
                   "training, starting at S).")                                                    \
    OPTION(INT, clocks_per_epoch, "clocks-per-epoch", .min = 1, .max = 1000000,                    \
           .help = "Clocks per pass; workers exchange updates at every clock. The default "        \
                   "depends on the algorithm: usually 1; 2 in linear, 4 in lda and fm, up to 8 "   \
                   "in mf with several workers, 32 with a rule that takes gradients.")             \
    OPTION(TEXT, rule, "rule", .unit = "R[:k=v,...]",                                              \
           .help = "How servers apply updates: add, dynsgd, adarev, ..., or ./yours.so; \"--rule " \
                   "help\" explains the rules.")                                                   \
    OPTION(TEXT, filter, "filter", .unit = "F[:x],...",                                            \
           .help = "Filters that make messages smaller: keys, significant:0.001, fixed:8, lz4, "   \
                   "..., or ./yours.so; \"--filter help\" explains them.")                         \
    OPTION(RATE, bandwidth, "bandwidth",                                                           \
           .help = "Managed communication: send rows before a clock ends, the most important "     \
                   "first, at this rate per node and direction: 200Mbit, 25MB; a plain number is " \
                   "bytes per second. Without it rows are sent when a clock ends. For lda, and "   \
                   "for linear and mf with a rule that takes gradients.")                          \
    OPTION(TEXT, priority, "priority", .unit = "NAME",                                             \
           .help =                                                                                 \
               "With --bandwidth, which rows are sent first: relative (the default), magnitude, "  \
               "random, oldest, walk, sweep, or ./yours.so; \"--priority help\" explains them.")   \
    OPTION(TEXT, model, "model", .group = RBT_GROUP_OUTPUT, .unit = "FILE",                        \
           .help = "File to write the model to.")

#define RBT_TRAIN_EXPERIMENT_OPTIONS(OPTION)                                                       \
    OPTION(FLAG, is_exact, "exact", .group = RBT_GROUP_EXPERIMENTS,                                \
           .help = "Report the exact objective of the servers' parameters after every clock of "   \
                   "worker 0, and compare it with --target. Otherwise the objective is the loss "  \
                   "on the workers' copies, once per epoch. Slow, but costs no simulated time.")   \
    OPTION(                                                                                        \
        CHOICE, pull, "pull", .choices = rbt_train_options_pulls, .value = "corrected",            \
        .help =                                                                                    \
            "With rules that weigh moves, when a worker fetches a fresh copy: corrected, as soon " \
            "as its staleness requires it; printed, one clock later, as the paper prints it.")     \
    OPTION(FLAG, is_synchronised, "synchronise",                                                   \
           .help =                                                                                 \
               "With dynsgd and several servers: read the newest version that all servers have.")  \
    OPTION(REAL, tiny, "tiny", .min = 0, .max = 1e6, .value = "nan",                               \
           .help = "With a rule: hold back updates below X until they have grown. By default 0; "  \
                   "1e-6 for dynsgd.")

struct rbt_train_options {
    RBT_TRAIN_DATA_OPTIONS(RBT_OPTION_FIELD)
    RBT_INPUT_OPTIONS(RBT_OPTION_FIELD)
    RBT_TRAIN_OPTIONS(RBT_OPTION_FIELD)
    RBT_TRAIN_EXPERIMENT_OPTIONS(RBT_OPTION_FIELD)
    int64_t label_column;   /* where label_name is NULL */
    bool names_consistency; /* the user has named it, be it the default */
    double rule_lr;         /* the rule's own step size; 0: it has none, or only the rule knows */
    rbt_simulation *simulation; /* the cluster to pretend to run on; NULL: run here */
    rbt_cluster *cluster;       /* the cluster to run on, as one process of several; NULL: run here.
                                   The process of worker 0 is the one that tells the observer, fills
                                   in the summary and writes the model */
};

#endif
