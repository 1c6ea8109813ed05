/* sim/world.c - the memory of a run, and how a broken promise is told. */
#include "sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "client/client.h"

const char *const sim_invariant_names[] = {
    "holds",        "(1) exactly once", "(2) marker soundness", "(3) read rule",  "(4) overlay",
    "(5) hidden",   "(6) monotone",     "(8) liveness",         "(8) promptness", "clean servers",
    "steady lines", "thrift",           "determinism",
};

static void *make(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    RBT_ASSERT(memory != NULL);
    return memory;
}

void sim_world_init(struct sim_world *world, const struct sim_scenario *plan)
{
    *world = (struct sim_world){.plan = plan};
    world->elements = plan->workers * (uint32_t)plan->clocks_max;
    const size_t cells = (size_t)plan->table_count * plan->keys_max * world->elements;
    world->made = make(cells, sizeof *world->made);
    world->visible = make(cells, sizeof *world->visible);
    world->held = make(cells, sizeof *world->held);
    world->raw = make((size_t)plan->keys_max * world->elements, sizeof(double));
    world->gathered = make((size_t)plan->keys_max * world->elements, sizeof *world->gathered);
    world->masks = make((size_t)plan->keys_max * world->elements, sizeof *world->masks);
    world->entries = make(SIM_ENTRIES_MAX, sizeof *world->entries);
    for (uint32_t w = 0; w < plan->workers; w++) {
        world->workers[w].seen = make(SIM_PATHS * cells, sizeof *world->workers[w].seen);
    }
    for (uint32_t t = 0; t < plan->table_count; t++) {
        world->staleness_most[t] = plan->tables[t].staleness;
        sim_change_end(world, t, sim_change_begin(world, t, plan->tables[t].staleness));
    }
}

void sim_world_deinit(struct sim_world *world)
{
    for (uint32_t w = 0; w < world->plan->workers; w++) {
        free(world->workers[w].seen);
    }
    free(world->entries);
    free(world->gathered);
    free(world->masks);
    free(world->raw);
    free(world->held);
    free(world->visible);
    free(world->made);
}

uint32_t sim_owner(const struct sim_world *world, uint32_t table, uint32_t key)
{
    return rbt_placement_shard(world->tables[table]->placement,
                               world->plan->tables[table].keys[key]);
}

static double load(rbt_type type, const void *values, size_t at)
{
    switch (type) {
    case RBT_F32:
        return (double)((const float *)values)[at];
    case RBT_F64:
        return ((const double *)values)[at];
    case RBT_I32:
        return (double)((const int32_t *)values)[at];
    case RBT_I64:
        return (double)((const int64_t *)values)[at];
    }
    return -1;
}

void sim_decode(rbt_type type, const void *values, size_t count, uint32_t *masks)
{
    for (size_t i = 0; i < count; i++) {
        const double value = load(type, values, i);
        const bool is_mask = value >= 0 && value < UINT32_MAX;
        masks[i] = is_mask && (double)(uint32_t)value == value ? (uint32_t)value : UINT32_MAX;
    }
}

/* --- Staleness that changes ------------------------------------------------------------------ */

uint64_t sim_change_begin(struct sim_world *world, uint32_t table, int64_t staleness)
{
    int64_t *most = &world->staleness_most[table];
    const bool is_more = staleness == RBT_STALENESS_ANY || staleness > *most;
    RBT_ASSERT(world->change_count[table] < SIM_CHANGES_MAX);
    *most = *most != RBT_STALENESS_ANY && is_more ? staleness : *most;
    world->changes[table][world->change_count[table]++] =
        (struct sim_change){.staleness = staleness, .began = ++world->change_time};
    return world->change_time;
}

void sim_change_end(struct sim_world *world, uint32_t table, uint64_t began)
{
    struct sim_change *list = world->changes[table];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < world->change_count[table]; i++) {
        if (list[i].began == began) {
            list[i].ended = ++world->change_time;
        }
        if (list[i].ended == 0 || list[i].ended > began) {
            list[kept++] = list[i];
        }
    }
    world->change_count[table] = kept;
    world->staleness_changes++;
}

bool sim_may_be_staleness(const struct sim_world *world, uint32_t table, int64_t staleness)
{
    bool is_found = false;
    for (uint32_t i = 0; i < world->change_count[table]; i++) {
        is_found = is_found || world->changes[table][i].staleness == staleness;
    }
    return is_found;
}

int64_t sim_least_staleness(const struct sim_world *world, uint32_t table)
{
    int64_t least = INT64_MAX / 2;
    for (uint32_t i = 0; i < world->change_count[table]; i++) {
        const int64_t staleness = world->changes[table][i].staleness;
        least = staleness != RBT_STALENESS_ANY && staleness < least ? staleness : least;
    }
    return least;
}

/* --- The trace ------------------------------------------------------------------------------- */

const char *sim_keep_name(struct sim_world *world, const char *name)
{
    uint32_t i = 0;
    while (i < world->name_count && strcmp(world->names[i], name) != 0) {
        i++;
    }
    if (i == world->name_count) {
        RBT_ASSERT(i < SIM_NAMES_MAX);
        (void)snprintf(world->names[i], sizeof world->names[i], "%s", name);
        world->name_count++;
    }
    return world->names[i];
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return rbt_hash_key(hash ^ value) + value;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    uint64_t sum = 5381;
    for (; *text != '\0'; text++) {
        sum = sum * 33 + (unsigned char)*text;
    }
    return mix(hash, sum);
}

static uint64_t hash_entry(uint64_t hash, const struct sim_entry *entry)
{
    const struct rbt_inspect_event *event = &entry->event;
    if (entry->action != NULL) {
        hash = mix_text(hash, entry->action);
        hash = mix(hash, entry->table);
        hash = mix(hash, entry->key);
    } else {
        hash = mix(hash, (uint64_t)event->at);
        hash = mix_text(hash, event->what);
        hash = mix_text(hash, event->message);
        hash = mix_text(hash, event->from);
        hash = mix_text(hash, event->to);
    }
    hash = mix(hash, entry->worker);
    hash = mix(hash, (uint64_t)entry->clock);
    return mix(hash, entry->number);
}

static void print_event(const struct rbt_inspect_event *event, FILE *out)
{
    fprintf(out, "%-9s", event->what);
    if (event->message[0] == '\0') {
        fprintf(out, " %s", event->to);
        if (event->worker != UINT32_MAX) {
            fprintf(out, " worker %u", event->worker);
        }
        return;
    }
    fprintf(out, " %-7s %s -> %s", event->message, event->from, event->to);
    if (event->worker != UINT32_MAX) {
        fprintf(out, ", worker %u", event->worker);
    }
    fprintf(out, ", #%" PRIu64, event->number);
}

static void print_entry(const struct sim_world *world, const struct sim_entry *entry, FILE *out)
{
    fprintf(out, "  %12.6f  ", entry->at);
    if (entry->action == NULL) {
        print_event(&entry->event, out);
    } else {
        fprintf(out, "worker %u at clock %lld %s", entry->worker, (long long)entry->clock,
                entry->action);
        if (entry->table != UINT32_MAX) {
            fprintf(out, " %s", world->plan->tables[entry->table].name);
        }
        if (entry->key != UINT64_MAX) {
            fprintf(out, " row %" PRIu64 " = %" PRIx64, entry->key, entry->number);
        }
    }
    fputc('\n', out);
}

void sim_note(struct sim_world *world, const struct sim_entry *entry)
{
    world->hash = hash_entry(world->hash, entry);
    world->entries[world->entry_count++ % SIM_ENTRIES_MAX] = *entry;
    if (world->is_verbose) {
        print_entry(world, entry, stdout);
    }
}

void sim_blame(struct sim_world *world, enum sim_invariant broken, const struct sim_verdict *about,
               const char *format, ...)
{
    if (world->verdict.broken != SIM_HOLDS) {
        return;
    }
    world->verdict = *about;
    world->verdict.broken = broken;
    va_list args;
    va_start(args, format);
    vsnprintf(world->verdict.text, sizeof world->verdict.text, format, args);
    va_end(args);
    if (world->is_verbose) {
        printf("  BROKEN: %s\n", world->verdict.text);
    }
}

/* Whether the name is that of the process that the worker is in. */
static bool is_home(const struct sim_world *world, uint32_t worker, const char *node)
{
    char name[32];
    snprintf(name, sizeof name, "worker/%u", worker / world->plan->threads);
    return worker != UINT32_MAX && strcmp(name, node) == 0;
}

static bool is_server(uint32_t server, const char *node)
{
    char name[32];
    snprintf(name, sizeof name, "server/%u", server);
    return server != UINT32_MAX && strcmp(name, node) == 0;
}

/* Whether the entry may have to do with the verdict. */
static bool concerns(const struct sim_world *world, const struct sim_entry *entry)
{
    const struct sim_verdict *v = &world->verdict;
    const struct rbt_inspect_event *event = &entry->event;
    const bool is_worker =
        entry->worker != UINT32_MAX && (entry->worker == v->worker || entry->worker == v->other);
    if (entry->action != NULL) {
        const bool is_place =
            v->table == UINT32_MAX || entry->table == UINT32_MAX ||
            (entry->table == v->table && (entry->key == v->key || entry->key == UINT64_MAX));
        return (is_worker || v->worker == UINT32_MAX) && is_place;
    }
    if (strcmp(event->what, "arrive") == 0 || strcmp(event->message, "beat") == 0) {
        return false;
    }
    if (event->message[0] == '\0') { /* a fault, a wake-up, a timer */
        return is_home(world, v->worker, event->to) || is_home(world, v->other, event->to) ||
               is_server(v->server, event->to);
    }
    const bool is_shard = v->server == UINT32_MAX || is_server(v->server, event->to) ||
                          is_server(v->server, event->from);
    return is_shard && (is_worker || v->worker == UINT32_MAX || event->worker == UINT32_MAX);
}

void sim_world_print_trace(const struct sim_world *world, size_t count, FILE *out)
{
    const uint64_t last = world->entry_count;
    const uint64_t oldest = last > SIM_ENTRIES_MAX ? last - SIM_ENTRIES_MAX : 0;
    uint64_t at = last;
    for (size_t found = 0; at > oldest && found < count;) {
        at--;
        found += concerns(world, &world->entries[at % SIM_ENTRIES_MAX]);
    }
    for (; at < last; at++) {
        const struct sim_entry *entry = &world->entries[at % SIM_ENTRIES_MAX];
        if (concerns(world, entry)) {
            print_entry(world, entry, out);
        }
    }
}
