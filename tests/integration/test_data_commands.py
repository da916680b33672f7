"""``ascpipe data index | head | check`` on real files, as separate processes and with their exit codes.

Commands are forked. The commands on terminals are executed.
"""
import json
import os
import re
import sys

import pytest

from tests.support import forked_calls, terminals, tfrecords

pytestmark = pytest.mark.usefixtures("forked_programs")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    data = tmp_path / "data"
    data.mkdir()
    tfrecords.write(data / "a.tfrecord", tfrecords.clicks(1000))
    tfrecords.write(data / "b.tfrecord.gz", tfrecords.clicks(500, 1000), "GZIP")
    monkeypatch.chdir(data)
    return data


def ascpipe(*arguments):
    return forked_calls.python(["-m", "ascpipe", "data", *arguments], os.getcwd(),
                               {**os.environ, "PYTHONPATH": ROOT}, 60.0)


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def damage(path, *places):
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= 1
    path.write_bytes(bytes(content))


def test_an_index_is_built_once(folder):
    place = folder / ".a.tfrecord.ascindex"
    assert ascpipe("index", "a.tfrecord") == (0, "new   a.tfrecord  1000 records: {}\n".format(place), "")
    assert ascpipe("index", "a.tfrecord") == (0, "kept  a.tfrecord  1000 records: {}\n".format(place), "")
    code, text, _ = ascpipe("index", "a.tfrecord", "--json")
    assert (code, json.loads(text)) == (0, {"files": [
        {"path": "a.tfrecord", "index": str(place), "records": 1000, "is_new": False}]})
    assert place.stat().st_mode & 0o777 == (folder / "a.tfrecord").stat().st_mode & 0o444 | 0o600
    code, text, error = ascpipe("index", "b.tfrecord.gz")
    assert (code, error) == (0, "")
    assert re.match(r"new   b.tfrecord.gz  500 records: .*/.b.tfrecord.gz.ascindex\n", text)


def test_head_shows_records_and_specs(folder):
    code, text, error = ascpipe("head", "*.tfrecord", "--records", 2)
    assert (code, error) == (0, "")
    assert "record 1 of a.tfrecord, 99 bytes at byte 112" in text
    assert '    "dense": tf.io.FixedLenFeature([3], tf.float32),\n' in text
    code, text, _ = ascpipe("head", "a.tfrecord", "b.tfrecord.gz", "--records", 1001, "--json")
    shown = json.loads(text)
    assert code == 0 and len(shown["records"]) == 1001
    assert shown["records"][1000]["path"] == "b.tfrecord.gz" and shown["records"][1000]["number"] == 0
    assert shown["records"][3]["features"] == {
        "dense": {"type": "float32", "values": [3.0, 0.5, -1.0]}, "label": {"type": "float32", "values": [1.0]},
        "query": {"type": "string", "values": ["text 3"]}, "tags": {"type": "int64", "values": [0, 1, 2]},
        "user": {"type": "int64", "values": [21]}}
    assert shown["features"]["tags"] == {"type": "int64", "records": 1001, "least": 0, "most": 3,
                                         "spec": "tf.io.VarLenFeature(tf.int64)"}


def test_head_shows_records_of_other_formats_with_the_reason(folder):
    tfrecords.write(folder / "raw", [b"\xff\xfe"])
    code, text, _ = ascpipe("head", "raw")
    assert code == 0 and "E336: A record of 2 bytes is not a tf.train.Example" in text
    (folder / "empty.tfrecord").write_bytes(b"")
    assert ascpipe("head", "empty.tfrecord") == (0, "the files have no records\n", "")


def test_check_of_whole_files_succeeds(folder):
    code, text, error = ascpipe("check", "a.tfrecord", "b.tfrecord.gz")
    assert (code, error) == (0, "")
    assert text.startswith("ok   a.tfrecord  1000 records, 0.1 MB, 5 features\nok   b.tfrecord.gz  500 records, ")
    assert "# feature specs of 1500 records\n" in text


def test_check_names_each_damaged_record_and_fails(folder):
    damage(folder / "a.tfrecord", 20, 130)
    code, text, _ = ascpipe("check", "a.tfrecord")
    lines = text.splitlines()
    assert code == 1
    assert lines[0].startswith("BAD  a.tfrecord  E330: a.tfrecord: record 0 at byte 0 is damaged: the checksum of its")
    assert lines[1].startswith("BAD  a.tfrecord  E330: a.tfrecord: record 1 at byte 112 is damaged")
    assert lines[2].startswith("     a.tfrecord  the other records: 998 records, ")
    code, text, _ = ascpipe("check", "a.tfrecord", "--json")
    checked = json.loads(text)["files"][0]
    assert code == 1 and [one["code"] for one in checked["problems"]] == ["E330", "E330"]
    assert (checked["records"], checked["more_problems"], checked["examples"]) == (998, 0, 998)


def test_check_counts_many_damaged_records_and_stops_where_a_length_is_damaged(folder):
    tfrecords.write(folder / "many", [b"0123456789"] * 100)
    damage(folder / "many", *range(12, 26 * 50, 26), 26 * 60)
    code, text, _ = ascpipe("check", "many", "--json")
    checked = json.loads(text)["files"][0]
    assert (code, len(checked["problems"]), checked["more_problems"], checked["records"]) == (1, 10, 41, 10)
    assert "41 damaged records more" in ascpipe("check", "many")[1]


def test_check_finds_features_with_different_types(folder):
    from tests.support.examples import example, feature

    tfrecords.write(folder / "c", [example([("user", feature("float32", [1.0]))])])
    code, text, _ = ascpipe("check", "a.tfrecord", "c")
    assert code == 1 and "BAD  feature user: its type is int64, but c has float32\n" in text


@pytest.mark.parametrize("verb", ["index", "head", "check"])
@pytest.mark.parametrize(("file", "said"), [
    ("nothing", "E277: nothing does not exist"), (".", "E277: . is a directory"),
    ("hdfs://a/b", "E277: hdfs://a/b is a remote path")])
@pytest.mark.each_value
def test_other_files_are_an_error_of_one_line(folder, verb, file, said):
    code, text, error = ascpipe(verb, file)
    assert (code, text, error.count("\n")) == (1, "", 1) and error.startswith("ascpipe: " + said)


@pytest.mark.parametrize("file", ["a.tfrecord", "b.tfrecord.gz"])
def test_on_a_terminal_a_progress_bar_is_shown_and_removed(folder, file):
    environment = {**os.environ, "PYTHONPATH": ROOT}
    command = [sys.executable, "-m", "ascpipe", "data", "check", str(folder / file)]
    with terminals.Terminal(command, 120, 30, environment) as terminal:
        assert terminal.ended() == 0
        assert terminal.settings() == terminal.before
        assert "Traceback" not in terminal.said and terminals.SHOWN in terminal.said
        assert "ok   {}".format(folder / file) in terminal.said


def test_the_documented_commands_take_what_a_shell_expands(tmp_path, monkeypatch):
    (tmp_path / "train").mkdir()
    monkeypatch.chdir(tmp_path)
    tfrecords.write(tmp_path / "train.tfrecord", tfrecords.clicks(5))
    for number in range(2):
        tfrecords.write(tmp_path / "train" / "{}.tfrecord".format(number), tfrecords.clicks(5, 5 * number))
    for verb in ("head", "check", "index"):
        assert ascpipe(verb, "train/0.tfrecord", "train/1.tfrecord")[0] == ascpipe(verb, "train/*.tfrecord")[0] == 0
    assert "record 0 of train.tfrecord, " in ascpipe("head", "train.tfrecord", "--records", 1)[1]
    assert ascpipe("index", "train.tfrecord")[1].startswith("new   train.tfrecord  5 records: ")


def test_wrong_usage_has_the_exit_code_of_wrong_usage(folder):
    assert ascpipe("head")[0] == ascpipe("head", "a.tfrecord", "--records", "0")[0] == ascpipe("chek", "a")[0] == 2
    assert "Did you mean check?" in ascpipe("chek", "a")[2]
