"""Export of the rows of one table."""
import contextlib
import os
import secrets
import shutil
from typing import Callable, Iterator, List, NamedTuple, Optional

import numpy as np

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.contents import INT_BYTES, TableSpec
from ascpipe.checkpoint.errors import CheckpointMismatchError, RowsNotExportedError
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.checkpoint.paths import checked_directory
from ascpipe.checkpoint.reader import open_table
from ascpipe.checkpoint.table_folders import Piece
from ascpipe.checkpoint.tree import why
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.rows import manifest, writers
from ascpipe.rows.columns import FLOAT16, FLOAT32, FORMATS, KEY, NPY, PARQUET, Column, columns_of, files_of, pieces_of
from ascpipe.rows.conditions import Condition, parsed
from ascpipe.rows.manifest import Exported
from ascpipe.rows.sorting import Arrays, Room, in_key_order, temporary_rooms

Progress = Callable[[int, int], None]  #: (rows written so far, total number of rows)


class Request(NamedTuple):
    """Parameters of an export.

    Attributes:
        prefix: ``dir/base-step`` of the checkpoint.
        table: name of the table.
        to: path of the new directory.
        file_format: ``parquet``, ``npy`` or ``tsv``.
        slots: whether to write optimizer slots.
        counts: whether to write counts and timestamps.
        where: condition, or None for all rows.
        dtype: ``float32`` or ``float16``.
    """

    prefix: str
    table: str
    to: str
    file_format: str = PARQUET
    slots: bool = False
    counts: bool = False
    where: Optional[str] = None
    dtype: str = FLOAT32


def exported(request: Request, progress: Optional[Progress] = None) -> Exported:
    """Write the rows of a table to files. The rows are sorted by key. The new directory becomes visible when all its
    files are complete. Missing parents of the directory are created.

    Args:
        progress: called after each block of rows.

    Raises:
        ArgumentError: a value of the request is not allowed.
        CheckpointError: the checkpoint is missing or damaged, does not have the table, or the files cannot be written.
        ParquetMissingError: pyarrow is not installed.
    """
    if request.file_format not in FORMATS or request.dtype not in (FLOAT32, FLOAT16):
        raise ArgumentError("Format {} or type {} is not allowed. Nothing was written. The formats are {}, and the "
                            "types are float32 and float16".format(shown(request.file_format), shown(request.dtype),
                                                                   ", ".join(FORMATS)))
    condition = parsed(request.where)
    path = os.path.abspath(request.to)
    folder, name = os.path.split(path)
    checked_directory(folder)
    if os.path.lexists(path):
        raise _failure(request, "it exists. Pass the path of a new directory")
    writers.check(request.file_format, request.dtype, request.to)
    with open_table(request.prefix, request.table, lambda spec: _pieces(request, spec)) as checkpoint:
        spec = table_of(checkpoint, request.table)
        beside = os.path.join(folder, ".{}.{}.tmp".format(name, secrets.token_hex(4)))
        try:
            disk.make_path(folder)
            os.mkdir(beside, disk.DIRECTORY_MODE)
            try:
                found = _write(request, checkpoint, spec, condition, beside, progress)
                if os.path.lexists(path):
                    raise _failure(request, "another process created it. Pass the path of a new directory")
                os.rename(beside, path)
            except BaseException:
                shutil.rmtree(beside, ignore_errors=True)
                raise
            with disk.closing(disk.open_directory(folder)) as fd:
                disk.sync(fd)
        except OSError as error:
            raise _failure(request, "{}. Check the directory and its free space".format(why(error))) from error
    return found


def table_of(checkpoint: Checkpoint, table: str) -> TableSpec:
    """Return the spec of a table. Raise ``CheckpointMismatchError`` if the checkpoint does not contain the table."""
    spec = checkpoint.tables.get(table)
    if spec is None:
        raise CheckpointMismatchError(checkpoint.prefix, table, "is not in it; it has {}".format(
            ", ".join(checkpoint.tables) or "no tables"))
    return spec


def _pieces(request: Request, spec: TableSpec) -> List[Piece]:
    return pieces_of(spec, [column.name for column in _columns(request, spec)])


def _columns(request: Request, spec: TableSpec) -> List[Column]:
    return columns_of(spec, slots=request.slots, counts=request.counts, dtype=request.dtype)


def _write(request: Request, checkpoint: Checkpoint, spec: TableSpec, condition: Condition, folder: str,
           progress: Optional[Progress]) -> Exported:
    columns = _columns(request, spec)
    with memory_for(checkpoint.prefix, "the keys of table {!r}".format(spec.name), 2 * INT_BYTES * spec.rows):
        keys = [_keys(checkpoint, spec.name, condition)]
    rows = len(keys[0])
    names = files_of(request.file_format, columns)
    with contextlib.ExitStack() as opened:
        fd = opened.enter_context(disk.closing(disk.open_directory(folder)))
        fds = [opened.enter_context(disk.closing(disk.create_file(fd, file))) for file in names]
        files = [writers.DigestFile(one) for one in fds]
        writers.begin(request.file_format, files, columns, rows)
        room = [Room(*place) for place in zip(fds, (file.tell() for file in files))]
        blocks = in_key_order(
            lambda: _blocks(request, checkpoint, columns, condition), keys, columns,
            lambda: contextlib.nullcontext(room) if request.file_format == NPY
            else temporary_rooms(folder, columns, rows))
        writers.write(request.file_format, files, columns, _told(blocks, rows, progress))
        saved = {file: written.saved() for file, written in zip(names, files)}
        found = Exported(request.file_format, spec.name, spec.dim, request.dtype, columns, rows, saved,
                         os.path.basename(checkpoint.prefix), checkpoint.step, request.where)
        disk.write_file(fd, manifest.NAME, manifest.encoded(found))
        disk.sync_all([*fds, fd])
    return found


def _keys(checkpoint: Checkpoint, table: str, condition: Condition) -> np.ndarray:
    names = list(dict.fromkeys([KEY, *condition.columns]))
    found = [np.empty(0, np.int64)]
    for arrays in checkpoint.arrays(table, lambda spec: pieces_of(spec, names)):
        held = condition.holds(dict(zip(names, arrays)))
        found.append(arrays[0] if held.all() else arrays[0][held])
    return np.concatenate(found)


def _blocks(request: Request, checkpoint: Checkpoint, columns: List[Column],
            condition: Condition) -> Iterator[Arrays]:
    """Yield the rows of the export in the order of the checkpoint."""
    names = [column.name for column in columns]
    needed = list(dict.fromkeys([*names, *condition.columns]))
    for arrays in checkpoint.arrays(request.table, lambda spec: pieces_of(spec, needed)):
        held = condition.holds(dict(zip(needed, arrays)))
        if not held.all():
            arrays = [values[held] for values in arrays]
        if len(arrays[0]):
            yield [_converted(request, column, values, arrays[0]) for column, values in zip(columns, arrays)]


def _converted(request: Request, column: Column, values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    if column.dtype != FLOAT16:
        return values
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    wrong = np.isinf(halves) & np.isfinite(values)
    if wrong.any():
        row, place = (int(index[0]) for index in np.nonzero(wrong))
        raise _failure(request, "the value {} in column {} of key {} is too large for float16. Use float32".format(
            values[row, place], column.name, keys[row]))
    return halves


def _told(blocks: Iterator[Arrays], rows: int, progress: Optional[Progress]) -> Iterator[Arrays]:
    done = 0
    for arrays in blocks:
        yield arrays
        done += len(arrays[0])
        if progress is not None:
            progress(done, rows)


def _failure(request: Request, reason: str) -> RowsNotExportedError:
    return RowsNotExportedError(request.prefix, request.table, request.to, reason)
