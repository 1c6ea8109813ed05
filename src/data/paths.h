/* data/paths.h - which files a user means: files, directories and patterns become a list. */
#ifndef RUBATO_DATA_PATHS_H
#define RUBATO_DATA_PATHS_H

#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

struct rbt_paths {
    char **items;
    size_t count;
    size_t capacity;
};

/* Lists the files in the order given. A directory stands for the regular files in it that are not
 * hidden, a pattern with * ? or [ for what it matches, both sorted by name; "-" stays as it is, and
 * so does a name that does not exist: opening it tells why. The caller frees the list.
 * Fails with RBT_E_NOTFOUND (nothing matches, an empty directory), RBT_E_IO or RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_paths_expand(const char *const *names, size_t count,
                                         struct rbt_paths *paths);

void rbt_paths_free(struct rbt_paths *paths);

#endif
