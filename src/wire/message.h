/* wire/message.h - what workers and shards say to each other.
 *
 * Every message is a frame (wire/frame.h): a header, whose `worker` says whose it is and whose `id`
 * is its number, and a body of fixed fields, then rows (wire/rows.h) or texts. Writers are told
 * where; readers check everything and give views into the body. docs/wire.md shows the bytes.
 *
 * Pure functions: no I/O, no memory of their own. Threads: any. */
#ifndef RUBATO_WIRE_MESSAGE_H
#define RUBATO_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "core/spec.h"
#include "wire/frame.h"
#include "wire/rows.h"

enum {
    RBT_WIRE_TEXT_MAX = 1024,
    RBT_WIRE_BATCHES_MAX = 1 << 16,
    RBT_WIRE_WORKERS_MAX = 1 << 16, /* that messages can name; jobs have fewer (base/limits.h) */
    RBT_WIRE_SECRET = 16,           /* bytes */
};

/* What shows that its sender belongs to a job: random bytes that the coordinator has drawn. */
struct rbt_wire_secret {
    unsigned char bytes[RBT_WIRE_SECRET];
};

/* Takes as long whether they are equal or not, so that nobody can find out one byte by byte. */
bool rbt_wire_is_secret(const struct rbt_wire_secret *a, const struct rbt_wire_secret *b);

/* HELLO: a connection belongs to one worker, to a process (worker RBT_FRAME_NOBODY), or to a
 * reader. */
struct rbt_wire_hello {
    uint64_t cluster; /* which cluster the sender means; both must agree */
    uint64_t job;     /* which job, as the coordinator numbers them */
    uint32_t worker;
    uint32_t worker_count; /* of the job */
    uint32_t shard;        /* which one it thinks it talks to */
    bool is_reader;
    enum rbt_compression compression; /* that the sender wants answers to have, when it pays */
    struct rbt_wire_secret secret;    /* the job's, or that of its readers */
    char space[RBT_NAME_MAX];         /* namespace */
    char node[RBT_NAME_MAX];          /* for people: "worker/3" */
};

/* What a shard says with everything that it sends. */
struct rbt_wire_news {
    int64_t floor;
    uint64_t version;
    uint64_t arrived; /* of the worker's stream */
    uint64_t settled; /* of it, shown to everybody in all tables */
};

/* PUSH: see struct rbt_shard_event. LEAVE has no body. */
struct rbt_wire_push {
    int64_t clock;
    int64_t marker;
    uint64_t range_first;
    uint64_t range_last;
    uint32_t batch_count; /* that many rows follow */
};

/* PULL: one set of rows without values follows. */
struct rbt_wire_pull {
    int64_t need;
    uint64_t subscription; /* the worker's number of the set that the rows are of, or 0 */
    uint32_t applied_first;
    uint32_t applied_count;
    bool wants_stamp; /* the answer must have one */
    bool is_ahead;    /* nobody waits for the rows yet: they may be withheld */
    bool is_base;     /* see struct rbt_shard_event; and if so: */
    uint64_t least;
    uint64_t sequence;
    bool is_stable; /* only versions below `stable` are wanted */
    uint64_t stable;
    bool is_early; /* only of rows that have changed most since they were last sent; and if so: */
    uint32_t room; /* rows at most */
    bool has_copy; /* the answer may be a change of a copy that the reader has; and if so: */
    uint64_t copy; /* its name, or 0 if it has none */
};

struct rbt_wire_scan {
    int64_t need;
    uint64_t range_first;
    uint64_t range_last;
    uint64_t capacity; /* rows that there is room for */
    uint32_t table;
};

/* ROWS: the answer to a PULL or a SCAN; rows follow, their keys named (PULL) or written out (SCAN,
 * and an early PULL). */
struct rbt_wire_answer {
    struct rbt_wire_news news;
    bool was_parked;
    bool is_withheld; /* there are no rows: they must be asked for when they are wanted */
    bool has_stamp;   /* the PULL wanted it */
    uint64_t stamp;
    bool has_copy;       /* the PULL says which it has */
    uint64_t copy_base;  /* what is not there is as in the copy with this name; 0: all is there */
    uint64_t copy;       /* the name of what the reader has now; 0: none is kept */
    bool has_limit;      /* the PULL was of stable versions, */
    uint64_t limit;      /* and these are those below this one, maybe more than it said */
    uint64_t scan_count; /* how many rows there are in the range, even without room for them */
    uint32_t applied_count;
    const uint64_t *applied; /* writing: borrowed; reading: in the message */
};

/* DONE. */
struct rbt_wire_done {
    struct rbt_wire_news news;
    int32_t status;      /* enum rbt_status */
    uint64_t figures[8]; /* STATS: updates, duplicates, rows, held; bytes of rows, how many of them
                            for rules; most versions, most snapshots */
    struct rbt_spec table; /* TABLE: as it is at the shard */
    char text[RBT_WIRE_TEXT_MAX];
};

/* Sizes of whole frames in front of what follows them, header included; multiples of 8. */
enum {
    RBT_WIRE_PUSH_BYTES = RBT_FRAME_HEADER + 40,
    RBT_WIRE_LEAVE_BYTES = RBT_FRAME_HEADER,
    RBT_WIRE_PULL_BYTES = RBT_FRAME_HEADER + 24, /* and, if it is one: */
    RBT_WIRE_PULL_BASE = 16,
    RBT_WIRE_PULL_STABLE = 8,
    RBT_WIRE_PULL_EARLY = 8,
    RBT_WIRE_PULL_COPY = 8,
    RBT_WIRE_SCAN_BYTES = RBT_FRAME_HEADER + 40,
    RBT_WIRE_LIST_BYTES = RBT_FRAME_HEADER,
    RBT_WIRE_ANSWER_BYTES = RBT_FRAME_HEADER + 48, /* and 8 for each worker applied; and: */
    RBT_WIRE_ANSWER_STAMP = 8,                     /* if it has one */
    RBT_WIRE_ANSWER_COPY = 16,                     /* if it says which */
    RBT_WIRE_ANSWER_LIMIT = 8,                     /* if it has one */
    RBT_WIRE_ACK_BYTES = RBT_FRAME_HEADER + 32,
    RBT_WIRE_RESET_BYTES = RBT_FRAME_HEADER,
    RBT_WIRE_SHORT_MAX = 8192, /* HELLO, WELCOME, REFUSED, TABLE, DONE */
};

/* Writers put the fixed part behind the place of the header and return its size, header included;
 * the caller puts rows behind it and then calls rbt_wire_close(), which writes the header with the
 * length that it has come to. */
size_t rbt_wire_put_hello(char *to, const struct rbt_wire_hello *hello);
size_t rbt_wire_put_welcome(char *to, const struct rbt_wire_news *news);
size_t rbt_wire_put_refused(char *to, const char *text);
size_t rbt_wire_put_push(char *to, const struct rbt_wire_push *push);
size_t rbt_wire_put_pull(char *to, const struct rbt_wire_pull *pull);
size_t rbt_wire_put_scan(char *to, const struct rbt_wire_scan *scan);
size_t rbt_wire_put_answer(char *to, const struct rbt_wire_answer *answer);
size_t rbt_wire_put_ack(char *to, const struct rbt_wire_news *news);
size_t rbt_wire_put_table(char *to, const struct rbt_spec *table);
size_t rbt_wire_put_done(char *to, const struct rbt_wire_done *done);
void rbt_wire_close(char *frame, struct rbt_frame header, size_t bytes);

/* A body that is being read: what has not been looked at yet. */
struct rbt_wire_cursor {
    const char *at;
    const char *end;
};

/* Readers take the fixed part off the cursor, and fail with RBT_E_PROTOCOL if it is too short, a
 * text does not end, or a number is out of its range. Rows are then taken with
 * rbt_wire_rows_get(&cursor.at, cursor.end, ...); LIST is nothing but rows. */
RBT_MUST_USE rbt_status rbt_wire_get_hello(struct rbt_wire_cursor *from,
                                           struct rbt_wire_hello *hello);
RBT_MUST_USE rbt_status rbt_wire_get_news(struct rbt_wire_cursor *from, struct rbt_wire_news *news);
RBT_MUST_USE rbt_status rbt_wire_get_text(struct rbt_wire_cursor *from,
                                          char text[static RBT_WIRE_TEXT_MAX]);
RBT_MUST_USE rbt_status rbt_wire_get_push(struct rbt_wire_cursor *from, struct rbt_wire_push *push);
RBT_MUST_USE rbt_status rbt_wire_get_pull(struct rbt_wire_cursor *from, struct rbt_wire_pull *pull);
RBT_MUST_USE rbt_status rbt_wire_get_scan(struct rbt_wire_cursor *from, struct rbt_wire_scan *scan);
RBT_MUST_USE rbt_status rbt_wire_get_answer(struct rbt_wire_cursor *from,
                                            struct rbt_wire_answer *answer);
RBT_MUST_USE rbt_status rbt_wire_get_table(struct rbt_wire_cursor *from, struct rbt_spec *table);
RBT_MUST_USE rbt_status rbt_wire_get_done(struct rbt_wire_cursor *from, struct rbt_wire_done *done);

/* Fails with RBT_E_PROTOCOL if something has not been looked at; the last step of every reader. */
RBT_MUST_USE rbt_status rbt_wire_get_end(const struct rbt_wire_cursor *from);

#endif
