/* wire/bytes.h - numbers in messages: little-endian, at any place, one after the other.
 *
 * Writing and reading move the pointer on. Nothing is checked: writers have reserved the bytes,
 * readers have counted them. Threads: any. */
#ifndef RUBATO_WIRE_BYTES_H
#define RUBATO_WIRE_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values and keys travel as they lie in memory: this needs a little-endian machine"
#endif

static inline void rbt_bytes_put(char **to, const void *value, size_t size)
{
    memcpy(*to, value, size);
    *to += size;
}

static inline void rbt_bytes_put_u16(char **to, uint16_t value)
{
    rbt_bytes_put(to, &value, sizeof value);
}

static inline void rbt_bytes_put_u32(char **to, uint32_t value)
{
    rbt_bytes_put(to, &value, sizeof value);
}

static inline void rbt_bytes_put_u64(char **to, uint64_t value)
{
    rbt_bytes_put(to, &value, sizeof value);
}

static inline void rbt_bytes_get(const char **from, void *value, size_t size)
{
    memcpy(value, *from, size);
    *from += size;
}

static inline uint16_t rbt_bytes_get_u16(const char **from)
{
    uint16_t value;
    rbt_bytes_get(from, &value, sizeof value);
    return value;
}

static inline uint32_t rbt_bytes_get_u32(const char **from)
{
    uint32_t value;
    rbt_bytes_get(from, &value, sizeof value);
    return value;
}

static inline uint64_t rbt_bytes_get_u64(const char **from)
{
    uint64_t value;
    rbt_bytes_get(from, &value, sizeof value);
    return value;
}

#endif
