"""Options of the demo's command line, and sizes of its model."""
import argparse
from typing import Any, Dict, Optional, Sequence

import tensorflow.compat.v1 as tf
from npu_bridge.npu_init import RewriterConfig, npu_config_proto

HOUR = 3600  #: seconds

#: Rows on the device, on the host and on disk. The device must hold the distinct keys of a batch.
CACHE_MODE = {
    "HBM": {"user_table": (1000, 0, 0), "item_table": (1000, 0, 0)},
    "DDR": {"user_table": (160, 1000, 0), "item_table": (300, 1000, 0)},
    "SSD": {"user_table": (80, 80, 1000), "item_table": (300, 300, 1000)},
}

#: Number of occurrences before a key gets a row, and seconds without use before the key loses the row.
ACCESS_AND_EVICT: Dict[str, Dict[str, Any]] = {
    "user_table": {"access_threshold": 2, "eviction_threshold": 5 * HOUR},
    "item_table": {"access_threshold": 3, "eviction_threshold": 2 * HOUR},
}


class Config(argparse.Namespace):
    """Options of the command line, and sizes of the model."""

    use_estimator: bool
    modify_graph: bool
    cache_mode: str
    static: bool
    use_dynamic_expansion: bool
    tuple_batch: bool
    one_shot: bool
    access_and_evict: bool
    dump_graph: bool
    steps: int
    train_interval: int
    eval_steps: int
    saving_interval: int
    declared_steps: Optional[int]
    saved_model: str
    losses: Optional[str]

    batch_size = 32
    user_vocab_size = 300
    item_vocab_size = 200
    user_ids_per_row = 2
    item_ids_per_row = 1
    history_per_row = 4  #: ids of the second lookup in the item table
    user_hashtable_dim = 8
    item_hashtable_dim = 4
    learning_rate = 0.01
    seed = 1
    evict_interval = 8  #: steps

    @property
    def config_dict(self) -> Optional[Dict[str, Dict[str, Any]]]:
        """Thresholds of the tables, or None."""
        return ACCESS_AND_EVICT if self.access_and_evict else None


def parse_arguments(arguments: Optional[Sequence[str]] = None) -> Config:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Train a model with two tables.")
    switch = parser.add_argument
    switch("--use_estimator", action="store_true", help="NPUEstimator, instead of a tf.Session loop")
    switch("--modify_graph", action="store_true", help="automatic graph modification, instead of FeatureSpecs")
    switch("--cache_mode", choices=sorted(CACHE_MODE), default="HBM", help="location of rows: %(choices)s")
    switch("--static", action="store_true", help="static shapes, instead of dynamic shapes")
    switch("--use_dynamic_expansion", action="store_true", help="tables grow; optimizers update rows by address")
    switch("--tuple_batch", action="store_true", help="batches are tuples, instead of dicts")
    switch("--one_shot", action="store_true", help="one-shot iterators, instead of initializable iterators")
    switch("--access_and_evict", action="store_true", help="feature admission and eviction, with timestamps")
    switch("--dump_graph", action="store_true", help="write the modified graph to ./export_graph")
    switch("--steps", type=int, default=200)
    switch("--train_interval", type=int, default=100, help="steps between evaluations")
    switch("--eval_steps", type=int, default=10, help="steps of an evaluation")
    switch("--saving_interval", type=int, default=100, help="steps between saves; 0 disables saves")
    switch("--declared_steps", type=int, help="pass this number of steps to init() instead of the true numbers")
    switch("--saved_model", default="./saved-model", help="folder of the checkpoints")
    switch("--losses", help="file for the losses of each step, as hexadecimal numbers")
    return parser.parse_args(arguments, namespace=Config())


def sess_config() -> tf.ConfigProto:
    """Return a session configuration with one thread, so that sums are reproducible. Other settings are for an Ascend
    card.
    """
    session_config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    custom_op = session_config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["use_off_line"].b = True
    custom_op.parameter_map["hcom_parallel"].b = False
    custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("must_keep_origin_dtype")
    session_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    return npu_config_proto(session_config)
