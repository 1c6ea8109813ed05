"""Data that does not fit a model or an algorithm: what is said instead of plausible numbers."""

import pytest

QUIET = ["--progress", "never"]


def table(columns, label="last", separator=","):
    """Forty rows; the label is the last of the columns, or missing."""
    rows = []
    for i in range(40):
        cells = [str(i * (k + 3) % 7 + 1) for k in range(columns - (label == "last"))]
        rows.append(separator.join(cells + ([str(i % 2)] if label == "last" else [])))
    return "\n".join(rows) + "\n"


LIBSVM = "1 1:1 2:2\n0 1:2 3:1\n" * 20
TRAININGS = [["linear"], ["linear", "--loss", "squared"], ["linear", "--loss", "softmax"],
             ["linear", "--storage", "disk"], ["linear", "--skip", "0"],
             ["fm"], ["kmeans", "--k", "2", "--labelled"]]


def refuse(rubato, *words):
    result = rubato(*words)
    assert result.returncode == 1 and result.stdout == "", result
    return result.stderr


@pytest.mark.parametrize("words", TRAININGS, ids=" ".join)
@pytest.mark.parametrize("command", ["predict", "eval"])
def test_data_has_the_columns_of_the_training_data(rubato, words, command):
    rubato.write("five.csv", table(5))
    rubato.write("three.csv", table(3))
    rubato.write("four.csv", table(4, label="missing"))
    rubato.write("f.svm", LIBSVM)
    rubato.ok("train", *words, "--data", "five.csv", "--model", "m", "--epochs", "2", *QUIET)
    wanted = rubato.ok(command, "m", "--data", "five.csv")
    error = refuse(rubato, command, "m", "--data", "three.csv")
    assert 'cannot read "three.csv", line 1: 3 columns instead of 5 as in training' in error
    assert ("hint" in error) == ("--skip" in words)  # it may lack the label and what is skipped
    if command == "predict" or "kmeans" in words:  # nobody looks at the label
        assert rubato.ok(command, "m", "--data", "four.csv") == wanted
    else:
        error = refuse(rubato, command, "m", "--data", "four.csv")
        assert 'cannot read "four.csv", line 1: 4 columns instead of 5 as in training' in error
        assert "hint: " in error and "label's" in error
    error = refuse(rubato, command, "m", "--data", "f.svm")
    assert error == ('rubato: error: cannot read "f.svm": it is LIBSVM data, but training was on '
                     "CSV data with 5 columns\n")


def test_clusters_have_the_columns_of_the_training_data(rubato):
    rubato.write("five.csv", table(5))
    rubato.write("four.csv", table(4))
    rubato.ok("train", "kmeans", "--k", "2", "--data", "five.csv", "--model", "m", *QUIET)
    for command in "predict", "eval":
        assert refuse(rubato, command, "m", "--data", "four.csv") == (
            'rubato: error: cannot read "four.csv", line 1: 4 columns instead of 5 as in '
            "training\n")
    error = refuse(rubato, "train", "kmeans", "--k", "2", "--data", "five.csv", "--eval",
                   "four.csv", *QUIET)
    assert "4 columns instead of 5 as in training" in error


@pytest.mark.parametrize("words", [["linear"], ["fm"], ["kmeans", "--k", "2"]], ids=" ".join)
def test_a_model_of_libsvm_data_refuses_tables(rubato, words):
    rubato.write("f.svm", LIBSVM)
    rubato.write("four.csv", table(4))
    rubato.ok("train", *words, "--data", "f.svm", "--model", "m", *QUIET)
    assert len(rubato.ok("predict", "m", "--data", "f.svm").split()) == 40
    for command in "predict", "eval":
        error = refuse(rubato, command, "m", "--data", "four.csv")
        assert 'cannot read "four.csv": it is a table, but training was on LIBSVM data\n' in error


@pytest.mark.parametrize("words, hint", [
    (["linear"], "use --categorical auto if columns hold text"),
    (["fm"], "use --categorical auto if columns hold text"),
    (["kmeans", "--k", "2"], "use --categorical auto if columns hold text"),
], ids=["linear", "fm", "kmeans"])
def test_hints_about_text_name_options_that_exist(rubato, words, hint):
    rubato.write("t.csv", "1,2,1\n1,a b c ,0\n")
    assert refuse(rubato, "train", *words, "--data", "t.csv", *QUIET) == (
        'rubato: error: cannot read "t.csv", line 2: column 1 (from 0) holds "a b c", which '
        f"is not a number\nrubato: hint: {hint}\n")


def test_predictions_have_no_option_about_text(rubato):
    rubato.write("f.svm", LIBSVM)
    rubato.write("t.csv", "1,2,1\n1,x,0\n")
    rubato.ok("train", "linear", "--data", "f.svm", "--model", "m", *QUIET)
    assert "--categorical" not in refuse(rubato, "predict", "m", "--data", "t.csv")


def test_a_long_cell_is_cut(rubato):
    rubato.write("t.csv", "1,2,1\n1," + "x y " * 30 + ",0\n")
    assert 'holds "' + "x y " * 10 + '...", which' in refuse(
        rubato, "train", "linear", "--data", "t.csv", *QUIET)


LOSSES = "For several classes use --loss softmax, for quantities --loss squared"
COLUMN = "; --label-column names the label's column if it is not the last"


@pytest.mark.parametrize("algo, name, content, hint", [
    ("linear", "l.svm", "0 1:1\n1 1:1\n2 1:1\n", LOSSES),
    ("linear", "l.csv", "1,2,0\n1,2,1\n1,3,452600\n", LOSSES + COLUMN),
    ("fm", "l.csv", "1,2,0\n1,2,1\n1,3,452600\n", "For quantities use --loss squared" + COLUMN),
])
def test_labels_of_other_losses(rubato, algo, name, content, hint):
    rubato.write(name, content)
    error = refuse(rubato, "train", algo, "--data", name, *QUIET)
    assert "line 3: label " in error and error.endswith(f"rubato: hint: {hint}.\n")


def test_labels_of_an_evaluation_get_no_hint_about_training(rubato):
    rubato.write("f.svm", LIBSVM)
    rubato.write("l.svm", "0 1:1\n1 1:1\n2 1:1\n")
    rubato.ok("train", "linear", "--data", "f.svm", "--model", "m", *QUIET)
    assert "hint" not in refuse(rubato, "eval", "m", "--data", "l.svm")


@pytest.mark.parametrize("words, what", [
    (["linear", "--loss", "hinge"], "a model with the hinge loss"),
    (["linear", "--loss", "squared"], "a model with the squared loss"),
    (["fm", "--loss", "squared"], "a model with the squared loss"),
    (["kmeans", "--k", "2"], 'a model of "kmeans"'),
    (["mf", "--rank", "2", "--format", "ratings"], 'a model of "mf"'),
    (["sketch"], 'a model of "sketch"'),
    (["linear"], None), (["fm"], None), (["linear", "--loss", "softmax"], None),
], ids=lambda words: " ".join(words) if isinstance(words, list) else "")
def test_probabilities_where_there_are_some(rubato, words, what):
    name = {"mf": "d.csv", "sketch": "d.txt"}.get(words[0], "d.svm")
    rubato.write("d.svm", LIBSVM)
    rubato.write("d.csv", "1,1,3\n1,2,4\n2,1,5\n2,2,1\n")
    rubato.write("d.txt", "1\n2\n1\n")
    rubato.ok("train", *words, "--data", name, "--model", "m", *QUIET)
    asked = ["predict", "m", "--data", name, "--probabilities"]
    if what is None:
        values = [float(word) for word in rubato.ok(*asked).split()]
        assert len(values) >= 40 and all(0 <= value <= 1 for value in values)
    else:
        result = rubato(*asked)
        assert result.returncode == 2 and result.stdout == ""
        assert f'"m" has no probabilities: it is {what}\n' in result.stderr


def test_hashes_of_categories_are_no_numbers_of_liblinear(rubato):
    rubato.write("t.csv", "red,1,1\nblue,2,0\n" * 10)
    rubato.ok("train", "linear", "--data", "t.csv", "--categorical", "auto", "--model", "m",
              *QUIET)
    result = rubato("export", "m", "--format", "liblinear", "--out", "o")
    assert result.returncode != 0 and "o" not in rubato.files()
    assert ("the model's features are hashes of categories, which liblinear's format cannot hold"
            in result.stderr and "Train with --dictionary" in result.stderr)


@pytest.mark.parametrize("words", [
    ["linear"], ["svm"], ["lasso"], ["linear", "--loss", "softmax"], ["fm"],
    ["kmeans", "--k", "2", "--labelled"],
], ids=" ".join)
@pytest.mark.parametrize("extra", [[], ["--categorical", "1"]], ids=["numbers", "texts"])
def test_predictions_do_not_look_at_labels(rubato, words, extra):
    rows = [f"{i % 7},{i * 5 % 11}" for i in range(40)]
    rubato.write("t.csv", "a,b,kind\n" + "".join(f"{r},{i % 2}\n" for i, r in enumerate(rows)))
    rubato.ok("train", *words, *extra, "--data", "t.csv", "--model", "m", *QUIET)
    wanted = rubato.ok("predict", "m", "--data", "t.csv")
    assert len(wanted.split()) == 40
    for label in ["", "?", "NA", "spam", '"a, b"']:
        rubato.write("new.csv", "a,b,kind\n" + "".join(f"{r},{label}\n" for r in rows))
        assert rubato.ok("predict", "m", "--data", "new.csv") == wanted
        rubato.write("bare.csv", "".join(f"{r},{label}\n" for r in rows))
        assert rubato.ok("predict", "m", "--data", "bare.csv") == wanted
    rubato.write("short.csv", "a,b\n" + "".join(f"{r}\n" for r in rows))
    assert rubato.ok("predict", "m", "--data", "short.csv") == wanted


@pytest.mark.parametrize("words, hint", [
    (["linear"], "Name the positive label with --positive"),
    (["fm"], "Name the positive label with --positive"),
    (["lasso"], "Quantities are numbers"),
], ids=["linear", "fm", "lasso"])
@pytest.mark.parametrize("extra", [[], ["--categorical", "auto"]], ids=["numbers", "texts"])
def test_a_label_that_is_text_gets_a_hint_that_helps(rubato, words, hint, extra):
    rubato.write("t.csv", "a,b,kind\n1,2,yes\n3,4,no\n")
    message = refuse(rubato, "train", *words, *extra, "--data", "t.csv", *QUIET)
    assert 'column 2 ("kind")' in message and '"yes", which is not a number' in message
    assert f"hint: {hint}; if another column is the label, name it with --label-column." in message
