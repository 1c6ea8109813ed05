/* sim/weigh.c - what messages of tables with filters weigh.
 *
 * Values are encoded as they would be on a network, and the result is thrown away. A list of keys
 * that a worker has sent to a server before, under the name that its set has for it, weighs as much
 * as that name.
 *
 * Threads: none. Memory: about four times the largest message, and an entry for each list. */
#include "sim/weigh.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/map.h"
#include "filter/chain.h"
#include "sim/message.h"

enum { KEY_BYTES = 8, NAME_BYTES = 8 };

struct rbt_weigher {
    char text[RBT_FILTER_TEXT_MAX];
    rbt_chain *push; /* NULL: values go as they are */
    rbt_chain *pull; /* the same */
    struct rbt_chain_traits push_traits;
    struct rbt_chain_traits pull_traits;
    struct rbt_map lists; /* that servers have */
    char *bytes;          /* scratch: three times what a message takes */
    size_t bytes_max;
    bool *keep; /* scratch */
    size_t keep_max;
    struct rbt_job_stats figures; /* only those of filters */
};

static rbt_status make_chains(const struct rbt_shard_table *schema, uint32_t worker_count,
                              rbt_weigher *weigher)
{
    struct rbt_chain_options options = {.text = schema->filter,
                                        .direction = RBT_FILTER_PUSH,
                                        .table = schema->name,
                                        .width = schema->width,
                                        .type = schema->type,
                                        .layout = schema->layout,
                                        .merge = schema->merge,
                                        .worker_count = worker_count};
    rbt_status st = rbt_chain_create(&options, &weigher->push);
    st = st != RBT_OK ? st : rbt_chain_check(&options, &weigher->push_traits);
    options.direction = RBT_FILTER_PULL;
    st = st != RBT_OK ? st : rbt_chain_create(&options, &weigher->pull);
    return st != RBT_OK ? st : rbt_chain_check(&options, &weigher->pull_traits);
}

rbt_status rbt_weigher_create(const struct rbt_shard_table *schema, uint32_t worker_count,
                              rbt_weigher **weigher)
{
    rbt_weigher *w = rbt_calloc(1, sizeof *w);
    if (w == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the filters of a table");
    }
    rbt_status st = make_chains(schema, worker_count, w);
    if (st == RBT_OK) { /* it is not too long, or it would not be right */
        RBT_ASSERT(strlen(schema->filter) < sizeof w->text);
        memcpy(w->text, schema->filter, strlen(schema->filter) + 1);
    }
    st = st != RBT_OK ? st : rbt_map_init(&w->lists, 0);
    if (st != RBT_OK) {
        rbt_weigher_destroy(w);
        return st;
    }
    *weigher = w;
    return RBT_OK;
}

void rbt_weigher_destroy(rbt_weigher *weigher)
{
    if (weigher == NULL) {
        return;
    }
    rbt_free(weigher->keep);
    rbt_free(weigher->bytes);
    rbt_map_deinit(&weigher->lists);
    rbt_chain_destroy(weigher->pull);
    rbt_chain_destroy(weigher->push);
    rbt_free(weigher);
}

bool rbt_weigher_has_text(const rbt_weigher *weigher, const char *text)
{
    return strcmp(weigher->text, text) == 0;
}

bool rbt_weigher_alters(const rbt_weigher *weigher)
{
    return weigher->push_traits.has_select || weigher->push_traits.has_round;
}

bool rbt_weigher_selects(const rbt_weigher *weigher)
{
    return weigher->pull_traits.has_select;
}

void rbt_weigher_reset(rbt_weigher *weigher)
{
    rbt_map_clear(&weigher->lists);
}

static bool fit(rbt_weigher *weigher, size_t bytes, size_t count)
{
    if (bytes > weigher->bytes_max) {
        char *larger = rbt_realloc(weigher->bytes, bytes, 1);
        if (larger == NULL) {
            return false;
        }
        weigher->bytes = larger;
        weigher->bytes_max = bytes;
    }
    if (count > weigher->keep_max) {
        bool *larger = rbt_realloc(weigher->keep, count, sizeof *larger);
        if (larger == NULL) {
            return false;
        }
        weigher->keep = larger;
        weigher->keep_max = count;
    }
    return true;
}

/* What these elements take; `plain` without memory. */
static size_t encode(rbt_weigher *weigher, rbt_chain *chain,
                     const struct rbt_chain_elements *elements, size_t plain)
{
    const size_t bound = rbt_chain_bound(chain, elements->count);
    if (elements->count == 0 || !fit(weigher, 3 * bound, 0)) {
        return plain;
    }
    return rbt_chain_put(chain, elements, weigher->bytes, weigher->bytes + bound);
}

/* What was not selected is an update of zero, and zeros do not go. */
static bool *list_nonzero(rbt_weigher *weigher, const float *values, size_t count)
{
    if (!fit(weigher, 0, count)) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        weigher->keep[i] = values[i] != 0; /* not a number is not zero */
    }
    return weigher->keep;
}

static size_t weigh_keys(rbt_weigher *weigher, bool has_names, const struct rbt_message *message,
                         uint32_t shard, const struct rbt_batch *batch)
{
    const size_t plain = batch->count * KEY_BYTES;
    size_t bytes = plain;
    if (has_names && batch->list != 0 && batch->count > 0) {
        const uint64_t key =
            rbt_hash_key(rbt_hash_key(batch->list ^ message->worker) ^ ((uint64_t)shard << 32));
        if (rbt_map_find(&weigher->lists, key) != RBT_MAP_NONE) {
            bytes = NAME_BYTES;
        } else if (rbt_map_reserve(&weigher->lists, 1) == RBT_OK) {
            rbt_map_insert(&weigher->lists, key, 0);
        }
    }
    weigher->figures.filter_keys_in += plain;
    weigher->figures.filter_keys_out += bytes;
    return bytes;
}

/* The values of an update, which are packed: row i is at position i. */
static size_t weigh_push(rbt_weigher *weigher, const struct rbt_message_table *table,
                         const struct rbt_batch *batch)
{
    const size_t count = table->is_sparse ? batch->offsets[batch->count]
                                          : batch->count * (table->row_size / table->element_size);
    const size_t plain = count * table->element_size;
    size_t bytes = plain;
    if (weigher->push != NULL) {
        struct rbt_chain_elements elements = {
            .count = count, .values = batch->values, .code = batch->code};
        if (weigher->push_traits.has_select) {
            elements.keep = list_nonzero(weigher, batch->values, count);
        }
        const size_t filtered = encode(weigher, weigher->push, &elements, plain);
        bytes = filtered < plain ? filtered : plain; /* else they travel as they are */
    }
    weigher->figures.filter_push_in += plain;
    weigher->figures.filter_push_out += bytes;
    return bytes;
}

void rbt_weigh_request(struct rbt_message *message, uint32_t shard,
                       const struct rbt_message_table *tables)
{
    const bool is_push = message->kind == RBT_MESSAGE_PUSH;
    for (size_t i = 0; message->event.early == NULL && i < message->event.batch_count; i++) {
        const struct rbt_batch *batch = &message->event.batches[i];
        const struct rbt_message_table *table = &tables[batch->table];
        rbt_weigher *weigher = table->weigher;
        if (weigher == NULL) {
            continue;
        }
        const bool has_names =
            is_push ? weigher->push_traits.names_keys : weigher->pull_traits.names_keys;
        RBT_ASSERT(message->bytes >= batch->count * KEY_BYTES);
        message->bytes -= batch->count * KEY_BYTES;
        message->bytes += weigh_keys(weigher, has_names, message, shard, batch);
        if (is_push) {
            const size_t plain = table->is_sparse
                                     ? batch->offsets[batch->count] * table->element_size
                                     : batch->count * table->row_size;
            RBT_ASSERT(message->bytes >= plain);
            message->bytes -= plain;
            message->bytes += weigh_push(weigher, table, batch);
        }
    }
}

void rbt_weigh_answer(struct rbt_message *answer, const struct rbt_message_table *tables)
{
    const struct rbt_message_table *table = &tables[answer->event.table];
    rbt_weigher *weigher = table->weigher;
    if (weigher == NULL || answer->event.kind == RBT_SHARD_SCAN) {
        return;
    }
    const bool is_early = answer->event.early != NULL;
    const size_t rows = is_early ? answer->early.count : answer->batch.count;
    const size_t count =
        table->is_sparse ? answer->element_count : rows * (table->row_size / table->element_size);
    const size_t plain = count * table->element_size;
    size_t bytes = plain;
    if (weigher->pull != NULL) {
        const struct rbt_chain_elements elements = {
            .count = count,
            .values = table->is_sparse ? answer->values : answer->batch.values,
            .keep = weigher->pull_traits.has_select ? answer->sent.keep : NULL,
            .code = answer->sent.code};
        bytes = encode(weigher, weigher->pull, &elements, plain);
    }
    RBT_ASSERT(answer->bytes >= plain);
    answer->bytes = answer->bytes - plain + bytes;
    weigher->figures.filter_pull_in += plain;
    weigher->figures.filter_pull_out += bytes;
}

void rbt_weigher_stats(const rbt_weigher *weigher, struct rbt_job_stats *stats)
{
    stats->filter_keys_in += weigher->figures.filter_keys_in;
    stats->filter_keys_out += weigher->figures.filter_keys_out;
    stats->filter_push_in += weigher->figures.filter_push_in;
    stats->filter_push_out += weigher->figures.filter_push_out;
    stats->filter_pull_in += weigher->figures.filter_pull_in;
    stats->filter_pull_out += weigher->figures.filter_pull_out;
}
