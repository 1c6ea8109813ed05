/* cli/rule_line.c - what `--rule help` says. What is said about a rule is with the rule
 * (rule/help.c); here it is laid out, and put in an order to choose by. */
#include "cli/rule_line.h"

#include "cli/wrap.h"
#include "policy/rule/rule.h"

enum { INDENT = 4, COLUMN = 14 };

static const char before[] =
    "Usage: rubato train ALGO --rule NAME[:parameter=value,...] ...\n\n"
    "A rule is what a server does with an update. Some rules take moves: every worker\n"
    "trains a copy of its own with step size --lr and sends the change; the rule\n"
    "weighs the changes. Other rules take gradients: a clock is a minibatch, and the\n"
    "server makes the step; --lr then sets the rule's parameter lr.\n\n"
    "Which one?\n"
    "  equally fast machines             add, which is the default\n"
    "  some machines slower than others  dynsgd; consgd if memory is scarce\n"
    "  no wish to tune the step size     adarev:trust; adagrad with few workers\n"
    "  gradients that arrive very late   adarev; adadelay if memory is scarce\n"
    "  most weights exactly zero         ftrl or prox, with --l1\n";

static const char after[] =
    "\n"
    "Yours: --rule ./mine.so:k=v names a shared object that is written in C against\n"
    "rubato/rule.h and linked with nothing; see docs/rules.md and examples/rule.c.\n"
    "\n"
    "Examples:\n"
    "  rubato train linear --data train.svm --rule dynsgd --consistency ssp:3\n"
    "  rubato train mf --data ratings.csv --rule adarev:lr=0.2\n"
    "  rubato train linear --data train.svm --rule ftrl --l1 1e-5\n";

static void print_parameters(FILE *out, const struct rbt_rule_parameter *parameters)
{
    for (; parameters->name != NULL; parameters++) {
        const int used = fprintf(out, "%*s%s=%s", INDENT, "", parameters->name, parameters->value);
        const int gap = used + 2 > INDENT + COLUMN ? 2 : INDENT + COLUMN - used;
        fprintf(out, "%*s", gap, "");
        rbt_wrap(out, parameters->help, (size_t)(used + gap));
    }
}

static void print_rule(FILE *out, const struct rbt_rule *rule)
{
    const struct rbt_rule_help *help = rbt_rule_help_of(rule);
    struct rbt_rule_needs needs = {0};
    const bool has_gradients =
        rbt_rule_check(rule->name, 1, &needs) == RBT_OK && needs.input == RBT_RULE_GRADIENTS;
    fprintf(out, "\n%s, takes %s\n%*s", rule->name, has_gradients ? "gradients" : "moves", INDENT,
            "");
    rbt_wrap(out, rule->summary, INDENT);
    if (help != NULL) {
        fprintf(out, "%*s", INDENT, "");
        rbt_wrap(out, help->choose, INDENT);
        fprintf(out, "%*s", INDENT, "");
        rbt_wrap(out, help->formula, INDENT);
        print_parameters(out, help->parameters);
    }
}

void rbt_rule_line_help(FILE *out)
{
    fputs(before, out);
    for (size_t i = 0; rbt_rule_all[i] != NULL; i++) {
        print_rule(out, rbt_rule_all[i]);
    }
    fputs("\nEvery rule\n", out);
    print_parameters(out, rbt_rule_common);
    fputs("\n"
          "Without lr, training uses a default that fits the algorithm instead of the one\n"
          "above; the full summary reports it.\n",
          out);
    fputs(after, out);
}
