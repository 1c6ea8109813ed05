/* cli/json.c - writes JSON: strings escaped, numbers that read back as the same bits.
 *
 * A document is built in memory and printed with one call, so that a log never shows half a line
 * unless the system itself stops in the middle. */
#include "cli/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/io.h"

void rbt_json_deinit(struct rbt_json *json)
{
    rbt_text_deinit(&json->text);
    *json = (struct rbt_json){0};
}

static void add_escaped(struct rbt_text_buffer *text, const char *value)
{
    const size_t size = strlen(value);
    rbt_text_add_bytes(text, "\"", 1);
    for (size_t i = 0; i < size;) {
        const char c = value[i];
        const size_t length = rbt_text_utf8(value + i, size - i);
        if (length == 0) {
            rbt_text_add(text, "\\ufffd");
        } else if (c == '"' || c == '\\') {
            rbt_text_add(text, "\\%c", c);
        } else if (c == '\n') {
            rbt_text_add(text, "\\n");
        } else if (c == '\t') {
            rbt_text_add(text, "\\t");
        } else if ((unsigned char)c < 0x20 || c == 0x7F) {
            rbt_text_add(text, "\\u%04x", (unsigned)c);
        } else {
            rbt_text_add_bytes(text, value + i, length);
        }
        i += length > 0 ? length : 1;
    }
    rbt_text_add_bytes(text, "\"", 1);
}

/* What comes before every value: a comma if it is not the first, and its name. */
static void start(struct rbt_json *json, const char *name)
{
    if (json->needs_comma) {
        rbt_text_add_bytes(&json->text, ",", 1);
    }
    json->needs_comma = true;
    if (name != NULL) {
        add_escaped(&json->text, name);
        rbt_text_add_bytes(&json->text, ":", 1);
    }
}

void rbt_json_begin(struct rbt_json *json, const char *name, char bracket)
{
    RBT_ASSERT(bracket == '{' || bracket == '[');
    start(json, name);
    rbt_text_add_bytes(&json->text, &bracket, 1);
    json->needs_comma = false;
    json->depth++;
}

void rbt_json_end(struct rbt_json *json, char bracket)
{
    RBT_ASSERT(bracket == '}' || bracket == ']');
    RBT_ASSERT(json->depth > 0);
    rbt_text_add_bytes(&json->text, &bracket, 1);
    json->needs_comma = true;
    json->depth--;
}

void rbt_json_text(struct rbt_json *json, const char *name, const char *value)
{
    start(json, name);
    if (value == NULL) {
        rbt_text_add(&json->text, "null");
    } else {
        add_escaped(&json->text, value);
    }
}

void rbt_json_real(struct rbt_json *json, const char *name, double value)
{
    start(json, name);
    char digits[RBT_TEXT_SHORT];
    rbt_text_from_real(value, digits);
    rbt_text_add(&json->text, "%s", isfinite(value) ? digits : "null");
}

void rbt_json_int(struct rbt_json *json, const char *name, int64_t value)
{
    start(json, name);
    rbt_text_add(&json->text, "%" PRId64, value);
}

void rbt_json_count(struct rbt_json *json, const char *name, uint64_t value)
{
    start(json, name);
    rbt_text_add(&json->text, "%" PRIu64, value);
}

void rbt_json_flag(struct rbt_json *json, const char *name, bool value)
{
    start(json, name);
    rbt_text_add(&json->text, "%s", value ? "true" : "false");
}

rbt_status rbt_json_print(struct rbt_json *json, FILE *out)
{
    RBT_ASSERT(json->depth == 0);
    rbt_text_add_bytes(&json->text, "\n", 1);
    const bool has_failed = json->text.has_failed;
    rbt_status st = RBT_OK;
    if (has_failed) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate a line of JSON");
    } else if (fwrite(json->text.data, 1, json->text.length, out) != json->text.length ||
               rbt_io_flush(out) != 0) {
        st = rbt_fail(RBT_E_IO, "could not write");
    }
    rbt_text_clear(&json->text);
    json->needs_comma = false;
    return st;
}
