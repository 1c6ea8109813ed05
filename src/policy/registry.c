/* policy/registry.c - rules, filters and priorities by their names: those that come with Rubato,
 * and shared objects.
 *
 * Threads: any. Memory: none. */
#include "policy/registry.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/option.h"

enum { POLICIES_MAX = 64, TYPED_MAX = 64 };

const char *rbt_policy_name(const struct rbt_policy *policy)
{
    return ((const struct rbt_policy_head *)policy->code)->name;
}

/* --- Pieces of a text ------------------------------------------------------------------------ */

struct rbt_policy_piece rbt_policy_piece(const struct rbt_policy_kind *kind, const char *text)
{
    struct rbt_policy_piece piece = {.text = text, .size = strcspn(text, kind->is_list ? "," : "")};
    const char *end = text + piece.size;
    piece.name = text + (kind->prefix_size == NULL ? 0 : kind->prefix_size(text));
    RBT_ASSERT(piece.name <= end);
    const size_t size = (size_t)(end - piece.name);
    const char *colon = kind->has_parameters ? memchr(piece.name, ':', size) : NULL;
    piece.name_size = colon == NULL ? size : (size_t)(colon - piece.name);
    piece.is_path = memchr(piece.name, '/', piece.name_size) != NULL;
    if (piece.is_path) { /* folders may have a ':' in their names */
        const char *last = memrchr(piece.name, '/', size);
        colon = kind->has_parameters ? memchr(last, ':', (size_t)(end - last)) : NULL;
        piece.name_size = colon == NULL ? size : (size_t)(colon - piece.name);
    }
    return piece;
}

static const char *behind(const struct rbt_policy_piece *piece)
{
    const char *end = piece->text + piece->size;
    return *end == ',' ? end + 1 : end;
}

static rbt_status check_size(const struct rbt_policy_kind *kind, const char *text)
{
    const size_t size = strlen(text);
    if (size >= kind->text_max) {
        return rbt_fail(RBT_E_INVALID, "%s has at most %u bytes, not %zu", kind->text,
                        kind->text_max - 1, size);
    }
    return RBT_OK;
}

/* --- Finding --------------------------------------------------------------------------------- */

static bool has_name(const struct rbt_policy *policy, const struct rbt_policy_piece *piece)
{
    const char *name = rbt_policy_name(policy);
    return strlen(name) == piece->name_size && memcmp(name, piece->name, piece->name_size) == 0;
}

const struct rbt_policy *rbt_policy_named(const struct rbt_policy_kind *kind,
                                          const struct rbt_policy_piece *piece)
{
    for (const struct rbt_policy *const *at = kind->all; *at != NULL; at++) {
        if (has_name(*at, piece)) {
            return *at;
        }
    }
    return kind->internal != NULL && has_name(kind->internal, piece) ? kind->internal : NULL;
}

/* There is no such policy: says which one may be meant, or which there are. */
static rbt_status refuse(const struct rbt_policy_kind *kind, const struct rbt_policy_piece *piece)
{
    const char *names[POLICIES_MAX];
    char typed[TYPED_MAX] = ""; /* longer ones are near to none */
    char list[RBT_ERROR_MAX / 2] = "";
    size_t count = 0;
    size_t used = 0;
    for (; kind->all[count] != NULL; count++) {
        RBT_ASSERT(count < POLICIES_MAX);
        names[count] = rbt_policy_name(kind->all[count]);
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", count == 0 ? "" : ", ",
                                 names[count]);
        RBT_ASSERT(used < sizeof list);
    }
    if (piece->name_size < sizeof typed) {
        memcpy(typed, piece->name, piece->name_size);
    }
    const rbt_status st = rbt_fail(RBT_E_INVALID, "there is no %s \"%.*s\"", kind->plugin.what,
                                   (int)piece->name_size, piece->name);
    const char *guess = rbt_option_guess(typed, names, count);
    return guess != NULL
               ? rbt_fail_hint(st, "Did you mean \"%s\"?", guess)
               : rbt_fail_hint(st,
                               "The %s are %s. A %s of your own is named by its path: ./mine.so.",
                               kind->plural, list, kind->plugin.what);
}

/* `path` has room for the kind's text_max. */
static void copy_path(const struct rbt_policy_piece *piece, char *path)
{
    memcpy(path, piece->name, piece->name_size);
    path[piece->name_size] = '\0';
}

rbt_status rbt_policy_find(const struct rbt_policy_kind *kind, const char *text, const void **code)
{
    char path[RBT_PLUGIN_PATH_MAX];
    RBT_ASSERT(kind->text_max <= sizeof path);
    const rbt_status st = check_size(kind, text);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_policy_piece piece = rbt_policy_piece(kind, text);
    if (piece.is_path) {
        copy_path(&piece, path);
        return rbt_plugin_find(&kind->plugin, path, code);
    }
    const struct rbt_policy *policy = rbt_policy_named(kind, &piece);
    if (policy == NULL) {
        return refuse(kind, &piece);
    }
    *code = policy->code;
    return RBT_OK;
}

/* --- Paths ----------------------------------------------------------------------------------- */

/* Adds bytes to a text of the kind. */
static rbt_status append(const struct rbt_policy_kind *kind, char *to, const char *bytes,
                         size_t size)
{
    const size_t used = strlen(to);
    if (used + size >= kind->text_max) {
        return rbt_fail(RBT_E_INVALID, "%s has a path that is too long: \"%s\"", kind->text, bytes);
    }
    memcpy(to + used, bytes, size);
    to[used + size] = '\0';
    return RBT_OK;
}

static rbt_status append_absolute(const struct rbt_policy_kind *kind,
                                  const struct rbt_policy_piece *piece, char *to)
{
    char path[RBT_PLUGIN_PATH_MAX];
    char whole[RBT_PLUGIN_PATH_MAX];
    copy_path(piece, path);
    rbt_status st = append(kind, to, piece->text, (size_t)(piece->name - piece->text));
    if (st == RBT_OK) {
        st = rbt_plugin_resolve(&kind->plugin, path, whole);
    }
    return st == RBT_OK ? append(kind, to, whole, strlen(whole)) : st;
}

rbt_status rbt_policy_resolve(const struct rbt_policy_kind *kind, const char *text, char *to)
{
    rbt_status st = check_size(kind, text);
    to[0] = '\0';
    while (st == RBT_OK && *text != '\0') {
        const struct rbt_policy_piece piece = rbt_policy_piece(kind, text);
        const char *rest = text;
        if (piece.is_path) {
            st = append_absolute(kind, &piece, to);
            rest = piece.name + piece.name_size;
        } else if (piece.name_size > 0 && rbt_policy_named(kind, &piece) == NULL) {
            st = refuse(kind, &piece);
        }
        text = behind(&piece);
        if (st == RBT_OK) {
            st = append(kind, to, rest, (size_t)(text - rest));
        }
    }
    return st;
}

bool rbt_policy_next_path(const struct rbt_policy_kind *kind, const char **text, char *path)
{
    while (**text != '\0') {
        const struct rbt_policy_piece piece = rbt_policy_piece(kind, *text);
        *text = behind(&piece);
        if (piece.is_path && piece.name_size < kind->text_max) {
            copy_path(&piece, path);
            return true;
        }
    }
    return false;
}
