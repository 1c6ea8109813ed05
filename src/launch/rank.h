/* launch/rank.h - who am I, if srun or mpirun started several of me?
 *
 * They tell it through the environment: how many processes there are and which one this is. Rank 0
 * becomes the coordinator, the next ones servers, the rest worker processes; where the coordinator
 * listens follows from what all of them know. Neither MPI nor PMIx is linked.
 *
 * Pure functions: the environment comes in as a function. Threads: none. */
#ifndef RUBATO_LAUNCH_RANK_H
#define RUBATO_LAUNCH_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum { RBT_RANK_TEXT = 256 };

/* What the launcher says. */
struct rbt_rank {
    const char *launcher; /* "srun" or "mpirun" */
    int64_t rank;
    int64_t size; /* 1 or less: we are alone */
    bool is_one_host;
    char job[RBT_RANK_TEXT];        /* names the job on this host; letters, digits, ".", "-", "_" */
    char first_host[RBT_RANK_TEXT]; /* rank 0's; "" if nobody says */
    char own_host[RBT_RANK_TEXT];   /* this rank's; "" if nobody says */
};

/* Reads the environment. `size` is 0 if there is no launcher. Fails with RBT_E_INVALID when what it
 * says is no number, or not enough. */
RBT_MUST_USE rbt_status rbt_rank_find(const char *(*lookup)(const char *name),
                                      struct rbt_rank *rank);

/* The first host of a list such as "node[03-05,9],big1"; false if it is none. */
bool rbt_rank_first_host(const char *list, char host[static RBT_RANK_TEXT]);

enum rbt_rank_role { RBT_RANK_COORDINATOR, RBT_RANK_SERVER, RBT_RANK_WORKER };

/* What the user says. */
struct rbt_rank_wishes {
    int64_t servers;         /* 0: 1 */
    const char *coordinator; /* address, or NULL */
    bool has_key;
    const char *folder; /* for temporary files; borrowed */
    int64_t user;       /* number of the user */
    int64_t parent;     /* process that started us: one for all on a host, if the job has no name */
};

struct rbt_rank_plan {
    enum rbt_rank_role role;
    int64_t index; /* among those of its role */
    int64_t servers;
    int64_t processes;                   /* worker processes */
    char coordinator[2 * RBT_RANK_TEXT]; /* address */
    char directory[RBT_RANK_TEXT];       /* for the sockets; "" if none is needed */
};

/* Decides. Fails with RBT_E_INVALID: there are too few ranks, too many servers, no key, or nobody
 * knows where the coordinator is. */
RBT_MUST_USE rbt_status rbt_rank_decide(const struct rbt_rank *rank,
                                        const struct rbt_rank_wishes *wishes,
                                        struct rbt_rank_plan *plan);

#endif
