/* policy/plugin.c - shared objects of users: opened once, checked, and kept.
 *
 * What is opened stays open for as long as the process: what is made from it may be alive anywhere,
 * and a library that is closed takes its code with it. A file is known by its absolute path, so
 * that a second user of it gets the same code and not the file's newer contents.
 *
 * Threads: any; see mutex. Memory: one entry per shared object and symbol, which stays reachable.
 */
#include "policy/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <rubato/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

/* What every version of every such struct begins with. */
struct head {
    uint32_t abi;
    uint32_t struct_size;
};

struct plugin {
    struct plugin *next;
    const void *found;
    const char *symbol; /* the kind's */
    char *path;         /* absolute */
};

/* What may be loaded once the process is confined. */
struct admitted {
    struct admitted *next;
    bool is_directory;
    char *path; /* real */
};

/* Rank PLUGINS; guards what follows. The loader works under it, so that a file is opened once. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct plugin *plugins;
static struct admitted *admitted;
static bool is_confined;

rbt_status rbt_plugin_resolve(const struct rbt_plugin_kind *kind, const char *path,
                              char resolved[RBT_PLUGIN_PATH_MAX])
{
    if (realpath(path, resolved) == NULL) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "cannot find the %s \"%s\": %s", kind->what,
                                       path, strerror(errno));
        return path[0] == '/'
                   ? rbt_fail_hint(st, "It must be at this path on every host of the job.")
                   : rbt_fail_hint(st, "The path starts in the folder where the command runs.");
    }
    return RBT_OK;
}

/* Whether what the shared object has under the name fits. */
static rbt_status check(const struct rbt_plugin_kind *kind, const char *path, const void *found)
{
    const struct head *head = found;
    if (head->abi != kind->abi && kind->manual != NULL) {
        return rbt_fail(RBT_E_INVALID,
                        "the %s \"%s\" is built for version %u of the interface, but this program "
                        "has version %u: rebuild it; see %s",
                        kind->what, path, head->abi, kind->abi, kind->manual);
    }
    if (head->abi != kind->abi) {
        return rbt_fail_hint(rbt_fail(RBT_E_INVALID,
                                      "the %s \"%s\" is built for version %u of the interface, but "
                                      "this program has version %u",
                                      kind->what, path, head->abi, kind->abi),
                             "Rebuild it with this version's %s.", kind->header);
    }
    if (head->struct_size < kind->struct_size) {
        return rbt_fail_hint(
            rbt_fail(RBT_E_INVALID, "the %s \"%s\" has a struct_size of %u, but needs at least %u",
                     kind->what, path, head->struct_size, kind->struct_size),
            "Set .struct_size = sizeof %s, and rebuild it with this version's %s.", kind->symbol,
            kind->header);
    }
    const char *missing = kind->missing == NULL ? NULL : kind->missing(found);
    if (missing != NULL) {
        return rbt_fail(RBT_E_INVALID, "the %s \"%s\" has no %s", kind->what, path, missing);
    }
    return RBT_OK;
}

/* Reads `size` bytes of the file from `at`; false if there are fewer. */
static bool read_at(int fd, void *to, size_t size, uint64_t at)
{
    const ssize_t got = pread(fd, to, size, (off_t)at);
    return got >= 0 && (size_t)got == size;
}

/* Where what the loader will map of the file ends; 0 if this is no shared object. */
static uint64_t end_of(int fd)
{
    ElfW(Ehdr) head;
    uint64_t end = 0;
    if (!read_at(fd, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_type != ET_DYN) {
        return 0;
    }
    if (head.e_phentsize != sizeof(ElfW(Phdr))) {
        return 1; /* of another kind of machine: the loader says which */
    }
    for (uint32_t i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) part;
        if (!read_at(fd, &part, sizeof part, head.e_phoff + i * sizeof part)) {
            return UINT64_MAX; /* the list itself is not whole */
        }
        const uint64_t part_end = part.p_offset + part.p_filesz;
        end = part.p_type == PT_LOAD && part_end > end ? part_end : end;
    }
    return end;
}

/* Whether the file is a shared object, and all of it. The loader says little of other files, and a
 * file that is cut off, such as one that is still being copied, would end the process with SIGBUS.
 */
static rbt_status check_file(const struct rbt_plugin_kind *kind, const char *path)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not keep us */
    if (fd < 0 || fstat(fd, &about) != 0) {
        const int reason = errno;
        (void)(fd < 0 ? 0 : close(fd));
        return rbt_fail(RBT_E_INVALID, "cannot read the %s \"%s\": %s", kind->what, path,
                        strerror(reason));
    }
    const uint64_t end = S_ISREG(about.st_mode) ? end_of(fd) : 0;
    (void)close(fd);
    if (end == 0) {
        const char *what = S_ISDIR(about.st_mode) ? "a directory" : "not a shared object";
        return rbt_fail_hint(
            rbt_fail(RBT_E_INVALID, "cannot load the %s \"%s\": it is %s", kind->what, path, what),
            "Build it with: cc -shared -fPIC -o mine.so mine.c.");
    }
    if (end > (uint64_t)about.st_size) {
        return rbt_fail_hint(rbt_fail(RBT_E_INVALID,
                                      "cannot load the %s \"%s\": the file is cut off at %llu "
                                      "bytes",
                                      kind->what, path, (unsigned long long)about.st_size),
                             "Rebuild it or copy it again.");
    }
    return RBT_OK;
}

/* Opens the shared object and finds the symbol; closes it again if there is none that fits. */
static rbt_status load(const struct rbt_plugin_kind *kind, const char *path, const void **found)
{
    rbt_status st = check_file(kind, path);
    if (st != RBT_OK) {
        return st;
    }
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        const char *reason = dlerror(); /* most begin with the path */
        const size_t size = strlen(path);
        const bool has_path = strncmp(reason, path, size) == 0 && reason[size] == ':';
        return rbt_fail(RBT_E_INVALID, "cannot load the %s \"%s\": %s", kind->what, path,
                        reason + (has_path ? size + 2 : 0));
    }
    const void *symbol = dlsym(object, kind->symbol);
    if (symbol == NULL) {
        st = rbt_fail_hint(rbt_fail(RBT_E_INVALID, "\"%s\" is not a %s: it has no symbol \"%s\"",
                                    path, kind->what, kind->symbol),
                           "It should define: %s.", kind->definition);
    } else {
        st = check(kind, path, symbol);
    }
    if (st != RBT_OK) {
        (void)dlclose(object); /* nothing of it is in use */
        return st;
    }
    *found = symbol;
    return RBT_OK;
}

/* What the path has under the kind's name, loaded if it is not yet. The mutex is held. */
static rbt_status find_or_load(const struct rbt_plugin_kind *kind, const char *path,
                               const void **found)
{
    for (const struct plugin *plugin = plugins; plugin != NULL; plugin = plugin->next) {
        if (strcmp(plugin->path, path) == 0 && strcmp(plugin->symbol, kind->symbol) == 0) {
            *found = plugin->found;
            return RBT_OK;
        }
    }
    struct plugin *added = rbt_calloc(1, sizeof *added);
    char *copy = rbt_strdup(path);
    rbt_status st = RBT_OK;
    if (added == NULL || copy == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory for the %s \"%s\"", kind->what, path);
    } else {
        st = load(kind, path, &added->found);
    }
    if (st != RBT_OK) {
        rbt_free(copy);
        rbt_free(added);
        return st;
    }
    added->symbol = kind->symbol;
    added->path = copy;
    added->next = plugins;
    plugins = added;
    *found = added->found;
    return RBT_OK;
}

/* --- What may be loaded ---------------------------------------------------------------------- */

void rbt_plugin_confine(void)
{
    pthread_mutex_lock(&mutex);
    is_confined = true;
    pthread_mutex_unlock(&mutex);
}

/* Whether everybody may change what has this real path, or put something else in its place. In a
 * directory with the sticky bit, such as /tmp, only owners may do that. */
static bool is_open_to_all(const char *path, const struct stat *about)
{
    char folder[RBT_PLUGIN_PATH_MAX];
    struct stat around;
    const size_t size = (size_t)(strrchr(path, '/') - path); /* a real path begins with one */
    memcpy(folder, path, size);
    memcpy(folder + size, "/", sizeof "/");
    return (about->st_mode & S_IWOTH) != 0 || stat(folder, &around) != 0 ||
           (around.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH;
}

rbt_status rbt_plugin_admit(const char *path)
{
    char whole[RBT_PLUGIN_PATH_MAX];
    struct stat about;
    if (realpath(path, whole) == NULL || stat(whole, &about) != 0) {
        return rbt_fail(RBT_E_INVALID, "cannot find the plug-in \"%s\": %s", path, strerror(errno));
    }
    if (!S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)) {
        return rbt_fail(RBT_E_INVALID, "\"%s\" is neither a plug-in nor a directory of plug-ins",
                        path);
    }
    if (is_open_to_all(whole, &about)) {
        return rbt_fail(RBT_E_INVALID,
                        "cannot load plug-ins from \"%s\": every user may change or replace it",
                        path);
    }
    struct admitted *added = rbt_calloc(1, sizeof *added);
    char *copy = rbt_strdup(whole);
    if (added == NULL || copy == NULL) {
        rbt_free(copy);
        rbt_free(added);
        return rbt_fail(RBT_E_NOMEM, "no memory for the plug-in \"%s\"", path);
    }
    added->is_directory = S_ISDIR(about.st_mode);
    added->path = copy;
    pthread_mutex_lock(&mutex);
    added->next = admitted;
    admitted = added;
    pthread_mutex_unlock(&mutex);
    return RBT_OK;
}

/* Whether the file with this real path may be loaded. The mutex is held. */
static bool is_admitted(const char *path)
{
    const size_t folder = (size_t)(strrchr(path, '/') - path); /* a real path begins with one */
    for (const struct admitted *a = admitted; a != NULL; a = a->next) {
        const bool is_in =
            a->is_directory && strlen(a->path) == folder && memcmp(a->path, path, folder) == 0;
        if (is_in || strcmp(a->path, path) == 0) {
            return true;
        }
    }
    return !is_confined;
}

/* Says nothing about a file that was not admitted, not even whether it is there. */
static rbt_status check_place(const struct rbt_plugin_kind *kind, const char *path,
                              const char *whole)
{
    struct stat about;
    if (whole != NULL && is_admitted(whole)) {
        return stat(whole, &about) == 0 && !is_open_to_all(whole, &about)
                   ? RBT_OK
                   : rbt_fail(
                         RBT_E_INVALID,
                         "the %s \"%s\" may not be loaded: every user may change or replace it",
                         kind->what, path);
    }
    return rbt_fail(RBT_E_INVALID,
                    "the %s \"%s\" may not be loaded: it was not named when this process started; "
                    "give --plugin with its path or its directory",
                    kind->what, path);
}

rbt_status rbt_plugin_find(const struct rbt_plugin_kind *kind, const char *path, const void **found)
{
    char whole[RBT_PLUGIN_PATH_MAX];
    rbt_status st = rbt_plugin_resolve(kind, path, whole);
    pthread_mutex_lock(&mutex);
    if (is_confined) {
        st = check_place(kind, path, st == RBT_OK ? whole : NULL);
    }
    st = st != RBT_OK ? st : find_or_load(kind, whole, found);
    pthread_mutex_unlock(&mutex);
    return st;
}
