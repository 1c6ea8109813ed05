/* policy/plugin.h - what users add in shared objects of their own: rules, filters, priorities.
 *
 * Such an object has one symbol with external linkage, a constant struct that begins with the
 * version of the interface that it was made for and its own size:
 *
 *     struct rbt_rule {
 *         uint32_t abi;
 *         uint32_t struct_size;
 *         ...
 *     };
 *
 * Threads: any. */
#ifndef RUBATO_POLICY_PLUGIN_H
#define RUBATO_POLICY_PLUGIN_H

#include <limits.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum { RBT_PLUGIN_PATH_MAX = PATH_MAX }; /* bytes of a path, with its end */

/* What the caller looks for; constant, and kept by the caller. */
struct rbt_plugin_kind {
    const char *what;       /* for sentences: "rule" */
    const char *symbol;     /* "rbt_rule" */
    const char *definition; /* how it is defined, for a hint: "RBT_RULE_EXPORT const ..." */
    const char *header;     /* where it is declared: "rubato/rule.h" */
    const char *manual;     /* where it is explained: "docs/rules.md"; NULL: in the header */
    uint32_t abi;           /* the version that fits */
    uint32_t struct_size;   /* at least so many bytes */
    /* What the struct lacks ("apply function"), or NULL. Called if version and size fit. NULL:
     * nothing is looked at. */
    const char *(*missing)(const void *found);
};

/* Opens the shared object, if it is not open yet, and finds its symbol, which stays for as long as
 * the process. Fails with RBT_E_INVALID if it is not there or does not fit, or RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_plugin_find(const struct rbt_plugin_kind *kind, const char *path,
                                        const void **found);

/* From now on this process loads only what was admitted, before or after: a shared object, or all
 * those in a directory, without its subdirectories. For servers, whom others tell what to load.
 * Files are compared by their real paths, so that neither ".." nor a link leads out of a directory.
 * Fails with RBT_E_INVALID if there is no such file, or if others could put files there. */
void rbt_plugin_confine(void);
RBT_MUST_USE rbt_status rbt_plugin_admit(const char *path);

/* The absolute path. Fails with RBT_E_INVALID if there is no such file. */
RBT_MUST_USE rbt_status rbt_plugin_resolve(const struct rbt_plugin_kind *kind, const char *path,
                                           char resolved[RBT_PLUGIN_PATH_MAX]);

#endif
