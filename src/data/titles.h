/* data/titles.h - names of columns or classes: a list of texts, and how the columns of one list are
 * found in another one.
 *
 * Threads: any that only look. */
#ifndef RUBATO_DATA_TITLES_H
#define RUBATO_DATA_TITLES_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "data/lines.h"

/* All zero is an empty list. */
struct rbt_titles {
    size_t count;
    size_t size;       /* of all texts, each with a zero behind it */
    const char *bytes; /* the texts, one behind the other; borrowed, or `owned` */
    char *owned;
};

/* Takes the cells of a line. One with a zero byte in it gives an empty list. The caller frees it.
 * Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_titles_take(struct rbt_titles *titles, const struct rbt_line *line,
                                        char separator);
void rbt_titles_free(struct rbt_titles *titles);

/* A place in a list, so that texts in order are found at once. All zero but for the list is its
 * begin. */
struct rbt_title_cursor {
    struct rbt_titles list; /* borrowed */
    size_t number;
    const char *text; /* NULL: at the begin */
};

/* The text with this number. */
const char *rbt_titles_seek(struct rbt_title_cursor *cursor, size_t number);

/* The text with this number. It is searched from the front: for lists of a few, and for messages.
 */
const char *rbt_titles_at(const struct rbt_titles *titles, size_t number);

/* For every text of `from` its number in `to`, SIZE_MAX if it is not there; the caller frees the
 * list with rbt_free(). Of a text that is twice in `to` the first is found. Fails with RBT_E_NOMEM.
 */
RBT_MUST_USE rbt_status rbt_titles_match(const struct rbt_titles *from, const struct rbt_titles *to,
                                         size_t **numbers);

/* The first text that is there twice, or NULL. Without memory to look, NULL. */
const char *rbt_titles_twin(const struct rbt_titles *titles);

#endif
