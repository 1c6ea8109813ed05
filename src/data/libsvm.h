/* data/libsvm.h - the text format of LIBSVM: `label key:value key:value ... # comment`. */
#ifndef RUBATO_DATA_LIBSVM_H
#define RUBATO_DATA_LIBSVM_H

#include "data/lines.h"

/* Parses a line into the struct rbt_builder_sink `context`, which has room for a feature per colon.
 */
rbt_status rbt_libsvm_line(void *context, const struct rbt_line *line);

#endif
