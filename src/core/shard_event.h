/* core/shard_event.h - what a worker can ask of a shard, and what the shard answers.
 *
 * Clients make these events, shards consume them; a driver carries them, by function call within a
 * process. Everything that an event points to is borrowed for the duration of the step. */
#ifndef RUBATO_CORE_SHARD_EVENT_H
#define RUBATO_CORE_SHARD_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/filter.h>
#include <rubato/rule.h>
#include <rubato/set.h>
#include <rubato/table.h>

#include "core/batch.h"
#include "core/gate.h"

enum rbt_shard_kind {
    RBT_SHARD_PUSH,
    RBT_SHARD_PULL,
    RBT_SHARD_SCAN,
    RBT_SHARD_LEAVE,
    RBT_SHARD_TABLE,
    RBT_SHARD_RESET,
};

#define RBT_MARKER_NONE (-1)

/* Rows of a range, for SCAN: filled up to `capacity`; `count` is how many there are. */
struct rbt_shard_scan {
    struct rbt_range range;
    uint64_t *keys;
    char *values;
    size_t capacity;
    size_t count;
};

/* A PULL before its time: only of the rows that have changed most since they were last sent. `keys`
 * says which came; their values lie side by side, in the same order, where the batch's would be. */
struct rbt_shard_early {
    uint32_t room; /* rows at most */
    uint32_t count;
    uint64_t *keys; /* (room) */
};

/* Which elements of the rows go, for drivers that have a way to go: the reader has the others. */
struct rbt_shard_sent {
    bool *keep; /* (rows, width), in the order of the batch; NULL: nobody asks */
    struct rbt_filter_code code;
};

struct rbt_priority_policy; /* policy/priority/priority.h */

/* How a table behaves at a shard. */
struct rbt_shard_table {
    rbt_type type;
    rbt_layout layout;
    uint32_t width;
    uint32_t state_width;
    rbt_merge merge;
    rbt_init init;
    double a;
    double b;
    uint64_t seed;
    rbt_partial partial;
    int64_t staleness; /* RBT_STALENESS_ANY: no bound */
    bool follows_job;  /* a new staleness of the job is the table's, too */
    uint64_t rows_expected;
    const char *rule;            /* its text; NULL or "": updates are merged */
    const struct rbt_rule *code; /* the rule that the text names; drivers find it */
    const char *name;            /* of the table, for the rule */
    bool is_synchronised;        /* drivers tell workers which versions all shards have */
    const struct rbt_priority_policy *priority; /* of rows that are sent early; NULL: none are */
    const char *filter;                         /* its text; NULL or "": none */
};

struct rbt_shard_event {
    enum rbt_shard_kind kind;
    uint32_t worker;
    uint32_t table; /* of PULL, SCAN, TABLE */

    /* PUSH: the message is (worker, sequence); its updates are of clock `clock`; afterwards the
     * worker has completed `marker` clocks (RBT_MARKER_NONE: still in `clock`). Sequences of a
     * worker start at 1 and have no gaps. LEAVE follows the message before `sequence`; 0: whatever
     * has arrived. */
    uint64_t sequence;
    int64_t clock;
    int64_t marker;
    struct rbt_batch *batches; /* of different tables or of one; in order. PULL: exactly one */
    size_t batch_count;

    /* PULL and SCAN: all clocks < need must be in (RBT_CLOCK_ANY: no condition). */
    int64_t need;
    uint64_t request;
    /* PULL, for drivers that have a way to go: a number, 0 for none, under which the worker asks
     * for these rows again and again. Such rows are then sent ahead, whenever there are newer ones.
     */
    uint64_t subscription;
    /* The same: a number, 0 for none, under which the driver may have been told before that these
     * rows will be wanted (ops->ask). */
    uint64_t asked;
    struct rbt_shard_early *early; /* PULL; NULL: all rows. Named by its subscription */
    struct rbt_shard_scan *scan;
    bool is_aside; /* SCAN, for drivers with a time of their own: none passes */
    /* Sparse PULL of one key: the elements found are handed over with the shard's step still
     * running, since they may not be there afterwards. */
    void (*on_elements)(void *context, const uint32_t *index, const void *values, size_t count);
    void *context;
    /* PULL of dense rows, may be NULL: if the rows lie side by side they are not copied; *view is
     * where they are, until a step that is not a request. Else it is NULL, and they are copied. */
    const void **view;
    /* PULL: of workers applied_first .. applied_first + applied_count - 1, the highest sequence
     * that is visible in the rows: what is above it, the reader must add by itself. */
    uint64_t *applied;
    uint32_t applied_first;
    uint32_t applied_count;
    /* For drivers that may answer with an older copy: of the same workers, what must be visible in
     * the rows, since the reader has it no longer. NULL: whatever there is. */
    const uint64_t *applied_least;

    /* PULL, of tables with a rule: whether updates will be computed from these rows, and the lowest
     * stamp of an earlier read that updates after the worker's message `sequence` may name
     * (RBT_STAMP_NONE: none). *stamp, unless NULL, is set to this read's. */
    bool is_base;
    uint64_t least;
    uint64_t *stamp;
    /* The same: whether only versions below `stable` are wanted (partition synchronisation). If
     * that would leave out an update of a clock below `need`, more are taken. *limit says below
     * which they are; NULL: `stable` is taken as it is. */
    bool is_stable;
    uint64_t stable;
    uint64_t *limit;

    /* PULL, of tables with filters that select: the name of the copy of these rows that the reader
     * has, by `asked` (0: none); the answer is a change of it, and *copy then the name of the new
     * one. A copy with another name than the shard remembers is one that it sends nothing on.
     * NULL: nobody keeps copies. */
    uint64_t *copy;
    struct rbt_shard_sent *sent; /* may be NULL; written only if the table has filters */

    const struct rbt_shard_table *schema; /* TABLE */
    const char *name;                     /* TABLE, for drivers that have a way to go */
};

enum rbt_shard_effect_kind {
    RBT_SHARD_ANSWERED, /* the values of this PULL or SCAN have been written */
    RBT_SHARD_READY,    /* a request that was parked may be stepped again */
    RBT_SHARD_REFUSED,  /* too many requests are parked */
    RBT_SHARD_EARLY,    /* a message before this one has not arrived: step it again after that */
};

struct rbt_shard_effect {
    enum rbt_shard_effect_kind kind;
    uint64_t request;
};

struct rbt_shard_outbox {
    struct rbt_shard_effect *effects; /* room for parked_max + 1 */
    size_t count;
    int64_t floor;    /* after the step */
    uint64_t version; /* grows whenever rows have changed */
    rbt_status status;
};

#endif
