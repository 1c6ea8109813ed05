/* rubato/table.h - tables: named collections of rows that all workers share.
 *
 * A row has a 64-bit key, which may be any number (a hash, a raw feature id), and `width` values.
 * Rows need not be created: they are there, with their initial values, when first touched.
 *
 *     struct rbt_table_options options = {
 *         .struct_size = sizeof options, .type = RBT_F32, .width = 16, .consistency = "ssp:3"};
 *     rbt_table *factors = NULL;
 *     float row[16];
 *     rbt_status st = rbt_table_open(job, "factors", &options, &factors);
 *     ...
 *     st = rbt_get(worker, factors, 42, row);   // at most 3 clocks old, own updates included
 *     st = rbt_add(worker, factors, 42, delta); // others see it after rbt_clock()
 *
 * How old a read may be is the table's consistency. A worker that has completed c clocks and reads
 * with staleness s sees every update of clocks 0 .. c-s-1 of every worker, all of its own, and of
 * the others nothing of clock c+s or later:
 *
 *     "bsp"     s = 0: exactly the clocks that everybody has finished; the same bits on every run
 *     "ssp:S"   s = S: a cached row is used as long as it is fresh enough
 *     "essp:S"  s = S, and a read takes the newest there is: more copying, fresher values
 *     "asp"     no bound, no waiting
 *     "auto"    like "essp:S", with an S that the job chooses and changes as it runs: the smallest
 *               with which waiting hardly matters, or what rbt_job_advise_staleness() says;
 *               "auto:S" starts there. For jobs; tables that name no consistency follow, but for
 *               those that show partial clocks
 *
 * Many rows at once: rubato/set.h, which is the fast way. Threads: tables may be shared by all
 * workers; only reads of rows wait. */
#ifndef RUBATO_TABLE_H
#define RUBATO_TABLE_H

#include <stdbool.h>

#include <rubato/job.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rbt_table rbt_table; /* owned by its job */

struct rbt_table_experiments; /* rubato/experiments.h */

typedef enum rbt_type {
    RBT_F32, /* float */
    RBT_F64, /* double */
    RBT_I32, /* int32_t */
    RBT_I64, /* int64_t */
} rbt_type;

typedef enum rbt_layout {
    RBT_DENSE,  /* `width` values, all stored */
    RBT_SPARSE, /* elements 0 .. width-1, stored in order of index when not zero */
} rbt_layout;

/* How an update changes an element; each is associative and commutative. Sparse rows know ADD and
 * OR only. */
typedef enum rbt_merge {
    RBT_MERGE_ADD, /* the sum */
    RBT_MERGE_MAX, /* the larger one */
    RBT_MERGE_MIN, /* the smaller one */
    RBT_MERGE_OR,  /* bitwise or; integers only */
} rbt_merge;

/* Initial values of a row that nobody has updated: a function of the row's key, the element and
 * `seed` alone, so the same on every layout of the job. Dense tables only, except zero. */
typedef enum rbt_init {
    RBT_INIT_ZERO,
    RBT_INIT_CONSTANT, /* init_value */
    RBT_INIT_UNIFORM,  /* from init_low to below init_high */
    RBT_INIT_NORMAL,   /* with mean init_mean and standard deviation init_deviation */
} rbt_init;

/* Which updates a read shows besides those that the shards have made visible. */
typedef enum rbt_overlay {
    RBT_OVERLAY_OWN,     /* the worker's own, always */
    RBT_OVERLAY_PROCESS, /* those of all workers of this process, at once; implies CACHE_PROCESS */
    RBT_OVERLAY_NONE,    /* none: a worker sees its updates when the shards have applied them */
    RBT_OVERLAY_REPLICA, /* the worker's own until the next fetch replaces the copy */
} rbt_overlay;

/* Which copies of rows are kept for rbt_get(). */
typedef enum rbt_cache {
    RBT_CACHE_WORKER,  /* one per worker: no lock */
    RBT_CACHE_PROCESS, /* one per process, shared by its workers */
    RBT_CACHE_BOTH,    /* the worker's in front of the process's */
    RBT_CACHE_NONE,    /* every read asks the shard */
} rbt_cache;

/* Updates of clocks that their worker has not finished. */
typedef enum rbt_partial {
    RBT_PARTIAL_HIDE, /* are invisible to others: a clock is seen whole or not at all */
    RBT_PARTIAL_SHOW, /* may be seen as soon as they are pushed */
} rbt_partial;

/* Which shard holds a row. Results do not depend on it (with "bsp" to the last bit); traffic does.
 * docs/placement.md says when which is best. */
typedef enum rbt_placement {
    RBT_PLACE_HASH,        /* by the hash of its key: even shares, whatever the keys are */
    RBT_PLACE_RANGE,       /* 0 .. keys_max in equal pieces: a range of keys is in few shards */
    RBT_PLACE_RANGE_HASH,  /* in many small pieces, dealt out by their hash: both, nearly */
    RBT_PLACE_ROUND_ROBIN, /* key modulo number of shards: even shares of consecutive keys */
} rbt_placement;

/* A zero means the default. */
struct rbt_table_options {
    size_t struct_size;
    rbt_type type;
    rbt_layout layout;
    uint32_t width; /* default: 1 */
    rbt_merge merge;
    rbt_init init;
    union { /* the numbers that the kind of init needs */
        double init_value;
        double init_low;
        double init_mean;
    };
    union {
        double init_high;
        double init_deviation;
    };
    uint64_t seed;
    rbt_overlay overlay;
    rbt_cache cache;
    rbt_partial partial;     /* SHOW cannot be combined with "bsp" */
    const char *consistency; /* default: the job's */
    uint32_t state_width;    /* values per row for the use of rules; default: 0 */
    uint64_t rows_expected;  /* room made at once, so that no table grows later; default: 0 */
    uint32_t cache_rows;     /* rows that a cache holds at most before it starts again empty, at the
                                price of fetching them again; default: no limit */
    rbt_placement placement;
    uint64_t keys_max; /* the largest key expected, for ranges; default: 2^64-1 */
    /* What shards do with updates, "NAME[:k=v,...]" (rubato/rule.h); default: what `merge` says.
     * For dense RBT_F32 that adds. Own updates cannot be shown, since only the shards know what
     * they will do: the overlay must be NONE, which then is the default, or REPLICA, for rules that
     * take moves; and rows are cached by workers only.
     * An update counts as computed from the last pull of its set, or the last fetch of its row. One
     * that has none, such as rbt_push(), counts as computed from the worker's newest read of the
     * table. What is updated from different reads goes to the rule as different messages. A row
     * that stays in a worker's cache keeps the shards from forgetting its read: `cache_rows`. */
    const char *rule;
    /* What makes its messages smaller, "NAME[:NUMBER...],..." (rubato/filter.h); default: nothing.
     * All filters are for sets (rubato/set.h). Rows that are pushed or read one by one or as lists
     * used once are only rounded and packed, and rbt_pull_range() returns them as they are. What a
     * filter keeps back of an update stays in the set, where the worker's own pulls show it if the
     * table shows own updates; it is looked at again with the next push of that set, and goes with
     * the 64th at the latest, or with rbt_worker_flush(). */
    const char *filter;
    /* What papers compare with (rubato/experiments.h); copied. Default: NULL, nothing of it */
    const struct rbt_table_experiments *experiments;
};

/* Opens the table `name`, or "space/name" in another namespace; creates it if there is none. The
 * table belongs to the job. `options` may be NULL. Safe from any thread.
 * A job that runs here or simulated is alone, and may have tables in any namespace. In a cluster
 * every namespace is a job of its own, with its own workers and clocks: a job has the tables of the
 * namespace that its cluster was joined in, and reads another's by joining that as a reader.
 * Fails with RBT_E_INVALID if the options contradict each other, or those of the table that is
 * already there, or if a cluster's table is to be in another namespace; and with RBT_E_NOMEM. */
RBT_API RBT_MUST_USE rbt_status rbt_table_open(rbt_job *job, const char *name,
                                               const struct rbt_table_options *options,
                                               rbt_table **table);

/* Its name with its namespace, "main/weights"; its width; its type. */
RBT_API const char *rbt_table_name(const rbt_table *table);
RBT_API uint32_t rbt_table_width(const rbt_table *table);
RBT_API rbt_type rbt_table_type(const rbt_table *table);

/* The table's default staleness, at most 1000000; RBT_STALENESS_ANY means no bound. It may be
 * changed while the job runs: reads that start afterwards, in whatever process of the job, obey the
 * new bound; updates already visible stay so. Over several processes the change waits until all of
 * them and the servers have taken it, but not for any worker; of two that are made at once all
 * processes keep the same one. Fails with RBT_E_INVALID, or with why the job has failed. */
enum { RBT_STALENESS_ANY = -1 };
RBT_API int64_t rbt_table_staleness(const rbt_table *table);
RBT_API RBT_MUST_USE rbt_status rbt_table_set_staleness(rbt_table *table, int64_t staleness);

/* Copies the row to `values` (width elements of the table's type). Waits until it is fresh enough:
 * as the table says, or at most `staleness` clocks old. The copy is never torn by an update. */
RBT_API RBT_MUST_USE rbt_status rbt_get(rbt_worker *worker, rbt_table *table, uint64_t key,
                                        void *values);
RBT_API RBT_MUST_USE rbt_status rbt_get_within(rbt_worker *worker, rbt_table *table, uint64_t key,
                                               int64_t staleness, void *values);

/* Elements of a row: `count` pairs of index and value, indices increasing. */
struct rbt_elements {
    uint32_t *index;
    void *values;
    size_t count;
    size_t capacity; /* room in index and values, for reading */
};

/* Reads the elements of a sparse row that are not zero into `elements`, which the caller has given
 * room for `capacity`. If that is too small, fails with RBT_E_TOO_SMALL and sets `count` to the
 * number needed. Wait like rbt_get() and rbt_get_within(). */
RBT_API RBT_MUST_USE rbt_status rbt_get_sparse(rbt_worker *worker, rbt_table *table, uint64_t key,
                                               struct rbt_elements *elements);
RBT_API RBT_MUST_USE rbt_status rbt_get_sparse_within(rbt_worker *worker, rbt_table *table,
                                                      uint64_t key, int64_t staleness,
                                                      struct rbt_elements *elements);

/* Updates the whole dense row, one element, or several elements. Never wait. Fail with RBT_E_BUSY
 * if the worker's last rbt_clock() has failed and must be repeated first. */
RBT_API RBT_MUST_USE rbt_status rbt_add(rbt_worker *worker, rbt_table *table, uint64_t key,
                                        const void *deltas);
RBT_API RBT_MUST_USE rbt_status rbt_add_at(rbt_worker *worker, rbt_table *table, uint64_t key,
                                           uint32_t element, const void *delta);
RBT_API RBT_MUST_USE rbt_status rbt_add_elements(rbt_worker *worker, rbt_table *table, uint64_t key,
                                                 const struct rbt_elements *elements);

/* How fresh the worker's copy of a row is. Fails with RBT_E_INVALID if struct_size has not been
 * set, and not otherwise. */
struct rbt_freshness {
    size_t struct_size;
    int64_t clock;     /* all updates of clocks < `clock` are in the copy; -1 if there is no copy */
    int64_t staleness; /* the worker's clock minus `clock` */
};
RBT_API rbt_status rbt_row_freshness(rbt_worker *worker, rbt_table *table, uint64_t key,
                                     struct rbt_freshness *freshness);

#ifdef __cplusplus
}
#endif

#endif
