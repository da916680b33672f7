"""The incumbent's import paths: what programs import from where."""
import importlib
import logging

import pytest
import tensorflow as tf

from ascpipe.tf.not_built import NotBuiltYetError

NAMES = {
    "mx_rec": "version __version__",
    "mx_rec.constants.constants":
        "ASCEND_GLOBAL_HASHTABLE_COLLECTION ASCEND_CUTTING_POINT_INITIALIZER ASCEND_SPARSE_LOOKUP_ENTRANCE "
        "ASCEND_SPARSE_LOOKUP_ID_OFFSET ASCEND_SPARSE_LOOKUP_LOCAL_EMB ASCEND_TIMESTAMP",
    "mx_rec.core.asc": "FeatureSpec get_asc_insert_func start_asc_pipeline",
    "mx_rec.core.asc.feature_spec": "FeatureSpec",
    "mx_rec.core.asc.helper": "FeatureSpec get_asc_insert_func",
    "mx_rec.core.asc.manager": "start_asc_pipeline",
    "mx_rec.core.embedding": "create_table sparse_lookup",
    "mx_rec.core.feature_process": "EvictHook",
    "mx_rec.graph": "GraphModifierHook LookupSubgraphSlicerHook OrphanLookupKeySlicerHook",
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
    "mx_rec.saver.sparse": "export",
    "mx_rec.util.communication.hccl_ops": "get_rank_id get_rank_size get_device_id get_local_rank_size",
    "mx_rec.util.initialize":
        "init terminate_config_initializer ConfigInitializer get_initializer get_rank_id get_rank_size get_device_id "
        "get_use_dynamic_expansion get_use_static get_use_hot get_if_load set_if_load clear_channel "
        "set_ascend_global_hashtable_collection get_ascend_global_hashtable_collection get_train_interval "
        "set_train_interval get_eval_steps set_eval_steps is_asc_manager_initialized get_table_instance "
        "get_table_instance_by_name get_host_pipeline_ops trigger_evict",
    "mx_rec.util.log": "logger",
    "mx_rec.util.ops": "import_host_pipeline_ops",
    "mx_rec.util.tf_version_adapter": "hccl_ops",
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
    names = [name for name in vars(constants) if name.isupper()]
    assert names
    assert all(getattr(constants, name) == name for name in names)


def test_a_name_that_is_not_provided_says_what_to_use_instead():
    with pytest.raises(ImportError, match="not built yet"):
        from mx_rec.util.initialize import save_host_data  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name"):
        from mx_rec.util.initialize import no_such_name  # noqa: F401
    import mx_rec.util.initialize as initialize
    assert not hasattr(initialize, "no_such_name")


def test_what_is_not_built_yet_can_be_imported_and_says_so_when_called():
    from mx_rec.util.ops import import_host_pipeline_ops
    ops = import_host_pipeline_ops()
    for call in (ops.read_emb_key_v2, ops.read_emb_key_v2_dynamic, ops.return_timestamp, ops.lazy_adam, ops.sgd):
        with pytest.raises(NotBuiltYetError):
            call()
    assert not hasattr(ops, "no_such_op")
    with tf.Graph().as_default():
        assert ops.clear_channel(channel_id=1).type == "NoOp"


def test_the_host_ops_are_a_runtime_error_where_they_cannot_be_loaded(monkeypatch):
    from ascpipe.tf import native
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
    assert isinstance(EvictHook(), tf.estimator.SessionRunHook)
    with pytest.raises(ValueError):
        EvictHook(**kwargs)


def test_the_accessors_tell_and_change_what_init_was_told():
    from mx_rec.core.embedding import create_table
    from mx_rec.util import initialize
    with pytest.raises(EnvironmentError):
        initialize.get_rank_id()
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
            initialize.set_ascend_global_hashtable_collection("mine")
            table = create_table(tf.int64, 4, "user", tf.compat.v1.zeros_initializer())
            assert tf.compat.v1.get_collection("mine") == [table.variable]
            assert initialize.get_table_instance(table.variable) is table
            assert initialize.get_table_instance_by_name("user") is table
            with pytest.raises(KeyError, match="item"):
                initialize.get_table_instance_by_name("item")
        finally:
            initialize.terminate_config_initializer()


def test_collectives_of_one_rank_give_back_what_they_are_given():
    from mx_rec.util.tf_version_adapter import hccl_ops
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        assert session.run(hccl_ops.allreduce(tf.constant(3), "sum")) == 3
        assert session.run(hccl_ops.broadcast([tf.constant(4)], 0)) == [4]
        for call in (lambda: hccl_ops.allreduce(tf.constant(3), "mean"), lambda: hccl_ops.broadcast([], 1)):
            with pytest.raises(ValueError):
                call()


def test_the_logger_is_a_logger():
    from mx_rec.util.log import logger
    assert isinstance(logger, logging.Logger)
