"""bench/experiments/common.py - what the experiments share: data, runs, claims and tables.

Runs are simulated, so their figures depend on nothing but the arguments. Whatever is generated goes
to build/experiments. A claim is something that the documents state; it is printed with its numbers,
and an experiment with a claim that does not hold ends with exit code 1.
"""

import argparse
import csv
import json
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RUBATO = ROOT / "build/rubato"
OUT = ROOT / "build/experiments"
SHARED = ROOT.parent / "shared/data"  # real data; experiments do without if it is not there


def parse(description):
    """The options that every experiment has."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="only a small part of it")
    parser.add_argument("--show", action="store_true", help="print every command")
    options = parser.parse_args()
    if not RUBATO.exists():
        sys.exit(f"there is no {RUBATO}; build it first")
    OUT.mkdir(parents=True, exist_ok=True)
    return options


def generate(name, words):
    """The path of generated data, made if it is not there or was made otherwise."""
    folder = OUT / "data"
    folder.mkdir(exist_ok=True)
    path, recipe = folder / name, folder / (name + ".recipe")
    if not path.exists() or not recipe.exists() or recipe.read_text() != words:
        subprocess.run([RUBATO, "gen", *shlex.split(words), "--out", path], check=True,
                       stdout=subprocess.DEVNULL)
        recipe.write_text(words)
    return path


def prior(examples):
    """A penalty for `train linear` that does not hang on what its default finds in the data: the
    objectives that claims are about have it as a part."""
    return f"--l2 {25 / examples!r}"


class Simulator:
    """Runs simulations, each once: equal arguments give equal figures."""

    def __init__(self, show=False):
        self.show = show
        self.known = {}

    def __call__(self, cluster, training):
        """The summary of a run, or None if its training diverged."""
        words = [str(RUBATO), "simulate", *shlex.split(cluster), "--", "train",
                 *shlex.split(training), "--summary", "json", "--progress", "never"]
        key = tuple(words)
        if key not in self.known:
            self.known[key] = self.run(words)
        return self.known[key]

    def run(self, words):
        if self.show:
            print("$ " + shlex.join(words), flush=True)
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            if "training diverged" not in result.stderr:
                sys.exit(f"this failed: {shlex.join(words)}\n{result.stderr.strip()}")
            return None
        return json.loads(result.stdout)


class Curve:
    """A simulated run by the exact objective of the servers' model, clock by clock."""

    def __init__(self, words):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
            result = subprocess.run([*words, "--log", log.name], capture_output=True, text=True,
                                    check=False)
            events = [json.loads(line) for line in log.read().decode().splitlines()]
        if result.returncode != 0 and "training diverged" not in result.stderr:
            sys.exit(f"this failed: {shlex.join(words)}\n{result.stderr.strip()}")
        self.has_diverged = result.returncode != 0
        self.summary = None if self.has_diverged else json.loads(result.stdout)
        self.points = [(event["t"], event["epoch"], event["objective"]) for event in events
                       if event["event"] == "eval" and event["objective"] is not None]

    def reach(self, target):
        """Virtual seconds and passes to the target; infinite if it is not reached."""
        return next(((time, passes) for time, passes, objective in self.points
                     if objective <= target), (float("inf"), float("inf")))


def draw_curves(runs, show=False):
    """The curves of (cluster, training) pairs, in their order; two at a time."""
    def draw(run):
        cluster, training = run
        words = [str(RUBATO), "simulate", *shlex.split(cluster), "--", "train",
                 *shlex.split(training), "--exact", "--summary", "json", "--progress", "never"]
        if show:
            print("$ " + shlex.join(words), flush=True)
        return Curve(words)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(draw, runs))


class Claims:
    """Prints what is claimed, the figures, and whether it is so."""

    def __init__(self):
        self.count = 0
        self.differing = 0

    def __call__(self, text, holds, figures):
        self.count += 1
        self.differing += not holds
        print(f"{'ok' if holds else 'differs':<8}{text}: {figures}", flush=True)

    def finish(self, name):
        """Prints the last line; the exit code."""
        print(f"{name}: {self.count - self.differing} of {self.count} claims hold")
        return 1 if self.differing else 0


def write_table(name, columns, rows):
    """Writes a CSV file to build/experiments."""
    with open(OUT / name, "w", encoding="ascii", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([f"{cell:.9g}" if isinstance(cell, float) else cell for cell in row]
                         for row in rows)


def print_table(columns, rows):
    """Prints right-aligned columns, the first one left-aligned; floats have four digits."""
    cells = [columns, *([f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row]
                        for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        print("  ".join([row[0].ljust(widths[0]),
                         *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]))
    print(flush=True)
