/* cli/terminal.h - what the terminal can show. */
#ifndef RUBATO_CLI_TERMINAL_H
#define RUBATO_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Whether the user's language settings (LC_ALL, LC_CTYPE, LANG) say that text is UTF-8. */
bool rbt_terminal_has_utf8(void);

/* Whether the stream is a terminal that can redraw a line (and not "dumb"). */
bool rbt_terminal_is_live(FILE *stream);

/* Columns of the terminal, or of $COLUMNS, or 80; from 40 to 200. */
int rbt_terminal_width(FILE *stream);

#endif
