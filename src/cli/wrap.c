/* cli/wrap.c - sentences in lines that fit a terminal. */
#include "cli/wrap.h"

#include <string.h>

enum { WIDTH = 80 };

void rbt_wrap(FILE *out, const char *text, size_t at)
{
    size_t column = at;
    while (*text != '\0') {
        const size_t size = strcspn(text, " ");
        if (column > at && column + 1 + size > WIDTH) {
            fprintf(out, "\n%*s", (int)at, "");
            column = at;
        } else if (column > at) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)size, text);
        column += size;
        text += size + (text[size] == ' ' ? 1 : 0);
    }
    fputc('\n', out);
}
