"""What `make` builds, and what it says meanwhile."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from cluster import wait_for
from conftest import PROGRAM, ROOT, TIMEOUT_S, environment


def test_the_demo_builds_the_program_alone():
    """It was behind 171 test programs."""
    lines = subprocess.run(["make", "-n", "demo"], cwd=ROOT, env=environment(), text=True,
                           capture_output=True, check=True, timeout=TIMEOUT_S).stdout
    targets = re.search(r"^TARGETS=(\S+) tools/build$", lines, re.MULTILINE)
    assert targets, lines
    inputs = subprocess.run(["ninja", "-C", Path(PROGRAM).parent, "-t", "inputs",
                             targets.group(1)],
                            text=True, capture_output=True, check=True, timeout=TIMEOUT_S).stdout
    assert "src/cli/rubato.c" in inputs
    assert re.findall(r"\S*_test\S*|\S*test/\S*", inputs) == []


NINJA = """#!/bin/sh
printf '[2/310] Compiling this\\n[3/310] Compiling that\\n'
while [ ! -e "$GO" ]; do sleep 0.01; done
"""


def test_a_build_says_how_far_it_is(tmp_path):
    for name in ("tools", "bin", "build"):
        (tmp_path / name).mkdir()
    shutil.copy(ROOT / "tools/build", tmp_path / "tools/build")
    (tmp_path / "build/build.ninja").write_text("")  # it is configured
    (tmp_path / "bin/ninja").write_text(NINJA)
    (tmp_path / "bin/ninja").chmod(0o755)
    said = tmp_path / "said"
    with open(said, "wb") as file:
        process = subprocess.Popen(
            [tmp_path / "tools/build"], stderr=file, stdin=subprocess.DEVNULL,
            env=environment(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}", PROGRESS="0.01",
                            GO=str(tmp_path / "go")))
    try:
        wait_for(lambda: "\n" in said.read_text() or process.poll() is not None, "a line")
        assert said.read_text() == "building build: 3 of 310 steps\n"
    finally:
        (tmp_path / "go").touch()
        assert process.wait(TIMEOUT_S) == 0
