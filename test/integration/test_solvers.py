"""Solvers of `train linear`: the same bits everywhere, and liblinear's objective."""

import json
import shutil
import subprocess

import pytest

QUIET = ["--progress", "never", "--summary", "json"]
SOLVERS = {
    "dbpg": ["--l1", "0.002", "--epochs", "4"],
    "dbpg late": ["--l1", "0.002", "--epochs", "4", "--delay", "5", "--blocks", "40"],
    "dbpg filtered": ["--l1", "0.002", "--epochs", "4", "--filter", "keys,zeros,changed,lz4"],
    "emso-gd": ["--minibatch", "500", "--epochs", "3"],
    "emso-cd": ["--minibatch", "500", "--epochs", "3"],
    "cd": ["--loss", "squared", "--l1", "0.01", "--epochs", "4", "--clocks-per-epoch", "2"],
    "lbfgs": ["--epochs", "6"],
}


@pytest.fixture(scope="module")
def data(shelf, tmp_path_factory):
    from conftest import Rubato
    run = Rubato(tmp_path_factory.mktemp("solvers"))
    run.ok("gen", "sparse", "--examples", "1500", "--features", "300", "--nonzeros", "10", "--out",
           "train.svm")
    return run.folder / "train.svm"


def summary(text):
    return json.loads(text.splitlines()[-1])


def training(data, name):
    return ["train", "linear", "--data", data, "--solver", name.split()[0], "--consistency", "bsp",
            *SOLVERS[name], *QUIET]


@pytest.mark.parametrize("name", SOLVERS)
def test_the_same_bits_embedded_over_processes_and_simulated(rubato, data, name):
    here = summary(rubato.ok(*training(data, name), "--workers", "3", "--servers", "2"))
    far = summary(rubato.ok("run", "--workers", "3", "--servers", "2", "--", *training(data, name)))
    simulated = summary(rubato.ok("simulate", "--workers", "3", "--servers", "2", "--slowdowns",
                                  "30%x5", "--", *training(data, name)))
    assert here["digest"] == far["digest"] == simulated["digest"]
    assert simulated["compute_seconds"] > 0


def test_filters_change_no_bit_of_dbpg(rubato, data):
    digests = {summary(rubato.ok(*training(data, name), "--workers", "3"))["digest"]
               for name in ("dbpg", "dbpg filtered")}
    assert len(digests) == 1


def test_dbpg_reaches_the_objective_of_liblinear(rubato, data, tmp_path):
    if shutil.which("liblinear-train") is None:
        pytest.skip("there is no liblinear-train")
    l1 = 0.002
    text = subprocess.run(["liblinear-train", "-s", "6", "-e", "1e-5", "-c", str(1 / (1500 * l1)),
                           data, tmp_path / "model"], capture_output=True, text=True,
                          check=True).stdout
    line = next(line for line in text.splitlines() if line.startswith("Objective value"))
    best = float(line.split("=")[1]) * l1
    for delay in ("0", "8"):
        found = summary(rubato.ok("train", "linear", "--data", data, "--solver", "dbpg", "--l1",
                                  str(l1), "--no-bias", "--delay", delay, "--epochs", "100",
                                  "--workers", "2", *QUIET))
        assert abs(found["objective"] / best - 1) < 1e-4
        assert 0 < found["inactive"] < 1
        assert found["rule"].startswith("prox:pairs=1,aggregate=1,lr=1,l1=0.002")


def test_a_model_of_dbpg_is_a_model_like_any_other(rubato, data):
    rubato.ok("train", "linear", "--data", data, "--solver", "dbpg", "--l1", "0.002", "--epochs",
              "20", "--model", "m.rbt", "--progress", "never")
    lines = rubato.ok("predict", "m.rbt", "--data", data).splitlines()
    assert len(lines) == 1500
    found = json.loads(rubato.ok("eval", "m.rbt", "--data", data, "--summary", "json"))
    assert 0.5 < found["eval"]["auc"] <= 1


@pytest.mark.parametrize("words", [["lasso", "--l1", "0.02"],
                                   ["linear", "--solver", "dbpg", "--l1", "0.005"]])
def test_an_exact_solver_stops_when_it_is_there(rubato, data, words):
    common = ["train", *words, "--data", data, "--workers", "2", "--summary", "json",
              "--progress", "never"]
    short = json.loads(rubato.ok(*common))
    long = json.loads(rubato.ok(*common, "--consistency", "bsp", "--epochs", "1000"))
    assert 10 < short["epochs"] < 400
    assert short["objective"] <= 1.001 * long["objective"]


def test_lbfgs_ends_at_the_minimum_or_says_that_it_has_not(rubato, data):
    base = ["train", "linear", "--data", data, "--solver", "lbfgs", "--l2", "0.001", *QUIET]
    runs = [summary(rubato.ok(*base, "--workers", "1")),
            summary(rubato.ok(*base, "--workers", "32")),
            summary(rubato.ok("run", "--workers", "3", "--servers", "2", "--", *base))]
    assert all("not_converged" not in run and run["epochs"] < 400 for run in runs)
    objectives = [run["objective"] for run in runs]
    assert max(objectives) <= min(objectives) * 1.00001
    assert "--epochs" in summary(rubato.ok(*base, "--epochs", "5"))["not_converged"]


@pytest.mark.parametrize("loss, l2", [("logistic", "0.0001"), ("hinge", "0.001")])
def test_more_workers_get_as_far_in_as_many_epochs(rubato, loss, l2):
    rubato.ok("gen", "sparse", "--examples", "6000", "--features", "3000", "--nonzeros", "20",
              "--out", "many.svm")
    base = ["train", "linear", "--data", "many.svm", "--solver", "sgd", "--loss", loss, "--l2",
            l2, "--consistency", "bsp", *QUIET]
    one = summary(rubato.ok(*base, "--workers", "1"))["objective"]
    for workers in (2, 4, 8, 16, 32):
        many = summary(rubato.ok(*base, "--workers", workers))
        assert many["objective"] <= 1.01 * one, workers


def test_moves_that_all_go_one_way_are_not_added_up(rubato):
    """Examples that are nearly alike: the sum of 32 workers' steps would go 32 times too far."""
    lines = []
    for i in range(2000):
        level = 1 + (i * 7919 % 1000) / 1000
        values = [level + (i * (j + 3) % 11) / 50 for j in range(1, 31)]
        lines.append(f"{level * 3:.4f} " + " ".join(f"{j + 1}:{v:.4f}"
                                                   for j, v in enumerate(values)))
    (rubato.folder / "alike.svm").write_text("\n".join(lines) + "\n")
    base = ["train", "linear", "--data", "alike.svm", "--solver", "sgd", "--loss", "squared",
            "--l2", "0.0001", "--consistency", "bsp", *QUIET]
    many = summary(rubato.ok(*base, "--workers", "32"))
    assert many["objective"] < 0.05
