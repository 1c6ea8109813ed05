/* rubato/experiments.h - what papers compare with, for those who repeat their experiments.
 *
 * Nobody needs these options to train a model: the defaults are what is best, or what the tables'
 * consistency promises, and docs/rules.md says what the others cost.
 *
 *     const struct rbt_table_experiments experiments = {
 *         .struct_size = sizeof experiments, .slack = 1};
 *     struct rbt_table_options options = {.struct_size = sizeof options,
 *                                         .overlay = RBT_OVERLAY_REPLICA,
 *                                         .experiments = &experiments};
 */
#ifndef RUBATO_EXPERIMENTS_H
#define RUBATO_EXPERIMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A zero means the default. */
struct rbt_table_experiments {
    size_t struct_size; /* sizeof this struct, so that it can grow */
    /* Elements of RBT_SET_DELTAS sets that are smaller than this are not pushed but stay in
     * rbt_set_deltas() until they have grown. For real numbers that add; default: 0 */
    double tiny;
    /* A copy serves for so many clocks more before it is fetched again, which then waits as the
     * consistency says. 1 with RBT_OVERLAY_REPLICA: the test that the paper on heterogeneous
     * clusters prints (Jiang et al., 2017). Without effect where every read takes the newest:
     * "essp", "asp", "auto" */
    uint32_t slack;
    /* Reads take the newest version of the model that all shards have, so that no read sees an
     * update in one shard and misses it in another because one of its messages was slow: partition
     * synchronisation. For rules that show versions, such as "dynsgd". What is newer waits until
     * the word goes round that all have it, the worker's own updates included, so that reads may
     * lack a little more than the staleness says. Reads with staleness 0 need none of that, and are
     * as without it. Nothing is sent ahead. */
    bool is_synchronised;
};

#ifdef __cplusplus
}
#endif

#endif
