"""Intruders who speak the protocol: they are refused and the log says so, nothing of theirs is
loaded or kept, and the job goes on with the digest of a calm run.

They run as another user where the tests run as root, and as oneself elsewhere: what they can do
then is what the tests look at all the same.
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import wire
from cluster import (Cluster, HeldLog, Process, children_of, events, group_of, read, run_time,
                     wait_for, wait_until_idle)
from conftest import PROGRAM, ROOT, Rubato, environment

BUILD = Path(os.environ.get("RUBATO") or ROOT / "build/rubato").resolve().parent
RULE = BUILD / "test/rules/failing.so"
SANITIZED = "asan" in str(BUILD) or "tsan" in str(BUILD)  # these need memory of their own
WORKERS = 2
TRAIN = ["train", "linear", "--data", "train.svm", "--consistency", "bsp", "--clocks-per-epoch",
         "4", "--epochs", "40", "--progress", "never", "--summary", "json"]
NOBODY = 65534
NO_KEY = "does not have this cluster's key"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    run = Rubato(tmp_path_factory.mktemp("intruders"))
    run.ok("gen", "sparse", "--examples", "200", "--features", "40", "--nonzeros", "6", "--out",
           "train.svm")
    run.ok("keygen", "cluster.key")
    run.write("digest", json.loads(run.ok(*TRAIN, "--workers", WORKERS))["digest"])
    return run.folder


@pytest.fixture
def folder(data, tmp_path):
    for name in ("train.svm", "cluster.key"):
        os.link(data / name, tmp_path / name)
    return tmp_path


def as_nobody(code, *arguments):
    """Runs Python code that knows wire.py as another user, and returns what it prints."""
    source = (ROOT / "test/integration/wire.py").read_text() + "\nimport os, sys\n" + code
    other = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    done = subprocess.run([sys.executable, "-c", source, *map(str, arguments)], cwd="/",
                          capture_output=True, text=True, timeout=60, check=False, **other)
    assert done.returncode == 0, done.stderr
    return done.stdout


def finish(cluster, job, data):
    """The job ends as if nobody had come."""
    codes = [p.wait() for p in job]
    assert codes == [0] * len(codes), "\n".join(p.err for p in cluster.processes)
    assert job[0].digest() == (data / "digest").read_text()


def join(address, space, workers=1):
    """Becomes a worker process of a job of its own."""
    line = wire.Line(address)
    line.send(wire.JOIN, wire.join(space, workers))
    kind, body = line.receive()
    while kind != wire.PLAN:
        assert kind != wire.FAILED, wire.sentence(body, 8)
        kind, body = line.receive()
    return line, wire.plan(body)


def greet(plan, **more):
    """Says HELLO to the first shard, again if it was too early; the connection and the answer."""
    while True:
        line = wire.Line(plan.shards[0])
        line.send(wire.HELLO, wire.hello(plan, **more))
        kind, body = line.receive()
        if kind != wire.REFUSED or line.flags != wire.TRY_AGAIN:
            return line, kind, wire.sentence(body) if kind == wire.REFUSED else ""
        line.socket.close()


def open_table(plan, **table):
    """Asks a shard for a table; the status and the sentence of the answer."""
    line, kind, why = greet(plan)
    with line:
        assert kind == wire.WELCOME, why
        line.send(wire.TABLE, wire.table(**table), number=1)
        kind, body = line.receive()
        assert kind == wire.DONE, wire.sentence(body)
        status, = struct.unpack_from("<i", body, wire.NEWS_BYTES)
        return status, body


def is_loaded(process, path):
    return str(path) in read(f"/proc/{process.pid}/maps")


# --- Code -----------------------------------------------------------------------------------------


def make_plugins(folder):
    """A directory with a plug-in, and what lies around it."""
    admitted, outside = folder / "admitted", folder / "outside"
    for path in (admitted / "sub", outside):
        path.mkdir(parents=True)
    for path in (admitted / "good.so", admitted / "sub/deep.so", outside / "evil.so"):
        shutil.copy(RULE, path)
    os.symlink(outside / "evil.so", admitted / "link.so")
    os.symlink(outside, admitted / "way")
    return admitted, outside


@pytest.mark.parametrize("what", ["rule", "priority", "filters"])
def test_a_message_does_not_choose_what_a_server_loads(folder, data, what):
    admitted, outside = make_plugins(folder)
    with Cluster(folder, servers=1, once=False, plugin=admitted).start_servers() as cluster:
        line, plan = join(cluster.address, "other")
        with line:
            for path in (outside / "evil.so", admitted / "../outside/evil.so",
                         admitted / "link.so", admitted / "way/evil.so", admitted / "sub/deep.so",
                         "/lib/x86_64-linux-gnu/libm.so.6", folder / "missing.so", "./evil.so"):
                status, body = open_table(plan, **{what: path})
                assert status < 0
                assert "may not be loaded" in body.decode(errors="replace"), body
            server = cluster.servers[0]
            assert not any(is_loaded(server, p) for p in ("evil.so", "deep.so"))
            if what == "rule":  # what the owner has named is, unless others may write to it
                (admitted / "sub/deep.so").rename(admitted / "weak.so")
                (admitted / "weak.so").chmod(0o777)
                status, body = open_table(plan, rule=admitted / "weak.so")
                assert status < 0 and b"every user may change" in body
                assert not is_loaded(server, admitted / "weak.so")
                assert open_table(plan, rule=admitted / "good.so")[0] == 0
                assert is_loaded(server, admitted / "good.so")
        finish(cluster, cluster.start_job(WORKERS, *TRAIN), data)


def test_a_job_that_names_another_plugin_is_told_so(folder):
    with Cluster(folder, servers=1, once=False).start_servers() as cluster:
        worker, = cluster.start_job(1, *TRAIN, "--rule", RULE)
        assert worker.wait() != 0
        assert f'the rule "{RULE}" may not be loaded' in worker.error()
        assert "--plugin" in worker.error()


def test_a_directory_that_everybody_may_write_to_is_no_place_for_plugins(rubato):
    (rubato.folder / "open").mkdir()
    (rubato.folder / "open").chmod(0o777)
    result = rubato("server", "--coordinator", "unix:c", "--plugin", "open")
    assert result.returncode == 2
    assert 'cannot load plug-ins from "open": every user may change' in result.stderr
    shutil.copy(RULE, rubato.folder / "open/mine.so")  # others may put another one there
    result = rubato("server", "--coordinator", "unix:c", "--plugin", "open/mine.so")
    assert result.returncode == 2
    assert "or replace it" in result.stderr
    assert 'cannot find the plug-in "no": No such file' in rubato("server", "--coordinator",
                                                                 "unix:c", "--plugin", "no").stderr
    os.mkfifo(rubato.folder / "pipe")
    result = rubato("server", "--coordinator", "unix:c", "--plugin", "pipe")
    assert result.returncode == 2
    assert '"pipe" is neither a plug-in nor a directory of plug-ins' in result.stderr


@pytest.mark.parametrize("how", [[], ["--colocate"]])
def test_run_hands_the_plugins_of_its_command_line_to_its_servers(folder, how):
    process = Process(folder, "run", "run", "--workers", 2, *how, "--", *TRAIN, "--rule", RULE)
    assert process.wait() == 0, process.err


def test_run_over_tcp_has_a_key_of_its_own(folder, data):
    log = HeldLog(folder / "run.jsonl")
    run = Process(folder, "run", "run", "--verbose", "--transport", "tcp", "--timeout", "30s",
                  "--workers", WORKERS, "--", *TRAIN, "--log", "run.jsonl")
    try:
        log.wait(run)
        children = children_of(run.pid)
        for pid in [run.pid, *children.values()]:
            for place in ("cmdline", "environ"):
                assert not re.search(r"\b[0-9a-f]{64}\b", read(f"/proc/{pid}/{place}"))
        addresses = set(re.findall(r"listening address=(127\S+)", run.err))
        assert len(addresses) == 2, run.err  # coordinator and server
        for address in addresses:
            before = run.err.count(NO_KEY)
            out = as_nobody("""
with Line(sys.argv[1]) as line:
    line.send(JOIN, join("main", 2))
    print("cut" if line.is_cut() else "open")
""", address)
            assert out == "cut\n"
            wait_for(lambda before=before: run.err.count(NO_KEY) > before, "a line in the log")
        log.release()
        assert run.wait() == 0, run.err
        assert run.digest() == (data / "digest").read_text()
    finally:
        run.stop()
        log.close()


ROLES = [["coordinator", "--listen", "127.0.0.1:0"],
         ["server", "--coordinator", "127.0.0.1:1"],
         ["server", "--coordinator", "unix:c", "--listen", "127.0.0.1:0"],
         ["worker", "--coordinator", "127.0.0.1:1", "--", "train", "linear", "--data", "x"],
         ["worker", "--coordinator", "127.0.0.1:1", "--", "./program"]]


@pytest.mark.parametrize("words", ROLES, ids=lambda words: "-".join(words[:3]))
def test_roles_by_hand_need_a_key_over_tcp(rubato, words):
    result = rubato(*words)
    assert result.returncode == 2
    assert result.stdout == ""
    assert re.match(r'rubato: error: address "127.0.0.1:[01]" needs a key: without one every '
                    r"process that can connect would join the cluster\n"
                    r'rubato: hint: Make one with "rubato keygen FILE" .*--insecure', result.stderr)


def test_without_a_key_there_is_a_warning(folder):
    with Cluster(folder, servers=1) as cluster:
        cluster.coordinator.says("warning: no key is given: nothing is encrypted")
        cluster.start_server().says("warning: no key is given: nothing is encrypted")


# --- Namespaces -----------------------------------------------------------------------------------


class Held:
    """A job in namespace "main" that is held, and an intruder of the cluster who has a job of its
    own."""

    def __init__(self, folder, data):
        self.data = data
        self.cluster = Cluster(folder, servers=1, once=False, timeout="30s").start_servers()
        self.output = HeldLog(folder / "run.jsonl")
        self.job = self.cluster.start_job(WORKERS, *TRAIN, "--log", "run.jsonl")
        self.output.wait(self.job[0])
        self.line, self.plan = join(self.cluster.address, "other")

    @property
    def log(self):
        return self.cluster.servers[0].err

    def finish(self):
        self.output.release()
        finish(self.cluster, self.job, self.data)
        assert "came back node=" not in self.cluster.coordinator.err  # nobody has been cut off

    def close(self):
        self.line.socket.close()
        self.cluster.__exit__()
        self.output.close()


@pytest.fixture
def held(folder, data):
    made = Held(folder, data)
    yield made
    made.close()


def secrets_of(plan):
    return [plan.secret, bytes(16), b"\xff" * 16, bytes([plan.secret[0] ^ 1]) + plan.secret[1:]]


def test_nobody_speaks_for_a_worker_of_another_job(held):
    plan = held.plan
    assert plan.job == 2 and plan.secret != bytes(16)
    for reader in (0, 1):
        for secret in secrets_of(plan):
            for worker in (0, 1, wire.NOBODY):
                before = held.log.count("refused a connection")
                line, kind, why = greet(plan, job=1, workers=WORKERS, worker=worker, secret=secret,
                                        reader=reader, space="main")
                with line:
                    assert kind == wire.REFUSED
                    assert "does not have the secret of job 1" in why
                    assert line.is_cut()
                wait_for(lambda before=before: held.log.count("refused a connection") > before or
                         before >= 10, "a line in the log")  # at most ten lines in a second
    line, kind, why = greet(plan)  # its own job is its own
    with line:
        assert kind == wire.WELCOME, why
    held.finish()


def test_nobody_joins_a_job_that_runs(held):
    with wire.Line(held.cluster.address) as line:
        line.send(wire.JOIN, wire.join("main", WORKERS, 1, token=77))
        kind, body = line.receive()
        assert kind == wire.FAILED and "has a running job" in wire.sentence(body, 8)
    with wire.Line(held.cluster.address) as line:  # nor does anybody come back in its place
        line.send(wire.JOIN, wire.join("main", WORKERS, 1, token=78, index=0, is_return=1))
        kind, body = line.receive()
        assert kind == wire.FAILED and "the cluster had declared it lost" in wire.sentence(body, 8)
    held.finish()


def test_jobs_that_nobody_has_begun_take_no_memory(held):
    for job in range(3, 400):
        with wire.Line(held.plan.shards[0]) as line:
            line.send(wire.HELLO, wire.hello(held.plan, job=job, workers=60000))
            kind, body = line.receive()
            assert kind == wire.REFUSED and line.flags == wire.TRY_AGAIN
            assert f"does not know job {job} yet" in wire.sentence(body)
    pages = int(read(f"/proc/{held.cluster.servers[0].pid}/statm").split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") < 100e6
    held.finish()


def test_readers_read_and_do_nothing_else(held):
    with wire.Line(held.cluster.address) as line:
        line.send(wire.JOIN, wire.join("main", 1, role=2, token=79))
        kind, body = line.receive()
        while kind != wire.PLAN:
            kind, body = line.receive()
        plan = wire.plan(body)
        assert plan.job == 1
        answer, kind, why = greet(plan, reader=1, space="main")
        with answer:
            assert kind == wire.WELCOME, why
        for worker in (0, wire.NOBODY):  # what it was given does not make it a worker
            answer, kind, why = greet(plan, worker=worker, workers=WORKERS, space="main")
            with answer:
                assert kind == wire.REFUSED and "does not have the secret of job 1" in why
        for kind, body in ((wire.PUSH, struct.pack("<qqQQII", 0, 1, 0, 2**64 - 1, 0, 0)),
                           (wire.RESET, b""), (wire.LEAVE, b""), (wire.TABLE, wire.table())):
            answer, _, _ = greet(plan, reader=1, space="main")
            with answer:
                answer.send(kind, body, worker=0, number=1)
                assert answer.receive()[0] == wire.REFUSED
    held.finish()


def test_a_job_with_a_key_of_its_own(rubato, data):
    """Who is of the cluster, but does not have the job's key, neither joins it nor reads it."""
    folder = rubato.folder
    os.link(data / "train.svm", folder / "train.svm")
    rubato.ok("keygen", "job.key")
    rubato.ok("keygen", "other.key")
    rubato.ok("keygen", "--readers-of", "job.key", "readers.key")
    log = HeldLog(folder / "run.jsonl")
    with Cluster(folder, servers=1, once=False, timeout="30s").start_servers() as cluster:
        first = cluster.start_worker(0, WORKERS, *TRAIN, "--log", "run.jsonl",
                                     RUBATO_JOB_KEY="job.key")
        cluster.coordinator.says("joined node=worker/0")
        for key in ({}, {"RUBATO_JOB_KEY": "other.key"}, {"RUBATO_JOB_KEY": "readers.key"}):
            thief = cluster.start_worker(1, WORKERS, *TRAIN, name="thief", **key)
            assert thief.wait() != 0
            assert 'namespace "main" has another job key' in thief.error()
        second = cluster.start_worker(1, WORKERS, *TRAIN, RUBATO_JOB_KEY="job.key")
        log.wait(first)
        for permit in (bytes(16), b"1234567890123456"):
            with wire.Line(cluster.address) as line:
                line.send(wire.JOIN, wire.join("main", 1, role=2, token=80, permit=permit))
                kind, body = line.receive()
                while kind not in (wire.PLAN, wire.FAILED):
                    kind, body = line.receive()
                assert kind == wire.FAILED
                assert "only with the key of its readers" in wire.sentence(body, 8)
        log.release()
        finish(cluster, [first, second], data)
    log.close()


@pytest.mark.parametrize("digits", ["00" * 32, "ff" * 32, "a5" * 32])
def test_a_key_that_nobody_has_drawn_is_refused(rubato, digits):
    rubato.write("weak.key", digits + "\n").chmod(0o600)
    for words in (["coordinator", "--listen", "127.0.0.1:0"],
                  ["run", "--", "train", "linear", "--data", "x"]):
        result = rubato(*words[:1], "--key", "weak.key", *words[1:])
        assert result.returncode == 1
        assert "weak.key is not a random key" in result.stderr


# --- Ends -----------------------------------------------------------------------------------------


def start_stuck(folder, how):
    """A job whose rule does not return from the fourth clock on."""
    process = Process(folder, "job", *how, *TRAIN, "--rule", f"{RULE}:stuck=3", "--workers",
                      WORKERS, "--log", "run.jsonl", "--model", "m.model")
    wait_for(lambda: len(events(folder / "run.jsonl")) >= 1 or process.ends(), "the job")
    return process


@pytest.mark.parametrize("how", [[], ["run", "--"], ["run", "--colocate", "--"]],
                         ids=["train", "run", "colocated"])
def test_one_sigterm_ends_a_job_whose_rule_is_stuck(folder, how):
    process = start_stuck(folder, how)
    wait_until_idle([*children_of(process.pid).values(), process.pid] if how else [process.pid],
                    folder / "run.jsonl")
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(40) in (1, 128 + signal.SIGTERM), process.err
    assert how or "told to end, and after 10 s still busy" in process.err
    assert group_of(process.pid) == []
    assert list(folder.glob("m.model*")) == []


def test_a_server_does_not_wait_for_a_rule_that_is_stuck(folder):
    with Cluster(folder, servers=1, timeout="30s", plugin=RULE).start_servers() as cluster:
        job = cluster.start_job(WORKERS, *TRAIN, "--rule", f"{RULE}:stuck=3")
        wait_until_idle([cluster.servers[0].pid, *(p.pid for p in job)], folder / "none")
        os.kill(cluster.coordinator.pid, signal.SIGTERM)
        assert cluster.servers[0].wait() == 1
        cluster.servers[0].says("a rule or filter of a job does not return")
        assert [p.wait() for p in job] == [1] * WORKERS
        assert job[0].error() == "the coordinator was stopped"


@pytest.mark.parametrize("who, sentence", [
    ("worker/0", r"interrupted after \S+ epochs?"),
    ("worker/1", "worker/1: interrupted"),
    ("coordinator", "the coordinator was stopped"),
    ("server/0", "server/0: stopped"),
    ("run", r"interrupted after \S+ epochs?")])
def test_who_was_interrupted_is_said(folder, who, sentence):
    run = Process(folder, "run", "run", "--workers", WORKERS, "--", *TRAIN, "--epochs", "1000000",
                  "--log", "run.jsonl")
    try:
        wait_for(lambda: len(events(folder / "run.jsonl")) >= 2 or run.ends(), "the job")
        os.kill(run.pid if who == "run" else children_of(run.pid)[who], signal.SIGTERM)
        assert run.wait() == 1
        assert re.fullmatch(sentence, run.error()), run.err
    finally:
        run.stop()


FUTURE = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
    const long error = syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += YEARS * 31557600LL;
    return (int)error;
}
"""


@pytest.mark.parametrize("years", [80, 200, 400])
def test_the_clock_may_stand_anywhere(rubato, data, years):
    os.link(data / "train.svm", rubato.folder / "train.svm")
    rubato.write("future.c", FUTURE)
    subprocess.run(["cc", "-shared", "-fPIC", f"-DYEARS={years}", "-o", "future.so", "future.c"],
                   cwd=rubato.folder, check=True)
    future = environment(LD_PRELOAD=str(rubato.folder / "future.so"))
    for how in ([], ["run", "--"], ["run", "--transport", "tcp", "--"]):
        made = json.loads(rubato.ok(*how, *TRAIN, "--workers", WORKERS, env=future))
        assert made["digest"] == (data / "digest").read_text()


# --- Crowds ---------------------------------------------------------------------------------------


CROWD = 300
HALF_SAID = wire.frame(wire.HELLO, bytes(4000))[:2000]  # begins a message, and does not end it


class Crowd:
    """Connections to these addresses that never say who they are; those that are closed are made
    again twice a second."""

    def __init__(self, *addresses, key=False):
        self.addresses = addresses
        self.bytes = b"" if key else HALF_SAID
        self.lines = {address: [] for address in addresses}
        self.stop = threading.Event()
        self.fill()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def fill(self):
        for address, lines in self.lines.items():
            for line in [line for line in lines if self.is_closed(line)]:
                line.socket.close()
                lines.remove(line)
            while len(lines) < CROWD:
                try:
                    line = wire.Line(address)
                    line.socket.sendall(self.bytes)
                except OSError:  # it is closed as soon as another comes
                    break
                line.socket.setblocking(False)
                lines.append(line)

    @staticmethod
    def is_closed(line):
        try:
            return line.socket.recv(1 << 12) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def run(self):
        while not self.stop.wait(0.5):
            self.fill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        for lines in self.lines.values():
            for line in lines:
                line.socket.close()


def memory_of(process):
    pages = int(read(f"/proc/{process.pid}/statm").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("key", [None, "cluster.key"], ids=["plain", "key"])
def test_a_crowd_keeps_nobody_out(folder, data, key):
    with Cluster(folder, servers=1, once=False, key=key).start_servers() as cluster:
        address = cluster.server_address(0)
        cluster.servers[0].says("joined server=0")
        with Crowd(cluster.address, address, key=key):
            finish(cluster, cluster.start_job(WORKERS, *TRAIN), data)
            for process in (cluster.coordinator, cluster.servers[0]):
                process.says("refused a connection from .*: too many connections have not greeted")
                assert SANITIZED or memory_of(process) < 150e6


def start_with_few_files(cluster, files, *words):
    return cluster.start("server/0", f"--nofile={files}:{files}", PROGRAM, "server", "--listen",
                         "127.0.0.1:0", "--coordinator", cluster.address, "--index", 0, *words,
                         program="prlimit")


def test_a_server_without_free_descriptors_neither_spins_nor_hangs(folder, data):
    with Cluster(folder, servers=1, once=False) as cluster:
        server = start_with_few_files(cluster, 60)
        address = server.says(r"listening address=(\S+)").group(1)
        server.says("joined server=0")
        with Crowd(address):
            server.says(r"could not accept a connection: .*raise the limit of open files")
            before = run_time(server.pid)
            time.sleep(1)
            assert run_time(server.pid) - before < 50  # hundredths of a second
            finish(cluster, cluster.start_job(WORKERS, *TRAIN), data)


def test_a_job_ends_when_a_server_cannot_accept_all_its_workers(folder):
    with Cluster(folder, servers=1, once=False, timeout="3s") as cluster:
        server = start_with_few_files(cluster, 24)
        server.says("joined server=0")
        before = run_time(server.pid)
        began = time.monotonic()
        worker = cluster.start("worker", "worker", "--coordinator", cluster.address, "--workers",
                               30, "--threads", 30, "--", *TRAIN)
        assert worker.wait() == 1
        assert "lost shard 0" in worker.error()
        spent = (run_time(server.pid) - before) / os.sysconf("SC_CLK_TCK")
        assert spent < 0.5 * max(2, time.monotonic() - began)  # it does not spin
        server.says("raise the limit of open files")


def test_too_few_descriptors_are_said_before_anything_is_started(rubato, data):
    def run(limits, *words):
        return subprocess.run(["prlimit", f"--nofile={limits}", PROGRAM, "run", *words, "--",
                               *TRAIN], cwd=data, env=environment(), capture_output=True,
                              text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)

    for words in (["--workers", "128"], ["--workers", "128", "--threads", "64"],
                  ["--workers", "128", "--threads", "128", "--colocate", "--transport", "tcp"]):
        result = run("100:100", *words)
        assert result.returncode == 1
        assert re.match(r"rubato: error: 128 workers and 1 server need about \d+ open files in one "
                        r"process, but the limit is 100\nrubato: hint: Raise the limit.*\n$",
                        result.stderr), result.stderr
    result = run("64:4096", "--workers", "24")  # as many as there may be are asked for
    assert result.returncode == 0, result.stderr
