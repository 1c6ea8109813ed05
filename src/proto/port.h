/* proto/port.h - what happens to a connection, as a machine hears of it.
 *
 * A port is a machine's number for one end of one connection. A carrier owns the connection itself:
 * a socket, or a queue in the simulator. It makes the connection when the machine asks for it
 * (proto/outbox.h) or when a peer does, hands over whole frames in their order, and says when the
 * connection is over. After DOWN, or after the machine has cut the connection, nothing more of that
 * connection is heard; a port may then be connected again.
 *
 * Threads: none. Everything that an event points to is the carrier's, and valid during the step. */
#ifndef RUBATO_PROTO_PORT_H
#define RUBATO_PROTO_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/status.h>

#include "wire/frame.h"

enum { RBT_ADDRESS_MAX = 256 }; /* bytes of a printed address, with its terminating zero */

enum rbt_port_event_kind {
    RBT_PORT_UP,     /* the connection is there; nothing is heard of a peer before it is trusted */
    RBT_PORT_FRAME,  /* a message */
    RBT_PORT_BROKEN, /* what came is no message; nothing more is heard, but the peer can be told */
    RBT_PORT_DOWN,   /* the connection is over, or could not be made */
    RBT_PORT_ROOM,   /* the queue to the peer has become short again */
};

/* One arm of the union for each kind; BROKEN has that of DOWN, ROOM has none. */
struct rbt_port_event {
    enum rbt_port_event_kind kind;
    uint32_t port;
    union {
        struct {
            const char *peer; /* where it comes from, for people: an address */
            bool is_near;     /* from this process: messages are looked at where they lie */
        } up;
        struct {
            struct rbt_frame head;
            const char *body;
            size_t placed; /* bytes at the end of the body that already lie where they belong */
        } frame;
        struct {
            rbt_status status;
            const char *why; /* a sentence, never NULL */
        } down;
    };
};

#endif
