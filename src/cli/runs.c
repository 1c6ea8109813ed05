/* cli/runs.c - reads logs of runs back.
 *
 * The file is read whole and cut into lines in place; jansson takes the lines apart. */
#include "cli/runs.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

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

static double number_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
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

static rbt_status take_eval(struct rbt_run *run, json_t *event)
{
    double *row = add_row(run);
    if (row == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate room for \"%s\"", run->path);
    }
    for (size_t i = 0; i < RBT_RUNS_METRICS; i++) {
        row[i] = number_of(json_object_get(event, fixed_names[i]));
    }
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(json_object_get(event, "eval"), name, value)
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
        copy_text(event, "status", run->status);
    }
    json_decref(event);
    return st;
}

/* Reads the whole file. */
static rbt_status load(const char *path, struct rbt_text_buffer *text)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (file == NULL) {
        return errno == ENOENT ? rbt_fail(RBT_E_NOTFOUND, "cannot read \"%s\": no such file", path)
                               : rbt_fail(RBT_E_IO, "could not read \"%s\"", path);
    }
    char block[16384];
    size_t size = 0;
    while ((size = fread(block, 1, sizeof block, file)) > 0) {
        rbt_text_add_bytes(text, block, size);
    }
    rbt_status st = RBT_OK;
    if (ferror(file)) {
        st = rbt_fail(RBT_E_IO, "could not read \"%s\"", path);
    } else if (text->has_failed) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate room for \"%s\"", path);
    }
    if (file != stdin) {
        (void)fclose(file); /* only read */
    }
    return st;
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
