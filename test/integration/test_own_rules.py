"""Rules of users' own: they do the same everywhere; and what is wrong with them is said in one
sentence, wherever they run, and leaves neither processes nor half a model."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from cluster import Cluster, Process, group_of
from conftest import ROOT, Rubato

BUILD = Path(os.environ.get("RUBATO") or ROOT / "build/rubato").resolve().parent
RULES = BUILD / "test/rules"
SPREAD = ["--servers", "2", "--workers", "3"]
START = {"train": [], "run": ["run", *SPREAD, "--"], "simulate": ["simulate", *SPREAD, "--"]}
everywhere = pytest.mark.parametrize("how", START)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    run = Rubato(tmp_path_factory.mktemp("own"))
    run.ok("gen", "sparse", "--examples", "600", "--features", "50", "--nonzeros", "8", "--out",
           "train.svm")
    return run.folder / "train.svm"


def start(folder, how, data, rule, *more):
    """Runs it to its end, and sees that it has left nothing."""
    words = [*START[how], "train", "linear", "--data", data, "--rule", rule, "--progress", "never",
             "--model", "m.model", *(SPREAD if how == "train" else []), *more]
    process = Process(folder, how, *words)
    process.wait()
    assert group_of(process.pid) == []
    assert process.code == 0 or list(folder.glob("m.model*")) == []
    assert process.code == 0 or process.out == ""
    assert list(folder.glob("rubato-*")) == []  # sockets of `run`
    return process


def hint(process):
    return "".join(re.findall(r"rubato: hint: (.*)\n", process.err))


def test_the_example_does_the_same_everywhere(tmp_path, data):
    shutil.copy(BUILD / "examples/rule.so", tmp_path / "momentum.so")
    digests = set()
    for how in START:
        done = start(tmp_path, how, data, "./momentum.so:lr=0.5,mu=0.5", "--consistency", "bsp",
                     "--summary", "json")
        assert done.code == 0, done.err
        made = json.loads(done.out.splitlines()[-1])
        assert made["objective"] < 0.65 and made["rule"].endswith("/momentum.so:lr=0.5,mu=0.5")
        digests.add(made["digest"])
    assert len(digests) == 1


# The rule, what is said, and the beginning of the hint.
REFUSED = [
    ("case_abi.so", 'the rule "{}" is built for version 99 of the interface, but this program '
     "has version 2: rebuild it; see docs/rules.md", ""),
    ("case_old.so", 'the rule "{}" is built for version 1 of the interface, but this program '
     "has version 2: rebuild it; see docs/rules.md", ""),
    ("case_symbol.so", '"{}" is not a rule: it has no symbol "rbt_rule"', "It should define"),
    ("case_apply.so", 'the rule "{}" has no apply function', ""),
    ("text.so", 'cannot load the rule "{}": it is not a shared object', "Build it with: cc"),
    ("cut.so", 'cannot load the rule "{}": the file is cut off at 9000 bytes', "Rebuild it or"),
    ("folder.so", 'cannot load the rule "{}": it is a directory', "Build it with: cc"),
    ("missing.so", 'cannot find the rule "./missing.so": No such file or directory',
     "The path starts in the folder where the command runs."),
    ("failing.so:create=1", 'rule "failing": create is 1', ""),
    ("failing.so:lr=1", 'rule "failing" has no parameter "lr"', ""),
    ("failing.so:clock=soon", '"soon" is not a number, as the rule\'s parameter clock must be', ""),
    ("failing.so:snapshots=1", 'rule "failing" wants snapshots of 1 values but keeps only 0', ""),
]


@everywhere
@pytest.mark.parametrize("rule, sentence, advice", REFUSED, ids=[case[0] for case in REFUSED])
def test_what_does_not_fit_is_wrong_usage(tmp_path, data, how, rule, sentence, advice):
    name = rule.partition(":")[0]
    if (RULES / name).exists():
        shutil.copy(RULES / name, tmp_path / name)
    (tmp_path / "text.so").write_text("no object\n" * 1000)
    (tmp_path / "cut.so").write_bytes((RULES / "failing.so").read_bytes()[:9000])
    (tmp_path / "folder.so").mkdir()
    made = start(tmp_path, how, data, f"./{rule}")
    assert made.code == 2
    assert made.error() == sentence.format(tmp_path / name)
    assert hint(made).startswith(advice) and bool(hint(made)) == bool(advice)


@everywhere
def test_a_create_without_a_word_has_its_status_said(tmp_path, data, how):
    made = start(tmp_path, how, data, RULES / "failing.so:create=2")
    assert (made.code, made.error()) == (1, 'rule "failing": out of memory')


@pytest.mark.parametrize("option", [["--l1", "1e-3"], ["--combine", "sum"], ["--combine", "mean"]])
def test_gradients_refuse_what_is_for_moves(tmp_path, data, option):
    made = start(tmp_path, "train", data, RULES / "failing.so:gradients=1", *option)
    assert made.code == 2
    assert option[0] in made.error() and "failing.so" in made.error()
    assert hint(made)


@everywhere
@pytest.mark.parametrize("consistency", ["bsp", "essp:2", "asp"])
@pytest.mark.parametrize("kind", ["gradients=0", "gradients=1", "gradients=1,aggregate=1"])
@pytest.mark.parametrize("clock", [1, 5])  # in clock 0 training counts its data
def test_a_rule_that_fails_ends_the_job_with_its_sentence(tmp_path, data, how, consistency, kind,
                                                          clock):
    made = start(tmp_path, how, data, RULES / f"failing.so:clock={clock},{kind}", "--consistency",
                 consistency)
    assert made.code == 1
    assert re.search(r'rule "failing" failed at row \d+ of table "main/\w+": '
                     rf"clock {clock} is too much$", made.error())
    assert ("shard " in made.error()) == (how in ("run", "simulate"))  # and where


@everywhere
def test_a_rule_that_fails_without_a_word_has_its_status_said(tmp_path, data, how):
    made = start(tmp_path, how, data, RULES / "failing.so:clock=3,silent=1")
    assert made.code == 1
    assert re.search(r'rule "failing" failed at row \d+ of table "main/\w+": '
                     r"the peer or the handle is closed$", made.error())


def test_a_rule_that_crashes_takes_its_server_along_and_no_more(tmp_path, data):
    made = start(tmp_path, "run", data, RULES / "failing.so:crash=3")
    assert made.code == 1
    assert re.search(r"lost server/\d on .*killed by signal 9", made.error())


def test_a_model_that_was_there_stays(tmp_path, data):
    before = b"a model of yesterday"
    (tmp_path / "kept.model").write_bytes(before)
    made = start(tmp_path, "run", data, RULES / "failing.so:clock=5", "--model", "kept.model")
    assert made.code == 1
    assert (tmp_path / "kept.model").read_bytes() == before


def test_servers_outlive_the_rule_that_failed(tmp_path, data):
    words = ["train", "linear", "--data", data, "--progress", "never", "--summary", "json"]
    with Cluster(tmp_path, servers=2, once=False, plugin=RULES).start_servers() as cluster:
        for space, rule, code in (("a", "failing.so:clock=3", 1), ("b", "failing.so", 0),
                                  ("a", "failing.so:clock=2", 1), ("a", "failing.so", 0)):
            job = cluster.start_job(2, *words, "--rule", RULES / rule, space=space)
            assert [worker.wait() for worker in job] == [code, code], job[0].err + job[1].err
            assert code == 0 or "is too much" in job[0].error() + job[1].error()
        assert not any(server.ends() for server in cluster.servers)


def test_a_rule_that_only_a_server_cannot_make_names_the_server(tmp_path, data):
    with Cluster(tmp_path, servers=1) as cluster:
        server = cluster.start("server/0", "server", "--listen", "127.0.0.1:0", "--coordinator",
                               cluster.address, "--index", 0, "--plugin", RULES / "failing.so",
                               RULE_FAILS_HERE="1")
        address = server.says(r"listening address=(\S+)").group(1)
        worker, = cluster.start_job(1, "train", "linear", "--data", data, "--rule",
                                    RULES / "failing.so:here=1", "--progress", "never", "--model",
                                    "m.model")
        assert worker.wait() != 0
        assert worker.error() == f'shard 0 at {address}: rule "failing": it fails here'
        assert cluster.coordinator.wait() == 1
        assert server.wait() == 0
        assert list(tmp_path.glob("m.model*")) == []
