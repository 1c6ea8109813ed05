/* algo/linear/linear_dbpg.c - delayed block proximal gradient: the solver for exact zeros.
 *
 * Li's thesis, algorithm 5. Features are dealt into blocks. In clock t all workers work on the same
 * block B: each sends, for its examples i, and features j of the block,
 *
 *     g_j = (1/n) sum_i loss'(m_i) x_ij       m_i = w'x_i + b
 *     u_j = (1/n) sum_i c_i |x_ij| s_i        c_i: curvature of the loss,  s_i = sum_k |x_ik|
 *
 * and when all have, the servers make one proximal step with U = diag(u) of the sums (rule "prox",
 * pairs and aggregate). Iteration t begins when all before t - delay are over. The sum s_i is over
 * the features of the blocks t - delay .. t, whose steps do not know of each other: then U bounds
 * the part of the Hessian that they share (each row of |H| summed up), and with --lr 1 the step is
 * safe: the condition gamma < M / (L_var + delay L_cov) of theorem 2, coordinate by coordinate.
 * c_i is the curvature at m_i, but at least a sixteenth of its bound, since m_i moves.
 *
 * A weight is inactive if it is zero and its gradient, as of its last step, is within l1 (1 -
 * margin): it is neither computed nor sent, but in every N-th pass (--kkt N). Servers keep the sum
 * of the gradients beside the weight, so that all workers agree on what is inactive.
 *
 * Workers read a block once all have sent their part of it, while they go on to the next ones; it
 * is waited for `delay` clocks later. Blocks come in an order that is random, but a block does not
 * come again within the delay. So what a worker reads does not depend on when it reads, and a run
 * gives the same bits every time with any delay.
 *
 * An epoch is a pass over all blocks; the bias is a block of its own. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/frame/columns.h"
#include "algo/frame/room.h"
#include "algo/linear/linear_gap.h"
#include "algo/linear/linear_job.h"
#include "algo/linear/linear_solvers.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "math/loss.h"

enum { EPOCHS_DEFAULT = 2000, BLOCKS_MIN = 64, BLOCKS_PER_DELAY = 32, RING = 64 };
enum { BLOCKS_BY_HASH, BLOCKS_BY_RANGE };

/* Measured as the processor time of an epoch of one worker on one core of the machine of
 * bench/RESULTS.md, movie reviews and clicks, all weights in motion. A nonzero of a block is read
 * up to four times: its margin moves, it comes into reach, its gradient, it leaves. */
static const double ns_per_nonzero = 3.0;
static const double ns_per_weight = 16.0;
static const double ns_per_look = 20.0; /* at an example's loss */

static const uint64_t bias_key = 0;

struct dbpg {
    uint32_t blocks;
    uint32_t turns; /* clocks of a pass: blocks, and the bias */
    int64_t delay;
    char rule[16];        /* what options->rule points to */
    char consistency[32]; /* and options->consistency */
    struct rbt_linear_gap gap;
    double inactive; /* share of worker 0's features at the end of its last pass */
};

struct part {
    struct rbt_room room;       /* of all arrays but the columns */
    struct rbt_columns columns; /* of all features of the share */
    uint32_t *members;          /* features by block: (key_count) */
    size_t *firsts;             /* of each block in members: (blocks + 1) */
    rbt_set **sets;             /* (turns) */
    uint32_t *order;            /* of the pass: (turns) */
    uint32_t visited[RING];     /* the block of the last clocks */
    rbt_ticket tickets[RING];   /* of its read */
    int64_t clock;
    float *weights;   /* as far as the margins know: (key_count) */
    float *gradients; /* of all workers, as of the last step: (key_count) */
    uint8_t *is_idle; /* was inactive when its block was last computed: (key_count) */
    double bias;
    double *margins;    /* (count) */
    float *slopes;      /* loss' there: (count) */
    float *curvatures;  /* c: (count) */
    double *reach;      /* s: (count) */
    uint32_t *moved;    /* examples whose margins have changed: (count) */
    uint8_t *has_moved; /* (count) */
    size_t moved_count;
    uint64_t nonzeros; /* read in this clock */
    uint64_t looks;    /* at examples, in this clock */
    struct rbt_linear_gap_part gap;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's blocks of features");
}

/* --- Options -----------------------------------------------------------------------------------
 */

static rbt_status check(struct rbt_linear_job *linear, struct rbt_train_options *options)
{
    struct rbt_linear_config *config = &linear->config;
    rbt_status st = rbt_linear_refuse(linear, true);
    st = st != RBT_OK ? st : rbt_linear_refuse_clocks(linear);
    if (st != RBT_OK) {
        return st;
    }
    if (config->loss != RBT_LOSS_LOGISTIC && config->loss != RBT_LOSS_SQUARED) {
        return rbt_linear_refuse_loss(linear, "It needs a loss with a curvature: logistic or "
                                              "squared.");
    }
    if (options->filter != NULL && rbt_rules_has_bare(options->filter, "kkt")) {
        st = rbt_fail(RBT_E_INVALID,
                      "solver \"dbpg\" excludes filter \"kkt\", which it has built in");
        return rbt_fail_hint(st,
                             "Omit the filter; --kkt sets how often dbpg looks at all weights.");
    }
    struct dbpg *dbpg = rbt_calloc(1, sizeof *dbpg);
    if (dbpg == NULL) {
        return no_memory();
    }
    linear->own = dbpg;
    rbt_linear_gap_init(&dbpg->gap, options);
    const int64_t enough = BLOCKS_PER_DELAY * config->delay;
    const int64_t fallback = enough > BLOCKS_MIN ? enough : BLOCKS_MIN;
    dbpg->blocks = (uint32_t)(config->blocks > 0 ? config->blocks : fallback);
    dbpg->turns = dbpg->blocks + (config->has_bias ? 1 : 0);
    dbpg->delay = config->delay;
    if (dbpg->delay >= dbpg->turns) {
        st = rbt_fail(RBT_E_INVALID, "--delay %lld needs more than %u blocks",
                      (long long)dbpg->delay, dbpg->blocks);
        return rbt_fail_hint(st, "Set --blocks to at least twice the delay.");
    }
    snprintf(dbpg->consistency, sizeof dbpg->consistency, dbpg->delay == 0 ? "bsp" : "ssp:%lld",
             (long long)dbpg->delay);
    options->consistency = dbpg->consistency;
    options->rule = "prox";
    config->lr = isnan(config->lr) ? 1.0 : config->lr;
    config->scale = RBT_SCALE_NONE;
    config->combine = RBT_COMBINE_SUM;
    linear->row_width = 2;
    linear->consistency = "bsp"; /* whole clocks, summed up in the order of workers */
    st = rbt_rules_read(options, &linear->rules);
    st = st != RBT_OK ? st : rbt_rules_give(&linear->rules, "pairs", 1);
    st = st != RBT_OK ? st : rbt_rules_give(&linear->rules, "aggregate", 1);
    st = st != RBT_OK ? st : rbt_rules_give(&linear->rules, "lr", config->lr);
    linear->bias_rules = linear->rules;
    linear->bias_rules.filter[0] = '\0';
    return st;
}

static rbt_status settle(struct rbt_linear_job *linear, struct rbt_training *training)
{
    struct rbt_linear_config *config = &linear->config;
    struct dbpg *dbpg = linear->own;
    const double n = (double)linear->examples.count;
    if (isnan(config->l2)) {
        config->l2 = config->l1 > 0 ? 0.0 : RBT_LINEAR_L2_TOTAL / n;
    }
    linear->gradient_factor = 1.0 / n;
    linear->clocks_per_epoch = training->clocks_per_epoch = (int64_t)dbpg->turns;
    rbt_linear_gap_settle(&dbpg->gap, training);
    rbt_status st = rbt_rules_give(&linear->rules, "l1", config->l1);
    st = st != RBT_OK ? st : rbt_rules_give(&linear->rules, "l2", config->l2);
    return st != RBT_OK ? st : rbt_rules_check(&linear->rules, 2);
}

static rbt_status open_tables(void *context, rbt_job *job)
{
    const struct rbt_linear_job *linear = context;
    struct dbpg *dbpg = linear->own;
    const rbt_status st = rbt_linear_open(context, job);
    return st != RBT_OK ? st : rbt_linear_gap_open(linear, &dbpg->gap, job);
}

/* --- A worker's blocks -------------------------------------------------------------------------
 */

/* The block of a key: all workers agree. Ranges cut the keys that there are into equal pieces. */
static uint32_t block_of(const struct rbt_linear_job *linear, uint64_t key, uint64_t key_max)
{
    const struct dbpg *dbpg = linear->own;
    if (linear->config.blocks_by == BLOCKS_BY_RANGE) {
        const double part = (double)key / ((double)key_max + 1.0);
        const uint32_t block = (uint32_t)(part * (double)dbpg->blocks);
        return block < dbpg->blocks ? block : dbpg->blocks - 1; /* keys over 2^53 */
    }
    return (uint32_t)(rbt_hash_key(key ^ linear->seed) % dbpg->blocks);
}

static uint64_t largest_key(const struct rbt_examples *examples)
{
    uint64_t largest = 0;
    for (uint64_t k = 0; k < examples->offsets[examples->count]; k++) {
        largest = examples->keys[k] > largest ? examples->keys[k] : largest;
    }
    return largest;
}

static rbt_status deal(const struct rbt_linear_job *linear, const struct rbt_share *share,
                       struct part *part)
{
    const struct dbpg *dbpg = linear->own;
    const uint64_t key_max =
        linear->config.blocks_by == BLOCKS_BY_RANGE ? largest_key(&linear->examples) : 0;
    size_t *next = rbt_calloc(dbpg->blocks, sizeof *next);
    if (next == NULL) {
        return no_memory();
    }
    for (size_t j = 0; j < share->key_count; j++) {
        next[block_of(linear, share->keys[j], key_max)]++;
    }
    for (uint32_t b = 0; b < dbpg->blocks; b++) {
        part->firsts[b + 1] = part->firsts[b] + next[b];
        next[b] = part->firsts[b];
    }
    for (size_t j = 0; j < share->key_count; j++) {
        part->members[next[block_of(linear, share->keys[j], key_max)]++] = (uint32_t)j;
    }
    rbt_free(next);
    return RBT_OK;
}

static rbt_status open_sets(const struct rbt_linear_job *linear, rbt_worker *worker,
                            const struct rbt_share *share, struct part *part)
{
    const struct dbpg *dbpg = linear->own;
    uint64_t *keys = rbt_calloc(share->key_count, sizeof *keys);
    if (keys == NULL) {
        return no_memory();
    }
    rbt_status st = RBT_OK;
    for (uint32_t b = 0; st == RBT_OK && b < dbpg->blocks; b++) {
        const size_t count = part->firsts[b + 1] - part->firsts[b];
        for (size_t i = 0; i < count; i++) {
            keys[i] = share->keys[part->members[part->firsts[b] + i]];
        }
        st = rbt_set_create(worker, linear->weights, keys, count, RBT_SET_DELTAS, &part->sets[b]);
    }
    if (st == RBT_OK && linear->config.has_bias) {
        st = rbt_set_create(worker, linear->bias, &bias_key, 1, RBT_SET_DELTAS,
                            &part->sets[dbpg->blocks]);
    }
    rbt_free(keys);
    return st;
}

static rbt_status make_room(const struct rbt_linear_job *linear, const struct rbt_share *share,
                            struct part *part)
{
    const struct dbpg *dbpg = linear->own;
    part->members = rbt_room_take(&part->room, share->key_count, sizeof *part->members);
    part->firsts = rbt_room_take(&part->room, (size_t)dbpg->blocks + 1, sizeof *part->firsts);
    part->sets = rbt_room_take(&part->room, dbpg->turns, sizeof *part->sets);
    part->order = rbt_room_take(&part->room, dbpg->turns, sizeof *part->order);
    part->weights = rbt_room_take(&part->room, share->key_count, sizeof *part->weights);
    part->gradients = rbt_room_take(&part->room, share->key_count, sizeof *part->gradients);
    part->is_idle = rbt_room_take(&part->room, share->key_count, sizeof *part->is_idle);
    part->margins = rbt_room_take(&part->room, share->count, sizeof *part->margins);
    part->slopes = rbt_room_take(&part->room, share->count, sizeof *part->slopes);
    part->curvatures = rbt_room_take(&part->room, share->count, sizeof *part->curvatures);
    part->reach = rbt_room_take(&part->room, share->count, sizeof *part->reach);
    part->moved = rbt_room_take(&part->room, share->count, sizeof *part->moved);
    part->has_moved = rbt_room_take(&part->room, share->count, sizeof *part->has_moved);
    return part->room.is_short ? no_memory() : RBT_OK;
}

static void free_part(struct part *part, uint32_t turns)
{
    for (uint32_t b = 0; part->sets != NULL && b < turns; b++) {
        rbt_set_destroy(part->sets[b]);
    }
    rbt_linear_gap_end(&part->gap);
    rbt_room_free(&part->room);
    rbt_columns_free(&part->columns);
    rbt_free(part);
}

/* --- Margins -----------------------------------------------------------------------------------
 */

/* Slope and curvature of the example's loss at its margin. */
static void look(const struct rbt_linear_job *linear, const struct rbt_share *share,
                 struct part *part, size_t i)
{
    const double y = (double)share->labels[i];
    if (linear->config.loss == RBT_LOSS_SQUARED) {
        part->slopes[i] = (float)(part->margins[i] - y);
        part->curvatures[i] = 1.0F;
        return;
    }
    const double p = 1.0 / (1.0 + exp(y * part->margins[i])); /* of being wrong */
    part->slopes[i] = (float)(-y * p);
    part->curvatures[i] = (float)fmax(p * (1.0 - p), 1.0 / 64.0);
}

static void note_move(struct part *part, uint32_t i)
{
    part->moved[part->moved_count] = i;
    part->moved_count += part->has_moved[i] == 0;
    part->has_moved[i] = 1;
}

/* The examples of feature j have a margin that is another one by `step` times their value. */
static void move(struct part *part, uint32_t j, double step)
{
    const struct rbt_columns *columns = &part->columns;
    for (uint64_t k = columns->starts[j]; k < columns->starts[j + 1]; k++) {
        const uint32_t i = columns->rows[k];
        part->margins[i] += step * (double)columns->values[k];
        note_move(part, i);
    }
    part->nonzeros += columns->starts[j + 1] - columns->starts[j];
}

/* Takes what was read of a block. */
static void take_block(const struct rbt_linear_job *linear, const struct rbt_share *share,
                       struct part *part, uint32_t block)
{
    const struct dbpg *dbpg = linear->own;
    const float *values = rbt_set_values(part->sets[block]);
    if (block == dbpg->blocks) {
        const double step = (double)values[0] - part->bias;
        part->bias = (double)values[0];
        for (size_t i = 0; step != 0.0 && i < share->count; i++) {
            part->margins[i] += step;
            note_move(part, (uint32_t)i);
        }
    } else {
        const size_t count = part->firsts[block + 1] - part->firsts[block];
        for (size_t i = 0; i < count; i++) {
            const uint32_t j = part->members[part->firsts[block] + i];
            const double step = (double)values[2 * i] - (double)part->weights[j];
            part->weights[j] = values[2 * i];
            part->gradients[j] = values[2 * i + 1];
            if (step != 0.0) {
                move(part, j, step);
            }
        }
    }
    for (size_t at = 0; at < part->moved_count; at++) {
        look(linear, share, part, part->moved[at]);
        part->has_moved[part->moved[at]] = 0;
    }
    part->looks += part->moved_count;
    part->moved_count = 0;
}

/* --- Steps -------------------------------------------------------------------------------------
 */

/* The block of a clock. A pass is two halves, each in random order, so that a block does not come
 * again for half a pass; if the delay is longer than that, the order is always the same. */
static uint32_t turn_of(const struct rbt_linear_job *linear, struct part *part,
                        const struct rbt_training_chunk *chunk)
{
    const struct dbpg *dbpg = linear->own;
    if (chunk->index == 0) {
        struct rbt_rng rng;
        rbt_rng_init(&rng, linear->seed, UINT64_C(0xb10c), (uint64_t)chunk->epoch);
        const uint32_t half = dbpg->turns / 2;
        if (half > (uint32_t)dbpg->delay) {
            rbt_rng_permutation(&rng, part->order, half);
            rbt_rng_permutation(&rng, part->order + half, dbpg->turns - half);
        }
        for (uint32_t i = 0; i < dbpg->turns; i++) {
            part->order[i] = half <= (uint32_t)dbpg->delay ? i
                             : i < half                    ? part->order[i]
                                                           : part->order[i] + half;
        }
    }
    return part->order[chunk->index];
}

/* Whether the rules say that nothing happens to feature j. */
static bool is_inactive(const struct rbt_linear_job *linear, const struct part *part, uint32_t j)
{
    const double most = linear->config.l1 * (1.0 - linear->config.kkt_margin);
    return part->weights[j] == 0.0F && fabs((double)part->gradients[j]) <= most;
}

/* The features of a block that take part come into reach, or leave it: sign is 1 or -1. */
static void shift_reach(const struct rbt_linear_job *linear, struct part *part, uint32_t block,
                        double sign)
{
    const struct dbpg *dbpg = linear->own;
    const struct rbt_columns *columns = &part->columns;
    if (block == dbpg->blocks) {
        return; /* the bias is in everybody's reach, all the time */
    }
    for (size_t at = part->firsts[block]; at < part->firsts[block + 1]; at++) {
        const uint32_t j = part->members[at];
        if (part->is_idle[j]) {
            continue;
        }
        for (uint64_t k = columns->starts[j]; k < columns->starts[j + 1]; k++) {
            part->reach[columns->rows[k]] += sign * fabs((double)columns->values[k]);
        }
        part->nonzeros += columns->starts[j + 1] - columns->starts[j];
    }
}

/* Chooses the features of the block that take part; the first pass looks at all. */
static void choose(const struct rbt_linear_job *linear, struct part *part, uint32_t block,
                   int64_t epoch)
{
    const struct dbpg *dbpg = linear->own;
    const bool looks_at_all = linear->config.l1 <= 0.0 || epoch % linear->config.kkt == 0;
    if (block == dbpg->blocks) {
        return;
    }
    for (size_t at = part->firsts[block]; at < part->firsts[block + 1]; at++) {
        const uint32_t j = part->members[at];
        part->is_idle[j] = !looks_at_all && is_inactive(linear, part, j);
    }
}

/* A pair of a gradient and its scale for the servers. A scale of zero would mean: not touched. */
static void write_pair(float *pair, double g, double u, double factor)
{
    const double least = 1e-30;
    pair[0] = (float)(g * factor);
    pair[1] = (float)fmax(u * factor, least);
}

/* Gradients and scales of the block, to be pushed. */
static void gather(const struct rbt_linear_job *linear, const struct rbt_share *share,
                   struct part *part, uint32_t block)
{
    const struct dbpg *dbpg = linear->own;
    const struct rbt_columns *columns = &part->columns;
    const double bias_reach = linear->config.has_bias ? 1.0 : 0.0;
    float *deltas = rbt_set_deltas(part->sets[block]);
    if (block == dbpg->blocks) {
        double g = 0.0;
        double u = 0.0;
        for (size_t i = 0; i < share->count; i++) {
            g += (double)part->slopes[i];
            u += (double)part->curvatures[i] * (part->reach[i] + 1.0);
        }
        write_pair(deltas, g, u, linear->gradient_factor);
        return;
    }
    for (size_t at = part->firsts[block]; at < part->firsts[block + 1]; at++, deltas += 2) {
        const uint32_t j = part->members[at];
        if (part->is_idle[j]) {
            continue;
        }
        double g = 0.0;
        double u = 0.0;
        for (uint64_t k = columns->starts[j]; k < columns->starts[j + 1]; k++) {
            const uint32_t i = columns->rows[k];
            const double x = (double)columns->values[k];
            g += (double)part->slopes[i] * x;
            u += (double)part->curvatures[i] * fabs(x) * (part->reach[i] + bias_reach);
        }
        part->nonzeros += columns->starts[j + 1] - columns->starts[j];
        write_pair(deltas, g, u, linear->gradient_factor);
    }
}

/* --- Callbacks ---------------------------------------------------------------------------------
 */

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const struct rbt_share *share = &w->share;
    struct dbpg *dbpg = linear->own;
    struct part *part = rbt_calloc(1, sizeof *part);
    w->own = part;
    rbt_status st = part == NULL ? no_memory() : make_room(linear, share, part);
    st = st != RBT_OK ? st : rbt_linear_gap_ready(&dbpg->gap, &part->gap, worker, share);
    st = st != RBT_OK ? st : rbt_columns_take(share, 0, share->count, &part->columns);
    st = st != RBT_OK ? st : deal(linear, share, part);
    st = st != RBT_OK ? st : open_sets(linear, worker, share, part);
    st = st != RBT_OK ? st : rbt_linear_shares(linear, worker, &part->columns, parameters);
    if (st != RBT_OK) {
        return st;
    }
    RBT_ASSERT(part->columns.count == share->key_count); /* a key is there because it is used */
    for (size_t i = 0; i < share->count; i++) {
        look(linear, share, part, i);
    }
    return RBT_OK;
}

/* Asks for what the last clock's block has become, and waits for what was asked `delay` clocks ago.
 */
static rbt_status catch_up(const struct rbt_linear_job *linear, rbt_worker *worker,
                           const struct rbt_share *share, struct part *part)
{
    const struct dbpg *dbpg = linear->own;
    rbt_status st = RBT_OK;
    if (part->clock > 0) {
        const int64_t last = (part->clock - 1) % RING;
        st = rbt_set_pull_within_async(part->sets[part->visited[last]], 0, NULL,
                                       &part->tickets[last]);
    }
    const int64_t due = part->clock - 1 - dbpg->delay;
    if (st == RBT_OK && due >= 0) {
        st = rbt_ticket_wait(worker, part->tickets[due % RING]);
        if (st == RBT_OK) {
            take_block(linear, share, part, part->visited[due % RING]);
            shift_reach(linear, part, part->visited[due % RING], -1.0);
        }
    }
    return st;
}

/* Worker 0, at the end of a pass: how many of its features are inactive. */
static void count_inactive(const struct rbt_linear_job *linear, const struct part *part,
                           size_t key_count)
{
    struct dbpg *dbpg = linear->own;
    size_t count = 0;
    for (uint32_t j = 0; j < key_count; j++) {
        count += is_inactive(linear, part, j);
    }
    dbpg->inactive = linear->config.l1 > 0 ? (double)count / (double)key_count : 0.0;
}

/* In the last clock of a pass: the loss at the margins, and, now and then, how far the minimum is.
 */
static rbt_status measure(const struct rbt_linear_job *linear, rbt_worker *worker,
                          const struct rbt_training_chunk *chunk,
                          struct rbt_training_figures *figures)
{
    const struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    struct part *part = w->own;
    double loss = 0.0;
    const bool is_due = rbt_linear_gap_is_due(linear, &part->gap, chunk);
    for (size_t i = 0; i < w->share.count; i++) {
        const struct rbt_loss_point at = rbt_loss_at((enum rbt_loss)linear->config.loss,
                                                     part->margins[i], (double)w->share.labels[i]);
        loss += at.value;
        if (is_due) { /* else they are in use */
            part->gap.slopes[i] = at.slope;
        }
    }
    figures->loss += loss;
    figures->count += w->share.count;
    part->looks += w->share.count;
    if (rbt_worker_index(worker) == 0) {
        count_inactive(linear, part, w->share.key_count);
    }
    return is_due ? rbt_linear_gap_begin(linear, &part->gap, worker, loss,
                                         rbt_linear_penalty_of(linear, w, part->weights))
                  : RBT_OK;
}

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct rbt_linear_job *linear = context;
    const struct dbpg *dbpg = linear->own;
    const uint32_t index = rbt_worker_index(worker);
    const struct rbt_share *share = &linear->workers[index].share;
    struct part *part = linear->workers[index].own;
    part->nonzeros = part->looks = 0;
    rbt_status st = catch_up(linear, worker, share, part);
    st = st != RBT_OK ? st : rbt_linear_gap_step(linear, &part->gap, worker);
    if (st != RBT_OK) {
        return st;
    }
    const uint32_t block = turn_of(linear, part, chunk);
    part->visited[part->clock++ % RING] = block;
    choose(linear, part, block, chunk->epoch);
    shift_reach(linear, part, block, 1.0);
    gather(linear, share, part, block);
    part->looks += block == dbpg->blocks ? share->count : 0;
    if (chunk->index + 1 == chunk->count) {
        st = measure(linear, worker, chunk, figures);
    }
    const size_t rows = block == dbpg->blocks ? 1 : part->firsts[block + 1] - part->firsts[block];
    rbt_worker_spend(worker,
                     1e-9 * (ns_per_nonzero * (double)part->nonzeros +
                             ns_per_weight * (double)rows + ns_per_look * (double)part->looks));
    return st;
}

static rbt_status push(void *context, rbt_worker *worker)
{
    const struct rbt_linear_job *linear = context;
    struct part *part = linear->workers[rbt_worker_index(worker)].own;
    return rbt_set_push(part->sets[part->visited[(part->clock - 1) % RING]]);
}

static double penalty(void *context, rbt_worker *worker)
{
    const struct rbt_linear_job *linear = context;
    const struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    return rbt_linear_penalty_of(linear, w, ((const struct part *)w->own)->weights);
}

static void end(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    const struct dbpg *dbpg = linear->own;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    struct part *part = w->own;
    if (part != NULL) {
        const rbt_ticket last = part->clock > 1 ? part->tickets[(part->clock - 2) % RING] : 0;
        const rbt_status st = last > 0 ? rbt_ticket_wait_through(worker, last) : RBT_OK;
        (void)st; /* nobody wants the rows any more, but tickets must not outlive their sets */
        free_part(part, dbpg->turns);
    }
    w->own = NULL;
}

static void summarise(const struct rbt_linear_job *linear, struct rbt_train_summary *summary)
{
    const struct dbpg *dbpg = linear->own;
    summary->inactive = dbpg->inactive;
    rbt_linear_gap_note(linear, &dbpg->gap, summary);
}

const struct rbt_linear_solver rbt_linear_dbpg = {.name = "dbpg",
                                                  .epochs_default = EPOCHS_DEFAULT,
                                                  .is_watched = true,
                                                  .check = check,
                                                  .settle = settle,
                                                  .summarise = summarise,
                                                  .task = {.open = open_tables,
                                                           .ready = ready,
                                                           .work = work,
                                                           .push = push,
                                                           .penalty = penalty,
                                                           .end = end}};
