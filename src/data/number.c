/* data/number.c - whole and decimal numbers, by hand where that is exact.
 *
 * A decimal m * 10^e with m <= 2^53 and |e| <= 22 is one multiplication or division of two doubles
 * that are exact, so the double is the nearest one. Rounding it again to a float gives the nearest
 * float, too, unless the double lies in the middle between two floats (the true number may lie a
 * little beside it), or is too small or too large for an ordinary float. Those go to strtof(), as
 * do numbers with more than 19 digits.
 *
 * Threads: any. Memory: none. */
#include "data/number.h"

#include <float.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_MAX = 19,        /* as many always fit 64 bits */
    EXPONENT_MAX = 22,      /* 10^22 is the largest power of ten that a double holds exactly */
    EXPONENT_LIMIT = 99999, /* where exponents stop to count: every float is far below */
};

static const uint64_t mantissa_max = (uint64_t)1 << 53;
static const double powers[EXPONENT_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static unsigned digit(char c)
{
    return (unsigned char)(c - '0');
}

const char *rbt_number_u64(const char *text, uint64_t *value)
{
    uint64_t number = 0;
    const char *p = text;
    for (; is_digit(*p); p++) {
        if (p - text >= DIGITS_MAX && (__builtin_mul_overflow(number, 10, &number) ||
                                       __builtin_add_overflow(number, digit(*p), &number))) {
            return NULL;
        }
        if (p - text < DIGITS_MAX) {
            number = number * 10 + digit(*p);
        }
    }
    if (p == text) {
        return NULL;
    }
    *value = number;
    return p;
}

/* Reads what follows the letter e and adds it to the exponent; NULL when there is no digit. */
static const char *read_exponent(const char *p, int64_t *exponent)
{
    const bool is_negative = *p == '-';
    p += is_negative || *p == '+';
    if (!is_digit(*p)) {
        return NULL;
    }
    int64_t number = 0;
    for (; is_digit(*p); p++) {
        number = number > EXPONENT_LIMIT ? number : number * 10 + digit(*p);
    }
    *exponent += is_negative ? -number : number;
    return p;
}

/* Computes mantissa * 10^exponent if the short way is exact. */
static bool compute(uint64_t mantissa, int64_t exponent, float *value)
{
    if (mantissa > mantissa_max || exponent > EXPONENT_MAX || exponent < -EXPONENT_MAX) {
        return false;
    }
    const double exact = (double)mantissa;
    const double number = exponent < 0 ? exact / powers[-exponent] : exact * powers[exponent];
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof bits);
    const uint64_t below = bits & 0x1fffffffU; /* what a float has no room for */
    const bool is_ordinary = number >= (double)FLT_MIN && number <= (double)FLT_MAX;
    if (mantissa != 0 && (below == 0x10000000U || !is_ordinary)) {
        return false;
    }
    *value = (float)number;
    return true;
}

const char *rbt_number_float(const char *text, float *value)
{
    const char *p = text;
    const bool is_negative = *p == '-';
    p += is_negative || *p == '+';
    const char *whole = p;
    uint64_t mantissa = 0; /* may wrap around; then there are too many digits and it is not used */
    for (; is_digit(*p); p++) {
        mantissa = mantissa * 10 + digit(*p);
    }
    int64_t digit_count = p - whole;
    int64_t exponent = 0;
    if (*p == '.') {
        const char *fraction = ++p;
        for (; is_digit(*p); p++) {
            mantissa = mantissa * 10 + digit(*p);
        }
        exponent = fraction - p;
        digit_count -= exponent;
    }
    if (digit_count == 0) {
        return NULL;
    }
    if (*p == 'e' || *p == 'E') {
        p = read_exponent(p + 1, &exponent);
        if (p == NULL) {
            return NULL;
        }
    }
    float number = 0;
    if (digit_count <= DIGITS_MAX && compute(mantissa, exponent, &number)) {
        *value = is_negative ? -number : number;
    } else {
        *value = strtof(text, NULL);
    }
    return p;
}
