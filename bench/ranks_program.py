"""Typical training program of one or several ranks. A launcher runs `ranks_program.py SIDE PORT`.

The program trains the model of ``bench/train_sides.py``. Each rank trains its part of every batch. The program trains a
step and sends an answer to the local port. It then reads numbers of steps from the port, one per line, trains them,
and sends an answer for each line.

An answer is a JSON line with the ``pid`` and these totals since the start: ``processor_s`` of this rank's processes,
and the number of TCP ``connections``, their ``sent_bytes`` and their ``packets`` with data.
"""
import contextlib
import json
import os
import socket
import struct
import sys
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, List

import numpy as np

from bench import train_sides, workloads
from bench.train_sides import ACCUMULATOR, DIM, RANGE, RATE, Step

# Sides
OURS = "ours"
PLAIN = "plain"
DENSE = "dense"
COMPUTES = "computes"  #: ours with COMPUTE_S more in each step
LATE = "late"  #: COMPUTES, with ids that arrive LATE_S later
COMPUTE_S = 0.030
LATE_S = 0.020
PREFETCH = 10
_VARIANT = "device"  # variant of train_sides
_TRAFFIC = struct.Struct("=120xQ28xI")  # tcpi_bytes_acked and tcpi_data_segs_out of struct tcp_info


def main(arguments: List[str]) -> None:
    """Train until the end of the input."""
    side, port = arguments
    with side_of(side) as step:
        answer_turns(step, _clock(side), int(port))


def side_of(side: str) -> ContextManager[Step]:
    """Yield the step of a side's program."""
    sides: Dict[str, Callable[[], ContextManager[Step]]] = {
        OURS: _ours, COMPUTES: lambda: _ours(compute_s=COMPUTE_S),
        LATE: lambda: _ours(compute_s=COMPUTE_S, late_s=LATE_S), PLAIN: lambda: _plain(sparse_as_dense=False),
        DENSE: lambda: _plain(sparse_as_dense=True)}
    return sides[side]()


def answer_turns(step: Step, processor_s: Callable[[], float], port: int) -> None:
    """Train a step. Then train the numbers of steps that arrive at the port, until the port is closed."""
    with socket.create_connection(("127.0.0.1", port)) as asked:
        lines = asked.makefile("r")
        steps = 1
        while steps:
            for _ in range(steps):
                step()
            answer = {"pid": os.getpid(), "processor_s": processor_s(), **_traffic(asked.fileno())}
            asked.sendall(json.dumps(answer).encode() + b"\n")
            steps = int(lines.readline() or 0)


@contextlib.contextmanager
def _ours(compute_s: float = 0, late_s: float = 0) -> Iterator[Step]:
    """Yield the step with our tables. Dense gradients are averaged over ranks.

    Args:
        compute_s: duration of a wait in each step between the rows and the loss. The wait uses no processor time.
        late_s: interval between the ids of consecutive batches.
    """
    from bench.sessions import after, tf
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup
    from mx_rec.optimizers.adagrad import create_hash_optimizer
    from mx_rec.util.initialize import init, terminate_config_initializer
    from mx_rec.util.variable import get_dense_and_sparse_variable

    rank = int(os.environ.get("HOROVOD_RANK", "0"))
    ranks = int(os.environ.get("HOROVOD_SIZE", "1"))
    if ranks > 1:
        import horovod.tensorflow as hvd

        hvd.init()
    import ascpipe.tf
    init()
    table = create_table(key_dtype=tf.int64, dim=DIM, name="trained", emb_initializer=_initial_rows(tf),
                         device_vocabulary_size=train_sides.rows(),
                         all2all_gradients_op="sum_gradients_and_div_by_ranksize")
    spec = FeatureSpec("ids", table_name="trained", index_key="ids")
    dataset = tf.data.Dataset.from_tensor_slices(_part(rank, ranks)).repeat()
    if late_s:
        dataset = dataset.map(lambda batch: {**batch, "ids": after(late_s, batch["ids"])})
    dataset = dataset.map(get_asc_insert_func(tgt_key_specs=[spec], is_training=True)).prefetch(PREFETCH)
    iterator = tf.data.make_initializable_iterator(dataset)
    batch = iterator.get_next()
    rows = sparse_lookup(table, spec, batch=batch, is_train=True)
    loss = _loss(batch, after(compute_s, rows) if compute_s else rows)
    dense, sparse = get_dense_and_sparse_variable()
    optimizer = ascpipe.tf.DistributedOptimizer(_adagrad(tf))
    pairs = optimizer.compute_gradients(loss, [*dense, *sparse])
    train = [optimizer.apply_gradients(pairs[:len(dense)]), create_hash_optimizer(
        RATE, initial_accumulator_value=ACCUMULATOR).apply_gradients(pairs[len(dense):])]
    start = ascpipe.tf.broadcast_global_variables(0)
    start_asc_pipeline()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), iterator.initializer])
        session.run(start)
        yield lambda: session.run([loss, train])
    terminate_config_initializer()


@contextlib.contextmanager
def _plain(*, sparse_as_dense: bool) -> Iterator[Step]:
    """Yield the step with a variable on every rank. Horovod's optimizer gathers the gradients of all rows, or sums the
    gradient of the whole table if ``sparse_as_dense`` is true.
    """
    import horovod.tensorflow as hvd

    from bench.sessions import tf

    hvd.init()
    table = tf.get_variable("table", [train_sides.rows(), DIM], initializer=_initial_rows(tf))
    dataset = tf.data.Dataset.from_tensor_slices(_part(hvd.rank(), hvd.size())).repeat().prefetch(PREFETCH)
    iterator = tf.data.make_initializable_iterator(dataset)
    batch = iterator.get_next()
    loss = _loss(batch, tf.nn.embedding_lookup(table, batch["ids"]))
    optimizer = hvd.DistributedOptimizer(_adagrad(tf), sparse_as_dense=sparse_as_dense)
    train = optimizer.minimize(loss, gate_gradients=tf.train.Optimizer.GATE_GRAPH)
    start = hvd.broadcast_global_variables(0)
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), iterator.initializer])
        session.run(start)
        yield lambda: session.run([loss, train])


def _part(rank: int, ranks: int) -> Dict[str, np.ndarray]:
    """Return this rank's rows of every batch."""
    batches = train_sides.batches(_VARIANT)
    return {name: np.ascontiguousarray(np.array_split(values, ranks, axis=1)[rank])
            for name, values in batches.items()}


def _loss(batch: Dict[str, Any], rows: Any) -> Any:
    from bench.sessions import tf
    from examples.dlrm.model import click_logits, click_loss

    joined = tf.reshape(rows, [-1, workloads.FEATURES * DIM])
    return click_loss(batch["labels"], click_logits(batch["numbers"], [joined], bottom=(), top=train_sides.UNITS,
                                                    seed=1))


def _initial_rows(tf: Any) -> Any:
    return tf.random_uniform_initializer(-RANGE, RANGE, seed=1)


def _adagrad(tf: Any) -> Any:
    return tf.train.AdagradOptimizer(RATE, initial_accumulator_value=ACCUMULATOR)


def _clock(side: str) -> Callable[[], float]:
    """Return a clock of the processor seconds of this rank's processes."""
    if side in (PLAIN, DENSE):
        return time.process_time
    from bench import processes

    beside = processes.cpu_clock([pid for found in processes.of_pipeline().values() for pid in found])
    return lambda: time.process_time() + beside()


def _traffic(spared: int) -> Dict[str, int]:
    """Return the traffic of the TCP connections of this process, without the connection of the descriptor
    ``spared``.
    """
    traffic = {"connections": 0, "sent_bytes": 0, "packets": 0}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the folder is closed; some descriptors are not sockets
            if int(name) != spared and os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    if connection.family in (socket.AF_INET, socket.AF_INET6):
                        sent_bytes, packets = _TRAFFIC.unpack(
                            connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TRAFFIC.size))
                        traffic["connections"] += 1
                        traffic["sent_bytes"] += sent_bytes
                        traffic["packets"] += packets
    return traffic


if __name__ == "__main__":
    main(sys.argv[1:])
