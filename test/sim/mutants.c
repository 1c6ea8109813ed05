/* sim/mutants.c - do the simulation tests notice mistakes? The library with one mistake at a time
 * (base/mutant.h) is run on 1000 seeds until one is caught, a mistake with filters on seeds that
 * have them. TAP: one line per mistake.
 *
 *     mutants              all of them, and 200 seeds without a mistake, which must pass
 *     mutants NAME         one mistake
 *     mutants NAME SEED    one mistake and one seed, with the report */
#include "base/mutant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/thread.h"
#include "sim/run.h"

enum rbt_mutant rbt_mutant = RBT_MUTANT_NONE;

enum { SEEDS = 1000, SEEDS_WITHOUT = 200 };

static const struct {
    const char *name;
    const char *text;
    uint64_t before; /* it is tried on the seeds behind this one */
} mutants[] = {{"NONE", "no mistake", 0},
#define X(name, text) {#name, text, 0},
               RBT_MUTANT_LIST(X)
#undef X
#define X(name, text) {#name, text, SIM_FILTER_SEED},
                   RBT_FILTER_MUTANT_LIST(X)
#undef X
#define X(name, text) {#name, text, SIM_LIST_SEED},
                       RBT_LIST_MUTANT_LIST(X)
#undef X
#define X(name, text) {#name, text, SIM_RUN_SEED},
                           RBT_RUN_MUTANT_LIST(X)
#undef X
#define X(name, text) {#name, text, SIM_BOUND_SEED},
                               RBT_BOUND_MUTANT_LIST(X)
#undef X
};

/* Runs the library with the mistake until it is caught. */
static bool is_caught(enum rbt_mutant mutant, uint32_t jobs)
{
    const uint64_t before = mutants[mutant].before;
    const struct sim_batch batch = {
        .first = before + 1, .last = before + SEEDS, .jobs = jobs, .stops = true, .is_quiet = true};
    struct sim_summary summary;
    rbt_mutant = mutant;
    sim_run_batch(&batch, &summary);
    printf("%s %d - %s: ", summary.failures > 0 ? "ok" : "not ok", (int)mutant,
           mutants[mutant].text);
    if (summary.failures == 0) {
        printf("not caught in %d seeds\n", SEEDS);
    } else {
        printf("caught at seed %" PRIu64 " by %s\n", summary.failed_seed,
               summary.broken == SIM_HOLDS ? "an assertion of the library"
                                           : sim_invariant_names[summary.broken]);
    }
    fflush(stdout);
    return summary.failures > 0;
}

static bool passes_without(uint32_t jobs)
{
    const struct sim_batch batch = {.first = 1, .last = SEEDS_WITHOUT, .jobs = jobs};
    struct sim_summary summary;
    rbt_mutant = RBT_MUTANT_NONE;
    sim_run_batch(&batch, &summary);
    printf("%s %d - without a mistake %d seeds pass\n", summary.failures == 0 ? "ok" : "not ok",
           (int)RBT_MUTANT_COUNT, SEEDS_WITHOUT);
    return summary.failures == 0;
}

static int show(const char *name, const char *text)
{
    int64_t seed = 0;
    for (int i = 0; i < RBT_MUTANT_COUNT; i++) {
        if (strcmp(mutants[i].name, name) == 0 && rbt_text_to_int(text, &seed)) {
            struct sim_result result;
            rbt_mutant = (enum rbt_mutant)i;
            sim_run((uint64_t)seed, false, stdout, &result);
            return result.broken == SIM_HOLDS ? 0 : 1;
        }
    }
    fprintf(stderr, "mutants: error: there is no mistake \"%s\", or \"%s\" is no seed\n", name,
            text);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return show(argv[1], argv[2]);
    }
    const uint32_t jobs = rbt_thread_cores();
    bool is_good = true;
    printf("1..%d\n", (int)RBT_MUTANT_COUNT);
    for (int i = 1; i < RBT_MUTANT_COUNT; i++) {
        if (argc == 2 && strcmp(mutants[i].name, argv[1]) != 0) {
            continue;
        }
        is_good = is_caught((enum rbt_mutant)i, jobs) && is_good;
    }
    is_good = (argc == 2 || passes_without(jobs)) && is_good;
    return is_good ? 0 : 1;
}
