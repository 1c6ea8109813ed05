"""Columns that have names: found by them in other files, whatever their order is."""

import pytest

QUIET = ["--progress", "never"]
ROWS = [(f"{i % 7}", ["red", "blue", "green"][i * 5 % 3], f"{i * 3 % 11 * 100}", f"{i % 7 // 4}")
        for i in range(60)]
NAMES = ("size", "colour", "price", "good")
TEXTS = ["--categorical", "colour"]
PLAIN = [0, 2, 3]  # columns of numbers
TRAININGS = [["linear"], ["linear", "--loss", "softmax"], ["fm"], ["kmeans", "--k", "3"],
             ["kmeans", "--k", "3", "--labelled"]]


def table(columns, header=True, rows=ROWS, names=NAMES):
    lines = [",".join(names[c] for c in columns)] if header else []
    return "\n".join(lines + [",".join(row[c] for c in columns) for row in rows]) + "\n"


def train(rubato, words, columns):
    rubato.write("train.csv", table(columns))
    rubato.ok("train", *words, *(TEXTS if 1 in columns else []), "--data", "train.csv", "--model",
              "m", "--epochs", "20", "--workers", "1", *QUIET)
    return rubato.ok("predict", "m", "--data", "train.csv")


@pytest.mark.parametrize("columns", [[0, 1, 2, 3], PLAIN], ids=["texts", "numbers"])
@pytest.mark.parametrize("words", TRAININGS, ids=" ".join)
def test_columns_are_found_by_their_names(rubato, words, columns):
    wanted = train(rubato, words, columns)
    assert len(set(wanted.split())) > 1
    rubato.write("other.csv", table(columns[::-1]))
    assert rubato.ok("predict", "m", "--data", "other.csv") == wanted
    assert (rubato.ok("eval", "m", "--data", "other.csv") ==
            rubato.ok("eval", "m", "--data", "train.csv"))
    rubato.write("bare.csv", table(columns, header=False))
    assert rubato.ok("predict", "m", "--data", "bare.csv") == wanted


@pytest.mark.parametrize("columns", [[0, 1, 2, 3], PLAIN], ids=["texts", "numbers"])
@pytest.mark.parametrize("words", [["linear"], ["fm"], ["kmeans", "--k", "3", "--labelled"]],
                         ids=" ".join)
def test_the_label_may_be_absent_from_predictions(rubato, words, columns):
    wanted = train(rubato, words, columns)
    for header in True, False:
        rubato.write("new.csv", table(columns[:-1], header))
        assert rubato.ok("predict", "m", "--data", "new.csv") == wanted
    if words[0] != "kmeans":
        result = rubato("eval", "m", "--data", "new.csv")
        assert result.returncode == 1 and "instead of" in result.stderr
        rubato.write("new.csv", table(columns[:-1]))
        result = rubato("eval", "m", "--data", "new.csv")
        assert result.returncode == 1 and 'no column "good" for the label' in result.stderr


@pytest.mark.parametrize("columns", [[0, 1, 2, 3], PLAIN], ids=["texts", "numbers"])
def test_columns_may_be_missing_or_too_many(rubato, columns):
    wanted = train(rubato, ["linear"], columns)
    rubato.write("short.csv", table(columns[1:]))
    for command in "predict", "eval":
        result = rubato(command, "m", "--data", "short.csv")
        assert result.returncode == 1 and result.stdout == ""
        assert ('cannot read "short.csv", line 1: there is no column "size", which the training '
                "data has\n") in result.stderr
    wide = [(*row, "x", "9") for row in ROWS]
    rubato.write("wide.csv", table([4, 5, *columns], rows=wide, names=(*NAMES, "id", "age")))
    result = rubato("predict", "m", "--data", "wide.csv")
    assert result.stdout == wanted
    assert result.stderr == ('rubato: note: column "id" and 1 more of "wide.csv" are not in the '
                             "training data and are ignored\n")
    rubato.write("twice.csv", table([0, *columns]))
    result = rubato("predict", "m", "--data", "twice.csv")
    assert result.returncode == 1 and 'there are two columns "size"' in result.stderr


def test_files_of_a_training_are_matched_too(rubato):
    rubato.write("a.csv", table([0, 1, 2, 3], rows=ROWS[:30]))
    rubato.write("b.csv", table([3, 2, 0, 1], rows=ROWS[30:]))
    rubato.write("all.csv", table([0, 1, 2, 3]))
    words = ["--workers", "1", "--epochs", "2", *TEXTS, *QUIET]
    rubato.ok("train", "linear", "--data", "a.csv", "--data", "b.csv", "--eval", "b.csv",
              "--model", "m", *words)
    rubato.ok("train", "linear", "--data", "all.csv", "--model", "n", *words)
    assert (rubato.ok("predict", "m", "--data", "all.csv") ==
            rubato.ok("predict", "n", "--data", "all.csv"))
    rubato.write("c.csv", table([0, 1, 2, 3]).replace("price", "cost"))
    result = rubato("train", "linear", "--data", "a.csv", "--data", "c.csv", *words)
    assert result.returncode == 1 and 'there is no column "price"' in result.stderr


@pytest.mark.parametrize("columns", [[3, 0, 1, 2], [3, 0, 2]], ids=["texts", "numbers"])
@pytest.mark.parametrize("words", [["linear"], ["fm"], ["kmeans", "--k", "3", "--labelled"]],
                         ids=" ".join)
def test_the_label_has_a_name(rubato, words, columns):
    rubato.write("train.csv", table(columns))
    words = ["train", *words, *(TEXTS if 1 in columns else []), "--data", "train.csv", "--workers",
             "1", "--epochs", "3", *QUIET]
    rubato.ok(*words, "--label-column", "good", "--model", "m")
    rubato.ok(*words, "--label-column", "0", "--model", "n")
    wanted = rubato.ok("predict", "m", "--data", "train.csv")
    assert rubato.ok("predict", "n", "--data", "train.csv") == wanted
    rubato.write("other.csv", table(columns[::-1]).replace("good", "nice"))
    result = rubato("predict", "m", "--data", "other.csv")
    assert result.stdout == wanted and 'column "nice"' in result.stderr
    figures = rubato.ok("eval", "m", "--data", "train.csv")
    assert rubato.ok("eval", "m", "--data", "other.csv", "--label-column", "nice") == figures
    result = rubato(*words, "--label-column", "godo")
    assert result.returncode == 2 and 'there is no column "godo" for the label' in result.stderr


def test_info_shows_the_names(rubato):
    train(rubato, ["linear"], [0, 1, 2, 3])
    text = rubato.ok("info", "m")
    assert "the label is column 3, good" in text
    assert "size, colour, price, good" in text


@pytest.mark.parametrize("text, count", [
    ("1,2,yes\n3,4,no\n5,6,yes\n", 3),  # a label is text
    ("?,red,yes\n1,blue,no\n2,red,yes\n", 3),  # something is missing
    ("nan,red,yes\n1,blue,no\n2,red,yes\n", 3),
    ("large,red,yes\n1,blue,no\n2,red,yes\n", 3),  # texts that come again
    ("red,yes\nblue,no\nred,yes\nblue,no\n", 4),  # nothing but texts
    ("colour,good\nred,yes\nblue,no\nred,yes\nblue,no\n", 4),
    ("1e5,red,yes\n1,blue,no\n", 2),
], ids=range(7))
def test_a_first_line_of_data_is_not_dropped(rubato, text, count):
    rubato.write("t.csv", text)
    rubato.ok("train", "linear", "--data", "t.csv", "--categorical", "auto", "--positive", "yes",
              "--model", "m", *QUIET)
    assert len(rubato.ok("predict", "m", "--data", "t.csv").split()) == count


@pytest.mark.parametrize("line, word", [("inf,2,1", "inf"), ("nan,nan,nan", "nan"),
                                        ("1,x,0", "x"), ("1,2,yes", "yes")])
def test_a_first_line_with_a_mistake_is_refused(rubato, line, word):
    rubato.write("t.csv", f"{line}\n1,2,1\n3,4,0\n")
    result = rubato("train", "linear", "--data", "t.csv", *QUIET)
    assert result.returncode == 1 and "line 1: column" in result.stderr
    assert f'holds "{word}", which is not a number' in result.stderr


def kinds(label=("setosa", "versicolor", "virginica"), header=True):
    lines = ["length,width,kind"] if header else []
    return "\n".join(lines + [f"{1 + i % 3 * 2 + i % 5 / 10},{i % 4 + i % 3},{label[i % 3]}"
                              for i in range(90)]) + "\n"


@pytest.mark.parametrize("words", [[], ["--categorical", "auto"]], ids=["numbers", "texts"])
@pytest.mark.parametrize("header", [True, False])
def test_classes_may_be_texts(rubato, words, header):
    rubato.write("k.csv", kinds(header=header))
    rubato.write("n.csv", kinds((0, 1, 2), header))
    figures = []
    for name in "k", "n":
        rubato.ok("train", "linear", "--loss", "softmax", "--data", f"{name}.csv", "--eval",
                  f"{name}.csv", "--epochs", "99", "--workers", "1", "--l2", "0", "--model", name,
                  *words, *QUIET)
        figures.append(rubato.ok("eval", name, "--data", f"{name}.csv"))
    assert figures[0] == figures[1] and "accuracy   1\n" in figures[0]
    assert rubato.ok("predict", "k", "--data", "k.csv").split() == [
        "setosa", "versicolor", "virginica"] * 30
    assert rubato.ok("predict", "n", "--data", "k.csv").split() == ["0", "1", "2"] * 30
    assert len(rubato.ok("predict", "k", "--data", "k.csv", "--probabilities").split()) == 270
    assert "classes      setosa, versicolor, virginica\n" in rubato.ok("info", "k")
    assert "label 0 1 2\n" in rubato.ok("export", "k") + rubato.ok("export", "n")
    rubato.write("rose.csv", kinds(("setosa", "rose", "virginica"), header))
    result = rubato("eval", "k", "--data", "rose.csv")
    assert result.returncode == 1
    assert 'the label "rose" does not occur in the training data\n' in result.stderr


def test_numbers_that_are_classes_stay_numbers(rubato):
    rubato.write("k.csv", kinds(("10", "9.0", "-3")))
    rubato.ok("train", "linear", "--loss", "softmax", "--data", "k.csv", "--epochs", "30",
              "--workers", "1", "--model", "m", *QUIET)
    assert rubato.ok("predict", "m", "--data", "k.csv").split() == ["10", "9", "-3"] * 30
    rubato.write("same.csv", kinds(("1e1", "9", "-3.0")))
    assert (rubato.ok("eval", "m", "--data", "same.csv") ==
            rubato.ok("eval", "m", "--data", "k.csv"))


@pytest.mark.parametrize("label, message", [("", "line 1: the label in column 2 (from 0) is mis"),
                                            ("x" * 300, "is too long")])
def test_labels_that_cannot_be_classes_are_refused(rubato, label, message):
    rubato.write("k.csv", f"1,2,{label}\n" + kinds(header=False))
    result = rubato("train", "linear", "--loss", "softmax", "--data", "k.csv", *QUIET)
    assert result.returncode == 1 and message in result.stderr


def test_quantities_are_no_classes(rubato):
    rubato.write("q.csv", "".join(f"{i % 7},{i / 10}\n" for i in range(5000)))
    result = rubato("train", "linear", "--loss", "softmax", "--data", "q.csv", *QUIET)
    assert result.returncode == 1 and "more than 4096 different labels" in result.stderr
    assert "use --loss squared" in result.stderr


def test_exports_have_names(rubato):
    colours = ["red", 'dark "blue"']
    rubato.write("t.csv", 'size,"the, colour",good\n' + "".join(
        f"{i % 7},{colours[i % 2]},{i % 2}\n" for i in range(40)))
    words = ["--data", "t.csv", "--categorical", "1", "--model", "m", *QUIET]
    rubato.ok("train", "linear", "--dictionary", *words)
    lines = rubato.ok("export", "m", "--format", "csv").splitlines()
    assert [line.rsplit(",", 1)[0] for line in lines] == [
        "feature", "(bias)", "size", '"the, colour=red"', '"the, colour=dark ""blue"""']
    rubato.ok("train", "kmeans", "--k", "2", "--skip", "good", *words)
    assert rubato.ok("export", "m").startswith("cluster,size,size,")
    rubato.write("k.csv", kinds())
    rubato.ok("train", "linear", "--loss", "softmax", "--data", "k.csv", "--model", "m", *QUIET)
    lines = rubato.ok("export", "m", "--format", "csv").splitlines()
    assert lines[0] == "feature,setosa,versicolor,virginica" and len(lines) == 4
    assert all(line.count(",") == 3 for line in lines)
