/* algo/frame/model_test.c - what is written is read again; what is damaged is refused, in words. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/frame/model.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/io.h"

static uint64_t keys[] = {1, 5, UINT64_MAX};
static float values[] = {1.5F, -2.0F, 0.25F, 1e-30F, 3e38F, 7.0F};
static uint64_t bias_keys[] = {0};
static float bias_values[] = {0.5F};

static struct rbt_model example(void)
{
    struct rbt_model model = {.kind = 2, .array_count = 2};
    rbt_model_set(&model, "rank", 2.0);
    rbt_model_set(&model, "mean", 3.25);
    model.arrays[0] = (struct rbt_model_array){"users", 2, 3, keys, values};
    model.arrays[1] = (struct rbt_model_array){"bias", 1, 1, bias_keys, bias_values};
    return model;
}

static void written_models_are_read_again(void **state)
{
    (void)state;
    char directory[] = "/tmp/rubato-model-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(directory));
    assert_true(snprintf(path, sizeof path, "%s/m.rbt", directory) > 0);
    const struct rbt_model model = example();
    struct rbt_model read = {0};
    assert_ok(rbt_model_write(&model, path));
    assert_ok(rbt_model_write(&model, path)); /* over the first one */
    assert_ok(rbt_model_read(path, &read));
    assert_int_equal(read.kind, 2);
    assert_true(rbt_model_setting(&read, "mean", 0.0) == 3.25);
    assert_true(rbt_model_setting(&read, "none", -1.0) == -1.0);
    assert_int_equal(read.array_count, 2);
    assert_memory_equal(rbt_model_array_find(&read, "users")->values, values, sizeof values);
    assert_memory_equal(rbt_model_array_find(&read, "users")->keys, keys, sizeof keys);
    assert_null(rbt_model_array_find(&read, "items"));
    assert_int_equal(rbt_model_digest(&read), rbt_model_digest(&model));
    rbt_model_free(&read);
    assert_int_equal(rbt_alloc_live(), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0); /* which is empty: no temporary file was left */
}

static void texts_are_read_again(void **state)
{
    (void)state;
    char bytes[] = "moon\0\0sun";
    struct rbt_model model = example();
    struct rbt_model read = {0};
    uint8_t *plain = NULL;
    uint8_t *file = NULL;
    size_t plain_size = 0;
    size_t size = 0;
    assert_ok(rbt_model_encode(&model, &plain, &plain_size));
    assert_int_equal(plain[8], 1); /* models without texts stay readable by all */
    model.text_count = 1;
    model.texts[0] = (struct rbt_model_texts){"words", 3, sizeof bytes, bytes};
    assert_ok(rbt_model_encode(&model, &file, &size));
    assert_int_equal(file[8], 2);
    assert_ok(rbt_model_decode(file, size, &read));
    const struct rbt_model_texts *texts = rbt_model_texts_find(&read, "words");
    assert_non_null(texts);
    assert_int_equal(texts->count, 3);
    assert_int_equal(texts->size, sizeof bytes);
    assert_memory_equal(texts->bytes, bytes, sizeof bytes);
    assert_null(rbt_model_texts_find(&read, "names"));
    assert_int_equal(rbt_model_digest(&read), rbt_model_digest(&model));
    rbt_model_free(&read);
    for (size_t cut = 0; cut < size; cut++) { /* every length but the whole is too short */
        assert_int_equal(rbt_model_decode(file, cut, &read), RBT_E_DATA);
    }
    model.texts[0].count = 2; /* there are three */
    rbt_free(file);
    assert_ok(rbt_model_encode(&model, &file, &size));
    assert_fails(rbt_model_decode(file, size, &read), RBT_E_DATA,
                 "the number of texts differs from its head");
    memset(bytes, 'x', sizeof bytes); /* no text ends */
    rbt_free(file);
    assert_ok(rbt_model_encode(&model, &file, &size));
    assert_fails(rbt_model_decode(file, size, &read), RBT_E_DATA,
                 "the number of texts differs from its head");
    rbt_free(file);
    rbt_free(plain);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_failed_write_leaves_nothing(void **state)
{
    (void)state;
    char directory[] = "/tmp/rubato-model-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(directory));
    const struct rbt_model model = example();
    assert_fails(rbt_model_write(&model, "/nowhere/m.rbt"), RBT_E_IO, "cannot write model \"/now");
    assert_true(snprintf(path, sizeof path, "%s/taken", directory) > 0);
    assert_int_equal(mkdir(path, 0700), 0); /* a directory cannot be replaced by a file */
    assert_fails(rbt_model_write(&model, path), RBT_E_IO, "could not rename");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(directory), 0);
    assert_fails(rbt_model_read("/nowhere/m.rbt", NULL), RBT_E_NOTFOUND,
                 "cannot read model \"/nowhere/m.rbt\"");
}

static void every_shorter_file_is_refused(void **state)
{
    (void)state;
    const struct rbt_model model = example();
    struct rbt_model read = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_ok(rbt_model_encode(&model, &bytes, &size));
    assert_fails(rbt_model_decode(bytes, 0, &read), RBT_E_DATA, "not a Rubato model");
    for (size_t n = 1; n < size; n++) {
        assert_fails(rbt_model_decode(bytes, n, &read), RBT_E_DATA, "it ends early");
    }
    rbt_free(bytes);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void every_changed_byte_is_noticed(void **state)
{
    (void)state;
    const struct rbt_model model = example();
    struct rbt_model read = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_ok(rbt_model_encode(&model, &bytes, &size));
    for (size_t i = 0; i < size; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1U << bit);
            assert_int_equal(rbt_model_decode(bytes, size, &read), RBT_E_DATA);
            bytes[i] ^= (uint8_t)(1U << bit);
        }
    }
    bytes[size - 1] ^= 1;
    assert_fails(rbt_model_decode(bytes, size, &read), RBT_E_DATA,
                 "it is damaged (checksum differs)");
    bytes[0] = 'X';
    assert_fails(rbt_model_decode(bytes, size, &read), RBT_E_DATA, "it is not a Rubato model");
    bytes[0] = 'R';
    bytes[8] = 3;
    assert_fails(rbt_model_decode(bytes, size, &read), RBT_E_DATA,
                 "it was written by a newer Rubato (format 3)");
    rbt_free(bytes);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void bad_content_with_a_good_checksum_is_refused(void **state)
{
    (void)state;
    struct rbt_model model = example();
    struct rbt_model read = {0};
    uint64_t same[] = {1, 1, 2};
    uint8_t *bytes = NULL;
    size_t size = 0;
    model.arrays[0].keys = same;
    assert_ok(rbt_model_encode(&model, &bytes, &size));
    assert_fails(rbt_model_decode(bytes, size, &read), RBT_E_DATA, "keys are out of order");
    rbt_free(bytes);
    float nan[] = {1, 2, 3, NAN, 5, 6};
    model = example();
    model.arrays[0].values = nan;
    assert_ok(rbt_model_encode(&model, &bytes, &size));
    assert_fails(rbt_model_decode(bytes, size, &read), RBT_E_DATA, "a value is not a number");
    rbt_free(bytes);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void decoding_survives_failed_allocations(void **state)
{
    (void)state;
    const struct rbt_model model = example();
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_ok(rbt_model_encode(&model, &bytes, &size));
    for (unsigned nth = 1; nth <= 4; nth++) {
        struct rbt_model read = {0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_model_decode(bytes, size, &read);
        rbt_alloc_fail_nth(0);
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), 1);
    }
    rbt_free(bytes);
}

/* Every system call of writing and of reading fails once: the old file stays as it was, nothing
 * else is left, and a sentence names the file. */
static void every_failed_system_call_leaves_the_old_file(void **state)
{
    (void)state;
    char directory[] = "/tmp/rubato-model-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(directory));
    assert_true(snprintf(path, sizeof path, "%s/m.rbt", directory) > 0);
    struct rbt_model model = example();
    struct rbt_model read = {0};
    assert_ok(rbt_model_write(&model, path));
    const uint64_t digest = rbt_model_digest(&model);
    rbt_model_set(&model, "mean", 7.5);
    unsigned nth = 0;
    do {
        (void)rbt_io_fail_nth(++nth);
        const rbt_status st = rbt_model_write(&model, path);
        const bool has_failed = rbt_io_fail_nth(0) == 0;
        if (has_failed) {
            assert_int_equal(st, RBT_E_IO);
            assert_non_null(strstr(rbt_last_error(), "m.rbt"));
            assert_ok(rbt_model_read(path, &read));
            assert_int_equal(rbt_model_digest(&read), digest);
            rbt_model_free(&read);
            continue;
        }
        assert_ok(st);
        break;
    } while (true);
    assert_true(nth > 5); /* open, write, fsync, close, rename */
    nth = 0;
    do {
        (void)rbt_io_fail_nth(++nth);
        const rbt_status st = rbt_model_read(path, &read);
        const bool has_failed = rbt_io_fail_nth(0) == 0;
        assert_int_equal(st, has_failed ? RBT_E_IO : RBT_OK);
        rbt_model_free(&read);
        if (!has_failed) {
            break;
        }
        assert_int_equal(rbt_alloc_live(), 0);
    } while (true);
    assert_true(nth > 2);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0); /* which is empty: no temporary file was left */
}

/* Rows of keys that an array does not have are zero. */
static void arrays_are_made_and_copied(void **state)
{
    (void)state;
    const struct rbt_model model = example();
    const uint64_t wanted[] = {0, 5, 6, UINT64_MAX};
    const float expected[] = {0, 0, 0.25F, 1e-30F, 0, 0, 3e38F, 7.0F};
    float rows[8];
    rbt_model_array_rows(&model.arrays[0], wanted, 4, rows);
    assert_memory_equal(rows, expected, sizeof expected);
    struct rbt_model_array array;
    assert_true(rbt_model_array_make(&array, "sizes", 3, 2));
    assert_string_equal(array.name, "sizes");
    assert_int_equal(array.keys[2], 2);
    assert_true(array.values[5] == 0.0F);
    rbt_model_array_free(&array);
    assert_true(rbt_model_array_copy(&model.arrays[0], &array));
    assert_string_equal(array.name, "users");
    assert_memory_equal(array.keys, keys, sizeof keys);
    assert_memory_equal(array.values, values, sizeof values);
    rbt_model_array_free(&array);
    for (unsigned nth = 1; nth <= 2; nth++) {
        rbt_alloc_fail_nth(nth);
        assert_false(rbt_model_array_copy(&model.arrays[0], &array));
        rbt_alloc_fail_nth(0);
        assert_int_equal(array.count, 0);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_models_are_read_again),
        cmocka_unit_test(texts_are_read_again),
        cmocka_unit_test(arrays_are_made_and_copied),
        cmocka_unit_test(a_failed_write_leaves_nothing),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(every_changed_byte_is_noticed),
        cmocka_unit_test(bad_content_with_a_good_checksum_is_refused),
        cmocka_unit_test(decoding_survives_failed_allocations),
        cmocka_unit_test(every_failed_system_call_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
