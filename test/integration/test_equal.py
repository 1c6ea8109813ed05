"""Three carriers, one protocol: a job that is embedded, spread over processes, or simulated. With
bsp all give the same model, bit for bit; and updates cost simulated processes the bytes that they
cost real ones."""

import json

import pytest

from conftest import Rubato

QUIET = ["--progress", "never", "--summary", "json"]
CREW = ["--workers", "4", "--servers", "2"]
FILTERS = ["none", "keys", "significant:1e-3", "fixed:8", "keys,changed,zeros,lz4"]
EPOCHS = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    run = Rubato(tmp_path_factory.mktemp("equal"))
    run.ok("gen", "sparse", "--examples", "600", "--features", "80", "--nonzeros", "8", "--out",
           "train.svm")
    run.ok("gen", "ratings", "--users", "40", "--items", "30", "--ratings", "800", "--out",
           "ratings.csv")
    run.ok("gen", "documents", "--docs", "60", "--vocab", "50", "--tokens", "1200", "--topics", "5",
           "--out", "corpus.txt")
    run.ok("gen", "blobs", "--points", "300", "--dims", "4", "--clusters", "4", "--out",
           "points.csv")
    return run.folder


def traffic(rubato, start, *job):
    text = rubato.ok(*start, *CREW, "--", "train", *job, *QUIET)
    told = json.loads(text.splitlines()[-1])
    return told["sent"], told["received"]


def both(rubato, data, name):
    job = ["linear", "--data", data / "train.svm", "--consistency", "bsp"]
    job += [] if name == "none" else ["--filter", name]
    return (traffic(rubato, ["run", "--transport", "tcp"], *job),
            traffic(rubato, ["simulate"], *job))


@pytest.mark.parametrize("name", FILTERS)
def test_bsp_updates_have_the_same_bytes(rubato, data, name):
    """Acknowledgements are not compared: how many messages one is for depends on who is slow. Nor
    are reads, which between processes may be a few hundred bytes more."""
    (sent, received), (sent_there, received_there) = both(rubato, data, name)
    for there, what in ((sent, "read"), (received, "read"), (received, "other")):
        assert there.pop(what) > 0
    for there, what in ((sent_there, "read"), (received_there, "read"), (received_there, "other")):
        assert there.pop(what) > 0
    assert (sent, received) == (sent_there, received_there)
    assert sent["clock"] > 0


JOBS = {"linear": ["--data", "train.svm"], "mf": ["--data", "ratings.csv", "--rank", "4"],
        "fm": ["--data", "train.svm", "--rank", "2"],
        "lda": ["--data", "corpus.txt", "--topics", "5"],
        "kmeans": ["--data", "points.csv", "--k", "4"]}
RULES = {"linear": ["add", "adagrad"], "mf": ["add", "adagrad"], "fm": ["adagrad", "ftrl"]}
WHOLE = ("lda", "kmeans")  # what they count is not f32
LOSSLESS = ["keys,zeros,lz4", "zstd:3"]
ROUNDING = ["keys,changed,zeros,lz4", "push.fixed:8"]
CARRIERS = {"embedded": ["train"], "processes": ["run", *CREW, "--threads", "2", "--", "train"],
            "simulated": ["simulate", *CREW, "--threads", "2", "--", "train"]}
ROWS = [(algo, option, value) for algo in JOBS
        for option, values in (("--rule", RULES.get(algo, [])),
                               ("--filter", LOSSLESS if algo in WHOLE else ROUNDING))
        for value in values]


@pytest.mark.parametrize("algo, option, value", ROWS)
def test_bsp_gives_the_same_bits_on_every_carrier(rubato, data, algo, option, value):
    """The table of digests: one row per algorithm with a rule or a filter."""
    digests = {}
    for carrier, words in CARRIERS.items():
        job = [data / word if "." in word else word for word in JOBS[algo]]
        crew = ["--workers", "4", "--servers", "2"] if carrier == "embedded" else []
        text = rubato.ok(*words, algo, *job, *crew, "--consistency", "bsp", "--epochs", EPOCHS,
                         option, value, *QUIET)
        digests[carrier] = json.loads(text.splitlines()[-1])["digest"]
    assert len(set(digests.values())) == 1, digests
