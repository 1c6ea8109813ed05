/* bench/comm.c - what it costs to choose the rows that are sent: per row that is marked and per row
 * that is taken, for every order, with 10^4 to 10^6 rows.
 *
 *     build/bench/comm [SENT]
 *
 * Rows change at random, and SENT of them (100,000) are taken, 1,000 at a time, as for a message;
 * after each message as many are marked. With "few", 5,000 rows are marked, whatever the number of
 * all; with "all", every row is. Prints one JSON object: for each
 * order, ns of processor time per row, the best of several rounds, which take turns: the machine is
 * noisy. "scan" is what a look at every row would cost, for comparison: a sum over the scores of
 * all. Also the scores of a row of 32 by magnitude and relative to its values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "comm/queue.h"
#include "policy/priority/priority.h"

enum { ROUNDS = 7, MESSAGE = 1000, FEW = 5000, ORDERS = 4, SIZES = 3, WIDTH = 32 };

static const char *const names[ORDERS] = {"oldest", "walk", "random", "score"};
static const uint32_t sizes[SIZES] = {10000, 100000, 1000000};

struct figures {
    double mark_ns;
    double take_ns;
};

/* What is marked next, drawn before the time is taken. */
struct change {
    uint32_t item;
    float score;
};

static void must(rbt_status st)
{
    if (st != RBT_OK) {
        fprintf(stderr, "comm: %s\n", rbt_last_error());
        exit(1);
    }
}

static double processor_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* cannot fail */
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void keep(double *best, double value)
{
    *best = *best == 0 || value < *best ? value : *best;
}

static struct change draw(struct rbt_rng *rng, uint32_t rows)
{
    return (struct change){.item = (uint32_t)rbt_rng_below(rng, rows),
                           .score = (float)exp(2 * rbt_rng_normal(rng))};
}

/* One round: `sent` rows in messages. */
static void measure(rbt_queue_order order, uint32_t rows, bool is_few, uint32_t sent,
                    struct figures *best)
{
    static struct change changes[MESSAGE];
    struct rbt_rng rng;
    rbt_change_queue *queue = NULL;
    double marks = 0;
    double takes = 0;
    uint32_t taken = 0;
    rbt_rng_init(&rng, 1, rows, order);
    must(rbt_queue_create(order, rows, 1, &queue));
    for (uint32_t i = 0; rbt_queue_count(queue) < (is_few ? FEW : rows); i++) {
        struct change change = draw(&rng, rows);
        rbt_queue_mark(queue, is_few ? change.item : i, change.score);
    }
    while (taken < sent) {
        const double begin = processor_ns();
        for (uint32_t i = 0; i < MESSAGE; i++) {
            changes[i].item = rbt_queue_take(queue);
        }
        takes += processor_ns() - begin;
        taken += MESSAGE;
        for (uint32_t i = 0; i < MESSAGE; i++) {
            const struct change change = draw(&rng, rows);
            changes[i].item = is_few ? change.item : changes[i].item;
            changes[i].score = change.score;
        }
        const double middle = processor_ns();
        for (uint32_t i = 0; i < MESSAGE; i++) {
            rbt_queue_mark(queue, changes[i].item, changes[i].score);
        }
        marks += processor_ns() - middle;
        while (is_few && rbt_queue_count(queue) < FEW) { /* some were marked already */
            const struct change change = draw(&rng, rows);
            rbt_queue_mark(queue, change.item, change.score);
        }
    }
    keep(&best->take_ns, takes / taken);
    keep(&best->mark_ns, marks / taken);
    rbt_queue_destroy(queue);
}

/* What looking at all rows costs, per row of a message. */
static double scan(uint32_t rows)
{
    float *scores = rbt_calloc(rows, sizeof *scores);
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        float largest = 0;
        const double begin = processor_ns();
        for (uint32_t i = 0; i < rows; i++) {
            largest = scores[i] > largest ? scores[i] : largest;
        }
        scores[round] = largest;
        keep(&best, (processor_ns() - begin) / MESSAGE);
    }
    rbt_free(scores);
    return best;
}

/* ns per row of WIDTH. */
static double score_ns(const char *name)
{
    static float values[WIDTH * MESSAGE];
    struct rbt_priority_policy policy;
    struct rbt_rng rng;
    double best = 0;
    volatile float sum = 0;
    rbt_rng_init(&rng, 1, 2, 3);
    must(rbt_priority_find(name, &policy));
    for (int i = 0; i < WIDTH * MESSAGE; i++) {
        values[i] = (float)rbt_rng_normal(&rng);
    }
    for (int round = 0; round < 20 * ROUNDS; round++) {
        const double begin = processor_ns();
        for (int i = 0; i < MESSAGE; i++) {
            const struct rbt_priority_row row = {.width = WIDTH,
                                                 .change = values + WIDTH * i,
                                                 .value = values + WIDTH * (MESSAGE - 1 - i)};
            sum = sum + policy.score(&row);
        }
        keep(&best, (processor_ns() - begin) / MESSAGE);
    }
    return best;
}

int main(int argc, char **argv)
{
    static struct figures figures[ORDERS][SIZES][2];
    const uint32_t sent = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100000;
    if (sent == 0) {
        fprintf(stderr, "comm: wrong arguments; see the head of bench/comm.c\n");
        return 2;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int order = 0; order < ORDERS; order++) {
            for (int size = 0; size < SIZES; size++) {
                for (int few = 0; few < 2; few++) {
                    measure((rbt_queue_order)order, sizes[size], few == 0, sent,
                            &figures[order][size][few]);
                }
            }
        }
    }
    printf("{\"sent\": %u, \"magnitude_ns\": %.1f, \"relative_ns\": %.1f", sent,
           score_ns("magnitude"), score_ns("relative"));
    for (int size = 0; size < SIZES; size++) {
        printf(",\n \"%u\": {\"scan\": %.1f", sizes[size], scan(sizes[size]));
        for (int order = 0; order < ORDERS; order++) {
            const struct figures *f = figures[order][size];
            printf(",\n  \"%s\": {\"few\": {\"take\": %.1f, \"mark\": %.1f}, "
                   "\"all\": {\"take\": %.1f, \"mark\": %.1f}}",
                   names[order], f[0].take_ns, f[0].mark_ns, f[1].take_ns, f[1].mark_ns);
        }
        printf("}");
    }
    puts("}");
    return 0;
}
