/* sim/scenario.h - what a seed stands for: a cluster, its network and its faults, tables of several
 * kinds, and how much the workers do. */
#ifndef RUBATO_SIM_SCENARIO_H
#define RUBATO_SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/rubato.h>
#include <rubato/simulate.h>

enum {
    SIM_TABLES_MAX = 3,
    SIM_FEW_KEYS = 5,
    SIM_KEYS_MAX = 40,
    SIM_WORKERS_MAX = 12,
    SIM_SERVERS_MAX = 4,
    SIM_CLOCKS_MAX = 16,
    SIM_FAULTS_MAX = 6,
};

/* Tables of scenarios from this seed on may have filters that lose nothing. */
#define SIM_FILTER_SEED UINT64_C(1000000000)

/* From this one on clusters have racks, and tables filters. */
#define SIM_RACK_SEED UINT64_C(2000000000)

/* From this one on tables have many rows, so that messages name lists of keys. */
#define SIM_LIST_SEED UINT64_C(3000000000)

/* From this one on jobs run a second time, and read what they have left. */
#define SIM_RUN_SEED UINT64_C(4000000000)

/* From this one on all workers change the staleness of tables, or of the job. */
#define SIM_BOUND_SEED UINT64_C(5000000000)

/* From this one on connections are reset while nodes are cut off. */
#define SIM_ROUGH_SEED UINT64_C(6000000000)

struct sim_table_plan {
    char name[8];
    char consistency[16];
    struct rbt_table_options options;
    int64_t staleness;
    uint64_t keys[SIM_KEYS_MAX]; /* increasing */
    uint32_t key_count;
    bool mixes;       /* some reads name a staleness of their own */
    bool changes;     /* worker 0, or all, change the table's staleness while the job runs */
    bool follows_job; /* its consistency is that of the job */
};

struct sim_scenario {
    uint64_t seed;
    uint32_t workers;
    uint32_t servers;
    uint32_t threads; /* workers per process */
    int64_t clocks[SIM_WORKERS_MAX];
    int64_t clocks_max;
    uint32_t operations_max; /* per clock */
    double compute;          /* seconds between two operations, at most */
    struct sim_table_plan tables[SIM_TABLES_MAX];
    const char *consistency; /* of the job, if a table follows it; or NULL */
    bool all_change;         /* all workers change the staleness, not worker 0 alone */
    uint32_t keys_max;       /* rows of a table, at most */
    uint32_t runs;
    uint32_t table_count;
    struct rbt_simulation_options cluster; /* without an observer */
    struct rbt_fault faults[SIM_FAULTS_MAX];
    char fault_nodes[SIM_FAULTS_MAX][32];
    char doomed[32];    /* the node that is lost, and so the job ends; or "" */
    bool is_silent;     /* it is not gone, but was not heard of for too long */
    double seconds_max; /* virtual; whoever needs longer never ends */
};

/* Draws the scenario of the seed. It points into itself and stays where it is. */
void sim_scenario_draw(uint64_t seed, struct sim_scenario *scenario);

void sim_scenario_print(const struct sim_scenario *scenario, FILE *out);

#endif
