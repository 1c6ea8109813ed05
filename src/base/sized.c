/* base/sized.c - copies no more of a struct than its owner knows of. */
#include "base/sized.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* The size that a struct begins with, if it can be one. */
static rbt_status read_size(const void *given, size_t size_max, size_t *size)
{
    RBT_ASSERT(size_max >= sizeof *size);
    memcpy(size, given, sizeof *size);
    return *size >= sizeof *size && *size <= size_max
               ? RBT_OK
               : rbt_fail(RBT_E_INVALID, "struct_size is %zu; set it to the size of the struct",
                          *size);
}

rbt_status rbt_sized_take(void *full, const void *given, size_t size)
{
    size_t known = 0;
    const rbt_status st = read_size(given, size, &known);
    if (st == RBT_OK) {
        memcpy(full, given, known);
    }
    return st;
}

rbt_status rbt_sized_give(void *out, const void *full, size_t size)
{
    size_t room = 0;
    const rbt_status st = read_size(out, size, &room);
    if (st == RBT_OK) {
        memcpy((char *)out + sizeof room, (const char *)full + sizeof room, room - sizeof room);
    }
    return st;
}
