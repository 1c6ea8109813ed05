/* base/mutant.h - mistakes that a test can make on purpose, to see that they are caught.
 *
 *     return RBT_MUTANT(NO_WAITING) ? true : ...;
 *
 * In the library the condition is a constant and costs nothing. The mutation test compiles the
 * files that use it once more, with RBT_MUTANTS defined, and switches one mistake on at a time. */
#ifndef RUBATO_BASE_MUTANT_H
#define RUBATO_BASE_MUTANT_H

/* X(name, what the mistake is) */
#define RBT_MUTANT_LIST(X)                                                                         \
    X(NO_OVERLAY, "reads leave out own updates that the shard does not show yet")                  \
    X(EARLY_DROP, "own updates are forgotten before the shard has acknowledged them")              \
    X(NO_WAITING, "reads are answered one clock too early")                                        \
    X(NO_HOLDING, "shards show updates that are further ahead than the staleness")                 \
    X(EARLY_VISIBLE, "own updates are forgotten one message before they are visible")              \
    X(NO_WAKING, "reads that wait are not answered when their time has come")                      \
    X(EARLY_ACK, "shards acknowledge one message more than they have")                             \
    X(EARLY_SETTLED, "shards say that one message more than they show is shown")                   \
    X(EARLY_RELEASE, "the message after the last acknowledged one is not sent again")              \
    X(NO_RESEND, "what is not acknowledged is not sent again on a new connection")                 \
    X(NO_ASKING_AGAIN, "requests are not asked again on a new connection")                         \
    X(SILENT_END, "shards do not say that a worker has left")                                      \
    X(OLD_REQUESTS, "requests of a connection that is over stay at the shard")                     \
    X(STALE_COPY, "rows that were sent ahead are used however old they are")                       \
    X(FORGETFUL_COPY, "rows that were sent ahead are used though they lack own updates")           \
    X(OLDER_COPY, "a set is read from an older copy than before")                                  \
    X(LOW_NEED, "requests ask for one clock less than they need")                                  \
    X(ONE_RESEND, "what is not acknowledged is not sent again after the second cut")               \
    X(WRONG_REQUEST, "an answer is taken for that of the oldest request")                          \
    X(OLD_GRUDGE, "the time without a connection is counted from the first cut, not the last")     \
    X(WRONG_GREETING, "shards greet workers with how far worker 0 has come")                       \
    X(SECOND_RESET, "every process that begins a run sets the clocks back")                        \
    X(ONE_GATHER, "a part of a round is not said again on a new connection")                       \
    X(LOST_GATHERED, "what was gathered is not told again to who did not hear it")                 \
    X(OLD_CUT, "the coordinator forgets when a process was cut off")                               \
    X(OLD_LINE, "processes forget when they were cut off from the coordinator")                    \
    X(BAD_GOODBYE, "a goodbye is taken for a loss")                                                \
    X(KEPT_BACKOFF, "attempts after a useful connection come as late as those before it")          \
    X(ASKED_AGAIN, "rows that were asked for ahead are asked for again")                           \
    X(KEPT_KEYS, "keys of requests count as waiting when they do not wait any more")

/* The same, caught by tables with filters. */
#define RBT_FILTER_MUTANT_LIST(X)                                                                  \
    X(ANY_BASE, "changes are applied to a copy that they are no changes of")                       \
    X(KEPT_FILTER, "shards believe that what they sent last has arrived, also after a cut")        \
    X(OLD_VALUES, "elements that filters left out are what the memory held")                       \
    X(HALF_LEFT, "of the copies of who leaves only some are forgotten")                            \
    X(LATE_COPY, "a copy is kept of rows that are sent to who has left")

/* The same, caught by tables with many rows. */
#define RBT_LIST_MUTANT_LIST(X)                                                                    \
    X(KEPT_LISTS, "lists of keys are not sent again on a new connection")                          \
    X(LAST_KEY, "the last key of a block of keys is one too high")                                 \
    X(IDLE_LISTS, "lists of keys stay when nobody can name them any more")

/* The same, caught by jobs that run twice. */
#define RBT_RUN_MUTANT_LIST(X)                                                                     \
    X(KEPT_COPIES, "rows that were sent ahead in the run before are used")                         \
    X(KEPT_FLOOR, "a shard's floor is not lowered when a run begins")

/* The same, caught by jobs whose staleness changes. */
#define RBT_BOUND_MUTANT_LIST(X)                                                                   \
    X(EARLY_TAKEN, "a new bound counts as taken when the first has taken it")                      \
    X(DEAF_SHARD, "shards do not take a new bound")                                                \
    X(LOST_BOUND, "a new bound is not told again to who was cut off")                              \
    X(ONE_BOUND, "a new bound that is wanted is not said again on a new connection")

/* The same, of tables with rules. */
#define RBT_RULE_MUTANT_LIST(X)                                                                    \
    X(HASTY_COPY, "reads are let go of whose rows were sent ahead and may yet be used")

/* The same, of rows that travel before a clock ends. */
#define RBT_EARLY_MUTANT_LIST(X) X(EARLY_TWICE, "changes that went early go again")

enum rbt_mutant {
    RBT_MUTANT_NONE,
#define X(name, text) RBT_MUTANT_##name,
    RBT_MUTANT_LIST(X) RBT_FILTER_MUTANT_LIST(X) RBT_LIST_MUTANT_LIST(X) RBT_RUN_MUTANT_LIST(X)
        RBT_BOUND_MUTANT_LIST(X)
#undef X
            RBT_MUTANT_COUNT,
#define X(name, text) RBT_MUTANT_##name,
    RBT_RULE_MUTANT_LIST(X) RBT_EARLY_MUTANT_LIST(X)
#undef X
};

#ifdef RBT_MUTANTS
extern enum rbt_mutant rbt_mutant; /* which mistake is on; defined by the test */
#define RBT_MUTANT(name) (rbt_mutant == RBT_MUTANT_##name)
#else
#define RBT_MUTANT(name) 0
#endif

#endif
