/* cli/json.h - writes JSON: strings escaped, numbers that read back as the same bits.
 *
 *     struct rbt_json json = {0};
 *     rbt_json_begin(&json, NULL, '{');
 *     rbt_json_real(&json, "objective", 0.25);
 *     rbt_json_end(&json, '}');
 *     rbt_status st = rbt_json_print(&json, stdout); // {"objective":0.25}
 *     rbt_json_deinit(&json);
 *
 * Names are NULL inside arrays and for the outermost value. Threads: none. */
#ifndef RUBATO_CLI_JSON_H
#define RUBATO_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/text.h"

/* All zeros is an empty document. */
struct rbt_json {
    struct rbt_text_buffer text;
    bool needs_comma; /* before the next value */
    int depth;        /* objects and arrays that are open */
};

void rbt_json_deinit(struct rbt_json *json);

/* Opens an object ('{') or an array ('['), and closes it ('}' or ']'). */
void rbt_json_begin(struct rbt_json *json, const char *name, char bracket);
void rbt_json_end(struct rbt_json *json, char bracket);

/* Bytes that are not UTF-8 become U+FFFD. NULL is written as null. */
void rbt_json_text(struct rbt_json *json, const char *name, const char *value);

/* NaN and infinity, which JSON does not have, are written as null. */
void rbt_json_real(struct rbt_json *json, const char *name, double value);
void rbt_json_int(struct rbt_json *json, const char *name, int64_t value);
void rbt_json_count(struct rbt_json *json, const char *name, uint64_t value);
void rbt_json_flag(struct rbt_json *json, const char *name, bool value);

/* Prints the finished document as one line, flushes, and starts an empty one.
 * Fails with RBT_E_IO or RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_json_print(struct rbt_json *json, FILE *out);

#endif
