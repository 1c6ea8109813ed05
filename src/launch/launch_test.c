/* launch/launch_test.c - tests of launch/launch.c with shell scripts for roles.
 *
 * Real processes, but none that lasts: what a script waits for is that the launcher ends it. */
#include "base/test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "launch/launch.h"

enum { SCRIPTS_MAX = 5 };

/* What a launch printed, and how it ended. */
struct outcome {
    rbt_status status;
    char *text;
    size_t size;
};

/* A coordinator, and worker processes for the other scripts; worker/0 is plain. */
static struct outcome launch(const char *const *scripts, size_t count)
{
    static const char *const names[] = {"coordinator", "worker/0", "worker/1", "worker/2",
                                        "worker/3"};
    char *argv[SCRIPTS_MAX][4];
    struct rbt_launch_process processes[SCRIPTS_MAX];
    assert_in_range(count, 1, SCRIPTS_MAX);
    for (size_t i = 0; i < count; i++) {
        argv[i][0] = "/bin/sh";
        argv[i][1] = "-c";
        argv[i][2] = (char *)scripts[i];
        argv[i][3] = NULL;
        processes[i] = (struct rbt_launch_process){.name = names[i],
                                                   .host = "here",
                                                   .argv = argv[i],
                                                   .input = "hello\n",
                                                   .is_worker = i > 0,
                                                   .is_plain = i == 1};
    }
    const size_t live = rbt_alloc_live();
    struct outcome outcome = {0};
    FILE *err = open_memstream(&outcome.text, &outcome.size);
    assert_non_null(err);
    outcome.status = rbt_launch_run(&(struct rbt_launch_options){
        .processes = processes, .count = count, .err = err, .start_seconds = 0.2});
    fclose(err);
    assert_int_equal(rbt_alloc_live(), live);
    return outcome;
}

#define LAUNCH(...)                                                                                \
    launch((const char *const[]){__VA_ARGS__},                                                     \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void forget(struct outcome *outcome)
{
    free(outcome->text); /* tidy: allow heap, because open_memstream() made it */
}

static void a_job_is_done_when_its_workers_are(void **state)
{
    (void)state;
    struct outcome o = LAUNCH("exit 0", "read x; echo \"plain $x\" >&2",
                              "read x; echo \"out $x\"; echo \"rubato: error: none\" >&2");
    assert_ok(o.status);
    assert_non_null(strstr(o.text, "plain hello\n"));
    assert_null(strstr(o.text, "[worker/0]"));
    assert_non_null(strstr(o.text, "[worker/1] out hello\n"));
    assert_non_null(strstr(o.text, "[worker/1] none\n")); /* it complained, but all went well */
    forget(&o);
}

static void who_is_stopped_when_all_is_done_goes_on(void **state)
{
    (void)state;
    struct outcome o = LAUNCH("exit 0", "kill -STOP $$; exit 0", "exit 0");
    assert_int_equal(o.status, RBT_OK);
    forget(&o);
}

/* Several looks of the launcher long, whichever of them comes late. */
static void who_still_runs_when_all_is_done_gets_no_signal(void **state)
{
    (void)state;
    struct outcome o = LAUNCH("exit 0", "trap 'exit 3' CONT; for i in 1 2 3 4; do sleep 0.1; done");
    assert_int_equal(o.status, RBT_OK);
    forget(&o);
}

static void a_killed_process_ends_all(void **state)
{
    (void)state;
    struct outcome o =
        LAUNCH("exec sleep 600", "exec sleep 600", "echo last words; kill -9 $$", "sleep 600");
    assert_int_equal(o.status, RBT_E_CLOSED);
    assert_non_null(strstr(rbt_last_error(), "lost worker/1 on here (pid "));
    assert_non_null(strstr(rbt_last_error(), "killed by signal 9 (SIGKILL); its last line was: "
                                             "last words"));
    forget(&o);
}

static void a_complaint_is_repeated_once(void **state)
{
    (void)state;
    struct outcome o = LAUNCH("exec sleep 600", "exec sleep 600", "exec sleep 600",
                              "echo 'rubato: error: no room' >&2; exit 1");
    assert_int_equal(o.status, RBT_E_CLOSED);
    assert_string_equal(rbt_last_error(), "worker/2: no room");
    assert_null(strstr(o.text, "no room"));
    forget(&o);
}

/* The one that reports the loss ends first; the one that was lost a little later. */
static void who_only_reports_a_loss_is_not_to_blame(void **state)
{
    (void)state;
    char folder[] = "/tmp/rubato-launch-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char echo[256];
    char killed[256];
    snprintf(echo, sizeof echo,
             "echo 'rubato: error: lost worker/1: gone' >&2; mkfifo %s/f; (: >%s/f) & exit 1",
             folder, folder);
    snprintf(killed, sizeof killed, "until [ -p %s/f ]; do :; done; kill -9 $$", folder);
    struct outcome o = LAUNCH(echo, "exec sleep 600", killed);
    assert_int_equal(o.status, RBT_E_CLOSED);
    assert_non_null(strstr(rbt_last_error(), "lost worker/1 on here (pid "));
    forget(&o);
    char fifo[256];
    snprintf(fifo, sizeof fifo, "%s/f", folder);
    unlink(fifo);
    rmdir(folder);
}

/* The process whose number follows "child " in the text has ended, even if nobody has collected it
 * yet. */
static void assert_child_ended(const char *text)
{
    const char *child = strstr(text, "child ");
    assert_non_null(child);
    const long pid = strtol(child + strlen("child "), NULL, 10);
    assert_true(pid > 1);
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    bool has_ended = false;
    for (int i = 0; !has_ended && i < 1000; i++) { /* it was killed, but dying takes a moment */
        char line[256] = "";
        FILE *file = fopen(path, "r");
        has_ended = file == NULL || fgets(line, sizeof line, file) == NULL ||
                    strstr(line, ") Z") != NULL || strstr(line, ") X") != NULL;
        if (file != NULL) {
            fclose(file);
        }
        (void)poll(NULL, 0, has_ended ? 0 : 10);
    }
    assert_true(has_ended);
}

/* One that ignores SIGTERM, and has a child that does. */
static void who_ignores_us_is_killed(void **state)
{
    (void)state;
    struct outcome o = LAUNCH("trap '' TERM; (exec sleep 600) & echo child $!; wait; wait",
                              "exec sleep 600", "read x; exit 3");
    assert_int_equal(o.status, RBT_E_CLOSED);
    assert_string_equal(strstr(rbt_last_error(), "): "), "): exit status 3");
    assert_child_ended(o.text);
    forget(&o);
}

static void what_a_child_leaves_behind_is_ended(void **state)
{
    (void)state;
    struct outcome o =
        LAUNCH("exit 0", "exit 0", "sleep 600 >/dev/null 2>&1 & echo child $!; exit 0");
    assert_ok(o.status);
    assert_child_ended(o.text);
    forget(&o);
}

static void an_address_is_waited_for(void **state)
{
    (void)state;
    struct outcome o =
        LAUNCH("echo listening on here:4711 >&2", "echo got {address} >&2", "echo also {address}");
    assert_ok(o.status);
    assert_non_null(strstr(o.text, "got here:4711\n"));
    assert_non_null(strstr(o.text, "[worker/1] also here:4711\n"));
    forget(&o);
}

static void an_address_that_never_comes_is_an_error(void **state)
{
    (void)state;
    struct outcome o = LAUNCH("exec sleep 600", "echo got {address} >&2");
    assert_int_equal(o.status, RBT_E_TIMEOUT);
    assert_non_null(strstr(rbt_last_error(), "could not start coordinator"));
    forget(&o);
    o = LAUNCH("exit 0", "echo got {address} >&2");
    assert_int_equal(o.status, RBT_E_CLOSED);
    assert_non_null(strstr(rbt_last_error(), "lost coordinator on here"));
    forget(&o);
}

/* The script sends the signal that Ctrl-C would. */
static void an_interrupt_is_passed_on_to_the_workers(void **state)
{
    (void)state;
    char first[256];
    snprintf(first, sizeof first,
             "trap 'echo rubato: error: interrupted after 3 clocks >&2; exit 1' INT; "
             "kill -INT %ld; sleep 600 & wait",
             (long)getpid());
    struct outcome o = LAUNCH("exec sleep 600", first, "trap 'exit 1' INT; sleep 600 & wait");
    assert_int_equal(o.status, RBT_E_INTERRUPTED);
    assert_string_equal(rbt_last_error(), "interrupted after 3 clocks");
    forget(&o);
}

static void a_second_interrupt_ends_it(void **state)
{
    (void)state;
    char stubborn[256];
    snprintf(stubborn, sizeof stubborn,
             "trap 'kill -INT %ld' INT; kill -INT %ld; "
             "while :; do sleep 1; done",
             (long)getpid(), (long)getpid());
    struct outcome o = LAUNCH("exec sleep 600", stubborn);
    assert_int_equal(o.status, RBT_E_INTERRUPTED);
    assert_string_equal(rbt_last_error(), "interrupted");
    forget(&o);
}

static void a_program_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    char *const argv[] = {"/no/such/program", NULL};
    const struct rbt_launch_process process = {
        .name = "worker/0", .host = "here", .argv = argv, .is_worker = true};
    assert_fails(rbt_launch_run(&(struct rbt_launch_options){
                     .processes = &process, .count = 1, .err = stderr}),
                 RBT_E_IO, "could not start \"/no/such/program\" for worker/0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_done_when_its_workers_are),
        cmocka_unit_test(who_is_stopped_when_all_is_done_goes_on),
        cmocka_unit_test(who_still_runs_when_all_is_done_gets_no_signal),
        cmocka_unit_test(a_killed_process_ends_all),
        cmocka_unit_test(a_complaint_is_repeated_once),
        cmocka_unit_test(who_only_reports_a_loss_is_not_to_blame),
        cmocka_unit_test(who_ignores_us_is_killed),
        cmocka_unit_test(what_a_child_leaves_behind_is_ended),
        cmocka_unit_test(an_address_is_waited_for),
        cmocka_unit_test(an_address_that_never_comes_is_an_error),
        cmocka_unit_test(an_interrupt_is_passed_on_to_the_workers),
        cmocka_unit_test(a_second_interrupt_ends_it),
        cmocka_unit_test(a_program_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
