/* client/table.c - opening tables: names, defaults, and what cannot be combined. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
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
    if (errno != 0 || *end != '\0' || staleness > RBT_CLIENT_STALENESS_MAX) {
        return rbt_fail(RBT_E_INVALID, "the staleness in \"%s\" must be from 0 to %d", text,
                        RBT_CLIENT_STALENESS_MAX);
    }
    *out = (struct rbt_consistency){
        .staleness = staleness, .is_eager = is_eager, .is_tuned = is_tuned};
    return RBT_OK;
}

/* What a rule cannot be combined with. */
static const char *check_ruled(const struct rbt_table_options *o)
{
    if (o->layout != RBT_DENSE || o->type != RBT_F32 || o->merge != RBT_MERGE_ADD) {
        return "a rule works on dense rows of RBT_F32 that add";
    }
    if (o->overlay == RBT_OVERLAY_PROCESS) {
        return "only the shards know what a rule makes of an update: the overlay must be "
               "RBT_OVERLAY_NONE or RBT_OVERLAY_REPLICA";
    }
    if (o->cache == RBT_CACHE_PROCESS || o->cache == RBT_CACHE_BOTH) {
        return "with a rule, updates name a read of their own worker: rows cannot be cached for "
               "the process";
    }
    return NULL;
}

/* What cannot be combined, in the order in which a user would notice. */
static rbt_status check_options(const char *name, const struct rbt_table_options *o)
{
    const bool is_real = o->type == RBT_F32 || o->type == RBT_F64;
    const char *wrong = NULL;
    if (o->type > RBT_I64 || o->layout > RBT_SPARSE || o->merge > RBT_MERGE_OR ||
        o->init > RBT_INIT_NORMAL || o->overlay > RBT_OVERLAY_REPLICA ||
        o->cache > RBT_CACHE_NONE || o->partial > RBT_PARTIAL_SHOW ||
        o->placement > RBT_PLACE_ROUND_ROBIN) {
        wrong = "an option has a value that is not in its list";
    } else if (o->merge == RBT_MERGE_OR && is_real) {
        wrong = "a bitwise or needs integers";
    } else if (o->layout == RBT_SPARSE && o->init != RBT_INIT_ZERO) {
        wrong = "sparse rows start empty";
    } else if (o->layout == RBT_SPARSE && o->merge != RBT_MERGE_ADD && o->merge != RBT_MERGE_OR) {
        wrong = "sparse rows can be added to or or-ed: what is not there counts as zero";
    } else if (!isfinite(o->init_low) || !isfinite(o->init_high)) {
        wrong = "the parameters of the initial values must be finite";
    } else if (o->rows_expected > RBT_CLIENT_ROWS_MAX) {
        wrong = "rows_expected must be at most 2^40";
    } else if (o->layout == RBT_SPARSE && o->state_width > 0) {
        wrong = "sparse rows have no state";
    } else if (o->width > UINT32_C(1) << 30 && o->layout == RBT_DENSE) {
        wrong = "a dense row has at most 2^30 elements";
    } else if (!isfinite(o->experiments->tiny) || o->experiments->tiny < 0) {
        wrong = "an update is tiny below a number that is not negative";
    } else if (o->experiments->tiny > 0 && (!is_real || o->merge != RBT_MERGE_ADD)) {
        wrong = "updates can be tiny where real numbers are added";
    } else if (o->experiments->slack > RBT_CLIENT_STALENESS_MAX) {
        wrong = "slack must be at most 1000000 clocks";
    } else if (o->experiments->is_synchronised && o->rule == NULL) {
        wrong = "shards can be synchronised where a rule has versions, as \"dynsgd\" does";
    } else if (o->rule != NULL) {
        wrong = check_ruled(o);
    }
    return wrong == NULL ? RBT_OK : rbt_fail(RBT_E_INVALID, "table \"%s\": %s", name, wrong);
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
    const rbt_status st = check_options(name, options);
    if (options->overlay == RBT_OVERLAY_PROCESS) {
        options->cache = RBT_CACHE_PROCESS; /* where the process's updates are seen */
    }
    return st;
}

/* "weights" becomes "main/weights". */
static rbt_status full_name(const rbt_job *job, const char *name, char *full)
{
    const bool has_space = strchr(name, '/') != NULL;
    const int length = has_space
                           ? snprintf(full, RBT_CLIENT_NAME_MAX, "%s", name)
                           : snprintf(full, RBT_CLIENT_NAME_MAX, "%s/%s", job->name_space, name);
    if (name[0] == '\0' || length < 0 || length >= RBT_CLIENT_NAME_MAX) {
        return rbt_fail(RBT_E_INVALID, "a table's name has 1 to %d characters with its namespace",
                        RBT_CLIENT_NAME_MAX - 1);
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

/* What drivers and shards are told of its filters. */
static const char *filter_of(const rbt_table *table)
{
    return table->is_unfiltered ? filter_none : table->filter;
}

static rbt_status tell_shards(rbt_table *table, int64_t staleness)
{
    const struct rbt_table_options *o = &table->options;
    /* Shares of hashed keys differ a little: some more room, or half of the shards would grow. */
    const uint64_t share = o->rows_expected / table->job->shard_count;
    const uint64_t more =
        table->job->shard_count == 1 || o->rows_expected == 0 ? 0 : share / 64 + 1;
    const struct rbt_shard_table schema = {.type = o->type,
                                           .layout = o->layout,
                                           .width = o->width,
                                           .state_width = o->state_width,
                                           .merge = o->merge,
                                           .init = o->init,
                                           .a = o->init_low,
                                           .b = o->init_high,
                                           .seed = o->seed,
                                           .partial = table->partial,
                                           .staleness = staleness,
                                           .follows_job = table->follows_job,
                                           .rows_expected = share + more,
                                           .rule = table->rule,
                                           .code = table->code,
                                           .name = table->name,
                                           .is_synchronised = table->experiments.is_synchronised,
                                           .priority = table->is_managed ? &table->priority : NULL,
                                           .filter = filter_of(table)};
    rbt_driver *driver = table->job->driver;
    for (uint32_t shard = 0; shard < table->job->shard_count; shard++) {
        struct rbt_driver_call call = {.shard = shard,
                                       .event = {.kind = RBT_SHARD_TABLE,
                                                 .table = table->id,
                                                 .schema = &schema,
                                                 .name = table->name}};
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
    rbt_free(table->rule);
    rbt_free(table->filter);
    rbt_placement_destroy(table->placement);
    (void)pthread_mutex_destroy(&table->mutex); /* nobody holds it: the job is closing */
    rbt_free(table);
}

rbt_status rbt_table_reset(rbt_table *table)
{
    const struct rbt_rowcache_options process = {.kind = table->kind,
                                                 .width = table->options.width,
                                                 .is_sparse = table->options.layout == RBT_SPARSE,
                                                 .worker_count = table->job->driver->process_size};
    rbt_status st = RBT_OK;
    for (uint32_t i = 0; st == RBT_OK && i < table->job->process_count; i++) {
        rbt_rowcache_deinit(&table->processes[i]);
        st = rbt_rowcache_init(&table->processes[i], &process);
    }
    return st;
}

/* Finds the table's rule and tries its parameters, so that shards need not refuse them. */
static rbt_status take_rule(rbt_table *table, const char *text)
{
    const struct rbt_rule_table wanted = {.name = table->name,
                                          .width = table->options.width,
                                          .worker_count = table->job->worker_count};
    const size_t size = strlen(text) + 1;
    struct rbt_rule_instance instance = {0};
    rbt_status st = rbt_rule_find(text, &table->code);
    st = st != RBT_OK ? st : rbt_rule_create(table->code, text, &wanted, &instance);
    if (st != RBT_OK) {
        return rbt_fail_in(st, "table \"%s\"", table->name);
    }
    table->input = instance.needs.input;
    const rbt_rule_parts parts = instance.needs.parts;
    rbt_rule_destroy(&instance);
    if (table->experiments.is_synchronised && parts != RBT_PARTS_SHOWN) {
        return rbt_fail(RBT_E_INVALID,
                        "table \"%s\": rule \"%s\" has no versions that shards could be "
                        "synchronised by",
                        table->name, table->code->name);
    }
    if (table->input == RBT_RULE_GRADIENTS && table->options.overlay == RBT_OVERLAY_REPLICA) {
        return rbt_fail(RBT_E_INVALID,
                        "table \"%s\": rule \"%s\" takes gradients, which cannot be added to a "
                        "replica",
                        table->name, table->code->name);
    }
    table->rule = rbt_calloc(size, 1);
    if (table->rule == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate table \"%s\"", table->name);
    }
    memcpy(table->rule, text, size);
    return RBT_OK;
}

/* Tries the table's filters, so that neither workers nor shards need refuse them. */
static rbt_status take_filter(rbt_table *table, const char *text)
{
    table->is_unfiltered = strcmp(text, filter_none) == 0;
    if (table->is_unfiltered) {
        return RBT_OK;
    }
    const size_t size = strlen(text) + 1;
    table->filter = rbt_calloc(size, 1);
    if (table->filter == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate table \"%s\"", table->name);
    }
    memcpy(table->filter, text, size);
    struct rbt_chain_traits pull = {0};
    const struct rbt_chain_options chain = rbt_table_chain(table, RBT_FILTER_PULL);
    const rbt_status st = rbt_chain_check(&chain, &pull); /* of both directions */
    table->has_copies = pull.has_select;
    return st != RBT_OK ? rbt_fail_in(st, "table \"%s\"", table->name) : RBT_OK;
}

/* Whether rows of the table travel early, and which first. They may then be seen early, unless that
 * is what the consistency excludes. */
static rbt_status manage(rbt_table *table, int64_t staleness)
{
    const struct rbt_table_options *o = &table->options;
    const rbt_job *job = table->job;
    table->partial = o->partial;
    table->is_managed = job->bandwidth > 0 && o->layout == RBT_DENSE && o->type == RBT_F32 &&
                        o->merge == RBT_MERGE_ADD && !table->experiments.is_synchronised &&
                        o->overlay != RBT_OVERLAY_PROCESS; /* others' updates are not in a row */
    if (!table->is_managed) {
        return RBT_OK;
    }
    if (staleness != 0 && !job->consistency.is_tuned) {
        table->partial = RBT_PARTIAL_SHOW;
    }
    return rbt_priority_find(job->priority, &table->priority);
}

/* The staleness that it is opened with, unless others have changed it before it was open here. */
static void take_staleness(rbt_table *table, int64_t staleness)
{
    rbt_driver *driver = table->job->driver;
    const struct rbt_driver_bound wanted = {table->id, table->follows_job, staleness};
    for (uint32_t i = 0; i < driver->place_count; i++) {
        const int64_t bound =
            driver->ops->bound == NULL ? staleness : driver->ops->bound(driver, i, &wanted);
        atomic_store_explicit(&table->staleness[i], bound, memory_order_relaxed);
    }
}

static rbt_status make_table(rbt_job *job, const char *name,
                             const struct rbt_table_options *options, rbt_table **table)
{
    struct rbt_consistency consistency = job->consistency;
    rbt_status st = options->consistency == NULL
                        ? RBT_OK
                        : rbt_consistency_parse(options->consistency, &consistency);
    if (st == RBT_OK && options->consistency != NULL && consistency.is_tuned) {
        st = rbt_fail(RBT_E_INVALID, "table \"%s\": \"auto\" is for jobs, not for single tables",
                      name);
    }
    if (st == RBT_OK && options->partial == RBT_PARTIAL_SHOW && consistency.staleness == 0) {
        st = rbt_fail(RBT_E_INVALID,
                      "table \"%s\": with staleness 0 partial clocks cannot be shown", name);
    }
    rbt_table *t = st != RBT_OK ? NULL : rbt_calloc(1, sizeof *t);
    if (t == NULL) {
        return st != RBT_OK ? st : rbt_fail(RBT_E_NOMEM, "could not allocate table \"%s\"", name);
    }
    const int error = pthread_mutex_init(&t->mutex, NULL);
    RBT_ASSERT(error == 0);
    t->job = job;
    memcpy(t->name, name, strlen(name) + 1);
    t->id = job->table_count;
    t->options = *options;
    t->options.consistency = NULL;
    t->options.rule = NULL;
    t->options.filter = NULL;
    t->options.experiments = NULL;
    t->experiments = *options->experiments;
    t->kind = (struct rbt_merge_kind){options->type, options->merge};
    t->initial = (struct rbt_initial){options->type,     options->init,      options->width,
                                      options->init_low, options->init_high, options->seed};
    t->element_size = rbt_merge_size(options->type);
    t->row_size = options->width * t->element_size;
    t->is_eager = consistency.is_eager;
    /* A table that shows partial clocks cannot go down to 0 with the others. */
    t->follows_job = options->consistency == NULL &&
                     !(job->consistency.is_tuned && options->partial == RBT_PARTIAL_SHOW);
    t->staleness = rbt_calloc(job->driver->place_count, sizeof *t->staleness);
    t->processes = rbt_calloc(job->process_count, sizeof *t->processes);
    st = t->processes == NULL || t->staleness == NULL
             ? rbt_fail(RBT_E_NOMEM, "could not allocate table \"%s\"", name)
             : rbt_table_reset(t);
    st = st != RBT_OK || options->rule == NULL ? st : take_rule(t, options->rule);
    st = st != RBT_OK || options->filter == NULL ? st : take_filter(t, options->filter);
    st = st != RBT_OK ? st : manage(t, consistency.staleness);
    const struct rbt_placement_options placement = {
        .shard_count = job->shard_count, .kind = options->placement, .keys_max = options->keys_max};
    st = st != RBT_OK ? st : rbt_placement_create(&placement, &t->placement);
    st = st != RBT_OK ? st : tell_shards(t, consistency.staleness);
    if (st != RBT_OK) {
        rbt_table_free(t);
        return st;
    }
    take_staleness(t, consistency.staleness);
    *table = t;
    return RBT_OK;
}

/* Whether somebody who asks for `wanted` may have a table made with `present`. */
static bool is_same(const struct rbt_table_options *wanted, const struct rbt_table_options *present)
{
    return wanted->type == present->type && wanted->layout == present->layout &&
           wanted->width == present->width && wanted->merge == present->merge &&
           wanted->init == present->init && wanted->init_low == present->init_low &&
           wanted->init_high == present->init_high && wanted->seed == present->seed &&
           wanted->overlay == present->overlay && wanted->cache == present->cache &&
           wanted->partial == present->partial && wanted->state_width == present->state_width &&
           wanted->cache_rows == present->cache_rows && wanted->placement == present->placement &&
           wanted->keys_max == present->keys_max;
}

static bool is_same_experiment(const struct rbt_table_experiments *wanted,
                               const struct rbt_table_experiments *present)
{
    return wanted->tiny == present->tiny && wanted->slack == present->slack &&
           wanted->is_synchronised == present->is_synchronised;
}

/* Whether the two texts, of rules or filters, are the same; NULL: there is none. */
static bool is_same_text(const char *wanted, const char *present)
{
    return wanted == NULL ? present == NULL : present != NULL && strcmp(wanted, present) == 0;
}

/* Whether the table has this consistency; not asking for one is always right. */
static bool has_consistency(const rbt_table *table, const char *text)
{
    struct rbt_consistency wanted;
    return text == NULL ||
           (rbt_consistency_parse(text, &wanted) == RBT_OK && wanted.is_eager == table->is_eager &&
            wanted.staleness == rbt_table_staleness(table));
}

static rbt_status find_or_make(rbt_job *job, const char *name,
                               const struct rbt_table_options *options, rbt_table **table)
{
    const bool is_none = options->filter != NULL && strcmp(options->filter, filter_none) == 0;
    const char *wanted = is_none ? NULL : options->filter; /* both are right */
    for (uint32_t i = 0; i < job->table_count; i++) {
        if (strcmp(job->tables[i]->name, name) != 0) {
            continue;
        }
        if (!is_same(options, &job->tables[i]->options) ||
            !is_same_experiment(options->experiments, &job->tables[i]->experiments) ||
            !is_same_text(options->rule, job->tables[i]->rule) ||
            !is_same_text(wanted, job->tables[i]->filter) ||
            !has_consistency(job->tables[i], options->consistency)) {
            return rbt_fail(RBT_E_INVALID, "table \"%s\" is there already, with other options",
                            name);
        }
        *table = job->tables[i];
        return RBT_OK;
    }
    if (job->table_count == RBT_CLIENT_TABLES_MAX) {
        return rbt_fail(RBT_E_INVALID, "a job has at most %d tables", RBT_CLIENT_TABLES_MAX);
    }
    const rbt_status st = make_table(job, name, options, table);
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
    const int used = has_tiny ? snprintf(filter, RBT_FILTER_TEXT_MAX, "push.tiny:%.9g,", tiny) : 0;
    char resolved[RBT_FILTER_TEXT_MAX];
    const rbt_status st = rbt_filter_resolve(options->filter, resolved);
    if (st != RBT_OK) {
        return st;
    }
    const size_t size = strlen(resolved) + 1;
    if ((size_t)used + size > RBT_FILTER_TEXT_MAX) {
        return rbt_fail(RBT_E_INVALID, "a list of filters has at most %d bytes",
                        RBT_FILTER_TEXT_MAX - 1);
    }
    memcpy(filter + used, resolved, size);
    return RBT_OK;
}

rbt_status rbt_table_open(rbt_job *job, const char *name, const struct rbt_table_options *options,
                          rbt_table **table)
{
    char full[RBT_CLIENT_NAME_MAX];
    char rule[RBT_RULE_TEXT_MAX];
    char filter[RBT_FILTER_TEXT_MAX];
    struct rbt_table_options complete;
    struct rbt_table_experiments experiments;
    rbt_status st = full_name(job, name, full);
    st = st != RBT_OK ? st : complete_options(full, options, &complete, &experiments);
    if (st == RBT_OK && complete.rule != NULL) {
        st = rbt_rule_resolve(complete.rule, rule);
        complete.rule = rule;
    }
    if (st == RBT_OK && complete.filter != NULL && strcmp(complete.filter, filter_none) != 0) {
        st = resolve_filter(&complete, filter);
        complete.filter = filter;
    }
    if (st != RBT_OK) {
        return st;
    }
    lock(job);
    st = find_or_make(job, full, &complete, table);
    unlock(job);
    return st;
}

const char *rbt_table_name(const rbt_table *table)
{
    return table->name;
}

uint32_t rbt_table_width(const rbt_table *table)
{
    return table->options.width;
}

rbt_type rbt_table_type(const rbt_table *table)
{
    return table->options.type;
}

int64_t rbt_table_staleness(const rbt_table *table)
{
    return atomic_load_explicit(&table->staleness[table->job->driver->place], memory_order_relaxed);
}

/* Whether the table may have this bound. */
static rbt_status check_bound(const rbt_table *table, int64_t staleness)
{
    return staleness == 0 && table->partial == RBT_PARTIAL_SHOW
               ? rbt_fail(RBT_E_INVALID,
                          "table \"%s\": with staleness 0 partial clocks cannot be shown",
                          table->name)
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
        return st != RBT_OK ? st : driver->ops->tell_staleness(driver, table->id, staleness, true);
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
        if (job->tables[i]->follows_job) {
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
        if (is_job ? job->tables[i]->follows_job : job->tables[i]->id == table) {
            atomic_store_explicit(&job->tables[i]->staleness[place], staleness,
                                  memory_order_relaxed);
        }
    }
    if (is_job) {
        set_job_staleness(job, place, staleness);
    }
}
