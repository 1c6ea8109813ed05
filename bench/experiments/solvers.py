#!/usr/bin/python3
"""bench/experiments/solvers.py [--quick] [--show] - the solvers of `train linear` beside sgd.

Repeats figures 6.3, 6.4, 7.3 and 7.5 of "Scaling distributed machine learning with system and
algorithm co-design" (Li, thesis, 2017): what a delay does to delayed block proximal gradient (dbpg)
on 16 workers, how many weights it leaves alone, and how soon minibatches by coordinate descent
(emso-cd), minibatch SGD and L-BFGS get to the same objective on 12. docs/experiments/solvers.md
says what the figures mean.
"""

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pictures
from common import (SHARED, Claims, Simulator, draw_curves, generate, parse, print_table,
                    write_table)

DELAYS = (0, 1, 2, 4, 8)
SLOW = "--workers 16 --servers 4 --bandwidth 10Gbit --latency 20us --slowdowns 10%x3"
FOUR = "--workers 4 --servers 2"
TWELVE = "--workers 12 --servers 4"
L1 = 1e-4
MINIBATCH = 100_000


def dbpg(data, epochs, l1, more):
    return f"linear --data {data} --solver dbpg --no-bias --l1 {l1} --epochs {epochs} {more}"


def shares(summary):
    """What part of the workers' time was what."""
    parts = [summary[f"{name}_seconds"] for name in ("compute", "transmit", "wait")]
    return [100 * part / sum(parts) for part in parts]


def run_all(simulate, runs):
    """The summaries of (cluster, training) pairs, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda run: simulate(*run), runs))


def measure_delays(claims, simulate, data, options):
    """Figure 6.3: waiting and convergence by the delay."""
    delays = DELAYS[::4] if options.quick else DELAYS
    epochs = 4 if options.quick else 10
    found = run_all(simulate, [(SLOW, dbpg(data, epochs, L1, f"--blocks 256 --delay {delay}"))
                               for delay in delays])
    rows = [[delay, *shares(summary), 1000 * summary["virtual_seconds"], summary["objective"]]
            for delay, summary in zip(delays, found)]
    print(f"dbpg on 16 workers, clicks, {epochs} passes over 256 blocks")
    columns = ["delay", "computing %", "on the way %", "waiting %", "virtual ms", "objective"]
    print_table(columns, [[str(row[0]), *row[1:5], f"{row[5]:.6f}"] for row in rows])
    write_table("solvers-delays.csv", columns, rows)
    waits = [found[i]["wait_seconds"] for i in (0, -1)]
    claims("dbpg waits 30% of the time or more for others without a delay, and with a delay of 8 a "
           "tenth as long or less", rows[0][3] >= 30 and waits[1] <= waits[0] / 10,
           f"{rows[0][3]:.1f}% and {rows[-1][3]:.2f}% of the time; {100 * waits[1] / waits[0]:.1f}%"
           " as long")
    loss = 100 * (rows[-1][5] / rows[0][5] - 1)
    claims("a delay of 8 is faster by half or more, and after the same passes the objective is "
           "less than 1% worse", rows[0][4] >= 1.5 * rows[-1][4] and loss < 1,
           f"{rows[0][4] / rows[-1][4]:.2f} times, {loss:+.3f}%")
    names = ("computing", "on the way", "waiting for others", "virtual ms")
    return {name: [(row[0], row[i]) for row in rows] for i, name in enumerate(names, 1)}


def liblinear(data, l1, examples):
    """The objective that liblinear's L1 logistic regression gets to, or None without it."""
    if shutil.which("liblinear-train") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        plain = f"{folder}/data"
        with open(plain, "wb") as file:
            command = ["zstd", "-dcq", data] if str(data).endswith(".zst") else ["cat", data]
            subprocess.run(command, stdout=file, check=True)
        text = subprocess.run(["liblinear-train", "-s", "6", "-e", "0.0001", "-c",
                               str(1 / (examples * l1)), plain, f"{folder}/model"],
                              capture_output=True, text=True, check=True).stdout
    line = next(line for line in text.splitlines() if line.startswith("Objective value"))
    return float(line.split("=")[1]) * l1


def measure_inactive(claims, simulate, jobs, options):
    """Figure 6.4, and the objective against liblinear's."""
    curves, table = {}, []
    passes = (1, 4, 20) if options.quick else (1, 2, 5, 10, 20, 50)
    for name, data, l1, examples in jobs:
        found = run_all(simulate, [(FOUR, dbpg(data, epochs, l1, "--blocks 64"))
                                   for epochs in passes])
        plain = simulate(FOUR, dbpg(data, passes[-1], l1, "--blocks 64 --kkt 1"))
        inactive = [100 * summary["inactive"] for summary in found]
        last = found[-1]["objective"]
        claims(f"{name}: more than 95% of the weights are left alone near the minimum, and the "
               "objective is at most 0.01% above the one without",
               inactive[-1] > 95 and last / plain["objective"] - 1 <= 1e-4,
               f"{inactive[-1]:.2f}%, {100 * (last / plain['objective'] - 1):+.5f}%, computing "
               f"{plain['compute_seconds'] / found[-1]['compute_seconds']:.2f} times less")
        best = liblinear(data, l1, examples)
        if best is not None:
            claims(f"{name}: after {passes[-1]} passes the objective is at most 0.1% above "
                   "liblinear's (-s 6)", last / best - 1 <= 1e-3,
                   f"{last:.6f} and {best:.6f}, {100 * (last / best - 1):+.4f}%")
        table += [[name, epochs, share, summary["objective"]]
                  for epochs, share, summary in zip(passes, inactive, found)]
        curves[name] = list(zip(passes, inactive))
    write_table("solvers-inactive.csv", ["data", "passes", "inactive", "objective"], table)
    return curves


def measure_emso(claims, data, examples, options):
    """Figures 7.3 and 7.5: the objective over time."""
    common = f"linear --data {data} --l2 1e-5 --consistency bsp"
    rates = (100,) if options.quick else (30, 100, 300)
    tried = {"emso-cd": [f"{common} --solver emso-cd --minibatch {MINIBATCH} --gamma 1e-3 "
                         f"--epochs {3 if options.quick else 10}"],
             "emso-gd": [f"{common} --solver emso-gd --minibatch {MINIBATCH} --gamma 1e-3 --lr 4 "
                         f"--epochs {3 if options.quick else 40}"],
             "lbfgs": [f"{common} --solver lbfgs --epochs {5 if options.quick else 40}"]}
    for size, epochs in ((100_000, 40), (10_000, 8)):
        tried[f"sgd {size:,}"] = [f"{common} --rule sgd:lr={rate},alpha=0.05 --clocks-per-epoch "
                                  f"{examples // size} --epochs {epochs}" for rate in rates]
    runs = [(name, training) for name, trainings in tried.items() for training in trainings]
    curves = draw_curves([(TWELVE, training) for _, training in runs], options.show)
    best = {}
    for (name, _), curve in zip(runs, curves):
        if not curve.has_diverged and (name not in best
                                       or curve.points[-1][2] < best[name].points[-1][2]):
            best[name] = curve
    target = min(curve.points[-1][2] for name, curve in best.items() if name.startswith("sgd"))
    rows = [[name, 1000 * curve.points[-1][0], curve.points[-1][1], f"{curve.points[-1][2]:.5f}",
             1000 * curve.reach(target)[0]] for name, curve in best.items()]
    columns = ["solver", "virtual ms", "passes", "objective", f"ms to {target:.5f}"]
    print("clicks on 12 workers, l2 1e-5; of sgd, by minibatch, the best step size")
    print_table(columns, rows)
    write_table("solvers-emso.csv", columns, rows)
    mine = best["emso-cd"].reach(target)[0]
    theirs = min(curve.reach(target)[0] for name, curve in best.items() if name.startswith("sgd"))
    claims("emso-cd with minibatches of 100,000 needs at most a third of the time of minibatch "
           "SGD, at its best, to the same objective", mine <= theirs / 3,
           f"{1000 * mine:.1f} ms and {1000 * theirs:.1f} ms, {theirs / mine:.1f} times less")
    return {name: [(1000 * time, objective) for time, _, objective
                   in curve.points[::max(1, len(curve.points) // 20)]]
            for name, curve in best.items()}


def main():
    options = parse(__doc__)
    claims, simulate = Claims(), Simulator(options.show)
    count = 50_000 if options.quick else 200_000
    clicks = generate(f"solvers-clicks-{count}.svm",
                      f"clicks --examples {count} --vocabulary 20000")
    few = generate("solvers-clicks.svm", "clicks --examples 30000 --vocabulary 20000")
    jobs = [("clicks", few, 1e-3, 30_000)]
    imdb = SHARED / "imdb/imdb.train.libsvm.zst"
    if imdb.exists() and not options.quick:
        jobs.append(("imdb", imdb, 1e-3, 25_000))
    data = {"delay": measure_delays(claims, simulate, clicks, options),
            "inactive": measure_inactive(claims, simulate, jobs, options)}
    if not options.quick:
        data["objective"] = measure_emso(claims, clicks, count, options)
    pictures.write("solvers", data)
    return claims.finish("solvers")


sys.exit(main())
