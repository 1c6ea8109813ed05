/* test/fuzz/member_fuzz.c - a member survives whatever a coordinator says to it.
 *
 * A thread plays the coordinator: on the first connection it says a plan and more, some of it
 * damaged; on every further one that the job has failed, so that nothing waits for long. Joining,
 * gathering and leaving may fail with a sentence; nothing may break an assertion or leak. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rubato/status.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/block.h"
#include "fuzz/recipe.h"
#include "net/address.h"
#include "net/member.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MS INT64_C(1000000)

enum { ROOM = 1 << 15, MESSAGES = 10, LOOK_MS = 2 };

static char folder[64];
static char address[128];
static int listener = -1;
static _Alignas(8) char script[ROOM];
static size_t script_bytes;
static _Alignas(8) char ending[ROOM];
static size_t ending_bytes;
static atomic_bool is_done;

static void clean_up(void)
{
    (void)close(listener);
    (void)unlink(address + strlen("unix:"));
    (void)rmdir(folder);
}

static void begin(void)
{
    char actual[RBT_ADDRESS_MAX];
    (void)snprintf(folder, sizeof folder, "/tmp/rubato-member-XXXXXX"); /* fits */
    RBT_ASSERT(mkdtemp(folder) != NULL);
    (void)snprintf(address, sizeof address, "unix:%s/c", folder); /* the same */
    RBT_ASSERT(rbt_address_listen(address, actual, &listener) == RBT_OK);
    RBT_ASSERT(atexit(clean_up) == 0);
    ending_bytes = rbt_control_put_ending(ending, RBT_FRAME_FAILED, RBT_E_DATA, "it is over");
}

/* Says what the script says once, and then that all is over. */
static void *coordinate(void *argument)
{
    int line = -1;
    int connections = 0;
    char heard[4096];
    (void)argument;
    while (!atomic_load(&is_done)) {
        struct pollfd polls[2] = {{.fd = listener, .events = POLLIN},
                                  {.fd = line, .events = POLLIN}};
        (void)poll(polls, 2, LOOK_MS); /* it looks again, whatever this says */
        int next = -1;
        if (rbt_address_accept(listener, &next) == RBT_OK) {
            if (line >= 0) {
                (void)close(line);
            }
            line = next;
            const bool is_first = connections++ == 0;
            (void)!send(line, is_first ? script : ending, is_first ? script_bytes : ending_bytes,
                        MSG_NOSIGNAL | MSG_DONTWAIT); /* who has hung up comes again */
        }
        const ssize_t got = line < 0 ? 0 : recv(line, heard, sizeof heard, MSG_DONTWAIT);
        if (got > 0) { /* a gathering or a goodbye: it is answered with the end */
            (void)!send(line, ending, connections > 1 ? ending_bytes : 0, MSG_NOSIGNAL);
        } else if (got == 0 && line >= 0) {
            (void)close(line);
            line = -1;
        }
    }
    if (line >= 0) {
        (void)close(line);
    }
    return NULL;
}

static size_t put_plan(struct recipe *recipe, char *to)
{
    static const char *const shards[] = {"unix:a", "127.0.0.1:7000"};
    struct rbt_control_plan plan = {.cluster = 9,
                                    .job = 1 + recipe_below(recipe, 3),
                                    .process_count = 1,
                                    .worker_count = 2,
                                    .thread_count = 2,
                                    .process_size = 2,
                                    .map_version = 1};
    plan.shards.count = 1 + (uint32_t)recipe_below(recipe, 2);
    plan.shards.texts = shards;
    memset(&plan.secret, 1, sizeof plan.secret);
    return rbt_control_put_plan(to, &plan);
}

/* One message of a coordinator, at `to`. */
static size_t put_message(struct recipe *recipe, char *to)
{
    const struct rbt_control_part part = {"bytes", (size_t)recipe_below(recipe, 6)};
    const struct rbt_control_version version = {.table = (uint32_t)recipe_below(recipe, 4),
                                                .version = recipe_below(recipe, 9)};
    const struct rbt_control_bound bound = {.job = 1 + recipe_below(recipe, 3),
                                            .table = (uint32_t)recipe_below(recipe, 4),
                                            .staleness = (int64_t)recipe_below(recipe, 9)};
    switch (recipe_below(recipe, 9)) {
    case 0:
        return put_plan(recipe, to);
    case 1:
    case 2:
    case 3:
        return rbt_control_put_gathered(to, 1 + recipe_below(recipe, 3), &part, 1);
    case 4:
        return recipe_once_in(recipe, 2)
                   ? rbt_control_put_bound(to, 1 + recipe_below(recipe, 3), &bound)
                   : rbt_control_put_taken(to, 1 + recipe_below(recipe, 3), bound.job);
    case 5:
        return rbt_control_put_version(to, RBT_FRAME_STABLE, 1, &version);
    case 6:
        return rbt_control_put_plain(to, RBT_FRAME_DROP, 1 + recipe_below(recipe, 4));
    case 7:
        return rbt_control_put_ending(
            to, recipe_once_in(recipe, 2) ? RBT_FRAME_FAILED : RBT_FRAME_GOODBYE,
            recipe_once_in(recipe, 2) ? RBT_OK : RBT_E_DATA, "enough");
    default:
        return rbt_control_put_plain(to, RBT_FRAME_BEAT, 0);
    }
}

static void write_script(struct recipe *recipe)
{
    script_bytes = 0;
    for (int i = 0; i < MESSAGES; i++) {
        char *to = script + script_bytes;
        const bool is_plan = i == 0 && !recipe_once_in(recipe, 10);
        const size_t bytes = is_plan ? put_plan(recipe, to) : put_message(recipe, to);
        if (recipe_once_in(recipe, 8)) {
            recipe_damage(recipe, to, bytes);
        }
        script_bytes += bytes;
        RBT_ASSERT(script_bytes < ROOM / 2);
    }
}

static void visit(void *context, uint32_t process, const char *bytes, size_t size)
{
    volatile char sum = 0;
    (void)context;
    (void)process;
    for (size_t i = 0; i < size; i++) {
        sum = (char)(sum ^ bytes[i]);
    }
}

static rbt_status hear_bound(void *context, uint64_t number, const struct rbt_control_bound *bound)
{
    (void)context;
    RBT_ASSERT(number > 0);
    RBT_ASSERT(bound->staleness >= -1);
    return RBT_OK;
}

static void hear_stable(void *context, uint32_t table, uint64_t version)
{
    (void)context;
    (void)version;
    RBT_ASSERT(table < RBT_CONTROL_TABLES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (listener < 0) {
        begin();
    }
    struct recipe recipe = recipe_begin(data, size);
    write_script(&recipe);
    atomic_store(&is_done, false);
    pthread_t coordinator;
    RBT_ASSERT(pthread_create(&coordinator, NULL, coordinate, NULL) == 0);
    const struct rbt_member_options options = {.coordinator = address,
                                               .role = RBT_ROLE_WORKER,
                                               .index = RBT_INDEX_ANY,
                                               .start_timeout = 1000 * MS,
                                               .silence_max = 1000 * MS,
                                               .cut_max = 100 * MS,
                                               .space = "main",
                                               .worker_count = 2,
                                               .thread_count = 2,
                                               .on_bound = hear_bound,
                                               .on_stable = hear_stable};
    rbt_member *member = NULL;
    rbt_status st = rbt_member_join(&options, &member);
    if (st == RBT_OK) {
        RBT_ASSERT(rbt_member_plan(member)->shard_count > 0);
        rbt_member_advise_bound(member, RBT_CONTROL_ALL, 3);
        st = rbt_member_gather(member, "own", 3, visit, NULL);
        RBT_ASSERT(st == RBT_OK || rbt_last_error()[0] != '\0');
        rbt_member_leave(member, st, st == RBT_OK ? NULL : "it failed");
    } else {
        RBT_ASSERT(rbt_last_error()[0] != '\0');
    }
    atomic_store(&is_done, true);
    RBT_ASSERT(pthread_join(coordinator, NULL) == 0);
    rbt_block_trim();
    return 0;
}
