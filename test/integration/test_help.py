"""Help: every page has its form, its options and their defaults; its own words are in test/golden.

An option is written once, in its table. A page is stored without the options, so that a new option
changes no stored page; what the options must be is checked by their properties. Those of `train`
are compared with the configuration that a run writes into its log, and every one must be named in
docs/. Rules and filters are written once, too: their pages are stored without them, and each must
be on its page of docs/. `GOLDEN=write pytest` writes the stored pages anew.
"""

import json
import os
import re

import pytest

from conftest import GOLDEN, ROOT, Rubato

ALGOS = ["linear", "svm", "lasso", "mf", "fm", "kmeans", "lda", "sketch"]
COMMANDS = [[], ["train"], *(["train", name] for name in ALGOS),
            ["simulate"], ["run"],
            ["coordinator"], ["server"], ["worker"], ["predict"], ["eval"], ["export"], ["gen"],
            ["gen", "sparse"], ["gen", "clicks"], ["gen", "ratings"], ["gen", "documents"],
            ["gen", "blobs"],
            ["gen", "stream"], ["plot"], ["bench"], ["bench", "ps"], ["bench", "net"],
            ["bench", "cost"], ["keygen"], ["info"]]
PAGES = pytest.mark.parametrize("command", COMMANDS,
                                ids=[" ".join(c) or "rubato" for c in COMMANDS])
TRAIN = pytest.mark.parametrize("algo", ALGOS)

COLUMN = 25  # where the text of an option begins
ENTRY = re.compile(r"  --(\[no-\])?([a-z0-9-]+)( \S.*?)?(?:  +(\S.*))?")
# References that lead nowhere, processes as persons, American spelling.
BANNED = re.compile(r"(?i)\b(whoever|somebody|everybody|nobody|so many|so much|as many|as much|"
                    r"the same|behavior|color|(?!(?:re)?size)\w+iz(e[ds]?|ing|ation))\b")
UNITS = {"k": 1000, "M": 1000 ** 2, "G": 1000 ** 3}


def options_of(text):
    """The options of a page, in order: name, value, text; and the page without them."""
    options, page = [], []
    for line in text.splitlines():
        if line.startswith("  --"):
            found = ENTRY.fullmatch(line)
            assert found, line
            if found[4]:
                assert found.start(4) == COLUMN, line
            options.append([found[2], (found[3] or "").strip(), found[4] or ""])
            if page[-1] != "  --...":
                page.append("  --...")
        elif page and page[-1] == "  --..." and line.startswith(" " * COLUMN):
            options[-1][2] += " " + line.strip()
        else:
            page.append(line)
    return [tuple(map(str.strip, option)) for option in options], "\n".join(page) + "\n"


def default_of(text):
    """What an option's text says of its default, without the unit; None if it says nothing."""
    found = re.search(r" ?\[([^\[\]]*)\]$", text)
    return found and found[1].split(" ")[0]


def is_equal(shown, value):
    """Whether a default as it is shown is the value that a run has."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        factor = UNITS.get(shown[-1], 1)
        return float(shown.rstrip("kMG")) * factor == value
    return shown == value


def compare(name, text):
    """Compares a text with the one that is stored under this name."""
    assert not BANNED.search(text)
    path = GOLDEN / f"help-{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@PAGES
def test_page(rubato, command):
    text = rubato.ok(*command, "--help")
    assert rubato.ok(*command, "-h") == text
    assert max(map(len, text.splitlines())) <= 80
    assert not BANNED.search(text)
    before, examples = text.split("\nExamples:\n")
    assert before.startswith("Usage: rubato " + " ".join(command))
    assert len([line for line in examples.splitlines() if line.startswith("  ")]) >= 2
    compare("-".join(command) or "rubato", options_of(text)[1])


@PAGES
def test_options_of_page(rubato, command):
    options = options_of(rubato.ok(*command, "--help"))[0]
    names = [name for name, _, _ in options]
    if command not in (["gen"], ["bench"]):  # whose kinds may share a name
        assert len(set(names)) == len(names)
    for name, value, text in options:
        words = re.sub(r"(^| )\[[^\[\]]*\]$", "", text)
        assert re.match(r"[A-Za-z\"0-9]", words), (name, text)
        assert words.endswith("."), (name, text)
        assert default_of(text) is None or value, (name, text)


@pytest.fixture(scope="module")
def configurations(tmp_path_factory):
    """What the log of a run of each algorithm says about its options."""
    run = Rubato(tmp_path_factory.mktemp("configurations"))
    run.write("d.svm", "1 1:1 2:1\n-1 2:1 3:2\n" * 8)
    run.write("r.csv", "1,1,3\n2,1,4\n1,2,5\n2,2,1\n" * 4)
    run.write("b.txt", "2\n3\n3\n1 1 2\n1 2 1\n2 3 4\n")
    run.write("k.txt", "1\n2\n2\n")
    data = {"mf": "r.csv", "lda": "b.txt", "sketch": "k.txt"}
    found = {}
    for algo in ALGOS:
        more = ["--topics", "4"] if algo == "lda" else ["--k", "2"] if algo == "kmeans" else []
        run.ok("train", algo, "--data", data.get(algo, "d.svm"), "--log", f"{algo}.jsonl", *more)
        start = json.loads((run.folder / f"{algo}.jsonl").read_text().splitlines()[0])
        given = {word[2:] for word in start["argv"] if word.startswith("--")}
        found[algo] = start["config"], given
    return found


@TRAIN
def test_options_of_training(rubato, configurations, algo):
    """Every option is on the page once, with the default that a run has."""
    config, given = configurations[algo]
    options = options_of(rubato.ok("train", algo, "--help"))[0]
    assert sorted(name for name, _, _ in options) == sorted(set(config) - {"algo"})
    for name, _, text in options:
        shown = default_of(text)
        if shown is not None and name not in given:
            assert is_equal(shown, config[name]), (name, text)
        elif name not in given:  # nothing is shown: none, off, or in the words of the help
            value = config[name]
            assert not value or value is True or "default" in text or "[no-]" in text or \
                isinstance(value, float), (name, text, value)


@TRAIN
def test_options_are_in_docs(rubato, algo):
    """Every option of `train` is named on a page of docs/."""
    pages = "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))
    options = options_of(rubato.ok("train", algo, "--help"))[0]
    missing = [name for name, _, _ in options
               if not re.search(rf"--(\[no-\]|no-)?{name}\b(?!-)", pages)]
    assert not missing


def policies_of(text, title):
    """What a page says of each policy, by name: lines; and the page without them."""
    policies, page, name = {}, [], None
    for line in text.splitlines():
        found = re.fullmatch(title, line)
        if found:
            name = found[1]
            assert name not in policies
            policies[name] = []
            if page[-2:] != ["...", ""]:
                page.append("...")
        elif name and line:
            policies[name].append(line)
        else:
            if name is None or page[-1] != "":
                page.append(line)
            name = None
    return policies, "\n".join(page) + "\n"


def check_policies(policies, page):
    """Whether each has its words, and its place in docs/; a policy's parameters come last."""
    docs = (ROOT / "docs" / page).read_text()
    assert len(policies) >= 10
    for name, lines in policies.items():
        assert len(lines) >= 2 and all(line.startswith("    ") for line in lines), name
        assert re.match(r"    [A-Z].*\w", lines[0]), (name, lines)
        assert re.search(rf"(\*\*|`){name}(\*\*|[`:\[])", docs), name


def test_help_about_rules(rubato):
    text = rubato.ok("train", "linear", "--rule", "help")
    assert rubato.ok("train", "mf", "--rule", "help") == text
    assert rubato.ok("simulate", "--workers", "2", "--", "train", "mf", "--rule", "help") == text
    assert rubato.ok("run", "--workers", "2", "--", "train", "mf", "--rule", "help") == text
    assert max(map(len, text.splitlines())) <= 80
    policies, page = policies_of(text, r"(\w+), takes (?:moves|gradients)")
    check_policies(policies, "rules.md")
    compare("rule", page)


def test_help_about_filters(rubato):
    text = rubato.ok("train", "linear", "--filter", "help")
    assert rubato.ok("train", "mf", "--filter", "help") == text
    assert rubato.ok("simulate", "--workers", "2", "--", "train", "mf", "--filter", "help") == text
    assert max(map(len, text.splitlines())) <= 80
    policies, page = policies_of(text, r"(\w+)\S*, (?:push|pull|push and pull)"
                                       r"(?:, (?:select|round|pack))?")
    check_policies(policies, "filters.md")
    compare("filter", page)


def test_help_about_priorities(rubato):
    text = rubato.ok("train", "mf", "--priority", "help")
    assert rubato.ok("simulate", "--", "train", "mf", "--priority", "help") == text
    assert max(map(len, text.splitlines())) <= 80
    compare("priority", text)


def test_help_by_name(rubato):
    assert rubato.ok("help") == rubato.ok("--help")
    assert rubato.ok("help", "plot") == rubato.ok("plot", "--help")
    assert rubato.ok("help", "train", "mf") == rubato.ok("train", "mf", "--help")


def test_version(rubato):
    assert rubato.ok("--version").startswith("rubato ")


def test_list_of_algorithms(rubato):
    names = [line.split()[0] for line in rubato.ok("train", "--list").splitlines()]
    assert {"linear", "mf"} <= set(names)
