/* core/aggregator_random_test.c - workers, an aggregator and shards on a network that loses,
 * repeats and reorders messages; the aggregator loses its memory now and then. Judged by shards
 * that are as simple as can be: every update is taken once, in order, and nobody waits for too
 * long. */
#include "base/test.h"

#include "base/rng.h"
#include "core/aggregator.h"

enum {
    SHARDS = 2,
    EFFECTS = 256,
    CLOCKS = 30,
    MAIL_MAX = 4096,
    MOST = 6,
    PATIENCE = 60,
    TIME_MAX = 200000
};

enum mail_kind {
    PART,   /* worker to aggregator */
    DIRECT, /* to shard: a part by itself */
    MERGED, /* to shard: several parts, one sum */
    ANSWER, /* shard to aggregator */
    ACK,    /* shard to worker: it has so many clocks */
};

struct mail {
    enum mail_kind kind;
    rbt_time at;
    uint32_t shard;
    uint32_t member;
    int64_t clock;
    bool has[MOST]; /* MERGED */
    uint64_t id;
    bool is_refused;
};

/* A shard as it was promised: it takes messages of a member in order, once, and several parts only
 * as a whole. */
struct model {
    int64_t completed[MOST];
    bool is_early[MOST][CLOCKS];
    int taken[MOST][CLOCKS]; /* how often */
};

struct world {
    struct rbt_rng rng;
    uint32_t members;
    int64_t staleness;
    double loss;
    double duplication;
    uint32_t delay;
    double restarts;
    rbt_time wait;
    rbt_time now;
    rbt_aggregator *aggregator;
    struct mail mail[MAIL_MAX];
    size_t mail_count;
    struct model shards[SHARDS];
    int64_t clocks[MOST];        /* that a member has ended */
    int64_t acked[MOST][SHARDS]; /* as it has heard */
    rbt_time sent_at[MOST][SHARDS][CLOCKS];
    rbt_time kept_at[SHARDS][MOST][CLOCKS]; /* 0: does not wait there */
    int kept[SHARDS][MOST][CLOCKS];         /* by the driver, for the aggregator */
    struct mail pending;                    /* parts that were taken */
    uint32_t merged;                        /* pushes of several parts that were taken */
    uint32_t refused;
};

static bool happens(struct world *w, double chance)
{
    return rbt_rng_uniform(&w->rng) < chance;
}

static void post(struct world *w, struct mail mail)
{
    const int copies = happens(w, w->loss) ? 0 : happens(w, w->duplication) ? 2 : 1;
    for (int i = 0; i < copies; i++) {
        assert_true(w->mail_count < MAIL_MAX);
        mail.at = w->now + 1 + (rbt_time)rbt_rng_below(&w->rng, w->delay);
        w->mail[w->mail_count++] = mail;
    }
}

static uint64_t cookie_of(uint32_t shard, uint32_t member, int64_t clock)
{
    return 1 + ((uint64_t)shard * MOST + member) * CLOCKS + (uint64_t)clock;
}

static struct mail mail_of(enum mail_kind kind, uint64_t cookie)
{
    const uint64_t n = cookie - 1;
    return (struct mail){.kind = kind,
                         .clock = (int64_t)(n % CLOCKS),
                         .member = (uint32_t)(n / CLOCKS % MOST),
                         .shard = (uint32_t)(n / CLOCKS / MOST)};
}

/* A part no longer waits: it goes with others of its clock and shard, or is lost. */
static void take_part(struct world *w, const struct mail *part, bool is_sent)
{
    rbt_time *since = &w->kept_at[part->shard][part->member][part->clock];
    assert_true(*since > 0);
    assert_true(w->now - *since <= w->wait);
    *since = 0;
    if (!is_sent) {
        return;
    }
    for (uint32_t i = 0; i < w->members; i++) {
        assert_true(!w->pending.has[i] ||
                    (w->pending.clock == part->clock && w->pending.shard == part->shard));
    }
    assert_false(w->pending.has[part->member]);
    w->pending.clock = part->clock;
    w->pending.shard = part->shard;
    w->pending.member = part->member;
    w->pending.has[part->member] = true;
}

static void send_taken(struct world *w, uint64_t id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < w->members; i++) {
        count += w->pending.has[i];
    }
    assert_true(count > 0);
    w->pending.kind = count == 1 ? DIRECT : MERGED;
    w->pending.id = id;
    post(w, w->pending);
    w->pending = (struct mail){0};
}

/* Does what the aggregator asks for. */
static void perform(struct world *w, const struct rbt_aggregator_outbox *out, bool is_sent)
{
    for (size_t i = 0; i < out->count; i++) {
        const struct rbt_aggregator_effect *effect = &out->effects[i];
        if (effect->kind == RBT_AGGREGATOR_SEND) {
            send_taken(w, effect->id);
            continue;
        }
        const struct mail part = mail_of(DIRECT, effect->cookie);
        int *kept = &w->kept[part.shard][part.member][part.clock];
        assert_int_equal(part.shard, effect->shard);
        switch (effect->kind) {
        case RBT_AGGREGATOR_KEEP:
            w->kept_at[part.shard][part.member][part.clock] = w->now;
            (*kept)++;
            break;
        case RBT_AGGREGATOR_TAKE:
            take_part(w, &part, is_sent);
            break;
        case RBT_AGGREGATOR_FORWARD:
            post(w, part);
            break;
        case RBT_AGGREGATOR_RELEASE:
            assert_true(*kept > 0);
            (*kept)--;
            break;
        case RBT_AGGREGATOR_SEND:
            break;
        }
    }
}

static void acknowledge(struct world *w, uint32_t shard, uint32_t member)
{
    post(w, (struct mail){.kind = ACK,
                          .shard = shard,
                          .member = member,
                          .clock = w->shards[shard].completed[member]});
}

static void model_take(struct model *model, uint32_t member, int64_t clock)
{
    assert_int_equal(model->completed[member], clock);
    assert_int_equal(++model->taken[member][clock], 1);
    model->completed[member]++;
}

static void drain(struct model *model, uint32_t member)
{
    while (model->completed[member] < CLOCKS && model->is_early[member][model->completed[member]]) {
        model_take(model, member, model->completed[member]);
    }
}

static void receive_direct(struct world *w, const struct mail *mail)
{
    struct model *model = &w->shards[mail->shard];
    if (mail->clock > model->completed[mail->member]) {
        model->is_early[mail->member][mail->clock] = true;
        return;
    }
    if (mail->clock == model->completed[mail->member]) {
        model_take(model, mail->member, mail->clock);
        drain(model, mail->member);
    }
    acknowledge(w, mail->shard, mail->member);
}

static void receive_merged(struct world *w, const struct mail *mail)
{
    struct model *model = &w->shards[mail->shard];
    bool is_known = true;
    bool is_new = true;
    for (uint32_t i = 0; i < w->members; i++) {
        is_known = is_known && (!mail->has[i] || model->completed[i] > mail->clock);
        is_new = is_new && (!mail->has[i] || model->completed[i] == mail->clock);
    }
    for (uint32_t i = 0; i < w->members; i++) {
        if (mail->has[i] && is_new) {
            model_take(model, i, mail->clock);
            drain(model, i);
        }
        if (mail->has[i] && (is_new || is_known)) {
            acknowledge(w, mail->shard, i);
        }
    }
    w->merged += is_new;
    w->refused += !is_new && !is_known;
    post(w, (struct mail){.kind = ANSWER,
                          .shard = mail->shard,
                          .id = mail->id,
                          .is_refused = !is_new && !is_known});
}

static void receive(struct world *w, const struct mail *mail)
{
    struct rbt_aggregator_effect effects[EFFECTS];
    struct rbt_aggregator_outbox out = {.effects = effects};
    switch (mail->kind) {
    case PART: {
        const struct rbt_aggregator_part part = {
            .shard = mail->shard,
            .member = mail->member,
            .clock = mail->clock,
            .cookie = cookie_of(mail->shard, mail->member, mail->clock)};
        rbt_aggregator_add(w->aggregator, &part, w->now, &out);
        perform(w, &out, true);
        break;
    }
    case DIRECT:
        receive_direct(w, mail);
        break;
    case MERGED:
        receive_merged(w, mail);
        break;
    case ANSWER:
        rbt_aggregator_answered(w->aggregator, mail->shard, mail->id, mail->is_refused, &out);
        perform(w, &out, true);
        break;
    case ACK: {
        int64_t *acked = &w->acked[mail->member][mail->shard];
        *acked = mail->clock > *acked ? mail->clock : *acked;
        break;
    }
    }
}

/* A worker ends clocks as far as what it has heard of the others lets it, and repeats what is not
 * acknowledged in time. */
static void work(struct world *w, uint32_t member)
{
    int64_t floor = CLOCKS;
    for (uint32_t s = 0; s < SHARDS; s++) {
        for (uint32_t i = 0; i < w->members; i++) {
            floor = w->shards[s].completed[i] < floor ? w->shards[s].completed[i] : floor;
        }
        for (int64_t c = w->acked[member][s]; c < w->clocks[member]; c++) {
            if (w->now - w->sent_at[member][s][c] >= PATIENCE) {
                w->sent_at[member][s][c] = w->now;
                post(w, mail_of(DIRECT, cookie_of(s, member, c)));
            }
        }
    }
    const int64_t clock = w->clocks[member];
    if (clock < CLOCKS && clock - w->staleness <= floor && happens(w, 0.2)) {
        for (uint32_t s = 0; s < SHARDS; s++) {
            w->sent_at[member][s][clock] = w->now;
            post(w, mail_of(PART, cookie_of(s, member, clock)));
        }
        w->clocks[member]++;
    }
}

static void deliver_due(struct world *w)
{
    for (size_t i = 0; i < w->mail_count;) { /* what is posted meanwhile is due later */
        if (w->mail[i].at > w->now) {
            i++;
            continue;
        }
        const struct mail mail = w->mail[i];
        w->mail[i] = w->mail[--w->mail_count];
        receive(w, &mail);
    }
}

static void forget_all(struct world *w)
{
    for (uint32_t s = 0; s < SHARDS; s++) {
        struct rbt_aggregator_effect effects[EFFECTS];
        struct rbt_aggregator_outbox out = {.effects = effects};
        rbt_aggregator_forget(w->aggregator, s, &out);
        perform(w, &out, false);
    }
    for (uint32_t i = 0; i < SHARDS * MOST * CLOCKS; i++) {
        assert_int_equal((&w->kept[0][0][0])[i], 0);
        assert_true((&w->kept_at[0][0][0])[i] == 0);
    }
}

static void expire_all(struct world *w)
{
    while (rbt_aggregator_deadline(w->aggregator) <= w->now) {
        struct rbt_aggregator_effect effects[EFFECTS];
        struct rbt_aggregator_outbox out = {.effects = effects};
        rbt_aggregator_expire(w->aggregator, w->now, &out);
        assert_true(out.count > 0);
        perform(w, &out, true);
    }
}

static bool is_over(const struct world *w)
{
    for (uint32_t i = 0; i < w->members; i++) {
        for (uint32_t s = 0; s < SHARDS; s++) {
            if (w->acked[i][s] < CLOCKS) {
                return false;
            }
        }
    }
    return true;
}

static void run(struct world *w)
{
    const struct rbt_aggregator_options options = {
        .member_count = w->members, .shard_count = SHARDS, .wait = w->wait};
    assert_ok(rbt_aggregator_create(&options, &w->aggregator));
    assert_true(rbt_aggregator_effects_max(w->aggregator) <= EFFECTS);
    for (w->now = 1; !is_over(w); w->now++) {
        assert_true(w->now < TIME_MAX); /* nobody waits for ever */
        deliver_due(w);
        expire_all(w);
        if (happens(w, w->restarts)) {
            forget_all(w);
        }
        for (uint32_t i = 0; i < w->members; i++) {
            work(w, i);
        }
    }
    for (uint32_t s = 0; s < SHARDS; s++) {
        for (uint32_t i = 0; i < w->members; i++) {
            for (int c = 0; c < CLOCKS; c++) {
                assert_int_equal(w->shards[s].taken[i][c], 1);
            }
        }
    }
    forget_all(w);
    rbt_aggregator_destroy(w->aggregator);
}

static void every_update_arrives_once_whatever_happens(void **state)
{
    (void)state;
    uint32_t merged = 0;
    uint32_t refused = 0;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        static struct world w;
        w = (struct world){0};
        rbt_rng_init(&w.rng, seed, 0xa66, 0);
        w.members = 1 + (uint32_t)rbt_rng_below(&w.rng, MOST);
        w.staleness = (int64_t)rbt_rng_below(&w.rng, 12);
        w.loss = happens(&w, 0.7) ? 0.3 * rbt_rng_uniform(&w.rng) : 0;
        w.duplication = happens(&w, 0.7) ? 0.3 * rbt_rng_uniform(&w.rng) : 0;
        w.delay = 1 + (uint32_t)rbt_rng_below(&w.rng, 30);
        w.restarts = happens(&w, 0.3) ? 0.02 : 0;
        w.wait = (rbt_time)rbt_rng_below(&w.rng, 40);
        run(&w);
        merged += w.merged;
        refused += w.refused;
    }
    assert_true(merged > 10000); /* and all of that did happen */
    assert_true(refused > 10000);
}

/* Without faults and in step, every push is of all members. */
static void in_step_all_go_together(void **state)
{
    (void)state;
    static struct world w;
    for (uint32_t members = 2; members <= MOST; members++) {
        w = (struct world){.members = members, .delay = 5, .wait = 200};
        rbt_rng_init(&w.rng, members, 0xa67, 0);
        run(&w);
        assert_int_equal(w.merged, CLOCKS * SHARDS);
        assert_int_equal(w.refused, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_update_arrives_once_whatever_happens),
        cmocka_unit_test(in_step_all_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
