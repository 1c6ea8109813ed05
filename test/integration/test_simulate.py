"""Simulated clusters from the outside: wrong descriptions, equal bits, stragglers, faults, logs."""

import json

import pytest

from conftest import environment

HELP = 'See "rubato simulate --help".'
EXAMPLE = "For example: rubato simulate --workers 8 -- train linear --data FILE."
QUIET = ["--progress", "never"]
JSON = ["--summary", "json", *QUIET]
ROUGH = ["--workers", "6", "--servers", "3", "--loss", "5%", "--duplication", "5%", "--jitter",
         "1ms", "--spikes", "1%@20ms", "--slowdowns", "10%x3", "--pause", "worker/2@5ms+50ms",
         "--partition", "server/1@10ms+80ms", "--slow-link", "worker/3x20"]


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def needs(option, value, what, part=None):
    """The row of an option whose value, or a part of it, is wrong."""
    got = f'"{value}"' if part is None else f'"{part}" in "{value}"'
    return ([option, value], f'option "{option}" needs {what}, got {got}', HELP)


MISSING = 'the command to simulate is missing after "--"'
SHARE = "a fraction from 0% to 100%"
FACTOR = "a factor from 1 to 1000000"
TIME = "a time from 0 to 1000000 seconds, such as 500ms"
WRONG_CLUSTERS = [
    (["--workers", "0"], 'option "--workers" needs a whole number from 1 to 1024, got "0"',
     f'Workers of the job; 8 if "train" has no --workers either. {HELP}'),
    (["--threads", "0"], 'option "--threads" needs a whole number from 1 to 1024, got "0"',
     f"Workers per process; they share the links of the process. {HELP}"),
    (["--latency", "-1ms"], f'option "--latency" needs {TIME}, got "-1ms"',
     f"Time that a message takes from node to node. {HELP}"),
    (["--jitter", "nan"], f'option "--jitter" needs {TIME}, got "nan"',
     "Largest random addition to the latency; messages of one connection keep their order. "
     + HELP),
    needs("--bandwidth", "-5", "a rate above 0 such as 1Gbit or 125MB"),
    needs("--bandwidth", "fast", "a rate above 0 such as 1Gbit or 125MB"),
    needs("--loss", "101%", SHARE),
    needs("--loss", "nan", SHARE),
    needs("--loss", "100%", "a fraction below 100%"),
    needs("--duplication", "-0.1", SHARE),
    needs("--spikes", "5%", "P@TIME such as 1%@50ms"),
    needs("--stragglers", "120%x2", SHARE, "120%"),
    needs("--stragglers", "20%x0.5", FACTOR, "0.5"),
    needs("--stragglers", "20%xnan", FACTOR, "nan"),
    needs("--stragglers", "20%x4..2", "the smaller factor first", "4..2"),
    needs("--stragglers", "20%", "FRACTIONxFACTOR such as 20%x2 or 50%x1..4"),
    needs("--slowdowns", "10%x0", FACTOR, "0"),
    needs("--crash", "worker/3", "NODE@TIME or NODE@TIME+TIME such as worker/3@2s+500ms"),
    needs("--crash", "worker/3@soon", TIME, "soon"),
    needs("--crash", "disk/3@1s", "a node such as server/0, worker/3 or coordinator", "disk/3"),
    needs("--pause", "worker/3@1s", "NODE@TIME+TIME such as worker/3@2s+500ms"),
    needs("--pause", "worker/3@1s+0", "a time above 0, such as 500ms", "0"),
    needs("--partition", "worker/3", "NODE@TIME+TIME such as server/0@2s+500ms"),
    needs("--slow-link", "worker/3x-1", FACTOR, "-1"),
    (["--oversubscription", "4"], 'option "--oversubscription" needs at least two racks',
     "For example: --racks 2 --oversubscription 4."),
    (["--crash", "worker/8@1s"],
     'option "--crash" names "worker/8", but there are only 8 worker processes',
     "They are called worker/0 to worker/7."),
    (["--threads", "4", "--crash", "worker/2@1s"],
     'option "--crash" names "worker/2", but there are only 2 worker processes',
     "They are called worker/0 to worker/1."),
    (["--partition", "server/1@1s+1s"],
     'option "--partition" names "server/1", but there is only 1 server process',
     "It is called server/0."),
    (["--straglers", "20%x2"], 'unrecognised option "--straglers" for "rubato simulate"',
     f'Did you mean "--stragglers"? {HELP}'),
]


@pytest.mark.parametrize("words, error, hint", WRONG_CLUSTERS,
                         ids=[" ".join(row[0]) for row in WRONG_CLUSTERS])
def test_wrong_clusters_get_one_clear_sentence(rubato, shelf, words, error, hint):
    result = rubato("simulate", *words, "--", "train", "linear", "--data", shelf / "train.svm")
    assert result.stderr == f"rubato: error: {error}\nrubato: hint: {hint}\n"
    assert (result.returncode, result.stdout) == (2, "")


WRONG_LINES = [
    (["simulate"], MISSING, EXAMPLE),
    (["simulate", "--workers", "4", "train", "linear"], MISSING, EXAMPLE),
    (["simulate", "--workers", "4", "--"], MISSING, EXAMPLE),
    (["simulate", "--", "gen", "sparse"], 'only "train" can be simulated, got "gen"', EXAMPLE),
    (["simulate", "--", "train"], "the name of the algorithm is missing",
     'Use "rubato train ALGO --data FILE"; "rubato train --list" lists the algorithms.'),
    (["simulate", "--", "train", "liner"], 'unrecognised algorithm "liner"',
     'Did you mean "linear"? See "rubato train --list".'),
    (["simulate", "--", "train", "linear"], 'option "--data" is missing',
     "Name the training data: rubato train linear --data FILE."),
    (["simulate", "--workers", "4", "--", "train", "linear", "--data", "x", "--workers=4"],
     'option "--workers" is given to "simulate" and to "train"', 'Remove it after "--".'),
    (["simulate", "--servers", "4", "--", "train", "linear", "--data", "x", "--servers", "4"],
     'option "--servers" is given to "simulate" and to "train"', 'Remove it after "--".'),
    (["simulate", "--", "train", "linear", "--data", "x", "--trace=t.json"],
     'unrecognised option "--trace" for "rubato train linear"',
     '"--trace" describes the cluster and belongs before "--".'),
]


@pytest.mark.parametrize("words, error, hint", WRONG_LINES,
                         ids=[" ".join(row[0]) for row in WRONG_LINES])
def test_wrong_command_lines(rubato, words, error, hint):
    result = rubato(*words)
    assert result.stderr == f"rubato: error: {error}\nrubato: hint: {hint}\n"
    assert (result.returncode, result.stdout) == (2, "")


def test_outputs_do_not_meet(rubato, shelf):
    def simulate(trace, *more):
        return rubato("simulate", "--trace", trace, "--", "train", "linear", "--data",
                      shelf / "train.svm", *QUIET, *more)

    for option in ("--log", "--model"):
        result = simulate("same", option, "same")
        assert result.returncode == 2
        assert result.stderr == (f'rubato: error: options "{option}" and "--trace" both name '
                                 '"same"\n')
    result = simulate(shelf / "train.svm")
    assert result.returncode == 2 and "would overwrite the data in" in result.stderr
    result = simulate("nowhere/trace.json")
    assert result.returncode == 1
    assert result.stderr == ('rubato: error: could not write trace "nowhere/trace.json": '
                             "No such file or directory\n")
    assert rubato.files() == []


@pytest.mark.parametrize("algo, data", [("linear", "train.svm"), ("mf", "ratings.csv")])
@pytest.mark.parametrize("consistency", ["bsp", "ssp:2", "essp:2", "asp"])
def test_same_seed_same_bytes(rubato, shelf, algo, data, consistency):
    found = []
    for seed in (7, 7, 8):
        out = rubato.ok("simulate", *ROUGH, "--seed", seed, "--trace", "t.json", "--", "train",
                        algo, "--data", shelf / data, "--eval", shelf / data, "--epochs", "3",
                        "--consistency", consistency, "--log", "r.jsonl", *JSON)
        files = [(rubato.folder / name).read_bytes() for name in ("r.jsonl", "t.json")]
        found.append([json.loads(out)["digest"], *files])
    assert found[0] == found[1]
    assert found[0][1] != found[2][1] and found[0][2] != found[2][2]
    assert json.loads(found[0][2])


@pytest.mark.parametrize("algo, data", [("linear", "train.svm"), ("mf", "ratings.csv")])
@pytest.mark.parametrize("workers, servers", [(1, 1), (4, 2), (30, 10)])
def test_bsp_gives_the_bits_of_a_real_run(rubato, shelf, algo, data, workers, servers):
    words = ["train", algo, "--data", shelf / data, "--consistency", "bsp", "--clocks-per-epoch",
             "2", "--epochs", "3", *JSON]
    real = json.loads(rubato.ok(*words, "--workers", workers))
    calm = json.loads(rubato.ok("simulate", "--workers", workers, "--servers", servers, "--",
                                *words))
    rough = json.loads(rubato.ok("simulate", "--workers", workers, "--servers", servers,
                                 "--threads", 2, "--loss", "0.2%", "--duplication", "5%",
                                 "--jitter", "1ms", "--cuts", "0.2", "--cut", "server/0@1ms",
                                 "--", *words))
    assert real["digest"] == calm["digest"] == rough["digest"]
    assert real["objective"] == calm["objective"]
    assert rough["duplicated"] > 0 and rough["virtual_seconds"] > calm["virtual_seconds"]


def test_summary_and_log_are_complete(rubato, shelf):
    out = rubato.ok("simulate", "--workers", "6", "--threads", "2", "--servers", "2", "--", "train",
                    "linear", "--data", shelf / "train.svm", "--solver", "sgd", "--log", "r.jsonl",
                    *JSON)
    summary = json.loads(out)
    assert summary["virtual_seconds"] > 0 and summary["seconds"] > 0
    for name in ("compute_seconds", "transmit_seconds", "wait_seconds", "events", "messages",
                 "network_bytes", "seconds_per_update", "objective_mean5"):
        assert summary[name] > 0, name
    assert (summary["lost"], summary["duplicated"], summary["resent"]) == (0, 0, 0)
    log = events(rubato.folder / "r.jsonl")
    assert log[0]["time"] == 0 and log[0]["argv"][:2] == ["rubato", "simulate"]
    assert log[0]["config"]["workers"] == log[0]["cluster"]["workers"] == 6
    workers = [event for event in log if event["event"] == "worker"]
    assert [event["worker"] for event in workers] == list(range(6))
    for event in workers:
        spent = sum(event[name] for name in ("compute", "transmit", "wait", "idle"))
        assert spent == pytest.approx(event["t"], rel=0.02)
        assert event["factor"] == 1
    every = [event for event in log if event["event"] == "traffic"]
    traffic = every[-6:]
    assert len(every) == 6 * (1 + sum(event["event"] == "eval" for event in log))
    assert [event["t"] for event in every] == sorted(event["t"] for event in every)
    assert [event["node"] for event in traffic] == ["coordinator", "server/0", "server/1",
                                                    "worker/0", "worker/1", "worker/2"]
    assert sum(event["bytes_sent"] for event in traffic) == summary["network_bytes"]
    told = {**log[-1]["summary"]}
    assert told == {name: value for name, value in summary.items()
                    if name not in ("seconds", "load_seconds", "peak_rss_mb")}
    last = [event["objective"] for event in log if event["event"] == "eval"][-5:]
    assert summary["objective_mean5"] == pytest.approx(sum(last) / 5)


def test_logs_of_simulations_can_be_read(rubato, shelf):
    rubato.ok("simulate", "--cut", "worker/3@1ms", "--", "train", "linear", "--data",
              shelf / "train.svm", "--log", "r.jsonl", *QUIET)
    text = rubato.ok("info", "r.jsonl")
    assert "command      rubato simulate --cut worker/3@1ms -- train linear" in text
    assert "began        in virtual time" in text
    assert "objective" in rubato.ok("plot", "r.jsonl")


def test_the_text_says_how_time_was_divided(rubato, shelf):
    result = rubato("simulate", "--", "train", "linear", "--data", shelf / "train.svm",
                    "--solver", "sgd", "--progress", "always", "--summary", "full")
    first, *rest = result.stdout.splitlines()
    assert first.startswith("linear: 10 epochs in ") and "of virtual time" in first
    time = next(line for line in rest if line.startswith("  time "))
    shares = [int(word.rstrip("%")) for word in time.split() if word.endswith("%")]
    assert len(shares) == 3 and 98 <= sum(shares) <= 102
    assert " of virtual time, " in result.stderr


def test_stragglers_hold_up_everybody(rubato):
    """Clocks of almost pure computing: under BSP they last as long as the slowest worker's."""
    rubato.ok("gen", "sparse", "--examples", "60k", "--features", "50", "--nonzeros", "30", "--out",
              "d.svm")

    def run(*cluster, consistency="bsp"):
        out = rubato.ok("simulate", "--workers", "6", "--latency", "0", "--bandwidth", "1000GB",
                        *cluster, "--", "train", "linear", "--data", "d.svm", "--epochs", "20",
                        "--clocks-per-epoch", "2", "--consistency", consistency, *JSON)
        return json.loads(out)

    calm, slow = run(), run("--stragglers", "34%x2")
    assert 1.9 <= slow["virtual_seconds"] / calm["virtual_seconds"] <= 2.1
    assert slow["digest"] == calm["digest"]
    bsp, ssp = run("--slowdowns", "10%x4"), run("--slowdowns", "10%x4", consistency="ssp:4")
    assert ssp["wait_seconds"] < bsp["wait_seconds"] / 3


@pytest.mark.parametrize("side", ["simulate", "train"])
def test_training_ends_when_the_time_is_up(rubato, shelf, side):
    front, back = (["--until", "50ms"], []) if side == "simulate" else ([], ["--until", "50ms"])
    out = rubato.ok("simulate", *front, "--", "train", "linear", "--data", shelf / "train.svm",
                    "--epochs", "100000", *back, *JSON)
    summary = json.loads(out)
    assert 0.05 <= summary["virtual_seconds"] < 0.06
    assert 0 < summary["epochs"] < 100000


def test_real_training_ends_when_the_time_is_up(rubato, shelf):
    out = rubato.ok("train", "linear", "--data", shelf / "train.svm", "--epochs", "1000000",
                    "--until", "200ms", *JSON)
    assert json.loads(out)["seconds"] >= 0.2


@pytest.mark.parametrize("algo, data", [("linear", "train.svm"), ("mf", "ratings.csv")])
@pytest.mark.parametrize("when", ["0", "1ms", "2ms", "1ms+10ms"])
def test_a_job_that_loses_a_worker_ends_with_a_sentence(rubato, shelf, algo, data, when):
    result = rubato("simulate", "--workers", "4", "--crash", f"worker/3@{when}", "--", "train",
                    algo, "--data", shelf / data, "--epochs", "10", *QUIET)
    assert (result.returncode, result.stdout) == (1, "")
    assert last_line(result) == ("rubato: error: lost worker/3 on a simulated host (pid 5): no "
                                 "connection for 3s")


def test_a_pause_and_cuts_change_no_bit_of_bsp(rubato, shelf):
    words = ["--", "train", "linear", "--data", shelf / "train.svm", "--consistency", "bsp", *JSON]
    calm = json.loads(rubato.ok("simulate", *words))
    rough = json.loads(rubato.ok("simulate", "--pause", "worker/3@1ms+500ms", "--cut",
                                 "server/0@1ms", "--cut", "coordinator@2ms", *words))
    assert rough["digest"] == calm["digest"]
    assert rough["virtual_seconds"] > 0.5 > calm["virtual_seconds"]
    assert rough["resent"] > 0 == calm["resent"]


def last_line(result):
    """Of standard error; a sanitizer may have said something about fibers before."""
    return result.stderr.splitlines()[-1]


def test_racks_change_no_bit_of_bsp_and_tell_what_crosses(rubato, shelf, tmp_path):
    train = ["--", "train", "linear", "--data", shelf / "train.svm", "--epochs", "2",
             "--consistency", "bsp", "--log", tmp_path / "run.jsonl", *JSON]
    cluster = ["simulate", "--workers", "4", "--servers", "2", "--bandwidth", "10Mbit"]
    plain = json.loads(rubato.ok(*cluster, *train))
    assert "rack_bytes" not in plain
    racks = json.loads(rubato.ok(*cluster, "--racks", "2", "--oversubscription", "40", *train))
    assert racks["digest"] == plain["digest"]
    assert racks["virtual_seconds"] > 1.5 * plain["virtual_seconds"]
    assert 0.3 < racks["rack_bytes"] / racks["network_bytes"] < 0.7
    last = {event["node"]: event for event in events(tmp_path / "run.jsonl")
            if event["event"] == "traffic"}
    under_way = last["rack/0"]["bytes_sent"] - last["rack/1"]["bytes_received"]
    assert 0 <= under_way < 1000  # signs of life are never at rest
    assert sum(last[name]["bytes_sent"] for name in ("rack/0", "rack/1")) == racks["rack_bytes"]


def test_the_crash_of_a_server_is_told(rubato, shelf):
    result = rubato("simulate", "--servers", "2", "--crash", "server/1@1ms", "--", "train",
                    "linear", "--data", shelf / "train.svm", "--log", "r.jsonl", *QUIET)
    assert (result.returncode, result.stdout) == (1, "")
    assert last_line(result) == ("rubato: error: lost server/1 on a simulated host (pid 2): no "
                                 "connection for 3s")
    log = events(rubato.folder / "r.jsonl")
    assert log[-1]["status"] == "failed"
    told = [(event["node"], event["state"]) for event in log if event["event"] == "node"]
    assert told == [("server/1", "down")]


def test_the_crash_of_the_first_worker_is_told(rubato, shelf):
    result = rubato("simulate", "--crash", "worker/0@1ms", "--", "train", "linear", "--data",
                    shelf / "train.svm", *QUIET)
    assert (result.returncode, result.stdout) == (1, "")
    assert "rubato: error: lost worker/0 on a simulated host" in last_line(result)


def test_the_environment_of_a_cluster_is_its_own(rubato, shelf):
    """`simulate --loss` and `linear --loss` are two things."""
    env = environment(RUBATO_SIMULATE_LOSS="0.4%", RUBATO_LOSS="hinge", RUBATO_SIMULATE_WORKERS="3")
    out = rubato.ok("simulate", "--", "train", "linear", "--data", shelf / "train.svm", "--log",
                    "r.jsonl", *JSON, env=env)
    assert json.loads(out)["virtual_seconds"] > 0
    start = events(rubato.folder / "r.jsonl")[0]
    assert (start["config"]["loss"], start["cluster"]["loss"]) == ("hinge", "0.4%")
    assert start["config"]["workers"] == 3
