/* base/limits.h - how much there may be of what, where more than one module must agree. Each limit
 * is defined here, once; whoever checks something against it says so to the user. */
#ifndef RUBATO_BASE_LIMITS_H
#define RUBATO_BASE_LIMITS_H

#include <stdint.h>

/* Of a job. */
enum {
    RBT_JOB_WORKERS_MAX = 1024,
    RBT_JOB_SHARDS_MAX = 256,
    RBT_JOB_TABLES_MAX = 4096,
    RBT_CLUSTER_SHARDS_MAX = 4096, /* of all servers; a job cannot use more than its own limit */
    RBT_STALENESS_MAX = 1000000,   /* clocks */
};

/* Of a table. */
enum {
    RBT_NAME_MAX = 256,          /* bytes of a name with its namespace, and its terminating zero */
    RBT_TEXT_MAX = 1024,         /* the same of the text of a rule, of filters or of a priority */
    RBT_ROW_WIDTH_MAX = 1 << 30, /* elements of a dense row, and values of its state */
};

#define RBT_TABLE_ROWS_MAX (UINT64_C(1) << 40) /* in all shards; memory ends long before */

/* Lists of keys that a worker gives a shard names for. Shards take more than workers give, so that
 * nobody who keeps to that is refused. */
enum {
    RBT_LISTS_MAX = 4096,
    RBT_LISTS_TAKEN_MAX = 1 << 16,
    RBT_LIST_KEYS_MAX = 1 << 27, /* in all of them; each is 8 bytes there, however packed */
    RBT_LIST_KEYS_TAKEN_MAX = 1 << 28,
};

/* Connections that have not said who they are, and how many of these may come from one host: a
 * cluster may be on one, and come at once. */
enum {
    RBT_STRANGERS_MAX = 256,
    RBT_STRANGERS_PER_HOST_MAX = 192,
};

/* Nanoseconds: of an attempt to connect, after which a new one is better than the kernel's slow
 * repetitions; and between two attempts. */
#define RBT_ATTEMPT_TIME_MAX INT64_C(3000000000)
#define RBT_ATTEMPT_WAIT_MAX INT64_C(500000000)

/* Of files of data. */
enum {
    RBT_PARSERS_MAX = 256,     /* threads that read one */
    RBT_LOOK_LINES_MAX = 1000, /* that are looked at to see what its columns are */
};

#endif
