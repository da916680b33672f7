"""Generated batches of clicks and purchases, which are equal in every run."""
from typing import Any, Dict, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf
from rec_sdk_common.communication.hccl.hccl_info import get_rank_id, get_rank_size

from mx_rec.core.asc.feature_spec import FeatureSpec
from mx_rec.core.asc.helper import get_asc_insert_func

from config import HOUR, Config

COLUMNS = ("user_ids", "item_ids", "history_ids", "timestamp")
LABELS = ("label_0", "label_1")
#: Table of each feature.
FEATURES = {"user_ids": "user_table", "item_ids": "item_table", "history_ids": "item_table"}


def create_feature_spec_list(cfg: Config) -> List[FeatureSpec]:
    """Return the features of a batch. With eviction, the list includes the time."""
    def index_key(name: str) -> Any:
        return COLUMNS.index(name) if cfg.tuple_batch else name

    thresholds: Dict[str, Dict[str, Any]] = cfg.config_dict or {}
    feature_spec_list = [FeatureSpec(name, table_name=table_name, index_key=index_key(name),
                                     **thresholds.get(table_name, {}))
                         for name, table_name in FEATURES.items()]
    if cfg.access_and_evict:
        feature_spec_list.append(FeatureSpec("timestamp", index_key=index_key("timestamp"), is_timestamp=True))
    return feature_spec_list


def make_dataset(cfg: Config, is_training: bool, feature_spec_list: Optional[List[FeatureSpec]],
                 batch_number: int) -> tf.data.Dataset:
    """Return batches whose ids are passed to the pipeline."""
    columns = generate(cfg, batch_number, seed=cfg.seed if is_training else cfg.seed + 1)
    columns = {name: part_of_rank(column) for name, column in columns.items()}
    if cfg.tuple_batch:
        dataset = tf.data.Dataset.from_tensor_slices(
            (tuple(columns[name] for name in COLUMNS), tuple(columns[name] for name in LABELS)))
    else:
        dataset = tf.data.Dataset.from_tensor_slices(columns)
    if cfg.one_shot and not is_training:
        dataset = dataset.repeat()  # a one-shot iterator cannot restart, so each evaluation uses the next batches
    if not cfg.modify_graph:
        insert_fn = get_asc_insert_func(tgt_key_specs=feature_spec_list, is_training=is_training,
                                        dump_graph=cfg.dump_graph)
        dataset = dataset.map(insert_fn)
    return dataset.prefetch(100)


def part_of_rank(column: np.ndarray) -> np.ndarray:
    """Return this rank's rows of each batch. Scalars of a batch belong to all ranks."""
    if column.ndim == 1:
        return column
    return np.split(column, get_rank_size(), axis=1)[get_rank_id()]


def as_dict(features: Any, labels: Any = None) -> Dict[str, tf.Tensor]:
    """Return a dict from name to column of a batch.

    Args:
        features: a dict or a tuple.
        labels: a tuple, or None if the dict contains the labels or there are none.
    """
    if isinstance(features, dict):
        return features
    return dict([*zip(COLUMNS, features), *zip(LABELS, labels or ())])


def generate(cfg: Config, batch_number: int, seed: int) -> Dict[str, np.ndarray]:
    """Generate the columns of ``batch_number`` batches. A batch is one hour, few ids are frequent, and labels
    are learnable.

    Returns:
        ids int64[batch_number, batch_size, ids per row], labels float32[batch_number, batch_size], timestamp
        int64[batch_number], in seconds.
    """
    random = np.random.RandomState(seed)

    def ids(vocab_size: int, per_row: int) -> np.ndarray:
        return (vocab_size * random.rand(batch_number, cfg.batch_size, per_row) ** 2).astype(np.int64)

    users = ids(cfg.user_vocab_size, cfg.user_ids_per_row)
    items = ids(cfg.item_vocab_size, cfg.item_ids_per_row)
    history = ids(cfg.item_vocab_size, cfg.history_per_row)
    clicks = (users[..., 0] + items[..., 0]) % 3 == 0
    buys = clicks & (items[..., 0] % 2 == 0)
    return {"user_ids": users, "item_ids": items, "history_ids": history, "label_0": clicks.astype(np.float32),
            "label_1": buys.astype(np.float32),
            "timestamp": HOUR * (1 + np.arange(batch_number, dtype=np.int64))}
