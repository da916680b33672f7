"""The record of checkpoints is bounded, and is read whatever it contains."""
import os

import pytest

from ascpipe.control import saves
from ascpipe.control.saves import Save
from ascpipe.names import RunDir


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = RunDir("unit")
    os.makedirs(made.path)
    return made


def test_the_last_checkpoints_are_kept_each_once(run):
    assert saves.read(run) == []
    for number in range(saves.MOST_SAVES + 5):
        saves.note(run, Save("/a/b-{}".format(number), float(number), 0.5))
    saves.note(run, Save("/a/b-36", 99.0, 1.5, 4096, saves.DELTA))
    found = saves.read(run)
    assert len(found) == saves.MOST_SAVES
    assert found[0].prefix == "/a/b-5" and found[-1] == Save("/a/b-36", 99.0, 1.5, 4096, "delta")
    assert [one.prefix for one in found].count("/a/b-36") == 1
    assert set(os.listdir(run.path)) == {"saves.json"} and set(run.files()) == {"saves.json"}


@pytest.mark.parametrize("text", [
    "", "[", "{}", "7", '[["a", 1]]', '[["a", 1, 2]]', '[["a", 1, 2, 3, "half"]]', '[["a", 1, 2, "b", "full"]]',
    '[[1, 2, 3, 4, ""], ["a", "b", 3, 4, ""]]', "\xff"])
def test_a_damaged_record_has_no_entries(run, text):
    with open(run.saves, "w", encoding="latin-1") as file:
        file.write(text)
    assert saves.read(run) == []
    saves.note(run, Save("/a/b-1", 1.0, 2.0))
    assert len(saves.read(run)) == 1


def test_a_record_that_cannot_be_written_is_no_error(run):
    os.rmdir(run.path)
    saves.note(run, Save("/a/b-1", 1.0, 2.0))
    assert saves.read(run) == []
