"""Jobs on three hosts, which are network namespaces of this machine, over the real ssh."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cluster import wait_for
from conftest import PROGRAM, TIMEOUT_S, environment
from launched import (GONE_S, HOSTS, LONG, SKIP, TRAIN, Launched, digest, digest_alone, errors,
                      wait_until_empty)

NAMES = ["rbt0", "rbt1", "rbt2"]
ADDRESS = "10.77.0.1{}"
LINES = [f"{name} address={ADDRESS.format(i)}\n" for i, name in enumerate(NAMES)]
# What a worker says to a shard in plain words: names of tables, of processes, of messages.
PLAIN_WORDS = [b"weights", b"worker/", b"RBTO"]


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class Hosts:
    """The hosts, and what runs on them."""

    def __init__(self, folder):
        self.folder = folder
        self.ssh = f"ssh -F {folder}/ssh_config -T -o BatchMode=yes -o ConnectTimeout=5"

    def script(self, action, *words):
        return [HOSTS / "netns", action, self.folder, *words]

    def call(self, action, *words):
        return subprocess.run(self.script(action, *words), stdout=subprocess.PIPE, check=True,
                              text=True, timeout=TIMEOUT_S).stdout

    def start(self, rubato, name, *words):
        return Launched(rubato.folder, *self.script("exec", name), PROGRAM, *words)

    def run(self, rubato, *words, file="hosts"):
        """Starts a job on rbt0."""
        return self.start(rubato, "rbt0", "run", "--verbose", "--hosts", file, "--ssh", self.ssh,
                          "--servers", 2, "--workers", 4, *words)

    def processes(self):
        """Numbers and command lines of all that run on a host, but for its sshd."""
        found = []
        for name in NAMES:
            for pid in self.call("pids", name).split():
                try:
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as line:
                        found.append((name, int(pid), line.read().split("\0")))
                except OSError:
                    continue
        return found

    def find(self, name, role, index):
        """The process of a role on a host, and not the watcher that it has started, whose words
        are equal; nor do numbers of processes grow for ever."""
        found = {pid for host, pid, words in self.processes()
                 if host == name and words[1:2] == [role] and f"--index={index}" in words}
        process, = (pid for pid in found if parent_of(pid) not in found)
        return process


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    hosts = Hosts(tmp_path_factory.mktemp("hosts"))
    done = subprocess.run(hosts.script("up"), stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == SKIP:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    yield hosts
    hosts.call("down")


@pytest.fixture
def hosts(rubato, network):
    """The hosts, with a file that names them; nothing may be left on them."""
    rubato.write("hosts", "".join(LINES))
    yield network
    for name in NAMES:
        network.call("link", name, "up")
    assert wait_until_empty(network.processes) == []


class Capture:
    """What goes from host to host while a test looks."""

    def __init__(self, hosts, path):
        self.path = path
        self.process = subprocess.Popen(
            [*hosts.script("exec", "hub"), "tcpdump", "-i", "hub", "-Z", "root", "-B", "65536",
             "--immediate-mode", "-U", "-w", path, "not port 22"],
            stderr=subprocess.PIPE, text=True, env=environment())
        while "listening on" not in self.process.stderr.readline():
            assert self.process.poll() is None

    def end(self):
        self.process.send_signal(signal.SIGINT)
        _, messages = self.process.communicate(timeout=TIMEOUT_S)
        assert "\n0 packets dropped by kernel" in "\n" + messages
        return self.path.read_bytes()


def values_of(model):
    """Pieces of a model file that only a file with these parameters has: two numbers each."""
    content = model.read_bytes()
    pieces = (content[i:i + 8] for i in range(0, len(content) - 8, 4))
    return {piece for piece in pieces if 0 not in piece and not piece.isascii()}


def test_same_bits_and_nothing_to_read_on_the_wire(rubato, shelf, hosts):
    capture = Capture(hosts, rubato.folder / "wire.pcap")
    job = hosts.run(rubato, "--", *TRAIN, shelf / "train.svm", "--summary", "json", "--model", "m")
    code, messages, results = job.end()
    seen = capture.end()
    assert code == 0, messages
    assert errors(messages) == []
    assert digest(results) == digest_alone(rubato, shelf / "train.svm", 4)
    for name in NAMES:
        assert f"host={name} " in messages
    assert len(seen) > 50000
    assert [word for word in PLAIN_WORDS if word in seen] == []
    values = values_of(rubato.folder / "m")
    assert len(values) > 20
    assert [value for value in values if value in seen] == []


def test_without_a_key_all_could_be_read(rubato, shelf, hosts):
    """The same job by hand, without encryption: the test above would have noticed."""
    capture = Capture(hosts, rubato.folder / "wire.pcap")
    place = ADDRESS.format(0) + ":7000"
    coordinator = hosts.start(rubato, "rbt0", "coordinator", "--listen", place, "--servers", 2,
                              "--once", "--insecure")
    coordinator.wait_for("listening on")
    others = [hosts.start(rubato, f"rbt{i}", "server", "--coordinator", place, "--listen",
                          ADDRESS.format(i) + ":0", "--index", i, "--insecure")
              for i in range(2)]
    others += [hosts.start(rubato, NAMES[i % 3], "worker", "--coordinator", place, "--workers", 4,
                           "--index", i, "--insecure", "--", *TRAIN, shelf / "train.svm",
                           "--summary", "json", "--model", "m") for i in range(4)]
    ends = [process.end() for process in [coordinator, *others]]
    seen = capture.end()
    assert [code for code, _, _ in ends] == [0] * 7, ends
    assert digest(ends[3][2]) == digest_alone(rubato, shelf / "train.svm", 4)
    assert [word for word in PLAIN_WORDS if word not in seen] == []
    assert [value for value in values_of(rubato.folder / "m") if value in seen] != []


def test_a_launcher_that_takes_no_part(rubato, shelf, hosts):
    rubato.write("others", "".join(LINES[1:]))
    job = hosts.run(rubato, "--", *TRAIN, shelf / "train.svm", "--summary", "json", file="others")
    code, messages, results = job.end()
    assert code == 0, messages
    assert "host=rbt0 " not in messages
    assert digest(results) == digest_alone(rubato, shelf / "train.svm", 4)


def test_many_processes_on_one_host(rubato, shelf, hosts):
    """More at a time than an sshd lets in before they have logged in."""
    rubato.write("many", LINES[0] + LINES[1].replace("\n", " slots=15\n"))
    job = hosts.start(rubato, "rbt0", "run", "--hosts", "many", "--ssh", hosts.ssh, "--", *TRAIN,
                      shelf / "train.svm", "--summary", "json")
    code, messages, results = job.end()
    assert code == 0, messages
    assert digest(results) == digest_alone(rubato, shelf / "train.svm", 16)


def test_a_host_that_does_not_answer(rubato, shelf, hosts):
    rubato.write("far", LINES[0] + LINES[1] + "10.77.0.99\n")
    code, messages, _ = hosts.run(rubato, "--", *TRAIN, shelf / "train.svm", *LONG,
                                  file="far").end()
    assert code == 1
    assert errors(messages)[0] == (
        'rubato: error: could not start worker/2 on host "10.77.0.99": ssh: connect to host '
        "10.77.0.99 port 22: No route to host")


def test_a_host_without_a_name(rubato, shelf, hosts):
    rubato.write("far", LINES[0] + LINES[1] + "rbt9\n")
    code, messages, _ = hosts.run(rubato, "--", *TRAIN, shelf / "train.svm", *LONG,
                                  file="far").end()
    assert code == 1
    assert errors(messages)[0].startswith(
        'rubato: error: could not start worker/2 on host "rbt9": ssh: Could not resolve hostname')


def test_an_address_of_another_host(rubato, shelf, hosts):
    rubato.write("wrong", LINES[0] + f"rbt1 address={ADDRESS.format(2)}\n")
    code, messages, _ = hosts.run(rubato, "--", *TRAIN, shelf / "train.svm", *LONG,
                                  file="wrong").end()
    assert code == 1
    assert errors(messages)[0] == (
        f"rubato: error: server/1: could not listen on {ADDRESS.format(2)}:0: that is not an "
        "address of this host")


@pytest.mark.parametrize("name, role, index", [("rbt1", "worker", 1), ("rbt1", "server", 1),
                                               ("rbt0", "worker", 0)])
def test_a_killed_process_ends_the_job(rubato, shelf, hosts, name, role, index):
    job = hosts.run(rubato, "--", *TRAIN, shelf / "train.svm", *LONG)
    job.wait_for("job started")
    pid = hosts.find(name, role, index)
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    code, messages, results = job.end()
    assert time.monotonic() - began < GONE_S
    assert (code, results) == (1, "")
    assert len(errors(messages)) == 1
    assert errors(messages)[0].startswith(
        f"rubato: error: lost {role}/{index} on {name} (pid {pid}): killed")
    assert wait_until_empty(hosts.processes) == []


@pytest.mark.parametrize("name, lost", [("rbt2", ["worker/2 on rbt2"]),
                                        ("rbt1", ["worker/1 on rbt1", "server/1 on rbt1"])])
def test_a_link_that_is_down_ends_the_job(rubato, shelf, hosts, name, lost):
    job = hosts.run(rubato, "--timeout", "3s", "--", *TRAIN, shelf / "train.svm", *LONG)
    job.wait_for("job started")
    hosts.call("link", name, "down")
    began = time.monotonic()
    code, messages, _ = job.end()
    assert time.monotonic() - began < 3 + GONE_S
    assert code == 1
    assert len(errors(messages)) == 1
    assert any(errors(messages)[0].startswith(f"rubato: error: lost {who} (pid ") for who in lost)
    assert "no sign of life for 3s" in errors(messages)[0]


def test_a_killed_launcher_takes_all_along(rubato, shelf, hosts):
    job = hosts.run(rubato, "--", *TRAIN, shelf / "train.svm", *LONG)
    job.wait_for("job started")
    job.process.kill()
    job.end()
    assert wait_until_empty(hosts.processes) == []


def test_rows_travel_early_over_a_link_with_the_rate_of_the_budget(rubato, hosts):
    """Nothing is lost and nothing stands still, and a link that is slower for a while is noticed.
    How soon it is used fully again: bench/experiments/managed_link.py."""
    load = Path(PROGRAM).parent / "test/integration/early_load"
    place = ADDRESS.format(0) + ":7000"

    def wait_for_bytes(count):
        start = int(hosts.call("sent", "rbt1").split()[0])
        wait_for(lambda: int(hosts.call("sent", "rbt1").split()[0]) - start > count, "bytes")

    try:
        hosts.call("rate", "rbt1", "32mbit")
        coordinator = hosts.start(rubato, "rbt0", "coordinator", "--listen", place, "--servers", 2,
                                  "--once", "--insecure")
        coordinator.wait_for("listening on")
        servers = [hosts.start(rubato, "rbt0", "server", "--coordinator", place, "--listen",
                               ADDRESS.format(0) + ":0", "--index", i, "--insecure")
                   for i in range(2)]
        job = hosts.start(rubato, "rbt1", "worker", "--coordinator", place, "--workers", 2,
                          "--threads", 2, "--insecure", "--", load, 0, 4000000,
                          rubato.folder / "enough")
        wait_for_bytes(4000000)
        hosts.call("rate", "rbt1", "16mbit")
        wait_for_bytes(3000000)
        hosts.call("rate", "rbt1", "32mbit")
        wait_for_bytes(4000000)
        rubato.write("enough", "")
        ends = [process.end() for process in [job, coordinator, *servers]]
    finally:
        hosts.call("rate", "rbt1", "200mbit")
    assert [code for code, _, _ in ends] == [0] * 4, ends
    figures = json.loads(ends[0][2])
    assert figures["made"] == figures["arrived"]
    assert figures["early_sent"] > 0 and figures["early_received"] > 0
    assert figures["early_pauses"] > 0
