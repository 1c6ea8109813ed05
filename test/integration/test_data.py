"""Wrong files: exit code 1, one error with file and line, nothing on standard output.

A row is (name, file, content, error, hint). Content None means that there is no such file; `F` in
the error stands for the file's name. The command that reads a table's files is in TABLES.
"""

import bz2
import gzip
import lzma
import os
import shutil
import subprocess

import pytest

GOOD = "".join(f"{1 if i % 2 else -1} {i % 7 + 1}:0.5 {i % 5 + 9}:1.25\n" for i in range(300))


def compressed_by_zstd(text):
    if shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    return subprocess.run(["zstd", "-q", "-c"], input=text.encode(), stdout=subprocess.PIPE,
                          check=True).stdout


LIBSVM = [
    ("empty file", "e.svm", "", 'cannot read "F": the file is empty', None),
    ("blank lines", "b.svm", "\n\n", 'cannot read "F": it has no examples', None),
    ("binary junk", "j.svm", bytes(range(256)) * 8, 'cannot read "F", line 1: it is not text',
     None),
    ("zero byte", "z.svm", b"1 1:1\n1 2:\x001\n", 'cannot read "F", line 2: it is not text',
     None),
    ("feature 0", "0.svm", "1 1:1\n1 0:1 2:1\n",
     'cannot read "F", line 2: feature 0; features start at 1',
     "use --zero-based if yours start at 0"),
    ("unsorted features", "u.svm", "1 1:1\n\n-1 23:1 17:1\n",
     'cannot read "F", line 3: feature 17 follows feature 23; features must increase', None),
    ("repeated feature", "r.svm", "1 17:1 17:2\n",
     'cannot read "F", line 1: feature 17 is given twice', None),
    ("NaN", "n.svm", "1 3:nan\n",
     'cannot read "F", line 1: feature 3 has the value "nan", which is not a finite number', None),
    ("infinity", "i.svm", "1 3:inf\n",
     'cannot read "F", line 1: feature 3 has the value "inf", which is not a finite number', None),
    ("value too large", "t.svm", "1 3:1e99\n",
     'cannot read "F", line 1: feature 3 has the value "1e99", which is too large', None),
    ("label no number", "l.svm", "x 1:1\n", 'cannot read "F", line 1: label "x" is not a number',
     None),
    ("no label", "m.svm", "1:1 2:2\n",
     'cannot read "F", line 1: the label is missing; the line begins with feature "1:1"', None),
    ("third label", "3.svm", "1 1:1\n2 1:1\n3 1:1\n",
     'cannot read "F", line 3: label 3; labels must be -1 and 1, 0 and 1, or 1 and 2',
     "For several classes use --loss softmax, for quantities --loss squared."),
    ("no value", "v.svm", "1 3:\n", 'cannot read "F", line 1: feature 3 has no value', None),
    ("no feature", "f.svm", "1 -3:1\n",
     'cannot read "F", line 1: "-3:1" is not a feature; features look like 17:0.5', None),
    ("feature beyond 64 bits", "k.svm", "1 18446744073709551616:1\n",
     'cannot read "F", line 1: feature "18446744073709551616:1" is above 18446744073709551615',
     None),
    ("query id", "q.svm", "1 qid:3 1:1\n",
     'cannot read "F", line 1: "qid:3" is a query id; ranking data is not supported', None),
    ("overlong line", "o.svm", b"1 1:1\n1 " + b"1" * (17 << 20) + b"\n",
     'cannot read "F", line 2: the line is longer than 16 MiB', None),
    ("no number before the colon", "p.svm", "1 :1\n",
     'cannot read "F", line 1: ":1" has no feature number before the colon', None),
    ("bzip2", "c.svm.bz2", bz2.compress(GOOD.encode()),
     'cannot read "F": bzip2 is not supported; use zstd, gzip or xz', None),
    ("truncated gzip", "c.svm.gz", gzip.compress(GOOD.encode())[:60],
     'cannot read "F": the compressed data ends early', None),
    ("truncated xz", "c.svm.xz", lzma.compress(GOOD.encode())[:60],
     'cannot read "F": the compressed data ends early', None),
    ("truncated zstd", "c.svm.zst", lambda: compressed_by_zstd(GOOD)[:60],
     'cannot read "F": the compressed data ends early', None),
    ("missing file", "absent.svm", None, 'cannot open "F": No such file or directory', None),
    ("glob without a match", "no*.match", None, 'cannot open "F": no file matches', None),
]

CSV = [
    ("ragged", "r.csv", "1,2,3\n4,5\n",
     'cannot read "F", line 2: 2 columns instead of 3 as in the first line',
     None),
    ("word", "w.csv", "1,2,1\n4,x,1\n",
     'cannot read "F", line 2: column 1 (from 0) holds "x", which is not a number',
     "use --categorical auto if columns hold text"),
    ("hole", "h.csv", "1,2,1\n4,,1\n", 'cannot read "F", line 2: column 1 (from 0) is empty', None),
    ("only a header", "o.csv", "a,b,label\n", 'cannot read "F": it has no examples', None),
]

RATINGS = [
    ("empty file", "e.csv", "", 'cannot read "F": the file is empty', None),
    ("no rating", "s.csv", "user,item,rating\n1,2\n",
     'cannot read "F", line 2: the rating is missing; a line is: user item rating', None),
    ("item no number", "w.csv", "1,2,3\n1,x,3\n",
     'cannot read "F", line 2: item "x" is not a whole number below 2^64', None),
    ("NaN", "n.csv", "1,2,nan\n", 'cannot read "F", line 1: rating "nan" is not a finite number',
     None),
]

TABLES = [(["train", "linear"], LIBSVM),
          (["train", "linear", "--format", "csv"], CSV),
          (["train", "mf", "--format", "ratings"], RATINGS)]
CASES = [(command, *row) for command, table in TABLES for row in table]


def check(result, error, hint):
    expected = f"rubato: error: {error}\n" + (f"rubato: hint: {hint}\n" if hint else "")
    assert result.stderr == expected
    assert result.returncode == 1
    assert result.stdout == ""


@pytest.mark.parametrize("command, name, content, error, hint",
                         [(case[0], *case[2:]) for case in CASES],
                         ids=[" ".join([*case[0][1:], case[1]]) for case in CASES])
def test_wrong_data(rubato, command, name, content, error, hint):
    if content is not None:
        rubato.write(name, content() if callable(content) else content)
    before = rubato.files()
    result = rubato(*command, "--data", name, "--model", "out.model", "--progress", "never")
    check(result, error.replace("F", name, 1), hint)
    assert rubato.files() == before


def test_a_folder_without_files(rubato):
    (rubato.folder / "hollow").mkdir()
    check(rubato("train", "linear", "--data", "hollow"),
          'cannot read "hollow": the directory has no files', None)


def test_wrong_evaluation_data(rubato):
    rubato.write("good.svm", GOOD)
    rubato.write("bad.svm", "1 0:1\n")
    check(rubato("train", "linear", "--data", "good.svm", "--eval", "bad.svm"),
          'cannot read "bad.svm", line 1: feature 0; features start at 1',
          "use --zero-based if yours start at 0")


@pytest.mark.parametrize("command", ["predict", "eval"])
@pytest.mark.parametrize("change, error", [
    (lambda model: model[:len(model) // 2], "it ends early"),
    (lambda model: model[:-9] + bytes([model[-9] ^ 1]) + model[-8:],
     "it is damaged (checksum differs)"),
    (lambda model: b"", "it is not a Rubato model"),
    (lambda model: b"1 1:1\n" * 40, "it is not a Rubato model"),
], ids=["cut in half", "one bit wrong", "empty", "text"])
def test_wrong_models(rubato, shelf, command, change, error):
    rubato.write("wrong.model", change((shelf / "linear.model").read_bytes()))
    check(rubato(command, "wrong.model", "--data", shelf / "train.svm"),
          f'cannot read model "wrong.model": {error}', None)


def test_models_that_are_no_files(rubato):
    check(rubato("predict", "absent.model", "--data", "x"),
          'cannot read model "absent.model": there is no such file', None)
    check(rubato("eval", ".", "--data", "x"),
          'cannot read model ".": it is a directory, not a regular file', None)


def test_a_model_of_the_wrong_type(rubato, shelf):
    rubato.write("test.svm", "-1 1:0.5\n")
    check(rubato("predict", shelf / "mf.model", "--data", "test.svm"),
          'cannot read "test.svm", line 1: user "-1" is not a whole number below 2^64', None)


OUTPUTS = [
    (["--model", "/nowhere/m"], 'could not write model "/nowhere/m": No such file or directory'),
    (["--model", "."], 'could not write model ".": Is a directory'),
    (["--model", "/dev/null"], 'could not write model "/dev/null": not a regular file'),
    (["--log", "/nowhere/l"], 'could not write log "/nowhere/l": No such file or directory'),
    (["--log", "."], 'could not write log ".": Is a directory'),
    (["--log", "/dev/full"], 'could not write log "/dev/full": No space left on device'),
]


@pytest.mark.parametrize("arguments, error", OUTPUTS, ids=[" ".join(row[0]) for row in OUTPUTS])
def test_outputs_that_cannot_be_written(rubato, arguments, error):
    rubato.write("train.svm", GOOD)
    check(rubato("train", "linear", "--data", "train.svm", *arguments), error, None)
    assert rubato.files() == ["train.svm"]


def test_predictions_that_cannot_be_written(rubato, shelf):
    arguments = ["predict", shelf / "linear.model", "--data", shelf / "train.svm", "--out"]
    check(rubato(*arguments, "/nowhere/x"),
          'could not write "/nowhere/x": No such file or directory', None)
    check(rubato(*arguments, "/dev/full"), "could not write predictions: No space left on device",
          None)


def test_a_full_standard_output(rubato, shelf):
    with open("/dev/full", "w", encoding="ascii") as full:
        result = rubato("info", shelf / "linear.jsonl", stdout=full)
    assert result.returncode == 1
    assert result.stderr == ("rubato: error: could not write to standard output: "
                             "No space left on device\n")


def test_a_full_disk_leaves_no_half_a_model(rubato, shelf):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a file system")
    disk = rubato.folder / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(disk)],
                           stderr=subprocess.PIPE, check=False)
    if mount.returncode != 0:
        pytest.skip("cannot mount a file system here")
    try:
        rubato.write("wide.svm", "".join(f"{i % 2} {i + 1}:1\n" for i in range(5000)))
        result = rubato("train", "linear", "--data", "wide.svm", "--model", "disk/m.model",
                        "--progress", "never")
        assert result.returncode == 1
        assert "No space left on device" in result.stderr
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
