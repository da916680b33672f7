"""Export: the tables of a checkpoint as files for ``np.load``."""
import errno
import os

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import CheckpointError, DamagedCheckpointError, UnverifiedCheckpointError
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.tf import export_tables
from mx_rec.core.embedding import create_table
from mx_rec.saver.sparse import export
from tests.support import checkpoints
from tests.support.on_disk import on_disk
from tests.tf import programs

SOURCE = programs.batches(6)
SIZES = {"device": {"device_vocabulary_size": 100}, "host": {"device_vocabulary_size": 24, "host_vocabulary_size": 100},
         "disk": on_disk(24, 100), "expansion": {}}


def trained(folder, tier, monkeypatch):
    """Train and save; rows by table and key, as an evaluation sees them."""
    initializer = tf.compat.v1.random_normal_initializer(stddev=0.3)
    monkeypatch.setattr(programs, "table", lambda name, rows, host_rows=0: create_table(
        tf.int64, programs.DIM, name, initializer, **SIZES[tier]))
    program = programs.Program(SOURCE, lambda: programs.optimizer("adagrad", 0.3), eval_source=SOURCE)
    rows = {"user": {}, "item": {}}
    with programs.session() as run:
        program.initialise(run)
        run.run(program.eval_iterator.initializer)
        for _ in SOURCE:
            run.run(program.train)
        tf.compat.v1.train.Saver().save(run, str(folder / "model"), global_step=6)
        for batch in SOURCE:
            for name, key, values in zip(("user", "user", "item"), "abc", run.run(program.eval_rows)):
                rows[name].update(zip(batch[key].reshape(-1).tolist(), values.reshape(-1, programs.DIM).tolist()))
    return rows


def of_array(path):
    records = np.load(str(path), allow_pickle=False)
    return dict(zip(records["key"].tolist(), records["embedding"].tolist()))


def of_dict(path):
    return {key: vector.tolist() for key, vector in np.load(str(path), allow_pickle=True).item().items()}


@pytest.mark.parametrize("tier", SIZES)
def test_an_export_is_what_an_evaluation_sees(tier, tmp_path, monkeypatch):
    with programs.ascpipe(use_dynamic_expansion=tier == "expansion"):
        rows = trained(tmp_path, tier, monkeypatch)
        assert export() is None
    for table, by_key in rows.items():
        folder = tmp_path / "sparse-model-6" / table
        assert of_array(folder / "key-emb-array.npy") == by_key
        assert of_dict(folder / "key-emb.npy") == by_key


def test_there_is_nothing_to_export_before_the_first_save():
    with programs.ascpipe(), pytest.raises(RuntimeError, match="E272: .*nothing was saved since .*export_tables"):
        export()


@pytest.mark.parametrize("table_list", ["user", [], [3], {"user": 1}])
def test_a_list_of_tables_is_a_list_of_names(table_list):
    with pytest.raises(ValueError, match="table_list"):
        export(table_list)


@pytest.fixture
def saved(tmp_path):
    """(prefix, folder of its tables, contents) of a checkpoint of three tables: with rows, with one float, empty."""
    contents = [checkpoints.content("user", 50), checkpoints.content("item", 9, dim=1, slots=()),
                checkpoints.content("none", 0)]
    return checkpoints.save(str(tmp_path), 6, contents), tmp_path / "sparse-model.ckpt-6", contents


def test_every_table_has_an_array_that_is_read_without_unpickling(saved):
    prefix, folder, contents = saved
    assert export_tables(prefix) == [str(folder / each.spec.name / "key-emb-array.npy") for each in contents]
    for each in contents:
        records = np.load(str(folder / each.spec.name / "key-emb-array.npy"), mmap_mode="r", allow_pickle=False)
        np.testing.assert_array_equal(records["key"], each.block.keys)
        np.testing.assert_array_equal(records["embedding"], each.block.rows[:, :each.spec.dim])
        assert not (folder / each.spec.name / "key-emb.npy").exists()


def test_a_delta_is_exported_with_what_it_stands_upon(tmp_path):
    old, new = (checkpoints.content("user", rows, 0, seed=rows) for rows in (50, 20))
    prefix = checkpoints.save(str(tmp_path), 6, [old])
    (path,) = export_tables(checkpoints.save(str(tmp_path), 7, [new], parent=prefix))
    assert path == str(tmp_path / "delta-sparse-model.ckpt-7" / "user" / "key-emb-array.npy")
    records = np.load(path, allow_pickle=False)
    assert sorted(records["key"].tolist()) == sorted({*old.block.keys.tolist(), *new.block.keys.tolist()})
    assert set(map(tuple, new.block.rows[:, :4].tolist())) <= set(map(tuple, records["embedding"].tolist()))


def test_tables_that_are_not_there_are_a_warning(saved, caplog):
    prefix, folder, _ = saved
    assert export_tables(prefix, ["items", "item", "item"]) == [str(folder / "item" / "key-emb-array.npy")]
    assert "does not have them: items; it has user, item, none" in caplog.text


def test_an_exported_checkpoint_is_the_same_checkpoint(saved):
    prefix, folder, contents = saved
    for _ in range(2):  # the second time files are exchanged
        export_tables(prefix, with_dict=True)
    with open_checkpoint(prefix) as checkpoint:
        checkpoints.assert_holds(checkpoint, contents)
    assert sorted(path.name for path in (folder / "user").iterdir() if path.is_file()) == [
        "key-emb-array.npy", "key-emb.npy"]
    assert (folder / "user" / "key-emb.npy").stat().st_mode & 0o777 == 0o640


def test_a_link_in_the_place_of_the_file_goes_and_what_it_leads_to_stays(saved, tmp_path):
    prefix, folder, _ = saved
    (tmp_path / "precious").write_text("mine")
    for name in ("key-emb-array.npy", ".tmp-key-emb-array.npy"):
        (folder / "user" / name).symlink_to(tmp_path / "precious")
    export_tables(prefix, ["user"])
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (folder / "user" / "key-emb-array.npy").is_symlink()


def test_an_export_that_the_disk_refuses_leaves_what_was_there(saved, monkeypatch):
    prefix, folder, _ = saved
    export_tables(prefix, ["user"])
    before = (folder / "user" / "key-emb-array.npy").read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk, "sync", full)
    with pytest.raises(CheckpointError, match="'user' was not exported to .*key-emb-array.npy: No space left"):
        export_tables(prefix, ["user"])
    assert sorted(path.name for path in (folder / "user").iterdir() if path.is_file()) == ["key-emb-array.npy"]
    assert (folder / "user" / "key-emb-array.npy").read_bytes() == before


def test_nothing_is_exported_of_a_damaged_checkpoint(saved):
    prefix, folder, _ = saved
    path = folder / "item" / "key" / "slice.data"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(DamagedCheckpointError, match="item/key"):
        export_tables(prefix, ["user"])
    assert not (folder / "user" / "key-emb-array.npy").exists()


def test_a_checkpoint_of_rec_sdk_is_exported_where_that_is_allowed(saved):
    prefix, folder, contents = saved
    for name in ("MANIFEST.json", "PAIR.json", "ASCPIPE"):
        (folder / name).unlink()
    with pytest.raises(UnverifiedCheckpointError):
        export_tables(prefix)
    export_tables(prefix, ["item"], allow_unverified=True)
    assert sorted(of_array(folder / "item" / "key-emb-array.npy")) == sorted(contents[1].block.keys.tolist())
