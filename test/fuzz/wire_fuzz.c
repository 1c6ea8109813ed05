/* test/fuzz/wire_fuzz.c - the decoder of messages survives anything that looks like a message.
 *
 * An input is a recipe, not a message. Its first bytes seed a generator which builds valid messages
 * of every kind, with rows of every form; the rest says how each of them is damaged: bytes
 * changed, numbers of the head replaced by awkward ones, pieces moved, the end cut off. A whole
 * message must come back as it was sent; a damaged one may be refused or not, but it must not be
 * read behind its end, where a sanitizer watches, nor unpacked to more than it can hold.
 *
 * One input makes 200 messages: 10 whole ones and 19 damaged copies of each, most of them read as
 * the kind that they say they are, some as another one.
 *
 * Or an input is messages (fuzz/script.h), as a simulation has sent them, which are read as they
 * are. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"
#include "fuzz/script.h"
#include "wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    MESSAGES = 10,
    COPIES = 19, /* damaged ones of each */
    ROWS_MAX = 300,
    ELEMENTS_MAX = 4 * ROWS_MAX,
    ROOM = 1 << 15, /* of a message */
    UNPACKED_MAX = 1 << 16,
    KINDS = RBT_FRAME_DONE,
};

/* What comes from the input, and when that has come to its end, from the generator. */
struct recipe {
    const uint8_t *at;
    size_t left;
    struct rbt_rng rng;
};

static _Alignas(8) char message[ROOM];
static _Alignas(8) char scratch[ROOM];
static _Alignas(8) char arena[ROOM]; /* what is read ends where it ends */
static uint64_t keys[ROWS_MAX];
static uint32_t positions[ROWS_MAX];
static uint32_t offsets[ROWS_MAX + 1];
static uint32_t elements[ELEMENTS_MAX];
static uint64_t values[ELEMENTS_MAX];
static uint64_t keys_got[UNPACKED_MAX];
static uint64_t values_got[UNPACKED_MAX];

static uint64_t below(struct recipe *recipe, uint64_t bound)
{
    uint64_t number = rbt_rng_next(&recipe->rng);
    if (recipe->left > 0) {
        number ^= *recipe->at++;
        recipe->left--;
    }
    return number % bound;
}

/* --- Building -------------------------------------------------------------------------------- */

static void draw_values(struct recipe *recipe, size_t count)
{
    const uint64_t zeros = below(recipe, 101);
    const uint64_t bits = 1 + below(recipe, 63);
    for (size_t i = 0; i < count; i++) {
        const uint64_t number = rbt_rng_next(&recipe->rng);
        values[i] = number % 100 < zeros ? 0 : number >> bits;
    }
}

/* Keys with gaps of one order; some with a far jump, some that end with the last key there is. */
static void draw_keys(struct recipe *recipe, size_t count)
{
    const uint64_t gap = UINT64_C(1) << below(recipe, 54);
    const uint64_t jump = below(recipe, 4) == 0 ? UINT64_C(1) << 62 : 0;
    const size_t jump_at = (size_t)below(recipe, ROWS_MAX);
    uint64_t key = rbt_rng_next(&recipe->rng) % gap;
    for (size_t i = 0; i < count; i++) {
        keys[i] = key + (i >= jump_at ? jump : 0);
        key += 1 + rbt_rng_next(&recipe->rng) % gap;
    }
    if (count > 0 && below(recipe, 8) == 0) {
        const uint64_t room = UINT64_MAX - keys[count - 1];
        for (size_t i = 0; i < count; i++) {
            keys[i] += room;
        }
    }
}

/* Rows of at most ROWS_MAX keys; everything that they point to is in the arrays above. */
static struct rbt_wire_rows draw_rows(struct recipe *recipe)
{
    struct rbt_wire_rows rows = {
        .table = (uint32_t)below(recipe, 4),
        .count = (size_t)below(recipe, below(recipe, 4) == 0 ? ROWS_MAX : 20),
        .element_size = below(recipe, 2) == 0 ? 4 : 8,
        .width = 1 + (uint32_t)below(recipe, 4),
        .compression = (enum rbt_compression)below(recipe, 4),
    };
    draw_keys(recipe, rows.count);
    rows.keys = keys;
    if (below(recipe, 4) == 0) {
        rows.list = rbt_wire_list_name(keys, NULL, rows.count);
        rows.keys = below(recipe, 2) == 0 ? NULL : keys;
    }
    const uint64_t layout = below(recipe, 3);
    if (layout == 0) {
        return rows;
    }
    rows.values = values;
    draw_values(recipe, rows.count * 4);
    if (layout == 2) {
        offsets[0] = 0;
        for (size_t i = 0; i < rows.count; i++) {
            const uint32_t size = (uint32_t)(rbt_rng_next(&recipe->rng) % 4);
            for (uint32_t k = 0; k < size; k++) {
                elements[offsets[i] + k] = 2 * k + (uint32_t)(rbt_rng_next(&recipe->rng) % 2);
            }
            offsets[i + 1] = offsets[i] + size;
        }
        rows.offsets = offsets;
        rows.elements = elements;
    } else if (below(recipe, 2) == 0) {
        rows.has_base = true;
        rows.base = below(recipe, 100);
        rows.least = below(recipe, 2) == 0 ? UINT64_MAX : below(recipe, 100);
    }
    if (below(recipe, 2) == 0) { /* every other row */
        rows.count /= 2;
        for (size_t i = 0; i < rows.count; i++) {
            positions[i] = (uint32_t)(2 * i);
        }
        rows.positions = positions;
    }
    const size_t plain = rbt_wire_rows_elements(&rows) * rows.element_size;
    if (plain > 1 && below(recipe, 4) == 0) { /* any bytes could be what filters have made */
        rows.packed = (const char *)values;
        rows.packed_bytes = (size_t)(1 + below(recipe, plain - 1));
    }
    return rows;
}

static size_t put_rows(struct recipe *recipe, size_t bytes)
{
    const struct rbt_wire_rows rows = draw_rows(recipe);
    if (bytes + rbt_wire_rows_bound(&rows) > ROOM) {
        return bytes;
    }
    return bytes + rbt_wire_rows_put(message + bytes, &rows, scratch);
}

static void draw_text(struct recipe *recipe, char *text, size_t size)
{
    const size_t length = (size_t)below(recipe, below(recipe, 8) == 0 ? size : 16);
    memset(text, 'a', length);
    text[length] = 0;
}

static size_t put_table(struct recipe *recipe, uint16_t kind)
{
    struct rbt_wire_done done = {.status = -(int32_t)below(recipe, 11)};
    struct rbt_spec *table = &done.table;
    table->type = (rbt_type)below(recipe, 4);
    table->width = (uint32_t)below(recipe, 100);
    table->staleness = (int64_t)below(recipe, 100) - 1;
    table->must_exist = below(recipe, 2) == 0;
    draw_text(recipe, table->name, sizeof table->name);
    draw_text(recipe, table->rule, sizeof table->rule);
    draw_text(recipe, table->priority, sizeof table->priority);
    draw_text(recipe, table->filter, sizeof table->filter);
    table->bandwidth = below(recipe, 100);
    draw_text(recipe, done.text, sizeof done.text);
    return kind == RBT_FRAME_TABLE ? rbt_wire_put_table(message, table)
                                   : rbt_wire_put_done(message, &done);
}

static size_t put_push(struct recipe *recipe)
{
    struct rbt_wire_push push = {
        .marker = (int64_t)below(recipe, 9) - 1, .range_last = UINT64_MAX, .batch_count = 0};
    const size_t batches = (size_t)below(recipe, 4);
    size_t bytes = RBT_WIRE_PUSH_BYTES;
    for (size_t i = 0; i < batches; i++) {
        const size_t before = bytes;
        bytes = put_rows(recipe, bytes);
        push.batch_count += bytes > before;
    }
    (void)rbt_wire_put_push(message, &push); /* its size is known */
    return bytes;
}

static size_t put_pull(struct recipe *recipe)
{
    const struct rbt_wire_pull pull = {.need = 1,
                                       .wants_stamp = below(recipe, 2) == 0,
                                       .is_base = below(recipe, 2) == 0,
                                       .is_ahead = below(recipe, 2) == 0,
                                       .least = below(recipe, 100),
                                       .sequence = below(recipe, 100),
                                       .is_stable = below(recipe, 2) == 0,
                                       .stable = below(recipe, 100),
                                       .is_early = below(recipe, 4) == 0,
                                       .room = (uint32_t)below(recipe, 100),
                                       .has_copy = below(recipe, 4) == 0,
                                       .copy = below(recipe, 100)};
    return put_rows(recipe, rbt_wire_put_pull(message, &pull));
}

static size_t put_answer(struct recipe *recipe)
{
    const uint64_t applied[4] = {1, 2, 3, 4};
    const struct rbt_wire_answer answer = {.news = {.floor = 1, .version = 2, .arrived = 3},
                                           .is_withheld = below(recipe, 4) == 0,
                                           .has_stamp = below(recipe, 2) == 0,
                                           .stamp = below(recipe, 100),
                                           .has_copy = below(recipe, 4) == 0,
                                           .copy_base = below(recipe, 100),
                                           .copy = below(recipe, 100),
                                           .has_limit = below(recipe, 4) == 0,
                                           .limit = below(recipe, 100),
                                           .applied = applied,
                                           .applied_count = (uint32_t)below(recipe, 5)};
    return put_rows(recipe, rbt_wire_put_answer(message, &answer));
}

static size_t put_hello(struct recipe *recipe)
{
    struct rbt_wire_hello hello = {.worker = (uint32_t)below(recipe, 100), .worker_count = 100};
    draw_text(recipe, hello.space, sizeof hello.space);
    draw_text(recipe, hello.node, sizeof hello.node);
    return rbt_wire_put_hello(message, &hello);
}

/* A valid message of this kind; returns its bytes. */
static size_t build(struct recipe *recipe, uint16_t kind)
{
    const struct rbt_wire_news news = {.floor = 1, .version = 2, .arrived = 3};
    char text[RBT_WIRE_TEXT_MAX];
    switch (kind) {
    case RBT_FRAME_HELLO:
        return put_hello(recipe);
    case RBT_FRAME_WELCOME:
    case RBT_FRAME_ACK:
        return rbt_wire_put_ack(message, &news);
    case RBT_FRAME_REFUSED:
        draw_text(recipe, text, sizeof text);
        return rbt_wire_put_refused(message, text);
    case RBT_FRAME_PUSH:
        return put_push(recipe);
    case RBT_FRAME_LIST:
        return put_rows(recipe, RBT_WIRE_LIST_BYTES);
    case RBT_FRAME_PULL:
        return put_pull(recipe);
    case RBT_FRAME_SCAN:
        return rbt_wire_put_scan(message, &(struct rbt_wire_scan){.capacity = 10});
    case RBT_FRAME_ROWS:
        return put_answer(recipe);
    case RBT_FRAME_TABLE:
    case RBT_FRAME_DONE:
        return put_table(recipe, kind);
    default:
        return RBT_FRAME_HEADER;
    }
}

/* --- Damage ---------------------------------------------------------------------------------- */

/* Numbers that are near a border somewhere. */
static uint64_t awkward(struct recipe *recipe)
{
    const uint64_t power = UINT64_C(1) << below(recipe, 64);
    return power + below(recipe, 3) - 1;
}

/* One mistake, somewhere; more often in the first bytes of a body, where the counts are. */
static void damage(struct recipe *recipe, char *bytes, size_t size)
{
    const size_t reach = below(recipe, 2) == 0 && size > 160 ? 160 : size;
    const size_t place = (size_t)below(recipe, reach);
    const uint64_t number = awkward(recipe);
    switch (below(recipe, 6)) {
    case 0:
        bytes[place] = (char)(bytes[place] ^ 1 << below(recipe, 8));
        break;
    case 1:
        bytes[place] = (char)below(recipe, 256);
        break;
    case 2:
        bytes[place] = (char)(bytes[place] + (below(recipe, 2) == 0 ? 1 : -1));
        break;
    case 3: /* a number of 4 bytes in its place */
        if (place / 4 * 4 + 4 <= size) {
            memcpy(bytes + place / 4 * 4, &number, 4);
        }
        break;
    case 4:
        if (place / 8 * 8 + 8 <= size) {
            memcpy(bytes + place / 8 * 8, &number, 8);
        }
        break;
    default: { /* a piece over another one */
        const size_t from = (size_t)below(recipe, size);
        const size_t furthest = from > place ? from : place;
        const size_t room = size - furthest;
        const size_t length = (size_t)below(recipe, room < 64 ? room : 64);
        memmove(bytes + place, bytes + from, length);
        break;
    }
    }
}

/* --- Reading --------------------------------------------------------------------------------- */

/* Unpacks what a caller with bounded memory would unpack. Returns whether all of it was there. */
static bool read_rows(struct rbt_wire_cursor *cursor)
{
    struct rbt_wire_view view;
    if (rbt_wire_rows_get(&cursor->at, cursor->end, &view) != RBT_OK) {
        return false;
    }
    bool is_well = true;
    RBT_ASSERT(view.count <= RBT_WIRE_COUNT_MAX);
    if (view.count <= UNPACKED_MAX) {
        const bool has_keys = rbt_wire_view_keys(&view, keys_got) == RBT_OK;
        RBT_ASSERT(!has_keys || view.key_form != RBT_KEYS_NAMED);
        is_well = has_keys || view.key_form == RBT_KEYS_NAMED;
        for (uint32_t i = 1; has_keys && i < view.count; i++) {
            RBT_ASSERT(keys_got[i - 1] < keys_got[i]);
        }
    }
    if (view.element_count <= UNPACKED_MAX) {
        const bool is_read = rbt_wire_view_values(&view, values_got) == RBT_OK;
        RBT_ASSERT(!is_read || view.value_form != RBT_VALUES_FILTERED);
        is_well &= is_read || view.value_form == RBT_VALUES_FILTERED;
    }
    RBT_ASSERT(!view.has_base || (view.offsets == NULL && view.value_form != RBT_VALUES_NONE));
    if (view.offsets != NULL) {
        RBT_ASSERT(view.offsets[view.count] == view.element_count);
    }
    const char *raw = rbt_wire_view_raw(&view);
    if (raw != NULL && view.value_bytes > 0) {
        RBT_ASSERT(memcmp(raw, values_got, 1) == 0 || view.element_count > UNPACKED_MAX);
        RBT_ASSERT(raw + view.value_bytes <= cursor->end);
    }
    return is_well;
}

/* Reads a body as one of this kind. Returns whether it was accepted to its end. */
static bool read_body(struct rbt_wire_cursor cursor, uint16_t kind)
{
    union {
        struct rbt_wire_hello hello;
        struct rbt_wire_news news;
        struct rbt_wire_push push;
        struct rbt_wire_pull pull;
        struct rbt_wire_scan scan;
        struct rbt_wire_answer answer;
        struct rbt_spec spec;
        struct rbt_wire_done done;
        char text[RBT_WIRE_TEXT_MAX];
    } got;
    bool is_well = true;
    switch (kind) {
    case RBT_FRAME_HELLO:
        is_well = rbt_wire_get_hello(&cursor, &got.hello) == RBT_OK;
        break;
    case RBT_FRAME_WELCOME:
    case RBT_FRAME_ACK:
        is_well = rbt_wire_get_news(&cursor, &got.news) == RBT_OK;
        break;
    case RBT_FRAME_REFUSED:
        is_well = rbt_wire_get_text(&cursor, got.text) == RBT_OK;
        RBT_ASSERT(!is_well || strlen(got.text) < RBT_WIRE_TEXT_MAX);
        break;
    case RBT_FRAME_PUSH:
        is_well = rbt_wire_get_push(&cursor, &got.push) == RBT_OK;
        for (uint32_t i = 0; is_well && i < got.push.batch_count; i++) {
            is_well = read_rows(&cursor);
        }
        break;
    case RBT_FRAME_LIST:
        is_well = read_rows(&cursor);
        break;
    case RBT_FRAME_PULL:
        is_well = rbt_wire_get_pull(&cursor, &got.pull) == RBT_OK && read_rows(&cursor);
        break;
    case RBT_FRAME_SCAN:
        is_well = rbt_wire_get_scan(&cursor, &got.scan) == RBT_OK;
        break;
    case RBT_FRAME_ROWS:
        is_well = rbt_wire_get_answer(&cursor, &got.answer) == RBT_OK && read_rows(&cursor);
        break;
    case RBT_FRAME_TABLE:
        is_well = rbt_wire_get_table(&cursor, &got.spec) == RBT_OK;
        break;
    case RBT_FRAME_DONE:
        is_well = rbt_wire_get_done(&cursor, &got.done) == RBT_OK;
        break;
    default:
        break;
    }
    return is_well && rbt_wire_get_end(&cursor) == RBT_OK;
}

/* Reads a frame of `size` bytes; when `is_whole`, it must be accepted. */
static void read_frame(struct recipe *recipe, const char *bytes, size_t size, bool is_whole)
{
    struct rbt_frame frame = {0};
    const struct rbt_wire_cursor cursor = {bytes + RBT_FRAME_HEADER, bytes + size};
    if (size < RBT_FRAME_HEADER) {
        return;
    }
    const bool is_frame = rbt_frame_get(bytes, ROOM, &frame) == RBT_OK;
    RBT_ASSERT(is_frame || !is_whole);
    const uint16_t kind = is_frame ? frame.kind : (uint16_t)(1 + below(recipe, KINDS));
    const bool is_well = read_body(cursor, kind);
    RBT_ASSERT(is_well || !is_whole);
    if (below(recipe, 8) == 0) {
        (void)read_body(cursor, (uint16_t)(1 + below(recipe, KINDS))); /* as another one */
    }
}

/* Cut off anywhere: in a block of its own, since the end need not be aligned. */
static void read_cut(struct recipe *recipe, const char *bytes, size_t size)
{
    char *block = rbt_calloc(size, 1);
    RBT_ASSERT(block != NULL);
    memcpy(block, bytes, size);
    read_frame(recipe, block, size, false);
    rbt_free(block);
}

/* Reads a valid message, then damaged copies of it. */
static void read_copies(struct recipe *recipe, size_t bytes, unsigned count)
{
    char *copy = arena + ROOM - bytes; /* a sanitizer guards the end of the arena */
    memcpy(copy, message, bytes);
    read_frame(recipe, copy, bytes, true);
    for (unsigned i = 0; i < count; i++) {
        memcpy(copy, message, bytes);
        for (uint64_t damages = 1 + below(recipe, 4); damages > 0; damages--) {
            damage(recipe, copy, bytes);
        }
        if (i % 4 == 0) {
            read_cut(recipe, copy, (size_t)below(recipe, bytes + 1));
        } else {
            read_frame(recipe, copy, bytes, false);
        }
    }
}

/* Messages as they are in the input. */
static void read_input(struct script script)
{
    struct script_frame frame;
    while (script_next_frame(&script, &frame)) {
        (void)read_body(script_body(&frame), frame.head.kind);
        script_drop_frame(&frame);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (script_is_frames(data, size)) {
        read_input(script_begin(data, size));
        RBT_ASSERT(rbt_alloc_live() == 0);
        return 0;
    }
    struct recipe recipe = {.at = data, .left = size};
    uint64_t seed = 0;
    for (unsigned i = 0; i < sizeof seed && recipe.left > 0; i++, recipe.left--) {
        seed = seed << 8 | *recipe.at++;
    }
    rbt_rng_init(&recipe.rng, seed, 0, 0);
    for (unsigned i = 0; i < MESSAGES; i++) {
        const uint16_t kind = (uint16_t)(1 + below(&recipe, KINDS));
        const size_t bytes = build(&recipe, kind);
        RBT_ASSERT(bytes <= ROOM);
        rbt_wire_close(message, (struct rbt_frame){.kind = kind, .id = i}, bytes);
        read_copies(&recipe, bytes, COPIES);
    }
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
