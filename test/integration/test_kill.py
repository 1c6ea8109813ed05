"""The kill matrix: whoever is lost, whenever, however, nobody hangs.

A job ends within a bound of time: with exit status 1 and one sentence that names the process that
was lost, or, if the fault was survived (a cut connection) or came too late, with status 0 and the
digest of an undisturbed run. No process, no socket and no half-written file is left.
"""

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster import (Cluster, HeldLog, Log, Process, check_log, children_of, errors_of, group_of,
                     is_gone, size_of, wait_for, wait_until_idle)
from conftest import Rubato, slowness
from relay import Relay

TARGETS = {"worker": "worker/1", "server": "server/1", "coordinator": "coordinator"}
MOMENTS = ["starting", "first clock", "mid-clock", "waiting", "finishing"]
FAULTS = ["SIGKILL", "SIGSTOP", "cut"]
WORKERS = 3
LOST_S = {"SIGKILL": 5.0, "SIGSTOP": 7.0}  # until the whole job has ended; --timeout is 2 s
SHORT = 12
LONG = 1000000
TRAIN = ["train", "linear", "--data", "train.svm", "--consistency", "bsp", "--clocks-per-epoch",
         "2", "--progress", "never", "--summary", "json", "--log", "run.jsonl", "--model",
         "m.model"]


def epochs_of(moment, fault):
    """A job that goes on until the fault ends it, or one that ends by itself."""
    return LONG if fault != "cut" and moment not in ("starting", "finishing") else SHORT * \
        (20 if fault == "cut" else 1)


def wait_for_moment(moment, epochs, path, job):
    """All but "starting" and "waiting"; the job's log tells how far it is."""
    log = Log(path)
    at = {"first clock": lambda e: len(e) >= 1, "mid-clock": lambda e: len(e) >= 4,
          "finishing": lambda e: any(x.get("epoch") == epochs for x in e)}[moment]
    wait_for(lambda: at(log.events()) or job.ends(), f"the log at {moment}",
             progress=lambda: size_of(path))
    assert at(log.events()), job.err


def expected_digest(data, epochs, digests={}):  # noqa: B006: kept between the calls on purpose
    if epochs not in digests:
        run = Rubato(data)
        words = [w for w in TRAIN if w not in ("--log", "run.jsonl", "--model", "m.model")]
        digests[epochs] = json.loads(run.ok(*words, "--epochs", epochs, "--workers",
                                            WORKERS))["digest"]
    return digests[epochs]


def check_rest(folder, code):
    """What may be left in the folder, which is also where sockets and temporary files go."""
    left = {path.name for path in folder.iterdir()} - {"train.svm", "run.jsonl"}
    left = {name for name in left if not name.endswith((".out", ".err"))}
    assert left <= {"m.model"}, f"left behind: {left}"
    assert "m.model" in left or code != 0
    if left:  # whole, even if somebody was lost after it was written
        Rubato(folder).ok("info", "m.model")
    check_log(folder / "run.jsonl")


class Case:
    """One field of the matrix."""

    def __init__(self, target, moment, fault):
        self.target = TARGETS[target]
        self.moment = moment
        self.fault = fault
        self.held = None  # the log, whose writer the others wait for

    def run(self, data, folder):
        folder.mkdir()
        os.link(data / "train.svm", folder / "train.svm")
        epochs = epochs_of(self.moment, self.fault)
        self.held = HeldLog(folder / "run.jsonl") if self.moment == "waiting" else None
        code = (self.run_cut if self.fault == "cut" else self.run_signal)(data, folder, epochs)
        if self.held is not None:
            self.held.close()
        check_rest(folder, code)

    def wait(self, folder, epochs, job):
        """Waits for the moment."""
        if self.held is None:
            wait_for_moment(self.moment, epochs, folder / "run.jsonl", job)
        else:
            self.held.wait(job)

    def release(self):
        if self.held is not None:
            self.held.release()

    def run_signal(self, data, folder, epochs):
        job = Process(folder, "run", "run", "--servers", 2, "--workers", WORKERS, "--timeout", "2s",
                      "--start-timeout", "4s", "--", *TRAIN, "--epochs", epochs)
        try:
            pids = self.strike(job, folder, epochs)
            struck = time.monotonic()
            code = job.wait()
            took = time.monotonic() - struck
            wait_for(lambda: all(map(is_gone, pids.values())), "everybody to be gone", 20)
            assert not [p for pid in pids.values() for p in group_of(pid)]
        finally:
            job.stop()
        limit = LOST_S[self.fault] + (4 if self.moment == "starting" and
                                      self.fault == "SIGSTOP" else 0)
        assert took < limit * slowness(), f"ended after {took:.1f} s\n{job.err}"
        if code == 0:
            assert self.moment in ("starting", "finishing"), job.err
            assert job.digest() == expected_digest(data, epochs)
            assert not errors_of(job.err), job.err
        else:
            assert code == 1, job.err
            assert self.target in job.error(), job.err
        return code

    def strike(self, job, folder, epochs):
        """Waits for the moment and does it. Returns all processes that there are."""
        if self.moment == "starting":
            pid = wait_for(lambda: children_of(job.pid).get(self.target), self.target)
            os.kill(pid, getattr(signal, self.fault))
            return {**children_of(job.pid), self.target: pid}
        self.wait(folder, epochs, job)
        pids = children_of(job.pid)
        assert len(pids) == 3 + WORKERS or self.moment == "finishing"
        if self.moment == "waiting":
            wait_until_idle([pids[f"worker/{i}"] for i in range(WORKERS)], "/none")
        if self.target in pids:
            try:
                os.kill(pids[self.target], getattr(signal, self.fault))
            except ProcessLookupError:  # the job has ended meanwhile
                assert self.moment == "finishing"
        self.release()
        return pids

    def run_cut(self, data, folder, epochs):
        with Cluster(folder, timeout="5s") as cluster:
            lines = {name: Relay(lambda: cluster.address)
                     for name in ("server/0", "server/1", "worker/0", "worker/1", "worker/2")}
            fronts = []
            for i in range(2):
                fronts.append(Relay(lambda i=i: cluster.server_address(i)))
                cluster.start_server(advertise=fronts[i].address,
                                     coordinator=lines[f"server/{i}"].address)
            workers = [cluster.start_worker(i, WORKERS, *TRAIN, "--epochs", epochs,
                                            coordinator=lines[f"worker/{i}"].address)
                       for i in range(WORKERS)]
            relays = {"worker/1": [lines["worker/1"], *fronts],
                      "server/1": [lines["server/1"], fronts[1]],
                      "coordinator": list(lines.values())}[self.target]
            if self.moment == "starting":
                wait_for(lambda: relays[0].accepted, "a first connection")
            else:
                self.wait(folder, epochs, workers[0])
            if self.moment == "waiting":
                wait_until_idle([w.pid for w in workers], "/none")
            cuts = sum(relay.cut() for relay in relays)
            self.release()
            wait_for(workers[0].ends, "the job to end",
                     progress=lambda: size_of(folder / "run.jsonl"))
            codes = [p.wait() for p in [*workers, *cluster.servers, cluster.coordinator]]
            for relay in [*lines.values(), *fronts]:
                relay.close()
            assert codes == [0] * len(codes), "\n".join(p.err for p in cluster.processes)
            assert cuts > 0 or self.moment in ("starting", "finishing")
            assert workers[0].digest() == expected_digest(data, epochs)
        return 0


MATRIX = [(t, m, f) for f in FAULTS for m in MOMENTS for t in TARGETS]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Runs the whole matrix, some fields at a time: most of each is waiting."""
    base = tmp_path_factory.mktemp("kill")
    data = base / "data"
    data.mkdir()
    Rubato(data).ok("gen", "sparse", "--examples", "300", "--features", "60", "--nonzeros", "6",
                    "--out", "train.svm")
    for epochs in {epochs_of(m, f) for _, m, f in MATRIX} - {LONG}:
        expected_digest(data, epochs)

    def run(number):
        try:
            Case(*MATRIX[number]).run(data, base / str(number))
        except BaseException as problem:  # noqa: BLE001: told by the test of this field
            return problem
        return None

    with ThreadPoolExecutor(4) as pool:
        return dict(zip(MATRIX, pool.map(run, range(len(MATRIX)))))


@pytest.mark.parametrize("field", MATRIX, ids=lambda field: "-".join(field).replace(" ", "_"))
def test_nobody_hangs(results, field):
    if results[field] is not None:
        raise results[field]
