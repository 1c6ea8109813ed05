/* cli/gnuplot.c - charts as PNG files, drawn by gnuplot.
 *
 * gnuplot gets its commands and the points through a pipe and writes the picture to its standard
 * output, which is the file: no names of files have to be quoted, and no temporary ones are left.
 */
#include "cli/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/svg.h"

extern char **environ;

/* A text in double quotes. */
static void write_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    size_t length = 0;
    for (size_t left = strlen(text); left > 0; left -= length) {
        const size_t shown = rbt_text_shown(text, left);
        length = shown > 0 ? shown : 1;
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fwrite(shown > 0 ? text : "?", 1, length, out);
        text += length;
    }
    fputc('"', out);
}

static void write_commands(const struct rbt_chart *chart, FILE *out)
{
    fputs("set terminal pngcairo size 1200,680 font 'sans,13' noenhanced\n"
          "set grid linecolor '#e4e7eb' linetype 1\nset border 3 linecolor '#7b8794'\n"
          "set tics nomirror out\nset key outside right top\nset title ",
          out);
    write_quoted(out, chart->title);
    fputs("\nset xlabel ", out);
    write_quoted(out, chart->x.label);
    fputs("\nset ylabel ", out);
    write_quoted(out, chart->y.label);
    if (chart->x.is_log) {
        fputs("\nset nonlinear x via log10(1+x) inverse 10**x-1\nset xtics (0", out);
        for (size_t i = 1; i < chart->x.tick_count; i++) {
            fprintf(out, ",%.17g", rbt_chart_mark(&chart->x, i));
        }
        fputc(')', out);
    }
    fprintf(out, "\nset xrange [%.17g:%.17g]\nset yrange [%.17g:%.17g]\nplot ", chart->x.low,
            chart->x.high, chart->y.low, chart->y.high);
    for (size_t i = 0; i < chart->curve_count; i++) {
        fprintf(out, "%s'-' with %s linewidth 2 linecolor '%s' dashtype %zu title ",
                i > 0 ? ", " : "",
                chart->curves[i].is_plain ? "lines" : "linespoints pointtype 7 pointsize 0.5",
                rbt_svg_colour(chart->curves[i].colour), chart->curves[i].dash + 1);
        write_quoted(out, chart->curves[i].name);
    }
    fputc('\n', out);
    for (size_t i = 0; i < chart->curve_count; i++) {
        const struct rbt_chart_curve *curve = &chart->curves[i];
        for (size_t k = 0; k < curve->count; k++) {
            fprintf(out, "%.17g %.17g\n", curve->x[k], curve->y[k]);
        }
        fputs("e\n", out);
    }
}

/* Starts gnuplot with its input from `input`, its output to `output` and its complaints dropped. */
static int spawn(int input, int output, pid_t *pid)
{
    char name[] = "gnuplot";
    char *const argv[] = {name, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    error = error != 0 ? error
                       : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                                          O_WRONLY, 0);
    error = error != 0 ? error : posix_spawnp(pid, name, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* What gnuplot has drawn goes to `out` through us: of its own output gnuplot does not say whether
 * it could be written. `error` becomes that of the first write that failed, or 0: later ones may
 * succeed, and then nobody would know why. */
static bool copy(int from, FILE *out, int *error)
{
    char block[16384];
    ssize_t got = 0;
    *error = 0;
    do { /* ends with the output of gnuplot */
        got = read(from, block, sizeof block);
        if (got > 0 && fwrite(block, 1, (size_t)got, out) < (size_t)got && *error == 0) {
            *error = errno;
        }
    } while (got > 0 || (got < 0 && errno == EINTR));
    return got == 0;
}

/* Feeds a running gnuplot, takes what it draws and waits for its end. It draws when it has read
 * all, so that neither of us waits for the other. Takes `to`. */
static rbt_status feed(const struct rbt_chart *chart, int to, int from, FILE *out, pid_t pid)
{
    void (*const old)(int) = signal(SIGPIPE, SIG_IGN); /* gnuplot may end early */
    FILE *pipe_file = fdopen(to, "w");
    if (pipe_file == NULL) {
        (void)close(to); /* gnuplot sees the end of its input and stops */
    } else {
        write_commands(chart, pipe_file);
        (void)fclose(pipe_file); /* whether it understood shows in its exit code */
    }
    int error = 0;
    const bool is_copied = copy(from, out, &error);
    int code = 0;
    while (waitpid(pid, &code, 0) < 0) { /* ends: only a signal can interrupt the wait */
        if (errno != EINTR) {
            code = -1;
            break;
        }
    }
    signal(SIGPIPE, old);
    if (pipe_file == NULL || !is_copied || code != 0) {
        errno = 0;
        return rbt_fail(RBT_E_IO, "gnuplot did not draw the chart");
    }
    if (error != 0) {
        errno = error;
        return rbt_fail(RBT_E_IO, "the picture could not be copied");
    }
    return RBT_OK;
}

rbt_status rbt_gnuplot_write(const struct rbt_chart *chart, FILE *out)
{
    int commands[2];
    int picture[2];
    if (pipe2(commands, O_CLOEXEC) != 0) {
        return rbt_fail(RBT_E_IO, "could not create a pipe");
    }
    if (pipe2(picture, O_CLOEXEC) != 0) {
        const rbt_status st = rbt_fail(RBT_E_IO, "could not create a pipe");
        (void)close(commands[0]);
        (void)close(commands[1]);
        return st;
    }
    pid_t pid = 0;
    const int error = spawn(commands[0], picture[1], &pid);
    (void)close(commands[0]); /* gnuplot has copies of its own */
    (void)close(picture[1]);
    rbt_status st = RBT_OK;
    if (error == 0) {
        st = feed(chart, commands[1], picture[0], out, pid);
    } else {
        (void)close(commands[1]); /* nobody listens */
        errno = error;
        st = error == ENOENT ? rbt_fail(RBT_E_NOTFOUND, "gnuplot is not installed")
                             : rbt_fail(RBT_E_IO, "could not start gnuplot");
    }
    (void)close(picture[0]); /* it was only read */
    return st;
}
