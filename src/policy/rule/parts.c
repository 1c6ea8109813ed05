/* policy/rule/parts.c - not a rule for parameters: it deals parts of the data out to workers that
 * ask.
 *
 * A table of this rule has a row for each worker, all of them in one shard, shows updates at once
 * and is read without waiting. A worker pushes to its own row what it has finished and what it
 * wants next, and finds the answer in it: the order in which the shard applies updates is the order
 * in which parts are dealt, so that no two get the same one. That works wherever tables do: in one
 * process, in several, and simulated. Who asks is in algo/frame/assign.c; core/dealer.h decides.
 *
 * An update has a place for each of the RBT_ASSIGN_* numbers of rubato's own header below, and so
 * has the answer. `turn` counts a worker's questions and is repeated in the answer, so that an
 * answer is never taken for that to a later question. Times are seconds, in two floats. */
#include <rubato/rule.h>
#include <rubato/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/dealer.h"
#include "policy/rule/builtin.h"

/* As in algo/frame/assign.c. */
enum { TURN, PASS, LIMIT, FINISHED, FINISHED_PASS, SECONDS, SECONDS_REST, WIDTH };
enum { ANSWER = 1, ANSWER_PASS, ANSWER_PART, IS_FIRST, COUNT, RETURNED }; /* as many */

static const double whole_max = 16777216.0; /* so far a float counts without gaps */

struct parts {
    rbt_dealer *dealer;
    uint32_t part_count;
    uint32_t worker_count;
    rbt_status (*fail)(const char *format, ...);
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    enum { PARTS, PATIENCE, LEAST, FIRST, PARAMETERS };
    static const struct rbt_builtin_range ranges[PARAMETERS] = {
        [PARTS] = {.name = "parts", .fallback = 1, .min = 1, .max = 1e6, .is_whole = true},
        [PATIENCE] = {.name = "patience", .fallback = 4, .min = 1, .max = 1e6, .is_whole = true},
        [LEAST] = {.name = "least", .max = 1e6},
        [FIRST] = {.name = "first", .fallback = 60, .max = 1e6},
    };
    double v[PARAMETERS];
    (void)needs; /* nothing besides the rows */
    rbt_status st = rbt_builtin_numbers(setup, ranges, PARAMETERS, v);
    if (st != RBT_OK) {
        return st;
    }
    if (setup->width != WIDTH) {
        return setup->fail("it is for Rubato's own use, and not for parameters");
    }
    st = rbt_builtin_new(setup, sizeof(struct parts), self);
    if (st != RBT_OK) {
        return st;
    }
    struct parts *parts = *self;
    *parts = (struct parts){
        .part_count = (uint32_t)v[PARTS], .worker_count = setup->worker_count, .fail = setup->fail};
    const struct rbt_dealer_options options = {.part_count = parts->part_count,
                                               .worker_count = setup->worker_count,
                                               .patience = (uint32_t)v[PATIENCE],
                                               .least = (uint64_t)(v[LEAST] * 1e9),
                                               .first = (uint64_t)(v[FIRST] * 1e9)};
    st = rbt_dealer_create(&options, &parts->dealer);
    if (st != RBT_OK) {
        rbt_builtin_free(parts);
    }
    return st;
}

static void destroy(void *self)
{
    struct parts *parts = self;
    rbt_dealer_destroy(parts->dealer);
    rbt_builtin_free(parts);
}

/* Whether all places of a question hold whole numbers that can be. */
static bool is_question(const struct parts *parts, const float *delta)
{
    for (size_t i = 0; i < SECONDS; i++) {
        const double number = (double)delta[i];
        if (!(number >= 0 && number < whole_max) || number != (double)(uint32_t)number) {
            return false;
        }
    }
    const double seconds = (double)delta[SECONDS] + (double)delta[SECONDS_REST];
    return seconds >= 0 && seconds < 1e9 && delta[LIMIT] <= (float)parts->part_count &&
           delta[FINISHED] <= (float)parts->part_count;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    struct parts *parts = self;
    const float *delta = row->delta;
    if (row->key != message->worker || message->worker >= parts->worker_count ||
        !is_question(parts, delta)) {
        return parts->fail("a request for parts must have the worker's own key and finite times");
    }
    const uint64_t now = (uint64_t)(((double)delta[SECONDS] + (double)delta[SECONDS_REST]) * 1e9);
    bool is_first = false;
    rbt_status st = RBT_OK;
    if (delta[FINISHED] > 0) {
        const struct rbt_dealt finished = {.pass = (uint64_t)delta[FINISHED_PASS],
                                           .part = (uint32_t)delta[FINISHED] - 1};
        st = rbt_dealer_finish(parts->dealer, message->worker, &finished, now, &is_first);
    }
    const struct rbt_dealer_ask ask = {.worker = message->worker,
                                       .pass = (uint64_t)delta[PASS],
                                       .limit = (uint32_t)delta[LIMIT],
                                       .now = now};
    enum rbt_parts_answer answer = RBT_PARTS_DONE;
    struct rbt_dealt dealt = {0};
    st = st != RBT_OK ? st : rbt_dealer_take(parts->dealer, &ask, &answer, &dealt);
    row->values[TURN] = delta[TURN];
    row->values[ANSWER] = (float)answer;
    row->values[ANSWER_PASS] = (float)dealt.pass;
    row->values[ANSWER_PART] = (float)dealt.part;
    row->values[IS_FIRST] = is_first ? 1.0F : 0.0F;
    row->values[COUNT] = (float)rbt_dealer_finished(parts->dealer, message->worker);
    row->values[RETURNED] = (float)rbt_dealer_returned(parts->dealer);
    return st;
}

static rbt_status save(const void *self, struct rbt_rule_sink *sink)
{
    struct rbt_sink own = {0};
    rbt_dealer_save(((const struct parts *)self)->dealer, &own);
    const rbt_status st = own.status;
    if (st == RBT_OK) {
        sink->put(sink, own.bytes, own.count);
    }
    rbt_sink_deinit(&own);
    return st;
}

static rbt_status load(void *self, const struct rbt_rule_source *source)
{
    const char *bytes = source->bytes;
    struct rbt_source own = {.at = bytes, .end = bytes + source->count};
    rbt_dealer_load(((struct parts *)self)->dealer, &own);
    rbt_source_finish(&own);
    return own.status;
}

const struct rbt_rule rbt_rule_dealing = {.abi = RBT_RULE_ABI,
                                          .struct_size = sizeof rbt_rule_dealing,
                                          .name = "parts",
                                          .summary = "Deals parts of the data out to workers.",
                                          .create = create,
                                          .destroy = destroy,
                                          .apply = apply,
                                          .save = save,
                                          .load = load};
