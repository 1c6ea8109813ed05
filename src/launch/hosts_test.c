/* launch/hosts_test.c - tests of launch/hosts.c. */
#include "base/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "launch/hosts.h"

static rbt_status parse(const char *text, struct rbt_hosts *hosts)
{
    return rbt_hosts_parse(text, "hosts.txt", "me.example.org", hosts);
}

static void a_line_is_a_host(void **state)
{
    (void)state;
    struct rbt_hosts hosts = {0};
    assert_ok(parse("# head\n\nnode1 slots=8 # big\r\n  node2\taddress=10.0.0.2 slots=2\nme\n"
                    "localhost\nme.example.org",
                    &hosts));
    assert_int_equal(hosts.count, 5);
    assert_string_equal(hosts.items[0].name, "node1");
    assert_int_equal(hosts.items[0].slots, 8);
    assert_string_equal(hosts.items[0].address, "");
    assert_false(hosts.items[0].is_here);
    assert_string_equal(hosts.items[1].name, "node2");
    assert_string_equal(hosts.items[1].address, "10.0.0.2");
    assert_int_equal(hosts.items[1].slots, 2);
    for (size_t i = 2; i < 5; i++) {
        assert_true(hosts.items[i].is_here);
        assert_int_equal(hosts.items[i].slots, 1);
    }
    assert_true(rbt_hosts_has_far(&hosts));
    rbt_hosts_deinit(&hosts);
}

static void mistakes_have_a_place(void **state)
{
    (void)state;
    struct rbt_hosts hosts = {0};
    assert_fails(parse("a\nb slots=0\n", &hosts), RBT_E_INVALID,
                 "cannot use \"hosts.txt\", line 2: slots needs a whole number");
    assert_fails(parse("a slots=x\n", &hosts), RBT_E_INVALID, "line 1");
    assert_fails(parse("\na cores=3\n", &hosts), RBT_E_INVALID, "line 2: unrecognised word \"co");
    assert_fails(parse("a address=\n", &hosts), RBT_E_INVALID, "unrecognised word");
    assert_fails(parse("-oProxyCommand=x\n", &hosts), RBT_E_INVALID, "must begin with a host");
    assert_fails(parse("slots=3\n", &hosts), RBT_E_INVALID, "must begin with a host");
    assert_fails(parse("# nothing\n", &hosts), RBT_E_INVALID, "it names no host");
    assert_fails(rbt_hosts_read("no/such/file", "me", &hosts), RBT_E_NOTFOUND,
                 "cannot read \"no/such/file\": there is no such file");
    assert_null(hosts.items);
}

static void every_failed_system_call_is_told(void **state)
{
    (void)state;
    char path[] = "/tmp/hosts_test.XXXXXX";
    const int fd = mkstemp(path);
    assert_int_equal(write(fd, "a slots=2\n", 10), 10);
    assert_int_equal(close(fd), 0);
    for (unsigned nth = 1;; nth++) {
        struct rbt_hosts hosts = {0};
        (void)rbt_io_fail_nth(nth);
        const rbt_status st = rbt_hosts_read(path, "me", &hosts);
        const bool has_failed = rbt_io_fail_nth(0) == 0;
        rbt_hosts_deinit(&hosts);
        assert_int_equal(rbt_alloc_live(), 0);
        if (!has_failed) {
            assert_true(nth > 3); /* open, stat, read */
            assert_ok(st);
            break;
        }
        assert_fails(st, RBT_E_IO, "cannot read \"/tmp/hosts_test.");
    }
    assert_int_equal(unlink(path), 0);
}

static void servers_go_round_and_workers_fill_slots(void **state)
{
    (void)state;
    struct rbt_hosts hosts = {0};
    assert_ok(parse("a slots=2\nb\nc slots=3\n", &hosts));
    const char *const servers[] = {"a", "b", "c", "a"};
    const char *const workers[] = {"a", "a", "b", "c", "c", "c", "a"};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(rbt_hosts_of_server(&hosts, i)->name, servers[i]);
    }
    for (size_t i = 0; i < 7; i++) {
        assert_string_equal(rbt_hosts_of_worker(&hosts, i)->name, workers[i]);
    }
    assert_int_equal(rbt_hosts_slots(&hosts), 6);
    rbt_hosts_deinit(&hosts);
}

static void a_host_listens_on_its_address(void **state)
{
    (void)state;
    char address[64];
    rbt_host_listen(&(struct rbt_host){.name = "node1"}, address, sizeof address);
    assert_string_equal(address, "node1:0");
    rbt_host_listen(&(struct rbt_host){.name = "node1", .address = "10.0.0.7"}, address,
                    sizeof address);
    assert_string_equal(address, "10.0.0.7:0");
    rbt_host_listen(&(struct rbt_host){.name = "node1", .address = "fe80::1"}, address,
                    sizeof address);
    assert_string_equal(address, "[fe80::1]:0");
}

static void ssh_gets_one_quoted_command(void **state)
{
    (void)state;
    char *const argv[] = {"/opt/my rubato", "server", "--listen", "it's", NULL};
    struct rbt_argv words = {0};
    rbt_host_command(&(struct rbt_host){.name = "node1"}, "ssh -o BatchMode=yes", argv, &words);
    assert_false(words.has_failed);
    assert_int_equal(words.count, 5);
    assert_string_equal(words.items[0], "ssh");
    assert_string_equal(words.items[3], "node1");
    assert_string_equal(words.items[4], "exec '/opt/my rubato' 'server' '--listen' 'it'\\''s'");
    rbt_argv_deinit(&words);
}

static void a_lack_of_memory_is_an_error(void **state)
{
    (void)state;
    const size_t live = rbt_alloc_live();
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        struct rbt_hosts hosts = {0};
        rbt_alloc_fail_nth(nth);
        st = parse("a\nb\n", &hosts);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        rbt_hosts_deinit(&hosts);
        assert_int_equal(rbt_alloc_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_host),
        cmocka_unit_test(mistakes_have_a_place),
        cmocka_unit_test(every_failed_system_call_is_told),
        cmocka_unit_test(servers_go_round_and_workers_fill_slots),
        cmocka_unit_test(a_host_listens_on_its_address),
        cmocka_unit_test(ssh_gets_one_quoted_command),
        cmocka_unit_test(a_lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
