/* cli/run_plan.c - the processes of `rubato run`: their command lines, hosts and addresses.
 *
 * On one host everybody meets at Unix sockets in a private directory, whose names are known
 * beforehand. Over TCP the coordinator takes a free port and says which; the others wait for it. */
#include "cli/run_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "launch/child.h"

static const struct rbt_host nearby = {.name = "localhost", .slots = 1, .is_here = true};

int64_t rbt_run_plan_processes(const struct rbt_run_plan_options *options)
{
    return (options->workers + options->threads - 1) / options->threads;
}

static const struct rbt_host *host_of_worker(const struct rbt_run_plan_options *options, int64_t i)
{
    return options->hosts == NULL ? &nearby : rbt_hosts_of_worker(options->hosts, (uint64_t)i);
}

static const struct rbt_host *host_of_server(const struct rbt_run_plan_options *options, int64_t i)
{
    if (options->is_beside) {
        return host_of_worker(options, i % rbt_run_plan_processes(options));
    }
    return options->hosts == NULL ? &nearby : rbt_hosts_of_server(options->hosts, (uint64_t)i);
}

/* The TCP address, with any free port, of a process on the host. */
static rbt_status tcp_address(const struct rbt_run_plan_options *options,
                              const struct rbt_host *host, char *address, size_t size)
{
    struct rbt_host shown = *host;
    const bool is_nameless =
        host->is_here && host->address[0] == '\0' && strcmp(host->name, "localhost") == 0;
    if (host->is_here && options->listen != NULL) {
        snprintf(shown.address, sizeof shown.address, "%s", options->listen);
    } else if (is_nameless && options->hosts != NULL && rbt_hosts_has_far(options->hosts)) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "other hosts cannot connect to the name \"localhost\"");
        return rbt_fail_hint(
            st, "Add address=IP to its line in the file of hosts, or give \"--listen IP\".");
    } else if (is_nameless) {
        snprintf(shown.address, sizeof shown.address, "127.0.0.1");
    }
    rbt_host_listen(&shown, address, size);
    return RBT_OK;
}

/* What all processes have. */
static void add_common(const struct rbt_run_plan_options *options, struct rbt_argv *words)
{
    rbt_argv_add(words, "--start-timeout=%g", options->start_timeout);
    rbt_argv_add(words, "--timeout=%g", options->timeout);
    if (options->is_quiet) {
        rbt_argv_add(words, "--quiet");
    }
    rbt_argv_add(words, "--die-with-stdin");
}

/* Where servers and worker processes find the coordinator. */
static void add_coordinator(const struct rbt_run_plan_options *options, struct rbt_argv *words)
{
    rbt_argv_add(words, "--coordinator");
    if (options->coordinator != NULL) {
        rbt_argv_add_word(words, options->coordinator);
    } else if (options->directory != NULL) {
        rbt_argv_add(words, "unix:%s/coordinator", options->directory);
    } else {
        rbt_argv_add(words, RBT_LAUNCH_ADDRESS);
    }
}

static rbt_status describe_coordinator(const struct rbt_run_plan_options *options,
                                       struct rbt_argv *words)
{
    rbt_argv_add(words, "coordinator");
    rbt_argv_add(words, "--once");
    rbt_argv_add(words, "--servers=%lld", (long long)options->servers);
    rbt_argv_add(words, "--listen");
    rbt_status st = RBT_OK;
    if (options->coordinator != NULL) {
        rbt_argv_add_word(words, options->coordinator);
    } else if (options->directory != NULL) {
        rbt_argv_add(words, "unix:%s/coordinator", options->directory);
    } else {
        char address[RBT_HOST_NAME + 8];
        st = tcp_address(options, host_of_server(options, 0), address, sizeof address);
        rbt_argv_add(words, "%s", st == RBT_OK ? address : "");
    }
    add_common(options, words);
    return st;
}

/* What a server may load. */
static void add_plugins(const struct rbt_run_plan_options *options, struct rbt_argv *words)
{
    for (size_t i = 0; i < options->plugin_count; i++) {
        rbt_argv_add(words, "--plugin=%s", options->plugins[i]);
    }
}

/* Where a server listens, behind the name of the option that says so. */
static rbt_status add_listen(const struct rbt_run_plan_options *options, int64_t index,
                             const char *option, struct rbt_argv *words)
{
    const struct rbt_host *host =
        options->is_colocated ? host_of_worker(options, index) : host_of_server(options, index);
    if (options->directory != NULL) {
        rbt_argv_add(words, "--%s=unix:%s/server-%lld", option, options->directory,
                     (long long)index);
        return RBT_OK;
    }
    char address[RBT_HOST_NAME + 8];
    const rbt_status st = tcp_address(options, host, address, sizeof address);
    rbt_argv_add(words, "--%s=%s", option, st == RBT_OK ? address : "");
    return st;
}

static rbt_status describe_server(const struct rbt_run_plan_options *options, int64_t index,
                                  struct rbt_argv *words)
{
    rbt_argv_add(words, "server");
    rbt_argv_add(words, "--index=%lld", (long long)index);
    rbt_argv_add(words, "--threads=%lld", (long long)options->server_threads);
    const rbt_status st = add_listen(options, index, "listen", words);
    add_plugins(options, words);
    add_coordinator(options, words);
    add_common(options, words);
    return st;
}

static rbt_status describe_worker(const struct rbt_run_plan_options *options, int64_t index,
                                  struct rbt_argv *words)
{
    rbt_status st = RBT_OK;
    const int64_t left = options->workers - index * options->threads;
    RBT_ASSERT(left > 0);
    rbt_argv_add(words, "worker");
    rbt_argv_add(words, "--index=%lld", (long long)index);
    rbt_argv_add(words, "--workers=%lld", (long long)options->workers);
    rbt_argv_add(words, "--threads=%lld",
                 (long long)(left < options->threads ? left : options->threads));
    add_coordinator(options, words);
    add_common(options, words);
    if (options->compress != NULL) {
        rbt_argv_add(words, "--compress=%s", options->compress);
    }
    if (options->is_colocated && index < options->servers) {
        st = add_listen(options, index, "serve", words);
        add_plugins(options, words);
    }
    rbt_argv_add(words, "--");
    rbt_argv_add_all(words, options->job);
    return st;
}

/* What the process reads first. */
static void describe_input(const struct rbt_run_plan_options *options, const struct rbt_host *host,
                           bool is_plain, struct rbt_text_buffer *text)
{
    char terminal[32];
    snprintf(terminal, sizeof terminal, "RUBATO_TERMINAL=%d", options->columns);
    struct rbt_child_message message = {.key = options->key};
    message.terminal = is_plain && options->columns > 0 ? terminal : NULL;
    if (host->is_here) {
        message.parent = options->parent;
    } else {
        message.directory = options->folder;
        message.settings = options->environment;
    }
    rbt_child_write(&message, text);
}

/* Puts the parts of one process together: what to run becomes what runs it there. */
static rbt_status finish(const struct rbt_run_plan_options *options, const struct rbt_host *host,
                         struct rbt_run_plan_member *member, struct rbt_launch_process *process)
{
    describe_input(options, host, process->is_plain, &member->input);
    if (!host->is_here) {
        struct rbt_argv far = {0};
        rbt_host_command(host, options->ssh, member->words.items, &far);
        far.has_failed = far.has_failed || member->words.has_failed;
        rbt_argv_deinit(&member->words);
        member->words = far;
    }
    process->name = member->name;
    process->host = host->is_here ? options->own_name : host->name;
    process->argv = member->words.items;
    process->input = rbt_text_data(&member->input);
    process->is_remote = !host->is_here;
    return member->words.has_failed || member->input.has_failed
               ? rbt_fail(RBT_E_NOMEM, "could not allocate the command line of %s", member->name)
               : RBT_OK;
}

/* The number `i` of all. */
static rbt_status describe(const struct rbt_run_plan_options *options, size_t i,
                           struct rbt_run_plan_member *member, struct rbt_launch_process *process)
{
    const int64_t server = (int64_t)i - 1;
    const int64_t worker = options->is_colocated ? server : server - options->servers;
    const struct rbt_host *host = host_of_server(options, server < 0 ? 0 : server);
    if (i > 0 && worker >= 0) {
        host = host_of_worker(options, worker);
    }
    rbt_status st = RBT_OK;
    rbt_argv_add_word(&member->words, host->is_here ? options->program : options->far_program);
    if (i == 0) {
        snprintf(member->name, sizeof member->name, "coordinator");
        st = describe_coordinator(options, &member->words);
    } else if (worker < 0) {
        snprintf(member->name, sizeof member->name, "server/%lld", (long long)server);
        st = describe_server(options, server, &member->words);
    } else {
        snprintf(member->name, sizeof member->name, "worker/%lld", (long long)worker);
        st = describe_worker(options, worker, &member->words);
        process->is_worker = true;
        process->is_plain = worker == 0;
        process->is_ordered = process->is_plain && options->is_ordered;
    }
    return st != RBT_OK ? st : finish(options, host, member, process);
}

rbt_status rbt_run_plan_build(const struct rbt_run_plan_options *options, struct rbt_run_plan *plan)
{
    RBT_ASSERT(options->workers > 0);
    RBT_ASSERT(options->threads > 0);
    RBT_ASSERT(options->servers > 0);
    const int64_t servers = options->is_colocated ? 0 : options->servers;
    const size_t count = (size_t)(1 + servers + rbt_run_plan_processes(options));
    if (options->is_colocated && options->servers > rbt_run_plan_processes(options)) {
        return rbt_fail(RBT_E_INVALID, "%lld servers do not fit into %lld worker processes",
                        (long long)options->servers, (long long)rbt_run_plan_processes(options));
    }
    if (options->is_colocated && options->server_threads != 1) {
        return rbt_fail(RBT_E_INVALID,
                        "options \"--colocate\" and \"--server-threads\" exclude each other");
    }
    struct rbt_run_plan made = {.count = count};
    made.processes = rbt_calloc(count, sizeof *made.processes);
    made.members = rbt_calloc(count, sizeof *made.members);
    rbt_status st = RBT_OK;
    if (made.processes == NULL || made.members == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate %zu processes", count);
    }
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        st = describe(options, i, &made.members[i], &made.processes[i]);
    }
    if (st != RBT_OK) {
        rbt_run_plan_deinit(&made);
        return st;
    }
    *plan = made;
    return RBT_OK;
}

void rbt_run_plan_deinit(struct rbt_run_plan *plan)
{
    for (size_t i = 0; plan->members != NULL && i < plan->count; i++) {
        rbt_argv_deinit(&plan->members[i].words);
        rbt_text_deinit(&plan->members[i].input);
    }
    rbt_free(plan->members);
    rbt_free(plan->processes);
    *plan = (struct rbt_run_plan){0};
}
