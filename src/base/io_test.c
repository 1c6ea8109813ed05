/* base/io_test.c - the calls are those of the system, but for the one that is to fail. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"

enum { CALLS = 11 };

/* Writes, reads back and renames; returns how many calls failed. */
static int use(const char *from, const char *to)
{
    char pattern[] = "/tmp/io_test.XXXXXX";
    char bytes[4] = "";
    struct stat about;
    int failed = 0;
    const int fd = rbt_io_open(from, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    failed += fd < 0;
    failed += rbt_io_write(fd, "abcd", 4) != 4;
    failed += rbt_io_pwrite(fd, "b", 1, 0) != 1;
    failed += rbt_io_stat(fd, &about) != 0;
    failed += rbt_io_fsync(fd) != 0;
    failed += rbt_io_pread(fd, bytes, 4, 0) != 4;
    failed += rbt_io_truncate(fd, 2) != 0;
    failed += rbt_io_read(fd, bytes, 4) < 0;
    failed += rbt_io_close(fd) != 0;
    failed += rbt_io_rename(from, to) != 0;
    const int other = rbt_io_create(pattern, O_CLOEXEC);
    failed += other < 0;
    if (other >= 0) {
        (void)close(other);
        (void)unlink(pattern);
    }
    (void)unlink(from);
    (void)unlink(to);
    return failed;
}

static void each_call_fails_once(void **state)
{
    (void)state;
    char folder[] = "/tmp/rubato-io-XXXXXX";
    char from[64];
    char to[64];
    assert_non_null(mkdtemp(folder));
    assert_true(snprintf(from, sizeof from, "%s/from", folder) > 0);
    assert_true(snprintf(to, sizeof to, "%s/to", folder) > 0);
    assert_int_equal(use(from, to), 0);
    for (unsigned nth = 2; nth <= CALLS; nth++) { /* the first is open, after which all fail */
        assert_int_equal(rbt_io_fail_nth(nth), 0);
        assert_in_range(use(from, to), 1, 2); /* without the write, less is read */
        assert_int_equal(rbt_io_fail_nth(0), 0);
    }
    assert_int_equal(rbt_io_fail_nth(CALLS + 3), 0);
    assert_int_equal(use(from, to), 0);
    assert_int_equal(rbt_io_fail_nth(0), 3);
    assert_int_equal(rmdir(folder), 0);
}

static void streams_fail_too_and_are_closed(void **state)
{
    (void)state;
    char text[16] = "";
    for (int i = 0; i < 2; i++) {
        FILE *stream = fmemopen(text, sizeof text, "w");
        assert_non_null(stream);
        fputs("text", stream);
        (void)rbt_io_fail_nth(i == 0 ? 1 : 2);
        errno = 0;
        assert_int_equal(rbt_io_flush(stream), i == 0 ? EOF : 0);
        const int flushed = errno; /* calls that succeed may change it */
        assert_int_equal(rbt_io_finish(stream), i == 0 ? 0 : EOF);
        assert_int_equal(i == 0 ? flushed : errno, EIO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_fails_once),
        cmocka_unit_test(streams_fail_too_and_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
