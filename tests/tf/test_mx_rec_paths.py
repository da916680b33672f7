"""The incumbent's import paths: what programs import from where."""
import importlib
import os
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from ascpipe.errors import NotBuiltYetError
from tests.support.importing import names_after
from tests.tf import programs

NAMES = {
    "mx_rec": "version __version__",
    "mx_rec.constants.constants":
        "ASCEND_GLOBAL_HASHTABLE_COLLECTION ASCEND_CUTTING_POINT_INITIALIZER ASCEND_SPARSE_LOOKUP_ENTRANCE "
        "ASCEND_SPARSE_LOOKUP_ID_OFFSET ASCEND_SPARSE_LOOKUP_LOCAL_EMB ASCEND_TIMESTAMP APPLY_GRADIENTS_STRATEGY "
        "ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS LIBREC_CPU_SO LIBREC_EOS_OPS_SO LIBREC_TF_REC_V1_CPU_SO BaseEnum MxRecMode "
        "ApplyGradientsStrategy",
    "mx_rec.core.asc": "FeatureSpec get_asc_insert_func start_asc_pipeline",
    "mx_rec.core.asc.feature_spec": "FeatureSpec",
    "mx_rec.core.asc.helper": "FeatureSpec get_asc_insert_func",
    "mx_rec.core.asc.manager": "start_asc_pipeline",
    "mx_rec.core": "create_table sparse_lookup",
    "mx_rec.core.emb.base_sparse_embedding": "BaseSparseEmbedding",
    "mx_rec.core.embedding": "BaseSparseEmbedding create_table sparse_lookup",
    "mx_rec.core.feature_process": "EvictHook",
    "mx_rec.graph": "GraphModifierHook LookupSubgraphSlicerHook OrphanLookupKeySlicerHook "
                    "modify_graph_and_start_emb_cache",
    "mx_rec.graph.acg_push_ops": "ACGPushOpsToDatasetHook",
    "mx_rec.graph.hooks": "LookupSubgraphSlicerHook OrphanLookupKeySlicerHook",
    "mx_rec.graph.merge_lookup": "do_merge_lookup",
    "mx_rec.graph.modifier": "GraphModifierHook modify_graph_and_start_emb_cache",
    "mx_rec.optimizers.adagrad": "create_hash_optimizer CustomizedAdagrad",
    "mx_rec.optimizers.adagrad_by_addr": "create_hash_optimizer_by_address",
    "mx_rec.optimizers.base": "CustomizedOptimizer",
    "mx_rec.optimizers.ftrl": "create_hash_optimizer CustomizedFtrl",
    "mx_rec.optimizers.gradient_descent": "create_hash_optimizer CustomizedGradientDescent",
    "mx_rec.optimizers.gradient_descent_by_addr": "create_hash_optimizer_by_addr",
    "mx_rec.optimizers.lazy_adam": "create_hash_optimizer CustomizedLazyAdam",
    "mx_rec.optimizers.lazy_adam_by_addr": "create_hash_optimizer_by_address",
    "mx_rec.saver.patch": "validate_save_path",
    "mx_rec.saver.saver": "Saver validate_read_file",
    "mx_rec.saver.sparse": "export",
    "mx_rec.util.communication": "hccl_ops",
    "mx_rec.util.communication.hccl_ops": "get_rank_id get_rank_size get_device_id get_local_rank_size",
    "mx_rec.util.initialize":
        "init terminate_config_initializer ConfigInitializer get_initializer get_rank_id get_rank_size get_device_id "
        "get_use_dynamic_expansion get_use_static get_use_hot get_if_load set_if_load clear_channel "
        "set_ascend_global_hashtable_collection get_ascend_global_hashtable_collection get_train_interval "
        "set_train_interval get_eval_steps set_eval_steps is_asc_manager_initialized get_table_instance "
        "get_table_instance_by_name get_host_pipeline_ops trigger_evict set_ascend_table_name_must_contain "
        "insert_optimizer export_table_instances",
    "mx_rec.util.log": "logger",
    "mx_rec.util.ops": "import_host_pipeline_ops",
    "mx_rec.util.tf_version_adapter": "hccl_ops npu_ops",
    "mx_rec.util.variable": "get_dense_and_sparse_variable",
}


@pytest.mark.parametrize("module", NAMES)
def test_a_program_finds_its_names_in(module):
    loaded = importlib.import_module(module)
    for name in NAMES[module].split():
        assert getattr(loaded, name) is not None
    assert set(getattr(loaded, "__all__", [])) <= set(NAMES[module].split())


def test_the_version_is_that_of_the_incumbent():
    import mx_rec
    assert mx_rec.version() == mx_rec.__version__ == "6.0.RC3"


def test_the_value_of_a_collection_constant_is_its_name():
    from mx_rec.constants import constants
    names = [name for name in vars(constants) if name.isupper() and not name.endswith("_SO")]
    assert len(names) == 8
    assert all(getattr(constants, name) == name for name in names)


@pytest.mark.parametrize("module, name, hint", [
    ("mx_rec.util.initialize", "save_host_data", "Saver"),
    ("mx_rec.core.embedding", "HBMSparseEmbedding", "create_table"),
    ("mx_rec.optimizers.momentum", "create_hash_optimizer", "lazy_adam"),
    ("mx_rec.validator", "anything", "ValueError")])
def test_a_name_that_is_not_provided_says_what_to_use_instead(module, name, hint, tmp_path):
    with pytest.raises(AttributeError, match=hint):
        getattr(importlib.import_module(module), name)
    with pytest.raises(ImportError, match=hint):
        names_after("from {} import {}".format(module, name), tmp_path)
    assert not hasattr(importlib.import_module(module), name)
    assert not hasattr(importlib.import_module(module), "__no_such_name__")


def test_what_is_not_built_yet_can_be_imported_and_says_so_when_called():
    from mx_rec.util.ops import import_host_pipeline_ops
    ops = import_host_pipeline_ops()
    for call in (ops.read_emb_key_v2, ops.read_emb_key_v2_dynamic, ops.lazy_adam, ops.sgd):
        with pytest.raises(NotBuiltYetError):
            call()
    assert not hasattr(ops, "no_such_op")


def test_a_channel_may_be_cleared_or_not():
    from mx_rec.constants.constants import LIBREC_EOS_OPS_SO
    from mx_rec.util.ops import import_host_pipeline_ops
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ops = import_host_pipeline_ops(LIBREC_EOS_OPS_SO)
        assert ops.clear_channel(0).type == ops.clear_channel(channel_id=1).type == "NoOp"
        session.run(ops.clear_channel(1))


def test_the_time_of_a_batch_is_asked_of_the_clock_for_each_batch():
    from mx_rec.util.ops import import_host_pipeline_ops
    before = int(time.time())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ops = import_host_pipeline_ops()
        data = tf.data.Dataset.range(2).map(lambda label: {"label": label, "timestamp": ops.return_timestamp(label)})
        stamp = tf.compat.v1.data.make_one_shot_iterator(data).get_next()["timestamp"]
        assert (stamp.dtype, stamp.shape.as_list()) == (tf.int64, [])
        assert before <= session.run(stamp) <= session.run(stamp) <= int(time.time())


def test_the_end_of_data_of_one_rank_is_that_of_its_dataset():
    import mx_rec.util.ops  # noqa: F401
    with programs.ascpipe(), tf.compat.v1.Session() as session:
        data = tf.data.Dataset.range(3).eos_map(None, 0, 1, 1).batch(2)
        batch = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        assert [session.run(batch).tolist() for _ in range(2)] == [[0, 1], [2]]


def test_members_of_an_enumeration_are_found_by_value():
    from mx_rec.constants.constants import ApplyGradientsStrategy, BaseEnum, MxRecMode

    class Mode(BaseEnum):
        TRAIN = "train"
        EVAL = "eval"

    assert Mode.mapping("eval") is Mode.EVAL
    assert MxRecMode.mapping("ASC") is MxRecMode.ASC
    assert ApplyGradientsStrategy.mapping("direct_apply") is ApplyGradientsStrategy.DIRECT_APPLY
    with pytest.raises(KeyError, match="'train', 'eval'"):
        Mode.mapping("predict")


def test_rank_helpers_are_reached_from_the_package_above():
    script = "import mx_rec.util\nprint(mx_rec.util.communication.hccl_ops.get_rank_id())"
    variables = dict(os.environ, OMPI_COMM_WORLD_RANK="0", PYTHONWARNINGS="ignore")
    done = subprocess.run([sys.executable, "-c", script], env=variables, stdout=subprocess.PIPE, timeout=60, check=True)
    assert done.stdout.split() == [b"0"]


def test_the_host_ops_are_a_runtime_error_where_they_cannot_be_loaded(monkeypatch):
    from ascpipe.tf.running import native
    from mx_rec.util.ops import import_host_pipeline_ops

    def missing():
        raise OSError("no such file")

    monkeypatch.setattr(native, "ops", missing)
    with pytest.raises(RuntimeError, match="no such file"):
        import_host_pipeline_ops(so_name="libasc_ops.so")


@pytest.mark.parametrize("kwargs", [
    {"evict_enable": 1}, {"evict_time_interval": 0}, {"evict_step_interval": 0}, {"evict_step_interval": 2.0}])
def test_the_evict_hook_has_rules_for_its_arguments(kwargs):
    from mx_rec.core.feature_process import EvictHook
    assert isinstance(EvictHook(), tf.compat.v1.estimator.SessionRunHook)
    with pytest.raises(ValueError):
        EvictHook(**kwargs)


def test_the_accessors_tell_and_change_what_init_was_told():
    from mx_rec.core.embedding import create_table
    from mx_rec.util import initialize
    with pytest.raises(EnvironmentError):
        initialize.get_if_load()
    with tf.Graph().as_default():
        initialize.ConfigInitializer.set_instance(use_dynamic=False, eval_steps=3)
        try:
            assert (initialize.get_rank_id(), initialize.get_rank_size(), initialize.get_device_id()) == (0, 1, 0)
            assert initialize.get_use_static()
            assert not initialize.get_use_dynamic_expansion()
            assert initialize.get_eval_steps() == 3
            initialize.set_if_load(True)
            assert initialize.ConfigInitializer.get_instance().if_load
            assert initialize.get_initializer(True) is None
            assert initialize.clear_channel().type == "NoOp"
            assert not initialize.is_asc_manager_initialized()
            initialize.set_ascend_table_name_must_contain("merged")
            initialize.insert_optimizer(object())
            initialize.set_ascend_global_hashtable_collection("mine")
            table = create_table(tf.int64, 4, "user", tf.compat.v1.zeros_initializer())
            assert tf.compat.v1.get_collection("mine") == [table.variable]
            assert initialize.get_table_instance(table.variable) is table
            assert initialize.get_table_instance_by_name("user") is table
            assert initialize.export_table_instances() == {table.variable: table}
            with pytest.raises(KeyError, match="item"):
                initialize.get_table_instance_by_name("item")
        finally:
            initialize.terminate_config_initializer()


@pytest.mark.parametrize("environment", [{}, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}])
def test_the_rank_is_known_before_init(environment, monkeypatch):
    from mx_rec.util import initialize
    for variable in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert (initialize.get_rank_id(), initialize.get_rank_size(), initialize.get_device_id()) == (0, 1, 0)


def test_the_configuration_has_the_parts_of_the_incumbent():
    from mx_rec.core.embedding import create_table
    from mx_rec.util.initialize import ConfigInitializer
    with programs.ascpipe():
        config = ConfigInitializer.get_instance()
        table = create_table(tf.int64, 4, "user", tf.compat.v1.zeros_initializer())
        assert config.sparse_embed_config.get_table_instance(table.variable) is table
        assert config.sparse_embed_config.get_table_instance_by_name("user") is table
        assert config.sparse_embed_config.table_instance_dict == {table.variable: table}
        assert (config.hybrid_manager_config.asc_manager, config.hybrid_manager_config.freeze) == (None, False)
        parameters = config.train_params_config
        parameters.ascend_global_hashtable_collection = "mine"
        assert config.hashtable_collection == parameters.ascend_global_hashtable_collection == "mine"
        with pytest.raises(ValueError, match="length is bigger than"):
            parameters.ascend_global_hashtable_collection = "a" * 256
        assert (parameters.get_initializer(True), parameters.get_target_batch(False)) == (None, None)
        assert [parameters.get_training_mode_channel_id(training) for training in (True, False)] == [0, 1]
        assert config.feature_spec_config is not None and config.optimizer_config is not None
        assert config.host_pipeline_ops.clear_channel(0).type == "NoOp"


def test_init_takes_what_older_versions_took():
    from mx_rec.util import initialize
    initialize.init(True, rank_id=0, rank_size=1, train_interval=100, eval_steps=10, prefetch_batch_number=5,
                    use_dynamic=1 == 1, use_hot=False, use_dynamic_expansion=False, if_load=False, bind_cpu=False)
    try:
        assert (initialize.get_train_interval(), initialize.get_use_hot()) == (100, False)
    finally:
        initialize.terminate_config_initializer()
    for arguments in ((True, False), (3,)):
        with pytest.raises(ValueError, match="use_mpi"):
            initialize.init(*arguments)


def test_collectives_of_one_rank_give_back_what_they_are_given():
    from mx_rec.util.tf_version_adapter import hccl_ops
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        assert session.run(hccl_ops.allreduce(tf.constant(3), "sum")) == 3
        assert session.run(hccl_ops.broadcast([tf.constant(4)], 0)) == [4]
        sent = tf.range(6)
        assert session.run(hccl_ops.allgather(sent, 1)).tolist() == [0, 1, 2, 3, 4, 5]
        assert session.run(hccl_ops.reduce_scatter(sent, "sum", 1)).tolist() == [0, 1, 2, 3, 4, 5]
        assert session.run(hccl_ops.all_to_all_v(sent, [3], [2], [3], [0])).tolist() == [2, 3, 4]
        assert session.run(hccl_ops.all_to_all_v(sent, [2], [0], tf.constant([2], tf.int64), [1])).tolist() == [0, 0, 1]
        assert session.run(hccl_ops.all_to_all_v_c(tf.reshape(sent, [3, 2]), [[4]], 0)).tolist() == [0, 1, 2, 3]
        with pytest.raises(tf.errors.InvalidArgumentError, match="sends other numbers of elements than it receives"):
            session.run(hccl_ops.all_to_all_v(sent, [3], [0], [2], [0]))
        for call in (lambda: hccl_ops.allreduce(tf.constant(3), "mean"), lambda: hccl_ops.broadcast([], 1),
                     lambda: hccl_ops.allgather(sent, 2), lambda: hccl_ops.all_to_all_v_c(sent, [[1]], 1)):
            with pytest.raises(ValueError):
                call()


def test_dropout_keeps_elements_with_their_probability():
    from mx_rec.util.tf_version_adapter import npu_ops
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        kept = session.run(npu_ops.dropout(tf.ones([10000]), keep_prob=0.25, seed=1))
        assert set(kept.tolist()) == {0.0, 4.0}
        assert 0.2 < (kept > 0).mean() < 0.3
