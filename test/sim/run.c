/* sim/run.c - one scenario from its opening to its verdict, and many of them side by side.
 *
 * Many seeds are shared out to child processes: child i of n takes every n-th seed. A child tells
 * where it is in memory that it shares with its parent. If it dies, of an assertion or because a
 * seed takes longer than SEED_SECONDS, the parent counts a failure and another child goes on behind
 * that seed. */
#include "sim/run.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "sim/checker.h"
#include "sim/frames.h"
#include "sim/thrift.h"
#include "sim/workload.h"

enum {
    TRACE_LINES = 30,
    REPEAT_EVERY = 20, /* one seed in so many is run twice */
    SEED_SECONDS = 30,
    JOBS_MAX = 64,
};

/* --- One seed -------------------------------------------------------------------------------- */

static uint64_t current_seed;           /* for the handler of signals */
static struct sim_world *current_world; /* the same */

static bool on_event(void *context, rbt_simulation *simulation)
{
    struct sim_world *world = context;
    world->simulation = simulation;
    sim_check_event(world);
    return world->verdict.broken == SIM_HOLDS;
}

static rbt_status open_job(struct sim_world *world, rbt_simulation **simulation, rbt_job **job)
{
    const struct sim_scenario *plan = world->plan;
    struct rbt_simulation_options cluster = plan->cluster;
    cluster.observer = (struct rbt_simulation_observer){.context = world, .on_event = on_event};
    rbt_status st = rbt_simulation_open(&cluster, simulation);
    if (st != RBT_OK) {
        return st;
    }
    sim_frames_begin(plan->seed);
    sim_thrift_begin(world, *simulation);
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = plan->workers,
                                            .shards = plan->servers,
                                            .consistency = plan->consistency,
                                            .simulation = *simulation};
    st = rbt_job_open(&options, job);
    world->job = *job;
    for (uint32_t t = 0; st == RBT_OK && t < plan->table_count; t++) {
        st =
            rbt_table_open(*job, plan->tables[t].name, &plan->tables[t].options, &world->tables[t]);
    }
    world->simulation = *simulation;
    return st;
}

static void report(const struct sim_world *world, FILE *out)
{
    const uint64_t seed = world->plan->seed;
    fprintf(out, "\nseed %" PRIu64 " breaks %s at %.6f virtual seconds:\n%s\n", seed,
            sim_invariant_names[world->verdict.broken], world->now, world->verdict.text);
    sim_scenario_print(world->plan, out);
    fprintf(out, "  the last %d events that concern those named above:\n", TRACE_LINES);
    sim_world_print_trace(world, TRACE_LINES, out);
    fprintf(out, "  repeat it with: make sim SEED=%" PRIu64 "\n", seed);
    fflush(out);
}

static void run_once(const struct sim_scenario *plan, bool is_verbose, FILE *out,
                     struct sim_result *result)
{
    struct sim_world world;
    rbt_simulation *simulation = NULL;
    rbt_job *job = NULL;
    sim_world_init(&world, plan);
    world.is_verbose = is_verbose;
    current_world = &world;
    rbt_status st = open_job(&world, &simulation, &job);
    RBT_ASSERT(st == RBT_OK || sim_may_fail(plan)); /* scenarios make sense */
    for (world.run = 1; st == RBT_OK && world.run <= plan->runs; world.run++) {
        st = rbt_job_run(job, sim_work, &world);
        if (world.verdict.broken == SIM_HOLDS) {
            sim_check_end(&world, st);
            if (st == RBT_OK) {
                sim_thrift_check(&world);
            }
        }
    }
    rbt_job_close(job);
    st = rbt_simulation_close(simulation);
    if (st != RBT_OK && world.verdict.broken == SIM_HOLDS && !sim_may_fail(plan)) {
        world.verdict.broken = SIM_LIVENESS;
        snprintf(world.verdict.text, sizeof world.verdict.text,
                 "the job was lost at its goodbye: %s", rbt_last_error());
    }
    if (world.verdict.broken != SIM_HOLDS && out != NULL) {
        report(&world, out);
    }
    current_world = NULL;
    *result = (struct sim_result){.broken = world.verdict.broken,
                                  .events = world.events,
                                  .reads = world.reads,
                                  .hash = world.hash};
    memcpy(result->text, world.verdict.text, sizeof result->text);
    sim_frames_end();
    sim_thrift_end(&world);
    sim_world_deinit(&world);
}

void sim_run(uint64_t seed, bool is_verbose, FILE *out, struct sim_result *result)
{
    struct sim_scenario plan;
    current_seed = seed;
    sim_scenario_draw(seed, &plan);
    run_once(&plan, is_verbose, out, result);
    if (result->broken != SIM_HOLDS || seed % REPEAT_EVERY != 0) {
        return;
    }
    struct sim_result again;
    run_once(&plan, false, out, &again);
    if (again.hash != result->hash || again.events != result->events) {
        result->broken = SIM_DETERMINISM;
        snprintf(result->text, sizeof result->text,
                 "two runs of seed %" PRIu64 " differ: %" PRIu64 " and %" PRIu64 " events", seed,
                 result->events, again.events);
        if (out != NULL) {
            fprintf(out, "\n%s\n  repeat it with: make sim SEED=%" PRIu64 "\n", result->text, seed);
            fflush(out);
        }
    }
}

/* Not all of this may be done in a handler; but the process is lost anyway. */
static void on_death(int number)
{
    const struct sim_verdict nobody = {.worker = UINT32_MAX,
                                       .other = UINT32_MAX,
                                       .server = UINT32_MAX,
                                       .table = UINT32_MAX,
                                       .key = UINT64_MAX};
    signal(number, SIG_DFL);
    fprintf(stderr, "\nseed %" PRIu64 ": %s\n", current_seed,
            number == SIGALRM ? "takes too long" : strsignal(number));
    if (current_world != NULL) {
        current_world->verdict = nobody; /* so that everything concerns it */
        sim_scenario_print(current_world->plan, stderr);
        sim_world_print_trace(current_world, TRACE_LINES, stderr);
    }
    fprintf(stderr, "  repeat it with: make sim SEED=%" PRIu64 "\n", current_seed);
    _exit(1);
}

void sim_catch_death(void)
{
    signal(SIGABRT, on_death);
    signal(SIGSEGV, on_death);
    signal(SIGBUS, on_death);
    signal(SIGFPE, on_death);
    signal(SIGALRM, on_death);
}

/* --- Many seeds ------------------------------------------------------------------------------ */

/* What a child has done, as its parent sees it. */
struct desk {
    uint64_t seed; /* that it is at */
    uint64_t done;
    uint64_t failures;
    uint64_t events;
    uint64_t reads;
    uint64_t failed_seed; /* 0: none */
    enum sim_invariant broken;
};

static void run_child(const struct sim_batch *batch, struct desk *desk)
{
    if (batch->is_quiet) { /* what the library says when it aborts */
        const FILE *none = freopen("/dev/null", "w", stderr);
        (void)none;
    }
    sim_catch_death();
    for (; desk->seed <= batch->last; desk->seed += batch->jobs) {
        struct sim_result result;
        alarm(SEED_SECONDS);
        sim_run(desk->seed, false, batch->is_quiet ? NULL : stdout, &result);
        desk->done++;
        desk->events += result.events;
        desk->reads += result.reads;
        if (result.broken != SIM_HOLDS) {
            desk->failures++;
            desk->broken = desk->failed_seed == 0 ? result.broken : desk->broken;
            desk->failed_seed = desk->failed_seed == 0 ? desk->seed : desk->failed_seed;
            if (batch->stops) {
                break;
            }
        }
    }
    exit(0); /* so that leaks are looked for */
}

static pid_t start_child(const struct sim_batch *batch, struct desk *desk)
{
    fflush(NULL);
    const pid_t child = fork();
    RBT_ASSERT(child >= 0);
    if (child == 0) {
        run_child(batch, desk);
    }
    return child;
}

static void show_progress(const struct sim_batch *batch, const struct desk *desks)
{
    uint64_t done = 0;
    uint64_t failures = 0;
    for (uint32_t i = 0; i < batch->jobs; i++) {
        done += desks[i].done;
        failures += desks[i].failures;
    }
    if (isatty(STDERR_FILENO) && !batch->is_quiet) {
        fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " schedules, %" PRIu64 " failures ", done,
                batch->last - batch->first + 1, failures);
    }
}

/* Ends the children that are behind the first failure, if that is all that is wanted. */
static void stop_behind(const struct sim_batch *batch, const struct desk *desks,
                        const pid_t *children)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < batch->jobs; i++) {
        const uint64_t failed = desks[i].failed_seed;
        first = failed != 0 && failed < first ? failed : first;
    }
    for (uint32_t i = 0; batch->stops && i < batch->jobs; i++) {
        if (children[i] != 0 && desks[i].seed > first) {
            (void)kill(children[i], SIGKILL); /* it may have ended meanwhile */
        }
    }
}

/* Counts a child that has died, and lets another go on behind its seed. Returns it, or 0. */
static pid_t replace_child(const struct sim_batch *batch, struct desk *desk,
                           struct sim_summary *summary)
{
    summary->crashes++;
    desk->failures++;
    desk->done++;
    desk->broken = desk->failed_seed == 0 ? SIM_HOLDS : desk->broken;
    desk->failed_seed = desk->failed_seed == 0 ? desk->seed : desk->failed_seed;
    desk->seed += batch->jobs;
    return !batch->stops && desk->seed <= batch->last ? start_child(batch, desk) : 0;
}

/* Waits for all children. */
static void watch(const struct sim_batch *batch, struct desk *desks, pid_t *children,
                  struct sim_summary *summary)
{
    uint32_t left = batch->jobs;
    while (left > 0) {
        bool is_idle = true;
        for (uint32_t i = 0; i < batch->jobs; i++) {
            int status = 0;
            if (children[i] == 0 || waitpid(children[i], &status, WNOHANG) != children[i]) {
                continue;
            }
            is_idle = false;
            children[i] = 0;
            const bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            const bool is_stopped =
                batch->stops && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            if (!is_good && !is_stopped) {
                children[i] = replace_child(batch, &desks[i], summary);
            }
            left -= children[i] == 0;
        }
        stop_behind(batch, desks, children);
        if (is_idle) {
            show_progress(batch, desks);
            usleep(20000);
        }
    }
}

void sim_run_batch(const struct sim_batch *batch, struct sim_summary *summary)
{
    RBT_ASSERT(batch->jobs >= 1 && batch->jobs <= JOBS_MAX);
    pid_t children[JOBS_MAX] = {0};
    struct desk *desks = mmap(NULL, JOBS_MAX * sizeof *desks, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    RBT_ASSERT(desks != MAP_FAILED);
    *summary = (struct sim_summary){0};
    for (uint32_t i = 0; i < batch->jobs; i++) {
        desks[i] = (struct desk){.seed = batch->first + i};
        children[i] = start_child(batch, &desks[i]);
    }
    watch(batch, desks, children, summary);
    for (uint32_t i = 0; i < batch->jobs; i++) {
        const struct desk *desk = &desks[i];
        summary->seeds += desk->done;
        summary->failures += desk->failures;
        summary->events += desk->events;
        summary->reads += desk->reads;
        if (desk->failed_seed != 0 &&
            (summary->failed_seed == 0 || desk->failed_seed < summary->failed_seed)) {
            summary->failed_seed = desk->failed_seed;
            summary->broken = desk->broken;
        }
    }
    munmap(desks, JOBS_MAX * sizeof *desks);
}
