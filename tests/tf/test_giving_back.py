"""Tables become variables of a checkpoint that TensorFlow reads."""
import json

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import ascpipe.tf as asc
from ascpipe.checkpoint.contents import ColumnVariable
from ascpipe.checkpoint.errors import CheckpointMismatchError, NotConvertedError
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.cli import main
from ascpipe.errors import ArgumentError
from ascpipe.rows import giving_back, tensorflow_names
from ascpipe.rows.renames import renamed
from tests.support.checkpoints import content, position, sliced

DIM = 4


def table(name, keys):
    """A table with these keys in this order, two optimizer slots, and some keys without a row."""
    made = content(name, len(keys), 3, dim=DIM)
    made.block = made.block._replace(keys=np.array(keys, np.int64))
    return made


def save(folder, *tables):
    """Prefix of a checkpoint without variables."""
    with CheckpointWriter(str(folder), "model", 7, dense=False) as writer:
        writer.begin_tables([one.spec for one in tables])
        for one in tables:
            writer.write_table(one.spec.name, sliced(one.block, 5), [one.candidates])
        return writer.commit(position(tables))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(prefix, tables by name): all keys in any order, keys with gaps, and hashes."""
    order = np.random.RandomState(1).permutation(60)
    tables = {"whole": table("whole", order), "gaps": table("gaps", [90, 3, 4, 17]),
              "hashes": table("hashes", [5, -1, 1 << 40])}
    return save(tmp_path_factory.mktemp("saved"), *tables.values()), tables


def require_variable(reader, name, made, rows):
    """A variable and its slots have the bits of a table, and elsewhere zeros and initial values."""
    expected = np.zeros((rows, made.spec.row_floats), np.float32)
    column = DIM
    for slot in made.spec.slots:
        expected[:, column:column + slot.width] = slot.initial
        column += slot.width
    expected[made.block.keys] = made.block.rows
    found = [reader.get_tensor(name + slot) for slot in ("", "/Adam", "/Adam_1")]
    assert np.concatenate(found, 1).tobytes() == expected.tobytes()


@pytest.mark.parametrize("part_bytes", [100, 4 << 20])
def test_rows_and_slots_are_the_bits_of_the_tables(part_bytes, saved, tmp_path, monkeypatch):
    monkeypatch.setattr(giving_back, "_PART_BYTES", part_bytes)
    prefix, tables = saved
    found = asc.to_tensorflow(prefix, ["whole", "gaps"], ["a/whole", "gaps"], str(tmp_path / "new" / "m-7"),
                              rows=[60, 100])
    assert found._asdict() == {
        "checkpoint": str(tmp_path / "new" / "m-7"), "rows": {"a/whole": 60, "gaps": 100},
        "zeros": {"a/whole": 0, "gaps": 96},
        "slots": {"a/whole": ["a/whole/Adam", "a/whole/Adam_1"], "gaps": ["gaps/Adam", "gaps/Adam_1"]}}
    reader = tf.train.load_checkpoint(str(tmp_path / "new"))
    assert len(reader.get_variable_to_shape_map()) == 6
    require_variable(reader, "a/whole", tables["whole"], 60)
    require_variable(reader, "gaps", tables["gaps"], 100)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "checkpoint", "m-7.data-00000-of-00001", "m-7.index"]


@pytest.mark.parametrize("given, error, message", [
    ({"table": "gaps"}, NotConvertedError, "has 4 keys, but its largest key is 90. Pass the number of rows"),
    ({"table": "gaps", "rows": 90}, NotConvertedError, "1 of its 4 keys are not row numbers in \\[0, 90\\), .* 90"),
    ({"table": "hashes"}, NotConvertedError, "1 of its 3 keys are not row numbers in .*, for example -1"),
    ({"table": None, "variable": None}, NotConvertedError, "table 'whole', 'gaps', 'hashes': the checkpoint does not "
                                                           "contain the name of its variable"),
    ({"to": None}, ArgumentError, "there is no name for the new checkpoint"),
    ({"variable": None}, ArgumentError, "1 tables, 0 variables"),
    ({"table": "nobody"}, CheckpointMismatchError, "is not in it; it has whole, gaps, hashes"),
    ({"rows": 0}, ArgumentError, "rows: 0 is"), ({"rows": [60, 60]}, ArgumentError, "1 tables, 1 variables and 2 numb"),
    ({"table": ["whole"] * 2, "variable": ["v", "w"]}, ArgumentError, "The table 'whole' was passed twice"),
    ({"table": ["whole", "gaps"], "variable": ["v", "v"]}, ArgumentError, "The variable 'v' was passed twice")])
def test_what_cannot_become_a_variable_is_an_error(given, error, message, saved, tmp_path):
    with pytest.raises(error, match=message):
        asc.to_tensorflow(saved[0], **{"table": "whole", "variable": "v", "to": str(tmp_path / "new" / "m-7"), **given})
    assert not (tmp_path / "new").exists()


def column(name, keys, variable, buckets):
    """The table of a feature column."""
    made = table(name, keys)
    made.spec = made.spec._replace(column=ColumnVariable(variable, buckets))
    return made


def test_tables_of_feature_columns_know_their_variables(tmp_path):
    tables = [column("a", [3, 0], "scope/a", 5), column("b", [1, 0], "scope/b", 2)]
    prefix = save(tmp_path, *tables)
    found = asc.to_tensorflow(prefix, to=str(tmp_path / "new" / "m-7"))
    assert (dict(found.rows), dict(found.zeros)) == ({"scope/a": 5, "scope/b": 2}, {"scope/a": 3, "scope/b": 0})
    reader = tf.train.load_checkpoint(str(tmp_path / "new"))
    for one in tables:
        require_variable(reader, one.spec.column.name, one, one.spec.column.buckets)
    renamed(prefix, {"a": "c"}, str(tmp_path / "renamed-7"))
    with pytest.raises(NotConvertedError, match="table 'c': the checkpoint does not contain the name of its variable"):
        asc.to_tensorflow(str(tmp_path / "renamed-7"), to=str(tmp_path / "new" / "m-8"))


def test_a_column_with_more_buckets_than_a_variable_has_rows_is_an_error(tmp_path):
    prefix = save(tmp_path, column("a", [3], "scope/a", 2 ** 63 - 1))
    with pytest.raises(NotConvertedError, match="its column has {} buckets, and a variable has".format(2 ** 63 - 1)):
        asc.to_tensorflow(prefix, to=str(tmp_path / "new" / "m-7"))


def test_a_name_that_is_in_use_is_an_error(saved):
    with pytest.raises(ArgumentError, match="is the name of an existing checkpoint"):
        asc.to_tensorflow(saved[0], "whole", "v", saved[0])


@pytest.mark.parametrize("dense, expected", [
    ([], ["v/w/Adam"]), (["k", "k/Adam"], ["v/w/Adam"]),
    (["d/k", "d/k/t_0/Adam"], ["v/w/Adam", "v/w/t_0/Adam"]),
    (["d/k", "training/d/k/Adam", "training/d/k/Adam_1"], ["v/w/Adam", "training/v/w/Adam"])])
def test_slots_have_the_names_that_slots_of_other_variables_have(dense, expected):
    assert tensorflow_names.names_like("v/w", "Adam", dense) == expected


def test_variables_that_an_optimizer_of_ascpipe_trained_have_the_slots_of_tensorflow():
    assert tensorflow_names.reverse_aliases(["k", "k/LazyAdam_0", "k/LazyAdam_0_1", "k/Adagrad_0", "Adagrad_0"]) == {
        "k/Adam": "k/LazyAdam_0", "k/Adam_1": "k/LazyAdam_0_1", "k/Adagrad": "k/Adagrad_0"}


def test_the_command_prints_the_variables(saved, tmp_path):
    def ascpipe(*arguments):
        return CliRunner().invoke(main.main, ["checkpoint", "to-tensorflow", saved[0], *map(str, arguments)])

    to = tmp_path / "m-7"
    done = ascpipe("--table", "gaps", "--variable", "v", "--rows", 91, "--to", to)
    assert (done.exit_code, done.output) == (
        0, "{}  variable v: 91 rows, 87 without a key, slots v/Adam, v/Adam_1\n".format(to))
    done = ascpipe("--table", "whole", "--variable", "v", "--to", tmp_path / "m-8", "--json")
    assert json.loads(done.output)["rows"] == {"v": 60}
    done = ascpipe("--table", "whole", "--table", "gaps", "--variable", "v", "--to", tmp_path / "m-9")
    assert done.exit_code == 2 and "2 --table, 1 --variable and 0 --rows" in done.output
