/* algo/sketch/sketch.h - `rubato train sketch`. */
#ifndef RUBATO_ALGO_SKETCH_SKETCH_H
#define RUBATO_ALGO_SKETCH_SKETCH_H

#include "algo/frame/algo.h"

extern const struct rbt_algo rbt_sketch;

/* What the options of `train sketch` write into. */
struct rbt_sketch_config {
    int64_t depth;
    int64_t width;
};

#endif
