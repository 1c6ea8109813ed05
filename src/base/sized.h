/* base/sized.h - structs that begin with their own size, so that programs and the library may be of
 * different age.
 *
 * A caller writes `size_t struct_size` first, as sizeof of the struct that he knows. A field that
 * was added since lies behind that: of an option it has its default, and of figures it is not
 * written. A size that no version ever had is refused, for then nobody has set it. */
#ifndef RUBATO_BASE_SIZED_H
#define RUBATO_BASE_SIZED_H

#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* Copies the options that the caller has `given` over `full`, which is of `size` bytes and holds
 * the defaults. Fails with RBT_E_INVALID if their size is below that of a size, or above ours. */
RBT_MUST_USE rbt_status rbt_sized_take(void *full, const void *given, size_t size);

/* Copies the figures in `full`, of `size` bytes, to the caller's struct at `out`, as far as that
 * goes; its struct_size stays as it is. Fails as above, and then writes nothing. */
RBT_MUST_USE rbt_status rbt_sized_give(void *out, const void *full, size_t size);

#endif
