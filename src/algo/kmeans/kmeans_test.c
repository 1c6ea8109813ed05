/* algo/kmeans/kmeans_test.c - k-means against plain loops over the definition. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/kmeans/kmeans.h"
#include "algo/kmeans/kmeans_job.h"
#include "algo/kmeans/kmeans_model.h"
#include "base/alloc.h"
#include "base/rng.h"

enum { POINTS = 600, DIMS = 6, CLUSTERS = 5, K = 7 };

struct fixture {
    char path[64];
    char model_path[80];
    double points[POINTS][DIMS];
    struct rbt_train_options options;
    struct rbt_kmeans_config config;
    struct rbt_observer observer;
    struct rbt_train_summary summary;
    struct rbt_model model;
};

/* Points around some centres, far from zero, with as many decimals as are written. */
static void draw_points(struct fixture *f, double offset)
{
    for (size_t i = 0; i < POINTS; i++) {
        for (size_t j = 0; j < DIMS; j++) {
            const double centre = 5 * rbt_rng_normal_at(3, i % CLUSTERS, j);
            const double x = offset + centre + rbt_rng_normal_at(4, i, j);
            f->points[i][j] = (double)(float)(floor(x * 1000) / 1000);
        }
    }
}

static void write_csv(const struct fixture *f)
{
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < POINTS; i++) {
        for (size_t j = 0; j < DIMS; j++) {
            fprintf(file, "%.9g%s", f->points[i][j], j + 1 < DIMS ? "," : "\n");
        }
    }
    assert_int_equal(fclose(file), 0);
}

/* Each point keeps one coordinate in a space of its own, so that the data is sparse. */
static void write_sparse(struct fixture *f)
{
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < POINTS; i++) {
        fprintf(file, "0 %zu:%.9g 1%zu:2\n", i % DIMS + 1, f->points[i][i % DIMS], 100 + i);
        for (size_t j = 0; j < DIMS; j++) {
            f->points[i][j] = j == i % DIMS ? f->points[i][j] : 0.0;
        }
    }
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-kmeans-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_true(snprintf(f->model_path, sizeof f->model_path, "%s.rbt", f->path) > 0);
    f->options = (struct rbt_train_options){.format = RBT_FORMAT_CSV,
                                            .label_column = -1,
                                            .epochs = 3,
                                            .workers = 1,
                                            .servers = 1,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .model = f->model_path,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_kmeans_config){.k = K};
    draw_points(f, 1000);
    write_csv(f);
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

/* Trains and reads the model back. */
static void train(struct fixture *f)
{
    rbt_model_free(&f->model);
    assert_ok(rbt_kmeans.train(&f->options, &f->config, &f->observer, &f->summary));
    assert_ok(rbt_model_read(f->model_path, &f->model));
    assert_int_equal(rbt_model_array_find(&f->model, "centres")->count, f->config.k);
}

static double distance(const double *x, const float *centre)
{
    double sum = 0.0;
    for (size_t j = 0; j < DIMS; j++) {
        sum += (x[j] - (double)centre[j]) * (x[j] - (double)centre[j]);
    }
    return sum;
}

/* One step of Lloyd's algorithm, from centres to the means of their points; returns the mean
 * squared distance to the old ones. */
static double plain_step(const struct fixture *f, const struct rbt_model_array *from,
                         double means[K][DIMS])
{
    double counts[K] = {0};
    double loss = 0.0;
    memset(means, 0, sizeof(double[K][DIMS]));
    for (size_t i = 0; i < POINTS; i++) {
        size_t best = 0;
        for (size_t c = 1; c < K; c++) {
            if (distance(f->points[i], from->values + c * from->width) <
                distance(f->points[i], from->values + best * from->width)) {
                best = c;
            }
        }
        loss += distance(f->points[i], from->values + best * from->width);
        counts[best]++;
        for (size_t j = 0; j < DIMS; j++) {
            means[best][j] += f->points[i][j];
        }
    }
    for (size_t c = 0; c < K; c++) {
        assert_true(counts[c] > 0);
        for (size_t j = 0; j < DIMS; j++) {
            means[c][j] /= counts[c];
        }
    }
    return loss / POINTS;
}

/* The model after e + 1 passes is one plain step from that after e passes. */
static void every_pass_is_a_plain_step(void **state)
{
    struct fixture *f = *state;
    for (int epochs = 1; epochs < 6; epochs++) {
        double means[K][DIMS];
        f->options.epochs = epochs;
        f->options.workers = epochs % 3 + 1;
        train(f);
        const double loss = plain_step(f, rbt_model_array_find(&f->model, "centres"), means);
        assert_float_equal((float)(f->summary.objective / loss), 1.0F, 1e-4F);
        f->options.epochs++;
        train(f);
        const struct rbt_model_array *next = rbt_model_array_find(&f->model, "centres");
        assert_int_equal(next->width, DIMS);
        for (size_t i = 0; i < K * DIMS; i++) {
            assert_float_equal(next->values[i], (float)means[i / DIMS][i % DIMS], 2e-4F);
        }
    }
}

/* The second coordinate of each point is nobody else's and moves no centre by much; those that all
 * have in common are compared. */
static void sparse_points_give_means_of_their_clusters(void **state)
{
    struct fixture *f = *state;
    draw_points(f, 20);
    write_sparse(f);
    f->options.format = RBT_FORMAT_LIBSVM;
    f->options.epochs = 8;
    train(f);
    assert_true(rbt_model_setting(&f->model, "dense", 1) == 0);
    const struct rbt_model_array *centres = rbt_model_array_find(&f->model, "centres");
    double means[K][DIMS];
    (void)plain_step(f, centres, means);
    for (size_t i = 0; i < K * DIMS; i++) {
        const float value = centres->values[i / DIMS * centres->width + i % DIMS];
        assert_float_equal(value, (float)means[i / DIMS][i % DIMS], 1e-3F);
    }
}

static void any_number_of_workers_gives_the_same_bits(void **state)
{
    struct fixture *f = *state;
    for (int batch = 0; batch < 200; batch += 64) {
        f->config.batch = batch;
        f->options.workers = 1;
        train(f);
        const uint64_t digest = f->summary.digest;
        for (int workers = 2; workers < 6; workers++) {
            f->options.workers = workers;
            f->options.servers = workers / 2;
            train(f);
            assert_true(f->summary.digest == digest);
        }
    }
}

static void minibatches_come_near_to_lloyd(void **state)
{
    struct fixture *f = *state;
    f->options.epochs = 20;
    train(f);
    const double lloyd = f->summary.objective;
    f->config.batch = 50;
    train(f);
    assert_true(f->summary.clocks == 240);
    assert_true(f->summary.objective < 1.1 * lloyd);
}

/* Half of the points are the same, so that some random centres are, too, and get no points. */
static void empty_clusters_get_points_again(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < POINTS; i += 2) {
        memcpy(f->points[i], f->points[0], sizeof f->points[0]);
    }
    write_csv(f);
    f->config.init = RBT_KMEANS_RANDOM;
    f->options.epochs = 20;
    for (int seed = 1; seed < 5; seed++) {
        f->options.seed = seed;
        train(f);
        const struct rbt_model_array *sizes = rbt_model_array_find(&f->model, "sizes");
        float sum = 0;
        for (size_t c = 0; c < K; c++) {
            assert_true(sizes->values[c] > 0);
            sum += sizes->values[c];
        }
        assert_true(sum == POINTS);
    }
}

/* A point that moves on takes with it all that it has brought. */
static void rows_hold_their_points_alone(void **state)
{
    (void)state;
    float matrix[] = {1, 2, 3, -4};
    double squares[] = {5, 25};
    double rows[2 * 4] = {0};
    struct rbt_kmeans_job job = {.k = 2, .width = 4};
    job.space.dims = 2;
    job.points = (struct rbt_kmeans_points){
        .space = &job.space, .count = 2, .matrix = matrix, .squares = squares};
    rbt_kmeans_step_count_in(&job, rows, 0, 0, 1.0);
    rbt_kmeans_step_count_in(&job, rows, 1, 0, 1.0);
    const double both[] = {4, -2, 30, 2, 0, 0, 0, 0};
    assert_memory_equal(rows, both, sizeof both);
    rbt_kmeans_step_count_in(&job, rows, 0, 0, -1.0);
    rbt_kmeans_step_count_in(&job, rows, 0, 1, 1.0);
    const double apart[] = {3, -4, 25, 1, 1, 2, 5, 1};
    assert_memory_equal(rows, apart, sizeof apart);
}

/* An empty cluster goes beside the one with the largest sum of squared distances to its own mean,
 * not to zero, by a part of that cluster's deviation. */
static void an_empty_cluster_goes_where_points_are_widest(void **state)
{
    (void)state;
    enum { SPACE = 2, COUNT = 3, WIDTH = SPACE + 2 };
    const struct rbt_train_options options = {.seed = 1};
    struct rbt_kmeans_job job = {.options = &options, .k = COUNT, .width = WIDTH};
    job.space.dims = SPACE;
    job.points.count = 104;
    /* 100 points at (300, 400) exactly; 2 at (1, 4) and 2 at (1, -4), none in the third. */
    const double rows[COUNT * WIDTH] = {30000, 40000, 100 * 250000.0, 100, 4, 0, 4 * 17.0, 4};
    float initial[COUNT * SPACE] = {0};
    float values[COUNT * SPACE];
    job.initial.values = initial;
    assert_ok(rbt_kmeans_step_settle(&job, rows, values));
    assert_true(values[0] == 300.0F);
    assert_true(values[1] == 400.0F);
    assert_true(values[2] == 1.0F);
    assert_true(values[3] == 0.0F);
    const double away = hypot((double)values[4] - 1.0, (double)values[5]);
    assert_true(away > 0.0);
    assert_true(away < 4.0); /* the deviation of those points is sqrt(8) by coordinate */
    job.points.count = 105;  /* somebody is late, and the cluster may be his */
    assert_ok(rbt_kmeans_step_settle(&job, rows, values));
    assert_true(values[4] == 0.0F);
    assert_true(values[5] == 0.0F);
}

/* With stale centres every point is still counted once. */
static void staleness_loses_no_point(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    f->options.clocks_per_epoch = 4;
    f->options.epochs = 10;
    for (int i = 0; i < 2; i++) {
        f->options.consistency = i == 0 ? "ssp:3" : "asp";
        train(f);
        const struct rbt_model_array *sizes = rbt_model_array_find(&f->model, "sizes");
        float sum = 0;
        for (size_t c = 0; c < K; c++) {
            sum += sizes->values[c];
        }
        assert_true(sum == POINTS);
    }
}

static void predictions_are_the_nearest_centres(void **state)
{
    struct fixture *f = *state;
    train(f);
    const struct rbt_model_array *centres = rbt_model_array_find(&f->model, "centres");
    struct rbt_predict_options options = {
        .data = f->options.data, .format = RBT_FORMAT_CSV, .label_column = -1, .out = tmpfile()};
    assert_non_null(options.out);
    assert_ok(rbt_kmeans.predict(&f->model, &options));
    rewind(options.out);
    for (size_t i = 0; i < POINTS; i++) {
        unsigned cluster = K;
        assert_int_equal(fscanf(options.out, "%u", &cluster), 1);
        assert_true(cluster < K);
        for (size_t c = 0; c < K; c++) {
            assert_true(distance(f->points[i], centres->values + cluster * DIMS) <=
                        distance(f->points[i], centres->values + c * DIMS) + 1e-3);
        }
    }
    assert_int_equal(fclose(options.out), 0);
    struct rbt_metrics metrics;
    assert_ok(rbt_kmeans.evaluate(&f->model, &options, &metrics));
    assert_string_equal(metrics.names[0], "distance");
    assert_float_equal((float)(metrics.values[0] / f->summary.objective), 1.0F, 1e-5F);
    assert_float_equal((float)(metrics.values[1] / f->summary.objective), (float)POINTS, 1e-2F);
}

static void centres_are_exported(void **state)
{
    struct fixture *f = *state;
    train(f);
    char line[256];
    FILE *out = tmpfile();
    assert_non_null(out);
    assert_ok(rbt_kmeans.exports[0].write(&f->model, out));
    rewind(out);
    assert_non_null(fgets(line, sizeof line, out));
    assert_string_equal(line, "cluster,size,1,2,3,4,5,6\n");
    unsigned cluster = 9;
    double first = 0;
    assert_int_equal(fscanf(out, "%u,%*[0-9],%lf", &cluster, &first), 2);
    assert_int_equal(cluster, 0);
    assert_true((float)first == rbt_model_array_find(&f->model, "centres")->values[0]);
    assert_int_equal(fclose(out), 0);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct fixture *f = *state;
    f->config.k = POINTS + 1;
    assert_fails(rbt_kmeans.train(&f->options, &f->config, &f->observer, &f->summary),
                 RBT_E_INVALID, "option \"--k\" is 601, but the data has only 600 points");
    f->config.k = K;
    f->options.rule = "adagrad";
    assert_fails(rbt_kmeans.train(&f->options, &f->config, &f->observer, &f->summary),
                 RBT_E_INVALID, "\"--rule adagrad\" does not apply to kmeans");
    f->options.rule = NULL;
    f->config.batch = 10;
    f->options.clocks_per_epoch = 2;
    assert_fails(rbt_kmeans.train(&f->options, &f->config, &f->observer, &f->summary),
                 RBT_E_INVALID, "exclude each other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_pass_is_a_plain_step, setup, teardown),
        cmocka_unit_test_setup_teardown(sparse_points_give_means_of_their_clusters, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(any_number_of_workers_gives_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(minibatches_come_near_to_lloyd, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_clusters_get_points_again, setup, teardown),
        cmocka_unit_test(rows_hold_their_points_alone),
        cmocka_unit_test(an_empty_cluster_goes_where_points_are_widest),
        cmocka_unit_test_setup_teardown(staleness_loses_no_point, setup, teardown),
        cmocka_unit_test_setup_teardown(predictions_are_the_nearest_centres, setup, teardown),
        cmocka_unit_test_setup_teardown(centres_are_exported, setup, teardown),
        cmocka_unit_test_setup_teardown(what_makes_no_sense_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
