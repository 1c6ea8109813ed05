/* cli/train_test.c - a run from the command line's view, with an algorithm that only pretends.
 *
 * The algorithm below is this test's own: it reports as many epochs as it is told to and does what
 * the test's plan says on the way. */
#include "base/test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/progress.h"
#include "cli/runs.h"
#include "cli/summary.h"
#include "cli/train.h"

/* What the algorithm is to do. */
static struct {
    int64_t signal_at; /* epoch in which Ctrl-C is pressed; 0: never */
    rbt_status status; /* returned at the end */
    bool is_refused;   /* returned at once */
} plan;

static rbt_status fake_train(const struct rbt_train_options *options, const void *config,
                             const struct rbt_observer *observer, struct rbt_train_summary *summary)
{
    (void)config;
    if (plan.is_refused) {
        return rbt_fail(plan.status, "planned trouble");
    }
    observer->on_loaded(observer->context, 0.5, 100, 10);
    for (int64_t epoch = 1; epoch <= options->epochs && !summary->is_interrupted; epoch++) {
        struct rbt_train_event event = {.t = (double)epoch,
                                        .epoch = (double)epoch,
                                        .clock = epoch,
                                        .examples = 100 * (uint64_t)epoch,
                                        .objective = 1 / (double)epoch};
        event.eval = (struct rbt_metrics){.names = {"auc"}, .values = {0.75}, .count = 1};
        observer->on_event(observer->context, &event);
        if (epoch == plan.signal_at) {
            raise(SIGINT);
        }
        summary->is_interrupted = observer->is_interrupted(observer->context);
        summary->epochs = (double)epoch;
        summary->objective = event.objective;
    }
    summary->seconds = 2;
    summary->digest = 0xABC;
    return plan.status == RBT_OK ? RBT_OK : rbt_fail(plan.status, "planned trouble");
}

static const struct rbt_algo fake = {.name = "fake", .train = fake_train};

struct fixture {
    char folder[64];
    char log[96];
    char model[96];
    char out[4096];
    char err[4096];
    struct rbt_train_request request;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return -1;
    }
    snprintf(f->folder, sizeof f->folder, "/tmp/train_test.XXXXXX");
    if (mkdtemp(f->folder) == NULL) {
        free(f);
        return -1;
    }
    snprintf(f->log, sizeof f->log, "%s/run.jsonl", f->folder);
    snprintf(f->model, sizeof f->model, "%s/m.model", f->folder);
    f->request = (struct rbt_train_request){.algo = &fake,
                                            .progress = RBT_PROGRESS_NEVER,
                                            .out = fmemopen(f->out, sizeof f->out, "w"),
                                            .err = fmemopen(f->err, sizeof f->err, "w")};
    f->request.options.data = (struct rbt_option_list){.values = {"train.svm"}, .count = 1};
    f->request.options.consistency = "essp:2";
    f->request.options.epochs = 3;
    f->request.options.target = NAN;
    plan.signal_at = 0;
    plan.status = RBT_OK;
    plan.is_refused = false;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    fclose(f->request.out);
    fclose(f->request.err);
    (void)unlink(f->log);
    (void)unlink(f->model);
    const int result = rmdir(f->folder); /* fails if anything else was left behind */
    free(f);
    return result;
}

/* The whole text of the log, in a buffer of this function. */
static const char *log_text(const struct fixture *f)
{
    static char text[8192];
    FILE *file = fopen(f->log, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void a_run_is_logged_from_start_to_end(void **state)
{
    struct fixture *f = *state;
    f->request.log = f->log;
    f->request.summary = RBT_SUMMARY_JSON;
    assert_ok(rbt_train_check(&f->request));
    assert_ok(rbt_train_run(&f->request));
    struct rbt_run run;
    assert_ok(rbt_runs_read(f->log, &run));
    assert_int_equal(run.row_count, 3);
    assert_string_equal(run.status, "ok");
    assert_true(rbt_runs_value(&run, 2, RBT_RUNS_METRICS) == 0.75);
    rbt_runs_free(&run);
    assert_memory_equal(f->out, "{\"objective\":0.33333", 20);
    assert_non_null(strstr(f->out, "\"digest\":\"0000000000000abc\"}\n"));
    assert_int_equal(rbt_alloc_live(), 0);
}

static void ctrl_c_ends_the_run_and_the_log(void **state)
{
    struct fixture *f = *state;
    f->request.log = f->log;
    f->request.options.model = f->model;
    plan.signal_at = 2;
    assert_fails(rbt_train_run(&f->request), RBT_E_INTERRUPTED,
                 "interrupted after 2 epochs; no model was written");
    assert_non_null(strstr(log_text(f), "\"status\":\"interrupted\""));
    fflush(f->request.out);
    assert_string_equal(f->out, "");
}

static void a_failure_is_told_and_logged(void **state)
{
    struct fixture *f = *state;
    f->request.log = f->log;
    plan.status = RBT_E_DATA;
    assert_fails(rbt_train_run(&f->request), RBT_E_DATA, "planned trouble");
    assert_non_null(strstr(log_text(f), "\"status\":\"failed\",\"error\":\"planned trouble\"}"));
}

static void wrong_usage_leaves_the_last_log_alone(void **state)
{
    struct fixture *f = *state;
    f->request.log = f->log;
    plan.is_refused = true;
    plan.status = RBT_E_INVALID;
    assert_fails(rbt_train_run(&f->request), RBT_E_INVALID, "planned trouble");
    assert_int_equal(access(f->log, F_OK), -1); /* no empty file, either */
    plan.status = RBT_OK;
    plan.is_refused = false;
    assert_ok(rbt_train_run(&f->request));
    plan.is_refused = true;
    plan.status = RBT_E_INVALID;
    assert_fails(rbt_train_run(&f->request), RBT_E_INVALID, "planned trouble");
    assert_non_null(strstr(log_text(f), "\"status\":\"ok\""));
}

static void a_log_that_cannot_be_written_fails_the_run(void **state)
{
    struct fixture *f = *state;
    f->request.log = "/dev/full";
    assert_fails(rbt_train_run(&f->request), RBT_E_IO,
                 "could not write log \"/dev/full\": No space left on device");
    f->request.log = "/nowhere/run.jsonl";
    assert_fails(rbt_train_run(&f->request), RBT_E_IO,
                 "could not write log \"/nowhere/run.jsonl\": No such file or directory");
    assert_int_equal(rbt_alloc_live(), 0);
}

static void progress_is_shown_when_asked_for(void **state)
{
    struct fixture *f = *state;
    f->request.progress = RBT_PROGRESS_ALWAYS;
    assert_ok(rbt_train_run(&f->request));
    fflush(f->request.err);
    assert_non_null(strstr(f->err, "loaded 100 examples in 0.500 s; 10 parameters\n"));
    assert_non_null(strstr(f->err, "epoch 2/3  objective 0.5  eval auc 0.75  100 examples/s"));
    assert_non_null(strstr(f->err, "2.00 s, 1.00 s left\n"));
}

/* Two runs with equal arguments leave the same bytes; only standard output tells real time. */
static void the_log_of_a_simulation_has_no_real_time(void **state)
{
    struct fixture *f = *state;
    const struct rbt_simulation_options cluster = {.struct_size = sizeof cluster};
    const struct rbt_option_table table = {0};
    f->request.cluster = &cluster;
    f->request.start.cluster = &table;
    f->request.log = f->log;
    f->request.summary = RBT_SUMMARY_JSON;
    assert_ok(rbt_train_run(&f->request));
    assert_non_null(strstr(log_text(f), "{\"event\":\"start\",\"time\":0,"));
    assert_non_null(strstr(log_text(f), "\"cluster\":{}"));
    assert_non_null(strstr(log_text(f), "\"virtual_seconds\":"));
    assert_null(strstr(log_text(f), "\"seconds\":"));
    assert_null(strstr(log_text(f), "\"load_seconds\":"));
    assert_null(strstr(log_text(f), "\"peak_rss_mb\":"));
    fflush(f->request.out);
    assert_non_null(strstr(f->out, "\"seconds\":2,"));
    assert_non_null(strstr(f->out, "\"virtual_seconds\":"));
    assert_int_equal(rbt_alloc_live(), 0);
}

static void checks_change_no_file(void **state)
{
    struct fixture *f = *state;
    FILE *file = fopen(f->model, "w");
    fputs("precious", file);
    fclose(file);
    f->request.options.model = f->model;
    assert_ok(rbt_train_check(&f->request));
    struct stat info;
    assert_int_equal(stat(f->model, &info), 0);
    assert_int_equal(info.st_size, 8);
}

static void contradictions_are_found_before_anything_starts(void **state)
{
    struct fixture *f = *state;
    struct rbt_train_options *options = &f->request.options;
    static const char *const wrong[] = {"", "ssp", "ssp:", "ssp:-1", "essp:x", "bsp:1", "fast"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options->consistency = wrong[i];
        assert_fails(rbt_train_check(&f->request), RBT_E_INVALID,
                     "needs bsp, ssp:S, essp:S, asp or auto");
    }
    options->consistency = "asp";
    options->model = f->folder;
    assert_fails(rbt_train_check(&f->request), RBT_E_IO, "Is a directory");
    options->model = "/dev/null";
    assert_fails(rbt_train_check(&f->request), RBT_E_IO, "not a regular file");
    options->model = f->request.log = f->log;
    assert_fails(rbt_train_check(&f->request), RBT_E_INVALID, "both name");
    options->model = NULL;
    struct rbt_simulation_options cluster = {.trace = f->log};
    f->request.cluster = &cluster;
    assert_fails(rbt_train_check(&f->request), RBT_E_INVALID,
                 "options \"--log\" and \"--trace\" both name");
    cluster.trace = "/nowhere/trace.json";
    assert_fails(rbt_train_check(&f->request), RBT_E_IO, "could not write trace");
    f->request.cluster = NULL;
    options->data.values[0] = "-";
    options->eval = options->data;
    assert_fails(rbt_train_check(&f->request), RBT_E_INVALID, "can be read only once");
    options->data.count = 0;
    assert_fails(rbt_train_check(&f->request), RBT_E_INVALID, "option \"--data\" is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_is_logged_from_start_to_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ctrl_c_ends_the_run_and_the_log, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failure_is_told_and_logged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_usage_leaves_the_last_log_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_log_that_cannot_be_written_fails_the_run, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(progress_is_shown_when_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_log_of_a_simulation_has_no_real_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(checks_change_no_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(contradictions_are_found_before_anything_starts, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
