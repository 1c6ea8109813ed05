/* cli/cmd_info.c - `rubato info FILE`: what a model or a log holds.
 *
 * The first byte decides: a log begins with "{", a model does not. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "algo/registry.h"
#include "base/error.h"
#include "base/file.h"
#include "base/option.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/complain.h"
#include "cli/json.h"
#include "cli/names.h"
#include "cli/runs.h"
#include "cli/summary.h"

enum { NAME_WIDTH = 12 };

struct config {
    int32_t summary; /* enum rbt_summary_format */
};

static const struct rbt_option info_options[] = {
    {.name = "summary",
     .type = RBT_OPTION_CHOICE,
     .value = "text",
     .choices = rbt_names_summary,
     .help = "Format of the output.",
     .offset = offsetof(struct config, summary)},
};

static rbt_status finish_json(struct rbt_json *json)
{
    rbt_json_end(json, '}');
    const rbt_status st = rbt_json_print(json, stdout);
    rbt_json_deinit(json);
    return st == RBT_OK ? st : rbt_fail_in(st, "could not print");
}

static const char *algo_name(const struct rbt_model *model)
{
    const struct rbt_algo *algo = rbt_algo_of_kind(model->kind);
    return algo == NULL ? "unknown" : algo->name;
}

static rbt_status model_json(const char *path, const struct rbt_model *model)
{
    struct rbt_json json = {0};
    rbt_json_begin(&json, NULL, '{');
    rbt_json_text(&json, "file", path);
    rbt_json_text(&json, "kind", "model");
    rbt_json_text(&json, "model", algo_name(model));
    rbt_json_begin(&json, "settings", '{');
    for (size_t i = 0; i < model->setting_count; i++) {
        rbt_json_real(&json, model->settings[i].name, model->settings[i].value);
    }
    rbt_json_end(&json, '}');
    rbt_json_begin(&json, "arrays", '{');
    for (size_t i = 0; i < model->array_count; i++) {
        rbt_json_begin(&json, model->arrays[i].name, '{');
        rbt_json_count(&json, "rows", model->arrays[i].count);
        rbt_json_count(&json, "width", model->arrays[i].width);
        rbt_json_end(&json, '}');
    }
    rbt_json_end(&json, '}');
    return finish_json(&json);
}

/* Smallest, largest and number of values that are not zero. */
static void describe_values(const struct rbt_model_array *array)
{
    const size_t total = array->count * array->width;
    size_t nonzero = 0;
    float low = total > 0 ? array->values[0] : 0;
    float high = low;
    for (size_t i = 0; i < total; i++) {
        const float value = array->values[i];
        nonzero += value != 0 ? 1 : 0;
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    printf(", %zu values not zero, from %.4g to %.4g\n", nonzero, (double)low, (double)high);
}

static rbt_status info_model(const char *path, bool is_json)
{
    struct rbt_model model = {0};
    rbt_status st = rbt_model_read(path, &model);
    if (st != RBT_OK) {
        return st;
    }
    if (is_json) {
        st = model_json(path, &model);
    } else {
        rbt_text_print(stdout, path);
        printf(": a model of \"rubato train %s\"\n", algo_name(&model));
        for (size_t i = 0; i < model.setting_count; i++) {
            printf("  %-12s %.10g\n", model.settings[i].name, model.settings[i].value);
        }
        for (size_t i = 0; i < model.array_count; i++) {
            const struct rbt_model_array *array = &model.arrays[i];
            printf("  %-12s %zu rows of %u", array->name, array->count, array->width);
            describe_values(array);
        }
        const struct rbt_algo *algo = rbt_algo_of_kind(model.kind);
        if (algo != NULL && algo->describe != NULL) {
            algo->describe(&model, stdout);
        }
    }
    rbt_model_free(&model);
    return st;
}

static const char *status_of(const struct rbt_run *run)
{
    return run->status[0] != '\0' ? run->status : "running or killed";
}

static rbt_status log_json(const struct rbt_run *run)
{
    struct rbt_json json = {0};
    rbt_json_begin(&json, NULL, '{');
    rbt_json_text(&json, "file", run->path);
    rbt_json_text(&json, "kind", "log");
    rbt_json_text(&json, "command", rbt_text_data(&run->command));
    rbt_json_text(&json, "version", run->version);
    rbt_json_text(&json, "time", run->time[0] != '\0' ? run->time : NULL);
    rbt_json_text(&json, "status", run->status[0] != '\0' ? run->status : NULL);
    rbt_json_count(&json, "evaluations", run->row_count);
    rbt_json_begin(&json, "last", '{');
    for (size_t i = 0; run->row_count > 0 && i < run->column_count; i++) {
        rbt_json_real(&json, run->names[i], rbt_runs_value(run, run->row_count - 1, (int)i));
    }
    rbt_json_end(&json, '}');
    return finish_json(&json);
}

/* First, best and last of the columns that say how well it went. */
static void print_columns(const struct rbt_run *run)
{
    const size_t last = run->row_count - 1;
    char time[RBT_TEXT_SHORT];
    rbt_text_from_seconds(rbt_runs_value(run, last, RBT_RUNS_T), time);
    printf("  evaluations  %zu, to epoch %.4g after %s\n", run->row_count,
           rbt_runs_value(run, last, RBT_RUNS_EPOCH), time);
    for (size_t i = RBT_RUNS_OBJECTIVE; i < run->column_count; i++) {
        if (i == RBT_RUNS_OBJECTIVE || i >= RBT_RUNS_METRICS) {
            const size_t width = strlen(run->names[i]);
            fputs("  ", stdout);
            rbt_text_print(stdout, run->names[i]);
            printf("%*s %.6g -> %.6g\n", width < NAME_WIDTH ? (int)(NAME_WIDTH - width) : 0, "",
                   rbt_runs_value(run, 0, (int)i), rbt_runs_value(run, last, (int)i));
        }
    }
}

static rbt_status info_log(const char *path, bool is_json)
{
    struct rbt_run run;
    rbt_status st = rbt_runs_read(path, &run);
    if (st != RBT_OK) {
        return st;
    }
    if (is_json) {
        st = log_json(&run);
    } else {
        rbt_text_print(stdout, path);
        puts(": the log of a run");
        fputs("  command      ", stdout);
        rbt_text_print(stdout, rbt_text_data(&run.command));
        fputs("\n  began        ", stdout);
        rbt_text_print(stdout, run.time[0] != '\0' ? run.time : "in virtual time");
        fputs(", rubato ", stdout);
        rbt_text_print(stdout, run.version);
        fputs("\n  status       ", stdout);
        rbt_text_print(stdout, status_of(&run));
        puts(run.is_cut ? "; the last line is cut off" : "");
        if (run.row_count > 0) {
            print_columns(&run);
        }
    }
    rbt_runs_free(&run);
    return st;
}

static rbt_status info(const char *path, bool is_json)
{
    int fd = -1;
    char first = '\0';
    rbt_status st = rbt_file_open(path, RBT_FILE_REGULAR, &fd);
    if (st != RBT_OK) {
        return rbt_fail_in(st, "cannot read \"%s\"", path);
    }
    if (rbt_file_fill(fd, &first, 1) < 0) {
        st = rbt_fail(RBT_E_IO, "cannot read \"%s\"", path);
    }
    (void)close(fd); /* only read */
    if (st != RBT_OK) {
        return st;
    }
    return first == '{' ? info_log(path, is_json) : info_model(path, is_json);
}

int rbt_cmd_info(int argc, char *const *argv)
{
    struct config config;
    const struct rbt_option_table table = {info_options, 1, &config};
    const struct rbt_option_command command = {
        .name = "rubato info", .tables = &table, .table_count = 1, .positional_max = 1};
    struct rbt_option_arguments arguments;
    rbt_status st = rbt_option_parse(&command, argc, argv, &arguments);
    if (st == RBT_OK && arguments.wants_help) {
        puts("Usage: rubato info FILE [options]\n\n"
             "Describes a model or a log.\n");
        rbt_option_help(stdout, &table);
        puts("\nExamples:\n"
             "  rubato info ads.model\n"
             "  rubato info run.jsonl --summary json");
        return RBT_EXIT_OK;
    }
    if (st == RBT_OK && arguments.count == 0) {
        st = rbt_fail(RBT_E_INVALID, "the name of a file is missing");
        st = rbt_fail_hint(st, "See \"rubato info --help\".");
    }
    st = st != RBT_OK ? st : info(arguments.values[0], config.summary == RBT_SUMMARY_JSON);
    return st == RBT_OK ? RBT_EXIT_OK : rbt_complain_last(stderr, st);
}
