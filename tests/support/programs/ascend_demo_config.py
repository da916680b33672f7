"""Settings of the demos, by the variables that their run scripts export, and their made-up batches.

``DEMO_SIZES`` is of the tests alone: JSON with smaller numbers for attributes of ``Config``.
"""
import json
import os

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from mx_rec.constants.constants import BaseEnum
from mx_rec.core.asc.feature_spec import FeatureSpec
from mx_rec.util.communication.hccl_ops import get_rank_id, get_rank_size
from mx_rec.util.ops import import_host_pipeline_ops

# At import, before init().
rank_id = get_rank_id()
rank_size = get_rank_size()


class UseMode(BaseEnum):
    TRAIN = "train"
    PREDICT = "predict"
    LOAD_AND_TRAIN = "load_and_train"


class CacheModeEnum(BaseEnum):
    HBM = "HBM"
    DDR = "DDR"
    SSD = "SSD"


def switch(name, default="0"):
    return bool(int(os.getenv(name, default)))


class Config:
    def __init__(self):
        self.batch_size = 4096
        self.train_batch_num, self.eval_batch_num = 200 * rank_size, 10 * rank_size
        self.max_steps, self.train_steps, self.eval_steps, self.save_steps = 200, 100, 10, 100
        self.change_threshold_at = 100
        self.user_vocab_size = self.user_range = 200000 * rank_size  # exactly full
        self.item_range = 80000 * rank_size
        self.user_hashtable_dim, self.item_hashtable_dim = 32, 8
        self.user_send_cnt, self.item_send_cnt = 36044 // rank_size, 80000 // rank_size
        self.mlp, self.keep_prob = [1024, 512, 256, 128], 0.8
        self.learning_rate = 0.01
        self.access_threshold, self.eviction_threshold, self.new_threshold = 10, 3600, 60
        self.sleep_s = 10
        self.threads = 0
        self.use_dynamic, self.use_dynamic_expansion = switch("USE_DYNAMIC"), switch("USE_DYNAMIC_EXPANSION")
        self.use_multi_lookup = switch("USE_MULTI_LOOKUP", "1")
        self.multi_lookup_times = int(os.getenv("MULTI_LOOKUP_TIMES", "2"))
        self.modify_graph, self.use_timestamp = switch("USE_MODIFY_GRAPH"), switch("USE_TIMESTAMP")
        self.use_one_shot, self.use_deterministic = switch("USE_ONE_SHOT"), switch("USE_DETERMINISTIC")
        self.precision_check, self.use_dp = switch("PRECISION_CHECK"), switch("USE_DP")
        self.use_tuple, self.use_padding_keys = switch("USE_TUPLE_DATA_FORMAT"), switch("USE_PADDING_KEYS")
        if self.use_tuple and not self.modify_graph:
            raise ValueError("USE_TUPLE_DATA_FORMAT goes with USE_MODIFY_GRAPH")
        if self.multi_lookup_times > 2:
            self.batch_size = 32
        self.cache_mode = CacheModeEnum.mapping(os.getenv("CACHE_MODE"))
        vars(self).update(json.loads(os.getenv("DEMO_SIZES", "{}")))
        sizes = {CacheModeEnum.HBM: (1.0, 0.0, 0.0), CacheModeEnum.DDR: (0.4, 1.0, 0.0),
                 CacheModeEnum.SSD: (0.4, 0.8, 1.8)}[self.cache_mode]
        self.dev_vocab_size, self.host_vocab_size, self.ssd_vocab_size = (
            int(self.user_vocab_size * share) for share in sizes)

    @property
    def config_dict(self):
        if not self.use_timestamp:
            return None
        return {name: {"access_threshold": self.access_threshold, "eviction_threshold": self.eviction_threshold}
                for name in ("user_table", "item_table")}

    @property
    def repeats(self):
        return self.multi_lookup_times if self.use_multi_lookup else 0


def sess_config(cfg):
    session_config = tf.compat.v1.ConfigProto(allow_soft_placement=False, log_device_placement=False,
                                              inter_op_parallelism_threads=cfg.threads,
                                              intra_op_parallelism_threads=cfg.threads)
    session_config.gpu_options.allow_growth = True
    custom_op = session_config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["mix_compile_mode"].b = False
    custom_op.parameter_map["use_off_line"].b = True
    custom_op.parameter_map["min_group_size"].b = 1
    custom_op.parameter_map["HCCL_algorithm"].s = tf.compat.as_bytes("level0:fullmesh;level1:fullmesh")
    custom_op.parameter_map["enable_data_pre_proc"].b = True
    custom_op.parameter_map["iterations_per_loop"].i = 1
    custom_op.parameter_map["precision_mode"].s = tf.compat.as_bytes("must_keep_origin_dtype")
    custom_op.parameter_map["graph_memory_max_size"].s = tf.compat.as_bytes(str(13 * 1024 ** 3))
    custom_op.parameter_map["op_execute_timeout"].i = 2000
    if cfg.use_deterministic:
        custom_op.parameter_map["deterministic"].i = 1
    session_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    session_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return session_config


def create_feature_spec_list(cfg):
    """User and item ids, the user's again for each repeated lookup, and the time where features are evicted."""
    thresholds = {}
    if cfg.use_timestamp:
        thresholds = {"access_threshold": cfg.access_threshold, "eviction_threshold": cfg.eviction_threshold,
                      "faae_coefficient": 1}
    feature_spec_list = [FeatureSpec("user_ids", table_name="user_table", **thresholds),
                         FeatureSpec("item_ids", table_name="item_table", **thresholds)]
    feature_spec_list += [FeatureSpec("user_ids", table_name="user_table", **thresholds) for _ in range(cfg.repeats)]
    if cfg.use_timestamp:
        feature_spec_list.append(FeatureSpec("timestamp", is_timestamp=True))
    return feature_spec_list


def generate_dataset(cfg, batch_number, seed):
    """Random ids and labels; the same in every run."""
    def batches():
        random = np.random.RandomState(seed)
        for _ in range(batch_number):
            yield {"item_ids": random.randint(0, cfg.item_range, (cfg.batch_size, 16)),
                   "user_ids": random.randint(0, cfg.user_range, (cfg.batch_size, 8)),
                   "category_ids": random.randint(0, cfg.item_range, (cfg.batch_size, 3)),
                   "label_0": random.randint(0, 2, cfg.batch_size).astype(np.float32),
                   "label_1": random.randint(0, 2, cfg.batch_size).astype(np.float32)}

    types = {"item_ids": tf.int64, "user_ids": tf.int64, "category_ids": tf.int64, "label_0": tf.float32,
             "label_1": tf.float32}
    shapes = {"item_ids": tf.TensorShape([cfg.batch_size, 16]), "user_ids": tf.TensorShape([cfg.batch_size, 8]),
              "category_ids": tf.TensorShape([cfg.batch_size, 3]), "label_0": tf.TensorShape([cfg.batch_size]),
              "label_1": tf.TensorShape([cfg.batch_size])}
    return tf.data.Dataset.from_generator(batches, output_types=types, output_shapes=shapes)


def add_timestamp_func(batch):
    batch["timestamp"] = import_host_pipeline_ops().return_timestamp(tf.cast(batch["label_0"], dtype=tf.int64))
    return batch


def as_tuple(batch):
    names = ("user_ids", "item_ids", "timestamp", "category_ids")
    return tuple(batch[name] for name in names if name in batch), (batch["label_0"], batch["label_1"])
