/* bench/store.c - what a server with many keys of width 1 costs: memory per key while it grows, and
 * how fast rows are found, read and updated. One shard's store, without clients or messages.
 *
 *     build/bench/store [KEYS] [ROWS_EXPECTED]
 *
 * Fills a table of f32 by pushes of random 64-bit keys, one batch after the other, and prints one
 * JSON object. Memory is what the process has in RAM, less what it had before; `peak` is the most
 * that it had at any time. Rates are of processor time, best of several, in million keys per s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "store/rows.h"

enum { BATCH = 100000, ROUNDS = 7, LISTS = 32 };

struct lists {
    uint64_t *keys; /* LISTS * BATCH, each list sorted */
    float *values;
    uint32_t *slots;
};

static void must(rbt_status st)
{
    if (st != RBT_OK) {
        fprintf(stderr, "store: failed with status %d\n", (int)st);
        exit(1);
    }
}

static double processor_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now); /* cannot fail */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Bytes of this process in RAM. */
static double resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) {
        exit(1);
    }
    (void)fclose(file); /* only read */
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double peak(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail */
    return (double)usage.ru_maxrss * 1024;
}

static uint64_t key_of(uint64_t number)
{
    return rbt_hash_key(number * 2 + 12345); /* different for different numbers */
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void push(rbt_row_store *rows, struct rbt_batch *batch)
{
    must(rbt_rows_reserve(rows, rbt_rows_find(rows, batch)));
    rbt_rows_merge(rows, batch);
}

static double fill(rbt_row_store *rows, struct lists *lists, uint64_t count)
{
    const double begin = processor_seconds();
    for (uint64_t first = 0; first < count; first += BATCH) {
        struct rbt_batch batch = {.count = count - first < BATCH ? count - first : BATCH,
                                  .keys = lists->keys,
                                  .values = lists->values};
        for (size_t i = 0; i < batch.count; i++) {
            lists->keys[i] = key_of(first + i);
        }
        push(rows, &batch);
    }
    return (double)count / (processor_seconds() - begin) / 1e6;
}

enum kind { READ_NEW, PUSH_NEW, READ_ABSENT, READ_AGAIN, PUSH_AGAIN, KINDS };

static double rate(rbt_row_store *rows, struct lists *lists, enum kind kind, uint64_t count)
{
    double best = 0;
    uint64_t complete[LISTS] = {0};
    const bool has_slots = kind == READ_AGAIN || kind == PUSH_AGAIN;
    for (size_t i = 0; i < (size_t)LISTS * BATCH; i++) {
        const uint64_t number = rbt_hash_key(i + 1) % count;
        lists->keys[i] = key_of(kind == READ_ABSENT ? number + count : number);
        lists->slots[i] = RBT_SLOT_NONE;
    }
    for (size_t i = 0; i < LISTS; i++) {
        qsort(lists->keys + i * BATCH, BATCH, sizeof *lists->keys, compare_keys);
    }
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = processor_seconds();
        for (size_t i = 0; i < LISTS; i++) {
            struct rbt_batch batch = {.count = BATCH,
                                      .keys = lists->keys + i * BATCH,
                                      .values = lists->values,
                                      .slots = has_slots ? lists->slots + i * BATCH : NULL,
                                      .slots_complete = has_slots ? &complete[i] : NULL};
            if (kind == PUSH_NEW || kind == PUSH_AGAIN) {
                push(rows, &batch);
            } else {
                rbt_rows_read(rows, &batch);
            }
        }
        const double now = (double)LISTS * BATCH / (processor_seconds() - begin) / 1e6;
        best = now > best ? now : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    const uint64_t expected = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    const struct rbt_spec spec = {.type = RBT_F32, .width = 1, .rows_expected = expected};
    struct lists lists = {.keys = rbt_calloc((size_t)LISTS * BATCH, sizeof(uint64_t)),
                          .values = rbt_calloc(BATCH, sizeof(float)),
                          .slots = rbt_calloc((size_t)LISTS * BATCH, sizeof(uint32_t))};
    rbt_row_store *rows = NULL;
    if (lists.keys == NULL || lists.values == NULL || lists.slots == NULL || count == 0) {
        return 1;
    }
    memset(lists.keys, 1, (size_t)LISTS * BATCH * sizeof(uint64_t)); /* in RAM before we measure */
    memset(lists.slots, 1, (size_t)LISTS * BATCH * sizeof(uint32_t));
    for (size_t i = 0; i < BATCH; i++) {
        lists.values[i] = 1;
    }
    const double before = resident();
    must(rbt_rows_create(&spec, 0, &rows));
    const double filled = fill(rows, &lists, count);
    printf("{\"keys\": %llu, \"rows_expected\": %llu, \"bytes_per_key\": %.2f, "
           "\"peak_bytes_per_key\": %.2f, \"fill_mkeys_s\": %.2f",
           (unsigned long long)count, (unsigned long long)expected,
           (resident() - before) / (double)count, (peak() - before) / (double)count, filled);
    static const char *const names[KINDS] = {"read_new", "push_new", "read_absent", "read_again",
                                             "push_again"};
    for (int kind = 0; kind < KINDS; kind++) {
        printf(", \"%s_mkeys_s\": %.2f", names[kind], rate(rows, &lists, (enum kind)kind, count));
    }
    puts("}");
    rbt_rows_destroy(rows);
    return 0;
}
