"""Parts of the data for whoever is idle (--assign dynamic): fast workers do more, every part is
done once, and what a worker cannot finish goes to another one; here, over processes, and simulated.
"""

import contextlib
import json
import os
import signal
import time

import pytest

from cluster import Process, children_of, events, wait_for

EXAMPLES = 4000
PARTS = 32
EPOCHS = 4
TRAIN = ["train", "linear", "--data", "train.svm", "--assign", "dynamic", "--parts", PARTS,
         "--epochs", EPOCHS, "--progress", "never", "--summary", "json"]


@pytest.fixture
def job(rubato):
    rubato.ok("gen", "sparse", "--examples", EXAMPLES, "--features", 200, "--nonzeros", 50, "--out",
              "train.svm")
    return rubato


def summary(text):
    return json.loads(text.splitlines()[-1])


def simulate(job, *words, cluster=()):
    return summary(job.ok("simulate", "--workers", 4, "--latency", "1us", *cluster, "--", *TRAIN,
                          *words))


@pytest.mark.parametrize("consistency", ["bsp", "ssp:2", "asp"])
@pytest.mark.parametrize("clocks", [1, 4])
def test_every_part_is_done_once(job, consistency, clocks):
    words = ["--consistency", consistency, "--clocks-per-epoch", clocks]
    for result in [summary(job.ok(*TRAIN, *words, "--workers", 3)),
                   summary(job.ok("run", "--workers", 3, "--servers", 2, "--", *TRAIN, *words)),
                   simulate(job, *words)]:
        assert sum(result["parts"]) == EPOCHS * PARTS
        assert result["parts_returned"] == 0
        assert result["examples"] == EPOCHS * EXAMPLES
        assert result["clocks"] == EPOCHS * clocks


@pytest.mark.parametrize("consistency", ["bsp", "asp"])
def test_fast_workers_do_more(job, consistency):
    """Two of four workers are half as fast; a part takes far longer than to ask for one."""
    words = ["--consistency", consistency, "--clocks-per-epoch", 1, "--parts", 2 * PARTS, "--data",
             *["train.svm"] * 8]
    result = simulate(job, *words, cluster=["--stragglers", "50%x2"])
    slow, fast = sorted(result["parts"])[:2], sorted(result["parts"])[2:]
    assert sum(slow + fast) == EPOCHS * 2 * PARTS
    assert 1.7 <= sum(fast) / sum(slow) <= 2.3
    again = simulate(job, *words, cluster=["--stragglers", "50%x2"])
    for name in ["parts", "digest", "virtual_seconds"]:  # time is virtual, and so is the order
        assert again[name] == result[name]


def test_what_a_very_slow_worker_has_is_dealt_again(job):
    result = simulate(job, "--consistency", "asp", cluster=["--stragglers", "25%x20000"])
    assert result["parts_returned"] > 0
    assert sum(result["parts"]) == EPOCHS * PARTS
    assert min(result["parts"]) < PARTS / 8


def stand_still(folder):
    """Runs a job one of whose workers stands still again and again, each time for longer than the
    others wait; says how many parts were dealt again. A worker that stands still between two parts
    has nothing to be dealt again, which is why once is not enough."""
    log = folder / "run.jsonl"
    job = Process(folder, "run", "run", "--workers", 3, "--servers", 1, "--", *TRAIN,
                  "--consistency", "asp", "--epochs", 100000, "--until", "12s",
                  "--parts", 6, "--log", log,
                  "--data", *["train.svm"] * 12)
    try:
        wait_for(lambda: len(events(log)) >= 4 or job.ends(), "the job to be under way")
        pid = children_of(job.pid)["worker/2"]
        with contextlib.suppress(ProcessLookupError):  # the job has ended
            while not job.ends():
                wait_for(lambda end=time.monotonic() + 1: time.monotonic() >= end or job.ends(),
                         "the worker to take parts again")
                os.kill(pid, signal.SIGSTOP)
                wait_for(lambda end=time.monotonic() + 1.5: time.monotonic() >= end,
                         "the others' patience to end")
                os.kill(pid, signal.SIGCONT)
        assert job.wait() == 0, job.err
    finally:
        job.stop()
    log.unlink()
    return job.summary()["parts_returned"]


def test_the_others_do_what_a_worker_that_stands_still_has(rubato):
    """A process that is lost for good ends the job, so that there is nothing to be dealt again."""
    rubato.ok("gen", "sparse", "--examples", 20000, "--features", 200, "--nonzeros", 50, "--out",
              "train.svm")
    assert any(stand_still(rubato.folder) > 0 for _ in range(3))


def test_quality_is_that_of_shares(job):
    words = [*TRAIN, "--workers", 2, "--epochs", 10, "--consistency", "bsp"]
    dynamic = summary(job.ok(*words))
    static = summary(job.ok(*words, "--parts", 0, "--assign", "static"))
    assert dynamic["objective"] < 1.02 * static["objective"]


@pytest.mark.parametrize("rule", ["adagrad", "ftrl", "dynsgd"])
def test_rules_work_with_it(job, rule):
    words = [*TRAIN, "--rule", rule, "--l2", "1e-4", "--workers", 2, "--consistency", "bsp"]
    result = summary(job.ok(*words))
    static = summary(job.ok(*words, "--parts", 0, "--assign", "static"))
    assert result["objective"] < 1.05 * static["objective"]
    assert result["examples"] == EPOCHS * EXAMPLES


@pytest.mark.parametrize("words, error", [
    (["--solver", "lbfgs"], '"--assign dynamic" excludes "--solver"'),
    (["--storage", "disk"],
     '"--assign dynamic" excludes "--storage and --memory-limit"'),
    (["--rebalance"], '"--assign dynamic" excludes "--rebalance"'),
    (["--rule", "adarev", "--bandwidth", "1MB"],
     '"--assign dynamic" excludes "--bandwidth"'),
    (["--assign", "static"], 'option "--parts" needs "--assign dynamic"'),
    (["--rule", "parts"], "it is for Rubato's own use, and not for parameters"),
])
def test_what_cannot_be_is_refused(job, words, error):
    result = job(*TRAIN, *words)
    assert result.returncode in (1, 2)
    assert error in result.stderr
    assert "Traceback" not in result.stderr
