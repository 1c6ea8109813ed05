"""Keys: for their owner alone, never the same, never overwritten."""

import re
import stat


def test_without_a_file_the_key_is_printed(rubato):
    keys = {rubato.ok("keygen") for _ in range(3)}
    assert len(keys) == 3
    assert all(re.fullmatch(r"[0-9a-f]{64}\n", key) for key in keys)
    assert rubato.files() == []


def test_a_file_is_its_owners_and_the_hint_says_how_to_use_it(rubato):
    result = rubato("keygen", "cluster.key")
    assert result.returncode == 0
    assert result.stdout == ""
    assert result.stderr == ("wrote a new key to cluster.key; use it with --key cluster.key or "
                             "RUBATO_KEY=cluster.key\n")
    path = rubato.folder / "cluster.key"
    assert re.fullmatch(r"[0-9a-f]{64}\n", path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_is_never_overwritten(rubato):
    path = rubato.folder / "cluster.key"
    path.write_text("precious\n")
    result = rubato("keygen", "cluster.key")
    assert result.returncode == 1
    assert result.stderr.startswith('rubato: error: could not write a key to "cluster.key": '
                                    "a file of that name exists\nrubato: hint: Keys are never "
                                    "overwritten.")
    assert path.read_text() == "precious\n"


def test_what_cannot_be_written_is_said(rubato):
    result = rubato("keygen", "nowhere/cluster.key")
    assert result.returncode == 1
    assert result.stderr == ('rubato: error: could not write a key to "nowhere/cluster.key": '
                             "No such file or directory\n")
    assert rubato("keygen", "a", "b").returncode == 2
    assert rubato.files() == []
