/* core/session.c - what is on its way to one receiver, and when to send it again.
 *
 * The open messages are a short list in the order in which they were first sent. Each knows when it
 * is due and how long it waited for that; from the two follows when it was sent last. The list is
 * searched from its start: 1 to 4 messages are usual, and there are too many sessions (workers
 * times servers) for anything larger.
 *
 * The timeout of a session is that of RFC 6298, from the round trips of messages that were sent
 * once (Karn: of the others nobody knows which copy was answered). That alone would never learn
 * that the network became slow: all messages would be sent again and none would be timed. So the
 * wait of a message that was sent again is the timeout for new ones until there is a round trip to
 * go by, as in RFC 6298, 5.7.
 *
 * An acknowledgement may be about many messages. The newest of them is timed, as older ones may
 * have been acknowledged before and the news lost; none is if one was sent again, as the others may
 * have waited for it.
 *
 * Invariants:
 *   (1) Entries are in the order of first sending; the numbers of the stream strictly increase.
 *   (2) next_due is the smallest `due`, or RBT_TIME_NEVER if nothing is open.
 *   (3) timeout and every wait lie within resend_min .. resend_max.
 *
 * Threads: none; owned by the sender. Memory: in create for ENTRIES_FIRST messages; more are made
 * room for when they are first open at a time, up to the window: 100,000 sessions with a full
 * window each would need 250 MB. So rbt_session_send can fail with RBT_E_NOMEM.
 * Cost: O(open messages) per event, O(1) for the deadline. */
#include "core/session.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"

enum {
    ENTRIES_FIRST = 4,
    GRANULARITY = 1000,  /* ns; G of RFC 6298 */
    RECEIVED_FACTOR = 4, /* a receiver that has the request gets so many timeouts to answer it */
};

#define RESEND_LIMIT (RBT_TIME_NEVER / 16) /* srtt + 4 deviations of it do not overflow */

struct entry {
    uint64_t number;
    uint64_t cookie;
    rbt_time due;
    rbt_time sent;        /* for the first time */
    rbt_time wait;        /* due == when it was sent last + wait, unless is_received or put off */
    rbt_time wait_before; /* it was sent again */
    uint32_t resends;
    bool is_request;
    bool is_received; /* of a request: the receiver has said so */
};

struct rbt_session {
    struct entry *entries; /* entries_max, open_count in use */
    uint32_t entries_max;
    uint32_t open_count;
    uint32_t window;
    bool is_timed;        /* srtt and deviation are set */
    rbt_time srtt;        /* smoothed round trip */
    rbt_time deviation;   /* RTTVAR of RFC 6298 */
    rbt_time timeout;     /* of a message sent now */
    rbt_time resend_min;  /* as in the options */
    rbt_time resend_max;  /* as in the options */
    rbt_time next_due;    /* (2) */
    uint64_t last_number; /* sent in the stream */
    uint64_t acknowledged;
};

rbt_status rbt_session_create(const struct rbt_session_options *options, rbt_session **session)
{
    RBT_ASSERT(options->window > 0);
    RBT_ASSERT(options->resend_min > 0);
    RBT_ASSERT(options->resend_min <= options->resend_first);
    RBT_ASSERT(options->resend_first <= options->resend_max);
    RBT_ASSERT(options->resend_max <= RESEND_LIMIT);
    rbt_session *s = rbt_calloc(1, sizeof *s);
    if (s == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a session");
    }
    s->window = options->window;
    s->timeout = options->resend_first;
    s->resend_min = options->resend_min;
    s->resend_max = options->resend_max;
    s->next_due = RBT_TIME_NEVER;
    s->entries_max = options->window < ENTRIES_FIRST ? options->window : ENTRIES_FIRST;
    s->entries = rbt_calloc(s->entries_max, sizeof *s->entries);
    if (s->entries == NULL) {
        rbt_session_destroy(s);
        return rbt_fail(RBT_E_NOMEM, "could not allocate a session for %u messages",
                        options->window);
    }
    *session = s;
    return RBT_OK;
}

void rbt_session_destroy(rbt_session *session)
{
    if (session == NULL) {
        return;
    }
    rbt_free(session->entries);
    rbt_free(session);
}

static void emit(const rbt_session *session, struct rbt_session_outbox *out,
                 enum rbt_session_effect_kind kind, uint64_t cookie)
{
    RBT_ASSERT(out->effects != NULL);
    RBT_ASSERT(out->count < session->window);
    out->effects[out->count++] = (struct rbt_session_effect){.kind = kind, .cookie = cookie};
}

static rbt_time smallest_due(const rbt_session *session)
{
    RBT_DEBUG_ASSERT(session->open_count <= session->entries_max);
    rbt_time min = RBT_TIME_NEVER;
    for (uint32_t i = 0; i < session->open_count; i++) {
        RBT_DEBUG_ASSERT(session->entries[i].due < RBT_TIME_NEVER);
        min = session->entries[i].due < min ? session->entries[i].due : min;
    }
    return min;
}

/* (1), (2) and (3). */
static bool invariants_hold(const rbt_session *session)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < session->open_count; i++) {
        const struct entry *entry = &session->entries[i];
        if (!entry->is_request && entry->number <= last) {
            return false;
        }
        last = entry->is_request ? last : entry->number;
        if (entry->wait < session->resend_min || entry->wait > session->resend_max) {
            return false;
        }
    }
    return last <= session->last_number && session->timeout >= session->resend_min &&
           session->timeout <= session->resend_max && session->next_due == smallest_due(session);
}

/* Index of an open request, or open_count. */
static uint32_t find_request(const rbt_session *session, uint64_t id)
{
    RBT_ASSERT(session->open_count <= session->entries_max);
    uint32_t i = 0;
    while (i < session->open_count &&
           !(session->entries[i].is_request && session->entries[i].number == id)) {
        i++;
    }
    RBT_ASSERT(i <= session->open_count);
    return i;
}

/* Lets the entry wait from now on. */
static void delay(const rbt_session *session, struct entry *entry, rbt_time wait, rbt_time now)
{
    RBT_ASSERT(now >= 0);
    RBT_ASSERT(now < RBT_TIME_NEVER - session->resend_max);
    entry->wait = wait < session->resend_max ? wait : session->resend_max;
    entry->due = now + entry->wait;
    RBT_ASSERT(entry->wait >= session->resend_min);
}

/* Makes room for one more message: twice as many as before, up to the window. */
static rbt_status make_room(rbt_session *session)
{
    RBT_ASSERT(session->open_count < session->window);
    if (session->open_count < session->entries_max) {
        return RBT_OK;
    }
    const uint32_t twice =
        session->entries_max < session->window / 2 ? 2 * session->entries_max : session->window;
    RBT_ASSERT(twice > session->entries_max);
    struct entry *entries = rbt_realloc(session->entries, twice, sizeof *entries);
    if (entries == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate room for %u open messages", twice);
    }
    session->entries = entries;
    session->entries_max = twice;
    return RBT_OK;
}

rbt_status rbt_session_send(rbt_session *session, const struct rbt_session_message *message,
                            rbt_time now)
{
    if (message->is_request) {
        RBT_DEBUG_ASSERT(find_request(session, message->number) == session->open_count);
    } else {
        RBT_ASSERT(message->number > session->last_number);
    }
    if (session->open_count == session->window) {
        return rbt_fail(RBT_E_BUSY, "%u messages are on their way; no more are allowed",
                        session->open_count);
    }
    const rbt_status st = make_room(session);
    if (st != RBT_OK) {
        return st;
    }
    struct entry *entry = &session->entries[session->open_count++];
    *entry = (struct entry){.number = message->number,
                            .cookie = message->cookie,
                            .sent = now,
                            .is_request = message->is_request};
    delay(session, entry, session->timeout, now);
    session->next_due = entry->due < session->next_due ? entry->due : session->next_due;
    if (!message->is_request) {
        session->last_number = message->number;
    }
    RBT_ASSERT(session->open_count <= session->entries_max);
    RBT_DEBUG_ASSERT(invariants_hold(session));
    (void)invariants_hold; /* used by debug builds */
    return RBT_OK;
}

/* RFC 6298, 2.2 and 2.3: a message and its answer took `trip`. */
static void time_trip(rbt_session *session, rbt_time trip)
{
    RBT_ASSERT(trip >= 0); /* time does not go back */
    /* One that took longer, because nobody called expire, would be cut below; here it would
     * overflow. */
    trip = trip < session->resend_max ? trip : session->resend_max;
    if (!session->is_timed) {
        session->is_timed = true;
        session->srtt = trip;
        session->deviation = trip / 2;
    } else {
        const rbt_time error = trip < session->srtt ? session->srtt - trip : trip - session->srtt;
        session->deviation += (error - session->deviation) / 4;
        session->srtt += (trip - session->srtt) / 8;
    }
    RBT_ASSERT(session->srtt >= 0);
    RBT_ASSERT(session->deviation >= 0);
    const rbt_time margin =
        4 * session->deviation > GRANULARITY ? 4 * session->deviation : GRANULARITY;
    rbt_time timeout = session->srtt + margin;
    timeout = timeout > session->resend_min ? timeout : session->resend_min;
    session->timeout = timeout < session->resend_max ? timeout : session->resend_max;
}

/* It is new that the receiver has the message, which may tell how long messages take. */
static void learn(rbt_session *session, const struct entry *entry, rbt_time now)
{
    RBT_ASSERT(!entry->is_received); /* then it is not new, and `wait` is no measure */
    RBT_ASSERT(entry->wait >= session->resend_min);
    if (entry->resends == 0) {
        time_trip(session, now - entry->sent);
    } else if (entry->wait > session->timeout) {
        session->timeout = entry->wait;
    }
}

void rbt_session_acknowledge(rbt_session *session, uint64_t number, rbt_time now,
                             struct rbt_session_outbox *out)
{
    RBT_ASSERT(now >= 0);
    struct entry witness = {0}; /* the newest message, or of those sent again the most patient */
    uint32_t kept = 0;
    for (uint32_t i = 0; i < session->open_count; i++) {
        const struct entry entry = session->entries[i];
        if (entry.is_request || entry.number > number + RBT_MUTANT(EARLY_RELEASE)) {
            session->entries[kept++] = entry;
            continue;
        }
        emit(session, out, RBT_SESSION_RELEASE, entry.cookie);
        if (witness.resends == 0 || (entry.resends > 0 && entry.wait > witness.wait)) {
            witness = entry;
        }
    }
    RBT_ASSERT(kept <= session->open_count);
    if (kept < session->open_count) {
        session->open_count = kept;
        session->next_due = smallest_due(session);
        learn(session, &witness, now);
    }
    session->acknowledged = number > session->acknowledged ? number : session->acknowledged;
    RBT_DEBUG_ASSERT(invariants_hold(session));
}

void rbt_session_received(rbt_session *session, uint64_t id, rbt_time now)
{
    RBT_ASSERT(now >= 0);
    const uint32_t at = find_request(session, id);
    if (at == session->open_count || session->entries[at].is_received) {
        return; /* late, or the answer to a probe: that already waits twice as long */
    }
    struct entry *entry = &session->entries[at];
    learn(session, entry, now);
    entry->is_received = true;
    delay(session, entry, RECEIVED_FACTOR * session->timeout, now);
    session->next_due = smallest_due(session);
    RBT_ASSERT(session->next_due <= entry->due);
    RBT_DEBUG_ASSERT(invariants_hold(session));
}

bool rbt_session_answered(rbt_session *session, uint64_t id, rbt_time now,
                          struct rbt_session_outbox *out)
{
    RBT_ASSERT(now >= 0);
    const uint32_t at = find_request(session, id);
    if (at == session->open_count) {
        return false;
    }
    const struct entry entry = session->entries[at];
    session->open_count--;
    memmove(session->entries + at, session->entries + at + 1,
            (session->open_count - at) * sizeof entry);
    session->next_due = smallest_due(session);
    if (!entry.is_received) {
        learn(session, &entry, now);
    }
    emit(session, out, RBT_SESSION_RELEASE, entry.cookie);
    RBT_ASSERT(find_request(session, id) == session->open_count); /* ids are unique */
    RBT_DEBUG_ASSERT(invariants_hold(session));
    return true;
}

void rbt_session_abandon(rbt_session *session, struct rbt_session_outbox *out)
{
    RBT_ASSERT(session->open_count <= session->entries_max);
    for (uint32_t i = 0; i < session->open_count; i++) {
        emit(session, out, RBT_SESSION_RELEASE, session->entries[i].cookie);
    }
    session->open_count = 0;
    session->next_due = RBT_TIME_NEVER;
    RBT_DEBUG_ASSERT(invariants_hold(session));
}

void rbt_session_expire(rbt_session *session, rbt_time now, struct rbt_session_outbox *out)
{
    RBT_ASSERT(now >= 0);
    if (now < session->next_due) {
        return;
    }
    for (uint32_t i = 0; i < session->open_count; i++) {
        struct entry *entry = &session->entries[i];
        if (entry->due <= now) {
            if (!RBT_MUTANT(NO_RESEND)) {
                emit(session, out, RBT_SESSION_TRANSMIT, entry->cookie);
            }
            entry->resends++;
            entry->wait_before = entry->wait;
            delay(session, entry, 2 * entry->wait, now);
        }
    }
    session->next_due = smallest_due(session);
    RBT_ASSERT(session->next_due > now);
    RBT_DEBUG_ASSERT(invariants_hold(session));
}

void rbt_session_put_off(rbt_session *session, uint64_t cookie, rbt_time now)
{
    RBT_ASSERT(now >= 0);
    for (uint32_t i = 0; i < session->open_count; i++) {
        struct entry *entry = &session->entries[i];
        if (entry->cookie == cookie) {
            RBT_ASSERT(entry->resends > 0);
            entry->resends--;
            delay(session, entry, entry->wait_before, now);
        }
    }
    session->next_due = smallest_due(session);
    RBT_DEBUG_ASSERT(invariants_hold(session));
}

rbt_time rbt_session_deadline(const rbt_session *session)
{
    RBT_ASSERT((session->next_due == RBT_TIME_NEVER) == (session->open_count == 0));
    RBT_DEBUG_ASSERT(session->next_due == smallest_due(session));
    return session->next_due;
}

uint64_t rbt_session_acknowledged(const rbt_session *session)
{
    RBT_DEBUG_ASSERT(invariants_hold(session));
    return session->acknowledged;
}

uint32_t rbt_session_open(const rbt_session *session)
{
    RBT_ASSERT(session->open_count <= session->entries_max);
    RBT_ASSERT(session->entries_max <= session->window);
    return session->open_count;
}

rbt_time rbt_session_patience(const rbt_session *session)
{
    RBT_ASSERT(session->timeout >= session->resend_min);
    RBT_ASSERT(session->timeout <= session->resend_max);
    return session->timeout;
}
