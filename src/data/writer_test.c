/* data/writer_test.c - what is written is there whole, or not at all. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "data/writer.h"

enum { LINES = 200000 }; /* more than the buffer holds */

static rbt_status write_lines(const char *path)
{
    struct rbt_writer writer;
    const rbt_status st = rbt_writer_open(path, &writer);
    if (st != RBT_OK) {
        return st;
    }
    for (uint64_t i = 0; i < LINES; i++) {
        rbt_writer_whole(&writer, i);
        rbt_writer_text(&writer, "\n");
    }
    return rbt_writer_close(&writer);
}

static void every_failed_system_call_leaves_nothing(void **state)
{
    (void)state;
    char folder[] = "/tmp/rubato-writer-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(folder));
    assert_true(snprintf(path, sizeof path, "%s/data", folder) > 0);
    for (unsigned nth = 1;; nth++) {
        (void)rbt_io_fail_nth(nth);
        const rbt_status st = write_lines(path);
        if (rbt_io_fail_nth(0) > 0) {
            assert_true(nth > 5); /* open, write, write, close, rename */
            assert_ok(st);
            break;
        }
        assert_fails(st, RBT_E_IO, "could not write");
        assert_int_equal(rbt_alloc_live(), 0);
        assert_int_equal(rmdir(folder), 0); /* which is empty */
        assert_int_equal(mkdir(folder, 0700), 0);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_system_call_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
