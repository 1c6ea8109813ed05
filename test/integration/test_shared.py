"""One set of servers for several jobs: at once in namespaces of their own, one after the other, and
a group that reads what another trains.
"""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from cluster import Cluster, Process, events, read, wait_for
from conftest import PROGRAM, Rubato

EXAMPLES = Path(PROGRAM).parent / "examples"
MORE = ["--consistency", "bsp", "--progress", "never", "--summary", "json"]
LINEAR = ["train", "linear", "--data", "train.svm", "--epochs", "60", "--clocks-per-epoch", "2",
          *MORE]
MF = ["train", "mf", "--data", "ratings.csv", "--rank", "4", "--epochs", "60", *MORE]


@pytest.fixture
def folder(tmp_path):
    run = Rubato(tmp_path)
    run.ok("gen", "sparse", "--examples", "300", "--features", "5000", "--nonzeros", "20", "--out",
           "train.svm")
    run.ok("gen", "ratings", "--users", "40", "--items", "30", "--ratings", "500", "--out",
           "ratings.csv")
    return tmp_path


def alone(folder, job, workers):
    return json.loads(Rubato(folder).ok(*job, "--workers", workers))["digest"]


def memory_of(pid):
    """Resident bytes."""
    return int(read(f"/proc/{pid}/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_jobs_at_once_do_not_meet(folder):
    with Cluster(folder, servers=2, once=False) as cluster:
        cluster.start_servers()
        linear = cluster.start_job(2, *LINEAR, space="one")
        same = cluster.start_job(3, *LINEAR, space="two")
        other = cluster.start_job(2, *MF, space="three")
        for process in [*linear, *same, *other]:
            assert process.wait() == 0, process.err
        assert linear[0].digest() == alone(folder, LINEAR, 2)
        assert same[0].digest() == alone(folder, LINEAR, 3)
        assert other[0].digest() == alone(folder, MF, 2)


def test_a_job_that_fails_does_not_harm_another(folder):
    with Cluster(folder, servers=2, once=False, timeout="5s") as cluster:
        cluster.start_servers()
        long = cluster.start_job(2, *LINEAR, "--epochs", "1000000", "--log", "long.jsonl",
                                 space="long")
        wait_for(lambda: len(events(folder / "long.jsonl")) > 2, "the first job to be under way")
        good = cluster.start_job(2, *LINEAR, space="good")
        os.kill(long[1].pid, signal.SIGKILL)
        assert [p.wait() for p in good] == [0, 0], good[0].err
        assert long[0].wait() == 1
        assert "worker/1" in long[0].error()
        assert good[0].digest() == alone(folder, LINEAR, 2)
        assert not cluster.coordinator.ends()
        again = cluster.start_job(2, *LINEAR, space="long")  # its namespace is free again
        assert [p.wait() for p in again] == [0, 0], again[0].err
        assert again[0].digest() == alone(folder, LINEAR, 2)


def test_jobs_one_after_the_other_leave_nothing(folder, monkeypatch):
    monkeypatch.setenv("ASAN_OPTIONS", "quarantine_size_mb=1")  # or it keeps what is freed
    expected = alone(folder, LINEAR, 2)
    sizes = []
    with Cluster(folder, servers=1, once=False) as cluster:
        cluster.start_servers()
        for number in range(6):
            workers = cluster.start_job(2, *LINEAR)
            assert [p.wait() for p in workers] == [0, 0], workers[0].err
            assert workers[0].digest() == expected
            cluster.coordinator.says(f"job ended job={number + 1}")
            sizes.append(memory_of(cluster.servers[0].pid))
        # The server hears of the last end a moment after the coordinator has told it.
        limit = min(sizes[1:4]) + (1 << 20)
        wait_for(lambda: memory_of(cluster.servers[0].pid) < limit, f"less than {limit}: {sizes}")


def test_the_coordinator_ends_its_servers(folder):
    with Cluster(folder, servers=2, once=False) as cluster:
        cluster.start_servers()
        cluster.servers[1].says("joined")
        cluster.servers[0].says("joined")
        cluster.coordinator.process.send_signal(signal.SIGTERM)
        codes = [p.wait() for p in (cluster.coordinator, *cluster.servers)]
        assert codes[1:] == [codes[1]] * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_server_that_is_told_to_stop_leaves_nothing(folder, is_alone, number):
    with Cluster(folder, servers=1, once=False, listen="unix:coordinator") as cluster:
        server = cluster.start("server", "server", "--listen", "unix:shard", "--threads", "2",
                               "--coordinator", "unix:nobody" if is_alone else cluster.address)
        server.says("listening address=unix:shard.1" if is_alone else "joined")
        server.process.send_signal(number)
        assert server.wait() == 1
        assert server.error() == "stopped"
        assert list(folder.glob("shard*")) == []
        if not is_alone:
            assert cluster.coordinator.wait() == 1
            assert re.fullmatch(r"server/0 on \S+ failed: stopped",
                                cluster.coordinator.error())
        assert is_alone or not (folder / "coordinator").exists()


def start_reader(cluster, *words, **more):
    return cluster.start("reader", "worker", "--coordinator", cluster.address, "--reader", "--",
                         EXAMPLES / "serve", *words, **more)


@pytest.mark.parametrize("table, servers", [("bias", 2), ("weights", 1)])
def test_a_group_reads_what_another_trains(folder, table, servers):
    with Cluster(folder, servers=servers, once=False) as cluster:
        cluster.start_servers()
        trainers = cluster.start_job(2, *LINEAR, "--epochs", "1000000", "--log", "run.jsonl")
        wait_for(lambda: len(events(folder / "run.jsonl")) > 1, "the job to be under way")
        key = 0 if table == "bias" else 1
        before = len(events(folder / "run.jsonl"))
        reader = start_reader(cluster, table, key, 20)
        assert reader.wait() == 0, reader.err
        values = reader.out.split()
        assert len(values) == 20 and len(set(values)) > 10
        wait_for(lambda: len(events(folder / "run.jsonl")) > before + 5, "training to go on")
        trainers[0].process.send_signal(signal.SIGINT)
        for process in trainers:
            process.wait()


def test_a_reader_is_told_what_it_cannot_read(folder):
    with Cluster(folder, servers=1, once=False, start_timeout="1s") as cluster:
        cluster.start_servers()
        cluster.servers[0].says("joined")
        nobody = start_reader(cluster, "bias", 0, 1)
        assert nobody.wait() == 1
        assert "serve: " in nobody.err and "main" in nobody.err
        cluster.start_timeout = ["--start-timeout", "30s"]
        trainers = cluster.start_job(1, *LINEAR, "--epochs", "1000000", "--log", "run.jsonl")
        wait_for(lambda: len(events(folder / "run.jsonl")) > 1, "the job to be under way")
        unknown = start_reader(cluster, "nothing", 0, 1)
        assert unknown.wait() == 1
        assert "nothing" in unknown.err
        reader = start_reader(cluster, "bias", 0, 1000000000)
        cluster.coordinator.says("joined node=reader/0")
        wait_for(lambda: reader.out, "the reader to read")
        trainers[0].process.send_signal(signal.SIGINT)
        trainers[0].wait()
        assert reader.wait() == 1  # there is nothing to be read any more
        assert "serve: " in reader.err


def test_a_program_of_ones_own_runs_on_a_cluster(folder):
    one = Process(folder, "lr", "train.svm", program=str(EXAMPLES / "lr"))
    many = Process(folder, "run", "run", "--servers", 2, "--workers", 3, "--", EXAMPLES / "lr",
                   "train.svm")
    assert (one.wait(), many.wait()) == (0, 0), many.err
    lines = many.out.splitlines()
    assert len(lines) == len(one.out.splitlines()) == 11
    assert lines[-1].endswith("the final model")
