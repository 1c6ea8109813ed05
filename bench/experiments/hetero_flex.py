#!/usr/bin/python3
"""bench/experiments/hetero_flex.py [options] - moving data to fast workers, or weighing updates?

The production cluster of "Heterogeneity-aware Distributed Parameter Servers", section 7.3: half of
30 workers up to twice as slow, or some with slow links; s = 3. FlexRR is SSPSGD with --rebalance.
docs/experiments/heterogeneity.md says what was found.
"""

import math
import sys
from dataclasses import replace

from common import Claims, parse, print_table, write_table
from hetero_runs import (CLICKS, CONSGD, DYNSGD, SSPSGD, Cluster, Problem, find_target,
                         in_parallel, search)

PROBLEM = Problem("LR, clicks", "logistic", CLICKS, 60000, 1, 1.0)
SLOW_LINKS = " ".join(f"--slow-link worker/{i}x10" for i in range(1, 31, 5))
CLUSTERS = (Cluster("half up to twice as slow", "--stragglers 50%x1..2"),
            Cluster("a fifth with slow links", SLOW_LINKS,
                    network="--bandwidth 10Gbit --latency 10us"))
METHODS = {"BSP": replace(SSPSGD, consistency="bsp"), "ASP": replace(SSPSGD, consistency="asp"),
           "SSPSGD": SSPSGD,
           "FlexRR": replace(SSPSGD, name="FlexRR", options=f"{SSPSGD.options} --rebalance"),
           "ConSGD": CONSGD, "DynSGD": DYNSGD}


def main():
    options = parse(__doc__)
    claims = Claims()
    clusters = CLUSTERS[:1] if options.quick else CLUSTERS
    names = ("SSPSGD", "FlexRR", "DynSGD") if options.quick else tuple(METHODS)
    target = find_target(options, PROBLEM)
    tasks = [(options, PROBLEM, cluster, METHODS[name], target) for cluster in clusters
             for name in names]
    cells = [(cluster.name, name) for cluster in clusters for name in names]
    curves = dict(zip(cells, in_parallel(search, tasks)))
    print_table(["", "ms", "updates", "us each", "step"],
                [[f"{cluster}: {name}", 1e3 * c.seconds(), f"{c.updates():.0f}",
                  1e6 * c.seconds() / c.updates() if math.isfinite(c.seconds()) else math.nan,
                  c.step] for (cluster, name), c in curves.items()])
    write_table("hetero-flex.csv", ["cluster", "method", "seconds", "updates", "step"],
                [[cluster, name, c.seconds(), c.updates(), c.step]
                 for (cluster, name), c in curves.items()])
    for cluster in clusters:
        flex, dyn = (curves[cluster.name, name].seconds() for name in ("FlexRR", "DynSGD"))
        claims(f"{cluster.name}: DynSGD is 1.4 times as fast as FlexRR", flex >= 1.4 * dyn,
               f"{1e3 * dyn:.2f} ms against {1e3 * flex:.2f} ms")
    return claims.finish("hetero_flex")


sys.exit(main())
