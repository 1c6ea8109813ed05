/* data/paged.h - a stored share as plain arrays, of which only a few pieces are in memory.
 *
 * The files of the share are mapped into memory, so that whoever works on it sees a struct
 * rbt_share like any other, and may also change its values. To keep its memory small he says where
 * he is: then the piece that comes next is fetched by a thread of its own while he works, and those
 * behind him are dropped.
 *
 *     st = rbt_paged_open(&stored, 1 << 20, &paged);
 *     struct rbt_share share = rbt_paged_share(paged);
 *     for (size_t i = 0; i < share.count; i++) {
 *         rbt_paged_visit(paged, i, i + 1);
 *         ... share.labels[i] ...
 *     }
 *     rbt_paged_close(paged);
 *
 * Visits are hints: what is not in memory comes when it is touched. Going from front to end, again
 * and again, is what is expected. Threads: one at a time. */
#ifndef RUBATO_DATA_PAGED_H
#define RUBATO_DATA_PAGED_H

#include "data/depot.h"
#include "data/examples.h"

typedef struct rbt_paged rbt_paged;

/* Pieces have about `piece_size` bytes; two or three are in memory. `stored` is borrowed. Fails
 * with RBT_E_NOMEM or RBT_E_IO. */
RBT_MUST_USE rbt_status rbt_paged_open(struct rbt_stored *stored, size_t piece_size,
                                       rbt_paged **paged);

/* Accepts NULL. */
void rbt_paged_close(rbt_paged *paged);

/* The share, without keys, and a number per example that is 0 at first; both live until the end. */
struct rbt_share rbt_paged_share(const rbt_paged *paged);
float *rbt_paged_steps(const rbt_paged *paged);

/* Examples first .. end-1 are worked on now. Accepts NULL, for a share that is in memory anyway. */
void rbt_paged_visit(rbt_paged *paged, size_t first, size_t end);

/* From now on as much as fits into so many bytes is not dropped. */
void rbt_paged_keep(rbt_paged *paged, uint64_t bytes);

#endif
