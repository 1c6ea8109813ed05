/* data/documents_test.c - documents of all formats are read, dealt out, and mistakes explained. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/documents.h"
#include "data/lines.h"

static rbt_status parse(const char *text, const struct rbt_document_options *options,
                        struct rbt_documents *documents)
{
    const struct rbt_text all = {.name = "f", .bytes = text, .size = strlen(text), .first_line = 1};
    return rbt_documents_parse(options, &all, documents);
}

/* Three documents, the second empty: word 1 twice and word 3; none; word 2 four times. */
static void all_formats_say_the_same(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "3\n3\n3\n1 1 2\n1 3 1\n3 2 4\n",
        "3\r\n3\r\n3\r\n1\t3\t1\r\n1 1 2\r\n3 2 4",
        "3\n3\n5\n1 1 1\n1 3 1\n1 1 1\n3 2 3\n3 2 1\n",
        "0 1:2 3:1\n0\n1 2:4\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct rbt_document_options options = {0};
        struct rbt_documents documents = {0};
        assert_ok(parse(texts[i], &options, &documents));
        assert_int_equal(documents.count, 3);
        assert_int_equal(documents.tokens, 7);
        assert_int_equal(documents.word_count, 3);
        static const uint64_t offsets[] = {0, 2, 2, 3};
        static const uint32_t words[] = {0, 2, 1};
        static const uint32_t counts[] = {2, 1, 4};
        assert_memory_equal(documents.offsets, offsets, sizeof offsets);
        assert_memory_equal(documents.words, words, sizeof words);
        assert_memory_equal(documents.counts, counts, sizeof counts);
        rbt_documents_free(&documents);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void text_becomes_words(void **state)
{
    (void)state;
    const char *text = "The cat sat; THE cat's x hat.\n\nCat (the)\n";
    const struct rbt_document_options options = {.format = RBT_FORMAT_TEXT, .min_count = 2};
    struct rbt_documents documents = {0};
    assert_ok(parse(text, &options, &documents));
    assert_int_equal(documents.count, 3);
    assert_int_equal(documents.word_count, 2);
    assert_int_equal(documents.tokens, 6);
    assert_string_equal(rbt_vocabulary_word(&documents.vocabulary, 0), "cat"); /* alphabetical */
    assert_string_equal(rbt_vocabulary_word(&documents.vocabulary, 1), "the");
    assert_int_equal(documents.offsets[1], 2);
    assert_int_equal(documents.offsets[2], 2);
    assert_int_equal(documents.counts[0], 2);
    assert_int_equal(rbt_vocabulary_find(&documents.vocabulary, "ca", 2), RBT_WORD_NONE);
    assert_int_equal(rbt_vocabulary_find(&documents.vocabulary, "cats", 4), RBT_WORD_NONE);

    /* What a model knows is all that counts. */
    const struct rbt_document_options again = {
        .format = RBT_FORMAT_TEXT, .known = &documents.vocabulary, .known_count = 2};
    struct rbt_documents other = {0};
    assert_ok(parse("a dog and THE cat", &again, &other));
    assert_int_equal(other.tokens, 2);
    assert_int_equal(other.words[1], 1);
    rbt_documents_free(&other);
    assert_ok(parse("1\n9\n2\n1 2 3\n1 9 1\n",
                    &(struct rbt_document_options){.known_count = 2, .known = again.known},
                    &other));
    assert_int_equal(other.tokens, 3);
    rbt_documents_free(&other);
    rbt_documents_free(&documents);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void word_files_are_used(void **state)
{
    (void)state;
    char path[] = "/tmp/rubato-words-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    const char content[] = "the 12\nsat\n";
    assert_int_equal(write(fd, content, sizeof content - 1), sizeof content - 1);
    assert_int_equal(close(fd), 0);
    struct rbt_documents documents = {0};
    struct rbt_document_options options = {
        .format = RBT_FORMAT_TEXT, .min_count = 1, .stop_words = path};
    assert_ok(parse("the cat sat", &options, &documents));
    assert_int_equal(documents.word_count, 1);
    assert_string_equal(rbt_vocabulary_word(&documents.vocabulary, 0), "cat");
    rbt_documents_free(&documents);
    options.vocabulary = path;
    options.stop_words = NULL;
    assert_ok(parse("the cat sat", &options, &documents));
    assert_int_equal(documents.word_count, 2);
    assert_int_equal(documents.tokens, 2);
    rbt_documents_free(&documents);
    options.format = RBT_FORMAT_AUTO;
    assert_fails(parse("1\n3\n1\n1 3 1\n", &options, &documents), RBT_E_DATA,
                 "word 3 is out of range: the vocabulary has 2 words");
    assert_int_equal(unlink(path), 0);
}

/* Clock times and scores are no features. */
static void text_with_numbers_is_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "The shuttle landed at 12:30 today\nhockey goal goal\n",
        "12:30 lunch, 13:00 work\n",
        "2026 was the year of 3:2\n",
        "1 2:3 is what it says\nand more\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct rbt_document_options options = {.min_count = 1};
        struct rbt_documents documents = {0};
        assert_ok(parse(texts[i], &options, &documents));
        assert_true(documents.vocabulary.count > 0);
        assert_true(documents.is_own_numbers);
        rbt_documents_free(&documents);
    }
    const struct rbt_document_options options = {0};
    struct rbt_documents documents = {0};
    assert_fails(parse("1 2:3 goals\n", &options, &documents), RBT_E_DATA, "\"goals\" is not a");
    assert_non_null(strstr(rbt_last_hint(), "--format text"));
    assert_fails(parse("1 0:3\n", &options, &documents), RBT_E_DATA, "feature 0");
    assert_non_null(strstr(rbt_last_hint(), "--zero-based")); /* the better hint stays */
    const struct rbt_text named = {
        .name = "f.svm", .bytes = "good 1:2\n", .size = 9, .first_line = 1};
    assert_fails(rbt_documents_parse(&options, &named, &documents), RBT_E_DATA, "label \"good\"");
    assert_fails(parse("moon \x01\x02\n", &options, &documents), RBT_E_DATA, "it is not text");
    const struct rbt_text zero = {.name = "f", .bytes = "moon\0moon", .size = 9, .first_line = 1};
    assert_fails(rbt_documents_parse(&options, &zero, &documents), RBT_E_DATA, "it is not text");
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Numbers that a model gave to words of text mean nothing elsewhere. */
static void models_of_text_want_text(void **state)
{
    (void)state;
    struct rbt_vocabulary words = {0};
    uint32_t number = 0;
    assert_ok(rbt_vocabulary_add(&words, "moon", 4, &number));
    struct rbt_document_options options = {
        .known = &words, .known_count = 1, .is_known_by_text = true};
    struct rbt_documents documents = {0};
    assert_ok(parse("3 12:30 moon\n", &options, &documents));
    assert_int_equal(documents.tokens, 1);
    rbt_documents_free(&documents);
    assert_ok(parse("unheard\n", &options, &documents));
    assert_int_equal(documents.count, 1);
    rbt_documents_free(&documents);
    assert_fails(parse("1\n1\n1\n1 1 1\n", &options, &documents), RBT_E_INVALID,
                 "it has numbers of words");
    assert_fails(parse("1 1:1\n", &options, &documents), RBT_E_INVALID, "it has numbers of words");
    options.format = RBT_FORMAT_LIBSVM;
    assert_fails(parse("1 1:1\n", &options, &documents), RBT_E_INVALID, "it has numbers of words");
    const struct rbt_document_options stop = {.stop_words = "stop.txt"};
    assert_fails(parse("1 1:1\n", &stop, &documents), RBT_E_INVALID, "\"--stop-words\" needs text");
    rbt_vocabulary_free(&words);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void mistakes_are_explained(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } wrong[] = {
        {"2\n3\n1\n1 4 1\n", "cannot read \"f\", line 4: word 4 is out of range"},
        {"2\n3\n1\n0 1 1\n", "document 0 is out of range"},
        {"2\n3\n1\n3 1 1\n", "document 3 is out of range: the head says 2"},
        {"2\n3\n2\n2 1 1\n1 1 1\n", "line 5: document 1 follows document 2"},
        {"2\n3\n1\n1 1\n", "a line is: document word count"},
        {"2\n3\n1\n1 1 x\n", "a line is: document word count"},
        {"2\n3\n1\n1 1 99999999\n", "a count must be below"},
        {"1\n1\n2\n1 1 16777215\n1 1 1\n", "one word 16777216 times or more"},
        {"2\n3\n9\n1 1 1\n", "its head announces 9 lines, but it has 1"},
        {"x\n", "the number of documents is missing"},
        {"2\n3\n", "it ends within its head"},
        {"9000000\n3\n1\n9000000 1 1\n", "the gap is too large"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct rbt_document_options options = {.format = RBT_FORMAT_BOW};
        struct rbt_documents documents = {0};
        assert_fails(parse(wrong[i].text, &options, &documents), RBT_E_DATA, wrong[i].message);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    const struct rbt_document_options options = {0};
    struct rbt_documents documents = {0};
    assert_fails(parse("1 1:0.5\n", &options, &documents), RBT_E_DATA, "which is not a count");
    assert_fails(parse("1 1:-2\n", &options, &documents), RBT_E_DATA, "which is not a count");
    const struct rbt_document_options csv = {.format = RBT_FORMAT_CSV};
    assert_fails(parse("1,2\n", &csv, &documents), RBT_E_INVALID, "do not hold documents");
    const struct rbt_vocabulary nothing = {0};
    const struct rbt_document_options nameless = {.known = &nothing, .known_count = 3};
    assert_fails(parse("some text", &nameless, &documents), RBT_E_INVALID, "is text");
}

static void shares_are_even_and_complete(void **state)
{
    (void)state;
    enum { COUNT = 50, SHARES = 4 };
    char text[COUNT * 40 + 40];
    int at = snprintf(text, sizeof text, "%d\n9\n%d\n", COUNT, COUNT);
    for (int d = 0; d < COUNT; d++) {
        at += snprintf(text + at, sizeof text - (size_t)at, "%d %d %d\n", d + 1, d % 9 + 1, d % 3);
    }
    const struct rbt_document_options options = {.format = RBT_FORMAT_BOW};
    struct rbt_documents documents = {0};
    assert_ok(parse(text, &options, &documents));
    uint64_t counts[10] = {0};
    uint64_t total = 0;
    for (uint32_t i = 0; i < SHARES; i++) {
        struct rbt_document_share share = {0};
        assert_ok(rbt_document_share_take(&documents, 7, i, SHARES, &share));
        const uint64_t tokens = share.offsets[share.count];
        assert_true(tokens + 3 > documents.tokens / SHARES);
        assert_true(tokens < documents.tokens / SHARES + 3);
        for (size_t d = 0; d < share.count; d++) {
            assert_true(share.offsets[d + 1] > share.offsets[d]); /* none is empty */
        }
        for (uint64_t k = 0; k < tokens; k++) {
            counts[share.keys[share.tokens[k]]]++;
        }
        for (size_t k = 1; k < share.key_count; k++) {
            assert_true(share.keys[k] > share.keys[k - 1]);
        }
        total += tokens;
        rbt_document_share_free(&share);
    }
    assert_int_equal(total, documents.tokens);
    for (size_t k = 0; k < documents.offsets[documents.count]; k++) {
        counts[documents.words[k] + 1] -= documents.counts[k];
    }
    for (size_t w = 0; w < 10; w++) {
        assert_int_equal(counts[w], 0);
    }
    rbt_documents_free(&documents);
}

static void missing_memory_is_noticed(void **state)
{
    (void)state;
    const struct rbt_document_options options = {.format = RBT_FORMAT_TEXT, .min_count = 1};
    for (unsigned nth = 1; nth < 60; nth++) {
        struct rbt_documents documents = {0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = parse("one two three\ntwo three\n", &options, &documents);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        rbt_documents_free(&documents);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_formats_say_the_same),     cmocka_unit_test(text_becomes_words),
        cmocka_unit_test(word_files_are_used),          cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(shares_are_even_and_complete), cmocka_unit_test(missing_memory_is_noticed),
        cmocka_unit_test(text_with_numbers_is_text),    cmocka_unit_test(models_of_text_want_text),
    };
    return cmocka_run_group_tests_name("data/documents", tests, NULL, NULL);
}
