/* policy/registry.h - rules, filters and priorities by their names.
 *
 * A text names one policy, or a list of them, and may give it parameters:
 *
 *     adagrad:lr=0.1        keys,push.fixed:8,./mine.so:0.5        relative
 *
 * What has a '/' before any ':' is the path of a shared object, which ends with the name behind its
 * last '/'; any other name is that of a policy that comes with Rubato.
 *
 * Threads: any. */
#ifndef RUBATO_POLICY_REGISTRY_H
#define RUBATO_POLICY_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "policy/plugin.h"

/* A number that a policy may be given, and what people are told about it. */
struct rbt_policy_parameter {
    const char *name;   /* "lr"; of a number that is given without a name what help calls it */
    const char *help;   /* a sentence without a full stop */
    const char *called; /* in sentences; NULL: its name */
    const char *usual;  /* what help shows when `fallback` is not the whole truth; NULL: that */
    double fallback;    /* when it is not given */
    double min;
    double max;
    bool is_required;
    bool is_open;  /* `min` itself is not allowed */
    bool is_whole; /* nothing between whole numbers is allowed */
};

/* A policy that comes with Rubato, and for help what people are told about it. */
struct rbt_policy {
    const void *code;    /* a struct rbt_rule, for example: begins with a struct rbt_policy_head */
    const char *choose;  /* when to choose it: one or two sentences; NULL: nothing to say */
    const char *formula; /* what it does, on one line; NULL: none */
    const struct rbt_policy_parameter *parameters; /* ends with a name of NULL; NULL: none */
};

/* Rules, filters, or priorities. */
struct rbt_policy_kind {
    struct rbt_plugin_kind plugin; /* has the name of the kind: "rule" */
    const char *plural;
    const char *text;                         /* what a text is called: "a rule's text" */
    uint32_t text_max;                        /* bytes of a text, with its end */
    bool is_list;                             /* of names with commas in between */
    bool has_parameters;                      /* a ':' ends the name */
    size_t (*prefix_size)(const char *piece); /* of what stands before the name; may be NULL */
    const struct rbt_policy *const *all;      /* in the order of the help; ends with NULL */
    const struct rbt_policy *internal;        /* one that no user chooses; NULL: none */
    /* For help: the text before and after the policies; what a policy's first line says behind its
     * name (NULL: nothing); and the parameters that every policy has (NULL: none). */
    const char *before;
    const char *after;
    void (*print_title)(FILE *out, const struct rbt_policy *policy);
    const struct rbt_policy_parameter *common;
};

/* One name of a text, and what belongs to it. */
struct rbt_policy_piece {
    const char *text;
    size_t size;
    const char *name; /* or the path */
    size_t name_size;
    bool is_path;
};

const char *rbt_policy_name(const struct rbt_policy *policy);

/* The first piece of the text, which lies in it. */
struct rbt_policy_piece rbt_policy_piece(const struct rbt_policy_kind *kind, const char *text);

/* The policy that comes with Rubato and has this name, or NULL. */
const struct rbt_policy *rbt_policy_named(const struct rbt_policy_kind *kind,
                                          const struct rbt_policy_piece *piece);

/* The code of the policy that the first piece of the text names, which stays for as long as the
 * process. Shared objects are opened. Fails with RBT_E_INVALID and a sentence, with the nearest
 * name or all names as its hint; or RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_policy_find(const struct rbt_policy_kind *kind, const char *text,
                                        const void **code);

/* The text as other processes of this host can use it: with absolute paths. `to` has room for the
 * kind's text_max. Fails with RBT_E_INVALID, also if there is no such name. */
RBT_MUST_USE rbt_status rbt_policy_resolve(const struct rbt_policy_kind *kind, const char *text,
                                           char *to);

/* The next path of a shared object in the text at *text, which is moved behind it; false if there
 * is none. `path` has room for the kind's text_max. */
bool rbt_policy_next_path(const struct rbt_policy_kind *kind, const char **text, char *path);

#endif
