/* cli/interrupt.c - Ctrl-C and SIGTERM as a question that a loop can ask.
 *
 * The handler only counts. System calls are restarted, so that a signal while data is being read
 * does not look like a failure to read. The second signal ends the process with the code that
 * shells expect of it; model and log files are safe then, because the one is renamed into place
 * when it is complete and the other is written line by line.
 *
 * Who sends SIGTERM and not Ctrl-C does not sit there to send another one. If the process is still
 * at it after a while, because a user's rule does not return, say, it ends as if that had come. */
#include "cli/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

enum { GRACE_SECONDS = 10 };

static atomic_int signal_count; /* lock-free, hence allowed in a handler */

static void give_up(int number)
{
    static const char text[] =
        "rubato: error: told to end, and after 10 s still busy with what was under way\n";
    (void)number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        /* a lost notice changes nothing */
    }
    _exit(128 + SIGTERM);
}

static void note(int number)
{
    static const char text[] = "\nrubato: stopping after this clock; once more ends at once\n";
    /* relaxed: only the count itself is communicated */
    if (atomic_fetch_add_explicit(&signal_count, 1, memory_order_relaxed) > 0) {
        _exit(128 + number);
    }
    if (number == SIGTERM) {
        (void)alarm(GRACE_SECONDS); /* there was none */
    }
    if (isatty(STDERR_FILENO) == 1 && write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        return; /* a lost notice changes nothing */
    }
}

static void install(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    /* Cannot fail: both signals exist and may be handled. */
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    action.sa_handler = handler == SIG_DFL ? SIG_DFL : give_up;
    (void)sigaction(SIGALRM, &action, NULL);
}

void rbt_interrupt_start(void)
{
    atomic_store_explicit(&signal_count, 0, memory_order_relaxed);
    install(note);
}

void rbt_interrupt_stop(void)
{
    (void)alarm(0); /* it has ended in time */
    install(SIG_DFL);
    atomic_store_explicit(&signal_count, 0, memory_order_relaxed);
}

bool rbt_interrupt_seen(void)
{
    return atomic_load_explicit(&signal_count, memory_order_relaxed) > 0;
}
