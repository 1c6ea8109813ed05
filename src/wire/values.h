/* wire/values.h - the values of rows as bytes: as they are, without their zeros, or compressed.
 * Those that filters have made smaller are only carried.
 *
 * For wire/rows.c. Values are opaque elements of 4 or 8 bytes; a zero is an element without a bit,
 * so -0.0 is none. Pure functions, except that zstd takes memory while it works. Threads: any. */
#ifndef RUBATO_WIRE_VALUES_H
#define RUBATO_WIRE_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "wire/rows.h"

/* Writes the values, `element_count` in all, in the form that pays; never more bytes than they
 * have. Returns how many, without padding. */
size_t rbt_values_put(char *to, const struct rbt_wire_rows *rows, size_t element_count,
                      char *scratch, enum rbt_value_form *form);

/* Whether value_bytes can hold element_count values in their form. */
RBT_MUST_USE rbt_status rbt_values_check(const struct rbt_wire_view *view);

/* Writes the values of a view that has been checked. */
RBT_MUST_USE rbt_status rbt_values_get(const struct rbt_wire_view *view, void *values);

#endif
