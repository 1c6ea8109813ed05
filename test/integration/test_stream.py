"""Examples on disk: the same model at all storage levels, and a limit on memory that is kept."""

import json
import os
import random

import pytest
from conftest import Rubato

QUIET = ["--summary", "json", "--progress", "never"]
LEVELS = ["memory", "disk", "memory-and-disk"]
SANITIZED = "asan" in os.environ.get("RUBATO", "") or "tsan" in os.environ.get("RUBATO", "")


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """A file of 25 MB, which takes 140 MB of memory to train on."""
    run = Rubato(tmp_path_factory.mktemp("stream"))
    run.ok("gen", "clicks", "--examples", "100k", "--columns", "39", "--vocabulary", "2k", "--out",
           "clicks.svm")
    return run.folder / "clicks.svm"


def train(rubato, *words):
    return json.loads(rubato.ok("train", "linear", *words, *QUIET).splitlines()[-1])


@pytest.mark.parametrize("words", [[], ["--clocks-per-epoch", "5", "--l1", "1e-4"],
                                   ["--rule", "adagrad"], ["--min-count", "8"]])
def test_all_levels_give_the_same_model(rubato, shelf, words):
    digests = {train(rubato, "--data", shelf / "train.svm", "--consistency", "bsp", "--workers",
                     "2", "--storage", level, "--cache", ".", *words)["digest"]
               for level in LEVELS}
    assert len(digests) == 1
    assert not [name for name in os.listdir(rubato.folder) if name.startswith("rubato")]


def table(rubato, name, is_sorted):
    """Columns far from zero and of different units, of which the label is a sum with some noise."""
    draw = random.Random(5)
    rows = []
    for _ in range(3000):
        x = [draw.gauss(0, 1) for _ in range(3)]
        y = x[0] - 2 * x[1] + 3 * x[2] + draw.gauss(0, 1)
        rows.append((2000 + 5 * x[0], -1e5 + 300 * x[1], 0.01 + 0.001 * x[2],
                     draw.choice(["red", "blue"]), y))
    rows.sort(key=lambda row: row[-1] if is_sorted else 0)
    rubato.write(name, "a,b,c,colour,y\n" + "".join(
        ",".join(f"{cell:.6f}" if isinstance(cell, float) else cell for cell in row) + "\n"
        for row in rows))


def test_tables_on_disk_are_standardised_too(rubato):
    """Means, scales and the penalty are those of examples in memory, and the result is near the
    best one, whose RMSE is 1: without them it is about that of no model at all."""
    table(rubato, "table.csv", False)
    words = ["--data", "table.csv", "--eval", "table.csv", "--categorical", "auto", "--loss",
             "squared", "--solver", "sgd", "--consistency", "bsp", "--workers", "2"]
    found = [train(rubato, *words, *more) for more in
             ([], ["--storage", "memory"], ["--storage", "disk"], ["--memory-limit", "200M"])]
    assert len({summary["digest"] for summary in found}) == 1
    assert len({summary["chosen"] for summary in found}) == 1
    assert "held-out" in found[0]["chosen"]
    assert found[0]["eval"]["rmse"] < 1.05


def test_newton_reads_from_disk_too(rubato):
    """A limit does not change the default solver where features are few, nor its result; over
    processes and simulated it is the same."""
    table(rubato, "table.csv", False)
    words = ["train", "linear", "--data", "table.csv", "--categorical", "auto", "--loss", "squared",
             *QUIET]
    limit = ["--memory-limit", "200M"]
    found = [json.loads(rubato.ok(*start, *words, *end).splitlines()[-1]) for start, end in [
        ([], ["--workers", "2"]), ([], ["--workers", "2", "--storage", "disk"]),
        ([], ["--workers", "2", *limit]), (["simulate", "--workers", "2", "--"], limit),
        (["run", "--workers", "2", "--servers", "1", "--"], limit)]]
    assert {"solver newton" in summary["chosen"] for summary in found} == {True}
    assert len({summary["digest"] for summary in found}) == 1


def test_the_order_of_lines_on_disk_does_not_matter_to_the_penalty(rubato):
    chosen = set()
    for name in ("shuffled.csv", "sorted.csv"):
        table(rubato, name, name == "sorted.csv")
        chosen.add(train(rubato, "--data", name, "--categorical", "auto", "--loss", "squared",
                         "--memory-limit", "200M", "--workers", "1")["chosen"])
    assert len(chosen) == 1 and "held-out" in chosen.pop()


def test_processes_and_simulations_read_from_disk_too(rubato, shelf):
    words = ["train", "linear", "--data", shelf / "train.svm", "--consistency", "bsp", "--solver",
             "sgd", "--l2", "0.001", *QUIET]
    digests = {json.loads(rubato.ok(*start, *words, *end).splitlines()[-1])["digest"]
               for start, end in [([], ["--workers", "2"]),
                                  (["simulate", "--workers", "2", "--"], ["--storage", "disk"]),
                                  (["run", "--workers", "2", "--servers", "1", "--"],
                                   ["--storage", "disk"])]}
    assert len(digests) == 1


@pytest.mark.skipif(SANITIZED, reason="sanitizers need memory of their own")
def test_the_limit_is_kept(rubato, clicks):
    words = ["--data", clicks, "--consistency", "bsp", "--workers", "2", "--epochs", "2", "--l2",
             "1e-5"]
    limit = 48
    free = train(rubato, *words)
    assert free["peak_rss_mb"] > 1.5 * limit  # or there would be nothing to keep
    for level in LEVELS[1:]:
        held = train(rubato, *words, "--memory-limit", f"{limit}M", "--storage", level)
        assert held["digest"] == free["digest"] and held["objective"] == free["objective"]
        assert held["peak_rss_mb"] <= limit, level


def test_what_cannot_be_is_refused(rubato, shelf):
    for words, message in [
            (["--memory-limit", "100M", "--storage", "memory"],
             'options "--memory-limit" and "--storage memory" exclude each other'),
            (["--storage", "disk", "--rebalance"], '"--rebalance" needs all examples in memory'),
            (["--storage", "disk", "--cache", "nowhere"],
             'cannot keep data in "nowhere": there is no such directory')]:
        result = rubato("train", "linear", "--data", shelf / "train.svm", *words)
        assert result.returncode != 0 and result.stdout == ""
        assert message in result.stderr


@pytest.mark.skipif(SANITIZED, reason="sanitizers need memory of their own")
def test_a_batch_that_does_not_fit_is_refused(rubato):
    rubato.ok("gen", "sparse", "--examples", "60000", "--features", "1000", "--nonzeros", "40",
              "--out", "train.svm")
    words = ["train", "linear", "--data", "train.svm", "--memory-limit", "24M", "--workers", "2",
             "--epochs", "1", "--progress", "never"]
    result = rubato(*words, "--batch", "60k")
    assert result.returncode == 2
    assert "too small: the workers' batches of 60000 examples take" in result.stderr
    rubato.ok(*words, "--batch", "100")


def test_the_gradients_of_a_long_clock_come_in_pieces(rubato):
    """All examples in one clock: they are not in memory at once, and the bits are the same."""
    rubato.ok("gen", "sparse", "--examples", "20000", "--features", "500", "--nonzeros", "40",
              "--out", "train.svm")
    words = ["train", "linear", "--data", "train.svm", "--rule", "adagrad", "--workers", "2",
             "--clocks-per-epoch", "1", "--epochs", "3", "--consistency", "bsp", "--progress",
             "never", "--summary", "json"]
    found = {json.loads(rubato.ok(*words, "--storage", storage).splitlines()[-1])["digest"]
             for storage in ("memory", "disk")}
    assert len(found) == 1
