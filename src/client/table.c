/* client/table.c - opening tables: names, defaults, and what cannot be combined. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/sized.h"
#include "client/client.h"
#include "client/filtering.h"
#include "client/staleness.h"
#include "policy/filter/filter.h"
#include "policy/rule/rule.h"
#include "wire/control.h"

static const char filter_none[] = "none"; /* stands alone */

enum { AUTO_START = 2 }; /* the staleness that "auto" starts from */

rbt_status rbt_consistency_parse(const char *text, struct rbt_consistency *out)
{
    static const char expected[] =
        "bsp, ssp:S, essp:S, asp, auto or auto:S, where S is a number of clocks";
    if (strcmp(text, "bsp") == 0) {
        *out = (struct rbt_consistency){.staleness = 0};
        return RBT_OK;
    }
    if (strcmp(text, "asp") == 0) {
        *out = (struct rbt_consistency){.staleness = RBT_STALENESS_ANY, .is_eager = true};
        return RBT_OK;
    }
    if (strcmp(text, "auto") == 0) {
        *out =
            (struct rbt_consistency){.staleness = AUTO_START, .is_eager = true, .is_tuned = true};
        return RBT_OK;
    }
    const bool is_tuned = strncmp(text, "auto:", 5) == 0;
    const bool is_eager = is_tuned || text[0] == 'e';
    const char *rest = text + is_eager;
    if ((strncmp(rest, "ssp:", 4) != 0 && !is_tuned) || rest[4] < '0' || rest[4] > '9') {
        return rbt_fail(RBT_E_INVALID, "unrecognised consistency \"%s\"; expected %s", text,
                        expected);
    }
    char *end = NULL;
    errno = 0;
    const long long staleness = strtoll(rest + 4, &end, 10);
    if (errno != 0 || *end != '\0' || staleness > RBT_STALENESS_MAX) {
        return rbt_fail(RBT_E_INVALID, "the staleness in \"%s\" must be from 0 to %d", text,
                        RBT_STALENESS_MAX);
    }
    *out = (struct rbt_consistency){
        .staleness = staleness, .is_eager = is_eager, .is_tuned = is_tuned};
    return RBT_OK;
}

/* What only workers know of a table, and cannot do, in the order in which a user would notice. */
static rbt_status check_options(const char *name, const struct rbt_table_options *o)
{
    const bool has_rule = o->rule != NULL;
    const bool is_real = o->type == RBT_F32 || o->type == RBT_F64;
    const char *wrong = NULL;
    if (o->overlay > RBT_OVERLAY_REPLICA || o->cache > RBT_CACHE_NONE ||
        o->placement > RBT_PLACE_ROUND_ROBIN) {
        wrong = "overlay, cache or placement is not in its list";
    } else if (o->rows_expected > RBT_TABLE_ROWS_MAX) {
        wrong = "rows_expected must be at most 2^40";
    } else if (!isfinite(o->experiments->tiny) || o->experiments->tiny < 0) {
        wrong = "tiny must be a number that is not negative";
    } else if (o->experiments->tiny > 0 && (!is_real || o->merge != RBT_MERGE_ADD)) {
        wrong = "tiny needs real numbers that are added";
    } else if (o->experiments->slack > RBT_STALENESS_MAX) {
        wrong = "slack must be at most 1000000 clocks";
    } else if (has_rule && o->overlay == RBT_OVERLAY_PROCESS) {
        wrong = "only the shards know what a rule makes of an update: overlay must be "
                "RBT_OVERLAY_NONE or RBT_OVERLAY_REPLICA";
    } else if (has_rule && (o->cache == RBT_CACHE_PROCESS || o->cache == RBT_CACHE_BOTH)) {
        wrong = "with a rule, updates name a read of their own worker: rows cannot be cached for "
                "the process";
    }
    return wrong == NULL ? RBT_OK : rbt_fail(RBT_E_INVALID, "table \"%s\": %s", name, wrong);
}

/* What the caller has asked for, as shards will be told, but for what the job adds to it. */
static struct rbt_spec take_spec(const char *name, const struct rbt_table_options *o)
{
    struct rbt_spec spec = {.type = o->type,
                            .layout = o->layout,
                            .width = o->width,
                            .state_width = o->state_width,
                            .merge = o->merge,
                            .init = o->init,
                            .partial = o->partial,
                            .a = o->init_low,
                            .b = o->init_high,
                            .seed = o->seed,
                            .is_synchronised = o->experiments->is_synchronised};
    snprintf(spec.name, sizeof spec.name, "%s", name);
    if (o->rule != NULL) {
        snprintf(spec.rule, sizeof spec.rule, "%s", o->rule);
    }
    if (o->filter != NULL) {
        snprintf(spec.filter, sizeof spec.filter, "%s", o->filter);
    }
    return spec;
}

/* The caller's options with defaults filled in, their experiments in a struct of their own, which
 * is there even if the caller has none. */
static rbt_status complete_options(const char *name, const struct rbt_table_options *given,
                                   struct rbt_table_options *options,
                                   struct rbt_table_experiments *experiments)
{
    *options = (struct rbt_table_options){.struct_size = sizeof *options};
    *experiments = (struct rbt_table_experiments){.struct_size = sizeof *experiments};
    if (given != NULL) {
        const rbt_status taken = rbt_sized_take(options, given, sizeof *options);
        if (taken != RBT_OK) {
            return rbt_fail_in(taken, "table \"%s\"", name);
        }
    }
    if (options->experiments != NULL) {
        const rbt_status taken =
            rbt_sized_take(experiments, options->experiments, sizeof *experiments);
        if (taken != RBT_OK) {
            return rbt_fail_in(taken, "the experiments of table \"%s\"", name);
        }
    }
    options->experiments = experiments;
    options->width = options->width == 0 ? 1 : options->width;
    if (options->rule != NULL && options->rule[0] == '\0') {
        options->rule = NULL;
    }
    if (options->filter != NULL && options->filter[0] == '\0') {
        options->filter = NULL;
    }
    if (options->rule != NULL && options->overlay == RBT_OVERLAY_OWN) {
        options->overlay = RBT_OVERLAY_NONE; /* what the default then is */
    }
    const struct rbt_spec spec = take_spec(name, options); /* of texts it matters that they are */
    rbt_status st = rbt_spec_check(&spec, RBT_E_INVALID);
    st = st != RBT_OK ? st : check_options(name, options);
    if (options->overlay == RBT_OVERLAY_PROCESS) {
        options->cache = RBT_CACHE_PROCESS; /* where the process's updates are seen */
    }
    return st;
}

/* "weights" becomes "main/weights". */
static rbt_status full_name(const rbt_job *job, const char *name, char *full)
{
    const bool has_space = strchr(name, '/') != NULL;
    const int length = has_space ? snprintf(full, RBT_NAME_MAX, "%s", name)
                                 : snprintf(full, RBT_NAME_MAX, "%s/%s", job->name_space, name);
    if (name[0] == '\0' || length < 0 || length >= RBT_NAME_MAX) {
        return rbt_fail(RBT_E_INVALID, "a table's name has 1 to %d characters with its namespace",
                        RBT_NAME_MAX - 1);
    }
    const size_t space = strlen(job->name_space);
    if (job->is_in_cluster && (strncmp(full, job->name_space, space) != 0 || full[space] != '/')) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "table \"%s\" is in another namespace than its job, \"%s\"",
                     full, job->name_space);
        return rbt_fail_hint(st,
                             "Join the cluster once more, in that namespace and as a reader, to "
                             "read what is trained there.");
    }
    return RBT_OK;
}

static rbt_status tell_shards(rbt_table *table, int64_t staleness)
{
    table->spec.staleness = staleness;
    rbt_driver *driver = table->job->driver;
    for (uint32_t shard = 0; shard < table->job->shard_count; shard++) {
        struct rbt_driver_call call = {
            .shard = shard,
            .event = {.kind = RBT_SHARD_TABLE, .table = table->spec.number, .spec = &table->spec}};
        driver->ops->step(driver, &call, 1);
        if (call.reply.status != RBT_OK) {
            return call.reply.status;
        }
    }
    return RBT_OK;
}

void rbt_table_free(rbt_table *table)
{
    if (table == NULL) {
        return;
    }
    for (uint32_t i = 0; table->processes != NULL && i < table->job->process_count; i++) {
        rbt_rowcache_deinit(&table->processes[i]);
    }
    rbt_free(table->processes);
    rbt_free(table->staleness);
    rbt_placement_destroy(table->placement);
    (void)pthread_mutex_destroy(&table->mutex); /* nobody holds it: the job is closing */
    rbt_free(table);
}

rbt_status rbt_table_reset(rbt_table *table)
{
    const struct rbt_rowcache_options process = {.kind = table->kind,
                                                 .width = table->spec.width,
                                                 .is_sparse = rbt_spec_is_sparse(&table->spec),
                                                 .worker_count = table->job->driver->process_size};
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < table->job->process_count; i++) {
        rbt_rowcache_deinit(&table->processes[i]);
        st = rbt_rowcache_init(&table->processes[i], &process);
    }
    return st;
}

/* Finds the table's rule and tries its parameters, so that shards need not refuse them. */
static rbt_status take_rule(rbt_table *table)
{
    struct rbt_spec *spec = &table->spec;
    const struct rbt_rule_table wanted = {
        .name = spec->name, .width = spec->width, .worker_count = table->job->worker_count};
    struct rbt_rule_instance instance = {0};
    rbt_status st = rbt_rule_find(spec->rule, &spec->code);
    st = st != RBT_OK ? st : rbt_rule_create(spec->code, spec->rule, &wanted, &instance);
    if (st != RBT_OK) {
        return rbt_fail_in(st, "table \"%s\"", spec->name);
    }
    table->input = instance.needs.input;
    const rbt_rule_parts parts = instance.needs.parts;
    rbt_rule_destroy(&instance);
    if (spec->is_synchronised && parts != RBT_PARTS_SHOWN) {
        return rbt_fail(RBT_E_INVALID,
                        "table \"%s\": rule \"%s\" has no versions that shards could be "
                        "synchronised by",
                        spec->name, spec->code->name);
    }
    if (table->input == RBT_RULE_GRADIENTS && table->options.overlay == RBT_OVERLAY_REPLICA) {
        return rbt_fail(RBT_E_INVALID,
                        "table \"%s\": rule \"%s\" takes gradients, which cannot be added to a "
                        "replica",
                        spec->name, spec->code->name);
    }
    return RBT_OK;
}

/* Tries the table's filters, so that neither workers nor shards need refuse them. */
static rbt_status take_filter(rbt_table *table)
{
    table->is_unfiltered = strcmp(table->spec.filter, filter_none) == 0;
    table->has_filter = table->spec.filter[0] != '\0' && !table->is_unfiltered;
    if (!table->has_filter) {
        return RBT_OK;
    }
    struct rbt_chain_traits pull = {0};
    const struct rbt_chain_options chain = rbt_table_chain(table, RBT_FILTER_PULL);
    const rbt_status st = rbt_chain_check(&chain, &pull); /* of both directions */
    table->has_copies = pull.has_select;
    return st != RBT_OK ? rbt_fail_in(st, "table \"%s\"", table->spec.name) : RBT_OK;
}

/* Whether rows of the table travel early, and which first. They may then be seen early, unless that
 * is what the consistency excludes. */
static rbt_status manage(rbt_table *table, int64_t staleness)
{
    struct rbt_spec *spec = &table->spec;
    const rbt_job *job = table->job;
    table->is_managed = job->bandwidth > 0 && spec->layout == RBT_DENSE && spec->type == RBT_F32 &&
                        spec->merge == RBT_MERGE_ADD && !spec->is_synchronised &&
                        table->options.overlay != RBT_OVERLAY_PROCESS; /* others' updates are not
                                                                          in a row */
    if (!table->is_managed) {
        return RBT_OK;
    }
    if (staleness != 0 && !job->consistency.is_tuned) {
        spec->partial = RBT_PARTIAL_SHOW;
    }
    snprintf(spec->priority, sizeof spec->priority, "%s", job->priority);
    spec->bandwidth = job->bandwidth;
    spec->policy = &table->priority;
    return rbt_priority_find(job->priority, &table->priority);
}

/* The staleness that it is opened with, unless others have changed it before it was open here. */
static void take_staleness(rbt_table *table, int64_t staleness)
{
    rbt_driver *driver = table->job->driver;
    const struct rbt_driver_bound wanted = {table->spec.number, table->spec.follows_job, staleness};
    for (uint32_t i = 0; i < driver->place_count; i++) {
        const int64_t bound =
            driver->ops->bound == NULL ? staleness : driver->ops->bound(driver, i, &wanted);
        atomic_store_explicit(&table->staleness[i], bound, memory_order_relaxed);
    }
}

/* Of all shards together; shares of hashed keys differ a little: some more room, or half of the
 * shards would grow. */
static uint64_t share_rows(const rbt_job *job, uint64_t rows_expected)
{
    const uint64_t share = rows_expected / job->shard_count;
    return share + (job->shard_count == 1 || rows_expected == 0 ? 0 : share / 64 + 1);
}

/* What the table's spec says besides what the caller has asked for, and what follows from it. */
static rbt_status complete_table(rbt_table *table, const struct rbt_table_options *options,
                                 const struct rbt_consistency *consistency)
{
    const rbt_job *job = table->job;
    struct rbt_spec *spec = &table->spec;
    spec->number = job->table_count;
    spec->rows_expected = share_rows(job, options->rows_expected);
    /* A table that shows partial clocks cannot go down to 0 with the others. */
    spec->follows_job = options->consistency == NULL &&
                        !(job->consistency.is_tuned && options->partial == RBT_PARTIAL_SHOW);
    table->options = *options;
    table->options.consistency = NULL;
    table->options.rule = NULL;
    table->options.filter = NULL;
    table->options.experiments = NULL;
    table->experiments = *options->experiments;
    table->kind = rbt_spec_kind(spec);
    table->initial = rbt_spec_initial(spec);
    table->element_size = rbt_spec_element_size(spec);
    table->row_size = rbt_spec_row_size(spec);
    table->is_eager = consistency->is_eager;
    table->staleness = rbt_calloc(job->driver->place_count, sizeof *table->staleness);
    table->processes = rbt_calloc(job->process_count, sizeof *table->processes);
    rbt_status st = table->processes == NULL || table->staleness == NULL
                        ? rbt_fail(RBT_E_NOMEM, "could not allocate table \"%s\"", spec->name)
                        : rbt_table_reset(table);
    st = st != RBT_OK || !rbt_spec_has_rule(spec) ? st : take_rule(table);
    st = st != RBT_OK ? st : take_filter(table);
    st = st != RBT_OK ? st : manage(table, consistency->staleness);
    st = st != RBT_OK ? st : rbt_spec_check(spec, RBT_E_INVALID);
    const struct rbt_placement_options placement = {
        .shard_count = job->shard_count, .kind = options->placement, .keys_max = options->keys_max};
    return st != RBT_OK ? st : rbt_placement_create(&placement, &table->placement);
}

static rbt_status make_table(rbt_job *job, const struct rbt_spec *spec,
                             const struct rbt_table_options *options, rbt_table **table)
{
    struct rbt_consistency consistency = job->consistency;
    rbt_status st = options->consistency == NULL
                        ? RBT_OK
                        : rbt_consistency_parse(options->consistency, &consistency);
    if (st == RBT_OK && options->consistency != NULL && consistency.is_tuned) {
        st = rbt_fail(RBT_E_INVALID, "table \"%s\": \"auto\" is for jobs, not for single tables",
                      spec->name);
    }
    if (st == RBT_OK && options->partial == RBT_PARTIAL_SHOW && consistency.staleness == 0) {
        st = rbt_fail(RBT_E_INVALID,
                      "table \"%s\": with staleness 0 partial clocks cannot be shown", spec->name);
    }
    rbt_table *t = st != RBT_OK ? NULL : rbt_calloc(1, sizeof *t);
    if (t == NULL) {
        return st != RBT_OK ? st
                            : rbt_fail(RBT_E_NOMEM, "could not allocate table \"%s\"", spec->name);
    }
    const int error = pthread_mutex_init(&t->mutex, NULL);
    RBT_ASSERT(error == 0);
    t->job = job;
    t->spec = *spec;
    st = complete_table(t, options, &consistency);
    st = st != RBT_OK ? st : tell_shards(t, consistency.staleness);
    if (st != RBT_OK) {
        rbt_table_free(t);
        return st;
    }
    take_staleness(t, consistency.staleness);
    *table = t;
    return RBT_OK;
}

/* Whether the table has this consistency; not asking for one is always right. */
static bool has_consistency(const rbt_table *table, const char *text)
{
    struct rbt_consistency wanted;
    return text == NULL ||
           (rbt_consistency_parse(text, &wanted) == RBT_OK && wanted.is_eager == table->is_eager &&
            wanted.staleness == rbt_table_staleness(table));
}

/* Whether somebody who asks for `wanted` and `options` may have the table. No filters and "none"
 * are one thing here, and what the job has added does not count. */
static bool is_same(const rbt_table *table, const struct rbt_spec *wanted,
                    const struct rbt_table_options *options)
{
    const struct rbt_table_options *present = &table->options;
    struct rbt_spec asked[2] = {*wanted, table->spec};
    asked[1].partial = present->partial;
    asked[1].priority[0] = '\0';
    for (int i = 0; i < 2; i++) {
        if (strcmp(asked[i].filter, filter_none) == 0) {
            asked[i].filter[0] = '\0';
        }
    }
    return rbt_spec_is_same(&asked[0], &asked[1]) && options->overlay == present->overlay &&
           options->cache == present->cache && options->cache_rows == present->cache_rows &&
           options->placement == present->placement && options->keys_max == present->keys_max &&
           options->experiments->tiny == table->experiments.tiny &&
           options->experiments->slack == table->experiments.slack &&
           has_consistency(table, options->consistency);
}

static rbt_status find_or_make(rbt_job *job, const struct rbt_spec *spec,
                               const struct rbt_table_options *options, rbt_table **table)
{
    for (uint32_t i = 0; i < job->table_count; i++) {
        if (strcmp(job->tables[i]->spec.name, spec->name) != 0) {
            continue;
        }
        if (!is_same(job->tables[i], spec, options)) {
            return rbt_fail(RBT_E_INVALID, "table \"%s\" is there already, with other options",
                            spec->name);
        }
        *table = job->tables[i];
        return RBT_OK;
    }
    if (job->table_count == RBT_JOB_TABLES_MAX) {
        return rbt_fail(RBT_E_INVALID, "a job has at most %d tables", RBT_JOB_TABLES_MAX);
    }
    const rbt_status st = make_table(job, spec, options, table);
    if (st == RBT_OK) {
        job->tables[job->table_count++] = *table;
    }
    return st;
}

static void lock(rbt_job *job)
{
    if (job->driver->ops->lock != NULL) {
        job->driver->ops->lock(job->driver);
        return;
    }
    const int error = pthread_mutex_lock(&job->mutex);
    RBT_ASSERT(error == 0);
}

static void unlock(rbt_job *job)
{
    if (job->driver->ops->unlock != NULL) {
        job->driver->ops->unlock(job->driver);
        return;
    }
    const int error = pthread_mutex_unlock(&job->mutex);
    RBT_ASSERT(error == 0);
}

/* The table's filters with absolute paths. What is tiny waits first, as one of them. */
static rbt_status resolve_filter(const struct rbt_table_options *options, char *filter)
{
    const double tiny = options->experiments->tiny;
    const bool has_tiny = tiny > 0 && options->type == RBT_F32 && options->layout == RBT_DENSE &&
                          options->merge == RBT_MERGE_ADD;
    const int used = has_tiny ? snprintf(filter, RBT_TEXT_MAX, "push.tiny:%.9g,", tiny) : 0;
    char resolved[RBT_TEXT_MAX];
    const rbt_status st = rbt_policy_resolve(&rbt_policy_filters, options->filter, resolved);
    if (st != RBT_OK) {
        return st;
    }
    const size_t size = strlen(resolved) + 1;
    if ((size_t)used + size > RBT_TEXT_MAX) {
        return rbt_fail(RBT_E_INVALID, "a list of filters has at most %d bytes", RBT_TEXT_MAX - 1);
    }
    memcpy(filter + used, resolved, size);
    return RBT_OK;
}

rbt_status rbt_table_open(rbt_job *job, const char *name, const struct rbt_table_options *options,
                          rbt_table **table)
{
    char full[RBT_NAME_MAX];
    char rule[RBT_TEXT_MAX];
    char filter[RBT_TEXT_MAX];
    struct rbt_table_options complete;
    struct rbt_table_experiments experiments;
    rbt_status st = full_name(job, name, full);
    st = st != RBT_OK ? st : complete_options(full, options, &complete, &experiments);
    if (st == RBT_OK && complete.rule != NULL) {
        st = rbt_policy_resolve(&rbt_policy_rules, complete.rule, rule);
        complete.rule = rule;
    }
    if (st == RBT_OK && complete.filter != NULL && strcmp(complete.filter, filter_none) != 0) {
        st = resolve_filter(&complete, filter);
        complete.filter = filter;
    }
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_spec spec = take_spec(full, &complete);
    lock(job);
    st = find_or_make(job, &spec, &complete, table);
    unlock(job);
    return st;
}

const char *rbt_table_name(const rbt_table *table)
{
    return table->spec.name;
}

uint32_t rbt_table_width(const rbt_table *table)
{
    return table->spec.width;
}

rbt_type rbt_table_type(const rbt_table *table)
{
    return table->spec.type;
}

int64_t rbt_table_staleness(const rbt_table *table)
{
    return atomic_load_explicit(&table->staleness[table->job->driver->place], memory_order_relaxed);
}

/* Whether the table may have this bound. */
static rbt_status check_bound(const rbt_table *table, int64_t staleness)
{
    return staleness == 0 && table->spec.partial == RBT_PARTIAL_SHOW
               ? rbt_fail(RBT_E_INVALID,
                          "table \"%s\": with staleness 0 partial clocks cannot be shown",
                          table->spec.name)
               : RBT_OK;
}

/* Changes the table's bound, where there are no other processes; the job's mutex is held. */
static rbt_status change_staleness(rbt_table *table, int64_t staleness)
{
    rbt_status st = check_bound(table, staleness);
    if (st != RBT_OK) {
        return st;
    }
    /* A worker that knows a larger bound relies on what the shards show: when the bound grows they
     * come first, when it shrinks the workers do. */
    const int64_t old = rbt_table_staleness(table);
    const bool grows =
        staleness == RBT_STALENESS_ANY || (old != RBT_STALENESS_ANY && staleness > old);
    if (!grows) {
        atomic_store_explicit(&table->staleness[0], staleness, memory_order_relaxed);
    }
    st = tell_shards(table, staleness);
    if (st == RBT_OK) {
        atomic_store_explicit(&table->staleness[0], staleness, memory_order_relaxed);
    }
    return st;
}

rbt_status rbt_table_set_staleness(rbt_table *table, int64_t staleness)
{
    rbt_driver *driver = table->job->driver;
    rbt_status st = rbt_worker_check_staleness(staleness);
    if (st == RBT_OK && driver->ops->tell_staleness != NULL) {
        st = check_bound(table, staleness);
        return st != RBT_OK
                   ? st
                   : driver->ops->tell_staleness(driver, table->spec.number, staleness, true);
    }
    if (st == RBT_OK) {
        lock(table->job);
        st = change_staleness(table, staleness);
        unlock(table->job);
    }
    return st;
}

static void set_job_staleness(rbt_job *job, uint32_t place, int64_t staleness)
{
    if (place == 0) {
        job->consistency.staleness = staleness;
    }
    atomic_store_explicit(&job->staleness[place], staleness, memory_order_relaxed);
}

/* The member of this process takes the job's mutex when the new bound is there: it is not held
 * while that is waited for. */
static rbt_status set_staleness(rbt_job *job, int64_t staleness, bool is_awaited)
{
    rbt_driver *driver = job->driver;
    const bool is_alone = driver->ops->tell_staleness == NULL;
    rbt_status st = rbt_worker_check_staleness(staleness);
    if (st != RBT_OK) {
        return st;
    }
    lock(job); /* a table that is opened meanwhile has the old bound and is changed, or the new */
    for (uint32_t i = 0; st == RBT_OK && i < job->table_count; i++) {
        if (job->tables[i]->spec.follows_job) {
            st = is_alone ? change_staleness(job->tables[i], staleness)
                          : check_bound(job->tables[i], staleness);
        }
    }
    if (st == RBT_OK && is_alone) {
        set_job_staleness(job, 0, staleness);
    }
    unlock(job);
    return st != RBT_OK || is_alone
               ? st
               : driver->ops->tell_staleness(driver, RBT_CONTROL_ALL, staleness, is_awaited);
}

rbt_status rbt_job_set_staleness(rbt_job *job, int64_t staleness)
{
    return set_staleness(job, staleness, true);
}

rbt_status rbt_job_set_staleness_soon(rbt_job *job, int64_t staleness)
{
    return set_staleness(job, staleness, false);
}

void rbt_job_follow_staleness(rbt_job *job, uint32_t place, uint32_t table, int64_t staleness)
{
    const bool is_job = table == RBT_CONTROL_ALL;
    if (rbt_worker_check_staleness(staleness) != RBT_OK) {
        return; /* another process cannot want that */
    }
    if (job->staleness == NULL) {
        return; /* the job is being opened, and will ask */
    }
    for (uint32_t i = 0; i < job->table_count; i++) {
        if (is_job ? job->tables[i]->spec.follows_job : job->tables[i]->spec.number == table) {
            atomic_store_explicit(&job->tables[i]->staleness[place], staleness,
                                  memory_order_relaxed);
        }
    }
    if (is_job) {
        set_job_staleness(job, place, staleness);
    }
}
