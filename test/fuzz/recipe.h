/* fuzz/recipe.h - an input as a recipe for a conversation, and damage to its messages.
 *
 * What is drawn comes from the input, and when that has come to its end, from a generator. */
#ifndef RUBATO_FUZZ_RECIPE_H
#define RUBATO_FUZZ_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/rng.h"

struct recipe {
    const uint8_t *at;
    size_t left;
    struct rbt_rng rng;
};

static inline struct recipe recipe_begin(const uint8_t *bytes, size_t size)
{
    struct recipe recipe = {.at = bytes, .left = size};
    rbt_rng_init(&recipe.rng, size > 0 ? bytes[0] : 0, 0, 0);
    return recipe;
}

static inline uint64_t recipe_below(struct recipe *recipe, uint64_t bound)
{
    uint64_t number = rbt_rng_next(&recipe->rng);
    if (recipe->left > 0) {
        number ^= *recipe->at++;
        recipe->left--;
    }
    return number % bound;
}

/* True once in so many times. */
static inline bool recipe_once_in(struct recipe *recipe, uint64_t times)
{
    return recipe_below(recipe, times) == 0;
}

/* Changes a bit, a byte, or a number of four or eight bytes to one near a power of two. */
static inline void recipe_damage(struct recipe *recipe, char *bytes, size_t size)
{
    const uint64_t number = (UINT64_C(1) << recipe_below(recipe, 64)) + recipe_below(recipe, 3) - 1;
    const size_t place = size == 0 ? 0 : (size_t)recipe_below(recipe, size);
    const uint64_t how = recipe_below(recipe, 4);
    if (size < 8) {
        return;
    }
    if (how == 0) {
        bytes[place] = (char)(bytes[place] ^ 1 << recipe_below(recipe, 8));
    } else if (how == 1) {
        bytes[place] = (char)(bytes[place] + (recipe_once_in(recipe, 2) ? 1 : -1));
    } else if (how == 2) {
        memcpy(bytes + place / 4 * 4, &number, place / 4 * 4 + 4 <= size ? 4 : 0);
    } else {
        memcpy(bytes + place / 8 * 8, &number, place / 8 * 8 + 8 <= size ? 8 : 0);
    }
}

#endif
