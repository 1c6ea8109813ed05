/* algo/frame/inputs.c - how files of examples and ratings are read. */
#include "algo/frame/inputs.h"

#include "algo/frame/column_options.h"
#include "algo/frame/column_words.h"

struct rbt_data_options rbt_inputs_training(const struct rbt_train_options *options)
{
    return (struct rbt_data_options){.paths = options->data.values,
                                     .path_count = options->data.count,
                                     .format = (enum rbt_format)options->format,
                                     .is_zero_based = options->is_zero_based,
                                     .label_column = options->label_column,
                                     .label_name = options->label_name};
}

void rbt_inputs_name_eval(const struct rbt_train_options *options,
                          const struct rbt_examples *examples, struct rbt_data_options *data)
{
    data->paths = options->eval.values;
    data->path_count = options->eval.count;
    data->label_positive = examples->label_positive;
    data->column_count = examples->column_count;
}

struct rbt_data_options rbt_inputs_prediction(const struct rbt_predict_options *options)
{
    return (struct rbt_data_options){.paths = options->data.values,
                                     .path_count = options->data.count,
                                     .format = (enum rbt_format)options->format,
                                     .is_zero_based = options->is_zero_based,
                                     .label_column = options->label_column,
                                     .label_name = options->label_name,
                                     .note = options->note};
}

rbt_status rbt_inputs_read(const struct rbt_model *model, struct rbt_data_options *data,
                           struct rbt_examples *examples, uint64_t *unknown)
{
    struct rbt_column_plan plan;
    struct rbt_dictionary dictionary = {0};
    data->label_positive = (float)rbt_model_setting(model, "label_positive", 0.0);
    rbt_status st = rbt_column_options_load(model, &plan, data);
    st = st != RBT_OK ? st : rbt_column_words_load(model, &dictionary, &plan);
    st = st != RBT_OK ? st : rbt_examples_read(data, examples);
    if (unknown != NULL) {
        *unknown = dictionary.unknown;
    }
    rbt_dictionary_free(&dictionary);
    data->plan = NULL; /* it ends here */
    return st;
}
