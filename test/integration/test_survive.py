"""What a job survives: a server or a worker that stands still for a while, and connections that are
cut again and again. The digest is that of an undisturbed run, bit for bit.
"""

import json
import os
import signal
import threading
import time

import pytest

from cluster import Cluster, HeldLog, Process, children_of, errors_of, wait_for, wait_until_idle
from conftest import Rubato
from relay import Relay

WORKERS = 3
CUTS = 100
LINE_BYTES = 300  # less than a line of the log, and CUTS of it are less than the log
JOBS = {"linear": ["train", "linear", "--data", "train.svm", "--clocks-per-epoch", "4", "--epochs",
                   "200"],
        "mf": ["train", "mf", "--data", "ratings.csv", "--rank", "4", "--clocks-per-epoch", "2",
               "--epochs", "200"],
        "filtered": ["train", "linear", "--data", "train.svm", "--clocks-per-epoch", "4",
                     "--epochs", "200", "--filter", "keys,changed,f16,lz4"]}
MORE = ["--consistency", "bsp", "--progress", "never", "--summary", "json"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data, a key, and what undisturbed runs in one process say."""
    run = Rubato(tmp_path_factory.mktemp("survive"))
    run.ok("gen", "sparse", "--examples", "400", "--features", "80", "--nonzeros", "8", "--out",
           "train.svm")
    run.ok("gen", "ratings", "--users", "40", "--items", "30", "--ratings", "600", "--out",
           "ratings.csv")
    run.ok("keygen", "cluster.key")
    for name, job in JOBS.items():
        run.write(f"{name}.json", run.ok(*job, *MORE, "--workers", WORKERS))
        run.write(f"{name}.run.json", run.ok("run", "--transport", "tcp", "--servers", "2",
                                             "--workers", WORKERS, "--", *job, *MORE))
    return run.folder


def expected(data, name):
    """What a run in one process says; the digest of a calm one in many is the same."""
    alone, calm = (json.loads((data / f"{name}{end}.json").read_text()) for end in ("", ".run"))
    assert alone["digest"] == calm["digest"]
    return calm


def copy_data(data, folder):
    for name in ("train.svm", "ratings.csv", "cluster.key"):
        os.link(data / name, folder / name)


@pytest.mark.parametrize("target", ["server/1", "worker/1"])
def test_who_stands_still_for_five_seconds_goes_on(data, tmp_path, target):
    copy_data(data, tmp_path)
    log = HeldLog(tmp_path / "run.jsonl")
    job = Process(tmp_path, "run", "run", "--servers", 2, "--workers", WORKERS, "--",
                  *JOBS["linear"], *MORE, "--log", log.path)
    try:
        log.wait(job)
        pids = children_of(job.pid)
        os.kill(pids[target], signal.SIGSTOP)
        stopped = time.monotonic()
        log.release()
        others = [pid for name, pid in pids.items() if name.startswith("worker") and name != target]
        wait_until_idle(others, "/none")
        before = log.count()
        wait_for(lambda: time.monotonic() - stopped >= 5, "five seconds to pass")
        assert log.count() == before  # it was really stopped
        os.kill(pids[target], signal.SIGCONT)
        assert job.wait() == 0, job.err
    finally:
        job.stop()
        log.close()
    assert not errors_of(job.err), job.err
    assert job.digest() == expected(data, "linear")["digest"]


class Cutter:
    """Cuts all connections of its relays, whenever there are new ones, until it is stopped."""

    def __init__(self, relays, log):
        self.relays = relays
        self.log = log
        self.rounds = 0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        is_due = False
        while not self.is_over.is_set() and self.rounds < CUTS:
            is_due = is_due or self.log.take(LINE_BYTES)  # the job comes forward
            if is_due and any([relay.cut() for relay in self.relays]):
                self.rounds += 1
                is_due = False
            else:
                self.is_over.wait(0.002)
        self.log.release()

    def stop(self):
        self.is_over.set()
        self.thread.join()
        self.log.close()


def run_through_relays(folder, job, key):
    """A job whose every connection goes through a relay that cuts it again and again."""
    with Cluster(folder, key=key) as cluster:
        line = Relay(lambda: cluster.address)
        fronts = []
        for i in range(2):
            fronts.append(Relay(lambda i=i: cluster.server_address(i)))
            cluster.start_server(advertise=fronts[i].address, coordinator=line.address)
        log = HeldLog(folder / "run.jsonl")
        workers = [cluster.start_worker(i, WORKERS, *job, coordinator=line.address)
                   for i in range(WORKERS)]
        cutter = Cutter([*fronts, line], log)
        try:
            codes = [p.wait() for p in [*workers, *cluster.servers, cluster.coordinator]]
        finally:
            cluster.__exit__()  # whoever still writes to the log
            cutter.stop()
        for relay in [*fronts, line]:
            relay.close()
        assert codes == [0] * len(codes), "\n".join(p.name + "\n" + p.err
                                                    for p in cluster.processes)
        assert cutter.rounds == CUTS, cutter.rounds
        assert sum(relay.cuts for relay in fronts) > CUTS
        assert line.cuts > 0
        return workers[0].summary(), "".join(p.err for p in cluster.servers)


@pytest.mark.parametrize("security", ["plain", "key"])
@pytest.mark.parametrize("name", list(JOBS))
def test_a_hundred_cut_connections_change_nothing(data, tmp_path, name, security):
    copy_data(data, tmp_path)
    key = "cluster.key" if security == "key" else None
    summary, said = run_through_relays(tmp_path, [*JOBS[name], *MORE, "--log", "run.jsonl"], key)
    calm = expected(data, name)
    assert summary["digest"] == calm["digest"]
    assert (summary["clocks"], summary["reads"]) == (calm["clocks"], calm["reads"])
    assert summary["updates"] == calm["updates"]  # each was applied, and once
    assert "assertion" not in said
