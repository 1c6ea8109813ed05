/* net/member.c - a member of a cluster, for its callers.
 *
 * What is said, and when, is decided by proto/membership.c. The member's thread (member_line.c)
 * owns the connection. Callers step the machine under the mutex, wake the thread if there is
 * something to be done, and wait on the condition for the answer.
 *
 * Threads: see member.h. */
#include "net/member.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"
#include "net/address.h"
#include "net/member_state.h"

#define SECOND    1000000000L
#define LOOK_TIME (SECOND / 10) /* between two looks whether to stop */

static void destroy(rbt_member *member)
{
    rbt_membership_deinit(&member->machine);
    rbt_outbox_deinit(&member->out.port);
    rbt_outbox_deinit(&member->doing);
    for (uint32_t i = 0; member->shards != NULL && i < member->shard_count; i++) {
        rbt_free(member->shards[i]);
    }
    rbt_free(member->shards);
    rbt_free(member->space);
    rbt_free(member->coordinator);
    if (member->wake >= 0) {
        (void)close(member->wake);
    }
    if (member->alarm >= 0) {
        (void)close(member->alarm);
    }
    pthread_cond_destroy(&member->changed);
    pthread_mutex_destroy(&member->mutex);
    pthread_mutex_destroy(&member->telling);
    rbt_free(member);
}

/* Copies the texts of the options. */
static rbt_status copy_options(rbt_member *member, const struct rbt_member_options *options)
{
    member->options = *options;
    member->coordinator = rbt_strdup(options->coordinator);
    member->space = rbt_strdup(options->space == NULL ? "" : options->space);
    const uint32_t count = options->role == RBT_ROLE_SERVER ? options->shard_count : 0;
    member->shards = rbt_calloc(count, sizeof *member->shards);
    bool is_good = member->coordinator != NULL && member->space != NULL && member->shards != NULL;
    for (uint32_t i = 0; is_good && i < count; i++) {
        member->shards[i] = rbt_strdup(options->shards[i]);
        is_good = member->shards[i] != NULL;
        member->shard_count++;
    }
    return is_good ? RBT_OK : rbt_fail(RBT_E_NOMEM, "could not allocate a member of a cluster");
}

static rbt_status open_descriptors(rbt_member *member)
{
    member->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    member->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (member->wake < 0 || member->alarm < 0) {
        return rbt_fail(RBT_E_IO, "could not create a wake-up descriptor");
    }
    while (member->token == 0) {
        if (getrandom(&member->token, sizeof member->token, 0) != sizeof member->token) {
            return rbt_fail(RBT_E_IO, "could not draw a random number");
        }
    }
    if (gethostname(member->host, sizeof member->host) != 0) {
        (void)snprintf(member->host, sizeof member->host, "unknown"); /* it is only for people */
    }
    member->host[sizeof member->host - 1] = '\0';
    return RBT_OK;
}

static void init_machine(rbt_member *member)
{
    const struct rbt_member_options *options = &member->options;
    const struct rbt_membership_options machine = {.coordinator = member->coordinator,
                                                   .role = options->role,
                                                   .index = options->index,
                                                   .start_timeout = options->start_timeout,
                                                   .silence_max = options->silence_max,
                                                   .cut_max = options->cut_max,
                                                   .shards = (const char *const *)member->shards,
                                                   .shard_count = member->shard_count,
                                                   .space = member->space,
                                                   .worker_count = options->worker_count,
                                                   .thread_count = options->thread_count,
                                                   .permit = options->permit,
                                                   .read_permit = options->read_permit,
                                                   .token = member->token,
                                                   .host = member->host,
                                                   .pid = (uint32_t)getpid()};
    rbt_membership_init(&member->machine, &machine, rbt_clock_now());
}

static rbt_status start_thread(rbt_member *member)
{
    init_machine(member);
    const int error = rbt_thread_create(&member->thread, rbt_member_run, member);
    if (error != 0) {
        errno = error;
        return rbt_fail(RBT_E_IO, "could not start the thread that talks to the coordinator");
    }
    member->has_thread = true;
    return RBT_OK;
}

static rbt_status check_options(const struct rbt_member_options *options)
{
    RBT_ASSERT(options->silence_max > 0);
    RBT_ASSERT(options->cut_max > 0);
    RBT_ASSERT(options->index >= RBT_INDEX_ANY);
    if (options->space != NULL && strlen(options->space) >= RBT_NAME_MAX) {
        return rbt_fail(RBT_E_INVALID, "the namespace \"%.32s...\" is longer than %d characters",
                        options->space, RBT_NAME_MAX - 1);
    }
    if (options->role != RBT_ROLE_SERVER &&
        (options->thread_count == 0 || options->thread_count > options->worker_count ||
         options->worker_count > RBT_JOB_WORKERS_MAX)) {
        return rbt_fail(RBT_E_INVALID, "a process cannot have %u of %u workers",
                        options->thread_count, options->worker_count);
    }
    if (options->role == RBT_ROLE_SERVER &&
        (options->shard_count == 0 || options->shard_count > RBT_CLUSTER_SHARDS_MAX)) {
        return rbt_fail(RBT_E_INVALID, "a server cannot have %u shards", options->shard_count);
    }
    return rbt_address_check(options->coordinator);
}

/* With the mutex held: waits for a change, and looks from time to time whether to stop. */
static void wait_for_change(rbt_member *member)
{
    if (member->options.should_stop == NULL) {
        pthread_cond_wait(&member->changed, &member->mutex);
        return;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail for this clock */
    until.tv_nsec += LOOK_TIME;
    until.tv_sec += until.tv_nsec / SECOND;
    until.tv_nsec %= SECOND;
    (void)pthread_cond_timedwait(&member->changed, &member->mutex, &until); /* callers look */
    if (member->options.should_stop()) {
        pthread_mutex_unlock(&member->mutex);
        rbt_member_give_up(member, RBT_E_INTERRUPTED, "stopped");
        pthread_mutex_lock(&member->mutex);
    }
}

/* A condition that nobody who sets the clock can keep waiting. */
static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    int error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    RBT_ASSERT(error == 0);
    error = pthread_cond_init(condition, &attributes);
    RBT_ASSERT(error == 0);
    pthread_condattr_destroy(&attributes);
}

rbt_status rbt_member_join(const struct rbt_member_options *options, rbt_member **member)
{
    rbt_status st = check_options(options);
    if (st != RBT_OK) {
        return st;
    }
    rbt_member *m = rbt_calloc(1, sizeof *m);
    if (m == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a member of a cluster");
    }
    m->wake = -1;
    m->alarm = -1;
    m->socket = -1;
    pthread_mutex_init(&m->mutex, NULL);
    pthread_mutex_init(&m->telling, NULL);
    init_condition(&m->changed);
    st = copy_options(m, options);
    if (st == RBT_OK) {
        st = open_descriptors(m);
    }
    if (st == RBT_OK) {
        st = start_thread(m);
    }
    if (st != RBT_OK) {
        destroy(m);
        return st;
    }
    pthread_mutex_lock(&m->mutex);
    while (!rbt_membership_has_plan(&m->machine) && !rbt_membership_has_ended(&m->machine)) {
        wait_for_change(m);
    }
    const bool has_plan = rbt_membership_has_plan(&m->machine) && m->machine.failure == RBT_OK;
    pthread_mutex_unlock(&m->mutex);
    if (has_plan) {
        *member = m;
        return RBT_OK;
    }
    struct rbt_error_record record;
    st = rbt_member_failure(m);
    if (st == RBT_OK) {
        st = rbt_fail(RBT_E_CLOSED, "the cluster has ended");
    }
    rbt_error_save(&record);
    rbt_member_leave(m, st, record.message);
    rbt_error_restore(&record);
    return st;
}

const struct rbt_member_plan *rbt_member_plan(const rbt_member *member)
{
    return &member->machine.plan; /* not written any more */
}

bool rbt_member_settle(rbt_member *member)
{
    if (member->out.must_wake) {
        member->out.must_wake = false;
        pthread_cond_broadcast(&member->changed);
    }
    if (member->machine.failure != RBT_OK && !member->has_alarmed) {
        member->has_alarmed = true;
        rbt_member_signal(member->alarm);
    }
    const rbt_time deadline = rbt_membership_deadline(&member->machine);
    const bool is_sooner = deadline < member->sleeps_until;
    if (is_sooner) {
        member->sleeps_until = deadline; /* who comes next need not wake it again for that */
    }
    return is_sooner || member->out.port.count > 0 || rbt_membership_has_left(&member->machine);
}

void rbt_member_step(rbt_member *member, const struct rbt_membership_event *event)
{
    pthread_mutex_lock(&member->mutex);
    rbt_membership_step(&member->machine, event, rbt_clock_now(), &member->out);
    const bool must_wake = rbt_member_settle(member);
    pthread_mutex_unlock(&member->mutex);
    if (must_wake) {
        rbt_member_signal(member->wake);
    }
}

/* With the mutex held. The sentence becomes the calling thread's. */
static rbt_status repeat_failure(const rbt_member *member)
{
    errno = 0; /* or it would be added for RBT_E_IO */
    const struct rbt_membership *machine = &member->machine;
    return machine->failure == RBT_OK ? RBT_OK
                                      : rbt_fail(machine->failure, "%s", machine->failure_text);
}

rbt_status rbt_member_failure(const rbt_member *member)
{
    rbt_member *m = (rbt_member *)member; /* the mutex is not part of what it is */
    pthread_mutex_lock(&m->mutex);
    const rbt_status st = repeat_failure(m);
    pthread_mutex_unlock(&m->mutex);
    return st;
}

rbt_status rbt_member_gather(rbt_member *member, const void *bytes, size_t size,
                             void (*visit)(void *context, uint32_t process, const char *bytes,
                                           size_t size),
                             void *context)
{
    RBT_ASSERT(member->options.role != RBT_ROLE_SERVER);
    if (size > RBT_FRAME_BODY_MAX / 2) {
        return rbt_fail(RBT_E_INVALID, "a gather of %zu bytes is too large", size);
    }
    if (member->machine.plan.process_count == 1) { /* nobody else has anything to say */
        const rbt_status st = rbt_member_failure(member);
        if (st == RBT_OK) {
            visit(context, 0, bytes, size);
        }
        return st;
    }
    rbt_member_step(member, &(struct rbt_membership_event){
                                .kind = RBT_MEMBERSHIP_GATHER,
                                .part = {.bytes = bytes, .size = size},
                            });
    pthread_mutex_lock(&member->mutex);
    while (rbt_membership_is_gathering(&member->machine)) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    struct rbt_block *gathered = rbt_membership_take_gathered(&member->machine);
    rbt_status st = gathered != NULL ? RBT_OK : repeat_failure(member);
    pthread_mutex_unlock(&member->mutex);
    if (gathered == NULL) {
        return st != RBT_OK ? st : rbt_fail(RBT_E_CLOSED, "the cluster has ended");
    }
    struct rbt_wire_cursor parts;
    uint32_t count;
    st = rbt_control_get_gathered(
        (struct rbt_wire_cursor){.at = gathered->data, .end = gathered->data + gathered->bytes},
        &parts, &count);
    RBT_ASSERT(st == RBT_OK); /* the machine has looked at it */
    for (uint32_t i = 0; i < count; i++) {
        struct rbt_control_part part;
        rbt_control_next_part(&parts, &part);
        visit(context, i, part.bytes, part.size);
    }
    rbt_block_unref(gathered);
    return RBT_OK;
}

rbt_status rbt_member_set_bound(rbt_member *member, uint32_t table, int64_t staleness)
{
    RBT_ASSERT(member->options.role == RBT_ROLE_WORKER);
    pthread_mutex_lock(&member->telling);
    rbt_member_step(member,
                    &(struct rbt_membership_event){
                        .kind = RBT_MEMBERSHIP_BOUND,
                        .bound = {.table = table, .staleness = staleness, .is_awaited = true}});
    pthread_mutex_lock(&member->mutex);
    while (rbt_membership_is_telling(&member->machine)) {
        pthread_cond_wait(&member->changed, &member->mutex);
    }
    const rbt_status st = repeat_failure(member);
    pthread_mutex_unlock(&member->mutex);
    pthread_mutex_unlock(&member->telling);
    return st;
}

void rbt_member_advise_bound(rbt_member *member, uint32_t table, int64_t staleness)
{
    RBT_ASSERT(member->options.role == RBT_ROLE_WORKER);
    rbt_member_step(member, &(struct rbt_membership_event){
                                .kind = RBT_MEMBERSHIP_BOUND,
                                .bound = {.table = table, .staleness = staleness},
                            });
}

void rbt_member_tell_version(rbt_member *member, const struct rbt_member_version *version)
{
    rbt_member_step(member, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_VERSION,
                                                           .version = *version});
}

void rbt_member_give_up(rbt_member *member, rbt_status status, const char *why)
{
    rbt_member_step(member, &(struct rbt_membership_event){
                                .kind = RBT_MEMBERSHIP_GIVE_UP,
                                .ending = {.status = status, .why = why},
                            });
}

int rbt_member_alarm(const rbt_member *member)
{
    return member->alarm;
}

rbt_status rbt_member_wait(rbt_member *member)
{
    pthread_mutex_lock(&member->mutex);
    while (!rbt_membership_has_ended(&member->machine)) {
        wait_for_change(member);
    }
    const rbt_status st = repeat_failure(member);
    pthread_mutex_unlock(&member->mutex);
    return st;
}

void rbt_member_leave(rbt_member *member, rbt_status status, const char *why)
{
    if (member == NULL) {
        return;
    }
    if (member->has_thread) {
        rbt_member_step(member, &(struct rbt_membership_event){
                                    .kind = RBT_MEMBERSHIP_LEAVE,
                                    .ending = {.status = status, .why = why},
                                });
        pthread_join(member->thread, NULL);
    }
    destroy(member);
}
