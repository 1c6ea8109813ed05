#!/usr/bin/python3
"""bench/experiments/ssp.py [options] - the SSP paper's experiments on simulated clusters.

Section 5 of "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server":
objective against time, computing against waiting, how many clocks and how good they are; and
stragglers. docs/experiments.md shows the pictures and says what was found.

A point of a curve is a run of its own that ends after so many passes: its objective is exact, of
the model that all workers have made, and its time is when the last update had arrived. Figures per
clock are differences of two such runs, so that loading and starting up are not in them.
"""

import sys
from dataclasses import dataclass, replace

import pictures
from common import Claims, Simulator, generate, parse, print_table, prior, write_table

WORKERS = (8, 16, 32)
CONSISTENCIES = ("bsp", "ssp:1", "ssp:3", "ssp:7", "ssp:15", "ssp:31", "essp:7", "asp")
BOUNDS = {"bsp": 0, "ssp:1": 1, "ssp:3": 3, "ssp:7": 7, "ssp:15": 15, "ssp:31": 31}
CLOCKS = 16  # per pass
PASSES = (1, 2, 3, 4, 6, 8)
STEADY = (3, 8)  # passes between which figures per clock are taken
TARGET = 4  # the objective that BSP has after so many passes is what all should reach

NAMES = {"bsp": "BSP", "asp": "asynchronous", "essp:7": "eager, s = 7",
         **{f"ssp:{bound}": f"SSP, s = {bound}" for bound in (1, 3, 7, 15, 31)}}


@dataclass(frozen=True)
class Job:
    """An algorithm with its data. Workers compute `slower` times slower than one of our cores:
    they stand for jobs with more to compute per byte, which would take longer to run."""
    name: str
    data: str
    slower: int
    options: str
    balance: float  # waiting to computing at the best bound of 32 workers, at most

    def file(self):
        return generate(f"ssp-{self.name}.data", self.data)

    def run(self, simulate, workers, consistency, passes):
        return simulate(f"--workers {workers} --servers {workers} --bandwidth 1Gbit "
                        f"--stragglers 100%x{self.slower}",
                        f"{self.name} --data {self.file()} {self.options} --clocks-per-epoch "
                        f"{CLOCKS} --epochs {passes} --consistency {consistency}")


JOBS = (Job("linear", "sparse --examples 24000 --features 3000 --nonzeros 20", 6,
            f"{prior(24000)} --combine mean", 1.0),
        Job("mf", "ratings --users 1600 --items 200 --ratings 80000 --rank 8", 16,
            "--rank 8 --lr 0.08", 1.5))


@dataclass(frozen=True)
class Point:
    passes: int
    clocks: int
    seconds: float
    objective: float


class Line:
    """One job on one cluster under one consistency: its curve, and its figures per clock."""

    def __init__(self, simulate, job, workers, consistency):
        self.job, self.workers, self.consistency = job, workers, consistency
        runs = {passes: job.run(simulate, workers, consistency, passes) for passes in PASSES}
        self.points = [Point(passes, passes * CLOCKS, run["virtual_seconds"], run["objective"])
                       for passes, run in runs.items() if run is not None]
        steady = [runs[passes] for passes in STEADY]
        self.clock = None if None in steady else per_clock(*steady, workers)
        self.has_diverged = None in runs.values()

    def time_to(self, target, of=lambda point: point.seconds):
        """When the curve first reaches the target, between points on a straight line."""
        before = None
        for point in self.points:
            if point.objective <= target:
                if before is None:
                    return of(point)
                part = (before.objective - target) / (before.objective - point.objective)
                return of(before) + part * (of(point) - of(before))
            before = point
        return float("inf")

    def clocks_to(self, target):
        return self.time_to(target, lambda point: point.clocks)


@dataclass(frozen=True)
class Clock:
    """Microseconds of a clock, per worker; and what it sends and receives, in bytes."""
    time: float
    computing: float
    on_the_way: float
    waiting: float
    network: float

    def ratio(self):
        return (self.on_the_way + self.waiting) / self.computing


def per_clock(short, long, workers):
    """From the difference of two runs."""
    count = long["clocks"] - short["clocks"]

    def mean(name):
        return (long[name] - short[name]) / (count * workers)

    return Clock(1e6 * workers * mean("virtual_seconds"), 1e6 * mean("compute_seconds"),
                 1e6 * mean("transmit_seconds"), max(0.0, 1e6 * mean("wait_seconds")),
                 mean("network_bytes"))


def measure(simulate, jobs, workers, consistencies):
    """All lines, by job, workers and consistency."""
    lines = {}
    for job in jobs:
        for count in workers:
            for consistency in consistencies:
                lines[job, count, consistency] = Line(simulate, job, count, consistency)
            show(job, count, [lines[job, count, consistency] for consistency in consistencies])
    write_table("ssp-points.csv", ["algorithm", "workers", "consistency", "passes", "clocks",
                                   "seconds", "objective"],
                [[line.job.name, line.workers, line.consistency, p.passes, p.clocks, p.seconds,
                  p.objective] for line in lines.values() for p in line.points])
    write_table("ssp-clocks.csv", ["algorithm", "workers", "consistency", "us", "us_computing",
                                   "us_on_the_way", "us_waiting", "bytes"],
                [[line.job.name, line.workers, line.consistency, line.clock.time,
                  line.clock.computing, line.clock.on_the_way, line.clock.waiting,
                  line.clock.network] for line in lines.values() if line.clock is not None])
    return lines


def target_of(lines):
    """What BSP has reached after TARGET passes."""
    bsp = next(line for line in lines if line.consistency == "bsp")
    return next(point.objective for point in bsp.points if point.passes == TARGET)


def show(job, workers, lines):
    target = target_of(lines)
    print(f"{job.name}, {workers} workers, target {target:.4f}")
    rows = []
    for line in lines:
        c = line.clock
        figures = ["-"] * 7 if c is None else [c.time, c.computing, c.on_the_way, c.waiting,
                                               c.ratio(), c.network / 1e3, 1e6 / c.time]
        rows.append([line.consistency, *figures, line.clocks_to(target),
                     1e3 * line.time_to(target), "diverges" if line.has_diverged else ""])
    print_table(["", "us per clock", "computing", "on the way", "waiting", "ratio", "KB per clock",
                 "clocks/s", "clocks to target", "ms to target", ""], rows)


def lines_of(lines, job, workers, consistencies=CONSISTENCIES):
    found = (lines.get((job, workers, consistency)) for consistency in consistencies)
    return [line for line in found if line is not None]


def best_of(lines, job, workers):
    """The SSP bound with the shortest time to the target."""
    target = target_of(lines_of(lines, job, workers))
    return min((line for line in lines_of(lines, job, workers) if "ssp:" in line.consistency and
                not line.consistency.startswith("e")), key=lambda line: line.time_to(target))


def check_convergence(claims, lines):
    gains = {}
    for (job, workers) in dict.fromkeys((job, workers) for job, workers, _ in lines):
        target = target_of(lines_of(lines, job, workers))
        best = best_of(lines, job, workers)
        gain = {other: lines[job, workers, other].time_to(target) / best.time_to(target)
                for other in ("bsp", "asp")}
        gains.setdefault(job, []).append(gain["bsp"])
        claims(f"{job.name}, {workers} workers: the best bound is 1.5 times as fast as BSP and "
               "asynchronous", min(gain.values()) >= 1.5,
               f"{best.consistency} takes {1e3 * best.time_to(target):.1f} ms, BSP "
               f"{gain['bsp']:.2f} times as long, asynchronous {gain['asp']:.2f} times")
        eager = lines.get((job, workers, "essp:7"))
        if eager is not None:
            share = eager.time_to(target) / best.time_to(target)
            claims(f"{job.name}, {workers} workers: eager, s = 7, is faster still", share < 1,
                   f"{1e3 * eager.time_to(target):.1f} ms, {100 * (1 - share):.0f}% less; it sends "
                   f"{sent_more(lines, job, workers)}")
    for job, found in gains.items():
        if len(found) > 1:
            claims(f"{job.name}: the gain over BSP grows with the workers", found == sorted(found),
                   ", ".join(f"{gain:.2f}" for gain in found))


def sent_more(lines, job, workers):
    """How much more eager sends than SSP with the same bound, in words."""
    eager, lazy = (lines[job, workers, consistency].clock for consistency in ("essp:7", "ssp:7"))
    if lazy is None:
        return f"{eager.network:.0f} bytes per clock, and ssp:7 diverges"
    return f"{100 * (eager.network / lazy.network - 1):.0f}% more than ssp:7"


def check_breakdown(claims, lines):
    for job in dict.fromkeys(job for job, _, _ in lines):
        bsp, best = lines[job, 32, "bsp"], best_of(lines, job, 32)
        claims(f"{job.name}, 32 workers: BSP waits 3 times as long as it computes or longer",
               bsp.clock.ratio() >= 3, f"{bsp.clock.ratio():.2f} times")
        claims(f"{job.name}, 32 workers: at the best bound at most {job.balance} times as long",
               best.clock.ratio() <= job.balance,
               f"{best.consistency}: {best.clock.ratio():.2f}")
        ratios = [line.clock.ratio() for (of, _, consistency), line in lines.items()
                  if of == job and consistency == "bsp"]
        if len(ratios) > 1:
            claims(f"{job.name}: waiting to computing under BSP grows with the workers",
                   ratios == sorted(ratios), ", ".join(f"{ratio:.2f}" for ratio in ratios))


def check_quantity(claims, lines):
    for job in dict.fromkeys(job for job, _, _ in lines):
        found = lines_of(lines, job, 32, BOUNDS)
        target = target_of(found)
        lasting = [line for line in found if line.clock is not None]  # others diverge
        rates = [1e6 / line.clock.time for line in lasting]
        bounds = [BOUNDS[line.consistency] for line in lasting]
        slopes = [(rates[i + 1] - rates[i]) / (bounds[i + 1] - bounds[i])
                  for i in range(len(rates) - 1)]
        claims(f"{job.name}, 32 workers: clocks per second rise with s, ever more slowly",
               slopes == sorted(slopes, reverse=True) and slopes[-1] > 0,
               ", ".join(f"{rate:.0f}" for rate in rates))
        best = best_of(lines, job, 32)
        claims(f"{job.name}, 32 workers: more clocks are needed at s = 31 than at the best bound",
               found[-1].clocks_to(target) > best.clocks_to(target),
               f"{found[-1].clocks_to(target):.0f} against {best.clocks_to(target):.0f} "
               f"({best.consistency})")
        losses = [line.time_to(target) / best.time_to(target) for line in (found[0], found[-1])]
        claims(f"{job.name}, 32 workers: s = 0 and s = 31 take longer than the best bound",
               min(losses) > 1,
               f"{losses[0]:.2f} and {losses[1]:.2f} times as long as {best.consistency}")


def check_steps(claims, simulate, job):
    """Staleness makes steps longer: bad where they are long, good where they are short."""
    def objectives(step, passes):
        tuned = replace(job, options=f"{job.options} --lr {step}")
        runs = [tuned.run(simulate, 32, consistency, passes) for consistency in ("bsp", "ssp:15")]
        return [float("inf") if run is None else run["objective"] for run in runs]

    short, early, late = objectives("0.5", 4), objectives("2", 1), objectives("2", 4)
    claims(f"{job.name}, 32 workers, --lr 0.5: s = 15 is better than BSP after 4 passes",
           short[1] < short[0], f"{short[1]:.4f} against {short[0]:.4f}")
    claims(f"{job.name}, 32 workers, --lr 2: s = 15 is worse than BSP after 1 pass and after 4",
           early[1] > early[0] and late[1] > late[0],
           ", ".join(f"{stale:.4f} against {bsp:.4f}" for bsp, stale in (early, late)))


def check_limit(claims, simulate, job):
    """Workers as fast as one of our cores: sending takes longer, whatever the bound."""
    quick = replace(job, slower=1)
    found = [Line(simulate, quick, 32, consistency) for consistency in ("bsp", "ssp:7", "ssp:31")]
    show(quick, 32, found)
    clock = found[-1].clock
    sending = 8e-3 * clock.network  # us at 1 Gbit/s
    claims(f"{job.name}, 32 workers at full speed: sending alone takes twice as long as "
           "computing or longer", sending >= 2 * clock.computing,
           f"{sending:.0f} us against {clock.computing:.0f} us at s = 31; BSP waits "
           f"{found[0].clock.ratio():.1f} times as long as it computes, s = 31 "
           f"{clock.ratio():.1f} times")


def curves_of(lines, of):
    return {NAMES[line.consistency]: [of(point) for point in line.points] for line in lines}


def parts_of(names, clocks, unit):
    """Stacked bars: what a clock's time was."""
    return {"computing": [(name, c.computing / unit) for name, c in zip(names, clocks)],
            "on the way": [(name, c.on_the_way / unit) for name, c in zip(names, clocks)],
            "waiting for others": [(name, c.waiting / unit) for name, c in zip(names, clocks)]}


def draw_convergence(lines, job, workers):
    pictures.write(f"ssp-convergence-{job.name}", {
        f"{count} workers": curves_of(lines_of(lines, job, count),
                                      lambda p: (1e3 * p.seconds, p.objective))
        for count in workers})


def short_name(consistency):
    return {"bsp": "BSP", "asp": "async"}.get(consistency,
                                              consistency.replace("essp:", "e").replace("ssp:", ""))


def draw_breakdown(lines, jobs, workers):
    data = {}
    for job in jobs:
        for count in workers:
            found = [line for line in lines_of(lines, job, count) if line.clock is not None]
            data[f"{job.name}, {count} workers"] = parts_of(
                [short_name(line.consistency) for line in found], [line.clock for line in found],
                1.0)
    pictures.write("ssp-breakdown", data)


def draw_quantity(lines, jobs):
    data = {}
    for job in jobs:
        found = lines_of(lines, job, 32, BOUNDS)
        data[f"{job.name}: quantity"] = {"clocks per second": [
            (BOUNDS[line.consistency], 1e6 / line.clock.time) for line in found
            if line.clock is not None]}
        data[f"{job.name}: quality"] = curves_of(found, lambda p: (p.clocks, p.objective))
        data[f"{job.name}: both together"] = curves_of(found,
                                                       lambda p: (1e3 * p.seconds, p.objective))
    pictures.write("ssp-quantity", data)


# Stragglers: a pass per clock of much data for a small model, so that computing dominates.
SLOW_DATA = "sparse --examples 2000000 --features 50 --nonzeros 4 --power 0.5"
SLOW_CLUSTER = "--workers 30 --servers 4 --bandwidth 1Gbit --latency 10us"
SLOW_PASSES = (10, 40)
SMALL_STEPS = "--lr 0.0001"  # only time is measured, and others diverge with a clock per pass
SLOWDOWNS = ("20%x2", "10%x4")
SLOW_CONSISTENCIES = ("bsp", "ssp:1", "ssp:3", "ssp:7", "essp:3")


def slow_clock(simulate, cluster, consistency):
    data = generate("ssp-stragglers.data", SLOW_DATA)
    runs = (simulate(f"{SLOW_CLUSTER} {cluster}",
                     f"linear --data {data} {prior(2000000)} --combine mean {SMALL_STEPS} "
                     f"--epochs {passes} --clocks-per-epoch 1 --consistency {consistency}")
            for passes in SLOW_PASSES)
    return per_clock(*runs, 30)


def check_stragglers(claims, simulate, slowdowns):
    even = slow_clock(simulate, "", "bsp")
    uneven = slow_clock(simulate, "--stragglers 20%x2", "bsp")
    loose = slow_clock(simulate, "--stragglers 20%x2", "ssp:7")
    growth = uneven.time / even.time
    claims("30 workers, 20% of them twice as slow: a clock of BSP takes 1.9 to 2.1 times as long",
           1.9 <= growth <= 2.1,
           f"{even.time:.0f} us, {uneven.time:.0f} us: {growth:.3f} times "
           f"(ssp:7: {loose.time:.0f} us, {loose.time / even.time:.3f} times)")
    found = {}
    for slowdown in slowdowns:
        for consistency in SLOW_CONSISTENCIES:
            found[slowdown, consistency] = slow_clock(simulate, f"--slowdowns {slowdown}",
                                                      consistency)
        bsp = found[slowdown, "bsp"]
        for consistency in ("ssp:3", "ssp:7"):
            clock = found[slowdown, consistency]
            share = (clock.waiting + clock.on_the_way) / (bsp.waiting + bsp.on_the_way)
            claims(f"30 workers, {slowdown} at random: {consistency} waits a third as long as BSP "
                   "or less", share <= 1 / 3,
                   f"{clock.waiting + clock.on_the_way:.0f} us of "
                   f"{bsp.waiting + bsp.on_the_way:.0f} us a clock: {100 * share:.1f}%")
    rows = [["", "bsp", even], ["stragglers 20%x2", "bsp", uneven],
            ["stragglers 20%x2", "ssp:7", loose],
            *([f"slowdowns {slowdown}", consistency, clock]
              for (slowdown, consistency), clock in found.items())]
    write_table("ssp-stragglers.csv", ["cluster", "consistency", "us", "us_computing",
                                       "us_on_the_way", "us_waiting"],
                [[name, consistency, c.time, c.computing, c.on_the_way, c.waiting]
                 for name, consistency, c in rows])
    draw_stragglers([even, uneven, loose], found, slowdowns)


def draw_stragglers(lasting, found, slowdowns):
    def bars(names, clocks):
        return {**parts_of(names, clocks, 1e3),
                "a clock": [(name, c.time / 1e3) for name, c in zip(names, clocks)]}

    data = {"20% twice as slow all the time": bars(["none slow", "BSP", "7"], lasting)}
    for slowdown in slowdowns:
        chance, factor = slowdown.split("x")
        data[f"{chance} of the clocks {factor} times slower"] = bars(
            [short_name(consistency) for consistency in SLOW_CONSISTENCIES],
            [found[slowdown, consistency] for consistency in SLOW_CONSISTENCIES])
    pictures.write("ssp-stragglers", data)


def main():
    options = parse(__doc__)
    simulate, claims = Simulator(options.show), Claims()
    jobs = JOBS[:1] if options.quick else JOBS
    workers = WORKERS[-1:] if options.quick else WORKERS
    consistencies = ("bsp", "ssp:7", "ssp:31", "asp") if options.quick else CONSISTENCIES
    lines = measure(simulate, jobs, workers, consistencies)
    check_convergence(claims, lines)
    check_breakdown(claims, lines)
    check_quantity(claims, lines)
    if not options.quick:
        check_steps(claims, simulate, jobs[0])
        check_limit(claims, simulate, jobs[0])
    check_stragglers(claims, simulate, SLOWDOWNS[:1] if options.quick else SLOWDOWNS)
    for job in jobs:
        draw_convergence(lines, job, workers)
    draw_breakdown(lines, jobs, workers)
    draw_quantity(lines, jobs)
    return claims.finish("ssp")


sys.exit(main())
