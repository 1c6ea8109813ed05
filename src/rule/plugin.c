/* rule/plugin.c - rules from shared objects: opened once, checked, and kept.
 *
 * What is opened stays open for as long as the process: instances may be alive anywhere, and a
 * library that is closed takes its code with it. A file is known by its absolute path, so that a
 * second table, shard or job gets the same rule and not the file's newer contents.
 *
 * Threads: any; see mutex. Memory: one entry per shared object, which stays reachable. */
#include "rule/plugin.h"

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
#include "base/assert.h"
#include "base/error.h"

struct plugin {
    struct plugin *next;
    const struct rbt_rule *rule;
    char *path; /* absolute */
};

/* Rank RULES; guards `plugins`. The loader works under it, so that a file is opened once. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct plugin *plugins;

rbt_status rbt_plugin_resolve(const char *path, char resolved[RBT_PLUGIN_PATH_MAX])
{
    if (realpath(path, resolved) == NULL) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "cannot find the rule \"%s\": %s", path, strerror(errno));
        return path[0] == '/'
                   ? rbt_fail_hint(st, "It must be at this path on every host of the job.")
                   : rbt_fail_hint(st, "The path starts in the folder where the command runs.");
    }
    return RBT_OK;
}

/* Whether what the shared object has under the name is a rule that fits. The first two fields are
 * where they are in every version of the interface. */
static rbt_status check(const struct rbt_rule *rule, const char *path)
{
    if (rule->abi != RBT_RULE_ABI) {
        return rbt_fail_hint(rbt_fail(RBT_E_INVALID,
                                      "the rule \"%s\" is made for version %u of the interface, "
                                      "and this is version %d",
                                      path, rule->abi, RBT_RULE_ABI),
                             "Build it again with this version's rubato/rule.h.");
    }
    if (rule->struct_size < sizeof *rule) {
        return rbt_fail_hint(rbt_fail(RBT_E_INVALID,
                                      "the rule \"%s\" has a struct_size of %u, and it must be at "
                                      "least %zu",
                                      path, rule->struct_size, sizeof *rule),
                             "Set .struct_size = sizeof rbt_rule, and build it again with this "
                             "version's rubato/rule.h.");
    }
    const char *missing = rule->name == NULL     ? "name"
                          : rule->create == NULL ? "create function"
                          : rule->apply == NULL  ? "apply function"
                                                 : NULL;
    if (missing != NULL) {
        return rbt_fail(RBT_E_INVALID, "the rule \"%s\" has no %s", path, missing);
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
static rbt_status check_file(const char *path)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not keep us */
    if (fd < 0 || fstat(fd, &about) != 0) {
        const int reason = errno;
        (void)(fd < 0 ? 0 : close(fd));
        return rbt_fail(RBT_E_INVALID, "cannot read the rule \"%s\": %s", path, strerror(reason));
    }
    const uint64_t end = S_ISREG(about.st_mode) ? end_of(fd) : 0;
    (void)close(fd);
    if (end == 0) {
        const char *what = S_ISDIR(about.st_mode) ? "a directory" : "not a shared object";
        return rbt_fail_hint(
            rbt_fail(RBT_E_INVALID, "cannot load the rule \"%s\": it is %s", path, what),
            "Build it with: cc -shared -fPIC -o mine.so mine.c.");
    }
    if (end > (uint64_t)about.st_size) {
        return rbt_fail_hint(rbt_fail(RBT_E_INVALID,
                                      "cannot load the rule \"%s\": the file is cut off at %llu "
                                      "bytes",
                                      path, (unsigned long long)about.st_size),
                             "Build or copy it again.");
    }
    return RBT_OK;
}

/* Opens the shared object and finds its rule; closes it again if there is none that fits. */
static rbt_status load(const char *path, const struct rbt_rule **rule)
{
    rbt_status st = check_file(path);
    if (st != RBT_OK) {
        return st;
    }
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        const char *reason = dlerror(); /* most begin with the path */
        const size_t size = strlen(path);
        const bool has_path = strncmp(reason, path, size) == 0 && reason[size] == ':';
        return rbt_fail(RBT_E_INVALID, "cannot load the rule \"%s\": %s", path,
                        reason + (has_path ? size + 2 : 0));
    }
    const struct rbt_rule *found = dlsym(object, "rbt_rule");
    if (found == NULL) {
        st = rbt_fail_hint(
            rbt_fail(RBT_E_INVALID, "\"%s\" is not a rule: it has no symbol \"rbt_rule\"", path),
            "It should define: RBT_RULE_EXPORT const struct rbt_rule rbt_rule.");
    } else {
        st = check(found, path);
    }
    if (st != RBT_OK) {
        (void)dlclose(object); /* nothing of it is in use */
        return st;
    }
    *rule = found;
    return RBT_OK;
}

/* The entry of the path, made if there is none. The mutex is held. */
static rbt_status find_or_load(const char *path, const struct rbt_rule **rule)
{
    for (const struct plugin *plugin = plugins; plugin != NULL; plugin = plugin->next) {
        if (strcmp(plugin->path, path) == 0) {
            *rule = plugin->rule;
            return RBT_OK;
        }
    }
    struct plugin *added = rbt_calloc(1, sizeof *added);
    char *copy = rbt_strdup(path);
    rbt_status st = RBT_OK;
    if (added == NULL || copy == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory for the rule \"%s\"", path);
    } else {
        st = load(path, &added->rule);
    }
    if (st != RBT_OK) {
        rbt_free(copy);
        rbt_free(added);
        return st;
    }
    added->path = copy;
    added->next = plugins;
    plugins = added;
    *rule = added->rule;
    return RBT_OK;
}

rbt_status rbt_plugin_find(const char *path, const struct rbt_rule **rule)
{
    char whole[RBT_PLUGIN_PATH_MAX];
    rbt_status st = rbt_plugin_resolve(path, whole);
    if (st != RBT_OK) {
        return st;
    }
    pthread_mutex_lock(&mutex);
    st = find_or_load(whole, rule);
    pthread_mutex_unlock(&mutex);
    return st;
}
