#!/usr/bin/python3
"""bench/experiments/filters.py [--quick] [--show] - what each filter saves, and what it costs.

Repeats figures 3.10 and 10.4 of "Scaling distributed machine learning with system and algorithm
co-design" (Li, thesis, 2017): sparse logistic regression with an L1 penalty on 8 simulated workers
and 4 servers. The simulator weighs messages by encoding them. Under BSP nothing depends on when
messages arrive, so filters that are exact must give the same bits as no filter.
docs/experiments/filters.md says what the figures mean.
"""

import json
import math
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pictures
from common import OUT, RUBATO, SHARED, Claims, generate, parse, print_table, write_table

CLUSTER = "--workers 8 --servers 4"
PARTS = 10  # of a run, for curves
SETTLED = 2  # parts that are its beginning
L1 = 1e-3
EXACT = ("keys", "push.zeros", "changed", "lz4", "zstd", "keys,lz4", "keys,zstd")
SPARSE = ("keys,kkt", "keys,kkt,lz4", "keys,kkt,zstd", "keys,kkt,changed,zstd")
ROUNDED = ("f16", "bf16", "fixed:8", "keys,fixed:8,lz4", "keys,kkt,changed,fixed:8,zstd")
BITS = (4, 8, 16, 24)
DELAYS = (0, 1, 4, 8)
LATE = "push.skip:0.5,pull.significant:0.001:1"
CURVES = ("keys", "keys,zstd", "keys,kkt", "keys,kkt,zstd", "keys,kkt,changed,zstd",
          "keys,kkt,changed,fixed:8,zstd")


@dataclass(frozen=True)
class Job:
    """Data, of which some is kept for measuring, and how often workers talk."""
    name: str
    data: str
    held_out: str
    rule: str
    passes: int
    clocks: int  # per pass
    kkt: str

    def training(self, chain, rule=None, consistency="bsp"):
        return (f"linear --data {self.data} --loss logistic --l1 {L1} --l2 0 "
                f"--rule {rule or self.rule} "
                f"--consistency {consistency} --epochs {self.passes} "
                f"--clocks-per-epoch {self.clocks} --filter {chain.replace('kkt', self.kkt)}")


class Run:
    """A simulated run: its summary, and what filters had got and left after each part of it. Of one
    that diverged there is only an objective, which is infinite."""

    def __init__(self, training, show=False):
        words = [str(RUBATO), "simulate", *shlex.split(CLUSTER), "--", "train",
                 *shlex.split(training), "--summary", "json", "--progress", "never"]
        if show:
            print("$ " + shlex.join(words), flush=True)
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
            result = subprocess.run([*words, "--log", log.name], capture_output=True, text=True,
                                    check=False)
            events = [json.loads(line) for line in log.read().decode().splitlines()]
        if result.returncode != 0:
            if "training diverged" not in result.stderr:
                sys.exit(f"this failed: {shlex.join(words)}\n{result.stderr.strip()}")
            self.objective = math.inf
            return
        self.summary = json.loads(result.stdout)
        self.objective = self.summary["objective"]
        self.total = self.summary["network_bytes"]
        evals = {event["epoch"]: event for event in events if event["event"] == "eval"}
        numbers = sorted(evals)
        self.parts = [evals[numbers[-1] * part // PARTS] for part in range(1, PARTS + 1)]
        nodes = {event["node"]: event for event in events if event["event"] == "traffic"
                 and event["node"].startswith("worker/")}  # the last of each
        self.sent = sum(event["bytes_sent"] for event in nodes.values())
        self.received = sum(event["bytes_received"] for event in nodes.values())

    def share(self, classes, first=0, last=PARTS):
        """What is left of these classes, of what there was, after `first` parts."""
        def count(end):
            found = self.parts[last - 1]
            start = self.parts[first - 1] if first > 0 else {}
            fields = [f"filter_{name}_{end}_bytes" for name in classes]
            return sum(found[field] - start.get(field, 0) for field in fields)
        return count("out") / count("in")

    def saving(self, *classes, first=0):
        return 1 / self.share(classes, first)

    def loss(self, plain):
        """How much worse the objective is, in percent."""
        return 100 * (self.objective / plain.objective - 1)


def split(data, name, lines):
    """The last lines of a file become one of their own; the paths of both."""
    folder = OUT / "data"
    train, held_out = folder / f"{name}.train.svm", folder / f"{name}.test.svm"
    text = data.read_text(encoding="ascii").splitlines(keepends=True)
    train.write_text("".join(text[:-lines]), encoding="ascii")
    held_out.write_text("".join(text[-lines:]), encoding="ascii")
    return train, held_out


def jobs_of(options):
    clicks = generate("filters-clicks.svm", "clicks --examples 30000 --vocabulary 20000")
    sets = [("clicks", *split(clicks, "filters-clicks", 10000), "ftrl:lr=0.1", 20000)]
    imdb = SHARED / "imdb/imdb.train.libsvm.zst"
    if imdb.exists() and not options.quick:
        sets.append(("imdb", imdb, SHARED / "imdb/imdb.test.libsvm.zst", "ftrl:lr=0.05",
                     25000))
    return [job for name, data, held_out, rule, examples in sets
            for job in (Job(f"{name}, online", data, held_out, rule, 10, 32, "kkt"),
                        Job(f"{name}, batch", data, held_out, rule, 80, 1,
                            f"kkt:{L1 * examples:g}:0:32"))]


def run_all(options, jobs):
    """The runs, by job and name."""
    wanted = {}
    for job in jobs:
        for chain in ("none", *EXACT, *SPARSE, *ROUNDED):
            wanted[job, chain] = job.training(chain)
        for bits in BITS if job.clocks > 1 else ():
            wanted[job, f"{bits} bits"] = (job.training(f"keys,fixed:{bits},lz4")
                                           + f" --eval {job.held_out}")
        wanted[job, "32 bits"] = job.training("keys,lz4") + f" --eval {job.held_out}"
    for chain in ("none", "fixed:8", "bf16", "f16"):
        wanted[jobs[0], f"prox {chain}"] = jobs[0].training(chain, "prox")
    for delay in (DELAYS[::3] if options.quick else DELAYS):
        for chain in ("none", LATE):
            wanted[jobs[0], f"ssp:{delay} {chain}"] = jobs[0].training(chain,
                                                                       consistency=f"ssp:{delay}")
    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda training: Run(training, options.show), wanted.values())
        return dict(zip(wanted, runs))


def rows_of(runs, job):
    """What each chain leaves of the bytes, in percent, and by how much it is smaller."""
    plain = runs[job, "none"]
    rows = []
    for chain in (*EXACT, *SPARSE, *ROUNDED):
        run = runs[job, chain]
        rows.append([chain, 100 * run.share(("keys", "push")), 100 * run.share(("pull",)),
                     run.saving("push"), run.saving("pull"),
                     run.saving("push", first=SETTLED), run.saving("pull", first=SETTLED),
                     100 * run.sent / plain.sent, 100 * run.received / plain.received,
                     run.objective, f"{run.loss(plain):+.4f}%"])
    return rows


COLUMNS = ["filter", "up %", "down %", "push x", "pull x", "push x late", "pull x late",
           "sent %", "received %", "objective", "worse by"]


def check_exact(claims, runs, job):
    plain, keys = runs[job, "none"], runs[job, "keys"]
    zeros = runs[job, "push.zeros"]  # which every list leaves out
    saved = 100 * (1 - keys.total / zeros.total)
    claims(f"{job.name}: key caching saves 10% or more of all bytes, zeros left out", saved >= 10,
           f"{saved:.1f}% of {zeros.total / 1e6:.1f} MB; without any filter "
           f"{plain.total / 1e6:.1f} MB")
    digests = {chain: runs[job, chain].summary["digest"] for chain in EXACT}
    claims(f"{job.name}: exact filters give the same bits as none",
           set(digests.values()) == {plain.summary["digest"]},
           ", ".join(f"{chain} {digest}" for chain, digest in digests.items()))
    both = runs[job, "keys,lz4"].total / plain.total
    product = keys.total / plain.total * runs[job, "lz4"].total / plain.total
    claims(f"{job.name}: keys and compression together leave at most 1.1 times the product of what "
           "each leaves", both <= 1.1 * product, f"{100 * both:.2f}% and {100 * product:.2f}%")


def check_sparse(claims, runs, job):
    plain = runs[job, "none"]
    for chain in ("keys,kkt,zstd", "keys,kkt,changed,zstd"):
        run = runs[job, chain]
        up = [1 / run.share(("push",), number, number + 1) for number in range(SETTLED, PARTS)]
        down = [1 / run.share(("pull",), number, number + 1) for number in range(SETTLED, PARTS)]
        claims(f"{job.name}: {chain} makes values to servers 6 times smaller or more, and to "
               "workers 20 times, after the first fifth of the run",
               run.saving("push", first=SETTLED) >= 6 and run.saving("pull", first=SETTLED) >= 20,
               f"{run.saving('push', first=SETTLED):.1f} and "
               f"{run.saving('pull', first=SETTLED):.1f} times; by tenths of the run "
               f"{min(up):.1f} to {max(up):.1f}, and {min(down):.1f} to {max(down):.1f}")
        claims(f"{job.name}: with {chain} the objective is at most 0.1% worse",
               run.loss(plain) <= 0.1, f"{run.loss(plain):+.4f}%")
    if job.clocks == 1:
        alone, run = runs[job, "keys,zstd"].saving("push"), runs[job, "keys,kkt,zstd"]
        claims(f"{job.name}: compression alone makes updates less than 1.5 times smaller; it "
               "is KKT that makes it pay", alone < 1.5 and run.saving("push") >= 4 * alone,
               f"{alone:.2f} and {run.saving('push'):.2f} times")


def check_rounded(claims, runs, job):
    plain, run = runs[job, "none"], runs[job, "fixed:8"]
    claims(f"{job.name}: 8 bits make values 3.5 times smaller or more, both ways, and the "
           "objective is at most 1% worse",
           min(run.saving("push"), run.saving("pull")) >= 3.5 and run.loss(plain) <= 1,
           f"{run.saving('push'):.2f}, {run.saving('pull'):.2f}, {run.loss(plain):+.4f}%")
    packed, floats = runs[job, "keys,fixed:8,lz4"], runs[job, "keys,lz4"]
    gain = floats.share(("push", "pull")) / packed.share(("push", "pull"))
    claims(f"{job.name}: 8 bits and LZ4 make values 4.0 times smaller or more (F11)",
           packed.saving("push", "pull") >= 4,
           f"{packed.saving('push', 'pull'):.2f} times; {gain:.2f} times against LZ4 alone")
    if job.clocks == 1:
        claims(f"{job.name}: 8 bits help LZ4: 4.0 times smaller or more than with LZ4 alone (F11)",
               gain >= 4, f"{gain:.2f} times")


def check_prox(claims, runs, job):
    plain = runs[job, "prox none"]
    losses = {chain: runs[job, f"prox {chain}"].loss(plain) for chain in ("fixed:8", "bf16", "f16")}
    claims(f"{job.name}: with prox, too, 8 bits and bf16 are within 1%",
           max(abs(losses["fixed:8"]), abs(losses["bf16"])) <= 1,
           ", ".join(f"{chain} {'diverges' if math.isinf(loss) else f'{loss:+.4f}%'}"
                     for chain, loss in losses.items()))


def check_late(claims, runs, job):
    losses = {name: run.loss(runs[job, f"{name.split()[0]} none"])
              for (owner, name), run in runs.items()
              if owner == job and name.startswith("ssp:") and name.endswith(LATE)}
    claims(f"{job.name}: half of each update skipped and only significant changes read end within "
           "1% of the same objective, for all delays (F16)",
           all(abs(loss) <= 1 for loss in losses.values()),
           ", ".join(f"{name.split()[0]} {loss:+.3f}%" for name, loss in losses.items()))
    least = min(runs[job, f"{name.split()[0]} {LATE}"].saving("push") for name in losses)
    down = min(runs[job, f"{name.split()[0]} {LATE}"].saving("pull") for name in losses)
    print(f"        push at least {least:.2f} times smaller, pull {down:.2f} times\n")


def show_bits(runs, job):
    """Quality against the number of bits."""
    plain = runs[job, "32 bits"]
    rows = []
    for bits in (*BITS, 32):
        run = runs[job, f"{bits} bits"]
        metrics = run.summary["eval"]
        rows.append([str(bits), run.saving("push"), run.saving("pull"),
                     100 * run.total / plain.total,
                     f"{run.objective:.6f}", f"{run.loss(plain):+.4f}%",
                     f"{metrics['logloss']:.5f}", f"{metrics['auc']:.5f}"])
    print(f"{job.name}: keys,fixed:N,lz4 by the number of bits")
    columns = ["bits", "push x", "pull x", "all %", "objective", "worse by", "test logloss",
               "test AUC"]
    print_table(columns, rows)
    return [[job.name, *row] for row in rows]


def draw(runs, jobs):
    data = {}
    for job in jobs:
        for title, classes in (("to servers", ("keys", "push")), ("to workers", ("pull",))):
            data[f"{job.name}: {title}"] = {
                chain: [((part + 1) * job.passes / PARTS,
                         100 * runs[job, chain].share(classes, part, part + 1))
                        for part in range(PARTS)] for chain in CURVES}
    pictures.write("filters-bytes", data)


def draw_bits(runs, jobs):
    data = {}
    for job in jobs:
        plain = runs[job, "32 bits"]
        found = {bits: runs[job, f"{bits} bits"] for bits in (*BITS, 32)}
        data[job.name] = {
            "workers send": [(bits, run.sent / 1e6) for bits, run in found.items()],
            "servers send": [(bits, run.received / 1e6) for bits, run in found.items()],
            "objective worse by %": [(bits, run.loss(plain)) for bits, run in found.items()]}
    pictures.write("filters-bits", data)


def main():
    options = parse(__doc__)
    claims = Claims()
    jobs = jobs_of(options)
    runs = run_all(options, jobs)
    table, bits = [], []
    for job in jobs:
        rows = rows_of(runs, job)
        print(f"{job.name}: what is left; late: without the first fifth of the run; "
              "sent, received: by workers, with headers; "
              f"objective without filter {runs[job, 'none'].objective:.6f}")
        print_table(COLUMNS, rows)
        table += [[job.name, *row] for row in rows]
        bits += show_bits(runs, job) if job.clocks > 1 else []
        check_exact(claims, runs, job)
        check_sparse(claims, runs, job)
        check_rounded(claims, runs, job)
    check_prox(claims, runs, jobs[0])
    check_late(claims, runs, jobs[0])
    write_table("filters.csv", ["data", *COLUMNS], table)
    write_table("filters-bits.csv", ["data", "bits", "push", "pull", "all", "objective", "worse",
                                     "logloss", "auc"], bits)
    draw(runs, jobs)
    draw_bits(runs, jobs[::2])
    return claims.finish("filters")


sys.exit(main())
