#!/usr/bin/python3
"""bench/experiments/adaptive_cost.py [REPEATS [SYNCS]] - what AdaRevision adds to an iteration.

Trains matrix factorisation in this process with two workers, with AdaRevision and with the same
gradients added as they are (sgd, which keeps nothing), in turns. A clock's time is the difference
of a long and a short run, so that reading data is not in it: wall time, and processor time of all
threads, which other programs disturb less. Real time, so tools/experiments does not run it; figures
are in bench/RESULTS.md.
"""

import json
import resource
import shlex
import statistics
import subprocess
import sys

from common import OUT, RUBATO, generate, print_table

RULES = ("sgd:lr=1e-6", "adarev:lr=0.1")
RANKS = (32, 100)
SYNCS = (1, 2, 4, 8, 16)
PASSES = (2, 22)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train(data, rule, rank, syncs, passes):
    """Wall and processor seconds of a run; the former without reading the data."""
    words = shlex.split(f"{RUBATO} train mf --data {data} --rank {rank} --rule {rule} --workers 2 "
                        f"--clocks-per-epoch {syncs} --epochs {passes} --summary json "
                        "--progress never")
    before = processor_seconds()
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    summary = json.loads(result.stdout)
    return summary["seconds"] - summary["load_seconds"], processor_seconds() - before


def clock_of(data, rule, rank, syncs):
    """Milliseconds per clock: wall, processor."""
    short, long = (train(data, rule, rank, syncs, passes) for passes in PASSES)
    clocks = (PASSES[1] - PASSES[0]) * syncs
    return [1e3 * (b - a) / clocks for a, b in zip(short, long)]


def middle(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def ratios_of(found, measure):
    """Of one round after the other: their median and ends; and that of the best of each."""
    ratios = [rounds[1][measure] / rounds[0][measure] for rounds in found]
    best = [min(rounds[rule][measure] for rounds in found) for rule in range(2)]
    return [middle(ratios), f"{best[1] / best[0]:.2f}"]


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    all_syncs = [int(sys.argv[2])] if len(sys.argv) > 2 else SYNCS
    OUT.mkdir(parents=True, exist_ok=True)
    data = generate("adaptive-cost.data", "ratings --users 6000 --items 3000 --ratings 1M")
    rows = []
    for rank in RANKS:
        for syncs in all_syncs:
            found = [[clock_of(data, rule, rank, syncs) for rule in RULES] for _ in range(repeats)]
            rows.append([f"rank {rank}, {syncs} per pass",
                         *(middle([rounds[rule][1] for rounds in found]) for rule in range(2)),
                         *ratios_of(found, 1), *ratios_of(found, 0)])
            print("measured: " + rows[-1][0], flush=True)
    print_table(["", "processor ms: add", "AdaRevision", "ratio", "of the best", "wall: ratio",
                 "of the best"], rows)


main()
