/* sim/checker.h - judges a run by what was promised, not by how it is done. */
#ifndef RUBATO_SIM_CHECKER_H
#define RUBATO_SIM_CHECKER_H

#include "sim/world.h"

/* A row that a worker has read. */
struct sim_read {
    uint32_t worker;
    uint32_t table;
    uint32_t key;
    enum sim_path path;
    int64_t staleness; /* that the read asked for */
    int64_t claimed;   /* all clocks < this are said to be in it; or a negative number */
    const uint32_t *masks;
};

/* Right after the read, before anything else happens. */
void sim_check_read(struct sim_world *world, const struct sim_read *read);

/* Right before a read of the table that names no staleness: which one it will have. */
int64_t sim_check_staleness(struct sim_world *world, uint32_t worker, uint32_t table);

/* After every event: looks at all servers, and what workers have heard of them. */
void sim_check_event(struct sim_world *world);

/* Whether a job may fail as the thread's record says: it names the node that was lost, or packets
 * were lost so often that a connection was not made in time. */
bool sim_may_fail(const struct sim_scenario *plan);

/* When the run is over and the job still open: everything is there, once. */
void sim_check_end(struct sim_world *world, rbt_status status);

#endif
