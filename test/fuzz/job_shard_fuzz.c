/* test/fuzz/job_shard_fuzz.c - a shard's job shard survives whatever two workers, their process and
 * a reader send to it.
 *
 * An input is a recipe, not a message: it makes a conversation of mostly valid messages, follows
 * what has arrived so that they stay valid, and damages some of them. Who is refused is forgotten
 * and comes back, as over a socket. Messages that are honest but large are left out, so that memory
 * stays bounded; nothing may break an assertion, be read behind its end, or leak.
 *
 * Or an input is messages (fuzz/script.h), as a simulation has sent them: then the tables that an
 * update is for are opened first as it needs them, and it is the next one of its worker. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"
#include "core/shard_event.h"
#include "fuzz/large.h"
#include "fuzz/script.h"
#include "policy/filter/chain.h"
#include "proto/job_shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FRAMES = 150,
    WORKERS = 2,
    SESSIONS = 4, /* the workers, their process, a reader */
    TABLES = 4,
    ROOM = 1 << 14,
    KEYS_MAX = 40,
    LIVE_MAX = 256 << 20,
};

/* What comes from the input, and when that has come to its end, from the generator. */
struct recipe {
    const uint8_t *at;
    size_t left;
    struct rbt_rng rng;
};

struct talk {
    struct recipe recipe;
    rbt_job_shard *job_shard;
    struct rbt_session sessions[SESSIONS];
    int64_t clocks[WORKERS];
    uint64_t run;
    bool cuts_ranges;     /* of its updates */
    const char *rule;     /* of table 2; or "" */
    const char *priority; /* of table 0 and 2; or "" */
    const char *filter;   /* the same */
    rbt_chain *chains[TABLES];
    uint64_t heard; /* bytes */
    rbt_time now;
    size_t bytes; /* of the message */
};

static _Alignas(8) char message[ROOM];
static uint64_t keys[KEYS_MAX];
static uint64_t values[KEYS_MAX * 4];
static uint32_t offsets[KEYS_MAX + 1];
static uint32_t elements[KEYS_MAX * 4];
static char packed[4 * KEYS_MAX * 64];

static uint64_t below(struct talk *talk, uint64_t bound)
{
    uint64_t number = rbt_rng_next(&talk->recipe.rng);
    if (talk->recipe.left > 0) {
        number ^= *talk->recipe.at++;
        talk->recipe.left--;
    }
    return number % bound;
}

static void hear(void *context, struct rbt_block *block)
{
    struct talk *talk = context;
    struct rbt_frame frame;
    RBT_ASSERT(rbt_frame_get(block->data, RBT_FRAME_BODY_MAX, &frame) == RBT_OK);
    RBT_ASSERT(frame.length + RBT_FRAME_HEADER == block->bytes);
    talk->heard += block->bytes;
}

static void connect_session(struct talk *talk, uint32_t who)
{
    talk->sessions[who] = (struct rbt_session){.worker = who < WORKERS ? who : RBT_FRAME_NOBODY,
                                               .is_reader = who == SESSIONS - 1,
                                               .send = hear,
                                               .context = talk};
}

/* --- Messages -------------------------------------------------------------------------------- */

static struct rbt_spec draw_table(struct talk *talk, uint32_t number)
{
    struct rbt_spec table = {.number = number,
                             .type = number % 2 == 0 ? RBT_F32 : RBT_I64,
                             .layout = number % 2 == 0 ? RBT_DENSE : RBT_SPARSE,
                             .width = number % 2 == 0 ? 1 + number : 50,
                             .partial = number == 2 ? RBT_PARTIAL_SHOW : RBT_PARTIAL_HIDE,
                             .staleness = (int64_t)below(talk, 5) - 1};
    (void)snprintf(table.name, sizeof table.name, "t%u", number); /* fits */
    if (number % 2 == 0 && talk->priority[0] != '\0') {
        (void)snprintf(table.priority, sizeof table.priority, "%s", talk->priority); /* the same */
        table.bandwidth = below(talk, 4) == 0 ? 0 : UINT64_C(1) << 40;
    }
    if (number % 2 == 0) {
        (void)snprintf(table.filter, sizeof table.filter, "%s", talk->filter); /* the same */
    }
    const char *rule = number == 2 ? talk->rule : "";
    (void)snprintf(table.rule, sizeof table.rule, "%s", rule); /* the same */
    return table;
}

static void draw_keys(struct talk *talk, size_t count)
{
    uint64_t key = below(talk, 8);
    const uint64_t gap = 1 + below(talk, 3);
    for (size_t i = 0; i < count; i++) {
        keys[i] = key;
        key += 1 + (gap == 1 ? 0 : rbt_rng_next(&talk->recipe.rng) % gap);
    }
}

/* A stamp that there may have been, or none. */
static uint64_t draw_stamp(struct talk *talk)
{
    return below(talk, 4) == 0 ? RBT_STAMP_NONE : below(talk, 40);
}

/* Rows that fit the table; their keys are named now and then, whether they were sent or not. */
static struct rbt_wire_rows draw_rows(struct talk *talk, uint32_t table, bool has_values)
{
    const bool is_sparse = table % 2 == 1;
    struct rbt_wire_rows rows = {
        .table = table,
        .count = is_sparse && !has_values ? 1 : (size_t)(1 + below(talk, KEYS_MAX - 1)),
        .keys = keys,
        .element_size = is_sparse ? 8 : 4,
        .width = is_sparse ? 50 : 1 + table,
        .compression = RBT_COMPRESSION_ZEROS};
    draw_keys(talk, rows.count);
    if (below(talk, 3) == 0) {
        rows.list = rbt_wire_list_name(keys, NULL, rows.count);
        rows.keys = NULL;
    }
    if (!has_values) {
        return rows;
    }
    for (size_t i = 0; i < KEYS_MAX * 4; i++) {
        values[i] = below(talk, 3) == 0 ? rbt_rng_next(&talk->recipe.rng) >> 3 : 0;
    }
    rows.values = values;
    rows.has_base = table == 2 && talk->rule[0] != '\0';
    rows.base = draw_stamp(talk);
    rows.least = draw_stamp(talk);
    if (is_sparse) {
        for (size_t i = 0; i < rows.count; i++) {
            const uint32_t size = (uint32_t)below(talk, 4);
            for (uint32_t k = 0; k < size; k++) {
                elements[offsets[i] + k] = 10 * k + (uint32_t)below(talk, 10);
            }
            offsets[i + 1] = offsets[i] + size;
        }
        rows.offsets = offsets;
        rows.elements = elements;
    }
    return rows;
}

/* Makes of rows what the table's filters would make of them, or something like it. */
static void filter_rows(struct talk *talk, struct rbt_wire_rows *rows)
{
    rbt_chain *chain = talk->chains[rows->table];
    const size_t count = rbt_wire_rows_elements(rows);
    if (chain == NULL || count == 0 || below(talk, 4) == 0) {
        return;
    }
    const size_t bound = rbt_chain_bound(chain, count);
    const struct rbt_chain_elements all = {.count = count, .values = values};
    RBT_ASSERT(3 * bound <= sizeof packed);
    rows->packed_bytes = rbt_chain_put(chain, &all, packed, packed + bound);
    if (rbt_wire_can_filter(count * rows->element_size, rows->packed_bytes)) {
        rows->packed = packed;
        for (uint64_t i = below(talk, 16); i < 3; i++) {
            packed[below(talk, rows->packed_bytes)] = (char)below(talk, 256);
        }
    }
}

static struct rbt_frame put_push(struct talk *talk, uint32_t who)
{
    const uint32_t worker = who % WORKERS;
    const bool ends = below(talk, 2) == 0;
    struct rbt_wire_push push = {.clock = talk->clocks[worker] + (below(talk, 16) == 0),
                                 .range_last = UINT64_MAX,
                                 .batch_count = (uint32_t)below(talk, 4)};
    push.marker = ends ? push.clock + 1 : -1;
    if (talk->cuts_ranges) { /* nobody does that yet */
        push.range_first = below(talk, 200);
        push.range_last = push.range_first + below(talk, 100);
    }
    talk->clocks[worker] = ends ? push.clock + 1 : talk->clocks[worker];
    talk->bytes = rbt_wire_put_push(message, &push);
    for (uint32_t i = 0; i < push.batch_count; i++) {
        struct rbt_wire_rows rows = draw_rows(talk, (uint32_t)below(talk, TABLES - 1), true);
        filter_rows(talk, &rows);
        talk->bytes += rbt_wire_rows_put(message + talk->bytes, &rows, NULL);
    }
    const uint64_t arrived = rbt_job_shard_news(talk->job_shard, worker).arrived;
    return (struct rbt_frame){.kind = RBT_FRAME_PUSH,
                              .worker = worker,
                              .id = below(talk, 8) == 0 ? arrived : arrived + 1};
}

static struct rbt_frame put_read(struct talk *talk, uint32_t who)
{
    const int64_t floor = rbt_job_shard_news(talk->job_shard, 0).floor;
    const int64_t prefetch = (int64_t)below(talk, 4) - 2;
    const int64_t need = floor == RBT_CLOCK_GONE || who == SESSIONS - 1 ? 0 : floor + prefetch;
    const uint32_t table = (uint32_t)below(talk, TABLES - 1);
    const struct rbt_frame frame = {.worker = talk->sessions[who].worker, .id = below(talk, 1000)};
    if (below(talk, 4) == 0) {
        const struct rbt_wire_scan scan = {.need = need,
                                           .table = table % 2 == 0 ? table : 0,
                                           .range_first = below(talk, 10),
                                           .range_last = 10 + below(talk, 90),
                                           .capacity = below(talk, 50)};
        talk->bytes = rbt_wire_put_scan(message, &scan);
        return (struct rbt_frame){.kind = RBT_FRAME_SCAN, .worker = frame.worker, .id = frame.id};
    }
    const bool has_rule = table == 2 && talk->rule[0] != '\0';
    const bool is_early = table % 2 == 0 && below(talk, 3) == 0;
    const struct rbt_wire_pull pull = {.need = is_early ? RBT_CLOCK_ANY : need,
                                       .subscription = below(talk, 3),
                                       .applied_count = (uint32_t)below(talk, 3),
                                       .wants_stamp = has_rule && below(talk, 4) > 0,
                                       .is_base = has_rule && who < WORKERS && below(talk, 4) > 0,
                                       .is_ahead = below(talk, 2) == 0,
                                       .least = draw_stamp(talk),
                                       .sequence = below(talk, 20),
                                       .is_stable = has_rule && !is_early && below(talk, 4) == 0,
                                       .stable = below(talk, 10),
                                       .is_early = is_early,
                                       .room = (uint32_t)below(talk, 50),
                                       .has_copy = table % 2 == 0 && talk->filter[0] != '\0' &&
                                                   below(talk, 2) == 0,
                                       .copy = below(talk, 10)};
    const struct rbt_wire_rows rows = draw_rows(talk, table, false);
    talk->bytes = rbt_wire_put_pull(message, &pull);
    talk->bytes += rbt_wire_rows_put(message + talk->bytes, &rows, NULL);
    return (struct rbt_frame){.kind = RBT_FRAME_PULL, .worker = frame.worker, .id = frame.id};
}

static struct rbt_frame put_list(struct talk *talk)
{
    struct rbt_wire_rows rows = draw_rows(talk, 0, false);
    rows.keys = keys;
    rows.list = rbt_wire_list_name(keys, NULL, rows.count);
    talk->bytes = RBT_WIRE_LIST_BYTES;
    talk->bytes += rbt_wire_rows_put(message + talk->bytes, &rows, NULL);
    return (struct rbt_frame){.kind = RBT_FRAME_LIST};
}

static struct rbt_frame put_table(struct talk *talk, uint32_t who)
{
    struct rbt_spec table = draw_table(talk, (uint32_t)below(talk, TABLES));
    table.must_exist = who == SESSIONS - 1;
    talk->bytes = rbt_wire_put_table(message, &table);
    return (struct rbt_frame){.kind = RBT_FRAME_TABLE, .worker = RBT_FRAME_NOBODY, .id = 1};
}

/* Any message, most of them what this session may say. */
static struct rbt_frame build(struct talk *talk, uint32_t who)
{
    const uint64_t what = below(talk, 32);
    talk->bytes = RBT_FRAME_HEADER;
    if (what < 12) {
        return put_push(talk, who);
    }
    if (what < 22) {
        return put_read(talk, who);
    }
    if (what < 26) {
        return put_list(talk);
    }
    if (what < 28) {
        return put_table(talk, who);
    }
    const uint32_t worker = who % WORKERS;
    if (what == 28) {
        return (struct rbt_frame){.kind = RBT_FRAME_STATS, .id = below(talk, 100)};
    }
    if (what == 29) {
        return (struct rbt_frame){.kind = RBT_FRAME_LEAVE,
                                  .worker = worker,
                                  .id = rbt_job_shard_news(talk->job_shard, worker).arrived + 1};
    }
    return (struct rbt_frame){
        .kind = RBT_FRAME_RESET, .worker = RBT_FRAME_NOBODY, .id = talk->run + below(talk, 2)};
}

/* --- Damage ---------------------------------------------------------------------------------- */

static void damage(struct talk *talk, struct rbt_frame *frame)
{
    const uint64_t power = UINT64_C(1) << below(talk, 64);
    const uint64_t number = power + below(talk, 3) - 1;
    const size_t reach = below(talk, 2) == 0 && talk->bytes > 160 ? 160 : talk->bytes;
    const size_t place = (size_t)below(talk, reach);
    switch (below(talk, 7)) {
    case 0:
        message[place] = (char)(message[place] ^ 1 << below(talk, 8));
        break;
    case 1:
        message[place] = (char)(message[place] + (below(talk, 2) == 0 ? 1 : -1));
        break;
    case 2:
        memcpy(message + place / 4 * 4, &number, 4);
        break;
    case 3:
        memcpy(message + place / 8 * 8, &number, 8);
        break;
    case 4:
        frame->id = number;
        break;
    case 5:
        frame->worker = (uint32_t)number;
        break;
    default:
        talk->bytes -= (size_t)below(talk, (talk->bytes - RBT_FRAME_HEADER) / 8 + 1) * 8;
        break;
    }
}

/* --- Conversation ---------------------------------------------------------------------------- */

/* One message of a session, in a block of its own, whose end a sanitizer guards. */
static void send(struct talk *talk, uint32_t who, const struct rbt_frame *header)
{
    struct rbt_frame frame = *header;
    const size_t length = talk->bytes - RBT_FRAME_HEADER;
    char *body = rbt_calloc(length + 1, 1);
    RBT_ASSERT(body != NULL);
    memcpy(body, message + RBT_FRAME_HEADER, length);
    frame.length = (uint32_t)length;
    if (!large_message(&frame, (struct rbt_wire_cursor){body, body + length})) {
        const rbt_status st =
            rbt_job_shard_receive(talk->job_shard, &talk->sessions[who], &frame, body, ++talk->now);
        if (st == RBT_OK && frame.kind == RBT_FRAME_RESET && frame.id > talk->run) {
            talk->run = frame.id;
            memset(talk->clocks, 0, sizeof talk->clocks);
        }
        if (st != RBT_OK) {
            rbt_job_shard_forget(talk->job_shard, &talk->sessions[who]);
            connect_session(talk, who);
        }
    }
    rbt_free(body);
    RBT_ASSERT(rbt_alloc_live_bytes() < LIVE_MAX);
}

/* Two tables or three, and the first run, as a process would begin. */
static void begin(struct talk *talk)
{
    const uint32_t count = (uint32_t)below(talk, 16) == 0 ? 0 : TABLES - 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct rbt_spec table = draw_table(talk, i);
        talk->bytes = rbt_wire_put_table(message, &table);
        send(talk, WORKERS,
             &(struct rbt_frame){.kind = RBT_FRAME_TABLE, .worker = RBT_FRAME_NOBODY, .id = 1});
    }
    talk->bytes = RBT_FRAME_HEADER;
    if (count > 0) {
        send(talk, WORKERS,
             &(struct rbt_frame){.kind = RBT_FRAME_RESET, .worker = RBT_FRAME_NOBODY, .id = 1});
    }
}

/* Opens the table that the rows are for, unless it is there. */
static void open_for(struct talk *talk, const struct rbt_wire_view *view)
{
    const uint64_t count = view->count > 0 ? view->count : 1;
    const bool is_sparse = view->offsets != NULL;
    struct rbt_spec table = {.number = view->table % TABLES,
                             .type = view->element_size == 8 ? RBT_I64 : RBT_F32,
                             .layout = is_sparse ? RBT_SPARSE : RBT_DENSE,
                             .width = is_sparse ? 64 : (uint32_t)(view->element_count / count),
                             .staleness = 1};
    table.width += table.width == 0;
    (void)snprintf(table.name, sizeof table.name, "t%u", table.number); /* fits */
    (void)snprintf(table.rule, sizeof table.rule, "%s", view->has_base ? "dynsgd" : "");
    talk->bytes = rbt_wire_put_table(message, &table);
    send(talk, WORKERS,
         &(struct rbt_frame){.kind = RBT_FRAME_TABLE, .worker = RBT_FRAME_NOBODY, .id = 1});
}

/* What has to be there before the message means something. */
static void prepare(struct talk *talk, const struct script_frame *frame)
{
    struct rbt_wire_cursor cursor = script_body(frame);
    struct rbt_wire_push push;
    struct rbt_wire_pull pull;
    struct rbt_wire_view view;
    const bool has_rows =
        frame->head.kind == RBT_FRAME_PUSH
            ? rbt_wire_get_push(&cursor, &push) == RBT_OK && push.batch_count > 0
            : frame->head.kind == RBT_FRAME_PULL && rbt_wire_get_pull(&cursor, &pull) == RBT_OK;
    if (has_rows && rbt_wire_rows_get(&cursor.at, cursor.end, &view) == RBT_OK) {
        open_for(talk, &view);
    }
}

/* Messages as they are in the input, but for who says them. */
static void send_input(struct talk *talk, struct script script)
{
    struct script_frame frame;
    talk->bytes = RBT_FRAME_HEADER;
    send(talk, WORKERS,
         &(struct rbt_frame){.kind = RBT_FRAME_RESET, .worker = RBT_FRAME_NOBODY, .id = 1});
    while (script_next_frame(&script, &frame)) {
        const bool is_process = frame.head.worker == RBT_FRAME_NOBODY;
        const uint32_t who = is_process ? WORKERS : frame.head.worker % WORKERS;
        const bool is_update =
            frame.head.kind == RBT_FRAME_PUSH || frame.head.kind == RBT_FRAME_LEAVE;
        if (frame.head.length <= ROOM - RBT_FRAME_HEADER) {
            prepare(talk, &frame);
            memcpy(message + RBT_FRAME_HEADER, frame.body, frame.head.length);
            talk->bytes = RBT_FRAME_HEADER + frame.head.length;
            frame.head.worker = talk->sessions[who].worker;
            if (is_update && !is_process && frame.head.id % 8 != 7) {
                frame.head.id = rbt_job_shard_news(talk->job_shard, who).arrived + 1;
            }
            send(talk, who, &frame.head);
        }
        script_drop_frame(&frame);
    }
}

static void open_chains(struct talk *talk)
{
    for (uint32_t i = 0; i < TABLES; i += 2) {
        const struct rbt_chain_options options = {.text = talk->filter,
                                                  .direction = RBT_FILTER_PUSH,
                                                  .table = "t",
                                                  .width = 1 + i,
                                                  .type = RBT_F32,
                                                  .worker_count = WORKERS};
        RBT_ASSERT(rbt_chain_create(&options, &talk->chains[i]) == RBT_OK);
    }
}

static void converse(struct talk *talk)
{
    static const char *const rules[] = {"", "dynsgd", "adarev:max=6", "adam:lr=.1",
                                        "add:aggregate=1"};
    talk->rule = rules[below(talk, sizeof rules / sizeof *rules)];
    static const char *const priorities[] = {"", "oldest", "random", "relative"};
    talk->priority = priorities[below(talk, sizeof priorities / sizeof *priorities)];
    static const char *const filters[] = {"", "changed,f16", "significant:.5,lz4", "fixed:8,zstd",
                                          "keys,zeros,lz4"};
    talk->filter = filters[below(talk, sizeof filters / sizeof *filters)];
    open_chains(talk);
    begin(talk);
    talk->cuts_ranges = below(talk, 8) == 0;
    const uint64_t rate = 2 + below(talk, 40);
    for (unsigned i = 0; i < FRAMES; i++) {
        const uint32_t who = (uint32_t)below(talk, 8) % 5 % SESSIONS;
        struct rbt_frame frame = build(talk, who);
        for (uint64_t damages = below(talk, rate) == 0 ? 1 + below(talk, 3) : 0; damages > 0;
             damages--) {
            damage(talk, &frame);
        }
        send(talk, who, &frame);
        if (below(talk, 4) == 0) {
            rbt_job_shard_settle(talk->job_shard, &talk->sessions[who]);
        }
        if (below(talk, 50) == 0) {
            rbt_job_shard_forget(talk->job_shard, &talk->sessions[who]);
            connect_session(talk, who);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct talk talk = {.recipe = {.at = data, .left = size}};
    uint64_t seed = 0;
    for (unsigned i = 0; i < sizeof seed && talk.recipe.left > 0; i++, talk.recipe.left--) {
        seed = seed << 8 | *talk.recipe.at++;
    }
    rbt_rng_init(&talk.recipe.rng, seed, 0, 0);
    const struct rbt_job_shard_options options = {.worker_count = WORKERS, .table_max = TABLES};
    RBT_ASSERT(rbt_job_shard_create(&options, &talk.job_shard) == RBT_OK);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        connect_session(&talk, i);
    }
    if (script_is_frames(data, size)) {
        send_input(&talk, script_begin(data, size));
    } else {
        converse(&talk);
    }
    for (uint32_t i = 0; i < SESSIONS; i++) {
        rbt_job_shard_forget(talk.job_shard, &talk.sessions[i]);
    }
    for (uint32_t i = 0; i < TABLES; i++) {
        rbt_chain_destroy(talk.chains[i]);
    }
    rbt_job_shard_destroy(talk.job_shard);
    rbt_block_trim();
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
