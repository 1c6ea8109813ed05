/* base/text.h - strings that grow, numbers that people write and numbers for people.
 *
 *     struct rbt_text_buffer text = {0};
 *     rbt_text_add(&text, "epoch %d", 3);
 *     fputs(rbt_text_data(&text), stdout);
 *     rbt_text_deinit(&text);
 *
 * Adding never fails on the spot: a text that ran out of memory remembers it (`has_failed`), so
 * that a caller who builds a line from twenty pieces checks once. Threads: none. */
#ifndef RUBATO_BASE_TEXT_H
#define RUBATO_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/export.h>

/* All zeros is an empty text. */
struct rbt_text_buffer {
    char *data; /* ends with a zero once something was added */
    size_t length;
    size_t capacity;
    bool has_failed; /* memory ran out; what is there is incomplete */
};

void rbt_text_deinit(struct rbt_text_buffer *text);

/* Makes the text empty but keeps its memory. */
void rbt_text_clear(struct rbt_text_buffer *text);

/* The characters, never NULL; valid until the next change. */
const char *rbt_text_data(const struct rbt_text_buffer *text);

void rbt_text_add(struct rbt_text_buffer *text, const char *format, ...) RBT_PRINTF(2, 3);
void rbt_text_add_bytes(struct rbt_text_buffer *text, const char *bytes, size_t size);

/* Reads a whole number: digits with an optional sign, then nothing or one of k, M, G, T (powers of
 * 1000), Ki, Mi, Gi, Ti (of 1024). False when it is anything else or does not fit. */
bool rbt_text_to_int(const char *text, int64_t *value);

/* Reads a decimal number such as 1e-3. "nan" and "inf" are numbers here; callers who want finite
 * ones check. False when it is anything else. */
bool rbt_text_to_real(const char *text, double *value);

/* Reads a time: a decimal number and us, ms, s, m (minutes), h or nothing, which means s. Gives
 * seconds, of either sign. False when it is anything else or not finite. */
bool rbt_text_to_seconds(const char *text, double *value);

/* Reads a rate: a decimal number and bit, kbit, Mbit, Gbit, B, kB, MB, GB or nothing, which means
 * B. Gives bytes per second. False when it is anything else or not finite. */
bool rbt_text_to_rate(const char *text, double *value);

enum { RBT_TEXT_SHORT = 32 }; /* room for any of the following */

/* The shortest decimal that reads back as the same double: 0.1, 1e+20, nan. */
void rbt_text_from_real(double value, char text[RBT_TEXT_SHORT]);

/* For people, three digits: 812, 1.25k, 3.40M, 12.0G. */
void rbt_text_from_count(double value, char text[RBT_TEXT_SHORT]);

/* For people: 12 B, 1.25 kB, 3.40 MB. */
void rbt_text_from_bytes(double value, char text[RBT_TEXT_SHORT]);

/* For people: 0.042 s, 12.3 s, 3:05, 2:03:05. */
void rbt_text_from_seconds(double value, char text[RBT_TEXT_SHORT]);

/* How many bytes, 1 to 4, the UTF-8 character at `text` has; 0 if there is none at this place.
 * Reads no more than `size` bytes. */
size_t rbt_text_utf8(const char *text, size_t size);

/* The same for characters that may be shown and may be in XML: 0 also for control characters. */
size_t rbt_text_shown(const char *text, size_t size);

/* Prints a text that comes from elsewhere: what may not be shown becomes '?'. */
void rbt_text_print(FILE *out, const char *text);

#endif
