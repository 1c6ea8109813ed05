/* oracle/errors_test.c - every misuse that the public headers name, or that style.md promises an
 * answer to: RBT_E_INVALID, a sentence, and results that are not written. */
#include "base/test.h"

#include "base/alloc.h"
#include "oracle/rig.h"

static void job_options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct rbt_job_options cases[] = {
        {.struct_size = sizeof cases[0], .workers = 1025},
        {.struct_size = sizeof cases[0], .shards = 257},
        {.struct_size = sizeof cases[0], .consistency = "fast"},
        {.struct_size = sizeof cases[0], .consistency = ""},
        {.struct_size = sizeof cases[0], .consistency = "ssp"},
        {.struct_size = sizeof cases[0], .consistency = "ssp:"},
        {.struct_size = sizeof cases[0], .consistency = "ssp:-1"},
        {.struct_size = sizeof cases[0], .consistency = "ssp:two"},
        {.struct_size = sizeof cases[0], .consistency = "ssp:2x"},
        {.struct_size = sizeof cases[0], .consistency = "essp:99999999999999999999"},
        {.struct_size = sizeof cases[0], .consistency = "bsp:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rbt_job *job = NULL;
        const rbt_status st = rbt_job_open(&cases[i], &job);
        if (st != RBT_E_INVALID) {
            fail_msg("case %zu: %s", i, rbt_status_text(st));
        }
        assert_null(job);
        assert_true(strlen(rbt_last_error()) > 0);
    }
}

static void job_options_at_their_limits_are_accepted(void **state)
{
    (void)state;
    rbt_job *job = NULL;
    const struct rbt_job_options nothing = {.struct_size = sizeof nothing};
    assert_ok(rbt_job_open(&nothing, &job));
    rbt_job_close(job);
    rbt_job_close(rig_job(1024, 256, "ssp:1000000"));
    rbt_job_close(NULL);
}

/* The cluster knows how many workers and shards there are: whoever says the same is right. */
static void a_job_that_contradicts_its_cluster_is_refused(void **state)
{
    (void)state;
    rbt_cluster *cluster = rig_cluster(2, 3);
    static const struct {
        struct rbt_job_options options;
        const char *sentence;
    } cases[] = {
        {{.workers = 3}, "the cluster has 2 workers for this job, not 3"},
        {{.shards = 2}, "the servers of the cluster have 3 shards, not 2"},
        {{.name_space = "away"}, "the cluster was joined in namespace \"main\", not \"away\""},
    };
    for (size_t i = 0; cluster != NULL && i < sizeof cases / sizeof *cases; i++) {
        struct rbt_job_options options = cases[i].options;
        rbt_job *job = NULL;
        options.struct_size = sizeof options;
        options.cluster = cluster;
        assert_fails(rbt_job_open(&options, &job), RBT_E_INVALID, cases[i].sentence);
        assert_null(job);
    }
    const struct rbt_job_options same = {.struct_size = sizeof same,
                                         .workers = 2,
                                         .shards = 3,
                                         .name_space = "main",
                                         .cluster = cluster};
    rbt_job *job = NULL;
    assert_ok(rbt_job_open(&same, &job)); /* without a cluster it is what the job is to have */
    rbt_job_close(job);
}

static void table_options_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    static const struct rbt_table_options cases[] = {
        {.partial = RBT_PARTIAL_SHOW, .consistency = "bsp"},
        {.merge = RBT_MERGE_OR},
        {.type = RBT_F64, .merge = RBT_MERGE_OR},
        {.layout = RBT_SPARSE, .init = RBT_INIT_CONSTANT, .init_value = 1},
        {.layout = RBT_SPARSE, .init = RBT_INIT_UNIFORM, .init_high = 1},
        {.layout = RBT_SPARSE, .init = RBT_INIT_NORMAL, .init_deviation = 1},
        {.consistency = "eventually"},
        {.type = (rbt_type)9},
        {.layout = (rbt_layout)9},
        {.merge = (rbt_merge)9},
        {.init = (rbt_init)9},
        {.overlay = (rbt_overlay)9},
        {.cache = (rbt_cache)9},
        {.partial = (rbt_partial)9},
    };
    rbt_job *job = rig_job(1, 1, "ssp:1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rbt_table_options options = cases[i];
        rbt_table *table = NULL;
        options.struct_size = sizeof options;
        const rbt_status st = rbt_table_open(job, "table", &options, &table);
        if (st != RBT_E_INVALID) {
            fail_msg("case %zu: %s", i, rbt_status_text(st));
        }
        assert_null(table);
        assert_true(strlen(rbt_last_error()) > 0);
    }
    rbt_job_close(job);
}

static void a_table_is_opened_again_only_with_the_same_options(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "ssp:1");
    const struct rbt_table_options options = {
        .struct_size = sizeof options, .type = RBT_I64, .width = 4, .consistency = "ssp:3"};
    rbt_table *first = rig_table(job, "table", options);
    assert_ptr_equal(rig_table(job, "table", options), first);
    struct rbt_table_options others[] = {options, options, options, options, options, options};
    others[0].type = RBT_I32;
    others[1].width = 5;
    others[2].layout = RBT_SPARSE;
    others[3].merge = RBT_MERGE_MAX;
    others[4].init = RBT_INIT_CONSTANT;
    others[4].init_value = 1;
    others[5].consistency = "ssp:4";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        rbt_table *table = NULL;
        if (rbt_table_open(job, "table", &others[i], &table) != RBT_E_INVALID) {
            fail_msg("case %zu was accepted", i);
        }
        assert_null(table);
    }
    rbt_job_close(job);
}

static void a_table_without_options_is_one_float_per_row(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "ssp:1");
    rbt_table *table = NULL;
    assert_ok(rbt_table_open(job, "plain", NULL, &table));
    assert_int_equal(rbt_table_type(table), RBT_F32);
    assert_int_equal(rbt_table_width(table), 1);
    assert_int_equal(rbt_table_staleness(table), 1);
    rbt_job_close(job);
}

/* --- Calls of a worker ------------------------------------------------------------------------ */

struct tables {
    rbt_table *dense; /* i64, width 4 */
    rbt_table *sparse;
    rbt_table *largest; /* merge MAX */
};

/* Inside a worker: the call fails with RBT_E_INVALID and says why. */
#define CHECK_INVALID(call)                                                                        \
    do {                                                                                           \
        CHECK((call) == RBT_E_INVALID);                                                            \
        CHECK(strlen(rbt_last_error()) > 0);                                                       \
    } while (0)

static rbt_status misuse_sets(rbt_worker *worker, void *argument)
{
    const struct tables *tables = argument;
    static const uint64_t sorted[] = {1, 2};
    static const uint64_t unsorted[] = {2, 1};
    static const uint64_t repeated[] = {1, 1};
    rbt_set *set = NULL;
    CHECK_INVALID(rbt_set_create(worker, tables->dense, unsorted, 2, RBT_SET_DELTAS, &set));
    CHECK_INVALID(rbt_set_create(worker, tables->dense, repeated, 2, RBT_SET_DELTAS, &set));
    CHECK_INVALID(rbt_set_create(worker, tables->sparse, sorted, 2, RBT_SET_DELTAS, &set));
    CHECK_INVALID(rbt_set_create(worker, tables->largest, sorted, 2, RBT_SET_IN_PLACE, &set));
    CHECK_INVALID(rbt_set_create(worker, tables->dense, sorted, 2, (rbt_set_flags)64, &set));
    CHECK(set == NULL);
    TRY(rbt_set_create(worker, tables->dense, sorted, 2, RBT_SET_IN_PLACE, &set));
    CHECK(rbt_set_deltas(set) == NULL);
    CHECK(rbt_set_clock(set) == -1);
    CHECK_INVALID(rbt_set_pull_within(set, -2));
    rbt_set_destroy(set);
    rbt_set_destroy(NULL);
    set = NULL;
    CHECK_INVALID(rbt_worker_record_end(worker, tables->dense, RBT_SET_DELTAS, &set));
    if (rbt_worker_record_begin(worker, tables->sparse) == RBT_OK) { /* sets are of dense tables */
        CHECK_INVALID(rbt_worker_record_end(worker, tables->sparse, RBT_SET_DELTAS, &set));
    }
    CHECK(set == NULL);
    TRY(rbt_worker_record_begin(worker, tables->dense));
    TRY(rbt_worker_record_end(worker, tables->dense, RBT_SET_DELTAS, &set)); /* an empty set */
    CHECK(rbt_set_count(set) == 0);
    TRY(rbt_set_pull(set));
    TRY(rbt_set_push(set));
    rbt_set_destroy(set);
    return RBT_OK;
}

static rbt_status misuse_rows(rbt_worker *worker, void *argument)
{
    const struct tables *tables = argument;
    int64_t values[4] = {1, 1, 1, 1};
    uint32_t rising[] = {0, 2};
    uint32_t falling[] = {2, 0};
    uint32_t outside[] = {0, 4};
    struct rbt_elements elements = {rising, values, 2, 2};
    CHECK_INVALID(rbt_get(worker, tables->sparse, 1, values));
    CHECK_INVALID(rbt_add(worker, tables->sparse, 1, values));
    CHECK_INVALID(rbt_get_sparse(worker, tables->dense, 1, &elements));
    CHECK_INVALID(rbt_get_sparse_within(worker, tables->sparse, 1, -2, &elements));
    CHECK_INVALID(rbt_get_within(worker, tables->dense, 1, -2, values));
    CHECK_INVALID(rbt_add_at(worker, tables->dense, 1, 4, values));
    CHECK_INVALID(rbt_add_at(worker, tables->sparse, 1, 4, values));
    elements.index = falling;
    CHECK_INVALID(rbt_add_elements(worker, tables->dense, 1, &elements));
    CHECK_INVALID(rbt_add_elements(worker, tables->sparse, 1, &elements));
    elements.index = outside;
    CHECK_INVALID(rbt_add_elements(worker, tables->dense, 1, &elements));
    CHECK_INVALID(rbt_add_elements(worker, tables->sparse, 1, &elements));
    CHECK_INVALID(rbt_table_set_staleness(tables->dense, -2));
    CHECK_INVALID(rbt_worker_set_delay(worker, -2));
    TRY(rbt_get(worker, tables->dense, 1, values));
    CHECK(values[0] == 0 && values[2] == 0); /* nothing of it has happened */
    return RBT_OK;
}

static rbt_status misuse_lists(rbt_worker *worker, void *argument)
{
    const struct tables *tables = argument;
    uint64_t unsorted[] = {2, 1};
    uint64_t sorted[] = {1, 2};
    int64_t values[8] = {0};
    struct rbt_rows rows = {unsorted, values, 2};
    CHECK_INVALID(rbt_pull(worker, tables->dense, &rows));
    CHECK_INVALID(rbt_push(worker, tables->dense, &rows));
    rows.keys = sorted;
    CHECK_INVALID(rbt_pull_within(worker, tables->dense, -2, &rows));
    CHECK_INVALID(rbt_pull_within(worker, tables->dense, 1000001, &rows));
    CHECK_INVALID(rbt_pull(worker, tables->sparse, &rows));
    CHECK_INVALID(rbt_push(worker, tables->sparse, &rows));
    struct rbt_rows found = {0};
    CHECK_INVALID(rbt_pull_range(worker, tables->sparse, RBT_RANGE_ALL, 0, &found));
    CHECK_INVALID(rbt_pull_range(worker, tables->dense, RBT_RANGE_ALL, -3, &found));
    CHECK(found.keys == NULL && found.values == NULL && found.count == 0);
    rows.count = 0;
    TRY(rbt_pull(worker, tables->dense, &rows)); /* nothing is a list, too */
    TRY(rbt_push(worker, tables->dense, &rows));
    return RBT_OK;
}

static rbt_status read_sparse_into_too_little(rbt_worker *worker, void *argument)
{
    const struct tables *tables = argument;
    uint32_t index[3] = {0, 1, 3};
    int64_t values[3] = {5, 6, 7};
    struct rbt_elements elements = {index, values, 3, 3};
    TRY(rbt_add_elements(worker, tables->sparse, 1, &elements));
    TRY(rbt_clock(worker));
    elements.capacity = 2;
    CHECK(rbt_get_sparse(worker, tables->sparse, 1, &elements) == RBT_E_TOO_SMALL);
    CHECK(elements.count == 3);
    elements.capacity = 3;
    TRY(rbt_get_sparse(worker, tables->sparse, 1, &elements));
    CHECK(elements.count == 3 && index[2] == 3 && values[2] == 7);
    return RBT_OK;
}

static void run_misuse(rbt_worker_function function)
{
    rbt_job *job = rig_job(1, 2, "bsp");
    struct tables tables = {
        .dense = rig_counts(job, 4),
        .sparse = rig_table(
            job, "sparse",
            (struct rbt_table_options){.type = RBT_I64, .layout = RBT_SPARSE, .width = 4}),
        .largest = rig_table(
            job, "largest",
            (struct rbt_table_options){.type = RBT_I64, .width = 4, .merge = RBT_MERGE_MAX})};
    rig_run(job, function, &tables);
    rbt_job_close(job);
}

static void sets_that_cannot_be_are_refused(void **state)
{
    (void)state;
    run_misuse(misuse_sets);
}

static void rows_of_the_wrong_kind_and_elements_outside_are_refused(void **state)
{
    (void)state;
    run_misuse(misuse_rows);
}

static void lists_out_of_order_and_ranges_of_sparse_tables_are_refused(void **state)
{
    (void)state;
    run_misuse(misuse_lists);
}

static void a_sparse_row_that_does_not_fit_says_how_much_it_needs(void **state)
{
    (void)state;
    run_misuse(read_sparse_into_too_little);
}

/* --- Structs of older programs ---------------------------------------------------------------- */

enum { CANARY = 0x5A };

/* All of the struct that is at `bytes` and behind must be as it was. */
static bool is_untouched(const void *figures, size_t size, size_t bytes)
{
    const unsigned char *at = figures;
    for (size_t i = bytes; i < size; i++) {
        if (at[i] != CANARY) {
            return false;
        }
    }
    return true;
}

static rbt_status ask_as_an_older_program(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    int64_t row[4] = {0};
    TRY(rbt_get(worker, table, 1, row));
    struct rbt_freshness fresh;
    memset(&fresh, CANARY, sizeof fresh);
    const size_t room = offsetof(struct rbt_freshness, staleness);
    fresh.struct_size = room;
    CHECK(rbt_row_freshness(worker, table, 1, &fresh) == RBT_OK);
    CHECK(fresh.struct_size == room && fresh.clock == 0);
    CHECK(is_untouched(&fresh, sizeof fresh, room));
    static const size_t sizes[] = {0, sizeof fresh + 1};
    for (size_t i = 0; i < 2; i++) {
        memset(&fresh, CANARY, sizeof fresh);
        fresh.struct_size = sizes[i];
        CHECK_INVALID(rbt_row_freshness(worker, table, 1, &fresh));
        CHECK(is_untouched(&fresh, sizeof fresh, sizeof(size_t)));
    }
    return RBT_OK;
}

static void figures_end_where_an_older_program_ends(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 2, "bsp");
    rig_run(job, ask_as_an_older_program, rig_counts(job, 4));
    struct rbt_job_stats stats;
    memset(&stats, CANARY, sizeof stats);
    const size_t room = offsetof(struct rbt_job_stats, reads_waited);
    stats.struct_size = room;
    assert_ok(rbt_job_stats(job, &stats));
    assert_int_equal(stats.struct_size, room);
    assert_int_equal(stats.workers, 1);
    assert_int_equal(stats.reads, 1);
    assert_true(is_untouched(&stats, sizeof stats, room));
    static const size_t sizes[] = {0, sizeof stats + 1};
    for (size_t i = 0; i < 2; i++) {
        memset(&stats, CANARY, sizeof stats);
        stats.struct_size = sizes[i];
        assert_fails(rbt_job_stats(job, &stats), RBT_E_INVALID, "struct_size is");
        assert_true(is_untouched(&stats, sizeof stats, sizeof(size_t)));
    }
    rbt_job_close(job);
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* Opens, runs and closes with the n-th allocation failing, until none fails. The worker's calls
 * may fail with RBT_E_NOMEM as well; nothing may leak, crash or hang. */
static rbt_status use_memory(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    static const uint64_t keys[] = {1, 2, 3};
    const int64_t one = 1;
    int64_t value = 0;
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, table, keys, 3, RBT_SET_DELTAS, &set);
    for (int c = 0; st == RBT_OK && c < 3; c++) {
        st = rbt_add(worker, table, 7, &one);
        st = st != RBT_OK ? st : rbt_set_pull(set);
        if (st == RBT_OK) {
            *(int64_t *)rbt_set_deltas(set) = 1;
        }
        st = st != RBT_OK ? st : rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_get(worker, table, 7, &value);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

/* Rows of two floats are as large as those of one integer. */
static rbt_status use_job(const char *rule)
{
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 2, .shards = 2, .consistency = "bsp"};
    const struct rbt_table_options counts = {.struct_size = sizeof counts,
                                             .type = rule == NULL ? RBT_I64 : RBT_F32,
                                             .width = rule == NULL ? 1 : 2,
                                             .cache =
                                                 rule == NULL ? RBT_CACHE_WORKER : RBT_CACHE_NONE,
                                             .rule = rule};
    rbt_job *job = NULL;
    rbt_table *table = NULL;
    rbt_status st = rbt_job_open(&options, &job);
    st = st != RBT_OK ? st : rbt_table_open(job, "counts", &counts, &table);
    st = st != RBT_OK ? st : rbt_job_run(job, use_memory, table);
    rbt_job_close(job);
    return st;
}

static void fail_allocations(const char *rule)
{
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK && nth < 2000; nth++) {
        const size_t before = rbt_alloc_live();
        rbt_alloc_fail_nth(nth);
        st = use_job(rule);
        rbt_alloc_fail_nth(0);
        if (st != RBT_OK && st != RBT_E_NOMEM) {
            fail_msg("allocation %u: %s: %s", nth, rbt_status_text(st), rbt_last_error());
        }
        if (rbt_alloc_live() != before) {
            fail_msg("allocation %u: %zu blocks leaked", nth, rbt_alloc_live() - before);
        }
    }
    assert_int_equal(st, RBT_OK);
}

static void failed_allocations_are_reported_and_nothing_leaks(void **state)
{
    (void)state;
    rig_end_clusters(); /* whose threads free what they hold when they get to it */
    fail_allocations(NULL);
    fail_allocations("dynsgd"); /* versions */
    fail_allocations("adarev"); /* snapshots */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(job_options_that_make_no_sense_are_refused),
        cmocka_unit_test(job_options_at_their_limits_are_accepted),
        cmocka_unit_test(a_job_that_contradicts_its_cluster_is_refused),
        cmocka_unit_test(table_options_that_contradict_each_other_are_refused),
        cmocka_unit_test(a_table_is_opened_again_only_with_the_same_options),
        cmocka_unit_test(a_table_without_options_is_one_float_per_row),
        cmocka_unit_test(sets_that_cannot_be_are_refused),
        cmocka_unit_test(rows_of_the_wrong_kind_and_elements_outside_are_refused),
        cmocka_unit_test(lists_out_of_order_and_ranges_of_sparse_tables_are_refused),
        cmocka_unit_test(a_sparse_row_that_does_not_fit_says_how_much_it_needs),
        cmocka_unit_test(figures_end_where_an_older_program_ends),
        cmocka_unit_test(failed_allocations_are_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
