/* sim/weigh.h - what messages of tables with filters weigh: they are really encoded, and the bytes
 * counted. */
#ifndef RUBATO_SIM_WEIGH_H
#define RUBATO_SIM_WEIGH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/job.h>
#include <rubato/status.h>

#include "core/shard_event.h"

struct rbt_message;
struct rbt_message_table;

/* Of one table: its filters, and which lists of keys servers have. */
typedef struct rbt_weigher rbt_weigher;

/* `schema` has filters. Fails with RBT_E_INVALID and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_weigher_create(const struct rbt_shard_table *schema,
                                           uint32_t worker_count, rbt_weigher **weigher);
void rbt_weigher_destroy(rbt_weigher *weigher); /* accepts NULL */

/* Whether it was made with this text. */
bool rbt_weigher_has_text(const rbt_weigher *weigher, const char *text);

/* Whether filters select among rows that are read: answers then have room for which go. */
bool rbt_weigher_selects(const rbt_weigher *weigher);

/* Whether filters leave out or round updates: what arrives is not what was sent. */
bool rbt_weigher_alters(const rbt_weigher *weigher);

/* A new run begins: servers have no lists. */
void rbt_weigher_reset(rbt_weigher *weigher);

/* Corrects what a copy of a PUSH or PULL to this server weighs, and the answer to a PULL; tables
 * without filters as they were. Without memory they weigh what they would without filters. */
void rbt_weigh_request(struct rbt_message *message, uint32_t shard,
                       const struct rbt_message_table *tables);
void rbt_weigh_answer(struct rbt_message *answer, const struct rbt_message_table *tables);

/* Adds the table's figures. */
void rbt_weigher_stats(const rbt_weigher *weigher, struct rbt_job_stats *stats);

#endif
