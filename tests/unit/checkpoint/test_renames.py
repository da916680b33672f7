"""``ascpipe checkpoint rename``: a new checkpoint with the same content, in which tables have other names."""
import json

import pytest

from ascpipe.checkpoint.errors import CheckpointMismatchError
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.errors import ArgumentError
from ascpipe.rows.renames import Renamed, renamed
from tests.support import checkpoints
from tests.support.checkpoints import Content, by_key, content, tree_of
from tests.unit.checkpoint import test_slices
from tests.unit.checkpoint.test_rows_out import ascpipe, chain, export_rows

USER = content("user", 30, 8, seed=1)
ITEM = content("item", 9, 3, pool_rows=2)


def named(one, name):
    return Content(one.spec._replace(name=name), one.block, one.candidates, one.pool)


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_renamed_table_has_the_same_content(tmp_path, ranks):
    prefix = test_slices.save(tmp_path, 5, ranks, [USER, ITEM])
    before = tree_of(tmp_path)
    done = ascpipe("rename", prefix, "user=member", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == {"checkpoint": str(tmp_path / "model.ckpt-renamed-5"), "tables": {"user": "member"}}
    with open_checkpoint(found["checkpoint"]) as new, open_checkpoint(prefix) as old:
        test_slices.assert_holds(new, [named(USER, "member"), ITEM], ranks)
        for mine, its in zip(new.positions, old.positions):
            assert mine.run_id.startswith("rename-")
            assert mine.tables == {"member": its.tables["user"], "item": its.tables["item"]}
            assert (mine.trained_batches, mine.reads) == (its.trained_batches, its.reads)
    assert {name: text for name, text in tree_of(tmp_path).items() if "renamed" not in name} == before


def test_tables_swap_their_names(tmp_path):
    prefix = checkpoints.save(tmp_path, 5, [USER, ITEM])
    found = renamed(prefix, {"user": "item", "item": "user"}, str(tmp_path / "other-9"))
    assert found == Renamed(str(tmp_path / "other-9"), {"user": "item", "item": "user"})
    with open_checkpoint(found.checkpoint) as new:
        assert list(new.tables) == ["item", "user"]
        test_slices.assert_holds(new, [named(USER, "item"), named(ITEM, "user")], 1)


def test_a_delta_becomes_a_full_checkpoint(tmp_path):
    prefix, one = chain(tmp_path, 1)
    with open_checkpoint(renamed(prefix, {"user": "member"}).checkpoint) as new:
        assert by_key(new.blocks("member")) == by_key([one.block])


def test_a_table_that_keeps_its_name_makes_a_copy_with_another_name(tmp_path):
    prefix = checkpoints.save(tmp_path, 9, [USER, ITEM])
    with open_checkpoint(renamed(prefix, {"user": "user"}, str(tmp_path / "new" / "other-9")).checkpoint) as new:
        assert sorted(new.tables) == ["item", "user"] and new.step == 9


@pytest.mark.parametrize("names, error, reason", [
    ({"nobody": "member"}, CheckpointMismatchError, "E524.*'nobody'.*it has user, item"),
    ({"user": "item"}, ArgumentError, "Two tables would have the name 'item'"),
    ({"user": "a/b"}, ArgumentError, "'a/b' cannot be the name of a table"),
    ({"user": "ASCPIPE"}, ArgumentError, "'ASCPIPE' cannot be the name"),
])
def test_names_that_are_not_allowed_change_nothing(tmp_path, names, error, reason):
    prefix = checkpoints.save(tmp_path, 5, [USER, ITEM])
    before = tree_of(tmp_path)
    with pytest.raises(error, match=reason):
        renamed(prefix, names)
    assert tree_of(tmp_path) == before


@pytest.mark.parametrize("arguments", [["user"], ["=member"], ["user="], ["user=a", "user=b"], []])
def test_arguments_that_are_no_pairs_of_names_are_usage_errors(tmp_path, arguments):
    done = ascpipe("rename", checkpoints.save(tmp_path, 5, [USER]), *arguments)
    assert done.exit_code == 2
    done = ascpipe("rename", checkpoints.save(tmp_path, 6, [USER]), "user=member")
    assert (done.exit_code, done.stdout) == (0, "{}  user is now member\n".format(tmp_path / "model.ckpt-renamed-6"))


def named_newest(folder):
    state = folder / "checkpoint"
    return state.read_text() if state.exists() else None


@pytest.mark.parametrize("command", ["rename", "import"])
def test_a_new_directory_gets_the_file_that_names_its_newest_checkpoint(tmp_path, command):
    prefix = checkpoints.save(tmp_path / "old", 5, [USER])
    export_rows(prefix, "user", str(tmp_path / "rows"))
    given = ["rename", prefix, "user=member"] if command == "rename" else [
        "import", str(tmp_path / "rows"), "--into", prefix, "--table", "user"]
    for number in (5, 6):
        done = ascpipe(*given, "--to", str(tmp_path / "new" / "model.ckpt-{}".format(number)))
        assert done.exit_code == 0, done.stderr
        assert named_newest(tmp_path / "new") == (
            'model_checkpoint_path: "model.ckpt-5"\nall_model_checkpoint_paths: "model.ckpt-5"\n')
    assert ascpipe(*given).exit_code == 0
    assert named_newest(tmp_path / "old") is None  # beside the old checkpoint, the program chooses
