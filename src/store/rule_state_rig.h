/* store/rule_state_rig.h - for tests: a shard with one table of rows of one value that has a rule,
 * and workers that read and push one key at a time. Threads: the test's. */
#ifndef RUBATO_STORE_RULE_STATE_RIG_H
#define RUBATO_STORE_RULE_STATE_RIG_H

#include "base/test.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "policy/rule/rule.h"
#include "store/shard.h"

enum { WORKERS_MAX = 5, KEY = 7 };

struct fixture {
    rbt_shard *shard;
    struct rbt_shard_effect effects[WORKERS_MAX + 1];
    struct rbt_shard_outbox out;
    uint64_t sequences[WORKERS_MAX];
    int64_t clocks[WORKERS_MAX];
    uint64_t stamps[WORKERS_MAX]; /* of last reads */
};

/* A table of rows of one value with a rule: of ours, or the one that the text names. */
static inline void start(struct fixture *f, uint32_t workers, int64_t staleness, const char *text,
                         const struct rbt_rule *code)
{
    *f = (struct fixture){0};
    f->out.effects = f->effects;
    const struct rbt_shard_options options = {
        .worker_count = workers, .table_max = 2, .parked_max = WORKERS_MAX};
    assert_ok(rbt_shard_create(&options, &f->shard));
    struct rbt_spec spec = {
        .width = 1, .staleness = staleness, .code = code, .name = "main/weights"};
    assert_true(strlen(text) < sizeof spec.rule);
    memcpy(spec.rule, text, strlen(text) + 1);
    if (code == NULL) {
        assert_ok(rbt_rule_find(text, &spec.code));
    }
    const struct rbt_shard_event event = {.kind = RBT_SHARD_TABLE, .spec = &spec};
    rbt_shard_step(f->shard, &event, &f->out);
    assert_ok(f->out.status);
}

static inline void stop(struct fixture *f)
{
    rbt_shard_destroy(f->shard);
    assert_int_equal(rbt_alloc_live(), 0);
}

static inline struct rbt_shard_stats stats_of(const struct fixture *f)
{
    struct rbt_shard_stats stats;
    rbt_shard_stats(f->shard, &stats);
    return stats;
}

/* A message that ends the worker's clock: an update of the key, computed from `base`. */
struct push {
    uint64_t key;
    float value;
    uint64_t base;
    uint64_t least;
};

static inline rbt_status push_with(struct fixture *f, uint32_t worker, struct push push)
{
    struct rbt_batch batch = {.count = 1,
                              .keys = &push.key,
                              .values = &push.value,
                              .base = push.base,
                              .least = push.least};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = worker,
                                          .sequence = ++f->sequences[worker],
                                          .clock = f->clocks[worker],
                                          .marker = f->clocks[worker] + 1,
                                          .batches = &batch,
                                          .batch_count = 1};
    f->clocks[worker]++;
    rbt_shard_step(f->shard, &event, &f->out);
    return f->out.status;
}

/* From the worker's last read, which it keeps. */
static inline void push(struct fixture *f, uint32_t worker, uint64_t key, float value)
{
    assert_ok(
        push_with(f, worker, (struct push){key, value, f->stamps[worker], f->stamps[worker]}));
}

/* The end of a clock without an update. */
static inline void tick(struct fixture *f, uint32_t worker)
{
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = worker,
                                          .sequence = ++f->sequences[worker],
                                          .clock = f->clocks[worker],
                                          .marker = f->clocks[worker] + 1};
    f->clocks[worker]++;
    rbt_shard_step(f->shard, &event, &f->out);
}

static inline float read_key(struct fixture *f, struct rbt_shard_event *event, uint64_t key)
{
    float value = -1;
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = &value};
    event->kind = RBT_SHARD_PULL;
    event->need = RBT_CLOCK_ANY;
    event->batches = &batch;
    event->batch_count = 1;
    rbt_shard_step(f->shard, event, &f->out);
    return value;
}

static inline float look(struct fixture *f, uint64_t key)
{
    const float value = read_key(f, &(struct rbt_shard_event){0}, key);
    assert_ok(f->out.status);
    return value;
}

/* The worker reads to compute with, and forgets what it has read before. */
static inline float pull(struct fixture *f, uint32_t worker, uint64_t key)
{
    const float value = read_key(f,
                                 &(struct rbt_shard_event){.worker = worker,
                                                           .sequence = f->sequences[worker],
                                                           .is_base = true,
                                                           .least = RBT_STAMP_NONE,
                                                           .stamp = &f->stamps[worker]},
                                 key);
    assert_ok(f->out.status);
    return value;
}

static inline void leave(struct fixture *f, uint32_t worker)
{
    const struct rbt_shard_event event = {.kind = RBT_SHARD_LEAVE, .worker = worker};
    rbt_shard_step(f->shard, &event, &f->out);
}

static inline void reset(struct fixture *f)
{
    rbt_shard_step(f->shard, &(struct rbt_shard_event){.kind = RBT_SHARD_RESET}, &f->out);
    assert_ok(f->out.status);
    memset(f->sequences, 0, sizeof f->sequences);
    memset(f->clocks, 0, sizeof f->clocks);
}

#endif
