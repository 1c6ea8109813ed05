"""Jobs of several processes: the same bits as in one, and what happens when one of them is lost.

Other hosts are this one: in place of ssh a script runs the command in a session of its own.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import PROGRAM, TIMEOUT_S, environment

HELP = 'See "rubato run --help".'
EXAMPLE = "For example: rubato run --workers 4 -- train linear --data FILE."
BSP = ["--consistency", "bsp", "--summary", "json", "--progress", "never"]
LONG = ["--epochs", "1000000", "--progress", "never"]
GONE_S = 30  # within which nothing may be left of a job

FAKE_SSH = """#!/bin/sh
host=$1; shift
if [ "$host" = nowhere ]; then
    echo "ssh: connect to host nowhere port 22: No route to host" >&2
    exit 255
fi
cd /
exec 3<&0
setsid sh -c "$*" <&3 3<&- &
exec 3<&- </dev/null
wait $!
"""


class Job:
    """A job that runs: its launcher, and every process that has come from it."""

    def __init__(self, rubato, *words, **more):
        self.mark = f"MARK_OF_TEST={os.getpid()}-{time.monotonic_ns()}"
        self.folder = rubato.folder / "tmp"
        self.folder.mkdir(exist_ok=True)
        name, value = self.mark.split("=")
        self.process = subprocess.Popen(
            [PROGRAM, "run", "--verbose", *map(str, words)], cwd=rubato.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(TMPDIR=str(self.folder), **{name: value}, **more))
        self.messages = ""

    def wait_for(self, text):
        """Reads messages until one has the text."""
        for line in self.process.stderr:
            self.messages += line
            if text in line:
                return
        raise AssertionError(f"never said {text!r}: {self.messages}")

    def processes(self):
        """Numbers and command lines of all that are left."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and self.mark.encode() in (
                        entry / "environ").read_bytes().split(b"\0"):
                    words = (entry / "cmdline").read_bytes().decode().split("\0")
                    found[int(entry.name)] = words
            except OSError:
                continue
        return found

    def find(self, role, *more):
        """The number of the process with this role, such as "server", "--index=1"."""
        return next(pid for pid, words in self.processes().items()
                    if words[1:2] == [role] and set(more) <= set(words))

    def end(self):
        """Waits for the end; returns the exit code, the messages, and the results."""
        results, messages = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, self.messages + messages, results

    def assert_nothing_left(self):
        deadline = time.monotonic() + GONE_S
        while self.processes() and time.monotonic() < deadline:
            os.sched_yield()
        assert self.processes() == {}
        assert list(self.folder.iterdir()) == []


def errors(text):
    return [line for line in text.splitlines() if line.startswith("rubato: ")]


@pytest.fixture
def fake_ssh(rubato):
    path = rubato.write("fake-ssh", FAKE_SSH)
    path.chmod(0o755)
    return ["--ssh", path]


def digest(text):
    return json.loads(text.splitlines()[-1])["digest"]


@pytest.fixture(scope="module")
def digests(shelf):
    """What `rubato train` gives in one process with four workers."""
    def run(algo, data):
        done = subprocess.run([PROGRAM, "train", algo, "--data", shelf / data, "--workers", "4",
                               *BSP], env=environment(), stdout=subprocess.PIPE, check=True,
                              timeout=TIMEOUT_S, text=True)
        return digest(done.stdout)
    return {"linear": run("linear", "train.svm"), "mf": run("mf", "ratings.csv")}


@pytest.mark.parametrize("algo, data, cluster", [
    ("linear", "train.svm", ["--servers", "2"]),
    ("linear", "train.svm", ["--transport", "tcp"]),
    ("linear", "train.svm", ["--threads", "3", "--server-threads", "2"]),
    ("linear", "train.svm", ["--servers", "2", "--colocate"]),
    ("mf", "ratings.csv", ["--servers", "2", "--threads", "2"]),
    ("mf", "ratings.csv", ["--servers", "2", "--threads", "2", "--colocate", "--transport", "tcp"]),
])
def test_same_bits_as_in_one_process(rubato, shelf, digests, algo, data, cluster):
    job = Job(rubato, *cluster, "--workers", 4, "--", "train", algo, "--data", shelf / data, *BSP)
    code, messages, results = job.end()
    assert code == 0, messages
    assert errors(messages) == []
    assert digest(results) == digests[algo]
    job.assert_nothing_left()


@pytest.mark.parametrize("how", ["none", "zeros", "lz4", "zstd"])
def test_compression_changes_no_bit(rubato, shelf, digests, how):
    found = rubato.ok("run", "--servers", "2", "--workers", "4", "--transport", "tcp", "--compress",
                      how, "--", "train", "linear", "--data", shelf / "train.svm", *BSP)
    assert digest(found) == digests["linear"]


def test_staleness_costs_no_quality(rubato):
    """Over processes essp:2 ends where the embedded run does, within half a percent."""
    rubato.ok("gen", "sparse", "--examples", "4000", "--features", "500", "--out", "all.svm")
    lines = (rubato.folder / "all.svm").read_text().splitlines(keepends=True)
    (rubato.folder / "seen.svm").write_text("".join(lines[:3000]))
    (rubato.folder / "held.svm").write_text("".join(lines[3000:]))
    words = ["train", "linear", "--data", "seen.svm", "--eval", "held.svm", "--consistency",
             "essp:2", "--epochs", "20", "--summary", "json", "--progress", "never"]
    embedded = json.loads(rubato.ok(*words, "--workers", "4").splitlines()[-1])
    found = json.loads(rubato.ok("run", "--servers", "2", "--workers", "4", "--",
                                 *words).splitlines()[-1])
    assert found["examples"] == embedded["examples"]
    assert found["eval"]["logloss"] == pytest.approx(embedded["eval"]["logloss"], rel=0.005)


def test_other_hosts(rubato, shelf, digests, fake_ssh):
    rubato.write("hosts", "far address=127.0.0.1 slots=3\nlocalhost address=127.0.0.1\n")
    job = Job(rubato, *fake_ssh, "--hosts", "hosts", "--servers", 2, "--", "train", "linear",
              "--data", shelf / "train.svm", *BSP)
    code, messages, results = job.end()
    assert code == 0, messages
    assert digest(results) == digests["linear"]
    job.assert_nothing_left()


def test_a_host_that_does_not_answer(rubato, shelf, fake_ssh):
    rubato.write("hosts", "localhost address=127.0.0.1\nnowhere\n")
    job = Job(rubato, *fake_ssh, "--hosts", "hosts", "--", "train", "linear", "--data",
              shelf / "train.svm", *LONG)
    code, messages, _ = job.end()
    assert code == 1
    assert errors(messages)[0] == (
        'rubato: error: could not start worker/1 on host "nowhere": ssh: connect to host nowhere '
        "port 22: No route to host")
    job.assert_nothing_left()


@pytest.mark.parametrize("who", [["worker", "--index=0"], ["worker", "--index=1"],
                                 ["server", "--index=1"], ["coordinator"]],
                         ids=["worker/0", "worker/1", "server/1", "coordinator"])
@pytest.mark.parametrize("place", ["here", "far"])
def test_a_killed_process_ends_the_job(rubato, shelf, fake_ssh, who, place):
    rubato.write("hosts", "localhost\n" if place == "here" else "far address=127.0.0.1\n")
    job = Job(rubato, *fake_ssh, "--hosts", "hosts", "--servers", 2, "--workers", 3, "--", "train",
              "linear", "--data", shelf / "train.svm", *LONG)
    job.wait_for("job started")
    pid = job.find(*who)
    os.kill(pid, signal.SIGKILL)
    code, messages, results = job.end()
    name = who[0] + who[1].replace("--index=", "/") if len(who) > 1 else who[0]
    host = os.uname().nodename if place == "here" else "far"
    complaints = errors(messages)
    assert code == 1
    assert results == ""
    assert len(complaints) == 1
    assert complaints[0].startswith(
        f"rubato: error: lost {name} on {host} (pid {pid}): killed by signal 9 (SIGKILL)")
    job.assert_nothing_left()


def test_a_killed_launcher_takes_all_along(rubato, shelf, fake_ssh):
    rubato.write("hosts", "far address=127.0.0.1\nlocalhost address=127.0.0.1\n")
    job = Job(rubato, *fake_ssh, "--hosts", "hosts", "--servers", 2, "--workers", 2, "--", "train",
              "linear", "--data", shelf / "train.svm", *LONG)
    job.wait_for("job started")
    job.process.kill()
    job.end()
    job.assert_nothing_left()


def test_ctrl_c(rubato, shelf):
    job = Job(rubato, "--servers", 2, "--workers", 3, "--", "train", "linear", "--data",
              shelf / "train.svm", *LONG, "--model", "m", "--log", "log")
    job.wait_for("job started")
    job.process.send_signal(signal.SIGINT)
    code, messages, _ = job.end()
    assert code == 1
    assert len(errors(messages)) == 1
    assert errors(messages)[0].startswith("rubato: error: interrupted after ")
    assert not (rubato.folder / "m").exists()
    job.assert_nothing_left()


def test_a_complaint_of_all_is_said_once(rubato):
    job = Job(rubato, "--workers", 3, "--", "train", "linear", "--data", "nothing.svm")
    code, messages, _ = job.end()
    assert code == 1
    assert len(errors(messages)) == 1
    assert errors(messages)[0].endswith('cannot open "nothing.svm": No such file or directory')
    job.assert_nothing_left()


def test_a_program_finds_its_place_in_the_environment(rubato):
    script = 'echo "I am $RUBATO_INDEX of $RUBATO_WORKERS at $RUBATO_COORDINATOR"; sleep 600 & wait'
    killer = f'[ $RUBATO_INDEX = 1 ] && {{ echo going; exit 3; }}; {script}'
    job = Job(rubato, "--workers", 2, "--", "sh", "-c", killer)
    code, messages, results = job.end()
    assert code == 1
    assert "I am 1" not in results
    assert "[worker/1] going\n" in messages
    assert errors(messages)[0].endswith(": exit status 3; its last line was: going")
    job.assert_nothing_left()


def test_the_servers_of_a_program_run_beside_it(rubato, shelf):
    """A program has no server inside; with --colocate they are on its hosts."""
    program = Path(PROGRAM).parent / "examples" / "lr"
    job = Job(rubato, "--workers", 2, "--servers", 2, "--colocate", "--", program,
              shelf / "train.svm")
    code, messages, results = job.end()
    assert code == 0, messages
    assert "the final model" in results
    assert "joined node=server/1" in messages
    job.assert_nothing_left()


def test_a_command_that_needs_no_cluster(rubato):
    code, messages, _ = Job(rubato, "--workers", 2, "--", "eval", "model.rbt").end()
    assert code == 2
    assert errors(messages)[0] == (
        'rubato: error: only "train" and programs of your own run on a cluster, got "eval"')


def test_a_program_that_is_not_there(rubato):
    job = Job(rubato, "--workers", 2, "--", "./nothing")
    code, messages, _ = job.end()
    assert code == 1
    assert errors(messages) == [
        'rubato: error: could not run "./nothing": No such file or directory']
    job.assert_nothing_left()


@pytest.mark.parametrize("ranks", ["srun", "mpirun"])
def test_ranks_take_roles(rubato, shelf, ranks):
    """Four processes that a launcher started: a coordinator, a server, two worker processes."""
    tmp = rubato.folder / "tmp"
    tmp.mkdir()
    processes = []
    for rank in range(4):
        where = {"SLURM_PROCID": rank, "SLURM_NTASKS": 4, "SLURM_STEP_ID": 0, "SLURM_JOB_ID": 7,
                 "SLURM_STEP_NUM_NODES": 1} if ranks == "srun" else {
                     "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 4,
                     "OMPI_COMM_WORLD_LOCAL_SIZE": 4, "PMIX_NAMESPACE": "prte@1"}
        processes.append(subprocess.Popen(
            [PROGRAM, "run", "--", "train", "linear", "--data", shelf / "train.svm", *BSP],
            env=environment(TMPDIR=str(tmp), **{k: str(v) for k, v in where.items()}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    done = [process.communicate(timeout=TIMEOUT_S) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, done
    alone = rubato.ok("train", "linear", "--data", shelf / "train.svm", "--workers", 2, *BSP)
    assert [out for out, _ in done[:2] + done[3:]] == [""] * 3
    assert digest(done[2][0]) == digest(alone)
    assert list(tmp.iterdir()) == []


@pytest.mark.parametrize("words, error, hint", [
    ([], 'the command to run is missing after "--"', EXAMPLE),
    (["train", "linear"], 'the command to run is missing after "--"', EXAMPLE),
    (["--workers", "0", "--", "x"],
     'option "--workers" needs a whole number from 1 to 1024, got "0"',
     f"Workers of the job; by default one per core, or per slot of the hosts. {HELP}"),
    (["--", "train", "linear", "--stalness", "3"],
     'unrecognised option "--stalness" for "rubato train linear"',
     'See "rubato train linear --help".'),
    (["--", "train", "linear", "--data", "x", "--hosts", "h"],
     'unrecognised option "--hosts" for "rubato train linear"',
     '"--hosts" describes the cluster and belongs before "--".'),
    (["--workers", "2", "--", "train", "linear", "--data", "x", "--workers", "2"],
     'option "--workers" is given to "run" and to "train"', 'Remove it after "--".'),
    (["--", "train", "linear"], 'option "--data" is missing',
     "Name the training data: rubato train linear --data FILE."),
    (["--", "train", "linear", "--data", "-"],
     'several processes cannot share standard input, "--data -"',
     "Write the data to a file that all processes can read."),
    (["--hosts", "hosts", "--", "x"],
     'cannot use "hosts", line 2: slots needs a whole number from 1 to 1024, got "slots=0"',
     'A line is HOST [slots=N] [address=IP]; "#" starts a comment.'),
    (["--hosts", "mixed", "--", "x"], 'other hosts cannot connect to the name "localhost"',
     'Add address=IP to its line in the file of hosts, or give "--listen IP".'),
])
def test_wrong_usage(rubato, words, error, hint):
    rubato.write("hosts", "a\nb slots=0\n")
    rubato.write("mixed", "localhost\nfar\n")
    result = rubato("run", *words)
    assert result.returncode == 2
    assert result.stdout == ""
    assert errors(result.stderr) == [f"rubato: error: {error}", f"rubato: hint: {hint}"]


@pytest.mark.parametrize("words, error", [
    (["coordinator"], 'option "--listen" is missing'),
    (["server"], 'option "--coordinator" is missing'),
    (["server", "--coordinator", "192.0.2.1:7000"],
     'option "--listen" is missing, and the coordinator "192.0.2.1:7000" is not on this host'),
    (["worker", "--coordinator", "unix:/x"], 'the command to run is missing after "--"'),
    (["worker", "--", "x"], 'option "--coordinator" is missing'),
    (["worker", "--coordinator", "unix:/x", "--threads", "2", "--", "x"],
     'option "--threads" is 2, but the job has only 1 workers'),
])
def test_wrong_roles(rubato, words, error):
    result = rubato(*words)
    assert result.returncode == 2
    assert errors(result.stderr)[0] == f"rubato: error: {error}"
