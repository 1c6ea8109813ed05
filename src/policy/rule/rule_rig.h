/* policy/rule/rule_rig.h - for tests: plays the store for one instance of a rule. Workers read and
 * push in a random order; states are kept as of every read, versions are gathered and folded, and a
 * log tells what happened. Threads: the test's. */
#ifndef RUBATO_POLICY_RULE_RULE_RIG_H
#define RUBATO_POLICY_RULE_RULE_RIG_H

#include "base/test.h"

#include <stdbool.h>

#include "base/rng.h"
#include "policy/rule/rule.h"

/* An odd width, so that vector loops have a rest. */
enum { KEYS = 3, WIDTH = 11, STATE = 4 * WIDTH, WORKERS = 4, LOG_MAX = 64, VERSIONS_MAX = 64 };

struct rig_worker {
    uint64_t base; /* count at its read */
    uint64_t tag;
    uint64_t previous;
    int64_t clock;
    float before[KEYS][STATE];
};

struct rig_version {
    struct rbt_rule_version is;
    float parts[KEYS][WIDTH];
};

struct rig_entry {
    struct rbt_rule_message message;
    bool is_touched[KEYS];
    float deltas[KEYS][WIDTH];
};

struct rig {
    struct rbt_rule_instance instance;
    struct rbt_rng rng;
    uint64_t count; /* messages so far */
    float first[KEYS][WIDTH];
    float values[KEYS][WIDTH];
    float state[KEYS][STATE];
    struct rig_worker workers[WORKERS];
    struct rig_version versions[VERSIONS_MAX]; /* ascending */
    size_t version_count;
    uint64_t expired; /* versions below are gone */
    struct rig_entry log[LOG_MAX];
};

static inline void rig_open(struct rig *rig, const char *text, uint64_t seed)
{
    const struct rbt_rule *rule = NULL;
    const struct rbt_rule_table table = {.name = "t", .width = WIDTH, .worker_count = WORKERS};
    *rig = (struct rig){0};
    assert_ok(rbt_rule_find(text, &rule));
    assert_ok(rbt_rule_create(rule, text, &table, &rig->instance));
    assert_true(rig->instance.needs.state_width <= STATE);
    rbt_rng_init(&rig->rng, seed, 5, 0);
    for (uint32_t k = 0; k < KEYS; k++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            rig->first[k][i] = rig->values[k][i] = (float)rbt_rng_normal(&rig->rng);
        }
    }
    for (uint32_t w = 0; w < WORKERS; w++) {
        rig->workers[w].previous = RBT_RULE_NO_VERSION;
    }
}

static inline void rig_close(struct rig *rig)
{
    rbt_rule_destroy(&rig->instance);
}

static inline struct rbt_rule_row rig_row(struct rig *rig, uint32_t key)
{
    return (struct rbt_rule_row){
        .key = key, .width = WIDTH, .values = rig->values[key], .state = rig->state[key]};
}

static inline void rig_read(struct rig *rig, uint32_t worker)
{
    const struct rbt_rule_instance *in = &rig->instance;
    struct rig_worker *w = &rig->workers[worker];
    const struct rbt_rule_send send = {
        .worker = worker, .count = rig->count, .versions = RBT_RULE_NO_VERSION};
    w->base = rig->count;
    w->tag = in->rule->send == NULL ? 0 : in->rule->send(in->self, &send);
    w->previous = RBT_RULE_NO_VERSION;
    memcpy(w->before, rig->state, sizeof w->before);
}

static inline struct rbt_rule_message rig_message(const struct rig *rig, uint32_t worker)
{
    const struct rig_worker *w = &rig->workers[worker];
    return (struct rbt_rule_message){.worker = worker,
                                     .clock = w->clock,
                                     .count = rig->count,
                                     .delay = rig->count - w->base,
                                     .tag = w->tag,
                                     .previous = w->previous};
}

static inline uint64_t rig_map(const struct rig *rig, const struct rbt_rule_message *message)
{
    const struct rbt_rule_instance *in = &rig->instance;
    return in->rule->map == NULL ? (uint64_t)message->clock : in->rule->map(in->self, message);
}

/* The version, which is made if it is not there. */
static inline struct rig_version *rig_version(struct rig *rig, uint64_t version)
{
    assert_true(version >= rig->expired); /* no update comes for a version that has gone */
    size_t at = 0;
    while (at < rig->version_count && rig->versions[at].is.version < version) {
        at++;
    }
    if (at == rig->version_count || rig->versions[at].is.version != version) {
        assert_true(rig->version_count < VERSIONS_MAX);
        memmove(&rig->versions[at + 1], &rig->versions[at],
                (rig->version_count - at) * sizeof rig->versions[0]);
        rig->versions[at] = (struct rig_version){.is = {.version = version}};
        rig->version_count++;
    }
    return &rig->versions[at];
}

static inline void rig_fold(struct rig *rig, const struct rig_version *version, uint32_t key,
                            float *values)
{
    struct rbt_rule_row row = rig_row(rig, key);
    float part[WIDTH];
    memcpy(part, version->parts[key], sizeof part);
    row.values = values;
    row.part = part;
    rig->instance.rule->fold(rig->instance.self, &version->is, &row);
}

/* Lets the oldest versions go. `lowest` is what workers' next messages can get without another
 * read; that a read may bring it down again is for the rule to know. */
static inline void rig_expire(struct rig *rig)
{
    const struct rbt_rule_instance *in = &rig->instance;
    struct rbt_rule_age age = {.lowest = RBT_RULE_NO_VERSION};
    for (uint32_t w = 0; w < WORKERS; w++) {
        const struct rbt_rule_message next = rig_message(rig, w);
        const uint64_t version = rig_map(rig, &next);
        age.lowest = version < age.lowest ? version : age.lowest;
    }
    while (rig->version_count > 0) {
        age.version = rig->versions[0].is;
        const bool is_over = in->rule->expire == NULL ? age.version.version < age.lowest
                                                      : in->rule->expire(in->self, &age);
        if (!is_over) {
            return;
        }
        for (uint32_t k = 0; k < KEYS; k++) {
            rig_fold(rig, &rig->versions[0], k, rig->values[k]);
        }
        rig->expired = age.version.version + 1;
        rig->version_count--;
        memmove(rig->versions, rig->versions + 1, rig->version_count * sizeof rig->versions[0]);
    }
}

/* The worker's clock ends with this update, which may touch nothing. */
static inline void rig_push(struct rig *rig, uint32_t worker, float deltas[KEYS][WIDTH])
{
    const struct rbt_rule_instance *in = &rig->instance;
    struct rig_worker *w = &rig->workers[worker];
    struct rbt_rule_message message = rig_message(rig, worker);
    struct rig_version *version = NULL;
    message.version = rig_map(rig, &message);
    if (in->needs.parts == RBT_PARTS_SHOWN) {
        version = rig_version(rig, message.version);
        version->is.messages++;
    }
    if (in->rule->begin != NULL) {
        in->rule->begin(in->self, &message);
    }
    struct rig_entry *entry = &rig->log[rig->count];
    entry->message = message;
    memcpy(entry->deltas, deltas, sizeof entry->deltas);
    for (uint32_t k = 0; k < KEYS; k++) {
        struct rbt_rule_row row = rig_row(rig, k);
        row.delta = deltas[k];
        row.before = w->before[k];
        row.part = version == NULL ? NULL : version->parts[k];
        for (uint32_t i = 0; i < WIDTH; i++) {
            entry->is_touched[k] |= deltas[k][i] != 0;
        }
        if (entry->is_touched[k]) {
            assert_ok(in->rule->apply(in->self, &message, &row));
        }
    }
    w->previous = message.version;
    w->clock++;
    rig->count++;
    assert_true(rig->count <= LOG_MAX);
    rig_expire(rig);
}

/* What a reader gets: all versions folded in. */
static inline void rig_get(struct rig *rig, uint32_t key, rbt_rule_purpose purpose, float *values)
{
    const struct rbt_rule_instance *in = &rig->instance;
    float folded[WIDTH];
    memcpy(folded, rig->values[key], sizeof folded);
    for (size_t i = 0; i < rig->version_count; i++) {
        rig_fold(rig, &rig->versions[i], key, folded);
    }
    memcpy(values, folded, sizeof folded);
    if (in->rule->read != NULL) {
        struct rbt_rule_row row = rig_row(rig, key);
        row.values = folded;
        in->rule->read(in->self, &row, purpose, values);
    }
}

#endif
