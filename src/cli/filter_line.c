/* cli/filter_line.c - what `--filter help` says. What is said about a filter is with the filter
 * (filter/help.c); here it is laid out, and put in an order to choose by. */
#include "cli/filter_line.h"

#include "cli/wrap.h"
#include "policy/filter/filter.h"

enum { INDENT = 4, COLUMN = 14 };

static const char before[] =
    "Usage: rubato train ALGO --filter [push.|pull.]NAME[:NUMBER...],... ...\n\n"
    "Filters make messages smaller: updates on their way to the servers (push), and\n"
    "parameters on their way back (pull). A list is applied to both directions; with\n"
    "\"push.\" or \"pull.\" in front a filter works in one direction. First the select\n"
    "filters choose what is sent, then one filter may round, then pack filters\n"
    "compress.\n\n"
    "Which ones?\n"
    "  results must not change           keys,changed,zeros,lz4\n"
    "  a slow network                    keys,significant:1e-4,fixed:8,zstd\n"
    "  most weights exactly zero         keys,kkt,changed,lz4; --rule ftrl --l1 1e-4\n";

static const char after[] =
    "\n"
    "Yours: --filter ./mine.so:0.5 names a shared object that is written in C against\n"
    "rubato/filter.h and linked with nothing; see docs/filters.md and\n"
    "examples/filter.c.\n"
    "\n"
    "Examples:\n"
    "  rubato train linear --data train.svm --filter keys,fixed:8,lz4\n"
    "  rubato train mf --data ratings.csv --filter push.significant:1e-4,pull.f16\n"
    "  rubato simulate -- train linear --data train.svm --filter keys,changed,lz4\n";

static void print_parameters(FILE *out, const struct rbt_filter_parameter *parameters)
{
    for (; parameters->name != NULL; parameters++) {
        const int used =
            parameters->value == NULL
                ? fprintf(out, "%*s%s", INDENT, "", parameters->name)
                : fprintf(out, "%*s%s=%s", INDENT, "", parameters->name, parameters->value);
        const int gap = used + 2 > INDENT + COLUMN ? 2 : INDENT + COLUMN - used;
        fprintf(out, "%*s", gap, "");
        rbt_wrap(out, parameters->help, (size_t)(used + gap));
    }
}

static void print_filter(FILE *out, const struct rbt_filter_entry *entry)
{
    static const char *const uses[] = {[RBT_FILTER_FOR_BOTH] = "push and pull",
                                       [RBT_FILTER_FOR_PUSH] = "push",
                                       [RBT_FILTER_FOR_PULL] = "pull"};
    const char *kind = rbt_filter_kind_name(entry);
    fprintf(out, "\n%s", entry->name);
    for (const struct rbt_filter_parameter *p = entry->parameters; p->name != NULL; p++) {
        fprintf(out, p->value == NULL ? ":%s" : "[:%s]", p->name);
    }
    fprintf(out, ", %s%s%s\n%*s", uses[rbt_filter_use_of(entry)], kind[0] == '\0' ? "" : ", ", kind,
            INDENT, "");
    rbt_wrap(out, entry->does, INDENT);
    fprintf(out, "%*s", INDENT, "");
    rbt_wrap(out, entry->choose, INDENT);
    if (entry->formula[0] != '\0') {
        fprintf(out, "%*s", INDENT, "");
        rbt_wrap(out, entry->formula, INDENT);
    }
    print_parameters(out, entry->parameters);
}

void rbt_filter_line_help(FILE *out)
{
    fputs(before, out);
    for (const struct rbt_filter_entry *entry = rbt_filter_all; entry->name != NULL; entry++) {
        print_filter(out, entry);
    }
    fputs(after, out);
}
