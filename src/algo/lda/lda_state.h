/* algo/lda/lda_state.h - the topics of a worker's tokens on disk, between passes and between
 * trainings.
 *
 * A worker keeps one file, DIR/topics.INDEX. During a pass the topics are read from it block by
 * block, and what has been drawn instead is written to DIR/topics.INDEX.new, which takes the file's
 * place when the pass is complete: whatever happens, the file is that of a whole pass.
 *
 *     st = rbt_lda_state_open("topics", &facts, &state);
 *     for every pass:
 *         st = rbt_lda_state_start(state);
 *         for all tokens, in order, some at a time:
 *             st = rbt_lda_state_read(state, topics, count);
 *             ... draw ...
 *             st = rbt_lda_state_write(state, topics, count);
 *         st = rbt_lda_state_commit(state);
 *     rbt_lda_state_close(state);
 *
 * Layout, little-endian: the magic "RBTTOPIC"; format, topics, worker, workers (uint32_t); seed,
 * tokens, data, passes (uint64_t); a checksum of all that (uint64_t). Then blocks of 65536 topics
 * (uint16_t), the last of what is left, each with its checksum behind it.
 *
 * Threads: one at a time. */
#ifndef RUBATO_ALGO_LDA_LDA_STATE_H
#define RUBATO_ALGO_LDA_LDA_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum { RBT_LDA_STATE_BLOCK = 65536 };  /* tokens */
enum { RBT_LDA_STATE_HEAD_SIZE = 64 }; /* bytes */
enum { RBT_LDA_STATE_CHECK_SIZE = 8 }; /* bytes, behind each block */

/* What the topics are of. */
struct rbt_lda_state_facts {
    uint32_t topic_count;
    uint32_t worker;
    uint32_t worker_count;
    uint64_t seed;
    uint64_t tokens;
    uint64_t data;   /* a hash of the worker's documents */
    uint64_t passes; /* that have been made */
};

typedef struct rbt_lda_state rbt_lda_state;

/* Makes the directory if there is none. Fails with RBT_E_INVALID if the worker's file is of another
 * training (topics, workers or seed differ), with RBT_E_DATA if it is of other data or damaged,
 * with RBT_E_BUSY if somebody else uses it, and with RBT_E_IO and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_lda_state_open(const char *directory,
                                           const struct rbt_lda_state_facts *facts,
                                           rbt_lda_state **state);

/* Accepts NULL. What was written since the last commit is gone. */
void rbt_lda_state_close(rbt_lda_state *state);

/* Whether there are topics to go on with; after how many passes. */
bool rbt_lda_state_is_found(const rbt_lda_state *state);
uint64_t rbt_lda_state_passes(const rbt_lda_state *state);

/* Goes back to the first token, of what is read and of what is written. */
RBT_MUST_USE rbt_status rbt_lda_state_start(rbt_lda_state *state);

/* The next `count` topics. Reading fails with RBT_E_DATA if they are damaged, both with RBT_E_IO.
 */
RBT_MUST_USE rbt_status rbt_lda_state_read(rbt_lda_state *state, uint16_t *topics, size_t count);
RBT_MUST_USE rbt_status rbt_lda_state_write(rbt_lda_state *state, const uint16_t *topics,
                                            size_t count);

/* All tokens have been written: this is the state from now on, and is on disk. It is the one after
 * no pass if nothing was found, and else the one after one pass more. */
RBT_MUST_USE rbt_status rbt_lda_state_commit(rbt_lda_state *state);

/* The head of a file; and whether a block of `count` topics with its checksum, block `index` of the
 * file, is as it was written. They survive any bytes. */
RBT_MUST_USE rbt_status rbt_lda_state_decode(const uint8_t head[RBT_LDA_STATE_HEAD_SIZE],
                                             struct rbt_lda_state_facts *facts);
bool rbt_lda_state_check(const struct rbt_lda_state_facts *facts, uint64_t index,
                         const uint8_t *block, size_t count);

#endif
