/* test/fuzz/filter_fuzz.c - reading filtered values survives anything, and whole ones come back.
 *
 * An input is used twice. First as bytes that have arrived, by chains of all kinds. Then as a
 * recipe: its first bytes seed a generator that draws chains and elements, applies and writes them;
 * what is written must come back bit by bit, and copies of it are damaged as the rest of the input
 * says. Damaged ones may be refused or not, but nothing is read or written behind an end, where a
 * sanitizer watches, and no memory is taken for what they claim to be. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/rng.h"
#include "policy/filter/chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ELEMENTS_MAX = 3000, COPIES = 12, DRAWS = 3 };

static const char *const texts[] = {"zeros",
                                    "lz4",
                                    "zstd",
                                    "f16",
                                    "zeros,fixed:8,lz4",
                                    "fixed:5,zstd,lz4",
                                    "tiny:0.5,bf16",
                                    "significant:0.5,fixed:24,lz4,zstd",
                                    "sample:20,lz4",
                                    "skip:0.02,fixed:3"};
enum { TEXTS = sizeof texts / sizeof texts[0] };

/* What comes from the input, and when that has come to its end, from the generator. */
struct recipe {
    const uint8_t *at;
    size_t left;
    struct rbt_rng rng;
};

static uint64_t below(struct recipe *recipe, uint64_t bound)
{
    uint64_t number = rbt_rng_next(&recipe->rng);
    if (recipe->left > 0) {
        number ^= *recipe->at++;
        recipe->left--;
    }
    return number % bound;
}

static rbt_chain *open_chain(size_t which, uint32_t element_size)
{
    const struct rbt_chain_options options = {.text = texts[which],
                                              .direction = RBT_FILTER_PUSH,
                                              .table = "t",
                                              .width = 1,
                                              .type = element_size == 4 ? RBT_F32 : RBT_F64,
                                              .worker_count = 2};
    rbt_chain *chain = NULL;
    RBT_ASSERT(rbt_chain_create(&options, &chain) == RBT_OK);
    return chain;
}

/* Reads bytes, in blocks that end where they end. What was accepted may be written again. */
static rbt_status read_bytes(rbt_chain *chain, const void *bytes, size_t size, size_t count,
                             float *values)
{
    const size_t bound = rbt_chain_bound(chain, count);
    char *from = rbt_alloc(size);
    char *scratch = rbt_alloc(2 * bound);
    bool *keep = rbt_alloc(count);
    RBT_ASSERT(from != NULL && scratch != NULL && keep != NULL);
    memcpy(from, bytes, size);
    const struct rbt_chain_elements elements = {.count = count, .values = values, .keep = keep};
    const size_t live = rbt_alloc_live();
    const rbt_status st = rbt_chain_get(chain, from, size, &elements, scratch);
    RBT_ASSERT(st == RBT_OK || st == RBT_E_PROTOCOL);
    RBT_ASSERT(rbt_alloc_live() == live);
    for (size_t i = 0; st == RBT_OK && i < count; i++) {
        RBT_ASSERT(keep[i] == 0 || keep[i] == 1);
    }
    rbt_free(from);
    rbt_free(scratch);
    rbt_free(keep);
    return st;
}

/* The input as it is. */
static void read_input(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < TEXTS; i++) {
        const size_t count = size == 0 ? 0 : data[size - 1] * (i % 2 == 0 ? 1U : 11U);
        rbt_chain *chain = open_chain(i, 4);
        float *values = rbt_calloc(count, sizeof *values);
        RBT_ASSERT(values != NULL);
        (void)read_bytes(chain, data, size, count, values); /* accepted or not */
        rbt_free(values);
        rbt_chain_destroy(chain);
    }
}

static void damage(struct recipe *recipe, char *bytes, size_t size)
{
    const size_t reach = below(recipe, 2) == 0 && size > 16 ? 16 : size;
    const size_t place = (size_t)below(recipe, reach);
    switch (below(recipe, 4)) {
    case 0:
        bytes[place] = (char)(bytes[place] ^ 1 << below(recipe, 8));
        break;
    case 1:
        bytes[place] = (char)below(recipe, 256);
        break;
    case 2:
        bytes[place] = (char)(bytes[place] + (below(recipe, 2) == 0 ? 1 : -1));
        break;
    default: { /* a piece over another one */
        const size_t from = (size_t)below(recipe, size);
        const size_t room = size - (from > place ? from : place);
        memmove(bytes + place, bytes + from, (size_t)below(recipe, room < 64 ? room : 64));
        break;
    }
    }
}

static void draw_values(struct recipe *recipe, float *values, size_t count)
{
    const uint64_t zeros = below(recipe, 101);
    const bool is_wild = below(recipe, 3) == 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t number = rbt_rng_next(&recipe->rng);
        const uint32_t bits = (uint32_t)(number >> 32);
        values[i] = (float)rbt_rng_normal(&recipe->rng);
        if (is_wild) {
            memcpy(&values[i], &bits, sizeof bits);
        }
        values[i] = number % 100 < zeros ? 0 : values[i];
    }
}

/* Draws, writes, reads, compares, and reads damaged copies. */
static void play(struct recipe *recipe)
{
    rbt_chain *chain = open_chain((size_t)below(recipe, TEXTS), 4);
    const size_t count = (size_t)below(recipe, below(recipe, 2) == 0 ? 70 : ELEMENTS_MAX);
    const size_t bound = rbt_chain_bound(chain, count);
    float *values = rbt_calloc(count, sizeof *values);
    float *got = rbt_calloc(count, sizeof *got);
    bool *keep = rbt_calloc(count, sizeof *keep);
    char *bytes = rbt_alloc(bound);
    char *scratch = rbt_alloc(2 * bound);
    char *copy = rbt_alloc(bound);
    draw_values(recipe, values, count);
    const struct rbt_filter_rows rows = {.row_count = count,
                                         .width = 1,
                                         .values = values,
                                         .keep = keep,
                                         .seed = rbt_rng_next(&recipe->rng)};
    struct rbt_chain_elements elements = {.count = count, .values = values, .keep = keep};
    RBT_ASSERT(rbt_chain_apply(chain, &rows, &elements.code) == RBT_OK);
    const size_t size = rbt_chain_put(chain, &elements, bytes, scratch);
    RBT_ASSERT(size >= 1 && size <= bound);
    RBT_ASSERT(read_bytes(chain, bytes, size, count, got) == RBT_OK);
    for (size_t i = 0; i < count; i++) {
        static const float zero = 0;
        RBT_ASSERT(memcmp(&got[i], keep[i] ? &values[i] : &zero, sizeof zero) == 0);
    }
    for (unsigned i = 0; i < COPIES; i++) {
        memcpy(copy, bytes, size);
        for (uint64_t damages = 1 + below(recipe, 3); damages > 0; damages--) {
            damage(recipe, copy, size);
        }
        const size_t cut = i % 4 == 0 ? (size_t)below(recipe, size + 1) : size;
        (void)read_bytes(chain, copy, cut, count, got); /* accepted or not */
    }
    rbt_free(values);
    rbt_free(got);
    rbt_free(keep);
    rbt_free(bytes);
    rbt_free(scratch);
    rbt_free(copy);
    rbt_chain_destroy(chain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct recipe recipe = {.at = data, .left = size};
    uint64_t seed = 0;
    read_input(data, size);
    for (unsigned i = 0; i < sizeof seed && recipe.left > 0; i++, recipe.left--) {
        seed = seed << 8 | *recipe.at++;
    }
    rbt_rng_init(&recipe.rng, seed, 0, 0);
    for (unsigned i = 0; i < DRAWS; i++) {
        play(&recipe);
    }
    RBT_ASSERT(rbt_alloc_live() == 0);
    return 0;
}
