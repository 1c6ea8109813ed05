/* data/number.h - reads numbers out of text, several hundred megabytes in a second.
 *
 * The text must end with a byte that belongs to no number (a line's end, or zero): nothing else
 * stops the functions. Threads: any. */
#ifndef RUBATO_DATA_NUMBER_H
#define RUBATO_DATA_NUMBER_H

#include <stdint.h>

/* Reads a whole number at `text`. Returns the place behind it, or NULL when there is no digit or
 * the number is above 2^64 - 1. */
const char *rbt_number_u64(const char *text, uint64_t *value);

/* Reads a decimal number with optional sign, fraction and exponent at `text`, rounded to the
 * nearest float; what no float can hold becomes infinity. Returns the place behind it, or NULL when
 * there is no number. The words "inf" and "nan" and hexadecimal are not numbers here. */
const char *rbt_number_float(const char *text, float *value);

#endif
