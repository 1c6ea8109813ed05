"""Generated data: the same seed gives the same bytes, and the truth lies beside them."""

import pytest

KINDS = {"sparse": ["--examples", "200", "--features", "40", "--nonzeros", "5"],
         "clicks": ["--examples", "200", "--columns", "4", "--vocabulary", "50"],
         "ratings": ["--users", "20", "--items", "15", "--ratings", "100"],
         "blobs": ["--points", "50", "--dims", "3", "--clusters", "4"],
         "stream": ["--inserts", "500", "--keys", "60"]}


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_bytes(rubato, kind):
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        assert rubato.ok("gen", kind, *KINDS[kind], "--seed", seed, "--out", name) == ""
    assert rubato.files() == ["a", "a.truth", "b", "b.truth", "c", "c.truth"]
    read = {name: (rubato.folder / name).read_bytes() for name in rubato.files()}
    assert read["a"] == read["b"] != read["c"]
    assert read["a.truth"] == read["b.truth"] != read["c.truth"]


def test_sizes_are_as_asked(rubato):
    rubato.ok("gen", "sparse", *KINDS["sparse"], "--out", "s.svm")
    lines = (rubato.folder / "s.svm").read_text().splitlines()
    assert len(lines) == 200
    assert all(len(line.split()) == 6 for line in lines)


def test_truth_of_a_stream_is_its_counts(rubato):
    rubato.ok("gen", "stream", *KINDS["stream"], "--out", "k.txt")
    keys = (rubato.folder / "k.txt").read_text().split()
    counts = dict(line.split() for line in (rubato.folder / "k.txt.truth").read_text().splitlines())
    assert len(keys) == 500
    assert counts == {key: str(keys.count(key)) for key in set(keys)}


@pytest.mark.parametrize("out, error", [
    ("/nowhere/x", "No such file or directory"),
    (".", "Is a directory"),
    ("/dev/full", "not a regular file"),
])
def test_what_cannot_be_written_leaves_nothing(rubato, out, error):
    result = rubato("gen", "sparse", "--out", out)
    assert result.stderr == f'rubato: error: could not write data "{out}": {error}\n'
    assert result.returncode == 1
    assert rubato.files() == []
