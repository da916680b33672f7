"""What ``ascpipe checkpoint list | verify | show`` tell, with which exit code."""
import json
import os
import shutil

import pytest
from click.testing import CliRunner

from ascpipe.cli import main
from tests.support.checkpoints import content, save, tree_of


def ascpipe(*arguments):
    return CliRunner(mix_stderr=False).invoke(main.main, ["checkpoint", *map(str, arguments)])


def answer(*arguments):
    return json.loads(ascpipe(*arguments, "--json").stdout)


@pytest.fixture
def directory(tmp_path):
    """A full checkpoint, two deltas upon it, and another full one."""
    tables = [content(pool_rows=3), content("item", rows=7, slots=())]
    parent = save(tmp_path, 1, tables)
    parent = save(tmp_path, 2, tables, parent=parent)
    save(tmp_path, 10, tables, parent=parent)
    save(tmp_path, 20, tables)
    return tmp_path


def flip(directory, checkpoint):
    file = directory / checkpoint / "user/embedding/slice.data"
    damaged = bytearray(file.read_bytes())
    damaged[9] ^= 4
    file.write_bytes(bytes(damaged))


def test_list_tells_of_each_checkpoint_in_the_order_of_steps(directory):
    listed = answer("list", directory)
    assert [(one["checkpoint"], one["kind"], one["parent"], one["step"]) for one in listed] == [
        (str(directory / "model.ckpt-{}".format(step)), kind, parent, step) for step, kind, parent in (
            (1, "full", None), (2, "delta", "model.ckpt-1"), (10, "delta", "model.ckpt-2"), (20, "full", None))]
    records = ("MANIFEST.json", "PAIR.json", "ASCPIPE")
    for one, name in zip(listed, ("sparse-model.ckpt-1", "delta-sparse-model.ckpt-2")):
        there = [len(data) for path, data in tree_of(directory / name).items() if path not in records]
        assert (one["bytes"], one["tables"], one["rows"], one["state"]) == (sum(there), 2, 27, "complete")
        assert one["saved_at"].endswith("Z") and one["problem"] is None
    text = ascpipe("list", directory)
    assert (text.exit_code, text.stderr) == (0, "")
    (line,) = [line.split() for line in text.stdout.splitlines() if line.split()[:1] == ["model.ckpt-10"]]
    assert line[1:4] + line[-3:] == ["delta", "upon", "model.ckpt-2", "2", "27", "complete"]


def test_list_tells_what_cannot_be_used_and_why(directory):
    (directory / "delta-sparse-model.ckpt-2/user/key/slice.data").write_bytes(b"")
    (directory / "sparse-model.ckpt-20/PAIR.json").write_bytes(b"{}")
    (directory / "sparse-other").mkdir()
    (directory / "sparse-link").symlink_to(directory / "sparse-model.ckpt-1")
    listed = {os.path.basename(one["checkpoint"]): one for one in answer("list", directory)}
    assert {name: one["state"] for name, one in listed.items()} == {
        "model.ckpt-1": "complete", "model.ckpt-2": "incomplete", "model.ckpt-10": "incomplete",
        "model.ckpt-20": "damaged", "other": "unverified", "link": "damaged"}
    text = ascpipe("list", directory)
    assert text.exit_code == 0
    assert "E522" in text.stdout and "PAIR.json" in text.stdout and "E521" in text.stdout


def test_list_of_a_directory_without_a_checkpoint_says_so(tmp_path):
    told = ascpipe("list", tmp_path)
    assert (told.exit_code, told.stdout) == (0, "no checkpoint in {}\n".format(tmp_path))
    assert answer("list", tmp_path) == []


def test_verify_has_one_line_for_each_checkpoint(directory):
    told = ascpipe("verify", directory)
    assert (told.exit_code, told.stderr) == (0, "")
    assert [line.split()[:2] for line in told.stdout.splitlines()] == [
        ["ok", str(directory / "model.ckpt-{}".format(step))] for step in (1, 2, 10, 20)]
    one = ascpipe("verify", directory / "model.ckpt-10")
    assert (one.exit_code, len(one.stdout.splitlines()), one.stdout[:3]) == (0, 1, "ok ")


def test_verify_names_the_damaged_file_also_of_what_stands_upon_it(directory):
    flip(directory, "delta-sparse-model.ckpt-2")
    told = ascpipe("verify", directory)
    assert told.exit_code == 1
    lines = told.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "BAD", "BAD", "ok"]
    assert all("E522" in line and "delta-sparse-model.ckpt-2/user/embedding/slice.data" in line for line in lines[1:3])
    assert [(one["verified"], one["code"], one["file"]) for one in answer("verify", directory)][1:] == [
        (False, "E522", "delta-sparse-model.ckpt-2/user/embedding/slice.data")] * 2 + [(True, None, None)]
    assert ascpipe("verify", directory / "model.ckpt-1").exit_code == 0
    one = ascpipe("verify", directory / "model.ckpt-10")
    assert (one.exit_code, one.stdout[:3], "E522" in one.stdout) == (1, "BAD", True)


def test_verify_finds_a_parent_that_was_replaced_or_is_gone(directory, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    save(other, 1, [content(seed=5, pool_rows=3), content("item", rows=7, slots=())])
    shutil.rmtree(str(directory / "sparse-model.ckpt-1"))
    assert [one["verified"] for one in answer("verify", directory)] == [False, False, True]
    shutil.copytree(str(other / "sparse-model.ckpt-1"), str(directory / "sparse-model.ckpt-1"))
    assert [one["verified"] for one in answer("verify", directory)] == [True, False, False, True]


def test_verify_reads_and_changes_nothing_else(directory):
    before = tree_of(directory)
    ascpipe("verify", directory)
    assert tree_of(directory) == before


def test_show_has_each_table_with_its_numbers(directory):
    text = ascpipe("show", directory / "model.ckpt-2")
    assert (text.exit_code, text.stderr) == (0, "")
    assert "complete, delta upon model.ckpt-1, step 2" in text.stdout
    assert "run run-3\ntrained batches: 3 of stream train 'é'\n" in text.stdout
    user = [line.split() for line in text.stdout.splitlines() if line.split()[:1] == ["user"]]
    assert user == [["user", "4", "20", "5", "0", "LazyAdam_momentum", "4,", "LazyAdam_velocity", "1"],
                    ["user", "3", "2", "60", "1700000000", "0:2", "pool,", "0.25,", "0.001", str(2 ** 64 - 1)]]
    told = answer("show", directory / "model.ckpt-2")
    assert (told["run_id"], told["trained_batches"]) == ("run-3", {"train 'é'": 3})
    table = told["tables"][0]
    assert [table[name] for name in ("name", "dim", "rows", "candidates", "last_ticket")] == ["user", 4, 20, 5, 2]
    assert (table["initial"]["seed"], table["policies"]["access_threshold"]) == (2 ** 64 - 1, 3)
    assert [slot["name"] for slot in table["slots"]] == ["LazyAdam_momentum", "LazyAdam_velocity"]


@pytest.mark.parametrize("verb", ["list", "verify", "show"])
def test_what_is_not_there_or_refused_is_one_coded_line(tmp_path, verb):
    for path, code in ((tmp_path / "no/model-1", "E520"), ("hdfs://host/model-1", "E521"), ("/etc/model", "E521")):
        told = ascpipe(verb, path)
        assert (told.exit_code, told.stdout) == (1, ""), told.stdout
        assert told.stderr.startswith("ascpipe: {}: ".format(code)) and told.stderr.count("\n") == 1
    assert ascpipe(verb).exit_code == 2
    assert ascpipe("fly").exit_code == 2


def test_a_directory_without_a_checkpoint_verifies_nothing_and_says_so(tmp_path):
    told = ascpipe("verify", tmp_path)
    assert (told.exit_code, "E520" in told.stderr) == (1, True)


def test_one_of_others_is_verified_only_as_far_as_it_can_be(directory, monkeypatch):
    for name in ("MANIFEST.json", "PAIR.json", "ASCPIPE"):
        (directory / "sparse-model.ckpt-20" / name).unlink()
    path = directory / "model.ckpt-20"
    told, shown = ascpipe("verify", path), ascpipe("show", path)
    assert (told.exit_code, "E523" in told.stdout) == (1, True)
    assert (shown.exit_code, "E523" in shown.stderr) == (1, True)
    monkeypatch.setenv("ASCPIPE_ALLOW_UNVERIFIED", "1")
    told = ascpipe("verify", path)
    assert (told.exit_code, "no manifest" in told.stdout) == (0, True)


def test_names_of_files_are_escaped_before_they_reach_a_terminal(tmp_path):
    for name in ("sparse-\x1b[31mred", "delta-sparse-two\nlines", "sparse-\u202etxet", "sparse-[bold]b"):
        os.mkdir(str(tmp_path / name))
    for verb in ("list", "verify"):
        told = ascpipe(verb, tmp_path)
        assert "\\x1b[31mred" in told.stdout and "two\\nlines" in told.stdout and "\\u202etxet" in told.stdout
        assert "[bold]b" in told.stdout
        assert not set("\x1b\u202e") & set(told.stdout + told.stderr)
    told = ascpipe("show", str(tmp_path / "\x1b[31mred"))
    assert (told.exit_code, "\x1b" in told.stderr) == (1, False)
