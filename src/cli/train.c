/* cli/train.c - one training run from the command line's view: check, run, log, report.
 *
 * The algorithm does the work and talks to an observer, which is here: it writes the log, moves the
 * progress line and passes on Ctrl-C. A log that can no longer be written ends the run like Ctrl-C
 * does: hours of training that leave no trace help nobody.
 *
 * Threads: the observer may be called by any worker; a mutex makes it one at a time. */
#include "cli/train.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/summary.h"

enum { STALENESS_MAX = 1000000 };

struct run {
    const struct rbt_train_request *request;
    atomic_bool is_stopped; /* a log line could not be written */
    double began;           /* when training began, on our clock */
    pthread_mutex_t mutex;  /* guards all below while training */
    struct rbt_runlog log;
    struct rbt_progress progress;
    struct rbt_train_event last; /* for the message after Ctrl-C */
    rbt_status log_status;
    struct rbt_error_record log_error;
};

static rbt_status check_consistency(const char *text)
{
    int64_t bound = 0;
    const bool has_bound = strncmp(text, "ssp:", 4) == 0 || strncmp(text, "essp:", 5) == 0;
    const bool is_right = has_bound ? rbt_text_to_int(strchr(text, ':') + 1, &bound) &&
                                          bound >= 0 && bound <= STALENESS_MAX
                                    : strcmp(text, "bsp") == 0 || strcmp(text, "asp") == 0;
    if (is_right) {
        return RBT_OK;
    }
    const rbt_status st =
        rbt_fail(RBT_E_INVALID,
                 "option \"--consistency\" needs bsp, ssp:S, essp:S or asp, got \"%s\"", text);
    return rbt_fail_hint(st,
                         "S says how many clocks old a read may be, from 0 to %d; for example "
                         "essp:2.",
                         STALENESS_MAX);
}

/* How often standard input is among the files. */
static size_t count_stdin(const struct rbt_option_list *list)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        count += strcmp(list->values[i], "-") == 0 ? 1 : 0;
    }
    return count;
}

static rbt_status check_inputs(const struct rbt_train_request *request)
{
    const struct rbt_train_options *options = &request->options;
    if (options->data.count == 0) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "option \"--data\" is missing");
        return rbt_fail_hint(st, "Name the training data: rubato train %s --data FILE.",
                             request->algo->name);
    }
    if (count_stdin(&options->data) + count_stdin(&options->eval) > 1) {
        return rbt_fail(RBT_E_INVALID, "standard input (\"-\") can be read only once");
    }
    if (options->is_zero_based &&
        (options->format == RBT_FORMAT_CSV || options->format == RBT_FORMAT_RATINGS)) {
        return rbt_fail(RBT_E_INVALID, "option \"--zero-based\" fits only --format libsvm, not %s",
                        options->format == RBT_FORMAT_CSV ? "csv" : "ratings");
    }
    return RBT_OK;
}

static rbt_status check_outputs(const struct rbt_train_request *request)
{
    const struct rbt_train_options *options = &request->options;
    const struct rbt_option_list *const inputs[] = {&options->data, &options->eval};
    for (size_t i = 0; i < 2; i++) {
        rbt_status st = rbt_output_spare(options->model, "--model", inputs[i]);
        st = st != RBT_OK ? st : rbt_output_spare(request->log, "--log", inputs[i]);
        if (st != RBT_OK) {
            return st;
        }
    }
    if (options->model != NULL && request->log != NULL &&
        (strcmp(options->model, request->log) == 0 ||
         rbt_output_is_same(options->model, request->log))) {
        return rbt_fail(RBT_E_INVALID, "options \"--model\" and \"--log\" both name \"%s\"",
                        request->log);
    }
    return options->model != NULL ? rbt_output_check(options->model, "model") : RBT_OK;
}

rbt_status rbt_train_check(const struct rbt_train_request *request)
{
    rbt_status st = check_consistency(request->options.consistency);
    st = st != RBT_OK ? st : check_inputs(request);
    return st != RBT_OK ? st : check_outputs(request);
}

/* Notes that the log is broken; the workers stop at their next look. */
static void note_log(struct run *run, rbt_status st)
{
    if (st != RBT_OK && run->log_status == RBT_OK) {
        run->log_status = st;
        rbt_error_save(&run->log_error);
        atomic_store_explicit(&run->is_stopped, true, memory_order_relaxed);
    }
}

/* The start event waits until the algorithm has accepted its options and data, so that a mistake
 * on the command line does not cost the log of the last run. */
static void start_log(struct run *run)
{
    if (!run->log.is_started) {
        note_log(run, rbt_runlog_start(&run->log, &run->request->start));
    }
}

static void on_loaded(void *context, double load_seconds, uint64_t examples, uint64_t parameters)
{
    struct run *run = context;
    pthread_mutex_lock(&run->mutex);
    run->began = rbt_clock_seconds();
    start_log(run);
    if (run->log_status == RBT_OK) {
        rbt_progress_loaded(&run->progress, load_seconds, examples, parameters);
    }
    pthread_mutex_unlock(&run->mutex);
}

static void on_event(void *context, const struct rbt_train_event *event)
{
    struct run *run = context;
    pthread_mutex_lock(&run->mutex);
    run->last = *event;
    if (run->log_status == RBT_OK) {
        note_log(run, rbt_runlog_eval(&run->log, event));
        rbt_progress_event(&run->progress, event);
    }
    pthread_mutex_unlock(&run->mutex);
}

static bool is_interrupted(void *context)
{
    struct run *run = context;
    /* relaxed: a worker that sees it one clock later is no worse */
    return rbt_interrupt_seen() || atomic_load_explicit(&run->is_stopped, memory_order_relaxed);
}

/* Says how far an interrupted run got. */
static rbt_status tell_interrupted(const struct rbt_train_request *request, const struct run *run)
{
    return rbt_fail(RBT_E_INTERRUPTED, "interrupted after %.4g epoch%s%s", run->last.epoch,
                    run->last.epoch == 1 ? "" : "s",
                    request->options.model != NULL ? "; no model was written" : "");
}

static const char *status_name(rbt_status st)
{
    return st == RBT_OK ? "ok" : st == RBT_E_INTERRUPTED ? "interrupted" : "failed";
}

/* The last line of the log; the thread's error record is that of `st` afterwards. */
static rbt_status end_log(struct run *run, rbt_status st, const struct rbt_train_summary *summary)
{
    struct rbt_error_record record;
    rbt_error_save(&record);
    const bool has_figures = st == RBT_OK || summary->is_interrupted;
    const struct rbt_runlog_end end = {.t = has_figures ? summary->seconds
                                                        : rbt_clock_seconds() - run->began,
                                       .status = status_name(st),
                                       .error = st == RBT_OK ? NULL : record.message,
                                       .summary = has_figures ? summary : NULL};
    if (st != RBT_E_INVALID && run->log_status == RBT_OK) {
        start_log(run);
        note_log(run, rbt_runlog_end(&run->log, &end));
    }
    note_log(run, rbt_runlog_close(&run->log));
    if (st != RBT_OK) {
        rbt_error_restore(&record); /* the first failure is the one to tell */
        return st;
    }
    if (run->log_status != RBT_OK) {
        rbt_error_restore(&run->log_error);
    }
    return run->log_status;
}

static rbt_status report(const struct rbt_train_request *request,
                         const struct rbt_train_summary *summary)
{
    if (request->summary == RBT_SUMMARY_TEXT) {
        rbt_summary_text(request->out, request->algo->name, request->options.model, summary);
        return RBT_OK; /* main() looks whether standard output took it */
    }
    struct rbt_json json = {0};
    rbt_summary_json(&json, NULL, summary);
    const rbt_status st = rbt_json_print(&json, request->out);
    rbt_json_deinit(&json);
    return st == RBT_OK ? st : rbt_fail_in(st, "could not report the summary");
}

/* Calls the algorithm and sorts out why it ended. */
static rbt_status train(const struct rbt_train_request *request, struct run *run,
                        struct rbt_train_summary *summary)
{
    const struct rbt_observer observer = {.context = run,
                                          .on_loaded = on_loaded,
                                          .on_event = on_event,
                                          .is_interrupted = is_interrupted};
    rbt_interrupt_start();
    rbt_status st = request->algo->train(&request->options, request->config, &observer, summary);
    rbt_interrupt_stop();
    const bool has_stopped = st == RBT_E_INTERRUPTED || (st == RBT_OK && summary->is_interrupted);
    rbt_progress_finish(&run->progress, st == RBT_OK && !has_stopped);
    if (run->log_status != RBT_OK) {
        rbt_error_restore(&run->log_error);
        return run->log_status;
    }
    return has_stopped ? tell_interrupted(request, run) : st;
}

rbt_status rbt_train_run(const struct rbt_train_request *request)
{
    struct run run = {.request = request, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct rbt_train_summary summary = {0};
    rbt_status st = rbt_runlog_open(request->log, &run.log);
    if (st != RBT_OK) {
        return st;
    }
    run.began = rbt_clock_seconds();
    rbt_progress_init(&run.progress, request->err, (enum rbt_progress_mode)request->progress,
                      (double)(request->options.epochs > 0 ? request->options.epochs
                                                           : request->algo->epochs_default));
    st = train(request, &run, &summary);
    st = end_log(&run, st, &summary);
    pthread_mutex_destroy(&run.mutex);
    return st == RBT_OK ? report(request, &summary) : st;
}
