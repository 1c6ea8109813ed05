/* cli/summary.c - the figures of a training run, for people and for programs.
 *
 * The names of the JSON fields are a promise (cli.md): add, never rename. */
#include "cli/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* From /proc: what getrusage() tells includes the program that started this one. */
double rbt_summary_peak_rss_mb(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[128];
    unsigned long long kilobytes = 0;
    while (file != NULL && kilobytes == 0 && fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "VmHWM: %llu kB", &kilobytes); /* other lines leave it 0 */
    }
    if (file != NULL) {
        (void)fclose(file); /* it was only read */
    }
    return (double)kilobytes * 1024 / 1e6;
}

void rbt_summary_metrics(struct rbt_json *json, const char *name, const struct rbt_metrics *metrics)
{
    rbt_json_begin(json, name, '{');
    for (size_t i = 0; i < metrics->count; i++) {
        rbt_json_real(json, metrics->names[i], metrics->values[i]);
    }
    rbt_json_end(json, '}');
}

/* What only a simulation knows; its times are sums over workers. */
static void add_simulation(struct rbt_json *json, const struct rbt_summary *summary)
{
    const struct rbt_simulation_stats *simulation = summary->simulation;
    rbt_json_real(json, "virtual_seconds", summary->train->virtual_seconds);
    rbt_json_real(json, "compute_seconds", simulation->compute_seconds);
    rbt_json_real(json, "transmit_seconds", simulation->transmit_seconds);
    rbt_json_count(json, "events", simulation->events);
    rbt_json_count(json, "messages", simulation->messages);
    rbt_json_count(json, "lost", simulation->lost);
    rbt_json_count(json, "duplicated", simulation->duplicated);
    rbt_json_count(json, "resent", simulation->resent);
    rbt_json_count(json, "network_bytes", simulation->bytes);
    if (summary->rack_bytes > 0) {
        rbt_json_count(json, "rack_bytes", summary->rack_bytes);
    }
    rbt_json_count(json, "nodes_lost", simulation->nodes_lost);
}

/* Whether anything has gone through filters on its way. */
static bool has_filter_bytes(const struct rbt_job_stats *stats)
{
    return stats->filter_keys_in > 0 || stats->filter_push_in > 0 || stats->filter_pull_in > 0;
}

/* Rows by how often they travelled early, as pairs: times, at least, and rows. */
static void add_times(struct rbt_json *json, const char *name, const uint64_t *counts)
{
    rbt_json_begin(json, name, '[');
    for (uint64_t i = 0; i < RBT_TIMES_COUNTS; i++) {
        if (counts[i] > 0) {
            rbt_json_begin(json, NULL, '[');
            rbt_json_count(json, NULL, i < 16 ? i : (4 + i % 4) << (i / 4 - 2));
            rbt_json_count(json, NULL, counts[i]);
            rbt_json_end(json, ']');
        }
    }
    rbt_json_end(json, ']');
}

/* Which worker did how many parts, and how many of them were dealt again. */
static void add_parts(struct rbt_json *json, const struct rbt_train_summary *train)
{
    rbt_json_begin(json, "parts", '[');
    for (uint32_t p = 0; p < train->worker_count; p++) {
        rbt_json_count(json, NULL, train->worker_parts[p]);
    }
    rbt_json_end(json, ']');
    rbt_json_count(json, "parts_returned", train->parts_returned);
}

/* What an algorithm says of its training. */
static void add_words(struct rbt_json *json, const struct rbt_train_summary *train)
{
    if (train->chosen[0] != '\0') {
        rbt_json_text(json, "chosen", train->chosen);
    }
    if (train->unconverged[0] != '\0') {
        rbt_json_text(json, "not_converged", train->unconverged);
    }
}

static void add_classes(struct rbt_json *json, const char *name, const uint64_t *bytes)
{
    rbt_json_begin(json, name, '{');
    rbt_json_count(json, "clock", bytes[RBT_TRAFFIC_CLOCK]);
    rbt_json_count(json, "read", bytes[RBT_TRAFFIC_READ]);
    rbt_json_count(json, "early", bytes[RBT_TRAFFIC_EARLY]);
    rbt_json_count(json, "other", bytes[RBT_TRAFFIC_OTHER]);
    rbt_json_end(json, '}');
}

void rbt_summary_traffic(struct rbt_json *json, const struct rbt_job_stats *stats)
{
    add_classes(json, "sent", stats->traffic_sent);
    add_classes(json, "received", stats->traffic_received);
}

void rbt_summary_lags(struct rbt_json *json, const struct rbt_job_stats *stats)
{
    rbt_json_begin(json, "lag_counts", '[');
    for (size_t i = 0; i < RBT_LAG_COUNTS; i++) {
        rbt_json_count(json, NULL, stats->lag_counts[i]);
    }
    rbt_json_end(json, ']');
}

void rbt_summary_filters(struct rbt_json *json, const struct rbt_job_stats *stats)
{
    if (has_filter_bytes(stats)) {
        rbt_json_count(json, "filter_keys_in_bytes", stats->filter_keys_in);
        rbt_json_count(json, "filter_keys_out_bytes", stats->filter_keys_out);
        rbt_json_count(json, "filter_push_in_bytes", stats->filter_push_in);
        rbt_json_count(json, "filter_push_out_bytes", stats->filter_push_out);
        rbt_json_count(json, "filter_pull_in_bytes", stats->filter_pull_in);
        rbt_json_count(json, "filter_pull_out_bytes", stats->filter_pull_out);
    }
}

/* How the papers abbreviate a priority; of one of your own, the name of its file. */
static const char *abbreviate(const char *priority)
{
    static const char *const names[][2] = {{"random", "R"},    {"oldest", "RR"},   {"walk", "RR"},
                                           {"magnitude", "M"}, {"relative", "RM"}, {NULL, NULL}};
    for (size_t i = 0; names[i][0] != NULL; i++) {
        if (strcmp(names[i][0], priority) == 0) {
            return names[i][1];
        }
    }
    const char *slash = strrchr(priority, '/');
    return slash != NULL ? slash + 1 : priority;
}

void rbt_summary_mode(const struct rbt_summary *summary, char mode[RBT_SUMMARY_MODE_MAX])
{
    const struct rbt_train_options *options = summary->options;
    const struct rbt_train_summary *train = summary->train;
    const double rate = options->bandwidth * 8 / 1e6; /* Mbit/s */
    if (train->stats.workers == 1) {
        snprintf(mode, RBT_SUMMARY_MODE_MAX, "SN");
    } else if (!(options->bandwidth > 0)) {
        const double passes = train->epochs > 0 ? train->epochs : 1;
        snprintf(mode, RBT_SUMMARY_MODE_MAX, "BS-%.0f", round((double)train->clocks / passes));
    } else if (strcmp(options->priority, "sweep") == 0) {
        snprintf(mode, RBT_SUMMARY_MODE_MAX, "sweep-%.3g", rate);
    } else {
        snprintf(mode, RBT_SUMMARY_MODE_MAX, "MC-%.3g-%.32s", rate, abbreviate(options->priority));
    }
}

void rbt_summary_json(struct rbt_json *json, const char *name, const struct rbt_summary *summary,
                      bool is_reproducible)
{
    char mode[RBT_SUMMARY_MODE_MAX];
    const struct rbt_train_summary *train = summary->train;
    const struct rbt_job_stats *stats = &train->stats;
    const bool is_simulated = summary->simulation != NULL;
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, train->digest);
    rbt_summary_mode(summary, mode);
    rbt_json_begin(json, name, '{');
    rbt_json_real(json, "objective", train->objective);
    rbt_json_real(json, "objective_mean5", train->objective_mean5);
    rbt_json_real(json, "objective_var5", train->objective_var5);
    rbt_summary_metrics(json, "eval", &train->eval);
    if (train->by_worker.count > 0) {
        rbt_summary_metrics(json, "by_worker", &train->by_worker);
    }
    if (!is_reproducible) {
        rbt_json_real(json, "seconds", train->seconds);
        rbt_json_real(json, "load_seconds", train->load_seconds);
    }
    rbt_json_count(json, "examples", train->examples);
    rbt_json_real(json, "examples_per_s", train->examples_per_s);
    rbt_json_real(json, "epochs", train->epochs);
    rbt_json_int(json, "clocks", train->clocks);
    rbt_json_count(json, "updates", stats->updates);
    rbt_json_real(json, "seconds_per_update", train->seconds_per_update);
    rbt_json_count(json, "reads", stats->reads);
    rbt_json_count(json, "reads_waited", stats->reads_waited);
    if (is_simulated) {
        add_simulation(json, summary);
    }
    rbt_json_real(json, "wait_seconds",
                  is_simulated ? summary->simulation->wait_seconds : stats->wait_seconds);
    rbt_json_real(json, "lag_mean", stats->lag_mean);
    rbt_json_int(json, "lag_max", stats->lag_max);
    rbt_summary_lags(json, stats);
    rbt_json_count(json, "bytes_sent", stats->bytes_sent);
    rbt_json_count(json, "bytes_received", stats->bytes_received);
    rbt_summary_traffic(json, stats);
    rbt_json_count(json, "early_sent", stats->early_sent);
    rbt_json_count(json, "early_received", stats->early_received);
    rbt_json_count(json, "early_bytes_sent", stats->early_bytes_sent);
    rbt_json_count(json, "early_bytes_received", stats->early_bytes_received);
    rbt_json_count(json, "early_pauses", stats->early_pauses);
    if (stats->early_sent + stats->early_received > 0) {
        add_times(json, "row_sends", stats->row_sends);
        add_times(json, "row_receipts", stats->row_receipts);
    }
    rbt_json_text(json, "mode", mode);
    rbt_json_text(json, "rule", train->rule[0] != '\0' ? train->rule : "add");
    rbt_json_text(json, "filter", train->filter[0] != '\0' ? train->filter : "none");
    rbt_summary_filters(json, stats);
    if (train->inactive > 0) {
        rbt_json_real(json, "inactive", train->inactive);
    }
    add_words(json, train);
    if (train->worker_count > 0) {
        add_parts(json, train);
    }
    rbt_json_count(json, "server_bytes", stats->server_bytes);
    rbt_json_count(json, "rule_bytes", stats->rule_bytes);
    rbt_json_count(json, "rule_bytes_max", stats->rule_bytes_max);
    rbt_json_count(json, "versions_max", stats->versions_max);
    rbt_json_count(json, "snapshots_max", stats->snapshots_max);
    if (!is_reproducible) {
        rbt_json_real(json, "peak_rss_mb", rbt_summary_peak_rss_mb());
    }
    rbt_json_text(json, "digest", digest);
    rbt_json_end(json, '}');
}

/* How long it took, in which time. */
static void print_time(FILE *out, const char *head, const struct rbt_summary *summary)
{
    const struct rbt_train_summary *train = summary->train;
    const bool is_simulated = summary->simulation != NULL;
    char time[RBT_TEXT_SHORT];
    char rate[RBT_TEXT_SHORT];
    rbt_text_from_seconds(is_simulated ? train->virtual_seconds : train->seconds, time);
    rbt_text_from_count(train->examples_per_s, rate);
    fprintf(out, "%s%.4g epoch%s in %s%s, %s examples/s\n", head, train->epochs,
            train->epochs == 1 ? "" : "s", time, is_simulated ? " of virtual time" : "", rate);
}

/* Which rule, and what it costs the servers. */
static void print_rule(FILE *out, const struct rbt_train_summary *train)
{
    const struct rbt_job_stats *stats = &train->stats;
    char a[RBT_TEXT_SHORT];
    char b[RBT_TEXT_SHORT];
    rbt_text_from_bytes((double)stats->server_bytes, a);
    rbt_text_from_bytes((double)stats->rule_bytes, b);
    fprintf(out, "  rule       %s\n", train->rule);
    fprintf(out,
            "  servers    %s, of which the rule %s; %" PRIu64 " versions and %" PRIu64
            " snapshots at most\n",
            a, b, stats->versions_max, stats->snapshots_max);
}

/* Which workers did how many parts. */
static void print_parts(FILE *out, const struct rbt_train_summary *train)
{
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    uint64_t sum = 0;
    for (uint32_t p = 0; p < train->worker_count; p++) {
        least = train->worker_parts[p] < least ? train->worker_parts[p] : least;
        most = train->worker_parts[p] > most ? train->worker_parts[p] : most;
        sum += train->worker_parts[p];
    }
    fprintf(out,
            "  parts      %" PRIu64 ", %" PRIu32 " to %" PRIu32 " by a worker; %" PRIu64
            " dealt again\n",
            sum, least, most, train->parts_returned);
}

static void print_saving(FILE *out, const char *what, uint64_t before, uint64_t after)
{
    char a[RBT_TEXT_SHORT];
    char b[RBT_TEXT_SHORT];
    rbt_text_from_bytes((double)before, a);
    rbt_text_from_bytes((double)after, b);
    fprintf(out, "%s %s to %s", what, a, b);
}

/* Which filters, and what they have saved where messages travel. */
static void print_filter(FILE *out, const struct rbt_train_summary *train)
{
    const struct rbt_job_stats *stats = &train->stats;
    fprintf(out, "  filters    %s\n", train->filter);
    if (has_filter_bytes(stats)) {
        print_saving(out, "             keys", stats->filter_keys_in, stats->filter_keys_out);
        print_saving(out, ", push", stats->filter_push_in, stats->filter_push_out);
        print_saving(out, ", pull", stats->filter_pull_in, stats->filter_pull_out);
        fputc('\n', out);
    }
}

/* What the simulated network did, and how the workers' time was divided; what follows their leaving
 * is not theirs any more. */
static void print_simulation(FILE *out, const struct rbt_summary *summary)
{
    const struct rbt_simulation_stats *simulation = summary->simulation;
    char a[RBT_TEXT_SHORT];
    char b[RBT_TEXT_SHORT];
    const double sum =
        simulation->compute_seconds + simulation->transmit_seconds + simulation->wait_seconds;
    const double percent = sum > 0 ? 100 / sum : 0;
    fprintf(
        out,
        "  time       %.0f%% computing, %.0f%% communicating, %.0f%% waiting for other workers\n",
        percent * simulation->compute_seconds, percent * simulation->transmit_seconds,
        percent * simulation->wait_seconds);
    rbt_text_from_bytes((double)simulation->bytes, a);
    fprintf(out,
            "  network    %" PRIu64 " messages, %s; %" PRIu64 " lost, %" PRIu64
            " duplicated, %" PRIu64 " sent again\n",
            simulation->messages, a, simulation->lost, simulation->duplicated, simulation->resent);
    if (simulation->nodes_lost > 0) {
        fprintf(out, "  nodes      %" PRIu64 " lost\n", simulation->nodes_lost);
    }
    rbt_text_from_seconds(summary->train->seconds, a);
    rbt_text_from_count((double)simulation->events, b);
    fprintf(out, "  simulated  %s events in %s\n", b, a);
}

/* The result on one line: the objective, and the metrics of the evaluation data. */
static void print_result(FILE *out, const char *algo, const struct rbt_train_summary *train)
{
    fprintf(out, "%s: objective %.6g", algo, train->objective);
    for (size_t i = 0; i < train->eval.count; i++) {
        fprintf(out, "%s%s %.6g", i == 0 ? "; eval " : ", ", train->eval.names[i],
                train->eval.values[i]);
    }
    fputc('\n', out);
}

void rbt_summary_text(FILE *out, const char *algo, const char *model,
                      const struct rbt_summary *summary)
{
    const struct rbt_train_summary *train = summary->train;
    print_result(out, algo, train);
    print_time(out, "  time       ", summary);
    if (train->unconverged[0] != '\0') {
        fprintf(out, "  not converged: %s\n", train->unconverged);
    }
    fprintf(out, "  model      %s\n", model != NULL ? model : "not written; --model FILE keeps it");
}

void rbt_summary_full(FILE *out, const char *algo, const char *model,
                      const struct rbt_summary *summary)
{
    const struct rbt_train_summary *train = summary->train;
    const struct rbt_job_stats *stats = &train->stats;
    char a[RBT_TEXT_SHORT];
    char b[RBT_TEXT_SHORT];
    char head[64];
    snprintf(head, sizeof head, "%.60s: ", algo);
    print_time(out, head, summary);
    fprintf(out, "  objective  %.6g\n", train->objective);
    if (train->unconverged[0] != '\0') {
        fprintf(out, "  not converged: %s\n", train->unconverged);
    }
    if (train->chosen[0] != '\0') {
        fprintf(out, "  chosen     %s\n", train->chosen);
    }
    for (size_t i = 0; i < train->eval.count; i++) {
        fprintf(out, "  %-9s  %s %.6g\n", i == 0 ? "eval" : "", train->eval.names[i],
                train->eval.values[i]);
    }
    rbt_text_from_count((double)train->examples, a);
    rbt_text_from_seconds(train->load_seconds, b);
    fprintf(out,
            "  work       %s examples (loaded in %s), %" PRId64 " clock%s, %" PRIu64 " update%s\n",
            a, b, train->clocks, train->clocks == 1 ? "" : "s", stats->updates,
            stats->updates == 1 ? "" : "s");
    rbt_text_from_seconds(
        summary->simulation != NULL ? summary->simulation->wait_seconds : stats->wait_seconds, a);
    fprintf(out, "  reads      %" PRIu64 ", of which %" PRIu64 " waited, %s in all\n", stats->reads,
            stats->reads_waited, a);
    fprintf(out, "  lag        %.3g clocks on average, %" PRId64 " at most\n", stats->lag_mean,
            stats->lag_max);
    rbt_text_from_bytes((double)stats->bytes_sent, a);
    rbt_text_from_bytes((double)stats->bytes_received, b);
    fprintf(out, "  traffic    %s sent, %s received\n", a, b);
    if (stats->early_sent + stats->early_received > 0) {
        rbt_text_from_count((double)stats->early_sent, a);
        rbt_text_from_count((double)stats->early_received, b);
        fprintf(out, "  early      %s rows sent before the clock ended, %s received\n", a, b);
    }
    if (train->worker_count > 0) {
        print_parts(out, train);
    }
    if (train->rule[0] != '\0') {
        print_rule(out, train);
    }
    if (train->filter[0] != '\0') {
        print_filter(out, train);
    }
    if (summary->simulation != NULL) {
        print_simulation(out, summary);
    }
    rbt_text_from_bytes(rbt_summary_peak_rss_mb() * 1e6, a);
    fprintf(out, "  memory     %s at most\n", a);
    fprintf(out, "  digest     %016" PRIx64 "\n", train->digest);
    if (model != NULL) {
        fprintf(out, "  model      %s\n", model);
    }
}
