/* cli/runlog.c - the log of a run (--log): one JSON object per line. */
#include "cli/runlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rubato/version.h>

#include "base/error.h"
#include "base/io.h"

enum { NODES_MAX = 64 }; /* of whose traffic the log tells again and again */

rbt_status rbt_runlog_open(const char *path, struct rbt_runlog *log)
{
    *log = (struct rbt_runlog){.path = path};
    if (path == NULL) {
        return RBT_OK;
    }
    int fd = rbt_io_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    log->is_new = fd >= 0;
    if (fd < 0 && errno == EEXIST) {
        fd = rbt_io_open(path, O_WRONLY | O_CLOEXEC, 0);
    }
    if (fd >= 0) {
        log->file = fdopen(fd, "w");
    }
    if (log->file == NULL) {
        const rbt_status st = rbt_fail(RBT_E_IO, "could not write log \"%s\"", path);
        if (fd >= 0) {
            (void)close(fd); /* nothing was written */
        }
        return st;
    }
    return RBT_OK;
}

rbt_status rbt_runlog_close(struct rbt_runlog *log)
{
    rbt_json_deinit(&log->json);
    if (log->file == NULL) {
        return RBT_OK;
    }
    if (log->is_new && !log->is_started) {
        (void)unlink(log->path); /* at worst an empty file stays */
    }
    const int result = rbt_io_finish(log->file);
    log->file = NULL;
    return result == 0 ? RBT_OK : rbt_fail(RBT_E_IO, "could not write log \"%s\"", log->path);
}

/* Ends the object and prints it. */
static rbt_status print(struct rbt_runlog *log)
{
    rbt_json_end(&log->json, '}');
    const rbt_status st = rbt_json_print(&log->json, log->file);
    if (st != RBT_E_IO) {
        log->size = st == RBT_OK ? lseek(fileno(log->file), 0, SEEK_CUR) : log->size;
        return st;
    }
    const rbt_status failed = rbt_fail(st, "could not write log \"%s\"", log->path);
    const int fd = fileno(log->file);
    __fpurge(log->file); /* what could not be written must not be tried again by closing */
    if (log->size >= 0 && rbt_io_truncate(fd, log->size) == 0) {
        (void)lseek(fd, log->size, SEEK_SET); /* else part of a line stays, as after a crash */
    }
    return failed;
}

static void add_option(struct rbt_json *json, const struct rbt_option *option, const void *config)
{
    const void *value = (const char *)config + option->offset;
    const struct rbt_option_list *list = NULL;
    switch (option->type) {
    case RBT_OPTION_INT:
        rbt_json_int(json, option->name, *(const int64_t *)value);
        return;
    case RBT_OPTION_REAL:
    case RBT_OPTION_TIME:
    case RBT_OPTION_RATE:
        rbt_json_real(json, option->name, *(const double *)value);
        return;
    case RBT_OPTION_TEXT:
        rbt_json_text(json, option->name, *(const char *const *)value);
        return;
    case RBT_OPTION_FLAG:
        rbt_json_flag(json, option->name, *(const bool *)value);
        return;
    case RBT_OPTION_CHOICE:
        rbt_json_text(json, option->name, option->choices[*(const int32_t *)value]);
        return;
    case RBT_OPTION_LIST:
        list = value;
        rbt_json_begin(json, option->name, '[');
        for (size_t i = 0; i < list->count; i++) {
            rbt_json_text(json, NULL, list->values[i]);
        }
        rbt_json_end(json, ']');
        return;
    }
}

static void add_table(struct rbt_json *json, const struct rbt_option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        add_option(json, &table->options[i], table->config);
    }
}

static void add_config(struct rbt_json *json, const struct rbt_runlog_start *start)
{
    rbt_json_begin(json, "config", '{');
    rbt_json_text(json, "algo", start->algo);
    for (size_t t = 0; t < start->table_count; t++) {
        add_table(json, &start->tables[t]);
    }
    rbt_json_end(json, '}');
    if (start->cluster != NULL) {
        rbt_json_begin(json, "cluster", '{');
        add_table(json, start->cluster);
        rbt_json_end(json, '}');
    }
}

/* When the run began: a date, or 0, where virtual time begins. */
static void add_time(struct rbt_json *json, const struct rbt_runlog_start *start)
{
    if (start->cluster != NULL) {
        rbt_json_int(json, "time", 0);
        return;
    }
    char now[32] = "";
    struct tm parts;
    const time_t seconds = time(NULL);
    if (gmtime_r(&seconds, &parts) != NULL) {
        strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    rbt_json_text(json, "time", now);
}

rbt_status rbt_runlog_start(struct rbt_runlog *log, const struct rbt_runlog_start *start)
{
    if (log->file == NULL) {
        return RBT_OK;
    }
    struct stat info;
    if (fstat(fileno(log->file), &info) == 0 && S_ISREG(info.st_mode) &&
        rbt_io_truncate(fileno(log->file), 0) != 0) {
        return rbt_fail(RBT_E_IO, "could not write log \"%s\"", log->path);
    }
    log->is_started = true;
    struct rbt_json *json = &log->json;
    rbt_json_begin(json, NULL, '{');
    rbt_json_text(json, "event", "start");
    add_time(json, start);
    rbt_json_text(json, "version", RBT_VERSION);
    rbt_json_begin(json, "argv", '[');
    rbt_json_text(json, NULL, "rubato");
    rbt_json_text(json, NULL, start->command);
    for (int i = 0; i < start->argc; i++) {
        rbt_json_text(json, NULL, start->argv[i]);
    }
    rbt_json_end(json, ']');
    add_config(json, start);
    return print(log);
}

rbt_status rbt_runlog_eval(struct rbt_runlog *log, const struct rbt_train_event *event)
{
    if (log->file == NULL) {
        return RBT_OK;
    }
    struct rbt_json *json = &log->json;
    rbt_json_begin(json, NULL, '{');
    rbt_json_text(json, "event", "eval");
    rbt_json_real(json, "t", event->t);
    rbt_json_real(json, "epoch", event->epoch);
    rbt_json_int(json, "clock", event->clock);
    rbt_json_count(json, "examples", event->examples);
    rbt_json_real(json, "objective", event->objective);
    rbt_summary_metrics(json, "eval", &event->eval);
    if (event->by_worker.count > 0) {
        rbt_summary_metrics(json, "by_worker", &event->by_worker);
    }
    rbt_json_real(json, "lag_mean", event->lag_mean);
    rbt_json_int(json, "lag_max", event->lag_max);
    rbt_json_int(json, "clock_min", event->clock_min);
    rbt_json_int(json, "clock_max", event->clock_max);
    rbt_json_int(json, "staleness", event->staleness);
    rbt_json_count(json, "bytes", event->bytes);
    if (event->stats != NULL) {
        rbt_summary_lags(json, event->stats);
        rbt_json_count(json, "workers", event->stats->workers);
        rbt_summary_traffic(json, event->stats);
        rbt_summary_filters(json, event->stats);
    }
    return print(log);
}

rbt_status rbt_runlog_node(struct rbt_runlog *log, double t, const char *node, const char *state)
{
    if (log->file == NULL) {
        return RBT_OK;
    }
    struct rbt_json *json = &log->json;
    rbt_json_begin(json, NULL, '{');
    rbt_json_text(json, "event", "node");
    rbt_json_real(json, "t", t);
    rbt_json_text(json, "node", node);
    rbt_json_text(json, "state", state);
    return print(log);
}

static rbt_status print_worker(struct rbt_runlog *log, double t, uint32_t index,
                               const struct rbt_simulation_worker *worker)
{
    struct rbt_json *json = &log->json;
    rbt_json_begin(json, NULL, '{');
    rbt_json_text(json, "event", "worker");
    rbt_json_real(json, "t", t);
    rbt_json_count(json, "worker", index);
    rbt_json_int(json, "clocks", worker->clocks);
    rbt_json_real(json, "compute", worker->compute_seconds);
    rbt_json_real(json, "transmit", worker->transmit_seconds);
    rbt_json_real(json, "wait", worker->wait_seconds);
    rbt_json_real(json, "idle", worker->idle_seconds);
    rbt_json_real(json, "factor", worker->factor);
    return print(log);
}

static rbt_status print_traffic(struct rbt_runlog *log, double t,
                                const struct rbt_simulation_node *node)
{
    struct rbt_json *json = &log->json;
    rbt_json_begin(json, NULL, '{');
    rbt_json_text(json, "event", "traffic");
    rbt_json_real(json, "t", t);
    rbt_json_text(json, "node", node->name);
    rbt_json_count(json, "bytes_sent", node->bytes_sent);
    rbt_json_count(json, "bytes_received", node->bytes_received);
    return print(log);
}

/* One line for each node, and for the links of each rack. */
static rbt_status print_nodes(struct rbt_runlog *log, const rbt_simulation *simulation)
{
    rbt_status st = RBT_OK;
    struct rbt_simulation_stats stats = {.struct_size = sizeof stats};
    struct rbt_simulation_node node = {.struct_size = sizeof node};
    rbt_simulation_stats(simulation, &stats);
    for (uint32_t i = 0; st == RBT_OK && rbt_simulation_node(simulation, i, &node) == RBT_OK; i++) {
        st = print_traffic(log, stats.seconds, &node);
    }
    struct rbt_simulation_rack rack = {.struct_size = sizeof rack};
    for (uint32_t i = 0; st == RBT_OK && rbt_simulation_rack(simulation, i, &rack) == RBT_OK; i++) {
        node = (struct rbt_simulation_node){.bytes_sent = rack.bytes_sent,
                                            .bytes_received = rack.bytes_received};
        snprintf(node.name, sizeof node.name, "rack/%u", i);
        st = print_traffic(log, stats.seconds, &node);
    }
    return st;
}

rbt_status rbt_runlog_traffic(struct rbt_runlog *log, const rbt_simulation *simulation)
{
    struct rbt_simulation_node beyond = {.struct_size = sizeof beyond};
    const bool is_large = rbt_simulation_node(simulation, NODES_MAX, &beyond) == RBT_OK;
    return log->file == NULL || is_large ? RBT_OK : print_nodes(log, simulation);
}

rbt_status rbt_runlog_simulation(struct rbt_runlog *log, const rbt_simulation *simulation,
                                 uint32_t workers)
{
    rbt_status st = RBT_OK;
    struct rbt_simulation_stats stats = {.struct_size = sizeof stats};
    rbt_simulation_stats(simulation, &stats);
    for (uint32_t i = 0; log->file != NULL && st == RBT_OK && i < workers; i++) {
        struct rbt_simulation_worker worker = {.struct_size = sizeof worker};
        rbt_simulation_worker(simulation, i, &worker);
        st = print_worker(log, stats.seconds, i, &worker);
    }
    return log->file == NULL || st != RBT_OK ? st : print_nodes(log, simulation);
}

rbt_status rbt_runlog_end(struct rbt_runlog *log, const struct rbt_runlog_end *end)
{
    if (log->file == NULL) {
        return RBT_OK;
    }
    struct rbt_json *json = &log->json;
    rbt_json_begin(json, NULL, '{');
    rbt_json_text(json, "event", "end");
    rbt_json_real(json, "t", end->t);
    rbt_json_text(json, "status", end->status);
    if (end->error != NULL) {
        rbt_json_text(json, "error", end->error);
    }
    if (end->summary != NULL) {
        rbt_summary_json(json, "summary", end->summary, end->summary->simulation != NULL);
    }
    return print(log);
}
