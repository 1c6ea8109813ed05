/* store/shard_test.c - one test per promise of shard.c, and random and exhaustive schedules judged
 * by an oracle that knows the rule of visibility and nothing else. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "store/bins.h"
#include "store/shard.h"

enum { WORKERS_MAX = 4, NONE = RBT_MARKER_NONE };

struct fixture {
    rbt_shard *shard;
    struct rbt_shard_effect effects[WORKERS_MAX + 1];
    struct rbt_shard_outbox out;
};

static void open_table(struct fixture *f, uint32_t table, const struct rbt_spec *spec)
{
    const struct rbt_shard_event event = {.kind = RBT_SHARD_TABLE, .table = table, .spec = spec};
    rbt_shard_step(f->shard, &event, &f->out);
    assert_ok(f->out.status);
}

static struct rbt_spec sums(rbt_type type, int64_t staleness)
{
    return (struct rbt_spec){.type = type, .width = 1, .staleness = staleness};
}

static void start(struct fixture *f, uint32_t workers, const struct rbt_spec *spec)
{
    *f = (struct fixture){0};
    f->out.effects = f->effects;
    const struct rbt_shard_options options = {
        .worker_count = workers, .table_max = 4, .parked_max = workers};
    assert_ok(rbt_shard_create(&options, &f->shard));
    open_table(f, 0, spec);
}

static void stop(struct fixture *f)
{
    rbt_shard_destroy(f->shard);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Whose message it is, and what it says of clocks. */
struct message {
    uint32_t worker;
    uint64_t sequence; /* 0: the next one */
    int64_t clock;
    int64_t marker;
};

/* Sends the message, and before it empty ones with the sequences that are missing. */
static void push_batches(struct fixture *f, struct message m, struct rbt_batch *batches,
                         size_t count)
{
    m.sequence = m.sequence != 0 ? m.sequence : rbt_shard_arrived(f->shard, m.worker) + 1;
    while (rbt_shard_arrived(f->shard, m.worker) + 1 < m.sequence) {
        const struct rbt_shard_event empty = {.kind = RBT_SHARD_PUSH,
                                              .worker = m.worker,
                                              .sequence = rbt_shard_arrived(f->shard, m.worker) + 1,
                                              .marker = RBT_MARKER_NONE};
        rbt_shard_step(f->shard, &empty, &f->out);
        assert_ok(f->out.status);
    }
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = m.worker,
                                          .sequence = m.sequence,
                                          .clock = m.clock,
                                          .marker = m.marker,
                                          .batches = batches,
                                          .batch_count = count};
    rbt_shard_step(f->shard, &event, &f->out);
}

static void push(struct fixture *f, struct message m, uint64_t key, void *value)
{
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = value};
    push_batches(f, m, &batch, 1);
    assert_ok(f->out.status);
}

static void push_i64(struct fixture *f, struct message m, int64_t value)
{
    push(f, m, 1, &value);
}

static void leave(struct fixture *f, uint32_t worker)
{
    rbt_shard_step(f->shard, &(struct rbt_shard_event){.kind = RBT_SHARD_LEAVE, .worker = worker},
                   &f->out);
}

/* True if it was answered. */
static bool pull(struct fixture *f, uint64_t request, int64_t need, void *value, uint64_t *applied)
{
    const uint64_t key = 1;
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = value};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .need = need,
                                          .request = request,
                                          .applied = applied,
                                          .applied_count = applied == NULL ? 0 : 2};
    rbt_shard_step(f->shard, &event, &f->out);
    assert_ok(f->out.status);
    return f->out.count == 1 && f->effects[0].kind == RBT_SHARD_ANSWERED;
}

static int64_t look(struct fixture *f)
{
    int64_t value = -1;
    assert_true(pull(f, 0, RBT_CLOCK_ANY, &value, NULL));
    return value;
}

static struct rbt_shard_stats stats_of(const struct fixture *f)
{
    struct rbt_shard_stats stats;
    rbt_shard_stats(f->shard, &stats);
    return stats;
}

/* Worker 0 has completed clock 2; the floor is what worker 1 has completed. */
static void a_clock_is_shown_when_the_floor_is_near_enough(void **state)
{
    (void)state;
    const struct {
        int64_t staleness;
        int64_t shown_at; /* the floor that shows clock 2 */
    } table[] = {{0, 3}, {1, 2}, {2, 1}, {3, 0}, {RBT_STALENESS_ANY, 0}};
    for (size_t i = 0; i < 5; i++) {
        struct fixture f;
        const struct rbt_spec spec = sums(RBT_I64, table[i].staleness);
        start(&f, 2, &spec);
        push_i64(&f, (struct message){0, 1, 2, 3}, 7);
        for (int64_t floor = 0; floor <= 3; floor++) {
            push_batches(&f, (struct message){1, 0, 0, floor}, NULL, 0);
            assert_int_equal(look(&f), floor >= table[i].shown_at ? 7 : 0);
            assert_int_equal(stats_of(&f).held, floor < table[i].shown_at);
        }
        stop(&f);
    }
}

static void an_unfinished_clock_is_hidden_unless_partial_clocks_are_shown(void **state)
{
    (void)state;
    for (int partial = RBT_PARTIAL_HIDE; partial <= RBT_PARTIAL_SHOW; partial++) {
        struct fixture f;
        struct rbt_spec spec = sums(RBT_I64, 3);
        spec.partial = (rbt_partial)partial;
        start(&f, 2, &spec);
        push_i64(&f, (struct message){0, 1, 0, NONE}, 7);
        assert_int_equal(look(&f), partial == RBT_PARTIAL_SHOW ? 7 : 0);
        push_batches(&f, (struct message){0, 0, 0, 1}, NULL, 0);
        assert_int_equal(look(&f), 7);
        stop(&f);
    }
}

/* 1e8 + 1 - 1e8 in floats is 0 or 1, depending on the order. */
static void bsp_applies_clocks_in_the_order_of_workers(void **state)
{
    (void)state;
    float values[3] = {1e8F, 1, -1e8F};
    const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < 6; i++) {
        struct fixture f;
        const struct rbt_spec spec = sums(RBT_F32, 0);
        start(&f, 3, &spec);
        for (size_t k = 0; k < 3; k++) {
            const uint32_t worker = orders[i][k];
            push(&f, (struct message){worker, 1, 0, 1}, 1, &values[worker]);
        }
        float read = -1;
        assert_true(pull(&f, 0, 1, &read, NULL));
        assert_true(read == 0); /* (1e8 + 1) - 1e8 */
        stop(&f);
    }
}

static void duplicates_are_dropped_and_counted(void **state)
{
    (void)state;
    struct fixture f;
    const struct rbt_spec spec = sums(RBT_I64, RBT_STALENESS_ANY);
    start(&f, 2, &spec);
    push_i64(&f, (struct message){0, 1, 0, 1}, 5);
    push_i64(&f, (struct message){0, 1, 0, 1}, 5);
    push_i64(&f, (struct message){0, 2, 1, NONE}, 6); /* held: its clock has not ended */
    push_i64(&f, (struct message){0, 2, 1, NONE}, 6);
    push_i64(&f, (struct message){0, 1, 0, 1}, 5);
    assert_int_equal(look(&f), 5);
    assert_int_equal(stats_of(&f).held, 1);
    leave(&f, 0);
    assert_int_equal(look(&f), 11);
    assert_int_equal(stats_of(&f).duplicates, 3);
    assert_int_equal(stats_of(&f).updates, 2);
    stop(&f);
}

/* An update that waits for its clock is memory, too. */
static void bytes_count_what_is_held(void **state)
{
    (void)state;
    struct fixture f;
    const struct rbt_spec spec = sums(RBT_I64, 0);
    start(&f, 2, &spec);
    const size_t before = stats_of(&f).bytes;
    push_i64(&f, (struct message){0, 1, 0, NONE}, 5);
    assert_int_equal(stats_of(&f).held, 1);
    assert_true(stats_of(&f).bytes >= before + sizeof(struct rbt_bin) + 2 * sizeof(int64_t));
    stop(&f);
}

static void a_pull_says_which_sequences_its_rows_contain(void **state)
{
    (void)state;
    struct fixture f;
    const struct rbt_spec spec = sums(RBT_I64, 0);
    uint64_t applied[2];
    int64_t value = 0;
    start(&f, 2, &spec);
    push_i64(&f, (struct message){0, 4, 0, 1}, 5);
    assert_true(pull(&f, 0, 0, &value, applied));
    assert_int_equal(applied[0], 0);
    push_i64(&f, (struct message){1, 9, 0, 1}, 6);
    assert_true(pull(&f, 0, 0, &value, applied));
    assert_int_equal(applied[0], 4);
    assert_int_equal(applied[1], 9);
    stop(&f);
}

static void parked_pulls_are_ready_exactly_when_the_floor_reaches_them(void **state)
{
    (void)state;
    struct fixture f;
    const struct rbt_spec spec = sums(RBT_I64, 1);
    int64_t value = 0;
    start(&f, 2, &spec);
    assert_false(pull(&f, 71, 2, &value, NULL));
    assert_false(pull(&f, 72, 1, &value, NULL));
    assert_false(pull(&f, 73, 1, &value, NULL)); /* one per worker is enough */
    assert_int_equal(f.effects[0].kind, RBT_SHARD_REFUSED);
    push_i64(&f, (struct message){0, 1, 0, 1}, 5);
    assert_int_equal(f.out.count, 0);
    push_i64(&f, (struct message){1, 1, 0, 1}, 6);
    assert_int_equal(f.out.count, 1);
    assert_int_equal(f.effects[0].kind, RBT_SHARD_READY);
    assert_int_equal(f.effects[0].request, 72);
    assert_int_equal(f.out.floor, 1);
    leave(&f, 0);
    leave(&f, 1);
    assert_int_equal(f.out.count, 1);
    assert_int_equal(f.effects[0].request, 71);
    assert_true(pull(&f, 71, 2, &value, NULL));
    assert_int_equal(value, 11);
    stop(&f);
}

static void raising_the_staleness_shows_what_was_held(void **state)
{
    (void)state;
    struct fixture f;
    struct rbt_spec spec = sums(RBT_I64, 0);
    start(&f, 2, &spec);
    push_i64(&f, (struct message){0, 1, 0, 1}, 1);
    push_i64(&f, (struct message){0, 2, 1, 2}, 10);
    push_i64(&f, (struct message){0, 3, 2, 3}, 100);
    assert_int_equal(look(&f), 0);
    spec.staleness = 2;
    open_table(&f, 0, &spec);
    assert_int_equal(look(&f), 11);
    spec.staleness = 0; /* what is visible stays so; what comes obeys */
    open_table(&f, 0, &spec);
    assert_int_equal(look(&f), 11);
    push_batches(&f, (struct message){1, 0, 0, 2}, NULL, 0);
    assert_int_equal(look(&f), 11);
    push_batches(&f, (struct message){1, 0, 0, 3}, NULL, 0);
    assert_int_equal(look(&f), 111);
    stop(&f);
}

static void reset_keeps_rows_and_starts_clocks_and_sequences_again(void **state)
{
    (void)state;
    struct fixture f;
    const struct rbt_spec spec = sums(RBT_I64, 0);
    uint64_t applied[2];
    int64_t value = 0;
    start(&f, 2, &spec);
    push_i64(&f, (struct message){0, 1, 0, 1}, 5);
    leave(&f, 0);
    leave(&f, 1);
    rbt_shard_step(f.shard, &(struct rbt_shard_event){.kind = RBT_SHARD_RESET}, &f.out);
    assert_int_equal(f.out.floor, 0);
    assert_true(pull(&f, 0, 0, &value, applied));
    assert_int_equal(value, 5);
    assert_int_equal(applied[0], 0);
    push_i64(&f, (struct message){0, 1, 0, 1}, 5); /* the same number, a new message */
    push_i64(&f, (struct message){1, 1, 0, 1}, 5);
    assert_int_equal(look(&f), 15);
    assert_int_equal(stats_of(&f).duplicates, 0);
    stop(&f);
}

static void a_scan_finds_rows_of_a_range_and_says_how_many_there_are(void **state)
{
    (void)state;
    struct fixture f;
    const struct rbt_spec spec = sums(RBT_I64, RBT_STALENESS_ANY);
    start(&f, 1, &spec);
    for (uint64_t key = 0; key < 10; key++) {
        int64_t value = (int64_t)key * 3 + 1;
        push(&f, (struct message){0, key + 1, (int64_t)key, (int64_t)key + 1}, key, &value);
    }
    uint64_t keys[4] = {0};
    int64_t values[4] = {0};
    struct rbt_shard_scan scan = {
        .range = {3, 8}, .keys = keys, .values = (char *)values, .capacity = 4};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_SCAN, .scan = &scan};
    rbt_shard_step(f.shard, &event, &f.out);
    assert_int_equal(f.effects[0].kind, RBT_SHARD_ANSWERED);
    assert_int_equal(scan.count, 6);
    assert_int_equal(keys[3], 6);
    assert_int_equal(values[3], 19);
    scan.range = (struct rbt_range){1, 0};
    rbt_shard_step(f.shard, &event, &f.out);
    assert_int_equal(scan.count, 0);
    stop(&f);
}

static void note_elements(void *context, const uint32_t *index, const void *values, size_t count)
{
    int64_t *sum = context; /* of index * 1000 + value */
    for (size_t i = 0; i < count; i++) {
        *sum += (int64_t)index[i] * 1000 + ((const int64_t *)values)[i];
    }
}

static int64_t look_sparse(struct fixture *f)
{
    const uint64_t key = 1;
    int64_t sum = 0;
    struct rbt_batch batch = {.count = 1, .keys = &key};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .need = RBT_CLOCK_ANY,
                                          .on_elements = note_elements,
                                          .context = &sum};
    rbt_shard_step(f->shard, &event, &f->out);
    return sum;
}

static void sparse_updates_wait_like_dense_ones(void **state)
{
    (void)state;
    struct fixture f;
    struct rbt_spec spec = sums(RBT_I64, 0);
    spec.layout = RBT_SPARSE;
    spec.width = 100;
    start(&f, 2, &spec);
    for (uint32_t worker = 0; worker < 2; worker++) {
        const uint64_t key = 1;
        const uint32_t offsets[] = {0, 2};
        const uint32_t elements[] = {worker, 7 + worker};
        int64_t values[] = {1, 2};
        struct rbt_batch batch = {
            .count = 1, .keys = &key, .values = values, .offsets = offsets, .elements = elements};
        assert_int_equal(look_sparse(&f), 0);
        push_batches(&f, (struct message){worker, 1, 0, 1}, &batch, 1);
        assert_ok(f.out.status);
    }
    assert_int_equal(look_sparse(&f), 16006);
    stop(&f);
}

/* Its opening failed elsewhere, so that its number was given to another table. */
static void a_table_that_was_never_used_may_get_another_schema(void **state)
{
    (void)state;
    struct fixture f;
    struct rbt_spec spec = sums(RBT_F32, 0);
    spec.width = 5;
    start(&f, 1, &spec);
    spec = sums(RBT_I64, 0);
    open_table(&f, 0, &spec);
    push_i64(&f, (struct message){0, 1, 0, 1}, 1LL << 40);
    assert_true(look(&f) == 1LL << 40);
    stop(&f);
}

/* Two working sets of one table in one message, all rows new, shown or held. */
static void a_message_may_bring_new_rows_of_one_table_in_several_batches(void **state)
{
    (void)state;
    enum { ROWS = 2000 };
    static uint64_t keys[ROWS];
    static int64_t values[ROWS];
    static uint32_t offsets[2];
    static uint32_t elements[ROWS];
    for (int variant = 0; variant < 4; variant++) {
        struct fixture f;
        struct rbt_batch batches[4];
        struct rbt_spec spec = sums(RBT_I64, variant % 2 == 0 ? RBT_STALENESS_ANY : 0);
        spec.layout = variant < 2 ? RBT_DENSE : RBT_SPARSE;
        spec.width = variant < 2 ? 1 : ROWS;
        start(&f, 2, &spec);
        for (uint32_t i = 0; i < ROWS; i++) { /* sparse: all elements are of one row */
            keys[i] = i + 1;
            values[i] = 1;
            elements[i] = i;
        }
        for (uint32_t i = 0; i < 4; i++) {
            batches[i] = (struct rbt_batch){
                .count = ROWS / 4, .keys = keys + i * (ROWS / 4), .values = values};
            if (variant >= 2) {
                offsets[1] = ROWS / 4;
                batches[i].count = 1;
                batches[i].keys = keys;
                batches[i].offsets = offsets;
                batches[i].elements = elements + i * (ROWS / 4);
            }
        }
        push_batches(&f, (struct message){0, 1, 0, 1}, batches, 4);
        assert_ok(f.out.status);
        leave(&f, 1);
        assert_int_equal(variant < 2 ? stats_of(&f).rows : stats_of(&f).rows * ROWS, ROWS);
        assert_int_equal(variant < 2 ? look(&f) : look_sparse(&f) % 1000000,
                         variant < 2 ? 1 : (ROWS * (ROWS - 1) / 2 * 1000LL + ROWS) % 1000000);
        stop(&f);
    }
}

/* --- Failed allocations ---------------------------------------------------------------------- */

/* A message of two batches of two tables with new rows; table 1 is sparse if asked for. */
static void push_two(struct fixture *f, struct message m, bool is_sparse)
{
    static uint64_t keys[300];
    static int64_t values[300];
    static uint32_t offsets[301];
    static uint32_t elements[300];
    for (uint32_t i = 0; i < 300; i++) {
        keys[i] = i + 1;
        values[i] = 1;
        offsets[i + 1] = i + 1;
        elements[i] = i;
    }
    struct rbt_batch batches[2] = {
        {.table = 0, .count = 300, .keys = keys, .values = values},
        {.table = 1, .count = 300, .keys = keys, .values = values},
    };
    batches[1].offsets = is_sparse ? offsets : NULL;
    batches[1].elements = is_sparse ? elements : NULL;
    push_batches(f, m, batches, 2);
}

static void a_push_without_memory_changes_nothing_and_can_be_repeated(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) { /* shown or held; dense or sparse */
        const bool is_held = variant % 2 == 1;
        const bool is_sparse = variant >= 2;
        struct fixture f;
        struct rbt_spec spec = sums(RBT_I64, is_held ? 0 : RBT_STALENESS_ANY);
        start(&f, 2, &spec);
        spec.layout = is_sparse ? RBT_SPARSE : RBT_DENSE;
        spec.width = is_sparse ? 300 : 1;
        open_table(&f, 1, &spec);
        unsigned nth = 0;
        do {
            rbt_alloc_fail_nth(++nth);
            push_two(&f, (struct message){0, 1, 0, 1}, is_sparse);
            rbt_alloc_fail_nth(0);
            const bool is_done = f.out.status == RBT_OK;
            assert_true(is_done || f.out.status == RBT_E_NOMEM);
            assert_int_equal(f.out.count, 0);
            assert_int_equal(look(&f), is_done && !is_held);
            assert_int_equal(stats_of(&f).held, is_done && is_held ? 2 : 0);
            assert_int_equal(stats_of(&f).updates, is_done && !is_held ? 2 : 0);
        } while (f.out.status != RBT_OK || stats_of(&f).held + stats_of(&f).updates == 0);
        assert_true(nth > 1);
        push_two(&f, (struct message){0, 1, 0, 1}, is_sparse);
        push_batches(&f, (struct message){1, 0, 0, 1}, NULL, 0);
        assert_int_equal(look(&f), 1);
        assert_int_equal(stats_of(&f).duplicates, 1);
        assert_int_equal(stats_of(&f).rows, 600);
        stop(&f);
    }
}

static void create_and_table_survive_every_failed_allocation(void **state)
{
    (void)state;
    struct rbt_shard_effect effects[3];
    struct rbt_shard_outbox out = {.effects = effects};
    const struct rbt_shard_options options = {.worker_count = 2, .table_max = 2, .parked_max = 2};
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        rbt_shard *shard = NULL;
        rbt_alloc_fail_nth(nth);
        st = rbt_shard_create(&options, &shard);
        if (st == RBT_OK) {
            const struct rbt_spec spec = sums(RBT_F32, 0);
            const struct rbt_shard_event event = {.kind = RBT_SHARD_TABLE, .spec = &spec};
            rbt_shard_step(shard, &event, &out);
            st = out.status;
        }
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        rbt_shard_destroy(shard);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    rbt_shard_destroy(NULL);
}

/* --- An oracle --------------------------------------------------------------------------------
 *
 * Each worker has a script of messages. Every message adds a power of two of its own to one row, so
 * that the sum names the set of visible messages. After every step the visible set must be what the
 * rule in the head of shard.c says, and requests must be ready exactly when they may be. */

enum { CLOCKS = 2, PARTS = 2, SCRIPT = CLOCKS * PARTS + 1 };

struct schedule {
    struct fixture f;
    uint32_t workers;
    bool is_split; /* every clock is sent in two messages, only the second with a marker */
    rbt_partial partial;
    int64_t staleness;
    uint32_t sent[WORKERS_MAX];
    int64_t clocks[WORKERS_MAX];
    uint64_t duplicates;
    int64_t needs[WORKERS_MAX]; /* of parked requests; 0: none */
};

static uint32_t script_length(const struct schedule *s)
{
    return s->is_split ? SCRIPT : CLOCKS + 1;
}

static struct message message_at(const struct schedule *s, uint32_t worker, uint32_t at)
{
    const uint32_t parts = s->is_split ? PARTS : 1;
    const int64_t clock = at / parts;
    return (struct message){worker, at + 1, clock, at % parts == parts - 1 ? clock + 1 : NONE};
}

static int64_t weight_of(uint32_t worker, uint32_t at)
{
    return (int64_t)1 << (worker * SCRIPT + at);
}

static int64_t slowest(const struct schedule *s)
{
    int64_t min = RBT_CLOCK_GONE;
    for (uint32_t i = 0; i < s->workers; i++) {
        min = s->clocks[i] < min ? s->clocks[i] : min;
    }
    return min;
}

static int64_t visible_sum(const struct schedule *s)
{
    const int64_t floor = slowest(s);
    int64_t sum = 0;
    for (uint32_t worker = 0; worker < s->workers; worker++) {
        for (uint32_t at = 0; at < s->sent[worker] && at + 1 < script_length(s); at++) {
            const int64_t t = message_at(s, worker, at).clock;
            const bool is_seen = s->partial == RBT_PARTIAL_SHOW || s->clocks[worker] > t;
            if (is_seen && (s->staleness == RBT_STALENESS_ANY || t - s->staleness < floor)) {
                sum += weight_of(worker, at);
            }
        }
    }
    return sum;
}

/* The requests in the outbox are all those, and only those, that may be answered now. */
static void check_ready(struct schedule *s)
{
    for (size_t i = 0; i < s->f.out.count; i++) {
        const uint64_t request = s->f.effects[i].request;
        assert_int_equal(s->f.effects[i].kind, RBT_SHARD_READY);
        assert_true(s->needs[request] > 0 && s->needs[request] <= slowest(s));
        s->needs[request] = 0;
    }
    for (uint32_t i = 0; i < s->workers; i++) {
        assert_true(s->needs[i] == 0 || s->needs[i] > slowest(s));
    }
}

/* What the worker must add by itself is exactly what is not in the rows. */
static void check_visible(struct schedule *s)
{
    uint64_t applied[2] = {0};
    int64_t value = -1;
    assert_true(pull(&s->f, 0, RBT_CLOCK_ANY, &value, applied));
    const int64_t expected = visible_sum(s);
    assert_true(value == expected);
    for (uint32_t worker = 0; worker < 2; worker++) {
        for (uint32_t at = 0; at + 1 < script_length(s); at++) {
            const bool is_in = (value & weight_of(worker, at)) != 0;
            assert_int_equal(is_in, at < applied[worker]);
        }
    }
    assert_int_equal(stats_of(&s->f).duplicates, s->duplicates);
}

/* The worker's next message, or, at the end of its script, that it leaves. */
static void deliver(struct schedule *s, uint32_t worker)
{
    const uint32_t at = s->sent[worker]++;
    if (at + 1 == script_length(s)) {
        s->clocks[worker] = RBT_CLOCK_GONE;
        leave(&s->f, worker);
    } else {
        const struct message m = message_at(s, worker, at);
        s->clocks[worker] = m.marker == NONE ? s->clocks[worker] : m.marker;
        push_i64(&s->f, m, weight_of(worker, at));
    }
    assert_true(s->f.out.floor == slowest(s));
    check_ready(s);
    check_visible(s);
}

static void repeat(struct schedule *s, uint32_t worker, uint32_t at)
{
    const bool is_gone = s->clocks[worker] == RBT_CLOCK_GONE;
    if (at + 1 == script_length(s) || is_gone) {
        return;
    }
    push_i64(&s->f, message_at(s, worker, at), weight_of(worker, at));
    s->duplicates++;
    assert_int_equal(s->f.out.count, 0);
    check_visible(s);
}

static void request(struct schedule *s, uint32_t worker, int64_t need)
{
    int64_t value = 0;
    if (s->needs[worker] == 0) {
        const bool is_answered = pull(&s->f, worker, need, &value, NULL);
        assert_int_equal(is_answered, need <= slowest(s));
        s->needs[worker] = is_answered ? 0 : need;
    }
}

static void begin(struct schedule *s, uint64_t variant)
{
    const int64_t bounds[] = {0, 1, 3, RBT_STALENESS_ANY};
    s->staleness = bounds[variant % 4];
    s->is_split = variant / 4 % 2 == 1;
    s->partial = variant / 8 % 2 == 1 ? RBT_PARTIAL_SHOW : RBT_PARTIAL_HIDE;
    struct rbt_spec spec = sums(RBT_I64, s->staleness);
    spec.partial = s->partial;
    start(&s->f, s->workers, &spec);
}

static void random_schedules_show_what_the_rule_says(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8000; seed++) {
        struct schedule s = {.workers = 2 + (uint32_t)(seed / 16 % 3)};
        struct rbt_rng rng;
        rbt_rng_init(&rng, seed, 0, 0);
        begin(&s, seed % 16);
        uint32_t left = s.workers * script_length(&s);
        while (left > 0) {
            const uint32_t worker = (uint32_t)rbt_rng_below(&rng, s.workers);
            const uint64_t choice = rbt_rng_below(&rng, 4);
            if (choice == 0 && s.sent[worker] > 0) {
                repeat(&s, worker, (uint32_t)rbt_rng_below(&rng, s.sent[worker]));
            } else if (choice == 1) {
                request(&s, worker, 1 + (int64_t)rbt_rng_below(&rng, CLOCKS + 1));
            } else if (s.sent[worker] < script_length(&s)) {
                deliver(&s, worker);
                left--;
            }
        }
        assert_int_equal(stats_of(&s.f).held, 0);
        stop(&s.f);
    }
}

/* All 1680 orders of three workers' two clocks and departures, for each bound. */
static void all_orders_of_three_workers_show_what_the_rule_says(void **state)
{
    (void)state;
    unsigned runs = 0;
    for (uint32_t code = 0; code < 19683 * 4; code++) { /* nine digits of base 3, and the bound */
        uint32_t digits = code / 4;
        uint32_t counts[3] = {0};
        uint32_t order[9];
        for (size_t i = 0; i < 9; i++, digits /= 3) {
            order[i] = digits % 3;
            counts[order[i]]++;
        }
        if (counts[0] != 3 || counts[1] != 3) {
            continue;
        }
        struct schedule s = {.workers = 3};
        begin(&s, code % 4);
        for (size_t i = 0; i < 9; i++) {
            deliver(&s, order[i]);
            repeat(&s, order[i], s.sent[order[i]] - 1);
        }
        stop(&s.f);
        runs++;
    }
    assert_int_equal(runs, 1680 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_is_shown_when_the_floor_is_near_enough),
        cmocka_unit_test(an_unfinished_clock_is_hidden_unless_partial_clocks_are_shown),
        cmocka_unit_test(bsp_applies_clocks_in_the_order_of_workers),
        cmocka_unit_test(duplicates_are_dropped_and_counted),
        cmocka_unit_test(bytes_count_what_is_held),
        cmocka_unit_test(a_pull_says_which_sequences_its_rows_contain),
        cmocka_unit_test(parked_pulls_are_ready_exactly_when_the_floor_reaches_them),
        cmocka_unit_test(raising_the_staleness_shows_what_was_held),
        cmocka_unit_test(reset_keeps_rows_and_starts_clocks_and_sequences_again),
        cmocka_unit_test(a_scan_finds_rows_of_a_range_and_says_how_many_there_are),
        cmocka_unit_test(sparse_updates_wait_like_dense_ones),
        cmocka_unit_test(a_table_that_was_never_used_may_get_another_schema),
        cmocka_unit_test(a_message_may_bring_new_rows_of_one_table_in_several_batches),
        cmocka_unit_test(a_push_without_memory_changes_nothing_and_can_be_repeated),
        cmocka_unit_test(create_and_table_survive_every_failed_allocation),
        cmocka_unit_test(random_schedules_show_what_the_rule_says),
        cmocka_unit_test(all_orders_of_three_workers_show_what_the_rule_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
