/* cli/svg.h - charts as SVG files. */
#ifndef RUBATO_CLI_SVG_H
#define RUBATO_CLI_SVG_H

#include <stdio.h>

#include "cli/chart.h"

/* Writes the chart as a complete SVG document; the caller looks at ferror(). */
void rbt_svg_write(const struct rbt_chart *chart, FILE *out);

/* The colour of curve i, "#1f6feb"; the same in every kind of picture. */
const char *rbt_svg_colour(size_t i);

#endif
