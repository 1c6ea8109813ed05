#!/usr/bin/python3
"""bench/experiments/managed.py [--quick] [--show] - rows that travel before the clock ends.

Repeats figures 4, 6c, 6d and 7 of "Managed Communication and Consistency for Fast Data-Parallel
Iterative Analytics" (Wei et al., 2015) for matrix factorisation and for multinomial logistic
regression, both with AdaRevision on 8 simulated workers: passes to a target with bounded staleness
(BS), with managed communication (MC) at several budgets and priorities, and with smaller clock
ticks instead; and how often each row travels early. The asynchronous sweep of Yahoo!LDA is there to
compare with: all rows round and round, changed or not, and no bound. docs/experiments/managed.md
says what the figures mean.
"""

import random
import subprocess
import sys
from dataclasses import dataclass

import pictures
from common import (OUT, SHARED, Claims, draw_curves, generate, parse, print_table, prior,
                    write_table)

WORKERS = 8
# All compute 10,000 times slower than a core, so that a pass lasts seconds, as in the paper.
CLUSTER = f"--workers {WORKERS} --servers 8 --stragglers 100%x10000 --bandwidth 1Gbit"
TICKS = (1, 2, 4, 8)
BUDGETS = (1, 2, 6, 23)  # times the traffic of bounded staleness; the paper: 33, 200 and 770 Mbps
PRIORITIES = ("sweep", "oldest", "walk", "random", "magnitude", "relative")
SHOWN = (("BS", 1), ("BS", 8), ("best", 2), ("best", 6), ("best", 23))
PASSES = 60


@dataclass(frozen=True)
class Job:
    """What is trained, a step, and an objective that BS reaches in 25 to 40 passes."""
    name: str
    words: str
    step: float
    target: float
    best: str  # of the priorities
    gain: float  # what it leaves of random's passes
    gained: tuple = (2, 6)  # at these budgets
    timed: str = ""  # the priority that is compared with smaller clocks, if it is not the best


@dataclass
class Result:
    """One run: passes and virtual seconds to the target; traffic per pass, of BS-1's."""
    passes: float
    seconds: float
    traffic: float
    curve: object


def write_classes(path):
    """5,000 examples with 50 of 500 features, in 20 classes around random points."""
    chance = random.Random(1)
    centres = [[chance.gauss(0, 1) for _ in range(500)] for _ in range(20)]
    with open(path, "w", encoding="ascii") as file:
        for _ in range(5000):
            label = chance.randrange(20)
            values = [f" {j + 1}:{centres[label][j] + chance.gauss(0, 2):.3f}"
                      for j in sorted(chance.sample(range(500), 50))]
            file.write(str(label) + "".join(values) + "\n")


def write_digits(path):
    """The first 10,000 images of MNIST."""
    def unpack(name):
        return subprocess.run(["zstd", "-dc", SHARED / "mnist" / name], capture_output=True,
                              check=True).stdout
    images = unpack("train-images-idx3-ubyte.zst")[16:]
    labels = unpack("train-labels-idx1-ubyte.zst")[8:]
    with open(path, "w", encoding="ascii") as file:
        for i in range(10000):
            pixels = images[784 * i:784 * (i + 1)]
            file.write(str(labels[i]) + "".join(f" {j + 1}:{value / 255:.3f}"
                                                for j, value in enumerate(pixels) if value) + "\n")


def jobs_of(options):
    ratings = generate("managed-ratings.data", "ratings --users 1600 --items 400 --ratings 80000")
    classes, digits = OUT / "data/managed-classes.svm", OUT / "data/managed-digits.svm"
    write_classes(classes)
    lens = SHARED / "ml-100k/u1.base.zst"
    mf, softmax = "mf --rank 8 --data", "linear --loss softmax --data"
    jobs = [Job("generated", f"{mf} {ratings}", 0.2, 0.15, "relative", 0.80, (6,), "magnitude"),
            Job("classes", f"{softmax} {classes} {prior(5000)}", 0.03, 0.7, "magnitude", 0.95)]
    if lens.exists() and not options.quick:
        jobs.append(Job("MovieLens", f"{mf} {lens} --format ratings", 0.1, 0.84, "relative", 0.95))
    if (SHARED / "mnist").exists() and not options.quick:
        write_digits(digits)
        jobs.append(Job("MNIST", f"{softmax} {digits} {prior(10000)}", 0.03, 0.6, "magnitude",
                        0.95))
    bag = generate("managed-documents.data",
                   "documents --docs 2000 --vocab 2000 --tokens 200k --topics 50")
    jobs.append(Job("topics", f"lda --data {bag} --topics 50", 0, 7.95, "relative", 1.05))
    kos = SHARED / "kos/docword.kos.txt.zst"
    if kos.exists() and not options.quick:
        jobs.append(Job("kos", f"lda --data {kos} --topics 100", 0, 9.22, "relative", 1.05))
    return jobs


def words_of(job, extra):
    rule = f"--rule adarev:lr={job.step} " if job.step > 0 else ""  # counts are only added
    return f"{job.words} {rule}--epochs {PASSES} --target {job.target} {extra}"


def between(curve, target):
    """Passes and seconds to the target, on a straight line between evaluations."""
    before = (0.0, 0.0, None)
    for point in curve.points:
        if point[2] <= target:
            part = 1 if before[2] is None else (before[2] - target) / (before[2] - point[2])
            return tuple(before[i] + part * (point[i] - before[i]) for i in (1, 0))
        before = point
    return float("inf"), float("inf")


def result_of(curve, job, unit):
    passes, seconds = between(curve, job.target)
    summary = curve.summary
    return Result(passes, seconds, summary["network_bytes"] / summary["epochs"] / unit, curve)


def measure(options, job):
    """Results by ("BS", ticks) and by (priority, budget)."""
    ticks = [(CLUSTER, words_of(job, f"--clocks-per-epoch {count} --consistency essp:{2 * count}"))
             for count in TICKS]
    curves = draw_curves(ticks, options.show)
    plain = curves[0].summary
    unit = plain["network_bytes"] / plain["epochs"]
    rate = plain["network_bytes"] / (2 * WORKERS * plain["virtual_seconds"])  # each way
    found = {("BS", count): result_of(curve, job, unit) for count, curve in zip(TICKS, curves)}
    keys = [(priority, times) for times in BUDGETS
            for priority in (("sweep", "random", "magnitude", "relative") if options.quick
                             else PRIORITIES)]
    runs = [(CLUSTER, words_of(job, "--clocks-per-epoch 1 --consistency "
                                    f"{'asp' if priority == 'sweep' else 'essp:2'} --priority "
                                    f"{priority} --bandwidth {round(times * rate)}B"))
            for priority, times in keys]
    for key, curve in zip(keys, draw_curves(runs, options.show)):
        found[key] = result_of(curve, job, unit)
    return found


def name_of(key):
    return (f"BS-{key[1]}" if key[0] == "BS" else f"sweep x{key[1]}" if key[0] == "sweep"
            else f"MC x{key[1]} {key[0]}")


def sweeps_of(result):
    """How often all rows were sent early in a pass."""
    summary = result.curve.summary
    rows = sum(count for _, count in summary["row_sends"])
    return summary["early_sent"] / rows / summary["epochs"]


def gini(pairs):
    """Of how often rows travel: 0 if all do equally often, 1 if one row does alone."""
    rows = sum(count for _, count in pairs)
    total = sum(times * count for times, count in pairs)
    before = area = 0.0
    for times, count in sorted(pairs):
        area += count * (before + times * count / 2)
        before += times * count
    return 1 - 2 * area / (rows * total)


def show(found, job):
    print(f"{job.name}: to {job.target}; traffic per pass as a multiple of BS-1's")
    rows = []
    for key, result in found.items():
        summary = result.curve.summary
        travels = [gini(pairs) if any(times for times, _ in pairs) else ""  # none may go early
                   for pairs in (summary.get("row_sends", []), summary.get("row_receipts", []))]
        rows.append([name_of(key), result.passes, result.seconds, result.traffic, *travels])
    print_table(["", "passes", "seconds", "traffic", "Gini, sent", "received"], rows)


def check(claims, found, job):
    plain = found["BS", 1].passes
    best = {times: found[job.best, times].passes for times in BUDGETS}
    limit = 0.5 if job.step > 0 else 0.65  # topics
    claims(f"{job.name}: managed communication at 6 and 23 times the traffic of bounded staleness "
           f"needs at most {limit:.0%} of its passes", max(best[6], best[23]) <= plain * limit,
           f"{plain:.1f}; x6 {best[6]:.2f}, x23 {best[23]:.2f}, x1 {best[1]:.2f}")
    claims(f"{job.name}: the second step in bandwidth saves less than the first",
           plain - best[6] > best[6] - best[23],
           f"{plain - best[6]:.1f} passes, then {best[6] - best[23]:.1f}")
    ratios = {times: best[times] / found["random", times].passes for times in BUDGETS}
    claims(f"{job.name}: {job.best} needs at most {job.gain:.0%} of random's passes at "
           f"{' and '.join(map(str, job.gained))} times",
           max(ratios[times] for times in job.gained) <= job.gain,
           ", ".join(f"x{times} {ratio:.0%}" for times, ratio in ratios.items()))
    clocks, managed = found["BS", 8], found[job.timed or job.best, 6]
    claims(f"{job.name}: managed at 6 times, by {job.timed or job.best}, beats 8 clocks per pass "
           "in time, with less traffic",
           managed.seconds < clocks.seconds and managed.traffic < clocks.traffic,
           f"{managed.seconds:.1f} s and {managed.passes:.2f} passes at {managed.traffic:.2f}, "
           f"{clocks.seconds:.1f} s and {clocks.passes:.2f} passes at {clocks.traffic:.2f}")
    if job.step == 0:
        return  # frequent words change all the time, and all priorities send them
    spread = {priority: gini(found[priority, 2].curve.summary["row_sends"])
              for priority in ("random", "relative")}
    claims(f"{job.name}: relative magnitude sends some rows far more often than others, random "
           "less so", spread["relative"] > 1.3 * spread["random"],
           f"Gini coefficients {spread['relative']:.2f} and {spread['random']:.2f}")
    sweeps = {times: sweeps_of(found["sweep", times]) for times in BUDGETS}
    claims(f"{job.name}: managed communication needs fewer passes than the sweep at x6",
           best[6] < found["sweep", 6].passes,
           ", ".join(f"x{times} {best[times]:.2f} and {found['sweep', times].passes:.2f} at "
                     f"{sweeps[times]:.1f} sweeps per pass" for times in BUDGETS))


def cdf_of(pairs):
    rows = sum(count for _, count in pairs)
    points, below = [(max(min(pairs)[0], 0.5), 0.0)], 0
    for times, count in sorted(pairs):
        below += count
        points.append((max(times, 0.5), below / rows))
    return points


def draw_passes(all_found, name):
    data = {}
    for job, found in all_found.items():
        def passes(mode, counts, found=found):
            return [(found[mode, count].traffic, found[mode, count].passes) for count in counts]

        priorities = [priority for priority in PRIORITIES if (priority, 6) in found]
        data[f"{job.name}: passes"] = {
            "BS, 1 to 8 clocks": passes("BS", TICKS),
            **{priority if priority == "sweep" else f"MC, {priority}": passes(priority, BUDGETS)
               for priority in priorities}}
        shown = [(job.best if mode == "best" else mode, times) for mode, times in SHOWN]
        data[f"{job.name}: progress"] = {
            name_of(key): [point[1:] for point in found[key].curve.points if point[1] <= 20]
            for key in shown}
    pictures.write(name, data)


def draw_rows(all_found):
    pictures.write("managed-rows", {
        f"{job.name}: {title}": {priority: cdf_of(found[priority, 2].curve.summary[field])
                                 for priority in PRIORITIES if (priority, 2) in found}
        for job, found in all_found.items()
        for field, title in (("row_sends", "updates sent early"),
                             ("row_receipts", "rows received"))})


def main():
    options = parse(__doc__)
    claims = Claims()
    all_found = {}
    for job in jobs_of(options):
        found = all_found[job] = measure(options, job)
        show(found, job)
        check(claims, found, job)
    write_table("managed.csv", ["data", "mode", "passes", "seconds", "traffic"],
                [[job.name, name_of(key), result.passes, result.seconds, result.traffic]
                 for job, found in all_found.items() for key, result in found.items()])
    of_kind = {kind: {job: found for job, found in all_found.items() if job.words.startswith(kind)}
               for kind in ("mf", "linear")}
    draw_passes(of_kind["mf"], "managed-passes")
    draw_passes(of_kind["linear"], "managed-classes-passes")
    draw_rows(of_kind["mf"])
    return claims.finish("managed")


sys.exit(main())
