/* client/process.c - a worker process of a job: tables, runs, and what it asks of all shards. */
#include "client/process.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { FLOOR_LOOKS = 64 }; /* at a floor that does not move, before it is asked for */

/* --- Life ------------------------------------------------------------------------------------ */

rbt_status rbt_process_init(struct rbt_process *process, const struct rbt_process_options *options)
{
    const uint32_t shards = options->plan->shard_count;
    process->options = *options;
    process->run = options->runs;
    process->shared = (struct rbt_caller_shared){
        .shard_count = shards,
        .tables = rbt_calloc(options->table_max, sizeof *process->shared.tables),
        .compression = options->compression};
    process->heard = rbt_calloc(shards, sizeof *process->heard);
    return process->shared.tables != NULL && process->heard != NULL
               ? RBT_OK
               : rbt_fail(RBT_E_NOMEM, "no memory for connections");
}

void rbt_process_deinit(struct rbt_process *process)
{
    for (uint32_t i = 0; process->shared.tables != NULL && i < process->options.table_max; i++) {
        if (process->shared.tables[i] != NULL) {
            rbt_packing_filters_destroy(process->shared.tables[i]->filters);
            rbt_free(process->shared.tables[i]);
        }
    }
    rbt_free(process->shared.tables);
    rbt_free(process->heard);
    *process = (struct rbt_process){0};
}

struct rbt_stream_options *rbt_process_streams(struct rbt_process *process)
{
    const struct rbt_process_options *options = &process->options;
    const struct rbt_member_plan *plan = options->plan;
    struct rbt_wire_hello *hello = &process->hello;
    *hello = (struct rbt_wire_hello){.cluster = plan->cluster,
                                     .job = plan->job,
                                     .secret = plan->secret,
                                     .worker_count = plan->worker_count,
                                     .is_reader = options->is_reader,
                                     .compression = options->compression};
    snprintf(hello->space, sizeof hello->space, "%s", options->name_space);
    snprintf(hello->node, sizeof hello->node, "%s/%u", options->is_reader ? "reader" : "worker",
             plan->index);
    struct rbt_stream_options *streams = rbt_calloc(plan->shard_count, sizeof *streams);
    for (uint32_t i = 0; streams != NULL && i < plan->shard_count; i++) {
        streams[i] = (struct rbt_stream_options){.address = plan->shards[i],
                                                 .hello = hello,
                                                 .shard = i,
                                                 .cut_max = options->cut_max,
                                                 .silence_max = options->silence_max};
    }
    return streams;
}

/* --- Questions ------------------------------------------------------------------------------- */

/* Asks a shard with a short message; `bytes` of the block are written. */
static rbt_status ask(const struct rbt_process *process, uint32_t shard, struct rbt_block *block,
                      struct rbt_frame header, struct rbt_wire_done *done)
{
    if (block == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a message");
    }
    header.worker = RBT_FRAME_NOBODY;
    return rbt_carrier_ask(process->control, shard, block, header, done);
}

/* A question that says no more than its header; NULL without memory. */
static struct rbt_block *make_question(void)
{
    struct rbt_block *block = rbt_block_create(RBT_WIRE_RESET_BYTES);
    if (block != NULL) {
        block->bytes = RBT_WIRE_RESET_BYTES;
    }
    return block;
}

/* Whether a table at the servers is what a reader takes it for. */
static rbt_status check_read(const struct rbt_spec *mine, const struct rbt_spec *theirs)
{
    if (mine->type != theirs->type || mine->layout != theirs->layout ||
        mine->width != theirs->width) {
        return rbt_fail(RBT_E_INVALID, "table \"%s\" has another type or width than expected",
                        mine->name);
    }
    return RBT_OK;
}

/* Notes what callers must know of a table. One that is only told of another staleness may be in use
 * by other workers. */
static rbt_status note_table(struct rbt_process *process, const struct rbt_shard_event *event,
                             const struct rbt_spec *theirs)
{
    const bool is_reader = process->options.is_reader;
    rbt_status st = RBT_OK;
    if (process->shared.tables[event->table] != NULL) {
        return RBT_OK;
    }
    struct rbt_caller_entry *table = rbt_calloc(1, sizeof *table);
    if (table == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for table \"%s\"", theirs->name);
    }
    table->spec = is_reader ? *theirs : *event->spec;
    if (table->spec.filter[0] != '\0' && !is_reader) {
        st = rbt_packing_filters_create(&table->spec, process->options.plan->worker_count,
                                        &table->filters);
    }
    if (st != RBT_OK) {
        rbt_free(table);
        return st;
    }
    process->shared.tables[event->table] = table;
    return RBT_OK;
}

rbt_status rbt_process_set_table(struct rbt_process *process, const struct rbt_driver_call *call)
{
    const struct rbt_process_options *options = &process->options;
    struct rbt_spec told = *call->event.spec;
    struct rbt_wire_done *done = rbt_calloc(1, sizeof *done);
    struct rbt_block *block = done == NULL ? NULL : rbt_block_create(RBT_WIRE_SHORT_MAX);
    told.must_exist = options->is_reader;
    if (block != NULL) {
        block->bytes = rbt_wire_put_table(block->data, &told);
    }
    rbt_status st =
        ask(process, call->shard, block, (struct rbt_frame){.kind = RBT_FRAME_TABLE}, done);
    st = st == RBT_OK && options->is_reader ? check_read(&told, &done->table) : st;
    st = st != RBT_OK ? st : note_table(process, &call->event, &done->table);
    rbt_free(done);
    return st;
}

void rbt_process_begin(struct rbt_process *process)
{
    process->run++;
    rbt_carrier_reset(process->control); /* it may have heard how the last run ended */
    for (uint32_t i = 0; i < process->shared.shard_count; i++) {
        atomic_store_explicit(&process->heard[i].floor, 0, memory_order_relaxed);
    }
}

rbt_status rbt_process_reset(struct rbt_process *process, uint32_t shard)
{
    if (process->options.is_reader) {
        return RBT_OK;
    }
    struct rbt_wire_done *done = rbt_calloc(1, sizeof *done);
    const struct rbt_frame header = {.kind = RBT_FRAME_RESET, .id = process->run};
    const rbt_status st = ask(process, shard, done == NULL ? NULL : make_question(), header, done);
    rbt_free(done);
    return st;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void rbt_process_add_stats(struct rbt_process *process, struct rbt_job_stats *stats)
{
    struct rbt_wire_done *done = rbt_calloc(1, sizeof *done);
    for (uint32_t i = 0; done != NULL && i < process->shared.shard_count; i++) {
        const struct rbt_frame header = {.kind = RBT_FRAME_STATS};
        if (ask(process, i, make_question(), header, done) == RBT_OK) {
            stats->updates += done->figures[0];
            stats->duplicates += done->figures[1];
            stats->rows += done->figures[2];
            stats->server_bytes += done->figures[4];
            stats->rule_bytes += done->figures[5];
            stats->rule_bytes_max += done->figures[5]; /* more is not told */
            stats->versions_max = higher(stats->versions_max, done->figures[6]);
            stats->snapshots_max = higher(stats->snapshots_max, done->figures[7]);
        } /* else the job has failed, and says so elsewhere */
    }
    rbt_free(done);
}

int64_t rbt_process_floor(const struct rbt_process *process, struct rbt_carrier *carrier,
                          uint32_t shard)
{
    if (carrier != NULL) {
        const struct rbt_caller *caller = &carrier->caller;
        struct rbt_stream *stream = &carrier->caller.streams[shard];
        rbt_carrier_look(carrier);
        stream->looks = stream->requests == NULL ? stream->looks + 1 : 0;
        if (stream->looks >= FLOOR_LOOKS && caller->status == RBT_OK) {
            struct rbt_wire_done done;
            struct rbt_block *block = make_question();
            const struct rbt_frame header = {.kind = RBT_FRAME_STATS, .worker = caller->worker};
            stream->looks = 0;
            if (block != NULL) {
                const rbt_status st = rbt_carrier_ask(carrier, shard, block, header, &done);
                (void)st; /* a failure shows in the next step */
            }
        }
        if (caller->status != RBT_OK) {
            return RBT_CLOCK_GONE; /* it need not wait for anything */
        }
    }
    return atomic_load_explicit(&process->heard[shard].floor, memory_order_relaxed);
}

rbt_status rbt_process_finish(const struct rbt_process *process, struct rbt_carrier *carrier,
                              rbt_status status)
{
    struct rbt_error_record record;
    rbt_error_save(&record);
    const rbt_status drained = process->options.is_reader ? RBT_OK : rbt_carrier_drain(carrier);
    if (status != RBT_OK) {
        rbt_error_restore(&record);
    }
    return status != RBT_OK ? status : drained;
}

/* --- Outcomes -------------------------------------------------------------------------------- */

void rbt_outcome_fill(struct rbt_outcome *outcome, rbt_status status)
{
    struct rbt_error_record record = {0};
    if (status != RBT_OK) {
        rbt_error_save(&record);
    }
    outcome->status = status;
    memcpy(outcome->message, record.message, sizeof outcome->message);
    memcpy(outcome->hint, record.hint, sizeof outcome->hint);
}

size_t rbt_outcome_size(const struct rbt_outcome *outcome)
{
    return outcome->status == RBT_OK ? sizeof outcome->status : sizeof *outcome;
}

void rbt_outcome_take(void *context, uint32_t process, const char *bytes, size_t size)
{
    struct rbt_outcome *first = context;
    (void)process;
    if (first->status == RBT_OK && size == sizeof *first) {
        memcpy(first, bytes, sizeof *first);
        first->message[RBT_ERROR_MAX - 1] = '\0';
        first->hint[RBT_ERROR_MAX - 1] = '\0';
    }
}

rbt_status rbt_outcome_fail(const struct rbt_outcome *outcome)
{
    struct rbt_error_record record = {0};
    RBT_ASSERT(outcome->status != RBT_OK);
    memcpy(record.message, outcome->message, sizeof record.message);
    memcpy(record.hint, outcome->hint, sizeof record.hint);
    rbt_error_restore(&record);
    return (rbt_status)outcome->status;
}
