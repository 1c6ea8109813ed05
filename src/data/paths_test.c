/* data/paths_test.c - what users name becomes a list of files. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/paths.h"

static const char *const names[] = {"b.svm", "a.svm", ".hidden", "c.txt"};

/* The working folder has the files above, a folder `deep` with nothing in it, and no more. */
static int set_up(void **state)
{
    static char folder[] = "/tmp/paths_test.XXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) != 0 || mkdir("deep", 0777) != 0) {
        return -1;
    }
    for (size_t i = 0; i < 4; i++) {
        FILE *file = fopen(names[i], "w");
        if (file == NULL || fclose(file) != 0) {
            return -1;
        }
    }
    *state = folder;
    return 0;
}

static int tear_down(void **state)
{
    for (size_t i = 0; i < 4; i++) {
        (void)unlink(names[i]);
    }
    return rmdir("deep") == 0 && chdir("/") == 0 && rmdir(*state) == 0 ? 0 : -1;
}

static void assert_expands(const char *name, const char *expected)
{
    struct rbt_paths paths = {0};
    char found[256] = "";
    assert_ok(rbt_paths_expand(&name, 1, &paths));
    for (size_t i = 0; i < paths.count; i++) {
        const size_t used = strlen(found);
        (void)snprintf(found + used, sizeof found - used, "%s ", paths.items[i]);
    }
    assert_string_equal(found, expected);
    rbt_paths_free(&paths);
}

static void directories_are_their_visible_files_in_order(void **state)
{
    (void)state;
    assert_expands(".", "./a.svm ./b.svm ./c.txt ");
    assert_expands("./", "./a.svm ./b.svm ./c.txt ");
}

static void patterns_are_what_they_match_in_order(void **state)
{
    (void)state;
    assert_expands("*.svm", "a.svm b.svm ");
    assert_expands("[bc].*", "b.svm c.txt ");
}

static void other_names_stay_as_they_are(void **state)
{
    (void)state;
    assert_expands("-", "- ");
    assert_expands("b.svm", "b.svm ");
    assert_expands("missing", "missing ");
}

static void names_without_files_are_refused(void **state)
{
    (void)state;
    struct rbt_paths paths = {0};
    const char *name = "*.zst";
    assert_fails(rbt_paths_expand(&name, 1, &paths), RBT_E_NOTFOUND,
                 "cannot open \"*.zst\": no file matches");
    name = "deep";
    assert_fails(rbt_paths_expand(&name, 1, &paths), RBT_E_NOTFOUND,
                 "cannot read \"deep\": the directory has no files");
    assert_int_equal(paths.count, 0);
}

static void expanding_survives_every_failed_allocation(void **state)
{
    (void)state;
    const char *const given[] = {".", "*.svm", "-"};
    const size_t live = rbt_alloc_live();
    for (unsigned nth = 1;; nth++) { /* ends when nothing fails any more */
        struct rbt_paths paths = {0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_paths_expand(given, 3, &paths);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            assert_int_equal(paths.count, 6);
            rbt_paths_free(&paths);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), live);
    }
    assert_int_equal(rbt_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(directories_are_their_visible_files_in_order),
        cmocka_unit_test(patterns_are_what_they_match_in_order),
        cmocka_unit_test(other_names_stay_as_they_are),
        cmocka_unit_test(names_without_files_are_refused),
        cmocka_unit_test(expanding_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("data/paths", tests, set_up, tear_down);
}
