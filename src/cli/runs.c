/* cli/runs.c - reads logs of runs back.
 *
 * The file is read whole and cut into lines in place; jansson takes the lines apart. */
#include "cli/runs.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/file.h"

static const char *const fixed_names[] = {
    [RBT_RUNS_T] = "t",
    [RBT_RUNS_EPOCH] = "epoch",
    [RBT_RUNS_CLOCK] = "clock",
    [RBT_RUNS_EXAMPLES] = "examples",
    [RBT_RUNS_OBJECTIVE] = "objective",
    [RBT_RUNS_LAG_MEAN] = "lag_mean",
    [RBT_RUNS_LAG_MAX] = "lag_max",
    [RBT_RUNS_BYTES] = "bytes",
};

void rbt_runs_free(struct rbt_run *run)
{
    rbt_text_deinit(&run->command);
    rbt_free(run->values);
    rbt_free(run->samples);
    *run = (struct rbt_run){0};
}

int rbt_runs_column(const struct rbt_run *run, const char *name)
{
    for (size_t i = 0; i < run->column_count; i++) {
        if (strcmp(run->names[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

double rbt_runs_value(const struct rbt_run *run, size_t row, int column)
{
    RBT_ASSERT(row < run->row_count);
    RBT_ASSERT(column >= 0 && (size_t)column < run->column_count);
    return run->values[row * RBT_RUNS_COLUMNS_MAX + (size_t)column];
}

/* NaN for what is no number, or so large that sums and differences are none. */
static double number_of(const json_t *value)
{
    const double number = json_is_number(value) ? json_number_value(value) : NAN;
    return fabs(number) < 1e100 ? number : NAN;
}

/* Copies a text member of the object, as far as there is room. */
static void copy_text(const json_t *object, const char *name, char text[RBT_RUNS_NAME_MAX])
{
    const char *value = json_string_value(json_object_get(object, name));
    snprintf(text, RBT_RUNS_NAME_MAX, "%s", value != NULL ? value : "");
}

static void take_start(struct rbt_run *run, const json_t *event)
{
    copy_text(event, "version", run->version);
    copy_text(event, "time", run->time);
    const json_t *argv = json_object_get(event, "argv");
    rbt_text_clear(&run->command);
    for (size_t i = 0; i < json_array_size(argv); i++) {
        const char *word = json_string_value(json_array_get(argv, i));
        rbt_text_add(&run->command, "%s%s", i > 0 ? " " : "", word != NULL ? word : "?");
    }
}

/* Room for one more row, filled with NaN; NULL when memory runs out. */
static double *add_row(struct rbt_run *run)
{
    if (run->row_count == run->row_capacity) {
        const size_t capacity = run->row_capacity > 0 ? run->row_capacity * 2 : 64;
        double *values =
            rbt_realloc(run->values, capacity, RBT_RUNS_COLUMNS_MAX * sizeof *run->values);
        if (values == NULL) {
            return NULL;
        }
        run->values = values;
        run->row_capacity = capacity;
    }
    double *row = run->values + run->row_count * RBT_RUNS_COLUMNS_MAX;
    for (size_t i = 0; i < RBT_RUNS_COLUMNS_MAX; i++) {
        row[i] = NAN;
    }
    run->row_count++;
    return row;
}

/* Puts a number into a column that not every log has, if there is room for one more. */
static void take_number(struct rbt_run *run, double *row, const char *name, const json_t *value)
{
    int column = rbt_runs_column(run, name);
    if (column < 0 && run->column_count < RBT_RUNS_COLUMNS_MAX) {
        column = (int)run->column_count++;
        snprintf(run->names[column], RBT_RUNS_NAME_MAX, "%s", name);
    }
    if (column >= RBT_RUNS_METRICS) { /* a metric called "t" is not a metric */
        row[column] = number_of(value);
    }
}

/* The same with an object's numbers; the columns are called `prefix` and the number's name. */
static void take_numbers(struct rbt_run *run, double *row, json_t *object, const char *prefix)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(object, name, value)
    {
        char full[RBT_RUNS_NAME_MAX];
        snprintf(full, sizeof full, "%s%s", prefix, name);
        take_number(run, row, full, value);
    }
}

/* Adds a pair, if it may follow what is there. */
static void add_count(struct rbt_runs_counts *counts, double value, double count)
{
    const size_t i = counts->count;
    if (i < RBT_RUNS_PAIRS_MAX && isfinite(value) && isfinite(count) && count > 0 &&
        value >= (i > 0 ? counts->values[i - 1] : 0)) {
        counts->values[i] = value;
        counts->counts[i] = count;
        counts->count++;
    }
}

/* Counts of 0, 1, 2, ... */
static void take_lags(struct rbt_run *run, const json_t *array)
{
    if (json_array_size(array) > 0) {
        run->lags.count = 0;
        for (size_t i = 0; i < json_array_size(array); i++) {
            add_count(&run->lags, (double)i, number_of(json_array_get(array, i)));
        }
    }
}

/* Pairs of a value and a count. */
static void take_pairs(struct rbt_runs_counts *counts, const json_t *array)
{
    counts->count = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *pair = json_array_get(array, i);
        add_count(counts, number_of(json_array_get(pair, 0)), number_of(json_array_get(pair, 1)));
    }
}

static rbt_status take_traffic(struct rbt_run *run, const json_t *event)
{
    if (run->sample_count == run->sample_capacity) {
        const size_t capacity = run->sample_capacity > 0 ? run->sample_capacity * 2 : 64;
        struct rbt_runs_sample *samples = rbt_realloc(run->samples, capacity, sizeof *run->samples);
        if (samples == NULL) {
            return rbt_fail(RBT_E_NOMEM, "could not allocate room for \"%s\"", run->path);
        }
        run->samples = samples;
        run->sample_capacity = capacity;
    }
    struct rbt_runs_sample *sample = &run->samples[run->sample_count++];
    copy_text(event, "node", sample->node);
    sample->t = number_of(json_object_get(event, "t"));
    sample->sent = number_of(json_object_get(event, "bytes_sent"));
    sample->received = number_of(json_object_get(event, "bytes_received"));
    return RBT_OK;
}

static void take_end(struct rbt_run *run, const json_t *event)
{
    const json_t *summary = json_object_get(event, "summary");
    copy_text(event, "status", run->status);
    take_lags(run, json_object_get(summary, "lag_counts"));
    take_pairs(&run->sends, json_object_get(summary, "row_sends"));
    take_pairs(&run->receipts, json_object_get(summary, "row_receipts"));
}

static rbt_status take_eval(struct rbt_run *run, json_t *event)
{
    double *row = add_row(run);
    if (row == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate room for \"%s\"", run->path);
    }
    for (size_t i = 0; i < RBT_RUNS_METRICS; i++) {
        row[i] = number_of(json_object_get(event, fixed_names[i]));
    }
    take_numbers(run, row, json_object_get(event, "eval"), "");
    if (json_object_get(event, "workers") != NULL) {
        take_number(run, row, "workers", json_object_get(event, "workers"));
    }
    take_numbers(run, row, json_object_get(event, "sent"), "sent_");
    take_numbers(run, row, json_object_get(event, "received"), "received_");
    take_lags(run, json_object_get(event, "lag_counts"));
    return RBT_OK;
}

static rbt_status take_line(struct rbt_run *run, const char *line, size_t size, size_t number)
{
    json_error_t error;
    json_t *event = json_loadb(line, size, 0, &error);
    rbt_status st = RBT_OK;
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (!json_is_object(event)) {
        st = rbt_fail(RBT_E_DATA, "cannot read \"%s\", line %zu: this is not a JSON object",
                      run->path, number);
    } else if (kind == NULL) {
        st = rbt_fail(RBT_E_DATA, "cannot read \"%s\", line %zu: this is not an event of a log",
                      run->path, number);
    } else if (strcmp(kind, "start") == 0) {
        take_start(run, event);
    } else if (strcmp(kind, "eval") == 0) {
        st = take_eval(run, event);
    } else if (strcmp(kind, "end") == 0) {
        take_end(run, event);
    } else if (strcmp(kind, "traffic") == 0) {
        st = take_traffic(run, event);
    }
    json_decref(event);
    return st;
}

/* Reads the whole file. */
static rbt_status load(const char *path, struct rbt_text_buffer *text)
{
    const rbt_status st = strcmp(path, "-") == 0
                              ? rbt_file_read_open(STDIN_FILENO, SIZE_MAX, text)
                              : rbt_file_read(path, RBT_FILE_OR_PIPE, SIZE_MAX, text);
    return st == RBT_OK ? RBT_OK : rbt_fail_in(st, "cannot read \"%s\"", path);
}

/* Cuts the text into lines and takes each. */
static rbt_status take_lines(struct rbt_run *run, const struct rbt_text_buffer *text)
{
    size_t number = 0;
    for (size_t start = 0; start < text->length;) {
        const char *line = text->data + start;
        const char *end = memchr(line, '\n', text->length - start);
        const size_t size = end != NULL ? (size_t)(end - line) : text->length - start;
        number++;
        start += size + 1;
        if (strspn(line, " \t\r\n") >= size) {
            continue; /* an empty line harms nobody */
        }
        const rbt_status st = take_line(run, line, size, number);
        if (st == RBT_E_DATA && end == NULL && number > 1) {
            run->is_cut = true; /* the writer was stopped in the middle of it */
        } else if (st != RBT_OK) {
            return st;
        }
    }
    return number > 0 ? RBT_OK : rbt_fail(RBT_E_DATA, "cannot read \"%s\": it is empty", run->path);
}

rbt_status rbt_runs_read(const char *path, struct rbt_run *run)
{
    struct rbt_run result = {.path = path, .column_count = RBT_RUNS_METRICS};
    for (size_t i = 0; i < RBT_RUNS_METRICS; i++) {
        snprintf(result.names[i], RBT_RUNS_NAME_MAX, "%s", fixed_names[i]);
    }
    struct rbt_text_buffer text = {0};
    rbt_status st = load(path, &text);
    st = st != RBT_OK ? st : take_lines(&result, &text);
    rbt_text_deinit(&text);
    if (st != RBT_OK) {
        rbt_runs_free(&result);
        return st;
    }
    *run = result;
    return RBT_OK;
}
