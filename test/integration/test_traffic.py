"""What logs say of messages, and the pictures of it: bytes by what they were for, nodes, lags, how
often rows travelled early. The parts must add up to the whole."""

import json
import shlex
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from cluster import events
from conftest import PROGRAM, TIMEOUT_S, Rubato, environment

JSON = ["--progress", "never", "--summary", "json"]
SPREAD = ["--servers", "2", "--workers", "4"]
SPACE = "{http://www.w3.org/2000/svg}"
STARTS = {"train": ["train"], "run": ["run", *SPREAD, "--", "train"],
          "simulate": ["simulate", *SPREAD, "--", "train"]}
MODES = {"plain": ["--consistency", "essp:2"],
         "managed": ["--consistency", "essp:2", "--bandwidth", "50MB"],
         "sweep": ["--consistency", "asp", "--bandwidth", "50MB", "--priority", "sweep"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs in every way and mode, each once: the folder of the logs, and summaries by name."""
    run = Rubato(tmp_path_factory.mktemp("traffic"))
    run.ok("gen", "ratings", "--users", "400", "--items", "100", "--ratings", "20000", "--out",
           "ratings.csv")
    summaries = {}
    for start, words in STARTS.items():
        for mode, more in MODES.items():
            name = f"{start}-{mode}"
            crew = ["--workers", "4"] if start == "train" else []
            text = run.ok(*words, "mf", *crew, "--data", "ratings.csv", "--rule", "adarev",
                          "--epochs", "6", "--clocks-per-epoch", "2", *more, "--log",
                          f"{name}.jsonl", *JSON)
            summaries[name] = json.loads(text.splitlines()[-1])
    return run, summaries


def evals(run, name):
    return [event for event in events(run.folder / f"{name}.jsonl") if event["event"] == "eval"]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("mode", MODES)
def test_classes_add_up(made, start, mode):
    """With the summary, and with the sum of all steps of the log."""
    run, summaries = made
    summary = summaries[f"{start}-{mode}"]
    for told in (summary, evals(run, f"{start}-{mode}")[-1]):
        assert sum(told["sent"].values()) == pytest.approx(summary["bytes_sent"], rel=1e-3)
        assert sum(told["received"].values()) == pytest.approx(summary["bytes_received"], rel=1e-3)
    assert (summary["sent"]["early"] > 0) == (mode != "plain")
    if start == "simulate" or mode == "plain":  # else it depends on who runs when
        assert (summary["received"]["early"] > 0) == (mode != "plain")
    assert summary["sent"]["clock"] > 0 and summary["received"]["read"] > 0
    assert summary["received"]["clock"] == 0
    assert (summary["sent"]["other"] > 0) == (start != "train")
    assert sum(summary["lag_counts"]) == summary["reads"]


@pytest.mark.parametrize("start", STARTS)
def test_runs_have_the_papers_names(made, start):
    """The same program in all modes: only options differ."""
    run, summaries = made
    assert [summaries[f"{start}-{mode}"]["mode"] for mode in MODES] == (
        ["BS-2", "MC-400-RM", "sweep-400"])
    assert events(run.folder / f"{start}-plain.jsonl")[-1]["summary"]["mode"] == "BS-2"


@pytest.mark.parametrize("start", STARTS)
def test_bytes_only_grow(made, start):
    run, _ = made
    told = evals(run, f"{start}-managed")
    for before, after in zip(told, told[1:]):
        assert after["t"] >= before["t"]
        for way in ("sent", "received"):
            assert all(after[way][name] >= before[way][name] for name in after[way])
    assert all(event["workers"] == 4 for event in told)


def test_nodes_of_a_simulation_add_up(made):
    run, summaries = made
    nodes = {event["node"]: event for event in events(run.folder / "simulate-managed.jsonl")
             if event["event"] == "traffic"}
    assert sum(event["bytes_sent"] for event in nodes.values()) == (
        summaries["simulate-managed"]["network_bytes"])


def curves_of(run, *words):
    """The texts of a picture, and how many curves it has."""
    run.ok("plot", *words, "--out", "x.svg")
    tree = ElementTree.parse(run.folder / "x.svg")
    return ([element.text for element in tree.iter(f"{SPACE}text")],
            len(tree.findall(f".//{SPACE}polyline")))


@pytest.mark.parametrize("start", STARTS)
def test_pictures_of_every_kind_of_run(made, start):
    run, _ = made
    log = f"{start}-managed.jsonl"
    texts, count = curves_of(run, log, "--show", "bandwidth")
    assert {"updates sent", "updates sent early", "rows received"} < set(texts)
    assert count >= 3 and any(text in texts for text in ("B/s", "kB/s", "MB/s", "GB/s"))
    texts, count = curves_of(run, log, f"{start}-plain.jsonl", "--show", "lag")
    assert {f"{start}-managed", f"{start}-plain", "share of the reads"} < set(texts) and count == 2
    texts, count = curves_of(run, log, "--show", "rows")
    assert {"sent", "received", "times"} < set(texts) and count == 2


def test_nodes_are_drawn(made):
    run, _ = made
    texts, count = curves_of(run, "simulate-managed.jsonl", "--show", "nodes")
    assert {"server/1 sent", "worker/3 received"} < set(texts) and count >= 12


@pytest.mark.parametrize("show", ["bandwidth", "nodes", "lag", "rows"])
def test_terminal_and_png(made, show):
    run, _ = made
    text = run.ok("plot", "simulate-managed.jsonl", "--show", show,
                  env=environment(LC_ALL="C", COLUMNS="80"))
    assert text.isascii() and max(map(len, text.splitlines())) <= 80
    if shutil.which("gnuplot") is not None:
        run.ok("plot", "simulate-managed.jsonl", "--show", show, "--out", "x.png")
        assert (run.folder / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("show, error", [
    ("nodes", "has no figures about nodes"), ("rows", "has no figures about rows sent early")])
def test_what_a_log_does_not_tell(made, show, error):
    run, _ = made
    result = run("plot", "train-plain.jsonl", "--show", show)
    assert result.returncode == 1
    assert result.stderr.startswith(
        f'rubato: error: log "train-plain.jsonl" {error}\nrubato: hint: ')


def test_sweeps_follow_from_the_bandwidth(made):
    """All rows go equally often, and as often as there is room for: what a worker sends is its
    budget, and in simulations the keys of requests besides."""
    run, _ = made
    rate = 40_000
    text = run.ok("simulate", "--workers", "4", "--servers", "4", "--stragglers", "100%x10000",
                  "--", "train", "mf", "--data", "ratings.csv", "--rule", "adarev", "--rank", "8",
                  "--epochs", "60", "--clocks-per-epoch", "1", "--consistency", "asp",
                  "--bandwidth", f"{rate}B", "--priority", "sweep", "--log", "s.jsonl", *JSON)
    summary = json.loads(text.splitlines()[-1])
    times = [pair[0] for pair in summary["row_sends"]]
    assert min(times) > 10 and max(times) <= 1.3 * min(times)
    nodes = {event["node"]: event for event in events(run.folder / "s.jsonl")
             if event["event"] == "traffic"}
    room = rate * summary["virtual_seconds"] + 128 * 1024  # and a burst
    for worker in range(4):
        assert 0.95 * room < nodes[f"worker/{worker}"]["bytes_sent"] < 1.2 * room


@pytest.mark.parametrize("mode", ["plain", "managed"])
def test_the_kernel_has_counted_the_same(made, mode):
    """Over TCP in a network of its own: what the loopback device has carried is what workers and
    servers have said to each other, and 5% for headers, acknowledgements and the coordinator. The
    run is long, since what is not told, as rows still on their way at the end, hardly grows."""
    run, _ = made
    words = [PROGRAM, "run", "--transport", "tcp", *SPREAD, "--", "train", "mf", "--data",
             "ratings.csv", "--rule", "adarev", "--rank", "300", "--epochs", "60",
             "--clocks-per-epoch", "2", *MODES[mode], *JSON]
    script = f"ip link set lo up && {shlex.join(words)} && grep lo: /proc/self/net/dev"
    done = subprocess.run(["unshare", "--map-root-user", "--net", "sh", "-c", script],
                          cwd=run.folder, env=environment(), capture_output=True, text=True,
                          check=False, timeout=TIMEOUT_S)
    if done.returncode != 0 and ("unshare" in done.stderr or "ip:" in done.stderr):
        pytest.skip("a network of its own is not allowed here")
    assert done.returncode == 0, done.stderr
    *_, summary, counted = done.stdout.splitlines()
    summary = json.loads(summary)
    carried = int(counted.split()[1])
    told = sum(summary["sent"].values()) + sum(summary["received"].values())
    assert 0.95 * carried < told < carried, summary
