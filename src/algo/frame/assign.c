/* algo/frame/assign.c - parts of the data for whoever has nothing to do.
 *
 * The worker pushes its question to its own row, which the shard sees to at once, and reads the
 * row. What it pushes and reads is listed in policy/rule/parts.c. */
#include "algo/frame/assign.h"

#include <stdio.h>
#include <time.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"

/* As in policy/rule/parts.c. */
enum { TURN, PASS, LIMIT, FINISHED, FINISHED_PASS, SECONDS, SECONDS_REST, WIDTH };
enum { ANSWER = 1, ANSWER_PASS, ANSWER_PART, IS_FIRST, COUNT, RETURNED }; /* as many */
enum { GIVEN, WAIT, DONE };

enum { PATIENCE = 8 };        /* medians of the time of a part */
enum { TURNS_MAX = 1 << 24 }; /* so far a float counts */
/* Seconds for which a worker may always have a part: parts can be short, and those who ask may have
 * to stand in a queue; real machines are disturbed by whatever else there is, too. */
static const double least_simulated = 0.05;
static const double least_real = 1.0;
static const double pause_seconds = 1e-3;

rbt_status rbt_assign_open(struct rbt_assign *assign, const struct rbt_assign_options *options,
                           rbt_job *job)
{
    RBT_ASSERT(options->parts > 0 && options->workers <= RBT_JOB_WORKERS_MAX);
    char rule[128];
    (void)snprintf(rule, sizeof rule, "parts:parts=%u,patience=%d,least=%g", options->parts,
                   PATIENCE, options->is_simulated ? least_simulated : least_real);
    /* All rows must be in one shard, the first one: of ranges this large it has them all. */
    const struct rbt_table_options table = {.struct_size = sizeof table,
                                            .type = RBT_F32,
                                            .width = WIDTH,
                                            .consistency = "asp",
                                            .overlay = RBT_OVERLAY_NONE,
                                            .cache = RBT_CACHE_NONE,
                                            .partial = RBT_PARTIAL_SHOW,
                                            .placement = RBT_PLACE_RANGE,
                                            .keys_max = UINT64_MAX,
                                            .rule = rule};
    assign->options = *options;
    return rbt_table_open(job, "parts", &table, &assign->table);
}

/* Lets a little time pass. */
static void wait_a_little(const struct rbt_assign *assign, rbt_worker *worker)
{
    if (assign->options.is_simulated) {
        rbt_worker_spend(worker, pause_seconds);
        return;
    }
    const struct timespec time = {.tv_nsec = (long)(pause_seconds * 1e9)};
    (void)nanosleep(&time, NULL); /* shorter is fine, too */
}

/* Asks once. */
static rbt_status ask(const struct rbt_assign *assign, rbt_worker *worker,
                      struct rbt_assign_turn *turn, float *answer)
{
    uint64_t key = rbt_worker_index(worker);
    const double seconds = rbt_worker_seconds(worker);
    turn->count = turn->count % (TURNS_MAX - 1) + 1;
    float question[WIDTH] = {[TURN] = (float)turn->count,
                             [PASS] = (float)turn->pass,
                             [LIMIT] = (float)turn->limit,
                             [SECONDS] = (float)seconds};
    question[SECONDS_REST] = (float)(seconds - (double)question[SECONDS]);
    if (turn->has_part) {
        question[FINISHED] = (float)turn->part + 1.0F;
        question[FINISHED_PASS] = (float)turn->part_pass;
    }
    const struct rbt_rows asked = {.keys = &key, .values = question, .count = 1};
    const struct rbt_rows read = {.keys = &key, .values = answer, .count = 1};
    rbt_status st = rbt_push(worker, assign->table, &asked);
    st = st != RBT_OK ? st : rbt_pull(worker, assign->table, &read);
    while (st == RBT_OK && answer[TURN] != question[TURN]) { /* it is still on its way */
        wait_a_little(assign, worker);
        st = rbt_pull(worker, assign->table, &read);
    }
    return st;
}

rbt_status rbt_assign_next(const struct rbt_assign *assign, rbt_worker *worker,
                           struct rbt_assign_turn *turn)
{
    float answer[WIDTH] = {0};
    RBT_ASSERT(turn->limit <= assign->options.parts);
    if (turn->pass >= TURNS_MAX - 1) {
        return rbt_fail(RBT_E_INVALID, "option \"--assign dynamic\" allows at most %d passes",
                        TURNS_MAX - 1);
    }
    rbt_status st = ask(assign, worker, turn, answer);
    turn->is_first = st == RBT_OK && answer[IS_FIRST] > 0;
    turn->has_part = false;
    while (st == RBT_OK && turn->is_last && answer[ANSWER] == (float)WAIT) {
        wait_a_little(assign, worker);
        st = ask(assign, worker, turn, answer);
    }
    if (st == RBT_OK && answer[ANSWER] == (float)GIVEN) {
        turn->has_part = true;
        turn->part = (uint32_t)answer[ANSWER_PART];
        turn->part_pass = (uint64_t)answer[ANSWER_PASS];
        RBT_ASSERT(turn->part < assign->options.parts);
    }
    return st;
}

rbt_status rbt_assign_count(struct rbt_assign *assign, rbt_worker *worker)
{
    struct rbt_rows rows = {0};
    const rbt_status st =
        rbt_pull_range(worker, assign->table, RBT_RANGE_ALL, RBT_STALENESS_OBSERVER, &rows);
    for (size_t i = 0; st == RBT_OK && i < rows.count; i++) {
        const float *row = (const float *)rows.values + i * WIDTH;
        if (rows.keys[i] < assign->options.workers) {
            assign->finished[rows.keys[i]] = (uint32_t)row[COUNT];
        }
        const uint64_t returned = (uint64_t)row[RETURNED];
        assign->returned = returned > assign->returned ? returned : assign->returned;
    }
    rbt_rows_free(&rows);
    return st;
}
