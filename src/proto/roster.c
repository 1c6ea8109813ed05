/* proto/roster.c - who is there, who is missing, who is lost.
 *
 * Stages: at work; after the first job, if it is the only one (its processes have LINGER_TIME to
 * leave); closing (all are told and have as long to leave); closed.
 *
 * Invariants:
 *   (1) a peer is watched for silence (core/members.h) exactly while it is there;
 *   (2) a job that runs has all its worker processes, but for those that have said goodbye;
 *   (3) who has been told that it is over is told nothing else;
 *   (4) a plan is complete, and equal for all but for the place of its receiver;
 *   (5) a round is answered to all who are there, or to none;
 *   (6) what is stable is not above the version of any server, and only grows;
 *   (7) the numbers of bounds grow, and the last one of each table reaches every process, also the
 *       one that told it, and every server.
 *
 * Threads: none. Memory: the places are allocated in create; what a peer brings (addresses, parts
 * of a gather) when it comes: both are rare, and who cannot be kept is refused. */
#include "proto/roster.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutant.h"
#include "base/text.h"
#include "proto/roster_state.h"

#define LINGER_TIME INT64_C(2000000000) /* for goodbyes, at the end */

void rbt_roster_outbox_deinit(struct rbt_roster_outbox *out)
{
    rbt_free(out->effects);
    *out = (struct rbt_roster_outbox){0};
}

void rbt_roster_emit(struct rbt_roster_outbox *out, struct rbt_roster_effect effect)
{
    if (out->count == out->capacity) {
        const size_t capacity = out->capacity == 0 ? 64 : 2 * out->capacity;
        struct rbt_roster_effect *effects = rbt_realloc(out->effects, capacity, sizeof *effects);
        if (effects == NULL) {
            out->has_failed = true;
            return;
        }
        out->effects = effects;
        out->capacity = capacity;
    }
    out->effects[out->count++] = effect;
}

/* Nobody is watched yet. */
static rbt_status create_members(rbt_roster *roster, rbt_time now)
{
    const struct rbt_members_options options = {.node_count = RBT_ROSTER_PEERS_MAX,
                                                .suspect_after = roster->options.silence_max / 2,
                                                .down_after = roster->options.silence_max,
                                                .is_empty = true};
    return rbt_members_create(&options, now, &roster->members);
}

rbt_status rbt_roster_create(const struct rbt_roster_options *options, rbt_time now,
                             rbt_roster **roster)
{
    RBT_ASSERT(options->cluster != 0);
    RBT_ASSERT(options->server_count > 0);
    RBT_ASSERT(options->server_count < RBT_ROSTER_PEERS_MAX);
    RBT_ASSERT(options->silence_max > 1);
    RBT_ASSERT(options->draw != NULL);
    rbt_roster *r = rbt_calloc(1, sizeof *r);
    if (r == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a roster");
    }
    r->options = *options;
    r->looked = now;
    r->server_deadline = now + options->start_timeout;
    r->peers = rbt_calloc(RBT_ROSTER_PEERS_MAX, sizeof *r->peers);
    r->jobs = rbt_calloc(RBT_ROSTER_JOBS_MAX, sizeof *r->jobs);
    r->member_effects = rbt_calloc(RBT_ROSTER_PEERS_MAX, 2 * sizeof *r->member_effects);
    r->entries = rbt_calloc(RBT_ROSTER_PEERS_MAX, sizeof *r->entries);
    r->entry_peers = rbt_calloc(RBT_ROSTER_PEERS_MAX, sizeof *r->entry_peers);
    r->shards = rbt_calloc(RBT_CLUSTER_SHARDS_MAX, sizeof *r->shards);
    rbt_status st = RBT_OK;
    if (r->peers == NULL || r->jobs == NULL || r->member_effects == NULL || r->entries == NULL ||
        r->entry_peers == NULL || r->shards == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate a roster");
    }
    if (st == RBT_OK) {
        st = create_members(r, now);
    }
    if (st != RBT_OK) {
        rbt_roster_destroy(r);
        return st;
    }
    *roster = r;
    return RBT_OK;
}

/* Gives back what the peer brought. Its names stay. */
static void clear_peer(struct rbt_roster_peer *peer)
{
    for (uint32_t i = 0; i < peer->shard_count; i++) {
        rbt_free(peer->shards[i]);
    }
    rbt_free(peer->shards);
    rbt_free(peer->part.bytes);
    rbt_free(peer->told);
    rbt_free(peer->lost);
    peer->shards = NULL;
    peer->shard_count = 0;
    peer->part = (struct rbt_roster_part){0};
    peer->told = NULL;
    peer->lost = NULL;
}

void rbt_roster_destroy(rbt_roster *roster)
{
    if (roster == NULL) {
        return;
    }
    for (uint32_t i = 0; roster->peers != NULL && i < RBT_ROSTER_PEERS_MAX; i++) {
        clear_peer(&roster->peers[i]);
    }
    for (uint32_t i = 0; roster->jobs != NULL && i < RBT_ROSTER_JOBS_MAX; i++) {
        rbt_roster_free_job(&roster->jobs[i]);
    }
    rbt_members_destroy(roster->members);
    rbt_free(roster->shards);
    rbt_free(roster->entry_peers);
    rbt_free(roster->entries);
    rbt_free(roster->member_effects);
    rbt_free(roster->jobs);
    rbt_free(roster->peers);
    rbt_free(roster);
}

const char *rbt_roster_node(const rbt_roster *roster, uint32_t peer,
                            char node[static RBT_ROSTER_NODE_MAX])
{
    static const char *const names[RBT_CONTROL_ROLES] = {"server", "worker", "reader"};
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    const struct rbt_roster_peer *p = &roster->peers[peer];
    (void)snprintf(node, RBT_ROSTER_NODE_MAX, "%s/%u", names[p->role], p->index);
    return node;
}

const char *rbt_roster_host(const rbt_roster *roster, uint32_t peer, uint32_t *pid)
{
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    *pid = roster->peers[peer].pid;
    return roster->peers[peer].host;
}

void rbt_roster_describe(const rbt_roster *roster, uint32_t peer, struct rbt_text_buffer *text)
{
    char node[RBT_ROSTER_NODE_MAX];
    uint32_t pid;
    const char *host = rbt_roster_host(roster, peer, &pid);
    rbt_text_add(text, "%s on %s (pid %u)", rbt_roster_node(roster, peer, node), host, pid);
}

void rbt_roster_add_time(struct rbt_text_buffer *text, rbt_time time)
{
    const double seconds = (double)time * 1e-9;
    if (seconds < 1.0) {
        rbt_text_add(text, "%.3gms", seconds * 1e3);
    } else {
        rbt_text_add(text, "%.4gs", seconds);
    }
}

void rbt_roster_tell(rbt_roster *roster, uint32_t peer, rbt_status status, const char *text,
                     struct rbt_roster_outbox *out)
{
    struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(p->is_there);
    if (p->is_told) {
        return; /* (3) */
    }
    p->is_told = true;
    p->told_status = status;
    p->told = rbt_strdup(text);
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_FAILED,
                                                    .peer = peer,
                                                    .status = status,
                                                    .text = p->told == NULL ? "" : p->told});
}

void rbt_roster_remove(rbt_roster *roster, uint32_t peer)
{
    struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(p->is_there);
    p->is_there = false;
    p->is_connected = false;
    rbt_members_leave(roster->members, peer); /* (1) */
}

uint32_t rbt_roster_entries(rbt_roster *roster, const struct rbt_roster_job *job)
{
    const uint32_t place = job == NULL ? RBT_ROSTER_NOBODY : (uint32_t)(job - roster->jobs);
    const enum rbt_role role = job == NULL ? RBT_ROLE_SERVER : RBT_ROLE_WORKER;
    uint32_t count = 0;
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        const struct rbt_roster_peer *peer = &roster->peers[i];
        if (!peer->is_there || peer->role != role || peer->job != place) {
            continue;
        }
        uint32_t at = count++; /* in order of joining */
        while (at > 0 && roster->peers[roster->entry_peers[at - 1]].sequence > peer->sequence) {
            roster->entry_peers[at] = roster->entry_peers[at - 1];
            roster->entries[at] = roster->entries[at - 1];
            at--;
        }
        roster->entry_peers[at] = i;
        roster->entries[at] = (struct rbt_numbering_entry){
            .asked = peer->asked, .threads = peer->thread_count, .index = peer->index};
    }
    return count;
}

void rbt_roster_assign(rbt_roster *roster, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        roster->peers[roster->entry_peers[i]].index = roster->entries[i].index;
    }
}

/* Adds the newcomer to the others of its job, or to the servers, and numbers them all. */
static rbt_status line_up(rbt_roster *roster, const struct rbt_roster_job *job,
                          const struct rbt_control_join *join, struct rbt_numbering_shape *shape)
{
    const bool is_server = join->role == RBT_ROLE_SERVER;
    const uint32_t count = job == NULL && !is_server ? 0 : rbt_roster_entries(roster, job);
    RBT_ASSERT(count < RBT_ROSTER_PEERS_MAX);
    roster->entries[count] = (struct rbt_numbering_entry){
        .asked = join->index, .threads = is_server ? 1 : join->thread_count};
    for (uint32_t i = 0; i < count && join->index >= 0; i++) {
        if (roster->entries[i].asked == join->index) {
            struct rbt_text_buffer text = {0};
            rbt_roster_describe(roster, roster->entry_peers[i], &text);
            const rbt_status st =
                rbt_fail(RBT_E_INVALID, "%s has already joined", rbt_text_data(&text));
            rbt_text_deinit(&text);
            return st;
        }
    }
    return rbt_numbering_place(roster->entries, count + 1,
                               is_server ? roster->options.server_count : join->worker_count,
                               is_server ? "server" : "worker", shape);
}

/* Copies the addresses of a server's shards. */
static rbt_status copy_shards(struct rbt_roster_peer *peer, struct rbt_control_shards shards)
{
    peer->shards = rbt_calloc(shards.count, sizeof *peer->shards);
    if (peer->shards == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a list of %u shards", shards.count);
    }
    for (uint32_t i = 0; i < shards.count; i++) {
        char address[RBT_NAME_MAX];
        rbt_control_next_shard(&shards, address);
        peer->shards[i] = rbt_strdup(address);
        if (peer->shards[i] == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate an address");
        }
        peer->shard_count++;
    }
    return RBT_OK;
}

/* Finds a place for the newcomer and writes it down. */
static rbt_status enter(rbt_roster *roster, const struct rbt_control_join *join, rbt_time now,
                        uint32_t *place)
{
    uint32_t at = 0;
    while (at < RBT_ROSTER_PEERS_MAX && roster->peers[at].is_there) {
        at++;
    }
    if (at == RBT_ROSTER_PEERS_MAX) {
        return rbt_fail(RBT_E_BUSY, "the cluster is full: it has %d processes",
                        RBT_ROSTER_PEERS_MAX);
    }
    struct rbt_roster_peer *peer = &roster->peers[at];
    clear_peer(peer);
    *peer = (struct rbt_roster_peer){.is_connected = true,
                                     .token = join->token,
                                     .sequence = ++roster->sequence,
                                     .role = (enum rbt_role)join->role,
                                     .asked = join->index,
                                     .pid = join->pid,
                                     .thread_count =
                                         join->role == RBT_ROLE_SERVER ? 1 : join->thread_count,
                                     .job = RBT_ROSTER_NOBODY,
                                     .deadline = now + roster->options.start_timeout};
    memcpy(peer->host, join->host, sizeof peer->host);
    memcpy(peer->space, join->space, sizeof peer->space);
    peer->permit = join->permit;
    const rbt_status st = copy_shards(peer, join->shards);
    if (st != RBT_OK) {
        clear_peer(peer);
        return st;
    }
    peer->is_there = true;
    rbt_members_enter(roster->members, at, now); /* (1) */
    *place = at;
    return RBT_OK;
}

/* All servers are there: the list of shards is complete, and jobs may begin. */
static void complete_servers(rbt_roster *roster, struct rbt_roster_outbox *out)
{
    roster->has_servers = true;
    const uint32_t count = rbt_roster_entries(roster, NULL);
    for (uint32_t index = 0; index < count; index++) {
        for (uint32_t i = 0; i < count; i++) {
            struct rbt_roster_peer *peer = &roster->peers[roster->entry_peers[i]];
            for (uint32_t s = 0; peer->index == index && s < peer->shard_count; s++) {
                RBT_ASSERT(roster->shard_count < RBT_CLUSTER_SHARDS_MAX);
                roster->shards[roster->shard_count++] = peer->shards[s];
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t peer = roster->entry_peers[i];
        roster->peers[peer].is_planned = true;
        rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_PLAN, .peer = peer});
    }
    rbt_roster_start_jobs(roster, out);
}

static uint32_t count_shards(const rbt_roster *roster)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        count += roster->peers[i].is_there ? roster->peers[i].shard_count : 0;
    }
    return count;
}

static rbt_status join_server(rbt_roster *roster, const struct rbt_control_join *join, rbt_time now,
                              struct rbt_roster_outbox *out, uint32_t *place)
{
    if (join->shards.count == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "a server without shards cannot join");
    }
    if (roster->has_servers) {
        return rbt_fail(RBT_E_INVALID, "all %u servers have already joined",
                        roster->options.server_count);
    }
    if (join->shards.count > RBT_CLUSTER_SHARDS_MAX - count_shards(roster)) {
        return rbt_fail(RBT_E_BUSY, "%u more shards are too many for the cluster",
                        join->shards.count);
    }
    struct rbt_numbering_shape shape;
    rbt_status st = line_up(roster, NULL, join, &shape);
    if (st == RBT_OK) {
        st = enter(roster, join, now, place);
    }
    if (st != RBT_OK) {
        return st;
    }
    uint32_t count = rbt_roster_entries(roster, NULL);
    st =
        rbt_numbering_place(roster->entries, count, roster->options.server_count, "server", &shape);
    RBT_ASSERT(st == RBT_OK); /* line_up() has tried */
    rbt_roster_assign(roster, count);
    if (shape.is_complete) {
        complete_servers(roster, out);
    }
    return RBT_OK;
}

static rbt_status check_worker(const rbt_roster *roster, const struct rbt_roster_job *job,
                               const struct rbt_control_join *join)
{
    if (join->thread_count == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "a process without workers cannot join");
    }
    if (job == NULL) {
        return RBT_OK;
    }
    if (!rbt_wire_is_secret(&job->permit, &join->permit)) {
        return rbt_fail(RBT_E_INVALID, "the job in namespace \"%s\" has another job key, or none",
                        join->space);
    }
    if (job->state == RBT_ROSTER_JOB_RUNNING) {
        return rbt_fail(RBT_E_INVALID,
                        "namespace \"%s\" already has a running job with all its workers",
                        join->space);
    }
    if (job->worker_count != join->worker_count) {
        return rbt_fail(RBT_E_INVALID,
                        "the job in namespace \"%s\" has %u workers, but this process has %u",
                        join->space, job->worker_count, join->worker_count);
    }
    RBT_ASSERT(roster->job_count > 0);
    return RBT_OK;
}

static rbt_status join_worker(rbt_roster *roster, const struct rbt_control_join *join, rbt_time now,
                              struct rbt_roster_outbox *out, uint32_t *place)
{
    struct rbt_roster_job *job = rbt_roster_find_job(roster, join->space);
    struct rbt_numbering_shape shape;
    rbt_status st = check_worker(roster, job, join);
    if (st == RBT_OK) {
        st = line_up(roster, job, join, &shape);
    }
    if (st == RBT_OK) {
        st = enter(roster, join, now, place);
    }
    if (st != RBT_OK) {
        return st;
    }
    if (job == NULL) {
        st = rbt_roster_add_job(roster, join, now, &job);
        if (st != RBT_OK) {
            rbt_roster_remove(roster, *place);
            return st;
        }
    }
    roster->peers[*place].job = (uint32_t)(job - roster->jobs);
    const uint32_t count = rbt_roster_entries(roster, job);
    st = rbt_numbering_place(roster->entries, count, job->worker_count, "worker", &job->shape);
    RBT_ASSERT(st == RBT_OK); /* line_up() has tried */
    rbt_roster_assign(roster, count);
    rbt_roster_start_jobs(roster, out);
    return RBT_OK;
}

/* It has lost its line, and perhaps what was said meanwhile: all of that is said again. */
static void welcome_back(rbt_roster *roster, uint32_t place, rbt_time now,
                         struct rbt_roster_outbox *out)
{
    struct rbt_roster_peer *peer = &roster->peers[place];
    peer->is_connected = true;
    rbt_roster_hear(roster, place, now);
    if (peer->is_planned) {
        rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_PLAN, .peer = place});
    }
    if (peer->role == RBT_ROLE_SERVER && peer->is_planned) {
        rbt_roster_repeat_jobs(roster, place, out);
    }
    const uint32_t drops =
        roster->drop_count < RBT_ROSTER_DROPS_KEPT ? roster->drop_count : RBT_ROSTER_DROPS_KEPT;
    for (uint32_t i = 0; peer->role == RBT_ROLE_SERVER && i < drops; i++) {
        rbt_roster_emit(out, (struct rbt_roster_effect){
                                 .kind = RBT_ROSTER_DROP, .peer = place, .job = roster->drops[i]});
    }
    rbt_roster_repeat_bounds(roster, place, out);
    if (peer->role == RBT_ROLE_WORKER) {
        rbt_roster_repeat_stable(roster, place, out);
    }
    if (peer->is_told) {
        rbt_roster_emit(out,
                        (struct rbt_roster_effect){.kind = RBT_ROSTER_FAILED,
                                                   .peer = place,
                                                   .status = peer->told_status,
                                                   .text = peer->told == NULL ? "" : peer->told});
    }
}

rbt_status rbt_roster_join(rbt_roster *roster, struct rbt_control_join *join, rbt_time now,
                           struct rbt_roster_outbox *out, uint32_t *peer)
{
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        if (roster->peers[i].is_there && roster->peers[i].token == join->token) {
            welcome_back(roster, i, now, out);
            *peer = i;
            return RBT_OK;
        }
    }
    if (join->is_return) {
        return rbt_fail(RBT_E_CLOSED,
                        "the process came back after the cluster had declared it lost");
    }
    if (roster->stage != RBT_ROSTER_AT_WORK) {
        return rbt_fail(RBT_E_CLOSED, "the cluster has ended, because its job is over");
    }
    switch ((enum rbt_role)join->role) {
    case RBT_ROLE_SERVER:
        return join_server(roster, join, now, out, peer);
    case RBT_ROLE_WORKER:
        return join_worker(roster, join, now, out, peer);
    case RBT_ROLE_READER:
        break;
    }
    if (join->thread_count == 0) {
        return rbt_fail(RBT_E_PROTOCOL, "a process without workers cannot join");
    }
    const rbt_status st = enter(roster, join, now, peer);
    if (st == RBT_OK) {
        rbt_roster_attach_readers(roster, out);
    }
    return st;
}

void rbt_roster_plan(const rbt_roster *roster, uint32_t peer, struct rbt_control_plan *plan)
{
    const struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(p->is_planned);
    *plan = (struct rbt_control_plan){
        .cluster = roster->options.cluster,
        .map_version = 1,
        .index = p->index,
        .shards = {.count = roster->shard_count, .texts = roster->shards}};
    if (p->role == RBT_ROLE_SERVER) {
        return;
    }
    const struct rbt_roster_job *job = &roster->jobs[p->job];
    plan->job = job->number;
    plan->thread_count = p->thread_count;
    plan->secret = p->role == RBT_ROLE_READER ? job->read_secret : job->secret;
    if (p->role == RBT_ROLE_READER) { /* a group of its own */
        plan->process_count = 1;
        plan->worker_count = p->thread_count;
        plan->process_size = p->thread_count;
        return;
    }
    plan->process_count = job->shape.process_count;
    plan->process_size = job->shape.process_size;
    plan->worker_count = job->worker_count;
    plan->worker_first = p->index * job->shape.process_size;
    RBT_ASSERT(plan->worker_first + plan->thread_count <= plan->worker_count);
}

/* Everybody is told: servers hear how it ended, all others that they cannot go on, and why. */
static void close_all(rbt_roster *roster, rbt_status status, const char *text, rbt_time now,
                      struct rbt_roster_outbox *out)
{
    roster->stage = RBT_ROSTER_CLOSING;
    roster->stage_deadline = now + LINGER_TIME;
    const rbt_status others = status == RBT_OK ? RBT_E_CLOSED : status;
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        rbt_roster_end_job(roster, &roster->jobs[i], others, text, out);
    }
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        if (!roster->peers[i].is_there) {
            continue;
        }
        if (roster->peers[i].role == RBT_ROLE_SERVER) {
            rbt_roster_tell(roster, i, status, status == RBT_OK ? "" : text, out);
        } else {
            rbt_roster_tell(roster, i, others, text, out);
        }
    }
}

/* It is over for all, with this result. */
static void fail_all(rbt_roster *roster, rbt_status status, const char *text, rbt_time now,
                     struct rbt_roster_outbox *out)
{
    RBT_ASSERT(status != RBT_OK);
    if (roster->stage == RBT_ROSTER_AT_WORK) {
        roster->stage = RBT_ROSTER_CLOSING;
        roster->status = status;
        (void)snprintf(roster->text, sizeof roster->text, "%s", text);
        close_all(roster, status, roster->text, now, out);
    }
}

static uint32_t count_there(const rbt_roster *roster, uint64_t job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        const struct rbt_roster_peer *peer = &roster->peers[i];
        if (peer->is_there && (job == 0 || (peer->job != RBT_ROSTER_NOBODY &&
                                            roster->jobs[peer->job].number == job))) {
            count++;
        }
    }
    return count;
}

/* Goes on to the next stage when everybody has left, or has had time to. */
static void settle(rbt_roster *roster, rbt_time now, struct rbt_roster_outbox *out)
{
    if (roster->stage == RBT_ROSTER_AFTER_JOB) {
        if (roster->stage_deadline == 0) {
            roster->stage_deadline = now + LINGER_TIME;
        }
        if (now >= roster->stage_deadline || count_there(roster, 1) == 0) {
            close_all(roster, RBT_OK, "the cluster has ended: its first job is over", now, out);
        }
    }
    if (roster->stage == RBT_ROSTER_CLOSING &&
        (now >= roster->stage_deadline || count_there(roster, 0) == 0)) {
        roster->stage = RBT_ROSTER_CLOSED;
        rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_END,
                                                        .peer = RBT_ROSTER_NOBODY,
                                                        .status = roster->status,
                                                        .text = roster->text});
    }
}

void rbt_roster_hear(rbt_roster *roster, uint32_t peer, rbt_time now)
{
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    struct rbt_members_outbox out = {.effects = roster->member_effects};
    rbt_members_hear(roster->members, peer, now, &out);
}

void rbt_roster_cut(rbt_roster *roster, uint32_t peer, rbt_time now)
{
    struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    if (p->is_there && p->is_connected) {
        p->is_connected = false;
        p->cut_at = RBT_MUTANT(OLD_CUT) ? p->cut_at : now;
    }
}

/* The peer is gone, and this is what others are told about it. */
static void end_of(rbt_roster *roster, uint32_t peer, const char *text, rbt_time now,
                   struct rbt_roster_outbox *out)
{
    const struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(!p->is_there);
    if (p->role == RBT_ROLE_SERVER) {
        fail_all(roster, RBT_E_CLOSED, text, now, out);
    } else if (p->role == RBT_ROLE_WORKER) {
        rbt_roster_end_job(roster, &roster->jobs[p->job], RBT_E_CLOSED, text, out);
    }
}

void rbt_roster_leave(rbt_roster *roster, uint32_t peer, const struct rbt_control_ending *ending,
                      rbt_time now, struct rbt_roster_outbox *out)
{
    struct rbt_roster_peer *p = &roster->peers[peer];
    RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
    RBT_ASSERT(p->is_there);
    rbt_roster_remove(roster, peer);
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_GOODBYE, .peer = peer});
    char node[RBT_ROSTER_NODE_MAX];
    struct rbt_text_buffer text = {0};
    rbt_text_add(&text, "%s on %s", rbt_roster_node(roster, peer, node), p->host);
    if (p->is_told) {
        /* It has only done what it was told. */
    } else if (ending->status != RBT_OK || RBT_MUTANT(BAD_GOODBYE)) {
        rbt_text_add(&text, " failed: %s", ending->text);
        end_of(roster, peer, rbt_text_data(&text), now, out);
    } else if (p->role == RBT_ROLE_SERVER) {
        rbt_text_add(&text, " left");
        end_of(roster, peer, rbt_text_data(&text), now, out);
    } else if (p->role == RBT_ROLE_WORKER) {
        rbt_roster_job_left(roster, &roster->jobs[p->job], rbt_text_data(&text), out);
    }
    rbt_text_deinit(&text);
    settle(roster, now, out);
}

void rbt_roster_stop(rbt_roster *roster, const char *why, rbt_time now,
                     struct rbt_roster_outbox *out)
{
    if (roster->options.is_once) {
        fail_all(roster, RBT_E_INTERRUPTED, why, now, out);
    } else if (roster->stage == RBT_ROSTER_AT_WORK) {
        close_all(roster, RBT_OK, why, now, out);
    }
    settle(roster, now, out);
}

/* It is given up. */
static void lose(rbt_roster *roster, uint32_t peer, bool is_silent, rbt_time now,
                 struct rbt_roster_outbox *out)
{
    struct rbt_roster_peer *p = &roster->peers[peer];
    struct rbt_text_buffer text = {0};
    rbt_text_add(&text, "lost ");
    rbt_roster_describe(roster, peer, &text);
    rbt_text_add(&text, is_silent ? ": no sign of life for " : ": no connection for ");
    rbt_roster_add_time(&text, is_silent ? roster->options.silence_max : roster->options.cut_max);
    rbt_roster_remove(roster, peer);
    p->lost = rbt_strdup(rbt_text_data(&text)); /* not `told`, which an effect may refer to */
    rbt_roster_emit(out, (struct rbt_roster_effect){.kind = RBT_ROSTER_LOST,
                                                    .peer = peer,
                                                    .text = p->lost == NULL ? "" : p->lost});
    if (!p->is_told) {
        end_of(roster, peer, rbt_text_data(&text), now, out);
    }
    rbt_text_deinit(&text);
}

/* If nobody has looked for a while, it was the coordinator that slept. */
static void forgive(rbt_roster *roster, rbt_time now)
{
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        if (roster->peers[i].is_there) {
            rbt_roster_hear(roster, i, now);
            roster->peers[i].cut_at = now;
        }
    }
}

static void expire_peers(rbt_roster *roster, rbt_time now, struct rbt_roster_outbox *out)
{
    struct rbt_members_outbox silent = {.effects = roster->member_effects};
    rbt_members_expire(roster->members, now, &silent);
    for (size_t i = 0; i < silent.count; i++) {
        const uint32_t peer = silent.effects[i].node;
        if (silent.effects[i].state == RBT_MEMBER_DOWN && roster->peers[peer].is_there) {
            lose(roster, peer, true, now, out);
        }
    }
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        struct rbt_roster_peer *peer = &roster->peers[i];
        if (!peer->is_there) {
            continue;
        }
        if (!peer->is_connected && now - peer->cut_at >= roster->options.cut_max) {
            lose(roster, i, false, now, out);
        } else if (peer->role == RBT_ROLE_READER && !peer->is_planned && now >= peer->deadline) {
            struct rbt_text_buffer text = {0};
            rbt_text_add(&text, "no job started in namespace \"%s\" within ", peer->space);
            rbt_roster_add_time(&text, roster->options.start_timeout);
            rbt_roster_tell(roster, i, RBT_E_TIMEOUT, rbt_text_data(&text), out);
            rbt_text_deinit(&text);
        }
    }
}

/* The servers, and the workers of the job that waits for them or for each other, have not come. */
static void say_missing(rbt_roster *roster, struct rbt_roster_job *job,
                        struct rbt_text_buffer *text)
{
    if (!roster->has_servers) {
        const struct rbt_numbering_shape shape = {.process_size = 1,
                                                  .process_count = roster->options.server_count};
        const uint32_t count = rbt_roster_entries(roster, NULL);
        rbt_numbering_missing(roster->entries, count, &shape, "server", text);
    }
    const bool is_none = job == NULL && roster->options.is_once;
    if (job != NULL && !job->shape.is_complete) {
        rbt_text_add(text, "%s", text->length > 0 ? " and " : "");
        rbt_roster_job_missing(roster, job, text);
    } else if (is_none) {
        rbt_text_add(text, "%s", text->length > 0 ? " and all workers" : "all workers");
    }
    rbt_text_add(text, " did not join within ");
    rbt_roster_add_time(text, roster->options.start_timeout);
}

static void expire_starts(rbt_roster *roster, rbt_time now, struct rbt_roster_outbox *out)
{
    struct rbt_roster_job *first = NULL; /* of those that form */
    for (uint32_t i = 0; i < RBT_ROSTER_JOBS_MAX; i++) {
        struct rbt_roster_job *job = &roster->jobs[i];
        if (job->state == RBT_ROSTER_JOB_FORMING &&
            (first == NULL || job->number < first->number)) {
            first = job;
        }
    }
    struct rbt_text_buffer text = {0};
    const bool must_work = roster->options.is_once && roster->job_count == 0;
    if (now >= roster->server_deadline && (!roster->has_servers || must_work)) {
        say_missing(roster, first, &text);
        fail_all(roster, RBT_E_TIMEOUT, rbt_text_data(&text), now, out);
    }
    for (uint32_t i = 0; roster->has_servers && i < RBT_ROSTER_JOBS_MAX; i++) {
        struct rbt_roster_job *job = &roster->jobs[i];
        if (job->state == RBT_ROSTER_JOB_FORMING && now >= job->deadline) {
            rbt_text_clear(&text);
            say_missing(roster, job, &text);
            rbt_roster_end_job(roster, job, RBT_E_TIMEOUT, rbt_text_data(&text), out);
        }
    }
    rbt_text_deinit(&text);
}

void rbt_roster_expire(rbt_roster *roster, rbt_time now, struct rbt_roster_outbox *out)
{
    RBT_ASSERT(now >= roster->looked);
    if (now - roster->looked > roster->options.silence_max / 2) {
        forgive(roster, now);
    }
    roster->looked = now;
    expire_peers(roster, now, out);
    if (roster->stage == RBT_ROSTER_AT_WORK) {
        expire_starts(roster, now, out);
    }
    settle(roster, now, out);
}
