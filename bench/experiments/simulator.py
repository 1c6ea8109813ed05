#!/usr/bin/python3
"""bench/experiments/simulator.py [options] - what simulating costs on this machine.

How long an event takes with 10, 100 and 1,000 nodes, nine workers to a server, 200 examples to a
worker and 200 features to a server, so that messages are not too unlike; and 20 clocks of 1,000
workers and 100 servers. Real time is measured here, so figures vary with the machine and what else
it does. Processor time is that of the whole run, with loading.
"""

import json
import os
import shlex
import sys
import time

from common import RUBATO, Claims, generate, parse, print_table

SHAPES = ((9, 1), (90, 10), (900, 100))
EXAMPLES = 200  # per worker
FEATURES = 200  # per server
CLOCKS = {9: 4000, 90: 400, 900: 20}
LARGE = (1000, 100, 20)  # workers, servers, clocks


def run(cluster, training):
    """The summary of a run, with its real and its processor seconds."""
    words = [str(RUBATO), "simulate", *shlex.split(cluster), "--", "train",
             *shlex.split(training), "--summary", "json", "--progress", "never"]
    began = time.monotonic()
    reader, writer = os.pipe()
    pid = os.posix_spawn(words[0], words, os.environ,
                         file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)])
    os.close(writer)
    with open(reader, encoding="ascii") as output:
        summary = output.read()
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"this failed: {shlex.join(words)}")
    return {**json.loads(summary), "real": time.monotonic() - began,
            "processor": usage.ru_utime + usage.ru_stime}


def measure(workers, servers, clocks, data):
    summary = run(f"--workers {workers} --servers {servers}",
                  f"linear --data {data} --l2 1e-4 --lr 1e-4 --combine mean --consistency ssp:3 "
                  f"--clocks-per-epoch 1 --epochs {clocks}")  # others diverge, and are refused
    return [f"{workers} + {servers}", clocks, summary["events"], summary["real"],
            summary["processor"], 1e6 * summary["processor"] / summary["events"],
            summary["network_bytes"] / summary["messages"], summary["peak_rss_mb"]]


def main():
    options = parse(__doc__)
    claims, rows = Claims(), []
    shapes = SHAPES[:2] if options.quick else SHAPES
    for workers, servers in shapes:
        data = generate(f"simulator-{workers}.data",
                        f"sparse --examples {EXAMPLES * workers} --features {FEATURES * servers} "
                        "--nonzeros 20")
        rows.append(measure(workers, servers, CLOCKS[workers], data))
    if not options.quick:
        rows.append(measure(*LARGE, generate(
            "simulator-large.data", "sparse --examples 20000 --features 5000 --nonzeros 20")))
    print_table(["workers + servers", "clocks", "events", "seconds", "processor s", "us per event",
                 "bytes per message", "MB"], rows)
    growth = rows[len(shapes) - 1][5] / rows[0][5]
    claims(f"time per event grows 2 times or less from {sum(shapes[0])} to {sum(shapes[-1])} nodes",
           growth <= 2, f"{growth:.2f} times")
    if not options.quick:
        claims("1,000 workers and 100 servers take at most 60 s of processor time and 2 GB",
               rows[-1][4] <= 60 and rows[-1][7] <= 2000,
               f"{rows[-1][4]:.0f} s, {rows[-1][7] / 1e3:.1f} GB")
    return claims.finish("simulator")


sys.exit(main())
