"""Jobs that Open MPI's mpirun starts: every rank takes its role by itself."""

import os
import shutil
import signal

import pytest

from conftest import PROGRAM
from launched import LONG, TRAIN, Launched, digest, digest_alone, errors, wait_until_empty

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None,
                                reason="mpirun is missing (tools/deps cluster)")


@pytest.fixture
def mpirun(rubato, tmp_path_factory):
    """Starts a job in a folder; nothing may be left of it."""
    # Sockets need a short name, and root needs permission.
    folder = tmp_path_factory.mktemp("tmp")
    jobs = []

    def start(*words):
        jobs.append(Launched(rubato.folder, "mpirun", "--oversubscribe", "-n", 4, PROGRAM, "run",
                             "--verbose", *words, TMPDIR=str(folder), OMPI_ALLOW_RUN_AS_ROOT="1",
                             OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        return jobs[-1]

    yield start
    assert [wait_until_empty(job.processes) for job in jobs] == [{}] * len(jobs)
    assert list(folder.glob("rubato*")) == []


def test_same_bits_as_in_one_process(rubato, shelf, mpirun):
    code, messages, results = mpirun("--", *TRAIN, shelf / "train.svm", "--summary", "json").end()
    assert code == 0, messages
    assert errors(messages) == []
    assert digest(results) == digest_alone(rubato, shelf / "train.svm", 2)


def test_servers_and_workers_as_wished(rubato, shelf, mpirun):
    code, messages, results = mpirun("--threads", 3, "--", *TRAIN, shelf / "train.svm",
                                     "--summary", "json").end()
    assert code == 0, messages
    assert digest(results) == digest_alone(rubato, shelf / "train.svm", 6)


def test_a_job_that_fails(mpirun):
    code, messages, results = mpirun("--", *TRAIN, "nothing.svm").end()
    assert code == 1
    assert results == ""
    assert 'cannot open "nothing.svm": No such file or directory' in messages


def test_too_many_workers(shelf, mpirun):
    code, messages, _ = mpirun("--workers", 3, "--", *TRAIN, shelf / "train.svm").end()
    assert code == 2
    assert ("rubato: error: 3 workers with 1 per process need 3 processes, but only 2 remain "
            "besides the coordinator and the servers") in errors(messages)


@pytest.mark.parametrize("rank", range(4), ids=["coordinator", "server", "worker/0", "worker/1"])
def test_a_killed_rank_ends_the_job(shelf, mpirun, rank):
    job = mpirun("--", *TRAIN, shelf / "train.svm", *LONG)
    job.wait_for("job started")
    os.kill(job.rank("OMPI_COMM_WORLD_RANK", rank), signal.SIGKILL)
    code, messages, results = job.end()
    assert code != 0
    assert results == ""
    assert f"process rank {rank}" in messages
