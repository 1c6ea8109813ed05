/* store/rule_state_parts.h - what rule_state.c works with and rule_state_save.c writes down. */
#ifndef RUBATO_STORE_RULE_STATE_PARTS_H
#define RUBATO_STORE_RULE_STATE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/rule/rule.h"
#include "store/ledger.h"
#include "store/rule_state.h"
#include "store/snapshots.h"
#include "store/versions.h"

struct rbt_rule_state {
    struct rbt_rule_instance instance;
    const struct rbt_spec *spec; /* the table's */
    struct rbt_ledger ledger;
    struct rbt_snapshots snapshots; /* if the rule has any */
    struct rbt_versions versions;   /* the same */
    uint64_t count;                 /* messages applied */
    uint64_t aggregates;            /* versions applied as one message each */
    uint64_t highest;               /* stamp that anybody holds */
    uint64_t newest;                /* one above the highest version so far */
    uint64_t gone;                  /* versions below this have been folded for good */
    int64_t clock_offset;           /* clocks of the runs before */
    int64_t clock_end;              /* one above the highest clock so far, all runs together */
    struct rbt_bin_id last;         /* the message that the last batch was of, and its base */
    uint64_t last_base;
    struct rbt_rule_message message; /* the same, as the rule sees it */
    float *scratch;                  /* a row's snapshot, or its values while it is read */
    size_t bytes_max;                /* of versions and snapshots, as of the last note_bytes() */
    rbt_status status;
    struct rbt_error_record *error; /* why, if it has failed */
};

#endif
