/* client/caller.c - one thread's way to the shards. */
#include "client/caller.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "client/caller_state.h"
#include "client/compose.h"
#include "client/sender.h"

enum {
    KEPT_MAX = 64 << 20, /* bytes that a shard may owe an acknowledgement for */
    GLANCE_TIME = 50000, /* ns; looking costs about a microsecond for each shard */
};

#define NANOSECONDS_PER_MS INT64_C(1000000)
#define TIMEOUT_MAX        (NANOSECONDS_PER_MS << 30) /* of one wait */
#define WHY_MS             1000 /* for the coordinator to say what has happened */

/* What a request is for. */
struct asked {
    struct rbt_driver_call *call; /* waits for it; or NULL */
    struct rbt_ahead *ahead;      /* or NULL */
    struct rbt_wire_done *done;   /* or NULL */
    bool is_early;                /* nobody waits for it yet */
};

/* --- Life ------------------------------------------------------------------------------------ */

void rbt_caller_lock(struct rbt_caller *caller)
{
    const int error = pthread_mutex_lock(&caller->mutex);
    RBT_ASSERT(error == 0);
}

/* Whether something is left to be written. */
static bool has_rest(const struct rbt_caller *caller)
{
    bool has = false;
    for (uint32_t i = 0; caller->status == RBT_OK && i < caller->shared->shard_count; i++) {
        const struct rbt_link *link = &caller->links[i];
        has = has || (link->state == RBT_LINK_UP && !rbt_link_is_flushed(link));
    }
    return has;
}

/* What is not written yet is the sender's from here on. It does not wait for the mutex, and forgets
 * whom it finds it held by, so it is woken after this, every time. */
void rbt_caller_unlock(struct rbt_caller *caller)
{
    const bool must_wake = caller->shared->sender != NULL && has_rest(caller);
    const int error = pthread_mutex_unlock(&caller->mutex);
    RBT_ASSERT(error == 0);
    if (must_wake) {
        rbt_sender_wake(caller->shared->sender);
    }
}

rbt_status rbt_caller_init(struct rbt_caller *caller, struct rbt_caller_shared *shared,
                           const struct rbt_link_options *links)
{
    caller->shared = shared;
    const int error = pthread_mutex_init(&caller->mutex, NULL);
    RBT_ASSERT(error == 0);
    caller->is_ready = true;
    caller->links = rbt_calloc(shared->shard_count, sizeof *caller->links);
    caller->polls = rbt_calloc((size_t)shared->shard_count + 1, sizeof *caller->polls);
    caller->error = rbt_calloc(1, sizeof *caller->error);
    if (caller->links == NULL || caller->polls == NULL || caller->error == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for connections to %u shards", shared->shard_count);
    }
    rbt_status st = rbt_aheads_init(&caller->aheads);
    for (uint32_t i = 0; i < shared->shard_count; i++) { /* all, so that all can be ended */
        const rbt_status made = rbt_link_init(&caller->links[i], &links[i]);
        caller->links[i].options.hello.worker = caller->worker;
        st = st != RBT_OK ? st : made;
    }
    return st;
}

/* Frees what the requests under way were for. */
static void forget_requests(struct rbt_caller *caller)
{
    for (uint32_t i = 0; caller->links != NULL && i < caller->shared->shard_count; i++) {
        for (struct rbt_link_request *r = caller->links[i].requests; r != NULL; r = r->next) {
            rbt_free(r->owner);
            r->owner = NULL;
        }
        rbt_link_reset(&caller->links[i]);
    }
    rbt_aheads_clear(&caller->aheads);
    rbt_packing_clear(&caller->packing);
    caller->unanswered = 0;
}

void rbt_caller_reset(struct rbt_caller *caller)
{
    rbt_caller_lock(caller);
    forget_requests(caller);
    rbt_caller_unlock(caller);
}

void rbt_caller_deinit(struct rbt_caller *caller)
{
    forget_requests(caller);
    for (uint32_t i = 0; caller->links != NULL && i < caller->shared->shard_count; i++) {
        rbt_link_deinit(&caller->links[i]);
    }
    rbt_aheads_deinit(&caller->aheads);
    rbt_packing_deinit(&caller->packing);
    rbt_free(caller->links);
    rbt_free(caller->polls);
    rbt_free(caller->error);
    if (caller->is_ready) {
        (void)pthread_mutex_destroy(&caller->mutex); /* nobody holds it */
    }
}

/* Nothing works from now on; the reason is in the thread's record. */
void rbt_caller_fail(struct rbt_caller *caller, rbt_status status)
{
    if (caller->status == RBT_OK) {
        caller->status = status;
        rbt_error_save(caller->error);
    }
    caller->unanswered = 0;
}

rbt_status rbt_caller_refuse(const struct rbt_caller *caller)
{
    rbt_error_restore(caller->error);
    return caller->status;
}

/* --- Answers --------------------------------------------------------------------------------- */

/* How many workers' sequences are asked for: a reader's numbers are not those of the job's workers,
 * and it has no updates of its own. */
static uint32_t applied_asked(const struct rbt_caller *caller, uint32_t shard,
                              const struct rbt_shard_event *event)
{
    return caller->links[shard].options.hello.is_reader ? 0 : event->applied_count;
}

/* Gives a call what it has waited for. */
rbt_status rbt_caller_complete(struct rbt_caller *caller, struct rbt_driver_call *call,
                               const struct rbt_answer *answer)
{
    struct rbt_shard_event *event = &call->event;
    const struct rbt_caller_table *table = &caller->shared->tables[event->table];
    const struct rbt_answer_reader reader = {&caller->packing, table, call->shard};
    rbt_status st = event->kind == RBT_SHARD_SCAN ? rbt_answer_take_scan(table, answer, event->scan)
                    : event->early != NULL        ? rbt_answer_take_early(&reader, answer, event)
                                                  : rbt_answer_take_rows(&reader, answer, event);
    if (st == RBT_OK && event->kind == RBT_SHARD_PULL) {
        const uint32_t asked = applied_asked(caller, call->shard, event);
        const bool lacks_stamp = event->stamp != NULL && table->has_rule && !answer->head.has_stamp;
        if (answer->head.applied_count != asked || lacks_stamp) {
            return rbt_answer_wrong();
        }
        if (event->stamp != NULL) {
            *event->stamp = answer->head.stamp; /* 0 of tables that have none */
        }
        for (uint32_t i = 0; i < event->applied_count; i++) {
            event->applied[i] = i < asked ? answer->head.applied[i] : 0;
        }
    }
    call->reply =
        (struct rbt_driver_reply){.status = st == RBT_E_BUSY ? st : RBT_OK,
                                  .version = answer->head.news.version,
                                  .floor = answer->head.news.floor,
                                  .acknowledged = caller->links[call->shard].news.arrived,
                                  .settled = caller->links[call->shard].news.settled,
                                  .had_to_wait = answer->head.was_parked && caller->had_to_wait};
    return st == RBT_E_BUSY ? RBT_OK : st;
}

/* --- Requests -------------------------------------------------------------------------------- */

/* A PULL or SCAN with this need. */
static rbt_status ask(struct rbt_caller *caller, uint32_t shard,
                      const struct rbt_shard_event *event, int64_t need, struct asked *asked)
{
    struct rbt_link *link = &caller->links[shard];
    const bool is_scan = event->kind == RBT_SHARD_SCAN;
    struct rbt_block *block = NULL;
    struct rbt_shard_event asking = *event;
    asking.need = need;
    asking.applied_count = is_scan ? 0 : applied_asked(caller, shard, event);
    asking.is_base = event->is_base && !link->options.hello.is_reader;
    asking.least = rbt_aheads_least(&caller->aheads, shard, event->table, event->least);
    rbt_status st = is_scan ? rbt_compose_scan(caller, &asking, &block)
                            : rbt_compose_pull(caller, link, &asking, asked->is_early, &block);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_frame header = {.kind = is_scan ? RBT_FRAME_SCAN : RBT_FRAME_PULL,
                                     .worker = caller->worker};
    struct rbt_link_request *sent = NULL;
    block->class = event->early != NULL ? RBT_TRAFFIC_EARLY : RBT_TRAFFIC_READ;
    st = rbt_link_ask(link, block, header, asked, &sent);
    if (st == RBT_OK && !is_scan && (asked->ahead == NULL || asked->ahead->is_once)) {
        sent->place = rbt_compose_place(caller, &asking);
    }
    return st;
}

/* Asks, for a call or ahead of one. */
static rbt_status request(struct rbt_caller *caller, uint32_t shard,
                          const struct rbt_shard_event *event, int64_t need,
                          const struct asked *what, struct asked **sent)
{
    struct asked *asked = rbt_calloc(1, sizeof *asked);
    if (asked == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a request");
    }
    *asked = *what;
    const rbt_status st = ask(caller, shard, event, need, asked);
    if (st != RBT_OK) {
        rbt_free(asked);
        return st;
    }
    if (sent != NULL) {
        *sent = asked;
    }
    return RBT_OK;
}

/* --- Rows asked for ahead -------------------------------------------------------------------- */

/* Asks for rows that nobody waits for; if that fails they are asked for when they are wanted. */
void rbt_caller_request_early(struct rbt_caller *caller, struct rbt_ahead *ahead,
                              const struct rbt_driver_call *call, int64_t need)
{
    const struct rbt_shard_event *event = &call->event;
    const struct asked what = {.ahead = ahead, .is_early = true};
    struct asked *sent = NULL;
    if (request(caller, call->shard, event, need, &what, &sent) != RBT_OK) {
        return;
    }
    ahead->request = sent;
    if (event->is_base) { /* stamps grow: it will be no older than what has been used */
        uint64_t known = ahead->answer_stamp != RBT_STAMP_NONE ? ahead->answer_stamp : event->least;
        if (event->early != NULL && (known == RBT_STAMP_NONE || known < ahead->last_stamp)) {
            known = ahead->last_stamp;
        }
        rbt_aheads_expect(&caller->aheads, ahead, event->table, known);
    }
}

/* Asks for the rows as they will be once everybody has got further. */
static void ask_ahead(struct rbt_caller *caller, struct rbt_ahead *ahead,
                      const struct rbt_driver_call *call)
{
    const int64_t floor = ahead->news.floor;
    ahead->idle = 0;
    if (ahead->is_once) {
        rbt_ahead_drop(ahead); /* used up */
        return;
    }
    if (ahead->request != NULL || floor == RBT_CLOCK_GONE ||
        caller->links[call->shard].request_count >= RBT_CALLER_AHEAD_MAX) {
        return;
    }
    const int64_t need = floor > call->event.need ? floor + 1 : call->event.need + 1;
    rbt_caller_request_early(caller, ahead, call, need);
}

/* Whether the answer has all that the reader relies on, and what it is a change of is there. */
static bool is_enough(const struct rbt_caller *caller, const struct rbt_driver_call *call,
                      const struct rbt_answer *answer)
{
    const struct rbt_shard_event *event = &call->event;
    const uint32_t asked = applied_asked(caller, call->shard, event);
    if (answer->head.applied_count != asked ||
        !rbt_packing_can_use(&caller->packing, event->asked, call->shard, &answer->head)) {
        return false;
    }
    for (uint32_t i = 0; event->applied_least != NULL && i < asked; i++) {
        if (answer->head.applied[i] < event->applied_least[i]) {
            return false;
        }
    }
    return true;
}

/* Whether the kept answer will do: of the right clock, and with all that the reader relies on. */
static bool is_fresh(const struct rbt_caller *caller, const struct rbt_ahead *ahead,
                     const struct rbt_driver_call *call, struct rbt_answer *answer)
{
    const struct rbt_body kept = {ahead->answer, ahead->answer_bytes, ahead->is_placed};
    return ahead->answer_bytes > 0 && ahead->news.floor >= call->event.need &&
           rbt_answer_parse(&kept, answer) == RBT_OK && is_enough(caller, call, answer);
}

/* Serves a waiting call from the kept answer, or asks again. */
static rbt_status serve_waiting(struct rbt_caller *caller, struct rbt_ahead *ahead)
{
    struct rbt_driver_call *call = ahead->call;
    struct rbt_answer kept;
    if (is_fresh(caller, ahead, call, &kept)) {
        ahead->call = NULL;
        caller->unanswered--;
        const rbt_status st = rbt_caller_complete(caller, call, &kept);
        ask_ahead(caller, ahead, call);
        return st;
    }
    if (ahead->request != NULL) {
        return RBT_OK;
    }
    const struct asked what = {.ahead = ahead};
    struct asked *sent = NULL;
    const rbt_status st =
        request(caller, call->shard, &call->event, call->event.need, &what, &sent);
    ahead->request = sent;
    return st;
}

static rbt_status pull_eagerly(struct rbt_caller *caller, struct rbt_driver_call *call)
{
    struct rbt_ahead *ahead =
        rbt_aheads_get(&caller->aheads, call->event.subscription, call->shard, false);
    if (ahead == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for rows sent ahead");
    }
    RBT_ASSERT(ahead->call == NULL); /* a worker has one step under way */
    ahead->table = call->event.table;
    ahead->call = call;
    caller->unanswered++;
    /* A copy of the right clock that lacks something: what is asked for ahead may have to wait for
     * this very worker, so the rows are asked for as they are now. */
    struct rbt_answer kept;
    if (ahead->request != NULL && ahead->news.floor >= call->event.need &&
        !is_fresh(caller, ahead, call, &kept)) {
        ahead->call = NULL;
        const struct asked what = {.call = call, .ahead = ahead};
        return request(caller, call->shard, &call->event, call->event.need, &what, NULL);
    }
    return serve_waiting(caller, ahead);
}

/* What has been asked for under the call's number and not been used; or NULL. */
static struct rbt_ahead *find_asked(const struct rbt_caller *caller,
                                    const struct rbt_driver_call *call)
{
    if (call->event.kind != RBT_SHARD_PULL || call->event.asked == 0) {
        return NULL;
    }
    struct rbt_ahead *ahead =
        rbt_aheads_find(&caller->aheads, call->event.asked, call->shard, true);
    return ahead != NULL && (ahead->request != NULL || ahead->answer_bytes > 0) ? ahead : NULL;
}

static rbt_status pull(struct rbt_caller *caller, struct rbt_driver_call *call)
{
    struct rbt_ahead *asked = find_asked(caller, call);
    if (asked != NULL) {
        asked->call = call;
        caller->unanswered++;
        return serve_waiting(caller, asked);
    }
    if (call->event.kind == RBT_SHARD_PULL && call->event.subscription != 0 &&
        call->event.need != RBT_CLOCK_ANY) {
        return pull_eagerly(caller, call);
    }
    const struct asked what = {.call = call};
    caller->unanswered++;
    return request(caller, call->shard, &call->event, call->event.need, &what, NULL);
}

/* --- Receiving ------------------------------------------------------------------------------- */

/* The shard does not send rows before they are wanted, since it has to keep too much for them. */
static rbt_status receive_nothing(struct rbt_caller *caller, const struct asked *asked)
{
    struct rbt_ahead *ahead = asked->ahead;
    if (!asked->is_early || ahead == NULL) {
        return rbt_answer_wrong();
    }
    if (ahead->request == asked) {
        rbt_ahead_arrived(ahead);
    }
    return ahead->call != NULL ? serve_waiting(caller, ahead) : RBT_OK;
}

/* Gives a call its answer. If that is a change of rows that have been replaced meanwhile, it is
 * asked again, and then all of them come. */
static rbt_status finish(struct rbt_caller *caller, const struct asked *asked,
                         const struct rbt_answer *answer)
{
    struct rbt_driver_call *call = asked->call;
    if (!rbt_packing_can_use(&caller->packing, call->event.asked, call->shard, &answer->head)) {
        return request(caller, call->shard, &call->event, call->event.need, asked, NULL);
    }
    caller->unanswered--;
    return rbt_caller_complete(caller, call, answer);
}

static rbt_status receive_rows(struct rbt_caller *caller, struct asked *asked,
                               const struct rbt_body *body)
{
    struct rbt_ahead *ahead = asked->ahead;
    struct rbt_answer answer;
    rbt_status st = rbt_answer_parse(body, &answer);
    if (st == RBT_OK && answer.head.is_withheld) {
        return receive_nothing(caller, asked);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (ahead != NULL && ahead->is_once && ahead->call != NULL && ahead->request == asked &&
        answer.head.news.floor >= ahead->call->event.need &&
        is_enough(caller, ahead->call, &answer)) { /* no need to keep it, or what came before */
        struct rbt_driver_call *call = ahead->call;
        rbt_ahead_drop(ahead);
        rbt_ahead_arrived(ahead);
        ahead->call = NULL;
        caller->unanswered--;
        return rbt_caller_complete(caller, call, &answer);
    }
    if (ahead != NULL) {
        if (ahead->request == asked) {
            rbt_ahead_arrived(ahead);
        }
        st = rbt_aheads_keep(&caller->aheads, ahead, &answer, body);
    }
    if (st == RBT_OK && asked->call != NULL) {
        return finish(caller, asked, &answer);
    }
    return st == RBT_OK && ahead != NULL && ahead->call != NULL ? serve_waiting(caller, ahead) : st;
}

static rbt_status on_answer(void *context, struct rbt_link *link, struct rbt_link_request *request,
                            const struct rbt_frame *frame, const char *body)
{
    struct rbt_caller *caller = context;
    struct asked *asked = request->owner;
    rbt_status st = RBT_OK;
    (void)link;
    if (asked == NULL) { /* a probe of a connection before */
        return RBT_OK;
    }
    if (frame->kind == RBT_FRAME_ROWS && asked->done == NULL) {
        const struct rbt_body whole = {.bytes = body,
                                       .count = request->is_placed ? request->place.prefix
                                                                   : frame->length,
                                       .is_placed = request->is_placed};
        st = receive_rows(caller, asked, &whole);
    } else if (frame->kind == RBT_FRAME_DONE && asked->done != NULL) {
        struct rbt_wire_cursor cursor = {body, body + frame->length};
        st = rbt_wire_get_done(&cursor, asked->done);
        caller->unanswered--;
    } else {
        st = rbt_answer_wrong();
    }
    rbt_free(asked);
    request->owner = NULL;
    if (st != RBT_OK) {
        rbt_caller_fail(caller, st); /* asking again would bring the same */
    }
    return st;
}

static void on_news(void *context, struct rbt_link *link)
{
    const struct rbt_caller *caller = context;
    const uint32_t shard = link->options.hello.shard;
    int64_t floor = atomic_load_explicit(&caller->shared->floors[shard], memory_order_relaxed);
    while (link->news.floor > floor && !atomic_compare_exchange_weak_explicit(
                                           &caller->shared->floors[shard], &floor, link->news.floor,
                                           memory_order_relaxed, memory_order_relaxed)) {
    }
    uint64_t version = atomic_load_explicit(&caller->shared->versions[shard], memory_order_relaxed);
    while (link->news.version > version &&
           !atomic_compare_exchange_weak_explicit(&caller->shared->versions[shard], &version,
                                                  link->news.version, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

/* --- Waiting --------------------------------------------------------------------------------- */

/* A shard is gone, or has no more to do with us: that is seldom all. The coordinator knows who was
 * lost, and will say so in a moment, if it has not. */
static rbt_status ask_why(const struct rbt_caller *caller, rbt_status st)
{
    struct pollfd alarm = {.fd = rbt_member_alarm(caller->shared->member), .events = POLLIN};
    if (st != RBT_E_CLOSED || poll(&alarm, 1, WHY_MS) <= 0) {
        return st;
    }
    const rbt_status why = rbt_member_failure(caller->shared->member);
    return why != RBT_OK ? why : st;
}

static void work(struct rbt_caller *caller, rbt_time now)
{
    const struct rbt_link_handler handler = {
        .context = caller, .on_answer = on_answer, .on_news = on_news};
    for (uint32_t i = 0; caller->status == RBT_OK && i < caller->shared->shard_count; i++) {
        const rbt_status st = rbt_link_work(&caller->links[i], now, &handler);
        if (st != RBT_OK) {
            rbt_caller_fail(caller, ask_why(caller, st));
        }
    }
}

void rbt_caller_look(struct rbt_caller *caller)
{
    rbt_caller_lock(caller);
    if (caller->status == RBT_OK) {
        work(caller, rbt_clock_now());
    }
    rbt_caller_unlock(caller);
}

/* The same, unless that was a moment ago. */
void rbt_caller_glance(struct rbt_caller *caller)
{
    const rbt_time now = rbt_clock_now();
    if (caller->status == RBT_OK && now - caller->looked_at >= GLANCE_TIME) {
        caller->looked_at = now;
        work(caller, now);
    }
}

/* Waits for something to happen: looks for a moment, then sleeps. */
static int poll_all(struct rbt_caller *caller, int timeout)
{
    const nfds_t count = caller->shared->shard_count + 1;
    int ready = 0;
    if (timeout != 0 && rbt_spin_begin(&caller->spin)) {
        do {
            ready = poll(caller->polls, count, 0);
        } while (ready == 0 && rbt_spin_again(&caller->spin));
        rbt_spin_end(&caller->spin, ready != 0);
    }
    return ready != 0 ? ready : poll(caller->polls, count, timeout);
}

/* Sleeps until something can be done, and does it. */
static void wait_once(struct rbt_caller *caller)
{
    const uint32_t count = caller->shared->shard_count;
    rbt_time deadline = RBT_TIME_NEVER;
    for (uint32_t i = 0; i < count; i++) {
        const rbt_time due = rbt_link_prepare(&caller->links[i], &caller->polls[i]);
        deadline = due < deadline ? due : deadline;
    }
    caller->polls[count] =
        (struct pollfd){.fd = rbt_member_alarm(caller->shared->member), .events = POLLIN};
    const rbt_time now = rbt_clock_now();
    int timeout = -1;
    if (deadline != RBT_TIME_NEVER) {
        const rbt_time left = deadline - now;
        const rbt_time most = left < TIMEOUT_MAX ? left : TIMEOUT_MAX;
        timeout = left <= 0 ? 0 : (int)((most + NANOSECONDS_PER_MS - 1) / NANOSECONDS_PER_MS);
    }
    if (poll_all(caller, timeout) < 0 && errno != EINTR) {
        rbt_caller_fail(caller, rbt_fail(RBT_E_IO, "could not wait for the shards"));
        return;
    }
    if (caller->polls[count].revents != 0) {
        rbt_caller_fail(caller, rbt_member_failure(caller->shared->member));
        return;
    }
    work(caller, rbt_clock_now());
}

/* Whether everything has been handed to the kernel, and no shard owes too much. */
static bool is_flushed(const struct rbt_caller *caller)
{
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        const struct rbt_link *link = &caller->links[i];
        /* A connection that is there may have something left for the sender. */
        const bool is_sent = rbt_link_is_flushed(link) ||
                             (caller->shared->sender != NULL && link->state == RBT_LINK_UP);
        if (!is_sent || link->kept_bytes > KEPT_MAX) {
            return false;
        }
    }
    return true;
}

static void flush(struct rbt_caller *caller)
{
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        rbt_link_flush(&caller->links[i]);
    }
    while (caller->status == RBT_OK && !is_flushed(caller)) {
        wait_once(caller);
    }
}

rbt_status rbt_caller_drain(struct rbt_caller *caller)
{
    rbt_caller_lock(caller);
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        while (caller->status == RBT_OK && caller->links[i].kept != NULL) {
            wait_once(caller);
        }
    }
    rbt_caller_unlock(caller);
    return caller->status == RBT_OK ? RBT_OK : rbt_caller_refuse(caller);
}

/* --- Steps ----------------------------------------------------------------------------------- */

static rbt_status push(struct rbt_caller *caller, const struct rbt_driver_call *call)
{
    const struct rbt_shard_event *event = &call->event;
    struct rbt_link *link = &caller->links[call->shard];
    const bool is_leave = event->kind == RBT_SHARD_LEAVE;
    if (!is_leave && event->sequence <= link->sent) {
        return RBT_OK; /* another shard's copy could not be sent, and so all are sent again */
    }
    struct rbt_block *block = NULL;
    rbt_status st = RBT_OK;
    if (is_leave) {
        block = rbt_block_create(RBT_WIRE_LEAVE_BYTES);
        st = block == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for a message") : RBT_OK;
    } else {
        st = rbt_compose_push(caller, call->shard, event, &block);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (event->marker != RBT_MARKER_NONE) {
        rbt_aheads_end_clock(&caller->aheads, call->shard);
    }
    const uint64_t number = event->sequence > link->sent ? event->sequence : link->sent + 1;
    block->bytes = is_leave ? RBT_WIRE_LEAVE_BYTES : block->bytes;
    block->class = call->is_early ? RBT_TRAFFIC_EARLY : RBT_TRAFFIC_CLOCK;
    rbt_wire_close(block->data,
                   (struct rbt_frame){.kind = is_leave ? RBT_FRAME_LEAVE : RBT_FRAME_PUSH,
                                      .worker = caller->worker,
                                      .id = number},
                   block->bytes);
    return rbt_link_push(link, block, number, is_leave);
}

static void start(struct rbt_caller *caller, struct rbt_driver_call *call)
{
    const struct rbt_link *link = &caller->links[call->shard];
    const bool is_request =
        call->event.kind == RBT_SHARD_PULL || call->event.kind == RBT_SHARD_SCAN;
    call->reply = (struct rbt_driver_reply){.floor = link->news.floor,
                                            .version = link->news.version,
                                            .acknowledged = link->news.arrived,
                                            .settled = link->news.settled};
    const rbt_status st = is_request ? pull(caller, call) : push(caller, call);
    if (st == RBT_E_CLOSED || st == RBT_E_PROTOCOL || (st != RBT_OK && is_request)) {
        rbt_caller_fail(caller, st); /* calls of this step may be on their way */
    }
    call->reply.status = st != RBT_OK ? st : call->reply.status;
    /* A clock that did not reach every shard may be taken back; what has been sent of it stays. */
    for (uint32_t i = 0; st != RBT_OK && !is_request && i < caller->shared->shard_count; i++) {
        rbt_link_own(&caller->links[i]);
    }
}

/* Steps with the mutex held. */
static void step(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    bool is_late = false;
    for (size_t i = 0; i < count; i++) {
        const int64_t floor = caller->links[calls[i].shard].news.floor;
        is_late = is_late || calls[i].event.need > floor;
    }
    caller->had_to_wait = is_late;
    for (size_t i = 0; caller->status == RBT_OK && i < count; i++) {
        start(caller, &calls[i]);
    }
    if (caller->status == RBT_OK) {
        flush(caller);
    }
    if (caller->unanswered > 0) {
        const rbt_time began = rbt_clock_now();
        while (caller->status == RBT_OK && caller->unanswered > 0) {
            wait_once(caller);
        }
        calls[0].reply.waited = rbt_clock_now() - began;
    }
    for (size_t i = 0; caller->status != RBT_OK && i < count; i++) {
        calls[i].reply.status = rbt_caller_refuse(caller);
    }
    for (uint32_t i = 0; caller->status != RBT_OK && i < caller->aheads.count; i++) {
        caller->aheads.all[i]->call = NULL; /* on a stack that is about to be left */
    }
    if (count > 0) {
        rbt_caller_count_bytes(caller, &calls[0].reply);
        rbt_caller_count_filtered(caller, &calls[0].reply);
    }
}

void rbt_caller_step(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    rbt_caller_lock(caller);
    step(caller, calls, count);
    rbt_caller_unlock(caller);
}

void rbt_caller_expect(struct rbt_caller *caller, struct rbt_driver_call *calls, size_t count)
{
    rbt_caller_lock(caller);
    for (size_t i = 0; caller->status == RBT_OK && i < count; i++) {
        struct rbt_driver_call *call = &calls[i];
        struct rbt_ahead *ahead =
            rbt_aheads_get(&caller->aheads, call->event.asked, call->shard, true);
        if (ahead == NULL || ahead->request != NULL ||
            caller->links[call->shard].request_count >= RBT_CALLER_AHEAD_MAX) {
            continue; /* it is asked for when it is wanted, or it is on its way */
        }
        rbt_ahead_drop(ahead);
        rbt_caller_request_early(caller, ahead, call, call->event.need);
        rbt_link_flush(&caller->links[call->shard]);
    }
    rbt_caller_unlock(caller);
}

void rbt_caller_forget(struct rbt_caller *caller, uint64_t asked)
{
    rbt_caller_lock(caller);
    for (uint32_t i = 0; i < caller->shared->shard_count; i++) {
        struct rbt_ahead *ahead = rbt_aheads_find(&caller->aheads, asked, i, true);
        while (caller->status == RBT_OK && ahead != NULL && ahead->request != NULL) {
            wait_once(caller);
        }
        if (ahead != NULL) {
            rbt_ahead_drop(ahead);
            rbt_free(ahead->answer);
            ahead->answer = NULL;
            ahead->answer_max = 0;
        }
    }
    rbt_packing_forget(&caller->packing, asked);
    rbt_caller_forget_early(caller, asked);
    rbt_caller_unlock(caller);
}

bool rbt_caller_has_answer(struct rbt_caller *caller, uint64_t asked)
{
    rbt_caller_look(caller);
    for (uint32_t i = 0; caller->status == RBT_OK && i < caller->shared->shard_count; i++) {
        const struct rbt_ahead *ahead = rbt_aheads_find(&caller->aheads, asked, i, true);
        if (ahead != NULL && ahead->request != NULL) {
            return false;
        }
    }
    return true;
}

/* --- Questions ------------------------------------------------------------------------------- */

/* Asks with the mutex held. */
static rbt_status ask_done(struct rbt_caller *caller, uint32_t shard, struct rbt_block *block,
                           struct rbt_frame header, struct rbt_wire_done *done)
{
    struct asked *asked = rbt_calloc(1, sizeof *asked);
    if (asked == NULL || caller->status != RBT_OK) {
        rbt_free(asked);
        rbt_block_unref(block);
        return caller->status != RBT_OK ? rbt_caller_refuse(caller)
                                        : rbt_fail(RBT_E_NOMEM, "no memory for a request");
    }
    asked->done = done;
    caller->unanswered++;
    const rbt_status st = rbt_link_ask(&caller->links[shard], block, header, asked, NULL);
    if (st != RBT_OK) {
        rbt_caller_fail(caller, st);
    }
    while (caller->status == RBT_OK && caller->unanswered > 0) {
        wait_once(caller);
    }
    if (caller->status != RBT_OK) {
        return rbt_caller_refuse(caller);
    }
    return done->status == RBT_OK ? RBT_OK : rbt_fail((rbt_status)done->status, "%s", done->text);
}

rbt_status rbt_caller_ask(struct rbt_caller *caller, uint32_t shard, struct rbt_block *block,
                          struct rbt_frame header, struct rbt_wire_done *done)
{
    rbt_caller_lock(caller);
    const rbt_status st = ask_done(caller, shard, block, header, done);
    rbt_caller_unlock(caller);
    return st;
}
