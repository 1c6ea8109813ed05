/* base/limits.h - how much there may be of what. Each limit is defined here, once; what is checked
 * against it says so to the user. */
#ifndef RUBATO_BASE_LIMITS_H
#define RUBATO_BASE_LIMITS_H

enum {
    RBT_NAME_MAX = 256,          /* bytes of a name with its namespace, and its terminating zero */
    RBT_TEXT_MAX = 1024,         /* the same of the text of a rule, of filters or of a priority */
    RBT_ROW_WIDTH_MAX = 1 << 30, /* elements of a dense row, and values of its state */
};

#endif
