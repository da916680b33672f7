"""Initialization and shutdown, getters and setters of the configuration."""
from ascpipe.tf.incumbent.config_initializer import ConfigInitializer
from ascpipe.tf.incumbent.getters_and_setters import (
    clear_channel,
    export_table_instances,
    get_ascend_global_hashtable_collection,
    get_device_id,
    get_eval_steps,
    get_if_load,
    get_rank_id,
    get_rank_size,
    get_table_instance,
    get_table_instance_by_name,
    get_train_interval,
    get_use_dynamic_expansion,
    get_use_hot,
    get_use_static,
    insert_optimizer,
    is_asc_manager_initialized,
    set_ascend_global_hashtable_collection,
    set_ascend_table_name_must_contain,
    set_eval_steps,
    set_if_load,
    set_train_interval,
)
from ascpipe.tf.incumbent.host_ops import import_host_pipeline_ops as get_host_pipeline_ops
from ascpipe.tf.modify.iterators import get_initializer
from ascpipe.tf.program.table_changes import trigger_evict
from ascpipe.tf.running.process import init, terminate_config_initializer

__all__ = ["ConfigInitializer", "clear_channel", "export_table_instances", "get_ascend_global_hashtable_collection",
           "get_device_id", "get_eval_steps", "get_host_pipeline_ops", "get_if_load", "get_initializer",
           "get_rank_id", "get_rank_size", "get_table_instance", "get_table_instance_by_name", "get_train_interval",
           "get_use_dynamic_expansion", "get_use_hot", "get_use_static", "insert_optimizer", "init",
           "is_asc_manager_initialized", "set_ascend_global_hashtable_collection",
           "set_ascend_table_name_must_contain", "set_eval_steps", "set_if_load", "set_train_interval",
           "terminate_config_initializer", "trigger_evict"]
