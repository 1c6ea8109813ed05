/* policy/filter/list.h - the filters that come with Rubato, in the order in which help lists them,
 * and the file of this folder that has each; the file has a test. meson.build reads these lines,
 * too. Threads: none. */
#ifndef RUBATO_POLICY_FILTER_LIST_H
#define RUBATO_POLICY_FILTER_LIST_H

#define RBT_FILTER_LIST(X)                                                                         \
    X(tiny, threshold)                                                                             \
    X(significant, threshold)                                                                      \
    X(changed, threshold)                                                                          \
    X(skip, subsample)                                                                             \
    X(sample, subsample)                                                                           \
    X(kkt, kkt)                                                                                    \
    X(f16, half)                                                                                   \
    X(bf16, half)                                                                                  \
    X(fixed, fixed)                                                                                \
    X(lz4, compress)                                                                               \
    X(zstd, compress)

#endif
