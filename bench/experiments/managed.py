#!/usr/bin/python3
"""bench/experiments/managed.py [--quick] [--show] - rows that travel before the clock ends.

Repeats figures 4, 6c, 6d and 7 of "Managed Communication and Consistency for Fast Data-Parallel
Iterative Analytics" (000) for matrix factorisation with AdaRevision, and figure 5 for topics of
documents, on 8 simulated workers: passes to a target with bounded staleness (BS), with managed
communication (MC) at several budgets and priorities, and with smaller clock ticks instead; and how
often each row travels early.
The asynchronous sweep of Yahoo!LDA is there to compare with: all rows round and round, changed or
not, and no bound. docs/experiments/managed.md says what the figures mean.
"""

import sys
from dataclasses import dataclass

import charts
from common import OUT, SHARED, Claims, draw_curves, generate, parse, print_table, write_table

WORKERS = 8
# All compute 10,000 times slower than a core, so that a pass lasts seconds, as in the paper.
CLUSTER = f"--workers {WORKERS} --servers 8 --stragglers 100%x10000 --bandwidth 1Gbit"
TICKS = (1, 2, 4, 8)
BUDGETS = (1, 2, 6, 23)  # times the traffic of bounded staleness; the paper: 33, 200 and 770 Mbps
PRIORITIES = ("sweep", "oldest", "walk", "random", "magnitude", "relative")
COLOURS = {"BS": "#7b8794", "oldest": "#2a78b5", "walk": "#1b9e77", "random": "#d9822b",
           "magnitude": "#8e5ea2", "relative": "#c0392b", "sweep": "#5a4b2f"}
SHOWN = {("BS", 1): "#1f2933", ("BS", 8): "#12a5b8", ("relative", 2): "#e58fb4",
         ("relative", 6): "#9aa51c", ("relative", 23): "#4b3fb5"}  # none of the colours above
PASSES = 60


@dataclass(frozen=True)
class Job:
    """What is trained, and an objective that bounded staleness reaches in 25 to 40 passes."""
    name: str
    words: str  # of the command line
    target: float
    gain: float  # what relative magnitude leaves of random's passes
    rest: float = 0.5  # what managed communication leaves of bounded staleness's
    is_mf: bool = True


def mf(data, step):
    return f"mf {data} --rank 8 --rule adarev:lr={step}"


@dataclass
class Result:
    """One run: passes and virtual seconds to the target; traffic per pass, of BS-1's."""
    passes: float
    seconds: float
    traffic: float
    curve: object


def jobs_of(options):
    data = generate("managed-ratings.data", "ratings --users 1600 --items 400 --ratings 80000")
    jobs = [Job("generated", mf(f"--data {data}", 0.2), 0.15, 0.82)]
    lens = SHARED / "ml-100k/u1.base.zst"
    if lens.exists() and not options.quick:
        jobs.append(Job("MovieLens", mf(f"--data {lens} --format ratings", 0.1), 0.84, 0.95))
    bag = generate("managed-documents.data",
                   "documents --docs 2000 --vocab 2000 --tokens 200k --topics 50")
    jobs.append(Job("topics", f"lda --data {bag} --topics 50", 7.95, 1.05, 0.6, False))
    kos = SHARED / "kos/docword.kos.txt.zst"
    if kos.exists() and not options.quick:
        jobs.append(Job("kos", f"lda --data {kos} --topics 100", 9.22, 1.05, 0.65, False))
    return jobs


def words_of(job, extra):
    return f"{job.words} --epochs {PASSES} --target {job.target} {extra}"


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
            for priority in (("sweep", "random", "relative") if options.quick else PRIORITIES)]
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
        travels = ["", ""] if key[0] == "BS" else [gini(summary[name])
                                                   for name in ("row_sends", "row_receipts")]
        rows.append([name_of(key), result.passes, result.seconds, result.traffic, *travels])
    print_table(["", "passes", "seconds", "traffic", "Gini, sent", "received"], rows)


def check(claims, found, job):
    plain = found["BS", 1].passes
    best = {times: found["relative", times].passes for times in BUDGETS}
    claims(f"{job.name}: managed communication at 6 and 23 times the traffic of bounded staleness "
           f"needs at most {job.rest:.0%} of its passes",
           max(best[6], best[23]) <= plain * job.rest,
           f"{plain:.1f}; x6 {best[6]:.2f}, x23 {best[23]:.2f}, x1 {best[1]:.2f}")
    claims(f"{job.name}: the second step in bandwidth saves less than the first",
           plain - best[6] > best[6] - best[23],
           f"{plain - best[6]:.1f} passes, then {best[6] - best[23]:.1f}")
    ratios = {times: best[times] / found["random", times].passes for times in BUDGETS}
    claims(f"{job.name}: relative magnitude needs at most {job.gain:.0%} of random's passes at 2 "
           "and 6 times", max(ratios[2], ratios[6]) <= job.gain,
           ", ".join(f"x{times} {ratio:.0%}" for times, ratio in ratios.items()))
    clocks, managed = found["BS", 8], found["relative", 6]
    limit = clocks.passes * (1 if job.is_mf else 1.05)
    claims(f"{job.name}: managed at 6 times beats 8 clocks per pass with less traffic"
           + ("" if job.is_mf else ", or needs no more than 5% more passes and less time"),
           managed.passes < limit and managed.traffic < clocks.traffic
           and managed.seconds < clocks.seconds,
           f"{managed.passes:.2f} passes at {managed.traffic:.2f}, {clocks.passes:.2f} at "
           f"{clocks.traffic:.2f}")
    if not job.is_mf:
        return  # frequent words change all the time, and all priorities send them
    spread = {priority: gini(found[priority, 2].curve.summary["row_sends"])
              for priority in ("random", "relative")}
    claims(f"{job.name}: relative magnitude sends some rows far more often than others, random "
           "less so", spread["relative"] > 1.3 * spread["random"],
           f"Gini coefficients {spread['relative']:.2f} and {spread['random']:.2f}")
    sweeps = {times: sweeps_of(found["sweep", times]) for times in BUDGETS}
    claims(f"{job.name}: managed communication needs fewer passes than the sweep at every budget",
           all(best[times] < found["sweep", times].passes for times in BUDGETS),
           ", ".join(f"x{times} {best[times]:.2f} and {found['sweep', times].passes:.2f} at "
                     f"{sweeps[times]:.1f} sweeps per pass" for times in BUDGETS))


def cdf_of(pairs):
    rows = sum(count for _, count in pairs)
    points, below = [(max(min(pairs)[0], 0.5), 0.0)], 0
    for times, count in sorted(pairs):
        below += count
        points.append((max(times, 0.5), below / rows))
    return points


def draw(all_found):
    rows = []
    for job, found in all_found.items():
        priorities = [name for name in PRIORITIES if (name, 6) in found]
        curves = [charts.Curve("BS, 1 to 8 clocks", COLOURS["BS"],
                               [(found["BS", count].traffic, found["BS", count].passes)
                                for count in TICKS])]
        curves += [charts.Curve(name if name == "sweep" else f"MC, {name}", COLOURS[name],
                                [(found[name, times].traffic, found[name, times].passes)
                                 for times in BUDGETS]) for name in priorities]
        passes = charts.Curves(f"{job.name}: passes", "traffic per pass, BS = 1 (log)",
                               "passes to the target", curves, found["BS", 1].passes * 1.05, True)
        progress = charts.Curves(
            f"{job.name}: progress", "passes", "objective",
            [charts.Curve(name_of(key), colour, [point[1:] for point in found[key].curve.points
                                                 if point[1] <= 20])
             for key, colour in SHOWN.items()], found["BS", 1].curve.points[0][2] * 1.1)
        rows.append([passes, progress])
    charts.write(OUT / "managed-passes.svg",
                 "8 workers: smaller clocks (BS) and early rows (MC)", rows)
    rows = []
    for job, found in all_found.items():
        row = []
        for name, title in (("row_sends", "updates sent early"), ("row_receipts", "rows received")):
            curves = [charts.Curve(priority, COLOURS[priority],
                                   cdf_of(found[priority, 2].curve.summary[name]))
                      for priority in PRIORITIES if (priority, 2) in found]
            row.append(charts.Curves(f"{job.name}: {title}", "times (log)", "part of the rows",
                                     curves, 1.0, True))
        rows.append(row)
    charts.write(OUT / "managed-rows.svg", "How often rows travel early, at twice the traffic of "
                 "bounded staleness", rows)


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
    draw(all_found)
    return claims.finish("managed")


sys.exit(main())
