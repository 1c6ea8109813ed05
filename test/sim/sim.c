/* sim/sim.c - simulation tests: random clusters, faults and workloads, judged after every event.
 *
 *     sim --seed 7             one scenario; --verbose shows every event
 *     sim --seeds 1..10000     many, on all cores; --jobs N on so many
 *     sim ... --frames FOLDER  keeps messages of different kinds there, for fuzzers (sim/frames.h);
 *                              one schedule after the other, so that they are the same every time
 *
 * Exits with 1 when an invariant is broken, with 2 when it was called wrongly. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "sim/frames.h"
#include "sim/run.h"

static int complain(const char *what)
{
    fprintf(stderr, "sim: error: %s\n", what);
    fprintf(stderr, "sim: hint: sim --seed N [--verbose], or sim --seeds A..B [--jobs N]; "
                    "--frames FOLDER keeps messages\n");
    return 2;
}

static bool to_seed(const char *text, uint64_t *seed)
{
    int64_t value = 0;
    const bool is_number = rbt_text_to_int(text, &value) && value > 0;
    *seed = is_number ? (uint64_t)value : 0;
    return is_number;
}

static bool to_seeds(const char *text, struct sim_batch *batch)
{
    char first[32];
    const char *dots = strstr(text, "..");
    if (dots == NULL || (size_t)(dots - text) >= sizeof first) {
        return false;
    }
    memcpy(first, text, (size_t)(dots - text));
    first[dots - text] = '\0';
    return to_seed(first, &batch->first) && to_seed(dots + 2, &batch->last) &&
           batch->first <= batch->last;
}

static int run_one(uint64_t seed, bool is_verbose)
{
    struct sim_scenario plan;
    struct sim_result result;
    sim_scenario_draw(seed, &plan);
    sim_scenario_print(&plan, stdout);
    fflush(stdout);
    sim_catch_death();
    sim_run(seed, is_verbose, stdout, &result);
    printf("seed %" PRIu64 ": %s, %" PRIu64 " events, %" PRIu64 " reads\n", seed,
           result.broken == SIM_HOLDS ? "all invariants hold" : "FAILED", result.events,
           result.reads);
    return result.broken == SIM_HOLDS ? 0 : 1;
}

static int run_many(const struct sim_batch *batch)
{
    struct sim_summary summary;
    const rbt_time start = rbt_clock_now();
    sim_run_batch(batch, &summary);
    printf("%" PRIu64 " schedules, %" PRIu64 " failures, %" PRIu64 " events, %" PRIu64
           " reads, %.0f s\n",
           summary.seeds, summary.failures, summary.events, summary.reads,
           (double)(rbt_clock_now() - start) * 1e-9);
    return summary.failures == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct sim_batch batch = {.jobs = rbt_thread_cores()};
    uint64_t seed = 0;
    uint64_t jobs = 0;
    const char *frames = NULL;
    bool is_verbose = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--verbose") == 0) {
            is_verbose = true;
        } else if (strcmp(argv[i], "--seed") == 0 && to_seed(value, &seed)) {
            i++;
        } else if (strcmp(argv[i], "--seeds") == 0 && to_seeds(value, &batch)) {
            i++;
        } else if (strcmp(argv[i], "--frames") == 0 && value[0] != '\0') {
            frames = value;
            i++;
        } else if (strcmp(argv[i], "--jobs") == 0 && to_seed(value, &jobs) && jobs <= 64) {
            batch.jobs = (uint32_t)jobs;
            i++;
        } else {
            return complain("seeds and jobs are numbers from 1, at most 64 jobs");
        }
    }
    if (frames != NULL) {
        batch.jobs = 1;
        if (!sim_frames_open(frames)) {
            fprintf(stderr, "sim: error: could not make %s: %s\n", frames, strerror(errno));
            return 2;
        }
    }
    if (seed != 0) {
        return run_one(seed, is_verbose);
    }
    return batch.last != 0 ? run_many(&batch) : complain("which seeds?");
}
