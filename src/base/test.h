/* base/test.h - cmocka plus our assertions. Include it first in a test program. */
#ifndef RUBATO_BASE_TEST_H
#define RUBATO_BASE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <rubato/status.h>

/* The expression returned RBT_OK; if not, the library's own message is printed. */
#define assert_ok(expression)                                                                      \
    do {                                                                                           \
        const rbt_status assert_ok_st = (expression);                                              \
        if (assert_ok_st != RBT_OK) {                                                              \
            fail_msg("%s: %s: %s", #expression, rbt_status_text(assert_ok_st), rbt_last_error());  \
        }                                                                                          \
    } while (0)

/* The expression failed with this status and its message contains the text. */
#define assert_fails(expression, status, text)                                                     \
    do {                                                                                           \
        assert_int_equal((expression), (status));                                                  \
        assert_non_null(strstr(rbt_last_error(), (text)));                                         \
    } while (0)

#endif
