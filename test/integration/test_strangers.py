"""Who does not belong to the cluster is refused, the log says why, and the job goes on.

Every stranger comes while a job is under way: one of its workers is stopped meanwhile, so that it
cannot end before they have been. Afterwards it goes on and has the digest of a calm run.
"""

import json
import os
import random
import re
import socket
import struct

import pytest

from cluster import Cluster, HeldLog, Process, wait_for
from conftest import Rubato
from relay import Relay, split

WORKERS = 2
TRAIN = ["train", "linear", "--data", "train.svm", "--consistency", "bsp", "--clocks-per-epoch",
         "4", "--epochs", "60", "--progress", "never", "--summary", "json"]
ROLES = ["coordinator", "server"]
VERSION_AT, LENGTH_AT = 4, 12  # in the header of a frame, see docs/wire.md
MAGIC = b"RBTO"
VERSION = 6
OTHER = VERSION + 1


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    run = Rubato(tmp_path_factory.mktemp("strangers"))
    run.ok("gen", "sparse", "--examples", "200", "--features", "40", "--nonzeros", "6", "--out",
           "train.svm")
    run.ok("keygen", "cluster.key")
    run.ok("keygen", "other.key")
    run.write("digest", json.loads(run.ok(*TRAIN, "--workers", WORKERS))["digest"])
    return run.folder


class Scene:
    """A job that is held, and relays that have recorded how its members introduced themselves."""

    def __init__(self, data, folder, key):
        self.data = data
        self.folder = folder
        for name in ("train.svm", "cluster.key", "other.key"):
            os.link(data / name, folder / name)
        self.cluster = Cluster(folder, servers=1, key=key, timeout="30s")
        self.relays = {"coordinator": Relay(lambda: self.cluster.address, keep=1 << 12),
                       "server": Relay(lambda: self.cluster.server_address(0), keep=1 << 12)}
        self.server = self.cluster.start_server(advertise=self.relays["server"].address)
        self.log = HeldLog(folder / "run.jsonl")
        self.workers = [self.cluster.start_worker(
            i, WORKERS, *TRAIN, "--log", "run.jsonl",
            coordinator=self.relays["coordinator"].address) for i in range(WORKERS)]
        self.log.wait(self.workers[0])

    def address(self, role):
        return self.cluster.address if role == "coordinator" else self.cluster.server_address(0)

    def process(self, role):
        return self.cluster.coordinator if role == "coordinator" else self.server

    def first_bytes(self, role):
        """What a member said first: JOIN or HELLO, or its side of the handshake."""
        return b"".join(next(r for r in self.relays[role].recorded if r))

    def refused(self, role, silent=False):
        """Lines of the log; those about connections that said nothing are told apart."""
        return [line for line in self.process(role).err.splitlines()
                if " warn " in line and "refused a connection" in line and
                silent == bool(re.search("sent no greeting", line))]

    def stranger(self, role, send, why):
        """Somebody connects and sends this; the role must log why it does not want it."""
        before = len(self.refused(role))
        with socket.create_connection(split(self.address(role)), timeout=20) as line:
            line.sendall(send)
            wait_for(lambda: len(self.refused(role)) > before, f"{role} to log {why}")
        new = self.refused(role)[before:]
        assert len(new) == 1 and why in new[0], new

    def finish(self):
        """The job goes on, and nothing has changed."""
        self.log.release()
        codes = [p.wait() for p in [*self.workers, self.server, self.cluster.coordinator]]
        assert codes == [0] * len(codes), "\n".join(p.err for p in self.cluster.processes)
        assert self.workers[0].digest() == (self.data / "digest").read_text()

    def close(self):
        self.cluster.__exit__()
        self.log.close()
        for relay in self.relays.values():
            relay.close()


@pytest.fixture
def scene(data, tmp_path):
    made = []

    def make(key=None):
        made.append(Scene(data, tmp_path, key))
        return made[0]

    yield make
    for one in made:
        one.close()


def noise(size):
    return bytes([7]) + random.Random(size).randbytes(size - 1)


def patched(message, at, layout, value):
    size = struct.calcsize(layout)
    return message[:at] + struct.pack(layout, value) + message[at + size:]


def silent_ones(scene):
    """Connections that say nothing, to every role."""
    return {role: socket.create_connection(split(scene.address(role)), timeout=20)
            for role in ROLES}


def expect_silent_refused(scene, lines):
    for role, line in lines.items():
        wait_for(lambda role=role: len(scene.refused(role, silent=True)) == 1,
                 f"{role} to give up on who is silent")
        line.settimeout(20)
        while line.recv(1 << 12):  # it may be told why, and is then closed
            pass
        line.close()


def test_strangers_without_a_key_on_the_cluster(scene):
    s = scene()
    lines = silent_ones(s)
    for role in ROLES:
        hello = s.first_bytes(role)
        s.stranger(role, noise(64), "does not speak Rubato's protocol")
        s.stranger(role, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(16),
                   "does not speak Rubato's protocol")
        for version in (0, OTHER, 0xffff):
            s.stranger(role, patched(hello, VERSION_AT, "<H", version),
                       f"speaks version {version} of the protocol, this is version {VERSION}")
        s.stranger(role, patched(hello, LENGTH_AT, "<I", 0xfffffff8), "4294967288 bytes; at most")
        s.stranger(role, patched(hello, LENGTH_AT, "<I", (1 << 20) + 8), "1048584 bytes; at most")
        s.stranger(role, bytes([0x16, 3, 1]) + noise(200), "requires a cluster key")
    s.stranger("coordinator", s.first_bytes("server"), "instead of a greeting")
    s.stranger("server", s.first_bytes("coordinator"), "instead of a greeting")
    expect_silent_refused(s, lines)
    s.finish()


def test_strangers_on_a_cluster_with_a_key(scene, data, tmp_path_factory):
    s = scene("cluster.key")
    lines = silent_ones(s)
    plain = struct.pack("<4sHHHHIIIQ", b"RBTO", 1, 32, 0, 0, 64, 0xffffffff, 0, 0) + bytes(64)
    for role in ROLES:
        s.stranger(role, noise(64), "does not have this cluster's key")
        s.stranger(role, plain, "does not have this cluster's key")
        s.stranger(role, s.first_bytes(role), "key")  # a replayed handshake
        folder = tmp_path_factory.mktemp("stranger")
        os.link(data / "train.svm", folder / "train.svm")
        for key, sentence in ((["--insecure"],
                               "the peer requires a cluster key, but this process has none"),
                              (["--key", data / "other.key"],
                               "the peer does not have this cluster's key")):
            before = len(s.refused(role))
            worker = Process(folder, "stranger", "worker", "--coordinator", s.address(role),
                             "--start-timeout", "20s", *key, "--", *TRAIN)
            assert worker.wait() == 1
            assert worker.error() == f"the coordinator at {s.address(role)}: {sentence}"
            wait_for(lambda before=before: len(s.refused(role)) > before, "a line in the log")
            assert "does not have this cluster's key" in s.refused(role)[-1]
    expect_silent_refused(s, lines)
    s.finish()


class Patcher(Relay):
    """A relay that makes everything that comes from the other side another version."""

    def _pass_on(self, end):
        other, record = self.peers[end]
        if record is None:
            piece = end.recv(1 << 16)
            try:
                other.sendall(piece.replace(MAGIC + struct.pack("<H", VERSION),
                                            MAGIC + struct.pack("<H", OTHER)))
            except OSError:
                piece = b""
            if not piece:
                self._drop(end)
            return
        super()._pass_on(end)


def test_a_process_of_another_version_is_told_so(data, tmp_path):
    os.link(data / "train.svm", tmp_path / "train.svm")
    with Cluster(tmp_path, servers=1) as cluster, \
            Patcher(lambda: cluster.address, keep=1) as relay:
        worker = cluster.start_worker(0, 1, *TRAIN, coordinator=relay.address)
        assert worker.wait() == 1
        assert worker.error() == (f"the coordinator at {relay.address}: the peer speaks version "
                                  f"{OTHER} of the protocol, this is version {VERSION}")


def test_a_key_for_a_cluster_without_one_is_refused(data, tmp_path):
    for name in ("train.svm", "other.key"):
        os.link(data / name, tmp_path / name)
    with Cluster(tmp_path, servers=1) as cluster:
        cluster.common = ["--key", "other.key"]
        worker = cluster.start_worker(0, 1, *TRAIN)
        assert worker.wait() == 1
        assert worker.error() == (f"the coordinator at {cluster.address}: the peer does not have "
                                  "this cluster's key")
        cluster.coordinator.says("refused a connection from .*: the peer requires a cluster key")
