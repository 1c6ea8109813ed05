/* wire/frame_test.c - the header's bytes, and what is refused. */
#include "base/test.h"

#include "wire/frame.h"

static const struct rbt_frame FRAME = {
    .kind = RBT_FRAME_PUSH, .flags = 0x0102, .length = 40, .worker = 3, .id = 0x1122334455667788};

static void test_bytes(void **state)
{
    (void)state;
    static const char GOLDEN[RBT_FRAME_HEADER] = "RBTO\6\0\4\0\2\1\0\0\x28\0\0\0\3\0\0\0\0\0\0\0"
                                                 "\x88\x77\x66\x55\x44\x33\x22\x11";
    char bytes[RBT_FRAME_HEADER];
    memset(bytes, 0x55, sizeof bytes);
    rbt_frame_put(bytes, &FRAME);
    assert_memory_equal(bytes, GOLDEN, sizeof bytes);
    struct rbt_frame frame;
    assert_ok(rbt_frame_get(bytes, 40, &frame));
    assert_int_equal(frame.kind, FRAME.kind);
    assert_int_equal(frame.flags, FRAME.flags);
    assert_int_equal(frame.length, FRAME.length);
    assert_int_equal(frame.worker, FRAME.worker);
    assert_int_equal(frame.id, FRAME.id);
}

/* Changes a byte of a good header and expects the sentence. */
static void expect_refusal(size_t place, char value, const char *text)
{
    char bytes[RBT_FRAME_HEADER];
    struct rbt_frame frame = {.kind = 99};
    rbt_frame_put(bytes, &FRAME);
    bytes[place] = value;
    assert_fails(rbt_frame_get(bytes, 64, &frame), RBT_E_PROTOCOL, text);
    assert_int_equal(frame.kind, 99); /* untouched */
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal(0, 'G', "the peer does not speak Rubato's protocol");
    expect_refusal(3, 'o', "does not speak");
    expect_refusal(4, 3, "the peer speaks version 3 of the protocol, this is version 6");
    expect_refusal(5, 1, "the peer speaks version 262 of the protocol, this is version 6");
    expect_refusal(4, 0, "version 0");
    expect_refusal(6, 0, "mean nothing");
    expect_refusal(10, 1, "mean nothing");
    expect_refusal(23, 1, "mean nothing");
    expect_refusal(12, 41, "41 bytes, which is not a multiple of 8");
    expect_refusal(12, 72, "72 bytes; at most 64 may come");
    expect_refusal(15, 127, "at most 64 may come");
}

static void test_padded(void **state)
{
    (void)state;
    assert_int_equal(rbt_frame_padded(0), 0);
    assert_int_equal(rbt_frame_padded(1), 8);
    assert_int_equal(rbt_frame_padded(8), 8);
    assert_int_equal(rbt_frame_padded(RBT_FRAME_BODY_MAX - 7), RBT_FRAME_BODY_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
