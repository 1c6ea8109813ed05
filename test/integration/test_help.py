"""Help: what is printed is compared with test/golden; `GOLDEN=write pytest` writes it anew."""

import os

import pytest

from conftest import GOLDEN

COMMANDS = [[], ["train"], ["train", "linear"], ["train", "lasso"], ["train", "mf"],
            ["train", "fm"], ["train", "kmeans"], ["train", "lda"], ["train", "sketch"],
            ["simulate"], ["run"],
            ["coordinator"], ["server"], ["worker"], ["predict"], ["eval"], ["export"], ["gen"],
            ["gen", "sparse"], ["gen", "clicks"], ["gen", "ratings"], ["gen", "documents"],
            ["gen", "blobs"],
            ["gen", "stream"], ["plot"], ["bench"], ["bench", "ps"], ["bench", "net"],
            ["bench", "cost"], ["keygen"], ["info"]]


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(c) or "rubato" for c in COMMANDS])
def test_help(rubato, command):
    text = rubato.ok(*command, "--help")
    assert rubato.ok(*command, "-h") == text
    assert max(map(len, text.splitlines())) <= 80
    before, examples = text.split("\nExamples:\n")
    assert before
    assert len([line for line in examples.splitlines() if line.startswith("  ")]) >= 2
    path = GOLDEN / ("help-" + ("-".join(command) or "rubato") + ".txt")
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_help_about_rules(rubato):
    text = rubato.ok("train", "linear", "--rule", "help")
    assert rubato.ok("train", "mf", "--rule", "help") == text
    assert rubato.ok("simulate", "--workers", "2", "--", "train", "mf", "--rule", "help") == text
    assert rubato.ok("run", "--workers", "2", "--", "train", "mf", "--rule", "help") == text
    assert max(map(len, text.splitlines())) <= 80
    path = GOLDEN / "help-rule.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_help_about_filters(rubato):
    text = rubato.ok("train", "linear", "--filter", "help")
    assert rubato.ok("train", "mf", "--filter", "help") == text
    assert rubato.ok("simulate", "--workers", "2", "--", "train", "mf", "--filter", "help") == text
    assert max(map(len, text.splitlines())) <= 80
    path = GOLDEN / "help-filter.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_help_about_priorities(rubato):
    text = rubato.ok("train", "mf", "--priority", "help")
    assert rubato.ok("simulate", "--", "train", "mf", "--priority", "help") == text
    assert max(map(len, text.splitlines())) <= 80
    path = GOLDEN / "help-priority.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_help_by_name(rubato):
    assert rubato.ok("help") == rubato.ok("--help")
    assert rubato.ok("help", "plot") == rubato.ok("plot", "--help")
    assert rubato.ok("help", "train", "mf") == rubato.ok("train", "mf", "--help")


def test_version(rubato):
    assert rubato.ok("--version").startswith("rubato ")


def test_list_of_algorithms(rubato):
    names = [line.split()[0] for line in rubato.ok("train", "--list").splitlines()]
    assert {"linear", "mf"} <= set(names)
