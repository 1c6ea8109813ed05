/* client/cluster.c - joining a cluster and leaving it.
 *
 * What is not given comes from the environment, where `rubato run` has put it, so that a program
 * need not know whether it was started by hand or by a launcher. */
#include "client/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/sized.h"
#include "base/text.h"
#include "net/address.h"

enum {
    START_SECONDS = 30,
    TIMEOUT_SECONDS = 10,
};

#define CUT_SECONDS 3.0 /* without a connection: a process that is not there does not come back */

bool rbt_cluster_is_there(void)
{
    return getenv("RUBATO_COORDINATOR") != NULL;
}

static rbt_status number_from(const char *variable, int64_t most, uint32_t *value)
{
    const char *text = getenv(variable);
    int64_t number = 0;
    if (*value != 0 || text == NULL) {
        return RBT_OK;
    }
    if (!rbt_text_to_int(text, &number) || number < 0 || number > most) {
        return rbt_fail(RBT_E_INVALID, "%s must be a number up to %lld, got \"%s\"", variable,
                        (long long)most, text);
    }
    *value = (uint32_t)number;
    return RBT_OK;
}

static rbt_status seconds_from(const char *variable, double fallback, double *value)
{
    const char *text = getenv(variable);
    if (*value == 0 && text != NULL && (!rbt_text_to_seconds(text, value) || *value <= 0)) {
        return rbt_fail(RBT_E_INVALID, "%s must be a time such as 10s, got \"%s\"", variable, text);
    }
    *value = *value == 0 ? fallback : *value;
    return RBT_OK;
}

/* Fills in what was left out. */
static rbt_status complete(struct rbt_cluster_options *options)
{
    uint32_t index = options->index > 0 ? (uint32_t)options->index : 0;
    const bool has_index = index != 0;
    rbt_status st = number_from("RUBATO_WORKERS", RBT_JOB_WORKERS_MAX, &options->workers);
    st = st != RBT_OK ? st : number_from("RUBATO_THREADS", RBT_JOB_WORKERS_MAX, &options->threads);
    st = st != RBT_OK ? st : number_from("RUBATO_INDEX", RBT_JOB_WORKERS_MAX, &index);
    st = st != RBT_OK
             ? st
             : seconds_from("RUBATO_START_TIMEOUT", START_SECONDS, &options->start_timeout);
    st = st != RBT_OK ? st : seconds_from("RUBATO_TIMEOUT", TIMEOUT_SECONDS, &options->timeout);
    if (st != RBT_OK) {
        return st;
    }
    if (!has_index && getenv("RUBATO_INDEX") != NULL) {
        options->index = (int32_t)index + 1;
    }
    if (options->coordinator == NULL) {
        options->coordinator = getenv("RUBATO_COORDINATOR");
    }
    if (options->key_file == NULL) {
        options->key_file = getenv("RUBATO_KEY");
    }
    if (options->coordinator == NULL) {
        st = rbt_fail(RBT_E_INVALID, "there is no cluster to join");
        return rbt_fail_hint(st, "Start the program with \"rubato run -- PROGRAM\", or set "
                                 "RUBATO_COORDINATOR.");
    }
    if (options->compression == NULL) {
        options->compression = getenv("RUBATO_COMPRESSION");
    }
    options->threads = options->threads == 0 ? 1 : options->threads;
    options->workers = options->workers == 0 ? options->threads : options->workers;
    if (options->name_space == NULL) {
        const char *space = getenv("RUBATO_NAMESPACE");
        options->name_space = space != NULL && space[0] != '\0' ? space : "main";
    }
    const char *reads = getenv("RUBATO_READER");
    if (reads != NULL && strcmp(reads, "1") == 0) {
        options->is_reader = true;
    }
    if (strlen(options->name_space) >= sizeof((struct rbt_cluster *)0)->name_space / 2) {
        return rbt_fail(RBT_E_INVALID, "\"%s\" cannot be a namespace", options->name_space);
    }
    return RBT_OK;
}

int64_t rbt_cluster_bound(rbt_cluster *cluster, uint32_t table, bool follows_job, int64_t staleness)
{
    pthread_mutex_lock(&cluster->bounds_mutex);
    const int64_t found = rbt_bounds_find(&cluster->bounds, table, follows_job, staleness);
    pthread_mutex_unlock(&cluster->bounds_mutex);
    return found;
}

/* A table that is not open yet finds it when it is opened. Only the member's thread writes. */
static rbt_status on_bound(void *context, uint64_t number, const struct rbt_control_bound *told)
{
    rbt_cluster *cluster = context;
    const struct rbt_bound bound = {
        .number = number, .table = told->table, .staleness = told->staleness};
    pthread_mutex_lock(&cluster->bounds_mutex);
    const bool is_new = number > cluster->bounds.last;
    const rbt_status st = rbt_bounds_note(&cluster->bounds, &bound);
    pthread_mutex_unlock(&cluster->bounds_mutex);
    pthread_mutex_lock(&cluster->mutex);
    if (st == RBT_OK && is_new && cluster->on_staleness != NULL) {
        cluster->on_staleness(cluster->context, 0, bound.table, bound.staleness);
    }
    pthread_mutex_unlock(&cluster->mutex);
    return st;
}

static void on_stable(void *context, uint32_t table, uint64_t version)
{
    rbt_cluster *cluster = context;
    RBT_ASSERT(table < RBT_JOB_TABLES_MAX);
    if (version > atomic_load_explicit(&cluster->stable[table], memory_order_relaxed)) {
        atomic_store_explicit(&cluster->stable[table], version, memory_order_relaxed);
    }
}

static rbt_status open_security(rbt_cluster *cluster, const char *path)
{
    char key[RBT_KEY_TEXT];
    rbt_status st = rbt_key_read(path, key);
    st = st != RBT_OK ? st : rbt_security_open(key, &cluster->security);
    memset(key, 0, sizeof key);
    return st;
}

/* What shows that this process may take part in the job, if the job has a key of its own. */
static rbt_status read_job_key(bool is_reader, struct rbt_member_options *member)
{
    _Static_assert((int)RBT_WIRE_SECRET == (int)RBT_PERMIT_BYTES, "a permit travels whole");
    char key[RBT_KEY_TEXT];
    char readers[RBT_KEY_TEXT] = "";
    const char *path = getenv("RUBATO_JOB_KEY");
    if (path == NULL || path[0] == '\0') {
        return RBT_OK;
    }
    rbt_status st = rbt_key_read(path, key);
    st = st != RBT_OK ? st : rbt_key_permit(key, is_reader, member->permit.bytes);
    if (!is_reader) {
        st = st != RBT_OK ? st : rbt_key_of_readers(key, readers);
        st = st != RBT_OK ? st : rbt_key_permit(readers, true, member->read_permit.bytes);
    }
    explicit_bzero(key, sizeof key);
    explicit_bzero(readers, sizeof readers);
    return st;
}

/* The number of a compression; below 0 for none given. */
static rbt_status read_compression(const char *text, int32_t *compression)
{
    static const char *const names[] = {"none", "zeros", "lz4", "zstd"};
    *compression = -1;
    for (int32_t i = 0; text != NULL && i < (int32_t)(sizeof names / sizeof names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *compression = i;
        }
    }
    return text == NULL || *compression >= 0
               ? RBT_OK
               : rbt_fail(RBT_E_INVALID,
                          "unrecognised compression \"%s\"; expected none, zeros, lz4 or zstd",
                          text);
}

/* Over TCP both sides must show a key, unless somebody has said that they need not. */
static rbt_status check_key(const struct rbt_cluster_options *options)
{
    const char *insecure = getenv("RUBATO_INSECURE");
    if (options->key_file != NULL || rbt_address_is_unix(options->coordinator) ||
        (insecure != NULL && strcmp(insecure, "1") == 0)) {
        return RBT_OK;
    }
    const rbt_status st = rbt_fail(RBT_E_INVALID, "there is no key for the coordinator at \"%s\"",
                                   options->coordinator);
    return rbt_fail_hint(st, "Set RUBATO_KEY to the file of the cluster's key; RUBATO_INSECURE=1 "
                             "does without.");
}

static rbt_status join(rbt_cluster *cluster, const struct rbt_cluster_options *options)
{
    rbt_status st = check_key(options);
    if (st == RBT_OK && options->key_file != NULL) {
        st = open_security(cluster, options->key_file);
    }
    if (st != RBT_OK) {
        return st;
    }
    cluster->silence_max = (rbt_time)(options->timeout * 1e9);
    cluster->cut_max =
        options->timeout < CUT_SECONDS ? cluster->silence_max : (rbt_time)(CUT_SECONDS * 1e9);
    struct rbt_member_options member = {
        .coordinator = options->coordinator,
        .security = cluster->security,
        .role = cluster->is_reader ? RBT_ROLE_READER : RBT_ROLE_WORKER,
        .index = options->index > 0 ? options->index - 1 : RBT_INDEX_ANY,
        .start_timeout = (rbt_time)(options->start_timeout * 1e9),
        .silence_max = cluster->silence_max,
        .cut_max = cluster->cut_max,
        .space = cluster->name_space,
        .worker_count = cluster->is_reader ? options->threads : options->workers,
        .thread_count = options->threads,
        .context = cluster,
        .on_bound = on_bound,
        .on_stable = on_stable};
    st = read_job_key(cluster->is_reader, &member);
    return st != RBT_OK ? st : rbt_member_join(&member, &cluster->member);
}

rbt_status rbt_cluster_join(const struct rbt_cluster_options *options, rbt_cluster **cluster)
{
    struct rbt_cluster_options full = {.struct_size = sizeof full};
    if (options != NULL) {
        const rbt_status taken = rbt_sized_take(&full, options, sizeof full);
        if (taken != RBT_OK) {
            return taken;
        }
    }
    rbt_status st = complete(&full);
    rbt_cluster *c = st != RBT_OK ? NULL : rbt_calloc(1, sizeof *c);
    if (c == NULL) {
        return st != RBT_OK ? st : rbt_fail(RBT_E_NOMEM, "could not allocate a cluster");
    }
    const int error =
        pthread_mutex_init(&c->mutex, NULL) | pthread_mutex_init(&c->bounds_mutex, NULL);
    RBT_ASSERT(error == 0);
    c->is_reader = full.is_reader;
    snprintf(c->name_space, sizeof c->name_space, "%s", full.name_space);
    st = read_compression(full.compression, &c->compression);
    st = st != RBT_OK ? st : join(c, &full);
    if (st != RBT_OK) {
        rbt_cluster_leave(c, st, NULL);
        return st;
    }
    *cluster = c;
    return RBT_OK;
}

uint32_t rbt_cluster_index(const rbt_cluster *cluster)
{
    return rbt_member_plan(cluster->member)->index;
}

void rbt_cluster_leave(rbt_cluster *cluster, rbt_status status, const char *why)
{
    if (cluster == NULL) {
        return;
    }
    RBT_ASSERT(!cluster->is_busy); /* jobs are closed before */
    struct rbt_error_record record;
    rbt_error_save(&record);
    if (cluster->member != NULL) {
        rbt_member_leave(cluster->member, status, why);
    }
    rbt_security_close(cluster->security);
    (void)pthread_mutex_destroy(&cluster->mutex);        /* nobody holds it */
    (void)pthread_mutex_destroy(&cluster->bounds_mutex); /* the same */
    rbt_bounds_deinit(&cluster->bounds);
    rbt_free(cluster);
    rbt_error_restore(&record);
}
