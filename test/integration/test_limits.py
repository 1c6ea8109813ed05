"""What the system allows little of: file sizes, stacks; and files that are none."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess

import pytest

from cluster import Process, wait_until_idle
from conftest import PROGRAM, TIMEOUT_S, environment

FILE_BYTES = 1024
STACK_BYTES = 64 * 1024
SANITIZED = "asan" in PROGRAM or "tsan" in PROGRAM


def word(number):
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}")


@pytest.fixture
def data(rubato):
    """Examples, a model and a log of more than FILE_BYTES."""
    rubato.ok("gen", "sparse", "--examples", 400, "--features", 200, "--nonzeros", 8,
              "--out", "d.svm")
    rubato.write("d.txt", "".join(f"{word(i)} {word(i % 7)} {word(i % 50)}\n" for i in range(300)))
    rubato.ok("train", "linear", "--data", "d.svm", "--epochs", 8, "--workers", 2, "--log",
              "run.jsonl", "--model", "a.model")
    assert all((rubato.folder / name).stat().st_size > FILE_BYTES
               for name in ("d.svm", "run.jsonl", "a.model"))
    return rubato


def run_limited(folder, what, bytes_allowed, words):
    """Runs the program with a limit and with outputs that are pipes, which have none."""
    return subprocess.run([PROGRAM, *words], cwd=folder, env=environment(), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          timeout=TIMEOUT_S,
                          preexec_fn=lambda: resource.setrlimit(what, (bytes_allowed,) * 2))


@pytest.mark.parametrize("words", [
    "gen sparse --examples 400 --out new",
    "train linear --data d.svm --epochs 2 --model new",
    "train lda --data d.txt --topics 4 --epochs 2 --model new",
    "export a.model --out new",
    "predict a.model --data d.svm --out new",
    "plot run.jsonl --out new.svg",
    "plot run.jsonl --out new.png",
    "simulate --trace new -- train linear --data d.svm --epochs 1",
])
def test_a_file_that_may_not_grow_is_named_and_leaves_nothing(data, words):
    if ".png" in words and shutil.which("gnuplot") is None:
        pytest.skip("gnuplot is not installed")
    before = data.files()
    result = run_limited(data.folder, resource.RLIMIT_FSIZE, FILE_BYTES, words.split())
    assert result.returncode == 1, result.stderr
    error = [line for line in result.stderr.splitlines() if line.startswith("rubato: error:")]
    assert len(error) == 1 and "File too large" in error[0], result.stderr
    assert "new" in error[0] or "predictions" in error[0]
    assert data.files() == before


def test_a_log_that_may_not_grow_ends_with_a_whole_line(data):
    words = "train linear --data d.svm --epochs 50 --log new.jsonl".split()
    result = run_limited(data.folder, resource.RLIMIT_FSIZE, 4096, words)
    assert result.returncode == 1
    assert 'could not write log "new.jsonl": File too large' in result.stderr
    text = (data.folder / "new.jsonl").read_text()
    assert text.endswith("}\n") and '"event":"eval"' in text
    assert "the last line is cut off" not in data.ok("info", "new.jsonl")


def test_data_kept_on_disk_may_not_grow(data):
    words = "train linear --data d.svm --epochs 1 --storage disk --cache .".split()
    result = run_limited(data.folder, resource.RLIMIT_FSIZE, FILE_BYTES, words)
    assert result.returncode == 1
    assert "could not keep data in" in result.stderr and "File too large" in result.stderr


@pytest.mark.skipif(SANITIZED, reason="sanitizers need stack")
@pytest.mark.parametrize("words", [
    "train linear --data d.svm --epochs 2 --workers 2",
    "train fm --data d.svm --epochs 1 --workers 2",
    "train kmeans --data d.svm --k 2 --epochs 1 --workers 2",
    "train lda --data d.txt --topics 4 --epochs 1 --workers 2",
    "simulate -- train linear --data d.svm --epochs 1",
    "run --servers 1 --workers 2 -- train linear --data d.svm --epochs 1",
    "eval a.model --data d.svm",
    "plot run.jsonl --out new.svg",
    "gen ratings --out new",
])
def test_a_small_stack_is_enough(data, words):
    result = run_limited(data.folder, resource.RLIMIT_STACK, STACK_BYTES, words.split())
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("make, kind", [(os.mkfifo, "a pipe"), (os.mkdir, "a directory")])
@pytest.mark.parametrize("words", [
    "info odd",
    "predict odd --data d.svm",
    "eval odd --data d.svm",
    "export odd --out new",
    "keygen --readers-of odd new",
    "coordinator --listen unix:c --key odd",
    "server --coordinator unix:c --key odd",
    "run --hosts odd --workers 2 -- train linear --data d.svm",
    "run --key odd --transport tcp --workers 2 -- train linear --data d.svm",
])
def test_models_keys_and_hosts_are_regular_files(data, words, make, kind):
    make(data.folder / "odd")
    before = data.files()
    result = data(*words.split())
    assert result.returncode == 1
    assert re.fullmatch(rf'rubato: error: .*"odd": it is {kind}, not a regular file\n',
                        result.stderr), result.stderr
    assert data.files() == before


def test_a_log_has_an_end(data):
    os.mkfifo(data.folder / "pipe")
    for path, why in (("pipe", "it is empty"), (".", "it is a directory, not a regular file"),
                      ("/dev/zero", "it is a device or a socket, not a regular file")):
        result = data("plot", path, "--out", "new.svg")
        assert result.returncode == 1
        assert result.stderr == f'rubato: error: cannot read "{path}": {why}\n'


def in_bash(folder, line):
    return subprocess.run(["bash", "-c", line], cwd=folder, env=environment(RUBATO=PROGRAM),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S)


def test_data_and_logs_may_come_through_a_pipe(data):
    def digest(line):
        result = in_bash(data.folder, f"$RUBATO {line} --epochs 2 --workers 2 --summary json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)["digest"]

    for more in ("--consistency bsp", "--storage disk --cache . --consistency bsp"):
        assert (digest(f"train linear {more} --data <(cat d.svm)") ==
                digest(f"train linear {more} --data d.svm"))
    assert in_bash(data.folder, "$RUBATO plot <(cat run.jsonl) --out new.svg").returncode == 0


@pytest.mark.parametrize("words", ["train linear --data", "train linear --storage disk --data",
                                   "train linear --data d.svm --eval", "predict m.model --data"])
def test_devices_are_no_data(data, words):
    data.ok(*"train linear --data d.svm --epochs 1 --model m.model".split())
    before = data.files()
    for device in ("/dev/zero", "/dev/null"):
        result = data(*words.split(), device)
        assert result.returncode == 1
        assert result.stderr == (f'rubato: error: cannot read "{device}": it is a device, not a '
                                 "file or a pipe\n")
    assert data.files() == before


@pytest.mark.parametrize("text", ["", "1 1:1\n"], ids=["nothing", "a part"])
def test_a_signal_ends_the_wait_for_a_pipe(data, text):
    os.mkfifo(data.folder / "pipe")
    process = Process(data.folder, "job", "train", "linear", "--data", "pipe", "--progress",
                      "never")
    writer = None
    try:
        if text:  # of a writer that says no more, and does not go
            writer = os.open(data.folder / "pipe", os.O_WRONLY)
            os.write(writer, text.encode())
        wait_until_idle([process.pid], data.folder / "none")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 1
        assert process.error() == "interrupted after 0 epochs"
    finally:
        process.stop()
        if writer is not None:
            os.close(writer)


def test_topics_on_disk_are_regular_files(data):
    data.write("bag.txt", "1\n5\n3\n1 1 1\n1 2 1\n1 3 1\n")
    (data.folder / "s").mkdir()
    os.mkfifo(data.folder / "s" / "topics.0")
    result = data(*"train lda --data bag.txt --topics 2 --workers 1 --state s".split())
    assert result.returncode == 1
    assert result.stderr == ('rubato: error: cannot read topics of "s/topics.0": it is a pipe, not '
                             "a regular file\n")


@pytest.mark.parametrize("option", ["--data d.svm --eval", "--data"])
def test_several_processes_do_not_share_a_pipe(data, option):
    result = in_bash(data.folder, f"$RUBATO run --workers 2 -- train linear {option} <(cat d.svm)")
    assert result.returncode == 2
    assert re.fullmatch(rf'rubato: error: several processes cannot share a pipe, '
                        rf'"{option.split()[-1]} /dev/fd/\d+"\n'
                        r"rubato: hint: Write the data to a file that all processes can read.\n",
                        result.stderr), result.stderr
