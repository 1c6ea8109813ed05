/* wire/keys.h - the keys of rows as bytes: nothing, a run, differences, or as they are.
 *
 * For wire/rows.c. Pure functions: no I/O, no memory. Threads: any. */
#ifndef RUBATO_WIRE_KEYS_H
#define RUBATO_WIRE_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "wire/rows.h"

/* Writes the keys in the shortest form; at most 8 bytes per key. Returns the bytes that they take,
 * a multiple of 8. */
size_t rbt_keys_put(char *to, const struct rbt_wire_rows *rows, enum rbt_key_form *form);

/* Whether key_bytes is what form, count and the widths of the blocks make it. */
RBT_MUST_USE rbt_status rbt_keys_check(const struct rbt_wire_view *view);

/* Writes the keys of a view that has been checked; they must increase. */
RBT_MUST_USE rbt_status rbt_keys_get(const struct rbt_wire_view *view, uint64_t *keys);

#endif
