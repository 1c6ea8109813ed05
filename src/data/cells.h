/* data/cells.h - the cells of a table's line.
 *
 * A cell goes without the blanks around it and without quotes; separators inside quotes do not
 * count, unless tabs separate: nobody quotes those, but some texts have a quote in them. */
#ifndef RUBATO_DATA_CELLS_H
#define RUBATO_DATA_CELLS_H

#include <stdbool.h>
#include <stddef.h>

struct rbt_cell {
    const char *begin;
    const char *end;
};

/* The cell that begins at `p`; `next` is where it ends: at a separator or the end of the line. */
struct rbt_cell rbt_cell_at(const char *p, const char *end, char separator, const char **next);

static inline size_t rbt_cell_size(const struct rbt_cell *cell)
{
    return (size_t)(cell->end - cell->begin);
}

/* Whether the cell is empty or holds a word for a missing value: ?, NA, N/A, NaN, null. */
bool rbt_cell_is_missing(const struct rbt_cell *cell);

/* Whether a finite number fills the cell, and which. */
bool rbt_cell_number(const struct rbt_cell *cell, float *value);

#endif
