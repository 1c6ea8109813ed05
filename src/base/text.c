/* base/text.c - strings that grow, numbers that people write and numbers for people.
 *
 * Numbers are read by our own rules rather than strtol's: leading blanks, octal, hexadecimal and
 * trailing rubbish are mistakes in an option, and a number that does not fit is an error instead of
 * the nearest one that does. */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { CAPACITY_MIN = 64 };

void rbt_text_deinit(struct rbt_text_buffer *text)
{
    rbt_free(text->data);
    *text = (struct rbt_text_buffer){0};
}

void rbt_text_clear(struct rbt_text_buffer *text)
{
    text->length = 0;
    text->has_failed = false;
    if (text->data != NULL) {
        text->data[0] = '\0';
    }
}

const char *rbt_text_data(const struct rbt_text_buffer *text)
{
    return text->data != NULL ? text->data : "";
}

/* Makes room for `size` more bytes and the final zero. */
static bool reserve(struct rbt_text_buffer *text, size_t size)
{
    if (text->has_failed) {
        return false;
    }
    if (text->capacity - text->length > size) {
        return true;
    }
    size_t capacity = text->capacity * 2 > CAPACITY_MIN ? text->capacity * 2 : CAPACITY_MIN;
    if (capacity < text->length + size + 1) {
        capacity = text->length + size + 1;
    }
    char *data = rbt_realloc(text->data, capacity, 1);
    if (data == NULL) {
        text->has_failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void rbt_text_add_bytes(struct rbt_text_buffer *text, const char *bytes, size_t size)
{
    if (!reserve(text, size)) {
        return;
    }
    memcpy(text->data + text->length, bytes, size);
    text->length += size;
    text->data[text->length] = '\0';
}

void rbt_text_add(struct rbt_text_buffer *text, const char *format, ...)
{
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    const int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    RBT_ASSERT(size >= 0);
    if (reserve(text, (size_t)size)) {
        vsnprintf(text->data + text->length, (size_t)size + 1, format, again);
        text->length += (size_t)size;
    }
    va_end(again);
}

/* What a unit multiplies by, or 0 when it is none. */
static int64_t unit_factor(const char *unit)
{
    static const struct {
        const char *name;
        int64_t factor;
    } units[] = {
        {"", 1},           {"k", 1000},          {"K", 1000},       {"M", 1000000},
        {"G", 1000000000}, {"T", 1000000000000}, {"Ki", 1LL << 10}, {"Mi", 1LL << 20},
        {"Gi", 1LL << 30}, {"Ti", 1LL << 40},
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(unit, units[i].name) == 0) {
            return units[i].factor;
        }
    }
    return 0;
}

bool rbt_text_to_int(const char *text, int64_t *value)
{
    const bool is_negative = *text == '-';
    if (*text == '-' || *text == '+') {
        text++;
    }
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    int64_t sum = 0; /* kept negative, so that INT64_MIN fits */
    for (; isdigit((unsigned char)*text); text++) {
        if (__builtin_mul_overflow(sum, (int64_t)10, &sum) ||
            __builtin_sub_overflow(sum, (int64_t)(*text - '0'), &sum)) {
            return false;
        }
    }
    const int64_t factor = unit_factor(text);
    if (factor == 0 || __builtin_mul_overflow(sum, factor, &sum)) {
        return false;
    }
    if (!is_negative && __builtin_sub_overflow((int64_t)0, sum, &sum)) {
        return false;
    }
    *value = sum;
    return true;
}

bool rbt_text_to_real(const char *text, double *value)
{
    const char *digits = text + (*text == '-' || *text == '+' ? 1 : 0);
    const bool is_word = strcmp(digits, "nan") == 0 || strcmp(digits, "inf") == 0;
    if (!is_word && strspn(digits, "0123456789.eE+-") != strlen(digits)) {
        return false; /* strtod would also take blanks, hexadecimal and "infinity" */
    }
    char *end = NULL;
    errno = 0;
    const double number = strtod(text, &end);
    if (end == text || *end != '\0' || (errno == ERANGE && isinf(number))) {
        return false;
    }
    *value = number;
    return true;
}

bool rbt_text_to_seconds(const char *text, double *value)
{
    static const struct {
        const char *name;
        double seconds;
        double parts; /* of a second; 100us is then the same number as 1e-4 */
    } units[] = {{"us", 1, 1e6}, {"ms", 1, 1e3}, {"s", 1, 1},
                 {"m", 60, 1},   {"h", 3600, 1}, {"", 1, 1}};
    const size_t length = strcspn(text, "umsh");
    char number[64];
    if (length >= sizeof number) {
        return false;
    }
    memcpy(number, text, length);
    number[length] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double count = 0;
        if (strcmp(text + length, units[i].name) == 0 && rbt_text_to_real(number, &count) &&
            isfinite(count * units[i].seconds)) {
            *value = count * units[i].seconds / units[i].parts;
            return true;
        }
    }
    return false;
}

bool rbt_text_to_rate(const char *text, double *value)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"Gbit", 1.25e8}, {"Mbit", 1.25e5}, {"kbit", 125}, {"bit", 0.125}, {"GB", 1e9},
                 {"MB", 1e6},      {"kB", 1e3},      {"B", 1},      {"", 1}};
    const size_t length = strcspn(text, "GMkbB");
    char number[64];
    double count = 0;
    if (length >= sizeof number) {
        return false;
    }
    memcpy(number, text, length);
    number[length] = '\0';
    if (!rbt_text_to_real(number, &count)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + length, units[i].name) == 0 && isfinite(count * units[i].bytes)) {
            *value = count * units[i].bytes;
            return true;
        }
    }
    return false;
}

void rbt_text_from_real(double value, char text[RBT_TEXT_SHORT])
{
    for (int digits = 15; digits <= 17; digits++) { /* %g drops zeros at the end */
        snprintf(text, RBT_TEXT_SHORT, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            return;
        }
    }
}

/* Divides by 1000 until the number has at most three digits; returns how often. */
static size_t scale(double *value, size_t count_max)
{
    size_t count = 0;
    while (fabs(*value) >= 999.5 && count < count_max) {
        *value /= 1000;
        count++;
    }
    return count;
}

/* Digits behind the point that make three in all. */
static int decimals(double value)
{
    return fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
}

void rbt_text_from_count(double value, char text[RBT_TEXT_SHORT])
{
    static const char *const units[] = {"", "k", "M", "G", "T"};
    const double whole = value;
    const size_t unit = scale(&value, 4);
    const int digits = unit == 0 && whole == floor(whole) ? 0 : decimals(value);
    snprintf(text, RBT_TEXT_SHORT, "%.*f%s", digits, value, units[unit]);
}

void rbt_text_from_bytes(double value, char text[RBT_TEXT_SHORT])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    const size_t unit = scale(&value, 4);
    snprintf(text, RBT_TEXT_SHORT, "%.*f %s", unit == 0 ? 0 : decimals(value), value, units[unit]);
}

void rbt_text_from_seconds(double value, char text[RBT_TEXT_SHORT])
{
    if (!isfinite(value) || value < 0 || value > 1e9) {
        snprintf(text, RBT_TEXT_SHORT, "?");
        return;
    }
    if (value < 99.95) {
        const int digits = value < 0.9995 ? 3 : value < 9.995 ? 2 : 1;
        snprintf(text, RBT_TEXT_SHORT, "%.*f s", digits, value);
        return;
    }
    const long seconds = lround(value);
    if (seconds < 3600) {
        snprintf(text, RBT_TEXT_SHORT, "%ld:%02ld", seconds / 60, seconds % 60);
    } else {
        snprintf(text, RBT_TEXT_SHORT, "%ld:%02ld:%02ld", seconds / 3600, seconds / 60 % 60,
                 seconds % 60);
    }
}

size_t rbt_text_utf8(const char *text, size_t size)
{
    if (size == 0) {
        return 0;
    }
    const unsigned char *bytes = (const unsigned char *)text;
    if (bytes[0] < 0x80) {
        return 1;
    }
    const size_t length = bytes[0] >= 0xF0 ? 4 : bytes[0] >= 0xE0 ? 3 : 2;
    if (bytes[0] < 0xC2 || bytes[0] > 0xF4 || size < length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    const bool is_overlong =
        (bytes[0] == 0xE0 && bytes[1] < 0xA0) || (bytes[0] == 0xF0 && bytes[1] < 0x90);
    const bool is_surrogate = bytes[0] == 0xED && bytes[1] > 0x9F;
    const bool is_too_large = bytes[0] == 0xF4 && bytes[1] > 0x8F;
    return is_overlong || is_surrogate || is_too_large ? 0 : length;
}

size_t rbt_text_shown(const char *text, size_t size)
{
    const size_t length = rbt_text_utf8(text, size);
    const unsigned char *bytes = (const unsigned char *)text;
    if (length == 1) {
        return bytes[0] < 0x20 || bytes[0] == 0x7F ? 0 : 1;
    }
    const bool is_control = length == 2 && bytes[0] == 0xC2 && bytes[1] < 0xA0;
    const bool is_none = length == 3 && bytes[0] == 0xEF && bytes[1] == 0xBF && bytes[2] > 0xBD;
    return is_control || is_none ? 0 : length;
}

void rbt_text_print(FILE *out, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        const size_t length = rbt_text_shown(text, left);
        if (length == 0) {
            fputc('?', out);
        } else {
            fwrite(text, 1, length, out);
        }
        text += length > 0 ? length : 1;
        left -= length > 0 ? length : 1;
    }
}
