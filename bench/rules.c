/* bench/rules.c - what a rule costs a shard: processor time and memory per row updated, next to a
 * table that adds. One shard, without clients or messages.
 *
 *     build/bench/rules [WIDTH] [ROWS] [WORKERS] [RULE]      RULE: only this one, and plain
 *
 * Workers take turns: each pulls its rows, which are half of all, at random, and pushes an update
 * for them when the others have done the same, so that every update is computed from values that
 * WORKERS - 1 updates have changed meanwhile. Prints one JSON object: for each rule ns per row of a
 * push, of a pull, and of both, the best of several rounds; the cost of both in adds; and bytes per
 * row at the end of a round. The rules take turns as well, round by round: the machine is noisy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "policy/rule/rule.h"
#include "store/shard.h"

enum { ROUNDS = 7, CLOCKS = 12, WORKERS_MAX = 64 };

static const char *const all[] = {"",         "add",     "consgd", "dynsgd",
                                  "sgd",      "adagrad", "adarev", "adarev:trust=1",
                                  "adadelay", "ftrl",    "adam",   "prox"};
enum { RULES_MAX = sizeof all / sizeof all[0] };

struct setting {
    uint32_t width;
    uint32_t rows;
    uint32_t workers;
};

/* A worker's rows and what it has read of them. */
struct worker {
    uint64_t *keys;
    uint32_t *slots;
    uint64_t slots_complete;
    float *values;
    float *deltas; /* CLOCKS more than needed: no two clocks push the same */
    size_t count;
    uint64_t stamp;
    uint64_t sequence;
};

struct figures {
    double push_ns;
    double pull_ns;
    double bytes;
    double rule_bytes;
    double snapshots;
};

static void must(rbt_status st)
{
    if (st != RBT_OK) {
        fprintf(stderr, "rules: %s\n", rbt_last_error());
        exit(1);
    }
}

static double processor_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* cannot fail */
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void step(rbt_shard *shard, const struct rbt_shard_event *event,
                 struct rbt_shard_outbox *out)
{
    rbt_shard_step(shard, event, out);
    must(out->status);
}

static void pull(rbt_shard *shard, struct worker *w, uint32_t index, struct rbt_shard_outbox *out)
{
    struct rbt_batch batch = {.count = w->count,
                              .keys = w->keys,
                              .values = w->values,
                              .slots = w->slots,
                              .slots_complete = &w->slots_complete};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .worker = index,
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .need = RBT_CLOCK_ANY,
                                          .sequence = w->sequence,
                                          .is_base = true,
                                          .least = RBT_STAMP_NONE,
                                          .stamp = &w->stamp};
    step(shard, &event, out);
}

static void push(rbt_shard *shard, struct worker *w, uint32_t index, struct rbt_shard_outbox *out)
{
    struct rbt_batch batch = {.count = w->count,
                              .keys = w->keys,
                              .values = w->deltas + w->sequence % CLOCKS,
                              .slots = w->slots,
                              .slots_complete = &w->slots_complete,
                              .base = w->stamp,
                              .least = w->stamp};
    w->sequence++;
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = index,
                                          .sequence = w->sequence,
                                          .clock = (int64_t)w->sequence - 1,
                                          .marker = (int64_t)w->sequence,
                                          .batches = &batch,
                                          .batch_count = 1};
    step(shard, &event, out);
}

static void prepare(const struct setting *setting, struct worker *w, uint32_t index)
{
    *w = (struct worker){.keys = rbt_calloc(setting->rows, sizeof *w->keys),
                         .slots = rbt_calloc(setting->rows, sizeof *w->slots)};
    for (uint32_t i = 0; i < setting->rows; i++) {
        if (rbt_hash_key(((uint64_t)index << 32) + i) % 2 == 0) {
            w->keys[w->count] = i;
            w->slots[w->count++] = RBT_SLOT_NONE;
        }
    }
    w->values = rbt_calloc(w->count * setting->width, sizeof *w->values);
    const size_t deltas = w->count * setting->width + CLOCKS;
    w->deltas = rbt_calloc(deltas, sizeof *w->deltas);
    for (size_t i = 0; i < deltas; i++) {
        w->deltas[i] = (float)((double)(rbt_hash_key(i + index) % 2000) / 1e4 - 0.09995);
    }
}

static void release(struct worker *w)
{
    rbt_free(w->keys);
    rbt_free(w->slots);
    rbt_free(w->values);
    rbt_free(w->deltas);
}

/* One round of one rule; keeps what is better than before. */
static void measure(const struct setting *setting, const char *rule, struct figures *best)
{
    struct rbt_shard_effect effects[WORKERS_MAX + 1];
    struct rbt_shard_outbox out = {.effects = effects};
    struct worker workers[WORKERS_MAX];
    struct rbt_shard_table schema = {.type = RBT_F32,
                                     .width = setting->width,
                                     .staleness = RBT_STALENESS_ANY,
                                     .rule = rule,
                                     .name = "rows"};
    if (rule[0] != '\0') {
        must(rbt_rule_find(rule, &schema.code));
    }
    const struct rbt_shard_options options = {
        .worker_count = setting->workers, .table_max = 1, .parked_max = WORKERS_MAX};
    rbt_shard *shard = NULL;
    must(rbt_shard_create(&options, &shard));
    step(shard, &(struct rbt_shard_event){.kind = RBT_SHARD_TABLE, .schema = &schema}, &out);
    double rows = 0;
    for (uint32_t i = 0; i < setting->workers; i++) {
        prepare(setting, &workers[i], i);
        pull(shard, &workers[i], i, &out);
        rows += (double)workers[i].count;
    }
    for (int clock = 0; clock < CLOCKS; clock++) {
        const double begin = processor_ns();
        double pulls = 0;
        for (uint32_t i = 0; i < setting->workers; i++) {
            push(shard, &workers[i], i, &out);
            const double middle = processor_ns();
            pull(shard, &workers[i], i, &out);
            pulls += processor_ns() - middle;
        }
        const double pushes = processor_ns() - begin - pulls;
        if (clock > 0) { /* the first one creates the rows */
            best->push_ns =
                best->push_ns == 0 || pushes / rows < best->push_ns ? pushes / rows : best->push_ns;
            best->pull_ns =
                best->pull_ns == 0 || pulls / rows < best->pull_ns ? pulls / rows : best->pull_ns;
        }
    }
    struct rbt_shard_stats stats;
    rbt_shard_stats(shard, &stats);
    best->bytes = (double)stats.bytes / (double)stats.rows;
    best->rule_bytes = (double)stats.rule_bytes / (double)stats.rows;
    best->snapshots = (double)stats.snapshots / (double)stats.rows;
    for (uint32_t i = 0; i < setting->workers; i++) {
        release(&workers[i]);
    }
    rbt_shard_destroy(shard);
}

int main(int argc, char **argv)
{
    const char *const chosen[] = {"", argc > 4 ? argv[4] : NULL};
    const char *const *rules = argc > 4 ? chosen : all;
    const int count = argc > 4 ? 2 : RULES_MAX;
    const struct setting setting = {.width = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 32,
                                    .rows = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 20000,
                                    .workers = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 4};
    struct figures figures[RULES_MAX] = {{0}};
    if (setting.width == 0 || setting.rows == 0 || setting.workers == 0 ||
        setting.workers > WORKERS_MAX) {
        fprintf(stderr, "rules: wrong arguments; see the head of bench/rules.c\n");
        return 2;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < count; i++) {
            measure(&setting, rules[i], &figures[i]);
        }
    }
    const double plain = figures[0].push_ns + figures[0].pull_ns;
    printf("{\"width\": %u, \"rows\": %u, \"workers\": %u", setting.width, setting.rows,
           setting.workers);
    for (int i = 0; i < count; i++) {
        const struct figures *f = &figures[i];
        printf(",\n \"%s\": {\"push_ns\": %.1f, \"pull_ns\": %.1f, \"both_of_plain\": %.2f, "
               "\"push_of_plain\": %.2f, \"bytes_per_row\": %.1f, \"rule_bytes_per_row\": %.1f, "
               "\"snapshots_per_row\": %.2f}",
               i == 0 ? "plain" : rules[i], f->push_ns, f->pull_ns,
               (f->push_ns + f->pull_ns) / plain, f->push_ns / figures[0].push_ns, f->bytes,
               f->rule_bytes, f->snapshots);
    }
    puts("}");
    return 0;
}
