/* data/generate_test.c - generated files can be read, follow from the seed, and fit their truth. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/examples.h"
#include "data/generate.h"
#include "data/input.h"

static struct rbt_generate_sparse sparse = {.path = "a.svm",
                                            .seed = 7,
                                            .examples = 4000,
                                            .features = 300,
                                            .nonzeros = 20,
                                            .power = 1.1,
                                            .noise = 0};
static struct rbt_generate_clicks clicks = {.path = "clicks.svm",
                                            .seed = 7,
                                            .examples = 4000,
                                            .columns = 12,
                                            .vocabulary = 1000,
                                            .power = 1.1,
                                            .noise = 0};
static struct rbt_generate_ratings ratings = {.path = "ratings.csv",
                                              .seed = 7,
                                              .users = 50,
                                              .items = 40,
                                              .ratings = 1000,
                                              .rank = 3,
                                              .noise = 0};

static struct rbt_generate_blobs blobs = {
    .path = "blobs.csv", .seed = 7, .points = 3000, .dims = 4, .clusters = 5, .spread = 0.5};
static struct rbt_generate_stream keys = {
    .path = "keys.txt", .seed = 7, .inserts = 5000, .keys = 50, .power = 1.1};

/* The working folder is a new one. */
static int set_up(void **state)
{
    static char folder[] = "/tmp/generate_test.XXXXXX";
    *state = folder;
    return mkdtemp(folder) == NULL || chdir(folder) != 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"a.svm", "clicks.svm", "ratings.csv", "blobs.csv",
                                        "keys.txt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char truth[32];
        (void)snprintf(truth, sizeof truth, "%s.truth", names[i]); /* it fits */
        (void)unlink(names[i]);
        (void)unlink(truth);
    }
    return chdir("/") == 0 && rmdir(*state) == 0 ? 0 : -1; /* no other file was left */
}

static void read_examples(const char *path, struct rbt_examples *examples)
{
    const struct rbt_data_options options = {
        .paths = &path, .path_count = 1, .has_binary_label = true};
    assert_ok(rbt_examples_read(&options, examples));
}

/* weights[k] is that of feature k. */
static void read_weights(double *weights)
{
    FILE *file = fopen("a.svm.truth", "r");
    assert_non_null(file);
    for (unsigned k = 1; k <= sparse.features; k++) {
        unsigned key = 0;
        assert_int_equal(fscanf(file, "%u %lf", &key, &weights[k]), 2);
        assert_int_equal(key, k);
    }
    assert_int_equal(fgetc(file), '\n');
    assert_int_equal(fgetc(file), EOF);
    (void)fclose(file);
}

static void sparse_examples_have_the_shape_asked_for(void **state)
{
    (void)state;
    struct rbt_examples examples = {0};
    assert_ok(rbt_generate_sparse(&sparse));
    read_examples(sparse.path, &examples); /* which checks that keys increase and start at 1 */
    assert_int_equal(examples.count, sparse.examples);
    size_t firsts = 0;
    size_t lasts = 0;
    for (size_t i = 0; i < examples.count; i++) {
        assert_int_equal(examples.offsets[i + 1] - examples.offsets[i], sparse.nonzeros);
        firsts += examples.keys[examples.offsets[i]] == 1;
        lasts += examples.keys[examples.offsets[i + 1] - 1] == sparse.features;
    }
    assert_true(firsts > examples.count / 2); /* the most popular feature and the least */
    assert_true(lasts > 0);
    assert_true(lasts < examples.count / 10);
    rbt_examples_free(&examples);
}

/* The share of labels that agree with the sign of w.x must be what the model itself expects, the
 * mean of 1 / (1 + exp(-|w.x|)); 4000 labels make 5 standard deviations about 0.035. */
static void labels_follow_the_logistic_model(void **state)
{
    (void)state;
    static double weights[301];
    struct rbt_examples examples = {0};
    assert_ok(rbt_generate_sparse(&sparse));
    read_examples(sparse.path, &examples);
    read_weights(weights);
    double expected = 0;
    double agreeing = 0;
    double positive = 0;
    for (size_t i = 0; i < examples.count; i++) {
        double margin = 0;
        for (uint64_t k = examples.offsets[i]; k < examples.offsets[i + 1]; k++) {
            margin += weights[examples.keys[k]] * (double)examples.values[k];
        }
        expected += 1 / (1 + exp(-fabs(margin)));
        agreeing += margin * (double)examples.labels[i] > 0;
        positive += examples.labels[i] > 0;
    }
    const double count = (double)examples.count;
    assert_true(expected / count > 0.75);
    assert_true(fabs(agreeing - expected) / count < 0.035);
    assert_true(fabs(positive / count - 0.5) < 0.05);
    rbt_examples_free(&examples);
}

/* Each column has keys of its own, and the first value of the last is the most popular one. */
static void clicks_have_one_value_per_column(void **state)
{
    (void)state;
    struct rbt_examples examples = {0};
    assert_ok(rbt_generate_clicks(&clicks));
    read_examples(clicks.path, &examples); /* which checks that keys increase */
    assert_int_equal(examples.count, clicks.examples);
    const size_t columns = clicks.columns;
    uint64_t lowest[12];
    uint64_t highest[12] = {0};
    memset(lowest, 0xff, sizeof lowest);
    for (size_t i = 0; i < examples.count; i++) {
        assert_int_equal(examples.offsets[i + 1] - examples.offsets[i], columns);
        for (size_t c = 0; c < columns; c++) {
            const uint64_t key = examples.keys[examples.offsets[i] + c];
            assert_true(examples.values[examples.offsets[i] + c] == 1);
            lowest[c] = key < lowest[c] ? key : lowest[c];
            highest[c] = key > highest[c] ? key : highest[c];
        }
    }
    for (size_t c = 1; c < columns; c++) {
        assert_true(highest[c - 1] < lowest[c]);
    }
    size_t firsts = 0;
    for (size_t i = 0; i < examples.count; i++) {
        firsts += examples.keys[examples.offsets[i + 1] - 1] == lowest[columns - 1];
    }
    assert_int_equal(lowest[0], 1);
    assert_int_equal(highest[0], 2);
    assert_in_range(highest[columns - 1] - lowest[columns - 1], 500, 999); /* the tail is used */
    assert_in_range(firsts, examples.count / 20, examples.count / 2);
    rbt_examples_free(&examples);
}

/* As many clicks as the model of the truth expects, which is one in five; and those where it
 * expects more are more. 4000 labels make 5 standard deviations about 0.03. */
static void clicks_follow_the_truth(void **state)
{
    (void)state;
    static double weights[8000];
    double bias = 0;
    struct rbt_examples examples = {0};
    assert_ok(rbt_generate_clicks(&clicks));
    read_examples(clicks.path, &examples);
    FILE *file = fopen("clicks.svm.truth", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "bias %lf", &bias), 1);
    unsigned key = 0;
    double weight = 0;
    size_t count = 0;
    for (; fscanf(file, "%u %lf", &key, &weight) == 2; count++) {
        assert_in_range(key, 1, 7999);
        weights[key] = weight;
    }
    (void)fclose(file);
    assert_true(count > 100);
    double expected[2] = {0};
    double found[2] = {0};
    for (size_t i = 0; i < examples.count; i++) {
        double margin = bias;
        for (uint64_t k = examples.offsets[i]; k < examples.offsets[i + 1]; k++) {
            margin += weights[examples.keys[k]];
        }
        const bool is_likely = margin > -1;
        expected[is_likely] += 1 / (1 + exp(-margin)) / (double)examples.count;
        found[is_likely] += (examples.labels[i] > 0 ? 1 : 0) / (double)examples.count;
    }
    assert_true(fabs(found[0] + found[1] - 0.2) < 0.04);
    assert_true(fabs(found[0] - expected[0]) < 0.03);
    assert_true(fabs(found[1] - expected[1]) < 0.03);
    assert_true(found[1] > found[0]);
    rbt_examples_free(&examples);
}

static void ratings_are_products_of_the_factors(void **state)
{
    (void)state;
    const struct rbt_data_options options = {.paths = &ratings.path, .path_count = 1};
    static double users[51][3];
    static double items[41][3];
    static bool is_rated[51][41];
    struct rbt_ratings read = {0};
    assert_ok(rbt_generate_ratings(&ratings));
    FILE *file = fopen("ratings.csv.truth", "r");
    assert_non_null(file);
    for (size_t i = 0; i < ratings.users + ratings.items; i++) {
        char kind[5];
        unsigned index = 0;
        double f[3];
        assert_int_equal(fscanf(file, "%4s %u %lf %lf %lf", kind, &index, &f[0], &f[1], &f[2]), 5);
        memcpy(strcmp(kind, "user") == 0 ? users[index] : items[index], f, sizeof f);
    }
    (void)fclose(file);
    assert_ok(rbt_ratings_read(&options, &read));
    assert_int_equal(read.count, ratings.ratings);
    for (size_t i = 0; i < read.count; i++) {
        const double *a = users[read.users[i]];
        const double *b = items[read.items[i]];
        const double product = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        assert_true(fabs(product - (double)read.values[i]) < 1e-4);
        assert_false(is_rated[read.users[i]][read.items[i]]);
        is_rated[read.users[i]][read.items[i]] = true;
    }
    rbt_ratings_free(&read);
}

static void every_pair_can_be_rated(void **state)
{
    (void)state;
    const struct rbt_data_options options = {.paths = &ratings.path, .path_count = 1};
    struct rbt_generate_ratings all = ratings;
    struct rbt_ratings read = {0};
    for (uint64_t left = 0; left < 2; left++) {
        all.ratings = all.users * all.items - left;
        assert_ok(rbt_generate_ratings(&all));
        assert_ok(rbt_ratings_read(&options, &read));
        assert_int_equal(read.count, all.ratings);
        rbt_ratings_free(&read);
    }
}

/* Hash of a file's bytes, for comparing only. */
static uint64_t digest(const char *path)
{
    struct rbt_input input = {0};
    assert_ok(rbt_input_read(path, &input));
    uint64_t hash = 1469598103934665603U;
    for (size_t i = 0; i < input.size; i++) {
        hash = (hash ^ (uint8_t)input.bytes[i]) * 1099511628211U;
    }
    rbt_input_free(&input);
    return hash;
}

/* Every point is near one of the centres, and every centre has points. */
static void points_lie_around_the_centres(void **state)
{
    (void)state;
    double centres[5][4];
    size_t sizes[5] = {0};
    struct rbt_examples points = {0};
    const struct rbt_data_options options = {
        .paths = &blobs.path, .path_count = 1, .format = RBT_FORMAT_CSV, .is_unlabelled = true};
    assert_ok(rbt_generate_blobs(&blobs));
    assert_ok(rbt_examples_read(&options, &points));
    assert_int_equal(points.count, blobs.points);
    FILE *truth = fopen("blobs.csv.truth", "r");
    assert_non_null(truth);
    for (int c = 0; c < 5; c++) {
        assert_int_equal(fscanf(truth, "centre %*d %lf %lf %lf %lf\n", &centres[c][0],
                                &centres[c][1], &centres[c][2], &centres[c][3]),
                         4);
    }
    assert_int_equal(fclose(truth), 0);
    for (size_t i = 0; i < points.count; i++) {
        int near = 0;
        for (int c = 0; c < 5; c++) {
            double square = 0;
            for (uint64_t j = 0; j < 4; j++) { /* no coordinate is 0 by chance */
                const double d = (double)points.values[points.offsets[i] + j] - centres[c][j];
                square += d * d;
            }
            near += square < 9 ? 1 : 0; /* six deviations: one in 10^6 is further */
            sizes[c] += square < 9 ? 1 : 0;
        }
        assert_true(near >= 1);
    }
    for (int c = 0; c < 5; c++) {
        assert_true(sizes[c] > 400);
    }
    rbt_examples_free(&points);
}

static void keys_are_as_frequent_as_the_truth_says(void **state)
{
    (void)state;
    unsigned counts[51] = {0};
    unsigned key = 0;
    unsigned count = 0;
    assert_ok(rbt_generate_stream(&keys));
    FILE *stream = fopen(keys.path, "r");
    assert_non_null(stream);
    while (fscanf(stream, "%u", &key) == 1) {
        assert_in_range(key, 1, keys.keys);
        counts[key]++;
    }
    assert_int_equal(fclose(stream), 0);
    assert_true(counts[1] > 3 * counts[10]);
    stream = fopen("keys.txt.truth", "r");
    assert_non_null(stream);
    uint64_t total = 0;
    while (fscanf(stream, "%u %u", &key, &count) == 2) {
        assert_int_equal(count, counts[key]);
        total += count;
    }
    assert_int_equal(fclose(stream), 0);
    assert_int_equal(total, keys.inserts);
}

static void same_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    struct rbt_generate_sparse other = sparse;
    other.seed = 8;
    assert_ok(rbt_generate_sparse(&sparse));
    const uint64_t data = digest("a.svm");
    const uint64_t truth = digest("a.svm.truth");
    assert_ok(rbt_generate_sparse(&other));
    assert_true(digest("a.svm") != data);
    assert_true(digest("a.svm.truth") != truth);
    assert_ok(rbt_generate_sparse(&sparse));
    assert_true(digest("a.svm") == data);
    assert_true(digest("a.svm.truth") == truth);
    assert_ok(rbt_generate_ratings(&ratings));
    const uint64_t rated = digest("ratings.csv");
    assert_ok(rbt_generate_ratings(&ratings));
    assert_true(digest("ratings.csv") == rated);
    assert_ok(rbt_generate_clicks(&clicks));
    const uint64_t clicked = digest("clicks.svm");
    assert_ok(rbt_generate_clicks(&clicks));
    assert_true(digest("clicks.svm") == clicked);
}

static void noise_turns_labels_around(void **state)
{
    (void)state;
    struct rbt_generate_sparse noisy = sparse;
    struct rbt_examples clear = {0};
    struct rbt_examples turned = {0};
    noisy.noise = 0.2;
    assert_ok(rbt_generate_sparse(&sparse));
    read_examples(sparse.path, &clear);
    assert_ok(rbt_generate_sparse(&noisy));
    read_examples(sparse.path, &turned);
    size_t different = 0;
    for (size_t i = 0; i < clear.count; i++) {
        different += clear.labels[i] != turned.labels[i];
    }
    assert_in_range(different, 680, 920); /* 800, give or take 5 standard deviations */
    rbt_examples_free(&clear);
    rbt_examples_free(&turned);
}

static void full_disk_is_reported(void **state)
{
    (void)state;
    struct rbt_generate_sparse options = sparse;
    assert_int_equal(symlink("/dev/full", "full.truth"), 0);
    options.path = "full";
    assert_int_equal(rbt_generate_sparse(&options), RBT_E_IO);
    assert_string_equal(rbt_last_error(),
                        "could not write \"full.truth\": No space left on device");
    assert_int_equal(unlink("full.truth"), 0);
    options.path = "missing/file";
    assert_int_equal(rbt_generate_sparse(&options), RBT_E_IO);
    assert_string_equal(rbt_last_error(),
                        "could not write \"missing/file.truth\": No such file or directory");
    assert_int_equal(rbt_alloc_live(), 0);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    struct rbt_generate_sparse few = sparse;
    few.nonzeros = few.features + 1;
    assert_fails(rbt_generate_sparse(&few), RBT_E_INVALID, "no more than there are features");
    struct rbt_generate_sparse loud = sparse;
    loud.noise = 0.6;
    assert_fails(rbt_generate_sparse(&loud), RBT_E_INVALID, "the noise must be from 0 to 0.5");
    struct rbt_generate_clicks wide = clicks;
    wide.vocabulary = (uint64_t)1 << 30;
    assert_fails(rbt_generate_clicks(&wide), RBT_E_INVALID, "2^30 divided by the columns");
    struct rbt_generate_ratings many = ratings;
    many.ratings = many.users * many.items + 1;
    assert_fails(rbt_generate_ratings(&many), RBT_E_INVALID, "no more than one per user and item");
}

static void generating_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        for (unsigned nth = 1;; nth++) { /* ends when nothing fails any more */
            rbt_alloc_fail_nth(nth);
            const rbt_status st = kind == 0   ? rbt_generate_sparse(&sparse)
                                  : kind == 1 ? rbt_generate_clicks(&clicks)
                                              : rbt_generate_ratings(&ratings);
            rbt_alloc_fail_nth(0);
            assert_int_equal(rbt_alloc_live(), 0);
            if (st == RBT_OK) {
                assert_true(nth > 10);
                break;
            }
            assert_int_equal(st, RBT_E_NOMEM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_examples_have_the_shape_asked_for),
        cmocka_unit_test(labels_follow_the_logistic_model),
        cmocka_unit_test(clicks_have_one_value_per_column),
        cmocka_unit_test(clicks_follow_the_truth),
        cmocka_unit_test(ratings_are_products_of_the_factors),
        cmocka_unit_test(every_pair_can_be_rated),
        cmocka_unit_test(points_lie_around_the_centres),
        cmocka_unit_test(keys_are_as_frequent_as_the_truth_says),
        cmocka_unit_test(same_seed_gives_the_same_bytes),
        cmocka_unit_test(noise_turns_labels_around),
        cmocka_unit_test(full_disk_is_reported),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(generating_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("data/generate", tests, set_up, tear_down);
}
