/* proto/job_shard_tables.c - one job at one shard: its tables, and how stale their reads may be.
 *
 * Whatever a message says of a table is checked here. The first process that opens a table says how
 * stale it may be; from then on it is the coordinator who does, also of tables that are not open
 * yet, so that all shards and processes agree.
 *
 * Threads: the shard's. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "policy/rule/rule.h"
#include "proto/job_shard_parts.h"

static rbt_status check_table(const rbt_job_shard *job, const struct rbt_spec *told)
{
    if (told->number >= job->options.table_max || told->number > job->table_count) {
        return rbt_fail(RBT_E_PROTOCOL, "table \"%s\": its number is not the next free one",
                        told->name); /* the shard knows no gaps */
    }
    return rbt_spec_check(told, RBT_E_PROTOCOL);
}

/* Steps the shard with a table. A rule or a priority may not be here, or a rule not want these
 * parameters: it matters at which server. */
static rbt_status step_table(rbt_job_shard *job, uint32_t number)
{
    struct rbt_job_shard_entry *table = job->tables[number];
    struct rbt_spec spec = table->spec;
    const bool has_rule = rbt_spec_has_rule(&spec);
    const bool has_priority = spec.priority[0] != '\0';
    spec.staleness = rbt_bounds_find(&job->bounds, number, spec.follows_job, spec.staleness);
    rbt_status st = rbt_job_shard_open_filters(job, table);
    if (st != RBT_OK) {
        return st;
    }
    if (has_rule) {
        st = rbt_rule_find(spec.rule, &spec.code);
    }
    if (st == RBT_OK && has_priority) {
        st = rbt_priority_find(spec.priority, &table->priority);
        spec.policy = &table->priority;
    }
    if (st == RBT_OK) {
        const struct rbt_shard_event event = {
            .kind = RBT_SHARD_TABLE, .table = number, .spec = &spec};
        struct rbt_shard_outbox out;
        const size_t ready = rbt_job_shard_step(job, &event, &out);
        RBT_ASSERT(ready == 0); /* a table lets nobody go on */
        st = out.status;
    }
    return st != RBT_OK && (has_rule || has_priority) ? rbt_fail_in(st, "%s", job->options.name)
                                                      : st;
}

/* Everybody says the same; the first is believed. */
static void take_budget(rbt_job_shard *job, uint64_t bandwidth)
{
    const uint32_t shards = job->options.shards_here == 0 ? 1 : job->options.shards_here;
    if (job->comm.options.rate == 0 && bandwidth / shards > 0) {
        const struct rbt_comm_options budget = {.rate = bandwidth / shards};
        rbt_comm_init(&job->comm, &budget, job->now);
    }
}

/* Opens a table. How stale it may be counts until the coordinator has said something else. */
static rbt_status set_table(rbt_job_shard *job, const struct rbt_spec *told)
{
    struct rbt_job_shard_entry *table = job->tables[told->number];
    if (table == NULL) {
        table = rbt_calloc(1, sizeof *table);
        if (table == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for table \"%s\"", told->name);
        }
        job->tables[told->number] = table;
    }
    if (table->is_open && !rbt_spec_is_same(told, &table->spec)) {
        return rbt_fail(
            RBT_E_INVALID,
            "table %u is \"%s\" in one process and \"%s\" in another, or its options differ; all "
            "processes must open their tables in one order with equal options",
            told->number, table->spec.name, told->name);
    }
    table->spec = *told;
    const rbt_status st = step_table(job, told->number);
    if (st != RBT_OK) {
        return st;
    }
    take_budget(job, told->priority[0] != '\0' ? told->bandwidth : 0);
    table->is_open = true;
    job->has_synchronised = job->has_synchronised || told->is_synchronised;
    job->table_count = told->number >= job->table_count ? told->number + 1 : job->table_count;
    return RBT_OK;
}

/* The table of that name, for somebody who only reads. */
static rbt_status find_table(const rbt_job_shard *job, const char *name, struct rbt_spec *found)
{
    for (uint32_t i = 0; i < job->table_count; i++) {
        if (job->tables[i]->is_open && strcmp(job->tables[i]->spec.name, name) == 0) {
            *found = job->tables[i]->spec;
            return RBT_OK;
        }
    }
    return rbt_fail(RBT_E_NOTFOUND, "cannot read table \"%s\": the job has not opened it", name);
}

rbt_status rbt_job_shard_receive_table(rbt_job_shard *job, struct rbt_session *session,
                                       const struct rbt_frame *frame, struct rbt_wire_cursor *body)
{
    struct rbt_wire_done done = {0};
    struct rbt_spec told;
    rbt_status st = rbt_wire_get_table(body, &told);
    st = st != RBT_OK ? st : rbt_wire_get_end(body);
    if (st == RBT_OK && session->is_reader != told.must_exist) {
        st = rbt_fail(RBT_E_PROTOCOL, "a reader cannot open a table");
    }
    st = st != RBT_OK || told.must_exist ? st : check_table(job, &told);
    if (st != RBT_OK) {
        return st;
    }
    done.table = told;
    done.status = told.must_exist ? find_table(job, told.name, &done.table) : set_table(job, &told);
    done.news = rbt_job_shard_news(job, session->worker);
    if (done.status != RBT_OK) {
        snprintf(done.text, sizeof done.text, "%s", rbt_last_error());
    }
    return rbt_job_shard_send_done(job, session, frame->id, &done);
}

/* The staleness of the tables that the change concerns. */
static rbt_status change(rbt_job_shard *job, const struct rbt_bound *bound)
{
    rbt_status st = rbt_bounds_note(&job->bounds, bound);
    for (uint32_t i = 0; st == RBT_OK && i < job->table_count; i++) {
        const struct rbt_job_shard_entry *table = job->tables[i];
        const bool is_meant =
            bound->table == i || (bound->table == RBT_CONTROL_ALL && table->spec.follows_job);
        if (table->is_open && is_meant) {
            st = step_table(job, i);
        }
    }
    return st;
}

void rbt_job_shard_bound(rbt_job_shard *job, const struct rbt_bound *bound)
{
    if (job->failure != RBT_OK || bound->number <= job->bounds.last || RBT_MUTANT(DEAF_SHARD)) {
        return; /* it is told again */
    }
    const rbt_status st = change(job, bound);
    if (st != RBT_OK) {
        job->failure = st;
        rbt_error_save(&job->why);
    }
}
