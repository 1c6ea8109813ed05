/* rubato/rule.h - rules: what a server does with an update, beyond adding it.
 *
 * A table names its rule ("adagrad:lr=0.1"), and every shard makes an instance of it. The rules
 * that come with Rubato are written on this interface, and so can yours be: a shared object with
 * one symbol, which needs to be linked with nothing (docs/rules.md, examples/rule.c):
 *
 *     static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
 *                              void **self)
 *     {
 *         return RBT_OK; // no parameters, no state, and workers push moves
 *     }
 *
 *     static rbt_status apply(void *self, const struct rbt_rule_message *message,
 *                             const struct rbt_rule_row *row)
 *     {
 *         for (uint32_t i = 0; i < row->width; i++) {
 *             row->values[i] += 0.5F * row->delta[i];
 *         }
 *         return RBT_OK;
 *     }
 *
 *     RBT_RULE_EXPORT const struct rbt_rule rbt_rule = {
 *         .abi = RBT_RULE_ABI, .struct_size = sizeof rbt_rule, .name = "half",
 *         .summary = "Adds half of every update.", .create = create, .apply = apply};
 *
 *     cc -shared -fPIC -o half.so half.c $(pkg-config --cflags rubato)
 *     rubato train linear --rule ./half.so ...
 *
 * Rules work on dense tables of RBT_F32. A shard calls its instances from one thread at a time,
 * with updates in the order in which they become visible; what a rule does must follow from its
 * arguments alone, so that it does the same embedded, over processes and simulated.
 *
 * Versions. A shard counts the update messages that it has applied. A worker's read is remembered
 * with that count, and the worker's updates say which read they were computed from: `delay` is how
 * many messages came between. Besides,
 *
 *   - a rule may have some of its state kept as it was at every such read (`snapshot_width`), and
 *     then sees it with the update: AdaRevision;
 *   - a rule may gather updates in versions (`parts`): map() says to which version an update
 *     belongs, apply() adds it to that version's part of the row, and fold() says what the part
 *     means for the row. Reads see the row with all parts folded in; when expire() says so, the
 *     version is folded into the row for good: DynSGD. Or the part is hidden until all workers
 *     have completed the clock, and then applied as one update: aggregation.
 *
 * A row whose update is all zero has not been updated: no function is called for it.
 *
 * State. A shard can be written down and read back, for checkpoints and copies. Rows, their state,
 * snapshots and versions are the shard's business; what a rule learns besides and keeps in `self`
 * is its own: save() and load(). */
#ifndef RUBATO_RULE_H
#define RUBATO_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RBT_RULE_ABI = 2 }; /* changes whenever this header does in a way that rules notice */

/* What workers should push. */
typedef enum rbt_rule_input {
    RBT_RULE_MOVES,     /* how far the worker has moved its own copy */
    RBT_RULE_GRADIENTS, /* gradients at the values read; the server makes the step */
} rbt_rule_input;

typedef enum rbt_rule_parts {
    RBT_PARTS_NONE,   /* updates change rows at once */
    RBT_PARTS_SHOWN,  /* updates gather in versions, which reads show */
    RBT_PARTS_HIDDEN, /* the same, invisible until all workers have completed the version, which is
                         the clock; then applied as one update. Without map() and expire() */
} rbt_rule_parts;

struct rbt_rule_setup {
    size_t struct_size;
    const char *table; /* its name */
    uint32_t width;
    uint32_t worker_count;
    void *host; /* the caller's */
    /* A parameter of the rule's text ("lr=0.1"), or `fallback` if it is not there. Parameters that
     * a rule never asks for are refused for it. */
    double (*number)(const struct rbt_rule_setup *setup, const char *name, double fallback);
    /* Fails with a sentence: return setup->fail("lr must be positive, not %g", lr). May be kept and
     * used in apply() as well. */
    rbt_status (*fail)(const char *format, ...);
};

/* What the instance needs; zero at first. */
struct rbt_rule_needs {
    rbt_rule_input input;
    rbt_rule_parts parts;
    uint32_t state_width;    /* values kept with each row, zero at first */
    uint32_t snapshot_width; /* the first so many of them are also kept as of every read that
                                updates may still be computed from */
    bool reads_results_only; /* read() is of use for RBT_READ_RESULT alone */
    uint64_t snapshot_max;   /* at most so many copies at a shard; 0: 256 for each row, of large
                                tables 16 or 2^20, and 4096 at least. When there are more, the
                                oldest go, and updates from before count as computed from the oldest
                                copy that is left; from three quarters on, nothing is sent early */
};

/* Rows have been read by a worker that will compute updates from them. */
struct rbt_rule_send {
    uint32_t worker;   /* RBT_RULE_NO_WORKER: all, for the job runs again */
    uint64_t count;    /* messages applied to the table so far */
    uint64_t versions; /* only versions below this are in the rows; RBT_RULE_NO_VERSION: all are */
};

#define RBT_RULE_NO_VERSION UINT64_MAX
#define RBT_RULE_NO_WORKER  UINT32_MAX

/* An update message: all that a worker sends in a clock for one table and from one read. */
struct rbt_rule_message {
    uint32_t worker;   /* RBT_RULE_NO_WORKER: a version that was aggregated */
    int64_t clock;     /* its stamp; in a job that runs again, clocks go on counting */
    uint64_t count;    /* messages applied to the table before this one */
    uint64_t delay;    /* how many of them after the read that it was computed from */
    uint64_t tag;      /* what send() said at that read; if the worker has never read, 0 in its
                          first message, and then what send() says now */
    uint64_t previous; /* version of the worker's last message from the same read, or
                          RBT_RULE_NO_VERSION */
    uint64_t version;  /* what map() said; not yet known to map() */
};

/* A row and its update. */
struct rbt_rule_row {
    uint64_t key;
    uint32_t width;
    float *values;       /* (width) */
    float *state;        /* (state_width) */
    const float *delta;  /* (width) */
    const float *before; /* (snapshot_width): the state as of the read */
    float *part;         /* (width): the version's, zero at first; NULL without parts */
};

struct rbt_rule_version {
    uint64_t version;
    uint64_t messages; /* that were mapped to it */
};

/* To decide whether a version is over. */
struct rbt_rule_age {
    struct rbt_rule_version version;
    uint64_t lowest; /* that any worker's next message can be mapped to; RBT_RULE_NO_VERSION: no
                        worker is left */
    uint64_t newest; /* one above the highest so far */
    int64_t floor;   /* all workers have completed all clocks below it */
};

typedef enum rbt_rule_purpose {
    RBT_READ_WORK,   /* to compute with */
    RBT_READ_RESULT, /* the model: rbt_pull_range() */
} rbt_rule_purpose;

/* Where save() writes to. What is put is one string of bytes, however many calls it takes. */
struct rbt_rule_sink {
    void *host; /* the caller's */
    void (*put)(struct rbt_rule_sink *sink, const void *bytes, size_t count);
};

/* What save() has put, perhaps elsewhere and long ago. */
struct rbt_rule_source {
    const void *bytes; /* aligned to nothing */
    size_t count;
    uint32_t version; /* `state_version` of the rule that has saved it: at most the reader's own */
    /* As in struct rbt_rule_setup. */
    rbt_status (*fail)(const char *format, ...);
};

/* Functions may be NULL unless it says otherwise. */
struct rbt_rule {
    uint32_t abi; /* RBT_RULE_ABI */
    uint32_t struct_size;
    const char *name;
    const char *summary; /* one sentence */
    /* Reads the parameters, fills in `needs`, and stores what all other functions get as `self`,
     * which is NULL at first. Required. Also called to check a text, and then destroyed at once; if
     * it fails, destroy() is not called. */
    rbt_status (*create)(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self);
    void (*destroy)(void *self);
    /* What it returns comes back as the `tag` of updates computed from these rows. NULL: 0. Also
     * called to find out what the next message of a worker could get that has not read. */
    uint64_t (*send)(void *self, const struct rbt_rule_send *send);
    /* The version that the message belongs to; one that has gone stands for the first that has not.
     * Must follow from the message and from earlier calls of begin() and apply() alone: it is also
     * called to find out what a worker's next message could get. NULL: its clock. */
    uint64_t (*map)(void *self, const struct rbt_rule_message *message);
    /* Called once per message, before its rows, also if it has none here. */
    void (*begin)(void *self, const struct rbt_rule_message *message);
    /* Applies one row of a message: to the row, or with parts to the part. Required. If it fails,
     * the table is of no more use, and the job ends with its sentence. */
    rbt_status (*apply)(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row);
    /* Adds what a version's part means to the row's values, or to a copy of them; changes nothing
     * else. `delta` and `before` are NULL. Required for RBT_PARTS_SHOWN. */
    void (*fold)(void *self, const struct rbt_rule_version *version,
                 const struct rbt_rule_row *row);
    /* Whether the version may go. Versions go in their order. NULL: when no worker's next
     * message can be mapped to it. */
    bool (*expire)(void *self, const struct rbt_rule_age *age);
    /* What a reader gets, instead of the values, which are elsewhere; `row->delta` is NULL. NULL:
     * the values. */
    void (*read)(void *self, const struct rbt_rule_row *row, rbt_rule_purpose purpose,
                 float *values);
    /* Writes down what `self` has learnt since create(), between any two messages; and brings an
     * instance that was just created with the same parameters to where the saved one was: from then
     * on both do the same with the same calls. load() may be given anything, and then fails. Both
     * or neither; both NULL: `self` holds only parameters, and what begin() sets anew for every
     * message. */
    rbt_status (*save)(const void *self, struct rbt_rule_sink *sink);
    rbt_status (*load)(void *self, const struct rbt_rule_source *source);
    uint32_t state_version; /* of what save() writes; a rule that changes it counts up */
};

#define RBT_RULE_EXPORT __attribute__((visibility("default")))

/* --- For those who use rules ----------------------------------------------------------------- */

/* What a rule's text says, "adagrad:lr=0.1" or "./mine.so:k=v": whether there is such a rule and
 * takes these parameters, and what workers should push. Fails with RBT_E_INVALID. */
RBT_API RBT_MUST_USE rbt_status rbt_rule_check(const char *text, uint32_t width,
                                               struct rbt_rule_needs *needs);

#ifdef __cplusplus
}
#endif

#endif
