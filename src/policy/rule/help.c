/* policy/rule/help.c - what people are told about the rules that come with Rubato: parameters, and
 * when to choose which. Apart from the rules, since a user's rule has no such text either; a test
 * compares it with what the rules ask for. Threads: none. Memory: none. */
#include <stddef.h>

#include "policy/rule/builtin.h"
#include "policy/rule/rule.h"

#define LR(value)                                                                                  \
    {                                                                                              \
        "lr", value, "the step size"                                                               \
    }
#define TRUST                                                                                      \
    {                                                                                              \
        "trust", "0", "initial step of a row, relative to its size; 0: off"                        \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL                                                                           \
    }

static const struct rbt_rule_parameter none[] = {END};

static const struct rbt_rule_parameter consgd[] = {
    {"factor", "1/workers", "the weight of every update, above 0 and at most 1"}, END};

static const struct rbt_rule_parameter sgd[] = {
    LR("0.1"),
    {"decay", "1", "multiply the step by this with every clock"},
    {"a", "0", "steps of lr sqrt(a/(t+a)) after t messages; 0: off"},
    {"sqrt", "0", "1: steps of lr/sqrt(t+1) after t messages"},
    {"alpha", "0", "steps of lr/sqrt(alpha c+1) at clock c; 0: off"},
    {"drop", "10", "divide the step by this every `every` clocks"},
    {"every", "0", "clocks between drops; 0: no drops"},
    {"average", "0", "1: the result is the average of the model over all messages"},
    END};

static const struct rbt_rule_parameter adagrad[] = {
    LR("0.1"),
    {"beta", "1e-12", "added to the root of the sum of squares; 1 if mu is given"},
    {"mu", "0", "weight decay"},
    TRUST,
    END};

static const struct rbt_rule_parameter adarev[] = {
    LR("0.1"),
    {"beta", "1e-12", "added to the root of the sum of squares"},
    {"max", "0", "copies of rows that a shard keeps; 0: about 256 per row"},
    TRUST,
    END};

static const struct rbt_rule_parameter dynsgd[] = {
    {"max", "64", "versions to keep; later updates join the oldest"}, END};

static const struct rbt_rule_parameter adadelay[] = {
    LR("0.1"),
    {"L", "1", "how steep the gradient may be; bounds the first steps by lr/L"},
    {"gamma", "0.5", "the power with which steps shrink with time and delay"},
    {"radius", "0", "keep every weight between -radius and radius; 0: no limit"},
    END};

static const struct rbt_rule_parameter ftrl[] = {
    LR("0.1"),
    {"beta", "1", "smooths the first steps"},
    {"l1", "0", "the larger, the more weights are exactly zero"},
    {"l2", "0", "pulls weights towards zero"},
    END};

static const struct rbt_rule_parameter adam[] = {
    LR("0.001"),
    {"beta1", "0.9", "how much of the mean gradient is kept"},
    {"beta2", "0.999", "how much of the mean square is kept"},
    {"eps", "1e-08", "added to the root of the mean square"},
    END};

static const struct rbt_rule_parameter prox[] = {
    LR("0.1"),
    {"l1", "0", "the larger, the more weights are exactly zero"},
    {"l2", "0", "pulls weights towards zero"},
    {"beta", "1", "added to the root of the sum of squares, with scale"},
    {"scale", "0", "1: divide the step by the root of the sum of squares"},
    {"pairs", "0", "1: workers send the scale of every weight behind the gradients"},
    END};

static const struct {
    const struct rbt_rule *rule;
    struct rbt_rule_help help;
} helps[] = {
    {&rbt_rule_add,
     {"Workers of about equal speed and a tuned step size. The baseline.", "w += u", none}},
    {&rbt_rule_consgd,
     {"Machines of different speed and scarce memory: steadier than add, equally cheap.",
      "w += factor u", consgd}},
    {&rbt_rule_dynsgd,
     {"Machines of different speed, some much slower. Late updates count little, others fully; the "
      "server keeps some copies of changed rows.",
      "w += sum over versions of the mean of the version's updates", dynsgd}},
    {&rbt_rule_sgd,
     {"A known schedule, or a comparison with one from a paper.", "w -= eta(t) g", sgd}},
    {&rbt_rule_adagrad,
     {"Sparse data, as a first choice: rare features take larger steps.",
      "n += g^2; w -= lr/(beta + sqrt(n)) (g + mu w)", adagrad}},
    {&rbt_rule_adarev,
     {"Many workers or long delays, without tuning of the step size. Keeps three more values per "
      "weight, and copies for reads under way.",
      "as adagrad, and steps since the gradient's read are revised", adarev}},
    {&rbt_rule_adadelay,
     {"Stragglers, when memory is scarce: late gradients take smaller steps, and the server needs "
      "no more memory than with adagrad.",
      "w -= lr/(L + c (t + delay)^gamma) g, c^2 = mean of t/(t + delay) g^2", adadelay}},
    {&rbt_rule_ftrl,
     {"Sparse models for click data: most weights become exactly zero. The rows should start at "
      "zero.",
      "w = (z - sign(z) l1)/((beta + sqrt(n))/lr + l2), or 0 if |z| <= l1", ftrl}},
    {&rbt_rule_adam,
     {"Networks and embeddings, whose gradients differ widely in size.",
      "w -= lr m/(sqrt(v) + eps), means of g and g^2 corrected by the row's updates", adam}},
    {&rbt_rule_prox,
     {"L1 or L2 penalties that the server should apply, and block proximal methods whose workers "
      "know the curvature.",
      "w = soft(w - lr g/u, lr l1/u)/(1 + lr l2/u)", prox}},
};

const struct rbt_rule_parameter rbt_rule_common[] = {
    {"aggregate", "0", "1: sum the updates of all workers of a clock, then apply them as one"},
    END};

const struct rbt_rule_help *rbt_rule_help_of(const struct rbt_rule *rule)
{
    for (size_t i = 0; i < sizeof helps / sizeof helps[0]; i++) {
        if (helps[i].rule == rule) {
            return &helps[i].help;
        }
    }
    return NULL;
}
