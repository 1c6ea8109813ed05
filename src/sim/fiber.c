/* sim/fiber.c - functions that can stop half-way: one thread, many stacks.
 *
 * The switch is that of the C library (makecontext, swapcontext), which every machine has. It also
 * exchanges the signal mask, a system call: a resume and the yield that answers it take half a
 * microsecond together, little beside what a fiber does in between.
 *
 *     lowest address                                   highest
 *     | guard page | stack, grows down  <------------------- |
 *
 * The record of the last error belongs to the thread (base/error.h), so it is exchanged at every
 * switch: `errors` holds the record of the side that does not run, the fiber's or its caller's.
 * Usually both are empty and nothing is copied.
 *
 * AddressSanitizer must know which stack is in use, ThreadSanitizer which chain of calls; both are
 * told just before and after a switch. Without them these calls are empty.
 *
 * Invariants:
 *   (1) `running` is NULL outside of fibers and the innermost, and only, one inside.
 *   (2) A fiber that has ended is never switched to.
 *
 * Threads: a fiber belongs to the thread that made it.
 * Memory: a mapping per fiber; the kernel gives it pages when they are touched. */
#include "sim/fiber.h"

#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__) /* gcc */
#define HAS_ADDRESS_SANITIZER
#elif defined(__SANITIZE_THREAD__)
#define HAS_THREAD_SANITIZER
#elif defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER
#elif __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER
#endif
#endif

#ifdef HAS_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif
#ifdef HAS_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK_BYTES_MIN = 16 * 1024 }; /* an error message alone takes four */

/* What the sanitizers want to know of one side of a switch. */
struct side {
    const void *stack; /* its lowest address */
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's, while the side does not run */
    void *calls;      /* ThreadSanitizer's */
};

struct rbt_fiber {
    rbt_fiber_function function;
    void *argument;
    char *mapping; /* the guard page, then the stack */
    size_t mapping_bytes;
    bool has_started;
    bool has_ended;
    const void *owner;  /* stands for the thread that made the fiber */
    ucontext_t context; /* where the fiber goes on */
    ucontext_t caller;  /* where whoever resumed it goes on */
    struct side inside;
    struct side outside;
    struct rbt_error_record errors; /* of the side that does not run */
};

static _Thread_local rbt_fiber *running; /* (1); its address also tells threads apart */

/* --- What the sanitizers are told ---------------------------------------------------------------
 */

static void sanitizers_create(rbt_fiber *fiber)
{
#ifdef HAS_THREAD_SANITIZER
    fiber->inside.calls = __tsan_create_fiber(0);
#endif
    RBT_ASSERT(fiber->inside.stack != NULL);
}

static void sanitizers_destroy(rbt_fiber *fiber)
{
    RBT_ASSERT(fiber != running);
#ifdef HAS_ADDRESS_SANITIZER
    if (fiber->mapping != NULL) { /* whoever gets these addresses next may use all of them */
        ASAN_UNPOISON_MEMORY_REGION(fiber->mapping, fiber->mapping_bytes);
    }
#endif
#ifdef HAS_THREAD_SANITIZER
    if (fiber->inside.calls != NULL) {
        __tsan_destroy_fiber(fiber->inside.calls);
    }
#endif
}

/* Just before a switch. `is_last`: `from` never runs again. */
static void sanitizers_leave(struct side *from, const struct side *to, bool is_last)
{
    RBT_ASSERT(from != to);
#ifdef HAS_ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(is_last ? NULL : &from->fake_stack, to->stack, to->stack_bytes);
#endif
#ifdef HAS_THREAD_SANITIZER
    if (from->calls == NULL) { /* not a fiber of ours, so it has not been asked for yet */
        from->calls = __tsan_get_current_fiber();
    }
    __tsan_switch_to_fiber(to->calls, 0);
#endif
    (void)is_last;
}

/* Just after a switch. Learns where the stack of the other side is, which for a thread's own stack
 * nobody else says. */
static void sanitizers_arrive(struct side *to, struct side *from)
{
    RBT_ASSERT(from != to);
#ifdef HAS_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(to->fake_stack, &from->stack, &from->stack_bytes);
#endif
}

/* --- Fibers -------------------------------------------------------------------------------------
 */

static bool is_empty(const char *message, const char *hint)
{
    RBT_DEBUG_ASSERT(message != NULL);
    RBT_DEBUG_ASSERT(hint != NULL);
    return message[0] == '\0' && hint[0] == '\0';
}

/* The thread's record and that of the side which does not run change places. */
static void exchange_errors(rbt_fiber *fiber)
{
    RBT_ASSERT(fiber->has_started);
    if (is_empty(rbt_last_error(), rbt_last_hint()) &&
        is_empty(fiber->errors.message, fiber->errors.hint)) {
        return; /* nearly always: two kilobytes are not copied three times */
    }
    struct rbt_error_record record;
    rbt_error_save(&record);
    rbt_error_restore(&fiber->errors);
    fiber->errors = record;
}

/* Goes back to whoever resumed the fiber; returns when it is resumed again. */
static void leave(rbt_fiber *fiber)
{
    RBT_ASSERT(fiber == running);
    running = NULL;
    exchange_errors(fiber);
    sanitizers_leave(&fiber->inside, &fiber->outside, fiber->has_ended);
    const int failed = swapcontext(&fiber->context, &fiber->caller);
    RBT_ASSERT(failed == 0);
    sanitizers_arrive(&fiber->inside, &fiber->outside);
    RBT_ASSERT(fiber == running);
    RBT_ASSERT(!fiber->has_ended); /* (2) */
}

/* The bottom of every fiber's stack. */
static void enter(void)
{
    rbt_fiber *fiber = running; /* makecontext passes only ints */
    RBT_ASSERT(fiber != NULL);
    sanitizers_arrive(&fiber->inside, &fiber->outside);
    fiber->function(fiber->argument);
    RBT_ASSERT(fiber == running);
    fiber->has_ended = true;
    leave(fiber);
    RBT_UNREACHABLE();
}

/* Maps the stack and its guard page. */
static rbt_status map_stack(rbt_fiber *fiber, size_t stack_bytes)
{
    RBT_ASSERT(fiber->mapping == NULL);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    stack_bytes = stack_bytes > STACK_BYTES_MIN ? stack_bytes : STACK_BYTES_MIN;
    if (stack_bytes > SIZE_MAX / 2) {
        return rbt_fail(RBT_E_NOMEM, "could not map a stack of %zu bytes", stack_bytes);
    }
    const size_t bytes = (stack_bytes + page - 1) / page * page + page;
    char *mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED) {
        return rbt_fail(RBT_E_NOMEM, "could not map a stack of %zu bytes", stack_bytes);
    }
    fiber->mapping = mapping;
    fiber->mapping_bytes = bytes;
    if (mprotect(mapping, page, PROT_NONE) != 0) { /* splits the mapping; there is a limit */
        return rbt_fail(RBT_E_NOMEM, "could not protect the end of a stack");
    }
    (void)madvise(mapping, bytes, MADV_NOHUGEPAGE); /* a wish: two megabytes for a few calls */
    fiber->inside.stack = mapping + page;
    fiber->inside.stack_bytes = bytes - page;
    return RBT_OK;
}

rbt_status rbt_fiber_create(rbt_fiber_function function, void *argument, size_t stack_bytes,
                            rbt_fiber **fiber)
{
    RBT_ASSERT(function != NULL);
    RBT_ASSERT(stack_bytes > 0);
    rbt_fiber *f = rbt_calloc(1, sizeof *f);
    if (f == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate a fiber");
    }
    f->function = function;
    f->argument = argument;
    f->owner = &running;
    const rbt_status st = map_stack(f, stack_bytes);
    if (st != RBT_OK) {
        rbt_fiber_destroy(f);
        return st;
    }
    const int failed = getcontext(&f->context);
    RBT_ASSERT(failed == 0);
    f->context.uc_stack.ss_sp = f->mapping + (f->mapping_bytes - f->inside.stack_bytes);
    f->context.uc_stack.ss_size = f->inside.stack_bytes;
    f->context.uc_link = NULL; /* enter() never returns */
    makecontext(&f->context, enter, 0);
    sanitizers_create(f);
    *fiber = f;
    return RBT_OK;
}

void rbt_fiber_destroy(rbt_fiber *fiber)
{
    if (fiber == NULL) {
        return;
    }
    RBT_ASSERT(fiber->owner == &running);
    RBT_ASSERT(fiber->has_ended || !fiber->has_started);
    sanitizers_destroy(fiber);
    if (fiber->mapping != NULL) {
        const int failed = munmap(fiber->mapping, fiber->mapping_bytes);
        RBT_ASSERT(failed == 0);
    }
    rbt_free(fiber);
}

void rbt_fiber_resume(rbt_fiber *fiber)
{
    RBT_ASSERT(running == NULL);
    RBT_ASSERT(!fiber->has_ended);        /* (2) */
    RBT_ASSERT(fiber->owner == &running); /* the thread that made it */
    fiber->has_started = true;
    exchange_errors(fiber);
    running = fiber;
    sanitizers_leave(&fiber->outside, &fiber->inside, false);
    const int failed = swapcontext(&fiber->caller, &fiber->context);
    RBT_ASSERT(failed == 0);
    sanitizers_arrive(&fiber->outside, &fiber->inside);
    RBT_ASSERT(running == NULL); /* (1) */
}

void rbt_fiber_yield(void)
{
    RBT_ASSERT(running != NULL);
    RBT_ASSERT(!running->has_ended);
    leave(running);
}

rbt_fiber *rbt_fiber_running(void)
{
    RBT_DEBUG_ASSERT(running == NULL || running->owner == &running);
    return running;
}

bool rbt_fiber_has_ended(const rbt_fiber *fiber)
{
    RBT_ASSERT(fiber->has_started || !fiber->has_ended);
    return fiber->has_ended;
}
