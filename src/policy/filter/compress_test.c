/* policy/filter/compress_test.c - lz4 and zstd: what they save on values like those of a training,
 * and what they refuse. That bytes come back is in elements_test.c. */
#include "policy/filter/filter_rig.h"

#include "policy/filter/builtin.h"

/* The gradients of a sparse example set: one weight in `one_in` is touched, sizes are spread. */
static void draw_gradients(struct rig *rig, uint64_t one_in)
{
    struct rbt_rng rng;
    rbt_rng_init(&rng, 41, one_in, 0);
    for (size_t i = 0; i < rig->count; i++) {
        const double size = exp(rbt_rng_normal(&rng) - 4);
        const double sign = rbt_rng_below(&rng, 2) == 0 ? -1 : 1;
        rig->values[i] = rbt_rng_below(&rng, one_in) == 0 ? (float)(sign * size) : 0;
    }
}

static double ratio(const char *text, uint64_t one_in)
{
    struct rig *rig = rig_open(text, RBT_FILTER_PUSH, RIG_MAX);
    draw_gradients(rig, one_in);
    rig_apply(rig);
    const size_t bytes = rig_deliver(rig);
    rig_close(rig);
    return RIG_MAX * 4.0 / (double)bytes;
}

static void codes_compress_better_than_floats(void **state)
{
    (void)state;
    assert_true(ratio("fixed:8", 1) > 3.9);
    assert_true(ratio("fixed:8,lz4", 4) > 4.2); /* three in four are zero */
    assert_true(ratio("fixed:8,lz4", 20) > 12); /* nineteen in twenty */
    assert_true(ratio("lz4", 4) < ratio("fixed:8,lz4", 4));
    assert_true(ratio("fixed:8,zstd", 4) > ratio("fixed:8,lz4", 4));
    assert_true(ratio("zeros,fixed:8", 20) > 10);
    assert_true(ratio("zeros,fixed:8,zstd", 20) >= ratio("zeros,fixed:8", 20));
}

static void what_does_not_pay_is_left_out(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 43, 0, 0);
    struct rig *rig = rig_open("lz4,zstd:19", RBT_FILTER_PUSH, RIG_MAX);
    for (size_t i = 0; i < RIG_MAX; i++) {
        rig->values[i] = rig_float((uint32_t)rbt_rng_next(&rng));
    }
    rig_apply(rig);
    assert_int_equal(rig_deliver(rig), 1 + RIG_MAX * 4);
    rig_close(rig);
}

/* Both directly: other sizes than were packed, and damage. */
static void other_sizes_are_refused(void **state)
{
    (void)state;
    static const struct rbt_filter *const filters[] = {&rbt_filter_lz4, &rbt_filter_zstd};
    static const char zeros[10000];
    static char packed[10000];
    static char back[10001];
    for (size_t i = 0; i < 2; i++) {
        const struct rbt_filter *filter = filters[i];
        const struct rbt_filter_setup setup = {.struct_size = sizeof setup, .table = "t"};
        void *self = NULL;
        if (filter->create != NULL) {
            assert_ok(filter->create(&setup, &self));
        }
        const size_t bytes = filter->pack(self, zeros, sizeof zeros, packed, sizeof packed);
        assert_true(bytes > 0 && bytes < 100);
        assert_ok(filter->unpack(self, packed, bytes, back, sizeof zeros));
        assert_fails(filter->unpack(self, packed, bytes, back, sizeof zeros + 1), RBT_E_PROTOCOL,
                     "cannot unpack");
        assert_fails(filter->unpack(self, packed, bytes, back, sizeof zeros - 1), RBT_E_PROTOCOL,
                     "cannot unpack");
        assert_fails(filter->unpack(self, packed, bytes - 1, back, sizeof zeros), RBT_E_PROTOCOL,
                     "cannot unpack");
        assert_fails(filter->unpack(self, "junk", 4, back, 10), RBT_E_PROTOCOL, "cannot unpack");
        assert_int_equal(filter->pack(self, zeros, sizeof zeros, packed, 4), 0); /* no room */
        if (filter->destroy != NULL) {
            filter->destroy(self);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_compress_better_than_floats),
        cmocka_unit_test(what_does_not_pay_is_left_out),
        cmocka_unit_test(other_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
