/* net/address_test.c - what an address is, and a sentence for everything that can go wrong with
 * one. Sockets are Unix sockets in a directory of the test's own, or on loopback with a port that
 * the kernel chooses. Nothing waits for longer than a few milliseconds. */
#include "base/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/address.h"

#define MS ((rbt_time)1000000)

enum { PATIENCE_MS = 10000 }; /* for what happens at once unless the machine is very busy */

struct fixture {
    char folder[64];
    char address[RBT_ADDRESS_MAX];
    char actual[RBT_ADDRESS_MAX];
    const char *path; /* of the address */
    int listener;
    int socket;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture =
        (struct fixture){.folder = "/tmp/rubato-address-XXXXXX", .listener = -1, .socket = -1};
    assert_non_null(mkdtemp(fixture.folder));
    (void)snprintf(fixture.address, sizeof fixture.address, "unix:%s/socket", /* it fits */
                   fixture.folder);
    fixture.path = fixture.address + strlen("unix:");
    *state = &fixture;
    return 0;
}

static void close_socket(int *socket)
{
    if (*socket >= 0) {
        assert_int_equal(close(*socket), 0);
        *socket = -1;
    }
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    close_socket(&f->listener);
    close_socket(&f->socket);
    (void)unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0);
    return 0;
}

static void addresses_are_told_from_other_text(void **state)
{
    (void)state;
    static const char *const good[] = {"unix:/tmp/x", "unix:x",      "127.0.0.1:0",
                                       "[::1]:7000",  "node7:65535", "localhost:1"};
    static const char *const wrong[] = {
        "",          "7000",       ":7000",   "host",     "host:",   "host:x",
        "host:-1",   "host:65536", "host:1k", "::1:7000", "[::1]",   "[::1:70",
        "[::1]7000", "unix:",      "[]:1",    "host:1 ",  "host:+1", "host:000001"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(rbt_address_check(good[i]));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_fails(rbt_address_check(wrong[i]), RBT_E_INVALID, "address");
    }
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "unix:", 5);
    assert_fails(rbt_address_check(longest), RBT_E_INVALID, "too long");
    longest[200] = '\0';
    assert_fails(rbt_address_check(longest), RBT_E_INVALID, "longer than the 107 bytes");
}

static void local_addresses_are_known(void **state)
{
    (void)state;
    assert_true(rbt_address_is_unix("unix:/x"));
    assert_false(rbt_address_is_unix("unix7:80"));
    static const char *const local[] = {"unix:/x", "127.0.0.1:1", "127.9.9.9:1",
                                        "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"};
    static const char *const others[] = {"0.0.0.0:1",   "[::]:1",      "10.0.0.1:1",
                                         "128.0.0.1:1", "[fe80::1]:1", "localhost.example:1",
                                         "nonsense"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++) {
        assert_true(rbt_address_is_local(local[i]));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(rbt_address_is_local(others[i]));
    }
}

static void wait_for(int socket, short events)
{
    struct pollfd fd = {.fd = socket, .events = events};
    assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
}

/* Listens, connects, accepts, and sends a byte through. */
static void converse(struct fixture *f, const char *address)
{
    assert_ok(rbt_address_listen(address, f->actual, &f->listener));
    int accepted = -1;
    assert_int_equal(rbt_address_accept(f->listener, &accepted), RBT_E_BUSY);
    assert_ok(rbt_address_begin(f->actual, &f->socket));
    wait_for(f->socket, POLLOUT);
    assert_ok(rbt_address_finish(f->actual, f->socket));
    wait_for(f->listener, POLLIN);
    assert_ok(rbt_address_accept(f->listener, &accepted));
    assert_int_equal(write(f->socket, "x", 1), 1);
    wait_for(accepted, POLLIN);
    char byte = 0;
    assert_int_equal(read(accepted, &byte, 1), 1);
    const int sockets[] = {f->listener, f->socket, accepted};
    for (size_t i = 0; i < 3; i++) {
        assert_true((fcntl(sockets[i], F_GETFL) & O_NONBLOCK) != 0);
        assert_true((fcntl(sockets[i], F_GETFD) & FD_CLOEXEC) != 0);
    }
    for (size_t i = 1; i < 3 && !rbt_address_is_unix(address); i++) {
        int value = 0;
        socklen_t size = sizeof value;
        assert_int_equal(getsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
        assert_true(value != 0);
        assert_int_equal(getsockopt(sockets[i], IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size), 0);
        assert_true(value > 0);
    }
    close_socket(&accepted);
    close_socket(&f->socket);
    close_socket(&f->listener);
}

static void processes_meet_over_a_socket_file(void **state)
{
    struct fixture *f = *state;
    converse(f, f->address);
    assert_string_equal(f->actual, f->address);
}

static void processes_meet_over_tcp_on_any_free_port(void **state)
{
    struct fixture *f = *state;
    converse(f, "127.0.0.1:0");
    assert_int_equal(strncmp(f->actual, "127.0.0.1:", 10), 0);
    assert_string_not_equal(f->actual, "127.0.0.1:0");
    converse(f, "0.0.0.0:0");
    assert_int_equal(strncmp(f->actual, "0.0.0.0:", 8), 0);
    converse(f, "localhost:0");
}

static void processes_meet_over_ipv6(void **state)
{
    struct fixture *f = *state;
    const int probe = socket(AF_INET6, SOCK_STREAM, 0);
    const struct sockaddr_in6 place = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const bool has_v6 =
        probe >= 0 && bind(probe, (const struct sockaddr *)&place, sizeof place) == 0;
    if (probe >= 0) {
        (void)close(probe);
    }
    if (!has_v6) {
        skip();
    }
    converse(f, "[::1]:0");
    assert_int_equal(strncmp(f->actual, "[::1]:", 6), 0);
}

static void a_socket_file_is_its_owners_alone(void **state)
{
    struct fixture *f = *state;
    const mode_t old = umask(0);
    assert_ok(rbt_address_listen(f->address, f->actual, &f->listener));
    (void)umask(old);
    struct stat status;
    assert_int_equal(stat(f->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void a_socket_file_is_replaced_only_if_nobody_listens(void **state)
{
    struct fixture *f = *state;
    assert_ok(rbt_address_listen(f->address, f->actual, &f->listener));
    int second = -1;
    assert_fails(rbt_address_listen(f->address, f->actual, &second), RBT_E_IO,
                 "another process listens there");
    close_socket(&f->listener);
    assert_int_equal(access(f->path, F_OK), 0);
    assert_ok(rbt_address_listen(f->address, f->actual, &f->listener));
    close_socket(&f->listener);
    assert_int_equal(unlink(f->path), 0);
    const int fd = open(f->path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_fails(rbt_address_listen(f->address, f->actual, &f->listener), RBT_E_IO,
                 "a file of that name exists");
    assert_int_equal(access(f->path, F_OK), 0);
}

static void a_mistake_in_listening_is_one_sentence(void **state)
{
    struct fixture *f = *state;
    char inside[RBT_ADDRESS_MAX];
    char sentence[RBT_ADDRESS_MAX + 64];
    int second = -1;
    (void)snprintf(inside, sizeof inside, "unix:%s/none/socket", f->folder); /* it fits */
    assert_fails(rbt_address_listen(inside, f->actual, &second), RBT_E_IO,
                 "/none/socket: its directory does not exist");
    assert_ok(rbt_address_listen("127.0.0.1:0", f->actual, &f->listener));
    (void)snprintf(sentence, sizeof sentence, /* it fits */
                   "could not listen on %s: the port is in use", f->actual);
    char actual[RBT_ADDRESS_MAX];
    assert_int_equal(rbt_address_listen(f->actual, actual, &second), RBT_E_IO);
    assert_string_equal(rbt_last_error(), sentence);
    assert_int_equal(rbt_address_listen("192.0.2.9:7000", actual, &second), RBT_E_IO);
    assert_string_equal(rbt_last_error(), "could not listen on 192.0.2.9:7000: that is not an "
                                          "address of this host");
    assert_fails(rbt_address_listen("7000", actual, &second), RBT_E_INVALID, "no port");
    assert_int_equal(second, -1);
}

/* A port of this host that nobody listens on. */
static void find_deserted(struct fixture *f)
{
    assert_ok(rbt_address_listen("127.0.0.1:0", f->actual, &f->listener));
    close_socket(&f->listener);
}

static void who_is_not_there_is_named_with_the_reason_and_the_time(void **state)
{
    struct fixture *f = *state;
    char sentence[RBT_ADDRESS_MAX + 64];
    find_deserted(f);
    (void)snprintf(sentence, sizeof sentence, /* it fits */
                   "could not reach %s: connection refused (tried for 0.", f->actual);
    assert_fails(rbt_address_connect(f->actual, rbt_clock_now() + 50 * MS, -1, &f->socket),
                 RBT_E_TIMEOUT, sentence);
    assert_fails(rbt_address_connect(f->address, rbt_clock_now() + 5 * MS, -1, &f->socket),
                 RBT_E_TIMEOUT, "the socket file does not exist (tried for 0.0");
    assert_fails(rbt_address_connect("nonsense", RBT_TIME_NEVER, -1, &f->socket), RBT_E_INVALID,
                 "no port");
    assert_int_equal(f->socket, -1);
}

/* Without a deadline in sight it tries until it is told to stop; here before it begins. */
static void a_wait_for_somebody_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    int cancel[2];
    assert_int_equal(pipe(cancel), 0);
    assert_int_equal(write(cancel[1], "x", 1), 1);
    assert_fails(rbt_address_connect(f->address, RBT_TIME_NEVER, cancel[0], &f->socket),
                 RBT_E_INTERRUPTED, "stopped before unix:");
    (void)close(cancel[0]);
    (void)close(cancel[1]);
}

static void connecting_finds_who_listens(void **state)
{
    struct fixture *f = *state;
    assert_ok(rbt_address_listen(f->address, f->actual, &f->listener));
    assert_ok(rbt_address_connect(f->actual, rbt_clock_now() + PATIENCE_MS * MS, -1, &f->socket));
    close_socket(&f->socket);
    close_socket(&f->listener);
    assert_ok(rbt_address_listen("127.0.0.1:0", f->actual, &f->listener));
    assert_ok(rbt_address_connect(f->actual, RBT_TIME_NEVER, -1, &f->socket));
}

/* TCP allows it: a socket bound to the port that it connects to. */
static void a_socket_does_not_take_itself_for_the_peer(void **state)
{
    struct fixture *f = *state;
    f->socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof place;
    struct sockaddr *any = (struct sockaddr *)&place;
    assert_int_equal(bind(f->socket, any, size), 0);
    assert_int_equal(getsockname(f->socket, any, &size), 0);
    if (connect(f->socket, any, size) != 0 && errno != EINPROGRESS) {
        skip(); /* this kernel does not allow it */
    }
    wait_for(f->socket, POLLOUT);
    assert_fails(rbt_address_finish("127.0.0.1:1", f->socket), RBT_E_IO,
                 "could not reach 127.0.0.1:1: connection refused");
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(addresses_are_told_from_other_text),
        UNIT(local_addresses_are_known),
        UNIT(processes_meet_over_a_socket_file),
        UNIT(processes_meet_over_tcp_on_any_free_port),
        UNIT(processes_meet_over_ipv6),
        UNIT(a_socket_file_is_its_owners_alone),
        UNIT(a_socket_file_is_replaced_only_if_nobody_listens),
        UNIT(a_mistake_in_listening_is_one_sentence),
        UNIT(who_is_not_there_is_named_with_the_reason_and_the_time),
        UNIT(a_wait_for_somebody_can_be_cancelled),
        UNIT(connecting_finds_who_listens),
        UNIT(a_socket_does_not_take_itself_for_the_peer),
    };
    return cmocka_run_group_tests_name("net/address", tests, NULL, NULL);
}
