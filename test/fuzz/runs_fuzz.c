/* test/fuzz/runs_fuzz.c - any text may be given to `rubato plot` as a log: it is refused with a
 * sentence, or drawn. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "cli/chart_runs.h"
#include "cli/svg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Draws what was added, both ways, and takes it away again. */
static void draw(struct rbt_chart *chart, bool is_log, FILE *out)
{
    const struct rbt_chart_look look = {.width = 80, .height = 18};
    if (chart->curve_count > 0) {
        chart->x = (struct rbt_chart_axis){.label = "x", .is_log = is_log};
        chart->y = (struct rbt_chart_axis){.label = rbt_chart_scale_bytes(chart)};
        rbt_chart_fit(chart, 7, 6);
        rbt_chart_draw(chart, &look, out);
        rbt_svg_write(chart, out);
    }
    rbt_chart_free_curves(chart);
}

static void draw_all(const struct rbt_run *run, FILE *out)
{
    typedef rbt_status (*adder)(struct rbt_chart *, const struct rbt_chart_run *);
    static const adder adders[] = {rbt_chart_add_bandwidth, rbt_chart_add_nodes, rbt_chart_add_lags,
                                   rbt_chart_add_rows};
    const struct rbt_chart_run part = {.run = run, .x_column = RBT_RUNS_T, .name = "fuzz"};
    struct rbt_chart *chart = rbt_calloc(1, sizeof *chart);
    for (size_t i = 0; chart != NULL && i < sizeof adders / sizeof adders[0]; i++) {
        chart->title = "title";
        if (adders[i](chart, &part) == RBT_OK) {
            RBT_ASSERT(chart->curve_count > 0);
            draw(chart, adders[i] == rbt_chart_add_rows, out);
        }
        rbt_chart_free_curves(chart);
    }
    rbt_free(chart);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct rbt_run run;
    const int fd = memfd_create("log", MFD_CLOEXEC);
    FILE *out = fopen("/dev/null", "we");
    if (fd >= 0 && out != NULL && write(fd, data, size) == (ssize_t)size) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (rbt_runs_read(path, &run) == RBT_OK) {
            draw_all(&run, out);
            rbt_runs_free(&run);
        }
    }
    if (out != NULL) {
        (void)fclose(out); /* nobody reads it */
    }
    if (fd >= 0) {
        (void)close(fd); /* it is gone */
    }
    return 0;
}
