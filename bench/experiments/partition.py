#!/usr/bin/python3
"""bench/experiments/partition.py [options] - reads of what all servers have, and of what each has.

Appendix E (figure 16) of "Heterogeneity-aware Distributed Parameter Servers": DynSGD, logistic
regression, s = 3, 30 workers; here 10 servers and messages that are late by about a clock, so that
the parts of an update arrive at different times. docs/experiments/partition.md says what was found.

Updates are clocks of all workers. A run ends when the exact objective of what the servers have,
taken after every clock of worker 0, has reached the target; figures are means over seeds of the
cluster.
"""

import json
import statistics
import sys
from dataclasses import dataclass

import pictures
from common import OUT, Claims, Simulator, generate, parse, print_table, prior, write_table

WORKERS, SERVERS, CLOCKS = 30, 10, 10  # clocks per pass
SEEDS = tuple(range(1, 21))
KINDS = {"as it is": "", "synchronised": "--synchronise"}
CLUSTER = (f"--workers {WORKERS} --bandwidth 100Gbit --latency 100us --jitter 1ms --spikes 5%@5ms "
           "--stragglers 100%x40")


@dataclass(frozen=True)
class Data:
    name: str
    words: str
    examples: int
    target: float
    rates: tuple

    def file(self):
        return generate(f"partition-{self.name}.data", self.words)


DATA = (Data("dense", "sparse --examples 20000 --features 2000 --nonzeros 20", 20000, 0.551,
             (2, 4, 8)),
        Data("sparse", "sparse --examples 20000 --features 20000 --nonzeros 30", 20000, 0.585,
             (4, 8, 16)))


@dataclass(frozen=True)
class Case:
    data: Data
    servers: int
    kind: str
    rate: float


@dataclass(frozen=True)
class Result:
    updates: float
    seconds: float
    bytes: float
    error: float  # of the updates: the standard error of the mean
    points: tuple  # of (updates, objective), of the first seed

    def per_update(self):
        return 1e6 * self.seconds / self.updates


def run(simulate, case, seed):
    """Updates, seconds and bytes to the target, and the curve; None if it is not reached."""
    log = OUT / f"partition-{case.data.name}.jsonl"
    summary = simulate(f"{CLUSTER} --servers {case.servers} --seed {seed}",
                       f"linear --data {case.data.file()} {prior(case.data.examples)} "
                       "--rule dynsgd --consistency ssp:3 "
                       f"--clocks-per-epoch {CLOCKS} --epochs 12 --lr {case.rate} --exact "
                       f"--target {case.data.target} --log {log} {KINDS[case.kind]}")
    if summary is None:
        return None
    with open(log, encoding="utf-8") as file:
        events = [event for event in map(json.loads, file) if event["event"] == "eval"]
    per_update = case.data.examples / (WORKERS * CLOCKS)
    points = tuple((event["examples"] / per_update, event["objective"]) for event in events)
    reached = [event for event in events if event["objective"] <= case.data.target]
    if not reached:
        return None
    return Result(reached[0]["examples"] / per_update, reached[0]["t"], summary["network_bytes"],
                  0.0, points)


def error_of(values):
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0


def measure(simulate, cases, seeds):
    """The mean over seeds of each case; None if one of its runs does not get there."""
    results = {}
    for case in cases:
        runs = [run(simulate, case, seed) for seed in seeds]
        results[case] = None if None in runs else Result(
            statistics.mean(result.updates for result in runs),
            statistics.mean(result.seconds for result in runs),
            statistics.mean(result.bytes for result in runs),
            error_of([result.updates for result in runs]), runs[0].points)
    return results


def best(results, data, servers, kind):
    """The case with the step size that gets there with the fewest updates."""
    reached = [case for case, result in results.items() if result is not None and
               (case.data, case.servers, case.kind) == (data, servers, kind)]
    return min(reached, key=lambda case: results[case].updates)


def show(results, data, servers):
    print(f"{data.name}, {servers} server{'s' if servers > 1 else ''}: to {data.target}")
    rows = []
    for (case, result) in results.items():
        if case.data == data and case.servers == servers:
            rows.append([case.kind, case.rate] + (["-"] * 5 if result is None else [
                result.updates, result.error, result.seconds, result.per_update(),
                result.bytes / 1e6]))
    print_table(["reads", "lr", "updates", "+-", "seconds", "us per update", "MB"], rows)
    updates, seconds = gain(results, data, servers)
    print(f"best against best: {100 * updates:.1f}% fewer updates, "
          f"{100 * seconds:.1f}% less time\n",
          flush=True)


def gain(results, data, servers):
    """How many updates and how much time less, each kind with its best step size."""
    plain, synchronised = (results[best(results, data, servers, kind)] for kind in KINDS)
    return (1 - synchronised.updates / plain.updates, 1 - synchronised.seconds / plain.seconds)


def draw(results, chosen):
    data = {}
    for of in chosen:
        for servers in (SERVERS, 1):
            found = {kind: results[best(results, of, servers, kind)] for kind in KINDS}
            data[f"{of.name}, {servers} server{'s' if servers > 1 else ''}"] = {
                "target": [(0, of.target)],
                **{f"mean, {kind}": [(found[kind].updates, of.target)] for kind in KINDS},
                **{kind: found[kind].points for kind in KINDS}}
    pictures.write("partition", data)


def main():
    options = parse(__doc__)
    simulate = Simulator(options.show)
    chosen = DATA[:1] if options.quick else DATA
    seeds = SEEDS[:1] if options.quick else SEEDS
    results = {}
    for data in chosen:
        rates = data.rates[:2] if options.quick else data.rates
        for servers in (SERVERS, 1):
            results |= measure(simulate, [Case(data, servers, kind, rate) for kind in KINDS
                                          for rate in rates], seeds)
            show(results, data, servers)
    write_table("partition.csv", ["data", "servers", "reads", "lr", "updates", "seconds", "bytes"],
                [[case.data.name, case.servers, case.kind, case.rate, result.updates,
                  result.seconds, result.bytes]
                 for case, result in results.items() if result is not None])
    claims = Claims()
    if options.quick:
        return 0
    draw(results, chosen)
    judge(claims, results)
    return claims.finish("partition")


def judge(claims, results):
    for data in DATA:
        gains = [100 * gain(results, data, servers)[0] for servers in (SERVERS, 1)]
        figures = f"{gains[0]:.1f}% with {SERVERS} servers, {gains[1]:.1f}% with 1"
        if data.name == "dense":
            claims("dense: 5% fewer updates or better", gains[0] >= 5, figures)
        else:
            claims("sparse: more updates", gains[0] < 0, figures)
        claims(f"{data.name}: as much is gained with one server, to 2%, which is never out of step",
               gains[0] <= gains[1] + 2, figures)


if __name__ == "__main__":
    sys.exit(main())
