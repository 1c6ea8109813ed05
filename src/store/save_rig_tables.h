/* store/save_rig_tables.h - for tests: random tables, and a rule that users could have made, which
 * is known under a name that nobody finds. Threads: the test's. */
#ifndef RUBATO_STORE_SAVE_RIG_TABLES_H
#define RUBATO_STORE_SAVE_RIG_TABLES_H

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "policy/priority/priority.h"
#include "policy/rule/rule.h"
#include "store/save_rig.h"

/* --- A rule of a user's, which counts --------------------------------------------------------- */

struct rig_rule {
    uint64_t count;
    double fails; /* at this message; 0: never */
    rbt_status (*fail)(const char *format, ...);
};

static inline rbt_status rig_rule_create(const struct rbt_rule_setup *setup,
                                         struct rbt_rule_needs *needs, void **self)
{
    struct rig_rule *r = rbt_calloc(1, sizeof *r);
    if (r == NULL) {
        return RBT_E_NOMEM;
    }
    r->fails = setup->number(setup, "fails", 0);
    r->fail = setup->fail;
    needs->state_width = 2;
    needs->snapshot_width = 1;
    needs->snapshot_max = 7;
    *self = r;
    return RBT_OK;
}

static inline void rig_rule_destroy(void *self)
{
    rbt_free(self);
}

static inline void rig_rule_begin(void *self, const struct rbt_rule_message *message)
{
    (void)message;
    ((struct rig_rule *)self)->count++;
}

static inline rbt_status rig_rule_apply(void *self, const struct rbt_rule_message *message,
                                        const struct rbt_rule_row *row)
{
    const struct rig_rule *r = self;
    if (r->fails > 0 && (double)r->count >= r->fails) {
        return (r->fail)("that was message %g", r->fails); /* cmocka has a macro of this name */
    }
    row->values[0] += row->delta[0] * (float)(r->count % 5) + row->before[0];
    row->state[0] += (float)message->delay;
    row->state[1] += 1;
    return RBT_OK;
}

static inline rbt_status rig_rule_save(const void *self, struct rbt_rule_sink *sink)
{
    sink->put(sink, &((const struct rig_rule *)self)->count, sizeof(uint64_t));
    return RBT_OK;
}

static inline rbt_status rig_rule_load(void *self, const struct rbt_rule_source *source)
{
    if (source->count != sizeof(uint64_t)) {
        return (source->fail)("that is no count");
    }
    memcpy(&((struct rig_rule *)self)->count, source->bytes, sizeof(uint64_t));
    return RBT_OK;
}

static const struct rbt_rule rig_rule = {.abi = RBT_RULE_ABI,
                                         .struct_size = sizeof rig_rule,
                                         .name = "./counting.so",
                                         .create = rig_rule_create,
                                         .destroy = rig_rule_destroy,
                                         .begin = rig_rule_begin,
                                         .apply = rig_rule_apply,
                                         .save = rig_rule_save,
                                         .load = rig_rule_load,
                                         .state_version = 3};

/* --- Tables ----------------------------------------------------------------------------------- */

static const char *const rig_rules[] = {"add",
                                        "consgd",
                                        "dynsgd",
                                        "dynsgd:max=3",
                                        "sgd:average=1",
                                        "sgd:sqrt=1",
                                        "adagrad",
                                        "adagrad:trust",
                                        "adarev",
                                        "adarev:max=5",
                                        "adarev:trust=1.5",
                                        "adadelay:gamma=0.75",
                                        "ftrl:l1=0.2",
                                        "adam",
                                        "prox:l1=0.1,scale=1",
                                        "add:aggregate=1",
                                        "adarev:aggregate=1",
                                        "sgd:average=1,aggregate=1",
                                        "sgd:alpha=0.2,aggregate=1",
                                        "./counting.so",
                                        "./counting.so:fails=9"};
enum { RIG_RULES = sizeof rig_rules / sizeof rig_rules[0], RIG_OWN = RIG_RULES - 2 };

static const char *const rig_filters[] = {"significant:0.5", "fixed:8", "changed,f16",
                                          "pull.fixed:4,changed", "changed"};
static const char *const rig_priorities[] = {"oldest", "walk",      "sweep",
                                             "random", "magnitude", "relative"};

static inline int64_t rig_staleness(struct rig *rig)
{
    return (int64_t)rig_below(rig, 5) - 1; /* RBT_STALENESS_ANY is -1 */
}

/* A random table; `policy` stays for as long as it is used. Nobody's own rules if they cannot be
 * found by their text. */
static inline struct rbt_shard_table rig_table(struct rig *rig, bool has_own,
                                               struct rbt_priority_policy *policy)
{
    struct rbt_shard_table t = {.width = 1 + (uint32_t)rig_below(rig, RIG_WIDTH),
                                .staleness = rig_staleness(rig),
                                .name = "main/table",
                                .seed = rig_below(rig, 100)};
    t.partial = rig_once_in(rig, 3) ? RBT_PARTIAL_SHOW : RBT_PARTIAL_HIDE;
    const uint64_t kind = rig_below(rig, 5);
    if (kind >= 3) { /* with a rule */
        const uint64_t which = rig_below(rig, has_own ? RIG_RULES : RIG_OWN);
        t.rule = rig_rules[which];
        t.code = &rig_rule;
        if (which < RIG_OWN && rbt_rule_find(t.rule, &t.code) != RBT_OK) {
            RBT_UNREACHABLE();
        }
        t.is_synchronised = rig_once_in(rig, 2);
    } else {
        t.type = (rbt_type)rig_below(rig, 4);
        t.merge = (rbt_merge)rig_below(rig, t.type == RBT_F32 || t.type == RBT_F64 ? 3 : 4);
        t.layout = kind == 0 ? RBT_SPARSE : RBT_DENSE;
        t.width = t.layout == RBT_SPARSE ? 100 : t.width;
        t.state_width = t.layout == RBT_DENSE && rig_once_in(rig, 3) ? 2 : 0;
    }
    if (t.layout == RBT_DENSE && rig_once_in(rig, 2)) {
        t.init = (rbt_init)rig_below(rig, 4);
        t.a = 0.5;
        t.b = 1.5;
    }
    const bool is_plain = t.type == RBT_F32 && t.layout == RBT_DENSE;
    if (is_plain && rig_once_in(rig, 2)) {
        if (rbt_priority_find(rig_priorities[rig_below(rig, 6)], policy) != RBT_OK) {
            RBT_UNREACHABLE();
        }
        t.priority = policy;
    }
    if (is_plain && t.merge == RBT_MERGE_ADD && rig_once_in(rig, 2)) {
        t.filter = rig_filters[rig_below(rig, 5)];
    }
    return t;
}

#endif
