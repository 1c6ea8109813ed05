/* wire/control.c - the coordinator's messages as bytes.
 *
 * Numbers are little-endian. A text ends with a zero; the bytes of a gather follow their length, a
 * number of 8 bytes. Both are padded with zeros to a multiple of 8.
 *
 * One rule keeps writers and readers together: what a reader accepts is written again as the same
 * bytes. So padding must be zero, nothing may follow, and texts hold no control characters. */
#include "wire/control.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* Where a frame is written to; without `start` it is only measured. */
struct writer {
    char *start;
    size_t used;
};

static void put_bytes(struct writer *w, const void *bytes, size_t size)
{
    RBT_ASSERT(size == 0 || bytes != NULL);
    RBT_ASSERT(w->used >= RBT_FRAME_HEADER); /* the header's place is not written to */
    if (w->start != NULL && size > 0) {
        memcpy(w->start + w->used, bytes, size);
    }
    w->used += size;
}

static void put_u32(struct writer *w, uint32_t value)
{
    RBT_ASSERT(w->used % sizeof value == 0);
    value = htole32(value);
    put_bytes(w, &value, sizeof value);
}

static void put_u64(struct writer *w, uint64_t value)
{
    RBT_ASSERT(w->used % sizeof value == 0);
    value = htole64(value);
    put_bytes(w, &value, sizeof value);
}

/* A length and what it counts. */
static void put_block(struct writer *w, const char *bytes, size_t size)
{
    static const char zeros[RBT_FRAME_ALIGN];
    RBT_ASSERT(size <= RBT_FRAME_BODY_MAX);
    RBT_ASSERT(w->used % RBT_FRAME_ALIGN == 0);
    put_u64(w, size);
    put_bytes(w, bytes, size);
    put_bytes(w, zeros, rbt_frame_padded(size) - size);
    RBT_ASSERT(w->used % RBT_FRAME_ALIGN == 0);
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* The text as far as there is room for it on the other side: `max` with its terminating zero. */
static void put_text(struct writer *w, const char *text, size_t max)
{
    static const char zeros[RBT_FRAME_ALIGN];
    RBT_ASSERT(text != NULL);
    RBT_ASSERT(max > 0);
    const size_t size = strnlen(text, max - 1);
    const size_t at = w->used;
    put_bytes(w, text, size);
    put_bytes(w, zeros, rbt_frame_padded(size + 1) - size);
    for (size_t i = 0; w->start != NULL && i < size; i++) {
        if (is_control(w->start[at + i])) {
            w->start[at + i] = ' ';
        }
    }
    RBT_ASSERT(w->used % RBT_FRAME_ALIGN == 0);
}

static void put_shards(struct writer *w, const struct rbt_control_shards *shards)
{
    RBT_ASSERT(shards->count <= RBT_CLUSTER_SHARDS_MAX);
    RBT_ASSERT(shards->count == 0 || shards->texts != NULL);
    put_u64(w, shards->count);
    for (uint32_t i = 0; i < shards->count; i++) {
        RBT_ASSERT(shards->texts[i][0] != '\0'); /* get_shards() would not take it */
        put_text(w, shards->texts[i], RBT_NAME_MAX);
    }
}

static void put_secret(struct writer *w, const struct rbt_wire_secret *secret)
{
    RBT_ASSERT(w->used % RBT_FRAME_ALIGN == 0);
    put_bytes(w, secret->bytes, sizeof secret->bytes);
}

static struct writer begin(char *to)
{
    RBT_ASSERT((uintptr_t)to % RBT_FRAME_ALIGN == 0);
    return (struct writer){.start = to, .used = RBT_FRAME_HEADER};
}

/* Puts the header in front of what has been written. */
static size_t finish(const struct writer *w, enum rbt_frame_kind kind, uint64_t id)
{
    RBT_ASSERT(w->used >= RBT_FRAME_HEADER);
    RBT_ASSERT(w->used % RBT_FRAME_ALIGN == 0);
    RBT_ASSERT(w->used - RBT_FRAME_HEADER <= RBT_FRAME_BODY_MAX);
    if (w->start != NULL) {
        const struct rbt_frame frame = {.kind = (uint16_t)kind,
                                        .length = (uint32_t)(w->used - RBT_FRAME_HEADER),
                                        .worker = RBT_FRAME_NOBODY,
                                        .id = id};
        rbt_frame_put(w->start, &frame);
    }
    return w->used;
}

size_t rbt_control_put_join(char *to, const struct rbt_control_join *join)
{
    RBT_ASSERT(join->token != 0);
    RBT_ASSERT(join->role < RBT_CONTROL_ROLES);
    RBT_ASSERT(join->index >= -1);
    RBT_ASSERT(join->worker_count <= RBT_WIRE_WORKERS_MAX);
    RBT_ASSERT(join->thread_count <= join->worker_count);
    struct writer w = begin(to);
    put_u64(&w, join->token);
    put_u32(&w, join->is_return ? 1 : 0);
    put_u32(&w, join->role);
    put_u32(&w, (uint32_t)join->index);
    put_u32(&w, join->pid);
    put_u32(&w, join->worker_count);
    put_u32(&w, join->thread_count);
    put_secret(&w, &join->permit);
    put_secret(&w, &join->read_permit);
    put_text(&w, join->space, sizeof join->space);
    put_text(&w, join->host, sizeof join->host);
    put_shards(&w, &join->shards);
    return finish(&w, RBT_FRAME_JOIN, 0);
}

size_t rbt_control_put_plan(char *to, const struct rbt_control_plan *plan)
{
    RBT_ASSERT(plan->cluster != 0);
    RBT_ASSERT(plan->map_version != 0);
    RBT_ASSERT(plan->worker_count <= RBT_WIRE_WORKERS_MAX);
    RBT_ASSERT(plan->thread_count <= plan->worker_count);
    RBT_ASSERT(plan->worker_first <= plan->worker_count - plan->thread_count);
    struct writer w = begin(to);
    put_u64(&w, plan->cluster);
    put_u64(&w, plan->job);
    put_u64(&w, plan->map_version);
    put_u32(&w, plan->index);
    put_u32(&w, plan->process_count);
    put_u32(&w, plan->worker_count);
    put_u32(&w, plan->worker_first);
    put_u32(&w, plan->thread_count);
    put_u32(&w, plan->process_size);
    put_secret(&w, &plan->secret);
    put_shards(&w, &plan->shards);
    return finish(&w, RBT_FRAME_PLAN, 0);
}

size_t rbt_control_put_gather(char *to, uint64_t round, const struct rbt_control_part *part)
{
    RBT_ASSERT(round > 0);
    RBT_ASSERT(part->size <= RBT_FRAME_BODY_MAX - sizeof(uint64_t));
    struct writer w = begin(to);
    put_block(&w, part->bytes, part->size);
    return finish(&w, RBT_FRAME_GATHER, round);
}

size_t rbt_control_put_gathered(char *to, uint64_t round, const struct rbt_control_part *parts,
                                uint32_t count)
{
    RBT_ASSERT(round > 0);
    RBT_ASSERT(count <= RBT_CONTROL_PARTS_MAX);
    RBT_ASSERT(count == 0 || parts != NULL);
    struct writer w = begin(to);
    put_u64(&w, count);
    for (uint32_t i = 0; i < count; i++) {
        put_block(&w, parts[i].bytes, parts[i].size);
    }
    return finish(&w, RBT_FRAME_GATHERED, round);
}

size_t rbt_control_put_bound(char *to, uint64_t number, const struct rbt_control_bound *bound)
{
    RBT_ASSERT(number > 0);
    RBT_ASSERT(bound->job > 0);
    RBT_ASSERT(bound->table < RBT_JOB_TABLES_MAX || bound->table == RBT_CONTROL_ALL);
    RBT_ASSERT(bound->staleness >= -1);
    struct writer w = begin(to);
    put_u64(&w, bound->job);
    put_u32(&w, bound->table);
    put_u32(&w, 0);
    put_u64(&w, (uint64_t)bound->staleness);
    return finish(&w, RBT_FRAME_BOUND, number);
}

size_t rbt_control_put_taken(char *to, uint64_t number, uint64_t job)
{
    RBT_ASSERT(number > 0);
    RBT_ASSERT(job > 0);
    struct writer w = begin(to);
    put_u64(&w, job);
    return finish(&w, RBT_FRAME_BOUND_TAKEN, number);
}

size_t rbt_control_put_ending(char *to, enum rbt_frame_kind kind, rbt_status status,
                              const char *text)
{
    RBT_ASSERT(kind == RBT_FRAME_FAILED || kind == RBT_FRAME_GOODBYE);
    RBT_ASSERT(status <= RBT_OK);
    RBT_ASSERT(status >= RBT_E_INTERRUPTED);
    struct writer w = begin(to);
    put_u64(&w, (uint64_t)(int64_t)status);
    put_text(&w, text == NULL ? "" : text, RBT_WIRE_TEXT_MAX);
    return finish(&w, kind, 0);
}

size_t rbt_control_put_version(char *to, enum rbt_frame_kind kind, uint64_t job,
                               const struct rbt_control_version *version)
{
    RBT_ASSERT(kind == RBT_FRAME_VERSION || kind == RBT_FRAME_STABLE);
    RBT_ASSERT(job > 0);
    RBT_ASSERT(version->table < RBT_JOB_TABLES_MAX);
    struct writer w = begin(to);
    put_u32(&w, version->table);
    put_u32(&w, 0);
    put_u64(&w, version->version);
    return finish(&w, kind, job);
}

size_t rbt_control_put_job(char *to, uint64_t number, const struct rbt_control_job *job)
{
    RBT_ASSERT(number > 0);
    RBT_ASSERT(job->worker_count > 0 && job->worker_count <= RBT_WIRE_WORKERS_MAX);
    struct writer w = begin(to);
    put_u32(&w, job->worker_count);
    put_u32(&w, 0);
    put_secret(&w, &job->secret);
    put_secret(&w, &job->read_secret);
    return finish(&w, RBT_FRAME_JOB, number);
}

size_t rbt_control_put_plain(char *to, enum rbt_frame_kind kind, uint64_t id)
{
    RBT_ASSERT(kind == RBT_FRAME_BEAT || kind == RBT_FRAME_DROP);
    RBT_ASSERT((id == 0) == (kind == RBT_FRAME_BEAT));
    const struct writer w = begin(to);
    return finish(&w, kind, id);
}

static rbt_status broken(const char *what)
{
    RBT_ASSERT(what[0] != '\0');
    return rbt_fail(RBT_E_PROTOCOL, "a message has %s", what);
}

static size_t left(const struct rbt_wire_cursor *from)
{
    RBT_ASSERT(from->at != NULL);
    RBT_ASSERT(from->at <= from->end);
    return (size_t)(from->end - from->at);
}

/* These are called after a check that there is enough. */
static uint32_t take_u32(struct rbt_wire_cursor *from)
{
    uint32_t value;
    RBT_ASSERT(left(from) >= sizeof value);
    memcpy(&value, from->at, sizeof value);
    from->at += sizeof value;
    return le32toh(value);
}

static uint64_t take_u64(struct rbt_wire_cursor *from)
{
    uint64_t value;
    RBT_ASSERT(left(from) >= sizeof value);
    memcpy(&value, from->at, sizeof value);
    from->at += sizeof value;
    return le64toh(value);
}

static void take_secret(struct rbt_wire_cursor *from, struct rbt_wire_secret *secret)
{
    RBT_ASSERT(left(from) >= sizeof secret->bytes);
    memcpy(secret->bytes, from->at, sizeof secret->bytes);
    from->at += sizeof secret->bytes;
}

static rbt_status need(const struct rbt_wire_cursor *from, size_t bytes)
{
    RBT_ASSERT(bytes > 0);
    return left(from) >= bytes ? RBT_OK : broken("less in it than its kind must have");
}

/* Moves on to the next multiple of 8, behind `size` bytes that have been looked at. */
static rbt_status skip(struct rbt_wire_cursor *from, size_t size)
{
    const size_t padded = rbt_frame_padded(size);
    RBT_ASSERT(padded >= size);
    if (padded > left(from)) {
        return broken("a length in it that leads beyond its end");
    }
    for (size_t i = size; i < padded; i++) {
        if (from->at[i] != 0) {
            return broken("something in it where zeros should be");
        }
    }
    from->at += padded;
    RBT_ASSERT(from->at <= from->end);
    return RBT_OK;
}

static rbt_status get_block(struct rbt_wire_cursor *from, struct rbt_control_part *part)
{
    rbt_status st = need(from, sizeof(uint64_t));
    if (st != RBT_OK) {
        return st;
    }
    const uint64_t size = take_u64(from);
    if (size > left(from)) {
        return broken("a length in it that leads beyond its end");
    }
    const struct rbt_control_part found = {.bytes = from->at, .size = size};
    st = skip(from, size);
    if (st == RBT_OK) {
        RBT_ASSERT(found.bytes + found.size <= from->at);
        *part = found;
    }
    return st;
}

/* `text` has room for `max` bytes, the terminating zero included. */
static rbt_status get_text(struct rbt_wire_cursor *from, char *text, size_t max)
{
    RBT_ASSERT(max > 0);
    const size_t room = left(from) < max ? left(from) : max;
    const size_t size = strnlen(from->at, room);
    if (size == room) {
        return broken("a text in it that does not end");
    }
    for (size_t i = 0; i < size; i++) {
        if (is_control(from->at[i])) {
            return broken("a text in it that is not one line");
        }
    }
    memcpy(text, from->at, size + 1);
    RBT_ASSERT(strlen(text) == size);
    return skip(from, size + 1);
}

static rbt_status get_shards(struct rbt_wire_cursor *from, struct rbt_control_shards *shards)
{
    rbt_status st = need(from, sizeof(uint64_t));
    if (st != RBT_OK) {
        return st;
    }
    const uint64_t count = take_u64(from);
    if (count > RBT_CLUSTER_SHARDS_MAX) {
        return broken("too many shards in it");
    }
    *shards = (struct rbt_control_shards){.count = (uint32_t)count, .list = *from};
    for (uint64_t i = 0; i < count; i++) {
        char address[RBT_NAME_MAX];
        st = get_text(from, address, sizeof address);
        if (st != RBT_OK) {
            return st;
        }
        if (address[0] == '\0') {
            return broken("a shard in it that has no address");
        }
    }
    shards->list.end = from->at;
    RBT_ASSERT(shards->list.at <= shards->list.end);
    return RBT_OK;
}

void rbt_control_next_shard(struct rbt_control_shards *shards, char address[static RBT_NAME_MAX])
{
    RBT_ASSERT(left(&shards->list) > 0);
    const rbt_status st = get_text(&shards->list, address, RBT_NAME_MAX);
    RBT_ASSERT(st == RBT_OK); /* get_shards() has looked at all of them */
    RBT_ASSERT(address[0] != '\0');
}

static rbt_status end(const struct rbt_wire_cursor *from)
{
    return left(from) == 0 ? RBT_OK : broken("more in it than its kind may have");
}

/* What must be true of the numbers of a JOIN. */
static rbt_status check_join(const struct rbt_control_join *join, uint32_t flags)
{
    RBT_ASSERT(join->is_return == (flags == 1));
    if (join->token == 0 || flags > 1 || join->role >= RBT_CONTROL_ROLES || join->index < -1) {
        return broken("a number in it that is out of its range");
    }
    if (join->worker_count > RBT_WIRE_WORKERS_MAX || join->thread_count > join->worker_count) {
        return broken("a number of workers in it that cannot be");
    }
    return RBT_OK;
}

rbt_status rbt_control_get_join(struct rbt_wire_cursor body, struct rbt_control_join *join)
{
    enum { FIXED = 32 + 2 * RBT_WIRE_SECRET };
    RBT_ASSERT(body.at <= body.end);
    RBT_ASSERT((uintptr_t)body.at % RBT_FRAME_ALIGN == 0);
    rbt_status st = need(&body, FIXED);
    if (st != RBT_OK) {
        return st;
    }
    join->token = take_u64(&body);
    const uint32_t flags = take_u32(&body);
    join->is_return = flags == 1;
    join->role = take_u32(&body);
    join->index = (int32_t)take_u32(&body);
    join->pid = take_u32(&body);
    join->worker_count = take_u32(&body);
    join->thread_count = take_u32(&body);
    take_secret(&body, &join->permit);
    take_secret(&body, &join->read_permit);
    st = check_join(join, flags);
    if (st == RBT_OK) {
        st = get_text(&body, join->space, sizeof join->space);
    }
    if (st == RBT_OK) {
        st = get_text(&body, join->host, sizeof join->host);
    }
    if (st == RBT_OK) {
        st = get_shards(&body, &join->shards);
    }
    return st == RBT_OK ? end(&body) : st;
}

rbt_status rbt_control_get_plan(struct rbt_wire_cursor body, struct rbt_control_plan *plan)
{
    enum { FIXED = 48 + RBT_WIRE_SECRET };
    RBT_ASSERT(body.at <= body.end);
    RBT_ASSERT((uintptr_t)body.at % RBT_FRAME_ALIGN == 0);
    rbt_status st = need(&body, FIXED);
    if (st != RBT_OK) {
        return st;
    }
    plan->cluster = take_u64(&body);
    plan->job = take_u64(&body);
    plan->map_version = take_u64(&body);
    plan->index = take_u32(&body);
    plan->process_count = take_u32(&body);
    plan->worker_count = take_u32(&body);
    plan->worker_first = take_u32(&body);
    plan->thread_count = take_u32(&body);
    plan->process_size = take_u32(&body);
    take_secret(&body, &plan->secret);
    if (plan->cluster == 0 || plan->map_version == 0 || plan->worker_count > RBT_WIRE_WORKERS_MAX ||
        plan->thread_count > plan->worker_count ||
        plan->worker_first > plan->worker_count - plan->thread_count) {
        return broken("a number in it that is out of its range");
    }
    st = get_shards(&body, &plan->shards);
    return st == RBT_OK ? end(&body) : st;
}

rbt_status rbt_control_get_gather(struct rbt_wire_cursor body, struct rbt_control_part *part)
{
    RBT_ASSERT(body.at <= body.end);
    const rbt_status st = get_block(&body, part);
    RBT_ASSERT(st != RBT_OK || part->bytes + part->size <= body.at);
    return st == RBT_OK ? end(&body) : st;
}

rbt_status rbt_control_get_gathered(struct rbt_wire_cursor body, struct rbt_wire_cursor *parts,
                                    uint32_t *count)
{
    RBT_ASSERT(body.at <= body.end);
    rbt_status st = need(&body, sizeof(uint64_t));
    if (st != RBT_OK) {
        return st;
    }
    const uint64_t part_count = take_u64(&body);
    if (part_count > RBT_CONTROL_PARTS_MAX) {
        return broken("too many parts in it");
    }
    const struct rbt_wire_cursor list = body;
    for (uint64_t i = 0; i < part_count && st == RBT_OK; i++) {
        struct rbt_control_part part;
        st = get_block(&body, &part);
    }
    st = st == RBT_OK ? end(&body) : st;
    if (st == RBT_OK) {
        RBT_ASSERT(part_count <= (uint64_t)(list.end - list.at) / sizeof(uint64_t));
        *parts = list;
        *count = (uint32_t)part_count;
    }
    return st;
}

void rbt_control_next_part(struct rbt_wire_cursor *parts, struct rbt_control_part *part)
{
    RBT_ASSERT(left(parts) > 0);
    const rbt_status st = get_block(parts, part);
    RBT_ASSERT(st == RBT_OK); /* rbt_control_get_gathered() has looked at all of them */
    RBT_ASSERT(parts->at <= parts->end);
}

rbt_status rbt_control_get_bound(struct rbt_wire_cursor body, struct rbt_control_bound *bound)
{
    RBT_ASSERT(body.at <= body.end);
    rbt_status st = need(&body, 3 * sizeof(uint64_t));
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_control_bound read = {.job = take_u64(&body)};
    read.table = take_u32(&body);
    const uint32_t zero = take_u32(&body);
    read.staleness = (int64_t)take_u64(&body);
    st = end(&body);
    if (st == RBT_OK && zero != 0) {
        st = broken("something in it where zeros should be");
    } else if (st == RBT_OK && read.job == 0) {
        st = broken("a job in it that cannot be");
    } else if (st == RBT_OK && read.table >= RBT_JOB_TABLES_MAX && read.table != RBT_CONTROL_ALL) {
        st = broken("a table in it that cannot be");
    } else if (st == RBT_OK && read.staleness < -1) {
        st = broken("a staleness in it that cannot be");
    }
    if (st == RBT_OK) {
        *bound = read;
    }
    return st;
}

rbt_status rbt_control_get_taken(struct rbt_wire_cursor body, uint64_t *job)
{
    RBT_ASSERT(body.at <= body.end);
    rbt_status st = need(&body, sizeof *job);
    if (st != RBT_OK) {
        return st;
    }
    const uint64_t read = take_u64(&body);
    st = end(&body);
    if (st == RBT_OK && read == 0) {
        st = broken("a job in it that cannot be");
    }
    if (st == RBT_OK) {
        *job = read;
    }
    return st;
}

rbt_status rbt_control_get_ending(struct rbt_wire_cursor body, struct rbt_control_ending *ending)
{
    RBT_ASSERT(body.at <= body.end);
    rbt_status st = need(&body, sizeof(uint64_t));
    if (st != RBT_OK) {
        return st;
    }
    const int64_t status = (int64_t)take_u64(&body);
    if (status > RBT_OK || status < RBT_E_INTERRUPTED) {
        return broken("a status in it that is not known");
    }
    ending->status = (rbt_status)status;
    RBT_ASSERT(ending->status <= RBT_OK);
    st = get_text(&body, ending->text, sizeof ending->text);
    return st == RBT_OK ? end(&body) : st;
}

rbt_status rbt_control_get_version(struct rbt_wire_cursor body, struct rbt_control_version *version)
{
    RBT_ASSERT(body.at <= body.end);
    rbt_status st = need(&body, 2 * sizeof(uint64_t));
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_control_version read = {.table = take_u32(&body)};
    const uint32_t zero = take_u32(&body);
    read.version = take_u64(&body);
    st = end(&body);
    if (st == RBT_OK && zero != 0) {
        st = broken("something in it where zeros should be");
    }
    if (st == RBT_OK && read.table >= RBT_JOB_TABLES_MAX) {
        st = broken("a table in it that cannot be");
    }
    if (st == RBT_OK) {
        *version = read;
    }
    return st;
}

rbt_status rbt_control_get_job(struct rbt_wire_cursor body, struct rbt_control_job *job)
{
    enum { FIXED = 8 + 2 * RBT_WIRE_SECRET };
    RBT_ASSERT(body.at <= body.end);
    const rbt_status st = need(&body, FIXED);
    if (st != RBT_OK) {
        return st;
    }
    job->worker_count = take_u32(&body);
    if (take_u32(&body) != 0) {
        return broken("something in it where zeros should be");
    }
    if (job->worker_count == 0 || job->worker_count > RBT_WIRE_WORKERS_MAX) {
        return broken("a number of workers in it that cannot be");
    }
    take_secret(&body, &job->secret);
    take_secret(&body, &job->read_secret);
    return end(&body);
}

rbt_status rbt_control_get_plain(struct rbt_wire_cursor body)
{
    RBT_ASSERT(body.at <= body.end);
    return end(&body);
}
