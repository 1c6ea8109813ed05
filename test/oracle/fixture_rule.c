/* oracle/fixture_rule.c - a user's rule for the tests, as a shared object. Its parameters:
 *
 *     scale=X     adds X times the update
 *     clip=X      of which every element is cut to -X .. X before
 *     witness=1   for rows of four values: adds the first and notes in the others how many messages
 *                 came before this one, its delay, and its clock
 *     fail=N      the message with N others before it fails */
#include <rubato/rule.h>
#include <stdlib.h>

struct fixture {
    float scale;
    float clip;
    double fail;
    bool is_witness;
    rbt_status (*fail_with)(const char *format, ...);
};

static rbt_status create(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                         void **self)
{
    (void)needs;
    struct fixture *fixture = malloc(sizeof *fixture);
    if (fixture == NULL) {
        return RBT_E_NOMEM;
    }
    *fixture = (struct fixture){.scale = (float)setup->number(setup, "scale", 1),
                                .clip = (float)setup->number(setup, "clip", 1e30),
                                .fail = setup->number(setup, "fail", -1),
                                .is_witness = setup->number(setup, "witness", 0) != 0,
                                .fail_with = setup->fail};
    *self = fixture;
    return RBT_OK;
}

static float cut(float value, float limit)
{
    const float low = value < -limit ? -limit : value;
    return low > limit ? limit : low;
}

static rbt_status apply(void *self, const struct rbt_rule_message *message,
                        const struct rbt_rule_row *row)
{
    const struct fixture *fixture = self;
    if ((double)message->count == fixture->fail) {
        return fixture->fail_with("message %d is one too many", (int)message->count);
    }
    if (fixture->is_witness) {
        row->values[0] += row->delta[0];
        row->values[1] = (float)message->count;
        row->values[2] = (float)message->delay;
        row->values[3] = (float)message->clock;
        return RBT_OK;
    }
    for (uint32_t i = 0; i < row->width; i++) {
        row->values[i] += fixture->scale * cut(row->delta[i], fixture->clip);
    }
    return RBT_OK;
}

RBT_RULE_EXPORT const struct rbt_rule rbt_rule = {.abi = RBT_RULE_ABI,
                                                  .struct_size = sizeof rbt_rule,
                                                  .name = "fixture",
                                                  .summary = "Does what tests need.",
                                                  .create = create,
                                                  .destroy = free,
                                                  .apply = apply};
