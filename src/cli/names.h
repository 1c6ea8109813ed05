/* cli/names.h - names of choices that several commands offer, each in the order of its enumeration
 * and ended by NULL. */
#ifndef RUBATO_CLI_NAMES_H
#define RUBATO_CLI_NAMES_H

extern const char *const rbt_names_summary[];       /* enum rbt_summary_format, without FULL */
extern const char *const rbt_names_train_summary[]; /* enum rbt_summary_format */
extern const char *const rbt_names_progress[];      /* enum rbt_progress_mode */

#endif
