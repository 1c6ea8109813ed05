/* policy/filter/filter.h - filters by their text, and what people are told about them.
 *
 * A text is a list, separated by commas, of [push.|pull.]NAME[:NUMBER...], where NAME is that of a
 * filter that comes with Rubato, or the path of a shared object, which has a '/' in it.
 *
 * Threads: any. */
#ifndef RUBATO_POLICY_FILTER_FILTER_H
#define RUBATO_POLICY_FILTER_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/status.h>

#include "policy/filter/chain.h"

/* Names that are not filters on the interface: what they ask for is done elsewhere. */
enum rbt_filter_trait {
    RBT_TRAIT_NONE, /* an ordinary filter */
    RBT_TRAIT_OFF,  /* "none" */
    RBT_TRAIT_KEYS,
    RBT_TRAIT_ZEROS,
};

/* For help: a parameter, in the order of the text. */
struct rbt_filter_parameter {
    const char *name;
    const char *value; /* when it is not given; NULL: it must be */
    const char *help;  /* a sentence without a full stop */
};

/* A name that texts may have, and what people are told about it. */
struct rbt_filter_entry {
    const char *name;
    enum rbt_filter_trait trait;
    const struct rbt_filter *filter; /* NULL for a trait */
    const char *does;                /* one sentence */
    const char *choose;              /* when to: one or two sentences */
    const char *formula;             /* what it does to an element, on one line; "" for none */
    const struct rbt_filter_parameter *parameters; /* ends with a name of NULL */
};

/* All names, in the order in which help lists them; ends with a name of NULL. */
extern const struct rbt_filter_entry rbt_filter_all[];

/* What help calls the kind: "select", "round", "pack", or "" for a trait. */
const char *rbt_filter_kind_name(const struct rbt_filter_entry *entry);

/* Which direction it is of use for; "zeros" is for pushes. */
rbt_filter_use rbt_filter_use_of(const struct rbt_filter_entry *entry);

/* One piece of a text. */
struct rbt_filter_item {
    char name[RBT_FILTER_TEXT_MAX]; /* or the path */
    enum rbt_filter_trait trait;
    const struct rbt_filter *filter; /* NULL for a trait */
    bool is_for_push;
    bool is_for_pull;
    uint32_t argument_count;
    double arguments[RBT_FILTER_ARGUMENTS_MAX];
};

/* Reads the piece at *text and moves to the next, or to the end. Shared objects are opened. Fails
 * with RBT_E_INVALID and a sentence. */
RBT_MUST_USE rbt_status rbt_filter_parse(const char **text, struct rbt_filter_item *item);

/* The text as other processes of this host can use it: with absolute paths. `to` has room for
 * RBT_FILTER_TEXT_MAX. */
RBT_MUST_USE rbt_status rbt_filter_resolve(const char *text, char *to);

/* The next path of a shared object in the text at *text, which is moved behind it; false if there
 * is none. `path` has room for RBT_FILTER_TEXT_MAX. */
bool rbt_filter_next_path(const char **text, char *path);

#endif
