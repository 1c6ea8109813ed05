"""`rubato export`: models as other programs read them."""

import math

import pytest


def read_libmf(text):
    """A LIBMF model: users and items by number, and what unknown ones get."""
    lines = text.splitlines()
    head = dict(line.split() for line in lines[:5])
    rows = {}
    for line in lines[5:]:
        name, is_known, *values = line.split()
        assert len(values) == int(head["k"])
        if is_known == "T":
            rows[name] = [float(value) for value in values]
    assert len(lines) == 5 + int(head["m"]) + int(head["n"])
    return rows, float(head["b"])


def test_libmf_predicts_the_same(rubato, shelf):
    rows, mean = read_libmf(rubato.ok("export", shelf / "mf.model", "--format", "libmf"))
    ratings = [line.split(",")[:2] for line in (shelf / "ratings.csv").read_text().splitlines()[1:]]
    found = rubato.ok("predict", shelf / "mf.model", "--data", shelf / "ratings.csv").split()
    assert len(found) == len(ratings) and any(f"p{user}" in rows for user, _ in ratings)
    for (user, item), score in zip(ratings, found):
        p, q = rows[f"p{user}"], rows[f"q{item}"]
        assert sum(a * b for a, b in zip(p, q)) == pytest.approx(float(score), rel=1e-5, abs=1e-5)
    assert 1 < mean < 5


def read_liblinear(text):
    """A liblinear model: labels, and the weights of each feature from 1, the bias last."""
    lines = text.splitlines()
    head = dict(line.split(maxsplit=1) for line in lines[:lines.index("w")])
    rows = [[float(number) for number in line.split()] for line in lines[lines.index("w") + 1:]]
    assert len(rows) == int(head["nr_feature"]) + (head["bias"] == "1")
    return head["label"].split(), rows


def test_liblinear_predicts_the_same(rubato, shelf):
    labels, rows = read_liblinear(rubato.ok("export", shelf / "linear.model"))
    found = rubato.ok("predict", shelf / "linear.model", "--data", shelf / "train.svm").split()
    for line, score in zip((shelf / "train.svm").read_text().splitlines(), found):
        pairs = [pair.split(":") for pair in line.split()[1:]]
        margin = sum(rows[int(key) - 1][0] * float(value) for key, value in pairs
                     if int(key) < len(rows)) + rows[-1][0]
        assert 1 / (1 + math.exp(-margin)) == pytest.approx(float(score), rel=1e-4)
    assert labels == ["1", "-1"]


def test_out_is_the_same_file(rubato, shelf):
    text = rubato.ok("export", shelf / "mf.model")
    rubato.ok("export", shelf / "mf.model", "--out", "factors.txt")
    assert (rubato.folder / "factors.txt").read_text() == text


@pytest.mark.parametrize("words, message, hint, code", [
    ([], "the model file is missing",
     "Name the model first: rubato export MODEL --format NAME.", 2),
    (["mf.model", "--format", "tea"], 'models of "mf" have no format "tea"',
     'There is "libmf".', 2),
    (["absent.model"], 'cannot read model "absent.model": there is no such file', None, 1),
    (["mf.model", "--out", "mf.model"],
     'option "--out" would overwrite the data in "mf.model"', None, 2),
])
def test_wrong_orders(rubato, shelf, words, message, hint, code):
    (rubato.folder / "mf.model").write_bytes((shelf / "mf.model").read_bytes())
    before = (rubato.folder / "mf.model").read_bytes()
    result = rubato("export", *words)
    lines = [f"rubato: error: {message}"] + ([f"rubato: hint: {hint}"] if hint else [])
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.splitlines() == lines
    assert (rubato.folder / "mf.model").read_bytes() == before
