/* policy/rule/list.h - the rules that come with Rubato, in the order in which help lists them. Each
 * is a file of this folder, with its test. meson.build reads these lines, too. Threads: none. */
#ifndef RUBATO_POLICY_RULE_LIST_H
#define RUBATO_POLICY_RULE_LIST_H

#define RBT_RULE_LIST(X)                                                                           \
    X(add)                                                                                         \
    X(consgd)                                                                                      \
    X(dynsgd)                                                                                      \
    X(sgd)                                                                                         \
    X(adagrad)                                                                                     \
    X(adarev)                                                                                      \
    X(adadelay)                                                                                    \
    X(ftrl)                                                                                        \
    X(adam)                                                                                        \
    X(prox)

#endif
