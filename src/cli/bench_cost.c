/* cli/bench_cost.c - measures what algorithms compute, to compare with what they tell simulations.
 *
 * The time of a run is a sum over units of work: so many nonzeros at so many ns, so many examples,
 * so many weights pulled and pushed. Three runs of different shapes, each dominated by another
 * unit, give three equations, whose solution is the cost of each. A run is repeated and its fastest
 * time counts: everything that disturbs makes it slower. */
#include "cli/bench_cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/linear/linear.h"
#include "algo/mf/mf.h"
#include "base/assert.h"
#include "base/error.h"
#include "cli/train_line.h"
#include "data/generate.h"

enum { UNITS = RBT_BENCH_COST_UNITS, REPETITIONS = 5, EPOCHS = 3, PATH_SIZE = 8192 };

/* One run: data of a shape, and how it is trained on. */
struct shape {
    uint64_t examples; /* or ratings */
    uint64_t nonzeros; /* of an example; or the rank */
    uint64_t features; /* or users and items, each */
    int64_t clocks_per_epoch;
};

/* An algorithm whose costs are wanted. */
struct subject {
    const struct rbt_algo *algo;
    const char *unit_option; /* that takes the shape's `nonzeros`; NULL: the data has them */
    rbt_status (*generate)(const struct shape *shape, const char *path);
    /* How much of each unit the run has; `parameters` is what training said. */
    void (*count)(const struct shape *shape, uint64_t parameters, double units[UNITS]);
    struct shape shapes[UNITS]; /* sizes in parts per thousand of the largest data */
};

static rbt_status generate_sparse(const struct shape *shape, const char *path)
{
    const struct rbt_generate_sparse options = {.path = path,
                                                .seed = 1,
                                                .examples = shape->examples,
                                                .features = shape->features,
                                                .nonzeros = shape->nonzeros,
                                                .power = 1.1,
                                                .noise = 0.1};
    return rbt_generate_sparse(&options);
}

static void count_sparse(const struct shape *shape, uint64_t parameters, double units[UNITS])
{
    const double examples = (double)shape->examples * EPOCHS;
    units[0] = examples * (double)shape->nonzeros;
    units[1] = examples;
    units[2] = (double)(parameters * (uint64_t)shape->clocks_per_epoch) * EPOCHS;
}

static rbt_status generate_ratings(const struct shape *shape, const char *path)
{
    const struct rbt_generate_ratings options = {.path = path,
                                                 .seed = 1,
                                                 .users = shape->features,
                                                 .items = shape->features,
                                                 .ratings = shape->examples,
                                                 .rank = 4,
                                                 .noise = 0.1};
    return rbt_generate_ratings(&options);
}

static void count_ratings(const struct shape *shape, uint64_t parameters, double units[UNITS])
{
    const double ratings = (double)shape->examples * EPOCHS;
    units[0] = ratings;
    units[1] = ratings * (double)shape->nonzeros;
    units[2] = (double)(parameters * (uint64_t)shape->clocks_per_epoch) * EPOCHS;
}

/* Each shape has much of one unit and little of the others. */
static const struct subject subjects[RBT_BENCH_COST_ALGOS] = {
    {&rbt_linear,
     NULL,
     generate_sparse,
     count_sparse,
     {{200, 100, 200, 1}, {1000, 4, 200, 1}, {20, 20, 200, 50}}},
    {&rbt_mf,
     "--rank",
     generate_ratings,
     count_ratings,
     {{1000, 8, 10, 1}, {1000, 64, 10, 1}, {100, 16, 10, 50}}},
};

static void note_parameters(void *context, double load_seconds, uint64_t examples,
                            uint64_t parameters)
{
    (void)load_seconds;
    (void)examples;
    *(uint64_t *)context = parameters;
}

/* Trains as often as asked for and keeps the fastest time. */
static rbt_status time_line(struct rbt_train_line *line, uint64_t *parameters, double *seconds)
{
    const struct rbt_observer observer = {.context = parameters, .on_loaded = note_parameters};
    *seconds = INFINITY;
    for (int i = 0; i < REPETITIONS; i++) {
        struct rbt_train_summary summary = {0};
        const rbt_status st =
            line->request.algo->train(&line->request.options, line->config, &observer, &summary);
        if (st != RBT_OK) {
            return st;
        }
        *seconds = fmin(*seconds, summary.seconds);
    }
    return RBT_OK;
}

/* Times a run on data that is there. */
static rbt_status time_run(const struct subject *subject, const struct shape *shape, char *path,
                           uint64_t *parameters, double *seconds)
{
    char clocks[32];
    char nonzeros[32];
    char epochs[32];
    snprintf(clocks, sizeof clocks, "--clocks-per-epoch=%lld", (long long)shape->clocks_per_epoch);
    snprintf(epochs, sizeof epochs, "--epochs=%d", (int)EPOCHS);
    snprintf(nonzeros, sizeof nonzeros, "%s=%llu",
             subject->unit_option != NULL ? subject->unit_option : "",
             (unsigned long long)shape->nonzeros);
    char name[32];
    char data[] = "--data";
    char workers[] = "--workers=1";
    snprintf(name, sizeof name, "%s", subject->algo->name);
    char *words[] = {name, data, path, workers, clocks, epochs, nonzeros};
    const int count = subject->unit_option != NULL ? 7 : 6;
    struct rbt_train_line line;
    rbt_status st = rbt_train_line_parse(count, words, &line);
    if (st == RBT_OK) {
        st = time_line(&line, parameters, seconds);
        rbt_train_line_free(&line);
    }
    return st;
}

/* Generates the data of a shape in a folder of its own, times the run, and removes both. */
static rbt_status measure(const struct subject *subject, const struct shape *shape,
                          double units[UNITS], double *seconds)
{
    const char *parent = getenv("TMPDIR");
    char folder[PATH_SIZE / 2];
    char path[PATH_SIZE];
    char truth[PATH_SIZE];
    const int length =
        snprintf(folder, sizeof folder, "%s/rubato-bench.XXXXXX", parent != NULL ? parent : "/tmp");
    if (length < 0 || (size_t)length >= sizeof folder) {
        return rbt_fail(RBT_E_INVALID, "TMPDIR is too long");
    }
    if (mkdtemp(folder) == NULL) {
        return rbt_fail(RBT_E_IO, "could not create folder \"%s\"", folder);
    }
    snprintf(path, sizeof path, "%s/data", folder);
    snprintf(truth, sizeof truth, "%s/data.truth", folder);
    uint64_t parameters = 0;
    rbt_status st = subject->generate(shape, path);
    if (st == RBT_OK) {
        st = time_run(subject, shape, path, &parameters, seconds);
    }
    subject->count(shape, parameters, units);
    (void)unlink(path); /* at worst files stay where such files are cleared away */
    (void)unlink(truth);
    (void)rmdir(folder);
    return st;
}

/* Solves a x = b by elimination; the shapes make sure that there is a solution. */
static void solve(double a[UNITS][UNITS], double b[UNITS], double x[UNITS])
{
    for (int i = 0; i < UNITS; i++) {
        RBT_ASSERT(a[i][i] != 0);
        for (int j = i + 1; j < UNITS; j++) {
            const double factor = a[j][i] / a[i][i];
            for (int k = i; k < UNITS; k++) {
                a[j][k] -= factor * a[i][k];
            }
            b[j] -= factor * b[i];
        }
    }
    for (int i = UNITS - 1; i >= 0; i--) {
        x[i] = b[i];
        for (int k = i + 1; k < UNITS; k++) {
            x[i] -= a[i][k] * x[k];
        }
        x[i] /= a[i][i];
    }
}

static rbt_status measure_subject(const struct subject *subject, uint64_t examples,
                                  struct rbt_bench_cost *cost)
{
    double units[UNITS][UNITS];
    double ns[UNITS];
    RBT_ASSERT(subject->algo->cost_count == UNITS);
    *cost = (struct rbt_bench_cost){.algo = subject->algo->name};
    for (int i = 0; i < UNITS; i++) {
        cost->names[i] = subject->algo->costs[i].name;
        cost->declared_ns[i] = subject->algo->costs[i].ns;
    }
    for (int i = 0; i < UNITS; i++) {
        struct shape shape = subject->shapes[i];
        shape.examples = shape.examples * examples / 1000;
        shape.features = shape.features * examples / 1000;
        double seconds = 0;
        const rbt_status st = measure(subject, &shape, units[i], &seconds);
        if (st != RBT_OK) {
            return st;
        }
        ns[i] = seconds * 1e9;
        cost->measured_seconds += seconds;
        for (int k = 0; k < UNITS; k++) {
            cost->declared_seconds += units[i][k] * cost->declared_ns[k] * 1e-9;
        }
    }
    solve(units, ns, cost->measured_ns);
    return RBT_OK;
}

rbt_status rbt_bench_cost(uint64_t examples, struct rbt_bench_cost costs[RBT_BENCH_COST_ALGOS])
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < RBT_BENCH_COST_ALGOS; i++) {
        st = measure_subject(&subjects[i], examples, &costs[i]);
    }
    return st;
}
