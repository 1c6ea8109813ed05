/* core/gate.h - the staleness gate of a shard: worker clocks, and reads that must wait for them.
 *
 *     struct rbt_gate_event read = {.kind = RBT_GATE_READ, .request = 7, .need = c - s};
 *     rbt_gate_step(gate, &read, &out); // out holds request 7, or the gate has parked it
 */
#ifndef RUBATO_CORE_GATE_H
#define RUBATO_CORE_GATE_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/source.h"

/* The clock of a worker that has left, and the floor when all have: nobody waits for it. */
#define RBT_CLOCK_GONE INT64_MAX

/* The need of a read that no clock holds back. */
#define RBT_CLOCK_ANY INT64_MIN

typedef struct rbt_gate rbt_gate;

struct rbt_gate_options {
    uint32_t worker_count;
    uint32_t parked_max; /* reads that can wait at a time */
};

enum rbt_gate_kind {
    RBT_GATE_READ,  /* a read wants all updates of clocks < need */
    RBT_GATE_CLOCK, /* `worker` has completed `clock` clocks; RBT_CLOCK_GONE: it has left */
    RBT_GATE_RESET, /* a new run: all clocks are 0 */
};

struct rbt_gate_event {
    enum rbt_gate_kind kind;
    uint32_t worker;
    int64_t clock;
    int64_t need;
    uint64_t request;
};

/* A request that may now be answered (RBT_OK), or never will be (RBT_E_BUSY: no room to wait). */
struct rbt_gate_effect {
    uint64_t request;
    rbt_status status;
};

struct rbt_gate_outbox {
    struct rbt_gate_effect *effects; /* room for parked_max + 1 */
    uint32_t count;
};

RBT_MUST_USE rbt_status rbt_gate_create(const struct rbt_gate_options *options, rbt_gate **gate);
void rbt_gate_destroy(rbt_gate *gate);

/* Adds effects to the outbox. Clocks that do not move forward are ignored: they are repetitions. */
void rbt_gate_step(rbt_gate *gate, const struct rbt_gate_event *event, struct rbt_gate_outbox *out);

/* The smallest clock: all updates of clocks < floor are in. */
int64_t rbt_gate_floor(const rbt_gate *gate);

/* What the floor would be if the worker's clock were `clock`. */
int64_t rbt_gate_floor_if(const rbt_gate *gate, uint32_t worker, int64_t clock);

/* Clocks, and in a record of their own the reads that wait: whoever starts anew asks again, and
 * leaves them out. Loading into a gate for as many workers; what makes no sense is refused, and the
 * gate is then to be destroyed. */
void rbt_gate_save(const rbt_gate *gate, struct rbt_sink *sink);
void rbt_gate_load(rbt_gate *gate, struct rbt_source *source);
void rbt_gate_save_parked(const rbt_gate *gate, struct rbt_sink *sink);
void rbt_gate_load_parked(rbt_gate *gate, struct rbt_source *source);

int64_t rbt_gate_clock(const rbt_gate *gate, uint32_t worker);
uint32_t rbt_gate_parked(const rbt_gate *gate);

#endif
