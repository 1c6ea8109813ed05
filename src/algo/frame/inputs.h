/* algo/frame/inputs.h - how files of examples and ratings are read, as options and models say.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_FRAME_INPUTS_H
#define RUBATO_ALGO_FRAME_INPUTS_H

#include "algo/frame/algo.h"
#include "data/examples.h"
#include "data/fields.h"

/* The training data of these options; what an algorithm wants of labels is the caller's to add. */
struct rbt_data_options rbt_inputs_training(const struct rbt_train_options *options);

/* After the training data was read: `data` names the evaluation data, which has its labels and
 * columns. */
void rbt_inputs_name_eval(const struct rbt_train_options *options,
                          const struct rbt_examples *examples, struct rbt_data_options *data);

/* The data that a model is applied to. */
struct rbt_data_options rbt_inputs_prediction(const struct rbt_predict_options *options);

/* Reads such data as the data that the model was trained on was read. `unknown`, if not NULL,
 * becomes the number of values that the model's dictionary does not have. Fails like
 * rbt_examples_read(), and with RBT_E_DATA if what the model says about columns makes no sense. */
RBT_MUST_USE rbt_status rbt_inputs_read(const struct rbt_model *model,
                                        struct rbt_data_options *data,
                                        struct rbt_examples *examples, uint64_t *unknown);

#endif
