/* launch/child_test.c - tests of launch/child.c: a child reads what was written. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "launch/child.h"

/* A pipe that holds the text and then ends. */
static int hold(const char *text)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
    close(ends[1]);
    return ends[0];
}

static void a_child_reads_what_was_written(void **state)
{
    (void)state;
    char key[RBT_CHILD_KEY];
    memset(key, 'a', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    char *const settings[] = {"RUBATO_EPOCHS=a=b c", "RUBATO_RUN_SERVERS=3", "RUBATO_KEY=/x",
                              "HOME=/nowhere",       "RUBATO_X=a\nb",        NULL};
    struct rbt_text_buffer text = {0};
    rbt_child_write(&(struct rbt_child_message){.parent = 4711,
                                                .key = key,
                                                .directory = "/",
                                                .settings = settings,
                                                .terminal = "RUBATO_TERMINAL=90"},
                    &text);
    assert_null(strstr(rbt_text_data(&text), "nowhere"));
    assert_null(strstr(rbt_text_data(&text), "SERVERS"));
    const int fd = hold(rbt_text_data(&text));
    struct rbt_child child;
    assert_ok(rbt_child_read(fd, &child));
    assert_int_equal(child.parent, 4711);
    assert_string_equal(child.key, key);
    assert_string_equal(getenv("RUBATO_EPOCHS"), "a=b c");
    assert_string_equal(getenv("RUBATO_TERMINAL"), "90");
    assert_null(getenv("RUBATO_X"));
    char folder[64];
    assert_string_equal(getcwd(folder, sizeof folder), "/");
    unsetenv("RUBATO_EPOCHS");
    unsetenv("RUBATO_TERMINAL");
    rbt_text_deinit(&text);
    close(fd);
}

/* What follows belongs to the watcher: not a byte more may be read. */
static void reading_stops_at_go(void **state)
{
    (void)state;
    const int fd = hold("go\ninterrupt\n");
    struct rbt_child child;
    assert_ok(rbt_child_read(fd, &child));
    char rest[16] = "";
    assert_int_equal(read(fd, rest, sizeof rest - 1), 10);
    assert_string_equal(rest, "interrupt\n");
    close(fd);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    const char *const texts[] = {"hello\n", "parent x\n", "set nothing\n", "key\n", "set =x\n"};
    struct rbt_child child;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const int fd = hold(texts[i]);
        assert_fails(rbt_child_read(fd, &child), RBT_E_PROTOCOL, "for children of");
        close(fd);
    }
    int fd = hold("parent 3\n");
    assert_fails(rbt_child_read(fd, &child), RBT_E_CLOSED, "ended before");
    close(fd);
    fd = hold("directory /no/such/folder\n");
    assert_fails(rbt_child_read(fd, &child), RBT_E_IO, "cannot run in");
    close(fd);
}

static void a_hidden_text_is_for_us_alone(void **state)
{
    (void)state;
    char path[64];
    assert_ok(rbt_child_hide("secret", path, sizeof path));
    struct stat stat_of;
    assert_int_equal(stat(path, &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 0777, 0600);
    for (int i = 0; i < 2; i++) { /* it can be read again */
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        char line[32] = "";
        assert_non_null(fgets(line, sizeof line, file));
        assert_string_equal(line, "secret\n");
        fclose(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_reads_what_was_written),
        cmocka_unit_test(reading_stops_at_go),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_hidden_text_is_for_us_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
