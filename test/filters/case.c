/* test/filters/case.c - users' filters, and what can be wrong with one. It is built once per case:
 * -DCASE_SELECT, -DCASE_ABI, ... */
#include <rubato/filter.h>
#include <stddef.h>
#include <string.h>

#define MAYBE __attribute__((unused)) static

/* Takes a number, and fails without a word. */
MAYBE rbt_status create_silently(const struct rbt_filter_setup *setup, void **self)
{
    (void)setup;
    (void)self;
    return RBT_E_IO;
}

MAYBE rbt_status select_positive(void *self, const struct rbt_filter_rows *rows)
{
    (void)self;
    for (size_t i = 0; i < rows->row_count * rows->width; i++) {
        rows->keep[i] &= rows->values[i] > 0;
    }
    return RBT_OK;
}

/* Signs only; or codes of a size that there is not. */
MAYBE rbt_status round_signs(void *self, const struct rbt_filter_rows *rows,
                             struct rbt_filter_code *code)
{
    (void)self;
    for (size_t i = 0; i < rows->row_count * rows->width; i++) {
        if (rows->keep[i]) {
            rows->values[i] = rows->values[i] < 0 ? -0.5F : 0.5F;
        }
    }
#if defined(CASE_WIDE)
    code->bits = 33;
#else
    code->bits = 1;
#endif
    code->scale = 0.5F;
    return RBT_OK;
}

MAYBE void encode_signs(const struct rbt_filter_code *code, const float *values, size_t count,
                        uint32_t *codes)
{
    (void)code;
    for (size_t i = 0; i < count; i++) {
        codes[i] = values[i] > 0;
    }
}

MAYBE void decode_signs(const struct rbt_filter_code *code, const uint32_t *codes, size_t count,
                        float *values)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = codes[i] != 0 ? code->scale : -code->scale;
    }
}

/* Only bytes that are all equal pay. */
MAYBE size_t pack_equal(void *self, const void *from, size_t bytes, void *to, size_t capacity)
{
    (void)self;
    const char *all = from;
    for (size_t i = 1; i < bytes; i++) {
        if (all[i] != all[0]) {
            return 0;
        }
    }
    if (capacity == 0) {
        return 0;
    }
    memcpy(to, from, 1);
    return 1;
}

MAYBE rbt_status unpack_equal(void *self, const void *from, size_t bytes, void *to, size_t count)
{
    (void)self;
    if (bytes != 1) {
        return RBT_E_PROTOCOL;
    }
    memset(to, *(const char *)from, count);
    return RBT_OK;
}

#if defined(CASE_ABI)
#define ABI 99
#else
#define ABI RBT_FILTER_ABI
#endif
#if defined(CASE_SIZE)
#define SIZE 16
#else
#define SIZE sizeof rbt_filter
#endif
#if defined(CASE_NAME)
#define NAME NULL
#else
#define NAME "mine"
#endif
#if defined(CASE_ROUND) || defined(CASE_WIDE) || defined(CASE_NO_ROUND) ||                         \
    defined(CASE_NO_ENCODE) || defined(CASE_NO_DECODE)
#define KIND RBT_FILTER_ROUND
#elif defined(CASE_PACK) || defined(CASE_NO_PACK) || defined(CASE_NO_UNPACK)
#define KIND RBT_FILTER_PACK
#elif defined(CASE_KIND)
#define KIND ((rbt_filter_kind)17)
#else
#define KIND RBT_FILTER_SELECT
#endif

#if defined(CASE_SYMBOL)
RBT_FILTER_EXPORT const int something_else = 1;
#else
RBT_FILTER_EXPORT const struct rbt_filter rbt_filter = {
    .abi = ABI,
    .struct_size = SIZE,
    .name = NAME,
    .summary = "For tests.",
    .kind = KIND,
#if defined(CASE_SILENT)
    .create = create_silently,
#endif
#if !defined(CASE_NO_SELECT)
    .select = select_positive,
#endif
#if !defined(CASE_NO_ROUND)
    .round = round_signs,
#endif
#if !defined(CASE_NO_ENCODE)
    .encode = encode_signs,
#endif
#if !defined(CASE_NO_DECODE)
    .decode = decode_signs,
#endif
#if !defined(CASE_NO_PACK)
    .pack = pack_equal,
#endif
#if !defined(CASE_NO_UNPACK)
    .unpack = unpack_equal,
#endif
};
#endif
