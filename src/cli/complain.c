/* cli/complain.c - error messages of the command line.
 *
 * Line 1 says what is wrong and quotes what the user typed. Line 2, if there is one, says what to
 * do next. Nothing else is printed: no usage dump, no function names, no second complaint.
 *
 *     rubato: error: unrecognized option "--stalness" for "rubato train"
 *     rubato: hint: Did you mean "--staleness"? See "rubato train --help".
 *
 * What the user typed may hold anything: control characters are shown as "?", so that a file name
 * can neither break the line nor talk to the terminal. */
#include "cli/complain.h"

#include <stdarg.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"

/* Prints one line; `text` is changed on the way. */
static void print_line(FILE *err, const char *kind, struct rbt_text_buffer *text)
{
    for (size_t i = 0; i < text->length; i++) {
        const unsigned char c = (unsigned char)text->data[i];
        if (c < 0x20 || c == 0x7F) {
            text->data[i] = '?';
        }
    }
    fprintf(err, "rubato: %s: %s\n", kind, rbt_text_data(text));
}

int rbt_complain(FILE *err, int code, const char *hint, const char *format, ...)
{
    RBT_ASSERT(code != RBT_EXIT_OK);
    char message[RBT_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);

    struct rbt_text_buffer text = {0};
    rbt_text_add(&text, "%s", message);
    print_line(err, "error", &text);
    if (hint != NULL && hint[0] != '\0') {
        rbt_text_clear(&text);
        rbt_text_add(&text, "%s", hint);
        print_line(err, "hint", &text);
    }
    rbt_text_deinit(&text);
    return code;
}

int rbt_complain_last(FILE *err, rbt_status status)
{
    RBT_ASSERT(status != RBT_OK);
    const int code = status == RBT_E_INVALID ? RBT_EXIT_USAGE : RBT_EXIT_FAILED;
    const char *message = rbt_last_error();
    return rbt_complain(err, code, rbt_last_hint(), "%s",
                        message[0] != '\0' ? message : rbt_status_text(status));
}
