/* algo/frame/train_options.c - names and defaults of the options of every `train`. */
#include "algo/frame/train_options.h"

#include "data/examples.h"

const char *const rbt_train_options_formats[] = {
    [RBT_FORMAT_AUTO] = "auto",   [RBT_FORMAT_LIBSVM] = "libsvm",
    [RBT_FORMAT_CSV] = "csv",     [RBT_FORMAT_RATINGS] = "ratings",
    [RBT_FORMAT_TSV] = "tsv",     [RBT_FORMAT_CRITEO] = "criteo",
    [RBT_FORMAT_AVAZU] = "avazu", [RBT_FORMAT_BOW] = "bow",
    [RBT_FORMAT_TEXT] = "text",   NULL,
};

const char *const rbt_train_options_placements[] = {
    [RBT_PLACE_HASH] = "hash",
    [RBT_PLACE_RANGE] = "range",
    [RBT_PLACE_RANGE_HASH] = "range-hash",
    [RBT_PLACE_ROUND_ROBIN] = "round-robin",
    NULL,
};

const char *const rbt_train_options_pulls[] = {
    [RBT_PULL_CORRECTED] = "corrected", [RBT_PULL_PRINTED] = "printed", NULL};

const char rbt_train_options_consistency[] = "essp:2";
