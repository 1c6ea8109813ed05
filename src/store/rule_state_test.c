/* store/rule_state_test.c - rules at work on a shard: what they are told, what is kept for them and
 * for how long, and what happens when they fail. */
#include "base/test.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "policy/rule/rule.h"
#include "store/rule_state_rig.h"
#include "store/shard.h"

/* --- DynSGD ----------------------------------------------------------------------------------- */

/* Appendix C of Jiang and others. W1 to W4 are workers 0 to 3. */
static void dynsgd_does_what_its_paper_shows(void **state)
{
    (void)state;
    const float a = 12;
    const float b = 5;
    const float c = 24;
    const float d = 36;
    const float e = 7;
    const float u = 60; /* f */
    const float g = 11;
    struct fixture f;
    start(&f, 4, 3, "dynsgd", NULL);
    push(&f, 0, KEY, a);
    push(&f, 0, KEY, b);
    assert_true(look(&f, KEY) == a + b);
    push(&f, 1, KEY, c);
    assert_true(look(&f, KEY) == (a + c) / 2 + b);
    push(&f, 2, KEY, d);
    assert_true(look(&f, KEY) == (a + c + d) / 3 + b);
    push(&f, 0, KEY, e);
    assert_true(pull(&f, 1, KEY) == (a + c + d) / 3 + b + e);
    push(&f, 3, KEY, u);
    assert_true(look(&f, KEY) == (a + c + d + u) / 4 + b + e);
    assert_int_equal(rbt_shard_version(f.shard, 0), 3);
    push(&f, 1, KEY, g);                                /* to version 3, not 2 */
    assert_int_equal(rbt_shard_version(f.shard, 0), 3); /* clocks that have begun */
    assert_true(look(&f, KEY) == (a + c + d + u) / 4 + b + e + g);
    stop(&f);
}

/* A worker that keeps two reads and pushes from them in turn: each goes on from its own. */
static void every_read_has_its_own_next_version(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 2, RBT_STALENESS_ANY, "dynsgd", NULL);
    push(&f, 1, KEY, 1); /* version 0; c_max = 1 */
    uint64_t stamp = 0;
    read_key(&f, &(struct rbt_shard_event){.is_base = true, .least = 0, .stamp = &stamp}, KEY);
    assert_int_equal(stamp, 1);
    const uint64_t bases[] = {0, 1, 0, 1, 0};
    const uint64_t ends[] = {1, 2, 2, 3, 3}; /* versions 0; 1; 1; 2; 2 */
    for (size_t i = 0; i < 5; i++) {
        assert_ok(push_with(&f, 0, (struct push){KEY, 100, bases[i], 0}));
        assert_int_equal(rbt_shard_version(f.shard, 0), ends[i]);
    }
    assert_true(look(&f, KEY) == 101.0F / 2 + 100 + 100);
    stop(&f);
}

/* Workers as in the paper: an update per clock, a read when the copy is older than the staleness
 * allows, or now and then. */
static void dynsgd_keeps_few_versions(void **state)
{
    (void)state;
    enum { CLOCKS = 100 };
    const int64_t bounds[] = {0, 1, 3, 10};
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct fixture f;
        struct rbt_rng rng;
        int64_t ages[WORKERS_MAX] = {0}; /* the floor at the last read */
        const int64_t staleness = bounds[seed % 4];
        const uint32_t workers = 2 + (uint32_t)(seed / 4 % 4);
        const uint64_t eagerness = 1 + seed / 16 % 5;
        rbt_rng_init(&rng, seed, 0, 0);
        start(&f, workers, staleness, "dynsgd", NULL);
        for (uint32_t left = workers; left > 0;) {
            /* The first worker is the fastest. */
            const uint32_t worker =
                rbt_rng_below(&rng, 2) == 0 ? 0 : (uint32_t)rbt_rng_below(&rng, workers);
            const int64_t clock = f.clocks[worker];
            if (clock > CLOCKS) {
                continue;
            }
            if (clock == CLOCKS) {
                leave(&f, worker);
                f.clocks[worker]++;
                left--;
                continue;
            }
            if (clock - staleness > ages[worker] || rbt_rng_below(&rng, eagerness) == 0) {
                if (f.out.floor < clock - staleness) {
                    continue; /* it waits */
                }
                pull(&f, worker, KEY);
                ages[worker] = f.out.floor;
            }
            push(&f, worker, KEY, (float)rbt_rng_normal(&rng));
        }
        assert_true(stats_of(&f).versions_max <= (uint64_t)(2 * staleness + 2));
        stop(&f);
    }
}

/* --- Snapshots -------------------------------------------------------------------------------- */

static void snapshots_stay_below_the_limit_and_go_with_the_workers(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 3, RBT_STALENESS_ANY, "adarev:max=8", NULL);
    for (uint64_t i = 0; i < 100; i++) { /* worker 2 never reads again */
        assert_int_equal(rbt_shard_sends_early(f.shard, 0), stats_of(&f).snapshots < 6);
        push(&f, 0, i % 20, 1);
        assert_true(stats_of(&f).snapshots <= 8);
    }
    assert_int_equal(stats_of(&f).snapshots, 8);
    assert_int_equal(stats_of(&f).snapshots_max, 8);
    assert_false(rbt_shard_sends_early(f.shard, 0));
    leave(&f, 2);
    assert_int_equal(stats_of(&f).snapshots, 8); /* the others hold the beginning, too */
    pull(&f, 0, KEY);
    pull(&f, 1, KEY);
    assert_int_equal(stats_of(&f).snapshots, 0);
    assert_true(rbt_shard_sends_early(f.shard, 0));
    push(&f, 0, KEY, 1);
    assert_int_equal(stats_of(&f).snapshots, 1);
    assert_ok(push_with(&f, 0, (struct push){KEY, 1, f.stamps[0], RBT_STAMP_NONE}));
    assert_int_equal(stats_of(&f).snapshots, 1); /* worker 1's */
    leave(&f, 1);
    assert_int_equal(stats_of(&f).snapshots, 0);
    leave(&f, 0);
    stop(&f);
}

static void snapshots_do_not_grow_over_many_clocks(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 3, 3, "adarev", NULL);
    size_t live = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        const uint32_t worker = (uint32_t)(i % 2); /* worker 2 never touches the table */
        push(&f, worker, i % 10, 1);
        pull(&f, worker, KEY);
        if (i % 2 == 1) {
            tick(&f, 2);
        }
        if (i == 1000) {
            live = rbt_alloc_live_bytes();
        }
    }
    assert_true(stats_of(&f).snapshots_max <= 4);
    assert_true(rbt_alloc_live_bytes() <= live);
    assert_int_equal(stats_of(&f).held, 0);
    stop(&f);
}

/* What an update sees of the state; the state is the number of updates of the row. */
static float before_seen;

static rbt_status create_watch(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                               void **self)
{
    (void)self;
    needs->state_width = 1;
    needs->snapshot_width = 1;
    needs->snapshot_max = (uint64_t)setup->number(setup, "max", 0);
    return RBT_OK;
}

static rbt_status apply_watch(void *self, const struct rbt_rule_message *message,
                              const struct rbt_rule_row *row)
{
    (void)self;
    (void)message;
    before_seen = row->before[0];
    row->state[0]++;
    return RBT_OK;
}

static const struct rbt_rule watch = {.abi = RBT_RULE_ABI,
                                      .struct_size = sizeof watch,
                                      .name = "watch",
                                      .create = create_watch,
                                      .apply = apply_watch};

static void an_update_from_before_the_oldest_copy_gets_the_oldest(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 2, RBT_STALENESS_ANY, "watch:max=3", &watch);
    for (int i = 0; i < 10; i++) {
        push(&f, 0, KEY, 1);
        assert_true(before_seen == (float)i);
        pull(&f, 0, KEY);
    }
    push(&f, 1, KEY, 1); /* from 0, but only the copies of 8, 9 and 10 are left */
    assert_true(before_seen == 8);
    push(&f, 1, KEY + 1, 1);
    assert_true(before_seen == 0);
    stop(&f);
}

/* A message is on its way when its worker reads again and wants nothing older: it still sees the
 * state as of its own read. And when it arrives, which knows of no read, the new read stays. */
static void a_read_that_overtakes_an_update_lets_nothing_go_that_it_names(void **state)
{
    (void)state;
    for (int is_held = 0; is_held < 2; is_held++) {
        struct fixture f;
        start(&f, 2, is_held ? 0 : RBT_STALENESS_ANY, "watch", &watch);
        pull(&f, 1, KEY);
        tick(&f, 1);
        tick(&f, 0);
        push(&f, 0, KEY, 1);
        if (is_held) {
            tick(&f, 1);
        }
        f.sequences[1]++; /* sent */
        const uint64_t base = f.stamps[1];
        pull(&f, 1, KEY);
        assert_int_equal(f.stamps[1], 1);
        f.sequences[1]--;
        if (is_held) {
            tick(&f, 0);
        }
        assert_ok(push_with(&f, 1, (struct push){KEY, 1, base, RBT_STAMP_NONE}));
        assert_true(before_seen == 0);
        push(&f, 0, KEY, 1);
        assert_true(is_held || before_seen == 2);
        push(&f, 1, KEY, 1);
        assert_true(before_seen == 1);
        stop(&f);
    }
}

/* --- Who keeps what alive --------------------------------------------------------------------- */

static void a_worker_that_never_touches_the_table_keeps_nothing(void **state)
{
    (void)state;
    const char *texts[] = {"dynsgd", "adarev"};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        start(&f, 2, 100, texts[i], NULL);
        for (int k = 0; k < 20; k++) {
            push(&f, 0, KEY, 1);
            pull(&f, 0, KEY);
        }
        /* Until its first clock has ended, nobody knows that it will not. */
        assert_int_equal(i == 0 ? stats_of(&f).versions_max : stats_of(&f).snapshots, 20);
        tick(&f, 1);
        push(&f, 0, KEY, 1);
        pull(&f, 0, KEY);
        assert_int_equal(stats_of(&f).snapshots, 0);
        const uint64_t most = stats_of(&f).versions_max;
        for (int k = 0; k < 200; k++) {
            push(&f, 0, KEY, 1);
            pull(&f, 0, KEY);
            assert_int_equal(stats_of(&f).snapshots, 0);
        }
        assert_int_equal(stats_of(&f).versions_max, most);
        stop(&f);
    }
}

/* Two runs of half the length are one, but for what was read in between. */
static void a_second_run_goes_on(void **state)
{
    (void)state;
    const char *texts[] = {"dynsgd", "adarev", "add:aggregate=1", "adam", "sgd:average=1"};
    for (size_t i = 0; i < 5; i++) {
        struct fixture f;
        float value = 0;
        start(&f, 2, 1, texts[i], NULL);
        for (int run = 0; run < 3; run++) {
            for (int k = 0; k < 4; k++) {
                push(&f, 0, KEY, 1);
                push(&f, 1, KEY, 1);
                pull(&f, 0, KEY);
                pull(&f, 1, KEY);
            }
            leave(&f, 0);
            leave(&f, 1);
            assert_true(look(&f, KEY) != value);
            value = look(&f, KEY);
            assert_int_equal(stats_of(&f).held, 0);
            assert_int_equal(stats_of(&f).snapshots, 0);
            reset(&f);
            pull(&f, 0, KEY);
            pull(&f, 1, KEY);
            assert_true(look(&f, KEY) == value);
        }
        assert_true(i != 0 || value == 12);
        assert_true(i != 2 || value == 24);
        stop(&f);
    }
}

/* The same worker, the same sequence, no base in either: and yet another message. */
static void messages_of_two_runs_are_two(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 1, 0, "add", NULL);
    for (uint64_t run = 1; run <= 3; run++) {
        tick(&f, 0); /* it lets go what it had at first */
        push(&f, 0, KEY, 1);
        uint64_t stamp = 0;
        read_key(&f, &(struct rbt_shard_event){.stamp = &stamp}, KEY);
        assert_int_equal(stamp, run);
        leave(&f, 0);
        reset(&f);
    }
    stop(&f);
}

/* The sum of a clock is one step, also if several clocks end at once and if one has no rows. */
static void aggregated_clocks_are_numbered_one_by_one(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 2, 9, "sgd:lr=1,average=1,aggregate=1", NULL);
    push(&f, 0, KEY, -1);
    push(&f, 0, KEY, -2);
    push(&f, 0, KEY, -3);
    assert_true(look(&f, KEY) == 0); /* nothing before everybody is there */
    leave(&f, 1);
    assert_true(look(&f, KEY) == 6);
    uint64_t key = 0;
    float average = 0;
    struct rbt_shard_scan scan = {
        .range = RBT_RANGE_ALL, .keys = &key, .values = (char *)&average, .capacity = 1};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_SCAN, .scan = &scan};
    rbt_shard_step(f.shard, &event, &f.out);
    assert_ok(f.out.status);
    assert_int_equal(key, KEY);
    assert_true(average > 3.33F && average < 3.34F); /* (1 + 3 + 6) / 3 */
    stop(&f);
}

/* --- Rules of our own ------------------------------------------------------------------------- */

static char diary[2048];

static void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const size_t used = strlen(diary);
    vsnprintf(diary + used, sizeof diary - used, format, arguments);
    va_end(arguments);
}

static rbt_status create_log(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                             void **self)
{
    (void)needs;
    note("create %s width %u workers %u k %g; ", setup->table, setup->width, setup->worker_count,
         setup->number(setup, "k", 0));
    *self = diary;
    return RBT_OK;
}

static void destroy_log(void *self)
{
    assert_ptr_equal(self, diary);
    note("destroy; ");
}

static uint64_t send_log(void *self, const struct rbt_rule_send *send)
{
    assert_ptr_equal(self, diary);
    note("send w%u n%u; ", send->worker, (unsigned)send->count);
    return 100 + send->count;
}

static void begin_log(void *self, const struct rbt_rule_message *m)
{
    assert_ptr_equal(self, diary);
    note("begin w%u c%d n%u late %u tag %u v%u; ", m->worker, (int)m->clock, (unsigned)m->count,
         (unsigned)m->delay, (unsigned)m->tag, (unsigned)m->version);
}

static rbt_status apply_log(void *self, const struct rbt_rule_message *m,
                            const struct rbt_rule_row *row)
{
    assert_ptr_equal(self, diary);
    note("apply w%u row %u by %g; ", m->worker, (unsigned)row->key, (double)row->delta[0]);
    row->values[0] += row->delta[0];
    return RBT_OK;
}

static const struct rbt_rule logging = {.abi = RBT_RULE_ABI,
                                        .struct_size = sizeof logging,
                                        .name = "logging",
                                        .create = create_log,
                                        .destroy = destroy_log,
                                        .send = send_log,
                                        .begin = begin_log,
                                        .apply = apply_log};

static void a_rule_sees_every_event_once(void **state)
{
    (void)state;
    struct fixture f;
    diary[0] = '\0';
    start(&f, 2, 0, "logging:k=3", &logging);
    pull(&f, 0, KEY);
    look(&f, KEY); /* nobody will compute with it */
    push(&f, 0, KEY, 5);
    push(&f, 1, KEY, 0); /* not updated */
    pull(&f, 1, KEY);
    push(&f, 1, 8, 2);
    f.sequences[1]--; /* the same again */
    f.clocks[1]--;
    push(&f, 1, 8, 2);
    leave(&f, 0);
    stop(&f);
    assert_string_equal(diary, "create main/weights width 1 workers 2 k 3; send w0 n0; "
                               "begin w0 c0 n0 late 0 tag 100 v0; apply w0 row 7 by 5; "
                               "begin w1 c0 n1 late 1 tag 0 v0; send w1 n2; "
                               "begin w1 c1 n2 late 0 tag 102 v1; apply w1 row 8 by 2; destroy; ");
}

static rbt_status create_last(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                              void **self)
{
    (void)setup;
    (void)self;
    needs->parts = RBT_PARTS_SHOWN;
    needs->state_width = 1;
    return RBT_OK;
}

static rbt_status apply_last(void *self, const struct rbt_rule_message *message,
                             const struct rbt_rule_row *row)
{
    (void)self;
    (void)message;
    row->part[0] += row->delta[0];
    row->state[0] = 7;
    return RBT_OK;
}

static void fold_last(void *self, const struct rbt_rule_version *version,
                      const struct rbt_rule_row *row)
{
    (void)self;
    assert_true(row->state[0] == 7); /* the row's own, in reads, too */
    row->values[0] += row->part[0] / (float)version->messages;
}

static bool expire_last(void *self, const struct rbt_rule_age *age)
{
    (void)self;
    return age->version.version + 3 < age->newest;
}

/* Updates of a clock are averaged; the last three clocks are kept, whoever is late. */
static const struct rbt_rule last_three = {.abi = RBT_RULE_ABI,
                                           .struct_size = sizeof last_three,
                                           .name = "last_three",
                                           .create = create_last,
                                           .apply = apply_last,
                                           .fold = fold_last,
                                           .expire = expire_last};

static void a_rule_can_keep_the_last_three_versions(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 2, RBT_STALENESS_ANY, "last_three", &last_three);
    for (int i = 0; i < 10; i++) {
        push(&f, 0, KEY, 1);
        assert_true(look(&f, KEY) == (float)i + 1);
        assert_int_equal(stats_of(&f).versions_max, i < 3 ? i + 1 : 4); /* before one goes */
    }
    push(&f, 1, KEY, 8); /* clock 0 has gone: the first that has not is 7 */
    assert_true(look(&f, KEY) == 9 + 9.0F / 2);
    f.clocks[1] = 9;
    push(&f, 1, KEY, 3);
    assert_true(look(&f, KEY) == 8 + 9.0F / 2 + 4.0F / 2);
    leave(&f, 0);
    leave(&f, 1);
    assert_true(look(&f, KEY) == 8 + 9.0F / 2 + 4.0F / 2);
    stop(&f);
}

static void fold_one_more(void *self, const struct rbt_rule_version *version,
                          const struct rbt_rule_row *row)
{
    (void)self;
    (void)version;
    row->values[0] += row->part[0] + 1;
}

static const struct rbt_rule one_more = {.abi = RBT_RULE_ABI,
                                         .struct_size = sizeof one_more,
                                         .name = "one_more",
                                         .create = create_last,
                                         .apply = apply_last,
                                         .fold = fold_one_more};

/* A part of zeros, because updates cancel or because a dense version has one for every row, is
 * never folded: neither when read nor when the version goes, with the second worker. */
static void what_is_zero_in_a_version_is_not_folded(void **state)
{
    (void)state;
    enum { ROWS = 40 };
    for (uint64_t rows = 1; rows < ROWS; rows += ROWS - 2) {
        struct fixture f;
        start(&f, 2, RBT_STALENESS_ANY, "one_more", &one_more);
        for (uint64_t key = 0; key < ROWS; key++) { /* a version each */
            push(&f, 0, key, 1);
        }
        for (uint64_t key = 0; key <= rows; key++) { /* all in the same one */
            f.clocks[0] = ROWS;
            push(&f, 0, key % rows, key == 0 ? 5 : key == rows ? -5 : 1);
        }
        for (uint64_t key = 0; key < 2 * ROWS; key++) {
            leave(&f, key < ROWS ? 0 : 1);
            assert_true(look(&f, key % ROWS) == (key % ROWS == 0 || key % ROWS >= rows ? 2 : 4));
        }
        stop(&f);
    }
}

static rbt_status (*fail_with)(const char *format, ...);

static rbt_status create_failing(const struct rbt_rule_setup *setup, struct rbt_rule_needs *needs,
                                 void **self)
{
    (void)needs;
    (void)self;
    fail_with = setup->number(setup, "silent", 0) != 0 ? NULL : setup->fail;
    return RBT_OK;
}

static rbt_status apply_failing(void *self, const struct rbt_rule_message *message,
                                const struct rbt_rule_row *row)
{
    (void)self;
    (void)message;
    if (row->delta[0] >= 0) {
        return RBT_OK;
    }
    return fail_with == NULL ? RBT_E_BUSY : fail_with("%g is negative", (double)row->delta[0]);
}

static const struct rbt_rule failing = {.abi = RBT_RULE_ABI,
                                        .struct_size = sizeof failing,
                                        .name = "failing",
                                        .create = create_failing,
                                        .apply = apply_failing};

static void a_rule_that_fails_fails_the_shard(void **state)
{
    (void)state;
    const char *sentence =
        "rule \"failing\" failed at row 7 of table \"main/weights\": -2 is negative";
    const char *texts[] = {"failing", "failing:aggregate=1"};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        start(&f, 2, 0, texts[i], &failing);
        push(&f, 0, KEY, -2);
        assert_int_equal(push_with(&f, 1, (struct push){KEY, 0, 0, 0}), RBT_E_DATA);
        assert_string_equal(rbt_last_error(), sentence);
        (void)rbt_fail(RBT_E_IO, "something else");
        assert_int_equal(push_with(&f, 0, (struct push){8, 1, 0, 0}), RBT_E_DATA);
        assert_string_equal(rbt_last_error(), sentence);
        read_key(&f, &(struct rbt_shard_event){0}, KEY);
        assert_int_equal(f.out.status, RBT_E_DATA);
        assert_string_equal(rbt_last_error(), sentence);
        struct rbt_shard_scan scan = {.range = RBT_RANGE_ALL};
        const struct rbt_shard_event event = {.kind = RBT_SHARD_SCAN, .scan = &scan};
        rbt_shard_step(f.shard, &event, &f.out);
        assert_int_equal(f.out.status, RBT_E_DATA);
        leave(&f, 0);
        leave(&f, 1);
        rbt_shard_step(f.shard, &(struct rbt_shard_event){.kind = RBT_SHARD_RESET}, &f.out);
        stop(&f);
    }
}

static void a_rule_that_fails_without_a_word_is_not_given_anothers(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 1, 0, "failing:silent=1", &failing);
    (void)rbt_fail(RBT_E_IO, "an older word");
    assert_int_equal(push_with(&f, 0, (struct push){KEY, -1, 0, 0}), RBT_E_DATA);
    assert_null(strstr(rbt_last_error(), "an older word"));
    assert_non_null(strstr(rbt_last_error(), rbt_status_text(RBT_E_BUSY)));
    stop(&f);
}

/* --- Failed allocations ----------------------------------------------------------------------- */

/* Opening, and then a message: it is as if it had not come, or the table is of no more use. */
static void rules_survive_every_failed_allocation(void **state)
{
    (void)state;
    const char *texts[] = {"dynsgd", "adarev", "add:aggregate=1", "sgd:average=1"};
    for (size_t i = 0; i < 4; i++) {
        for (int is_held = 0; is_held < 2; is_held++) {
            rbt_status st = RBT_E_NOMEM;
            for (unsigned nth = 1; st != RBT_OK; nth++) {
                struct fixture f;
                start(&f, 2, is_held ? 0 : RBT_STALENESS_ANY, "add", NULL);
                struct rbt_spec spec = {.width = 1, .name = "t"};
                memcpy(spec.rule, texts[i], strlen(texts[i]) + 1);
                spec.staleness = is_held ? 0 : RBT_STALENESS_ANY;
                assert_ok(rbt_rule_find(spec.rule, &spec.code));
                const struct rbt_shard_event open = {.kind = RBT_SHARD_TABLE, .spec = &spec};
                rbt_alloc_fail_nth(nth);
                rbt_shard_step(f.shard, &open, &f.out);
                st = f.out.status;
                st = st == RBT_OK ? push_with(&f, 0, (struct push){KEY, 1, 0, 0}) : st;
                st = st == RBT_OK ? push_with(&f, 1, (struct push){KEY, 1, 0, 0}) : st;
                rbt_alloc_fail_nth(0);
                assert_true(st == RBT_OK || st == RBT_E_NOMEM);
                assert_true(st == RBT_OK || rbt_last_error()[0] != '\0');
                stop(&f);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dynsgd_does_what_its_paper_shows),
        cmocka_unit_test(every_read_has_its_own_next_version),
        cmocka_unit_test(dynsgd_keeps_few_versions),
        cmocka_unit_test(snapshots_stay_below_the_limit_and_go_with_the_workers),
        cmocka_unit_test(snapshots_do_not_grow_over_many_clocks),
        cmocka_unit_test(an_update_from_before_the_oldest_copy_gets_the_oldest),
        cmocka_unit_test(a_read_that_overtakes_an_update_lets_nothing_go_that_it_names),
        cmocka_unit_test(a_worker_that_never_touches_the_table_keeps_nothing),
        cmocka_unit_test(a_second_run_goes_on),
        cmocka_unit_test(messages_of_two_runs_are_two),
        cmocka_unit_test(aggregated_clocks_are_numbered_one_by_one),
        cmocka_unit_test(a_rule_sees_every_event_once),
        cmocka_unit_test(a_rule_can_keep_the_last_three_versions),
        cmocka_unit_test(what_is_zero_in_a_version_is_not_folded),
        cmocka_unit_test(a_rule_that_fails_fails_the_shard),
        cmocka_unit_test(a_rule_that_fails_without_a_word_is_not_given_anothers),
        cmocka_unit_test(rules_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
