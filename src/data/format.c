/* data/format.c - looks at a few lines and, if they leave it open, at the file's name.
 *
 * The lines go first, because they cannot lie: only LIBSVM has words like 17:0.5, and only ratings
 * are separated by "::". Three columns of numbers may be anything; the name then decides. */
#include "data/format.h"

#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "data/number.h"

enum {
    LINES_MAX = 20,       /* that are looked at */
    LOOK_SIZE_MAX = 4096, /* of a line */
};

/* Whether there is a feature: a whole number, a colon and a number, after a blank. */
static bool has_feature(const char *p, const char *end)
{
    for (; p < end; p++) {
        if (*p != ' ' && *p != '\t') {
            continue;
        }
        uint64_t key = 0;
        float value = 0;
        const char *colon = rbt_number_u64(p + 1, &key);
        if (colon != NULL && *colon == ':' && rbt_number_float(colon + 1, &value) != NULL) {
            return true;
        }
    }
    return false;
}

static bool ends_with(const char *name, const char *ending)
{
    const char *found = strcasestr(name, ending);
    const char *rest = found == NULL ? "" : found + strlen(ending);
    return found != NULL && (*rest == '\0' || *rest == '.'); /* .svm and .svm.zst */
}

static enum rbt_format guess_by_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    if (ends_with(name, ".svm") || ends_with(name, ".libsvm") || ends_with(name, ".svmlight")) {
        return RBT_FORMAT_LIBSVM;
    }
    return strcasestr(name, "rating") != NULL ? RBT_FORMAT_RATINGS : RBT_FORMAT_CSV;
}

/* Whether the line is one of Criteo's: 0 or 1, 13 numbers, and 26 texts of 8 hexadecimal digits,
 * some of them missing. */
static bool is_criteo(const struct rbt_line *line)
{
    size_t column = 0;
    size_t codes = 0;
    const char *cell = line->begin;
    for (const char *p = line->begin; p <= line->end; p++) {
        if (p < line->end && *p != '\t') {
            continue;
        }
        const size_t size = (size_t)(p - cell);
        if (column == 0 && (size != 1 || (*cell != '0' && *cell != '1'))) {
            return false;
        }
        if (column > 13 && size != 0 && (size != 8 || strspn(cell, "0123456789abcdef") != 8)) {
            return false;
        }
        codes += column > 13 && size == 8;
        column++;
        cell = p + 1;
    }
    return column == 40 && codes > 0;
}

static bool is_avazu(const struct rbt_line *line)
{
    static const char header[] = "id,click,hour,";
    return (size_t)(line->end - line->begin) > sizeof header &&
           memcmp(line->begin, header, sizeof header - 1) == 0;
}

enum rbt_format rbt_format_guess(const struct rbt_text *text)
{
    struct rbt_text rest = *text;
    struct rbt_line line;
    if (rbt_lines_next(&rest, &line) && (is_criteo(&line) || is_avazu(&line))) {
        return is_criteo(&line) ? RBT_FORMAT_CRITEO : RBT_FORMAT_AVAZU;
    }
    rest = *text;
    for (int i = 0; i < LINES_MAX && rbt_lines_next(&rest, &line); i++) {
        const size_t size = (size_t)(line.end - line.begin);
        const size_t looked = size < LOOK_SIZE_MAX ? size : LOOK_SIZE_MAX;
        if (has_feature(line.begin, line.begin + looked)) {
            return RBT_FORMAT_LIBSVM;
        }
        if (memmem(line.begin, looked, "::", 2) != NULL) {
            return RBT_FORMAT_RATINGS;
        }
    }
    return guess_by_name(text->name);
}

const char *rbt_format_name(enum rbt_format format)
{
    switch (format) {
    case RBT_FORMAT_AUTO:
        return "auto";
    case RBT_FORMAT_LIBSVM:
        return "LIBSVM";
    case RBT_FORMAT_CSV:
        return "CSV";
    case RBT_FORMAT_RATINGS:
        return "ratings";
    case RBT_FORMAT_BOW:
        return "bag of words";
    case RBT_FORMAT_TEXT:
        return "text";
    case RBT_FORMAT_TSV:
        return "TSV";
    case RBT_FORMAT_CRITEO:
        return "Criteo";
    case RBT_FORMAT_AVAZU:
        return "Avazu";
    }
    RBT_UNREACHABLE();
}
