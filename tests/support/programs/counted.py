"""Tables whose rows count: every trained occurrence of a key takes one off its row, exactly.

The gradient of the sum of all embeddings is 1 per occurrence, the learning rate is 1 and rows begin at 0, so
after any step the row of a key is minus the number of its occurrences in the trained batches, and the oracle
of a lookup is a table of counts.
"""
import os
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import tensorflow as tf

from ascpipe.layout import structs
from ascpipe.layout.table_shape import table_shape
from ascpipe.layout.words import TRAINED
from ascpipe.shm import segment
from ascpipe.shm.ring import TableView
from ascpipe.tf.running.process import Process
from mx_rec.core.asc.feature_spec import FeatureSpec
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers.gradient_descent import create_hash_optimizer
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

DIM = 2
KEYS = 40  #: of each table
WIDTH = 6  #: ids of a batch

Stages = Callable[[tf.data.Dataset], tf.data.Dataset]



def make_ids(batches: int, width: int = WIDTH, keys: int = KEYS, seed: int = 1) -> np.ndarray:
    """int64[batches, width], small keys more often than large ones."""
    draws = np.random.RandomState(seed).beta(0.6, 1.4, size=(batches, width))
    return (draws * keys).astype(np.int64)


class CountedTable:
    """One table and its oracle.

    Attributes:
        table: of ascpipe.
        counts: int64[keys], occurrences of each key in the trained batches, as the table counts them.
        updates: int64[keys], those of them whose gradient was applied.
        is_frozen: what ``Table.freeze`` has set.
    """

    def __init__(self, name: str, device_rows: int = 200, keys: int = KEYS, host_rows: int = 0) -> None:
        self.name = name
        self.table = create_table(key_dtype=tf.int64, dim=DIM, name=name, device_vocabulary_size=device_rows,
                                  host_vocabulary_size=host_rows, emb_initializer=tf.compat.v1.zeros_initializer())
        self.counts = np.zeros(keys, np.int64)
        self.updates = np.zeros(keys, np.int64)
        self.is_frozen = False

    def expected(self, ids: np.ndarray) -> np.ndarray:
        """What a lookup of these keys gives now."""
        return np.repeat(-self.updates[ids].astype(np.float32)[..., None], DIM, axis=-1)

    def require_rows(self, ids: np.ndarray, found: np.ndarray, what: str) -> None:
        """A lookup gave what the oracle says."""
        if not np.array_equal(found, self.expected(ids)):
            raise AssertionError("{}: keys {} of table {} gave {}, expected {}".format(
                what, ids.tolist(), self.name, found[..., 0].tolist(), self.expected(ids)[..., 0].tolist()))

    def require_truth(self) -> None:
        """Counts in shared memory, and ``size()``, equal the oracle; waits for the last step's retirement."""
        size, found = self.table.size(), trained_counts(self.table.shape.number)
        wanted = self.known()
        if found != wanted or size != len(wanted):
            raise AssertionError("table {}: size {}, counts {}, expected {}: {}".format(
                self.name, size, found, len(wanted), wanted))

    def known(self) -> Dict[int, int]:
        """key -> occurrences, of the oracle."""
        return {key: int(count) for key, count in enumerate(self.counts) if count}


def two_tiers() -> List[CountedTable]:
    """``user`` on the device alone, ``item`` with a device of one batch: its rows come and go with every step."""
    return [CountedTable("user"), CountedTable("item", device_rows=WIDTH, host_rows=200)]


def trained_counts(number: int) -> Dict[int, int]:
    """key -> occurrences, as shared memory says after ``size()`` has waited for the truth."""
    view = table_view(number)
    used = int(view.header["entries_used"])
    trained = view.entries[:used][view.entries["state"][:used] == TRAINED]
    return dict(zip(trained["key"].tolist(), trained["count"].tolist()))


def segments() -> List[np.ndarray]:
    """The memory that the processes of the session share, by way of the daemon's descriptors."""
    folder = "/proc/{}/fd".format(Process.current().running_pipeline().link.daemon_pid)
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        try:
            is_memory = os.readlink(path).startswith(("/dev/shm/", "/memfd:"))
        except FileNotFoundError:  # a connection that the daemon has just closed
            continue
        if not is_memory:
            continue
        fd = os.open(path, os.O_RDWR)
        try:
            found.append(segment.map(fd, os.fstat(fd).st_size))
        finally:
            os.close(fd)
    return found


def is_table(memory: np.ndarray) -> bool:
    """Of a segment of the session, whether it is a table."""
    header = memory[:structs.TABLE.itemsize].view(structs.TABLE)[0]
    shape = table_shape(*(int(header[name]) for name in (
        "device_rows", "entry_capacity", "home_capacity", "row_floats")), int(header["disk_offset"] != 0))
    return shape.total_bytes == len(memory)


def table_view(number: int) -> TableView:
    """The segment of a table."""
    for memory in segments():
        if is_table(memory) and memory[:structs.TABLE.itemsize].view(structs.TABLE)[0]["table"] == number:
            return TableView(memory)
    raise AssertionError("no segment of table {}".format(number))


class Feed:
    """A stream: batches of ids for some tables, looked up in one channel.

    Args:
        tables: of the stream; ids of table ``i`` are ``make_ids(batches, seed=seed + i)``.
        batches: how many batches one pass over the data has.
        stages: applied after ``map(insert_func)``.
        looked_up: names of the tables with a lookup; all by default.
    """

    def __init__(self, tables: Sequence[CountedTable], batches: int, stages: Stages = lambda data: data,
                 looked_up: Optional[Sequence[str]] = None, seed: int = 1, width: int = WIDTH,
                 training: bool = True) -> None:
        self.tables, self.training = list(tables), training
        self.last = -1  #: index of the batch that was taken last
        self.ids = [make_ids(batches, width, len(table.counts), seed + i) for i, table in enumerate(tables)]
        specs = [FeatureSpec(table.name if training else table.name + "_eval", table_name=table.table.table_name,
                             index_key=table.name) for table in tables]
        data: Dict[str, Any] = {"index": np.arange(batches)}
        data.update((table.name, ids) for table, ids in zip(tables, self.ids))
        dataset = tf.data.Dataset.from_tensor_slices(data)
        dataset = stages(dataset.map(get_asc_insert_func(specs, is_training=training)))
        self.iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        self.batch = self.iterator.get_next()
        self.rows = {table.name: sparse_lookup(table.table, spec, is_train=training, batch=self.batch)
                     for table, spec in zip(tables, specs) if looked_up is None or table.name in looked_up}
        self.train: Dict[str, tf.Operation] = {}
        self._unsure: Dict[str, np.ndarray] = {}
        if training:
            self._add_optimizer()

    def _add_optimizer(self) -> None:
        names = list(self.rows)
        variables = [table.table.variable for table in self.tables if table.name in self.rows]
        rows = [self.rows[name] for name in names]
        optimizer = create_hash_optimizer(learning_rate=1.0)
        for name, variable, looked_up in zip(names, variables, rows):
            (gradient,) = tf.gradients(tf.reduce_sum(looked_up), [variable])
            gated = tf.tuple([gradient, looked_up])  # the rows are read before they are updated
            self.rows[name] = gated[1]
            self.train[name] = optimizer.apply_gradients([(gated[0], variable)])

    def fetches(self, names: Optional[Sequence[str]] = None) -> Dict[str, Any]:
        """What a step runs, for the named tables or all that have a lookup."""
        wanted = [name for name in self.rows if names is None or name in names]
        return {"index": self.batch["index"], "rows": {name: self.rows[name] for name in wanted},
                "train": [self.train[name] for name in wanted if self.training]}

    def step(self, running: tf.compat.v1.Session, names: Optional[Sequence[str]] = None) -> int:
        """Train (or evaluate) the next batch for the named tables, compare with the oracle; the batch's index."""
        return self.took(running.run(self.fetches(names)))

    def took(self, values: Dict[str, Any]) -> int:
        """Compare what a step gave with the oracle, and train the oracle; the batch's index."""
        self.last = index = int(values["index"])
        for table, ids in zip(self.tables, self.ids):
            if table.name in values["rows"]:
                self._make_sure(table, ids[index], values["rows"][table.name])
                what = "{} of batch {}".format("training" if self.training else "evaluation", index)
                table.require_rows(ids[index], values["rows"][table.name], what)
        if self.training:
            self.trained(index, list(values["rows"]), list(values["rows"]))
        return index

    def trained(self, index: int, claimed: Sequence[str], updated: Sequence[str]) -> None:
        """The oracle's step: tables whose plan was not claimed count the keys that they know."""
        for table, ids in zip(self.tables, self.ids):
            keys = ids[index]
            np.add.at(table.counts, keys if table.name in claimed else keys[table.counts[keys] > 0], 1)
            if table.name in updated and not table.is_frozen:
                np.add.at(table.updates, keys, 1)

    def _make_sure(self, table: "CountedTable", ids: np.ndarray, rows: np.ndarray) -> None:
        """A cancelled step may have updated a table that it had claimed; the first lookup of its keys tells."""
        batch = self._unsure.get(table.name)
        if batch is None or not np.isin(ids, batch).any():
            return
        del self._unsure[table.name]
        if not np.array_equal(rows, table.expected(ids)):
            np.add.at(table.updates, batch, 1)

    def settle(self) -> None:
        """After the step of the next batch was cancelled while it waited: what it had claimed by then is counted.

        A batch is trained as soon as one table's plan is claimed; tables that were not claimed count it too.
        """
        found = []
        for table in self.tables:
            table.table.size()
            found.append(trained_counts(table.table.shape.number))
        before = [table.counts.copy() for table in self.tables]
        for claimed in ([], *([table.name] for table in self.tables)):  # type: ignore
            for table, counts in zip(self.tables, before):
                table.counts = counts.copy()
            if claimed:
                self.trained(self.last + 1, claimed, ())
            if [table.known() for table in self.tables] == found:
                self._unsure = {table.name: ids[self.last + 1] for table, ids in zip(self.tables, self.ids)
                                if table.name in claimed}
                return
        raise AssertionError("counts {} are those of no part of batch {}".format(found, self.last + 1))
