#!/usr/bin/python3
"""bench/experiments/adaptive_cost.py [REPEATS [SYNCS]] - what AdaRevision adds to an iteration.

Trains matrix factorisation in this process with two workers, with AdaRevision, with rows that find
their own steps, and with the same gradients added as they are (sgd, which keeps nothing), in turns.
A clock's time is the difference of a long and a short run, so that reading data is not in it: wall
time, and processor time of all threads, which other programs disturb less. There are 200 ratings
per user or item, as in the paper's data (000; Netflix): what a row costs when it is exchanged is
shared by these. Real time, so tools/experiments does not run it; figures are in bench/RESULTS.md.
"""

import json
import resource
import shlex
import statistics
import subprocess
import sys

from common import OUT, RUBATO, generate, print_table

RULES = {"add": "sgd:lr=1e-6", "AdaRevision": "adarev:lr=0.1", "trust=1": "adarev:lr=0.1,trust=1"}
RANKS = (32, 100)
SYNCS = (1, 2, 4, 8, 16)
PASSES = (1, 9)


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


def clocks_of(data, rank, syncs, repeats):
    """Milliseconds per clock by rule, wall and processor, round by round. What a run does but once
    is taken from short ones, the quickest of each rule. Rules begin rounds in turns: on machines
    that are shared the first run after a pause may be quicker than those that follow."""
    names = list(RULES)
    rounds = [{} for _ in range(repeats)]
    once = {}
    for i, found in enumerate(rounds):
        for name in names[i % len(names):] + names[:i % len(names)]:
            short, found[name] = (train(data, RULES[name], rank, syncs, n) for n in PASSES)
            once[name] = [min(pair) for pair in zip(short, once.get(name, short))]
    clocks = (PASSES[1] - PASSES[0]) * syncs
    return [{name: [1e3 * (b - a) / clocks for a, b in zip(once[name], found[name])]
             for name in names} for found in rounds]


def middle(values):
    """The median and the quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def ratio_of(found, name, measure):
    """To an addition, of one round after the other: median and quartiles."""
    return middle([rounds[name][measure] / rounds["add"][measure] for rounds in found])


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    all_syncs = [int(sys.argv[2])] if len(sys.argv) > 2 else SYNCS
    OUT.mkdir(parents=True, exist_ok=True)
    data = generate("adaptive-cost-200.data", "ratings --users 6000 --items 3000 --ratings 1800k")
    rows = []
    for rank in RANKS:
        for syncs in all_syncs:
            found = clocks_of(data, rank, syncs, repeats)
            ms = middle([rounds["add"][1] for rounds in found])
            rows.append([f"rank {rank}, {syncs} per pass", ms,
                         *(ratio_of(found, name, measure) for name in list(RULES)[1:]
                           for measure in (1, 0))])
            print("measured: " + rows[-1][0], flush=True)
    heads = [f"{name}: {kind}" for name in list(RULES)[1:] for kind in ("processor", "clock")]
    print_table(["", "add: processor ms", *heads], rows)


main()
