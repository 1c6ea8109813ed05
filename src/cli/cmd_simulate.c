/* cli/cmd_simulate.c - `rubato simulate`: the same job on a cluster that does not exist.
 *
 * In front of "--" stands the cluster, behind it what to run there, in the words of `rubato train`.
 * The number of workers and servers and the time limit belong to both and may stand on either side,
 * but not on both. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/option.h"
#include "cli/cluster_line.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/halves.h"
#include "cli/train.h"
#include "cli/train_line.h"

enum { WORKERS_DEFAULT = 8 };

static const char example[] = "rubato simulate --workers 8 -- train linear --data FILE";

static void print_help(const struct rbt_option_table *table)
{
    puts("Usage: rubato simulate [cluster options] -- train ALGO --data FILE... [options]\n\n"
         "Runs a job on a simulated cluster in virtual time: real protocol and real\n"
         "algorithm, with links and nodes as slow and faulty as the options say. Equal\n"
         "arguments give equal bits. Nodes are called coordinator,\n"
         "server/0, worker/0, ...; a worker node is a process. See \"rubato train --help\"\n"
         "for what follows \"--\".\n\n"
         "Cluster options:\n");
    rbt_option_help(stdout, table);
    puts("\nEvery cluster option may also come from the environment\n"
         "(RUBATO_SIMULATE_LATENCY=1ms); the command line wins.\n\n"
         "Examples:\n"
         "  rubato simulate --workers 30 --servers 10 --stragglers 20%x2 \\\n"
         "      -- train linear --data train.svm --consistency ssp:3 --log run.jsonl\n"
         "  rubato simulate --workers 8 --bandwidth 100Mbit --crash worker/3@2s \\\n"
         "      -- train mf --data ratings.csv --summary json");
}

/* What may stand on either side must not stand on both. */
static rbt_status check_sides(const struct rbt_cluster_line *cluster,
                              const struct rbt_halves *halves)
{
    const struct rbt_halves_shared shared[] = {{"--workers", cluster->workers > 0},
                                               {"--servers", cluster->servers > 0},
                                               {"--until", cluster->until > 0}};
    return rbt_halves_check(halves, "simulate", shared, sizeof shared / sizeof shared[0]);
}

/* One number of workers, one of servers, one limit: what one side says holds for both. */
static void agree(struct rbt_cluster_line *cluster, struct rbt_train_options *options)
{
    if (cluster->workers == 0) {
        cluster->workers = options->workers > 0 ? options->workers : WORKERS_DEFAULT;
    }
    cluster->servers = cluster->servers > 0 ? cluster->servers : options->servers;
    cluster->until = cluster->until > 0 ? cluster->until : options->until;
    options->workers = cluster->workers;
    options->servers = cluster->servers;
    options->until = cluster->until;
}

/* Whether what stands behind "--" can be simulated at all. */
static rbt_status check_halves(const struct rbt_halves *halves)
{
    if (!halves->is_cut || halves->behind_count == 0) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "the command to simulate is missing after \"--\"");
        return rbt_fail_hint(st, "For example: %s.", example);
    }
    if (strcmp(halves->behind[0], "train") != 0) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "only \"train\" can be simulated, got \"%s\"",
                                       halves->behind[0]);
        return rbt_fail_hint(st, "For example: %s.", example);
    }
    return RBT_OK;
}

/* Checks everything, then trains. */
static rbt_status simulate(struct rbt_cluster_line *cluster, const struct rbt_halves *halves,
                           struct rbt_train_line *line)
{
    struct rbt_cluster_line_plan plan = {0};
    rbt_status st = check_sides(cluster, halves);
    if (st != RBT_OK) {
        return st;
    }
    agree(cluster, &line->request.options);
    st = rbt_cluster_line_read(cluster, &plan);
    line->request.cluster = &plan.options;
    st = st != RBT_OK ? st : rbt_train_check(&line->request);
    st = st != RBT_OK ? st : rbt_train_run(&line->request);
    rbt_cluster_line_free(&plan);
    return st;
}

static rbt_status run(int argc, char *const *argv)
{
    struct rbt_cluster_line cluster = {0};
    const struct rbt_option_table table = {rbt_cluster_line_options, rbt_cluster_line_option_count,
                                           &cluster};
    const struct rbt_option_command command = {
        .name = "rubato simulate", .tables = &table, .table_count = 1, .section = "SIMULATE"};
    const struct rbt_halves halves = rbt_halves_cut(argc, argv);
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, halves.front, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        print_help(&table);
        return RBT_OK;
    }
    st = st != RBT_OK ? st : check_halves(&halves);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_train_line line;
    st = rbt_train_line_parse(halves.behind_count - 1, halves.behind + 1, &line);
    if (st != RBT_OK) {
        return rbt_halves_hint(st, &halves, &table);
    }
    line.request.start.command = "simulate"; /* the log shows the whole of it */
    line.request.start.argc = argc;
    line.request.start.argv = argv;
    line.request.start.cluster = &table;
    if (line.wants_help) {
        rbt_train_line_help(&line);
    } else {
        st = simulate(&cluster, &halves, &line);
    }
    rbt_train_line_free(&line);
    return st;
}

int rbt_cmd_simulate(int argc, char *const *argv)
{
    const rbt_status st = run(argc, argv);
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
