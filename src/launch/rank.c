/* launch/rank.c - who am I, if srun or mpirun started several of me?
 *
 * mpirun inside a Slurm job sees the variables of both, and only its own are about us, so it is
 * asked first. A Slurm batch script has SLURM_PROCID as well, but no step: nobody started several
 * of us there. */
#include "launch/rank.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

enum {
    RANKS_MIN = 3, /* a coordinator, a server, a worker process */
    SERVER_SHARE = 3,
    PORT_FIRST = 10000, /* below what systems give out by themselves */
    PORT_COUNT = 20000,
};

/* A number of the environment; RBT_E_NOTFOUND if it is not there. */
static rbt_status number_of(const char *(*lookup)(const char *), const char *name, int64_t *value)
{
    const char *text = lookup(name);
    if (text == NULL || text[0] == '\0') {
        return RBT_E_NOTFOUND;
    }
    if (!rbt_text_to_int(text, value) || *value < 0) {
        return rbt_fail(RBT_E_INVALID,
                        "environment variable \"%s\" needs a whole number, got \"%s\"", name, text);
    }
    return RBT_OK;
}

/* Adds to the job's name; what could not stand in a file's name becomes "_". */
static void add_to_job(struct rbt_rank *rank, const char *text)
{
    size_t used = strlen(rank->job);
    if (used > 0 && used + 1 < sizeof rank->job) {
        rank->job[used++] = '.';
    }
    for (; *text != '\0' && used + 1 < sizeof rank->job; text++) {
        const bool is_plain = isalnum((unsigned char)*text) != 0 || strchr(".-_", *text) != NULL;
        rank->job[used++] = is_plain ? *text : '_';
    }
    rank->job[used] = '\0';
}

static void add_variable(struct rbt_rank *rank, const char *(*lookup)(const char *),
                         const char *name)
{
    const char *text = lookup(name);
    if (text != NULL && text[0] != '\0') {
        add_to_job(rank, text);
    }
}

bool rbt_rank_first_host(const char *list, char host[static RBT_RANK_TEXT])
{
    size_t used = 0;
    for (const char *c = list; *c != '\0' && *c != ','; c++) {
        if (used + 1 >= RBT_RANK_TEXT) {
            return false;
        }
        if (*c != '[') {
            host[used++] = *c;
            continue;
        }
        /* The first number of "[03-05,9]", then what follows the bracket. */
        const size_t digits = strspn(c + 1, "0123456789");
        const char *end = strchr(c, ']');
        if (digits == 0 || end == NULL || used + digits + 1 >= RBT_RANK_TEXT) {
            return false;
        }
        memcpy(host + used, c + 1, digits);
        used += digits;
        c = end;
    }
    host[used] = '\0';
    return used > 0;
}

/* Rank and size under these names; RBT_E_NOTFOUND unless both are there. */
static rbt_status take_place(const char *(*lookup)(const char *), const char *rank_name,
                             const char *size_name, struct rbt_rank *rank)
{
    rbt_status st = number_of(lookup, rank_name, &rank->rank);
    st = st != RBT_OK ? st : number_of(lookup, size_name, &rank->size);
    if (st == RBT_OK && rank->rank >= rank->size) {
        return rbt_fail(RBT_E_INVALID, "environment variable \"%s\" is %lld, but \"%s\" is %lld",
                        rank_name, (long long)rank->rank, size_name, (long long)rank->size);
    }
    return st;
}

static rbt_status find_open_mpi(const char *(*lookup)(const char *), struct rbt_rank *rank)
{
    const rbt_status st = take_place(lookup, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", rank);
    if (st != RBT_OK) {
        return st;
    }
    int64_t here = 0;
    rank->launcher = "mpirun";
    rank->is_one_host =
        number_of(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE", &here) == RBT_OK && here == rank->size;
    add_variable(rank, lookup, "PMIX_NAMESPACE");
    if (rank->job[0] == '\0') {
        add_variable(rank, lookup, "OMPI_MCA_ess_base_jobid");
    }
    return RBT_OK;
}

static rbt_status find_slurm(const char *(*lookup)(const char *), struct rbt_rank *rank)
{
    if (lookup("SLURM_STEP_ID") == NULL) {
        return RBT_E_NOTFOUND;
    }
    const char *size =
        lookup("SLURM_STEP_NUM_TASKS") != NULL ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    const rbt_status st = take_place(lookup, "SLURM_PROCID", size, rank);
    if (st != RBT_OK) {
        return st;
    }
    int64_t nodes = 0;
    int64_t others = 0;
    if (number_of(lookup, "PMI_SIZE", &others) == RBT_OK && others != rank->size) {
        return RBT_E_NOTFOUND; /* MPICH's mpirun has a helper per node, and srun started those */
    }
    rank->launcher = "srun";
    rank->is_one_host = number_of(lookup, "SLURM_STEP_NUM_NODES", &nodes) == RBT_OK && nodes == 1;
    add_variable(rank, lookup, "SLURM_JOB_ID");
    add_variable(rank, lookup, "SLURM_STEP_ID");
    const char *list = lookup("SLURM_STEP_NODELIST");
    if (list != NULL && !rbt_rank_first_host(list, rank->first_host)) {
        rank->first_host[0] = '\0';
    }
    const char *own = lookup("SLURMD_NODENAME");
    snprintf(rank->own_host, sizeof rank->own_host, "%s", own != NULL ? own : "");
    return RBT_OK;
}

/* MPICH and its relatives. */
static rbt_status find_pmi(const char *(*lookup)(const char *), struct rbt_rank *rank)
{
    const rbt_status st = take_place(lookup, "PMI_RANK", "PMI_SIZE", rank);
    if (st != RBT_OK) {
        return st;
    }
    int64_t here = 0;
    rank->launcher = "mpirun";
    rank->is_one_host = number_of(lookup, "MPI_LOCALNRANKS", &here) == RBT_OK && here == rank->size;
    add_variable(rank, lookup, "PMI_JOBID");
    return RBT_OK;
}

rbt_status rbt_rank_find(const char *(*lookup)(const char *name), struct rbt_rank *rank)
{
    static rbt_status (*const finders[])(const char *(*)(const char *),
                                         struct rbt_rank *) = {find_open_mpi, find_slurm, find_pmi};
    for (size_t i = 0; i < sizeof finders / sizeof finders[0]; i++) {
        struct rbt_rank found = {0};
        const rbt_status st = finders[i](lookup, &found);
        if (st == RBT_OK) {
            *rank = found;
            return RBT_OK;
        }
        if (st != RBT_E_NOTFOUND) {
            return st;
        }
    }
    if (lookup("PMIX_RANK") != NULL || lookup("PMI_RANK") != NULL) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID,
                     "several processes were started, but the environment does not say how many");
        return rbt_fail_hint(st,
                             "Start the job with srun or Open MPI's mpirun, or without either.");
    }
    *rank = (struct rbt_rank){0};
    return RBT_OK;
}

/* Who it is among `size`. */
static rbt_status take_role(const struct rbt_rank *rank, const struct rbt_rank_wishes *wishes,
                            struct rbt_rank_plan *plan)
{
    if (rank->size < RANKS_MIN) {
        const rbt_status st = rbt_fail(RBT_E_INVALID,
                                       "%s started %lld processes, but a job needs at least %d: a "
                                       "coordinator, a server and a worker process",
                                       rank->launcher, (long long)rank->size, (int)RANKS_MIN);
        return rbt_fail_hint(st, "Use \"%s -n 4 rubato run -- ...\", or omit %s.", rank->launcher,
                             rank->launcher);
    }
    plan->servers = wishes->servers > 0 ? wishes->servers : 1;
    if (plan->servers > rank->size / SERVER_SHARE) {
        return rbt_fail(RBT_E_INVALID,
                        "at most a third of the %lld processes can be servers, got \"--servers\" "
                        "%lld",
                        (long long)rank->size, (long long)plan->servers);
    }
    plan->processes = rank->size - 1 - plan->servers;
    RBT_ASSERT(plan->processes > 0);
    if (rank->rank == 0) {
        plan->role = RBT_RANK_COORDINATOR;
        plan->index = 0;
    } else if (rank->rank <= plan->servers) {
        plan->role = RBT_RANK_SERVER;
        plan->index = rank->rank - 1;
    } else {
        plan->role = RBT_RANK_WORKER;
        plan->index = rank->rank - 1 - plan->servers;
    }
    return RBT_OK;
}

/* All ranks run on one host: they meet at a socket in a directory that is named after the job. */
static rbt_status meet_here(const struct rbt_rank *rank, const struct rbt_rank_wishes *wishes,
                            struct rbt_rank_plan *plan)
{
    char name[RBT_RANK_TEXT];
    snprintf(name, sizeof name, "%s", rank->job);
    if (name[0] == '\0') {
        snprintf(name, sizeof name, "%lld", (long long)wishes->parent);
    }
    const int length = snprintf(plan->directory, sizeof plan->directory, "%s/rubato-%lld-%s",
                                wishes->folder, (long long)wishes->user, name);
    if (length < 0 || (size_t)length >= sizeof plan->directory) {
        return rbt_fail(RBT_E_INVALID,
                        "the name of the directory for temporary files is too long: \"%s\"",
                        wishes->folder);
    }
    snprintf(plan->coordinator, sizeof plan->coordinator, "unix:%s/coordinator", plan->directory);
    return RBT_OK;
}

/* They run on several: rank 0's host is known to all, and the port follows from the job's name. */
static rbt_status meet_there(const struct rbt_rank *rank, const struct rbt_rank_wishes *wishes,
                             struct rbt_rank_plan *plan)
{
    if (!wishes->has_key) {
        const rbt_status st = rbt_fail(RBT_E_INVALID, "processes on several hosts need a key");
        return rbt_fail_hint(st, "Make one with \"rubato keygen FILE\" where all hosts can read "
                                 "it, and set RUBATO_KEY=FILE.");
    }
    if (wishes->coordinator != NULL) {
        return RBT_OK;
    }
    if (rank->first_host[0] == '\0') {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "%s does not name the coordinator's host", rank->launcher);
        return rbt_fail_hint(st, "Give \"--coordinator HOST:PORT\" with the host of rank 0.");
    }
    const uint64_t hash = rbt_hash_bytes(rank->job, strlen(rank->job), 0);
    snprintf(plan->coordinator, sizeof plan->coordinator, "%s:%d", rank->first_host,
             PORT_FIRST + (int)(hash % PORT_COUNT));
    return RBT_OK;
}

rbt_status rbt_rank_decide(const struct rbt_rank *rank, const struct rbt_rank_wishes *wishes,
                           struct rbt_rank_plan *plan)
{
    struct rbt_rank_plan decided = {0};
    rbt_status st = take_role(rank, wishes, &decided);
    if (st != RBT_OK) {
        return st;
    }
    if (wishes->coordinator != NULL) {
        snprintf(decided.coordinator, sizeof decided.coordinator, "%s", wishes->coordinator);
    }
    if (!rank->is_one_host) {
        st = meet_there(rank, wishes, &decided);
    } else if (wishes->coordinator == NULL) {
        st = meet_here(rank, wishes, &decided);
    }
    if (st != RBT_OK) {
        return st;
    }
    *plan = decided;
    return RBT_OK;
}
