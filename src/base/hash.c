/* base/hash.c - hashes of bytes, by xxHash. */
#include "base/hash.h"

#include <xxhash.h>

uint64_t rbt_hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, size, seed);
}
