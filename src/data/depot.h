/* data/depot.h - examples on disk, parsed once, and the shares of workers made of them.
 *
 * For data that is larger than memory. The files are read part by part into a depot; from it each
 * worker gets a share, stored in the order that rbt_share_take() would give, with the same keys and
 * the same positions: only it is on disk, as five plain arrays, of which any piece can be read
 * (data/window.h).
 *
 *     st = rbt_depot_open(&options, &depot);
 *     st = rbt_depot_deal(depot, index, worker_count, &stored);
 *     ...
 *     rbt_stored_free(&stored);
 *     rbt_depot_close(depot);
 *
 * Memory: about the bytes that the options allow, and in addition 8 bytes per example for a moment,
 * 12 per different feature, and while files are read 50 more. Threads: shares may be asked for by
 * several at once; they are made one after the other. */
#ifndef RUBATO_DATA_DEPOT_H
#define RUBATO_DATA_DEPOT_H

#include "data/examples.h"
#include "data/scratch.h"

struct rbt_depot_options {
    const struct rbt_data_options *data; /* only until the depot is open */
    const char *directory;               /* for files, borrowed until the end */
    uint64_t seed;                       /* of the order */
    size_t memory;                       /* bytes of buffers */
    uint64_t count_min;                  /* features that fewer examples have are left out */
};

typedef struct rbt_depot rbt_depot;

struct rbt_depot_facts {
    size_t count;         /* examples */
    const uint64_t *keys; /* different features, in increasing order */
    size_t key_count;
    struct rbt_labels labels;
};

/* Fails like rbt_examples_read(), and with RBT_E_IO when the directory cannot hold the data. */
RBT_MUST_USE rbt_status rbt_depot_open(const struct rbt_depot_options *options, rbt_depot **depot);

/* Accepts NULL. */
void rbt_depot_close(rbt_depot *depot);

/* What the depot holds; until it is closed. */
struct rbt_depot_facts rbt_depot_facts(const rbt_depot *depot);

/* All examples again, in the order of the files, as rbt_examples_read() would give them without
 * features that are left out. Fails like the receiver, and with RBT_E_IO and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_depot_walk(rbt_depot *depot, const struct rbt_receiver *receiver);

/* Features that are different in shares: x becomes (x - mean) scale, and if the mean is not 0, all
 * examples have the feature. */
struct rbt_depot_change {
    const uint64_t *keys; /* (count), increasing */
    const double *means;
    const double *scales;
    size_t count;
};

/* Shares that are dealt from now on are changed so. The arrays are borrowed until the end. Fails
 * with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_depot_change(rbt_depot *depot, const struct rbt_depot_change *change);

/* A share on disk; the arrays are those of struct rbt_share, and `steps` a float per example, which
 * belongs to whoever has the share. All zeros but for closed files is an empty one. */
struct rbt_stored {
    size_t count;
    uint64_t nonzeros;
    uint64_t *keys; /* sorted, unique; in memory */
    size_t key_count;
    struct rbt_scratch offsets; /* uint64_t, count + 1 */
    struct rbt_scratch labels;
    struct rbt_scratch steps;
    struct rbt_scratch indices;
    struct rbt_scratch values;
};

/* Before anything else is done with it. */
void rbt_stored_init(struct rbt_stored *stored);

/* Makes the share of worker `index` of `count`. Fails with RBT_E_IO, RBT_E_NOMEM, RBT_E_INVALID;
 * the share is then empty. */
RBT_MUST_USE rbt_status rbt_depot_deal(rbt_depot *depot, uint32_t index, uint32_t count,
                                       struct rbt_stored *stored);

/* Accepts an empty one and leaves one. */
void rbt_stored_free(struct rbt_stored *stored);

#endif
