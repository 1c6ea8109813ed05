/* algo/linear/linear_lazy.c - penalties of features that a clock's examples do not have can wait.
 */
#include "algo/linear/linear_lazy.h"

#include <string.h>

#include "algo/frame/room.h"
#include "algo/linear/linear_stream.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/choose.h"

enum { LIST_EXAMPLES = 256 }; /* whose features are listed before the place is told again */

/* To take used weights from their places and put them back costs as much as this many weights that
 * lie side by side. */
enum { APART_COST = 4 };

struct rbt_linear_lazy {
    struct rbt_room room; /* of all arrays but the lists */
    double due;           /* sum of the sizes of all steps before this clock */
    double amount;        /* of those of this clock */
    double *settled;      /* what `due` was when a feature's penalty was seen to: (key_count) */
    uint32_t *marks;      /* the list that a feature was last put on: (key_count) */
    uint32_t mark;
    uint32_t *lists;  /* features of the clocks of an epoch, one after the other; NULL: on disk */
    size_t *firsts;   /* where each begins: (clocks + 1) */
    uint32_t *buffer; /* (key_count + 1) */
    const uint32_t *used;
    size_t used_count;
    bool is_side_by_side; /* all features are gone through, and those not used have no penalty */
    float *scales;        /* of the features used, or of all: (key_count) */
    float *pulls;
    float *decays;
    float *values;
};

/* Puts features of the examples on a list that are not there yet; without a branch, which would be
 * a guess. The list has room for one more than there are. */
static size_t list_used(const struct rbt_linear_worker *w, size_t first, size_t end, uint32_t *list)
{
    struct rbt_linear_lazy *lazy = w->lazy;
    const struct rbt_share *share = &w->share;
    size_t count = 0;
    lazy->mark++;
    for (size_t from = first; from < end; from += LIST_EXAMPLES) {
        const size_t to = end - from < LIST_EXAMPLES ? end : from + LIST_EXAMPLES;
        rbt_linear_visit(w, from, to);
        for (uint64_t k = share->offsets[from]; k < share->offsets[to]; k++) {
            const uint32_t j = share->indices[k];
            list[count] = j;
            count += lazy->marks[j] != lazy->mark;
            lazy->marks[j] = lazy->mark;
        }
    }
    return count;
}

/* The lists of all clocks of an epoch. */
static rbt_status list_all(const struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    struct rbt_linear_lazy *lazy = w->lazy;
    const size_t clocks = (size_t)linear->clocks_per_epoch;
    const size_t n = w->share.count;
    lazy->firsts = rbt_calloc(clocks + 1, sizeof *lazy->firsts);
    for (size_t c = 0; lazy->firsts != NULL && c < clocks; c++) {
        lazy->firsts[c + 1] =
            lazy->firsts[c] + list_used(w, n * c / clocks, n * (c + 1) / clocks, lazy->buffer);
    }
    lazy->lists =
        lazy->firsts == NULL ? NULL : rbt_calloc(lazy->firsts[clocks] + 1, sizeof *lazy->lists);
    for (size_t c = 0; lazy->lists != NULL && c < clocks; c++) {
        list_used(w, n * c / clocks, n * (c + 1) / clocks, lazy->lists + lazy->firsts[c]);
    }
    return lazy->lists == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for the features of each clock")
                               : RBT_OK;
}

rbt_status rbt_linear_lazy_open(const struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    const size_t count = w->share.key_count;
    struct rbt_linear_lazy *lazy = rbt_calloc(1, sizeof *lazy);
    w->lazy = lazy;
    if (lazy != NULL) {
        lazy->settled = rbt_room_take(&lazy->room, count, sizeof *lazy->settled);
        lazy->marks = rbt_room_take(&lazy->room, count, sizeof *lazy->marks);
        lazy->buffer = rbt_room_take(&lazy->room, count + 1, sizeof *lazy->buffer);
        lazy->scales = rbt_room_take(&lazy->room, count, sizeof *lazy->scales);
        lazy->pulls = rbt_room_take(&lazy->room, count, sizeof *lazy->pulls);
        lazy->decays = rbt_room_take(&lazy->room, count, sizeof *lazy->decays);
        lazy->values = rbt_room_take(&lazy->room, count, sizeof *lazy->values);
    }
    if (lazy == NULL || lazy->room.is_short) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the features of each clock");
    }
    return w->source == NULL ? list_all(linear, w) : RBT_OK;
}

void rbt_linear_lazy_close(struct rbt_linear_worker *w)
{
    struct rbt_linear_lazy *lazy = w->lazy;
    if (lazy == NULL) {
        return;
    }
    rbt_free(lazy->lists);
    rbt_free(lazy->firsts);
    rbt_room_free(&lazy->room);
    rbt_free(lazy);
    w->lazy = NULL;
}

void rbt_linear_lazy_begin(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                           int64_t index, size_t first, size_t end)
{
    struct rbt_linear_lazy *lazy = w->lazy;
    const size_t all = w->share.key_count;
    lazy->amount = 0.0;
    if (lazy->lists != NULL) {
        lazy->used = lazy->lists + lazy->firsts[index];
        lazy->used_count = lazy->firsts[index + 1] - lazy->firsts[index];
    } else {
        lazy->used_count = list_used(w, first, end, lazy->buffer);
        lazy->used = lazy->buffer;
    }
    lazy->is_side_by_side = linear->width == 1 && lazy->used_count * APART_COST >= all;
    if (lazy->is_side_by_side) {
        memset(lazy->pulls, 0, all * sizeof *lazy->pulls);
        memset(lazy->decays, 0, all * sizeof *lazy->decays);
    }
    for (size_t i = 0; linear->width == 1 && i < lazy->used_count; i++) {
        const uint32_t j = lazy->used[i];
        const size_t at = lazy->is_side_by_side ? j : i;
        lazy->scales[at] = w->scales[j];
        lazy->pulls[at] = w->pulls[j];
        lazy->decays[at] = w->decays[j];
    }
}

size_t rbt_linear_lazy_sweep(const struct rbt_linear_worker *w)
{
    const struct rbt_linear_lazy *lazy = w->lazy;
    const size_t all = w->share.key_count;
    if (lazy->is_side_by_side || all == 0) {
        return w->sweep;
    }
    /* As many steps for their cost as without laziness. */
    const double part = (double)(lazy->used_count * APART_COST) / (double)all;
    return (size_t)((double)w->sweep * part) + 1;
}

void rbt_linear_lazy_shrink(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                            double amount)
{
    struct rbt_linear_lazy *lazy = w->lazy;
    float *u = w->weights.values;
    lazy->amount += amount;
    if (linear->width > 1) {
        for (size_t i = 0; i < lazy->used_count; i++) {
            rbt_linear_shrink_one(&linear->config, w, lazy->used[i], amount);
        }
        return;
    }
    const struct rbt_shrink shrink = {.scales = lazy->is_side_by_side ? w->scales : lazy->scales,
                                      .pulls = lazy->pulls,
                                      .decays = lazy->decays,
                                      .l1 = (float)(amount * linear->config.l1),
                                      .l2 = (float)(amount * linear->config.l2),
                                      .theta = rbt_linear_theta(&linear->config)};
    if (lazy->is_side_by_side) {
        rbt_choose_kernels()->shrink(&shrink, u, w->weights.count);
        return;
    }
    for (size_t i = 0; i < lazy->used_count; i++) {
        lazy->values[i] = u[lazy->used[i]];
    }
    rbt_choose_kernels()->shrink(&shrink, lazy->values, lazy->used_count);
    for (size_t i = 0; i < lazy->used_count; i++) {
        u[lazy->used[i]] = lazy->values[i];
    }
}

void rbt_linear_lazy_settle(const struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    struct rbt_linear_lazy *lazy = w->lazy;
    for (size_t i = 0; i < lazy->used_count; i++) {
        const uint32_t j = lazy->used[i];
        if (lazy->due > lazy->settled[j]) {
            rbt_linear_shrink_one(&linear->config, w, j, lazy->due - lazy->settled[j]);
        }
        lazy->settled[j] = lazy->due + lazy->amount;
    }
    lazy->due += lazy->amount;
}
