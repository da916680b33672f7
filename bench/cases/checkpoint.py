"""Save and restore of one table. The peer is numpy, which writes and reads the same bytes. The table has 10^6 rows of
16 floats with Adagrad's accumulator.

* ``save-files`` and ``restore-files`` write blocks of memory to a durable checkpoint, and read all blocks after the
  verification.
* ``save`` and ``restore`` do this for a trained table, with ``ascpipe.tf.Saver`` and the variables in TensorFlow.
* ``pause`` is the time for which ``save(background=True)`` stops the training, compared with one copy of the device
  rows.

numpy uses ``np.save`` and fsync of each array, and ``np.load`` of each array. A restore usually follows a crash, so it
reads from the disk: the files of each contender are removed from the page cache before each call. With ``-warm`` the
files are in the page cache, where ``np.load`` is one copy of memory.
"""
import contextlib
import os
import shutil
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np

from bench import workloads
from bench.goals import RATIO, SHARE, Goal
from bench.harness import Case, Contenders

ROWS = 1000000
DIM = 16
MB = 1000000
BATCHES = 20  #: number of training batches, over which all rows are distributed
THREADS = 2

_OURS = "ascpipe"
_NUMPY = {"save": "np.save, fsync", "restore": "np.load"}
_COPY = "np.copy"
_BLOCK_ROWS = 1 << 16


def _rows() -> int:
    return workloads.sized(ROWS, 10000)


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    verb, *how = variant.split("-")
    if verb == "pause":
        with _pause() as contenders:
            yield contenders
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        with (_files if "files" in how else _trained)(os.path.join(folder, "ours")) as (save, restore, changed, _):
            theirs = _Numpy(os.path.join(folder, "numpy"))
            calls = {"save": {_OURS: save, _NUMPY["save"]: theirs.save},
                     "restore": {_OURS: restore, _NUMPY["restore"]: theirs.restore}}[verb]
            fresh = {name: _emptied(os.path.join(folder, which))
                     for name, which in zip(calls, ("ours", "numpy"))}
            if verb == "restore":
                save()
                theirs.save()
                cold = "warm" not in how
                fresh = {name: _readied(act, os.path.join(folder, which) if cold else None)
                         for name, act, which in zip(calls, (changed, _nothing), ("ours", "numpy"))}
            yield Contenders(sum(values.nbytes for values in theirs.arrays) // MB, calls, fresh)


@contextlib.contextmanager
def _pause() -> Iterator[Contenders]:
    from ascpipe.tf import wait_for_save

    device = [np.random.rand(_rows(), DIM).astype(np.float32) for _ in range(2)]  # rows and Adagrad's accumulator
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, _trained(folder) as (_, _, changed, save):
        def before() -> None:
            wait_for_save()
            changed()
        yield Contenders(sum(rows.nbytes for rows in device) // MB,
                         {_OURS: save, _COPY: lambda: [rows.copy() for rows in device]},
                         {_OURS: before, _COPY: wait_for_save})
        wait_for_save()


def _nothing() -> None:
    pass


def _readied(act: Callable[[], object], dropped: Optional[str]) -> Callable[[], object]:
    """Return the function that is called before a restore. It calls ``act`` and removes the files of ``dropped`` from
    the page cache.
    """
    def before() -> None:
        act()
        if dropped is not None:
            _drop_from_page_cache(dropped)
    return before


def _drop_from_page_cache(folder: str) -> None:
    """Remove the files of a folder from the page cache. They are flushed to the disk first."""
    for path, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(path, name), os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


def _emptied(folder: str) -> Callable[[], object]:
    return lambda: shutil.rmtree(folder, ignore_errors=True)


class _Numpy:
    """Arrays of a checkpoint, each in a file of numpy."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        keys, rows, counts = _content()
        self.arrays = [keys, np.ascontiguousarray(rows[:, :DIM]), np.ascontiguousarray(rows[:, DIM:]), counts, counts]

    def save(self) -> None:
        os.makedirs(self._folder, exist_ok=True)
        for number, values in enumerate(self.arrays):
            with open(self._path(number), "wb") as file:
                np.save(file, values)
                file.flush()
                os.fsync(file.fileno())

    def restore(self) -> List[np.ndarray]:
        return [np.load(self._path(number)) for number in range(len(self.arrays))]

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, "{}.npy".format(number))


def _content() -> Any:
    random = np.random.RandomState(1)
    return (workloads.scramble(np.arange(_rows())), random.standard_normal((_rows(), 2 * DIM)).astype(np.float32),
            random.randint(1, 100, _rows()))


@contextlib.contextmanager
def _files(folder: str) -> Iterator[Any]:
    from ascpipe.checkpoint.contents import Block, InitialRows, Policies, Position, SlotSpec, TablePosition, TableSpec
    from ascpipe.checkpoint.reader import open_checkpoint
    from ascpipe.checkpoint.writer import CheckpointWriter

    keys, rows, counts = _content()
    spec = TableSpec("ids", DIM, "int64", (SlotSpec("Adagrad_accumulator", DIM, 0.1),), _rows(), 0,
                     InitialRows(1, 0, 0.0, 0.0, 1.0), Policies(-1, False, 1, -1, 0))
    blocks = [Block(*(values[start:start + _BLOCK_ROWS] for values in (keys, rows, counts, counts)))
              for start in range(0, _rows(), _BLOCK_ROWS)]

    def save() -> None:
        with CheckpointWriter(folder, "model", 1, dense=False) as writer:
            writer.begin_tables([spec])
            writer.write_table("ids", blocks)
            writer.commit(Position("bench", {"ids": TablePosition(1, 0)}, {"training": 1}))

    def restore() -> List[Any]:
        with open_checkpoint(os.path.join(folder, "model-1")) as opened:
            return list(opened.parted_blocks("ids"))  # like Saver

    yield save, restore, lambda: None, save


@contextlib.contextmanager
def _trained(folder: str) -> Iterator[Any]:
    from ascpipe.tf import Saver
    from bench.sessions import running_pipeline, session, tf
    from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup
    from mx_rec.optimizers.adagrad import create_hash_optimizer
    from mx_rec.util.variable import get_dense_and_sparse_variable

    batches: Dict[str, np.ndarray] = {"ids": workloads.scramble(np.arange(_rows())).reshape(BATCHES, -1)}
    with tf.Graph().as_default(), running_pipeline():
        table = create_table(tf.int64, DIM, "ids", tf.random_uniform_initializer(-.05, .05, seed=1),
                             device_vocabulary_size=_rows())
        spec = FeatureSpec("ids", index_key="ids")
        insert = get_asc_insert_func([spec], is_training=True)
        dataset = tf.data.Dataset.from_tensor_slices(batches).repeat().map(insert).prefetch(2)
        iterator = tf.data.make_initializable_iterator(dataset)
        rows = sparse_lookup(table, spec, batch=iterator.get_next(), is_train=True)
        _, (variable,) = get_dense_and_sparse_variable()
        (gradient,) = tf.gradients(tf.reduce_sum(tf.square(rows)), variable)
        train = create_hash_optimizer(.05).apply_gradients(
            [(gradient, variable)], global_step=tf.train.get_or_create_global_step())
        start_asc_pipeline()
        with session(threads=THREADS) as running:
            running.run([tf.global_variables_initializer(), iterator.initializer])
            for _ in range(len(batches["ids"])):
                running.run(train)
            saver = Saver(max_to_keep=None)
            yield (lambda: saver.save(running, os.path.join(folder, "model"), 1),
                   lambda: saver.restore(running, os.path.join(folder, "model-1")),
                   lambda: running.run(train),
                   lambda: saver.save(running, os.path.join(folder, "model"), 1, background=True))


VARIANTS = ("save-files", "restore-files", "restore-files-warm", "save", "restore", "restore-warm", "pause")
CASE = Case("checkpoint", "MB", "one_program", VARIANTS, prepare,
            "save and restore of {:,} rows; 1 ms per MB is 1 GB/s".format(ROWS),
            {**{variant: [Goal(RATIO, .5, _NUMPY[variant.split("-")[0]])]
                for variant in ("save-files", "restore-files", "save", "restore")},
             "pause": [Goal(SHARE, 1.5, _COPY)]})
