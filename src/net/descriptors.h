/* net/descriptors.h - how many files this process may have open. Threads: any. */
#ifndef RUBATO_NET_DESCRIPTORS_H
#define RUBATO_NET_DESCRIPTORS_H

#include <stdint.h>

/* Asks for as many as the system allows; most systems grant only 1024 unless they are asked.
 * Returns how many that is. */
uint64_t rbt_descriptors_raise(void);

#endif
