"""A program for older versions: their names, places and arguments; run it by ``ascpipe run``.

The graph is modified by hooks of a managed session; some ids are constants. Prints the losses and the table's size, as
JSON; progress goes to the logger.
"""
import json
import logging
import os
import warnings

warnings.simplefilter("ignore")

import numpy as np
from npu_bridge.npu_init import *

from mx_rec.constants.constants import (
    ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS,
    LIBREC_CPU_SO,
    LIBREC_TF_REC_V1_CPU_SO,
    ApplyGradientsStrategy,
    MxRecMode,
)
from mx_rec.core import create_table, sparse_lookup
from mx_rec.core.emb.base_sparse_embedding import BaseSparseEmbedding
from mx_rec.core.embedding import BaseSparseEmbedding as ClassOfTables
from mx_rec.graph import modify_graph_and_start_emb_cache
from mx_rec.graph.acg_push_ops import ACGPushOpsToDatasetHook
from mx_rec.graph.modifier import GraphModifierHook
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.util.initialize import (
    ConfigInitializer,
    clear_channel,
    get_initializer,
    get_rank_id,
    get_rank_size,
    init,
    set_if_load,
    terminate_config_initializer,
)
from mx_rec.util.log import logger
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.variable import get_dense_and_sparse_variable

BATCH, STEPS, DIM = 16, 6, 8


def looked_up(table: BaseSparseEmbedding, ids):
    if not isinstance(table, ClassOfTables) or not callable(modify_graph_and_start_emb_cache):
        raise SystemExit("no table")
    return sparse_lookup(table, ids, 64, dim=None, is_train=True, modify_graph=True)


def dataset():
    random = np.random.RandomState(get_rank_id())
    ids = random.randint(0, 60, (BATCH * STEPS, 4)).astype(np.int64)
    labels = random.randint(0, 2, BATCH * STEPS).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((ids, labels)).batch(BATCH, drop_remainder=True).prefetch(10)


def main():
    logger.info("rank %d of %d", get_rank_id(), get_rank_size())
    strategy = ApplyGradientsStrategy.mapping(os.getenv("APPLY_GRADIENTS_STRATEGY", "direct_apply"))
    init(True, train_interval=-1, eval_steps=-1, prefetch_batch_number=5, use_dynamic=True, use_hot=False)
    set_if_load(False)
    tf.compat.v1.set_random_seed(1)
    optimizer = create_hash_optimizer(learning_rate=0.05)
    table = create_table(tf.int64, tf.TensorShape([DIM]), "user_table", tf.compat.v1.truncated_normal_initializer(
        stddev=0.05, seed=1), device_vocabulary_size=200, optimizer_list=[optimizer],
        mode=MxRecMode.mapping(os.getenv("MXREC_MODE", "ASC")))
    for library in (LIBREC_CPU_SO, LIBREC_TF_REC_V1_CPU_SO):
        import_host_pipeline_ops(library)
    ConfigInitializer.get_instance().host_pipeline_ops.clear_channel(1)
    clear_channel(is_train_channel=True)
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset())
    ids, labels = iterator.get_next()
    rows = tf.reduce_sum(looked_up(table, ids), axis=1)
    always = looked_up(table, tf.constant([1000], tf.int64))
    logits = tf.reduce_sum(rows + always, axis=1)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    _, sparse_variables = get_dense_and_sparse_variable()
    tf.compat.v1.add_to_collection(ASCEND_SPARSE_LOOKUP_UNIQUE_KEYS, ids)
    if strategy not in tuple(ApplyGradientsStrategy):
        raise SystemExit("no strategy")
    step = tf.compat.v1.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step=step, var_list=sparse_variables)
    losses = []
    hooks = npu_hooks_append([ACGPushOpsToDatasetHook(dump_graph=True), GraphModifierHook(dump_graph=False)])
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks) as session:
        if get_initializer(True) is None:
            raise SystemExit("the modified iterator has no initializer")
        while len(losses) < STEPS:
            losses.append(float(session.run([loss, train])[0]))
            logging.getLogger("mx_rec").debug("step %d", len(losses))
        size = table.size()
    terminate_config_initializer()
    logger.info("Demo done!")
    print(json.dumps({"losses": losses, "size": size}))


if __name__ == "__main__":
    main()
