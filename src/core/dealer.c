/* core/dealer.c - deals the parts of one pass after the other out.
 *
 * Passes that are not finished stand in a list, the oldest first. One is forgotten when all its
 * parts are finished, even if a slow worker still has one of them: when it comes with that, it is
 * told that others were faster. */
#include "core/dealer.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { RECENT = 31 }; /* parts whose time counts; odd, so that there is a middle one */

struct pass {
    struct pass *next;
    uint64_t number;
    rbt_parts *parts;
};

struct seat {
    bool is_busy;
    struct rbt_dealt dealt; /* then */
    uint64_t since;
    uint64_t finished;
};

struct rbt_dealer {
    struct rbt_dealer_options options;
    struct pass *first; /* the oldest that is not finished, or NULL */
    uint64_t begun;     /* passes */
    uint64_t now;
    uint64_t returned; /* of passes that are forgotten */
    struct seat *seats;
    uint64_t recent[RECENT]; /* times of parts; the next goes to recent_count % RECENT */
    uint64_t recent_count;   /* ever */
};

rbt_status rbt_dealer_create(const struct rbt_dealer_options *options, rbt_dealer **dealer)
{
    RBT_ASSERT(options->part_count > 0);
    RBT_ASSERT(options->worker_count > 0);
    RBT_ASSERT(options->patience > 0);
    rbt_dealer *made = rbt_calloc(1, sizeof *made);
    struct seat *seats = rbt_calloc(options->worker_count, sizeof *seats);
    if (made == NULL || seats == NULL) {
        rbt_free(made);
        rbt_free(seats);
        return rbt_fail(RBT_E_NOMEM, "no memory to deal parts to %u workers",
                        options->worker_count);
    }
    made->options = *options;
    made->seats = seats;
    *dealer = made;
    return RBT_OK;
}

void rbt_dealer_destroy(rbt_dealer *dealer)
{
    if (dealer == NULL) {
        return;
    }
    for (struct pass *pass = dealer->first; pass != NULL;) {
        struct pass *next = pass->next;
        rbt_parts_destroy(pass->parts);
        rbt_free(pass);
        pass = next;
    }
    rbt_free(dealer->seats);
    rbt_free(dealer);
}

/* Begins the next pass, at the end of the list. */
static rbt_status begin(rbt_dealer *dealer)
{
    const struct rbt_parts_options options = {.part_count = dealer->options.part_count,
                                              .worker_count = dealer->options.worker_count};
    struct pass *pass = rbt_calloc(1, sizeof *pass);
    if (pass == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a pass");
    }
    const rbt_status st = rbt_parts_create(&options, &pass->parts);
    if (st != RBT_OK) {
        rbt_free(pass);
        return st;
    }
    struct pass **end = &dealer->first;
    while (*end != NULL) {
        RBT_ASSERT((*end)->number < dealer->begun);
        end = &(*end)->next;
    }
    pass->number = dealer->begun++;
    RBT_ASSERT(pass->next == NULL);
    *end = pass;
    return RBT_OK;
}

/* Forgets passes that are finished. */
static void forget(rbt_dealer *dealer)
{
    struct pass **at = &dealer->first;
    while (*at != NULL) {
        struct pass *pass = *at;
        if (rbt_parts_finished(pass->parts) < dealer->options.part_count) {
            at = &pass->next;
            continue;
        }
        RBT_ASSERT(pass->number < dealer->begun);
        dealer->returned += rbt_parts_stats(pass->parts).returned;
        *at = pass->next;
        rbt_parts_destroy(pass->parts);
        rbt_free(pass);
    }
}

static struct pass *find(const rbt_dealer *dealer, uint64_t number)
{
    struct pass *pass = dealer->first;
    RBT_ASSERT(number < dealer->begun);
    while (pass != NULL && pass->number != number) {
        pass = pass->next;
    }
    return pass;
}

/* How long a worker may have a part. */
static uint64_t patience(const rbt_dealer *dealer)
{
    const size_t count = dealer->recent_count < RECENT ? (size_t)dealer->recent_count : RECENT;
    uint64_t sorted[RECENT];
    if (count == 0) {
        return dealer->options.first;
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > dealer->recent[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = dealer->recent[i];
    }
    const uint64_t median = sorted[count / 2];
    RBT_ASSERT(sorted[0] <= median && median <= sorted[count - 1]);
    RBT_ASSERT(median <= UINT64_MAX / dealer->options.patience);
    const uint64_t most = median * dealer->options.patience;
    return most > dealer->options.least ? most : dealer->options.least;
}

static void look_at_clock(rbt_dealer *dealer, uint64_t now)
{
    dealer->now = now > dealer->now ? now : dealer->now;
    RBT_ASSERT(dealer->now >= now);
}

/* What the worker has, if anything, comes back. */
static void lose(rbt_dealer *dealer, uint32_t worker)
{
    RBT_ASSERT(worker < dealer->options.worker_count);
    struct seat *seat = &dealer->seats[worker];
    struct pass *pass = seat->is_busy ? find(dealer, seat->dealt.pass) : NULL;
    if (pass != NULL) {
        (void)rbt_parts_lose(pass->parts, worker);
    }
    seat->is_busy = false;
}

rbt_status rbt_dealer_take(rbt_dealer *dealer, const struct rbt_dealer_ask *ask,
                           enum rbt_parts_answer *answer, struct rbt_dealt *dealt)
{
    RBT_ASSERT(ask->worker < dealer->options.worker_count);
    RBT_ASSERT(ask->limit <= dealer->options.part_count);
    if (ask->pass > dealer->begun) {
        return rbt_fail(RBT_E_INVALID, "pass %llu has not begun", (unsigned long long)ask->pass);
    }
    const rbt_status st = ask->pass == dealer->begun ? begin(dealer) : RBT_OK;
    if (st != RBT_OK) {
        return st;
    }
    struct seat *seat = &dealer->seats[ask->worker];
    lose(dealer, ask->worker);
    look_at_clock(dealer, ask->now);
    const uint64_t timeout = patience(dealer);
    *answer = RBT_PARTS_DONE;
    for (struct pass *pass = dealer->first; pass != NULL && pass->number <= ask->pass;
         pass = pass->next) {
        const struct rbt_parts_turn turn = {
            .now = dealer->now,
            .limit = pass->number < ask->pass ? dealer->options.part_count : ask->limit};
        (void)rbt_parts_expire(pass->parts, dealer->now, timeout);
        const enum rbt_parts_answer part =
            rbt_parts_take(pass->parts, ask->worker, &turn, &dealt->part);
        if (part == RBT_PARTS_GIVEN) {
            RBT_ASSERT(dealt->part < dealer->options.part_count);
            RBT_ASSERT(!seat->is_busy);
            dealt->pass = pass->number;
            seat->is_busy = true;
            seat->dealt = *dealt;
            seat->since = dealer->now;
            *answer = part;
            return RBT_OK;
        }
        *answer = part == RBT_PARTS_WAIT ? part : *answer;
    }
    return RBT_OK;
}

rbt_status rbt_dealer_finish(rbt_dealer *dealer, uint32_t worker, const struct rbt_dealt *dealt,
                             uint64_t now, bool *is_first)
{
    RBT_ASSERT(worker < dealer->options.worker_count);
    struct seat *seat = &dealer->seats[worker];
    if (!seat->is_busy || seat->dealt.pass != dealt->pass || seat->dealt.part != dealt->part) {
        return rbt_fail(RBT_E_INVALID, "worker %u does not have part %u", worker, dealt->part);
    }
    RBT_ASSERT(dealt->part < dealer->options.part_count); /* else it would not have been dealt */
    struct pass *pass = find(dealer, dealt->pass);
    look_at_clock(dealer, now);
    seat->is_busy = false;
    *is_first = pass != NULL && rbt_parts_finish(pass->parts, worker, dealt->part);
    seat->finished += *is_first;
    RBT_ASSERT(dealer->now >= seat->since);
    dealer->recent[dealer->recent_count++ % RECENT] = dealer->now - seat->since;
    forget(dealer);
    return RBT_OK;
}

uint64_t rbt_dealer_returned(const rbt_dealer *dealer)
{
    uint64_t returned = dealer->returned;
    for (const struct pass *pass = dealer->first; pass != NULL; pass = pass->next) {
        returned += rbt_parts_stats(pass->parts).returned;
    }
    RBT_ASSERT(returned >= dealer->returned);
    return returned;
}

uint64_t rbt_dealer_finished(const rbt_dealer *dealer, uint32_t worker)
{
    RBT_ASSERT(worker < dealer->options.worker_count);
    RBT_ASSERT(dealer->seats != NULL);
    return dealer->seats[worker].finished;
}

void rbt_dealer_save(const rbt_dealer *dealer, struct rbt_sink *sink)
{
    uint64_t count = 0;
    for (const struct pass *pass = dealer->first; pass != NULL; pass = pass->next) {
        count++;
    }
    RBT_ASSERT(count <= dealer->begun);
    RBT_ASSERT(dealer->seats != NULL);
    rbt_sink_put_u32(sink, dealer->options.part_count);
    rbt_sink_put_u32(sink, dealer->options.worker_count);
    rbt_sink_put_u64(sink, dealer->begun);
    rbt_sink_put_u64(sink, dealer->now);
    rbt_sink_put_u64(sink, dealer->returned);
    rbt_sink_put_u64(sink, dealer->recent_count);
    rbt_sink_put(sink, dealer->recent, sizeof dealer->recent);
    for (uint32_t i = 0; i < dealer->options.worker_count; i++) {
        const struct seat *seat = &dealer->seats[i];
        rbt_sink_put_u8(sink, seat->is_busy ? 1 : 0);
        rbt_sink_put_u64(sink, seat->dealt.pass);
        rbt_sink_put_u32(sink, seat->dealt.part);
        rbt_sink_put_u64(sink, seat->since);
        rbt_sink_put_u64(sink, seat->finished);
    }
    rbt_sink_put_u64(sink, count);
    for (const struct pass *pass = dealer->first; pass != NULL; pass = pass->next) {
        rbt_sink_put_u64(sink, pass->number);
        rbt_parts_save(pass->parts, sink);
    }
}

/* The passes that are not finished. */
static void load_passes(rbt_dealer *dealer, struct rbt_source *source)
{
    RBT_ASSERT(dealer->first == NULL);
    const uint64_t begun = dealer->begun;
    struct pass **end = &dealer->first;
    /* Each has at least the state of all of its parts. */
    const uint64_t count = rbt_source_get_count(source, dealer->options.part_count);
    for (uint64_t i = 0; i < count && rbt_source_is_good(source); i++) {
        const uint64_t number = rbt_source_get_number(source);
        if (number >= begun || (i > 0 && number < dealer->begun)) {
            rbt_source_refuse(source, "passes over the data are in no order");
            break;
        }
        dealer->begun = number; /* begin() takes it, and makes it one more */
        const rbt_status st = begin(dealer);
        if (st != RBT_OK) {
            source->status = st;
            break;
        }
        rbt_parts_load((*end)->parts, source, dealer->now);
        end = &(*end)->next;
    }
    dealer->begun = begun;
    RBT_ASSERT(dealer->first == NULL || dealer->first->number < begun || begun == 0);
}

/* Whether a seat is of this dealer, and a worker has had its part since before now. */
static bool is_possible(const rbt_dealer *dealer, const struct seat *seat)
{
    RBT_ASSERT(dealer->options.part_count > 0);
    return seat->since <= dealer->now && seat->dealt.part < dealer->options.part_count &&
           (!seat->is_busy || seat->dealt.pass < dealer->begun);
}

/* Whether workers have what the passes say that they have. */
static bool is_consistent(const rbt_dealer *dealer)
{
    RBT_ASSERT(dealer->seats != NULL);
    for (const struct pass *pass = dealer->first; pass != NULL; pass = pass->next) {
        for (uint32_t i = 0; i < dealer->options.worker_count; i++) {
            const struct seat *seat = &dealer->seats[i];
            const bool has_one = seat->is_busy && seat->dealt.pass == pass->number;
            if (rbt_parts_held(pass->parts, i) !=
                (has_one ? seat->dealt.part : RBT_PARTS_NOTHING)) {
                return false;
            }
        }
    }
    return true;
}

void rbt_dealer_load(rbt_dealer *dealer, struct rbt_source *source)
{
    RBT_ASSERT(dealer->begun == 0);
    RBT_ASSERT(dealer->first == NULL);
    if (rbt_source_get_u32(source) != dealer->options.part_count ||
        rbt_source_get_u32(source) != dealer->options.worker_count) {
        rbt_source_refuse(source, "it deals other parts of the data");
        return;
    }
    dealer->begun = rbt_source_get_number(source);
    dealer->now = rbt_source_get_number(source);
    dealer->returned = rbt_source_get_number(source);
    dealer->recent_count = rbt_source_get_number(source);
    for (size_t i = 0; i < RECENT; i++) {
        dealer->recent[i] = rbt_source_get_number(source);
        if (dealer->recent[i] > UINT64_MAX / dealer->options.patience) {
            rbt_source_refuse(source, "a part of the data took too long");
        }
    }
    for (uint32_t i = 0; i < dealer->options.worker_count && rbt_source_is_good(source); i++) {
        struct seat *seat = &dealer->seats[i];
        seat->is_busy = rbt_source_get_bool(source);
        seat->dealt.pass = rbt_source_get_number(source);
        seat->dealt.part = rbt_source_get_u32(source);
        seat->since = rbt_source_get_number(source);
        seat->finished = rbt_source_get_number(source);
        if (!is_possible(dealer, seat)) {
            rbt_source_refuse(source, "a worker has a part of the data that was not dealt");
        }
    }
    load_passes(dealer, source);
    if (rbt_source_is_good(source) && !is_consistent(dealer)) {
        rbt_source_refuse(source, "workers have other parts of the data than were dealt");
    }
}
