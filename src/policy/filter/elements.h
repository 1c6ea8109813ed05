/* policy/filter/elements.h - elements that are kept as bytes, and back: what is inside of PACK
 * filters. Threads: any. */
#ifndef RUBATO_POLICY_FILTER_ELEMENTS_H
#define RUBATO_POLICY_FILTER_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/status.h>

#include "policy/filter/chain.h"

/* How a body is written. */
struct rbt_elements_form {
    const struct rbt_filter *round; /* whose codes they are; NULL: there are none */
    uint32_t element_size;          /* 4 or 8; with `round` 4 */
    bool skips_zeros;               /* elements whose bits are all zero are not there */
};

/* What is said about a body in its first byte. */
enum {
    RBT_ELEMENTS_ALL = 0,  /* all elements are there */
    RBT_ELEMENTS_BITS = 1, /* a bit for each */
    RBT_ELEMENTS_GAPS = 2, /* how many there are, and the gaps between them */
    RBT_ELEMENTS_NONE = 3,
    RBT_ELEMENTS_WHICH = 3,  /* mask of the above */
    RBT_ELEMENTS_CODED = 4,  /* codes: their bits follow, and then their scale */
    RBT_ELEMENTS_SCALED = 8, /* the scale is not zero, and there */
    RBT_ELEMENTS_FLAGS = 15,
};

/* The most bytes that a body takes. */
size_t rbt_elements_bound(uint32_t element_size, size_t count);

/* Writes a body; returns its bytes, and its flags. `to` and `scratch` have room for the bound. */
size_t rbt_elements_put(const struct rbt_elements_form *form,
                        const struct rbt_chain_elements *elements, char *to, uint32_t *flags,
                        char *scratch);

/* A body that was received. */
struct rbt_elements_body {
    uint32_t flags;
    const char *bytes;
    size_t size;
};

/* Reads it. RBT_E_PROTOCOL if it is not what rbt_elements_put() makes. */
RBT_MUST_USE rbt_status rbt_elements_get(const struct rbt_elements_form *form,
                                         const struct rbt_elements_body *body,
                                         const struct rbt_chain_elements *elements);

#endif
