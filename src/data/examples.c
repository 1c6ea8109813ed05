/* data/examples.c - reads files of examples: from paths to arrays.
 *
 * Files are read one after the other and part by part, each part by several threads (data/lines.h),
 * into one set of arrays (data/builder.h), which is kept or goes to a receiver. The formats differ
 * in the function that parses a line. A whole file's text would be more than what is made of it.
 *
 * Threads: as many as the options say while a part is parsed. Memory: one part's text at a time. */
#include "data/examples.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/thread.h"
#include "data/builder.h"
#include "data/classes.h"
#include "data/csv.h"
#include "data/dictionary.h"
#include "data/fields.h"
#include "data/format.h"
#include "data/input.h"
#include "data/libsvm.h"
#include "data/lines.h"
#include "data/paths.h"

/* Bytes of text: enough for all threads, and the cache has room for it. */
enum { PART_SIZE = 8 << 20 };

/* One file that is being parsed. */
struct task {
    const struct rbt_data_options *options;
    struct rbt_text text; /* without what was taken off already */
    rbt_line_function function;
    char mark;           /* what the number of features is bounded by */
    struct rbt_csv csv;  /* of a CSV file */
    size_t column_count; /* of the CSV files before it, or 0 */
    struct rbt_chunks chunks;
    struct rbt_builder_sink *sinks;
    uint64_t *numbers; /* of the sinks, one behind the other */
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
    return count < RBT_PARSERS_MAX ? count : RBT_PARSERS_MAX;
}

static rbt_status not_examples(const char *name)
{
    const rbt_status st =
        rbt_fail(RBT_E_INVALID, "cannot read \"%s\": it holds ratings, not examples", name);
    return rbt_fail_hint(st, "Use --format csv if it is a table of numbers with a label.");
}

/* Sees whether a file has the columns that a model knows. */
static rbt_status check_columns(const struct task *task, size_t count)
{
    const size_t wanted = task->options->column_count;
    if (wanted == 0 || count == wanted || task->csv.is_matched) {
        return RBT_OK;
    }
    const rbt_status st = rbt_fail(
        RBT_E_DATA, "cannot read \"%s\", line %zu: %zu column%s instead of %zu as in training",
        task->text.name, task->csv.header.number, count, count == 1 ? "" : "s", wanted);
    return count + 1 == wanted && !task->options->is_unlabelled
               ? rbt_fail_hint(st,
                               "Add the label's column; only `rubato predict` works without it.")
               : st;
}

static rbt_status choose_libsvm(struct task *task)
{
    if (task->options->column_count != 0) {
        return rbt_fail(RBT_E_DATA,
                        "cannot read \"%s\": it is LIBSVM data, but training was on CSV data with "
                        "%zu columns",
                        task->text.name, task->options->column_count);
    }
    const struct rbt_column_plan *plan = task->options->plan;
    const char *option = plan == NULL || plan->is_loaded ? NULL
                         : plan->categorical != NULL     ? "--categorical"
                         : plan->skipped != NULL         ? "--skip"
                         : plan->positive != 0           ? "--positive"
                         : plan->dictionary != NULL      ? "--dictionary"
                                                         : NULL;
    if (option != NULL) {
        return rbt_fail(RBT_E_INVALID,
                        "cannot read \"%s\": it is LIBSVM data, but \"%s\" is for tables",
                        task->text.name, option);
    }
    task->function = rbt_libsvm_line;
    task->mark = ':';
    return RBT_OK;
}

/* Decides how the task's text is parsed. */
static rbt_status choose(struct task *task)
{
    enum rbt_format format = task->options->format;
    if (format == RBT_FORMAT_AUTO) {
        format = rbt_format_guess(&task->text);
    }
    if (format == RBT_FORMAT_BOW || format == RBT_FORMAT_TEXT ||
        (format == RBT_FORMAT_RATINGS && !rbt_fields_is_planned(task->options->plan))) {
        return not_examples(task->text.name);
    }
    if (format == RBT_FORMAT_LIBSVM) {
        return choose_libsvm(task);
    }
    if (task->options->plan != NULL && task->options->plan->is_libsvm) {
        const rbt_status st = rbt_fail(
            RBT_E_DATA, "cannot read \"%s\": it is a table, but training was on LIBSVM data",
            task->text.name);
        return task->options->format == RBT_FORMAT_AUTO
                   ? rbt_fail_hint(st, "If it is LIBSVM data, use --format libsvm.")
                   : st;
    }
    const bool is_clicks = format == RBT_FORMAT_CRITEO || format == RBT_FORMAT_AVAZU;
    if (is_clicks && task->options->plan == NULL) {
        return rbt_fail(RBT_E_INVALID,
                        "cannot read \"%s\": files of the format \"%s\" need an algorithm that "
                        "reads columns of text, such as linear",
                        task->text.name, rbt_format_name(format));
    }
    const bool is_planned = is_clicks || rbt_fields_is_planned(task->options->plan);
    rbt_status st = is_planned ? rbt_fields_open(task->options, format, &task->text, &task->csv)
                               : rbt_csv_open(task->options, &task->text, &task->csv);
    if (st != RBT_OK) {
        return st;
    }
    const size_t count = task->csv.column_count;
    st = check_columns(task, count);
    if (st != RBT_OK) {
        return st;
    }
    if (task->column_count != 0 && task->column_count != count && !task->csv.is_matched) {
        return rbt_fail(RBT_E_DATA,
                        "cannot read \"%s\", line %zu: %zu columns; the files before have %zu",
                        task->text.name, task->csv.header.number, count, task->column_count);
    }
    task->column_count = task->csv.is_matched ? task->options->plan->width : count;
    task->function = is_planned ? rbt_fields_line : rbt_csv_line;
    task->mark = task->csv.separator;
    return RBT_OK;
}

/* Whether the numbers of the task's table are measured. */
static bool is_measuring(const struct task *task)
{
    return task->function == rbt_fields_line && task->csv.plan->is_measuring;
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
    const bool is_csv = task->function == rbt_csv_line || task->function == rbt_fields_line;
    size_t nonzero_max[RBT_PARSERS_MAX];
    RBT_ASSERT(chunks->count <= RBT_PARSERS_MAX);
    for (uint32_t i = 0; i < chunks->count; i++) {
        /* a line of CSV has one cell more than separators */
        nonzero_max[i] = chunks->items[i].mark_count + (is_csv ? chunks->items[i].line_count : 0);
    }
    st = rbt_builder_reserve(builder, chunks, nonzero_max, &task->sinks);
    if (st != RBT_OK) {
        return st;
    }
    const size_t columns = task->csv.column_count;
    if (is_measuring(task)) {
        task->numbers = rbt_calloc(chunks->count * columns, sizeof *task->numbers);
        if (task->numbers == NULL) {
            return rbt_fail(RBT_E_NOMEM, "cannot read \"%s\": out of memory", task->text.name);
        }
    }
    for (uint32_t i = 0; i < chunks->count; i++) {
        task->sinks[i].options = task->options;
        task->sinks[i].csv = is_csv ? &task->csv : NULL;
        task->sinks[i].numbers = task->numbers == NULL ? NULL : task->numbers + i * columns;
    }
    return RBT_OK;
}

/* Adds the part's numbers, those of examples from `first` on, to what is known of columns. */
static rbt_status measure(const struct task *task, struct rbt_builder *builder, size_t first)
{
    const size_t columns = task->csv.column_count;
    const rbt_status st = rbt_scales_open(&builder->scales, columns);
    if (st != RBT_OK) {
        return st;
    }
    for (size_t k = 0; k < task->chunks.count * columns; k++) {
        builder->scales.columns[k % columns].numbers += task->numbers[k];
    }
    rbt_scales_add(&builder->scales, &builder->examples, first);
    return RBT_OK;
}

static rbt_status parse_chunk(void *argument, uint32_t index)
{
    const struct task *task = argument;
    return rbt_lines_walk(&task->chunks.items[index], task->function, &task->sinks[index]);
}

static void end_part(struct task *task)
{
    for (uint32_t i = 0; task->sinks != NULL && i < task->chunks.count; i++) {
        rbt_vocabulary_free(&task->sinks[i].classes);
    }
    rbt_lines_free(&task->chunks);
    rbt_free(task->sinks);
    rbt_free(task->numbers);
    task->sinks = NULL;
    task->numbers = NULL;
}

/* What can be done about labels that are not two; a model's are what they are. */
static rbt_status label_hint(const struct task *task, rbt_status st)
{
    if (task->options->label_positive != 0) {
        return st;
    }
    const char *column = task->function == rbt_libsvm_line
                             ? ""
                             : "; --label-column names the label's column if it is not the last";
    return task->options->plan != NULL && !task->options->is_binary_only
               ? rbt_fail_hint(
                     st, "For several classes use --loss softmax, for quantities --loss squared%s.",
                     column)
               : rbt_fail_hint(st, "For quantities use --loss squared%s.", column);
}

/* Labels of all sinks become numbers of one list. */
static rbt_status merge_classes(const struct task *task, struct rbt_builder *builder)
{
    const bool is_table = task->function != rbt_libsvm_line;
    rbt_status st = RBT_OK;
    const struct rbt_column_plan *plan = task->options->plan;
    if (!task->options->has_classes || task->options->ignores_label || plan == NULL ||
        plan->positive != 0) {
        return RBT_OK;
    }
    if (builder->examples.count > 0 && is_table != (builder->classes.count > 0)) {
        return rbt_fail(
            RBT_E_DATA,
            "cannot read \"%s\": tables and LIBSVM data cannot be mixed where labels are classes",
            task->text.name);
    }
    for (uint32_t i = 0; st == RBT_OK && is_table && i < task->chunks.count; i++) {
        st = rbt_classes_merge(builder, &task->sinks[i]);
    }
    return st != RBT_OK ? rbt_fail_in(st, "cannot read \"%s\"", task->text.name) : RBT_OK;
}

/* Adds the examples of the task's text, whose format is known. */
static rbt_status parse_part(struct task *task, struct rbt_builder *builder)
{
    struct rbt_dictionary *dictionary =
        task->function == rbt_fields_line ? task->options->plan->dictionary : NULL;
    rbt_status st = dictionary != NULL && !dictionary->is_closed
                        ? rbt_fields_collect(&task->csv, &task->text)
                        : RBT_OK;
    st = st != RBT_OK ? st : prepare(task, builder);
    st = st != RBT_OK ? st : rbt_lines_run(&task->chunks, parse_chunk, task);
    if (st != RBT_OK) {
        return st;
    }
    for (uint32_t i = 0; dictionary != NULL && i < task->chunks.count; i++) {
        dictionary->unknown += task->sinks[i].unknown_count;
    }
    const size_t first = builder->examples.count;
    st = merge_classes(task, builder);
    if (st != RBT_OK) {
        return st;
    }
    rbt_builder_gather(builder, task->sinks, task->chunks.count);
    st = is_measuring(task) ? measure(task, builder, first) : RBT_OK;
    if (st != RBT_OK) {
        return st;
    }
    st = rbt_builder_check(builder, task->text.name, task->sinks, task->chunks.count);
    return st != RBT_OK ? label_hint(task, st) : RBT_OK;
}

static rbt_status no_examples(const char *name)
{
    return rbt_fail(RBT_E_DATA, "cannot read \"%s\": it has no examples", name);
}

/* Takes off the byte order mark of editors on Windows. */
static void skip_mark(struct rbt_text *text)
{
    if (text->size >= 3 && memcmp(text->bytes, "\xef\xbb\xbf", 3) == 0) {
        text->bytes += 3;
        text->size -= 3;
    }
}

/* All numbers are measured: those that are here are multiplied and hashed. */
static void settle_scales(struct rbt_builder *builder, const struct rbt_data_options *options)
{
    rbt_scales_settle(&builder->scales, options->plan);
    rbt_scales_apply(options->plan, &builder->examples);
    if (options->hash_bits > 0) {
        rbt_builder_hash(builder, options->hash_bits);
    }
}

/* Takes the builder: its content moves to `examples` or is freed. */
static rbt_status finish(struct rbt_builder *builder, rbt_status st,
                         const struct rbt_data_options *options, struct rbt_examples *examples)
{
    const bool is_named = options->plan != NULL && options->plan->positive != 0 &&
                          !options->plan->is_loaded; /* other data need not have it */
    if (st == RBT_OK && is_named && builder->label_count == 1 && builder->labels[0] == 0 &&
        options->label_positive == 0) {
        st = rbt_fail(RBT_E_DATA, "no example has the label that --positive names");
    }
    if (st == RBT_OK && builder->classes.count > 0) {
        st = rbt_classes_settle(builder, options->plan);
    }
    rbt_vocabulary_free(&builder->classes);
    if (st == RBT_OK && options->has_binary_label) {
        st = rbt_builder_classify(builder, options->label_positive);
    }
    if (st == RBT_OK && builder->scales.columns != NULL) {
        settle_scales(builder, options);
    }
    rbt_scales_free(&builder->scales);
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
    struct task task = {.options = options, .text = *text};
    skip_mark(&task.text);
    rbt_status st = choose(&task);
    st = st != RBT_OK ? st : parse_part(&task, &builder);
    if (st == RBT_OK && builder.examples.count == 0) {
        st = no_examples(text->name);
    }
    builder.examples.column_count = task.column_count;
    end_part(&task);
    rbt_free(task.csv.order);
    return finish(&builder, st, options, examples);
}

static rbt_status check_request(const struct rbt_data_options *options)
{
    if (options->format == RBT_FORMAT_RATINGS || options->format == RBT_FORMAT_BOW ||
        options->format == RBT_FORMAT_TEXT) {
        return rbt_fail(RBT_E_INVALID, "files of the format \"%s\" do not hold examples",
                        rbt_format_name(options->format));
    }
    return options->path_count == 0 ? rbt_fail(RBT_E_INVALID, "the name of a data file is missing")
                                    : RBT_OK;
}

/* --- Part by part ---------------------------------------------------------------------------- */

/* The first line outlives its part: messages name columns by it. The caller frees it. */
static rbt_status keep_header(struct task *task, char **kept)
{
    const struct rbt_line header = task->csv.header;
    if (header.begin == NULL) {
        return RBT_OK;
    }
    const size_t size = (size_t)(header.end - header.begin);
    *kept = rbt_calloc(size + 1, 1);
    if (*kept == NULL) {
        return rbt_fail(RBT_E_NOMEM, "cannot read \"%s\": out of memory", task->text.name);
    }
    memcpy(*kept, header.begin, size);
    task->csv.header.begin = *kept;
    task->csv.header.end = *kept + size;
    return RBT_OK;
}

/* Decides how the file is parsed, once there is a line to see. */
static rbt_status look(struct task *task, char **header)
{
    struct rbt_text rest = task->text;
    struct rbt_line line;
    if (task->function != NULL || !rbt_lines_next(&rest, &line)) {
        return RBT_OK;
    }
    const rbt_status st = choose(task);
    return st != RBT_OK ? st : keep_header(task, header);
}

/* What the builder has goes to the receiver, and then makes room for the next part. */
static rbt_status pass_on(struct rbt_builder *builder, const struct rbt_receiver *receiver)
{
    const rbt_status st = receiver->take(receiver->context, &builder->examples);
    builder->examples.count = 0;
    builder->nonzero_count = 0;
    return st;
}

/* One file. Without a receiver the builder keeps the examples. */
static rbt_status pass_file(struct task *task, struct rbt_builder *builder,
                            rbt_input_reader *reader, const struct rbt_receiver *receiver,
                            char **header)
{
    size_t total = 0;
    struct rbt_input_part part = {0};
    rbt_status st = rbt_input_next(reader, &part);
    for (size_t line = 1; st == RBT_OK && part.size > 0;) {
        task->text.bytes = part.bytes;
        task->text.size = part.size;
        task->text.first_line = line;
        const size_t before = builder->examples.count;
        if (line == 1) {
            skip_mark(&task->text);
        }
        st = look(task, header);
        st = st != RBT_OK ? st : parse_part(task, builder);
        if (st == RBT_OK) {
            const struct rbt_chunk *last = &task->chunks.items[task->chunks.count - 1];
            line = last->first_line + last->line_count;
            total += builder->examples.count - before;
            st = receiver != NULL ? pass_on(builder, receiver) : RBT_OK;
        }
        end_part(task);
        st = st != RBT_OK ? st : rbt_input_next(reader, &part);
    }
    return st == RBT_OK && total == 0 ? no_examples(task->text.name) : st;
}

static rbt_status pass_path(struct rbt_builder *builder, const struct rbt_data_options *options,
                            const struct rbt_receiver *receiver, const char *path,
                            size_t *column_count)
{
    struct task task = {
        .options = options, .text = {.name = path}, .column_count = *column_count, .mark = '\n'};
    rbt_input_reader *reader = NULL;
    char *header = NULL;
    rbt_status st =
        rbt_input_open(path, receiver == NULL ? PART_SIZE : receiver->part_size, &reader);
    st = st != RBT_OK ? st : pass_file(&task, builder, reader, receiver, &header);
    *column_count = task.column_count;
    builder->examples.column_count = task.column_count;
    rbt_input_close(reader);
    rbt_free(task.csv.order);
    rbt_free(header);
    return st;
}

/* Reads all files; what the receiver did not take, or all without one, is in `examples`. */
static rbt_status read_all(const struct rbt_data_options *options,
                           const struct rbt_receiver *receiver, struct rbt_examples *examples)
{
    struct rbt_paths paths = {0};
    rbt_status st = check_request(options);
    st = st != RBT_OK ? st : rbt_paths_expand(options->paths, options->path_count, &paths);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_builder builder = {0};
    size_t column_count = 0;
    for (size_t i = 0; st == RBT_OK && i < paths.count; i++) {
        st = pass_path(&builder, options, receiver, paths.items[i], &column_count);
    }
    st = finish(&builder, st, options, examples);
    rbt_paths_free(&paths); /* the builder's messages name them */
    return st;
}

rbt_status rbt_examples_read(const struct rbt_data_options *options, struct rbt_examples *examples)
{
    return read_all(options, NULL, examples);
}

static rbt_status ignore(void *context, const struct rbt_examples *part)
{
    (void)context;
    (void)part;
    return RBT_OK;
}

/* Reads all files for the scales alone: numbers must be multiplied before they are hashed. */
static rbt_status survey(const struct rbt_data_options *options)
{
    const struct rbt_receiver receiver = {.part_size = PART_SIZE, .take = ignore};
    struct rbt_data_options plain = *options;
    struct rbt_examples none = {0};
    for (size_t i = 0; i < options->path_count; i++) {
        if (strcmp(options->paths[i], "-") == 0) {
            const rbt_status st =
                rbt_fail(RBT_E_INVALID, "option \"--hash\" with tables on disk reads the data "
                                        "twice, which standard input does not allow");
            return rbt_fail_hint(st, "Write the data to a file, or omit --hash.");
        }
    }
    plain.hash_bits = 0;
    const rbt_status st = read_all(&plain, &receiver, &none);
    rbt_examples_free(&none);
    return st;
}

rbt_status rbt_examples_pass(const struct rbt_data_options *options,
                             const struct rbt_receiver *receiver, struct rbt_labels *labels)
{
    struct rbt_examples none = {0};
    struct rbt_column_plan *plan = options->plan;
    const bool is_clicks =
        options->format == RBT_FORMAT_CRITEO || options->format == RBT_FORMAT_AVAZU;
    rbt_status st = RBT_OK;
    if (options->hash_bits > 0 && !is_clicks && rbt_fields_is_planned(plan) && plan->count == 0) {
        st = survey(options);
    }
    const bool is_fresh = plan != NULL && plan->count == 0;
    st = st != RBT_OK ? st : read_all(options, receiver, &none);
    if (st == RBT_OK) {
        *labels = (struct rbt_labels){none.label_positive, none.label_negative, none.column_count,
                                      is_fresh && plan->count > 0};
        rbt_examples_free(&none);
    }
    return st;
}
