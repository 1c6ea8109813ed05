/* fuzz/text_fuzz.c - parses a text as examples and judges the result.
 *
 * Some texts, chosen by their hash, are repeated until threads have something to share; the copies
 * must then give the same examples again, because lines are independent (a header counts once, so
 * CSV is not repeated). */
#include "fuzz/text_fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash.h"
#include "data/lines.h"

enum {
    REPEATED_SIZE = 100 * 1024, /* three chunks */
    ONE_IN = 64,                /* texts that are repeated, which costs as much as 1000 others */
};

static void check(const struct rbt_examples *examples, bool is_zero_based)
{
    RBT_ASSERT(examples->count > 0);
    RBT_ASSERT(examples->offsets[0] == 0);
    for (size_t i = 0; i < examples->count; i++) {
        RBT_ASSERT(examples->offsets[i] <= examples->offsets[i + 1]);
        RBT_ASSERT(isfinite(examples->labels[i]));
        for (uint64_t k = examples->offsets[i]; k < examples->offsets[i + 1]; k++) {
            RBT_ASSERT(isfinite(examples->values[k]));
            RBT_ASSERT(examples->keys[k] > 0 || is_zero_based);
            RBT_ASSERT(k == examples->offsets[i] || examples->keys[k - 1] < examples->keys[k]);
        }
    }
}

/* The examples of `many` are those of `one`, several times. */
static void compare(const struct rbt_examples *one, const struct rbt_examples *many)
{
    RBT_ASSERT(many->count % one->count == 0);
    for (size_t i = 0; i < many->count; i++) {
        const size_t j = i % one->count;
        const uint64_t size = one->offsets[j + 1] - one->offsets[j];
        RBT_ASSERT(many->labels[i] == one->labels[j]);
        RBT_ASSERT(many->offsets[i + 1] - many->offsets[i] == size);
        for (uint64_t k = 0; k < size; k++) {
            RBT_ASSERT(many->keys[many->offsets[i] + k] == one->keys[one->offsets[j] + k]);
            RBT_ASSERT(many->values[many->offsets[i] + k] == one->values[one->offsets[j] + k]);
        }
    }
}

/* Parses copies of the text, with line ends between them, by three threads. */
static void parse_repeated(struct rbt_data_options options, const struct rbt_text *text,
                           const struct rbt_examples *one)
{
    const size_t count = REPEATED_SIZE / (text->size + 1) + 1;
    char *bytes = rbt_calloc(count * (text->size + 1) + 1, 1);
    RBT_ASSERT(bytes != NULL);
    for (size_t i = 0; i < count; i++) {
        memcpy(bytes + i * (text->size + 1), text->bytes, text->size);
        bytes[(i + 1) * (text->size + 1) - 1] = '\n';
    }
    const struct rbt_text repeated = {
        .name = "fuzz", .bytes = bytes, .size = count * (text->size + 1), .first_line = 1};
    struct rbt_examples many = {0};
    options.threads = 3;
    RBT_ASSERT(rbt_examples_parse(&options, &repeated, &many) == RBT_OK);
    compare(one, &many);
    rbt_examples_free(&many);
    rbt_free(bytes);
}

void rbt_text_fuzz_examples(const uint8_t *bytes, size_t size, enum rbt_format format)
{
    if (size == 0) {
        return;
    }
    const unsigned choice = bytes[0];
    struct rbt_data_options options = {.format = (choice & 4) != 0 ? RBT_FORMAT_AUTO : format,
                                       .threads = 1,
                                       .is_zero_based = (choice & 1) != 0,
                                       .has_binary_label = (choice & 2) != 0,
                                       .label_column = (int64_t)(choice >> 3 & 3) - 1};
    char *copy = rbt_calloc(size, 1); /* the text without the first byte, and a zero */
    RBT_ASSERT(copy != NULL);
    memcpy(copy, bytes + 1, size - 1);
    const struct rbt_text text = {.name = "fuzz", .bytes = copy, .size = size - 1, .first_line = 1};
    struct rbt_examples examples = {0};
    if (rbt_examples_parse(&options, &text, &examples) == RBT_OK) {
        const bool has_mark = size > 3 && memcmp(copy, "\xef\xbb\xbf", 3) == 0; /* only once */
        const bool is_chosen = rbt_hash_bytes(bytes, size, 0) % ONE_IN == 0;
        check(&examples, options.is_zero_based);
        if (options.format == RBT_FORMAT_LIBSVM && !has_mark && is_chosen) {
            parse_repeated(options, &text, &examples);
        }
    }
    rbt_examples_free(&examples);
    rbt_free(copy);
    RBT_ASSERT(rbt_alloc_live() == 0);
}

char *rbt_text_fuzz_string(const uint8_t *bytes, size_t size)
{
    const size_t length = size > 0 ? strnlen((const char *)bytes, size) : 0;
    char *text = rbt_calloc(length + 1, 1);
    RBT_ASSERT(text != NULL);
    if (length > 0) {
        memcpy(text, bytes, length);
    }
    return text;
}

int rbt_text_fuzz_file(const uint8_t *bytes, size_t size, char path[RBT_TEXT_FUZZ_PATH])
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    RBT_ASSERT(fd >= 0);
    RBT_ASSERT(size == 0 || write(fd, bytes, size) == (ssize_t)size);
    (void)snprintf(path, RBT_TEXT_FUZZ_PATH, "/proc/self/fd/%d", fd); /* fits */
    return fd;
}
