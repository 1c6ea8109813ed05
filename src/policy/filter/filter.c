/* policy/filter/filter.c - the kind of policy that filters are: where they come from, what help
 * says of them, and how a list of them is read.
 *
 * Threads: any. Memory: none. */
#include "policy/filter/filter.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"
#include "policy/filter/builtin.h"

/* --- Names without a filter: others do what they ask for ------------------------------------- */

static const struct rbt_policy_parameter zeros_parameters[] = {
    {"ON", "0: zeros are sent as well", .fallback = 1}, {.name = NULL}};

static const struct rbt_filter none_filter = {.name = "none",
                                              .summary = "No filter; stands alone."};
static const struct rbt_filter keys_filter = {
    .name = "keys", .summary = "A list of keys is sent once; later messages name it by its hash."};
static const struct rbt_filter zeros_filter = {
    .name = "zeros", .summary = "Elements that are zero are not sent.", .use = RBT_FILTER_FOR_PUSH};

static const struct rbt_policy none = {.code = &none_filter,
                                       .choose = "To turn off the filters of a table or a job."};
static const struct rbt_policy keys = {
    .code = &keys_filter,
    .choose = "Workers that read and push one set of rows again and again: nearly always."};
static const struct rbt_policy zeros = {
    .code = &zeros_filter,
    .choose = "It need not be named: every list of filters has it, unless it says zeros:0.",
    .formula = "push: x is sent if x != 0",
    .parameters = zeros_parameters};

enum rbt_filter_trait rbt_filter_trait(const struct rbt_policy *policy)
{
    return policy == &none    ? RBT_TRAIT_OFF
           : policy == &keys  ? RBT_TRAIT_KEYS
           : policy == &zeros ? RBT_TRAIT_ZEROS
                              : RBT_TRAIT_NONE;
}

/* --- The kind -------------------------------------------------------------------------------- */

RBT_POLICY_BEGINS(struct rbt_filter);

static const struct rbt_policy *const all[] = {&none, &keys, &zeros,
#define ENTRY(name, file) &rbt_filter_##name,
                                               RBT_FILTER_LIST(ENTRY)
#undef ENTRY
                                                   NULL};

static const char before[] =
    "Usage: rubato train ALGO --filter [push.|pull.]NAME[:NUMBER...],... ...\n\n"
    "Filters make messages smaller: updates on their way to the servers (push), and\n"
    "parameters on their way back (pull). A list is applied to both directions; with\n"
    "\"push.\" or \"pull.\" in front a filter works in one direction. First the select\n"
    "filters choose what is sent, then one filter may round, then pack filters\n"
    "compress.\n\n"
    "Which ones?\n"
    "  results must not change           keys,changed,zeros,lz4\n"
    "  a slow network                    keys,significant:1e-4,fixed:8,zstd\n"
    "  most weights exactly zero         keys,kkt,changed,lz4; --rule ftrl --l1 1e-4\n";

static const char after[] =
    "\n"
    "Yours: --filter ./mine.so:0.5 names a shared object that is written in C against\n"
    "rubato/filter.h and linked with nothing; see docs/filters.md and\n"
    "examples/filter.c.\n"
    "\n"
    "Examples:\n"
    "  rubato train linear --data train.svm --filter keys,fixed:8,lz4\n"
    "  rubato train mf --data ratings.csv --filter push.significant:1e-4,pull.f16\n"
    "  rubato simulate -- train linear --data train.svm --filter keys,changed,lz4\n";

/* Its numbers, its directions, and its kind of filter. */
static void print_title(FILE *out, const struct rbt_policy *policy)
{
    static const char *const uses[] = {[RBT_FILTER_FOR_BOTH] = "push and pull",
                                       [RBT_FILTER_FOR_PUSH] = "push",
                                       [RBT_FILTER_FOR_PULL] = "pull"};
    static const char *const kinds[] = {[RBT_FILTER_SELECT] = ", select",
                                        [RBT_FILTER_ROUND] = ", round",
                                        [RBT_FILTER_PACK] = ", pack"};
    const struct rbt_filter *filter = policy->code;
    const struct rbt_policy_parameter *parameter = policy->parameters;
    for (; parameter != NULL && parameter->name != NULL; parameter++) {
        fprintf(out, parameter->is_required ? ":%s" : "[:%s]", parameter->name);
    }
    fprintf(out, ", %s%s", uses[filter->use],
            rbt_filter_trait(policy) == RBT_TRAIT_NONE ? kinds[filter->kind] : "");
}

/* What a text says of the direction. */
static rbt_filter_use direction_of(const char *piece)
{
    return strncmp(piece, "push.", 5) == 0   ? RBT_FILTER_FOR_PUSH
           : strncmp(piece, "pull.", 5) == 0 ? RBT_FILTER_FOR_PULL
                                             : RBT_FILTER_FOR_BOTH;
}

static size_t prefix_size(const char *piece)
{
    return direction_of(piece) == RBT_FILTER_FOR_BOTH ? 0 : strlen("push.");
}

/* What a user's filter lacks. */
static const char *missing(const void *found)
{
    const struct rbt_filter *filter = found;
    switch (filter->kind) {
    case RBT_FILTER_SELECT:
        return filter->select == NULL ? "select function" : NULL;
    case RBT_FILTER_ROUND:
        return filter->round == NULL    ? "round function"
               : filter->encode == NULL ? "encode function"
               : filter->decode == NULL ? "decode function"
                                        : NULL;
    case RBT_FILTER_PACK:
        return filter->pack == NULL     ? "pack function"
               : filter->unpack == NULL ? "unpack function"
                                        : NULL;
    default:
        return "kind that this version knows";
    }
}

const struct rbt_policy_kind rbt_policy_filters = {
    .plugin = {.what = "filter",
               .symbol = "rbt_filter",
               .definition = "RBT_FILTER_EXPORT const struct rbt_filter rbt_filter",
               .header = "rubato/filter.h",
               .abi = RBT_FILTER_ABI,
               .struct_size = sizeof(struct rbt_filter),
               .missing = missing},
    .plural = "filters",
    .text = "a list of filters",
    .text_max = RBT_TEXT_MAX,
    .is_list = true,
    .has_parameters = true,
    .prefix_size = prefix_size,
    .all = all,
    .before = before,
    .after = after,
    .print_title = print_title};

/* --- One filter of a list -------------------------------------------------------------------- */

/* Which filter it is, and its direction. */
static rbt_status find(const struct rbt_policy_piece *piece, struct rbt_filter_item *item)
{
    const void *code = NULL;
    const rbt_status st = rbt_policy_find(&rbt_policy_filters, piece->text, &code);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_filter *filter = code;
    memcpy(item->name, piece->name, piece->name_size);
    item->trait = rbt_filter_trait(rbt_policy_named(&rbt_policy_filters, piece));
    item->filter = item->trait == RBT_TRAIT_NONE ? filter : NULL;
    const rbt_filter_use own = filter->use;
    const rbt_filter_use asked = direction_of(piece->text);
    if (asked != RBT_FILTER_FOR_BOTH && own != RBT_FILTER_FOR_BOTH && asked != own) {
        return rbt_fail(RBT_E_INVALID, "\"%.*s\": the filter \"%s\" is for %s only",
                        (int)piece->size, piece->text, item->name,
                        own == RBT_FILTER_FOR_PUSH ? "updates (push)" : "reads (pull)");
    }
    const rbt_filter_use both = asked != RBT_FILTER_FOR_BOTH ? asked : own;
    item->is_for_push = both != RBT_FILTER_FOR_PULL;
    item->is_for_pull = both != RBT_FILTER_FOR_PUSH;
    return RBT_OK;
}

/* The numbers behind the name, each after a ':'. */
static rbt_status read_arguments(const struct rbt_policy_piece *piece, struct rbt_filter_item *item)
{
    const char *at = piece->name + piece->name_size;
    const char *end = piece->text + piece->size;
    while (at < end) {
        RBT_ASSERT(*at == ':');
        const size_t size = strcspn(at + 1, ":,");
        char number[RBT_TEXT_SHORT * 2] = "";
        double value = 0;
        if (item->argument_count == RBT_FILTER_ARGUMENTS_MAX) {
            return rbt_fail(RBT_E_INVALID, "\"%.*s\": a filter takes at most %d numbers",
                            (int)piece->size, piece->text, RBT_FILTER_ARGUMENTS_MAX);
        }
        if (size < sizeof number) {
            memcpy(number, at + 1, size);
        }
        if (!rbt_text_to_real(number, &value) || !isfinite(value)) {
            return rbt_fail(RBT_E_INVALID, "\"%.*s\": \"%.*s\" is not a number", (int)piece->size,
                            piece->text, (int)size, at + 1);
        }
        item->arguments[item->argument_count++] = value;
        at += 1 + size;
    }
    return RBT_OK;
}

rbt_status rbt_filter_parse(const char **text, struct rbt_filter_item *item)
{
    const struct rbt_policy_piece piece = rbt_policy_piece(&rbt_policy_filters, *text);
    *item = (struct rbt_filter_item){.trait = RBT_TRAIT_NONE};
    if (piece.name_size == 0) {
        return rbt_fail(RBT_E_INVALID, "\"%.*s\" has no name of a filter; write NAME:NUMBER,...",
                        (int)piece.size, piece.text);
    }
    rbt_status st = find(&piece, item);
    if (st == RBT_OK) {
        st = read_arguments(&piece, item);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (item->trait == RBT_TRAIT_ZEROS && item->argument_count > 0) {
        const bool is_right =
            item->argument_count == 1 && (item->arguments[0] == 0 || item->arguments[0] == 1);
        if (!is_right) {
            return rbt_fail(RBT_E_INVALID,
                            "\"%.*s\": the filter \"zeros\" takes one number, 0 (they are sent) "
                            "or 1",
                            (int)piece.size, piece.text);
        }
    } else if (item->argument_count > 0 &&
               (item->filter == NULL || item->filter->create == NULL)) { /* the others see to it */
        return rbt_fail(RBT_E_INVALID, "\"%.*s\": the filter \"%s\" takes no numbers",
                        (int)piece.size, piece.text, item->name);
    }
    *text += piece.size;
    if (**text == ',') {
        (*text)++;
        if (**text == '\0') {
            return rbt_fail(RBT_E_INVALID, "the list of filters ends with a comma");
        }
    }
    return RBT_OK;
}
