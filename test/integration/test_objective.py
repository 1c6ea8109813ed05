"""What an epoch reports, and what --target believes: only what everybody has seen and done."""

import json

import pytest

LATE = ["simulate", "--workers", 8, "--servers", 2, "--stragglers", "50%x1..8", "--latency", "1ms"]
QUIET = ["--progress", "never", "--summary", "json", "--log", "log.jsonl"]


def run(rubato, *words):
    """The summary, and the objectives of the epochs."""
    summary = json.loads(rubato.ok(*words, *QUIET))
    events = [json.loads(line) for line in (rubato.folder / "log.jsonl").read_text().splitlines()]
    return summary, [event["objective"] for event in events if event["event"] == "eval"]


@pytest.fixture
def documents(rubato):
    rubato.ok("gen", "documents", "--docs", 800, "--vocab", 500, "--tokens", "60k", "--out", "docs")
    return ["lda", "--data", "docs", "--topics", 10, "--clocks-per-epoch", 1]


@pytest.mark.parametrize("rows", ["dense", "sparse"])
@pytest.mark.parametrize("consistency", ["essp:2", "ssp:8", "asp"])
def test_topics_are_measured_with_the_tokens_of_all_workers(rubato, documents, consistency, rows):
    """With the counts of some workers missing, the first epochs looked like half of what they are;
    with 32 workers, some always are late."""
    summary, objectives = run(rubato, "train", *documents, "--workers", 32, "--epochs", 8, "--rows",
                              rows, "--consistency", consistency, "--target", 6)
    assert summary["epochs"] == 8
    assert min(objectives) >= 0.99 * summary["objective"], objectives


@pytest.mark.parametrize("consistency", ["ssp:8", "essp:8"])
def test_no_target_is_reached_that_only_some_have_seen(rubato, documents, consistency):
    """Late workers: each factorises well for itself, and what they make together is worse. The
    target counts for that; the first five epochs of each seem to reach it."""
    rubato.ok("gen", "ratings", "--users", 300, "--items", 200, "--ratings", "20k", "--out",
              "ratings.csv")
    rubato.ok("gen", "sparse", "--examples", "5k", "--features", "2k", "--out", "train.svm")
    for target, words in {0.23: ["mf", "--data", "ratings.csv"],
                          0.69: ["linear", "--data", "train.svm"],
                          6.7: documents}.items():
        summary, objectives = run(rubato, *LATE, "--", "train", *words, "--epochs", 30,
                                  "--consistency", consistency, "--target", target)
        assert summary["epochs"] < 30
        assert min(objectives) <= target
        assert summary["objective"] <= target, (words[0], objectives)


@pytest.mark.parametrize("consistency", ["bsp", "ssp:2", "essp:2"])
def test_a_target_does_not_cost_epochs(rubato, consistency):
    """It is not later than the figures of the workers say."""
    rubato.ok("gen", "ratings", "--users", 300, "--items", 200, "--ratings", "20k", "--out",
              "ratings.csv")
    words = [*LATE, "--", "train", "mf", "--data", "ratings.csv", "--epochs", 20, "--consistency",
             consistency]
    _, objectives = run(rubato, *words)
    at = next(i for i, value in enumerate(objectives) if value <= 0.15) + 1
    summary, objectives = run(rubato, *words, "--target", 0.15)
    assert objectives[-1] <= 0.15
    assert summary["epochs"] <= at + 3  # the bound lets them be ahead


def test_a_model_that_knows_less_than_none_is_refused(rubato):
    """Eight clocks behind and with a step size that does not heed it, the workers' moves add up to
    more than any of them meant. By default they do not."""
    rubato.ok("gen", "ratings", "--users", 300, "--items", 200, "--ratings", "20k", "--out",
              "ratings.csv")
    late = [*LATE, "--", "train", "mf", "--data", "ratings.csv", "--epochs", 8, "--consistency",
            "ssp:8"]
    summary, _ = run(rubato, *late)
    assert summary["objective"] < 0.3  # of the mean rating it is 0.67
    result = rubato(*late, "--lr", 0.08, "--model", "m.rbt", "--progress", "never")
    assert result.returncode == 1
    assert "training diverged: the objective after pass 8 is " in result.stderr
    assert "of the mean rating" in result.stderr
    assert "--consistency bsp" in result.stderr
    assert "m.rbt" not in rubato.files()
    result = rubato("train", "mf", "--data", "ratings.csv", "--lr", 10, "--model", "m.rbt",
                    "--workers", 1, "--progress", "never")
    assert result.returncode == 1
    assert "training diverged in epoch 1" in result.stderr
    assert "Try a smaller step size, --lr.\n" in result.stderr


def test_many_workers_reach_what_one_does(rubato):
    """In as many epochs. Items with few ratings used to learn slowly from 32 workers: 10% worse."""
    rubato.ok("gen", "ratings", "--users", 1000, "--items", 400, "--ratings", "20k", "--rank", 4,
              "--out", "ratings.csv")
    rubato.ok("gen", "documents", "--docs", 800, "--vocab", 500, "--tokens", "60k", "--out", "docs")
    rubato.ok("gen", "blobs", "--points", 2000, "--clusters", 10, "--out", "blobs.csv")
    for limit, words in [(1.01, ["mf", "--data", "ratings.csv"]),
                         (1.01, ["lda", "--data", "docs", "--topics", 10, "--epochs", 60]),
                         (1.01, ["kmeans", "--data", "blobs.csv", "--k", 10])]:
        found = {}
        for workers in (1, 32):
            summary, _ = run(rubato, "simulate", "--workers", workers, "--servers", 2, "--latency",
                             "1ms", "--jitter", "2ms", "--", "train", *words)
            found[workers] = summary["objective"]
        assert found[32] < limit * found[1], (words[0], found)


def test_a_cluster_tells_of_all_its_processes(rubato):
    """Each knows its own workers only; a log told of those of one, and the slowest clock was 0."""
    rubato.ok("gen", "sparse", "--examples", "2k", "--features", 500, "--out", "train.svm")
    summary = json.loads(rubato.ok(
        "run", "--workers", 3, "--", "train", "linear", "--data", "train.svm", "--solver", "sgd",
        "--epochs", 4, "--clocks-per-epoch", 4, "--consistency", "bsp", *QUIET))
    events = [json.loads(line) for line in (rubato.folder / "log.jsonl").read_text().splitlines()]
    events = [event for event in events if event["event"] == "eval"]
    assert [event["workers"] for event in events] == [3, 3, 3, 3]
    assert [event["clock_min"] for event in events] == [5, 9, 13, 17]  # one to prepare
    reads = [sum(event["lag_counts"]) for event in events]
    assert reads == sorted(reads)
    assert reads[0] >= 3 * 4 * 2  # in every clock a worker reads parameters and whether to stop
    assert reads[2] > 0.6 * summary["reads"]  # three epochs of four
    sent = [event["bytes"] for event in events]
    assert sent == sorted(sent)
    assert sent[2] > 0.6 * sent[3]
    assert sent[3] == summary["bytes_sent"] + summary["bytes_received"]
