/* base/option.c - options of a command as a table: defaults, environment, command line, help.
 *
 * Values are set in that order, so that the later one wins; each goes through the same store(),
 * which knows where the text came from and says so when it is wrong. The first mistake ends the
 * parse: one complaint is enough. Texts are not copied; they live in argv, in the environment or in
 * the table.
 *
 * Threads: none (getenv). Memory: none. */
#include "base/option.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

enum { NAME_MAX_SIZE = 64, HELP_COLUMN = 25, HELP_WIDTH = 79 };

/* Where an option was found: which entry, and which configuration it writes into. */
struct place {
    const struct rbt_option *option;
    void *config;
};

/* A value on its way into the configuration, and how messages call the thing that has it. */
struct source {
    const char *kind; /* "option", "environment variable" or "default of" */
    const char *name; /* "--epochs", "RUBATO_EPOCHS" */
    const char *text;
    bool is_default;
};

/* Levenshtein distance of two names; names longer than the table's are never near. */
static size_t edit_distance(const char *a, const char *b)
{
    const size_t a_length = strlen(a);
    const size_t b_length = strlen(b);
    size_t row[NAME_MAX_SIZE];
    if (a_length >= NAME_MAX_SIZE || b_length >= NAME_MAX_SIZE) {
        return NAME_MAX_SIZE;
    }
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const size_t above = row[j];
            size_t best = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[b_length];
}

const char *rbt_option_guess(const char *typed, const char *const *names, size_t count)
{
    const char *closest = NULL;
    size_t distance_min = 3;
    for (size_t i = 0; i < count; i++) {
        const size_t distance = edit_distance(typed, names[i]);
        if (distance < distance_min && distance < strlen(names[i])) {
            distance_min = distance;
            closest = names[i];
        }
    }
    return closest;
}

/* Describes the numbers that are allowed: " from 1 to 10", " of at least 0", or "". */
static void describe_range(const struct rbt_option *option, char *text, size_t size)
{
    char low[RBT_TEXT_SHORT];
    char high[RBT_TEXT_SHORT];
    if (option->type == RBT_OPTION_INT) {
        snprintf(low, sizeof low, "%.0f", option->min);
        snprintf(high, sizeof high, "%.0f", option->max);
    } else {
        rbt_text_from_real(option->min, low);
        rbt_text_from_real(option->max, high);
    }
    if (option->min == 0 && option->max == 0) {
        snprintf(text, size, "%s", "");
    } else if (option->max >= 9e18) {
        snprintf(text, size, " of at least %s", low);
    } else {
        snprintf(text, size, " from %s to %s", low, high);
    }
}

static bool is_in_range(const struct rbt_option *option, double value)
{
    return (option->min == 0 && option->max == 0) || (value >= option->min && value <= option->max);
}

static rbt_status refuse_number(const struct rbt_option *option, const struct source *source)
{
    char range[128];
    describe_range(option, range, sizeof range);
    return rbt_fail(RBT_E_INVALID, "%s \"%s\" needs a %snumber%s, got \"%s\"", source->kind,
                    source->name, option->type == RBT_OPTION_INT ? "whole " : "", range,
                    source->text);
}

static rbt_status refuse_time(const struct rbt_option *option, const struct source *source)
{
    char range[128];
    describe_range(option, range, sizeof range);
    return rbt_fail(RBT_E_INVALID, "%s \"%s\" needs a time%s%s, such as 500ms, got \"%s\"",
                    source->kind, source->name, range, range[0] != '\0' ? " seconds" : "",
                    source->text);
}

static const double RATE_MAX = 1e15; /* bytes per second; no link has as much */

static rbt_status refuse_rate(const struct source *source)
{
    return rbt_fail(
        RBT_E_INVALID,
        "%s \"%s\" needs a rate from 1 byte to 1e15 bytes per second, such as 200Mbit or "
        "25MB, got \"%s\"",
        source->kind, source->name, source->text);
}

static size_t choice_count(const struct rbt_option *option)
{
    size_t count = 0;
    while (option->choices[count] != NULL) {
        count++;
    }
    return count;
}

/* Lists the choices: "a, b or c". */
static void describe_choices(const struct rbt_option *option, char *text, size_t size)
{
    const size_t count = choice_count(option);
    size_t used = 0;
    for (size_t i = 0; i < count && used < size; i++) {
        const char *comma = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", comma, option->choices[i]);
    }
}

static rbt_status store_choice(const struct rbt_option *option, const struct source *source,
                               int32_t *value)
{
    for (int32_t i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(source->text, option->choices[i]) == 0) {
            *value = i;
            return RBT_OK;
        }
    }
    char choices[256];
    describe_choices(option, choices, sizeof choices);
    const rbt_status st = rbt_fail(RBT_E_INVALID, "%s \"%s\" needs %s, got \"%s\"", source->kind,
                                   source->name, choices, source->text);
    const char *guess = rbt_option_guess(source->text, option->choices, choice_count(option));
    return guess == NULL ? st : rbt_fail_hint(st, "Did you mean \"%s\"?", guess);
}

static rbt_status store_flag(const struct source *source, bool *value)
{
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(source->text, words[i]) == 0) {
            *value = i % 2 == 1;
            return RBT_OK;
        }
    }
    return rbt_fail(RBT_E_INVALID, "%s \"%s\" needs yes or no, got \"%s\"", source->kind,
                    source->name, source->text);
}

static rbt_status store_list(const struct source *source, struct rbt_option_list *list)
{
    if (list->count == RBT_OPTION_LIST_MAX) {
        return rbt_fail(RBT_E_INVALID, "%s \"%s\" has more than %d values", source->kind,
                        source->name, RBT_OPTION_LIST_MAX);
    }
    list->values[list->count++] = source->text;
    return RBT_OK;
}

/* Turns the source's text into the option's value. */
static rbt_status store(struct place place, const struct source *source)
{
    const struct rbt_option *option = place.option;
    void *value = (char *)place.config + option->offset;
    double real = 0;
    int64_t whole = 0;
    switch (option->type) {
    case RBT_OPTION_INT:
        if (!rbt_text_to_int(source->text, &whole) || !is_in_range(option, (double)whole)) {
            return refuse_number(option, source);
        }
        *(int64_t *)value = whole;
        return RBT_OK;
    case RBT_OPTION_REAL:
        if (!rbt_text_to_real(source->text, &real) ||
            (!source->is_default && (!isfinite(real) || !is_in_range(option, real)))) {
            return refuse_number(option, source);
        }
        *(double *)value = real;
        return RBT_OK;
    case RBT_OPTION_TIME:
        if (!rbt_text_to_seconds(source->text, &real) || !is_in_range(option, real)) {
            return refuse_time(option, source);
        }
        *(double *)value = real;
        return RBT_OK;
    case RBT_OPTION_RATE:
        if (!rbt_text_to_rate(source->text, &real) || real < 1 || real > RATE_MAX) {
            return refuse_rate(source);
        }
        *(double *)value = real;
        return RBT_OK;
    case RBT_OPTION_TEXT:
        *(const char **)value = source->text;
        return RBT_OK;
    case RBT_OPTION_FLAG:
        return store_flag(source, value);
    case RBT_OPTION_CHOICE:
        return store_choice(option, source, value);
    case RBT_OPTION_LIST:
        return store_list(source, value);
    }
    RBT_UNREACHABLE();
}

/* Sets what a value of NULL means: zero of each kind. */
static void clear(struct place place)
{
    void *value = (char *)place.config + place.option->offset;
    switch (place.option->type) {
    case RBT_OPTION_INT:
        *(int64_t *)value = 0;
        return;
    case RBT_OPTION_REAL:
    case RBT_OPTION_TIME:
    case RBT_OPTION_RATE:
        *(double *)value = 0;
        return;
    case RBT_OPTION_TEXT:
        *(const char **)value = NULL;
        return;
    case RBT_OPTION_FLAG:
        *(bool *)value = false;
        return;
    case RBT_OPTION_CHOICE:
        *(int32_t *)value = 0;
        return;
    case RBT_OPTION_LIST:
        ((struct rbt_option_list *)value)->count = 0;
        return;
    }
}

/* Adds what helps with a wrong value: a guess or what the option is for, and where to read on. */
static rbt_status add_hint(const struct rbt_option_command *command, struct place place,
                           rbt_status st)
{
    char guess[256];
    snprintf(guess, sizeof guess, "%s", rbt_last_hint());
    const char *help = place.option->help != NULL ? place.option->help : "";
    const char *text = guess[0] != '\0' ? guess : help;
    return rbt_fail_hint(st, "%s%sSee \"%s --help\".", text, text[0] != '\0' ? " " : "",
                         command->name);
}

/* RUBATO_CLOCKS_PER_EPOCH for clocks-per-epoch; `section`, which may be NULL, goes in between. */
static void environment_name(const char *section, const char *name, char text[NAME_MAX_SIZE])
{
    int length = snprintf(text, NAME_MAX_SIZE, "RUBATO_%s%s%s", section != NULL ? section : "",
                          section != NULL ? "_" : "", name);
    RBT_ASSERT(length > 0 && length < NAME_MAX_SIZE); /* a name in a table is too long */
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    }
}

/* Default, then environment, of one option. */
static rbt_status prepare(const struct rbt_option_command *command, struct place place)
{
    clear(place);
    if (place.option->value != NULL) {
        const struct source source = {.kind = "default of",
                                      .name = place.option->name,
                                      .text = place.option->value,
                                      .is_default = true};
        const rbt_status st = store(place, &source);
        RBT_ASSERT(st == RBT_OK); /* a default in a table is wrong */
    }
    char name[NAME_MAX_SIZE];
    environment_name(command->section, place.option->name, name);
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') {
        return RBT_OK;
    }
    if (place.option->type == RBT_OPTION_LIST) {
        clear(place); /* the environment's value replaces the default */
    }
    const struct source source = {.kind = "environment variable", .name = name, .text = text};
    const rbt_status st = store(place, &source);
    return st == RBT_OK ? st : add_hint(command, place, st);
}

static rbt_status prepare_all(const struct rbt_option_command *command)
{
    for (size_t t = 0; t < command->table_count; t++) {
        const struct rbt_option_table *table = &command->tables[t];
        for (size_t i = 0; i < table->count; i++) {
            const struct place place = {.option = &table->options[i], .config = table->config};
            const rbt_status st = prepare(command, place);
            if (st != RBT_OK) {
                return st;
            }
        }
    }
    return RBT_OK;
}

/* Finds the option whose name has `length` characters at `name`. */
static struct place find(const struct rbt_option_command *command, const char *name, size_t length)
{
    for (size_t t = 0; t < command->table_count; t++) {
        const struct rbt_option_table *table = &command->tables[t];
        for (size_t i = 0; i < table->count; i++) {
            const char *candidate = table->options[i].name;
            if (strlen(candidate) == length && memcmp(candidate, name, length) == 0) {
                return (struct place){.option = &table->options[i], .config = table->config};
            }
        }
    }
    return (struct place){0};
}

/* Complains about an option that is in no table; `name` is without the dashes and the value. */
static rbt_status refuse_name(const struct rbt_option_command *command, const char *typed,
                              const char *name)
{
    const char *names[RBT_OPTION_LIST_MAX] = {"help"};
    size_t count = 1;
    for (size_t t = 0; t < command->table_count; t++) {
        const struct rbt_option_table *table = &command->tables[t];
        for (size_t i = 0; i < table->count && count < RBT_OPTION_LIST_MAX; i++) {
            names[count++] = table->options[i].name;
        }
    }
    const char *guess = rbt_option_guess(name, names, count);
    const rbt_status st =
        rbt_fail(RBT_E_INVALID, "unrecognised option \"%s\" for \"%s\"", typed, command->name);
    if (guess != NULL) {
        return rbt_fail_hint(st, "Did you mean \"--%s\"? See \"%s --help\".", guess, command->name);
    }
    return rbt_fail_hint(st, "See \"%s --help\".", command->name);
}

/* Whether an argument is an option rather than a value: "-" is standard input, "-3" a number. */
static bool is_option(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0' && !isdigit((unsigned char)argument[1]) &&
           argument[1] != '.';
}

/* What is left of the command line. */
struct cursor {
    char *const *argv;
    int argc;
    int next;
};

/* The values of a list: up to the next option. */
static rbt_status parse_list(struct cursor *cursor, struct place place, struct source *source)
{
    const int first = cursor->next;
    while (cursor->next < cursor->argc && !is_option(cursor->argv[cursor->next])) {
        source->text = cursor->argv[cursor->next++];
        const rbt_status st = store(place, source);
        if (st != RBT_OK) {
            return st;
        }
    }
    return cursor->next > first
               ? RBT_OK
               : rbt_fail(RBT_E_INVALID, "option \"%s\" needs a value", source->name);
}

/* The value of an option whose name was recognized; `value` is what followed "=", or NULL. */
static rbt_status parse_value(struct cursor *cursor, struct place place, const char *value)
{
    char name[NAME_MAX_SIZE + 2];
    snprintf(name, sizeof name, "--%s", place.option->name);
    struct source source = {.kind = "option", .name = name, .text = value};
    if (place.option->type == RBT_OPTION_FLAG) {
        source.text = "yes";
        return value == NULL ? store(place, &source)
                             : rbt_fail(RBT_E_INVALID, "option \"%s\" takes no value, got \"%s\"",
                                        name, value);
    }
    if (value == NULL && place.option->type == RBT_OPTION_LIST) {
        return parse_list(cursor, place, &source);
    }
    if (value == NULL) {
        if (cursor->next == cursor->argc || is_option(cursor->argv[cursor->next])) {
            return rbt_fail(RBT_E_INVALID, "option \"%s\" needs a value", name);
        }
        source.text = cursor->argv[cursor->next++];
    }
    return store(place, &source);
}

/* The first value of a list on the command line replaces what the environment or default gave. */
static void replace_list(struct place place, const struct cursor *cursor)
{
    const char *name = place.option->name;
    const size_t length = strlen(name);
    for (int i = 0; i < cursor->next - 1; i++) {
        const char *before = cursor->argv[i];
        if (strncmp(before, "--", 2) == 0 && strncmp(before + 2, name, length) == 0 &&
            (before[2 + length] == '\0' || before[2 + length] == '=')) {
            return; /* given before: this one adds to it */
        }
    }
    clear(place);
}

/* One argument that starts with a dash; the cursor stands behind it. */
static rbt_status parse_option(const struct rbt_option_command *command, struct cursor *cursor)
{
    const char *typed = cursor->argv[cursor->next - 1];
    if (typed[1] != '-') {
        return refuse_name(command, typed, typed + 1);
    }
    const char *name = typed + 2;
    const char *equals = strchr(name, '=');
    const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    struct place place = find(command, name, length);
    if (place.option == NULL && strncmp(name, "no-", 3) == 0 && equals == NULL) {
        place = find(command, name + 3, length - 3);
        if (place.option != NULL && place.option->type == RBT_OPTION_FLAG) {
            *(bool *)((char *)place.config + place.option->offset) = false;
            return RBT_OK;
        }
        place.option = NULL;
    }
    if (place.option == NULL) {
        char shown[NAME_MAX_SIZE];
        snprintf(shown, sizeof shown, "--%.*s", (int)(length < 60 ? length : 60), name);
        return refuse_name(command, length < 60 ? shown : typed, shown + 2);
    }
    if (place.option->type == RBT_OPTION_LIST) {
        replace_list(place, cursor);
    }
    const rbt_status st = parse_value(cursor, place, equals != NULL ? equals + 1 : NULL);
    return st == RBT_OK ? st : add_hint(command, place, st);
}

static rbt_status take_plain(const struct rbt_option_command *command, const char *text,
                             struct rbt_option_arguments *arguments)
{
    const size_t room = sizeof arguments->values / sizeof arguments->values[0];
    if (arguments->count == command->positional_max || arguments->count == room) {
        rbt_status st =
            rbt_fail(RBT_E_INVALID, "unexpected argument \"%s\" for \"%s\"", text, command->name);
        return rbt_fail_hint(st, "See \"%s --help\".", command->name);
    }
    arguments->values[arguments->count++] = text;
    return RBT_OK;
}

static bool asks_for_help(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

rbt_status rbt_option_parse(const struct rbt_option_command *command, int argc, char *const *argv,
                            struct rbt_option_arguments *arguments)
{
    *arguments = (struct rbt_option_arguments){.wants_help = asks_for_help(argc, argv)};
    if (arguments->wants_help) {
        return RBT_OK;
    }
    rbt_status st = prepare_all(command);
    bool has_options = true; /* until "--" */
    struct cursor cursor = {.argv = argv, .argc = argc, .next = 0};
    while (st == RBT_OK && cursor.next < argc) {
        const char *argument = argv[cursor.next++];
        if (has_options && strcmp(argument, "--") == 0) {
            has_options = false;
        } else if (has_options && is_option(argument)) {
            st = parse_option(command, &cursor);
        } else {
            st = take_plain(command, argument, arguments);
        }
    }
    return st;
}

/* What stands for the value in the help: the unit, the choices, or a letter. */
static const char *placeholder(const struct rbt_option *option)
{
    const bool is_number = option->type == RBT_OPTION_INT || option->type == RBT_OPTION_REAL;
    if (option->unit != NULL && !is_number) {
        return option->unit;
    }
    switch (option->type) {
    case RBT_OPTION_INT:
        return "N";
    case RBT_OPTION_REAL:
        return "X";
    case RBT_OPTION_TIME:
        return "TIME";
    case RBT_OPTION_RATE:
        return "RATE";
    case RBT_OPTION_TEXT:
        return "TEXT";
    case RBT_OPTION_FLAG:
        return "";
    case RBT_OPTION_CHOICE:
        return "NAME";
    case RBT_OPTION_LIST:
        return "FILE...";
    }
    RBT_UNREACHABLE();
}

/* Prints words from HELP_COLUMN to HELP_WIDTH; the first line is already at the column. */
static void print_wrapped(FILE *out, const char *text)
{
    int column = HELP_COLUMN;
    while (*text != '\0') {
        const int length = (int)strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + length > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* The right half: what it is for, the choices, and the default with its unit. */
static void describe(const struct rbt_option *option, char *text, size_t size)
{
    int used = snprintf(text, size, "%s", option->help != NULL ? option->help : "");
    if (option->type == RBT_OPTION_CHOICE && (size_t)used < size) {
        char choices[256];
        describe_choices(option, choices, sizeof choices);
        used += snprintf(text + used, size - (size_t)used, " One of %s.", choices);
    }
    const bool has_default = option->value != NULL && strcmp(option->value, "nan") != 0 &&
                             option->type != RBT_OPTION_FLAG;
    if (has_default && (size_t)used < size) {
        const bool has_unit = option->unit != NULL && islower((unsigned char)option->unit[0]);
        const char *unit = has_unit ? option->unit : "";
        const size_t length = strlen(unit);
        const bool is_one =
            strcmp(option->value, "1") == 0 && length > 1 && unit[length - 1] == 's';
        snprintf(text + used, size - (size_t)used, " [%s%s%.*s]", option->value,
                 has_unit ? " " : "", (int)(is_one ? length - 1 : length), unit);
    }
}

/* The left half. A flag that is on by default shows how to turn it off. */
static int describe_name(const struct rbt_option *option, char *text, size_t size)
{
    bool is_on = false;
    const struct source source = {
        .kind = "default of", .name = option->name, .text = option->value};
    if (option->type == RBT_OPTION_FLAG && option->value != NULL) {
        const rbt_status st = store_flag(&source, &is_on);
        RBT_ASSERT(st == RBT_OK); /* a default in a table is wrong */
    }
    const char *value = placeholder(option);
    return snprintf(text, size, "  --%s%s%s%s", is_on ? "[no-]" : "", option->name,
                    value[0] != '\0' ? " " : "", value);
}

static void print_option(FILE *out, const struct rbt_option *option)
{
    char left[128];
    char right[1024];
    const int length = describe_name(option, left, sizeof left);
    describe(option, right, sizeof right);
    if (right[0] == '\0') {
        fprintf(out, "%s\n", left);
        return;
    }
    if (length + 2 > HELP_COLUMN) {
        fprintf(out, "%s\n%*s", left, HELP_COLUMN, "");
    } else {
        fprintf(out, "%-*s", HELP_COLUMN, left);
    }
    print_wrapped(out, right);
}

void rbt_option_help(FILE *out, const struct rbt_option_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        print_option(out, &table->options[i]);
    }
}

/* Prints the table's options of one group, below the heading if they are the first of it: `printed`
 * counts those of the group, in all tables. */
static size_t print_group(FILE *out, const struct rbt_option_table *table,
                          const char *const *groups, size_t index, size_t printed)
{
    bool is_member = index == 0; /* until an option says otherwise */
    for (size_t i = 0; i < table->count; i++) {
        const struct rbt_option *option = &table->options[i];
        if (option->group != NULL) {
            is_member = strcmp(option->group, groups[index]) == 0;
        }
        if (!is_member) {
            continue;
        }
        if (printed++ == 0) {
            fprintf(out, "\n%s:\n\n", groups[index]);
        }
        print_option(out, option);
    }
    return printed;
}

/* Whether every group of the table has a place in the help. */
static bool has_groups(const struct rbt_option_table *table, const char *const *groups)
{
    for (size_t i = 0; i < table->count; i++) {
        size_t g = 0;
        while (table->options[i].group != NULL && groups[g] != NULL &&
               strcmp(groups[g], table->options[i].group) != 0) {
            g++;
        }
        if (groups[g] == NULL) {
            return false;
        }
    }
    return true;
}

void rbt_option_help_by_group(FILE *out, const struct rbt_option_table *tables, size_t table_count,
                              const char *const *groups)
{
    for (size_t t = 0; t < table_count; t++) {
        RBT_ASSERT(has_groups(&tables[t], groups)); /* else an option would be missing */
    }
    for (size_t g = 0; groups[g] != NULL; g++) {
        size_t printed = 0;
        for (size_t t = table_count; t > 0; t--) {
            printed = print_group(out, &tables[t - 1], groups, g, printed);
        }
    }
}
