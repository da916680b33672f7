"""Export of a checkpoint's tables as files for ``np.load`` (docs/how-to/warm_start.md)."""
import contextlib
import functools
import logging
import os
from typing import BinaryIO, Callable, Dict, List, Optional, Sequence

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import CheckpointError
from ascpipe.checkpoint.reader import Checkpoint, open_checkpoint
from ascpipe.checkpoint.tree import Tree, open_tree, why
from ascpipe.errors import SaverError
from ascpipe.tf.checkpoints.saving import Checkpoints
from ascpipe.tf.clean_up import end_quietly
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import ListOf, Text, boolean, checked

_log = logging.getLogger(__name__)

ARRAY = "key-emb-array.npy"  #: structured array with fields ``key`` (int64) and ``embedding`` (float32[dim])
DICT = "key-emb.npy"  #: file in Rec SDK's format: an array with one object, a dict from key to vector


@checked(table_list=ListOf(Text(1, 100), optional=True))
def export(table_list: Optional[Sequence[str]] = None) -> None:
    """Export tables from the last checkpoint that was saved since ``init``. The function also writes files in Rec SDK's
    format.

    Args:
        table_list: names of tables, or None for all tables. A warning is logged for a table that is not in the
            checkpoint.

    Raises:
        ValueError: an argument has the wrong type.
        RuntimeError: nothing was saved yet.
        CheckpointError: the same errors as in ``export_tables``.
    """
    prefix = Checkpoints.of(Process.current()).last_saved
    if prefix is None:
        raise SaverError("export() found no checkpoint, because nothing was saved since asc.init(). Save first, or "
                         "call asc.export_tables() with a checkpoint")
    export_tables(prefix, table_list, with_dict=True)


@checked(table_list=ListOf(Text(1, 100), optional=True), with_dict=boolean(), allow_unverified=boolean())
def export_tables(prefix: str, table_list: Optional[Sequence[str]] = None, *, with_dict: bool = False,
                  allow_unverified: bool = False) -> List[str]:
    """Verify a checkpoint. For each table, write a file with keys and embeddings into the checkpoint's directory.

    Existing files are replaced atomically. Restores ignore the files. The files are deleted with the checkpoint.

    Args:
        prefix: ``dir/base-step`` of the checkpoint.
        table_list: as in ``export``.
        with_dict: True to also write a file with a pickled dict. The dict needs about 200 bytes of memory per key.
        allow_unverified: True to accept a checkpoint without a manifest of ascpipe, such as a checkpoint of Rec SDK.

    Returns:
        Paths of the files for ``np.load(path)``. Each file contains a structured array with the fields ``key`` and
        ``embedding``.

    Raises:
        CheckpointError: the checkpoint is missing, damaged or unverified, or a file cannot be written. In the last
            case, an existing file is unchanged.
    """
    with open_checkpoint(prefix, allow_unverified=allow_unverified) as checkpoint:
        names = list(dict.fromkeys(table_list or checkpoint.tables))
        unknown = [name for name in names if name not in checkpoint.tables]
        if unknown:
            _log.warning("tables not exported, because checkpoint %s does not have them: %s; it has %s", prefix,
                         ", ".join(unknown), ", ".join(checkpoint.tables))
        with contextlib.closing(open_tree(prefix)) as tree:
            return [_export(checkpoint, tree, name, with_dict) for name in names if name in checkpoint.tables]


def _export(checkpoint: Checkpoint, tree: Tree, table: str, with_dict: bool) -> str:
    _write(tree, table, ARRAY, lambda file: _write_array(file, checkpoint, table))
    if with_dict:
        _write(tree, table, DICT, lambda file: _write_dict(file, checkpoint, table))
    return os.path.join(tree.path, table, ARRAY)


def _write_array(file: BinaryIO, checkpoint: Checkpoint, table: str) -> None:
    spec = checkpoint.tables[table]
    dtype = np.dtype([("key", "<i8"), ("embedding", "<f4", (spec.dim,))])
    np.lib.format.write_array_header_1_0(file, {
        "descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (spec.rows,)})
    for block in checkpoint.blocks(table):
        records = np.empty(len(block.keys), dtype)
        records["key"] = block.keys
        records["embedding"] = block.rows[:, :spec.dim]
        file.write(records.view(np.uint8).data)


def _write_dict(file: BinaryIO, checkpoint: Checkpoint, table: str) -> None:
    vectors: Dict[int, np.ndarray] = {}
    for block in checkpoint.blocks(table):
        vectors.update(zip(block.keys.tolist(), block.rows[:, :checkpoint.tables[table].dim]))
    np.save(file, np.array(vectors, object))


def _write(tree: Tree, table: str, name: str, write: Callable[[BinaryIO], None]) -> None:
    """Write a temporary file, make it durable, and rename it."""
    temporary = ".tmp-" + name
    try:
        folder = disk.open_directory(table, tree.fd)
        try:
            disk.try_unlink(folder, temporary)  # a killed export may have left the file
            fd = disk.create_file(folder, temporary)
            try:
                with open(fd, "wb", closefd=False) as file:
                    write(file)
                disk.sync(fd)
                disk.rename(folder, temporary, name)
            except BaseException:
                end_quietly(functools.partial(disk.try_unlink, folder, temporary), "an export of " + table)
                raise
            finally:
                disk.close(fd)
            disk.sync(folder)
        finally:
            disk.close(folder)
    except OSError as error:
        path = os.path.join(tree.path, table, name)
        raise CheckpointError("Table {!r} was not exported to {}: {}. The checkpoint is unchanged. Remove the cause "
                              "and export again".format(table, path, why(error))) from error
