/* data/number.h - reads numbers out of text, several hundred megabytes in a second.
 *
 * The text must end with a byte that belongs to no number (a line's end, or zero): nothing else
 * stops the functions. Threads: any. */
#ifndef RUBATO_DATA_NUMBER_H
#define RUBATO_DATA_NUMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Reads a whole number at `text`. Returns the place behind it, or NULL when there is no digit or
 * the number is above 2^64 - 1. */
const char *rbt_number_u64(const char *text, uint64_t *value);

/* Reads a decimal number with optional sign, fraction and exponent at `text`, rounded to the
 * nearest float; what no float can hold becomes infinity. Returns the place behind it, or NULL when
 * there is no number. The words "inf" and "nan" and hexadecimal are not numbers here. */
const char *rbt_number_float(const char *text, float *value);

/* --- Short numbers, eight digits at once ------------------------------------------------------ */

/* How many bytes from its beginning the quick functions may look at, whatever is in them. */
enum {
    RBT_NUMBER_ROOM_U64 = 8,
    RBT_NUMBER_ROOM_FLOAT = 18, /* a sign, seven digits, a point, and eight with what follows */
};

/* The next eight characters as numbers, those of digits 0 to 9; the first is in the lowest byte. */
static inline uint64_t rbt_number_eight(const char *text)
{
    uint64_t eight = 0;
    memcpy(&eight, text, sizeof eight);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    eight = __builtin_bswap64(eight);
#endif
    return eight ^ UINT64_C(0x3030303030303030);
}

/* How many of the eight are digits, up to the first that is none. */
static inline unsigned rbt_number_digits(uint64_t eight)
{
    /* 0x76 lifts what is above 9 to 0x80; what it carries goes to bytes behind the first. */
    const uint64_t others =
        ((eight + UINT64_C(0x7676767676767676)) | eight) & UINT64_C(0x8080808080808080);
    return others == 0 ? 8 : (unsigned)__builtin_ctzll(others) / 8;
}

/* The number that the first `count` digits are; 0 if there are none. */
static inline uint32_t rbt_number_value(uint64_t eight, unsigned count)
{
    /* As many zeros before them as make them eight, then tens, hundreds and ten thousands. */
    const uint64_t digits = count == 0 ? 0 : eight << (64 - 8 * count);
    const uint64_t pairs = (digits * 10 + (digits >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    const uint64_t fours = (pairs * 100 + (pairs >> 16)) & UINT64_C(0x0000ffff0000ffff);
    return (uint32_t)(fours * 10000 + (fours >> 32));
}

/* As rbt_number_u64(), but also NULL when the number has more than seven digits. */
static inline const char *rbt_number_quick_u64(const char *text, uint64_t *value)
{
    const uint64_t eight = rbt_number_eight(text);
    const unsigned count = rbt_number_digits(eight);
    *value = rbt_number_value(eight, count);
    return count == 0 || count == 8 ? NULL : text + count;
}

/* As rbt_number_float(), but also NULL for numbers with an exponent or a plus, with more than seven
 * digits before the point or eight behind it, and for those that need a closer look. */
static inline const char *rbt_number_quick_float(const char *text, float *value)
{
    static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
    const char *p = text + (*text == '-');
    const uint64_t eight = rbt_number_eight(p);
    const unsigned whole_count = rbt_number_digits(eight);
    double number = rbt_number_value(eight, whole_count);
    unsigned count = whole_count;
    p += whole_count;
    if (*p == '.') {
        const uint64_t fraction = rbt_number_eight(++p);
        const unsigned fraction_count = rbt_number_digits(fraction);
        /* Exact, as whole numbers below 2^53 are; so one rounding, as in number.c. */
        number = (number * powers[fraction_count] + rbt_number_value(fraction, fraction_count)) /
                 powers[fraction_count];
        count += fraction_count;
        p += fraction_count;
    }
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof bits);
    const bool is_between = (bits & 0x1fffffffU) == 0x10000000U; /* two floats */
    const bool goes_on = (unsigned char)(*p - '0') < 10 || (*p | 0x20) == 'e';
    if (count == 0 || whole_count == 8 || goes_on || is_between) {
        return NULL;
    }
    *value = (float)(*text == '-' ? -number : number);
    return p;
}

#endif
