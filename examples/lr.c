/* lr.c - logistic regression on all cores, from LIBSVM text: lr FILE, or lr < FILE; or on a
 * cluster: rubato run --workers 8 --servers 2 -- ./lr FILE.
 * Every worker learns from its share of the examples on its own copy of the weights, and shares
 * what it changed ten times per pass. Nobody gets more than three such steps ahead of the rest. */
#include <math.h>
#include <rubato/rubato.h>
#include <stdio.h>
#include <stdlib.h>

enum { PASSES = 10, STEPS = 10, ROOM = 1 << 24 }; /* room for so many features in the file */

static float labels[ROOM];    /* of examples: 0 or 1 */
static size_t ends[ROOM + 1]; /* the features of example i are ends[i] .. ends[i + 1] - 1 */
static float values[ROOM];    /* of features */
static uint64_t places[ROOM]; /* of features: where their keys are in `keys` */
static uint64_t keys[ROOM];   /* of all features, sorted, each once */
static size_t count;          /* how many examples */
static size_t keys_count;
static rbt_table *weights; /* one per key */

static void read_examples(FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    size_t n = 0;
    while (getline(&line, &size, file) > 0 && n + size < ROOM) { /* "+1 3:0.5 17:1 ..." */
        char *at = line;
        labels[count] = strtof(at, &at) > 0;
        for (char *colon; keys[n] = places[n] = strtoull(at, &colon, 10), *colon == ':'; n++) {
            values[n] = strtof(colon + 1, &at);
        }
        ends[++count] = n;
    }
    free(line);
    keys_count = rbt_keys_sort(keys, n);
    for (size_t i = 0; i < n; i++) { /* a key is looked up here, and never again */
        places[i] = rbt_keys_find(keys, keys_count, places[i]);
    }
}

/* w <- w + eta (y - p) x with p = 1 / (1 + exp(-w'x)) for example i; eta = 0 only measures. */
static void learn(size_t i, float *w, float eta, double *report)
{
    float margin = 0;
    for (size_t k = ends[i]; k < ends[i + 1]; k++) {
        margin += w[places[k]] * values[k];
    }
    const float step = eta * (labels[i] - 1 / (1 + expf(-margin)));
    for (size_t k = ends[i]; k < ends[i + 1]; k++) {
        w[places[k]] += step * values[k];
    }
    report[0] += log1p(exp(labels[i] > 0 ? -(double)margin : (double)margin));
    report[1] += (margin > 0) == (labels[i] > 0);
}

static rbt_status train(rbt_worker *worker, void *argument)
{
    rbt_table *reports = argument; /* one row per pass: loss, right guesses */
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, weights, keys, keys_count, RBT_SET_IN_PLACE, &set);
    for (size_t step = 0; st == RBT_OK && step < (PASSES + 1) * STEPS; step++) {
        const size_t pass = step / STEPS; /* the one after the last only measures */
        double report[2] = {0, 0};
        st = rbt_set_pull_within(set, pass < PASSES ? 3 : 0); /* waits until it is fresh enough */
        size_t i = step % STEPS * count / STEPS + rbt_worker_index(worker);
        for (; i < (step % STEPS + 1) * count / STEPS; i += rbt_worker_count(worker)) {
            learn(i, rbt_set_values(set), pass < PASSES ? 0.1F / (float)(1 + pass) : 0, report);
        }
        st = st != RBT_OK ? st : rbt_set_push(set); /* sends the difference */
        st = st != RBT_OK ? st : rbt_add(worker, reports, pass, report);
        st = st != RBT_OK ? st : rbt_clock(worker);
        if (st == RBT_OK && step % STEPS == STEPS - 1 && rbt_worker_index(worker) == 0) {
            st = rbt_get_within(worker, reports, pass, 0, report); /* 0: with everybody's share */
            printf("pass %zu: logloss %.4f, accuracy %.4f%s\n", pass, report[0] / (double)count,
                   report[1] / (double)count, pass < PASSES ? "" : ", the final model");
        }
    }
    rbt_set_destroy(set);
    return st;
}

int main(int argc, char **argv)
{
    struct rbt_job_options options = {sizeof options, .consistency = "ssp:3"};
    const struct rbt_table_options pairs = {sizeof pairs, .type = RBT_F64, .width = 2};
    rbt_job *job = NULL;
    rbt_table *reports = NULL;
    if (argc > 1 && freopen(argv[1], "r", stdin) == NULL) {
        return perror(argv[1]), 1;
    }
    read_examples(stdin);
    const bool is_alone = !rbt_cluster_is_there(); /* else `rubato run` has started several of us */
    const bool is_done = (is_alone || rbt_cluster_join(NULL, &options.cluster) == RBT_OK) &&
                         rbt_job_open(&options, &job) == RBT_OK &&
                         rbt_table_open(job, "weights", NULL, &weights) == RBT_OK &&
                         rbt_table_open(job, "reports", &pairs, &reports) == RBT_OK &&
                         rbt_job_run(job, train, reports) == RBT_OK;
    if (!is_done) {
        fprintf(stderr, "lr: %s\n", rbt_last_error());
    }
    rbt_job_close(job);
    rbt_cluster_leave(options.cluster, is_done ? RBT_OK : RBT_E_CLOSED, rbt_last_error());
    return is_done ? 0 : 1;
}
