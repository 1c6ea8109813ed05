/* bench/filter.c - what filters cost and save: GB/s of values that go in, for each step, and how
 * many times fewer bytes go out.
 *
 *     build/bench/filter [ELEMENTS] [ONE_IN] [TEXT...]     one element in ONE_IN is not zero
 *
 * Values are normal numbers, or zero. Each step is timed on its own, the best of several rounds, by
 * the processor's time. The rows of a pull differ from what the receiver has in one element in ten.
 * Prints one JSON object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "policy/filter/chain.h"

enum { ROUNDS = 15, TEXTS_MAX = 64 };

static const char *const standard[] = {"zeros",
                                       "tiny:0.5",
                                       "significant:0.5",
                                       "pull.significant:0.5",
                                       "changed",
                                       "skip:0.5",
                                       "skip:0.05",
                                       "sample:1000",
                                       "kkt:0.5",
                                       "f16",
                                       "bf16",
                                       "fixed:4",
                                       "fixed:8",
                                       "fixed:12",
                                       "fixed:16",
                                       "fixed:24",
                                       "lz4",
                                       "zstd",
                                       "fixed:8,lz4",
                                       "zeros,fixed:8,lz4",
                                       "zeros,fixed:8,zstd"};
enum { STANDARD = sizeof standard / sizeof standard[0] };

struct arrays {
    size_t count;
    float *original;
    float *known;
    float *values;
    float *got;
    bool *keep;
    bool *there;
    char *bytes;
    char *scratch;
};

struct figures {
    double apply; /* seconds */
    double put;
    double get;
    size_t bytes;
};

static void must(rbt_status st)
{
    if (st != RBT_OK) {
        fprintf(stderr, "filter: %s\n", rbt_last_error());
        exit(1);
    }
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* cannot fail */
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double better(double best, double now)
{
    return best == 0 || now < best ? now : best;
}

static struct figures measure(const char *text, const struct arrays *a)
{
    const bool is_pull = strncmp(text, "pull.", 5) == 0 || strncmp(text, "changed", 7) == 0;
    const struct rbt_chain_options options = {.text = text,
                                              .direction =
                                                  is_pull ? RBT_FILTER_PULL : RBT_FILTER_PUSH,
                                              .table = "t",
                                              .width = 1,
                                              .type = RBT_F32,
                                              .worker_count = 1};
    struct figures best = {0};
    rbt_chain *chain = NULL;
    must(rbt_chain_create(&options, &chain));
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        memcpy(a->values, a->original, a->count * sizeof *a->values);
        memset(a->got, 0, a->count * sizeof *a->got);
        const struct rbt_filter_rows rows = {.row_count = a->count,
                                             .width = 1,
                                             .values = a->values,
                                             .keep = a->keep,
                                             .known = a->known,
                                             .turn = 1,
                                             .seed = round};
        struct rbt_chain_elements out = {.count = a->count, .values = a->values, .keep = a->keep};
        const struct rbt_chain_elements in = {
            .count = a->count, .values = a->got, .keep = a->there};
        const double start = seconds();
        must(rbt_chain_apply(chain, &rows, &out.code));
        const double applied = seconds();
        best.bytes = rbt_chain_put(chain, &out, a->bytes, a->scratch);
        const double written = seconds();
        must(rbt_chain_get(chain, a->bytes, best.bytes, &in, a->scratch));
        const double read = seconds();
        best.apply = better(best.apply, applied - start);
        best.put = better(best.put, written - applied);
        best.get = better(best.get, read - written);
    }
    rbt_chain_destroy(chain);
    return best;
}

int main(int argc, char **argv)
{
    const size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 250000;
    const uint64_t one_in = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    if (count == 0 || one_in == 0) {
        fprintf(stderr, "filter: wrong arguments; see the head of bench/filter.c\n");
        return 2;
    }
    const size_t room = 2 * (count * 5 + 1024);
    struct arrays a = {.count = count,
                       .original = rbt_calloc(count, sizeof(float)),
                       .known = rbt_calloc(count, sizeof(float)),
                       .values = rbt_calloc(count, sizeof(float)),
                       .got = rbt_calloc(count, sizeof(float)),
                       .keep = rbt_calloc(count, sizeof(bool)),
                       .there = rbt_calloc(count, sizeof(bool)),
                       .bytes = rbt_calloc(room, 1),
                       .scratch = rbt_calloc(room, 1)};
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    for (size_t i = 0; i < count; i++) {
        a.original[i] = rbt_rng_below(&rng, one_in) == 0 ? (float)rbt_rng_normal(&rng) : 0;
        a.known[i] = rbt_rng_below(&rng, 10) == 0 ? 0 : a.original[i];
    }
    const char *const *texts = argc > 3 ? (const char *const *)argv + 3 : standard;
    const int text_count = argc > 3 ? argc - 3 : STANDARD;
    const double gigabytes = (double)(count * sizeof(float)) * 1e-9;
    printf("{\"elements\": %zu, \"one_in\": %llu", count, (unsigned long long)one_in);
    for (int i = 0; i < text_count; i++) {
        const struct figures f = measure(texts[i], &a);
        printf(",\n \"%s\": {\"apply_gbs\": %.2f, \"put_gbs\": %.2f, \"get_gbs\": %.2f, "
               "\"ratio\": %.2f}",
               texts[i], gigabytes / f.apply, gigabytes / f.put, gigabytes / f.get,
               (double)(count * sizeof(float)) / (double)f.bytes);
    }
    puts("}");
    return 0;
}
