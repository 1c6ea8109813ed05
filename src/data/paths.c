/* data/paths.c - expands directories and patterns.
 *
 * A name that exists is never taken for a pattern, so that odd file names work. Directories are
 * not searched deeper: a folder beside the data usually holds something else.
 *
 * Threads: none. */
#include "data/paths.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"

void rbt_paths_free(struct rbt_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++) {
        rbt_free(paths->items[i]);
    }
    rbt_free(paths->items);
    *paths = (struct rbt_paths){0};
}

static rbt_status out_of_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "could not list the files: out of memory");
}

/* Takes `path`, which may be NULL when there was no memory for it. */
static rbt_status append(struct rbt_paths *paths, char *path)
{
    if (path == NULL) {
        return out_of_memory();
    }
    if (paths->count == paths->capacity) {
        const size_t capacity = paths->capacity * 2 + 8;
        char **items = rbt_realloc(paths->items, capacity, sizeof *items);
        if (items == NULL) {
            rbt_free(path);
            return out_of_memory();
        }
        paths->items = items;
        paths->capacity = capacity;
    }
    paths->items[paths->count++] = path;
    return RBT_OK;
}

static char *join(const char *folder, const char *name)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char *path = rbt_calloc(size, 1);
    if (path != NULL) {
        const bool has_slash = folder[0] != '\0' && folder[strlen(folder) - 1] == '/';
        (void)snprintf(path, size, "%s%s%s", folder, has_slash ? "" : "/", name); /* it fits */
    }
    return path;
}

static bool is_kind(const char *path, mode_t kind)
{
    struct stat status;
    return stat(path, &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends the regular files of the directory in the order in which it lists them. */
static rbt_status list_files(const char *folder, DIR *directory, struct rbt_paths *paths)
{
    for (;;) { /* ends with the last entry */
        errno = 0;
        const struct dirent *entry = readdir(directory);
        if (entry == NULL) {
            return errno == 0 ? RBT_OK : rbt_fail(RBT_E_IO, "cannot read \"%s\"", folder);
        }
        if (entry->d_name[0] == '.') {
            continue;
        }
        char *path = join(folder, entry->d_name);
        if (path != NULL && !is_kind(path, S_IFREG)) {
            rbt_free(path);
            continue;
        }
        const rbt_status st = append(paths, path);
        if (st != RBT_OK) {
            return st;
        }
    }
}

static rbt_status expand_directory(const char *folder, struct rbt_paths *paths)
{
    const size_t first = paths->count;
    DIR *directory = opendir(folder);
    if (directory == NULL) {
        return rbt_fail(RBT_E_IO, "cannot open \"%s\"", folder);
    }
    const rbt_status st = list_files(folder, directory, paths);
    (void)closedir(directory); /* nothing was written to it */
    if (st != RBT_OK) {
        return st;
    }
    if (paths->count == first) {
        return rbt_fail(RBT_E_NOTFOUND, "cannot read \"%s\": the directory has no files", folder);
    }
    qsort(paths->items + first, paths->count - first, sizeof *paths->items, compare);
    return RBT_OK;
}

static rbt_status expand_pattern(const char *pattern, struct rbt_paths *paths)
{
    glob_t found = {0};
    const int error = glob(pattern, 0, NULL, &found);
    rbt_status st = RBT_OK;
    if (error == GLOB_NOSPACE) {
        st = out_of_memory();
    } else if (error != 0) {
        st = rbt_fail(RBT_E_NOTFOUND, "cannot open \"%s\": no file matches", pattern);
    }
    for (size_t i = 0; st == RBT_OK && i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        st = is_kind(path, S_IFDIR) ? expand_directory(path, paths)
                                    : append(paths, rbt_strdup(path));
    }
    globfree(&found);
    return st;
}

static rbt_status expand(const char *name, struct rbt_paths *paths)
{
    struct stat status;
    if (is_kind(name, S_IFDIR)) {
        return expand_directory(name, paths);
    }
    if (stat(name, &status) != 0 && strpbrk(name, "*?[") != NULL) {
        return expand_pattern(name, paths);
    }
    return append(paths, rbt_strdup(name));
}

rbt_status rbt_paths_expand(const char *const *names, size_t count, struct rbt_paths *paths)
{
    struct rbt_paths list = {0};
    for (size_t i = 0; i < count; i++) {
        const rbt_status st = expand(names[i], &list);
        if (st != RBT_OK) {
            rbt_paths_free(&list);
            return st;
        }
    }
    *paths = list;
    return RBT_OK;
}
