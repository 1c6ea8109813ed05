/* data/depot_test.c - shares made on disk are those that are made in memory, and what is read part
 * by part is what is read at once.
 *
 * The fixture is a file of LIBSVM with 0 to 6 features a line, comments among the lines, and labels
 * 0 and 1. The memory that the depot may use is so small that there are many parts and buckets. */
#include "base/test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "base/rng.h"
#include "data/depot.h"
#include "data/paged.h"

enum { COUNT = 12000, FEATURES = 900 };

struct fixture {
    char path[64];
    const char *paths[1];
    struct rbt_data_options data;
    struct rbt_depot_options options;
};

static int set_up(void **state)
{
    struct fixture *f = rbt_calloc(1, sizeof *f);
    (void)snprintf(f->path, sizeof f->path, "/tmp/depot_test.XXXXXX");
    const int fd = mkstemp(f->path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 7, 0, 0);
    for (int i = 0; i < COUNT; i++) {
        fprintf(file, "%s%d", i % 97 == 3 ? "# a comment\n\n" : "", (int)rbt_rng_below(&rng, 2));
        uint64_t key = 0;
        for (int k = i % 7; k > 0; k--) {
            key += 1 + rbt_rng_below(&rng, FEATURES / 7);
            fprintf(file, " %llu:%.3f", (unsigned long long)key * 1000003, rbt_rng_normal(&rng));
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
    f->paths[0] = f->path;
    f->data = (struct rbt_data_options){
        .paths = f->paths, .path_count = 1, .threads = 2, .has_binary_label = true};
    f->options = (struct rbt_depot_options){
        .data = &f->data, .directory = "/tmp", .seed = 3, .memory = 64 * 1024};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path);
    rbt_free(f);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

/* The share on disk holds what the one in memory does. */
static void compare(struct rbt_stored *stored, const struct rbt_share *share, uint64_t kept)
{
    rbt_paged *paged = NULL;
    assert_int_equal(stored->count, share->count);
    assert_int_equal(stored->key_count, share->key_count);
    assert_memory_equal(stored->keys, share->keys, share->key_count * sizeof *share->keys);
    assert_int_equal(stored->nonzeros, share->offsets[share->count]);
    assert_ok(rbt_paged_open(stored, 4096, &paged));
    rbt_paged_keep(paged, kept);
    const struct rbt_share mapped = rbt_paged_share(paged);
    float *steps = rbt_paged_steps(paged);
    for (int pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < share->count; i++) {
            rbt_paged_visit(paged, i, i + 1);
            assert_int_equal(mapped.offsets[i + 1], share->offsets[i + 1]);
            assert_true(mapped.labels[i] == share->labels[i]);
            assert_true(steps[i] == (float)pass); /* what was written has stayed */
            steps[i] += 1.0F;
            for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
                assert_int_equal(mapped.indices[k], share->indices[k]);
                assert_true(mapped.values[k] == share->values[k] * (float)(1 << pass));
                mapped.values[k] *= 2;
            }
        }
    }
    rbt_paged_close(paged);
}

static void shares_on_disk_are_those_in_memory(void **state)
{
    const struct fixture *f = *state;
    for (uint64_t count_min = 0; count_min <= 40; count_min += 40) {
        struct rbt_examples examples = {0};
        rbt_depot *depot = NULL;
        struct rbt_depot_options options = f->options;
        options.count_min = count_min;
        assert_ok(rbt_examples_read(&f->data, &examples));
        assert_ok(rbt_examples_drop_rare(&examples, count_min));
        assert_ok(rbt_depot_open(&options, &depot));
        assert_int_equal(rbt_depot_facts(depot).count, COUNT);
        assert_true(rbt_depot_facts(depot).labels.positive == 1);
        for (uint32_t count = 1; count <= 3; count++) {
            for (uint32_t index = 0; index < count; index++) {
                struct rbt_share share = {0};
                struct rbt_stored stored;
                assert_ok(rbt_share_take(&examples, 3, index, count, &share));
                assert_ok(rbt_depot_deal(depot, index, count, &stored));
                compare(&stored, &share, index * UINT64_C(100000));
                rbt_stored_free(&stored);
                rbt_share_free(&share);
            }
        }
        rbt_depot_close(depot);
        rbt_examples_free(&examples);
    }
}

/* Checks the parts of a walk against the examples. */
struct walk {
    const struct rbt_examples *examples;
    size_t seen;
    size_t parts;
};

static rbt_status check_part(void *context, const struct rbt_examples *part)
{
    struct walk *walk = context;
    const struct rbt_examples *all = walk->examples;
    for (size_t i = 0; i < part->count; i++, walk->seen++) {
        const uint64_t first = all->offsets[walk->seen];
        const uint64_t count = all->offsets[walk->seen + 1] - first;
        assert_int_equal(part->offsets[i + 1] - part->offsets[i], count);
        assert_true(part->labels[i] == all->labels[walk->seen]);
        for (uint64_t k = 0; k < count; k++) {
            assert_int_equal(part->keys[part->offsets[i] + k], all->keys[first + k]);
            assert_true(part->values[part->offsets[i] + k] == all->values[first + k]);
        }
    }
    walk->parts++;
    return RBT_OK;
}

static void a_walk_gives_all_examples_in_the_order_of_the_file(void **state)
{
    const struct fixture *f = *state;
    struct rbt_examples examples = {0};
    rbt_depot *depot = NULL;
    struct rbt_depot_options options = f->options;
    options.count_min = 40;
    assert_ok(rbt_examples_read(&f->data, &examples));
    assert_ok(rbt_examples_drop_rare(&examples, 40));
    assert_ok(rbt_depot_open(&options, &depot));
    struct walk walk = {.examples = &examples};
    const struct rbt_receiver receiver = {.context = &walk, .take = check_part};
    assert_ok(rbt_depot_walk(depot, &receiver));
    assert_int_equal(walk.seen, COUNT);
    assert_true(walk.parts > 5);
    rbt_depot_close(depot);
    rbt_examples_free(&examples);
}

/* The value of a feature, 0 if it is not there. */
static float value_of(const struct rbt_share *share, size_t i, uint64_t key, bool *is_there)
{
    for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
        if (share->keys[share->indices[k]] == key) {
            *is_there = true;
            return share->values[k];
        }
    }
    *is_there = false;
    return 0.0F;
}

static void features_are_shifted_and_scaled_in_shares(void **state)
{
    const struct fixture *f = *state;
    struct rbt_examples examples = {0};
    struct rbt_share share = {0};
    struct rbt_stored stored;
    rbt_depot *depot = NULL;
    rbt_paged *paged = NULL;
    assert_ok(rbt_examples_read(&f->data, &examples));
    assert_ok(rbt_share_take(&examples, 3, 0, 2, &share));
    assert_ok(rbt_depot_open(&f->options, &depot));
    const struct rbt_depot_facts facts = rbt_depot_facts(depot);
    const uint64_t keys[3] = {facts.keys[0], facts.keys[50], facts.keys[facts.key_count - 1]};
    const double means[3] = {2.0, 0.0, -1.0};
    const double scales[3] = {0.5, 4.0, 3.0};
    const struct rbt_depot_change change = {keys, means, scales, 3};
    assert_ok(rbt_depot_change(depot, &change));
    assert_ok(rbt_depot_deal(depot, 0, 2, &stored));
    assert_ok(rbt_paged_open(&stored, 4096, &paged));
    struct rbt_share mapped = rbt_paged_share(paged);
    mapped.keys = stored.keys;
    assert_int_equal(mapped.count, share.count);
    for (size_t i = 0; i < share.count; i++) {
        uint64_t more = share.offsets[i + 1] - share.offsets[i];
        for (size_t j = 0; j < 3; j++) {
            bool was_there = false;
            bool is_there = false;
            const double x = (double)value_of(&share, i, keys[j], &was_there);
            const float other = value_of(&mapped, i, keys[j], &is_there);
            assert_true(is_there == (was_there || means[j] != 0.0));
            assert_true(!is_there || other == (float)((x - means[j]) * scales[j]));
            more += is_there && !was_there;
        }
        assert_int_equal(mapped.offsets[i + 1] - mapped.offsets[i], more);
        for (uint64_t k = mapped.offsets[i] + 1; k < mapped.offsets[i + 1]; k++) {
            assert_true(mapped.indices[k - 1] < mapped.indices[k]);
        }
    }
    rbt_paged_close(paged);
    rbt_stored_free(&stored);
    rbt_depot_close(depot);
    rbt_share_free(&share);
    rbt_examples_free(&examples);
}

static void rare_features_are_left_out(void **state)
{
    const struct fixture *f = *state;
    struct rbt_examples all = {0};
    struct rbt_examples frequent = {0};
    assert_ok(rbt_examples_read(&f->data, &all));
    assert_ok(rbt_examples_read(&f->data, &frequent));
    assert_ok(rbt_examples_drop_rare(&frequent, 40));
    assert_int_equal(frequent.count, all.count);
    uint64_t next = 0;
    for (uint64_t k = 0; k < all.offsets[COUNT]; k++) { /* slow and obvious */
        size_t uses = 0;
        for (uint64_t j = 0; k % 37 == 0 && j < all.offsets[COUNT]; j++) {
            uses += all.keys[j] == all.keys[k];
        }
        const bool is_there = next < frequent.offsets[COUNT] &&
                              frequent.keys[next] == all.keys[k] &&
                              frequent.values[next] == all.values[k];
        if (k % 37 == 0) {
            assert_int_equal(is_there, uses >= 40);
        }
        next += is_there;
    }
    assert_int_equal(next, frequent.offsets[COUNT]);
    assert_true(next < all.offsets[COUNT]);
    rbt_examples_free(&frequent);
    rbt_examples_free(&all);
}

static void mistakes_are_reported_with_their_line(void **state)
{
    const struct fixture *f = *state;
    rbt_depot *depot = NULL;
    FILE *file = fopen(f->path, "a");
    assert_non_null(file);
    fprintf(file, "1 5:x\n");
    assert_int_equal(fclose(file), 0);
    struct rbt_examples examples = {0};
    assert_int_equal(rbt_examples_read(&f->data, &examples), RBT_E_DATA);
    char message[RBT_ERROR_MAX];
    (void)snprintf(message, sizeof message, "%s", rbt_last_error());
    assert_fails(rbt_depot_open(&f->options, &depot), RBT_E_DATA, message);
}

static void a_directory_that_is_not_there_is_named(void **state)
{
    struct fixture *f = *state;
    rbt_depot *depot = NULL;
    f->options.directory = "/tmp/depot_test.nowhere";
    assert_fails(rbt_depot_open(&f->options, &depot), RBT_E_NOTFOUND, "depot_test.nowhere");
}

/* Opens and deals; whatever fails, nothing is left. */
static rbt_status open_and_deal(const struct fixture *f)
{
    rbt_depot *depot = NULL;
    struct rbt_stored stored;
    rbt_paged *paged = NULL;
    rbt_status st = rbt_depot_open(&f->options, &depot);
    if (st != RBT_OK) {
        return st;
    }
    st = rbt_depot_deal(depot, 1, 2, &stored);
    if (st == RBT_OK) {
        st = rbt_paged_open(&stored, 4096, &paged);
        rbt_paged_close(paged);
        rbt_stored_free(&stored);
    }
    rbt_depot_close(depot);
    return st;
}

static void every_failed_allocation_is_survived(void **state)
{
    struct fixture *f = *state;
    f->data.threads = 1;
    rbt_status st = RBT_E_NOMEM;
    unsigned nth = 1;
    for (; st != RBT_OK; nth += 1 + nth / 8) {
        rbt_alloc_fail_nth(nth);
        const size_t live = rbt_alloc_live();
        st = open_and_deal(f);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), live);
    }
    rbt_alloc_fail_nth(0);
    assert_true(nth > 30);
}

static size_t count_descriptors(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    return count;
}

static void every_failed_system_call_is_told(void **state)
{
    const struct fixture *f = *state;
    const size_t live = rbt_alloc_live();
    const size_t open_files = count_descriptors();
    unsigned count = 0;
    (void)rbt_io_fail_nth(UINT_MAX);
    assert_ok(open_and_deal(f));
    const unsigned calls = UINT_MAX - rbt_io_fail_nth(0);
    assert_true(calls > 50);
    for (unsigned nth = 1; nth <= calls; nth += nth < 40 ? 1 : 1 + calls / 60) {
        (void)rbt_io_fail_nth(nth);
        const rbt_status st = open_and_deal(f);
        assert_int_equal(rbt_io_fail_nth(0), 0);
        assert_int_equal(st, RBT_E_IO);
        assert_true(rbt_last_error()[0] != '\0');
        assert_int_equal(rbt_alloc_live(), live);
        assert_int_equal(count_descriptors(), open_files);
        count++;
    }
    assert_true(count >= 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shares_on_disk_are_those_in_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_walk_gives_all_examples_in_the_order_of_the_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(features_are_shifted_and_scaled_in_shares, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(rare_features_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes_are_reported_with_their_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_directory_that_is_not_there_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failed_system_call_is_told, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
