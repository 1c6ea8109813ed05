"""Filters in training: lossless ones change no bit, others little, all the same everywhere."""

import json
import os
import pathlib

import pytest

# Sanitizers take five times as long, and bits are compared without them, too.
RULES = ["adagrad"] if "asan" in os.environ["RUBATO"] else ["add", "adagrad"]
LOSSLESS = ["keys", "zeros", "changed", "lz4", "zstd:3", "keys,changed,zeros,lz4",
            "push.tiny:0,pull.significant:0", "push.skip:1"]
LATE = ["tiny:1e-3", "significant:1e-3", "significant:4e-3:1"]  # nothing is lost, or little
ROUNDED = ["f16", "bf16", "fixed:8", "push.fixed:8,pull.f16", "significant:1e-3,fixed:8,lz4"]
NOISY = ["skip:0.95", "sample:250"]
QUIET = ["--progress", "never", "--summary", "json"]
TOP = pathlib.Path(os.environ["RUBATO"]).parent / "test" / "filters"
DATA = {"linear": "train.svm", "mf": "ratings.csv"}
FIXED = ["--consistency", "bsp", "--epochs", "4"]


@pytest.fixture(scope="module")
def data(shelf, tmp_path_factory):
    from conftest import Rubato
    run = Rubato(tmp_path_factory.mktemp("filters"))
    run.ok("gen", "sparse", "--examples", "1500", "--features", "300", "--nonzeros", "10", "--out",
           "train.svm")
    run.ok("gen", "ratings", "--users", "80", "--items", "50", "--ratings", "2000", "--out",
           "ratings.csv")
    return run.folder


def summary(text):
    return json.loads(text.splitlines()[-1])


def embedded(rubato, data, algo, *more):
    return summary(rubato.ok("train", algo, "--data", data / DATA[algo], "--workers", "3",
                             "--servers", "2", *QUIET, *FIXED, *more))


def simulated(rubato, data, algo, *more):
    return summary(rubato.ok("simulate", "--workers", "3", "--servers", "2", "--", "train", algo,
                             "--data", data / DATA[algo], *QUIET, *FIXED, *more))


@pytest.mark.parametrize("algo", ["linear", "mf"])
@pytest.mark.parametrize("rule", RULES)
def test_lossless_filters_change_no_bit(rubato, data, algo, rule):
    plain = embedded(rubato, data, algo, "--rule", rule)
    network = simulated(rubato, data, algo, "--rule", rule)["network_bytes"]
    assert plain["filter"] == "none"
    for text in LOSSLESS:
        made = embedded(rubato, data, algo, "--rule", rule, "--filter", text)
        assert (made["digest"], made["filter"]) == (plain["digest"], text)
        far = simulated(rubato, data, algo, "--rule", rule, "--filter", text)
        assert far["digest"] == plain["digest"]
        # Lists of keys have names without filters, too, so there is little left to be saved here.
        assert far["network_bytes"] < 1.1 * network


@pytest.mark.parametrize("algo", ["linear", "mf"])
@pytest.mark.parametrize("rule", RULES)
def test_others_change_little_and_the_same_everywhere(rubato, data, algo, rule):
    words = ["--rule", rule]
    if algo == "linear" and rule == "add":  # so that a clock changes more rows than a sample has
        words += ["--clocks-per-epoch", "3"]
    plain = embedded(rubato, data, algo, *words)
    for text in LATE + ROUNDED + NOISY:
        made = embedded(rubato, data, algo, *words, "--filter", text)
        assert made["digest"] != plain["digest"], text
        error = abs(made["objective"] - plain["objective"]) / plain["objective"]
        assert error < (0.3 if text in NOISY else 0.02), text
        far = simulated(rubato, data, algo, *words, "--filter", text)
        assert far["digest"] == made["digest"], text


def test_what_is_held_back_arrives(rubato, data):
    """One worker sees all that it has done, and in the end everybody does."""
    top = TOP / "top.so"
    for algo in ("linear", "mf"):
        for clocks in ("1", "7"):
            more = ["--workers", "1", "--epochs", "10", "--clocks-per-epoch", clocks]
            plain = embedded(rubato, data, algo, *more)
            for text in (f"push.{top}", "push.significant:0.2", "tiny:1e9"):
                made = embedded(rubato, data, algo, *more, "--filter", text)
                error = abs(made["objective"] - plain["objective"]) / plain["objective"]
                assert error < 1e-5, (algo, text, made["objective"], plain["objective"])


def test_what_is_held_back_arrives_from_many(rubato, data):
    plain = embedded(rubato, data, "linear", "--epochs", "10")
    held = embedded(rubato, data, "linear", "--epochs", "10", "--filter", f"push.{TOP / 'top.so'}")
    assert held["objective"] < 1.05 * plain["objective"]
    far = processes(rubato, data, "--epochs", "10", "--filter", f"push.{TOP / 'top.so'}")
    assert far["digest"] == held["digest"]


def test_a_target_that_stops_a_run_loses_nothing(rubato, data, tmp_path):
    embedded(rubato, data, "linear", "--workers", "1", "--epochs", "8", "--log", tmp_path / "log")
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    told = [event["objective"] for event in events if event["event"] == "eval"]
    target = (told[3] + told[4]) / 2  # between two epochs
    stop = ["--workers", "1", "--epochs", "20", "--target", str(target)]
    held = embedded(rubato, data, "linear", *stop, "--filter", "push.significant:0.2")
    assert held["epochs"] < 20
    assert held["objective"] < target  # the servers have it, and what was on its way besides


def test_every_filter_saves_what_it_is_for(rubato, data):
    more = ["--rule", "adagrad"]
    for text, what, factor in [("keys", "keys", 20), ("fixed:8", "push", 3.5),
                               ("fixed:8", "pull", 3.5), ("f16", "push", 1.9),
                               ("skip:0.1", "push", 4), ("changed", "pull", 1),
                               ("significant:0.01", "pull", 1.5), ("zeros", "push", 1)]:
        made = simulated(rubato, data, "linear", *more, "--filter", text)
        before, after = (made[f"filter_{what}_{side}_bytes"] for side in ("in", "out"))
        assert before >= factor * after, (text, what, before, after)


def test_kkt_learns_the_penalty(rubato, data):
    for rule in ["prox", "ftrl"]:
        more = ["--rule", rule, "--l1", "5e-3"]
        plain = simulated(rubato, data, "linear", *more)
        made = simulated(rubato, data, "linear", *more, "--filter", "keys,kkt")
        assert made["filter"].startswith("keys,kkt:") and float(made["filter"][9:]) > 0
        assert abs(made["objective"] - plain["objective"]) < 2e-3 * plain["objective"]
        assert made["filter_push_out_bytes"] < 0.8 * made["filter_push_in_bytes"]
    for more in [["--l1", "1e-3"], ["--rule", "prox"], ["--rule", "adagrad"]]:
        result = rubato("train", "linear", "--data", data / "train.svm", "--filter", "kkt", *more)
        assert result.returncode == 2
        assert 'filter "kkt" needs a rule that takes gradients and an L1 penalty' in result.stderr


def test_rounding_leaves_the_penalty_alone(rubato, data):
    """Weights without a gradient shrink, too: rounding must not make them rows of zeros."""
    more = ["--rule", "prox", "--l1", "5e-3", "--clocks-per-epoch", "32"]
    plain = simulated(rubato, data, "linear", *more)
    for text in ["bf16", "fixed:8", "fixed:16,lz4"]:
        made = simulated(rubato, data, "linear", *more, "--filter", text)
        assert abs(made["objective"] - plain["objective"]) < 1e-3 * plain["objective"], text


def test_the_log_tells_what_was_saved_so_far(rubato, data, tmp_path):
    made = simulated(rubato, data, "linear", "--filter", "keys,lz4", "--log", tmp_path / "log")
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    saved = [event["filter_keys_out_bytes"] for event in events if event["event"] == "eval"]
    assert len(saved) >= 4 and saved == sorted(saved)
    assert 0 < saved[0] and saved[-1] <= made["filter_keys_out_bytes"]


def test_a_lossy_network_changes_nothing_but_bytes(rubato, data):
    more = ["--rule", "adagrad", "--filter", "keys,changed,zeros,lz4"]
    plain = embedded(rubato, data, "linear", "--rule", "adagrad")
    made = summary(rubato.ok(
        "simulate", "--workers", "3", "--servers", "2", "--loss", "3%", "--duplication", "3%",
        "--jitter", "1ms", "--", "train", "linear", "--data", data / "train.svm", *QUIET, *FIXED,
        *more))
    assert made["digest"] == plain["digest"]
    assert made["lost"] > 0


def test_filters_with_early_rows(rubato, data):
    fixed = ["--epochs", "10", "--rule", "adarev", "--consistency", "essp:2", "--bandwidth", "1MB"]
    run = ["simulate", "--workers", "4", "--", "train", "mf", "--data", data / "ratings.csv",
           *QUIET, *fixed]
    plain = summary(rubato.ok(*run))
    made = summary(rubato.ok(*run, "--filter", "keys,significant:1e-3,fixed:8"))
    assert made["objective"] < 1.1 * plain["objective"]
    assert made["network_bytes"] < plain["network_bytes"]


def test_summary_for_people(rubato, data):
    text = rubato.ok("simulate", "--workers", "2", "--", "train", "linear", "--data",
                     data / "train.svm", "--progress", "never", "--filter", "keys,lz4",
                     "--summary", "full")
    assert "  filters    keys,lz4\n             keys " in text and ", push " in text
    text = rubato.ok("train", "linear", "--data", data / "train.svm", "--progress", "never",
                     "--filter", "none", "--summary", "full")
    assert "filters" not in text


@pytest.mark.parametrize("text, says", [
    ("quux", 'there is no filter "quux"'), ("fixed:99", "at most 24"), ("tiny", "threshold"),
    ("tiny:x", '"x" is not a number'), ("f16,bf16", "both round"), ("none,lz4", "stands alone"),
    ("pull.zeros", "for updates (push) only"), (",", "has no name of a filter"),
    ("./missing.so", "missing.so")])
def test_mistakes(rubato, data, text, says):
    for algo in DATA:
        result = rubato("train", algo, "--data", data / DATA[algo], "--filter", text)
        assert result.returncode == 2, result.stderr
        assert says in result.stderr
        assert result.stderr.count("error:") == 1


def processes(rubato, data, *more):
    return summary(rubato.ok(
        "run", "--transport", "tcp", "--workers", "3", "--servers", "2", "--", "train", "linear",
        "--data", data / "train.svm", *QUIET, *FIXED, *more))


@pytest.mark.parametrize("text", [
    "keys", "lz4", "zstd", "changed", "f16", "fixed:8", "significant:1e-3", "skip:0.9,push.f16",
    "keys,zeros,lz4", "push.significant:1e-3,push.fixed:8", "keys,significant:1e-3,fixed:8,lz4"])
def test_processes_filter_as_one_does(rubato, data, text):
    here = embedded(rubato, data, "linear", "--rule", "adagrad", "--filter", text)
    far = processes(rubato, data, "--rule", "adagrad", "--filter", text)
    assert (far["digest"], far["filter"]) == (here["digest"], text)


@pytest.mark.parametrize("rule", ["prox", "ftrl"])
def test_processes_with_a_penalty(rubato, data, rule):
    more = ["--rule", rule, "--l1", "5e-3", "--filter", "keys,kkt,changed,zstd"]
    here = embedded(rubato, data, "linear", *more)
    assert processes(rubato, data, *more)["digest"] == here["digest"]


def test_processes_send_less(rubato, data):
    """Of updates and reads: acknowledgements and what watches the run depend on the time."""
    def weigh(text):
        made = processes(rubato, data, "--rule", "adagrad", "--clocks-per-epoch", "8", "--epochs",
                         "8", "--filter", text)
        return [sum(made[way].values()) - made[way]["other"] for way in ("sent", "received")]

    sent, received = weigh("none")  # keys and values as they are
    for text, most_sent, most_received in [("keys", 0.95, 1.02), ("f16", 0.8, 0.8),
                                           ("fixed:8", 0.7, 0.7), ("keys,fixed:8", 0.55, 0.7),
                                           ("significant:0.02", 1, 0.8)]:
        now = weigh(text)
        assert now[0] <= most_sent * sent, (text, now, sent, received)
        assert now[1] <= most_received * received, (text, now, sent, received)


def test_zeros_stay_behind_whatever_is_named(rubato, tmp_path):
    """A clock changes few of many rows, and only those travel unless all are asked for."""
    rubato.ok("gen", "sparse", "--examples", "400", "--features", "40000", "--nonzeros", "20",
              "--out", tmp_path / "wide.svm")

    def sent(*more):
        return summary(rubato.ok(
            "run", "--transport", "tcp", "--workers", "1", "--servers", "1", "--", "train",
            "linear", "--data", tmp_path / "wide.svm", *QUIET, *FIXED, "--clocks-per-epoch", "40",
            *more))["bytes_sent"]

    plain = sent()
    all_rows = sent("--filter", "keys,zeros:0")
    assert all_rows > 3 * plain
    assert sent("--filter", "keys") < 1.1 * plain
    assert sent("--filter", "keys,changed") < 1.1 * plain
    assert sent("--filter", "changed") < all_rows / 3  # reads write keys out
