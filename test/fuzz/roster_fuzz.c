/* test/fuzz/roster_fuzz.c - the coordinator's roster survives whatever processes say, in whatever
 * order, and however long they are silent.
 *
 * An input is a recipe for a history: servers and workers of several jobs join, come back, gather,
 * tell bounds and versions, are cut off, leave or are lost. Messages go through their bytes, some
 * of which are damaged. What the roster wants done must make sense: it is about peers that are
 * there, and can be written as messages. */
#include <stdio.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/recipe.h"
#include "proto/roster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)

enum { STEPS = 120, PEERS = 64, ROOM = 1 << 16, TOKENS = 12 };

struct history {
    struct recipe recipe;
    rbt_roster *roster;
    struct rbt_roster_outbox out;
    rbt_time now;
    bool is_there[RBT_ROSTER_PEERS_MAX];
    uint64_t job; /* the last that was started */
    bool has_ended;
};

static _Alignas(8) char message[ROOM];
static struct rbt_control_part parts[RBT_CONTROL_PARTS_MAX];

/* What secrets are made of; here anything that differs. */
static rbt_status draw_bytes(void *bytes, size_t size)
{
    static uint64_t last;
    last++;
    memset(bytes, 1, size);
    memcpy(bytes, &last, size < sizeof last ? size : sizeof last);
    return RBT_OK;
}

/* Writes what would be sent. */
static void write_effect(const struct history *history, const struct rbt_roster_effect *effect)
{
    struct rbt_control_plan plan;
    size_t bytes = 0;
    if (effect->kind == RBT_ROSTER_PLAN) {
        rbt_roster_plan(history->roster, effect->peer, &plan);
        bytes = rbt_control_put_plan(NULL, &plan);
        RBT_ASSERT(bytes <= ROOM && rbt_control_put_plan(message, &plan) == bytes);
    } else if (effect->kind == RBT_ROSTER_GATHERED) {
        const uint32_t count = rbt_roster_parts(history->roster, effect->job, parts);
        RBT_ASSERT(count > 0 && count <= RBT_CONTROL_PARTS_MAX);
        bytes = rbt_control_put_gathered(NULL, effect->number, parts, count);
        RBT_ASSERT(bytes <= ROOM);
        RBT_ASSERT(rbt_control_put_gathered(message, effect->number, parts, count) == bytes);
    } else if (effect->kind == RBT_ROSTER_FAILED) {
        bytes = rbt_control_put_ending(NULL, RBT_FRAME_FAILED, effect->status, effect->text);
        RBT_ASSERT(bytes <= ROOM);
    }
}

/* Does what the roster wants done. */
static void perform(struct history *history)
{
    RBT_ASSERT(!history->out.has_failed);
    for (size_t i = 0; i < history->out.count; i++) {
        const struct rbt_roster_effect *effect = &history->out.effects[i];
        char node[RBT_ROSTER_NODE_MAX];
        if (effect->kind == RBT_ROSTER_STARTED) {
            history->job = effect->job;
        } else if (effect->kind == RBT_ROSTER_END) {
            history->has_ended = true;
        } else if (effect->kind != RBT_ROSTER_ENDED) {
            RBT_ASSERT(effect->peer < RBT_ROSTER_PEERS_MAX);
            RBT_ASSERT(rbt_roster_node(history->roster, effect->peer, node)[0] != '\0');
            write_effect(history, effect);
        }
        if (effect->kind == RBT_ROSTER_LOST || effect->kind == RBT_ROSTER_GOODBYE) {
            history->is_there[effect->peer] = false;
        }
    }
    history->out.count = 0;
}

static void join(struct history *history)
{
    static const char *const shards[] = {"unix:a", "10.0.0.1:7000", "[::1]:1"};
    struct recipe *recipe = &history->recipe;
    struct rbt_control_join join = {.token = 1 + recipe_below(recipe, TOKENS),
                                    .is_return = recipe_once_in(recipe, 4),
                                    .role = recipe_once_in(recipe, 3) ? RBT_ROLE_SERVER
                                                                      : RBT_ROLE_WORKER,
                                    .index = (int32_t)recipe_below(recipe, 4) - 1,
                                    .pid = 1234};
    (void)snprintf(join.host, sizeof join.host, "host"); /* fits */
    if (join.role == RBT_ROLE_SERVER) {
        join.shards.count = 1 + (uint32_t)recipe_below(recipe, 3);
        join.shards.texts = shards;
    } else {
        join.worker_count = 1 + (uint32_t)recipe_below(recipe, 3);
        join.thread_count = 1 + (uint32_t)recipe_below(recipe, join.worker_count);
        (void)snprintf(join.space, sizeof join.space, "s%d", (int)recipe_below(recipe, 3));
        memset(&join.permit, (int)recipe_below(recipe, 8) / 6, sizeof join.permit);
    }
    if (join.role == RBT_ROLE_WORKER && recipe_once_in(recipe, 6)) {
        join.role = RBT_ROLE_READER;
    }
    const size_t bytes = rbt_control_put_join(message, &join);
    RBT_ASSERT(bytes <= ROOM);
    if (recipe_once_in(recipe, 8)) {
        recipe_damage(recipe, message + RBT_FRAME_HEADER, bytes - RBT_FRAME_HEADER);
    }
    const struct rbt_wire_cursor body = {message + RBT_FRAME_HEADER, message + bytes};
    struct rbt_control_join read;
    uint32_t peer = RBT_ROSTER_NOBODY;
    if (rbt_control_get_join(body, &read) != RBT_OK) {
        return;
    }
    if (rbt_roster_join(history->roster, &read, history->now, &history->out, &peer) == RBT_OK) {
        RBT_ASSERT(peer < RBT_ROSTER_PEERS_MAX);
        history->is_there[peer] = true;
    } else {
        RBT_ASSERT(rbt_last_error()[0] != '\0');
    }
}

/* One of those who are there, or RBT_ROSTER_NOBODY. */
static uint32_t choose(struct history *history)
{
    const uint32_t first = (uint32_t)recipe_below(&history->recipe, PEERS);
    for (uint32_t i = 0; i < PEERS; i++) {
        if (history->is_there[(first + i) % PEERS]) {
            return (first + i) % PEERS;
        }
    }
    return RBT_ROSTER_NOBODY;
}

/* What the driver does with somebody who may not say what it said. */
static void judge(struct history *history, uint32_t peer, rbt_status st)
{
    if (st != RBT_OK && history->is_there[peer]) {
        rbt_roster_cut(history->roster, peer, history->now);
    }
}

static void speak(struct history *history, uint32_t peer)
{
    struct recipe *recipe = &history->recipe;
    const uint64_t number = recipe_below(recipe, 6) - (recipe_once_in(recipe, 20) ? 4 : 0);
    const uint64_t what = recipe_below(recipe, 8);
    rbt_roster_hear(history->roster, peer, history->now);
    if (what < 3) {
        static char bytes[64];
        const struct rbt_control_part part = {bytes, (size_t)recipe_below(recipe, sizeof bytes)};
        judge(history, peer,
              rbt_roster_gather(history->roster, peer, number, &part, &history->out));
    } else if (what == 3) {
        const struct rbt_control_bound bound = {.job = history->job - recipe_once_in(recipe, 9),
                                                .table = (uint32_t)recipe_below(recipe, 3),
                                                .staleness = (int64_t)recipe_below(recipe, 4)};
        judge(history, peer,
              recipe_once_in(recipe, 2)
                  ? rbt_roster_bound(history->roster, peer, number, &bound, &history->out)
                  : rbt_roster_taken(history->roster, peer, bound.job, number, &history->out));
    } else if (what < 6) {
        const struct rbt_control_version version = {
            .table = (uint32_t)recipe_below(recipe, RBT_CONTROL_TABLES_MAX),
            .version = recipe_below(recipe, 9)};
        judge(history, peer,
              rbt_roster_version(history->roster, peer, history->job - recipe_once_in(recipe, 9),
                                 &version, &history->out));
    } else if (what == 6) {
        rbt_roster_cut(history->roster, peer, history->now);
    } else {
        struct rbt_control_ending ending = {.status =
                                                recipe_once_in(recipe, 3) ? RBT_E_DATA : RBT_OK};
        (void)snprintf(ending.text, sizeof ending.text, "because"); /* fits */
        rbt_roster_leave(history->roster, peer, &ending, history->now, &history->out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct history history = {.recipe = recipe_begin(data, size), .now = 1000 * MS};
    const struct rbt_roster_options options = {.cluster = 99,
                                               .server_count =
                                                   1 + (uint32_t)recipe_below(&history.recipe, 2),
                                               .is_once = recipe_once_in(&history.recipe, 2),
                                               .start_timeout = 30000 * MS,
                                               .silence_max = 10000 * MS,
                                               .cut_max = 3000 * MS,
                                               .draw = draw_bytes};
    RBT_ASSERT(rbt_roster_create(&options, history.now, &history.roster) == RBT_OK);
    for (int step = 0; step < STEPS && !history.has_ended; step++) {
        const uint32_t peer = choose(&history);
        if (peer == RBT_ROSTER_NOBODY || recipe_once_in(&history.recipe, 3)) {
            join(&history);
        } else {
            speak(&history, peer);
        }
        perform(&history);
        history.now += (rbt_time)recipe_below(&history.recipe, 1500) * MS;
        if (recipe_once_in(&history.recipe, 2)) {
            rbt_roster_expire(history.roster, history.now, &history.out);
        }
        if (recipe_once_in(&history.recipe, 100)) {
            rbt_roster_stop(history.roster, "it was told to", history.now, &history.out);
        }
        perform(&history);
    }
    rbt_roster_outbox_deinit(&history.out);
    rbt_roster_destroy(history.roster);
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
