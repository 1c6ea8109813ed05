/* algo/linear/linear_stream.c - examples that stay on disk, under a limit on the memory of the
 * process.
 *
 * Of the limit, half may go to buffers while files are read and dealt out, when there is nothing
 * else yet. Later an eighth is for the pieces of the shares that are on their way. When the
 * first worker has all its copies, the memory that the process has is measured, what the others and
 * the end will take is added, and the workers keep as many of their examples in memory as fit into
 * three quarters of the limit. The rest is for what nobody has counted. */
#include "algo/linear/linear_stream.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "algo/frame/penalty.h"
#include "algo/linear/linear_solvers.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "data/depot.h"
#include "data/paged.h"
#include "math/loss.h"

enum {
    PIECE_MIN = 64 * 1024,
    PIECE_MAX = 4 * 1024 * 1024,
    PIECES = 4,       /* of a worker, at most, and some for those that are larger */
    KEY_RESERVE = 64, /* bytes per feature for the end, when the model is collected and measured */
    WORKER_KEY = 100, /* bytes per feature of a worker that may not be ready yet */
};

struct rbt_linear_store {
    rbt_depot *depot;
    uint64_t limit; /* bytes that the process may have */
    pthread_mutex_t mutex;
    uint64_t
        used; /* bytes without examples, as the first worker has counted; guarded by the mutex */
};

struct rbt_linear_source {
    struct rbt_stored stored;
    rbt_paged *paged;
};

bool rbt_linear_is_streamed(const struct rbt_linear_job *linear)
{
    return linear->config.storage == RBT_STORAGE_DISK || linear->config.storage == RBT_STORAGE_BOTH;
}

rbt_status rbt_linear_stream_check(struct rbt_linear_job *linear)
{
    struct rbt_linear_config *config = &linear->config;
    const bool is_limited = config->memory_limit > 0;
    if (config->storage == RBT_STORAGE_AUTO) {
        config->storage = is_limited ? RBT_STORAGE_BOTH : RBT_STORAGE_MEMORY;
    }
    rbt_status st = RBT_OK;
    if (is_limited && config->storage == RBT_STORAGE_MEMORY) {
        st = rbt_fail(RBT_E_INVALID,
                      "options \"--memory-limit\" and \"--storage memory\" exclude each other");
        return rbt_fail_hint(st, "Omit --storage, or use \"memory-and-disk\" or \"disk\".");
    }
    const char *what = linear->options->is_exact                 ? "--exact"
                       : linear->config.is_rebalanced            ? "--rebalance"
                       : linear->config.loss == RBT_LOSS_SOFTMAX ? "--loss softmax"
                                                                 : NULL;
    if (what != NULL && rbt_linear_is_streamed(linear)) {
        st = rbt_fail(RBT_E_INVALID, "\"%s\" needs all examples in memory", what);
        return rbt_fail_hint(st, "Omit --storage and --memory-limit.");
    }
    if (linear->solver != &rbt_linear_sgd && linear->solver != &rbt_linear_newton &&
        rbt_linear_is_streamed(linear)) {
        return rbt_fail(RBT_E_INVALID, "solver \"%s\" needs all examples in memory",
                        linear->solver->name);
    }
    return RBT_OK;
}

/* Bytes of memory that the process has now. */
static uint64_t resident(void)
{
    unsigned long long total = 0;
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) {
        return 0;
    }
    const int fields = fscanf(file, "%llu %llu", &total, &pages);
    (void)fclose(file); /* it was only read */
    return fields == 2 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* The limit, or without one half of the machine's memory. */
static uint64_t limit_of(const struct rbt_linear_config *config)
{
    const uint64_t machine =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    return config->memory_limit > 0 ? (uint64_t)config->memory_limit : machine;
}

static rbt_status too_little(const struct rbt_linear_job *linear, uint64_t bytes)
{
    char need[RBT_TEXT_SHORT];
    char limit[RBT_TEXT_SHORT];
    rbt_text_from_bytes((double)bytes, need);
    rbt_text_from_bytes((double)linear->store->limit, limit);
    const rbt_status st = rbt_fail(
        RBT_E_INVALID,
        "the memory limit of %s is too small: training needs %s besides the examples", limit, need);
    return rbt_fail_hint(st, linear->eval.count > 0
                                 ? "Features and the data of --eval, which stays in memory, take "
                                   "most of it: use --min-count to leave rare features out, "
                                   "evaluate later, or use fewer workers or a larger limit."
                                 : "Features take most of it: use --min-count to leave rare ones "
                                   "out, or fewer workers, or a larger limit.");
}

rbt_status rbt_linear_stream_read(struct rbt_linear_job *linear,
                                  const struct rbt_data_options *data)
{
    struct rbt_linear_store *store = rbt_calloc(1, sizeof *store);
    if (store == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to keep the examples on disk");
    }
    linear->store = store;
    (void)pthread_mutex_init(&store->mutex, NULL); /* cannot fail on Linux */
    store->limit = limit_of(&linear->config);
    const char *named = linear->config.cache;
    const struct rbt_depot_options options = {.data = data,
                                              .directory =
                                                  named != NULL ? named : rbt_scratch_directory(),
                                              .seed = linear->seed,
                                              .memory = (size_t)(store->limit / 2),
                                              .count_min = (uint64_t)linear->config.count_min};
    const rbt_status st = rbt_depot_open(&options, &store->depot);
    rbt_alloc_trim();
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_depot_facts facts = rbt_depot_facts(store->depot);
    linear->examples.count = facts.count;
    linear->examples.label_positive = facts.labels.positive;
    linear->examples.column_count = facts.labels.column_count;
    linear->examples.label_negative = facts.labels.negative;
    return RBT_OK;
}

void rbt_linear_stream_free(struct rbt_linear_job *linear)
{
    if (linear->store != NULL) {
        rbt_depot_close(linear->store->depot);
        (void)pthread_mutex_destroy(&linear->store->mutex);
        rbt_free(linear->store);
        linear->store = NULL;
    }
}

const uint64_t *rbt_linear_stream_keys(const struct rbt_linear_job *linear, size_t *count)
{
    const struct rbt_depot_facts facts = rbt_depot_facts(linear->store->depot);
    *count = facts.key_count;
    return facts.keys;
}

rbt_status rbt_linear_stream_take(struct rbt_linear_job *linear, uint32_t index)
{
    struct rbt_linear_worker *w = &linear->workers[index];
    struct rbt_linear_source *source = rbt_calloc(1, sizeof *source);
    if (source == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a worker's examples");
    }
    rbt_stored_init(&source->stored);
    w->source = source;
    const uint64_t piece = linear->store->limit / 8 / linear->worker_count / PIECES;
    const size_t size = piece < PIECE_MIN ? PIECE_MIN : piece > PIECE_MAX ? PIECE_MAX : piece;
    rbt_status st =
        rbt_depot_deal(linear->store->depot, index, linear->worker_count, &source->stored);
    rbt_alloc_trim();
    st = st != RBT_OK ? st : rbt_paged_open(&source->stored, size, &source->paged);
    if (st != RBT_OK) {
        rbt_linear_stream_drop(w);
        return st;
    }
    w->share = rbt_paged_share(source->paged);
    w->share.keys = source->stored.keys;
    w->share.key_count = source->stored.key_count;
    w->step_max = rbt_paged_steps(source->paged);
    return RBT_OK;
}

double rbt_linear_stream_spare(const struct rbt_linear_job *linear)
{
    return (double)linear->store->limit / 2;
}

/* Twice through all examples. */
struct look {
    struct rbt_standard_finder finder;
    struct rbt_sample *sample;
    uint64_t *hashes; /* (count), or NULL: no sample is wanted */
    size_t hashed;
    struct rbt_linear_job *linear;
};

static rbt_status take_first(void *context, const struct rbt_examples *part)
{
    struct look *look = context;
    for (size_t i = 0; look->hashes != NULL && i < part->count; i++) {
        look->hashes[look->hashed++] = rbt_sample_hash(part, i, look->sample->seed);
    }
    rbt_linear_auto_count(look->linear, part);
    return rbt_standard_list(&look->finder, part);
}

static rbt_status take_second(void *context, const struct rbt_examples *part)
{
    struct look *look = context;
    rbt_standard_look(&look->finder, part);
    return look->hashes != NULL ? rbt_sample_pick(look->sample, part) : RBT_OK;
}

/* Between the two. A sample is there once as it comes, once sorted, and as a share. */
static rbt_status settle_look(const struct rbt_linear_job *linear, struct look *look)
{
    enum { NONZERO = 4 * 12, EXAMPLE = 4 * 24, LEAST = 1000 };
    const double n = (double)linear->examples.count;
    const double row = EXAMPLE + NONZERO * linear->nonzeros / fmax(n, 1.0);
    const size_t fits = (size_t)(rbt_linear_stream_spare(linear) / row);
    const size_t wanted =
        rbt_penalty_examples(linear->examples.count, (uint64_t)linear->nonzeros, linear->width);
    const rbt_status st = rbt_standard_listed(&look->finder);
    if (st != RBT_OK || look->hashes == NULL || fits < LEAST) {
        rbt_free(look->hashes);
        look->hashes = NULL;
        return st;
    }
    return rbt_sample_draw(look->sample, look->hashes, linear->examples.count,
                           wanted < fits ? wanted : fits);
}

rbt_status rbt_linear_stream_look(struct rbt_linear_job *linear,
                                  const struct rbt_standard_options *options, bool wants_sample)
{
    const size_t count = linear->examples.count;
    rbt_depot *depot = linear->store->depot;
    struct look look = {.finder = {.options = *options, .count = count},
                        .sample = &linear->sample,
                        .linear = linear,
                        .hashes = wants_sample ? rbt_calloc(count, sizeof *look.hashes) : NULL};
    struct rbt_receiver receiver = {.context = &look, .take = take_first};
    rbt_status st = RBT_OK;
    if (wants_sample && look.hashes == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory for a sample of the examples");
    }
    st = st != RBT_OK ? st : rbt_depot_walk(depot, &receiver);
    st = st != RBT_OK ? st : settle_look(linear, &look);
    receiver.take = take_second;
    st = st != RBT_OK ? st : rbt_depot_walk(depot, &receiver);
    st = st != RBT_OK ? st : rbt_standard_make(&look.finder, &linear->standard);
    rbt_standard_finder_free(&look.finder);
    rbt_free(look.hashes);
    rbt_alloc_trim();
    const struct rbt_standard *standard = &linear->standard;
    const struct rbt_depot_change change = {.keys = standard->keys,
                                            .means = standard->means,
                                            .scales = standard->scales,
                                            .count = standard->count};
    return st != RBT_OK ? st : rbt_depot_change(depot, &change);
}

void rbt_linear_stream_drop(struct rbt_linear_worker *w)
{
    if (w->source == NULL) {
        return;
    }
    rbt_paged_close(w->source->paged);
    rbt_stored_free(&w->source->stored);
    rbt_free(w->source);
    w->source = NULL;
    w->step_max = NULL;
    w->share = (struct rbt_share){0};
}

/* A batch is in memory as a whole: whether that fits. */
static rbt_status check_batch(const struct rbt_linear_job *linear,
                              const struct rbt_linear_worker *w, uint64_t used)
{
    enum { NONZERO = 8, EXAMPLE = 16 }; /* bytes */
    const struct rbt_share *share = &w->share;
    const double examples = (double)share->count;
    const double nonzeros = (double)share->offsets[share->count];
    const double one = EXAMPLE + (examples > 0 ? NONZERO * nonzeros / examples : 0.0);
    const double held = fmin((double)w->sweep, examples) * one * (double)linear->worker_count;
    const double most = (double)linear->store->limit;
    if (linear->config.batch == 1 || held + (double)used <= most) {
        return RBT_OK;
    }
    char need[RBT_TEXT_SHORT];
    char limit[RBT_TEXT_SHORT];
    rbt_text_from_bytes(held, need);
    rbt_text_from_bytes(most, limit);
    const rbt_status st =
        rbt_fail(RBT_E_INVALID,
                 "the memory limit of %s is too small: the workers' batches of %lld "
                 "examples take %s",
                 limit, (long long)linear->config.batch, need);
    return rbt_fail_hint(st, "Use a smaller --batch, or a larger limit.");
}

rbt_status rbt_linear_stream_keep(struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    struct rbt_linear_store *store = linear->store;
    if (w->source == NULL || store == NULL) {
        return RBT_OK;
    }
    (void)pthread_mutex_lock(&store->mutex);
    if (store->used == 0) { /* the first one counts for all; for the others it guesses */
        size_t keys = 0;
        (void)rbt_linear_stream_keys(linear, &keys);
        rbt_alloc_trim();
        const uint64_t others = linear->worker_count - UINT64_C(1);
        store->used = resident() + keys * (KEY_RESERVE + WORKER_KEY * others);
    }
    const uint64_t used = store->used;
    (void)pthread_mutex_unlock(&store->mutex);
    if (linear->config.memory_limit > 0 && used > store->limit) {
        return too_little(linear, used);
    }
    if (linear->config.memory_limit > 0) {
        const rbt_status st = check_batch(linear, w, used);
        if (st != RBT_OK) {
            return st;
        }
    }
    const uint64_t most = store->limit / 4 * 3;
    if (linear->config.storage == RBT_STORAGE_BOTH && used < most) {
        rbt_paged_keep(w->source->paged, (most - used) / linear->worker_count);
    }
    return RBT_OK;
}

void rbt_linear_visit(const struct rbt_linear_worker *w, size_t first, size_t end)
{
    if (w->source != NULL) {
        rbt_paged_visit(w->source->paged, first, end);
    }
}
