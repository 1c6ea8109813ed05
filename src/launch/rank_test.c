/* launch/rank_test.c - tests of launch/rank.c: an environment in, a role out. */
#include "base/test.h"

#include <stdio.h>

#include "base/error.h"
#include "launch/rank.h"

/* The environment of a test: names and values in turn, ends with NULL. */
static const char *const *environment;

static const char *look_up(const char *name)
{
    for (const char *const *entry = environment; *entry != NULL; entry += 2) {
        if (strcmp(entry[0], name) == 0) {
            return entry[1];
        }
    }
    return NULL;
}

#define ENVIRONMENT(...)                                                                           \
    environment = (const char *const[])                                                            \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static const struct rbt_rank_wishes plain = {.folder = "/tmp", .user = 1000, .parent = 77};

static void without_a_launcher_we_are_alone(void **state)
{
    (void)state;
    struct rbt_rank rank;
    ENVIRONMENT("HOME", "/", "SLURM_PROCID", "0", "SLURM_NTASKS", "4"); /* a batch script */
    assert_ok(rbt_rank_find(look_up, &rank));
    assert_int_equal(rank.size, 0);
}

static void srun_on_one_host(void **state)
{
    (void)state;
    struct rbt_rank rank;
    ENVIRONMENT("SLURM_PROCID", "2", "SLURM_NTASKS", "9", "SLURM_STEP_NUM_TASKS", "6",
                "SLURM_STEP_ID", "0", "SLURM_JOB_ID", "123", "SLURM_STEP_NUM_NODES", "1",
                "SLURM_STEP_NODELIST", "node7", "SLURMD_NODENAME", "node7");
    assert_ok(rbt_rank_find(look_up, &rank));
    assert_string_equal(rank.launcher, "srun");
    assert_int_equal(rank.rank, 2);
    assert_int_equal(rank.size, 6);
    assert_true(rank.is_one_host);
    assert_string_equal(rank.job, "123.0");
    struct rbt_rank_wishes wishes = plain;
    wishes.servers = 2;
    struct rbt_rank_plan plan;
    assert_ok(rbt_rank_decide(&rank, &wishes, &plan));
    assert_int_equal(plan.role, RBT_RANK_SERVER);
    assert_int_equal(plan.index, 1);
    assert_int_equal(plan.servers, 2);
    assert_int_equal(plan.processes, 3);
    assert_string_equal(plan.directory, "/tmp/rubato-1000-123.0");
    assert_string_equal(plan.coordinator, "unix:/tmp/rubato-1000-123.0/coordinator");
}

static void srun_on_several_hosts(void **state)
{
    (void)state;
    struct rbt_rank rank;
    ENVIRONMENT("SLURM_PROCID", "0", "SLURM_NTASKS", "4", "SLURM_STEP_ID", "1", "SLURM_JOB_ID",
                "123", "SLURM_STEP_NUM_NODES", "2", "SLURM_STEP_NODELIST", "node[03-04]",
                "SLURMD_NODENAME", "node03");
    assert_ok(rbt_rank_find(look_up, &rank));
    assert_false(rank.is_one_host);
    assert_string_equal(rank.first_host, "node03");
    assert_string_equal(rank.own_host, "node03");
    struct rbt_rank_wishes wishes = plain;
    struct rbt_rank_plan plan;
    assert_fails(rbt_rank_decide(&rank, &wishes, &plan), RBT_E_INVALID, "need a key");
    assert_non_null(strstr(rbt_last_hint(), "rubato keygen"));
    wishes.has_key = true;
    assert_ok(rbt_rank_decide(&rank, &wishes, &plan));
    assert_int_equal(plan.role, RBT_RANK_COORDINATOR);
    assert_string_equal(plan.directory, "");
    int port = 0;
    assert_int_equal(sscanf(plan.coordinator, "node03:%d", &port), 1);
    assert_in_range(port, 10000, 29999);
    struct rbt_rank_plan again;
    assert_ok(rbt_rank_decide(&rank, &wishes, &again));
    assert_string_equal(again.coordinator, plan.coordinator);
    wishes.coordinator = "10.0.0.1:7000";
    assert_ok(rbt_rank_decide(&rank, &wishes, &plan));
    assert_string_equal(plan.coordinator, "10.0.0.1:7000");
}

/* mpirun inside a Slurm job: its own variables count, not those of the step that helps it. */
static void open_mpi_goes_before_slurm(void **state)
{
    (void)state;
    struct rbt_rank rank;
    ENVIRONMENT("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4",
                "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "PMIX_NAMESPACE", "prterun-vm-12@1", "PMIX_RANK",
                "3", "SLURM_PROCID", "0", "SLURM_NTASKS", "1", "SLURM_STEP_ID", "0");
    assert_ok(rbt_rank_find(look_up, &rank));
    assert_string_equal(rank.launcher, "mpirun");
    assert_int_equal(rank.rank, 3);
    assert_int_equal(rank.size, 4);
    assert_string_equal(rank.job, "prterun-vm-12_1");
    struct rbt_rank_plan plan;
    assert_ok(rbt_rank_decide(&rank, &plain, &plan));
    assert_int_equal(plan.role, RBT_RANK_WORKER);
    assert_int_equal(plan.index, 1);
    assert_int_equal(plan.processes, 2);
    assert_string_equal(plan.directory, "/tmp/rubato-1000-prterun-vm-12_1");
}

static void open_mpi_on_several_hosts_needs_an_address(void **state)
{
    (void)state;
    struct rbt_rank rank;
    ENVIRONMENT("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "4",
                "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "OMPI_MCA_ess_base_jobid", "42");
    assert_ok(rbt_rank_find(look_up, &rank));
    assert_string_equal(rank.job, "42");
    struct rbt_rank_wishes wishes = plain;
    wishes.has_key = true;
    struct rbt_rank_plan plan;
    assert_fails(rbt_rank_decide(&rank, &wishes, &plan), RBT_E_INVALID,
                 "mpirun does not name the coordinator's host");
    assert_non_null(strstr(rbt_last_hint(), "--coordinator HOST:PORT"));
    wishes.coordinator = "node1:7000";
    assert_ok(rbt_rank_decide(&rank, &wishes, &plan));
    assert_string_equal(plan.coordinator, "node1:7000");
    assert_int_equal(plan.role, RBT_RANK_SERVER);
}

static void mpich_is_known_by_its_parent(void **state)
{
    (void)state;
    struct rbt_rank rank;
    ENVIRONMENT("PMI_RANK", "1", "PMI_SIZE", "3", "MPI_LOCALNRANKS", "3", "SLURM_STEP_ID", "0",
                "SLURM_PROCID", "0", "SLURM_NTASKS", "1");
    assert_ok(rbt_rank_find(look_up, &rank));
    assert_int_equal(rank.rank, 1);
    assert_true(rank.is_one_host);
    struct rbt_rank_plan plan;
    assert_ok(rbt_rank_decide(&rank, &plain, &plan));
    assert_string_equal(plan.directory, "/tmp/rubato-1000-77");
    ENVIRONMENT("PMI_RANK", "1", "PMI_SIZE", "3", "SLURM_STEP_ID", "0", "SLURM_PROCID", "1",
                "SLURM_NTASKS", "3"); /* srun --mpi=pmi2 */
    assert_ok(rbt_rank_find(look_up, &rank));
    assert_string_equal(rank.launcher, "srun");
}

static void every_rank_has_its_own_role(void **state)
{
    (void)state;
    int seen[3] = {0};
    for (int64_t i = 0; i < 14; i++) {
        const struct rbt_rank rank = {
            .launcher = "srun", .rank = i, .size = 14, .is_one_host = true, .job = "1"};
        struct rbt_rank_wishes wishes = plain;
        wishes.servers = 4;
        struct rbt_rank_plan plan;
        assert_ok(rbt_rank_decide(&rank, &wishes, &plan));
        assert_int_equal(plan.index, seen[plan.role]++);
        assert_int_equal(plan.processes, 9);
    }
    assert_int_equal(seen[RBT_RANK_COORDINATOR], 1);
    assert_int_equal(seen[RBT_RANK_SERVER], 4);
    assert_int_equal(seen[RBT_RANK_WORKER], 9);
}

static void too_few_ranks_and_too_many_servers_are_refused(void **state)
{
    (void)state;
    struct rbt_rank rank = {.launcher = "srun", .size = 2, .is_one_host = true, .job = "1"};
    struct rbt_rank_wishes wishes = plain;
    struct rbt_rank_plan plan;
    assert_fails(rbt_rank_decide(&rank, &wishes, &plan), RBT_E_INVALID, "needs at least 3");
    rank.size = 5;
    wishes.servers = 2;
    assert_fails(rbt_rank_decide(&rank, &wishes, &plan), RBT_E_INVALID, "at most a third");
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct rbt_rank rank;
    ENVIRONMENT("PMIX_RANK", "1");
    assert_fails(rbt_rank_find(look_up, &rank), RBT_E_INVALID, "does not say how many");
    ENVIRONMENT("OMPI_COMM_WORLD_RANK", "x", "OMPI_COMM_WORLD_SIZE", "4");
    assert_fails(rbt_rank_find(look_up, &rank), RBT_E_INVALID, "needs a whole number, got \"x\"");
    ENVIRONMENT("OMPI_COMM_WORLD_RANK", "4", "OMPI_COMM_WORLD_SIZE", "4");
    assert_fails(rbt_rank_find(look_up, &rank), RBT_E_INVALID, "is 4, but");
}

static void the_first_host_of_a_list(void **state)
{
    (void)state;
    const struct {
        const char *list;
        const char *host;
    } cases[] = {{"node1", "node1"},       {"a,b", "a"},
                 {"node[1-3,7]", "node1"}, {"node[03-05,9],b", "node03"},
                 {"n[7,9]-ib", "n7-ib"},   {"r[1-2]n[3-4]", "r1n3"}};
    char host[RBT_RANK_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(rbt_rank_first_host(cases[i].list, host));
        assert_string_equal(host, cases[i].host);
    }
    assert_false(rbt_rank_first_host("", host));
    assert_false(rbt_rank_first_host("node[1-3", host));
    assert_false(rbt_rank_first_host("node[]", host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_launcher_we_are_alone),
        cmocka_unit_test(srun_on_one_host),
        cmocka_unit_test(srun_on_several_hosts),
        cmocka_unit_test(open_mpi_goes_before_slurm),
        cmocka_unit_test(open_mpi_on_several_hosts_needs_an_address),
        cmocka_unit_test(mpich_is_known_by_its_parent),
        cmocka_unit_test(every_rank_has_its_own_role),
        cmocka_unit_test(too_few_ranks_and_too_many_servers_are_refused),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(the_first_host_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
