/* algo/frame/column_words.h - the dictionary of text columns (--dictionary) in a model: a list of
 * texts, "dictionary", whose word i belongs to feature `columns + 1 + i`. A word that is empty was
 * too rare. */
#ifndef RUBATO_ALGO_FRAME_COLUMN_WORDS_H
#define RUBATO_ALGO_FRAME_COLUMN_WORDS_H

#include <stdio.h>

#include "algo/frame/model.h"
#include "data/dictionary.h"
#include "data/fields.h"

/* Keeps the plan's dictionary with the model, if it has one. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_column_words_store(const struct rbt_column_plan *plan,
                                               struct rbt_model *model);

/* Reads it again and names it in the plan, which has been read; a model without leaves both as they
 * are. The caller frees the dictionary, which is empty at first, in any case. Fails with RBT_E_DATA
 * if it makes no sense, and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_column_words_load(const struct rbt_model *model,
                                              struct rbt_dictionary *dictionary,
                                              struct rbt_column_plan *plan);

/* Writes a line "feature column=text" for each of its texts, columns from 0. Fails with
 * RBT_E_INVALID if the model has none. */
RBT_MUST_USE rbt_status rbt_column_words_export(const struct rbt_model *model, FILE *out);

#endif
