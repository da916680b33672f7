"""Exports with TensorFlow's own ops give what exports with ops of ascpipe give, in a process that knows no ascpipe."""
import errno
import glob
import itertools
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function

import ascpipe.tf as asc
from ascpipe.checkpoint import block_reader, disk
from ascpipe.checkpoint.errors import CheckpointError
from ascpipe.errors import ArgumentError, ServingError
from ascpipe.tf.running import native
from ascpipe.tf.serving import stock_files
from tests.support import checkpoints
from tests.tf import programs
from tests.unit.checkpoint import test_slices

V1 = tf.compat.v1
DIM = 4
INITIALIZERS = {
    "uniform": V1.random_uniform_initializer(-0.3, 0.2), "normal": V1.random_normal_initializer(0.1, 0.3),
    "truncated": V1.truncated_normal_initializer(0.1, 0.3), "pool": V1.orthogonal_initializer(),
    "constant": V1.constant_initializer(0.7), "empty": V1.constant_initializer([0.1, -0.2, 0.3, 0.4])}
DTYPES = ["float32", "float16", "int8"]

pytestmark = [pytest.mark.timeout_s(180), pytest.mark.filterwarnings("ignore:distutils Version classes")]

#: Loads SavedModels by both functions of TensorFlow. Each argument is a directory of one.
SERVER = """
import os, sys
import numpy as np
import tensorflow as tf
inputs, *exported = sys.argv[1:]
if tf.__version__[0] == "1":
    tf.compat.v1.enable_eager_execution()
given = dict(np.load(inputs))
for path in exported:
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        found = session.run({name: tensor.name for name, tensor in signature.outputs.items()},
                            {tensor.name: given[name] for name, tensor in signature.inputs.items()})
        nothing = {tensor.name: given[name][:0] if name in ("ids", "small") else given[name]
                   for name, tensor in signature.inputs.items()}
        assert session.run(signature.outputs["uniform"].name, nothing).shape == (0, 3, 4)
        assert not [op for op in session.graph.get_operations() if op.type.startswith("Asc")]
    loaded = tf.compat.v2.saved_model.load(path, tags=["serve"])
    eager = loaded.signatures["serving_default"](**{name: tf.constant(value) for name, value in given.items()})
    for name, value in found.items():
        assert value.tobytes() == eager[name].numpy().tobytes(), name
    np.savez(os.path.join(path, "results.npz"), **found)
assert not [name for name in sys.modules if name.startswith(("ascpipe", "mx_rec", "zmq"))]
"""


def contents(seed=0):
    """Of each table: keys with rows that are hidden, and keys that are only counted."""
    found = []
    for number, name in enumerate(INITIALIZERS):
        one = checkpoints.content(name, 0 if name == "empty" else 400, 9, dim=DIM, seed=seed + number,
                                  pool_rows=7 if name == "pool" else 0)
        one.block = one.block._replace(counts=one.block.counts % 20)
        found.append(one)
    return found


def inputs(tables):
    """Ids with and without a row, as tensors, and as positions of sparse and ragged ones with empty bags."""
    random = np.random.RandomState(5)
    keys = np.concatenate([np.concatenate([one.block.keys[:60], one.candidates.keys]) for one in tables])
    ids = np.concatenate([keys, random.randint(-2 ** 62, 2 ** 62, 99)])
    ids = random.permutation(ids)[:len(ids) // 3 * 3].reshape(-1, 3)
    bags = np.sort(random.randint(1, 38, 120))
    places = np.array([[bag, np.sum(bags[:at] == bag)] for at, bag in enumerate(bags)], np.int64)
    return {"ids": ids, "small": ids.astype(np.int32), "values": random.permutation(ids.reshape(-1))[:120],
            "weights": random.uniform(0.1, 2, 120).astype(np.float32), "places": places,
            "splits": np.searchsorted(bags, np.arange(41)).astype(np.int64)}


def model(given, *, whole=True):
    """Tensors by name: what all kinds of lookups give; unless ``whole``, lookups of two tables."""
    tables = {name: asc.create_table(name, DIM, initializer=initializer)
              for name, initializer in INITIALIZERS.items() if whole or name in ("uniform", "normal")}
    sparse, weights = (tf.SparseTensor(given["places"], given[name], [40, 50]) for name in ("values", "weights"))
    ragged = tf.RaggedTensor.from_row_splits(given["values"], given["splits"])
    user = tables["normal"]
    spec = asc.FeatureSpec("ids", table_name="normal")
    bags = {"{}_{}_{}".format(combiner, kind, weighted): asc.lookup_sparse(
                user, ids, of_ids if weighted else None, combiner, norm, training=False, default_value=default)
            for (kind, ids, of_ids), combiner, (weighted, norm, default) in itertools.product(
                [("sparse", sparse, weights), ("ragged", ragged, ragged.with_values(given["weights"]))],
                ["sum", "mean", "sqrtn"], [(False, None, 0.5), (True, 1.5, None)])} if whole else {}
    found = {name: asc.sparse_lookup(table, given["ids"], training=False, default_value="initial")
             for name, table in tables.items()}
    if not whole:
        return found
    found.update({
        "int32": asc.sparse_lookup(user, given["small"], training=False, default_value="initial"),
        "by_rule": asc.sparse_lookup(user, given["ids"], training=False),
        "zeros": asc.sparse_lookup(user, spec, batch={"ids": given["ids"]}, training=False, default_value=0.0),
        "numbers": asc.sparse_lookup(user, given["ids"], training=False, default_value=[1.0, 2.0, 3.0, -4.0]),
        "sparse": asc.sparse_lookup(user, sparse, training=False, default_value=7.0),
        "ragged": asc.sparse_lookup(user, ragged, training=False, default_value="initial")})
    return {**found, **bags}


def placeholders(values):
    return {name: V1.placeholder(value.dtype, [None, *value.shape[1:]], name) for name, value in values.items()}


def export(prefix, folder, values, dtype):
    """Export with ops of TensorFlow."""
    with programs.ascpipe(), asc.serving_tables(prefix, ops="stock", dtype=dtype):
        given = placeholders(values)
        found = model(given, whole=dtype == "float32")
        with programs.session() as run:
            V1.saved_model.simple_save(run, folder, given, found, V1.tables_initializer())


def served(prefix, values):
    """What lookups of ascpipe give."""
    with programs.ascpipe(), asc.serving_tables(prefix):
        given = placeholders(values)
        found = model(given)
        with programs.session() as run:
            run.run(V1.tables_initializer())
            return run.run(found, {given[name]: value for name, value in values.items()})


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(what ops of ascpipe give, dtype -> what a process without ascpipe gives, dtype -> folder).

    The checkpoint is a delta that two ranks saved.
    """
    folder = tmp_path_factory.mktemp("exported")
    old = contents()
    prefix = test_slices.save(folder, 6, 2, old)
    new = contents(seed=50)
    prefix = test_slices.save(folder, 7, 2, new, parent=prefix)
    values = inputs([*old, *new])
    wanted = served(prefix, values)
    paths = {dtype: str(folder / dtype) for dtype in DTYPES}
    for dtype, path in paths.items():
        export(prefix, path, values, dtype)
    np.savez(str(folder / "inputs.npz"), **values)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SERVER, str(folder / "inputs.npz"), *paths.values()],
                          check=False, cwd=str(folder), env={**os.environ, "PYTHONPATH": ""}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return wanted, {dtype: dict(np.load(os.path.join(path, "results.npz"))) for dtype, path in paths.items()}, paths


def test_lookups_of_tensorflow_give_the_rows_and_initial_rows_of_ascpipe(exported):
    wanted, found, _ = exported
    assert found["float32"].keys() == wanted.keys() and len(wanted) == 24
    for name, value in wanted.items():
        assert value.any()
        if name.split("_")[0] in ("sum", "mean", "sqrtn"):  # TensorFlow adds rows in another order
            np.testing.assert_allclose(found["float32"][name], value, rtol=1e-6, atol=1e-6, err_msg=name)
        else:
            assert found["float32"][name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("dtype, bound", [
    ("float16", lambda rows: np.maximum(np.abs(rows) * 2.0 ** -11, 2.0 ** -25)),
    ("int8", lambda rows: np.abs(rows).max(axis=-1, keepdims=True) / 253)])
def test_rows_of_fewer_bits_are_within_the_documented_error(dtype, bound, exported):
    wanted, found, _ = exported
    assert found[dtype].keys() == {"uniform", "normal"}
    for name, rows in found[dtype].items():
        error = np.abs(rows - wanted[name])
        assert (error <= bound(wanted[name])).all()
        assert (error == 0).all(axis=-1).any()  # initial rows are exact
        assert (error > 0).any()


def load(path):
    with V1.Session(graph=tf.Graph()) as session:
        V1.saved_model.load(session, ["serve"], path)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def copied(name, of):
    def copy(assets):
        for path in glob.glob(os.path.join(of or str(assets), name + ".*")):
            shutil.copy(path, str(assets / os.path.basename(path).replace(name, "normal")))

    return copy


def test_a_model_with_damaged_or_missing_files_is_not_loaded(exported, tmp_path):
    _, _, paths = exported
    data = "normal.stock.data-0000{}-of-00003"
    others = os.path.join(paths["float32"], "assets")
    for number, (error, text, change) in enumerate([
            (tf.errors.DataLossError, "hecksum", lambda assets: flip(assets / data.format(0))),
            (tf.errors.DataLossError, "hecksum", lambda assets: flip(assets / data.format(1))),
            (tf.errors.OpError, data.format(1), lambda assets: (assets / data.format(1)).unlink()),
            (tf.errors.OpError, "normal.stock", lambda assets: (assets / "normal.stock.index").unlink()),
            (tf.errors.InvalidArgumentError, "expected dtype half does not equal original dtype float",
             copied("normal", others)),
            (tf.errors.InvalidArgumentError, "Table normal: the files in the assets are of another export. Copy the "
             "whole SavedModel", copied("uniform", None))]):
        copy = tmp_path / str(number)
        shutil.copytree(paths["float16"], str(copy))
        load(str(copy))
        change(copy / "assets")
        with pytest.raises(error, match=text):
            load(str(copy))


def saved(folder, rows=30, change=None):
    one = checkpoints.content("user", rows, 0, dim=DIM)
    one.block = one.block._replace(counts=one.block.counts + 99)
    if change is not None:
        change(one.block.rows)
    return checkpoints.save(str(folder), 6, [one]), one.block


def look_up(ids=None):
    table = asc.create_table("user", DIM, initializer=V1.zeros_initializer())
    return asc.sparse_lookup(table, V1.placeholder(tf.int64, [None]) if ids is None else ids, training=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where ascpipe writes the files of an export."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("dtype, value, limit", [
    ("float16", 70000.0, "65504.0"), ("float16", np.nan, "65504.0"), ("int8", np.inf, "3.40")])
def test_a_row_that_the_dtype_cannot_represent_is_not_exported(dtype, value, limit, folder):
    prefix, block = saved(folder, change=lambda rows: rows.__setitem__((20, 2), value))
    with programs.ascpipe(), pytest.raises(ServingError, match="E275: Table 'user' was not exported with {} rows: the "
                                           "row of key {} has the value {}.*is {}.*dtype=\"float32\"".format(
                                               dtype, block.keys[20], value, limit)):
        with asc.serving_tables(prefix, ops="stock", dtype=dtype):
            look_up()
    assert not list(folder.glob("ascpipe-export-*"))


def test_rows_are_written_in_parts(folder, monkeypatch):
    prefix, block = saved(folder)
    monkeypatch.setattr(stock_files, "_PART_BYTES", 200)
    monkeypatch.setattr(block_reader, "_BLOCK_BYTES", 100)
    with programs.ascpipe(), asc.serving_tables(prefix, ops="stock", dtype=tf.float32):
        rows = look_up(tf.constant(block.keys))
        assert len(list(folder.glob("ascpipe-export-*/user.stock.data-*"))) > 4
        with programs.session() as run:
            run.run(V1.tables_initializer())
            run.run(V1.tables_initializer())  # nothing changes
            assert run.run(rows).tobytes() == np.ascontiguousarray(block.rows[:, :DIM]).tobytes()


def refuse(*_args, **_kwargs):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail(*_args, **_kwargs):
    raise tf.errors.ResourceExhaustedError(None, None, "user.stock; No space left on device")


@pytest.mark.parametrize("where, name, action", [(disk, "sync", refuse), (stock_files._Writer, "finish", fail)])
def test_a_full_disk_says_what_was_not_exported_and_leaves_no_file(where, name, action, folder, monkeypatch):
    prefix, _ = saved(folder)
    with programs.ascpipe(), asc.serving_tables(prefix, ops="stock"):
        monkeypatch.setattr(where, name, action)
        with pytest.raises(CheckpointError, match="E500: Table 'user' was not exported to .*: .*No space left"):
            look_up()
        assert [list(each.iterdir()) for each in folder.glob("ascpipe-export-*")] == [[]]


def test_ops_of_ascpipe_in_the_graph_or_its_functions_are_an_error(folder):
    prefix, _ = saved(folder)

    @function.Defun(tf.int64)
    def foreign(x):
        return native.ops().asc_served_lookup(
            table=native.ops().asc_served_table(shared_name="one", name="one"), keys=x, default_row=0.0, dim=1)

    for use in (lambda: native.ops().asc_served_table(shared_name="one", name="one"),
                lambda: foreign(tf.zeros([1], tf.int64))):
        with programs.ascpipe(), pytest.raises(ServingError, match="E275: .*ops=\"stock\" has ops of ascpipe: .*"
                                               "AscServedTable .'one'.*Delete the SavedModel"):
            with asc.serving_tables(prefix, ops="stock"):
                look_up()
                use()


def test_unknown_ops_and_dtypes_are_refused(tmp_path):
    prefix, _ = saved(tmp_path)
    for how, text in (({"ops": "tensorflow"}, "ops: 'tensorflow' is not one of 'ascpipe', 'stock'"),
                      ({"ops": "stock", "dtype": "float64"}, "dtype: 'float64' is not one of 'float32', 'float16', "),
                      ({"ops": "stock", "dtype": tf.int32}, "dtype: 'int32' is not one of"),
                      ({"dtype": "int8"}, "dtype: rows of int8 need ops=\"stock\"")):
        with programs.ascpipe(), pytest.raises(ArgumentError, match="E260: .*" + text), asc.serving_tables(
                prefix, **how):
            pass
