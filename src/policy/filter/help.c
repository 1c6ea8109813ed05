/* policy/filter/help.c - all names that a text may have, and what people are told about them:
 * parameters, and when to choose which. A test compares it with what the filters ask for. Threads:
 * none. Memory: none. */
#include <stddef.h>

#include "policy/filter/builtin.h"
#include "policy/filter/filter.h"

#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL                                                                           \
    }

static const struct rbt_filter_parameter nothing[] = {END};
static const struct rbt_filter_parameter zeros[] = {{"ON", "1", "0: zeros are sent as well"}, END};
static const struct rbt_filter_parameter tiny[] = {{"T", NULL, "updates smaller than this wait"},
                                                   END};
static const struct rbt_filter_parameter significant[] = {
    {"T", NULL, "what has changed by this or less waits"},
    {"P", "0", "1: the threshold is T/(turn + 1), which shrinks to nothing"},
    END};
static const struct rbt_filter_parameter skip[] = {
    {"Q", NULL, "the probability of sending an update, at most 1"}, END};
static const struct rbt_filter_parameter sample[] = {
    {"N", NULL, "largest number of updates per message"}, END};
static const struct rbt_filter_parameter kkt[] = {
    {"L", NULL, "the L1 penalty, in the units of what is pushed"},
    {"D", "0", "how much smaller than L a gradient must be; at most L"},
    {"R", "8", "every R-th turn sends everything"},
    END};
static const struct rbt_filter_parameter fixed[] = {{"N", NULL, "bits of an element, 2 to 24"},
                                                    END};
static const struct rbt_filter_parameter zstd[] = {{"LEVEL", "1", "1 to 19; slower and smaller"},
                                                   END};

const struct rbt_filter_entry rbt_filter_all[] = {
    {.name = "none",
     .trait = RBT_TRAIT_OFF,
     .does = "No filter; stands alone.",
     .choose = "To turn off the filters of a table or a job.",
     .formula = "",
     .parameters = nothing},
    {.name = "keys",
     .trait = RBT_TRAIT_KEYS,
     .does = "A list of keys is sent once; later messages name it by its hash.",
     .choose = "Workers that read and push one set of rows again and again: nearly always.",
     .formula = "",
     .parameters = nothing},
    {.name = "zeros",
     .trait = RBT_TRAIT_ZEROS,
     .does = "Elements that are zero are not sent.",
     .choose = "It need not be named: every list of filters has it, unless it says zeros:0.",
     .formula = "push: x is sent if x != 0",
     .parameters = zeros},
    {.name = "tiny",
     .filter = &rbt_filter_tiny,
     .does = "Tiny updates wait at the worker until they have grown.",
     .choose = "Updates many of which are far below what matters. Nothing is lost.",
     .formula = "push: x is sent if |x| >= T",
     .parameters = tiny},
    {.name = "significant",
     .filter = &rbt_filter_significant,
     .does = "Only elements that have changed by more than a threshold are sent.",
     .choose = "Models most of which have settled. Receivers are never off by more than T.",
     .formula = "push: x is sent if |x| > T; pull: if |x - known| > T",
     .parameters = significant},
    {.name = "changed",
     .filter = &rbt_filter_changed,
     .does = "Only elements that the worker does not have yet are sent.",
     .choose = "Models of which few weights change between two reads. Exact.",
     .formula = "pull: x is sent if x != known, bit by bit",
     .parameters = nothing},
    {.name = "skip",
     .filter = &rbt_filter_skip,
     .does = "Each update is sent with a probability and scaled up for those left out.",
     .choose = "Noise is no concern, and bytes are. The mean is right, the variance grows.",
     .formula = "push: x/Q is sent with probability Q; variance (1-Q)/Q x^2",
     .parameters = skip},
    {.name = "sample",
     .filter = &rbt_filter_sample,
     .does = "A random sample of N updates is sent and scaled up for the others.",
     .choose = "Like skip, when a message must not hold more than N updates.",
     .formula = "push: N of M nonzero updates are sent, as x M/N",
     .parameters = sample},
    {.name = "kkt",
     .filter = &rbt_filter_kkt,
     .does = "Gradients that would leave a weight at zero are not sent.",
     .choose = "L1 penalties, with a rule that takes gradients: most weights of a sparse model.",
     .formula = "push: g is not sent if w = 0 and |g| <= (L-D)/workers",
     .parameters = kkt},
    {.name = "f16",
     .filter = &rbt_filter_f16,
     .does = "Half precision: 11 bits of precision, up to 65504.",
     .choose = "Half of the bytes, for values of the usual size of weights.",
     .formula = "the nearest value, ties to even",
     .parameters = nothing},
    {.name = "bf16",
     .filter = &rbt_filter_bf16,
     .does = "The upper half of a float: 8 bits of precision, its full range.",
     .choose = "Half of the bytes, for values that may be very large or small.",
     .formula = "the nearest value, ties to even",
     .parameters = nothing},
    {.name = "fixed",
     .filter = &rbt_filter_fixed,
     .does = "Fixed point of N bits, rounded at random so that the mean is right.",
     .choose = "Updates of similar size, with few bits: 8 is a quarter of the bytes.",
     .formula = "z = floor(x/b L + u), b = max |x|, L = 2^(N-1) - 1, u in [0, 1)",
     .parameters = fixed},
    {.name = "lz4",
     .filter = &rbt_filter_lz4,
     .does = "Compression that costs little time. Exact.",
     .choose = "After other filters, whose results have many equal bytes.",
     .formula = "",
     .parameters = nothing},
    {.name = "zstd",
     .filter = &rbt_filter_zstd,
     .does = "Compression that saves more, for more time. Exact.",
     .choose = "Like lz4, on networks that are slow next to the processors.",
     .formula = "",
     .parameters = zstd},
    {.name = NULL},
};

const char *rbt_filter_kind_name(const struct rbt_filter_entry *entry)
{
    static const char *const names[] = {
        [RBT_FILTER_SELECT] = "select", [RBT_FILTER_ROUND] = "round", [RBT_FILTER_PACK] = "pack"};
    return entry->filter == NULL ? "" : names[entry->filter->kind];
}

rbt_filter_use rbt_filter_use_of(const struct rbt_filter_entry *entry)
{
    if (entry->filter != NULL) {
        return entry->filter->use;
    }
    return entry->trait == RBT_TRAIT_ZEROS ? RBT_FILTER_FOR_PUSH : RBT_FILTER_FOR_BOTH;
}
