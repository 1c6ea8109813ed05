"""bench/experiments/hetero_runs.py - runs of linear models on clusters whose machines differ.

A run is watched by the exact objective of what the servers have after every clock of worker 0
(--exact), which takes none of the virtual time. The step size of every cell of a table is searched
for: in powers of two, up and down from where the cell before it had its best, until it gets worse,
then once more in between.
"""

import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from common import OUT, ROOT, RUBATO, generate, prior

IMDB = ROOT.parent / "shared/data/imdb/imdb.train.libsvm.zst"
CLICKS = "clicks --examples 60000 --vocabulary 20000"
GENERATING = threading.Lock()
AT_ONCE = min(2, os.cpu_count() or 1)  # simulations, each with one thread

# A clock of ours computes for half a millisecond, one of the paper's for seconds: the network is as
# much faster, so that computing dominates as it does there.
NETWORK = "--bandwidth 1000Gbit --latency 1us"
SERVERS = 10
WORKERS = 30
START = {"logistic": math.log(2), "hinge": 1.0}  # objective of a model of zeros


@dataclass(frozen=True)
class Problem:
    """Data and loss."""
    name: str
    loss: str
    data: str
    count: int  # examples
    batch: int  # that make a local step
    step: float  # about the best, with ConSGD
    above: float = 1.03  # the target relative to the lowest objective

    def file(self):
        with GENERATING:
            return generate(f"hetero-{self.count}.clicks", self.data) if self.data else IMDB

    def is_there(self):
        return bool(self.data) or IMDB.exists()


@dataclass(frozen=True)
class Method:
    """What workers and servers do. SSPSGD adds every update, as Petuum does."""
    name: str
    options: str
    consistency: str
    step: float  # where the search for the best begins, relative to the problem's

    def words(self):
        return f"{self.options} --consistency {self.consistency}"


SSPSGD = Method("SSPSGD", "--rule add --combine sum", "ssp:3", 2**-8)
CONSGD = Method("ConSGD", "--rule consgd", "ssp:3", 1.0)
DYNSGD = Method("DynSGD", "--rule dynsgd", "ssp:3", 1.0)


def with_bound(method, bound):
    return replace(method, consistency=f"ssp:{bound}")


@dataclass(frozen=True)
class Event:
    seconds: float
    examples: float
    objective: float
    clock: int


class Curve:
    """What a run has shown: events, and its summary; None if training diverged."""

    def __init__(self, problem, workers, events, summary):
        self.problem, self.workers = problem, workers
        self.events, self.summary = events, summary
        self.target = None
        self.step = 0.0

    def lowest(self):
        return min((event.objective for event in self.events), default=math.inf)

    def at(self, target):
        """The event of reaching the target, between events on a straight line; None: never."""
        before = Event(0.0, 0.0, START[self.problem.loss], 0)
        for event in self.events:
            if event.objective <= target:
                part = (before.objective - target) / (before.objective - event.objective)
                return Event(before.seconds + part * (event.seconds - before.seconds),
                             before.examples + part * (event.examples - before.examples),
                             target, before.clock + part * (event.clock - before.clock))
            before = event
        return None

    def seconds(self):
        """Until the target; infinite if it was not reached."""
        event = self.at(self.target)
        return math.inf if event is None else event.seconds

    def clock_seconds(self):
        """Of worker 0, without the beginning, when workers connect to the servers."""
        events = [event for event in self.events if event.clock > 0]
        return (events[-1].seconds - events[0].seconds) / (events[-1].clock - events[0].clock)

    def updates(self):
        """Clocks of all workers until then."""
        event = self.at(self.target)
        return math.inf if event is None else event.examples / self.problem.count * self.workers

    def clocks(self):
        """Clocks of worker 0 until then."""
        event = self.at(self.target)
        return math.inf if event is None else event.clock


@dataclass(frozen=True)
class Cluster:
    name: str
    options: str = ""  # beyond the network
    workers: int = WORKERS
    network: str = NETWORK

    def words(self):
        return (f"--workers {self.workers} --servers {SERVERS} {self.network} {self.options}")


EVEN = Cluster("all alike")
UNEVEN = Cluster("20% twice as slow", "--stragglers 20%x2")


def run(options, problem, cluster, training):
    """The curve of one run. `training` is what follows --loss, `cluster` may name --until."""
    with tempfile.NamedTemporaryFile(dir=OUT, suffix=".jsonl") as log:
        words = [str(RUBATO), "simulate", *shlex.split(cluster.words()), "--", "train", "linear",
                 "--data", str(problem.file()), "--loss", problem.loss,
                 *prior(problem.count).split(), "--batch",
                 str(problem.batch), *shlex.split(training),
                 "--exact", "--summary", "json", "--progress", "never"]
        if options.show:
            print("$ " + shlex.join(words), flush=True)
        result = subprocess.run([*words, "--log", log.name], capture_output=True, text=True,
                                check=False)
        if result.returncode != 0 and "training diverged" not in result.stderr:
            sys.exit(f"this failed: {shlex.join(words)}\n{result.stderr.strip()}")
        found = [json.loads(line) for line in log if b'"event":"eval"' in line]
    events = [Event(e["t"], e["examples"], e["objective"], e["clock"]) for e in found
              if e["objective"] is not None and math.isfinite(e["objective"])]
    summary = json.loads(result.stdout) if result.returncode == 0 else None
    return Curve(problem, cluster.workers, events, summary)


def train(options, problem, cluster, method, step, limits):
    """`limits`: "--epochs 50", ... The step is constant."""
    curve = run(options, problem, cluster,
                f"{method.words()} --schedule constant --lr {step:.9g} {limits}")
    curve.step = step
    return curve


def find_target(options, problem):
    """By so much above the lowest objective of a long run."""
    method = Method("long", "--rule consgd", "bsp", 0.125)
    curve = train(options, problem, EVEN, method, problem.step * method.step, "--epochs 150")
    return problem.above * curve.lowest()


def search(options, problem, cluster, method, target):
    """The curve with the best step: by seconds to the target."""
    known = {}

    def look(step):
        if step not in known:
            best = min((curve.seconds() for curve in known.values()), default=math.inf)
            limit = "" if math.isinf(best) else f"--until {1e6 * best:.0f}us"
            curve = train(options, problem,
                          replace(cluster, options=f"{cluster.options} {limit}"), method, step,
                          f"--epochs 300 --patience 25 --target {target:.9g}")
            curve.target = target
            known[step] = curve
        return known[step].seconds()

    step = problem.step * method.step
    tries = [step, step / 2, step / 4, step * 2, step / 8, step * 4]
    while tries and math.isinf(look(tries[0])):
        step = tries.pop(0)
    step = tries[0] if tries else step
    for factor in (2, 0.5, 2**0.5, 0.5**0.5):
        while look(step * factor) < look(step):
            step *= factor
    best = known[step]
    print(f"{problem.name}, {cluster.name}, {method.name} {method.consistency}: "
          f"{1e3 * best.seconds():.2f} ms, {best.updates():.0f} updates, step {step:.4g}, best of "
          f"{len(known)}", flush=True)
    return best


def in_parallel(function, tasks):
    """The results, in the order of the tasks."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda task: function(*task), tasks))
