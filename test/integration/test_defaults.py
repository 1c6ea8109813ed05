"""Default options: the figures of exact solvers, and of one worker, with any number of workers."""
import json
import math
import random

import pytest

QUIET = ["--progress", "never", "--summary", "json"]


def summary(text):
    return json.loads(text.splitlines()[-1])


def least_squares(rows):
    """The RMSE of least squares with a constant, by elimination; the last column is the label."""
    width = len(rows[0])
    means = [sum(row[j] for row in rows) / len(rows) for j in range(width)]
    spreads = [math.sqrt(sum((row[j] - means[j]) ** 2 for row in rows) / len(rows))
               for j in range(width)]
    table = [[(row[j] - means[j]) / spreads[j] for j in range(width)] for row in rows]
    n = width - 1
    a = [[sum(row[j] * row[k] for row in table) for k in range(width)] for j in range(n)]
    for j in range(n):
        for other in range(n):
            if other != j:
                factor = a[other][j] / a[j][j]
                a[other] = [x - factor * y for x, y in zip(a[other], a[j])]
    w = [a[j][n] / a[j][j] for j in range(n)]
    errors = [row[n] - sum(w[j] * row[j] for j in range(n)) for row in table]
    return spreads[n] * math.sqrt(sum(error * error for error in errors) / len(rows))


def houses(count, seed):
    """Columns of different units, far from zero, that go together; sorted by the second one."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        west = draw.gauss(0, 1)
        north = 0.9 * west + 0.4 * draw.gauss(0, 1)
        rooms = math.exp(draw.gauss(0, 0.8))
        price = 2e5 - 4e4 * west - 5e4 * north + 3e4 * rooms + 2e4 * draw.gauss(0, 1)
        rows.append([-119.5 + 2 * west, 35.6 - 2.1 * north, 2600 * rooms,
                     540 * rooms * math.exp(0.3 * draw.gauss(0, 1)), 1e-4 * draw.gauss(0, 1),
                     price])
    return sorted([[float(f"{x:.6g}") for x in row] for row in rows], key=lambda row: row[1])


def text_of(rows):
    return "a,b,c,d,e,price\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)


@pytest.mark.parametrize("workers", ["1", "2", "8", "32"])
def test_a_sorted_table_in_different_units_reaches_least_squares(rubato, workers):
    rows = houses(3000, 1)
    rubato.write("t.csv", text_of(rows))
    found = summary(rubato.ok("train", "linear", "--loss", "squared", "--data", "t.csv", "--eval",
                              "t.csv", "--model", "m.rbt", "--workers", workers, *QUIET))
    best = least_squares(rows)
    assert found["eval"]["rmse"] == pytest.approx(best, rel=1e-3)
    assert found["chosen"].startswith("solver newton; l2 ") and "not_converged" not in found
    # What is saved is in the units of the file.
    again = json.loads(rubato.ok("eval", "m.rbt", "--data", "t.csv", "--summary", "json"))
    assert again["eval"]["rmse"] == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("solver, factor", [("lbfgs", 1.0001), ("emso-gd", 1.05)])
def test_so_do_other_solvers_or_they_say_that_they_have_not_converged(rubato, solver, factor):
    rows = houses(3000, 1)
    rubato.write("t.csv", text_of(rows))
    found = summary(rubato.ok("train", "linear", "--loss", "squared", "--data", "t.csv", "--eval",
                              "t.csv", "--solver", solver, "--workers", "2", "--consistency",
                              "bsp", *QUIET))
    assert found["eval"]["rmse"] < factor * least_squares(rows)
    assert solver != "lbfgs" or "not_converged" not in found
    assert solver == "lbfgs" or "--epochs" in found["not_converged"]


def test_so_does_sgd_nearly_sorted_or_not(rubato):
    rows = houses(3000, 2)
    best = least_squares(rows)
    figures = []
    for shuffled in (False, True):
        if shuffled:
            random.Random(3).shuffle(rows)
        rubato.write("t.csv", text_of(rows))
        found = summary(rubato.ok("train", "linear", "--loss", "squared", "--data", "t.csv",
                                  "--eval", "t.csv", "--solver", "sgd", "--workers", "1", *QUIET))
        figures.append(found["eval"]["rmse"])
    assert max(figures) < 1.02 * best
    assert figures[0] == pytest.approx(figures[1], rel=0.01)


def test_sorted_and_shuffled_tables_give_the_same_figure(rubato):
    rows = houses(3000, 4)
    figures = []
    for _ in range(2):
        rubato.write("t.csv", text_of(rows))
        found = summary(rubato.ok("train", "linear", "--loss", "squared", "--data", "t.csv",
                                  "--eval", "t.csv", *QUIET))
        figures.append(found["eval"]["rmse"])
        random.Random(5).shuffle(rows)
    assert figures[0] == pytest.approx(figures[1], rel=2e-3)


def words(count, seed, strength):
    """Rare binary features, of which only some mean anything."""
    truth = random.Random(1)
    weights = [truth.gauss(0, strength) for _ in range(3000)]
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        features = sorted({int(3000 * draw.random() ** 2) for _ in range(30)})
        margin = sum(weights[j] for j in features)
        label = 1 if draw.random() < 1 / (1 + math.exp(-margin)) else -1
        lines.append(f"{label} " + " ".join(f"{j + 1}:1" for j in features))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("strength", [0.1, 1.0])
def test_the_default_penalty_is_near_the_best_of_a_grid(rubato, strength):
    rubato.write("train.svm", words(4000, 2, strength))
    rubato.write("test.svm", words(4000, 3, strength))
    base = ["train", "linear", "--data", "train.svm", "--eval", "test.svm", "--workers", "1",
            *QUIET]
    grid = {total: summary(rubato.ok(*base, "--l2", total / 4000))["eval"]["logloss"]
            for total in (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)}
    found = summary(rubato.ok(*base))
    assert found["eval"]["logloss"] < 1.01 * min(grid.values())
    assert max(grid.values()) > 1.03 * min(grid.values())  # or any penalty would have done
    assert "found on 4000 held-out examples" in found["chosen"]
    assert summary(rubato.ok(*base))["chosen"] == found["chosen"]


def articles(count, seed):
    """Texts of two subjects as TF-IDF: word j is the more common the smaller it is, and the value
    of a rare one is the larger. A quarter of a text's words are of its subject."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        label = draw.randrange(2)
        text = {}
        for _ in range(150):
            word = int(8 * 1000 ** draw.random())
            if word >= 100 and draw.random() < 0.25:
                word += (word + label) % 2
            text[word] = 1 + math.log(word)
        norm = math.sqrt(sum(value * value for value in text.values()))
        lines.append(f"{label} " + " ".join(f"{j}:{text[j] / norm:.5f}" for j in sorted(text)))
    return "\n".join(lines) + "\n"


def test_machines_are_as_good_as_weights_on_texts(rubato):
    rubato.write("train.svm", articles(2500, 1))
    rubato.write("test.svm", articles(2500, 2))
    words_of = ["--data", "train.svm", "--eval", "test.svm", "--workers", "1", *QUIET]
    linear = summary(rubato.ok("train", "linear", *words_of))["eval"]["logloss"]
    assert linear < 0.9 * math.log(2)
    assert summary(rubato.ok("train", "fm", *words_of))["eval"]["logloss"] < 1.02 * linear


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_all_layouts_give_the_same_digest_under_bsp(rubato, loss):
    rows = houses(600, 6)
    middle = sorted(row[-1] for row in rows)[300]
    if loss != "squared":
        rows = [[*row[:-1], int(row[-1] > middle) + (loss == "softmax") * int(row[0] > -119)]
                for row in rows]
    rubato.write("t.csv", text_of(rows))
    base = ["train", "linear", "--loss", loss, "--data", "t.csv", "--consistency", "bsp", *QUIET]
    found = [summary(rubato.ok(*start, *base, *end))
             for start, end in [([], ["--workers", "3"]), ([], ["--workers", "3"]),
                                (["run", "--workers", "3", "--servers", "2", "--"], []),
                                (["simulate", "--workers", "3", "--servers", "2", "--"], [])]]
    assert len({one["digest"] for one in found}) == 1
    assert len({one["chosen"] for one in found}) == 1 and "newton" in found[0]["chosen"]


def test_a_penalty_on_a_table_does_not_depend_on_units(rubato):
    rows = houses(500, 7)
    rubato.write("t.csv", text_of(rows))
    rubato.write("u.csv", text_of([[1000 * row[0] - 7, row[1] / 50, *row[2:]] for row in rows]))
    found = [summary(rubato.ok("train", "linear", "--loss", "squared", "--data", name, "--eval",
                               name, "--l2", "0.1", *QUIET))["eval"]["rmse"]
             for name in ("t.csv", "u.csv")]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_training_that_ends_above_a_model_of_zeros_says_that_it_diverged(rubato):
    rubato.write("t.svm", "".join(f"{i % 2} 1:{i % 7 - 3} 2:{i % 5 - 2}\n" for i in range(200)))
    result = rubato("train", "linear", "--data", "t.svm", "--scale", "none", "--lr", "1000",
                    "--schedule", "constant", "--l2", "0", "--model", "m.rbt", *QUIET)
    assert result.returncode == 1
    assert "training diverged" in result.stderr and "a model of all zeros" in result.stderr
    assert rubato.files() == ["t.svm"]


@pytest.mark.parametrize("workers", [4, 16])
def test_many_workers_factorise_as_well_as_one(rubato, workers):
    rubato.ok("gen", "ratings", "--users", 800, "--items", 1000, "--ratings", 40000, "--rank", 5,
              "--noise", 0.2, "--out", "all.csv")
    lines = (rubato.folder / "all.csv").read_text().splitlines(True)[1:]
    (rubato.folder / "train.csv").write_text("".join(lines[i] for i in range(len(lines)) if i % 5))
    (rubato.folder / "test.csv").write_text("".join(lines[::5]))

    def rmse(count):
        return json.loads(rubato.ok(
            "train", "mf", "--data", "train.csv", "--eval", "test.csv", "--workers", count,
            "--consistency", "bsp", "--summary", "json", "--progress", "never"))["eval"]["rmse"]
    assert rmse(workers) < 1.01 * rmse(1)
