"""What the session demo does in its modes: train, load and train, predict."""
import glob
import logging
import os
import time

import numpy as np
import tensorflow as tf
from ascend_demo_config import rank_size, sess_config

from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET, ASCEND_SPARSE_LOOKUP_LOCAL_EMB
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.initialize import ConfigInitializer
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.tf_version_adapter import hccl_ops

SAVED = "./saved-model"


class RunMode:
    def __init__(self, cfg, table_list, optimizer_list, dense_variables, sparse_variables, train_model, eval_model,
                 train_iterator, eval_iterator):
        self.cfg, self.table_list = cfg, table_list
        self.dense_optimizer, self.sparse_optimizer = optimizer_list
        self.dense_variables, self.sparse_variables = dense_variables, sparse_variables
        self.train_model, self.eval_model = train_model, eval_model
        self.train_iterator, self.eval_iterator = train_iterator, eval_iterator
        self.session, self.saver, self.train_ops = None, None, []
        self.told = {"losses": [], "evaluations": [], "sizes": [], "capacities": []}

    def set_train_ops(self):
        for loss in self.train_model.loss_list[:1]:
            dense_grads = self.dense_optimizer.compute_gradients(loss, var_list=self.dense_variables)
            averaged = []
            for grad, variable in dense_grads:
                if grad is None:
                    continue
                if rank_size > 1:
                    grad = hccl_ops.allreduce(grad, "sum")
                averaged.append((grad / rank_size, variable))
            self.train_ops.append(self.dense_optimizer.apply_gradients(averaged))
            if ConfigInitializer.get_instance().use_dynamic_expansion:
                train_emb_list = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
                train_address_list = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
                sparse_grads = tf.gradients(loss, train_emb_list)
                grads_and_vars = [(grad, address) for grad, address in zip(sparse_grads, train_address_list)]
            else:
                sparse_grads = tf.gradients(loss, self.sparse_variables)
                grads_and_vars = [(grad, variable) for grad, variable in zip(sparse_grads, self.sparse_variables)]
            self.train_ops.append(self.sparse_optimizer.apply_gradients(grads_and_vars))

    def run_initializer(self, is_training):
        if self.cfg.use_one_shot:
            return
        if self.cfg.modify_graph:
            self.session.run(ConfigInitializer.get_instance().train_params_config.get_initializer(is_training))
        else:
            self.session.run((self.train_iterator if is_training else self.eval_iterator).initializer)

    def train(self, load=False):
        self.set_train_ops()
        if self.cfg.modify_graph:
            logging.info("start to modifying graph")
            modify_graph_and_start_emb_cache(dump_graph=True)
        self.saver = tf.compat.v1.train.Saver()
        with tf.compat.v1.Session(config=sess_config(self.cfg)) as self.session:
            self.run_initializer(True)
            self.session.run(tf.compat.v1.global_variables_initializer())
            begin = self.restore() if load else 0
            if self.cfg.precision_check:
                self.check_precision()
            for i in range(begin + 1, begin + self.cfg.max_steps + 1):
                logging.info("################    training at step %d    ################", i)
                try:
                    _, loss = self.session.run([self.train_ops, self.train_model.loss_list])
                except tf.errors.OutOfRangeError:
                    logging.info("Encounter the end of Sequence for training.")
                    break
                self.told["losses"].append([float(value) for value in loss])
                if i % self.cfg.train_steps == 0:
                    self.evaluate()
                if i % self.cfg.save_steps == 0:
                    self.saver.save(self.session, os.path.join(SAVED, "model"), global_step=i)
                if self.cfg.use_timestamp and i == self.cfg.change_threshold_at:
                    self.change_threshold()
                self.told["sizes"].append([table.size() for table in self.table_list])
            self.told["capacities"] = [table.capacity() for table in self.table_list]

    def evaluate(self):
        logging.info("################    start evaluating   ################")
        self.run_initializer(False)
        channel_id = ConfigInitializer.get_instance().train_params_config.get_training_mode_channel_id(False)
        # Called, and not run.
        import_host_pipeline_ops().clear_channel(channel_id)
        losses = []
        for _ in range(self.cfg.eval_steps):
            try:
                losses.append([float(value) for value in self.session.run(self.eval_model.loss_list)])
            except tf.errors.OutOfRangeError:
                logging.info("Encounter the end of Sequence for eval.")
                break
        self.told["evaluations"].append(losses)

    def predict(self):
        if self.cfg.modify_graph:
            modify_graph_and_start_emb_cache(dump_graph=True)
        self.saver = tf.compat.v1.train.Saver()
        with tf.compat.v1.Session(config=sess_config(self.cfg)) as self.session:
            self.run_initializer(False)
            self.session.run(tf.compat.v1.global_variables_initializer())
            self.restore()
            self.evaluate()
            self.told["sizes"].append([table.size() for table in self.table_list])

    def restore(self):
        """The latest step whose tables were saved."""
        found = glob.glob(os.path.join(SAVED, "sparse-model-*"))
        if not found:
            raise FileNotFoundError("no sparse-model-<step> in " + SAVED)
        step = max(int(name.split("-")[-1]) for name in found)
        self.saver.restore(self.session, os.path.join(SAVED, "model-{}".format(step)))
        return step

    def change_threshold(self):
        table = self.table_list[0]
        threshold = tf.constant(self.cfg.new_threshold, dtype=tf.int32)
        self.session.run(import_host_pipeline_ops().set_threshold(
            threshold, emb_name=table.table_name, ids_name=table.table_name + "_lookup"))

    def check_precision(self):
        """Writes batches that it fetches for itself, then begins the data anew."""
        folder = os.path.join("precision_check", time.strftime("%Y%m%d-%H%M%S"))
        os.makedirs(folder)
        batch = self.train_iterator.get_next()
        for step in range(3):
            for number, value in enumerate(tf.nest.flatten(self.session.run(batch))):
                np.save(os.path.join(folder, "{}_{}.npy".format(step, number)), value)
        self.session.run(self.train_iterator.initializer)
        time.sleep(self.cfg.sleep_s)
