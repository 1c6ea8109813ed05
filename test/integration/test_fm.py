"""Factorisation machines from a file to predictions: embedded, over processes and simulated."""

import json
import math

import pytest

from conftest import Rubato

QUIET = ["--progress", "never"]
BSP = ["--consistency", "bsp", "--rank", "4", "--epochs", "2", "--clocks-per-epoch", "3",
       "--summary", "json", *QUIET]


@pytest.fixture(scope="module", name="clicks")
def make_clicks(tmp_path_factory):
    """A folder with generated clicks, in two parts."""
    run = Rubato(tmp_path_factory.mktemp("clicks"))
    run.ok("gen", "clicks", "--examples", "3000", "--columns", "8", "--vocabulary", "500", "--out",
           "all.svm")
    lines = (run.folder / "all.svm").read_text().splitlines(keepends=True)
    (run.folder / "train.svm").write_text("".join(lines[:2500]))
    (run.folder / "test.svm").write_text("".join(lines[2500:]))
    return run.folder


def features(folder, name):
    """Each line's features and values."""
    return [[(int(key), float(value)) for key, value in
             (entry.split(":") for entry in line.split()[1:])]
            for line in (folder / name).read_text().splitlines()]


def pairwise(bias, weights, embeddings, x):
    """The model's formula as it is defined: a sum over all pairs."""
    margin = bias + sum(weights[key] * value for key, value in x)
    for i, (key, value) in enumerate(x):
        for other, other_value in x[:i]:
            margin += value * other_value * sum(
                a * b for a, b in zip(embeddings[key], embeddings[other]))
    return margin


def test_from_a_file_to_predictions(rubato, clicks):
    """Training, evaluation, prediction and export agree with each other and with the formula."""
    summary = json.loads(rubato.ok(
        "train", "fm", "--data", clicks / "train.svm", "--eval", clicks / "test.svm", "--rank", "4",
        "--model", "m.rbt", "--summary", "json", *QUIET))
    figures = json.loads(rubato.ok("eval", "m.rbt", "--data", clicks / "test.svm", "--summary",
                                   "json"))["eval"]
    for name in ("logloss", "accuracy", "auc", "w_nonzeros", "v_nonzeros"):
        assert figures[name] == pytest.approx(summary["eval"][name])
    assert figures["logloss"] < 0.5 and figures["auc"] > 0.6
    rubato.ok("export", "m.rbt", "--format", "libfm", "--out", "m.libfm")
    text = (rubato.folder / "m.libfm").read_text()
    bias, rest = text.removeprefix("#global bias W0\n").split("\n#unary interactions Wj\n")
    unary, pairs = rest.split("#pairwise interactions Vj,f\n")
    weights = [float(line) for line in unary.splitlines()]
    embeddings = [[float(word) for word in line.split()] for line in pairs.splitlines()]
    assert len(weights) == len(embeddings)
    assert {len(row) for row in embeddings} == {4}
    assert sum(w != 0 for w in weights) == figures["w_nonzeros"]
    assert sum(v != 0 for row in embeddings for v in row) == figures["v_nonzeros"]
    assert all(w != 0 or not any(row) for w, row in zip(weights, embeddings))
    weights += [0.0] * 1000  # features that the model does not know
    embeddings += [[0.0] * 4] * 1000
    predicted = [float(line) for line in
                 rubato.ok("predict", "m.rbt", "--data", clicks / "test.svm").splitlines()]
    assert len(predicted) == 500
    for value, x in zip(predicted, features(clicks, "test.svm")):
        margin = pairwise(float(bias), weights, embeddings, x)
        assert value == pytest.approx(1 / (1 + math.exp(-margin)), abs=1e-5)


@pytest.mark.parametrize("rule", ["add", "ftrl"])
def test_the_same_bits_everywhere(rubato, clicks, rule):
    words = ["train", "fm", "--data", clicks / "train.svm", "--rule", rule, *BSP]
    def digest(*command):
        return json.loads(rubato.ok(*command).splitlines()[-1])["digest"]
    here = digest(*words, "--workers", "4")
    assert digest(*words, "--workers", "4", "--servers", "3") == here
    assert digest("run", "--workers", "4", "--servers", "2", "--", *words) == here
    assert digest("simulate", "--workers", "4", "--", *words) == here
    many = digest(*words, "--workers", "16")
    assert digest("simulate", "--workers", "16", "--servers", "2", "--", *words) == many
    assert many != here


def test_constraints_make_it_small(rubato, clicks):
    """Ten times fewer numbers, no worse on data that it has not seen."""
    def run(*more):
        return json.loads(rubato.ok(
            "train", "fm", "--data", clicks / "train.svm", "--eval", clicks / "test.svm", "--rank",
            "64", "--consistency", "bsp", "--workers", "2", "--summary", "json", *more,
            *QUIET))["eval"]
    free, held = run("--min-count", "1", "--no-shrink-v"), run()
    assert held["v_nonzeros"] * 5 <= free["v_nonzeros"]
    assert held["logloss"] <= free["logloss"] + 0.001


def test_the_fixed_point_filter_costs_little(rubato, clicks):
    def run(*more):
        return json.loads(rubato.ok("simulate", "--workers", "4", "--", "train", "fm", "--data",
                                    clicks / "train.svm", "--rule", "ftrl", *BSP, *more))
    plain, rounded = run(), run("--filter", "fixed:8")
    assert rounded["network_bytes"] < plain["network_bytes"]
    assert rounded["objective"] == pytest.approx(plain["objective"], rel=0.02)


def test_numbers_can_be_predicted(rubato, clicks):
    rubato.ok("train", "fm", "--data", clicks / "train.svm", "--loss", "squared", "--model",
              "m.rbt", *QUIET)
    assert "rmse" in rubato.ok("eval", "m.rbt", "--data", clicks / "test.svm")


@pytest.mark.parametrize("wrong, said", [
    (["--rank", "0"], "--rank"), (["--loss", "hinge"], "--loss"), (["--l1", "-1"], "--l1"),
    (["--rule", "adam", "--l1", "1"], 'rule "adam" cannot do "--l1"'),
    (["--rule", "ftrl:lr=1", "--lr", "2"], "the step size is given twice"),
    (["--bandwidth", "1MB"], "--bandwidth")])
def test_bad_options_are_explained(rubato, clicks, wrong, said):
    result = rubato("train", "fm", "--data", clicks / "train.svm", *wrong)
    assert result.returncode == 2 and said in result.stderr
