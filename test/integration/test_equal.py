"""Three carriers, one protocol: a job that is embedded, spread over processes, or simulated. With
bsp all give the same model, bit for bit; and messages cost simulated processes the bytes that they
cost real ones."""

import json

import pytest

from conftest import Rubato

QUIET = ["--progress", "never", "--summary", "json"]
CREW = ["--workers", "4", "--servers", "2"]
# Each filter of "rubato train linear --filter help" but one that diverges, and what else it wants.
FILTERS = ["none", "keys", "zeros", "tiny:1e-3", "significant:1e-3", "changed", "skip:0.5", "kkt",
           "f16", "bf16", "fixed:8", "lz4", "zstd", "keys,changed,zeros,lz4"]
MORE = {"kkt": ["--rule", "ftrl", "--l1", "1e-3"]}
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
    text = rubato.ok(*start, "--", "train", *job, *QUIET)
    told = json.loads(text.splitlines()[-1])
    return told["sent"], told["received"]


def both(rubato, crew, job):
    """Traffic between processes and simulated, without what is no update and no read: greetings,
    which depend on addresses, acknowledgements, of which one may be for many messages, and what
    worker 0 reads to watch the run, which is free in a simulation."""
    told = []
    for start in (["run", "--transport", "tcp"], ["simulate"]):
        told.append(traffic(rubato, [*start, *crew], *job))
        for direction in told[-1]:
            assert direction.pop("other") > 0
    return told


@pytest.mark.parametrize("name", FILTERS)
def test_bsp_messages_have_the_same_bytes(rubato, data, name):
    job = ["linear", "--data", data / "train.svm", "--solver", "sgd", "--consistency", "bsp",
           "--clocks-per-epoch", 4, "--filter", name, *MORE.get(name, [])]
    real, simulated = both(rubato, CREW, job)
    assert real == simulated
    assert real[0]["clock"] > 0 and real[1]["read"] > 0


@pytest.mark.parametrize("name", FILTERS)
def test_eager_messages_have_nearly_the_same_bytes(rubato, data, name):
    """How often an eager worker reads depends on how long answers take, what it sends does not;
    and each answer is as long."""
    job = ["linear", "--data", data / "train.svm", "--solver", "sgd", "--consistency", "essp:2",
           "--epochs", 1, "--clocks-per-epoch", 100, "--filter", name, *MORE.get(name, [])]
    real, simulated = both(rubato, ["--workers", 1, "--servers", 2], job)
    assert name == "kkt" or real[0]["clock"] == simulated[0]["clock"]  # it looks at what was read
    per_request = [received["read"] / sent["read"] for sent, received in (real, simulated)]
    assert per_request[0] == pytest.approx(per_request[1], rel=0.05)


@pytest.mark.parametrize("name", FILTERS)
def test_eager_traffic_is_nearly_the_same_in_all(rubato, data, name):
    """With few clocks each answer comes before the next question, so that reads are as many."""
    job = ["linear", "--data", data / "train.svm", "--solver", "sgd", "--consistency", "essp:2",
           "--epochs", 3, "--clocks-per-epoch", 4, "--filter", name, *MORE.get(name, [])]
    total = [sum(sent.values()) + sum(received.values())
             for sent, received in both(rubato, ["--workers", 1, "--servers", 2], job)]
    assert total[0] == pytest.approx(total[1], rel=0.02)


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


def test_long_messages_carry_the_same_bits(rubato):
    """From 64 KiB on rows may be sent from where they lie, and are received where they belong: not
    if there are two servers, of which each has some of the rows that a worker reads and updates."""
    rubato.ok("gen", "sparse", "--examples", "4000", "--features", "100000", "--nonzeros", "60",
              "--out", "wide.svm")
    job = ["linear", "--data", "wide.svm", "--consistency", "bsp", "--epochs", "2", *QUIET]
    digests = {}
    for servers in ("1", "2"):
        crew = ["--workers", "2", "--servers", servers]
        for words in (["train", *job, *crew], ["run", *crew, "--", "train", *job],
                      ["simulate", *crew, "--", "train", *job]):
            told = json.loads(rubato.ok(*words).splitlines()[-1])
            digests[words[0], servers] = told["digest"]
    assert len(set(digests.values())) == 1, digests
