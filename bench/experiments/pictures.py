#!/usr/bin/python3
"""bench/experiments/pictures.py FOLDER - the pictures of docs/experiments, drawn from their data.

What an experiment measures for a picture is written to FOLDER/data/NAME.csv, and the picture
FOLDER/NAME.svg is drawn from it. As a program, this draws all pictures of a folder again from their
data and runs nothing. A file of data has a line for each point: the panel, the series, x, and y.
In this module data are {panel: {series: [(x, y), ...]}}, in the order in which panels are shown.

A title says what to see in a picture. It is about what docs/experiments says and the experiments'
claims check, so look at it again when a claim changes.
"""

import csv
import sys
from pathlib import Path

import charts
from common import OUT

BLACK, GREY, SKY, BLUE, NAVY = "#111111", "#7b8794", "#56b4e9", "#0072b2", "#08306b"
GREEN, ORANGE, RED, PINK = "#009e73", "#e69f00", "#d55e00", "#cc79a7"
LOG_MS = "virtual milliseconds (log)"
REACH = {"linear": 0.018, "mf": 0.035}  # how far above the lowest objective pictures go

# A curve's colour, marker and dash.
BOUNDS = {"BSP": (BLACK, "o"), "SSP, s = 1": ("#a6cee3", "^"), "SSP, s = 3": (SKY, "s"),
          "SSP, s = 7": (BLUE, "D"), "SSP, s = 15": (NAVY, "v"), "SSP, s = 31": (PINK, "P"),
          "eager, s = 7": (RED, "o"), "asynchronous": (GREEN, "s", "--")}
PARTS = {"computing": BLUE, "on the way": ORANGE, "waiting for others": "#9b2226"}
METHODS = {"BSP": (BLACK, ""), "BSP mean": (BLACK, "", "--"), "ASP": (GREEN, ""),
           "SSPSGD 3": (ORANGE, "", "--"), "ConSGD 3": (BLUE, "", "--"),
           "DynSGD 3": (RED, "", "--"), "SSPSGD 10": (ORANGE, ""), "ConSGD 10": (BLUE, ""),
           "DynSGD 10": (RED, "")}
SOLVERS = {"emso-cd": (RED, "o"), "sgd 10,000": (SKY, "s"), "sgd 100,000": (NAVY, "D"),
           "lbfgs": (BLACK, "^", "--"), "emso-gd": (GREEN, "v"), "clicks": (ORANGE, "o"),
           "imdb": (BLUE, "s")}
RULES = {"SSPSGD": (ORANGE, "s"), "ConSGD": (BLUE, "o"), "DynSGD": (RED, "D", "--"),
         "AdaGrad": (BLUE, "s"), "AdaDelay": (RED, "o"), "AdaRevision": (GREEN, "D"),
         "even": (BLUE, "o"), "half slowed": (RED, "s"),
         "as it is": (ORANGE, "o"), "synchronised": (BLUE, "s")}
SYNCS = {"1 per pass": (BLACK, "o"), "2 per pass": (GREY, "^"), "4 per pass": (SKY, "s"),
         "8 per pass": (BLUE, "D"), "16 per pass": (RED, "v")}
MANAGED = {"BS, 1 to 8 clocks": (BLACK, "o", "--"), "sweep": ("#8c6d31", "X"),
           "MC, oldest": (SKY, "^"), "MC, walk": (BLUE, "v"), "MC, random": (GREEN, "s"),
           "MC, magnitude": (RED, "D"), "MC, relative": (ORANGE, "o")}
PROGRESS = {"BS-1": (GREY, "o"), "BS-8": (GREY, "s", ":")}
for _times, _look in ((2, (PINK, "^")), (6, ("#a0457e", "D")), (23, ("#4d1a3d", "v"))):
    PROGRESS |= {f"MC x{_times} {_priority}": _look for _priority in ("relative", "magnitude")}
FILTERS = {"keys": (BLACK, "o"), "keys,zstd": (SKY, "^"), "keys,kkt": (ORANGE, "s"),
           "keys,kkt,zstd": (BLUE, "D"), "keys,kkt,changed,zstd": (GREEN, "v"),
           "keys,kkt,changed,fixed:8,zstd": (RED, "o")}


def curves_of(found, looks):
    """The series of a panel in the order of their looks."""
    return [charts.Curve(name, look[0], found[name], look[1], *look[2:])
            for name, look in looks.items() if found.get(name)]


def above_lowest(curves, reach):
    """A range from a little below the lowest point to `reach` above it."""
    low = min(y for curve in curves for _, y in curve.points)
    return low - 0.06 * reach, low + reach


def panel_of(title, labels, curves, **more):
    return charts.Curves(title, labels[0], labels[1], curves, has_log_x="(log)" in labels[0],
                         has_log_y="(log)" in labels[1], **more)


def bars_of(title, labels, found, colours, notes, **more):
    """Stacked bars of the series that have a colour, from the bottom up."""
    names = [f"{x:g}" if isinstance(x, float) else x for x, _ in next(iter(found.values()))]
    parts = [(name, colour, values_of(found, name)) for name, colour in colours.items()]
    return charts.Bars(title, *labels, names, parts, notes, **more)


def values_of(found, name):
    return [y for _, y in found[name]]


def in_rows(panels, count):
    return [panels[i:i + count] for i in range(0, len(panels), count)]


def ssp_convergence(data, reach):
    panels = []
    for name, found in data.items():
        curves = curves_of(found, BOUNDS)
        panels.append(panel_of(name, (LOG_MS, "objective"), curves,
                               y_range=above_lowest(curves, reach)))
    return charts.Layout([panels], 2.9, shares_y=True)


def ssp_breakdown(data):
    panels = []
    for name, found in data.items():
        times = zip(*(values_of(found, part) for part in PARTS))
        panels.append(bars_of(name, ("staleness (e: eager reads)", "µs per clock"), found, PARTS,
                              [f"{(way + wait) / computing:.1f}" for computing, way, wait
                               in times]))
    return charts.Layout(in_rows(panels, 3), 2.2, shares_y=True)


def ssp_quantity(data):
    panels = []
    for name, found in data.items():
        job, what = name.split(": ")
        if what == "quantity":
            rates = values_of(found, "clocks per second")
            panels.append(bars_of(name, ("staleness", "clocks per second"), found,
                                  {"clocks per second": "#8aa4b8"},
                                  [f"{rate:,.0f}" for rate in rates], shows_keys=False))
        else:
            curves = curves_of(found, BOUNDS)
            x_label = "clocks" if what == "quality" else LOG_MS
            panels.append(panel_of(name, (x_label, "objective"), curves,
                                   y_range=above_lowest(curves, REACH[job])))
    return charts.Layout(in_rows(panels, 3), 2.3)


def ssp_stragglers(data):
    panels = [bars_of(name, ("staleness (e: eager reads)", "ms per clock"), found, PARTS,
                      [f"{ms:.1f}" for ms in values_of(found, "a clock")])
              for name, found in data.items()]
    return charts.Layout([panels], 2.5, shares_y=True)


def hetero_table3(data):
    panels = []
    for name, found in data.items():
        target, curves = found["target"][0][1], curves_of(found, METHODS)
        low = min(y for curve in curves for _, y in curve.points)
        high = target + 2.5 * (target - low)
        seen = [x for curve in curves for x, y in curve.points if y <= high]
        panels.append(panel_of(name, (LOG_MS, "lowest objective"), curves, has_steps=True,
                               x_range=(0.8 * min(seen), 1.15 * max(seen)),
                               y_range=(low - 0.1 * (high - low), high),
                               target=(target, "target")))
    return charts.Layout(in_rows(panels, 2), 1.8, shares_y=True)


def hetero_robust(data):
    labels = {"best step of each": ("clock of worker 0", "objective"),
              "step size": ("step size (log)", "lowest objective"),
              "staleness": ("staleness (log)", "lowest objective"),
              "workers": ("workers (log)", "lowest objective")}
    panels = []
    for name, found in data.items():
        curves = curves_of(found, RULES)
        ys = [y for curve in curves for _, y in curve.points]
        reach = 0.12 if "clock" in labels[name][0] else min(0.25, 1.1 * (max(ys) - min(ys)))
        panels.append(panel_of(name, labels[name], curves, y_range=above_lowest(curves, reach)))
    return charts.Layout(in_rows(panels, 2), 2.2)


def adaptive_steps(data):
    panels = [panel_of(name, ("initial step (log)", "passes (log)"), curves_of(found, SYNCS),
                       y_range=(0.6, 75)) for name, found in data.items()]
    return charts.Layout(in_rows(panels, 4), 2.2, shares_y=True)


def adaptive_stragglers(data):
    panels = []
    for name, found in data.items():
        curves = curves_of(found, RULES)
        reach = 0.06 if name.startswith("generated") else 0.3
        panels.append(panel_of(name, ("virtual milliseconds", "objective"), curves,
                               y_range=above_lowest(curves, reach)))
    return charts.Layout(in_rows(panels, 2), 2.3, shares_y=True)


def adaptive_delays(data):
    marks = [(found[0][0], RULES[name][0]) for name, found in data["medians"].items()]
    return charts.Layout([[panel_of("", ("delay in messages", "messages"),
                                    curves_of(data["delays"], RULES), marks=marks)]], 2.6)


def managed_passes(data):
    panels = []
    for name, found in data.items():
        if name.endswith("passes"):
            panels.append(panel_of(name, ("traffic per pass, BS-1 = 1 (log)", "passes (log)"),
                                   curves_of(found, MANAGED)))
        else:
            panels.append(panel_of(name, ("passes", "objective"), curves_of(found, PROGRESS)))
    return charts.Layout(in_rows(panels, 2), 2.4)


def managed_rows(data):
    looks = {name.removeprefix("MC, "): (look[0], "") for name, look in MANAGED.items()}
    panels = [panel_of(name, ("times (log); 0.5: never", "part of the rows"),
                       curves_of(found, looks), has_steps=True)
              for name, found in data.items()]
    return charts.Layout(in_rows(panels, 2), 2.3, shares_y=True)


def partition(data):
    panels = []
    for name, found in data.items():
        target, curves = found["target"][0][1], curves_of(found, RULES)
        reach = 0.04 if name.startswith("dense") else 0.06
        panels.append(panel_of(name, ("updates", "objective"), curves,
                               y_range=above_lowest(curves, reach), target=(target, "target"),
                               marks=[(found[f"mean, {curve.name}"][0][0], curve.colour)
                                      for curve in curves]))
    return charts.Layout(in_rows(panels, 2), 2.3, shares_y=True)


def solvers(data):
    panels = [bars_of("dbpg: time of 16 workers", ("delay", "% of the time"), data["delay"], PARTS,
                      [f"{ms:.0f}" for ms in values_of(data["delay"], "virtual ms")]),
              panel_of("dbpg: weights left alone", ("pass", "% of the weights"),
                       curves_of(data["inactive"], SOLVERS))]
    if "objective" in data:
        panels.append(panel_of("12 workers", (LOG_MS, "objective"),
                               curves_of(data["objective"], SOLVERS), y_range=(0.355, 0.52)))
    return charts.Layout([panels], 2.9)


def filters_bytes(data):
    panels = [panel_of(name, ("pass", "% left (log)"), curves_of(found, FILTERS))
              for name, found in data.items()]
    return charts.Layout(in_rows(panels, 4), 2.2, shares_y=True)


def filters_bits(data):
    colours = {"workers send": BLUE, "servers send": ORANGE}
    panels = []
    for name, found in data.items():
        worse = values_of(found, "objective worse by %")
        panels.append(bars_of(name, ("bits per value", "MB"), found, colours,
                              [f"{loss:+.1f}%" if abs(loss) >= 0.05 else "0%" for loss in worse]))
    return charts.Layout([panels], 2.4)


# By name: how it is laid out, what to see, and what is shown.
PICTURES = {
    "ssp-convergence-linear": (
        lambda data: ssp_convergence(data, REACH["linear"]),
        "Bounded staleness is about twice as fast as BSP, and eager reads are faster still",
        "Logistic regression (linear): objective against virtual time, as many servers as workers; "
        "not shown: s = 31, far above"),
    "ssp-convergence-mf": (
        lambda data: ssp_convergence(data, REACH["mf"]),
        "Bounded staleness is two to three times as fast as BSP, more so with more workers",
        "Matrix factorisation (mf): objective against virtual time, as many servers as workers; "
        "not shown: s = 31, far above"),
    "ssp-breakdown": (
        ssp_breakdown,
        "The larger the bound, the less a worker waits; computing takes equally long",
        "Where the time of a clock goes; above the bars: waiting of both kinds, divided by "
        "computing"),
    "ssp-quantity": (
        ssp_quantity,
        "More staleness gives more clocks, too much gives worse ones: best is in between",
        "How many clocks a worker makes, how good they are, and both together; 32 workers; "
        "not shown: s = 31, far above"),
    "ssp-stragglers": (
        ssp_stragglers,
        "Staleness hides moments that are slow, but not workers that are slow all the time",
        "30 workers; above the bars: milliseconds of a clock"),
    "hetero-table3": (
        hetero_table3, "Rules that weigh updates are several times as fast as rules that add them",
        "ConSGD, DynSGD and BSP mean weigh. The lowest objective so far, each with its best step; "
        "3 and 10 are bounds"),
    "hetero-robust": (
        hetero_robust,
        "Adding updates (SSPSGD) fails with more staleness or workers; weighing does not",
        "Logistic regression on clicks, 50 clocks, 20% of the workers twice as slow"),
    "adaptive-steps": (
        adaptive_steps,
        "With trust, any step from 0.05 to 2 does well; without, it must be about right",
        "Matrix factorisation, 8 workers: passes to the target by initial step and "
        "synchronisations per pass; no point: never"),
    "adaptive-stragglers": (
        adaptive_stragglers,
        "AdaDelay is ahead of AdaGrad on generated data; on the reviews all are level",
        "Logistic regression, nobody waits, each rule with its best step: objective against "
        "virtual time"),
    "adaptive-delays": (
        adaptive_delays,
        "The median gradient is late by half the workers, by more if some are slow",
        "100 workers, all alike (even) and half of them slowed, without the first 100 messages; "
        "dotted: the medians"),
    "managed-passes": (
        managed_passes, "The more bandwidth for early rows (MC), the fewer passes to the target",
        "Matrix factorisation, AdaRevision, 8 workers; against smaller clocks (BS) and the "
        "asynchronous sweep"),
    "managed-classes-passes": (
        managed_passes,
        "Early rows (MC) save most on MNIST, whose rows differ; those of classes are alike",
        "Multinomial logistic regression, AdaRevision, 8 workers; against smaller clocks (BS) and "
        "the sweep"),
    "managed-rows": (
        managed_rows,
        "By magnitude some rows go often and others seldom; at random they go more alike",
        "Early rows at twice the traffic of bounded staleness: the part of the rows that go at "
        "most as often"),
    "partition": (
        partition, "Synchronised reads save updates on dense data, and cost some on sparse data",
        "Logistic regression, DynSGD, s = 3, 30 workers, one of 20 seeds; dotted: the mean updates "
        "to the target of all"),
    "solvers": (
        solvers, "A delay removes waiting, most weights are left alone, emso-cd beats sgd",
        "Solvers of linear models on clicks and reviews (imdb); above the bars: virtual "
        "milliseconds"),
    "filters-bytes": (
        filters_bytes,
        "Key caching, KKT and zstd together leave less than 5% of the keys and values",
        "L1 logistic regression, 8 workers, 4 servers: % of the bytes of keys and values without "
        "filter, over the run"),
    "filters-bits": (
        filters_bits,
        "Eight bits save a quarter to half of the bytes, the objective stays; four can harm it",
        "keys,fixed:N,lz4: all that is sent; above the bars: how much worse the objective is"),
}


def number_or_text(word):
    try:
        return float(word)
    except ValueError:
        return word


def load(path):
    data = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            series = data.setdefault(row["panel"], {}).setdefault(row["series"], [])
            series.append((number_or_text(row["x"]), float(row["y"])))
    return data


def draw(folder, name):
    lay_out, title, note = PICTURES[name]
    charts.write(folder / f"{name}.svg", title, note, lay_out(load(folder / f"data/{name}.csv")))


def write(name, data):
    """Keeps the data of a picture, and draws it from what was kept."""
    def words(value):
        return value if isinstance(value, str) else f"{value:.7g}"

    (OUT / "data").mkdir(exist_ok=True)
    with open(OUT / f"data/{name}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["panel", "series", "x", "y"])
        writer.writerows([panel, series, words(x), words(y)] for panel, found in data.items()
                         for series, points in found.items() for x, y in points)
    try:
        draw(OUT, name)
    except charts.Unreadable as error:  # what was measured is kept
        print(f"{name}.svg: {error}; see bench/experiments/pictures.py")


if __name__ == "__main__":
    for _name in PICTURES:
        draw(Path(sys.argv[1]), _name)
