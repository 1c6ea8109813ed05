/* algo/frame/model.h - model files: what training leaves behind.
 *
 * A model is a kind, a list of named settings, named arrays of rows (keys and values), and named
 * lists of texts. The file
 * is written to a temporary name and renamed when it is complete and on disk, so there is never
 * half a model; it carries a checksum. The reader survives any bytes (it is fuzzed). */
#ifndef RUBATO_ALGO_FRAME_MODEL_H
#define RUBATO_ALGO_FRAME_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/rubato.h>

enum {
    RBT_MODEL_KIND_MAX = 255,
    RBT_MODEL_SETTINGS_MAX = 32,
    RBT_MODEL_ARRAYS_MAX = 8,
    RBT_MODEL_TEXTS_MAX = 4,
    RBT_MODEL_NAME_MAX = 32,
};

struct rbt_model_setting {
    char name[RBT_MODEL_NAME_MAX];
    double value;
};

struct rbt_model_array {
    char name[RBT_MODEL_NAME_MAX];
    uint32_t width;
    size_t count;
    uint64_t *keys; /* increasing */
    float *values;  /* count * width */
};

/* A list of texts, such as the words that numbers stand for. */
struct rbt_model_texts {
    char name[RBT_MODEL_NAME_MAX];
    size_t count;
    size_t size; /* of all texts, each with a zero behind it */
    char *bytes; /* the texts, one behind the other */
};

struct rbt_model {
    uint32_t kind; /* from 1: which algorithm's model it is (algo.h) */
    struct rbt_model_setting settings[RBT_MODEL_SETTINGS_MAX];
    size_t setting_count;
    struct rbt_model_array arrays[RBT_MODEL_ARRAYS_MAX];
    size_t array_count;
    struct rbt_model_texts texts[RBT_MODEL_TEXTS_MAX];
    size_t text_count; /* lists */
};

RBT_MUST_USE rbt_status rbt_model_write(const struct rbt_model *model, const char *path);
RBT_MUST_USE rbt_status rbt_model_read(const char *path, struct rbt_model *model);

/* Decodes a file that is in memory; what rbt_model_read() does after reading. */
RBT_MUST_USE rbt_status rbt_model_decode(const uint8_t *bytes, size_t size,
                                         struct rbt_model *model);
void rbt_model_free(struct rbt_model *model);

/* The file as bytes, which the caller frees with rbt_free(). */
RBT_MUST_USE rbt_status rbt_model_encode(const struct rbt_model *model, uint8_t **bytes,
                                         size_t *size);

/* Value of a setting, or `fallback`; adds a setting. */
double rbt_model_setting(const struct rbt_model *model, const char *name, double fallback);
void rbt_model_set(struct rbt_model *model, const char *name, double value);

/* The array of that name, or NULL. */
const struct rbt_model_array *rbt_model_array_find(const struct rbt_model *model, const char *name);

/* Makes an array of `count` rows of zeros with the keys 0, 1, ...; or a copy. False: there is no
 * memory, and the array has no rows. What an array had before is not freed. */
RBT_MUST_USE bool rbt_model_array_make(struct rbt_model_array *array, const char *name,
                                       size_t count, size_t width);
RBT_MUST_USE bool rbt_model_array_copy(const struct rbt_model_array *from,
                                       struct rbt_model_array *to);

/* Frees what the array has and leaves it empty. */
void rbt_model_array_free(struct rbt_model_array *array);

/* Row i of `rows`, (count, array->width), becomes that of keys[i], zero if the array has none; keys
 * increase. */
void rbt_model_array_rows(const struct rbt_model_array *array, const uint64_t *keys, size_t count,
                          float *rows);

/* The list of texts of that name, or NULL. */
const struct rbt_model_texts *rbt_model_texts_find(const struct rbt_model *model, const char *name);

/* Hash of all keys and values, array by array. */
uint64_t rbt_model_digest(const struct rbt_model *model);

#endif
