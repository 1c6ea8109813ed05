/* core/session_test.c - one test per promise of session.c, and random runs over a channel that
 * loses, repeats and reorders. The fixture holds a session with room for eight messages that is
 * patient for 100 ms at first, and an outbox. Cookies are the numbers of the messages. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "core/session.h"

#define MS ((rbt_time)1000000)

enum { WINDOW = 8 };

struct fixture {
    rbt_session *session;
    struct rbt_session_effect effects[WINDOW];
    struct rbt_session_outbox out;
};

static const struct rbt_session_options OPTIONS = {
    .window = WINDOW, .resend_first = 100 * MS, .resend_min = 10 * MS, .resend_max = 1000 * MS};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){0};
    assert_ok(rbt_session_create(&OPTIONS, &fixture.session));
    fixture.out.effects = fixture.effects;
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_session_destroy(f->session);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* Times are in milliseconds below. */
static void stream(struct fixture *f, uint64_t number, rbt_time now)
{
    const struct rbt_session_message message = {.number = number, .cookie = number};
    assert_ok(rbt_session_send(f->session, &message, now * MS));
}

static void request(struct fixture *f, uint64_t id, rbt_time now)
{
    const struct rbt_session_message message = {.is_request = true, .number = id, .cookie = id};
    assert_ok(rbt_session_send(f->session, &message, now * MS));
}

static void acknowledge(struct fixture *f, uint64_t number, rbt_time now)
{
    f->out.count = 0;
    rbt_session_acknowledge(f->session, number, now * MS, &f->out);
}

static bool answered(struct fixture *f, uint64_t id, rbt_time now)
{
    f->out.count = 0;
    return rbt_session_answered(f->session, id, now * MS, &f->out);
}

static void expire(struct fixture *f, rbt_time now)
{
    f->out.count = 0;
    rbt_session_expire(f->session, now * MS, &f->out);
}

/* Sends a message of the stream and acknowledges it after `trip`. */
static void round_trip(struct fixture *f, uint64_t number, rbt_time now, rbt_time trip)
{
    stream(f, number, now);
    acknowledge(f, number, now + trip);
    assert_int_equal(f->out.count, 1);
}

static void assert_effect(const struct fixture *f, size_t i, enum rbt_session_effect_kind kind,
                          uint64_t cookie)
{
    assert_true(i < f->out.count);
    assert_int_equal(f->effects[i].kind, kind);
    assert_int_equal(f->effects[i].cookie, cookie);
}

/* A message is due, and is sent again, at `due` and not before. */
static void assert_resent(struct fixture *f, rbt_time due, uint64_t cookie)
{
    assert_int_equal(rbt_session_deadline(f->session), due * MS);
    f->out.count = 0;
    rbt_session_expire(f->session, due * MS - 1, &f->out);
    assert_int_equal(f->out.count, 0);
    expire(f, due);
    assert_int_equal(f->out.count, 1);
    assert_effect(f, 0, RBT_SESSION_TRANSMIT, cookie);
}

static void a_new_session_has_nothing_to_do(void **state)
{
    struct fixture *f = *state;
    assert_true(rbt_session_deadline(f->session) == RBT_TIME_NEVER);
    assert_int_equal(rbt_session_open(f->session), 0);
    assert_int_equal(rbt_session_acknowledged(f->session), 0);
    assert_int_equal(rbt_session_patience(f->session), 100 * MS);
    expire(f, 1000);
    acknowledge(f, 0, 1000);
    assert_int_equal(f->out.count, 0);
}

static void what_is_not_acknowledged_is_sent_again_each_time_later(void **state)
{
    struct fixture *f = *state;
    stream(f, 1, 0);
    assert_resent(f, 100, 1);
    assert_resent(f, 300, 1);
    assert_resent(f, 700, 1);
    assert_resent(f, 1500, 1);
    assert_resent(f, 2500, 1); /* not 3100: 1000 is the most */
    assert_resent(f, 3500, 1);
    expire(f, 9000); /* a late look counts from itself */
    assert_int_equal(f->out.count, 1);
    assert_resent(f, 10000, 1);
    acknowledge(f, 1, 10001);
    assert_effect(f, 0, RBT_SESSION_RELEASE, 1);
    assert_true(rbt_session_deadline(f->session) == RBT_TIME_NEVER);
}

static void an_acknowledgement_releases_the_stream_up_to_its_number(void **state)
{
    struct fixture *f = *state;
    stream(f, 3, 0);
    request(f, 4, 0);
    stream(f, 5, 0);
    stream(f, 9, 0);
    acknowledge(f, 7, 1);
    assert_int_equal(f->out.count, 2);
    assert_effect(f, 0, RBT_SESSION_RELEASE, 3);
    assert_effect(f, 1, RBT_SESSION_RELEASE, 5);
    assert_int_equal(rbt_session_open(f->session), 2);
    assert_int_equal(rbt_session_acknowledged(f->session), 7);
    acknowledge(f, 5, 1); /* older news */
    assert_int_equal(f->out.count, 0);
    assert_int_equal(rbt_session_acknowledged(f->session), 7);
    acknowledge(f, 9, 1);
    assert_effect(f, 0, RBT_SESSION_RELEASE, 9);
    assert_true(answered(f, 4, 1));
    assert_effect(f, 0, RBT_SESSION_RELEASE, 4);
}

/* A receiver may remember more than a sender that has begun again; it then repeats itself. */
static void an_acknowledgement_may_be_ahead_of_the_stream(void **state)
{
    struct fixture *f = *state;
    acknowledge(f, 10, 0);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(rbt_session_acknowledged(f->session), 10);
    stream(f, 5, 1);
    acknowledge(f, 10, 2);
    assert_int_equal(f->out.count, 1);
    assert_effect(f, 0, RBT_SESSION_RELEASE, 5);
    assert_int_equal(rbt_session_open(f->session), 0);
}

static void requests_are_answered_in_any_order_and_once(void **state)
{
    struct fixture *f = *state;
    request(f, 30, 0);
    stream(f, 20, 1); /* a number of the stream is no id */
    request(f, 10, 2);
    assert_true(answered(f, 10, 3));
    assert_int_equal(f->out.count, 1);
    assert_effect(f, 0, RBT_SESSION_RELEASE, 10);
    assert_false(answered(f, 10, 3));
    assert_false(answered(f, 20, 3));
    assert_int_equal(f->out.count, 0);
    assert_int_equal(rbt_session_deadline(f->session), 100 * MS);
    assert_true(answered(f, 30, 3));
    assert_int_equal(rbt_session_deadline(f->session), 101 * MS);
    assert_int_equal(rbt_session_open(f->session), 1);
}

static void a_request_that_was_received_is_asked_after_rarely(void **state)
{
    struct fixture *f = *state;
    request(f, 1, 0);
    rbt_session_received(f->session, 1, 16 * MS);
    assert_int_equal(rbt_session_patience(f->session), 48 * MS); /* 16 + 4 * 8: it was timed */
    assert_resent(f, 16 + 4 * 48, 1);
    rbt_session_received(f->session, 1, 210 * MS); /* no news: what follows is twice as late */
    rbt_session_received(f->session, 2, 210 * MS); /* whose? */
    assert_resent(f, 208 + 2 * 192, 1);
    assert_resent(f, 592 + 4 * 192, 1);
    assert_resent(f, 1360 + 1000, 1);
    assert_true(answered(f, 1, 3000));
    assert_int_equal(rbt_session_patience(f->session), 48 * MS); /* that was no round trip */
    rbt_session_received(f->session, 1, 3001 * MS);
    assert_true(rbt_session_deadline(f->session) == RBT_TIME_NEVER);
}

static void patience_with_a_received_request_has_the_same_limit(void **state)
{
    struct fixture *f = *state;
    request(f, 1, 0);
    assert_resent(f, 100, 1);
    assert_resent(f, 300, 1);
    rbt_session_received(f->session, 1, 310 * MS); /* the timeout is now 400 */
    assert_resent(f, 310 + 1000, 1);
}

/* By hand: SRTT 40, RTTVAR 20; then RTTVAR 25, SRTT 45; then RTTVAR 28.75, SRTT 40. */
static void patience_follows_rfc_6298(void **state)
{
    struct fixture *f = *state;
    round_trip(f, 1, 0, 40);
    assert_int_equal(rbt_session_patience(f->session), 120 * MS);
    round_trip(f, 2, 1000, 80);
    assert_int_equal(rbt_session_patience(f->session), 145 * MS);
    request(f, 7, 2000);
    assert_true(answered(f, 7, 2005)); /* requests count as well */
    assert_int_equal(rbt_session_patience(f->session), 155 * MS);
}

static void patience_stays_within_its_limits(void **state)
{
    struct fixture *f = *state;
    round_trip(f, 1, 0, 0);
    assert_int_equal(rbt_session_patience(f->session), 10 * MS);
    stream(f, 2, 1000);
    acknowledge(f, 2, 1000000); /* nobody called expire in between */
    assert_int_equal(rbt_session_patience(f->session), 1000 * MS);
    for (uint64_t i = 3; i < 1000; i++) { /* with equal round trips the deviation vanishes */
        round_trip(f, i, 1000000, 40);
    }
    const rbt_time patience = rbt_session_patience(f->session);
    assert_in_range(patience, 40 * MS + 1000, 40 * MS + 1010); /* 1000 ns: the granularity */
}

static void an_endless_round_trip_does_not_overflow(void **state)
{
    struct fixture *f = *state;
    stream(f, 1, 0);
    rbt_session_acknowledge(f->session, 1, RBT_TIME_NEVER / 2, &f->out);
    assert_int_equal(f->out.count, 1);
    assert_int_equal(rbt_session_patience(f->session), 1000 * MS);
}

/* Karn: a round trip of 250 would give 750, one of 150 would give 450. */
static void what_was_sent_again_is_not_timed(void **state)
{
    struct fixture *f = *state;
    stream(f, 1, 0);
    assert_resent(f, 100, 1);
    acknowledge(f, 1, 250);
    assert_int_equal(rbt_session_patience(f->session), 200 * MS); /* that of the message */
    stream(f, 2, 1000);
    assert_resent(f, 1200, 2);
    acknowledge(f, 2, 1210);
    assert_int_equal(rbt_session_patience(f->session), 400 * MS);
    round_trip(f, 3, 2000, 20); /* until there is one to go by */
    assert_int_equal(rbt_session_patience(f->session), 60 * MS);
}

static void an_acknowledgement_of_many_times_the_newest(void **state)
{
    struct fixture *f = *state;
    stream(f, 1, 0);
    stream(f, 2, 40);
    acknowledge(f, 2, 60);
    assert_int_equal(rbt_session_patience(f->session), 60 * MS); /* of 20, not of 60 */
}

static void an_acknowledgement_of_something_sent_again_times_nothing(void **state)
{
    struct fixture *f = *state;
    stream(f, 1, 0);
    stream(f, 2, 20);
    stream(f, 3, 90);
    expire(f, 130);
    assert_int_equal(f->out.count, 2);
    acknowledge(f, 3, 180); /* it may have waited for the others */
    assert_int_equal(f->out.count, 3);
    assert_int_equal(rbt_session_patience(f->session), 200 * MS);
}

/* Without it each message would be sent again for ever, as none would be timed. */
static void round_trips_longer_than_the_patience_are_learnt(void **state)
{
    struct fixture *f = *state;
    rbt_time now = 0;
    size_t resent = 0;
    for (uint64_t number = 1; number <= 20; number++) {
        stream(f, number, now);
        for (rbt_time end = now + 350; now < end; now += 10) {
            expire(f, now);
            resent += f->out.count;
        }
        acknowledge(f, number, now);
        assert_int_equal(f->out.count, 1);
    }
    assert_int_equal(resent, 2); /* at 100 and 300 */
    assert_true(rbt_session_patience(f->session) > 350 * MS);
}

static void several_that_are_due_are_sent_oldest_first(void **state)
{
    struct fixture *f = *state;
    stream(f, 1, 0);
    request(f, 900, 10);
    stream(f, 2, 20);
    stream(f, 3, 50);
    expire(f, 100); /* the first waits twice as long and so is due last */
    assert_int_equal(f->out.count, 1);
    expire(f, 320);
    assert_int_equal(f->out.count, 4);
    assert_effect(f, 0, RBT_SESSION_TRANSMIT, 1);
    assert_effect(f, 1, RBT_SESSION_TRANSMIT, 900);
    assert_effect(f, 2, RBT_SESSION_TRANSMIT, 2);
    assert_effect(f, 3, RBT_SESSION_TRANSMIT, 3);
    assert_int_equal(rbt_session_deadline(f->session), (320 + 200) * MS);
}

static void a_full_window_refuses_and_forgets(void **state)
{
    struct fixture *f = *state;
    for (uint64_t number = 1; number <= WINDOW; number++) {
        stream(f, number, (rbt_time)number);
    }
    const struct rbt_session_message message = {.number = 99, .cookie = 99};
    assert_fails(rbt_session_send(f->session, &message, 10 * MS), RBT_E_BUSY, "8 messages");
    assert_int_equal(rbt_session_open(f->session), WINDOW);
    expire(f, 500);
    assert_int_equal(f->out.count, WINDOW);
    acknowledge(f, 1, 500);
    stream(f, 9, 500); /* 99 was not sent, so 9 is larger than all before */
    acknowledge(f, 9, 501);
    assert_int_equal(f->out.count, WINDOW);
    assert_effect(f, 0, RBT_SESSION_RELEASE, 2);
    assert_effect(f, WINDOW - 1, RBT_SESSION_RELEASE, 9);
}

static void without_memory_a_message_is_refused_and_nothing_changes(void **state)
{
    struct fixture *f = *state;
    uint64_t number = 0;
    rbt_status st = RBT_OK;
    while (st == RBT_OK && number < WINDOW) {
        number++;
        const struct rbt_session_message message = {.number = number, .cookie = number};
        rbt_alloc_fail_nth(1);
        st = rbt_session_send(f->session, &message, 0);
        rbt_alloc_fail_nth(0);
    }
    assert_int_equal(st, RBT_E_NOMEM);
    assert_int_equal(number, 5); /* four need none */
    assert_int_equal(rbt_session_open(f->session), 4);
    stream(f, number, 0);
    acknowledge(f, number, 1);
    assert_int_equal(f->out.count, 5);
}

static void an_abandoned_session_releases_all(void **state)
{
    struct fixture *f = *state;
    stream(f, 1, 0);
    request(f, 2, 0);
    rbt_session_received(f->session, 2, MS);
    f->out.count = 0;
    rbt_session_abandon(f->session, &f->out);
    assert_int_equal(f->out.count, 2);
    assert_effect(f, 0, RBT_SESSION_RELEASE, 1);
    assert_effect(f, 1, RBT_SESSION_RELEASE, 2);
    assert_int_equal(rbt_session_open(f->session), 0);
    assert_true(rbt_session_deadline(f->session) == RBT_TIME_NEVER);
    assert_false(answered(f, 2, 2));
    acknowledge(f, 1, 2);
    assert_int_equal(f->out.count, 0);
}

/* --- Random runs ------------------------------------------------------------------------------
 *
 * A sender sends MESSAGES messages through a channel that loses, repeats and reorders them. The
 * receiver takes the stream in order only, and answers some requests at once, others later. It
 * knows what was promised, not how a session works:
 *   safety      the stream arrives once and in order, every request arrives, each message is
 *               released once and not before the receiver has it;
 *   promptness  whatever is due is transmitted, oldest first, and nothing before its time;
 *   limits      a message is refused only when the window is full;
 *   liveness    all is done after a bounded number of events. */

enum {
    MESSAGES = 40,
    PACKETS_MAX = 1000,
    EVENTS_MAX = 200000, /* the worst of the seeds below needs 10,000 */
    NARROW = 6,          /* window */
    NOT_YET = -1,
};

enum packet_kind { PACKET_STREAM, PACKET_REQUEST, PACKET_ACK, PACKET_RECEIVED, PACKET_ANSWER };

struct packet {
    rbt_time at; /* arrives */
    enum packet_kind kind;
    size_t index; /* of the message; of an ACK how many messages the receiver has looked past */
};

struct letter {
    bool is_request;
    uint64_t number;
    rbt_time sent;      /* last, or NOT_YET */
    rbt_time answer_at; /* of a request: when the receiver answers; NOT_YET before it arrives */
    bool is_delivered;
    bool is_released;
};

struct world {
    rbt_session *session;
    struct rbt_rng rng;
    rbt_time now;
    double loss;
    double repetition;
    rbt_time delay_max;
    struct letter letters[MESSAGES];
    size_t sent_count;
    uint32_t open_count;
    rbt_time send_at;    /* when the next letter is sent */
    size_t stream_count; /* the receiver has every message of the stream below this index */
    struct packet packets[PACKETS_MAX];
    size_t packet_count;
    struct rbt_session_effect effects[NARROW];
    struct rbt_session_outbox out;
};

static bool happens(struct world *w, double probability)
{
    return rbt_rng_uniform(&w->rng) < probability;
}

static void post(struct world *w, enum packet_kind kind, size_t index)
{
    const size_t copies = happens(w, w->loss) ? 0 : happens(w, w->repetition) ? 2 : 1;
    for (size_t i = 0; i < copies; i++) {
        const rbt_time delay = 1 + (rbt_time)rbt_rng_below(&w->rng, (uint64_t)w->delay_max);
        assert_true(w->packet_count < PACKETS_MAX);
        w->packets[w->packet_count++] =
            (struct packet){.at = w->now + delay, .kind = kind, .index = index};
    }
}

static void post_letter(struct world *w, size_t index)
{
    struct letter *letter = &w->letters[index];
    letter->sent = w->now;
    post(w, letter->is_request ? PACKET_REQUEST : PACKET_STREAM, index);
}

static void check_effects(struct world *w, enum rbt_session_effect_kind kind)
{
    for (size_t i = 0; i < w->out.count; i++) {
        assert_int_equal(w->effects[i].kind, kind);
        assert_true(w->effects[i].cookie < w->sent_count);
        assert_true(i == 0 || w->effects[i].cookie > w->effects[i - 1].cookie); /* oldest first */
        struct letter *letter = &w->letters[w->effects[i].cookie];
        assert_false(letter->is_released);
        if (kind == RBT_SESSION_RELEASE) {
            assert_true(letter->is_delivered);
            letter->is_released = true;
            w->open_count--;
        } else {
            assert_true(w->now - letter->sent >= OPTIONS.resend_min);
            post_letter(w, w->effects[i].cookie);
        }
    }
    assert_int_equal(rbt_session_open(w->session), w->open_count);
    assert_int_equal(rbt_session_deadline(w->session) == RBT_TIME_NEVER, w->open_count == 0);
}

static void receive_stream(struct world *w, size_t index)
{
    size_t next = w->stream_count;
    while (next < index && w->letters[next].is_request) {
        next++;
    }
    if (next == index) {
        assert_false(w->letters[index].is_delivered);
        w->letters[index].is_delivered = true;
        w->stream_count = index + 1;
    }
    post(w, PACKET_ACK, w->stream_count);
}

static void receive_request(struct world *w, size_t index)
{
    struct letter *letter = &w->letters[index];
    if (letter->answer_at == NOT_YET) {
        letter->is_delivered = true;
        letter->answer_at =
            w->now + (happens(w, 0.5) ? 0 : (rbt_time)rbt_rng_below(&w->rng, 500 * MS));
    }
    post(w, letter->answer_at <= w->now ? PACKET_ANSWER : PACKET_RECEIVED, index);
}

static void arrive(struct world *w, struct packet packet)
{
    const struct letter *letter = &w->letters[packet.index < MESSAGES ? packet.index : 0];
    w->out.count = 0;
    switch (packet.kind) {
    case PACKET_STREAM:
        receive_stream(w, packet.index);
        break;
    case PACKET_REQUEST:
        receive_request(w, packet.index);
        break;
    case PACKET_ACK: {
        const uint64_t number = packet.index == 0 ? 0 : w->letters[packet.index - 1].number;
        rbt_session_acknowledge(w->session, number, w->now, &w->out);
        assert_true(rbt_session_acknowledged(w->session) >= number);
        break;
    }
    case PACKET_RECEIVED:
        rbt_session_received(w->session, letter->number, w->now);
        break;
    case PACKET_ANSWER: {
        const bool is_news = !letter->is_released;
        assert_int_equal(rbt_session_answered(w->session, letter->number, w->now, &w->out),
                         is_news);
        assert_int_equal(w->out.count, is_news);
        break;
    }
    }
    check_effects(w, RBT_SESSION_RELEASE);
}

static void look(struct world *w)
{
    const bool is_due = rbt_session_deadline(w->session) <= w->now;
    w->out.count = 0;
    rbt_session_expire(w->session, w->now, &w->out);
    assert_int_equal(w->out.count > 0, is_due);
    check_effects(w, RBT_SESSION_TRANSMIT);
    assert_true(rbt_session_deadline(w->session) > w->now);
}

static void send_next(struct world *w)
{
    const size_t index = w->sent_count;
    struct letter *letter = &w->letters[index];
    letter->is_request = happens(w, 0.4);
    letter->number =
        (index == 0 ? 0 : w->letters[index - 1].number) + 1 + rbt_rng_below(&w->rng, 3);
    letter->answer_at = NOT_YET;
    const struct rbt_session_message message = {
        .is_request = letter->is_request, .number = letter->number, .cookie = index};
    const rbt_status st = rbt_session_send(w->session, &message, w->now);
    assert_int_equal(st, w->open_count == NARROW ? RBT_E_BUSY : RBT_OK);
    w->send_at = w->now + (rbt_time)rbt_rng_below(&w->rng, 200 * MS);
    if (st == RBT_OK) {
        w->sent_count++;
        w->open_count++;
        post_letter(w, index);
    }
}

/* The next thing that happens: a packet arrives, a letter is sent, or somebody looks. */
static void happen(struct world *w)
{
    const bool is_sending = w->sent_count < MESSAGES;
    rbt_time next = rbt_session_deadline(w->session);
    next = is_sending && w->send_at < next ? w->send_at : next;
    size_t first = 0;
    for (size_t i = 1; i < w->packet_count; i++) {
        first = w->packets[i].at < w->packets[first].at ? i : first;
    }
    if (w->packet_count > 0 && w->packets[first].at <= next) {
        const struct packet packet = w->packets[first];
        w->packets[first] = w->packets[--w->packet_count];
        w->now = packet.at > w->now ? packet.at : w->now;
        arrive(w, packet);
    } else {
        w->now = next > w->now ? next : w->now;
        if (is_sending && w->send_at <= w->now) {
            send_next(w);
        }
        w->now += happens(w, 0.2) ? (rbt_time)rbt_rng_below(&w->rng, 20 * MS) : 0; /* late */
    }
    if (rbt_session_deadline(w->session) <= w->now || happens(w, 0.1)) {
        look(w);
    }
}

static void random_runs_keep_every_promise(void **state)
{
    (void)state;
    static struct world w;
    struct rbt_session_options options = OPTIONS;
    options.window = NARROW;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        w = (struct world){0};
        w.out.effects = w.effects;
        rbt_rng_init(&w.rng, seed, 0, 0);
        w.loss = rbt_rng_uniform(&w.rng) * (seed % 10 == 0 ? 0.9 : 0.4);
        w.repetition = rbt_rng_uniform(&w.rng) * 0.5;
        w.delay_max = 1 + (rbt_time)rbt_rng_below(&w.rng, seed % 3 == 0 ? 600 * MS : 50 * MS);
        assert_ok(rbt_session_create(&options, &w.session));
        int events = 0;
        while (w.sent_count < MESSAGES || w.open_count > 0 || w.packet_count > 0) {
            happen(&w);
            assert_true(++events < EVENTS_MAX);
        }
        for (size_t i = 0; i < MESSAGES; i++) {
            assert_true(w.letters[i].is_delivered);
            assert_true(w.letters[i].is_released);
        }
        rbt_session_destroy(w.session);
    }
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (unsigned nth = 1;; nth++) {
        rbt_session *session = NULL;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_session_create(&OPTIONS, &session);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_session_destroy(session);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(session);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    rbt_session_destroy(NULL);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* There may be 100,000 of them. */
static void a_message_that_is_put_off_is_as_good_as_new(void **state)
{
    struct fixture *f = *state;
    stream(f, 1, 0);
    assert_resent(f, 100, 1);
    rbt_session_put_off(f->session, 1, 100 * MS);
    assert_resent(f, 200, 1); /* the wait has not doubled */
    rbt_session_put_off(f->session, 1, 200 * MS);
    acknowledge(f, 1, 250); /* and it tells how long a trip takes */
    assert_int_equal(rbt_session_patience(f->session), (250 + 4 * 125) * MS);
}

static void a_session_is_small_whatever_its_window(void **state)
{
    (void)state;
    struct rbt_session_options options = OPTIONS;
    options.window = 1000000;
    rbt_session *session = NULL;
    assert_ok(rbt_session_create(&options, &session));
    assert_true(rbt_alloc_live_bytes() <= 512);
    rbt_session_destroy(session);
}

static void room_grows_with_what_is_open_up_to_the_window(void **state)
{
    (void)state;
    enum { WIDE = 1000 };
    static struct rbt_session_effect effects[WIDE];
    struct rbt_session_outbox out = {.effects = effects};
    struct rbt_session_options options = OPTIONS;
    options.window = WIDE;
    rbt_session *session = NULL;
    assert_ok(rbt_session_create(&options, &session));
    for (uint64_t number = 1; number <= WIDE; number++) {
        const struct rbt_session_message message = {.number = number, .cookie = number};
        assert_ok(rbt_session_send(session, &message, 0));
        assert_true(rbt_alloc_live_bytes() <= 512 + 128 * number);
    }
    assert_fails(rbt_session_send(session, &(struct rbt_session_message){.number = WIDE + 1}, 0),
                 RBT_E_BUSY, "1000 messages");
    rbt_session_acknowledge(session, WIDE, 1, &out);
    assert_int_equal(out.count, WIDE);
    for (size_t i = 0; i < WIDE; i++) {
        assert_int_equal(effects[i].cookie, i + 1);
    }
    rbt_session_destroy(session);
}

#define WITH_SESSION(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SESSION(a_new_session_has_nothing_to_do),
        WITH_SESSION(what_is_not_acknowledged_is_sent_again_each_time_later),
        WITH_SESSION(an_acknowledgement_releases_the_stream_up_to_its_number),
        WITH_SESSION(an_acknowledgement_may_be_ahead_of_the_stream),
        WITH_SESSION(requests_are_answered_in_any_order_and_once),
        WITH_SESSION(a_request_that_was_received_is_asked_after_rarely),
        WITH_SESSION(patience_with_a_received_request_has_the_same_limit),
        WITH_SESSION(patience_follows_rfc_6298),
        WITH_SESSION(patience_stays_within_its_limits),
        WITH_SESSION(an_endless_round_trip_does_not_overflow),
        WITH_SESSION(what_was_sent_again_is_not_timed),
        WITH_SESSION(an_acknowledgement_of_many_times_the_newest),
        WITH_SESSION(an_acknowledgement_of_something_sent_again_times_nothing),
        WITH_SESSION(round_trips_longer_than_the_patience_are_learnt),
        WITH_SESSION(several_that_are_due_are_sent_oldest_first),
        WITH_SESSION(a_full_window_refuses_and_forgets),
        WITH_SESSION(without_memory_a_message_is_refused_and_nothing_changes),
        WITH_SESSION(an_abandoned_session_releases_all),
        cmocka_unit_test(random_runs_keep_every_promise),
        cmocka_unit_test(create_survives_every_failed_allocation),
        cmocka_unit_test(a_session_is_small_whatever_its_window),
        WITH_SESSION(a_message_that_is_put_off_is_as_good_as_new),
        cmocka_unit_test(room_grows_with_what_is_open_up_to_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
