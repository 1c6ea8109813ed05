/* bench/hogwild.c - sparse logistic regression without any server: threads race on one array.
 *
 *     hogwild DATA.svm [THREADS [PASSES]]
 *
 * The loop that a parameter server is measured by. Each thread goes through its share of the
 * examples and writes straight to the weights; lost updates are part of the method (Hogwild). Plain
 * SGD on the logistic loss, no regularisation, a step that falls with the passes.
 *
 * Threads: the weights are raced on; everything else is read only. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "bench/yardstick.h"
#include "data/examples.h"

struct model {
    const struct rbt_examples *examples;
    struct rbt_share shares[RBT_YARDSTICK_THREADS_MAX]; /* indices are features, see remap() */
    uint32_t threads;
    float *weights; /* by feature */
    size_t features;
};

static void pass(void *context, uint32_t thread, uint32_t number)
{
    const struct model *model = context;
    const struct rbt_share *share = &model->shares[thread];
    float *weights = model->weights;
    const float step = 0.5F / (1.0F + (float)number);
    for (size_t i = 0; i < share->count; i++) {
        const size_t begin = share->offsets[i];
        const size_t end = share->offsets[i + 1];
        float margin = 0;
        for (size_t k = begin; k < end; k++) {
            margin += weights[share->indices[k]] * share->values[k];
        }
        const float label = share->labels[i];
        const float change = step * label / (1.0F + expf(label * margin));
        for (size_t k = begin; k < end; k++) {
            weights[share->indices[k]] += change * share->values[k];
        }
    }
}

/* Mean logistic loss of the training data. */
static double judge(void *context)
{
    const struct model *model = context;
    double sum = 0;
    for (uint32_t t = 0; t < model->threads; t++) {
        const struct rbt_share *share = &model->shares[t];
        for (size_t i = 0; i < share->count; i++) {
            double margin = 0;
            for (size_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
                margin += (double)model->weights[share->indices[k]] * (double)share->values[k];
            }
            sum += log1p(exp(-(double)share->labels[i] * margin));
        }
    }
    return sum / (double)model->examples->count;
}

/* Takes the shares and turns their positions back into features: all threads use one array. */
static rbt_status deal_out(struct model *model)
{
    rbt_status st = RBT_OK;
    for (uint32_t t = 0; st == RBT_OK && t < model->threads; t++) {
        struct rbt_share *share = &model->shares[t];
        st = rbt_share_take(model->examples, 1, t, model->threads, share);
        for (size_t k = 0; st == RBT_OK && k < share->offsets[share->count]; k++) {
            share->indices[k] = (uint32_t)share->keys[share->indices[k]];
        }
        if (st == RBT_OK && share->key_count > 0 &&
            share->keys[share->key_count - 1] >= model->features) {
            model->features = share->keys[share->key_count - 1] + 1;
        }
    }
    return st;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: hogwild DATA.svm [THREADS [PASSES]]\n", stderr);
        return 2;
    }
    const char *const path = argv[1];
    const struct rbt_data_options options = {
        .paths = &path, .path_count = 1, .has_binary_label = true};
    struct rbt_examples examples = {0};
    static struct model model; /* large */
    model.threads = rbt_yardstick_argument(argc, argv, 2, 2);
    model.examples = &examples;
    rbt_status st = rbt_examples_read(&options, &examples);
    st = st != RBT_OK ? st : deal_out(&model);
    if (st == RBT_OK) {
        model.weights = rbt_calloc(model.features, sizeof *model.weights);
        st = model.weights != NULL ? RBT_OK : rbt_fail(RBT_E_NOMEM, "could not allocate weights");
    }
    const struct rbt_yardstick yardstick = {.name = "hogwild",
                                            .unit = "examples",
                                            .flags = FLAGS,
                                            .threads = model.threads,
                                            .passes = rbt_yardstick_argument(argc, argv, 3, 10),
                                            .count = examples.count,
                                            .run = pass,
                                            .judge = judge,
                                            .metric = "logloss",
                                            .context = &model};
    st = st != RBT_OK ? st : rbt_yardstick_run(&yardstick);
    if (st != RBT_OK) {
        fprintf(stderr, "hogwild: %s\n", rbt_last_error());
    }
    for (uint32_t t = 0; t < model.threads; t++) {
        rbt_share_free(&model.shares[t]);
    }
    rbt_free(model.weights);
    rbt_examples_free(&examples);
    return st == RBT_OK ? 0 : 1;
}
