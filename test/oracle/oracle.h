/* oracle/oracle.h - the visible-set oracle: which updates did a read see, and which should it have?
 *
 * Worker p adds 1 to elements 2c and 2c+1 of its own row during its clock c, the first near the
 * beginning and the second near the end, as two separate updates. Nobody else writes there. A read
 * of all rows is therefore the exact set of updates that are visible, and every rule of bounded
 * staleness is a statement about that set (docs/testing.md).
 *
 * Threads: a run starts its own workers; several runs must not overlap. */
#ifndef RUBATO_ORACLE_ORACLE_H
#define RUBATO_ORACLE_ORACLE_H

#include <stdbool.h>

#include <rubato/rubato.h>

/* How the workers reach the table. */
enum oracle_path {
    ORACLE_GET,          /* rbt_add_at() and rbt_get() */
    ORACLE_ROW,          /* rbt_add() of whole rows and rbt_get() */
    ORACLE_SPARSE,       /* rbt_add_at() and rbt_get_sparse() on a sparse table */
    ORACLE_SET_DELTAS,   /* a set that writes deltas */
    ORACLE_SET_IN_PLACE, /* a set that changes values */
    ORACLE_SET_ASYNC,    /* the same as SET_DELTAS, through tickets */
    ORACLE_LIST,         /* rbt_push() and rbt_pull() */
};
enum { ORACLE_PATHS = ORACLE_LIST + 1, ORACLE_WORKERS_MAX = 16, ORACLE_LAGS = 16 };

struct oracle_config {
    uint64_t seed;
    uint32_t workers; /* at most ORACLE_WORKERS_MAX */
    uint32_t shards;
    int64_t clocks;    /* of every worker, unless uneven */
    int64_t staleness; /* or RBT_STALENESS_ANY */
    enum oracle_path path;
    rbt_type type; /* RBT_I64 or RBT_F64 */
    rbt_cache cache;
    rbt_overlay overlay; /* OWN or NONE */
    rbt_partial partial;
    bool is_eager;         /* "essp:S" instead of "ssp:S" */
    bool mixes_staleness;  /* some reads name a staleness of their own: 0, S or any */
    bool has_uneven_ends;  /* workers have different numbers of clocks */
    bool has_runaway;      /* worker 0 never reads and ends before the others begin */
    bool reads_every_time; /* three reads per clock instead of a random subset */
};

struct oracle_report {
    uint64_t reads;
    uint64_t violations;
    char first[512];           /* the first violation, with the run it happened in */
    uint64_t lag[ORACLE_LAGS]; /* reads whose oldest missing update was so many clocks old */
};

/* Runs all clocks, judges every read, and at the end reads the table in a second run: everything
 * must be there, once. Fails the test only if the library returns an error. */
void oracle_run(const struct oracle_config *config, struct oracle_report *report);

#endif
