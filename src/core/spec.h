/* core/spec.h - what a table is: the one description of it that workers, messages, shards and saved
 * shards have. What is only true while it is in use (its rows, its filters at work, what has been
 * sent) is kept by those who use it, beside a spec.
 *
 * The fields are listed once more in spec.c, in the order in which they travel. A new one is a line
 * here and one there: it is then compared, sent and saved. Threads: any; a spec is a value. */
#ifndef RUBATO_CORE_SPEC_H
#define RUBATO_CORE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <rubato/table.h>

#include "base/limits.h"
#include "base/sink.h"
#include "base/source.h"
#include "math/initial.h"
#include "math/merge.h"

struct rbt_priority_policy; /* policy/priority/priority.h */

/* Zeros are the defaults; only the width has to be said. */
struct rbt_spec {
    uint32_t number; /* of the table in its job, from 0 */
    rbt_type type;
    rbt_layout layout;
    uint32_t width;
    uint32_t state_width;
    rbt_merge merge;
    rbt_init init;
    rbt_partial partial;
    double a; /* the numbers of the init */
    double b;
    uint64_t seed;
    int64_t staleness;      /* RBT_STALENESS_ANY: no bound */
    uint64_t rows_expected; /* in one shard */
    bool must_exist;        /* a reader's: only asks for it, by name */
    bool is_synchronised;   /* drivers tell workers which versions all shards have */
    bool follows_job;       /* a new staleness of the job is the table's, too */
    uint64_t bandwidth;     /* bytes per second that a node may use for what is sent early */
    char name[RBT_NAME_MAX];
    char rule[RBT_TEXT_MAX];     /* "": updates are merged */
    char priority[RBT_TEXT_MAX]; /* of rows that are sent early; "": none are */
    char filter[RBT_TEXT_MAX];   /* "": none */

    /* What the texts name, in this process: found by drivers, neither compared nor sent. */
    const struct rbt_rule *code;
    const struct rbt_priority_policy *policy;
};

enum rbt_spec_sort {
    RBT_SPEC_NUMBER,
    RBT_SPEC_CHOICE, /* an enumeration up to `limit` */
    RBT_SPEC_FLAG,
    RBT_SPEC_BOUND, /* from RBT_STALENESS_ANY */
    RBT_SPEC_REAL,
    RBT_SPEC_TEXT,    /* of at most `size` bytes with its zero */
    RBT_SPEC_NOTHING, /* no field: room in messages, as much as a flag */
};

/* A field, for those who write specs and read them. */
struct rbt_spec_field {
    const char *name;
    size_t at; /* in struct rbt_spec */
    size_t size;
    enum rbt_spec_sort sort;
    uint32_t limit;
    bool is_own;    /* tables that differ in it are different ones */
    uint32_t saved; /* its place in a saved shard, from 1; 0: it is not saved */
};

/* All of them, texts last. */
enum { RBT_SPEC_FIELDS = 22 };
extern const struct rbt_spec_field rbt_spec_fields[RBT_SPEC_FIELDS];

/* Whether somebody who wants `a` can have `b`. */
bool rbt_spec_is_same(const struct rbt_spec *a, const struct rbt_spec *b);

/* Whether such a table can be. Fails with `status`, and says which field is wrong. */
RBT_MUST_USE rbt_status rbt_spec_check(const struct rbt_spec *spec, rbt_status status);

/* A copy; NULL without memory, which is recorded. */
struct rbt_spec *rbt_spec_copy(const struct rbt_spec *spec);

/* As a part of a saved shard: what a table is, not how stale it may be. Loading refuses choices
 * that there are not, and believes the rest. */
void rbt_spec_save(const struct rbt_spec *spec, struct rbt_sink *sink);
void rbt_spec_load(struct rbt_spec *spec, struct rbt_source *source);

/* Bytes of an element; of a dense row. */
static inline uint32_t rbt_spec_element_size(const struct rbt_spec *spec)
{
    return spec->type == RBT_F32 || spec->type == RBT_I32 ? 4 : 8;
}

static inline size_t rbt_spec_row_size(const struct rbt_spec *spec)
{
    return (size_t)spec->width * rbt_spec_element_size(spec);
}

/* How its elements are merged; and what its rows begin with. */
static inline struct rbt_merge_kind rbt_spec_kind(const struct rbt_spec *spec)
{
    return (struct rbt_merge_kind){spec->type, spec->merge};
}

static inline struct rbt_initial rbt_spec_initial(const struct rbt_spec *spec)
{
    return (struct rbt_initial){spec->type, spec->init, spec->width, spec->a, spec->b, spec->seed};
}

static inline bool rbt_spec_is_sparse(const struct rbt_spec *spec)
{
    return spec->layout == RBT_SPARSE;
}

static inline bool rbt_spec_has_rule(const struct rbt_spec *spec)
{
    return spec->rule[0] != '\0';
}

#endif
