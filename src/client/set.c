/* client/set.c - working sets, lists of keys, ranges.
 *
 * A set owns three arrays, all made when it is created: values, which the caller works on; deltas,
 * where it puts its updates; and, when a later look at the last pull is needed, base: what the pull
 * returned, plus what has been pushed since. Base is needed to find out what was changed in place,
 * and to serve a pull without a fetch while the copy is fresh enough.
 *
 * A push does not copy: the deltas array becomes the update's, and the update's old array the next
 * deltas.
 *
 * Threads: a set belongs to its worker. Memory: none in pull and push, once updates have been
 * around long enough to be used again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "client/client.h"
#include "client/exchange.h"
#include "client/filtering.h"
#include "client/set.h"

size_t rbt_keys_find(const uint64_t *keys, size_t count, uint64_t key)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (keys[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && keys[low] == key ? low : SIZE_MAX;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

size_t rbt_keys_sort(uint64_t *keys, size_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(keys, count, sizeof *keys, compare_keys);
    size_t kept = 1;
    for (size_t i = 1; i < count; i++) {
        if (keys[i] != keys[kept - 1]) {
            keys[kept++] = keys[i];
        }
    }
    return kept;
}

static rbt_status check_list(const rbt_table *table, const uint64_t *keys, size_t count)
{
    if (table->spec.layout != RBT_DENSE) {
        return rbt_fail(RBT_E_INVALID, "table \"%s\" has sparse rows, which are read one by one",
                        table->spec.name);
    }
    for (size_t i = 1; i < count; i++) {
        if (keys[i] <= keys[i - 1]) {
            return rbt_fail(RBT_E_INVALID, "key number %zu of %zu does not increase; sort the list",
                            i, count);
        }
    }
    return RBT_OK;
}

/* Whether rows of zeros may be left out: filters can say that they must not. */
static bool leaves_zeros(const rbt_table *table)
{
    const struct rbt_chain_options options = rbt_table_chain(table, RBT_FILTER_PUSH);
    struct rbt_chain_traits traits = {.skips_zeros = true};
    return !table->has_filter ||
           (rbt_chain_check(&options, &traits) == RBT_OK && traits.skips_zeros);
}

static rbt_status fill_set(rbt_set *set, const uint64_t *keys, size_t count)
{
    const rbt_table *table = set->local->table;
    rbt_status st = rbt_keylist_create(table->placement, &set->keys);
    st = st != RBT_OK ? st : rbt_keylist_assign(set->keys, keys, count);
    if (st == RBT_OK && (table->job->driver->counts_bytes || table->has_filter)) {
        st = rbt_keylist_name(set->keys);
    }
    if (st != RBT_OK) {
        return st;
    }
    set->elements = count * table->spec.width;
    set->bytes = count * table->row_size;
    set->values = rbt_calloc(set->bytes, 1);
    const bool has_base = set->is_in_place || !table->is_eager;
    set->base = has_base ? rbt_calloc(set->bytes, 1) : NULL;
    set->deltas = set->is_in_place ? NULL : rbt_calloc(set->bytes, 1);
    set->deltas_max = set->bytes;
    const bool has_stamps = set->local->stamps != NULL;
    set->stamps = has_stamps ? rbt_calloc(table->job->shard_count, sizeof *set->stamps) : NULL;
    for (uint32_t i = 0; set->stamps != NULL && i < table->job->shard_count; i++) {
        set->stamps[i] = RBT_STAMP_NONE;
    }
    const bool may_push_few = leaves_zeros(table) && !has_stamps && !set->is_in_place &&
                              table->experiments.tiny == 0 && set->local->filtering == NULL &&
                              table->kind.merge == RBT_MERGE_ADD && count >= RBT_SET_FEW;
    const size_t few = may_push_few ? count / RBT_SET_FEW + 1 : 0;
    set->changed = may_push_few ? rbt_calloc(few, sizeof *set->changed) : NULL;
    set->changed_keys = may_push_few ? rbt_calloc(few, sizeof *set->changed_keys) : NULL;
    set->copies =
        table->has_copies ? rbt_calloc(table->job->shard_count, sizeof *set->copies) : NULL;
    const struct rbt_filtering *filtering = set->local->filtering;
    const bool has_rest = filtering != NULL && filtering->keeps_rest;
    set->rest = has_rest ? rbt_calloc(set->bytes, 1) : NULL;
    if ((may_push_few && (set->changed == NULL || set->changed_keys == NULL)) ||
        set->values == NULL || (has_base && set->base == NULL) ||
        (!set->is_in_place && set->deltas == NULL) || (has_stamps && set->stamps == NULL) ||
        (table->has_copies && set->copies == NULL) || (has_rest && set->rest == NULL)) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a working set of %zu rows", count);
    }
    for (size_t i = 0; i < count; i++) {
        rbt_initial_values(&table->initial, keys[i], set->values + i * table->row_size);
    }
    if (has_base) {
        memcpy(set->base, set->values, set->bytes);
    }
    if (!set->is_in_place) {
        rbt_merge_clear(table->kind, set->deltas, set->elements);
    }
    return RBT_OK;
}

rbt_status rbt_set_create(rbt_worker *worker, rbt_table *table, const uint64_t *keys, size_t count,
                          rbt_set_flags flags, rbt_set **set)
{
    struct rbt_worker_table *local = NULL;
    rbt_status st = check_list(table, keys, count);
    if (st == RBT_OK && flags != RBT_SET_DELTAS && flags != RBT_SET_IN_PLACE) {
        st = rbt_fail(RBT_E_INVALID, "unrecognised flags %d of a working set", (int)flags);
    }
    if (st == RBT_OK && flags == RBT_SET_IN_PLACE && table->kind.merge != RBT_MERGE_ADD) {
        st = rbt_fail(RBT_E_INVALID,
                      "table \"%s\" does not add: its sets cannot be changed in place",
                      table->spec.name);
    }
    if (st == RBT_OK && flags == RBT_SET_IN_PLACE && rbt_spec_has_rule(&table->spec) &&
        table->input == RBT_RULE_GRADIENTS) {
        st = rbt_fail(RBT_E_INVALID,
                      "the rule of table \"%s\" takes gradients: its sets cannot be changed in "
                      "place",
                      table->spec.name);
    }
    st = st != RBT_OK ? st : rbt_worker_table_of(worker, table, &local);
    if (st != RBT_OK) {
        return st;
    }
    rbt_set *s = rbt_calloc(1, sizeof *s);
    if (s == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a working set");
    }
    s->worker = worker;
    s->local = local;
    s->subscription = ++worker->set_count;
    s->is_in_place = flags == RBT_SET_IN_PLACE;
    s->clock = -1;
    st = fill_set(s, keys, count);
    if (st != RBT_OK) {
        rbt_set_destroy(s);
        return st;
    }
    if (s->rest != NULL) {
        s->next_held = worker->held;
        worker->held = s;
    }
    *set = s;
    return RBT_OK;
}

void rbt_set_destroy(rbt_set *set)
{
    if (set == NULL) {
        return;
    }
    rbt_driver *driver = set->worker->job->driver;
    rbt_set_let_go(set);
    if (driver->ops->forget != NULL) {
        driver->ops->forget(driver, set->worker->index, set->subscription);
    }
    rbt_managed_free(set->managed);
    for (uint32_t i = 0; set->stamps != NULL && i < set->worker->job->shard_count; i++) {
        rbt_stamps_replace(set->local->stamps, i, &set->stamps[i], RBT_STAMP_NONE);
    }
    rbt_free(set->stamps);
    rbt_free(set->copies);
    rbt_free(set->rest);
    rbt_free(set->changed_keys);
    rbt_free(set->changed);
    rbt_free(set->deltas);
    rbt_free(set->base);
    rbt_free(set->values);
    rbt_keylist_unref(set->keys);
    rbt_free(set);
}

size_t rbt_set_count(const rbt_set *set)
{
    return set->keys->count;
}

const uint64_t *rbt_set_keys(const rbt_set *set)
{
    return set->keys->keys;
}

void *rbt_set_values(rbt_set *set)
{
    return set->values;
}

void *rbt_set_deltas(rbt_set *set)
{
    return set->deltas;
}

int64_t rbt_set_clock(const rbt_set *set)
{
    return set->clock;
}

/* --- Pulling --------------------------------------------------------------------------------- */

static bool shows_own(const rbt_table *table)
{
    return table->options.overlay != RBT_OVERLAY_NONE;
}

/* Whether what the set has will do: it is fresh enough and contains all that must be seen. Eager
 * tables want the newest, and other workers' updates of this process are not in the set. */
static bool is_hit(const rbt_set *set, int64_t staleness)
{
    const struct rbt_worker_table *local = set->local;
    const bool may_reuse = set->base != NULL && !local->table->is_eager &&
                           local->table->options.overlay != RBT_OVERLAY_PROCESS &&
                           staleness != RBT_STALENESS_ANY && !set->worker->job->driver->is_reader;
    const bool has_own = !shows_own(local->table) ||
                         (set->push_seen == local->push_count && set->add_seen == local->add_count);
    /* What was asked for is put into the values when it comes, so it must be waited for. */
    return may_reuse && has_own && !set->is_asked && set->clock >= 0 &&
           set->clock >=
               rbt_client_clock(set->worker) - staleness - local->table->experiments.slack;
}

bool rbt_set_is_fresh(const rbt_set *set, int64_t staleness)
{
    return is_hit(set, staleness);
}

static struct rbt_want want_of(const rbt_set *set, int64_t staleness)
{
    const rbt_table *table = set->local->table;
    /* Shards answer a request for versions when it comes; asked at different times they would
     * answer with different ones. */
    const bool may_ask = !table->experiments.is_synchronised;
    /* What was sent ahead may be older than what has come early. */
    const bool may_send_ahead = table->is_eager && may_ask && set->managed == NULL;
    return (struct rbt_want){.target = {.keys = set->keys, .values = set->values},
                             .need = rbt_worker_need(set->worker, staleness),
                             .subscription = may_send_ahead ? set->subscription : 0,
                             .asked = may_ask ? set->subscription : 0,
                             .stamps = set->stamps,
                             .copies = set->copies};
}

void rbt_set_ask(rbt_set *set, int64_t staleness)
{
    if (!is_hit(set, staleness) && !set->local->table->experiments.is_synchronised) {
        const struct rbt_want want = want_of(set, staleness);
        rbt_worker_ask(set->worker, set->local, &want);
        set->is_asked = set->worker->job->driver->ops->ask != NULL;
    }
}

size_t rbt_set_list_calls(rbt_set *set)
{
    const struct rbt_want want = want_of(set, RBT_STALENESS_ANY);
    return rbt_worker_list_calls(set->worker, set->local, &want);
}

bool rbt_set_has_answer(const rbt_set *set)
{
    rbt_driver *driver = set->worker->job->driver;
    return driver->ops->has_answer == NULL || set->local->table->experiments.is_synchronised ||
           driver->ops->has_answer(driver, set->worker->index, set->subscription);
}

/* Rows have been pulled: what filters have kept back is still a change of them, which the worker
 * sees as it sees all that it has pushed. */
static void add_rest(const rbt_set *set)
{
    if (set->rest != NULL && (set->is_in_place || shows_own(set->local->table))) {
        rbt_merge_apply(set->local->table->kind, set->values, set->rest, set->elements);
    }
}

rbt_status rbt_set_pull_within(rbt_set *set, int64_t staleness)
{
    rbt_status st = rbt_worker_check_staleness(staleness);
    if (st != RBT_OK) {
        return st;
    }
    if (is_hit(set, staleness)) {
        memcpy(set->values, set->base, set->bytes);
        add_rest(set);
        rbt_worker_note_read(set->worker, set->clock);
        return RBT_OK;
    }
    const struct rbt_want want = want_of(set, staleness);
    struct rbt_age age = {0};
    st = rbt_worker_fetch(set->worker, set->local, &want, &age);
    if (st != RBT_OK) {
        return st;
    }
    set->is_asked = false;
    if (set->managed != NULL) {
        rbt_managed_pulled(set->managed);
    }
    if (set->base != NULL) {
        memcpy(set->base, set->values, set->bytes);
    }
    add_rest(set);
    set->clock = age.clock;
    set->push_seen = set->local->push_count;
    set->add_seen = set->local->add_count;
    rbt_worker_note_read(set->worker, age.clock);
    return RBT_OK;
}

rbt_status rbt_set_pull(rbt_set *set)
{
    return rbt_set_pull_within(set, rbt_table_staleness(set->local->table));
}

/* --- Pushing --------------------------------------------------------------------------------- */

/* Everybody else who keeps copies of this table must look again; and the updates go out at once if
 * others may see them before the clock ends. */
static void note_push(rbt_worker *worker, struct rbt_worker_table *local)
{
    rbt_table *table = local->table;
    local->push_count++;
    if (table->options.overlay == RBT_OVERLAY_PROCESS) {
        rbt_worker_lock(local);
        rbt_rowcache_forget(local->process);
        rbt_worker_unlock(local);
    }
    if (table->spec.partial == RBT_PARTIAL_SHOW && !table->is_managed) {
        rbt_worker_send(worker, local);
    }
}

/* Whether the worker may push now: what was sent half-way must be on its way before. */
static rbt_status may_push(rbt_worker *worker)
{
    const rbt_status st = rbt_worker_may_update(worker);
    return st != RBT_OK ? st : rbt_worker_resend(worker);
}

rbt_status rbt_set_push_rows(rbt_worker *worker, struct rbt_worker_table *local,
                             const struct rbt_rows *rows, const uint64_t *stamps)
{
    const size_t bytes = rows->count * local->table->row_size;
    struct rbt_update *update = NULL;
    rbt_worker_lock(local);
    rbt_status st = rbt_buffer_append(&local->buffer, worker->sequence, NULL, bytes, &update);
    if (st == RBT_OK) {
        st = rbt_keylist_assign(update->keys, rows->keys, rows->count);
        if (st != RBT_OK) {
            rbt_buffer_take_back(&local->buffer);
        } else if (bytes > 0) {
            memcpy(update->values, rows->values, bytes);
            st = rbt_filtering_round(local->filtering, update);
            if (st != RBT_OK) {
                rbt_buffer_take_back(&local->buffer);
            }
        }
    }
    if (st == RBT_OK && local->stamps != NULL) {
        rbt_worker_list_bases(local, stamps, update->bases);
    }
    rbt_worker_unlock(local);
    if (st == RBT_OK) {
        note_push(worker, local);
    }
    return st;
}

/* After changes have become an update: they are part of the copy, unless the table shows none. */
static void settle_changes(rbt_set *set)
{
    if (shows_own(set->local->table)) {
        memcpy(set->base, set->values, set->bytes);
    } else {
        memcpy(set->values, set->base, set->bytes);
    }
}

/* Puts what was changed in place into `deltas` and makes it the new base. */
static void take_changes(rbt_set *set, char *deltas)
{
    const rbt_table *table = set->local->table;
    memcpy(deltas, set->values, set->bytes);
    rbt_merge_subtract(table->kind.type, deltas, set->base, set->elements);
    settle_changes(set);
}

/* Moves those deltas that are not tiny to an update, and to what is shown. */
static void take_large(rbt_set *set, char *to)
{
    const rbt_table *table = set->local->table;
    const double tiny = table->experiments.tiny;
    char *shown = set->base != NULL && shows_own(table) ? set->base : NULL;
    for (size_t i = 0; i < set->elements; i++) {
        char *delta = set->deltas + i * table->element_size;
        double value = 0;
        if (table->spec.type == RBT_F32) {
            value = ((const float *)set->deltas)[i];
        } else {
            value = ((const double *)set->deltas)[i];
        }
        if (value == 0 || fabs(value) < tiny) { /* not a number is not tiny */
            continue;
        }
        rbt_merge_apply(table->kind, to + i * table->element_size, delta, 1);
        if (shown != NULL) {
            rbt_merge_apply(table->kind, shown + i * table->element_size, delta, 1);
        }
        rbt_merge_clear(table->kind, delta, 1);
    }
}

/* A new update out of the set's changes or deltas. */
static rbt_status append_update(rbt_set *set)
{
    const rbt_table *table = set->local->table;
    struct rbt_update *update = NULL;
    rbt_status st = rbt_buffer_append(&set->local->buffer, set->worker->sequence, set->keys,
                                      set->bytes, &update);
    if (st != RBT_OK) {
        return st;
    }
    if (set->stamps != NULL) {
        rbt_worker_list_bases(set->local, set->stamps, update->bases);
    }
    if (set->local->filtering != NULL) {
        st = rbt_filtering_take(set, update, true);
        if (st != RBT_OK) {
            rbt_buffer_take_back(&set->local->buffer);
        }
        return st;
    }
    if (set->is_in_place) {
        take_changes(set, update->values);
        return RBT_OK;
    }
    if (table->experiments.tiny > 0) {
        rbt_merge_clear(table->kind, update->values, set->elements);
        take_large(set, update->values);
        return RBT_OK;
    }
    char *deltas = set->deltas; /* both arrays have room for set->bytes or more */
    const size_t deltas_max = set->deltas_max;
    set->deltas = update->values;
    set->deltas_max = update->values_max;
    update->values = deltas;
    update->values_max = deltas_max;
    rbt_merge_clear(table->kind, set->deltas, set->elements);
    if (set->base != NULL && shows_own(table)) {
        rbt_merge_apply(table->kind, set->base, update->values, set->elements);
    }
    return RBT_OK;
}

/* Adds to an update of the same clock that has not been sent. */
static rbt_status extend_update(rbt_set *set, struct rbt_update *update)
{
    const rbt_table *table = set->local->table;
    if (set->local->filtering != NULL) {
        return rbt_filtering_take(set, update, false);
    }
    if (set->is_in_place) { /* update += values - base, without a third array */
        rbt_merge_apply(table->kind, update->values, set->values, set->elements);
        rbt_merge_subtract(table->kind.type, update->values, set->base, set->elements);
        settle_changes(set);
        return RBT_OK;
    }
    if (table->experiments.tiny > 0) {
        take_large(set, update->values);
        return RBT_OK;
    }
    rbt_merge_apply(table->kind, update->values, set->deltas, set->elements);
    if (set->base != NULL && shows_own(table)) {
        rbt_merge_apply(table->kind, set->base, set->deltas, set->elements);
    }
    rbt_merge_clear(table->kind, set->deltas, set->elements);
    return RBT_OK;
}

rbt_status rbt_set_push(rbt_set *set)
{
    struct rbt_worker_table *local = set->local;
    rbt_status st = may_push(set->worker);
    if (st != RBT_OK) {
        return st;
    }
    if (set->managed != NULL) {
        return rbt_managed_push(set->managed);
    }
    const bool is_current = set->push_seen == local->push_count;
    rbt_worker_lock(local);
    if (set->stamps != NULL) {
        rbt_worker_list_bases(local, set->stamps, local->bases);
    }
    const bool stays_apart = local->filtering != NULL && local->filtering->has_round;
    struct rbt_update *unsent =
        stays_apart ? NULL : rbt_buffer_find_unsent(&local->buffer, set->keys, local->bases);
    bool is_done = false;
    if (unsent != NULL) {
        st = extend_update(set, unsent);
    } else {
        st = rbt_set_push_few(set, &is_done);
        st = st != RBT_OK || is_done ? st : append_update(set);
    }
    rbt_worker_unlock(local);
    if (st != RBT_OK) {
        return st;
    }
    note_push(set->worker, local);
    if (is_current) {
        set->push_seen = local->push_count; /* its own push is in its base */
    }
    return RBT_OK;
}

rbt_status rbt_set_push_range(rbt_set *set, struct rbt_range range)
{
    const rbt_table *table = set->local->table;
    rbt_status st = may_push(set->worker);
    size_t first = 0;
    while (first < set->keys->count && set->keys->keys[first] < range.first) {
        first++;
    }
    size_t last = first;
    while (last < set->keys->count && set->keys->keys[last] <= range.last) {
        last++;
    }
    if (st != RBT_OK || first == last) {
        return st;
    }
    const size_t begin = first * table->row_size;
    const size_t bytes = (last - first) * table->row_size;
    const size_t elements = (last - first) * table->spec.width;
    const struct rbt_rows rows = {.keys = set->keys->keys + first,
                                  .values =
                                      set->is_in_place ? set->values + begin : set->deltas + begin,
                                  .count = last - first};
    if (set->is_in_place) { /* values become the changes for a moment */
        rbt_merge_subtract(table->kind.type, set->values + begin, set->base + begin, elements);
    }
    if (!set->is_in_place && set->rest != NULL) { /* if this fails, they wait among the deltas */
        rbt_merge_apply(table->kind, set->deltas + begin, set->rest + begin, elements);
        memset(set->rest + begin, 0, bytes);
    }
    st = rbt_set_push_rows(set->worker, set->local, &rows, set->stamps);
    if (set->is_in_place) {
        const bool keeps = st != RBT_OK || shows_own(table);
        if (keeps) {
            rbt_merge_apply(table->kind, set->values + begin, set->base + begin, elements);
        } else {
            memcpy(set->values + begin, set->base + begin, bytes);
        }
        if (st == RBT_OK && keeps) {
            memcpy(set->base + begin, set->values + begin, bytes);
        }
        if (st == RBT_OK && set->rest != NULL) {
            memset(set->rest + begin, 0, bytes);
        }
    } else if (st == RBT_OK) {
        rbt_merge_clear(table->kind, set->deltas + begin, elements);
    }
    return st;
}

/* --- Lists and ranges ------------------------------------------------------------------------ */

static rbt_status pull_list(rbt_worker *worker, rbt_table *table, int64_t staleness,
                            const struct rbt_rows *rows)
{
    struct rbt_worker_table *local = NULL;
    rbt_status st = check_list(table, rows->keys, rows->count);
    st = st != RBT_OK ? st : rbt_worker_table_of(worker, table, &local);
    st = st != RBT_OK ? st : rbt_keylist_assign(local->list, rows->keys, rows->count);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_want want = {.target = {.keys = local->list, .values = rows->values},
                                  .need = rbt_worker_need(worker, staleness)};
    struct rbt_age age = {0};
    st = rbt_worker_fetch(worker, local, &want, &age);
    if (st == RBT_OK) {
        rbt_worker_note_read(worker, age.clock);
    }
    return st;
}

rbt_status rbt_pull(rbt_worker *worker, rbt_table *table, const struct rbt_rows *rows)
{
    return pull_list(worker, table, rbt_table_staleness(table), rows);
}

rbt_status rbt_pull_within(rbt_worker *worker, rbt_table *table, int64_t staleness,
                           const struct rbt_rows *rows)
{
    const rbt_status st = rbt_worker_check_staleness(staleness);
    return st != RBT_OK ? st : pull_list(worker, table, staleness, rows);
}

rbt_status rbt_push(rbt_worker *worker, rbt_table *table, const struct rbt_rows *rows)
{
    struct rbt_worker_table *local = NULL;
    rbt_status st = check_list(table, rows->keys, rows->count);
    st = st != RBT_OK ? st : may_push(worker);
    st = st != RBT_OK ? st : rbt_worker_table_of(worker, table, &local);
    if (st != RBT_OK) {
        return st;
    }
    return rbt_set_push_rows(worker, local, rows, NULL);
}

void rbt_rows_free(struct rbt_rows *rows)
{
    rbt_free(rows->keys);
    rbt_free(rows->values);
    *rows = (struct rbt_rows){0};
}

/* Scans one shard behind what is in `rows` already; `capacity` rows fit. Returns in `count` how
 * many the shard has. */
static rbt_status scan_shard(rbt_worker *worker, uint32_t shard, struct rbt_shard_event *event,
                             const struct rbt_rows *rows, size_t capacity)
{
    const rbt_table *table = worker->job->tables[event->table];
    event->scan->keys = rows->keys == NULL ? NULL : rows->keys + rows->count;
    event->scan->values =
        rows->values == NULL ? NULL : (char *)rows->values + rows->count * table->row_size;
    event->scan->capacity = capacity - rows->count;
    struct rbt_driver_call call = {.shard = shard, .event = *event};
    return rbt_worker_step(worker, &call, 1);
}

struct order {
    const uint64_t *keys;
};

static int compare_positions(const void *a, const void *b, void *context)
{
    const struct order *order = context;
    const uint64_t x = order->keys[*(const size_t *)a];
    const uint64_t y = order->keys[*(const size_t *)b];
    return x < y ? -1 : x > y;
}

/* Puts the rows in order of key. */
static rbt_status sort_rows(const rbt_table *table, struct rbt_rows *rows)
{
    size_t *order = rbt_calloc(rows->count, sizeof *order);
    struct rbt_rows sorted = {.keys = rbt_calloc(rows->count, sizeof *rows->keys),
                              .values = rbt_calloc(rows->count, table->row_size),
                              .count = rows->count};
    if (order == NULL || sorted.keys == NULL || sorted.values == NULL) {
        rbt_free(order);
        rbt_rows_free(&sorted);
        return rbt_fail(RBT_E_NOMEM, "could not sort %zu rows", rows->count);
    }
    for (size_t i = 0; i < rows->count; i++) {
        order[i] = i;
    }
    struct order context = {rows->keys};
    qsort_r(order, rows->count, sizeof *order, compare_positions, &context);
    for (size_t i = 0; i < rows->count; i++) {
        sorted.keys[i] = rows->keys[order[i]];
        memcpy((char *)sorted.values + i * table->row_size,
               (const char *)rows->values + order[i] * table->row_size, table->row_size);
    }
    rbt_free(order);
    rbt_rows_free(rows);
    *rows = sorted;
    return RBT_OK;
}

/* Collects the rows of the shards that may hold some, unsorted; makes room as it learns how many
 * there are. */
static rbt_status collect(rbt_worker *worker, struct rbt_shard_event *event, struct rbt_rows *rows)
{
    const rbt_table *table = worker->job->tables[event->table];
    size_t capacity = 0;
    rbt_status st = RBT_OK;
    bool holds[RBT_JOB_SHARDS_MAX]; /* rows of the range, perhaps */
    (void)rbt_placement_shards(table->placement, event->scan->range, holds);
    for (uint32_t shard = 0; st == RBT_OK && shard < worker->job->shard_count;) {
        if (!holds[shard]) {
            shard++;
            continue;
        }
        st = scan_shard(worker, shard, event, rows, capacity);
        const size_t needed = rows->count + event->scan->count;
        if (st != RBT_OK || needed <= capacity) {
            rows->count = needed;
            shard++;
            continue;
        }
        capacity = needed + needed / 8; /* some more: the shard may grow while we allocate */
        uint64_t *keys = rbt_realloc(rows->keys, capacity, sizeof *keys);
        rows->keys = keys == NULL ? rows->keys : keys;
        void *values = rbt_realloc(rows->values, capacity, table->row_size);
        rows->values = values == NULL ? rows->values : values;
        if (keys == NULL || values == NULL) {
            st = rbt_fail(RBT_E_NOMEM, "could not allocate %zu rows", capacity);
        }
    }
    return st;
}

rbt_status rbt_pull_range(rbt_worker *worker, rbt_table *table, struct rbt_range range,
                          int64_t staleness, struct rbt_rows *rows)
{
    struct rbt_worker_table *local = NULL;
    rbt_status st = check_list(table, NULL, 0);
    const bool is_aside = staleness == RBT_STALENESS_OBSERVER;
    staleness = is_aside ? RBT_STALENESS_ANY : staleness;
    st = st != RBT_OK ? st : rbt_worker_check_staleness(staleness);
    st = st != RBT_OK ? st : rbt_worker_table_of(worker, table, &local);
    if (st != RBT_OK) {
        return st;
    }
    if (range.first > range.last) {
        return rbt_fail(RBT_E_INVALID, "the range ends before it begins");
    }
    struct rbt_shard_scan scan = {.range = range};
    struct rbt_shard_event event = {.kind = RBT_SHARD_SCAN,
                                    .worker = worker->index,
                                    .table = table->spec.number,
                                    .need = rbt_worker_need(worker, staleness),
                                    .request = worker->index,
                                    .is_aside = is_aside,
                                    .scan = &scan};
    struct rbt_rows found = {0};
    st = collect(worker, &event, &found);
    st = st != RBT_OK ? st : sort_rows(table, &found);
    if (st != RBT_OK) {
        rbt_rows_free(&found);
        return st;
    }
    *rows = found;
    return RBT_OK;
}

/* --- Recording ------------------------------------------------------------------------------- */

rbt_status rbt_worker_record_begin(rbt_worker *worker, rbt_table *table)
{
    struct rbt_worker_table *local = NULL;
    rbt_status st = check_list(table, NULL, 0);
    st = st != RBT_OK ? st : rbt_worker_table_of(worker, table, &local);
    if (st == RBT_OK) {
        local->is_recording = true;
        local->recorded_count = 0;
    }
    return st;
}

rbt_status rbt_worker_record_end(rbt_worker *worker, rbt_table *table, rbt_set_flags flags,
                                 rbt_set **set)
{
    struct rbt_worker_table *local = NULL;
    rbt_status st = rbt_worker_table_of(worker, table, &local);
    if (st == RBT_OK && !local->is_recording) {
        st = rbt_fail(RBT_E_INVALID, "table \"%s\" is not being recorded", table->spec.name);
    }
    if (st != RBT_OK) {
        return st;
    }
    local->is_recording = false;
    const size_t count = rbt_keys_sort(local->recorded, local->recorded_count);
    return rbt_set_create(worker, table, local->recorded, count, flags, set);
}
