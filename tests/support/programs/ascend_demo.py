"""The session demo, in the order in which programs for Ascend servers do it; run it by ``ascpipe run``.

Its switches are variables of the environment (``ascend_demo_config``). With FeatureSpecs ``start_asc_pipeline()`` comes
before the training op, which the loop's set-up makes. Prints what it did as JSON; the log ends with "Demo done!".
"""
import json
import logging
import os
import warnings

warnings.simplefilter("ignore")

logging.basicConfig(level=os.getenv("MXREC_LOG_LEVEL", "INFO"), format="%(asctime)s %(message)s")

import tensorflow as tf
from ascend_demo_config import Config, UseMode, add_timestamp_func, as_tuple, create_feature_spec_list, generate_dataset
from ascend_demo_loop import RunMode
from ascend_demo_model import MyModel, model_forward

from mx_rec.constants.constants import ASCEND_TIMESTAMP
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.optimizers.lazy_adam_by_addr import create_hash_optimizer_by_address
from mx_rec.util.initialize import ConfigInitializer, init, terminate_config_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable

tf.compat.v1.disable_eager_execution()


def make_batch_and_iterator(cfg, feature_spec_list, is_training, dump_graph):
    batch_number = cfg.train_batch_num if is_training else cfg.eval_batch_num
    dataset = generate_dataset(cfg, batch_number, seed=1 if is_training else 2)
    if cfg.use_timestamp:
        dataset = dataset.map(add_timestamp_func)
    if not cfg.modify_graph:
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=feature_spec_list, is_training=is_training,
                                                  dump_graph=dump_graph))
    if cfg.use_tuple:
        dataset = dataset.map(as_tuple)
    dataset = dataset.prefetch(100)
    if cfg.use_one_shot:
        iterator = tf.compat.v1.data.make_one_shot_iterator(dataset)
    else:
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    batch = iterator.get_next()
    return batch, iterator


def build_graph(cfg, hash_table_list, is_train, feature_spec_list=None, config_dict=None):
    batch, iterator = make_batch_and_iterator(cfg, feature_spec_list, is_train, dump_graph=True)
    if cfg.use_tuple:
        features, labels = batch
        user_ids, item_ids = features[0], features[1]
        timestamp = features[2] if cfg.use_timestamp else None
    else:
        labels = (batch["label_0"], batch["label_1"])
        user_ids, item_ids, timestamp = batch["user_ids"], batch["item_ids"], batch.get("timestamp")
    if cfg.modify_graph:
        feature_list = [user_ids, item_ids] + [user_ids] * cfg.repeats
        if cfg.use_timestamp:
            tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, timestamp)
    else:
        feature_list = [spec for spec in feature_spec_list if not spec.is_timestamp]
    input_list = [feature_list, [hash_table_list[0], hash_table_list[1]] + [hash_table_list[0]] * cfg.repeats,
                  [cfg.user_send_cnt, cfg.item_send_cnt] + [cfg.user_send_cnt] * cfg.repeats]
    model = model_forward(MyModel(cfg.mlp), input_list, None if cfg.use_tuple else batch, labels, is_train,
                          cfg.modify_graph, config_dict)
    return iterator, model


def create_hash_table(cfg, name, dim):
    padding = {}
    if cfg.use_padding_keys and name == "user_table":  # all tables with padding keys would need static shapes
        padding = {"padding_keys": [0, 1, 2], "padding_keys_mask": True, "padding_keys_len": 3}
    return create_table(key_dtype=tf.int64,
                        dim=tf.TensorShape([dim]),
                        name=name,
                        emb_initializer=tf.compat.v1.truncated_normal_initializer(),
                        device_vocabulary_size=cfg.dev_vocab_size,
                        host_vocabulary_size=cfg.host_vocab_size,
                        ssd_vocabulary_size=cfg.ssd_vocab_size,
                        ssd_data_path=["ssd_data"],
                        is_dp=cfg.use_dp,
                        all2all_gradients_op="sum_gradients_and_div_by_ranksize",
                        **padding)


def get_dense_and_sparse_optimizer(cfg):
    dense_optimizer = tf.compat.v1.train.AdamOptimizer(learning_rate=cfg.learning_rate)
    if ConfigInitializer.get_instance().use_dynamic_expansion:
        sparse_optimizer = create_hash_optimizer_by_address(learning_rate=cfg.learning_rate)
    else:
        sparse_optimizer = create_hash_optimizer(learning_rate=cfg.learning_rate)
    return dense_optimizer, sparse_optimizer


if __name__ == "__main__":
    mode = UseMode.mapping(os.getenv("USE_MODE"))
    cfg = Config()
    # load_and_train and predict restore.
    init(train_steps=cfg.train_steps, eval_steps=cfg.eval_steps, save_steps=cfg.save_steps, max_steps=cfg.max_steps,
         use_dynamic=cfg.use_dynamic, use_dynamic_expansion=cfg.use_dynamic_expansion,
         if_load=mode is not UseMode.TRAIN)
    user_hashtable = create_hash_table(cfg, "user_table", cfg.user_hashtable_dim)
    item_hashtable = create_hash_table(cfg, "item_table", cfg.item_hashtable_dim)
    table_list = [user_hashtable, item_hashtable]
    train_iterator, train_model, train_specs, eval_specs = None, None, None, None
    if mode is not UseMode.PREDICT:
        if not cfg.modify_graph:
            train_specs = create_feature_spec_list(cfg)
        train_iterator, train_model = build_graph(cfg, table_list, True, train_specs, cfg.config_dict)
    if not cfg.modify_graph:
        eval_specs = create_feature_spec_list(cfg)
    eval_iterator, eval_model = build_graph(cfg, table_list, False, eval_specs, cfg.config_dict)
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    params = {"train_batch_num": cfg.train_batch_num, "cfg": cfg}
    run_mode = RunMode(cfg, table_list, get_dense_and_sparse_optimizer(cfg), dense_variables, sparse_variables,
                       train_model, eval_model, train_iterator, eval_iterator)
    if not cfg.modify_graph:
        start_asc_pipeline()  # there are no gradients yet
    if mode is UseMode.TRAIN:
        run_mode.train()
    elif mode is UseMode.LOAD_AND_TRAIN:
        run_mode.train(load=True)
    else:
        run_mode.predict()
    terminate_config_initializer()
    logging.info("Demo done!")
    print(json.dumps(run_mode.told))
