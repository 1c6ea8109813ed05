"""What the integration tests share: the program, a folder of its own per test, small data files.

The program is $RUBATO, or build/rubato. Tests run it in an empty folder, without the user's
RUBATO_* variables and in the C locale, so that what it prints depends on nothing else.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = os.path.abspath(os.environ.get("RUBATO") or ROOT / "build/rubato")
GOLDEN = ROOT / "test/golden"
TIMEOUT_S = 300  # only what hangs takes so long, on a machine that is busy, too


def slowness():
    """How many times as long as on an idle machine things may take now."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def environment(**more):
    """The environment of the program: ours, without what could change its output."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("RUBATO", "LC_", "LANG", "COLUMNS", "NO_COLOR"))}
    return {**clean, "LC_ALL": "C", **more}


def read(path):
    """The text of a file of /proc, or nothing: the process may be gone, or not ours."""
    try:
        return Path(path).read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return ""


def standing(pid):
    """Where the process and those that it has started wait: a line for each thread."""
    lines = [f"{pid}: {read(f'/proc/{pid}/cmdline')}"]
    children = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        state = read(task / "stat").rpartition(")")[2].split()[:1]
        lines.append(f"  {read(task / 'comm')} {state} {read(task / 'wchan')}: "
                     f"{read(task / 'syscall')}")
        children += read(task / "children").split()
    return "\n".join(lines + [standing(child) for child in children])


class Rubato:
    """Runs the program in one folder."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, *words, env=None, stdin=None, stdout=subprocess.PIPE):
        with subprocess.Popen([PROGRAM, *map(str, words)], cwd=self.folder,
                              env=env or environment(), stdin=subprocess.PIPE, stdout=stdout,
                              stderr=subprocess.PIPE, text=True, errors="replace") as process:
            try:
                out, err = process.communicate(stdin or "", timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired as late:
                where = standing(process.pid)
                process.kill()
                raise AssertionError(f"{late}\n{where}") from late
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def ok(self, *words, **more):
        """Runs it, expects success, and returns what it printed to standard output."""
        result = self(*words, **more)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def start(self, *words):
        """Starts it and returns the process."""
        return subprocess.Popen([PROGRAM, *map(str, words)], cwd=self.folder, env=environment(),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def write(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def rubato(tmp_path):
    return Rubato(tmp_path)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A folder with data and models that many tests read and none changes."""
    run = Rubato(tmp_path_factory.mktemp("shelf"))
    run.ok("gen", "sparse", "--examples", "400", "--features", "50", "--nonzeros", "8", "--out",
           "train.svm")
    run.ok("gen", "ratings", "--users", "40", "--items", "30", "--ratings", "500", "--out",
           "ratings.csv")
    quiet = ["--progress", "never", "--workers", "2"]
    run.ok("train", "linear", "--data", "train.svm", "--eval", "train.svm", "--model",
           "linear.model", "--log", "linear.jsonl", *quiet)
    run.ok("train", "mf", "--data", "ratings.csv", "--model", "mf.model", *quiet)
    return run.folder
