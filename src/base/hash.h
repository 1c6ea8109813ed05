/* base/hash.h - mixing of 64-bit keys, and hashes of bytes. */
#ifndef RUBATO_BASE_HASH_H
#define RUBATO_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Spreads a key over all 64 bits; a bijection, so different keys never collide. (The finaliser of
 * splitmix64.) Small enough to belong in the caller's loop. */
static inline uint64_t rbt_hash_key(uint64_t key)
{
    uint64_t z = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

/* XXH3 of a block; `seed` continues an earlier hash. */
uint64_t rbt_hash_bytes(const void *bytes, size_t size, uint64_t seed);

#endif
