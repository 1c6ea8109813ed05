/* base/file_test.c - regular files are read whole; what would keep the reader is refused. */
#include "base/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io.h"
#include "base/text.h"

enum { LARGE = 50000 }; /* more than is read at once */

static char folder[] = "/tmp/file_test.XXXXXX";
static char path[64];

static void write_file(size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < size; i++) {
        fputc('a' + (int)(i % 26), file);
    }
    assert_int_equal(fclose(file), 0);
}

static void a_file_is_read_whole_or_up_to_a_limit(void **state)
{
    (void)state;
    struct rbt_text_buffer text = {0};
    write_file(LARGE);
    assert_ok(rbt_file_read(path, RBT_FILE_REGULAR, SIZE_MAX, &text));
    assert_int_equal(text.length, LARGE);
    assert_int_equal(rbt_text_data(&text)[LARGE - 1], 'a' + (LARGE - 1) % 26);
    rbt_text_clear(&text);
    assert_ok(rbt_file_read(path, RBT_FILE_OR_PIPE, 100, &text));
    assert_in_range(text.length, 101, LARGE - 1);
    rbt_text_deinit(&text);
    assert_int_equal(unlink(path), 0);
}

static void what_is_no_file_is_refused_at_once(void **state)
{
    (void)state;
    struct rbt_text_buffer text = {0};
    static const enum rbt_file_kind kinds[] = {RBT_FILE_REGULAR, RBT_FILE_OR_PIPE};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const enum rbt_file_kind kind = kinds[i];
        assert_fails(rbt_file_read(path, kind, 10, &text), RBT_E_NOTFOUND, "there is no such file");
        assert_fails(rbt_file_read("/dev/zero", kind, SIZE_MAX, &text), RBT_E_IO,
                     "it is a device or a socket, not a regular file");
        assert_fails(rbt_file_read(folder, kind, 10, &text), RBT_E_IO, "it is a directory, not");
    }
    assert_fails(rbt_file_read("/dev/null/x", RBT_FILE_REGULAR, 10, &text), RBT_E_IO,
                 "Not a directory");
    assert_null(text.data);
}

static void a_pipe_is_read_where_it_may_be_and_never_waited_for(void **state)
{
    (void)state;
    struct rbt_text_buffer text = {0};
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(rbt_file_read(path, RBT_FILE_REGULAR, 10, &text), RBT_E_IO,
                 "it is a pipe, not a regular file");
    assert_ok(rbt_file_read(path, RBT_FILE_OR_PIPE, 10, &text)); /* nobody writes to it */
    assert_int_equal(text.length, 0);
    int fd = -1;
    assert_ok(rbt_file_open(path, RBT_FILE_OR_PIPE, &fd));
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0); /* a slow writer is waited for */
    const int writer = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(writer >= 0);
    assert_int_equal(write(writer, "hello", 5), 5);
    assert_int_equal(close(writer), 0);
    assert_ok(rbt_file_read_open(fd, 10, &text));
    assert_string_equal(rbt_text_data(&text), "hello");
    assert_int_equal(close(fd), 0);
    rbt_text_deinit(&text);
    assert_int_equal(unlink(path), 0);
}

static void every_failed_system_call_is_told(void **state)
{
    (void)state;
    write_file(LARGE);
    for (unsigned nth = 1;; nth++) {
        struct rbt_text_buffer text = {0};
        (void)rbt_io_fail_nth(nth);
        const rbt_status st = rbt_file_read(path, RBT_FILE_REGULAR, SIZE_MAX, &text);
        const bool has_failed = rbt_io_fail_nth(0) == 0;
        rbt_text_deinit(&text);
        assert_int_equal(rbt_alloc_live(), 0);
        if (!has_failed) {
            assert_true(nth > 3); /* open, stat, read */
            assert_ok(st);
            break;
        }
        assert_fails(st, RBT_E_IO, "Input/output error");
    }
    assert_int_equal(unlink(path), 0);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/file", folder); /* it fits */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(rbt_alloc_live(), 0);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_whole_or_up_to_a_limit),
        cmocka_unit_test(what_is_no_file_is_refused_at_once),
        cmocka_unit_test(a_pipe_is_read_where_it_may_be_and_never_waited_for),
        cmocka_unit_test(every_failed_system_call_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
