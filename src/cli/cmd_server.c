/* cli/cmd_server.c - `rubato server`: a process that holds a part of the tables. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/interrupt.h"
#include "cli/role_line.h"
#include "net/address.h"
#include "net/member.h"
#include "server/server.h"

struct config {
    const char *coordinator;
    const char *listen;
    const char *advertise;
    int64_t threads;
    int64_t index;
    struct rbt_option_list plugins;
};

static const struct rbt_option options[] = {
    {.name = "coordinator",
     .type = RBT_OPTION_TEXT,
     .unit = "ADDR",
     .help = "Where the coordinator listens; also from RUBATO_COORDINATOR.",
     .offset = offsetof(struct config, coordinator)},
    {.name = "listen",
     .type = RBT_OPTION_TEXT,
     .unit = "ADDR",
     .help = "Address to listen on; by default next to the coordinator's socket, if that is on "
             "this host.",
     .offset = offsetof(struct config, listen)},
    {.name = "advertise",
     .type = RBT_OPTION_TEXT,
     .unit = "ADDR",
     .help = "Address for other processes to connect to, if it differs from --listen.",
     .offset = offsetof(struct config, advertise)},
    {.name = "threads",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_SHARDS_MAX,
     .value = "1",
     .help = "Threads; each has its own shard.",
     .offset = offsetof(struct config, threads)},
    {.name = "index",
     .type = RBT_OPTION_INT,
     .min = -1,
     .max = 255,
     .value = "-1",
     .help = "Number of this server, from 0; -1 takes the next free number.",
     .offset = offsetof(struct config, index)},
    {.name = "plugin",
     .type = RBT_OPTION_LIST,
     .unit = "PATH...",
     .help = "Shared objects, or directories of them, that jobs may use as rules, filters and "
             "priorities; the server loads no others.",
     .offset = offsetof(struct config, plugins)},
};

static void print_help(const struct rbt_option_table *tables)
{
    puts("Usage: rubato server --coordinator ADDR [options]\n\n"
         "Runs a server, which holds a part of a cluster's tables and ends with it.\n"
         "\"rubato run\" starts its servers by itself.\n\n"
         "Options:\n");
    rbt_option_help(stdout, &tables[0]);
    rbt_option_help(stdout, &tables[1]);
    puts("\nEvery option may also come from the environment (RUBATO_SERVER_THREADS=4); the\n"
         "command line wins.\n\n"
         "Examples:\n"
         "  rubato server --coordinator unix:/tmp/rubato.sock\n"
         "  rubato server --coordinator 10.0.0.1:7000 --listen 10.0.0.2:0 --key my.key");
}

/* Where to listen if nobody says: never where other hosts could reach it. */
static rbt_status choose_listen(const char *coordinator, int64_t index, char *address, size_t size)
{
    if (rbt_address_is_unix(coordinator)) {
        const char *slash = strrchr(coordinator, '/');
        const int folder = slash != NULL ? (int)(slash - coordinator) + 1 : (int)strlen("unix:");
        if (index >= 0) {
            snprintf(address, size, "%.*sserver-%lld", folder, coordinator, (long long)index);
        } else {
            snprintf(address, size, "%.*sserver-pid%lld", folder, coordinator, (long long)getpid());
        }
        return RBT_OK;
    }
    if (rbt_address_is_local(coordinator)) {
        snprintf(address, size, "127.0.0.1:0");
        return RBT_OK;
    }
    const rbt_status st =
        rbt_fail(RBT_E_INVALID,
                 "option \"--listen\" is missing, and the coordinator \"%s\" is not on "
                 "this host",
                 coordinator);
    return rbt_fail_hint(
        st, "Give the address of this host as seen by the other hosts: --listen HOST:0.");
}

static rbt_status serve(const struct config *config, struct rbt_role_line *role)
{
    const char *coordinator = NULL;
    char listen[RBT_ADDRESS_MAX];
    rbt_status st = rbt_role_line_coordinator(config->coordinator, &coordinator);
    if (st != RBT_OK) {
        return st;
    }
    if (config->listen == NULL) {
        st = choose_listen(coordinator, config->index, listen, sizeof listen);
    } else {
        snprintf(listen, sizeof listen, "%s", config->listen);
        st = rbt_address_check(config->listen);
    }
    st = st != RBT_OK || config->advertise == NULL ? st : rbt_address_check(config->advertise);
    st = st != RBT_OK ? st : rbt_role_line_begin(role);
    st = st != RBT_OK ? st : rbt_role_line_allow(role, coordinator);
    st = st != RBT_OK ? st : rbt_role_line_allow(role, listen);
    if (st != RBT_OK) {
        return st;
    }
    rbt_interrupt_start();
    st = rbt_server_run(&(struct rbt_server_options){
        .coordinator = coordinator,
        .security = role->security,
        .index = config->index < 0 ? RBT_INDEX_ANY : (int32_t)config->index,
        .threads = (uint32_t)config->threads,
        .listen = listen,
        .advertise = config->advertise,
        .start_timeout = rbt_role_line_time(role->start_timeout),
        .silence_max = rbt_role_line_time(role->timeout),
        .cut_max = rbt_role_line_cut(role),
        .log = stderr,
        .should_stop = rbt_interrupt_seen,
        .plugins = config->plugins.values,
        .plugin_count = config->plugins.count,
    });
    rbt_interrupt_stop();
    rbt_role_line_end(role);
    return st;
}

int rbt_cmd_server(int argc, char *const *argv)
{
    struct config config;
    struct rbt_role_line role = {0};
    const struct rbt_option_table tables[] = {
        {options, sizeof options / sizeof options[0], &config}, rbt_role_line_table(&role)};
    const struct rbt_option_command command = {
        .name = "rubato server", .tables = tables, .table_count = 2, .section = "SERVER"};
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        print_help(tables);
        return RBT_EXIT_OK;
    }
    st = st != RBT_OK ? st : serve(&config, &role);
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
