/* data/classes.h - labels that are names of classes: any texts.
 *
 * Every thread numbers the labels that it meets; the numbers become those of one list. When all is
 * read, either all labels are numbers, which they then are in the examples, or they are texts: in
 * the order of their bytes they are classes 0, 1, ..., and the plan keeps the list. A list that a
 * model has is kept to. */
#ifndef RUBATO_DATA_CLASSES_H
#define RUBATO_DATA_CLASSES_H

#include "data/builder.h"
#include "data/cells.h"

enum { RBT_CLASSES_MAX = 4096 };

/* The number of a label among those of the sink. Fails with RBT_E_DATA and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_classes_note(struct rbt_builder_sink *sink, const struct rbt_cell *cell,
                                         float *label);

/* Replaces the numbers of a sink by those of the builder, before the sinks are gathered. Fails with
 * RBT_E_DATA (too many) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_classes_merge(struct rbt_builder *builder,
                                          struct rbt_builder_sink *sink);

/* At the end: labels become numbers or places in the plan's list. Fails with RBT_E_DATA (a label
 * that the list does not have) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_classes_settle(struct rbt_builder *builder,
                                           struct rbt_column_plan *plan);

#endif
