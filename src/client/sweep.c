/* client/sweep.c - the asynchronous sweep of Yahoo!LDA, to compare others with.
 *
 * A sweep walks over all rows of a set in a fixed order, changed or not: it sends what has been
 * added to each since its last turn, and the shards answer with each reader's rows in turn
 * (store/early.c). One sweep over R rows of b bytes takes R * b / rate seconds, whatever happens to
 * them. Clocks still end as they always do: nothing that a bound asks for depends on the sweep. */
#include "base/assert.h"
#include "client/exchange.h"

uint32_t rbt_managed_sweep(struct rbt_managed *managed, size_t taken)
{
    if (taken >= managed->row_count) {
        return RBT_QUEUE_NONE;
    }
    const uint32_t row = managed->sweep;
    RBT_ASSERT(row < managed->row_count);
    managed->sweep = row + 1 < managed->row_count ? row + 1 : 0;
    rbt_queue_unmark(managed->queue, row); /* what it has goes with it */
    return row;
}
