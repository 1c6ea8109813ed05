#!/usr/bin/python3
"""bench/experiments/hetero.py [options] - clusters whose machines differ: which rule is best?

Table 3 of "Heterogeneity-aware Distributed Parameter Servers": logistic regression and SVM, 30
workers and 10 servers, all equally fast or 20% of them twice as slow; each cell with the step size
that suits it best. docs/experiments/heterogeneity.md says what was found.
"""

import math
import sys
from dataclasses import replace

import pictures
from common import Claims, parse, print_table, write_table
from hetero_runs import (CLICKS, CONSGD, DYNSGD, EVEN, SSPSGD, UNEVEN, Problem, find_target,
                         in_parallel, search, with_bound)

PROBLEMS = (Problem("LR, clicks", "logistic", CLICKS, 60000, 1, 1.0),
            Problem("SVM, clicks", "hinge", CLICKS, 60000, 1, 1.0),
            Problem("LR, imdb", "logistic", "", 25000, 1, 1.0, 1.2),
            Problem("SVM, imdb", "hinge", "", 25000, 1, 1.0, 1.2))
METHODS = {"BSP": replace(SSPSGD, consistency="bsp"),
           "BSP mean": replace(CONSGD, name="BSP mean", consistency="bsp"),
           "ASP": replace(SSPSGD, consistency="asp"),
           **{f"{method.name} {bound}": with_bound(method, bound)
              for bound in (3, 10) for method in (SSPSGD, CONSGD, DYNSGD)}}
QUICK = ("BSP mean", "SSPSGD 10", "ConSGD 10", "DynSGD 10")
CLUSTERS = {1: EVEN, 2: UNEVEN}  # by heterogeneity level



def measure(options, problems, names):
    """Curves by problem, heterogeneity level and method."""
    targets = dict(zip(problems, in_parallel(find_target, [(options, p) for p in problems])))

    def chain(problem, name):
        method, found = METHODS[name], []
        for cluster in CLUSTERS.values():
            found.append(search(options, problem, cluster, method, targets[problem]))
            if math.isfinite(found[-1].seconds()):
                method = replace(method, step=found[-1].step / problem.step)
        return found

    tasks = [(problem, name) for problem in problems for name in names]
    curves = {}
    for (problem, name), found in zip(tasks, in_parallel(chain, tasks)):
        curves.update({(problem, level, name): curve for level, curve in zip(CLUSTERS, found)})
    return targets, curves


def show(targets, curves, names):
    for problem, target in targets.items():
        print(f"{problem.name}: to objective {target:.4f}; levels 1 / 2")
        rows = []
        for name in names:
            pair = [curves[problem, level, name] for level in CLUSTERS]
            rows.append([name, *(f"{1e3 * c.seconds():.2f}" for c in pair),
                         *(f"{c.updates():.0f}" for c in pair),
                         *(f"{1e6 * c.seconds() / c.updates():.1f}" if math.isfinite(c.seconds())
                           else "-" for c in pair), *(f"{c.step:.4g}" for c in pair)])
        print_table(["", "ms", "ms", "updates", "updates", "us each", "us each", "step", "step"],
                    rows)
    write_table("hetero-table3.csv", ["problem", "level", "method", "seconds", "updates", "step"],
                [[problem.name, level, name, c.seconds(), c.updates(), c.step]
                 for (problem, level, name), c in curves.items()])


def check(claims, curves, problem):
    def of(name, level=2):
        return curves[problem, level, name]

    for bound, least in ((10, (2.0, 2.5)), (3, (1.3, 1.5))):
        if f"SSPSGD {bound}" not in {name for _, _, name in curves}:
            continue
        plain, con, dyn = (of(f"{name} {bound}") for name in ("SSPSGD", "ConSGD", "DynSGD"))
        for name, curve, gain in (("ConSGD", con, least[0]), ("DynSGD", dyn, least[1])):
            ratio = plain.seconds() / curve.seconds()
            claims(f"{problem.name}, 20% twice as slow, s = {bound}: {name} is {gain} times as "
                   "fast as SSPSGD", ratio >= gain,
                   f"{1e3 * curve.seconds():.2f} ms against {1e3 * plain.seconds():.2f} ms: "
                   f"{ratio:.1f} times")
    con, dyn, even = of("ConSGD 10"), of("DynSGD 10"), of("DynSGD 10", 1)
    claims(f"{problem.name}, 20% twice as slow, s = 10: DynSGD needs no more updates than ConSGD "
           "(to 2%)", dyn.updates() <= 1.02 * con.updates(),
           f"{dyn.updates():.0f} against {con.updates():.0f}")
    growth = dyn.seconds() / even.seconds()
    claims(f"{problem.name}, s = 10: DynSGD takes at most 35% longer when 20% are twice as slow",
           growth <= 1.35, f"{100 * (growth - 1):.0f}%")
    bsp = [of("BSP mean", level) for level in CLUSTERS]
    growth, whole = (b / a for a, b in ((bsp[0].clock_seconds(), bsp[1].clock_seconds()),
                                        (bsp[0].seconds(), bsp[1].seconds())))
    claims(f"{problem.name}: a clock of BSP takes 1.25 to 2 times as long when 20% are twice as "
           "slow", 1.25 <= growth <= 2, f"{growth:.2f}; the time to the target {whole:.2f}")


def lowest_so_far(events):
    """When an objective was the lowest so far, in milliseconds, and what it was."""
    points = []
    for event in events:
        if event.seconds > 0 and (not points or event.objective < points[-1][1]):
            points.append((1e3 * event.seconds, event.objective))
    return points


def draw(targets, curves, names):
    data = {}
    for problem, target in targets.items():
        for level in CLUSTERS:
            slow = "all alike" if level == 1 else "20% twice as slow"
            data[f"{problem.name}: {slow}"] = {
                "target": [(0, target)],
                **{name: lowest_so_far(curves[problem, level, name].events) for name in names}}
    pictures.write("hetero-table3", data)


def main():
    options = parse(__doc__)
    claims = Claims()
    problems = [problem for problem in PROBLEMS if problem.is_there()]
    if len(problems) < len(PROBLEMS):
        print("the imdb reviews are not there (../shared/data): only generated clicks")
    problems = problems[:1] if options.quick else problems
    names = QUICK if options.quick else tuple(METHODS)
    targets, curves = measure(options, problems, names)
    show(targets, curves, names)
    for problem in problems:
        check(claims, curves, problem)
    draw(targets, curves, names)
    return claims.finish("hetero")


sys.exit(main())
