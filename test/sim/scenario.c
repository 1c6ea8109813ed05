/* sim/scenario.c - draws everything that a run depends on out of one seed.
 *
 * To add something that runs may have, draw it here, behind what is drawn already (or all seeds
 * change their meaning), print it below, and let workload.c or the cluster's options use it.
 *
 * Faults are drawn such that all nodes that must survive do: a process is given up after 3 seconds
 * without a connection, so it is never cut off for longer than CUT_MAX, nor again soon after. One
 * scenario in ten dooms a node: it crashes, or is cut off for so long that it is given up; then the
 * job ends, and says which node was lost. */
#include "sim/scenario.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

#define CUT_MAX   0.9  /* seconds that a node may be cut off and is still believed in */
#define CUT_PAUSE 2.0  /* at least so long until there is another fault */
#define DOOM_TIME 25.0 /* cut off for longer than this is given up */

static bool flip(struct rbt_rng *rng, double chance)
{
    return rbt_rng_uniform(rng) < chance;
}

static double between(struct rbt_rng *rng, double low, double high)
{
    return low + (high - low) * rbt_rng_uniform(rng);
}

/* Small and large values are equally likely: uniform in the exponent. */
static double scale(struct rbt_rng *rng, double low, double high)
{
    return low * pow(high / low, rbt_rng_uniform(rng));
}

static uint32_t pick(struct rbt_rng *rng, uint32_t low, uint32_t high)
{
    return low + (uint32_t)rbt_rng_below(rng, high - low + 1);
}

/* --- Tables ---------------------------------------------------------------------------------- */

static void draw_consistency(struct rbt_rng *rng, struct sim_table_plan *table)
{
    const int64_t s = (int64_t)rbt_rng_below(rng, 4);
    switch (rbt_rng_below(rng, 8)) {
    case 0:
    case 1:
        table->staleness = 0;
        snprintf(table->consistency, sizeof table->consistency, "bsp");
        break;
    case 2:
        table->staleness = RBT_STALENESS_ANY;
        snprintf(table->consistency, sizeof table->consistency, "asp");
        break;
    case 3:
    case 4:
    case 5:
        table->staleness = s;
        snprintf(table->consistency, sizeof table->consistency, "ssp:%d", (int)s);
        break;
    default:
        table->staleness = s;
        snprintf(table->consistency, sizeof table->consistency, "essp:%d", (int)s);
        break;
    }
}

static void draw_keys(struct rbt_rng *rng, uint32_t most, struct sim_table_plan *table)
{
    table->key_count = pick(rng, most == SIM_FEW_KEYS ? 1 : most / 2, most);
    for (uint32_t i = 0; i < table->key_count; i++) {
        table->keys[i] = flip(rng, 0.5) ? rbt_rng_next(rng) : rbt_rng_below(rng, 100);
    }
    table->key_count = (uint32_t)rbt_keys_sort(table->keys, table->key_count);
}

static void draw_table(struct rbt_rng *rng, const struct sim_scenario *s,
                       struct sim_table_plan *table)
{
    static const rbt_overlay overlays[] = {RBT_OVERLAY_OWN,     RBT_OVERLAY_OWN,
                                           RBT_OVERLAY_OWN,     RBT_OVERLAY_NONE,
                                           RBT_OVERLAY_PROCESS, RBT_OVERLAY_REPLICA};
    draw_consistency(rng, table);
    draw_keys(rng, s->keys_max, table);
    table->options = (struct rbt_table_options){
        .struct_size = sizeof table->options,
        .type = (rbt_type)rbt_rng_below(rng, 4),
        .layout = flip(rng, 0.25) ? RBT_SPARSE : RBT_DENSE,
        .width = s->workers * (uint32_t)s->clocks_max,
        .overlay = overlays[rbt_rng_below(rng, 6)],
        .cache = (rbt_cache)rbt_rng_below(rng, 4),
        .partial = flip(rng, 0.3) && table->staleness != 0 ? RBT_PARTIAL_SHOW : RBT_PARTIAL_HIDE,
        .consistency = table->consistency,
        .cache_rows = flip(rng, 0.15) ? pick(rng, 1, 3) : 0};
    table->mixes = flip(rng, 0.2);
    table->changes = flip(rng, 0.1);
}

/* Filters with which every read must see what it sees without them: those of the second list are
 * at work on every element, and change none. */
static void draw_filter(struct rbt_rng *rng, struct rbt_table_options *options)
{
    static const char *const plain[] = {NULL, "keys", "lz4,zstd", "keys,zeros,lz4"};
    static const char *const real[] = {"keys,changed,zeros,lz4", "changed", "push.skip:1,changed",
                                       "tiny:0,pull.significant:0,zstd"};
    const bool is_real = options->type == RBT_F32 && options->layout == RBT_DENSE;
    const char *const *list = is_real && flip(rng, 0.8) ? real : plain;
    options->filter = list[rbt_rng_below(rng, 4)];
}

/* --- The cluster ----------------------------------------------------------------------------- */

static void draw_network(struct rbt_rng *rng, struct rbt_simulation_options *cluster)
{
    cluster->latency = scale(rng, 1e-5, 1e-2);
    cluster->bandwidth = flip(rng, 0.3) ? scale(rng, 3e5, 1e7) : 1.25e8;
    if (flip(rng, 0.7)) {
        cluster->jitter = cluster->latency * between(rng, 0.1, 10);
    }
    if (flip(rng, 0.7)) {
        cluster->loss = between(rng, 0, 0.02);
    }
    if (flip(rng, 0.7)) {
        cluster->duplication = between(rng, 0, 0.05);
    }
    if (flip(rng, 0.3)) {
        cluster->spike_chance = between(rng, 0, 0.05);
        cluster->spike_seconds = between(rng, 0.01, 0.5);
    }
    if (flip(rng, 0.4)) {
        cluster->straggler_share = between(rng, 0.1, 0.5);
        cluster->straggler_factor = between(rng, 1, 8);
    }
    if (flip(rng, 0.3)) {
        cluster->slowdown_chance = between(rng, 0, 0.5);
        cluster->slowdown_factor = between(rng, 1, 8);
    }
}

static uint32_t process_count(const struct sim_scenario *s)
{
    return (s->workers + s->threads - 1) / s->threads;
}

static void draw_node(struct rbt_rng *rng, const struct sim_scenario *s, char name[32])
{
    const uint32_t processes = process_count(s);
    const uint32_t node = (uint32_t)rbt_rng_below(rng, 1 + s->servers + processes);
    if (node == 0) {
        snprintf(name, 32, "coordinator");
    } else if (node <= s->servers) {
        snprintf(name, 32, "server/%u", node - 1);
    } else {
        snprintf(name, 32, "worker/%u", node - 1 - s->servers);
    }
}

/* Whether somebody could be without a connection for too long if there were this fault, too. */
static bool is_too_close(const struct sim_scenario *s, const struct rbt_fault *fault)
{
    for (size_t i = 0; i < s->cluster.fault_count; i++) {
        const struct rbt_fault *other = &s->faults[i];
        if (fault->at < other->at + other->lasts + CUT_PAUSE &&
            other->at < fault->at + fault->lasts + CUT_PAUSE) {
            return true;
        }
    }
    return false;
}

static void draw_fault(struct rbt_rng *rng, struct sim_scenario *s, double duration)
{
    static const rbt_fault_kind kinds[] = {RBT_FAULT_CUT, RBT_FAULT_PAUSE, RBT_FAULT_PARTITION,
                                           RBT_FAULT_SLOW_LINK};
    struct rbt_fault *fault = &s->faults[s->cluster.fault_count];
    char *name = s->fault_nodes[s->cluster.fault_count];
    draw_node(rng, s, name);
    *fault = (struct rbt_fault){.kind = kinds[rbt_rng_below(rng, 4)],
                                .node = name,
                                .at = between(rng, 0, duration),
                                .lasts = scale(rng, 0.005, CUT_MAX),
                                .factor = between(rng, 1, 10)};
    if (s->cluster.cuts > 0 && fault->kind == RBT_FAULT_PARTITION && s->seed < SIM_ROUGH_SEED) {
        fault->kind = RBT_FAULT_PAUSE; /* as it was when these seeds were chosen */
    }
    s->cluster.fault_count += !is_too_close(s, fault);
}

/* One node does not come back, or comes back when it has been given up. */
static void draw_doom(struct rbt_rng *rng, struct sim_scenario *s, double duration)
{
    static const rbt_fault_kind kinds[] = {RBT_FAULT_CRASH, RBT_FAULT_CRASH, RBT_FAULT_PARTITION,
                                           RBT_FAULT_PAUSE};
    const size_t i = s->cluster.fault_count;
    const uint32_t way = (uint32_t)rbt_rng_below(rng, 4);
    draw_node(rng, s, s->doomed);
    s->is_silent = kinds[way] != RBT_FAULT_CRASH;
    memcpy(s->fault_nodes[i], s->doomed, sizeof s->fault_nodes[i]);
    s->faults[i] = (struct rbt_fault){.kind = kinds[way],
                                      .node = s->fault_nodes[i],
                                      .at = between(rng, 0, duration),
                                      .lasts = way == 0 ? 0 : between(rng, DOOM_TIME, 40)};
    s->cluster.fault_count++;
}

static void draw_faults(struct rbt_rng *rng, struct sim_scenario *s)
{
    const double computing = (double)s->clocks_max * s->operations_max * s->compute;
    const double duration = computing + (double)s->clocks_max * 4 * s->cluster.latency;
    s->cluster.faults = s->faults;
    if (flip(rng, 0.1)) {
        draw_doom(rng, s, duration);
    }
    if (flip(rng, 0.5)) {
        const double way = s->cluster.latency + s->cluster.jitter + s->cluster.spike_seconds +
                           1e4 / s->cluster.bandwidth;
        s->cluster.cuts = scale(rng, 0.01, fmin(1, 0.02 / way));
        if (s->runs > 1) { /* its reads wait longer, and a shard may be lost if cuts are many */
            s->cluster.cuts *= 0.2;
        }
        s->cluster.loss = 0; /* who connects again and again would lose that, too */
    }
    const uint32_t count = flip(rng, 0.5) ? 0 : pick(rng, 1, SIM_FAULTS_MAX - 1);
    for (uint32_t i = 0; i < count; i++) {
        draw_fault(rng, s, duration);
    }
    double last = 0;
    for (size_t i = 0; i < s->cluster.fault_count; i++) {
        last = fmax(last, s->faults[i].at + s->faults[i].lasts);
    }
    /* Packets are sent again after some seconds; few are lost more than five times. */
    s->seconds_max = 150 + 2 * last + 100 * computing;
}

/* At least two racks, none of them empty, if there are enough nodes. */
static void draw_racks(struct rbt_rng *rng, struct sim_scenario *s)
{
    const uint32_t processes = process_count(s);
    const uint32_t most = s->servers > processes ? s->servers : processes;
    if (most >= 2) {
        s->cluster.racks = pick(rng, 2, most < 3 ? most : 3);
        s->cluster.oversubscription = flip(rng, 0.5) ? 1 : between(rng, 1, 10);
    }
}

/* The staleness changes all the time, in all processes. */
static void draw_changes(struct rbt_rng *rng, struct sim_scenario *s)
{
    s->all_change = true;
    for (uint32_t i = 0; i < s->table_count; i++) {
        struct sim_table_plan *table = &s->tables[i];
        const struct sim_table_plan *first = &s->tables[0];
        table->changes = flip(rng, 0.9);
        const bool may_follow = strcmp(table->consistency, first->consistency) == 0;
        table->follows_job = may_follow && flip(rng, i == 0 ? 0.5 : 0.9);
        if (table->follows_job) {
            table->options.consistency = NULL;
            s->consistency = first->consistency;
        }
    }
}

/* --- All of it ------------------------------------------------------------------------------- */

void sim_scenario_draw(uint64_t seed, struct sim_scenario *s)
{
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, 0x5ce7e, 0);
    *s = (struct sim_scenario){.seed = seed};
    s->workers = flip(&rng, 0.15) ? pick(&rng, 7, SIM_WORKERS_MAX) : pick(&rng, 1, 6);
    s->servers = pick(&rng, 1, SIM_SERVERS_MAX);
    s->threads = flip(&rng, 0.5) ? 1 : pick(&rng, 1, s->workers);
    const bool has_racks = seed >= SIM_RACK_SEED && seed < SIM_LIST_SEED;
    if (has_racks && flip(&rng, 0.8)) { /* enough for several in a rack */
        s->workers = pick(&rng, 4, SIM_WORKERS_MAX);
        s->threads = flip(&rng, 0.7) ? 1 : pick(&rng, 1, s->workers / 2);
    }
    const bool has_many = seed >= SIM_LIST_SEED && seed < SIM_RUN_SEED;
    if (has_many) { /* most of the rows of a table at one server */
        s->workers = pick(&rng, 1, 4);
        s->threads = pick(&rng, 1, s->workers);
        s->servers = pick(&rng, 1, 2);
    }
    s->keys_max = has_many ? SIM_KEYS_MAX : SIM_FEW_KEYS;
    s->runs = seed >= SIM_RUN_SEED && seed < SIM_BOUND_SEED ? 2 : 1;
    if (seed >= SIM_BOUND_SEED) { /* several processes */
        s->workers = pick(&rng, 2, 6);
        s->threads = flip(&rng, 0.7) ? 1 : pick(&rng, 1, s->workers / 2);
    }
    s->clocks_max = pick(&rng, 2, has_many ? 5 : SIM_CLOCKS_MAX);
    const bool is_uneven = flip(&rng, 0.3);
    for (uint32_t w = 0; w < s->workers; w++) {
        s->clocks[w] = is_uneven ? pick(&rng, 0, (uint32_t)s->clocks_max) : s->clocks_max;
    }
    s->operations_max = pick(&rng, 1, flip(&rng, 0.3) ? 24 : 8);
    s->compute = scale(&rng, 1e-5, 0.1);
    s->table_count = pick(&rng, 1, SIM_TABLES_MAX);
    for (uint32_t i = 0; i < s->table_count; i++) {
        snprintf(s->tables[i].name, sizeof s->tables[i].name, "t%u", i);
        draw_table(&rng, s, &s->tables[i]);
    }
    draw_network(&rng, &s->cluster);
    s->cluster.struct_size = sizeof s->cluster;
    s->cluster.seed = seed;
    s->cluster.threads = s->threads;
    if (has_racks) {
        draw_racks(&rng, s);
    }
    draw_faults(&rng, s);
    for (uint32_t i = 0; seed >= SIM_FILTER_SEED && i < s->table_count; i++) {
        if (s->tables[i].options.layout == RBT_DENSE && flip(&rng, 0.5)) {
            s->tables[i].options.type = RBT_F32;
        }
        draw_filter(&rng, &s->tables[i].options);
    }
    if (seed >= SIM_BOUND_SEED) {
        draw_changes(&rng, s);
    }
}

static void print_table(const struct sim_table_plan *table, FILE *out)
{
    static const char *const types[] = {"f32", "f64", "i32", "i64"};
    static const char *const overlays[] = {"own", "process", "none", "replica"};
    static const char *const caches[] = {"worker", "process", "both", "none"};
    const struct rbt_table_options *o = &table->options;
    fprintf(out, "  table %s: %s, %u %s rows of %u %s, overlay %s, cache %s", table->name,
            table->consistency, table->key_count, o->layout == RBT_SPARSE ? "sparse" : "dense",
            o->width, types[o->type], overlays[o->overlay], caches[o->cache]);
    if (o->cache_rows > 0) {
        fprintf(out, " of %u rows", o->cache_rows);
    }
    fprintf(out, "%s%s%s\n", o->partial == RBT_PARTIAL_SHOW ? ", shows partial clocks" : "",
            table->mixes ? ", reads of mixed staleness" : "",
            table->changes ? ", staleness changes" : "");
    if (table->follows_job) {
        fprintf(out, "    follows the job\n");
    }
    if (o->filter != NULL) {
        fprintf(out, "    filters %s\n", o->filter);
    }
}

void sim_scenario_print(const struct sim_scenario *s, FILE *out)
{
    static const char *const kinds[] = {"crash", "pause", "partition", "slow link", "cut"};
    const struct rbt_simulation_options *c = &s->cluster;
    fprintf(out,
            "seed %llu: %u workers in processes of %u, %u servers, up to %lld clocks of up to %u "
            "operations\n",
            (unsigned long long)s->seed, s->workers, s->threads, s->servers,
            (long long)s->clocks_max, s->operations_max);
    if (s->runs > 1) {
        fprintf(out, "  %u runs\n", s->runs);
    }
    for (uint32_t i = 0; i < s->table_count; i++) {
        print_table(&s->tables[i], out);
    }
    fprintf(out,
            "  network: latency %.3g s, jitter %.3g s, %.3g bytes/s, loss %.1f%%, duplication "
            "%.1f%%, spikes %.1f%% of %.2g s\n",
            c->latency, c->jitter, c->bandwidth, 100 * c->loss, 100 * c->duplication,
            100 * c->spike_chance, c->spike_seconds);
    if (c->cuts > 0) {
        fprintf(out, "  cuts: %.2g per node and second\n", c->cuts);
    }
    if (c->racks > 1) {
        fprintf(out, "  %u racks, oversubscribed %.1f:1\n", c->racks, c->oversubscription);
    }
    fprintf(out,
            "  computing: %.2g s per operation; stragglers %.0f%% x%.1f, slow clocks %.0f%% "
            "x%.1f\n",
            s->compute, 100 * c->straggler_share, c->straggler_factor, 100 * c->slowdown_chance,
            c->slowdown_factor);
    for (size_t i = 0; i < c->fault_count; i++) {
        fprintf(out, "  fault: %s of %s at %.4f s for %.3f s%s\n", kinds[c->faults[i].kind],
                c->faults[i].node, c->faults[i].at, c->faults[i].lasts,
                c->faults[i].lasts == 0 ? " (for good)" : "");
    }
}
