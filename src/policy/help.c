/* policy/help.c - the pages of help about rules, filters and priorities.
 *
 * Threads: any. Memory: none. */
#include "policy/help.h"

#include <string.h>

enum { WIDTH = 80, INDENT = 4, COLUMN = 14 };

/* Prints sentences, starting at column `at` of a line, further lines indented as far. */
static void wrap(FILE *out, const char *text, size_t at)
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

static void print_line(FILE *out, const char *text)
{
    if (text != NULL) {
        fprintf(out, "%*s", INDENT, "");
        wrap(out, text, INDENT);
    }
}

static void print_parameters(FILE *out, const struct rbt_policy_parameter *parameters)
{
    for (; parameters != NULL && parameters->name != NULL; parameters++) {
        int used = fprintf(out, "%*s%s", INDENT, "", parameters->name);
        if (parameters->usual != NULL) {
            used += fprintf(out, "=%s", parameters->usual);
        } else if (!parameters->is_required) {
            used += fprintf(out, "=%g", parameters->fallback);
        }
        const int gap = used + 2 > INDENT + COLUMN ? 2 : INDENT + COLUMN - used;
        fprintf(out, "%*s", gap, "");
        wrap(out, parameters->help, (size_t)(used + gap));
    }
}

static void print_policy(FILE *out, const struct rbt_policy_kind *kind,
                         const struct rbt_policy *policy)
{
    const struct rbt_policy_head *head = policy->code;
    fprintf(out, "\n%s", head->name);
    if (kind->print_title != NULL) {
        kind->print_title(out, policy);
    }
    fputc('\n', out);
    print_line(out, head->summary);
    print_line(out, policy->choose);
    print_line(out, policy->formula);
    print_parameters(out, policy->parameters);
}

void rbt_policy_help(FILE *out, const struct rbt_policy_kind *kind)
{
    fputs(kind->before, out);
    for (const struct rbt_policy *const *policy = kind->all; *policy != NULL; policy++) {
        print_policy(out, kind, *policy);
    }
    if (kind->common != NULL) {
        fprintf(out, "\nEvery %s\n", kind->plugin.what);
        print_parameters(out, kind->common);
    }
    fputs(kind->after, out);
}
