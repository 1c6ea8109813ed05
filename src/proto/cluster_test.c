/* proto/cluster_test.c - members and the coordinator, the machines of both, over connections that
 * are cut at random moments: a server, two worker processes, and rounds that all of them gather.
 *
 * The test is the carrier: a connection is two queues of messages, and what happens next is drawn
 * from a seed. Both processes change the staleness of tables all the time. Whatever is cut, every
 * round is complete and the same for all; changes have one order; when a change was answered all
 * act on it, or on a later one; all end with the same; and everybody leaves. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "proto/bounds.h"
#include "proto/membership.h"
#include "proto/queue_rig.h"
#include "proto/roster_ports.h"

#define MS INT64_C(1000000)

enum { MEMBERS = 3, SERVER = 0, ROUNDS = 12, LINES_MAX = 512, SEEDS = 200 };
enum { BOUNDS_MAX = 256, TABLES = 3 };

/* A connection; its place is the coordinator's port. */
struct line {
    uint32_t member;
    bool is_made;
    bool is_cut;     /* what was under way is lost */
    bool has_member; /* this end has not heard of the end, nor brought it about */
    bool has_coordinator;
    struct queue to_coordinator;
    struct queue to_member;
};

struct node {
    struct rbt_membership m;
    struct rbt_membership_out out;
    struct line *line; /* or NULL */
    char part[32];
    uint64_t rounds;          /* complete */
    struct rbt_bounds bounds; /* that it acts on */
    bool is_telling;          /* and waits for the answer, of */
    struct rbt_bound told;    /* this one, whose staleness no other has */
    bool has_asked;           /* to leave */
};

struct cluster {
    rbt_roster_ports *ports;
    struct rbt_outbox out;
    struct node nodes[MEMBERS];
    struct line lines[LINES_MAX];
    uint32_t line_count;
    uint32_t cuts_left;
    struct rbt_bound order[BOUNDS_MAX]; /* by number, as far as anybody has heard */
    int64_t told;                       /* how many changes were told */
    rbt_time now;
    struct rbt_rng rng;
    bool has_ended;
    rbt_status status;
};

static uint64_t below(struct cluster *c, uint64_t limit)
{
    return rbt_rng_below(&c->rng, limit);
}

static void on_note(void *context, enum rbt_log_level level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
}

static void on_worker(void *context, uint32_t port)
{
    (void)context;
    (void)port;
}

static void on_end(void *context, rbt_status status, const char *text)
{
    struct cluster *c = context;
    c->has_ended = true;
    c->status = status;
    if (status != RBT_OK) {
        print_message("the coordinator: %s\n", text);
    }
}

static rbt_status draw(void *bytes, size_t size)
{
    memset(bytes, 7, size);
    return RBT_OK;
}

static void step_coordinator(struct cluster *c, const struct rbt_roster_ports_event *event)
{
    rbt_roster_ports_step(c->ports, event, c->now, &c->out);
    for (uint32_t i = 0; i < c->out.count; i++) {
        const struct rbt_out *item = &c->out.items[i];
        struct line *line = &c->lines[item->port];
        assert_true(line->has_coordinator);
        if (item->kind == RBT_OUT_CUT) {
            line->has_coordinator = false;
        } else if (line->is_cut || !line->has_member) {
            rbt_block_unref(item->block);
        } else {
            push(&line->to_member, item->block);
        }
    }
    rbt_outbox_clear(&c->out);
}

static void perform(struct cluster *c, struct node *node)
{
    for (uint32_t i = 0; i < node->out.port.count; i++) {
        const struct rbt_out *item = &node->out.port.items[i];
        if (item->kind == RBT_OUT_CONNECT) {
            assert_in_range(c->line_count, 0, LINES_MAX - 1);
            node->line = &c->lines[c->line_count++];
            *node->line = (struct line){
                .member = (uint32_t)(node - c->nodes), .has_member = true, .has_coordinator = true};
        } else if (item->kind == RBT_OUT_CUT) {
            node->line->has_member = false;
            node->line = NULL;
        } else if (node->line->is_cut || !node->line->has_coordinator) {
            rbt_block_unref(item->block);
        } else {
            push(&node->line->to_coordinator, item->block);
        }
    }
    rbt_membership_out_clear(&node->out);
}

/* The node acts on a change of the staleness; a number means the same to everybody. */
static void hear_bound(struct cluster *c, struct node *node, const struct rbt_membership_news *news)
{
    const struct rbt_bound bound = {
        .number = news->number, .table = news->bound.table, .staleness = news->bound.staleness};
    assert_in_range(bound.number, 1, BOUNDS_MAX - 1);
    struct rbt_bound *known = &c->order[bound.number];
    *known = known->number == 0 ? bound : *known;
    assert_int_equal(known->table, bound.table);
    assert_int_equal(known->staleness, bound.staleness);
    assert_ok(rbt_bounds_note(&node->bounds, &bound));
}

static void step_member(struct cluster *c, struct node *node,
                        const struct rbt_membership_event *event)
{
    rbt_membership_step(&node->m, event, c->now, &node->out);
    if (node->out.news.kind == RBT_MEMBERSHIP_NEW_BOUND) { /* before anything is sent */
        hear_bound(c, node, &node->out.news);
    }
    perform(c, node);
}

/* The round is complete: everybody's part is of this round. */
static void check_round(struct node *node, struct rbt_block *gathered)
{
    struct rbt_wire_cursor parts;
    uint32_t count;
    assert_ok(rbt_control_get_gathered(
        (struct rbt_wire_cursor){gathered->data, gathered->data + gathered->bytes}, &parts,
        &count));
    assert_int_equal(count, MEMBERS - 1);
    for (uint32_t i = 0; i < count; i++) {
        struct rbt_control_part part;
        char text[32];
        rbt_control_next_part(&parts, &part);
        (void)snprintf(text, sizeof text, "%u/%u", i, (unsigned)node->rounds);
        assert_int_equal(part.size, strlen(text));
        assert_memory_equal(part.bytes, text, part.size);
    }
    node->rounds++;
    rbt_block_unref(gathered);
}

static void tell_bound(struct cluster *c, struct node *node, bool is_awaited)
{
    const uint32_t table = (uint32_t)below(c, TABLES);
    struct rbt_membership_event event = {.kind = RBT_MEMBERSHIP_BOUND};
    event.bound.table = table == TABLES - 1 ? RBT_CONTROL_ALL : table;
    event.bound.staleness = ++c->told;
    event.bound.is_awaited = is_awaited;
    if (is_awaited) {
        node->is_telling = true;
        node->told =
            (struct rbt_bound){.table = event.bound.table, .staleness = event.bound.staleness};
    }
    step_member(c, node, &event);
}

/* A change was answered: all that are there act on it, or on a later one of the table. */
static void check_taken(struct cluster *c, struct node *node)
{
    uint64_t number = 0;
    for (uint64_t i = 1; i < BOUNDS_MAX; i++) {
        number = c->order[i].staleness == node->told.staleness ? i : number;
    }
    for (uint32_t n = 0; number > 0 && n < MEMBERS; n++) {
        const struct rbt_bounds *bounds = &c->nodes[n].bounds;
        bool has_it = rbt_membership_has_ended(&c->nodes[n].m) || c->nodes[n].has_asked;
        for (uint32_t i = 0; i < bounds->count; i++) {
            has_it = has_it || (bounds->list[i].table == node->told.table &&
                                bounds->list[i].number >= number);
        }
        assert_true(has_it);
    }
    node->is_telling = false;
}

/* What the process does as far as it can. */
static void work(struct cluster *c, struct node *node)
{
    if (!rbt_membership_has_plan(&node->m) || node->has_asked) {
        return;
    }
    assert_int_equal(node->m.failure, RBT_OK);
    struct rbt_block *gathered = rbt_membership_take_gathered(&node->m);
    if (gathered != NULL) {
        check_round(node, gathered);
    }
    const bool is_server = node == &c->nodes[SERVER];
    if (is_server ? rbt_membership_has_ended(&node->m) : node->rounds == ROUNDS) {
        node->has_asked = true;
        step_member(c, node, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_LEAVE});
    } else if (!is_server && node->is_telling) {
        if (!rbt_membership_is_telling(&node->m)) {
            check_taken(c, node);
        }
    } else if (!is_server && !rbt_membership_is_gathering(&node->m) && below(c, 3) > 0) {
        tell_bound(c, node, below(c, 3) > 0);
    } else if (!is_server && !rbt_membership_is_gathering(&node->m)) {
        const int size = snprintf(node->part, sizeof node->part, "%u/%u", node->m.plan.index,
                                  (unsigned)node->rounds);
        step_member(
            c, node,
            &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_GATHER,
                                           .part = {.bytes = node->part, .size = (size_t)size}});
    }
}

/* Something happens at the coordinator's end, if anything can. */
static bool move_to_coordinator(struct cluster *c, struct line *line)
{
    struct rbt_port_event event = {.port = (uint32_t)(line - c->lines)};
    struct rbt_block *block = NULL;
    if (!line->has_coordinator) {
        clear(&line->to_coordinator);
        return false;
    }
    if (line->to_coordinator.count > 0) {
        block = pop(&line->to_coordinator, &event);
    } else if (line->is_cut || !line->has_member) {
        line->has_coordinator = false;
        set_down(&event);
    } else {
        return false;
    }
    step_coordinator(
        c, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_PORT, .port = &event});
    rbt_block_unref(block);
    return true;
}

static bool move_to_member(struct cluster *c, struct line *line)
{
    struct rbt_port_event event = {.port = 0};
    struct node *node = &c->nodes[line->member];
    struct rbt_block *block = NULL;
    if (!line->has_member) {
        clear(&line->to_member);
        return false;
    }
    if (line->to_member.count > 0) {
        block = pop(&line->to_member, &event);
    } else if (line->is_cut || !line->has_coordinator) {
        line->has_member = false;
        node->line = NULL;
        set_down(&event);
    } else {
        return false;
    }
    step_member(c, node,
                &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_PORT, .port = &event});
    rbt_block_unref(block);
    return true;
}

static void make(struct cluster *c, struct line *line)
{
    const struct rbt_port_event event = {
        .kind = RBT_PORT_UP, .port = (uint32_t)(line - c->lines), .up = {.peer = "10.0.0.7:4711"}};
    const struct rbt_port_event own = {.kind = RBT_PORT_UP, .up = {.peer = "coordinator"}};
    line->is_made = true;
    step_coordinator(
        c, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_PORT, .port = &event});
    step_member(c, &c->nodes[line->member],
                &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_PORT, .port = &own});
}

/* One thing happens somewhere. False if nothing can before time passes. */
static bool move(struct cluster *c)
{
    const uint32_t first = c->line_count == 0 ? 0 : (uint32_t)below(c, c->line_count);
    for (uint32_t i = 0; i < c->line_count; i++) {
        struct line *line = &c->lines[(first + i) % c->line_count];
        if (!line->is_made) {
            make(c, line);
            return true;
        }
        const bool is_open = line->has_member && line->has_coordinator && !line->is_cut;
        if (is_open && c->cuts_left > 0 && below(c, 8) == 0) {
            c->cuts_left--;
            line->is_cut = true;
            clear(&line->to_coordinator);
            clear(&line->to_member);
            return true;
        }
        const bool is_member_first = below(c, 2) == 0;
        if ((is_member_first && move_to_member(c, line)) || move_to_coordinator(c, line) ||
            move_to_member(c, line)) {
            return true;
        }
    }
    return false;
}

/* Time goes on to where something is due. */
static void wait(struct cluster *c)
{
    rbt_time due = rbt_roster_ports_deadline(c->ports);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const rbt_time deadline = rbt_membership_deadline(&c->nodes[i].m);
        due = deadline < due ? deadline : due;
    }
    assert_int_not_equal(due, RBT_TIME_NEVER);
    c->now = due > c->now ? due : c->now;
    if (rbt_roster_ports_deadline(c->ports) <= c->now) {
        step_coordinator(c, &(struct rbt_roster_ports_event){.kind = RBT_ROSTER_PORTS_TIME});
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (rbt_membership_deadline(&c->nodes[i].m) <= c->now) {
            step_member(c, &c->nodes[i],
                        &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_TIME});
        }
    }
}

static void begin(struct cluster *c, uint64_t seed)
{
    static const char *const shards[] = {"unix:a"};
    memset(c, 0, sizeof *c);
    c->now = 1000 * MS;
    c->cuts_left = (uint32_t)(seed % 40);
    rbt_rng_init(&c->rng, seed, 0, 0);
    const struct rbt_roster_ports_options options = {.roster = {.cluster = 99,
                                                                .server_count = 1,
                                                                .is_once = true,
                                                                .start_timeout = 30000 * MS,
                                                                .silence_max = 10000 * MS,
                                                                .cut_max = 5000 * MS,
                                                                .draw = draw},
                                                     .context = c,
                                                     .note = on_note,
                                                     .on_worker = on_worker,
                                                     .on_end = on_end};
    assert_ok(rbt_roster_ports_create(&options, c->now, &c->ports));
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const struct rbt_membership_options member = {.coordinator = "coordinator",
                                                      .role = i == SERVER ? RBT_ROLE_SERVER
                                                                          : RBT_ROLE_WORKER,
                                                      .index = RBT_INDEX_ANY,
                                                      .start_timeout = 30000 * MS,
                                                      .silence_max = 10000 * MS,
                                                      .cut_max = 5000 * MS,
                                                      .shards = shards,
                                                      .shard_count = i == SERVER ? 1 : 0,
                                                      .space = i == SERVER ? "" : "main",
                                                      .worker_count = MEMBERS - 1,
                                                      .thread_count = 1,
                                                      .token = i + 1,
                                                      .host = "host"};
        rbt_membership_init(&c->nodes[i].m, &member, c->now);
    }
}

static void finish(struct cluster *c)
{
    for (uint32_t i = 0; i < c->line_count; i++) {
        clear(&c->lines[i].to_coordinator);
        clear(&c->lines[i].to_member);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        rbt_membership_deinit(&c->nodes[i].m);
        rbt_outbox_deinit(&c->nodes[i].out.port);
        rbt_bounds_deinit(&c->nodes[i].bounds);
    }
    rbt_outbox_deinit(&c->out);
    rbt_roster_ports_destroy(c->ports);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
}

static bool have_all_left(const struct cluster *c)
{
    bool have_left = c->has_ended;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        have_left = have_left && rbt_membership_has_left(&c->nodes[i].m);
    }
    return have_left;
}

/* Whoever has told what, all act on the same in the end. What nobody has waited for may be missing
 * from those who have left before. */
static void check_same(const struct cluster *c)
{
    const struct rbt_bounds *one = &c->nodes[1].bounds;
    const struct rbt_bounds *other = &c->nodes[2].bounds;
    for (uint32_t table = 0; table + 1 < TABLES && one->last == other->last; table++) {
        assert_int_equal(rbt_bounds_find(one, table, true, -1),
                         rbt_bounds_find(other, table, true, -1));
        assert_int_equal(rbt_bounds_find(one, table, false, -1),
                         rbt_bounds_find(other, table, false, -1));
    }
}

static void whatever_is_cut_the_work_is_done(void **state)
{
    static struct cluster c;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        begin(&c, seed);
        for (int i = 0; !have_all_left(&c); i++) {
            assert_in_range(i, 0, 100000);
            if (!move(&c)) {
                wait(&c);
            }
            for (uint32_t n = 0; n < MEMBERS; n++) {
                work(&c, &c.nodes[n]);
            }
        }
        assert_int_equal(c.status, RBT_OK);
        assert_int_equal(c.nodes[1].rounds, ROUNDS);
        assert_int_equal(c.nodes[2].rounds, ROUNDS);
        check_same(&c);
        finish(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_cut_the_work_is_done),
    };
    return cmocka_run_group_tests_name("proto/cluster", tests, NULL, NULL);
}
