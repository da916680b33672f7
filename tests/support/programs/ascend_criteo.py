"""What the four programs over TFRecord files share: settings by the environment, datasets, the training loop.

``DEMO_SIZES`` is of the tests alone: JSON with smaller numbers for attributes of ``Config``.
"""
import glob
import json
import os

import numpy as np
import tensorflow as tf
from npu_bridge.npu_init import util
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.feature_process import EvictHook
from mx_rec.graph.modifier import GraphModifierHook, modify_graph_and_start_emb_cache
from mx_rec.util.initialize import ConfigInitializer
from mx_rec.util.ops import import_host_pipeline_ops

ITERATIONS = 10  #: training steps of one sess.run


def switch(name, default="0"):
    return bool(int(os.getenv(name, default)))


class Config:
    def __init__(self, **sizes):
        rank = os.getenv("OMPI_COMM_WORLD_RANK")
        self.rank_id = int(rank) if rank is not None else None
        self.rank_size = int(os.getenv("TRAIN_RANK_SIZE", "1"))
        self.data_path = os.getenv("DLRM_CRITEO_DATA_PATH")
        self.cache_mode = os.getenv("CACHE_MODE", "HBM")
        self.use_dynamic, self.use_dynamic_expansion = switch("USE_DYNAMIC", "1"), switch("USE_DYNAMIC_EXPANSION")
        self.use_multi_lookup, self.multi_lookup_times = switch("USE_MULTI_LOOKUP"), 4
        self.modify_graph, self.use_faae, self.use_dp = (
            switch("USE_MODIFY_GRAPH"), switch("USE_FAAE"), switch("USE_DP"))
        self.train_steps = int(os.getenv("INTERVAL", "10000"))
        self.access_threshold, self.eviction_threshold, self.evict_interval = 2, 3600, 10
        self.max_steps, self.eval_steps, self.threads = -1, -1, 0
        self.initializer_seed = 7
        vars(self).update(sizes)
        vars(self).update(json.loads(os.getenv("DEMO_SIZES", "{}")))

    @property
    def vocabulary(self):
        if self.cache_mode == "HBM":
            return {"device_vocabulary_size": self.hbm_rows * self.rank_size}
        if self.cache_mode == "DDR":
            return {"device_vocabulary_size": self.ddr_rows[0] * self.rank_size,
                    "host_vocabulary_size": self.ddr_rows[1] * self.rank_size}
        raise ValueError("CACHE_MODE is {}, not HBM or DDR".format(self.cache_mode))

    @property
    def lookups(self):
        return self.multi_lookup_times if self.use_multi_lookup else 1

    @property
    def access_and_evict_config(self):
        if not self.use_faae:
            return None
        return {"access_threshold": self.access_threshold, "eviction_threshold": self.eviction_threshold}


def sess_config(cfg):
    session_config = tf.compat.v1.ConfigProto(allow_soft_placement=False, log_device_placement=False,
                                              inter_op_parallelism_threads=cfg.threads,
                                              intra_op_parallelism_threads=cfg.threads)
    custom_op = session_config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["use_off_line"].b = True
    custom_op.parameter_map["iterations_per_loop"].i = ITERATIONS
    custom_op.parameter_map["op_precision_mode"].s = tf.compat.as_bytes("op_impl_mode.ini")
    session_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    session_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return session_config


def create_feature_spec_list(cfg, tables):
    """A feature for each lookup of each table, and the time where features are evicted."""
    thresholds = {}
    if cfg.use_faae:
        thresholds = dict(cfg.access_and_evict_config, faae_coefficient=1)
    feature_spec_list = [FeatureSpec("sparse_feature", table_name=table.table_name, batch_size=cfg.batch_size,
                                     **thresholds) for table in tables for _ in range(cfg.lookups)]
    if cfg.use_faae:
        feature_spec_list.append(FeatureSpec("timestamp", is_timestamp=True))
    return feature_spec_list


def make_batch_and_iterator(cfg, columns, feature_spec_list, is_training, before_batch=None, extract=None):
    """Batches of a folder of TFRecord files.

    Args:
        columns: (values per line, dtype) of each column.
        before_batch: what is done to the dataset of records.
        extract: makes the batch of a dict of columns, float or int64[batch_size, values per line] each.
    """
    files = sorted(glob.glob(os.path.join(cfg.data_path, "train" if is_training else "test", "*.tfrecord")))
    dataset = tf.data.TFRecordDataset(files, num_parallel_reads=1)
    dataset = dataset.shard(cfg.rank_size, cfg.rank_id)
    dataset = dataset.repeat(cfg.epochs[0 if is_training else 1])
    dataset = dataset.batch(cfg.batch_size // cfg.lines, drop_remainder=True)
    if before_batch is not None:
        dataset = before_batch(dataset)
    layout = {name: tf.io.FixedLenFeature([count * cfg.lines], dtype) for name, (count, dtype) in columns.items()}

    def parse(records):
        found = tf.io.parse_example(records, layout)
        return extract({name: tf.reshape(found[name], [cfg.batch_size, count])
                        for name, (count, _) in columns.items()})

    dataset = dataset.map(parse, num_parallel_calls=4)
    if cfg.use_faae:
        dataset = dataset.map(add_timestamp_func)
    if not cfg.modify_graph:
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=feature_spec_list, is_training=is_training,
                                                  dump_graph=False))
    dataset = dataset.prefetch(100)
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    return iterator.get_next(), iterator


def add_timestamp_func(batch):
    batch["timestamp"] = import_host_pipeline_ops().return_timestamp(tf.cast(batch["label"], dtype=tf.int64))
    return batch


def auc_of(labels, predictions):
    """Area under the curve of one task (sklearn's, which the programs use, gives the same)."""
    labels, predictions = np.concatenate(labels).ravel(), np.concatenate(predictions).ravel()
    order = predictions.argsort(kind="mergesort")
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    positives = labels.sum()
    return float((ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (
        positives * (len(labels) - positives)))


class Run:
    """The session of such a program: training, with an evaluation every ``train_steps`` steps."""

    def __init__(self, cfg, tables, train, evaluation, train_ops):
        """``train`` and ``evaluation``: iterator, batch, and what the model gave, "loss" and "pred"."""
        self.cfg, self.tables, self.train_ops = cfg, tables, train_ops
        (self.train_iterator, _, self.train_model), (self.eval_iterator, self.eval_batch, self.eval_model) = (
            train, evaluation)
        self.told = {"losses": [], "evaluations": [], "labels": [], "sizes": [], "step": 0}

    def start(self):
        if self.cfg.modify_graph:
            modify_graph_and_start_emb_cache(dump_graph=True)
        else:
            start_asc_pipeline()

    def session(self):
        if not self.cfg.use_faae:
            session = tf.compat.v1.Session(config=sess_config(self.cfg))
            session.run(tf.compat.v1.global_variables_initializer())
            return session
        hook_list = [EvictHook(evict_enable=True, evict_time_interval=self.cfg.evict_interval)]
        if self.cfg.modify_graph:
            # The graph is modified already; the hook is there for the session's check.
            hook_list.append(GraphModifierHook(modify_graph=False))
        session = tf.compat.v1.train.MonitoredTrainingSession(hooks=hook_list, config=sess_config(self.cfg))
        session.graph._unsafe_unfinalize()
        return session

    def run(self):
        self.start()
        with self.session() as sess:
            parameters = ConfigInitializer.get_instance().train_params_config
            sess.run(parameters.get_initializer(True) if self.cfg.modify_graph else self.train_iterator.initializer)
            self.train_ops = util.set_iteration_per_loop(sess, tf.group(self.train_ops), ITERATIONS)
            i = 0
            while self.cfg.max_steps == -1 or i < self.cfg.max_steps:
                i += ITERATIONS
                try:
                    _, loss = sess.run([self.train_ops, self.train_model["loss"]])
                except tf.errors.OutOfRangeError:
                    break
                self.told["losses"].append(np.ravel(loss).astype(float).tolist())
                self.told["sizes"].append([table.size() for table in self.tables])
                if i % self.cfg.train_steps == 0:
                    self.evaluate(sess)
            self.told["step"] = i
            self.told["sizes"].append([table.size() for table in self.tables])

    def evaluate(self, sess):
        parameters = ConfigInitializer.get_instance().train_params_config
        if self.cfg.modify_graph:
            sess.run(parameters.get_initializer(False))
            label = parameters.get_target_batch(False).get("label")
        else:
            sess.run(self.eval_iterator.initializer)
            label = self.eval_batch["label"]
        losses, predictions, labels = [], [], []
        while self.cfg.eval_steps == -1 or len(losses) < self.cfg.eval_steps:
            try:
                loss, prediction, truth = sess.run([self.eval_model["loss"], self.eval_model["pred"], label])
            except tf.errors.OutOfRangeError:
                break
            losses.append(np.ravel(loss).astype(float).tolist())
            predictions.append(np.reshape(prediction, [self.cfg.batch_size, -1]))
            labels.append(np.reshape(truth, [self.cfg.batch_size, -1]))
        aucs = [auc_of([part[:, task] for part in labels], [part[:, task] for part in predictions])
                for task in range(labels[0].shape[1])]
        self.told["evaluations"].append({"losses": losses, "auc": aucs})
        self.told["labels"].append(int(sum(part.sum() for part in labels)))
