"""A program for one rank or several, as users write them: sharded tables, dense layers whose gradients are averaged.

    horovodrun -np 2 python tests/support/programs/ranked.py FOLDER

FOLDER/case.json holds the fields of a ``Case`` (``ranked_case.py``). Each rank trains its part of every batch: rank 0
the first lines, and so on. It writes what it saw to FOLDER/RANK.json, and the rows of an evaluation of all keys to
FOLDER/RANK.npz.
"""
import collections
import contextlib
import hashlib
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np
import tensorflow as tf

import ascpipe.tf
from ascpipe.checkpoint import disk
from mx_rec.constants.constants import ASCEND_SPARSE_LOOKUP_ID_OFFSET, ASCEND_SPARSE_LOOKUP_LOCAL_EMB
from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.optimizers import (
    adagrad,
    adagrad_by_addr,
    ftrl,
    gradient_descent,
    gradient_descent_by_addr,
    lazy_adam,
    lazy_adam_by_addr,
)
from mx_rec.util.initialize import ConfigInitializer, init, terminate_config_initializer, trigger_evict
from mx_rec.util.ops import import_host_pipeline_ops
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.support.disk_faults import SIGKILL, FaultyDisk
from tests.support.programs import ranked_edits, ranked_faults
from tests.support.programs.ranked_case import RANK, RANKS, Case, Feature, Table
from tests.support.programs.ranked_lines import Lines
from tests.support.programs.ranked_terms import Cancelled
from tests.support.programs.scenarios import daemon_name, status
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

tf.compat.v1.disable_eager_execution()
#: Adam turns rounding of a gradient that is nearly nothing into a step of about its rate.
RATES = {"adagrad": 0.1, "ftrl": 0.1, "gradient_descent": 0.1, "lazy_adam": 0.01}
OPTIMIZERS = {"adagrad": adagrad, "ftrl": ftrl, "gradient_descent": gradient_descent, "lazy_adam": lazy_adam}
BY_ADDRESS = {"adagrad": adagrad_by_addr.create_hash_optimizer_by_address,
              "gradient_descent": gradient_descent_by_addr.create_hash_optimizer_by_addr,
              "lazy_adam": lazy_adam_by_addr.create_hash_optimizer_by_address}


class Program:
    """The graph of a case: a training channel, and an evaluation channel over every key."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._sharing = RANKS > 1
        tables = {name: Table(**table) for name, table in case.tables.items()}
        self.hash_tables = {name: self._create(name, table) for name, table in sorted(tables.items())}
        self._features = {name: Feature(**feature) for name, feature in sorted(case.features.items())}
        self._tables, self._lines = tables, Lines(case, self._features, tables)
        self.scale, self.gradient_scale = (tf.compat.v1.placeholder_with_default(np.float32(1), []) for _ in range(2))
        self.iterator, self.batch = None, None

    def build(self) -> None:
        """All of the graph, in the order in which programs call."""
        train_specs, eval_specs = self._specs(), self._specs()
        self.batch, self.iterator = self._iterator(train_specs, self._lines.training, is_training=True)
        loss, rows_read = self._forward(train_specs, self.batch, is_train=True)
        eval_batch, self.eval_iterator = self._iterator(eval_specs, self._lines.all_keys, is_training=False)
        self.eval_loss, self.eval_rows = self._forward(eval_specs, eval_batch, is_train=False)
        if not self._case.modify:
            start_asc_pipeline()
        dense, _ = get_dense_and_sparse_variable()
        rows, optimizer = self._sparse_optimizer()
        dense_optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.05)
        averaged = dense_optimizer.compute_gradients(loss, var_list=dense)
        self.loss = loss
        if self._sharing:
            import horovod.tensorflow as hvd
            averaged = [(hvd.allreduce(gradient, op=hvd.Average), variable) for gradient, variable in averaged]
            self.loss = hvd.allreduce(loss, op=hvd.Average)
        train_dense = dense_optimizer.apply_gradients(averaged)
        gradients = tf.gradients(loss, rows)
        if self._case.fault.get("kind") == "nan_gradient":
            gradients = [tf.IndexedSlices(
                tf.debugging.check_numerics(gradient.values * self.gradient_scale, "a gradient"), gradient.indices,
                gradient.dense_shape) for gradient in gradients]
        self.train = [train_dense, optimizer(gradients)]
        if self._case.join == "apart":
            self.train.append(rows_read)
        self.cancelled = Cancelled(self._lines, loss, rows_read, self.batch) if self._case.cancelled else None
        if self._case.expansion:
            handles = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
            self.read = import_host_pipeline_ops().embedding_lookup_by_address(handles[0], 1)
        if self._case.modify:
            modify_graph_and_start_emb_cache(dump_graph=False)
        self.saver = tf.compat.v1.train.Saver(max_to_keep=None)
        set_threshold = import_host_pipeline_ops().set_threshold
        self.set_threshold = {step: set_threshold(tf.constant(value), emb_name="")
                              for step, value in self._case.thresholds.items()}
        if self._sharing and self._case.rank_0_saves:
            self.broadcast = ascpipe.tf.broadcast_global_variables()

    def _sparse_optimizer(self) -> Tuple[List[Any], Callable[[List[Any]], tf.Operation]]:
        """What the loss is differentiated by, and what applies those gradients."""
        name, rate = self._case.optimizer, RATES[self._case.optimizer]
        if self._case.expansion:
            rows = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_LOCAL_EMB)
            updated = tf.compat.v1.get_collection(ASCEND_SPARSE_LOOKUP_ID_OFFSET)
            optimizer = BY_ADDRESS[name](rate)
        else:
            _, rows = get_dense_and_sparse_variable()
            updated, optimizer = rows, OPTIMIZERS[name].create_hash_optimizer(rate)
        return rows, lambda gradients: optimizer.apply_gradients(list(zip(gradients, updated)))

    def initializer(self, is_training: bool) -> tf.Operation:
        """Of the iterator of a channel."""
        if self._case.modify:
            return ConfigInitializer.get_instance().train_params_config.get_initializer(is_training)
        return (self.iterator if is_training else self.eval_iterator).initializer

    def _create(self, name: str, table: Table) -> Any:
        more = {}
        if table.padding:
            more.update(padding_keys=list(table.padding), padding_keys_mask=True, padding_keys_len=len(table.padding))
        if table.disk:
            more.update(ssd_vocabulary_size=table.disk, ssd_data_path=[sys.argv[1]])
        return create_table(
            key_dtype=tf.int64, dim=tf.TensorShape([table.dim]), name=name,
            emb_initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.1, seed=3),
            device_vocabulary_size=table.device, host_vocabulary_size=table.host, is_dp=table.is_dp,
            all2all_gradients_op="sum_gradients_and_div_by_ranksize" if self._case.average else "sum_gradients", **more)

    def _specs(self) -> Optional[Dict[str, FeatureSpec]]:
        if self._case.modify:
            return None
        evicts = {"eviction_threshold": self._case.evict_each} if self._case.evict_each else {}
        specs = {name: FeatureSpec(name, table_name=feature.table, index_key=name,
                                   access_threshold=self._tables[feature.table].threshold, **evicts)
                 for name, feature in self._features.items()}
        return {**specs, "time": FeatureSpec("time", index_key="time", is_timestamp=True)} if evicts else specs

    def _iterator(self, specs: Optional[Dict[str, FeatureSpec]], lines: Callable[[], Iterator[Dict[str, np.ndarray]]],
                  is_training: bool) -> Tuple[Dict[str, Any], Any]:
        types, shapes = self._lines.types_and_shapes()
        dataset = tf.data.Dataset.from_generator(lines, types, shapes).map(self._with_ragged)
        dataset = self._lines.kept(dataset, "filters")
        if specs is not None:
            dataset = dataset.map(get_asc_insert_func(tgt_key_specs=list(specs.values()), is_training=is_training,
                                                      dump_graph=False))
        dataset = self._lines.kept(dataset, "filters_keys")
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset.prefetch(10))
        return iterator.get_next(), iterator

    @tf.autograph.experimental.do_not_convert  # it takes long
    def _with_ragged(self, batch: Dict[str, tf.Tensor]) -> Dict[str, Any]:
        for name, feature in self._features.items():
            if feature.ragged:
                ids = batch[name]
                places = tf.where(tf.not_equal(ids % 3, 0))
                batch[name] = tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids, out_type=tf.int64))
        return batch

    def _forward(self, specs: Optional[Dict[str, FeatureSpec]], batch: Dict[str, Any],
                 is_train: bool) -> Tuple[tf.Tensor, Dict[str, tf.Tensor]]:
        count = self._case.batch // RANKS
        rows = {}
        for name, feature in self._features.items():
            threshold = self._tables[feature.table].threshold
            access = None if threshold is None else {"access_threshold": threshold}
            if feature.combiner:
                spec = None if specs is None else specs[name]
                rows[name] = self._combined(feature, batch[name], spec, batch, is_train)
                continue
            rows[name] = sparse_lookup(
                self.hash_tables[feature.table], batch[name] if specs is None else specs[name],
                self._case.send_count or count * feature.width, dim=None, is_train=is_train,
                name=feature.table + "_lookup", modify_graph=specs is None, batch=batch, is_grad=feature.grad,
                access_and_evict_config=access if specs is None else None)
        layer = tf.debugging.check_numerics(self._joined(rows, batch) * self.scale, "the rows")
        # Resources: what is read is not changed by an update that comes before the gradient that needs it.
        with tf.compat.v1.variable_scope("dense", reuse=tf.compat.v1.AUTO_REUSE, use_resource=True):
            for units in (16, 1):
                layer = tf.compat.v1.layers.dense(
                    layer, units, tf.tanh if units > 1 else None, name="layer_{}".format(units),
                    kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=units))
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=tf.reshape(layer, [-1]))
        return tf.reduce_mean(losses), rows

    def _combined(self, feature: Feature, ids: tf.SparseTensor, spec: Optional[FeatureSpec], batch: Dict[str, Any],
                  is_train: bool) -> tf.Tensor:
        weights = None
        if feature.combiner != "sum":
            weights = tf.SparseTensor(ids.indices, tf.cast(ids.values % 5 + 1, tf.float32), ids.dense_shape)
        return ascpipe.tf.lookup_sparse(
            self.hash_tables[feature.table], ids if spec is None else spec, weights, feature.combiner,
            batch=batch, training=is_train, trainable=feature.grad)

    def _joined(self, rows: Dict[str, tf.Tensor], batch: Dict[str, Any]) -> tf.Tensor:
        if self._case.join == "sums":
            width = sum(self._tables[feature.table].dim for feature in self._features.values())
            pooled = [rows[name] if feature.combiner else tf.reduce_sum(rows[name], axis=1)
                      for name, feature in self._features.items()]
            return tf.reshape(tf.concat(pooled, axis=1), [-1, width])
        columns = [tf.expand_dims(batch["label"], 1)]
        for name, feature in self._features.items():
            columns.append(tf.reshape(rows[name], [-1, feature.width * self._tables[feature.table].dim]))
        return tf.concat(columns, axis=1)


class Training:
    """Runs a program step by step, and notes what it sees."""

    def __init__(self, case: Case, program: Program, session: tf.compat.v1.Session, told: Dict[str, Any]) -> None:
        self._case, self._program, self._session, self._told = case, program, session, told
        self.rows: List[Dict[str, np.ndarray]] = []

    def run(self) -> None:
        """All steps, and evaluations."""
        case = self._case
        self._session.run(self._program.initializer(True))
        self._session.run(tf.compat.v1.global_variables_initializer())
        if case.restore and (RANK == 0 or not case.rank_0_saves):
            self._program.saver.restore(self._session, case.restore)
        if case.restore and case.rank_0_saves and RANKS > 1:
            self._session.run(self._program.broadcast)
        beside = threading.Thread(target=self._evaluate_beside)
        beside.start()
        kills = ranked_faults.Kills(RANKS * case.kills + RANK) if case.kills else None
        for step in range(case.first, case.steps):
            if case.fault.get("step") == step and not self._fault():
                return
            feeds = {}
            if case.fault.get("step") == step:
                feeds = {place: float("nan") for kind, place in (
                    ("nan", self._program.scale), ("nan_gradient", self._program.gradient_scale)) if case.fails(kind)}
            self._told["begun"] = time.time()
            cancelled = self._program.cancelled
            _, loss, terms = self._ran("train", [
                self._program.train, self._program.loss, cancelled.fetches if cancelled else {}], feeds)
            self._told["losses"].append(float(loss))
            if cancelled:
                cancelled.look(terms)
            if step + 1 in case.saves and (RANK == 0 or not case.rank_0_saves):
                self._told.setdefault("saved", []).append(self._program.saver.save(
                    self._session, os.path.join(sys.argv[1], "saved", "model.ckpt"), global_step=step + 1, **case.save))
            if str(step + 1) in case.thresholds:
                self._session.run(self._program.set_threshold[str(step + 1)])
            if case.evict_each and (step + 1) % case.evict_each == 0:
                trigger_evict(self._session)
            if case.edit_each and (step + 1) % case.edit_each == 0:
                ranked_edits.edit(case, self._program.hash_tables, step, self._told.setdefault("edits", []))
            if case.evaluate_each and (step + 1) % case.evaluate_each == 0:
                self._told["evaluations"].append(self._evaluate(keep=False))
        if case.edit_each:
            ranked_edits.require_own_keys(self._program.hash_tables)
        if kills is not None:
            self._told["killed"] = kills.stop()
        beside.join()
        self._told["daemon"] = daemon_name()
        self._told["fetches"] = sum(table["fetches"] for table in status()["tables"])
        self._told["evaluations"].append(self._evaluate(keep=True))
        if self._program.cancelled:
            self._told["cancelled"] = self._program.cancelled.lines()
        if case.fault.get("kind") == "trains_to_the_end":
            while True:
                self._told["losses"].append(float(self._session.run([self._program.train, self._program.loss])[1]))

    def _ran(self, kind: str, fetches: List[Any], feeds: Optional[Dict[tf.Tensor, float]] = None) -> List[Any]:
        """What is fetched; of the first step of a kind, it tells how many ops of each type there are."""
        if kind in self._told["ops"]:
            return self._session.run(fetches, feeds)
        options, metadata = tf.compat.v1.RunOptions(output_partition_graphs=True), tf.compat.v1.RunMetadata()
        found = self._session.run(fetches, feeds, options=options, run_metadata=metadata)
        self._told["ops"][kind] = collections.Counter(
            node.op for graph in metadata.partition_graphs for node in graph.node)
        return found

    def _evaluate_beside(self) -> None:
        self._told["beside"] = []
        for _ in range(self._case.evaluates_beside):
            self._told["beside"].append(self._evaluate(keep=False))

    def _evaluate(self, keep: bool) -> List[str]:
        """Of each batch, a digest of its rows; of rows that are joined, of its loss."""
        self._session.run(self._program.initializer(False))
        fetches, sums = [self._program.eval_loss], self._case.join == "sums"
        if keep or self._case.join in ("sums", "apart"):
            fetches.append(self._program.eval_rows)
        digests, most = [], 2 if self._case.fails("half_evaluates") and not keep else sys.maxsize
        while len(digests) < most:
            try:
                loss, *rows = self._ran("evaluate", fetches)
            except tf.errors.OutOfRangeError:
                break
            read = [rows[0][name] for name in sorted(rows[0])] if sums else [loss]
            digests.append(hashlib.sha256(b"".join(values.tobytes() for values in read)).hexdigest())
            if keep:
                self.rows += rows
        return digests

    def _fault(self) -> bool:
        """What goes wrong on this rank before a step; false: it trains no more."""
        case = self._case
        if case.fails("skip"):
            self._session.run(self._program.batch["label"])
        elif case.fails("begin_anew"):
            self._session.run(self._program.initializer(True))
        elif case.fails("evaluate"):
            self._told["evaluations"].append(self._evaluate(keep=False))
        elif case.fails("read_handles"):
            self._session.run([self._program.train, self._program.read])
        elif case.fails("close"):
            return False
        elif case.fails(case.fault["kind"]):
            self._told.update(ranked_faults.commit(case.fault["kind"]))
        return True


def train(case: Case, told: Dict[str, Any], tell: Callable[[], None]) -> List[Dict[str, np.ndarray]]:
    """Train a case; the rows of all keys."""
    init(max_steps=case.steps, train_steps=case.evaluate_each or -1, eval_steps=-1, save_steps=-1,
         use_dynamic=not case.static, use_dynamic_expansion=case.expansion)
    tf.compat.v1.set_random_seed(5)
    program = Program(case)
    program.build()
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    with tf.compat.v1.Session(config=config) as session:
        training = Training(case, program, session, told)
        try:
            training.run()
        except tf.errors.OpError as error:
            told["error"] = [type(error).__name__, error.message]
            told["after_s"] = time.time() - told["begun"]
            tell()
            if not isinstance(error, tf.errors.OutOfRangeError):
                raise
    terminate_config_initializer()
    return training.rows


def main() -> None:
    folder = sys.argv[1]
    with open(os.path.join(folder, "case.json")) as file:
        case = Case(**json.load(file))
    if RANKS > 1:
        import horovod.tensorflow as hvd
        hvd.init()
    told = {"ops": {}, "losses": [], "evaluations": [], "begun": time.time(), "ended": False}
    pid_file = os.path.join(folder, "{}.pid".format(RANK))
    with open(pid_file + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.replace(pid_file + ".new", pid_file)  # a test may read it at once

    def tell() -> None:
        path = os.path.join(folder, str(RANK))
        with open(path + ".new", "w") as file:
            json.dump(told, file)
        os.rename(path + ".new", path + ".json")

    disk.os = FaultyDisk(case.cut.get("at", 0) if case.cut.get("rank") == RANK else 0, SIGKILL)
    with contextlib.ExitStack() as last:
        last.callback(tell)
        rows = train(case, told, tell)
        names = sorted(rows[0]) if rows else []
        np.savez(os.path.join(folder, str(RANK)), **{name: np.stack([one[name] for one in rows]) for name in names})
        told.update(ended=True, file_operations=len(disk.os.calls))


if __name__ == "__main__":
    main()
