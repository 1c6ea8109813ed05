/* algo/lda/lda_alias.c - draws topics in constant time: Metropolis-Hastings with alias tables.
 *
 * A token's topic s is replaced by a proposal t ~ q with the probability
 *
 *     min(1, p(t) q(s) / (p(s) q(t)))
 *
 * with the weights p of math/topics.h, whatever q is, as long as it is positive everywhere and does
 * not change meanwhile. Proposals come from the word and from the document by turns (LightLDA):
 *
 *     word      q(k) = (N_wk + b) I_k     counts and inverses as they were at the last refresh:
 *                                         an alias table of the topics that the word had, and one
 * of all topics for b I_k, which all words share document  q(k) = n_dk + a           the topic of a
 * random token of the document, or any
 *
 * An alias table of n entries answers in constant time: entry i is taken with probability 1/n, and
 * is itself with probability accept[i] and other[i] else. A word's table is made when the word is
 * first met after a refresh. */
#include "algo/lda/lda_sampler.h"

#include <stdbool.h>
#include <string.h>

#include "algo/frame/room.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { STEPS = 2 }; /* pairs of proposals per token */

/* Entries of tables, one behind the other. */
struct entry {
    float weight; /* of `topic`, not normalised */
    float accept;
    uint16_t topic;
    uint16_t other;
};

/* A word's table. */
struct table {
    size_t first;
    uint32_t count;
    float sum; /* of the weights */
};

struct rbt_lda_alias {
    struct rbt_room room; /* of all arrays but the entries */
    size_t topic_count;
    size_t word_count;
    float beta;
    struct entry *all; /* of all topics, by I_k */
    float all_sum;     /* of b I_k */
    struct table *words;
    uint8_t *is_made; /* of each word */
    struct entry *entries;
    size_t entry_count;
    size_t entry_max;
    uint32_t *small; /* scratch, (topics) */
    uint32_t *large;
    float *scaled;
};

rbt_status rbt_lda_alias_create(size_t topic_count, size_t word_count, struct rbt_lda_alias **alias)
{
    struct rbt_lda_alias *made = rbt_calloc(1, sizeof *made);
    if (made != NULL) {
        made->topic_count = topic_count;
        made->word_count = word_count;
        made->all = rbt_room_take(&made->room, topic_count, sizeof *made->all);
        made->words = rbt_room_take(&made->room, word_count, sizeof *made->words);
        made->is_made = rbt_room_take(&made->room, word_count, 1);
        made->small = rbt_room_take(&made->room, topic_count, sizeof *made->small);
        made->large = rbt_room_take(&made->room, topic_count, sizeof *made->large);
        made->scaled = rbt_room_take(&made->room, topic_count, sizeof *made->scaled);
    }
    if (made == NULL || made->room.is_short) {
        rbt_lda_alias_destroy(made);
        return rbt_fail(RBT_E_NOMEM, "no memory for tables of %zu topics", topic_count);
    }
    *alias = made;
    return RBT_OK;
}

void rbt_lda_alias_destroy(struct rbt_lda_alias *alias)
{
    if (alias != NULL) {
        rbt_free(alias->entries);
        rbt_room_free(&alias->room);
        rbt_free(alias);
    }
}

/* Fills in accept and other of entries that have topics and weights; the sum of the weights. Those
 * below the average are filled up from those above (Vose). */
static float make_table(struct rbt_lda_alias *alias, struct entry *entries, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)entries[i].weight;
    }
    size_t small = 0;
    size_t large = 0;
    for (size_t i = 0; i < count; i++) {
        entries[i].accept = 1.0F;
        entries[i].other = entries[i].topic;
        alias->scaled[i] = (float)((double)entries[i].weight * (double)count / sum);
        if (alias->scaled[i] < 1.0F) {
            alias->small[small++] = (uint32_t)i;
        } else {
            alias->large[large++] = (uint32_t)i;
        }
    }
    while (small > 0 && large > 0) {
        const uint32_t poor = alias->small[--small];
        const uint32_t rich = alias->large[large - 1];
        entries[poor].accept = alias->scaled[poor];
        entries[poor].other = entries[rich].topic;
        alias->scaled[rich] -= 1.0F - alias->scaled[poor];
        if (alias->scaled[rich] < 1.0F) {
            large--;
            alias->small[small++] = rich;
        }
    }
    return (float)sum;
}

rbt_status rbt_lda_alias_refresh(struct rbt_lda_alias *alias, const struct rbt_topics *topics)
{
    size_t nonzero = 0;
    for (size_t i = 0; i < alias->word_count * alias->topic_count; i++) {
        nonzero += topics->word_topics[i] > 0 ? 1 : 0;
    }
    /* A word that is met late may have got topics since. */
    const size_t most = nonzero + nonzero / 4 + alias->topic_count;
    if (most > alias->entry_max) {
        struct entry *entries = rbt_realloc(alias->entries, most, sizeof *entries);
        if (entries == NULL) {
            return rbt_fail(RBT_E_NOMEM, "no memory for tables of %zu entries", most);
        }
        alias->entries = entries;
        alias->entry_max = most;
    }
    alias->beta = topics->beta;
    alias->entry_count = 0;
    memset(alias->is_made, 0, alias->word_count);
    for (size_t k = 0; k < alias->topic_count; k++) {
        alias->all[k].topic = (uint16_t)k;
        alias->all[k].weight = topics->inverses[k];
    }
    alias->all_sum = topics->beta * make_table(alias, alias->all, alias->topic_count);
    return RBT_OK;
}

/* Makes the table of a word out of its counts now. A table that finds no room has no topics: the
 * proposals are then worse, and not wrong. */
static void make_word(struct rbt_lda_alias *alias, const struct rbt_topics *t, size_t word)
{
    struct table *table = &alias->words[word];
    const float *row = t->word_topics + word * t->topic_count;
    struct entry *entries = alias->entries + alias->entry_count;
    const size_t room = alias->entry_max - alias->entry_count;
    size_t count = 0;
    for (size_t k = 0; k < t->topic_count && count <= room; k++) {
        if (row[k] > 0) {
            if (count < room) {
                entries[count].topic = (uint16_t)k;
                entries[count].weight = row[k] * alias->all[k].weight;
            }
            count++;
        }
    }
    count = count <= room ? count : 0;
    *table = (struct table){.first = alias->entry_count, .count = (uint32_t)count};
    table->sum = count > 0 ? make_table(alias, entries, count) : 0;
    alias->entry_count += count;
    alias->is_made[word] = 1;
}

static size_t draw_entry(const struct entry *entries, size_t count, uint64_t *random)
{
    const uint64_t bits = rbt_topics_next(random);
    const struct entry *entry = &entries[(bits >> 32) * count >> 32];
    return (float)(bits & 0xffffff) * 0x1p-24F < entry->accept ? entry->topic : entry->other;
}

/* q(k) of the word, not normalised; the entries are in the order of their topics. */
static float word_density(const struct rbt_lda_alias *alias, const struct table *table, size_t k)
{
    const struct entry *entries = alias->entries + table->first;
    size_t first = 0;
    for (size_t count = table->count; count > 0;) {
        const size_t half = count / 2;
        const bool is_below = entries[first + half].topic < k;
        first += is_below ? half + 1 : 0;
        count = is_below ? count - half - 1 : half;
    }
    const bool is_there = first < table->count && entries[first].topic == k;
    return alias->beta * alias->all[k].weight + (is_there ? entries[first].weight : 0);
}

/* A token that is being drawn; its counts are taken out. */
struct token {
    const float *row;
    const uint16_t *topics; /* of its document */
    size_t count;           /* tokens of the document */
    size_t place;           /* which of them it is */
    size_t old;             /* its topic */
};

static size_t propose_by_word(const struct rbt_lda_alias *alias, const struct table *table,
                              uint64_t *random)
{
    const float wanted = rbt_topics_uniform(random) * (table->sum + alias->all_sum);
    return wanted < table->sum ? draw_entry(alias->entries + table->first, table->count, random)
                               : draw_entry(alias->all, alias->topic_count, random);
}

/* A token that proposes itself proposes to stay, so that the proposals of others do not depend on
 * the topic that it has. */
static size_t propose_by_document(const struct rbt_topics *t, const struct token *token, size_t now,
                                  uint64_t *random)
{
    const float smooth = (float)t->topic_count * t->alpha;
    const uint64_t bits = rbt_topics_next(random);
    if (rbt_topics_uniform(random) * ((float)token->count + smooth) < smooth) {
        return (size_t)((bits >> 32) * t->topic_count >> 32);
    }
    const size_t place = (size_t)((bits >> 32) * token->count >> 32);
    return place == token->place ? now : token->topics[place];
}

static float document_density(const struct rbt_topics *t, size_t k)
{
    return (float)t->document[k] + t->alpha;
}

static float weight_of(const struct rbt_topics *t, const struct token *token, size_t k)
{
    return t->weights[k] * (token->row[k] + t->beta);
}

static size_t draw(struct rbt_lda_alias *alias, struct rbt_topics *t, const struct token *token,
                   const struct table *table)
{
    size_t now = token->old;
    for (int step = 0; step < STEPS; step++) {
        size_t next = propose_by_word(alias, table, &t->random);
        float ratio = weight_of(t, token, next) * word_density(alias, table, now);
        float limit = weight_of(t, token, now) * word_density(alias, table, next);
        now = next == now || rbt_topics_uniform(&t->random) * limit < ratio ? next : now;
        next = propose_by_document(t, token, now, &t->random);
        ratio = weight_of(t, token, next) * document_density(t, now);
        limit = weight_of(t, token, now) * document_density(t, next);
        now = next == now || rbt_topics_uniform(&t->random) * limit < ratio ? next : now;
    }
    return now;
}

void rbt_lda_alias_run(struct rbt_lda_alias *alias, struct rbt_topics *t, size_t first, size_t end)
{
    for (size_t d = first; d < end; d++) {
        struct token token = {.topics = t->topics + t->offsets[d],
                              .count = (size_t)(t->offsets[d + 1] - t->offsets[d])};
        rbt_topics_enter(t, d);
        for (uint64_t i = t->offsets[d]; i < t->offsets[d + 1]; i++) {
            const size_t word = t->words[i];
            float *row = t->word_topics + word * t->topic_count;
            token.row = row;
            token.place = (size_t)(i - t->offsets[d]);
            token.old = t->topics[i];
            rbt_topics_count(t, row, token.old, -1);
            if (!alias->is_made[word]) {
                make_word(alias, t, word); /* without the token: what it has must not matter */
            }
            const size_t drawn = draw(alias, t, &token, &alias->words[word]);
            rbt_topics_count(t, row, drawn, 1);
            if (drawn != token.old) {
                t->topics[i] = (uint16_t)drawn;
                rbt_topics_move(t, word, token.old, drawn);
            }
        }
        rbt_topics_leave(t, d);
    }
}
