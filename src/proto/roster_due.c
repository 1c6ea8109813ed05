/* proto/roster_due.c - when something of a roster is late.
 *
 * What rbt_roster_expire() looks at has a time here; what it has done has none any more, so that
 * whoever follows the deadlines never finds one that stays in the past.
 *
 * Threads: none. Cost: all places of peers and jobs are looked at. */
#include "proto/roster_state.h"

static rbt_time earlier(rbt_time a, rbt_time b)
{
    return a < b ? a : b;
}

static rbt_time peer_deadline(const rbt_roster *roster, const struct rbt_roster_peer *peer)
{
    rbt_time deadline = RBT_TIME_NEVER;
    if (peer->is_there && !peer->is_connected) {
        deadline = peer->cut_at + roster->options.cut_max;
    }
    if (peer->is_there && peer->role == RBT_ROLE_READER && !peer->is_planned && !peer->is_told) {
        deadline = earlier(deadline, peer->deadline);
    }
    return deadline;
}

/* Of those who have to come before work can begin. */
static rbt_time start_deadline(const rbt_roster *roster)
{
    const bool must_work = roster->options.is_once && roster->job_count == 0;
    rbt_time deadline =
        !roster->has_servers || must_work ? roster->server_deadline : RBT_TIME_NEVER;
    for (uint32_t i = 0; roster->has_servers && i < RBT_ROSTER_JOBS_MAX; i++) {
        if (roster->jobs[i].state == RBT_ROSTER_JOB_FORMING) {
            deadline = earlier(deadline, roster->jobs[i].deadline);
        }
    }
    return deadline;
}

rbt_time rbt_roster_deadline(const rbt_roster *roster)
{
    if (roster->stage == RBT_ROSTER_CLOSED) {
        return RBT_TIME_NEVER;
    }
    /* Half of the silence without a look is taken for a pause of our own. */
    rbt_time deadline = roster->looked + roster->options.silence_max / 4;
    deadline = earlier(deadline, rbt_members_deadline(roster->members));
    for (uint32_t i = 0; i < RBT_ROSTER_PEERS_MAX; i++) {
        deadline = earlier(deadline, peer_deadline(roster, &roster->peers[i]));
    }
    return earlier(deadline, roster->stage == RBT_ROSTER_AT_WORK ? start_deadline(roster)
                                                                 : roster->stage_deadline);
}
