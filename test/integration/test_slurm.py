"""Jobs that Slurm's srun starts, on a cluster of one node that lives as long as the tests."""

import os
import signal
import subprocess
import tempfile

import pytest

from conftest import PROGRAM
from launched import (HOSTS, LONG, SKIP, TRAIN, Launched, digest, digest_alone, errors,
                      wait_until_empty)


@pytest.fixture(scope="module")
def slurm():
    """The cluster's settings."""
    with tempfile.TemporaryDirectory(prefix="rubato-slurm-") as folder:
        done = subprocess.run([HOSTS / "slurm", "up", folder], stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode == SKIP:
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stderr
        yield f"{folder}/slurm.conf"
        subprocess.run([HOSTS / "slurm", "down", folder], check=True)


@pytest.fixture
def srun(rubato, slurm, tmp_path_factory):
    """Starts a job in a folder; nothing may be left of it."""
    folder = tmp_path_factory.mktemp("tmp")
    jobs = []

    def start(*words, options=()):
        jobs.append(Launched(rubato.folder, "srun", "-n", 4, *options, PROGRAM, "run",
                             "--verbose", *words, TMPDIR=str(folder), SLURM_CONF=slurm))
        return jobs[-1]

    yield start
    assert [wait_until_empty(job.processes) for job in jobs] == [{}] * len(jobs)
    assert list(folder.iterdir()) == []


def test_same_bits_as_in_one_process(rubato, shelf, srun):
    code, messages, results = srun("--", *TRAIN, shelf / "train.svm", "--summary", "json").end()
    assert code == 0, messages
    assert errors(messages) == []
    assert digest(results) == digest_alone(rubato, shelf / "train.svm", 2)


def test_a_job_that_fails(srun):
    code, messages, results = srun("--", *TRAIN, "nothing.svm").end()
    assert code == 1
    assert results == ""
    assert 'cannot open "nothing.svm": No such file or directory' in messages


@pytest.mark.parametrize("options", [(), ("--kill-on-bad-exit=1",)], ids=["waits", "kills"])
@pytest.mark.parametrize("rank", range(4), ids=["coordinator", "server", "worker/0", "worker/1"])
def test_a_killed_rank_ends_the_job(shelf, srun, rank, options):
    """srun waits for the others, which must notice by themselves, or ends them."""
    job = srun("--timeout", "1s", "--", *TRAIN, shelf / "train.svm", *LONG, options=options)
    job.wait_for("job started")
    os.kill(job.rank("SLURM_PROCID", rank), signal.SIGKILL)
    code, messages, results = job.end()
    assert code != 0
    assert results == ""
    assert f"task {rank}: Killed" in messages
    if not options:
        name = ["the coordinator", "server/0", "worker/0", "worker/1"][rank]
        assert f"rubato: error: lost {name} " in messages
