/* net/security_test.c - keys in files, and who gets in: a peer with the key, and nobody else. The
 * fixture has a directory of its own and two clusters' securities. */
#include "base/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/block.h"
#include "base/io.h"
#include "net/channel.h"
#include "net/security.h"

static const char KEY[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
static const char OTHER_KEY[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefe";
static const char NO_KEY[] = "the peer does not have this cluster's key";

struct fixture {
    char folder[64];
    char path[96];
    rbt_security *ours;
    rbt_security *theirs;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.folder = "/tmp/rubato-security-XXXXXX"};
    assert_non_null(mkdtemp(fixture.folder));
    (void)snprintf(fixture.path, sizeof fixture.path, "%s/key", fixture.folder); /* it fits */
    assert_ok(rbt_security_open(KEY, &fixture.ours));
    assert_ok(rbt_security_open(OTHER_KEY, &fixture.theirs));
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_security_close(f->ours);
    rbt_security_close(f->theirs);
    (void)unlink(f->path);
    assert_int_equal(rmdir(f->folder), 0);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static void keys_are_random(void **state)
{
    (void)state;
    char a[RBT_KEY_TEXT];
    char b[RBT_KEY_TEXT];
    assert_ok(rbt_key_generate(a));
    assert_ok(rbt_key_generate(b));
    assert_int_equal(strspn(a, "0123456789abcdef"), RBT_KEY_TEXT - 1);
    assert_int_equal(a[RBT_KEY_TEXT - 1], '\0');
    assert_string_not_equal(a, b);
}

static void a_key_is_written_for_its_owner_alone_and_read_back(void **state)
{
    const struct fixture *f = *state;
    char text[RBT_KEY_TEXT];
    assert_ok(rbt_key_write(f->path, KEY));
    struct stat status;
    assert_int_equal(stat(f->path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_ok(rbt_key_read(f->path, text));
    assert_string_equal(text, KEY);
}

static void a_key_is_never_overwritten(void **state)
{
    const struct fixture *f = *state;
    char text[RBT_KEY_TEXT];
    assert_ok(rbt_key_write(f->path, KEY));
    assert_fails(rbt_key_write(f->path, OTHER_KEY), RBT_E_IO, "a file of that name exists");
    assert_ok(rbt_key_read(f->path, text));
    assert_string_equal(text, KEY);
    char inside[128];
    (void)snprintf(inside, sizeof inside, "%s/none/key", f->folder); /* it fits */
    assert_fails(rbt_key_write(inside, KEY), RBT_E_IO, "No such file");
    assert_fails(rbt_key_read(inside, text), RBT_E_NOTFOUND, "no such file");
}

static void a_key_that_others_may_read_is_refused(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601};
    const struct fixture *f = *state;
    char text[RBT_KEY_TEXT] = "untouched";
    assert_ok(rbt_key_write(f->path, KEY));
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(f->path, modes[i]), 0);
        assert_fails(rbt_key_read(f->path, text), RBT_E_IO, "users other than its owner");
        assert_string_equal(text, "untouched");
    }
}

static void a_pipe_is_no_key(void **state)
{
    const struct fixture *f = *state;
    char text[RBT_KEY_TEXT];
    assert_int_equal(mkfifo(f->path, 0600), 0);
    assert_fails(rbt_key_read(f->path, text), RBT_E_IO, "it is a pipe, not a regular file");
}

static void every_failed_system_call_is_told(void **state)
{
    const struct fixture *f = *state;
    char text[RBT_KEY_TEXT];
    for (unsigned nth = 1;; nth++) {
        (void)rbt_io_fail_nth(nth);
        const rbt_status st = rbt_key_write(f->path, KEY);
        if (rbt_io_fail_nth(0) > 0) {
            assert_true(nth > 4); /* open, two writes, close */
            assert_ok(st);
            break;
        }
        assert_fails(st, RBT_E_IO, "could not write a key to");
        assert_int_equal(access(f->path, F_OK), -1); /* half a key is of no use */
    }
    for (unsigned nth = 1;; nth++) {
        (void)rbt_io_fail_nth(nth);
        const rbt_status st = rbt_key_read(f->path, text);
        if (rbt_io_fail_nth(0) > 0) {
            assert_true(nth > 4); /* open, what it is, whose it is, read */
            assert_ok(st);
            break;
        }
        assert_fails(st, RBT_E_IO, "could not read the key");
    }
    assert_string_equal(text, KEY);
}

static void a_file_without_a_key_is_refused(void **state)
{
    static const char *const contents[] = {
        "",
        "\n",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeef\n",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0\n",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeefg\n",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\nand more\n"};
    const struct fixture *f = *state;
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        const int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_true(fd >= 0);
        const size_t size = strlen(contents[i]);
        assert_int_equal(write(fd, contents[i], size), size);
        assert_int_equal(close(fd), 0);
        char text[RBT_KEY_TEXT];
        assert_fails(rbt_key_read(f->path, text), RBT_E_DATA, "does not hold a key");
    }
    rbt_security *security = NULL;
    assert_fails(rbt_security_open("0011", &security), RBT_E_INVALID, "64 hexadecimal digits");
}

/* Two ends of a connection, each with a key or none. */
struct ends {
    rbt_channel *client;
    rbt_channel *server;
    rbt_status client_status;
    rbt_status server_status;
    char client_error[256];
    char server_error[256];
};

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
}

static rbt_channel *open_channel(const rbt_security *security, bool is_server, int socket)
{
    const struct rbt_channel_options options = {
        .security = security, .is_server = is_server, .body_max = 1024};
    rbt_channel *channel = NULL;
    assert_ok(rbt_channel_open(socket, &options, &channel));
    return channel;
}

/* One turn of one end; its failure is kept, and its connection closed as its owner would do. */
static void drive(rbt_channel **channel, rbt_status *status, char error[static 256])
{
    if (*channel == NULL) {
        return;
    }
    struct rbt_frame frame;
    const char *body = NULL;
    *status = rbt_channel_receive(*channel, &frame, &body);
    if (*status == RBT_E_BUSY) {
        const rbt_status st = rbt_channel_flush(*channel);
        *status = st == RBT_OK || st == RBT_E_CLOSED ? RBT_E_BUSY : st;
    }
    if (*status != RBT_OK && *status != RBT_E_BUSY) {
        (void)snprintf(error, 256, "%s", rbt_last_error()); /* may be cut */
        rbt_channel_close(*channel);
        *channel = NULL;
    }
}

/* The client says something; both ends are driven until the server has heard it or one is gone. */
static struct ends meet(const rbt_security *client, const rbt_security *server)
{
    int pair[2];
    make_pair(pair);
    struct ends ends = {.client = open_channel(client, false, pair[0]),
                        .server = open_channel(server, true, pair[1])};
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER);
    assert_non_null(block);
    rbt_frame_put(block->data, &(struct rbt_frame){.kind = RBT_FRAME_HELLO});
    block->bytes = RBT_FRAME_HEADER;
    assert_ok(rbt_channel_send(ends.client, block));
    rbt_block_unref(block);
    for (int turn = 0; turn < 100; turn++) {
        drive(&ends.client, &ends.client_status, ends.client_error);
        drive(&ends.server, &ends.server_status, ends.server_error);
        if (ends.server_status == RBT_OK || (ends.client == NULL && ends.server == NULL)) {
            break;
        }
    }
    return ends;
}

static void part(struct ends *ends)
{
    rbt_channel_close(ends->client);
    rbt_channel_close(ends->server);
}

static void a_peer_with_the_key_gets_in(void **state)
{
    const struct fixture *f = *state;
    struct ends ends = meet(f->ours, f->ours);
    assert_int_equal(ends.server_status, RBT_OK);
    assert_true(rbt_channel_is_ready(ends.client));
    assert_true(rbt_channel_is_ready(ends.server));
    part(&ends);
}

static void a_peer_with_the_wrong_key_is_refused_by_both(void **state)
{
    const struct fixture *f = *state;
    struct ends ends = meet(f->theirs, f->ours);
    assert_int_equal(ends.server_status, RBT_E_PROTOCOL);
    assert_string_equal(ends.server_error, NO_KEY);
    assert_int_equal(ends.client_status, RBT_E_PROTOCOL);
    assert_string_equal(ends.client_error, NO_KEY);
    part(&ends);
}

static void a_client_without_a_key_is_refused(void **state)
{
    const struct fixture *f = *state;
    struct ends ends = meet(NULL, f->ours);
    assert_int_equal(ends.server_status, RBT_E_PROTOCOL);
    assert_string_equal(ends.server_error, NO_KEY);
    assert_int_equal(ends.client_status, RBT_E_PROTOCOL);
    assert_string_equal(ends.client_error,
                        "the peer requires a cluster key, but this process has none");
    part(&ends);
}

static void a_server_without_a_key_is_refused(void **state)
{
    const struct fixture *f = *state;
    struct ends ends = meet(f->ours, NULL);
    assert_int_equal(ends.server_status, RBT_E_PROTOCOL);
    assert_string_equal(ends.server_error,
                        "the peer requires a cluster key, but this process has none");
    assert_int_equal(ends.client_status, RBT_E_CLOSED);
    assert_non_null(strstr(ends.client_error, "before it proved that it has this cluster's key"));
    part(&ends);
}

/* A relay between two ends that are both right keeps what the client says. */
struct recording {
    char bytes[4096];
    size_t sizes[16]; /* of the pieces, in order */
    size_t count;
    size_t size;
};

static void relay(int from, int to, struct recording *recording)
{
    char bytes[4096];
    const ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0) {
        return;
    }
    assert_int_equal(write(to, bytes, (size_t)got), got);
    if (recording != NULL) {
        assert_true(recording->size + (size_t)got <= sizeof recording->bytes);
        memcpy(recording->bytes + recording->size, bytes, (size_t)got);
        recording->sizes[recording->count++] = (size_t)got;
        recording->size += (size_t)got;
    }
}

static void record(const rbt_security *security, struct recording *recording)
{
    int left[2];
    int right[2];
    make_pair(left);
    make_pair(right);
    rbt_channel *client = open_channel(security, false, left[0]);
    rbt_channel *server = open_channel(security, true, right[0]);
    struct rbt_block *block = rbt_block_create(RBT_FRAME_HEADER);
    assert_non_null(block);
    rbt_frame_put(block->data, &(struct rbt_frame){.kind = RBT_FRAME_HELLO});
    block->bytes = RBT_FRAME_HEADER;
    assert_ok(rbt_channel_send(client, block));
    rbt_block_unref(block);
    rbt_status st = RBT_E_BUSY;
    for (int turn = 0; turn < 100 && st == RBT_E_BUSY; turn++) {
        struct rbt_frame frame;
        const char *body = NULL;
        assert_int_equal(rbt_channel_receive(client, &frame, &body), RBT_E_BUSY);
        const rbt_status flushed = rbt_channel_flush(client);
        assert_true(flushed == RBT_OK || flushed == RBT_E_BUSY);
        relay(left[1], right[1], recording);
        st = rbt_channel_receive(server, &frame, &body);
        relay(right[1], left[1], NULL);
    }
    assert_ok(st);
    rbt_channel_close(client);
    rbt_channel_close(server);
    (void)close(left[1]);
    (void)close(right[1]);
}

static void a_replayed_handshake_is_refused(void **state)
{
    const struct fixture *f = *state;
    struct recording recording = {0};
    record(f->ours, &recording);
    assert_true(recording.count >= 2);
    for (int in_one_piece = 0; in_one_piece < 2; in_one_piece++) {
        int pair[2];
        make_pair(pair);
        rbt_channel *server = open_channel(f->ours, true, pair[0]);
        struct rbt_frame frame;
        const char *body = NULL;
        rbt_status st = RBT_E_BUSY;
        size_t at = 0;
        for (size_t i = 0; i < recording.count && st == RBT_E_BUSY; i++) {
            const size_t size = in_one_piece ? recording.size - at : recording.sizes[i];
            assert_int_equal(write(pair[1], recording.bytes + at, size), size);
            at += size;
            for (int turn = 0; turn < 3 && st == RBT_E_BUSY; turn++) {
                st = rbt_channel_receive(server, &frame, &body);
            }
            assert_false(rbt_channel_is_ready(server));
            i = in_one_piece ? recording.count : i;
        }
        assert_fails(st, RBT_E_PROTOCOL, NO_KEY);
        rbt_channel_close(server);
        (void)close(pair[1]);
    }
}

/* What goes over the wire does not show what was said. */
static void nothing_is_sent_in_the_clear(void **state)
{
    const struct fixture *f = *state;
    struct recording recording = {0};
    record(f->ours, &recording);
    char header[RBT_FRAME_HEADER];
    rbt_frame_put(header, &(struct rbt_frame){.kind = RBT_FRAME_HELLO});
    assert_null(memmem(recording.bytes, recording.size, header, 8));
    assert_null(memmem(recording.bytes, recording.size, KEY, 8));
}

static void every_changed_byte_is_noticed(void **state)
{
    const struct fixture *f = *state;
    struct recording recording = {0};
    record(f->ours, &recording);
    for (size_t at = 0; at < recording.sizes[0]; at++) {
        int pair[2];
        make_pair(pair);
        rbt_channel *server = open_channel(f->ours, true, pair[0]);
        struct rbt_frame frame;
        const char *body = NULL;
        recording.bytes[at] ^= 0x20;
        assert_int_equal(write(pair[1], recording.bytes, recording.size), recording.size);
        recording.bytes[at] ^= 0x20;
        (void)shutdown(pair[1], SHUT_WR);
        rbt_status st = RBT_E_BUSY;
        for (int turn = 0; turn < 10 && st == RBT_E_BUSY; turn++) {
            st = rbt_channel_receive(server, &frame, &body);
        }
        assert_true(st == RBT_E_PROTOCOL || st == RBT_E_CLOSED);
        assert_false(rbt_channel_is_ready(server));
        rbt_channel_close(server);
        (void)close(pair[1]);
    }
}

static void opening_survives_a_lack_of_memory(void **state)
{
    (void)state;
    rbt_security *security = NULL;
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_security_open(KEY, &security), RBT_E_NOMEM, "out of memory");
    rbt_alloc_fail_nth(0);
    assert_null(security);
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(keys_are_random),
        UNIT(a_key_is_written_for_its_owner_alone_and_read_back),
        UNIT(a_key_is_never_overwritten),
        UNIT(a_key_that_others_may_read_is_refused),
        UNIT(a_pipe_is_no_key),
        UNIT(every_failed_system_call_is_told),
        UNIT(a_file_without_a_key_is_refused),
        UNIT(a_peer_with_the_key_gets_in),
        UNIT(a_peer_with_the_wrong_key_is_refused_by_both),
        UNIT(a_client_without_a_key_is_refused),
        UNIT(a_server_without_a_key_is_refused),
        UNIT(a_replayed_handshake_is_refused),
        UNIT(nothing_is_sent_in_the_clear),
        UNIT(every_changed_byte_is_noticed),
        UNIT(opening_survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests_name("net/security", tests, NULL, NULL);
}
