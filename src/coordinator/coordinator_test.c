/* coordinator/coordinator_test.c - a coordinator and real members, each on its own thread, over
 * Unix sockets. Nothing sleeps: every wait is for something that is promised to happen. */
#include "base/test.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "coordinator/coordinator.h"
#include "net/address.h"
#include "net/channel.h"
#include "net/member.h"
#include "wire/control.h"

#define MS INT64_C(1000000)

enum { MEMBERS_MAX = 4, DESCRIPTORS_MAX = 1024, CUTS = 20 };

struct fixture;

/* A member on a thread of its own; `work` is what it does between joining and leaving. */
struct actor {
    struct fixture *fixture;
    struct rbt_member_options options;
    void (*work)(struct actor *actor);
    pthread_t thread;
    rbt_member *member;
    struct rbt_member_plan plan;
    rbt_status joined;
    rbt_status status; /* of the last thing it did */
    char text[RBT_ERROR_MAX];
    char seen[64];          /* what it has gathered, or heard */
    char taken[64];         /* which bounds all had when its own was answered */
    _Atomic uint64_t bound; /* its number, and how stale */
    _Atomic uint64_t dropped;
};

struct fixture {
    char folder[64];
    char address[128];
    struct rbt_coordinator_options options;
    pthread_t thread;
    rbt_status status;
    char text[RBT_ERROR_MAX];
    char *log;
    size_t log_size;
    struct actor actors[MEMBERS_MAX];
    uint32_t actor_count;
    sem_t refused; /* counts those that could not join */
};

static const char *const shard_addresses[] = {"unix:shard-a", "unix:shard-b"};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/rubato-coordinator-XXXXXX");
    if (mkdtemp(f->folder) == NULL) {
        return -1;
    }
    (void)snprintf(f->address, sizeof f->address, "unix:%s/c", f->folder);
    f->options = (struct rbt_coordinator_options){.listen = f->address,
                                                  .server_count = 1,
                                                  .is_once = true,
                                                  .start_timeout = 20000 * MS,
                                                  .silence_max = 10000 * MS,
                                                  .cut_max = 5000 * MS,
                                                  .log = open_memstream(&f->log, &f->log_size)};
    *state = f;
    return sem_init(&f->refused, 0, 0);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)fclose(f->options.log);
    free(f->log);
    (void)sem_destroy(&f->refused);
    (void)rmdir(f->folder);
    test_free(f);
    return 0;
}

static void *run_coordinator(void *argument)
{
    struct fixture *f = argument;
    f->status = rbt_coordinator_run(&f->options);
    (void)snprintf(f->text, sizeof f->text, "%s", rbt_last_error());
    return NULL;
}

static void start_coordinator(struct fixture *f)
{
    assert_int_equal(pthread_create(&f->thread, NULL, run_coordinator, f), 0);
}

static void end_coordinator(struct fixture *f)
{
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    assert_int_equal(fflush(f->options.log), 0);
}

static rbt_status note_bound(void *context, uint64_t number, const struct rbt_control_bound *bound)
{
    struct actor *actor = context;
    atomic_store(&actor->bound, number * 100 + (uint64_t)bound->staleness);
    return RBT_OK;
}

static void note_drop(void *context, uint64_t job)
{
    struct actor *actor = context;
    atomic_store(&actor->dropped, job);
}

static struct actor *add_actor(struct fixture *f, enum rbt_role role, void (*work)(struct actor *))
{
    assert_true(f->actor_count < MEMBERS_MAX);
    struct actor *actor = &f->actors[f->actor_count++];
    actor->fixture = f;
    actor->work = work;
    actor->options = (struct rbt_member_options){.coordinator = f->address,
                                                 .role = role,
                                                 .index = RBT_INDEX_ANY,
                                                 .start_timeout = f->options.start_timeout,
                                                 .silence_max = f->options.silence_max,
                                                 .cut_max = f->options.cut_max,
                                                 .shards = shard_addresses,
                                                 .shard_count = 2,
                                                 .space = "main",
                                                 .worker_count = 2,
                                                 .thread_count = 1,
                                                 .context = actor,
                                                 .on_bound = note_bound,
                                                 .on_drop = note_drop};
    return actor;
}

static void keep(struct actor *actor, rbt_status status)
{
    actor->status = status;
    (void)snprintf(actor->text, sizeof actor->text, "%s", status == RBT_OK ? "" : rbt_last_error());
}

static void *act(void *argument)
{
    struct actor *actor = argument;
    actor->joined = rbt_member_join(&actor->options, &actor->member);
    keep(actor, actor->joined);
    if (actor->joined == RBT_OK) {
        actor->plan = *rbt_member_plan(actor->member);
        actor->plan.shards = NULL; /* the member's */
        actor->work(actor);
        rbt_member_leave(actor->member, RBT_OK, NULL);
    } else {
        (void)sem_post(&actor->fixture->refused);
    }
    return NULL;
}

static void start_actor(struct actor *actor)
{
    assert_int_equal(pthread_create(&actor->thread, NULL, act, actor), 0);
}

static void start_all(struct fixture *f)
{
    for (uint32_t i = 0; i < f->actor_count; i++) {
        start_actor(&f->actors[i]);
    }
}

static void end_all(struct fixture *f)
{
    for (uint32_t i = 0; i < f->actor_count; i++) {
        assert_int_equal(pthread_join(f->actors[i].thread, NULL), 0);
    }
    end_coordinator(f);
}

static void serve(struct actor *actor)
{
    keep(actor, rbt_member_wait(actor->member));
}

static void note_part(void *context, uint32_t process, const char *bytes, size_t size)
{
    struct actor *actor = context;
    const size_t used = strlen(actor->seen);
    (void)snprintf(actor->seen + used, sizeof actor->seen - used, "%u:%.*s ", process, (int)size,
                   bytes);
}

static rbt_status gather(struct actor *actor, const char *text)
{
    actor->seen[0] = '\0';
    return rbt_member_gather(actor->member, text, strlen(text), note_part, actor);
}

static void gather_twice(struct actor *actor)
{
    keep(actor, gather(actor, actor->plan.index == 0 ? "a" : "b"));
    if (actor->status == RBT_OK) {
        keep(actor, gather(actor, actor->plan.index == 0 ? "" : "last"));
    }
}

/* Waits for the end that others bring. */
static void wait_for_alarm(struct actor *actor)
{
    struct pollfd fd = {.fd = rbt_member_alarm(actor->member), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, -1), 1);
    keep(actor, rbt_member_failure(actor->member));
}

static void members_join_gather_and_leave(void **state)
{
    struct fixture *f = *state;
    const struct actor *server = add_actor(f, RBT_ROLE_SERVER, serve);
    const struct actor *a = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    const struct actor *b = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    start_coordinator(f);
    start_all(f);
    end_all(f);
    assert_int_equal(f->status, RBT_OK);
    assert_int_equal(server->status, RBT_OK);
    assert_int_equal(a->status, RBT_OK);
    assert_int_equal(b->status, RBT_OK);
    assert_string_equal(a->seen, "0: 1:last ");
    assert_string_equal(b->seen, "0: 1:last ");
    assert_int_equal(a->plan.index + b->plan.index, 1);
    assert_int_equal(a->plan.process_count, 2);
    assert_int_equal(a->plan.worker_count, 2);
    assert_int_equal(a->plan.worker_first, a->plan.index);
    assert_int_equal(a->plan.shard_count, 2);
    assert_int_equal(a->plan.job, 1);
    assert_int_equal(a->plan.cluster, server->plan.cluster);
    assert_int_equal(server->dropped, 1);
    assert_non_null(strstr(f->log, "joined node=server/0"));
    assert_int_equal(access(f->address + strlen("unix:"), F_OK), -1); /* nothing is left */
}

/* When the call returns, all act on the staleness. */
static void tell(struct actor *actor)
{
    struct fixture *f = actor->fixture;
    if (actor->plan.index == 0) {
        keep(actor, rbt_member_set_bound(actor->member, RBT_CONTROL_ALL, 7));
        for (uint32_t i = 0; i < f->actor_count; i++) {
            (void)snprintf(actor->taken + strlen(actor->taken),
                           sizeof actor->taken - strlen(actor->taken), "%u ",
                           (unsigned)atomic_load(&f->actors[i].bound));
        }
        rbt_member_advise_bound(actor->member, 3, 8);
    }
    keep(actor, gather(actor, "x")); /* comes after it, on the same line */
}

static void a_new_staleness_is_taken_by_all(void **state)
{
    struct fixture *f = *state;
    const struct actor *server = add_actor(f, RBT_ROLE_SERVER, serve);
    const struct actor *a = add_actor(f, RBT_ROLE_WORKER, tell);
    const struct actor *b = add_actor(f, RBT_ROLE_WORKER, tell);
    start_coordinator(f);
    start_all(f);
    end_all(f);
    assert_int_equal(f->status, RBT_OK);
    assert_int_equal(server->status, RBT_OK);
    assert_string_equal(a->plan.index == 0 ? a->taken : b->taken, "107 107 107 ");
    assert_int_equal(a->bound, 208);
    assert_int_equal(b->bound, 208);
}

/* Cuts the line of every member of this process: the sockets whose other end is the coordinator. */
static void cut_all_lines(const struct fixture *f)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_un peer = {0};
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sun_family == AF_UNIX &&
            strcmp(peer.sun_path, f->address + strlen("unix:")) == 0) {
            (void)shutdown(fd, SHUT_RDWR); /* it may be closed already */
        }
    }
}

static void gather_over_cuts(struct actor *actor)
{
    for (int i = 0; i < CUTS && actor->status == RBT_OK; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", i);
        if (actor->plan.index == 0) {
            cut_all_lines(actor->fixture);
        }
        keep(actor, gather(actor, text));
    }
}

static void members_that_were_cut_off_come_back(void **state)
{
    struct fixture *f = *state;
    const struct actor *server = add_actor(f, RBT_ROLE_SERVER, serve);
    const struct actor *a = add_actor(f, RBT_ROLE_WORKER, gather_over_cuts);
    const struct actor *b = add_actor(f, RBT_ROLE_WORKER, gather_over_cuts);
    start_coordinator(f);
    start_all(f);
    end_all(f);
    assert_int_equal(f->status, RBT_OK);
    assert_string_equal(server->text, "");
    assert_string_equal(a->text, "");
    assert_string_equal(b->text, "");
    assert_string_equal(a->seen, "0:19 1:19 ");
    assert_non_null(strstr(f->log, "came back node="));
}

/* A process made by hand: it joins as a worker and does nothing else. */
static rbt_channel *join_by_hand(const struct fixture *f)
{
    struct rbt_control_join join = {.token = 4711,
                                    .role = RBT_ROLE_WORKER,
                                    .index = 1,
                                    .pid = 1234,
                                    .worker_count = 2,
                                    .thread_count = 1,
                                    .space = "main",
                                    .host = "far"};
    const struct rbt_channel_options options = {.body_max = RBT_FRAME_SMALL_MAX};
    struct rbt_block *block = rbt_block_create(rbt_control_put_join(NULL, &join));
    rbt_channel *channel = NULL;
    int socket = -1;
    assert_ok(
        rbt_address_connect(f->address, rbt_clock_now() + f->options.start_timeout, -1, &socket));
    assert_ok(rbt_channel_open(socket, &options, &channel));
    block->bytes = rbt_control_put_join(block->data, &join);
    assert_ok(rbt_channel_send(channel, block));
    rbt_block_unref(block);
    assert_ok(rbt_channel_flush(channel));
    return channel;
}

/* Waits for a message of that kind. */
static void await(rbt_channel *channel, enum rbt_frame_kind kind)
{
    struct rbt_frame frame = {0};
    while (frame.kind != kind) {
        const char *body;
        const rbt_status st = rbt_channel_receive(channel, &frame, &body);
        if (st == RBT_E_BUSY) {
            struct pollfd fd = {.fd = rbt_channel_socket(channel), .events = POLLIN};
            assert_int_equal(poll(&fd, 1, -1), 1);
        } else {
            assert_ok(st);
        }
    }
}

static void a_process_that_vanishes_ends_the_job(void **state)
{
    struct fixture *f = *state;
    f->options.cut_max = 300 * MS;
    const struct actor *server = add_actor(f, RBT_ROLE_SERVER, serve);
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, wait_for_alarm);
    a->options.index = 0;
    start_coordinator(f);
    start_all(f);
    rbt_channel *channel = join_by_hand(f);
    await(channel, RBT_FRAME_PLAN);
    rbt_channel_close(channel);
    end_all(f);
    static const char sentence[] = "lost worker/1 on far (pid 1234): no connection for 300ms";
    assert_int_equal(f->status, RBT_E_CLOSED);
    assert_string_equal(f->text, sentence);
    assert_int_equal(a->status, RBT_E_CLOSED);
    assert_string_equal(a->text, sentence);
    assert_int_equal(server->status, RBT_OK);
    assert_int_equal(server->dropped, 1);
}

static void a_process_that_falls_silent_ends_the_job(void **state)
{
    struct fixture *f = *state;
    f->options.silence_max = 1000 * MS; /* enough for the others to be heard on a busy machine */
    (void)add_actor(f, RBT_ROLE_SERVER, serve);
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    a->options.index = 0;
    start_coordinator(f);
    start_all(f);
    rbt_channel *channel = join_by_hand(f);
    await(channel, RBT_FRAME_PLAN);
    end_all(f);
    rbt_channel_close(channel);
    assert_string_equal(a->text, "lost worker/1 on far (pid 1234): no sign of life for 1s");
    assert_string_equal(f->text, a->text);
}

static void who_does_not_come_is_named(void **state)
{
    struct fixture *f = *state;
    f->options.start_timeout = 1000 * MS;
    f->options.server_count = 2;
    struct actor *server = add_actor(f, RBT_ROLE_SERVER, serve);
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, serve);
    server->options.index = 0;
    a->options.index = 1;
    a->options.worker_count = 3;
    server->options.start_timeout = 20000 * MS;
    a->options.start_timeout = 20000 * MS;
    start_coordinator(f);
    start_all(f);
    end_all(f);
    static const char sentence[] = "server/1 and worker/0, worker/2 did not join within 1s";
    assert_int_equal(f->status, RBT_E_TIMEOUT);
    assert_string_equal(f->text, sentence);
    assert_int_equal(server->joined, RBT_E_TIMEOUT);
    assert_string_equal(server->text, sentence);
    assert_string_equal(a->text, sentence);
}

static void give_up(struct actor *actor)
{
    rbt_member_leave(actor->member, RBT_E_DATA, "the file is\nbroken");
    actor->member = NULL; /* leaving once more does nothing */
}

static void a_process_that_gives_up_says_why(void **state)
{
    struct fixture *f = *state;
    (void)add_actor(f, RBT_ROLE_SERVER, serve);
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, wait_for_alarm);
    struct actor *b = add_actor(f, RBT_ROLE_WORKER, give_up);
    a->options.index = 0;
    b->options.index = 1;
    start_coordinator(f);
    start_all(f);
    end_all(f);
    assert_non_null(strstr(a->text, "worker/1 on "));
    assert_non_null(strstr(a->text, " failed: the file is broken"));
    assert_int_equal(f->status, RBT_E_CLOSED);
    assert_string_equal(f->text, a->text);
}

static void strangers_are_refused_and_the_job_goes_on(void **state)
{
    struct fixture *f = *state;
    (void)add_actor(f, RBT_ROLE_SERVER, serve);
    const struct actor *a = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    const struct actor *b = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    start_coordinator(f);
    static const char noise[64] = "GET / HTTP/1.1";
    int socket = -1;
    assert_ok(
        rbt_address_connect(f->address, rbt_clock_now() + f->options.start_timeout, -1, &socket));
    assert_int_equal(write(socket, noise, sizeof noise), sizeof noise);
    struct pollfd fd = {.fd = socket, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, -1), 1); /* it hangs up */
    (void)close(socket);
    start_all(f);
    end_all(f);
    assert_int_equal(f->status, RBT_OK);
    assert_string_equal(a->text, "");
    assert_string_equal(b->text, "");
    assert_non_null(strstr(f->log, "warn coordinator: refused a connection from this host (pid "));
}

static void a_second_process_with_the_same_number_is_refused(void **state)
{
    struct fixture *f = *state;
    (void)add_actor(f, RBT_ROLE_SERVER, serve);
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    struct actor *b = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    a->options.index = 0;
    b->options.index = 0;
    f->options.cut_max = 300 * MS;
    start_coordinator(f);
    start_all(f);
    assert_int_equal(sem_wait(&f->refused), 0);
    rbt_channel *channel = join_by_hand(f); /* so that the other one's gather has an end */
    await(channel, RBT_FRAME_PLAN);
    rbt_channel_close(channel);
    end_all(f);
    struct actor *refused = a->joined == RBT_OK ? b : a;
    assert_int_equal(refused->joined, RBT_E_INVALID);
    assert_non_null(strstr(refused->text, "worker/0 on "));
}

static void a_member_without_a_coordinator_says_so(void **state)
{
    struct fixture *f = *state;
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, serve);
    a->options.start_timeout = 50 * MS;
    start_actor(a);
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    assert_int_equal(a->joined, RBT_E_TIMEOUT);
    assert_non_null(strstr(a->text, "could not join the coordinator: could not reach unix:"));
}

/* Listens at 127.0.0.1, on a port that is free at ::1, and writes both its address there and the
 * name of both; -1 where there is no IPv6. */
static int listen_beside(struct fixture *f, char name[static RBT_ADDRESS_MAX])
{
    char actual[RBT_ADDRESS_MAX];
    int probe = -1;
    const bool has_v6 = rbt_address_listen("[::1]:0", actual, &probe) == RBT_OK;
    while (has_v6) { /* ends: few ports are taken */
        int listener = -1;
        (void)close(probe);
        assert_ok(rbt_address_listen("127.0.0.1:0", actual, &listener));
        const char *port = strrchr(actual, ':');
        (void)snprintf(f->address, sizeof f->address, "[::1]%s", port);
        (void)snprintf(name, RBT_ADDRESS_MAX, "localhost%s", port);
        if (rbt_address_listen(f->address, actual, &probe) == RBT_OK) {
            (void)close(probe);
            return listener;
        }
        probe = listener;
    }
    return -1;
}

/* A name may stand for several places, of which the first belongs to somebody else: he hangs up,
 * and later attempts that go there are not even answered. */
static void the_coordinator_is_looked_for_at_all_places_of_its_name(void **state)
{
    struct fixture *f = *state;
    char name[RBT_ADDRESS_MAX];
    const int listener = listen_beside(f, name);
    int accepted = -1;
    if (listener < 0) {
        skip();
    }
    f->options.start_timeout = 60000 * MS;
    (void)add_actor(f, RBT_ROLE_SERVER, serve);
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    a->options.worker_count = 1;
    a->options.coordinator = name;
    start_coordinator(f);
    start_all(f);
    struct pollfd fd = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, -1), 1);
    assert_ok(rbt_address_accept(listener, &accepted));
    (void)close(accepted);
    end_all(f);
    (void)close(listener);
    assert_string_equal(a->text, "");
    assert_string_equal(a->seen, "0: ");
    assert_int_equal(f->status, RBT_OK);
}

/* Takes the part of the coordinator, by hand: gives one worker a plan. */
static rbt_channel *welcome_by_hand(struct fixture *f, int *listener)
{
    static const char *const shards[] = {"unix:a"};
    char actual[RBT_ADDRESS_MAX];
    const struct rbt_channel_options options = {.is_server = true, .body_max = RBT_FRAME_SMALL_MAX};
    const struct rbt_control_plan plan = {.cluster = 1,
                                          .job = 1,
                                          .process_count = 1,
                                          .worker_count = 1,
                                          .thread_count = 1,
                                          .process_size = 1,
                                          .map_version = 1,
                                          .shards = {.count = 1, .texts = shards}};
    int socket = -1;
    assert_ok(rbt_address_listen(f->address, actual, listener));
    start_all(f);
    struct pollfd fd = {.fd = *listener, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, -1), 1);
    assert_ok(rbt_address_accept(*listener, &socket));
    rbt_channel *channel = NULL;
    assert_ok(rbt_channel_open(socket, &options, &channel));
    await(channel, RBT_FRAME_JOIN);
    struct rbt_block *block = rbt_block_create(rbt_control_put_plan(NULL, &plan));
    block->bytes = rbt_control_put_plan(block->data, &plan);
    assert_ok(rbt_channel_send(channel, block));
    rbt_block_unref(block);
    assert_ok(rbt_channel_flush(channel));
    return channel;
}

static void a_coordinator_that_vanishes_is_noticed(void **state)
{
    struct fixture *f = *state;
    int listener = -1;
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, wait_for_alarm);
    a->options.worker_count = 1;
    a->options.cut_max = 300 * MS;
    rbt_channel *channel = welcome_by_hand(f, &listener);
    (void)close(listener);
    (void)unlink(f->address + strlen("unix:"));
    rbt_channel_close(channel);
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    assert_int_equal(a->status, RBT_E_CLOSED);
    assert_non_null(strstr(a->text, "lost the coordinator at unix:"));
    assert_non_null(strstr(a->text, ": no connection for 300ms"));
}

static void a_coordinator_that_falls_silent_is_noticed(void **state)
{
    struct fixture *f = *state;
    int listener = -1;
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, wait_for_alarm);
    a->options.worker_count = 1;
    a->options.silence_max = 300 * MS;
    rbt_channel *channel = welcome_by_hand(f, &listener);
    assert_int_equal(pthread_join(a->thread, NULL), 0);
    rbt_channel_close(channel);
    (void)close(listener);
    (void)unlink(f->address + strlen("unix:"));
    assert_int_equal(a->status, RBT_E_CLOSED);
    assert_non_null(strstr(a->text, ": no sign of life for 300ms"));
}

static void who_has_another_key_is_refused(void **state)
{
    struct fixture *f = *state;
    char key[RBT_KEY_TEXT];
    rbt_security *ours = NULL;
    rbt_security *theirs = NULL;
    assert_ok(rbt_key_generate(key));
    assert_ok(rbt_security_open(key, &ours));
    assert_ok(rbt_key_generate(key));
    assert_ok(rbt_security_open(key, &theirs));
    f->options.security = ours;
    struct actor *server = add_actor(f, RBT_ROLE_SERVER, serve);
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    struct actor *b = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    struct actor *stranger = add_actor(f, RBT_ROLE_WORKER, gather_twice);
    server->options.security = ours;
    a->options.security = ours;
    b->options.security = ours;
    stranger->options.security = theirs;
    start_coordinator(f);
    start_actor(stranger);
    assert_int_equal(sem_wait(&f->refused), 0);
    start_actor(server);
    start_actor(a);
    start_actor(b);
    end_all(f);
    assert_int_equal(f->status, RBT_OK);
    assert_string_equal(a->text, "");
    assert_string_equal(b->text, "");
    assert_int_equal(stranger->joined, RBT_E_PROTOCOL);
    assert_non_null(strstr(stranger->text, "key"));
    assert_non_null(strstr(f->log, "refused a connection from this host"));
    rbt_security_close(ours);
    rbt_security_close(theirs);
}

static atomic_bool must_stop;

static bool should_stop(void)
{
    return atomic_load(&must_stop);
}

static void stop_coordinator(struct actor *actor)
{
    (void)actor;
    atomic_store(&must_stop, true);
}

static void a_coordinator_that_stays_ends_when_it_is_told_to(void **state)
{
    struct fixture *f = *state;
    atomic_store(&must_stop, false);
    f->options.is_once = false;
    f->options.should_stop = should_stop;
    const struct actor *server = add_actor(f, RBT_ROLE_SERVER, serve);
    struct actor *a = add_actor(f, RBT_ROLE_WORKER, stop_coordinator);
    a->options.worker_count = 1;
    start_coordinator(f);
    start_all(f);
    end_all(f);
    assert_int_equal(f->status, RBT_OK);
    assert_int_equal(server->status, RBT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_join_gather_and_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_staleness_is_taken_by_all, setup, teardown),
        cmocka_unit_test_setup_teardown(members_that_were_cut_off_come_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_that_vanishes_ends_the_job, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_that_falls_silent_ends_the_job, setup, teardown),
        cmocka_unit_test_setup_teardown(who_does_not_come_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_that_gives_up_says_why, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_are_refused_and_the_job_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_process_with_the_same_number_is_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_member_without_a_coordinator_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(the_coordinator_is_looked_for_at_all_places_of_its_name,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_coordinator_that_vanishes_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_coordinator_that_falls_silent_is_noticed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(who_has_another_key_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_coordinator_that_stays_ends_when_it_is_told_to, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
