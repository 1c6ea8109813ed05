/* policy/filter/elements.c - elements that are kept as bytes, and back.
 *
 * A body is, one directly after the other:
 *
 *     CODED    1 byte: the bits of a code; if SCALED also 4 bytes: the scale
 *     BITS     a bit for each element, from the lowest of the first byte on; set: it is there
 *     GAPS     4 bytes: how many are there; then for each how many are not there in front of it, 7
 *              bits a byte from the lowest on, with the eighth bit set if another byte follows
 *     values   4 or 8 bytes each, or codes, each directly behind the one before, lowest bit first
 *
 * Bits that are left over are zero. Gaps are taken when they are shorter than the bits; a writer
 * that has all or no elements says so and needs neither. A reader refuses what no writer makes, and
 * sees that everything is there before it looks for it.
 *
 * Elements are worked on in groups, whose codes fit the nearest cache and are whole bytes.
 *
 * Threads: any. Memory: a few kilobytes of stack. */
#include "policy/filter/elements.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "wire/bytes.h"

enum {
    WORD = 64,         /* elements that have their bits in one word */
    GROUP = 16 * WORD, /* elements that are worked on at a time */
    FEW = 24,          /* of a word: these are visited one by one */
    HEAD = 1 + 4 + 4,  /* bits, scale and number of elements */
    SLACK = 2 * WORD,  /* bytes: loops may write behind what they keep */
};

static size_t words_of(size_t count)
{
    return count / WORD + (count % WORD != 0);
}

static size_t bits_bytes(size_t count)
{
    return count / 8 + (count % 8 != 0);
}

static size_t code_bytes(size_t count, uint32_t bits)
{
    return count / 8 * bits + (count % 8 * bits + 7) / 8;
}

static uint64_t word_at(const char *words, size_t i)
{
    uint64_t word;
    memcpy(&word, words + i * sizeof word, sizeof word);
    return word;
}

size_t rbt_elements_bound(uint32_t element_size, size_t count)
{
    return HEAD + words_of(count) * sizeof(uint64_t) + count * element_size + SLACK;
}

/* --- Which elements are there ---------------------------------------------------------------- */

/* Eight truth values of a byte each as eight bits: byte k, times 2^(56 - 7k), comes to bit 56 + k,
 * and no two products meet in one bit. */
static inline uint64_t join_bools(const bool *from)
{
    uint64_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    return bytes * UINT64_C(0x0102040810204080) >> 56;
}

/* And back: every byte gets all bits, keeps its own, and that is moved to the lowest place. */
static inline void split_bools(uint64_t bits, bool *to)
{
    uint64_t bytes = (bits & 0xff) * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
    bytes = (bytes + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
    memcpy(to, &bytes, sizeof bytes);
}

static inline uint64_t join_word(const bool *from)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < WORD / 8; i++) {
        word |= join_bools(from + 8 * i) << (8 * i);
    }
    return word;
}

/* Whether elements are there, of a word that need not be full. */
static uint64_t mask_word(const struct rbt_elements_form *form,
                          const struct rbt_chain_elements *elements, size_t first)
{
    const size_t left = elements->count - first;
    const size_t now = left < WORD ? left : WORD;
    bool here[WORD] = {false};
    if (elements->keep != NULL) {
        memcpy(here, elements->keep + first, now);
    } else {
        memset(here, 1, now);
    }
    if (form->skips_zeros && form->element_size == sizeof(uint32_t)) {
        const uint32_t *values = (const uint32_t *)elements->values + first;
        for (size_t i = 0; i < now; i++) {
            here[i] = here[i] & (values[i] != 0);
        }
    } else if (form->skips_zeros) {
        const uint64_t *values = (const uint64_t *)elements->values + first;
        for (size_t i = 0; i < now; i++) {
            here[i] = here[i] & (values[i] != 0);
        }
    }
    return join_word(here);
}

/* Writes the bits of all elements as words; returns how many are there. */
static size_t put_mask(const struct rbt_elements_form *form,
                       const struct rbt_chain_elements *elements, char *words)
{
    size_t present = 0;
    for (size_t first = 0; first < elements->count; first += WORD) {
        const bool is_plain = !form->skips_zeros && elements->count - first >= WORD;
        const uint64_t word =
            is_plain ? join_word(elements->keep + first) : mask_word(form, elements, first);
        rbt_bytes_put_u64(&words, word);
        present += (size_t)__builtin_popcountll(word);
    }
    RBT_ASSERT(present <= elements->count);
    return present;
}

/* Writes gaps as long as they are shorter than `limit`; returns their bytes, or 0. */
static size_t put_gaps(const char *words, size_t word_count, char *to, size_t limit)
{
    size_t used = 0;
    size_t next = 0; /* behind the last one that is there */
    for (size_t w = 0; w < word_count; w++) {
        for (uint64_t word = word_at(words, w); word != 0; word &= word - 1) {
            const size_t place = w * WORD + (size_t)__builtin_ctzll(word);
            size_t gap = place - next;
            next = place + 1;
            if (used + 10 > limit) { /* room for any gap */
                return 0;
            }
            for (; gap >= 128; gap >>= 7) {
                to[used++] = (char)(gap | 128);
            }
            to[used++] = (char)gap;
        }
    }
    return used;
}

/* --- Codes of so many bits ------------------------------------------------------------------- */

static char *put_codes(const uint32_t *codes, size_t count, uint32_t bits, char *to)
{
    RBT_ASSERT(bits >= 1 && bits < 32);
    if (bits == 8) {
        for (size_t i = 0; i < count; i++) {
            to[i] = (char)codes[i];
        }
        return to + count;
    }
    if (bits == 16) {
        for (size_t i = 0; i < count; i++) {
            const uint16_t code = (uint16_t)codes[i];
            memcpy(to + 2 * i, &code, sizeof code);
        }
        return to + 2 * count;
    }
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t gathered = 0;
    uint32_t filled = 0;
    for (size_t i = 0; i < count; i++) {
        gathered |= (codes[i] & mask) << filled; /* below 32 bits before */
        filled += bits;
        if (filled >= 32) {
            rbt_bytes_put_u32(&to, (uint32_t)gathered);
            gathered >>= 32;
            filled -= 32;
        }
    }
    const size_t rest = (filled + 7) / 8;
    memcpy(to, &gathered, rest);
    return to + rest;
}

/* Reads codes. False if bits that are left over are not zero. */
static bool get_codes(const char *from, size_t count, uint32_t bits, uint32_t *codes)
{
    RBT_ASSERT(bits >= 1 && bits < 32);
    if (bits == 8) {
        for (size_t i = 0; i < count; i++) {
            codes[i] = (uint8_t)from[i];
        }
        return true;
    }
    if (bits == 16) {
        for (size_t i = 0; i < count; i++) {
            uint16_t code;
            memcpy(&code, from + 2 * i, sizeof code);
            codes[i] = code;
        }
        return true;
    }
    /* A code begins in some byte, and with 31 bits ends in the next 8. */
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    const size_t size = code_bytes(count, bits);
    const size_t quick = size < 8 ? 0 : (size - 8) * 8 / bits; /* 8 bytes are there for each */
    for (size_t i = 0; i < quick; i++) {
        uint64_t bytes;
        memcpy(&bytes, from + i * bits / 8, sizeof bytes);
        codes[i] = (uint32_t)(bytes >> (i * bits % 8) & mask);
    }
    for (size_t i = quick; i < count; i++) {
        const size_t first = i * bits / 8;
        uint64_t bytes = 0;
        memcpy(&bytes, from + first, size - first < 8 ? size - first : 8);
        codes[i] = (uint32_t)(bytes >> (i * bits % 8) & mask);
    }
    const size_t over = count * bits % 8;
    return over == 0 || (uint8_t)from[size - 1] >> over == 0;
}

/* --- Writing --------------------------------------------------------------------------------- */

/* Appends the elements of one word that are there; may write one more, which does not count. */
static size_t gather_4(uint64_t word, const uint32_t *values, char *to)
{
    size_t kept = 0;
    if (word == UINT64_MAX) {
        memcpy(to, values, WORD * sizeof *values);
        return WORD;
    }
    if (__builtin_popcountll(word) <= FEW) {
        for (; word != 0; word &= word - 1) {
            memcpy(to + kept * sizeof *values, &values[__builtin_ctzll(word)], sizeof *values);
            kept++;
        }
        return kept;
    }
    for (; word != 0; word >>= 1) {
        memcpy(to + kept * sizeof *values, values++, sizeof *values);
        kept += word & 1;
    }
    return kept;
}

static size_t gather_8(uint64_t word, const uint64_t *values, char *to)
{
    size_t kept = 0;
    for (; word != 0; word &= word - 1) {
        memcpy(to + kept * sizeof *values, &values[__builtin_ctzll(word)], sizeof *values);
        kept++;
    }
    return kept;
}

/* The same for all words from `first` to `end`. */
static size_t gather(const struct rbt_elements_form *form,
                     const struct rbt_chain_elements *elements, const char *words, size_t first,
                     size_t end, char *to)
{
    char *at = to;
    for (size_t w = first; w < end; w++) {
        const uint64_t word = word_at(words, w);
        if (form->element_size == sizeof(uint32_t)) {
            at += sizeof(uint32_t) *
                  gather_4(word, (const uint32_t *)elements->values + w * WORD, at);
        } else {
            at += sizeof(uint64_t) *
                  gather_8(word, (const uint64_t *)elements->values + w * WORD, at);
        }
    }
    return (size_t)(at - to) / form->element_size;
}

static char *encode(const struct rbt_elements_form *form, const struct rbt_filter_code *code,
                    const float *values, size_t count, char *to)
{
    uint32_t codes[GROUP];
    RBT_ASSERT(count <= GROUP);
    form->round->encode(code, values, count, codes);
    return put_codes(codes, count, code->bits, to);
}

/* All elements as codes. */
static char *put_all_coded(const struct rbt_elements_form *form,
                           const struct rbt_chain_elements *elements, char *to)
{
    const float *values = elements->values;
    for (size_t first = 0; first < elements->count; first += GROUP) {
        const size_t left = elements->count - first;
        to = encode(form, &elements->code, values + first, left < GROUP ? left : GROUP, to);
    }
    return to;
}

/* The elements that are there as codes. They are gathered until there is a group of them. */
static char *put_some_coded(const struct rbt_elements_form *form,
                            const struct rbt_chain_elements *elements, const char *words, char *to)
{
    float gathered[2 * GROUP + 1];
    const size_t word_count = words_of(elements->count);
    size_t have = 0;
    for (size_t w = 0; w < word_count; w += GROUP / WORD) {
        const size_t end = word_count - w < GROUP / WORD ? word_count : w + GROUP / WORD;
        have += gather(form, elements, words, w, end, (char *)(gathered + have));
        if (have >= GROUP) {
            to = encode(form, &elements->code, gathered, GROUP, to);
            have -= GROUP;
            memcpy(gathered, gathered + GROUP, have * sizeof *gathered);
        }
    }
    return encode(form, &elements->code, gathered, have, to);
}

static char *put_head(const struct rbt_filter_code *code, char *to, uint32_t *flags)
{
    uint32_t scale;
    memcpy(&scale, &code->scale, sizeof scale);
    *to++ = (char)code->bits;
    *flags |= RBT_ELEMENTS_CODED;
    if (scale != 0) {
        rbt_bytes_put_u32(&to, scale);
        *flags |= RBT_ELEMENTS_SCALED;
    }
    return to;
}

/* Whether it takes fewer bytes to say which elements are there than to write all of them, where
 * only zeros are not. */
static bool pays(const struct rbt_elements_form *form, const struct rbt_chain_elements *elements,
                 bool is_coded, size_t present)
{
    const size_t absent = elements->count - present;
    const size_t saved = is_coded ? code_bytes(elements->count, elements->code.bits) -
                                        code_bytes(present, elements->code.bits)
                                  : absent * form->element_size;
    return saved > bits_bytes(elements->count);
}

size_t rbt_elements_put(const struct rbt_elements_form *form,
                        const struct rbt_chain_elements *elements, char *to, uint32_t *flags,
                        char *words)
{
    const struct rbt_filter_code *code = &elements->code;
    const bool is_coded = code->bits != 0 && code->bits != 32 && elements->count > 0;
    const bool has_mask = elements->keep != NULL || form->skips_zeros;
    size_t present = has_mask ? put_mask(form, elements, words) : elements->count;
    if (elements->keep == NULL && present > 0 && !pays(form, elements, is_coded, present)) {
        present = elements->count;
    }
    RBT_ASSERT(elements->count <= UINT32_MAX);
    RBT_ASSERT(!is_coded || form->round != NULL);
    RBT_ASSERT(!is_coded || form->element_size == sizeof(float));
    *flags = present == 0 && elements->count > 0 ? RBT_ELEMENTS_NONE : RBT_ELEMENTS_ALL;
    if (present == 0) {
        return 0; /* pointers may be NULL */
    }
    char *at = is_coded ? put_head(code, to, flags) : to;
    if (present == elements->count) {
        if (is_coded) {
            return (size_t)(put_all_coded(form, elements, at) - to);
        }
        memcpy(at, elements->values, present * form->element_size);
        return (size_t)(at - to) + present * form->element_size;
    }
    const size_t bits = bits_bytes(elements->count);
    const size_t gaps = present + sizeof(uint32_t) < bits
                            ? put_gaps(words, words_of(elements->count), at + sizeof(uint32_t),
                                       bits - sizeof(uint32_t))
                            : 0;
    if (gaps > 0) {
        *flags |= RBT_ELEMENTS_GAPS;
        rbt_bytes_put_u32(&at, (uint32_t)present);
        at += gaps;
    } else {
        *flags |= RBT_ELEMENTS_BITS;
        rbt_bytes_put(&at, words, bits);
    }
    if (is_coded) {
        return (size_t)(put_some_coded(form, elements, words, at) - to);
    }
    const size_t kept = gather(form, elements, words, 0, words_of(elements->count), at);
    RBT_ASSERT(kept == present);
    return (size_t)(at - to) + kept * form->element_size;
}

/* --- Reading --------------------------------------------------------------------------------- */

static rbt_status wrong(const char *what)
{
    return rbt_fail(RBT_E_PROTOCOL, "the peer sent filtered values %s", what);
}

/* What is being read. */
struct reader {
    const struct rbt_elements_form *form;
    const struct rbt_chain_elements *elements;
    struct rbt_filter_code code; /* bits: 0 if they are not coded */
    uint32_t which;
    size_t present;
    const char *mask; /* bits or gaps */
    const char *at;   /* the next value or code */
    const char *end;
    size_t left; /* values or codes behind `at` */
    bool is_well;
    size_t have; /* decoded ones that were not taken yet, from `next` on */
    size_t next;
    float decoded[2 * GROUP];
};

static size_t values_bytes(const struct reader *reader)
{
    return reader->code.bits == 0 ? reader->present * reader->form->element_size
                                  : code_bytes(reader->present, reader->code.bits);
}

static rbt_status read_head(struct reader *reader, uint32_t flags)
{
    const size_t size = (flags & RBT_ELEMENTS_SCALED) == 0 ? 1 : 1 + sizeof(float);
    if ((flags & RBT_ELEMENTS_CODED) == 0) {
        return (flags & RBT_ELEMENTS_SCALED) == 0 ? RBT_OK : wrong("with a scale but no codes");
    }
    if (reader->form->round == NULL || (size_t)(reader->end - reader->at) < size) {
        return wrong("with codes of a filter that this table does not have");
    }
    reader->code.bits = (uint8_t)*reader->at++;
    if (reader->code.bits < 1 || reader->code.bits > 31) {
        return wrong("with codes of a size that there is not");
    }
    if ((flags & RBT_ELEMENTS_SCALED) != 0) {
        const uint32_t scale = rbt_bytes_get_u32(&reader->at);
        memcpy(&reader->code.scale, &scale, sizeof scale);
        return scale != 0 ? RBT_OK : wrong("with a scale that need not be there");
    }
    return RBT_OK;
}

/* Counts the bits, and sees that there are none without an element. */
static rbt_status read_bits(struct reader *reader)
{
    const size_t count = reader->elements->count;
    const size_t size = bits_bytes(count);
    if ((size_t)(reader->end - reader->at) < size) {
        return wrong("that end too early");
    }
    reader->mask = reader->at;
    reader->at += size;
    for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
        reader->present += (size_t)__builtin_popcountll(word_at(reader->mask, i));
    }
    for (size_t i = size / sizeof(uint64_t) * sizeof(uint64_t); i < size; i++) {
        reader->present += (size_t)__builtin_popcount((uint8_t)reader->mask[i]);
    }
    if (count % 8 != 0 && (uint8_t)reader->mask[size - 1] >> count % 8 != 0) {
        return wrong("behind the last element");
    }
    return reader->present > 0 && reader->present < count
               ? RBT_OK
               : wrong("with bits that need not be there");
}

/* Reads one gap; false if it does not end, or is longer than `most`. */
static inline bool read_gap(const char **at, const char *end, size_t most, size_t *gap)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (*at == end) {
            return false;
        }
        const uint8_t byte = (uint8_t) * (*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *gap = (size_t)value;
            return value <= most && (byte != 0 || shift == 0);
        }
    }
    return false;
}

/* Goes over the gaps to find their end, and sees that all elements are there. */
static rbt_status read_gaps(struct reader *reader)
{
    const size_t count = reader->elements->count;
    if ((size_t)(reader->end - reader->at) < sizeof(uint32_t)) {
        return wrong("that end too early");
    }
    reader->present = rbt_bytes_get_u32(&reader->at);
    reader->mask = reader->at;
    if (reader->present == 0 || reader->present >= count) {
        return wrong("with gaps that need not be there");
    }
    size_t next = 0;
    for (size_t i = 0; i < reader->present; i++) {
        size_t gap;
        if (next == count || !read_gap(&reader->at, reader->end, count - next - 1, &gap)) {
            return wrong("behind the last element");
        }
        next += gap + 1;
    }
    return RBT_OK;
}

static rbt_status read_which(struct reader *reader)
{
    switch (reader->which) {
    case RBT_ELEMENTS_BITS:
        return read_bits(reader);
    case RBT_ELEMENTS_GAPS:
        return read_gaps(reader);
    case RBT_ELEMENTS_NONE:
        return reader->elements->count > 0 && reader->code.bits == 0
                   ? RBT_OK
                   : wrong("that say more than that there are none");
    default:
        reader->present = reader->elements->count;
        return reader->present > 0 || reader->code.bits == 0 ? RBT_OK
                                                             : wrong("with codes of nothing");
    }
}

/* Decodes a group, or what is left, to `to`. */
static size_t decode(struct reader *reader, float *to)
{
    uint32_t codes[GROUP];
    const size_t count = reader->left < GROUP ? reader->left : GROUP;
    reader->is_well &= get_codes(reader->at, count, reader->code.bits, codes);
    reader->at += code_bytes(count, reader->code.bits);
    reader->left -= count;
    reader->form->round->decode(&reader->code, codes, count, to);
    return count;
}

/* The next `count` values, at most a group. */
static const char *take(struct reader *reader, size_t count)
{
    RBT_ASSERT(count <= GROUP);
    if (reader->code.bits == 0) {
        const char *taken = reader->at;
        reader->at += count * reader->form->element_size;
        return taken;
    }
    if (reader->have < count) {
        memmove(reader->decoded, reader->decoded + reader->next,
                reader->have * sizeof *reader->decoded);
        reader->next = 0;
        reader->have += decode(reader, reader->decoded + reader->have);
    }
    RBT_ASSERT(reader->have >= count);
    const float *taken = reader->decoded + reader->next;
    reader->next += count;
    reader->have -= count;
    return (const char *)taken;
}

static void get_all(struct reader *reader)
{
    const struct rbt_chain_elements *elements = reader->elements;
    if (elements->count == 0) {
        return; /* pointers may be NULL */
    }
    if (reader->code.bits == 0) {
        memcpy(elements->values, reader->at, values_bytes(reader));
        reader->at += values_bytes(reader);
    } else {
        float *values = elements->values;
        while (reader->left > 0) {
            values += decode(reader, values);
        }
    }
    if (elements->keep != NULL) {
        memset(elements->keep, 1, elements->count);
    }
}

/* Puts values to the places of one word's bits. */
static size_t scatter(uint64_t word, const char *from, size_t element_size, char *to)
{
    size_t taken = 0;
    if (word == UINT64_MAX) {
        memcpy(to, from, WORD * element_size);
        return WORD;
    }
    if (element_size == sizeof(uint32_t)) {
        for (; word != 0; word &= word - 1) {
            memcpy(to + (size_t)__builtin_ctzll(word) * sizeof(uint32_t),
                   from + taken++ * sizeof(uint32_t), sizeof(uint32_t));
        }
        return taken;
    }
    for (; word != 0; word &= word - 1) {
        memcpy(to + (size_t)__builtin_ctzll(word) * sizeof(uint64_t),
               from + taken++ * sizeof(uint64_t), sizeof(uint64_t));
    }
    return taken;
}

static void get_by_bits(struct reader *reader)
{
    const struct rbt_chain_elements *elements = reader->elements;
    const size_t size = reader->form->element_size;
    const size_t bytes = bits_bytes(elements->count);
    for (size_t w = 0; w < words_of(elements->count); w++) {
        const size_t left = bytes - w * sizeof(uint64_t);
        uint64_t word = 0;
        memcpy(&word, reader->mask + w * sizeof word, left < sizeof word ? left : sizeof word);
        const char *values = take(reader, (size_t)__builtin_popcountll(word));
        (void)scatter(word, values, size, (char *)elements->values + w * WORD * size);
        if (elements->keep != NULL) {
            bool *keep = elements->keep + w * WORD;
            const size_t now = elements->count - w * WORD;
            bool all[WORD];
            for (unsigned i = 0; i < WORD / 8; i++) {
                split_bools(word >> (8 * i), all + 8 * i);
            }
            memcpy(keep, all, now < WORD ? now : WORD);
        }
    }
}

static void get_by_gaps(struct reader *reader)
{
    const struct rbt_chain_elements *elements = reader->elements;
    const size_t size = reader->form->element_size;
    const char *at = reader->mask;
    size_t next = 0;
    if (elements->keep != NULL) {
        memset(elements->keep, 0, elements->count);
    }
    for (size_t i = 0; i < reader->present; i++) {
        size_t gap = 0;
        const bool is_gap = read_gap(&at, reader->end, elements->count - next - 1, &gap);
        RBT_ASSERT(is_gap); /* it was the first time */
        next += gap;
        RBT_ASSERT(next < elements->count);
        memcpy((char *)elements->values + next * size, take(reader, 1), size);
        if (elements->keep != NULL) {
            elements->keep[next] = true;
        }
        next++;
    }
}

rbt_status rbt_elements_get(const struct rbt_elements_form *form,
                            const struct rbt_elements_body *body,
                            const struct rbt_chain_elements *elements)
{
    struct reader reader;
    memset(&reader, 0,
           offsetof(struct reader, decoded)); /* the rest is written before it is read */
    reader.form = form;
    reader.elements = elements;
    reader.which = body->flags & RBT_ELEMENTS_WHICH;
    reader.at = body->bytes;
    reader.end = body->bytes + body->size;
    reader.is_well = true;
    RBT_ASSERT((body->flags & ~(uint32_t)RBT_ELEMENTS_FLAGS) == 0);
    rbt_status st = read_head(&reader, body->flags);
    if (st == RBT_OK) {
        st = read_which(&reader);
    }
    if (st != RBT_OK) {
        return st;
    }
    if ((size_t)(reader.end - reader.at) != values_bytes(&reader)) {
        return wrong("of another size than they say");
    }
    reader.left = reader.present;
    switch (reader.which) {
    case RBT_ELEMENTS_BITS:
        get_by_bits(&reader);
        break;
    case RBT_ELEMENTS_GAPS:
        get_by_gaps(&reader);
        break;
    case RBT_ELEMENTS_NONE:
        if (elements->keep != NULL) {
            memset(elements->keep, 0, elements->count);
        }
        break;
    default:
        get_all(&reader);
        break;
    }
    RBT_ASSERT(reader.at == reader.end);
    return reader.is_well ? RBT_OK : wrong("behind the last code");
}
