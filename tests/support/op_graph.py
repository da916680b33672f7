"""Builds a small graph of the ops, without ``ascpipe.tf``: dataset, AscSubmit, AscNextPlan per table, AscLookup."""
import contextlib
import threading
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from ascpipe.tf.running import native
from ascpipe.tf.running.shapes import StreamShape, TableShape
from tests.reference import initial_rows
from tests.support.tensorflows import not_read_ahead

DIM = 4
SLOT_INITIAL = 0.25
FLOATS = 2 * DIM  #: of a home row: the embedding and one optimizer slot
UNIFORM = 1


def table_shape(number: int = 0, rows: int = 100, home_rows: int = 0, row_floats: int = 0,
                padding_keys: Tuple[int, ...] = ()) -> TableShape:
    return TableShape(number, "table{}".format(number), DIM, rows, 99 + number, UNIFORM, -1.0, 1.0, 1.0, None,
                      home_rows, row_floats, padding_keys)


def first_row(shape: TableShape, key: int) -> np.ndarray:
    """The row with which ``key`` begins."""
    row = initial_rows.row(shape.seed, shape.kind, shape.a, shape.b, shape.scale, key, DIM)
    return np.array(row, np.float32)


def expansion_shape(number: int = 0, home_rows: int = 50, **more: Any) -> TableShape:
    """A table whose rows are used at home."""
    return table_shape(number, 0, home_rows, FLOATS, **more)


def home_row(shape: TableShape, key: int) -> np.ndarray:
    """The whole row with which ``key`` begins at home."""
    return np.concatenate([first_row(shape, key), np.full(DIM, SLOT_INITIAL, np.float32)])


def handle(table: int, step: int, row: int) -> int:
    """What names a row, as its bits are documented."""
    bits = (table + 1) << 56 | step << 40 | row
    return bits - (1 << 64) if bits >> 63 else bits


def stream_shape(number: int = 0, channel: int = 0, tables: Sequence[int] = (0,), features: int = 1) -> StreamShape:
    """``features`` features per table."""
    parts = tuple(index for index in range(len(tables)) for _ in range(features))
    return StreamShape(number, channel, tuple(tables), parts, tuple("f{}".format(i) for i in range(len(parts))))


class Channel(NamedTuple):
    """What a test runs of one channel.

    Attributes:
        iterator: initializable.
        label: number of the batch, from 0.
        ticket: of the batch.
        plans: AscNextPlan per table.
        embeddings: of the first feature, per table.
        locals: AscLocalRows per table; None of one that is not an expansion table in training.
    """

    iterator: Any
    label: Any
    ticket: Any
    plans: List[Any]
    embeddings: List[Any]
    locals: List[Any]


class Graph(NamedTuple):
    """Variables and the channels over them; slot variables are [table] or empty.

    An expansion table has a variable of one row, and no slot variable: its home rows hold the optimizer slots.
    """

    graph: Any
    tables: List[Any]
    slots: List[Any]
    channels: List[Channel]


def build(batches: Sequence[Sequence[int]], streams: Sequence[StreamShape], tables: Sequence[TableShape], *,
          training: Optional[bool] = None, slots: bool = False, prefetch: int = 0, after: Any = None,
          stamps: Optional[Sequence[int]] = None) -> Graph:
    """Every feature of a batch has the same ids.

    Args:
        batches: ids of each batch.
        streams: one channel each.
        training: of the table variables; by default whether there is a training stream.
        slots: also one optimizer slot per table, with initial value SLOT_INITIAL.
        prefetch: batches; 0 for none.
        after: function of the dataset behind AscSubmit.
        stamps: timestamp of each batch; by default they have none.
    """
    graph = tf.Graph()
    if training is None:
        training = any(stream.channel == 0 for stream in streams)
    with graph.as_default():
        variables = [_variable(shape, training) for shape in tables]
        slot_variables = [tf.compat.v1.Variable(tf.fill([shape.device_rows, DIM], 7.0), trainable=False,
                                                use_resource=False)
                          for shape in tables if slots]
        states = [_State(shape, [variable, *slot_variables[place:place + 1]])
                  for place, (shape, variable) in enumerate(zip(tables, variables))]
        channels = [_channel(_dataset(batches, stream, stamps), stream, states, prefetch, after)
                    for stream in streams]
    return Graph(graph, variables, slot_variables, channels)


class _State(NamedTuple):
    """Variables of a table: its rows and, if it has one, its optimizer slot."""

    shape: TableShape
    variables: List[Any]


def _variable(shape: TableShape, training: bool) -> Any:
    first = native.ops().asc_table_init(table=shape.number, rows=max(1, shape.device_rows), dim=DIM, training=training)
    variable = tf.compat.v1.Variable(first, trainable=False, use_resource=False)
    variable.initializer._set_attr("_grappler_relax_allocator_constraints", attr_value_pb2.AttrValue(b=True))
    return variable


def _dataset(batches: Sequence[Sequence[int]], stream: StreamShape, stamps: Optional[Sequence[int]]) -> Any:
    def generate() -> Iterator[Any]:
        for number, ids in enumerate(batches):
            yield number, np.array(ids, np.int64), stamps[number] if stamps else 0

    def submit(label: Any, ids: Any, stamp: Any) -> Any:
        ids_of_all = [ids] * len(stream.parts)
        return label, native.ops().asc_submit(ids_of_all, [stamp] if stamps else [], [], stream=stream.number)

    return not_read_ahead(
        tf.data.Dataset.from_generator(generate, (tf.int64, tf.int64, tf.int64), ([], [None], [])).map(submit))


def _channel(data: Any, stream: StreamShape, states: List[_State], prefetch: int, after: Any) -> Channel:
    if after is not None:
        data = after(data)
    if prefetch:
        data = data.prefetch(prefetch)
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    label, ticket = iterator.get_next()
    channel = Channel(iterator, label, ticket, [], [], [])
    for index, table in enumerate(stream.tables):
        shape, variables = states[table]
        widths = [] if shape.device_rows else [DIM] * (shape.row_floats // DIM - 1)
        plan = native.ops().asc_next_plan(
            ticket, variables, table=table, stream=stream.number, k=stream.parts.count(index),
            training=stream.channel == 0, slot_widths=widths,
            slot_initial=[SLOT_INITIAL] * (len(variables) - 1 + len(widths)))
        local = None
        if shape.device_rows or stream.channel == 1:
            rows = native.ops().asc_lookup(variables[0], plan.slots, plan.restore, 0.0, table=table)
        else:
            local = native.ops().asc_local_rows(plan.slots, ticket, table=table, dim=DIM)
            rows = native.ops().asc_restore_rows(local.local, local.places, plan.restore, 0.0)
        channel.plans.append(plan)
        channel.embeddings.append(rows[0])
        channel.locals.append(local)
    return channel


@contextlib.contextmanager
def session(graph: Graph, threads: int = 2, initialize: bool = True) -> Iterator[Any]:
    """A session whose variables and iterators are initialised."""
    # Threads of its own: else every session has as many as the first one of the process asked for.
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads,
                                      use_per_session_threads=True)
    with graph.graph.as_default():
        init = tf.compat.v1.global_variables_initializer()
    with tf.compat.v1.Session(graph=graph.graph, config=config) as opened:
        if initialize:
            opened.run(init)
        opened.run([channel.iterator.initializer for channel in graph.channels])
        yield opened


class Run(threading.Thread):
    """``opened.run(fetch)`` on a thread of its own; ``ended()`` gives its exception."""

    def __init__(self, opened: Any, fetch: Any) -> None:
        super().__init__(daemon=True)
        self.opened, self.fetch = opened, fetch
        self.error: Optional[Exception] = None
        self.start()

    def run(self) -> None:
        try:
            self.opened.run(self.fetch)
        except (tf.errors.OpError, RuntimeError) as error:
            self.error = error

    def ended(self, within_s: float = 10.0) -> Optional[Exception]:
        self.join(within_s)
        assert not self.is_alive()
        return self.error
