/* launch/launch.c - starts the processes of a job, listens to them, and ends them all.
 *
 * Every child is the leader of a process group (and session) of its own, so that Ctrl-C reaches us
 * alone, and so that a child ends together with whatever it has started. What is going on is one
 * of:
 *
 *     RUNNING     until all worker processes have ended well, one is lost, or a signal comes
 *     FINISHING   all worker processes have ended well; the others have FINISH_MS to follow
 *     SETTLING    one is lost; for a moment we listen for others, to find the one to blame
 *     STOPPING    Ctrl-C: the worker processes end their clock; a second one or STOP_MS ends it
 *     TERMINATING everybody has SIGTERM, and TERM_MS
 *     KILLING     everybody has SIGKILL
 *
 * in this order, but never back. A child of another host is an ssh here: what would be a signal is
 * a word on its standard input, and its end is the end of the connection.
 *
 * Threads: one, the caller's, with a libuv loop that lives as long as the call. */
#include "launch/launch.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uv.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "launch/blame.h"
#include "launch/relay.h"

enum {
    FINISH_MS = 3000,
    SETTLE_MS = 200,       /* after the first loss */
    SETTLE_ECHO_MS = 1000, /* while all that is known is that others were lost */
    STOP_MS = 10000,
    TERM_MS = 1000,
    KILL_MS = 2000, /* only a process that the kernel holds lives longer; we do not wait for it */
    DRAIN_MS = 500, /* for the output of a child that has ended but left its pipe to another */
    TICK_MS = 50,
    READ_BYTES = 65536,
    PART_BYTES = 4096,
    WORDS_MAX = 4096, /* of one command line */
    LOGINS_MAX = 6,   /* at a time on one host: sshd turns some of more than ten away */
};

enum phase { RUNNING, FINISHING, SETTLING, STOPPING, TERMINATING, KILLING };

struct launch;

/* One child. Its handles are libuv's until they are closed. */
struct child {
    const struct rbt_launch_process *process;
    struct launch *launch;
    uv_process_t handle;
    uv_pipe_t input;
    uv_pipe_t output;
    uv_pipe_t errors;
    uv_write_t feeding; /* what goes to its standard input */
    struct rbt_relay output_relay;
    struct rbt_relay errors_relay;
    struct rbt_relay_record record;
    bool is_started;
    bool has_exited;
    bool is_ended_by_us; /* we told it to end before it did */
    int64_t status;
    int signal;
    uint32_t order; /* 1: the first that ended */
    uint64_t exit_ms;
    int64_t pid;
};

struct launch {
    const struct rbt_launch_options *options;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[3];
    struct rbt_relay_screen screen;
    struct child *children;
    enum phase phase;
    uint64_t deadline_ms; /* of the phase */
    uint64_t start_ms;    /* when all must have been started */
    uint32_t ended;       /* how many have */
    bool is_interrupted;
    rbt_status start_status; /* of the child that could not be started, with its message */
    struct rbt_error_record start_error;
    bool is_over;
    char buffer[READ_BYTES];
};

static const int watched_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* --- Output ----------------------------------------------------------------------------------- */

static void give_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    (void)size;
    const struct child *child = handle->data;
    /* One loop, one read at a time: they may share it. */
    *buffer = uv_buf_init(child->launch->buffer, READ_BYTES);
}

static void start_waiting(struct launch *launch);

/* The plain child's results must not overtake what it said before: takes all that it has said. */
static void pass_results(struct child *child, const char *bytes, size_t size)
{
    char part[PART_BYTES];
    ssize_t got = 0;
    int fd = -1;
    if (uv_is_closing((uv_handle_t *)&child->errors) == 0 &&
        uv_fileno((uv_handle_t *)&child->errors, &fd) == 0) {
        while ((got = read(fd, part, sizeof part)) > 0) { /* ends: it never waits */
            rbt_relay_take(&child->errors_relay, part, (size_t)got);
        }
    }
    fwrite(bytes, 1, size, stdout);
    fflush(stdout); /* the command says at its end whether standard output could be written */
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct child *child = stream->data;
    if (size > 0 && child->process->is_plain && stream == (uv_stream_t *)&child->output) {
        pass_results(child, buffer->base, (size_t)size);
        return;
    }
    struct rbt_relay *relay =
        stream == (uv_stream_t *)&child->output ? &child->output_relay : &child->errors_relay;
    if (size > 0) {
        rbt_relay_take(relay, buffer->base, (size_t)size);
        start_waiting(child->launch);
    } else if (size < 0) {
        rbt_relay_finish(relay);
        uv_close((uv_handle_t *)stream, NULL);
    }
}

/* Whether nothing more will be heard of the child. */
static bool is_silent(const struct child *child)
{
    if (!child->is_started) {
        return true;
    }
    const bool has_closed = uv_is_closing((const uv_handle_t *)&child->output) != 0 &&
                            uv_is_closing((const uv_handle_t *)&child->errors) != 0;
    return child->has_exited &&
           (has_closed || uv_now(&child->launch->loop) >= child->exit_ms + DRAIN_MS);
}

/* --- Signals ---------------------------------------------------------------------------------- */

/* Says a word to a child on another host. One that does not listen will be killed. */
static void say(struct child *child, const char *word)
{
    const uv_buf_t buffer = uv_buf_init((char *)word, (unsigned)strlen(word));
    if (uv_is_closing((uv_handle_t *)&child->input) == 0) {
        (void)uv_try_write((uv_stream_t *)&child->input, &buffer, 1);
    }
}

/* Sends a signal to the child's whole group. The group may be gone, which is as good. */
static void send_signal(struct child *child, int number)
{
    if (!child->is_started || child->has_exited) {
        return;
    }
    if (child->process->is_remote && number == SIGINT) {
        say(child, "interrupt\n");
    } else if (child->process->is_remote && number == SIGTERM) {
        say(child, "terminate\n");
    } else {
        (void)kill(-child->handle.pid, number);
        /* SIGKILL reaches who is stopped; the others must go on to hear anything. */
        (void)kill(-child->handle.pid, SIGCONT);
    }
}

static void enter(struct launch *launch, enum phase phase, uint64_t ms)
{
    RBT_ASSERT(phase > launch->phase);
    launch->phase = phase;
    launch->deadline_ms = uv_now(&launch->loop) + ms;
}

static void end_all(struct launch *launch, enum phase phase)
{
    enter(launch, phase, phase == TERMINATING ? TERM_MS : KILL_MS);
    for (size_t i = 0; i < launch->options->count; i++) {
        struct child *child = &launch->children[i];
        child->is_ended_by_us = child->is_ended_by_us || !child->has_exited;
        send_signal(child, phase == TERMINATING ? SIGTERM : SIGKILL);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct launch *launch = handle->data;
    (void)number;
    if (launch->phase >= STOPPING) {
        if (launch->phase == STOPPING) {
            end_all(launch, TERMINATING);
        }
        return;
    }
    launch->is_interrupted = true;
    enter(launch, STOPPING, STOP_MS);
    for (size_t i = 0; i < launch->options->count; i++) {
        if (launch->options->processes[i].is_worker) {
            send_signal(&launch->children[i], SIGINT);
        }
    }
}

/* --- Ends ------------------------------------------------------------------------------------- */

/* Whether some child was never started, because the first did not say where it listens, or because
 * others are still logging in. */
static bool has_waiting(const struct launch *launch)
{
    for (size_t i = 0; i < launch->options->count; i++) {
        if (!launch->children[i].is_started) {
            return true;
        }
    }
    return false;
}

/* Whether the child is on its way to another host. */
static bool is_logging_in(const struct child *child)
{
    return child->process->is_remote && child->is_started && !child->has_exited &&
           child->record.pid == 0;
}

/* The start takes too long: says who of those that were started has said nothing. */
static void give_up_start(struct launch *launch)
{
    const struct child *silent = &launch->children[0];
    for (size_t i = 0; silent->record.address[0] != '\0' && i < launch->options->count; i++) {
        if (is_logging_in(&launch->children[i])) {
            silent = &launch->children[i];
            break;
        }
    }
    launch->start_status =
        rbt_fail(RBT_E_TIMEOUT, "could not start %s on host \"%s\": nothing heard for %.3g s",
                 silent->process->name, silent->process->host, launch->options->start_seconds);
    rbt_error_save(&launch->start_error);
    end_all(launch, TERMINATING);
}

static struct rbt_blame_end end_of(const struct child *child)
{
    const bool is_bad = child->status != 0 || child->signal != 0 || has_waiting(child->launch);
    const bool is_loss = child->has_exited && !child->is_ended_by_us && is_bad;
    return (struct rbt_blame_end){
        .name = child->process->name,
        .host = child->process->host,
        .pid = child->process->is_remote ? child->record.pid : child->pid,
        .is_plain = child->process->is_plain,
        .is_remote = child->process->is_remote,
        .status = child->status,
        .signal = child->signal,
        .order = is_loss ? child->order : 0,
        .record = &child->record,
    };
}

/* Whether all worker processes have ended, and all well. */
static bool workers_are(const struct launch *launch, bool *are_well)
{
    *are_well = true;
    for (size_t i = 0; i < launch->options->count; i++) {
        const struct child *child = &launch->children[i];
        if (!child->process->is_worker) {
            continue;
        }
        if (!is_silent(child) || !child->is_started) {
            return false;
        }
        *are_well = *are_well && child->status == 0 && child->signal == 0;
    }
    return true;
}

static bool all_are_silent(const struct launch *launch)
{
    for (size_t i = 0; i < launch->options->count; i++) {
        if (!is_silent(&launch->children[i])) {
            return false;
        }
    }
    return true;
}

/* Whether the child stands still after SIGSTOP or the like. */
static bool is_stopped(const struct child *child)
{
    siginfo_t info = {0};
    const id_t pid = (id_t)child->handle.pid;
    return waitid(P_PID, pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Coordinator and servers leave when every process has said goodbye. No other process misses a
 * worker process that was stopped after that; all that is left to it is to end, and so it may go
 * on. One that is not stopped must not get the signal: it would undo the stop by which a debugger,
 * or a sanitizer at the end of a process, holds it. */
static void wake_the_last(struct launch *launch)
{
    for (size_t i = 0; i < launch->options->count; i++) {
        const struct child *child = &launch->children[i];
        if (!child->process->is_worker && !(child->has_exited && child->status == 0)) {
            return;
        }
    }
    for (size_t i = 0; i < launch->options->count; i++) {
        const struct child *child = &launch->children[i];
        if (child->is_started && !child->has_exited && !child->process->is_remote &&
            is_stopped(child)) {
            (void)kill(-child->handle.pid, SIGCONT); /* gone is as good */
        }
    }
}

/* While the job runs: whether it is done, or somebody is lost. */
static void watch_job(struct launch *launch)
{
    bool are_well = false;
    if (workers_are(launch, &are_well) && are_well) {
        enter(launch, FINISHING, FINISH_MS);
        return;
    }
    for (size_t i = 0; i < launch->options->count; i++) {
        const struct rbt_blame_end end = end_of(&launch->children[i]);
        if (rbt_blame_is_loss(&end)) {
            enter(launch, SETTLING, SETTLE_MS);
            return;
        }
    }
    if (has_waiting(launch) && uv_now(&launch->loop) >= launch->start_ms) {
        give_up_start(launch);
        return;
    }
    wake_the_last(launch);
}

/* After a loss: all that is known may be that others were lost; then it pays to wait for them. */
static void settle(struct launch *launch)
{
    bool are_echoes = true;
    for (size_t i = 0; i < launch->options->count; i++) {
        const struct rbt_blame_end end = end_of(&launch->children[i]);
        are_echoes = are_echoes && (!rbt_blame_is_loss(&end) || rbt_blame_is_echo(&end));
    }
    const uint64_t more_ms = are_echoes ? SETTLE_ECHO_MS - SETTLE_MS : 0;
    if (all_are_silent(launch) || uv_now(&launch->loop) >= launch->deadline_ms + more_ms) {
        end_all(launch, TERMINATING);
    }
}

/* After every event and every TICK_MS: moves on to the next phase if it is time. */
static void advance(struct launch *launch)
{
    if (launch->phase == RUNNING) {
        watch_job(launch);
    }
    bool are_well = false;
    const bool is_late = uv_now(&launch->loop) >= launch->deadline_ms;
    switch (launch->phase) {
    case RUNNING:
        break;
    case SETTLING:
        settle(launch);
        break;
    case STOPPING:
        if (is_late || workers_are(launch, &are_well)) {
            end_all(launch, TERMINATING);
        }
        break;
    case FINISHING:
    case TERMINATING:
        if (is_late) {
            end_all(launch, launch->phase == FINISHING ? TERMINATING : KILLING);
        }
        break;
    case KILLING:
        launch->is_over = launch->is_over || is_late;
        break;
    }
    launch->is_over = launch->is_over || (launch->phase != RUNNING && all_are_silent(launch));
    if (launch->is_over) {
        uv_stop(&launch->loop);
    }
}

static void on_tick(uv_timer_t *timer)
{
    advance(timer->data);
}

static void on_exit_of(uv_process_t *handle, int64_t status, int number)
{
    struct child *child = handle->data;
    struct launch *launch = child->launch;
    child->has_exited = true;
    child->status = status;
    child->signal = number;
    child->order = ++launch->ended;
    child->exit_ms = uv_now(&launch->loop);
    (void)kill(-handle->pid, SIGKILL); /* what it has left behind; mostly nothing */
    if (uv_is_closing((uv_handle_t *)&child->input) == 0) {
        uv_close((uv_handle_t *)&child->input, NULL);
    }
    uv_close((uv_handle_t *)handle, NULL);
    advance(launch);
}

/* --- Starts ----------------------------------------------------------------------------------- */

/* Whether the child must wait for the address of the first. */
static bool needs_address(const struct rbt_launch_process *process)
{
    for (char *const *word = process->argv; *word != NULL; word++) {
        if (strstr(*word, RBT_LAUNCH_ADDRESS) != NULL) {
            return true;
        }
    }
    return false;
}

/* A copy of the word with the address in it, or NULL without memory. */
static char *fill_in(const char *word, const char *address)
{
    struct rbt_text_buffer text = {0};
    const char *place = strstr(word, RBT_LAUNCH_ADDRESS);
    while (place != NULL) {
        rbt_text_add_bytes(&text, word, (size_t)(place - word));
        rbt_text_add(&text, "%s", address);
        word = place + strlen(RBT_LAUNCH_ADDRESS);
        place = strstr(word, RBT_LAUNCH_ADDRESS);
    }
    rbt_text_add(&text, "%s", word);
    char *copy = text.has_failed ? NULL : rbt_strdup(rbt_text_data(&text));
    rbt_text_deinit(&text);
    return copy;
}

/* Sends the child its input. The pipe stays open: its end is how a child learns of ours. */

static void feed(struct child *child)
{
    const char *input = child->process->input != NULL ? child->process->input : "";
    const uv_buf_t buffer = uv_buf_init((char *)input, (unsigned)strlen(input));
    if (uv_write(&child->feeding, (uv_stream_t *)&child->input, &buffer, 1, NULL) != 0) {
        uv_close((uv_handle_t *)&child->input, NULL);
    }
}

static void open_pipes(struct child *child)
{
    uv_pipe_t *const pipes[] = {&child->input, &child->output, &child->errors};
    for (size_t i = 0; i < 3; i++) {
        /* Cannot fail: it only fills in the handle. */
        (void)uv_pipe_init(&child->launch->loop, pipes[i], 0);
        pipes[i]->data = child;
    }
}

/* Starts the child with this command line. */
static int spawn(struct child *child, char **argv)
{
    open_pipes(child);
    const bool is_direct = child->process->is_plain && !child->process->is_ordered;
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&child->input},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->output},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&child->errors},
    };
    if (is_direct) {
        stdio[1] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = STDOUT_FILENO};
    }
    const uv_process_options_t options = {
        .exit_cb = on_exit_of,
        .file = argv[0],
        .args = argv,
        .flags = UV_PROCESS_DETACHED, /* a session, and so a process group, of its own */
        .stdio_count = 3,
        .stdio = stdio,
    };
    child->handle.data = child;
    child->is_started = true;
    const int error = uv_spawn(&child->launch->loop, &child->handle, &options);
    if (error != 0) {
        child->has_exited = true; /* only its handles are left to close */
        uv_close((uv_handle_t *)&child->handle, NULL);
        uv_close((uv_handle_t *)&child->input, NULL);
        uv_close((uv_handle_t *)&child->output, NULL);
        uv_close((uv_handle_t *)&child->errors, NULL);
        return error;
    }
    child->pid = child->handle.pid;
    feed(child);
    if (is_direct) {
        uv_close((uv_handle_t *)&child->output, NULL);
    } else {
        (void)uv_read_start((uv_stream_t *)&child->output, give_buffer, on_read);
    }
    (void)uv_read_start((uv_stream_t *)&child->errors, give_buffer, on_read);
    return 0;
}

static rbt_status start(struct child *child, const char *address)
{
    const struct rbt_launch_process *process = child->process;
    size_t count = 0;
    while (process->argv[count] != NULL) {
        count++;
    }
    RBT_ASSERT(count > 0 && count < WORDS_MAX);
    char **argv = rbt_calloc(count + 1, sizeof *argv);
    bool is_complete = argv != NULL;
    for (size_t i = 0; is_complete && i < count; i++) {
        argv[i] = fill_in(process->argv[i], address);
        is_complete = argv[i] != NULL;
    }
    rbt_status st = RBT_OK;
    if (!is_complete) {
        st = rbt_fail(RBT_E_NOMEM, "could not allocate a command line of %zu words", count);
    } else {
        const int error = spawn(child, argv);
        if (error != 0) {
            errno = -error;
            st = rbt_fail(RBT_E_IO, "could not start \"%s\" for %s", argv[0], process->name);
        }
    }
    for (size_t i = 0; argv != NULL && i < count; i++) {
        rbt_free(argv[i]);
    }
    rbt_free(argv);
    return st;
}

/* Whether the child's host has as many logins under way as it bears. */
static bool is_crowded(const struct launch *launch, const struct rbt_launch_process *process)
{
    uint32_t logins = 0;
    for (size_t i = 0; process->is_remote && i < launch->options->count; i++) {
        const struct child *child = &launch->children[i];
        logins += is_logging_in(child) && strcmp(child->process->host, process->host) == 0 ? 1 : 0;
    }
    return logins >= LOGINS_MAX;
}

/* Starts all that can be started by now. */
static void start_waiting(struct launch *launch)
{
    const char *address = launch->children[0].record.address;
    for (size_t i = 0; i < launch->options->count && launch->phase == RUNNING; i++) {
        struct child *child = &launch->children[i];
        if (child->is_started || (address[0] == '\0' && needs_address(child->process)) ||
            is_crowded(launch, child->process)) {
            continue;
        }
        launch->start_status = start(child, address);
        if (launch->start_status != RBT_OK) {
            rbt_error_save(&launch->start_error);
            end_all(launch, TERMINATING);
        }
    }
}

/* --- The whole -------------------------------------------------------------------------------- */

static rbt_status prepare(struct launch *launch, const struct rbt_launch_options *options)
{
    launch->options = options;
    launch->screen = (struct rbt_relay_screen){.err = options->err, .is_live = options->is_live};
    launch->children = rbt_calloc(options->count, sizeof *launch->children);
    if (launch->children == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate %zu processes", options->count);
    }
    for (size_t i = 0; i < options->count; i++) {
        struct child *child = &launch->children[i];
        child->process = &options->processes[i];
        child->launch = launch;
        const char *name = child->process->is_plain ? NULL : child->process->name;
        child->errors_relay =
            (struct rbt_relay){.name = name, .screen = &launch->screen, .record = &child->record};
        child->output_relay = child->errors_relay;
    }
    const int error = uv_loop_init(&launch->loop);
    if (error != 0) {
        errno = -error;
        rbt_free(launch->children);
        return rbt_fail(RBT_E_IO, "could not start an event loop");
    }
    /* None of these can fail with sound arguments but for lack of memory at the first signal;
     * a launcher that cannot be interrupted is still one. */
    (void)uv_timer_init(&launch->loop, &launch->timer);
    launch->timer.data = launch;
    launch->start_ms = uv_now(&launch->loop) + (uint64_t)(options->start_seconds * 1e3);
    (void)uv_timer_start(&launch->timer, on_tick, TICK_MS, TICK_MS);
    for (size_t i = 0; i < sizeof watched_signals / sizeof watched_signals[0]; i++) {
        (void)uv_signal_init(&launch->loop, &launch->signals[i]);
        launch->signals[i].data = launch;
        (void)uv_signal_start(&launch->signals[i], on_signal, watched_signals[i]);
    }
    return RBT_OK;
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (uv_is_closing(handle) == 0) {
        uv_close(handle, NULL);
    }
}

static void clean_up(struct launch *launch)
{
    for (size_t i = 0; i < launch->options->count; i++) {
        rbt_relay_deinit(&launch->children[i].output_relay);
        rbt_relay_deinit(&launch->children[i].errors_relay);
    }
    uv_walk(&launch->loop, close_handle, NULL);
    (void)uv_run(&launch->loop, UV_RUN_DEFAULT); /* until all are closed */
    const int error = uv_loop_close(&launch->loop);
    RBT_ASSERT(error == 0); /* a handle was forgotten */
    rbt_free(launch->children);
}

/* What a worker process said when it was interrupted: the plain one, unless it says that another
 * one was, for we have interrupted them all. */
static rbt_status report_interrupt(const struct launch *launch)
{
    for (size_t i = 0; i < launch->options->count; i++) {
        const struct child *child = &launch->children[i];
        const struct rbt_blame_end end = end_of(child);
        if (child->process->is_worker && child->record.error[0] != '\0' &&
            (child->process->is_plain ? !rbt_blame_is_about_others(&end)
                                      : strncmp(child->record.error, "interrupted", 11) == 0)) {
            (void)rbt_fail(RBT_E_INTERRUPTED, "%s", child->record.error);
            return rbt_fail_hint(RBT_E_INTERRUPTED, "%s", child->record.hint);
        }
    }
    return rbt_fail(RBT_E_INTERRUPTED, "interrupted");
}

static rbt_status report(struct launch *launch)
{
    if (launch->start_status != RBT_OK) {
        rbt_error_restore(&launch->start_error);
        return launch->start_status;
    }
    bool are_well = false;
    if (workers_are(launch, &are_well) && are_well) {
        for (size_t i = 0; i < launch->options->count; i++) {
            rbt_relay_release(&launch->screen, launch->children[i].process->name,
                              &launch->children[i].record);
        }
        return RBT_OK; /* even if interrupted: it came too late */
    }
    if (launch->is_interrupted) {
        return report_interrupt(launch);
    }
    struct rbt_blame_end *ends = rbt_calloc(launch->options->count, sizeof *ends);
    if (ends == NULL) {
        return rbt_fail(RBT_E_NOMEM, "a process was lost, and memory ran out to say which");
    }
    for (size_t i = 0; i < launch->options->count; i++) {
        ends[i] = end_of(&launch->children[i]);
    }
    const rbt_status st = rbt_blame(ends, launch->options->count);
    rbt_free(ends);
    return st;
}

rbt_status rbt_launch_run(const struct rbt_launch_options *options)
{
    RBT_ASSERT(options->count > 0);
    struct launch *launch = rbt_calloc(1, sizeof *launch);
    if (launch == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not allocate the launcher");
    }
    rbt_status st = prepare(launch, options);
    if (st != RBT_OK) {
        rbt_free(launch);
        return st;
    }
    /* Neither a child that does not read nor a terminal that is gone may end us before we have
     * ended the others. */
    struct sigaction before;
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &before);
    start_waiting(launch);
    if (!launch->is_over) {
        (void)uv_run(&launch->loop, UV_RUN_DEFAULT); /* advance() stops it */
    }
    st = report(launch);
    clean_up(launch);
    (void)sigaction(SIGPIPE, &before, NULL);
    rbt_free(launch);
    return st;
}
