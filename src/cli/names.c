/* cli/names.c - names of choices that several commands offer. */
#include "cli/names.h"

#include <stddef.h>

#include "cli/progress.h"
#include "cli/summary.h"

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
