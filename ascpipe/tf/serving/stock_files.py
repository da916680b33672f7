"""Files of a table for SavedModels with TensorFlow's own ops: a TensorFlow checkpoint ``<table>.stock`` in the assets.

The checkpoint contains these tensors, which are written in slices. TensorFlow verifies a CRC-32C of each slice.

- ``keys``: int64[n], n >= 1.
- ``rows``: [n + 1, dim] in the order of the keys. The last row contains zeros.
- ``scales``: float32[n + 1], only for int8 rows.
- ``seal``: int64[], a CRC-32 of the other tensors.
"""
import contextlib
import glob
import itertools
import os
from typing import Any, Iterator, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.digests import StreamDigest
from ascpipe.checkpoint.table_file import shown_blocks
from ascpipe.errors import ServingError
from ascpipe.tf.clean_up import temporary_folder
from ascpipe.tf.running.thread_pools import without_shared_thread_pool
from ascpipe.tf.serving.served_tables import Written

STEM = ".stock"  #: path prefix of the TensorFlow checkpoint, after the table name
INDEX = ".index"  #: suffix of the first file of a TensorFlow checkpoint

DTYPES = ("float32", "float16", "int8")  #: dtypes of rows

_PART_BYTES = 32 << 20  # bytes of rows that are written together
_MAX_INT8 = 127


def names_of(dtype: str) -> List[str]:
    """Return the names of the tensors that have one entry for each row."""
    return ["rows", "scales"] if dtype == "int8" else ["rows"]


def write_stock_files(checkpoint: Checkpoint, table: str, folder: str, dtype: str) -> Written:
    """Write the keys that evaluation lookups can find, and the embeddings of these keys.

    This needs 16 bytes of memory per key, and 200 MiB.

    Args:
        checkpoint: an open, verified checkpoint. A delta is merged with its ancestors.
        table: a table of the checkpoint.
        folder: existing directory for the files.
        dtype: one of ``DTYPES``.

    Raises:
        DamagedCheckpointError: the checkpoint has changed since it was verified.
        OSError: a file cannot be written.
        ServingError: ``dtype`` cannot represent a row.
    """
    spec = checkpoint.tables[table]
    keys = np.concatenate([np.empty(0, np.int64), *(keys for keys, in shown_blocks(checkpoint, spec, parts=0))])
    stem = os.path.join(folder, table + STEM)
    try:
        names, seal = _write(checkpoint, spec, keys, stem, dtype)
        with disk.closing(disk.open_directory(folder)) as directory:
            for name in names:
                with disk.closing(disk.open_file(directory, name)) as fd:
                    disk.sync(fd)
    except BaseException:
        for path in glob.glob(glob.escape(stem) + ".*"):
            with contextlib.suppress(OSError):  # do not replace the first error
                os.unlink(path)
        raise
    return Written(len(keys), seal, tuple(names))


def _write(checkpoint: Checkpoint, spec: TableSpec, keys: np.ndarray, stem: str, dtype: str) -> Tuple[List[str], int]:
    """Write the TensorFlow checkpoint ``stem``. Return the names of the checkpoint's files, and the seal."""
    with temporary_folder(stem + "-") as parts, tf.Graph().as_default() as graph, without_shared_thread_pool():
        writer = _Writer(graph, parts, dtype)
        with tf.compat.v1.Session(graph=graph) as session:
            try:
                # TensorFlow does not support empty hash tables. In an empty table, key 0 refers to the row of zeros.
                listed = keys if keys.size else np.zeros(1, np.int64)
                writer.write(session, ["keys"], [listed], 0, len(listed))
                start = 0
                for arrays in _parts(checkpoint, spec, dtype):
                    writer.write(session, names_of(dtype), arrays, start, len(keys) + 1)
                    start += len(arrays[0])
                names = writer.finish(session, stem)
            except tf.errors.OpError as error:
                raise OSError("TensorFlow cannot write the files: {}".format(error.message)) from error
    return names, writer.seal()


class _Writer:
    """Writer of slices of tensors.

    The slices are written to several TensorFlow checkpoints, which are merged at the end.
    """

    def __init__(self, graph: tf.Graph, folder: str, dtype: str) -> None:
        self._folder = folder
        self._parts: List[str] = []
        self._digest = StreamDigest()
        with graph.as_default():
            self._prefix = tf.compat.v1.placeholder(tf.string, [])
            self._prefixes = tf.compat.v1.placeholder(tf.string, [None])
            self._slices = tf.compat.v1.placeholder(tf.string, [None])
            self._saves = {}
            for names, dtypes in ((["keys"], ["int64"]), (["seal"], ["int64"]),
                                  (names_of(dtype), [dtype, "float32"][:len(names_of(dtype))])):
                tensors = [tf.compat.v1.placeholder(each) for each in dtypes]
                self._saves[names[0]] = tensors, tf.raw_ops.SaveV2(
                    prefix=self._prefix, tensor_names=names, shape_and_slices=self._slices, tensors=tensors)
            self._merge = tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=self._prefixes, destination_prefix=self._prefix, delete_old_dirs=False)

    def write(self, session: tf.compat.v1.Session, names: Sequence[str], arrays: Sequence[np.ndarray], start: int,
              total: int) -> None:
        """Write entries [start, start + len(arrays[0])) of tensors that have ``total`` entries."""
        slices = []
        for array in arrays:
            self._digest.update(memoryview(np.ascontiguousarray(array)).cast("B"))
            slices.append("{} {},{}{}".format(
                " ".join(map(str, (total, *array.shape[1:]))), start, len(array), ":-" * (array.ndim - 1)))
        self._save(session, names[0], arrays, slices)

    def finish(self, session: tf.compat.v1.Session, stem: str) -> List[str]:
        """Write the seal, and merge the parts into the checkpoint ``stem``. Return the names of the files."""
        self._save(session, "seal", [np.array(self.seal())], [""])
        session.run(self._merge, {self._prefixes: self._parts, self._prefix: stem})
        base = os.path.basename(stem)
        data = ["{}.data-{:05d}-of-{:05d}".format(base, part, len(self._parts)) for part in range(len(self._parts))]
        return [base + INDEX, *data]

    def seal(self) -> int:
        """Return the CRC-32 of the checksums of the tensors that were written."""
        sums = StreamDigest()
        sums.update(self._digest.sums())
        return int.from_bytes(sums.sums(), "little")

    def _save(self, session: tf.compat.v1.Session, name: str, arrays: Sequence[np.ndarray],
              slices: Sequence[str]) -> None:
        tensors, save = self._saves[name]
        self._parts.append(os.path.join(self._folder, str(len(self._parts))))
        session.run(save, {self._prefix: self._parts[-1], self._slices: slices, **dict(zip(tensors, arrays))})


def _parts(checkpoint: Checkpoint, spec: TableSpec, dtype: str) -> Iterator[List[np.ndarray]]:
    """Yield the tensors whose names ``names_of`` returns, in parts of about ``_PART_BYTES`` bytes.

    The last row contains zeros.
    """
    end = [np.zeros(1, np.int64), np.zeros((1, spec.dim), np.float32)]
    waiting: List[Sequence[np.ndarray]] = []
    size = 0
    for keys, rows in itertools.chain(shown_blocks(checkpoint, spec, parts=1), [end]):
        waiting.append(encoded(spec.name, keys, rows, dtype))
        size += sum(array.nbytes for array in waiting[-1])
        if size >= _PART_BYTES or rows is end[1]:
            yield [np.concatenate(arrays) for arrays in zip(*waiting)]
            waiting = []
            size = 0


def encoded(table: str, keys: np.ndarray, rows: np.ndarray, dtype: str) -> Tuple[np.ndarray, ...]:
    """Convert rows to ``dtype``. For int8, also return the scales, float32[n].

    The value of an int8 element is the stored number multiplied by the scale of its row.

    The rounding error of a float16 element is at most 2^-11 of its magnitude, or 2^-25 if this is larger. The rounding
    error of an int8 element is at most 1/253 of the largest magnitude in its row.

    Args:
        table, keys: name of the table and keys of the rows, for errors.
        rows: float32[n, dim].

    Raises:
        ServingError: a row has a value that ``dtype`` cannot represent.
    """
    if dtype == "float32":
        return (rows,)
    largest = np.abs(rows).max(axis=1)
    limit = float(np.finfo(np.float16 if dtype == "float16" else np.float32).max)
    with np.errstate(invalid="ignore"):  # the comparison is False for NaN
        bad = np.flatnonzero(~(largest <= limit))
    if bad.size:
        raise ServingError("Table {!r} was not exported with {} rows: the row of key {} has the value {}, but the "
                           "largest magnitude of {} rows is {}. The checkpoint is unchanged. Export with "
                           "dtype=\"float32\"".format(table, dtype, keys[bad[0]], largest[bad[0]], dtype, limit))
    if dtype == "float16":
        return (rows.astype(np.float16),)
    scales = largest / np.float32(_MAX_INT8)
    whole = np.rint(rows / np.where(scales > 0, scales, np.float32(1))[:, np.newaxis])
    return np.clip(whole, -_MAX_INT8, _MAX_INT8).astype(np.int8), scales


def require_stock_ops(definition: Any) -> None:
    """Raise ``ServingError`` if a ``GraphDef`` or one of its functions contains ops of ascpipe."""
    nodes = itertools.chain(definition.node, *(function.node_def for function in definition.library.function))
    found = sorted({"{} ({!r})".format(node.op, node.name) for node in nodes if node.op.startswith("Asc")})
    if found:
        raise ServingError(
            "The graph that was exported with ops=\"stock\" has ops of ascpipe: {}{}. A server without the op library "
            "cannot load the SavedModel. Delete the SavedModel. Build the model for serving without these ops, or "
            "export with ops=\"ascpipe\"".format(
                ", ".join(found[:3]), " and {} more".format(len(found) - 3) if len(found) > 3 else ""))
