"""Rules in training: every rule learns, does the same everywhere, and says what it cost."""

import json

import pytest

from conftest import ROOT, policies


def takes_gradients(rule):
    return "RBT_RULE_GRADIENTS" in (ROOT / f"src/policy/rule/{rule}.c").read_text()


GRADIENTS = [rule for rule in policies("rule") if takes_gradients(rule)]
MOVES = [rule for rule in policies("rule") if not takes_gradients(rule)]
QUIET = ["--progress", "never", "--summary", "json"]
DATA = {"linear": "train.svm", "mf": "ratings.csv"}
START = {"linear": 0.6931, "mf": 1.2}  # objective of a model that knows nothing, or more


@pytest.fixture(scope="module")
def data(shelf, tmp_path_factory):
    """Enough of it that rare features matter little."""
    from conftest import Rubato
    run = Rubato(tmp_path_factory.mktemp("rules"))
    run.ok("gen", "sparse", "--examples", "3000", "--features", "200", "--nonzeros", "20", "--out",
           "train.svm")
    run.ok("gen", "ratings", "--users", "100", "--items", "60", "--ratings", "3000", "--out",
           "ratings.csv")
    return run.folder


def summary(text):
    return json.loads(text.splitlines()[-1])


def train(data, algo, *more):
    return ["train", algo, "--data", data / DATA[algo], *QUIET, *more]


@pytest.mark.parametrize("algo", ["linear", "mf"])
@pytest.mark.parametrize("rule", GRADIENTS)
def test_gradients_learn_as_well_as_moves(rubato, data, algo, rule):
    fixed = ["--workers", "2", "--consistency", "bsp", "--epochs", "20"]
    best = summary(rubato.ok(*train(data, algo, *fixed)))["objective"]
    made = summary(rubato.ok(*train(data, algo, *fixed, "--rule", rule)))
    assert made["rule"].startswith(f"{rule}:lr=")
    assert made["clocks"] == 20 * 32
    start = START[algo] if algo == "linear" else 3 * best
    assert made["objective"] < best + 0.15 * (start - best)


@pytest.mark.parametrize("algo", ["linear", "mf"])
@pytest.mark.parametrize("rule", MOVES[1:])
@pytest.mark.parametrize("pull", ["corrected", "printed"])
def test_moves_are_weighed(rubato, data, algo, rule, pull):
    fixed = ["--workers", "4", "--consistency", "ssp:3", "--epochs", "20"]
    best = summary(rubato.ok(*train(data, algo, *fixed)))["objective"]
    made = summary(rubato.ok(*train(data, algo, *fixed, "--rule", rule, "--pull", pull)))
    assert made["objective"] < best * 1.1
    assert (made["versions_max"] > 0) == (rule == "dynsgd")


@pytest.mark.parametrize("algo, rule", [("linear", "dynsgd"), ("linear", "adarev"),
                                        ("linear", "ftrl"), ("mf", "dynsgd"), ("mf", "adarev"),
                                        ("mf", "adarev:trust=1.5")])
def test_bsp_gives_the_same_bits_everywhere(rubato, data, algo, rule):
    words = train(data, algo, "--rule", rule, "--consistency", "bsp", "--epochs", "2",
                  "--clocks-per-epoch", "4")
    cluster = ["--workers", "3", "--servers", "2"]
    here = summary(rubato.ok(*words, *cluster))
    spread = summary(rubato.ok("run", *cluster, "--", *words))
    pretended = summary(rubato.ok("simulate", *cluster, "--", *words))
    one = summary(rubato.ok(*words, "--workers", "3"))
    assert here["digest"] == spread["digest"] == pretended["digest"] == one["digest"]
    assert here["rule_bytes"] > 0 and here["server_bytes"] > here["rule_bytes"]


@pytest.mark.parametrize("rule", ["ftrl", "prox"])
def test_l1_makes_weights_zero(rubato, data, rule):
    counts = []
    for l1 in ("0", "1e-2"):
        rubato.ok(*train(data, "linear", "--rule", rule, "--l1", l1, "--model", "m"))
        line = next(line for line in rubato.ok("info", "m").splitlines() if "weights" in line)
        counts.append(int(line.split()[1]))
    assert counts[1] < 0.8 * counts[0]


def test_the_bias_is_not_penalised(rubato, data):
    made = summary(rubato.ok(*train(data, "linear", "--rule", "ftrl:l1=1e6", "--model", "m")))
    assert made["rule"].startswith("ftrl:l1=1e6")
    text = rubato.ok("info", "m")
    assert "bias" in text
    line = next(line for line in text.splitlines() if line.split()[:1] == ["bias"])
    assert "1 values not zero" in line or "1 rows" in line


def test_steps_are_the_rules_or_the_line_s(rubato, data):
    words = train(data, "linear", "--workers", "1", "--consistency", "bsp", "--rule")
    a = summary(rubato.ok(*words, "adagrad:lr=0.05"))
    b = summary(rubato.ok(*words, "adagrad", "--lr", "0.05"))
    c = summary(rubato.ok(*words, "adagrad"))
    assert a["digest"] == b["digest"] != c["digest"]


def test_add_is_what_there_is_without_a_rule(rubato, data):
    words = train(data, "linear", "--workers", "2", "--consistency", "bsp", "--solver", "sgd")
    a = summary(rubato.ok(*words))
    b = summary(rubato.ok(*words, "--rule", "add"))
    assert a["digest"] == b["digest"] and a["rule"] == b["rule"] == "add"
    assert a["rule_bytes"] == 0


def test_log_and_text_name_the_rule(rubato, data):
    words = ["train", "linear", "--data", data / "train.svm", "--rule", "adarev", "--progress",
             "never", "--log", "r.jsonl", "--summary", "full"]
    text = rubato.ok(*words)
    assert "\n  rule       adarev:lr=0.1\n" in text and "\n  servers    " in text
    log = [json.loads(line) for line in (rubato.folder / "r.jsonl").read_text().splitlines()]
    assert log[0]["config"]["rule"] == "adarev"
    assert log[-1]["summary"]["rule"] == "adarev:lr=0.1"


def test_rebalancing_helps_when_workers_compute_slowly(rubato, data):
    rubato.ok("gen", "sparse", "--examples", "8000", "--features", "100", "--nonzeros", "40",
              "--out", "dense.svm")
    words = ["simulate", "--workers", "6", "--stragglers", "20%x4", "--bandwidth", "40Gbit",
             "--latency", "2us", "--", "train", "linear", "--data", "dense.svm", "--consistency",
             "ssp:2", "--clocks-per-epoch", "6", *QUIET]
    without = summary(rubato.ok(*words))
    once = summary(rubato.ok(*words, "--rebalance"))
    again = summary(rubato.ok(*words, "--rebalance"))
    assert once["digest"] == again["digest"]
    assert once["virtual_seconds"] == again["virtual_seconds"]
    assert once["virtual_seconds"] < 0.9 * without["virtual_seconds"]
    assert abs(once["objective"] - without["objective"]) < 0.01
    assert 0.97 * without["examples"] <= once["examples"] <= without["examples"]


def test_rebalancing_runs_in_processes(rubato, data):
    words = train(data, "linear", "--rebalance", "--clocks-per-epoch", "4")
    here = summary(rubato.ok(*words, "--workers", "3"))
    spread = summary(rubato.ok("run", "--workers", "3", "--", *words))
    assert abs(here["objective"] - spread["objective"]) < 0.02


@pytest.mark.parametrize("algo", ["linear", "mf"])
def test_synchronised_servers_learn_as_well(rubato, data, algo):
    words = train(data, algo, "--rule", "dynsgd", "--consistency", "ssp:2", "--epochs", "30",
                  "--clocks-per-epoch", "4")
    cluster = ["--workers", "3", "--servers", "2"]
    best = summary(rubato.ok(*words, *cluster))["objective"]
    spread = ["--server-threads", "2"]
    for before in ([], ["run", *cluster, *spread, "--"], ["simulate", *cluster, "--"]):
        after = [] if before else cluster
        made = summary(rubato.ok(*before, *words, "--synchronise", *after))
        assert made["objective"] < best * 1.1
        assert made["versions_max"] > 0


def test_only_versions_can_be_synchronised(rubato, data):
    for rule in ("add", "consgd", "adagrad"):
        result = rubato(*train(data, "linear", "--rule", rule, "--synchronise"))
        assert result.returncode == 2, result.stderr
        error = result.stderr
        assert f'option "--synchronise" excludes rule "{rule}' in error
        assert "--rule dynsgd" in error


def test_nobody_is_late_for_users_of_its_own(rubato, data):
    """With stale reads of everything, the objective is a fourth higher."""
    found = {}
    for consistency in ("bsp", "essp:4"):
        line = train(data, "mf", "--rule", "adarev:lr=0.2", "--rank", "4", "--clocks-per-epoch",
                     "4", "--epochs", "5", "--consistency", consistency)
        found[consistency] = summary(rubato.ok("simulate", "--workers", "4", "--", *line))
    assert found["essp:4"]["objective"] < 1.05 * found["bsp"]["objective"]
