/* sim/simulation.c - placeholder until the driver lands. */
#include <rubato/simulate.h>

#include "base/error.h"
#include "client/driver.h"

rbt_status rbt_sim_open(rbt_simulation *simulation, const struct rbt_driver_options *options,
                        rbt_driver **driver)
{
    (void)simulation;
    (void)options;
    (void)driver;
    return rbt_fail(RBT_E_INVALID, "not yet");
}

rbt_status rbt_simulation_open(const struct rbt_simulation_options *options,
                               rbt_simulation **simulation)
{
    (void)options;
    (void)simulation;
    return rbt_fail(RBT_E_INVALID, "not yet");
}

rbt_status rbt_simulation_close(rbt_simulation *simulation)
{
    (void)simulation;
    return RBT_OK;
}

void rbt_simulation_stats(const rbt_simulation *simulation, struct rbt_simulation_stats *stats)
{
    (void)simulation;
    *stats = (struct rbt_simulation_stats){0};
}

void rbt_simulation_worker(const rbt_simulation *simulation, uint32_t index,
                           struct rbt_simulation_worker *worker)
{
    (void)simulation;
    (void)index;
    *worker = (struct rbt_simulation_worker){0};
}

bool rbt_simulation_node(const rbt_simulation *simulation, uint32_t index,
                         struct rbt_simulation_node *node)
{
    (void)simulation;
    (void)index;
    (void)node;
    return false;
}
