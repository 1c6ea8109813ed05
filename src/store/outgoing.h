/* store/outgoing.h - filters at work on rows that go out: what each reader has been sent, so that
 * what it has need not be sent again.
 *
 * A reader is a working set of a worker. The shard remembers the rows as they were last sent to it,
 * under a name that is told with them: a copy. A read names the copy that the reader has. If that
 * is the one that the shard remembers, filters see it as known, and what they leave out leaves the
 * reader with what it has. If it is another one, because an answer was lost, came twice, or was
 * forgotten here, everything goes, and a new copy begins. So nothing that the network does can make
 * the two differ.
 *
 * Reads that keep no copy, such as those of single rows, are only rounded. */
#ifndef RUBATO_STORE_OUTGOING_H
#define RUBATO_STORE_OUTGOING_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/source.h"
#include "core/shard_event.h"

typedef struct rbt_outgoing rbt_outgoing;

struct rbt_outgoing_options {
    const struct rbt_spec *spec; /* with a filter */
    uint32_t worker_count;
    size_t bytes_max; /* of copies; the oldest are forgotten. 0: the default */
};

/* If the table's filters neither select nor round what is read, there is nothing to do here:
 * *outgoing = NULL. Fails with RBT_E_INVALID and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_outgoing_create(const struct rbt_outgoing_options *options,
                                            rbt_outgoing **outgoing);
void rbt_outgoing_destroy(rbt_outgoing *outgoing); /* accepts NULL */

/* The rows of a PULL are in the event's batch: changes them to what the reader will have, and says
 * in event->copy and event->sent what that is and what of it goes. */
RBT_MUST_USE rbt_status rbt_outgoing_filter(rbt_outgoing *outgoing,
                                            const struct rbt_shard_event *event);

/* The worker has gone: its copies are forgotten. And: a new run begins, with other readers. */
void rbt_outgoing_leave(rbt_outgoing *outgoing, uint32_t worker);
void rbt_outgoing_reset(rbt_outgoing *outgoing);

/* Copies, of all readers. */
size_t rbt_outgoing_copies(const rbt_outgoing *outgoing);

size_t rbt_outgoing_bytes(const rbt_outgoing *outgoing);

/* All copies as a part of a saved shard; what filters keep for themselves is not in it, and those
 * that come with Rubato keep nothing. Loading into a new one for the same filters and as many
 * workers. What makes no sense is refused. */
void rbt_outgoing_save(const rbt_outgoing *outgoing, struct rbt_sink *sink);
void rbt_outgoing_load(rbt_outgoing *outgoing, struct rbt_source *source);

#endif
