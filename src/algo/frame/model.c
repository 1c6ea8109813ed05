/* algo/frame/model.c - model files: what training leaves behind.
 *
 * Layout, little-endian, no padding:
 *
 *     "RBTMODEL"  u32 format (1 or 2)  u32 kind  u32 setting_count  u32 array_count
 *     format 2    u32 list_count, of texts
 *     settings    each: name (32 bytes, zero-filled), f64 value
 *     arrays      each: name (32 bytes), u32 width, u32 zero, u64 count,
 *                       count keys (u64, increasing), count * width values (f32)
 *     format 2    lists of texts, each: name (32 bytes), u64 count, u64 size,
 *                       size bytes: count texts, each ended by a zero
 *     u64         XXH3 of everything before
 *
 * A model without texts is written as format 1, which every Rubato can read.
 *
 * The reader trusts nothing: every size is checked against what is left of the file before it is
 * used, and nothing is allocated that the file is too short to fill. */
#include "algo/frame/model.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/io.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "model files are little-endian; this machine needs byte swaps in put() and take()"
#endif

enum {
    FORMAT_PLAIN = 1,
    FORMAT_TEXTS = 2,
    MAGIC_SIZE = 8,
    WIDTH_MAX = 1 << 20,
    PATH_MAX_SIZE = 4096
};
static const char magic[MAGIC_SIZE] = {'R', 'B', 'T', 'M', 'O', 'D', 'E', 'L'};

double rbt_model_setting(const struct rbt_model *model, const char *name, double fallback)
{
    for (size_t i = 0; i < model->setting_count; i++) {
        if (strcmp(model->settings[i].name, name) == 0) {
            return model->settings[i].value;
        }
    }
    return fallback;
}

void rbt_model_set(struct rbt_model *model, const char *name, double value)
{
    RBT_ASSERT(model->setting_count < RBT_MODEL_SETTINGS_MAX);
    RBT_ASSERT(strlen(name) < RBT_MODEL_NAME_MAX);
    struct rbt_model_setting *setting = &model->settings[model->setting_count++];
    *setting = (struct rbt_model_setting){.value = value};
    memcpy(setting->name, name, strlen(name));
}

const struct rbt_model_array *rbt_model_array_find(const struct rbt_model *model, const char *name)
{
    for (size_t i = 0; i < model->array_count; i++) {
        if (strcmp(model->arrays[i].name, name) == 0) {
            return &model->arrays[i];
        }
    }
    return NULL;
}

bool rbt_model_array_make(struct rbt_model_array *array, const char *name, size_t count,
                          size_t width)
{
    RBT_ASSERT(strlen(name) < sizeof array->name);
    *array = (struct rbt_model_array){.width = (uint32_t)width, .count = count};
    memcpy(array->name, name, strlen(name));
    array->keys = rbt_calloc(count, sizeof *array->keys);
    array->values = rbt_calloc(count * width, sizeof *array->values);
    if (array->keys == NULL || array->values == NULL) {
        rbt_model_array_free(array);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        array->keys[i] = i;
    }
    return true;
}

bool rbt_model_array_copy(const struct rbt_model_array *from, struct rbt_model_array *to)
{
    if (!rbt_model_array_make(to, from->name, from->count, from->width)) {
        return false;
    }
    memcpy(to->keys, from->keys, from->count * sizeof *to->keys);
    memcpy(to->values, from->values, from->count * from->width * sizeof *to->values);
    return true;
}

void rbt_model_array_free(struct rbt_model_array *array)
{
    rbt_free(array->values);
    rbt_free(array->keys);
    *array = (struct rbt_model_array){0};
}

void rbt_model_array_rows(const struct rbt_model_array *array, const uint64_t *keys, size_t count,
                          float *rows)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        while (at < array->count && array->keys[at] < keys[i]) {
            at++;
        }
        const bool is_there = at < array->count && array->keys[at] == keys[i];
        for (size_t c = 0; c < array->width; c++) {
            rows[i * array->width + c] = is_there ? array->values[at * array->width + c] : 0.0F;
        }
    }
}

const struct rbt_model_texts *rbt_model_texts_find(const struct rbt_model *model, const char *name)
{
    for (size_t i = 0; i < model->text_count; i++) {
        if (strcmp(model->texts[i].name, name) == 0) {
            return &model->texts[i];
        }
    }
    return NULL;
}

void rbt_model_free(struct rbt_model *model)
{
    for (size_t i = 0; i < model->text_count; i++) {
        rbt_free(model->texts[i].bytes);
    }
    for (size_t i = 0; i < model->array_count; i++) {
        rbt_free(model->arrays[i].keys);
        rbt_free(model->arrays[i].values);
    }
    *model = (struct rbt_model){0};
}

uint64_t rbt_model_digest(const struct rbt_model *model)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < model->array_count; i++) {
        const struct rbt_model_array *array = &model->arrays[i];
        hash = rbt_hash_bytes(array->keys, array->count * sizeof *array->keys, hash);
        hash = rbt_hash_bytes(array->values, array->count * array->width * sizeof *array->values,
                              hash);
    }
    return hash;
}

/* --- Encoding -------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
    if (size > 0) {
        memcpy(at, bytes, size);
    }
    return at + size;
}

static size_t encoded_size(const struct rbt_model *model)
{
    size_t size = MAGIC_SIZE + 4 * sizeof(uint32_t) + sizeof(uint64_t);
    size += model->setting_count * (RBT_MODEL_NAME_MAX + sizeof(double));
    for (size_t i = 0; i < model->array_count; i++) {
        const struct rbt_model_array *array = &model->arrays[i];
        size += RBT_MODEL_NAME_MAX + 2 * sizeof(uint32_t) + sizeof(uint64_t);
        size += array->count * (sizeof(uint64_t) + array->width * sizeof(float));
    }
    size += model->text_count > 0 ? sizeof(uint32_t) : 0;
    for (size_t i = 0; i < model->text_count; i++) {
        size += RBT_MODEL_NAME_MAX + 2 * sizeof(uint64_t) + model->texts[i].size;
    }
    return size;
}

rbt_status rbt_model_encode(const struct rbt_model *model, uint8_t **bytes, size_t *size)
{
    const size_t total = encoded_size(model);
    uint8_t *buffer = rbt_calloc(total, 1);
    if (buffer == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a model of %zu bytes", total);
    }
    const bool has_texts = model->text_count > 0;
    const uint32_t head[] = {has_texts ? FORMAT_TEXTS : FORMAT_PLAIN, model->kind,
                             (uint32_t)model->setting_count, (uint32_t)model->array_count,
                             (uint32_t)model->text_count};
    uint8_t *at = put(buffer, magic, MAGIC_SIZE);
    at = put(at, head, sizeof head - (has_texts ? 0 : sizeof *head));
    for (size_t i = 0; i < model->setting_count; i++) {
        at = put(at, model->settings[i].name, RBT_MODEL_NAME_MAX);
        at = put(at, &model->settings[i].value, sizeof(double));
    }
    for (size_t i = 0; i < model->array_count; i++) {
        const struct rbt_model_array *array = &model->arrays[i];
        const uint32_t shape[] = {array->width, 0};
        const uint64_t count = array->count;
        at = put(at, array->name, RBT_MODEL_NAME_MAX);
        at = put(at, shape, sizeof shape);
        at = put(at, &count, sizeof count);
        at = put(at, array->keys, array->count * sizeof *array->keys);
        at = put(at, array->values, array->count * array->width * sizeof *array->values);
    }
    for (size_t i = 0; i < model->text_count; i++) {
        const uint64_t shape[] = {model->texts[i].count, model->texts[i].size};
        at = put(at, model->texts[i].name, RBT_MODEL_NAME_MAX);
        at = put(at, shape, sizeof shape);
        at = put(at, model->texts[i].bytes, model->texts[i].size);
    }
    const uint64_t checksum = rbt_hash_bytes(buffer, (size_t)(at - buffer), 0);
    at = put(at, &checksum, sizeof checksum);
    RBT_ASSERT((size_t)(at - buffer) == total);
    *bytes = buffer;
    *size = total;
    return RBT_OK;
}

/* --- Writing --------------------------------------------------------------------------------- */

/* Writes all bytes and waits until they are on disk. */
static rbt_status write_all(int fd, const uint8_t *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t n = rbt_io_write(fd, bytes + done, size - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return rbt_fail(RBT_E_IO, "could not write");
        }
        done += (size_t)n;
    }
    if (rbt_io_fsync(fd) != 0) {
        return rbt_fail(RBT_E_IO, "could not write to disk");
    }
    return RBT_OK;
}

/* Makes the rename itself durable. A file system that cannot do that still has the whole file. */
static void sync_directory(const char *path)
{
    char directory[PATH_MAX_SIZE] = ".";
    const char *slash = strrchr(path, '/');
    if (slash != NULL) {
        const size_t length = slash == path ? 1 : (size_t)(slash - path);
        memcpy(directory, path, length);
        directory[length] = '\0';
    }
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* see above */
        (void)close(fd); /* nothing was written through it */
    }
}

static rbt_status replace(const char *path, const uint8_t *bytes, size_t size)
{
    char temporary[PATH_MAX_SIZE];
    const int length = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary) {
        return rbt_fail(RBT_E_INVALID, "the path is too long");
    }
    const int fd = rbt_io_open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return rbt_fail(RBT_E_IO, "could not create \"%s\"", temporary);
    }
    rbt_status st = write_all(fd, bytes, size);
    if (rbt_io_close(fd) != 0 && st == RBT_OK) {
        st = rbt_fail(RBT_E_IO, "could not close \"%s\"", temporary);
    }
    if (st == RBT_OK && rbt_io_rename(temporary, path) != 0) {
        st = rbt_fail(RBT_E_IO, "could not rename \"%s\"", temporary);
    }
    if (st != RBT_OK) {
        (void)unlink(temporary); /* the first failure is the one to report */
        return st;
    }
    sync_directory(path);
    return RBT_OK;
}

rbt_status rbt_model_write(const struct rbt_model *model, const char *path)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    rbt_status st = rbt_model_encode(model, &bytes, &size);
    if (st == RBT_OK) {
        st = replace(path, bytes, size);
        rbt_free(bytes);
    }
    return st == RBT_OK ? RBT_OK : rbt_fail_in(st, "cannot write model \"%s\"", path);
}

/* --- Decoding -------------------------------------------------------------------------------- */

struct cursor {
    const uint8_t *at;
    size_t left;
};

/* Copies `size` bytes out; false if there are fewer. */
static bool take(struct cursor *cursor, void *out, size_t size)
{
    if (cursor->left < size) {
        return false;
    }
    if (size > 0) {
        memcpy(out, cursor->at, size);
    }
    cursor->at += size;
    cursor->left -= size;
    return true;
}

static rbt_status ends_early(void)
{
    return rbt_fail(RBT_E_DATA, "it ends early");
}

static rbt_status damaged(const char *what)
{
    return rbt_fail(RBT_E_DATA, "it is damaged (%s)", what);
}

static bool is_name(const char *name)
{
    return name[0] != '\0' && memchr(name, '\0', RBT_MODEL_NAME_MAX) != NULL;
}

static rbt_status decode_array(struct cursor *cursor, struct rbt_model_array *array)
{
    uint32_t shape[2];
    uint64_t count = 0;
    if (!take(cursor, array->name, RBT_MODEL_NAME_MAX) || !take(cursor, shape, sizeof shape) ||
        !take(cursor, &count, sizeof count)) {
        return ends_early();
    }
    if (!is_name(array->name) || shape[0] == 0 || shape[0] > WIDTH_MAX || shape[1] != 0) {
        return damaged("an array has an impossible head");
    }
    const size_t row_size = sizeof(uint64_t) + shape[0] * sizeof(float); /* at most 4 MB */
    if (count > cursor->left / row_size) {
        return ends_early();
    }
    array->width = shape[0];
    array->keys = rbt_calloc((size_t)count, sizeof *array->keys);
    array->values = rbt_calloc((size_t)count * array->width, sizeof *array->values);
    if (array->keys == NULL || array->values == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for its %llu rows", (unsigned long long)count);
    }
    array->count = (size_t)count;
    const bool has_keys = take(cursor, array->keys, array->count * sizeof *array->keys);
    const bool has_values =
        take(cursor, array->values, array->count * array->width * sizeof *array->values);
    RBT_ASSERT(has_keys);
    RBT_ASSERT(has_values);
    for (size_t i = 1; i < array->count; i++) {
        if (array->keys[i] <= array->keys[i - 1]) {
            return damaged("keys are out of order");
        }
    }
    for (size_t i = 0; i < array->count * array->width; i++) {
        if (!isfinite(array->values[i])) {
            return damaged("a value is not a number");
        }
    }
    return RBT_OK;
}

static rbt_status decode_texts(struct cursor *cursor, struct rbt_model_texts *texts)
{
    uint64_t shape[2];
    if (!take(cursor, texts->name, RBT_MODEL_NAME_MAX) || !take(cursor, shape, sizeof shape)) {
        return ends_early();
    }
    if (!is_name(texts->name) || shape[0] > shape[1]) {
        return damaged("a list of texts has an impossible head");
    }
    if (shape[1] > cursor->left) {
        return ends_early();
    }
    texts->bytes = rbt_calloc((size_t)shape[1], 1);
    if (texts->bytes == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for its %llu texts", (unsigned long long)shape[0]);
    }
    texts->size = (size_t)shape[1];
    const bool has_bytes = take(cursor, texts->bytes, texts->size);
    RBT_ASSERT(has_bytes);
    for (size_t i = 0; i < texts->size; i++) {
        texts->count += texts->bytes[i] == '\0' ? 1 : 0;
    }
    const bool is_ended = texts->size == 0 || texts->bytes[texts->size - 1] == '\0';
    return is_ended && texts->count == shape[0]
               ? RBT_OK
               : damaged("the number of texts differs from its head");
}

/* How many arrays and lists of texts follow. */
struct counts {
    uint32_t arrays;
    uint32_t texts;
};

static rbt_status decode_head(struct cursor *cursor, struct rbt_model *model, struct counts *counts)
{
    char start[MAGIC_SIZE];
    uint32_t head[4];
    const size_t compared = cursor->left < MAGIC_SIZE ? cursor->left : MAGIC_SIZE;
    if (compared == 0 || memcmp(cursor->at, magic, compared) != 0) {
        return rbt_fail(RBT_E_DATA, "it is not a Rubato model");
    }
    if (!take(cursor, start, sizeof start) || !take(cursor, head, sizeof head)) {
        return ends_early();
    }
    if (head[0] > FORMAT_TEXTS) {
        return rbt_fail(RBT_E_DATA, "it was written by a newer Rubato (format %u)", head[0]);
    }
    if (head[0] == FORMAT_TEXTS && !take(cursor, &counts->texts, sizeof counts->texts)) {
        return ends_early();
    }
    const bool has_impossible_texts =
        head[0] == FORMAT_TEXTS && (counts->texts == 0 || counts->texts > RBT_MODEL_TEXTS_MAX);
    if (head[0] == 0 || has_impossible_texts || head[1] == 0 || head[1] > RBT_MODEL_KIND_MAX ||
        head[2] > RBT_MODEL_SETTINGS_MAX || head[3] > RBT_MODEL_ARRAYS_MAX) {
        return damaged("its head is impossible");
    }
    model->kind = head[1];
    for (uint32_t i = 0; i < head[2]; i++) {
        struct rbt_model_setting *setting = &model->settings[i];
        if (!take(cursor, setting->name, RBT_MODEL_NAME_MAX) ||
            !take(cursor, &setting->value, sizeof setting->value)) {
            return ends_early();
        }
        if (!is_name(setting->name)) {
            return damaged("a setting has no name");
        }
        model->setting_count = i + 1;
    }
    counts->arrays = head[3];
    return RBT_OK;
}

rbt_status rbt_model_decode(const uint8_t *bytes, size_t size, struct rbt_model *model)
{
    struct cursor cursor = {.at = bytes, .left = size};
    struct rbt_model read = {0};
    struct counts counts = {0};
    uint64_t checksum = 0;
    rbt_status st = decode_head(&cursor, &read, &counts);
    for (uint32_t i = 0; i < counts.arrays && st == RBT_OK; i++) {
        read.array_count = i + 1; /* first, so that half an array is freed */
        st = decode_array(&cursor, &read.arrays[i]);
    }
    for (uint32_t i = 0; i < counts.texts && st == RBT_OK; i++) {
        read.text_count = i + 1;
        st = decode_texts(&cursor, &read.texts[i]);
    }
    const size_t checked = size - cursor.left;
    if (st == RBT_OK && !take(&cursor, &checksum, sizeof checksum)) {
        st = ends_early();
    }
    if (st == RBT_OK && checksum != rbt_hash_bytes(bytes, checked, 0)) {
        st = damaged("checksum differs");
    }
    if (st == RBT_OK && cursor.left != 0) {
        st = damaged("there is something behind its end");
    }
    if (st != RBT_OK) {
        rbt_model_free(&read);
        return st;
    }
    *model = read;
    return RBT_OK;
}

/* --- Reading --------------------------------------------------------------------------------- */

/* The whole file; the caller frees it. */
static rbt_status read_file(int fd, uint8_t **bytes, size_t *size)
{
    struct stat about;
    if (rbt_io_stat(fd, &about) != 0) {
        return rbt_fail(RBT_E_IO, "could not read its size");
    }
    const size_t total = (size_t)about.st_size;
    uint8_t *buffer = rbt_calloc(total, 1);
    if (buffer == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for its %zu bytes", total);
    }
    const ssize_t done = rbt_file_fill(fd, buffer, total);
    if (done < 0) {
        const rbt_status st = rbt_fail(RBT_E_IO, "could not read");
        rbt_free(buffer);
        return st;
    }
    *bytes = buffer;
    *size = (size_t)done; /* less if it has become shorter; the decoder will say so */
    return RBT_OK;
}

rbt_status rbt_model_read(const char *path, struct rbt_model *model)
{
    int fd = -1;
    rbt_status st = rbt_file_open(path, RBT_FILE_REGULAR, &fd);
    if (st != RBT_OK) {
        return rbt_fail_in(st, "cannot read model \"%s\"", path);
    }
    uint8_t *bytes = NULL;
    size_t size = 0;
    st = read_file(fd, &bytes, &size);
    (void)close(fd); /* it was only read */
    if (st == RBT_OK) {
        st = rbt_model_decode(bytes, size, model);
        rbt_free(bytes);
    }
    return st == RBT_OK ? RBT_OK : rbt_fail_in(st, "cannot read model \"%s\"", path);
}
