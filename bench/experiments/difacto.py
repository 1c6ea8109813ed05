#!/usr/bin/python3
"""bench/experiments/difacto.py [--quick] [--show] - how small factorisation machines can be.

Repeats figures 10.1 and 10.3 of "Scaling distributed machine learning with system and algorithm
co-design" (Li, thesis, 2017): the numbers of V that are not zero, and the held-out logloss, without
constraints, with embeddings for frequent features only, and with none where the weight is zero
either; on generated clicks, 2 workers in one process under BSP, so that figures do not depend on
the machine. Then the fixed-point filter (figure 10.4) and the rules at the servers, on 8 simulated
workers. docs/algorithms/fm.md says what the figures mean.
"""

import json
import shlex
import subprocess
import sys
import tempfile

from common import OUT, RUBATO, Claims, generate, parse, print_table

RANKS = (1, 4, 16, 64)
LAST = 64
EPOCHS = 5
HELD_OUT = 50000
SETTINGS = {"none": "--min-count 1 --no-shrink-v", "frequency": "--min-count {rank} --no-shrink-v",
            "frequency + l1": "--min-count {rank}", "default": ""}


class Run:
    """A training's held-out loss after each epoch, and its summary."""

    def __init__(self, words, show):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
            command = [str(RUBATO), *shlex.split(words), "--log", log.name, "--summary", "json",
                       "--progress", "never"]
            if show:
                print("$ " + shlex.join(command), flush=True)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"this failed: {shlex.join(command)}\n{done.stderr.strip()}")
            self.summary = json.loads(done.stdout)
            with open(log.name, encoding="utf-8") as lines:
                events = [json.loads(line) for line in lines]
        figures = [event["eval"] for event in events if event.get("event") == "eval"]
        self.best = min(figure["logloss"] for figure in figures)
        self.last = figures[-1]["logloss"]
        self.weights = int(figures[-1]["w_nonzeros"])
        self.embeddings = int(figures[-1]["v_nonzeros"])


def split(path):
    """The last lines are kept for measuring."""
    lines = path.read_bytes().splitlines(keepends=True)
    train, test = OUT / "data/difacto-train.svm", OUT / "data/difacto-test.svm"
    train.write_bytes(b"".join(lines[:-HELD_OUT]))
    test.write_bytes(b"".join(lines[-HELD_OUT:]))
    return f"--data {train} --eval {test}"


def compare_constraints(claims, data, options):
    rows, runs = [], {}
    for rank in (LAST,) if options.quick else RANKS:
        for name, words in SETTINGS.items():
            run = Run(f"train fm {data} --rank {rank} --epochs {EPOCHS} --workers 2 "
                      f"--consistency bsp {words.format(rank=rank)}", options.show)
            runs[rank, name] = run
            rows.append([rank, name, run.weights, run.embeddings, run.best, run.last])
    print_table(["rank", "constraints", "w not zero", "V not zero", "best logloss",
                 "last logloss"], rows)
    free, held = runs[LAST, "none"], runs[LAST, "frequency + l1"]
    ratio = free.embeddings / held.embeddings
    claims(f"constraints cut the nonzeros of V by 10 or more at rank {LAST}", ratio >= 10,
           f"{ratio:.1f} times fewer")
    claims("the logloss is no worse", held.last <= free.last and held.best <= free.best,
           f"{held.last:.4f} at the end against {free.last:.4f}, "
           f"{held.best:.4f} at best against {free.best:.4f}")


def compare_filters(claims, data, options):
    """Gradients for the servers' rules, 8 workers and 4 servers."""
    rows, runs = [], {}
    for chain in ("none", "keys", "keys,fixed:16,lz4", "keys,fixed:8,lz4"):
        run = Run(f"simulate --workers 8 --servers 4 -- train fm {data} --rank 8 --epochs 2 "
                  f"--clocks-per-epoch 20 --rule ftrl --consistency bsp --filter {chain}",
                  options.show)
        runs[chain] = run
        rows.append([chain, run.summary["network_bytes"] / 1e6, run.best, run.last])
    print_table(["filter", "MB", "best logloss", "last logloss"], rows)
    for bits, times, limit in ((16, 3, 0.01), (8, 6, 0.01)):
        run = runs[f"keys,fixed:{bits},lz4"]
        less = runs["none"].summary["network_bytes"] / run.summary["network_bytes"]
        worse = run.last / runs["none"].last - 1
        claims(f"{bits} bits and lz4 send {times} times less, at {100 * limit:g}% of the logloss "
               "or less", less >= times and worse <= limit,
               f"{less:.2f} times less, {100 * worse:+.2f}%")


def main():
    options = parse(__doc__)
    claims = Claims()
    data = split(generate("difacto.svm", "clicks --examples 250000 --vocabulary 100000"))
    compare_constraints(claims, data, options)
    compare_filters(claims, data, options)
    return claims.finish("difacto")


sys.exit(main())
