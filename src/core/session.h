/* core/session.h - what one sender has on its way to one receiver, and when to send it again.
 *
 * Messages are of two kinds. Those of the stream have increasing numbers, are acknowledged up to a
 * number, and must all arrive; the receiver applies them in order. Requests have ids of their own
 * and are done with when they are answered; the receiver may say before that it has one and that
 * the answer takes time. What is neither acknowledged nor answered in time is sent again, each time
 * after twice the time, so that a crowded network gets room; whether it arrives twice is the
 * receiver's affair.
 *
 * How long to wait follows from how long answers took (as in RFC 6298: smoothed time + 4
 * deviations, messages that were sent again do not count), within the limits given. While only such
 * messages arrive, the wait of the last one is kept for new ones.
 *
 *     rbt_session_send(session, &message, now);      // and transmit it
 *     rbt_session_acknowledge(session, 7, now, &out) // RELEASE for all of the stream up to 7
 *     when now >= rbt_session_deadline(session):
 *         rbt_session_expire(session, now, &out);    // TRANSMIT for what is due
 */
#ifndef RUBATO_CORE_SESSION_H
#define RUBATO_CORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"

typedef struct rbt_session rbt_session;

struct rbt_session_options {
    uint32_t window;       /* messages that can be open at a time */
    rbt_time resend_first; /* until answers have been timed; between the two below */
    rbt_time resend_min;   /* more than 0 */
    rbt_time resend_max;
};

struct rbt_session_message {
    bool is_request;
    uint64_t number; /* of the stream: > 0 and > all before; of a request: its id, unique */
    uint64_t cookie; /* the sender's, handed back in effects */
};

enum rbt_session_effect_kind {
    RBT_SESSION_TRANSMIT, /* send it again */
    RBT_SESSION_RELEASE,  /* done with it */
};

struct rbt_session_effect {
    enum rbt_session_effect_kind kind;
    uint64_t cookie;
};

struct rbt_session_outbox {
    struct rbt_session_effect *effects; /* room for `window` */
    size_t count;                       /* the caller sets it to 0 */
};

RBT_MUST_USE rbt_status rbt_session_create(const struct rbt_session_options *options,
                                           rbt_session **session);
void rbt_session_destroy(rbt_session *session);

/* Notes that a message is sent now. Fails with RBT_E_BUSY if the window is full, and with
 * RBT_E_NOMEM if more messages are open than ever before and there is no memory for one more; the
 * session is then as it was. */
RBT_MUST_USE rbt_status rbt_session_send(rbt_session *session,
                                         const struct rbt_session_message *message, rbt_time now);

/* The receiver has all of the stream up to `number`; older news is ignored. Adds RELEASE. */
void rbt_session_acknowledge(rbt_session *session, uint64_t number, rbt_time now,
                             struct rbt_session_outbox *out);

/* The receiver has the request and will answer when it can: it gets four times the time before it
 * is asked again. Ignored if the request is not open, or if this is no news. */
void rbt_session_received(rbt_session *session, uint64_t id, rbt_time now);

/* The answer is here. Adds RELEASE and returns true; false if the request is not open: then the
 * answer is a repetition. */
bool rbt_session_answered(rbt_session *session, uint64_t id, rbt_time now,
                          struct rbt_session_outbox *out);

/* Gives up on everything: the receiver is gone. Adds RELEASE for all. */
void rbt_session_abandon(rbt_session *session, struct rbt_session_outbox *out);

/* Adds TRANSMIT for everything that is due, oldest first. */
void rbt_session_expire(rbt_session *session, rbt_time now, struct rbt_session_outbox *out);

/* After a TRANSMIT that was not followed, because the driver knows that the message or its answer
 * is still on its way, in a long queue for instance: it is due again as if the time began now. */
void rbt_session_put_off(rbt_session *session, uint64_t cookie, rbt_time now);

/* When something is due, or RBT_TIME_NEVER. */
rbt_time rbt_session_deadline(const rbt_session *session);

/* Highest number that was acknowledged, 0 before; how many messages are open; the time after which
 * a message sent now would be sent again. */
uint64_t rbt_session_acknowledged(const rbt_session *session);
uint32_t rbt_session_open(const rbt_session *session);
rbt_time rbt_session_patience(const rbt_session *session);

#endif
