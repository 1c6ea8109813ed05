/* sim/workload.h - what the workers of a scenario do. */
#ifndef RUBATO_SIM_WORKLOAD_H
#define RUBATO_SIM_WORKLOAD_H

#include "sim/world.h"

/* The worker function; `argument` is the world. */
rbt_status sim_work(rbt_worker *worker, void *argument);

#endif
