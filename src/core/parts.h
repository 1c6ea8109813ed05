/* core/parts.h - who works on which part of the data, decided while they work.
 *
 * A pass consists of parts: pieces of files. A worker that has nothing to do gets the next part; so
 * fast workers do more of them. A part whose worker is lost, or has had it for too long, is given
 * to another one. Then two may finish it: the first one counts.
 *
 *     st = rbt_parts_create(&options, &parts);
 *     switch (rbt_parts_take(parts, worker, &when, &part)) {
 *     case RBT_PARTS_GIVEN: ... work on it ...; is_first = rbt_parts_finish(parts, worker, part);
 *     case RBT_PARTS_WAIT:  ... all are given away; one may come back ...
 *     case RBT_PARTS_DONE:  rbt_parts_begin_pass(parts);
 *     }
 *     rbt_parts_lose(parts, worker);     // he is gone
 *     rbt_parts_expire(parts, now, timeout);      // now and then
 *
 * Time is a number that does not fall, in any unit. Threads: none; whoever owns it. */
#ifndef RUBATO_CORE_PARTS_H
#define RUBATO_CORE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/source.h"

struct rbt_parts_options {
    uint32_t part_count;   /* at least 1 */
    uint32_t worker_count; /* at least 1 */
};

/* When a worker asks, and for what: of the parts that nobody has had yet, those below `limit`. */
struct rbt_parts_turn {
    uint64_t now;
    uint32_t limit;
};

enum rbt_parts_answer {
    RBT_PARTS_GIVEN, /* a part to work on */
    RBT_PARTS_WAIT,  /* others work on all that is left */
    RBT_PARTS_DONE,  /* all parts of the pass are finished */
};

struct rbt_parts_stats {
    uint64_t given;    /* parts given away, with those given again */
    uint64_t returned; /* parts that came back from workers that were lost or too slow */
    uint64_t repeated; /* parts that somebody had finished already */
};

typedef struct rbt_parts rbt_parts;

/* Fails with RBT_E_NOMEM. The first pass has begun. */
RBT_MUST_USE rbt_status rbt_parts_create(const struct rbt_parts_options *options,
                                         rbt_parts **parts);

/* Accepts NULL. */
void rbt_parts_destroy(rbt_parts *parts);

/* A worker without a part asks for one: those that came back first, then the others in order. */
enum rbt_parts_answer rbt_parts_take(rbt_parts *parts, uint32_t worker,
                                     const struct rbt_parts_turn *turn, uint32_t *part);

/* The worker has finished what it was given last. False: another one was faster, or a new pass has
 * begun; what it has found out should not count. */
bool rbt_parts_finish(rbt_parts *parts, uint32_t worker, uint32_t part);

/* The worker is gone; its part comes back. It may ask again later. True if it had one that is not
 * finished. */
bool rbt_parts_lose(rbt_parts *parts, uint32_t worker);

/* Takes back the parts that workers have had for longer than the timeout; says how many. They may
 * still finish them. */
uint32_t rbt_parts_expire(rbt_parts *parts, uint64_t now, uint64_t timeout);

/* All parts are to be worked on once more. The last pass must be done. */
void rbt_parts_begin_pass(rbt_parts *parts);

/* How many parts of this pass are finished; and all figures so far. */
uint32_t rbt_parts_finished(const rbt_parts *parts);
struct rbt_parts_stats rbt_parts_stats(const rbt_parts *parts);

/* The part that the worker was given last and has not finished, or RBT_PARTS_NOTHING. */
#define RBT_PARTS_NOTHING UINT32_MAX
uint32_t rbt_parts_held(const rbt_parts *parts, uint32_t worker);

/* Everything but the options, which must be the same where it is loaded, at a time that is not
 * before `now`. What makes no sense is refused, and the list is then to be destroyed. */
void rbt_parts_save(const rbt_parts *parts, struct rbt_sink *sink);
void rbt_parts_load(rbt_parts *parts, struct rbt_source *source, uint64_t now);

#endif
