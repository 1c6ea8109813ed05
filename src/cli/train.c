/* cli/train.c - one training run from the command line's view: check, run, log, report.
 *
 * The algorithm does the work and talks to an observer, which is here: it writes the log, moves the
 * progress line and passes on Ctrl-C. A log that can no longer be written ends the run like Ctrl-C
 * does: hours of training that leave no trace help nobody.
 *
 * A simulation is opened here, because it talks to the same observer, and closed before the end of
 * the log, which says whether its timeline could be written.
 *
 * Threads: the observer may be called by any worker; a mutex makes it one at a time. */
#include "cli/train.h"
#include "cli/names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "algo/frame/rules.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/summary.h"
#include "policy/filter/chain.h"

struct run {
    const struct rbt_train_request *request;
    rbt_simulation *simulation;        /* NULL: it runs for real */
    rbt_cluster *cluster;              /* NULL: it runs in this process alone */
    bool is_silent;                    /* another process of the cluster tells how it goes */
    struct rbt_simulation_stats stats; /* of the simulation, when it is over */
    uint64_t rack_bytes;               /* the same: between its racks */
    atomic_bool is_stopped;            /* a log line could not be written */
    atomic_bool has_obeyed;            /* the training was told of a signal */
    double began;                      /* when training began, on our clock */
    pthread_mutex_t mutex;             /* guards all below while training */
    struct rbt_runlog log;
    struct rbt_progress progress;
    struct rbt_train_event last; /* for the message after Ctrl-C */
    rbt_status log_status;
    struct rbt_error_record log_error;
};

static rbt_status check_consistency(const char *text)
{
    int64_t bound = 0;
    const bool has_bound = strncmp(text, "ssp:", 4) == 0 || strncmp(text, "essp:", 5) == 0 ||
                           strncmp(text, "auto:", 5) == 0;
    const bool is_right = has_bound ? rbt_text_to_int(strchr(text, ':') + 1, &bound) &&
                                          bound >= 0 && bound <= RBT_STALENESS_MAX
                                    : strcmp(text, "bsp") == 0 || strcmp(text, "asp") == 0 ||
                                          strcmp(text, "auto") == 0;
    if (is_right) {
        return RBT_OK;
    }
    const rbt_status st = rbt_fail(
        RBT_E_INVALID, "option \"--consistency\" needs bsp, ssp:S, essp:S, asp or auto, got \"%s\"",
        text);
    return rbt_fail_hint(
        st, "S is the largest staleness of a read in clocks, from 0 to %d; for example essp:2.",
        RBT_STALENESS_MAX);
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
    if (options->is_zero_based && options->format != RBT_FORMAT_AUTO &&
        options->format != RBT_FORMAT_LIBSVM) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--zero-based\" works with --format libsvm only, not with %s",
                        rbt_train_options_formats[options->format]);
    }
    return RBT_OK;
}

/* A file that a run writes, and the option that named it. */
struct output {
    const char *option;
    const char *path; /* or NULL */
};

/* Neither the data nor another output may be at the same place. */
static rbt_status check_outputs(const struct rbt_train_request *request)
{
    const struct rbt_train_options *options = &request->options;
    const struct rbt_option_list *const inputs[] = {&options->data, &options->eval};
    const struct output outputs[] = {
        {"--model", options->model},
        {"--log", request->log},
        {"--trace", request->cluster != NULL ? request->cluster->trace : NULL}};
    const size_t count = sizeof outputs / sizeof outputs[0];
    for (size_t i = 0; i < count; i++) {
        rbt_status st = rbt_output_spare(outputs[i].path, outputs[i].option, inputs[0]);
        st = st != RBT_OK ? st : rbt_output_spare(outputs[i].path, outputs[i].option, inputs[1]);
        if (st != RBT_OK) {
            return st;
        }
        for (size_t j = i + 1; j < count && outputs[i].path != NULL; j++) {
            const char *other = outputs[j].path;
            if (other != NULL && (strcmp(outputs[i].path, other) == 0 ||
                                  rbt_output_is_same(outputs[i].path, other))) {
                return rbt_fail(RBT_E_INVALID, "options \"%s\" and \"%s\" both name \"%s\"",
                                outputs[i].option, outputs[j].option, other);
            }
        }
    }
    rbt_status st = options->model != NULL ? rbt_output_check(options->model, "model") : RBT_OK;
    if (st == RBT_OK && outputs[2].path != NULL) {
        st = rbt_output_check(outputs[2].path, "trace");
    }
    return st;
}

static rbt_status check_rule(const char *rule)
{
    struct rbt_rule_needs needs = {0};
    return rule == NULL ? RBT_OK : rbt_rule_check(rule, 1, &needs);
}

/* Before data is read. Some algorithms know what "kkt" needs. */
static rbt_status check_filter(const char *filter)
{
    char complete[RBT_TEXT_MAX];
    if (filter == NULL) {
        return RBT_OK;
    }
    rbt_status st = rbt_rules_complete(filter, "kkt", 1, complete);
    const struct rbt_chain_options chain = {
        .text = complete, .width = 1, .type = RBT_F32, .worker_count = 1};
    st = st != RBT_OK ? st : rbt_chain_check(&chain, NULL);
    return st == RBT_OK ? st : rbt_fail_in(st, "option \"--filter\"");
}

rbt_status rbt_train_check(const struct rbt_train_request *request)
{
    rbt_status st = check_consistency(request->options.consistency);
    st = st != RBT_OK ? st : check_rule(request->options.rule);
    st = st != RBT_OK ? st : check_filter(request->options.filter);
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
        if (run->simulation != NULL && run->log_status == RBT_OK) {
            note_log(run, rbt_runlog_traffic(&run->log, run->simulation));
        }
        rbt_progress_event(&run->progress, event);
    }
    pthread_mutex_unlock(&run->mutex);
}

static void on_node(void *context, double t, const char *node, const char *state)
{
    struct run *run = context;
    pthread_mutex_lock(&run->mutex);
    start_log(run);
    if (run->log_status == RBT_OK) {
        note_log(run, rbt_runlog_node(&run->log, t, node, state));
        rbt_progress_node(&run->progress, t, node, state);
    }
    pthread_mutex_unlock(&run->mutex);
}

static bool is_interrupted(void *context)
{
    struct run *run = context;
    if (rbt_interrupt_seen()) { /* relaxed, both: a worker that sees it one clock later is no worse
                                 */
        atomic_store_explicit(&run->has_obeyed, true, memory_order_relaxed);
        return true;
    }
    return atomic_load_explicit(&run->is_stopped, memory_order_relaxed);
}

/* Says how far an interrupted run got. */
static rbt_status tell_interrupted(const struct rbt_train_request *request, const struct run *run)
{
    const bool is_other = run->cluster != NULL && !rbt_interrupt_seen();
    if (run->is_silent && !is_other) { /* it does not know how far */
        return rbt_fail(RBT_E_INTERRUPTED, "interrupted");
    }
    return rbt_fail(RBT_E_INTERRUPTED, "%sinterrupted after %.4g epoch%s%s",
                    is_other ? "another process of the job was " : "", run->last.epoch,
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
    const bool is_simulated = run->request->cluster != NULL;
    const struct rbt_summary figures = {summary, is_simulated ? &run->stats : NULL,
                                        &run->request->options, run->rack_bytes};
    struct rbt_runlog_end end = {.t = is_simulated ? run->stats.seconds : summary->seconds,
                                 .status = status_name(st),
                                 .error = st == RBT_OK ? NULL : record.message,
                                 .summary = has_figures ? &figures : NULL};
    if (!is_simulated && !has_figures) {
        end.t = rbt_clock_seconds() - run->began;
    }
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

static rbt_status report(const struct rbt_train_request *request, const struct rbt_summary *summary)
{
    if (request->summary == RBT_SUMMARY_TEXT) {
        rbt_summary_text(request->out, request->algo->name, request->options.model, summary);
        return RBT_OK; /* main() looks whether standard output took it */
    }
    if (request->summary == RBT_SUMMARY_FULL) {
        rbt_summary_full(request->out, request->algo->name, request->options.model, summary);
        return RBT_OK;
    }
    struct rbt_json json = {0};
    rbt_summary_json(&json, NULL, summary, false);
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
    struct rbt_train_options options = request->options;
    options.simulation = run->simulation;
    options.cluster = run->cluster;
    if (run->is_silent) {
        options.model = NULL;
    }
    rbt_status st = request->algo->train(&options, request->config, &observer, summary);
    /* A cluster that was told to stop says so itself; one that ends because we were does not know
     * why. */
    const bool is_ours = rbt_interrupt_seen() && st == RBT_E_CLOSED && run->cluster != NULL;
    const bool has_obeyed = atomic_load_explicit(&run->has_obeyed, memory_order_relaxed);
    const bool has_stopped =
        (st == RBT_E_INTERRUPTED && (run->cluster == NULL || rbt_interrupt_seen())) || is_ours ||
        (st == RBT_OK && (summary->is_interrupted || has_obeyed));
    rbt_progress_finish(&run->progress, st == RBT_OK && !has_stopped);
    if (run->log_status != RBT_OK) {
        rbt_error_restore(&run->log_error);
        return run->log_status;
    }
    return has_stopped ? tell_interrupted(request, run) : st;
}

static rbt_status open_simulation(struct run *run)
{
    if (run->request->cluster == NULL) {
        return RBT_OK;
    }
    struct rbt_simulation_options options = *run->request->cluster;
    options.observer = (struct rbt_simulation_observer){.context = run, .on_node = on_node};
    return rbt_simulation_open(&options, &run->simulation);
}

/* Takes the simulation's figures and closes it. The first failure is the one to tell. */
static rbt_status close_simulation(struct run *run, rbt_status st)
{
    if (run->simulation == NULL) {
        return st;
    }
    struct rbt_error_record record;
    rbt_error_save(&record);
    run->stats.struct_size = sizeof run->stats;
    rbt_simulation_stats(run->simulation, &run->stats);
    struct rbt_simulation_rack rack = {.struct_size = sizeof rack};
    for (uint32_t i = 0; rbt_simulation_rack(run->simulation, i, &rack) == RBT_OK; i++) {
        run->rack_bytes += rack.bytes_sent;
    }
    if (run->log.is_started && run->log_status == RBT_OK) {
        const uint32_t workers = (uint32_t)run->request->options.workers;
        note_log(run, rbt_runlog_simulation(&run->log, run->simulation, workers));
    }
    const rbt_status closed = rbt_simulation_close(run->simulation);
    run->simulation = NULL;
    if (st != RBT_OK) {
        rbt_error_restore(&record);
    }
    return st != RBT_OK ? st : closed;
}

/* How many passes it will be, if nothing ends it before. */
static int64_t epochs_of(const struct rbt_train_request *request)
{
    const struct rbt_algo *algo = request->algo;
    if (request->options.epochs > 0) {
        return request->options.epochs;
    }
    return algo->epochs_of != NULL ? algo->epochs_of(request->config) : algo->epochs_default;
}

/* One run, from its log to its report. */
static rbt_status run_job(struct run *run)
{
    const struct rbt_train_request *request = run->request;
    struct rbt_train_summary summary = {0};
    rbt_status st = rbt_runlog_open(run->is_silent ? NULL : request->log, &run->log);
    if (st != RBT_OK) {
        return st;
    }
    run->began = rbt_clock_seconds();
    const struct rbt_progress_options progress = {
        .err = request->err,
        .mode = run->is_silent ? RBT_PROGRESS_NEVER : (enum rbt_progress_mode)request->progress,
        .epochs = (double)epochs_of(request),
        .is_virtual = request->cluster != NULL};
    rbt_progress_init(&run->progress, &progress);
    st = open_simulation(run);
    if (st == RBT_OK) {
        st = train(request, run, &summary);
        st = close_simulation(run, st);
    }
    st = end_log(run, st, &summary);
    const struct rbt_summary figures = {&summary, request->cluster != NULL ? &run->stats : NULL,
                                        &request->options, run->rack_bytes};
    return st == RBT_OK && !run->is_silent ? report(request, &figures) : st;
}

rbt_status rbt_train_run(const struct rbt_train_request *request)
{
    struct run run = {.request = request, .mutex = PTHREAD_MUTEX_INITIALIZER};
    RBT_ASSERT((request->cluster == NULL) == (request->start.cluster == NULL));
    rbt_status st = RBT_OK;
    rbt_interrupt_start(); /* also while others are waited for: all must hear of it */
    if (request->join != NULL) {
        st = rbt_cluster_join(request->join, &run.cluster);
        run.is_silent = st == RBT_OK && rbt_cluster_index(run.cluster) != 0;
    }
    st = st != RBT_OK ? st : run_job(&run);
    rbt_cluster_leave(run.cluster, st, st == RBT_OK ? NULL : rbt_last_error());
    rbt_interrupt_stop();
    pthread_mutex_destroy(&run.mutex);
    return st;
}
