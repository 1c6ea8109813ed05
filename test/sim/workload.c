/* sim/workload.c - workers that update and read tables in every way there is, at random.
 *
 * A worker writes down every update before it makes it and has every read judged as soon as it
 * returns. What it does depends on the seed and its number alone, so that a run can be repeated.
 * A call fails only if the worker's process was given up; the worker then tidies up and ends. */
#include "sim/workload.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "sim/checker.h"

enum {
    SETS = 2,         /* per table: one with deltas, one in place */
    CLOCKS_AGAIN = 3, /* of a run that only reads */
};

struct hand {
    struct sim_world *world;
    rbt_worker *worker;
    uint32_t me;
    struct rbt_rng rng;
    rbt_set *sets[SIM_TABLES_MAX][SETS];
    void *values;    /* (keys, elements) of any type */
    uint32_t *masks; /* (keys, elements) */
    uint32_t *index; /* (elements) */
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const rbt_status try_st = (call);                                                          \
        if (try_st != RBT_OK) {                                                                    \
            return try_st;                                                                         \
        }                                                                                          \
    } while (0)

static bool flip(struct hand *hand, double chance)
{
    return rbt_rng_uniform(&hand->rng) < chance;
}

static uint32_t below(struct hand *hand, uint32_t bound)
{
    return (uint32_t)rbt_rng_below(&hand->rng, bound);
}

static const struct sim_table_plan *plan_of(const struct hand *hand, uint32_t table)
{
    return &hand->world->plan->tables[table];
}

static size_t size_of(rbt_type type)
{
    return type == RBT_F32 || type == RBT_I32 ? 4 : 8;
}

static void note(struct hand *hand, const char *action, uint32_t table, uint32_t key,
                 uint64_t number)
{
    const bool has_key = table != UINT32_MAX && key != UINT32_MAX;
    const struct sim_entry entry = {.at = rbt_worker_seconds(hand->worker),
                                    .action = action,
                                    .worker = hand->me,
                                    .table = table,
                                    .key = has_key ? plan_of(hand, table)->keys[key] : UINT64_MAX,
                                    .clock = hand->world->workers[hand->me].completed,
                                    .number = number};
    sim_note(hand->world, &entry);
}

/* --- Updates --------------------------------------------------------------------------------- */

/* Writes down the worker's next update of a row. Returns its amount, or 0 if there were enough. */
static uint32_t make_update(struct hand *hand, uint32_t table, uint32_t key)
{
    struct sim_world *world = hand->world;
    const uint32_t element = sim_element(world, hand->me, world->workers[hand->me].completed);
    uint32_t *made = &sim_row(world, world->made, table, key)[element];
    uint32_t amount = 1;
    for (int i = 0; i < SIM_UPDATES_MAX; i++, amount *= 16) {
        if ((*made & amount) == 0) {
            *made |= amount;
            note(hand, "updates", table, key, amount);
            return amount;
        }
    }
    return 0;
}

/* Adds the amount at a place of an array of the type. */
static void add_to(rbt_type type, void *values, size_t place, uint32_t amount)
{
    switch (type) {
    case RBT_F32:
        ((float *)values)[place] += (float)amount;
        break;
    case RBT_F64:
        ((double *)values)[place] += amount;
        break;
    case RBT_I32:
        ((int32_t *)values)[place] += (int32_t)amount;
        break;
    case RBT_I64:
        ((int64_t *)values)[place] += amount;
        break;
    }
}

static uint32_t own_element(const struct hand *hand)
{
    return sim_element(hand->world, hand->me, hand->world->workers[hand->me].completed);
}

/* One row, by one of the calls for single rows. */
static rbt_status update_row(struct hand *hand, uint32_t table, uint32_t key)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    rbt_table *handle = hand->world->tables[table];
    uint32_t element = own_element(hand);
    const bool is_whole = plan->options.layout == RBT_DENSE && flip(hand, 0.5);
    const uint32_t amount = make_update(hand, table, key);
    if (amount == 0) {
        return RBT_OK;
    }
    if (is_whole) {
        memset(hand->values, 0, hand->world->elements * size_of(plan->options.type));
        add_to(plan->options.type, hand->values, element, amount);
        return rbt_add(hand->worker, handle, plan->keys[key], hand->values);
    }
    memset(hand->values, 0, 8);
    add_to(plan->options.type, hand->values, 0, amount);
    if (flip(hand, 0.5)) {
        return rbt_add_at(hand->worker, handle, plan->keys[key], element, hand->values);
    }
    const struct rbt_elements elements = {
        .index = &element, .values = hand->values, .count = 1, .capacity = 1};
    return rbt_add_elements(hand->worker, handle, plan->keys[key], &elements);
}

static rbt_status push_list(struct hand *hand, uint32_t table)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    const uint32_t element = own_element(hand);
    const size_t row_size = hand->world->elements * size_of(plan->options.type);
    uint64_t keys[SIM_KEYS_MAX];
    struct rbt_rows rows = {.keys = keys, .values = hand->values};
    memset(hand->values, 0, hand->world->plan->keys_max * row_size);
    for (uint32_t k = 0; k < plan->key_count; k++) {
        const uint32_t amount = flip(hand, 0.6) ? make_update(hand, table, k) : 0;
        if (amount != 0) {
            add_to(plan->options.type, hand->values, rows.count * hand->world->elements + element,
                   amount);
            keys[rows.count++] = plan->keys[k];
        }
    }
    return rbt_push(hand->worker, hand->world->tables[table], &rows);
}

/* Through a set; all of its rows, or those of a range. */
static rbt_status push_set(struct hand *hand, uint32_t table, uint32_t which)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    rbt_set *set = hand->sets[table][which];
    const uint32_t element = own_element(hand);
    const size_t count = rbt_set_count(set);
    const bool has_range = flip(hand, 0.2);
    const size_t first = has_range ? below(hand, (uint32_t)count) : 0;
    const size_t last = has_range ? first + below(hand, (uint32_t)(count - first)) : count - 1;
    void *target = which == 0 ? rbt_set_deltas(set) : rbt_set_values(set);
    for (size_t i = first; i <= last; i++) {
        const size_t key = rbt_keys_find(plan->keys, plan->key_count, rbt_set_keys(set)[i]);
        const uint32_t amount = flip(hand, 0.8) ? make_update(hand, table, (uint32_t)key) : 0;
        add_to(plan->options.type, target, i * hand->world->elements + element, amount);
    }
    if (!has_range) {
        return rbt_set_push(set);
    }
    const struct rbt_range range = {rbt_set_keys(set)[first], rbt_set_keys(set)[last]};
    return rbt_set_push_range(set, range);
}

/* --- Reads ----------------------------------------------------------------------------------- */

/* The staleness of the next read: the table's, or one of its own. */
static int64_t draw_staleness(struct hand *hand, uint32_t table)
{
    const int64_t usual = sim_check_staleness(hand->world, hand->me, table);
    const bool is_usual = !plan_of(hand, table)->mixes || flip(hand, 0.5);
    return is_usual ? usual : (int64_t)below(hand, 5) - 1; /* RBT_STALENESS_ANY .. 3 */
}

/* Has a row of the given type judged. */
static void judge(struct hand *hand, struct sim_read *read, const void *values)
{
    const rbt_type type = plan_of(hand, read->table)->options.type;
    sim_decode(type, values, hand->world->elements, hand->masks);
    read->worker = hand->me;
    read->masks = hand->masks;
    sim_check_read(hand->world, read);
}

static rbt_status get_row(struct hand *hand, uint32_t table, uint32_t key)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    rbt_table *handle = hand->world->tables[table];
    struct sim_read read = {
        .table = table, .key = key, .path = SIM_PATH_ROW, .staleness = draw_staleness(hand, table)};
    note(hand, "gets a row of", table, UINT32_MAX, key);
    TRY(rbt_get_within(hand->worker, handle, plan->keys[key], read.staleness, hand->values));
    struct rbt_freshness freshness = {.struct_size = sizeof freshness};
    rbt_row_freshness(hand->worker, handle, plan->keys[key], &freshness);
    read.claimed = freshness.clock;
    judge(hand, &read, hand->values);
    return RBT_OK;
}

static rbt_status get_sparse(struct hand *hand, uint32_t table, uint32_t key)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    rbt_table *handle = hand->world->tables[table];
    const rbt_type type = plan->options.type;
    struct rbt_elements elements = {
        .index = hand->index, .values = hand->values, .capacity = hand->world->elements};
    struct sim_read read = {.worker = hand->me,
                            .table = table,
                            .key = key,
                            .path = SIM_PATH_ROW,
                            .staleness = sim_check_staleness(hand->world, hand->me, table),
                            .masks = hand->masks};
    note(hand, "gets a row of", table, UINT32_MAX, key);
    TRY(rbt_get_sparse(hand->worker, handle, plan->keys[key], &elements));
    struct rbt_freshness freshness = {.struct_size = sizeof freshness};
    rbt_row_freshness(hand->worker, handle, plan->keys[key], &freshness);
    read.claimed = freshness.clock;
    memset(hand->masks, 0, hand->world->elements * sizeof *hand->masks);
    for (size_t i = 0; i < elements.count; i++) {
        RBT_ASSERT(elements.index[i] < hand->world->elements);
        sim_decode(type, (const char *)hand->values + i * size_of(type), 1,
                   &hand->masks[elements.index[i]]);
    }
    sim_check_read(hand->world, &read);
    return RBT_OK;
}

static rbt_status pull_list(struct hand *hand, uint32_t table)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    rbt_table *handle = hand->world->tables[table];
    const size_t row_size = hand->world->elements * size_of(plan->options.type);
    uint64_t keys[SIM_KEYS_MAX];
    uint32_t places[SIM_KEYS_MAX];
    struct rbt_rows rows = {.keys = keys, .values = hand->values};
    for (uint32_t k = 0; k < plan->key_count; k++) {
        if (flip(hand, 0.6)) {
            places[rows.count] = k;
            keys[rows.count++] = plan->keys[k];
        }
    }
    const int64_t staleness = sim_check_staleness(hand->world, hand->me, table);
    note(hand, "pulls a list of", table, UINT32_MAX, rows.count);
    TRY(rbt_pull(hand->worker, handle, &rows));
    for (size_t i = 0; i < rows.count; i++) {
        struct sim_read read = {.table = table,
                                .key = places[i],
                                .path = SIM_PATH_LIST,
                                .staleness = staleness,
                                .claimed = -1};
        judge(hand, &read, (const char *)hand->values + i * row_size);
    }
    return RBT_OK;
}

static rbt_status pull_range(struct hand *hand, uint32_t table)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    const size_t row_size = hand->world->elements * size_of(plan->options.type);
    const int64_t staleness = draw_staleness(hand, table);
    struct rbt_rows rows = {0};
    note(hand, "pulls the range of", table, UINT32_MAX, 0);
    TRY(rbt_pull_range(hand->worker, hand->world->tables[table], RBT_RANGE_ALL, staleness, &rows));
    for (uint32_t k = 0; k < plan->key_count; k++) {
        const size_t at = rbt_keys_find(rows.keys, rows.count, plan->keys[k]);
        struct sim_read read = {.table = table,
                                .key = k,
                                .path = SIM_PATH_RANGE,
                                .staleness = staleness,
                                .claimed = -1};
        memset(hand->values, 0, row_size); /* a row that nobody has updated is not there */
        judge(hand, &read, at < rows.count ? (char *)rows.values + at * row_size : hand->values);
    }
    rbt_rows_free(&rows);
    return RBT_OK;
}

/* Pulls now, or by a ticket while the worker computes. */
static rbt_status pull(struct hand *hand, uint32_t table, rbt_set *set, int64_t staleness)
{
    rbt_table *handle = hand->world->tables[table];
    const bool is_usual = staleness == rbt_table_staleness(handle);
    /* What others of the process do after the pull is not in it. */
    const bool is_shared = plan_of(hand, table)->options.overlay == RBT_OVERLAY_PROCESS;
    if (!is_usual || is_shared || plan_of(hand, table)->changes || flip(hand, 0.7)) {
        return rbt_set_pull_within(set, staleness);
    }
    rbt_ticket ticket = 0;
    TRY(rbt_set_pull_async(set, NULL, &ticket));
    rbt_worker_spend(hand->worker, hand->world->plan->compute * rbt_rng_uniform(&hand->rng));
    return rbt_ticket_wait(hand->worker, ticket);
}

static rbt_status pull_set(struct hand *hand, uint32_t table, uint32_t which)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    const size_t row_size = hand->world->elements * size_of(plan->options.type);
    rbt_set *set = hand->sets[table][which];
    const int64_t staleness = draw_staleness(hand, table);
    note(hand, which == 0 ? "pulls a set of" : "pulls a set in place of", table, UINT32_MAX, 0);
    TRY(pull(hand, table, set, staleness));
    for (size_t i = 0; i < rbt_set_count(set); i++) {
        const size_t key = rbt_keys_find(plan->keys, plan->key_count, rbt_set_keys(set)[i]);
        struct sim_read read = {.table = table,
                                .key = (uint32_t)key,
                                .path = which == 0 ? SIM_PATH_SET : SIM_PATH_SET_IN_PLACE,
                                .staleness = staleness,
                                .claimed = rbt_set_clock(set)};
        judge(hand, &read, (const char *)rbt_set_values(set) + i * row_size);
    }
    return RBT_OK;
}

/* --- All together ---------------------------------------------------------------------------- */

static rbt_status read_something(struct hand *hand, uint32_t table)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    const uint32_t key = below(hand, plan->key_count);
    hand->world->workers[hand->me].calls[table]++;
    if (plan->options.layout == RBT_SPARSE) {
        return get_sparse(hand, table, key);
    }
    switch (below(hand, 8)) {
    case 0:
    case 1:
        return pull_set(hand, table, 0);
    case 2:
    case 3:
        return pull_set(hand, table, 1);
    case 4:
        return pull_list(hand, table);
    case 5:
        return flip(hand, 0.3) ? pull_range(hand, table) : pull_list(hand, table);
    default:
        return get_row(hand, table, key);
    }
}

static rbt_status update_something(struct hand *hand, uint32_t table)
{
    const struct sim_table_plan *plan = plan_of(hand, table);
    const uint32_t key = below(hand, plan->key_count);
    const uint32_t way = below(hand, 6);
    if (plan->options.layout == RBT_SPARSE || way > 3) {
        return update_row(hand, table, key);
    }
    if (way == 3) {
        return push_list(hand, table);
    }
    return push_set(hand, table, way % SETS);
}

/* Changes it for all tables that follow the job. */
static rbt_status change_job(struct hand *hand)
{
    struct sim_world *world = hand->world;
    const struct sim_scenario *plan = world->plan;
    uint64_t began[SIM_TABLES_MAX] = {0};
    bool hides = true;
    for (uint32_t t = 0; t < plan->table_count; t++) {
        hides = hides && (!plan->tables[t].follows_job ||
                          plan->tables[t].options.partial == RBT_PARTIAL_HIDE);
    }
    const int64_t staleness = hides ? (int64_t)below(hand, 5) - 1 : (int64_t)below(hand, 3) + 1;
    for (uint32_t t = 0; t < plan->table_count; t++) {
        began[t] = plan->tables[t].follows_job ? sim_change_begin(world, t, staleness) : 0;
    }
    note(hand, "changes the job's staleness", UINT32_MAX, UINT32_MAX, (uint64_t)staleness);
    TRY(rbt_job_set_staleness(world->job, staleness));
    for (uint32_t t = 0; t < plan->table_count; t++) {
        if (plan->tables[t].follows_job) {
            sim_change_end(world, t, began[t]);
        }
    }
    note(hand, "has changed the job's staleness", UINT32_MAX, UINT32_MAX, (uint64_t)staleness);
    return RBT_OK;
}

static rbt_status change_staleness(struct hand *hand, uint32_t table)
{
    struct sim_world *world = hand->world;
    if (plan_of(hand, table)->follows_job && flip(hand, 0.5)) {
        return change_job(hand);
    }
    const bool hides = plan_of(hand, table)->options.partial == RBT_PARTIAL_HIDE;
    const int64_t staleness = hides ? (int64_t)below(hand, 5) - 1 : (int64_t)below(hand, 3) + 1;
    note(hand, "changes the staleness of", table, UINT32_MAX, (uint64_t)staleness);
    const uint64_t began = sim_change_begin(world, table, staleness);
    TRY(rbt_table_set_staleness(world->tables[table], staleness));
    sim_change_end(world, table, began);
    note(hand, "has changed the staleness of", table, UINT32_MAX, (uint64_t)staleness);
    return RBT_OK;
}

static rbt_status look_at_clocks(struct hand *hand)
{
    struct sim_world *world = hand->world;
    const int64_t floor = rbt_worker_shard_clock(hand->worker);
    if (world->plan->doomed[0] != '\0') {
        return RBT_OK; /* if the job is lost by now, it hears anything, so that it ends */
    }
    for (uint32_t w = 0; w < world->plan->workers; w++) {
        const struct sim_worker_record *other = &world->workers[w];
        if (!other->is_leaving && floor > other->clock) {
            const struct sim_verdict about = {.worker = hand->me,
                                              .other = w,
                                              .server = UINT32_MAX,
                                              .table = UINT32_MAX,
                                              .key = UINT64_MAX};
            sim_blame(world, SIM_MARKER, &about,
                      "worker %u hears that all have completed %lld clocks: worker %u has %lld",
                      hand->me, (long long)floor, w, (long long)other->clock);
        }
    }
    return RBT_OK;
}

static rbt_status operate(struct hand *hand, bool may_update)
{
    const uint32_t table = below(hand, hand->world->plan->table_count);
    if (flip(hand, 0.6)) {
        rbt_worker_spend(hand->worker, hand->world->plan->compute * rbt_rng_uniform(&hand->rng));
    }
    if (flip(hand, 0.02)) {
        return look_at_clocks(hand);
    }
    const bool may_change = hand->me == 0 || hand->world->plan->all_change;
    if (may_change && may_update && plan_of(hand, table)->changes && flip(hand, 0.1)) {
        return change_staleness(hand, table);
    }
    return may_update && flip(hand, 0.5) ? update_something(hand, table)
                                         : read_something(hand, table);
}

static rbt_status end_clock(struct hand *hand)
{
    struct sim_worker_record *record = &hand->world->workers[hand->me];
    note(hand, "ends its clock", UINT32_MAX, UINT32_MAX, 0);
    record->clock++;
    TRY(rbt_clock(hand->worker));
    record->completed++;
    return RBT_OK;
}

static rbt_status create_sets(struct hand *hand)
{
    for (uint32_t t = 0; t < hand->world->plan->table_count; t++) {
        const struct sim_table_plan *plan = plan_of(hand, t);
        for (uint32_t i = 0; plan->options.layout == RBT_DENSE && i < SETS; i++) {
            uint64_t keys[SIM_KEYS_MAX];
            size_t count = 0;
            for (uint32_t k = 0; k < plan->key_count; k++) {
                if (flip(hand, 0.7) || (count == 0 && k + 1 == plan->key_count)) {
                    keys[count++] = plan->keys[k];
                }
            }
            TRY(rbt_set_create(hand->worker, hand->world->tables[t], keys, count,
                               i == 0 ? RBT_SET_DELTAS : RBT_SET_IN_PLACE, &hand->sets[t][i]));
        }
    }
    return RBT_OK;
}

static rbt_status live(struct hand *hand)
{
    const struct sim_scenario *plan = hand->world->plan;
    struct sim_worker_record *record = &hand->world->workers[hand->me];
    TRY(create_sets(hand));
    for (int64_t c = 0; c < plan->clocks[hand->me]; c++) {
        const uint32_t count = below(hand, plan->operations_max + 1);
        for (uint32_t i = 0; i < count; i++) {
            TRY(operate(hand, true));
        }
        /* The last clock may be left to rbt_worker_leave(). */
        if (c + 1 < plan->clocks[hand->me] || flip(hand, 0.7)) {
            TRY(end_clock(hand));
        }
    }
    if (record->completed < plan->clocks[hand->me]) {
        record->clock++; /* which it ends if there is something to send */
    }
    note(hand, "leaves", UINT32_MAX, UINT32_MAX, 0);
    record->is_leaving = true;
    TRY(rbt_worker_leave(hand->worker));
    record->completed = rbt_worker_clock(hand->worker);
    for (uint32_t i = 0; i < plan->operations_max && flip(hand, 0.3); i++) {
        TRY(operate(hand, false));
    }
    return RBT_OK;
}

/* A run after the first: nothing is updated. */
static rbt_status look_again(struct hand *hand)
{
    const struct sim_scenario *plan = hand->world->plan;
    TRY(create_sets(hand));
    for (uint32_t c = 0; c < CLOCKS_AGAIN; c++) {
        const uint32_t count = below(hand, plan->operations_max + 1);
        for (uint32_t i = 0; i < count; i++) {
            rbt_worker_spend(hand->worker, plan->compute * rbt_rng_uniform(&hand->rng));
            TRY(read_something(hand, below(hand, plan->table_count)));
        }
        note(hand, "ends its clock", UINT32_MAX, UINT32_MAX, 0);
        TRY(rbt_clock(hand->worker));
    }
    return rbt_worker_leave(hand->worker);
}

static void *make(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    RBT_ASSERT(memory != NULL);
    return memory;
}

rbt_status sim_work(rbt_worker *worker, void *argument)
{
    struct sim_world *world = argument;
    struct hand hand = {.world = world, .worker = worker, .me = rbt_worker_index(worker)};
    const size_t cells = (size_t)world->plan->keys_max * world->elements;
    rbt_rng_init(&hand.rng, world->plan->seed, 0x4a9d, hand.me);
    hand.values = make(cells, sizeof(double));
    hand.masks = make(cells, sizeof *hand.masks);
    hand.index = make(world->elements, sizeof *hand.index);
    const rbt_status st = world->run > 1 ? look_again(&hand) : live(&hand);
    if (st != RBT_OK) {
        note(&hand, "has failed", UINT32_MAX, UINT32_MAX, (uint64_t)st);
        world->workers[hand.me].has_failed = true;
        if (world->plan->doomed[0] == '\0' && !sim_may_fail(world->plan)) {
            const struct sim_verdict about = {.worker = hand.me,
                                              .other = UINT32_MAX,
                                              .server = UINT32_MAX,
                                              .table = UINT32_MAX,
                                              .key = UINT64_MAX};
            sim_blame(world, SIM_LIVENESS, &about, "a call of worker %u failed: %s", hand.me,
                      rbt_last_error());
        }
    }
    for (uint32_t t = 0; t < SIM_TABLES_MAX; t++) {
        for (uint32_t i = 0; i < SETS; i++) {
            rbt_set_destroy(hand.sets[t][i]);
        }
    }
    free(hand.index);
    free(hand.masks);
    free(hand.values);
    return st;
}
