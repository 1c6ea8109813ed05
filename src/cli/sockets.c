/* cli/sockets.c - a private directory for the Unix sockets of a run. */
#include "cli/sockets.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

rbt_status rbt_sockets_make(struct rbt_sockets *sockets)
{
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0') {
        folder = "/tmp";
    }
    char path[sizeof sockets->path];
    const int length = snprintf(path, sizeof path, "%s/rubato-XXXXXX", folder);
    /* Room for the names of the sockets. */
    if (length < 0 || (size_t)length >= sizeof path - 8) {
        const rbt_status st = rbt_fail(
            RBT_E_INVALID, "cannot make Unix sockets in \"%s\": the name is too long", folder);
        return rbt_fail_hint(st, "Set TMPDIR to a folder with a shorter name, or use --transport "
                                 "tcp.");
    }
    if (mkdtemp(path) == NULL) {
        return rbt_fail(RBT_E_IO, "could not make a directory in \"%s\"", folder);
    }
    snprintf(sockets->path, sizeof sockets->path, "%s", path);
    return RBT_OK;
}

void rbt_sockets_clear(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry = NULL;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_type == DT_SOCK) {
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
        }
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    (void)rmdir(path); /* what is left is not ours to remove */
}

void rbt_sockets_remove(struct rbt_sockets *sockets)
{
    if (sockets->path[0] != '\0') {
        rbt_sockets_clear(sockets->path);
        sockets->path[0] = '\0';
    }
}
