"""Training in a ``tf.Session`` loop."""
import logging
import os
from typing import Any, List, Optional, Tuple

import tensorflow.compat.v1 as tf
from rec_sdk_common.communication.hccl.hccl_info import get_rank_id

from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.initialize import get_initializer, trigger_evict

from config import Config, sess_config
from dataset import create_feature_spec_list, make_dataset
from graph import build_model
from losses import LossFile
from model import MyModel, create_hash_tables
from optimizer import average, create_train_ops


def make_batch_and_iterator(cfg: Config, is_training: bool, feature_spec_list: Optional[List[Any]],
                            batch_number: int) -> Tuple[Any, Any]:
    """Return a batch and its iterator."""
    dataset = make_dataset(cfg, is_training, feature_spec_list, batch_number)
    if cfg.one_shot:
        iterator = dataset.make_one_shot_iterator()
    else:
        iterator = dataset.make_initializable_iterator()
    batch = iterator.get_next()
    return batch, iterator


def build_graph(cfg: Config, hash_table_list: List[Any], is_train: bool, batch_number: int) -> Tuple[Any, MyModel]:
    """Return an iterator, and the model of its batches."""
    feature_spec_list = None if cfg.modify_graph else create_feature_spec_list(cfg)
    batch, iterator = make_batch_and_iterator(cfg, is_train, feature_spec_list, batch_number)
    features, labels = batch if cfg.tuple_batch else (batch, None)
    return iterator, build_model(cfg, hash_table_list, features, labels, is_train, feature_spec_list)


def train_in_session(cfg: Config, losses: LossFile) -> None:
    """Train, and evaluate every ``train_interval`` steps. A checkpoint is saved every ``saving_interval`` steps."""
    tf.set_random_seed(cfg.seed)
    rank_id = get_rank_id()
    user_hashtable, item_hashtable = create_hash_tables(cfg)
    train_iterator, train_model = build_graph(cfg, [user_hashtable, item_hashtable], is_train=True,
                                              batch_number=cfg.steps)
    eval_iterator, eval_model = build_graph(cfg, [user_hashtable, item_hashtable], is_train=False,
                                            batch_number=cfg.eval_steps)
    train_ops = create_train_ops(cfg, train_model.loss_list)

    losses_of = {True: average(train_model.loss_list), False: average(eval_model.loss_list)}

    saver = tf.train.Saver() if cfg.saving_interval else None
    if cfg.modify_graph:
        logging.info("start to modifying graph")
        modify_graph_and_start_emb_cache(dump_graph=cfg.dump_graph)
    else:
        start_asc_pipeline()

    with tf.Session(config=sess_config()) as sess:

        def initialize(is_training: bool) -> None:
            if cfg.one_shot:
                return
            if cfg.modify_graph:
                sess.run(get_initializer(is_training))
            else:
                sess.run(train_iterator.initializer if is_training else eval_iterator.initializer)

        def evaluate() -> None:
            initialize(is_training=False)
            for _ in range(cfg.eval_steps):
                losses.write("eval", sess.run(losses_of[False]))

        initialize(is_training=True)
        sess.run(tf.global_variables_initializer())
        base = os.path.join(cfg.saved_model, f"model-{rank_id}")
        if saver and os.path.exists(os.path.join(cfg.saved_model, f"sparse-model-{rank_id}-%d" % 0)):
            saver.restore(sess, f"{base}-%d" % 0)
        elif saver:
            saver.save(sess, base, global_step=0)
        for i in range(1, cfg.steps + 1):
            logging.info(f"################    training at step {i}    ################")
            try:
                _, loss_list = sess.run([train_ops, losses_of[True]])
            except tf.errors.OutOfRangeError:
                logging.info("Encounter the end of Sequence for training.")
                break
            else:
                losses.write("train", loss_list)
                if i % cfg.train_interval == 0:
                    evaluate()
                if saver and i % cfg.saving_interval == 0:
                    saver.save(sess, base, global_step=i)
                if cfg.access_and_evict and i % cfg.evict_interval == 0:
                    trigger_evict()
        if saver:
            saver.save(sess, base, global_step=i)
        for table in (user_hashtable, item_hashtable):
            logging.info("%s has %d rows", table.table_name, table.size())
