/* base/option_test.c - one test per promise of option.h. */
#include "base/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/option.h"

struct config {
    int64_t staleness;
    double rate;
    const char *model;
    bool is_verbose;
    int32_t format;
    struct rbt_option_list data;
    double target;
    double until;
};

static const char *const formats[] = {"auto", "libsvm", "csv", NULL};

static const struct rbt_option options[] = {
    {.name = "staleness",
     .type = RBT_OPTION_INT,
     .min = -1,
     .max = 1000000,
     .value = "3",
     .help = "0 waits for everybody after every clock, -1 never waits.",
     .offset = offsetof(struct config, staleness)},
    {.name = "rate",
     .type = RBT_OPTION_REAL,
     .min = 0,
     .max = INFINITY,
     .value = "0.5",
     .offset = offsetof(struct config, rate)},
    {.name = "model", .type = RBT_OPTION_TEXT, .offset = offsetof(struct config, model)},
    {.name = "verbose",
     .type = RBT_OPTION_FLAG,
     .value = "yes",
     .offset = offsetof(struct config, is_verbose)},
    {.name = "format",
     .type = RBT_OPTION_CHOICE,
     .choices = formats,
     .value = "auto",
     .offset = offsetof(struct config, format)},
    {.name = "data", .type = RBT_OPTION_LIST, .offset = offsetof(struct config, data)},
    {.name = "target",
     .type = RBT_OPTION_REAL,
     .value = "nan",
     .offset = offsetof(struct config, target)},
    {.name = "until",
     .type = RBT_OPTION_TIME,
     .min = 0,
     .max = 60,
     .value = "20ms",
     .offset = offsetof(struct config, until)},
};

static struct config config;
static struct rbt_option_arguments arguments;

/* Parses up to eight words; the list ends with NULL. */
static rbt_status parse(char *const *words)
{
    const struct rbt_option_table table = {options, sizeof options / sizeof options[0], &config};
    const struct rbt_option_command command = {
        .name = "rubato train", .tables = &table, .table_count = 1, .positional_max = 2};
    int count = 0;
    while (words[count] != NULL) {
        count++;
    }
    memset(&config, 0x55, sizeof config);
    return rbt_option_parse(&command, count, words, &arguments);
}

#define PARSE(...) parse((char *[]){__VA_ARGS__, NULL})

/* The message is exactly this, and so is the hint. */
static void assert_complaint(rbt_status st, const char *message, const char *hint)
{
    assert_int_equal(st, RBT_E_INVALID);
    assert_string_equal(rbt_last_error(), message);
    assert_string_equal(rbt_last_hint(), hint);
}

static void defaults_are_set(void **state)
{
    (void)state;
    assert_ok(parse((char *[]){NULL}));
    assert_int_equal(config.staleness, 3);
    assert_true(config.rate == 0.5);
    assert_null(config.model);
    assert_true(config.is_verbose);
    assert_int_equal(config.format, 0);
    assert_int_equal(config.data.count, 0);
    assert_true(isnan(config.target));
    assert_true(config.until == 0.02);
}

static void the_command_line_beats_the_environment_beats_defaults(void **state)
{
    (void)state;
    setenv("RUBATO_STALENESS", "7", 1);
    setenv("RUBATO_DATA", "env.svm", 1);
    setenv("RUBATO_VERBOSE", "no", 1);
    assert_ok(PARSE("x"));
    assert_int_equal(config.staleness, 7);
    assert_string_equal(config.data.values[0], "env.svm");
    assert_false(config.is_verbose);
    assert_ok(PARSE("--staleness", "-1", "--data", "a", "--verbose"));
    assert_int_equal(config.staleness, -1);
    assert_int_equal(config.data.count, 1);
    assert_string_equal(config.data.values[0], "a");
    assert_true(config.is_verbose);
    setenv("RUBATO_STALENESS", "fast", 1);
    assert_complaint(PARSE("x"),
                     "environment variable \"RUBATO_STALENESS\" needs a whole number from -1 to "
                     "1000000, got \"fast\"",
                     "0 waits for everybody after every clock, -1 never waits. See \"rubato train "
                     "--help\".");
    unsetenv("RUBATO_STALENESS");
    unsetenv("RUBATO_DATA");
    unsetenv("RUBATO_VERBOSE");
}

static void values_come_after_a_blank_or_an_equals_sign(void **state)
{
    (void)state;
    assert_ok(
        PARSE("--staleness=64k", "--model", "m", "--format=csv", "--no-verbose", "--rate", "1e-3"));
    assert_int_equal(config.staleness, 64000);
    assert_string_equal(config.model, "m");
    assert_int_equal(config.format, 2);
    assert_false(config.is_verbose);
    assert_true(config.rate == 1e-3);
}

static void lists_take_values_until_the_next_option_and_add_up(void **state)
{
    (void)state;
    assert_ok(PARSE("linear", "--data", "a", "-", "c", "--verbose", "--data=d", "--data", "e"));
    assert_int_equal(arguments.count, 1);
    assert_string_equal(arguments.values[0], "linear");
    assert_int_equal(config.data.count, 5);
    assert_string_equal(config.data.values[1], "-");
    assert_string_equal(config.data.values[3], "d");
    assert_string_equal(config.data.values[4], "e");
    assert_complaint(PARSE("--data", "--verbose"), "option \"--data\" needs a value",
                     "See \"rubato train --help\".");
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    assert_ok(PARSE("--data", "a", "--", "--help"));
    assert_int_equal(config.data.count, 1);
    assert_int_equal(arguments.count, 1);
    assert_string_equal(arguments.values[0], "--help");
}

static void help_goes_before_mistakes(void **state)
{
    (void)state;
    assert_ok(PARSE("--nonsense", "-h"));
    assert_true(arguments.wants_help);
    assert_ok(PARSE("--help"));
    assert_true(arguments.wants_help);
}

static void wrong_values_are_quoted(void **state)
{
    (void)state;
    const char *hint = "0 waits for everybody after every clock, -1 never waits. See \"rubato "
                       "train --help\".";
    assert_complaint(PARSE("--staleness", "fast"),
                     "option \"--staleness\" needs a whole number from -1 to 1000000, got \"fast\"",
                     hint);
    assert_complaint(PARSE("--staleness=-2"),
                     "option \"--staleness\" needs a whole number from -1 to 1000000, got \"-2\"",
                     hint);
    assert_complaint(PARSE("--rate", "-1"),
                     "option \"--rate\" needs a number of at least 0, got \"-1\"",
                     "See \"rubato train --help\".");
    assert_complaint(PARSE("--target", "nan"), "option \"--target\" needs a number, got \"nan\"",
                     "See \"rubato train --help\".");
    assert_complaint(PARSE("--format", "libsvn"),
                     "option \"--format\" needs auto, libsvm or csv, got \"libsvn\"",
                     "Did you mean \"libsvm\"? See \"rubato train --help\".");
    assert_complaint(PARSE("--model"), "option \"--model\" needs a value",
                     "See \"rubato train --help\".");
    assert_complaint(PARSE("--verbose=3"), "option \"--verbose\" takes no value, got \"3\"",
                     "See \"rubato train --help\".");
}

static void misspelt_names_get_a_suggestion(void **state)
{
    (void)state;
    assert_complaint(PARSE("--stalness", "3"),
                     "unrecognised option \"--stalness\" for \"rubato train\"",
                     "Did you mean \"--staleness\"? See \"rubato train --help\".");
    assert_complaint(PARSE("--qqqqqqqq=1"),
                     "unrecognised option \"--qqqqqqqq\" for \"rubato train\"",
                     "See \"rubato train --help\".");
    assert_complaint(PARSE("-x"), "unrecognised option \"-x\" for \"rubato train\"",
                     "See \"rubato train --help\".");
    assert_complaint(PARSE("--no-model"), "unrecognised option \"--no-model\" for \"rubato train\"",
                     "See \"rubato train --help\".");
    assert_complaint(PARSE("a", "b", "c"), "unexpected argument \"c\" for \"rubato train\"",
                     "See \"rubato train --help\".");
}

static void times_are_seconds(void **state)
{
    (void)state;
    assert_ok(PARSE("--until", "1m"));
    assert_true(config.until == 60);
    assert_complaint(PARSE("--until", "2m"),
                     "option \"--until\" needs a time from 0 to 60 seconds, such as 500ms, got "
                     "\"2m\"",
                     "See \"rubato train --help\".");
    assert_complaint(PARSE("--until", "soon"),
                     "option \"--until\" needs a time from 0 to 60 seconds, such as 500ms, got "
                     "\"soon\"",
                     "See \"rubato train --help\".");
}

/* Two commands on one line may have options of the same name. */
static void a_section_has_its_own_environment(void **state)
{
    (void)state;
    const struct rbt_option_table table = {options, sizeof options / sizeof options[0], &config};
    const struct rbt_option_command command = {
        .name = "rubato run", .tables = &table, .table_count = 1, .section = "RUN"};
    setenv("RUBATO_RATE", "4", 1);
    setenv("RUBATO_RUN_RATE", "5", 1);
    assert_ok(rbt_option_parse(&command, 0, NULL, &arguments));
    assert_true(config.rate == 5);
    unsetenv("RUBATO_RUN_RATE");
    assert_ok(rbt_option_parse(&command, 0, NULL, &arguments));
    assert_true(config.rate == 0.5);
    unsetenv("RUBATO_RATE");
}

static void a_list_has_a_limit(void **state)
{
    (void)state;
    char *words[RBT_OPTION_LIST_MAX + 3] = {"--data"};
    for (size_t i = 1; i < RBT_OPTION_LIST_MAX + 2; i++) {
        words[i] = "f";
    }
    assert_complaint(parse(words), "option \"--data\" has more than 256 values",
                     "See \"rubato train --help\".");
}

static void guesses_are_at_most_two_edits_away(void **state)
{
    (void)state;
    static const char *const names[] = {"train", "plot", "x"};
    assert_string_equal(rbt_option_guess("trian", names, 3), "train");
    assert_string_equal(rbt_option_guess("plto", names, 3), "plot");
    assert_null(rbt_option_guess("tarnish", names, 3));
    assert_null(rbt_option_guess("y", names, 3)); /* everything is near a name of one letter */
}

static void help_fits_eighty_columns(void **state)
{
    (void)state;
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    const struct rbt_option_table table = {options, sizeof options / sizeof options[0], &config};
    rbt_option_help(out, &table);
    fclose(out);
    assert_non_null(strstr(text, "  --staleness N"));
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_true(strcspn(line, "\n") <= 80);
    }
}

/* The groups come in the order that is asked for, whatever the order of options and tables. */
static void help_by_group_has_every_option_once(void **state)
{
    (void)state;
    static const struct rbt_option own[] = {
        {.name = "rank", .type = RBT_OPTION_INT, .value = "1", .unit = "rows", .help = "Rank."},
        {.name = "lr", .group = "Steps", .type = RBT_OPTION_REAL, .help = "Step size."},
        {.name = "fast", .type = RBT_OPTION_FLAG},
    };
    static const struct rbt_option shared[] = {
        {.name = "data", .group = "Data", .type = RBT_OPTION_LIST, .help = "Files."},
        {.name = "epochs",
         .group = "Steps",
         .type = RBT_OPTION_INT,
         .value = "9",
         .help = "Passes."},
    };
    static const char *const groups[] = {"Rank", "Data", "Nothing", "Steps", NULL};
    const struct rbt_option_table tables[] = {{own, 3, &config}, {shared, 2, &config}};
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    rbt_option_help_by_group(out, tables, 2, groups);
    fclose(out);
    assert_string_equal(text, "\nRank:\n\n"
                              "  --rank N               Rank. [1 row]\n"
                              "\nData:\n\n"
                              "  --data FILE...         Files.\n"
                              "\nSteps:\n\n"
                              "  --epochs N             Passes. [9]\n"
                              "  --lr X                 Step size.\n"
                              "  --fast\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_set),
        cmocka_unit_test(the_command_line_beats_the_environment_beats_defaults),
        cmocka_unit_test(values_come_after_a_blank_or_an_equals_sign),
        cmocka_unit_test(lists_take_values_until_the_next_option_and_add_up),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(help_goes_before_mistakes),
        cmocka_unit_test(wrong_values_are_quoted),
        cmocka_unit_test(misspelt_names_get_a_suggestion),
        cmocka_unit_test(times_are_seconds),
        cmocka_unit_test(a_section_has_its_own_environment),
        cmocka_unit_test(a_list_has_a_limit),
        cmocka_unit_test(guesses_are_at_most_two_edits_away),
        cmocka_unit_test(help_fits_eighty_columns),
        cmocka_unit_test(help_by_group_has_every_option_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
