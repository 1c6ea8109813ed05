/* core/spec.c - what a table is: compared, checked, saved.
 *
 * Everything goes by the list of fields, but for what some of them say about others. Threads: any;
 * no state. */
#include "core/spec.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

#define FIELD(name) #name, offsetof(struct rbt_spec, name), sizeof((struct rbt_spec *)0)->name

const struct rbt_spec_field rbt_spec_fields[RBT_SPEC_FIELDS] = {
    {FIELD(number), RBT_SPEC_NUMBER, 0, false, 0},
    {FIELD(type), RBT_SPEC_CHOICE, RBT_I64, true, 1},
    {FIELD(layout), RBT_SPEC_CHOICE, RBT_SPARSE, true, 3},
    {FIELD(width), RBT_SPEC_NUMBER, 0, true, 7},
    {FIELD(state_width), RBT_SPEC_NUMBER, 0, true, 8},
    {FIELD(merge), RBT_SPEC_CHOICE, RBT_MERGE_OR, true, 2},
    {FIELD(init), RBT_SPEC_CHOICE, RBT_INIT_NORMAL, true, 4},
    {FIELD(partial), RBT_SPEC_CHOICE, RBT_PARTIAL_SHOW, true, 5},
    {FIELD(a), RBT_SPEC_REAL, 0, true, 9},
    {FIELD(b), RBT_SPEC_REAL, 0, true, 10},
    {FIELD(seed), RBT_SPEC_NUMBER, 0, true, 11},
    {FIELD(staleness), RBT_SPEC_BOUND, 0, false, 0},
    {FIELD(rows_expected), RBT_SPEC_NUMBER, 0, false, 0},
    {FIELD(must_exist), RBT_SPEC_FLAG, 0, false, 0},
    {FIELD(is_synchronised), RBT_SPEC_FLAG, 0, true, 6},
    {FIELD(follows_job), RBT_SPEC_FLAG, 0, false, 0},
    {"", 0, 0, RBT_SPEC_NOTHING, 0, false, 0}, /* the next flag's */
    {FIELD(bandwidth), RBT_SPEC_NUMBER, 0, false, 0},
    {FIELD(name), RBT_SPEC_TEXT, 0, true, 13},
    {FIELD(rule), RBT_SPEC_TEXT, 0, true, 12},
    {FIELD(priority), RBT_SPEC_TEXT, 0, true, 14},
    {FIELD(filter), RBT_SPEC_TEXT, 0, true, 15},
};

_Static_assert(sizeof(rbt_type) == sizeof(uint32_t), "choices are numbers of 4 bytes");

/* --- Comparing and checking ------------------------------------------------------------------- */

static bool has_equal(const struct rbt_spec_field *field, const char *a, const char *b)
{
    if (field->sort == RBT_SPEC_REAL) { /* either zero is zero */
        return *(const double *)(const void *)a == *(const double *)(const void *)b;
    }
    return field->sort == RBT_SPEC_TEXT ? strcmp(a, b) == 0 : memcmp(a, b, field->size) == 0;
}

bool rbt_spec_is_same(const struct rbt_spec *a, const struct rbt_spec *b)
{
    RBT_ASSERT(a != NULL);
    RBT_ASSERT(b != NULL);
    bool is_same = true;
    for (size_t i = 0; is_same && i < RBT_SPEC_FIELDS; i++) {
        const struct rbt_spec_field *field = &rbt_spec_fields[i];
        const char *mine = (const char *)a + field->at;
        is_same = !field->is_own || has_equal(field, mine, (const char *)b + field->at);
    }
    return is_same;
}

/* What is wrong with the numbers on their own, or NULL. */
static const char *find_wrong_number(const struct rbt_spec *spec)
{
    RBT_ASSERT(spec->layout <= RBT_SPARSE);
    RBT_ASSERT(spec->type <= RBT_I64);
    if (spec->width == 0 || (spec->layout == RBT_DENSE && spec->width > RBT_ROW_WIDTH_MAX)) {
        return "width must be from 1 to 2^30";
    }
    if (spec->state_width > RBT_ROW_WIDTH_MAX) {
        return "state_width must be at most 2^30";
    }
    if (!isfinite(spec->a) || !isfinite(spec->b)) {
        return "the parameters of init must be finite";
    }
    if (spec->staleness < RBT_STALENESS_ANY) {
        return "staleness is negative";
    }
    return spec->rows_expected >= UINT32_MAX ? "rows_expected must be below 2^32 - 1 in every shard"
                                             : NULL;
}

/* What is wrong with the fields together, or NULL. */
static const char *find_conflict(const struct rbt_spec *spec)
{
    const bool is_dense = spec->layout == RBT_DENSE;
    const bool is_real = spec->type == RBT_F32 || spec->type == RBT_F64;
    const bool adds_floats = is_dense && spec->type == RBT_F32 && spec->merge == RBT_MERGE_ADD;
    RBT_ASSERT(spec->width > 0);
    RBT_ASSERT(spec->merge <= RBT_MERGE_OR);
    if (!is_dense && spec->init != RBT_INIT_ZERO) {
        return "init must be zero for sparse rows, which start empty";
    }
    if (!is_dense && spec->state_width != 0) {
        return "state_width must be 0 for sparse rows, which have no state";
    }
    if (!is_dense && spec->merge != RBT_MERGE_ADD && spec->merge != RBT_MERGE_OR) {
        return "merge must be \"add\" or \"or\" for sparse rows: what is not there counts as zero";
    }
    if (spec->merge == RBT_MERGE_OR && is_real) {
        return "merge \"or\" needs an integer type";
    }
    if (spec->rule[0] != '\0' && !adds_floats) {
        return "a rule needs dense rows of f32 with merge \"add\"";
    }
    if (spec->priority[0] != '\0' && (!adds_floats || spec->is_synchronised)) {
        return "a priority needs dense rows of f32 with merge \"add\", not synchronised";
    }
    return spec->is_synchronised && spec->rule[0] == '\0'
               ? "is_synchronised needs a rule with versions, such as \"dynsgd\""
               : NULL;
}

rbt_status rbt_spec_check(const struct rbt_spec *spec, rbt_status status)
{
    RBT_ASSERT(spec != NULL);
    RBT_ASSERT(status != RBT_OK);
    for (size_t i = 0; i < RBT_SPEC_FIELDS; i++) {
        const struct rbt_spec_field *field = &rbt_spec_fields[i];
        uint32_t choice = 0;
        if (field->sort == RBT_SPEC_CHOICE) {
            memcpy(&choice, (const char *)spec + field->at, sizeof choice);
        }
        if (choice > field->limit) {
            return rbt_fail(status, "table \"%s\": %s must be from 0 to %u, not %u", spec->name,
                            field->name, field->limit, choice);
        }
    }
    const char *wrong = find_wrong_number(spec);
    wrong = wrong != NULL ? wrong : find_conflict(spec);
    return wrong == NULL ? RBT_OK : rbt_fail(status, "table \"%s\": %s", spec->name, wrong);
}

struct rbt_spec *rbt_spec_copy(const struct rbt_spec *spec)
{
    RBT_ASSERT(spec != NULL);
    struct rbt_spec *copy = rbt_calloc(1, sizeof *copy);
    if (copy == NULL) {
        (void)rbt_fail(RBT_E_NOMEM, "no memory for table \"%s\"", spec->name);
        return NULL;
    }
    *copy = *spec;
    RBT_ASSERT(copy->width == spec->width);
    return copy;
}

/* --- In a saved shard ------------------------------------------------------------------------- */

/* The field with this place there, or NULL. */
static const struct rbt_spec_field *find_saved(uint32_t place)
{
    RBT_ASSERT(place > 0);
    RBT_ASSERT(place <= RBT_SPEC_FIELDS + 1);
    for (size_t i = 0; i < RBT_SPEC_FIELDS; i++) {
        if (rbt_spec_fields[i].saved == place) {
            return &rbt_spec_fields[i];
        }
    }
    return NULL;
}

void rbt_spec_save(const struct rbt_spec *spec, struct rbt_sink *sink)
{
    const struct rbt_spec_field *field = NULL;
    RBT_ASSERT(spec->width > 0);
    for (uint32_t place = 1; (field = find_saved(place)) != NULL; place++) {
        const char *at = (const char *)spec + field->at;
        if (field->sort == RBT_SPEC_TEXT) {
            rbt_sink_put_text(sink, at);
        } else {
            rbt_sink_put(sink, at, field->size);
        }
    }
    RBT_ASSERT(sink->status != RBT_OK || sink->count > 0);
}

static void load_field(const struct rbt_spec_field *field, char *at, struct rbt_source *source)
{
    uint32_t choice = 0;
    RBT_ASSERT(field->saved > 0);
    RBT_ASSERT(field->sort != RBT_SPEC_NOTHING);
    if (field->sort == RBT_SPEC_TEXT) {
        rbt_source_get_text(source, at, field->size);
    } else if (field->sort == RBT_SPEC_FLAG) {
        *(bool *)at = rbt_source_get_bool(source);
    } else if (field->sort == RBT_SPEC_CHOICE) {
        choice = rbt_source_get_u32(source);
        if (choice > field->limit) {
            rbt_source_refuse(source, "a table is of a kind that there is not");
            choice = 0;
        }
        memcpy(at, &choice, sizeof choice);
    } else {
        rbt_source_get(source, at, field->size);
    }
}

void rbt_spec_load(struct rbt_spec *spec, struct rbt_source *source)
{
    const struct rbt_spec_field *field = NULL;
    RBT_ASSERT(source != NULL);
    *spec = (struct rbt_spec){0};
    for (uint32_t place = 1; (field = find_saved(place)) != NULL; place++) {
        load_field(field, (char *)spec + field->at, source);
    }
    RBT_ASSERT(spec->type <= RBT_I64);
}
