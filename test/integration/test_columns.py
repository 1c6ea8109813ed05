"""Tables with text columns, from a raw file to predictions."""

import json

import pytest

QUIET = ["--progress", "never"]


def people(count, header=True):
    """Who is paid well depends on the job, and a little on the age; the city means nothing."""
    lines = ["age;job;city;paid"] if header else []
    for i in range(count):
        age, job, city = 20 + i * 7 % 40, ["clerk", "boss", "cook"][i * 5 % 3], f"city {i % 50}"
        paid = "well" if age > 57 or job == "boss" else "badly"
        lines.append(f'{age if i % 11 else ""};"{job}";{city if i % 7 else "?"};{paid}')
    return "\n".join(lines) + "\n"


def criteo(count):
    return "".join("\t".join([str(i % 3 == 0 and 1 or 0)] + [str(i * k % 1000) for k in range(13)]
                             + [f"{(i % 3) * 7919 + k:08x}" if (i + k) % 5 else ""
                                for k in range(26)]) + "\n" for i in range(count))


def avazu(count):
    return "id,click,hour,C1,site_id\n" + "".join(
        f"{10**19 + i},{i % 2},141021{i % 24:02d},{1000 + i % 2},{i % 7:08x}\n"
        for i in range(count))


@pytest.mark.parametrize("words", [[], ["--hash", "10"], ["--storage", "disk", "--min-count", "3"]])
def test_a_model_knows_its_columns(rubato, words):
    rubato.write("train.csv", people(600))
    rubato.write("test.csv", people(150, header=False))
    out = rubato.ok("train", "linear", "--data", "train.csv", "--eval", "test.csv", "--epochs",
                    "30", "--categorical", "auto", "--skip", "city", "--positive", "well",
                    "--model", "m", "--summary", "json", *words, *QUIET)
    trained = json.loads(out.splitlines()[-1])["eval"]
    assert trained["accuracy"] > 0.9
    out = rubato.ok("eval", "m", "--data", "test.csv", "--summary", "json")
    evaluated = json.loads(out)["eval"]
    assert abs(evaluated["logloss"] - trained["logloss"]) < 1e-6
    scores = [float(line) for line in rubato.ok("predict", "m", "--data", "test.csv").split()]
    right = sum((score > 0.5) == line.endswith("well")
                for score, line in zip(scores, people(150, header=False).splitlines()))
    assert len(scores) == 150 and abs(right / 150 - trained["accuracy"]) < 1e-6


@pytest.mark.parametrize("make, name", [(criteo, "criteo"), (avazu, "avazu")])
def test_click_data_is_recognised(rubato, make, name):
    rubato.write("clicks.txt", make(300))
    words = ["train", "linear", "--data", "clicks.txt", "--eval", "clicks.txt", "--epochs", "20",
             "--workers", "2", "--consistency", "bsp", "--summary", "json", *QUIET]
    found = json.loads(rubato.ok(*words, "--model", "m").splitlines()[-1])
    named = json.loads(rubato.ok(*words, "--format", name).splitlines()[-1])
    assert found["digest"] == named["digest"] and found["eval"]["accuracy"] > 0.95
    assert rubato.ok("eval", "m", "--data", "clicks.txt").startswith("logloss")


WRONG = [
    ("text without a word", "1;2;1\n1;x;1\n", [],
     'line 2: column 1 (from 0) holds "x", which is not a number', "use --categorical auto"),
    ("late text", "1;1;1\n" * 1500 + "1;x;1\n", ["--categorical", "auto"],
     'line 1501: column 1 (from 0) holds "x", which is not a number', "auto,1"),
    ("text as label", "1;x;yes\n2;y;no\n", ["--categorical", "auto"],
     'line 1: the label in column 2 (from 0) is "yes", which is not a number', "--positive"),
    ("no such label", "1;x;yes\n2;y;no\n", ["--categorical", "auto", "--positive", "YES"],
     "no example has the label that --positive names", None),
    ("no such column", "a;b;c\n1;x;1\n", ["--categorical", "B"], 'there is no column "B"',
     "numbered from 0 to 2, or named as in the first line"),
    ("short line", "1;x;1\n1;x\n", ["--categorical", "auto"], "line 2: 2 columns instead of 3",
     None),
    ("not Criteo's", "1\t2\n", ["--format", "criteo"], "line 1: 2 columns instead of 40", None),
]


@pytest.mark.parametrize("content, words, error, hint", [row[1:] for row in WRONG],
                         ids=[row[0] for row in WRONG])
def test_wrong_tables(rubato, content, words, error, hint):
    rubato.write("t.csv", content)
    result = rubato("train", "linear", "--data", "t.csv", *words)
    assert result.returncode != 0 and result.stdout == ""
    assert error in result.stderr
    assert 'cannot read "t.csv"' in result.stderr or "--positive names" in error
    assert hint is None or hint in result.stderr


def test_other_files_must_fit_the_model(rubato):
    rubato.write("train.csv", people(100))
    rubato.ok("train", "linear", "--data", "train.csv", "--categorical", "auto", "--positive",
              "well", "--model", "m", *QUIET)
    rubato.write("other.csv", "31;clerk;1\n")
    result = rubato("eval", "m", "--data", "other.csv")
    assert result.returncode != 0
    assert 'cannot read "other.csv", line 1: 3 columns instead of 4' in result.stderr


def by_hand(text, columns):
    """The table as LIBSVM: a feature for every text of a column, numbered as they come."""
    numbers, lines = {}, []
    for line in text.splitlines()[1:]:
        *cells, label = [cell.strip('"') for cell in line.split(";")]
        keys = [columns + 1 + numbers.setdefault((i, cell), len(numbers))
                for i, cell in enumerate(cells) if cell not in ("", "?")]
        lines.append(" ".join(["1" if label == "well" else "0", *(f"{k}:1" for k in sorted(keys))]))
    return "\n".join(lines) + "\n"


DICTIONARY = ["train", "linear", "--data", "train.csv", "--categorical", "0-2", "--positive",
              "well", "--dictionary", "--consistency", "bsp", "--epochs", "5", "--l2", "0.01",
              "--summary", "json", *QUIET]


def digest(text):
    return json.loads(text.splitlines()[-1])["digest"]


def test_a_dictionary_gives_the_features_that_one_would_by_hand(rubato):
    rubato.write("train.csv", people(600))
    rubato.write("train.svm", by_hand(people(600), 4))
    text = rubato.ok(*DICTIONARY, "--workers", "2")
    hand = rubato.ok("train", "linear", "--data", "train.svm", "--consistency", "bsp", "--epochs",
                     "5", "--l2", "0.01", "--summary", "json", "--workers", "2", *QUIET)
    assert json.loads(text)["objective"] == json.loads(hand)["objective"]  # the same bits
    assert digest(text) == digest(rubato.ok(*DICTIONARY, "--workers", "2", "--storage", "disk"))
    for driver in ["run", "simulate"]:
        assert digest(text) == digest(rubato.ok(driver, "--workers", "2", "--servers", "2", "--",
                                                *DICTIONARY))


@pytest.mark.parametrize("words", [[], ["--storage", "disk"]])
@pytest.mark.parametrize("least", [0, 13])
def test_a_model_keeps_its_dictionary(rubato, words, least):
    """Of 600 people, 10 or 11 live in each city; texts that are rarer than that are not known."""
    rubato.write("train.csv", people(600))
    rubato.write("test.csv", people(150, header=False).replace("city 3;", "elsewhere;"))
    out = rubato.ok(*DICTIONARY, "--eval", "test.csv", "--model", "m", "--min-count", least, *words)
    trained = json.loads(out.splitlines()[-1])["eval"]
    evaluated = json.loads(rubato.ok("eval", "m", "--data", "test.csv", "--summary",
                                     "json"))["eval"]
    assert abs(evaluated["logloss"] - trained["logloss"]) < 1e-6
    cells = [line.split(";") for line in (rubato.folder / "test.csv").read_text().splitlines()]
    new = sum(line[2] == "elsewhere" for line in cells)
    known = sum(line[2] != "?" for line in cells)
    assert evaluated["unknown_values"] == (known if least else new)
    assert len(rubato.ok("predict", "m", "--data", "test.csv").split()) == 150


def test_a_dictionary_for_clicks(rubato):
    rubato.write("clicks.txt", criteo(300))
    words = ["train", "linear", "--data", "clicks.txt", "--consistency", "bsp", "--summary", "json",
             "--dictionary", "--model", "m", *QUIET]
    objective = json.loads(rubato.ok(*words).splitlines()[-1])["objective"]
    words.remove("--dictionary")
    hashed = json.loads(rubato.ok(*words[:-4], *QUIET).splitlines()[-1])["objective"]
    assert abs(objective / hashed - 1) < 0.01


@pytest.mark.parametrize("words, error", [
    (["--hash", "8"], 'options "--dictionary" and "--hash" exclude each other'),
    (["--data", "long.csv"], 'cannot read "long.csv", line 4: column 1 (from 0) has a text that '
                             'a dictionary cannot hold: it has more than 240 bytes'),
])
def test_what_a_dictionary_cannot_do(rubato, words, error):
    rubato.write("train.csv", people(20))
    rubato.write("long.csv", people(20).replace("boss", "b" * 241, 1))
    result = rubato(*DICTIONARY, *words)
    assert result.returncode in (1, 2) and f"rubato: error: {error}" in result.stderr


@pytest.mark.parametrize("words", [["--categorical", "auto"], ["--skip", "1"], ["--positive", "x"],
                                   ["--dictionary"]])
def test_options_of_tables_are_refused_for_others(rubato, shelf, words):
    result = rubato("train", "linear", "--data", shelf / "train.svm", *words, *QUIET)
    assert result.returncode == 2
    assert f'it is LIBSVM data, but "{words[0]}" is for tables' in result.stderr


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_a_positive_label_that_nobody_has_is_refused(rubato, loss):
    rubato.write("train.csv", people(20))
    words = ["train", "linear", "--data", "train.csv", "--categorical", "auto", "--loss", loss,
             *QUIET]
    result = rubato(*words, "--positive", "superbly")
    assert result.returncode == 1
    assert "no example has the label that --positive names" in result.stderr
    if loss != "squared":
        return
    header, *lines = people(20).splitlines()
    rubato.write("badly.csv", "\n".join([header, *(s for s in lines if s.endswith("badly"))]))
    rubato.ok(*words, "--positive", "well", "--eval", "badly.csv", "--model", "m")
    rubato.ok("eval", "m", "--data", "badly.csv")
    rubato.ok("predict", "m", "--data", "badly.csv")


def test_tables_of_numbers_remember_their_label(rubato):
    rubato.write("train.csv",
                 "".join(f"{i % 2},{i % 2 + i % 7 / 70},{i % 5}\n" for i in range(200)))
    out = rubato.ok("train", "linear", "--data", "train.csv", "--label-column", "0", "--eval",
                    "train.csv", "--model", "m", "--summary", "json", *QUIET)
    trained = json.loads(out.splitlines()[-1])["eval"]
    evaluated = json.loads(rubato.ok("eval", "m", "--data", "train.csv", "--summary", "json"))
    assert abs(evaluated["eval"]["logloss"] - trained["logloss"]) < 1e-6
    scores = rubato.ok("predict", "m", "--data", "train.csv").split()
    assert all((float(score) > 0.5) == (i % 2 == 1) for i, score in enumerate(scores))


def pairs(count):
    """A click needs the right advertisement on the right page: neither says anything alone."""
    return "page,ad,age,click\n" + "".join(
        f"{'abc'[i % 3]},{'xyz'[i // 3 % 3]},{20 + i * 7 % 40},{int(i % 3 == i // 3 % 3)}\n"
        for i in range(count))


def as_libsvm(table):
    """The same as key:value by hand: numbers times 1/32, every text a number of its own."""
    numbers, lines = {}, []
    for row in table.splitlines()[1:]:
        *texts, age, label = row.split(",")
        keys = sorted(numbers.setdefault((c, text), 10 + len(numbers))
                      for c, text in enumerate(texts))
        lines.append(f"{label} 3:{int(age) / 32}" + "".join(f" {key}:1" for key in keys))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("words", [["--min-count", "1000000", "--no-bias", "--l2", "1",
                                    "--l2-v", "0.04", "--no-early-stop"],
                                   ["--min-count", "1", "--l1", "0"]],
                         ids=["weights", "embeddings"])
def test_fm_reads_text_like_numbers(rubato, words):
    """Weights do not depend on how features are numbered; embeddings do, by how they begin, and so
    do the examples that are held out. With a bias, columns of tables are centred for training, and
    those of LIBSVM are not."""
    rubato.write("table.csv", pairs(900))
    rubato.write("table.svm", as_libsvm(pairs(900)))
    scores, figures = {}, {}
    for name, more in (("table.csv", ["--categorical", "auto"]), ("table.svm", [])):
        out = rubato.ok("train", "fm", "--data", name, "--eval", name, "--rank", "4", "--workers",
                        "2", "--consistency", "bsp", "--model", "m", "--summary", "json", *words,
                        *more, *QUIET)
        figures[name] = json.loads(out)["eval"]
        evaluated = json.loads(rubato.ok("eval", "m", "--data", name, "--summary", "json"))["eval"]
        assert evaluated == pytest.approx(figures[name])
        scores[name] = [float(word) for word in rubato.ok("predict", "m", "--data", name).split()]
    if "1000000" in words:
        assert scores["table.csv"] == pytest.approx(scores["table.svm"], abs=1e-4)
        assert figures["table.csv"]["logloss"] > 0.6
    else:
        assert all(figure["logloss"] < 0.1 for figure in figures.values())


@pytest.mark.parametrize("make, name", [(criteo, "criteo"), (avazu, "avazu")])
def test_fm_takes_click_data(rubato, make, name):
    rubato.write("clicks.txt", make(300))
    words = ["train", "fm", "--data", "clicks.txt", "--eval", "clicks.txt", "--workers", "2",
             "--consistency", "bsp", "--summary", "json", *QUIET]
    found = json.loads(rubato.ok(*words, "--model", "m"))
    assert found["digest"] == json.loads(rubato.ok(*words, "--format", name))["digest"]
    assert found["eval"]["accuracy"] > 0.95
    hashed = json.loads(rubato.ok(*words, "--hash", "8", "--model", "h"))["eval"]
    assert hashed["w_nonzeros"] <= 256
    again = json.loads(rubato.ok("eval", "h", "--data", "clicks.txt", "--summary", "json"))["eval"]
    assert again == pytest.approx(hashed)


def flowers(count):
    """Two kinds, told apart by one text and one number; names are to be skipped."""
    return "name,colour,length,kind\n" + "".join(
        f"n{i},{'red' if i % 2 else 'blue'},{(100 if i % 2 else 20) + i % 5},{i % 2}\n"
        for i in range(count))


@pytest.mark.parametrize("words", [["--skip", "name,kind"], ["--skip", "name", "--labelled"]],
                         ids=["unlabelled", "labelled"])
def test_kmeans_takes_text(rubato, words):
    rubato.write("flowers.csv", flowers(200))
    rubato.write("flowers.svm", "".join(
        f"{i % 2} {1 + i % 2}:1 3:{((100 if i % 2 else 20) + i % 5) / 32}\n" for i in range(200)))
    common = ["--k", "2", "--workers", "2", "--consistency", "bsp", "--model", "m", *QUIET]
    rubato.ok("train", "kmeans", "--data", "flowers.svm", *common)
    out = rubato.ok("eval", "m", "--data", "flowers.svm", "--summary", "json")
    wanted = json.loads(out)["eval"]
    rubato.ok("train", "kmeans", "--data", "flowers.csv", "--categorical", "auto", *words, *common)
    out = rubato.ok("eval", "m", "--data", "flowers.csv", "--summary", "json")
    found = json.loads(out)["eval"]
    assert found == pytest.approx(wanted, rel=1e-4)
    clusters = rubato.ok("predict", "m", "--data", "flowers.csv").split()
    assert clusters in (["0", "1"] * 100, ["1", "0"] * 100)
    rubato.ok("export", "m", "--out", "c.csv")
    lines = (rubato.folder / "c.csv").read_text().splitlines()
    assert lines[0].startswith("cluster,size,length,")  # lengths as they are in the file
    assert sorted(float(line.split(",")[2]) for line in lines[1:]) == pytest.approx([22, 102])


def sorted_people(is_reversed):
    """Sums of money that are small at one end of the file and large at the other; who has much has
    label 1 more often."""
    lines = [f"{i % 3 and 'a' or 'b'},{1 + i % 5},{int(i % 10 < 3)}\n" for i in range(2000)]
    lines += [f"{i % 3 and 'a' or 'b'},{30000 + i % 7 * 1000},{int(i % 10 < 8)}\n"
              for i in range(1000)]
    return "job,sum,y\n" + "".join(lines[::-1] if is_reversed else lines)


@pytest.mark.parametrize("algo", ["linear", "kmeans"])
def test_the_order_of_lines_does_not_matter_to_scales(rubato, algo):
    found = []
    for name in ("up.csv", "down.csv"):
        rubato.write(name, sorted_people(name == "down.csv"))
        words = ["--k", "3", "--skip", "y"] if algo == "kmeans" else ["--l2", "1"]
        out = rubato.ok("train", algo, "--data", name, "--categorical", "auto", "--epochs", "30",
                        "--workers", "1", "--summary", "json", *words, *QUIET)
        found.append(json.loads(out.splitlines()[-1])["objective"])
    assert found[0] == pytest.approx(found[1], rel=0.002)


@pytest.mark.parametrize("words", [[], ["--hash", "18"], ["--min-count", "2"]])
def test_scales_are_those_of_all_lines_on_disk_too(rubato, words):
    rubato.write("up.csv", sorted_people(False))
    found = [json.loads(rubato.ok("train", "linear", "--data", "up.csv", "--categorical", "auto",
                                  "--workers", "2", "--consistency", "bsp", "--epochs", "3",
                                  "--storage", storage, "--summary", "json", *words,
                                  *QUIET).splitlines()[-1])["digest"]
             for storage in ("memory", "disk")]
    assert found[0] == found[1]


def test_hashed_tables_on_disk_cannot_come_from_standard_input(rubato):
    result = rubato("train", "linear", "--data", "-", "--format", "csv", "--categorical", "auto",
                    "--hash", "8", "--storage", "disk", stdin="a,1,0\nb,2,1\n")
    assert result.returncode == 2 and "reads the data twice" in result.stderr


def test_kmeans_leaves_numbers_alone_without_text(rubato):
    points = [f"{1000 * (i % 2)},{10 * (i % 3)}\n" for i in range(60)]
    rubato.write("bare.csv", "x,y\n" + "".join(points))
    rubato.write("points.csv", "id,x,y\n" + "".join(f"{i},{point}"
                                                   for i, point in enumerate(points)))
    figures = []
    for name, words in (("points.csv", ["--skip", "id"]), ("bare.csv", [])):
        rubato.ok("train", "kmeans", "--data", name, "--k", "2", "--model", "m", *words, *QUIET)
        out = rubato.ok("eval", "m", "--data", name, "--summary", "json")
        figures.append(json.loads(out)["eval"])
    assert figures[0] == pytest.approx(figures[1])


def houses():
    """Lines id,rooms,town,price: rooms in thousands, two towns of which one is dear."""
    return [(i, 3000 + 500 * (i * 7 % 5), ["York", "Bath"][i * 3 % 2]) for i in range(40)]


def write_houses(rubato):
    rubato.write("h.csv", "id,rooms,town,price\n" + "".join(
        f"{i},{rooms},{town},{rooms * 50 + (town == 'Bath') * 9000}\n"
        for i, rooms, town in houses()))


def test_exported_weights_are_for_numbers_as_they_are_in_the_file(rubato):
    write_houses(rubato)
    rubato.ok("train", "linear", "--loss", "squared", "--data", "h.csv", "--categorical", "auto",
              "--skip", "id", "--dictionary", "--model", "m", *QUIET)
    names = dict(line.split(" ", 1)[::-1] for line in
                 rubato.ok("export", "m", "--format", "dictionary").splitlines())
    assert names == {"2=York": "5", "2=Bath": "6"}
    lines = rubato.ok("export", "m").splitlines()
    weights = [float(line) for line in lines[lines.index("w") + 1:]]
    assert len(weights) == 7 and weights[0] == 0
    for (_, rooms, town), found in zip(houses(), rubato.ok("predict", "m", "--data",
                                                           "h.csv").split(), strict=True):
        sum_of_all = rooms * weights[1] + weights[int(names[f"2={town}"]) - 1] + weights[6]
        assert sum_of_all == pytest.approx(float(found), rel=1e-5)


def test_exported_embeddings_are_for_numbers_as_they_are_in_the_file(rubato):
    write_houses(rubato)
    rubato.ok("train", "fm", "--loss", "squared", "--data", "h.csv", "--skip", "town", "--rank",
              "2", "--min-count", "1", "--l1", "0", "--model", "m", *QUIET)
    text = rubato.ok("export", "m").replace("#", "\n#").split("\n#")
    bias, w, v = ([[float(x) for x in line.split()] for line in part.splitlines()[1:] if line]
                  for part in text[1:])
    for (i, rooms, _), found in zip(houses(), rubato.ok("predict", "m", "--data",
                                                        "h.csv").split(), strict=True):
        pair = i * rooms * sum(a * b for a, b in zip(v[1], v[2]))
        sum_of_all = bias[0][0] + i * w[1][0] + rooms * w[2][0] + pair
        assert sum_of_all == pytest.approx(float(found), rel=1e-4)


@pytest.mark.parametrize("algo", ["linear", "fm"])
def test_hashes_of_columns_are_not_exported(rubato, algo):
    write_houses(rubato)
    rubato.ok("train", algo, "--loss", "squared", "--data", "h.csv", "--categorical", "auto",
              "--hash", "8", "--model", "m", *QUIET)
    result = rubato("export", "m", "--out", "o")
    assert result.returncode == 2 and "the model's features are hashes of " in result.stderr
    assert "o" not in rubato.files()


def test_a_model_without_a_dictionary_says_so(rubato):
    write_houses(rubato)
    rubato.ok("train", "linear", "--loss", "squared", "--data", "h.csv", "--categorical", "auto",
              "--model", "m", *QUIET)
    result = rubato("export", "m", "--format", "dictionary")
    assert result.returncode == 2 and "the model has no dictionary\n" in result.stderr


@pytest.mark.parametrize("words, lines", [
    (["linear", "--loss", "squared", "--dictionary"],
     ["loss 2 is    squared.",
      "4 columns   1 of numbers, 1 of categories, 1 skipped; the label is column 3, price.",
      "names        id, rooms, town, price",
      'its texts    are shown by "rubato export --format dictionary".']),
    (["fm", "--loss", "squared"],
     ["loss 2 is    squared.",
      "4 columns   1 of numbers, 1 of categories, 1 skipped; the label is column 3, price.",
      "names        id, rooms, town, price"]),
    (["kmeans", "--k", "2"], ["4 columns   2 of numbers, 1 of categories, 1 skipped.",
                               "names        id, rooms, town, price"]),
], ids=["linear", "fm", "kmeans"])
def test_info_says_what_columns_hold(rubato, words, lines):
    write_houses(rubato)
    rubato.ok("train", *words, "--data", "h.csv", "--categorical", "auto", "--skip", "id",
              "--model", "m", *QUIET)
    assert rubato.ok("info", "m").splitlines()[-len(lines):] == [f"  {line}" for line in lines]
