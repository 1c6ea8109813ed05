/* tools/entered.c - notes which functions a program enters.
 *
 * It is part of the programs that tools/one-protocol builds, and of no other. The compiler calls
 * __cyg_profile_func_enter() at the start of every function (-finstrument-functions). The file that
 * ENTERED_FILE names has a byte for every byte of the program's text; the byte at the start of a
 * function becomes 1 when the function is entered. The file is shared memory of all processes that
 * run the program with the same ENTERED_FILE: nothing has to be written when a process ends, so a
 * process that is killed counts, too. Without ENTERED_FILE nothing is noted.
 *
 * Threads: any. A byte only ever becomes 1, whoever writes it; entered_begin() and entered_end()
 * are for programs of one thread. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/entered.h"

#define PLAIN __attribute__((no_instrument_function))

/* Where the program is in memory, from the linker. */
extern const char __executable_start[];
extern const char etext[];

PLAIN void __cyg_profile_func_enter(void *function, void *caller);
PLAIN void __cyg_profile_func_exit(void *function, void *caller);

static _Atomic uint8_t *entered; /* NULL: nothing is noted */
static size_t entered_size;

/* Runs before main(), so that no other thread is there yet. */
__attribute__((constructor)) PLAIN static void open_file(void)
{
    const char *path = getenv("ENTERED_FILE");
    if (path == NULL) {
        return;
    }
    entered_size = (size_t)((uintptr_t)etext - (uintptr_t)__executable_start);
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    void *bytes = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)entered_size) == 0) {
        bytes = mmap(NULL, entered_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    if (bytes == MAP_FAILED) {
        perror(path);
        _exit(1);
    }
    (void)close(file); /* the memory stays */
    entered = bytes;
}

PLAIN void entered_begin(void)
{
    for (size_t i = 0; entered != NULL && i < entered_size; i++) {
        atomic_store_explicit(&entered[i], 0, memory_order_relaxed);
    }
}

PLAIN void entered_end(void)
{
    entered = NULL; /* the file keeps what was noted */
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    (void)caller;
    const size_t place = (size_t)((uintptr_t)function - (uintptr_t)__executable_start);
    if (entered != NULL && place < entered_size &&
        atomic_load_explicit(&entered[place], memory_order_relaxed) == 0) {
        atomic_store_explicit(&entered[place], 1, memory_order_relaxed);
    }
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function;
    (void)caller;
}
