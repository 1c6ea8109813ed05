/* cli/cluster_line.c - the command line of a simulated cluster: what follows "simulate".
 *
 * A value is cut at its separators (`20%x2`, `worker/3@2s+500ms`), and each part is read on its
 * own, so that a complaint names the part that is wrong and what was allowed there. */
#include "cli/cluster_line.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/text.h"

enum { PART_MAX = 64, NODE_MAX = 32 };
static const double time_max = 1e6;
static const double factor_max = 1e6;

#define AT(field) offsetof(struct rbt_cluster_line, field)

const struct rbt_option rbt_cluster_line_options[] = {
    {.name = "workers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_WORKERS_MAX,
     .help = "Workers of the job; 8 if \"train\" has no --workers either.",
     .offset = AT(workers)},
    {.name = "servers",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_SHARDS_MAX,
     .help = "Servers, each with a part of the parameters; 1 if \"train\" has no --servers either.",
     .offset = AT(servers)},
    {.name = "threads",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = RBT_JOB_WORKERS_MAX,
     .value = "1",
     .help = "Workers per process; they share the links of the process.",
     .offset = AT(threads)},
    {.name = "bandwidth",
     .type = RBT_OPTION_TEXT,
     .value = "1Gbit",
     .unit = "RATE",
     .help = "Rate at which a node can send, and equally receive: 100Mbit, 1Gbit, 125MB; a plain "
             "number is bytes per second.",
     .offset = AT(bandwidth)},
    {.name = "racks",
     .type = RBT_OPTION_INT,
     .min = 1,
     .max = 1024,
     .value = "1",
     .help = "Number of racks; server i and worker process i go to rack i mod N.",
     .offset = AT(racks)},
    {.name = "oversubscription",
     .type = RBT_OPTION_REAL,
     .min = 1,
     .max = 1e6,
     .help = "With --racks: the links of a rack to and from the others have the bandwidth of all "
             "its nodes divided by X. By default 1.",
     .offset = AT(oversubscription)},
    {.name = "latency",
     .type = RBT_OPTION_TIME,
     .min = 0,
     .max = 1e6,
     .value = "100us",
     .help = "Time that a message takes from node to node.",
     .offset = AT(latency)},
    {.name = "jitter",
     .type = RBT_OPTION_TIME,
     .min = 0,
     .max = 1e6,
     .value = "0",
     .help = "Largest random addition to the latency; messages of one connection keep their order.",
     .offset = AT(jitter)},
    {.name = "loss",
     .type = RBT_OPTION_TEXT,
     .unit = "P",
     .help = "Probability that a packet is lost: 5% or 0.05. The packet is sent again and its "
             "connection waits for it.",
     .offset = AT(loss)},
    {.name = "duplication",
     .type = RBT_OPTION_TEXT,
     .unit = "P",
     .help = "Probability that a packet arrives twice, which costs bandwidth.",
     .offset = AT(duplication)},
    {.name = "spikes",
     .type = RBT_OPTION_TEXT,
     .unit = "P@TIME",
     .help = "Probability that a connection stalls when it sends, and for how long: 1%@50ms.",
     .offset = AT(spikes)},
    {.name = "stragglers",
     .type = RBT_OPTION_TEXT,
     .unit = "FRACTIONxFACTOR",
     .help = "Fraction of the workers that always compute slower, and by which factor: 20%x2; "
             "50%x1..4 draws a factor for each of them.",
     .offset = AT(stragglers)},
    {.name = "slowdowns",
     .type = RBT_OPTION_TEXT,
     .unit = "PxFACTOR",
     .help = "Probability that a worker is slow in a clock, and by which factor: 10%x3.",
     .offset = AT(slowdowns)},
    {.name = "crash",
     .type = RBT_OPTION_LIST,
     .unit = "NODE@TIME[+TIME]...",
     .help = "End the node's process at this time; its memory is lost. With +TIME a new process "
             "without that memory starts after this delay: server/1@2s+500ms.",
     .offset = AT(crash)},
    {.name = "pause",
     .type = RBT_OPTION_LIST,
     .unit = "NODE@TIME+TIME...",
     .help = "Stop the node at this time, for this long: worker/3@2s+500ms.",
     .offset = AT(pause)},
    {.name = "partition",
     .type = RBT_OPTION_LIST,
     .unit = "NODE@TIME+TIME...",
     .help = "Cut the node off from the network at this time, for this long.",
     .offset = AT(partition)},
    {.name = "slow-link",
     .type = RBT_OPTION_LIST,
     .unit = "NODExFACTOR[@TIME[+TIME]]...",
     .help = "Slow the node's links by this factor: always, from a time on, or from a time for a "
             "duration.",
     .offset = AT(slow_link)},
    {.name = "cut",
     .type = RBT_OPTION_LIST,
     .unit = "NODE@TIME...",
     .help = "Reset all connections of the node at this time. Messages under way are lost and sent "
             "again on new connections.",
     .offset = AT(cut)},
    {.name = "cuts",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = 1000,
     .unit = "RATE",
     .value = "0",
     .help = "Resets of each node's connections per second, at random times.",
     .offset = AT(cuts)},
    {.name = "until",
     .type = RBT_OPTION_TIME,
     .min = 0,
     .max = 1e6,
     .help = "End training after this virtual time.",
     .offset = AT(until)},
    {.name = "seed",
     .type = RBT_OPTION_INT,
     .min = 0,
     .max = 9.3e18,
     .value = "1",
     .help = "Seed of all random numbers of the cluster.",
     .offset = AT(seed)},
    {.name = "measured",
     .type = RBT_OPTION_FLAG,
     .help = "Take the time of computations from this machine instead of the algorithm's own "
             "figures; repeated runs then differ.",
     .offset = AT(is_measured)},
    {.name = "trace",
     .type = RBT_OPTION_TEXT,
     .unit = "FILE",
     .help = "File to write a timeline to, for Perfetto or chrome://tracing.",
     .offset = AT(trace)},
};

const size_t rbt_cluster_line_option_count =
    sizeof rbt_cluster_line_options / sizeof rbt_cluster_line_options[0];

/* An option and its value, for messages. */
struct given {
    const char *option;
    const char *text;
};

static rbt_status add_hint(rbt_status st)
{
    return rbt_fail_hint(st, "See \"rubato simulate --help\".");
}

/* The value is wrong, as a whole or in this part. */
static rbt_status refuse(const struct given *given, const char *part, const char *needs)
{
    const bool is_whole = strcmp(part, given->text) == 0;
    return add_hint(is_whole
                        ? rbt_fail(RBT_E_INVALID, "option \"%s\" needs %s, got \"%s\"",
                                   given->option, needs, part)
                        : rbt_fail(RBT_E_INVALID, "option \"%s\" needs %s, got \"%s\" in \"%s\"",
                                   given->option, needs, part, given->text));
}

/* A text before and after a separator. */
struct cut {
    char head[PART_MAX];
    char tail[PART_MAX];
};

/* False when the separator is not there, or a part has more characters than any right one. */
static bool cut_at(const char *text, const char *separator, struct cut *cut)
{
    const char *found = strstr(text, separator);
    const size_t head = found != NULL ? (size_t)(found - text) : 0;
    const char *tail = found != NULL ? found + strlen(separator) : "";
    if (found == NULL || head >= PART_MAX || strlen(tail) >= PART_MAX) {
        return false;
    }
    memcpy(cut->head, text, head);
    cut->head[head] = '\0';
    memcpy(cut->tail, tail, strlen(tail) + 1);
    return true;
}

/* The number in front of a unit; false when the text does not end with it or has none. */
static bool number_before(const char *text, const char *unit, double *value)
{
    const size_t length = strlen(text);
    const size_t end = strlen(unit);
    char number[PART_MAX];
    if (length < end || length - end >= sizeof number || strcmp(text + length - end, unit) != 0) {
        return false;
    }
    memcpy(number, text, length - end);
    number[length - end] = '\0';
    return rbt_text_to_real(number, value) && isfinite(*value);
}

static rbt_status read_rate(const struct given *given, double *rate)
{
    if (rbt_text_to_rate(given->text, rate) && *rate > 0) {
        return RBT_OK;
    }
    return refuse(given, given->text, "a rate above 0 such as 1Gbit or 125MB");
}

/* What needs racks is refused without them, and racks that would be empty. */
static rbt_status check_racks(const struct rbt_cluster_line *cluster)
{
    const int64_t processes = (cluster->workers + cluster->threads - 1) / cluster->threads;
    const int64_t most = cluster->servers > processes ? cluster->servers : processes;
    if (cluster->racks < 2 && cluster->oversubscription > 0) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "option \"--oversubscription\" needs at least two racks");
        return rbt_fail_hint(st, "For example: --racks 2 --oversubscription 4.");
    }
    if (cluster->racks > most) {
        return add_hint(rbt_fail(RBT_E_INVALID,
                                 "option \"--racks\" is %lld, but with %lld server process%s and "
                                 "%lld worker process%s there can be only %lld",
                                 (long long)cluster->racks, (long long)cluster->servers,
                                 cluster->servers == 1 ? "" : "es", (long long)processes,
                                 processes == 1 ? "" : "es", (long long)most));
    }
    return RBT_OK;
}

/* A part of the whole: 20% or 0.2. */
static rbt_status read_share(const struct given *given, const char *part, double *share)
{
    double number = 0;
    if (number_before(part, "%", &number)) {
        number /= 100;
    } else if (!number_before(part, "", &number)) {
        number = -1;
    }
    if (!(number >= 0 && number <= 1)) {
        return refuse(given, part, "a fraction from 0% to 100%");
    }
    *share = number;
    return RBT_OK;
}

static rbt_status read_factor(const struct given *given, const char *part, double *factor)
{
    double number = 0;
    if (!number_before(part, "", &number) || !(number >= 1 && number <= factor_max)) {
        return refuse(given, part, "a factor from 1 to 1000000");
    }
    *factor = number;
    return RBT_OK;
}

static rbt_status read_time(const struct given *given, const char *part, double *seconds)
{
    double number = 0;
    if (!rbt_text_to_seconds(part, &number) || !(number >= 0 && number <= time_max)) {
        return refuse(given, part, "a time from 0 to 1000000 seconds, such as 500ms");
    }
    *seconds = number;
    return RBT_OK;
}

/* How long something lasts: a time, but not none. */
static rbt_status read_length(const struct given *given, const char *part, double *seconds)
{
    const rbt_status st = read_time(given, part, seconds);
    return st == RBT_OK && *seconds == 0 ? refuse(given, part, "a time above 0, such as 500ms")
                                         : st;
}

/* A chance of its own, without a separator. */
static rbt_status read_chance(const char *option, const char *text, double *chance)
{
    const struct given given = {option, text};
    return text == NULL ? RBT_OK : read_share(&given, text, chance);
}

static rbt_status read_spikes(const char *text, struct rbt_simulation_options *options)
{
    const struct given given = {"--spikes", text};
    struct cut cut;
    if (text == NULL) {
        return RBT_OK;
    }
    if (!cut_at(text, "@", &cut)) {
        return refuse(&given, text, "P@TIME such as 1%@50ms");
    }
    const rbt_status st = read_share(&given, cut.head, &options->spike_chance);
    return st != RBT_OK ? st : read_length(&given, cut.tail, &options->spike_seconds);
}

static rbt_status read_stragglers(const char *text, struct rbt_simulation_options *options)
{
    const struct given given = {"--stragglers", text};
    struct cut cut;
    struct cut range;
    if (text == NULL) {
        return RBT_OK;
    }
    if (!cut_at(text, "x", &cut)) {
        return refuse(&given, text, "FRACTIONxFACTOR such as 20%x2 or 50%x1..4");
    }
    rbt_status st = read_share(&given, cut.head, &options->straggler_share);
    if (st == RBT_OK && cut_at(cut.tail, "..", &range)) {
        st = read_factor(&given, range.head, &options->straggler_factor);
        st = st != RBT_OK ? st : read_factor(&given, range.tail, &options->straggler_factor_max);
        if (st == RBT_OK && options->straggler_factor_max < options->straggler_factor) {
            st = refuse(&given, cut.tail, "the smaller factor first");
        }
        return st;
    }
    return st != RBT_OK ? st : read_factor(&given, cut.tail, &options->straggler_factor);
}

static rbt_status read_slowdowns(const char *text, struct rbt_simulation_options *options)
{
    const struct given given = {"--slowdowns", text};
    struct cut cut;
    if (text == NULL) {
        return RBT_OK;
    }
    if (!cut_at(text, "x", &cut)) {
        return refuse(&given, text, "PxFACTOR such as 10%x3");
    }
    const rbt_status st = read_share(&given, cut.head, &options->slowdown_chance);
    return st != RBT_OK ? st : read_factor(&given, cut.tail, &options->slowdown_factor);
}

/* Nodes of one kind. */
struct kind {
    const char *name; /* in front of the slash */
    const char *noun;
    int64_t count;
};

/* A node of this kind with this number does not exist. */
static rbt_status refuse_node(const struct given *given, const char *node, const struct kind *kind)
{
    const bool is_one = kind->count == 1;
    const rbt_status st = rbt_fail(
        RBT_E_INVALID, "option \"%s\" names \"%s\", but there %s only %lld %s%s", given->option,
        node, is_one ? "is" : "are", (long long)kind->count, kind->noun, is_one ? "" : "es");
    return is_one ? rbt_fail_hint(st, "It is called %s/0.", kind->name)
                  : rbt_fail_hint(st, "They are called %s/0 to %s/%lld.", kind->name, kind->name,
                                  (long long)kind->count - 1);
}

/* A node's name, of a node that exists. */
static rbt_status read_node(const struct given *given, const struct rbt_cluster_line *cluster,
                            const char *part, char node[NODE_MAX])
{
    const struct kind kinds[] = {
        {"server", "server process", cluster->servers},
        {"worker", "worker process", (cluster->workers + cluster->threads - 1) / cluster->threads}};
    if (strcmp(part, "coordinator") == 0) {
        memcpy(node, part, sizeof "coordinator");
        return RBT_OK;
    }
    struct cut cut;
    int64_t number = 0;
    if (cut_at(part, "/", &cut) && rbt_text_to_int(cut.tail, &number)) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            /* Written back, it must be what was typed: "worker/+3" and "worker/1k" are not. */
            snprintf(node, NODE_MAX, "%s/%lld", kinds[i].name, (long long)number);
            if (strcmp(node, part) == 0 && number >= 0) {
                return number < kinds[i].count ? RBT_OK : refuse_node(given, node, &kinds[i]);
            }
        }
    }
    return refuse(given, part, "a node such as server/0, worker/3 or coordinator");
}

/* "2s+500ms": when, and how long; without "+" for good. */
static rbt_status read_when(const struct given *given, const char *part, struct rbt_fault *fault)
{
    struct cut cut;
    if (!cut_at(part, "+", &cut)) {
        return read_time(given, part, &fault->at);
    }
    const rbt_status st = read_time(given, cut.head, &fault->at);
    return st != RBT_OK ? st : read_length(given, cut.tail, &fault->lasts);
}

/* One kind of fault: its option and what a value looks like. */
struct fault_kind {
    const char *option;
    rbt_fault_kind kind;
    const char *form;
    size_t offset; /* of the list in struct rbt_cluster_line */
};

static const struct fault_kind fault_kinds[] = {
    {"--crash", RBT_FAULT_CRASH, "NODE@TIME or NODE@TIME+TIME such as worker/3@2s+500ms",
     AT(crash)},
    {"--pause", RBT_FAULT_PAUSE, "NODE@TIME+TIME such as worker/3@2s+500ms", AT(pause)},
    {"--partition", RBT_FAULT_PARTITION, "NODE@TIME+TIME such as server/0@2s+500ms", AT(partition)},
    {"--slow-link", RBT_FAULT_SLOW_LINK, "NODExFACTOR, perhaps @TIME+TIME, such as worker/3x10@2s",
     AT(slow_link)},
    {"--cut", RBT_FAULT_CUT, "NODE@TIME such as worker/3@2s", AT(cut)},
};

enum { FAULT_KIND_COUNT = sizeof fault_kinds / sizeof fault_kinds[0] };

static rbt_status read_fault(const struct fault_kind *kind, const struct rbt_cluster_line *cluster,
                             const char *text, struct rbt_fault *fault, char node[NODE_MAX])
{
    const struct given given = {kind->option, text};
    struct cut cut;
    struct cut when = {{0}, {0}};
    rbt_status st = RBT_OK;
    *fault = (struct rbt_fault){.kind = kind->kind, .node = node};
    if (kind->kind == RBT_FAULT_SLOW_LINK) {
        if (!cut_at(text, "x", &cut)) {
            return refuse(&given, text, kind->form);
        }
        const bool has_when = cut_at(cut.tail, "@", &when);
        st = read_factor(&given, has_when ? when.head : cut.tail, &fault->factor);
        st = st != RBT_OK || !has_when ? st : read_when(&given, when.tail, fault);
    } else {
        const bool has_length = cut_at(text, "@", &cut) && strchr(cut.tail, '+') != NULL;
        const bool must_last = kind->kind == RBT_FAULT_PAUSE || kind->kind == RBT_FAULT_PARTITION;
        if (strchr(text, '@') == NULL || (must_last && !has_length) ||
            (kind->kind == RBT_FAULT_CUT && has_length)) {
            return refuse(&given, text, kind->form);
        }
        st = read_when(&given, cut.tail, fault);
    }
    return st != RBT_OK ? st : read_node(&given, cluster, cut.head, node);
}

static const struct rbt_option_list *list_of(const struct rbt_cluster_line *cluster,
                                             const struct fault_kind *kind)
{
    return (const struct rbt_option_list *)(const void *)((const char *)cluster + kind->offset);
}

static rbt_status read_faults(const struct rbt_cluster_line *cluster,
                              struct rbt_cluster_line_plan *plan)
{
    size_t count = 0;
    for (size_t k = 0; k < FAULT_KIND_COUNT; k++) {
        count += list_of(cluster, &fault_kinds[k])->count;
    }
    if (count == 0) {
        return RBT_OK;
    }
    plan->faults = rbt_calloc(count, sizeof *plan->faults);
    plan->nodes = rbt_calloc(count, sizeof *plan->nodes);
    if (plan->faults == NULL || plan->nodes == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu faults", count);
    }
    size_t used = 0;
    for (size_t k = 0; k < FAULT_KIND_COUNT; k++) {
        const struct rbt_option_list *list = list_of(cluster, &fault_kinds[k]);
        for (size_t i = 0; i < list->count; i++, used++) {
            const rbt_status st = read_fault(&fault_kinds[k], cluster, list->values[i],
                                             &plan->faults[used], plan->nodes[used]);
            if (st != RBT_OK) {
                return st;
            }
        }
    }
    plan->options.faults = plan->faults;
    plan->options.fault_count = count;
    return RBT_OK;
}

rbt_status rbt_cluster_line_read(const struct rbt_cluster_line *cluster,
                                 struct rbt_cluster_line_plan *plan)
{
    RBT_ASSERT(cluster->workers > 0);
    RBT_ASSERT(cluster->servers > 0);
    RBT_ASSERT(cluster->threads > 0);
    *plan = (struct rbt_cluster_line_plan){
        .options = {.struct_size = sizeof plan->options,
                    .seed = (uint64_t)cluster->seed,
                    .threads = (uint32_t)cluster->threads,
                    .latency = cluster->latency > 0 ? cluster->latency : -1, /* 0: the default */
                    .jitter = cluster->jitter,
                    .cuts = cluster->cuts,
                    .is_measured = cluster->is_measured,
                    .trace = cluster->trace,
                    .racks = (uint32_t)cluster->racks,
                    .oversubscription = cluster->oversubscription}};
    struct rbt_simulation_options *options = &plan->options;
    const struct given bandwidth = {"--bandwidth", cluster->bandwidth};
    const struct given loss = {"--loss", cluster->loss};
    rbt_status st = read_rate(&bandwidth, &options->bandwidth);
    st = st != RBT_OK ? st : check_racks(cluster);
    st = st != RBT_OK ? st : read_chance("--loss", cluster->loss, &options->loss);
    if (st == RBT_OK && options->loss == 1) {
        st = refuse(&loss, cluster->loss, "a fraction below 100%");
    }
    st = st != RBT_OK ? st
                      : read_chance("--duplication", cluster->duplication, &options->duplication);
    st = st != RBT_OK ? st : read_spikes(cluster->spikes, options);
    st = st != RBT_OK ? st : read_stragglers(cluster->stragglers, options);
    st = st != RBT_OK ? st : read_slowdowns(cluster->slowdowns, options);
    st = st != RBT_OK ? st : read_faults(cluster, plan);
    if (st != RBT_OK) {
        rbt_cluster_line_free(plan);
    }
    return st;
}

void rbt_cluster_line_free(struct rbt_cluster_line_plan *plan)
{
    rbt_free(plan->nodes);
    rbt_free(plan->faults);
    *plan = (struct rbt_cluster_line_plan){0};
}
