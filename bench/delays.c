/* bench/delays.c - a rule that counts how late updates are: gradient steps, and at the end on
 * standard error a line per table and shard,
 *
 *     delays TABLE EARLY COUNT...
 *
 * the mean delay of the first 100 messages divided by their mean number, and how many later
 * messages had delay 0, 1, 2, ... Used by bench/experiments/adaptive_delay.py.
 *
 *     rubato train linear ... --rule build/bench/libdelays.so:lr=0.1 */
#include <rubato/rule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EARLY = 100, DELAY_MAX = 4096, NAME_MAX_SIZE = 64 };

struct delays {
    char table[NAME_MAX_SIZE];
    float lr;
    double early_delays;
    double early_counts;
    uint64_t largest;
    uint64_t counts[DELAY_MAX];
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    const double lr = setup->number(setup, "lr", 0.1);
    struct delays *d = calloc(1, sizeof *d); /* tidy: allow heap, because users have no other */
    if (d == NULL) {
        return RBT_E_NOMEM;
    }
    d->lr = (float)lr;
    (void)snprintf(d->table, sizeof d->table, "%s", setup->table); /* may be cut */
    needs->input = RBT_RULE_GRADIENTS;
    *self = d;
    return RBT_OK;
}

static void begin(void *self, const struct rbt_rule_message *message)
{
    struct delays *d = self;
    if (message->count < EARLY) {
        d->early_delays += (double)message->delay;
        d->early_counts += (double)message->count;
    } else if (message->delay < DELAY_MAX) {
        d->counts[message->delay]++;
        d->largest = message->delay > d->largest ? message->delay : d->largest;
    }
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct delays *d = self;
    (void)message; /* counted when it began */
    for (uint32_t i = 0; i < row->width; i++) {
        row->values[i] -= d->lr * row->delta[i];
    }
    return RBT_OK;
}

static void destroy(void *self)
{
    struct delays *d = self;
    if (d->early_counts > 0) {
        fprintf(stderr, "delays %s %.4f", d->table, d->early_delays / d->early_counts);
        for (uint64_t i = 0; i <= d->largest; i++) {
            fprintf(stderr, " %llu", (unsigned long long)d->counts[i]);
        }
        fputc('\n', stderr);
    }
    free(d); /* tidy: allow heap, because users have no other */
}

static rbt_status save(const void *self, struct rbt_rule_sink *sink)
{
    sink->put(sink, self, sizeof(struct delays));
    return RBT_OK;
}

static rbt_status load(void *self, const struct rbt_rule_source *source)
{
    struct delays *d = self;
    if (source->count != sizeof *d) {
        return source->fail("%zu bytes are not counts of delays", source->count);
    }
    memcpy(d, source->bytes, sizeof *d);
    d->table[NAME_MAX_SIZE - 1] = '\0';
    d->largest = d->largest < DELAY_MAX ? d->largest : DELAY_MAX - 1;
    return RBT_OK;
}

RBT_RULE_EXPORT const struct rbt_rule rbt_rule = {.abi = RBT_RULE_ABI,
                                                  .struct_size = sizeof rbt_rule,
                                                  .name = "delays",
                                                  .summary = "Counts how late updates are.",
                                                  .create = create,
                                                  .destroy = destroy,
                                                  .begin = begin,
                                                  .apply = apply,
                                                  .save = save,
                                                  .load = load};
