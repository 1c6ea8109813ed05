#!/usr/bin/python3
"""bench/experiments/managed_cost.py [REPEATS [RANK]] - what rows that travel early cost.

Trains matrix factorisation with AdaRevision, one clock per pass, without and with --bandwidth in
turns: embedded, where one process is worker and server, and with a server process and a worker
process, whose processor times are taken apart. A pass is the difference of a long and a short run
(the quickest of those with the same options), so that reading data is not in it. A run with a
budget is compared with the mean of those without that came before and after it: the speed of shared
machines drifts.

The paper (Wei et al., 2015): a node sends 33 Mbit/s with bounded staleness; with the low budget,
200 Mbit/s, six times as much, and rows chosen at random an iteration takes 12% longer. What matters
is the work for each byte. Ours has the same, 4 MB/s without a budget and 25 with it, if rows have
2,000 ratings each, which is what most of the jobs here have (files given several times: a rating
costs the same). With 200, as Netflix has, our processors would send 40 MB/s without a budget.

Budgets are per second of real time. So that a busy machine, where a pass takes longer, does not
get more rows for it, they are made smaller by the part of the time that the run without a budget
had the processor. Real time, so tools/experiments runs it only by its name; figures are in
bench/RESULTS.md.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from common import OUT, RUBATO, Claims, generate, print_table

TIMES = 6  # the low budget, by what is sent without one
SHORT = 2
GOAL = 0.12


@dataclass(frozen=True)
class Job:
    """Ratings and a rank, and passes that take some seconds."""
    rank: int
    per_row: int  # ratings
    ratings: str
    copies: int
    passes: int
    is_papers: bool  # as much work for each byte


JOBS = (Job(100, 200, "--users 2400 --items 600 --ratings 600k", 1, 20, False),
        Job(100, 2000, "--users 1000 --items 250 --ratings 250k", 10, 24, True),
        Job(400, 2000, "--users 500 --items 125 --ratings 62500", 20, 20, True))
PRIORITIES = ("random", "relative")
PLACES = ("embedded", "processes")


@dataclass
class Run:
    """Seconds of the processor, of the worker and of the server; real time; and the summary."""
    worker: float
    server: float
    seconds: float
    summary: dict

    def per_pass(self, short, passes):
        """What a pass takes: seconds, and figures of the summary."""
        names = ("bytes_sent", "bytes_received", "early_sent", "early_received",
                 "early_bytes_sent", "early_bytes_received")
        return Run((self.worker - short.worker) / passes, (self.server - short.server) / passes,
                   (self.seconds - short.seconds) / passes,
                   {name: (self.summary[name] - short.summary[name]) / passes for name in names})


def processor_seconds(process):
    """Waits for the process."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def result_of(process, server_seconds=lambda: 0.0):
    out = process.stdout.read()
    worker = processor_seconds(process)
    if process.returncode != 0:
        sys.exit(f"this failed: {shlex.join(map(str, process.args))}")
    summary = json.loads(out)
    return Run(worker, server_seconds(), summary["seconds"] - summary["load_seconds"], summary)


def start(*words):
    return subprocess.Popen([RUBATO, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True)


def run_processes(training):
    with tempfile.TemporaryDirectory() as folder:
        place = f"unix:{folder}/coordinator"
        coordinator = start("coordinator", "--listen", place, "--servers", "1", "--once")
        while not os.path.exists(f"{folder}/coordinator"):
            assert coordinator.poll() is None
        server = start("server", "--coordinator", place, "--index", "0", "--listen",
                       f"unix:{folder}/server")
        worker = start("worker", "--coordinator", place, "--workers", "1", "--", *training)
        result = result_of(worker, lambda: processor_seconds(server))
        coordinator.wait()
        return result


class Place:
    """Measures passes of one job, embedded or with processes."""

    def __init__(self, place, job, data):
        self.place, self.job, self.data = place, job, data
        self.short = {}  # the quickest, by priority

    def train(self, passes, extra):
        training = ["train", "mf", "--data", *[str(self.data)] * self.job.copies, "--rank",
                    str(self.job.rank), "--no-bias", "--rule", "adarev:lr=0.1",
                    "--clocks-per-epoch", "1", "--consistency", "essp:2", "--epochs", str(passes),
                    "--summary", "json", "--progress", "never", *shlex.split(extra)]
        if self.place == "embedded":
            return result_of(start(*training, "--workers", "1"))
        return run_processes(training)

    def measure(self, priority=None, budget=0):
        """A pass; without a priority that of a run without a budget."""
        extra = f"--bandwidth {round(budget)} --priority {priority}" if priority else ""
        short = self.train(SHORT, extra)
        known = self.short.get(priority)
        if known is None or short.worker + short.server < known.worker + known.server:
            self.short[priority] = short
        long = self.train(SHORT + self.job.passes, extra)
        return long.per_pass(self.short[priority], self.job.passes)


@dataclass
class Cost:
    """What a budget costs: parts of the processor time of a pass without it."""
    worker: float
    both: float
    traffic: float  # sent, a multiple of that without
    per_megabyte: float  # milliseconds of both, for what travels early either way


def mean_of(one, other):
    return Run((one.worker + other.worker) / 2, (one.server + other.server) / 2,
               (one.seconds + other.seconds) / 2, one.summary)


def cost_of(plain, managed):
    time = plain.worker + plain.server
    more = managed.worker + managed.server - time
    early = managed.summary["early_bytes_sent"] + managed.summary["early_bytes_received"]
    return Cost(managed.worker / plain.worker - 1, more / time,
                managed.summary["bytes_sent"] / plain.summary["bytes_sent"],
                1e9 * more / max(early, 1))


def budget_of(plain):
    """Bytes per second of the real time that the run gets."""
    share = min(1, (plain.worker + plain.server) / plain.seconds)
    return share * TIMES * plain.summary["bytes_sent"] / (plain.worker + plain.server)


def name_of(job):
    return f"rank {job.rank}, {job.per_row} ratings per row"


def middle(values, form):
    """The median and the quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{format(median, form)} ({format(low, form)} to {format(high, form)})"


def main():
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    repeats = numbers[0] if numbers else 5
    jobs = [job for job in JOBS if len(numbers) < 2 or job.rank == numbers[1]]
    OUT.mkdir(parents=True, exist_ok=True)
    found, claims = {}, Claims()
    for job in jobs:
        data = generate(f"managed-cost-{job.rank}-{job.per_row}.data", f"ratings {job.ratings}")
        for name in PLACES:
            place = Place(name, job, data)
            plain = place.measure()
            for _ in range(repeats):
                for priority in PRIORITIES:
                    before = plain
                    managed = place.measure(priority, budget_of(before))
                    plain = place.measure()
                    found.setdefault((job, name, priority), []).append(
                        cost_of(mean_of(before, plain), managed))
            print(f"measured: {name_of(job)}, {name}; without: {1e3 * plain.worker:.0f} + "
                  f"{1e3 * plain.server:.0f} ms per pass, "
                  f"{plain.summary['bytes_sent'] / (plain.worker + plain.server) / 1e6:.1f} MB/s",
                  flush=True)
    print_table(["", "worker", "worker and server", "sent", "ms per MB early"],
                [[f"{name_of(job)}, {place}, {priority}",
                  middle([cost.worker for cost in costs], "+.0%"),
                  middle([cost.both for cost in costs], "+.0%"),
                  f"x{statistics.median(cost.traffic for cost in costs):.2f}",
                  middle([cost.per_megabyte for cost in costs], ".2f")]
                 for (job, place, priority), costs in found.items()])
    for (job, place, priority), costs in found.items():
        if job.is_papers and place == "processes":
            value = statistics.median(cost.worker for cost in costs)
            claims(f"{name_of(job)}, {priority}: at {TIMES} times the traffic a worker's pass "
                   f"costs at most {GOAL:.0%} more", value <= GOAL, f"{value:+.1%}")
    return claims.finish("managed_cost")


sys.exit(main())
