/* policy/rule/dynsgd.c - DynSGD: updates from the same version of the model count with their mean:
 *
 *     w = w_0 + sum_v (1/S_v) sum_{u in v} u,   S_v = how many updates version v has
 *
 * Jiang and others, "Heterogeneity-aware distributed parameter servers", section 5, algorithm 2. A
 * worker that pulls is given the version c_max, the highest clock that any worker has begun; its
 * first update from that read belongs to this version and each further one to the next. So a slow
 * worker's update joins those that others have long made from the same model, and weighs little.
 *
 * Algorithm 2 prints "if c+1 > c_max: c_max <- c"; its text, equation 6 and appendix C mean c+1.
 * It keeps a mean and revises it with every update; here the part is the sum, so that the mean is
 * exact and does not depend on the order. */
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/rule/builtin.h"

struct dynsgd {
    uint64_t version_max; /* c_max */
    uint64_t max;         /* versions that are kept */
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    static const struct rbt_builtin_range range = {
        .name = "max", .fallback = 64, .min = 1, .max = UINT32_MAX - 1, .is_whole = true};
    double max;
    rbt_status st = rbt_builtin_numbers(setup, &range, 1, &max);
    if (st == RBT_OK) {
        st = rbt_builtin_new(setup, sizeof(struct dynsgd), self);
    }
    if (st != RBT_OK) {
        return st;
    }
    *(struct dynsgd *)*self = (struct dynsgd){.max = (uint64_t)max};
    needs->input = RBT_RULE_MOVES;
    needs->parts = RBT_PARTS_SHOWN;
    return RBT_OK;
}

static uint64_t on_send(void *self, const struct rbt_rule_send *send)
{
    const uint64_t version_max = ((const struct dynsgd *)self)->version_max;
    return send->versions < version_max ? send->versions : version_max;
}

static uint64_t map(void *self, const struct rbt_rule_message *message)
{
    const struct dynsgd *d = self;
    const uint64_t oldest = d->version_max < d->max ? 0 : d->version_max - d->max + 1;
    const uint64_t version =
        message->previous == RBT_RULE_NO_VERSION ? message->tag : message->previous + 1;
    return version < oldest ? oldest : version;
}

static void begin(void *self, const struct rbt_rule_message *message)
{
    struct dynsgd *d = self;
    const uint64_t next = message->clock < 0 ? 0 : (uint64_t)message->clock + 1;
    if (next > d->version_max) {
        d->version_max = next;
    }
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    (void)self;
    (void)message;
    float *restrict sum = row->part;
    const float *restrict u = row->delta;
    RBT_BUILTIN_APART
    for (size_t i = 0; i < row->width; i++) {
        sum[i] += u[i];
    }
    return RBT_OK;
}

static void fold(void *self, const struct rbt_rule_version *version, const struct rbt_rule_row *row)
{
    (void)self;
    const float count = (float)version->messages;
    float *restrict w = row->values;
    const float *restrict sum = row->part;
    RBT_BUILTIN_APART
    for (size_t i = 0; i < row->width; i++) {
        w[i] += sum[i] / count;
    }
}

/* A version stays as long as a worker may come back to it: with its next message, or with the first
 * one after another read, which gets c_max. That may be less than what the worker has now, since
 * versions run ahead of c_max when a slow worker pushes several clocks from one read. But no more
 * than `max` stay, or a worker that does nothing would keep all: what comes later from one that is
 * gone joins the oldest that is left, where it weighs as little as it may. */
static bool expire(void *self, const struct rbt_rule_age *age)
{
    const struct dynsgd *d = self;
    const uint64_t version = age->version.version;
    return age->lowest == RBT_RULE_NO_VERSION || version + d->max <= d->version_max ||
           (version < age->lowest && version < d->version_max);
}

static rbt_status save(const void *self, struct rbt_rule_sink *sink)
{
    const struct dynsgd *d = self;
    sink->put(sink, &d->version_max, sizeof d->version_max);
    return RBT_OK;
}

static rbt_status load(void *self, const struct rbt_rule_source *source)
{
    return rbt_builtin_load_count(source, &((struct dynsgd *)self)->version_max);
}

const struct rbt_rule rbt_rule_dynsgd = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_dynsgd,
    .name = "dynsgd",
    .summary = "Adds the mean of all updates computed from one version.",
    .create = create,
    .destroy = rbt_builtin_free,
    .send = on_send,
    .map = map,
    .begin = begin,
    .apply = apply,
    .fold = fold,
    .expire = expire,
    .save = save,
    .load = load};
