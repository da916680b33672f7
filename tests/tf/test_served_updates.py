"""A server applies updates while it is used. All lookups of a step read one version, and damage is refused."""
import os

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.checkpoint.contents import Block
from ascpipe.errors import ServingError
from tests.support import checkpoints
from tests.support.waiting import wait_until
from tests.tf import programs

V1 = tf.compat.v1
DIM = 4
KEYS = np.arange(40)
PATIENCE_S = 60.0

pytestmark = [pytest.mark.timeout_s(120), pytest.mark.filterwarnings("ignore:distutils Version classes")]


def content(name, step, keys=KEYS, **spec):
    """A table whose rows have the step as each value."""
    made = checkpoints.content(name, rows=len(keys), candidates=0, dim=DIM, slots=())
    block = Block(keys, np.full((len(keys), DIM), step, np.float32), np.full(len(keys), 7), np.full(len(keys), 7))
    return checkpoints.Content(made.spec._replace(rows=len(keys), **spec), block, made.candidates,
                               deleted=np.zeros(0, np.int64) if "deleted" not in spec else KEYS[-spec["deleted"]:])


def saved(folder, step, parent=None, **spec):
    """A checkpoint of two tables; a delta changes the first 20 keys."""
    keys = KEYS if parent is None else KEYS[:20]
    return checkpoints.save(folder, step, [content(name, step, keys, **spec) for name in ("user", "item")],
                            parent=parent)


class Model:
    """An exported model and a session that serves it."""

    def __init__(self, prefix, folder, watch, every_s=0.02):
        with tf.Graph().as_default(), asc.serving_tables(prefix, watch=str(watch), every_s=every_s):
            ids = V1.placeholder(tf.int64, [None], "ids")
            outputs = {"version": asc.served_version()}
            for name in ("user", "item"):
                table = asc.create_table(name, DIM, initializer=V1.zeros_initializer())
                outputs[name] = asc.sparse_lookup(table, ids, training=False, default_value=-1.0)
            outputs.update(asc.served_updates()._asdict())
            with V1.Session() as session:
                V1.saved_model.simple_save(session, str(folder), {"ids": ids}, outputs,
                                           legacy_init_op=V1.tables_initializer())
            self._graph = tf.Graph()
            self._session = V1.Session(graph=self._graph)
            with self._graph.as_default():
                meta = V1.saved_model.load(self._session, ["serve"], str(folder))
            self._names = {name: each.name for name, each in meta.signature_def["serving_default"].outputs.items()}

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self._session.close()

    def read(self, *names, keys=KEYS):
        found = self._session.run([self._names[name] for name in names], {"ids:0": keys})
        return found[0] if len(names) == 1 else found

    def wait_for(self, name, value):
        wait_until(lambda: self.read(name) == value, PATIENCE_S)


def require(model, step, first, last, deleted=0):
    """The version has this step, these values of the first and the last 20 keys, and these last keys have no row."""
    version, user, item = model.read("version", "user", "item")
    wanted = np.full((40, DIM), last, np.float32)
    wanted[:20] = first
    wanted[40 - deleted:] = -1
    assert version == step
    assert user.tolist() == item.tolist() == wanted.tolist()


def copied(path, folder, cut=0):
    """Copy an update to the directory of a server, without its last bytes."""
    folder.mkdir(exist_ok=True)
    name = os.path.basename(path)
    with open(path, "rb") as file:
        whole = file.read()
    (folder / (name + ".new")).write_bytes(whole[:len(whole) - cut])
    os.rename(str(folder / (name + ".new")), str(folder / name))


def test_a_server_applies_the_updates_of_a_directory_and_starts_with_them(tmp_path):
    written, updates = str(tmp_path / "written"), tmp_path / "updates"
    base = saved(tmp_path, 10)
    with programs.ascpipe():
        with Model(base, tmp_path / "one", updates) as model:
            require(model, 10, 10, 10)
            assert model.read("problem").endswith(b"is read again every 0.02 s")
            full, = asc.export_delta(base, written)
            second = saved(tmp_path, 20, base, deleted=3)
            delta, = asc.export_delta(second, written)
            copied(delta.path, updates, cut=1)
            model.wait_for("refused", 1)
            assert model.read("problem").startswith(b"E341: Update " + os.fsencode(str(updates)))
            require(model, 10, 10, 10)
            copied(delta.path, updates)
            model.wait_for("version", 20)
            require(model, 20, 20, 10, deleted=3)
            assert list(model.read("applied", "refused", "kept_keys")) == [1, 1, 46]
            third = saved(tmp_path, 30, second)
            full, = asc.export_delta(third, written, keep=0)
            copied(full.path, updates)
            model.wait_for("version", 30)
            require(model, 30, 30, 10, deleted=3)
            assert model.read("kept_keys") == 0
        assert sorted(os.listdir(written)) == [".lock", os.path.basename(full.path)]
        with Model(base, tmp_path / "two", written, every_s=1e6) as model:  # loaded later
            require(model, 30, 30, 10, deleted=3)
            assert model.read("sequence") == int(os.path.basename(full.path)[7:23])
        with Model(third, tmp_path / "three", written, every_s=1e6) as model:
            require(model, 30, 30, 10, deleted=3)
            assert list(model.read("applied", "sequence")) == [0, int(os.path.basename(full.path)[7:23])]


def test_a_model_without_updates_has_the_step_of_its_checkpoint(tmp_path):
    with programs.ascpipe():
        with tf.Graph().as_default(), programs.session() as run:
            assert run.run(asc.served_version()) == -1
            with pytest.raises(ServingError, match=r"E275: \S+served_updates\(\) needs a graph that is exported"):
                asc.served_updates()
        with tf.Graph().as_default(), asc.serving_tables(saved(tmp_path, 10)), programs.session() as run:
            assert run.run(asc.served_version()) == 10


@pytest.mark.parametrize(("arguments", "text"), [
    ({"watch": "updates", "ops": "stock"}, "argument watch: updates of 'updates' need ops=\"ascpipe\""),
    ({"watch": ""}, "argument watch"), ({"watch": 3}, "argument watch"), ({"every_s": 0.0}, "argument every_s"),
    ({"every_s": "1"}, "argument every_s"), ({"every_s": 1e7}, "argument every_s"),
])
def test_wrong_arguments_are_refused(arguments, text):
    with programs.ascpipe(), pytest.raises(ValueError, match=text), asc.serving_tables("none/model-1", **arguments):
        pass
