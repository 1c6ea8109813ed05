/* policy/filter/compress.c - bytes to fewer bytes: lz4 and zstd.
 *
 * What does not become smaller is left as it is. Readers say how many bytes there must be, and
 * neither library writes more than that, so that a few bytes cannot become many.
 *
 * Threads: none; zstd keeps its working memory between calls. */
#include <lz4.h>
#include <zstd.h>

#include "base/error.h"
#include "policy/filter/builtin.h"

static rbt_status wrong(const char *what)
{
    return rbt_fail(RBT_E_PROTOCOL, "the peer sent values that %s cannot unpack", what);
}

static size_t pack_lz4(void *self, const void *from, size_t bytes, void *to, size_t capacity)
{
    (void)self;
    if (bytes > LZ4_MAX_INPUT_SIZE) {
        return 0;
    }
    const size_t room = capacity < bytes ? capacity : bytes;
    const int packed = LZ4_compress_default(from, to, (int)bytes, (int)room);
    return packed > 0 ? (size_t)packed : 0;
}

static rbt_status unpack_lz4(void *self, const void *from, size_t bytes, void *to, size_t count)
{
    (void)self;
    if (bytes > LZ4_MAX_INPUT_SIZE || count > LZ4_MAX_INPUT_SIZE) {
        return wrong("lz4");
    }
    const int unpacked = LZ4_decompress_safe(from, to, (int)bytes, (int)count);
    return unpacked >= 0 && (size_t)unpacked == count ? RBT_OK : wrong("lz4");
}

const struct rbt_filter rbt_filter_lz4 = {.abi = RBT_FILTER_ABI,
                                          .struct_size = sizeof rbt_filter_lz4,
                                          .name = "lz4",
                                          .summary = "Compression that costs little time.",
                                          .kind = RBT_FILTER_PACK,
                                          .pack = pack_lz4,
                                          .unpack = unpack_lz4};

struct zstd {
    ZSTD_CCtx *packer;
    ZSTD_DCtx *unpacker;
    int level;
};

static void destroy_zstd(void *self)
{
    struct zstd *zstd = self;
    (void)ZSTD_freeCCtx(zstd->packer); /* accept NULL, cannot fail */
    (void)ZSTD_freeDCtx(zstd->unpacker);
    rbt_filter_free(zstd);
}

static rbt_status create_zstd(const struct rbt_filter_setup *setup, void **self)
{
    static const struct rbt_filter_range range = {
        .name = "the level", .fallback = 1, .is_whole = true, .min = 1, .max = 19};
    double level;
    rbt_status st = rbt_filter_numbers(setup, &range, 1, &level);
    if (st == RBT_OK) {
        st = rbt_filter_new(setup, sizeof(struct zstd), self);
    }
    if (st != RBT_OK) {
        return st;
    }
    struct zstd *zstd = *self;
    *zstd = (struct zstd){
        .packer = ZSTD_createCCtx(), .unpacker = ZSTD_createDCtx(), .level = (int)level};
    if (zstd->packer == NULL || zstd->unpacker == NULL) {
        destroy_zstd(zstd);
        return rbt_fail(RBT_E_NOMEM, "no memory for zstd of table \"%s\"", setup->table);
    }
    return RBT_OK;
}

static size_t pack_zstd(void *self, const void *from, size_t bytes, void *to, size_t capacity)
{
    const struct zstd *zstd = self;
    const size_t room = capacity < bytes ? capacity : bytes;
    const size_t packed = ZSTD_compressCCtx(zstd->packer, to, room, from, bytes, zstd->level);
    return ZSTD_isError(packed) ? 0 : packed;
}

static rbt_status unpack_zstd(void *self, const void *from, size_t bytes, void *to, size_t count)
{
    const struct zstd *zstd = self;
    if (ZSTD_getFrameContentSize(from, bytes) != count) {
        return wrong("zstd");
    }
    const size_t unpacked = ZSTD_decompressDCtx(zstd->unpacker, to, count, from, bytes);
    return !ZSTD_isError(unpacked) && unpacked == count ? RBT_OK : wrong("zstd");
}

const struct rbt_filter rbt_filter_zstd = {.abi = RBT_FILTER_ABI,
                                           .struct_size = sizeof rbt_filter_zstd,
                                           .name = "zstd",
                                           .summary = "Compression that saves more, for more time.",
                                           .kind = RBT_FILTER_PACK,
                                           .create = create_zstd,
                                           .destroy = destroy_zstd,
                                           .pack = pack_zstd,
                                           .unpack = unpack_zstd};
