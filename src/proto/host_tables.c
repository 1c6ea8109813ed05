/* proto/host_tables.c - one job at one shard: its tables, and how stale their reads may be.
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
#include "math/merge.h"
#include "policy/rule/rule.h"
#include "proto/desk.h"

_Static_assert((int)RBT_WIRE_RULE_MAX == (int)RBT_RULE_TEXT_MAX, "a rule's text travels whole");

enum { WIDTH_MAX = 1 << 30 };

/* What is wrong with the numbers of a table on their own, or NULL. */
static const char *find_wrong_number(const rbt_host *host, const struct rbt_wire_table *told)
{
    const bool is_dense = told->layout == RBT_DENSE;
    if (told->type > RBT_I64 || told->layout > RBT_SPARSE || told->merge > RBT_MERGE_OR) {
        return "its type, layout or merge is unknown";
    }
    if (told->init > RBT_INIT_NORMAL || told->partial > RBT_PARTIAL_SHOW) {
        return "its init or partial is unknown";
    }
    if (told->table >= host->options.table_max || told->table > host->table_count) {
        return "its number is not the next free one"; /* the shard knows no gaps */
    }
    if (told->width == 0 || (is_dense && told->width > WIDTH_MAX)) {
        return "its width must be from 1 to 2^30";
    }
    if (told->state_width > WIDTH_MAX) {
        return "its state_width must be at most 2^30";
    }
    if (told->staleness < RBT_STALENESS_ANY) {
        return "its staleness is negative";
    }
    return told->rows_expected >= UINT32_MAX ? "its rows_expected must be below 2^32 - 1" : NULL;
}

/* What is wrong with the numbers of a table together, or NULL. */
static const char *find_conflict(const struct rbt_wire_table *told)
{
    const bool is_dense = told->layout == RBT_DENSE;
    const bool adds_floats = is_dense && told->type == RBT_F32 && told->merge == RBT_MERGE_ADD;
    if (!is_dense && (told->init != RBT_INIT_ZERO || told->state_width != 0)) {
        return "sparse rows have neither initial values nor a state";
    }
    if (!is_dense && told->merge != RBT_MERGE_ADD && told->merge != RBT_MERGE_OR) {
        return "sparse rows need merge \"add\" or \"or\"";
    }
    if (told->merge == RBT_MERGE_OR && told->type != RBT_I32 && told->type != RBT_I64) {
        return "merge \"or\" needs an integer type";
    }
    if (told->rule[0] != '\0' && !adds_floats) {
        return "a rule needs dense rows of f32 with merge \"add\"";
    }
    if (told->priority[0] != '\0' && (!adds_floats || told->is_synchronised)) {
        return "a priority needs dense rows of f32 with merge \"add\", not synchronised";
    }
    return told->is_synchronised && told->rule[0] == '\0' ? "is_synchronised needs a rule" : NULL;
}

static rbt_status check_table(const rbt_host *host, const struct rbt_wire_table *told)
{
    const char *wrong = find_wrong_number(host, told);
    wrong = wrong != NULL ? wrong : find_conflict(told);
    return wrong == NULL ? RBT_OK : rbt_fail(RBT_E_PROTOCOL, "table \"%s\": %s", told->name, wrong);
}

static bool is_same(const struct rbt_wire_table *a, const struct rbt_wire_table *b)
{
    return strcmp(a->name, b->name) == 0 && a->type == b->type && a->layout == b->layout &&
           a->width == b->width && a->state_width == b->state_width && a->merge == b->merge &&
           a->init == b->init && a->partial == b->partial && a->a == b->a && a->b == b->b &&
           a->seed == b->seed && a->is_synchronised == b->is_synchronised &&
           strcmp(a->rule, b->rule) == 0 && strcmp(a->priority, b->priority) == 0 &&
           strcmp(a->filter, b->filter) == 0;
}

/* Steps the shard with a table. A rule or a priority may not be here, or a rule not want these
 * parameters: it matters at which server. */
static rbt_status step_table(rbt_host *host, uint32_t number, struct rbt_shard_table *schema)
{
    struct rbt_desk_table *table = host->tables[number];
    const char *priority = table->as_told.priority;
    rbt_status st = rbt_desk_open_filters(host, table);
    if (st != RBT_OK) {
        return st;
    }
    if (schema->rule[0] != '\0') {
        st = rbt_rule_find(schema->rule, &schema->code);
    }
    if (st == RBT_OK && priority[0] != '\0') {
        st = rbt_priority_find(priority, &table->priority);
        schema->priority = &table->priority;
    }
    if (st == RBT_OK) {
        const struct rbt_shard_event event = {
            .kind = RBT_SHARD_TABLE, .table = number, .schema = schema, .name = schema->name};
        struct rbt_shard_outbox out;
        const size_t ready = rbt_desk_step(host, &event, &out);
        RBT_ASSERT(ready == 0); /* a table lets nobody go on */
        st = out.status;
    }
    return st != RBT_OK && (schema->rule[0] != '\0' || priority[0] != '\0')
               ? rbt_fail_in(st, "%s", host->options.name)
               : st;
}

/* Everybody says the same; the first is believed. */
static void take_budget(rbt_host *host, uint64_t bandwidth)
{
    const uint32_t shards = host->options.shards_here == 0 ? 1 : host->options.shards_here;
    if (host->comm.options.rate == 0 && bandwidth / shards > 0) {
        const struct rbt_comm_options budget = {.rate = bandwidth / shards};
        rbt_comm_init(&host->comm, &budget, host->now);
    }
}

/* What the shard is told of an open table, or of one that is about to be. */
static struct rbt_shard_table schema_of(const rbt_host *host, uint32_t number)
{
    const struct rbt_wire_table *told = &host->tables[number]->as_told; /* where texts stay */
    return (struct rbt_shard_table){
        .type = (rbt_type)told->type,
        .layout = (rbt_layout)told->layout,
        .width = told->width,
        .state_width = told->state_width,
        .merge = (rbt_merge)told->merge,
        .init = (rbt_init)told->init,
        .a = told->a,
        .b = told->b,
        .seed = told->seed,
        .partial = (rbt_partial)told->partial,
        .staleness = rbt_bounds_find(&host->bounds, number, told->follows_job, told->staleness),
        .follows_job = told->follows_job,
        .rows_expected = told->rows_expected,
        .rule = told->rule,
        .is_synchronised = told->is_synchronised,
        .name = told->name,
        .filter = told->filter};
}

/* Opens a table. How stale it may be counts until the coordinator has said something else. */
static rbt_status set_table(rbt_host *host, const struct rbt_wire_table *told)
{
    struct rbt_desk_table *table = host->tables[told->table];
    if (table == NULL) {
        table = rbt_calloc(1, sizeof *table);
        if (table == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for table \"%s\"", told->name);
        }
        host->tables[told->table] = table;
    }
    if (table->is_open && !is_same(&table->as_told, told)) {
        return rbt_fail(
            RBT_E_INVALID,
            "table %u is \"%s\" in one process and \"%s\" in another, or its options differ; all "
            "processes must open their tables in one order with equal options",
            told->table, table->as_told.name, told->name);
    }
    table->as_told = *told;
    struct rbt_shard_table schema = schema_of(host, told->table);
    const rbt_status st = step_table(host, told->table, &schema);
    if (st != RBT_OK) {
        return st;
    }
    take_budget(host, told->priority[0] != '\0' ? told->bandwidth : 0);
    table->is_open = true;
    table->is_sparse = told->layout == RBT_SPARSE;
    table->has_rule = told->rule[0] != '\0';
    table->is_synchronised = told->is_synchronised;
    host->has_synchronised = host->has_synchronised || told->is_synchronised;
    table->element_size = (uint32_t)rbt_merge_size(schema.type);
    table->width = told->width;
    host->table_count = told->table >= host->table_count ? told->table + 1 : host->table_count;
    return RBT_OK;
}

/* The table of that name, for somebody who only reads. */
static rbt_status find_table(const rbt_host *host, const char *name, struct rbt_wire_table *found)
{
    for (uint32_t i = 0; i < host->table_count; i++) {
        if (host->tables[i]->is_open && strcmp(host->tables[i]->as_told.name, name) == 0) {
            *found = host->tables[i]->as_told;
            return RBT_OK;
        }
    }
    return rbt_fail(RBT_E_NOTFOUND, "cannot read table \"%s\": the job has not opened it", name);
}

rbt_status rbt_desk_receive_table(rbt_host *host, struct rbt_guest *guest,
                                  const struct rbt_frame *frame, struct rbt_wire_cursor *body)
{
    struct rbt_wire_done done = {0};
    struct rbt_wire_table told;
    rbt_status st = rbt_wire_get_table(body, &told);
    st = st != RBT_OK ? st : rbt_wire_get_end(body);
    if (st == RBT_OK && guest->is_reader != told.must_exist) {
        st = rbt_fail(RBT_E_PROTOCOL, "a reader cannot open a table");
    }
    st = st != RBT_OK || told.must_exist ? st : check_table(host, &told);
    if (st != RBT_OK) {
        return st;
    }
    done.table = told;
    done.status =
        told.must_exist ? find_table(host, told.name, &done.table) : set_table(host, &told);
    done.news = rbt_host_news(host, guest->worker);
    if (done.status != RBT_OK) {
        snprintf(done.text, sizeof done.text, "%s", rbt_last_error());
    }
    return rbt_desk_send_done(host, guest, frame->id, &done);
}

/* The staleness of the tables that the change concerns. */
static rbt_status change(rbt_host *host, const struct rbt_bound *bound)
{
    rbt_status st = rbt_bounds_note(&host->bounds, bound);
    for (uint32_t i = 0; st == RBT_OK && i < host->table_count; i++) {
        const struct rbt_desk_table *table = host->tables[i];
        const bool is_meant =
            bound->table == i || (bound->table == RBT_CONTROL_ALL && table->as_told.follows_job);
        if (table->is_open && is_meant) {
            struct rbt_shard_table schema = schema_of(host, i);
            RBT_ASSERT(schema.staleness == bound->staleness);
            st = step_table(host, i, &schema);
        }
    }
    return st;
}

void rbt_host_bound(rbt_host *host, const struct rbt_bound *bound)
{
    if (host->failure != RBT_OK || bound->number <= host->bounds.last || RBT_MUTANT(DEAF_SHARD)) {
        return; /* it is told again */
    }
    const rbt_status st = change(host, bound);
    if (st != RBT_OK) {
        host->failure = st;
        rbt_error_save(&host->why);
    }
}
