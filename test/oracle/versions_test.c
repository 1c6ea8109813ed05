/* oracle/versions_test.c - which reads updates name, and what shards are told about the others,
 * seen at the border between the client library and its driver.
 *
 * A driver in front of the embedded one writes down what passes, hides the rule from the shards,
 * and answers pulls with the stamps that a test wants. One worker, so that nothing here is shared.
 */
#include "base/test.h"

#include <string.h>

#include "client/client.h"
#include "oracle/rig.h"

enum { SHARDS = 2, NOTES_MAX = 64, BATCHES_MAX = 8 };

struct note {
    enum rbt_shard_kind kind;
    uint32_t shard;
    bool is_ask;
    bool has_stamp;
    bool is_base;
    uint64_t sequence;
    uint64_t least;
    size_t batch_count;
    size_t rows[BATCHES_MAX];
    uint64_t bases[BATCHES_MAX];
    uint64_t leasts[BATCHES_MAX];
    float first[BATCHES_MAX]; /* the first value of each */
};

struct spy {
    rbt_driver driver; /* first: a driver is a spy */
    struct rbt_driver_ops ops;
    rbt_driver *inner;
    uint64_t stamps[SHARDS]; /* what pulls are answered with */
    struct note notes[NOTES_MAX];
    size_t count;
};

static struct spy *spy_of(rbt_driver *driver)
{
    return (struct spy *)driver;
}

static void write_down(struct spy *spy, const struct rbt_driver_call *call, bool is_ask)
{
    const struct rbt_shard_event *event = &call->event;
    if (event->kind != RBT_SHARD_PULL && event->kind != RBT_SHARD_PUSH) {
        return;
    }
    struct note *note = &spy->notes[spy->count++ % NOTES_MAX];
    *note = (struct note){.kind = event->kind,
                          .shard = call->shard,
                          .is_ask = is_ask,
                          .has_stamp = event->stamp != NULL,
                          .is_base = event->is_base,
                          .sequence = event->sequence,
                          .least = event->least,
                          .batch_count = event->batch_count};
    for (size_t i = 0; i < event->batch_count && i < BATCHES_MAX; i++) {
        const struct rbt_batch *batch = &event->batches[i];
        note->rows[i] = batch->count;
        note->bases[i] = batch->base;
        note->leasts[i] = batch->least;
        note->first[i] =
            batch->count == 0 ? 0 : ((const float *)batch->values)[rbt_batch_position(batch, 0)];
    }
}

static void step(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    struct spy *spy = spy_of(driver);
    struct rbt_spec plain;
    for (size_t i = 0; i < count; i++) {
        write_down(spy, &calls[i], false);
        if (calls[i].event.kind == RBT_SHARD_TABLE) { /* its stamps are not ours */
            plain = *calls[i].event.spec;
            plain.rule[0] = '\0';
            plain.code = NULL;
            calls[i].event.spec = &plain;
        }
    }
    spy->inner->ops->step(spy->inner, calls, count);
    for (size_t i = 0; i < count; i++) {
        if (calls[i].event.kind == RBT_SHARD_PULL && calls[i].event.stamp != NULL) {
            *calls[i].event.stamp = spy->stamps[calls[i].shard];
        }
    }
}

static void ask(rbt_driver *driver, struct rbt_driver_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        write_down(spy_of(driver), &calls[i], true);
    }
}

static bool has_answer(rbt_driver *driver, uint32_t worker, uint64_t asked)
{
    (void)driver;
    (void)worker;
    (void)asked;
    return false; /* so that only rbt_ticket_wait() takes it */
}

static void forget(rbt_driver *driver, uint32_t worker, uint64_t asked)
{
    (void)driver;
    (void)worker;
    (void)asked;
}

static int64_t floor_of(rbt_driver *driver, uint32_t shard)
{
    return spy_of(driver)->inner->ops->floor(spy_of(driver)->inner, shard);
}

static uint64_t version_of(rbt_driver *driver, uint32_t shard)
{
    return spy_of(driver)->inner->ops->version(spy_of(driver)->inner, shard);
}

static rbt_status run(rbt_driver *driver, rbt_status (*function)(void *argument, uint32_t index),
                      void *argument)
{
    return spy_of(driver)->inner->ops->run(spy_of(driver)->inner, function, argument);
}

static rbt_time now(rbt_driver *driver)
{
    return spy_of(driver)->inner->ops->now(spy_of(driver)->inner);
}

/* A job of one worker that is spied on, and its table. */
struct scene {
    struct spy spy;
    rbt_job *job;
    rbt_table *table;
};

static void open_scene(struct scene *scene, struct rbt_table_options options)
{
    struct spy *spy = &scene->spy;
    *scene = (struct scene){.job = rig_job(1, SHARDS, "essp:2")};
    spy->inner = scene->job->driver;
    spy->driver = *spy->inner;
    spy->ops = (struct rbt_driver_ops){.step = step,
                                       .ask = ask,
                                       .has_answer = has_answer,
                                       .forget = forget,
                                       .floor = floor_of,
                                       .version = version_of,
                                       .run = run,
                                       .now = now};
    spy->driver.ops = &spy->ops;
    scene->job->driver = &spy->driver;
    options.placement = RBT_PLACE_ROUND_ROBIN; /* key k is in shard k % 2 */
    scene->table = rig_table(scene->job, "weights", options);
}

static void close_scene(struct scene *scene)
{
    scene->job->driver = scene->spy.inner;
    rbt_job_close(scene->job);
}

static const struct rbt_table_options with_rule = {.rule = "add"};

/* The last note of that kind about that shard. */
static const struct note *last(const struct spy *spy, enum rbt_shard_kind kind, uint32_t shard)
{
    static const struct note none;
    for (size_t i = spy->count; i > 0 && spy->count - i < NOTES_MAX; i--) {
        const struct note *note = &spy->notes[(i - 1) % NOTES_MAX];
        if (note->kind == kind && note->shard == shard) {
            return note;
        }
    }
    return &none;
}

static rbt_status push(rbt_set *set, float amount)
{
    float *deltas = rbt_set_deltas(set);
    for (size_t i = 0; i < rbt_set_count(set); i++) {
        deltas[i] = amount;
    }
    return rbt_set_push(set);
}

static void answer_with(struct spy *spy, uint64_t first, uint64_t second)
{
    spy->stamps[0] = first;
    spy->stamps[1] = second;
}

static size_t unsent_count(const rbt_worker *worker, const rbt_table *table)
{
    return worker->locals[table->spec.number]->buffer.unsent_count;
}

static rbt_status use_one_set(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct spy *spy = &scene->spy;
    const uint64_t keys[] = {0, 1};
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 2, RBT_SET_DELTAS, &set));
    answer_with(spy, 3, 4);
    TRY(rbt_set_pull(set));
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        const struct note *pull = last(spy, RBT_SHARD_PULL, shard);
        CHECK(pull->is_base);
        CHECK(pull->sequence == 0);
        CHECK(pull->least == RBT_STAMP_NONE);
    }
    TRY(push(set, 1));
    TRY(rbt_clock(worker));
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        const struct note *sent = last(spy, RBT_SHARD_PUSH, shard);
        CHECK(sent->batch_count == 1);
        CHECK(sent->bases[0] == spy->stamps[shard]);
        CHECK(sent->leasts[0] == spy->stamps[shard]); /* the set still has that copy */
    }
    answer_with(spy, 7, 9);
    TRY(rbt_set_pull(set));
    CHECK(last(spy, RBT_SHARD_PULL, 0)->sequence == 1);
    CHECK(last(spy, RBT_SHARD_PULL, 0)->least == RBT_STAMP_NONE); /* it is replaced */
    rbt_set_destroy(set);
    return RBT_OK;
}

static void an_update_names_the_pull_of_its_set(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, with_rule);
    rig_run(scene.job, use_one_set, &scene);
    close_scene(&scene);
}

static rbt_status refresh_mid_clock(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct spy *spy = &scene->spy;
    const uint64_t keys[] = {0, 1};
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 2, RBT_SET_DELTAS, &set));
    answer_with(spy, 7, 9);
    TRY(rbt_set_pull(set));
    TRY(push(set, 1));
    TRY(rbt_set_pull(set)); /* nothing has changed */
    TRY(push(set, 2));
    CHECK(unsent_count(worker, scene->table) == 1);
    answer_with(spy, 8, 9);
    TRY(rbt_set_pull(set));
    CHECK(last(spy, RBT_SHARD_PULL, 0)->least == 7); /* what waits to be sent names it */
    CHECK(last(spy, RBT_SHARD_PULL, 1)->least == 9);
    TRY(push(set, 4));
    TRY(push(set, 8));
    CHECK(unsent_count(worker, scene->table) == 2);
    TRY(rbt_clock(worker));
    const struct note *sent = last(spy, RBT_SHARD_PUSH, 0);
    CHECK(sent->batch_count == 2);
    CHECK(sent->bases[0] == 7);
    CHECK(sent->first[0] == 3);
    CHECK(sent->leasts[0] == 8);
    CHECK(sent->bases[1] == 8);
    CHECK(sent->first[1] == 12);
    CHECK(sent->leasts[1] == 8);
    rbt_set_destroy(set);
    return RBT_OK;
}

static void updates_of_different_reads_stay_apart_and_of_one_read_are_summed(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, with_rule);
    rig_run(scene.job, refresh_mid_clock, &scene);
    close_scene(&scene);
}

static rbt_status send_in_order(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct spy *spy = &scene->spy;
    const uint64_t key = 0;
    rbt_set *old = NULL;
    rbt_set *new = NULL;
    TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &old));
    TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &new));
    answer_with(spy, 3, 0);
    TRY(rbt_set_pull(old));
    answer_with(spy, 5, 0);
    TRY(rbt_set_pull(new));
    CHECK(last(spy, RBT_SHARD_PULL, 0)->least == 3); /* the other set's */
    TRY(push(new, 1));
    TRY(push(old, 1));
    answer_with(spy, 6, 0);
    TRY(rbt_set_pull(old));
    TRY(rbt_clock(worker));
    const struct note *sent = last(spy, RBT_SHARD_PUSH, 0);
    CHECK(sent->bases[0] == 3); /* in the order of reads */
    CHECK(sent->leasts[0] == 5);
    CHECK(sent->bases[1] == 5);
    CHECK(sent->leasts[1] == 5);
    rbt_set_destroy(new);
    TRY(push(old, 1));
    TRY(rbt_clock(worker));
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->leasts[0] == 6);
    rbt_set_destroy(old);
    return RBT_OK;
}

static void shards_are_told_the_lowest_read_that_a_set_still_has(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, with_rule);
    rig_run(scene.job, send_in_order, &scene);
    close_scene(&scene);
}

static rbt_status push_in_turn(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct spy *spy = &scene->spy;
    const uint64_t keys[] = {0, 2, 4};
    rbt_set *sets[3] = {NULL};
    for (size_t i = 0; i < 3; i++) {
        TRY(rbt_set_create(worker, scene->table, &keys[i], 1, RBT_SET_DELTAS, &sets[i]));
        answer_with(spy, i == 1 ? 5 : 3, 0); /* the last answer was longer on its way */
        TRY(rbt_set_pull(sets[i]));
    }
    for (size_t i = 0; i < 3; i++) {
        TRY(push(sets[i], (float)i + 1));
    }
    TRY(rbt_clock(worker));
    const struct note *sent = last(spy, RBT_SHARD_PUSH, 0);
    const uint64_t bases[] = {3, 3, 5};
    const float firsts[] = {1, 3, 2};
    CHECK(sent->batch_count == 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK(sent->bases[i] == bases[i]);
        CHECK(sent->leasts[i] == 3);
        CHECK(sent->first[i] == firsts[i]);
        rbt_set_destroy(sets[i]);
    }
    return RBT_OK;
}

/* What is computed from one read is one message to the rule, whatever was pushed in between. */
static void updates_of_one_read_are_sent_side_by_side(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, with_rule);
    rig_run(scene.job, push_in_turn, &scene);
    close_scene(&scene);
}

static rbt_status push_nothing_there(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct spy *spy = &scene->spy;
    const uint64_t keys[] = {0, 2};
    float values[] = {1, 1};
    const struct rbt_rows rows = {.keys = (uint64_t[]){0, 2}, .values = values, .count = 2};
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, keys, 2, RBT_SET_DELTAS, &set));
    TRY(push(set, 1)); /* of rows never read */
    TRY(rbt_clock(worker));
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->bases[0] == 0);
    CHECK(last(spy, RBT_SHARD_PUSH, 1)->batch_count == 1); /* a message all the same */
    CHECK(last(spy, RBT_SHARD_PUSH, 1)->rows[0] == 0);
    CHECK(last(spy, RBT_SHARD_PUSH, 1)->leasts[0] == RBT_STAMP_NONE);
    answer_with(spy, 4, 0);
    TRY(rbt_pull(worker, scene->table, &rows));
    TRY(rbt_push(worker, scene->table, &rows));
    TRY(push(set, 1));
    TRY(rbt_clock(worker));
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->bases[0] == 4); /* the newest read */
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->bases[1] == 4);
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->leasts[1] == 4); /* lists may name it again */
    answer_with(spy, 5, 0);
    TRY(rbt_set_pull(set));
    answer_with(spy, 6, 0);
    TRY(rbt_pull(worker, scene->table, &rows));
    TRY(rbt_set_push_range(set, RBT_RANGE_ALL));
    TRY(rbt_clock(worker));
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->bases[0] == 5); /* its own pull, not the newest */
    rbt_set_destroy(set);
    rbt_ticket ticket = 0;
    TRY(rbt_set_create(worker, scene->table, keys, 2, RBT_SET_DELTAS, &set));
    TRY(rbt_set_pull_async(set, NULL, &ticket));
    CHECK(last(spy, RBT_SHARD_PULL, 0)->least == 6); /* lists may name it until it has come */
    TRY(rbt_ticket_wait(worker, ticket));
    rbt_set_destroy(set);
    return RBT_OK;
}

static void what_was_never_read_names_the_newest_read(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, with_rule);
    rig_run(scene.job, push_nothing_there, &scene);
    close_scene(&scene);
}

static rbt_status ask_ahead(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct spy *spy = &scene->spy;
    uint64_t key = 0;
    float value = 0;
    const struct rbt_rows rows = {.keys = &key, .values = &value, .count = 1};
    rbt_ticket ticket = 0;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, scene->table, &key, 1, RBT_SET_DELTAS, &set));
    answer_with(spy, 3, 0);
    TRY(rbt_set_pull(set));
    TRY(push(set, 1));
    TRY(rbt_clock(worker));
    answer_with(spy, 4, 0);
    TRY(rbt_pull(worker, scene->table, &rows)); /* another read, which is newer */
    answer_with(spy, 5, 0);
    TRY(rbt_set_pull_async(set, NULL, &ticket));
    CHECK(last(spy, RBT_SHARD_PULL, 0)->is_ask);
    CHECK(last(spy, RBT_SHARD_PULL, 0)->sequence == 1);
    CHECK(last(spy, RBT_SHARD_PULL, 0)->least == 3); /* until it is taken */
    TRY(rbt_ticket_wait(worker, ticket));
    TRY(push(set, 1));
    TRY(rbt_clock(worker));
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->bases[0] == 5);
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->leasts[0] == 5);
    rbt_set_destroy(set);
    TRY(rbt_worker_leave(worker));
    float row = 0;
    TRY(rbt_get(worker, scene->table, key, &row));
    CHECK(!last(spy, RBT_SHARD_PULL, 0)->is_base); /* who has left updates nothing */
    return RBT_OK;
}

static void a_pull_asked_ahead_leaves_the_old_copy_in_use(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, with_rule);
    rig_run(scene.job, ask_ahead, &scene);
    close_scene(&scene);
}

static rbt_status use_rows(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct spy *spy = &scene->spy;
    const float one = 1;
    float row = 0;
    answer_with(spy, 5, 1);
    TRY(rbt_get(worker, scene->table, 0, &row));
    answer_with(spy, 2, 1); /* a copy that was longer on its way */
    TRY(rbt_get(worker, scene->table, 2, &row));
    TRY(rbt_get(worker, scene->table, 1, &row));
    for (uint64_t key = 0; key < 3; key++) {
        TRY(rbt_add(worker, scene->table, key, &one));
    }
    TRY(rbt_clock(worker));
    const struct note *sent = last(spy, RBT_SHARD_PUSH, 0);
    CHECK(sent->batch_count == 2);
    CHECK(sent->bases[0] == 2);
    CHECK(sent->bases[1] == 5);
    CHECK(sent->leasts[0] == 2); /* the cache has both */
    CHECK(sent->leasts[1] == 2);
    CHECK(last(spy, RBT_SHARD_PUSH, 1)->rows[0] == 1);
    CHECK(last(spy, RBT_SHARD_PUSH, 1)->rows[1] == 0);

    TRY(rbt_add(worker, scene->table, 0, &one));
    answer_with(spy, 5, 1);
    TRY(rbt_get(worker, scene->table, 0, &row)); /* nothing has changed */
    CHECK(unsent_count(worker, scene->table) == 0);
    TRY(rbt_add(worker, scene->table, 0, &one));
    answer_with(spy, 8, 1);
    TRY(rbt_get(worker, scene->table, 2, &row)); /* not updated: nothing to keep apart */
    CHECK(last(spy, RBT_SHARD_PULL, 0)->least == 5);
    CHECK(unsent_count(worker, scene->table) == 0);
    TRY(rbt_get(worker, scene->table, 0, &row));
    CHECK(last(spy, RBT_SHARD_PULL, 0)->least == 5); /* its own updates name it */
    CHECK(unsent_count(worker, scene->table) == 1);
    TRY(rbt_add(worker, scene->table, 0, &one));
    TRY(rbt_clock(worker));
    sent = last(spy, RBT_SHARD_PUSH, 0);
    CHECK(sent->batch_count == 2);
    CHECK(sent->bases[0] == 5);
    CHECK(sent->first[0] == 2);
    CHECK(sent->bases[1] == 8);
    CHECK(sent->first[1] == 1);
    CHECK(sent->leasts[1] == 8);
    return RBT_OK;
}

static void rows_name_the_read_that_brought_them(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, (struct rbt_table_options){.rule = "add", .cache = RBT_CACHE_NONE});
    rig_run(scene.job, use_rows, &scene);
    close_scene(&scene);
}

static rbt_status use_few_rows(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    struct spy *spy = &scene->spy;
    const float one = 1;
    float row = 0;
    answer_with(spy, 2, 0);
    TRY(rbt_get(worker, scene->table, 0, &row));
    answer_with(spy, 4, 0);
    TRY(rbt_get(worker, scene->table, 2, &row)); /* the cache starts again */
    TRY(rbt_add(worker, scene->table, 2, &one));
    TRY(rbt_clock(worker));
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->bases[0] == 4);
    CHECK(last(spy, RBT_SHARD_PUSH, 0)->leasts[0] == 4);
    return RBT_OK;
}

static void a_row_that_the_cache_forgets_is_named_no_more(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, (struct rbt_table_options){.rule = "add", .cache_rows = 1});
    rig_run(scene.job, use_few_rows, &scene);
    close_scene(&scene);
}

static rbt_status use_no_rule(rbt_worker *worker, void *argument)
{
    struct scene *scene = argument;
    const float one = 1;
    float row = 0;
    TRY(rbt_get(worker, scene->table, 0, &row));
    TRY(rbt_add(worker, scene->table, 0, &one));
    TRY(rbt_clock(worker));
    CHECK(!last(&scene->spy, RBT_SHARD_PULL, 0)->has_stamp);
    CHECK(!last(&scene->spy, RBT_SHARD_PULL, 0)->is_base);
    CHECK(worker->locals[scene->table->spec.number]->stamps == NULL);
    return RBT_OK;
}

static void tables_without_a_rule_have_no_stamps(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, (struct rbt_table_options){0});
    rig_run(scene.job, use_no_rule, &scene);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_names_the_pull_of_its_set),
        cmocka_unit_test(updates_of_different_reads_stay_apart_and_of_one_read_are_summed),
        cmocka_unit_test(shards_are_told_the_lowest_read_that_a_set_still_has),
        cmocka_unit_test(updates_of_one_read_are_sent_side_by_side),
        cmocka_unit_test(what_was_never_read_names_the_newest_read),
        cmocka_unit_test(a_pull_asked_ahead_leaves_the_old_copy_in_use),
        cmocka_unit_test(rows_name_the_read_that_brought_them),
        cmocka_unit_test(a_row_that_the_cache_forgets_is_named_no_more),
        cmocka_unit_test(tables_without_a_rule_have_no_stamps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
