/* proto/roster_job.c - the jobs of a roster: they form, run, gather and end.
 *
 * A job is over for all as soon as it is for one: its peers are told, the servers may drop its
 * tables, and its namespace is free for the next. Its place is kept until its last peer is gone.
 *
 * Threads: none. Memory: parts of a gather are copied, and kept until the next round is complete.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "proto/roster_state.h"

static uint32_t place_of(const rbt_roster *roster, const struct rbt_roster_job *job)
{
    return (uint32_t)(job - roster->jobs);
}

static bool is_worker_of(const struct rbt_roster_peer *peer, uint32_t job)
{
    return peer->is_there && peer->role == RBT_ROLE_WORKER && peer->job == job;
}

bool rbt_roster_is_worker_of(const rbt_roster *roster, uint32_t peer,
                             const struct rbt_roster_job *job)
{
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    return is_worker_of(&roster->peers[peer], place_of(roster, job));
}

static void free_part(struct rbt_roster_part *part)
{
    rbt_free(part->bytes);
    *part = (struct rbt_roster_part){0};
}

void rbt_roster_free_job(struct rbt_roster_job *job)
{
    for (uint32_t i = 0; job->parts != NULL && i < job->shape.process_count; i++) {
        free_part(&job->parts[i]);
    }
    rbt_free(job->parts);
    for (uint32_t i = 0; i < job->table_count; i++) {
        rbt_free(job->tables[i].versions);
    }
    rbt_free(job->tables);
    rbt_bounds_deinit(&job->bounds);
    rbt_free(job->servers);
    *job = (struct rbt_roster_job){.state = RBT_ROSTER_JOB_NONE};
}

struct rbt_roster_job *rbt_roster_find_job(const rbt_roster *roster, const char *space)
{
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        struct rbt_roster_job *job = &roster->jobs[i];
        const bool is_open =
            job->state == RBT_ROSTER_JOB_FORMING || job->state == RBT_ROSTER_JOB_RUNNING;
        if (is_open && strcmp(job->space, space) == 0) {
            return job;
        }
    }
    return NULL;
}

uint32_t rbt_roster_job_peers(const rbt_roster *roster, const struct rbt_roster_job *job,
                              bool with_readers)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        const struct rbt_roster_peer *peer = &roster->peers[i];
        if (peer->is_there && peer->job == place_of(roster, job) &&
            (with_readers || peer->role == RBT_ROLE_WORKER)) {
            count++;
        }
    }
    return count;
}

rbt_status rbt_roster_add_job(rbt_roster *roster, const struct rbt_control_join *join, rbt_time now,
                              struct rbt_roster_job **job)
{
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        struct rbt_roster_job *j = &roster->jobs[i];
        if (j->state == RBT_ROSTER_JOB_OVER && rbt_roster_job_peers(roster, j, true) == 0) {
            rbt_roster_free_job(j);
        }
        if (j->state != RBT_ROSTER_JOB_NONE) {
            continue;
        }
        struct rbt_wire_secret secrets[2];
        const rbt_status st = roster->options.draw(secrets, sizeof secrets);
        if (st != RBT_OK) {
            return st;
        }
        *j = (struct rbt_roster_job){.state = RBT_ROSTER_JOB_FORMING,
                                     .number = ++roster->job_count,
                                     .worker_count = join->worker_count,
                                     .permit = join->permit,
                                     .read_permit = join->read_permit,
                                     .secret = secrets[0],
                                     .read_secret = secrets[1],
                                     .deadline = now + roster->options.start_timeout};
        if (roster->options.is_once && j->number == 1) {
            j->deadline = roster->server_deadline;
        }
        memcpy(j->space, join->space, sizeof j->space);
        *job = j;
        return RBT_OK;
    }
    return rbt_fail(RBT_E_BUSY, "the cluster already has %d jobs, the most that it allows",
                    RBT_ROSTER_JOBS_MAX);
}

static void plan_peer(rbt_roster *roster, uint32_t peer, struct rbt_roster_outbox *out)
{
    struct rbt_roster_peer *p = &roster->peers[peer];
    p->is_planned = true;
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_PLAN, .peer = peer});
}

/* Whether the reader may read what the job trains. */
static bool may_read(const struct rbt_roster_job *job, const struct rbt_roster_peer *reader)
{
    static const struct rbt_wire_secret none;
    return rbt_wire_is_secret(&job->read_permit, &none) ||
           rbt_wire_is_secret(&job->read_permit, &reader->permit);
}

void rbt_roster_attach_readers(rbt_roster *roster, struct rbt_roster_outbox *out)
{
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        struct rbt_roster_peer *peer = &roster->peers[i];
        if (!peer->is_there || peer->role != RBT_ROLE_READER || peer->is_planned || peer->is_told) {
            continue;
        }
        const struct rbt_roster_job *job = rbt_roster_find_job(roster, peer->space);
        if (job == NULL || job->state != RBT_ROSTER_JOB_RUNNING) {
            continue;
        }
        if (may_read(job, peer)) {
            peer->job = place_of(roster, job);
            plan_peer(roster, i, out);
        } else {
            rbt_roster_tell(
                roster, i, RBT_E_INVALID,
                "the job in this namespace may be read only with the key of its readers", out);
        }
    }
}

static void emit_job(const struct rbt_roster_job *job, uint32_t server,
                     struct rbt_roster_outbox *out)
{
    rbt_roster_emit(out, (struct rbt_roster_effect){
                             .kind = RBT_ROSTER_JOB, .peer = server, .job = job->number});
}

void rbt_roster_repeat_jobs(const rbt_roster *roster, uint32_t peer, struct rbt_roster_outbox *out)
{
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        if (roster->jobs[i].state == RBT_ROSTER_JOB_RUNNING) {
            emit_job(&roster->jobs[i], peer, out);
        }
    }
}

void rbt_roster_job(const rbt_roster *roster, uint64_t number, struct rbt_control_job *job)
{
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        const struct rbt_roster_job *j = &roster->jobs[i];
        if (j->number == number && j->state != RBT_ROSTER_JOB_NONE) {
            *job = (struct rbt_control_job){.worker_count = j->worker_count,
                                            .secret = j->secret,
                                            .read_secret = j->read_secret};
            return;
        }
    }
    RBT_UNREACHABLE(); /* effects are performed before the place is used again */
}

void rbt_roster_start_jobs(rbt_roster *roster, struct rbt_roster_outbox *out)
{
    for (uint32_t i = 0; roster->has_servers && i < RBT_ROSTER_JOBS_MAX; i++) {
        struct rbt_roster_job *job = &roster->jobs[i];
        if (job->state != RBT_ROSTER_JOB_FORMING || !job->shape.is_complete) {
            continue;
        }
        job->state = RBT_ROSTER_JOB_RUNNING;
        rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_STARTED,
                                                        .job = job->number,
                                                        .text = job->space});
        for (uint32_t p = 0; p < RBT_ROSTER_PEERS_MAX; p++) { /* servers first: they are asked */
            if (roster->peers[p].is_there && roster->peers[p].role == RBT_ROLE_SERVER) {
                emit_job(job, p, out);
            }
        }
        for (uint32_t p = 0; p < RBT_ROSTER_PEERS_MAX; p++) {
            if (is_worker_of(&roster->peers[p], i)) {
                plan_peer(roster, p, out);
            }
        }
    }
    rbt_roster_attach_readers(roster, out);
}

/* The servers may forget the job's tables. */
static void drop(rbt_roster *roster, uint64_t job, struct rbt_roster_outbox *out)
{
    roster->drops[roster->drop_count++ % RBT_ROSTER_DROPS_KEPT] = job;
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        const struct rbt_roster_peer *peer = &roster->peers[i];
        if (peer->is_there && peer->role == RBT_ROLE_SERVER) {
            rbt_roster_emit(
                out, (struct rbt_roster_effect){.kind = RBT_ROSTER_DROP, .peer = i, .job = job});
        }
    }
}

void rbt_roster_end_job(rbt_roster *roster, struct rbt_roster_job *job, rbt_status status,
                        const char *text, struct rbt_roster_outbox *out)
{
    if (job->state != RBT_ROSTER_JOB_FORMING && job->state != RBT_ROSTER_JOB_RUNNING) {
        return;
    }
    job->state = RBT_ROSTER_JOB_OVER;
    job->status = status;
    (void)snprintf(job->text, sizeof job->text, "%s", text);
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_ENDED,
                                                    .job = job->number,
                                                    .status = status,
                                                    .text = job->text});
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        const struct rbt_roster_peer *peer = &roster->peers[i];
        if (!peer->is_there || peer->job != place_of(roster, job)) {
            continue;
        }
        if (status == RBT_OK) { /* only readers are left */
            rbt_roster_tell(roster, i, RBT_E_CLOSED, "the job that is read from has ended", out);
        } else {
            rbt_roster_tell(roster, i, status, job->text, out);
        }
    }
    drop(roster, job->number, out);
    if (roster->options.is_once && job->number == 1 && roster->stage == RBT_ROSTER_AT_WORK) {
        roster->stage = RBT_ROSTER_AFTER_JOB;
        roster->stage_deadline = 0; /* roster.c, which knows the time, sets it */
        roster->status = status;
        memcpy(roster->text, job->text, sizeof roster->text);
    }
}

void rbt_roster_job_missing(rbt_roster *roster, struct rbt_roster_job *job,
                            struct rbt_text_buffer *text)
{
    const uint32_t count = rbt_roster_entries(roster, job);
    rbt_numbering_missing(roster->entries, count, &job->shape, "worker", text);
}

/* Somebody who is there has brought a part of a round that is not complete. */
static bool is_gathering(const rbt_roster *roster, const struct rbt_roster_job *job)
{
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        const struct rbt_roster_peer *peer = &roster->peers[i];
        if (is_worker_of(peer, place_of(roster, job)) && peer->part.is_there) {
            return true;
        }
    }
    return false;
}

void rbt_roster_job_left(rbt_roster *roster, struct rbt_roster_job *job, const char *who,
                         struct rbt_roster_outbox *out)
{
    char text[RBT_WIRE_TEXT_MAX];
    job->left_count++;
    if (job->state == RBT_ROSTER_JOB_FORMING) {
        (void)snprintf(text, sizeof text, "%s left before the job began", who);
        rbt_roster_end_job(roster, job, RBT_E_CLOSED, text, out);
    } else if (rbt_roster_job_peers(roster, job, false) == 0) {
        rbt_roster_end_job(roster, job, RBT_OK, "", out);
    } else if (is_gathering(roster, job)) {
        (void)snprintf(text, sizeof text, "%s left while others waited for it", who);
        rbt_roster_end_job(roster, job, RBT_E_CLOSED, text, out);
    } else { /* the others need not wait until it has taken what was told */
        rbt_roster_settle_bounds(roster, job, out);
    }
}

/* Keeps a copy of the part. A repeated one replaces the first: they are the same. */
static rbt_status keep_part(struct rbt_roster_peer *peer, const struct rbt_control_part *part)
{
    char *bytes = rbt_calloc(part->size, 1);
    if (bytes == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu bytes for a gather", part->size);
    }
    if (part->size > 0) {
        memcpy(bytes, part->bytes, part->size);
    }
    free_part(&peer->part);
    peer->part = (struct rbt_roster_part){.bytes = bytes, .size = part->size, .is_there = true};
    return RBT_OK;
}

/* Whether everybody has brought a part, and how much it is together. */
static bool is_round_complete(const rbt_roster *roster, const struct rbt_roster_job *job,
                              uint64_t *bytes)
{
    uint32_t count = 0;
    *bytes = sizeof(uint64_t);
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        const struct rbt_roster_peer *peer = &roster->peers[i];
        if (is_worker_of(peer, place_of(roster, job)) && peer->part.is_there) {
            count++;
            *bytes += sizeof(uint64_t) + rbt_frame_padded(peer->part.size);
        }
    }
    RBT_ASSERT(count <= job->shape.process_count);
    return count == job->shape.process_count;
}

static void emit_gathered(const struct rbt_roster_job *job, uint32_t peer,
                          struct rbt_roster_outbox *out)
{
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_GATHERED,
                                                    .peer = peer,
                                                    .job = job->number,
                                                    .number = job->round});
}

/* The parts become the job's: a process that has them may leave before another has heard. */
static rbt_status finish_round(rbt_roster *roster, struct rbt_roster_job *job,
                               struct rbt_roster_outbox *out)
{
    if (job->parts == NULL) {
        job->parts = rbt_calloc(job->shape.process_count, sizeof *job->parts);
        if (job->parts == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate the parts of a gather");
        }
    }
    job->round++;
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        struct rbt_roster_peer *peer = &roster->peers[i];
        if (is_worker_of(peer, place_of(roster, job))) {
            RBT_ASSERT(peer->index < job->shape.process_count);
            free_part(&job->parts[peer->index]);
            job->parts[peer->index] = peer->part;
            peer->part = (struct rbt_roster_part){0};
            emit_gathered(job, i, out);
        }
    }
    return RBT_OK;
}

rbt_status rbt_roster_job_of(rbt_roster *roster, uint32_t peer, struct rbt_roster_job **job)
{
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    const struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(p->is_there);
    *job = NULL;
    if (p->is_told) { /* it may not have heard it yet */
        return RBT_OK;
    }
    if (p->role != RBT_ROLE_WORKER || !p->is_planned) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed message: only a worker process of a running job may send it");
    }
    *job = &roster->jobs[p->job];
    RBT_ASSERT((*job)->state == RBT_ROSTER_JOB_RUNNING);
    return RBT_OK;
}

rbt_status rbt_roster_gather(rbt_roster *roster, uint32_t peer, uint64_t round,
                             const struct rbt_control_part *part, struct rbt_roster_outbox *out)
{
    struct rbt_roster_job *job;
    rbt_status st = rbt_roster_job_of(roster, peer, &job);
    if (st != RBT_OK || job == NULL) {
        return st;
    }
    if (round == job->round && round > 0) { /* the answer was under way when the line was cut */
        if (!RBT_MUTANT(LOST_GATHERED)) {
            emit_gathered(job, peer, out);
        }
        return RBT_OK;
    }
    if (round != job->round + 1) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed message: round %llu of a gather instead of round %llu",
                        (unsigned long long)round, (unsigned long long)job->round + 1);
    }
    st = keep_part(&roster->peers[peer], part);
    if (st != RBT_OK) {
        return st;
    }
    uint64_t bytes = 0;
    const bool is_complete = is_round_complete(roster, job, &bytes);
    if (job->left_count > 0) {
        rbt_roster_end_job(roster, job, RBT_E_CLOSED,
                           "a worker process left while others still waited for it", out);
    } else if (bytes > RBT_FRAME_BODY_MAX) {
        rbt_roster_end_job(roster, job, RBT_E_INVALID, "what was gathered is too large together",
                           out);
    } else if (is_complete) {
        st = finish_round(roster, job, out);
    }
    return st;
}

uint32_t rbt_roster_parts(const rbt_roster *roster, uint64_t job, struct rbt_control_part *parts)
{
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        const struct rbt_roster_job *j = &roster->jobs[i];
        if (j->number != job || j->parts == NULL) {
            continue;
        }
        RBT_ASSERT(j->shape.process_count <= RBT_CONTROL_PARTS_MAX);
        for (uint32_t p = 0; p < j->shape.process_count; p++) {
            parts[p] =
                (struct rbt_control_part){.bytes = j->parts[p].bytes, .size = j->parts[p].size};
        }
        return j->shape.process_count;
    }
    return 0;
}

/* The job's table, made if it is not there. */
static rbt_status find_table(const rbt_roster *roster, struct rbt_roster_job *job, uint32_t number,
                             struct rbt_roster_versions **table)
{
    for (uint32_t i = 0; i < job->table_count; i++) {
        if (job->tables[i].table == number) {
            *table = &job->tables[i];
            return RBT_OK;
        }
    }
    struct rbt_roster_versions *tables =
        rbt_realloc(job->tables, (size_t)job->table_count + 1, sizeof *tables);
    if (tables != NULL) {
        job->tables = tables;
        tables[job->table_count] = (struct rbt_roster_versions){
            .table = number,
            .versions = rbt_calloc(roster->options.server_count, sizeof(uint64_t))};
    }
    if (tables == NULL || tables[job->table_count].versions == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the versions of a table");
    }
    *table = &job->tables[job->table_count++];
    return RBT_OK;
}

struct rbt_roster_job *rbt_roster_running_job(const rbt_roster *roster, uint64_t number)
{
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        struct rbt_roster_job *job = &roster->jobs[i];
        if (job->number == number && job->state == RBT_ROSTER_JOB_RUNNING) {
            return job;
        }
    }
    return NULL;
}

static void emit_stable(const struct rbt_roster_job *job, const struct rbt_roster_versions *table,
                        uint32_t peer, struct rbt_roster_outbox *out)
{
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_STABLE,
                                                    .peer = peer,
                                                    .job = job->number,
                                                    .table = table->table,
                                                    .number = table->stable});
}

rbt_status rbt_roster_version(rbt_roster *roster, uint32_t peer, uint64_t job,
                              const struct rbt_control_version *version,
                              struct rbt_roster_outbox *out)
{
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    const struct rbt_roster_peer *p = &roster->peers[peer];
    if (p->role != RBT_ROLE_SERVER || !p->is_planned) {
        return rbt_fail(RBT_E_PROTOCOL,
                        "malformed message: only a server of a running cluster may send it");
    }
    RBT_ASSERT(p->index < roster->options.server_count);
    struct rbt_roster_job *j = rbt_roster_running_job(roster, job);
    if (j == NULL) { /* it is over, and the server has not heard it yet */
        return RBT_OK;
    }
    struct rbt_roster_versions *table = NULL;
    const rbt_status st = find_table(roster, j, version->table, &table);
    if (st != RBT_OK || version->version <= table->versions[p->index]) {
        return st;
    }
    table->versions[p->index] = version->version;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < roster->options.server_count; i++) {
        lowest = table->versions[i] < lowest ? table->versions[i] : lowest;
    }
    if (lowest <= table->stable) {
        return RBT_OK;
    }
    table->stable = lowest;
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        if (is_worker_of(&roster->peers[i], place_of(roster, j))) {
            emit_stable(j, table, i, out);
        }
    }
    return RBT_OK;
}

void rbt_roster_repeat_stable(const rbt_roster *roster, uint32_t peer,
                              struct rbt_roster_outbox *out)
{
    const struct rbt_roster_job *job = &roster->jobs[roster->peers[peer].job];
    for (uint32_t i = 0; i < job->table_count; i++) {
        if (job->tables[i].stable > 0) {
            emit_stable(job, &job->tables[i], peer, out);
        }
    }
}
