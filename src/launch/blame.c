/* launch/blame.c - several processes of a job have ended badly: which one is to blame?
 *
 * One that was killed is to blame before one that complained about itself, and that before one that
 * only reports the loss of others; among equals the first that ended. When all worker processes say
 * the same (they read the same missing file), the plain one speaks for them. */
#include "launch/blame.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/text.h"

enum {
    USAGE_STATUS = 2,   /* exit status of the command line for wrong usage */
    SSH_STATUS = 255,   /* ssh itself failed, or what it ran was killed */
    SHELL_SIGNAL = 128, /* a shell adds it to the number of the signal that killed its command */
};

/* From the worst to the least. */
enum guilt { GUILT_KILLED, GUILT_COMPLAINED, GUILT_ECHO, GUILT_NONE };

/* Whether the sentence is about another process: "lost server/1 ...", "worker/2 on node7 failed:
 * ...". It needs no name in front. */
static bool is_about_others(const char *text)
{
    static const char *const beginnings[] = {"lost ", "worker/", "server/", "another process ",
                                             "the coordinator was stopped"};
    for (size_t i = 0; i < sizeof beginnings / sizeof beginnings[0]; i++) {
        if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0) {
            return true;
        }
    }
    return false;
}

static enum guilt guilt_of(const struct rbt_blame_end *end)
{
    if (end->order == 0) {
        return GUILT_NONE;
    }
    if (is_about_others(end->record->error)) {
        return GUILT_ECHO;
    }
    return end->signal != 0 ? GUILT_KILLED : GUILT_COMPLAINED;
}

bool rbt_blame_is_about_others(const struct rbt_blame_end *end)
{
    return is_about_others(end->record->error);
}

bool rbt_blame_is_loss(const struct rbt_blame_end *end)
{
    return end->order != 0;
}

bool rbt_blame_is_echo(const struct rbt_blame_end *end)
{
    return guilt_of(end) == GUILT_ECHO;
}

static bool is_worse(const struct rbt_blame_end *a, const struct rbt_blame_end *b)
{
    const enum guilt left = guilt_of(a);
    const enum guilt right = guilt_of(b);
    if (left != right) {
        return left < right;
    }
    if (left == GUILT_COMPLAINED && a->is_plain != b->is_plain && a->record->error[0] != '\0' &&
        strcmp(a->record->error, b->record->error) == 0) {
        return a->is_plain;
    }
    return a->order < b->order;
}

/* The child printed a complaint: it is the sentence. */
static void repeat_complaint(const struct rbt_blame_end *end, rbt_status st)
{
    if (end->is_plain || is_about_others(end->record->error)) {
        (void)rbt_fail(st, "%s", end->record->error);
    } else {
        (void)rbt_fail(st, "%s: %s", end->name, end->record->error);
    }
    if (end->record->hint[0] != '\0') {
        (void)rbt_fail_hint(st, "%s", end->record->hint);
    }
}

/* ssh could not start anything there. */
static void describe_host(const struct rbt_blame_end *end, rbt_status st)
{
    const struct rbt_relay_record *record = end->record;
    const char *last = record->line_count == 0
                           ? "ssh gave no reason"
                           : record->last[(record->line_count - 1) % RBT_RELAY_LAST];
    (void)rbt_fail(st, "could not start %s on host \"%s\": %s", end->name, end->host, last);
    (void)rbt_fail_hint(st, "\"ssh -o BatchMode=yes %s true\" must work without a password.",
                        end->host);
}

/* It went without a word. */
static void describe_loss(const struct rbt_blame_end *end, rbt_status st)
{
    struct rbt_text_buffer text = {0};
    rbt_text_add(&text, "lost %s on %s", end->name, end->host);
    if (end->pid > 0) {
        rbt_text_add(&text, " (pid %lld)", (long long)end->pid);
    }
    int signal = end->signal;
    if (end->is_remote && signal == 0 && end->status > SHELL_SIGNAL && end->status < SSH_STATUS) {
        signal = (int)end->status - SHELL_SIGNAL;
    }
    if (signal != 0) {
        const char *name = sigabbrev_np(signal);
        rbt_text_add(&text, ": killed by signal %d (SIG%s)", signal, name != NULL ? name : "?");
    } else if (end->is_remote && end->status == SSH_STATUS) {
        rbt_text_add(&text, ": killed, or its host is down");
    } else {
        rbt_text_add(&text, ": exit status %lld", (long long)end->status);
    }
    rbt_relay_describe(end->record, &text);
    (void)rbt_fail(st, "%s", rbt_text_data(&text));
    rbt_text_deinit(&text);
}

rbt_status rbt_blame(const struct rbt_blame_end *ends, size_t count)
{
    const struct rbt_blame_end *worst = NULL;
    for (size_t i = 0; i < count; i++) {
        if (rbt_blame_is_loss(&ends[i]) && (worst == NULL || is_worse(&ends[i], worst))) {
            worst = &ends[i];
        }
    }
    RBT_ASSERT(worst != NULL);
    const bool has_complaint = worst->record->error[0] != '\0';
    const rbt_status st =
        has_complaint && worst->status == USAGE_STATUS ? RBT_E_INVALID : RBT_E_CLOSED;
    if (has_complaint) {
        repeat_complaint(worst, st);
    } else if (worst->is_remote && worst->status == SSH_STATUS && worst->record->pid == 0) {
        describe_host(worst, st);
    } else {
        describe_loss(worst, st);
    }
    return st;
}
