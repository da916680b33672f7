"""Checkpoints of TensorFlow's Saver are read, copied and converted without TensorFlow."""
import json
import os
import pathlib
import random
import shutil

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import ascpipe.tf as asc
from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import SlotSpec, TableSpec
from ascpipe.checkpoint.errors import CheckpointError, DamagedCheckpointError, NoCheckpointError, NotConvertedError
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.cli import main
from ascpipe.errors import ArgumentError
from ascpipe.rows import bundles, checksums, tensorflow_names
from ascpipe.rows.bundle_format import Entry, decoded_index, encoded_index, slice_key
from ascpipe.rows.bundles import Bundle, BundleWriter
from ascpipe.rows.taking_over import Variable, blocks_of, source_of

pytestmark = pytest.mark.usefixtures("files_need_not_outlive_the_machine")

VARIABLES = 300  #: their long names do not fit into one block of the index


@pytest.fixture
def files_need_not_outlive_the_machine(monkeypatch):
    """Skip the waits for the disk."""
    monkeypatch.setattr(disk, "sync", os.fstat)
    monkeypatch.setattr(disk, "sync_all", lambda fds: None)


def save(folder, variables, parts=(), **options):
    """Prefix of a checkpoint of plain TensorFlow. ``parts``: (name, shape, axis, number of parts)."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = [tf.compat.v1.Variable(value, name=name) for name, value in variables.items()]
        for number, (name, shape, axis, count) in enumerate(parts):
            made.append(tf.compat.v1.get_variable(
                name, shape, initializer=tf.compat.v1.random_normal_initializer(seed=number),
                partitioner=tf.compat.v1.fixed_size_partitioner(count, axis)))
        session.run(tf.compat.v1.global_variables_initializer())
        folder.mkdir(exist_ok=True)
        return tf.compat.v1.train.Saver(made, **options).save(session, str(folder / "model"), 7, write_meta_graph=False)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A checkpoint with many names, several types, parts in both dimensions, and large offsets of slices."""
    folder = tmp_path_factory.mktemp("many")
    values = {"a{:03d}/{}".format(number, "x" * (900 + number % 90)): np.float32(number) for number in range(VARIABLES)}
    values.update(step=np.int64(-5), half=np.float16([1, 2]), text=np.array([b"ab", b"\0\xff"]),
                  empty=np.zeros((0, 3), np.float32), flag=True)
    return save(folder, values, [("rows", [20001, 3], 0, 3), ("columns", [5, 200], 1, 3), ("vector", [70000], 0, 2)])


def same_as_tensorflow_reads(prefix, expected):
    """The tensors of two checkpoints are the same, as TensorFlow reads them."""
    readers = [tf.train.load_checkpoint(each) for each in (prefix, expected)]
    shapes = readers[0].get_variable_to_shape_map()
    assert shapes == readers[1].get_variable_to_shape_map()
    for name in shapes:
        one, other = (reader.get_tensor(name) for reader in readers)
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())


def test_a_copy_has_all_tensors(many, tmp_path):
    with Bundle(many) as bundle, BundleWriter(str(tmp_path), "copy") as writer:
        bundle.verify()
        assert len(bundle.tensors) == VARIABLES + 8
        for name in bundle.tensors:
            writer.copy(bundle, name)
        writer.alias("again", "rows")
        writer.finish()
        values = {name: bundle.rows(bundle.pieces(name), 0, *bundle.tensors[name].shape)
                  for name in ("rows", "columns")}
        last = bundle.rows(bundle.pieces("vector"), 69990, 10, 1)
    reader = tf.train.load_checkpoint(str(tmp_path / "copy"))
    for name, value in values.items():
        assert value.tobytes() == reader.get_tensor(name).tobytes()
    assert values["rows"].tobytes() == reader.get_tensor("again").tobytes()
    assert last.tobytes() == reader.get_tensor("vector")[69990:].tobytes()
    with Bundle(str(tmp_path / "copy")) as copied, BundleWriter(str(tmp_path), "whole") as writer:
        for name in copied.tensors:
            if name != "again":
                writer.copy(copied, name)
        writer.finish()
    same_as_tensorflow_reads(str(tmp_path / "whole"), many)


@pytest.mark.parametrize("part, expected", [
    (((0, -1),), b"\0v\0\1\1\1\x80\x7f"), (((63, 64),), b"\0v\0\1\1\1\xbf\xc0\x40"),
    (((-64, -65),), b"\0v\0\1\1\1\x40\x3f\xbf"), (((8191, 8192),), b"\0v\0\1\1\1\xdf\xff\xe0\x20\x00"),
    (((1 << 31, 2),), b"\0v\0\1\1\1\xf8\x80\x00\x00\x00\x82"),
    (((0, 2 ** 63 - 1),), b"\0v\0\1\1\1\x80\xff\xc0" + b"\x7f" + b"\xff" * 7)])
def test_keys_of_slices_are_ordered_codes(part, expected):
    assert slice_key("v", part) == expected


def test_checksums_of_parts_are_combined():
    content = bytes(range(256)) * 40
    for sizes in ([10240], [1, 10239], [4000, 4000, 2240], [10240, 0], [0, 5, 10235]):
        crc = checksums.Crc()
        start = 0
        for size in sizes:
            crc.update(content[start:start + size])
            start += size
        assert crc.masked() == checksums.masked(content)
    assert checksums.Crc().masked() == checksums.masked(b"") == 0xA282EAD8


def test_damage_is_found_or_harmless(tmp_path):
    prefix = save(tmp_path / "small", {"v": np.arange(12, dtype=np.float32).reshape(4, 3), "step": np.int64(3)},
                  [("p", [6, 2], 0, 2)])
    expected = converted(prefix, tmp_path / "expected", "v")
    files = [prefix + ".index", prefix + ".data-00000-of-00001"]
    contents = {name: pathlib.Path(name).read_bytes() for name in files}
    chance = random.Random(2)
    outcomes = set()
    for number in range(150):
        name = files[number % 2]
        damaged = bytearray(contents[name])
        place = chance.randrange(len(damaged))
        if number % 3:
            damaged[place] ^= 1 << chance.randrange(8)
        else:
            del damaged[place:]
        pathlib.Path(name).write_bytes(damaged)
        to = tmp_path / "to"
        try:
            assert converted(prefix, to, "v") == expected
            outcomes.add("harmless")
        except DamagedCheckpointError:
            outcomes.add("found")
            assert not to.exists()
        pathlib.Path(name).write_bytes(contents[name])
        shutil.rmtree(str(to), ignore_errors=True)
    assert outcomes <= {"found", "harmless"} and "found" in outcomes


def converted(prefix, folder, *variables):
    """Rows of the tables ``t0``, ``t1`` and so on after a conversion."""
    tables = ["t{}".format(number) for number in range(len(variables))]
    found = asc.from_tensorflow(prefix, list(variables), tables, str(folder / "model-7"), partition_strategy="div")
    with open_checkpoint(found.checkpoint) as checkpoint:
        return [[(block.keys.tolist(), block.rows.tolist()) for block in checkpoint.blocks(table)] for table in tables]


def test_blocks_of_rows_are_read_from_parts(many, tmp_path, monkeypatch):
    whole = converted(many, tmp_path / "whole", "rows", "columns", "vector")
    monkeypatch.setattr("ascpipe.rows.taking_over._PART_BYTES", 30000)
    monkeypatch.setattr(bundles, "_CHUNK_BYTES", 1000)
    blocks = converted(many, tmp_path / "blocks", "rows", "columns", "vector")
    reader = tf.train.load_checkpoint(many)
    for name, one, other in zip(("rows", "columns", "vector"), whole, blocks):
        value = reader.get_tensor(name)
        for found in (one, other):
            assert np.concatenate([keys for keys, _ in found]).tolist() == list(range(len(value)))
            rows = np.concatenate([rows for _, rows in found]).astype(np.float32)
            assert rows.tobytes() == value.tobytes()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    rows = np.ones((3, 2), np.float32)
    return save(tmp_path_factory.mktemp("plain"), {
        "v": rows, "v/Adagrad": rows, "v/Odd": rows[:, :1], "double": np.float64(rows), "cube": rows[:, :, None],
        "none": rows[:0], "a/v": rows, "a/v/Adagrad": rows, "s/a/v/Adam": rows, "v/beta": np.float32(1)},
        [("p", [6, 2], 0, 2), ("both", [4, 4], 0, 2)])


REFUSED = {
    "missing": ({"variable": "w"}, "'w': it is not in the checkpoint. The checkpoint has \\['a/v', "),
    "double": ({"variable": "double"}, "'double': it has the type 2 and the shape \\[3, 2\\]"),
    "cube": ({"variable": "cube"}, "shape \\[3, 2, 1\\], and a table needs float32 \\(type 1\\)"),
    "none": ({"variable": "none"}, "it has no rows, so it is the variable of a feature column"),
    "parts": ({"variable": "p"}, "it has 2 parts, and the row of an id depends on .* 'mod', the default"),
    "vocabulary": ({"keys": "vocabulary:{}/two"}, "two: it has 2 lines, but 'v' has 3 rows"),
    "twice": ({"keys": "vocabulary:{}/twice"}, "twice: lines 1 and 3 have the same key 5"),
    "absent": ({"keys": "vocabulary:{}/absent"}, "absent: it cannot be read: .*No such file"),
    "bytes": ({"keys": "vocabulary:{}/bytes"}, "bytes: it cannot be read: .*utf-8"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_become_a_table_is_an_error(name, small, tmp_path):
    given, message = REFUSED[name]
    for file, content in (("two", b"1\n2\n"), ("twice", b"5\r\n-6\n5"), ("bytes", b"\xff\n1\n2\n")):
        (tmp_path / file).write_bytes(content)
    given = {"variable": "v", "table": "t", **given}
    if "keys" in given:
        given["keys"] = given["keys"].format(tmp_path)
    with pytest.raises(NotConvertedError, match=message):
        asc.from_tensorflow(small, to=str(tmp_path / "new" / "model-7"), **given)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("given, message", [
    ({"keys": "vocabulary:"}, "keys='vocabulary:' is not allowed"),
    ({"keys": ["identity"] * 2}, "1 variables, 1 tables"),
    ({"table": "a-b"}, "The name 'a-b' of a table is not allowed"), ({"partition_strategy": "odd"}, "'odd' is not one"),
    ({"variable": ["v", "v"], "table": ["t", "u"]}, "The variable 'v' was passed twice"),
    ({"variable": ["v", "a/v"], "table": ["t", "t"]}, "The table 't' was passed twice"),
    ({"variable": ["v", "a/v"]}, "There are 2 variables, 1 tables")])
def test_wrong_arguments_are_errors(given, message, small, tmp_path):
    with pytest.raises(ArgumentError, match=message):
        asc.from_tensorflow(small, **{"variable": "v", "table": "t", "to": str(tmp_path / "new" / "model-7"), **given})
    assert not (tmp_path / "new").exists()


def test_the_checkpoint_of_tensorflow_is_never_replaced(small, tmp_path):
    with pytest.raises(ArgumentError, match="is the name of an existing checkpoint"):
        asc.from_tensorflow(small, "v", "t", small)
    with pytest.raises(NoCheckpointError):
        asc.from_tensorflow(str(tmp_path / "model-8"), "v", "t", str(tmp_path / "model-9"))


def test_slots_belong_to_the_longest_name_of_a_variable(small):
    with Bundle(small) as bundle:
        slots = {name: tensorflow_names.slots_of(name, bundle.tensors) for name in ("v", "a/v")}
    assert slots == {"v": {"Adagrad": ["v/Adagrad"], "Odd": ["v/Odd"]},
                     "a/v": {"Adagrad": ["a/v/Adagrad"], "Adam": ["s/a/v/Adam"]}}


def test_slots_of_an_optimizer_with_another_name_are_taken_in_their_order(tmp_path):
    values = {name: np.full((2, 3), number, np.float32) for number, name in enumerate(("v", "v/Mine_1", "v/Mine"))}
    prefix = save(tmp_path / "mine", values)
    slots = tuple(SlotSpec(name, 3, 0.0) for name in ("ftrl_accum", "ftrl_linear"))
    spec = TableSpec("t", 3, "int64", slots, 0, 0, None, None)
    with Bundle(prefix) as bundle:
        source = source_of(bundle, Variable("v", "t"), spec)
        block, = blocks_of(bundle, source)
        with pytest.raises(NotConvertedError, match="slots ftrl_accum, but the checkpoint has Mine, Mine_1"):
            source_of(bundle, Variable("v", "t"), spec._replace(slots=slots[:1]))
        with pytest.raises(NotConvertedError, match="rows of 3 floats, but table 't' has 4"):
            source_of(bundle, Variable("v", "t"), spec._replace(dim=4))
    assert (block.keys.tolist(), [part[0, 0] for part in block.parts]) == ([0, 1], [0.0, 2.0, 1.0])


def test_slots_of_parts_are_one_slot():
    tensors = {name: Entry(1, (6, 2)) for name in (
        "m/emb", "m/emb/t_0/Adam", "m/emb/t_1/Adam", "m/emb/t_0/Adam_1", "m/emb/t_1/Adam_1", "m/other/Adam", "m/other")}
    assert tensorflow_names.slots_of("m/emb", tensors) == {
        "Adam": ["m/emb/t_0/Adam", "m/emb/t_1/Adam"], "Adam_1": ["m/emb/t_0/Adam_1", "m/emb/t_1/Adam_1"]}


def test_second_names_are_names_of_optimizers_of_ascpipe():
    assert tensorflow_names.aliases(["k/Adam", "k/Adam_1", "k/Ftrl_1", "beta1_power", "s/beta2_power", "Adam"]) == {
        "k/LazyAdam_0": "k/Adam", "k/LazyAdam_0_1": "k/Adam_1", "k/Ftrl_0_1": "k/Ftrl_1",
        "beta1_power_1": "beta1_power", "s/beta2_power_1": "s/beta2_power"}


def ascpipe(*arguments):
    return CliRunner().invoke(main.main, ["checkpoint", *map(str, arguments)], standalone_mode=True)


def test_the_command_prints_the_tables(small, tmp_path):
    to = tmp_path / "tables" / "model-7"
    (tmp_path / "keys.txt").write_text("7\n-9\n8\n")
    done = ascpipe("from-tensorflow", small, "--variable", "v", "--table", "user", "--variable", "p", "--table", "item",
                   "--keys", "vocabulary:{}".format(tmp_path / "keys.txt"), "--keys", "hash_bucket",
                   "--partition-strategy", "mod", "--to", to)
    assert (done.exit_code, done.output.splitlines()) == (0, [
        "{}  table user: 3 rows, slots Adagrad_accumulator, Odd".format(to),
        "{}  table item: 6 rows, slots (none)".format(to), "{}  8 variables copied".format(to)])
    with open_checkpoint(str(to)) as checkpoint:
        user, = checkpoint.blocks("user")
        item, = checkpoint.blocks("item")
        assert [(slot.name, slot.width, slot.initial) for slot in checkpoint.tables["user"].slots] == [
            ("Adagrad_accumulator", 2, 0.1), ("Odd", 1, 0.0)]
    assert (user.keys.tolist(), item.keys.tolist()) == ([7, -9, 8], [0, 2, 4, 1, 3, 5])
    done = ascpipe("from-tensorflow", small, "--variable", "v", "--table", "user", "--to", tmp_path / "b-7", "--json")
    assert json.loads(done.output)["slots"] == {"user": ["Adagrad_accumulator", "Odd"]}
    shapes = tf.train.load_checkpoint(str(tmp_path / "b-7")).get_variable_to_shape_map()
    assert (shapes["v"], shapes["a/v"], shapes["a/v/Adagrad_0"], "v/Adagrad" in shapes) == (
        [0, 2], [3, 2], [3, 2], False)


@pytest.mark.parametrize("arguments, message", [
    (["--variable", "v", "--variable", "p", "--table", "t"], "2 --variable and 1 --table"),
    (["--variable", "v", "--table", "t", "--keys", "identity", "--keys", "identity"], "1 --variable and 2 --keys")])
def test_wrong_usage_has_exit_code_2(arguments, message, small, tmp_path):
    done = ascpipe("from-tensorflow", small, *arguments, "--to", tmp_path / "model-7")
    assert done.exit_code == 2 and message in done.output


def test_texts_without_tensorflow_are_one_error(small, tmp_path, monkeypatch):
    (tmp_path / "texts").write_text("a\nb\nc\n")

    def absent(name):
        raise ImportError("No module named 'tensorflow'")

    monkeypatch.setattr("ascpipe.rows.vocabularies.importlib.import_module", absent)
    with pytest.raises(CheckpointError, match="E533.*line 1 is 'a', which is not an integer, and the keys of texts "
                                              "need TensorFlow, which cannot be imported"):
        asc.from_tensorflow(small, "v", "t", str(tmp_path / "model-7"), keys="vocabulary:{}".format(tmp_path / "texts"))


def changed(entry, chance):
    """An entry with another value in one field."""
    field = chance.choice(Entry._fields)
    number = chance.choice([0, 1, 3, 7, 4096, 1 << 31, (1 << 61) + 5, 1 << 63])
    if field == "shape":
        return entry._replace(shape=tuple(chance.choice([0, 1, 2, 3, 6, 1 << 62]) for _ in range(chance.randrange(4))))
    if field == "slices":
        return entry._replace(slices=tuple(
            tuple((chance.choice([-1, 0, 2, 1 << 62]), chance.choice([-1, 0, 3, 1 << 62]))
                  for _ in range(chance.randrange(3))) for _ in range(chance.randrange(3))))
    return entry._replace(**{field: number & 0xFFFFFFFF if field == "crc" else number})


def test_invalid_entries_with_right_checksums_are_coded_errors(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    prefix = save(tmp_path / "small", {"v": rows, "v/Adagrad": rows, "step": np.int64(3), "text": np.array([b"a"])},
                  [("p", [6, 2], 0, 2)])
    index = pathlib.Path(prefix + ".index")
    shards, entries = decoded_index(index.read_bytes(), checksums.masked)
    chance = random.Random(3)
    failed = 0
    for _ in range(120):
        key = chance.choice(sorted(entries))
        new = {**entries, key: changed(entries[key], chance)}
        if chance.random() < 0.1:
            new[b"v/\xff" + key] = new.pop(key)
        index.write_bytes(encoded_index(chance.choice([shards] * 9 + [0, 2]), new, checksums.masked))
        try:
            converted(prefix, tmp_path / "to", "v", "p")
        except CheckpointError:
            failed += 1
            assert not (tmp_path / "to").exists()
        shutil.rmtree(str(tmp_path / "to"), ignore_errors=True)
    assert failed > 50
