"""Programs that ask an Ascend card to compute the same in every run: their sessions have one intra-op thread."""
import json
import os

import pytest
import tensorflow as tf

from ascpipe.tf import patches
from ascpipe.tf.incumbent.ascend import deterministic
from ascpipe.tf.incumbent.ascend.estimator import NPURunConfig, npu_config_proto
from tests.support.tree import ROOT

pytestmark = pytest.mark.usefixtures("fork_server")
THREADS = 8  #: asked for besides; the sums of a model then are others than with one

#: Prints the losses of a dense model, of a session or an Estimator, after it has asked in the way that is named.
PROGRAM = """\
import json, sys
import numpy as np
from npu_bridge.npu_init import *
import mx_rec

way, threads = sys.argv[1], int(sys.argv[2])
config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads)
if way not in ("none", "run_config"):
    custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["use_off_line"].b = True
    setattr(custom_op.parameter_map["deterministic"], way, 1)
config.graph_options.rewrite_options.remapping = RewriterConfig.OFF


def model(x, y):
    for width in (256, 64, 1):
        x = tf.compat.v1.layers.dense(x, width, tf.nn.relu if width > 1 else None, kernel_initializer=(
            tf.compat.v1.glorot_uniform_initializer(seed=width)))
    loss = tf.reduce_mean(tf.square(x - y), name="the_loss")
    step = tf.compat.v1.train.get_or_create_global_step()
    return loss, tf.compat.v1.train.AdamOptimizer(0.01).minimize(loss, step)


random = np.random.RandomState(0)
data = random.rand(2048, 40).astype(np.float32), random.rand(2048, 1).astype(np.float32)
losses = []
if way == "run_config":
    class Losses(tf.compat.v1.estimator.SessionRunHook):
        def before_run(self, run_context):
            return tf.compat.v1.estimator.SessionRunArgs("the_loss:0")

        def after_run(self, run_context, run_values):
            losses.append(float(run_values.results))

    def model_fn(features, labels, mode):
        return tf.compat.v1.estimator.EstimatorSpec(mode, None, *model(features, labels))

    run_config = NPURunConfig(session_config=config, deterministic=1, save_summary_steps=0, save_checkpoints_secs=999)
    NPUEstimator(model_fn, config=run_config, model_dir=sys.argv[3]).train(
        lambda: tf.data.Dataset.from_tensors(data).repeat(), hooks=[Losses()], max_steps=25)
else:
    loss, train = model(*map(tf.constant, data))
    with tf.compat.v1.Session(config=config) as session:
        session.run(tf.compat.v1.global_variables_initializer())
        losses += [float(session.run([loss, train])[0]) for _ in range(25)]
print(json.dumps(losses))
"""


@pytest.fixture
def losses(fork_server, tmp_path):
    """Of a process of its own under ``ascpipe run``, as the first session of a process decides for all."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def of(way, threads, run=0):
        environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONWARNINGS="ignore", TF_CPP_MIN_LOG_LEVEL="3")
        arguments = [str(program), way, str(threads), str(tmp_path / str(run))]
        called = fork_server.call("ascpipe_run", arguments, str(tmp_path), environment)
        assert called.wait(50.0) == 0, called.err
        return json.loads(called.out)

    return of


@pytest.mark.timeout_s(150)
def test_a_session_that_asks_by_a_number_or_a_flag_computes_on_one_thread_the_same_in_every_run(losses):
    one = losses("none", 1)
    assert losses("none", THREADS) != one, "the number of threads changes nothing here, so that this test shows nothing"
    assert losses("i", THREADS) == losses("b", THREADS) == one


@pytest.mark.timeout_s(150)
def test_an_estimator_asks_by_its_run_config(losses):
    first = losses("run_config", THREADS, run=1)
    assert first == losses("run_config", 1, run=2)
    assert len(set(first)) == 25


def asked(**value):
    config = npu_config_proto(tf.compat.v1.ConfigProto(inter_op_parallelism_threads=3))
    optimizer = config.graph_options.rewrite_options.custom_optimizers.add()
    optimizer.name = value.pop("name", "NpuOptimizer")
    for field, content in value.items():
        setattr(optimizer.parameter_map["deterministic"], field, content)
    return config


@pytest.mark.parametrize("config, is_asked", [
    (asked(i=1), True), (asked(b=True), True), (asked(s=b"1"), True), (asked(s=b"True"), True), (asked(i=0), False),
    (asked(b=False), False), (asked(s=b"0"), False), (asked(), False), (asked(name="Other", i=1), False), (None, False),
    (tf.compat.v1.ConfigProto(), False)])
def test_only_what_is_meant_by_it_asks(config, is_asked, monkeypatch):
    seen = []
    monkeypatch.setattr(patches.SESSION_INIT, "_plain", lambda self, target, graph, config: seen.append(config))
    monkeypatch.setattr(deterministic, "_threads_are_shared", False)
    before = None if config is None else config.SerializeToString(deterministic=True)
    deterministic._init(object(), "", None, config)
    if is_asked:
        assert (seen[0].intra_op_parallelism_threads, seen[0].inter_op_parallelism_threads) == (1, 3)
        assert config.SerializeToString(deterministic=True) == before, "the program's own configuration was changed"
    else:
        assert seen == [config]


def test_a_session_that_asks_after_one_that_did_not_is_told_that_it_is_too_late(monkeypatch, caplog):
    monkeypatch.setattr(patches.SESSION_INIT, "_plain", lambda *arguments: None)
    monkeypatch.delenv("TF_OVERRIDE_GLOBAL_THREADPOOL")  # as users have it
    for first, says in ((None, True), (asked(i=1), False), (tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1),
                                                            False)):
        monkeypatch.setattr(deterministic, "_threads_are_shared", None)
        caplog.clear()
        deterministic._init(object(), "", None, first)
        deterministic._init(object(), "", None, None)
        deterministic._init(object(), "", None, asked(i=1))
        assert ("Set deterministic in the first session, too" in caplog.text) is says


def test_a_run_config_asks_on_top_of_what_the_program_configured():
    mine = asked()
    config = NPURunConfig(session_config=mine, deterministic=True)
    assert config.session_config is not mine
    assert (config.session_config.inter_op_parallelism_threads, len(mine.graph_options.rewrite_options
                                                                     .custom_optimizers)) == (3, 1)
    assert deterministic._is_asked(config.session_config)
    usual = NPURunConfig(deterministic=1).session_config
    assert usual.allow_soft_placement and deterministic._is_asked(usual)
    for nothing in (0, False, None):
        assert NPURunConfig(session_config=mine, deterministic=nothing).session_config is mine
    with pytest.raises(ValueError, match="deterministic"):
        NPURunConfig(deterministic="yes")
