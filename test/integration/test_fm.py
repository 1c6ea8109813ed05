"""Factorisation machines from a file to predictions: embedded, over processes and simulated."""

import json
import math
import random

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


@pytest.mark.parametrize("more", [[], ["--patience", "2", "--l2-v", "0", "--l1", "0"]])
def test_held_out_examples_are_the_same_everywhere(rubato, clicks, more):
    """Nobody says how many passes: the best model on held-out examples has the same bits."""
    words = ["train", "fm", "--data", clicks / "train.svm", "--consistency", "bsp", "--rank", "4",
             "--summary", "json", *more, *QUIET]
    def run(*command):
        return json.loads(rubato.ok(*command).splitlines()[-1])
    here = run(*words, "--workers", "3")
    for there in (run("run", "--workers", "3", "--servers", "2", "--", *words),
                  run("simulate", "--workers", "3", "--", *words)):
        assert (there["digest"], there["chosen"]) == (here["digest"], here["chosen"])
    assert "stopped after pass" in here["chosen"]
    assert run(*words, "--workers", "3", "--no-early-stop", "--epochs", "4")["epochs"] == 4


def write_table(path, seed, count):
    """Columns with long tails; the label depends on their logarithms, and on no pairs."""
    draw = random.Random(seed)
    with open(path, "w", encoding="ascii") as file:
        file.write("a,b,c,d,e,f,label\n")
        for _ in range(count):
            row = [draw.lognormvariate(0, 2) for _ in range(6)]
            margin = math.log(row[0]) - math.log(row[1]) + math.log(row[2]) / 2
            label = int(draw.random() < 1 / (1 + math.exp(-margin)))
            file.write(",".join(f"{value:.5g}" for value in row) + f",{label}\n")


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_it_is_not_worse_than_a_linear_model(rubato, seed):
    """Columns with long tails, whose products are enormous: pairs do harm in a few examples."""
    write_table(rubato.folder / "train.csv", seed, 4000)
    write_table(rubato.folder / "test.csv", seed + 100, 4000)
    def logloss(name):
        out = rubato.ok("train", name, "--data", "train.csv", "--eval", "test.csv",
                        "--workers", "1", "--summary", "json", *QUIET)
        return json.loads(out)["eval"]["logloss"]
    assert logloss("fm") < 1.005 * logloss("linear")


def test_dense_examples_have_the_same_bits_with_any_number_of_workers(rubato):
    """One worker trains, whatever the consistency, in this process, in several and simulated."""
    write_table(rubato.folder / "train.csv", 1, 4000)
    words = ["train", "fm", "--data", "train.csv", "--rank", "4", "--summary", "json", *QUIET]
    def run(*command):
        return json.loads(rubato.ok(*command).splitlines()[-1])
    alone = run(*words, "--workers", "1")
    assert "workers trained" not in alone["chosen"]
    for there in (run(*words, "--workers", "4"),
                  run("run", "--workers", "4", "--servers", "2", "--", *words),
                  run("simulate", "--workers", "4", "--", *words)):
        assert there["digest"] == alone["digest"]
        assert there["chosen"].endswith("; 1 of 4 workers trained")


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


@pytest.fixture(scope="module", name="ratings")
def make_ratings(tmp_path_factory):
    """A folder with generated ratings: a feature per user and one per item."""
    run = Rubato(tmp_path_factory.mktemp("ratings"))
    run.ok("gen", "ratings", "--users", "300", "--items", "200", "--ratings", "20000", "--out",
           "all.csv")
    rows = [line.split(",") for line in (run.folder / "all.csv").read_text().splitlines()[1:]]
    lines = [f"{rating} {user}:1 {1000 + int(item)}:1\n" for user, item, rating in rows]
    (run.folder / "train.svm").write_text("".join(x for i, x in enumerate(lines) if i % 5))
    (run.folder / "test.svm").write_text("".join(lines[::5]))
    return run.folder


@pytest.mark.parametrize("consistency", ["bsp", "essp:2", "auto"])
def test_many_workers_learn_factors(rubato, ratings, consistency):
    """With means of moves embeddings hardly begin to grow: 1.8 times the error of one worker."""
    def rmse(workers):
        out = rubato.ok("simulate", "--workers", workers, "--latency", "1ms", "--jitter", "2ms",
                        "--", "train", "fm", "--data", ratings / "train.svm", "--eval",
                        ratings / "test.svm", "--loss", "squared", "--rank", "8", "--consistency",
                        consistency, "--summary", "json", *QUIET)
        return json.loads(out.splitlines()[-1])["eval"]["rmse"]
    assert rmse("16") < 1.6 * rmse("1")


def test_many_workers_with_stale_reads_stay_on_the_way(rubato):
    """Moves of clocks that others have not seen do not add up to long ones."""
    rubato.ok("gen", "clicks", "--examples", "24000", "--out", "all.svm")
    lines = (rubato.folder / "all.svm").read_text().splitlines(keepends=True)
    (rubato.folder / "train.svm").write_text("".join(lines[:20000]))
    (rubato.folder / "test.svm").write_text("".join(lines[20000:]))
    def curve(workers):
        rubato.ok("simulate", "--workers", workers, "--latency", "1ms", "--jitter", "2ms", "--",
                  "train", "fm", "--data", "train.svm", "--eval", "test.svm", "--rank", "8",
                  "--epochs", "6", "--consistency", "essp:2", "--log", "log.jsonl", *QUIET)
        events = map(json.loads, (rubato.folder / "log.jsonl").read_text().splitlines())
        return [event["eval"]["logloss"] for event in events if event["event"] == "eval"]
    alone, together = curve("1"), curve("16")
    assert max(together) < math.log(2)
    assert together[-1] < 1.05 * alone[-1]


def test_many_workers_learn_weights_as_one_does(rubato):
    """Workers whose few examples of a feature are clicks count as much as those without clicks."""
    rubato.ok("gen", "clicks", "--examples", "24000", "--out", "all.svm")
    lines = (rubato.folder / "all.svm").read_text().splitlines(keepends=True)
    (rubato.folder / "train.svm").write_text("".join(lines[:20000]))
    (rubato.folder / "test.svm").write_text("".join(lines[20000:]))
    def logloss(workers):
        out = rubato.ok("train", "fm", "--data", "train.svm", "--eval", "test.svm", "--rank", "8",
                        "--consistency", "bsp", "--workers", workers, "--summary", "json", *QUIET)
        return json.loads(out)["eval"]["logloss"]
    assert logloss("32") < 1.02 * logloss("1")


def test_the_fixed_point_filter_costs_little(rubato, clicks):
    def run(*more):
        return json.loads(rubato.ok("simulate", "--workers", "4", "--", "train", "fm", "--data",
                                    clicks / "train.svm", "--rule", "ftrl", *BSP, *more))
    plain, rounded = run(), run("--filter", "fixed:8")
    assert rounded["network_bytes"] < plain["network_bytes"]
    assert rounded["objective"] == pytest.approx(plain["objective"], rel=0.02)


@pytest.mark.parametrize("more", [[], ["--workers", "3"], ["--rule", "ftrl"]])
def test_it_can_do_without_a_bias(rubato, clicks, more):
    rubato.ok("train", "fm", "--data", clicks / "train.svm", "--no-bias", "--model", "m.rbt",
              "--consistency", "bsp", *more, *QUIET)
    figures = json.loads(rubato.ok("eval", "m.rbt", "--data", clicks / "test.svm", "--summary",
                                   "json"))["eval"]
    assert figures["logloss"] < 0.6
    rubato.ok("export", "m.rbt", "--format", "libfm", "--out", "m.libfm")
    assert (rubato.folder / "m.libfm").read_text().startswith("#global bias W0\n0\n")


def test_numbers_can_be_predicted(rubato, clicks):
    rubato.ok("train", "fm", "--data", clicks / "train.svm", "--loss", "squared", "--model",
              "m.rbt", *QUIET)
    assert "rmse" in rubato.ok("eval", "m.rbt", "--data", clicks / "test.svm")


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_columns_may_be_far_from_zero(rubato, loss):
    """A pair of columns that are many deviations away from zero is learnt as if they were not."""
    def write(name, means, first):
        rng = random.Random(first)
        with open(rubato.folder / name, "w", encoding="utf-8") as file:
            for _ in range(2000):
                x = [rng.gauss(0, 1) for _ in means]
                y = 2 * x[0] - x[1] + 1.5 * x[0] * x[2] + rng.gauss(0, 0.3)
                y = y if loss == "squared" else "yes" if y > 0 else "no"
                cells = [f"{mean + value:.6f}" for mean, value in zip(means, x)]
                file.write(",".join([str(y), *cells]) + "\n")
    def figure(means):
        write("train.csv", means, 1)
        write("test.csv", means, 2)
        positive = ["--positive", "yes"] if loss == "logistic" else []
        summary = json.loads(rubato.ok(
            "train", "fm", "--loss", loss, *positive, "--data", "train.csv", "--eval", "test.csv",
            "--label-column", "0", "--categorical", "auto", "--rank", "4", "--workers", "2",
            "--consistency", "bsp", "--model", "m.rbt", "--summary", "json", *QUIET))
        name = "rmse" if loss == "squared" else "logloss"
        later = json.loads(rubato.ok("eval", "m.rbt", "--data", "test.csv", "--summary", "json"))
        assert later["eval"][name] == pytest.approx(summary["eval"][name])
        return summary["eval"][name]
    near = figure([0, 0, 0])
    # Other numbers are other examples: not those are held out that were.
    assert figure([60, -20, 5]) == pytest.approx(near, rel=0.1)
    assert near < (0.5 if loss == "squared" else 0.25)


@pytest.mark.parametrize("wrong, said", [
    (["--rank", "0"], "--rank"), (["--loss", "hinge"], "--loss"), (["--l1", "-1"], "--l1"),
    (["--rule", "adam", "--l1", "1"], 'rule "adam" does not support "--l1"'),
    (["--rule", "ftrl:lr=1", "--lr", "2"], "the step size is given twice"),
    (["--bandwidth", "1MB"], "--bandwidth")])
def test_bad_options_are_explained(rubato, clicks, wrong, said):
    result = rubato("train", "fm", "--data", clicks / "train.svm", *wrong)
    assert result.returncode == 2 and said in result.stderr
