/* tools/entered.h - what a program may say to tools/entered.c, which notes the functions entered.
 */
#ifndef RUBATO_TOOLS_ENTERED_H
#define RUBATO_TOOLS_ENTERED_H

/* Forgets what was noted so far; and: notes no more. */
void entered_begin(void);
void entered_end(void);

#endif
