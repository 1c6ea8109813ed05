/* cli/interrupt.h - Ctrl-C and SIGTERM as a question that a loop can ask. */
#ifndef RUBATO_CLI_INTERRUPT_H
#define RUBATO_CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT or SIGTERM is only noted, and the second ends the process at once.
 */
void rbt_interrupt_start(void);

/* Back to the system's behaviour; forgets what was noted. */
void rbt_interrupt_stop(void);

/* Whether a signal has come. Threads: any. */
bool rbt_interrupt_seen(void);

#endif
