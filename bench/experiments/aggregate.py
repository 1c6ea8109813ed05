#!/usr/bin/python3
"""bench/experiments/aggregate.py [--quick] [--show] - updates that are added up in their rack.

Two racks whose links are oversubscribed, and jobs whose workers all update the same rows: matrix
factorisation with few users and many items, and topics (G24). With --aggregate a process of the
rack adds up what its workers push to a server in the other one. Where there is one server, in rack
0, the up-link of rack 1 carries what its workers push, and little else: by how much that falls, and
by how many workers there are. Where servers are in both racks: how long the job takes, and what
crosses, rows that are read included. docs/experiments/managed.md says what the figures mean.
"""

import json
import shlex
import subprocess
import sys
import tempfile

from common import RUBATO, Claims, generate, parse, print_table, write_table

RACKS = 2
WAIT = "--aggregate 1s"
SIZES = (4, 8, 16)  # workers of a rack
OVERSUBSCRIPTIONS = (4, 16)
SERVERS = 4


def jobs_of():
    """Words of each job; all workers read and update the same rows, or most of them."""
    ratings = generate("aggregate-ratings.data", "ratings --users 320 --items 800 --ratings 80000")
    documents = generate("aggregate-documents.data", "documents")
    same = "--clocks-per-epoch 1 --consistency bsp --filter keys"
    return {"mf": f"mf --data {ratings} --rank 64 --epochs 6 {same}",
            "lda": f"lda --data {documents} --topics 50 --epochs 3 {same}"}


class Run:
    """One run: its summary, and what the up-link of rack 1 has carried."""

    def __init__(self, options, cluster, training):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
            words = [str(RUBATO), "simulate", *shlex.split(cluster), "--", "train",
                     *shlex.split(training), "--summary", "json", "--progress", "never", "--log",
                     log.name]
            if options.show:
                print("$ " + shlex.join(words), flush=True)
            result = subprocess.run(words, capture_output=True, text=True, check=False)
            events = [json.loads(line) for line in log.read().decode().splitlines()]
        if result.returncode != 0:
            sys.exit(f"this failed: {shlex.join(words)}\n{result.stderr.strip()}")
        summary = json.loads(result.stdout)
        self.seconds = summary["virtual_seconds"]
        self.crossed = summary["rack_bytes"]
        self.digest = summary["digest"]
        self.objective = summary["objective"]
        self.up = [event["bytes_sent"] for event in events if event["event"] == "traffic"
                   and event["node"] == "rack/1"][-1]


def run_both(options, cluster, training):
    """The job without sums and with them."""
    racks = f"--racks {RACKS} --bandwidth 100Mbit {cluster}"
    return Run(options, racks, training), Run(options, f"{racks} {WAIT}", training)


def check_model(claims, name, where, runs):
    plain, added = runs
    if name == "lda":
        claims(f"{name}, {where}: the model has the same bits", plain.digest == added.digest,
               f"{plain.digest}, {added.digest}")
    else:
        off = abs(added.objective / plain.objective - 1)
        claims(f"{name}, {where}: the objective is the same but for rounding", off < 1e-6,
               f"{off:.1e} off")


def measure_pushes(options, claims, name, training):
    """One server: what the other rack's workers push."""
    rows = []
    for size in SIZES[:2] if options.quick else SIZES:
        runs = run_both(options, f"--workers {RACKS * size} --servers 1 --oversubscription 4",
                        training)
        fall = runs[0].up / runs[1].up
        rows.append([name, size, runs[0].up / 1e6, runs[1].up / 1e6, fall, runs[0].seconds,
                     runs[1].seconds])
        least = (0.65 if name == "mf" else 0.4) * size
        claims(f"{name}: what {size} workers of a rack push falls at least {least:.1f} times",
               fall >= least, f"{fall:.2f} times")
        check_model(claims, name, f"{size} workers per rack", runs)
    print_table(["one server", "workers per rack", "MB up", "with sums", "times less", "seconds",
                 "with sums"], rows)
    return rows


def measure_time(options, claims, name, training):
    """Servers in both racks: seconds, and all that crosses."""
    rows = []
    for size in SIZES[1:2] if options.quick else SIZES:
        for factor in OVERSUBSCRIPTIONS:
            runs = run_both(options, f"--workers {RACKS * size} --servers {SERVERS} "
                            f"--oversubscription {factor}", training)
            plain, added = runs
            rows.append([name, size, f"{factor}:1", plain.crossed / 1e6, added.crossed / 1e6,
                         plain.seconds, added.seconds, added.seconds / plain.seconds])
            claims(f"{name}, {size} workers per rack, {factor}:1: no slower than without sums",
                   added.seconds <= plain.seconds,
                   f"{added.seconds:.3f} s, without {plain.seconds:.3f} s")
            check_model(claims, name, f"{size} workers per rack, {factor}:1", runs)
            if factor > 4 and size > 4:
                claims(f"{name}, {size} workers per rack, {factor}:1: at most 80% of the time",
                       added.seconds <= 0.8 * plain.seconds, f"{added.seconds / plain.seconds:.2f}")
                claims(f"{name}, {size} workers per rack, {factor}:1: at most 65% of what crosses",
                       added.crossed <= 0.65 * plain.crossed,
                       f"{added.crossed / plain.crossed:.2f}")
    print_table([f"{SERVERS} servers", "workers per rack", "links", "MB crossing", "with sums",
                 "seconds", "with sums", "of the time"], rows)
    return rows


def main():
    options = parse(__doc__)
    claims = Claims()
    pushes = []
    times = []
    for name, training in jobs_of().items():
        pushes += measure_pushes(options, claims, name, training)
        times += measure_time(options, claims, name, training)
    write_table("aggregate-pushes.csv", ["job", "workers", "up", "up_sums", "times_less",
                                         "seconds", "seconds_sums"], pushes)
    write_table("aggregate-time.csv", ["job", "workers", "links", "crossing", "crossing_sums",
                                       "seconds", "seconds_sums", "share"], times)
    return claims.finish("aggregate")


sys.exit(main())
