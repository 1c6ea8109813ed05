/* hosts/early_load.c - workers that always have something to send early: what managed communication
 * makes of a real link. Run on a cluster, see bench/experiments/managed_link.py:
 *
 *     rubato worker --coordinator ADDR --workers 2 --threads 2 -- \
 *         build/test/integration/early_load SECONDS BYTES_PER_SECOND [FILE]
 *
 * It ends after the time, and not before there is such a FILE. One clock lasts all the while, so
 * that what travels travels early; random rows change all the time. Prints one JSON object: how
 * many changes were made, and how many have arrived. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rubato/rubato.h>

#include "base/rng.h"

enum { ROWS = 20000, WIDTH = 16, CHANGES = 64, WORKERS_MAX = 64, PAUSE_NS = 200000 };

struct load {
    double seconds;
    const char *file; /* or NULL */
    rbt_table *table;
    uint64_t made[WORKERS_MAX]; /* changes of this process's workers */
    double arrived;             /* as worker 0 sees it */
};

static rbt_status open_set(rbt_worker *worker, rbt_table *table, rbt_set **set)
{
    uint64_t *keys = calloc(ROWS, sizeof *keys);
    for (uint64_t i = 0; keys != NULL && i < ROWS; i++) {
        keys[i] = i;
    }
    const rbt_status st =
        keys == NULL ? RBT_E_NOMEM : rbt_set_create(worker, table, keys, ROWS, RBT_SET_DELTAS, set);
    free(keys);
    return st;
}

static bool is_over(rbt_worker *worker, const struct load *load)
{
    return rbt_worker_seconds(worker) >= load->seconds &&
           (load->file == NULL || access(load->file, F_OK) == 0);
}

static rbt_status work(rbt_worker *worker, void *argument)
{
    struct load *load = argument;
    const uint32_t me = rbt_worker_index(worker);
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct rbt_rng rng;
    rbt_set *set = NULL;
    rbt_rng_init(&rng, 1, 0, me);
    rbt_status st = open_set(worker, load->table, &set);
    st = st != RBT_OK ? st : rbt_set_manage(set);
    st = st != RBT_OK ? st : rbt_set_pull(set);
    while (st == RBT_OK && !is_over(worker, load)) {
        float *deltas = rbt_set_deltas(set);
        for (int i = 0; i < CHANGES; i++) {
            const size_t row = rbt_rng_next(&rng) % ROWS;
            for (size_t k = 0; k < WIDTH; k++) { /* zeros would be left out */
                deltas[row * WIDTH + k] += 1;
            }
            rbt_set_touch(set, row);
            load->made[me]++;
        }
        st = rbt_worker_exchange(worker);
        (void)nanosleep(&pause, NULL); /* the work that there would be */
    }
    st = st != RBT_OK ? st : rbt_set_push(set);
    st = st != RBT_OK ? st : rbt_clock(worker);
    rbt_set_destroy(set);
    return st;
}

static rbt_status look(rbt_worker *worker, void *argument)
{
    struct load *load = argument;
    rbt_set *set = NULL;
    rbt_status st = open_set(worker, load->table, &set);
    st = st != RBT_OK ? st : rbt_set_pull(set);
    for (size_t i = 0; st == RBT_OK && rbt_worker_index(worker) == 0 && i < ROWS; i++) {
        load->arrived += (double)((const float *)rbt_set_values(set))[i * WIDTH];
    }
    rbt_set_destroy(set);
    return st;
}

static rbt_status run(rbt_job *job, struct load *load)
{
    const struct rbt_table_options options = {.struct_size = sizeof options, .width = WIDTH};
    rbt_status st = rbt_table_open(job, "rows", &options, &load->table);
    st = st != RBT_OK ? st : rbt_job_run(job, work, load);
    st = st != RBT_OK ? st : rbt_job_run(job, look, load);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_job_stats stats = {.struct_size = sizeof stats};
    rbt_job_stats(job, &stats);
    uint64_t made = 0;
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        made += load->made[i];
    }
    printf("{\"made\":%" PRIu64 ",\"arrived\":%.0f,\"early_sent\":%" PRIu64
           ",\"early_received\":%" PRIu64 ",\"early_bytes_sent\":%" PRIu64
           ",\"bytes_sent\":%" PRIu64 ",\"bytes_received\":%" PRIu64 ",\"early_pauses\":%" PRIu64
           "}\n",
           made, load->arrived, stats.early_sent, stats.early_received, stats.early_bytes_sent,
           stats.bytes_sent, stats.bytes_received, stats.early_pauses);
    return RBT_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: early_load SECONDS BYTES_PER_SECOND [FILE]\n");
        return 2;
    }
    struct rbt_job_options options = {.struct_size = sizeof options,
                                      .consistency = "essp:1",
                                      .bandwidth = strtoull(argv[2], NULL, 10)};
    struct load load = {.seconds = strtod(argv[1], NULL), .file = argv[3]}; /* or the end */
    rbt_job *job = NULL;
    rbt_status st = rbt_cluster_join(NULL, &options.cluster);
    st = st != RBT_OK ? st : rbt_job_open(&options, &job);
    st = st != RBT_OK ? st : run(job, &load);
    if (st != RBT_OK) {
        fprintf(stderr, "early_load: %s\n", rbt_last_error());
    }
    rbt_job_close(job);
    rbt_cluster_leave(options.cluster, st, rbt_last_error());
    return st == RBT_OK ? 0 : 1;
}
