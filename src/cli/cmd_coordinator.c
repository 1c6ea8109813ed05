/* cli/cmd_coordinator.c - `rubato coordinator`: the process that knows who is there. */
#include <stdio.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/option.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/interrupt.h"
#include "cli/role_line.h"
#include "coordinator/coordinator.h"
#include "net/address.h"

struct config {
    const char *listen;
    int64_t servers;
    bool is_once;
};

static const struct rbt_option options[] = {
    {.name = "listen",
     .type = RBT_OPTION_TEXT,
     .unit = "ADDR",
     .help = "Address to listen on: HOST:PORT (port 0 is any free port) or unix:PATH.",
     .offset = offsetof(struct config, listen)},
    {.name = "servers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_SHARDS_MAX,
     .value = "1",
     .help = "Servers of the cluster; jobs start when all have joined.",
     .offset = offsetof(struct config, servers)},
    {.name = "once",
     .type = RBT_OPTION_FLAG,
     .help = "End, and end the servers, after the first job.",
     .offset = offsetof(struct config, is_once)},
};

static void print_help(const struct rbt_option_table *tables)
{
    puts("Usage: rubato coordinator --listen ADDR --servers N [options]\n\n"
         "Runs the coordinator of a cluster, which admits servers and jobs and detects\n"
         "lost processes. \"rubato run\" starts one by itself.\n\n"
         "Options:\n");
    rbt_option_help(stdout, &tables[0]);
    rbt_option_help(stdout, &tables[1]);
    puts("\nEvery option may also come from the environment (RUBATO_COORDINATOR_LISTEN); the\n"
         "command line wins.\n\n"
         "Examples:\n"
         "  rubato coordinator --listen unix:/tmp/rubato.sock --servers 2\n"
         "  rubato coordinator --listen 10.0.0.1:7000 --servers 4 --key cluster.key");
}

/* The launcher reads this. */
static void say_address(const char *address)
{
    fprintf(stderr, "listening on %s\n", address);
}

static rbt_status check(const struct config *config)
{
    if (config->listen != NULL) {
        return rbt_address_check(config->listen);
    }
    const rbt_status st = rbt_fail(RBT_E_INVALID, "option \"--listen\" is missing");
    return rbt_fail_hint(
        st, "Give the address to listen on: --listen HOST:PORT or --listen unix:PATH.");
}

static rbt_status serve(const struct config *config, struct rbt_role_line *role)
{
    rbt_status st = check(config);
    st = st != RBT_OK ? st : rbt_role_line_begin(role);
    st = st != RBT_OK ? st : rbt_role_line_allow(role, config->listen);
    if (st != RBT_OK) {
        return st;
    }
    rbt_interrupt_start();
    st = rbt_coordinator_run(&(struct rbt_coordinator_options){
        .listen = config->listen,
        .security = role->security,
        .server_count = (uint32_t)config->servers,
        .is_once = config->is_once,
        .start_timeout = rbt_role_line_time(role->start_timeout),
        .silence_max = rbt_role_line_time(role->timeout),
        .cut_max = rbt_role_line_cut(role),
        .log = stderr,
        .should_stop = rbt_interrupt_seen,
        .on_listen = role->is_quiet && !role->is_child ? NULL : say_address,
    });
    rbt_interrupt_stop();
    rbt_role_line_end(role);
    return st;
}

int rbt_cmd_coordinator(int argc, char *const *argv)
{
    struct config config;
    struct rbt_role_line role = {0};
    const struct rbt_option_table tables[] = {
        {options, sizeof options / sizeof options[0], &config}, rbt_role_line_table(&role)};
    const struct rbt_option_command command = {
        .name = "rubato coordinator", .tables = tables, .table_count = 2, .section = "COORDINATOR"};
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        print_help(tables);
        return RBT_EXIT_OK;
    }
    st = st != RBT_OK ? st : serve(&config, &role);
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
