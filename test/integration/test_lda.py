"""`rubato train lda`: from a raw file to topics, in every driver, and sentences about mistakes."""

import json

import pytest

SUBJECTS = (("moon", "star", "orbit", "comet"), ("bread", "flour", "oven", "yeast"))


def text_of(count):
    """Documents about one of two subjects, in an order without chance."""
    lines = []
    for d in range(count):
        words = SUBJECTS[d % 2]
        lines.append(" ".join(words[(d // 2 + i * i) % 4] for i in range(12)) + " and then")
    return "\n".join(lines) + "\n"


@pytest.fixture
def trained(rubato):
    rubato.write("articles.txt", text_of(60))
    rubato.ok("train", "lda", "--data", "articles.txt", "--topics", 2, "--epochs", 30,
              "--workers", 2, "--consistency", "bsp", "--model", "m.rbt")
    return rubato


def test_from_text_to_topics(trained):
    lines = trained.ok("export", "m.rbt", "--format", "topics").splitlines()
    assert len(lines) == 2
    best = [set(line.split()[2:6]) for line in lines]
    assert sorted(map(sorted, best)) == sorted(map(sorted, map(set, SUBJECTS)))
    shown = trained.ok("info", "m.rbt")
    assert "the 2 topics" in shown and "moon" in shown
    settings = dict(line.split() for line in shown.splitlines() if len(line.split()) == 2)
    assert settings["documents"] == "60" and settings["tokens"] == str(60 * 14)
    assert float(settings["documents_loglik"]) < 0


def test_predictions_are_shares(trained):
    trained.write("new.txt", "moon comet orbit unheard\n\nbread and oven\n")
    lines = trained.ok("predict", "m.rbt", "--data", "new.txt").splitlines()
    shares = [[float(word) for word in line.split()] for line in lines]
    assert [len(line) for line in shares] == [2, 2, 2]
    assert all(abs(sum(line) - 1) < 0.01 for line in shares)
    assert max(shares[0]) > 0.8 and max(shares[2]) > 0.8
    assert shares[0].index(max(shares[0])) != shares[2].index(max(shares[2]))
    assert shares[1] == [0.5, 0.5]  # a line without words is a document, too


def test_counts_and_figures(trained):
    total = sum(int(pair.split(":")[1]) for line in trained.ok("export", "m.rbt").splitlines()
                for pair in line.split()[1:])
    assert total == 60 * 14
    figures = dict(line.split() for line in
                   trained.ok("eval", "m.rbt", "--data", "articles.txt").splitlines())
    assert 3 < float(figures["perplexity"]) < 8


@pytest.mark.parametrize("sampler", ["dense", "sparse", "alias"])
def test_all_drivers_agree(rubato, sampler):
    rubato.ok("gen", "documents", "--docs", 200, "--vocab", 300, "--tokens", 8000, "--topics", 5,
              "--out", "bag.txt")
    words = ["train", "lda", "--data", "bag.txt", "--topics", 20, "--epochs", 3, "--consistency",
             "bsp", "--sampler", sampler, "--summary", "json", "--progress", "never"]
    layout = ["--workers", 4, "--servers", 2]

    def digest(*line):
        return json.loads(rubato.ok(*line).splitlines()[-1])["digest"]

    here = digest(*words, *layout)
    assert digest("run", *layout, "--", *words) == here
    assert digest("simulate", *layout, "--", *words) == here


def bag(rubato):
    rubato.ok("gen", "documents", "--docs", 200, "--vocab", 300, "--tokens", 8000, "--topics", 5,
              "--out", "bag.txt")


def summary_of(rubato, *words, launcher=("train",)):
    return json.loads(rubato.ok(*launcher, "lda", "--data", "bag.txt", "--topics", 20,
                                "--consistency", "bsp", "--summary", "json", "--progress",
                                "never", *words).splitlines()[-1])


@pytest.mark.parametrize("sampler", ["dense", "sparse", "alias"])
def test_state_goes_on_where_it_was(rubato, sampler):
    bag(rubato)
    words = ["--workers", 3, "--sampler", sampler]
    whole = summary_of(rubato, *words, "--epochs", 5)["digest"]
    assert summary_of(rubato, *words, "--epochs", 5, "--state", "a")["digest"] == whole
    assert summary_of(rubato, *words, "--epochs", 2, "--state", "b")["digest"] != whole
    assert summary_of(rubato, *words, "--epochs", 3, "--state", "b")["digest"] == whole
    assert sorted(path.name for path in (rubato.folder / "b").iterdir()) == [
        "topics.0", "topics.1", "topics.2"]


@pytest.mark.parametrize("driver", ["run", "simulate"])
def test_sparse_rows_hold_the_same(rubato, driver):
    bag(rubato)
    layout = ["--workers", 4, "--servers", 2]
    here = summary_of(rubato, *layout, "--epochs", 3, "--rows", "dense")["digest"]
    assert summary_of(rubato, *layout, "--epochs", 3, "--rows", "sparse")["digest"] == here
    assert summary_of(rubato, "--epochs", 3, "--rows", "sparse", "--state", "s",
                      launcher=(driver, *layout, "--", "train"))["digest"] == here


@pytest.mark.parametrize("words", [["--filter", "zeros"], ["--bandwidth", "1MB"], ["--exact"]])
def test_sparse_rows_cannot_all(rubato, words):
    bag(rubato)
    result = rubato("train", "lda", "--data", "bag.txt", "--rows", "sparse", *words)
    assert result.returncode == 2
    assert '"--rows sparse" excludes --bandwidth' in result.stderr


def test_state_in_every_driver(rubato):
    bag(rubato)
    layout = ["--workers", 4, "--servers", 2]
    whole = summary_of(rubato, *layout, "--epochs", 3)["digest"]
    for at, driver in enumerate(["run", "simulate", "run"]):
        again = summary_of(rubato, "--epochs", 1, "--state", "s",
                           launcher=(driver, *layout, "--", "train"))["digest"]
        assert (again == whole) == (at == 2)


@pytest.mark.parametrize("words, code, message", [
    (["--topics", 30], 2, 'the state in "s" belongs to a training with 20 topics, not 30'),
    (["--workers", 3], 2, 'the state in "s" belongs to a training with 2 workers, not 3'),
    (["--workers", 1], 2, 'the state in "s" belongs to a training with 2 workers, not 1'),
    (["--seed", 9], 2, 'the state in "s" belongs to a training with --seed 1, not 9'),
    (["--data", "other.txt"], 1, 'the state in "s" belongs to other training data'),
])
def test_state_must_fit(rubato, words, code, message):
    bag(rubato)
    rubato.ok("gen", "documents", "--docs", 200, "--vocab", 300, "--tokens", 8000, "--topics", 5,
              "--seed", 2, "--out", "other.txt")
    base = ["train", "lda", "--data", "bag.txt", "--topics", 20, "--epochs", 1, "--workers", 2,
            "--state", "s", "--progress", "never"]
    rubato.ok(*base)
    if words[0] == "--data":
        base[3] = words[1]
        words = []
    result = rubato(*base, *words)
    assert result.returncode == code
    assert message in result.stderr and "Traceback" not in result.stderr
    rubato.ok("train", "lda", "--data", "bag.txt", "--topics", 20, "--epochs", 1, "--workers", 2,
              "--state", "s", "--progress", "never")  # nothing was harmed


def test_state_with_holes(rubato):
    bag(rubato)
    summary_of(rubato, "--workers", 2, "--epochs", 1, "--state", "s")
    (rubato.folder / "s" / "topics.1").unlink()
    result = rubato("train", "lda", "--data", "bag.txt", "--topics", 20, "--workers", 2,
                    "--state", "s")
    assert result.returncode == 1
    assert 'the state in "s" has the topics of 1 of 2 workers' in result.stderr
    assert [path.name for path in (rubato.folder / "s").iterdir()] == ["topics.0"]


def test_state_that_is_damaged(rubato):
    bag(rubato)
    summary_of(rubato, "--workers", 1, "--epochs", 1, "--state", "s")
    path = rubato.folder / "s" / "topics.0"
    path.write_bytes(path.read_bytes()[:-20] + b"?" * 20)
    result = rubato("train", "lda", "--data", "bag.txt", "--topics", 20, "--workers", 1,
                    "--state", "s")
    assert result.returncode == 1
    assert 'cannot read "s/topics.0": it is damaged (a block of topics)' in result.stderr


def test_likelihood_of_each_worker(rubato):
    bag(rubato)
    summary = summary_of(rubato, "--workers", 4, "--epochs", 4, "--log", "run.jsonl")
    events = [json.loads(line) for line in (rubato.folder / "run.jsonl").read_text().splitlines()]
    told = [event for event in events if event["event"] == "eval"]
    assert len(told) == 4
    for event in told:
        low, middle, high = (event["by_worker"]["loglik_per_token_" + name]
                             for name in ("min", "median", "max"))
        assert low < middle < high < 0
        assert low < -event["objective"] < high or abs(middle + event["objective"]) < 0.2
    assert told[-1]["by_worker"] == summary["by_worker"]
    alone = summary_of(rubato, "--workers", 1, "--epochs", 3)
    figures = set(alone["by_worker"].values())
    assert len(figures) == 1
    assert abs(figures.pop() + alone["objective"]) < 1e-4


def test_rows_travel_early(rubato):
    rubato.ok("gen", "documents", "--docs", 200, "--vocab", 300, "--tokens", 8000, "--topics", 5,
              "--out", "bag.txt")
    summary = json.loads(rubato.ok(
        "simulate", "--workers", 4, "--servers", 2, "--stragglers", "100%x10000", "--", "train",
        "lda", "--data", "bag.txt", "--topics", 20, "--epochs", 5, "--bandwidth", "1MB",
        "--priority", "relative", "--summary", "json", "--progress", "never"))
    assert summary["early_sent"] > 0 and summary["early_received"] > 0


@pytest.mark.parametrize("content, words, message", [
    ("2\n3\n1\n1 4 1\n", [], 'cannot read "d", line 4: word 4 is out of range: the head says 3'),
    ("1 1:0.5\n", [],
     'cannot read "d", example 1: feature 1 has the value 0.5, which is not a count'),
    ("a b c\n", [], "the training data has no words"),
    ("moon moon\n", ["--rule", "adagrad", "--min-count", 1], '"--rule" does not apply to lda'),
    ("1 2:3 goals\n", [], "--format text"),
    ("1 1:2\n", ["--stop-words", "d"], '"--stop-words" needs text, but "d" has numbers of words'),
    ("moon moon\n", ["--format", "csv"], 'the format "CSV" do not hold documents'),
])
def test_mistakes(rubato, content, words, message):
    rubato.write("d", content)
    result = rubato("train", "lda", "--data", "d", *words)
    assert result.returncode != 0
    assert message in result.stderr


def test_clock_times_are_text(rubato):
    rubato.write("news.txt", "The shuttle landed at 12:30 today\nhockey goal goal 3:2\n")
    rubato.ok("train", "lda", "--data", "news.txt", "--topics", 2, "--epochs", 2, "--min-count", 1,
              "--workers", 1, "--model", "m.rbt")
    rubato.write("new.txt", "3 12:30 goal goal\n")  # the model says that it is text
    assert len(rubato.ok("predict", "m.rbt", "--data", "new.txt").splitlines()) == 1
    assert "perplexity" in rubato.ok("eval", "m.rbt", "--data", "new.txt")


@pytest.mark.parametrize("command, content, words, message", [
    ("eval", "unheard of\n", [], "the evaluation data has no word of the model's vocabulary"),
    ("eval", "moon\n", [], "no document with two words of the model's vocabulary"),
    ("eval", "1 1:2 2:1\n", [], "it has numbers of words, but the model was trained on text"),
    ("predict", "1\n2\n1\n1 1 3\n", [], "it has numbers of words"),
    ("predict", "1 1:2\n", ["--format", "libsvm"], "it has numbers of words"),
    ("predict", "moon \0 moon\n", [], 'cannot read "d": it is not text'),
])
def test_what_does_not_fit_the_model(trained, command, content, words, message):
    trained.write("d", content)
    result = trained(command, "m.rbt", "--data", "d", *words)
    assert result.returncode != 0
    assert result.stdout == ""
    assert message in result.stderr


def test_numbers_fit_a_model_with_a_vocabulary(rubato):
    rubato.write("bag", "2\n2\n2\n1 1 3\n2 2 3\n")
    rubato.write("words", "moon\nbread\n")
    rubato.ok("train", "lda", "--data", "bag", "--vocab", "words", "--topics", 2, "--epochs", 2,
              "--workers", 1, "--model", "m.rbt")
    rubato.write("text", "moon moon moon\nbread bread bread\n")
    assert rubato.ok("predict", "m.rbt", "--data", "bag") == rubato.ok(
        "predict", "m.rbt", "--data", "text")


def test_evaluation_data_must_have_known_words(rubato):
    rubato.write("d", "moon moon\n")
    rubato.write("e", "unheard of\n")
    result = rubato("train", "lda", "--data", "d", "--eval", "e", "--min-count", 1)
    assert result.returncode != 0
    assert "the evaluation data has no word of the model's vocabulary" in result.stderr


def test_samplers_find_topics_of_equal_worth(rubato):
    """The objective is that of words and topics together, which may look well where all tokens have
    one topic; what topics are worth shows in documents that are completed with them."""
    rubato.ok("gen", "documents", "--docs", 800, "--vocab", 500, "--tokens", "60k", "--out", "docs")
    found = {}
    for sampler in ("dense", "sparse", "alias"):
        summary = json.loads(rubato.ok(
            "train", "lda", "--data", "docs", "--eval", "docs", "--topics", 20, "--epochs", 30,
            "--workers", 1, "--sampler", sampler, "--progress", "never", "--summary", "json"))
        found[sampler] = summary["eval"]["perplexity"]
    assert max(found.values()) < 1.05 * min(found.values()), found
    assert max(found.values()) < 120, found  # 190 with the frequencies of words alone
