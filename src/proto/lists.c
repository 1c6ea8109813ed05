/* proto/lists.c - lists of keys that messages name by their hash, and where the rows are. */
#include "proto/lists.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { SCRATCH_MIN = 16 }; /* keys that are worth remembering for the length of a message */

rbt_status rbt_lists_init(struct rbt_lists *lists)
{
    *lists = (struct rbt_lists){0};
    return rbt_map_init(&lists->index, 0);
}

void rbt_lists_deinit(struct rbt_lists *lists)
{
    for (uint32_t i = 0; i < lists->count; i++) {
        rbt_list_unref(lists->lists[i]);
    }
    rbt_free(lists->lists);
    rbt_map_deinit(&lists->index);
    *lists = (struct rbt_lists){0};
}

rbt_status rbt_list_create(uint32_t capacity, struct rbt_list **list)
{
    struct rbt_list *l = rbt_calloc(1, sizeof *l);
    uint64_t *keys = rbt_calloc(capacity > 0 ? capacity : 1, sizeof *keys);
    if (l == NULL || keys == NULL) {
        rbt_free(keys);
        rbt_free(l);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a list of %u keys", capacity);
    }
    *l = (struct rbt_list){.references = 1, .capacity = capacity, .keys = keys};
    *list = l;
    return RBT_OK;
}

void rbt_list_unref(struct rbt_list *list)
{
    if (list == NULL || --list->references > 0) {
        return;
    }
    while (list->tables != NULL) {
        struct rbt_list_slots *first = list->tables;
        list->tables = first->next;
        rbt_free(first->slots);
        rbt_free(first);
    }
    rbt_free(list->scratch);
    rbt_free(list->keys);
    rbt_free(list);
}

bool rbt_list_is_same(const struct rbt_list *a, const struct rbt_list *b)
{
    return a->count == b->count && memcmp(a->keys, b->keys, a->count * sizeof *a->keys) == 0;
}

struct rbt_list *rbt_lists_find(const struct rbt_lists *lists, uint64_t name)
{
    const uint32_t at = rbt_map_find(&lists->index, name);
    return at == RBT_MAP_NONE ? NULL : lists->lists[at];
}

static rbt_status make_room(struct rbt_lists *lists)
{
    if (lists->count == lists->capacity) {
        const uint32_t capacity = lists->capacity == 0 ? 16 : lists->capacity * 2;
        struct rbt_list **grown = rbt_realloc(lists->lists, capacity, sizeof *grown);
        if (grown == NULL) {
            return RBT_E_NOMEM;
        }
        lists->lists = grown;
        lists->capacity = capacity;
    }
    return rbt_map_reserve(&lists->index, 1);
}

struct rbt_list *rbt_lists_add(struct rbt_lists *lists, struct rbt_list *list)
{
    RBT_ASSERT(list->name != 0);
    struct rbt_list *present = rbt_lists_find(lists, list->name);
    if (present == NULL && make_room(lists) != RBT_OK) {
        rbt_list_unref(list);
        return NULL;
    }
    if (present == NULL) {
        rbt_map_insert(&lists->index, list->name, lists->count);
        lists->lists[lists->count++] = list; /* the caller's reference is ours now */
        present = list;
    } else {
        rbt_list_unref(list);
    }
    present->references++;
    return present;
}

void rbt_lists_sweep(struct rbt_lists *lists)
{
    uint32_t kept = 0;
    rbt_map_clear(&lists->index);
    for (uint32_t i = 0; i < lists->count; i++) {
        struct rbt_list *list = lists->lists[i];
        if (list->references == 1) {
            rbt_list_unref(list);
            continue;
        }
        rbt_map_insert(&lists->index, list->name, kept); /* there was room for more */
        lists->lists[kept++] = list;
    }
    lists->count = kept;
}

/* The slots for a table, made on first use; NULL without memory: then rows are looked up. */
static struct rbt_list_slots *slots_of(struct rbt_list *list, uint32_t table)
{
    for (struct rbt_list_slots *known = list->tables; known != NULL; known = known->next) {
        if (known->table == table) {
            return known;
        }
    }
    struct rbt_list_slots *fresh = rbt_calloc(1, sizeof *fresh);
    uint32_t *slots = rbt_calloc(list->count > 0 ? list->count : 1, sizeof *slots);
    if (fresh == NULL || slots == NULL) {
        rbt_free(slots);
        rbt_free(fresh);
        return NULL;
    }
    memset(slots, 0xff, list->count * sizeof *slots); /* RBT_SLOT_NONE */
    *fresh = (struct rbt_list_slots){.next = list->tables, .table = table, .slots = slots};
    list->tables = fresh;
    return fresh;
}

struct rbt_batch rbt_list_batch(struct rbt_list *list, uint32_t table)
{
    struct rbt_batch batch = {.table = table, .count = list->count, .keys = list->keys};
    struct rbt_list_slots *known = list->name != 0 ? slots_of(list, table) : NULL;
    if (known != NULL) {
        batch.slots = known->slots;
        batch.slots_complete = &known->complete;
    }
    if (list->name == 0 && list->scratch == NULL && list->count >= SCRATCH_MIN) {
        list->scratch = rbt_alloc(list->capacity * sizeof *list->scratch);
    }
    if (list->name == 0 && list->scratch != NULL) {
        list->scratch_complete = 0; /* nothing is known */
        batch.slots = list->scratch;
        batch.slots_complete = &list->scratch_complete;
    }
    return batch;
}
