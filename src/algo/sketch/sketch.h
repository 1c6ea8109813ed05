/* algo/sketch/sketch.h - `rubato train sketch`. */
#ifndef RUBATO_ALGO_SKETCH_SKETCH_H
#define RUBATO_ALGO_SKETCH_SKETCH_H

#include "algo/frame/algo.h"

extern const struct rbt_algo rbt_sketch;

enum { RBT_MODEL_SKETCH = 6 }; /* the kind of its models */

/* The options of `train sketch`, and what they write into. */
#define RBT_SKETCH_OPTIONS(OPTION)                                                                 \
    OPTION(INT, depth, "depth", .min = 1, .max = RBT_SKETCH_DEPTH_MAX, .value = "4",               \
           .help = "Rows; an estimate keeps its error bound with probability 1 - exp(-depth).")    \
    OPTION(INT, width, "width", .min = 1, .max = 1 << 27, .value = "1048576",                      \
           .help = "Cells per row; the error bound is 2.718 times the sum of all counts divided "  \
                   "by width.")

struct rbt_sketch_config {
    RBT_SKETCH_OPTIONS(RBT_OPTION_FIELD)
};

#endif
