/* data/titles.c - lists of names; sorted by their texts to be searched. */
#include "data/titles.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "data/cells.h"

struct entry {
    const char *text;
    size_t number;
};

void rbt_titles_free(struct rbt_titles *titles)
{
    rbt_free(titles->owned);
    *titles = (struct rbt_titles){0};
}

rbt_status rbt_titles_take(struct rbt_titles *titles, const struct rbt_line *line, char separator)
{
    const size_t size = (size_t)(line->end - line->begin);
    *titles = (struct rbt_titles){0};
    char *bytes = rbt_calloc(size + 2, 1); /* a zero takes the place of a separator */
    if (bytes == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the names of columns");
    }
    for (const char *p = line->begin; p <= line->end; p++) {
        const struct rbt_cell cell = rbt_cell_at(p, line->end, separator, &p);
        memcpy(bytes + titles->size, cell.begin, rbt_cell_size(&cell));
        titles->size += rbt_cell_size(&cell) + 1;
        titles->count++;
    }
    titles->owned = bytes;
    titles->bytes = bytes;
    if (memchr(line->begin, '\0', size) != NULL) {
        rbt_titles_free(titles);
    }
    return RBT_OK;
}

const char *rbt_titles_at(const struct rbt_titles *titles, size_t number)
{
    RBT_ASSERT(number < titles->count);
    const char *text = titles->bytes;
    for (; number > 0; number--) {
        text += strlen(text) + 1;
    }
    return text;
}

const char *rbt_titles_seek(struct rbt_title_cursor *cursor, size_t number)
{
    RBT_ASSERT(number < cursor->list.count);
    if (cursor->text == NULL || number < cursor->number) {
        cursor->text = cursor->list.bytes;
        cursor->number = 0;
    }
    for (; cursor->number < number; cursor->number++) {
        cursor->text += strlen(cursor->text) + 1;
    }
    return cursor->text;
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    const int order = strcmp(x->text, y->text);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

/* The entries in the order of their texts, or NULL. */
static struct entry *sort(const struct rbt_titles *titles)
{
    struct entry *entries = rbt_calloc(titles->count, sizeof *entries);
    const char *text = titles->bytes;
    for (size_t i = 0; entries != NULL && i < titles->count; i++) {
        entries[i] = (struct entry){text, i};
        text += strlen(text) + 1;
    }
    if (entries != NULL && titles->count > 0) {
        qsort(entries, titles->count, sizeof *entries, compare);
    }
    return entries;
}

/* The first entry with this text. */
static size_t find(const struct entry *entries, size_t count, const char *text)
{
    size_t first = 0;
    size_t end = count;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        if (strcmp(entries[middle].text, text) < 0) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first < count && strcmp(entries[first].text, text) == 0 ? entries[first].number
                                                                   : SIZE_MAX;
}

rbt_status rbt_titles_match(const struct rbt_titles *from, const struct rbt_titles *to,
                            size_t **numbers)
{
    struct entry *entries = sort(to);
    size_t *list = rbt_calloc(from->count, sizeof *list);
    if (entries == NULL || list == NULL) {
        rbt_free(entries);
        rbt_free(list);
        return rbt_fail(RBT_E_NOMEM, "no memory for the names of columns");
    }
    const char *text = from->bytes;
    for (size_t i = 0; i < from->count; i++) {
        list[i] = find(entries, to->count, text);
        text += strlen(text) + 1;
    }
    rbt_free(entries);
    *numbers = list;
    return RBT_OK;
}

const char *rbt_titles_twin(const struct rbt_titles *titles)
{
    struct entry *entries = sort(titles);
    const char *twin = NULL;
    for (size_t i = 1; entries != NULL && twin == NULL && i < titles->count; i++) {
        twin = strcmp(entries[i].text, entries[i - 1].text) == 0 ? entries[i].text : NULL;
    }
    rbt_free(entries);
    return twin;
}
