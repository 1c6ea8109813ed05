/* algo/frame/training.c - what every algorithm's training has in common. */
#include "algo/frame/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/frame/effort.h"
#include "algo/frame/guide.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

enum { GRADIENT_CLOCKS = 32 }; /* in an epoch: minibatches of a rule that takes gradients */
enum { RECENT_MAX = 5 };       /* objectives that the summary is about */
enum { NOTE_SIZE = 160 };
enum { QUIET_ASP = 5 }; /* passes without a gain, if nothing bounds how old copies are */

/* A model whose objective is so many times that of a trivial one has diverged. */
static const double useless = 1.5;

/* Elements of the row of an epoch in the table of figures. From EFFORT on it has, in a cluster,
 * what all processes have done so far. A simulation knows it all, and leaves these elements zero:
 * they are there so that messages have the bytes that they have between processes. Elsewhere the
 * row ends there. */
enum { LOSS, COUNT, PENALTY, EFFORT, FIGURES_WIDTH = EFFORT + RBT_EFFORT_WIDTH };

/* Elements of row 0 of the control table; whoever adds to one of the first three makes everybody
 * leave. PROCESSED counts the examples of all workers. */
enum { GOAL_REACHED, INTERRUPTED, FAILED, PROCESSED, CONTROL_WIDTH };

const char *const rbt_training_schedules[] = {"constant", "sqrt", "decay", NULL};
const char *const rbt_training_combines[] = {"mean", "sum", "auto", NULL};

struct run {
    const struct rbt_training *training;
    int64_t clocks_per_epoch;
    rbt_table *figures;
    rbt_table *control;
    /* The rest is written by worker 0 and read when all have left. */
    uint64_t processed; /* examples, by all workers, as far as it knows */
    double load_seconds;
    double began;        /* on the workers' clock */
    double ended;        /* the same */
    double real_seconds; /* on our clock: only for figures */
    bool is_finished;    /* worker 0 got to the end */
    int64_t clocks;
    bool is_goal_reached; /* and the others have been asked to stop */
    int64_t epochs_reported;
    double objective_min;
    int64_t evaluations_since;
    double objective_last;  /* of a pass */
    double gain;            /* of the last pass, as a part of the objective */
    int64_t quiet_passes;   /* the last ones, without a gain beyond the tolerance */
    struct rbt_guide guide; /* of a staleness that is tuned */
    bool is_interrupted;
    double recent[RECENT_MAX];    /* objectives told; the next goes to recent_count % RECENT_MAX */
    size_t recent_count;          /* ever told */
    struct rbt_metrics by_worker; /* of the last whole epoch */
    struct rbt_model model;
};

struct rbt_training rbt_training_of(const struct rbt_train_options *options,
                                    const struct rbt_observer *observer,
                                    const struct rbt_training_task *task, int64_t epochs)
{
    return (struct rbt_training){.options = options,
                                 .observer = observer,
                                 .task = task,
                                 .workers = options->workers > 0 ? (uint32_t)options->workers
                                                                 : rbt_thread_cores(),
                                 .epochs = options->epochs > 0 ? options->epochs : epochs,
                                 .started = rbt_clock_seconds(),
                                 .has_eval = options->eval.count > 0};
}

int64_t rbt_training_clocks(const struct rbt_train_options *options, const struct rbt_rules *rules)
{
    const int64_t fallback = rules->has_gradients ? GRADIENT_CLOCKS : 1;
    return options->clocks_per_epoch > 0 ? options->clocks_per_epoch : fallback;
}

void rbt_training_place(const struct rbt_train_options *options, const uint64_t *keys, size_t count,
                        struct rbt_table_options *table)
{
    table->placement = (rbt_placement)options->placement;
    table->keys_max = 1; /* 0 would mean 2^64-1 */
    for (size_t i = 0; i < count; i++) {
        table->keys_max = keys[i] > table->keys_max ? keys[i] : table->keys_max;
    }
}

double rbt_training_rate_at(const struct rbt_training_rate *rate, double passes)
{
    switch (rate->schedule) {
    case RBT_SCHEDULE_CONSTANT:
        return rate->lr;
    case RBT_SCHEDULE_SQRT:
        return rate->lr / sqrt(1.0 + rate->decay * passes);
    case RBT_SCHEDULE_DECAY:
        return rate->lr / (1.0 + rate->decay * passes);
    }
    RBT_UNREACHABLE();
}

/* In a cluster every process adds what it has done so far to the figures of an epoch, through its
 * first worker. */
static void add_effort(const struct run *run, rbt_worker *worker, double *row)
{
    const rbt_job *job = rbt_worker_job(worker);
    uint32_t first = 0;
    while (!rbt_job_is_here(job, first)) {
        first++;
    }
    if (run->training->options->cluster != NULL && rbt_worker_index(worker) == first) {
        struct rbt_job_stats stats = {.struct_size = sizeof stats};
        rbt_job_stats(rbt_worker_job(worker), &stats);
        rbt_effort_pack(&stats, row + EFFORT);
    }
}

/* What is known of the job at the moment. `worker` and `row`, the figures of an epoch, are NULL
 * when all have left, and everything is known. */
static void get_stats(const struct run *run, rbt_job *job, rbt_worker *worker, const double *row,
                      struct rbt_job_stats *stats)
{
    rbt_job_stats(job, stats);
    if (run->training->options->cluster != NULL && row != NULL) {
        rbt_effort_unpack(row + EFFORT, stats);
    }
    if (run->training->options->cluster != NULL && worker != NULL) {
        stats->clock_min = rbt_worker_shard_clock(worker);
    } else if (worker == NULL) {
        stats->clock_min = run->clocks + 1; /* one to prepare */
    }
    stats->clock_max = stats->clock_max > stats->clock_min ? stats->clock_max : stats->clock_min;
}

static void tell(struct run *run, const struct rbt_job_stats *now, struct rbt_train_event *event)
{
    const struct rbt_job_stats stats = *now;
    const struct rbt_observer *observer = run->training->observer;
    run->recent[run->recent_count++ % RECENT_MAX] = event->objective;
    /* What has been counted so far may be some clocks old; epochs that are complete are not. */
    const uint64_t complete = (uint64_t)run->epochs_reported * run->training->examples;
    event->examples = run->processed > complete ? run->processed : complete;
    event->lag_mean = stats.lag_mean;
    event->lag_max = stats.lag_max;
    event->clock_min = stats.clock_min;
    event->clock_max = stats.clock_max;
    event->bytes = stats.bytes_sent + stats.bytes_received;
    event->stats = &stats;
    if (observer->on_event != NULL) {
        observer->on_event(observer->context, event);
    }
    event->stats = NULL; /* it ends here */
}

/* The same, with a note. */
static void tell_more(struct run *run, rbt_worker *worker, const double *row,
                      struct rbt_train_event *event)
{
    struct rbt_job_stats stats = {.struct_size = sizeof stats};
    get_stats(run, rbt_worker_job(worker), worker, row, &stats);
    event->staleness = rbt_job_staleness(rbt_worker_job(worker));
    char note[NOTE_SIZE] = "";
    if (run->training->task->note != NULL) {
        run->training->task->note(run->training->context, worker, note, sizeof note);
    }
    event->note = note[0] != '\0' ? note : NULL;
    tell(run, &stats, event);
    event->note = NULL;
}

static rbt_status ask_to_stop(const struct run *run, rbt_worker *worker, uint32_t why)
{
    const int64_t one = 1;
    return rbt_add_at(worker, run->control, 0, why, &one);
}

/* Whether the objective has reached the target, or has not improved for long enough. */
static bool is_goal_reached(struct run *run, double objective)
{
    const struct rbt_train_options *options = run->training->options;
    if (objective < run->objective_min) {
        run->objective_min = objective;
        run->evaluations_since = 0;
    } else {
        run->evaluations_since++;
    }
    return objective <= options->target ||
           (options->patience > 0 && run->evaluations_since >= options->patience);
}

/* Whether training has converged, now that a pass had this objective. Under bounded staleness
 * several passes in a row may be made with copies that are no newer, so more of them must show it.
 */
static bool has_converged(struct run *run, double objective)
{
    const double tolerance = run->training->tolerance;
    const int64_t staleness = rbt_table_staleness(run->figures);
    int64_t passes = 1 + (staleness + run->clocks_per_epoch - 1) / run->clocks_per_epoch;
    passes = staleness == RBT_STALENESS_ANY ? QUIET_ASP : passes;
    passes = run->training->workers == 1 ? 1 : passes;
    run->gain = (run->objective_last - objective) / fabs(objective);
    const bool is_quiet = run->objective_last - objective <= tolerance * fabs(objective);
    run->quiet_passes = is_quiet ? run->quiet_passes + 1 : 0;
    run->objective_last = objective;
    return tolerance > 0 && run->quiet_passes >= passes;
}

/* Workers measure their losses on copies that show their own moves and, under bounded staleness,
 * not yet all of the others': such an objective may be good while the model that everybody's moves
 * make is not. So, when it seems to have reached the target, it becomes the exact objective of the
 * model with all that everybody did up to the end of the epoch at clock `end`. */
static rbt_status confirm(struct run *run, rbt_worker *worker, int64_t end, double *objective)
{
    const struct rbt_training *training = run->training;
    if (training->is_apart || !(*objective <= training->options->target)) {
        return RBT_OK;
    }
    struct rbt_model model = {0};
    const int64_t clock = rbt_worker_clock(worker);
    rbt_status st =
        training->task->collect(training->context, worker, clock > end ? clock - end : 0, &model);
    if (st == RBT_OK) {
        st = training->task->objective(training->context, &model, objective);
    }
    rbt_model_free(&model);
    return st;
}

/* Looks at the model as it is after a pass. Evaluating it costs a worker of a simulation no
 * computing, because it is the observer's business and not training's. Collecting the model is not
 * free, though: it is read through the network like anything else. If nobody wants to see it,
 * nothing is collected. */
static rbt_status look(struct run *run, rbt_worker *worker, struct rbt_train_event *event,
                       bool *is_over)
{
    const struct rbt_training *training = run->training;
    if (!training->has_eval && is_over == NULL) {
        return RBT_OK;
    }
    struct rbt_model model = {0};
    const int64_t staleness = rbt_table_staleness(run->figures);
    rbt_status st = training->task->collect(training->context, worker, staleness, &model);
    if (st == RBT_OK && training->has_eval) {
        st = training->task->evaluate(training->context, &model, &event->eval);
    }
    if (st == RBT_OK && is_over != NULL) {
        st = training->task->watch(training->context, worker, event->epoch, &model, is_over);
    }
    rbt_model_free(&model);
    return st;
}

/* Reads the figures of an epoch; `is_complete` says whether they are everybody's, that is, of all
 * who have not been lost on the way. */
static rbt_status read_figures(struct run *run, rbt_worker *worker, bool is_last,
                               double row[FIGURES_WIDTH], bool *is_complete)
{
    const uint64_t epoch = (uint64_t)run->epochs_reported;
    rbt_status st = is_last ? rbt_get_within(worker, run->figures, epoch, 0, row)
                            : rbt_get(worker, run->figures, epoch, row);
    *is_complete = st == RBT_OK && row[COUNT] >= (double)run->training->examples;
    const int64_t end = (run->epochs_reported + 1) * run->clocks_per_epoch + 1;
    if (st != RBT_OK || *is_complete || is_last || rbt_worker_shard_clock(worker) < end) {
        return st; /* some are behind; if they have left early, it never comes */
    }
    /* Everybody who is still there has ended the epoch, so this read does not wait. */
    st = rbt_get_within(worker, run->figures, epoch, rbt_worker_clock(worker) - end, row);
    *is_complete = st == RBT_OK && row[COUNT] > 0;
    return st;
}

/* Worker 0: reports epochs whose figures are complete, but not the last one, which is reported with
 * exact figures at the end; then, `is_last`, everybody else has finished or left. */
static rbt_status report(struct run *run, rbt_worker *worker, bool is_last)
{
    const struct rbt_training *training = run->training;
    while (run->epochs_reported + 1 < training->epochs) {
        const int64_t clock = rbt_worker_clock(worker) - 1;
        if ((run->epochs_reported + 1) * run->clocks_per_epoch > clock) {
            return RBT_OK; /* not even the worker itself has finished it */
        }
        double row[FIGURES_WIDTH];
        bool is_complete = false;
        rbt_status st = read_figures(run, worker, is_last, row, &is_complete);
        if (st != RBT_OK || !is_complete) {
            return st;
        }
        run->epochs_reported++;
        struct rbt_train_event event = {.t = rbt_worker_seconds(worker) - run->began,
                                        .epoch = (double)run->epochs_reported,
                                        .clock = clock,
                                        .objective = row[LOSS] / row[COUNT] + row[PENALTY]};
        bool is_over = false;
        st = look(run, worker, &event, training->is_watched && !is_last ? &is_over : NULL);
        if (st == RBT_OK && training->task->compare != NULL) {
            st = training->task->compare(training->context, worker, run->epochs_reported - 1,
                                         rbt_table_staleness(run->figures), &event.by_worker);
        }
        if (st == RBT_OK && !is_last && !run->is_goal_reached) {
            st = confirm(run, worker, run->epochs_reported * run->clocks_per_epoch + 1,
                         &event.objective);
        }
        rbt_job_advise_staleness(rbt_worker_job(worker),
                                 rbt_guide_step(&run->guide, event.objective));
        is_over = has_converged(run, event.objective) || is_over;
        if (st == RBT_OK && !run->is_goal_reached &&
            (is_goal_reached(run, event.objective) || is_over)) {
            run->is_goal_reached = true;
            st = ask_to_stop(run, worker, GOAL_REACHED);
        }
        if (st != RBT_OK) {
            return st;
        }
        tell_more(run, worker, row, &event);
    }
    return RBT_OK;
}

/* How many examples have been processed, as the servers know at the moment. */
static rbt_status count_processed(struct run *run, rbt_worker *worker)
{
    struct rbt_rows rows = {0};
    const rbt_status st =
        rbt_pull_range(worker, run->control, RBT_RANGE_ALL, RBT_STALENESS_OBSERVER, &rows);
    if (st == RBT_OK && rows.count > 0) {
        run->processed = (uint64_t)((const int64_t *)rows.values)[PROCESSED];
    }
    rbt_rows_free(&rows);
    return st;
}

/* Worker 0, after each of its clocks: the exact objective of what the servers have at the moment.
 * To look on costs no time of a simulation. */
static rbt_status report_exact(struct run *run, rbt_worker *worker)
{
    const struct rbt_training *training = run->training;
    struct rbt_model model = {0};
    struct rbt_train_event event = {.t = rbt_worker_seconds(worker) - run->began,
                                    .epoch = (double)run->clocks / (double)run->clocks_per_epoch,
                                    .clock = run->clocks};
    rbt_status st =
        training->task->collect(training->context, worker, RBT_STALENESS_OBSERVER, &model);
    if (st == RBT_OK) {
        st = training->task->objective(training->context, &model, &event.objective);
    }
    if (st == RBT_OK && training->has_eval) {
        st = training->task->evaluate(training->context, &model, &event.eval);
    }
    rbt_model_free(&model);
    st = st != RBT_OK ? st : count_processed(run, worker);
    const bool is_pass = st == RBT_OK && run->clocks % run->clocks_per_epoch == 0;
    const bool is_over = is_pass && has_converged(run, event.objective);
    if (is_pass) {
        rbt_job_advise_staleness(rbt_worker_job(worker),
                                 rbt_guide_step(&run->guide, event.objective));
    }
    if (st == RBT_OK && !run->is_goal_reached &&
        (is_goal_reached(run, event.objective) || is_over)) {
        run->is_goal_reached = true;
        st = ask_to_stop(run, worker, GOAL_REACHED);
    }
    if (st == RBT_OK) {
        tell_more(run, worker, NULL, &event);
    }
    return st;
}

/* Before the first clock of training: shares are taken, usage is known. */
static rbt_status prepare(struct run *run, rbt_worker *worker)
{
    const struct rbt_training *training = run->training;
    uint64_t parameters = 0;
    rbt_status st =
        training->task->begin == NULL ? RBT_OK : training->task->begin(training->context, worker);
    if (st == RBT_OK) {
        st = rbt_clock(worker);
    }
    if (st == RBT_OK) {
        st = training->task->ready(training->context, worker, &parameters);
    }
    if (st == RBT_OK && rbt_worker_index(worker) == 0) {
        const struct rbt_observer *observer = training->observer;
        /* Virtual time has one beginning for all: faults and timelines count from there, too. */
        run->began = training->options->simulation != NULL ? 0 : rbt_worker_seconds(worker);
        run->load_seconds = rbt_clock_seconds() - training->started;
        if (observer->on_loaded != NULL) {
            observer->on_loaded(observer->context, run->load_seconds, training->examples,
                                parameters);
        }
    }
    return st;
}

/* What to do about divergence. */
static rbt_status advise(const struct rbt_training *training, rbt_status st)
{
    const char *consistency = training->options->consistency;
    if (training->remedy != NULL) {
        return rbt_fail_hint(st, "%s", training->remedy);
    }
    return training->workers == 1 || (consistency != NULL && strcmp(consistency, "bsp") == 0)
               ? rbt_fail_hint(st, "Try a smaller step size, --lr.")
               : rbt_fail_hint(st, "Try a smaller step size, --lr, or --consistency bsp.");
}

/* The loss must be a number; if it is not, nothing of this clock is sent. */
static rbt_status check(const struct rbt_training *training, double loss,
                        const struct rbt_training_chunk *chunk)
{
    if (isfinite(loss)) {
        return RBT_OK;
    }
    const rbt_status st =
        rbt_fail(RBT_E_DATA, "training diverged in epoch %lld: the loss is %s",
                 (long long)chunk->epoch + 1, isnan(loss) ? "not a number" : "infinite");
    return advise(training, st);
}

/* Refuses a final model that knows less than none: far above a trivial one's objective. */
static rbt_status check_final(const struct run *run, double objective)
{
    const struct rbt_training *training = run->training;
    const bool is_useless = training->trivial > 0 && objective > useless * training->trivial;
    if (run->is_interrupted || (isfinite(objective) && !is_useless)) {
        return RBT_OK;
    }
    const double epochs = (double)run->clocks / (double)run->clocks_per_epoch;
    rbt_status st = RBT_OK;
    if (is_useless) {
        st = rbt_fail(RBT_E_DATA,
                      "training diverged: the objective after pass %.4g is %.6g, worse than the "
                      "%.6g of %s",
                      epochs, objective, training->trivial, training->trivial_name);
    } else {
        st = rbt_fail(RBT_E_DATA, "training diverged: the objective after pass %.4g is %s", epochs,
                      isnan(objective) ? "not a number" : "infinite");
    }
    return advise(training, st);
}

/* One clock of training. */
static rbt_status work(struct run *run, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    const struct rbt_training *training = run->training;
    const uint64_t count_before = figures->count;
    rbt_status st = training->task->work(training->context, worker, chunk, figures);
    if (st == RBT_OK) {
        st = check(training, figures->loss, chunk);
    }
    if (st == RBT_OK && chunk->index + 1 == chunk->count) {
        double (*penalty)(void *, rbt_worker *) = training->task->penalty;
        double row[FIGURES_WIDTH] = {
            [LOSS] = figures->loss,
            [COUNT] = (double)figures->count,
            [PENALTY] = penalty == NULL ? 0.0 : penalty(training->context, worker)};
        st = check(training, row[PENALTY], chunk);
        add_effort(run, worker, row);
        if (st == RBT_OK) {
            st = rbt_add(worker, run->figures, (uint64_t)chunk->epoch, row);
        }
    }
    if (st == RBT_OK) {
        st = training->task->push(training->context, worker);
    }
    const int64_t processed = (int64_t)(figures->count - count_before);
    return st != RBT_OK ? st : rbt_add_at(worker, run->control, 0, PROCESSED, &processed);
}

/* Whether training has lasted as long as it may; worker 0's clock counts. */
static bool is_time_up(const struct run *run, rbt_worker *worker)
{
    const double until = run->training->options->until;
    return until > 0 && rbt_worker_index(worker) == 0 &&
           rbt_worker_seconds(worker) - run->began >= until;
}

/* Reads what others have asked for, after saying whether the user or the time wants to stop. */
static rbt_status should_stop(struct run *run, rbt_worker *worker, bool *is_over)
{
    const struct rbt_observer *observer = run->training->observer;
    const bool is_interrupted =
        observer->is_interrupted != NULL && observer->is_interrupted(observer->context);
    rbt_status st = RBT_OK;
    if (is_interrupted) {
        st = ask_to_stop(run, worker, INTERRUPTED);
    } else if (is_time_up(run, worker)) {
        st = ask_to_stop(run, worker, GOAL_REACHED);
    }
    int64_t control[CONTROL_WIDTH] = {0};
    if (st == RBT_OK) {
        st = rbt_get(worker, run->control, 0, control);
    }
    if (st == RBT_OK) {
        *is_over =
            is_interrupted || control[GOAL_REACHED] + control[INTERRUPTED] + control[FAILED] > 0;
        if (rbt_worker_index(worker) == 0) {
            run->is_interrupted = is_interrupted || control[INTERRUPTED] > 0;
            run->processed = (uint64_t)control[PROCESSED];
        }
    }
    return st;
}

/* All epochs, until somebody asks to stop. */
static rbt_status train(struct run *run, rbt_worker *worker)
{
    const int64_t clocks = run->training->epochs * run->clocks_per_epoch;
    struct rbt_training_figures figures = {0};
    for (int64_t clock = 0; clock < clocks; clock++) {
        bool is_over = false;
        rbt_status st = should_stop(run, worker, &is_over);
        if (st != RBT_OK || is_over) {
            return st;
        }
        const struct rbt_training_chunk chunk = {.epoch = clock / run->clocks_per_epoch,
                                                 .index = clock % run->clocks_per_epoch,
                                                 .count = run->clocks_per_epoch};
        if (chunk.index == 0) {
            figures = (struct rbt_training_figures){0};
        }
        st = work(run, worker, &chunk, &figures);
        if (st == RBT_OK) {
            st = rbt_clock(worker);
        }
        if (st == RBT_OK && rbt_worker_index(worker) == 0) {
            run->clocks = clock + 1;
            st = run->training->options->is_exact ? report_exact(run, worker)
                                                  : report(run, worker, false);
        }
        if (st != RBT_OK) {
            return st;
        }
    }
    return RBT_OK;
}

/* Worker 0, after its last clock: waits for the others and takes the model. */
static rbt_status finish(struct run *run, rbt_worker *worker)
{
    int64_t control[CONTROL_WIDTH] = {0};
    rbt_status st = rbt_get_within(worker, run->control, 0, 0, control); /* waits for everybody */
    run->ended = rbt_worker_seconds(worker);
    /* Others may have stopped after worker 0 last looked: then this is not the model asked for. */
    run->is_interrupted = run->is_interrupted || control[INTERRUPTED] > 0;
    run->processed = (uint64_t)control[PROCESSED];
    if (st == RBT_OK && !run->training->options->is_exact) {
        st = report(run, worker, true);
    }
    const int64_t epochs = run->clocks / run->clocks_per_epoch; /* whole ones */
    if (st == RBT_OK && run->training->task->compare != NULL && epochs > 0) {
        st = run->training->task->compare(run->training->context, worker, epochs - 1, 0,
                                          &run->by_worker);
    }
    if (st == RBT_OK) {
        st = run->training->task->collect(run->training->context, worker, 0, &run->model);
    }
    if (st == RBT_OK && run->training->is_watched) {
        bool is_over = false;
        st = run->training->task->watch(run->training->context, worker,
                                        (double)run->clocks / (double)run->clocks_per_epoch,
                                        &run->model, &is_over);
        if (st == RBT_OK) {
            st = run->training->task->settle(run->training->context, &run->model);
        }
    }
    run->is_finished = st == RBT_OK;
    return st;
}

/* After the last clock, however many there were: what filters hold back goes in one of its own, so
 * that the model has it. */
static rbt_status release(const struct run *run, rbt_worker *worker)
{
    if (run->training->rules->filter[0] == '\0') {
        return RBT_OK;
    }
    const rbt_status st = rbt_worker_flush(worker);
    return st != RBT_OK ? st : rbt_clock(worker);
}

static rbt_status run_worker(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    rbt_status st = prepare(run, worker);
    if (st == RBT_OK) {
        st = train(run, worker);
    }
    if (st == RBT_OK) {
        st = release(run, worker);
    }
    if (st == RBT_OK && rbt_worker_index(worker) == 0) {
        st = finish(run, worker);
    }
    if (st != RBT_OK) {
        /* The others should not work on for nothing. The first failure is the one to report. */
        struct rbt_error_record record;
        rbt_error_save(&record);
        rbt_status told = ask_to_stop(run, worker, FAILED);
        told = told == RBT_OK ? rbt_clock(worker) : told;
        (void)told;
        rbt_error_restore(&record);
    }
    run->training->task->end(run->training->context, worker);
    return st;
}

static rbt_status open_tables(struct run *run, rbt_job *job)
{
    struct rbt_table_options figures = {
        .struct_size = sizeof figures, .type = RBT_F64, .width = EFFORT};
    if (run->training->options->cluster != NULL || run->training->options->simulation != NULL) {
        figures.width = FIGURES_WIDTH;
    }
    /* Without an overlay, so that who asks to stop does so when the others do. */
    struct rbt_table_options control = {.struct_size = sizeof control,
                                        .type = RBT_I64,
                                        .width = CONTROL_WIDTH,
                                        .overlay = RBT_OVERLAY_NONE};
    /* A cached row would tell of epochs, and that the target is reached, only when it has become
     * too old. Only worker 0 reads figures; if there is no goal, it does not matter when others
     * hear that they should stop. */
    const struct rbt_train_options *options = run->training->options;
    char newest[32];
    if (options->consistency != NULL && strncmp(options->consistency, "ssp:", 4) == 0 &&
        strlen(options->consistency) + 1 < sizeof newest) {
        newest[0] = 'e';
        memcpy(newest + 1, options->consistency, strlen(options->consistency) + 1);
        figures.consistency = newest;
        const bool has_goal = !isnan(options->target) || options->patience > 0;
        control.consistency = has_goal || run->training->is_watched ? newest : NULL;
    }
    rbt_status st = rbt_table_open(job, "figures", &figures, &run->figures);
    if (st == RBT_OK) {
        st = rbt_table_open(job, "control", &control, &run->control);
    }
    if (st == RBT_OK) {
        st = run->training->task->open(run->training->context, job);
    }
    return st;
}

static rbt_status write_model(const struct run *run)
{
    const char *path = run->training->options->model;
    return path == NULL || run->is_interrupted ? RBT_OK : rbt_model_write(&run->model, path);
}

/* The figures of the run, but not yet those of the model. */
static void summarise(const struct run *run, rbt_job *job, struct rbt_train_summary *summary)
{
    const double seconds = run->ended - run->began;
    const bool is_simulated = run->training->options->simulation != NULL;
    *summary =
        (struct rbt_train_summary){.seconds = is_simulated ? run->real_seconds : seconds,
                                   .virtual_seconds = is_simulated ? seconds : 0.0,
                                   .load_seconds = run->load_seconds,
                                   .examples = run->processed,
                                   .epochs = (double)run->clocks / (double)run->clocks_per_epoch,
                                   .clocks = run->clocks,
                                   .by_worker = run->by_worker,
                                   .digest = rbt_model_digest(&run->model),
                                   .is_interrupted = run->is_interrupted};
    memcpy(summary->rule, run->training->rules->text, sizeof summary->rule);
    memcpy(summary->filter, run->training->rules->filter, sizeof summary->filter);
    summary->stats.struct_size = sizeof summary->stats;
    rbt_job_stats(job, &summary->stats);
    const uint64_t updates = summary->stats.updates;
    summary->examples_per_s = seconds > 0 ? (double)summary->examples / seconds : 0.0;
    summary->seconds_per_update = updates > 0 ? seconds / (double)updates : 0.0;
}

/* Mean and variance of the last objectives told. */
static void summarise_recent(const struct run *run, struct rbt_train_summary *summary)
{
    const size_t count = run->recent_count < RECENT_MAX ? run->recent_count : RECENT_MAX;
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += run->recent[i];
    }
    const double mean = sum / (double)count;
    double squares = 0.0;
    for (size_t i = 0; i < count; i++) {
        squares += (run->recent[i] - mean) * (run->recent[i] - mean);
    }
    summary->objective_mean5 = mean;
    summary->objective_var5 = squares / (double)count;
}

/* Says so if training had to stop before it had converged. */
static void note_convergence(const struct run *run, struct rbt_train_summary *summary)
{
    const struct rbt_training *training = run->training;
    const bool is_whole = run->clocks >= training->epochs * run->clocks_per_epoch;
    if (training->tolerance > 0 && is_whole && !run->is_goal_reached) {
        (void)snprintf(summary->unconverged, sizeof summary->unconverged,
                       "the last of %lld passes still gained %.2g%%; allow more with --epochs",
                       (long long)training->epochs, 100 * run->gain);
    }
}

/* Measures the final model, says so, and writes it. */
static rbt_status conclude(struct run *run, rbt_job *job, struct rbt_train_summary *summary)
{
    const struct rbt_training *training = run->training;
    if (!run->is_finished) {
        return rbt_fail(RBT_E_CLOSED, "worker 0 was lost, which collects the model");
    }
    summarise(run, job, summary);
    rbt_status st = training->task->objective(training->context, &run->model, &summary->objective);
    st = st != RBT_OK ? st : check_final(run, summary->objective);
    if (st == RBT_OK && training->has_eval) {
        st = training->task->evaluate(training->context, &run->model, &summary->eval);
    }
    if (st != RBT_OK) {
        return st;
    }
    if ((double)run->epochs_reported < summary->epochs) { /* else it has been told of */
        struct rbt_train_event event = {.t = run->ended - run->began,
                                        .epoch = summary->epochs,
                                        .clock = run->clocks,
                                        .objective = summary->objective,
                                        .eval = summary->eval,
                                        .by_worker = summary->by_worker};
        struct rbt_job_stats stats = {.struct_size = sizeof stats};
        get_stats(run, job, NULL, NULL, &stats);
        event.staleness = rbt_job_staleness(job);
        tell(run, &stats, &event);
    }
    summarise_recent(run, summary);
    note_convergence(run, summary);
    return write_model(run);
}

rbt_status rbt_training_run(const struct rbt_training *training, struct rbt_train_summary *summary)
{
    const struct rbt_train_options *options = training->options;
    RBT_ASSERT(training->workers >= 1);
    RBT_ASSERT(training->epochs >= 1);
    RBT_ASSERT(training->clocks_per_epoch >= 1);
    struct run run = {.training = training,
                      .clocks_per_epoch = training->clocks_per_epoch,
                      .objective_min = INFINITY,
                      .objective_last = INFINITY};
    const struct rbt_job_options job_options = {
        .struct_size = sizeof job_options,
        .workers = training->workers,
        .shards = options->cluster == NULL ? (uint32_t)options->servers : 0,
        .consistency = options->consistency,
        .simulation = options->simulation,
        .cluster = options->cluster,
        .bandwidth = (uint64_t)options->bandwidth,
        .priority = options->priority};
    rbt_job *job = NULL;
    rbt_status st = rbt_job_open(&job_options, &job);
    if (st != RBT_OK) {
        return st;
    }
    rbt_guide_init(&run.guide, run.clocks_per_epoch);
    rbt_job_advise_staleness(job, run.guide.bound);
    st = open_tables(&run, job);
    if (st == RBT_OK) {
        const double began = rbt_clock_seconds();
        st = rbt_job_run(job, run_worker, &run);
        run.real_seconds = rbt_clock_seconds() - began;
    }
    if (st == RBT_OK && rbt_job_is_here(job, 0)) {
        st = conclude(&run, job, summary);
    }
    rbt_model_free(&run.model);
    rbt_job_close(job);
    return st;
}
