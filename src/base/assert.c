/* base/assert.c - the end of a program whose own guarantee does not hold. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void rbt_assert_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "rubato: assertion failed: %s, %s:%d\n", what, file, line);
    abort();
}
