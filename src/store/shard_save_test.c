/* store/shard_save_test.c - a shard that was written down and read back does what the first one
 * does.
 *
 * Random shards with random tables are driven by random events; at one of them the shard is saved
 * and loaded, into one without tables or with them, and from then on both are given the same
 * events: all that they say must be the same, and so must what they are saved as. What was damaged
 * is refused; what was damaged and has a checksum that fits is refused or breaks nothing. */
#include "base/test.h"

#include "base/alloc.h"
#include "store/save_rig_events.h"
#include "store/save_rig_tables.h"

enum { SEEDS = 1500, EVENTS = 120, HOSTILE_SEEDS = 60, HOSTILE_TRIES = 40, HOSTILE_EVENTS = 25 };

static struct rig rig;
static struct rig_box boxes[2];
static struct rbt_priority_policy policies[RIG_TABLES];
static struct rbt_spec tables[RIG_TABLES];
static uint32_t table_count;

static void open_tables(rbt_shard *shard)
{
    for (uint32_t i = 0; i < table_count; i++) {
        memset(&boxes[0], 0, sizeof boxes[0]);
        boxes[0].event.kind = RBT_SHARD_TABLE;
        boxes[0].event.table = i;
        boxes[0].spec = tables[i];
        rig_step(shard, &boxes[0]);
        assert_ok(boxes[0].out.status);
    }
}

/* A shard with random tables. */
static rbt_shard *start(uint64_t seed, bool has_own)
{
    rbt_shard *shard = NULL;
    memset(&rig, 0, sizeof rig);
    rbt_rng_init(&rig.rng, seed, 0, 0);
    table_count = 1 + (uint32_t)rig_below(&rig, RIG_TABLES);
    for (uint32_t i = 0; i < table_count; i++) {
        tables[i] = rig_table(&rig, has_own, &policies[i]);
    }
    assert_ok(rbt_shard_create(&rig_options, &shard));
    open_tables(shard);
    return shard;
}

/* A random event; now and then another staleness. */
static void draw(rbt_shard *shard)
{
    rig_draw(&rig, shard, &boxes[0]);
    if (rig_once_in(&rig, 25)) {
        const uint32_t table = (uint32_t)rig_below(&rig, table_count);
        memset(&boxes[0], 0, sizeof boxes[0]);
        tables[table].staleness = rig_staleness(&rig);
        boxes[0].event.kind = RBT_SHARD_TABLE;
        boxes[0].event.table = table;
        boxes[0].spec = tables[table];
    }
}

static void save(const rbt_shard *shard, struct rbt_sink *sink)
{
    *sink = (struct rbt_sink){0};
    assert_ok(rbt_shard_save(shard, sink));
}

static rbt_status load(rbt_shard *shard, const char *bytes, size_t count)
{
    struct rbt_source source = {.bytes = bytes, .count = count};
    const rbt_status st = rbt_shard_load(shard, &source);
    rbt_source_deinit(&source);
    return st;
}

static void assert_same_state(const rbt_shard *a, const rbt_shard *b, uint64_t seed)
{
    struct rbt_sink saved[2];
    save(a, &saved[0]);
    save(b, &saved[1]);
    if (saved[0].count != saved[1].count ||
        memcmp(saved[0].bytes, saved[1].bytes, saved[0].count) != 0) {
        fail_msg("seed %llu: the states differ", (unsigned long long)seed);
    }
    rbt_sink_deinit(&saved[0]);
    rbt_sink_deinit(&saved[1]);
}

/* All but memory, which is of the process. */
static void assert_same_stats(const rbt_shard *a, const rbt_shard *b)
{
    struct rbt_shard_stats x;
    struct rbt_shard_stats y;
    rbt_shard_stats(a, &x);
    rbt_shard_stats(b, &y);
    assert_int_equal(x.updates, y.updates);
    assert_int_equal(x.duplicates, y.duplicates);
    assert_int_equal(x.rows, y.rows);
    assert_int_equal(x.held, y.held);
    assert_int_equal(x.snapshots, y.snapshots);
    assert_int_equal(x.versions_max, y.versions_max);
    assert_int_equal(x.snapshots_max, y.snapshots_max);
    for (uint32_t i = 0; i < RIG_WORKERS; i++) {
        assert_int_equal(rbt_shard_arrived(a, i), rbt_shard_arrived(b, i));
        assert_int_equal(rbt_shard_settled(a, i), rbt_shard_settled(b, i));
        assert_int_equal(rbt_shard_clock(a, i), rbt_shard_clock(b, i));
    }
    for (uint32_t i = 0; i < table_count; i++) {
        assert_int_equal(rbt_shard_version(a, i), rbt_shard_version(b, i));
        assert_int_equal(rbt_shard_sends_early(a, i), rbt_shard_sends_early(b, i));
    }
}

static void run(rbt_shard *shard, uint64_t events)
{
    for (uint64_t i = 0; i < events; i++) {
        draw(shard);
        rig_step(shard, &boxes[0]);
        rig_note(&rig, &boxes[0]);
    }
}

static void run_both(rbt_shard *first, rbt_shard *second, uint64_t events, uint64_t seed)
{
    for (uint64_t i = 0; i < events; i++) {
        draw(first);
        boxes[1] = boxes[0];
        rig_step(first, &boxes[0]);
        rig_step(second, &boxes[1]);
        rig_note(&rig, &boxes[0]);
        if (!rig_is_equal(&boxes[0], &boxes[1])) {
            fail_msg("seed %llu: event %llu after loading, of kind %d, table %u, had other effects",
                     (unsigned long long)seed, (unsigned long long)i, (int)boxes[0].event.kind,
                     boxes[0].event.table);
        }
        assert_same_stats(first, second);
    }
}

static void a_loaded_shard_does_what_the_saved_one_does(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const bool opens = seed % 2 == 0; /* else nobody's own rules, which could not be found */
        rbt_shard *first = start(seed, opens);
        rbt_shard *second = NULL;
        const uint64_t before = rig_below(&rig, EVENTS + 1);
        run(first, before);
        assert_ok(rbt_shard_create(&rig_options, &second));
        if (opens) {
            open_tables(second);
        }
        struct rbt_sink sink;
        save(first, &sink);
        assert_ok(load(second, sink.bytes, sink.count));
        rbt_sink_deinit(&sink);
        assert_same_state(first, second, seed);
        assert_same_stats(first, second);
        run_both(first, second, EVENTS - before + 20, seed);
        assert_same_state(first, second, seed);
        rbt_shard_destroy(first);
        rbt_shard_destroy(second);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

/* --- Streams in pieces ------------------------------------------------------------------------ */

struct pieces {
    struct rbt_sink all;
    size_t at;
    size_t largest;
};

static rbt_status take_piece(void *context, const void *bytes, size_t count)
{
    struct pieces *p = context;
    p->largest = count > p->largest ? count : p->largest;
    rbt_sink_put(&p->all, bytes, count);
    return p->all.status;
}

static rbt_status give_piece(void *context, void *to, size_t room, size_t *count)
{
    struct pieces *p = context;
    const size_t left = p->all.count - p->at;
    const size_t most = left < 1000 ? left : 1000;
    *count = room < most ? room : most;
    memcpy(to, p->all.bytes + p->at, *count);
    p->at += *count;
    return RBT_OK;
}

/* Many rows, so that they take several records. */
static void large_tables_go_in_pieces(void **state)
{
    (void)state;
    enum { ROWS = 300000 };
    rbt_shard *first = start(1, false);
    rbt_shard *second = NULL;
    struct pieces pieces = {0};
    struct rbt_sink sink = {.write = take_piece, .context = &pieces};
    struct rbt_source source = {.read = give_piece, .context = &pieces};
    table_count = 1;
    rbt_shard_destroy(first);
    tables[0] = (struct rbt_spec){.width = 1, .staleness = 0};
    assert_ok(rbt_shard_create(&rig_options, &first));
    open_tables(first);
    assert_ok(rbt_rows_reserve(first->tables[0].rows, ROWS));
    for (uint64_t i = 0; i < ROWS; i++) {
        const uint32_t slot = rbt_rows_add(first->tables[0].rows, i * i);
        *(float *)rbt_rows_row(first->tables[0].rows, slot) = (float)i;
    }
    assert_ok(rbt_shard_save(first, &sink));
    assert_true(pieces.largest < 1 << 21);
    assert_true(pieces.all.count > 3 * pieces.largest);
    assert_ok(rbt_shard_create(&rig_options, &second));
    assert_ok(rbt_shard_load(second, &source));
    assert_same_state(first, second, 0);
    rbt_source_deinit(&source);
    rbt_sink_deinit(&sink);
    rbt_sink_deinit(&pieces.all);
    rbt_shard_destroy(first);
    rbt_shard_destroy(second);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* --- Damage ----------------------------------------------------------------------------------- */

static void what_is_cut_off_or_flipped_is_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        rbt_shard *first = start(seed, true);
        run(first, 60);
        struct rbt_sink sink;
        struct rbt_sink other;
        save(first, &sink);
        char *bytes = rbt_calloc(sink.count, 1);
        assert_non_null(bytes);
        run(first, 10);
        save(first, &other);
        const size_t step = 1 + sink.count / 2000;
        for (size_t i = 0; i < sink.count; i += i < 500 ? 1 : step) {
            assert_int_equal(load(first, sink.bytes, i), RBT_E_DATA);
            memcpy(bytes, sink.bytes, sink.count);
            bytes[i] = (char)(bytes[i] ^ 1 << i % 8);
            assert_int_equal(load(first, bytes, sink.count), RBT_E_DATA);
        }
        struct rbt_sink after; /* and nothing has changed */
        save(first, &after);
        assert_int_equal(after.count, other.count);
        assert_memory_equal(after.bytes, other.bytes, after.count);
        assert_ok(load(first, sink.bytes, sink.count));
        rbt_free(bytes);
        rbt_sink_deinit(&after);
        rbt_sink_deinit(&other);
        rbt_sink_deinit(&sink);
        rbt_shard_destroy(first);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

/* Changes a number somewhere behind the head to one that is likely to matter. */
static void damage(char *bytes, size_t count)
{
    const size_t place = RBT_RECORD_STREAM + (size_t)rig_below(&rig, count - RBT_RECORD_STREAM - 8);
    const uint64_t number = (UINT64_C(1) << rig_below(&rig, 64)) + rig_below(&rig, 3) - 1;
    const uint64_t how = rig_below(&rig, 4);
    if (how == 0) {
        bytes[place] = (char)(bytes[place] ^ 1 << rig_below(&rig, 8));
    } else if (how == 1) {
        bytes[place] = (char)(bytes[place] + (rig_once_in(&rig, 2) ? 1 : -1));
    } else {
        memcpy(bytes + place, &number, how == 2 ? 4 : 8);
    }
}

static void a_damaged_state_with_a_right_checksum_breaks_nothing(void **state)
{
    (void)state;
    uint64_t loaded = 0;
    for (uint64_t seed = 0; seed < HOSTILE_SEEDS; seed++) {
        rbt_shard *first = start(seed + 5000, seed % 2 == 0);
        run(first, 20 + rig_below(&rig, 80));
        struct rbt_sink sink;
        save(first, &sink);
        char *bytes = rbt_calloc(sink.count, 1);
        for (int i = 0; i < HOSTILE_TRIES; i++) {
            memcpy(bytes, sink.bytes, sink.count);
            for (uint64_t k = rig_below(&rig, 3); k < 3; k++) {
                damage(bytes, sink.count);
            }
            (void)rig_mend(bytes, sink.count);
            const rbt_status st = load(first, bytes, sink.count);
            assert_true(st == RBT_OK || st == RBT_E_DATA || st == RBT_E_NOMEM);
            if (st == RBT_OK) {
                loaded++;
                run(first, HOSTILE_EVENTS);
                assert_ok(load(first, sink.bytes, sink.count));
            }
        }
        rbt_free(bytes);
        rbt_sink_deinit(&sink);
        rbt_shard_destroy(first);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    assert_true(loaded >
                HOSTILE_SEEDS); /* most of the damage is to values, which can be anything */
}

/* --- Sentences -------------------------------------------------------------------------------- */

static void what_does_not_fit_is_refused_with_a_sentence(void **state)
{
    (void)state;
    rbt_shard *first = start(2, false);
    rbt_shard *other = NULL;
    struct rbt_sink sink;
    save(first, &sink);
    struct rbt_shard_options options = rig_options;
    options.worker_count++;
    assert_ok(rbt_shard_create(&options, &other));
    assert_fails(load(other, sink.bytes, sink.count), RBT_E_DATA, "another number of workers");
    assert_fails(load(first, sink.bytes, 3), RBT_E_DATA,
                 "the saved state cannot be read: it is cut");
    sink.bytes[0] = 'X';
    assert_fails(load(first, sink.bytes, sink.count), RBT_E_DATA, "it is something else");
    sink.bytes[0] = 'R';
    sink.bytes[4] = 2;
    assert_fails(load(first, sink.bytes, sink.count), RBT_E_DATA, "another version of Rubato");
    sink.bytes[4] = 1;
    sink.bytes[8] = 9;
    assert_fails(load(first, sink.bytes, sink.count), RBT_E_DATA, "another kind of machine");
    rbt_sink_deinit(&sink);
    rbt_shard_destroy(other);
    rbt_shard_destroy(first);
}

/* A record that nobody knows is skipped if it says that it may be. */
static void unknown_parts_are_skipped_if_they_may_be(void **state)
{
    (void)state;
    rbt_shard *shard = start(3, false);
    for (uint32_t optional = 0; optional < 2; optional++) {
        struct rbt_sink sink = {0};
        struct rbt_sink saved;
        save(shard, &saved);
        rbt_sink_put(&sink, saved.bytes, saved.count - RBT_RECORD_CHECKSUM);
        rbt_sink_put_u32(&sink, 77 | (optional == 1 ? RBT_RECORD_OPTIONAL : 0));
        rbt_sink_put_u32(&sink, 5);
        rbt_sink_put_u64(&sink, 4);
        rbt_sink_put(&sink, "what", 4);
        rbt_sink_put(&sink, saved.bytes + saved.count - RBT_RECORD_CHECKSUM, RBT_RECORD_CHECKSUM);
        assert_true(rig_mend(sink.bytes, sink.count));
        if (optional == 1) {
            assert_ok(load(shard, sink.bytes, sink.count));
        } else {
            assert_fails(load(shard, sink.bytes, sink.count), RBT_E_DATA,
                         "it has a part that this version cannot read");
        }
        rbt_sink_deinit(&sink);
        rbt_sink_deinit(&saved);
    }
    rbt_shard_destroy(shard);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Saving and loading with every allocation failing in turn. */
static void without_memory_nothing_is_lost(void **state)
{
    (void)state;
    rbt_shard *first = start(8, true);
    run(first, 80);
    struct rbt_sink sink;
    save(first, &sink);
    const size_t live = rbt_alloc_live();
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        rbt_alloc_fail_nth(nth);
        st = load(first, sink.bytes, sink.count);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        struct rbt_sink again;
        save(first, &again);
        assert_memory_equal(again.bytes, sink.bytes, sink.count);
        rbt_sink_deinit(&again);
    }
    st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        struct rbt_sink again = {0};
        rbt_alloc_fail_nth(nth);
        st = rbt_shard_save(first, &again);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        rbt_sink_deinit(&again);
    }
    assert_true(rbt_alloc_live() <= live);
    rbt_sink_deinit(&sink);
    rbt_shard_destroy(first);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_shard_does_what_the_saved_one_does),
        cmocka_unit_test(large_tables_go_in_pieces),
        cmocka_unit_test(what_is_cut_off_or_flipped_is_refused),
        cmocka_unit_test(a_damaged_state_with_a_right_checksum_breaks_nothing),
        cmocka_unit_test(what_does_not_fit_is_refused_with_a_sentence),
        cmocka_unit_test(unknown_parts_are_skipped_if_they_may_be),
        cmocka_unit_test(without_memory_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
