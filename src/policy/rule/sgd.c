/* policy/rule/sgd.c - gradient steps with a fixed schedule, and the averaged iterate:
 *
 *     w <- w - eta g
 *
 *     eta = lr                             constant
 *           lr decay^c                     decay=x, multiplicative; c is the clock of the update
 *           lr sqrt(a / (t + a))           a=x; Li's thesis, section 7.3. t messages came before
 *           lr / sqrt(t + 1)               sqrt=1; the usual rate for convex losses
 *           lr / sqrt(alpha c + 1)         alpha=x; Jiang and others, section 7.1, with x = 0.2
 *           lr / drop^floor(c / every)     drop=x,every=n: falls to 1/x every n clocks
 *
 * average=1 also keeps (1/T) sum_{t=1..T} w_{t+1} over the T messages of the table (Li's thesis,
 * equation 8.3), which is what those get who ask for the result. Rows that a message does not touch
 * do not move: their average catches up when they are touched or read.
 *
 * State with average=1: the average as of the last touch, and the number of messages until then. */
#include <math.h>
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "policy/rule/builtin.h"

struct sgd {
    double lr;
    double decay; /* 1: none; the same for the next four, which are 0 if there are none */
    double a;
    double alpha;
    double drop;
    double every;
    bool has_sqrt;
    bool has_average;
    float rate;     /* of the message that is being applied */
    uint64_t count; /* messages, with the one that is being applied */
};

enum { LR, DECAY, A, SQRT, ALPHA, DROP, EVERY, AVERAGE, PARAMETERS };

static const struct rbt_builtin_range ranges[PARAMETERS] = {
    [LR] = {.name = "lr", .fallback = 0.1, .max = 1e6, .is_open = true},
    [DECAY] = {.name = "decay", .fallback = 1, .max = 1, .is_open = true},
    [A] = {.name = "a", .max = 1e12},
    [SQRT] = {.name = "sqrt", .max = 1, .is_whole = true},
    [ALPHA] = {.name = "alpha", .max = 1e6},
    [DROP] = {.name = "drop", .fallback = 10, .min = 1, .max = 1e6, .is_open = true},
    [EVERY] = {.name = "every", .max = 1e12, .is_whole = true},
    [AVERAGE] = {.name = "average", .max = 1, .is_whole = true},
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    double v[PARAMETERS];
    rbt_status st = rbt_builtin_numbers(setup, ranges, PARAMETERS, v);
    if (st != RBT_OK) {
        return st;
    }
    const int schedules =
        (v[DECAY] != 1) + (v[A] != 0) + (v[SQRT] != 0) + (v[ALPHA] != 0) + (v[EVERY] != 0);
    if (schedules > 1) {
        return setup->fail("only one of decay, a, sqrt, alpha and every may be given, not %d",
                           schedules);
    }
    st = rbt_builtin_new(setup, sizeof(struct sgd), self);
    if (st != RBT_OK) {
        return st;
    }
    *(struct sgd *)*self = (struct sgd){.lr = v[LR],
                                        .decay = v[DECAY],
                                        .a = v[A],
                                        .alpha = v[ALPHA],
                                        .drop = v[DROP],
                                        .every = v[EVERY],
                                        .has_sqrt = v[SQRT] != 0,
                                        .has_average = v[AVERAGE] != 0};
    needs->input = RBT_RULE_GRADIENTS;
    needs->reads_results_only = true;
    needs->state_width = v[AVERAGE] != 0 ? setup->width + RBT_BUILTIN_COUNT_WIDTH : 0;
    return RBT_OK;
}

static double rate_of(const struct sgd *s, const struct rbt_rule_message *message)
{
    const double c = (double)message->clock;
    const double t = (double)message->count;
    if (s->a != 0) {
        return s->lr * sqrt(s->a / (t + s->a));
    }
    if (s->has_sqrt) {
        return s->lr / sqrt(t + 1);
    }
    if (s->alpha != 0) {
        return s->lr / sqrt(s->alpha * c + 1);
    }
    if (s->every != 0) {
        return s->lr / pow(s->drop, floor(c / s->every));
    }
    return s->lr * pow(s->decay, c);
}

static void begin(void *self, const struct rbt_rule_message *message)
{
    struct sgd *s = self;
    s->rate = (float)rate_of(s, message);
    s->count = message->count + 1;
}

/* By how much of the way from the average to the values the average moves for the messages from
 * `then` to `now`, in which the values stayed: A_now = (then A_then + (now - then) w) / now. */
static float catch_up(uint64_t then, uint64_t now)
{
    return now == 0 ? 0 : (float)((double)(now - then) / (double)now);
}

static void move(float *restrict average, const float *restrict w, float by, size_t width)
{
    RBT_BUILTIN_APART
    for (size_t i = 0; i < width; i++) {
        average[i] += by * (w[i] - average[i]);
    }
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct sgd *s = self;
    float *restrict w = row->values;
    const float *restrict g = row->delta;
    if (s->has_average) {
        const uint64_t then = rbt_builtin_count(row->state + row->width);
        move(row->state, w, catch_up(then, message->count), row->width);
    }
    RBT_BUILTIN_APART
    for (size_t i = 0; i < row->width; i++) {
        w[i] -= s->rate * g[i];
    }
    if (s->has_average) {
        move(row->state, w, catch_up(message->count, message->count + 1), row->width);
        rbt_builtin_set_count(row->state + row->width, message->count + 1);
    }
    return RBT_OK;
}

static void read(void *self, const struct rbt_rule_row *row, rbt_rule_purpose purpose,
                 float *values)
{
    const struct sgd *s = self;
    if (!s->has_average || purpose != RBT_READ_RESULT || s->count == 0) {
        memcpy(values, row->values, row->width * sizeof *values);
        return;
    }
    memcpy(values, row->state, row->width * sizeof *values);
    const uint64_t then = rbt_builtin_count(row->state + row->width);
    move(values, row->values, catch_up(then, s->count), row->width);
}

/* The rate is set anew for every message. */
static rbt_status save(const void *self, struct rbt_rule_sink *sink)
{
    const struct sgd *s = self;
    sink->put(sink, &s->count, sizeof s->count);
    return RBT_OK;
}

static rbt_status load(void *self, const struct rbt_rule_source *source)
{
    return rbt_builtin_load_count(source, &((struct sgd *)self)->count);
}

const struct rbt_rule rbt_rule_sgd = {
    .abi = RBT_RULE_ABI,
    .struct_size = sizeof rbt_rule_sgd,
    .name = "sgd",
    .summary = "Gradient steps that are constant or shrink by a schedule.",
    .create = create,
    .destroy = rbt_builtin_free,
    .begin = begin,
    .apply = apply,
    .read = read,
    .save = save,
    .load = load};
