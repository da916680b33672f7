"""What ``import mx_rec`` replaces in TensorFlow is what ``ascpipe/tf/patches.py`` lists, and ``undo`` gives it back."""
import json
import subprocess
import sys

import pytest
import tensorflow as tf

from ascpipe.tf import patches
from ascpipe.tf.incumbent.ascend.iterations import set_iteration_per_loop
from tests.support import tree

PROGRAM = """
import json
import tensorflow as tf
from tensorflow_estimator.python.estimator import estimator
from tensorflow_estimator.python.estimator.export import export_lib
from tensorflow_estimator.python.estimator.canned import linear
from tensorflow.python.client import session
from tensorflow.python.feature_column import feature_column, feature_column_v2
from tensorflow.python.keras.optimizer_v2 import optimizer_v2
from tensorflow.python.keras.engine import training
from tensorflow.python.framework import graph_util_impl, importer
from tensorflow.python.ops import embedding_ops
from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.eager import backprop
from tensorflow.python.ops import gradients_util
from tensorflow.python.training import checkpoint_utils, warm_starting_util

OWNERS = [graph_util_impl, importer, gradients_util, backprop.GradientTape, training.Model, optimizer_v2.OptimizerV2,
          feature_column_v2._StateManagerImpl, feature_column_v2.EmbeddingColumn,
          feature_column_v2.SharedEmbeddingColumnCreator, feature_column._SharedEmbeddingColumn,
          feature_column._FCLinearWrapper, embedding_ops, linear, linear.LinearSDCA,
          tf.compat.v1.train.Saver, tf.compat.v1.train.CheckpointSaverHook, tf.compat.v1.train.Scaffold, tf.Graph,
          tf.compat.v1.train.ChiefSessionCreator, tf.compat.v1.train.Optimizer, tf.compat.v1.train.MonitoredSession,
          tf.compat.v1.train.WorkerSessionCreator, tf.compat.v1.train.SessionManager, tf.compat.v1.train.Supervisor,
          tf.compat.v1.Session,
          estimator.Estimator, export_lib, session.BaseSession, dataset_ops.DatasetV2, dataset_ops.DatasetV1,
          iterator_ops.Iterator, tf.train.ExponentialMovingAverage, warm_starting_util, checkpoint_utils,
          tf.Operation, tf.Tensor, tf.Variable]

def attributes():
    return {(owner.__name__.split(".")[-1], name): value for owner in OWNERS for name, value in vars(owner).items()
            if not (name.startswith("__") and name != "__init__")}

def changed(before, after):
    return sorted(".".join(key) for key in {**before, **after} if before.get(key) is not after.get(key))

before = attributes()
import mx_rec
import mx_rec.util.initialize
from ascpipe.tf import patches
replaced = changed(before, attributes())
patches.undo()
print(json.dumps({"replaced": replaced, "left": changed(before, attributes()), "listed": sorted(
    patch.path if "." in patch.path else patch.module.split(".")[-1] + "." + patch.path
    for patch in patches.PATCHES)}))
"""


def test_what_is_replaced_is_what_is_listed_and_undo_gives_it_back():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], cwd=str(tree.ROOT), timeout=100,
                          stdout=subprocess.PIPE, check=True)
    said = json.loads(done.stdout)
    assert said["replaced"] == said["listed"]
    assert said["left"] == []


def test_every_patch_says_what_it_is_for_and_stands_in_the_documents():
    text = (tree.ROOT / "docs/how-to/from-mx_rec.md").read_text()
    for patch in patches.PATCHES:
        assert patch.purpose
        assert "`{}`".format(patch.path) in text, patch.path


def test_undo_gives_a_session_its_own_methods_back(monkeypatch):
    monkeypatch.setattr(patches, "PATCHES", [])
    number = tf.compat.v1.get_variable("number", [], tf.int32, tf.compat.v1.zeros_initializer())
    with tf.compat.v1.Session() as session:
        loop = set_iteration_per_loop(session, number.assign_add(1).op, 3)
        session.run(number.initializer)
        session.run(loop)
        assert session.run(number) == 3
        patches.undo()
        session.run(loop)
        assert session.run(number) == 4


def test_a_patch_that_was_never_applied_is_undone_without_effect():
    patch = patches.Patch(".python.framework.ops", "Graph.of_nobody", "a test")
    patches.PATCHES.remove(patch)
    patch.undo()
    assert patch.plain is None
    patch.apply(1)
    assert tf.Graph.of_nobody == 1
    patch.undo()
    patch.undo()
    with pytest.raises(AttributeError):
        tf.Graph.of_nobody  # noqa: B018
