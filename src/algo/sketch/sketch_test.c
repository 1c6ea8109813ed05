/* algo/sketch/sketch_test.c - sketches against exact counts and the formula. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/sketch/sketch.h"
#include "algo/sketch/sketch_model.h"
#include "base/alloc.h"
#include "base/rng.h"

enum { KEYS = 2000, INSERTS = 30000, WIDTH = 300, DEPTH = 4 };

struct fixture {
    char path[64];
    char model_path[80];
    uint64_t truth[KEYS]; /* of key "page-i" */
    uint64_t total;
    struct rbt_train_options options;
    struct rbt_sketch_config config;
    struct rbt_observer observer;
    struct rbt_train_summary summary;
    struct rbt_model model;
};

/* A skewed stream; every tenth insert has a count. */
static void write_stream(struct fixture *f)
{
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 5, 0, 0);
    for (size_t i = 0; i < INSERTS; i++) {
        const size_t key = rbt_rng_below(&rng, 1 + rbt_rng_below(&rng, KEYS));
        const uint64_t count = i % 10 == 0 ? rbt_rng_below(&rng, 50) : 1;
        fprintf(file, i % 10 == 0 ? "page-%zu %llu\n" : "page-%zu\n", key,
                (unsigned long long)count);
        f->truth[key] += count;
        f->total += count;
    }
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-sketch-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_true(snprintf(f->model_path, sizeof f->model_path, "%s.rbt", f->path) > 0);
    f->options = (struct rbt_train_options){.workers = 2,
                                            .servers = 1,
                                            .consistency = "essp:2",
                                            .seed = 1,
                                            .model = f->model_path,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_sketch_config){.depth = DEPTH, .width = WIDTH};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_model_free(&f->model);
    (void)unlink(f->model_path); /* a test that failed may have removed it */
    (void)unlink(f->path);
    free(f);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

static void train(struct fixture *f)
{
    rbt_model_free(&f->model);
    assert_ok(rbt_sketch.train(&f->options, &f->config, &f->observer, &f->summary));
    assert_ok(rbt_model_read(f->model_path, &f->model));
}

/* The formula of sketch_model.h, cell by cell. */
static void cells_are_those_of_the_formula(void **state)
{
    struct fixture *f = *state;
    static int64_t expected[DEPTH][WIDTH];
    struct rbt_sketch_stream stream = {0};
    struct rbt_sketch_shape shape;
    int64_t *cells = NULL;
    write_stream(f);
    train(f);
    assert_ok(rbt_sketch_stream_read(&f->options.data, &stream));
    assert_ok(rbt_sketch_model_open(&f->model, &shape, &cells));
    assert_int_equal(stream.count, INSERTS);
    assert_true(stream.total == f->total);
    for (size_t i = 0; i < stream.count; i++) {
        for (size_t r = 0; r < DEPTH; r++) {
            const uint32_t upper = (uint32_t)((stream.hashes[i] * shape.multipliers[r]) >> 32);
            const size_t column = (size_t)((double)upper / 0x1p32 * WIDTH);
            expected[r][column] += (int64_t)stream.counts[i];
        }
    }
    assert_memory_equal(cells, expected, sizeof expected);
    for (size_t i = 0; i < stream.count; i++) {
        int64_t least = INT64_MAX;
        for (size_t r = 0; r < DEPTH; r++) {
            const uint32_t upper = (uint32_t)((stream.hashes[i] * shape.multipliers[r]) >> 32);
            const int64_t cell = expected[r][(size_t)((double)upper / 0x1p32 * WIDTH)];
            least = cell < least ? cell : least;
        }
        assert_true(rbt_sketch_model_estimate(&shape, cells, stream.hashes[i]) == (uint64_t)least);
    }
    rbt_free(cells);
    rbt_sketch_stream_free(&stream);
}

static void estimates_are_never_below_and_seldom_far_above(void **state)
{
    struct fixture *f = *state;
    write_stream(f);
    train(f);
    const double bound = exp(1) * (double)f->total / WIDTH;
    assert_float_equal((float)(f->summary.objective / bound), 1.0F, 1e-6F);
    FILE *keys = fopen(f->path, "w");
    assert_non_null(keys);
    for (size_t i = 0; i < KEYS; i++) {
        fprintf(keys, "page-%zu %llu\n", i, (unsigned long long)f->truth[i]);
    }
    assert_int_equal(fclose(keys), 0);
    struct rbt_predict_options options = {.data = f->options.data, .out = tmpfile()};
    assert_non_null(options.out);
    assert_ok(rbt_sketch.predict(&f->model, &options));
    rewind(options.out);
    size_t beyond = 0;
    for (size_t i = 0; i < KEYS; i++) {
        unsigned long long estimate = 0;
        assert_int_equal(fscanf(options.out, "%llu", &estimate), 1);
        assert_true(estimate >= f->truth[i]);
        beyond += (double)(estimate - f->truth[i]) > bound ? 1 : 0;
    }
    assert_int_equal(fclose(options.out), 0);
    assert_true((double)beyond <= KEYS * exp(-DEPTH)); /* the mean; here it is far below */
    struct rbt_metrics metrics;
    assert_ok(rbt_sketch.evaluate(&f->model, &options, &metrics));
    assert_string_equal(metrics.names[0], "keys");
    assert_true(metrics.values[0] == KEYS);
    assert_string_equal(metrics.names[5], "below");
    assert_true(metrics.values[5] == 0);
    assert_string_equal(metrics.names[4], "within");
    assert_true(metrics.values[4] == 1 - (double)beyond / KEYS);
}

static void any_number_of_workers_and_clocks_gives_the_same_bits(void **state)
{
    struct fixture *f = *state;
    write_stream(f);
    f->options.workers = 1;
    train(f);
    const uint64_t digest = f->summary.digest;
    for (int workers = 2; workers < 6; workers++) {
        f->options.workers = workers;
        f->options.servers = workers - 1;
        f->options.clocks_per_epoch = workers;
        train(f);
        assert_true(f->summary.digest == digest);
        assert_true(f->summary.examples == INSERTS);
    }
}

/* A float has 24 bits; counts are exact all the same. */
static void large_counts_are_exact(void **state)
{
    struct fixture *f = *state;
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    fprintf(file, "a 16777217\nb 35184372088833\nc 1");
    assert_int_equal(fclose(file), 0);
    f->config.width = 1 << 16;
    train(f);
    struct rbt_predict_options options = {.data = f->options.data, .out = tmpfile()};
    assert_non_null(options.out);
    assert_ok(rbt_sketch.predict(&f->model, &options));
    rewind(options.out);
    char text[80] = "";
    assert_int_equal(fread(text, 1, sizeof text - 1, options.out), 26);
    assert_string_equal(text, "16777217\n35184372088833\n1\n");
    assert_int_equal(fclose(options.out), 0);
}

static struct rbt_sketch_stream parse(const char *bytes, uint32_t threads)
{
    const struct rbt_text text = {"keys", bytes, strlen(bytes), 1};
    struct rbt_sketch_stream stream = {0};
    assert_ok(rbt_sketch_stream_parse(&text, threads, &stream));
    return stream;
}

static void lines_are_keys_with_or_without_counts(void **state)
{
    (void)state;
    struct rbt_sketch_stream stream = parse("a\n#b\t7\r\n\n  \na  3 \r\nb\r\n#b", 1);
    assert_int_equal(stream.count, 5);
    const uint64_t counts[] = {1, 7, 3, 1, 1};
    assert_memory_equal(stream.counts, counts, sizeof counts);
    assert_true(stream.total == 13);
    assert_true(stream.hashes[0] == stream.hashes[2]);
    assert_true(stream.hashes[1] == stream.hashes[4]);
    assert_true(stream.hashes[0] != stream.hashes[1]);
    assert_true(stream.hashes[3] != stream.hashes[1]); /* b is not #b */
    rbt_sketch_stream_free(&stream);
    stream = parse("1\n2\n", 1);
    assert_null(stream.counts);
    assert_int_equal(stream.count, 2);
    rbt_sketch_stream_free(&stream);
}

static void wrong_lines_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        const char *message;
    } cases[] = {
        {"a\nb two\n", "cannot read \"keys\", line 2: the count \"two\" is not a whole number"},
        {"a -1\n", "line 1: the count \"-1\" is not a whole number"},
        {"New York 3\n", "line 1: the count \"York\" is not a whole number"},
        {"a 3 4\n", "line 1: something follows the count \"3\""},
        {"a\x01"
         "b\n",
         "line 1: it is not text"},
        {"a\rb\n", "line 1: it is not text"},
        {"a\nb 3x\n", "line 2: the count \"3x\" is not a whole number"},
        {"a 281474976710656\n", "line 1: the counts add up to 2^48 or more"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct rbt_text text = {"keys", cases[i].bytes, strlen(cases[i].bytes), 1};
        struct rbt_sketch_stream stream = {0};
        assert_fails(rbt_sketch_stream_parse(&text, 1, &stream), RBT_E_DATA, cases[i].message);
        rbt_sketch_stream_free(&stream);
    }
}

static void threads_do_not_change_the_stream(void **state)
{
    struct fixture *f = *state;
    static char bytes[1 << 20];
    size_t size = 0;
    write_stream(f);
    FILE *file = fopen(f->path, "r");
    assert_non_null(file);
    size = fread(bytes, 1, sizeof bytes - 1, file);
    assert_int_equal(fclose(file), 0);
    bytes[size] = '\0';
    struct rbt_sketch_stream one = parse(bytes, 1);
    struct rbt_sketch_stream many = parse(bytes, 5);
    assert_int_equal(one.count, many.count);
    assert_memory_equal(one.hashes, many.hashes, one.count * sizeof *one.hashes);
    assert_memory_equal(one.counts, many.counts, one.count * sizeof *one.counts);
    rbt_sketch_stream_free(&one);
    rbt_sketch_stream_free(&many);
}

static void parsing_survives_every_failed_allocation(void **state)
{
    (void)state;
    const char *bytes = "a\nb 7\nc\n";
    const struct rbt_text text = {"keys", bytes, strlen(bytes), 1};
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        struct rbt_sketch_stream stream = {0};
        rbt_alloc_fail_nth(nth);
        st = rbt_sketch_stream_parse(&text, 1, &stream);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        rbt_sketch_stream_free(&stream);
        assert_int_equal(rbt_alloc_live(), 0);
        assert_true(nth < 100);
    }
}

static void cells_are_exported(void **state)
{
    struct fixture *f = *state;
    write_stream(f);
    train(f);
    char line[80];
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_ok(rbt_sketch.exports[0].write(&f->model, out));
    rewind(out);
    assert_non_null(fgets(line, sizeof line, out));
    assert_string_equal(line, "row,column,count\n");
    uint64_t sums[DEPTH] = {0};
    unsigned row = 0;
    unsigned long long count = 0;
    while (fscanf(out, "%u,%*u,%llu", &row, &count) == 2) {
        assert_true(row < DEPTH);
        sums[row] += count;
    }
    for (size_t r = 0; r < DEPTH; r++) {
        assert_true(sums[r] == f->total);
    }
    assert_int_equal(fclose(out), 0);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct fixture *f = *state;
    write_stream(f);
    f->options.epochs = 2;
    assert_fails(rbt_sketch.train(&f->options, &f->config, &f->observer, &f->summary),
                 RBT_E_INVALID, "\"--epochs 2\" would count the stream 2 times");
    f->options.epochs = 0;
    f->options.format = RBT_FORMAT_CSV;
    assert_fails(rbt_sketch.train(&f->options, &f->config, &f->observer, &f->summary),
                 RBT_E_INVALID, "does not apply");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cells_are_those_of_the_formula, setup, teardown),
        cmocka_unit_test_setup_teardown(estimates_are_never_below_and_seldom_far_above, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(any_number_of_workers_and_clocks_gives_the_same_bits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(large_counts_are_exact, setup, teardown),
        cmocka_unit_test(lines_are_keys_with_or_without_counts),
        cmocka_unit_test(wrong_lines_are_named),
        cmocka_unit_test_setup_teardown(threads_do_not_change_the_stream, setup, teardown),
        cmocka_unit_test(parsing_survives_every_failed_allocation),
        cmocka_unit_test_setup_teardown(cells_are_exported, setup, teardown),
        cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
