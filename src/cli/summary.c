/* cli/summary.c - the figures of a training run, for people and for programs.
 *
 * The names of the JSON fields are a promise (cli.md): add, never rename. */
#include "cli/summary.h"

#include <inttypes.h>
#include <sys/resource.h>

#include "base/text.h"

double rbt_summary_peak_rss_mb(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss * 1024 / 1e6 : 0;
}

void rbt_summary_metrics(struct rbt_json *json, const char *name, const struct rbt_metrics *metrics)
{
    rbt_json_begin(json, name, '{');
    for (size_t i = 0; i < metrics->count; i++) {
        rbt_json_real(json, metrics->names[i], metrics->values[i]);
    }
    rbt_json_end(json, '}');
}

void rbt_summary_json(struct rbt_json *json, const char *name,
                      const struct rbt_train_summary *summary)
{
    const struct rbt_job_stats *stats = &summary->stats;
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, summary->digest);
    rbt_json_begin(json, name, '{');
    rbt_json_real(json, "objective", summary->objective);
    rbt_summary_metrics(json, "eval", &summary->eval);
    rbt_json_real(json, "seconds", summary->seconds);
    rbt_json_real(json, "load_seconds", summary->load_seconds);
    rbt_json_count(json, "examples", summary->examples);
    rbt_json_real(json, "examples_per_s", summary->examples_per_s);
    rbt_json_real(json, "epochs", summary->epochs);
    rbt_json_int(json, "clocks", summary->clocks);
    rbt_json_count(json, "updates", stats->updates);
    rbt_json_count(json, "reads", stats->reads);
    rbt_json_count(json, "reads_waited", stats->reads_waited);
    rbt_json_real(json, "wait_seconds", stats->wait_seconds);
    rbt_json_real(json, "lag_mean", stats->lag_mean);
    rbt_json_int(json, "lag_max", stats->lag_max);
    rbt_json_count(json, "bytes_sent", stats->bytes_sent);
    rbt_json_count(json, "bytes_received", stats->bytes_received);
    rbt_json_real(json, "peak_rss_mb", rbt_summary_peak_rss_mb());
    rbt_json_text(json, "digest", digest);
    rbt_json_end(json, '}');
}

void rbt_summary_text(FILE *out, const char *algo, const char *model,
                      const struct rbt_train_summary *summary)
{
    const struct rbt_job_stats *stats = &summary->stats;
    char a[RBT_TEXT_SHORT];
    char b[RBT_TEXT_SHORT];
    rbt_text_from_seconds(summary->seconds, a);
    rbt_text_from_count(summary->examples_per_s, b);
    fprintf(out, "%s: %.4g epoch%s in %s, %s examples/s\n", algo, summary->epochs,
            summary->epochs == 1 ? "" : "s", a, b);
    fprintf(out, "  objective  %.6g\n", summary->objective);
    for (size_t i = 0; i < summary->eval.count; i++) {
        fprintf(out, "  %-9s  %s %.6g\n", i == 0 ? "eval" : "", summary->eval.names[i],
                summary->eval.values[i]);
    }
    rbt_text_from_count((double)summary->examples, a);
    rbt_text_from_seconds(summary->load_seconds, b);
    fprintf(out,
            "  work       %s examples (loaded in %s), %" PRId64 " clocks, %" PRIu64 " updates\n", a,
            b, summary->clocks, stats->updates);
    rbt_text_from_seconds(stats->wait_seconds, a);
    fprintf(out, "  reads      %" PRIu64 ", of which %" PRIu64 " waited, %s in all\n", stats->reads,
            stats->reads_waited, a);
    fprintf(out, "  lag        %.3g clocks on average, %" PRId64 " at most\n", stats->lag_mean,
            stats->lag_max);
    rbt_text_from_bytes((double)stats->bytes_sent, a);
    rbt_text_from_bytes((double)stats->bytes_received, b);
    fprintf(out, "  traffic    %s sent, %s received\n", a, b);
    rbt_text_from_bytes(rbt_summary_peak_rss_mb() * 1e6, a);
    fprintf(out, "  memory     %s at most\n", a);
    fprintf(out, "  digest     %016" PRIx64 "\n", summary->digest);
    if (model != NULL) {
        fprintf(out, "  model      %s\n", model);
    }
}
