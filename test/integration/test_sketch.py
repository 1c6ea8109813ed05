"""Sketches from a raw file to estimates, in one process, in several and simulated."""

import json

import pytest

QUIET = ["--progress", "never", "--summary", "json"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A stream; its truth lies beside it."""
    from conftest import Rubato
    run = Rubato(tmp_path_factory.mktemp("keys"))
    run.ok("gen", "stream", "--inserts", "200k", "--keys", "50k", "--out", "k.txt")
    return run.folder / "k.txt"


def train(rubato, *words, first=()):
    return json.loads(rubato.ok(*first, "train", "sketch", *words, *QUIET).splitlines()[-1])


def test_from_a_raw_file_to_estimates(rubato, keys):
    truth = f"{keys}.truth"
    summary = train(rubato, "--data", keys, "--width", "4096", "--model", "m.rbt", "--eval", truth)
    figures = summary["eval"]
    assert figures["below"] == 0 and figures["within"] >= 0.98
    assert summary["objective"] == figures["bound"] == pytest.approx(2.718281828 * 200000 / 4096)
    counts = [int(line.split()[1]) for line in open(truth)]
    estimates = [int(word) for word in rubato.ok("predict", "m.rbt", "--data", truth).split()]
    errors = [estimate - count for estimate, count in zip(estimates, counts, strict=True)]
    assert min(errors) >= 0 and max(errors) == figures["error_max"]
    assert sum(errors) / len(errors) == pytest.approx(figures["error_mean"])
    again = json.loads(rubato.ok("eval", "m.rbt", "--data", keys, "--summary", "json"))
    assert again["eval"] == figures  # the stream itself adds up to the truth
    cells = [line.split(",") for line in rubato.ok("export", "m.rbt").splitlines()[1:]]
    assert sum(int(count) for row, _, count in cells if row == "3") == 200000


def test_every_layout_gives_the_same_bits(rubato, keys):
    words = ["--data", keys, "--width", "10000"]
    digest = train(rubato, *words, "--workers", "1")["digest"]
    assert train(rubato, *words, "--workers", "3", "--clocks-per-epoch", "5")["digest"] == digest
    there = train(rubato, *words, first=["run", "--workers", "4", "--servers", "2", "--"])
    assert there["digest"] == digest
    simulated = train(rubato, *words, first=["simulate", "--workers", "16", "--"])
    assert simulated["digest"] == digest


def test_an_insert_takes_few_bits(rubato, keys):
    summary = train(rubato, "--data", keys, "--clocks-per-epoch", "2",
                    first=["run", "--workers", "2", "--servers", "2", "--"])
    assert summary["bytes_sent"] * 8 / 200000 <= 60


def test_words_and_counts_are_counted(rubato):
    rubato.write("a.txt", "tea 3\n#coffee\ntea\n")
    rubato.write("b.txt", "milk\t12\r\ntea 1")
    train(rubato, "--data", "a.txt", "b.txt", "--model", "m.rbt")
    out = rubato.ok("predict", "m.rbt", "--data", "-", stdin="tea\nmilk\n#coffee\nwater\n")
    assert out == "5\n12\n1\n0\n"


def test_wrong_lines_are_named(rubato):
    rubato.write("a.txt", "tea 3\nNew York\n")
    result = rubato("train", "sketch", "--data", "a.txt")
    assert result.returncode == 1
    assert result.stderr == ('rubato: error: cannot read "a.txt", line 2: '
                             'the count "York" is not a whole number below 2^64\n')
