"""Clusters of real processes for the tests of faults: what they print, who is there, who is left.

Nothing here sleeps for a fixed time: wait_for() looks until something is so.
"""

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

from conftest import PROGRAM, environment

PATIENCE_S = 120  # for what should happen soon, on a machine that is busy


def wait_for(condition, what, seconds=PATIENCE_S, progress=lambda: None):
    """Waits until the condition holds, and returns its value. Patience begins anew whenever
    `progress` has another value: what is only slow on a busy machine does not hang."""
    end = time.monotonic() + seconds
    seen = progress()
    while True:
        value = condition()
        if value:
            return value
        now = progress()
        if now != seen:
            seen, end = now, time.monotonic() + seconds
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.003)


def read(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def stat_of(pid):
    """The fields of /proc/PID/stat behind the name; empty if the process is gone."""
    return read(f"/proc/{pid}/stat").rpartition(")")[2].split()


def is_gone(pid):
    fields = stat_of(pid)
    return not fields or fields[0] == "Z"


def group_of(pid):
    """Processes, but for zombies, of the group that the process leads."""
    found = []
    for entry in os.listdir("/proc"):
        fields = stat_of(entry) if entry.isdigit() else []
        if fields and fields[0] != "Z" and int(fields[2]) == pid:
            found.append(int(entry))
    return found


def children_of(pid):
    """The launcher's children by name: {"worker/1": pid}."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in read(task).split():
            words = read(f"/proc/{child}/cmdline").split("\0")
            if len(words) > 2 and words[1] in ("coordinator", "server", "worker"):
                index = [w.split("=")[1] for w in words if w.startswith("--index=")]
                found["/".join([words[1], *index])] = int(child)
    return found


def sleeps(pid):
    """Whether every thread of the process waits for something."""
    states = [read(t).rpartition(")")[2].split() for t in Path(f"/proc/{pid}/task").glob("*/stat")]
    return bool(states) and all(s and s[0] in "ST" for s in states)


def run_time(pid):
    fields = stat_of(pid)
    return int(fields[11]) + int(fields[12]) if fields else 0


def wait_until_idle(pids, log):
    """Waits until the processes wait, and have done nothing for some looks."""
    quiet = 0
    before = None

    def looks_idle():
        nonlocal quiet, before
        now = [read(log), [run_time(pid) for pid in pids]]
        quiet = quiet + 1 if now == before and all(map(sleeps, pids)) else 0
        before = now
        return quiet >= 20

    wait_for(looks_idle, "processes that wait")


def events(path):
    """The events of a run's log; a last line that is not whole is left out."""
    text = read(path)
    return [json.loads(line) for line in text.split("\n")[:-1] if line]


def size_of(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class Log:
    """A run's log, which is read again only when it has grown: what reading takes, the relays that
    run in this process do not get."""

    def __init__(self, path):
        self.path = path
        self.size = 0
        self.kept = []

    def events(self):
        size = size_of(self.path)
        if size != self.size:
            self.size, self.kept = size, events(self.path)
        return self.kept


class HeldLog:
    """A run's log as a pipe that is smaller than the log. The job goes on until the pipe is full,
    and to its end once it is released: it is under way when a test looks, however late."""

    PIPE_BYTES = 4096

    def __init__(self, path):
        self.path = path
        self.text = b""
        self.thread = None
        os.mkfifo(path)
        self.pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.pipe, fcntl.F_SETPIPE_SZ, self.PIPE_BYTES)

    def waiting(self):
        """How many bytes of the log nobody has read."""
        return struct.unpack("i", fcntl.ioctl(self.pipe, termios.FIONREAD, bytes(4)))[0]

    def wait(self, job):
        """Waits until the job has begun to train; it cannot have ended then."""
        wait_for(lambda: self.waiting() > self.PIPE_BYTES / 2 or job.ends(), "the job")
        assert not job.ends(), job.err

    def take(self, size):
        """Reads at most so much of it, and says whether there was any: the job may go on as far."""
        try:
            part = os.read(self.pipe, size)
        except BlockingIOError:
            part = b""
        self.text += part
        return part != b""

    def release(self):
        os.set_blocking(self.pipe, True)
        self.thread = threading.Thread(target=self.drain, daemon=True)
        self.thread.start()

    def drain(self):
        while part := os.read(self.pipe, 1 << 16):  # ends when the job has closed it
            self.text += part

    def count(self):
        return self.text.count(b"\n")

    def close(self):
        """To be called when the job is gone. A file takes the place of the pipe."""
        if self.thread is not None:
            self.thread.join()
        os.close(self.pipe)
        os.unlink(self.path)
        Path(self.path).write_bytes(self.text)


def check_log(path):
    """No half-written line."""
    text = read(path)
    assert text == "" or text.endswith("\n"), "the log ends in the middle of a line"
    events(path)


def errors_of(text):
    return [line for line in text.splitlines() if re.search(r"rubato: error: ", line)]


class Process:
    """One command, its output in files, its pid as a group of its own."""

    def __init__(self, folder, name, *words, **more):
        self.name = name
        self.words = list(map(str, words))
        self.out_path = folder / (name.replace("/", "-") + ".out")
        self.err_path = folder / (name.replace("/", "-") + ".err")
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.process = subprocess.Popen(
                [more.pop("program", PROGRAM), *self.words], cwd=folder,
                env=environment(TMPDIR=str(folder), **more), stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, start_new_session=True)
        self.pid = self.process.pid
        self.code = None

    @property
    def out(self):
        return read(self.out_path)

    @property
    def err(self):
        return read(self.err_path)

    def wait(self, seconds=PATIENCE_S):
        try:
            self.code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError(f"{self.name} still ran after {seconds} s\n{self.err}") from None
        return self.code

    def ends(self):
        return self.process.poll() is not None

    def says(self, pattern, seconds=PATIENCE_S):
        """Waits for a line on standard error, and returns the match."""
        def look():
            match = re.search(pattern, self.err)
            assert match or not self.ends() or re.search(pattern, self.err), \
                f"{self.name} ended without {pattern!r}:\n{self.err}"
            return match
        return wait_for(look, f"{pattern!r} of {self.name}", seconds)

    def stop(self):
        """Ends it and its group, however it is."""
        for pid in group_of(self.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.code = self.process.wait()

    def digest(self):
        return json.loads(self.out.strip().splitlines()[-1])["digest"]

    def summary(self):
        return json.loads(self.out.strip().splitlines()[-1])

    def error(self):
        """The one sentence that it ended with."""
        lines = errors_of(self.err)
        assert len(lines) == 1, self.err
        return lines[0].partition("error: ")[2]


class Cluster:
    """A coordinator, servers and jobs, started by hand over TCP; used in a `with`."""

    def __init__(self, folder, servers=2, key=None, timeout="10s", once=True, **more):
        self.folder = folder
        self.processes = []
        self.common = ["--timeout", timeout, *(["--key", key] if key else ["--insecure"])]
        self.plugin = ["--plugin", more["plugin"]] if "plugin" in more else []
        self.start_timeout = ["--start-timeout", more.get("start_timeout", "30s")]
        self.server_count = servers
        self.coordinator = self.start("coordinator", "coordinator", "--listen",
                                      more.get("listen", "127.0.0.1:0"), "--servers", servers,
                                      *(["--once"] if once else []))
        self.address = self.coordinator.says(r"listening on (\S+)").group(1)
        self.servers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.stop()

    def start(self, name, *words, **more):
        dashes = list(words).index("--") if "--" in words else len(words)
        line = [*words[:dashes], *self.common, *self.start_timeout, *words[dashes:]]
        process = Process(self.folder, name, *line, **more)
        self.processes.append(process)
        return process

    def start_server(self, index=None, advertise=None, coordinator=None):
        number = len(self.servers)
        server = self.start(f"server/{number}", "server", "--listen", "127.0.0.1:0",
                            "--coordinator", coordinator or self.address, "--index",
                            number if index is None else index, *self.plugin,
                            *(["--advertise", advertise] if advertise else []))
        self.servers.append(server)
        return server

    def server_address(self, index):
        return self.servers[index].says(r"listening address=(\S+)").group(1)

    def start_servers(self):
        for _ in range(self.server_count):
            self.start_server()
        return self

    def start_worker(self, index, workers, *job, coordinator=None, space="main", name=None,
                     **more):
        return self.start(name or f"worker/{index}", "worker", "--coordinator",
                          coordinator or self.address, "--index", index, "--workers", workers,
                          "--namespace", space, "--", *job, **more)

    def start_job(self, workers, *job, coordinator=None, space="main"):
        return [self.start_worker(i, workers, *job, coordinator=coordinator, space=space,
                                  name=f"{space}-worker/{i}") for i in range(workers)]
