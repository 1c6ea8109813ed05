/* cli/gnuplot.h - charts as PNG files, drawn by gnuplot. */
#ifndef RUBATO_CLI_GNUPLOT_H
#define RUBATO_CLI_GNUPLOT_H

#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "cli/chart.h"

/* Draws the chart as a PNG picture into `out`, which has a descriptor. Waits for gnuplot to end.
 * Fails with RBT_E_NOTFOUND if gnuplot is not installed and RBT_E_IO if it does not succeed. */
RBT_MUST_USE rbt_status rbt_gnuplot_write(const struct rbt_chart *chart, FILE *out);

#endif
