"""Plots and info: logs that are whole, cut off, or no logs."""

import json
import shutil
import xml.etree.ElementTree as ElementTree

import pytest

from conftest import environment

EVENTS = [{"event": "start", "time": "2026-01-01T00:00:00Z", "version": "0.1.0",
           "argv": ["rubato", "train", "linear"], "config": {}},
          *({"event": "eval", "t": e / 2, "epoch": e, "clock": e, "examples": 100 * e,
             "objective": 0.3 + 0.4 / e, "eval": {"auc": 1 - 0.5 / e}, "lag_mean": 0.5,
             "lag_max": 2, "bytes": 1000 * e} for e in range(1, 9)),
          {"event": "end", "t": 4, "status": "ok", "summary": {}}]
LINES = [json.dumps(event) for event in EVENTS]


@pytest.fixture
def log(rubato):
    rubato.write("run <1>.jsonl", "\n".join(LINES) + "\n")
    rubato.write("cut.jsonl", "\n".join(LINES)[:-40])
    return rubato


def test_terminal_without_utf8_is_ascii(log):
    text = log.ok("plot", "run <1>.jsonl", "cut.jsonl", "--x", "epoch")
    assert text.isascii()
    assert "objective by epoch" in text and "run <1>" in text
    assert max(map(len, text.splitlines())) <= 80


def test_terminal_with_utf8_is_braille(log):
    text = log.ok("plot", "run <1>.jsonl", env=environment(LC_ALL="C.UTF-8", COLUMNS="60"))
    assert any("\u2800" < letter <= "\u28ff" for letter in text)
    assert max(map(len, text.splitlines())) <= 60
    assert "\033" not in text


def test_svg_is_xml_with_a_curve_per_run_and_value(log):
    runs = ["run <1>.jsonl", "cut.jsonl"]
    assert log.ok("plot", *runs, "--y", "objective,auc", "--out", "x.svg") == ""
    tree = ElementTree.parse(log.folder / "x.svg")
    space = "{http://www.w3.org/2000/svg}"
    assert len(tree.findall(f".//{space}polyline")) == 4
    texts = [element.text for element in tree.iter(f"{space}text")]
    assert "run <1>: auc" in texts and "cut: objective" in texts
    assert log.files() == ["cut.jsonl", "run <1>.jsonl", "x.svg"]


def test_any_bytes_in_a_title_give_xml_and_do_not_reach_the_terminal(log):
    odd = b"a\x01b\x1b[1m \x7f \xff \xc3 <&> \"q\" \xc2\x9b \xed\xa0\x80 \xef\xbf\xbf \xc3\xa9"
    title = odd.decode(errors="surrogateescape")
    log.ok("plot", "cut.jsonl", "--title", title, "--out", "x.svg")
    texts = [element.text for element in ElementTree.parse(log.folder / "x.svg").iter()]
    shown = 'a?b?[1m ? ? ? <&> "q" ?? ??? ??? \u00e9'
    assert shown in texts
    assert log.ok("plot", "cut.jsonl", "--title", title,
                  env=environment(LC_ALL="C.UTF-8")).splitlines()[0] == shown


def test_texts_of_a_log_do_not_reach_the_terminal_as_they_are(rubato):
    start = {**EVENTS[0], "argv": ["\x1b[2Jrubato"], "version": "\x07", "time": "\x1b]0;x"}
    rubato.write("odd.jsonl", "\n".join([json.dumps(start), *LINES[1:]]) + "\n")
    assert "\x1b" not in rubato.ok("info", "odd.jsonl")
    assert "\x07" not in rubato.ok("info", "odd.jsonl")
    rubato.write("\x1b[2J", "\n".join(LINES) + "\n")
    assert rubato.ok("info", "\x1b[2J").startswith("?[2J: the log of a run\n")


def test_png_comes_from_gnuplot(log):
    if shutil.which("gnuplot") is None:
        pytest.skip("gnuplot is not installed")
    log.ok("plot", "run <1>.jsonl", "--out", "x.png")
    assert (log.folder / "x.png").read_bytes().startswith(b"\x89PNG")


def test_png_without_gnuplot(log):
    result = log("plot", "cut.jsonl", "--out", "x.png", env=environment(PATH="/nowhere"))
    assert result.returncode == 1
    assert result.stderr == (
        'rubato: error: could not write "x.png": gnuplot is not installed\n'
        "rubato: hint: Install gnuplot, or choose a name that ends with .svg.\n")
    assert "x.png" not in log.files()


CASES = [
    ("hello\n", 'cannot read "x.jsonl", line 1: this is not a JSON object', None),
    (LINES[0] + "\n" + LINES[1] + "\n[1]\n",
     'cannot read "x.jsonl", line 3: this is not a JSON object', None),
    ('{"a":1}\n', 'cannot read "x.jsonl", line 1: this is not an event of a log', None),
    ("", 'cannot read "x.jsonl": it is empty', None),
    (LINES[0] + "\n", '"x.jsonl" has no evaluations to draw', None),
    ("\n".join(LINES).replace("objective", "object") + "\n",
     '"x.jsonl" has no values of "objective"',
     "It has t, epoch, clock, examples, objective, lag_mean, lag_max, bytes, auc."),
]


@pytest.mark.parametrize("content, error, hint", CASES)
def test_what_cannot_be_plotted(rubato, content, error, hint):
    rubato.write("x.jsonl", content)
    result = rubato("plot", "x.jsonl")
    assert result.stderr == (f"rubato: error: {error}\n" +
                             (f"rubato: hint: {hint}\n" if hint else ""))
    assert result.returncode == 1
    assert result.stdout == ""


def test_missing_log(rubato):
    result = rubato("plot", "absent.jsonl")
    assert (result.returncode, result.stderr) == (
        1, 'rubato: error: cannot read "absent.jsonl": there is no such file\n')


def test_info_of_a_log(log):
    assert "status       ok" in log.ok("info", "run <1>.jsonl")
    assert "the last line is cut off" in log.ok("info", "cut.jsonl")
    info = json.loads(log.ok("info", "run <1>.jsonl", "--summary", "json"))
    assert info["kind"] == "log" and info["evaluations"] == 8 and info["last"]["auc"] == 0.9375


def test_info_of_a_model(rubato, shelf):
    assert "rubato train linear" in rubato.ok("info", shelf / "linear.model")
    info = json.loads(rubato.ok("info", shelf / "mf.model", "--summary", "json"))
    assert info["kind"] == "model" and info["model"] == "mf"
