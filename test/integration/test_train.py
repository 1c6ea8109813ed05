"""Training from the outside: summary, log, model, prediction, Ctrl-C."""

import json
import math
import signal
import time

import pytest

from conftest import TIMEOUT_S

FIELDS = ["objective", "objective_mean5", "objective_var5", "eval", "seconds", "load_seconds",
          "examples", "examples_per_s", "epochs", "clocks", "updates", "seconds_per_update",
          "reads", "reads_waited", "wait_seconds", "lag_mean", "lag_max",
          "lag_counts", "bytes_sent",
          "bytes_received", "sent", "received", "early_sent", "early_received", "early_bytes_sent",
          "early_bytes_received", "early_pauses", "mode", "rule", "filter", "chosen",
          "server_bytes",
          "rule_bytes",
          "rule_bytes_max", "versions_max", "snapshots_max", "peak_rss_mb", "digest"]
QUIET = ["--progress", "never"]
ENDLESS = ["--epochs", "1000000"]


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_summary_has_every_field(rubato, shelf):
    out = rubato.ok("train", "linear", "--data", shelf / "train.svm", "--eval", shelf / "train.svm",
                    "--summary", "json", *QUIET)
    summary = json.loads(out.splitlines()[-1])
    assert list(summary) == FIELDS
    assert math.isfinite(summary["objective"]) and summary["eval"]
    assert len(summary["digest"]) == 16 and int(summary["digest"], 16) >= 0


def test_log_tells_the_run(rubato, shelf):
    rubato.ok("train", "linear", "--data", shelf / "train.svm", "--epochs", "4", "--log", "r.jsonl",
              "--seed", "3", *QUIET)
    log = events(rubato.folder / "r.jsonl")
    assert [event["event"] for event in log][::len(log) - 1] == ["start", "end"]
    assert log[0]["argv"][:3] == ["rubato", "train", "linear"]
    assert log[0]["config"]["seed"] == 3 and log[0]["config"]["consistency"] == "essp:2"
    assert all(event["event"] == "eval" for event in log[1:-1]) and len(log) >= 5
    assert log[-1]["status"] == "ok" and list(log[-1]["summary"]) == FIELDS
    times = [event["t"] for event in log[1:]]
    assert times == sorted(times)


@pytest.mark.parametrize("algo, data", [("linear", "train.svm"), ("mf", "ratings.csv")])
@pytest.mark.parametrize("consistency", ["bsp", "essp:2"])
def test_training_stops_when_the_target_is_reached(rubato, shelf, algo, data, consistency):
    words = ["train", algo, "--data", shelf / data, "--consistency", consistency, "--workers", "3",
             "--epochs", "40", "--summary", "json", *QUIET]
    rubato.ok(*words, "--log", "all.jsonl")
    objectives = [event["objective"] for event in events(rubato.folder / "all.jsonl")[1:-1]]
    target = (objectives[0] + min(objectives)) / 2
    summary = json.loads(rubato.ok(*words, "--target", target, "--log", "some.jsonl"))
    assert summary["epochs"] < 40
    log = events(rubato.folder / "some.jsonl")
    assert log[-1]["status"] == "ok"
    assert any(event["objective"] <= target for event in log[1:-1])


def test_workers_stop_together_and_no_epoch_is_told_twice(rubato, shelf):
    out = rubato.ok("train", "linear", "--data", shelf / "train.svm", "--consistency", "bsp",
                    "--workers", "4", "--epochs", "40", "--target", "0.69", "--log", "r.jsonl",
                    "--summary", "json", *QUIET)
    summary = json.loads(out)
    assert summary["epochs"] < 40
    assert summary["examples"] == 400 * summary["epochs"]
    epochs = [event["epoch"] for event in events(rubato.folder / "r.jsonl")[1:-1]]
    assert epochs == sorted(set(epochs))


def test_training_stops_when_patience_ends(rubato, shelf):
    """With no step at all the objective never improves after the first evaluation."""
    out = rubato.ok("train", "linear", "--data", shelf / "train.svm", "--lr", "1e-30", "--epochs",
                    "50", "--patience", "3", "--consistency", "bsp", "--summary", "json", *QUIET)
    assert 4 <= json.loads(out)["epochs"] <= 6


def test_a_new_run_replaces_the_log(rubato, shelf):
    rubato.write("r.jsonl", "x" * 100000)
    rubato.ok("train", "linear", "--data", shelf / "train.svm", "--log", "r.jsonl", *QUIET)
    assert events(rubato.folder / "r.jsonl")[-1]["status"] == "ok"


def test_wrong_usage_keeps_the_last_log_and_model(rubato, shelf):
    rubato.write("r.jsonl", "precious")
    rubato.write("m.model", "precious")
    for wrong in (["--rule", "quux"], ["--consistency", "x"]):
        result = rubato("train", "linear", "--data", shelf / "train.svm", "--log", "r.jsonl",
                        "--model", "m.model", *wrong)
        assert result.returncode == 2
    assert (rubato.folder / "r.jsonl").read_text() == "precious"
    assert (rubato.folder / "m.model").read_text() == "precious"


@pytest.mark.parametrize("algo, data", [("linear", "train.svm"), ("mf", "ratings.csv")])
def test_bsp_gives_the_same_bits_again_and_on_any_number_of_servers(rubato, shelf, algo, data):
    words = ["train", algo, "--data", shelf / data, "--workers", "4", "--consistency", "bsp",
             "--clocks-per-epoch", "3", "--epochs", "4", "--summary", "json", *QUIET]
    servers = [1] * 10 + [2, 5]
    digests = {json.loads(rubato.ok(*words, "--servers", count))["digest"] for count in servers}
    assert len(digests) == 1
    other = json.loads(rubato.ok(*words, "--seed", "2"))["digest"]
    assert other not in digests


@pytest.mark.parametrize("algo, data", [("linear", "train.svm"), ("mf", "ratings.csv")])
def test_bsp_gives_the_same_bits_with_every_placement(rubato, shelf, algo, data):
    words = ["train", algo, "--data", shelf / data, "--consistency", "bsp", "--workers", "2",
             "--servers", "3", "--epochs", "2", "--summary", "json", *QUIET]
    placements = ["hash", "range", "range-hash", "round-robin"]
    digests = {json.loads(rubato.ok(*words, "--placement", name))["digest"] for name in placements}
    assert len(digests) == 1


def test_predictions_are_one_per_example(rubato, shelf):
    arguments = ["predict", shelf / "linear.model", "--data", shelf / "train.svm"]
    lines = rubato.ok(*arguments).splitlines()
    assert len(lines) == 400 and all(math.isfinite(float(line)) for line in lines)
    assert rubato.ok(*arguments, "--out", "scores.txt") == ""
    assert (rubato.folder / "scores.txt").read_text().splitlines() == lines
    text = (shelf / "train.svm").read_text()
    assert rubato.ok("predict", shelf / "linear.model", "--data", "-", "--format", "libsvm",
                     stdin=text).splitlines() == lines


def test_ratings_are_predicted_for_users_and_items_alone(rubato, shelf):
    wanted = rubato.ok("predict", shelf / "mf.model", "--data", shelf / "ratings.csv")
    pairs = "".join(",".join(line.split(",")[:2]) + "\n"
                    for line in (shelf / "ratings.csv").read_text().splitlines())
    assert rubato.ok("predict", shelf / "mf.model", "--data", "-", stdin=pairs) == wanted
    result = rubato("eval", shelf / "mf.model", "--data", "-", stdin=pairs)
    assert result.returncode == 1 and "the rating is missing" in result.stderr


def test_eval_in_text_and_json(rubato, shelf):
    arguments = ["eval", shelf / "linear.model", "--data", shelf / "train.svm"]
    values = json.loads(rubato.ok(*arguments, "--summary", "json"))["eval"]
    assert values["accuracy"] > 0.6
    assert [line.split()[0] for line in rubato.ok(*arguments).splitlines()] == list(values)


def test_options_come_from_the_environment(rubato, shelf):
    from conftest import environment
    out = rubato.ok("train", "linear", "--data", shelf / "train.svm",
                    env=environment(RUBATO_EPOCHS="2", RUBATO_SUMMARY="json",
                                    RUBATO_PROGRESS="never"))
    assert json.loads(out)["epochs"] == 2


def test_the_text_has_three_lines_unless_all_figures_are_asked_for(rubato, shelf):
    arguments = ["train", "linear", "--data", shelf / "train.svm", "--eval", shelf / "train.svm",
                 "--epochs", "3", *QUIET]
    result, time, model = rubato.ok(*arguments, "--model", "m.rbt").splitlines()
    assert result.startswith("linear: objective 0.") and "; eval logloss 0." in result
    assert time.startswith("  time       3 epochs in ") and time.endswith(" examples/s")
    assert model == "  model      m.rbt"
    assert rubato.ok(*arguments).endswith("  model      not written; --model FILE keeps it\n")
    full = rubato.ok(*arguments, "--model", "m.rbt", "--summary", "full").splitlines()
    heads = [line.split()[0] for line in full]
    assert heads[:2] == ["linear:", "objective"] and heads[-2:] == ["digest", "model"]
    assert {"chosen", "eval", "work", "reads", "lag", "traffic", "memory"} <= set(heads)


def test_progress_goes_to_standard_error(rubato, shelf):
    arguments = ["train", "linear", "--data", shelf / "train.svm", "--epochs", "3"]
    shown = rubato(*arguments, "--progress", "always")
    assert "epoch 3/3  objective " in shown.stderr and "epoch 3/3" not in shown.stdout
    assert rubato(*arguments, *QUIET).stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_an_interrupted_run_leaves_a_log_and_no_model(rubato, shelf, number):
    process = rubato.start("train", "linear", "--data", shelf / "train.svm", "--log", "r.jsonl",
                           "--model", "m.model", *ENDLESS, *QUIET)
    wait_for_events(rubato.folder / "r.jsonl", process)
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert out == ""
    assert err.startswith("rubato: error: interrupted after ") and err.count("\n") == 1
    assert err.endswith("; no model was written\n")
    log = events(rubato.folder / "r.jsonl")
    assert log[-1]["event"] == "end" and log[-1]["status"] == "interrupted"
    assert rubato.files() == ["r.jsonl"]


def test_a_killed_run_leaves_a_usable_log(rubato, shelf):
    process = rubato.start("train", "linear", "--data", shelf / "train.svm", "--log", "r.jsonl",
                           *ENDLESS, *QUIET)
    wait_for_events(rubato.folder / "r.jsonl", process)
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    assert "running or killed" in rubato.ok("info", "r.jsonl")
    assert "objective" in rubato.ok("plot", "r.jsonl")


def wait_for_events(path, process):
    """Until the log has a few lines; the run is endless, so it can only be slow."""
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists() or path.read_bytes().count(b"\n") < 5:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_eval_reads_labels_as_training_did(rubato):
    rubato.write("train.svm", "1 1:1\n2 2:1\n1 1:2\n2 2:2\n" * 20)
    rubato.ok("train", "linear", "--data", "train.svm", "--model", "m", *QUIET)
    for label, feature in ((1, 1), (2, 2)):
        rubato.write("one.svm", f"{label} {feature}:1\n")
        out = rubato.ok("eval", "m", "--data", "one.svm", "--summary", "json")
        assert json.loads(out)["eval"]["accuracy"] == 1
    rubato.write("zero.svm", "0 1:1\n1 2:1\n")
    rubato.ok("train", "linear", "--data", "zero.svm", "--model", "m", *QUIET)
    result = rubato("eval", "m", "--data", "train.svm")
    assert result.returncode == 1
    assert result.stderr == ('rubato: error: cannot read "train.svm": labels are 1 and 2, but the '
                             "model was trained with 1 as the larger one\n")


@pytest.mark.parametrize("data", ["data", "data/*.svm", "data/train.svm"])
def test_outputs_spare_inputs(rubato, shelf, data):
    (rubato.folder / "data").mkdir()
    content = (shelf / "train.svm").read_bytes()
    rubato.write("data/train.svm", content)
    rubato.write("m", (shelf / "linear.model").read_bytes())
    for words in (["train", "linear", "--data", data, "--model", "data/train.svm"],
                  ["train", "linear", "--data", data, "--log", "data/train.svm"],
                  ["predict", "m", "--data", data, "--out", "data/train.svm"],
                  ["predict", "m", "--data", data, "--out", "m"]):
        result = rubato(*words)
        assert result.returncode == 2
        assert "would overwrite the data in" in result.stderr
    assert (rubato.folder / "data/train.svm").read_bytes() == content
    assert (rubato.folder / "m").read_bytes() == (shelf / "linear.model").read_bytes()


@pytest.mark.parametrize("penalty", [[], ["--l1", "1e-3", "--l2", "0"]])
def test_a_feature_of_one_worker_is_regularised_as_much_as_with_one_worker(rubato, penalty):
    rubato.ok("gen", "clicks", "--examples", "4000", "--vocabulary", "2000", "--out", "tail.svm")
    objective = {(workers, clocks): json.loads(rubato.ok(
        "train", "linear", "--data", "tail.svm", "--workers", workers, "--consistency", "bsp",
        "--clocks-per-epoch", clocks, "--lr", "0.1", "--schedule", "constant", "--epochs", "80",
        "--progress", "never", "--summary", "json", *penalty).splitlines()[-1])["objective"]
        for workers, clocks in ((1, 1), (4, 1), (4, 20))}
    assert objective[4, 1] < 1.01 * objective[1, 1]
    assert objective[4, 20] < 1.01 * objective[1, 1]


def test_regularisation_sends_no_more_features_than_the_examples_have(rubato):
    rubato.ok("gen", "clicks", "--examples", "4000", "--vocabulary", "20000", "--out", "tail.svm")
    made = {(rule, l2): json.loads(rubato.ok(
        "simulate", "--workers", "4", "--servers", "2", "--", "train", "linear", "--data",
        "tail.svm", "--consistency", "ssp:2", "--clocks-per-epoch", "20", "--epochs", "2", "--rule",
        rule, "--l2", l2, "--progress", "never", "--summary", "json").splitlines()[-1])
        for rule in ("add", "dynsgd") for l2 in ("0", "0.01")}
    for rule in ("add", "dynsgd"):
        assert made[rule, "0"]["digest"] != made[rule, "0.01"]["digest"]
        assert made[rule, "0"]["bytes_sent"] == made[rule, "0.01"]["bytes_sent"]
    assert made["dynsgd", "0"]["rule_bytes_max"] == made["dynsgd", "0.01"]["rule_bytes_max"] > 0
