/* policy/filter/filter.c - filters by their text: those that come with Rubato, and shared objects.
 *
 * Threads: any. Memory: none. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/option.h"
#include "base/text.h"
#include "policy/filter/filter.h"
#include "policy/plugin.h"

enum { NAMES_MAX = 32 };

/* What a user's filter lacks. */
static const char *missing(const void *found)
{
    const struct rbt_filter *filter = found;
    if (filter->name == NULL) {
        return "name";
    }
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

static const struct rbt_plugin_kind plugin_kind = {
    .what = "filter",
    .symbol = "rbt_filter",
    .definition = "RBT_FILTER_EXPORT const struct rbt_filter rbt_filter",
    .header = "rubato/filter.h",
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof(struct rbt_filter),
    .missing = missing};

/* --- Pieces of a text ------------------------------------------------------------------------ */

struct piece {
    const char *text; /* with its direction */
    size_t size;
    const char *name; /* or the path */
    size_t name_size;
    rbt_filter_use use; /* what its direction says */
};

/* A path has a '/' before any argument, and ends with the name behind its last one. */
static struct piece first_piece(const char *text)
{
    struct piece piece = {.text = text, .size = strcspn(text, ",")};
    const char *at = text;
    if (strncmp(at, "push.", 5) == 0) {
        piece.use = RBT_FILTER_FOR_PUSH;
        at += 5;
    } else if (strncmp(at, "pull.", 5) == 0) {
        piece.use = RBT_FILTER_FOR_PULL;
        at += 5;
    }
    const char *end = text + piece.size;
    const char *last = at;
    if (at[strcspn(at, "/:,")] == '/') {
        for (const char *c = at; c < end; c++) {
            last = *c == '/' ? c : last;
        }
    }
    piece.name = at;
    piece.name_size = (size_t)(last - at) + strcspn(last, ":,");
    RBT_ASSERT(piece.name + piece.name_size <= end);
    return piece;
}

static bool is_path(const struct piece *piece)
{
    return memchr(piece->name, '/', piece->name_size) != NULL;
}

static rbt_status check_size(const char *text)
{
    if (strlen(text) >= RBT_FILTER_TEXT_MAX) {
        return rbt_fail(RBT_E_INVALID, "a list of filters has at most %d bytes, not %zu",
                        RBT_FILTER_TEXT_MAX - 1, strlen(text));
    }
    return RBT_OK;
}

/* --- Finding --------------------------------------------------------------------------------- */

/* There is no such filter: says which one may be meant, or which there are. */
static rbt_status refuse(const char *name)
{
    const char *names[NAMES_MAX];
    char list[RBT_ERROR_MAX / 2] = "";
    size_t count = 0;
    size_t used = 0;
    for (; rbt_filter_all[count].name != NULL; count++) {
        RBT_ASSERT(count < NAMES_MAX);
        names[count] = rbt_filter_all[count].name;
        const int added =
            snprintf(list + used, sizeof list - used, "%s%s", count == 0 ? "" : ", ", names[count]);
        used += (size_t)added;
        RBT_ASSERT(used < sizeof list);
    }
    const rbt_status st = rbt_fail(RBT_E_INVALID, "there is no filter \"%s\"", name);
    const char *guess = rbt_option_guess(name, names, count);
    return guess != NULL
               ? rbt_fail_hint(st, "Did you mean \"%s\"?", guess)
               : rbt_fail_hint(
                     st, "The filters are %s. One of your own is named by its path: ./mine.so.",
                     list);
}

static rbt_status find(const struct piece *piece, struct rbt_filter_item *item, rbt_filter_use *use)
{
    if (is_path(piece)) {
        const void *found = NULL;
        const rbt_status st = rbt_plugin_find(&plugin_kind, item->name, &found);
        if (st == RBT_OK) {
            item->filter = found;
            *use = item->filter->use;
        }
        return st;
    }
    for (const struct rbt_filter_entry *entry = rbt_filter_all; entry->name != NULL; entry++) {
        if (strcmp(entry->name, item->name) == 0) {
            item->filter = entry->filter;
            item->trait = entry->trait;
            *use = rbt_filter_use_of(entry);
            return RBT_OK;
        }
    }
    return refuse(item->name);
}

static rbt_status set_direction(const struct piece *piece, rbt_filter_use use,
                                struct rbt_filter_item *item)
{
    if (piece->use != RBT_FILTER_FOR_BOTH && use != RBT_FILTER_FOR_BOTH && piece->use != use) {
        return rbt_fail(RBT_E_INVALID, "\"%.*s\": the filter \"%s\" is for %s only",
                        (int)piece->size, piece->text, item->name,
                        use == RBT_FILTER_FOR_PUSH ? "updates (push)" : "reads (pull)");
    }
    const rbt_filter_use both = piece->use != RBT_FILTER_FOR_BOTH ? piece->use : use;
    item->is_for_push = both != RBT_FILTER_FOR_PULL;
    item->is_for_pull = both != RBT_FILTER_FOR_PUSH;
    return RBT_OK;
}

/* The numbers behind the name, each after a ':'. */
static rbt_status read_arguments(const struct piece *piece, struct rbt_filter_item *item)
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
    const struct piece piece = first_piece(*text);
    rbt_filter_use use = RBT_FILTER_FOR_BOTH;
    rbt_status st = check_size(*text);
    if (st != RBT_OK) {
        return st;
    }
    *item = (struct rbt_filter_item){.trait = RBT_TRAIT_NONE};
    if (piece.name_size == 0) {
        return rbt_fail(RBT_E_INVALID, "\"%.*s\" has no name of a filter; write NAME:NUMBER,...",
                        (int)piece.size, piece.text);
    }
    memcpy(item->name, piece.name, piece.name_size);
    st = find(&piece, item, &use);
    if (st == RBT_OK) {
        st = set_direction(&piece, use, item);
    }
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

/* Adds bytes to a text of RBT_FILTER_TEXT_MAX. */
static rbt_status append(char *to, size_t *used, const char *bytes, size_t size)
{
    if (*used + size >= RBT_FILTER_TEXT_MAX) {
        return rbt_fail(RBT_E_INVALID, "the filters have paths that are too long: \"%s\"", bytes);
    }
    memcpy(to + *used, bytes, size);
    *used += size;
    to[*used] = '\0';
    return RBT_OK;
}

rbt_status rbt_filter_resolve(const char *text, char *to)
{
    size_t used = 0;
    rbt_status st = check_size(text);
    to[0] = '\0';
    while (st == RBT_OK && *text != '\0') {
        const struct piece piece = first_piece(text);
        char path[RBT_FILTER_TEXT_MAX] = "";
        char whole[RBT_PLUGIN_PATH_MAX];
        const char *rest = text;
        if (is_path(&piece)) {
            memcpy(path, piece.name, piece.name_size);
            st = append(to, &used, text, (size_t)(piece.name - text));
            if (st == RBT_OK) {
                st = rbt_plugin_resolve(&plugin_kind, path, whole);
            }
            if (st == RBT_OK) {
                st = append(to, &used, whole, strlen(whole));
            }
            rest = piece.name + piece.name_size;
        }
        text += piece.size;
        text += *text == ',';
        if (st == RBT_OK) {
            st = append(to, &used, rest, (size_t)(text - rest));
        }
    }
    return st;
}

bool rbt_filter_next_path(const char **text, char *path)
{
    bool has_path = false;
    while (!has_path && **text != '\0') {
        const struct piece piece = first_piece(*text);
        has_path = is_path(&piece) && piece.name_size < RBT_FILTER_TEXT_MAX;
        if (has_path) {
            memcpy(path, piece.name, piece.name_size);
            path[piece.name_size] = '\0';
        }
        *text += piece.size;
        *text += **text == ',';
    }
    return has_path;
}
