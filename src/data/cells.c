/* data/cells.c - the cells of a table's line. */
#include "data/cells.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "data/csv.h"
#include "data/number.h"

struct rbt_cell rbt_cell_at(const char *p, const char *end, char separator, const char **next)
{
    struct rbt_cell cell = {p, NULL};
    if (separator == '\t') {
        cell.end = memchr(p, separator, (size_t)(end - p));
        cell.end = cell.end == NULL ? end : cell.end;
    } else {
        cell.end = rbt_csv_end(p, end, separator);
    }
    *next = cell.end;
    while (cell.begin < cell.end && *cell.begin == ' ') {
        cell.begin++;
    }
    while (cell.end > cell.begin && cell.end[-1] == ' ') {
        cell.end--;
    }
    if (cell.end - cell.begin >= 2 && *cell.begin == '"' && cell.end[-1] == '"') {
        cell.begin++;
        cell.end--;
    }
    return cell;
}

bool rbt_cell_is_missing(const struct rbt_cell *cell)
{
    static const char *const words[] = {"?", "na", "n/a", "nan", "null"};
    const size_t size = rbt_cell_size(cell);
    if (size == 0) {
        return true;
    }
    for (size_t i = 0; size <= 4 && i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == size && strncasecmp(cell->begin, words[i], size) == 0) {
            return true;
        }
    }
    return false;
}

bool rbt_cell_number(const struct rbt_cell *cell, float *value)
{
    /* the byte behind a cell belongs to no number */
    return rbt_number_float(cell->begin, value) == cell->end && isfinite(*value);
}
