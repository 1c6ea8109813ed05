/* policy/rule/rule.c - rules by their text: those that come with Rubato, and shared objects.
 *
 * Threads: any. Memory: none. */
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "policy/rule/builtin.h"
#include "policy/rule/plugin.h"
#include "policy/rule/rule.h"

const struct rbt_rule *const rbt_rule_all[] = {&rbt_rule_add,
                                               &rbt_rule_consgd,
                                               &rbt_rule_dynsgd,
                                               &rbt_rule_sgd,
                                               &rbt_rule_adagrad,
                                               &rbt_rule_adarev,
                                               &rbt_rule_adadelay,
                                               &rbt_rule_ftrl,
                                               &rbt_rule_adam,
                                               &rbt_rule_prox,
                                               NULL};

/* What Rubato itself uses, and nobody chooses. */
static const struct rbt_rule *const internal[] = {&rbt_rule_dealing, NULL};

/* A path has a '/' before any parameter. */
static bool is_path(const char *text)
{
    return text[strcspn(text, "/:")] == '/';
}

size_t rbt_rule_name_size(const char *text)
{
    const char *last = is_path(text) ? strrchr(text, '/') : text;
    return (size_t)(last - text) + strcspn(last, ":");
}

/* The names of all rules, separated by commas. */
static void list_names(char *to, size_t size)
{
    size_t used = 0;
    to[0] = '\0';
    for (size_t i = 0; rbt_rule_all[i] != NULL && used < size; i++) {
        const int added =
            snprintf(to + used, size - used, "%s%s", i == 0 ? "" : ", ", rbt_rule_all[i]->name);
        RBT_ASSERT(added > 0);
        used += (size_t)added;
    }
}

static rbt_status check_size(const char *text)
{
    if (strlen(text) >= RBT_RULE_TEXT_MAX) {
        return rbt_fail(RBT_E_INVALID, "a rule's text has at most %d bytes, not %zu",
                        RBT_RULE_TEXT_MAX - 1, strlen(text));
    }
    return RBT_OK;
}

/* The path in `text`, without its parameters. `path` has room for RBT_RULE_TEXT_MAX. */
static rbt_status copy_path(const char *text, char *path)
{
    const rbt_status st = check_size(text);
    if (st == RBT_OK) {
        const size_t size = rbt_rule_name_size(text);
        memcpy(path, text, size);
        path[size] = '\0';
    }
    return st;
}

/* The one of a list with this name, or NULL. */
static const struct rbt_rule *find_in(const struct rbt_rule *const *list, const char *name,
                                      size_t size)
{
    for (; *list != NULL; list++) {
        if (strlen((*list)->name) == size && memcmp((*list)->name, name, size) == 0) {
            return *list;
        }
    }
    return NULL;
}

rbt_status rbt_rule_find(const char *text, const struct rbt_rule **rule)
{
    const size_t size = rbt_rule_name_size(text);
    if (is_path(text)) {
        char path[RBT_RULE_TEXT_MAX];
        const rbt_status st = copy_path(text, path);
        return st == RBT_OK ? rbt_rule_plugin_find(path, rule) : st;
    }
    *rule = find_in(rbt_rule_all, text, size);
    *rule = *rule != NULL ? *rule : find_in(internal, text, size);
    if (*rule != NULL) {
        return RBT_OK;
    }
    char names[RBT_ERROR_MAX / 2];
    list_names(names, sizeof names);
    return rbt_fail_hint(rbt_fail(RBT_E_INVALID, "there is no rule \"%.*s\"", (int)size, text),
                         "The rules are %s. A rule of your own is named by its path: ./mine.so.",
                         names);
}

rbt_status rbt_rule_resolve(const char *text, char *to)
{
    rbt_status st = check_size(text);
    if (st != RBT_OK) {
        return st;
    }
    if (!is_path(text)) {
        memcpy(to, text, strlen(text) + 1);
        return RBT_OK;
    }
    char path[RBT_RULE_TEXT_MAX];
    char whole[RBT_PLUGIN_PATH_MAX];
    st = copy_path(text, path);
    if (st == RBT_OK) {
        st = rbt_rule_plugin_resolve(path, whole);
    }
    if (st != RBT_OK) {
        return st;
    }
    const char *parameters = text + rbt_rule_name_size(text);
    if (strlen(whole) + strlen(parameters) >= RBT_RULE_TEXT_MAX) {
        return rbt_fail(RBT_E_INVALID, "the rule \"%s\" has a path that is too long: \"%s\"", path,
                        whole);
    }
    char *end = stpcpy(to, whole);
    memcpy(end, parameters, strlen(parameters) + 1);
    return RBT_OK;
}

rbt_status rbt_rule_check(const char *text, uint32_t width, struct rbt_rule_needs *needs)
{
    if (text == NULL || width == 0) {
        return rbt_fail(RBT_E_INVALID, "a rule needs a text, and rows of at least one value");
    }
    const struct rbt_rule *rule = NULL;
    rbt_status st = rbt_rule_find(text, &rule);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_rule_table table = {.name = "", .width = width, .worker_count = 1};
    struct rbt_rule_instance instance;
    st = rbt_rule_create(rule, text, &table, &instance);
    if (st != RBT_OK) {
        return st;
    }
    if (needs != NULL) {
        *needs = instance.needs;
    }
    rbt_rule_destroy(&instance);
    return RBT_OK;
}
