/* sim/thrift.h - judges what a run costs: connections that end without a fault, attempts that come
 * late or too long, and messages that ask or say in vain. It sees messages and the lives of
 * connections, and nothing of why they are sent. */
#ifndef RUBATO_SIM_THRIFT_H
#define RUBATO_SIM_THRIFT_H

#include "sim/world.h"

/* From now on it looks. To be called before the job is opened; the memory is the world's. */
void sim_thrift_begin(struct sim_world *world, rbt_simulation *simulation);
void sim_thrift_end(struct sim_world *world);

/* A run has ended well, and the job is still open. */
void sim_thrift_check(struct sim_world *world);

#endif
