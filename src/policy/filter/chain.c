/* policy/filter/chain.c - the filters of one table and direction, made from their text and put to
 * work.
 *
 * Bytes: one with the flags of the body (elements.h) in its lower half, and in its upper half a bit
 * for each PACK filter of the chain, in their order, that paid. Then the body; or if a PACK filter
 * paid, 4 bytes: how many it was given, and what it made of them; the last one is the outermost.
 *
 * Threads: one at a time. Memory: a byte per element of the largest call, if a filter that keeps
 * its rest stands before one that does not; otherwise none after creation. */
#include "policy/filter/chain.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "math/merge.h"
#include "policy/filter/builtin.h"
#include "policy/filter/elements.h"
#include "policy/filter/filter.h"
#include "wire/bytes.h"

enum {
    PACK_MIN = 64,  /* bytes; fewer are not worth a try */
    PACK_HEAD = 4,  /* what stands in front of packed bytes */
    PACK_SHIFT = 4, /* of their bits in the first byte */
};

struct instance {
    const struct rbt_filter *filter; /* NULL: there is none */
    void *self;
};

struct rbt_chain {
    struct rbt_elements_form form;
    rbt_filter_direction direction;
    struct rbt_chain_traits traits;
    uint32_t select_count;
    uint32_t pack_count;
    struct instance selects[RBT_CHAIN_MAX];
    struct instance round;
    struct instance packs[RBT_CHAIN_PACK_MAX];
    bool *before; /* what was kept before the filter that is at work */
    size_t before_size;
};

/* --- Creation -------------------------------------------------------------------------------- */

static rbt_status fail(const char *format, ...)
{
    char text[RBT_ERROR_MAX / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rbt_fail(RBT_E_INVALID, "%s", text);
}

static void destroy_instance(struct instance *instance)
{
    if (instance->filter != NULL && instance->filter->destroy != NULL) {
        instance->filter->destroy(instance->self);
    }
    *instance = (struct instance){0};
}

/* Calls create(). If it fails and says nothing, nobody else's words are taken for its own. */
static rbt_status create_instance(const struct rbt_chain_options *options,
                                  const struct rbt_filter_item *item, struct instance *instance)
{
    static const struct rbt_error_record none = {.message = ""};
    struct rbt_filter_setup setup = {.struct_size = sizeof setup,
                                     .direction = options->direction,
                                     .table = options->table == NULL ? "" : options->table,
                                     .width = options->width,
                                     .worker_count = options->worker_count,
                                     .argument_count = item->argument_count,
                                     .fail = fail};
    void *self = NULL;
    rbt_status st = RBT_OK;
    memcpy(setup.arguments, item->arguments, sizeof setup.arguments);
    if (item->filter->create != NULL) {
        rbt_error_restore(&none);
        st = item->filter->create(&setup, &self);
    }
    if (st == RBT_OK) {
        *instance = (struct instance){.filter = item->filter, .self = self};
        return RBT_OK;
    }
    if (rbt_last_error()[0] == '\0') {
        (void)rbt_fail(RBT_E_INVALID, "%s", rbt_status_text(st));
    }
    st = st == RBT_E_NOMEM ? st : RBT_E_INVALID;
    return rbt_fail_in(st, "filter \"%s\"", item->name);
}

/* Where an instance of the filter goes, or NULL with a sentence. */
static struct instance *place_of(rbt_chain *chain, const struct rbt_filter_item *item)
{
    struct rbt_chain_traits *traits = &chain->traits;
    switch (item->filter->kind) {
    case RBT_FILTER_SELECT:
        if (chain->select_count == RBT_CHAIN_MAX) {
            break;
        }
        traits->has_select = true;
        traits->keeps_rest |= item->filter->keeps_rest && chain->direction == RBT_FILTER_PUSH;
        return &chain->selects[chain->select_count++];
    case RBT_FILTER_ROUND:
        if (chain->round.filter != NULL) {
            (void)rbt_fail(RBT_E_INVALID,
                           "the filters \"%s\" and \"%s\" both round, and one of them is all that "
                           "a direction may have",
                           chain->round.filter->name, item->name);
            return NULL;
        }
        traits->has_round = true;
        chain->form.round = item->filter;
        return &chain->round;
    default:
        if (chain->pack_count == RBT_CHAIN_PACK_MAX) {
            break;
        }
        traits->has_pack = true;
        return &chain->packs[chain->pack_count++];
    }
    (void)rbt_fail(RBT_E_INVALID, "there are too many filters of the kind of \"%s\": at most %d",
                   item->name,
                   item->filter->kind == RBT_FILTER_PACK ? RBT_CHAIN_PACK_MAX : RBT_CHAIN_MAX);
    return NULL;
}

static rbt_status add(rbt_chain *chain, const struct rbt_chain_options *options,
                      const struct rbt_filter_item *item)
{
    const bool is_real =
        options->type == RBT_F32 && options->layout == RBT_DENSE && options->merge == RBT_MERGE_ADD;
    if (item->filter != NULL && item->filter->kind != RBT_FILTER_PACK && !is_real) {
        return rbt_fail(RBT_E_INVALID,
                        "the filter \"%s\" is for dense tables of f32 that add, and table \"%s\" "
                        "is not one",
                        item->name, options->table == NULL ? "" : options->table);
    }
    if (!(options->direction == RBT_FILTER_PUSH ? item->is_for_push : item->is_for_pull)) {
        return RBT_OK;
    }
    if (item->trait == RBT_TRAIT_KEYS) {
        chain->traits.names_keys = true;
    } else if (item->trait == RBT_TRAIT_ZEROS) {
        chain->form.skips_zeros = item->argument_count == 0 || item->arguments[0] != 0;
    }
    if (item->filter == NULL) {
        return RBT_OK;
    }
    struct instance *place = place_of(chain, item);
    return place == NULL ? RBT_E_INVALID : create_instance(options, item, place);
}

/* Fills in a chain that is all zeros. */
static rbt_status fill(rbt_chain *chain, const struct rbt_chain_options *options)
{
    const char *text = options->text == NULL ? "" : options->text;
    const char *at = text;
    rbt_status st = RBT_OK;
    chain->form.element_size = (uint32_t)rbt_merge_size(options->type);
    chain->direction = options->direction;
    /* Whatever is named: only "none" and "zeros:0" send them. */
    chain->form.skips_zeros =
        options->direction == RBT_FILTER_PUSH && *at != '\0' && strcmp(text, "none") != 0;
    while (st == RBT_OK && *at != '\0') {
        struct rbt_filter_item item;
        st = rbt_filter_parse(&at, &item);
        if (st == RBT_OK && item.trait == RBT_TRAIT_OFF && strcmp(text, "none") != 0) {
            st = rbt_fail(RBT_E_INVALID, "\"none\" stands alone, and not in \"%s\"", text);
        }
        if (st == RBT_OK) {
            st = add(chain, options, &item);
        }
    }
    chain->traits.skips_zeros = chain->form.skips_zeros;
    return st;
}

static void clear(rbt_chain *chain)
{
    for (uint32_t i = RBT_CHAIN_PACK_MAX; i-- > 0;) {
        destroy_instance(&chain->packs[i]);
    }
    destroy_instance(&chain->round);
    for (uint32_t i = RBT_CHAIN_MAX; i-- > 0;) {
        destroy_instance(&chain->selects[i]);
    }
    rbt_free(chain->before);
}

rbt_status rbt_chain_create(const struct rbt_chain_options *options, rbt_chain **chain)
{
    *chain = NULL;
    rbt_chain *c = rbt_calloc(1, sizeof *c);
    if (c == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the filters of table \"%s\"",
                        options->table == NULL ? "" : options->table);
    }
    const rbt_status st = fill(c, options);
    const struct rbt_chain_traits *traits = &c->traits;
    if (st != RBT_OK ||
        !(traits->has_select || traits->has_round || traits->has_pack || traits->skips_zeros)) {
        rbt_chain_destroy(c);
        return st;
    }
    *chain = c;
    return RBT_OK;
}

void rbt_chain_destroy(rbt_chain *chain)
{
    if (chain != NULL) {
        clear(chain);
        rbt_free(chain);
    }
}

rbt_status rbt_chain_check(const struct rbt_chain_options *options, struct rbt_chain_traits *traits)
{
    for (int i = 0; i < 2; i++) {
        struct rbt_chain_options one = *options;
        rbt_chain chain = {.select_count = 0};
        one.direction = i == 0 ? RBT_FILTER_PUSH : RBT_FILTER_PULL;
        const rbt_status st = fill(&chain, &one);
        clear(&chain);
        if (st != RBT_OK) {
            return st;
        }
        if (traits != NULL && one.direction == options->direction) {
            *traits = chain.traits;
        }
    }
    return RBT_OK;
}

struct rbt_chain_traits rbt_chain_traits(const rbt_chain *chain)
{
    return chain == NULL ? (struct rbt_chain_traits){0} : chain->traits;
}

/* --- Select and round ------------------------------------------------------------------------ */

/* Room for `count` truth values. */
static rbt_status reserve(rbt_chain *chain, size_t count)
{
    if (chain->before_size >= count) {
        return RBT_OK;
    }
    bool *larger = rbt_realloc(chain->before, count, sizeof *larger);
    if (larger == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to filter %zu elements", count);
    }
    chain->before = larger;
    chain->before_size = count;
    return RBT_OK;
}

/* Nothing is left of elements that have just been dropped: those that are not kept now, but were
 * before; NULL: all were. */
static void forget(const struct rbt_filter_rows *rows, const bool *before)
{
    const size_t count = rbt_filter_count(rows);
    const uint8_t *restrict keep = rbt_filter_keep(rows);
    const uint8_t *restrict kept = (const uint8_t *)before;
    float *restrict values = rows->values;
    if (kept == NULL) {
        RBT_FILTER_APART
        for (size_t i = 0; i < count; i++) {
            values[i] = rbt_filter_pick_float(keep[i], values[i], 0);
        }
        return;
    }
    RBT_FILTER_APART
    for (size_t i = 0; i < count; i++) {
        values[i] = rbt_filter_pick_float(keep[i] | (kept[i] ^ 1), values[i], 0);
    }
}

/* Each filter of a chain has random numbers of its own. */
static uint64_t seed_of(uint64_t seed, uint32_t i)
{
    return (seed ^ (seed >> 31)) * UINT64_C(0xd1342543de82ef95) + i * UINT64_C(0xa24baed4963ee407);
}

/* With `is_release`, nothing is held back that could go later. */
static rbt_status select_all(rbt_chain *chain, struct rbt_filter_rows rows, bool is_release)
{
    const size_t count = rbt_filter_count(&rows);
    const uint64_t seed = rows.seed;
    bool has_rest = false;
    for (uint32_t i = 0; i < chain->select_count; i++) {
        const struct instance *instance = &chain->selects[i];
        const bool forgets = chain->direction == RBT_FILTER_PUSH && !instance->filter->keeps_rest;
        if (is_release && !forgets) {
            continue;
        }
        rbt_status st = forgets && has_rest ? reserve(chain, count) : RBT_OK;
        if (st != RBT_OK) {
            return st;
        }
        if (forgets && has_rest) {
            memcpy(chain->before, rows.keep, count * sizeof *rows.keep);
        }
        rows.seed = seed_of(seed, i);
        st = instance->filter->select(instance->self, &rows);
        if (st != RBT_OK) {
            return rbt_fail_in(st, "filter \"%s\"", instance->filter->name);
        }
        if (forgets) {
            forget(&rows, has_rest ? chain->before : NULL);
        }
        has_rest |= instance->filter->keeps_rest;
    }
    return RBT_OK;
}

/* Rounds what is kept. */
static rbt_status round_all(const rbt_chain *chain, const struct rbt_filter_rows *rows,
                            struct rbt_filter_code *code)
{
    const struct instance *round = &chain->round;
    if (round->filter == NULL) {
        return RBT_OK;
    }
    struct rbt_filter_rows own = *rows;
    own.seed = seed_of(rows->seed, RBT_CHAIN_MAX);
    const rbt_status st = round->filter->round(round->self, &own, code);
    if (st != RBT_OK) {
        return rbt_fail_in(st, "filter \"%s\"", round->filter->name);
    }
    if (code->bits < 1 || code->bits > 32) {
        return rbt_fail(RBT_E_INVALID, "filter \"%s\": a code has 1 to 32 bits, not %u",
                        round->filter->name, code->bits);
    }
    return RBT_OK;
}

/* Sets up `keep` and `code`; false if there is nothing to do. */
static bool prepare(const struct rbt_filter_rows *rows, struct rbt_filter_code *code)
{
    const size_t count = rbt_filter_count(rows);
    *code = (struct rbt_filter_code){.bits = 32};
    if (count == 0) {
        return false;
    }
    RBT_ASSERT(rows->keep != NULL);
    RBT_ASSERT(rows->values != NULL);
    memset(rows->keep, 1, count * sizeof *rows->keep);
    return true;
}

rbt_status rbt_chain_apply(rbt_chain *chain, const struct rbt_filter_rows *rows,
                           struct rbt_filter_code *code)
{
    RBT_ASSERT(chain != NULL);
    if (!prepare(rows, code)) {
        return RBT_OK;
    }
    const rbt_status st = select_all(chain, *rows, false);
    return st != RBT_OK ? st : round_all(chain, rows, code);
}

rbt_status rbt_chain_release(rbt_chain *chain, const struct rbt_filter_rows *rows,
                             struct rbt_filter_code *code)
{
    RBT_ASSERT(chain != NULL);
    RBT_ASSERT(chain->direction == RBT_FILTER_PUSH);
    if (!prepare(rows, code)) {
        return RBT_OK;
    }
    const rbt_status st = select_all(chain, *rows, true);
    return st != RBT_OK ? st : round_all(chain, rows, code);
}

rbt_status rbt_chain_round(rbt_chain *chain, const struct rbt_filter_rows *rows,
                           struct rbt_filter_code *code)
{
    RBT_ASSERT(chain != NULL);
    return prepare(rows, code) ? round_all(chain, rows, code) : RBT_OK;
}

/* --- Bytes ----------------------------------------------------------------------------------- */

size_t rbt_chain_bound(const rbt_chain *chain, size_t count)
{
    return 1 + rbt_elements_bound(chain->form.element_size, count);
}

size_t rbt_chain_put(rbt_chain *chain, const struct rbt_chain_elements *elements, char *to,
                     char *scratch)
{
    uint32_t flags = 0;
    char *here = to + 1;
    char *there = scratch;
    size_t bytes = rbt_elements_put(&chain->form, elements, here, &flags, scratch);
    for (uint32_t i = 0; i < chain->pack_count; i++) {
        const struct instance *pack = &chain->packs[i];
        if (bytes < PACK_MIN || bytes > UINT32_MAX) {
            break;
        }
        const size_t capacity = bytes - PACK_HEAD - 1;
        const size_t packed =
            pack->filter->pack(pack->self, here, bytes, there + PACK_HEAD, capacity);
        RBT_ASSERT(packed <= capacity);
        if (packed == 0) {
            continue;
        }
        char *head = there;
        rbt_bytes_put_u32(&head, (uint32_t)bytes);
        bytes = packed + PACK_HEAD;
        flags |= 1U << (PACK_SHIFT + i);
        there = here;
        here = head - PACK_HEAD;
    }
    if (here != to + 1) {
        memcpy(to + 1, here, bytes);
    }
    to[0] = (char)flags;
    return 1 + bytes;
}

/* Undoes one PACK filter; the result is at `to`. */
static rbt_status unpack(const struct instance *pack, struct rbt_elements_body *body, char *to,
                         size_t bound)
{
    if (body->size <= PACK_HEAD) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent packed values without their head");
    }
    const char *at = body->bytes;
    const size_t size = rbt_bytes_get_u32(&at);
    if (size <= body->size || size > bound) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "the peer sent %zu bytes of packed values that say they are %zu",
                        body->size, size);
    }
    const rbt_status st = pack->filter->unpack(pack->self, at, body->size - PACK_HEAD, to, size);
    body->bytes = to;
    body->size = size;
    return st == RBT_OK ? RBT_OK : RBT_E_PROTOCOL;
}

rbt_status rbt_chain_get(rbt_chain *chain, const char *from, size_t bytes,
                         const struct rbt_chain_elements *elements, char *scratch)
{
    if (bytes == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "the peer sent no filtered values at all");
    }
    const uint32_t packs = (uint32_t)(uint8_t)from[0] >> PACK_SHIFT;
    const size_t bound = rbt_elements_bound(chain->form.element_size, elements->count);
    struct rbt_elements_body body = {
        .flags = (uint8_t)from[0] & RBT_ELEMENTS_FLAGS, .bytes = from + 1, .size = bytes - 1};
    if (packs >> chain->pack_count != 0) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "the peer sent values packed by a filter that this table does not have");
    }
    char *to = scratch;
    for (uint32_t i = chain->pack_count; i-- > 0;) {
        if ((packs >> i & 1) == 0) {
            continue;
        }
        const rbt_status st = unpack(&chain->packs[i], &body, to, bound);
        if (st != RBT_OK) {
            return st;
        }
        to = to == scratch ? scratch + bound : scratch;
    }
    return rbt_elements_get(&chain->form, &body, elements);
}
