/* cli/output.c - files that are there whole or not at all.
 *
 * The check before a long run tries what the real write will do: it creates a temporary file in the
 * same directory. That one has no name, where the file system knows such files, so that nothing
 * stays if the process is killed just then; else it is removed at once. Asking for permissions
 * instead would be wrong for root, for read-only file systems and for full quotas. */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/text.h"
#include "data/paths.h"

/* A new file beside `path`. On success the caller owns the name. */
static int create_beside(const char *path, char **name)
{
    struct rbt_text_buffer text = {0};
    rbt_text_add(&text, "%s.XXXXXX", path);
    if (text.has_failed) {
        errno = ENOMEM;
        return -1;
    }
    const int fd = rbt_io_create(text.data, O_CLOEXEC);
    if (fd < 0) {
        const int error = errno;
        rbt_text_deinit(&text);
        errno = error;
        return -1;
    }
    const mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(fd, 0666 & ~mask); /* mkostemp's 0600 is only safer; going on is fine */
    *name = text.data;
    return fd;
}

static rbt_status open_beside(const char *path, struct rbt_output *output)
{
    const int fd = create_beside(path, &output->temporary);
    if (fd < 0) {
        return rbt_fail(RBT_E_IO, "could not write \"%s\"", path);
    }
    output->file = fdopen(fd, "w");
    if (output->file == NULL) {
        (void)close(fd); /* nothing was written */
        return rbt_fail(RBT_E_IO, "could not write \"%s\"", path);
    }
    return RBT_OK;
}

rbt_status rbt_output_open(const char *path, struct rbt_output *output)
{
    *output = (struct rbt_output){0};
    if (path == NULL || strcmp(path, "-") == 0) {
        output->file = stdout;
        return RBT_OK;
    }
    struct stat info;
    const bool exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return rbt_fail(RBT_E_IO, "could not write \"%s\"", path);
    }
    rbt_status st = RBT_OK;
    output->path = rbt_strdup(path);
    if (output->path == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate a path");
    } else if (exists && !S_ISREG(info.st_mode)) {
        output->file = fopen(path, "we");
        st = output->file != NULL ? RBT_OK : rbt_fail(RBT_E_IO, "could not write \"%s\"", path);
    } else {
        st = open_beside(path, output);
    }
    if (st != RBT_OK) {
        rbt_output_drop(output);
    }
    return st;
}

void rbt_output_drop(struct rbt_output *output)
{
    if (output->file != NULL && output->file != stdout) {
        (void)fclose(output->file); /* it is thrown away */
    }
    if (output->temporary != NULL) {
        (void)unlink(output->temporary); /* at worst a temporary file stays */
    }
    rbt_free(output->temporary);
    rbt_free(output->path);
    *output = (struct rbt_output){0};
}

rbt_status rbt_output_close(struct rbt_output *output)
{
    const char *path = output->path != NULL ? output->path : "standard output";
    errno = 0;
    if (rbt_io_flush(output->file) != 0 || ferror(output->file)) {
        const rbt_status st = rbt_fail(RBT_E_IO, "could not write \"%s\"", path);
        rbt_output_drop(output);
        return st;
    }
    rbt_status st = RBT_OK;
    if (output->temporary != NULL && rbt_io_rename(output->temporary, output->path) != 0) {
        st = rbt_fail(RBT_E_IO, "could not write \"%s\"", path);
    } else {
        rbt_free(output->temporary);
        output->temporary = NULL; /* it has its final name now */
    }
    rbt_output_drop(output);
    return st;
}

/* Whether a file without a name can be created in the directory of `path`, and the name of the real
 * one would not be too long. */
static bool can_create_unnamed(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    struct rbt_text_buffer directory = {0};
    if (name[0] == '\0' || strlen(name) + strlen(".XXXXXX") > NAME_MAX) {
        return false;
    }
    if (slash == NULL) {
        rbt_text_add(&directory, ".");
    } else {
        rbt_text_add_bytes(&directory, path, (size_t)(slash - path) + 1);
    }
    const int fd = directory.has_failed
                       ? -1
                       : open(directory.data, O_TMPFILE | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
    rbt_text_deinit(&directory);
    if (fd >= 0) {
        (void)close(fd); /* and with it goes the file */
    }
    return fd >= 0;
}

rbt_status rbt_output_check(const char *path, const char *kind)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        errno = S_ISDIR(info.st_mode) ? EISDIR : 0;
        return errno != 0 ? rbt_fail(RBT_E_IO, "could not write %s \"%s\"", kind, path)
                          : rbt_fail(RBT_E_IO, "could not write %s \"%s\": not a regular file",
                                     kind, path);
    }
    if (can_create_unnamed(path)) {
        return RBT_OK;
    }
    char *name = NULL;
    const int fd = create_beside(path, &name);
    if (fd < 0) {
        return rbt_fail(RBT_E_IO, "could not write %s \"%s\"", kind, path);
    }
    (void)close(fd); /* it is empty and goes away */
    (void)unlink(name);
    rbt_free(name);
    return RBT_OK;
}

rbt_status rbt_output_spare(const char *path, const char *option,
                            const struct rbt_option_list *inputs)
{
    if (path == NULL || inputs->count == 0) {
        return RBT_OK;
    }
    if (path[0] == '\0') {
        return rbt_fail(RBT_E_INVALID, "option \"%s\" needs a file name, got \"\"", option);
    }
    struct rbt_paths paths = {0};
    if (rbt_paths_expand(inputs->values, inputs->count, &paths) != RBT_OK) {
        return RBT_OK; /* nothing to lose; reading them tells what is wrong */
    }
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < paths.count; i++) {
        if (rbt_output_is_same(path, paths.items[i])) {
            st = rbt_fail(RBT_E_INVALID, "option \"%s\" would overwrite the data in \"%s\"", option,
                          paths.items[i]);
        }
    }
    rbt_paths_free(&paths);
    return st;
}

/* Finds the folder of a path and the name in it; false if the path is too long. */
static bool split(const char *path, char folder[PATH_MAX], const char **name)
{
    const char *slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    *name = path + length;
    if (length >= PATH_MAX - 1) {
        return false;
    }
    memcpy(folder, path, length);
    memcpy(folder + length, ".", 2); /* so that it is not empty */
    return true;
}

/* Whether two paths are the same name in the same folder, whether there is such a file or not. */
static bool has_same_place(const char *a, const char *b)
{
    char folders[2][PATH_MAX];
    const char *names[2];
    struct stat first;
    struct stat second;
    return split(a, folders[0], &names[0]) && split(b, folders[1], &names[1]) &&
           strcmp(names[0], names[1]) == 0 && stat(folders[0], &first) == 0 &&
           stat(folders[1], &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

bool rbt_output_is_same(const char *a, const char *b)
{
    struct stat first;
    struct stat second;
    if (stat(a, &first) != 0 && stat(b, &second) != 0) {
        return has_same_place(a, b);
    }
    return stat(a, &first) == 0 && stat(b, &second) == 0 && S_ISREG(first.st_mode) &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}
