/* cli/output_test.c - files that are there whole or not at all. */
#include "base/test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/io.h"
#include "cli/output.h"
#include "cli/runlog.h"

static char folder[] = "/tmp/output_test.XXXXXX";
static char path[64];

static size_t file_count(void)
{
    DIR *listing = opendir(folder);
    size_t count = 0;
    while (readdir(listing) != NULL) {
        count++;
    }
    closedir(listing);
    return count - 2; /* without "." and ".." */
}

static void a_file_appears_when_it_is_closed(void **state)
{
    (void)state;
    struct rbt_output output;
    assert_ok(rbt_output_open(path, &output));
    fputs("hello", output.file);
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(rbt_output_close(&output));
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(file_count(), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_dropped_file_leaves_the_old_one(void **state)
{
    (void)state;
    FILE *file = fopen(path, "w");
    fputs("old", file);
    fclose(file);
    struct rbt_output output;
    assert_ok(rbt_output_open(path, &output));
    fputs("new", output.file);
    rbt_output_drop(&output);
    char text[8] = "";
    file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "old");
    assert_int_equal(file_count(), 1);
    assert_int_equal(unlink(path), 0);
}

static void a_full_device_is_an_error(void **state)
{
    (void)state;
    struct rbt_output output;
    assert_ok(rbt_output_open("/dev/full", &output));
    fputs("x", output.file);
    assert_fails(rbt_output_close(&output), RBT_E_IO,
                 "could not write \"/dev/full\": No space left on device");
    assert_int_equal(access("/dev/full", F_OK), 0);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void places_that_cannot_be_written_are_found_early(void **state)
{
    (void)state;
    assert_fails(rbt_output_check("/nowhere/m", "model"), RBT_E_IO,
                 "could not write model \"/nowhere/m\": No such file or directory");
    assert_fails(rbt_output_check(folder, "model"), RBT_E_IO, "Is a directory");
    assert_ok(rbt_output_check(path, "model"));
    assert_int_equal(file_count(), 0);
    struct rbt_output output;
    assert_fails(rbt_output_open(folder, &output), RBT_E_IO, "Is a directory");
    assert_fails(rbt_output_open("/nowhere/m", &output), RBT_E_IO, "No such file");
    assert_int_equal(rbt_alloc_live(), 0);
}

static void open_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (unsigned nth = 1;; nth++) { /* ends when nothing is left to fail */
        struct rbt_output output;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_output_open(path, &output);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_output_drop(&output);
            break;
        }
        assert_int_equal(rbt_alloc_live(), 0);
        assert_int_equal(file_count(), 0);
    }
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void every_failed_system_call_leaves_nothing(void **state)
{
    (void)state;
    for (unsigned nth = 1;; nth++) {
        struct rbt_output output;
        (void)rbt_io_fail_nth(nth);
        rbt_status st = rbt_output_open(path, &output);
        if (st == RBT_OK) {
            fputs("hello", output.file);
            st = rbt_output_close(&output);
        }
        if (rbt_io_fail_nth(0) > 0) {
            assert_true(nth > 3); /* create, flush, rename */
            assert_ok(st);
            break;
        }
        assert_fails(st, RBT_E_IO, "could not write");
        assert_int_equal(file_count(), 0);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    assert_int_equal(unlink(path), 0);
}

/* Every call that fails is told, and what is in the file then is whole lines. */
static void every_failed_system_call_leaves_a_log_of_whole_lines(void **state)
{
    (void)state;
    const struct rbt_runlog_start start = {.command = "train", .algo = "linear"};
    const struct rbt_runlog_end end = {.t = 1, .status = "ok"};
    for (unsigned nth = 1;; nth++) {
        struct rbt_runlog log;
        (void)rbt_io_fail_nth(nth);
        rbt_status st = rbt_runlog_open(path, &log);
        if (st == RBT_OK) {
            st = rbt_runlog_start(&log, &start);
            st = st != RBT_OK ? st : rbt_runlog_node(&log, 0.5, "worker/0", "up");
            st = st != RBT_OK ? st : rbt_runlog_end(&log, &end);
            const rbt_status closed = rbt_runlog_close(&log);
            st = st != RBT_OK ? st : closed;
        }
        const bool has_failed = rbt_io_fail_nth(0) == 0;
        FILE *file = fopen(path, "r");
        char line[1024];
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            assert_true(strlen(line) > 2 && strcmp(line + strlen(line) - 2, "}\n") == 0);
        }
        if (file != NULL) {
            fclose(file);
            assert_int_equal(unlink(path), 0);
        }
        assert_int_equal(rbt_alloc_live(), 0);
        if (!has_failed) {
            assert_true(nth > 5);
            assert_ok(st);
            break;
        }
        assert_fails(st, RBT_E_IO, "could not write log");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_appears_when_it_is_closed),
        cmocka_unit_test(a_dropped_file_leaves_the_old_one),
        cmocka_unit_test(a_full_device_is_an_error),
        cmocka_unit_test(places_that_cannot_be_written_are_found_early),
        cmocka_unit_test(open_survives_every_failed_allocation),
        cmocka_unit_test(every_failed_system_call_leaves_nothing),
        cmocka_unit_test(every_failed_system_call_leaves_a_log_of_whole_lines),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
