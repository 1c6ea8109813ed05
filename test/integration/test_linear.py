"""Linear models from the outside: classes, names, and rows that travel early."""

import json
import math
import random

import pytest

QUIET = ["--progress", "never", "--summary", "json"]
LABELS = ["-2", "0.5", "7"]


def summary(text):
    return json.loads(text.splitlines()[-1])


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """Examples of three classes that lie apart, and others like them."""
    folder = tmp_path_factory.mktemp("flowers")
    chance = random.Random(3)
    for name, count in (("train.svm", 600), ("test.svm", 200)):
        lines = []
        for _ in range(count):
            label = chance.randrange(3)
            values = [chance.gauss(2.0 if feature % 3 == label else 0.0, 1.0)
                      for feature in range(9)]
            lines.append(LABELS[label] + "".join(f" {i + 1}:{value:.3f}"
                                                 for i, value in enumerate(values)))
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def softmax(flowers, *more):
    return ["train", "linear", "--loss", "softmax", "--data", flowers / "train.svm", *QUIET, *more]


def test_classes_from_data_to_predictions(rubato, flowers):
    made = summary(rubato.ok(*softmax(flowers, "--eval", flowers / "test.svm", "--model", "m.rbt")))
    assert made["eval"]["accuracy"] > 0.95 and made["eval"]["logloss"] < 0.2
    test = ["m.rbt", "--data", flowers / "test.svm"]
    said = rubato.ok("predict", *test).split()
    right = [line.split()[0] for line in (flowers / "test.svm").read_text().splitlines()]
    accuracy = sum(a == b for a, b in zip(said, right)) / len(right)
    assert len(said) == len(right) and accuracy == pytest.approx(made["eval"]["accuracy"])
    rows = [list(map(float, line.split()))
            for line in rubato.ok("predict", *test, "--probabilities").splitlines()]
    assert all(sum(row) == pytest.approx(1) and len(row) == 3 for row in rows)
    assert [LABELS[row.index(max(row))] for row in rows] == said
    logs = [math.log(row[LABELS.index(label)]) for row, label in zip(rows, right)]
    figures = summary(rubato.ok("eval", *test, "--summary", "json"))["eval"]
    assert figures["logloss"] == pytest.approx(-sum(logs) / len(logs), rel=1e-5)
    assert figures["accuracy"] == pytest.approx(accuracy)


def test_a_class_that_was_never_seen_is_an_error(rubato, flowers):
    rubato.write("new.svm", "7 1:1\n3 2:1\n")
    rubato.ok(*softmax(flowers, "--model", "m.rbt", "--epochs", "1"))
    for words in (["eval", "m.rbt", "--data", "new.svm"], softmax(flowers, "--eval", "new.svm")):
        done = rubato(*words)
        assert done.returncode != 0
        assert "label 3 of example 2 does not occur in the training data" in done.stderr
    assert len(rubato.ok("predict", "m.rbt", "--data", "new.svm").split()) == 2


@pytest.mark.parametrize("more", [[], ["--rule", "adarev", "--clocks-per-epoch", "4"],
                                  ["--l1", "0.01", "--batch", "3"]])
def test_bsp_gives_the_same_classes_everywhere(rubato, flowers, more):
    words = softmax(flowers, "--consistency", "bsp", "--epochs", "3", *more)
    digests = {summary(rubato.ok(*start, *words, *extra))["digest"]
               for start, extra in (([], ["--workers", "3"]),
                                    (["run", "--servers", "2", "--workers", "3", "--"], []),
                                    (["simulate", "--workers", "3", "--"], []))}
    assert len(digests) == 1


@pytest.mark.parametrize("rule", ["adagrad", "adarev", "adadelay", "adam", "ftrl", "sgd", "dynsgd"])
def test_every_rule_learns_classes(rubato, flowers, rule):
    made = summary(rubato.ok(*softmax(flowers, "--rule", rule, "--workers", "2", "--eval",
                                      flowers / "test.svm")))
    assert made["eval"]["accuracy"] > 0.9


def test_names_are_linear_with_other_defaults(rubato, shelf):
    data = ["--data", shelf / "train.svm", "--consistency", "bsp", "--epochs", "2", *QUIET]
    hinge = summary(rubato.ok("train", "linear", "--loss", "hinge", *data))
    made = summary(rubato.ok("train", "svm", *data, "--model", "m.rbt"))
    assert made["digest"] == hinge["digest"]
    assert "hinge" in rubato.ok("eval", "m.rbt", "--data", shelf / "train.svm")
    other = summary(rubato.ok("train", "svm", "--loss", "logistic", *data))
    assert other["digest"] != hinge["digest"]
    words = ["--loss", "squared", "--l1", "0.01", "--l2", "0", "--solver", "cd"]
    squared = summary(rubato.ok("train", "linear", *words, *data))
    lasso = summary(rubato.ok("train", "lasso", *data, "--model", "l.rbt"))
    assert lasso["digest"] == squared["digest"]
    assert "rmse" in rubato.ok("eval", "l.rbt", "--data", shelf / "train.svm")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_to_say_the_default_number_of_clocks_changes_nothing(rubato, workers):
    """Penalties of features that a clock does not have must not be made up for later, which costs
    several times as much: then the last bits differ."""
    rubato.ok("gen", "sparse", "--examples", "300", "--features", "5000", "--nonzeros", "20",
              "--out", "wide.svm")
    base = ["train", "linear", "--data", "wide.svm", "--solver", "sgd", "--l2", "0.01", "--epochs",
            "4", "--workers", workers, "--consistency", "bsp", *QUIET]
    said = summary(rubato.ok(*base, "--clocks-per-epoch", "2"))
    assert said["clocks"] == 8
    assert said["digest"] == summary(rubato.ok(*base))["digest"]


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    from conftest import Rubato
    run = Rubato(tmp_path_factory.mktemp("clicks"))
    run.ok("gen", "sparse", "--examples", "4000", "--features", "300", "--nonzeros", "10", "--out",
           "clicks.svm")
    return run.folder / "clicks.svm"


@pytest.mark.parametrize("rule", ["adarev", "adagrad"])
@pytest.mark.parametrize("start", [["run", "--servers", "2", "--workers", "4", "--"],
                                   ["simulate", "--workers", "4", "--servers", "2", "--stragglers",
                                    "100%x1000", "--"]], ids=["run", "simulate"])
def test_rows_travel_early(rubato, clicks, start, rule):
    """Within a clock as long as a pass, which is worth several shorter ones."""
    words = ["train", "linear", "--data", clicks, "--rule", rule, "--clocks-per-epoch", "1",
             "--epochs", "6", *QUIET]
    plain = summary(rubato.ok(*start, *words))
    early = summary(rubato.ok(*start, *words, "--bandwidth", "20MB"))
    assert plain["early_sent"] == 0 and early["early_sent"] > 0
    assert early["objective"] < plain["objective"] * (1.05 if start[0] == "run" else 1)


def test_classes_travel_early(rubato, flowers):
    words = softmax(flowers, "--rule", "adarev", "--clocks-per-epoch", "1", "--epochs", "3")
    start = ["simulate", "--workers", "4", "--servers", "2", "--stragglers", "100%x1000", "--"]
    plain = summary(rubato.ok(*start, *words))
    early = summary(rubato.ok(*start, *words, "--bandwidth", "1MB"))
    again = summary(rubato.ok(*start, *words, "--bandwidth", "1MB"))
    assert early["early_sent"] > 0 and early["digest"] == again["digest"]
    assert early["objective"] < plain["objective"] * 0.9


@pytest.mark.parametrize("more, text", [
    ([], "needs a rule that takes gradients"),
    (["--rule", "adarev", "--scale", "features"], '"--scale features" exclude each other'),
    (["--rule", "prox", "--l1", "1e-3"], 'rule "prox" with "--l1" excludes'),
    (["--rule", "sgd"], 'rule "sgd" with "--bandwidth" needs "--lr"')])
def test_where_rows_cannot_travel_early(rubato, shelf, more, text):
    done = rubato("train", "linear", "--data", shelf / "train.svm", "--bandwidth", "1MB", *more)
    assert done.returncode == 2 and text in done.stderr
