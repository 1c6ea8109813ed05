#!/usr/bin/python3
"""bench/experiments/racks.py [--quick] [--show] - budgets of links where racks are oversubscribed.

Matrix factorisation with AdaRevision as in managed.py, on 8 workers and 8 servers in two racks
whose links carry a quarter of what their nodes can send (G23). Links are slow, so that early rows
compete with each other: a node's have 24 times the traffic of bounded staleness. A flat budget
knows only the node; budgets of links also bound what goes to the other rack. The control treats
the two ways apart, but its bound on the second one is no limit: what it gains comes from having a
queue, a window and a read for each way, and not from the bound. docs/experiments/managed.md says
what the figures mean.
"""

import sys

import charts
from common import OUT, SHARED, Claims, draw_curves, generate, parse, print_table, write_table

NODES = 16
LINK = 24  # times the traffic of bounded staleness
CLUSTER = "--workers 8 --servers 8 --stragglers 100%x10000"
BUDGETS = (4, 6, 8, 12, 18, 24)
SHARES = (0.25, 0.5, 0.75)  # of a rack's link
PASSES = 60
COLOURS = {"flat": "#7b8794", "control": "#d9822b", 0.25: "#2a78b5", 0.5: "#8e5ea2",
           0.75: "#c0392b"}


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
    """Results by (mode, budget), where the mode is "flat", "control" or a share of the link."""
    _, words, step, target = job
    train = (f"{words} --rule adarev:lr={step} --epochs {PASSES} --target {target} "
             "--clocks-per-epoch 1 --consistency essp:2")
    plain = draw_curves([(f"{CLUSTER} --bandwidth 1Gbit", train)], options.show)[0].summary
    unit = plain["network_bytes"] / (NODES * plain["virtual_seconds"])
    link = round(LINK * unit)
    racks = f"{CLUSTER} --racks 2 --oversubscription 4 --bandwidth {link}B"
    keys = [(mode, times) for mode in ("flat", "control", *SHARES)
            for times in ((6, 8) if options.quick else BUDGETS)]
    runs = []
    for mode, times in keys:
        budget = round(times * unit)
        rack = {"flat": 0, "control": NODES // 2 * budget}.get(mode) if isinstance(mode, str) \
            else round(mode * link * NODES / 2 / 4)
        runs.append((racks + (f" --rack-budget {rack}B" if rack else ""),
                     f"{train} --bandwidth {budget}B"))
    runs.append((racks, train))
    curves = draw_curves(runs, options.show)
    found = {key: Result(curve, target) for key, curve in zip(keys, curves)}
    return found, Result(curves[-1], target), link * NODES / 2 / 4


def name_of(mode):
    return mode if isinstance(mode, str) else f"{mode:.0%} of the link"


def show(name, found, plain, capacity):
    print(f"{name}: a rack's link carries {capacity / 1e3:.0f} kB/s each way; kB/s of a node, and "
          "from rack to rack")
    rows = [["no early rows", "", plain.seconds, plain.passes, plain.sent / 1e3,
             plain.crossed / 1e3, plain.pauses]]
    rows += [[name_of(mode), f"x{times}", result.seconds, result.passes, result.sent / 1e3,
              result.crossed / 1e3, result.pauses] for (mode, times), result in found.items()]
    print_table(["", "budget", "seconds", "passes", "node", "crossing", "pauses"], rows)


def best_of(found, is_one):
    return min((result.seconds, key) for key, result in found.items() if is_one(key[0]))


def check(claims, name, found):
    flat, flat_key = best_of(found, lambda mode: mode == "flat")
    linked, key = best_of(found, lambda mode: not isinstance(mode, str))
    control, control_key = best_of(found, lambda mode: mode == "control")
    claims(f"{name}: budgets of links reach the target in at most 95% of the best flat one's time",
           linked <= 0.95 * flat,
           f"{linked:.2f} s ({name_of(key[0])}, x{key[1]}), flat {flat:.2f} s (x{flat_key[1]})")
    frugal = min((result.crossed, result.seconds, key) for key, result in found.items()
                 if not isinstance(key[0], str) and result.seconds <= flat)
    claims(f"{name}: they are as quick with at most 75% of what it sends from rack to rack",
           frugal[0] <= 0.75 * found[flat_key].crossed,
           f"{frugal[0] / 1e3:.0f} kB/s in {frugal[1]:.2f} s ({name_of(frugal[2][0])}, "
           f"x{frugal[2][1]}), flat {found[flat_key].crossed / 1e3:.0f} kB/s")
    near = min((result.crossed, key) for key, result in found.items()
               if not isinstance(key[0], str) and result.seconds <= 1.1 * control)
    claims(f"{name}: within 10% of the control's best time they need at most 75% of its crossing "
           "traffic", near[0] <= 0.75 * found[control_key].crossed,
           f"control {control:.2f} s (x{control_key[1]}) and "
           f"{found[control_key].crossed / 1e3:.0f} kB/s; {found[near[1]].seconds:.2f} s and "
           f"{near[0] / 1e3:.0f} kB/s ({name_of(near[1][0])}, x{near[1][1]})")
    if ("flat", 18) in found:
        claims(f"{name}: a flat budget that overloads the racks' links takes at least a fifth "
               "longer than the best one", found["flat", 18].seconds >= 1.2 * flat,
               f"x18 {found['flat', 18].seconds:.2f} s, x{flat_key[1]} {flat:.2f} s")


def draw(all_found):
    rows = []
    for name, found in all_found.items():
        modes = list(dict.fromkeys(mode for mode, _ in found))
        panels = []
        for title, label, x in (("by budget", "budget of a node, BS = 1 (log)",
                                 lambda key, result: key[1]),
                                ("by what crosses", "kB/s from rack to rack (log)",
                                 lambda key, result: result.crossed / 1e3)):
            curves = [charts.Curve(name_of(mode), COLOURS[mode],
                                   sorted((x(key, result), result.seconds)
                                          for key, result in found.items() if key[0] == mode))
                      for mode in modes]
            most = max(result.seconds for result in found.values() if result.seconds < 1e9)
            panels.append(charts.Curves(f"{name}: {title}", label, "seconds to the target", curves,
                                        most * 1.05, True))
        rows.append(panels)
    charts.write(OUT / "racks.svg", "Two racks, 4:1: flat budgets and budgets of links", rows)


def main():
    options = parse(__doc__)
    claims = Claims()
    all_found = {}
    table = []
    for job in jobs_of(options):
        found, plain, capacity = measure(options, job)
        all_found[job[0]] = found
        show(job[0], found, plain, capacity)
        check(claims, job[0], found)
        table += [[job[0], name_of(mode), times, result.seconds, result.passes, result.crossed]
                  for (mode, times), result in found.items()]
    write_table("racks.csv", ["data", "mode", "budget", "seconds", "passes", "crossing"], table)
    draw(all_found)
    return claims.finish("racks")


sys.exit(main())
