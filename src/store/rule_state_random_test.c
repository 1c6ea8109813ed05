/* store/rule_state_random_test.c - the built-in rules under random schedules, against a reference
 * that keeps the whole history and computes everything from the definitions, bit by bit.
 *
 * Workers read, keep some of their copies, and push updates that name them, in messages of several
 * batches, of which some have no rows, some rows are all zero, and some bases are wrong. Messages
 * come twice, too early, or after a read that was sent later. */
#include "base/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "policy/rule/rule.h"
#include "store/shard.h"

enum {
    WORKERS_MAX = 4,
    ROWS = 5,
    WIDTH_MAX = 19, /* two vectors and a rest */
    BATCHES_MAX = 3,
    CLOCKS = 5,
    MESSAGES_MAX = 300,
    STAMPS_MAX = MESSAGES_MAX * BATCHES_MAX + 1,
    READS_MAX = 200,
    VERSIONS_MAX = 256,
};

static const int64_t bounds[] = {0, 1, 3, RBT_STALENESS_ANY};

enum kind { ADD, CONSGD, ADAGRAD, ADAREV, TRUST, ADADELAY, FTRL, ADAM, DYNSGD };

static const struct {
    enum kind kind;
    bool is_aggregated;
    const char *text;
} rules[] = {
    {ADD, false, "add"},
    {CONSGD, false, "consgd"},
    {ADAGRAD, false, "adagrad:lr=0.3,beta=0.01"},
    {ADAREV, false, "adarev:lr=0.3,beta=0.01"},
    {TRUST, false, "adarev:lr=0.3,beta=0.01,trust=1.5"},
    {ADADELAY, false, "adadelay:lr=0.3,L=0.5,gamma=0.75"},
    {FTRL, false, "ftrl:lr=0.3,l1=0.2,l2=0.1"},
    {ADAM, false, "adam:lr=0.3"},
    {DYNSGD, false, "dynsgd"},
    {ADD, true, "add:aggregate=1"},
    {ADAGRAD, true, "adagrad:lr=0.3,beta=0.01,aggregate=1"},
    {ADAREV, true, "adarev:lr=0.3,beta=0.01,aggregate=1"},
    {ADADELAY, true, "adadelay:lr=0.3,L=0.5,gamma=0.75,aggregate=1"},
};
enum { RULES = sizeof rules / sizeof rules[0] };

struct update {
    uint64_t base; /* RBT_STAMP_NONE: the worker held nothing when it arrived */
    size_t count;
    uint64_t keys[ROWS];
    float values[ROWS * WIDTH_MAX];
};

struct message {
    uint32_t worker;
    uint64_t sequence;
    int64_t clock;
    int64_t marker;
    uint64_t least;
    size_t batch_count;
    struct update batches[BATCHES_MAX];
    bool is_waiting; /* has arrived and is not visible */
};

/* A read that updates may be computed from, as the shard should know it. */
struct read {
    uint64_t stamp;
    uint64_t version; /* V(m): where the next update from it belongs */
    uint64_t sent;    /* messages that its worker had sent before */
    uint32_t waiting; /* updates from it that have arrived and are not visible */
    bool is_kept;
};

struct worker {
    int64_t clock; /* that it has completed, as the shard knows */
    uint64_t sent;
    uint64_t arrived;
    bool has_touched;
    struct message *late; /* sent, but not delivered yet */
    struct read reads[READS_MAX];
    size_t read_count;
    uint64_t copies[READS_MAX]; /* stamps that the worker itself still has */
    size_t copy_count;
};

struct row {
    float w[WIDTH_MAX];
    float n[WIDTH_MAX];    /* sum of squares; AdaRevision's z */
    float most[WIDTH_MAX]; /* AdaRevision's z' */
    float gbar[WIDTH_MAX]; /* sum of all gradients; FTRL's z; Adam's m */
    uint64_t updates;
    float seen; /* AdaRevision's with trust: the largest sum of z so far */
    float step; /* as last changed, and with what it has grown by */
    float scale;
    uint64_t changed; /* messages, with that of the last change */
};

static struct {
    rbt_shard *shard;
    struct rbt_shard_effect effects[WORKERS_MAX + 1];
    struct rbt_shard_outbox out;
    uint64_t seed;
    struct rbt_rng rng;
    enum kind kind;
    bool is_aggregated;
    rbt_partial partial;
    int64_t staleness;
    uint32_t workers;
    uint32_t width;
    struct worker worker[WORKERS_MAX];
    struct message messages[MESSAGES_MAX];
    size_t message_count;
    /* The reference. */
    uint64_t count; /* messages applied */
    int64_t offset; /* clocks of the run before */
    int64_t end;
    struct row rows[ROWS];
    float history[STAMPS_MAX][ROWS][WIDTH_MAX]; /* gbar at every stamp */
    float sums[VERSIONS_MAX][ROWS][WIDTH_MAX];  /* by version, or by clock */
    uint64_t sizes[VERSIONS_MAX];               /* S(v): messages in it */
    uint64_t version_max;                       /* c_max */
    uint64_t gone;                              /* versions below have been dropped */
    uint64_t live_max;
    uint64_t steps; /* aggregates applied */
} t;

static uint64_t below(uint64_t bound)
{
    return rbt_rng_below(&t.rng, bound);
}

static uint64_t key_of(size_t row)
{
    return row * 0x1234567890ABULL + 3;
}

/* --- The reference ---------------------------------------------------------------------------- */

static bool is_zero(const float *values)
{
    bool is_zero = true;
    for (uint32_t i = 0; i < t.width; i++) {
        is_zero = is_zero && values[i] == 0;
    }
    return is_zero;
}

static void step_adarev(struct row *row, const float *g, const float *before)
{
    for (uint32_t i = 0; i < t.width; i++) {
        const float b = row->gbar[i] - before[i];
        const float old = row->updates == 1 ? 0 : 0.3F / (0.01F + sqrtf(row->most[i]));
        row->n[i] += g[i] * g[i] + 2 * g[i] * b;
        row->most[i] = row->n[i] > row->most[i] ? row->n[i] : row->most[i];
        const float now = 0.3F / (0.01F + sqrtf(row->most[i]));
        row->w[i] += -now * g[i] + (old - now) * b;
        row->gbar[i] += g[i];
    }
}

/* The sum of a row's values to a power of 1 or 2, as AdaRevision with trust has it: eight running
 * sums, and the rest. */
static float sum_up(const float *values, uint32_t power)
{
    float sums[8] = {0};
    float rest = 0;
    for (uint32_t i = 0; i < t.width; i++) {
        *(i < t.width / 8 * 8 ? &sums[i % 8] : &rest) +=
            power == 2 ? values[i] * values[i] : values[i];
    }
    return (((sums[0] + sums[4]) + (sums[2] + sums[6])) +
            ((sums[1] + sums[5]) + (sums[3] + sums[7]))) +
           rest;
}

/* AdaRevision with trust: of limited gradients, with a step of the row's own. */
static void step_trust(struct row *row, const float *g, const float *before, uint64_t count,
                       uint64_t base)
{
    if (row->updates == 1 || base >= row->changed) {
        const float bound = sqrtf(1.5F * 1.5F * (sum_up(row->w, 2) / (float)t.width));
        row->step = row->updates > 1 ? fminf(row->step, fmaxf(bound, row->step / 2))
                    : bound > 0      ? bound
                                     : 0.3F;
        row->changed = count + 1;
    }
    const float length = sum_up(g, 2);
    const float factor = row->updates > 1 && length > row->seen ? sqrtf(row->seen / length) : 1;
    const struct row was = *row;
    for (uint32_t i = 0; i < t.width; i++) {
        const float h = factor * g[i];
        row->n[i] += h * h + 2 * h * (was.gbar[i] - before[i]);
        row->most[i] = fmaxf(row->n[i], row->most[i]);
        row->gbar[i] += h;
    }
    row->seen = fmaxf(row->seen, sum_up(row->n, 1));
    const float q = fmaxf(sum_up(row->gbar, 2) / row->seen, 1);
    row->scale = row->step * (q * q * sqrtf(q));
    for (uint32_t i = 0; i < t.width; i++) {
        const float old = was.scale * (1 / (0.01F + sqrtf(was.most[i])));
        const float now = row->scale * (1 / (0.01F + sqrtf(row->most[i])));
        row->w[i] += -now * (factor * g[i]) + (old - now) * (was.gbar[i] - before[i]);
    }
}

static void step_adadelay(struct row *row, const float *g, double t1, double tau)
{
    const float weight = (float)(t1 / (t1 + tau));
    const float growth = (float)(pow(t1 + tau, 0.75) / sqrt(t1));
    for (uint32_t i = 0; i < t.width; i++) {
        row->n[i] += weight * (g[i] * g[i]);
        row->w[i] -= 0.3F / (0.5F + growth * sqrtf(row->n[i])) * g[i];
    }
}

static void step_ftrl(struct row *row, const float *g)
{
    for (uint32_t i = 0; i < t.width; i++) {
        const float root = sqrtf(row->n[i] + g[i] * g[i]);
        row->gbar[i] += (root - sqrtf(row->n[i])) / 0.3F * row->w[i] - g[i];
        row->n[i] += g[i] * g[i];
        const float size = fabsf(row->gbar[i]) - 0.2F;
        row->w[i] = size <= 0 ? 0 : copysignf(size, row->gbar[i]) / ((1.0F + root) / 0.3F + 0.1F);
    }
}

static void step_adam(struct row *row, const float *g)
{
    const float mean = (float)(1 / (1 - pow(0.9, (double)row->updates)));
    const float square = (float)(1 / (1 - pow(0.999, (double)row->updates)));
    for (uint32_t i = 0; i < t.width; i++) {
        row->gbar[i] = 0.9F * row->gbar[i] + (float)(1 - 0.9) * g[i];
        row->n[i] = 0.999F * row->n[i] + (float)(1 - 0.999) * (g[i] * g[i]);
        row->w[i] -= 0.3F * (row->gbar[i] * mean) / (sqrtf(row->n[i] * square) + 1e-8F);
    }
}

/* An update of a row by message number `count` from 0, computed `delay` messages before. */
static void step(struct row *row, const float *g, const float *before, uint64_t count,
                 uint64_t delay)
{
    row->updates++;
    for (uint32_t i = 0; i < t.width; i++) {
        if (t.kind == ADD) {
            row->w[i] += g[i];
        } else if (t.kind == CONSGD) {
            row->w[i] += (float)(1.0 / t.workers) * g[i];
        } else if (t.kind == ADAGRAD) {
            row->n[i] += g[i] * g[i];
            row->w[i] -= 0.3F / (0.01F + sqrtf(row->n[i])) * (g[i] + 0.0F * row->w[i]);
        }
    }
    if (t.kind == ADAREV) {
        step_adarev(row, g, before);
    } else if (t.kind == TRUST) {
        step_trust(row, g, before, count, count - delay);
    } else if (t.kind == ADADELAY) {
        step_adadelay(row, g, (double)count + 1, (double)delay);
    } else if (t.kind == FTRL) {
        step_ftrl(row, g);
    } else if (t.kind == ADAM) {
        step_adam(row, g);
    }
}

static struct read *find_read(struct worker *w, uint64_t stamp)
{
    for (size_t i = 0; i < w->read_count; i++) {
        if (w->reads[i].stamp == stamp && (w->reads[i].is_kept || w->reads[i].waiting > 0)) {
            return &w->reads[i];
        }
    }
    return NULL;
}

/* What a base is taken for: the read itself, else the next that is held, else the last. */
static uint64_t resolve(const struct worker *w, uint64_t base)
{
    uint64_t next = RBT_STAMP_NONE;
    uint64_t last = RBT_STAMP_NONE;
    for (size_t i = 0; i < w->read_count; i++) {
        const struct read *r = &w->reads[i];
        if (r->is_kept || r->waiting > 0) {
            next = r->stamp >= base && r->stamp < next ? r->stamp : next;
            last = last == RBT_STAMP_NONE || r->stamp > last ? r->stamp : last;
        }
    }
    return next != RBT_STAMP_NONE ? next : last;
}

static void add_to(float sums[ROWS][WIDTH_MAX], const struct update *u)
{
    for (size_t i = 0; i < u->count; i++) {
        for (uint32_t k = 0; k < t.width; k++) {
            sums[u->keys[i]][k] += u->values[i * t.width + k];
        }
    }
}

/* A new message of DynSGD: v = V(m), S(v)++, V(m) = v + 1, c_max = c + 1 if that is more. */
static uint64_t map(struct read *read, int64_t clock)
{
    uint64_t version = read == NULL ? t.version_max : read->version;
    version = version < t.gone ? t.gone : version;
    assert_true(version < VERSIONS_MAX);
    if (read != NULL) {
        read->version = version + 1;
    }
    t.version_max = (uint64_t)clock + 1 > t.version_max ? (uint64_t)clock + 1 : t.version_max;
    return version;
}

static void apply(struct message *m)
{
    struct worker *w = &t.worker[m->worker];
    const int64_t clock = t.offset + m->clock;
    uint64_t version = 0;
    uint64_t count = 0; /* of the message before it, and its base */
    uint64_t base = 0;
    for (size_t i = 0; i < m->batch_count; i++) {
        const struct update *u = &m->batches[i];
        struct read *read = u->base == RBT_STAMP_NONE ? NULL : find_read(w, u->base);
        assert_true((read == NULL) == (u->base == RBT_STAMP_NONE));
        if (i == 0 || m->batches[i - 1].base != u->base) {
            count = t.count;
            base = read == NULL ? t.count : read->stamp;
            version = t.kind == DYNSGD ? map(read, clock) : (uint64_t)clock;
            t.sizes[version]++;
            t.count++;
        }
        if (t.kind == DYNSGD || t.is_aggregated) {
            add_to(t.sums[version], u);
        }
        for (size_t k = 0; k < u->count && t.kind != DYNSGD && !t.is_aggregated; k++) {
            const float *g = u->values + k * t.width;
            if (!is_zero(g)) {
                const uint64_t row = u->keys[k];
                step(&t.rows[row], g, t.history[base][row], count, count - base);
            }
        }
        for (size_t k = 0; k < ROWS; k++) {
            memcpy(t.history[t.count][k], t.rows[k].gbar, sizeof t.rows[k].gbar);
        }
        if (m->is_waiting && read != NULL) {
            read->waiting--;
        }
    }
    m->is_waiting = false;
    t.end = m->batch_count > 0 && clock >= t.end ? clock + 1 : t.end;
}

static int64_t slowest(void)
{
    int64_t floor = RBT_CLOCK_GONE;
    for (uint32_t i = 0; i < t.workers; i++) {
        floor = t.worker[i].clock < floor ? t.worker[i].clock : floor;
    }
    return floor;
}

static bool may_show(const struct message *m)
{
    const bool is_complete = t.partial == RBT_PARTIAL_SHOW || t.worker[m->worker].clock > m->clock;
    return is_complete && (t.staleness == RBT_STALENESS_ANY || m->clock - t.staleness < slowest());
}

static bool is_before(const struct message *a, const struct message *b)
{
    if (a->clock != b->clock) {
        return a->clock < b->clock;
    }
    return a->worker != b->worker ? a->worker < b->worker : a->sequence < b->sequence;
}

/* Applies all that has become visible, in the order of clock, worker and sequence. */
static void show(void)
{
    for (;;) { /* ends: one less each time */
        struct message *first = NULL;
        for (size_t i = 0; i < t.message_count; i++) {
            struct message *m = &t.messages[i];
            if (m->is_waiting && may_show(m) && (first == NULL || is_before(m, first))) {
                first = m;
            }
        }
        if (first == NULL) {
            return;
        }
        apply(first);
    }
}

/* Drops versions that nobody's next update belongs to, and applies clocks that are complete. */
static void settle(void)
{
    uint64_t lowest = UINT64_MAX;
    uint64_t live = 0;
    for (uint32_t i = 0; i < t.workers; i++) {
        if (t.worker[i].has_touched && t.worker[i].clock != RBT_CLOCK_GONE) {
            lowest = t.version_max < lowest ? t.version_max : lowest; /* even without a read */
        }
        for (size_t k = 0; k < t.worker[i].read_count; k++) {
            const struct read *r = &t.worker[i].reads[k];
            if (r->is_kept || r->waiting > 0) {
                lowest = r->version < lowest ? r->version : lowest;
            }
        }
    }
    for (uint64_t v = t.gone; t.kind == DYNSGD && v < VERSIONS_MAX; v++) {
        live += t.sizes[v] > 0;
    }
    t.live_max = live > t.live_max ? live : t.live_max;
    if (lowest != UINT64_MAX) { /* what the next read gets is still needed as well */
        lowest = t.version_max < lowest ? t.version_max : lowest;
    }
    lowest = lowest < t.gone ? t.gone : lowest;
    for (uint64_t v = t.gone; t.kind == DYNSGD && v < lowest && v < VERSIONS_MAX; v++) {
        t.gone = t.sizes[v] > 0 ? v + 1 : t.gone;
    }
    const int64_t floor = slowest();
    const int64_t end = floor == RBT_CLOCK_GONE ? t.end : t.offset + floor;
    for (int64_t c = 0; t.is_aggregated && c < end; c++) {
        for (size_t row = 0; t.sizes[c] > 0 && row < ROWS; row++) {
            if (!is_zero(t.sums[c][row])) {
                step(&t.rows[row], t.sums[c][row], t.rows[row].gbar, t.steps, 0);
            }
        }
        t.steps += t.sizes[c] > 0;
        t.sizes[c] = 0; /* done */
    }
}

/* What a reader should get. */
static void read_row(size_t row, float *values)
{
    memcpy(values, t.rows[row].w, t.width * sizeof *values);
    for (uint64_t v = 0; t.kind == DYNSGD && v < VERSIONS_MAX; v++) {
        for (uint32_t i = 0; !is_zero(t.sums[v][row]) && i < t.width; i++) {
            values[i] += t.sums[v][row][i] / (float)t.sizes[v];
        }
    }
}

/* --- The shard -------------------------------------------------------------------------------- */

/* Reads all rows and compares. */
static void check_rows(struct rbt_shard_event *event)
{
    uint64_t keys[ROWS];
    float values[ROWS * WIDTH_MAX];
    float expected[WIDTH_MAX];
    for (size_t i = 0; i < ROWS; i++) {
        keys[i] = key_of(i);
    }
    uint64_t stamp = 0;
    struct rbt_batch batch = {.count = ROWS, .keys = keys, .values = values};
    event->kind = RBT_SHARD_PULL;
    event->batches = &batch;
    event->batch_count = 1;
    event->stamp = &stamp;
    rbt_shard_step(t.shard, event, &t.out);
    assert_ok(t.out.status);
    assert_int_equal(t.effects[0].kind, RBT_SHARD_ANSWERED);
    if (stamp != t.count) {
        fail_msg("seed %llu: the stamp is %llu, not %llu", (unsigned long long)t.seed,
                 (unsigned long long)stamp, (unsigned long long)t.count);
    }
    for (size_t i = 0; i < ROWS; i++) {
        read_row(i, expected);
        if (memcmp(expected, values + i * t.width, t.width * sizeof *expected) != 0) {
            fail_msg("seed %llu, rule %s: row %zu is %.9g, not %.9g", (unsigned long long)t.seed,
                     rules[t.seed % RULES].text, i, (double)values[i * t.width],
                     (double)expected[0]);
        }
    }
}

static void check(void)
{
    struct rbt_shard_stats stats;
    check_rows(&(struct rbt_shard_event){.need = RBT_CLOCK_ANY});
    rbt_shard_stats(t.shard, &stats);
    size_t waiting = 0;
    for (size_t i = 0; i < t.message_count; i++) {
        waiting += t.messages[i].is_waiting ? t.messages[i].batch_count : 0;
    }
    assert_int_equal(stats.held, waiting);
    if (t.kind == DYNSGD) {
        assert_int_equal(stats.versions_max, t.live_max);
    }
}

static void send(struct message *m)
{
    uint64_t keys[BATCHES_MAX][ROWS];
    struct rbt_batch batches[BATCHES_MAX];
    for (size_t i = 0; i < m->batch_count; i++) {
        for (size_t k = 0; k < m->batches[i].count; k++) {
            keys[i][k] = key_of(m->batches[i].keys[k]);
        }
        batches[i] = (struct rbt_batch){.count = m->batches[i].count,
                                        .keys = keys[i],
                                        .values = m->batches[i].values,
                                        .base = m->batches[i].base,
                                        .least = m->least};
    }
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = m->worker,
                                          .sequence = m->sequence,
                                          .clock = m->clock,
                                          .marker = m->marker,
                                          .batches = batches,
                                          .batch_count = m->batch_count};
    rbt_shard_step(t.shard, &event, &t.out);
    assert_ok(t.out.status);
}

/* The message arrives: in the reference and in the shard. */
static void deliver(struct message *m)
{
    struct worker *w = &t.worker[m->worker];
    send(m);
    assert_int_equal(t.out.count, 0);
    for (size_t i = 0; i < m->batch_count; i++) {
        m->batches[i].base = resolve(w, m->batches[i].base);
    }
    for (size_t i = 0; i < m->batch_count; i++) {
        if (m->batches[i].base != RBT_STAMP_NONE) {
            find_read(w, m->batches[i].base)->waiting++;
        }
    }
    m->is_waiting = true;
    w->arrived++;
    w->clock = m->marker == RBT_MARKER_NONE ? w->clock : m->marker;
    w->has_touched = w->has_touched || m->batch_count > 0;
    const bool is_stranger = m->marker != RBT_MARKER_NONE && !w->has_touched;
    for (size_t i = 0; i < w->read_count; i++) {
        const bool is_passed = m->batch_count > 0 ? w->reads[i].stamp < m->least : is_stranger;
        if (is_passed && w->reads[i].sent < m->sequence) {
            w->reads[i].is_kept = false;
        }
    }
    w->copy_count = is_stranger ? 0 : w->copy_count;
    show();
    settle();
    check();
    assert_int_equal(t.out.floor, slowest());
}

/* The worker forgets some of its copies; returns the lowest that is left. */
static uint64_t forget(struct worker *w, bool may_forget_all)
{
    const size_t kept = may_forget_all
                            ? below(w->copy_count + 1)
                            : w->copy_count - below(w->copy_count > 0 ? w->copy_count : 1);
    const size_t gone = w->copy_count - kept;
    if (kept == 0) {
        w->copy_count = 0;
        return RBT_STAMP_NONE;
    }
    memmove(w->copies, w->copies + gone, kept * sizeof *w->copies);
    w->copy_count = kept;
    return w->copies[0];
}

static bool is_waiting(uint32_t worker)
{
    for (size_t i = 0; i < t.message_count; i++) {
        if (t.messages[i].worker == worker && t.messages[i].is_waiting) {
            return true;
        }
    }
    return t.worker[worker].late != NULL;
}

static void pull(uint32_t worker)
{
    struct worker *w = &t.worker[worker];
    const bool has_overtaken = w->arrived < w->sent;
    const uint64_t least = forget(w, true);
    check_rows(&(struct rbt_shard_event){.worker = worker,
                                         .sequence = w->sent,
                                         .need = RBT_CLOCK_ANY,
                                         .is_base = true,
                                         .least = least});
    for (size_t i = 0; i < w->read_count && !has_overtaken; i++) {
        w->reads[i].is_kept = w->reads[i].is_kept && w->reads[i].stamp >= least;
    }
    struct read *read = find_read(w, t.count);
    if (read == NULL) {
        assert_true(w->read_count < READS_MAX);
        read = &w->reads[w->read_count++];
        *read = (struct read){.stamp = t.count, .version = t.version_max};
    }
    read->is_kept = true;
    read->sent = w->sent;
    w->has_touched = true;
    if (w->copy_count == 0 || w->copies[w->copy_count - 1] != t.count) {
        w->copies[w->copy_count++] = t.count;
    }
    settle();
    check();
}

/* A random update, maybe without rows, with rows that are zero, or with zeros in them. */
static void make_update(struct update *u, uint64_t base)
{
    uint32_t order[ROWS];
    rbt_rng_permutation(&t.rng, order, ROWS);
    u->base = base;
    u->count = below(4) == 0 ? 0 : below(ROWS) + 1;
    for (size_t i = 0; i < u->count; i++) {
        const bool is_nothing = below(6) == 0;
        u->keys[i] = order[i];
        for (uint32_t k = 0; k < t.width; k++) {
            const bool is_left_out = is_nothing || below(3) == 0;
            u->values[i * t.width + k] = is_left_out ? 0 : (float)rbt_rng_normal(&t.rng);
        }
    }
}

static void push(uint32_t worker)
{
    struct worker *w = &t.worker[worker];
    struct message *m = &t.messages[t.message_count];
    assert_true(t.message_count < MESSAGES_MAX);
    const bool is_free = !is_waiting(worker);
    *m = (struct message){.worker = worker,
                          .sequence = ++w->sent,
                          .clock = w->clock,
                          .marker = below(3) == 0 ? RBT_MARKER_NONE : w->clock + 1,
                          .batch_count = below(BATCHES_MAX + 1)};
    if (w->copy_count == 0) {
        m->batch_count = m->batch_count > 1 ? 1 : m->batch_count;
    }
    for (size_t i = 0; i < m->batch_count; i++) {
        const bool is_wild = w->copy_count == 0 || (is_free && below(8) == 0);
        make_update(&m->batches[i], is_wild ? below(t.count + 2) : w->copies[below(w->copy_count)]);
    }
    m->least = m->batch_count == 0 ? 0 : forget(w, is_free);
    t.message_count++;
    if (below(4) == 0) {
        w->late = m;
    } else {
        deliver(m);
    }
}

/* A message that was there before, and one that comes too early, change nothing. */
static void disturb(uint32_t worker)
{
    struct worker *w = &t.worker[worker];
    struct message other = {.worker = worker, .sequence = w->arrived, .clock = w->clock};
    other.marker = RBT_MARKER_NONE;
    other.least = RBT_STAMP_NONE;
    other.batch_count = 1;
    make_update(&other.batches[0], 0);
    bool has_table = false; /* only what was for the table is known to it */
    for (size_t i = 0; i < t.message_count; i++) {
        has_table =
            has_table || (t.messages[i].worker == worker && t.messages[i].sequence == w->arrived &&
                          t.messages[i].batch_count > 0);
    }
    if (has_table && below(2) == 0) {
        send(&other);
        assert_int_equal(t.out.count, 0);
    } else {
        other.sequence = w->arrived + 2;
        send(&other);
        assert_int_equal(t.effects[0].kind, RBT_SHARD_EARLY);
    }
    check();
}

static void leave(uint32_t worker)
{
    struct worker *w = &t.worker[worker];
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_LEAVE, .worker = worker, .sequence = w->sent + 1};
    rbt_shard_step(t.shard, &event, &t.out);
    assert_ok(t.out.status);
    w->clock = RBT_CLOCK_GONE;
    show();
    for (size_t i = 0; i < w->read_count; i++) {
        w->reads[i].is_kept = false;
    }
    settle();
    check();
}

static void act(uint32_t worker)
{
    struct worker *w = &t.worker[worker];
    const uint64_t choice = below(8);
    if (w->late != NULL && (choice < 3 || w->clock >= CLOCKS)) {
        struct message *late = w->late;
        w->late = NULL;
        deliver(late);
    } else if (choice < 4) {
        pull(worker);
    } else if (choice == 4) {
        disturb(worker);
    } else if (w->late == NULL && w->clock >= CLOCKS) {
        leave(worker);
    } else if (w->late == NULL) {
        push(worker);
    }
}

/* A run: every worker reads and pushes for a few clocks, and leaves. */
static void run(void)
{
    t.message_count = 0;
    /* Also after versions that were ahead of the clocks. */
    t.end = t.kind == DYNSGD && (int64_t)t.gone > t.end ? (int64_t)t.gone : t.end;
    t.offset = t.end;
    for (uint32_t i = 0; i < t.workers; i++) {
        t.worker[i] = (struct worker){.read_count = 1, .copy_count = 1};
        t.worker[i].reads[0] =
            (struct read){.stamp = t.count, .version = t.version_max, .is_kept = true};
        t.worker[i].copies[0] = t.count;
    }
    while (slowest() != RBT_CLOCK_GONE) {
        const uint32_t worker = (uint32_t)below(t.workers);
        if (t.worker[worker].clock != RBT_CLOCK_GONE) {
            act(worker);
        }
    }
    struct rbt_shard_stats stats;
    rbt_shard_stats(t.shard, &stats);
    assert_int_equal(stats.snapshots, 0);
    assert_int_equal(stats.held, 0);
}

static void start(uint64_t seed)
{
    memset(&t, 0, sizeof t);
    t.out.effects = t.effects;
    t.seed = seed;
    rbt_rng_init(&t.rng, seed, 0, 0);
    t.kind = rules[seed % RULES].kind;
    t.is_aggregated = rules[seed % RULES].is_aggregated;
    t.staleness = bounds[below(4)];
    t.partial = below(4) == 0 ? RBT_PARTIAL_SHOW : RBT_PARTIAL_HIDE;
    t.width = below(2) == 0 ? 1 : below(2) == 0 ? 5 : WIDTH_MAX;
    t.workers = 1 + (uint32_t)below(WORKERS_MAX);
    const struct rbt_shard_options options = {
        .worker_count = t.workers, .table_max = 1, .parked_max = WORKERS_MAX};
    assert_ok(rbt_shard_create(&options, &t.shard));
    struct rbt_spec spec = {
        .width = t.width, .staleness = t.staleness, .partial = t.partial, .name = "weights"};
    memcpy(spec.rule, rules[seed % RULES].text, strlen(rules[seed % RULES].text) + 1);
    if (below(2) == 0) {
        spec.init = RBT_INIT_CONSTANT;
        spec.a = 0.75;
        for (size_t i = 0; i < ROWS * WIDTH_MAX; i++) {
            t.rows[i / WIDTH_MAX].w[i % WIDTH_MAX] = 0.75F;
        }
    }
    assert_ok(rbt_rule_find(spec.rule, &spec.code));
    const struct rbt_shard_event event = {.kind = RBT_SHARD_TABLE, .spec = &spec};
    rbt_shard_step(t.shard, &event, &t.out);
    assert_ok(t.out.status);
}

static void random_schedules_give_what_the_definitions_say(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6000; seed++) {
        start(seed);
        run();
        if (seed % 3 == 0) {
            rbt_shard_step(t.shard, &(struct rbt_shard_event){.kind = RBT_SHARD_RESET}, &t.out);
            assert_ok(t.out.status);
            run();
        }
        rbt_shard_destroy(t.shard);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schedules_give_what_the_definitions_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
