#!/usr/bin/python3
"""bench/experiments/racks.py [--quick] [--show] - a node's budget where racks are oversubscribed.

Matrix factorisation with AdaRevision as in managed.py, on 8 workers and 8 servers in two racks
whose links carry a quarter of what their nodes can send. Links are slow, so that early rows compete
with each other: a node's have 24 times the traffic of bounded staleness. The budget knows only the
node, so one that is too large fills the racks' links. docs/experiments/managed.md says what the
figures mean.
"""

import sys

from common import SHARED, Claims, draw_curves, generate, parse, print_table, write_table

NODES = 16
LINK = 24  # times the traffic of bounded staleness
CLUSTER = "--workers 8 --servers 8 --stragglers 100%x10000"
BUDGETS = (4, 6, 8, 12, 18, 24)
TOO_LARGE = 18
PASSES = 60


def jobs_of(options):
    """Name, words, step and target, as in managed.py."""
    ratings = generate("managed-ratings.data", "ratings --users 1600 --items 400 --ratings 80000")
    jobs = [("generated", f"mf --rank 8 --data {ratings}", 0.2, 0.15)]
    lens = SHARED / "ml-100k/u1.base.zst"
    if lens.exists() and not options.quick:
        jobs.append(("MovieLens", f"mf --rank 8 --data {lens} --format ratings", 0.1, 0.84))
    return jobs


def between(curve, target):
    """Seconds and passes to the target, on a straight line between evaluations."""
    before = (0.0, 0.0, None)
    for point in curve.points:
        if point[2] <= target:
            part = 1 if before[2] is None else (before[2] - target) / (before[2] - point[2])
            return tuple(before[i] + part * (point[i] - before[i]) for i in (0, 1))
        before = point
    return float("inf"), float("inf")


class Result:
    """One run: virtual seconds and passes to the target; what crossed between racks."""

    def __init__(self, curve, target):
        self.seconds, self.passes = between(curve, target)
        summary = curve.summary
        self.crossed = summary["rack_bytes"] / 2 / summary["virtual_seconds"]
        self.sent = summary["network_bytes"] / NODES / summary["virtual_seconds"]
        self.pauses = summary["early_pauses"]


def measure(options, job):
    """Results by budget, 0 for none, and what a rack's link carries."""
    _, words, step, target = job
    train = (f"{words} --rule adarev:lr={step} --epochs {PASSES} --target {target} "
             "--clocks-per-epoch 1 --consistency essp:2")
    plain = draw_curves([(f"{CLUSTER} --bandwidth 1Gbit", train)], options.show)[0].summary
    unit = plain["network_bytes"] / (NODES * plain["virtual_seconds"])
    link = round(LINK * unit)
    racks = f"{CLUSTER} --racks 2 --oversubscription 4 --bandwidth {link}B"
    budgets = (0, *((6, TOO_LARGE) if options.quick else BUDGETS))
    curves = draw_curves([(racks, train + (f" --bandwidth {round(times * unit)}B" if times else ""))
                          for times in budgets], options.show)
    found = {times: Result(curve, target) for times, curve in zip(budgets, curves)}
    return found, link * NODES / 2 / 4


def show(name, found, capacity):
    print(f"{name}: a rack's link carries {capacity / 1e3:.0f} kB/s each way; kB/s of a node, and "
          "from rack to rack")
    print_table(["budget", "seconds", "passes", "node", "crossing", "pauses"],
                [[f"x{times}" if times else "no early rows", result.seconds, result.passes,
                  result.sent / 1e3, result.crossed / 1e3, result.pauses]
                 for times, result in found.items()])


def check(claims, name, found):
    best, times = min((result.seconds, times) for times, result in found.items())
    large = found[TOO_LARGE].seconds
    claims(f"{name}: a budget that overloads the racks' links takes at least a fifth longer than "
           "the best one", large >= 1.2 * best,
           f"x{TOO_LARGE} {large:.2f} s, x{times} {best:.2f} s")


def main():
    options = parse(__doc__)
    claims = Claims()
    table = []
    for job in jobs_of(options):
        found, capacity = measure(options, job)
        show(job[0], found, capacity)
        check(claims, job[0], found)
        table += [[job[0], times, result.seconds, result.passes, result.crossed]
                  for times, result in found.items()]
    write_table("racks.csv", ["data", "budget", "seconds", "passes", "crossing"], table)
    return claims.finish("racks")


sys.exit(main())
