"""What the tests of several hosts, of mpirun and of srun share: jobs that others have started."""

import json
import os
import subprocess
import time
from pathlib import Path

from conftest import PROGRAM, ROOT, TIMEOUT_S, environment

HOSTS = ROOT / "test/hosts"
SKIP = 77  # exit code of the scripts there
GONE_S = 30  # within which nothing may be left of a job
TRAIN = ["train", "linear", "--consistency", "bsp", "--progress", "never", "--data"]
LONG = ["--epochs", "1000000"]


class Launched:
    """A command that runs in a folder; what has come from it has a mark in its environment."""

    def __init__(self, folder, *words, **more):
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.process = subprocess.Popen(
            list(map(str, words)), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment(MARK_OF_TEST=self.mark, **more))
        self.messages = ""

    def wait_for(self, text):
        """Reads messages until one has the text."""
        for line in self.process.stderr:
            self.messages += line
            if text in line:
                return
        raise AssertionError(f"never said {text!r}: {self.messages}")

    def end(self):
        """Waits for the end; returns the exit code, the messages, and the results."""
        results, messages = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, self.messages + messages, results

    def processes(self):
        """The processes that are left, with their environment."""
        mark = f"MARK_OF_TEST={self.mark}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                settings = (entry / "environ").read_bytes().split(b"\0")
                if mark in settings:
                    found[int(entry.name)] = settings
            except OSError:
                continue
        return found

    def rank(self, name, number):
        """The process that has this rank, according to this variable."""
        return next(pid for pid, settings in self.processes().items()
                    if f"{name}={number}".encode() in settings
                    and os.readlink(f"/proc/{pid}/exe") == PROGRAM)


def wait_until_empty(look):
    """What is left after GONE_S at the latest."""
    deadline = time.monotonic() + GONE_S
    while look() and time.monotonic() < deadline:
        os.sched_yield()
    return look()


def errors(text):
    return [line for line in text.splitlines() if line.startswith("rubato: ")]


def digest(text):
    """The digest in a summary, which must be all there is."""
    assert len(text.splitlines()) == 1, text
    return json.loads(text)["digest"]


def digest_alone(rubato, data, workers):
    """What one process gives with so many workers."""
    return digest(rubato.ok(*TRAIN, data, "--workers", workers, "--summary", "json"))
