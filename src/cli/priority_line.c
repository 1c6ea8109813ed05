/* cli/priority_line.c - what `--priority help` says. The priorities are in
 * policy/priority/priority.c. */
#include "cli/priority_line.h"

static const char text[] =
    "Usage: rubato train mf --rule adarev --bandwidth RATE --priority NAME ...\n\n"
    "With --bandwidth rows are sent before a clock ends, within the budget: updates\n"
    "of workers to the servers, and changed rows from the servers to the workers.\n"
    "The priority decides which rows are sent first. It leaves nothing out: at the\n"
    "end of a clock everything is sent.\n\n"
    "Which one?\n"
    "  in general                        relative, which is the default\n"
    "  values that start near zero       magnitude\n"
    "  to see what priorities gain       random\n"
    "  the processor is the bottleneck   random or oldest: no row is looked at\n\n"
    "relative\n"
    "    The largest changes relative to the values; for a zero value the change\n"
    "    itself.\n"
    "    sum_i |d_i / a_i|, d the change since the row was last sent, a its values\n\n"
    "magnitude\n"
    "    The largest changes.\n"
    "    sum_i |d_i|\n\n"
    "random\n"
    "    Changed rows at random, with equal probability.\n\n"
    "oldest\n"
    "    Round-robin: in the order of their first change.\n\n"
    "walk\n"
    "    Round-robin: in the order of their keys.\n\n"
    "sweep\n"
    "    All rows in turn, changed or not, as in Yahoo!LDA; for comparisons.\n\n"
    "Yours: --priority ./mine.so names a shared object that is written in C against\n"
    "rubato/priority.h and linked with nothing; see docs/communication.md and\n"
    "examples/priority.c.\n\n"
    "Examples:\n"
    "  rubato train mf --data r.csv --rule adarev --clocks-per-epoch 2 \\\n"
    "      --bandwidth 25MB\n"
    "  rubato run --workers 8 -- train mf --data r.csv --rule adarev \\\n"
    "      --clocks-per-epoch 1 --bandwidth 200Mbit --priority magnitude\n";

void rbt_priority_line_help(FILE *out)
{
    fputs(text, out);
}
