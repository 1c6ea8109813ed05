"""What can go wrong when a cluster starts, and in its workers: one clear sentence each, in bounded
time, and exit status 1; 2 for wrong usage.
"""

import json
import os
import socket
import time

import pytest

from cluster import Cluster, Process
from conftest import Rubato, slowness

TRAIN = ["train", "linear", "--data", "train.svm", "--consistency", "bsp", "--clocks-per-epoch",
         "2", "--epochs", "5", "--progress", "never", "--summary", "json"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    run = Rubato(tmp_path_factory.mktemp("start"))
    run.ok("gen", "sparse", "--examples", "100", "--features", "30", "--nonzeros", "5", "--out",
           "train.svm")
    return run.folder


@pytest.fixture
def folder(data, tmp_path):
    os.link(data / "train.svm", tmp_path / "train.svm")
    return tmp_path


def fails(folder, *words, code=1, seconds=25):
    """Runs a command that must fail, in time, and returns its sentence."""
    began = time.monotonic()
    process = Process(folder, "failing", *words, RUBATO_INSECURE="1")
    assert process.wait() == code, process.err
    assert time.monotonic() - began < seconds * slowness()
    return process.error()


@pytest.fixture
def taken():
    """An address that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "127.0.0.1:%d" % listener.getsockname()[1]


def test_a_port_in_use(folder, taken):
    sentence = f"could not listen on {taken}: the port is in use"
    assert fails(folder, "coordinator", "--listen", taken) == sentence
    assert fails(folder, "server", "--listen", taken, "--coordinator", "127.0.0.1:1") == sentence
    assert sentence in fails(folder, "run", "--coordinator", taken, "--", *TRAIN)


def test_an_address_of_another_host(folder):
    for role in (["coordinator"], ["server", "--coordinator", "127.0.0.1:1"]):
        sentence = fails(folder, *role, "--listen", "192.0.2.1:7000")
        assert sentence == "could not listen on 192.0.2.1:7000: that is not an address of this host"
    sentence = fails(folder, "run", "--listen", "192.0.2.1", "--", *TRAIN)
    assert "192.0.2.1:0: that is not an address of this host" in sentence


@pytest.mark.parametrize("role", [["server", "--listen", "127.0.0.1:0"], ["worker"]])
@pytest.mark.parametrize("where", ["192.0.2.1:7000", "127.0.0.1:1", "unix:nowhere"])
def test_a_coordinator_that_does_not_answer(folder, role, where):
    rest = ["--", *TRAIN] if role == ["worker"] else []
    sentence = fails(folder, *role, "--coordinator", where, "--start-timeout", "1s", *rest,
                     seconds=25)
    assert "coordinator" in sentence and where in sentence


@pytest.fixture
def silent():
    """An address where connections are accepted, by the kernel, and nobody says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield "127.0.0.1:%d" % listener.getsockname()[1]


@pytest.fixture
def deaf():
    """An address where not even that happens, as if the host were gone: the queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        callers = [socket.socket() for _ in range(8)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(address)
        yield "127.0.0.1:%d" % address[1]
        for caller in callers:
            caller.close()


@pytest.mark.parametrize("kind", ["silent", "deaf"])
def test_a_coordinator_that_says_nothing(folder, kind, request):
    where = request.getfixturevalue(kind)
    sentence = fails(folder, "worker", "--coordinator", where, "--start-timeout", "1s", "--timeout",
                     "2s", "--", *TRAIN, seconds=25)
    assert "coordinator" in sentence and where in sentence


@pytest.mark.parametrize("kind", ["taken", "silent", "deaf", "nobody"])
def test_a_server_that_workers_cannot_reach(folder, kind, request):
    where = "127.0.0.1:1" if kind == "nobody" else request.getfixturevalue(kind)
    with Cluster(folder, servers=1, timeout="4s") as cluster:
        cluster.start_server(advertise=where)
        worker = cluster.start_worker(0, 1, *TRAIN)
        assert worker.wait() == 1
        assert f"lost shard 0 at {where}: " in worker.error()
        assert cluster.coordinator.wait() == 1
        assert f"lost shard 0 at {where}: " in cluster.coordinator.error()


def test_a_host_without_a_name(folder):
    sentence = fails(folder, "worker", "--coordinator", "nobody.invalid:7000", "--start-timeout",
                     "2s", "--", *TRAIN)
    assert "nobody.invalid" in sentence


def test_servers_that_are_missing_are_named(folder):
    with Cluster(folder, servers=3, start_timeout="5s") as cluster:
        first = cluster.start_server(index=1)
        worker = cluster.start_worker(0, 1, *TRAIN)
        assert [p.wait() for p in (first, worker, cluster.coordinator)] == [1, 1, 1]
        for process in (first, worker, cluster.coordinator):
            assert "server/0, server/2" in process.error()
            assert "server/1" not in process.error().replace("worker", "")


def test_workers_that_are_missing_are_named(folder):
    with Cluster(folder, servers=1, start_timeout="5s") as cluster:
        cluster.start_servers()
        workers = [cluster.start_worker(i, 4, *TRAIN) for i in (0, 1, 3)]
        for process in workers:
            assert process.wait() == 1
            assert "worker/2" in process.error()
            assert "worker/3" not in process.error()
        assert cluster.coordinator.wait() == 1
        assert "worker/2" in cluster.coordinator.error()
        assert cluster.servers[0].wait() == 0  # it has done what it was asked to


def test_two_servers_with_one_index(folder):
    with Cluster(folder, servers=2) as cluster:
        cluster.start_server(index=1)
        cluster.coordinator.says("joined node=server/1")
        second = cluster.start_server(index=1)
        assert second.wait() == 2
        assert "server/1" in second.error()
        assert not cluster.coordinator.ends()
        cluster.start_server(index=0)  # the right one is still welcome
        worker = cluster.start_worker(0, 1, *TRAIN)
        assert worker.wait() == 0, worker.err


def test_workers_that_disagree_about_their_number(folder):
    with Cluster(folder, servers=1) as cluster:
        cluster.start_servers()
        first = cluster.start_worker(0, 2, *TRAIN)
        cluster.coordinator.says("joined node=worker/0")
        other = cluster.start_worker(1, 3, *TRAIN)
        assert other.wait() == 2
        assert "3" in other.error() and "2" in other.error() and "worker" in other.error()
        right = cluster.start_worker(1, 2, *TRAIN, name="right")
        assert [p.wait() for p in (first, right)] == [0, 0]


@pytest.mark.parametrize("consistency", ["bsp", "essp:2", "asp"])
def test_workers_without_examples_hold_nobody_up(folder, consistency):
    Rubato(folder).write("few.svm", "+1 1:1 2:1\n-1 2:1 3:1\n+1 1:1 3:1\n")
    job = ["train", "linear", "--data", "few.svm", "--consistency", consistency,
           "--clocks-per-epoch", "4", "--epochs", "20", "--progress", "never", "--summary", "json"]
    spread = Process(folder, "run", "run", "--servers", 2, "--workers", 5, "--", *job)
    assert spread.wait() == 0, spread.err
    if consistency == "bsp":
        alone = Rubato(folder).ok(*job, "--workers", "5")
        assert spread.digest() == json.loads(alone)["digest"]


def test_a_worker_that_cannot_read_its_data_ends_all(folder):
    with Cluster(folder, servers=1) as cluster:
        cluster.start_servers()
        good = [cluster.start_worker(i, 3, *TRAIN) for i in (0, 2)]
        bad = cluster.start_worker(1, 3, *[w.replace("train.svm", "missing.svm") for w in TRAIN])
        codes = [p.wait() for p in (bad, *good, cluster.servers[0], cluster.coordinator)]
        assert codes == [1, 1, 1, 0, 1]
        assert "missing.svm" in bad.error()
        for process in (*good, cluster.coordinator):
            assert "worker/1" in process.error() and "missing.svm" in process.error()


@pytest.mark.parametrize("consistency", ["bsp", "essp:2"])
def test_training_that_diverges_ends_with_one_sentence(folder, consistency):
    job = Process(folder, "run", "run", "--servers", 2, "--workers", 3, "--", "train", "linear",
                  "--data", "train.svm", "--lr", "1e6", "--scale", "none", "--schedule", "constant",
                  "--loss", "squared", "--epochs", "50", "--consistency", consistency,
                  "--progress", "never")
    assert job.wait() == 1, job.err
    assert "training diverged in epoch" in job.error()


@pytest.mark.parametrize("option", ["--model", "--log"])
def test_results_that_cannot_be_written(folder, option):
    process = Process(folder, "run", "run", "--workers", 2, "--", *TRAIN, option, "nowhere/result")
    assert process.wait() == 1
    assert "nowhere" in process.error()
    if option == "--model":  # known before anything is started
        assert "[coordinator]" not in process.err
    assert {p.name for p in folder.iterdir()} == {"train.svm", "run.out", "run.err"}
