/* algo/lda/lda_state_test.c - topics come back as they were written, or not at all. */
#include "base/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/lda/lda_state.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"

/* More than two blocks; read and written in pieces that do not divide them. */
enum { TOKENS = 2 * RBT_LDA_STATE_BLOCK + 1234, PIECE = 10007, TOPICS = 1000 };

struct fixture {
    char directory[64];
    char path[80];
    char path_new[84];
    struct rbt_lda_state_facts facts;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->directory, sizeof f->directory, "/tmp/rubato-state-XXXXXX") > 0);
    assert_non_null(mkdtemp(f->directory));
    assert_true(snprintf(f->path, sizeof f->path, "%s/topics.1", f->directory) > 0);
    assert_true(snprintf(f->path_new, sizeof f->path_new, "%s.new", f->path) > 0);
    f->facts = (struct rbt_lda_state_facts){.topic_count = TOPICS,
                                            .worker = 1,
                                            .worker_count = 3,
                                            .seed = 7,
                                            .tokens = TOKENS,
                                            .data = 0x1234};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path); /* if there is one */
    const bool is_clean = rmdir(f->directory) == 0;
    free(f);
    return is_clean && rbt_alloc_live() == 0 ? 0 : -1;
}

/* The topic of a token after so many passes. */
static uint16_t topic_of(uint64_t token, uint64_t passes)
{
    return (uint16_t)((token * 31 + passes * 17) % TOPICS);
}

/* Writes what `passes` passes would, and if there is something to read, compares it. */
static rbt_status make_pass(rbt_lda_state *state, uint64_t passes, uint64_t end)
{
    static uint16_t topics[PIECE];
    const bool is_found = rbt_lda_state_is_found(state);
    rbt_status st = rbt_lda_state_start(state);
    for (uint64_t at = 0; at < end && st == RBT_OK; at += PIECE) {
        const size_t count = end - at < PIECE ? (size_t)(end - at) : PIECE;
        st = is_found ? rbt_lda_state_read(state, topics, count) : RBT_OK;
        for (size_t i = 0; i < count && st == RBT_OK; i++) {
            assert_true(!is_found || topics[i] == topic_of(at + i, passes - 1));
            topics[i] = topic_of(at + i, passes);
        }
        st = st != RBT_OK ? st : rbt_lda_state_write(state, topics, count);
    }
    return st;
}

static void write_passes(struct fixture *f, uint64_t passes)
{
    rbt_lda_state *state = NULL;
    assert_ok(rbt_lda_state_open(f->directory, &f->facts, &state));
    for (uint64_t pass = 0; pass <= passes; pass++) {
        assert_ok(make_pass(state, pass, TOKENS));
        assert_ok(rbt_lda_state_commit(state));
        assert_true(rbt_lda_state_is_found(state));
        assert_int_equal(rbt_lda_state_passes(state), pass);
    }
    rbt_lda_state_close(state);
}

static void topics_come_back(void **context)
{
    struct fixture *f = *context;
    rbt_lda_state *state = NULL;
    write_passes(f, 2);
    assert_ok(rbt_lda_state_open(f->directory, &f->facts, &state));
    assert_true(rbt_lda_state_is_found(state));
    assert_int_equal(rbt_lda_state_passes(state), 2);
    assert_ok(make_pass(state, 3, TOKENS));
    assert_ok(rbt_lda_state_commit(state));
    rbt_lda_state_close(state);
}

/* A worker without documents has a state, too. */
static void no_tokens_are_a_state(void **context)
{
    struct fixture *f = *context;
    rbt_lda_state *state = NULL;
    f->facts.tokens = 0;
    for (uint64_t pass = 0; pass < 2; pass++) {
        assert_ok(rbt_lda_state_open(f->directory, &f->facts, &state));
        assert_int_equal(rbt_lda_state_is_found(state), pass > 0);
        assert_ok(rbt_lda_state_start(state));
        assert_ok(rbt_lda_state_commit(state));
        rbt_lda_state_close(state);
    }
}

static void half_a_pass_leaves_the_one_before(void **context)
{
    struct fixture *f = *context;
    rbt_lda_state *state = NULL;
    write_passes(f, 1);
    assert_ok(rbt_lda_state_open(f->directory, &f->facts, &state));
    assert_ok(make_pass(state, 2, TOKENS / 2));
    assert_int_equal(access(f->path_new, F_OK), 0);
    rbt_lda_state_close(state);
    assert_int_equal(access(f->path_new, F_OK), -1);
    assert_ok(rbt_lda_state_open(f->directory, &f->facts, &state));
    assert_int_equal(rbt_lda_state_passes(state), 1);
    assert_ok(make_pass(state, 2, TOKENS));
    rbt_lda_state_close(state);
}

static void one_training_at_a_time(void **context)
{
    struct fixture *f = *context;
    rbt_lda_state *state = NULL;
    rbt_lda_state *second = NULL;
    write_passes(f, 0);
    assert_ok(rbt_lda_state_open(f->directory, &f->facts, &state));
    assert_fails(rbt_lda_state_open(f->directory, &f->facts, &second), RBT_E_BUSY,
                 "used by another training");
    assert_ok(make_pass(state, 1, TOKENS));
    assert_ok(rbt_lda_state_commit(state));
    assert_fails(rbt_lda_state_open(f->directory, &f->facts, &second), RBT_E_BUSY,
                 "used by another");
    rbt_lda_state_close(state);
    assert_int_equal(unlink(f->path), 0);
    assert_ok(rbt_lda_state_open(f->directory, &f->facts, &state));
    assert_ok(rbt_lda_state_open(f->directory, &f->facts, &second));
    assert_ok(rbt_lda_state_start(state));
    assert_fails(rbt_lda_state_start(second), RBT_E_BUSY, "used by another");
    rbt_lda_state_close(second);
    assert_int_equal(access(f->path_new, F_OK), 0); /* it was not the second one's */
    rbt_lda_state_close(state);
}

static void what_does_not_fit_is_refused(void **context)
{
    struct fixture *f = *context;
    rbt_lda_state *state = NULL;
    write_passes(f, 0);
    struct rbt_lda_state_facts facts = f->facts;
    facts.topic_count = 50;
    assert_fails(rbt_lda_state_open(f->directory, &facts, &state), RBT_E_INVALID,
                 "belongs to a training with 1000 topics, not 50");
    facts = f->facts;
    facts.worker_count = 4;
    assert_fails(rbt_lda_state_open(f->directory, &facts, &state), RBT_E_INVALID,
                 "belongs to a training with 3 workers, not 4");
    facts = f->facts;
    facts.seed = 8;
    assert_fails(rbt_lda_state_open(f->directory, &facts, &state), RBT_E_INVALID,
                 "belongs to a training with --seed 7, not 8");
    facts = f->facts;
    facts.data++;
    assert_fails(rbt_lda_state_open(f->directory, &facts, &state), RBT_E_DATA,
                 "belongs to other training data");
    assert_null(state);
}

/* Reads all topics; the status of the first failure. */
static rbt_status read_all(struct fixture *f)
{
    rbt_lda_state *state = NULL;
    rbt_status st = rbt_lda_state_open(f->directory, &f->facts, &state);
    st = st != RBT_OK ? st : make_pass(state, 1, TOKENS);
    rbt_lda_state_close(state);
    return st;
}

static void damage_is_noticed(void **context)
{
    struct fixture *f = *context;
    write_passes(f, 0);
    const off_t size = RBT_LDA_STATE_HEAD_SIZE + 2 * TOKENS + 3 * RBT_LDA_STATE_CHECK_SIZE;
    const off_t places[] = {0, 8, 12, 40, 56, 64, 70000, size - 9, size - 1};
    const int fd = open(f->path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        uint8_t byte = 0;
        assert_int_equal(pread(fd, &byte, 1, places[i]), 1);
        const uint8_t wrong = byte ^ 4U;
        assert_int_equal(pwrite(fd, &wrong, 1, places[i]), 1);
        assert_fails(read_all(f), RBT_E_DATA, "cannot read \"");
        assert_int_equal(pwrite(fd, &byte, 1, places[i]), 1);
        assert_ok(read_all(f));
    }
    const off_t sizes[] = {size + 1, size - 1, 63, 0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(ftruncate(fd, sizes[i]), 0);
        assert_fails(read_all(f), RBT_E_DATA, "damaged");
    }
    assert_int_equal(close(fd), 0);
}

static void a_place_that_cannot_be_is_told(void **context)
{
    struct fixture *f = *context;
    rbt_lda_state *state = NULL;
    assert_fails(rbt_lda_state_open("/nowhere/at/all", &f->facts, &state), RBT_E_IO,
                 "cannot make the directory");
    char path[5000];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_fails(rbt_lda_state_open(path, &f->facts, &state), RBT_E_INVALID, "too long");
    for (unsigned nth = 1; nth <= 3; nth++) {
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_lda_state_open(f->directory, &f->facts, &state);
        rbt_alloc_fail_nth(0);
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

/* A pass is written whole, or what was there before stays and can be read. */
static void every_failed_system_call_leaves_the_pass_before(void **context)
{
    struct fixture *f = *context;
    write_passes(f, 0);
    for (unsigned nth = 1;; nth++) {
        rbt_lda_state *state = NULL;
        (void)rbt_io_fail_nth(nth);
        rbt_status st = rbt_lda_state_open(f->directory, &f->facts, &state);
        st = st != RBT_OK ? st : make_pass(state, 1, TOKENS);
        st = st != RBT_OK ? st : rbt_lda_state_commit(state);
        const bool has_failed = rbt_io_fail_nth(0) == 0;
        rbt_lda_state_close(state);
        if (!has_failed) {
            assert_ok(st);
            assert_true(nth > 8);
            break;
        }
        assert_int_equal(st, RBT_E_IO);
        assert_true(rbt_last_error()[0] != '\0');
        assert_int_equal(rbt_alloc_live(), 0);
        state = NULL;
        assert_ok(rbt_lda_state_open(f->directory, &f->facts, &state));
        assert_int_equal(rbt_lda_state_passes(state), 0);
        rbt_lda_state_close(state);
    }
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(topics_come_back),
        TEST(no_tokens_are_a_state),
        TEST(half_a_pass_leaves_the_one_before),
        TEST(one_training_at_a_time),
        TEST(what_does_not_fit_is_refused),
        TEST(damage_is_noticed),
        TEST(a_place_that_cannot_be_is_told),
        TEST(every_failed_system_call_leaves_the_pass_before),
    };
#undef TEST
    return cmocka_run_group_tests_name("algo/lda_state", tests, NULL, NULL);
}
