"""Verification of all files, keys and counts of a checkpoint."""
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint import disk, table_folders
from ascpipe.checkpoint.contents import INT_BYTES, WHOLE, Slice, TableSpec
from ascpipe.checkpoint.digests import file_digest
from ascpipe.checkpoint.keys import belongs, bytes_to_find_repeated, repeated
from ascpipe.checkpoint.manifest import MAX_BYTES, SavedFile
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.checkpoint.paths import DENSE
from ascpipe.checkpoint.table_folders import KEY, Piece, all_pieces, key_pieces
from ascpipe.checkpoint.tree import Records, Tree

_THREADS = 4
_STACK_BYTES = 8 << 20  #: stack size of one thread with the default limit
_BLOCK = 1 << 17  #: number of keys or counts checked at a time

Stamps = Dict[Tuple[str, str], disk.Stamp]  #: stamps of the data files of a slice, by table and folder


class Scope(NamedTuple):
    """Parts of a checkpoint to verify. The records, the keys and the counts are always verified.

    Attributes:
        pieces: function that returns the other pieces to verify, by table and rank. It may also return keys and counts.
        dense: whether the variables are verified.
    """

    pieces: Callable[[TableSpec, int], Sequence[Piece]]
    dense: bool


EVERYTHING = Scope(all_pieces, dense=True)
ONLY_KEYS = Scope(lambda spec, rank: (), dense=False)


def verified(tree: Tree, scope: Scope = EVERYTHING) -> Tuple[Records, List[Stamps]]:
    """Verify a checkpoint.

    Returns:
        The records, and for each slice the stamps of the verified files.

    Raises:
        DamagedCheckpointError: the checkpoint differs from the saved data.
        NoMemoryToReadError: the keys do not fit into memory.
    """
    with memory_for(tree.place.prefix, "its records", MAX_BYTES):
        records = tree.records()
    with memory_for(tree.place.prefix, "the threads that verify it", _THREADS * _STACK_BYTES):
        return records, _stamps(tree, records, scope)


def _stamps(tree: Tree, records: Records, scope: Scope) -> List[Stamps]:
    slices = records.manifest.slices
    stamps: List[Dict[Tuple[str, str], Future[disk.Stamp]]] = [{} for _ in slices]
    # One thread reads each file sequentially, to use the kernel's readahead. Several files are read in parallel.
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as readers, ThreadPoolExecutor(1) as beside:
        checks: List[Future[Any]] = []
        for rank, content in enumerate(slices):
            part = Slice(rank, len(slices))
            of_slice = stamps[rank]
            for spec in content.tables:
                keys = key_pieces(spec)
                for piece in dict.fromkeys([*keys, *scope.pieces(spec, rank)]):
                    of_slice[spec.name, piece.folder] = readers.submit(
                        _verify_piece, tree, part, content.data[spec.name][piece.folder], spec, piece)
                checks.append(beside.submit(_check_when_read, [of_slice[spec.name, piece.folder] for piece in keys],
                                            tree, spec, {piece.folder: piece for piece in keys}, part))
        for name, saved in records.pair.dense.items() if scope.dense else ():
            checks.append(readers.submit(_verify_file, tree, (DENSE, name), saved))
        try:
            for outcome in checks:
                outcome.result()
            return [{names: stamp.result() for names, stamp in of_slice.items()} for of_slice in stamps]
        except BaseException:
            for task in [*checks, *(stamp for of_slice in stamps for stamp in of_slice.values())]:
                task.cancel()  # a check has failed
            raise


def _check_when_read(parts: Sequence["Future[disk.Stamp]"], tree: Tree, spec: TableSpec,
                     there: Dict[str, Piece], of: Slice) -> None:
    for part in parts:
        part.result()
    check_table(tree, spec, there, of)


def _verify_piece(tree: Tree, part: Slice, saved: SavedFile, spec: TableSpec, piece: Piece) -> disk.Stamp:
    names = (spec.name, piece.folder)
    tree.check_content((*names, part.attribute), piece.attribute)
    return _verify_file(tree, (*names, part.data), saved)


def _verify_file(tree: Tree, names: Tuple[str, ...], saved: SavedFile) -> disk.Stamp:
    with tree.file(names) as file:
        stamp = disk.stamp(file)
        if stamp.size != saved.size:
            raise tree.damaged(os.path.join(*names), "it has {} bytes, but {} were saved".format(
                stamp.size, saved.size))
        if file_digest(file, saved.size) != saved.digest:
            raise tree.damaged(os.path.join(*names), "its {} bytes differ from the saved bytes".format(saved.size))
        return stamp


def check_table(tree: Tree, spec: TableSpec, there: Dict[str, Piece], part: Slice = WHOLE) -> None:
    """Check that keys are unique and belong to the slice, and that counts and timestamps are not negative.

    Args:
        there: pieces by folder name; the caller has checked the file lengths.

    Raises:
        DamagedCheckpointError: a check failed.
        NoMemoryToReadError: the keys do not fit into memory.
    """
    for folder in table_folders.COUNTS:
        if folder in there:
            _check_not_below_0(tree, (spec.name, folder, part.data), there[folder].rows)
    keys = _keys_of(tree, spec.name, [there[folder] for folder in table_folders.KEYS if folder in there], part)
    with memory_for(tree.place.prefix, "the checks of the keys of table {!r}".format(spec.name),
                    keys.nbytes + bytes_to_find_repeated(keys)):
        double = repeated(keys)
    if double is not None:
        raise tree.damaged(os.path.join(spec.name, KEY, part.data), "key {} occurs twice".format(double))


def _check_not_below_0(tree: Tree, names: Tuple[str, str, str], count: int) -> None:
    with tree.file(names) as file:
        values = np.empty(min(count, _BLOCK), np.int64)
        for start in range(0, count, _BLOCK):
            block = values[:count - start]
            disk.read_into(file, start * INT_BYTES, block)
            if int(block.min()) < 0:
                raise tree.damaged(os.path.join(*names), "the value {} at index {} is below 0".format(
                    int(block.min()), start + int(block.argmin())))


def _keys_of(tree: Tree, table: str, pieces: Sequence[Piece], part: Slice) -> np.ndarray:
    """Return the keys of the folders as int64[n]. Raise ``DamagedCheckpointError`` if a key belongs to another rank."""
    count = sum(piece.rows for piece in pieces)
    with memory_for(tree.place.prefix, "the keys of table {!r}".format(table), INT_BYTES * count):
        keys = np.empty(count, np.int64)
        start = 0
        for piece in pieces:
            own, start = keys[start:start + piece.rows], start + piece.rows
            with tree.file((table, piece.folder, part.data)) as file:
                if piece.rows:
                    disk.read_into(file, 0, own)
        for block in (keys[first:first + _BLOCK] for first in range(0, start if part.ranks > 1 else 0, _BLOCK)):
            foreign = block[~belongs(block, part.rank, part.ranks)]
            if len(foreign):
                raise tree.damaged(os.path.join(table, KEY, part.data),
                                   "key {} does not belong to rank {} of {}".format(foreign[0], part.rank, part.ranks))
    return keys


def read_all(tree: Tree, table: str, piece: Piece, part: Slice = WHOLE) -> np.ndarray:
    """Return the content of a folder's data file as int64[rows] or float32[rows, width].

    The caller has checked the file length.

    Raises:
        DamagedCheckpointError: the file cannot be read.
        NoMemoryToReadError: the array does not fit into memory.
    """
    names = (table, piece.folder, part.data)
    with tree.file(names) as file, memory_for(tree.place.prefix, os.path.join(*names), piece.data_bytes):
        values = np.empty((piece.rows, piece.width) if piece.width else piece.rows, piece.dtype)
        if values.size:
            disk.read_into(file, 0, values)
    return values
