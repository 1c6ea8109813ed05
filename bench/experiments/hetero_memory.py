#!/usr/bin/python3
"""bench/experiments/hetero_memory.py [options] - what DynSGD's versions cost the servers.

Figure 13 of "Heterogeneity-aware Distributed Parameter Servers", on generated clicks with a long
tail: the most memory that versions took at a time, relative to that of the tables.
docs/experiments/heterogeneity.md says what was found.
"""

import sys

from common import Claims, Simulator, generate, parse, print_table, prior, write_table
from hetero_runs import UNEVEN

DATA = "clicks --examples 60000 --vocabulary 1M"
L2 = prior(60000)
BOUNDS = (3, 10, 40)
# Clocks in a pass, passes, options of the model.
JOBS = {"a clock per pass": (1, f"--epochs 60 {L2}"),
        "10 clocks per pass": (10, f"--epochs 6 {L2}"),
        "10 clocks per pass, no L2": (10, "--epochs 6 --l2 0"),
        "40 clocks per pass": (40, f"--epochs 3 {L2}"),
        "40 clocks per pass, no L2": (40, "--epochs 3 --l2 0")}


def measure(simulate, job, bound, tiny):
    clocks, options = JOBS[job]
    data = generate("hetero-tail.clicks", DATA)
    run = simulate(UNEVEN.words(),
                   f"linear --data {data} --rule dynsgd --consistency ssp:{bound} --lr 0.5 "
                   f"--schedule constant --clocks-per-epoch {clocks} {tiny} {options}")
    tables = run["server_bytes"] - run["rule_bytes"]
    return [f"{job}, s = {bound}{', ' + tiny if tiny else ''}", run["versions_max"],
            run["rule_bytes_max"] / 1e6, tables / 1e6, run["rule_bytes_max"] / tables]


def main():
    options = parse(__doc__)
    simulate, claims = Simulator(options.show), Claims()
    bounds = BOUNDS[:1] if options.quick else BOUNDS
    rows = [measure(simulate, job, bound, "") for job in JOBS for bound in bounds]
    rows += [measure(simulate, job, 3, "--tiny 0") for job in JOBS]
    columns = ["", "versions", "MB of versions", "MB of tables", "share"]
    print_table(columns, rows)
    write_table("hetero-memory.csv", columns, rows)
    for job in ("10 clocks per pass", "40 clocks per pass"):
        share = next(row for row in rows if row[0] == f"{job}, s = 3")[4]
        claims(f"{job}, with L2, s = 3: versions take at most 10% of the tables' memory",
               share <= 0.1, f"{100 * share:.1f}%")
    claims("a shard never has more than 2 s + 2 versions",
           all(row[1] <= 2 * int(row[0].split("s = ")[1].split(",")[0]) + 2 for row in rows),
           ", ".join(str(row[1]) for row in rows))
    return claims.finish("hetero_memory")


sys.exit(main())
