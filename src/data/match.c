/* data/match.c - which column of a file is which column of the training data. */
#include "data/match.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/header.h"

/* How the columns of a file and those of the plan belong together. */
struct pairing {
    struct rbt_titles found; /* of the file */
    size_t *order;           /* of each column of the file, that of the plan */
    size_t *places;          /* of each column of the plan, that of the file */
};

static void end_pairing(struct pairing *pairing)
{
    rbt_titles_free(&pairing->found);
    rbt_free(pairing->order);
    rbt_free(pairing->places);
}

static rbt_status begin_pairing(const struct rbt_column_plan *plan, const struct rbt_csv *csv,
                                struct pairing *pairing)
{
    *pairing = (struct pairing){0};
    rbt_status st = rbt_titles_take(&pairing->found, &csv->header, csv->separator);
    st = st != RBT_OK ? st : rbt_titles_match(&pairing->found, &plan->titles, &pairing->order);
    return st != RBT_OK ? st : rbt_titles_match(&plan->titles, &pairing->found, &pairing->places);
}

bool rbt_match_is_header(const struct rbt_column_plan *plan, const struct rbt_line *line,
                         char separator)
{
    if (plan == NULL || plan->titles.count == 0 || !rbt_header_can_be(line, separator)) {
        return false;
    }
    const struct rbt_csv csv = {.separator = separator, .header = *line};
    struct pairing pairing;
    size_t known = 0;
    if (begin_pairing(plan, &csv, &pairing) == RBT_OK) {
        for (size_t i = 0; i < pairing.found.count; i++) {
            known += pairing.order[i] != SIZE_MAX;
        }
    }
    const bool is_header = known * 2 > pairing.found.count;
    end_pairing(&pairing);
    return is_header;
}

/* The column that a text on the command line means. */
static bool find_label(const struct rbt_csv *csv, const char *text, size_t *column)
{
    if (strcmp(text, "-1") == 0) {
        *column = csv->column_count - 1;
        return true;
    }
    if (strspn(text, "0123456789") == strlen(text) && strlen(text) > 0 && strlen(text) < 10) {
        size_t number = 0;
        for (const char *p = text; *p != '\0'; p++) {
            number = number * 10 + (size_t)(*p - '0');
        }
        *column = number;
        return number < csv->column_count;
    }
    return rbt_csv_find(csv, text, strlen(text), column);
}

rbt_status rbt_match_label(const struct rbt_data_options *options, const char *file,
                           struct rbt_csv *csv)
{
    char digits[24];
    if (options->is_unlabelled) {
        csv->label_column = SIZE_MAX;
        return RBT_OK;
    }
    (void)snprintf(digits, sizeof digits, "%lld", (long long)options->label_column);
    const char *text = options->label_name != NULL ? options->label_name : digits;
    if (find_label(csv, text, &csv->label_column)) {
        return RBT_OK;
    }
    if (strspn(text, "-0123456789") == strlen(text)) {
        return rbt_fail(RBT_E_INVALID,
                        "cannot read \"%s\": there is no column %s for the label; "
                        "the columns are 0 to %zu",
                        file, text, csv->column_count - 1);
    }
    return rbt_fail(RBT_E_INVALID, "cannot read \"%s\": there is no column \"%s\" for the label%s",
                    file, text, csv->has_header ? "" : "; the first line has no names");
}

rbt_status rbt_match_begin(struct rbt_column_plan *plan, const struct rbt_csv *csv)
{
    plan->width = csv->column_count;
    plan->target = csv->label_column;
    rbt_titles_free(&plan->titles);
    return csv->has_header ? rbt_titles_take(&plan->titles, &csv->header, csv->separator) : RBT_OK;
}

static bool is_needed(const struct rbt_column_plan *plan, size_t column)
{
    const bool is_skipped = column < plan->count && plan->kinds[column] == RBT_COLUMN_SKIPPED;
    return column != plan->target && !is_skipped;
}

/* The label's column in the file; SIZE_MAX: there is none, and nobody needs it. */
static rbt_status pair_label(const struct rbt_data_options *options, const char *file,
                             const struct pairing *pairing, struct rbt_csv *csv)
{
    const struct rbt_column_plan *plan = options->plan;
    csv->label_column = SIZE_MAX;
    if (plan->target == SIZE_MAX) {
        return RBT_OK;
    }
    if (plan->label_asked != NULL && find_label(csv, plan->label_asked, &csv->label_column)) {
        return RBT_OK;
    }
    if (plan->label_asked == NULL) {
        csv->label_column = pairing->places[plan->target];
    }
    if (csv->label_column != SIZE_MAX || options->ignores_label) {
        return RBT_OK;
    }
    const rbt_status st = rbt_fail(
        RBT_E_DATA, "cannot read \"%s\", line %zu: there is no column \"%s\" for the label", file,
        csv->header.number,
        plan->label_asked != NULL ? plan->label_asked : rbt_titles_at(&plan->titles, plan->target));
    return rbt_fail_hint(st, "If the label has another name in this file, use --label-column.");
}

/* Tells of the columns that are left out. */
static rbt_status note_extra(const struct rbt_data_options *options, const char *file,
                             const struct pairing *pairing, const struct rbt_csv *csv)
{
    size_t count = 0;
    size_t first = 0;
    for (size_t i = pairing->found.count; i > 0; i--) {
        if (pairing->order[i - 1] == SIZE_MAX && i - 1 != csv->label_column) {
            first = i - 1;
            count++;
        }
    }
    if (count == 0) {
        return RBT_OK;
    }
    const char *title = rbt_titles_at(&pairing->found, first);
    if (options->note == NULL) {
        return rbt_fail(RBT_E_DATA,
                        "cannot read \"%s\", line %zu: column \"%s\" is not in the training data",
                        file, csv->header.number, title);
    }
    char more[48] = "";
    if (count > 1) {
        (void)snprintf(more, sizeof more, " and %zu more", count - 1);
    }
    (void)snprintf(options->note, RBT_NOTE_SIZE,
                   "column \"%s\"%s of \"%s\" %s not in the training data and %s ignored", title,
                   more, file, count > 1 ? "are" : "is", count > 1 ? "are" : "is");
    return RBT_OK;
}

/* Whether all columns that are needed are there, once. */
static rbt_status check_pairs(const struct rbt_column_plan *plan, const char *file,
                              const struct pairing *pairing, const struct rbt_csv *csv)
{
    for (size_t m = 0; m < plan->width; m++) {
        if (is_needed(plan, m) && pairing->places[m] == SIZE_MAX) {
            return rbt_fail(RBT_E_DATA,
                            "cannot read \"%s\", line %zu: there is no column \"%s\", which the "
                            "training data has",
                            file, csv->header.number, rbt_titles_at(&plan->titles, m));
        }
    }
    for (size_t i = 0; i < pairing->found.count; i++) {
        const size_t m = pairing->order[i];
        if (m != SIZE_MAX && is_needed(plan, m) && pairing->places[m] != i) {
            return rbt_fail(RBT_E_DATA,
                            "cannot read \"%s\", line %zu: there are two columns \"%s\"", file,
                            csv->header.number, rbt_titles_at(&plan->titles, m));
        }
    }
    return RBT_OK;
}

static rbt_status match_by_names(const struct rbt_data_options *options, const char *file,
                                 struct rbt_csv *csv)
{
    const struct rbt_column_plan *plan = options->plan;
    struct pairing pairing;
    rbt_status st = begin_pairing(plan, csv, &pairing);
    st = st != RBT_OK ? st : check_pairs(plan, file, &pairing, csv);
    st = st != RBT_OK ? st : pair_label(options, file, &pairing, csv);
    st = st != RBT_OK ? st : note_extra(options, file, &pairing, csv);
    if (st == RBT_OK) {
        csv->is_matched = true;
        bool is_same = csv->column_count == plan->width && csv->label_column == plan->target;
        for (size_t i = 0; i < pairing.found.count; i++) {
            is_same = is_same && pairing.order[i] == i;
            if (pairing.order[i] == plan->target) {
                pairing.order[i] = SIZE_MAX;
            }
        }
        csv->order = is_same ? NULL : pairing.order;
        pairing.order = is_same ? pairing.order : NULL;
    }
    end_pairing(&pairing);
    return st;
}

/* The file has all columns but the label's. */
static rbt_status match_without_label(const struct rbt_column_plan *plan, struct rbt_csv *csv)
{
    csv->order = rbt_calloc(csv->column_count, sizeof *csv->order);
    if (csv->order == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the order of columns");
    }
    for (size_t i = 0; i < csv->column_count; i++) {
        csv->order[i] = i < plan->target ? i : i + 1;
    }
    csv->label_column = SIZE_MAX;
    csv->is_matched = true;
    return RBT_OK;
}

/* Such a line gives no names. */
static bool has_zeros(const struct rbt_line *line)
{
    return memchr(line->begin, '\0', (size_t)(line->end - line->begin)) != NULL;
}

rbt_status rbt_match_columns(const struct rbt_data_options *options, const char *file,
                             struct rbt_csv *csv)
{
    const struct rbt_column_plan *plan = options->plan;
    const bool has_titles = csv->has_header && plan->width > 0 &&
                            plan->titles.count == plan->width &&
                            rbt_titles_twin(&plan->titles) == NULL;
    if (has_titles && !has_zeros(&csv->header)) {
        return match_by_names(options, file, csv);
    }
    if (options->ignores_label && plan->target != SIZE_MAX && plan->width > 1 &&
        csv->column_count == plan->width - 1) {
        return match_without_label(plan, csv);
    }
    csv->label_column = plan->target;
    if (plan->count == 0 && plan->label_asked != NULL) {
        return rbt_match_label(options, file, csv);
    }
    return RBT_OK;
}
