"""Rows that travel before a clock ends, over processes: they help, and nothing that goes wrong
meanwhile is worse than without them."""

import json
import os
import signal

import pytest

from cluster import Process, children_of, errors_of, events, group_of, is_gone, wait_for
from conftest import ROOT, Rubato
from test_survive import WORKERS, run_through_relays

QUIET = ["--progress", "never", "--summary", "json"]
SPREAD = ["--servers", "2", "--workers", "4"]
PRIORITY = "examples/priority.so"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    run = Rubato(tmp_path_factory.mktemp("managed"))
    run.ok("gen", "ratings", "--users", "400", "--items", "200", "--ratings", "20000", "--out",
           "ratings.csv")
    run.ok("gen", "ratings", "--users", "40", "--items", "30", "--ratings", "600", "--out",
           "small.csv")
    return run.folder


def train(data, *more, name="ratings.csv"):
    return ["train", "mf", "--data", data / name, "--rule", "adarev", *more]


def summary(text):
    return json.loads(text.splitlines()[-1])


@pytest.fixture(scope="module")
def plain(data):
    """What a run without it reaches."""
    words = train(data, *QUIET, "--epochs", "10", "--consistency", "bsp")
    return summary(Rubato(data).ok("run", *SPREAD, "--", *words))


@pytest.mark.parametrize("budget", ["5MB", "500MB"])
@pytest.mark.parametrize("consistency", ["bsp", "essp:2"])
def test_it_learns_as_well(rubato, data, plain, budget, consistency):
    words = train(data, *QUIET, "--epochs", "10", "--consistency", consistency, "--bandwidth",
                  budget, "--priority", "relative")
    made = summary(rubato.ok("run", *SPREAD, "--", *words))
    assert made["objective"] < plain["objective"] * 1.1
    assert made["early_sent"] > 0 and made["early_bytes_sent"] > 0
    assert made["early_bytes_sent"] < made["bytes_sent"]
    assert made["updates"] > plain["updates"]
    assert plain["early_sent"] == plain["early_received"] == plain["early_pauses"] == 0


def test_rows_come_early_as_well(rubato, data):
    """Long clocks, and room for everything."""
    words = train(data, *QUIET, "--epochs", "30", "--clocks-per-epoch", "1", "--bandwidth", "1GB")
    made = summary(rubato.ok("run", *SPREAD, "--", *words))
    assert made["early_received"] > 0 and made["early_bytes_received"] > 0


def test_people_are_told(rubato, data):
    words = train(data, "--progress", "never", "--epochs", "4", "--clocks-per-epoch", "1",
                  "--summary", "full")
    text = rubato.ok("run", *SPREAD, "--", *words, "--bandwidth", "500MB")
    assert "  early      " in text and " rows sent before the clock ended, " in text
    assert "  early      " not in rubato.ok("run", *SPREAD, "--", *words)


@pytest.mark.parametrize("start", [[], ["run", *SPREAD, "--"], ["simulate", *SPREAD, "--"]],
                         ids=["train", "run", "simulate"])
def test_priorities_of_ones_own(rubato, data, start):
    """Servers get the whole path, wherever they were started."""
    build = os.path.dirname(os.path.realpath(os.environ.get("RUBATO") or ROOT / "build/rubato"))
    os.symlink(os.path.join(build, PRIORITY), rubato.folder / "mine.so")
    words = train(data, *QUIET, "--epochs", "4", "--clocks-per-epoch", "2", "--bandwidth", "100MB")
    assert summary(rubato.ok(*start, *words, "--priority", "./mine.so"))["early_sent"] > 0
    done = rubato(*start, *words, "--priority", "loudest")
    assert done.returncode == 2
    assert 'there is no priority "loudest"' in done.stderr


def test_a_priority_needs_a_budget(rubato, data):
    done = rubato(*train(data, *QUIET), "--priority", "random")
    assert done.returncode == 2
    assert '"--priority" needs "--bandwidth"' in done.stderr


@pytest.mark.parametrize("target", ["worker/1", "server/1"])
def test_nobody_hangs_when_somebody_is_lost(data, tmp_path, target):
    log = tmp_path / "run.jsonl"
    job = Process(tmp_path, "run", "run", "--servers", 2, "--workers", 3, "--timeout", "2s", "--",
                  *train(data, *QUIET, "--epochs", "1000000", "--bandwidth", "50MB", "--log", log))
    try:
        wait_for(lambda: len(events(log)) >= 3 or job.ends(), "the job to be under way")
        pids = children_of(job.pid)
        os.kill(pids[target], signal.SIGKILL)
        assert job.wait() == 1, job.err
        wait_for(lambda: all(map(is_gone, pids.values())), "everybody to be gone")
        assert not [p for pid in pids.values() for p in group_of(pid)]
    finally:
        job.stop()
    assert target in job.error()


def test_a_hundred_cut_connections(data, tmp_path):
    """What was on its way early is asked for again or done without; no update is lost."""
    words = train(data, *QUIET, "--rank", "4", "--clocks-per-epoch", "2", "--epochs", "200",
                  name="small.csv")
    calm = summary(Rubato(tmp_path).ok("run", "--servers", "2", "--workers", WORKERS, "--", *words))
    made, said = run_through_relays(
        tmp_path, [*words, "--log", "run.jsonl", "--bandwidth", "50MB"], None)
    assert made["early_sent"] > 0
    assert made["clocks"] == calm["clocks"]
    assert made["objective"] < calm["objective"] * 1.2
    assert "assertion" not in said and not errors_of(said)


@pytest.mark.parametrize("words, needs", [
    (["linear", "--data", "x.svm"], "a rule that takes gradients, such as adarev"),
    (["mf", "--data", "small.csv"], "a rule that takes gradients, such as adarev")])
def test_it_is_refused_where_nothing_would_travel(rubato, data, words, needs):
    result = rubato("train", *words, "--bandwidth", "5MB")
    assert result.returncode == 2
    assert f'"--bandwidth" needs {needs}: nothing else sends rows early' in result.stderr
