"""Models that were trained on real clicks and ratings, exported with TensorFlow's own ops in each dtype of rows.

A process without ascpipe gives what the training program predicts; rows of fewer bits stay within the documented error.
"""
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from examples.dlrm import auc
from tests.support import traces
from tests.tf import programs

V1 = tf.compat.v1
DIM = 16
BATCH = 512
#: dtype -> how far the held-out AUC may be from the AUC of float32 rows
DTYPES = {"float32": 0.0, "float16": 1e-4, "int8": 2e-3}
#: held-out AUC of float32 rows; docs/how-to/saved_models.md has the changes with other types
AREAS = {"movielens": 0.72865, "criteo": 0.66875}

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.filterwarnings("ignore:distutils Version classes")]

#: Loads SavedModels and gives their outputs for a file of ids.
SERVER = """
import os, sys
import numpy as np
import tensorflow as tf
for path in sys.argv[1:]:
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        ids = np.load(os.path.join(os.path.dirname(path), "ids.npy"))
        np.savez(os.path.join(path, "results.npz"), **session.run(
            {name: tensor.name for name, tensor in signature.outputs.items()}, {signature.inputs["ids"].name: ids}))
assert not [name for name in sys.modules if name.startswith(("ascpipe", "mx_rec"))]
"""


def movielens():
    """Pairs of users and movies that were rated, and as many random pairs."""
    keys = traces.read("movielens")[:60000]
    random = np.random.RandomState(3)
    others = np.stack([random.permutation(keys[:, 0]), random.choice(np.unique(keys[:, 1]), len(keys))], axis=1)
    order = random.permutation(2 * len(keys))
    labels = np.repeat([1, 0], len(keys)).astype(np.float32)
    return np.concatenate([keys, others])[order], labels[order]


def criteo():
    """26 categorical fields of the sample, and whether the advertisement was clicked; three epochs."""
    keys = traces.read("criteo")
    text = (traces.FOLDER / "criteo/criteo_kaggle_8k.tsv").read_text()
    labels = np.array([float(line.split("\t")[0]) for line in text.splitlines()], np.float32)
    train = np.concatenate([np.random.RandomState(seed).permutation(6400) for seed in range(3)])
    order = np.concatenate([train, np.arange(6400, len(keys))])
    return keys[order], labels[order]


def logit(rows):
    """A factorization machine; the last element of a row is the weight of its key."""
    factors = rows[..., :-1]
    pairs = tf.reduce_sum(tf.square(tf.reduce_sum(factors, axis=1)) - tf.reduce_sum(tf.square(factors), axis=1), axis=1)
    return tf.reduce_sum(rows[..., -1], axis=1) + 0.5 * pairs


def new_table(keys):
    return asc.create_table("ids", DIM, initializer=V1.random_normal_initializer(stddev=0.05, seed=5),
                            device_vocabulary_size=len(np.unique(keys)))


def trained(keys, labels, held_out, prefix):
    """Train and save. Return the rows and logits of the examples that were held out."""
    spec = asc.FeatureSpec("ids", table_name="ids")

    def read(part, training):
        data = tf.data.Dataset.from_tensor_slices({"ids": keys[part], "label": labels[part]}).batch(BATCH)
        iterator = V1.data.make_initializable_iterator(
            data.map(asc.insert_function([spec], training=training)).prefetch(8))
        batch = iterator.get_next()
        return iterator, batch, asc.sparse_lookup(
            table, spec, batch=batch, training=training, default_value=None if training else "initial")

    with programs.ascpipe():
        table = new_table(keys)
        train, batch, rows = read(slice(None, -held_out), True)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=logit(rows)))
        step = asc.optimizers.LazyAdam(0.01).minimize(loss)
        evaluation, _, evaluated = read(slice(-held_out, None), False)
        score = logit(evaluated)
        saver = asc.Saver()
        asc.start()
        with programs.session() as run:
            run.run([V1.global_variables_initializer(), train.initializer, evaluation.initializer])
            for _ in range(-(-(len(keys) - held_out) // BATCH)):
                run.run(step)
            saver.save(run, prefix)
            found = [run.run([evaluated, score]) for _ in range(-(-held_out // BATCH))]
    return [np.concatenate(each) for each in zip(*found)]


def export(prefix, folder, keys, dtype):
    with programs.ascpipe(), asc.serving_tables(prefix, ops="stock", dtype=dtype):
        ids = V1.placeholder(tf.int64, [None, keys.shape[1]])
        rows = asc.sparse_lookup(new_table(keys), ids, training=False, default_value="initial")
        with programs.session() as run:
            V1.saved_model.simple_save(
                run, folder, {"ids": ids}, {"rows": rows, "logit": logit(rows)}, V1.tables_initializer())


def test_real_models_give_the_predictions_of_the_program_and_nearly_the_same_auc_with_fewer_bits(tmp_path):
    wanted = {}
    for name, read in (("movielens", movielens), ("criteo", criteo)):
        keys, labels = read()
        held_out = 1600
        (tmp_path / name).mkdir()
        prefix = str(tmp_path / name / "model.ckpt-1")
        wanted[name] = (*trained(keys, labels, held_out, prefix), labels[-held_out:])
        np.save(str(tmp_path / name / "ids.npy"), keys[-held_out:])
        for dtype in DTYPES:
            export(prefix, str(tmp_path / name / dtype), keys, dtype)
    paths = [str(tmp_path / name / dtype) for name in wanted for dtype in DTYPES]
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SERVER, *paths], check=False, cwd=str(tmp_path),
                          env={**os.environ, "PYTHONPATH": ""}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    for name, (rows, logits, labels) in wanted.items():
        area = auc.area_under_curve(labels, logits)
        assert area == pytest.approx(AREAS[name], abs=0.005)
        for dtype, apart in DTYPES.items():
            with np.load(str(tmp_path / name / dtype / "results.npz")) as found:
                error = np.abs(found["rows"] - rows)
                bound = {"float32": np.zeros_like(rows), "float16": np.maximum(np.abs(rows) * 2.0 ** -11, 2.0 ** -25),
                         "int8": np.abs(rows).max(axis=-1, keepdims=True) / 253}[dtype]
                assert (error <= bound).all()
                assert error.any() == (dtype != "float32")
                if dtype == "float32":
                    np.testing.assert_allclose(found["logit"], logits, rtol=1e-6, atol=1e-6)
                assert abs(auc.area_under_curve(labels, found["logit"]) - area) <= apart + 1e-9
