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
#include <pthread.h>
#include <rubato/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
        return rbt_fail(RBT_E_INVALID, "cannot find the rule \"%s\": %s", path, strerror(errno));
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

/* Opens the shared object and finds its rule; closes it again if there is none that fits. */
static rbt_status load(const char *path, const struct rbt_rule **rule)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        const char *reason = dlerror(); /* most begin with the path */
        const size_t size = strlen(path);
        const bool has_path = strncmp(reason, path, size) == 0 && reason[size] == ':';
        return rbt_fail(RBT_E_INVALID, "cannot load the rule \"%s\": %s", path,
                        reason + (has_path ? size + 2 : 0));
    }
    const struct rbt_rule *found = dlsym(object, "rbt_rule");
    rbt_status st = RBT_OK;
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
