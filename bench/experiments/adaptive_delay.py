#!/usr/bin/python3
"""bench/experiments/adaptive_delay.py [--quick] [--show] - adaptive steps and late gradients.

Repeats the comparison of AdaDelay, asynchronous AdaGrad and AdaRevision of chapter 8 of "Scaling
Distributed Machine Learning with System and Algorithm Co-design" (Li, thesis, 2017): logistic
regression on simulated workers that wait for nobody, all equally fast, and with half of them slowed
down by a random factor from 1 to 4. Each rule has the step that is best for it, found on a grid.
What is measured are the virtual time until the exact objective of the servers' model is at a
target, and the servers' memory; besides, AdaDelay's exponent, and how late gradients are.
docs/experiments/adaptive.md says what the figures mean.
"""

import math
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass

import pictures
from common import (ROOT, RUBATO, SHARED, Claims, draw_curves, generate, parse, print_table,
                    prior, write_table)

LINKS = "--bandwidth 100Gbit --latency 2us"
SLOW = "--stragglers 50%x1..4"
CLUSTERS = {"even": "", "half slowed": SLOW}
STEPS = {"adagrad": (0.03, 0.05, 0.07, 0.1, 0.15), "adadelay": (0.05, 0.07, 0.1, 0.15, 0.2),
         "adarev": (0.07, 0.1, 0.15, 0.2, 0.3)}
REVIEW_STEPS = {"adagrad": (0.01, 0.015, 0.02, 0.03, 0.05),
                "adadelay": (0.02, 0.03, 0.04, 0.05, 0.07), "adarev": (0.03, 0.05, 0.07, 0.1, 0.15)}
NAMES = {"adagrad": "AdaGrad", "adadelay": "AdaDelay", "adarev": "AdaRevision"}
# By exponent: the further steps fall with time, the larger they must begin.
GAMMA_STEPS = {0.25: (0.02, 0.03, 0.04, 0.05, 0.07), 0.5: STEPS["adadelay"],
               0.75: (0.2, 0.3, 0.4, 0.5, 0.7)}
COPY_BYTES = 32  # of a weight's state, as store/snapshots.c keeps it
SEEDS = (2, 3)
DRAWS = (1, 2, 3, 4, 5)  # of who is slowed, where one says little


@dataclass(frozen=True)
class Job:
    """Data, a cluster, and an objective that the best steps reach in a few passes."""
    name: str
    data: str
    examples: int
    workers: int
    clocks: int
    passes: int
    target: float
    steps: dict  # by rule
    is_steady: bool = True  # else the objective jumps, and when it gets to the target is luck

    def cluster(self, words):
        return f"--workers {self.workers} --servers 4 {LINKS} {words}"

    def training(self, rule, consistency="asp", target=True):
        return (f"linear --data {self.data} {prior(self.examples)} --consistency {consistency} "
                f"--rule {rule} "
                f"--clocks-per-epoch {self.clocks} --epochs {self.passes}"
                + f" --target {self.target}" * target)


def jobs_of(options):
    data = generate("adaptive-sparse.data", "sparse --examples 40000 --features 20000 --nonzeros "
                                            "20")
    jobs = [Job("generated", data, 40000, 32, 16, 6, 0.56, STEPS)]
    reviews = SHARED / "imdb/imdb.train.libsvm.zst"
    if reviews.exists() and not options.quick:
        jobs.append(Job("reviews", reviews, 25000, 16, 16, 4, 0.3, REVIEW_STEPS, False))
    return jobs


def search(options, job, cluster, grids, consistency="asp"):
    """By rule text without its step: the curves by step."""
    runs = [(text, step) for text, steps in grids.items() for step in steps]
    curves = draw_curves([(job.cluster(cluster),
                           job.training(f"{text}{',' if ':' in text else ':'}lr={step}",
                                        consistency)) for text, step in runs], options.show)
    found = {}
    for (text, step), curve in zip(runs, curves):
        found.setdefault(text, {})[step] = curve
    return found


def time_of(job, curve):
    return 1e3 * curve.reach(job.target)[0]


def best_of(job, by_step):
    """The step with the shortest time, and that time; if none arrives, that which gets nearest."""
    step = min(by_step, key=lambda step: (time_of(job, by_step[step]),
                                          min(point[2] for point in by_step[step].points)))
    return step, time_of(job, by_step[step])


def words_of(value):
    return "never" if math.isinf(value) else f"{value:.2f}"


def show(job, name, found):
    print(f"{job.name}, {name}: virtual ms to {job.target}, by step")
    for text, by_step in found.items():
        print(f"  {text:<22}" + "  ".join(f"{step:g}: {words_of(time_of(job, curve))}"
                                          for step, curve in by_step.items()))
    print(flush=True)


def memory_of(curve):
    """Bytes of the servers when they have most; copies are gone at the end of a run."""
    return curve.summary["server_bytes"] + COPY_BYTES * curve.summary["snapshots_max"]


def check_times(claims, job, found):
    best = {(name, rule): best_of(job, by_step) for name in CLUSTERS
            for rule, by_step in found[name].items()}
    print_table(["ms to the target", *CLUSTERS],
                [[NAMES[rule], *(f"{words_of(best[name, rule][1])} (lr={best[name, rule][0]:g})"
                                 for name in CLUSTERS)] for rule in STEPS])
    ratio = {name: best[name, "adagrad"][1] / best[name, "adadelay"][1] for name in CLUSTERS}
    claims(f"{job.name}: AdaDelay is no slower than AdaGrad with even workers",
           ratio["even"] >= 1, f"AdaGrad takes {ratio['even']:.2f} times as long")
    if job.is_steady:
        claims(f"{job.name}: AdaDelay is faster than AdaGrad with half of the workers slowed",
               ratio["half slowed"] > 1, f"AdaGrad takes {ratio['half slowed']:.2f} times as long")
    return best


def check_seeds(claims, options, job, best):
    """The same with others slowed, at the steps that were best before."""
    rules = ("adagrad", "adadelay")
    runs = [(seed, rule) for seed in SEEDS for rule in rules]
    curves = draw_curves([(job.cluster(f"{SLOW} --seed {seed}"),
                           job.training(f"{rule}:lr={best['half slowed', rule][0]}"))
                          for seed, rule in runs], options.show)
    times = {run: time_of(job, curve) for run, curve in zip(runs, curves)}
    claims(f"{job.name}: the same with other workers slowed",
           all(times[seed, "adadelay"] < times[seed, "adagrad"] for seed in SEEDS),
           "; ".join(f"AdaDelay {words_of(times[seed, 'adadelay'])} ms, AdaGrad "
                     f"{words_of(times[seed, 'adagrad'])} ms" for seed in SEEDS))


def check_draws(claims, options, job):
    """Each draw of who is slowed with the best steps of its own."""
    rules = {rule: job.steps[rule] for rule in ("adagrad", "adadelay")}
    ratios = []
    for seed in DRAWS:
        found = search(options, job, f"{SLOW} --seed {seed}", rules)
        times = [best_of(job, found[rule])[1] for rule in rules]
        ratios.append(times[0] / times[1])
    middle = statistics.median(ratios)
    claims(f"{job.name}: with half of the workers slowed AdaDelay and AdaGrad are within 10% of "
           f"each other, in the median of {len(DRAWS)} draws", 0.9 <= middle <= 1.1,
           f"AdaGrad takes {', '.join(f'{ratio:.2f}' for ratio in ratios)} times as long")


def check_memory(claims, options, job, best):
    """A run over all passes each, whose servers have seen everything."""
    curves = draw_curves([(job.cluster(SLOW),
                           job.training(f"{rule}:lr={best['half slowed', rule][0]}", target=False))
                          for rule in STEPS], options.show)
    bytes_of = {rule: memory_of(curve) for rule, curve in zip(STEPS, curves)}
    ends = {rule: curve.summary["server_bytes"] for rule, curve in zip(STEPS, curves)}
    print_table(["servers' MB", "at most", "at the end", "copies"],
                [[NAMES[rule], bytes_of[rule] / 1e6, ends[rule] / 1e6,
                  curve.summary["snapshots_max"]] for rule, curve in zip(STEPS, curves)])
    claims(f"{job.name}: AdaDelay's memory is within 10% of AdaGrad's",
           bytes_of["adadelay"] <= 1.1 * bytes_of["adagrad"],
           f"{bytes_of['adadelay'] / bytes_of['adagrad']:.3f} times")
    claims(f"{job.name}: it is at most 60% of AdaRevision's",
           bytes_of["adadelay"] <= 0.6 * bytes_of["adarev"],
           f"{100 * bytes_of['adadelay'] / bytes_of['adarev']:.0f}%, at the end "
           f"{100 * ends['adadelay'] / ends['adarev']:.0f}%")
    return curves


def check_exponent(claims, options, job):
    grids = {f"adadelay:gamma={gamma}": steps for gamma, steps in GAMMA_STEPS.items()}
    for name, cluster in CLUSTERS.items():
        found = search(options, job, cluster, grids)
        show(job, name, found)
        times = [best_of(job, by_step)[1] for by_step in found.values()]
        claims(f"{job.name}, {name}: of AdaDelay's exponents 0.25, 0.5 and 0.75 the first is the "
               "slowest", times[0] == max(times),
               ", ".join(words_of(time) for time in times) + " ms")


def delays_of(workers, cluster, data):
    """How often each delay was seen by the first server, and how delays grow at first."""
    words = shlex.split(f"{RUBATO} simulate --workers {workers} --servers 4 {LINKS} {cluster} -- "
                        f"train linear --data {data} --consistency asp --clocks-per-epoch 8 "
                        f"--epochs 4 --rule {ROOT}/build/bench/delays.so:lr=1e-3 --progress never")
    result = subprocess.run(words, capture_output=True, text=True, check=True)
    line = next(line for line in result.stderr.splitlines()
                if line.startswith("delays main/weights"))
    _, _, slope, *counts = line.split()
    return float(slope), [int(count) for count in counts]


def middle_of(counts):
    """The median."""
    half, seen = sum(counts) / 2, 0
    for delay, count in enumerate(counts):
        seen += count
        if seen >= half:
            return delay
    return None


def check_delays(claims, job):
    rows, delays = [], {}
    for name, cluster in CLUSTERS.items():
        slope, counts = delays_of(100, cluster, job.data)
        middle = middle_of(counts)
        rows.append([name, slope, middle, len(counts) - 1])
        width = 10
        bins = [sum(counts[i:i + width]) for i in range(0, len(counts), width)]
        delays[name] = [(width * i + width / 2, count) for i, count in enumerate(bins)]
    print_table(["100 workers", "slope at first", "median delay", "largest"], rows)
    write_table("adaptive-delays.csv", ["cluster", "slope", "median", "largest"], rows)
    pictures.write("adaptive-delays", {
        "delays": delays, "medians": {row[0]: [(row[2], 0)] for row in rows}})
    claims("100 workers, even: the median delay is 40% to 60% of the workers",
           40 <= rows[0][2] <= 60, str(rows[0][2]))
    claims("100 workers: delays grow with the messages at first, by 0.2 to 1 each",
           all(0.2 <= row[1] <= 1 for row in rows), ", ".join(f"{row[1]:.2f}" for row in rows))
    return rows


def curves_of(job, found):
    """By cluster and rule: the objective over milliseconds, with the best step."""
    drawn = {}
    for name in CLUSTERS:
        best = {rule: by_step[best_of(job, by_step)[0]] for rule, by_step in found[name].items()}
        drawn[f"{job.name}: {name}"] = {
            NAMES[rule]: [(1e3 * time, objective) for time, _, objective in curve.points]
            for rule, curve in best.items()}
    return drawn


def main():
    options = parse(__doc__)
    claims = Claims()
    table, drawn = [], {}
    jobs = jobs_of(options)
    for job in jobs:
        found = {}
        for name, cluster in CLUSTERS.items():
            found[name] = search(options, job, cluster, job.steps)
            show(job, name, found[name])
            table += [[job.name, name, rule, step, time_of(job, curve)]
                      for rule, by_step in found[name].items() for step, curve in by_step.items()]
        best = check_times(claims, job, found)
        check_memory(claims, options, job, best)
        if not options.quick and job.is_steady:
            check_seeds(claims, options, job, best)
        elif not options.quick:
            check_draws(claims, options, job)
        drawn |= curves_of(job, found)
    if not options.quick:
        check_exponent(claims, options, jobs[0])
        check_delays(claims, jobs[0])
    write_table("adaptive-delay.csv", ["data", "cluster", "rule", "step", "ms"], table)
    pictures.write("adaptive-stragglers", drawn)
    return claims.finish("adaptive_delay")


sys.exit(main())
