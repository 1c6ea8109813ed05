/* cli/names.h - names of choices that several commands offer, each in the order of its enumeration
 * and ended by NULL. */
#ifndef RUBATO_CLI_NAMES_H
#define RUBATO_CLI_NAMES_H

extern const char *const rbt_names_format[];        /* enum rbt_format */
extern const char *const rbt_names_placement[];     /* rbt_placement */
extern const char *const rbt_names_summary[];       /* enum rbt_summary_format, without FULL */
extern const char *const rbt_names_train_summary[]; /* enum rbt_summary_format */
extern const char *const rbt_names_progress[];      /* enum rbt_progress_mode */

/* The options of a table that say how data is to be read; AT(options.format) and so on are their
 * offsets in the caller's struct. */
#define RBT_NAMES_INPUT_OPTIONS(AT)                                                                \
    {.name = "format",                                                                             \
     .type = RBT_OPTION_CHOICE,                                                                    \
     .value = "auto",                                                                              \
     .choices = rbt_names_format,                                                                  \
     .help = "Format of the data; auto decides by the name and the first lines.",                  \
     .offset = AT(options.format)},                                                                \
        {.name = "zero-based",                                                                     \
         .type = RBT_OPTION_FLAG,                                                                  \
         .help = "Features of libsvm files start at 0 instead of 1.",                              \
         .offset = AT(options.is_zero_based)},                                                     \
    {                                                                                              \
        .name = "label-column", .type = RBT_OPTION_TEXT, .unit = "COLUMN", .value = "-1",          \
        .help = "Column of csv files that holds the label: a number from 0 (-1 is the last) or a " \
                "name from the header.",                                                           \
        .offset = AT(options.label_name)                                                           \
    }

#endif
