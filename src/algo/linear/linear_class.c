/* algo/linear/linear_class.c - the classes of softmax; and a word about data that has only one.
 *
 * Any distinct numbers may be labels. In increasing order they are classes 0, 1, ..., C-1, and
 * examples get the class in place of the label. All processes of a job read all labels, so they
 * agree; the model keeps the list. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/linear/linear_job.h"
#include "algo/linear/linear_model.h"
#include "base/alloc.h"
#include "base/error.h"

enum { CLASSES_MAX = 4096 };

/* Where the label is in the list that increases, or would be. */
static size_t place_of(const float *classes, size_t count, float label)
{
    size_t first = 0;
    while (first < count) {
        const size_t middle = first + (count - first) / 2;
        if (classes[middle] < label) {
            first = middle + 1;
        } else {
            count = middle;
        }
    }
    return first;
}

static rbt_status too_many(void)
{
    const rbt_status st =
        rbt_fail(RBT_E_DATA, "the data has more than %d different labels", CLASSES_MAX);
    return rbt_fail_hint(st, "If labels are quantities, not classes, use --loss squared.");
}

rbt_status rbt_linear_class_take(struct rbt_linear_job *linear)
{
    const struct rbt_examples *examples = &linear->examples;
    size_t count = 0;
    linear->classes = rbt_calloc(CLASSES_MAX, sizeof *linear->classes);
    if (linear->classes == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a list of classes");
    }
    float *classes = linear->classes;
    for (size_t i = 0; i < examples->count; i++) {
        const float label = examples->labels[i];
        const size_t place = place_of(classes, count, label);
        if (place < count && classes[place] == label) {
            continue;
        }
        if (count == CLASSES_MAX) {
            return too_many();
        }
        memmove(classes + place + 1, classes + place, (count - place) * sizeof *classes);
        classes[place] = label;
        count++;
    }
    if (count < 2) {
        return rbt_fail(RBT_E_DATA, "the loss \"softmax\" needs two different labels or more");
    }
    linear->width = count;
    return rbt_scores_place(classes, count, &linear->examples);
}

void rbt_linear_class_note(void *context, rbt_worker *worker, char *text, size_t size)
{
    struct rbt_linear_job *linear = context;
    const struct rbt_examples *examples = &linear->examples;
    const bool is_binary =
        linear->config.loss == RBT_LOSS_LOGISTIC || linear->config.loss == RBT_LOSS_HINGE;
    (void)worker;
    if (linear->is_noted || !is_binary || examples->labels == NULL || examples->count == 0) {
        return;
    }
    linear->is_noted = true;
    size_t same = 1;
    while (same < examples->count && examples->labels[same] == examples->labels[0]) {
        same++;
    }
    if (same == examples->count) {
        const float label = examples->labels[0] > 0.0F ? (float)examples->label_positive
                                                       : (float)examples->label_negative;
        snprintf(text, size, "All examples have the label %g: training needs two different labels.",
                 (double)label);
    }
}
