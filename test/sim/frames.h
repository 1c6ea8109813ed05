/* sim/frames.h - keeps messages of schedules as files, for the fuzzers to begin with.
 *
 * A folder per route (worker-to-server and so on) gets
 *   - KIND-FLAGS-CLASS-HASH: a message, header included, one for each kind, flags and class of its
 *     length, which is how many bits that takes;
 *   - talk-HASH: what one receiver has heard in one schedule, from its beginning: each message
 *     comes after a byte 0x80 + port if it comes over another connection than the one before.
 *     test/fuzz/script.h reads both.
 *
 * Files are few and short: see the limits in frames.c. Given the same seeds they are the same. */
#ifndef RUBATO_SIM_FRAMES_H
#define RUBATO_SIM_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/inspect.h"

/* From now on messages are kept there. False, and errno says why: there is no such folder, and it
 * cannot be made. */
bool sim_frames_open(const char *folder);

/* A schedule begins, and has ended. Both do nothing unless a folder is open. */
void sim_frames_begin(uint64_t seed);
void sim_frames_end(void);

/* A message that is about to be heard. The same. */
void sim_frames_note(const struct rbt_inspect_frame *frame);

#endif
