"""Optimizers for the variables of the dense layers and for the rows of the tables."""
import logging
from typing import Any, List, Tuple

import tensorflow.compat.v1 as tf
from npu_bridge.hccl import hccl_ops
from rec_sdk_common.communication.hccl.hccl_info import get_rank_size

from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET, ASCEND_SPARSE_LOOKUP_LOCAL_EMB
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.optimizers.lazy_adam_by_addr import create_hash_optimizer_by_address
from mx_rec.util.initialize import get_use_dynamic_expansion
from mx_rec.util.variable import get_dense_and_sparse_variable

from config import Config


def get_dense_and_sparse_optimizer(cfg: Config) -> Tuple[Any, Any]:
    """Return Adam for the dense variables and lazy Adam for the rows of the tables."""
    dense_optimizer = tf.train.AdamOptimizer(learning_rate=cfg.learning_rate)
    use_dynamic_expansion = get_use_dynamic_expansion()
    if use_dynamic_expansion:
        sparse_optimizer = create_hash_optimizer_by_address(learning_rate=cfg.learning_rate)
        logging.info("optimizer lazy_adam_by_addr")
    else:
        sparse_optimizer = create_hash_optimizer(learning_rate=cfg.learning_rate)
        logging.info("optimizer lazy_adam")
    return dense_optimizer, sparse_optimizer


def average(tensors: List[tf.Tensor]) -> List[tf.Tensor]:
    """Return the means of tensors over all ranks."""
    if get_rank_size() == 1:
        return tensors
    return [hccl_ops.allreduce(tensor, "sum") / get_rank_size() for tensor in tensors]


def create_train_ops(cfg: Config, loss_list: List[tf.Tensor]) -> tf.Operation:
    """Return the ops of a training step: gradients of all tasks, followed by all updates."""
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    dense_optimizer, sparse_optimizer = get_dense_and_sparse_optimizer(cfg)
    if cfg.modify_graph:
        do_merge_lookup(is_train=True)  # necessary for tf.gradients; compute_gradients calls it automatically
    if get_use_dynamic_expansion():
        rows = tf.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
        targets = tf.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
    else:
        rows = targets = sparse_variables
    gradients = tf.gradients(tf.add_n(loss_list), dense_variables + rows)
    return tf.group(
        dense_optimizer.apply_gradients(zip(average(gradients[:len(dense_variables)]), dense_variables),
                                        global_step=tf.train.get_or_create_global_step()),
        sparse_optimizer.apply_gradients(zip(gradients[len(dense_variables):], targets)))
