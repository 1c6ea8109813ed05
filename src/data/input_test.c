/* data/input_test.c - files come back as they were written, however they are compressed, and what
 * is cut off or damaged is noticed. Every test works in a folder of its own. */
#include "base/test.h"

#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/input.h"

enum { TEXT_SIZE = 3000000, PACKED_SIZE_MAX = 4000000 };

struct fixture {
    char folder[64];
    char path[128];
    char *text;      /* TEXT_SIZE bytes that do not compress too well */
    uint8_t *packed; /* room for it, compressed */
};

static int set_up(void **state)
{
    struct fixture *f = rbt_calloc(1, sizeof *f);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/input_test.XXXXXX");
    if (mkdtemp(f->folder) == NULL) {
        return -1;
    }
    (void)snprintf(f->path, sizeof f->path, "%s/file", f->folder);
    f->text = rbt_calloc(TEXT_SIZE, 1);
    f->packed = rbt_calloc(PACKED_SIZE_MAX, 1);
    uint32_t random = 1;
    for (size_t i = 0; i < TEXT_SIZE; i++) {
        random = random * 1664525 + 1013904223;
        f->text[i] = (char)('0' + (random >> 24) % 10);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path);
    (void)rmdir(f->folder);
    rbt_free(f->text);
    rbt_free(f->packed);
    rbt_free(f);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

static void write_file(const struct fixture *f, const void *bytes, size_t size)
{
    FILE *file = fopen(f->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static size_t pack_zstd(struct fixture *f, size_t offset, const char *text, size_t size)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(context);
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)));
    const size_t packed =
        ZSTD_compress2(context, f->packed + offset, PACKED_SIZE_MAX - offset, text, size);
    assert_false(ZSTD_isError(packed));
    (void)ZSTD_freeCCtx(context); /* always succeeds for a valid pointer */
    return packed;
}

static size_t pack_gzip(struct fixture *f, size_t offset, const char *text, size_t size)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)text;
    stream.avail_in = (uInt)size;
    stream.next_out = f->packed + offset;
    stream.avail_out = (uInt)(PACKED_SIZE_MAX - offset);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const size_t packed = stream.total_out;
    assert_int_equal(deflateEnd(&stream), Z_OK);
    return packed;
}

static size_t pack_xz(struct fixture *f, size_t offset, const char *text, size_t size)
{
    size_t end = offset;
    assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, (const uint8_t *)text, size,
                                             f->packed, &end, PACKED_SIZE_MAX),
                     LZMA_OK);
    return end - offset;
}

typedef size_t (*packer)(struct fixture *f, size_t offset, const char *text, size_t size);
static const packer packers[] = {pack_zstd, pack_gzip, pack_xz};
enum { PACKERS = 3 };

static void assert_reads_back(const struct fixture *f)
{
    struct rbt_input input = {0};
    assert_ok(rbt_input_read(f->path, &input));
    assert_int_equal(input.size, TEXT_SIZE);
    assert_memory_equal(input.bytes, f->text, TEXT_SIZE);
    assert_int_equal(input.bytes[input.size], 0);
    rbt_input_free(&input);
}

static void plain_files_come_back(void **state)
{
    struct fixture *f = *state;
    write_file(f, f->text, TEXT_SIZE);
    assert_reads_back(f);
}

static void compressed_files_come_back_whatever_their_name(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < PACKERS; i++) {
        write_file(f, f->packed, packers[i](f, 0, f->text, TEXT_SIZE));
        assert_reads_back(f);
    }
}

static void compressed_files_may_have_several_parts(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < PACKERS; i++) {
        const size_t half = TEXT_SIZE / 2;
        size_t size = packers[i](f, 0, f->text, half);
        size += packers[i](f, size, f->text + half, TEXT_SIZE - half);
        write_file(f, f->packed, size);
        assert_reads_back(f);
    }
}

static void truncated_files_are_noticed(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < PACKERS; i++) {
        const size_t size = packers[i](f, 0, f->text, TEXT_SIZE);
        const size_t cuts[] = {7, 20, size / 2, size - 1};
        for (size_t k = 0; k < 4; k++) {
            struct rbt_input input = {0};
            write_file(f, f->packed, cuts[k]);
            assert_fails(rbt_input_read(f->path, &input), RBT_E_DATA,
                         "/file\": the compressed data ends early");
            assert_null(input.bytes);
        }
    }
}

static void damaged_files_are_noticed(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < PACKERS; i++) {
        const size_t size = packers[i](f, 0, f->text, TEXT_SIZE);
        memset(f->packed + size / 2, 0xff, 64);
        struct rbt_input input = {0};
        write_file(f, f->packed, size);
        assert_fails(rbt_input_read(f->path, &input), RBT_E_DATA, "the compressed data is damaged");
    }
}

static void files_without_content_are_refused(void **state)
{
    struct fixture *f = *state;
    struct rbt_input input = {0};
    write_file(f, "", 0);
    assert_fails(rbt_input_read(f->path, &input), RBT_E_DATA, "/file\": the file is empty");
    write_file(f, f->packed, pack_gzip(f, 0, "", 0));
    assert_fails(rbt_input_read(f->path, &input), RBT_E_DATA, "/file\": the file is empty");
}

/* Reads the file in parts, puts them together again, and looks at their borders. */
static void assert_comes_in_parts(const struct fixture *f, size_t part_size, size_t size)
{
    rbt_input_reader *reader = NULL;
    struct rbt_input_part part = {0};
    size_t total = 0;
    assert_ok(rbt_input_open(f->path, part_size, &reader));
    for (;;) { /* ends with the file */
        assert_ok(rbt_input_next(reader, &part));
        if (part.size == 0) {
            break;
        }
        assert_true(part.bytes[part.size] == '\0');
        assert_true(total + part.size <= size);
        assert_memory_equal(part.bytes, f->text + total, part.size);
        total += part.size;
        assert_true(total == size || part.bytes[part.size - 1] == '\n');
    }
    assert_int_equal(total, size);
    rbt_input_close(reader);
}

static void files_come_in_parts_of_whole_lines(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 70; i < 200000; i += i % 3000) {
        f->text[i] = '\n';
    }
    write_file(f, f->text, TEXT_SIZE); /* the last line is very long, and has no end */
    assert_comes_in_parts(f, 1, TEXT_SIZE);
    assert_comes_in_parts(f, 65536, TEXT_SIZE);
    assert_comes_in_parts(f, TEXT_SIZE * 2, TEXT_SIZE);
    const size_t size = ZSTD_compress(f->packed, PACKED_SIZE_MAX, f->text, TEXT_SIZE, 1);
    write_file(f, f->packed, size);
    assert_comes_in_parts(f, 65536, TEXT_SIZE);
}

static void the_first_part_is_enough_to_guess_from(void **state)
{
    struct fixture *f = *state;
    rbt_input_reader *reader = NULL;
    struct rbt_input_part part = {0};
    for (size_t i = 9; i < TEXT_SIZE; i += 10) {
        f->text[i] = '\n';
    }
    write_file(f, f->text, TEXT_SIZE);
    assert_ok(rbt_input_open(f->path, 100, &reader));
    assert_ok(rbt_input_next(reader, &part));
    assert_true(part.size >= RBT_INPUT_LINES_MIN * 10 && part.size < TEXT_SIZE);
    assert_ok(rbt_input_next(reader, &part));
    assert_true(part.size < RBT_INPUT_LINES_MIN * 10);
    rbt_input_close(reader);
}

static void missing_files_are_named(void **state)
{
    struct fixture *f = *state;
    struct rbt_input input = {0};
    assert_fails(rbt_input_read("/nowhere/f", &input), RBT_E_NOTFOUND,
                 "cannot open \"/nowhere/f\": No such file or directory");
    assert_fails(rbt_input_read(f->folder, &input), RBT_E_IO, "Is a directory");
}

static void reading_survives_every_failed_allocation(void **state)
{
    struct fixture *f = *state;
    const size_t live = rbt_alloc_live();
    write_file(f, f->packed, pack_gzip(f, 0, f->text, TEXT_SIZE));
    for (unsigned nth = 1;; nth++) { /* ends when nothing fails any more */
        struct rbt_input input = {0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_input_read(f->path, &input);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_input_free(&input);
            assert_true(nth > 3);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plain_files_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(compressed_files_come_back_whatever_their_name, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(compressed_files_may_have_several_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(truncated_files_are_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_files_are_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_without_content_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_come_in_parts_of_whole_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_part_is_enough_to_guess_from, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_files_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reading_survives_every_failed_allocation, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("data/input", tests, NULL, NULL);
}
