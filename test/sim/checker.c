/* sim/checker.c - the promises of requirements 3.3 as statements about sets of updates.
 *
 * After every event, of every server (p, q are workers, t a clock):
 *   exactly once  what a row shows and what is held of it are disjoint sets of updates that were
 *                 made, and in the end everything is shown;
 *   marker        a server that says "q has completed k clocks" has everything of q stamped < k;
 *   hidden        nothing is shown of a clock that its worker has not completed, nor half a clock,
 *                 unless the table shows partial clocks; nothing of clock floor + s or later;
 *   monotone      clocks, floors, versions, what is shown and what workers have heard only grow,
 *                 and workers have heard nothing that is not so;
 *   promptness    nothing is held that may be shown, no request waits whose floor is reached;
 *   clean         no list of keys is kept that nobody can name, and keys are counted as waiting
 *                 that do; when all have left nothing waits, and no copy of rows is kept for them.
 * At every read of a worker at clock c with staleness s, which is one that may be in force when the
 * read begins (below):
 *   read rule     everything stamped < c - s is in it, nothing of others stamped >= c + s, and of
 *                 others only what their shard shows;
 *   overlay       own updates (those of the process) are in it, whatever the shards show;
 *   monotone      what the worker has seen it sees again.
 *
 * The staleness of a table may change at any time. A change may be in force from when its call
 * begins until the call of another one has returned that began after its own had: when all calls
 * have returned, one after the other, that is the last one, in every process and at every server.
 * Of calls at once nobody knows which came last. What a server shows stays, and keeps the largest
 * bound that ever was; what it must show is that which the least bound that may be in force
 * demands.
 *
 * A worker whose process was given up is excused: of its updates those must be there whose clock a
 * server had noted as completed. It may itself see more than its clock allows, since nobody waits
 * for it any more. */
#include "sim/checker.h"

#include <string.h>

#include "base/assert.h"

static const struct sim_verdict nobody = {.worker = UINT32_MAX,
                                          .other = UINT32_MAX,
                                          .server = UINT32_MAX,
                                          .table = UINT32_MAX,
                                          .key = UINT64_MAX};

/* Clocks < this are bound to be at the server: those that it has noted, of a worker that left all
 * of them. */
static int64_t promised_clock(const struct sim_world *world, uint32_t server, uint32_t worker)
{
    const struct sim_server_record *record = &world->servers[server];
    if (record->clocks[worker] != RBT_CLOCK_GONE) {
        return record->clocks[worker];
    }
    return world->plan->doomed[0] != '\0' ? record->known[worker] : world->plan->clocks_max;
}

/* --- Servers --------------------------------------------------------------------------------- */

/* A cell of a server: the updates of one worker and clock to a row. */
struct cell {
    uint32_t server;
    uint32_t table;
    uint32_t key;
    uint32_t worker;
    int64_t clock;
    uint32_t made;
    uint32_t shown_before;
    uint32_t shown;
    uint32_t held;
};

static void blame_cell(struct sim_world *world, enum sim_invariant broken, const struct cell *cell,
                       const char *what)
{
    const struct sim_table_plan *plan = &world->plan->tables[cell->table];
    struct sim_verdict about = nobody;
    about.worker = cell->worker;
    about.server = cell->server;
    about.table = cell->table;
    about.key = plan->keys[cell->key];
    sim_blame(world, broken, &about,
              "server/%u %s: worker %u, clock %lld, table %s, row %llu: made %x, shown %x "
              "(before: %x), held %x",
              cell->server, what, cell->worker, (long long)cell->clock, plan->name,
              (unsigned long long)plan->keys[cell->key], cell->made, cell->shown,
              cell->shown_before, cell->held);
}

/* Everything that can be wrong with one cell at its server. */
static void judge_cell(struct sim_world *world, const struct cell *cell)
{
    const struct sim_server_record *server = &world->servers[cell->server];
    const struct rbt_table_options *options = &world->plan->tables[cell->table].options;
    const int64_t clock = server->clocks[cell->worker];
    const int64_t most = world->staleness_most[cell->table];
    const bool is_over = clock > cell->clock;
    const bool hides = options->partial == RBT_PARTIAL_HIDE;
    const bool is_floored = server->floor != RBT_CLOCK_GONE;
    if ((cell->shown & ~cell->made) != 0) {
        blame_cell(world, SIM_EXACTLY_ONCE, cell, "shows an update twice, or one nobody made");
    }
    if ((cell->held & ~cell->made) != 0 || (cell->held & cell->shown) != 0) {
        blame_cell(world, SIM_EXACTLY_ONCE, cell, "has taken an update twice");
    }
    if ((cell->shown_before & ~cell->shown) != 0) {
        blame_cell(world, SIM_MONOTONE, cell, "no longer shows what it has shown");
    }
    if (cell->clock < promised_clock(world, cell->server, cell->worker) &&
        (cell->shown | cell->held) != cell->made) {
        blame_cell(world, SIM_MARKER, cell, "counts a clock as completed and lacks updates of it");
    }
    if (cell->shown != 0 && hides && !is_over) {
        blame_cell(world, SIM_HIDDEN, cell, "shows a clock that is not over");
    }
    if (cell->shown != 0 && hides && cell->held != 0) {
        blame_cell(world, SIM_HIDDEN, cell, "shows half a clock");
    }
    if (cell->shown != 0 && is_floored && most != RBT_STALENESS_ANY &&
        cell->clock >= server->floor + most) {
        blame_cell(world, SIM_READ_RULE, cell, "shows a clock further ahead than the staleness");
    }
    const bool is_near =
        !is_floored || cell->clock < server->floor + sim_least_staleness(world, cell->table);
    if (cell->held != 0 && is_near && (is_over || !hides)) {
        blame_cell(world, SIM_PROMPTNESS, cell, "holds back what may be shown");
    }
}

/* Where what a server holds of a table is gathered. */
struct holding {
    struct sim_world *world;
    uint32_t server;
    uint32_t table;
    uint32_t *held; /* (keys, elements) */
};

static void add_held(void *context, const struct rbt_shard_held *held)
{
    const struct holding *holding = context;
    const struct sim_world *world = holding->world;
    const struct sim_table_plan *plan = &world->plan->tables[holding->table];
    const struct rbt_batch *batch = &held->batch;
    const size_t size = plan->options.type == RBT_F32 || plan->options.type == RBT_I32 ? 4 : 8;
    for (size_t i = 0; i < batch->count; i++) {
        const size_t at = rbt_batch_position(batch, i);
        const size_t key = rbt_keys_find(plan->keys, plan->key_count, batch->keys[at]);
        RBT_ASSERT(key < plan->key_count);
        uint32_t *row = holding->held + key * world->elements;
        const size_t first = batch->offsets != NULL ? batch->offsets[at] : at * world->elements;
        const size_t last =
            batch->offsets != NULL ? batch->offsets[at + 1] : first + world->elements;
        for (size_t k = first; k < last; k++) {
            uint32_t mask = 0;
            sim_decode(plan->options.type, (const char *)batch->values + k * size, 1, &mask);
            row[batch->offsets != NULL ? batch->elements[k] : k - first] += mask;
        }
    }
}

/* Takes the elements of a sparse row. */
struct sparse {
    const struct sim_table_plan *plan;
    uint32_t *masks;
};

static void take_elements(void *context, const uint32_t *index, const void *values, size_t count)
{
    const struct sparse *sparse = context;
    const rbt_type type = sparse->plan->options.type;
    const size_t size = type == RBT_F32 || type == RBT_I32 ? 4 : 8;
    for (size_t i = 0; i < count; i++) {
        RBT_ASSERT(index[i] < sparse->plan->options.width);
        sim_decode(type, (const char *)values + i * size, 1, &sparse->masks[index[i]]);
    }
}

/* What the shard shows of a row, as masks. */
static void look_at_row(struct sim_world *world, const struct cell *place, uint32_t *masks)
{
    const struct sim_table_plan *plan = &world->plan->tables[place->table];
    struct sparse sparse = {plan, masks};
    struct rbt_batch batch = {
        .table = place->table, .count = 1, .keys = &plan->keys[place->key], .values = world->raw};
    const struct rbt_shard_event pull = {.kind = RBT_SHARD_PULL,
                                         .table = place->table,
                                         .batches = &batch,
                                         .batch_count = 1,
                                         .need = RBT_CLOCK_ANY,
                                         .on_elements = take_elements,
                                         .context = &sparse};
    struct rbt_shard_effect effects[2];
    struct rbt_shard_outbox out = {.effects = effects};
    memset(masks, 0, world->elements * sizeof *masks);
    rbt_shard_step(rbt_inspect_shard(world->simulation, place->server), &pull, &out);
    RBT_ASSERT(out.count == 1 && effects[0].kind == RBT_SHARD_ANSWERED);
    if (plan->options.layout == RBT_DENSE) {
        sim_decode(plan->options.type, world->raw, world->elements, masks);
    }
}

/* Compares a row with what it was, and judges it; `held` is what is held of it. */
static void judge_row(struct sim_world *world, struct cell *cell, const uint32_t *held)
{
    uint32_t *visible = sim_row(world, world->visible, cell->table, cell->key);
    const uint32_t *made = sim_row(world, world->made, cell->table, cell->key);
    look_at_row(world, cell, world->masks);
    for (uint32_t e = 0; e < world->elements; e++) {
        if ((made[e] | world->masks[e] | held[e]) == 0) {
            continue;
        }
        cell->worker = e / (uint32_t)world->plan->clocks_max;
        cell->clock = e % world->plan->clocks_max;
        cell->made = made[e];
        cell->shown_before = visible[e];
        cell->shown = world->masks[e];
        cell->held = held[e];
        judge_cell(world, cell);
    }
    memcpy(visible, world->masks, world->elements * sizeof *visible);
    memcpy(sim_row(world, world->held, cell->table, cell->key), held,
           world->elements * sizeof *held);
}

static void judge_rows(struct sim_world *world, uint32_t server)
{
    uint32_t *held = world->gathered;
    for (uint32_t t = 0; t < world->plan->table_count; t++) {
        struct holding holding = {world, server, t, held};
        memset(held, 0, (size_t)world->plan->keys_max * world->elements * sizeof *held);
        rbt_shard_visit_held(rbt_inspect_shard(world->simulation, server), t, add_held, &holding);
        for (uint32_t k = 0; k < world->plan->tables[t].key_count; k++) {
            struct cell cell = {.server = server, .table = t, .key = k};
            if (sim_owner(world, t, k) == server) {
                judge_row(world, &cell, held + (size_t)k * world->elements);
            }
        }
    }
}

/* The shard's version; as a side effect shows that looking changes nothing. */
static uint64_t look_at_version(struct sim_world *world, uint32_t server)
{
    struct rbt_shard_scan nothing = {.range = {1, 0}};
    const struct rbt_shard_event scan = {
        .kind = RBT_SHARD_SCAN, .need = RBT_CLOCK_ANY, .scan = &nothing};
    struct rbt_shard_effect effects[2];
    struct rbt_shard_outbox out = {.effects = effects};
    rbt_shard_step(rbt_inspect_shard(world->simulation, server), &scan, &out);
    return out.version;
}

/* Notes the clocks of the server. Returns true if one has changed. */
static bool judge_clocks(struct sim_world *world, uint32_t server)
{
    struct sim_server_record *record = &world->servers[server];
    const rbt_shard *shard = rbt_inspect_shard(world->simulation, server);
    struct sim_verdict about = nobody;
    int64_t floor = RBT_CLOCK_GONE;
    bool has_changed = false;
    about.server = server;
    for (uint32_t w = 0; w < world->plan->workers; w++) {
        const int64_t clock = rbt_shard_clock(shard, w);
        const uint64_t arrived = rbt_shard_arrived(shard, w);
        about.worker = w;
        if (clock < record->clocks[w] || arrived < record->arrived[w]) {
            sim_blame(world, SIM_MONOTONE, &about, "server/%u puts worker %u back, from %lld",
                      server, w, (long long)record->clocks[w]);
        }
        if (clock != RBT_CLOCK_GONE && clock > world->workers[w].clock) {
            sim_blame(world, SIM_MARKER, &about,
                      "server/%u says that worker %u has completed %lld clocks: it has only %lld",
                      server, w, (long long)clock, (long long)world->workers[w].clock);
        }
        if (clock == RBT_CLOCK_GONE && !world->workers[w].is_leaving &&
            !world->workers[w].has_failed) {
            sim_blame(world, SIM_LIVENESS, &about, "server/%u has given up worker %u for nothing",
                      server, w);
        }
        has_changed = has_changed || clock != record->clocks[w];
        record->clocks[w] = clock;
        record->arrived[w] = arrived;
        record->known[w] = clock == RBT_CLOCK_GONE ? record->known[w] : clock;
        floor = clock < floor ? clock : floor;
    }
    about.worker = UINT32_MAX;
    if (floor < record->floor) {
        sim_blame(world, SIM_MONOTONE, &about, "the floor of server/%u falls", server);
    }
    record->floor = floor;
    return has_changed;
}

static void judge_waiting(struct sim_world *world, uint32_t server)
{
    const struct sim_server_record *record = &world->servers[server];
    struct rbt_inspect_kept kept;
    struct sim_verdict about = nobody;
    about.server = server;
    rbt_inspect_kept(world->simulation, server, &kept);
    if (world->run == 1 && kept.need != RBT_CLOCK_GONE && kept.need <= record->floor) {
        sim_blame(world, SIM_PROMPTNESS, &about,
                  "a request waits at server/%u for floor %lld, which is %lld", server,
                  (long long)kept.need, (long long)record->floor);
    }
    if (kept.keys != kept.keys_found) {
        sim_blame(world, SIM_CLEAN, &about,
                  "server/%u counts %llu keys of requests that wait, which have %llu", server,
                  (unsigned long long)kept.keys, (unsigned long long)kept.keys_found);
    }
    if (kept.lists_idle > 0) {
        sim_blame(world, SIM_CLEAN, &about,
                  "server/%u keeps %u lists of keys that nobody can name any more", server,
                  kept.lists_idle);
    }
}

/* The run is over: nobody waits, and nobody will ask for changes of what he was sent. */
static void judge_left_behind(struct sim_world *world, uint32_t server)
{
    struct rbt_inspect_kept kept;
    struct sim_verdict about = nobody;
    about.server = server;
    rbt_inspect_kept(world->simulation, server, &kept);
    const size_t copies = rbt_inspect_copies(world->simulation, server);
    if (kept.requests > 0 || kept.slots > 0 || kept.keys > 0 || copies > 0) {
        sim_blame(world, SIM_CLEAN, &about,
                  "when all have left server/%u keeps %u requests, %u slots, %llu keys, and %zu "
                  "copies of rows",
                  server, kept.requests, kept.slots, (unsigned long long)kept.keys, copies);
    }
}

/* What the workers have heard of the server. */
static void judge_news(struct sim_world *world, uint32_t server)
{
    const struct sim_server_record *record = &world->servers[server];
    struct sim_verdict about = nobody;
    about.server = server;
    for (uint32_t w = 0; w < world->plan->workers; w++) {
        struct sim_worker_record *worker = &world->workers[w];
        const int64_t floor = rbt_inspect_heard_floor(world->simulation, w, server);
        const uint64_t arrived = rbt_inspect_heard_arrived(world->simulation, w, server);
        about.worker = w;
        if (floor < worker->heard[server] || arrived < worker->arrived[server]) {
            sim_blame(world, SIM_MONOTONE, &about, "worker %u forgets what it heard of server/%u",
                      w, server);
        }
        if (floor > record->floor || arrived > record->arrived[w]) {
            sim_blame(world, SIM_MARKER, &about,
                      "worker %u believes of server/%u what is not so: floor %lld (is %lld), "
                      "message %llu (is %llu)",
                      w, server, (long long)floor, (long long)record->floor,
                      (unsigned long long)arrived, (unsigned long long)record->arrived[w]);
        }
        worker->heard[server] = floor;
        worker->arrived[server] = arrived;
    }
}

static void judge_time(struct sim_world *world)
{
    if (world->now > world->plan->seconds_max * world->run) {
        sim_blame(world, SIM_LIVENESS, &nobody,
                  "the run is not over after %.0f virtual seconds; all faults have healed",
                  world->now);
    }
}

void sim_check_event(struct sim_world *world)
{
    struct sim_entry entry = {.table = UINT32_MAX, .key = UINT64_MAX};
    rbt_inspect_event(world->simulation, &entry.event);
    entry.event.from = sim_keep_name(world, entry.event.from);
    entry.event.to = sim_keep_name(world, entry.event.to);
    entry.at = (double)entry.event.at * 1e-9;
    entry.worker = entry.event.worker;
    entry.number = entry.event.number;
    world->now = entry.at;
    world->events++;
    sim_note(world, &entry);
    if (world->run > 1) { /* clocks begin anew, and nothing changes any more */
        for (uint32_t s = 0; s < world->plan->servers; s++) {
            judge_waiting(world, s);
        }
        judge_time(world);
        return;
    }
    const bool is_told = world->staleness_noted != world->staleness_changes;
    world->staleness_noted = world->staleness_changes;
    for (uint32_t s = 0; s < world->plan->servers; s++) {
        char name[32];
        snprintf(name, sizeof name, "server/%u", s);
        if (rbt_inspect_shard(world->simulation, s) == NULL) {
            continue; /* nobody has greeted it yet, or it was lost */
        }
        const bool is_touched = strcmp(entry.event.to, name) == 0;
        const uint64_t version = look_at_version(world, s);
        const bool has_moved = judge_clocks(world, s);
        if (version < world->servers[s].version) {
            sim_blame(world, SIM_MONOTONE, &nobody, "the version of server/%u falls", s);
        }
        if (is_touched || has_moved || is_told || version != world->servers[s].version) {
            judge_rows(world, s);
        }
        world->servers[s].version = version;
        judge_waiting(world, s);
        judge_news(world, s);
    }
    judge_time(world);
}

/* --- Reads ----------------------------------------------------------------------------------- */

static void blame_read(struct sim_world *world, enum sim_invariant broken,
                       const struct sim_read *read, uint32_t element, const char *what)
{
    const struct sim_table_plan *plan = &world->plan->tables[read->table];
    static const char *const paths[] = {"rbt_get", "set", "set in place", "rbt_pull",
                                        "rbt_pull_range"};
    const uint32_t *made = sim_row(world, world->made, read->table, read->key);
    const uint32_t *shown = sim_row(world, world->visible, read->table, read->key);
    struct sim_verdict about = nobody;
    about.worker = read->worker;
    about.other = element / (uint32_t)world->plan->clocks_max;
    about.server = sim_owner(world, read->table, read->key);
    about.table = read->table;
    about.key = plan->keys[read->key];
    sim_blame(world, broken, &about,
              "worker %u at clock %lld reads (%s, staleness %lld) %s row %llu %s: worker %u, "
              "clock %lld: made %x, read %x; server/%u shows %x",
              read->worker, (long long)world->workers[read->worker].completed, paths[read->path],
              (long long)read->staleness, plan->name, (unsigned long long)about.key, what,
              about.other, (long long)(element % world->plan->clocks_max), made[element],
              read->masks[element], about.server, shown[element]);
}

/* Whether the read shows everything that `other` has made, at once. */
static bool shows_all(const struct sim_world *world, const struct sim_read *read, uint32_t other)
{
    if (read->path == SIM_PATH_RANGE) {
        return false;
    }
    switch (world->plan->tables[read->table].options.overlay) {
    case RBT_OVERLAY_OWN:
        return other == read->worker;
    case RBT_OVERLAY_PROCESS:
        return other / world->plan->threads == read->worker / world->plan->threads;
    case RBT_OVERLAY_NONE:
    case RBT_OVERLAY_REPLICA:
        break;
    }
    return false;
}

/* The bounds of a read for the updates of one worker. */
struct bounds {
    int64_t first_missing; /* everything stamped less is in it */
    int64_t first_hidden;  /* nothing stamped this or more is */
    bool shows_all;        /* whatever was made is in it, */
    int64_t first_dropped; /* if it is stamped less */
    bool is_replica;       /* own updates, until they are replaced */
};

static struct bounds bounds_of(const struct sim_world *world, const struct sim_read *read,
                               uint32_t other)
{
    const struct sim_worker_record *reader = &world->workers[read->worker];
    const int64_t most = world->staleness_most[read->table];
    const rbt_overlay overlay = world->plan->tables[read->table].options.overlay;
    const bool is_free = reader->is_leaving || reader->has_failed;
    const uint32_t server = sim_owner(world, read->table, read->key);
    int64_t need = read->staleness == RBT_STALENESS_ANY ? 0 : reader->completed - read->staleness;
    need = read->claimed > need ? read->claimed : need;
    if (world->servers[server].clocks[other] == RBT_CLOCK_GONE) {
        const int64_t promised = promised_clock(world, server, other);
        need = promised < need ? promised : need;
    }
    return (struct bounds){
        .first_missing = need,
        .first_hidden = is_free || most == RBT_STALENESS_ANY ? INT64_MAX : reader->completed + most,
        .shows_all = shows_all(world, read, other),
        .first_dropped =
            world->workers[other].has_failed ? world->workers[other].completed : INT64_MAX,
        .is_replica =
            overlay == RBT_OVERLAY_REPLICA && other == read->worker && read->path != SIM_PATH_RANGE,
    };
}

static void judge_seen(struct sim_world *world, const struct sim_read *read, uint32_t element,
                       const struct bounds *bounds)
{
    const uint32_t mask = read->masks[element];
    const int64_t clock = element % world->plan->clocks_max;
    const uint32_t made = sim_row(world, world->made, read->table, read->key)[element];
    const uint32_t shown = sim_row(world, world->visible, read->table, read->key)[element];
    if ((mask & ~made) != 0) {
        blame_read(world, SIM_READ_RULE, read, element, "and sees an update twice");
    }
    if (clock < bounds->first_missing && mask != made) {
        blame_read(world, SIM_READ_RULE, read, element, "without what it must contain");
    }
    if (bounds->shows_all) {
        /* A worker that fails takes back what it has not sent. */
        const bool is_dropped = clock >= bounds->first_dropped;
        if (mask != made && !is_dropped) {
            blame_read(world, SIM_OVERLAY, read, element, "without updates of its own side");
        }
        return;
    }
    if ((mask & ~shown) != 0 && !bounds->is_replica) {
        blame_read(world, SIM_HIDDEN, read, element, "and sees what no shard shows");
    }
    if (mask != 0 && clock >= bounds->first_hidden && !bounds->is_replica) {
        blame_read(world, SIM_READ_RULE, read, element, "and sees too far ahead");
    }
}

/* In a run that only reads everything is there that the run before has left. */
static void judge_left(struct sim_world *world, const struct sim_read *read)
{
    const uint32_t *made = sim_row(world, world->made, read->table, read->key);
    world->reads++;
    for (uint32_t e = 0; e < world->elements; e++) {
        if (read->masks[e] != made[e]) {
            blame_read(world, SIM_READ_RULE, read, e, "in another run than it was made in");
        }
    }
}

int64_t sim_check_staleness(struct sim_world *world, uint32_t worker, uint32_t table)
{
    const int64_t staleness = rbt_table_staleness(world->tables[table]);
    if (world->run == 1 && !sim_may_be_staleness(world, table, staleness)) {
        struct sim_verdict about = nobody;
        about.worker = worker;
        about.table = table;
        sim_blame(world, SIM_READ_RULE, &about,
                  "worker %u at clock %lld reads %s with staleness %lld, which is over", worker,
                  (long long)world->workers[worker].completed, world->plan->tables[table].name,
                  (long long)staleness);
    }
    return staleness;
}

void sim_check_read(struct sim_world *world, const struct sim_read *read)
{
    if (world->run > 1) {
        judge_left(world, read);
        return;
    }
    const struct sim_table_plan *plan = &world->plan->tables[read->table];
    const size_t cells = (size_t)world->plan->table_count * world->plan->keys_max * world->elements;
    uint32_t *seen = sim_row(world, world->workers[read->worker].seen + read->path * cells,
                             read->table, read->key);
    const int64_t clocks = world->plan->clocks_max;
    /* A read that asks for less than the one before may be served from an older copy. */
    const bool is_mixed = plan->mixes || plan->changes;
    struct bounds bounds = {0};
    uint64_t sum = 0;
    world->reads++;
    for (uint32_t e = 0; e < world->elements; e++) {
        if (e % clocks == 0) {
            bounds = bounds_of(world, read, (uint32_t)(e / clocks));
        }
        judge_seen(world, read, e, &bounds);
        if ((seen[e] & ~read->masks[e]) != 0 && !is_mixed && !bounds.is_replica &&
            e % clocks < bounds.first_dropped) {
            blame_read(world, SIM_MONOTONE, read, e, "and no longer sees what it has seen");
        }
        sum = sum * 31 + read->masks[e];
    }
    memcpy(seen, read->masks, world->elements * sizeof *seen);
    const struct sim_entry entry = {.at = world->now,
                                    .action = "has read",
                                    .worker = read->worker,
                                    .table = read->table,
                                    .key = plan->keys[read->key],
                                    .clock = world->workers[read->worker].completed,
                                    .number = sum};
    sim_note(world, &entry);
}

/* --- The end --------------------------------------------------------------------------------- */

bool sim_may_fail(const struct sim_scenario *plan)
{
    const char *why = rbt_last_error();
    const bool is_named = strstr(why, plan->doomed) != NULL;
    /* Who was silent is not gone: each side says it of the other. */
    const bool is_silent = plan->is_silent && (strstr(why, "lost ") != NULL ||
                                               strstr(why, "declared it lost") != NULL);
    return (plan->doomed[0] != '\0' && (is_named || is_silent)) ||
           (plan->cluster.loss > 0 && strstr(why, "no connection for") != NULL);
}

void sim_check_end(struct sim_world *world, rbt_status status)
{
    if (status != RBT_OK) {
        if (!sim_may_fail(world->plan)) {
            sim_blame(world, SIM_LIVENESS, &nobody, "the run failed: %s", rbt_last_error());
        }
        return;
    }
    for (uint32_t s = 0; s < world->plan->servers; s++) {
        judge_left_behind(world, s);
    }
    for (uint32_t s = 0; world->run == 1 && s < world->plan->servers; s++) {
        if (rbt_inspect_shard(world->simulation, s) == NULL) {
            RBT_ASSERT(world->plan->doomed[0] != '\0'); /* the job ended while somebody slept */
            continue;
        }
        (void)judge_clocks(world, s);
        judge_rows(world, s);
        if (world->servers[s].floor != RBT_CLOCK_GONE) {
            struct sim_verdict about = nobody;
            about.server = s;
            sim_blame(world, SIM_LIVENESS, &about, "server/%u still waits for somebody", s);
        }
    }
}
