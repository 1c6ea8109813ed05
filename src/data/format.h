/* data/format.h - guesses the format of a file from its name and its first lines. */
#ifndef RUBATO_DATA_FORMAT_H
#define RUBATO_DATA_FORMAT_H

#include "data/examples.h"
#include "data/lines.h"

/* Never RBT_FORMAT_AUTO. A text that shows nothing is CSV. */
enum rbt_format rbt_format_guess(const struct rbt_text *text);

/* "LIBSVM", "CSV", "ratings"; for messages. */
const char *rbt_format_name(enum rbt_format format);

#endif
