/* base/assert.h - assertions that stay on, and those for inner loops.
 *
 * An assertion states what the code itself guarantees. It never checks input and never has side
 * effects. A failed one prints where and aborts: a wrong model is worse than a stopped program. */
#ifndef RUBATO_BASE_ASSERT_H
#define RUBATO_BASE_ASSERT_H

_Noreturn void rbt_assert_failed(const char *file, int line, const char *what);

#define RBT_ASSERT(condition)                                                                      \
    ((condition) ? (void)0 : rbt_assert_failed(__FILE__, __LINE__, #condition))

#define RBT_UNREACHABLE() rbt_assert_failed(__FILE__, __LINE__, "unreachable code was reached")

#ifdef RBT_DEBUG
#define RBT_DEBUG_ASSERT(condition) RBT_ASSERT(condition)
#else
#define RBT_DEBUG_ASSERT(condition) ((void)sizeof(condition))
#endif

#endif
