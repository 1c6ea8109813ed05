/* cli/cmd_bench.c - `rubato bench NAME`: what the system itself can do, as a table or as JSON.
 *
 * Figures for one worker have plain names; those for N workers of the same run end in _wN. A ratio
 * is named after its figure, without the unit: dense_pull_gb_s of its limit is dense_pull_of_limit.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rubato/version.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/option.h"
#include "base/text.h"
#include "base/thread.h"
#include "cli/bench_cost.h"
#include "cli/bench_net.h"
#include "cli/bench_ps.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/summary.h"

enum {
    RUNS_MAX = 2,
    LISTS = 256, /* of keys, used in turn */
};

struct config {
    int64_t rows;
    int64_t width;
    int64_t keys;
    int64_t workers;
    int64_t servers;
    double seconds;
    bool in_processes;
    int32_t transport; /* enum rbt_bench_transport */
    int64_t size;
    int64_t examples;
    int32_t summary; /* enum rbt_summary_format */
};

#define AT(field) offsetof(struct config, field)

/* Every benchmark has it. */
#define SUMMARY_OPTION                                                                             \
    {                                                                                              \
        .name = "summary", .type = RBT_OPTION_CHOICE, .value = "text",                             \
        .choices = rbt_names_summary, .help = "Format of the figures.", .offset = AT(summary)      \
    }

#define TRANSPORT_OPTION                                                                           \
    {                                                                                              \
        .name = "transport", .type = RBT_OPTION_CHOICE, .value = "unix",                           \
        .choices = rbt_bench_transports, .help = "How processes talk.", .offset = AT(transport)    \
    }

static const struct rbt_option ps_options[] = {
    {.name = "rows",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e6,
     .value = "64",
     .help = "Dense rows per worker; tests of other row sizes use an equal number of bytes.",
     .offset = AT(rows)},
    {.name = "width",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1e8,
     .value = "262144",
     .help = "Elements (f32) of a dense row.",
     .offset = AT(width)},
    {.name = "keys",
     .type = RBT_OPTION_INT,
     .min = 1000,
     .max = 1e9,
     .value = "10M",
     .help = "Keys of the sparse table; lists have 100000 keys, or a tenth of all.",
     .offset = AT(keys)},
    {.name = "workers",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = RBT_BENCH_WORKERS_MAX,
     .value = "0",
     .help = "Worker threads; 0 measures 1, then 2.",
     .offset = AT(workers)},
    {.name = "servers",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = RBT_JOB_SHARDS_MAX,
     .value = "0",
     .help = "Shards; 0 is one per worker.",
     .offset = AT(servers)},
    {.name = "seconds",
     .type = RBT_OPTION_REAL,
     .min = 0.001,
     .max = 3600,
     .value = "0.5",
     .help = "Time for each figure.",
     .offset = AT(seconds)},
    {.name = "processes",
     .type = RBT_OPTION_FLAG,
     .help = "Run every server as a process, with one shard each.",
     .offset = AT(in_processes)},
    TRANSPORT_OPTION,
    SUMMARY_OPTION,
};

static const struct rbt_option net_options[] = {
    {.name = "seconds",
     .type = RBT_OPTION_REAL,
     .min = 0.001,
     .max = 3600,
     .value = "2",
     .help = "Time for each figure.",
     .offset = AT(seconds)},
    {.name = "size",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 16777216,
     .value = "0",
     .unit = "BYTES",
     .help = "Measure only rows of 4Ki, 64Ki, 1Mi or 16Mi bytes, and no round trips; 0 measures "
             "everything.",
     .offset = AT(size)},
    TRANSPORT_OPTION,
    SUMMARY_OPTION,
};

static const struct rbt_option cost_options[] = {
    {.name = "examples",
     .type = RBT_OPTION_INT,
     .min = 50000, /* fewer users and items could not give so many ratings */
     .max = 1e8,
     .value = "200k",
     .help = "Examples or ratings of the largest data set.",
     .offset = AT(examples)},
    SUMMARY_OPTION,
};

/* What figures are worth nothing without. */
struct machine {
    char cpu[128];
    uint32_t cores;
    double load[3]; /* before the benchmark: 1, 5, 15 minutes */
};

static void look_at_machine(struct machine *machine)
{
    *machine = (struct machine){.cpu = "unknown processor", .cores = rbt_thread_cores()};
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            snprintf(machine->cpu, sizeof machine->cpu, "%.127s", strchr(line, ':') + 2);
            machine->cpu[strcspn(machine->cpu, "\n")] = '\0';
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file); /* only read */
    }
    (void)getloadavg(machine->load, 3); /* zeros if it is not known */
}

/* "dense_pull_gb_s" -> "dense_pull": what stands before the unit. */
static size_t stem_of(const char *name)
{
    static const char *const units[] = {"_gb_s", "_mkeys_s", "_maccess_s"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const size_t unit = strlen(units[i]);
        if (length > unit && strcmp(name + length - unit, units[i]) == 0) {
            return length - unit;
        }
    }
    return length;
}

static void suffix_of(const struct rbt_bench_run *run, bool is_first, char suffix[16])
{
    suffix[0] = '\0';
    if (!is_first) {
        snprintf(suffix, 16, "_w%u", run->workers);
    }
}

static void add_figures(struct rbt_json *json, const struct rbt_bench_run *run, const char *suffix)
{
    char name[80];
    for (size_t i = 0; i < RBT_BENCH_FIGURE_COUNT; i++) {
        const struct rbt_bench_figure_info *info = &rbt_bench_figures[i];
        snprintf(name, sizeof name, "%s%s", info->name, suffix);
        rbt_json_real(json, name, rbt_bench_median(&run->figures[i]));
        if ((size_t)info->limit != i) {
            snprintf(name, sizeof name, "%.*s_of_limit%s", (int)stem_of(info->name), info->name,
                     suffix);
            rbt_json_real(json, name,
                          rbt_bench_ratio(&run->figures[i], &run->figures[info->limit]));
        }
    }
    snprintf(name, sizeof name, "dense%s", suffix);
    rbt_json_begin(json, name, '[');
    for (size_t i = 0; i < RBT_BENCH_SIZES; i++) {
        const struct rbt_bench_dense *dense = &run->dense[i];
        rbt_json_begin(json, NULL, '{');
        rbt_json_count(json, "row_bytes", dense->row_bytes);
        rbt_json_count(json, "rows", dense->rows);
        rbt_json_real(json, "limit_copy_gb_s", rbt_bench_median(&dense->copy));
        rbt_json_real(json, "dense_pull_gb_s", rbt_bench_median(&dense->pull));
        rbt_json_real(json, "dense_push_gb_s", rbt_bench_median(&dense->push));
        rbt_json_real(json, "dense_pull_of_limit", rbt_bench_ratio(&dense->pull, &dense->copy));
        rbt_json_real(json, "dense_push_of_limit", rbt_bench_ratio(&dense->push, &dense->copy));
        rbt_json_end(json, '}');
    }
    rbt_json_end(json, ']');
}

/* What every benchmark's object begins with. */
static void begin_json(struct rbt_json *json, const char *name, const struct machine *machine)
{
    rbt_json_begin(json, NULL, '{');
    rbt_json_text(json, "benchmark", name);
    rbt_json_text(json, "version", RBT_VERSION);
    rbt_json_text(json, "cpu", machine->cpu);
    rbt_json_count(json, "cores", machine->cores);
    rbt_json_real(json, "load", machine->load[0]);
}

static void print_machine(const struct machine *machine)
{
    printf("rubato %s on %s, %u cores, load %.2f %.2f %.2f\n", RBT_VERSION, machine->cpu,
           machine->cores, machine->load[0], machine->load[1], machine->load[2]);
}

static rbt_status print_json(const struct config *config, const struct machine *machine,
                             const struct rbt_bench_run *runs, size_t run_count)
{
    struct rbt_json json = {0};
    begin_json(&json, "ps", machine);
    rbt_json_int(&json, "rows", config->rows);
    rbt_json_int(&json, "width", config->width);
    rbt_json_int(&json, "keys", config->keys);
    rbt_json_real(&json, "seconds", config->seconds);
    if (config->in_processes) {
        rbt_json_text(&json, "transport", rbt_bench_transports[config->transport]);
        rbt_json_real(&json, "set_pull_bytes_per_key", runs[0].set_pull_bytes);
        rbt_json_real(&json, "set_push_bytes_per_key", runs[0].set_push_bytes);
    }
    for (size_t i = 0; i < run_count; i++) {
        char suffix[16];
        char name[32];
        suffix_of(&runs[i], i == 0, suffix);
        snprintf(name, sizeof name, "workers%s", suffix);
        rbt_json_count(&json, name, runs[i].workers);
        snprintf(name, sizeof name, "servers%s", suffix);
        rbt_json_count(&json, name, runs[i].servers);
        add_figures(&json, &runs[i], suffix);
    }
    rbt_json_end(&json, '}');
    const rbt_status st = rbt_json_print(&json, stdout);
    rbt_json_deinit(&json);
    return st;
}

static void print_run(const struct rbt_bench_run *run)
{
    printf("\n%u worker%s, %u shard%s: figures per worker, median of %d (smallest to largest)\n",
           run->workers, run->workers == 1 ? "" : "s", run->servers, run->servers == 1 ? "" : "s",
           (int)RBT_BENCH_REPETITIONS);
    for (size_t i = 0; i < RBT_BENCH_FIGURE_COUNT; i++) {
        const struct rbt_bench_figure_info *info = &rbt_bench_figures[i];
        const struct rbt_bench_series *series = &run->figures[i];
        printf("  %-22s %8.3g (%.3g to %.3g)", info->name, rbt_bench_median(series),
               rbt_bench_smallest(series), rbt_bench_largest(series));
        if ((size_t)info->limit != i) {
            printf(", %.0f%% of the limit",
                   100 * rbt_bench_ratio(series, &run->figures[info->limit]));
        }
        printf("; %s\n", info->text);
    }
    puts("  dense rows, GB/s       memcpy      pull      push   of memcpy");
    for (size_t i = 0; i < RBT_BENCH_SIZES; i++) {
        const struct rbt_bench_dense *dense = &run->dense[i];
        char rows[RBT_TEXT_SHORT];
        rbt_text_from_bytes((double)dense->row_bytes, rows);
        printf("  %8zu of %-9s  %8.3g  %8.3g  %8.3g   %.0f%%, %.0f%%\n", dense->rows, rows,
               rbt_bench_median(&dense->copy), rbt_bench_median(&dense->pull),
               rbt_bench_median(&dense->push), 100 * rbt_bench_ratio(&dense->pull, &dense->copy),
               100 * rbt_bench_ratio(&dense->push, &dense->copy));
    }
}

static void print_text(const struct config *config, const struct machine *machine,
                       const struct rbt_bench_run *runs, size_t run_count)
{
    print_machine(machine);
    printf("%lld dense rows of %lld f32 per worker; lists out of %lld keys of width 1; %.3g s for "
           "each figure\n",
           (long long)config->rows, (long long)config->width, (long long)config->keys,
           config->seconds);
    for (size_t i = 0; i < run_count; i++) {
        print_run(&runs[i]);
        if (config->in_processes) {
            printf(
                "  on the wire, over %s: %.2f bytes per key of a declared pull, %.2f of a push\n",
                rbt_bench_transports[config->transport], runs[i].set_pull_bytes,
                runs[i].set_push_bytes);
        }
    }
}

static rbt_status run_ps(const struct config *config)
{
    const uint32_t counts[RUNS_MAX] = {config->workers > 0 ? (uint32_t)config->workers : 1, 2};
    const size_t run_count = config->workers > 0 ? 1 : RUNS_MAX;
    struct machine machine;
    look_at_machine(&machine);
    struct rbt_limit_keys keys = {0};
    struct rbt_bench_run runs[RUNS_MAX];
    rbt_status st = rbt_limit_keys_init(&keys, (uint64_t)config->keys, LISTS);
    for (size_t i = 0; st == RBT_OK && i < run_count; i++) {
        const struct rbt_bench_ps_options options = {
            .workers = counts[i],
            .servers = config->servers > 0 ? (uint32_t)config->servers : counts[i],
            .rows = (uint64_t)config->rows,
            .width = (uint32_t)config->width,
            .seconds = config->seconds,
            .in_processes = config->in_processes,
            .transport = (enum rbt_bench_transport)config->transport};
        st = rbt_bench_ps(&options, &keys, &runs[i]);
    }
    rbt_limit_keys_deinit(&keys);
    if (st == RBT_OK && config->summary == RBT_SUMMARY_JSON) {
        st = print_json(config, &machine, runs, run_count);
    } else if (st == RBT_OK) {
        print_text(config, &machine, runs, run_count);
    }
    return st;
}

static void add_net(struct rbt_json *json, const struct rbt_bench_net *net)
{
    rbt_json_text(json, "transport", rbt_bench_transports[net->transport]);
    rbt_json_real(json, "limit_trip_us", rbt_bench_median(&net->raw_free));
    rbt_json_real(json, "pull_us_p50", rbt_bench_median(&net->pull_free));
    rbt_json_real(json, "pull_us_p99", rbt_bench_median(&net->pull_free_p99));
    rbt_json_real(json, "limit_trip_us_one_core", rbt_bench_median(&net->raw_pinned));
    rbt_json_real(json, "pull_us_p50_one_core", rbt_bench_median(&net->pull_pinned));
    rbt_json_real(json, "pull_us_p99_one_core", rbt_bench_median(&net->pull_pinned_p99));
    rbt_json_begin(json, "dense", '[');
    for (size_t i = 0; i < RBT_BENCH_NET_SIZES; i++) {
        const struct rbt_bench_net_size *size = &net->sizes[i];
        rbt_json_begin(json, NULL, '{');
        rbt_json_count(json, "row_bytes", rbt_bench_net_sizes[i]);
        rbt_json_real(json, "limit_socket_gb_s", rbt_bench_median(&size->raw));
        rbt_json_real(json, "goodput_gb_s", rbt_bench_median(&size->goodput));
        rbt_json_real(json, "goodput_of_limit", rbt_bench_ratio(&size->goodput, &size->raw));
        rbt_json_real(json, "worker_cpu_s_per_gb", rbt_bench_median(&size->own_cpu));
        rbt_json_real(json, "server_cpu_s_per_gb", rbt_bench_median(&size->peer_cpu));
        rbt_json_end(json, '}');
    }
    rbt_json_end(json, ']');
}

static void print_trip(const char *where, const struct rbt_bench_series *raw,
                       const struct rbt_bench_series *pull, const struct rbt_bench_series *late)
{
    printf(
        "  one-key pull, %-14s %6.1f us median (%.1f to %.1f), %.1f us 99%%; bare socket %.1f us\n",
        where, rbt_bench_median(pull), rbt_bench_smallest(pull), rbt_bench_largest(pull),
        rbt_bench_median(late), rbt_bench_median(raw));
}

static void print_net(const struct rbt_bench_net *net)
{
    printf("one worker process, one server process, over %s; %d operations under way; median of %d "
           "(smallest to largest)\n",
           rbt_bench_transports[net->transport], (int)RBT_BENCH_NET_FLIGHT,
           (int)RBT_BENCH_REPETITIONS);
    puts("  rows        pushed + pulled, GB/s   bare socket   of it   CPU s/GB worker, server");
    for (size_t i = 0; i < RBT_BENCH_NET_SIZES; i++) {
        const struct rbt_bench_net_size *size = &net->sizes[i];
        char bytes[RBT_TEXT_SHORT];
        rbt_text_from_bytes((double)rbt_bench_net_sizes[i], bytes);
        printf("  %-9s %8.3g (%.3g to %.3g) %13.3g %6.0f%%   %.2f, %.2f\n", bytes,
               rbt_bench_median(&size->goodput), rbt_bench_smallest(&size->goodput),
               rbt_bench_largest(&size->goodput), rbt_bench_median(&size->raw),
               100 * rbt_bench_ratio(&size->goodput, &size->raw), rbt_bench_median(&size->own_cpu),
               rbt_bench_median(&size->peer_cpu));
    }
    print_trip("on any core:", &net->raw_free, &net->pull_free, &net->pull_free_p99);
    print_trip("on one core:", &net->raw_pinned, &net->pull_pinned, &net->pull_pinned_p99);
}

static rbt_status run_net(const struct config *config)
{
    struct machine machine;
    struct rbt_bench_net net;
    look_at_machine(&machine);
    const struct rbt_bench_net_options options = {.transport =
                                                      (enum rbt_bench_transport)config->transport,
                                                  .seconds = config->seconds,
                                                  .size = (size_t)config->size};
    rbt_status st = rbt_bench_net(&options, &net);
    if (st != RBT_OK) {
        return st;
    }
    if (config->summary != RBT_SUMMARY_JSON) {
        print_machine(&machine);
        print_net(&net);
        return RBT_OK;
    }
    struct rbt_json json = {0};
    begin_json(&json, "net", &machine);
    rbt_json_real(&json, "seconds", config->seconds);
    add_net(&json, &net);
    rbt_json_end(&json, '}');
    st = rbt_json_print(&json, stdout);
    rbt_json_deinit(&json);
    return st;
}

static void add_cost(struct rbt_json *json, const struct rbt_bench_cost *cost)
{
    char name[80];
    for (size_t i = 0; i < RBT_BENCH_COST_UNITS; i++) {
        const int stem = snprintf(name, sizeof name, "%s_ns_per_%s", cost->algo, cost->names[i]);
        const size_t room = sizeof name - (size_t)stem;
        rbt_json_real(json, name, cost->measured_ns[i]);
        snprintf(name + stem, room, "_declared");
        rbt_json_real(json, name, cost->declared_ns[i]);
        snprintf(name + stem, room, "_ratio");
        rbt_json_real(json, name, cost->declared_ns[i] / cost->measured_ns[i]);
    }
    snprintf(name, sizeof name, "%s_ratio", cost->algo);
    rbt_json_real(json, name, cost->declared_seconds / cost->measured_seconds);
}

static void print_cost(const struct rbt_bench_cost *cost)
{
    for (size_t i = 0; i < RBT_BENCH_COST_UNITS; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s_ns_per_%s", cost->algo, cost->names[i]);
        printf("  %-26s %8.3g measured, %.3g declared: %.2f of it\n", name, cost->measured_ns[i],
               cost->declared_ns[i], cost->declared_ns[i] / cost->measured_ns[i]);
    }
    printf("  %s in all: %.3g s measured, %.3g s declared: %.2f of it\n", cost->algo,
           cost->measured_seconds, cost->declared_seconds,
           cost->declared_seconds / cost->measured_seconds);
}

static rbt_status run_cost(const struct config *config)
{
    struct machine machine;
    look_at_machine(&machine);
    struct rbt_bench_cost costs[RBT_BENCH_COST_ALGOS];
    rbt_status st = rbt_bench_cost((uint64_t)config->examples, costs);
    if (st != RBT_OK) {
        return st;
    }
    if (config->summary != RBT_SUMMARY_JSON) {
        print_machine(&machine);
        puts("computing time of one worker, measured and as used by simulations");
        for (size_t i = 0; i < RBT_BENCH_COST_ALGOS; i++) {
            print_cost(&costs[i]);
        }
        return RBT_OK;
    }
    struct rbt_json json = {0};
    begin_json(&json, "cost", &machine);
    rbt_json_int(&json, "examples", config->examples);
    for (size_t i = 0; i < RBT_BENCH_COST_ALGOS; i++) {
        add_cost(&json, &costs[i]);
    }
    rbt_json_end(&json, '}');
    st = rbt_json_print(&json, stdout);
    rbt_json_deinit(&json);
    return st;
}

struct bench {
    const char *name;
    const char *summary;
    const struct rbt_option *options;
    size_t option_count;
    rbt_status (*run)(const struct config *config);
};

static const struct bench benches[] = {
    {"ps", "tables: dense rows, sparse lists, single rows", ps_options,
     sizeof ps_options / sizeof ps_options[0], run_ps},
    {"net", "messages between two processes, next to plain sockets", net_options,
     sizeof net_options / sizeof net_options[0], run_net},
    {"cost", "measured time of algorithms, next to their figures for simulations", cost_options,
     sizeof cost_options / sizeof cost_options[0], run_cost},
};

enum { BENCH_COUNT = sizeof benches / sizeof benches[0] };

/* Help of all benchmarks, or of one. */
static void print_help(const struct bench *only)
{
    struct config config;
    printf("Usage: rubato bench %s [options]\n\n"
           "Benchmarks the system, next to limits of this machine measured in one run.\n",
           only != NULL ? only->name : "NAME");
    for (size_t i = 0; i < BENCH_COUNT; i++) {
        if (only == NULL || only == &benches[i]) {
            const struct rbt_option_table table = {benches[i].options, benches[i].option_count,
                                                   &config};
            printf("\n%s: %s\n", benches[i].name, benches[i].summary);
            rbt_option_help(stdout, &table);
        }
    }
    puts("\nExamples:\n"
         "  rubato bench ps --workers 4 --servers 4 --summary json\n"
         "  rubato bench cost");
}

static rbt_status parse_and_run(const struct bench *bench, int argc, char *const *argv)
{
    struct config config = {0};
    const struct rbt_option_table table = {bench->options, bench->option_count, &config};
    char name[64];
    snprintf(name, sizeof name, "rubato bench %s", bench->name);
    const struct rbt_option_command command = {.name = name, .tables = &table, .table_count = 1};
    struct rbt_option_arguments arguments;
    const rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st != RBT_OK) {
        return st;
    }
    if (arguments.wants_help) {
        print_help(bench);
        return RBT_OK;
    }
    return bench->run(&config);
}

int rbt_cmd_bench(int argc, char *const *argv)
{
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        print_help(NULL);
        return RBT_EXIT_OK;
    }
    if (argc == 0 || argv[0][0] == '-') {
        return rbt_complain(stderr, RBT_EXIT_USAGE, "See \"rubato bench --help\".",
                            "the name of the benchmark is missing");
    }
    for (size_t i = 0; i < BENCH_COUNT; i++) {
        if (strcmp(argv[0], benches[i].name) == 0) {
            const rbt_status st = parse_and_run(&benches[i], argc - 1, argv + 1);
            return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
        }
    }
    return rbt_complain(stderr, RBT_EXIT_USAGE, "See \"rubato bench --help\".",
                        "unrecognised benchmark \"%s\"", argv[0]);
}
