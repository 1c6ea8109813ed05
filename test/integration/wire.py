"""Rubato's protocol as an intruder would speak it: frames written by hand, see docs/wire.md."""

import socket
import struct

MAGIC = b"RBTO"
VERSION = 6
NEWS_BYTES = 32  # in front of what a shard answers
HEADER = struct.Struct("<4sHHHHIIIQ")
NOBODY = 0xffffffff
TRY_AGAIN = 2
HELLO, WELCOME, REFUSED, PUSH, LEAVE, TABLE, RESET, DONE = 1, 2, 3, 4, 5, 11, 12, 14
JOIN, PLAN, FAILED = 32, 33, 39


def padded(size):
    return -(-size // 8) * 8


def text(words):
    raw = str(words).encode() + b"\0"
    return raw.ljust(padded(len(raw)), b"\0")


def frame(kind, body=b"", worker=NOBODY, number=0):
    assert len(body) % 8 == 0
    return HEADER.pack(MAGIC, VERSION, kind, 0, 0, len(body), worker, 0, number) + body


def table(rule="", priority="", filters="", name="stolen", number=0):
    """TABLE: one dense table of floats that is added to."""
    fields = struct.pack("<8I2d3qIIQQ", number, 0, 0, 4, 0, 0, 0, 0, 0.0, 0.0, 0, -1, 0, 0, 0, 0,
                         1 << 20 if priority else 0)
    return fields + text(name) + text(rule) + text(priority) + text(filters)


class Line:
    """A connection of an intruder."""

    flags = 0  # of the last frame

    def __init__(self, address):
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(20)
            self.socket.connect(address[len("unix:"):])
        else:
            host, _, port = address.rpartition(":")
            self.socket = socket.create_connection((host, int(port)), timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *words, **more):
        self.socket.sendall(frame(*words, **more))

    def _read(self, size):
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the peer has closed the connection")
            data += piece
        return data

    def receive(self):
        """The kind and the body of the next frame."""
        _, _, kind, self.flags, _, length, _, _, _ = HEADER.unpack(self._read(HEADER.size))
        return kind, self._read(length)

    def is_cut(self):
        """Waits until the other side has hung up; what it says before is thrown away."""
        try:
            while self.socket.recv(1 << 12):
                pass
        except ConnectionError:
            pass
        except TimeoutError:
            return False
        return True


def sentence(body, at=0):
    return body[at:].split(b"\0", 1)[0].decode()


def join(space, workers, threads=None, token=0x1234567, role=1, index=-1, is_return=0,
         permit=bytes(16)):
    """JOIN of a process with some workers of a job."""
    fields = struct.pack("<QIIiIII", token, is_return, role, index, 1, workers,
                         workers if threads is None else threads)
    return fields + permit + bytes(16) + text(space) + text("intruder") + struct.pack("<Q", 0)


class plan:
    """What PLAN says."""

    def __init__(self, body):
        self.cluster, self.job = struct.unpack_from("<QQ", body)
        self.workers, = struct.unpack_from("<I", body, 32)
        self.secret = body[48:64]
        count, = struct.unpack_from("<Q", body, 64)
        self.shards = []
        at = 72
        for _ in range(count):
            self.shards.append(sentence(body, at))
            at += padded(len(self.shards[-1]) + 1)


def hello(plan, **more):
    """HELLO of the plan's first worker, or of another, or of another job."""
    flags = more.get("reader", 0)
    fields = struct.pack("<QQIIII", plan.cluster, more.get("job", plan.job), more.get("worker", 0),
                         more.get("workers", plan.workers), 0, flags)
    names = text(more.get("space", "other")) + text("intruder")
    return fields + more.get("secret", plan.secret) + names
