/* sim/world.h - what a run of a scenario knows about itself: the updates that the workers made,
 * what shards show of them, what has happened lately, and the first broken promise.
 *
 * Updates can be told apart. Row k of a table has an element for every (worker, clock); the first
 * update that the worker makes to the row in that clock adds 1 to it, the second 16, the third 256,
 * and so on. An element is therefore a set of updates: digit j of its value, in base 16, is how
 * often update j is in it, and must be 0 or 1. Such a set is kept as that value, a mask.
 *
 * Threads: none. A world belongs to one run. */
#ifndef RUBATO_SIM_WORLD_H
#define RUBATO_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/export.h>

#include "sim/inspect.h"
#include "sim/scenario.h"

enum { SIM_UPDATES_MAX = 5 }; /* of a worker to a row in a clock: 20 bits, exact in every type */

/* Ways to read that remember what they have read, each on its own. */
enum sim_path { SIM_PATH_ROW, SIM_PATH_SET, SIM_PATH_SET_IN_PLACE, SIM_PATH_LIST, SIM_PATH_RANGE };
enum { SIM_PATHS = SIM_PATH_RANGE + 1 };

/* The invariants of requirements 3.3. (7) one master per range and (10) checkpoints belong to parts
 * that do not exist yet; (9) the communication budget is judged by comm/manager_test.c. */
enum sim_invariant {
    SIM_HOLDS,
    SIM_EXACTLY_ONCE,
    SIM_MARKER,
    SIM_READ_RULE,
    SIM_OVERLAY,
    SIM_HIDDEN,
    SIM_MONOTONE,
    SIM_LIVENESS,
    SIM_PROMPTNESS,
    SIM_CLEAN,
    SIM_STEADY,
    SIM_THRIFT,
    SIM_DETERMINISM,
};
extern const char *const sim_invariant_names[];

/* Something in the life of a run: an event of the simulation, or what a worker did. */
struct sim_entry {
    double at;
    const char *action; /* what the worker did, or NULL */
    uint32_t worker;    /* UINT32_MAX: none */
    uint32_t table;     /* of an action; UINT32_MAX: none */
    uint64_t key;
    int64_t clock;
    uint64_t number;
    struct rbt_inspect_event event;
};

struct sim_worker_record {
    int64_t clock;     /* rbt_clock() was called so often; sets the stamp of updates */
    int64_t completed; /* and returned so often */
    bool is_leaving;   /* it will update nothing any more */
    bool has_failed;   /* a call of its has failed: its process is gone */
    uint32_t *seen;    /* (paths, tables, keys, elements): in its last read by that path */
    uint64_t calls[SIM_TABLES_MAX];    /* that have read something */
    int64_t heard[SIM_SERVERS_MAX];    /* floors */
    uint64_t arrived[SIM_SERVERS_MAX]; /* heard of */
};

/* A staleness that may be in force. It is until another one has returned that began after it had.
 */
struct sim_change {
    int64_t staleness;
    uint64_t began; /* on a clock that goes on at every beginning and end */
    uint64_t ended; /* 0: it has not returned */
};
enum { SIM_CHANGES_MAX = 64 }; /* some per worker */

struct sim_server_record {
    int64_t clocks[SIM_WORKERS_MAX]; /* as of the last event; RBT_CLOCK_GONE: has left */
    int64_t known[SIM_WORKERS_MAX];  /* the last one that was a number */
    uint64_t arrived[SIM_WORKERS_MAX];
    int64_t floor;
    uint64_t version;
};

/* What is wrong, and whom it concerns: UINT32_MAX is nobody. */
struct sim_verdict {
    enum sim_invariant broken;
    char text[400];
    uint32_t worker;
    uint32_t other;
    uint32_t server;
    uint32_t table;
    uint64_t key;
};

enum { SIM_ENTRIES_MAX = 1 << 14 };
enum { SIM_NAMES_MAX = SIM_WORKERS_MAX + SIM_SERVERS_MAX + 2 }; /* the coordinator's, and "" */

struct sim_thrift;

struct sim_world {
    const struct sim_scenario *plan;
    rbt_simulation *simulation;
    rbt_job *job;
    rbt_table *tables[SIM_TABLES_MAX];
    struct sim_change changes[SIM_TABLES_MAX][SIM_CHANGES_MAX]; /* those that may be in force */
    uint32_t change_count[SIM_TABLES_MAX];
    uint64_t change_time;
    int64_t staleness_most[SIM_TABLES_MAX]; /* so far; RBT_STALENESS_ANY is the most */
    uint32_t elements;                      /* of a row */
    uint32_t *made;                         /* (tables, keys, elements): updates made so far */
    uint32_t *visible;                      /* what the row's shard shows of them */
    uint32_t *held;                         /* what it holds back */
    struct sim_worker_record workers[SIM_WORKERS_MAX];
    struct sim_server_record servers[SIM_SERVERS_MAX];
    uint32_t run; /* 1: the one in which updates are made; later ones only read */
    uint32_t staleness_changes;
    uint32_t staleness_noted;
    double now;
    uint64_t events;
    uint64_t reads;
    uint64_t hash; /* of everything that has happened */
    bool is_verbose;
    struct sim_entry *entries; /* the last SIM_ENTRIES_MAX */
    uint64_t entry_count;
    char names[SIM_NAMES_MAX][32]; /* of nodes, for entries: those of the job go with it */
    uint32_t name_count;
    struct sim_verdict verdict;
    struct sim_thrift *thrift; /* what it costs */
    /* Scratch of the checker: a row of any type, and its masks. */
    void *raw;
    uint32_t *masks;
    uint32_t *gathered; /* (keys, elements) */
};

void sim_world_init(struct sim_world *world, const struct sim_scenario *plan);
void sim_world_deinit(struct sim_world *world);

/* The elements of a row in an array of the shape (tables, keys, elements). */
static inline uint32_t *sim_row(const struct sim_world *world, uint32_t *array, uint32_t table,
                                uint32_t key)
{
    return array + ((size_t)table * world->plan->keys_max + key) * world->elements;
}

static inline uint32_t sim_element(const struct sim_world *world, uint32_t worker, int64_t clock)
{
    return worker * (uint32_t)world->plan->clocks_max + (uint32_t)clock;
}

/* The server that owns the row. */
uint32_t sim_owner(const struct sim_world *world, uint32_t table, uint32_t key);

/* Values of a table's type as masks; what cannot be one becomes UINT32_MAX. */
void sim_decode(rbt_type type, const void *values, size_t count, uint32_t *masks);

/* The staleness of a table changes: a call is about to be made, and has returned. What the first
 * one returns names the change to the second. */
uint64_t sim_change_begin(struct sim_world *world, uint32_t table, int64_t staleness);
void sim_change_end(struct sim_world *world, uint32_t table, uint64_t began);

/* Whether the staleness may be in force now; and the least that may, INT64_MAX / 2 if that is none
 * at all. */
bool sim_may_be_staleness(const struct sim_world *world, uint32_t table, int64_t staleness);
int64_t sim_least_staleness(const struct sim_world *world, uint32_t table);

/* A copy of a node's name that stays as long as the world. */
const char *sim_keep_name(struct sim_world *world, const char *name);

/* Writes down what a worker does, or the event that the simulation has just dealt with. */
void sim_note(struct sim_world *world, const struct sim_entry *entry);

/* The first broken promise counts; others follow from it. Whom it concerns is in `about`. */
void sim_blame(struct sim_world *world, enum sim_invariant broken, const struct sim_verdict *about,
               const char *format, ...) RBT_PRINTF(4, 5);

/* What led to the verdict: the last events that concern those whom it names. Must be called while
 * the job is open. */
void sim_world_print_trace(const struct sim_world *world, size_t count, FILE *out);

#endif
