/* data/examples.c - reads files of examples: from paths to arrays.
 *
 * Files are read one after the other, each by several threads (data/lines.h), into one set of
 * arrays (data/builder.h). The formats differ in the function that parses a line.
 *
 * Threads: as many as the options say while a file is parsed. Memory: one file's text at a time. */
#include "data/examples.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/thread.h"
#include "data/builder.h"
#include "data/csv.h"
#include "data/format.h"
#include "data/input.h"
#include "data/libsvm.h"
#include "data/lines.h"
#include "data/paths.h"

enum { THREADS_MAX = 256 };

/* One file that is being parsed. */
struct task {
    const struct rbt_data_options *options;
    struct rbt_text text; /* without what was taken off already */
    rbt_line_function function;
    char mark;           /* what the number of features is bounded by */
    struct rbt_csv csv;  /* of a CSV file */
    size_t column_count; /* of the CSV files before it, or 0 */
    struct rbt_chunks chunks;
    struct rbt_sink *sinks;
};

void rbt_examples_free(struct rbt_examples *examples)
{
    rbt_free(examples->offsets);
    rbt_free(examples->labels);
    rbt_free(examples->keys);
    rbt_free(examples->values);
    *examples = (struct rbt_examples){0};
}

static uint32_t count_threads(const struct rbt_data_options *options)
{
    const uint32_t count = options->threads == 0 ? rbt_thread_cores() : options->threads;
    return count < THREADS_MAX ? count : THREADS_MAX;
}

static rbt_status not_examples(const char *name)
{
    const rbt_status st =
        rbt_fail(RBT_E_INVALID, "cannot read \"%s\": it holds ratings, not examples", name);
    return rbt_fail_hint(st, "Use --format csv if it is a table of numbers with a label.");
}

/* Decides how the task's text is parsed. */
static rbt_status choose(struct task *task)
{
    enum rbt_format format = task->options->format;
    if (format == RBT_FORMAT_AUTO) {
        format = rbt_format_guess(&task->text);
    }
    if (format == RBT_FORMAT_RATINGS || format == RBT_FORMAT_BOW || format == RBT_FORMAT_TEXT) {
        return not_examples(task->text.name);
    }
    if (format == RBT_FORMAT_LIBSVM) {
        task->function = rbt_libsvm_line;
        task->mark = ':';
        return RBT_OK;
    }
    const rbt_status st = rbt_csv_open(task->options, &task->text, &task->csv);
    if (st != RBT_OK) {
        return st;
    }
    const size_t count = task->csv.column_count;
    if (task->column_count != 0 && task->column_count != count) {
        return rbt_fail(RBT_E_DATA,
                        "cannot read \"%s\", line %zu: %zu columns; the files before have %zu",
                        task->text.name, task->csv.header.number, count, task->column_count);
    }
    task->column_count = count;
    task->function = rbt_csv_line;
    task->mark = task->csv.separator;
    return RBT_OK;
}

/* Cuts the text and makes the sinks. */
static rbt_status prepare(struct task *task, struct rbt_builder *builder)
{
    rbt_status st =
        rbt_lines_cut(&task->text, count_threads(task->options), task->mark, &task->chunks);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_chunks *chunks = &task->chunks;
    const bool is_csv = task->function == rbt_csv_line;
    size_t nonzero_max[THREADS_MAX];
    RBT_ASSERT(chunks->count <= THREADS_MAX);
    for (uint32_t i = 0; i < chunks->count; i++) {
        /* a line of CSV has one cell more than separators */
        nonzero_max[i] = chunks->items[i].mark_count + (is_csv ? chunks->items[i].line_count : 0);
    }
    st = rbt_builder_reserve(builder, chunks, nonzero_max, &task->sinks);
    if (st != RBT_OK) {
        return st;
    }
    for (uint32_t i = 0; i < chunks->count; i++) {
        task->sinks[i].options = task->options;
        task->sinks[i].csv = is_csv ? &task->csv : NULL;
    }
    return RBT_OK;
}

static rbt_status parse_chunk(void *argument, uint32_t index)
{
    const struct task *task = argument;
    return rbt_lines_walk(&task->chunks.items[index], task->function, &task->sinks[index]);
}

static rbt_status parse_text(struct task *task, struct rbt_builder *builder)
{
    rbt_status st = choose(task);
    st = st != RBT_OK ? st : prepare(task, builder);
    st = st != RBT_OK ? st : rbt_lines_run(&task->chunks, parse_chunk, task);
    if (st != RBT_OK) {
        return st;
    }
    const size_t before = builder->examples.count;
    rbt_builder_gather(builder, task->sinks, task->chunks.count);
    if (builder->examples.count == before) {
        return rbt_fail(RBT_E_DATA, "cannot read \"%s\": there are no examples in it",
                        task->text.name);
    }
    return rbt_builder_check(builder, task->text.name, task->sinks, task->chunks.count);
}

/* Adds the examples of one text; `column_count` is that of the CSV files so far. */
static rbt_status add(struct rbt_builder *builder, const struct rbt_data_options *options,
                      const struct rbt_text *text, size_t *column_count)
{
    struct task task = {.options = options, .text = *text, .column_count = *column_count};
    if (text->size >= 3 && memcmp(text->bytes, "\xef\xbb\xbf", 3) == 0) {
        task.text.bytes += 3; /* the byte order mark of editors on Windows */
        task.text.size -= 3;
    }
    const rbt_status st = parse_text(&task, builder);
    *column_count = task.column_count;
    rbt_lines_free(&task.chunks);
    rbt_free(task.sinks);
    return st;
}

/* Takes the builder: its content moves to `examples` or is freed. */
static rbt_status finish(struct rbt_builder *builder, rbt_status st,
                         const struct rbt_data_options *options, struct rbt_examples *examples)
{
    if (st == RBT_OK && options->has_binary_label) {
        st = rbt_builder_classify(builder, options->label_positive);
    }
    if (st != RBT_OK) {
        rbt_examples_free(&builder->examples);
        return st;
    }
    *examples = builder->examples;
    return RBT_OK;
}

rbt_status rbt_examples_parse(const struct rbt_data_options *options, const struct rbt_text *text,
                              struct rbt_examples *examples)
{
    struct rbt_builder builder = {0};
    size_t column_count = 0;
    const rbt_status st = add(&builder, options, text, &column_count);
    return finish(&builder, st, options, examples);
}

static rbt_status add_file(struct rbt_builder *builder, const struct rbt_data_options *options,
                           const char *path, size_t *column_count)
{
    struct rbt_input input = {0};
    rbt_status st = rbt_input_read(path, &input);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_text text = {
        .name = path, .bytes = input.bytes, .size = input.size, .first_line = 1};
    st = add(builder, options, &text, column_count);
    rbt_input_free(&input);
    return st;
}

rbt_status rbt_examples_read(const struct rbt_data_options *options, struct rbt_examples *examples)
{
    if (options->format == RBT_FORMAT_RATINGS || options->format == RBT_FORMAT_BOW ||
        options->format == RBT_FORMAT_TEXT) {
        return rbt_fail(RBT_E_INVALID, "files of the format \"%s\" do not hold examples",
                        rbt_format_name(options->format));
    }
    if (options->path_count == 0) {
        return rbt_fail(RBT_E_INVALID, "no file is given");
    }
    struct rbt_paths paths = {0};
    rbt_status st = rbt_paths_expand(options->paths, options->path_count, &paths);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_builder builder = {0};
    size_t column_count = 0;
    for (size_t i = 0; st == RBT_OK && i < paths.count; i++) {
        st = add_file(&builder, options, paths.items[i], &column_count);
    }
    st = finish(&builder, st, options, examples);
    rbt_paths_free(&paths); /* the builder's messages name them */
    return st;
}
