/* data/documents.c - reads documents: bags of words, and examples whose values are counts.
 *
 * Threads: none. Memory: one file's text, and 8 bytes per different word of a document. */
#include "data/documents.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "data/format.h"
#include "data/input.h"
#include "data/lines.h"
#include "data/number.h"
#include "data/paths.h"
#include "data/sort.h"

enum { FIRST_COUNT = 1024, GUESS_LINES = 20 };

/* What a count may be, so that sums of many fit anywhere, and a word's number. */
static const uint64_t count_limit = 1U << 24;
static const uint64_t word_limit = 1U << 31;
static const uint64_t gap_limit = 1U << 20; /* documents without words, one behind the other */

void rbt_documents_free(struct rbt_documents *documents)
{
    rbt_free(documents->offsets);
    rbt_free(documents->words);
    rbt_free(documents->counts);
    rbt_vocabulary_free(&documents->vocabulary);
    *documents = (struct rbt_documents){0};
}

/* --- Building -------------------------------------------------------------------------------- */

static bool grow(void **block, size_t count, size_t size)
{
    void *grown = rbt_realloc(*block, count, size);
    *block = grown == NULL ? *block : grown;
    return grown != NULL;
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the documents");
}

rbt_status rbt_document_builder_word(struct rbt_document_builder *builder, uint32_t word,
                                     uint32_t count)
{
    struct rbt_documents *documents = &builder->documents;
    if (builder->size == builder->size_max) {
        const size_t room = builder->size == 0 ? FIRST_COUNT : 2 * builder->size;
        if (!grow((void **)&documents->words, room, sizeof *documents->words) ||
            !grow((void **)&documents->counts, room, sizeof *documents->counts)) {
            return no_memory();
        }
        builder->size_max = room;
    }
    documents->words[builder->size] = word;
    documents->counts[builder->size] = count;
    builder->size++;
    return RBT_OK;
}

/* Sorts the words of the open document, whose last `count` words they are. */
static rbt_status sort_words(struct rbt_document_builder *builder, uint32_t *words,
                             uint32_t *counts, size_t count)
{
    if (builder->scratch_max < 2 * count) {
        if (!grow((void **)&builder->scratch, 4 * count, sizeof *builder->scratch)) {
            return no_memory();
        }
        builder->scratch_max = 4 * count;
    }
    for (size_t i = 0; i < count; i++) {
        builder->scratch[i] = (uint64_t)words[i] << 32 | counts[i];
    }
    rbt_sort_keys(builder->scratch, builder->scratch + count, count);
    for (size_t i = 0; i < count; i++) {
        words[i] = (uint32_t)(builder->scratch[i] >> 32);
        counts[i] = (uint32_t)builder->scratch[i];
    }
    return RBT_OK;
}

/* Adds up neighbours that are the same word; how many are left, or 0 if a word is in there too
 * often. Each count is below the limit, so that no sum can wrap. */
static size_t merge_words(uint32_t *words, uint32_t *counts, size_t count)
{
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        if (left > 0 && words[left - 1] == words[i]) {
            counts[left - 1] += counts[i];
            if (counts[left - 1] >= count_limit) {
                return 0;
            }
        } else {
            words[left] = words[i];
            counts[left++] = counts[i];
        }
    }
    return left;
}

rbt_status rbt_document_builder_end(struct rbt_document_builder *builder)
{
    struct rbt_documents *documents = &builder->documents;
    if (documents->count + 2 > builder->count_max) {
        const size_t room = builder->count_max == 0 ? FIRST_COUNT : 2 * builder->count_max;
        if (!grow((void **)&documents->offsets, room, sizeof *documents->offsets)) {
            return no_memory();
        }
        builder->count_max = room;
    }
    const size_t first = (size_t)documents->offsets[documents->count];
    const size_t count = builder->size - first;
    if (count > 0) {
        uint32_t *words = documents->words + first;
        uint32_t *counts = documents->counts + first;
        const rbt_status st = sort_words(builder, words, counts, count);
        if (st != RBT_OK) {
            return st;
        }
        const size_t left = merge_words(words, counts, count);
        if (left == 0) {
            return rbt_fail(RBT_E_DATA, "a document has one word %llu times or more",
                            (unsigned long long)count_limit);
        }
        builder->size = first + left;
        for (size_t i = first; i < builder->size; i++) {
            documents->tokens += documents->counts[i];
        }
        const size_t last = documents->words[builder->size - 1];
        documents->word_count = last < documents->word_count ? documents->word_count : last + 1;
    }
    documents->offsets[++documents->count] = builder->size;
    return RBT_OK;
}

/* Adds a word by its number in the file, unless nobody knows it. */
static rbt_status add_word(struct rbt_document_builder *builder, uint64_t word, uint64_t count)
{
    const struct rbt_document_options *options = builder->options;
    const size_t named = builder->documents.vocabulary.count;
    if (count == 0 || (options->known_count > 0 && word >= options->known_count)) {
        return RBT_OK;
    }
    if (named > 0 && word >= named) {
        return rbt_fail(RBT_E_DATA, "word %llu is out of range: the vocabulary has %zu words",
                        (unsigned long long)word + 1, named);
    }
    return rbt_document_builder_word(builder, (uint32_t)word, (uint32_t)count);
}

/* --- Bags of words --------------------------------------------------------------------------- */

/* One file of triples. */
struct bag {
    struct rbt_document_builder *builder;
    uint64_t head[3];  /* documents, words, and lines that follow */
    size_t head_count; /* how much of it has been read */
    uint64_t document; /* from 1; 0 before the first */
    uint64_t lines;
};

/* Reads up to three whole numbers; how many there are, or 4 if there is something else. */
static size_t read_numbers(const struct rbt_line *line, uint64_t numbers[3])
{
    const char *p = rbt_lines_skip(line->begin, line->end);
    size_t count = 0;
    while (p < line->end && count < 3) {
        const char *next = rbt_number_u64(p, &numbers[count]);
        if (next == NULL || (next != line->end && *next != ' ' && *next != '\t' && *next != '\r')) {
            return 4;
        }
        count++;
        p = next;
        while (p < line->end && (*p == ' ' || *p == '\t' || *p == '\r')) {
            p++;
        }
    }
    return p < line->end ? 4 : count;
}

static rbt_status bag_head(struct bag *bag, const uint64_t *numbers, size_t count)
{
    static const char *const names[] = {"documents", "words", "lines"};
    const uint64_t limit = bag->head_count == 1 ? word_limit : 1ULL << 40;
    if (count != 1 || numbers[0] > limit) {
        return rbt_fail(RBT_E_DATA,
                        "a bag of words begins with the numbers of documents, words and lines; the "
                        "number of %s is missing",
                        names[bag->head_count]);
    }
    bag->head[bag->head_count++] = numbers[0];
    return RBT_OK;
}

static rbt_status bag_line(void *context, const struct rbt_line *line)
{
    struct bag *bag = context;
    uint64_t numbers[3] = {0};
    const size_t count = read_numbers(line, numbers);
    if (bag->head_count < 3) {
        return bag_head(bag, numbers, count);
    }
    const struct rbt_word word = rbt_lines_word(line->begin, line->end, "");
    if (count != 3) {
        return rbt_fail(RBT_E_DATA, "a line is: document word count; this one begins with \"%s\"",
                        word.text);
    }
    for (size_t i = 0; i < 2; i++) {
        if (numbers[i] == 0 || numbers[i] > bag->head[i]) {
            return rbt_fail(RBT_E_DATA, "%s %llu is out of range: the head says %llu",
                            i == 0 ? "document" : "word", (unsigned long long)numbers[i],
                            (unsigned long long)bag->head[i]);
        }
    }
    if (numbers[2] >= count_limit) {
        return rbt_fail(RBT_E_DATA, "a count must be below %llu", (unsigned long long)count_limit);
    }
    if (numbers[0] < bag->document) {
        return rbt_fail(RBT_E_DATA, "document %llu follows document %llu; documents must increase",
                        (unsigned long long)numbers[0], (unsigned long long)bag->document);
    }
    if (numbers[0] - bag->document > gap_limit) {
        return rbt_fail(RBT_E_DATA, "document %llu follows document %llu, the gap is too large",
                        (unsigned long long)numbers[0], (unsigned long long)bag->document);
    }
    for (; bag->document < numbers[0]; bag->document++) {
        const rbt_status st = bag->document == 0 ? RBT_OK : rbt_document_builder_end(bag->builder);
        if (st != RBT_OK) {
            return st;
        }
    }
    bag->lines++;
    return add_word(bag->builder, numbers[1] - 1, numbers[2]);
}

static rbt_status parse_bag(struct rbt_document_builder *builder, const struct rbt_text *text)
{
    struct bag bag = {.builder = builder};
    struct rbt_chunks chunks = {0};
    rbt_status st = rbt_lines_cut(text, 1, ' ', &chunks);
    for (uint32_t i = 0; i < chunks.count && st == RBT_OK; i++) {
        st = rbt_lines_walk(&chunks.items[i], bag_line, &bag);
    }
    rbt_lines_free(&chunks);
    if (st == RBT_OK && bag.head_count < 3) {
        st = rbt_fail(RBT_E_DATA, "cannot read \"%s\": it ends within its head", text->name);
    }
    if (st == RBT_OK && bag.lines != bag.head[2]) {
        st = rbt_fail(RBT_E_DATA,
                      "cannot read \"%s\": its head announces %llu lines, but it has %llu",
                      text->name, (unsigned long long)bag.head[2], (unsigned long long)bag.lines);
    }
    /* Documents without words at the end. */
    const uint64_t last = bag.head[0] - bag.document <= gap_limit ? bag.head[0] : bag.document;
    for (; st == RBT_OK && bag.document < last; bag.document++) {
        st = bag.document == 0 ? RBT_OK : rbt_document_builder_end(builder);
    }
    if (st == RBT_OK && bag.document > 0) {
        st = rbt_document_builder_end(builder);
    }
    if (st == RBT_OK && builder->options->known_count == 0 &&
        builder->documents.word_count < bag.head[1]) {
        builder->documents.word_count = (size_t)bag.head[1];
    }
    return st;
}

/* --- Examples -------------------------------------------------------------------------------- */

static rbt_status add_examples(struct rbt_document_builder *builder, const char *name,
                               const struct rbt_examples *examples)
{
    const uint64_t base = builder->options->is_zero_based ? 0 : 1;
    for (size_t i = 0; i < examples->count; i++) {
        for (uint64_t k = examples->offsets[i]; k < examples->offsets[i + 1]; k++) {
            const float value = examples->values[k];
            rbt_status st = RBT_OK;
            if (!(value >= 0 && value < (float)count_limit) || value != (float)(uint32_t)value) {
                st = rbt_fail(RBT_E_DATA, "feature %llu has the value %g, which is not a count",
                              (unsigned long long)examples->keys[k], (double)value);
            } else if (examples->keys[k] - base >= word_limit) {
                st = rbt_fail(RBT_E_DATA, "feature %llu is above 2^31",
                              (unsigned long long)examples->keys[k]);
            } else {
                st = add_word(builder, examples->keys[k] - base, (uint64_t)value);
            }
            if (st != RBT_OK) {
                return rbt_fail_in(st, "cannot read \"%s\", example %zu", name, i + 1);
            }
        }
        const rbt_status st = rbt_document_builder_end(builder);
        if (st != RBT_OK) {
            return st;
        }
    }
    return RBT_OK;
}

static rbt_status parse_examples(struct rbt_document_builder *builder, const struct rbt_text *text)
{
    const struct rbt_data_options options = {.format = RBT_FORMAT_LIBSVM,
                                             .is_zero_based = builder->options->is_zero_based};
    struct rbt_examples examples = {0};
    rbt_status st = rbt_examples_parse(&options, text, &examples);
    if (st == RBT_OK) {
        st = add_examples(builder, text->name, &examples);
        rbt_examples_free(&examples);
    }
    return st;
}

/* --- All of it ------------------------------------------------------------------------------- */

/* Text has clock times and scores, too, which look like features. So every line of LIBSVM begins
 * with a number, its label, and in some of them a feature follows at once. */
static bool looks_like_examples(const struct rbt_text *text)
{
    struct rbt_text rest = *text;
    struct rbt_line line;
    bool has_feature = false;
    for (int i = 0; i < GUESS_LINES && rbt_lines_next(&rest, &line); i++) {
        float number = 0;
        uint64_t key = 0;
        const char *p = rbt_number_float(rbt_lines_skip(line.begin, line.end), &number);
        if (p == NULL || (p != line.end && *p != ' ' && *p != '\t')) {
            return false;
        }
        p = rbt_lines_skip(p, line.end);
        p = p == line.end ? NULL : rbt_number_u64(p, &key);
        has_feature =
            has_feature || (p != NULL && *p == ':' && rbt_number_float(p + 1, &number) != NULL);
    }
    return has_feature;
}

/* A bag of words has three lines of one number and then lines of three. */
static enum rbt_format guess(const struct rbt_text *text)
{
    struct rbt_text rest = *text;
    struct rbt_line line;
    uint64_t numbers[3];
    size_t at = 0;
    while (at < 4 && rbt_lines_next(&rest, &line) &&
           read_numbers(&line, numbers) == (at < 3 ? 1 : 3)) {
        at++;
    }
    if (at >= 3) {
        return RBT_FORMAT_BOW;
    }
    const struct rbt_text nothing = {.name = text->name, .bytes = "", .first_line = 1};
    const bool is_examples =
        looks_like_examples(text) || rbt_format_guess(&nothing) == RBT_FORMAT_LIBSVM; /* by name */
    return is_examples ? RBT_FORMAT_LIBSVM : RBT_FORMAT_TEXT;
}

static rbt_status parse_as(struct rbt_document_builder *builder, const struct rbt_text *text,
                           enum rbt_format format)
{
    switch (format) {
    case RBT_FORMAT_BOW:
        return parse_bag(builder, text);
    case RBT_FORMAT_LIBSVM:
        return parse_examples(builder, text);
    case RBT_FORMAT_TEXT:
        return rbt_documents_text(builder, text);
    case RBT_FORMAT_AUTO:
    case RBT_FORMAT_CSV:
    case RBT_FORMAT_RATINGS:
    case RBT_FORMAT_TSV:
    case RBT_FORMAT_CRITEO:
    case RBT_FORMAT_AVAZU:
        break;
    }
    return rbt_fail(RBT_E_INVALID, "files of the format \"%s\" do not hold documents",
                    rbt_format_name(format));
}

/* Options that are about words of text, and files of numbers. */
static rbt_status check_numbers(const struct rbt_document_options *options, const char *name)
{
    if (options->stop_words != NULL) {
        return rbt_fail(RBT_E_INVALID,
                        "option \"--stop-words\" needs text, but \"%s\" has numbers of words",
                        name);
    }
    if (options->is_known_by_text) {
        const rbt_status st = rbt_fail(RBT_E_INVALID,
                                       "cannot read \"%s\": it has numbers of words, but the model "
                                       "was trained on text without numbers",
                                       name);
        return rbt_fail_hint(st, "Use text, or train with --vocab FILE.");
    }
    return RBT_OK;
}

static rbt_status add_text(struct rbt_document_builder *builder, const struct rbt_text *text,
                           bool *has_words)
{
    const struct rbt_document_options *options = builder->options;
    const bool is_auto = options->format == RBT_FORMAT_AUTO;
    const enum rbt_format guessed = is_auto ? guess(text) : options->format;
    const enum rbt_format format = is_auto && options->is_known_by_text ? RBT_FORMAT_TEXT : guessed;
    const bool has_numbers = format == RBT_FORMAT_BOW || format == RBT_FORMAT_LIBSVM;
    const uint64_t tokens = builder->documents.tokens;
    *has_words = *has_words || format == RBT_FORMAT_TEXT;
    rbt_status st = has_numbers ? check_numbers(options, text->name) : RBT_OK;
    st = st != RBT_OK ? st : parse_as(builder, text, format);
    if (st == RBT_OK && guessed != format && builder->documents.tokens == tokens) {
        return check_numbers(options, text->name); /* no word was known, and it looked like that */
    }
    if (st == RBT_E_DATA && is_auto && has_numbers && rbt_last_hint()[0] == '\0') {
        st = rbt_fail_hint(st,
                           "Its format was detected as %s; if it is plain text, use --format text.",
                           format == RBT_FORMAT_BOW ? "a bag of words" : "LIBSVM");
    }
    return st;
}

static rbt_status begin(struct rbt_document_builder *builder)
{
    const struct rbt_document_options *options = builder->options;
    builder->documents.offsets = rbt_calloc(FIRST_COUNT, sizeof *builder->documents.offsets);
    builder->count_max = FIRST_COUNT;
    if (builder->documents.offsets == NULL) {
        return no_memory();
    }
    return options->vocabulary == NULL
               ? RBT_OK
               : rbt_vocabulary_read(options->vocabulary, 1, &builder->documents.vocabulary);
}

/* Takes the builder: its content moves to `documents` or is freed. */
static rbt_status finish(struct rbt_document_builder *builder, rbt_status st, bool has_words,
                         struct rbt_documents *documents)
{
    struct rbt_documents *made = &builder->documents;
    if (st == RBT_OK && has_words && builder->options->known == NULL) {
        st = rbt_documents_settle(builder);
    }
    rbt_free(builder->scratch);
    if (st != RBT_OK) {
        rbt_documents_free(made);
        return st;
    }
    if (made->vocabulary.count > made->word_count) {
        made->word_count = made->vocabulary.count;
    }
    made->is_own_numbers =
        has_words && builder->options->known == NULL && builder->options->vocabulary == NULL;
    *documents = *made;
    return RBT_OK;
}

rbt_status rbt_documents_parse(const struct rbt_document_options *options,
                               const struct rbt_text *text, struct rbt_documents *documents)
{
    struct rbt_document_builder builder = {.options = options};
    bool has_words = false;
    rbt_status st = begin(&builder);
    st = st != RBT_OK ? st : add_text(&builder, text, &has_words);
    return finish(&builder, st, has_words, documents);
}

rbt_status rbt_documents_read(const struct rbt_document_options *options,
                              struct rbt_documents *documents)
{
    struct rbt_document_builder builder = {.options = options};
    struct rbt_paths paths = {0};
    bool has_words = false;
    rbt_status st = begin(&builder);
    st = st != RBT_OK ? st : rbt_paths_expand(options->paths, options->path_count, &paths);
    for (size_t i = 0; st == RBT_OK && i < paths.count; i++) {
        struct rbt_input input = {0};
        st = rbt_input_read(paths.items[i], &input);
        if (st == RBT_OK) {
            const struct rbt_text text = {
                .name = paths.items[i], .bytes = input.bytes, .size = input.size, .first_line = 1};
            st = add_text(&builder, &text, &has_words);
            rbt_input_free(&input);
        }
    }
    rbt_paths_free(&paths);
    return finish(&builder, st, has_words, documents);
}
