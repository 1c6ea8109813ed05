/* cli/terminal.c - what the terminal can show.
 *
 * The language settings are read from the environment instead of setlocale(), which would change
 * how numbers are read and printed in the rest of the program. */
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

bool rbt_terminal_has_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && value[0] != '\0') {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

/* The columns of the terminal that `rubato run` shows our standard error on; 0 if it does not. */
static int64_t relayed_columns(FILE *stream)
{
    int64_t columns = 0;
    const char *text = getenv("RUBATO_TERMINAL");
    const bool is_relayed = fileno(stream) == STDERR_FILENO && text != NULL;
    return is_relayed && rbt_text_to_int(text, &columns) && columns > 0 ? columns : 0;
}

bool rbt_terminal_is_live(FILE *stream)
{
    if (relayed_columns(stream) > 0) {
        return true;
    }
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) == 1 && (term == NULL || strcmp(term, "dumb") != 0);
}

int rbt_terminal_width(FILE *stream)
{
    struct winsize size;
    int64_t columns = 80;
    const char *text = getenv("COLUMNS");
    if (relayed_columns(stream) > 0) {
        columns = relayed_columns(stream);
    } else if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        columns = size.ws_col;
    } else if (text == NULL || !rbt_text_to_int(text, &columns)) {
        columns = 80;
    }
    return columns < 40 ? 40 : columns > 200 ? 200 : (int)columns;
}
