"""The Estimator demo's model function: tables anew in every graph, SGD for them, Adam for the layers."""
import numpy as np
import tensorflow as tf
from ascend_demo_model import MyModel, model_forward

from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET, ASCEND_SPARSE_LOOKUP_LOCAL_EMB, ASCEND_TIMESTAMP
from mx_rec.core.embedding import create_table
from mx_rec.optimizers.gradient_descent import create_hash_optimizer
from mx_rec.optimizers.gradient_descent_by_addr import create_hash_optimizer_by_addr
from mx_rec.util.communication.hccl_ops import get_rank_size
from mx_rec.util.initialize import ConfigInitializer
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.tf_version_adapter import hccl_ops
from mx_rec.util.variable import get_dense_and_sparse_variable

TRAIN, EVAL, PREDICT = (tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL, tf.estimator.ModeKeys.PREDICT)


class Sizes(tf.estimator.SessionRunHook):
    """Notes the sizes of the tables of a graph after each step."""

    def __init__(self, told, tables):
        self.told, self.tables = told, tables

    def after_run(self, run_context, run_values):
        self.told.append([table.size() for table in self.tables])


def create_hash_table(cfg, name, dim):
    return create_table(key_dtype=tf.int64, dim=tf.TensorShape([dim]), name=name,
                        emb_initializer=tf.compat.v1.truncated_normal_initializer(),
                        device_vocabulary_size=cfg.dev_vocab_size, host_vocabulary_size=cfg.host_vocab_size,
                        ssd_vocabulary_size=cfg.ssd_vocab_size, ssd_data_path=["ssd_data"], is_dp=cfg.use_dp)


def get_model_fn(create_fs_params, cfg, told):
    def model_fn(features, labels, mode, params):
        is_train = mode == TRAIN
        tables = [create_hash_table(cfg, "user_table", cfg.user_hashtable_dim),
                  create_hash_table(cfg, "item_table", cfg.item_hashtable_dim)]
        told["tables"] += 1
        batch, labels = columns_of(cfg, features, labels)
        if cfg.modify_graph:
            feature_list = [batch["user_ids"], batch["item_ids"]] + [batch["user_ids"]] * cfg.repeats
            if cfg.use_timestamp and mode != PREDICT:
                tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, batch["timestamp"])
        elif "feature_spec_list" in create_fs_params:
            feature_list = [spec for spec in create_fs_params["feature_spec_list"] if not spec.is_timestamp]
        send_count_list = [cfg.user_send_cnt, cfg.item_send_cnt] + [cfg.user_send_cnt] * cfg.repeats
        table_list = [*tables] + [tables[0]] * cfg.repeats
        if cfg.enable_slicer_test and cfg.modify_graph:
            # Item keys made of text, which are float32; and keys that come from no iterator.
            feature_list[1] = tf.strings.to_number(tf.strings.as_string(feature_list[1]))
            feature_list.append(tf.constant(np.arange(cfg.batch_size * 2).reshape(-1, 2) % 20, tf.int64))
            send_count_list.append(cfg.user_send_cnt)
            table_list.append(tables[0])
        if not ConfigInitializer.get_instance().use_static:
            send_count_list = [None] * len(send_count_list)
        input_list = [feature_list, table_list, send_count_list]
        model = model_forward(
            MyModel(cfg.mlp, keep_prob=cfg.keep_prob if is_train else None), input_list,
            features if isinstance(features, dict) else None, labels or (), is_train, cfg.modify_graph,
            cfg.config_dict, no_grad=range(2, 2 + cfg.repeats))  # repeats do not train
        predictions = {"task_{}".format(task): tf.sigmoid(logit) for task, logit in enumerate(model.logit_list)}
        if mode == PREDICT:
            return tf.estimator.EstimatorSpec(mode=mode, predictions=predictions)
        for loss in model.loss_list:
            tf.compat.v1.add_to_collection("demo_losses", loss)
        loss = model.loss_list[0]
        channel_id = ConfigInitializer.get_instance().train_params_config.get_training_mode_channel_id(False)
        import_host_pipeline_ops().clear_channel(channel_id)  # called, and not run
        if mode == EVAL:
            metrics = {"auc": tf.compat.v1.metrics.auc(labels[0], predictions["task_0"])}
            return tf.estimator.EstimatorSpec(mode=mode, loss=loss, eval_metric_ops=metrics)
        return tf.estimator.EstimatorSpec(mode=mode, loss=loss, train_op=get_train_op(params, model.loss_list[:1]),
                                          training_hooks=[Sizes(told["sizes"], tables)])

    return model_fn


def columns_of(cfg, features, labels):
    """A batch as a dict, and both labels, or None."""
    if isinstance(features, dict):
        found = [features[name] for name in ("label_0", "label_1") if name in features]
        return features, found or None
    names = ("user_ids", "item_ids", "timestamp", "category_ids") if cfg.use_timestamp else (
        "user_ids", "item_ids", "category_ids")
    return dict(zip(names, features)), labels


def get_train_op(params, losses):
    dense_variables, sparse_variables = get_dense_and_sparse_variable()
    dense_optimizer = tf.compat.v1.train.AdamOptimizer(learning_rate=params.learning_rate)
    if ConfigInitializer.get_instance().use_dynamic_expansion:
        sparse_optimizer = create_hash_optimizer_by_addr(learning_rate=params.learning_rate)
    else:
        sparse_optimizer = create_hash_optimizer(learning_rate=params.learning_rate)
    train_ops = []
    for number, loss in enumerate(losses):
        grads = dense_optimizer.compute_gradients(loss, var_list=dense_variables)
        pairs = [(hccl_ops.allreduce(grad, "sum") if get_rank_size() > 1 else grad, variable)
                 for grad, variable in grads if grad is not None]
        train_ops.append(dense_optimizer.apply_gradients(pairs, global_step=tf.compat.v1.train.get_global_step()))
        if ConfigInitializer.get_instance().use_dynamic_expansion:
            embeddings = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
            targets = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
        else:
            embeddings = targets = sparse_variables
        sparse_grads = tf.gradients(loss, embeddings)
        train_ops.append(sparse_optimizer.apply_gradients(
            list(zip(sparse_grads, targets)), name="sparse_optimizer_{}".format(number)))
    return tf.group(*train_ops)
