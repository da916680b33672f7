"""Graph of one channel (training or evaluation): batches, lookups, model."""
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf
from rec_sdk_common.communication.hccl.hccl_info import get_rank_size

from mx_rec.constants.constants import ASCEND_TIMESTAMP

from config import Config
from dataset import FEATURES, as_dict
from model import MyModel, model_forward


def build_model(cfg: Config, hash_table_list: List[Any], features: Any, labels: Any, is_train: bool,
                feature_spec_list: Optional[List[Any]]) -> MyModel:
    """Build the model of a batch.

    Args:
        cfg: options.
        hash_table_list: tables.
        features, labels: result of ``iterator.get_next()``. ``labels`` is None if ``features`` is a dict with
            the labels.
        is_train: whether the model trains the tables.
        feature_spec_list: features that the dataset passes to the pipeline. Graph modification does not use them.
    """
    columns = as_dict(features, labels)
    tables = {table.table_name: table for table in hash_table_list}
    if cfg.modify_graph:
        feature_list = [columns[name] for name in FEATURES]
        if cfg.access_and_evict:
            tf.add_to_collection(ASCEND_TIMESTAMP, columns["timestamp"])
    else:
        feature_list = [spec for spec in feature_spec_list or [] if not spec.is_timestamp]
    ids_per_row = (cfg.user_ids_per_row, cfg.item_ids_per_row, cfg.history_per_row)
    send_count_list = [cfg.batch_size // get_rank_size() * count for count in ids_per_row]
    return model_forward([feature_list, [tables[name] for name in FEATURES.values()], send_count_list], features,
                         columns, is_train, cfg.modify_graph, cfg.config_dict)
