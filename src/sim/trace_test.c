/* sim/trace_test.c - the timeline is valid JSON of Chrome's kind, whole or not there at all. */
#include "base/test.h"

#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sim/trace.h"

static char folder[] = "/tmp/trace_test.XXXXXX";
static char path[64];

static const struct rbt_trace_lane worker = {.node = 0, .lane = 0};
static const struct rbt_trace_lane server = {.node = 1, .lane = 3};

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

/* Writes one of everything. */
static void write_all(void)
{
    rbt_trace *trace = NULL;
    assert_ok(rbt_trace_open(path, &trace));
    rbt_trace_name_node(trace, 0, "worker 0");
    rbt_trace_name_node(trace, 1, "server 0");
    rbt_trace_name_lane(trace, worker, "main");
    rbt_trace_name_lane(trace, server, "shard");
    rbt_trace_span(trace, worker, "compute", 0, 1234567);
    rbt_trace_mark(trace, worker, "clock", 1234567);
    rbt_trace_message(trace, &(struct rbt_trace_message){.name = "push",
                                                         .from = worker,
                                                         .to = server,
                                                         .sent = 1234567,
                                                         .delivered = 2000005,
                                                         .bytes = 4096});
    rbt_trace_span(trace, server, "apply", 2000005, 2000006);
    rbt_trace_span(trace, worker, "long", 9007199254739993, 9223372036854775806);
    assert_ok(rbt_trace_close(trace));
}

static json_t *load(void)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        fail_msg("line %d: %s", error.line, error.text);
    }
    return root;
}

/* The n-th event with this phase and name. */
static json_t *find(json_t *root, const char *phase, const char *name, size_t nth)
{
    size_t i;
    json_t *event;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        if (strcmp(json_string_value(json_object_get(event, "ph")), phase) == 0 &&
            strcmp(json_string_value(json_object_get(event, "name")), name) == 0 && nth-- == 0) {
            return event;
        }
    }
    fail_msg("there is no event %s \"%s\"", phase, name);
    return NULL;
}

static int64_t whole(json_t *event, const char *key)
{
    json_t *value = json_object_get(event, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static double real(json_t *event, const char *key)
{
    json_t *value = json_object_get(event, key);
    assert_true(json_is_real(value));
    return json_real_value(value);
}

static void assert_place(json_t *event, int64_t process, int64_t thread)
{
    assert_int_equal(whole(event, "pid"), process);
    assert_int_equal(whole(event, "tid"), thread);
}

static const char *given_name(json_t *event)
{
    return json_string_value(json_object_get(json_object_get(event, "args"), "name"));
}

static void nodes_and_lanes_have_names(void **state)
{
    (void)state;
    write_all();
    json_t *root = load();
    json_t *event = find(root, "M", "process_name", 1);
    assert_int_equal(whole(event, "pid"), 2);
    assert_string_equal(given_name(event), "server 0");
    event = find(root, "M", "thread_name", 0);
    assert_place(event, 1, 1);
    assert_string_equal(given_name(event), "main");
    event = find(root, "M", "thread_name", 3);
    assert_place(event, 2, 8);
    assert_string_equal(given_name(event), "shard messages");
    json_decref(root);
    unlink(path);
}

static void spans_and_marks_are_in_microseconds(void **state)
{
    (void)state;
    write_all();
    json_t *root = load();
    json_t *event = find(root, "X", "compute", 0);
    assert_place(event, 1, 1);
    assert_true(real(event, "ts") == 0.0);
    assert_true(real(event, "dur") == 1234.567);
    event = find(root, "X", "apply", 0);
    assert_place(event, 2, 7);
    assert_true(real(event, "ts") == 2000.005);
    assert_true(real(event, "dur") == 0.001);
    event = find(root, "i", "clock", 0);
    assert_place(event, 1, 1);
    assert_true(real(event, "ts") == 1234.567);
    assert_string_equal(json_string_value(json_object_get(event, "s")), "t");
    json_decref(root);
    unlink(path);
}

static void a_message_is_an_arrow_between_two_spans(void **state)
{
    (void)state;
    write_all();
    json_t *root = load();
    json_t *start = find(root, "s", "push", 0);
    json_t *finish = find(root, "f", "push", 0);
    assert_place(start, 1, 2);
    assert_place(finish, 2, 8);
    assert_true(real(start, "ts") == 1234.567);
    assert_true(real(finish, "ts") == 2000.005);
    assert_int_equal(whole(start, "id"), whole(finish, "id"));
    assert_string_equal(json_string_value(json_object_get(start, "cat")),
                        json_string_value(json_object_get(finish, "cat")));
    assert_string_equal(json_string_value(json_object_get(finish, "bp")), "e");
    json_t *ends[] = {start, finish};
    for (size_t i = 0; i < 2; i++) { /* each end is at the start of a span of its own thread */
        json_t *span = find(root, "X", "push", i);
        assert_place(span, whole(ends[i], "pid"), whole(ends[i], "tid"));
        assert_true(real(span, "ts") == real(ends[i], "ts"));
        assert_true(real(span, "dur") == 0.001);
        assert_int_equal(whole(json_object_get(span, "args"), "bytes"), 4096);
    }
    json_decref(root);
    unlink(path);
}

static void arrows_are_told_apart(void **state)
{
    (void)state;
    rbt_trace *trace = NULL;
    assert_ok(rbt_trace_open(path, &trace));
    for (int i = 0; i < 2; i++) {
        rbt_trace_message(
            trace, &(struct rbt_trace_message){.name = "pull", .from = worker, .to = server});
    }
    assert_ok(rbt_trace_close(trace));
    json_t *root = load();
    assert_int_not_equal(whole(find(root, "s", "pull", 0), "id"),
                         whole(find(root, "s", "pull", 1), "id"));
    json_decref(root);
    unlink(path);
}

/* Reads the file into `text` and returns its size. */
static size_t read_all(char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t length = fread(text, 1, size - 1, file);
    fclose(file);
    text[length] = '\0';
    return length;
}

static void equal_calls_give_equal_bytes(void **state)
{
    (void)state;
    static char first[8192];
    static char second[8192];
    write_all();
    const size_t size = read_all(first, sizeof first);
    write_all(); /* over the old one */
    assert_int_equal(read_all(second, sizeof second), size);
    assert_memory_equal(first, second, size);
    /* Digits come from whole numbers: as doubles these would have been rounded. */
    assert_non_null(strstr(first, "\"ts\":9007199254739.993,\"dur\":9214364837600035.813}"));
    assert_int_equal(file_count(), 1);
    unlink(path);
}

static void an_empty_trace_is_a_trace(void **state)
{
    (void)state;
    rbt_trace *trace = NULL;
    assert_ok(rbt_trace_open(path, &trace));
    assert_ok(rbt_trace_close(trace));
    json_t *root = load();
    assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 0);
    json_decref(root);
    unlink(path);
    assert_ok(rbt_trace_close(NULL));
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_trace_appears_when_it_is_closed(void **state)
{
    (void)state;
    rbt_trace *trace = NULL;
    assert_ok(rbt_trace_open(path, &trace));
    for (rbt_time i = 0; i < 10000; i++) { /* more than the buffer holds */
        rbt_trace_span(trace, worker, "compute", i * 10, i * 10 + 5);
    }
    assert_int_equal(access(path, F_OK), -1);
    assert_ok(rbt_trace_close(trace));
    json_t *root = load();
    assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 10000);
    json_decref(root);
    assert_int_equal(file_count(), 1);
    unlink(path);
}

/* The limit on file sizes stands for a full disk: writing fails on the way, and closing succeeds.
 */
static void a_failed_trace_leaves_the_old_one(void **state)
{
    (void)state;
    write_all();
    static char before[8192];
    static char after[8192];
    const size_t size = read_all(before, sizeof before);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_ptr_not_equal(signal(SIGXFSZ, SIG_IGN), SIG_ERR);

    rbt_trace *trace = NULL;
    assert_ok(rbt_trace_open(path, &trace));
    const struct rlimit small = {.rlim_cur = 4096, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (rbt_time i = 0; i < 10000; i++) { /* more than the buffer holds */
        rbt_trace_mark(trace, worker, "clock", i);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_fails(rbt_trace_close(trace), RBT_E_IO, "File too large");

    assert_int_equal(read_all(after, sizeof after), size);
    assert_memory_equal(before, after, size);
    assert_int_equal(file_count(), 1);
    assert_int_equal(rbt_alloc_live(), 0);
    unlink(path);
}

static void a_place_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    rbt_trace *trace = NULL;
    assert_fails(rbt_trace_open("/nowhere/trace.json", &trace), RBT_E_IO,
                 "could not write \"/nowhere/trace.json\": No such file or directory");
    assert_fails(rbt_trace_open(folder, &trace), RBT_E_IO, "Is a directory");
    assert_null(trace);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_full_device_is_reported_at_the_end(void **state)
{
    (void)state;
    for (rbt_time count = 1; count <= 10000; count *= 10000) { /* at the end, and on the way */
        rbt_trace *trace = NULL;
        assert_ok(rbt_trace_open("/dev/full", &trace));
        for (rbt_time i = 0; i < count; i++) {
            rbt_trace_mark(trace, worker, "clock", i);
        }
        assert_fails(rbt_trace_close(trace), RBT_E_IO,
                     "could not write \"/dev/full\": No space left on device");
        assert_int_equal(access("/dev/full", F_OK), 0);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

static void a_file_that_cannot_get_its_name_is_removed(void **state)
{
    (void)state;
    rbt_trace *trace = NULL;
    assert_ok(rbt_trace_open(path, &trace));
    assert_int_equal(mkdir(path, 0700), 0); /* a folder has taken the name */
    assert_fails(rbt_trace_close(trace), RBT_E_IO, "could not write");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(file_count(), 0);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void open_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (unsigned nth = 1;; nth++) { /* ends when nothing is left to fail */
        rbt_trace *trace = NULL;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_trace_open(path, &trace);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            assert_ok(rbt_trace_close(trace));
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(trace);
        assert_int_equal(rbt_alloc_live(), 0);
        assert_int_equal(file_count(), 0);
    }
    assert_int_equal(rbt_alloc_live(), 0);
    unlink(path);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/trace.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_and_lanes_have_names),
        cmocka_unit_test(spans_and_marks_are_in_microseconds),
        cmocka_unit_test(a_message_is_an_arrow_between_two_spans),
        cmocka_unit_test(arrows_are_told_apart),
        cmocka_unit_test(equal_calls_give_equal_bytes),
        cmocka_unit_test(an_empty_trace_is_a_trace),
        cmocka_unit_test(a_trace_appears_when_it_is_closed),
        cmocka_unit_test(a_failed_trace_leaves_the_old_one),
        cmocka_unit_test(a_place_that_cannot_be_written_is_an_error),
        cmocka_unit_test(a_full_device_is_reported_at_the_end),
        cmocka_unit_test(a_file_that_cannot_get_its_name_is_removed),
        cmocka_unit_test(open_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
