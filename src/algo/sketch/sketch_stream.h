/* algo/sketch/sketch_stream.h - streams of keys: text files with a key, and perhaps a count, per
 * line.
 *
 *     Main_Page 242332
 *     Talk:Tea_ceremony
 *     17
 *
 * A key is everything up to a blank or tab, and is kept as the 64-bit hash of its bytes. Without a
 * count it counts once. Blank lines are skipped; there are no comments, since a key may begin with
 * any sign. Threads: none; reading makes its own. */
#ifndef RUBATO_ALGO_SKETCH_SKETCH_STREAM_H
#define RUBATO_ALGO_SKETCH_SKETCH_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/option.h"
#include "data/lines.h"

struct rbt_sketch_stream {
    size_t count;
    uint64_t *hashes; /* (count) */
    uint64_t *counts; /* (count), or NULL: every key counts once */
    uint64_t total;   /* sum of counts, at most 2^48 - 1 */
};

/* Reads all files in the order given. On success the caller frees the stream.
 * Fails with RBT_E_DATA and `cannot read "FILE", line N: ...`, RBT_E_NOTFOUND, RBT_E_IO,
 * RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_sketch_stream_read(const struct rbt_option_list *paths,
                                               struct rbt_sketch_stream *stream);

/* Adds the keys of one text to a stream; on failure it may hold some of them. */
RBT_MUST_USE rbt_status rbt_sketch_stream_parse(const struct rbt_text *text, uint32_t threads,
                                                struct rbt_sketch_stream *stream);
void rbt_sketch_stream_free(struct rbt_sketch_stream *stream);

#endif
