/* math/initial.h - the values of a row that nobody has updated, as a function of its key alone. */
#ifndef RUBATO_MATH_INITIAL_H
#define RUBATO_MATH_INITIAL_H

#include <stdint.h>

#include <rubato/table.h>

struct rbt_initial {
    rbt_type type;
    rbt_init init;
    uint32_t width;
    double a;
    double b;
    uint64_t seed;
};

/* Writes `width` elements. */
void rbt_initial_values(const struct rbt_initial *initial, uint64_t key, void *values);

#endif
