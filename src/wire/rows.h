/* wire/rows.h - rows in a message: keys of one table and the values that belong to them.
 *
 * Keys are strictly increasing and travel in the shortest of several forms: as a run of successive
 * numbers, as differences, as they are, or, when the receiver has the list already, as nothing but
 * its name: a hash. Values travel as they are, without their zeros, compressed, or as the filters
 * of their table have made them, which is not for this module to read.
 *
 * What arrives is looked at before it is believed: a view has been checked to lie within the
 * message, keys to increase, compressed values to have the size that they should have.
 *
 * Pure functions: no I/O; memory is the caller's. Threads: any. */
#ifndef RUBATO_WIRE_ROWS_H
#define RUBATO_WIRE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

enum {
    RBT_WIRE_ROWS_BYTES = 32,          /* the fewest that rows can take */
    RBT_WIRE_COUNT_MAX = 1 << 28,      /* rows of 4 bytes that a body can hold */
    RBT_WIRE_EXPANSION_MAX = 256,      /* compressed values grow by no more */
    RBT_WIRE_FILTERED_FREE = 64 << 20, /* bytes that filtered values may become, however few */
};

enum rbt_key_form {
    RBT_KEYS_NAMED, /* not there: the receiver has the list, or knows which keys it asked for */
    RBT_KEYS_RUN,   /* first, first + 1, ... */
    RBT_KEYS_DELTA, /* differences, packed */
    RBT_KEYS_RAW,   /* as they are */
};

enum rbt_value_form {
    RBT_VALUES_NONE,   /* only keys */
    RBT_VALUES_RAW,    /* as they are */
    RBT_VALUES_SPARSE, /* without zeros */
    RBT_VALUES_LZ4,
    RBT_VALUES_ZSTD,
    RBT_VALUES_FILTERED, /* bytes that the filters of the table have made */
};

enum rbt_compression {
    RBT_COMPRESSION_NONE,  /* not even zeros are left out */
    RBT_COMPRESSION_ZEROS, /* left out when there are many */
    RBT_COMPRESSION_LZ4,   /* or LZ4, when a sample says that it pays */
    RBT_COMPRESSION_ZSTD,
};

/* Rows to be sent. Row i is at position positions[i] of keys and values, or at i. */
struct rbt_wire_rows {
    uint32_t table;
    size_t count;
    const uint64_t *keys; /* NULL: they are named by `list`, or follow from the request */
    const uint32_t *positions;
    uint64_t list;           /* the name of the keys, or 0 */
    const void *values;      /* NULL: only keys */
    uint32_t element_size;   /* 4 or 8 */
    uint32_t width;          /* of dense rows; elements per row */
    const uint32_t *offsets; /* sparse rows: elements of position p are offsets[p] .. [p+1]-1 */
    const uint32_t *elements;
    enum rbt_compression compression;
    /* What filters have made of the values: fewer bytes than they have; see rbt_wire_can_filter().
     * NULL: they travel as `compression` says. */
    const char *packed;
    size_t packed_bytes;
    /* Updates of tables with a rule, dense: see struct rbt_batch. Others pay nothing for it. */
    bool has_base;
    uint64_t base;
    uint64_t least;
};

/* The most bytes that the rows can take, and writing them: returns how many it took, a multiple of
 * 8. `to` is aligned to 8. `scratch` is for compression: as large as the bound, or NULL for
 * RBT_COMPRESSION_NONE and _ZEROS. */
size_t rbt_wire_rows_bound(const struct rbt_wire_rows *rows);
size_t rbt_wire_rows_put(char *to, const struct rbt_wire_rows *rows, char *scratch);

/* How many bytes of rows that have been written are keys. */
size_t rbt_wire_rows_key_bytes(const char *rows);

/* Whether leaving zeros out of dense rows would pay, as a sample has it. */
bool rbt_wire_rows_has_zeros(const struct rbt_wire_rows *rows);

/* How many values the rows have in all, and copies of them side by side, in their order. */
size_t rbt_wire_rows_elements(const struct rbt_wire_rows *rows);
void rbt_wire_rows_gather(const struct rbt_wire_rows *rows, size_t element_count, void *to);

/* Whether values of so many bytes may travel as so many filtered ones. */
bool rbt_wire_can_filter(uint64_t plain_bytes, uint64_t bytes);

/* The same for dense rows whose values are not there yet, or stay elsewhere: `values` is where the
 * caller writes them, as they are. The bytes that they take at most, and exactly. */
size_t rbt_wire_rows_reserve_bytes(const struct rbt_wire_rows *rows);
size_t rbt_wire_rows_reserve(char *to, const struct rbt_wire_rows *rows, void **values);

/* The first RBT_WIRE_ROWS_BYTES of that, for who knows what must come. */
void rbt_wire_rows_reserve_head(char *to, const struct rbt_wire_rows *rows);

/* Rows that have come; points into the message. */
struct rbt_wire_view {
    uint32_t table;
    uint32_t count;
    uint64_t list;
    enum rbt_key_form key_form;
    enum rbt_value_form value_form;
    uint32_t element_size;
    uint64_t element_count; /* values in all */
    const char *keys;
    size_t key_bytes;
    const char *values;
    size_t value_bytes;
    const uint32_t *offsets; /* sparse rows: count + 1, from 0, not decreasing; else NULL */
    const uint32_t
        *elements; /* within a row strictly increasing; below `width` is for the caller */
    bool has_base; /* only dense rows with values */
    uint64_t base;
    uint64_t least;
};

/* Takes rows off the front of *from and moves it on. Fails with RBT_E_PROTOCOL. */
RBT_MUST_USE rbt_status rbt_wire_rows_get(const char **from, const char *end,
                                          struct rbt_wire_view *view);

/* Writes the view's keys to `keys`, room for view->count. Fails with RBT_E_PROTOCOL if they are
 * named, do not increase, or overflow. */
RBT_MUST_USE rbt_status rbt_wire_view_keys(const struct rbt_wire_view *view, uint64_t *keys);

/* The values where they lie, or NULL if they have to be unpacked first; and unpacking them to
 * `values`, room for element_count * element_size bytes. Fails with RBT_E_PROTOCOL, also if they
 * were filtered: then view->values is for the table's filters to read. */
const void *rbt_wire_view_raw(const struct rbt_wire_view *view);
RBT_MUST_USE rbt_status rbt_wire_view_values(const struct rbt_wire_view *view, void *values);

/* The name of a list of keys, never 0. */
uint64_t rbt_wire_list_name(const uint64_t *keys, const uint32_t *positions, size_t count);

#endif
