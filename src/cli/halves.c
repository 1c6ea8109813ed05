/* cli/halves.c - a command line of two halves: a cluster in front of "--", what to run behind it.
 */
#include "cli/halves.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct rbt_halves rbt_halves_cut(int argc, char *const *argv)
{
    int train = argc;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            return (struct rbt_halves){i, true, argv + i + 1, argc - i - 1};
        }
        train = train == argc && strcmp(argv[i], "train") == 0 ? i : train;
    }
    return (struct rbt_halves){.front = train};
}

bool rbt_halves_has(const struct rbt_halves *halves, const char *option)
{
    const size_t length = strlen(option);
    for (int i = 0; i < halves->behind_count; i++) {
        const char *word = halves->behind[i];
        if (strncmp(word, option, length) == 0 && (word[length] == '\0' || word[length] == '=')) {
            return true;
        }
    }
    return false;
}

rbt_status rbt_halves_check(const struct rbt_halves *halves, const char *command,
                            const struct rbt_halves_shared *shared, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (shared[i].is_given && rbt_halves_has(halves, shared[i].option)) {
            const rbt_status st =
                rbt_fail(RBT_E_INVALID, "option \"%s\" is given to \"%s\" and to \"train\"",
                         shared[i].option, command);
            return rbt_fail_hint(st, "Remove it after \"--\".");
        }
    }
    return RBT_OK;
}

rbt_status rbt_halves_hint(rbt_status st, const struct rbt_halves *halves,
                           const struct rbt_option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        char option[64];
        snprintf(option, sizeof option, "--%s", table->options[i].name);
        char quoted[96];
        snprintf(quoted, sizeof quoted, "unrecognised option \"%s\"", option);
        if (rbt_halves_has(halves, option) && strstr(rbt_last_error(), quoted) != NULL) {
            return rbt_fail_hint(st, "\"%s\" describes the cluster and belongs before \"--\".",
                                 option);
        }
    }
    return st;
}
