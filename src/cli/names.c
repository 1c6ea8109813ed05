/* cli/names.c - names of choices that several commands offer. */
#include "cli/names.h"

#include <stddef.h>

#include <rubato/table.h>

#include "cli/progress.h"
#include "cli/summary.h"
#include "data/examples.h"

const char *const rbt_names_format[] = {
    [RBT_FORMAT_AUTO] = "auto",   [RBT_FORMAT_LIBSVM] = "libsvm",
    [RBT_FORMAT_CSV] = "csv",     [RBT_FORMAT_RATINGS] = "ratings",
    [RBT_FORMAT_TSV] = "tsv",     [RBT_FORMAT_CRITEO] = "criteo",
    [RBT_FORMAT_AVAZU] = "avazu", [RBT_FORMAT_BOW] = "bow",
    [RBT_FORMAT_TEXT] = "text",   NULL,
};

const char *const rbt_names_placement[] = {
    [RBT_PLACE_HASH] = "hash",
    [RBT_PLACE_RANGE] = "range",
    [RBT_PLACE_RANGE_HASH] = "range-hash",
    [RBT_PLACE_ROUND_ROBIN] = "round-robin",
    NULL,
};

const char *const rbt_names_summary[] = {
    [RBT_SUMMARY_TEXT] = "text",
    [RBT_SUMMARY_JSON] = "json",
    NULL,
};

const char *const rbt_names_train_summary[] = {
    [RBT_SUMMARY_TEXT] = "text",
    [RBT_SUMMARY_JSON] = "json",
    [RBT_SUMMARY_FULL] = "full",
    NULL,
};

const char *const rbt_names_progress[] = {
    [RBT_PROGRESS_AUTO] = "auto",
    [RBT_PROGRESS_ALWAYS] = "always",
    [RBT_PROGRESS_NEVER] = "never",
    NULL,
};
