/* base/option.h - options of a command as a table.
 *
 * Every option is one entry: name, type, range, default, unit, help. Parsing of the command line
 * and of the environment (RUBATO_<NAME> or RUBATO_<SECTION>_<NAME>), the checks, and `--help` all
 * come from the table.
 *
 *     struct config { int64_t epochs; double l2; };
 *     static const struct rbt_option options[] = {
 *         {.name = "epochs", .type = RBT_OPTION_INT, .min = 1, .max = 1000000, .value = "10",
 *          .help = "Passes over the data.", .offset = offsetof(struct config, epochs)},
 *     };
 *
 * Or both at once, from a list that says all about an option in one place:
 *
 *     #define MY_OPTIONS(OPTION)
 *         OPTION(INT, epochs, "epochs", .min = 1, .value = "10", .help = "Passes over the data.")
 *         OPTION(REAL, l2, "l2", .help = "Weight of the penalty.")
 *     struct config { MY_OPTIONS(RBT_OPTION_FIELD) };
 *     #define ENTRY(kind, ...) RBT_OPTION_ENTRY(struct config, kind, __VA_ARGS__)
 *     static const struct rbt_option options[] = {MY_OPTIONS(ENTRY)};
 */
#ifndef RUBATO_BASE_OPTION_H
#define RUBATO_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* What is stored at `offset` in the configuration struct. */
enum rbt_option_type {
    RBT_OPTION_INT,    /* int64_t; accepts 64k, 10M (powers of 1000), 4Ki, 2Mi (of 1024) */
    RBT_OPTION_REAL,   /* double; accepts 1e-3 */
    RBT_OPTION_TIME,   /* double, in seconds; accepts 500ms, 2s, 1m */
    RBT_OPTION_RATE,   /* double, in bytes per second; accepts 200Mbit, 25MB */
    RBT_OPTION_TEXT,   /* const char * into argv, the environment or the default; may be NULL */
    RBT_OPTION_FLAG,   /* bool; takes no value, `--no-NAME` turns it off */
    RBT_OPTION_CHOICE, /* int32_t, the index in `choices` */
    RBT_OPTION_LIST,   /* struct rbt_option_list; may be repeated, and may have several values */
};

enum { RBT_OPTION_LIST_MAX = 256 };
struct rbt_option_list {
    const char *values[RBT_OPTION_LIST_MAX];
    size_t count;
};

struct rbt_option {
    const char *name; /* without the two dashes */
    enum rbt_option_type type;
    double min; /* of INT, REAL and TIME; not checked when min == max == 0 */
    double max;
    const char *value;          /* default as text; NULL: 0, NULL, false, empty */
    const char *unit;           /* for the help: "clocks", "FILE", ... */
    const char *help;           /* sentences */
    const char *const *choices; /* of CHOICE, ends with NULL */
    const char *group;          /* heading in a help by groups; NULL: as the option in front */
    size_t offset;              /* in the configuration */
};

/* The field of an option of a list, by its type; and its entry in the table of a struct. */
#define RBT_OPTION_FIELD_INT(field)        int64_t field;
#define RBT_OPTION_FIELD_REAL(field)       double field;
#define RBT_OPTION_FIELD_TIME(field)       double field;
#define RBT_OPTION_FIELD_RATE(field)       double field;
#define RBT_OPTION_FIELD_TEXT(field)       const char *field;
#define RBT_OPTION_FIELD_FLAG(field)       bool field;
#define RBT_OPTION_FIELD_CHOICE(field)     int32_t field;
#define RBT_OPTION_FIELD_LIST(field)       struct rbt_option_list field;
#define RBT_OPTION_FIELD(kind, field, ...) RBT_OPTION_FIELD_##kind(field)
#define RBT_OPTION_ENTRY(config, kind, field, title, ...)                                          \
    {.name = title, .type = RBT_OPTION_##kind, .offset = offsetof(config, field), __VA_ARGS__},

/* One or more tables that write into one or more configurations. */
struct rbt_option_table {
    const struct rbt_option *options;
    size_t count;
    void *config;
};

/* What is being parsed, for messages and help. */
struct rbt_option_command {
    const char *name; /* "rubato train linear" */
    const struct rbt_option_table *tables;
    size_t table_count;
    size_t positional_max; /* how many plain arguments are allowed */
    const char *section;   /* in the names of environment variables; NULL: none */
};

/* Plain arguments found between the options. */
struct rbt_option_arguments {
    const char *values[16];
    size_t count;
    bool wants_help; /* --help or -h was there; nothing else was checked */
};

/* Sets defaults, then the environment's values, then the command line's. argv[0] is the first
 * argument to look at. Stops at "--": what follows is left in `arguments` as positional.
 * Fails with RBT_E_INVALID, a message that quotes what was typed, and a hint. */
RBT_MUST_USE rbt_status rbt_option_parse(const struct rbt_option_command *command, int argc,
                                         char *const *argv, struct rbt_option_arguments *arguments);

/* Prints one aligned block per table, at most 80 columns. */
void rbt_option_help(FILE *out, const struct rbt_option_table *table);

/* Prints the options of all tables by group: for each of `groups`, which ends with NULL, an empty
 * line, the heading, and the options that have it, those of the last table first. Options at the
 * start of a table that have no group belong to the first. A group without options is not printed.
 * Every group of an option must be in `groups`. */
void rbt_option_help_by_group(FILE *out, const struct rbt_option_table *tables, size_t table_count,
                              const char *const *groups);

/* The name within two edits of what was typed, or NULL when a guess would be noise. */
const char *rbt_option_guess(const char *typed, const char *const *names, size_t count);

#endif
