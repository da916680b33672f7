"""Tables, and a model with two tasks: prediction of clicks and prediction of purchases."""
import os
from typing import Any, Dict, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from mx_rec.core.embedding import create_table, sparse_lookup

from config import CACHE_MODE, Config
from dataset import LABELS


class MyModel:
    """Shared layer, and a tower for each task.

    Attributes:
        loss_list: loss of each task, or empty for predictions.
        predictions: probability for each task.
    """

    def __call__(self, embedding_list: List[tf.Tensor], *labels: tf.Tensor) -> None:
        with tf.variable_scope("my_model", reuse=tf.AUTO_REUSE, use_resource=True):
            shared = dense(tf.concat(embedding_list, axis=1), 16, "shared", seed=11, activation=tf.nn.relu)
            logits = [tf.squeeze(dense(shared, 1, "tower_{}".format(task), seed=12 + task), axis=1)
                      for task in range(2)]
        self.predictions = [tf.sigmoid(logit) for logit in logits]
        self.loss_list = [tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit))
                          for label, logit in zip(labels, logits)]


def dense(inputs: tf.Tensor, units: int, name: str, seed: int, activation: Any = None) -> tf.Tensor:
    """Add a layer whose initial weights depend on the seed."""
    return tf.layers.dense(inputs, units, activation, name=name,
                                     kernel_initializer=tf.glorot_uniform_initializer(seed=seed))


def create_hash_tables(cfg: Config) -> Tuple[Any, Any]:
    """Create the tables of users and items."""
    def create(name: str, dim: int) -> Any:
        device_rows, host_rows, ssd_rows = CACHE_MODE[cfg.cache_mode][name]
        return create_table(key_dtype=tf.int64,
                            dim=tf.TensorShape([dim]),
                            name=name,
                            emb_initializer=tf.truncated_normal_initializer(),
                            device_vocabulary_size=device_rows,
                            host_vocabulary_size=host_rows,
                            ssd_vocabulary_size=ssd_rows,
                            ssd_data_path=[os.getcwd()],
                            all2all_gradients_op="sum_gradients_and_div_by_ranksize")

    return create("user_table", cfg.user_hashtable_dim), create("item_table", cfg.item_hashtable_dim)


def model_forward(input_list: List[Any], batch: Any, columns: Dict[str, tf.Tensor], is_train: bool,
                  modify_graph: bool, config_dict: Optional[Dict[str, Dict[str, Any]]] = None) -> MyModel:
    """Look up each feature, and pass the sums of its rows to the model.

    Args:
        input_list: features, the table of each feature, and the ``send_count`` of each feature.
        batch: features from ``iterator.get_next()``.
        columns: all columns of the batch by name.
        is_train: whether the lookups train the tables.
        modify_graph: whether the features are tensors of the batch.
        config_dict: thresholds of the tables.
    """
    embedding_list = []
    feature_list, hash_table_list, send_count_list = input_list
    for feature, hash_table, send_count in zip(feature_list, hash_table_list, send_count_list):
        access_and_evict_config = None
        if isinstance(config_dict, dict):
            access_and_evict_config = config_dict.get(hash_table.table_name)
        embedding = sparse_lookup(hash_table, feature, send_count, dim=None, is_train=is_train,
                                  access_and_evict_config=access_and_evict_config,
                                  name=hash_table.table_name + "_lookup", modify_graph=modify_graph, batch=batch)
        reduced_embedding = tf.reduce_sum(embedding, axis=1, keepdims=False)
        embedding_list.append(reduced_embedding)
    my_model = MyModel()
    my_model(embedding_list, *(columns[name] for name in LABELS if name in columns))
    return my_model
