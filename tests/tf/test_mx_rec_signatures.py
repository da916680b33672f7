"""Signatures of the incumbent's public functions: names of arguments, their order, their defaults."""
import importlib
import inspect
import os

import pytest
import tensorflow as tf

from tests.tf import programs

#: What a program may call, as the incumbent documents it. Ours may have more arguments at the end, with defaults.
SIGNATURES = {
    "mx_rec.constants.constants BaseEnum.mapping": lambda key: None,
    "mx_rec.core.asc.feature_spec FeatureSpec":
        (lambda name, table_name=None, index_key=None, access_threshold=None, eviction_threshold=None,
         is_timestamp=None, batch_size=None, faae_coefficient=1: None),
    "mx_rec.core.asc.helper get_asc_insert_func":
        lambda tgt_key_specs=None, args_index_list=None, table_names=None, **kwargs: None,
    "mx_rec.core.asc.manager start_asc_pipeline": lambda: None,
    "mx_rec.core.embedding create_table":
        (lambda key_dtype, dim, name, emb_initializer, device_vocabulary_size=1, host_vocabulary_size=0,
         ssd_vocabulary_size=0, ssd_data_path=(".",), is_save=True, is_dp=False, init_param=1.0,
         all2all_gradients_op="sum_gradients", enable_merge=False, padding_keys=None, padding_keys_mask=False,
         padding_keys_len=None, value_dtype=tf.float32, shard_num=1, fusion_optimizer_var=True,
         hashtable_threshold=0: None),
    "mx_rec.core.embedding sparse_lookup":
        (lambda hashtable, ids, send_count=None, is_train=True, name=None, modify_graph=False, batch=None,
         access_and_evict_config=None, is_grad=True, serving_default_value=None, **kwargs: None),
    "mx_rec.core.feature_process EvictHook":
        lambda evict_enable=False, evict_time_interval=86400, evict_step_interval=None: None,
    "mx_rec.graph LookupSubgraphSlicerHook": lambda op_types: None,
    "mx_rec.graph OrphanLookupKeySlicerHook": lambda: None,
    "mx_rec.graph.acg_push_ops ACGPushOpsToDatasetHook": lambda dump_graph=False: None,
    "mx_rec.graph.merge_lookup do_merge_lookup": lambda is_train=True: None,
    "mx_rec.graph.modifier GraphModifierHook": lambda dump_graph=False, modify_graph=True: None,
    "mx_rec.graph.modifier modify_graph_and_start_emb_cache": lambda full_graph=None, dump_graph=False: None,
    "mx_rec.optimizers.adagrad create_hash_optimizer":
        lambda learning_rate=0.001, initial_accumulator_value=0.9, use_locking=False, name="Adagrad": None,
    "mx_rec.optimizers.adagrad_by_addr create_hash_optimizer_by_address":
        lambda learning_rate=0.001, initial_accumulator_value=0.9: None,
    "mx_rec.optimizers.ftrl create_hash_optimizer":
        lambda learning_rate, use_locking=False, name="Ftrl", **kwargs: None,
    "mx_rec.optimizers.gradient_descent create_hash_optimizer":
        (lambda learning_rate, use_locking=False, name="GradientDescent", use_fusion_optim=False, weight_decay=None:
         None),
    "mx_rec.optimizers.gradient_descent_by_addr create_hash_optimizer_by_addr":
        lambda learning_rate, weight_decay=0.0001, use_locking=False, name="GradientDescentByAddr": None,
    "mx_rec.optimizers.lazy_adam create_hash_optimizer":
        (lambda learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, name="LazyAdam", use_fusion_optim=False:
         None),
    "mx_rec.optimizers.lazy_adam_by_addr create_hash_optimizer_by_address":
        lambda learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, name="LazyAdamByAddress": None,
    "mx_rec.saver.saver Saver.restore": lambda self, sess, save_path: None,
    "mx_rec.saver.saver Saver.save":
        (lambda self, sess, save_path, global_step=None, latest_filename=None, meta_graph_suffix="meta",
         write_meta_graph=True, write_state=True, strip_default_attrs=False, save_debug_info=False,
         is_incremental_checkpoint=False, save_delta=False: None),
    "mx_rec.saver.sparse export": lambda table_list=None: None,
    "mx_rec.util.initialize ConfigInitializer.get_instance": lambda: None,
    "mx_rec.util.initialize ConfigInitializer.set_instance": lambda **kwargs: None,
    "mx_rec.util.initialize clear_channel": lambda is_train_channel=False: None,
    "mx_rec.util.initialize get_initializer": lambda is_training: None,
    "mx_rec.util.initialize init": lambda *use_mpi, **kwargs: None,
    "mx_rec.util.initialize terminate_config_initializer": lambda: None,
    "mx_rec.util.ops import_host_pipeline_ops": lambda so_name="": None,
    "mx_rec.util.variable get_dense_and_sparse_variable": lambda: None,
}
HOST_OPS = {
    "clear_channel": lambda channel_id=0: None,
    "embedding_lookup_by_address": lambda addr, embedding_dim, embedding_type=1: None,
    "embedding_update_by_address": lambda addr, delta, update_type=0: None,
    "return_timestamp": lambda sample: None,
    "set_threshold": lambda threshold, emb_name="", ids_name="": None,
}
#: Keyword arguments of ``init``, and what it is without them; None: nothing tells.
INIT = {
    "max_steps": -1, "train_steps": -1, "eval_steps": -1, "save_steps": -1, "if_load": False, "use_dynamic": True,
    "use_dynamic_expansion": False, "bind_cpu": True, "use_lccl": False, "is_incremental_checkpoint": False,
    "save_checkpoint_due_time": None, "save_delta_checkpoints_secs": None, "restore_model_version": None,
    "recent_key_count_threshold": 0}
FTRL = {"learning_rate_power": -0.5, "initial_accumulator_value": 0.1, "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0, "l2_shrinkage_regularization_strength": 0.0, "accum_name": None,
        "linear_name": None}


def arguments_of(function):
    """Name, kind and default of each."""
    return [(parameter.name, parameter.kind, os.path.abspath(parameter.default[0])
             if parameter.name == "ssd_data_path" else parameter.default)
            for parameter in inspect.signature(function).parameters.values()]


def assert_takes(function, documented):
    theirs, ours = arguments_of(documented), arguments_of(function)
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    more = [argument for argument in ours[len(theirs):] if argument[1] not in rest]
    assert ours[:len(theirs)] == theirs
    assert all(default is not inspect.Parameter.empty for _, _, default in more), "they would have to be given"


@pytest.mark.parametrize("function", SIGNATURES)
def test_the_arguments_are_those_of_the_incumbent(function):
    module, names = function.split()
    found = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    assert_takes(found, SIGNATURES[function])


@pytest.mark.parametrize("op", HOST_OPS)
def test_the_arguments_of_a_host_op_are_those_of_the_incumbent(op):
    from mx_rec.util.ops import import_host_pipeline_ops
    assert_takes(getattr(import_host_pipeline_ops(), op), HOST_OPS[op])


def test_every_saver_of_the_process_saves_with_these_arguments():
    saver = tf.compat.v1.train.Saver
    with programs.ascpipe():
        for name, function in (("save", saver.save), ("restore", saver.restore)):
            assert_takes(function, SIGNATURES["mx_rec.saver.saver Saver." + name])


def test_without_its_arguments_init_is_with_their_defaults(caplog):
    from mx_rec.util.initialize import ConfigInitializer
    with programs.ascpipe():
        without = attributes(ConfigInitializer.get_instance())
    given = {name: value for name, value in INIT.items() if value is not None}
    with programs.ascpipe(**given):
        assert attributes(ConfigInitializer.get_instance()) == without
        for name, value in given.items():
            assert getattr(ConfigInitializer.get_instance(), name, value) == value
        assert ConfigInitializer.get_instance().use_static is False
    with pytest.raises(ValueError, match="save_checkpoint_due_time and save_delta_checkpoints_secs"), programs.ascpipe(
            is_incremental_checkpoint=True):
        pass
    with programs.ascpipe(is_incremental_checkpoint=True, save_checkpoint_due_time=9, save_delta_checkpoints_secs=5,
                          restore_model_version=3):
        assert ConfigInitializer.get_instance().restore_model_version == 3
    assert "unknown arguments" not in caplog.text


def attributes(configuration):
    """What was told, as plain values."""
    return {name: value for name, value in vars(configuration).items()
            if isinstance(value, (bool, int, str, type(None)))}


def test_without_its_options_ftrl_is_with_their_defaults(caplog):
    with programs.ascpipe():
        without, with_all = programs.OPTIMIZERS["ftrl"](0.1), programs.OPTIMIZERS["ftrl"](0.1, **FTRL)
        told = [{name: value for name, value in vars(made).items() if isinstance(value, (float, int, type(None)))}
                for made in (without, with_all)]
        assert told[0] == told[1]
        assert {-0.5, 0.1, 0.0} <= set(told[0].values())
    assert "which are ignored" not in caplog.text
